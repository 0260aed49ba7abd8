/* SPDX-License-Identifier: Apache-2.0 */
/* Loading and comparing variables of the integer types of waits. Signed values are compared as
 * unsigned ones after their sign bit is flipped, so there is one comparison for all. */
#ifndef WEFT_BASE_COMPARE_H
#define WEFT_BASE_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft.h>

static inline bool compare_holds(uint64_t seen, weft_cmp cmp, uint64_t value)
{
    switch (cmp) {
    case WEFT_EQ:
        return seen == value;
    case WEFT_NE:
        return seen != value;
    case WEFT_GT:
        return seen > value;
    case WEFT_LE:
        return seen <= value;
    case WEFT_LT:
        return seen < value;
    case WEFT_GE:
        return seen >= value;
    default:
        return false;
    }
}

/* Width in bytes (2, 4, 8) of a type that waits can compare; 0: waits cannot compare the type. */
static inline size_t compare_width(weft_type type)
{
    switch (type) {
    case WEFT_INT16:
    case WEFT_UINT16:
        return 2;
    case WEFT_INT32:
    case WEFT_UINT32:
        return 4;
    case WEFT_INT64:
    case WEFT_UINT64:
        return 8;
    default:
        return 0;
    }
}

static inline bool compare_signed(weft_type type)
{
    return type <= WEFT_INT64;
}

static inline uint64_t compare_flip(weft_type type)
{
    return compare_signed(type) ? 1ull << 63 : 0;
}

/* Acquire: what the writer did before its store is visible after this load. */
static inline uint64_t compare_load(weft_type type, const void *at)
{
    switch (type) {
    case WEFT_INT16:
        return (uint64_t)(int64_t)__atomic_load_n((const int16_t *)at, __ATOMIC_ACQUIRE);
    case WEFT_UINT16:
        return __atomic_load_n((const uint16_t *)at, __ATOMIC_ACQUIRE);
    case WEFT_INT32:
        return (uint64_t)(int64_t)__atomic_load_n((const int32_t *)at, __ATOMIC_ACQUIRE);
    case WEFT_UINT32:
        return __atomic_load_n((const uint32_t *)at, __ATOMIC_ACQUIRE);
    default:
        return __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE);
    }
}

#endif
