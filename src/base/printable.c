/* SPDX-License-Identifier: Apache-2.0 */
/* See printable.h. */
#include "base/printable.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Length of the character at `at` in bytes; 0: it is not printable. */
static size_t character_bytes(const unsigned char *at)
{
    if (*at < 0x80)
        return *at >= 0x20 && *at != 0x7f;
    size_t bytes = *at >= 0xf0 ? 4 : *at >= 0xe0 ? 3 : 2;
    uint32_t least = bytes == 4 ? 0x10000 : bytes == 3 ? 0x800 : 0xa0; /* 0x80 to 0x9f: C1 */
    if (*at < 0xc2 || *at > 0xf4)
        return 0;
    uint32_t code = *at & (0xffu >> (bytes + 1));
    for (size_t i = 1; i < bytes; i++) {
        if ((at[i] & 0xc0) != 0x80) /* also refuses the end of the string */
            return 0;
        code = code << 6 | (at[i] & 0x3f);
    }
    bool surrogate = code >= 0xd800 && code <= 0xdfff;
    return code < least || surrogate || code > 0x10ffff ? 0 : bytes;
}

char *printable(char *text)
{
    unsigned char *to = (unsigned char *)text;
    while (*to >= 0x20 && *to < 0x7f)
        to++; /* mostly the whole text */
    for (const unsigned char *at = to; *at;) {
        size_t bytes = character_bytes(at);
        memmove(to, bytes ? (const void *)at : "?", bytes ? bytes : 1);
        to += bytes ? bytes : 1;
        at += bytes ? bytes : 1;
    }
    *to = '\0';
    return text;
}
