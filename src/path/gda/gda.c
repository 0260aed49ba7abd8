/* SPDX-License-Identifier: Apache-2.0 */
/* Path `gda`: host operations as WQEs that the calling thread posts to the NIC itself. The steps of
 * a put to the doorbell and back:
 *
 *     gda_put()                   the entry of the path's table
 *     transfer_by_adapters()      splits the data over the NICs if it is large
 *     put_registered()            finds the rkey of the destination and the lkey of the source
 *     post_move()                 calls the following steps for one WQE:
 *     reserve_span()                reserves WQE blocks in the send queue to that PE
 *     weft_dev_gda_move()           writes the RDMA write WQE (gda_wqe.h)
 *     weft_dev_gda_publish()        writes the doorbell record and rings the doorbell (gda_queue.h)
 *     gda_await()                 polls the completion queue until the blocks are complete
 *
 * A put of up to INLINE_BYTES_MOST takes post_inline_write() instead of post_move(); data that are
 * not registered go through a bounce buffer. Device code performs the same steps
 * (weft/device/gda.h). The target PE's NIC executes requests of peers; no thread of the target
 * takes part. */
#include "path/gda/dc.h"
#include "path/gda/failover.h"

#include "base/config.h"
#include "base/epoch.h"
#include "base/status.h"
#include "gpu/gpu.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* Puts up to this many bytes are copied into the WQE. */
    INLINE_BYTES_MOST = 2 * WEFT_DEV_GDA_BLOCK - WEFT_DEV_GDA_INLINE_AT,
    /* Largest transfer of one WQE, in bytes. */
    WQE_BYTES_MOST = 1 << 30,
    /* A transfer is split over several NICs only if each gets this many bytes. */
    SPLIT_BYTES_LEAST = 64 << 10,
};

/* State of one context: what it has posted to the host queues. A queue executes writes in order, so
 * a fence does nothing unless there are several NICs or relaxed-ordering keys, or atomics take
 * another path. */
struct gda_state {
    struct gda *gda;
    /* [npes * count] Block count at which the context's last request on a queue is complete. */
    uint64_t *last;
    uint64_t *used;     /* One bit per host queue: the context has used it. */
    struct epoch reads; /* gets into GPU memory that quiet must flush */
};

static struct gda *gda_of(const struct path_world *world)
{
    return (struct gda *)(void *)world->common[PATH_GDA];
}

static struct gda_state *gda_state_of(const struct peer *peer)
{
    return (struct gda_state *)(void *)peer->state;
}

/* ------------------------------------------------------- spans: blocks reserved in a send queue */

/* Consecutive WQE blocks of one host queue, from base to before end. */
struct span {
    struct weft_dev_gda_queue *q;
    const struct weft_dev_gda_ring *ring; /* where the WQEs are stored */
    bool dc; /* It is one request of a DC queue, whose `end` is known when it is published. */
    int pe;
    uint32_t slot; /* index of the queue in the context's lists */
    uint64_t base, end;
    uint32_t ahead; /* Blocks reserved before and not yet published: see weft_dev_gda_publish(). */
    uint32_t fillers; /* Blocks that begin no message: see weft_dev_gda_publish_filled(). */
};

static struct weft_dev_gda_queue *host_queue_to(const struct gda *gda, int pe, uint32_t adapter)
{
    if (unlikely(gda_is_dc_peer(gda, pe)))
        return &gda_initiator_to(gda, adapter, pe)->q;
    return &gda->queues[gda_queue_index(gda, pe, gda->queues_per_pe + adapter)];
}

/* Returns the first NIC from `first` on whose queue to the PE works; if there is none, `first`. */
static uint32_t working_adapter(const struct gda *gda, int pe, uint32_t first)
{
    if (likely(!__atomic_load_n(&gda->some_failed, __ATOMIC_RELAXED)))
        return first;
    uint32_t other = gda_working_adapter(gda, pe, first);
    return other < gda->count ? other : first;
}

/* Returns the NIC for operations that any NIC could carry. It depends only on the two PEs, and on
 * what has failed. */
static uint32_t default_adapter(const struct gda *gda, int pe)
{
    return working_adapter(gda, pe, (uint32_t)(gda->world->pe + pe) % gda->count);
}

static uint32_t adapter_of_word(const struct gda *gda, struct remote at)
{
    return gda_adapter_of_word(gda, gda_address_of(gda, at));
}

/* The same for a DC peer. The caller holds the queue's lock until publish_span(). */
static weft_status reserve_dc_span(struct gda_state *state, const struct peer *peer,
                                   uint32_t adapter, uint32_t blocks, struct span *span)
{
    struct gda_initiator *initiator = gda_initiator_to(state->gda, adapter, peer->pe);
    weft_status status = gda_await_dc_peer(state->gda, peer->pe);
    *span = (struct span){.q = &initiator->q,
                          .ring = &initiator->scratch,
                          .dc = true,
                          .pe = peer->pe,
                          .slot = (uint32_t)peer->pe * state->gda->count + adapter};
    if (!status)
        status = gda_dc_reserve(state->gda, adapter, peer->pe, &span->base);
    span->end = span->base + blocks;
    return status;
}

