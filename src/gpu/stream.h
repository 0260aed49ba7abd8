/* SPDX-License-Identifier: Apache-2.0 */
/* Internal streams: which of their operations are complete, and bounded waits for them. For the
 * files of this folder.
 *
 * Operations of a stream form an epoch (base/epoch.h). An operation is counted in the epoch before
 * it is enqueued, so that a concurrent quiet does not miss it. It is counted in `queued` after it
 * was enqueued, so that a wait for the stream is known to cover it. */
#ifndef WEFT_GPU_LANE_H
#define WEFT_GPU_LANE_H

#include "gpu/gpu.h"

/* The device part of a struct gpu: locks, streams, kernels and pinned memory. stop() also releases
 * what a failed start() created. */
void gpu_resources_init(struct gpu *gpu);
weft_status gpu_resources_start(struct gpu *gpu);
void gpu_resources_stop(struct gpu *gpu);
void gpu_resources_end(struct gpu *gpu);

/* Makes a stream of the library at its first use: most programs need few, and the driver takes
 * 2 MiB of GPU memory for every four. cuStreamCreate() does not wait for running kernels. If it
 * fails, the first stream serves instead. Any thread may call it. */
void gpu_stream_make(struct gpu *gpu, CUstream *stream);

static inline CUstream gpu_stream_made(struct gpu *gpu, CUstream *stream)
{
    if (!__atomic_load_n(stream, __ATOMIC_ACQUIRE))
        gpu_stream_make(gpu, stream);
    return *stream;
}

static inline struct gpu_stream *stream_of(struct gpu *gpu, unsigned stream_index)
{
    struct gpu_stream *internal = &gpu->streams[stream_index % GPU_STREAMS];
    gpu_stream_made(gpu, &internal->stream);
    return internal;
}

/* Called before an operation is enqueued on the stream. */
static inline CUstream stream_begin(struct gpu_stream *internal)
{
    epoch_give(&internal->operations);
    return internal->stream;
}

/* Called after the operation was enqueued. */
static inline void stream_queued(struct gpu_stream *internal)
{
    atomic_fetch_add_explicit(&internal->queued, 1, memory_order_acq_rel);
}

/* Called instead of stream_begin() for an operation with an answer. *completed: number of
 * operations that are complete when the answer arrives; 0: not known, since another thread is
 * enqueuing one. */
CUstream stream_begin_answered(struct gpu_stream *internal, uint64_t *completed);

/* State of a bounded wait for the GPU; all zeros at its start. */
struct gpu_wait {
    uint64_t last_ns, waited_ns, checked_ns;
};

/* A loop that waits for the GPU calls this from time to time. Counts at most one time slice for
 * each call, so that a process that was stopped does not time out. Returns WEFT_ERR_TIMEOUT after
 * WEFT_WAIT_LIMIT, or the status from boot when a PE died or the job was aborted. `what` names the
 * operation in the message. */
weft_status gpu_wait_check(struct gpu *gpu, struct gpu_wait *wait, const char *what);

/* Returns when all operations that are on the stream now are complete. The device's context is
 * current. */
weft_status gpu_wait_stream(struct gpu *gpu, CUstream stream, const char *what);

/* Returns when all operations of the internal stream are complete. */
static inline weft_status stream_drain(struct gpu *gpu, struct gpu_stream *internal)
{
    /* Read before the wait: the operations that are counted are on the stream, so the wait covers
     * them. */
    uint64_t queued = atomic_load_explicit(&internal->queued, memory_order_acquire);
    weft_status status = gpu_wait_stream(gpu, internal->stream, "its own copies");
    if (!status)
        epoch_close(&internal->operations, queued);
    return status;
}

/* While a stream of the program is being captured, CUDA restricts the calls of the capturing
 * thread. This exchanges the thread's capture mode, so that the library can make what is its own,
 * which does not belong to the capture: first with CU_STREAM_CAPTURE_MODE_RELAXED, then with what
 * the first call has put there. */
static inline void gpu_exchange_capture_mode(const struct gpu *gpu, int *mode)
{
    if (gpu->driver.ThreadExchangeStreamCaptureMode)
        gpu->driver.ThreadExchangeStreamCaptureMode(mode);
}

/* Polls for the answer of the last kernel of the internal stream that gives one; it arrives before
 * the end of the stream is seen. The caller holds the lock of the internal stream. */
weft_status stream_await_answer(struct gpu *gpu, struct gpu_stream *internal);

#endif
