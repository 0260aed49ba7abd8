/* SPDX-License-Identifier: Apache-2.0 */
/* Path `staged`: two PEs of a node that have not mapped each other's memory exchange data through
 * host memory that both have mapped. One side copies in and the other copies out, chunk by chunk,
 * so that both copies run in parallel. The peer's thread executes the requests in the order in
 * which they were sent. That order is a fence, as long as no other path reaches memory of that
 * peer.
 *
 * Small transfers with GPU memory that the CPU has mapped (path/local/mapped.h) need neither the
 * peer nor its GPU: this PE's CPU does them while no request of this context to that peer is in
 * flight, so that they overtake nothing. Fence and quiet ensure that nothing overtakes them. The
 * path test runs over the channel first (staged_refine()). */
#include "path/staged/staged.h"
#include "path/local/mapped.h"

#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>

struct staged_state {
    struct staged_common *common;
    struct mapped mapped;
    /* [local_npes] sequence number of the last request of this context to each local PE. Written
     * under that channel's lock; the quiet of any thread reads it. */
    _Atomic uint64_t last[];
};

static struct staged_state *staged_state_of(struct path_state *opaque)
{
    return (struct staged_state *)(void *)opaque;
}

static struct staged_channel *find_channel(const struct remote at)
{
    struct staged_common *common = staged_state_of(at.peer->state)->common;
    const struct boot *boot = common->world->boot;
    int low = 0, high = common->local_npes - 1; /* local PEs are sorted */
    while (low < high) {
        int middle = (low + high) / 2;
        if (boot->local_pes[middle] < at.peer->pe)
            low = middle + 1;
        else
            high = middle;
    }
    return &common->channels[low];
}

/* Whether the CPU may access the memory itself. */
static bool can_use_cpu(struct remote at)
{
    if (at.segment != SEG_GPU)
        return false;
    const struct staged_channel *channel = find_channel(at);
    /* Acquire: pairs with retire_requests(); the effects of earlier requests are visible. */
    return atomic_load_explicit(&channel->cpu_access, memory_order_relaxed) &&
           atomic_load_explicit(&channel->retired, memory_order_acquire) >=
               atomic_load_explicit(&staged_state_of(at.peer->state)->last[channel->slot],
                                    memory_order_acquire);
}

static void record_last_request(struct staged_state *state, const struct staged_channel *channel)
{
    atomic_store_explicit(&state->last[channel->slot], channel->begun, memory_order_release);
}

static struct serve_request make_request(enum serve_operation operation, struct remote at,
                                         size_t bytes)
{
    return (struct serve_request){.operation = (uint8_t)operation,
                                  .segment = (uint8_t)at.segment,
                                  .offset = at.offset,
                                  .bytes = bytes};
}

/* ---------------------------------------------------------------------------------- transfers */

/* Sends all chunks of a transfer but the last. *rest: bytes of the last chunk. */
static weft_status send_chunks(struct staged_channel *channel, enum serve_operation operation,
                               struct remote at, const char *from, char *to, size_t bytes,
                               uint64_t *rest)
{
    enum box_operation own = operation == SERVE_PUT ? BOX_OP_PUT : BOX_OP_GET;
    size_t chunk = staged_chunk_bytes(channel->common->world, from ? from : to, at.segment, bytes);
    weft_status status = WEFT_OK;
    size_t sent = 0;
    while (bytes - sent > chunk && !status) {
        struct serve_request request = make_request(operation, at, chunk);
        request.offset += sent;
        status = staged_send_request(channel, own, &request, from ? from + sent : NULL,
                                     to ? to + sent : NULL);
        sent += chunk;
    }
    *rest = bytes - sent;
    return status;
}

/* `last` is the request for the last chunk: a put, or a put with signal. */
static weft_status put_with_request(struct remote to, const void *src, size_t bytes,
                                    struct serve_request last, bool nbi)
{
    struct staged_channel *channel = find_channel(to);
    last.urgent = !nbi;
    pthread_mutex_lock(&channel->lock);
    weft_status status = send_chunks(channel, SERVE_PUT, to, src, NULL, bytes, &last.bytes);
    size_t sent = bytes - (size_t)last.bytes;
    last.offset += sent;
    if (!status)
        status = staged_send_request(channel, BOX_OP_PUT, &last, (const char *)src + sent, NULL);
    if (!status && !nbi)
        status = staged_await_published(channel, BOX_OP_PUT, channel->begun);
    else if (!status && last.operation == SERVE_PUT_SIGNAL)
        staged_hand_to_thread(channel);
    record_last_request(staged_state_of(to.peer->state), channel);
    pthread_mutex_unlock(&channel->lock);
    return status;
}

