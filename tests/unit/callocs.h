/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the blocks of calloc() that are not yet freed, and can make a call of calloc() fail. For
 * tests that are linked with --wrap=calloc and --wrap=free. */
#ifndef WEFT_TESTS_UNIT_CALLOCS_H
#define WEFT_TESTS_UNIT_CALLOCS_H

#include <stdlib.h>

enum { CALLOCS_MOST = 64 };

static struct callocs {
    int left;   /* number of calls that succeed before one fails; -1 = all succeed */
    int memory; /* blocks not yet freed; at most CALLOCS_MOST are tracked at a time */
    void *blocks[CALLOCS_MOST];
} callocs = {.left = -1};

void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes)
{
    void *made = callocs.left-- ? __real_calloc(n, bytes) : NULL;
    for (int i = 0; i < CALLOCS_MOST && made; i++)
        if (!callocs.blocks[i]) {
            callocs.blocks[i] = made;
            callocs.memory++;
            break;
        }
    return made;
}

void __real_free(void *made);
void __wrap_free(void *made);
void __wrap_free(void *made)
{
    for (int i = 0; i < CALLOCS_MOST && made; i++)
        if (callocs.blocks[i] == made) {
            callocs.blocks[i] = NULL;
            callocs.memory--;
        }
    __real_free(made);
}

#endif
