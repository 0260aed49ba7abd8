/* SPDX-License-Identifier: Apache-2.0 */
/* Copies, single accesses, signals and waits that the host asks of its GPU. See gpu.h. */
#include "gpu/gpu.h"

#include "base/status.h"

#include <sched.h>
#include <string.h>

static struct gpu_lane *lane_of(struct gpu *gpu, unsigned lane)
{
    return &gpu->lanes[lane % GPU_LANES];
}

/* Counted before it is put on the lane, so that a quiet of another thread cannot miss it ... */
static CUstream use(struct gpu_lane *lane)
{
    atomic_fetch_add_explicit(&lane->given, 1, memory_order_acq_rel);
    return lane->stream;
}

/* ... and when it is there, so that an answer can tell what is behind it. */
static weft_status used(struct gpu_lane *lane, weft_status status)
{
    atomic_fetch_add_explicit(&lane->queued, 1, memory_order_acq_rel);
    return status;
}

/* For an operation with an answer, instead of use(): *settles is what the lane will have settled
 * when the answer is there, 0 when another thread is just putting something on it. */
static CUstream use_answered(struct gpu_lane *lane, uint64_t *settles)
{
    uint64_t queued = atomic_load_explicit(&lane->queued, memory_order_acquire);
    uint64_t given = atomic_fetch_add_explicit(&lane->given, 1, memory_order_acq_rel);
    *settles = given == queued ? given + 1 : 0;
    return lane->stream;
}

static void settled(struct gpu_lane *lane, uint64_t settles)
{
    uint64_t now = atomic_load_explicit(&lane->settled, memory_order_relaxed);
    while (now < settles &&
           !atomic_compare_exchange_weak_explicit(&lane->settled, &now, settles,
                                                  memory_order_release, memory_order_relaxed))
        ;
}

static weft_status settle(struct gpu *gpu, struct gpu_lane *lane)
{
    CUresult result = gpu->cuda.StreamSynchronize(lane->stream);
    return result
               ? cuda_fail(&gpu->cuda, result, "cuStreamSynchronize on GPU %d", gpu->device.ordinal)
               : WEFT_OK;
}

static weft_status copy_part(struct gpu *gpu, struct gpu_lane *lane, void *dst, const void *src,
                             size_t bytes)
{
    CUstream stream = use(lane);
    return used(lane, gpu_copy_on(gpu, stream, dst, src, bytes));
}

weft_status gpu_copy_on(struct gpu *gpu, CUstream stream, void *dst, const void *src, size_t bytes)
{
    while (bytes > 0) {
        size_t now = gpu_pin_run(gpu, src, gpu_pin_run(gpu, dst, bytes));
        CUresult result = gpu->cuda.MemcpyAsync((uintptr_t)dst, (uintptr_t)src, now, stream);
        if (result)
            return cuda_fail(&gpu->cuda, result, "cuMemcpyAsync of %zu bytes from %p to %p", now,
                             src, dst);
        dst = (char *)dst + now;
        src = (const char *)src + now;
        bytes -= now;
    }
    return WEFT_OK;
}

/* Every part but the last ends on a 2 MiB line. */
static weft_status copy_striped(struct gpu *gpu, void *dst, const void *src, size_t bytes)
{
    size_t line = 2u << 20, part = (bytes / GPU_LANES + line - 1) / line * line;
    weft_status status = WEFT_OK;
    for (int i = 0; i < GPU_LANES && bytes > 0 && !status; i++) {
        size_t now = bytes < part || i == GPU_LANES - 1 ? bytes : part;
        status = copy_part(gpu, &gpu->lanes[i], dst, src, now);
        dst = (char *)dst + now;
        src = (const char *)src + now;
        bytes -= now;
    }
    return status;
}

/* Whether kernels can access `bytes` at `address`. */
static bool reachable(struct gpu *gpu, const void *address, size_t bytes)
{
    const struct gpu_pins *pins = &gpu->pins;
    size_t offset = (uintptr_t)address - (uintptr_t)pins->slots;
    if (pins->slots && offset < pins->stride * (size_t)pins->slot_count)
        return gpu_heap_pinned(gpu, offset % pins->stride, bytes);
    return gpu_place_of(gpu, address) != GPU_PLACE_PLAIN;
}

/* Polls for the answer: sooner than a synchronization of the stream tells. A kernel that failed
 * never answers, so the stream is asked now and then. */
