/* SPDX-License-Identifier: Apache-2.0 */
/* A send queue that several threads use without a lock: who wants to give requests
 *
 *     reserves blocks of the ring by an atomic add        weft_dev_gda_reserve()
 *     waits until the ring has room for them              weft_dev_gda_room()
 *     stores its requests (gda_wqe.h), the last signalled
 *     publishes them                                      weft_dev_gda_publish()
 *     and looks how much is complete                      weft_dev_gda_done()
 *
 * Reservations are published in their order, and nobody waits for it: who comes too early leaves a mark
 * and goes, and whoever publishes what is before it publishes it too. One thread at a time rings the
 * doorbell; what others publish meanwhile it rings for when it has done, so that a doorbell stands for as
 * many requests as have come. The last request of a reservation takes one block and is signalled.
 *
 * Completions are collapsed: the adapter keeps one entry, of the last request that completed, whose index
 * has 16 bits. `done` is what is known of the whole count. Every reservation raises it to what it needs
 * before its requests are stored, so it is never more than a ring behind, and the index tells the rest.
 *
 * For device code and for the host. Knows nothing of PEs, keys and of how to wait. */
#ifndef WEFT_DEVICE_GDA_QUEUE_H
#define WEFT_DEVICE_GDA_QUEUE_H

#include <weft/device/gda_wqe.h>

enum {
    WEFT_DEV_GDA_RESULT = 64, /* bytes of a place for results */
    WEFT_DEV_GDA_LINE = 64,
};

/* In memory of who gives requests; words that are written stand on lines of their own. `completion`:
 * the last 8 bytes of the entry. A block has a place for what a read or an atomic in it brings, and
 * behind those of all blocks stands one for results that nobody wants. */
struct weft_dev_gda_queue {
    struct weft_dev_gda_ring ring;
    uint32_t *record;           /* of the send doorbell */
    uint64_t *doorbell;         /* register of the adapter */
    const uint64_t *completion; /* written by the adapter */
    uint64_t *marks;            /* [depth] end of the reservation that begins in the block */
    uint32_t *busy;             /* [depth] 1: the result has not been read yet */
    char *results;              /* [depth + 1][WEFT_DEV_GDA_RESULT] registered */
    uint32_t results_key;
    uint32_t name; /* number of the queue among those to its peer, for messages */
    uint64_t reserved[5];
    uint64_t head; /* blocks reserved, from the first one on */
    uint64_t head_line[7];
    uint64_t ready; /* blocks published, times 2; + 1: somebody rings */
    uint64_t ready_line[7];
    uint64_t done;  /* blocks known to be complete */
    uint64_t looks; /* 1: a thread that waits looks at the completion now */
    uint64_t done_line[6];
};

/* A count of blocks that no queue comes to: the queue has failed, or was given up. */
#define WEFT_DEV_GDA_FAILED (~(uint64_t)0)

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

