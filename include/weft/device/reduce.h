/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of device code over teams: combine the members' sources, with the same bits at every
 * member. The size alone selects the algorithm, so that all members select the same: packets
 * (one-shot) for sizes that fit a slot of the team's staging buffer (state.h), slices (two-shot)
 * for larger ones. Teams in which some members cannot load and store each other's memory use a
 * third algorithm. See collective.h for teams and statuses. */
#ifndef WEFT_DEVICE_REDUCE_H
#define WEFT_DEVICE_REDUCE_H

#include <weft/device/reduce_algorithms.h>

/* int weft_{thread,warp,block}_allreduce(int team, void *dst, const void *src, size_t n,
 *                                        weft_type type, weft_op op)
 *     For each i < n, dst[i] becomes src[i] of all members combined by op, at every member with the
 *     same bits. dst and src are the same block or do not overlap.
 * int weft_{thread,warp,block}_reducescatter(int team, void *dst, const void *src, size_t n,
 *                                            weft_type type, weft_op op)
 *     Member m gets elements m * n ... m * n + n - 1 of the combined sources, in dst[0 ... n - 1].
 *     dst is these elements of src, or does not overlap src.
 * int weft_{thread,warp,block}_reduce(int team, void *dst, const void *src, size_t n,
 *                                     weft_type type, weft_op op, int root)
 *     As allreduce, but only the root gets the result. Every member passes dst, and only the root's
 *     is written. A call of another member returns when its source may be reused, which for a small
 *     reduction is as soon as it is sent.
 * int weft_{thread,warp,block}_allreduce_scaled(int team, void *dst, const void *src, size_t n,
 *                                               weft_type type, double factor)
 * int weft_{thread,warp,block}_reducescatter_scaled(...)
 * int weft_{thread,warp,block}_reduce_scaled(..., double factor, int root)
 *     The same by WEFT_SUM of elements that are first multiplied by the factor, as
 *     weft_allreduce_scaled() does; the factor is the same at every member. Where elements are
 *     combined in binary32, the factor is rounded to binary32.
 * int weft_{thread,warp,block}_allreduce_weighted(...)
 * int weft_{thread,warp,block}_reducescatter_weighted(...)
 * int weft_{thread,warp,block}_reduce_weighted(...)
 *     The same with each member's own factor for its elements, as weft_allreduce_weighted(). A
 *     small reduction takes the latency of the link once, as without a factor; before a large one
 *     the members exchange their factors.
 *
 * Types are those of the host API except WEFT_LONG_DOUBLE, and with a factor integers;
 * WEFT_DEV_HALF, _BFLOAT16, _FP8_E4M3 and _FP8_E5M2 are WEFT_HALF and so on. Elements are combined
 * in the order of the team, those of 16 and 8 bits in binary32, and rounded once: every algorithm,
 * scope and target, the host and streams give the same bits. */

/* ------------------------------------------------------------------------------- operations */

/* The check of a call, and each of its three algorithms (packets, slices, carried), are functions
 * that are not inlined and that make their own struct weft_dev_reduction from arguments by value.
 * Each keeps in registers only what it needs itself. In a block of 1024 threads each thread has 64
 * registers. */
WEFT_DEVICE void weft_dev_reduce_fill(struct weft_dev_reduction *r, void *dst, const void *src,
                                      size_t n, struct weft_dev_combining what)
{
    r->dst = (char *)dst;
    r->src = (const char *)src;
    r->bytes = n * weft_dev_type_bytes(what.type);
    r->how.type = what.type;
    r->how.op = what.op;
    r->how.widened = weft_dev_widened(what.type);
    r->how.more = r->how.widened == 16 || what.op >= WEFT_AVG;
    r->how.factor = what.factor;
    r->each = what.to == WEFT_DEV_EACH;
    r->root = what.to;
    r->weighted = what.weighted;
}

WEFT_DEVICE int weft_dev_reduce_operation(struct weft_dev_combining what)
{
    return what.to == WEFT_DEV_EACH ? WEFT_DEV_OP_REDUCESCATTER : WEFT_DEV_OP_ALLREDUCE;
}