static weft_status await_answer(struct gpu *gpu, struct gpu_lane *lane)
{
    enum { ASK_EVERY = 20000 };
    for (unsigned polls = 1;; polls++) {
        if (__atomic_load_n(&lane->answer->number, __ATOMIC_ACQUIRE) == lane->number)
            return WEFT_OK;
        if (polls % ASK_EVERY)
            continue;
        CUresult result = gpu->cuda.StreamQuery(lane->stream);
        if (result && result != CUDA_ERROR_NOT_READY)
            return cuda_fail(&gpu->cuda, result, "a kernel on GPU %d", gpu->device.ordinal);
        sched_yield();
    }
}

static weft_status copy_by_block(struct gpu *gpu, struct gpu_lane *lane, void *dst, const void *src,
                                 uint64_t bytes)
{
    CUdeviceptr signal = 0;
    uint64_t value = 0;
    int op = GPU_NO_SIGNAL;
    uint64_t settles;
    pthread_mutex_lock(&lane->lock);
    lane->number++;
    void *arguments[] = {&dst,         &src, &bytes, &signal, &value, &op, &lane->answer_device,
                         &lane->number};
    weft_status status = gpu_launch(&gpu->module, GPU_weft_kernel_copy, 1,
                                    bytes > GPU_WIDE_BLOCK ? GPU_SIGNAL_THREADS : 32,
                                    use_answered(lane, &settles), arguments);
    used(lane, status);
    if (!status)
        status = await_answer(gpu, lane);
    if (!status)
        settled(lane, settles);
    pthread_mutex_unlock(&lane->lock);
    return status;
}

static weft_status store_inline(struct gpu *gpu, struct gpu_lane *lane, void *dst, const void *src,
                                uint64_t bytes)
{
    struct gpu_inline data;
    memcpy(data.words, src, bytes);
    void *arguments[] = {&dst, &data, &bytes};
    return used(lane, gpu_launch(&gpu->module, GPU_weft_kernel_store, 1, 32, use(lane), arguments));
}

static weft_status copy_entered(struct gpu *gpu, struct gpu_lane *lane, void *dst, const void *src,
                                size_t bytes, enum gpu_manner manner)
{
    if (manner == GPU_DONE && bytes <= GPU_BLOCK_COPY_LIMIT && reachable(gpu, dst, bytes) &&
        reachable(gpu, src, bytes))
        return copy_by_block(gpu, lane, dst, src, bytes);
    bool striped = manner != GPU_IN_ORDER && gpu->stripe_bytes && bytes >= gpu->stripe_bytes;
    weft_status status =
        striped ? copy_striped(gpu, dst, src, bytes) : copy_part(gpu, lane, dst, src, bytes);
    if (!status && manner == GPU_DONE)
        status = striped ? gpu_quiet(gpu) : settle(gpu, lane);
    return status;
}

weft_status gpu_copy(struct gpu *gpu, unsigned number, void *dst, const void *src, size_t bytes,
                     enum gpu_manner manner)
{
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    status = copy_entered(gpu, lane_of(gpu, number), dst, src, bytes, manner);
    gpu_leave(&gpu->device);
    return status;
}

weft_status gpu_copy_plain(struct gpu *gpu, unsigned number, void *dst, const void *src,
                           size_t bytes)
{
    struct gpu_lane *lane = lane_of(gpu, number);
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    if (bytes <= GPU_INLINE_BYTES && reachable(gpu, dst, bytes))
        status = store_inline(gpu, lane, dst, src, bytes);
    else
        status = copy_entered(gpu, lane, dst, src, bytes,
                              gpu->device.pageable ? GPU_DONE : GPU_IN_ORDER);
    gpu_leave(&gpu->device);
    return status;
}

weft_status gpu_fill(struct gpu *gpu, void *address, unsigned char value, size_t bytes)
{
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    struct gpu_lane *lane = &gpu->lanes[0];
    CUresult result = gpu->cuda.MemsetD8Async((uintptr_t)address, value, bytes, use(lane));
    used(lane, WEFT_OK);
    status =
        result ? cuda_fail(&gpu->cuda, result, "cuMemsetD8Async of %zu bytes at %p", bytes, address)
               : settle(gpu, lane);
    gpu_leave(&gpu->device);
    return status;
}

weft_status gpu_copy_strided(struct gpu *gpu, unsigned number, void *dst, const void *src,
                             ptrdiff_t dst_step, ptrdiff_t src_step, size_t element, size_t n)
{
    enum { THREADS = 256, MOST_BLOCKS = 64 };
    int64_t to = dst_step, from = src_step;
    uint64_t bytes = element, count = n;
    void *arguments[] = {&dst, &src, &to, &from, &bytes, &count};
    size_t blocks = (n + THREADS - 1) / THREADS;
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    struct gpu_lane *lane = lane_of(gpu, number);
    status = gpu_launch(&gpu->module, GPU_weft_kernel_strided,
                        (unsigned)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS), THREADS, use(lane),
                        arguments);
    used(lane, status);
    if (!status)
        status = settle(gpu, lane);
    gpu_leave(&gpu->device);
    return status;
}

