/* SPDX-License-Identifier: Apache-2.0 */
/* The transport `proxy`: device threads write operations on PEs without direct addresses into rings
 * (struct weft_dev_ring). Host threads read the rings and do the operations over the path that the
 * host has chosen. Many device threads write a ring, one host thread reads it.
 *
 * All requests for one PE go into one ring, whichever thread issues them (struct weft_dev_peer).
 * The order toward a PE therefore does not depend on the number of rings. Fence and quiet go into
 * each ring that was used since the last fence or quiet.
 *
 * A thread takes a ticket, waits while the ring is full, and writes the descriptor of its request.
 * The host executes the tickets of a ring in order and publishes two counts: of executed tickets
 * (their sources may be reused, their gets have arrived), and of tickets that are complete at every
 * PE. Fence and quiet have descriptors of their own; quiet then waits for the second count. A
 * fetched value comes back in the ticket's result slot, which the device polls. Adjacent single
 * values that lanes of a warp issue together go as one request (run.h): each lane writes its value
 * into a slot of the ring's bounce buffer, which is used again when the ticket has been executed.
 *
 * Local buffers are memory that the host reaches; remote.h ensures it. */
#ifndef WEFT_DEVICE_PROXY_H
#define WEFT_DEVICE_PROXY_H

#include <weft/device/remote.h>
#include <weft/device/run.h>
#include <weft/device/wait.h>

/* The functions below are not inlined, call few others, and keep their data in memory: the compiler
 * gives every kernel the registers that the longest call chain below it needs, even if the kernel
 * never takes that chain. A request reads its data from memory before its first acquiring load,
 * because loads after that bypass the L1 cache. */

/* ------------------------------------------------------------------------------------- waits */

/* A wait for memory that the host or another thread writes. It is in memory, so that a call keeps
 * nothing in registers. */
struct weft_dev_ring_wait {
    const uint64_t *at;
    uint64_t target; /* smallest value that ends the wait; for a result: its sequence number in
                        the upper half of both words */
    uint64_t seen;
    uint64_t value; /* the fetched value, for a result */
    uint32_t polls;
    struct weft_dev_patience patience;
};

enum {
    WEFT_DEV_RING_POLLS = 64, /* between two readings of the clock */
    WEFT_DEV_RING_TURN = 8,   /* polls of the host's count by one thread, before another may poll */
};

enum weft_dev_ring_awaited {
    WEFT_DEV_RING_COUNT,  /* a count of the host, or of the device, that the thread's own request
                             needs */
    WEFT_DEV_RING_ROOM,   /* the same, for space in the ring: many threads wait, and for a long
                             time */
    WEFT_DEV_RING_RESULT, /* a fetched value */
};

/* Device word where threads store what they have read from a count of the host; the lock by which
 * they take turns follows it. NULL when `count` is not such a count. */
WEFT_DEVICE uint64_t *weft_dev_ring_note(const uint64_t *count)
{
    const struct weft_dev_ring *ring = &weft_dev_state.ring;
    uint64_t at = (uint64_t)(count - ring->released);
    if (at >= (uint64_t)ring->rings * WEFT_DEV_RING_APART)
        return NULL;
    return ring->head + at / WEFT_DEV_RING_APART * WEFT_DEV_RING_APART +
           (at % WEFT_DEV_RING_APART ? WEFT_DEV_RING_DONE : WEFT_DEV_RING_KNOWN);
}

/* Polls the word up to `polls` times. It stores a count of the host for other threads, so that few
 * of them read host memory. A slower thread may overwrite the stored count with an older one; this
 * costs one more poll. Release: a thread that reads the stored count sees what the host did before
 * it; pairs also with the fence of weft_dev_ring_bounce(). */
WEFT_DEVICE_NOINLINE uint64_t weft_dev_ring_look(const struct weft_dev_ring_wait *w, uint64_t *note,
                                                 int polls)
{
    uint64_t seen = 0, noted = 0;
    WEFT_NO_UNROLL
    for (int i = 0; i < polls && seen < w->target; i++) {
        seen = weft_dev_load_u64(w->at, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS);
        if (!note || seen == noted || (!WEFT_DEV_HOST_IN_TURN && seen < w->target))
            continue;
        weft_dev_store_u64(note, seen, WEFT_ORDER_RELEASE, WEFT_SCOPE_GPU);
        noted = seen;
    }
    return seen;
}

