/* SPDX-License-Identifier: Apache-2.0 */
/* The staged protocol: for data that is too large for LL and cannot be stored to its destination,
 * since destinations (or, for a reduction, sources) are memory that the other members cannot
 * access. The staging memory consists of all four slot sets of the team's own area: each block has
 * two slots there for each other member, and in a reduction two more for results. The bytes
 * themselves go over each link, as in the simple protocol, and each byte is copied once more within
 * its GPU.
 *
 * Phases. A block's share goes in steps of a slot, and each step passes through stages, one in each
 * phase:
 *
 *     moves                  sent; copied out
 *     broadcast in slices    sent by the root; forwarded; copied out
 *     reductions             parts sent; combined, and results sent; results copied out
 *
 * In phase p a block does the first stage of step p, the second of step p - 1 and the third of step
 * p - 2. Then it reports, after a fence, that it has ended the phase (`filled`), and block b of a
 * member begins a phase when block b of every member that it exchanges with has ended the one
 * before. So a block waits once in a phase and fences once, and step p finds its slots free: step
 * p - 2, which had them before, was taken out in phase p - 1.
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
    uint64_t steps;      /* of this share */
    int kinds;           /* 2: each member also has slots for results */
    unsigned block, rank, threads;
};

WEFT_DEVICE struct staging staging_begin(const struct round *r, uint64_t bytes, int kinds)
{
    const struct coll_call *c = r->c;
    struct staging s;
    unsigned blocks = weft_dev_grid_dim_x();
    uint64_t share = (bytes + blocks - 1) / blocks;
    share = (share + COLL_STAGING_GRAIN - 1) / COLL_STAGING_GRAIN * COLL_STAGING_GRAIN;
    s.slot_bytes =
        coll_staging_slot_bytes(c->set_bytes, blocks, (unsigned)kinds, (unsigned)c->members);
    s.kinds = kinds;
    s.first = c->area + sizeof(struct coll_area) +
              r->block * (uint64_t)(COLL_STEP_SLOTS * kinds * (c->members - 1)) * s.slot_bytes;
    s.block = r->block;
    s.rank = weft_dev_thread_x();
    s.threads = weft_dev_block_dim_x();
    s.begin = share * s.block < bytes ? share * s.block : bytes;
    s.end = s.begin + share < bytes ? s.begin + share : bytes;
    s.steps = (s.end - s.begin + s.slot_bytes - 1) / s.slot_bytes;
    return s;
}

/* Returns the slot of member `from` at member `at` for step `step`. */
WEFT_DEVICE char *staging_slot(const struct round *r, const struct staging *s, int at, int from,
                               int kind, uint64_t step)
{
    const struct coll_call *c = r->c;
    unsigned kinds = (unsigned)(step % COLL_STEP_SLOTS) * (unsigned)s->kinds + (unsigned)kind;
    unsigned slot = kinds * (unsigned)(c->members - 1) + (unsigned)(from - (from > at));
    return c->part[at] + s->first + slot * s->slot_bytes;
}

WEFT_DEVICE uint64_t staging_flag(const struct round *r, uint64_t steps)
{
    return r->number * COLL_STEPS + steps;
}

/* Reports `phases` ended phases. The fence orders the stores and loads of this thread and those of
 * the threads that it synchronized with in the block. */
WEFT_DEVICE void send_filled(struct round *r, const struct staging *s, uint64_t phases)
{
    const struct coll_call *c = r->c;
    weft_dev_sync_block();
    if (s->rank < (unsigned)c->members)
        weft_dev_fence(ORDERED, SYSTEM);
    for (int i = (int)s->rank; i < c->members; i += (int)s->threads)
        if (i != c->me)
            weft_dev_store_u64(&member_area(c, i)->filled[c->me][s->block], staging_flag(r, phases),
                               RELAXED, SYSTEM);
}

/* Waits until the other members have ended `phases` phases. all: also those with which this one
 * does not exchange its block. */
WEFT_DEVICE void await_filled(struct round *r, const struct staging *s, uint64_t phases, int all)
{
    const struct coll_call *c = r->c;
    for (int i = (int)s->rank; i < c->members; i += (int)s->threads)
        if (i != c->me && (all || sends_to(c, i) || receives_from(c, i)))
            await_flag(r, &r->own->filled[i][s->block], staging_flag(r, phases), i);
    r->failed = weft_dev_sync_block_or(r->failed);
}

/* Clears all slots of this block that were used with zeros, which no packet and no line has as its
 * flag. */
WEFT_DEVICE void staging_clear(const struct round *r, const struct staging *s)
{
    const struct coll_call *c = r->c;
    struct weft_dev_vec16 nothing = {0, 0};
    uint64_t used = s->end - s->begin < s->slot_bytes ? s->end - s->begin : s->slot_bytes;
    weft_dev_sync_block(); /* all threads have copied their part out */
    for (uint64_t step = 0; step < COLL_STEP_SLOTS && step < s->steps; step++)
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
                                               uint64_t slice, int member, uint64_t step)
{
    uint64_t within = s->begin + step * s->slot_bytes, left = s->end - within;
    struct staging_range range = {(slice ? slice : c->src_step) * (uint64_t)member + within,
                                  left < s->slot_bytes ? left : s->slot_bytes};
    if (slice && range.at + range.bytes > c->bytes)
        range.bytes = range.at < c->bytes ? c->bytes - range.at : 0;
    return range;
}