/* Reserves blocks of the host queue to the peer through that NIC, and waits until the ring has
 * space. The returned word `turns` holds two 32-bit counts: blocks reserved and blocks published
 * before this call (gda_queue.h). */
static weft_status reserve_span(struct gda_state *state, const struct peer *peer, uint32_t adapter,
                                uint32_t blocks, struct span *span)
{
    weft_status status = WEFT_OK;
    if (unlikely(gda_link_of(state->gda, peer->pe) != GDA_LINK_UP)) {
        if (gda_is_dc_peer(state->gda, peer->pe))
            return reserve_dc_span(state, peer, adapter, blocks, span);
        status = gda_await_link(state->gda, peer->pe);
    }
    if (unlikely(status))
        return status;
    struct weft_dev_gda_queue *q =
        &state->gda
             ->queues[gda_queue_index(state->gda, peer->pe, state->gda->queues_per_pe + adapter)];
    uint64_t turns = weft_dev_gda_reserve(q, blocks);
    /* Acquire: pairs with weft_dev_gda_note(); the NIC has read the blocks that are reused. */
    uint64_t done = __atomic_load_n(&q->done, __ATOMIC_ACQUIRE);
    *span = (struct span){.q = q,
                          .ring = &q->ring,
                          .pe = peer->pe,
                          .slot = (uint32_t)peer->pe * state->gda->count + adapter,
                          .base = weft_dev_gda_whole(done, (uint32_t)(turns >> 32)),
                          .ahead = weft_dev_gda_ahead(turns)};
    span->end = span->base + blocks;
    if (likely(weft_dev_gda_room_late(q, done, (uint32_t)span->end)))
        return WEFT_OK;
    status = gda_await(state->gda, q, peer->pe, weft_dev_gda_needed(q, span->end), BOX_OP_PUT);
    /* The reserved blocks stay empty, so no later request of the queue can be published. */
    if (status)
        weft_dev_gda_abandon(q);
    return status;
}

static void publish_span(struct gda_state *state, struct span *span)
{
    if (unlikely(span->dc))
        span->end = gda_dc_publish(state->gda, span->slot % state->gda->count, span->pe);
    else if (span->fillers)
        weft_dev_gda_publish_filled(span->q, span->base, span->end, span->ahead, span->fillers);
    else
        weft_dev_gda_publish(span->q, &span->q->ring, span->base, span->end, span->ahead);
    weft_dev_atomic_max_u64(&state->last[span->slot], span->end, WEFT_ORDER_RELAXED,
                            WEFT_SCOPE_SYS);
    uint64_t bit = (uint64_t)1 << span->slot % 64, *word = &state->used[span->slot / 64];
    if (unlikely(!(__atomic_load_n(word, __ATOMIC_RELAXED) & bit)))
        __atomic_fetch_or(word, bit, __ATOMIC_RELAXED);
}

/* Fills the reserved blocks with NOPs, so that later requests of the queue can be published. */
static void publish_nops(struct gda_state *state, struct span *span)
{
    for (uint64_t at = span->base; at < span->end; at++)
        weft_dev_gda_nop(span->ring, at, at + 1 == span->end ? WEFT_DEV_GDA_SIGNALED : 0);
    span->fillers = (uint32_t)(span->end - span->base);
    publish_span(state, span);
}

/* ----------------------------------------------------------------------------------------- WQEs */

/* Posts one inline write. The caller may reuse the source on return. */
static weft_status post_inline_write(struct gda_state *state, uint32_t adapter, struct remote to,
                                     const void *src, size_t bytes)
{
    struct span span;
    uint32_t blocks = weft_dev_gda_inline_blocks((uint32_t)bytes);
    size_t whole = bytes, at = WEFT_DEV_GDA_INLINE_AT, n;
    weft_status status = reserve_span(state, to.peer, adapter, blocks > 1 ? blocks + 1 : 1, &span);
    if (status)
        return status;
    const struct weft_dev_gda_ring *ring = span.ring;
    weft_dev_gda_inline_head(ring, span.base, gda_resolve_remote(state->gda, adapter, to, &whole),
                             (uint32_t)bytes, blocks > 1 ? 0 : WEFT_DEV_GDA_SIGNALED);
    for (const char *from = src; bytes; bytes -= n, from += n, at += n) {
        /* The ring may wrap around after any block. */
        n = WEFT_DEV_GDA_BLOCK - at % WEFT_DEV_GDA_BLOCK;
        n = bytes < n ? bytes : n;
        memcpy(weft_dev_gda_at(ring, span.base, at), from, n);
    }
    if (blocks > 1) {
        weft_dev_gda_nop(ring, span.end - 1, WEFT_DEV_GDA_SIGNALED);
        span.fillers = blocks;
    }
    publish_span(state, &span);
    return WEFT_OK;
}

