/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU side of a job, set up at the first request for GPU memory: a job that asks for none loads
 * no driver and opens no GPU. What contexts see of it is filled in here. */
#include "job/job.h"

#include "path/gpu.h"

#include <stdlib.h>
#include <string.h>

weft_status job_gpu_attach(struct weft_ctx *ctx)
{
    struct gpu *gpu = ctx->job->gpu;
    if (!gpu)
        return WEFT_OK;
    if (!ctx->gpu_peers) {
        size_t n = (size_t)ctx->team->n;
        struct path_state *state;
        struct peer *peers = aligned_alloc(64, n * sizeof *peers);
        weft_status status =
            peers ? gpu_state_create(gpu, &state)
                  : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %zu peers", n);
        if (status) {
            free(peers);
            return status;
        }
        for (size_t i = 0; i < n; i++) {
            peers[i] = ctx->peers[i];
            memset(peers[i].base, 0, sizeof peers[i].base);
            peers[i].ops = &path_gpu_ops;
            peers[i].state = state;
        }
        ctx->gpu_peers = peers;
    }
    ctx->gpu_seg.skipped = gpu->system_offset + gpu->system_bytes;
    ctx->gpu_seg.base = gpu_heap_own(&gpu->heap)->base + ctx->gpu_seg.skipped;
    ctx->gpu_seg.size = gpu->heap.backed - ctx->gpu_seg.skipped;
    __atomic_store_n(&ctx->gpu, gpu, __ATOMIC_RELEASE);
    return WEFT_OK;
}

static weft_status attach_all(struct weft_job *job)
{
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&job->lock);
    for (struct weft_ctx *ctx = job->contexts; ctx && !status; ctx = ctx->next)
        status = job_gpu_attach(ctx);
    pthread_mutex_unlock(&job->lock);
    return status;
}

weft_status job_gpu_open(struct weft_job *job)
{
    if (job->gpu)
        return WEFT_OK;
    struct gpu *gpu;
    weft_status status = gpu_open(&gpu, job->boot, job->program_context, TEAM_SLOTS);
    if (status)
        return status;
    job->gpu = gpu;
    job->box->gpu = gpu->device.ordinal;
    return attach_all(job);
}

weft_status job_gpu_grow(struct weft_job *job, size_t end)
{
    if (end <= job->gpu->heap.backed)
        return WEFT_OK;
    weft_status status = gpu_heap_grow(&job->gpu->heap, end);
    return status ? status : attach_all(job);
}

void job_gpu_close(struct weft_job *job)
{
    gpu_close(job->gpu);
    job->gpu = NULL;
}
