/* SPDX-License-Identifier: Apache-2.0 */
/* Path `net`: a peer that is reached over a network, by libfabric. Its table of operations; net.h
 * says how an operation travels, order.c what fence and quiet wait for. */
#include "path/net/hmem.h"

#include "base/status.h"
#include "gpu/gpu.h"

#include <string.h>

enum {
    SMALL_BYTES = 3 << 10,       /* puts up to this go in messages */
    SMALL_GET_BYTES = 1024,      /* gets, where the owner has to move the data in any case */
    SMALL_GPU_GET_BYTES = 8192,  /* gets from GPU memory */
    GPU_PIECE_BYTES = 256 << 10, /* of it, asked for at a time */
    NET_LANE = 2                 /* any: contexts are dealt out over all of them */
};

/* ---------------------------------------------------------------------------------- by requests */

static weft_status put_record(struct path_state *state, struct remote to, enum net_kind kind,
                              const void *src, size_t bytes)
{
    struct net_record *record;
    weft_status status = net_request(state, &state->net->peers[to.peer->pe], bytes, &record);
    if (status)
        return status;
    record->kind = (uint8_t)kind;
    record->segment = (uint8_t)to.segment;
    record->bytes = (uint32_t)bytes;
    record->offset = to.offset;
    memcpy(net_behind(record), src, bytes);
    return WEFT_OK;
}

weft_status net_put_by_requests(struct path_state *state, struct remote to, const void *src,
                                size_t bytes)
{
    weft_status status = WEFT_OK;
    for (size_t piece; bytes && !status; bytes -= piece) {
        piece = bytes < SMALL_BYTES ? bytes : SMALL_BYTES;
        status = put_record(state, to, NET_PUT, src, piece);
        to.offset += piece;
        src = (const char *)src + piece;
    }
    return status;
}

/* Asks for a part of the peer's memory, and waits for it unless `nbi`. value: it is one value, read
 * by one access. */
static weft_status get_part(struct path_state *state, struct remote from, void *dst, size_t bytes,
                            bool value, bool nbi)
{
    const struct net_record question = {
        .kind = NET_GET, .segment = (uint8_t)from.segment, .width = value, .offset = from.offset};
    return net_ask(state, &state->net->peers[from.peer->pe], &question, (uint32_t)bytes, dst, bytes,
                   nbi);
}

weft_status net_get_by_requests(struct path_state *state, struct remote from, void *dst,
                                size_t bytes)
{
    weft_status status = WEFT_OK;
    for (size_t piece; bytes && !status; bytes -= piece) {
        piece = bytes < GPU_PIECE_BYTES ? bytes : GPU_PIECE_BYTES;
        status = get_part(state, from, dst, piece, false, false);
        from.offset += piece;
        dst = (char *)dst + piece;
    }
    return status;
}

/* ----------------------------------------------------------------------- put and get, lock held */

/* device: the source is GPU memory, of more than SMALL_BYTES. */
static weft_status put_staged(struct path_state *state, struct remote to, const void *src,
                              size_t bytes, bool device, bool nbi)
{
    struct net_peer *peer = &state->net->peers[to.peer->pe];
    bool asks = to.segment == SEG_GPU && peer->gpu_trust != NET_TRUSTED;
    weft_status status = asks ? net_order_request(state, peer) : net_order_write(state, peer);
    if (!status)
        status = net_stage_move(state, to, (void *)src, bytes, device, true);
    return status || nbi ? status : net_await_filling(state, peer);
}

