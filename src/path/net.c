/* SPDX-License-Identifier: Apache-2.0 */
/* Path `net`: a peer that is reached over a network, by libfabric. Its table of operations, and what a
 * context keeps; net.h says how an operation travels. */
#include "path/net_hmem.h"

#include "base/status.h"
#include "gpu/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SMALL_BYTES = 3 << 10,       /* puts up to this go in messages */
    SMALL_GET_BYTES = 1024,      /* gets, where the owner has to move the data in any case */
    SMALL_GPU_GET_BYTES = 8192,  /* gets from GPU memory */
    GPU_PIECE_BYTES = 256 << 10, /* of it, asked for at a time */
    NET_LANE = 2                 /* any: contexts are dealt out over all of them */
};

/* --------------------------------------------------------------------------------- what contexts keep */

static struct path_common *net_of(const struct path_world *world)
{
    return world->common[PATH_NET];
}

struct net_channel *net_touch(struct path_state *state, int pe)
{
    struct net_channel *channel = &state->channels[pe];
    if (!channel->touched) {
        channel->touched = true;
        state->touched[state->touched_count++] = pe;
    }
    return channel;
}

void net_free_state(struct path_state *state)
{
    free(state->channels);
    free(state->touched);
    free(state);
}

/* Frees a closed context that nothing points to any more. */
void net_drop_state(struct path_state *state)
{
    if (likely(!state->closed) || state->under_way)
        return;
    struct path_state **at = &state->net->closed;
    while (*at != state)
        at = &(*at)->next;
    *at = state->next;
    net_free_state(state);
}

weft_status net_open_state(const struct path_world *world, struct path_state **result)
{
    struct path_state *state = calloc(1, sizeof *state);
    if (state) {
        state->net = net_of(world);
        state->channels = calloc((size_t)world->npes, sizeof *state->channels);
        state->touched = calloc((size_t)world->npes, sizeof *state->touched);
    }
    if (!state || !state->channels || !state->touched) {
        if (state)
            net_free_state(state);
        return base_fail(WEFT_ERR_NO_MEMORY, "path net: no private memory for a context");
    }
    *result = state;
    return WEFT_OK;
}

/* What was never completed by a quiet is lost, as it may be. */
void net_close_state(struct path_state *state)
{
    struct path_common *net = state->net;
    pthread_mutex_lock(&net->lock);
    state->closed = true;
    state->next = net->closed;
    net->closed = state;
    net_drop_state(state);
    pthread_mutex_unlock(&net->lock);
}

/* --------------------------------------------------------------------------------- order to one peer */

static weft_status await_writes(struct path_state *state, struct net_peer *peer)
{
    struct net_channel *channel = &state->channels[peer->pe];
    struct path_wait wait = net_waiting(state->net, peer, BOX_OP_PUT, 0);
    weft_status status = WEFT_OK;
    while (!status && channel->writes)
        status = net_wait(state->net, peer, &wait);
    path_wait_end(&wait);
    return status;
}

static weft_status await_reads(struct path_state *state, struct net_peer *peer)
{
    struct net_channel *channel = &state->channels[peer->pe];
    struct path_wait wait = net_waiting(state->net, peer, BOX_OP_GET, 0);
    weft_status status = WEFT_OK;
    while (!status && channel->reads)
        status = net_wait(state->net, peer, &wait);
    path_wait_end(&wait);
    return status;
}

/* The source of staged puts may be used again. */
static weft_status await_filling(struct path_state *state, struct net_peer *peer)
{
    struct net_channel *channel = &state->channels[peer->pe];
    struct path_wait wait = net_waiting(state->net, peer, BOX_OP_PUT, 0);
    weft_status status = WEFT_OK;
    while (!status && channel->filling)
        status = net_wait(state->net, peer, &wait);
    path_wait_end(&wait);
    return status;
}

/* What is staged is a message or a write from now on. */
static weft_status await_staging(struct path_state *state, struct net_peer *peer)
{
    struct net_channel *channel = &state->channels[peer->pe];
    struct path_wait wait = net_waiting(state->net, peer, BOX_OP_PUT, 0);
    weft_status status = WEFT_OK;
    while (!status && channel->staging)
        status = net_wait(state->net, peer, &wait);
    path_wait_end(&wait);
    return status;
}

