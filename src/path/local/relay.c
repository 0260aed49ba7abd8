/* SPDX-License-Identifier: Apache-2.0 */
/* Path `relay`: GPU memory of a PE of this node that this PE's GPU cannot access. A third GPU,
 * which can access both, copies by its copy engines and by kernels, over both links at once and
 * without a buffer (gpu/multipath/relay.h). The operations are those of path p2p, requested from
 * the relay GPU. Its internal streams order and complete them. */
#include "gpu/multipath/relay.h"
#include "gpu/multipath/stripe.h"
#include "path/local/relay.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* State of one context. */
struct relay_state {
    struct gpu *gpu; /* this PE's GPU */
    unsigned stream; /* internal stream of its copies */
};

static struct relay_state *relay_state_of(const struct peer *peer)
{
    return (struct relay_state *)(void *)peer->state;
}

/* Finds the relay GPU for an address and the address as that GPU sees it. */
static weft_status find_relay_gpu(struct remote at, struct gpu **relay_gpu, char **address)
{
    const struct path_world *world = at.peer->world;
    const struct gpu *gpu = world->gpu;
    int slot = gpu->slot_of[at.peer->pe];
    *relay_gpu = slot < 0 ? NULL : gpu_relay_gpu(gpu, slot);
    /* The relay GPU could access it when the path was chosen. The heap may have grown since, and
     * mapping the new memory may have failed. */
    if (!*relay_gpu)
        return base_fail(WEFT_ERR_NO_PATH,
                         "the GPU memory of PE %d is not relayed to PE %d any more (%s)",
                         at.peer->pe, world->pe,
                         slot < 0 ? "another kernel" : gpu->heap.windows[slot].relay_text);
    *address = (char *)(uintptr_t)(gpu->heap.windows[slot].base + at.offset);
    return WEFT_OK;
}

/* The relay GPU can access both sides. */
static weft_status copy_relayed(struct remote at, struct gpu *relay_gpu, void *dst, const void *src,
                                size_t bytes, enum gpu_copy_mode manner)
{
    const struct relay_state *state = relay_state_of(at.peer);
    int slot = state->gpu->slot_of[at.peer->pe];
    return gpu_copy_peer(state->gpu, relay_gpu, slot, state->stream, dst, src, bytes, manner);
}

static weft_status relay_put(struct remote to, const void *src, size_t bytes, bool nbi)
{
    unsigned stream = relay_state_of(to.peer)->stream;
    struct gpu *relay_gpu;
    char *dst = NULL;
    weft_status status = find_relay_gpu(to, &relay_gpu, &dst);
    if (status)
        return status;
    if (!gpu_relay_reaches(relay_gpu, src))
        return gpu_relay_copy_staged(relay_gpu, stream, dst, src, bytes);
    if (!nbi && gpu_place_of(relay_gpu, src) == GPU_PLACE_PLAIN)
        return gpu_copy_plain(relay_gpu, stream, dst, src, bytes);
    return copy_relayed(to, relay_gpu, dst, src, bytes, nbi ? GPU_ANY_ORDER : GPU_DONE);
}

static weft_status relay_get(struct remote from, void *dst, size_t bytes, bool nbi)
{
    unsigned stream = relay_state_of(from.peer)->stream;
    struct gpu *relay_gpu;
    char *src = NULL;
    weft_status status = find_relay_gpu(from, &relay_gpu, &src);
    if (status)
        return status;
    if (!gpu_relay_reaches(relay_gpu, dst))
        return gpu_relay_copy_staged(relay_gpu, stream, dst, src, bytes);
    return copy_relayed(from, relay_gpu, dst, src, bytes, nbi ? GPU_ANY_ORDER : GPU_DONE);
}

/* Copies the elements one by one, for memory that kernels of the relay GPU cannot access. */
static weft_status copy_strided_relayed(struct gpu *relay_gpu, struct remote at, char *local,
                                        bool put, const struct path_strides *s)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < s->n && !status;
         i++, at.offset += s->remote_step, local += s->local_step)
        status =
            put ? relay_put(at, local, s->element, true) : relay_get(at, local, s->element, true);
    return status ? status : gpu_quiet(relay_gpu);
}

static weft_status relay_copy_strided(struct remote at, char *local, bool put,
                                      const struct path_strides *s)
{
    struct gpu *relay_gpu;
    char *there = NULL;
    weft_status status = find_relay_gpu(at, &relay_gpu, &there);
    if (status)
        return status;
    if (gpu_place_of(relay_gpu, local) == GPU_PLACE_PLAIN || !gpu_relay_reaches(relay_gpu, local))
        return copy_strided_relayed(relay_gpu, at, local, put, s);
    ptrdiff_t remote_step = (ptrdiff_t)s->remote_step, local_step = (ptrdiff_t)s->local_step;
    unsigned stream = relay_state_of(at.peer)->stream;
    if (put)
        return gpu_copy_strided(relay_gpu, stream, there, local, remote_step, local_step,
                                s->element, s->n);
    return gpu_copy_strided(relay_gpu, stream, local, there, local_step, remote_step, s->element,
                            s->n);
}

static weft_status relay_iput(struct remote to, const void *src, const struct path_strides *s)
{
    return relay_copy_strided(to, (char *)src, true, s);
}

static weft_status relay_iget(struct remote from, void *dst, const struct path_strides *s)
{
    return relay_copy_strided(from, dst, false, s);
}