static weft_status put(struct path_state *state, struct remote to, const void *src, size_t bytes,
                       bool nbi)
{
    struct net_peer *peer = &state->net->peers[to.peer->pe];
    bool large = bytes > SMALL_BYTES;
    weft_status status = net_failure(state->net, peer);
    if (!status && large && to.segment == SEG_GPU)
        return put_staged(state, to, src, bytes, false, nbi);
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

/* A value that fits one access is read by one. */
static bool is_value(struct remote at, size_t bytes)
{
    return bytes <= 8 && !(bytes & (bytes - 1)) && bytes && at.offset % bytes == 0;
}

static weft_status get(struct path_state *state, struct remote from, void *dst, size_t bytes,
                       bool nbi)
{
    struct net_peer *peer = &state->net->peers[from.peer->pe];
    weft_status status = net_failure(state->net, peer);
    if (status || !bytes) /* nobody would answer */
        return status;
    if (is_value(from, bytes))
        return get_part(state, from, dst, bytes, true, nbi);
    if (state->net->rails[0].traits.cpu_moves && bytes <= SMALL_GET_BYTES)
        return get_part(state, from, dst, bytes, false, nbi);
    bool few = bytes <= SMALL_GPU_GET_BYTES && peer->gpu_trust != NET_TRUSTED;
    if (from.segment == SEG_GPU && few)
        return net_get_by_requests(state, from, dst, bytes);
    status = from.segment == SEG_GPU ? net_stage_move(state, from, dst, bytes, false, false)
                                     : net_read(state, from, dst, bytes);
    return status || nbi ? status : net_await_reads(state, peer);
}

/* ----------------------------------------------------------------- GPU memory on the local side */

static bool on_device(const struct path_world *world, const void *local)
{
    return unlikely(world->gpu != NULL) && gpu_place_of(world->gpu, local) == GPU_PLACE_DEVICE;
}

/* A few bytes: through plain host memory. */
static weft_status through_host(struct remote at, void *local, size_t bytes, bool is_put)
{
    struct path_state *state = at.peer->state;
    struct gpu *gpu = at.peer->world->gpu;
    unsigned char host[SMALL_BYTES];
    weft_status status = is_put ? gpu_copy(gpu, NET_LANE, host, local, bytes, GPU_DONE) : WEFT_OK;
    if (status)
        return status;
    net_enter(state->net);
    status = is_put ? put(state, at, host, bytes, false) : get(state, at, host, bytes, false);
    pthread_mutex_unlock(&state->net->lock);
    return status || is_put ? status : gpu_copy(gpu, NET_LANE, local, host, bytes, GPU_DONE);
}

/* `local` is GPU memory. */
static weft_status from_device(struct remote at, void *local, size_t bytes, bool is_put, bool nbi)
{
    struct path_state *state = at.peer->state;
    struct net_peer *peer = &state->net->peers[at.peer->pe];
    if (bytes <= SMALL_BYTES)
        return through_host(at, local, bytes, is_put);
    net_enter(state->net);
    weft_status status = net_failure(state->net, peer);
    if (!status)
        status = is_put ? put_staged(state, at, local, bytes, true, nbi)
                        : net_stage_move(state, at, local, bytes, true, false);
    if (!status && !is_put && !nbi)
        status = net_await_reads(state, peer);
    pthread_mutex_unlock(&state->net->lock);
    return status;
}

/* ------------------------------------------------------------------------------------ the table */

static weft_status net_put(struct remote to, const void *src, size_t bytes, bool nbi)
{
    struct path_state *state = to.peer->state;
    if (on_device(to.peer->world, src))
        return from_device(to, (void *)src, bytes, true, nbi);
    net_enter(state->net);
    weft_status status = put(state, to, src, bytes, nbi);
    pthread_mutex_unlock(&state->net->lock);
    return status;
}

static weft_status net_get(struct remote from, void *dst, size_t bytes, bool nbi)
{
    struct path_state *state = from.peer->state;
    if (on_device(from.peer->world, dst))
        return from_device(from, dst, bytes, false, nbi);
    net_enter(state->net);
    weft_status status = get(state, from, dst, bytes, nbi);
    pthread_mutex_unlock(&state->net->lock);
    return status;
}

/* `value` and what a load fills are the caller's own: host memory. */
static weft_status net_store(struct remote to, const void *value, size_t width)
{
    struct path_state *state = to.peer->state;
    struct net_peer *peer = &state->net->peers[to.peer->pe];
    net_enter(state->net);
    weft_status status = net_order_request(state, peer);
    if (!status)
        status = put_record(state, to, NET_STORE, value, width);
    if (!status)
        net_flush_unanswered(state->net, peer);
    pthread_mutex_unlock(&state->net->lock);
    return status;
}

static weft_status net_load(struct remote from, void *value, size_t width)
{
    struct path_state *state = from.peer->state;
    net_enter(state->net);
    weft_status status = get_part(state, from, value, width, true, false);
    pthread_mutex_unlock(&state->net->lock);
    return status;
}

static weft_status atomic_record(struct path_state *state, struct remote at, weft_amo amo,
                                 size_t width, struct net_atomic atomic)
{
    struct net_record *record;
    weft_status status =
        net_request(state, &state->net->peers[at.peer->pe], sizeof atomic, &record);
    if (status)
        return status;
    record->kind = NET_ATOMIC;
    record->segment = (uint8_t)at.segment;
    record->amo = (uint8_t)amo;
    record->width = (uint8_t)width;
    record->offset = at.offset;
    memcpy(net_behind(record), &atomic, sizeof atomic);
    return WEFT_OK;
}

/* fetched: host memory. */
static weft_status atomic(struct path_state *state, struct remote at, weft_amo amo, size_t width,
                          struct net_atomic operands, void *fetched, bool nbi)
{
    struct net_peer *peer = &state->net->peers[at.peer->pe];
    weft_status status = net_order_request(state, peer);
    if (!status && fetched)
        status = net_await(state, peer, fetched, width, &operands.token);
    if (status)
        return status;
    status = atomic_record(state, at, amo, width, operands);
    if (status && fetched)
        net_cancel_answer(state->net, operands.token);
    if (status)
        return status;
    if (!fetched && nbi)
        return WEFT_OK;
    if (fetched)
        net_flush(state->net, peer, false);
    else
        net_flush_unanswered(state->net, peer);
    if (fetched && nbi)
        net_forget_answer(state->net, operands.token);
    return fetched && !nbi ? net_await_answer(state->net, operands.token) : WEFT_OK;
}

static weft_status net_atomic(struct remote at, weft_amo amo, size_t width, uint64_t value,
                              uint64_t expected, void *fetched, bool nbi)
{
    struct path_state *state = at.peer->state;
    struct gpu *gpu = at.peer->world->gpu;
    bool device = fetched && on_device(at.peer->world, fetched);
    uint64_t before = 0;
    net_enter(state->net);
    weft_status status = atomic(state, at, amo, width, (struct net_atomic){value, expected, 0},
                                device ? &before : fetched, nbi && !device);
    pthread_mutex_unlock(&state->net->lock);
    return status || !device ? status : gpu_copy(gpu, NET_LANE, fetched, &before, width, GPU_DONE);
}

static weft_status put_signal(struct path_state *state, struct remote to, const void *src,
                              size_t bytes, struct remote signal, uint64_t value, weft_signal_op op)
{
    struct net_peer *peer = &state->net->peers[to.peer->pe];
    weft_amo amo = op == WEFT_SIGNAL_SET ? WEFT_AMO_SET : WEFT_AMO_ADD;
    weft_status status = put(state, to, src, bytes, true);
    net_fence_channel(state->net, &state->channels[to.peer->pe]);
    if (!status)
        status = net_order_request(state, peer);
    if (!status)
        status =
            atomic_record(state, signal, amo, sizeof value, (struct net_atomic){.value = value});
    net_flush_unanswered(state->net, peer);
    return status;
}

static weft_status net_put_signal(struct remote to, const void *src, size_t bytes,
                                  struct remote signal, uint64_t value, weft_signal_op op, bool nbi)
{
    struct path_state *state = to.peer->state;
    struct net_peer *peer = &state->net->peers[to.peer->pe];
    weft_status status = WEFT_OK;
    if (on_device(to.peer->world, src)) {
        status = from_device(to, (void *)src, bytes, true, nbi);
        bytes = 0;
    }
    net_enter(state->net);
    if (!status)
        status = put_signal(state, to, src, bytes, signal, value, op);
    if (!status && !nbi)
        status = net_await_sources(state, peer);
    pthread_mutex_unlock(&state->net->lock);
    return status;
}

/* ------------------------------------------------------------------------------------- strided */

static weft_status net_iput(struct remote to, const void *src, const struct path_strides *s)
{
    struct path_state *state = to.peer->state;
    struct net_peer *peer = &state->net->peers[to.peer->pe];
    const char *from = src;
    weft_status status = WEFT_OK;
    bool device = on_device(to.peer->world, src);
    net_enter(state->net);
    for (size_t i = 0; i < s->n && !status && !device; i++) {
        status = put(state, to, from + i * s->local_step, s->element, true);
        to.offset += s->remote_step;
    }
    net_flush(state->net, peer, false);
    if (!status)
        status = net_await_sources(state, peer);
    pthread_mutex_unlock(&state->net->lock);
    for (size_t i = 0; i < s->n && !status && device; i++) {
        status = from_device(to, (char *)from + i * s->local_step, s->element, true, false);
        to.offset += s->remote_step;
    }
    return status;
}

static weft_status net_iget(struct remote from, void *dst, const struct path_strides *s)
{
    struct path_state *state = from.peer->state;
    struct net_peer *peer = &state->net->peers[from.peer->pe];
    char *to = dst;
    weft_status status = WEFT_OK;
    bool one_by_one = from.segment == SEG_GPU || on_device(from.peer->world, dst);
    for (size_t i = 0; i < s->n && !status && one_by_one; i++, from.offset += s->remote_step)
        status = net_get(from, to + i * s->local_step, s->element, false);
    if (one_by_one)
        return status;
    net_enter(state->net);
    status = net_failure(state->net, peer);
    for (size_t i = 0; i < s->n && !status; i++, from.offset += s->remote_step)
        status = net_read(state, from, to + i * s->local_step, s->element);
    if (!status)
        status = net_await_reads(state, peer);
    pthread_mutex_unlock(&state->net->lock);
    return status;
}

/* ----------------------------------------------------------------------------------- completion */

static weft_status net_quiet(struct path_state *state)
{
    net_enter(state->net);
    weft_status status = net_complete(state);
    pthread_mutex_unlock(&state->net->lock);
    return status;
}

static weft_status net_fence(struct path_state *state)
{
    net_enter(state->net);
    weft_status status = net_order(state);
    pthread_mutex_unlock(&state->net->lock);
    return status;
}

/* A PE that waits lets out what each context holds back; one of them looks for all. */
static bool net_progress(struct path_state *state)
{
    struct path_common *net = state->net;
    atomic_fetch_add_explicit(&net->polls, 1, memory_order_relaxed);
    if (pthread_mutex_trylock(&net->lock))
        return false;
    for (int i = 0; i < state->touched_count; i++)
        net_flush(net, &net->peers[state->touched[i]], false);
    if (!net->poller)
        net->poller = state;
    bool came = net->poller == state && net_poll(net);
    pthread_mutex_unlock(&net->lock);
    return came;
}

/* -------------------------------------------------------------------------- joining and leaving */

static const char *net_obstacle(const struct path_facts *facts)
{
    return facts->same_pe ? "the same PE" : NULL;
}

static weft_status net_look(const struct path_world *world, struct path_found *found)
{
    struct net_taken *taken;
    weft_status status = net_find(world, &taken, found->lacks, found->has);
    found->keeps = taken;
    found->drop = net_drop_taken;
    return status;
}

static weft_status net_join(const struct path_world *world, struct path_common **common)
{
    return net_open(world, world->found[PATH_NET]->keeps, common);
}

static void net_leave(struct path_common *common)
{
    net_close(common);
}

const struct path_ops path_net = {
    .name = "net",
    .unasked = true,
    .obstacle = net_obstacle,
    .look = net_look,
    .join = net_join,
    .leave = net_leave,
    .cpus = net_cpus,
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
