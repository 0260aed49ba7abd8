/* SPDX-License-Identifier: Apache-2.0 */
/* The staged protocol: for data that is too large for LL and cannot be stored to its destination,
 * since destinations (or, for a reduction, sources) are memory that the other members cannot
 * access. The staging memory consists of all four slot sets of the team's own area: each block has
 * two slots there for each other member; one is filled while the other is copied out. The bytes
 * themselves go over each link, as in the simple protocol, and each byte is copied once more within
 * its GPU, by blocks that no other block waits for: while one block copies, the others use the
 * link. A large broadcast also carries each byte once: the root sends a slice to each other member,
 * which forwards it from its staging slots. A smaller one carries the bytes (n - 1) times from the
 * root, with one flag less.
 *
 * Steps. Block b of a member exchanges with block b of the other members. `filled`, after a fence,
 * reports how many steps the block has stored. Where every member sends to every member, it also
 * reports that the block has copied the previous step out, since the block first awaits all of
 * that: a block that stores step k has received step k - 1 of all members, so step k - 2 is copied
 * out. Where only some members send, the receivers report with `emptied`, after a release, and step
 * k needs `emptied` of step k - 1. In a broadcast in slices the forwarding members know it of each
 * other by `filled`, and the root by `emptied`.
 *
 * LL and LL128 recognize new data by flags, which data that passes here could imitate. So a block
 * clears its slots when it has copied everything out, and the end of the round, in which each
 * member waits for all, guarantees that all slots are clear. */
#ifndef WEFT_GPU_COLL_SCRATCH_H
#define WEFT_GPU_COLL_SCRATCH_H

#include <weft/device/move.h>

#include "gpu/coll/factors.h"
#include "gpu/coll/round.h"
#include "gpu/coll/strided.h"

struct staging {
    uint64_t slot_bytes;
    uint64_t first;      /* offset of this thread block's slots in the windows */
    uint64_t begin, end; /* this thread block's share of a block of data, or of each slice */
    int slots;           /* for each other member and kind */
    int kinds;           /* 2: each member also has slots for results */
    unsigned block, rank, threads;
};

WEFT_DEVICE struct staging staging_begin(const struct round *r, uint64_t bytes, int slots,
                                         int kinds)
{
    const struct coll_call *c = r->c;
    struct staging s;
    unsigned blocks = weft_dev_grid_dim_x();
    uint64_t share = (bytes + blocks - 1) / blocks;
    share = (share + COLL_STAGING_GRAIN - 1) / COLL_STAGING_GRAIN * COLL_STAGING_GRAIN;
    s.slot_bytes = coll_staging_slot_bytes(c->set_bytes, blocks, (unsigned)(slots * kinds),
                                           (unsigned)c->members);
    s.slots = slots;
    s.kinds = kinds;
    s.first = c->area + sizeof(struct coll_area) +
              r->block * (uint64_t)(slots * kinds * (c->members - 1)) * s.slot_bytes;
    s.block = r->block;
    s.rank = weft_dev_thread_x();
    s.threads = weft_dev_block_dim_x();
    s.begin = share * s.block < bytes ? share * s.block : bytes;
    s.end = s.begin + share < bytes ? s.begin + share : bytes;
    return s;
}

/* Returns the slot of member `from` at member `at` for step `step`. */
WEFT_DEVICE char *staging_slot(const struct round *r, const struct staging *s, int at, int from,
                               int kind, uint64_t step)
{
    const struct coll_call *c = r->c;
    unsigned kinds = (unsigned)(step % (unsigned)s->slots) * (unsigned)s->kinds + (unsigned)kind;
    unsigned slot = kinds * (unsigned)(c->members - 1) + (unsigned)(from - (from > at));
    return c->part[at] + s->first + slot * s->slot_bytes;
}

WEFT_DEVICE uint64_t staging_flag(const struct round *r, uint64_t steps)
{
    return r->number * COLL_STEPS + steps;
}

