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

struct path_state {
    struct gpu *gpu; /* this PE's GPU */
    unsigned lane;
};

/* Finds the relay GPU for an address and the address as that GPU sees it. */
static weft_status locate(struct remote at, struct gpu **side, char **address)
{
    const struct path_world *world = at.peer->world;
    const struct gpu *gpu = world->gpu;
    int slot = gpu->slot_of[at.peer->pe];
    *side = slot < 0 ? NULL : gpu_relay_gpu(gpu, slot);
    /* The relay GPU could access it when the path was chosen. The heap may have grown since, and
     * mapping the new memory may have failed. */
    if (!*side)
        return base_fail(WEFT_ERR_NO_PATH,
                         "the GPU memory of PE %d is not relayed to PE %d any more (%s)",
                         at.peer->pe, world->pe,
                         slot < 0 ? "another kernel" : gpu->heap.windows[slot].relay_text);
    *address = (char *)(uintptr_t)(gpu->heap.windows[slot].base + at.offset);
    return WEFT_OK;
}

/* The relay GPU can access both sides. */
static weft_status copy_relayed(struct remote at, struct gpu *side, void *dst, const void *src,
                                size_t bytes, enum gpu_copy_mode manner)
{
    struct path_state *state = at.peer->state;
    int slot = state->gpu->slot_of[at.peer->pe];
    return gpu_copy_peer(state->gpu, side, slot, state->lane, dst, src, bytes, manner);
}

static weft_status relay_put(struct remote to, const void *src, size_t bytes, bool nbi)
{
    unsigned lane = to.peer->state->lane;
    struct gpu *side;
    char *dst = NULL;
    weft_status status = locate(to, &side, &dst);
    if (status)
        return status;
    if (!gpu_relay_reaches(side, src))
        return gpu_relay_copy_staged(side, lane, dst, src, bytes);
    if (!nbi && gpu_place_of(side, src) == GPU_PLACE_PLAIN)
        return gpu_copy_plain(side, lane, dst, src, bytes);
    return copy_relayed(to, side, dst, src, bytes, nbi ? GPU_ANY_ORDER : GPU_DONE);
}

static weft_status relay_get(struct remote from, void *dst, size_t bytes, bool nbi)
{
    unsigned lane = from.peer->state->lane;
    struct gpu *side;
    char *src = NULL;
    weft_status status = locate(from, &side, &src);
    if (status)
        return status;
    if (!gpu_relay_reaches(side, dst))
        return gpu_relay_copy_staged(side, lane, dst, src, bytes);
    return copy_relayed(from, side, dst, src, bytes, nbi ? GPU_ANY_ORDER : GPU_DONE);
}

/* Copies the elements one by one, for memory that kernels of the relay GPU cannot access. */
static weft_status copy_strided_relayed(struct gpu *side, struct remote at, char *local, bool put,
                                        const struct path_strides *s)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < s->n && !status;
         i++, at.offset += s->remote_step, local += s->local_step)
        status =
            put ? relay_put(at, local, s->element, true) : relay_get(at, local, s->element, true);
    return status ? status : gpu_quiet(side);
}

static weft_status strided(struct remote at, char *local, bool put, const struct path_strides *s)
{
    struct gpu *side;
    char *there = NULL;
    weft_status status = locate(at, &side, &there);
    if (status)
        return status;
    if (gpu_place_of(side, local) == GPU_PLACE_PLAIN || !gpu_relay_reaches(side, local))
        return copy_strided_relayed(side, at, local, put, s);
    ptrdiff_t remote_step = (ptrdiff_t)s->remote_step, local_step = (ptrdiff_t)s->local_step;
    unsigned lane = at.peer->state->lane;
    if (put)
        return gpu_copy_strided(side, lane, there, local, remote_step, local_step, s->element,
                                s->n);
    return gpu_copy_strided(side, lane, local, there, local_step, remote_step, s->element, s->n);
}

static weft_status relay_iput(struct remote to, const void *src, const struct path_strides *s)
{
    return strided(to, (char *)src, true, s);
}

