/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU side of a job. It is opened at the first request for GPU memory: a job that requests none
 * loads no driver and opens no GPU. This file also fills in what contexts see of it. */
#include "boot/agree.h"
#include "gpu/coll/coll.h"
#include "gpu/gpu.h"
#include "job/device_state.h"
#include "job/late_image.h"
#include "path/local/relay.h"

#include "base/log.h"
#include "base/text.h"

#include <stdlib.h>

void job_gpu_attach(struct weft_ctx *ctx)
{
    struct gpu *gpu = ctx->job->gpu;
    if (!gpu)
        return;
    size_t skipped = gpu->layout.system_bytes;
    ctx->skipped[SEG_GPU] = skipped;
    ctx->seg[SEG_GPU].base = gpu_heap_own(&gpu->heap)->base + skipped;
    ctx->seg[SEG_GPU].size = gpu->heap.backed - skipped;
    __atomic_store_n(&ctx->gpu, gpu, __ATOMIC_RELEASE);
}

/* Resident kernels at both ends have tested the mapped pairs. The other pairs, and all pairs where
 * atomics take a path of their own, are tested like host memory as soon as some pair of the job
 * needs that. */
static weft_status prove_unmapped(struct weft_job *job)
{
    struct path_choice *choices = job->paths.choices[WEFT_GPU];
    int32_t wanted = 0, *all = calloc((size_t)job->npes, sizeof *all);
    if (!all)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %d PEs", job->npes);
    for (int pe = 0; pe < job->npes; pe++)
        wanted |= choices[pe].path != PATH_NONE && !choices[pe].proven;
    weft_status status = job->boot->ops->allgather(job->boot, &wanted, all, sizeof wanted);
    for (int pe = 0; pe < job->npes && !status; pe++)
        wanted |= all[pe];
    free(all);
    return status || !wanted ? status : job_prove_paths(job, WEFT_GPU);
}

static void record_proofs(struct weft_job *job)
{
    struct path_choice *choices = job->paths.choices[WEFT_GPU];
    for (int pe = 0; pe < job->npes; pe++) {
        if (choices[pe].path == PATH_NONE || !job->choosing.testing)
            choices[pe].proven = false;
        else if (job_direct(job, WEFT_GPU, pe) && job->paths.atomics[WEFT_GPU] == PATH_NONE)
            choices[pe].proven = true;
        job_show_proof(job, WEFT_GPU, pe);
    }
}

/* Lets the chosen, tested paths find faster routes. Every PE calls this, because peers must
 * respond. */
static weft_status refine_paths(struct weft_job *job)
{
    struct path_choice *choices = job->paths.choices[WEFT_GPU];
    char found[PATH_FOUND_BYTES];
    weft_status status = WEFT_OK;
    for (int pe = 0; pe < job->npes && !status; pe++) {
        const struct path_ops *ops = path_ops_of(choices[pe].path);
        found[0] = '\0';
        if (ops->refine)
            status = ops->refine(&job->paths, WEFT_GPU, pe, found, sizeof found);
        if (found[0])
            job_show_found(job, WEFT_GPU, pe, found);
    }
    return boot_agree(job->boot, status);
}

weft_status job_gpu_memory(struct weft_job *job, enum path_id *failed)
{
    uint32_t given_up = job->paths.choices[WEFT_GPU][job->pe].failed;
    weft_status status = WEFT_OK;
    for (int path = 0; path < PATH_COUNT && !status; path++) {
        const struct path_ops *ops = path_ops_of((enum path_id)path);
        if (!job->paths.common[path] || !ops->gpu_memory || given_up >> path & 1)
            continue;
        status = ops->gpu_memory(job->paths.common[path]);
        if (status && failed)
            *failed = (enum path_id)path;
    }
    return status;
}