/* Posts one RDMA read or write of registered memory. *end receives the block count at which it is
 * complete. A write uses the relaxed-ordering key if the memory has one. */
static weft_status post_move(struct gda_state *state, uint32_t adapter, struct remote at,
                             uint32_t opcode, struct weft_dev_gda_place remote_at,
                             struct weft_dev_gda_place local_at, size_t bytes, uint64_t *end)
{
    struct span span;
    bool open = false;
    weft_status status = reserve_span(state, at.peer, adapter, 1, &span);
    if (status)
        return status;
    /* A flush of a DC queue would serve one of its PEs only: its data have strict order. */
    if (opcode == WEFT_DEV_GDA_WRITE && likely(!span.dc))
        remote_at.key = gda_data_key(state->gda, adapter, at, &open);
    if (open)
        weft_dev_gda_leave_open(span.q, span.end);
    weft_dev_gda_move(span.ring, span.base, opcode, remote_at, local_at, (uint32_t)bytes,
                      WEFT_DEV_GDA_SIGNALED);
    publish_span(state, &span);
    *end = span.end;
    return WEFT_OK;
}

static bool is_device_memory(const struct path_world *world, const void *local)
{
    return unlikely(world->gpu != NULL) && gpu_place_of(world->gpu, local) == GPU_PLACE_DEVICE;
}

static weft_status copy_local(const struct path_world *world, void *to, const void *from,
                              size_t bytes)
{
    if (is_device_memory(world, to) || is_device_memory(world, from))
        return gpu_copy(world->gpu, GDA_COPY_STREAM, to, from, bytes, GPU_DONE);
    memcpy(to, from, bytes);
    return WEFT_OK;
}

/* --------------------------------------------- bounce buffers for memory that is not registered */

/* Returns the next bounce buffer, after its last transfer is complete. The caller holds the
 * lock. */
static weft_status reserve_bounce(struct gda *gda, int pe, uint32_t *number)
{
    *number = gda->next_bounce++ % GDA_BOUNCES;
    const struct gda_bounce *bounce = &gda->bounces[*number];
    return bounce->q ? gda_await(gda, bounce->q, pe, bounce->end, BOX_OP_PUT) : WEFT_OK;
}

static struct weft_dev_gda_place resolve_bounce(const struct gda *gda, uint32_t adapter,
                                                uint32_t number)
{
    return (struct weft_dev_gda_place){(uintptr_t)gda->bounce + (size_t)number * GDA_BOUNCE_BYTES,
                                       htobe32(gda->bounce_regions[adapter]->lkey)};
}

/* Puts or gets up to GDA_BOUNCE_BYTES through a bounce buffer. On return a put's source may be
 * reused, and a get's data are in place. */
static weft_status copy_through_bounce_locked(struct gda_state *state, uint32_t adapter,
                                              struct remote at, void *local, size_t bytes,
                                              bool is_put)
{
    struct gda *gda = state->gda;
    struct weft_dev_gda_queue *q = host_queue_to(gda, at.peer->pe, adapter);
    size_t whole = bytes;
    uint32_t number;
    uint64_t end = 0;
    weft_status status = reserve_bounce(gda, at.peer->pe, &number);
    if (status)
        return status;
    struct weft_dev_gda_place local_at = resolve_bounce(gda, adapter, number);
    char *fragment = gda->bounce + (size_t)number * GDA_BOUNCE_BYTES;
    if (is_put)
        status = copy_local(gda->world, fragment, local, bytes);
    if (!status)
        status = post_move(state, adapter, at, is_put ? WEFT_DEV_GDA_WRITE : WEFT_DEV_GDA_READ,
                           gda_resolve_remote(gda, adapter, at, &whole), local_at, bytes, &end);
    if (status)
        return status;
    gda->bounces[number] = (struct gda_bounce){q, end};
    if (is_put)
        return WEFT_OK;
    status = gda_await(gda, q, at.peer->pe, end, BOX_OP_GET);
    return status ? status : copy_local(gda->world, local, fragment, bytes);
}

static weft_status copy_through_bounce(struct gda_state *state, uint32_t adapter, struct remote at,
                                       void *local, size_t bytes, bool is_put)
{
    pthread_mutex_lock(&state->gda->lock);
    weft_status status = copy_through_bounce_locked(state, adapter, at, local, bytes, is_put);
    pthread_mutex_unlock(&state->gda->lock);
    return status;
}

/* ---------------------------------------------------------------------------------- put and get */

/* *end receives the block count at which the source of the RDMA writes may be reused. It is
 * unchanged if all data were copied. */
