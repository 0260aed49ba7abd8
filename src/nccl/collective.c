/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives: types and operators of NCCL, and the call of Weft for each. */
#include "nccl/comm.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ----------------------------------------------------------------------- types and operators */

static const struct {
    const char *name;
    weft_type type;
    unsigned char bytes;
} types[ncclNumTypes] = {
    [ncclInt8] = {"ncclInt8", WEFT_INT8, 1},
    [ncclUint8] = {"ncclUint8", WEFT_UINT8, 1},
    [ncclInt32] = {"ncclInt32", WEFT_INT32, 4},
    [ncclUint32] = {"ncclUint32", WEFT_UINT32, 4},
    [ncclInt64] = {"ncclInt64", WEFT_INT64, 8},
    [ncclUint64] = {"ncclUint64", WEFT_UINT64, 8},
    [ncclFloat16] = {"ncclFloat16", WEFT_HALF, 2},
    [ncclFloat32] = {"ncclFloat32", WEFT_FLOAT, 4},
    [ncclFloat64] = {"ncclFloat64", WEFT_DOUBLE, 8},
    [ncclBfloat16] = {"ncclBfloat16", WEFT_BFLOAT16, 2},
    [ncclFloat8e4m3] = {"ncclFloat8e4m3", WEFT_FP8_E4M3, 1},
    [ncclFloat8e5m2] = {"ncclFloat8e5m2", WEFT_FP8_E5M2, 1},
};

size_t type_bytes(ncclDataType_t type)
{
    return (unsigned)type < ncclNumTypes ? types[type].bytes : 0;
}

const char *type_name(ncclDataType_t type)
{
    return types[type].name;
}

const char *operation_name(enum operation what)
{
    static const char *const names[] = {
#define NCCL_NAME(id, name) "nccl" name,
        NCCL_OPERATIONS(NCCL_NAME)
#undef NCCL_NAME
    };
    return names[what];
}

static const weft_op operators[ncclNumOps] = {
    [ncclSum] = WEFT_SUM, [ncclProd] = WEFT_PROD, [ncclMax] = WEFT_MAX,
    [ncclMin] = WEFT_MIN, [ncclAvg] = WEFT_AVG,
};

static bool is_reduction(enum operation what)
{
    return what == ALL_REDUCE || what == REDUCE || what == REDUCE_SCATTER;
}

/* The factor of an operator of ncclRedOpCreatePreMulSum(), or NULL. */
static struct factor *find_factor(ncclComm_t comm, ncclRedOp_t op)
{
    int number = (int)op - ncclNumOps;
    return number >= 0 && number < comm->n_factors && comm->factors[number].used
               ? &comm->factors[number]
               : NULL;
}

/* Copies the factor of the operator, if it has one. */
static ncclResult_t check_operator(struct nccl_call *call)
{
    const char *name = operation_name(call->what);
    ncclResult_t result = ncclSuccess;
    if ((unsigned)call->op < ncclNumOps)
        return ncclSuccess;
    pthread_mutex_lock(&call->comm->order);
    const struct factor *factor = find_factor(call->comm, call->op);
    if (!factor)
        result = nccl_fail(ncclInvalidArgument, "%s: operator %d is none of this communicator",
                           name, (int)call->op);
    else if (factor->type != call->type)
        result = nccl_fail(ncclInvalidArgument,
                           "%s: the data are of type %s, and the operator was made for %s", name,
                           types[call->type].name, types[factor->type].name);
    else
        call->factor = *factor;
    pthread_mutex_unlock(&call->comm->order);
    return result;
}

static ncclResult_t check_call(struct nccl_call *call)
{
    const char *name = operation_name(call->what);
    const struct ncclComm *comm = call->comm;
    bool rooted = call->what == REDUCE || call->what == BROADCAST || call->what == GATHER ||
                  call->what == SCATTER;
    bool message = call->what == SEND || call->what == RECV;
    if (!type_bytes(call->type))
        return nccl_fail(ncclInvalidArgument, "%s: %d is no type", name, (int)call->type);
    if ((rooted || message) && (call->root < 0 || call->root >= comm->size))
        return nccl_fail(ncclInvalidArgument, "%s: %s is %d, and there are %d ranks", name,
                         message ? "peer" : "root", call->root, comm->size);
    if (call->n && ((call->what == SEND && !call->src) || (call->what == RECV && !call->dst)))
        return nccl_fail(ncclInvalidArgument, "%s: the buffer is null", name);
    return is_reduction(call->what) ? check_operator(call) : ncclSuccess;
}

/* ------------------------------------------------------------------------------- factors */

