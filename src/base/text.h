/* SPDX-License-Identifier: Apache-2.0 */
/* Text that must fit a field, and words that were meant. */
#ifndef WEFT_BASE_TEXT_H
#define WEFT_BASE_TEXT_H

#include <stddef.h>

/* Copies the text. Text that does not fit is cut after the last whole word that fits, and " ..." is
 * appended. `to` may be the text itself. */
void base_shorten(char *to, size_t bytes, const char *text);

/* Number of letters inserted, deleted, replaced, or exchanged with their neighbour between two
 * words; of `b` the first 64 letters count. */
size_t base_spelling_distance(const char *a, const char *b);

/* The candidate nearest to the word; NULL: more than half of the word's letters differ. NULL
 * candidates are passed over. */
const char *base_nearest(const char *word, const char *const *candidates, size_t n);

#endif
