/* SPDX-License-Identifier: Apache-2.0 */
/* The functions on contexts. */
#include "ops/access.h"

WEFT_EXPORT weft_ctx *weft_default_ctx(weft_job *job)
{
    return job ? job->default_ctx : NULL;
}

WEFT_EXPORT weft_team *weft_ctx_team(weft_ctx *ctx)
{
    return ctx ? ctx->team : NULL;
}

WEFT_EXPORT weft_status weft_ctx_create(weft_team *team, unsigned options, weft_ctx **ctx)
{
    if (!ctx)
        return base_fail(WEFT_ERR_ARGUMENT, "weft_ctx_create: ctx is null");
    *ctx = NULL;
    if (!team)
        return base_fail(WEFT_ERR_ARGUMENT, "weft_ctx_create: team is null");
    if (atomic_load(&team->job->state) != JOB_RUNNING)
        return job_finalized("weft_ctx_create");
    weft_status status = base_check_bits("weft_ctx_create: options", options,
                                         WEFT_CTX_SERIALIZED | WEFT_CTX_PRIVATE | WEFT_CTX_NOSTORE);
    if (!status)
        status = job_check_failed(team->job);
    return status ? status : ctx_new(team->job, team, options, ctx);
}

/* Removes the context from the job's list. False: it is not in the list. */
static bool unlink_context(struct weft_job *job, struct weft_ctx *ctx)
{
    pthread_mutex_lock(&job->contexts_lock);
    pthread_mutex_lock(&job->lock);
    struct weft_ctx **at = &job->contexts;
    while (*at && *at != ctx)
        at = &(*at)->next;
    bool known = *at != NULL;
    if (known)
        *at = ctx->next;
    pthread_mutex_unlock(&job->lock);
    pthread_mutex_unlock(&job->contexts_lock);
    return known;
}

WEFT_EXPORT weft_status weft_ctx_destroy(weft_ctx *ctx)
{
    if (!ctx)
        return WEFT_OK;
    struct weft_job *job = ctx->job;
    if (atomic_load(&job->state) != JOB_RUNNING)
        return job_finalized("weft_ctx_destroy");
    if (ctx == job->default_ctx)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "weft_ctx_destroy: the default context cannot be destroyed");
    /* the thread that created the context may have ended */
    bool before = access_act_for_others(true);
    weft_status status = weft_quiet(ctx);
    access_act_for_others(before);
    if (!unlink_context(job, ctx))
        return base_fail(WEFT_ERR_ARGUMENT, "weft_ctx_destroy: not a context of this job");
    if (!job->checking) {
        ctx_free(ctx);
        return status;
    }
    ctx_empty(ctx);
    pthread_mutex_lock(&job->lock);
    ctx->next = job->destroyed;
    job->destroyed = ctx;
    pthread_mutex_unlock(&job->lock);
    return status;
}