static ncclResult_t new_factor(ncclComm_t comm, int *number)
{
    int n = 0;
    while (n < comm->n_factors && comm->factors[n].used)
        n++;
    if (n == comm->n_factors) {
        int more = 2 * n + 4;
        struct factor *grown = realloc(comm->factors, (size_t)more * sizeof *grown);
        if (!grown)
            return nccl_fail(ncclSystemError, "ncclRedOpCreatePreMulSum: no memory");
        memset(grown + n, 0, (size_t)(more - n) * sizeof *grown);
        comm->factors = grown;
        comm->n_factors = more;
    }
    *number = n;
    return ncclSuccess;
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *at, ncclDataType_t type,
                                      ncclScalarResidence_t where, ncclComm_t comm)
{
    ncclResult_t result = comm_enter(comm, "ncclRedOpCreatePreMulSum");
    if (result)
        return result;
    bool on_gpu = where == ncclScalarDevice;
    int number = 0;
    if (!op || !at || !type_bytes(type))
        result = nccl_fail(ncclInvalidArgument,
                           "ncclRedOpCreatePreMulSum: a null argument, or %d "
                           "is no type",
                           (int)type);
    if (!result) {
        pthread_mutex_lock(&comm->order);
        result = new_factor(comm, &number);
        if (!result) {
            struct factor *made = &comm->factors[number];
            *made = (struct factor){.used = true, .type = type, .address = on_gpu ? at : NULL};
            if (!on_gpu)
                memcpy(made->number, at, type_bytes(type));
            *op = (ncclRedOp_t)(ncclNumOps + number);
        }
        pthread_mutex_unlock(&comm->order);
    }
    comm_leave(comm);
    return result;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
    ncclResult_t result = comm_enter(comm, "ncclRedOpDestroy");
    if (result)
        return result;
    pthread_mutex_lock(&comm->order);
    struct factor *factor = find_factor(comm, op);
    if (factor)
        factor->used = false;
    else
        result = nccl_fail(ncclInvalidArgument,
                           "ncclRedOpDestroy: operator %d is none of this communicator", (int)op);
    pthread_mutex_unlock(&comm->order);
    comm_leave(comm);
    return result;
}

/* ------------------------------------------------------------------------------------ calls */

static weft_status reduce_weighted(const struct nccl_call *c)
{
    weft_team *team = c->comm->team;
    weft_type type = types[c->type].type;
    const void *at = c->factor.address ? c->factor.address : c->factor.number;
    if (type >= WEFT_HALF)
        type = (weft_type)(type | WEFT_NARROW_FACTOR);
    switch (c->what) {
    case ALL_REDUCE:
        return weft_allreduce_weighted_on_stream(team, c->dst, c->src, c->n, type, at, c->stream);
    case REDUCE:
        return weft_reduce_weighted_on_stream(team, c->dst, c->src, c->n, type, at, c->root,
                                              c->stream);
    default:
        return weft_reducescatter_weighted_on_stream(team, c->dst, c->src, c->n, type, at,
                                                     c->stream);
    }
}

static weft_status reduce(const struct nccl_call *c)
{
    weft_team *team = c->comm->team;
    weft_type type = types[c->type].type;
    if (c->factor.used)
        return reduce_weighted(c);
    weft_op op = operators[c->op];
    switch (c->what) {
    case ALL_REDUCE:
        return weft_allreduce_on_stream(team, c->dst, c->src, c->n, type, op, c->stream);
    case REDUCE:
        return weft_reduce_on_stream(team, c->dst, c->src, c->n, type, op, c->root, c->stream);
    default:
        return weft_reducescatter_on_stream(team, c->dst, c->src, c->n, type, op, c->stream);
    }
}

static weft_status move(const struct nccl_call *c)
{
    weft_team *team = c->comm->team;
    size_t bytes = c->n * types[c->type].bytes;
    switch (c->what) {
    case BROADCAST:
        return weft_broadcast_on_stream(team, c->dst, c->src, bytes, c->root, c->stream);
    case ALL_GATHER:
        return weft_allgather_on_stream(team, c->dst, c->src, bytes, c->stream);
    case ALL_TO_ALL:
        return weft_alltoall_on_stream(team, c->dst, c->src, bytes, c->stream);
    case GATHER:
        return weft_gather_on_stream(team, c->dst, c->src, bytes, c->root, c->stream);
    default:
        return weft_scatter_on_stream(team, c->dst, c->src, bytes, c->root, c->stream);
    }
}

/* Memory that a rank does not need may be null in NCCL: the other buffer stands in where Weft wants
 * to know its kind. */
static void fill_unused(struct nccl_call *c)
{
    if (!c->dst && c->what != GATHER)
        c->dst = (void *)(uintptr_t)c->src;
    if (!c->src)
        c->src = c->dst;
}

