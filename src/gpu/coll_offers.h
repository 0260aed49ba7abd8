/* SPDX-License-Identifier: Apache-2.0 */
/* Alltoallv and collect, direct: sizes and places come first, a unit of packets for each member, which also says that
 * destinations are ready; then the blocks go where they belong, as in coll_direct.h. Three trips and a fence, the bytes themselves
 * and a unit for each member on each link. Through scratch: coll_sized.h. */
#ifndef WEFT_GPU_COLL_OFFERS_H
#define WEFT_GPU_COLL_OFFERS_H

#include <weft/device/move.h>

#include "coll_round.h"

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

#endif