/* Waits until the members that this member sends to have copied `steps` steps out. */
WEFT_DEVICE void await_emptied(struct round *r, const struct staging *s, uint64_t steps)
{
    const struct coll_call *c = r->c;
    if (c->flow == COLL_ALL)
        return;
    for (int i = (int)s->rank; i < c->members; i += (int)s->threads)
        if (i != c->me && sends_to(c, i))
            await_flag(r, &r->own->emptied[i][s->block], staging_flag(r, steps), i);
    r->failed = weft_dev_sync_block_or(r->failed);
}

/* Reports `parts` stored parts. The fence orders the stores of this thread and those of the threads
 * that it synchronized with in the block. */
WEFT_DEVICE void send_filled(struct round *r, const struct staging *s, uint64_t parts)
{
    const struct coll_call *c = r->c;
    weft_dev_sync_block();
    if (s->rank < (unsigned)c->members)
        weft_dev_fence(ORDERED, SYSTEM);
    for (int i = (int)s->rank; i < c->members; i += (int)s->threads)
        if (i != c->me)
            weft_dev_store_u64(&member_area(c, i)->filled[c->me][s->block], staging_flag(r, parts),
                               RELAXED, SYSTEM);
}

WEFT_DEVICE void await_filled(struct round *r, const struct staging *s, uint64_t parts)
{
    const struct coll_call *c = r->c;
    for (int i = (int)s->rank; i < c->members; i += (int)s->threads)
        if (i != c->me && (s->slots == COLL_REDUCE_SLOTS || receives_from(c, i)))
            await_flag(r, &r->own->filled[i][s->block], staging_flag(r, parts), i);
    r->failed = weft_dev_sync_block_or(r->failed);
}

/* In a broadcast in slices: waits for the root alone, or for all other members. */
WEFT_DEVICE void await_filled_by(struct round *r, const struct staging *s, uint64_t parts, int root)
{
    const struct coll_call *c = r->c;
    for (int i = (int)s->rank; i < c->members; i += (int)s->threads)
        if (i != c->me && (i == c->root) == root)
            await_flag(r, &r->own->filled[i][s->block], staging_flag(r, parts), i);
    r->failed = weft_dev_sync_block_or(r->failed);
}

/* Reports `steps` steps that are copied out. Release: pairs with the acquire of await_emptied();
 * the loads of the threads that this one synchronized with are complete. */
WEFT_DEVICE void send_emptied(struct round *r, const struct staging *s, uint64_t steps)
{
    const struct coll_call *c = r->c;
    if (c->flow == COLL_ALL)
        return;
    weft_dev_sync_block();
    for (int i = (int)s->rank; i < c->members; i += (int)s->threads)
        if (i != c->me && receives_from(c, i))
            weft_dev_store_u64(&member_area(c, i)->emptied[c->me][s->block], staging_flag(r, steps),
                               RELEASE, SYSTEM);
}

/* Clears all slots of this block that `steps` steps have used with zeros, which no packet and no
 * line has as its flag. */
WEFT_DEVICE void staging_clear(const struct round *r, const struct staging *s, uint64_t steps)
{
    const struct coll_call *c = r->c;
    struct weft_dev_vec16 nothing = {0, 0};
    uint64_t used = s->end - s->begin < s->slot_bytes ? s->end - s->begin : s->slot_bytes;
    weft_dev_sync_block(); /* all threads have copied their part out */
    for (uint64_t step = 0; step < (unsigned)s->slots && step < steps; step++)
        for (int kind = 0; kind < s->kinds; kind++)
            for (int i = 0; i < c->members; i++) {
                char *slot = staging_slot(r, s, c->me, i, kind, step);
                for (uint64_t at = 16 * (uint64_t)s->rank; at < used && i != c->me;
                     at += 16 * (uint64_t)s->threads)
                    weft_dev_store_vec16(slot + at, nothing);
            }
}

/* The part of one step of member i's slice of the vector, or of its block: offset and size from the
 * start of the source. */
struct staging_range {
    uint64_t at, bytes;
};

