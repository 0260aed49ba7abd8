/* SPDX-License-Identifier: Apache-2.0 */
/* Building blocks of transport `gda` (gda.h): selection of a queue, address and key of a symmetric
 * address, bounded waits for completions, and reservations of blocks by one thread or by several
 * lanes together. Knows no operation. */
#ifndef WEFT_DEVICE_GDA_SPAN_H
#define WEFT_DEVICE_GDA_SPAN_H

#include <weft/device/gda_queue.h>
#include <weft/device/remote.h>
#include <weft/device/wait.h>

/* ---------------------------------------------------------------------------- queues, addresses */

enum { WEFT_DEV_GDA_CONNECT_NS = 1000 }; /* between two polls on a GPU */

/* Asks the host to connect the queues to PE pe, and waits until *ready is not 0. Acquire: what the
 * host has written before. Returns 0 after an error, which a record shows. */
WEFT_DEVICE_NOINLINE int weft_dev_gda_connect(int pe, const uint64_t *ready)
{
    const struct weft_dev_gda *gda = &weft_dev_state.gda;
    struct weft_dev_patience patience;
    uint8_t *wanted = &gda->wanted[pe];
    uint32_t polls = 0;
    int there = 1;
    if (!weft_dev_load_u8(wanted, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS)) {
        weft_dev_store_u8(wanted, 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
        weft_dev_store_u32(gda->alarm, WEFT_DEV_GDA_ALARM_WANTED, WEFT_ORDER_RELEASE,
                           WEFT_SCOPE_SYS);
    }
    WEFT_NO_UNROLL
    while (there && !weft_dev_load_u64(ready, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS)) {
        if (weft_dev_job_failed(0) ||
            weft_dev_patience_step(
                &patience, weft_dev_awaited_of(WEFT_DEV_OP_CONNECT, pe, -1, ready, WEFT_NE, 0),
                &polls, 0)) {
            weft_dev_fail(WEFT_ERR_TIMEOUT);
            there = 0;
        }
        if (WEFT_TARGET_GPU) /* thousands of threads may poll */
            weft_dev_nanosleep(WEFT_DEV_GDA_CONNECT_NS);
    }
    weft_dev_patience_end(&patience, polls);
    return there;
}

#if WEFT_TARGET_GPU
/* The queues to PE pe. Their place is computed, and the first reservation of a queue connects it
 * (weft_dev_gda_begin_late()): a table of the queues would cost each request a load that waits for
 * memory, since the fences of the request before it empty the cache. */
WEFT_DEVICE struct weft_dev_gda_queue *weft_dev_gda_queues_to(const struct weft_dev_gda *gda,
                                                              int pe)
{
    uint32_t at = (uint32_t)pe;
#if WEFT_DEV_HAS_DC
    if (weft_dev_state.peers[pe].carrier == WEFT_DEV_CARRIER_DC)
        at = (uint32_t)weft_dev_state.n_pes + at % gda->dc_groups;
#endif
    return gda->queues + at * gda->each;
}
#else
/* The first request to a PE. After an error the result are queues that have failed. */
WEFT_DEVICE_NOINLINE struct weft_dev_gda_queue *weft_dev_gda_first_queues(int pe)
{
    const struct weft_dev_gda *gda = &weft_dev_state.gda;
    const uint64_t *first = &gda->connected[pe];
    return weft_dev_gda_connect(pe, first)
               ? (struct weft_dev_gda_queue *)(uintptr_t)weft_dev_load_u64(
                     first, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS)
               : gda->failed;
}

/* The queues to PE pe. Acquire: what they hold. */
WEFT_DEVICE struct weft_dev_gda_queue *weft_dev_gda_queues_to(const struct weft_dev_gda *gda,
                                                              int pe)
{
    uint64_t first = weft_dev_load_u64(&gda->connected[pe], WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS);
    return WEFT_DEV_LIKELY(first) ? (struct weft_dev_gda_queue *)(uintptr_t)first
                                  : weft_dev_gda_first_queues(pe);
}
#endif

/* The index of the shared queue for `which`: equal numbers give the same queue, and consecutive
 * numbers use all of them. Two multiplications compute `which` modulo `shared`, exactly while
 * `which` is less than 2^26. */
WEFT_DEVICE uint32_t weft_dev_gda_shared_index(const struct weft_dev_gda_sharing *sharing,
                                               uint32_t which)
{
    return sharing->shared_from +
           (uint32_t)((uint64_t)(which * sharing->fraction) * sharing->shared >> 32);
}

/* The index of the calling block's queue. alone: no other thread of the block posts meanwhile. */
WEFT_DEVICE uint32_t weft_dev_gda_own_index(const struct weft_dev_gda *gda, int alone)
{
    uint32_t block = weft_dev_block_rank();
    return block < gda->sharing.exclusive && alone
               ? block
               : weft_dev_gda_shared_index(&gda->sharing, block);
}

/* Whether the queue to PE pe belongs to one block. On a GPU its address tells: what the queue says
 * would have to be loaded first. */
WEFT_DEVICE int weft_dev_gda_is_exclusive(const struct weft_dev_gda_queue *q, int pe)
{
    uint32_t exclusive = weft_dev_state.gda.sharing.exclusive;
#if WEFT_TARGET_GPU
    return exclusive && q < weft_dev_gda_queues_to(&weft_dev_state.gda, pe) + exclusive;
#else
    (void)pe;
    return exclusive && q->name < exclusive;
#endif
}

/* The queue with that bit in weft_dev_gda.used; it is connected. */
WEFT_DEVICE struct weft_dev_gda_queue *weft_dev_gda_used_queue(const struct weft_dev_gda *gda,
                                                               uint32_t bit)
{
#if WEFT_TARGET_GPU
    return gda->queues + bit;
#else
    uint32_t pe = bit / gda->each;
    return weft_dev_gda_queues_to(gda, (int)pe) + (bit - pe * gda->each);
#endif
}

WEFT_DEVICE struct weft_dev_gda_queue *weft_dev_gda_own_queue(int pe, int alone)
{
    const struct weft_dev_gda *gda = &weft_dev_state.gda;
    return weft_dev_gda_queues_to(gda, pe) + weft_dev_gda_own_index(gda, alone);
}

/* Whether the request may take an exclusive queue: only one thread makes it, and it needs no flush
 * later, which other threads of the block would issue. */
WEFT_DEVICE int weft_dev_gda_is_alone(const struct weft_dev_request *r)
{
    int open = r->operation == WEFT_DEV_OP_GET && r->nbi && weft_dev_state.gda.dumps;
    return (r->of_block || weft_dev_block_threads() == 1) && !open;
}

/* The queue of a put, get, p, g, packet or put with signal. */
WEFT_DEVICE struct weft_dev_gda_queue *weft_dev_gda_queue_for(const struct weft_dev_request *r)
{
    return weft_dev_gda_own_queue(r->pe, weft_dev_gda_is_alone(r));
}

/* The queue for part `i` of a transfer: the request's own queue for part 0, and shared queues of
 * the other NICs for the parts up to the number of NICs. Queue k uses NIC k % adapters, and the
 * shared queues begin with one for each NIC. */
WEFT_DEVICE struct weft_dev_gda_queue *weft_dev_gda_part_queue(const struct weft_dev_request *r,
                                                               uint32_t i)
{
    const struct weft_dev_gda *gda = &weft_dev_state.gda;
    const struct weft_dev_gda_sharing *sharing = &gda->sharing;
    uint32_t own = weft_dev_gda_own_index(gda, weft_dev_gda_is_alone(r));
    uint32_t nic = (own + i) % gda->adapters;
    uint32_t first = own < sharing->exclusive ? sharing->shared_from : own - own % gda->adapters;
    uint32_t queue = first + nic, end = sharing->shared_from + sharing->shared;
    queue = queue < end ? queue : sharing->shared_from + nic;
    return weft_dev_gda_queues_to(gda, r->pe) + (i ? queue : own);
}

/* The queue for updates of one word, whichever block issues them; `address` is the word's address
 * at that PE. The NIC that it leads to depends on nothing but the address. */
WEFT_DEVICE struct weft_dev_gda_queue *weft_dev_gda_word_queue(uint64_t address, int pe)
{
    const struct weft_dev_gda *gda = &weft_dev_state.gda;
    uint32_t queue = weft_dev_gda_word(address) % gda->each;
    if (gda->sharing.shared != gda->each)
        queue = gda->sharing.shared_from + queue % gda->adapters;
    return weft_dev_gda_queues_to(gda, pe) + queue;
}

/* The queue for the flags of all synchronisations. */
WEFT_DEVICE struct weft_dev_gda_queue *weft_dev_gda_flag_queue(int pe)
{
    const struct weft_dev_gda *gda = &weft_dev_state.gda;
    return weft_dev_gda_queues_to(gda, pe) + gda->sharing.shared_from;
}

/* Whether all operations towards a PE use one queue. */
WEFT_DEVICE int weft_dev_gda_has_one_queue(void)
{
    return weft_dev_state.gda.sharing.shared == 1 && !weft_dev_state.gda.sharing.exclusive;
}

/* Segment of a checked symmetric address, with the team areas as one more segment, and its offset
 * from the first chunk in bytes. */
WEFT_DEVICE int weft_dev_gda_find(const void *symmetric, uint64_t *offset)
{
    int part;
    if (weft_dev_find(symmetric, 1, &part, offset)) {
        part = WEFT_DEV_AREAS;
        *offset = (uintptr_t)symmetric - weft_dev_state.segment[WEFT_DEV_AREAS].base;
    }
    *offset += weft_dev_state.gda.skip[part];
    return part;
}

/* Address of `symmetric` at PE pe, with the chunk number in place of its key. *bytes is cut at the
 * end of the chunk. */
WEFT_DEVICE struct weft_dev_gda_place weft_dev_gda_spot(const void *symmetric, int pe,
                                                        uint64_t *bytes)
{
    const struct weft_dev_gda *gda = &weft_dev_state.gda;
    struct weft_dev_gda_place at;
    uint64_t offset;
    int part = weft_dev_gda_find(symmetric, &offset);
    uint64_t chunk = offset >> gda->chunk_bits[part];
    uint64_t left = ((chunk + 1) << gda->chunk_bits[part]) - offset;
    *bytes = *bytes < left ? *bytes : left;
    at.address = gda->bases[(uint32_t)pe * WEFT_DEV_PARTS + (uint32_t)part] + offset;
    at.key = gda->first[part] + (uint32_t)chunk;
    return at;
}

/* Segments of the address in each request of a DC initiator; 0: an RC queue. In a unit without
 * transport dc always 0. On a GPU the place of an RC queue shows it without a load. */
WEFT_DEVICE uint32_t weft_dev_gda_address_segments(const struct weft_dev_gda_queue *q)
{
#if WEFT_TARGET_GPU && WEFT_DEV_HAS_DC
    const struct weft_dev_gda *gda = &weft_dev_state.gda;
    if (q < gda->queues + (uint32_t)weft_dev_state.n_pes * gda->each)
        return 0;
#endif
    return WEFT_DEV_HAS_DC ? (uint32_t)(q->ready >> 1) : 0;
}

/* The same with the key for requests of that queue to PE pe. The key has strict ordering: a write
 * never overtakes earlier writes of the queue. */
WEFT_DEVICE struct weft_dev_gda_place weft_dev_gda_keyed(const struct weft_dev_gda_queue *q,
                                                         struct weft_dev_gda_place spot, int pe)
{
    uint64_t at = (uint64_t)spot.key * weft_dev_state.gda.key_step;
    if (weft_dev_gda_address_segments(q))
        at += (uint64_t)(uint32_t)pe * weft_dev_state.gda.dc_keys;
    spot.key = q->remote_keys[at];
    return spot;
}

/* Distance in the key table from the strict-order key to the key for data. Data of an exclusive
 * queue and of a DC initiator have strict order, so that it never needs a flush: one of an
 * initiator would serve one of its PEs only. */
WEFT_DEVICE uint32_t weft_dev_gda_data_keys(const struct weft_dev_gda_queue *q, int pe)
{
    uint32_t distance = weft_dev_state.gda.data_keys;
    return distance && (weft_dev_gda_address_segments(q) || weft_dev_gda_is_exclusive(q, pe))
               ? 0
               : distance;
}

/* With a relaxed-ordering key where there is one: for data only, never for words that are
 * polled. */
WEFT_DEVICE struct weft_dev_gda_place
weft_dev_gda_keyed_data(const struct weft_dev_gda_queue *q, struct weft_dev_gda_place spot, int pe)
{
    if (weft_dev_gda_address_segments(q))
        return weft_dev_gda_keyed(q, spot, pe);
    spot.key = q->remote_keys[(uint64_t)spot.key * weft_dev_state.gda.key_step +
                              weft_dev_gda_data_keys(q, pe)];
    return spot;
}

WEFT_DEVICE struct weft_dev_gda_place weft_dev_gda_there(const struct weft_dev_gda_queue *q,
                                                         const void *symmetric, int pe,
                                                         uint64_t *bytes)
{
    return weft_dev_gda_keyed(q, weft_dev_gda_spot(symmetric, pe, bytes), pe);
}

/* The same for the local buffer of a transfer; 0: it is not registered. */
WEFT_DEVICE int weft_dev_gda_here(const struct weft_dev_gda_queue *q, const void *local,
                                  uint64_t *bytes, struct weft_dev_gda_place *at)
{
    const struct weft_dev_gda *gda = &weft_dev_state.gda;
    uint64_t offset, end, whole;
    int part;
    if (weft_dev_find(local, 1, &part, &offset))
        return 0;
    whole = gda->skip[part] + weft_dev_state.segment[part].size;
    offset += gda->skip[part];
    uint64_t chunk = offset >> gda->chunk_bits[part];
    end = (chunk + 1) << gda->chunk_bits[part];
    end = end < whole ? end : whole;
    *bytes = *bytes < end - offset ? *bytes : end - offset;
    at->address = gda->own[part] + offset;
    at->key = q->local_keys[gda->first[part] + chunk];
    return 1;
}

/* ------------------------------------------------------------------------------------- waits */

/* The operation that a wait or a reservation is for: a record of its failure shows it. */
struct weft_dev_gda_operation {
    const void *symmetric;
    int32_t pe, kind; /* enum weft_dev_operation */
};

WEFT_DEVICE struct weft_dev_gda_operation weft_dev_gda_operation_of(int kind, const void *symmetric,
                                                                    int pe)
{
    struct weft_dev_gda_operation op = {symmetric, pe, kind};
    return op;
}

WEFT_DEVICE struct weft_dev_gda_operation weft_dev_gda_requested(const struct weft_dev_request *r)
{
    return weft_dev_gda_operation_of(r->operation, r->symmetric, r->pe);
}

/* A queue has failed, and the host executes its requests if it can, these threads' next ones too.
 * Returns 0 when it cannot, or when a thread has abandoned the queue. */
WEFT_DEVICE_NOINLINE int weft_dev_gda_raise_alarm(const struct weft_dev_gda_queue *q)
{
    uint32_t *alarm = weft_dev_state.gda.alarm;
    if (!alarm ||
        weft_dev_load_u64(&q->done, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU) == WEFT_DEV_GDA_FAILED)
        return 0;
    if (!weft_dev_load_u32(alarm, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS))
        weft_dev_store_u32(alarm, WEFT_DEV_GDA_ALARM_FAILED, WEFT_ORDER_RELEASE, WEFT_SCOPE_SYS);
    return 1;
}

/* The queue has failed: records its syndrome, the vendor's syndrome and its index. An abandoned
 * queue has no syndrome; its cause is already recorded. */
WEFT_DEVICE_NOINLINE void weft_dev_gda_broken(const struct weft_dev_gda_queue *q,
                                              struct weft_dev_gda_operation op)
{
    uint64_t last = weft_dev_load_u64(q->completion, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS);
    if (weft_dev_gda_cqe_opcode(last) != WEFT_DEV_GDA_CQE_ERROR) {
        weft_dev_fail(WEFT_ERR_TIMEOUT);
        return;
    }
    uint64_t why = weft_dev_load_u64(q->completion - 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    weft_dev_record(WEFT_DEV_RECORD_REFUSED, op.kind, WEFT_ERR_PATH, op.pe, -1, op.symmetric, 0,
                    q->name, why >> 48, 0);
    weft_dev_fail(WEFT_ERR_PATH);
}

enum {
    WEFT_DEV_GDA_POLLS = 64, /* between two readings of the clock */
    WEFT_DEV_GDA_PAUSE_NS = 40,
    WEFT_DEV_GDA_TURN = 8, /* polls of the completion entry by one thread, before others may poll */
};

/* Polls the completion entry `polls` times, or until it reaches `target`. Each count is stored at
 * once, because other threads may wait for less. */
WEFT_DEVICE uint64_t weft_dev_gda_look_for(struct weft_dev_gda_queue *q, uint64_t target, int polls)
{
    uint64_t seen = 0;
    WEFT_NO_UNROLL
    for (int i = 0; i < polls && seen < target; i++) {
        if (i && !WEFT_DEV_HOST_IN_TURN) /* the stand-in's NIC thread may need this CPU */
            weft_dev_nanosleep(0);
        seen = weft_dev_gda_look(q);
    }
    return seen;
}

/* Makes the caller the only thread that polls the completion entry; returns 1 if it is. */
WEFT_DEVICE int weft_dev_gda_take_looks(struct weft_dev_gda_queue *q)
{
    return !weft_dev_load_u64(&q->looks, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU) &&
           !weft_dev_atomic_cas_u64(&q->looks, 0, 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
}

/* 1: `target` blocks are complete; 0: not yet; -1: the queue has failed. With
 * WEFT_DEV_HOST_IN_TURN, one waiting thread at a time polls host memory, and the others read the
 * count that it stores: see weft_dev_ring_poll() of proxy.h. */
WEFT_DEVICE_NOINLINE int weft_dev_gda_poll(struct weft_dev_gda_queue *q, uint64_t target,
                                           uint64_t *seen)
{
    if (!WEFT_DEV_HOST_IN_TURN)
        *seen = weft_dev_gda_look_for(q, target, WEFT_DEV_GDA_POLLS);
    WEFT_NO_UNROLL
    for (int i = 0; WEFT_DEV_HOST_IN_TURN && i < WEFT_DEV_GDA_POLLS; i++) {
        *seen = weft_dev_load_u64(&q->done, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_GPU);
        if (*seen < target && weft_dev_gda_take_looks(q)) {
            *seen = weft_dev_gda_look_for(q, target, WEFT_DEV_GDA_TURN);
            weft_dev_store_u64(&q->looks, 0, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
        }
        if (*seen >= target)
            break;
        /* Diverged lanes of this warp may have to publish first: the sleep lets them run. */
        weft_dev_nanosleep(WEFT_DEV_GDA_PAUSE_NS);
    }
    return *seen == WEFT_DEV_GDA_FAILED ? -1 : *seen >= target;
}

WEFT_DEVICE int weft_dev_gda_wait_for(struct weft_dev_gda_queue *q,
                                      struct weft_dev_gda_operation op, uint64_t target)
{
    struct weft_dev_patience patience;
    uint64_t seen;
    uint32_t polls = 0;
    int there = weft_dev_gda_poll(q, target, &seen);
    if (!WEFT_DEV_LIKELY(there > 0)) {
        if (weft_dev_job_failed(
                0)) /* it may never come, and what follows would wait as long each */
            return 0;
        weft_dev_patience_begin(
            &patience, weft_dev_awaited_of(op.kind, op.pe, -1, q->completion, WEFT_GE, target));
        while (!(there = weft_dev_gda_poll(q, target, &seen)) ||
               (there < 0 && weft_dev_gda_raise_alarm(q))) {
            polls += WEFT_DEV_GDA_POLLS;
            if (!polls) /* wrapped */
                polls = 1u << 30;
            if (weft_dev_patience_slow(&patience, polls, seen)) {
                weft_dev_fail(WEFT_ERR_TIMEOUT);
                return 0;
            }
        }
        weft_dev_patience_close(&patience);
    }
    if (there < 0)
        weft_dev_gda_broken(q, op);
    return there > 0;
}

/* Waits until the first `target` blocks are complete. Returns 0 when the queue fails or the wait
 * times out; a record has the cause, and the job fails. */
WEFT_DEVICE_NOINLINE int weft_dev_gda_await(struct weft_dev_gda_queue *q,
                                            struct weft_dev_gda_operation op, uint64_t target)
{
    weft_dev_wait_begins();
    int there = weft_dev_gda_wait_for(q, op, target);
    weft_dev_wait_ends();
    return there;
}

/* ----------------------------------------------------------------------------------- spans */

/* Blocks of a queue that one thread has reserved, for itself or for several lanes. */
struct weft_dev_gda_span {
    struct weft_dev_gda_queue *q;
    struct weft_dev_gda_ring ring; /* copy of the queue's */
    uint64_t base, end;
    uint32_t ahead;   /* earlier blocks that are not published; 0: it is this span's turn */
    uint32_t fillers; /* blocks that begin no message */
    int exclusive;    /* no other thread posts to the queue */
    uint64_t counted; /* fillers before the span, if it is its turn */
};

/* Marks the queue as used: fences and quiets check only used queues. Every reservation without its
 * turn calls it before its put returns. A reservation with its turn need not: the first reservation
 * never has its turn and has marked the queue before it passed the turn on (release), and the fence
 * of the publishing makes the mark visible here (acquire). Spin model gda_used. */
WEFT_DEVICE_NOINLINE void weft_dev_gda_note_used(const struct weft_dev_gda_queue *q)
{
    const struct weft_dev_gda *gda = &weft_dev_state.gda;
    uint64_t bit = (uint64_t)1 << q->used_bit % 64, *word = &gda->used[q->used_bit / 64];
    if (!(weft_dev_load_u64(word, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU) & bit))
        weft_dev_atomic_or_u64(word, bit, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
}

/* For a reservation that must wait for space in the ring. On simt it waits until a quarter of the
 * ring is free, because each wait yields a CPU. On a GPU that halved the rate of 16 full queues of
 * 1024 blocks, and took five sixths of the rate of 64. The reservation waits only for earlier ones.
 * Without space the reservation remains a gap in the queue. */
WEFT_DEVICE_NOINLINE int weft_dev_gda_await_room(struct weft_dev_gda_queue *q, uint64_t end,
                                                 struct weft_dev_gda_operation op)
{
    uint32_t spare = WEFT_DEV_HOST_IN_TURN ? 0 : q->ring.last / 4;
    if (weft_dev_gda_await(q, op, weft_dev_gda_needed(q, end + spare)))
        return 1;
    weft_dev_gda_abandon(q);
    return 0;
}

/* For a reservation without its turn, or without space, and for the first ones of a queue, which
 * connect it. The queue counts as used only when it is connected: a fence that finds it used polls
 * its completion entry. Returns 0 when the reservation never gets space. */
WEFT_DEVICE_NOINLINE int weft_dev_gda_begin_late(struct weft_dev_gda_queue *q, uint32_t ahead,
                                                 uint64_t end, uint64_t done,
                                                 struct weft_dev_gda_operation op)
{
    if (!weft_dev_load_u64(&q->ready, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS) &&
        !weft_dev_gda_connect(op.pe, &q->ready)) {
        weft_dev_gda_abandon(q);
        return 0;
    }
    if (ahead)
        weft_dev_gda_note_used(q);
    return weft_dev_gda_room_late(q, done, (uint32_t)end) || weft_dev_gda_await_room(q, end, op);
}

/* Continues a reservation that returned `turns` (weft_dev_gda_reserve_any()). Returns 0 when it
 * never gets space; a record has the cause. */
WEFT_DEVICE int weft_dev_gda_begin_at(struct weft_dev_gda_span *span, struct weft_dev_gda_queue *q,
                                      struct weft_dev_gda_operation op, uint32_t blocks,
                                      uint64_t turns, int exclusive)
{
    uint64_t done = weft_dev_load_u64(&q->done, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_GPU);
    uint32_t base = (uint32_t)(turns >> 32);
    span->q = q;
    span->ring = weft_dev_gda_ring_of(q);
    span->ahead = weft_dev_gda_ahead(turns);
    span->fillers = 0;
    span->exclusive = exclusive;
    span->counted = 0;
    span->base = weft_dev_gda_whole(done, base);
    span->end = span->base + blocks;
    if (WEFT_DEV_LIKELY(!span->ahead &&
                        weft_dev_gda_room_at_once(&span->ring, (uint32_t)done, base + blocks)))
        return 1;
    int begun = weft_dev_gda_begin_late(q, span->ahead, span->end, done, op);
    span->ring = weft_dev_gda_ring_of(q); /* it may have been connected since */
    return begun;
}

/* `n` blocks of the span begin no message. It loads early what the queue has counted: the load then
 * takes no time before the doorbell. */
WEFT_DEVICE void weft_dev_gda_fill(struct weft_dev_gda_span *span, uint32_t n)
{
    span->fillers = n;
    span->counted = n && !span->ahead ? weft_dev_gda_counted(span->q) : 0;
}

WEFT_DEVICE uint64_t weft_dev_gda_reserve_any(struct weft_dev_gda_queue *q, uint32_t blocks,
                                              int exclusive)
{
    return exclusive ? weft_dev_gda_reserve_exclusive(q, blocks) : weft_dev_gda_reserve(q, blocks);
}

/* A thread of another block, or another thread of the block at the same time, uses an exclusive
 * queue. */
WEFT_DEVICE_NOINLINE void weft_dev_gda_refuse_sharing(const struct weft_dev_gda_queue *q)
{
    weft_dev_record(WEFT_DEV_RECORD_REFUSED, WEFT_DEV_OP_PUT, WEFT_ERR_ARGUMENT, -1, -1, NULL,
                    WEFT_NE, q->name, 0, 0);
    weft_dev_fail(WEFT_ERR_ARGUMENT);
}

/* Reserves blocks, and waits until the ring has space for them. */
WEFT_DEVICE int weft_dev_gda_begin_as(struct weft_dev_gda_span *span, struct weft_dev_gda_queue *q,
                                      struct weft_dev_gda_operation op, uint32_t blocks,
                                      int exclusive)
{
    return weft_dev_gda_begin_at(span, q, op, blocks,
                                 weft_dev_gda_reserve_any(q, blocks, exclusive), exclusive);
}

WEFT_DEVICE int weft_dev_gda_begin(struct weft_dev_gda_span *span, struct weft_dev_gda_queue *q,
                                   struct weft_dev_gda_operation op, uint32_t blocks)
{
    return weft_dev_gda_begin_as(span, q, op, blocks, weft_dev_gda_is_exclusive(q, op.pe));
}

/* Publishes blocks `base` to `end` of a queue, see weft_dev_gda_publish(). */
WEFT_DEVICE void weft_dev_gda_publish_any(struct weft_dev_gda_queue *q,
                                          const struct weft_dev_gda_ring *ring, uint64_t base,
                                          uint64_t end, uint32_t ahead, int exclusive)
{
    if (!exclusive || !WEFT_DEV_LIKELY(!ahead))
        weft_dev_gda_publish(q, ring, base, end, ahead);
    else if (!weft_dev_gda_publish_exclusive(q, ring, (uint32_t)end))
        weft_dev_gda_refuse_sharing(q);
}

WEFT_DEVICE void weft_dev_gda_give(const struct weft_dev_gda_span *span)
{
    if (span->fillers && span->ahead)
        WEFT_DEV_CALL_RARELY(weft_dev_gda_leave_fillers, span->q, span->base, span->fillers);
    else if (span->fillers)
        weft_dev_gda_add_fillers(span->q, span->counted, span->fillers, (uint32_t)span->end);
    weft_dev_gda_publish_any(span->q, &span->ring, span->base, span->end, span->ahead,
                             span->exclusive);
}

/* ---------------------------------------------------------------------------------------- DC
 *
 * A request for a PE that is reached by DC names its target: the address of the target stands
 * behind the control segment. Such a request is composed in a draft, in the form of an RC queue,
 * and stored with the address. */

enum { WEFT_DEV_GDA_DRAFT = 8 }; /* blocks of a draft, a power of two */

struct weft_dev_gda_draft {
    struct weft_dev_gda_ring ring;
    struct weft_dev_vec16 blocks[WEFT_DEV_GDA_DRAFT * WEFT_DEV_GDA_BLOCK / WEFT_DEV_GDA_SEGMENT];
};

WEFT_DEVICE void weft_dev_gda_begin_draft(struct weft_dev_gda_draft *draft,
                                          const struct weft_dev_gda_queue *q)
{
    weft_dev_gda_ring_set(&draft->ring, (char *)draft->blocks, WEFT_DEV_GDA_DRAFT, q->number);
}

/* Blocks of a request of that queue; `segments` without the address. */
WEFT_DEVICE uint32_t weft_dev_gda_addressed_blocks(const struct weft_dev_gda_queue *q,
                                                   uint32_t segments)
{
    enum { EACH = WEFT_DEV_GDA_BLOCK / WEFT_DEV_GDA_SEGMENT };
    return (segments + weft_dev_gda_address_segments(q) + EACH - 1) / EACH;
}

/* Stores the first `segments` segments of the request that is drafted at `index`, with the address
 * of PE pe, in the queue's ring. ends: it is the last request of its span, and takes one block. */
WEFT_DEVICE void weft_dev_gda_store_addressed(struct weft_dev_gda_queue *q, uint64_t index, int pe,
                                              const struct weft_dev_gda_draft *draft,
                                              uint32_t segments, int ends)
{
    const struct weft_dev_gda *gda = &weft_dev_state.gda;
    const uint64_t *address =
        gda->targets[(uint32_t)pe * gda->adapters + q->name % gda->adapters].words;
    uint32_t more = weft_dev_gda_address_segments(q);
    struct weft_dev_vec16 control = weft_dev_load_vec16(weft_dev_gda_block(&draft->ring, index));
    control.lo += (uint64_t)more << 56; /* number of segments */
    control.hi &= ~((uint64_t)WEFT_DEV_GDA_SIGNALED << 24);
    control.hi |= (uint64_t)(ends ? WEFT_DEV_GDA_SIGNALED : 0) << 24;
    weft_dev_gda_store(&q->ring, index, 0, control);
    WEFT_NO_UNROLL
    for (uint32_t i = 0; i < more; i++)
        weft_dev_gda_store(&q->ring, index, 1 + i, weft_dev_load_vec16(address + (uint64_t)i * 2));
    WEFT_NO_UNROLL
    for (uint32_t i = 1; i < segments; i++)
        weft_dev_gda_store(&q->ring, index, i + more,
                           weft_dev_load_vec16(weft_dev_gda_at(
                               &draft->ring, index, (uint64_t)i * WEFT_DEV_GDA_SEGMENT)));
}

/* Reserves the blocks of one request, and of the NOP that follows one of several blocks. */
WEFT_DEVICE int weft_dev_gda_begin_addressed(struct weft_dev_gda_span *span,
                                             struct weft_dev_gda_queue *q,
                                             struct weft_dev_gda_operation op, uint32_t segments)
{
    uint32_t blocks = weft_dev_gda_addressed_blocks(q, segments);
    return weft_dev_gda_begin(span, q, op, blocks + (blocks > 1));
}

/* Stores the drafted request of such a span, and publishes it. */
WEFT_DEVICE void weft_dev_gda_give_addressed(struct weft_dev_gda_span *span, int pe,
                                             const struct weft_dev_gda_draft *draft,
                                             uint32_t segments)
{
    int ends = span->end - span->base == 1;
    weft_dev_gda_store_addressed(span->q, span->base, pe, draft, segments, ends);
    if (!ends)
        weft_dev_gda_nop(&span->q->ring, span->end - 1, WEFT_DEV_GDA_SIGNALED);
    weft_dev_gda_give(span);
}

/* ----------------------------------------------------------------------------------- groups */

/* A reservation for the lanes in `mask`, which are converged and have the same queue. The caller's
 * blocks begin at `at`. The last lane's request may take several blocks; then a NOP ends the span.
 *
 * p of several lanes holds a group over the calls of a reservation, and decides how many registers
 * a kernel of p has (`ctest -R device.registers`). So a group has no lane that the mask gives, and
 * no two neighbouring fields that are loaded together: nvcc would use a pair of registers. */
struct weft_dev_gda_group {
    struct weft_dev_gda_span span;
    weft_lane_mask mask;
    uint64_t at;     /* start of the caller's blocks */
    uint32_t before; /* blocks of the lanes before the caller */
    uint32_t blocks; /* of all lanes, without the NOP */
    uint32_t nop;    /* 1: the last lane's request takes several blocks */
    uint32_t ends;   /* 1: the caller's request is the last, and takes one block */
};

/* Places the caller's blocks among those of all lanes. Returns the number of all blocks. */
WEFT_DEVICE_NOINLINE uint32_t weft_dev_gda_place_group(const struct weft_dev_gda_group *g,
                                                       uint32_t blocks, uint32_t *before,
                                                       uint32_t *nop)
{
    weft_lane_mask mask = g->mask;
    unsigned lane = weft_dev_lane();
    weft_lane_mask several = weft_dev_ballot(mask, blocks > 1);
    uint32_t total = weft_dev_lanes_count(mask);
    *before = weft_dev_lanes_count(mask & weft_dev_lanes_before(lane));
    WEFT_NO_UNROLL
    for (weft_lane_mask left = several; left; left &= left - 1) {
        unsigned from = weft_dev_lanes_first(left);
        uint32_t more = weft_dev_shuffle_u32(mask, blocks, from) - 1;
        total += more;
        *before += from < lane ? more : 0;
    }
    *nop = (uint32_t)(several >> weft_dev_lanes_last(mask) & 1);
    return total;
}

/* A group of the lanes in `mask`; the caller's request takes `blocks` blocks. */
WEFT_DEVICE void weft_dev_gda_make_group(struct weft_dev_gda_group *g, weft_lane_mask mask,
                                         uint32_t blocks)
{
    g->mask = mask;
    g->blocks = blocks;
    g->before = 0;
    g->nop = blocks > 1;
    if (mask & (mask - 1))
        g->blocks = weft_dev_gda_place_group(g, blocks, &g->before, &g->nop);
}

/* Reserves the blocks of a group. Returns 0 at all lanes after an error. */
WEFT_DEVICE int weft_dev_gda_begin_made(struct weft_dev_gda_group *g, struct weft_dev_gda_queue *q,
                                        struct weft_dev_gda_operation op, int exclusive)
{
    weft_lane_mask mask = g->mask;
    uint32_t blocks = g->blocks, nop = g->nop;
    int begun = 1;
    g->span.q = q;
    g->span.base = 0;
    if (weft_dev_lane() == weft_dev_lanes_first(mask)) {
        begun = weft_dev_gda_begin_as(&g->span, q, op, blocks + nop, exclusive);
        weft_dev_gda_fill(&g->span, blocks - weft_dev_lanes_count(mask) + nop);
        if (begun && nop)
            weft_dev_gda_nop(&q->ring, g->span.base + blocks, WEFT_DEV_GDA_SIGNALED);
    }
    if (mask & (mask - 1)) {
        g->span.base = weft_dev_shuffle_u64(mask, g->span.base, weft_dev_lanes_first(mask));
        g->span.end = g->span.base + blocks + nop;
        begun = weft_dev_all(mask, begun);
        weft_dev_sync_warp(mask); /* all lanes store after the completion that the first lane has
                                     seen; a vote does not order memory */
    }
    g->at = g->span.base + g->before;
    g->ends = weft_dev_lane() == weft_dev_lanes_last(mask) && !nop;
    return begun;
}

WEFT_DEVICE int weft_dev_gda_begin_group(struct weft_dev_gda_group *g, weft_lane_mask mask,
                                         struct weft_dev_gda_queue *q,
                                         struct weft_dev_gda_operation op, uint32_t blocks,
                                         int exclusive)
{
    weft_dev_gda_make_group(g, mask, blocks);
    return weft_dev_gda_begin_made(g, q, op, exclusive);
}

/* All lanes have stored their requests. */
WEFT_DEVICE void weft_dev_gda_give_group(const struct weft_dev_gda_group *g)
{
    weft_dev_sync_warp(g->mask);
    if (weft_dev_lane() == weft_dev_lanes_first(g->mask))
        weft_dev_gda_give(&g->span);
    weft_dev_sync_warp(g->mask); /* without it each lane would publish its next request alone */
}

#endif