weft_status gpu_access(struct gpu *gpu, unsigned number, CUdeviceptr at, int op, size_t width,
                       uint64_t value, uint64_t expected, uint64_t *fetched)
{
    struct gpu_lane *lane = lane_of(gpu, number);
    unsigned bytes = (unsigned)width;
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    CUdeviceptr answer = fetched ? lane->answer_device : 0;
    pthread_mutex_lock(&lane->lock);
    lane->number += fetched != NULL;
    void *arguments[] = {&at, &op, &bytes, &value, &expected, &answer, &lane->number};
    uint64_t settles;
    status = gpu_launch(&gpu->module, GPU_weft_kernel_access, 1, 1, use_answered(lane, &settles),
                        arguments);
    used(lane, status);
    if (fetched && !status)
        status = await_answer(gpu, lane);
    if (fetched && !status)
        settled(lane, settles);
    if (fetched)
        *fetched = lane->answer->value;
    pthread_mutex_unlock(&lane->lock);
    gpu_leave(&gpu->device);
    return status;
}

weft_status gpu_signal(struct gpu *gpu, unsigned number, CUdeviceptr signal, uint64_t value,
                       weft_signal_op op)
{
    struct gpu_lane *lane = lane_of(gpu, number);
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    CUstream stream = use(lane);
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    /* The driver's own store has a barrier for earlier work of the stream in front of it. */
    if (op == WEFT_SIGNAL_SET && gpu->cuda.StreamWriteValue64)
        result = gpu->cuda.StreamWriteValue64(stream, signal, value, CU_STREAM_WRITE_VALUE_DEFAULT);
    if (result) {
        CUdeviceptr nothing = 0;
        uint64_t bytes = 0;
        int how = (int)op;
        void *arguments[] = {&nothing, &nothing, &bytes, &signal, &value, &how, &nothing, &bytes};
        status = gpu_launch(&gpu->module, GPU_weft_kernel_copy, 1, 1, stream, arguments);
    }
    used(lane, status);
    gpu_leave(&gpu->device);
    return status;
}

weft_status gpu_wait_slice(struct gpu *gpu, CUdeviceptr at, size_t width, bool is_signed,
                           weft_cmp cmp, int64_t value, uint64_t slice_ns, uint64_t *seen,
                           bool *met)
{
    CUdeviceptr seen_at = gpu->pinned_device + offsetof(struct gpu_pinned, wait_seen);
    CUdeviceptr met_at = gpu->pinned_device + offsetof(struct gpu_pinned, wait_met);
    struct gpu_reporting quietly = {.limit_ns = slice_ns};
    int bytes = (int)width, sign = is_signed, how = (int)cmp;
    void *arguments[] = {&at, &bytes, &sign, &how, &value, &quietly, &seen_at, &met_at};
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    pthread_mutex_lock(&gpu->wait_lock);
    status = gpu_launch(&gpu->module, GPU_weft_kernel_wait, 1, 1, gpu->wait_stream, arguments);
    if (!status) {
        CUresult result = gpu->cuda.StreamSynchronize(gpu->wait_stream);
        if (result)
            status = cuda_fail(&gpu->cuda, result, "cuStreamSynchronize behind a wait on GPU %d",
                               gpu->device.ordinal);
    }
    *seen = gpu->pinned->wait_seen;
    *met = !status && gpu->pinned->wait_met;
    pthread_mutex_unlock(&gpu->wait_lock);
    gpu_leave(&gpu->device);
    return status;
}

weft_status gpu_quiet(struct gpu *gpu)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < GPU_LANES && !status; i++) {
        struct gpu_lane *lane = &gpu->lanes[i];
        /* `queued` is read first: what is counted in it is on the stream, and so synchronized. */
        uint64_t queued = atomic_load_explicit(&lane->queued, memory_order_acquire);
        uint64_t given = atomic_load_explicit(&lane->given, memory_order_acquire);
        if (atomic_load_explicit(&lane->settled, memory_order_acquire) >= given)
            continue;
        /* Operations of other threads may be counted but not yet there: their own quiet sees to
         * them. */
        status = gpu_enter(&gpu->device);
        if (status)
            return status;
        status = settle(gpu, lane);
        gpu_leave(&gpu->device);
        if (!status)
            settled(lane, queued);
    }
    return status;
}