static weft_status put_registered(struct gda_state *state, uint32_t adapter, struct remote to,
                                  const char *src, size_t bytes, uint64_t *end)
{
    weft_status status = WEFT_OK;
    for (size_t fragment; bytes && !status;
         to.offset += fragment, src += fragment, bytes -= fragment) {
        fragment = bytes < WQE_BYTES_MOST ? bytes : WQE_BYTES_MOST;
        struct weft_dev_gda_place remote_at =
                                      gda_resolve_remote(state->gda, adapter, to, &fragment),
                                  local_at;
        if (bytes <= INLINE_BYTES_MOST && !is_device_memory(state->gda->world, src)) {
            status = post_inline_write(state, adapter, to, src, fragment);
        } else if (gda_resolve_local(state->gda, adapter, src, &fragment, &local_at)) {
            status = post_move(state, adapter, to, WEFT_DEV_GDA_WRITE, remote_at, local_at,
                               fragment, end);
        } else {
            fragment = fragment < GDA_BOUNCE_BYTES ? fragment : GDA_BOUNCE_BYTES;
            status =
                copy_through_bounce(state, adapter, to, (void *)(uintptr_t)src, fragment, true);
        }
    }
    return status;
}

static weft_status get_registered(struct gda_state *state, uint32_t adapter, struct remote from,
                                  char *dst, size_t bytes, uint64_t *end)
{
    weft_status status = WEFT_OK;
    for (size_t fragment; bytes && !status;
         from.offset += fragment, dst += fragment, bytes -= fragment) {
        fragment = bytes < WQE_BYTES_MOST ? bytes : WQE_BYTES_MOST;
        struct weft_dev_gda_place remote_at =
                                      gda_resolve_remote(state->gda, adapter, from, &fragment),
                                  local_at;
        if (gda_resolve_local(state->gda, adapter, dst, &fragment, &local_at)) {
            status = post_move(state, adapter, from, WEFT_DEV_GDA_READ, remote_at, local_at,
                               fragment, end);
        } else {
            fragment = fragment < GDA_BOUNCE_BYTES ? fragment : GDA_BOUNCE_BYTES;
            status = copy_through_bounce(state, adapter, from, dst, fragment, false);
        }
    }
    return status;
}

/* Transfers through one NIC, or splits large data over all NICs. ends[a] receives the block count
 * at which NIC a's part is complete. */
static weft_status transfer_by_adapters(struct gda_state *state, struct remote at, char *local,
                                        size_t bytes, bool is_put, uint64_t *ends)
{
    const struct gda *gda = state->gda;
    uint32_t first = default_adapter(gda, at.peer->pe),
             parts = bytes / SPLIT_BYTES_LEAST < gda->count ? 1 : gda->count;
    size_t part = (bytes / parts + GDA_PAGE - 1) / GDA_PAGE * GDA_PAGE;
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < parts && !status;
         i++, at.offset += part, local += part, bytes -= part) {
        uint32_t adapter = working_adapter(gda, at.peer->pe, (first + i) % gda->count);
        part = i + 1 == parts ? bytes : part;
        status = is_put ? put_registered(state, adapter, at, local, part, &ends[adapter])
                        : get_registered(state, adapter, at, local, part, &ends[adapter]);
    }
    return status;
}

static weft_status await_queue(struct gda_state *state, const struct peer *peer, uint32_t adapter,
                               uint64_t end, enum box_operation operation)
{
    return end ? gda_await(state->gda, host_queue_to(state->gda, peer->pe, adapter), peer->pe, end,
                           operation)
               : WEFT_OK;
}

static weft_status await_queues(struct gda_state *state, const struct peer *peer,
                                const uint64_t *ends, enum box_operation operation)
{
    weft_status status = WEFT_OK;
    for (uint32_t a = 0; a < state->gda->count && !status; a++)
        status = await_queue(state, peer, a, ends[a], operation);
    return status;
}

/* Makes the data of a get visible if they are in GPU memory. A blocking get is complete and is
 * flushed here. A nonblocking get is flushed by quiet. */
static weft_status flush_get(struct gda_state *state, const void *dst, bool nbi)
{
    if (likely(!is_device_memory(state->gda->world, dst)))
        return WEFT_OK;
    if (!nbi)
        return gda_flush_gpu_writes(state->gda);
    epoch_give(&state->reads);
    return WEFT_OK;
}

static weft_status gda_put(struct remote to, const void *src, size_t bytes, bool nbi)
{
    uint64_t ends[GDA_ADAPTERS_MOST] = {0};
    weft_status status =
        transfer_by_adapters(gda_state_of(to.peer), to, (char *)(uintptr_t)src, bytes, true, ends);
    return status || nbi ? status : await_queues(gda_state_of(to.peer), to.peer, ends, BOX_OP_PUT);
}