/* What is given next must not come before what was given so far. Costs nothing until then. */
static void fence_channel(const struct path_common *net, struct net_channel *channel)
{
    channel->fence = channel->last;
    channel->fence_staging = channel->staging > 0;
    channel->fence_writes =
        (net->rails[0].traits.confirmed && channel->writes > 0) || channel->stripes > 0;
}

/* Before a request: messages follow the writes in front of them, or else those have arrived. */
static weft_status order_request(struct path_state *state, struct net_peer *peer)
{
    struct net_channel *channel = &state->channels[peer->pe];
    if (likely(!channel->fence_writes && !channel->fence_staging))
        return WEFT_OK;
    weft_status status = channel->fence_staging ? await_staging(state, peer) : WEFT_OK;
    if (channel->fence_staging)
        fence_channel(state->net, channel);
    if (status || !channel->fence_writes)
        return status;
    channel->fence_writes = false;
    return await_writes(state, peer);
}

/* Before a write: it would overtake what the owner has yet to carry out. */
static weft_status order_write(struct path_state *state, struct net_peer *peer)
{
    struct net_channel *channel = &state->channels[peer->pe];
    weft_status status = order_request(state, peer);
    if (!status && channel->fence > peer->done)
        status = net_await_done(state->net, peer, channel->fence);
    return status;
}

/* -------------------------------------------------------------------------------------- by requests */

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

/* Asks for a part of the peer's memory, and waits for it unless `nbi`. value: it is one value, read by
 * one access. */
static weft_status get_part(struct path_state *state, struct remote from, void *dst, size_t bytes,
                            bool value, bool nbi)
{
    struct net_peer *peer = &state->net->peers[from.peer->pe];
    struct net_record *record;
    uint64_t token = 0;
    weft_status status = net_request(state, peer, sizeof(struct net_wanted), &record);
    if (status)
        return status;
    status = net_await(state, peer, dst, bytes, &token);
    record->kind = NET_GET;
    record->segment = (uint8_t)from.segment;
    record->width = value;
    record->offset = from.offset;
    memcpy(net_behind(record),
           &(struct net_wanted){.token = token, .bytes = status ? 0 : (uint32_t)bytes},
           sizeof(struct net_wanted));
    if (status)
        return status;
    if (nbi) {
        net_forget_answer(state->net, token);
        return WEFT_OK;
    }
    net_flush(state->net, peer, false);
    return net_await_answer(state->net, token, NULL);
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

/* ------------------------------------------------------------------------- put and get, lock held */

/* device: the source is GPU memory, of more than SMALL_BYTES. */
static weft_status put_staged(struct path_state *state, struct remote to, const void *src,
                              size_t bytes, bool device, bool nbi)
{
    struct net_peer *peer = &state->net->peers[to.peer->pe];
    bool asks = to.segment == SEG_GPU && peer->gpu_trust != NET_TRUSTED;
    weft_status status = asks ? order_request(state, peer) : order_write(state, peer);
    if (!status)
        status = net_stage_move(state, to, (void *)src, bytes, device, true);
    if (!status && !nbi)
        status = device ? await_filling(state, peer) : await_writes(state, peer);
    return status;
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
        status = large ? order_write(state, peer) : order_request(state, peer);
    if (status)
        return status;
    if (!large) {
        status = net_put_by_requests(state, to, src, bytes);
        if (!nbi)
            net_flush(state->net, peer, false);
        return status;
    }
    status = net_write(state, to, src, bytes);
    return status || nbi ? status : await_writes(state, peer);
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
    return status || nbi ? status : await_reads(state, peer);
}

/* ------------------------------------------------------------------- GPU memory on the local side */

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
    pthread_mutex_lock(&state->net->lock);
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
    pthread_mutex_lock(&state->net->lock);
    weft_status status = net_failure(state->net, peer);
    if (!status)
        status = is_put ? put_staged(state, at, local, bytes, true, nbi)
                        : net_stage_move(state, at, local, bytes, true, false);
    if (!status && !is_put && !nbi)
        status = await_reads(state, peer);
    pthread_mutex_unlock(&state->net->lock);
    return status;
}

/* ------------------------------------------------------------------------------------ the table */