WEFT_DEVICE int weft_dev_reduce_begin(struct weft_dev_reduction *r, int scope, int team, void *dst,
                                      const void *src, size_t n, struct weft_dev_combining what)
{
    weft_dev_reduce_fill(r, dst, src, n, what);
    int status = weft_dev_group_begin(&r->g, scope, team, weft_dev_reduce_operation(what));
    r->how.members = r->g.m.n;
    return status;
}

/* After the members have exchanged the factors of a weighted sum: finds these factors. */
WEFT_DEVICE void weft_dev_reduce_find_factors(struct weft_dev_reduction *r)
{
    const struct weft_dev_staging none = {0, 0, 0};
    r->factors = r->weighted ? weft_dev_word_staging(&r->g) : none;
}

WEFT_DEVICE int weft_dev_reduce_places(struct weft_dev_reduction *r)
{
    int status = weft_dev_place(&r->g, r->src, r->each ? r->bytes * (size_t)r->g.m.n : r->bytes,
                                &r->from_segment, &r->from);
    return status ? status : weft_dev_place(&r->g, r->dst, r->bytes, &r->to_segment, &r->to);
}

/* Members do not compare a factor that each has its own of. */
WEFT_DEVICE struct weft_dev_args weft_dev_reduce_compared(const struct weft_dev_reduction *r,
                                                          uint64_t n,
                                                          struct weft_dev_combining what)
{
    uint64_t bytes = weft_dev_times(n, weft_dev_type_bytes(what.type));
    uint64_t all = weft_dev_times(bytes, (uint64_t)(uint32_t)r->g.m.n), here = (uintptr_t)r->dst;
    struct weft_dev_args args = weft_dev_args_of(r->g.operation, bytes, what.to < 0 ? -1 : what.to);
    int writes = what.to < 0 || what.to == r->g.m.me;
    if (what.to == WEFT_DEV_EACH)
        here -= bytes * (uint64_t)(uint32_t)r->g.m.me;
    weft_dev_args_set_memory(&args, r->dst, bytes, r->src,
                             !writes                    ? 0
                             : what.to == WEFT_DEV_EACH ? all
                                                        : bytes,
                             here);
    args.from = args.src;
    if (what.to == WEFT_DEV_EACH) /* the address of the result is each member's own */
        args.to = 0;
    args.type = (int)what.type;
    args.op = (int)what.op + what.weighted;
    args.detail = what.op == WEFT_DEV_SCALED && !what.weighted ? weft_dev_bits_f64(what.factor) : 0;
    return args;
}

/* Returns WEFT_OK, or the error in type, operation or root, which it records. */
WEFT_DEVICE int weft_dev_reduce_args(const struct weft_dev_reduction *r,
                                     struct weft_dev_combining what)
{
    int status = !weft_dev_reducible(what.type, what.op)          ? WEFT_ERR_TYPE
                 : what.to < WEFT_DEV_EACH || what.to >= r->g.m.n ? WEFT_ERR_PE
                                                                  : WEFT_OK;
    return status ? weft_dev_refuse(r->g.operation, r->g.m.number, status, r->src, r->bytes,
                                    r->g.rank == 0)
                  : WEFT_OK;
}

/* The same for all arguments. */
WEFT_DEVICE_NOINLINE int weft_dev_reduce_check(int scope, int team, void *dst, const void *src,
                                               size_t n, struct weft_dev_combining what)
{
    struct weft_dev_reduction r;
    int status = weft_dev_reduce_begin(&r, scope, team, dst, src, n, what);
    if (!status)
        status = weft_dev_compare_if_checking(scope, team, weft_dev_reduce_compared(&r, n, what));
    if (!status)
        status = weft_dev_reduce_args(&r, what);
    return status ? status : weft_dev_reduce_places(&r);
}