/* Lets the chosen paths reach the GPU memory. One that cannot (WEFT_ERR_NO_PATH) is replaced. */
static weft_status prepare_paths(struct weft_job *job)
{
    enum path_id failed;
    char evidence[PROVE_EVIDENCE_BYTES];
    weft_status status = job_join_paths(job, WEFT_OK);
    while (!status) {
        failed = PATH_NONE;
        weft_status reached = job_gpu_memory(job, &failed);
        if (reached != WEFT_ERR_NO_PATH || failed == PATH_NONE)
            return reached;
        base_shorten(evidence, sizeof evidence, base_last_error());
        status = job_drop_path(job, WEFT_GPU, failed, evidence);
    }
    return status;
}

/* Chooses paths for GPU memory from the current windows and updates every context. A pair without a
 * path because of the machine is refused when it is used; a pair without a path because of
 * WEFT_PATH is refused now. */
static weft_status choose_and_fill(struct weft_job *job)
{
    weft_status status = job_choose_paths(job, WEFT_GPU);
    if (status == WEFT_ERR_NO_PATH && !job->choosing.order.forced && !job->choosing.order.excluded)
        status = WEFT_OK;
    status = boot_agree(job->boot, status);
    if (!status)
        status = prepare_paths(job);
    if (status)
        return status;
    record_proofs(job);
    pthread_mutex_lock(&job->lock);
    for (struct weft_ctx *ctx = job->contexts; ctx && !status; ctx = ctx->next)
        status = ctx_fill(ctx);
    pthread_mutex_unlock(&job->lock);
    status = boot_agree(job->boot, status);
    if (!status)
        status = job_gpu_pairs(job);
    if (!status && job->choosing.testing)
        status = prove_unmapped(job);
    return status ? status : refine_paths(job);
}

weft_status job_gpu_open(struct weft_job *job)
{
    if (job->gpu)
        return WEFT_OK;
    struct gpu *gpu;
    weft_status status = gpu_open(&gpu, job->boot, job->program_context, job->most_teams,
                                  relay_policy_of_order(&job->choosing.order));
    if (status)
        return status;
    struct weft_dev_box *box = device_box(job->box);
    box->version = WEFT_DEV_VERSION;
    status = boot_agree(job->boot, gpu_attach_box(gpu, job->box, BOX_BYTES, box));
    if (status) {
        gpu_close(gpu);
        return status;
    }
    /* Release: a thread in another call that finds the pointer, by a plain load, sees what it
     * points to. */
    __atomic_store_n(&job->paths.gpu, gpu, __ATOMIC_RELEASE);
    __atomic_store_n(&job->gpu, gpu, __ATOMIC_RELEASE);
    gpu->multipath.changed = job_show_stripes;
    gpu->multipath.changed_context = job;
    job->box->gpu = gpu->device.ordinal;
    job_gpu_pin(job, job->heap_end);
    return choose_and_fill(job);
}

weft_status job_gpu_grow(struct weft_job *job, size_t end)
{
    if (end <= job->gpu->heap.backed)
        return WEFT_OK;
    weft_status status = gpu_heap_grow(&job->gpu->heap, end);
    return status ? status : choose_and_fill(job);
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
    weft_status status =
        gpu_fill(job->gpu, (void *)(uintptr_t)area, 0, job->gpu->layout.team_bytes);
    /* Collectives by puts leave data in the slots of a team (ops/coll/slots.h), which kernels of
     * the next team would take for packets. */
    const struct coll_areas *areas = &job->gpu->layout.coll;
    if (!status && team->slot < areas->teams && !job_gpu_team_direct(team))
        status = gpu_fill(job->gpu, gpu_coll_sets(job->gpu, team->slot), 0,
                          4 * (size_t)coll_set_bytes(areas, team->slot));
    if (status)
        log_warn(LOG_JOB, "the areas of a team in GPU memory could not be cleared: %s",
                 base_last_error());
}

void job_gpu_close(struct weft_job *job)
{
    if (job->modules.end_mappings)
        job->modules.end_mappings(job);
    job->modules.end_mappings = NULL;
    late_image_unload(job);
    gpu_close(job->gpu);
    job->gpu = job->paths.gpu = NULL;
    free(job->gpu_pairs);
    job->gpu_pairs = NULL;
}
