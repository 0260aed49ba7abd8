/* SPDX-License-Identifier: Apache-2.0 */
/* Neighbouring single values that lanes of a warp give at the same time: which of them stand next
 * to each other at one peer, so that a carrier can send them in one piece. Knows nothing of
 * carriers.
 *
 * Lanes that are here together (weft_dev_active_mask()) are taken in their order, those that are
 * not here are left out of it. A run goes on from one lane to the next when both have values of one
 * size for one PE and the next one's stands right behind it, or in the same place. */
#ifndef WEFT_DEVICE_RUN_H
#define WEFT_DEVICE_RUN_H

#include <weft/device/access.h>

struct weft_dev_run {
    uint32_t mask;   /* lanes of the run, the caller among them */
    uint32_t leader; /* its first lane, whose value stands first; */
    uint32_t leads;  /* 1: the caller is it */
    uint32_t at;     /* where the caller's value stands, in values */
    uint32_t values; /* places; fewer than lanes where several have the same */
    uint32_t stands; /* 1: of lanes with the same place it is the last, whose value stands there */
};

/* No run goes over the end of a segment into another one that is mapped behind it: segments are
 * multiples of this. */
enum { WEFT_DEV_RUN_PAGE = 4096 };

/* Called by all lanes that are here together, which are `mask`. `bytes` is 1, 2, 4 or 8, and the
 * address a multiple. */
WEFT_DEVICE_NOINLINE void weft_dev_run_find(struct weft_dev_run *run, uint32_t mask,
                                            uint64_t address, unsigned bytes, int pe)
{
    unsigned lane = weft_dev_lane();
    run->mask = mask;
    run->leader = lane;
    run->leads = 1;
    run->at = 0;
    run->values = 1;
    run->stands = 1;
    if (!(mask & (mask - 1))) /* one lane alone */
        return;
    uint32_t up_to_me = (2u << lane) - 1;
    uint32_t before = mask & up_to_me >> 1;
    unsigned previous = before ? 31 - weft_dev_leading_zeros_u32(before) : lane;
    uint64_t theirs = weft_dev_shuffle_u64(mask, address, previous);
    uint32_t their_pe = weft_dev_shuffle_u32(mask, (uint32_t)pe, previous);
    uint32_t their_bytes = weft_dev_shuffle_u32(mask, bytes, previous);
    int alike = before && their_pe == (uint32_t)pe && their_bytes == bytes;
    int behind = alike && address == theirs + bytes && address % WEFT_DEV_RUN_PAGE;
    uint32_t heads = weft_dev_ballot(mask, !behind && !(alike && address == theirs));
    uint32_t steps = weft_dev_ballot(mask, behind);
    uint32_t later_heads = heads & ~up_to_me;
    run->leader = 31 - weft_dev_leading_zeros_u32(heads & up_to_me);
    run->leads = run->leader == lane;
    run->mask = mask & ~((1u << run->leader) - 1) & ((later_heads & (0 - later_heads)) - 1);
    run->at = weft_dev_popcount_u32(steps & run->mask & up_to_me);
    run->values = 1 + weft_dev_popcount_u32(steps & run->mask);
    uint32_t later = mask & ~up_to_me;
    run->stands = !(later & (0 - later) & ~(heads | steps));
}

#endif