WEFT_DEVICE_NOINLINE int weft_dev_reduce_small(int scope, int team, void *dst, const void *src,
                                               size_t n, struct weft_dev_combining what)
{
    struct weft_dev_reduction r;
    weft_dev_reduce_begin(&r, scope, team, dst, src, n, what);
    r.how.more = 0;
    r.how.widened = 0;
    return weft_dev_reduce_packets(&r, r.how, 0);
}

WEFT_DEVICE_NOINLINE int weft_dev_reduce_small_narrow(int scope, int team, void *dst,
                                                      const void *src, size_t n,
                                                      struct weft_dev_combining what)
{
    struct weft_dev_reduction r;
    weft_dev_reduce_begin(&r, scope, team, dst, src, n, what);
    r.how.more = 0;
    r.how.widened = 8;
    return weft_dev_reduce_packets(&r, r.how, 0);
}

WEFT_DEVICE_NOINLINE int weft_dev_reduce_small_more(int scope, int team, void *dst, const void *src,
                                                    size_t n, struct weft_dev_combining what)
{
    struct weft_dev_reduction r;
    weft_dev_reduce_begin(&r, scope, team, dst, src, n, what);
    return weft_dev_reduce_packets(&r, r.how, 0);
}

WEFT_DEVICE_NOINLINE int weft_dev_reduce_small_to(int scope, int team, void *dst, const void *src,
                                                  size_t n, struct weft_dev_combining what)
{
    struct weft_dev_reduction r;
    weft_dev_reduce_begin(&r, scope, team, dst, src, n, what);
    return weft_dev_reduce_packets(&r, r.how, 1);
}

/* The reduction is passed by its address, which keeps it in memory: the loop over the slices needs
 * the registers. */
WEFT_DEVICE_NOINLINE int weft_dev_reduce_large(int scope, int team, void *dst, const void *src,
                                               size_t n, struct weft_dev_combining what)
{
    struct weft_dev_reduction r;
    weft_dev_reduce_begin(&r, scope, team, dst, src, n, what);
    weft_dev_reduce_find_factors(&r);
    weft_dev_reduce_places(&r);
    return weft_dev_reduce_slices(&r);
}

/* The same for the host's operations except the average, on types of 16 bits and more. */
WEFT_DEVICE_NOINLINE int weft_dev_reduce_large_plain(int scope, int team, void *dst,
                                                     const void *src, size_t n,
                                                     struct weft_dev_combining what)
{
    struct weft_dev_reduction r;
    weft_dev_reduce_begin(&r, scope, team, dst, src, n, what);
    weft_dev_reduce_places(&r);
    return weft_dev_reduce_slices_plain(&r);
}

WEFT_DEVICE_NOINLINE int weft_dev_reduce_carried(int scope, int team, void *dst, const void *src,
                                                 size_t n, struct weft_dev_combining what)
{
    struct weft_dev_reduction r;
    weft_dev_reduce_begin(&r, scope, team, dst, src, n, what);
    weft_dev_reduce_find_factors(&r);
    return weft_dev_reduce_pieces(&r);
}

WEFT_DEVICE int weft_dev_reduce(int scope, int team, void *dst, const void *src, size_t n,
                                struct weft_dev_combining what)
{
    int status = weft_dev_reduce_check(scope, team, dst, src, n, what);
    if (status || !n)
        return status;
    int direct = weft_dev_team_all_direct(team);
    int small = weft_dev_reduce_is_small(team, n * weft_dev_type_bytes(what.type), what.weighted);
    if (what.weighted && !(direct && small))
        status = weft_dev_exchange_words(scope, team, weft_dev_reduce_operation(what),
                                         weft_dev_words_of(weft_dev_bits_f64(what.factor), 0));
    if (status)
        return status;
    if (!direct)
        return weft_dev_reduce_carried(scope, team, dst, src, n, what);
    if (!small)
        return weft_dev_reduce_large(scope, team, dst, src, n, what);
    if (what.to >= 0)
        return weft_dev_reduce_small_to(scope, team, dst, src, n, what);
    if (what.op >= WEFT_AVG || weft_dev_is_fp8(what.type))
        return weft_dev_reduce_small_more(scope, team, dst, src, n, what);
    return weft_dev_is_narrow(what.type)
               ? weft_dev_reduce_small_narrow(scope, team, dst, src, n, what)
               : weft_dev_reduce_small(scope, team, dst, src, n, what);
}