/* Stores a value by one access, so that no reader sees part of it. */
static weft_status relay_store(struct remote to, const void *value, size_t width)
{
    struct gpu *relay_gpu;
    uint64_t bits = 0;
    char *at = NULL;
    weft_status status = find_relay_gpu(to, &relay_gpu, &at);
    if (status)
        return status;
    memcpy(&bits, value, width); /* the low bytes: little-endian, as every GPU is */
    return gpu_access(relay_gpu, relay_state_of(to.peer)->stream, (uintptr_t)at, GPU_ACCESS_STORE,
                      width, bits, 0, NULL);
}

static weft_status relay_load(struct remote from, void *value, size_t width)
{
    struct gpu *relay_gpu;
    uint64_t bits = 0;
    char *at = NULL;
    weft_status status = find_relay_gpu(from, &relay_gpu, &at);
    if (!status)
        status = gpu_access(relay_gpu, relay_state_of(from.peer)->stream, (uintptr_t)at,
                            GPU_ACCESS_LOAD, width, 0, 0, &bits);
    memcpy(value, &bits, width);
    return status;
}

static weft_status relay_atomic(struct remote at, weft_amo amo, size_t width, uint64_t value,
                                uint64_t expected, void *fetched, bool nbi)
{
    struct gpu *relay_gpu;
    uint64_t before = 0;
    char *address = NULL;
    (void)nbi;
    weft_status status = find_relay_gpu(at, &relay_gpu, &address);
    if (!status)
        status = gpu_access(relay_gpu, relay_state_of(at.peer)->stream, (uintptr_t)address,
                            (int)amo, width, value, expected, fetched ? &before : NULL);
    if (fetched && !status)
        memcpy(fetched, &before, width);
    return status;
}

/* Data and signal are at the same peer, so the same relay GPU carries both. */
static weft_status relay_put_signal(struct remote to, const void *src, size_t bytes,
                                    struct remote signal, uint64_t value, weft_signal_op op,
                                    bool nbi)
{
    unsigned stream = relay_state_of(to.peer)->stream;
    struct gpu *relay_gpu;
    char *dst = NULL, *at = NULL;
    weft_status status = find_relay_gpu(to, &relay_gpu, &dst);
    if (!status)
        status = find_relay_gpu(signal, &relay_gpu, &at);
    if (status)
        return status;
    bool reached = gpu_relay_reaches(relay_gpu, src);
    bool plain = reached && gpu_place_of(relay_gpu, src) == GPU_PLACE_PLAIN;
    if (!reached)
        status = gpu_relay_copy_staged(relay_gpu, stream, dst, src, bytes);
    else if (plain && !nbi)
        status = gpu_copy_plain(relay_gpu, stream, dst, src, bytes);
    else
        status = copy_relayed(to, relay_gpu, dst, src, bytes, GPU_IN_ORDER);
    if (!status)
        status = gpu_signal(relay_gpu, stream, (uintptr_t)at, value, op);
    return !status && !nbi && reached && !plain ? gpu_stream_quiet(relay_gpu, stream) : status;
}

/* Also the fence: a later operation may take another route and must not overtake a copy. Waits for
 * all relay GPUs, also for one that no peer uses any more. */
static weft_status relay_quiet(struct path_state *opaque)
{
    const struct gpu *gpu = ((const struct relay_state *)(const void *)opaque)->gpu;
    weft_status status = WEFT_OK;
    for (int i = 0; gpu->relay_gpus && i < gpu->heap.relay_count && !status; i++) {
        struct gpu *relay_gpu = gpu->relay_gpus[i];
        if (relay_gpu)
            status = gpu_quiet(relay_gpu);
    }
    return status;
}

static weft_status relay_open(const struct path_world *world, struct path_state **result)
{
    static _Atomic unsigned next_stream;
    *result = NULL;
    if (!world->gpu)
        return WEFT_OK;
    struct relay_state *state = malloc(sizeof *state);
    if (!state)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a context on path relay");
    *state = (struct relay_state){world->gpu, atomic_fetch_add(&next_stream, 1) % GPU_STREAMS};
    *result = (struct path_state *)(void *)state;
    return WEFT_OK;
}

static void relay_close(struct path_state *state)
{
    free(state);
}

enum gpu_relay_policy relay_policy_of_order(const struct path_order *order)
{
    bool named = false;
    for (int i = 0; i < order->count; i++)
        named |= order->order[i] == PATH_RELAY;
    if (order->excluded & 1u << PATH_RELAY || (order->forced && !named))
        return GPU_RELAY_NEVER;
    return named ? GPU_RELAY_ALWAYS : GPU_RELAY_WHERE_NEEDED;
}

static const char *relay_obstacle(const struct path_facts *facts)
{
    if (facts->same_pe)
        return "the same PE";
    if (facts->kind != WEFT_GPU)
        return "for GPU memory only";
    if (!facts->same_node)
        return "the PEs run on different kernels";
    if (facts->relay_gpu)
        return NULL;
    return facts->no_relay_gpu ? facts->no_relay_gpu : "no third GPU reaches both";
}

static const char *relay_way(const struct path_facts *facts)
{
    return facts->relay_gpu;
}

const struct path_ops path_relay = {
    .name = "relay",
    .why = "over a third GPU that reaches both",
    .automatic = true,
    .gpu_only = true,
    .obstacle = relay_obstacle,
    .route = relay_way,
    .open = relay_open,
    .close = relay_close,
    .put = relay_put,
    .get = relay_get,
    .iput = relay_iput,
    .iget = relay_iget,
    .store = relay_store,
    .load = relay_load,
    .atomic = relay_atomic,
    .put_signal = relay_put_signal,
    .quiet = relay_quiet,
};
