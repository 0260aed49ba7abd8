/* SPDX-License-Identifier: Apache-2.0 */
/* Checking mode of device code (WEFT_CHECK=1): the arguments of a collective that members compare,
 * and the errors that a member finds by itself. Knows neither teams nor how members exchange
 * arguments; staging.h does that. On a GPU it is compiled only in files with -DWEFT_DEVICE_CHECK,
 * because possible calls cost a kernel registers. */
#ifndef WEFT_DEVICE_CHECK_H
#define WEFT_DEVICE_CHECK_H

#include <weft/device/wait.h>

#if WEFT_TARGET_SIMT || defined WEFT_DEVICE_CHECK
#define WEFT_DEV_CHECKS 1
#else
#define WEFT_DEV_CHECKS 0
#endif

/* Arguments of a collective. Addresses are numbers; 0: none. */
struct weft_dev_args {
    int operation, type, op, root; /* 0, 0 and -1: the operation has none */
    uint64_t bytes;                /* 0: each member has its own */
    uint64_t detail;               /* strides, or the bits of a factor */
    uint64_t element;              /* bytes of an element, with strides */
    uint64_t to, from; /* symmetric addresses of dst and src that must be equal at all members */
    /* Range that this call writes, here or at other members, and range that it reads here. They
     * must not overlap, unless src is equal to `same`. */
    uint64_t dst, dst_bytes, src, src_bytes, same;
    int grid; /* 1: called by blocks of a grid; 0: by one thread, warp or block */
    enum weft_dev_wrong wrong;
};

WEFT_DEVICE struct weft_dev_args weft_dev_args_of(int operation, uint64_t bytes, int root)
{
    struct weft_dev_args args = {operation, 0, 0, root, bytes, 0, 0, 0,
                                 0,         0, 0, 0,    0,     0, 0, WEFT_DEV_WRONG_NOTHING};
    return args;
}

/* Sets the memory arguments. dst_bytes: 0 when only the address is known. src_bytes: 0 when this
 * member's src is not read. same: the only address at which src may overlap dst; 0: none. */
WEFT_DEVICE void weft_dev_args_set_memory(struct weft_dev_args *args, const void *dst,
                                          uint64_t dst_bytes, const void *src, uint64_t src_bytes,
                                          uint64_t same)
{
    args->dst = args->to = (uintptr_t)dst;
    args->dst_bytes = dst_bytes;
    args->src = (uintptr_t)src;
    args->src_bytes = src_bytes;
    args->same = same;
}

/* a * b, or the largest uint64_t when the product is larger. */
WEFT_DEVICE uint64_t weft_dev_times(uint64_t a, uint64_t b)
{
    return a && b > ~(uint64_t)0 / a ? ~(uint64_t)0 : a * b;
}

/* Whether [a, a + a_bytes) and [b, b + b_bytes) have a byte in common. */
WEFT_DEVICE int weft_dev_overlap(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes)
{
    return a_bytes && b_bytes && (a <= b ? b - a < a_bytes : a - b < b_bytes);
}

WEFT_DEVICE enum weft_dev_wrong weft_dev_args_check(const struct weft_dev_args *args)
{
    int segment;
    uint64_t offset;
    if (args->wrong)
        return args->wrong;
    if (args->dst_bytes && weft_dev_find((const void *)(uintptr_t)args->dst, args->dst_bytes,
                                         &segment, &offset) == WEFT_ERR_RANGE)
        return WEFT_DEV_WRONG_RANGE;
    int same = args->same && args->src == args->same;
    return !same && weft_dev_overlap(args->dst, args->dst_bytes, args->src, args->src_bytes)
               ? WEFT_DEV_WRONG_OVERLAP
               : WEFT_DEV_WRONG_NOTHING;
}

/* The form in which members compare an address: the same symmetric address gives the same number at
 * every PE. 0: no address. */
WEFT_DEVICE uint64_t weft_dev_arg_place(uint64_t address)
{
    int segment;
    uint64_t offset;
    if (!address || weft_dev_find((const void *)(uintptr_t)address, 1, &segment, &offset))
        return 0;
    return WEFT_DEV_PLACE(segment, offset);
}

/* Defined in staging.h. */
#ifndef WEFT_STATE_BY_POINTER
WEFT_DEVICE_NOINLINE int weft_dev_compare_args(int scope, int team, struct weft_dev_args args);
#endif

/* Compares the members' arguments; returns WEFT_OK or an error. All members get an error when one
 * does, but the codes may differ. Called by a scope whose group has begun. */
WEFT_DEVICE int weft_dev_compare_if_checking(int scope, int team, struct weft_dev_args args)
{
    if (!WEFT_DEV_CHECKS || WEFT_DEV_LIKELY(!weft_dev_state.checking))
        return WEFT_OK;
    return weft_dev_compare_args(scope, team, args);
}

#endif
