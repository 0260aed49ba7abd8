/* SPDX-License-Identifier: Apache-2.0 */
/* Values at which types differ: smallest, largest, negative, only the high bit, patterns. Integers
 * are truncated from 64 bits, so that each width gets its own smallest and largest value. */
#ifndef WEFT_TESTS_SHMEM_EXTREMES_H
#define WEFT_TESTS_SHMEM_EXTREMES_H

#include <float.h>
#include <limits.h>
#include <stdint.h>

#define IS_SIGNED(TYPE) ((TYPE)-1 < (TYPE)1)

/* The largest signed value of the type's width, and only the sign bit. */
#define LARGEST_BITS(TYPE) (UINT64_MAX >> (65 - 8 * sizeof(TYPE)))
#define SIGN_BIT(TYPE)     (UINT64_C(1) << (8 * sizeof(TYPE) - 1))

enum { EXTREMES = 12 };

/* Value `i` of 0 ... EXTREMES-1, converted to TYPE. The first one of a signed type is its smallest
 * value, the second its largest; of an unsigned type the middle and the value below it. */
#define EXTREME(TYPE, i)                                                                           \
    ((TYPE)((const uint64_t[EXTREMES]){SIGN_BIT(TYPE), LARGEST_BITS(TYPE), UINT64_MAX, 0, 1,       \
                                       SIGN_BIT(TYPE) + 1, LARGEST_BITS(TYPE) - 1, UINT64_MAX - 6, \
                                       UINT64_C(0xaaaaaaaaaaaaaaaa), UINT64_C(0x5555555555555555), \
                                       UINT64_C(0x8123456789abcdef),                               \
                                       UINT64_C(0x7edcba9876543210)})[(i) % EXTREMES])

/* Real values: the same for all three widths, so within the range of float. */
static const float real_extremes[EXTREMES] = {-FLT_MAX, FLT_MAX,   -FLT_MIN, FLT_MIN,
                                              -1.5f,    0.0f,      1e-30f,   -1e30f,
                                              3.25f,    -65536.5f, 7.0f,     -0.125f};

#endif
