/* SPDX-License-Identifier: Apache-2.0 */
/* Sentences that have to fit a field. */
#ifndef WEFT_BASE_TEXT_H
#define WEFT_BASE_TEXT_H

#include <stddef.h>

/* Copies the text. What does not fit ends behind its last whole word that does, with " ..." as the
 * sign of it. `to` may be the text itself. */
void base_shorten(char *to, size_t bytes, const char *text);

#endif
