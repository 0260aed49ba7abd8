/* SPDX-License-Identifier: Apache-2.0 */
/* Reissue of requests: what was posted to a failed queue goes to the host's queue to the same PE
 * through another NIC. The failover thread copies WQEs from ring to ring with that NIC's keys:
 *
 *     plan_batch()    counts the blocks of the next requests, up to an atomic
 *     reserve()       reserves as many in the other queue, and one for a flush
 *     store_batch()   copies the requests when the ring has space for them, and publishes them
 *     finish_batch()  reports them as complete when the other queue is complete up to the flush
 *
 * It never waits for the other queue. If that queue fails too, this thread takes it over like any
 * other, and what it holds of the first queue with it: nothing is lost or executed twice. Only then
 * do further requests go to a third NIC, or over the other path. Atomics stay with their NIC: they
 * are reissued only to another queue of it, else see mail.c. All keys are those of strict order,
 * and the flush, a read behind the requests, puts their data in memory before an atomic that
 * follows. */
#include "path/gda/dc.h"
#include "path/gda/failover.h"

#include "base/status.h"

#include <endian.h>
#include <string.h>

enum {
    REISSUED_BLOCKS = 64, /* of a batch, at least, if so many are posted */
    COPIED_BLOCKS = REISSUED_BLOCKS + GDA_WQE_BLOCKS_MOST,
    KEY_OF_REMOTE = WEFT_DEV_GDA_SEGMENT + 8, /* offsets of keys: in the remote segment, */
    KEY_OF_DATA = 4,                          /* and in a data segment */
    SIGNALED_AT = 11,                         /* offset of the flags in the control segment */
};

static struct weft_dev_gda_queue *other_queue(const struct gda_failover *f,
                                              const struct gda_failed_queue *queue)
{
    return &f->gda->queues[gda_queue_index(f->gda, queue->pe,
                                           f->gda->queues_per_pe + queue->batch.adapter)];
}

static uint32_t other_number(const struct gda_failover *f, const struct gda_failed_queue *queue)
{
    return (uint32_t)(other_queue(f, queue) - f->gda->queues);
}

/* ---------------------------------------------------------------------------------- planning */

/* Whether the other queue executes the request: no NOP, and an atomic only through the same NIC. */
static bool is_reissued(const struct gda_failover *f, const struct gda_failed_queue *queue,
                        const struct gda_wqe *wqe)
{
    if (wqe->opcode == WEFT_DEV_GDA_WRITE || wqe->opcode == WEFT_DEV_GDA_READ ||
        wqe->opcode == WEFT_DEV_GDA_DUMP)
        return true;
    return wqe->message && queue->batch.adapter == gda_queue_adapter(f->gda, queue->number);
}

/* Copies the next requests before `end` to `blocks`, and finds those that make up a batch. */
static weft_status plan_batch(const struct gda_failover *f, struct gda_failed_queue *queue,
                              uint64_t end, char *blocks)
{
    struct gda_batch *batch = &queue->batch;
    uint64_t count = end - queue->done;
    count = count < COPIED_BLOCKS ? count : COPIED_BLOCKS;
    weft_status status = gda_copy_blocks(f->gda, queue, queue->done, (uint32_t)count, blocks);
    batch->upto = queue->done;
    batch->blocks = batch->messages = 0;
    while (!status && batch->upto < end && batch->upto - queue->done < REISSUED_BLOCKS) {
        struct gda_wqe wqe =
            gda_wqe_head(queue, blocks + (batch->upto - queue->done) * WEFT_DEV_GDA_BLOCK);
        if (!is_reissued(f, queue, &wqe) && wqe.message)
            break;
        batch->upto += wqe.blocks;
        batch->blocks += is_reissued(f, queue, &wqe) ? wqe.blocks : 0;
        batch->messages += wqe.message;
    }
    return status;
}

/* Reserves the batch's blocks unless the ring is full. */
static bool reserve(struct gda_failover *f, struct gda_failed_queue *queue)
{
    struct weft_dev_gda_queue *q = other_queue(f, queue);
    struct gda_batch *batch = &queue->batch;
    uint32_t blocks = batch->blocks + 1;
    uint64_t done = weft_dev_gda_look(q), head = weft_dev_gda_head(q);
    if (done == WEFT_DEV_GDA_FAILED)
        __atomic_store_n(f->alarm, WEFT_DEV_GDA_ALARM_FAILED, __ATOMIC_RELEASE);
    if (done == WEFT_DEV_GDA_FAILED || head + blocks - done > q->ring.last)
        return false;
    uint64_t turns = weft_dev_gda_reserve(q, blocks);
    batch->base = weft_dev_gda_whole(done, (uint32_t)(turns >> 32));
    batch->end = batch->base + blocks;
    batch->ahead = weft_dev_gda_ahead(turns);
    batch->state = GDA_BATCH_RESERVED;
    return true;
}