static weft_status staged_put(struct remote to, const void *src, size_t bytes, bool nbi)
{
    if (can_use_cpu(to) && mapped_put(&staged_state_of(to.peer->state)->mapped, to, src, bytes))
        return WEFT_OK;
    return put_with_request(to, src, bytes, make_request(SERVE_PUT, to, bytes), nbi);
}

static weft_status staged_get(struct remote from, void *dst, size_t bytes, bool nbi)
{
    if (can_use_cpu(from) &&
        mapped_get(&staged_state_of(from.peer->state)->mapped, from, dst, bytes))
        return WEFT_OK;
    struct staged_channel *channel = find_channel(from);
    uint64_t rest = bytes;
    pthread_mutex_lock(&channel->lock);
    weft_status status = send_chunks(channel, SERVE_GET, from, NULL, dst, bytes, &rest);
    struct serve_request request = make_request(SERVE_GET, from, rest);
    request.offset += bytes - rest;
    request.urgent = !nbi;
    if (!status)
        status =
            staged_send_request(channel, BOX_OP_GET, &request, NULL, (char *)dst + (bytes - rest));
    if (!status && !nbi)
        status = staged_await_retired(channel, BOX_OP_GET, channel->begun);
    record_last_request(staged_state_of(from.peer->state), channel);
    pthread_mutex_unlock(&channel->lock);
    return status;
}

/* The signal is in the request for the last chunk. */
static weft_status staged_put_signal(struct remote to, const void *src, size_t bytes,
                                     struct remote signal, uint64_t value, weft_signal_op op,
                                     bool nbi)
{
    if (op == WEFT_SIGNAL_SET && signal.segment == SEG_GPU && can_use_cpu(to) &&
        mapped_put_signal(&staged_state_of(to.peer->state)->mapped, to, src, bytes, signal, value))
        return WEFT_OK;
    struct serve_request last = make_request(SERVE_PUT_SIGNAL, to, bytes);
    last.signal_segment = (uint8_t)signal.segment;
    last.signal_offset = signal.offset;
    last.signal_op = (uint8_t)op;
    last.value = value;
    return put_with_request(to, src, bytes, last, nbi);
}

/* Elements do not wait for each other. */
static weft_status staged_iget(struct remote from, void *dst, const struct path_strides *strides)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < strides->n && !status; i++, from.offset += strides->remote_step)
        status = staged_get(from, (char *)dst + i * strides->local_step, strides->element,
                            i + 1 < strides->n);
    return status;
}

/* ------------------------------------------------------------------------------ single accesses */

static weft_status send_single(struct remote at, enum box_operation operation,
                               const struct serve_request *request, const void *from, void *to,
                               bool wait)
{
    struct staged_channel *channel = find_channel(at);
    pthread_mutex_lock(&channel->lock);
    weft_status status = staged_send_request(channel, operation, request, from, to);
    if (!status && wait)
        status = staged_await_retired(channel, operation, channel->begun);
    record_last_request(staged_state_of(at.peer->state), channel);
    pthread_mutex_unlock(&channel->lock);
    return status;
}

static weft_status staged_store(struct remote to, const void *value, size_t width)
{
    if (can_use_cpu(to) && mapped_store(&staged_state_of(to.peer->state)->mapped, to, value, width))
        return WEFT_OK;
    struct serve_request request = make_request(SERVE_STORE, to, width);
    return send_single(to, BOX_OP_PUT, &request, value, NULL, false);
}

static weft_status staged_load(struct remote from, void *value, size_t width)
{
    if (can_use_cpu(from) && mapped_load(from, value, width))
        return WEFT_OK;
    struct serve_request request = make_request(SERVE_LOAD, from, width);
    return send_single(from, BOX_OP_GET, &request, NULL, value, true);
}

static weft_status staged_atomic(struct remote at, weft_amo amo, size_t width, uint64_t value,
                                 uint64_t expected, void *fetched, bool nbi)
{
    if (amo == WEFT_AMO_SET && can_use_cpu(at) &&
        mapped_store(&staged_state_of(at.peer->state)->mapped, at, &value, width))
        return WEFT_OK;
    if (amo == WEFT_AMO_FETCH && can_use_cpu(at) && mapped_load(at, fetched, width))
        return WEFT_OK;
    struct serve_request request = make_request(SERVE_ATOMIC, at, width);
    request.amo = (uint8_t)amo;
    request.value = value;
    request.expected = expected;
    return send_single(at, BOX_OP_ATOMIC, &request, NULL, fetched, fetched && !nbi);
}

/* ------------------------------------------------------------------------- order and completion */

