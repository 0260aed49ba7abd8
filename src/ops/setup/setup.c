/* SPDX-License-Identifier: Apache-2.0 */
/* Joining, leaving and aborting a job, and queries of it. */
#include "base/config.h"
#include "base/interrupt.h"
#include "boot/rendezvous/unique_id.h"
#include "gpu/gpu.h"
#include "job/job.h"
#include "ops/coll/coll.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static weft_status check_attr(const weft_init_attr *attr)
{
    weft_status status = base_check_size("weft_init: attr", attr,
                                         sizeof(size_t) + sizeof(weft_thread), sizeof *attr);
    if (status)
        return status;
    if ((unsigned)attr->thread > WEFT_THREAD_MULTIPLE)
        return base_fail(WEFT_ERR_ARGUMENT, "weft_init: attr.thread is %d, not a weft_thread",
                         (int)attr->thread);
    return WEFT_OK;
}

static weft_status check_members(const weft_init_attr *attr)
{
    if (attr->unique_id && attr->group)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "weft_init: attr has a group and a unique id; PEs are threads or use a "
                         "unique id, not both");
    if (attr->teams && (attr->teams < 2 || attr->teams > TEAM_SLOTS))
        return base_fail(WEFT_ERR_ARGUMENT,
                         "weft_init: attr.teams is %d; give 2 to %d, or 0 for %d", attr->teams,
                         TEAM_SLOTS, TEAM_SLOTS);
    return base_check_bits("weft_init: attr.flags", attr->flags, WEFT_INIT_GLOBAL_DATA);
}

WEFT_EXPORT weft_status weft_unique_id_get(weft_unique_id *id)
{
    if (!id)
        return base_fail(WEFT_ERR_ARGUMENT, "weft_unique_id_get: id is null");
    weft_status status = unique_id_make(id);
    return status ? base_fail_context(status, "weft_unique_id_get") : WEFT_OK;
}

WEFT_EXPORT weft_status weft_init(weft_job **result, const weft_init_attr *given)
{
    if (!result)
        return base_fail(WEFT_ERR_ARGUMENT, "weft_init: job is null");
    *result = NULL;
    weft_init_attr attr = {.size = sizeof attr};
    if (given) {
        weft_status status = check_attr(given);
        if (status)
            return status;
        memcpy(&attr, given, given->size < sizeof attr ? given->size : sizeof attr);
    }
    weft_status status = check_members(&attr);
    if (!status)
        status = config_check();
    if (status)
        return status;
    struct weft_job *job;
    status = job_enter(&attr, &job);
    if (!status)
        *result = job;
    return status;
}

WEFT_EXPORT weft_status weft_cancel(weft_job *job, const char *why)
{
    char sentence[320];
    if (!job)
        return base_fail(WEFT_ERR_ARGUMENT, "weft_cancel: job is null");
    if (atomic_load(&job->state) != JOB_RUNNING)
        return job_finalized("weft_cancel");
    snprintf(sentence, sizeof sentence, "PE %d canceled the job%s%.255s", job->pe, why ? ": " : "",
             why ? why : "");
    job_fail_all(job, WEFT_ERR_JOB, sentence);
    return WEFT_OK;
}

WEFT_EXPORT weft_status weft_job_status(weft_job *job)
{
    if (!job)
        return base_fail(WEFT_ERR_ARGUMENT, "weft_job_status: job is null");
    if (atomic_load(&job->state) != JOB_RUNNING)
        return job_finalized("weft_job_status");
    return life_check(job);
}

WEFT_EXPORT weft_status weft_finalize(weft_job *job)
{
    if (!job)
        return base_fail(WEFT_ERR_ARGUMENT, "weft_finalize: job is null");
    if (atomic_load(&job->state) != JOB_RUNNING)
        return job_finalized("weft_finalize");
    weft_status status = job_callbacks_wait(job);
    /* Transfers of files into peers' memory end before the peers leave. */
    if (job->modules.end_files)
        job->modules.end_files(job);
    if (!status)
        status = coll_barrier("weft_finalize", job->world, BOX_OP_FINALIZE);
    /* The flags that report this PE's arrival to the others may still be in flight. */
    if (!status)
        status = weft_quiet(job->system_ctx);
    if (!status)
        status = job_check_failed(job);
    if (!status && job->gpu)
        status = gpu_check(job->gpu);
    char sentence[512] = "";
    if (status)
        snprintf(sentence, sizeof sentence, "%s", weft_last_error());
    job_leave(job, status, sentence);
    return status ? base_fail(status, "%s", sentence) : WEFT_OK;
}

WEFT_EXPORT void weft_abort(weft_job *job, int code)
{
    if (job && atomic_load(&job->state) == JOB_RUNNING) {
        char sentence[128];
        snprintf(sentence, sizeof sentence, "PE %d called weft_abort with code %d", job->pe, code);
        job->box->exit_code = code;
        snprintf(job->box->failure, sizeof job->box->failure, "%s", sentence);
        atomic_store(&job->box->state, BOX_ABORTED);
        job->boot->ops->abort(job->boot, code, sentence);
    }
    fflush(NULL);
    _exit(base_exit_status(code));
}

WEFT_EXPORT int weft_my_pe(const weft_job *job)
{
    return job && atomic_load_explicit(&job->state, memory_order_relaxed) == JOB_RUNNING ? job->pe
                                                                                         : -1;
}

WEFT_EXPORT int weft_n_pes(const weft_job *job)
{
    return job && atomic_load_explicit(&job->state, memory_order_relaxed) == JOB_RUNNING ? job->npes
                                                                                         : -1;
}

WEFT_EXPORT weft_status weft_set_interrupt(weft_job *job, int (*check)(void *arg), void *arg)
{
    if (!job) {
        interrupt_set((struct interrupt){.check = check, .arg = arg});
        return WEFT_OK;
    }
    if (weft_my_pe(job) < 0)
        return job_finalized("weft_set_interrupt");
    pthread_mutex_lock(&job->lock);
    job->interrupt.check = check;
    job->interrupt.arg = arg;
    job->interrupt.thread = pthread_self();
    atomic_store_explicit(&job->interrupt.exists, check != NULL, memory_order_relaxed);
    pthread_mutex_unlock(&job->lock);
    return WEFT_OK;
}

WEFT_EXPORT weft_thread weft_query_thread(const weft_job *job)
{
    return job ? job->thread : WEFT_THREAD_SINGLE;
}

WEFT_EXPORT weft_status weft_group_create(int n, weft_group **group)
{
    return boot_group_create(n, group);
}

WEFT_EXPORT void weft_group_destroy(weft_group *group)
{
    boot_group_destroy(group);
}