static weft_status relay_iget(struct remote from, void *dst, const struct path_strides *s)
{
    return strided(from, dst, false, s);
}

/* Stores a value by one access, so that no reader sees part of it. */
static weft_status relay_store(struct remote to, const void *value, size_t width)
{
    struct gpu *side;
    uint64_t bits = 0;
    char *at = NULL;
    weft_status status = locate(to, &side, &at);
    if (status)
        return status;
    memcpy(&bits, value, width); /* the low bytes: little-endian, as every GPU is */
    return gpu_access(side, to.peer->state->lane, (uintptr_t)at, GPU_ACCESS_STORE, width, bits, 0,
                      NULL);
}

static weft_status relay_load(struct remote from, void *value, size_t width)
{
    struct gpu *side;
    uint64_t bits = 0;
    char *at = NULL;
    weft_status status = locate(from, &side, &at);
    if (!status)
        status = gpu_access(side, from.peer->state->lane, (uintptr_t)at, GPU_ACCESS_LOAD, width, 0,
                            0, &bits);
    memcpy(value, &bits, width);
    return status;
}

static weft_status relay_atomic(struct remote at, weft_amo amo, size_t width, uint64_t value,
                                uint64_t expected, void *fetched, bool nbi)
{
    struct gpu *side;
    uint64_t before = 0;
    char *address = NULL;
    (void)nbi;
    weft_status status = locate(at, &side, &address);
    if (!status)
        status = gpu_access(side, at.peer->state->lane, (uintptr_t)address, (int)amo, width, value,
                            expected, fetched ? &before : NULL);
    if (fetched && !status)
        memcpy(fetched, &before, width);
    return status;
}

/* Data and signal are at the same peer, so the same relay GPU carries both. */
static weft_status relay_put_signal(struct remote to, const void *src, size_t bytes,
                                    struct remote signal, uint64_t value, weft_signal_op op,
                                    bool nbi)
{
    unsigned lane = to.peer->state->lane;
    struct gpu *side;
    char *dst = NULL, *at = NULL;
    weft_status status = locate(to, &side, &dst);
    if (!status)
        status = locate(signal, &side, &at);
    if (status)
        return status;
    bool reached = gpu_relay_reaches(side, src);
    bool plain = reached && gpu_place_of(side, src) == GPU_PLACE_PLAIN;
    if (!reached)
        status = gpu_relay_copy_staged(side, lane, dst, src, bytes);
    else if (plain && !nbi)
        status = gpu_copy_plain(side, lane, dst, src, bytes);
    else
        status = copy_relayed(to, side, dst, src, bytes, GPU_IN_ORDER);
    if (!status)
        status = gpu_signal(side, lane, (uintptr_t)at, value, op);
    return !status && !nbi && reached && !plain ? gpu_stream_quiet(side, lane) : status;
}

/* Also the fence: a later operation may take another route and must not overtake a copy. Waits for
 * all relay GPUs, also for one that no peer uses any more. */
static weft_status relay_quiet(struct path_state *state)
{
    const struct gpu *gpu = state->gpu;
    weft_status status = WEFT_OK;
    for (int i = 0; gpu->relay_gpus && i < gpu->heap.relay_count && !status; i++) {
        struct gpu *side = gpu->relay_gpus[i];
        if (side)
            status = gpu_quiet(side);
    }
    return status;
}

static weft_status relay_open(const struct path_world *world, struct path_state **state)
{
    static _Atomic unsigned turn;
    *state = NULL;
    if (!world->gpu)
        return WEFT_OK;
    *state = malloc(sizeof **state);
    if (!*state)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a context on path relay");
    **state = (struct path_state){world->gpu, atomic_fetch_add(&turn, 1) % GPU_STREAMS};
    return WEFT_OK;
}

static void relay_close(struct path_state *state)
{
    free(state);
}

enum gpu_relay_policy relay_wish(const struct path_order *order)
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
    .unasked = true,
    .gpu_only = true,
    .obstacle = relay_obstacle,
    .way = relay_way,
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
