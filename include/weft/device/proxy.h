/* SPDX-License-Identifier: Apache-2.0 */
/* The carrier `proxy`: operations on PEs without direct addresses are given to a thread of the host
 * through a ring (struct weft_dev_ring), which carries them out over the path that the host has
 * chosen. Many device threads write, one host thread reads.
 *
 * A thread takes a ticket, waits while the ring is full, and writes the descriptor of its request.
 * The host carries tickets out in their order and tells two counts: of those it has carried out
 * (their sources are free, their gets have arrived) and of those that are complete at every PE. Fence
 * and quiet are descriptors of their own; quiet then waits for the second count. Values from before
 * come back through places that the device polls. Neighbouring single values that lanes of a warp give
 * together go as one request (run.h): each lane writes its own into a place of the ring for them, which
 * is used again when the ticket has been carried out.
 *
 * Local sides are memory that the host reaches: remote.h sees to it. */
#ifndef WEFT_DEVICE_PROXY_H
#define WEFT_DEVICE_PROXY_H

#include <weft/device/remote.h>
#include <weft/device/run.h>
#include <weft/device/wait.h>

/* What follows is out of line, in functions that call little and keep what they have in memory: the
 * compiler gives every kernel the registers that the longest chain of calls below it needs, also one that
 * never gets here. */

/* Waits until *at is at least `target` or, with `equal`, until its upper half is `target`. When the
 * wait runs out it leaves a record, makes the job fail and returns 0. */
WEFT_DEVICE_NOINLINE int weft_dev_ring_await(const struct weft_dev_request *r, const uint64_t *at,
                                             uint64_t target, int equal)
{
    uint64_t seen, last = 0, since = 0;
    WEFT_NO_UNROLL
    for (uint32_t polls = 0;; polls++) {
        seen = weft_dev_load_u64(at, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS);
        if (equal ? seen >> 32 == target : seen >= target)
            return 1;
        if (polls % WEFT_DEV_EAGER_POLLS != WEFT_DEV_EAGER_POLLS - 1) /* most waits are short */
            continue;
        if (weft_dev_job_failed(polls + 1))
            return 0;
        uint64_t now = weft_dev_clock_ns();
        if (!since || seen != last) {
            last = seen;
            since = now;
        }
        if (weft_dev_state.wait_limit_ns && now - since > weft_dev_state.wait_limit_ns)
            break;
    }
    weft_dev_record(WEFT_DEV_RECORD_EXPIRED, r->operation, WEFT_ERR_TIMEOUT, r->pe, -1, at,
                    equal ? WEFT_EQ : WEFT_GE, target, seen, weft_dev_state.wait_limit_ns);
    weft_dev_fail(WEFT_ERR_TIMEOUT);
    return 0;
}

/* What is released is at least `target`, and noted for those who come next: as much as was seen, so that
 * of all the tickets that use the places once, one looks into memory of the host. A slower thread may
 * overwrite the note by an older count; then one more look is taken, nothing else. 0 when the ring
 * stayed full. Release: pairs with the fence of weft_dev_ring_bounce(). */
WEFT_DEVICE_NOINLINE int weft_dev_ring_room(const struct weft_dev_request *r, uint64_t target)
{
    const struct weft_dev_ring *ring = weft_dev_state.ring;
    uint64_t seen = weft_dev_load_u64(ring->released, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS);
    if (seen < target) {
        if (!weft_dev_ring_await(r, ring->released, target, 0))
            return 0;
        seen = target;
    }
    weft_dev_store_u64(ring->known, seen, WEFT_ORDER_RELEASE, WEFT_SCOPE_GPU);
    return 1;
}

/* A ticket, when none of the `places` (at most as many as there are slots) that it takes in turn is
 * in use; ~0 when the ring stayed full. All that it waits for is in the device's own memory, unless
 * there is no room as far as is known.
 *
 * What is known is read first, so that both are under way at once; it may be older than the ticket,
 * which errs to the safe side. It is relaxed: the words are stored only if the place is free, and no
 * target stores before the load that decides on it; the host, which has released the place, has read
 * it. The host reads a source behind the words, so what this thread knows of it is made visible before
 * them, while the ticket is on its way. Pairs with the acquiring loads of arrived() of the host. */