/* In windows of NCCL_WIN_COLL_SYMMETRIC the others' kernels store to the destination itself. Every
 * rank has the same windows and offsets. What only the root has stays as it is. */
static void use_windows(struct nccl_call *c)
{
    size_t part = c->n * types[c->type].bytes, all = part * (size_t)c->comm->size;
    bool gathers = c->what == ALL_GATHER || c->what == ALL_TO_ALL;
    bool spreads = c->what == REDUCE_SCATTER || c->what == ALL_TO_ALL;
    if (c->comm->stage || !c->comm->windows || c->what == REDUCE || c->what == GATHER ||
        c->what == SCATTER)
        return;
    void *dst = window_symmetric(c->comm, c->dst, gathers ? all : part);
    const void *src = window_symmetric(c->comm, c->src, spreads ? all : part);
    if (!dst || (is_reduction(c->what) && !src))
        return;
    c->dst = dst;
    c->src = src ? src : c->src;
    c->symmetric = true;
}

weft_status collective_plan(const struct nccl_call *call, weft_coll_plan *plan)
{
    static const char *const names[] = {
        [ALL_REDUCE] = "allreduce", [REDUCE] = "reduce",        [REDUCE_SCATTER] = "reducescatter",
        [BROADCAST] = "broadcast",  [ALL_GATHER] = "allgather", [ALL_TO_ALL] = "alltoall",
        [GATHER] = "gather",        [SCATTER] = "scatter",
    };
    struct nccl_call used = *call;
    use_windows(&used);
    *plan = (weft_coll_plan){.size = sizeof *plan,
                             .operation = names[call->what],
                             .bytes = call->n * types[call->type].bytes,
                             .type = types[call->type].type,
                             .sms = call->limited ? call->most_sms : -1,
                             .symmetric = used.symmetric};
    /* Averages and sums with a factor have the same kernels. */
    plan->op = call->factor.used ? WEFT_AVG : operators[call->op];
    return weft_coll_plan_query(call->comm->team, plan);
}

weft_status collective_call(const struct nccl_call *call)
{
    weft_team *team = call->comm->team;
    weft_status status = call->limited ? weft_team_use_sms(team, call->most_sms) : WEFT_OK;
    if (!status)
        status = is_reduction(call->what) ? reduce(call) : move(call);
    if (call->limited)
        weft_team_use_sms(team, -1);
    return status;
}

ncclResult_t collective_run(struct nccl_call *call)
{
    struct nccl_call c = *call;
    ncclResult_t result = c.launched ? driver_event_record(c.launched, c.stream) : ncclSuccess;
    if (result || !c.n)
        return result;
    if (!c.comm->stage)
        fill_unused(&c);
    use_windows(&c);
    pthread_mutex_lock(&c.comm->order);
    if (c.comm->profiler)
        profiler_enqueue_begins(call, 1);
    state_begin(c.comm, c.what);
    result = comm_follow(c.comm, c.stream);
    if (!result)
        result = comm_result(c.comm, c.comm->stage ? staged_run(&c) : collective_call(&c));
    if (!result)
        result = comm_note(c.comm, c.stream);
    if (c.comm->profiler)
        profiler_enqueue_ends(call, 1);
    pthread_mutex_unlock(&c.comm->order);
    return result;
}

/* ------------------------------------------------------------------------ configurations */

static bool is_set(int value)
{
    return value != NCCL_CONFIG_UNDEF_INT;
}

/* Reports, once, which settings of a call have no effect. */
static void report_ignored(const struct nccl_call *call, const ncclCollConfig_t *config)
{
    static atomic_flag reported = ATOMIC_FLAG_INIT;
    char names[256];
    int n = snprintf(names, sizeof names, "%s%s%s%s", is_set(config->minCTAs) ? " minCTAs" : "",
                     is_set(config->nvlsCTAs) ? " nvlsCTAs" : "",
                     is_set(config->cgaClusterSize) ? " cgaClusterSize" : "",
                     config->algSelection ? " algSelection" : "");
    if (n && !atomic_flag_test_and_set(&reported))
        nccl_info(call->comm, "COLL", "%sConfig: no effect in Weft:%s", operation_name(call->what),
                  names);
}