static weft_status gda_get(struct remote from, void *dst, size_t bytes, bool nbi)
{
    uint64_t ends[GDA_ADAPTERS_MOST] = {0};
    weft_status status =
        transfer_by_adapters(gda_state_of(from.peer), from, dst, bytes, false, ends);
    if (!status && !nbi)
        status = await_queues(gda_state_of(from.peer), from.peer, ends, BOX_OP_GET);
    return status ? status : flush_get(gda_state_of(from.peer), dst, nbi);
}

static weft_status gda_store(struct remote to, const void *value, size_t width)
{
    struct gda_state *state = gda_state_of(to.peer);
    return post_inline_write(state, default_adapter(state->gda, to.peer->pe), to, value, width);
}

static weft_status gda_iput(struct remote to, const void *src, const struct path_strides *s)
{
    struct gda_state *state = gda_state_of(to.peer);
    const char *from = src;
    uint32_t adapter = default_adapter(state->gda, to.peer->pe);
    uint64_t end = 0;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < s->n && !status; i++, to.offset += s->remote_step)
        status = put_registered(state, adapter, to, from + i * s->local_step, s->element, &end);
    return status ? status : await_queue(state, to.peer, adapter, end, BOX_OP_PUT);
}

static weft_status gda_iget(struct remote from, void *dst, const struct path_strides *s)
{
    struct gda_state *state = gda_state_of(from.peer);
    char *to = dst;
    uint32_t adapter = default_adapter(state->gda, from.peer->pe);
    uint64_t end = 0;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < s->n && !status; i++, from.offset += s->remote_step)
        status = get_registered(state, adapter, from, to + i * s->local_step, s->element, &end);
    if (!status)
        status = await_queue(state, from.peer, adapter, end, BOX_OP_GET);
    return status ? status : flush_get(state, dst, false);
}

/* -------------------------------------------------------- results of loads and fetching atomics */

/* Waits until the result slot of a block is free and reserves it. On failure it fills the span with
 * NOPs. */
static weft_status reserve_result(struct gda_state *state, struct span *span, uint64_t index)
{
    struct path_wait wait = {
        .world = state->gda->world, .operation = BOX_OP_GET, .pe = span->pe, .expected = 1};
    weft_status status = WEFT_OK;
    while (!weft_dev_gda_result_free(span->q, index) && !status)
        status = path_wait_step(&wait, 0);
    path_wait_end(&wait);
    if (status)
        publish_nops(state, span);
    else
        weft_dev_gda_result_take(span->q, index);
    return status;
}

/* Publishes the span, waits until it is complete and reads its result. */
static weft_status fetch_result(struct gda_state *state, struct span *span, size_t width,
                                bool atomic, uint64_t *value)
{
    publish_span(state, span);
    weft_status status =
        gda_await(state->gda, span->q, span->pe, span->end, atomic ? BOX_OP_ATOMIC : BOX_OP_GET);
    if (!status)
        *value = weft_dev_gda_result_value(span->q, span->base, (unsigned)width, atomic);
    weft_dev_gda_result_read(span->q, span->base);
    return status;
}

static weft_status gda_load(struct remote from, void *value, size_t width)
{
    struct gda_state *state = gda_state_of(from.peer);
    struct span span;
    size_t whole = width;
    uint64_t result = 0;
    uint32_t adapter = default_adapter(state->gda, from.peer->pe);
    weft_status status = reserve_span(state, from.peer, adapter, 1, &span);
    if (!status)
        status = reserve_result(state, &span, span.base);
    if (status)
        return status;
    weft_dev_gda_move(span.ring, span.base, WEFT_DEV_GDA_READ,
                      gda_resolve_remote(state->gda, adapter, from, &whole),
                      weft_dev_gda_result(span.q, span.base), (uint32_t)width,
                      WEFT_DEV_GDA_SIGNALED);
    status = fetch_result(state, &span, width, false, &result);
    memcpy(value, &result, width);
    return status;
}

/* ----------------------------------------------------------------------------- atomics, signals */

static int amo_opcode(weft_amo amo)
{
    switch (amo) {
    case WEFT_AMO_AND:
    case WEFT_AMO_FETCH_AND:
        return WEFT_DEV_GDA_AND;
    case WEFT_AMO_OR:
    case WEFT_AMO_FETCH_OR:
        return WEFT_DEV_GDA_OR;
    case WEFT_AMO_XOR:
    case WEFT_AMO_FETCH_XOR:
        return WEFT_DEV_GDA_XOR;
    case WEFT_AMO_SET:
    case WEFT_AMO_SWAP:
        return WEFT_DEV_GDA_SWAP;
    case WEFT_AMO_CSWAP:
        return WEFT_DEV_GDA_CSWAP;
    default: /* A fetch is an add of 0 */
        return WEFT_DEV_GDA_ADD;
    }
}

