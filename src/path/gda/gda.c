/* SPDX-License-Identifier: Apache-2.0 */
/* Path `gda`: the host's operations as requests that the calling thread gives to the adapter
 * itself. One put, followed: put() finds the source's key and the destination's, begin() reserves
 * blocks of the queue to that PE by an adapter, weft_dev_gda_move() stores the request (gda_wqe.h),
 * weft_dev_gda_publish() rings the doorbell (gda_queue.h), and gda_await() sees the completion.
 * Device code does the same by itself (gda.h of weft/device). What comes to this PE its adapter
 * carries out; no thread here has a part in it. */
#include "path/gda/gda.h"

#include "base/config.h"
#include "base/epoch.h"
#include "base/status.h"
#include "gpu/gpu.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

enum {
    SMALL_BYTES = 2 * WEFT_DEV_GDA_BLOCK - WEFT_DEV_GDA_INLINE_AT, /* copied into the request */
    MOST_BYTES = 1 << 30,                                          /* of one request */
    PART_BYTES = 64 << 10, /* and at least so much by each of several adapters */
    GDA_LANE = 3           /* any: contexts are dealt out over all of them */
};

/* A context: how far it has used the host's queues to each PE. One queue carries in order what it
 * is given, so a fence has nothing to do but where there are several adapters, or data in relaxed
 * order. */
struct path_state {
    struct gda *gda;
    uint64_t *last;     /* [npes * count] complete when so much of the queue is */
    uint64_t *used;     /* bit per queue that it has ever used */
    struct epoch reads; /* gets into GPU memory that quiet has to flush */
};

static struct gda *gda_of(const struct path_world *world)
{
    return (struct gda *)(void *)world->common[PATH_GDA];
}

/* ---------------------------------------------------------------------------------------- spans */

struct span {
    struct weft_dev_gda_queue *q;
    int pe;
    uint32_t slot; /* of the queue in the context's lists */
    uint64_t base, end;
    uint32_t ahead; /* see weft_dev_gda_publish() */
};

static struct weft_dev_gda_queue *queue_to(const struct gda *gda, int pe, uint32_t adapter)
{
    return &gda->queues[gda_queue_number(gda, pe, gda->each + adapter)];
}

/* The adapter of what may go by any: the same for all that one PE has for another. */
static uint32_t home_of(const struct gda *gda, int pe)
{
    return (uint32_t)(gda->world->pe + pe) % gda->count;
}

static uint32_t queue_of_word(const struct gda *gda, struct remote at)
{
    return gda_adapter_of_word(gda, gda_address_of(gda, at));
}

/* Blocks of the queue to the peer by that adapter, with room for them. */
static weft_status begin_span(struct path_state *state, const struct peer *peer, uint32_t adapter,
                              uint32_t blocks, struct span *span)
{
    struct weft_dev_gda_queue *q = queue_to(state->gda, peer->pe, adapter);
    uint64_t turns = weft_dev_gda_reserve(q, blocks);
    uint64_t done = __atomic_load_n(&q->done, __ATOMIC_ACQUIRE);
    *span = (struct span){.q = q,
                          .pe = peer->pe,
                          .slot = (uint32_t)peer->pe * state->gda->count + adapter,
                          .base = weft_dev_gda_whole(done, (uint32_t)(turns >> 32)),
                          .ahead = weft_dev_gda_ahead(turns)};
    span->end = span->base + blocks;
    if (likely(weft_dev_gda_room_late(q, done, (uint32_t)span->end)))
        return WEFT_OK;
    weft_status status =
        gda_await(state->gda, q, peer->pe, weft_dev_gda_needed(q, span->end), BOX_OP_PUT);
    if (status) /* nothing gets past what was reserved here */
        weft_dev_gda_abandon(q);
    return status;
}

static void give(struct path_state *state, const struct span *span)
{
    weft_dev_gda_publish(span->q, &span->q->ring, span->base, span->end, span->ahead);
    weft_dev_atomic_max_u64(&state->last[span->slot], span->end, WEFT_ORDER_RELAXED,
                            WEFT_SCOPE_SYS);
    uint64_t bit = (uint64_t)1 << span->slot % 64, *word = &state->used[span->slot / 64];
    if (unlikely(!(__atomic_load_n(word, __ATOMIC_RELAXED) & bit)))
        __atomic_fetch_or(word, bit, __ATOMIC_RELAXED);
}