/* slice: slice size of the vector, a multiple of 16 bytes; 0: members have blocks. */
WEFT_DEVICE struct staging_range staging_range(const struct coll_call *c, const struct staging *s,
                                               uint64_t slice, int member, uint64_t within)
{
    uint64_t left = s->end - within;
    struct staging_range range = {(slice ? slice : c->src_step) * (uint64_t)member + within,
                                  left < s->slot_bytes ? left : s->slot_bytes};
    if (slice && range.at + range.bytes > c->bytes)
        range.bytes = range.at < c->bytes ? c->bytes - range.at : 0;
    return range;
}

/* ------------------------------------------------------------------------------------- moves */

/* Stores a part of the block for `member` into that member's staging slot, without gaps. */
WEFT_DEVICE void staging_put(const struct round *r, const struct staging *s, int member,
                             struct staging_range part, uint64_t step, int strided)
{
    const struct coll_call *c = r->c;
    char *slot = staging_slot(r, s, member, c->me, 0, step);
    const char *block = c->src + (uint64_t)member * c->src_step;
    if (!strided)
        weft_dev_move(slot, block + part.at, (size_t)part.bytes, s->rank, s->threads, 0);
    else
        for (uint64_t u = s->rank; 16 * u < part.bytes; u += s->threads)
            weft_dev_store_vec16(slot + 16 * u, strided_load(c, block, part.at / 16 + u));
}

/* Copies a part of the block of `member` from the own staging slot to its destination. */
WEFT_DEVICE void staging_copy_out(const struct round *r, const struct staging *s, int member,
                                  struct staging_range part, uint64_t step, int strided)
{
    const struct coll_call *c = r->c;
    const char *slot = staging_slot(r, s, c->me, member, 0, step);
    char *block = c->dst + (uint64_t)member * c->dst_step;
    if (!strided)
        weft_dev_move(block + part.at, slot, (size_t)part.bytes, s->rank, s->threads, 1);
    else
        for (uint64_t u = s->rank; 16 * u < part.bytes; u += s->threads)
            strided_deliver(c, block, part.at / 16 + u, weft_dev_load_vec16_relaxed(slot + 16 * u));
}

WEFT_DEVICE void push_staged(const struct coll_call *c, uint64_t *shared, int strided)
{
    struct round r;
    uint64_t ticket = round_draw(c);
    if (round_begin(&r, c, ticket, shared))
        return;
    send_here(&r);
    struct staging s = staging_begin(&r, c->bytes, COLL_MOVE_SLOTS, 1);
    push_own_block(&r, strided);
    await_here(&r, r.number);
    uint64_t step = 0;
    for (uint64_t at = s.begin; at < s.end && !r.failed; at += s.slot_bytes, step++) {
        struct staging_range part = {at, s.end - at < s.slot_bytes ? s.end - at : s.slot_bytes};
        if (step > 1)
            await_emptied(&r, &s, step - 1);
        for (int i = 0; i < c->members - 1 && !r.failed; i++)
            if (sends_to(c, rotated_member(c, i)))
                staging_put(&r, &s, rotated_member(c, i), part, step, strided);
        send_filled(&r, &s, step + 1);
        await_filled(&r, &s, step + 1);
        for (int i = 0; i < c->members - 1 && !r.failed; i++)
            if (receives_from(c, rotated_member(c, i)))
                staging_copy_out(&r, &s, rotated_member(c, i), part, step, strided);
        send_emptied(&r, &s, step + 1);
    }
    staging_clear(&r, &s, step);
    round_end(&r, 1);
}

/* Fcollect, alltoall, gather, scatter, and broadcast to all members from the root. */
KERNEL_OF_512 weft_coll_push_scratch(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    push_staged(&call, shared, 0);
}

/* Alltoall of blocks whose elements have gaps: they have none in the staging slots. */
KERNEL weft_coll_push_strided_scratch(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    push_staged(&call, shared, 1);
}

/* Returns which slice of a broadcast a member has: the members after the root, in order. */
WEFT_DEVICE int slice_of(const struct coll_call *c, int member)
{
    int place = member - c->root - 1;
    return place < 0 ? place + c->members : place;
}