/* ------------------------------------------------------------------------------------- moves */

/* Copies one part of the block for `to` or from `from`: the own block to its place, a block for
 * another member into that member's slot, or one from another member out of the own slot. Elements
 * have no gaps in slots. */
WEFT_DEVICE void staging_move(const struct round *r, const struct staging *s, int from, int to,
                              uint64_t step, int strided)
{
    const struct coll_call *c = r->c;
    uint64_t at = s->begin + step * s->slot_bytes, left = s->end - at;
    uint64_t bytes = left < s->slot_bytes ? left : s->slot_bytes;
    const char *source = c->src + (uint64_t)to * c->src_step;
    char *target = c->dst + (uint64_t)from * c->dst_step;
    char *slot = staging_slot(r, s, to, from, 0, step);
    if (!strided)
        weft_dev_move(to == c->me ? target + at : slot, from == c->me ? source + at : slot,
                      (size_t)bytes, s->rank, s->threads, 1);
    else if (from == c->me)
        for (uint64_t u = s->rank; 16 * u < bytes; u += s->threads)
            weft_dev_store_vec16(slot + 16 * u, strided_load(c, source, at / 16 + u));
    else
        for (uint64_t u = s->rank; 16 * u < bytes; u += s->threads)
            strided_deliver(c, target, at / 16 + u, weft_dev_load_vec16_relaxed(slot + 16 * u));
}

/* A phase: sends a step to the other members, copies a step of the own block, and copies out the
 * step that was sent in the phase before. */
WEFT_DEVICE void push_phase(const struct round *r, const struct staging *s, uint64_t phase,
                            int copies_own, int strided)
{
    const struct coll_call *c = r->c;
    for (int i = 0; i < 2 * c->members - 1; i++) {
        int member = rotated_member(c, i % c->members), receives = i >= c->members;
        if (receives ? phase && receives_from(c, member)
                     : phase < s->steps && (member == c->me ? copies_own : sends_to(c, member)))
            staging_move(r, s, receives ? member : c->me, receives ? c->me : member,
                         phase - (uint64_t)receives, strided);
    }
}

