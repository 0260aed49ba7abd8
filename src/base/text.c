/* SPDX-License-Identifier: Apache-2.0 */
/* Shortening of text. See text.h. */
#include "base/text.h"

#include <string.h>

enum { LONGEST_WORD = 48 };

void base_shorten(char *to, size_t bytes, const char *text)
{
    static const char sign[] = " ...";
    size_t length = strlen(text), end;
    if (length < bytes) {
        memmove(to, text, length + 1);
        return;
    }
    if (bytes <= sizeof sign) {
        memmove(to, text, bytes);
        to[bytes ? bytes - 1 : 0] = '\0';
        return;
    }
    size_t most = bytes - sizeof sign, least = most > LONGEST_WORD ? most - LONGEST_WORD : 0;
    for (end = most; end > least && text[end] != ' '; end--)
        ;
    if (end == least) /* one long word */
        end = most;
    while (end && strchr(" ,;:(", text[end - 1]))
        end--;
    memmove(to, text, end);
    memcpy(to + end, sign, sizeof sign);
}
