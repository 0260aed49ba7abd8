/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that synchronise lanes of a warp. The last lane to arrive computes all results and
 * continues; the others become ready. An operation that can never complete fails as soon as that is
 * certain: at the arrival of a lane, or when no lane of the block can run (block.c).
 *
 * The lanes of a warp of 32 are independent, as on NVIDIA's GPUs since sm_70: each continues when
 * what it polls for has come. Those of a warp of 64 (WEFT_TEST_SIMT_WAVE) are not, as on AMD's.
 * There a wave has one program counter: it runs one side of a branch to its end and then the other,
 * and lanes that have left a loop wait until the others have left it. Fibres have no common program
 * counter. So the executor lets each lane run as far as it gets, which does what comes before a
 * wait in the program, and then keeps two rules.
 *
 * 1. A lane that leaves a wait of Weft's device code (weft_dev_wait_begins() ... _ends()) is held
 * until no lane is left in the same wait: the same call, at the same depth of the stack, by lanes
 * that came together. These are lanes that last met each other and no others, at a vote, a barrier
 * or active_mask, or that have not met since they began. A lane that must act for the others to
 * continue, and acts after the wait, hangs, as on the GPU. After HELD_MOST_NS the executor lets the
 * held lanes go. If a lane leaves the wait right afterwards, that was the reason, and the kernel
 * ends with a report.
 *
 * 2. A lane may not store to the address that a lane which came together with it polls without
 * result, unless both are in the same wait: on a GPU the polling lane may not let it come so far.
 * This is reported at once. Lanes that meet between the store and the poll keep the rule.
 *
 * Not modelled are lanes that are in another wait than the first ones of their warp, lanes that a
 * loop of the program's own would hold, and operations with masks whose lanes have come by
 * different branches. */
#include "simt.h"

#include "base/clock.h"

#include <inttypes.h>
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

#define for_each_lane(index, set)                                                                  \
    for (uint64_t set_##index = (set), index;                                                      \
         set_##index && (index = lowest_lane(set_##index), true); set_##index &= set_##index - 1)

void warp_describe_wait(const struct lane *lane, char *text, size_t bytes)
{
    const struct warp *warp = lane->warp;
    uint64_t bit = lane_bit(lane);
    if (warp->exited & bit)
        snprintf(text, bytes, "has exited");
    else if (warp->in_warp & bit)
        snprintf(text, bytes, "waits in %s with mask 0x%08" PRIx64, op_names[lane->op], lane->mask);
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
        return lane->arg % simt_wave;
    case WEFT_SIMT_SHUFFLE_UP:
        return lane->arg <= own ? own - lane->arg : own;
    case WEFT_SIMT_SHUFFLE_DOWN:
        return lane->arg < simt_wave - own ? own + lane->arg : own;
    default:
        return (own ^ lane->arg) < simt_wave ? own ^ lane->arg : own;
    }
}

static void shuffle(struct warp *warp, uint64_t mask)
{
    for_each_lane(i, mask)
    {
        struct lane *lane = &warp->lanes[i];
        unsigned source = shuffle_source(lane);
        if (!(mask & (uint64_t)1 << source)) {
            const char *why = !(warp->existing & (uint64_t)1 << source)
                                  ? "which the block does not have"
                              : warp->exited & (uint64_t)1 << source ? "which has exited"
                                                                     : "which is not in the mask";
            block_fail(lane, "%s from lane %u, %s (mask 0x%08" PRIx64 ")", op_names[lane->op],
                       source, why, mask);
        }
        lane->result = warp->lanes[source].value;
    }
}

static void match_any(struct warp *warp, uint64_t mask)
{
    while (mask) {
        uint64_t value = warp->lanes[lowest_lane(mask)].value;
        uint64_t same = 0;
        for_each_lane(i, mask) same |= (uint64_t)(warp->lanes[i].value == value) << i;
        for_each_lane(i, same) warp->lanes[i].result = same;
        mask &= ~same;
    }
}

