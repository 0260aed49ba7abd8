/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: a context holds the peers of a team for one ordered sequence of operations. Each peer
 * uses the path that the job has chosen for its memory. */
#include "job/job.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Thread_local bool job_acts_for_others;

/* Opens the state of a path for this context, unless it is open already. */
static weft_status open_path(struct weft_ctx *ctx, enum path_id path)
{
    const struct path_ops *ops = path_ops_of(path);
    if (path == PATH_NONE || ctx->states[path] || !ops->open)
        return WEFT_OK;
    weft_status status = ops->open(&ctx->job->paths, &ctx->states[path]);
    if (status || !ctx->states[path])
        return status;
    ctx->open[ctx->open_count].ops = ops;
    ctx->open[ctx->open_count].state = ctx->states[path];
    /* Release: another thread may be in a quiet of this context; it sees the whole entry or
     * none. */
    __atomic_store_n(&ctx->open_count, ctx->open_count + 1, __ATOMIC_RELEASE);
    return WEFT_OK;
}

/* Sets the addresses for the fast path. In checking mode they stay NULL for the heap, so that every
 * access takes the slow path, which checks the allocated blocks. */
static void fill_bases(const struct weft_job *job, struct peer *peer)
{
    bool direct = peer->kind == WEFT_HOST && peer->ops->direct;
    for (int s = 0; s < SEG_COUNT; s++)
        peer->base[s] =
            direct && !(job->checking && s == SEG_HEAP) ? job->paths.map[peer->pe][s] : NULL;
}

static weft_status fill_peer(struct weft_ctx *ctx, weft_kind kind, int i)
{
    struct weft_job *job = ctx->job;
    struct peer *peer = &ctx->peers[kind][i];
    int pe = ctx->team->pes[i];
    enum path_id path = job->paths.choices[kind][pe].path;
    weft_status status = open_path(ctx, path);
    if (status)
        return status;
    peer->pe = pe;
    peer->kind = (uint16_t)kind;
    peer->world = &job->paths;
    peer->path = (uint16_t)path;
    peer->counters = &job->box->counters[ctx->slot][path];
    peer->ops = path_ops_of(path);
    peer->state = path == PATH_NONE ? NULL : ctx->states[path];
    fill_bases(job, peer);
    return WEFT_OK;
}

static weft_status make_peers(struct weft_ctx *ctx, weft_kind kind)
{
    if (ctx->peers[kind])
        return WEFT_OK;
    size_t bytes = (size_t)ctx->team->n * sizeof(struct peer);
    struct peer *peers = aligned_alloc(64, bytes);
    if (!peers)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a context of %d PEs",
                         ctx->team->n);
    memset(peers, 0, bytes);
    ctx->peers[kind] = peers;
    return WEFT_OK;
}

weft_status ctx_fill(struct weft_ctx *ctx)
{
    weft_status status = WEFT_OK;
    for (int kind = 0; kind < MEMORY_KINDS && !status; kind++) {
        if (!ctx->job->paths.choices[kind])
            continue;
        status = make_peers(ctx, (weft_kind)kind);
        for (int i = 0; i < ctx->team->n && !status; i++)
            status = fill_peer(ctx, (weft_kind)kind, i);
    }
    if (!status)
        job_gpu_attach(ctx);
    __atomic_store_n(&ctx->quick_npes, ctx->job->gpu ? 0 : ctx->npes, __ATOMIC_RELAXED);
    return status;
}

/* Chooses the column of counters in the black box that the fewest contexts share. Column 0 belongs
 * to the default context. */
static int choose_slot(const struct weft_job *job)
{
    int used[BOX_CONTEXTS] = {0}, slot = 0;
    for (const struct weft_ctx *other = job->contexts; other; other = other->next)
        used[other->slot]++;
    for (int i = 1; i < BOX_CONTEXTS; i++)
        if (used[i] < used[slot])
            slot = i;
    return slot;
}

weft_status ctx_new(struct weft_job *job, struct weft_team *team, unsigned options,
                    struct weft_ctx **result)
{
    struct weft_ctx *ctx = calloc(1, sizeof *ctx);
    if (!ctx)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a context");
    ctx->job = job;
    ctx->team = team;
    ctx->options = options;
    ctx->owner = &job_acts_for_others;
    ctx->owner_number = gettid();
    ctx->npes = (uint32_t)team->n;
    ctx->fault = job->failure.word;
    for (int s = 0; s < SEG_COUNT; s++) {
        if (s == SEG_SYSTEM)
            continue;
        ctx->seg[s].base = (uintptr_t)job->segments[s].base;
        ctx->seg[s].size = job->segments[s].size;
    }
    pthread_mutex_lock(&job->contexts_lock);
    pthread_mutex_lock(&job->lock);
    ctx->slot = choose_slot(job);
    weft_status status = ctx_fill(ctx);
    if (!status) {
        ctx->next = job->contexts;
        job->contexts = ctx;
    }
    pthread_mutex_unlock(&job->lock);
    pthread_mutex_unlock(&job->contexts_lock);
    if (status) {
        ctx_free(ctx);
        return status;
    }
    *result = ctx;
    return WEFT_OK;
}

void ctx_empty(struct weft_ctx *ctx)
{
    memset(ctx->seg, 0, sizeof ctx->seg);
    ctx->npes = ctx->quick_npes = 0;
    ctx->gpu = NULL;
    ctx->fault = &ctx->job->failure.no_box_word;
    for (int i = 0; i < ctx->open_count; i++)
        ctx->open[i].ops->close(ctx->open[i].state);
    memset(ctx->states, 0, sizeof ctx->states);
    ctx->open_count = 0;
    for (int kind = 0; kind < MEMORY_KINDS; kind++) {
        free(ctx->peers[kind]);
        ctx->peers[kind] = NULL;
    }
}

/* The context must not be in the job's list. */
void ctx_free(struct weft_ctx *ctx)
{
    ctx_empty(ctx);
    free(ctx);
}
