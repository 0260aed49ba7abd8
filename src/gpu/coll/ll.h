/* SPDX-License-Identifier: Apache-2.0 */
/* LL: every 4 bytes of payload are stored together with a flag, the number of their round, one or
 * two such pairs in one store, so that data and flag arrive together: no fence, and no member waits
 * for a separate flag. (For links that deliver larger stores as a whole: ll128.h.)
 *
 *   one-shot (weft_coll_send, weft_coll_reduce_one): each member sends its block, or its whole
 *     vector, into its slot at each other member, and delivers or combines what it receives. One
 *     transfer over the link, 2 x (n - 1) x bytes out of each GPU. An exchange needs no flag; a
 *     member that only receives sends `here`, so that a root does not overrun it.
 *   two-shot (weft_coll_reduce_two): slice i of every member goes to member i, which combines the
 *     slices and sends the result to every member. Two transfers, 4 x (n - 1) / n x bytes.
 *
 * Slot sets are used in turn (round.h): a member may fill those of round k when all members
 * have ended round k - 2. */
#ifndef WEFT_GPU_COLL_PACKETS_H
#define WEFT_GPU_COLL_PACKETS_H

#include "gpu/coll/factors.h"
#include "gpu/coll/round.h"

/* Sends the units of this thread: to each member the units of the block for it. */
WEFT_DEVICE void units_send(const struct round *r, struct weft_dev_vec16 first, int first_of)
{
    const struct coll_call *c = r->c;
    uint64_t units = (c->bytes + COLL_UNIT - 1) / COLL_UNIT;
    for (uint64_t u = r->rank; u < units; u += r->threads) {
        struct weft_dev_vec16 v = first;
        int loaded = u == r->rank ? first_of : -1;
        for (int i = 0; i < c->members - 1; i++) {
            int member = rotated_member(c, i);
            if (!sends_to(c, member))
                continue;
            int of = c->src_step ? member : 0;
            if (of != loaded)
                v = weft_dev_unit_load(c->src + (uint64_t)of * c->src_step, c->bytes, u);
            loaded = of;
            ll_send_unit(ll_slot(r, member, c->me, c->members), u, v, unit_has_two(c->bytes, u),
                         r->ll_flag);
        }
    }
}

/* Fcollect, alltoall, broadcast, gather and scatter of data that fits into the slots. */
KERNEL weft_coll_send(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    const struct coll_call *c = &call;
    struct round r;
    uint64_t ticket = round_draw(c);
    int first_of = c->src_step ? rotated_member(c, 0) : 0;
    struct weft_dev_vec16 first = load_first_unit(c, first_of);
    if (round_begin(&r, c, ticket, shared))
        return;
    first = reload_first_unit(&r, first, first_of);
    if (c->flow != COLL_ALL)
        send_here(&r);
    await_slots(&r);
    units_send(&r, first, first_of);
    uint64_t units = (c->bytes + COLL_UNIT - 1) / COLL_UNIT;
    const char *mine = c->src + (uint64_t)c->me * c->src_step;
    char *to = c->dst + (uint64_t)c->me * c->dst_step;
    for (uint64_t u = r.rank; u < units && receives_from(c, c->me) && to != mine; u += r.threads)
        weft_dev_unit_deliver(to, c->bytes, u, weft_dev_unit_load(mine, c->bytes, u));
    for (uint64_t u = r.rank; u < units; u += r.threads) {
        int two = unit_has_two(c->bytes, u);
        for (int i = 0; i < c->members - 1; i += LOADED_TOGETHER) {
            struct ll_pair p[LOADED_TOGETHER];
            WEFT_UNROLL
            for (int k = 0; k < LOADED_TOGETHER; k++) {
                int member = rotated_member(c, i + k < c->members - 1 ? i + k : i);
                if (receives_from(c, member))
                    p[k] = ll_load_pair(ll_slot(&r, c->me, member, c->members), u, two);
            }
            WEFT_UNROLL
            for (int k = 0; k < LOADED_TOGETHER; k++) {
                int member = rotated_member(c, i + k < c->members - 1 ? i + k : i);
                if (i + k >= c->members - 1 || !receives_from(c, member))
                    continue;
                struct weft_dev_vec16 v =
                    ll_await_pair(&r, p[k], ll_slot(&r, c->me, member, c->members), u, two, member);
                if (!r.failed)
                    weft_dev_unit_deliver(c->dst + (uint64_t)member * c->dst_step, c->bytes, u, v);
            }
        }
    }
    if (c->flow == COLL_ALL)
        mark_all_begun(&r);
}

