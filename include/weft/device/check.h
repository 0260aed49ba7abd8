/* SPDX-License-Identifier: Apache-2.0 */
/* Checking mode of device code (WEFT_CHECK=1): what a member is about to do in a collective, as it
 * is compared with the others', and what of it a member sees by itself. Knows neither teams nor how
 * members tell each other, which room.h does. On a GPU it is compiled in files with
 * -DWEFT_DEVICE_CHECK alone, since calls that may be made cost a kernel registers. */
#ifndef WEFT_DEVICE_CHECK_H
#define WEFT_DEVICE_CHECK_H

#include <weft/device/wait.h>

#if !defined __CUDACC__ || defined WEFT_DEVICE_CHECK
#define WEFT_DEV_CHECKS 1
#else
#define WEFT_DEV_CHECKS 0
#endif

/* Addresses as numbers, 0 where there is none. */
struct weft_dev_asked {
    int operation, type, op, root; /* 0, 0 and -1 where there are none */
    uint64_t bytes;                /* 0 where members have their own */
    uint64_t detail;               /* strides, or bits of a factor */
    uint64_t element;              /* with strides */
    uint64_t to, from; /* the same symmetric places at every member: of dst, and of src */
    /* What is written here or at others from here, and what is read here: they lie apart, or src is
     * `same`. */
    uint64_t dst, dst_bytes, src, src_bytes, same;
    int grid; /* 1: by blocks of a grid, 0: by one thread, warp or block */
    enum weft_dev_wrong wrong;
};

WEFT_DEVICE struct weft_dev_asked weft_dev_asked_of(int operation, uint64_t bytes, int root)
{
    struct weft_dev_asked asked = {operation, 0, 0, root, bytes, 0, 0, 0,
                                   0,         0, 0, 0,    0,     0, 0, WEFT_DEV_WRONG_NOTHING};
    return asked;
}

/* dst_bytes: 0 where no more than its place is known; src_bytes: 0 where this member's is not read.
 * same: where src may be though that is in dst, or dst in it; 0: nowhere. */
WEFT_DEVICE void weft_dev_asked_memory(struct weft_dev_asked *asked, const void *dst,
                                       uint64_t dst_bytes, const void *src, uint64_t src_bytes,
                                       uint64_t same)
{
    asked->dst = asked->to = (uintptr_t)dst;
    asked->dst_bytes = dst_bytes;
    asked->src = (uintptr_t)src;
    asked->src_bytes = src_bytes;
    asked->same = same;
}

/* a * b, or the largest number where that is more. */
WEFT_DEVICE uint64_t weft_dev_times(uint64_t a, uint64_t b)
{
    return a && b > UINT64_MAX / a ? UINT64_MAX : a * b;
}

/* Whether [a, a + a_bytes) and [b, b + b_bytes) have a byte in common. */
WEFT_DEVICE int weft_dev_overlap(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes)
{
    return a_bytes && b_bytes && (a <= b ? b - a < a_bytes : a - b < b_bytes);
}

WEFT_DEVICE enum weft_dev_wrong weft_dev_asked_wrong(const struct weft_dev_asked *asked)
{
    int segment;
    uint64_t offset;
    if (asked->wrong)
        return asked->wrong;
    if (asked->dst_bytes && weft_dev_find((const void *)(uintptr_t)asked->dst, asked->dst_bytes,
                                          &segment, &offset) == WEFT_ERR_RANGE)
        return WEFT_DEV_WRONG_RANGE;
    int same = asked->same && asked->src == asked->same;
    return !same && weft_dev_overlap(asked->dst, asked->dst_bytes, asked->src, asked->src_bytes)
               ? WEFT_DEV_WRONG_OVERLAP
               : WEFT_DEV_WRONG_NOTHING;
}

/* A place as it is compared: that of the same symmetric address is the same number at every PE; 0:
 * it is none. */
WEFT_DEVICE uint64_t weft_dev_place_told(uint64_t address)
{
    int segment;
    uint64_t offset;
    if (!address || weft_dev_find((const void *)(uintptr_t)address, 1, &segment, &offset))
        return 0;
    return WEFT_DEV_PLACE(segment, offset);
}

/* room.h */
WEFT_DEVICE_NOINLINE int weft_dev_compare_asked(int scope, int team, struct weft_dev_asked asked);

/* WEFT_OK, or, at all members alike but for what it is, what is wrong. By a scope whose group has
 * begun. */
WEFT_DEVICE int weft_dev_agree(int scope, int team, struct weft_dev_asked asked)
{
    if (!WEFT_DEV_CHECKS || WEFT_DEV_LIKELY(!weft_dev_state.checking))
        return WEFT_OK;
    return weft_dev_compare_asked(scope, team, asked);
}

#endif