static weft_status complete_channel(struct staged_state *state, int slot,
                                    enum box_operation operation)
{
    struct staged_channel *channel = &state->common->channels[slot];
    uint64_t last = atomic_load_explicit(&state->last[slot], memory_order_acquire);
    /* Acquire: pairs with retire_requests(); the effects of this context's requests are visible. */
    if (atomic_load_explicit(&channel->retired, memory_order_acquire) >= last)
        return WEFT_OK;
    pthread_mutex_lock(&channel->lock);
    weft_status status = staged_await_retired(channel, operation, last);
    pthread_mutex_unlock(&channel->lock);
    return status;
}

static weft_status staged_quiet(struct path_state *opaque)
{
    struct staged_state *state = staged_state_of(opaque);
    weft_status status = WEFT_OK;
    mapped_flush(&state->mapped);
    for (int slot = 0; slot < state->common->local_npes && !status; slot++)
        status = complete_channel(state, slot, BOX_OP_QUIET);
    return status;
}

/* Whether another path reaches some memory of the PE. */
static bool has_other_path(const struct path_world *world, int pe)
{
    for (int kind = 0; kind < MEMORY_KINDS; kind++) {
        const struct path_choice *choices = world->choices[kind];
        if (choices && choices[pe].path != PATH_STAGED && choices[pe].path != PATH_NONE)
            return true;
    }
    return false;
}

/* The owner executes later requests on this path after earlier ones, and mapped_flush() orders the
 * CPU's stores. Operations on another path could overtake them, so those wait for the channel. */
static weft_status staged_fence(struct path_state *opaque)
{
    struct staged_state *state = staged_state_of(opaque);
    const struct path_world *world = state->common->world;
    weft_status status = WEFT_OK;
    mapped_flush(&state->mapped);
    for (int slot = 0; slot < state->common->local_npes && !status; slot++)
        if (has_other_path(world, world->boot->local_pes[slot]))
            status = complete_channel(state, slot, BOX_OP_FENCE);
    return status;
}

/* A thread that holds the lock advances the channel itself. */
static bool staged_progress(struct path_state *opaque)
{
    struct staged_state *state = staged_state_of(opaque);
    for (int slot = 0; slot < state->common->local_npes; slot++) {
        struct staged_channel *channel = &state->common->channels[slot];
        uint64_t last = atomic_load_explicit(&state->last[slot], memory_order_acquire);
        if (atomic_load_explicit(&channel->retired, memory_order_acquire) >= last ||
            pthread_mutex_trylock(&channel->lock))
            continue;
        staged_advance(channel); /* The channel keeps a failure for its next caller. */
        pthread_mutex_unlock(&channel->lock);
    }
    return false;
}

static weft_status staged_open(const struct path_world *world, struct path_state **result)
{
    struct staged_common *common = staged_common(world);
    size_t bytes =
        sizeof(struct staged_state) + (size_t)common->local_npes * sizeof(_Atomic uint64_t);
    struct staged_state *state = calloc(1, bytes);
    if (!state)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a context on path staged");
    state->common = common;
    mapped_open(&state->mapped, world);
    *result = (struct path_state *)state;
    return WEFT_OK;
}

static void staged_close(struct path_state *opaque)
{
    struct staged_state *state = staged_state_of(opaque);
    free(state);
}

/* It runs after the path tests, so the channel works. */
static weft_status staged_refine(const struct path_world *world, weft_kind kind, int pe,
                                 char *found, size_t bytes)
{
    struct staged_common *common = staged_common(world);
    if (kind != WEFT_GPU || !world->gpu || !common)
        return WEFT_OK;
    int slot = world->gpu->slot_of[pe];
    struct gpu_map *map = world->gpu->heap.map;
    if (slot >= 0 && gpu_map_at(map, slot, world->gpu->layout.map_test_offset, 1)) {
        atomic_store_explicit(&common->channels[slot].cpu_access, true, memory_order_relaxed);
        snprintf(found, bytes, "small transfers by the CPU");
    } /* otherwise the reason of this PE's pair with itself says why */
    return WEFT_OK;
}

static const char *staged_obstacle(const struct path_facts *facts)
{
    if (facts->same_pe)
        return "the same PE";
    return facts->same_node ? NULL : "the PEs run on different kernels";
}

const struct path_ops path_staged = {
    .name = "staged",
    .why = "through host memory that both PEs map",
    .automatic = true,
    .thread = true,
    .obstacle = staged_obstacle,
    .join = staged_join,
    .leave = staged_leave,
    .refine = staged_refine,
    .open = staged_open,
    .close = staged_close,
    .put = staged_put,
    .get = staged_get,
    .iget = staged_iget,
    .store = staged_store,
    .load = staged_load,
    .atomic = staged_atomic,
    .put_signal = staged_put_signal,
    .fence = staged_fence,
    .quiet = staged_quiet,
    .progress = staged_progress,
};
