/* SPDX-License-Identifier: Apache-2.0 */
/* Single accesses, signals and waits that the host issues on its GPU. Stores are stream memory
 * operations (cuStreamWriteValue), loads are copies by the copy engine. Neither launches a kernel,
 * so both make progress while a kernel of the program occupies the whole GPU. A wait is a small
 * kernel on a stream of its own; while that kernel cannot be scheduled, the copy engine polls
 * instead. Atomics need a kernel; later operations of the same internal stream wait until it has
 * run. */
#include "gpu/stream.h"

#include "base/clock.h"
#include "base/compare.h"
#include "base/status.h"

#include <stddef.h>
#include <string.h>

/* Ordered after earlier operations of the stream: CU_STREAM_WRITE_VALUE_DEFAULT puts a memory
 * barrier before the store. */
bool gpu_store_word(struct gpu *gpu, struct gpu_stream *internal, CUdeviceptr at, uint64_t value,
                    size_t width)
{
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    CUstream stream = stream_begin(internal);
    if (width == 8 && gpu->driver.StreamWriteValue64)
        result = gpu->driver.StreamWriteValue64(stream, at, value, CU_STREAM_WRITE_VALUE_DEFAULT);
    if (width == 4 && gpu->driver.StreamWriteValue32)
        result = gpu->driver.StreamWriteValue32(stream, at, (uint32_t)value,
                                                CU_STREAM_WRITE_VALUE_DEFAULT);
    stream_queued(internal);
    return result == CUDA_SUCCESS;
}

/* Loads with the copy engine, on a stream that is not one of the internal streams for copies. */
static weft_status load_by_copy(struct gpu *gpu, CUdeviceptr at, size_t width, uint64_t *value)
{
    CUdeviceptr destination = gpu->pinned_device + offsetof(struct gpu_pinned, loaded);
    CUstream stream = gpu_stream_made(gpu, &gpu->load_stream);
    pthread_mutex_lock(&gpu->load_lock);
    gpu->pinned->loaded = 0;
    CUresult result = gpu->driver.MemcpyAsync(destination, at, width, stream);
    weft_status status =
        result ? gpu_api_fail(&gpu->driver, result, "cuMemcpyAsync of %zu bytes from %#llx", width,
                              (unsigned long long)at)
               : gpu_wait_stream(gpu, stream, "a load");
    *value = gpu->pinned->loaded;
    pthread_mutex_unlock(&gpu->load_lock);
    return status;
}

/* The copy engine writes the eight bytes that hold the variable over `blank` in pinned memory. The
 * host polls for the change, which it sees sooner than the end of the copy. When the copy ends
 * without a change, the variable's bytes are equal to `blank`. The eight bytes are aligned, so a
 * poll never sees only a part of them. */
static weft_status await_load(struct gpu *gpu, struct gpu_stream *internal, uint64_t blank,
                              uint64_t *word)
{
    enum { POLLS_PER_QUERY = 1000 };
    struct gpu_wait wait = {0};
    weft_status status = WEFT_OK;
    for (unsigned polls = 1; !status; polls++) {
        *word = __atomic_load_n(&internal->answer->value, __ATOMIC_ACQUIRE);
        if (*word != blank)
            break;
        if (polls % POLLS_PER_QUERY)
            continue;
        CUresult result = gpu->driver.StreamQuery(internal->stream);
        if (result == CUDA_SUCCESS) {
            *word = __atomic_load_n(&internal->answer->value, __ATOMIC_ACQUIRE);
            break;
        }
        status = result == CUDA_ERROR_NOT_READY
                     ? gpu_wait_check(gpu, &wait, "a load")
                     : gpu_api_fail(&gpu->driver, result, "a load on GPU %d", gpu->device.ordinal);
    }
    return status;
}

/* Loads at most eight bytes, which must not cross a multiple of eight. */
static weft_status load_word(struct gpu *gpu, struct gpu_stream *internal, CUdeviceptr at,
                             size_t width, uint64_t *value)
{
    CUdeviceptr destination = internal->answer_device + offsetof(struct gpu_answer, value);
    uint64_t word = 0, blank, completed;
    pthread_mutex_lock(&internal->lock);
    /* a value that the variable is unlikely to have */
    blank = ++internal->sequence * 0x9e3779b97f4a7c15u;
    __atomic_store_n(&internal->answer->value, blank, __ATOMIC_RELAXED);
    CUresult result = gpu->driver.MemcpyAsync(destination, at & ~(CUdeviceptr)7, sizeof word,
                                              stream_begin_answered(internal, &completed));
    stream_queued(internal);
    weft_status status =
        result ? gpu_api_fail(&gpu->driver, result, "cuMemcpyAsync of 8 bytes at %#llx",
                              (unsigned long long)at)
               : await_load(gpu, internal, blank, &word);
    /* the next quiet need not query the driver */
    if (!status)
        epoch_close(&internal->operations, completed);
    pthread_mutex_unlock(&internal->lock);
    word >>= 8 * (at % 8);
    *value = width == 8 ? word : word & ((1ull << 8 * width) - 1);
    return status;
}

/* The copy engine writes widths for which there is no stream memory operation; it writes so few
 * aligned bytes in one access. Little-endian, as every supported GPU and CPU is. */
static weft_status store_value(struct gpu *gpu, struct gpu_stream *internal, CUdeviceptr at,
                               uint64_t value, size_t width)
{
    if (gpu_store_word(gpu, internal, at, value, width))
        return WEFT_OK;
    CUstream stream = stream_begin(internal);
    weft_status status = gpu_copy_on(gpu, stream, (void *)(uintptr_t)at, &value, width);
    stream_queued(internal);
    return status || !gpu->device.pageable ? status : stream_drain(gpu, internal);
}

