/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives in stream order: by the kernels of ops/coll/kernel.c where these can serve, else as
 * host callbacks that call the host functions (call.c). */
#include "ops/coll/kernel.h"
#include "ops/coll/memory.h"
#include "ops/coll/nodes_gpu.h"
#include "ops/stream/stream.h"

/* Enqueues a host callback. The host function checks the other arguments when it runs. */
static weft_status by_host(weft_team *team, const struct coll_request *request, weft_stream stream)
{
    enum segment_id segment;
    size_t offset;
    weft_status status = access_find_own(request->function, team->job->default_ctx, request->dst, 1,
                                         &segment, &offset);
    if (status)
        return base_fail_context(
            status, "argument dst (the GPUs of this team do not all access each other)");
    if (coll_reduces[request->what] || request->what == COLL_ALLTOALL)
        status = coll_gpu_nodes_load(team);
    return status ? status : stream_call_collective(team, request, stream);
}

static weft_status collective_on_stream(weft_team *team, const struct coll_request *request,
                                        enum box_operation operation, weft_stream stream)
{
    if (!team)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: team is null", request->function);
    if (atomic_load(&team->job->state) != JOB_RUNNING)
        return job_finalized(request->function);
    weft_status status = job_check_failed(team->job);
    if (!status)
        status = stream_check(request->function, team->job, stream);
    if (status)
        return status;
    if (request->root < 0 || request->root >= team->n)
        return base_fail(WEFT_ERR_PE, "%s: root %d; the team has %d members", request->function,
                         request->root, team->n);
    bool own_size = request->what == COLL_COLLECT || request->what == COLL_ALLTOALLV;
    uint64_t detail = request->element ? request->dst_stride << 32 ^ request->src_stride
                                       : reduce_detail(&request->reduction);
    if (request->bytes == 0 && !own_size)
        return WEFT_OK;
    bool host = !stream_on_cuda(team->job) || !coll_kernel_serves(team);
    if (request->reduction.type == WEFT_LONG_DOUBLE)
        host = true; /* GPUs have no long double */
    if (!host)
        status = coll_kernel_memory(team, request, &host);
    if (status)
        return status;
    if (host)
        return by_host(team, request, stream);
    uint64_t phase;
    status = coll_begin(request->function, team, operation, request->root,
                        own_size ? 0 : request->bytes, detail, &phase);
    return status ? status : coll_kernel_enqueue(team, request, stream);
}

WEFT_EXPORT weft_status weft_broadcast_on_stream(weft_team *team, void *dst, const void *src,
                                                 size_t bytes, int root, weft_stream stream)
{
    struct coll_request request = {.function = "weft_broadcast_on_stream",
                                   .what = COLL_BROADCAST,
                                   .dst = dst,
                                   .src = src,
                                   .bytes = bytes,
                                   .root = root};
    return collective_on_stream(team, &request, BOX_OP_BROADCAST, stream);
}

WEFT_EXPORT weft_status weft_allgather_on_stream(weft_team *team, void *dst, const void *src,
                                                 size_t bytes, weft_stream stream)
{
    struct coll_request request = {.function = "weft_allgather_on_stream",
                                   .what = COLL_ALLGATHER,
                                   .dst = dst,
                                   .src = src,
                                   .bytes = bytes};
    return collective_on_stream(team, &request, BOX_OP_ALLGATHER, stream);
}

WEFT_EXPORT weft_status weft_alltoall_on_stream(weft_team *team, void *dst, const void *src,
                                                size_t bytes, weft_stream stream)
{
    struct coll_request request = {.function = "weft_alltoall_on_stream",
                                   .what = COLL_ALLTOALL,
                                   .dst = dst,
                                   .src = src,
                                   .bytes = bytes};
    return collective_on_stream(team, &request, BOX_OP_ALLTOALL, stream);
}