/* What was reserved, with nothing in it: the queue goes on behind it. */
static void give_nothing(struct path_state *state, const struct span *span)
{
    for (uint64_t at = span->base; at < span->end; at++)
        weft_dev_gda_nop(&span->q->ring, at, at + 1 == span->end ? WEFT_DEV_GDA_SIGNALED : 0);
    give(state, span);
}

/* ------------------------------------------------------------------------------------- requests */

/* One inline write; its source is free on return. */
static weft_status put_inline(struct path_state *state, uint32_t adapter, struct remote to,
                              const void *src, size_t bytes)
{
    struct span span;
    uint32_t blocks = weft_dev_gda_inline_blocks((uint32_t)bytes);
    size_t whole = bytes, at = WEFT_DEV_GDA_INLINE_AT, part;
    weft_status status = begin_span(state, to.peer, adapter, blocks > 1 ? blocks + 1 : 1, &span);
    if (status)
        return status;
    const struct weft_dev_gda_ring *ring = &span.q->ring;
    weft_dev_gda_inline_head(ring, span.base, gda_there(state->gda, adapter, to, &whole),
                             (uint32_t)bytes, blocks > 1 ? 0 : WEFT_DEV_GDA_SIGNALED);
    for (const char *from = src; bytes; bytes -= part, from += part, at += part) {
        part = WEFT_DEV_GDA_BLOCK - at % WEFT_DEV_GDA_BLOCK; /* the ring may end behind a block */
        part = bytes < part ? bytes : part;
        memcpy(weft_dev_gda_at(ring, span.base, at), from, part);
    }
    if (blocks > 1)
        weft_dev_gda_nop(ring, span.end - 1, WEFT_DEV_GDA_SIGNALED);
    give(state, &span);
    return WEFT_OK;
}

/* One request that moves registered memory in place. *end: when it is complete. A write is in
 * relaxed order where the memory has a key for that. */
static weft_status move(struct path_state *state, uint32_t adapter, struct remote at,
                        uint32_t opcode, struct weft_dev_gda_place there,
                        struct weft_dev_gda_place here, size_t bytes, uint64_t *end)
{
    struct span span;
    bool open = false;
    weft_status status = begin_span(state, at.peer, adapter, 1, &span);
    if (status)
        return status;
    if (opcode == WEFT_DEV_GDA_WRITE)
        there.key = gda_data_key(state->gda, adapter, at, &open);
    if (open)
        weft_dev_gda_leave_open(span.q, span.end);
    weft_dev_gda_move(&span.q->ring, span.base, opcode, there, here, (uint32_t)bytes,
                      WEFT_DEV_GDA_SIGNALED);
    give(state, &span);
    *end = span.end;
    return WEFT_OK;
}

static bool on_device(const struct path_world *world, const void *local)
{
    return unlikely(world->gpu != NULL) && gpu_place_of(world->gpu, local) == GPU_PLACE_DEVICE;
}

static weft_status copy(const struct path_world *world, void *to, const void *from, size_t bytes)
{
    if (on_device(world, to) || on_device(world, from))
        return gpu_copy(world->gpu, GDA_LANE, to, from, bytes, GPU_DONE);
    memcpy(to, from, bytes);
    return WEFT_OK;
}

/* ---------------------------------------------------------------- memory that is not registered */

/* A registered piece that nothing is on its way from. Lock held. */
static weft_status take_bounce(struct gda *gda, int pe, uint32_t *number)
{
    *number = gda->next_bounce++ % GDA_BOUNCES;
    const struct gda_bounce *bounce = &gda->bounces[*number];
    return bounce->q ? gda_await(gda, bounce->q, pe, bounce->end, BOX_OP_PUT) : WEFT_OK;
}

static struct weft_dev_gda_place bounce_place(const struct gda *gda, uint32_t adapter,
                                              uint32_t number)
{
    return (struct weft_dev_gda_place){(uintptr_t)gda->bounce + (size_t)number * GDA_BOUNCE_BYTES,
                                       htobe32(gda->bounce_regions[adapter]->lkey)};
}

