/* SPDX-License-Identifier: Apache-2.0 */
/* Collect and alltoallv with the staged protocol (staged.h), for destinations that the other
 * members cannot access. The bytes themselves and a unit for each member go over each link; fences
 * and flags as in other staged rounds.
 *
 * The members first exchange how many bytes each has for the other, and for how many it has space.
 * They use LL packets in the slots for factors of weighted sums, since faster members already fill
 * the staging slots. So both sides know whether a block fits. The sender of a block that does not
 * fit writes the error record at the end, and both sides count it as 0 bytes. In collect each
 * member checks its own space. A member that has heard from all members knows that they have begun:
 * slots and destinations are free.
 *
 * Each pair has steps of its own, as many as its bytes need. Step k of a pair needs `emptied` of
 * step k - 1. A member does its steps with all other members in one order, so the member that is
 * furthest behind waits for no other member. */
#ifndef WEFT_GPU_COLL_SIZED_H
#define WEFT_GPU_COLL_SIZED_H

#include "gpu/coll/exchange.h"
#include "gpu/coll/staged.h"

/* Transfers between this member and another one. begin, end: this thread block's share of the
 * blocks of data. */
struct sized_pair {
    uint64_t in, in_begin, in_end; /* bytes from that member; 0: none or refused */
    uint64_t out, out_begin, out_end;
    uint64_t from;       /* offset in src of the block for that member */
    uint64_t at;         /* offset in dst of the block from that member */
    uint64_t want, room; /* bytes that this member has for it, and bytes that it has space for */
};

/* Returns `bytes` when they fit and a round has enough steps for them, else 0. */
WEFT_DEVICE uint64_t fitting_bytes(const struct staging *s, uint64_t bytes, uint64_t room)
{
    uint64_t most = (COLL_STEPS - 2) * s->slot_bytes * weft_dev_grid_dim_x();
    return bytes <= room && bytes <= most ? bytes : 0;
}

WEFT_DEVICE void sized_share(const struct staging *s, uint64_t bytes, uint64_t *begin,
                             uint64_t *end)
{
    unsigned blocks = weft_dev_grid_dim_x();
    uint64_t share = (bytes + blocks - 1) / blocks;
    share = (share + COLL_STAGING_GRAIN - 1) / COLL_STAGING_GRAIN * COLL_STAGING_GRAIN;
    *begin = share * s->block < bytes ? share * s->block : bytes;
    *end = *begin + share < bytes ? *begin + share : bytes;
}

/* Places the blocks of a collect one after the other. All of them fit or none. */
WEFT_DEVICE void sized_place_blocks(const struct coll_call *c, struct sized_pair *pairs)
{
    uint64_t all = 0;
    int fits = 1;
    for (int i = 0; i < c->members; i++) {
        pairs[i].at = all;
        all += pairs[i].in;
        fits &= all >= pairs[i].in && all <= c->sized.room;
    }
    for (int i = 0; i < c->members && !fits; i++)
        pairs[i].in = pairs[i].in_begin = pairs[i].in_end = 0;
    if (fits)
        return;
    pairs[c->me].want = all; /* for sized_record_refused() */
    pairs[c->me].room = c->sized.room;
    pairs[c->me].out = 0;
}

/* Reports the blocks that did not fit, after the round. */
WEFT_DEVICE void sized_record_refused(const struct round *r, const struct sized_pair *pairs)
{
    const struct coll_call *c = r->c;
    int fits = 1;
    for (int i = 0; i < c->members; i++)
        fits &= pairs[i].out >= pairs[i].want;
    if (fits || !is_last_block(r))
        return;
    for (int i = 0; i < c->members; i++)
        if (pairs[i].out < pairs[i].want)
            record_refused_block(c->record.reporting.box, c->record.reporting.tickets,
                                 c->record.operation, c->record.team, c->record.pe[i],
                                 c->sized.counts ? 0 : c->dst, pairs[i].want, pairs[i].room);
}

/* Fills `pairs`, shared by the block: first what this member has for each other member and has
 * space for, then what fits. */
WEFT_DEVICE void sized_exchange(struct round *r, const struct staging *s, struct sized_pair *pairs)
{
    const struct coll_call *c = r->c;
    await_slots(r);
    for (int i = (int)s->rank; i < c->members; i += (int)s->threads) {
        struct sized_own own = load_sizes(c, i);
        struct weft_dev_vec16 sizes = {own.bytes, c->sized.counts ? own.offer.hi : UINT64_MAX};
        if (i != c->me && s->block == 0)
            ll_send_unit(factor_slot(r, i, c->me), 0, sizes, 1, r->ll_flag);
        pairs[i].want = sizes.lo;
        pairs[i].room = sizes.hi; /* space that this member has for it, until that member reports
                                     its own space */
        pairs[i].from = own.from;
        pairs[i].at = c->sized.counts ? own.offer.lo : 0;
    }
    for (int i = (int)s->rank; i < c->members; i += (int)s->threads) {
        const char *slot = factor_slot(r, c->me, i);
        struct sized_pair p = pairs[i];
        struct weft_dev_vec16 mine = {p.want, p.room}, theirs = mine;
        if (i != c->me)
            theirs = ll_await_pair(r, ll_load_pair(slot, 0, 1), slot, 0, 1, i);
        p.in = r->failed ? 0 : fitting_bytes(s, theirs.lo, mine.hi);
        p.out = r->failed ? 0 : fitting_bytes(s, mine.lo, theirs.hi);
        sized_share(s, p.in, &p.in_begin, &p.in_end);
        sized_share(s, p.out, &p.out_begin, &p.out_end);
        p.room = theirs.hi;
        pairs[i] = p;
    }
    r->failed = weft_dev_sync_block_or(r->failed);
    if (s->rank == 0 && !c->sized.counts && !r->failed)
        sized_place_blocks(c, pairs);
    weft_dev_sync_block();
}

