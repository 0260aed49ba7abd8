/* SPDX-License-Identifier: Apache-2.0 */
/* A send queue that several threads use without a lock: who wants to give requests
 *
 *     reserves blocks of the ring by an atomic add        weft_dev_gda_reserve()
 *     waits until the ring has room for them              weft_dev_gda_room()
 *     stores its requests (gda_wqe.h), the last signalled
 *     publishes them                                      weft_dev_gda_publish()
 *     and looks how much is complete                      weft_dev_gda_done()
 *
 * Reservations are published in their order. Whose turn it is, because all before it is published,
 * rings the doorbell and then passes the turn on. Both counts, of what is reserved and of what is
 * published, are halves of one word: the add that reserves tells whether it is the caller's turn,
 * and the one that passes the turn on whether anybody has reserved behind it. So a put to which
 * nobody comes in between takes two atomics, and no compare and swap. Nobody waits for a turn: who
 * comes too early marks its blocks and goes, and whoever has passed the turn on to a block with a
 * mark takes it back, for all marks that follow each other, and rings once for all of them. The
 * last request of a reservation takes one block and is signalled.
 *
 * Completions are collapsed: the adapter keeps one entry, of the last request that completed, whose
 * index has 16 bits. `done` is what is known of the whole count. Every reservation raises it to
 * what it needs before its requests are stored, so it is never more than a ring behind, and the
 * index tells the rest.
 *
 * For device code and for the host. Knows nothing of PEs, keys and of how to wait. */
#ifndef WEFT_DEVICE_GDA_QUEUE_H
#define WEFT_DEVICE_GDA_QUEUE_H

#include <weft/device/gda_wqe.h>

enum {
    WEFT_DEV_GDA_RESULT = 64, /* bytes of a place for results */
    WEFT_DEV_GDA_LINE = 64,
};

/* In memory of who gives requests; words that are written stand on lines of their own.
 * `completion`: the last 8 bytes of the entry. A block has a place for what a read or an atomic in
 * it brings, and behind those of all blocks stands one for results that nobody wants. */
struct weft_dev_gda_queue {
    struct weft_dev_gda_ring ring;
    const uint64_t *completion; /* written by the adapter */
    uint64_t *marks;      /* [depth / 64] a bit for each block: it is stored, and to be published */
    uint32_t *busy;       /* [depth] 1: the result has not been read yet */
    char *results;        /* [depth + 1][WEFT_DEV_GDA_RESULT] registered */
    uint32_t results_key; /* as requests have it */
    uint32_t number;      /* of the queue pair */
    uint32_t name;        /* number of the queue among those to its peer, for messages */
    uint32_t reserved;
    const uint32_t *remote_keys; /* of the peer's chunks, at the adapter that the queue leads to, */
    const uint32_t
        *local_keys; /* and of own ones at the one that it begins at; as requests have them */
    uint32_t reserved_too[4];
    uint64_t turns; /* blocks reserved << 32 | blocks published, each modulo 2^32 */
    uint64_t turns_line[7];
    uint64_t done;  /* blocks known to be complete, from the first one on */
    uint64_t looks; /* 1: a thread that waits looks at the completion now */
    /* An epoch, counted in blocks (see base/epoch.h): the end of the last request whose completion
     * does not say that its data are in their place, of the last flush that was given, and of the
     * last one that is complete. */
    uint64_t open, flushing, flushed;
    uint64_t done_line[3];
};

/* `turns` of a new queue. What is published is no reservation's turn, so that the first one goes
 * the way of those that come too early. */
#define WEFT_DEV_GDA_UNUSED ((uint64_t)0xffffffffu)

/* 2^32 / each, rounded up; of 1 it is 0: what weft_dev_gda_queue_of() takes. */
WEFT_DEV_BOTH uint32_t weft_dev_gda_fraction(uint32_t each)
{
    return (uint32_t)((((uint64_t)1 << 32) + each - 1) / each);
}

/* Which queue what changes one word goes by, host and device alike: found from its address at its
 * PE, so that it is the same adapter there whoever gives it. Adapters are atomic each with itself
 * alone. */
WEFT_DEV_BOTH uint32_t weft_dev_gda_word(uint64_t address)
{
    return (uint32_t)(address >> 3) * 0x9e3779b1u >> 16;
}