WEFT_EXPORT weft_status weft_alltoalls_on_stream(weft_team *team, void *dst, const void *src,
                                                 ptrdiff_t dst_stride, ptrdiff_t src_stride,
                                                 size_t element, size_t n, weft_stream stream)
{
    struct coll_request request = {.function = "weft_alltoalls_on_stream",
                                   .what = COLL_ALLTOALL,
                                   .dst = dst,
                                   .src = src,
                                   .n = n,
                                   .element = element,
                                   .dst_stride = (uint64_t)dst_stride,
                                   .src_stride = (uint64_t)src_stride};
    if (n && (dst_stride < 1 || src_stride < 1 || element == 0))
        return base_fail(WEFT_ERR_ARGUMENT,
                         "%s: strides %td and %td, element of %zu bytes; at least 1 is needed",
                         request.function, dst_stride, src_stride, element);
    if (__builtin_mul_overflow(n, element, &request.bytes))
        return base_fail(WEFT_ERR_RANGE, "%s: %zu elements of %zu bytes are too many",
                         request.function, n, element);
    return collective_on_stream(team, &request, BOX_OP_ALLTOALLS, stream);
}

WEFT_EXPORT weft_status weft_collect_on_stream(weft_team *team, void *dst, const void *src,
                                               size_t bytes, weft_stream stream)
{
    struct coll_request request = {.function = "weft_collect_on_stream",
                                   .what = COLL_COLLECT,
                                   .dst = dst,
                                   .src = src,
                                   .bytes = bytes};
    return collective_on_stream(team, &request, BOX_OP_COLLECT, stream);
}

WEFT_EXPORT weft_status weft_alltoallv_on_stream(weft_team *team, void *dst, size_t room,
                                                 const uint64_t *recv_bytes,
                                                 const uint64_t *recv_at, const void *src,
                                                 const uint64_t *send_bytes,
                                                 const uint64_t *send_at, weft_stream stream)
{
    struct coll_request request = {.function = "weft_alltoallv_on_stream",
                                   .what = COLL_ALLTOALLV,
                                   .dst = dst,
                                   .src = src,
                                   .send_bytes = send_bytes,
                                   .send_at = send_at,
                                   .recv_bytes = recv_bytes,
                                   .recv_at = recv_at,
                                   .dst_bytes = room};
    return collective_on_stream(team, &request, BOX_OP_ALLTOALLV, stream);
}

WEFT_EXPORT weft_status weft_gather_on_stream(weft_team *team, void *dst, const void *src,
                                              size_t bytes, int root, weft_stream stream)
{
    struct coll_request request = {.function = "weft_gather_on_stream",
                                   .what = COLL_GATHER,
                                   .dst = dst,
                                   .src = src,
                                   .bytes = bytes,
                                   .root = root};
    return collective_on_stream(team, &request, BOX_OP_GATHER, stream);
}

WEFT_EXPORT weft_status weft_scatter_on_stream(weft_team *team, void *dst, const void *src,
                                               size_t bytes, int root, weft_stream stream)
{
    struct coll_request request = {.function = "weft_scatter_on_stream",
                                   .what = COLL_SCATTER,
                                   .dst = dst,
                                   .src = src,
                                   .bytes = bytes,
                                   .root = root};
    return collective_on_stream(team, &request, BOX_OP_SCATTER, stream);
}

static weft_status reduction(weft_team *team, struct coll_request *request,
                             enum box_operation operation, weft_stream stream)
{
    if (__builtin_mul_overflow(request->n, request->reduction.element, &request->bytes))
        return base_fail(WEFT_ERR_RANGE, "%s: %zu elements are too many", request->function,
                         request->n);
    return collective_on_stream(team, request, operation, stream);
}

static weft_status by_op(weft_team *team, struct coll_request *request,
                         enum box_operation operation, weft_type type, weft_op op,
                         weft_stream stream)
{
    weft_status status = reduce_combiner(request->function, type, op, &request->reduction);
    return status ? status : reduction(team, request, operation, stream);
}

/* A factor in GPU memory is read when the stream reaches the collective; any other factor is read
 * now. */