/* The root stores a part of each slice into the staging slot of the slice's member. */
WEFT_DEVICE void spread_slices(struct round *r, const struct staging *s, uint64_t slice,
                               uint64_t within, uint64_t step)
{
    const struct coll_call *c = r->c;
    for (int i = 0; i < c->members - 1 && !r->failed; i++) {
        int member = rotated_member(c, i);
        struct staging_range part = staging_range(c, s, slice, slice_of(c, member), within);
        weft_dev_move(staging_slot(r, s, member, c->me, 0, step), c->src + part.at,
                      (size_t)part.bytes, s->rank, s->threads, 0);
    }
    send_filled(r, s, step + 1);
}

/* The other members forward their slice before they copy it out; then they copy out the slices that
 * they receive. */
WEFT_DEVICE void spread_forward(struct round *r, const struct staging *s, uint64_t slice,
                                uint64_t within, uint64_t step)
{
    const struct coll_call *c = r->c;
    struct staging_range mine = staging_range(c, s, slice, slice_of(c, c->me), within);
    const char *from = staging_slot(r, s, c->me, c->root, 0, step);
    await_filled_by(r, s, step + 1, 1);
    for (int i = 0; i < c->members - 1 && !r->failed; i++) {
        int member = rotated_member(c, i);
        if (member != c->root)
            weft_dev_move(staging_slot(r, s, member, c->me, 0, step), from, (size_t)mine.bytes,
                          s->rank, s->threads, 1);
    }
    send_filled(r, s, step + 1);
    if (!r->failed)
        weft_dev_move(c->dst + mine.at, from, (size_t)mine.bytes, s->rank, s->threads, 1);
    await_filled_by(r, s, step + 1, 0);
    for (int i = 0; i < c->members - 1 && !r->failed; i++) {
        int member = rotated_member(c, i);
        struct staging_range part = staging_range(c, s, slice, slice_of(c, member), within);
        if (member != c->root)
            weft_dev_move(c->dst + part.at, staging_slot(r, s, c->me, member, 0, step),
                          (size_t)part.bytes, s->rank, s->threads, 1);
    }
    send_emptied(r, s, step + 1);
}

/* Broadcast to several other members in slices, so that each link carries each byte once. */
KERNEL_OF_512 weft_coll_spread_scratch(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    const struct coll_call *c = &call;
    struct round r;
    uint64_t others = (uint64_t)c->members - 1, step = 0;
    uint64_t slice = ((c->bytes + others - 1) / others + 15) & ~(uint64_t)15;
    uint64_t ticket = round_draw(c);
    if (round_begin(&r, c, ticket, shared))
        return;
    send_here(&r);
    struct staging s = staging_begin(&r, slice, COLL_MOVE_SLOTS, 1);
    if (c->me == c->root && c->dst != c->src)
        weft_dev_move(c->dst, c->src, c->bytes, r.rank, r.threads, 0);
    await_here(&r, r.number);
    for (uint64_t within = s.begin; within < s.end && !r.failed; within += s.slot_bytes, step++) {
        if (step > 1)
            await_emptied(&r, &s, step - 1);
        if (c->me == c->root)
            spread_slices(&r, &s, slice, within, step);
        else
            spread_forward(&r, &s, slice, within, step);
    }
    staging_clear(&r, &s, step);
    round_end(&r, 1);
}

/* -------------------------------------------------------------------------------- reductions */

/* A reduction has a step in work for each of its three slots. In step k a member first waits for
 * the parts of step k, combines them, sends the results (kind 1) and reports them. Then it waits
 * for the results of step k - 1, sends the parts of step k + 2, copies these results out, and
 * reports both. The first wait is for what was reported two steps before, the second for what was
 * reported one step before, so that transfers and fences take no time of the block.
 *
 * A slot is free again: that of the parts of step k + 2, when the results of step k - 1, which used
 * it, have been reported; that of the results of step k, when those of step k - 3 have been copied
 * out, which the report of the parts of step k follows. Without results (reduce-scatter) the report
 * of the parts of step k + 1 says that step k - 1 has been combined. */
enum { REDUCE_AHEAD = COLL_REDUCE_SLOTS - 1 };

