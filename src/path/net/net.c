/* SPDX-License-Identifier: Apache-2.0 */
/* Path `net`: reaches a peer over a network, by libfabric. This file has the path's table of
 * operations; net.h says how an operation travels, order.c what fence and quiet wait for. */
#include "path/net/hmem.h"

#include "base/status.h"
#include "gpu/gpu.h"

#include <string.h>

enum {
    SMALL_BYTES = 3 << 10, /* puts up to this size go in messages */
    /* Bytes of a put that fill a message. */
    RECORD_BYTES = NET_MESSAGE_BYTES - sizeof(struct net_head) - sizeof(struct net_record),
    SMALL_GET_BYTES = 1024, /* gets up to this size go in messages, if a CPU of the peer executes
                               RMA operations anyway */
    SMALL_GPU_GET_BYTES = 8192,     /* gets from GPU memory up to this size go in messages */
    GET_FRAGMENT_BYTES = 256 << 10, /* bytes of a get in messages that are requested at a time */
    NET_STREAM = 2 /* internal stream for copies; contexts are spread over all of them */
};

/* ------------------------------------------------------------------------ transfers in messages */

/* Whether a put or get is an RMA operation: it is larger than `small`, and messages are not
 * encrypted. */
static bool uses_rma(const struct path_common *net, size_t bytes, size_t small)
{
    return bytes > small && !net->rails[0].traits.messages_only;
}

/* The peer is begun, here and in the functions below that use its requests. */
static weft_status add_put_record(struct net_state *state, struct remote to, enum net_kind kind,
                                  const void *src, size_t bytes)
{
    struct net_record *record;
    weft_status status = net_add_request(state, &state->net->peers[to.peer->pe], bytes, &record);
    if (status)
        return status;
    record->kind = (uint8_t)kind;
    record->segment = (uint8_t)to.segment;
    record->bytes = (uint32_t)bytes;
    record->offset = to.offset;
    memcpy(net_payload(record), src, bytes);
    return WEFT_OK;
}

weft_status net_put_by_requests(struct net_state *state, struct remote to, const void *src,
                                size_t bytes)
{
    weft_status status = WEFT_OK;
    size_t most = state->net->rails[0].traits.messages_only ? RECORD_BYTES : SMALL_BYTES;
    for (size_t step_bytes; bytes && !status; bytes -= step_bytes) {
        step_bytes = bytes < most ? bytes : most;
        status = add_put_record(state, to, NET_PUT, src, step_bytes);
        to.offset += step_bytes;
        src = (const char *)src + step_bytes;
    }
    return status;
}

/* Requests data of the peer's memory, and waits for them unless `nbi`. value: they are one value,
 * which the peer reads by one access. */
static weft_status get_by_request(struct net_state *state, struct remote from, void *dst,
                                  size_t bytes, bool value, bool nbi)
{
    const struct net_record query = {
        .kind = NET_GET, .segment = (uint8_t)from.segment, .width = value, .offset = from.offset};
    return net_send_query(state, &state->net->peers[from.peer->pe], &query, (uint32_t)bytes, dst,
                          bytes, nbi);
}

static weft_status get_by_requests(struct net_state *state, struct remote from, void *dst,
                                   size_t bytes, bool nbi)
{
    weft_status status = WEFT_OK;
    for (size_t step_bytes; bytes && !status; bytes -= step_bytes) {
        step_bytes = bytes < GET_FRAGMENT_BYTES ? bytes : GET_FRAGMENT_BYTES;
        status = get_by_request(state, from, dst, step_bytes, false, nbi);
        from.offset += step_bytes;
        dst = (char *)dst + step_bytes;
    }
    return status;
}

weft_status net_get_by_requests(struct net_state *state, struct remote from, void *dst,
                                size_t bytes)
{
    return get_by_requests(state, from, dst, bytes, false);
}

/* ----------------------------------------------------------------------- put and get, lock held */

