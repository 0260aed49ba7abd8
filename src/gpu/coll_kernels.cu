/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives over GPUs that reach each other by load and store, for the host and for streams. Ways, told
 * apart by what a round costs besides its bytes (T: one trip over the link, about 0.8 us on NVLink 4; F: a fence
 * behind stores to peers, about 1.5 to 2 us):
 *
 *   packets, one trip   weft_coll_send, weft_coll_reduce_one       1 T     2 x (n - 1) x bytes on each link
 *   packets, two trips  weft_coll_reduce_two                       2 T     4 x (n - 1) / n x bytes
 *   lines, one trip     weft_coll_send_lines, _reduce_one_lines    1 T  1.07 x (n - 1) x bytes
 *   lines, two trips    weft_coll_reduce_two_lines                 2 T  2.13 x (n - 1) / n x bytes
 *   direct              weft_coll_push, _spread, _combine          2 T + F     the bytes themselves
 *   through scratch     weft_coll_push_scratch, _spread_scratch,   3 T + F     the bytes themselves, and a copy at each end
 *                       _reduce_scratch
 *   with gaps           weft_coll_send_strided, _push_strided,     as _send, _push and _push_scratch, by elements
 *                       _push_strided_scratch
 *   direct, sized       weft_coll_push_sized                       3 T + F     and a unit for each member
 *                       _sized_scratch                           4 T + F     and a unit for each member
 *   copy engines        weft_coll_meet, twice or more              2 T + F     the bytes themselves, by no kernel
 *
 * Packets carry their number beside every 4 bytes of payload, so that nobody fences and nobody waits for flags;
 * they go to slots of the team's area. Direct stores go to the destinations themselves: a member must know that
 * all destinations are ready (`here`, which is under way while the first loads are), and that all stores to its
 * own have arrived (`done`, behind the fence).
 *
 * Two sets of slots are used in turn. A member may fill the others' slots of round k when they have all ended
 * round k - 2, which it knows when they have begun k - 1. In rounds in which everyone sends to everyone the
 * packets themselves say that (area->begun); a member that only receives says `here`. So a root cannot overrun
 * its receivers, and an exchange costs no flag.
 *
 * Elements are combined in the order of the team and rounded once, in whatever way, so that the bits are the same.
 *
 * Written in the common subset, so that the stand-in of the CUDA driver can run the same text, with blocks of one
 * thread. */
#include <weft/device/simt.h>

#include <weft/device/arithmetic.h>
#include <weft/device/move.h>

#include "coll_round.h"
#include "coll_strided.h"

enum { GROUP = 4 }; /* members whose packets are looked at together */

/* Sends the units of this thread: to member j those of its block. */
WEFT_DEVICE void units_send(const struct round *r, struct weft_dev_vec16 first, int first_of)
{
    const struct coll_call *c = r->c;
    uint64_t units = (c->bytes + COLL_UNIT - 1) / COLL_UNIT;
    for (uint64_t u = r->rank; u < units; u += r->threads) {
        struct weft_dev_vec16 v = first;
        int loaded = u == r->rank ? first_of : -1;
        for (int i = 0; i < c->members - 1; i++) {
            int member = turned(c, i);
            if (!sends_to(c, member))
                continue;
            int of = c->src_step ? member : 0;
            if (of != loaded)
                v = weft_dev_unit_load(c->src + (uint64_t)of * c->src_step, c->bytes, u);
            loaded = of;
            unit_send(slot_of(r, member, c->me, c->members), u, v, has_two(c->bytes, u), r->packet);
        }
    }
}

