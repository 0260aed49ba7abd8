/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes, the library's own streams: which of their operations are complete, and bounded waiting for
 * them. For the files of this room.
 *
 * Operations are an epoch (base/epoch.h), counted before they are put on the stream, so that the
 * quiet of another thread cannot miss one; `queued` counts them when they are there, so that a wait
 * for the stream is known to cover them. */
#ifndef WEFT_GPU_LANE_H
#define WEFT_GPU_LANE_H

#include "gpu/gpu.h"

/* What of a struct gpu belongs to its device: locks; streams, kernels and pinned memory. stop()
 * takes what start() has made, also in part. */
void gpu_machinery_init(struct gpu *gpu);
weft_status gpu_machinery_start(struct gpu *gpu);
void gpu_machinery_stop(struct gpu *gpu);
void gpu_machinery_end(struct gpu *gpu);

static inline struct gpu_stream *stream_of(struct gpu *gpu, unsigned stream_index)
{
    return &gpu->streams[stream_index % GPU_STREAMS];
}

/* Before an operation is put on the lane's stream. */
static inline CUstream stream_begin(struct gpu_stream *internal)
{
    epoch_give(&internal->operations);
    return internal->stream;
}

/* After it was put there; passes `status` on. */
static inline weft_status stream_queued(struct gpu_stream *internal, weft_status status)
{
    atomic_fetch_add_explicit(&internal->queued, 1, memory_order_acq_rel);
    return status;
}

/* Instead of stream_begin(), for an operation with an answer: *settles is the number of operations
 * that are complete when the answer is there; 0 (not known) while another thread is putting one on.
 */
CUstream stream_begin_answered(struct gpu_stream *internal, uint64_t *completed);

/* A wait for the GPU; all zeros when it begins. */
struct gpu_wait {
    uint64_t last_ns, waited_ns, checked_ns;
};

/* Called now and then by a loop that waits for the GPU. Counts at most a slice of time per call, so
 * that a stopped process is no fault. WEFT_ERR_TIMEOUT after WEFT_WAIT_LIMIT; what boot knows when
 * a PE has died or the job has been ended. `what` is in the sentence. */
weft_status gpu_wait_check(struct gpu *gpu, struct gpu_wait *wait, const char *what);

/* Returns when what is on the stream now is complete. The device's context is current. */
weft_status gpu_wait_stream(struct gpu *gpu, CUstream stream, const char *what);

/* Returns when what has been put on the lane is complete. */
static inline weft_status stream_drain(struct gpu *gpu, struct gpu_stream *internal)
{
    /* Read before the wait: what is counted is on the stream, and so is covered by the wait. */
    uint64_t queued = atomic_load_explicit(&internal->queued, memory_order_acquire);
    weft_status status = gpu_wait_stream(gpu, internal->stream, "its own copies");
    if (!status)
        epoch_close(&internal->operations, queued);
    return status;
}

/* Polls for the answer of the lane's last kernel that gives one, which comes sooner than the end of
 * the stream is seen. The lane's lock is held. */
weft_status stream_await_answer(struct gpu *gpu, struct gpu_stream *internal);

#endif