/* Up to GDA_BOUNCE_BYTES of a put or get; a put's source is free on return, a get's data are
 * there. */
static weft_status bounce_locked(struct path_state *state, uint32_t adapter, struct remote at,
                                 void *local, size_t bytes, bool is_put)
{
    struct gda *gda = state->gda;
    struct weft_dev_gda_queue *q = queue_to(gda, at.peer->pe, adapter);
    size_t whole = bytes;
    uint32_t number;
    uint64_t end = 0;
    weft_status status = take_bounce(gda, at.peer->pe, &number);
    if (status)
        return status;
    struct weft_dev_gda_place here = bounce_place(gda, adapter, number);
    char *piece = gda->bounce + (size_t)number * GDA_BOUNCE_BYTES;
    if (is_put)
        status = copy(gda->world, piece, local, bytes);
    if (!status)
        status = move(state, adapter, at, is_put ? WEFT_DEV_GDA_WRITE : WEFT_DEV_GDA_READ,
                      gda_there(gda, adapter, at, &whole), here, bytes, &end);
    if (status)
        return status;
    gda->bounces[number] = (struct gda_bounce){q, end};
    if (is_put)
        return WEFT_OK;
    status = gda_await(gda, q, at.peer->pe, end, BOX_OP_GET);
    return status ? status : copy(gda->world, local, piece, bytes);
}

static weft_status bounce(struct path_state *state, uint32_t adapter, struct remote at, void *local,
                          size_t bytes, bool is_put)
{
    pthread_mutex_lock(&state->gda->lock);
    weft_status status = bounce_locked(state, adapter, at, local, bytes, is_put);
    pthread_mutex_unlock(&state->gda->lock);
    return status;
}

/* ---------------------------------------------------------------------------------- put and get */

/* *end: when the source of what moves in place is free; as it is where nothing does. */
static weft_status put_registered(struct path_state *state, uint32_t adapter, struct remote to,
                                  const char *src, size_t bytes, uint64_t *end)
{
    weft_status status = WEFT_OK;
    for (size_t piece; bytes && !status; to.offset += piece, src += piece, bytes -= piece) {
        piece = bytes < MOST_BYTES ? bytes : MOST_BYTES;
        struct weft_dev_gda_place there = gda_there(state->gda, adapter, to, &piece), here;
        if (bytes <= SMALL_BYTES && !on_device(state->gda->world, src)) {
            status = put_inline(state, adapter, to, src, piece);
        } else if (gda_here(state->gda, adapter, src, &piece, &here)) {
            status = move(state, adapter, to, WEFT_DEV_GDA_WRITE, there, here, piece, end);
        } else {
            piece = piece < GDA_BOUNCE_BYTES ? piece : GDA_BOUNCE_BYTES;
            status = bounce(state, adapter, to, (void *)(uintptr_t)src, piece, true);
        }
    }
    return status;
}

static weft_status get_registered(struct path_state *state, uint32_t adapter, struct remote from,
                                  char *dst, size_t bytes, uint64_t *end)
{
    weft_status status = WEFT_OK;
    for (size_t piece; bytes && !status; from.offset += piece, dst += piece, bytes -= piece) {
        piece = bytes < MOST_BYTES ? bytes : MOST_BYTES;
        struct weft_dev_gda_place there = gda_there(state->gda, adapter, from, &piece), here;
        if (gda_here(state->gda, adapter, dst, &piece, &here)) {
            status = move(state, adapter, from, WEFT_DEV_GDA_READ, there, here, piece, end);
        } else {
            piece = piece < GDA_BOUNCE_BYTES ? piece : GDA_BOUNCE_BYTES;
            status = bounce(state, adapter, from, dst, piece, false);
        }
    }
    return status;
}

