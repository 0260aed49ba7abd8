/* SPDX-License-Identifier: Apache-2.0 */
/* Makes text from other sources (names of programs, of devices) safe for a terminal and JSON. */
#ifndef WEFT_BASE_PRINTABLE_H
#define WEFT_BASE_PRINTABLE_H

/* Replaces, in place, each control character (C0, DEL, C1) and each byte that is not part of valid
 * UTF-8 (RFC 3629: no overlong form, no surrogate, nothing above U+10FFFF) by '?'. The result is
 * valid UTF-8 without control characters and not longer. Returns `text`. */
char *printable(char *text);

#endif