/* device: the source is GPU memory, of more than SMALL_BYTES. */
static weft_status put_staged(struct net_state *state, struct remote to, const void *src,
                              size_t bytes, bool device, bool nbi)
{
    struct net_peer *peer = net_get_peer(state->net, to.peer->pe);
    bool needs_query = to.segment == SEG_GPU && peer->gpu.access != NET_GPU_DIRECT;
    weft_status status = net_check_failure(state->net, peer);
    if (!status)
        status = needs_query ? net_order_request(state, peer) : net_order_write(state, peer);
    if (!status)
        status = net_stage_transfer(state, to, (void *)src, bytes, device, true);
    return status || nbi ? status : net_await_staged_sources(state, peer);
}

static weft_status put_locked(struct net_state *state, struct remote to, const void *src,
                              size_t bytes, bool nbi)
{
    struct net_peer *peer = net_get_peer(state->net, to.peer->pe);
    bool large = uses_rma(state->net, bytes, SMALL_BYTES);
    if (large && to.segment == SEG_GPU)
        return put_staged(state, to, src, bytes, false, nbi);
    weft_status status = net_check_failure(state->net, peer);
    if (!status)
        status = large ? net_order_write(state, peer) : net_order_request(state, peer);
    if (status)
        return status;
    if (!large) {
        status = net_put_by_requests(state, to, src, bytes);
        if (!nbi)
            net_flush_unanswered(state->net, peer);
        return status;
    }
    status = net_write(state, to, src, bytes);
    return status || nbi ? status : net_await_writes(state, peer);
}

/* Whether the peer can read the value by one access. */
static bool fits_one_access(struct remote at, size_t bytes)
{
    return bytes <= 8 && !(bytes & (bytes - 1)) && bytes && at.offset % bytes == 0;
}

static weft_status get_locked(struct net_state *state, struct remote from, void *dst, size_t bytes,
                              bool nbi)
{
    struct net_peer *peer = net_get_peer(state->net, from.peer->pe);
    weft_status status = net_check_failure(state->net, peer);
    if (status || !bytes) /* An empty get has no answer. */
        return status;
    if (fits_one_access(from, bytes))
        return get_by_request(state, from, dst, bytes, true, nbi);
    if (state->net->rails[0].traits.cpu_executes_rma && bytes <= SMALL_GET_BYTES)
        return get_by_request(state, from, dst, bytes, false, nbi);
    bool few = bytes <= SMALL_GPU_GET_BYTES && peer->gpu.access != NET_GPU_DIRECT;
    if (from.segment == SEG_GPU && few)
        return net_get_by_requests(state, from, dst, bytes);
    if (!uses_rma(state->net, bytes, 0))
        return get_by_requests(state, from, dst, bytes, nbi);
    status = from.segment == SEG_GPU ? net_stage_transfer(state, from, dst, bytes, false, false)
                                     : net_read(state, from, dst, bytes);
    return status || nbi ? status : net_await_reads(state, peer);
}

/* ----------------------------------------------------------------- GPU memory on the local side */

static bool is_gpu_memory(const struct path_world *world, const void *local)
{
    return unlikely(world->gpu != NULL) && gpu_place_of(world->gpu, local) == GPU_PLACE_DEVICE;
}

/* Up to SMALL_BYTES go through host memory. */
static weft_status put_from_gpu(struct remote to, const void *src, size_t bytes, bool nbi)
{
    struct net_state *state = net_state_of(to.peer->state);
    bool large = bytes > SMALL_BYTES;
    unsigned char host[SMALL_BYTES];
    weft_status status = WEFT_OK;
    if (!large)
        status = gpu_copy(to.peer->world->gpu, NET_STREAM, host, src, bytes, GPU_DONE);
    if (status)
        return status;
    net_lock(state->net);
    status = large ? put_staged(state, to, src, bytes, true, nbi)
                   : put_locked(state, to, host, bytes, false);
    pthread_mutex_unlock(&state->net->lock);
    return status;
}

