/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: a context holds the peers of a team for one ordered sequence of operations. Each peer
 * uses the path that the job has chosen for its memory. */
#include "job/job.h"

#include "base/thread.h"

#include <stdlib.h>
#include <string.h>

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

/* Fills one peer, whose operations take `path`. */
static weft_status fill_peer(struct weft_ctx *ctx, struct peer *peer, weft_kind kind, int pe,
                             enum path_id path)
{
    struct weft_job *job = ctx->job;
    weft_status status = open_path(ctx, path);
    if (status)
        return status;
    peer->pe = pe;
    peer->kind = (uint16_t)kind;
    peer->world = &job->paths;
    peer->path = (uint16_t)job->paths.choices[kind][pe].path;
    peer->counters = &job->box->counters[ctx->slot][path];
    peer->ops = path_ops_of(path);
    peer->state = path == PATH_NONE ? NULL : ctx->states[path];
    fill_bases(job, peer);
    return WEFT_OK;
}

/* Fills a table of peers, and makes it first if it is NULL. path_of: the path to each PE. */
static weft_status fill_table(struct weft_ctx *ctx, struct peer **table, weft_kind kind,
                              enum path_id (*path_of)(const struct weft_job *job, weft_kind kind,
                                                      int pe))
{
    size_t bytes = (size_t)ctx->team->n * sizeof(struct peer);
    struct peer *peers = *table ? *table : aligned_alloc(64, bytes);
    weft_status status = WEFT_OK;
    if (!peers)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a context of %d PEs",
                         ctx->team->n);
    if (!*table)
        memset(peers, 0, bytes);
    for (int i = 0; i < ctx->team->n && !status; i++) {
        int pe = ctx->team->pes[i];
        status = fill_peer(ctx, &peers[i], kind, pe, path_of(ctx->job, kind, pe));
    }
    /* Release: a thread in another call that finds the table sees what is in it. */
    if (!*table)
        __atomic_store_n(table, peers, __ATOMIC_RELEASE);
    return status;
}

static enum path_id chosen_path(const struct weft_job *job, weft_kind kind, int pe)
{
    return job->paths.choices[kind][pe].path;
}

/* Whether the atomics to some PE take another path than its data. */
static bool atomics_differ(const struct weft_ctx *ctx, weft_kind kind)
{
    bool differ = false;
    for (int i = 0; i < ctx->team->n; i++) {
        int pe = ctx->team->pes[i];
        differ |= job_atomics_path(ctx->job, kind, pe) != chosen_path(ctx->job, kind, pe);
    }
    return differ;
}

weft_status ctx_fill(struct weft_ctx *ctx)
{
    weft_status status = WEFT_OK;
    for (int kind = 0; kind < MEMORY_KINDS && !status; kind++) {
        if (!ctx->job->paths.choices[kind])
            continue;
        status = fill_table(ctx, &ctx->peers[kind], (weft_kind)kind, chosen_path);
        /* A table that is no longer needed stays, since another thread may be using it. */
        if (!status && (ctx->atomic_peers[kind] || atomics_differ(ctx, (weft_kind)kind)))
            status = fill_table(ctx, &ctx->atomic_peers[kind], (weft_kind)kind, job_atomics_path);
    }
    if (!status)
        job_gpu_attach(ctx);
    uint32_t quick = ctx->job->gpu ? 0 : ctx->npes;
    __atomic_store_n(&ctx->quick_npes, quick, __ATOMIC_RELAXED);
    __atomic_store_n(&ctx->quick_atomics,
                     ctx->job->paths.atomics[WEFT_HOST] == PATH_NONE ? quick : 0, __ATOMIC_RELAXED);
    return status;
}

weft_status ctx_signal(const struct weft_ctx *ctx, struct remote at, uint64_t value,
                       weft_signal_op op, bool nbi)
{
    bool set = op == WEFT_SIGNAL_SET;
    struct remote word = set ? at : ctx_atomic(ctx, at);
    return word.peer->ops->atomic(word, set ? WEFT_AMO_SET : WEFT_AMO_ADD, sizeof value, value, 0,
                                  NULL, nbi);
}

weft_status ctx_put_signal(const struct weft_ctx *ctx, struct remote to, const void *src,
                           size_t bytes, struct remote at, uint64_t value, weft_signal_op op,
                           bool nbi)
{
    const struct path_ops *ops = to.peer->ops;
    struct remote signal = op == WEFT_SIGNAL_ADD ? ctx_atomic(ctx, at) : at;
    if (ops == signal.peer->ops)
        return ops->put_signal(to, src, bytes, at, value, op, nbi);
    /* Data and signal take different paths: complete the data before the signal. */
    weft_status status = ops->put(to, src, bytes, nbi);
    if (!status)
        status = ops->quiet(to.peer->state);
    return status ? status : ctx_signal(ctx, at, value, op, nbi);
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
    ctx->owner_number = thread_number();
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
    ctx->npes = ctx->quick_npes = ctx->quick_atomics = 0;
    ctx->gpu = NULL;
    ctx->fault = &ctx->job->failure.no_box_word;
    for (int i = 0; i < ctx->open_count; i++)
        ctx->open[i].ops->close(ctx->open[i].state);
    memset(ctx->states, 0, sizeof ctx->states);
    ctx->open_count = 0;
    for (int kind = 0; kind < MEMORY_KINDS; kind++) {
        free(ctx->peers[kind]);
        free(ctx->atomic_peers[kind]);
        ctx->peers[kind] = ctx->atomic_peers[kind] = NULL;
    }
}

/* The context must not be in the job's list. */
void ctx_free(struct weft_ctx *ctx)
{
    ctx_empty(ctx);
    free(ctx);
}
