/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the OpenSHMEM tests: a check that prints its condition and ends the job, values that
 * differ by type, PE and index, and zeroed symmetric memory. */
#ifndef WEFT_TESTS_SHMEM_CHECK_H
#define WEFT_TESTS_SHMEM_CHECK_H

#include <shmem.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: PE %d: CHECK(%s) failed\n", __FILE__, __LINE__, shmem_my_pe(), \
                    #condition);                                                                   \
            shmem_global_exit(1);                                                                  \
        }                                                                                          \
    } while (0)

/* A small number that every type holds exactly. */
static inline int value_of(int pe, int index)
{
    return (pe * 11 + index * 3 + 1) % 100;
}

static inline void *symmetric(size_t bytes)
{
    void *block = shmem_calloc(bytes, 1);
    CHECK(block != NULL);
    return block;
}

/* Spins for a random time, so that PEs arrive in different orders. */
static inline void dawdle(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    for (unsigned spin = (*seed >> 16) % 2000; spin; spin--)
        __asm__ volatile("" ::: "memory");
}

#endif