static weft_status get_to_gpu(struct remote from, void *dst, size_t bytes, bool nbi)
{
    struct net_state *state = net_state_of(from.peer->state);
    bool large = bytes > SMALL_BYTES;
    unsigned char host[SMALL_BYTES];
    net_lock(state->net);
    struct net_peer *peer = net_get_peer(state->net, from.peer->pe);
    weft_status status =
        large ? net_check_failure(state->net, peer) : get_locked(state, from, host, bytes, false);
    if (!status && large)
        status = net_stage_transfer(state, from, dst, bytes, true, false);
    if (!status && large && !nbi)
        status = net_await_reads(state, peer);
    pthread_mutex_unlock(&state->net->lock);
    return status || large
               ? status
               : gpu_copy(from.peer->world->gpu, NET_STREAM, dst, host, bytes, GPU_DONE);
}

/* ------------------------------------------------------------------------ the path's operations */

static weft_status net_put(struct remote to, const void *src, size_t bytes, bool nbi)
{
    struct net_state *state = net_state_of(to.peer->state);
    if (is_gpu_memory(to.peer->world, src))
        return put_from_gpu(to, src, bytes, nbi);
    net_lock(state->net);
    weft_status status = put_locked(state, to, src, bytes, nbi);
    pthread_mutex_unlock(&state->net->lock);
    return status;
}

static weft_status net_get(struct remote from, void *dst, size_t bytes, bool nbi)
{
    struct net_state *state = net_state_of(from.peer->state);
    if (is_gpu_memory(from.peer->world, dst))
        return get_to_gpu(from, dst, bytes, nbi);
    net_lock(state->net);
    weft_status status = get_locked(state, from, dst, bytes, nbi);
    pthread_mutex_unlock(&state->net->lock);
    return status;
}

/* `value`, and the destination of a load, are host memory of the caller. */
static weft_status net_store(struct remote to, const void *value, size_t width)
{
    struct net_state *state = net_state_of(to.peer->state);
    net_lock(state->net);
    struct net_peer *peer = net_get_peer(state->net, to.peer->pe);
    weft_status status = net_order_request(state, peer);
    if (!status)
        status = add_put_record(state, to, NET_STORE, value, width);
    if (!status)
        net_flush_unanswered(state->net, peer);
    pthread_mutex_unlock(&state->net->lock);
    return status;
}

static weft_status net_load(struct remote from, void *value, size_t width)
{
    struct net_state *state = net_state_of(from.peer->state);
    net_lock(state->net);
    net_get_peer(state->net, from.peer->pe);
    weft_status status = get_by_request(state, from, value, width, true, false);
    pthread_mutex_unlock(&state->net->lock);
    return status;
}

static weft_status add_atomic_record(struct net_state *state, struct remote at, weft_amo amo,
                                     size_t width, struct net_atomic atomic)
{
    struct net_record *record;
    weft_status status =
        net_add_request(state, &state->net->peers[at.peer->pe], sizeof atomic, &record);
    if (status)
        return status;
    record->kind = NET_ATOMIC;
    record->segment = (uint8_t)at.segment;
    record->amo = (uint8_t)amo;
    record->width = (uint8_t)width;
    record->offset = at.offset;
    memcpy(net_payload(record), &atomic, sizeof atomic);
    return WEFT_OK;
}

/* fetched: host memory. */
static weft_status atomic_locked(struct net_state *state, struct remote at, weft_amo amo,
                                 size_t width, struct net_atomic operands, void *fetched, bool nbi)
{
    struct net_peer *peer = net_get_peer(state->net, at.peer->pe);
    weft_status status = net_order_request(state, peer);
    if (!status && fetched)
        status = net_new_answer_token(state, peer, fetched, width, &operands.token);
    if (status)
        return status;
    status = add_atomic_record(state, at, amo, width, operands);
    if (status && fetched)
        net_cancel_answer(state->net, operands.token);
    if (status)
        return status;
    if (!fetched && nbi)
        return WEFT_OK;
    if (fetched)
        net_flush_requests(state->net, peer, false);
    else
        net_flush_unanswered(state->net, peer);
    if (fetched && nbi)
        net_detach_answer(state->net, operands.token);
    return fetched && !nbi ? net_await_answer(state->net, operands.token) : WEFT_OK;
}