/* An `op` that is not of the host API becomes one that is refused. */
WEFT_DEVICE weft_op weft_dev_op_of(weft_op op)
{
    return (unsigned)op < WEFT_OP_COUNT ? op : WEFT_OP_COUNT;
}

/* A `root` that cannot be a member becomes one that is refused. */
WEFT_DEVICE int weft_dev_root_of(int root)
{
    return root < 0 ? WEFT_DEV_EACH - 1 : root;
}

#define WEFT_DEV_REDUCTIONS(scope, constant)                                                       \
    WEFT_DEVICE int weft_##scope##_allreduce(int team, void *dst, const void *src, size_t n,       \
                                             weft_type type, weft_op op)                           \
    {                                                                                              \
        struct weft_dev_combining what = {type, weft_dev_op_of(op), 0, WEFT_DEV_ALL, 0};           \
        return weft_dev_reduce(constant, team, dst, src, n, what);                                 \
    }                                                                                              \
    WEFT_DEVICE int weft_##scope##_reducescatter(int team, void *dst, const void *src, size_t n,   \
                                                 weft_type type, weft_op op)                       \
    {                                                                                              \
        struct weft_dev_combining what = {type, weft_dev_op_of(op), 0, WEFT_DEV_EACH, 0};          \
        return weft_dev_reduce(constant, team, dst, src, n, what);                                 \
    }                                                                                              \
    WEFT_DEVICE int weft_##scope##_reduce(int team, void *dst, const void *src, size_t n,          \
                                          weft_type type, weft_op op, int root)                    \
    {                                                                                              \
        struct weft_dev_combining what = {type, weft_dev_op_of(op), 0, weft_dev_root_of(root), 0}; \
        return weft_dev_reduce(constant, team, dst, src, n, what);                                 \
    }
WEFT_DEV_SCOPE_LIST(WEFT_DEV_REDUCTIONS)
#undef WEFT_DEV_REDUCTIONS

#define WEFT_DEV_SUMS(scope, constant, kind, weighted)                                             \
    WEFT_DEVICE int weft_##scope##_allreduce_##kind(int team, void *dst, const void *src,          \
                                                    size_t n, weft_type type, double factor)       \
    {                                                                                              \
        struct weft_dev_combining what = {type, WEFT_DEV_SCALED, factor, WEFT_DEV_ALL, weighted};  \
        return weft_dev_reduce(constant, team, dst, src, n, what);                                 \
    }                                                                                              \
    WEFT_DEVICE int weft_##scope##_reducescatter_##kind(int team, void *dst, const void *src,      \
                                                        size_t n, weft_type type, double factor)   \
    {                                                                                              \
        struct weft_dev_combining what = {type, WEFT_DEV_SCALED, factor, WEFT_DEV_EACH, weighted}; \
        return weft_dev_reduce(constant, team, dst, src, n, what);                                 \
    }                                                                                              \
    WEFT_DEVICE int weft_##scope##_reduce_##kind(int team, void *dst, const void *src, size_t n,   \
                                                 weft_type type, double factor, int root)          \
    {                                                                                              \
        struct weft_dev_combining what = {type, WEFT_DEV_SCALED, factor, weft_dev_root_of(root),   \
                                          weighted};                                               \
        return weft_dev_reduce(constant, team, dst, src, n, what);                                 \
    }
#define WEFT_DEV_SUMS_OF(scope, constant)                                                          \
    WEFT_DEV_SUMS(scope, constant, scaled, 0) WEFT_DEV_SUMS(scope, constant, weighted, 1)
WEFT_DEV_SCOPE_LIST(WEFT_DEV_SUMS_OF)
#undef WEFT_DEV_SUMS_OF
#undef WEFT_DEV_SUMS

#endif