WEFT_DEVICE void push_staged(const struct coll_call *c, uint64_t *shared, int strided)
{
    struct round r;
    uint64_t ticket = round_draw(c);
    if (round_begin(&r, c, ticket, shared))
        return;
    send_here(&r);
    struct staging s = staging_begin(&r, c->bytes, 1);
    int copies_own =
        !strided && receives_from(c, c->me) &&
        c->dst + (uint64_t)c->me * c->dst_step != c->src + (uint64_t)c->me * c->src_step;
    if (strided)
        push_own_block(&r, 1);
    await_here(&r, r.number);
    for (uint64_t phase = 0; s.steps && phase <= s.steps && !r.failed; phase++) {
        if (phase)
            await_filled(&r, &s, phase, 0);
        if (!r.failed)
            push_phase(&r, &s, phase, copies_own, strided);
        if (phase < s.steps)
            send_filled(&r, &s, phase + 1);
    }
    staging_clear(&r, &s);
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

/* First stage: the root stores a part of each slice into the slot of the slice's member, and into
 * its own dst. */
WEFT_DEVICE void spread_send(const struct round *r, const struct staging *s, uint64_t slice,
                             uint64_t step)
{
    const struct coll_call *c = r->c;
    for (int i = 0; i < c->members - 1; i++) {
        int member = rotated_member(c, i);
        struct staging_range part = staging_range(c, s, slice, slice_of(c, member), step);
        weft_dev_move(staging_slot(r, s, member, c->me, 0, step), c->src + part.at,
                      (size_t)part.bytes, s->rank, s->threads, 0);
        if (c->dst != c->src)
            weft_dev_move(c->dst + part.at, c->src + part.at, (size_t)part.bytes, s->rank,
                          s->threads, 0);
    }
}

/* Second stage: the other members forward their slice and copy it out. */
WEFT_DEVICE void spread_forward(const struct round *r, const struct staging *s, uint64_t slice,
                                uint64_t step)
{
    const struct coll_call *c = r->c;
    struct staging_range mine = staging_range(c, s, slice, slice_of(c, c->me), step);
    const char *from = staging_slot(r, s, c->me, c->root, 0, step);
    for (int i = 0; i < c->members - 1; i++) {
        int member = rotated_member(c, i);
        if (member != c->root)
            weft_dev_move(staging_slot(r, s, member, c->me, 0, step), from, (size_t)mine.bytes,
                          s->rank, s->threads, 1);
    }
    weft_dev_move(c->dst + mine.at, from, (size_t)mine.bytes, s->rank, s->threads, 1);
}

/* Third stage: they copy the slices of each other out. */
WEFT_DEVICE void spread_take(const struct round *r, const struct staging *s, uint64_t slice,
                             uint64_t step)
{
    const struct coll_call *c = r->c;
    for (int i = 0; i < c->members - 1; i++) {
        int member = rotated_member(c, i);
        struct staging_range part = staging_range(c, s, slice, slice_of(c, member), step);
        if (member != c->root)
            weft_dev_move(c->dst + part.at, staging_slot(r, s, c->me, member, 0, step),
                          (size_t)part.bytes, s->rank, s->threads, 1);
    }
}

/* Broadcast to several other members in slices, so that each link carries each byte once. */
KERNEL_OF_512 weft_coll_spread_scratch(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    const struct coll_call *c = &call;
    struct round r;
    uint64_t others = (uint64_t)c->members - 1;
    uint64_t slice = ((c->bytes + others - 1) / others + 15) & ~(uint64_t)15;
    uint64_t ticket = round_draw(c);
    if (round_begin(&r, c, ticket, shared))
        return;
    send_here(&r);
    struct staging s = staging_begin(&r, slice, 1);
    await_here(&r, r.number);
    for (uint64_t phase = 0; s.steps && phase < s.steps + 2 && !r.failed; phase++) {
        if (phase)
            await_filled(&r, &s, phase, 1);
        if (r.failed)
            break;
        if (c->me == c->root && phase < s.steps)
            spread_send(&r, &s, slice, phase);
        if (c->me != c->root && phase && phase - 1 < s.steps)
            spread_forward(&r, &s, slice, phase - 1);
        if (c->me != c->root && phase > 1)
            spread_take(&r, &s, slice, phase - 2);
        if (phase < s.steps + 1)
            send_filled(&r, &s, phase + 1);
    }
    staging_clear(&r, &s);
    round_end(&r, 1);
}

/* -------------------------------------------------------------------------------- reductions */

/* Returns whether a member gets results of slices that other members combined. */
WEFT_DEVICE int gets_results(const struct coll_call *c, int member)
{
    return c->reduction.everywhere || (c->flow == COLL_TO && member == c->root);
}

/* First stage: sends the parts of a step that other members combine. */
WEFT_DEVICE void reduce_send_parts(const struct round *r, const struct staging *s, uint64_t slice,
                                   uint64_t step)
{
    const struct coll_call *c = r->c;
    for (int i = 0; i < c->members - 1; i++) {
        int member = rotated_member(c, i);
        struct staging_range theirs = staging_range(c, s, slice, member, step);
        weft_dev_move(staging_slot(r, s, member, c->me, 0, step), c->src + theirs.at,
                      (size_t)theirs.bytes, s->rank, s->threads, 0);
    }
}

/* Second stage: combines this member's part of a step in the order of the team, and stores it where
 * it is wanted, `unroll` units of each thread together. A thread stores into dst what it loaded
 * from src: dst may be src. */
WEFT_DEVICE void reduce_combine(const struct round *r, const struct staging *s,
                                struct weft_dev_how h, uint64_t slice, uint64_t step,
                                const int unroll)
{
    const struct coll_call *c = r->c;
    struct staging_range mine = staging_range(c, s, slice, c->me, step);
    char *to = c->dst + (slice ? mine.at : s->begin + step * s->slot_bytes);
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

/* Third stage: copies out the results of a step that other members combined. */
WEFT_DEVICE void reduce_take_results(const struct round *r, const struct staging *s, uint64_t slice,
                                     uint64_t step)
{
    const struct coll_call *c = r->c;
    for (int i = 0; i < c->members - 1 && gets_results(c, c->me); i++) {
        int member = rotated_member(c, i);
        struct staging_range theirs = staging_range(c, s, slice, member, step);
        weft_dev_move(c->dst + theirs.at, staging_slot(r, s, c->me, member, 1, step),
                      (size_t)theirs.bytes, s->rank, s->threads, 1);
    }
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
    struct staging s = staging_begin(&r, sliced ? slice : c->bytes, 1 + sliced);
    uint64_t phases = s.steps ? s.steps + 1 + (uint64_t)sliced : 0;
    factors_exchange(&r, h, factors);
    await_here(&r, r.number);
    for (uint64_t phase = 0; phase < phases && !r.failed; phase++) {
        if (phase)
            await_filled(&r, &s, phase, 1);
        if (r.failed)
            break;
        if (phase && phase - 1 < s.steps)
            reduce_combine_as(&r, &s, h, slice, phase - 1);
        if (phase < s.steps)
            reduce_send_parts(&r, &s, slice, phase);
        if (phase > 1 && sliced)
            reduce_take_results(&r, &s, slice, phase - 2);
        if (phase + 1 < phases)
            send_filled(&r, &s, phase + 1);
    }
    staging_clear(&r, &s);
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
