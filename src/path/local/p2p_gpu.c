/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of the paths `self` and `p2p` that touch GPU memory on either side: the host requests
 * copies, atomics and signals from its GPU. `remote` is an address in the GPU heap or in a host
 * segment of a PE of this node. */
#include "gpu/multipath/stripe.h"
#include "path/local/mapped.h"
#include "path/local/p2p.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* State of one context: the GPU and the internal stream of its copies. */
struct p2p_state {
    struct gpu *gpu;
    unsigned stream;
    struct mapped mapped;
};

static struct p2p_state *p2p_state_of(const struct peer *peer)
{
    return (struct p2p_state *)(void *)peer->state;
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
    state->gpu = world->gpu;
    mapped_open(&state->mapped, world);
    state->stream = atomic_fetch_add(&next_stream, 1) % GPU_STREAMS;
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
    return state && gpu_place_of(state->gpu, local) == GPU_PLACE_DEVICE;
}

weft_status p2p_gpu_address(struct remote at, char **address)
{
    const struct path_world *world = at.peer->world;
    if (at.segment != SEG_GPU) {
        *address = world->map[at.peer->pe][at.segment];
        if (!*address)
            return base_fail(WEFT_ERR_NO_PATH, "the host memory of PE %d is not mapped here",
                             at.peer->pe);
        *address += at.offset;
        return WEFT_OK;
    }
    int slot = world->gpu->slot_of[at.peer->pe];
    *address = slot < 0 ? NULL : (char *)(uintptr_t)gpu_address(world->gpu, slot, at.offset);
    /* The peer's memory was mapped when the path was chosen. The heap may have grown since, and
     * mapping the new memory may have failed. */
    return *address
               ? WEFT_OK
               : base_fail(WEFT_ERR_NO_PATH,
                           "the GPU memory of PE %d cannot be accessed from PE %d (%s)",
                           at.peer->pe, world->pe,
                           slot < 0 ? "another kernel" : world->gpu->heap.windows[slot].evidence);
}

/* Copies between a peer's memory and own memory. */
static weft_status copy_peer(struct remote at, void *dst, const void *src, size_t bytes,
                             enum gpu_copy_mode manner)
{
    struct p2p_state *state = p2p_state_of(at.peer);
    int slot = at.segment == SEG_GPU ? state->gpu->slot_of[at.peer->pe] : -1;
    if (slot < 0)
        return gpu_copy(state->gpu, state->stream, dst, src, bytes, manner);
    return gpu_copy_peer(state->gpu, state->gpu, slot, state->stream, dst, src, bytes, manner);
}

weft_status p2p_gpu_put(struct remote to, const void *src, size_t bytes, bool nbi)
{
    struct p2p_state *state = p2p_state_of(to.peer);
    char *dst;
    if (mapped_put(&p2p_state_of(to.peer)->mapped, to, src, bytes))
        return WEFT_OK;
    weft_status status = p2p_gpu_address(to, &dst);
    if (status)
        return status;
    if (!nbi && gpu_place_of(state->gpu, src) == GPU_PLACE_PLAIN)
        return gpu_copy_plain(state->gpu, state->stream, dst, src, bytes);
    return copy_peer(to, dst, src, bytes, nbi ? GPU_ANY_ORDER : GPU_DONE);
}

weft_status p2p_gpu_get(struct remote from, void *dst, size_t bytes, bool nbi)
{
    char *src;
    if (mapped_get(&p2p_state_of(from.peer)->mapped, from, dst, bytes))
        return WEFT_OK;
    weft_status status = p2p_gpu_address(from, &src);
    if (status)
        return status;
    return copy_peer(from, dst, src, bytes, nbi ? GPU_ANY_ORDER : GPU_DONE);
}

/* Copies the elements one by one, for memory that kernels cannot access. */
static weft_status copy_strided_peer(struct remote at, char *local, bool put,
                                     const struct path_strides *s)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < s->n && !status;
         i++, at.offset += s->remote_step, local += s->local_step)
        status = put ? p2p_gpu_put(at, local, s->element, true)
                     : p2p_gpu_get(at, local, s->element, true);
    return status ? status : gpu_quiet(p2p_state_of(at.peer)->gpu);
}

weft_status p2p_gpu_strided(struct remote at, void *local, bool put, const struct path_strides *s)
{
    struct p2p_state *state = p2p_state_of(at.peer);
    char *there;
    if (mapped_strided(&p2p_state_of(at.peer)->mapped, at, local, put, s))
        return WEFT_OK;
    if (at.segment != SEG_GPU || gpu_place_of(state->gpu, local) == GPU_PLACE_PLAIN)
        return copy_strided_peer(at, local, put, s);
    weft_status status = p2p_gpu_address(at, &there);
    if (status)
        return status;
    ptrdiff_t remote_step = (ptrdiff_t)s->remote_step, local_step = (ptrdiff_t)s->local_step;
    if (put)
        return gpu_copy_strided(state->gpu, state->stream, there, local, remote_step, local_step,
                                s->element, s->n);
    return gpu_copy_strided(state->gpu, state->stream, local, there, local_step, remote_step,
                            s->element, s->n);
}