/* Waits for a member's packets `p` and combines its unit into `acc`. */
WEFT_DEVICE void member_combine(struct round *r, struct weft_dev_how h, struct weft_dev_wide *acc,
                                struct ll_pair p, struct weft_dev_vec16 mine, int slots,
                                uint64_t at, int two, int member)
{
    struct weft_dev_vec16 v = mine;
    h = member_reduction(r, h, member);
    if (member != r->c->me)
        v = ll_await_pair(r, p, ll_slot(r, r->c->me, member, slots), at, two, member);
    if (member)
        weft_dev_wide_add(h, acc, v);
    else
        weft_dev_wide_begin(h, acc, v);
}

/* Combines unit `at` of every member's slot in the order of the team. `mine`: this member's
 * unit. */
WEFT_DEVICE struct weft_dev_vec16 unit_combine(struct round *r, struct weft_dev_how h,
                                               struct weft_dev_vec16 mine, int slots, uint64_t at,
                                               int two)
{
    const struct coll_call *c = r->c;
    struct weft_dev_wide acc;
    struct weft_dev_vec16 nothing = {0, 0};
    weft_dev_wide_begin(h, &acc, nothing);
    for (int i = 0; i < c->members; i += LOADED_TOGETHER) {
        struct ll_pair p[LOADED_TOGETHER];
        WEFT_UNROLL
        for (int k = 0; k < LOADED_TOGETHER; k++)
            if (i + k < c->members && i + k != c->me)
                p[k] = ll_load_pair(ll_slot(r, c->me, i + k, slots), at, two);
        if (h.more) { /* not unrolled: the code is large */
            WEFT_NO_UNROLL
            for (int k = 0; k < LOADED_TOGETHER && i + k < c->members; k++) {
                member_combine(r, h, &acc, p[0], mine, slots, at, two, i + k);
                /* constant indices, so that the array stays in registers */
                p[0] = p[1];
                p[1] = p[2];
                p[2] = p[3];
            }
            continue;
        }
        WEFT_UNROLL
        for (int k = 0; k < LOADED_TOGETHER; k++) {
            if (i + k >= c->members)
                break;
            member_combine(r, h, &acc, p[k], mine, slots, at, two, i + k);
        }
    }
    return weft_dev_wide_end(h, &acc);
}

/* One-shot: every member's vector goes to every member (or to the root), or block i of it to member
 * i; the receivers combine. Each thread sends and combines the same units, so dst may be src. */
WEFT_DEVICE void reduce_one(const struct coll_call *c, uint64_t *shared, double *factors, int more)
{
    struct round r;
    uint64_t ticket = round_draw(c);
    struct weft_dev_how h = make_reduction(c, more);
    int first_of = c->src_step ? rotated_member(c, 0) : 0;
    struct weft_dev_vec16 first = load_first_unit(c, first_of);
    if (round_begin(&r, c, ticket, shared))
        return;
    first = reload_first_unit(&r, first, first_of);
    if (c->flow != COLL_ALL)
        send_here(&r);
    await_slots(&r);
    factors_send(&r, h);
    units_send(&r, first, first_of);
    factors_receive(&r, h, factors);
    uint64_t units = (c->bytes + COLL_UNIT - 1) / COLL_UNIT;
    const char *mine = c->src + (uint64_t)c->me * c->src_step;
    for (uint64_t u = r.rank; u < units && receives_from(c, c->me); u += r.threads) {
        struct weft_dev_vec16 v = first;
        if (u != r.rank || c->src_step)
            v = weft_dev_unit_load(mine, c->bytes, u);
        v = unit_combine(&r, h, v, c->members, u, unit_has_two(c->bytes, u));
        if (!r.failed)
            weft_dev_unit_deliver(c->dst, c->bytes, u, v);
    }
    if (c->flow == COLL_ALL)
        mark_all_begun(&r);
}

