/* SPDX-License-Identifier: Apache-2.0 */
/* Operations by the host that touch GPU memory on either side: put and get of any size between any
 * two kinds of memory, atomics, signals. The same table as every path has; `remote` is a place in
 * the GPU heap or in a host segment of a PE of this node. */
#include "gpu/gpu.h"
#include "path/path.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

struct path_state {
    struct gpu *gpu;
    unsigned lane;
};

weft_status gpu_state_create(struct gpu *gpu, struct path_state **state)
{
    static _Atomic unsigned turn;
    *state = malloc(sizeof **state);
    if (!*state)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a context's GPU state");
    **state = (struct path_state){gpu, atomic_fetch_add(&turn, 1) % GPU_LANES};
    return WEFT_OK;
}

static weft_status no_path(struct gpu *gpu, int pe)
{
    int slot = gpu->slot_of[pe];
    if (slot < 0)
        return base_fail(WEFT_ERR_NO_PATH,
                         "PE %d runs on another kernel, and this version of Weft has no path to "
                         "GPU memory there",
                         pe);
    return base_fail(WEFT_ERR_NO_PATH,
                     "the GPU memory of PE %d cannot be accessed from PE %d (%s), and this version "
                     "of Weft has no staged path",
                     pe, gpu->boot->pe, gpu->heap.windows[slot].evidence);
}

weft_status gpu_locate(struct remote at, char **address)
{
    struct gpu *gpu = at.peer->state->gpu;
    if (at.segment != SEG_GPU) {
        *address = at.peer->map[at.segment];
        if (!*address)
            return base_fail(WEFT_ERR_NO_PATH, "the host memory of PE %d is not mapped here",
                             at.peer->pe);
        *address += at.offset;
        return WEFT_OK;
    }
    int slot = gpu->slot_of[at.peer->pe];
    CUdeviceptr device = slot < 0 ? 0 : gpu_address(gpu, slot, at.offset);
    *address = (char *)(uintptr_t)device;
    return device ? WEFT_OK : no_path(gpu, at.peer->pe);
}

static weft_status gpu_put(struct remote to, const void *src, size_t bytes, bool nbi)
{
    struct path_state *state = to.peer->state;
    char *dst;
    weft_status status = gpu_locate(to, &dst);
    if (status)
        return status;
    if (!nbi && gpu_place_of(state->gpu, src) == GPU_PLACE_PLAIN)
        return gpu_copy_plain(state->gpu, state->lane, dst, src, bytes);
    return gpu_copy(state->gpu, state->lane, dst, src, bytes, nbi ? GPU_ANY_ORDER : GPU_DONE);
}

static weft_status gpu_get(struct remote from, void *dst, size_t bytes, bool nbi)
{
    struct path_state *state = from.peer->state;
    char *src;
    weft_status status = gpu_locate(from, &src);
    if (status)
        return status;
    return gpu_copy(state->gpu, state->lane, dst, src, bytes, nbi ? GPU_ANY_ORDER : GPU_DONE);
}

weft_status gpu_copy_strided_remote(struct remote at, void *local, bool put, size_t remote_step,
                                    size_t local_step, size_t element, size_t n)
{
    struct path_state *state = at.peer->state;
    char *there;
    weft_status status = gpu_locate(at, &there);
    if (status)
        return status;
    if (put)
        return gpu_copy_strided(state->gpu, state->lane, there, local, (ptrdiff_t)remote_step,
                                (ptrdiff_t)local_step, element, n);
    return gpu_copy_strided(state->gpu, state->lane, local, there, (ptrdiff_t)local_step,
                            (ptrdiff_t)remote_step, element, n);
}

/* A single value, so that no reader sees a part of it. */
static weft_status gpu_store(struct remote to, const void *value, size_t width)
{
    struct path_state *state = to.peer->state;
    uint64_t bits = 0;
    char *at;
    weft_status status = gpu_locate(to, &at);
    if (status)
        return status;
    memcpy(&bits, value, width); /* the low bytes: little-endian, as every GPU is */
    return gpu_access(state->gpu, state->lane, (uintptr_t)at, GPU_ACCESS_STORE, width, bits, 0,
                      NULL);
}

static weft_status gpu_load(struct remote from, void *value, size_t width)
{
    struct path_state *state = from.peer->state;
    uint64_t bits = 0;
    char *at;
    weft_status status = gpu_locate(from, &at);
    if (!status)
        status =
            gpu_access(state->gpu, state->lane, (uintptr_t)at, GPU_ACCESS_LOAD, width, 0, 0, &bits);
    memcpy(value, &bits, width);
    return status;
}

static weft_status gpu_amo(struct remote at, weft_amo amo, size_t width, uint64_t value,
                           uint64_t expected, void *fetched, bool nbi)
{
    struct path_state *state = at.peer->state;
    uint64_t before = 0;
    char *address;
    weft_status status = gpu_locate(at, &address);
    if (status)
        return status;
    status = gpu_access(state->gpu, state->lane, (uintptr_t)address, (int)amo, width, value,
                        expected, fetched ? &before : NULL);
    if (fetched && !status)
        memcpy(fetched, &before, width);
    return status;
}

/* The CPU's own store or addition, behind data that is at rest. */
static weft_status signal_host(struct path_state *state, char *at, uint64_t value,
                               weft_signal_op op)
{
    weft_status status = gpu_quiet(state->gpu);
    if (status)
        return status;
    if (op == WEFT_SIGNAL_SET)
        __atomic_store_n((uint64_t *)at, value, __ATOMIC_RELEASE);
    else
        __atomic_fetch_add((uint64_t *)at, value, __ATOMIC_RELEASE);
    return WEFT_OK;
}

static weft_status gpu_put_signal(struct remote to, const void *src, size_t bytes,
                                  struct remote signal, uint64_t value, weft_signal_op op, bool nbi)
{
    struct path_state *state = signal.peer->state;
    struct gpu *gpu = state->gpu;
    char *dst, *at;
    to.peer = signal.peer; /* the same PE, with this path's state */
    weft_status status = gpu_locate(to, &dst);
    if (!status)
        status = gpu_locate(signal, &at);
    if (status)
        return status;
    bool plain = gpu_place_of(gpu, src) == GPU_PLACE_PLAIN, must_settle = !nbi && !plain;
    status = plain && !nbi ? gpu_copy_plain(gpu, state->lane, dst, src, bytes)
                           : gpu_copy(gpu, state->lane, dst, src, bytes, GPU_IN_ORDER);
    if (status)
        return status;
    if (signal.segment != SEG_GPU)
        return signal_host(state, at, value, op);
    status = gpu_signal(gpu, state->lane, (uintptr_t)at, value, op);
    return !status && must_settle ? gpu_quiet(gpu) : status;
}

static weft_status gpu_settle(struct path_state *state)
{
    return gpu_quiet(state->gpu);
}

static void gpu_state_destroy(struct path_state *state)
{
    free(state);
}

/* Fence completes: a CPU store to host memory that follows must not overtake a copy. */
const struct path_ops path_gpu_ops = {
    .name = "gpu",
    .put = gpu_put,
    .get = gpu_get,
    .store = gpu_store,
    .load = gpu_load,
    .amo = gpu_amo,
    .put_signal = gpu_put_signal,
    .fence = gpu_settle,
    .quiet = gpu_settle,
    .state_destroy = gpu_state_destroy,
};
