/* SPDX-License-Identifier: Apache-2.0 */
/* A send queue that several threads use without a lock. A thread that issues requests
 *
 *     reserves 64-byte blocks of the ring by an atomic add  weft_dev_gda_reserve()
 *     waits until the ring has space for them               weft_dev_gda_room()
 *     stores its requests (gda_wqe.h), the last signalled
 *     publishes them                                        weft_dev_gda_publish()
 *     and polls for completion                              weft_dev_gda_done()
 *
 * Reservations are published in their order. A reservation has its turn when all reservations
 * before it are published: its thread then rings the doorbell and passes the turn on to the next
 * reservation. The counts of reserved and of published blocks are the halves of one word. The add
 * that reserves therefore returns whether the reservation already has its turn, and the add that
 * passes the turn on returns whether there is a later reservation. A put without concurrent puts
 * takes two atomics and no compare and swap. No thread waits for its turn: a thread that comes too
 * early marks its blocks as stored and returns. The thread that passes the turn on to a marked
 * block takes the turn back for all marks in sequence, and rings the doorbell once for all of them.
 * The last request of a reservation takes one block and is signalled.
 *
 * A queue that only one thread at a time uses needs neither atomics nor marks
 * (weft_dev_gda_reserve_exclusive(), weft_dev_gda_publish_exclusive()).
 *
 * The completion queue is collapsed: the NIC keeps one entry, for the last completed request, with
 * an index of 16 bits. `done` is the known part of the full count. Every reservation raises `done`
 * to the value it needs before its requests are stored, so `done` is never more than one ring
 * behind, and the index gives the rest.
 *
 * For device code and for the host. Knows nothing of PEs, of keys and of how to wait. */
#ifndef WEFT_DEVICE_GDA_QUEUE_H
#define WEFT_DEVICE_GDA_QUEUE_H

#include <weft/device/gda_wqe.h>

enum {
    WEFT_DEV_GDA_RESULT = 64, /* bytes of a result slot */
    WEFT_DEV_GDA_LINE = 64,
    WEFT_DEV_GDA_ADAPTERS_MOST = 8, /* NICs of a PE */
};

/* In memory of the GPU or CPU that issues requests; words that are written are on separate cache
 * lines. Each block has a result slot for what its read or atomic returns. One more slot after them
 * takes results that are not used. */
struct weft_dev_gda_queue {
    struct weft_dev_gda_ring ring;
    const uint64_t *completion;  /* last 8 bytes of the completion entry; the NIC writes it */
    uint64_t *marks;             /* [depth / 64] one bit per block: it is stored and waits to be
                                    published */
    uint32_t *busy;              /* [depth] 1: the result has not been read yet */
    char *results;               /* [depth + 1][WEFT_DEV_GDA_RESULT] registered result slots */
    uint32_t results_key;        /* in the byte order of requests */
    uint32_t number;             /* queue pair number */
    uint32_t name;               /* index of the queue among those to its peer, for messages */
    uint32_t used_bit;           /* its bit in weft_dev_gda.used */
    const uint32_t *remote_keys; /* keys of the peer's chunks, at the NIC that the queue leads to,
                                    at weft_dev_gda.key_step from each other */
    const uint32_t *local_keys;  /* keys of own chunks, at the NIC where the queue begins; both in
                                    the byte order of requests */
    uint64_t *fillers;           /* [depth / 64] one bit per block that begins no message, until it
                                    is counted */
    uint64_t ready;   /* 1: the queue is connected, and the parts above are valid. 0: only
                         the keys, `completion`, `name` and `used_bit` are valid, and
                         ring.last is 0. The host writes it last. For a DC initiator twice the
                         segments of an address are added; its remote_keys are those of PE 0 */
    uint64_t turns;   /* blocks reserved << 32 | blocks published, each modulo 2^32 */
    uint64_t counted; /* fillers among all blocks before an end << 32 | that end, modulo 2^32 */
    uint64_t turns_line[6];
    uint64_t done;  /* blocks known to be complete, counted from the first one on */
    uint64_t looks; /* 1: a waiting thread is polling the completion entry now */
    /* An epoch, counted in blocks (see base/epoch.h). open: end of the last request whose
     * completion does not say that its data are in memory. flushing: end of the last issued flush.
     * flushed: end of the last completed flush. */
    uint64_t open, flushing, flushed;
    uint64_t done_line[3];
};