/* A signal set is one strictly ordered inline write, a signal add is one atomic. Neither passes an
 * earlier request of its queue, even if the network may deliver packets out of order. flags: of the
 * request, besides those. */
static weft_status post_signal(struct gda_state *state, uint32_t adapter, struct remote at,
                               uint64_t value, weft_signal_op op, uint32_t flags)
{
    struct span span;
    size_t whole = sizeof value;
    flags |= gda_order_flags(state->gda);
    weft_status status = reserve_span(state, at.peer, adapter, 1, &span);
    if (status)
        return status;
    const struct weft_dev_gda_ring *ring = span.ring;
    struct weft_dev_gda_place remote_at = gda_resolve_remote(state->gda, adapter, at, &whole);
    if (op == WEFT_SIGNAL_SET)
        weft_dev_gda_value(ring, span.base, remote_at, value, sizeof value, flags);
    else
        weft_dev_gda_atomic8(ring, span.base, WEFT_DEV_GDA_ADD, remote_at,
                             weft_dev_gda_sink(span.q), value, 0, WEFT_DEV_GDA_SIGNALED | flags);
    publish_span(state, &span);
    return WEFT_OK;
}

static weft_status gda_atomic(struct remote at, weft_amo amo, size_t width, uint64_t value,
                              uint64_t expected, void *fetched, bool nbi)
{
    struct gda_state *state = gda_state_of(at.peer);
    struct span span;
    size_t whole = width;
    uint64_t before = 0;
    uint32_t adapter = adapter_of_word(state->gda, at);
    /* Signals that are set. Other atomics take the spare path. */
    if (state->gda->adapters->no_atomics && amo == WEFT_AMO_SET && width == sizeof value)
        return post_signal(state, adapter, at, value, WEFT_SIGNAL_SET, 0);
    uint32_t blocks = weft_dev_gda_atomic_blocks(amo_opcode(amo), (unsigned)width);
    uint32_t flags = blocks > 1 ? 0 : WEFT_DEV_GDA_SIGNALED;
    weft_status status = reserve_span(state, at.peer, adapter, blocks > 1 ? blocks + 1 : 1, &span);
    (void)nbi;
    if (!status && fetched)
        status = reserve_result(state, &span, span.base);
    if (status)
        return status;
    const struct weft_dev_gda_ring *ring = span.ring;
    struct weft_dev_gda_place remote_at = gda_resolve_remote(state->gda, adapter, at, &whole);
    struct weft_dev_gda_place to =
        fetched ? weft_dev_gda_result(span.q, span.base) : weft_dev_gda_sink(span.q);
    value = amo == WEFT_AMO_FETCH ? 0 : value;
    if (width == 4)
        weft_dev_gda_atomic4(ring, span.base, amo_opcode(amo), remote_at, to, (uint32_t)value,
                             (uint32_t)expected, flags);
    else
        weft_dev_gda_atomic8(ring, span.base, amo_opcode(amo), remote_at, to, value, expected,
                             flags);
    if (blocks > 1) {
        weft_dev_gda_nop(ring, span.end - 1, WEFT_DEV_GDA_SIGNALED);
        span.fillers = blocks;
    }
    if (!fetched) {
        publish_span(state, &span);
        /* The peer's data take another path, with which this one has no order. */
        return at.peer->path != PATH_GDA
                   ? gda_await(state->gda, span.q, span.pe, span.end, BOX_OP_ATOMIC)
                   : WEFT_OK;
    }
    status = fetch_result(state, &span, width, true, &before);
    return status ? status : copy_local(state->gda->world, fetched, &before, width);
}

/* Posts a read of the last bytes of what has been put to `to`. When it is complete, all of it is in
 * the peer's memory. */
static weft_status post_read_back(struct gda_state *state, uint32_t adapter, struct remote to,
                                  size_t bytes)
{
    struct span span;
    size_t last = bytes < sizeof(uint64_t) ? bytes : sizeof(uint64_t);
    to.offset += bytes - last;
    weft_status status = reserve_span(state, to.peer, adapter, 1, &span);
    if (status)
        return status;
    const struct weft_dev_gda_place from = gda_resolve_remote(state->gda, adapter, to, &last);
    weft_dev_gda_move(span.ring, span.base, WEFT_DEV_GDA_READ, from, weft_dev_gda_sink(span.q),
                      (uint32_t)last, WEFT_DEV_GDA_SIGNALED);
    publish_span(state, &span);
    return WEFT_OK;
}

