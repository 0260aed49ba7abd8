/* SPDX-License-Identifier: Apache-2.0 */
/* Handles fork() of a PE. The child has copies of the job's handles and connections, but it is not
 * a PE. In the child every running job is emptied as if it had been finalized, without any message,
 * so that calls on it are refused and the parent's job continues. The fast paths need no check for
 * that, because their bounds become 0. */
#include "gpu/gpu.h"
#include "gpu/map/map.h"
#include "job/job.h"

#include <stdlib.h>
#include <string.h>

/* Allocated separately, not a global variable: the program's global variables may be a segment that
 * the child still shares with its parent while the fork() handlers run. */
static struct watched {
    struct weft_job *first;
    bool in_child;
} * watched;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void empty_job(struct weft_job *job)
{
    atomic_store(&job->state, JOB_FINALIZED);
    for (struct weft_ctx *ctx = job->contexts; ctx; ctx = ctx->next) {
        memset(ctx->seg, 0, sizeof ctx->seg);
        ctx->npes = ctx->quick_npes = 0;
        ctx->open_count = 0;
        ctx->gpu = NULL;
    }
    if (job->gpu)
        gpu_map_abandon(job->gpu->heap.map);
    job->boot->ops->forked(job->boot);
}

/* Writes only memory that no other process shares; allocates nothing and takes no locks. */
static void in_child(void)
{
    for (struct weft_job *job = watched->first; job; job = job->next_running) {
        empty_job(job);
        watched->in_child = true;
    }
    watched->first = NULL;
}

weft_status job_watch_fork(struct weft_job *job)
{
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&lock);
    if (!watched) {
        watched = calloc(1, sizeof *watched);
        if (!watched || pthread_atfork(NULL, NULL, in_child)) {
            free(watched);
            watched = NULL;
            status = base_fail(WEFT_ERR_NO_MEMORY, "no private memory to watch fork()");
        }
    }
    if (!status) {
        watched->in_child = false;
        job->next_running = watched->first;
        watched->first = job;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

void job_unwatch_fork(struct weft_job *job)
{
    pthread_mutex_lock(&lock);
    struct weft_job **at = watched ? &watched->first : NULL;
    while (at && *at && *at != job)
        at = &(*at)->next_running;
    if (at && *at)
        *at = job->next_running;
    pthread_mutex_unlock(&lock);
}

bool job_is_forked_child(void)
{
    return watched && watched->in_child;
}
