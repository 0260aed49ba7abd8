/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of the paths `self` and `p2p` that touch GPU memory on either side: the host requests
 * copies, atomics and signals from its GPU, where the CPU has not mapped the memory (mapped.h). */
#include "path/local/by_gpu.h"
#include "path/local/mapped.h"
#include "path/local/p2p.h"

#include "base/status.h"

#include <stdlib.h>

/* State of one context. */
struct p2p_state {
    struct by_gpu by_gpu;
    struct mapped mapped;
};

static struct mapped *mapped_of(const struct peer *peer)
{
    return &((struct p2p_state *)(void *)peer->state)->mapped;
}

/* Finds the address of a place as this PE's GPU sees it. */
static weft_status p2p_find(struct remote at, struct gpu_target *target)
{
    const struct path_world *world = at.peer->world;
    if (at.segment != SEG_GPU) {
        target->slot = -1;
        target->address = world->map[at.peer->pe][at.segment];
        if (!target->address)
            return base_fail(WEFT_ERR_NO_PATH, "the host memory of PE %d is not mapped here",
                             at.peer->pe);
        target->address += at.offset;
        return WEFT_OK;
    }
    target->slot = world->gpu->slot_of[at.peer->pe];
    if (target->slot >= 0)
        target->address = (char *)(uintptr_t)gpu_address(world->gpu, target->slot, at.offset);
    /* The peer's memory was mapped when the path was chosen. The heap may have grown since, and
     * mapping the new memory may have failed. */
    return target->address
               ? WEFT_OK
               : base_fail(WEFT_ERR_NO_PATH,
                           "the GPU memory of PE %d cannot be accessed from PE %d (%s)",
                           at.peer->pe, world->pe,
                           target->slot < 0 ? "another kernel"
                                            : world->gpu->heap.windows[target->slot].evidence);
}

weft_status p2p_gpu_open(const struct path_world *world, struct path_state **result)
{
    static _Atomic unsigned next_stream;
    *result = NULL;
    if (!world->gpu)
        return WEFT_OK;
    struct p2p_state *state = calloc(1, sizeof *state);
    if (!state)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a context's GPU state");
    state->by_gpu =
        (struct by_gpu){world->gpu, atomic_fetch_add(&next_stream, 1) % GPU_STREAMS, p2p_find};
    mapped_open(&state->mapped, world);
    *result = (struct path_state *)(void *)state;
    return WEFT_OK;
}

void p2p_gpu_close(struct path_state *state)
{
    free(state);
}

bool p2p_gpu_is_device(const struct path_state *opaque, const void *local)
{
    const struct p2p_state *state = (const struct p2p_state *)(const void *)opaque;
    return state && gpu_place_of(state->by_gpu.own, local) == GPU_PLACE_DEVICE;
}

weft_status p2p_gpu_put(struct remote to, const void *src, size_t bytes, bool nbi)
{
    return mapped_put(mapped_of(to.peer), to, src, bytes) ? WEFT_OK
                                                          : by_gpu_put(to, src, bytes, nbi);
}

weft_status p2p_gpu_get(struct remote from, void *dst, size_t bytes, bool nbi)
{
    return mapped_get(mapped_of(from.peer), from, dst, bytes) ? WEFT_OK
                                                              : by_gpu_get(from, dst, bytes, nbi);
}

weft_status p2p_gpu_strided(struct remote at, void *local, bool put, const struct path_strides *s)
{
    return mapped_strided(mapped_of(at.peer), at, local, put, s)
               ? WEFT_OK
               : by_gpu_strided(at, local, put, s);
}

weft_status p2p_gpu_store(struct remote to, const void *value, size_t width)
{
    return mapped_store(mapped_of(to.peer), to, value, width) ? WEFT_OK
                                                              : by_gpu_store(to, value, width);
}

weft_status p2p_gpu_load(struct remote from, void *value, size_t width)
{
    return mapped_load(from, value, width) ? WEFT_OK : by_gpu_load(from, value, width);
}

weft_status p2p_gpu_atomic(struct remote at, weft_amo amo, size_t width, uint64_t value,
                           uint64_t expected, void *fetched, bool nbi)
{
    if (amo == WEFT_AMO_SET && mapped_store(mapped_of(at.peer), at, &value, width))
        return WEFT_OK;
    if (amo == WEFT_AMO_FETCH && mapped_load(at, fetched, width))
        return WEFT_OK;
    return by_gpu_atomic(at, amo, width, value, expected, fetched, nbi);
}

weft_status p2p_gpu_put_signal(struct remote to, const void *src, size_t bytes,
                               struct remote signal, uint64_t value, weft_signal_op op, bool nbi)
{
    if (op == WEFT_SIGNAL_SET && signal.segment == SEG_GPU &&
        mapped_put_signal(mapped_of(to.peer), to, src, bytes, signal, value))
        return WEFT_OK;
    return by_gpu_put_signal(to, src, bytes, signal, value, op, nbi);
}

/* Also the fence: a later CPU store to host memory must not overtake a copy. */
weft_status p2p_gpu_quiet(struct path_state *opaque)
{
    struct p2p_state *state = (struct p2p_state *)(void *)opaque;
    if (!state)
        return WEFT_OK;
    mapped_flush(&state->mapped);
    return gpu_quiet(state->by_gpu.own);
}
