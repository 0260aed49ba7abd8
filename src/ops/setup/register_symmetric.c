/* SPDX-License-Identifier: Apache-2.0 */
/* Registration of program GPU memory as symmetric memory. The PEs compare their arguments before
 * anything is mapped: a different offset at one of them would silently corrupt data. */
#include "boot/agree.h"
#include "gpu/register.h"
#include "ops/coll/coll.h"

#include <weft/gpu.h>

#include <stdio.h>

/* Exchange record: the memory that one PE registers. If the records differ, nothing is
 * registered. */
struct registration_record {
    int64_t status;
    uint64_t operation, bytes, allocation, lead;
};

_Static_assert(sizeof(struct registration_record) <= COLL_COMPARED_BYTES,
               "a registration record fits one packet");

static weft_status compare_with_pes(const char *function, const struct weft_job *job,
                                    const struct registration_record *mine)
{
    const struct registration_record *all = job->world->scratch;
    for (int pe = 0; pe < job->npes; pe++) {
        const struct registration_record *b = &all[pe];
        if (b->operation != mine->operation)
            return base_fail(WEFT_ERR_MISMATCH, "%s: PE %d calls %s", function, pe,
                             box_operation_name((uint32_t)b->operation));
        if (b->status)
            return base_fail((weft_status)b->status,
                             "%s: PE %d failed: %s; its own message says why", function, pe,
                             weft_status_text((weft_status)b->status));
        if (b->bytes != mine->bytes || b->allocation != mine->allocation || b->lead != mine->lead)
            return base_fail(
                WEFT_ERR_MISMATCH,
                "%s: PE %d registers %llu bytes at byte %llu of an allocation of %llu, PE "
                "%d %llu bytes at byte %llu of %llu; it must be the same at every PE",
                function, job->pe, (unsigned long long)mine->bytes, (unsigned long long)mine->lead,
                (unsigned long long)mine->allocation, pe, (unsigned long long)b->bytes,
                (unsigned long long)b->lead, (unsigned long long)b->allocation);
    }
    return WEFT_OK;
}

/* Waits for all PEs and compares their records. */
static weft_status compare_registrations(const char *function, struct weft_job *job,
                                         weft_status status, struct registration_record mine)
{
    char sentence[512] = "";
    if (status)
        snprintf(sentence, sizeof sentence, "%s: %s", function, weft_last_error());
    mine.status = status;
    bool same;
    weft_status exchanged = coll_compare_records(job->world, (enum box_operation)mine.operation,
                                                 &mine, sizeof mine, &same);
    if (status)
        return base_fail(status, "%s", sentence);
    return exchanged || same ? exchanged : compare_with_pes(function, job, &mine);
}

static weft_status check_symmetric_job(const char *function, struct weft_job *job,
                                       const void *result)
{
    if (!job || !result)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: %s is null", function,
                         job ? "the symmetric address" : "job");
    if (atomic_load(&job->state) != JOB_RUNNING)
        return job_finalized(function);
    return job_check_failed(job);
}

static weft_status exchange_registration(const char *function, struct weft_job *job,
                                         const void *address, size_t bytes,
                                         struct gpu_own_memory *own)
{
    struct gpu_heap *heap = &job->gpu->heap;
    weft_status status = address && bytes && (uintptr_t)address + bytes > (uintptr_t)address
                             ? gpu_inspect_memory(heap, address, bytes, own)
                             : base_fail(WEFT_ERR_ARGUMENT, "%zu bytes at %p", bytes, address);
    status = compare_registrations(
        function, job, status,
        (struct registration_record){0, BOX_OP_REGISTER, bytes, own->bytes, own->lead});
    if (status)
        gpu_release_memory(heap, own);
    return status;
}

WEFT_EXPORT weft_status weft_register_symmetric(weft_job *job, void *address, size_t bytes,
                                                void **symmetric)
{
    static const char name[] = "weft_register_symmetric";
    weft_status status = check_symmetric_job(name, job, symmetric);
    if (status)
        return status;
    *symmetric = NULL;
    box_record(job->box, BOX_OP_REGISTER, -1, (uintptr_t)address, bytes);
    status = job_gpu_open(job);
    if (status)
        return base_fail_context(status, "%s", name);
    struct gpu *gpu = job->gpu;
    struct gpu_own_memory own = {0};
    struct gpu_registered *registered = NULL;
    status = boot_agree(job->boot, gpu_enter(&gpu->device));
    if (status)
        return status;
    status = exchange_registration(name, job, address, bytes, &own);
    if (!status) {
        status = gpu_register_memory(&gpu->heap, &own, &registered);
        if (!status && (status = job_gpu_memory(job, NULL)) != WEFT_OK)
            gpu_unregister_memory(&gpu->heap, registered);
        if (status)
            base_fail_context(status, "%s", name);
    }
    gpu_leave(&gpu->device);
    if (status)
        return status;
    size_t offset = registered->chunk.offset + registered->lead;
    *symmetric = (void *)(uintptr_t)(gpu_heap_own(&gpu->heap)->base + offset);
    return WEFT_OK;
}

WEFT_EXPORT weft_status weft_unregister_symmetric(weft_job *job, void *symmetric)
{
    static const char name[] = "weft_unregister_symmetric";
    weft_status status = check_symmetric_job(name, job, symmetric);
    if (status)
        return status;
    box_record(job->box, BOX_OP_UNREGISTER, -1, (uintptr_t)symmetric, 0);
    struct gpu *gpu = job->gpu;
    size_t offset = gpu ? (uintptr_t)symmetric - gpu_heap_own(&gpu->heap)->base : 0;
    struct gpu_registered *registered = gpu ? gpu_registered_find(&gpu->heap, offset) : NULL;
    if (!registered)
        return base_fail(WEFT_ERR_ADDRESS, "%s: nothing is registered at %p", name, symmetric);
    status = weft_quiet(job->default_ctx);
    if (!status)
        status = compare_registrations(
            name, job, WEFT_OK,
            (struct registration_record){0, BOX_OP_UNREGISTER, registered->chunk.bytes,
                                         registered->chunk.bytes, offset});
    if (!status)
        status = gpu_enter(&gpu->device);
    if (status)
        return status;
    gpu_unregister_memory(&gpu->heap, registered);
    status = job_gpu_memory(job, NULL);
    gpu_leave(&gpu->device);
    return status;
}