/* By one adapter, or in as many parts as there are adapters; `ends`: of each. */
static weft_status transfer(struct path_state *state, struct remote at, char *local, size_t bytes,
                            bool is_put, uint64_t *ends)
{
    const struct gda *gda = state->gda;
    uint32_t home = home_of(gda, at.peer->pe),
             parts = bytes / PART_BYTES < gda->count ? 1 : gda->count;
    size_t part = (bytes / parts + GDA_PAGE - 1) / GDA_PAGE * GDA_PAGE;
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < parts && !status;
         i++, at.offset += part, local += part, bytes -= part) {
        uint32_t adapter = (home + i) % gda->count;
        part = i + 1 == parts ? bytes : part;
        status = is_put ? put_registered(state, adapter, at, local, part, &ends[adapter])
                        : get_registered(state, adapter, at, local, part, &ends[adapter]);
    }
    return status;
}

static weft_status settled(struct path_state *state, const struct peer *peer, uint32_t adapter,
                           uint64_t end, enum box_operation operation)
{
    return end ? gda_await(state->gda, queue_to(state->gda, peer->pe, adapter), peer->pe, end,
                           operation)
               : WEFT_OK;
}

static weft_status all_settled(struct path_state *state, const struct peer *peer,
                               const uint64_t *ends, enum box_operation operation)
{
    weft_status status = WEFT_OK;
    for (uint32_t a = 0; a < state->gda->count && !status; a++)
        status = settled(state, peer, a, ends[a], operation);
    return status;
}

/* Of a get that has been given: a blocking one, which is complete, is flushed here; another one by
 * quiet. */
static weft_status flush_read(struct path_state *state, const void *dst, bool nbi)
{
    if (likely(!on_device(state->gda->world, dst)))
        return WEFT_OK;
    if (!nbi)
        return gda_flush(state->gda);
    epoch_give(&state->reads);
    return WEFT_OK;
}

/* Own memory is reached by this path for the sake of atomics alone: the rest is copied. */
static char *own(const struct remote *at)
{
    const struct path_world *world = at->peer->world;
    if (at->peer->pe != world->pe)
        return NULL;
    char *base = at->segment == SEG_GPU ? (char *)(uintptr_t)gpu_heap_own(&world->gpu->heap)->base
                                        : world->map[world->pe][at->segment];
    return base + at->offset;
}

static weft_status gda_put(struct remote to, const void *src, size_t bytes, bool nbi)
{
    uint64_t ends[GDA_ADAPTERS_MOST] = {0};
    if (unlikely(own(&to) != NULL))
        return copy(to.peer->world, own(&to), src, bytes);
    weft_status status = transfer(to.peer->state, to, (char *)(uintptr_t)src, bytes, true, ends);
    return status || nbi ? status : all_settled(to.peer->state, to.peer, ends, BOX_OP_PUT);
}

static weft_status gda_get(struct remote from, void *dst, size_t bytes, bool nbi)
{
    uint64_t ends[GDA_ADAPTERS_MOST] = {0};
    if (unlikely(own(&from) != NULL))
        return copy(from.peer->world, dst, own(&from), bytes);
    weft_status status = transfer(from.peer->state, from, dst, bytes, false, ends);
    if (!status && !nbi)
        status = all_settled(from.peer->state, from.peer, ends, BOX_OP_GET);
    return status ? status : flush_read(from.peer->state, dst, nbi);
}

static weft_status gda_address(struct remote at, char **address)
{
    *address = own(&at);
    return *address
               ? WEFT_OK
               : base_fail(WEFT_ERR_NO_PATH,
                           "the memory of PE %d is reached over path gda, not by load and store",
                           at.peer->pe);
}

static weft_status gda_store(struct remote to, const void *value, size_t width)
{
    if (unlikely(own(&to) != NULL))
        return copy(to.peer->world, own(&to), value, width);
    struct path_state *state = to.peer->state;
    return put_inline(state, home_of(state->gda, to.peer->pe), to, value, width);
}

static weft_status gda_iput(struct remote to, const void *src, const struct path_strides *s)
{
    struct path_state *state = to.peer->state;
    const char *from = src;
    uint32_t home = home_of(state->gda, to.peer->pe);
    uint64_t end = 0;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < s->n && !status; i++, to.offset += s->remote_step)
        status = own(&to)
                     ? copy(to.peer->world, own(&to), from + i * s->local_step, s->element)
                     : put_registered(state, home, to, from + i * s->local_step, s->element, &end);
    return status ? status : settled(state, to.peer, home, end, BOX_OP_PUT);
}

