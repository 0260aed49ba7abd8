/* SPDX-License-Identifier: Apache-2.0 */
/* Operations in stream order as host callbacks: each is stored as a record, and a thread makes the
 * call when the stream reaches it. On simt that is the stream's own thread, on cuda a thread that
 * serves the stream (host_callback.c). */
#include "ops/stream/stream.h"

#include <weft/device/arithmetic.h>

#include <stdlib.h>

enum call_kind { PUT, GET, PUT_SIGNAL, SIGNAL, WAIT, QUIET, BARRIER, SYNC, COLLECTIVE };

struct call {
    enum call_kind kind;
    struct weft_job *job;
    weft_ctx *ctx;
    weft_team *team;
    void *dst;
    const void *src;
    size_t bytes;
    uint64_t *signal;
    uint64_t value;
    int op; /* weft_signal_op or weft_cmp */
    int pe;
    struct coll_request collective;
};

/* Completes the put before the stream continues: later work of the stream may depend on it, and no
 * other call would complete operations that a path delays. */
static weft_status quiet_after(const struct call *call, weft_status status)
{
    return status ? status : weft_quiet(call->ctx);
}

static weft_status send_signal(const struct call *call)
{
    weft_status status = weft_fence(call->ctx);
    return status ? status
                  : weft_signal(call->ctx, call->signal, call->value, (weft_signal_op)call->op,
                                call->pe);
}

/* The functions of the host write to destinations that other members have not reported to be
 * ready. In stream order a member's destination is ready when its stream has reached the call, so
 * all members meet first, unless the function begins with that. */
static weft_status meet_first(weft_team *team, const struct coll_request *c)
{
    return coll_reduces[c->what] || coll_is_sized[c->what] ? WEFT_OK : weft_sync(team);
}

static weft_status run_collective(weft_team *team, const struct coll_request *c)
{
    weft_status status = meet_first(team, c);
    if (status)
        return status;
    switch (c->what) {
    case COLL_BROADCAST:
        return weft_broadcast(team, c->dst, c->src, c->bytes, c->root);
    case COLL_ALLGATHER:
        return weft_allgather(team, c->dst, c->src, c->bytes);
    case COLL_COLLECT:
        return weft_collect(team, c->dst, c->src, c->bytes);
    case COLL_ALLTOALL:
        return c->element ? weft_alltoalls(team, c->dst, c->src, (ptrdiff_t)c->dst_stride,
                                           (ptrdiff_t)c->src_stride, c->element, c->n)
                          : weft_alltoall(team, c->dst, c->src, c->bytes);
    case COLL_ALLREDUCE:
        return weft_allreduce(team, c->dst, c->src, c->n, c->reduction.type, c->reduction.op);
    case COLL_GATHER:
        return weft_gather(team, c->dst, c->src, c->bytes, c->root);
    case COLL_SCATTER:
        return weft_scatter(team, c->dst, c->src, c->bytes, c->root);
    case COLL_REDUCE:
        return weft_reduce(team, c->dst, c->src, c->n, c->reduction.type, c->reduction.op, c->root);
    case COLL_ALLTOALLV:
        return weft_alltoallv(team, c->dst, c->dst_bytes, c->recv_bytes, c->recv_at, c->src,
                              c->send_bytes, c->send_at);
    default:
        return weft_reducescatter(team, c->dst, c->src, c->n, c->reduction.type, c->reduction.op);
    }
}

static weft_status run_scaled(weft_team *team, const struct coll_request *c)
{
    const void *factor = c->reduction.factor_at ? c->reduction.factor_at : c->factor_bytes;
    weft_type type = reduce_public_type(&c->reduction);
    if (c->reduction.weighted && c->what == COLL_ALLREDUCE)
        return weft_allreduce_weighted(team, c->dst, c->src, c->n, type, factor);
    if (c->reduction.weighted && c->what == COLL_REDUCE)
        return weft_reduce_weighted(team, c->dst, c->src, c->n, type, factor, c->root);
    if (c->reduction.weighted)
        return weft_reducescatter_weighted(team, c->dst, c->src, c->n, type, factor);
    if (c->what == COLL_ALLREDUCE)
        return weft_allreduce_scaled(team, c->dst, c->src, c->n, type, factor);
    if (c->what == COLL_REDUCE)
        return weft_reduce_scaled(team, c->dst, c->src, c->n, type, factor, c->root);
    return weft_reducescatter_scaled(team, c->dst, c->src, c->n, type, factor);
}