WEFT_DEVICE uint64_t weft_dev_ring_ticket(const struct weft_dev_request *r, uint64_t places)
{
    const struct weft_dev_ring *ring = weft_dev_state.ring;
    uint64_t known = weft_dev_load_u64(ring->known, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    uint64_t ticket = weft_dev_atomic_add_u64(ring->head, 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    if (r->local && r->bytes)
        weft_dev_fence(WEFT_ORDER_ACQ_REL, WEFT_SCOPE_SYS);
    if (WEFT_DEV_LIKELY(ticket - known < places) || weft_dev_ring_room(r, ticket - places + 1))
        return ticket;
    return ~(uint64_t)0;
}

/* A pair of words goes in one store; each has its phase, so that pairs may arrive in any order. */
WEFT_DEVICE void weft_dev_ring_pair(uint64_t *words, uint64_t lo, uint64_t hi, uint64_t phase)
{
    struct weft_dev_vec16 v;
    v.lo = (lo & WEFT_DEV_RING_MASK) | phase;
    v.hi = (hi & WEFT_DEV_RING_MASK) | phase;
    weft_dev_store_vec16_relaxed(words, v);
}

/* Which words are which: proxy_read() of the host reads them. `flags` are of enum weft_dev_ring_flag;
 * `number` says, of what fetches, which value from before it is. */
WEFT_DEVICE_NOINLINE void weft_dev_ring_write(const struct weft_dev_request *r, uint32_t flags,
                                              uint64_t number, uint64_t ticket)
{
    const struct weft_dev_ring *ring = weft_dev_state.ring;
    uint64_t *words = ring->words + (ticket & (ring->slots - 1)) * WEFT_DEV_RING_WORDS;
    uint64_t phase = weft_dev_ring_phase(ticket, ring->slot_bits) << WEFT_DEV_RING_SHIFT;
    int strided = r->operation == WEFT_DEV_OP_IPUT || r->operation == WEFT_DEV_OP_IGET;
    weft_dev_ring_pair(words,
                       (uint64_t)(uint8_t)r->operation | (uint64_t)(uint8_t)r->what << 8 |
                           (uint64_t)flags << 16 | (uint64_t)(uint32_t)r->pe << 24,
                       (uintptr_t)r->symmetric, phase);
    weft_dev_ring_pair(words + 2, (uintptr_t)r->local, r->bytes, phase);
    weft_dev_ring_pair(words + 4, strided ? r->n : (uintptr_t)r->signal,
                       strided ? (uint64_t)r->remote_stride : r->value, phase);
    weft_dev_ring_pair(words + 6, strided ? (uint64_t)r->local_stride : r->compare,
                       r->value >> 56 | r->compare >> 56 << 8 | (number & (ring->slots - 1)) << 16,
                       phase);
}

WEFT_DEVICE void weft_dev_ring_value(char *to, const struct weft_dev_request *r)
{
    if (r->bytes == 8)
        weft_dev_store_u64((uint64_t *)to, r->value, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    else if (r->bytes == 4)
        weft_dev_store_u32((uint32_t *)to, (uint32_t)r->value, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    else if (r->bytes == 2)
        weft_dev_store_u16((uint16_t *)to, (uint16_t)r->value, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    else
        weft_dev_store_u8((uint8_t *)to, (uint8_t)r->value, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
}

/* Each lane of a run writes its value into the place of the leader's ticket, and the leader's request
 * becomes that of all. The first fence and sync: a place is written after the host has read from it
 * what it held before, which whoever wrote `known` has seen. The second pair: the host, which acquires
 * the descriptor behind them, reads what all lanes wrote. ~0 at the lanes that have nothing left to
 * do. */
WEFT_DEVICE_NOINLINE uint64_t weft_dev_ring_bounce(struct weft_dev_request *r,
                                                   const struct weft_dev_run *run, uint64_t ticket)
{
    const struct weft_dev_ring *ring = weft_dev_state.ring;
    weft_dev_fence(WEFT_ORDER_ACQ_REL, WEFT_SCOPE_GPU);
    ticket = weft_dev_shuffle_u64(run->mask, ticket, run->leader);
    weft_dev_sync_warp(run->mask);
    if (ticket != ~(uint64_t)0) {
        uintptr_t start = (uintptr_t)r->symmetric - run->at * r->bytes;
        weft_dev_ring_value(ring->bounce + (ticket & (ring->bounces - 1)) * WEFT_DEV_BOUNCE_BYTES +
                                start % WEFT_DEV_BOUNCE_LINE + run->at * r->bytes,
                            r);
    }
    weft_dev_sync_warp(run->mask);
    weft_dev_fence(WEFT_ORDER_ACQ_REL, WEFT_SCOPE_SYS);
    r->bytes *= run->values;
    r->value = 0;
    return run->leads ? ticket : ~(uint64_t)0;
}

/* Called by one thread for its scope. Gives the operation to the host, and waits as long as its kind
 * demands: for the value from before, or until it is carried out, or not at all. Of single values of
 * lanes that have the same place one is enough: nobody can say which came last.
 *
 * A value from before has a place of its own, taken in turn: a thread that is late to read would else
 * find it overwritten. Its two halves carry a number that tells them from those before. */
WEFT_DEVICE_NOINLINE uint64_t weft_dev_proxy_request(struct weft_dev_request *r)
{
    const struct weft_dev_ring *ring = weft_dev_state.ring;
    struct weft_dev_run run;
    uint64_t value = 0, ticket = 0, number = 0;
    uint32_t flags = 0;
    run.leads = 1;
    if (r->operation == WEFT_DEV_OP_P) {
        weft_dev_run_find(&run, (uintptr_t)r->symmetric, (unsigned)r->bytes, r->pe);
        if (run.values > 1)
            flags = WEFT_DEV_RING_BOUNCED;
        else if (!run.leads)
            return 0;
    } else if (r->operation == WEFT_DEV_OP_G || (r->operation == WEFT_DEV_OP_ATOMIC && !r->nbi))
        flags = WEFT_DEV_RING_FETCHES;
    else if (r->local && !r->nbi)
        flags = WEFT_DEV_RING_WAITED;
    if (flags & WEFT_DEV_RING_FETCHES) {
        number = weft_dev_atomic_add_u64(ring->result_head, 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
        if (!weft_dev_ring_await(r, ring->turns + (number & (ring->slots - 1)),
                                 number >> ring->slot_bits, 0))
            return 0;
        r->signal = (uint64_t *)(uintptr_t)(uint32_t)((number >> ring->slot_bits) + 1);
    }
    if (run.leads)
        ticket =
            weft_dev_ring_ticket(r, flags & WEFT_DEV_RING_BOUNCED ? ring->bounces : ring->slots);
    if (flags & WEFT_DEV_RING_BOUNCED)
        ticket = weft_dev_ring_bounce(r, &run, ticket);
    if (ticket == ~(uint64_t)0)
        return 0;
    weft_dev_ring_write(r, flags, number, ticket);
    if (flags & WEFT_DEV_RING_WAITED)
        weft_dev_ring_await(r, ring->released, ticket + 1, 0);
    if (!(flags & WEFT_DEV_RING_FETCHES))
        return 0;
    WEFT_NO_UNROLL
    for (int half = 0; half < 2; half++) {
        const uint64_t *at = ring->results + 2 * (number & (ring->slots - 1)) + half;
        if (weft_dev_ring_await(r, at, (uintptr_t)r->signal, 1))
            value |= (weft_dev_load_u64(at, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS) & 0xffffffffu)
                     << 32 * half;
    }
    weft_dev_store_u64(ring->turns + (number & (ring->slots - 1)), (number >> ring->slot_bits) + 1,
                       WEFT_ORDER_RELEASE, WEFT_SCOPE_SYS);
    return value;
}

/* A fence or quiet right behind another of its kind would do nothing more and is left out, so that
 * of the threads of a block few write one. */
WEFT_DEVICE_NOINLINE void weft_dev_proxy_order(int quiet)
{
    const struct weft_dev_ring *ring = weft_dev_state.ring;
    uint64_t *last = quiet ? ring->quieted : ring->fenced;
    struct weft_dev_request r =
        weft_dev_request_of(quiet ? WEFT_DEV_OP_QUIET : WEFT_DEV_OP_FENCE, NULL, 0, -1);
    r.n = weft_dev_load_u64(ring->head, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    if (r.n && weft_dev_load_u64(last, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU) != r.n) {
        weft_dev_proxy_request(&r);
        /* Only when nobody has given anything since: the last ticket is then this one. */
        if (weft_dev_load_u64(ring->head, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU) == r.n + 1)
            weft_dev_store_u64(last, r.n + 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    }
    if (r.operation == WEFT_DEV_OP_QUIET)
        weft_dev_ring_await(&r, ring->completed, r.n, 0);
}

#endif
