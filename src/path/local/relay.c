/* SPDX-License-Identifier: Apache-2.0 */
/* Path `relay`: GPU memory of a PE of this node that this PE's GPU cannot access. A third GPU,
 * which can access both, copies by its copy engines and by kernels, over both links at once and
 * without a buffer (gpu/multipath/relay.h). The operations are those of path p2p, requested from
 * the relay GPU. Its internal streams order and complete them. */
#include "gpu/multipath/relay.h"
#include "path/local/by_gpu.h"
#include "path/local/relay.h"

#include "base/status.h"

#include <stdlib.h>

/* Finds the relay GPU for a place and the address as that GPU sees it. */
static weft_status relay_find(struct remote at, struct gpu_target *target)
{
    const struct path_world *world = at.peer->world;
    const struct gpu *gpu = world->gpu;
    target->slot = gpu->slot_of[at.peer->pe];
    target->gpu = target->slot < 0 ? NULL : gpu_relay_gpu(gpu, target->slot);
    /* The relay GPU could access it when the path was chosen. The heap may have grown since, and
     * mapping the new memory may have failed. */
    if (!target->gpu)
        return base_fail(
            WEFT_ERR_NO_PATH, "the GPU memory of PE %d is not relayed to PE %d any more (%s)",
            at.peer->pe, world->pe,
            target->slot < 0 ? "another kernel" : gpu->heap.windows[target->slot].relay_text);
    target->address = (char *)(uintptr_t)(gpu->heap.windows[target->slot].base + at.offset);
    return WEFT_OK;
}

static weft_status relay_iput(struct remote to, const void *src, const struct path_strides *s)
{
    return by_gpu_strided(to, (char *)src, true, s);
}

static weft_status relay_iget(struct remote from, void *dst, const struct path_strides *s)
{
    return by_gpu_strided(from, dst, false, s);
}

/* Also the fence: a later operation may take another route and must not overtake a copy. Waits for
 * all relay GPUs, also for one that no peer uses any more. */
static weft_status relay_quiet(struct path_state *opaque)
{
    const struct gpu *gpu = ((const struct by_gpu *)(const void *)opaque)->own;
    weft_status status = WEFT_OK;
    for (int i = 0; gpu->multipath.relay_gpus && i < gpu->heap.relay_count && !status; i++) {
        struct gpu *relay_gpu = gpu->multipath.relay_gpus[i];
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
    struct by_gpu *state = malloc(sizeof *state);
    if (!state)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a context on path relay");
    *state =
        (struct by_gpu){world->gpu, atomic_fetch_add(&next_stream, 1) % GPU_STREAMS, relay_find};
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
    .put = by_gpu_put,
    .get = by_gpu_get,
    .iput = relay_iput,
    .iget = relay_iget,
    .store = by_gpu_store,
    .load = by_gpu_load,
    .atomic = by_gpu_atomic,
    .put_signal = by_gpu_put_signal,
    .quiet = relay_quiet,
};