KERNEL weft_coll_reduce_one(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    reduce_one(&call, shared, 0, 0);
}

KERNEL_OF_512 weft_coll_reduce_one_more(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    WEFT_SHARED(double, factors, [COLL_MEMBERS]);
    reduce_one(&call, shared, factors, 1);
}

/* Returns the end of the units that member `member` combines: `slice` units, fewer for the last
 * members. */
WEFT_DEVICE uint64_t slice_end(uint64_t units, uint64_t slice, int member)
{
    uint64_t end = slice * ((uint64_t)member + 1);
    return end < units ? end : units;
}

/* Two-shot: slice i of every member goes to member i, which combines them and sends the result to
 * every member, into further slots. A thread has the same units of every slice in each step, so dst
 * may be src. No slice is empty. */
WEFT_DEVICE void reduce_two(const struct coll_call *c, uint64_t *shared, double *factors, int more)
{
    struct round r;
    uint64_t ticket = round_draw(c);
    struct weft_dev_how h = make_reduction(c, more);
    int n = c->members, slots = 2 * n;
    uint64_t units = (c->bytes + COLL_UNIT - 1) / COLL_UNIT, slice = (units + n - 1) / n;
    if (round_begin(&r, c, ticket, shared))
        return;
    await_slots(&r);
    factors_send(&r, h);
    for (uint64_t v = r.rank; v < slice; v += r.threads)
        for (int i = 0; i < n - 1; i++) {
            int member = rotated_member(c, i);
            uint64_t u = slice * (uint64_t)member + v;
            if (u < slice_end(units, slice, member))
                ll_send_unit(ll_slot(&r, member, c->me, slots), v,
                             weft_dev_unit_load(c->src, c->bytes, u), unit_has_two(c->bytes, u),
                             r.ll_flag);
        }
    factors_receive(&r, h, factors);
    for (uint64_t v = r.rank; v < slice; v += r.threads) {
        uint64_t u = slice * (uint64_t)c->me + v;
        if (u >= slice_end(units, slice, c->me))
            break;
        int two = unit_has_two(c->bytes, u);
        struct weft_dev_vec16 result =
            unit_combine(&r, h, weft_dev_unit_load(c->src, c->bytes, u), slots, v, two);
        if (r.failed)
            break;
        for (int i = 0; i < n - 1; i++)
            ll_send_unit(ll_slot(&r, rotated_member(c, i), n + c->me, slots), v, result, two,
                         r.ll_flag);
        weft_dev_unit_deliver(c->dst, c->bytes, u, result);
    }
    for (uint64_t v = r.rank; v < slice; v += r.threads)
        for (int i = 0; i < n - 1; i++) {
            int member = rotated_member(c, i);
            uint64_t u = slice * (uint64_t)member + v;
            if (u >= slice_end(units, slice, member))
                continue;
            int two = unit_has_two(c->bytes, u);
            const char *slot = ll_slot(&r, c->me, n + member, slots);
            struct weft_dev_vec16 result =
                ll_await_pair(&r, ll_load_pair(slot, v, two), slot, v, two, member);
            if (!r.failed)
                weft_dev_unit_deliver(c->dst, c->bytes, u, result);
        }
    mark_all_begun(&r);
}

KERNEL weft_coll_reduce_two(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    reduce_two(&call, shared, 0, 0);
}

KERNEL_OF_512 weft_coll_reduce_two_more(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    WEFT_SHARED(double, factors, [COLL_MEMBERS]);
    reduce_two(&call, shared, factors, 1);
}

#endif