static weft_status gda_iget(struct remote from, void *dst, const struct path_strides *s)
{
    struct path_state *state = from.peer->state;
    char *to = dst;
    uint32_t home = home_of(state->gda, from.peer->pe);
    uint64_t end = 0;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < s->n && !status; i++, from.offset += s->remote_step)
        status = own(&from)
                     ? copy(from.peer->world, to + i * s->local_step, own(&from), s->element)
                     : get_registered(state, home, from, to + i * s->local_step, s->element, &end);
    if (!status)
        status = settled(state, from.peer, home, end, BOX_OP_GET);
    return status ? status : flush_read(state, dst, false);
}

/* --------------------------------------------------------------------------- single values back */

/* The place of a block's result is the caller's alone until it has read it. Without it the span is
 * given away. */
static weft_status take_result(struct path_state *state, const struct span *span, uint64_t index)
{
    struct path_wait wait = {
        .world = state->gda->world, .operation = BOX_OP_GET, .pe = span->pe, .expected = 1};
    weft_status status = WEFT_OK;
    while (!weft_dev_gda_result_free(span->q, index) && !status)
        status = path_wait_step(&wait, 0);
    path_wait_end(&wait);
    if (status)
        give_nothing(state, span);
    else
        weft_dev_gda_result_take(span->q, index);
    return status;
}

/* Publishes, waits, reads. */
static weft_status bring(struct path_state *state, const struct span *span, size_t width,
                         bool atomic, uint64_t *value)
{
    give(state, span);
    weft_status status =
        gda_await(state->gda, span->q, span->pe, span->end, atomic ? BOX_OP_ATOMIC : BOX_OP_GET);
    if (!status)
        *value = weft_dev_gda_result_value(span->q, span->base, (unsigned)width, atomic);
    weft_dev_gda_result_read(span->q, span->base);
    return status;
}

static weft_status gda_load(struct remote from, void *value, size_t width)
{
    struct path_state *state = from.peer->state;
    struct span span;
    size_t whole = width;
    uint64_t result = 0;
    uint32_t home = home_of(state->gda, from.peer->pe);
    if (unlikely(own(&from) != NULL))
        return copy(from.peer->world, value, own(&from), width);
    weft_status status = begin_span(state, from.peer, home, 1, &span);
    if (!status)
        status = take_result(state, &span, span.base);
    if (status)
        return status;
    weft_dev_gda_move(
        &span.q->ring, span.base, WEFT_DEV_GDA_READ, gda_there(state->gda, home, from, &whole),
        weft_dev_gda_result(span.q, span.base), (uint32_t)width, WEFT_DEV_GDA_SIGNALED);
    status = bring(state, &span, width, false, &result);
    memcpy(value, &result, width);
    return status;
}

/* ----------------------------------------------------------------------------- atomics, signals */

static int does(weft_amo amo)
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
    default: /* a fetch adds nothing */
        return WEFT_DEV_GDA_ADD;
    }
}

static weft_status gda_atomic(struct remote at, weft_amo amo, size_t width, uint64_t value,
                              uint64_t expected, void *fetched, bool nbi)
{
    struct path_state *state = at.peer->state;
    struct span span;
    size_t whole = width;
    uint64_t before = 0;
    uint32_t adapter = queue_of_word(state->gda, at);
    uint32_t blocks = weft_dev_gda_atomic_blocks(does(amo), (unsigned)width);
    uint32_t flags = blocks > 1 ? 0 : WEFT_DEV_GDA_SIGNALED;
    weft_status status = begin_span(state, at.peer, adapter, blocks > 1 ? blocks + 1 : 1, &span);
    (void)nbi;
    if (!status && fetched)
        status = take_result(state, &span, span.base);
    if (status)
        return status;
    const struct weft_dev_gda_ring *ring = &span.q->ring;
    struct weft_dev_gda_place there = gda_there(state->gda, adapter, at, &whole);
    struct weft_dev_gda_place to =
        fetched ? weft_dev_gda_result(span.q, span.base) : weft_dev_gda_sink(span.q);
    value = amo == WEFT_AMO_FETCH ? 0 : value;
    if (width == 4)
        weft_dev_gda_atomic4(ring, span.base, does(amo), there, to, (uint32_t)value,
                             (uint32_t)expected, flags);
    else
        weft_dev_gda_atomic8(ring, span.base, does(amo), there, to, value, expected, flags);
    if (blocks > 1)
        weft_dev_gda_nop(ring, span.end - 1, WEFT_DEV_GDA_SIGNALED);
    if (!fetched) {
        give(state, &span);
        return own(&at) ? gda_await(state->gda, span.q, span.pe, span.end, BOX_OP_ATOMIC) : WEFT_OK;
    }
    status = bring(state, &span, width, true, &before);
    return status ? status : copy(state->gda->world, fetched, &before, width);
}