/* Returns the bytes of step `step` of a share. */
WEFT_DEVICE uint64_t sized_step(const struct staging *s, uint64_t begin, uint64_t end,
                                uint64_t step)
{
    uint64_t left = end - begin, done = step * s->slot_bytes;
    left = left > done ? left - done : 0;
    return left < s->slot_bytes ? left : s->slot_bytes;
}

/* Stores a step into the slots of the members that get one. */
WEFT_DEVICE void sized_send(struct round *r, const struct staging *s,
                            const struct sized_pair *pairs, uint64_t step)
{
    const struct coll_call *c = r->c;
    for (int i = (int)s->rank; i < c->members && step > 1; i += (int)s->threads)
        if (i != c->me && sized_step(s, pairs[i].out_begin, pairs[i].out_end, step))
            await_flag(r, &r->own->emptied[i][s->block], staging_flag(r, step - 1), i);
    r->failed = weft_dev_sync_block_or(r->failed);
    for (int i = 0; i < c->members - 1 && !r->failed; i++) {
        int member = rotated_member(c, i);
        const struct sized_pair *p = &pairs[member];
        weft_dev_move(staging_slot(r, s, member, c->me, 0, step),
                      c->src + p->from + p->out_begin + step * s->slot_bytes,
                      (size_t)sized_step(s, p->out_begin, p->out_end, step), s->rank, s->threads,
                      0);
    }
    send_filled(r, s, step + 1);
}

/* Copies out what the other members stored for this step, and reports it to them. Release: pairs
 * with the acquire of sized_send(). */
WEFT_DEVICE void sized_receive(struct round *r, const struct staging *s,
                               const struct sized_pair *pairs, uint64_t step)
{
    const struct coll_call *c = r->c;
    for (int i = (int)s->rank; i < c->members; i += (int)s->threads)
        if (i != c->me && sized_step(s, pairs[i].in_begin, pairs[i].in_end, step))
            await_flag(r, &r->own->filled[i][s->block], staging_flag(r, step + 1), i);
    r->failed = weft_dev_sync_block_or(r->failed);
    for (int i = 0; i < c->members - 1 && !r->failed; i++) {
        int member = rotated_member(c, i);
        const struct sized_pair *p = &pairs[member];
        weft_dev_move(c->dst + p->at + p->in_begin + step * s->slot_bytes,
                      staging_slot(r, s, c->me, member, 0, step),
                      (size_t)sized_step(s, p->in_begin, p->in_end, step), s->rank, s->threads, 1);
    }
    weft_dev_sync_block();
    for (int i = (int)s->rank; i < c->members; i += (int)s->threads)
        if (i != c->me && sized_step(s, pairs[i].in_begin, pairs[i].in_end, step))
            weft_dev_store_u64(&member_area(c, i)->emptied[c->me][s->block],
                               staging_flag(r, step + 1), RELEASE, SYSTEM);
}

/* As staging_clear(). */
WEFT_DEVICE void sized_clear(const struct round *r, const struct staging *s,
                             const struct sized_pair *pairs)
{
    const struct coll_call *c = r->c;
    struct weft_dev_vec16 nothing = {0, 0};
    for (uint64_t step = 0; step < 2; step++)
        for (int i = 0; i < c->members; i++) {
            char *slot = staging_slot(r, s, c->me, i, 0, step);
            uint64_t used = sized_step(s, pairs[i].in_begin, pairs[i].in_end, step);
            for (uint64_t at = 16 * (uint64_t)s->rank; at < used && i != c->me;
                 at += 16 * (uint64_t)s->threads)
                weft_dev_store_vec16(slot + at, nothing);
        }
}

/* Returns the number of steps of this thread block. */
WEFT_DEVICE uint64_t sized_steps(const struct coll_call *c, const struct staging *s,
                                 const struct sized_pair *pairs)
{
    uint64_t longest = 0;
    for (int i = 0; i < c->members; i++) {
        uint64_t in = pairs[i].in_end - pairs[i].in_begin;
        uint64_t out = pairs[i].out_end - pairs[i].out_begin;
        if (i == c->me)
            continue;
        longest = in > longest ? in : longest;
        longest = out > longest ? out : longest;
    }
    return (longest + s->slot_bytes - 1) / s->slot_bytes;
}

KERNEL_OF_512 weft_coll_sized_scratch(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    WEFT_SHARED(struct sized_pair, pairs, [COLL_MEMBERS]);
    const struct coll_call *c = &call;
    struct round r;
    uint64_t ticket = round_draw(c);
    if (round_begin(&r, c, ticket, shared))
        return;
    struct staging s = staging_begin(&r, 0, 1);
    sized_exchange(&r, &s, pairs);
    const char *mine = c->src + pairs[c->me].from;
    char *to = c->dst + pairs[c->me].at;
    if (!r.failed && to != mine)
        weft_dev_move(to, mine, (size_t)pairs[c->me].in, r.rank, r.threads, 0);
    int known = !r.failed;
    uint64_t steps = r.failed ? 0 : sized_steps(c, &s, pairs);
    for (uint64_t step = 0; step < steps && !r.failed; step++) {
        sized_send(&r, &s, pairs, step);
        sized_receive(&r, &s, pairs, step);
    }
    weft_dev_sync_block(); /* all threads have copied their part out */
    sized_clear(&r, &s, pairs);
    round_end(&r, 1);
    mark_all_begun(&r);
    if (known)
        sized_record_refused(&r, pairs);
}

#endif
