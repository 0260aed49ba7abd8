/* SPDX-License-Identifier: Apache-2.0 */
/* Shortening of text. See text.h. */
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>
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

size_t base_spelling_distance(const char *a, const char *b)
{
    size_t rows[3][65], n = strnlen(b, 64);
    size_t *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t *oldest = before;
        before = above;
        above = row;
        row = oldest;
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t best = above[j - 1] + (a[i - 1] != b[j - 1]);
            best = above[j] + 1 < best ? above[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            row[j] = swapped && before[j - 2] + 1 < best ? before[j - 2] + 1 : best;
        }
    }
    return row[n];
}

const char *base_nearest(const char *word, const char *const *candidates, size_t n)
{
    const char *best = NULL;
    size_t best_distance = strlen(word) / 2 + 1;
    for (size_t i = 0; i < n; i++) {
        size_t distance = candidates[i] ? base_spelling_distance(word, candidates[i]) : SIZE_MAX;
        if (distance < best_distance) {
            best_distance = distance;
            best = candidates[i];
        }
    }
    return best;
}