/* `turns` of a new queue. Its published count gives no reservation the turn, so the first
 * reservation takes the same code as one that comes too early. */
#define WEFT_DEV_GDA_UNUSED ((uint64_t)0xffffffffu)

/* 2^32 / each, rounded up (0 for each = 1): the factor that weft_dev_gda_shared_index() uses. */
WEFT_DEV_BOTH uint32_t weft_dev_gda_fraction(uint32_t each)
{
    return (uint32_t)((((uint64_t)1 << 32) + each - 1) / each);
}

/* Selects the queue for updates of one word, on host and device. It depends only on the word's
 * address at its PE, so that all updates go through the same NIC there, whichever PE issues them: a
 * NIC's atomics are atomic only with its own. */
WEFT_DEV_BOTH uint32_t weft_dev_gda_word(uint64_t address)
{
    return (uint32_t)(address >> 3) * 0x9e3779b1u >> 16;
}

/* A block count that no queue reaches: the queue has failed, or was abandoned. It is far enough
 * from 2^64 that adding a ring size does not give a small number. */
#define WEFT_DEV_GDA_FAILED ((uint64_t)3 << 62)

/* The constant part of a queue, in registers. */
WEFT_DEVICE struct weft_dev_gda_ring weft_dev_gda_ring_of(const struct weft_dev_gda_queue *q)
{
    struct weft_dev_gda_ring ring;
    struct weft_dev_vec16 write = weft_dev_load_vec16(q->ring.write);
    struct weft_dev_vec16 blocks = weft_dev_load_vec16(&q->ring.blocks);
    struct weft_dev_vec16 record = weft_dev_load_vec16(&q->ring.record);
    ring.write[0] = (uint32_t)write.lo;
    ring.write[1] = (uint32_t)(write.lo >> 32);
    ring.write[2] = (uint32_t)write.hi;
    ring.write[3] = (uint32_t)(write.hi >> 32);
    ring.blocks = (char *)(uintptr_t)blocks.lo;
    ring.last = (uint32_t)blocks.hi;
    ring.number_be = (uint32_t)(blocks.hi >> 32);
    ring.record = (uint32_t *)(uintptr_t)record.lo;
    ring.doorbell = (uint64_t *)(uintptr_t)record.hi;
    return ring;
}

/* Opcodes in the last 8 bytes of a completion entry. */
enum { WEFT_DEV_GDA_CQE_OK = 0, WEFT_DEV_GDA_CQE_ERROR = 13, WEFT_DEV_GDA_CQE_NONE = 15 };

WEFT_DEV_BOTH uint32_t weft_dev_gda_cqe_opcode(uint64_t word)
{
    return (uint32_t)(word >> 60);
}

WEFT_DEV_BOTH uint16_t weft_dev_gda_cqe_index(uint64_t word)
{
    return (uint16_t)((word >> 40 & 0xff) | (word >> 32 & 0xff) << 8);
}

/* The full 64-bit count that ends in the 32 bits of `low`, for blocks that are not known to be
 * complete, or have just become complete. */
WEFT_DEV_BOTH uint64_t weft_dev_gda_whole(uint64_t done, uint32_t low)
{
    return done + (uint64_t)(int64_t)(int32_t)(low - (uint32_t)done);
}

/* Returns `turns` from before: start of the reservation << 32 | end of published blocks. */
WEFT_DEVICE uint64_t weft_dev_gda_reserve(struct weft_dev_gda_queue *q, uint32_t blocks)
{
    return weft_dev_global_add_u64(&q->turns, (uint64_t)blocks << 32, WEFT_ORDER_RELAXED,
                                   WEFT_SCOPE_GPU);
}