/* Values of `filled`: 1 when the parts of the first steps have been sent. */
WEFT_DEVICE uint64_t results_reported(uint64_t step)
{
    return 2 * step + 2;
}

WEFT_DEVICE uint64_t parts_reported(uint64_t step)
{
    return step < REDUCE_AHEAD ? 1 : 2 * (step - REDUCE_AHEAD) + 3;
}

/* Returns whether a member gets results of slices that other members combined. */
WEFT_DEVICE int gets_results(const struct coll_call *c, int member)
{
    return c->reduction.everywhere || (c->flow == COLL_TO && member == c->root);
}

/* Sends the parts of a step that other members combine. */
WEFT_DEVICE void reduce_send_parts(const struct round *r, const struct staging *s, uint64_t slice,
                                   uint64_t step)
{
    const struct coll_call *c = r->c;
    uint64_t within = s->begin + step * s->slot_bytes;
    for (int i = 0; i < c->members - 1 && within < s->end; i++) {
        int member = rotated_member(c, i);
        struct staging_range theirs = staging_range(c, s, slice, member, within);
        weft_dev_move(staging_slot(r, s, member, c->me, 0, step), c->src + theirs.at,
                      (size_t)theirs.bytes, s->rank, s->threads, 0);
    }
}

/* Combines this member's part of a step in the order of the team, and stores it where it is wanted,
 * `unroll` units of each thread together. A thread stores into dst what it loaded from src: dst may
 * be src. */
