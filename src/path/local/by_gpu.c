/* SPDX-License-Identifier: Apache-2.0 */
/* See by_gpu.h. */
#include "path/local/by_gpu.h"
#include "gpu/multipath/relay.h"
#include "gpu/multipath/stripe.h"

#include <string.h>

/* A relay GPU may reach the peer's memory and not this PE's `local`. */
static bool is_reached(const struct gpu_target *at, const void *local)
{
    return at->gpu == at->own || gpu_relay_reaches(at->gpu, local);
}

/* Whether only the copy engines of the GPU can access `local`, through the driver. */
static bool is_plain(const struct gpu_target *at, const void *local)
{
    return gpu_place_of(at->gpu, local) == GPU_PLACE_PLAIN;
}

/* Copies between the peer's memory and memory that the GPU reaches. */
static weft_status copy_peer(const struct gpu_target *at, void *dst, const void *src, size_t bytes,
                             enum gpu_copy_mode mode)
{
    if (at->slot < 0)
        return gpu_copy(at->gpu, at->stream, dst, src, bytes, mode);
    return gpu_copy_peer(at->own, at->gpu, at->slot, at->stream, dst, src, bytes, mode);
}

static weft_status put(const struct gpu_target *to, const void *src, size_t bytes, bool nbi)
{
    if (!is_reached(to, src))
        return gpu_relay_copy_staged(to->gpu, to->stream, to->address, src, bytes);
    if (!nbi && is_plain(to, src))
        return gpu_copy_plain(to->gpu, to->stream, to->address, src, bytes);
    return copy_peer(to, to->address, src, bytes, nbi ? GPU_IN_ORDER : GPU_DONE);
}

static weft_status get(const struct gpu_target *from, void *dst, size_t bytes, bool nbi)
{
    if (!is_reached(from, dst))
        return gpu_relay_copy_staged(from->gpu, from->stream, dst, from->address, bytes);
    return copy_peer(from, dst, from->address, bytes, nbi ? GPU_IN_ORDER : GPU_DONE);
}

/* Copies the elements one by one, for memory that kernels of the GPU cannot access. */
static weft_status copy_elements(struct gpu_target at, char *local, bool put_it,
                                 const struct path_strides *s)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < s->n && !status; i++) {
        status = put_it ? put(&at, local, s->element, true) : get(&at, local, s->element, true);
        at.address += s->remote_step;
        local += s->local_step;
    }
    return status ? status : gpu_quiet(at.gpu);
}

static weft_status find(struct remote at, struct gpu_target *target)
{
    const struct by_gpu *state = (const struct by_gpu *)(const void *)at.peer->state;
    *target = (struct gpu_target){.own = state->own, .gpu = state->own, .stream = state->stream};
    return state->find(at, target);
}

weft_status by_gpu_put(struct remote to, const void *src, size_t bytes, bool nbi)
{
    struct gpu_target target;
    weft_status status = find(to, &target);
    return status ? status : put(&target, src, bytes, nbi);
}

weft_status by_gpu_get(struct remote from, void *dst, size_t bytes, bool nbi)
{
    struct gpu_target target;
    weft_status status = find(from, &target);
    return status ? status : get(&target, dst, bytes, nbi);
}

weft_status by_gpu_strided(struct remote at, char *local, bool put_it, const struct path_strides *s)
{
    struct gpu_target target;
    weft_status status = find(at, &target);
    if (status)
        return status;
    if (target.slot < 0 || is_plain(&target, local) || !is_reached(&target, local))
        return copy_elements(target, local, put_it, s);
    ptrdiff_t remote_step = (ptrdiff_t)s->remote_step, local_step = (ptrdiff_t)s->local_step;
    if (put_it)
        return gpu_copy_strided(target.gpu, target.stream, target.address, local, remote_step,
                                local_step, s->element, s->n);
    return gpu_copy_strided(target.gpu, target.stream, local, target.address, local_step,
                            remote_step, s->element, s->n);
}

/* By one access, so that no reader sees part of the value. */
weft_status by_gpu_store(struct remote to, const void *value, size_t width)
{
    struct gpu_target target;
    uint64_t bits = 0;
    weft_status status = find(to, &target);
    if (status)
        return status;
    memcpy(&bits, value, width); /* the low bytes: little-endian, as every GPU is */
    return gpu_access(target.gpu, target.stream, (uintptr_t)target.address, GPU_ACCESS_STORE, width,
                      bits, 0, NULL);
}

weft_status by_gpu_load(struct remote from, void *value, size_t width)
{
    struct gpu_target target;
    uint64_t bits = 0;
    weft_status status = find(from, &target);
    if (!status)
        status = gpu_access(target.gpu, target.stream, (uintptr_t)target.address, GPU_ACCESS_LOAD,
                            width, 0, 0, &bits);
    memcpy(value, &bits, width);
    return status;
}

weft_status by_gpu_atomic(struct remote at, weft_amo amo, size_t width, uint64_t value,
                          uint64_t expected, void *fetched, bool nbi)
{
    struct gpu_target target;
    uint64_t before = 0;
    (void)nbi;
    weft_status status = find(at, &target);
    if (!status)
        status = gpu_access(target.gpu, target.stream, (uintptr_t)target.address, (int)amo, width,
                            value, expected, fetched ? &before : NULL);
    if (fetched && !status)
        memcpy(fetched, &before, width);
    return status;
}

/* Waits until the data are complete; then the CPU stores or adds to the signal in host memory. */
static weft_status signal_host(const struct gpu_target *signal, uint64_t value, weft_signal_op op)
{
    uint64_t *word = (uint64_t *)(void *)signal->address;
    weft_status status = gpu_quiet(signal->gpu);
    if (status)
        return status;
    if (op == WEFT_SIGNAL_SET)
        __atomic_store_n(word, value, __ATOMIC_RELEASE);
    else
        __atomic_fetch_add(word, value, __ATOMIC_RELEASE);
    return WEFT_OK;
}

/* Data and signal are at the same peer, so the same GPU accesses both. */
weft_status by_gpu_put_signal(struct remote to, const void *src, size_t bytes, struct remote signal,
                              uint64_t value, weft_signal_op op, bool nbi)
{
    struct gpu_target data, word;
    weft_status status = find(to, &data);
    if (!status)
        status = find(signal, &word);
    if (status)
        return status;
    bool reached = is_reached(&data, src), plain = reached && is_plain(&data, src);
    if (!reached)
        status = gpu_relay_copy_staged(data.gpu, data.stream, data.address, src, bytes);
    else if (plain && !nbi)
        status = gpu_copy_plain(data.gpu, data.stream, data.address, src, bytes);
    else
        status = copy_peer(&data, data.address, src, bytes, GPU_IN_ORDER);
    if (status)
        return status;
    if (word.slot < 0)
        return signal_host(&word, value, op);
    status = gpu_signal(data.gpu, data.stream, (uintptr_t)word.address, value, op);
    return !status && !nbi && reached && !plain ? gpu_stream_quiet(data.gpu, data.stream) : status;
}

weft_status by_gpu_address(struct remote at, char **address)
{
    struct gpu_target target;
    weft_status status = find(at, &target);
    *address = status ? NULL : target.address;
    return status;
}