/* A set is one inline write in strict order, an add one atomic: neither passes what the queue was
 * given before, also where the network takes several ways. */
static weft_status signal(struct path_state *state, uint32_t adapter, struct remote at,
                          uint64_t value, weft_signal_op op)
{
    struct span span;
    size_t whole = sizeof value;
    weft_status status = begin_span(state, at.peer, adapter, 1, &span);
    if (status)
        return status;
    const struct weft_dev_gda_ring *ring = &span.q->ring;
    struct weft_dev_gda_place there = gda_there(state->gda, adapter, at, &whole);
    if (op == WEFT_SIGNAL_SET)
        weft_dev_gda_value(ring, span.base, there, value, sizeof value, gda_ordered(state->gda));
    else
        weft_dev_gda_atomic8(ring, span.base, WEFT_DEV_GDA_ADD, there, weft_dev_gda_sink(span.q),
                             value, 0, WEFT_DEV_GDA_SIGNALED | gda_ordered(state->gda));
    give(state, &span);
    return WEFT_OK;
}

static weft_status gda_put_signal(struct remote to, const void *src, size_t bytes, struct remote at,
                                  uint64_t value, weft_signal_op op, bool nbi)
{
    struct path_state *state = to.peer->state;
    uint32_t adapter = queue_of_word(state->gda, at); /* of the data too, which comes before it */
    uint64_t end = 0;
    if (unlikely(own(&to) != NULL)) {
        weft_status copied = copy(to.peer->world, own(&to), src, bytes);
        weft_amo amo = op == WEFT_SIGNAL_SET ? WEFT_AMO_SET : WEFT_AMO_ADD;
        return copied ? copied : gda_atomic(at, amo, sizeof value, value, 0, NULL, false);
    }
    weft_status status = put_registered(state, adapter, to, src, bytes, &end);
    if (!status)
        status = signal(state, adapter, at, value, op);
    return status || nbi ? status : settled(state, to.peer, adapter, end, BOX_OP_PUT);
}

/* ----------------------------------------------------------------------------------- completion */

static uint32_t slots_of(const struct gda *gda)
{
    return (uint32_t)gda->world->npes * gda->count;
}

/* Calls `what` for every queue that the context has ever used. */
static weft_status of_used(struct path_state *state,
                           weft_status (*what)(struct path_state *state, uint32_t slot))
{
    weft_status status = WEFT_OK;
    for (uint32_t word = 0; word <= slots_of(state->gda) / 64; word++) {
        uint64_t left = __atomic_load_n(&state->used[word], __ATOMIC_RELAXED);
        for (; left && !status; left &= left - 1)
            status = what(state, word * 64 + (uint32_t)__builtin_ctzll(left));
    }
    return status;
}

/* Gives the flush that a queue needs, so that those of all queues are under way at once. */
static weft_status flush_slot(struct path_state *state, uint32_t slot)
{
    const struct gda *gda = state->gda;
    uint64_t end;
    int pe = (int)(slot / gda->count);
    struct weft_dev_gda_queue *q = queue_to(gda, pe, slot % gda->count);
    return weft_dev_gda_is_open(q) ? gda_flush_queue(gda, q, pe, slot % gda->count, &end) : WEFT_OK;
}

