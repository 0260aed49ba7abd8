/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of lanes of a warp, and turns of lanes that are not independent. Only simt.h includes it. */
#ifndef WEFT_DEVICE_LANES_H
#define WEFT_DEVICE_LANES_H

/* Sets of lanes: how many; the lowest and the highest of a set that is not empty; the lanes up to
 * `lane`, with it, or without it. */
WEFT_DEVICE unsigned weft_dev_lanes_count(weft_lane_mask lanes)
{
    return WEFT_TARGET_CUDA ? weft_dev_popcount_u32((uint32_t)lanes) : weft_dev_popcount_u64(lanes);
}

WEFT_DEVICE unsigned weft_dev_lanes_first(weft_lane_mask lanes)
{
    return (WEFT_TARGET_CUDA ? weft_dev_find_first_u32((uint32_t)lanes)
                             : weft_dev_find_first_u64(lanes)) -
           1;
}

WEFT_DEVICE unsigned weft_dev_lanes_last(weft_lane_mask lanes)
{
    return WEFT_TARGET_CUDA ? 31 - weft_dev_leading_zeros_u32((uint32_t)lanes)
                            : 63 - weft_dev_leading_zeros_u64(lanes);
}

WEFT_DEVICE weft_lane_mask weft_dev_lanes_up_to(unsigned lane)
{
    return ((weft_lane_mask)2 << lane) - 1;
}

WEFT_DEVICE weft_lane_mask weft_dev_lanes_before(unsigned lane)
{
    /* NOLINTNEXTLINE(clang-analyzer-core*): the lane is of a warp */
    return ((weft_lane_mask)1 << lane) - 1;
}

/* The caller's half of a warp of 64 lanes, or its whole warp of 32. */
WEFT_DEVICE weft_lane_mask weft_dev_lanes_half(void)
{
    return WEFT_TARGET_CUDA ? WEFT_FULL_MASK
                            : (weft_lane_mask)0xffffffffu << (weft_dev_lane() & 32);
}

/* ------------------------------------------------------------------------------------- turns
 *
 * WEFT_DEV_IN_TURN(lanes, group) statement
 *     Where lanes are not independent, the lanes of one group run the statement after those of
 *     another, and each group ends it before the next one begins. `lanes` are the converged lanes
 *     that all come here, `group` those that act together with the caller: their sets divide
 *     `lanes`. Where lanes are independent, all run it at once. The statement contains no break,
 *     continue or return.
 *
 * So a lane that has taken a place in a queue fills it before another lane of its warp waits for
 * a place. Otherwise that lane would wait for ever: the first one would be held at the end of the
 * loop in which both waited (weft_dev_lanes_independent()). */
struct weft_dev_turns {
    weft_lane_mask lanes, left; /* left: the first lane of each group that has not had its turn */
    unsigned first;             /* of the caller's group */
};

WEFT_DEVICE struct weft_dev_turns weft_dev_turns_begin(weft_lane_mask lanes, weft_lane_mask group)
{
    struct weft_dev_turns turns = {lanes, 1, 0};
    if (!weft_dev_lanes_independent()) {
        turns.first = weft_dev_lanes_first(group);
        turns.left = weft_dev_ballot(lanes, weft_dev_lane() == turns.first);
    }
    return turns;
}

WEFT_DEVICE int weft_dev_turns_mine(const struct weft_dev_turns *turns)
{
    return weft_dev_lanes_independent() || weft_dev_lanes_first(turns->left) == turns->first;
}

WEFT_DEVICE void weft_dev_turns_next(struct weft_dev_turns *turns)
{
    turns->left &= turns->left - 1;
    if (!weft_dev_lanes_independent())
        weft_dev_sync_warp(turns->lanes);
}

#define WEFT_DEV_IN_TURN(lanes, group)                                                             \
    for (struct weft_dev_turns turns_ = weft_dev_turns_begin(lanes, group); turns_.left;           \
         weft_dev_turns_next(&turns_))                                                             \
        if (weft_dev_turns_mine(&turns_))

/* The lanes that are here together, for WEFT_DEV_IN_TURN. */
WEFT_DEVICE weft_lane_mask weft_dev_turns_lanes(void)
{
    return weft_dev_lanes_independent() ? 0 : weft_dev_active_mask();
}

WEFT_DEVICE weft_lane_mask weft_dev_lanes_own(void)
{
    return (weft_lane_mask)1 << weft_dev_lane();
}

#endif
