/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that synchronise lanes of a warp. The last lane to arrive computes all results and
 * continues; the others become ready. An operation that can never complete fails as soon as that is
 * certain: at the arrival of a lane, or when no lane of the block can run (block.c). */
#include "simt.h"

#include <stdio.h>

static const char *const op_names[] = {
    [WEFT_SIMT_SYNC_WARP] = "sync_warp",
    [WEFT_SIMT_BALLOT] = "ballot",
    [WEFT_SIMT_ANY] = "any",
    [WEFT_SIMT_ALL] = "all",
    [WEFT_SIMT_MATCH_ANY] = "match_any",
    [WEFT_SIMT_MATCH_ALL] = "match_all",
    [WEFT_SIMT_SHUFFLE] = "shuffle",
    [WEFT_SIMT_SHUFFLE_UP] = "shuffle_up",
    [WEFT_SIMT_SHUFFLE_DOWN] = "shuffle_down",
    [WEFT_SIMT_SHUFFLE_XOR] = "shuffle_xor",
};

static unsigned lowest(uint32_t set)
{
    return (unsigned)__builtin_ctz(set);
}

#define for_each_lane(index, set)                                                                  \
    for (uint32_t set_##index = (set), index; set_##index && (index = lowest(set_##index), true);  \
         set_##index &= set_##index - 1)

void warp_describe_wait(const struct lane *lane, char *text, size_t bytes)
{
    const struct warp *warp = lane->warp;
    uint32_t bit = lane_bit(lane);
    if (warp->exited & bit)
        snprintf(text, bytes, "has exited");
    else if (warp->in_warp & bit)
        snprintf(text, bytes, "waits in %s with mask 0x%08x", op_names[lane->op], lane->mask);
    else if (warp->in_block & bit)
        snprintf(text, bytes, "waits in sync_block");
    else
        snprintf(text, bytes, "has not arrived");
}

/* --------------------------------------------------------------------------------- results */

/* Returns the lane whose value `lane` gets from a shuffle. */
static unsigned shuffle_source(const struct lane *lane)
{
    unsigned own = lane->self.lane;
    switch (lane->op) {
    case WEFT_SIMT_SHUFFLE:
        return lane->arg % LANES;
    case WEFT_SIMT_SHUFFLE_UP:
        return lane->arg <= own ? own - lane->arg : own;
    case WEFT_SIMT_SHUFFLE_DOWN:
        return lane->arg < LANES - own ? own + lane->arg : own;
    default:
        return (own ^ lane->arg) < LANES ? own ^ lane->arg : own;
    }
}

static void shuffle(struct warp *warp, uint32_t mask)
{
    for_each_lane(i, mask)
    {
        struct lane *lane = &warp->lanes[i];
        unsigned source = shuffle_source(lane);
        if (!(mask & 1u << source)) {
            const char *why = !(warp->existing & 1u << source) ? "which the block does not have"
                              : warp->exited & 1u << source    ? "which has exited"
                                                               : "which is not in the mask";
            block_fail(lane, "%s from lane %u, %s (mask 0x%08x)", op_names[lane->op], source, why,
                       mask);
        }
        lane->result = warp->lanes[source].value;
    }
}

static void match_any(struct warp *warp, uint32_t mask)
{
    while (mask) {
        uint64_t value = warp->lanes[lowest(mask)].value;
        uint32_t same = 0;
        for_each_lane(i, mask) same |= (uint32_t)(warp->lanes[i].value == value) << i;
        for_each_lane(i, same) warp->lanes[i].result = same;
        mask &= ~same;
    }
}

static uint64_t common_result(struct warp *warp, enum weft_simt_warp_op op, uint32_t mask)
{
    uint32_t agree = 0;
    uint64_t first = op == WEFT_SIMT_MATCH_ALL ? warp->lanes[lowest(mask)].value : 1;
    for_each_lane(i, mask) agree |= (uint32_t)(warp->lanes[i].value == first) << i;
    switch (op) {
    case WEFT_SIMT_BALLOT:
        return agree;
    case WEFT_SIMT_ANY:
        return agree != 0;
    case WEFT_SIMT_ALL:
        return agree == mask;
    case WEFT_SIMT_MATCH_ALL:
        return agree == mask ? mask : 0;
    default:
        return 0;
    }
}

/* Completes an operation at which all lanes of `mask` have arrived, and makes them ready. */
static void complete_operation(struct warp *warp, enum weft_simt_warp_op op, uint32_t mask)
{
    if (op >= WEFT_SIMT_SHUFFLE) {
        shuffle(warp, mask);
    } else if (op == WEFT_SIMT_MATCH_ANY) {
        match_any(warp, mask);
    } else if (op != WEFT_SIMT_SYNC_WARP) {
        uint64_t result = common_result(warp, op, mask);
        for_each_lane(i, mask) warp->lanes[i].result = result;
    }
    warp->in_warp &= ~mask;
    warp->ready |= mask;
    warp->todo |= mask;
    warp->block->progress = true;
}

/* --------------------------------------------------------------------------------- arrival */

/* Returns the lanes that an operation with `mask` waits for. Lanes that never existed do not count,
 * and exited lanes count only if naming them is an error. */
static uint32_t participants(const struct warp *warp, uint32_t mask)
{
    mask &= warp->existing;
    if (mask & warp->exited && !block_exited_is_fault())
        mask &= ~warp->exited;
    return mask;
}

/* Fails if `lane` can never meet `other`: it has exited, or it waits for this lane in another
 * operation. */
static void check_pair(struct lane *lane, struct lane *other)
{
    struct warp *warp = lane->warp;
    uint32_t bit = lane_bit(other);
    char state[96];
    if (warp->exited & bit && block_exited_is_fault())
        block_fail(lane, "%s with mask 0x%08x names lane %u, which has exited", op_names[lane->op],
                   lane->mask, other->self.lane);
    bool stuck = warp->in_block & bit;
    if (warp->in_warp & bit && other->mask & lane_bit(lane))
        stuck = other->op != lane->op || other->mask != lane->mask;
    if (!stuck)
        return;
    warp_describe_wait(other, state, sizeof state);
    block_fail(lane, "%s with mask 0x%08x names lane %u, which %s, for this lane too",
               op_names[lane->op], lane->mask, other->self.lane, state);
}

/* Returns true if all lanes that the lane's operation names have arrived at the same operation. */
static bool have_all_arrived(const struct warp *warp, const struct lane *lane, uint32_t mask)
{
    if (mask & ~warp->in_warp)
        return false;
    if (!warp->mixed)
        return true;
    for_each_lane(i, mask)
    {
        const struct lane *other = &warp->lanes[i];
        if (other->op != lane->op || other->mask != lane->mask)
            return false;
    }
    return true;
}

/* Updates warp->mixed. Returns the lanes that may wait at another operation than `lane`. */
static uint32_t compare_with_waiting(struct warp *warp, const struct lane *lane)
{
    if (!warp->in_warp) {
        warp->mixed = false;
        warp->op = lane->op;
        warp->mask = lane->mask;
    } else if (warp->op != lane->op || warp->mask != lane->mask) {
        warp->mixed = true;
    }
    return warp->mixed ? warp->in_warp : 0;
}

static uint64_t meet(struct lane *lane)
{
    struct warp *warp = lane->warp;
    uint32_t bit = lane_bit(lane);
    uint32_t mask = participants(warp, lane->mask);
    if (!(mask & bit))
        block_fail(lane, "%s with mask 0x%08x, which does not name the calling lane",
                   op_names[lane->op], lane->mask);
    uint32_t elsewhere = compare_with_waiting(warp, lane);
    for_each_lane(i, mask & ~bit & (warp->exited | warp->in_block | elsewhere))
        check_pair(lane, &warp->lanes[i]);

    struct lane *leader = &warp->lanes[lowest(mask)];
    bool orders = lane->op == WEFT_SIMT_SYNC_WARP;
    if (orders)
        tsan_release(&leader->meet_tag);
    warp->in_warp |= bit;
    warp->ready &= ~bit;
    if (have_all_arrived(warp, lane, mask)) {
        complete_operation(warp, lane->op, mask);
        warp->todo &= ~bit; /* continues at once */
    } else {
        block_yield(lane);
    }
    if (orders)
        tsan_acquire(&leader->meet_tag);
    return lane->result;
}

/* A caller outside a kernel is alone in its warp. */
static uint64_t single_lane_result(enum weft_simt_warp_op op, uint64_t value)
{
    switch (op) {
    case WEFT_SIMT_SYNC_WARP:
        return 0;
    case WEFT_SIMT_MATCH_ANY:
    case WEFT_SIMT_MATCH_ALL:
        return 1;
    default:
        return value;
    }
}

WEFT_EXPORT uint64_t weft_simt_warp(enum weft_simt_warp_op op, uint32_t mask, uint64_t value,
                                    unsigned arg)
{
    struct lane *lane = simt_current;
    if (!lane)
        return single_lane_result(op, value);
    block_count_poll(lane);
    lane->op = op;
    lane->mask = mask;
    lane->value = value;
    lane->arg = arg;
    return meet(lane);
}

void warp_lane_exited(struct warp *warp, struct lane *lane)
{
    uint32_t bit = lane_bit(lane);
    for_each_lane(i, warp->in_warp)
    {
        struct lane *other = &warp->lanes[i];
        if (!(warp->in_warp & 1u << i) || !(other->mask & bit))
            continue;
        if (block_exited_is_fault())
            block_fail(other, "%s with mask 0x%08x names lane %u, which has exited",
                       op_names[other->op], other->mask, lane->self.lane);
        uint32_t mask = participants(warp, other->mask);
        if (have_all_arrived(warp, other, mask))
            complete_operation(warp, other->op, mask);
    }
}

/* ------------------------------------------------------------------------------------- active_mask
 *
 * Returns the lanes at the same call when no lane of the warp can continue otherwise. That is as
 * much convergence as a GPU shows, and never waits for a lane that is elsewhere. Lanes that have
 * reached a function by different calls are not converged on a GPU; here the depth of their stacks
 * distinguishes them. */

WEFT_EXPORT uint32_t weft_simt_active_mask(void)
{
    struct lane *lane = simt_current;
    if (!lane)
        return 1;
    block_count_poll(lane);
    if ((lane->warp->existing & ~lane->warp->exited) == lane_bit(lane))
        return lane_bit(lane); /* there is no other lane to wait for */
    lane->site = __builtin_return_address(0);
    lane->depth =
        (size_t)(lane->context.stack + lane->context.bytes - (char *)__builtin_frame_address(0));
    lane->warp->in_active |= lane_bit(lane);
    lane->warp->ready &= ~lane_bit(lane);
    block_yield(lane);
    return (uint32_t)lane->result;
}

void warp_resolve_active(struct warp *warp)
{
    uint32_t waiting = warp->in_active;
    warp->in_active = 0;
    warp->ready |= waiting;
    warp->todo |= waiting;
    while (waiting) {
        const struct lane *first = &warp->lanes[lowest(waiting)];
        uint32_t group = 0;
        for_each_lane(i, waiting)
        {
            const struct lane *other = &warp->lanes[i];
            group |= (uint32_t)(other->site == first->site && other->depth == first->depth) << i;
        }
        for_each_lane(i, group) warp->lanes[i].result = group;
        waiting &= ~group;
    }
}
