/* SPDX-License-Identifier: Apache-2.0 */
/* The library's own streams: what is on them, and bounded waiting for it. For the files of this room. */
#ifndef WEFT_GPU_LANE_H
#define WEFT_GPU_LANE_H

#include "gpu/gpu.h"

static inline struct gpu_lane *lane_of(struct gpu *gpu, unsigned lane)
{
    return &gpu->lanes[lane % GPU_LANES];
}

/* Counted before it is put on the lane, so that a quiet of another thread cannot miss it ... */
static inline CUstream lane_use(struct gpu_lane *lane)
{
    atomic_fetch_add_explicit(&lane->given, 1, memory_order_acq_rel);
    return lane->stream;
}

/* ... and when it is there, so that an answer can tell what is behind it. */
static inline weft_status lane_used(struct gpu_lane *lane, weft_status status)
{
    atomic_fetch_add_explicit(&lane->queued, 1, memory_order_acq_rel);
    return status;
}

/* For an operation with an answer, instead of lane_use(): *settles is what the lane will have settled
 * when the answer is there, 0 when another thread is just putting something on it. */
CUstream lane_use_answered(struct gpu_lane *lane, uint64_t *settles);

/* The first `settles` operations of the lane are known to be at rest. */
void lane_settled(struct gpu_lane *lane, uint64_t settles);

/* A wait for the GPU, in progress: zeros at first. */
struct gpu_wait {
    uint64_t last_ns, waited_ns, looked_ns;
};

/* Called now and then by a loop that waits for the GPU. Counts at most a slice of time per call, so that
 * a stopped process is no fault. WEFT_ERR_TIMEOUT after WEFT_WAIT_LIMIT; what boot knows when a PE has
 * died or the job has been ended. `what` is in the sentence. */
weft_status gpu_wait_look(struct gpu *gpu, struct gpu_wait *wait, const char *what);

/* What is on the stream now is done. The device's context is current. */
weft_status gpu_wait_stream(struct gpu *gpu, CUstream stream, const char *what);

/* What has been put on the lane is at rest. */
static inline weft_status lane_settle(struct gpu *gpu, struct gpu_lane *lane)
{
    /* Read first: what is counted in it is on the stream, and so waited for. */
    uint64_t queued = atomic_load_explicit(&lane->queued, memory_order_acquire);
    weft_status status = gpu_wait_stream(gpu, lane->stream, "its own copies");
    if (!status)
        lane_settled(lane, queued);
    return status;
}

/* Polls for the answer of the lane's last kernel that gives one: sooner than the stream tells. The lane's
 * lock is held. */
weft_status lane_await_answer(struct gpu *gpu, struct gpu_lane *lane);

#endif
