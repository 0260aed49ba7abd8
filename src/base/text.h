/* SPDX-License-Identifier: Apache-2.0 */
/* Text that must fit a field. */
#ifndef WEFT_BASE_TEXT_H
#define WEFT_BASE_TEXT_H

#include <stddef.h>

/* Copies the text. Text that does not fit is cut after the last whole word that fits, and " ..." is
 * appended. `to` may be the text itself. */
void base_shorten(char *to, size_t bytes, const char *text);

#endif