/* Fcollect, alltoall, broadcast, gather and scatter of what fits the slots. */
KERNEL weft_coll_send(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    const struct coll_call *c = &call;
    struct round r;
    int first_of = c->src_step ? turned(c, 0) : 0;
    struct weft_dev_vec16 first = first_unit(c, first_of);
    if (round_begin(&r, c, shared))
        return;
    if (c->flow != COLL_ALL)
        say_here(&r);
    await_slots(&r);
    units_send(&r, first, first_of);
    uint64_t units = (c->bytes + COLL_UNIT - 1) / COLL_UNIT;
    const char *mine = c->src + (uint64_t)c->me * c->src_step;
    char *to = c->dst + (uint64_t)c->me * c->dst_step;
    for (uint64_t u = r.rank; u < units && takes_from(c, c->me) && to != mine; u += r.threads)
        weft_dev_unit_deliver(to, c->bytes, u, weft_dev_unit_load(mine, c->bytes, u));
    for (uint64_t u = r.rank; u < units; u += r.threads) {
        int two = has_two(c->bytes, u);
        for (int i = 0; i < c->members - 1; i += GROUP) {
            struct pair p[GROUP];
            WEFT_UNROLL
            for (int k = 0; k < GROUP; k++) {
                int member = turned(c, i + k < c->members - 1 ? i + k : i);
                if (takes_from(c, member))
                    p[k] = pair_load(slot_of(&r, c->me, member, c->members), u, two);
            }
            WEFT_UNROLL
            for (int k = 0; k < GROUP; k++) {
                int member = turned(c, i + k < c->members - 1 ? i + k : i);
                if (i + k >= c->members - 1 || !takes_from(c, member))
                    continue;
                struct weft_dev_vec16 v =
                    pair_await(&r, p[k], slot_of(&r, c->me, member, c->members), u, two, member);
                if (!r.failed)
                    weft_dev_unit_deliver(c->dst + (uint64_t)member * c->dst_step, c->bytes, u, v);
            }
        }
    }
    if (c->flow == COLL_ALL)
        all_have_begun(&r);
}

/* ---------------------------------------------------------------------- reductions by packets */

/* How elements are combined. more 0: of 16 bits and more, by the host's operations but the average. The kernels of the
 * rest are others of the same text, so that these are not slower for it. */
WEFT_DEVICE struct weft_dev_how how_of(const struct coll_call *c, int more)
{
    weft_type type = (weft_type)c->type;
    int widened = weft_dev_widened(type);
    struct weft_dev_how h = {type, (weft_op)c->op, more || !widened ? widened : 8,
                             more, c->members,     c->factor};
    if (more && c->op == WEFT_DEV_SCALED && c->factor_at)
        h.factor = type == WEFT_DOUBLE || type == WEFT_COMPLEX_DOUBLE
                       ? *(const double *)c->factor_at
                       : (double)*(const float *)c->factor_at;
    return h;
}

#include "coll_factors.h"

#include "coll_check.h"
#include "coll_lines.h"
#include "coll_scratch.h"

/* A member's unit into what is combined, when its packets `p` are there. */
WEFT_DEVICE void member_combine(struct round *r, struct weft_dev_how h, struct weft_dev_wide *acc,
                                struct pair p, struct weft_dev_vec16 mine, int slots, uint64_t at,
                                int two, int member)
{
    struct weft_dev_vec16 v = mine;
    h = how_for(r, h, member);
    if (member != r->c->me)
        v = pair_await(r, p, slot_of(r, r->c->me, member, slots), at, two, member);
    if (member)
        weft_dev_wide_add(h, acc, v);
    else
        weft_dev_wide_begin(h, acc, v);
}

/* Unit `at` of every member's slot, combined in the order of the team. `mine`: the own one. */
WEFT_DEVICE struct weft_dev_vec16 unit_combine(struct round *r, struct weft_dev_how h,
                                               struct weft_dev_vec16 mine, int slots, uint64_t at,
                                               int two)
{
    const struct coll_call *c = r->c;
    struct weft_dev_wide acc;
    struct weft_dev_vec16 nothing = {0, 0};
    weft_dev_wide_begin(h, &acc, nothing);
    for (int i = 0; i < c->members; i += GROUP) {
        struct pair p[GROUP];
        WEFT_UNROLL
        for (int k = 0; k < GROUP; k++)
            if (i + k < c->members && i + k != c->me)
                p[k] = pair_load(slot_of(r, c->me, i + k, slots), at, two);
        if (h.more) { /* there is much of it, so once */
            WEFT_NO_UNROLL
            for (int k = 0; k < GROUP && i + k < c->members; k++) {
                struct pair q = k == 0 ? p[0] : k == 1 ? p[1] : k == 2 ? p[2] : p[3];
                member_combine(r, h, &acc, q, mine, slots, at, two, i + k);
            }
            continue;
        }
        WEFT_UNROLL
        for (int k = 0; k < GROUP; k++) {
            if (i + k >= c->members)
                break;
            member_combine(r, h, &acc, p[k], mine, slots, at, two, i + k);
        }
    }
    return weft_dev_wide_end(h, &acc);
}

