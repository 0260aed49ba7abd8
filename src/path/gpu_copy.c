/* SPDX-License-Identifier: Apache-2.0 */
/* Copies, single accesses, signals and waits that the host asks of its GPU. See gpu.h. */
#include "path/gpu.h"

#include "base/status.h"

static struct gpu_lane *lane_of(struct gpu *gpu, unsigned lane)
{
    return &gpu->lanes[lane % GPU_LANES];
}

/* Counted before it is put on the lane, so that a quiet of another thread cannot miss it. */
static CUstream use(struct gpu_lane *lane)
{
    atomic_fetch_add_explicit(&lane->given, 1, memory_order_acq_rel);
    return lane->stream;
}

static weft_status settle(struct gpu *gpu, struct gpu_lane *lane)
{
    CUresult result = gpu->cuda.StreamSynchronize(lane->stream);
    return result ? cuda_fail(&gpu->cuda, result, "cuStreamSynchronize on GPU %d",
                              gpu->device.ordinal)
                  : WEFT_OK;
}

static weft_status copy_part(struct gpu *gpu, struct gpu_lane *lane, void *dst, const void *src,
                             size_t bytes)
{
    return gpu_copy_on(gpu, use(lane), dst, src, bytes);
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

weft_status gpu_copy(struct gpu *gpu, unsigned number, void *dst, const void *src, size_t bytes,
                     enum gpu_manner manner)
{
    struct gpu_lane *lane = lane_of(gpu, number);
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    bool striped = manner != GPU_IN_ORDER && gpu->stripe_bytes && bytes >= gpu->stripe_bytes;
    status = striped ? copy_striped(gpu, dst, src, bytes) : copy_part(gpu, lane, dst, src, bytes);
    if (!status && manner == GPU_DONE)
        status = striped ? gpu_quiet(gpu) : settle(gpu, lane);
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
    status = result ? cuda_fail(&gpu->cuda, result, "cuMemsetD8Async of %zu bytes at %p", bytes,
                                address)
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
    if (fetched)
        pthread_mutex_lock(&lane->lock);
    CUdeviceptr result = fetched ? lane->word_device : 0;
    void *arguments[] = {&at, &op, &bytes, &value, &expected, &result};
    status = gpu_launch(&gpu->module, GPU_weft_kernel_access, 1, 1, use(lane), arguments);
    if (fetched) {
        if (!status)
            status = settle(gpu, lane);
        *fetched = *lane->word;
        pthread_mutex_unlock(&lane->lock);
    }
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
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    /* The driver's own store has a barrier for earlier work of the stream in front of it. */
    if (op == WEFT_SIGNAL_SET && gpu->cuda.StreamWriteValue64)
        result = gpu->cuda.StreamWriteValue64(use(lane), signal, value,
                                              CU_STREAM_WRITE_VALUE_DEFAULT);
    if (result) {
        CUdeviceptr nothing = 0;
        uint64_t bytes = 0;
        int how = (int)op;
        void *arguments[] = {&nothing, &nothing, &bytes, &signal, &value, &how};
        status = gpu_launch(&gpu->module, GPU_weft_kernel_copy, 1, 1, use(lane), arguments);
    }
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
        uint64_t given = atomic_load_explicit(&lane->given, memory_order_acquire);
        if (atomic_load_explicit(&lane->settled, memory_order_acquire) >= given)
            continue;
        status = gpu_enter(&gpu->device);
        if (status)
            return status;
        status = settle(gpu, lane);
        gpu_leave(&gpu->device);
        if (!status)
            atomic_store_explicit(&lane->settled, given, memory_order_release);
    }
    return status;
}