static weft_status gda_put_signal(struct remote to, const void *src, size_t bytes, struct remote at,
                                  uint64_t value, weft_signal_op op, bool nbi)
{
    struct gda_state *state = gda_state_of(to.peer);
    /* The data use the same queue as the signal, because they must arrive before it. */
    uint32_t adapter = adapter_of_word(state->gda, at);
    uint64_t end = 0;
    weft_status status = put_registered(state, adapter, to, src, bytes, &end);
    /* PCI Express keeps no order between writes of the peer's NIC into memory of a GPU and of the
     * host. The signal waits in the NIC here until the end of the data has been read back. */
    const bool apart = (to.segment == SEG_GPU) != (at.segment == SEG_GPU) && bytes;
    if (!status && apart)
        status = post_read_back(state, adapter, to, bytes);
    if (!status)
        status = post_signal(state, adapter, at, value, op, apart ? WEFT_DEV_GDA_FENCED : 0);
    return status || nbi ? status : await_queue(state, to.peer, adapter, end, BOX_OP_PUT);
}

/* ----------------------------------------------------------------------------------- completion */

static uint32_t count_slots(const struct gda *gda)
{
    return (uint32_t)gda->world->npes * gda->count;
}

/* Calls `what` for every queue that the context has used. */
static weft_status for_each_used_queue(struct gda_state *state,
                                       weft_status (*what)(struct gda_state *state, uint32_t slot))
{
    weft_status status = WEFT_OK;
    for (uint32_t word = 0; word <= count_slots(state->gda) / 64; word++) {
        uint64_t left = __atomic_load_n(&state->used[word], __ATOMIC_RELAXED);
        for (; left && !status; left &= left - 1)
            status = what(state, word * 64 + (uint32_t)__builtin_ctzll(left));
    }
    return status;
}

/* Posts the flush that a queue needs. The flushes of all queues then run at the same time. */
static weft_status flush_slot(struct gda_state *state, uint32_t slot)
{
    const struct gda *gda = state->gda;
    uint64_t end;
    int pe = (int)(slot / gda->count);
    struct weft_dev_gda_queue *q = host_queue_to(gda, pe, slot % gda->count);
    return weft_dev_gda_is_open(q) ? gda_flush_queue(gda, q, pe, slot % gda->count, &end) : WEFT_OK;
}

/* Waits until all requests of one queue are complete. A queue with none outstanding costs three
 * loads. */
static weft_status await_slot(struct gda_state *state, uint32_t slot)
{
    const struct gda *gda = state->gda;
    int pe = (int)(slot / gda->count);
    struct weft_dev_gda_queue *q = host_queue_to(gda, pe, slot % gda->count);
    uint64_t last = __atomic_load_n(&state->last[slot], __ATOMIC_RELAXED);
    uint64_t given = __atomic_load_n(&q->flushing, __ATOMIC_RELAXED);
    last = last > given ? last : given;
    weft_status status = weft_dev_gda_reached(q, last) && likely(!gda->dc_lost)
                             ? WEFT_OK
                             : gda_await(gda, q, pe, last, BOX_OP_QUIET);
    if (!status)
        weft_dev_gda_flush_done(q, given);
    return status;
}

static bool has_relaxed(const struct gda *gda)
{
    return gda->relaxed || (gda->gpu && gda->gpu->relaxed);
}

static weft_status gda_quiet(struct path_state *opaque)
{
    struct gda_state *state = (struct gda_state *)(void *)opaque;
    struct gda *gda = state->gda;
    /* Gets posted before this point. They are flushed after the queues are complete. */
    uint64_t reads;
    bool flushes = epoch_is_open(&state->reads, &reads);
    weft_status status = has_relaxed(gda) ? for_each_used_queue(state, flush_slot) : WEFT_OK;
    if (!status)
        status = for_each_used_queue(state, await_slot);
    if (flushes && !status)
        status = gda_flush_gpu_writes(gda);
    if (flushes && !status)
        epoch_close(&state->reads, reads);
    return status;
}

/* The arrays of struct gda, struct gda_failover and the contexts that are allocated when the job
 * begins. The failover thread has a context, too. Tables of GPUs and of simt come in addition.
 * In jobs of more than 1000 PEs it is less, with one queue to each. */
size_t gda_peer_bytes(int nics, int contexts)
{
    const struct gda *gda = NULL;
    const struct gda_failover *f = NULL;
    const struct gda_state *state = NULL;
    const size_t count = (size_t)nics, each = gda_queues_each((uint32_t)nics, 1);
    size_t links = sizeof *gda->links + sizeof *gda->wanted + sizeof *gda->device_queues +
                   sizeof *gda->seeds + SEG_COUNT * sizeof *gda->bases;
    size_t keys = SEG_COUNT * sizeof *gda->remote_keys + sizeof *gda->addresses;
    size_t states = (2 * each + count) * sizeof *f->states, bits = (each + 7) / 8;
    size_t context = count * sizeof *state->last + (count + 7) / 8;
    return links + count * keys + states + bits + (size_t)(contexts + 1) * context +
           PATH_WORDS_BYTES;
}