/* ----------------------------------------------------------------------------------- copying */

/* The key of the other NIC for local memory that a request names: a result slot of its queue, a
 * bounce buffer, or symmetric memory. */
static weft_status find_local_key(const struct gda_failover *f,
                                  const struct gda_failed_queue *queue, uint64_t address,
                                  uint32_t bytes, uint32_t *key)
{
    const struct gda *gda = f->gda;
    const uint32_t a = queue->batch.adapter;
    const char *at = (const char *)(uintptr_t)address;
    struct weft_dev_gda_place place;
    size_t whole = bytes;
    if (address - (uintptr_t)queue->q.results <
        ((uint64_t)queue->q.ring.last + 2) * WEFT_DEV_GDA_RESULT)
        *key = queue->on_gpu ? gda_gpu_results_key(gda->gpu_queues, queue->pe, a)
                             : other_queue(f, queue)->results_key;
    else if ((size_t)(at - gda->bounce) < (size_t)GDA_BOUNCES * GDA_BOUNCE_BYTES)
        *key = htobe32(gda->bounce_regions[a]->lkey);
    else if (gda_resolve_local(gda, a, at, &whole, &place) && whole == bytes)
        *key = place.key;
    else
        return base_fail(WEFT_ERR_ADDRESS, "a request for local memory that is not registered");
    return WEFT_OK;
}

/* Gives the request at `blocks` the keys of the other NIC. */
static weft_status change_keys(struct gda_failover *f, const struct gda_failed_queue *queue,
                               const struct gda_wqe *wqe, char *blocks)
{
    struct weft_dev_gda_place there;
    struct remote at;
    uint32_t bytes, key = 0;
    char *data = gda_wqe_data(blocks, &bytes);
    size_t whole = bytes;
    weft_status status = WEFT_OK;
    if (wqe->message) {
        if (!gda_find_remote(f, queue->pe, gda_wqe_remote(blocks), &at))
            return base_fail(WEFT_ERR_ADDRESS, "a request for memory that PE %d does not have",
                             queue->pe);
        there = gda_resolve_remote(f->gda, queue->batch.adapter, at, &whole);
        memcpy(blocks + KEY_OF_REMOTE, &there.key, sizeof there.key);
    }
    if (whole != bytes)
        return base_fail(WEFT_ERR_ADDRESS, "a request that crosses the end of a key");
    if (!data)
        return WEFT_OK;
    uint64_t address;
    memcpy(&address, data + 8, sizeof address);
    status = find_local_key(f, queue, be64toh(address), bytes, &key);
    if (!status)
        memcpy(data + KEY_OF_DATA, &key, sizeof key);
    return status;
}

/* Index and queue pair number of the other queue. Only the flush asks for a completion. */
static void change_control(const struct weft_dev_gda_ring *ring, uint64_t index, char *blocks)
{
    uint32_t word;
    blocks[1] = (char)(index >> 8);
    blocks[2] = (char)index;
    memcpy(&word, blocks + 4, sizeof word);
    word = htobe32((be32toh(word) & 0xff) | be32toh(ring->number_be));
    memcpy(blocks + 4, &word, sizeof word);
    blocks[SIGNALED_AT] = (char)(blocks[SIGNALED_AT] & ~WEFT_DEV_GDA_SIGNALED);
}

/* Stores the requests of the batch, which are at `blocks`, in the other ring. */
static weft_status copy_batch(struct gda_failover *f, struct gda_failed_queue *queue, char *blocks)
{
    const struct weft_dev_gda_ring *ring = &other_queue(f, queue)->ring;
    const struct gda_batch *batch = &queue->batch;
    uint64_t to = batch->base;
    weft_status status = WEFT_OK;
    for (uint64_t at = queue->done; at < batch->upto && !status;) {
        struct gda_wqe wqe = gda_wqe_head(queue, blocks);
        if (is_reissued(f, queue, &wqe)) {
            change_control(ring, to, blocks);
            status = change_keys(f, queue, &wqe, blocks);
            for (uint32_t i = 0; i < wqe.blocks; i++, to++)
                memcpy(weft_dev_gda_block(ring, to), blocks + (size_t)i * WEFT_DEV_GDA_BLOCK,
                       WEFT_DEV_GDA_BLOCK);
        }
        at += wqe.blocks;
        blocks += (size_t)wqe.blocks * WEFT_DEV_GDA_BLOCK;
    }
    return status;
}