static weft_status net_atomic(struct remote at, weft_amo amo, size_t width, uint64_t value,
                              uint64_t expected, void *fetched, bool nbi)
{
    struct net_state *state = net_state_of(at.peer->state);
    struct gpu *gpu = at.peer->world->gpu;
    bool device = fetched && is_gpu_memory(at.peer->world, fetched);
    uint64_t before = 0;
    /* The peer's data take another path, with which this one has no order. */
    if (!fetched && at.peer->path != PATH_NET) {
        fetched = &before;
        nbi = false;
    }
    net_lock(state->net);
    weft_status status =
        atomic_locked(state, at, amo, width, (struct net_atomic){value, expected, 0},
                      device ? &before : fetched, nbi && !device);
    pthread_mutex_unlock(&state->net->lock);
    return status || !device ? status
                             : gpu_copy(gpu, NET_STREAM, fetched, &before, width, GPU_DONE);
}

static weft_status put_signal_locked(struct net_state *state, struct remote to, const void *src,
                                     size_t bytes, struct remote signal, uint64_t value,
                                     weft_signal_op op)
{
    struct net_peer *peer = net_get_peer(state->net, to.peer->pe);
    weft_amo amo = op == WEFT_SIGNAL_SET ? WEFT_AMO_SET : WEFT_AMO_ADD;
    weft_status status = put_locked(state, to, src, bytes, true);
    net_fence_channel(state->net, &state->channels[to.peer->pe]);
    if (!status)
        status = net_order_request(state, peer);
    if (!status)
        status = add_atomic_record(state, signal, amo, sizeof value,
                                   (struct net_atomic){.value = value});
    net_flush_unanswered(state->net, peer);
    return status;
}

static weft_status net_put_signal(struct remote to, const void *src, size_t bytes,
                                  struct remote signal, uint64_t value, weft_signal_op op, bool nbi)
{
    struct net_state *state = net_state_of(to.peer->state);
    weft_status status = WEFT_OK;
    if (is_gpu_memory(to.peer->world, src)) {
        status = put_from_gpu(to, src, bytes, nbi);
        bytes = 0;
    }
    net_lock(state->net);
    struct net_peer *peer = net_get_peer(state->net, to.peer->pe);
    if (!status)
        status = put_signal_locked(state, to, src, bytes, signal, value, op);
    if (!status && !nbi)
        status = net_await_sources(state, peer);
    pthread_mutex_unlock(&state->net->lock);
    return status;
}

/* ------------------------------------------------------------------------------------- strided */

static weft_status net_iput(struct remote to, const void *src, const struct path_strides *s)
{
    struct net_state *state = net_state_of(to.peer->state);
    const char *from = src;
    weft_status status = WEFT_OK;
    bool device = is_gpu_memory(to.peer->world, src);
    net_lock(state->net);
    struct net_peer *peer = net_get_peer(state->net, to.peer->pe);
    for (size_t i = 0; i < s->n && !status && !device; i++) {
        status = put_locked(state, to, from + i * s->local_step, s->element, true);
        to.offset += s->remote_step;
    }
    net_flush_requests(state->net, peer, false);
    if (!status)
        status = net_await_sources(state, peer);
    pthread_mutex_unlock(&state->net->lock);
    for (size_t i = 0; i < s->n && !status && device; i++) {
        status = put_from_gpu(to, from + i * s->local_step, s->element, false);
        to.offset += s->remote_step;
    }
    return status;
}