/* With WEFT_DEV_HOST_IN_TURN, one thread at a time of those that wait for a count polls host
 * memory, and the others read the count that it stores. The reason: when several multiprocessors
 * poll a cache line of the host, copies to the host by the same GPU's copy engine take longer, on
 * an H200 7 us with one multiprocessor, 17 us with four, 257 us with 64. Other words are polled by
 * each thread that waits for them.
 * Acquire: pairs with the release of the stored count. */
WEFT_DEVICE_NOINLINE int weft_dev_ring_poll(struct weft_dev_ring_wait *w)
{
    uint64_t *note = weft_dev_ring_note(w->at), seen = 0;
    if (!WEFT_DEV_HOST_IN_TURN || !note)
        seen = weft_dev_ring_look(w, note, WEFT_DEV_RING_POLLS);
    WEFT_NO_UNROLL
    for (int i = 0; WEFT_DEV_HOST_IN_TURN && note && i < WEFT_DEV_RING_POLLS && seen < w->target;
         i++) {
        seen = weft_dev_load_u64(note, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_GPU);
        if (seen >= w->target || i % WEFT_DEV_RING_TURN ||
            weft_dev_atomic_cas_u64(note + 1, 0, 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU))
            continue;
        seen = weft_dev_ring_look(w, note, WEFT_DEV_RING_TURN);
        weft_dev_store_u64(note + 1, 0, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    }
    w->seen = seen;
    return seen >= w->target;
}

/* Both halves must have the sequence number of this use. Relaxed: the value is in the words
 * themselves. */
WEFT_DEVICE_NOINLINE int weft_dev_ring_poll_result(struct weft_dev_ring_wait *w)
{
    const uint64_t *at = w->at;
    uint32_t number = (uint32_t)(w->target >> 32);
    struct weft_dev_vec16 seen = {0, 0};
    WEFT_NO_UNROLL
    for (int i = 0; i < WEFT_DEV_RING_POLLS; i++) {
        seen = weft_dev_load_vec16_relaxed(at);
        if (seen.lo >> 32 == number && seen.hi >> 32 == number) {
            w->value = (seen.lo & 0xffffffffu) | seen.hi << 32;
            return 1;
        }
    }
    w->seen = seen.lo;
    return 0;
}

WEFT_DEVICE int weft_dev_ring_poll_for(struct weft_dev_ring_wait *w,
                                       enum weft_dev_ring_awaited what)
{
    return what == WEFT_DEV_RING_RESULT ? weft_dev_ring_poll_result(w) : weft_dev_ring_poll(w);
}

/* Waits until *at is at least `target`, or is the result with that sequence number. Returns 0 when
 * the wait times out; a record has the cause, and the job fails. */
WEFT_DEVICE int weft_dev_ring_await(struct weft_dev_ring_wait *w, const struct weft_dev_request *r,
                                    const uint64_t *at, uint64_t target,
                                    enum weft_dev_ring_awaited what)
{
    struct weft_dev_patience *p = &w->patience;
    w->at = at;
    w->target = target;
    if (what == WEFT_DEV_RING_COUNT &&
        WEFT_DEV_LIKELY(weft_dev_ring_look(w, NULL, WEFT_DEV_RING_TURN) >= target))
        return 1;
    weft_dev_wait_begins();
    if (WEFT_DEV_LIKELY(weft_dev_ring_poll_for(w, what))) {
        weft_dev_wait_ends();
        return 1;
    }
    weft_dev_patience_begin(
        p, weft_dev_awaited_of(r->operation, r->pe, -1, w->at, WEFT_GE, w->target));
    w->polls = 0;
    do {
        w->polls += WEFT_DEV_RING_POLLS;
        if (!w->polls) /* wrapped */
            w->polls = 1u << 30;
        if (weft_dev_patience_slow(p, w->polls, w->seen)) {
            weft_dev_fail(WEFT_ERR_TIMEOUT);
            weft_dev_wait_ends();
            return 0;
        }
    } while (!weft_dev_ring_poll_for(w, what));
    weft_dev_patience_close(p);
    weft_dev_wait_ends();
    return 1;
}

/* ------------------------------------------------------------------------------------- words */

/* The first half of a request's words; proxy_read() of the host decodes them. `flags` are of enum
 * weft_dev_ring_flag. */
struct weft_dev_ring_words {
    uint64_t word[WEFT_DEV_RING_WORDS / 2];
};

WEFT_DEVICE struct weft_dev_ring_words weft_dev_ring_words_of(const struct weft_dev_request *r,
                                                              uint32_t flags)
{
    struct weft_dev_ring_words w;
    w.word[0] = (uint64_t)(uint8_t)r->operation | (uint64_t)(uint8_t)r->what << 8 |
                (uint64_t)flags << 16 | (uint64_t)(uint32_t)r->pe << 24;
    w.word[1] = (uintptr_t)r->symmetric;
    w.word[2] = (uintptr_t)r->local;
    w.word[3] = r->bytes;
    return w;
}

/* The second half of a request's words. */
WEFT_DEVICE struct weft_dev_ring_words weft_dev_ring_more_words(const struct weft_dev_request *r)
{
    int strided = r->operation == WEFT_DEV_OP_IPUT || r->operation == WEFT_DEV_OP_IGET;
    struct weft_dev_ring_words w;
    w.word[0] = strided ? r->n : (uintptr_t)r->signal;
    w.word[1] = strided ? (uint64_t)r->remote_stride : r->value;
    w.word[2] = strided ? (uint64_t)r->local_stride : r->compare;
    w.word[3] = r->value >> 56 | r->compare >> 56 << 8;
    return w;
}

/* One store writes a pair of words. Each word has the ring's phase, so pairs may arrive in any
 * order. */
WEFT_DEVICE void weft_dev_ring_store(const struct weft_dev_ring_words *w, uint64_t *to,
                                     uint64_t phase)
{
    WEFT_UNROLL
    for (int i = 0; i < WEFT_DEV_RING_WORDS / 2; i += 2) {
        struct weft_dev_vec16 v;
        v.lo = (w->word[i] & WEFT_DEV_RING_MASK) | phase;
        v.hi = (w->word[i + 1] & WEFT_DEV_RING_MASK) | phase;
        weft_dev_store_vec16_relaxed(to + i, v);
    }
}

/* Stores the descriptor in halves, to save registers. The first half is in registers already. The
 * second is read here, except for plain puts and gets, which leave it empty: after their fence the
 * read would go to L2. */
WEFT_DEVICE void weft_dev_ring_store_both(const struct weft_dev_request *r,
                                          const struct weft_dev_ring_words *first, uint64_t ticket)
{
    const struct weft_dev_ring *ring = &weft_dev_state.ring;
    uint64_t *to = ring->words + (ticket & (ring->slots - 1)) * WEFT_DEV_RING_WORDS;
    uint64_t phase = weft_dev_ring_phase(ticket, ring->slot_bits) << WEFT_DEV_RING_SHIFT;
    unsigned operation = (unsigned)(first->word[0] & 0xff);
    struct weft_dev_ring_words second = {{0, 0, 0, 0}};
    weft_dev_ring_store(first, to, phase);
    if (operation != WEFT_DEV_OP_PUT && operation != WEFT_DEV_OP_GET)
        second = weft_dev_ring_more_words(r);
    weft_dev_ring_store(&second, to + WEFT_DEV_RING_WORDS / 2, phase);
}

WEFT_DEVICE_NOINLINE void weft_dev_ring_write(const struct weft_dev_request *r, uint32_t flags,
                                              uint64_t ticket)
{
    struct weft_dev_ring_words w = weft_dev_ring_words_of(r, flags);
    weft_dev_ring_store_both(r, &w, ticket);
}

/* ----------------------------------------------------------------------------------- tickets */

/* The device's own words of a ring, `head` first. */
WEFT_DEVICE uint64_t *weft_dev_ring_own(uint32_t of)
{
    return weft_dev_state.ring.head + of * WEFT_DEV_RING_APART;
}

/* Takes a ticket of ring `of`. *room: 1 when none of the `places` slots (at most the number of
 * slots) that tickets use in turn can still be in use. It waits only for the device's own memory.
 *
 * The known count is loaded before the atomic, so that both are in flight together; the count may
 * be older than the ticket, which is safe. The load is relaxed: the words are stored only if the
 * slot is free, and no target stores before the load that decides this; the host has read the slot
 * before it released it. The host reads a `source` after the words, so a fence makes what this
 * thread knows of the source visible before them, while the ticket's atomic is in flight. Pairs
 * with the acquiring loads of arrived() of the host. */
WEFT_DEVICE uint64_t weft_dev_ring_ticket(uint32_t of, int source, uint64_t places, int *room)
{
    const struct weft_dev_ring *ring = &weft_dev_state.ring;
    uint64_t *head = weft_dev_ring_own(of);
    uint64_t known =
        weft_dev_load_u64(head + WEFT_DEV_RING_KNOWN, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    uint64_t ticket = weft_dev_atomic_add_u64(head, ring->step, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    if (source)
        weft_dev_fence(WEFT_ORDER_ACQ_REL, WEFT_SCOPE_SYS);
    *room = ticket - known < places;
    return ticket;
}

WEFT_DEVICE const uint64_t *weft_dev_ring_released(uint32_t of)
{
    return weft_dev_state.ring.released + of * WEFT_DEV_RING_APART;
}

/* The thread with the previous ticket of a result slot may read late: its ticket is released, but
 * its value is not read yet. Each thread increments the slot's count when it begins, with space for
 * its words, and when it has read. An odd count means that the previous thread has not read yet:
 * r->n is then the count to wait for, and the function returns 0.
 *
 * Relaxed: a thread stores the words of its request, after which the host writes the slot, only
 * when the atomic has returned. The next owner of the slot begins when the host has released those
 * words. */
WEFT_DEVICE int weft_dev_ring_reads(struct weft_dev_request *r, uint64_t ticket)
{
    const struct weft_dev_ring *ring = &weft_dev_state.ring;
    uint64_t count = weft_dev_atomic_add_u64(ring->reading + (ticket & (ring->slots - 1)), 1,
                                             WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    r->n = count & 1 ? count + 2 : 0;
    return !(count & 1);
}

/* Flag of a ticket whose words have not been written, because of a full ring or a late reader. */
#define WEFT_DEV_RING_UNWRITTEN ((uint64_t)1 << 63)

WEFT_DEVICE uint64_t weft_dev_ring_places(uint32_t flags)
{
    return flags & WEFT_DEV_RING_BOUNCED ? weft_dev_state.ring.bounces : weft_dev_state.ring.slots;
}

/* Takes a ticket of ring r->queue and writes the request. It does not write a run, whose values are
 * not in the bounce buffer yet. */
WEFT_DEVICE_NOINLINE uint64_t weft_dev_ring_give(struct weft_dev_request *r, uint32_t flags)
{
    struct weft_dev_ring_words w = weft_dev_ring_words_of(r, flags);
    int room;
    uint64_t ticket =
        weft_dev_ring_ticket(r->queue, r->local && r->bytes, weft_dev_ring_places(flags), &room);
    if (!WEFT_DEV_LIKELY(room))
        return ticket | WEFT_DEV_RING_UNWRITTEN;
    if (flags & WEFT_DEV_RING_FETCHES && !WEFT_DEV_LIKELY(weft_dev_ring_reads(r, ticket)))
        return ticket | WEFT_DEV_RING_UNWRITTEN;
    if (!(flags & WEFT_DEV_RING_BOUNCED))
        weft_dev_ring_store_both(r, &w, ticket);
    return ticket;
}

/* The same for ticket *to, which could not be written at once. Returns 0 when it never can. */
WEFT_DEVICE int weft_dev_ring_give_late(struct weft_dev_ring_wait *w, struct weft_dev_request *r,
                                        uint32_t flags, uint64_t *to)
{
    const struct weft_dev_ring *ring = &weft_dev_state.ring;
    int fetches = flags & WEFT_DEV_RING_FETCHES;
    *to &= ~WEFT_DEV_RING_UNWRITTEN;
    if (!fetches || !r->n) {
        if (!weft_dev_ring_await(w, r, weft_dev_ring_released(r->queue),
                                 *to - weft_dev_ring_places(flags) + 1, WEFT_DEV_RING_ROOM))
            return 0;
        if (fetches)
            weft_dev_ring_reads(r, *to);
    }
    if (fetches && r->n &&
        !weft_dev_ring_await(w, r, ring->reading + (*to & (ring->slots - 1)), r->n,
                             WEFT_DEV_RING_COUNT))
        return 0;
    if (!(flags & WEFT_DEV_RING_BOUNCED))
        weft_dev_ring_write(r, flags, *to);
    return 1;
}

/* ------------------------------------------------------------------------------------- runs */

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

/* Each lane of a run writes its value into the bounce slot of the leader's ticket, and the leader
 * writes one request for all. First fence and sync: lanes write a slot after the host has read its
 * old contents, which the thread that stored the known count has seen. Second pair: the host, which
 * acquires the descriptor, reads what all lanes wrote. */
WEFT_DEVICE_NOINLINE void weft_dev_ring_bounce(struct weft_dev_request *r,
                                               const struct weft_dev_run *run, uint64_t ticket)
{
    const struct weft_dev_ring *ring = &weft_dev_state.ring;
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
    if (run->leads && ticket != ~(uint64_t)0)
        weft_dev_ring_write(r, WEFT_DEV_RING_BOUNCED, ticket);
}

/* ----------------------------------------------------------------------------- as a transport */

/* Waits for the value of a ticket, and gives its slot back. Returns 0 when the wait times out. */
WEFT_DEVICE uint64_t weft_dev_ring_fetched(struct weft_dev_ring_wait *w,
                                           const struct weft_dev_request *r, uint64_t ticket)
{
    const struct weft_dev_ring *ring = &weft_dev_state.ring;
    if (!weft_dev_ring_await(w, r, ring->results + 2 * (ticket & (ring->slots - 1)),
                             (uint64_t)weft_dev_ring_number(ticket, ring->slot_bits) << 32,
                             WEFT_DEV_RING_RESULT))
        return 0;
    /* The thread adds 1 only when the value has arrived: see weft_dev_ring_reads(). */
    weft_dev_atomic_add_u64(ring->reading + (w->at - ring->results) / 2, 1, WEFT_ORDER_RELAXED,
                            WEFT_SCOPE_GPU);
    return w->value;
}

/* Called by one thread for its scope. Gives the operation to the host, and waits for the fetched
 * value, or until the operation is executed, or not at all, depending on the operation. Of several
 * lanes' single values for the same address it sends one: their order is not defined. Lanes that
 * are not independent write their requests in turn, and read a fetched value before the next lane's
 * request may need its slot. */
WEFT_DEVICE_NOINLINE uint64_t weft_dev_proxy_request(struct weft_dev_request *r)
{
    struct weft_dev_ring_wait w;
    struct weft_dev_run run;
    uint64_t ticket = 0, value = 0;
    uint32_t flags = 0;
    r->queue = weft_dev_state.peers[r->pe].ring;
    run.leads = 1;
    weft_lane_mask lanes = 0; /* those that issue in turn */
    if (r->operation == WEFT_DEV_OP_P) {
        weft_lane_mask together = weft_dev_active_mask();
        weft_dev_run_find(&run, together, (uintptr_t)r->symmetric, (unsigned)r->bytes, r->pe);
        if (!weft_dev_lanes_independent())
            lanes = weft_dev_ballot(together, run.leads || run.values > 1);
        if (run.values > 1)
            flags = WEFT_DEV_RING_BOUNCED;
        else if (!run.leads)
            return 0;
    } else {
        lanes = weft_dev_turns_lanes();
        if (r->operation == WEFT_DEV_OP_G || (r->operation == WEFT_DEV_OP_ATOMIC && !r->nbi))
            flags = WEFT_DEV_RING_FETCHES;
        else if (r->local && !r->nbi)
            flags = WEFT_DEV_RING_WAITED;
    }
    WEFT_DEV_IN_TURN(lanes, flags & WEFT_DEV_RING_BOUNCED ? run.mask : weft_dev_lanes_own())
    {
        if (run.leads)
            ticket = weft_dev_ring_give(r, flags);
        if (!WEFT_DEV_LIKELY(!(ticket & WEFT_DEV_RING_UNWRITTEN)) &&
            !weft_dev_ring_give_late(&w, r, flags, &ticket))
            ticket = ~(uint64_t)0;
        if (flags & WEFT_DEV_RING_BOUNCED)
            weft_dev_ring_bounce(r, &run, ticket);
        if (flags & WEFT_DEV_RING_FETCHES && ticket != ~(uint64_t)0)
            value = weft_dev_ring_fetched(&w, r, ticket);
    }
    if (flags & WEFT_DEV_RING_WAITED && ticket != ~(uint64_t)0)
        weft_dev_ring_await(&w, r, weft_dev_ring_released(r->queue), ticket + 1,
                            WEFT_DEV_RING_COUNT);
    return value;
}

WEFT_DEVICE_NOINLINE void weft_dev_proxy_p(const void *symmetric, unsigned bytes, uint64_t value,
                                           int pe)
{
    struct weft_dev_request r = weft_dev_request_of(WEFT_DEV_OP_P, symmetric, bytes, pe);
    r.value = value;
    weft_dev_proxy_request(&r);
}

WEFT_DEVICE_NOINLINE void weft_dev_proxy_put_get(int operation, const void *symmetric, void *local,
                                                 uint64_t bytes, int pe, int form)
{
    struct weft_dev_request r = weft_dev_move_request(operation, symmetric, local, bytes, pe, form);
    weft_dev_proxy_request(&r);
}

/* Writes a fence or quiet into ring r->queue. One directly after another of its kind has no effect
 * and is left out, so that few of the threads of a block write one. r->n: the previous value of its
 * `head`; 0 when there is nothing to wait for. */
WEFT_DEVICE void weft_dev_ring_order(struct weft_dev_ring_wait *w, struct weft_dev_request *r)
{
    const struct weft_dev_ring *ring = &weft_dev_state.ring;
    const uint64_t *head = weft_dev_ring_own(r->queue);
    const uint64_t *last =
        head + (r->operation == WEFT_DEV_OP_QUIET ? WEFT_DEV_RING_QUIETED : WEFT_DEV_RING_FENCED);
    r->n = weft_dev_load_u64(head, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    if (r->n == weft_dev_load_u64(last, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU))
        return;
    uint64_t ticket = weft_dev_ring_give(r, 0);
    if (!WEFT_DEV_LIKELY(!(ticket & WEFT_DEV_RING_UNWRITTEN)) &&
        !weft_dev_ring_give_late(w, r, 0, &ticket))
        r->n = 0;
    else if (ticket == r->n) /* no request in between */
        weft_dev_store_u64(weft_dev_ring_own(r->queue) + (r->operation == WEFT_DEV_OP_QUIET
                                                              ? WEFT_DEV_RING_QUIETED
                                                              : WEFT_DEV_RING_FENCED),
                           ticket + ring->step, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
}

/* Writes to all rings before it waits for any. The fence of a quiet orders earlier operations
 * before those after the acquiring loads of the counts; it is in flight while the host works. */
WEFT_DEVICE void weft_dev_ring_order_all(int operation)
{
    struct weft_dev_ring_wait w;
    uint64_t given[WEFT_DEV_RINGS_MOST];
    struct weft_dev_request r = weft_dev_request_of(operation, NULL, 0, -1);
    const unsigned rings = weft_dev_state.ring.rings;
    WEFT_NO_UNROLL
    for (r.queue = 0; r.queue < rings; r.queue++) {
        weft_dev_ring_order(&w, &r);
        given[r.queue] = r.n;
    }
    if (r.operation != WEFT_DEV_OP_QUIET)
        return;
    weft_dev_fence(WEFT_ORDER_SEQ_CST, WEFT_SCOPE_SYS);
    WEFT_NO_UNROLL
    for (r.queue = 0; r.queue < rings; r.queue++)
        if (given[r.queue] >= weft_dev_state.ring.step)
            weft_dev_ring_await(&w, &r, weft_dev_ring_released(r.queue) + WEFT_DEV_RING_COMPLETED,
                                given[r.queue], WEFT_DEV_RING_COUNT);
}

/* Of lanes that are not independent one orders for those that call together. */
WEFT_DEVICE_NOINLINE void weft_dev_proxy_order(int quiet)
{
    weft_lane_mask lanes = weft_dev_turns_lanes();
    if (lanes)
        weft_dev_sync_warp(lanes);
    if (!lanes || weft_dev_lane() == weft_dev_lanes_first(lanes))
        weft_dev_ring_order_all(quiet ? WEFT_DEV_OP_QUIET : WEFT_DEV_OP_FENCE);
    if (lanes) {
        weft_dev_sync_warp(lanes);
        if (quiet) /* each lane's own: the sync does not order beyond the block */
            weft_dev_fence(WEFT_ORDER_SEQ_CST, WEFT_SCOPE_SYS);
    }
}

#endif