static __attribute__((noinline)) weft_status store_by_gpu(struct remote to, const void *value,
                                                          size_t width)
{
    struct p2p_state *state = p2p_state_of(to.peer);
    uint64_t bits = 0;
    char *at;
    weft_status status = p2p_gpu_address(to, &at);
    if (status)
        return status;
    memcpy(&bits, value, width); /* the low bytes: little-endian, as every GPU is */
    return gpu_access(state->gpu, state->stream, (uintptr_t)at, GPU_ACCESS_STORE, width, bits, 0,
                      NULL);
}

/* Stores a value by one access, so that no reader sees part of it. */
weft_status p2p_gpu_store(struct remote to, const void *value, size_t width)
{
    return mapped_store(&p2p_state_of(to.peer)->mapped, to, value, width)
               ? WEFT_OK
               : store_by_gpu(to, value, width);
}

weft_status p2p_gpu_load(struct remote from, void *value, size_t width)
{
    struct p2p_state *state = p2p_state_of(from.peer);
    uint64_t bits = 0;
    char *at;
    if (mapped_load(from, value, width))
        return WEFT_OK;
    weft_status status = p2p_gpu_address(from, &at);
    if (!status)
        status = gpu_access(state->gpu, state->stream, (uintptr_t)at, GPU_ACCESS_LOAD, width, 0, 0,
                            &bits);
    memcpy(value, &bits, width);
    return status;
}

weft_status p2p_gpu_atomic(struct remote at, weft_amo amo, size_t width, uint64_t value,
                           uint64_t expected, void *fetched, bool nbi)
{
    struct p2p_state *state = p2p_state_of(at.peer);
    uint64_t before = 0;
    char *address;
    if (amo == WEFT_AMO_SET && mapped_store(&p2p_state_of(at.peer)->mapped, at, &value, width))
        return WEFT_OK;
    if (amo == WEFT_AMO_FETCH && mapped_load(at, fetched, width))
        return WEFT_OK;
    weft_status status = p2p_gpu_address(at, &address);
    if (status)
        return status;
    status = gpu_access(state->gpu, state->stream, (uintptr_t)address, (int)amo, width, value,
                        expected, fetched ? &before : NULL);
    if (fetched && !status)
        memcpy(fetched, &before, width);
    return status;
}

/* Waits until the data are complete; then the CPU stores or adds to the signal in host memory. */
static weft_status signal_host(struct p2p_state *state, char *at, uint64_t value, weft_signal_op op)
{
    weft_status status = p2p_gpu_quiet((struct path_state *)(void *)state);
    if (status)
        return status;
    if (op == WEFT_SIGNAL_SET)
        __atomic_store_n((uint64_t *)at, value, __ATOMIC_RELEASE);
    else
        __atomic_fetch_add((uint64_t *)at, value, __ATOMIC_RELEASE);
    return WEFT_OK;
}

weft_status p2p_gpu_put_signal(struct remote to, const void *src, size_t bytes,
                               struct remote signal, uint64_t value, weft_signal_op op, bool nbi)
{
    struct p2p_state *state = p2p_state_of(to.peer);
    struct gpu *gpu = state->gpu;
    char *dst, *at;
    if (op == WEFT_SIGNAL_SET && signal.segment == SEG_GPU &&
        mapped_put_signal(&p2p_state_of(to.peer)->mapped, to, src, bytes, signal, value))
        return WEFT_OK;
    weft_status status = p2p_gpu_address(to, &dst);
    if (!status)
        status = p2p_gpu_address(signal, &at);
    if (status)
        return status;
    bool plain = gpu_place_of(gpu, src) == GPU_PLACE_PLAIN, must_complete = !nbi && !plain;
    status = plain && !nbi ? gpu_copy_plain(gpu, state->stream, dst, src, bytes)
                           : copy_peer(to, dst, src, bytes, GPU_IN_ORDER);
    if (status)
        return status;
    if (signal.segment != SEG_GPU)
        return signal_host(state, at, value, op);
    status = gpu_signal(gpu, state->stream, (uintptr_t)at, value, op);
    return !status && must_complete ? gpu_quiet(gpu) : status;
}

/* Also the fence: a later CPU store to host memory must not overtake a copy. */
weft_status p2p_gpu_quiet(struct path_state *opaque)
{
    struct p2p_state *state = (struct p2p_state *)(void *)opaque;
    if (!state)
        return WEFT_OK;
    mapped_flush(&state->mapped);
    return gpu_quiet(state->gpu);
}