static ncclResult_t read_call_config(struct nccl_call *call, const ncclCollConfig_t *config)
{
    const char *name = operation_name(call->what);
    if (config->size < offsetof(ncclCollConfig_t, launchCompletionEvent) ||
        config->magic != (unsigned)NCCL_API_MAGIC)
        return nccl_fail(ncclInvalidArgument,
                         "%sConfig: the configuration has size %zu and magic 0x%x: begin with "
                         "NCCL_COLLCONFIG_INITIALIZER",
                         name, config->size, config->magic);
    if (is_set(config->maxCTAs) && config->maxCTAs < 1)
        return nccl_fail(ncclInvalidArgument, "%sConfig: maxCTAs is %d: give 1 or more", name,
                         config->maxCTAs);
    call->limited = is_set(config->maxCTAs) || config->CTAPolicy == 2; /* NCCL_CTA_POLICY_ZERO */
    call->most_sms = config->CTAPolicy == 2 ? 0 : config->maxCTAs;
    if (config->size >= offsetof(ncclCollConfig_t, launchCompletionEvent) + sizeof(cudaEvent_t))
        call->launched = config->launchCompletionEvent;
    call->events.tag = config->userProfilerTag;
    report_ignored(call, config);
    return ncclSuccess;
}

/* ------------------------------------------------------------------------------ functions */

static ncclResult_t begin(struct nccl_call *call, const ncclCollConfig_t *config)
{
    ncclResult_t result = comm_enter(call->comm, operation_name(call->what));
    if (result)
        return result;
    result = check_call(call);
    if (!result && config)
        result = read_call_config(call, config);
    if (!result)
        result = group_add(call);
    comm_leave(call->comm);
    return result;
}

/* COLLECTIVE(name, (parameters), members of the call): also with a configuration of the call. */
#define LIST(...) __VA_ARGS__
#define COLLECTIVE(name, parameters, ...)                                                          \
    ncclResult_t name(LIST parameters)                                                             \
    {                                                                                              \
        struct nccl_call call = {.comm = comm, .type = type, .stream = stream, __VA_ARGS__};       \
        return begin(&call, NULL);                                                                 \
    }                                                                                              \
    ncclResult_t name##Config(LIST parameters, const ncclCollConfig_t *config)                     \
    {                                                                                              \
        struct nccl_call call = {.comm = comm, .type = type, .stream = stream, __VA_ARGS__};       \
        return begin(&call, config);                                                               \
    }

COLLECTIVE(ncclAllReduce,
           (const void *src, void *dst, size_t n, ncclDataType_t type, ncclRedOp_t op,
            ncclComm_t comm, cudaStream_t stream),
           .what = ALL_REDUCE, .src = src, .dst = dst, .n = n, .op = op)
COLLECTIVE(ncclReduce,
           (const void *src, void *dst, size_t n, ncclDataType_t type, ncclRedOp_t op, int root,
            ncclComm_t comm, cudaStream_t stream),
           .what = REDUCE, .src = src, .dst = dst, .n = n, .op = op, .root = root)
COLLECTIVE(ncclReduceScatter,
           (const void *src, void *dst, size_t n, ncclDataType_t type, ncclRedOp_t op,
            ncclComm_t comm, cudaStream_t stream),
           .what = REDUCE_SCATTER, .src = src, .dst = dst, .n = n, .op = op)
COLLECTIVE(ncclBroadcast,
           (const void *src, void *dst, size_t n, ncclDataType_t type, int root, ncclComm_t comm,
            cudaStream_t stream),
           .what = BROADCAST, .src = src, .dst = dst, .n = n, .root = root)
COLLECTIVE(ncclAllGather,
           (const void *src, void *dst, size_t n, ncclDataType_t type, ncclComm_t comm,
            cudaStream_t stream),
           .what = ALL_GATHER, .src = src, .dst = dst, .n = n)
COLLECTIVE(ncclAlltoAll,
           (const void *src, void *dst, size_t n, ncclDataType_t type, ncclComm_t comm,
            cudaStream_t stream),
           .what = ALL_TO_ALL, .src = src, .dst = dst, .n = n)
COLLECTIVE(ncclGather,
           (const void *src, void *dst, size_t n, ncclDataType_t type, int root, ncclComm_t comm,
            cudaStream_t stream),
           .what = GATHER, .src = src, .dst = dst, .n = n, .root = root)
COLLECTIVE(ncclScatter,
           (const void *src, void *dst, size_t n, ncclDataType_t type, int root, ncclComm_t comm,
            cudaStream_t stream),
           .what = SCATTER, .src = src, .dst = dst, .n = n, .root = root)

ncclResult_t ncclBcast(void *buffer, size_t n, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream)
{
    return ncclBroadcast(buffer, buffer, n, type, root, comm, stream);
}

ncclResult_t ncclSend(const void *src, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    struct nccl_call call = {.what = SEND,
                             .comm = comm,
                             .src = src,
                             .n = n,
                             .type = type,
                             .root = peer,
                             .stream = stream};
    return begin(&call, NULL);
}

ncclResult_t ncclRecv(void *dst, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    struct nccl_call call = {.what = RECV,
                             .comm = comm,
                             .dst = dst,
                             .n = n,
                             .type = type,
                             .root = peer,
                             .stream = stream};
    return begin(&call, NULL);
}