static weft_status net_iget(struct remote from, void *dst, const struct path_strides *s)
{
    struct net_state *state = net_state_of(from.peer->state);
    char *to = dst;
    weft_status status = WEFT_OK;
    bool one_by_one = from.segment == SEG_GPU || is_gpu_memory(from.peer->world, dst);
    for (size_t i = 0; i < s->n && !status && one_by_one; i++, from.offset += s->remote_step)
        status = net_get(from, to + i * s->local_step, s->element, false);
    if (one_by_one)
        return status;
    net_lock(state->net);
    struct net_peer *peer = net_get_peer(state->net, from.peer->pe);
    status = net_check_failure(state->net, peer);
    bool rma = uses_rma(state->net, s->element, 0);
    for (size_t i = 0; i < s->n && !status; i++, from.offset += s->remote_step)
        status = rma ? net_read(state, from, to + i * s->local_step, s->element)
                     : get_locked(state, from, to + i * s->local_step, s->element, true);
    if (!status)
        status = rma ? net_await_reads(state, peer) : net_complete_context(state);
    pthread_mutex_unlock(&state->net->lock);
    return status;
}

/* ----------------------------------------------------------------------------------- completion */

static weft_status net_quiet(struct path_state *opaque)
{
    struct net_state *state = net_state_of(opaque);
    net_lock(state->net);
    weft_status status = net_complete_context(state);
    pthread_mutex_unlock(&state->net->lock);
    return status;
}

static weft_status net_fence(struct path_state *opaque)
{
    struct net_state *state = net_state_of(opaque);
    net_lock(state->net);
    weft_status status = net_order_context(state);
    pthread_mutex_unlock(&state->net->lock);
    return status;
}

/* Sends the open messages of the context. Of all contexts, one polls. */
static bool net_progress(struct path_state *opaque)
{
    struct net_state *state = net_state_of(opaque);
    struct path_common *net = state->net;
    atomic_fetch_add_explicit(&net->progress.caller_polls, 1, memory_order_relaxed);
    if (pthread_mutex_trylock(&net->lock))
        return false;
    for (int i = 0; i < state->touched_count; i++)
        net_flush_requests(net, &net->peers[state->touched[i]], false);
    if (!net->progress.poller)
        net->progress.poller = state;
    bool progressed = net->progress.poller == state && net_poll(net);
    pthread_mutex_unlock(&net->lock);
    return progressed;
}

/* ------------------------------------------------------------------------------- open and close */

static const char *net_obstacle(const struct path_facts *facts)
{
    return facts->same_pe ? "the same PE" : NULL;
}

static weft_status net_probe_providers(const struct path_world *world, struct path_found *found)
{
    struct net_selection *selection;
    weft_status status = net_find_nics(world, &selection, found->lacks, found->has);
    found->probe_result = selection;
    found->drop = net_free_selection;
    for (int i = 0; selection && i < selection->count; i++)
        if (selection->mbps[i] > found->mbps)
            found->mbps = selection->mbps[i];
    return status;
}

static weft_status net_join(const struct path_world *world, struct path_common **common)
{
    return net_open(world, world->found[PATH_NET]->probe_result, common);
}

static void net_leave(struct path_common *common)
{
    net_close(common);
}

const struct path_ops path_net = {
    .name = "net",
    .automatic = true,
    .obstacle = net_obstacle,
    .probe = net_probe_providers,
    .join = net_join,
    .leave = net_leave,
    .cpus = net_cpus,
    .peer_bytes = net_peer_bytes,
    .open = net_open_state,
    .close = net_close_state,
    .refine = net_refine,
    .put = net_put,
    .get = net_get,
    .iput = net_iput,
    .iget = net_iget,
    .store = net_store,
    .load = net_load,
    .atomic = net_atomic,
    .put_signal = net_put_signal,
    .fence = net_fence,
    .quiet = net_quiet,
    .progress = net_progress,
};
