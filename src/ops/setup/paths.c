/* SPDX-License-Identifier: Apache-2.0 */
/* weft_path_query(). */
#include "ops/access.h"

#include <stddef.h>
#include <string.h>

static weft_status check_pe_and_info(const struct weft_job *job, int pe, const weft_path_info *info)
{
    static const char name[] = "weft_path_query";
    if (!job || !info)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: %s is null", name, job ? "info" : "job");
    if (atomic_load(&job->state) != JOB_RUNNING)
        return job_finalized(name);
    if (pe < 0 || pe >= job->npes)
        return base_fail(WEFT_ERR_PE, "%s: PE %d; the PEs are 0 ... %d", name, pe, job->npes - 1);
    if (info->size == offsetof(weft_path_info, kind))
        return WEFT_OK;
    if (info->size != sizeof *info)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "%s: info.size is %zu; set it to sizeof(weft_path_info)", name,
                         info->size);
    if ((unsigned)info->kind >= MEMORY_KINDS)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: info.kind is %d, not a weft_kind", name,
                         (int)info->kind);
    if (!job->paths.choices[info->kind])
        return base_fail(WEFT_ERR_UNSUPPORTED,
                         "%s: the job has no GPU side; weft_alloc(WEFT_GPU) opens it", name);
    return WEFT_OK;
}

static void add_counters(const struct weft_job *job, enum path_id path, weft_path_info *info)
{
    for (int slot = 0; slot < BOX_CONTEXTS; slot++) {
        struct box_counters *counters = &job->box->counters[slot][path];
        info->operations += atomic_load_explicit(&counters->operations, memory_order_relaxed);
        info->bytes += atomic_load_explicit(&counters->bytes, memory_order_relaxed);
    }
}

WEFT_EXPORT weft_status weft_path_query(weft_job *job, int pe, weft_path_info *info)
{
    weft_status status = check_pe_and_info(job, pe, info);
    if (status)
        return status;
    size_t size = info->size;
    weft_path_info filled = {.size = size, .kind = size == sizeof filled ? info->kind : WEFT_HOST};
    const struct path_choice *choice = &job->paths.choices[filled.kind][pe];
    filled.name = path_name(choice->path);
    filled.load_store = job_direct(job, filled.kind, pe);
    filled.proven = choice->proven ? 1 : choice->failed ? -1 : 0;
    job_path_reason(job, filled.kind, pe, filled.reason, sizeof filled.reason);
    add_counters(job, choice->path, &filled);
    memcpy(info, &filled, size);
    return WEFT_OK;
}
