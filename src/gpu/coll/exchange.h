/* SPDX-License-Identifier: Apache-2.0 */
/* Alltoallv and collect with the simple protocol. The members first exchange sizes and offsets, in
 * one unit of LL packets for each member, which also reports that destinations are ready. Then the
 * blocks are stored to their destinations, as in simple.h. Three transfers and a fence; the
 * bytes themselves and a unit for each member on each link. The staged protocol is in
 * sized.h. */
#ifndef WEFT_GPU_COLL_OFFERS_H
#define WEFT_GPU_COLL_OFFERS_H

#include <weft/device/move.h>

#include "gpu/coll/round.h"

/* What this member and member i exchange: how many bytes go to member i and their offset in src;
 * and the offer to member i: the offset of its block in dst and how many bytes may come, 0 where
 * that would exceed the destination's end. For collect, which has no counts, the offer is the
 * number of bytes of this member. */
struct sized_own {
    uint64_t bytes, from;
    struct weft_dev_vec16 offer; /* sent as a unit of LL packets */
};

/* The four loads do not wait for each other: the arrays may be in host memory. */
WEFT_DEVICE struct sized_own load_sizes(const struct coll_call *c, int member)
{
    struct sized_own own = {c->bytes, 0, {c->bytes, 0}};
    if (!c->sized.counts)
        return own;
    own.bytes = c->sized.counts[member];
    own.from = c->sized.src_at[member];
    own.offer.lo = c->sized.dst_at[member];
    own.offer.hi = c->sized.room_of[member];
    if (own.offer.lo > c->sized.room || own.offer.hi > c->sized.room - own.offer.lo)
        own.offer.hi = 0;
    return own;
}

/* Reports a block that is larger than the receiver's space for it; nothing is stored there. */
WEFT_DEVICE_NOINLINE void record_refused_block(struct weft_dev_box *box, uint64_t *tickets,
                                               int operation, int team, int pe, const void *at,
                                               uint64_t bytes, uint64_t room)
{
    write_record_of(box, tickets, WEFT_DEV_RECORD_REFUSED, -4 /* WEFT_ERR_RANGE */,
                    (uint32_t)operation, team, pe, at, bytes, room, 3 /* WEFT_LE */, 0);
}

WEFT_DEVICE char *destination_at(const struct coll_call *c, int member, uint64_t at)
{
    return member == c->me ? c->dst + at : c->part[member] + c->to + at;
}

/* Stores a block to its destination at `member`, unless it is there already. */
WEFT_DEVICE void push_block(const struct round *r, int member, const char *from, uint64_t bytes,
                            uint64_t at)
{
    const struct coll_call *c = r->c;
    char *to = destination_at(c, member, at);
    if (to != from)
        weft_dev_move(to, from, (size_t)bytes, r->rank, r->threads, 0);
}

/* Called by all threads after a round in which a block of this member did not fit. Returns whether
 * this thread reports it: a thread of the last block to end, since a host that sees the report
 * stops waiting, and blocks that are still running would be lost. */
WEFT_DEVICE int is_last_block(const struct round *r)
{
    uint64_t blocks = weft_dev_grid_dim_x();
    weft_dev_sync_block();
    if (weft_dev_thread_x() != 0 ||
        weft_dev_atomic_add_u64(&r->own->ended, 1, ORDERED, WEFT_SCOPE_GPU) + 1 < blocks)
        return 0;
    weft_dev_store_u64(&r->own->ended, 0, RELAXED, WEFT_SCOPE_GPU);
    return 1;
}

/* A team of one member needs no round, and no fence except the kernel's end. */
WEFT_DEVICE void push_alone(struct round *r, const struct coll_call *c)
{
    GRID_WAIT();
    struct sized_own own = load_sizes(c, 0);
    uint64_t at = c->sized.counts ? own.offer.lo : 0,
             room = c->sized.counts ? own.offer.hi : c->sized.room;
    r->c = c;
    r->threads = weft_dev_grid_dim_x() * weft_dev_block_dim_x();
    r->rank = weft_dev_block_x() * weft_dev_block_dim_x() + weft_dev_thread_x();
    if (own.bytes <= room)
        push_block(r, 0, c->src + own.from, own.bytes, at);
    else if (r->rank == 0)
        record_refused_block(c->record.reporting.box, c->record.reporting.tickets,
                             c->record.operation, c->record.team, c->record.pe[0], c->dst + at,
                             own.bytes, room);
}