static weft_status scaled(weft_team *team, struct coll_request *request,
                          enum box_operation operation, weft_type type, const void *factor,
                          weft_stream stream)
{
    bool weighted = request->reduction.weighted;
    weft_status status =
        reduce_scaled_combiner(request->function, type, factor, &request->reduction);
    if (status)
        return status;
    request->reduction.weighted = weighted;
    struct gpu *gpu = team ? team->job->gpu : NULL;
    if (!gpu || gpu_place_of(gpu, factor) != GPU_PLACE_DEVICE) {
        memcpy(request->factor_bytes, factor, reduce_factor_bytes(&request->reduction));
        request->reduction.factor = reduce_factor_of(&request->reduction, factor);
        request->reduction.factor_at = NULL;
    }
    return reduction(team, request, operation, stream);
}

WEFT_EXPORT weft_status weft_allreduce_on_stream(weft_team *team, void *dst, const void *src,
                                                 size_t n, weft_type type, weft_op op,
                                                 weft_stream stream)
{
    struct coll_request request = {.function = "weft_allreduce_on_stream",
                                   .what = COLL_ALLREDUCE,
                                   .dst = dst,
                                   .src = src,
                                   .n = n};
    return by_op(team, &request, BOX_OP_ALLREDUCE, type, op, stream);
}

WEFT_EXPORT weft_status weft_allreduce_scaled_on_stream(weft_team *team, void *dst, const void *src,
                                                        size_t n, weft_type type,
                                                        const void *factor, weft_stream stream)
{
    struct coll_request request = {.function = "weft_allreduce_scaled_on_stream",
                                   .what = COLL_ALLREDUCE,
                                   .dst = dst,
                                   .src = src,
                                   .n = n};
    return scaled(team, &request, BOX_OP_ALLREDUCE, type, factor, stream);
}

WEFT_EXPORT weft_status weft_reducescatter_on_stream(weft_team *team, void *dst, const void *src,
                                                     size_t n, weft_type type, weft_op op,
                                                     weft_stream stream)
{
    struct coll_request request = {.function = "weft_reducescatter_on_stream",
                                   .what = COLL_REDUCESCATTER,
                                   .dst = dst,
                                   .src = src,
                                   .n = n};
    return by_op(team, &request, BOX_OP_REDUCESCATTER, type, op, stream);
}

WEFT_EXPORT weft_status weft_reducescatter_scaled_on_stream(weft_team *team, void *dst,
                                                            const void *src, size_t n,
                                                            weft_type type, const void *factor,
                                                            weft_stream stream)
{
    struct coll_request request = {.function = "weft_reducescatter_scaled_on_stream",
                                   .what = COLL_REDUCESCATTER,
                                   .dst = dst,
                                   .src = src,
                                   .n = n};
    return scaled(team, &request, BOX_OP_REDUCESCATTER, type, factor, stream);
}

WEFT_EXPORT weft_status weft_reduce_on_stream(weft_team *team, void *dst, const void *src, size_t n,
                                              weft_type type, weft_op op, int root,
                                              weft_stream stream)
{
    struct coll_request request = {.function = "weft_reduce_on_stream",
                                   .what = COLL_REDUCE,
                                   .dst = dst,
                                   .src = src,
                                   .n = n,
                                   .root = root};
    return by_op(team, &request, BOX_OP_REDUCE, type, op, stream);
}

WEFT_EXPORT weft_status weft_reduce_scaled_on_stream(weft_team *team, void *dst, const void *src,
                                                     size_t n, weft_type type, const void *factor,
                                                     int root, weft_stream stream)
{
    struct coll_request request = {.function = "weft_reduce_scaled_on_stream",
                                   .what = COLL_REDUCE,
                                   .dst = dst,
                                   .src = src,
                                   .n = n,
                                   .root = root};
    return scaled(team, &request, BOX_OP_REDUCE, type, factor, stream);
}

WEFT_EXPORT weft_status weft_allreduce_weighted_on_stream(weft_team *team, void *dst,
                                                          const void *src, size_t n, weft_type type,
                                                          const void *factor, weft_stream stream)
{
    struct coll_request request = {.function = "weft_allreduce_weighted_on_stream",
                                   .what = COLL_ALLREDUCE,
                                   .dst = dst,
                                   .src = src,
                                   .n = n,
                                   .reduction.weighted = true};
    return scaled(team, &request, BOX_OP_ALLREDUCE, type, factor, stream);
}