static uint64_t common_result(struct warp *warp, enum weft_simt_warp_op op, uint64_t mask)
{
    uint64_t agree = 0;
    uint64_t first = op == WEFT_SIMT_MATCH_ALL ? warp->lanes[lowest_lane(mask)].value : 1;
    for_each_lane(i, mask) agree |= (uint64_t)(warp->lanes[i].value == first) << i;
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
static void complete_operation(struct warp *warp, enum weft_simt_warp_op op, uint64_t mask)
{
    if (op >= WEFT_SIMT_SHUFFLE) {
        shuffle(warp, mask);
    } else if (op == WEFT_SIMT_MATCH_ANY) {
        match_any(warp, mask);
    } else if (op != WEFT_SIMT_SYNC_WARP) {
        uint64_t result = common_result(warp, op, mask);
        for_each_lane(i, mask) warp->lanes[i].result = result;
    }
    for_each_lane(i, mask) warp->lanes[i].converged = mask;
    warp->in_warp &= ~mask;
    warp->ready |= mask;
    warp->todo |= mask;
    warp->block->progress = true;
}

/* --------------------------------------------------------------------------------- arrival */

/* Returns the lanes that an operation with `mask` waits for. Lanes that never existed do not count,
 * and exited lanes count only if naming them is an error. */
static uint64_t participants(const struct warp *warp, uint64_t mask)
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
    uint64_t bit = lane_bit(other);
    char state[96];
    if (warp->exited & bit && block_exited_is_fault())
        block_fail(lane, "%s with mask 0x%08" PRIx64 " names lane %u, which has exited",
                   op_names[lane->op], lane->mask, other->self.lane);
    bool stuck = warp->in_block & bit;
    if (warp->in_warp & bit && other->mask & lane_bit(lane))
        stuck = other->op != lane->op || other->mask != lane->mask;
    if (!stuck)
        return;
    warp_describe_wait(other, state, sizeof state);
    block_fail(lane, "%s with mask 0x%08" PRIx64 " names lane %u, which %s, for this lane too",
               op_names[lane->op], lane->mask, other->self.lane, state);
}

/* Returns true if all lanes that the lane's operation names have arrived at the same operation. */
static bool have_all_arrived(const struct warp *warp, const struct lane *lane, uint64_t mask)
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
static uint64_t compare_with_waiting(struct warp *warp, const struct lane *lane)
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
    uint64_t bit = lane_bit(lane);
    uint64_t mask = participants(warp, lane->mask);
    if (!(mask & bit))
        block_fail(lane, "%s with mask 0x%08" PRIx64 ", which does not name the calling lane",
                   op_names[lane->op], lane->mask);
    uint64_t elsewhere = compare_with_waiting(warp, lane);
    for_each_lane(i, mask & ~bit & (warp->exited | warp->in_block | elsewhere))
        check_pair(lane, &warp->lanes[i]);

    struct lane *leader = &warp->lanes[lowest_lane(mask)];
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

WEFT_EXPORT uint64_t weft_simt_warp(enum weft_simt_warp_op op, uint64_t mask, uint64_t value,
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
    warp_end_watch(lane);
    return meet(lane);
}

void warp_lane_exited(struct warp *warp, struct lane *lane)
{
    uint64_t bit = lane_bit(lane);
    for_each_lane(i, warp->in_warp)
    {
        struct lane *other = &warp->lanes[i];
        if (!(warp->in_warp & (uint64_t)1 << i) || !(other->mask & bit))
            continue;
        if (block_exited_is_fault())
            block_fail(other, "%s with mask 0x%08" PRIx64 " names lane %u, which has exited",
                       op_names[other->op], other->mask, lane->self.lane);
        uint64_t mask = participants(warp, other->mask);
        if (have_all_arrived(warp, other, mask))
            complete_operation(warp, other->op, mask);
    }
}

/* ------------------------------------------------------------ lanes that are not independent */

/* A wait that another PE ends may last for long. What ends within FREED_NS after HELD_MOST_NS was
 * hardly that. */
#define HELD_MOST_NS 5000000000u
#define FREED_NS     200000000u

/* Whether the two lanes have met last with each other. */
static bool came_together(const struct lane *a, const struct lane *b)
{
    return a->converged & lane_bit(b) && b->converged & lane_bit(a);
}

static bool lanes_are_independent(void)
{
    enum { OF_INDEPENDENT_LANES = 32 };
    return simt_wave == OF_INDEPENDENT_LANES;
}