/* Exchanges the offers. offers[2 i] and [2 i + 1]: offer of member i; sends[2 i] and [2 i + 1]:
 * what goes to member i; both in shared memory. `first` has the sizes for the member with this
 * thread's index. */
WEFT_DEVICE void exchange_offers(struct round *r, struct sized_own first, uint64_t *offers,
                                 uint64_t *sends)
{
    const struct coll_call *c = r->c;
    int rank = (int)weft_dev_thread_x(), threads = (int)weft_dev_block_dim_x();
    await_slots(r);
    for (int i = rank; i < c->members; i += threads) {
        struct sized_own own = i == rank ? first : load_sizes(c, i);
        if (i != c->me && r->block == 0)
            ll_send_unit(ll_slot(r, i, c->me, c->members), 0, own.offer, 1, r->ll_flag);
        sends[2 * i] = own.bytes;
        sends[2 * i + 1] = own.from;
        offers[2 * i] = own.offer.lo;
        offers[2 * i + 1] = own.offer.hi;
    }
    for (int i = rank; i < c->members; i += threads) {
        const char *slot = ll_slot(r, c->me, i, c->members);
        if (i == c->me)
            continue;
        struct weft_dev_vec16 v = ll_await_pair(r, ll_load_pair(slot, 0, 1), slot, 0, 1, i);
        offers[2 * i] = v.lo;
        offers[2 * i + 1] = v.hi;
    }
    r->failed = weft_dev_sync_block_or(r->failed);
}

/* The block for a member and its offset in the destination. */
struct sized_block {
    uint64_t bytes, from, at, room;
    int fits;
};

/* before, all: for collect, bytes of the members before this one, and of all members. */
WEFT_DEVICE struct sized_block find_block(const struct coll_call *c, const uint64_t *offers,
                                          const uint64_t *sends, int member, uint64_t before,
                                          uint64_t all)
{
    struct sized_block b = {sends[2 * member], sends[2 * member + 1], before, c->sized.room, 0};
    b.fits = all <= c->sized.room;
    if (!c->sized.counts)
        return b;
    b.at = offers[2 * member];
    b.room = offers[2 * member + 1];
    b.fits = b.bytes <= b.room;
    return b;
}

/* Reports the blocks that did not fit, after the round. */
WEFT_DEVICE void record_refused_blocks(const struct round *r, const uint64_t *offers,
                                       const uint64_t *sends, uint64_t before, uint64_t all)
{
    const struct coll_call *c = r->c;
    int fits = 1;
    for (int i = 0; i < c->members; i++)
        fits &= find_block(c, offers, sends, i, before, all).fits;
    if (fits || !is_last_block(r))
        return;
    for (int i = 0; i < c->members; i++) {
        struct sized_block b = find_block(c, offers, sends, i, before, all);
        if (!b.fits)
            record_refused_block(c->record.reporting.box, c->record.reporting.tickets,
                                 c->record.operation, c->record.team, c->record.pe[i],
                                 destination_at(c, i, b.at), b.bytes, b.room);
    }
}

/* Alltoallv and collect: the members first exchange sizes and offsets, which also reports that
 * destinations are ready. The own sizes are loaded while the number of the round is in flight. */
KERNEL weft_coll_push_sized(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    WEFT_SHARED(uint64_t, offers, [2 * COLL_MEMBERS]);
    WEFT_SHARED(uint64_t, sends, [2 * COLL_MEMBERS]); /* bytes and offset in src */
    const struct coll_call *c = &call;
    struct round r;
    struct sized_own first = {0, 0, {0, 0}};
    uint64_t before = 0, all = 0;
    if (c->members == 1) {
        push_alone(&r, c);
        return;
    }
    uint64_t ticket = round_draw(c);
    if (weft_dev_thread_x() < (unsigned)c->members)
        first = load_sizes(c, (int)weft_dev_thread_x());
    if (round_begin(&r, c, ticket, shared))
        return;
    exchange_offers(&r, first, offers, sends);
    for (int i = 0; i < c->members && !c->sized.counts && !r.failed; i++) {
        before += i < c->me ? offers[2 * i] : 0;
        all += offers[2 * i];
    }
    int known = !r.failed;
    for (int i = 0; i < c->members && known; i++) {
        int member = rotated_member(c, i);
        struct sized_block b = find_block(c, offers, sends, member, before, all);
        if (b.fits)
            push_block(&r, member, c->src + b.from, b.bytes, b.at);
    }
    round_end(&r, 1);
    mark_all_begun(&r);
    if (known)
        record_refused_blocks(&r, offers, sends, before, all);
}

#endif