WEFT_EXPORT weft_status weft_reducescatter_weighted_on_stream(weft_team *team, void *dst,
                                                              const void *src, size_t n,
                                                              weft_type type, const void *factor,
                                                              weft_stream stream)
{
    struct coll_request request = {.function = "weft_reducescatter_weighted_on_stream",
                                   .what = COLL_REDUCESCATTER,
                                   .dst = dst,
                                   .src = src,
                                   .n = n,
                                   .reduction.weighted = true};
    return scaled(team, &request, BOX_OP_REDUCESCATTER, type, factor, stream);
}

WEFT_EXPORT weft_status weft_reduce_weighted_on_stream(weft_team *team, void *dst, const void *src,
                                                       size_t n, weft_type type, const void *factor,
                                                       int root, weft_stream stream)
{
    struct coll_request request = {.function = "weft_reduce_weighted_on_stream",
                                   .what = COLL_REDUCE,
                                   .dst = dst,
                                   .src = src,
                                   .n = n,
                                   .reduction.weighted = true,
                                   .root = root};
    return scaled(team, &request, BOX_OP_REDUCE, type, factor, stream);
}

WEFT_EXPORT weft_status weft_team_limit_sms(weft_team *team, int sms)
{
    if (!team)
        return base_fail(WEFT_ERR_ARGUMENT, "weft_team_limit_sms: team is null");
    if (atomic_load(&team->job->state) != JOB_RUNNING)
        return job_finalized("weft_team_limit_sms");
    return coll_kernel_limit(team, sms);
}

/* The request of a plan. */
static weft_status read_plan(const weft_coll_plan *plan, struct coll_request *request)
{
    int what = 0;
    while (what < COLL_WHATS && strcmp(coll_names[what], plan->operation) != 0)
        what++;
    if (what == COLL_WHATS)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "weft_coll_plan_query: there is no operation \"%s\"; `weft explain coll` "
                         "has their names",
                         plan->operation);
    *request = (struct coll_request){
        .function = "weft_coll_plan_query", .what = (enum coll_what)what, .bytes = plan->bytes};
    return coll_reduces[what]
               ? reduce_combiner(request->function, plan->type, plan->op, &request->reduction)
               : WEFT_OK;
}

WEFT_EXPORT weft_status weft_coll_plan_query(weft_team *team, weft_coll_plan *plan)
{
    struct coll_request request;
    if (!team || !plan || plan->size != sizeof *plan || !plan->operation)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "weft_coll_plan_query: team, plan or plan->operation is null, or "
                         "plan->size is not sizeof(weft_coll_plan), %zu",
                         sizeof *plan);
    if (atomic_load(&team->job->state) != JOB_RUNNING)
        return job_finalized("weft_coll_plan_query");
    if (plan->sms < -1 || !plan->bytes)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "weft_coll_plan_query: %zu bytes and %d SMs; give 1 byte or more, and -1 "
                         "(the team's limit), 0 (copy engines) or more SMs",
                         plan->bytes, plan->sms);
    weft_status status = read_plan(plan, &request);
    if (!status && (team->n == 1 || !coll_kernel_serves(team)))
        status = base_fail(WEFT_ERR_UNSUPPORTED,
                           "weft_coll_plan_query: there is no model of the collectives of this "
                           "team, because %s; `weft explain` has the paths of the pairs",
                           team->n == 1 ? "it has one member" : "kernels do not serve it");
    if (status)
        return status;
    struct coll_choice choice = coll_kernel_plan(team, &request, plan->sms, plan->symmetric != 0);
    plan->algorithm = coll_algorithm_name(choice.algorithm);
    plan->blocks = (int)choice.blocks;
    plan->threads = (int)choice.threads;
    plan->us = choice.us;
    plan->agreed = team->coll != NULL;
    return WEFT_OK;
}

WEFT_EXPORT weft_status weft_team_use_sms(weft_team *team, int sms)
{
    if (!team)
        return base_fail(WEFT_ERR_ARGUMENT, "weft_team_use_sms: team is null");
    if (atomic_load(&team->job->state) != JOB_RUNNING)
        return job_finalized("weft_team_use_sms");
    return coll_kernel_use(team, sms);
}
