/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: the peers of a team as one stream of operations sees them. */
#include "job/job.h"

#include <stdlib.h>
#include <string.h>

static const struct path_ops *const ops_of[PATH_COUNT] = {
    [PATH_SELF] = &path_mapped_ops,
    [PATH_P2P] = &path_mapped_ops,
    [PATH_WEAK] = &path_weak_ops,
};

void ctx_fill_peers(struct weft_ctx *ctx, const struct weft_team *team, struct peer *peers)
{
    struct weft_job *job = ctx->job;
    for (int i = 0; i < team->n; i++) {
        int pe = team->pes[i];
        enum path_id path = job->choices[pe].path;
        struct peer *peer = &peers[i];
        *peer = (struct peer){.counters = &job->box->counters[ctx->slot][path],
                              .ops = ops_of[path],
                              .state = ctx->states[path],
                              .pe = pe,
                              .path = path,
                              .map = job->map[pe]};
        if (path == PATH_SELF || path == PATH_P2P)
            memcpy(peer->base, job->map[pe], sizeof peer->base);
        /* Checking mode: every access to the heap takes the slow way, which looks at its books. */
        if (job->checking)
            peer->base[SEG_HEAP] = NULL;
    }
}

static weft_status make_states(struct weft_ctx *ctx)
{
    for (int pe = 0; pe < ctx->job->npes; pe++) {
        enum path_id path = ctx->job->choices[pe].path;
        if (ctx->states[path] || !ops_of[path]->state_create)
            continue;
        weft_status status = ops_of[path]->state_create(&ctx->states[path]);
        if (status)
            return status;
        ctx->buffered = true;
    }
    return WEFT_OK;
}

weft_status ctx_new(struct weft_job *job, struct weft_team *team, unsigned options,
                    struct weft_ctx **result)
{
    struct weft_ctx *ctx = calloc(1, sizeof *ctx);
    struct peer *peers = aligned_alloc(64, (size_t)team->n * sizeof *peers);
    if (!ctx || !peers) {
        free(ctx);
        free(peers);
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a context of %d PEs", team->n);
    }
    ctx->job = job;
    ctx->team = team;
    ctx->options = options;
    ctx->peers = peers;
    ctx->npes = (uint32_t)team->n;
    for (int s = 0; s < SEG_COUNT; s++) {
        if (s == SEG_SYSTEM)
            continue;
        ctx->seg[s].base = (uintptr_t)job->segments[s].base;
        ctx->seg[s].size = job->segments[s].size;
    }
    weft_status status = make_states(ctx);
    if (status) {
        ctx_free(ctx);
        return status;
    }
    pthread_mutex_lock(&job->lock);
    int used[BOX_CONTEXTS] = {0};
    for (struct weft_ctx *other = job->contexts; other; other = other->next)
        used[other->slot]++;
    for (int i = 1; i < BOX_CONTEXTS; i++)
        if (used[i] < used[ctx->slot])
            ctx->slot = i;
    ctx_fill_peers(ctx, team, peers);
    status = job_gpu_attach(ctx);
    if (!status) {
        ctx->next = job->contexts;
        job->contexts = ctx;
    }
    pthread_mutex_unlock(&job->lock);
    if (status) {
        ctx_free(ctx);
        return status;
    }
    *result = ctx;
    return WEFT_OK;
}

/* Not (any more) in the job's list. */
void ctx_free(struct weft_ctx *ctx)
{
    for (int i = 0; i < PATH_COUNT; i++)
        if (ctx->states[i])
            ops_of[i]->state_destroy(ctx->states[i]);
    if (ctx->gpu_peers)
        path_gpu_ops.state_destroy(ctx->gpu_peers[0].state);
    free(ctx->gpu_peers);
    free(ctx->peers);
    free(ctx);
}

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
    if (options & ~(WEFT_CTX_SERIALIZED | WEFT_CTX_PRIVATE | WEFT_CTX_NOSTORE))
        return base_fail(WEFT_ERR_ARGUMENT, "weft_ctx_create: options %#x has unknown bits",
                         options);
    return ctx_new(team->job, team, options, ctx);
}

WEFT_EXPORT weft_status weft_ctx_destroy(weft_ctx *ctx)
{
    if (!ctx)
        return WEFT_OK;
    struct weft_job *job = ctx->job;
    if (atomic_load(&job->state) != JOB_RUNNING)
        return job_finalized("weft_ctx_destroy");
    if (ctx == job->default_ctx)
        return base_fail(WEFT_ERR_ARGUMENT, "weft_ctx_destroy: the default context stays");
    weft_status status = weft_quiet(ctx);
    pthread_mutex_lock(&job->lock);
    struct weft_ctx **at = &job->contexts;
    while (*at && *at != ctx)
        at = &(*at)->next;
    bool known = *at != NULL;
    if (known)
        *at = ctx->next;
    pthread_mutex_unlock(&job->lock);
    if (!known)
        return base_fail(WEFT_ERR_ARGUMENT, "weft_ctx_destroy: not a context of this job");
    ctx_free(ctx);
    return status;
}