/* The lane begins the wait of its warp, unless others are in another one. */
WEFT_EXPORT void weft_simt_wait_begins(void)
{
    struct lane *lane = simt_current;
    if (!lane || lanes_are_independent())
        return;
    const char *frame = __builtin_frame_address(0);
    struct wait mine = {
        .caller = __builtin_return_address(0),
        .depth = (size_t)(lane->context.stack + lane->context.bytes - frame),
        .lanes = lane->converged,
    };
    struct warp *warp = lane->warp;
    struct wait *wait = &warp->wait;
    if (!(warp->waiting | warp->held)) {
        *wait = mine;
        warp->freed = 0;
    }
    if (wait->caller == mine.caller && wait->depth == mine.depth && wait->lanes == mine.lanes)
        warp->waiting |= lane_bit(lane);
}

static void let_go(struct warp *warp)
{
    warp->ready |= warp->held;
    warp->todo |= warp->held;
    warp->held = 0;
}

/* Fails if lanes that had left the wait were let go just before. */
static void check_freed(struct lane *lane)
{
    struct warp *warp = lane->warp;
    uint64_t others = warp->freed & ~lane_bit(lane);
    warp->freed = 0;
    if (others && clock_now_ns() - warp->freed_ns < FREED_NS)
        block_fail(
            lane,
            "this lane waits for lane %u of its warp, which has left the same wait; lanes of "
            "a warp of 64 leave it together, so let one of them act for all",
            lowest_lane(others));
}

WEFT_EXPORT void weft_simt_wait_ends(void)
{
    struct lane *lane = simt_current;
    if (!lane || !(lane->warp->waiting & lane_bit(lane)))
        return;
    struct warp *warp = lane->warp;
    warp->waiting &= ~lane_bit(lane);
    warp->watching &= ~lane_bit(lane);
    if (warp->freed)
        check_freed(lane);
    if (!warp->waiting) {
        let_go(warp);
        return;
    }
    if (!warp->held)
        warp->held_since = clock_now_ns();
    warp->held |= lane_bit(lane);
    warp->ready &= ~lane_bit(lane);
    warp->block->progress = true;
    block_yield(lane);
}

void warp_free_held(struct warp *warp)
{
    uint64_t now = clock_now_ns();
    if (now - warp->held_since < HELD_MOST_NS)
        return;
    warp->freed |= warp->held;
    warp->freed_ns = warp->held_since = now;
    let_go(warp);
}

void warp_watch(struct lane *lane, bool wrote)
{
    uint64_t bit = lane_bit(lane);
    if (!wrote && lane->low == lane->high && !lanes_are_independent())
        lane->warp->watching |= bit;
    else
        lane->warp->watching &= ~bit;
}

void warp_end_watch(struct lane *lane)
{
    lane->self.wrote = 1; /* what it has loaded so often was no wait */
    lane->warp->watching &= ~lane_bit(lane);
}

WEFT_EXPORT void weft_simt_written(const volatile void *p)
{
    struct lane *lane = simt_current;
    if (!lane)
        return;
    struct warp *warp = lane->warp;
    uint64_t bit = lane_bit(lane), others = warp->watching & ~bit;
    warp->watching &= ~bit;
    if (warp->waiting & bit)
        others &= ~warp->waiting;
    for_each_lane(i, others) if (warp->lanes[i].low == (uintptr_t)p &&
                                 came_together(lane, &warp->lanes[i]))
        block_fail(&warp->lanes[i],
                   "this lane polls %p, and lane %u of its warp stores there only now; lanes of a "
                   "warp of 64 do not run past each other, so let them meet between the two",
                   (const void *)p, lane->self.lane);
}

/* ------------------------------------------------------------------------------------- active_mask
 *
 * Returns the lanes at the same call when no lane of the warp can continue otherwise. That is as
 * much convergence as a GPU shows, and never waits for a lane that is elsewhere. Lanes that have
 * reached a function by different calls are not converged on a GPU; here the depth of their stacks
 * distinguishes them. */

WEFT_EXPORT uint64_t weft_simt_active_mask(void)
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
    return (uint64_t)lane->result;
}

void warp_resolve_active(struct warp *warp)
{
    uint64_t waiting = warp->in_active;
    warp->in_active = 0;
    warp->ready |= waiting;
    warp->todo |= waiting;
    while (waiting) {
        const struct lane *first = &warp->lanes[lowest_lane(waiting)];
        uint64_t group = 0;
        for_each_lane(i, waiting)
        {
            const struct lane *other = &warp->lanes[i];
            group |= (uint64_t)(other->site == first->site && other->depth == first->depth) << i;
        }
        for_each_lane(i, group) warp->lanes[i].result = warp->lanes[i].converged = group;
        waiting &= ~group;
    }
}