/* A count of blocks that no queue comes to: the queue has failed, or was given up. Far enough from
 * 2^64 that a ring added to it is no small number. */
#define WEFT_DEV_GDA_FAILED ((uint64_t)3 << 62)

/* What of a queue never changes, in registers. */
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

/* The parts of the completion's last 8 bytes. */
enum { WEFT_DEV_GDA_CQE_OK = 0, WEFT_DEV_GDA_CQE_ERROR = 13, WEFT_DEV_GDA_CQE_NONE = 15 };

WEFT_DEV_BOTH uint32_t weft_dev_gda_cqe_opcode(uint64_t word)
{
    return (uint32_t)(word >> 60);
}

WEFT_DEV_BOTH uint16_t weft_dev_gda_cqe_index(uint64_t word)
{
    return (uint16_t)((word >> 40 & 0xff) | (word >> 32 & 0xff) << 8);
}

/* The whole count that ends in the 32 bits of `low`, of blocks that are not known to be complete
 * yet or have just become so. */
WEFT_DEV_BOTH uint64_t weft_dev_gda_whole(uint64_t done, uint32_t low)
{
    return done + (uint64_t)(int64_t)(int32_t)(low - (uint32_t)done);
}

/* `turns` as it was before: where the reservation begins << 32 | where what is published ends. */
WEFT_DEVICE uint64_t weft_dev_gda_reserve(struct weft_dev_gda_queue *q, uint32_t blocks)
{
    return weft_dev_global_add_u64(&q->turns, (uint64_t)blocks << 32, WEFT_ORDER_RELAXED,
                                   WEFT_SCOPE_GPU);
}

/* How many blocks before it were not published yet. 0: it is the caller's turn; what the one before
 * did comes before its record and its doorbell by the fence between. */
WEFT_DEVICE uint32_t weft_dev_gda_ahead(uint64_t turns)
{
    return (uint32_t)(turns >> 32) - (uint32_t)turns;
}

/* Blocks complete, or WEFT_DEV_GDA_FAILED. What is known is read first: an index that is older than
 * it would be taken for one that is a round further. Acquire: results are read behind it. */
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

/* The same, noted for those who come next. What is noted already is not written again: a lane of
 * simt that writes does not wait. */
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

/* How much must be complete before blocks up to `end` are stored. */
WEFT_DEVICE uint64_t weft_dev_gda_needed(const struct weft_dev_gda_queue *q, uint64_t end)
{
    return end > q->ring.last ? end - q->ring.last - 1 : 0;
}

/* Whether the first `target` blocks are known to be complete; never of a queue that was given up,
 * whose count is negative here. */
WEFT_DEVICE int weft_dev_gda_reached(const struct weft_dev_gda_queue *q, uint64_t target)
{
    return (int64_t)(weft_dev_load_u64(&q->done, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_GPU) - target) >= 0;
}

/* Whether there is room for blocks up to `end` when `done` are complete: the adapter has read what
 * stood there. The low halves of both suffice while the queue has not been given up, as it is not
 * when it is the caller's turn: who gave it up has left a gap before. */
WEFT_DEVICE int weft_dev_gda_room(const struct weft_dev_gda_ring *ring, uint32_t done, uint32_t end)
{
    return end - 1 - done <= ring->last;
}

/* The same of a reservation whose turn it need not be. */
WEFT_DEVICE int weft_dev_gda_room_late(const struct weft_dev_gda_queue *q, uint64_t done,
                                       uint32_t end)
{
    return done != WEFT_DEV_GDA_FAILED && weft_dev_gda_room(&q->ring, (uint32_t)done, end);
}