static weft_status run_call(const struct call *call)
{
    switch (call->kind) {
    case PUT:
        return quiet_after(call, weft_put(call->ctx, call->dst, call->src, call->bytes, call->pe));
    case GET:
        return weft_get(call->ctx, call->dst, call->src, call->bytes, call->pe);
    case PUT_SIGNAL:
        return quiet_after(call, weft_put_signal(call->ctx, call->dst, call->src, call->bytes,
                                                 call->signal, call->value,
                                                 (weft_signal_op)call->op, call->pe));
    case SIGNAL:
        return quiet_after(call, send_signal(call));
    case WAIT:
        return weft_signal_wait(call->ctx, call->signal, (weft_cmp)call->op, call->value, NULL);
    case QUIET:
        return weft_quiet(call->ctx);
    case BARRIER:
        return weft_barrier(call->team);
    case SYNC:
        return weft_sync(call->team);
    case COLLECTIVE:
        return call->collective.reduction.op == WEFT_DEV_SCALED
                   ? run_scaled(call->team, &call->collective)
                   : run_collective(call->team, &call->collective);
    }
    return WEFT_OK;
}

static void run(void *argument)
{
    const struct call *call = argument;
    bool before = access_act_for_others(true);
    weft_status status = run_call(call);
    access_act_for_others(before);
    if (status && atomic_load(&call->job->state) == JOB_RUNNING)
        job_fail(call->job, status, weft_last_error());
}

struct simt_call {
    struct weft_job *job;
    void (*run)(void *argument);
    void *argument;
};

/* Runs in the stream's own thread, possibly after the job has been left. */
static void make_simt_call(void *argument)
{
    struct simt_call *call = argument;
    job_callback_run(call->job, call->run, call->argument);
    free(call->argument);
    free(call);
}

weft_status stream_host_call(struct weft_job *job, weft_stream stream, void (*run)(void *argument),
                             void *argument)
{
    if (stream_on_cuda(job))
        return stream_callback(job, stream, run, argument);
    struct simt_call *call = malloc(sizeof *call);
    if (call)
        *call = (struct simt_call){job, run, argument};
    weft_status status =
        call ? weft_stream_host_call(stream, make_simt_call, call)
             : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a call on a stream");
    if (!status) {
        job_callback_enqueued(job);
        return WEFT_OK;
    }
    free(call);
    free(argument);
    return status;
}

static weft_status enqueue_call(struct weft_job *job, weft_stream stream, struct call call)
{
    struct call *kept = malloc(sizeof *kept);
    if (!kept)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a call on a stream");
    *kept = call;
    kept->job = job;
    return stream_host_call(job, stream, run, kept);
}

weft_status stream_call_put(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe,
                            weft_stream stream)
{
    return enqueue_call(
        ctx->job, stream,
        (struct call){.kind = PUT, .ctx = ctx, .dst = dst, .src = src, .bytes = bytes, .pe = pe});
}

weft_status stream_call_get(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe,
                            weft_stream stream)
{
    return enqueue_call(
        ctx->job, stream,
        (struct call){.kind = GET, .ctx = ctx, .dst = dst, .src = src, .bytes = bytes, .pe = pe});
}

weft_status stream_call_put_signal(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                                   uint64_t *signal, uint64_t value, weft_signal_op op, int pe,
                                   weft_stream stream)
{
    return enqueue_call(ctx->job, stream,
                        (struct call){.kind = PUT_SIGNAL,
                                      .ctx = ctx,
                                      .dst = dst,
                                      .src = src,
                                      .bytes = bytes,
                                      .signal = signal,
                                      .value = value,
                                      .op = (int)op,
                                      .pe = pe});
}

weft_status stream_call_signal(weft_ctx *ctx, uint64_t *signal, uint64_t value, weft_signal_op op,
                               int pe, weft_stream stream)
{
    return enqueue_call(
        ctx->job, stream,
        (struct call){
            .kind = SIGNAL, .ctx = ctx, .signal = signal, .value = value, .op = (int)op, .pe = pe});
}

weft_status stream_call_signal_wait(weft_ctx *ctx, const uint64_t *signal, weft_cmp cmp,
                                    uint64_t value, weft_stream stream)
{
    return enqueue_call(ctx->job, stream,
                        (struct call){.kind = WAIT,
                                      .ctx = ctx,
                                      .signal = (uint64_t *)signal,
                                      .value = value,
                                      .op = (int)cmp});
}

weft_status stream_call_quiet(weft_ctx *ctx, weft_stream stream)
{
    return enqueue_call(ctx->job, stream, (struct call){.kind = QUIET, .ctx = ctx});
}

weft_status stream_call_barrier(weft_team *team, weft_stream stream)
{
    return enqueue_call(team->job, stream, (struct call){.kind = BARRIER, .team = team});
}

weft_status stream_call_sync(weft_team *team, weft_stream stream)
{
    return enqueue_call(team->job, stream, (struct call){.kind = SYNC, .team = team});
}

weft_status stream_call_collective(weft_team *team, const struct coll_request *request,
                                   weft_stream stream)
{
    return enqueue_call(team->job, stream,
                        (struct call){.kind = COLLECTIVE, .team = team, .collective = *request});
}
