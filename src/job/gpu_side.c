/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU side of a job, set up at the first request for GPU memory: a job that asks for none loads
 * no driver and opens no GPU. What contexts see of it is filled in here. */
#include "boot/agree.h"
#include "gpu/gpu.h"
#include "job/device_state.h"

#include "base/log.h"

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

/* WEFT_PATH=^p2p: as if no peer's GPU memory could be accessed. */
static void apply_order(struct weft_job *job, struct gpu *gpu)
{
    for (int slot = 0; slot < job->boot->local_npes; slot++)
        if (slot != job->boot->local_pe && job->order.excluded & (1u << PATH_P2P))
            gpu_heap_drop(&gpu->heap, slot, "WEFT_PATH excludes p2p");
}

weft_status job_gpu_open(struct weft_job *job)
{
    if (job->gpu)
        return WEFT_OK;
    struct gpu *gpu;
    weft_status status = gpu_open(&gpu, job->boot, job->program_context, TEAM_SLOTS);
    if (status)
        return status;
    struct weft_dev_box *box = device_box(job->box);
    box->version = WEFT_DEV_VERSION;
    status = boot_agree(job->boot, gpu_attach_box(gpu, job->box, BOX_BYTES, box));
    if (status) {
        gpu_close(gpu);
        return status;
    }
    apply_order(job, gpu);
    job->gpu = gpu;
    job->box->gpu = gpu->device.ordinal;
    job_gpu_pin(job, job->heap_end);
    return attach_all(job);
}

weft_status job_gpu_grow(struct weft_job *job, size_t end)
{
    if (end <= job->gpu->heap.backed)
        return WEFT_OK;
    weft_status status = gpu_heap_grow(&job->gpu->heap, end);
    return status ? status : attach_all(job);
}

void job_gpu_pin(struct weft_job *job, size_t end)
{
    const struct segment *heap = &job->segments[SEG_HEAP];
    if (end > job->heap_end) {
        job->heap_end = end;
        segment_dump(heap, end);
    }
    if (job->gpu)
        gpu_pin_heap(job->gpu, heap->slots, heap->stride, heap->size, heap->slot_count, end);
}

void job_gpu_team_gone(struct weft_job *job, const struct weft_team *team)
{
    if (!job->gpu)
        return;
    CUdeviceptr area = gpu_team_address(job->gpu, job->boot->local_pe, team->slot);
    if (gpu_fill(job->gpu, (void *)(uintptr_t)area, 0, job->gpu->team_bytes))
        log_warn("a team's place for barriers on streams could not be cleared: %s",
                 weft_last_error());
}

void job_gpu_close(struct weft_job *job)
{
    gpu_close(job->gpu);
    job->gpu = NULL;
    while (job->stream_calls) {
        void *first = job->stream_calls;
        job->stream_calls = *(void **)first;
        free(first);
    }
}