/* An error leaves a gap in the other queue, so that queue is given up. */
static weft_status store_batch(struct gda_failover *f, struct gda_failed_queue *queue, char *blocks,
                               bool *any)
{
    struct weft_dev_gda_queue *q = other_queue(f, queue);
    struct gda_batch *batch = &queue->batch;
    uint64_t done = weft_dev_gda_look(q);
    if (!weft_dev_gda_room_late(q, done, (uint32_t)batch->end))
        return WEFT_OK;
    weft_status status = copy_batch(f, queue, blocks);
    if (status) {
        weft_dev_gda_abandon(q);
        return status;
    }
    weft_dev_gda_move(&q->ring, batch->end - 1, WEFT_DEV_GDA_READ,
                      gda_flush_from(f->gda, queue->pe, batch->adapter), weft_dev_gda_sink(q),
                      sizeof(uint64_t), WEFT_DEV_GDA_SIGNALED);
    uint32_t fillers = batch->blocks - batch->messages;
    if (fillers)
        weft_dev_gda_publish_filled(q, batch->base, batch->end, batch->ahead, fillers);
    else
        weft_dev_gda_publish(q, &q->ring, batch->base, batch->end, batch->ahead);
    batch->state = GDA_BATCH_POSTED;
    *any = true;
    return WEFT_OK;
}

/* ----------------------------------------------------------------------------------- the steps */

static weft_status finish_batch(struct gda_failover *f, struct gda_failed_queue *queue, bool *any)
{
    struct weft_dev_gda_queue *q = other_queue(f, queue);
    uint64_t done = weft_dev_gda_look(q);
    if (atomic_load(&f->states[other_number(f, queue)]) == GDA_QUEUE_LOST)
        return base_fail(f->lost, "%s", f->sentence);
    if (done == WEFT_DEV_GDA_FAILED)
        __atomic_store_n(f->alarm, WEFT_DEV_GDA_ALARM_FAILED, __ATOMIC_RELEASE);
    if (done == WEFT_DEV_GDA_FAILED || done < queue->batch.end)
        return WEFT_OK;
    queue->batch.state = GDA_BATCH_NONE;
    queue->done = queue->batch.upto;
    *any = true;
    return gda_complete_blocks(f->gda, queue, queue->done);
}

static weft_status begin_batch(struct gda_failover *f, struct gda_failed_queue *queue, bool *any)
{
    _Alignas(16) char blocks[COPIED_BLOCKS * WEFT_DEV_GDA_BLOCK];
    struct gda_batch *batch = &queue->batch;
    uint64_t end;
    weft_status status = gda_posted_end(f->gda, queue, &end);
    if (!status)
        status = plan_batch(f, queue, end, blocks);
    if (status || (batch->blocks && !reserve(f, queue)))
        return status;
    if (batch->blocks)
        return store_batch(f, queue, blocks, any);
    *any = batch->upto != queue->done; /* NOPs */
    queue->done = batch->upto;
    return *any ? gda_complete_blocks(f->gda, queue, queue->done) : WEFT_OK;
}

static weft_status continue_batch(struct gda_failover *f, struct gda_failed_queue *queue, bool *any)
{
    _Alignas(16) char blocks[COPIED_BLOCKS * WEFT_DEV_GDA_BLOCK];
    const struct gda_batch *batch = &queue->batch;
    if (batch->state == GDA_BATCH_POSTED)
        return finish_batch(f, queue, any);
    weft_status status =
        gda_copy_blocks(f->gda, queue, queue->done, (uint32_t)(batch->upto - queue->done), blocks);
    return status ? status : store_batch(f, queue, blocks, any);
}

uint32_t gda_working_adapter(const struct gda *gda, int pe, uint32_t first)
{
    const struct gda_failover *f = gda->failover;
    if (gda_is_dc_peer(gda, pe))
        return gda_dc_working_adapter(gda, pe, first);
    for (uint32_t i = 0; f && i < gda->count; i++) {
        uint32_t a = (first + i) % gda->count;
        if (atomic_load_explicit(&f->states[gda_queue_index(gda, pe, gda->queues_per_pe + a)],
                                 memory_order_relaxed) == GDA_QUEUE_WORKS)
            return a;
    }
    return f ? gda->count : first;
}

weft_status gda_reissue(struct gda_failover *f, struct gda_failed_queue *queue, bool *any,
                        bool *left)
{
    const struct gda *gda = f->gda;
    struct gda_batch *batch = &queue->batch;
    *any = *left = false;
    if (batch->state != GDA_BATCH_NONE)
        return continue_batch(f, queue, any);
    batch->adapter = gda_working_adapter(gda, queue->pe, gda_queue_adapter(gda, queue->number) + 1);
    *left = batch->adapter == gda->count || queue->pe == gda->world->pe;
    if (*left)
        return WEFT_OK;
    weft_status status = begin_batch(f, queue, any);
    *left = !status && !*any && batch->upto == queue->done;
    return status;
}