WEFT_DEVICE uint64_t weft_dev_gda_reserve(struct weft_dev_gda_queue *q, uint32_t blocks)
{
    return weft_dev_atomic_add_u64(&q->head, blocks, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
}

/* Blocks complete, or WEFT_DEV_GDA_FAILED. What is known is read first: an index that is older than it
 * would be taken for one that is a round further. Acquire: results are read behind it. */
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

/* The same, noted for those who come next. */
WEFT_DEVICE uint64_t weft_dev_gda_look(struct weft_dev_gda_queue *q)
{
    uint64_t done = weft_dev_gda_done(q);
    if (done != WEFT_DEV_GDA_FAILED)
        weft_dev_atomic_max_u64(&q->done, done, WEFT_ORDER_RELEASE, WEFT_SCOPE_GPU);
    return done;
}

/* How much must be complete before blocks up to `end` are stored. */
WEFT_DEVICE uint64_t weft_dev_gda_needed(const struct weft_dev_gda_queue *q, uint64_t end)
{
    return end > q->ring.depth ? end - q->ring.depth : 0;
}

/* Whether the first `target` blocks are known to be complete; never of a queue that was given up, whose
 * count is negative here. */
WEFT_DEVICE int weft_dev_gda_reached(const struct weft_dev_gda_queue *q, uint64_t target)
{
    return (int64_t)(weft_dev_load_u64(&q->done, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_GPU) - target) >= 0;
}

/* Whether there is room for blocks up to `end`, as far as is known. Acquire: the adapter has read what
 * stood there. */
WEFT_DEVICE int weft_dev_gda_room(const struct weft_dev_gda_queue *q, uint64_t end)
{
    return weft_dev_gda_reached(q, weft_dev_gda_needed(q, end));
}

/* Gives the queue up: who has reserved blocks and cannot store requests there leaves a gap that nothing
 * behind it passes. All waits for the queue end at once from now on. */
WEFT_DEVICE void weft_dev_gda_abandon(struct weft_dev_gda_queue *q)
{
    weft_dev_atomic_max_u64(&q->done, WEFT_DEV_GDA_FAILED, WEFT_ORDER_RELEASE, WEFT_SCOPE_GPU);
}

/* Both as the adapter reads them, the record first: it may be read any time after the doorbell. By one
 * thread at a time. */
WEFT_DEVICE void weft_dev_gda_record_end(const struct weft_dev_gda_queue *q, uint64_t end)
{
    weft_dev_fence(WEFT_ORDER_ACQ_REL, WEFT_SCOPE_SYS);
    weft_dev_store_u32(q->record, weft_dev_be32((uint32_t)(end & 0xffff)), WEFT_ORDER_RELAXED,
                       WEFT_SCOPE_SYS);
}

WEFT_DEVICE void weft_dev_gda_bell(const struct weft_dev_gda_queue *q, uint64_t end)
{
    uint64_t bell = weft_dev_be32((uint32_t)(end & 0xffff) << 8) |
                    (uint64_t)weft_dev_be32(q->ring.number << 8) << 32;
    weft_dev_fence(WEFT_ORDER_ACQ_REL, WEFT_SCOPE_SYS);
    weft_dev_store_u64(q->doorbell, bell, WEFT_ORDER_RELEASE, WEFT_SCOPE_SYS);
}

/* Takes the mark of ringing away; what others have published since `end` is returned, `end` when nothing,
 * else the caller goes on ringing. */
WEFT_DEVICE uint64_t weft_dev_gda_stop_ringing(struct weft_dev_gda_queue *q, uint64_t end)
{
    return weft_dev_atomic_cas_u64(&q->ready, end << 1 | 1, end << 1, WEFT_ORDER_ACQ_REL,
                                   WEFT_SCOPE_GPU) >>
           1;
}

/* Publishes what is reserved from `base` to `end` if its turn has come: 1, and 2 when the caller is to
 * ring. Acquire and release: what the others stored is visible to whoever rings for them. */
WEFT_DEVICE int weft_dev_gda_advance(struct weft_dev_gda_queue *q, uint64_t base, uint64_t end)
{
    uint64_t expected = base << 1, seen;
    for (;;) {
        seen = weft_dev_atomic_cas_u64(&q->ready, expected, end << 1 | 1, WEFT_ORDER_ACQ_REL,
                                       WEFT_SCOPE_GPU);
        if (__builtin_expect(seen == expected, 1))
            return seen & 1 ? 1 : 2;
        if (seen >> 1 != base)
            return 0;
        expected = seen;
    }
}

/* Leaves a mark for whoever publishes what is before `base`; 1: that has happened meanwhile. The add of
 * nothing is a release in the order of changes of `ready`: whoever changes it later sees the mark, and
 * what was changed before it returns. */
WEFT_DEVICE int weft_dev_gda_mark(struct weft_dev_gda_queue *q, uint64_t base, uint64_t end)
{
    weft_dev_store_u64(&q->marks[base & (q->ring.depth - 1)], end, WEFT_ORDER_RELAXED,
                       WEFT_SCOPE_GPU);
    return weft_dev_atomic_add_u64(&q->ready, 0, WEFT_ORDER_ACQ_REL, WEFT_SCOPE_GPU) >> 1 == base;
}

/* Publishes blocks `base` to `end`, which the calling thread and those that it has met have stored. */
WEFT_DEVICE_NOINLINE void weft_dev_gda_publish(struct weft_dev_gda_queue *q, uint64_t base,
                                               uint64_t end)
{
    int rings = 0, turn = weft_dev_gda_advance(q, base, end);
    if (!turn && (!weft_dev_gda_mark(q, base, end) || !(turn = weft_dev_gda_advance(q, base, end))))
        return;
    WEFT_NO_UNROLL
    for (;;) {
        rings |= turn == 2;
        /* A mark of an earlier round of the ring is not beyond `end`. */
        uint64_t mark = weft_dev_load_u64(&q->marks[end & (q->ring.depth - 1)], WEFT_ORDER_RELAXED,
                                          WEFT_SCOPE_GPU);
        if (mark > end && (turn = weft_dev_gda_advance(q, end, mark)) != 0) {
            end = mark;
            continue;
        }
        if (!rings)
            return;
        weft_dev_gda_record_end(q, end);
        weft_dev_gda_bell(q, end);
        uint64_t seen = weft_dev_gda_stop_ringing(q, end);
        if (__builtin_expect(seen == end, 1))
            return;
        end = seen;
        turn = 1;
    }
}

/* The place for what the request at `index` brings. */
WEFT_DEVICE struct weft_dev_gda_place weft_dev_gda_result(const struct weft_dev_gda_queue *q,
                                                          uint64_t index)
{
    struct weft_dev_gda_place at;
    at.address = (uintptr_t)q->results + (index & (q->ring.depth - 1)) * WEFT_DEV_GDA_RESULT;
    at.key = q->results_key;
    return at;
}

/* The one for results that nobody wants. */
WEFT_DEVICE struct weft_dev_gda_place weft_dev_gda_sink(const struct weft_dev_gda_queue *q)
{
    struct weft_dev_gda_place at;
    at.address = (uintptr_t)q->results + (uint64_t)q->ring.depth * WEFT_DEV_GDA_RESULT;
    at.key = q->results_key;
    return at;
}

/* Whether who had the place for results of that block before has read it; then it is the caller's, until
 * weft_dev_gda_result_read(). Who has it now gets it after a round of the ring. */
WEFT_DEVICE int weft_dev_gda_result_free(const struct weft_dev_gda_queue *q, uint64_t index)
{
    return !weft_dev_load_u32(&q->busy[index & (q->ring.depth - 1)], WEFT_ORDER_ACQUIRE,
                              WEFT_SCOPE_GPU);
}

WEFT_DEVICE void weft_dev_gda_result_take(struct weft_dev_gda_queue *q, uint64_t index)
{
    weft_dev_store_u32(&q->busy[index & (q->ring.depth - 1)], 1, WEFT_ORDER_RELAXED,
                       WEFT_SCOPE_GPU);
}

WEFT_DEVICE void weft_dev_gda_result_read(struct weft_dev_gda_queue *q, uint64_t index)
{
    weft_dev_store_u32(&q->busy[index & (q->ring.depth - 1)], 0, WEFT_ORDER_RELEASE,
                       WEFT_SCOPE_GPU);
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