/* One that has nothing under way costs three loads. */
static weft_status await_slot(struct path_state *state, uint32_t slot)
{
    const struct gda *gda = state->gda;
    int pe = (int)(slot / gda->count);
    struct weft_dev_gda_queue *q = queue_to(gda, pe, slot % gda->count);
    uint64_t last = __atomic_load_n(&state->last[slot], __ATOMIC_RELAXED);
    uint64_t given = __atomic_load_n(&q->flushing, __ATOMIC_RELAXED);
    last = last > given ? last : given;
    weft_status status =
        weft_dev_gda_reached(q, last) ? WEFT_OK : gda_await(gda, q, pe, last, BOX_OP_QUIET);
    if (!status)
        weft_dev_gda_flush_done(q, given);
    return status;
}

static bool has_relaxed(const struct gda *gda)
{
    return gda->relaxed || (gda->gpu && gda->gpu->data_keys != gda->gpu->remote_keys);
}

static weft_status gda_quiet(struct path_state *state)
{
    struct gda *gda = state->gda;
    uint64_t reads; /* counted before the queues are looked at, flushed when they are complete */
    bool flushes = epoch_is_open(&state->reads, &reads);
    weft_status status = has_relaxed(gda) ? of_used(state, flush_slot) : WEFT_OK;
    if (!status)
        status = of_used(state, await_slot);
    if (flushes && !status)
        status = gda_flush(gda);
    if (flushes && !status)
        epoch_close(&state->reads, reads);
    return status;
}

static weft_status gda_fence(struct path_state *state)
{
    return has_relaxed(state->gda) || state->gda->count > 1 ? gda_quiet(state) : WEFT_OK;
}

/* ----------------------------------------------------------------------------- joining, leaving */

static void close_state(struct path_state *state)
{
    free(state->last);
    free(state->used);
    free(state);
}

static weft_status open_state(const struct path_world *world, struct path_state **result)
{
    struct path_state *state = calloc(1, sizeof *state);
    if (state) {
        state->gda = gda_of(world);
        state->last = calloc(slots_of(state->gda), sizeof *state->last);
        state->used = calloc(slots_of(state->gda) / 64 + 1, sizeof *state->used);
    }
    if (!state || !state->last || !state->used) {
        if (state)
            close_state(state);
        return base_fail(WEFT_ERR_NO_MEMORY, "path gda: no private memory for a context");
    }
    *result = state;
    return WEFT_OK;
}

static const char *obstacle(const struct path_facts *facts)
{
    return facts->same_pe && !(facts->own_too >> PATH_GDA & 1) ? "the same PE" : NULL;
}

static unsigned carrier(const struct path_common *common, bool cuda)
{
    const struct gda *gda = (const struct gda *)(const void *)common;
    bool can = !cuda || (gda && gda->cuda);
    return can && !config_choice(CONFIG_GDA_INITIATOR) ? WEFT_DEV_CARRIER_GDA : 0;
}

static weft_status find_adapters(const struct path_world *world, struct path_found *found)
{
    struct gda_adapters *adapters = NULL;
    weft_status status = gda_find(world, &adapters, found->lacks, sizeof found->lacks, found->has,
                                  sizeof found->has);
    found->keeps = adapters;
    found->drop = gda_drop_adapters;
    found->own_too = adapters && !gda_atomics_with_cpu(adapters);
    return status;
}

static weft_status join(const struct path_world *world, struct path_common **common)
{
    struct path_found *found = world->found[PATH_GDA];
    struct gda_adapters *adapters = found->keeps;
    struct gda *gda = NULL;
    found->keeps = NULL;
    weft_status status = gda_join(world, adapters, &gda);
    *common = (struct path_common *)(void *)gda;
    return status;
}

static void leave(struct path_common *common)
{
    gda_leave((struct gda *)(void *)common);
}

const struct path_ops path_gda = {
    .name = "gda",
    .why = "an adapter that device code can give requests to",
    .obstacle = obstacle,
    .look = find_adapters,
    .join = join,
    .leave = leave,
    .refine = gda_refine,
    .gpu_memory = gda_gpu_memory,
    .open = open_state,
    .close = close_state,
    .transport = carrier,
    .device = gda_tell_device,
    .name_queue = gda_name_queue,
    .complete_device = gda_settle_device,
    .address = gda_address,
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
};