static void gda_forget(struct path_state *opaque, int pe)
{
    struct gda_state *state = (struct gda_state *)(void *)opaque;
    for (uint32_t a = 0; a < state->gda->count; a++) {
        uint32_t slot = (uint32_t)pe * state->gda->count + a;
        __atomic_fetch_and(&state->used[slot / 64], ~((uint64_t)1 << slot % 64), __ATOMIC_RELAXED);
    }
}

static weft_status gda_fence(struct path_state *opaque)
{
    const struct gda_state *state = (const struct gda_state *)(const void *)opaque;
    const struct gda *gda = state->gda;
    return gda->adapters->no_atomics || has_relaxed(gda) || gda->count > 1 ? gda_quiet(opaque)
                                                                           : WEFT_OK;
}

/* --------------------------------------------------------------- contexts, and the path's table */

static void close_state(struct path_state *opaque)
{
    struct gda_state *state = (struct gda_state *)(void *)opaque;
    free(state->last);
    free(state->used);
    free(state);
}

static weft_status open_state(const struct path_world *world, struct path_state **result)
{
    struct gda_state *state = calloc(1, sizeof *state);
    if (state) {
        state->gda = gda_of(world);
        state->last = calloc(count_slots(state->gda), sizeof *state->last);
        state->used = calloc(count_slots(state->gda) / 64 + 1, sizeof *state->used);
    }
    if (!state || !state->last || !state->used) {
        if (state)
            close_state((struct path_state *)(void *)state);
        return base_fail(WEFT_ERR_NO_MEMORY, "path gda: no private memory for a context");
    }
    *result = (struct path_state *)(void *)state;
    return WEFT_OK;
}

/* An adapter answers in microseconds, one in software on a busy machine in milliseconds. The NIC
 * itself gives up after 30 s. */
#define TEST_LIMIT_NS ((uint64_t)10 * 1000 * 1000 * 1000)

static const char *find_obstacle(const struct path_facts *facts)
{
    return facts->same_pe ? "the same PE" : NULL;
}

static unsigned device_carrier(const struct path_common *common, bool cuda, int pe)
{
    struct gda *gda = (struct gda *)(uintptr_t)(const void *)common;
    bool can = !cuda || (gda && gda->cuda);
    if (!can || config_choice(CONFIG_TEST_GDA_INITIATOR))
        return 0;
    if (!gda || pe < 0 || !gda_is_dc_peer(gda, pe))
        return WEFT_DEV_CARRIER_GDA;
    return gda_dc_has_device(gda, cuda) ? WEFT_DEV_CARRIER_DC : 0;
}

static weft_status find_adapters(const struct path_world *world, struct path_found *found)
{
    struct gda_adapters *adapters = NULL;
    weft_status status = gda_find_adapters(world, &adapters, found->lacks, sizeof found->lacks,
                                           found->has, sizeof found->has);
    found->probe_result = adapters;
    found->drop = gda_drop_adapters;
    for (uint32_t a = 0; adapters && a < adapters->count; a++)
        if (adapters->one[a].mbps > found->mbps)
            found->mbps = adapters->one[a].mbps;
    /* No adapter is known to be atomic with a GPU. */
    found->no_atomics = adapters && adapters->no_atomics;
    found->exclusive_atomics[WEFT_HOST] =
        adapters && !adapters->no_atomics && !adapters->atomics_with_cpu;
    found->exclusive_atomics[WEFT_GPU] = adapters && !adapters->no_atomics;
    return status;
}

static weft_status create_common(const struct path_world *world, struct path_common **common)
{
    struct path_found *found = world->found[PATH_GDA];
    struct gda_adapters *adapters = found->probe_result;
    struct gda *gda = NULL;
    found->probe_result = NULL;
    weft_status status = gda_create(world, adapters, &gda);
    *common = (struct path_common *)(void *)gda;
    return status;
}

static void destroy_common(struct path_common *common)
{
    gda_destroy((struct gda *)(void *)common);
}

const struct path_ops path_gda = {
    .name = "gda",
    .why = "an adapter that device code can give requests to",
    .automatic = true,
    .obstacle = find_obstacle,
    .probe = find_adapters,
    .join = create_common,
    .leave = destroy_common,
    .refine = gda_refine,
    .gpu_memory = gda_gpu_memory,
    .open = open_state,
    .close = close_state,
    .transport = device_carrier,
    .device = gda_write_device_table,
    .name_queue = gda_name_queue,
    .complete_device = gda_drain_device,
    .share_queues = gda_share_queues,
    .put = gda_put,
    .get = gda_get,
    .iput = gda_iput,
    .iget = gda_iget,
    .store = gda_store,
    .load = gda_load,
    .atomic = gda_atomic,
    .put_signal = gda_put_signal,
    .fence = gda_fence,
    .quiet = gda_quiet,
    .forget = gda_forget,
    .spare = PATH_NET,
    .begin = gda_begin,
    .peer_bytes = gda_peer_bytes,
    .untested = gda_untested,
    .test_limit_ns = TEST_LIMIT_NS,
};