/* Everyone's vector goes to everyone (or to the root), or block i of it to member i, which combine what they have
 * got. Each thread sends and combines the same units, so that dst may be src. */
WEFT_DEVICE void reduce_one(const struct coll_call *c, uint64_t *shared, double *factors, int more)
{
    struct round r;
    struct weft_dev_how h = how_of(c, more);
    int first_of = c->src_step ? turned(c, 0) : 0;
    struct weft_dev_vec16 first = first_unit(c, first_of);
    if (round_begin(&r, c, shared))
        return;
    if (c->flow != COLL_ALL)
        say_here(&r);
    await_slots(&r);
    factors_send(&r, h);
    units_send(&r, first, first_of);
    factors_take(&r, h, factors);
    uint64_t units = (c->bytes + COLL_UNIT - 1) / COLL_UNIT;
    const char *mine = c->src + (uint64_t)c->me * c->src_step;
    for (uint64_t u = r.rank; u < units && takes_from(c, c->me); u += r.threads) {
        struct weft_dev_vec16 v = first;
        if (u != r.rank || c->src_step)
            v = weft_dev_unit_load(mine, c->bytes, u);
        v = unit_combine(&r, h, v, c->members, u, has_two(c->bytes, u));
        if (!r.failed)
            weft_dev_unit_deliver(c->dst, c->bytes, u, v);
    }
    if (c->flow == COLL_ALL)
        all_have_begun(&r);
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

/* Units of the whole vector that member `member` combines: `slice` of them, but for the last members. */
WEFT_DEVICE uint64_t slice_end(uint64_t units, uint64_t slice, int member)
{
    uint64_t end = slice * ((uint64_t)member + 1);
    return end < units ? end : units;
}

/* Slice i of everyone goes to member i, which combines them and sends the result to everyone, into further slots.
 * A thread has the same units of every slice in each step, so that dst may be src. No slice is empty. */
WEFT_DEVICE void reduce_two(const struct coll_call *c, uint64_t *shared, double *factors, int more)
{
    struct round r;
    struct weft_dev_how h = how_of(c, more);
    int n = c->members, slots = 2 * n;
    uint64_t units = (c->bytes + COLL_UNIT - 1) / COLL_UNIT, slice = (units + n - 1) / n;
    if (round_begin(&r, c, shared))
        return;
    await_slots(&r);
    factors_send(&r, h);
    for (uint64_t v = r.rank; v < slice; v += r.threads)
        for (int i = 0; i < n - 1; i++) {
            int member = turned(c, i);
            uint64_t u = slice * (uint64_t)member + v;
            if (u < slice_end(units, slice, member))
                unit_send(slot_of(&r, member, c->me, slots), v,
                          weft_dev_unit_load(c->src, c->bytes, u), has_two(c->bytes, u), r.packet);
        }
    factors_take(&r, h, factors);
    for (uint64_t v = r.rank; v < slice; v += r.threads) {
        uint64_t u = slice * (uint64_t)c->me + v;
        if (u >= slice_end(units, slice, c->me))
            break;
        int two = has_two(c->bytes, u);
        struct weft_dev_vec16 result =
            unit_combine(&r, h, weft_dev_unit_load(c->src, c->bytes, u), slots, v, two);
        if (r.failed)
            break;
        for (int i = 0; i < n - 1; i++)
            unit_send(slot_of(&r, turned(c, i), n + c->me, slots), v, result, two, r.packet);
        weft_dev_unit_deliver(c->dst, c->bytes, u, result);
    }
    for (uint64_t v = r.rank; v < slice; v += r.threads)
        for (int i = 0; i < n - 1; i++) {
            int member = turned(c, i);
            uint64_t u = slice * (uint64_t)member + v;
            if (u >= slice_end(units, slice, member))
                continue;
            int two = has_two(c->bytes, u);
            const char *slot = slot_of(&r, c->me, n + member, slots);
            struct weft_dev_vec16 result =
                pair_await(&r, pair_load(slot, v, two), slot, v, two, member);
            if (!r.failed)
                weft_dev_unit_deliver(c->dst, c->bytes, u, result);
        }
    all_have_begun(&r);
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

/* ------------------------------------------------------------------------------------ direct */

/* Fcollect, alltoall, gather, scatter, and broadcast to one other: each stores its blocks where they belong.
 * Pushes, since pulls of several GPUs at once are slower. */
KERNEL weft_coll_push(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    const struct coll_call *c = &call;
    struct round r;
    if (round_begin(&r, c, shared))
        return;
    say_here(&r);
    push_own(&r, 0);
    await_here(&r, r.number);
    for (int i = 0; i < c->members - 1 && !r.failed; i++) {
        int member = turned(c, i);
        if (sends_to(c, member))
            weft_dev_move(c->part[member] + c->to + (uint64_t)c->me * c->dst_step,
                          c->src + (uint64_t)member * c->src_step, c->bytes, r.rank, r.threads, 0);
    }
    round_end(&r, 1);
}

/* What this member tells member i: where its block may go, and how many bytes may come, none where that would be behind
 * the destination's end; for collect how many bytes this member has. Travels as a unit of packets. */
WEFT_DEVICE struct weft_dev_vec16 offer_of(const struct coll_call *c, int member)
{
    struct weft_dev_vec16 v = {c->bytes, 0};
    if (!c->counts)
        return v;
    v.lo = c->dst_at[member];
    v.hi = c->room_of[member];
    if (v.lo > c->room || v.hi > c->room - v.lo)
        v.hi = 0;
    return v;
}

/* A block is larger than the place that its receiver has for it: nothing is stored there. */
WEFT_DEVICE_NOINLINE void refuse_block(struct gpu_reporting reporting, int operation, int team,
                                       int pe, const void *at, uint64_t bytes)
{
    struct limit none = {0, 0, 0};
    leave_record_of(reporting, WEFT_DEV_RECORD_REFUSED, -4 /* WEFT_ERR_RANGE */,
                    (uint32_t)operation, team, pe, at, bytes, 0, 0, &none);
}

/* Everyone's offer, in shared memory: [2 i] and [2 i + 1] of member i. */
WEFT_DEVICE void exchange_offers(struct round *r, uint64_t *offers)
{
    const struct coll_call *c = r->c;
    int rank = (int)weft_dev_thread_x(), threads = (int)weft_dev_block_dim_x();
    await_slots(r);
    for (int i = rank; i < c->members && weft_dev_block_x() == 0; i += threads)
        if (i != c->me)
            unit_send(slot_of(r, i, c->me, c->members), 0, offer_of(c, i), 1, r->packet);
    for (int i = rank; i < c->members; i += threads) {
        const char *slot = slot_of(r, c->me, i, c->members);
        struct weft_dev_vec16 v = offer_of(c, c->me);
        if (i != c->me)
            v = pair_await(r, pair_load(slot, 0, 1), slot, 0, 1, i);
        offers[2 * i] = v.lo;
        offers[2 * i + 1] = v.hi;
    }
    r->failed = weft_dev_sync_block_or(r->failed);
}

/* Alltoallv and collect: sizes and places are exchanged first, which also says that destinations are ready. */
KERNEL weft_coll_push_sized(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    WEFT_SHARED(uint64_t, offers, [2 * COLL_MEMBERS]);
    const struct coll_call *c = &call;
    struct round r;
    uint64_t before = 0, all = 0;
    if (round_begin(&r, c, shared))
        return;
    exchange_offers(&r, offers);
    for (int i = 0; i < c->members && !c->counts && !r.failed; i++) {
        before += i < c->me ? offers[2 * i] : 0;
        all += offers[2 * i];
    }
    for (int i = 0; i < c->members && !r.failed; i++) {
        int member = turned(c, i);
        uint64_t bytes = c->counts ? c->counts[member] : c->bytes;
        uint64_t at = c->counts ? offers[2 * member] : before;
        uint64_t room = c->counts ? offers[2 * member + 1] : bytes;
        const char *from = c->src + (c->counts ? c->src_at[member] : 0);
        char *to = member == c->me ? c->dst + at : c->part[member] + c->to + at;
        int fits = bytes <= room && (c->counts || all <= c->room);
        if (fits && to != from)
            weft_dev_move(to, from, (size_t)bytes, r.rank, r.threads, 0);
        else if (!fits && r.rank == 0)
            refuse_block(c->reporting, c->operation, c->team, c->pe[member], to, bytes);
    }
    round_end(&r, 1);
    all_have_begun(&r);
}

#include "coll_sized.h"

/* Where chunk `chunk` of this block's share of a slice begins: multiples of 16 bytes but for the end. */
WEFT_DEVICE uint64_t chunk_at(uint64_t bytes, uint64_t chunk, uint64_t chunks)
{
    uint64_t units = (bytes + 15) / 16, at = units * chunk / chunks * 16;
    return at < bytes ? at : bytes;
}

/* Broadcast to several others: the root sends each of them a slice, which it hands on to the rest chunk by chunk,
 * so that each link carries each byte once. Each block has a share of every slice. */
KERNEL weft_coll_spread(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    const struct coll_call *c = &call;
    struct round r;
    unsigned block = weft_dev_block_x(), threads = weft_dev_block_dim_x();
    unsigned rank = weft_dev_thread_x();
    uint64_t others = (uint64_t)c->members - 1,
             pieces = weft_dev_grid_dim_x() * (uint64_t)c->chunks;
    if (round_begin(&r, c, shared))
        return;
    say_here(&r);
    await_here(&r, r.number);
    int place = c->me - c->root - 1; /* of this member's slice, -1: the root's */
    place = c->me == c->root ? -1 : place < 0 ? place + c->members : place;
    for (uint32_t chunk = 0; chunk < c->chunks && !r.failed; chunk++) {
        uint64_t piece = block * (uint64_t)c->chunks + chunk;
        uint64_t reached = r.number * COLL_CHUNKS + chunk + 1;
        if (place >= 0) {
            if (rank == 0)
                await_flag(&r, &r.own->relay[block], reached, c->root);
            r.failed = weft_dev_sync_block_or(r.failed);
        }
        for (int k = 0; k < (int)others && !r.failed; k++) {
            int member = place < 0 ? (c->root + 1 + k) % c->members : turned(c, k);
            if (member == c->root)
                continue;
            uint64_t slice = (uint64_t)(place < 0 ? k : place);
            uint64_t begin = chunk_at(c->bytes, slice * pieces + piece, others * pieces);
            uint64_t end = chunk_at(c->bytes, slice * pieces + piece + 1, others * pieces);
            weft_dev_move(c->part[member] + c->to + begin, (place < 0 ? c->src : c->dst) + begin,
                          (size_t)(end - begin), rank, threads, 0);
        }
        if (place >= 0)
            continue;
        weft_dev_sync_block();
        if (rank < (unsigned)c->members)
            weft_dev_fence(ORDERED, SYSTEM);
        for (int i = (int)rank; i < c->members; i += (int)threads)
            if (i != c->me)
                weft_dev_store_u64(&area_of(c, i)->relay[block], reached, RELAXED, SYSTEM);
    }
    if (c->me == c->root && c->dst != c->src)
        weft_dev_move(c->dst, c->src, c->bytes, r.rank, r.threads, 0);
    round_end(&r, 1);
}

/* A round in which nothing is sent: in front of copies by the engines it says that destinations are ready, behind them,
 * fenced, that they have been filled. The copies were done before this kernel began, by the streams that joined its
 * own. */
KERNEL weft_coll_meet(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    const struct coll_call *c = &call;
    struct round r;
    if (round_begin(&r, c, shared))
        return;
    if (c->fenced)
        weft_dev_fence(ORDERED, SYSTEM);
    say_here(&r);
    await_here(&r, r.number);
}

/* Combines bytes begin ... end of all sources, `step` bytes apart for each thread, and stores them. h.type and h.op:
 * constants where it is a sum of binary32, without a call; element: of its size, or 16. */
WEFT_DEVICE void combine_range(const struct round *r, struct weft_dev_how h, uint64_t begin,
                               uint64_t end, uint64_t shift, unsigned element)
{
    const struct coll_call *c = r->c;
    /* What is widened takes registers, and what is more, text. */
    const int unroll = !h.more ? WEFT_DEV_UNROLL : element != 16 || h.widened == 16 ? 1 : 2;
    uint64_t step = (uint64_t)r->threads * element;
    for (uint64_t at = begin + (uint64_t)r->rank * element; at < end;
         at += (uint64_t)unroll * step) {
        struct weft_dev_vec16 v[WEFT_DEV_UNROLL];
        struct weft_dev_wide acc[WEFT_DEV_UNROLL];
        int i = 0;
        do {
            const char *from = c->part[i] + c->from;
            WEFT_UNROLL
            for (int u = 0; u < unroll; u++) {
                uint64_t place = at + (uint64_t)u * step;
                place = place < end ? place : at;
                v[u] = element == 16 ? weft_dev_load_vec16_relaxed(from + place)
                                     : weft_dev_element_load(from + place, element);
            }
            struct weft_dev_how here = how_for(r, h, i);
            WEFT_UNROLL
            for (int u = 0; u < unroll; u++) {
                if (i)
                    weft_dev_wide_add(here, &acc[u], v[u]);
                else
                    weft_dev_wide_begin(here, &acc[u], v[u]);
            }
        } while (++i < c->members);
        WEFT_UNROLL
        for (int u = 0; u < unroll; u++)
            v[u] = weft_dev_wide_end(h, &acc[u]);
        for (i = c->everywhere ? 0 : c->members - 1; i < c->members; i++) {
            char *to = c->part[turned(c, i)] + c->to - shift;
            WEFT_UNROLL
            for (int u = 0; u < unroll; u++)
                if (at + (uint64_t)u * step < end) {
                    if (element == 16)
                        weft_dev_store_vec16(to + at + (uint64_t)u * step, v[u]);
                    else
                        weft_dev_element_store(to + at + (uint64_t)u * step, v[u], element);
                }
        }
    }
}

WEFT_DEVICE void combine_elements(const struct round *r, struct weft_dev_how h, uint64_t begin,
                                  uint64_t end, uint64_t shift)
{
    unsigned element = (unsigned)weft_dev_type_bytes(h.type);
    int widened = h.widened;
    h.widened = 1;
    if (widened == 16)
        combine_range(r, h, begin, end, shift, 1);
    else if (widened)
        combine_range(r, h, begin, end, shift, 2);
    h.widened = 0;
    if (!widened)
        combine_range(r, h, begin, end, shift, element);
}

WEFT_DEVICE void combine_vectors(const struct round *r, struct weft_dev_how h, uint64_t begin,
                                 uint64_t end, uint64_t shift)
{
    if (h.type == WEFT_FLOAT && h.op == (h.more ? WEFT_AVG : WEFT_SUM)) {
        struct weft_dev_how sum = {WEFT_FLOAT, h.more ? WEFT_AVG : WEFT_SUM, 0, h.more, h.members,
                                   0};
        combine_range(r, sum, begin, end, shift, 16);
    } else if (h.widened == 8) {
        h.widened = 8;
        combine_range(r, h, begin, end, shift, 16);
    } else if (h.widened == 16) {
        h.widened = 16;
        combine_range(r, h, begin, end, shift, 16);
    } else {
        h.widened = 0;
        combine_range(r, h, begin, end, shift, 16);
    }
}

/* Member i combines slice i of the sources, or block i, reading them where they are, and stores the result into
 * all destinations, or its own. Each element is combined once. */
WEFT_DEVICE void combine(const struct coll_call *c, uint64_t *shared, double *factors, int more)
{
    struct round r;
    struct weft_dev_how h = how_of(c, more);
    uint64_t n = (uint64_t)c->members, me = (uint64_t)c->me, begin, end, shift = 0;
    if (round_begin(&r, c, shared))
        return;
    say_here(&r);
    factors_exchange(&r, h, factors);
    if (c->everywhere) { /* slices are multiples of 16 bytes but the last */
        uint64_t slice = ((c->bytes + n - 1) / n + 15) & ~(uint64_t)15;
        begin = slice * me < c->bytes ? slice * me : c->bytes;
        end = begin + slice < c->bytes ? begin + slice : c->bytes;
    } else {
        begin = c->src_step * me;
        end = begin + c->bytes;
        shift = begin;
    }
    await_here(&r, r.number);
    if (!r.failed) {
        uint64_t vectors = begin;
        if (!(((c->from + begin) | (c->to + begin - shift)) & 15))
            vectors = begin + ((end - begin) & ~(uint64_t)15);
        combine_vectors(&r, h, begin, vectors, shift);
        combine_elements(&r, h, vectors, end, shift);
    }
    round_end(&r, c->everywhere);
}

KERNEL weft_coll_combine(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    combine(&call, shared, 0, 0);
}

KERNEL_OF_512 weft_coll_combine_more(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    WEFT_SHARED(double, factors, [COLL_MEMBERS]);
    combine(&call, shared, factors, 1);
}