/* Blocks reserved; of a queue that was given up a count that it never comes to. */
WEFT_DEVICE uint64_t weft_dev_gda_head(const struct weft_dev_gda_queue *q)
{
    uint64_t done = weft_dev_load_u64(&q->done, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    uint64_t turns = weft_dev_load_u64(&q->turns, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    return done == WEFT_DEV_GDA_FAILED ? done + 1
                                       : weft_dev_gda_whole(done, (uint32_t)(turns >> 32));
}

/* Gives the queue up: who has reserved blocks and cannot store requests there leaves a gap that
 * nothing behind it passes. All waits for the queue end at once from now on. */
WEFT_DEVICE void weft_dev_gda_abandon(struct weft_dev_gda_queue *q)
{
    weft_dev_atomic_max_u64(&q->done, WEFT_DEV_GDA_FAILED, WEFT_ORDER_RELEASE, WEFT_SCOPE_GPU);
}

/* Both as the adapter reads them, the record first: it may be read any time after the doorbell. 16
 * bits of the count, the highest byte first. By whose turn it is. */
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

/* Passes the turn on from `base` to `end`. 1: somebody has reserved behind it, and may have left a
 * mark. Release: the next one's doorbell comes behind this one's. A count that comes round does not
 * carry into the other one. */
WEFT_DEVICE int weft_dev_gda_pass(struct weft_dev_gda_queue *q, uint32_t base, uint32_t end)
{
    uint64_t more = (end - base) | (uint64_t)(end < base ? 0xffffffffu : 0) << 32;
    uint64_t turns = weft_dev_global_add_u64(&q->turns, more, WEFT_ORDER_RELEASE, WEFT_SCOPE_GPU);
    return (uint32_t)(turns >> 32) != end;
}

/* --- Marks: a bit for each block of the ring, 64 to a word. --- */

enum { WEFT_DEV_GDA_MARKS = 64 };

/* Takes the mark of the block at `base`, to which the turn has been passed on; 1: the reservation
 * that begins there is the caller's to publish now; 0: nobody has left a mark, or another has taken
 * it. Acquire: its requests are there. */
WEFT_DEVICE int weft_dev_gda_take_mark(struct weft_dev_gda_queue *q, uint32_t base)
{
    uint32_t at = base & q->ring.last;
    uint64_t *word = &q->marks[at / WEFT_DEV_GDA_MARKS];
    uint64_t bit = (uint64_t)1 << at % WEFT_DEV_GDA_MARKS;
    return (weft_dev_load_u64(word, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU) & bit) &&
           (weft_dev_atomic_and_u64(word, ~bit, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_GPU) & bit);
}

/* Takes all marks that follow each other from `from` on, by whose turn it is: nobody else takes
 * any. Returns where they end. That the marks are gone is visible before the doorbell, so before
 * anybody marks these blocks again. */
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

/* Marks blocks `base` to `end`, the word of the first one last: whoever finds that one finds all of
 * them. */
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

/* Leaves marks for whoever passes the turn on to `base`; 1: that has happened before, and the turn
 * is the caller's. The add of nothing stands in the order of changes of `turns`: whoever passes the
 * turn on behind it sees the mark, and of what was passed on before it tells. */
WEFT_DEVICE int weft_dev_gda_mark(struct weft_dev_gda_queue *q, uint32_t base, uint32_t end)
{
    weft_dev_gda_set_marks(q, base, end);
    uint64_t turns = weft_dev_atomic_add_u64(&q->turns, 0, WEFT_ORDER_ACQ_REL, WEFT_SCOPE_GPU);
    return (uint32_t)turns == base && weft_dev_gda_take_mark(q, base);
}

/* Rings for what is published up to `end`, and passes the turn on from `base`; `ring` is the
 * queue's, or a copy. */
WEFT_DEVICE int weft_dev_gda_ring_for(struct weft_dev_gda_queue *q,
                                      const struct weft_dev_gda_ring *ring, uint32_t base,
                                      uint32_t end)
{
    weft_dev_gda_record_end(ring, end);
    weft_dev_gda_bell(ring, end);
    return weft_dev_gda_pass(q, base, end);
}

/* The turn is the caller's, as is the mark of the block at `base`. Rings for it and for all marks
 * that follow, also for those that come while it rings, then passes the turn on; and again where
 * somebody has left a mark in between. */
WEFT_DEVICE_NOINLINE void weft_dev_gda_serve(struct weft_dev_gda_queue *q, uint32_t base)
{
    uint32_t end, more;
    do {
        more = weft_dev_gda_take_marks(q, base + 1);
        WEFT_NO_UNROLL
        do {
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

/* The turn was passed on to `end`, which somebody has reserved: takes it back where there is a
 * mark. The fence is the acquire that the pass left out. */
WEFT_DEVICE_NOINLINE void weft_dev_gda_follow(struct weft_dev_gda_queue *q, uint32_t end)
{
    weft_dev_fence(WEFT_ORDER_ACQ_REL, WEFT_SCOPE_GPU);
    if (weft_dev_gda_take_mark(q, end))
        weft_dev_gda_serve(q, end);
}

/* Of a reservation that came too early, or is the first one of the queue. Whether its turn has come
 * since is worth a look only where about one was ahead of it. */
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
    if (!base)
        first = (uint32_t)WEFT_DEV_GDA_UNUSED;
    if (weft_dev_gda_ring_for(q, &q->ring, first, (uint32_t)end))
        weft_dev_gda_follow(q, (uint32_t)end);
}

/* Publishes blocks `base` to `end`, which the calling thread and those that it has met have stored.
 * `ahead` is what the reservation told: when 0, the turn is the caller's, and nobody else's. */
WEFT_DEVICE void weft_dev_gda_publish(struct weft_dev_gda_queue *q,
                                      const struct weft_dev_gda_ring *ring, uint64_t base,
                                      uint64_t end, uint32_t ahead)
{
    if (!__builtin_expect(!ahead, 1))
        weft_dev_gda_publish_late(q, base, end, ahead);
    else if (__builtin_expect(weft_dev_gda_ring_for(q, ring, (uint32_t)base, (uint32_t)end), 0))
        weft_dev_gda_follow(q, (uint32_t)end);
}

/* --- Requests whose completion does not say that their data are in their place: writes in relaxed
 * order, and where the GPU needs a DUMP also reads. A flush behind them in the same queue, when it
 * is complete, says so. --- */

/* Before the request, which ends at `end`, is published. */
WEFT_DEVICE void weft_dev_gda_leave_open(struct weft_dev_gda_queue *q, uint64_t end)
{
    weft_dev_atomic_max_u64(&q->open, end, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
}

WEFT_DEVICE int weft_dev_gda_is_open(const struct weft_dev_gda_queue *q)
{
    return weft_dev_load_u64(&q->open, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU) >
           weft_dev_load_u64(&q->flushed, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_GPU);
}

/* Before the flush, which ends at `end`, is published. */
WEFT_DEVICE void weft_dev_gda_flush_given(struct weft_dev_gda_queue *q, uint64_t end)
{
    weft_dev_atomic_max_u64(&q->flushing, end, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
}

/* The queue is complete up to `given`, which `flushing` was before the wait. */
WEFT_DEVICE void weft_dev_gda_flush_done(struct weft_dev_gda_queue *q, uint64_t given)
{
    if (given > weft_dev_load_u64(&q->flushed, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU))
        weft_dev_atomic_max_u64(&q->flushed, given, WEFT_ORDER_RELEASE, WEFT_SCOPE_GPU);
}

/* The place for what the request at `index` brings. */
WEFT_DEVICE struct weft_dev_gda_place weft_dev_gda_result(const struct weft_dev_gda_queue *q,
                                                          uint64_t index)
{
    struct weft_dev_gda_place at;
    at.address = (uintptr_t)q->results + (index & q->ring.last) * WEFT_DEV_GDA_RESULT;
    at.key = q->results_key;
    return at;
}

/* The one for results that nobody wants. */
WEFT_DEVICE struct weft_dev_gda_place weft_dev_gda_sink(const struct weft_dev_gda_queue *q)
{
    struct weft_dev_gda_place at;
    at.address = (uintptr_t)q->results + ((uint64_t)q->ring.last + 1) * WEFT_DEV_GDA_RESULT;
    at.key = q->results_key;
    return at;
}

/* Whether who had the place for results of that block before has read it; then it is the caller's,
 * until weft_dev_gda_result_read(). Who has it now gets it after a round of the ring. */
WEFT_DEVICE int weft_dev_gda_result_free(const struct weft_dev_gda_queue *q, uint64_t index)
{
    return !weft_dev_load_u32(&q->busy[index & q->ring.last], WEFT_ORDER_ACQUIRE, WEFT_SCOPE_GPU);
}

WEFT_DEVICE void weft_dev_gda_result_take(struct weft_dev_gda_queue *q, uint64_t index)
{
    weft_dev_store_u32(&q->busy[index & q->ring.last], 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
}

WEFT_DEVICE void weft_dev_gda_result_read(struct weft_dev_gda_queue *q, uint64_t index)
{
    weft_dev_store_u32(&q->busy[index & q->ring.last], 0, WEFT_ORDER_RELEASE, WEFT_SCOPE_GPU);
}

/* A result of `width` bytes; of an atomic of 4 bytes it is in big-endian order. */
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