weft_status gpu_access(struct gpu *gpu, unsigned stream_index, CUdeviceptr at, int op, size_t width,
                       uint64_t value, uint64_t expected, uint64_t *fetched)
{
    struct gpu_stream *internal = stream_of(gpu, stream_index);
    unsigned bytes = (unsigned)width;
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    bool stores = op == GPU_ACCESS_STORE || op == WEFT_AMO_SET;
    if (stores || op == GPU_ACCESS_LOAD || op == WEFT_AMO_FETCH) {
        status = stores ? store_value(gpu, internal, at, value, width)
                        : load_word(gpu, internal, at, width, fetched);
        gpu_leave(&gpu->device);
        return status;
    }
    CUdeviceptr answer = fetched ? internal->answer_device : 0;
    pthread_mutex_lock(&internal->lock);
    internal->sequence += fetched != NULL;
    void *arguments[] = {&at, &op, &bytes, &value, &expected, &answer, &internal->sequence};
    uint64_t completed;
    status = gpu_launch(&gpu->module, GPU_weft_kernel_atomic, 1, 1,
                        stream_begin_answered(internal, &completed), arguments);
    stream_queued(internal);
    if (fetched && !status)
        status = stream_await_answer(gpu, internal);
    if (fetched && !status) {
        epoch_close(&internal->operations, completed);
        *fetched = internal->answer->value;
    }
    pthread_mutex_unlock(&internal->lock);
    gpu_leave(&gpu->device);
    return status;
}

weft_status gpu_signal(struct gpu *gpu, unsigned stream_index, CUdeviceptr signal, uint64_t value,
                       weft_signal_op op)
{
    struct gpu_stream *internal = stream_of(gpu, stream_index);
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    if (op != WEFT_SIGNAL_SET || !gpu_store_word(gpu, internal, signal, value, sizeof value)) {
        CUdeviceptr nothing = 0;
        uint64_t bytes = 0;
        int how = (int)op;
        void *arguments[] = {&nothing, &nothing, &bytes, &signal, &value, &how, &nothing, &bytes};
        status =
            gpu_launch(&gpu->module, GPU_weft_kernel_copy, 1, 1, stream_begin(internal), arguments);
        stream_queued(internal);
    }
    gpu_leave(&gpu->device);
    return status;
}

/* The condition of a wait. */
struct wait_condition {
    CUdeviceptr at;
    size_t width;
    bool is_signed;
    weft_cmp cmp;
    int64_t value;
};

/* Compares once, with a value that the copy engine read. */
static weft_status poll_by_copy(struct gpu *gpu, const struct wait_condition *condition,
                                uint64_t *seen, bool *met)
{
    unsigned spare = 64 - 8 * (unsigned)condition->width;
    uint64_t flip = condition->is_signed ? 1ull << 63 : 0;
    weft_status status = load_by_copy(gpu, condition->at, condition->width, seen);
    if (condition->is_signed)
        *seen = (uint64_t)((int64_t)(*seen << spare) >> spare);
    *met =
        !status && compare_holds(*seen ^ flip, condition->cmp, (uint64_t)condition->value ^ flip);
    return status;
}

/* Waits for the wait kernel, which ends by itself once it has begun. If it has not ended in twice
 * its time, it is assumed not to have begun, and the copy engine reads the variable once. */
static weft_status await_slice(struct gpu *gpu, const struct wait_condition *condition,
                               uint64_t slice_ns, uint64_t *seen, bool *met)
{
    uint64_t end = clock_now_ns() + 2 * slice_ns;
    CUresult result;
    do
        result = gpu->driver.StreamQuery(gpu->wait_stream);
    while (result == CUDA_ERROR_NOT_READY && clock_now_ns() < end);
    if (result == CUDA_ERROR_NOT_READY)
        return poll_by_copy(gpu, condition, seen, met);
    *seen = gpu->pinned->wait_seen;
    *met = !result && gpu->pinned->wait_met;
    return result ? gpu_api_fail(&gpu->driver, result, "cuStreamQuery behind a wait on GPU %d",
                                 gpu->device.ordinal)
                  : WEFT_OK;
}

weft_status gpu_wait_slice(struct gpu *gpu, CUdeviceptr at, size_t width, bool is_signed,
                           weft_cmp cmp, int64_t value, uint64_t slice_ns, uint64_t *seen,
                           bool *met)
{
    CUdeviceptr seen_at = gpu->pinned_device + offsetof(struct gpu_pinned, wait_seen);
    CUdeviceptr met_at = gpu->pinned_device + offsetof(struct gpu_pinned, wait_met);
    struct wait_condition condition = {at, width, is_signed, cmp, value};
    struct gpu_reporting no_report = {.limit_ns = slice_ns};
    int bytes = (int)width, sign = is_signed, how = (int)cmp;
    void *arguments[] = {&at, &bytes, &sign, &how, &value, &no_report, &seen_at, &met_at};
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    pthread_mutex_lock(&gpu->wait_lock);
    /* The kernel of an earlier wait, for another variable or value, may still be queued. A kernel
     * after it would begin no sooner. */
    CUstream stream = gpu_stream_made(gpu, &gpu->wait_stream);
    bool busy = gpu->driver.StreamQuery(stream) == CUDA_ERROR_NOT_READY;
    if (busy) {
        status = poll_by_copy(gpu, &condition, seen, met);
    } else {
        status = gpu_launch(&gpu->module, GPU_weft_kernel_wait, 1, 1, stream, arguments);
        if (!status)
            status = await_slice(gpu, &condition, slice_ns, seen, met);
    }
    pthread_mutex_unlock(&gpu->wait_lock);
    gpu_leave(&gpu->device);
    return status;
}