/* The same for a queue that one thread at a time uses. */
WEFT_DEVICE uint64_t weft_dev_gda_reserve_exclusive(struct weft_dev_gda_queue *q, uint32_t blocks)
{
    uint64_t turns = weft_dev_load_u64(&q->turns, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    weft_dev_store_u64(&q->turns, turns + ((uint64_t)blocks << 32), WEFT_ORDER_RELAXED,
                       WEFT_SCOPE_GPU);
    return turns;
}

/* Number of earlier blocks that are not published yet. 0: it is the caller's turn. The fence in
 * between orders the previous thread's doorbell record and doorbell before the caller's. */
WEFT_DEVICE uint32_t weft_dev_gda_ahead(uint64_t turns)
{
    return (uint32_t)(turns >> 32) - (uint32_t)turns;
}

/* Returns the number of complete blocks, or WEFT_DEV_GDA_FAILED. It reads the known count first: an
 * index older than that count would look like one of the next round. Acquire: results are read
 * after it. */
WEFT_DEVICE uint64_t weft_dev_gda_done(const struct weft_dev_gda_queue *q)
{
    uint64_t known = weft_dev_load_u64(&q->done, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_GPU);
    uint64_t word = weft_dev_load_u64(q->completion, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS);
    uint32_t opcode = weft_dev_gda_cqe_opcode(word);
    if (known == WEFT_DEV_GDA_FAILED)
        return known;
    if (opcode == WEFT_DEV_GDA_CQE_OK)
        return known + (uint16_t)(weft_dev_gda_cqe_index(word) + 1u - (uint32_t)known);
    return opcode == WEFT_DEV_GDA_CQE_NONE ? known : WEFT_DEV_GDA_FAILED;
}

/* The same; also stores the count in `done` for other threads. It does not store an unchanged
 * count: on simt a lane that writes does not yield. */
WEFT_DEVICE uint64_t weft_dev_gda_note(struct weft_dev_gda_queue *q, uint64_t done)
{
    if (done != WEFT_DEV_GDA_FAILED &&
        done != weft_dev_load_u64(&q->done, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU))
        weft_dev_atomic_max_u64(&q->done, done, WEFT_ORDER_RELEASE, WEFT_SCOPE_GPU);
    return done;
}

WEFT_DEVICE uint64_t weft_dev_gda_look(struct weft_dev_gda_queue *q)
{
    return weft_dev_gda_note(q, weft_dev_gda_done(q));
}

/* Blocks that must be complete before blocks up to `end` may be stored. */
WEFT_DEVICE uint64_t weft_dev_gda_needed(const struct weft_dev_gda_queue *q, uint64_t end)
{
    return end > q->ring.last ? end - q->ring.last - 1 : 0;
}

/* Whether the first `target` blocks are known to be complete. Never true for an abandoned queue,
 * whose count is negative here. */
WEFT_DEVICE int weft_dev_gda_reached(const struct weft_dev_gda_queue *q, uint64_t target)
{
    return (int64_t)(weft_dev_load_u64(&q->done, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_GPU) - target) >= 0;
}

/* Whether the ring has space for blocks up to `end` when `done` blocks are complete, so that the
 * NIC has read the old contents. The low halves of both counts suffice while the queue is not
 * abandoned. When it is the caller's turn it is not: abandoning leaves an earlier gap. */
WEFT_DEVICE int weft_dev_gda_room(const struct weft_dev_gda_ring *ring, uint32_t done, uint32_t end)
{
    return end - 1 - done <= ring->last;
}

/* Whether a reservation with its turn may store its blocks at once. Never true with the ring of a
 * queue that is not connected, whose `last` is 0: a thread may copy that ring, and get the turn
 * from a thread that has connected the queue since. The last free block of a ring is left to
 * weft_dev_gda_room_late(). */
WEFT_DEVICE int weft_dev_gda_room_at_once(const struct weft_dev_gda_ring *ring, uint32_t done,
                                          uint32_t end)
{
    return end - 1 - done < ring->last;
}

/* The same for a reservation that may not have its turn. The queue is connected. */
WEFT_DEVICE int weft_dev_gda_room_late(const struct weft_dev_gda_queue *q, uint64_t done,
                                       uint32_t end)
{
    return done != WEFT_DEV_GDA_FAILED && weft_dev_gda_room(&q->ring, (uint32_t)done, end);
}

/* Number of reserved blocks; for an abandoned queue, a count that it never reaches. */
WEFT_DEVICE uint64_t weft_dev_gda_head(const struct weft_dev_gda_queue *q)
{
    uint64_t done = weft_dev_load_u64(&q->done, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    uint64_t turns = weft_dev_load_u64(&q->turns, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    return done == WEFT_DEV_GDA_FAILED ? done + 1
                                       : weft_dev_gda_whole(done, (uint32_t)(turns >> 32));
}

/* Abandons the queue: a thread that has reserved blocks but cannot store requests leaves a gap, and
 * no later reservation gets its turn. From now on all waits for the queue end at once. */
WEFT_DEVICE void weft_dev_gda_abandon(struct weft_dev_gda_queue *q)
{
    weft_dev_atomic_max_u64(&q->done, WEFT_DEV_GDA_FAILED, WEFT_ORDER_RELEASE, WEFT_SCOPE_GPU);
}

/* Doorbell record and doorbell in the NIC's formats. The record comes first: the NIC may read it
 * any time after the doorbell. It has 16 bits of the count, in big-endian order. Only the thread
 * whose turn it is calls them. */
WEFT_DEVICE void weft_dev_gda_record_end(const struct weft_dev_gda_ring *ring, uint32_t end)
{
    weft_dev_fence(WEFT_ORDER_ACQ_REL, WEFT_SCOPE_SYS);
    weft_dev_store_u32(ring->record, weft_dev_bytes_of(end, 0, 0x0144), WEFT_ORDER_RELAXED,
                       WEFT_SCOPE_SYS);
}

WEFT_DEVICE void weft_dev_gda_bell(const struct weft_dev_gda_ring *ring, uint32_t end)
{
    uint64_t bell = weft_dev_bytes_of(end, 0, 0x4014) | (uint64_t)ring->number_be << 32;
    weft_dev_store_u64(ring->doorbell, bell, WEFT_ORDER_RELEASE, WEFT_SCOPE_SYS);
}

/* Passes the turn on from `base` to `end`. Returns 1 when there is a later reservation, which may
 * have left a mark. Release: the next doorbell comes after this one. A count that wraps does not
 * carry into the other count. */
WEFT_DEVICE int weft_dev_gda_pass(struct weft_dev_gda_queue *q, uint32_t base, uint32_t end)
{
    uint64_t more = (end - base) | (uint64_t)(end < base ? 0xffffffffu : 0) << 32;
    uint64_t turns = weft_dev_global_add_u64(&q->turns, more, WEFT_ORDER_RELEASE, WEFT_SCOPE_GPU);
    return (uint32_t)(turns >> 32) != end;
}

/* --- Marks: one bit for each block of the ring, 64 to a word. --- */

enum { WEFT_DEV_GDA_MARKS = 64 };

/* Takes the mark of the block at `base`, to which the turn has been passed on. Returns 1: the
 * caller must publish the reservation that begins there. Returns 0: there is no mark, or another
 * thread has taken it. Acquire: the reservation's requests are stored. */
WEFT_DEVICE int weft_dev_gda_take_mark(struct weft_dev_gda_queue *q, uint32_t base)
{
    uint32_t at = base & q->ring.last;
    uint64_t *word = &q->marks[at / WEFT_DEV_GDA_MARKS];
    uint64_t bit = (uint64_t)1 << at % WEFT_DEV_GDA_MARKS;
    return (weft_dev_load_u64(word, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU) & bit) &&
           (weft_dev_atomic_and_u64(word, ~bit, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_GPU) & bit);
}

/* Takes all marks in sequence from `from` on, and returns the end of the sequence. Only the thread
 * whose turn it is calls it, so no other thread takes marks. The cleared marks are visible before
 * the doorbell, so before a thread marks these blocks again. */
WEFT_DEVICE uint32_t weft_dev_gda_take_marks(struct weft_dev_gda_queue *q, uint32_t from)
{
    uint32_t n;
    WEFT_NO_UNROLL
    do {
        uint32_t at = from & q->ring.last, shift = at % WEFT_DEV_GDA_MARKS;
        uint64_t *word = &q->marks[at / WEFT_DEV_GDA_MARKS];
        uint64_t missing = ~(weft_dev_load_u64(word, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_GPU) >> shift);
        uint32_t left = WEFT_DEV_GDA_MARKS - shift;
        n = missing ? weft_dev_find_first_u64(missing) - 1 : (uint32_t)WEFT_DEV_GDA_MARKS;
        if (n)
            weft_dev_atomic_and_u64(word, ~(~(uint64_t)0 >> (WEFT_DEV_GDA_MARKS - n) << shift),
                                    WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
        from += n;
        n = n == left;
    } while (n);
    return from;
}

/* Marks blocks `base` to `end`, with the word of the first block last: a thread that finds the
 * first mark finds all of them. */
WEFT_DEVICE void weft_dev_gda_set_marks(struct weft_dev_gda_queue *q, uint32_t base, uint32_t end)
{
    WEFT_NO_UNROLL
    while (end != base) {
        uint32_t at = (end - 1) & q->ring.last, n = at % WEFT_DEV_GDA_MARKS + 1;
        uint32_t over = n;
        n = n < end - base ? n : end - base;
        weft_dev_atomic_or_u64(&q->marks[at / WEFT_DEV_GDA_MARKS],
                               ~(uint64_t)0 >> (WEFT_DEV_GDA_MARKS - n) << (over - n),
                               WEFT_ORDER_RELEASE, WEFT_SCOPE_GPU);
        end -= n;
    }
}

/* Leaves marks for the thread that passes the turn on to `base`. Returns 1 when that has already
 * happened and the caller has the turn. The add of 0 has a place in the modification order of
 * `turns`: a thread that passes the turn on after it sees the mark, and its result shows a turn
 * that was passed on before it. */
WEFT_DEVICE int weft_dev_gda_mark(struct weft_dev_gda_queue *q, uint32_t base, uint32_t end)
{
    weft_dev_gda_set_marks(q, base, end);
    uint64_t turns = weft_dev_atomic_add_u64(&q->turns, 0, WEFT_ORDER_ACQ_REL, WEFT_SCOPE_GPU);
    return (uint32_t)turns == base && weft_dev_gda_take_mark(q, base);
}

/* --- Fillers: blocks that begin no message to the peer: further blocks of a request, NOPs, DUMPs.
 * The number of messages is the number of blocks minus that of fillers. When a queue fails, the
 * peer reports how many messages its NIC has executed, and the host executes the rest
 * (src/path/gda/failover.c). --- */

/* The count of fillers so far. Only the thread whose turn it is reads and changes it: the previous
 * one stored it before it passed the turn on. A CPU may load it before the atomic that returned the
 * turn, without the fence; a GPU does not load behind a branch before the branch is decided. */
WEFT_DEVICE uint64_t weft_dev_gda_counted(const struct weft_dev_gda_queue *q)
{
    if (!WEFT_TARGET_GPU)
        weft_dev_fence(WEFT_ORDER_ACQUIRE, WEFT_SCOPE_GPU);
    return weft_dev_load_u64(&q->counted, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
}

/* Adds `n` fillers among the blocks before `end` to `counted`. The thread whose turn it is calls
 * it, before it writes the doorbell record for `end`. Relaxed: the fence before the record follows.
 * When a queue has failed, the host reads the blocks before `end` only after the record
 * (failover.c). */
WEFT_DEVICE void weft_dev_gda_add_fillers(struct weft_dev_gda_queue *q, uint64_t counted,
                                          uint32_t n, uint32_t end)
{
    weft_dev_store_u64(&q->counted, ((counted >> 32) + n) << 32 | end, WEFT_ORDER_RELAXED,
                       WEFT_SCOPE_GPU);
}

/* Leaves the number of fillers of a span that begins at `base` for the thread that publishes it: as
 * many bits. They are set before the span's mark. */
WEFT_DEVICE_NOINLINE void weft_dev_gda_leave_fillers(struct weft_dev_gda_queue *q, uint64_t base,
                                                     uint32_t n)
{
    WEFT_NO_UNROLL
    for (uint32_t some; n; n -= some, base += some) {
        uint32_t at = (uint32_t)base & q->ring.last, shift = at % WEFT_DEV_GDA_MARKS;
        some = WEFT_DEV_GDA_MARKS - shift;
        some = some < n ? some : n;
        weft_dev_atomic_or_u64(&q->fillers[at / WEFT_DEV_GDA_MARKS],
                               ~(uint64_t)0 >> (WEFT_DEV_GDA_MARKS - some) << shift,
                               WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    }
}

/* Counts the fillers of blocks `base` to `end`. The thread whose turn it is calls it, before it
 * writes the doorbell record for `end`. */
WEFT_DEVICE void weft_dev_gda_count_fillers(struct weft_dev_gda_queue *q, uint32_t base,
                                            uint32_t end)
{
    uint32_t found = 0;
    WEFT_NO_UNROLL
    for (uint32_t n; base != end; base += n) {
        uint32_t at = base & q->ring.last, shift = at % WEFT_DEV_GDA_MARKS;
        uint64_t *word = &q->fillers[at / WEFT_DEV_GDA_MARKS];
        n = WEFT_DEV_GDA_MARKS - shift;
        n = n < end - base ? n : end - base;
        uint64_t mask = ~(uint64_t)0 >> (WEFT_DEV_GDA_MARKS - n) << shift;
        uint64_t bits = weft_dev_load_u64(word, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU) & mask;
        if (bits)
            weft_dev_atomic_and_u64(word, ~bits, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
        found += weft_dev_popcount_u64(bits);
    }
    if (found)
        weft_dev_gda_add_fillers(q, weft_dev_gda_counted(q), found, end);
}

/* Rings the doorbell for blocks up to `end`, and passes the turn on from `base`. `ring` is the
 * queue's, or a copy. */
WEFT_DEVICE int weft_dev_gda_ring_for(struct weft_dev_gda_queue *q,
                                      const struct weft_dev_gda_ring *ring, uint32_t base,
                                      uint32_t end)
{
    weft_dev_gda_record_end(ring, end);
    weft_dev_gda_bell(ring, end);
    return weft_dev_gda_pass(q, base, end);
}

/* The caller has the turn and has taken the mark of the block at `base`. Rings the doorbell for
 * that reservation and for all marks in sequence, also those that appear meanwhile, and passes the
 * turn on. Repeats this when another thread has left a mark in between. */
WEFT_DEVICE_NOINLINE void weft_dev_gda_serve(struct weft_dev_gda_queue *q, uint32_t base)
{
    uint32_t end, more;
    do {
        end = base;
        more = weft_dev_gda_take_marks(q, base + 1);
        WEFT_NO_UNROLL
        do {
            weft_dev_gda_count_fillers(q, end, more);
            end = more;
            weft_dev_gda_record_end(&q->ring, end);
            weft_dev_gda_bell(&q->ring, end);
            more = weft_dev_gda_take_marks(q, end);
        } while (more != end);
        if (!weft_dev_gda_pass(q, base, end))
            return;
        weft_dev_fence(WEFT_ORDER_ACQ_REL, WEFT_SCOPE_GPU);
        base = end;
    } while (weft_dev_gda_take_mark(q, base));
}

/* The turn was passed on to `end`, where there is a reservation. Takes the turn back if that has a
 * mark. The fence is the acquire that the pass left out. */
WEFT_DEVICE_NOINLINE void weft_dev_gda_follow(struct weft_dev_gda_queue *q, uint32_t end)
{
    weft_dev_fence(WEFT_ORDER_ACQ_REL, WEFT_SCOPE_GPU);
    if (weft_dev_gda_take_mark(q, end))
        weft_dev_gda_serve(q, end);
}

/* Publishes a reservation that came too early, or is the first one of the queue. It checks whether
 * its turn has come since only when about one reservation was ahead of it. */
WEFT_DEVICE_NOINLINE void weft_dev_gda_publish_late(struct weft_dev_gda_queue *q, uint64_t base,
                                                    uint64_t end, uint32_t ahead)
{
    uint32_t first = (uint32_t)base;
    if (base && (ahead > end - base || (uint32_t)weft_dev_load_u64(&q->turns, WEFT_ORDER_ACQUIRE,
                                                                   WEFT_SCOPE_GPU) != first)) {
        if (weft_dev_gda_mark(q, first, (uint32_t)end))
            weft_dev_gda_serve(q, first);
        return;
    }
    weft_dev_gda_count_fillers(q, first, (uint32_t)end);
    if (!base)
        first = (uint32_t)WEFT_DEV_GDA_UNUSED;
    if (weft_dev_gda_ring_for(q, &q->ring, first, (uint32_t)end))
        weft_dev_gda_follow(q, (uint32_t)end);
}

/* Publishes blocks `base` to `end`, which the calling thread, and threads that it has synchronised
 * with, have stored. `ahead` is the result of the reservation; 0: the caller alone has the turn.
 * A span with fillers takes the second function. */
WEFT_DEVICE void weft_dev_gda_publish(struct weft_dev_gda_queue *q,
                                      const struct weft_dev_gda_ring *ring, uint64_t base,
                                      uint64_t end, uint32_t ahead)
{
    if (!__builtin_expect(!ahead, 1))
        weft_dev_gda_publish_late(q, base, end, ahead);
    else if (__builtin_expect(weft_dev_gda_ring_for(q, ring, (uint32_t)base, (uint32_t)end), 0))
        weft_dev_gda_follow(q, (uint32_t)end);
}

/* The same for a queue that one thread at a time uses, and that has been used before. Returns 0 on
 * simt when another thread has reserved blocks meanwhile. */
WEFT_DEVICE int weft_dev_gda_publish_exclusive(struct weft_dev_gda_queue *q,
                                               const struct weft_dev_gda_ring *ring, uint32_t end)
{
    weft_dev_gda_record_end(ring, end);
    weft_dev_gda_bell(ring, end);
    int alone = 1;
    if (!WEFT_TARGET_GPU)
        alone = weft_dev_load_u64(&q->turns, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU) >> 32 == end;
    weft_dev_store_u64(&q->turns, (uint64_t)end << 32 | end, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    return alone;
}

WEFT_DEVICE void weft_dev_gda_publish_filled(struct weft_dev_gda_queue *q, uint64_t base,
                                             uint64_t end, uint32_t ahead, uint32_t fillers)
{
    if (ahead)
        weft_dev_gda_leave_fillers(q, base, fillers);
    else
        weft_dev_gda_add_fillers(q, weft_dev_gda_counted(q), fillers, (uint32_t)end);
    weft_dev_gda_publish(q, &q->ring, base, end, ahead);
}

/* --- Requests whose completion does not say that their data are in memory: writes in relaxed order
 * and, where the GPU needs a DUMP, also reads. A completed flush after them in the same queue says
 * so. --- */

/* Called before the request, which ends at `end`, is published. */
WEFT_DEVICE void weft_dev_gda_leave_open(struct weft_dev_gda_queue *q, uint64_t end)
{
    weft_dev_atomic_max_u64(&q->open, end, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
}

WEFT_DEVICE int weft_dev_gda_is_open(const struct weft_dev_gda_queue *q)
{
    return weft_dev_load_u64(&q->open, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU) >
           weft_dev_load_u64(&q->flushed, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_GPU);
}

/* Called before the flush, which ends at `end`, is published. */
WEFT_DEVICE void weft_dev_gda_flush_given(struct weft_dev_gda_queue *q, uint64_t end)
{
    weft_dev_atomic_max_u64(&q->flushing, end, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
}

/* The queue is complete up to `given`, the value of `flushing` before the wait. */
WEFT_DEVICE void weft_dev_gda_flush_done(struct weft_dev_gda_queue *q, uint64_t given)
{
    if (given > weft_dev_load_u64(&q->flushed, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU))
        weft_dev_atomic_max_u64(&q->flushed, given, WEFT_ORDER_RELEASE, WEFT_SCOPE_GPU);
}

/* The result slot of the request at `index`. */
WEFT_DEVICE struct weft_dev_gda_place weft_dev_gda_result(const struct weft_dev_gda_queue *q,
                                                          uint64_t index)
{
    struct weft_dev_gda_place at;
    at.address = (uintptr_t)q->results + (index & q->ring.last) * WEFT_DEV_GDA_RESULT;
    at.key = q->results_key;
    return at;
}

/* The slot for results that are not used. */
WEFT_DEVICE struct weft_dev_gda_place weft_dev_gda_sink(const struct weft_dev_gda_queue *q)
{
    struct weft_dev_gda_place at;
    at.address = (uintptr_t)q->results + ((uint64_t)q->ring.last + 1) * WEFT_DEV_GDA_RESULT;
    at.key = q->results_key;
    return at;
}

/* Whether the previous owner of that block's result slot has read its result. The slot then belongs
 * to the caller until weft_dev_gda_result_read(). The next owner is one round of the ring later. */
WEFT_DEVICE int weft_dev_gda_result_free(const struct weft_dev_gda_queue *q, uint64_t index)
{
    return !weft_dev_load_u32(&q->busy[index & q->ring.last], WEFT_ORDER_ACQUIRE, WEFT_SCOPE_GPU);
}

/* Value of a result slot until its result has arrived. When a queue has failed, the host compares
 * the slot with it. A result that has this value by chance counts as missing. */
#define WEFT_DEV_GDA_NO_RESULT ((uint64_t)0xb5ad4eceda1ce2a9u)

WEFT_DEVICE void weft_dev_gda_result_take(struct weft_dev_gda_queue *q, uint64_t index)
{
    struct weft_dev_gda_place at = weft_dev_gda_result(q, index);
    weft_dev_store_u64((uint64_t *)(uintptr_t)at.address, WEFT_DEV_GDA_NO_RESULT,
                       WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    weft_dev_store_u32(&q->busy[index & q->ring.last], 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
}

WEFT_DEVICE void weft_dev_gda_result_read(struct weft_dev_gda_queue *q, uint64_t index)
{
    weft_dev_store_u32(&q->busy[index & q->ring.last], 0, WEFT_ORDER_RELEASE, WEFT_SCOPE_GPU);
}

/* A result of `width` bytes. The NIC stores the result of a 4-byte atomic in big-endian order. */
WEFT_DEVICE uint64_t weft_dev_gda_result_value(const struct weft_dev_gda_queue *q, uint64_t index,
                                               unsigned width, int atomic)
{
    struct weft_dev_gda_place at = weft_dev_gda_result(q, index);
    uint64_t word = weft_dev_load_u64((const uint64_t *)(uintptr_t)at.address, WEFT_ORDER_RELAXED,
                                      WEFT_SCOPE_SYS);
    if (width == 8)
        return word;
    word &= ((uint64_t)1 << 8 * width) - 1;
    return atomic && width == 4 ? weft_dev_be32((uint32_t)word) : word;
}

#endif
