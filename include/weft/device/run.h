/* SPDX-License-Identifier: Apache-2.0 */
/* Adjacent single values that lanes of a warp issue at the same time: finds which of them are next
 * to each other at one peer, so that a transport can send them as one request. Knows nothing of
 * transports.
 *
 * It takes the converged lanes (weft_dev_active_mask()) in their order, and ignores the others. A
 * run continues from one lane to the next when both have values of one size for one PE, and the
 * next value's address is directly after the first's, or the same. A run has at most 32 lanes. */
#ifndef WEFT_DEVICE_RUN_H
#define WEFT_DEVICE_RUN_H

#include <weft/device/access.h>

struct weft_dev_run {
    weft_lane_mask mask; /* lanes of the run, including the caller */
    uint32_t leader;     /* first lane of the run, whose value is the first */
    uint32_t leads;      /* 1: the caller is the leader */
    uint32_t at;         /* index of the caller's value in the run */
    uint32_t values; /* number of values; fewer than lanes where several have the same address */
    uint32_t stands; /* 1: the caller's value is the one sent, as the last lane with its address */
};

/* No run crosses the end of a segment into another segment that is mapped after it: segments are
 * multiples of this, in bytes. */
enum { WEFT_DEV_RUN_PAGE = 4096 };

/* Called by all converged lanes, which are `mask`. `bytes` is 1, 2, 4 or 8, and the address is a
 * multiple of it. */
WEFT_DEVICE_NOINLINE void weft_dev_run_find(struct weft_dev_run *run, weft_lane_mask mask,
                                            uint64_t address, unsigned bytes, int pe)
{
    unsigned lane = weft_dev_lane();
    run->mask = mask;
    run->leader = lane;
    run->leads = 1;
    run->at = 0;
    run->values = 1;
    run->stands = 1;
    if (!(mask & (mask - 1))) /* only one lane */
        return;
    weft_lane_mask up_to_me = weft_dev_lanes_up_to(lane);
    weft_lane_mask before = mask & up_to_me >> 1;
    unsigned previous = before ? weft_dev_lanes_last(before) : lane;
    uint64_t theirs = weft_dev_shuffle_u64(mask, address, previous);
    uint32_t their_pe = weft_dev_shuffle_u32(mask, (uint32_t)pe, previous);
    uint32_t their_bytes = weft_dev_shuffle_u32(mask, bytes, previous);
    int alike =
        (before & weft_dev_lanes_half()) && their_pe == (uint32_t)pe && their_bytes == bytes;
    int behind = alike && address == theirs + bytes && address % WEFT_DEV_RUN_PAGE;
    weft_lane_mask heads = weft_dev_ballot(mask, !behind && !(alike && address == theirs));
    weft_lane_mask steps = weft_dev_ballot(mask, behind);
    weft_lane_mask later_heads = heads & ~up_to_me;
    run->leader = weft_dev_lanes_last(heads & up_to_me);
    run->leads = run->leader == lane;
    run->mask =
        mask & ~weft_dev_lanes_before(run->leader) & ((later_heads & (0 - later_heads)) - 1);
    run->at = weft_dev_lanes_count(steps & run->mask & up_to_me);
    run->values = 1 + weft_dev_lanes_count(steps & run->mask);
    weft_lane_mask later = mask & ~up_to_me;
    run->stands = !(later & (0 - later) & ~(heads | steps));
}

#endif