WEFT_DEVICE void reduce_combine(const struct round *r, const struct staging *s,
                                struct weft_dev_how h, uint64_t slice, uint64_t step,
                                const int unroll)
{
    const struct coll_call *c = r->c;
    uint64_t within = s->begin + step * s->slot_bytes;
    struct staging_range mine = staging_range(c, s, slice, c->me, within);
    char *to = c->dst + (slice ? mine.at : within);
    for (uint64_t at = s->rank; 16 * at < mine.bytes; at += (uint64_t)unroll * s->threads) {
        struct weft_dev_vec16 v[WEFT_DEV_UNROLL], nothing = {0, 0};
        struct weft_dev_wide acc[WEFT_DEV_UNROLL];
        int i = 0;
        do {
            const char *slot = staging_slot(r, s, c->me, i, 0, step);
            WEFT_UNROLL
            for (int u = 0; u < unroll; u++) {
                uint64_t unit = at + (uint64_t)u * s->threads;
                v[u] = nothing;
                if (i == c->me)
                    v[u] = weft_dev_unit_load(c->src + mine.at, mine.bytes, unit);
                else if (16 * unit < mine.bytes)
                    v[u] = weft_dev_load_vec16_relaxed(slot + 16 * unit);
            }
            struct weft_dev_how here = member_reduction(r, h, i);
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
        for (i = 0; i < c->members - 1 && slice; i++) {
            int member = rotated_member(c, i);
            char *slot = staging_slot(r, s, member, c->me, 1, step);
            WEFT_UNROLL
            for (int u = 0; u < unroll; u++)
                if (gets_results(c, member) && 16 * (at + (uint64_t)u * s->threads) < mine.bytes)
                    weft_dev_store_vec16(slot + 16 * (at + (uint64_t)u * s->threads), v[u]);
        }
        WEFT_UNROLL
        for (int u = 0; u < unroll; u++)
            if ((!slice || gets_results(c, c->me)) &&
                16 * (at + (uint64_t)u * s->threads) < mine.bytes)
                weft_dev_unit_deliver(to, mine.bytes, at + (uint64_t)u * s->threads, v[u]);
    }
}

/* The same, with constants: types that are widened need more registers, the `more` kernels more
 * code. */
WEFT_DEVICE void reduce_combine_as(const struct round *r, const struct staging *s,
                                   struct weft_dev_how h, uint64_t slice, uint64_t step)
{
    if (h.type == WEFT_FLOAT && h.op == (h.more ? WEFT_AVG : WEFT_SUM)) {
        struct weft_dev_how sum = {WEFT_FLOAT, h.more ? WEFT_AVG : WEFT_SUM, 0, h.more, h.members,
                                   0};
        reduce_combine(r, s, sum, slice, step, h.more ? 2 : 4);
    } else if (h.widened == 8) {
        h.widened = 8;
        reduce_combine(r, s, h, slice, step, h.more ? 1 : 2);
    } else if (h.widened == 16) {
        h.widened = 16;
        reduce_combine(r, s, h, slice, step, 1);
    } else {
        h.widened = 0;
        reduce_combine(r, s, h, slice, step, h.more ? 1 : 2);
    }
}

/* Copies out the results of a step that other members combined. */
WEFT_DEVICE void reduce_take_results(const struct round *r, const struct staging *s, uint64_t slice,
                                     uint64_t step)
{
    const struct coll_call *c = r->c;
    uint64_t within = s->begin + step * s->slot_bytes;
    for (int i = 0; i < c->members - 1 && gets_results(c, c->me); i++) {
        int member = rotated_member(c, i);
        struct staging_range theirs = staging_range(c, s, slice, member, within);
        weft_dev_move(c->dst + theirs.at, staging_slot(r, s, c->me, member, 1, step),
                      (size_t)theirs.bytes, s->rank, s->threads, 1);
    }
}

/* Step `step` of `steps`, as described above. */
WEFT_DEVICE void reduce_step(struct round *r, const struct staging *s, struct weft_dev_how h,
                             uint64_t slice, uint64_t step, uint64_t steps)
{
    await_filled(r, s, parts_reported(step));
    if (r->failed)
        return;
    reduce_combine_as(r, s, h, slice, step);
    if (slice)
        send_filled(r, s, results_reported(step));
    if (step && (slice || step + REDUCE_AHEAD < steps))
        await_filled(r, s, slice ? results_reported(step - 1) : parts_reported(step + 1));
    if (r->failed)
        return;
    reduce_send_parts(r, s, slice, step + REDUCE_AHEAD);
    if (step && slice)
        reduce_take_results(r, s, slice, step - 1);
    if (step + REDUCE_AHEAD < steps)
        send_filled(r, s, parts_reported(step + REDUCE_AHEAD));
}

/* Each member combines a slice, or its block, of all vectors. Every member sends to every member,
 * whatever the flow of the results. */
WEFT_DEVICE void reduce_staged(const struct coll_call *c, uint64_t *shared, double *factors,
                               int more)
{
    struct round r;
    uint64_t n = (uint64_t)c->members, slice = 0;
    int sliced = c->reduction.everywhere || c->flow == COLL_TO;
    if (sliced)
        slice = ((c->bytes + n - 1) / n + 15) & ~(uint64_t)15;
    uint64_t ticket = round_draw(c);
    struct weft_dev_how h = make_reduction(c, more);
    if (round_begin(&r, c, ticket, shared))
        return;
    send_here(&r);
    struct staging s = staging_begin(&r, sliced ? slice : c->bytes, COLL_REDUCE_SLOTS, 1 + sliced);
    uint64_t steps = (s.end - s.begin + s.slot_bytes - 1) / s.slot_bytes;
    factors_exchange(&r, h, factors);
    await_here(&r, r.number);
    if (steps && !r.failed) {
        for (uint64_t step = 0; step < REDUCE_AHEAD; step++)
            reduce_send_parts(&r, &s, slice, step);
        send_filled(&r, &s, parts_reported(0));
        for (uint64_t step = 0; step < steps && !r.failed; step++)
            reduce_step(&r, &s, h, slice, step, steps);
        if (slice && !r.failed) {
            await_filled(&r, &s, results_reported(steps - 1));
            if (!r.failed)
                reduce_take_results(&r, &s, slice, steps - 1);
        }
    }
    staging_clear(&r, &s, steps);
    round_end(&r, 1);
}

KERNEL_OF_512 weft_coll_reduce_scratch(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    reduce_staged(&call, shared, 0, 0);
}

KERNEL_OF_512 weft_coll_reduce_scratch_more(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    WEFT_SHARED(double, factors, [COLL_MEMBERS]);
    reduce_staged(&call, shared, factors, 1);
}

#endif