static weft_status net_put(struct remote to, const void *src, size_t bytes, bool nbi)
{
    struct path_state *state = to.peer->state;
    if (on_device(to.peer->world, src))
        return from_device(to, (void *)src, bytes, true, nbi);
    pthread_mutex_lock(&state->net->lock);
    weft_status status = put(state, to, src, bytes, nbi);
    pthread_mutex_unlock(&state->net->lock);
    return status;
}

static weft_status net_get(struct remote from, void *dst, size_t bytes, bool nbi)
{
    struct path_state *state = from.peer->state;
    if (on_device(from.peer->world, dst))
        return from_device(from, dst, bytes, false, nbi);
    pthread_mutex_lock(&state->net->lock);
    weft_status status = get(state, from, dst, bytes, nbi);
    pthread_mutex_unlock(&state->net->lock);
    return status;
}

/* `value` and what a load fills are the caller's own: host memory. */
static weft_status net_store(struct remote to, const void *value, size_t width)
{
    struct path_state *state = to.peer->state;
    struct net_peer *peer = &state->net->peers[to.peer->pe];
    pthread_mutex_lock(&state->net->lock);
    weft_status status = order_request(state, peer);
    if (!status)
        status = put_record(state, to, NET_STORE, value, width);
    if (!status)
        net_flush(state->net, peer, false);
    pthread_mutex_unlock(&state->net->lock);
    return status;
}

static weft_status net_load(struct remote from, void *value, size_t width)
{
    struct path_state *state = from.peer->state;
    pthread_mutex_lock(&state->net->lock);
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
    weft_status status = order_request(state, peer);
    if (!status && fetched)
        status = net_await(state, peer, fetched, width, &operands.token);
    if (status)
        return status;
    status = atomic_record(state, at, amo, width, operands);
    if (status && fetched) {
        net_forget_answer(state->net, operands.token);
        net_fail_answers(state->net, peer);
    }
    if (status)
        return status;
    if (!fetched && nbi)
        return WEFT_OK;
    net_flush(state->net, peer, false);
    if (fetched && nbi)
        net_forget_answer(state->net, operands.token);
    return fetched && !nbi ? net_await_answer(state->net, operands.token, NULL) : WEFT_OK;
}

static weft_status net_atomic(struct remote at, weft_amo amo, size_t width, uint64_t value,
                              uint64_t expected, void *fetched, bool nbi)
{
    struct path_state *state = at.peer->state;
    struct gpu *gpu = at.peer->world->gpu;
    bool device = fetched && on_device(at.peer->world, fetched);
    uint64_t before = 0;
    pthread_mutex_lock(&state->net->lock);
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
    fence_channel(state->net, &state->channels[to.peer->pe]);
    if (!status)
        status = order_request(state, peer);
    if (!status)
        status =
            atomic_record(state, signal, amo, sizeof value, (struct net_atomic){.value = value});
    net_flush(state->net, peer, false);
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
    pthread_mutex_lock(&state->net->lock);
    if (!status)
        status = put_signal(state, to, src, bytes, signal, value, op);
    if (!status && !nbi)
        status = await_writes(state, peer);
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
    pthread_mutex_lock(&state->net->lock);
    for (size_t i = 0; i < s->n && !status && !device; i++) {
        status = put(state, to, from + i * s->local_step, s->element, true);
        to.offset += s->remote_step;
    }
    net_flush(state->net, peer, false);
    if (!status)
        status = await_writes(state, peer);
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
    pthread_mutex_lock(&state->net->lock);
    status = net_failure(state->net, peer);
    for (size_t i = 0; i < s->n && !status; i++, from.offset += s->remote_step)
        status = net_read(state, from, to + i * s->local_step, s->element);
    if (!status)
        status = await_reads(state, peer);
    pthread_mutex_unlock(&state->net->lock);
    return status;
}

/* ------------------------------------------------------------------------------------ completion */

static weft_status tell_failure(struct path_state *state)
{
    weft_status failed = state->failed;
    state->failed = WEFT_OK;
    return failed ? base_fail(failed, "%s", state->sentence) : WEFT_OK;
}

