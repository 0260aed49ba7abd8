/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers of the test paths: the same sequence on every machine. */
#ifndef WEFT_PATH_TEST_RANDOM_H
#define WEFT_PATH_TEST_RANDOM_H

#include <stdint.h>

/* The next random number below `bound`; *state is the seed, and then the generator's state. */
static inline uint32_t random_below(uint32_t *state, uint32_t bound)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % bound;
}

#endif