/* The owner will tell when it is done with all that this context has given it. */
static void ask(struct path_state *state, int pe)
{
    struct net_channel *channel = &state->channels[pe];
    struct net_peer *peer = &state->net->peers[pe];
    if (channel->unconfirmed) {
        /* The answer to a message behind the writes confirms them. */
        if (!peer->open)
            peer->asked = peer->asked < peer->sent ? peer->asked : peer->sent - 1;
        net_flush(state->net, peer, true);
        channel->last = peer->sent;
        channel->unconfirmed = false;
    } else if (channel->last > peer->done && channel->last > peer->asked) {
        net_flush(state->net, peer, true);
    }
}

static weft_status complete(struct path_state *state, int pe)
{
    struct net_channel *channel = &state->channels[pe];
    struct net_peer *peer = &state->net->peers[pe];
    weft_status status = await_writes(state, peer);
    if (!status)
        status = await_reads(state, peer);
    if (!status && channel->last > peer->done)
        status = net_await_done(state->net, peer, channel->last);
    if (!status)
        status = net_failure(state->net, peer);
    return status;
}

/* Channels that another thread has used meanwhile stay in the list. */
static void forget_idle(struct path_state *state)
{
    int kept = 0;
    for (int i = 0; i < state->touched_count; i++) {
        int pe = state->touched[i];
        struct net_channel *channel = &state->channels[pe];
        channel->touched = channel->writes || channel->reads || channel->unconfirmed ||
                           channel->staging || channel->filling ||
                           channel->last > state->net->peers[pe].done;
        if (channel->touched)
            state->touched[kept++] = pe;
    }
    state->touched_count = kept;
}

static weft_status await_answers(struct path_state *state)
{
    const struct path_common *net = state->net;
    weft_status status = WEFT_OK;
    for (int i = 0; i < state->touched_count && !status; i++) {
        struct net_peer *peer = &state->net->peers[state->touched[i]];
        struct path_wait wait = net_waiting(net, peer, BOX_OP_QUIET, 0);
        while (!status && state->under_way)
            status = net_wait(state->net, peer, &wait);
        path_wait_end(&wait);
    }
    return status;
}

/* Word of all that is staged has gone, and what must be there before it is confirmed is. */
static weft_status prepare_quiet(struct path_state *state, int pe)
{
    struct net_channel *channel = &state->channels[pe];
    struct net_peer *peer = &state->net->peers[pe];
    weft_status status = await_staging(state, peer);
    if (!status && channel->settle)
        status = await_writes(state, peer);
    channel->settle = false;
    return status;
}

weft_status net_complete(struct path_state *state)
{
    weft_status status = WEFT_OK, first;
    for (int i = 0; i < state->touched_count && !status; i++)
        status = prepare_quiet(state, state->touched[i]);
    for (int i = 0; i < state->touched_count; i++)
        ask(state, state->touched[i]);
    for (int i = 0; i < state->touched_count && !status; i++)
        status = complete(state, state->touched[i]);
    if (!status && state->under_way)
        status = await_answers(state);
    first = tell_failure(state);
    forget_idle(state);
    return first ? first : status;
}

static weft_status net_quiet(struct path_state *state)
{
    pthread_mutex_lock(&state->net->lock);
    weft_status status = net_complete(state);
    pthread_mutex_unlock(&state->net->lock);
    return status;
}

static weft_status net_fence(struct path_state *state)
{
    pthread_mutex_lock(&state->net->lock);
    weft_status status = tell_failure(state);
    for (int i = 0; i < state->touched_count; i++) {
        int pe = state->touched[i];
        fence_channel(state->net, &state->channels[pe]);
        if (!status)
            status = net_failure(state->net, &state->net->peers[pe]);
    }
    pthread_mutex_unlock(&state->net->lock);
    return status;
}

/* A PE that waits lets out what it holds back. */
static void net_progress(struct path_state *state)
{
    struct path_common *net = state->net;
    atomic_fetch_add_explicit(&net->polls, 1, memory_order_relaxed);
    if (pthread_mutex_trylock(&net->lock))
        return;
    for (int i = 0; i < state->touched_count; i++)
        net_flush(net, &net->peers[state->touched[i]], false);
    net_poll(net);
    pthread_mutex_unlock(&net->lock);
}

/* --------------------------------------------------------------------------- joining and leaving */

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
