/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives: types and operators of NCCL, and the call of Weft for each. */
#include "nccl/comm.h"

#include <stdlib.h>
#include <string.h>

/* ----------------------------------------------------------------------- types and operators */

static const struct {
    const char *name;
    weft_type type;
    unsigned char bytes;
    bool real;
} types[ncclNumTypes] = {
    [ncclInt8] = {"ncclInt8", WEFT_INT8, 1, false},
    [ncclUint8] = {"ncclUint8", WEFT_UINT8, 1, false},
    [ncclInt32] = {"ncclInt32", WEFT_INT32, 4, false},
    [ncclUint32] = {"ncclUint32", WEFT_UINT32, 4, false},
    [ncclInt64] = {"ncclInt64", WEFT_INT64, 8, false},
    [ncclUint64] = {"ncclUint64", WEFT_UINT64, 8, false},
    [ncclFloat16] = {"ncclFloat16", WEFT_HALF, 2, true},
    [ncclFloat32] = {"ncclFloat32", WEFT_FLOAT, 4, true},
    [ncclFloat64] = {"ncclFloat64", WEFT_DOUBLE, 8, true},
    [ncclBfloat16] = {"ncclBfloat16", WEFT_BFLOAT16, 2, true},
    [ncclFloat8e4m3] = {"ncclFloat8e4m3", WEFT_FP8_E4M3, 1, true},
    [ncclFloat8e5m2] = {"ncclFloat8e5m2", WEFT_FP8_E5M2, 1, true},
};

size_t type_bytes(ncclDataType_t type)
{
    return (unsigned)type < ncclNumTypes ? types[type].bytes : 0;
}

const char *operation_name(enum operation what)
{
    static const char *const names[] = {"ncclAllReduce", "ncclReduce",    "ncclReduceScatter",
                                        "ncclBroadcast", "ncclAllGather", "ncclAlltoAll",
                                        "ncclGather",    "ncclScatter",   "ncclPutSignal",
                                        "ncclSend",      "ncclRecv",      "ncclWaitSignal"};
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

static ncclResult_t check_operator(const struct nccl_call *call)
{
    const char *name = operation_name(call->what);
    if ((unsigned)call->op < ncclNumOps) {
        if (call->op == ncclAvg && !types[call->type].real)
            return nccl_fail(ncclInvalidUsage,
                             "%s: ncclAvg of %s is not supported; use ncclSum and divide", name,
                             types[call->type].name);
        return ncclSuccess;
    }
    const struct factor *factor = find_factor(call->comm, call->op);
    if (!factor)
        return nccl_fail(ncclInvalidArgument, "%s: operator %d is none of this communicator", name,
                         (int)call->op);
    if (factor->type != call->type)
        return nccl_fail(ncclInvalidArgument,
                         "%s: the data are of type %s, and the operator was made for %s", name,
                         types[call->type].name, types[factor->type].name);
    return ncclSuccess;
}

static ncclResult_t check_call(const struct nccl_call *call)
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

static float of_half(const void *at)
{
    uint16_t bits;
    memcpy(&bits, at, sizeof bits);
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    float value = exponent == 31 ? (fraction ? __builtin_nanf("") : __builtin_inff())
                  : exponent     ? __builtin_ldexpf((float)(fraction + 1024), exponent - 25)
                                 : __builtin_ldexpf((float)fraction, -24);
    return bits >> 15 ? -value : value;
}

static float of_bfloat16(const void *at)
{
    uint16_t bits;
    uint32_t wide;
    float value;
    memcpy(&bits, at, sizeof bits);
    wide = (uint32_t)bits << 16;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* A factor in memory of the host. */
static void read_factor(struct factor *factor, const void *at)
{
    switch (factor->type) {
    case ncclFloat64:
        memcpy(&factor->number, at, sizeof factor->number);
        return;
    case ncclFloat16:
        factor->narrow = of_half(at);
        return;
    case ncclBfloat16:
        factor->narrow = of_bfloat16(at);
        return;
    default:
        memcpy(&factor->narrow, at, sizeof factor->narrow);
    }
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *at, ncclDataType_t type,
                                      ncclScalarResidence_t where, ncclComm_t comm)
{
    ncclResult_t result = comm_enter(comm, "ncclRedOpCreatePreMulSum");
    if (result)
        return result;
    bool known =
        type == ncclFloat32 || type == ncclFloat64 || type == ncclFloat16 || type == ncclBfloat16;
    bool on_gpu = where == ncclScalarDevice;
    int number = 0;
    if (!op || !at || !type_bytes(type))
        result = nccl_fail(ncclInvalidArgument,
                           "ncclRedOpCreatePreMulSum: a null argument, or %d "
                           "is no type",
                           (int)type);
    else if (!known || (on_gpu && type_bytes(type) < 4))
        result = nccl_fail(ncclInvalidUsage,
                           "ncclRedOpCreatePreMulSum: a factor of %s in memory of the %s is not "
                           "supported",
                           types[type].name, on_gpu ? "GPU" : "host");
    if (!result) {
        pthread_mutex_lock(&comm->order);
        result = new_factor(comm, &number);
        if (!result) {
            struct factor *made = &comm->factors[number];
            *made = (struct factor){.used = true, .type = type, .address = on_gpu ? at : NULL};
            if (!on_gpu)
                read_factor(made, at);
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

static weft_status reduce_weighted(const struct nccl_call *c, const struct factor *factor)
{
    weft_team *team = c->comm->team;
    weft_type type = types[c->type].type;
    const void *at = factor->address;
    if (!at)
        at = c->type == ncclFloat64 ? (const void *)&factor->number : &factor->narrow;
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
    const struct factor *factor = find_factor(c->comm, c->op);
    if (factor)
        return reduce_weighted(c, factor);
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

weft_status collective_call(const struct nccl_call *call)
{
    return is_reduction(call->what) ? reduce(call) : move(call);
}

ncclResult_t collective_run(const struct nccl_call *call)
{
    struct nccl_call c = *call;
    if (!c.n)
        return ncclSuccess;
    if (!c.comm->stage)
        fill_unused(&c);
    pthread_mutex_lock(&c.comm->order);
    ncclResult_t result = comm_follow(c.comm, c.stream);
    if (!result)
        result = comm_result(c.comm, c.comm->stage ? staged_run(&c) : collective_call(&c));
    if (!result)
        result = comm_note(c.comm, c.stream);
    pthread_mutex_unlock(&c.comm->order);
    return result;
}

static ncclResult_t begin(const struct nccl_call *call)
{
    ncclResult_t result = comm_enter(call->comm, operation_name(call->what));
    if (result)
        return result;
    result = check_call(call);
    if (!result)
        result = group_add(call);
    comm_leave(call->comm);
    return result;
}

ncclResult_t ncclAllReduce(const void *src, void *dst, size_t n, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return begin(
        &(struct nccl_call){ALL_REDUCE, comm, src, dst, n, type, op, 0, stream, NULL, 0, 0});
}

ncclResult_t ncclReduce(const void *src, void *dst, size_t n, ncclDataType_t type, ncclRedOp_t op,
                        int root, ncclComm_t comm, cudaStream_t stream)
{
    return begin(
        &(struct nccl_call){REDUCE, comm, src, dst, n, type, op, root, stream, NULL, 0, 0});
}

ncclResult_t ncclReduceScatter(const void *src, void *dst, size_t n, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return begin(
        &(struct nccl_call){REDUCE_SCATTER, comm, src, dst, n, type, op, 0, stream, NULL, 0, 0});
}

ncclResult_t ncclBroadcast(const void *src, void *dst, size_t n, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream)
{
    return begin(
        &(struct nccl_call){BROADCAST, comm, src, dst, n, type, ncclSum, root, stream, NULL, 0, 0});
}

ncclResult_t ncclBcast(void *buffer, size_t n, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream)
{
    return ncclBroadcast(buffer, buffer, n, type, root, comm, stream);
}

ncclResult_t ncclAllGather(const void *src, void *dst, size_t n, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    return begin(
        &(struct nccl_call){ALL_GATHER, comm, src, dst, n, type, ncclSum, 0, stream, NULL, 0, 0});
}

ncclResult_t ncclAlltoAll(const void *src, void *dst, size_t n, ncclDataType_t type,
                          ncclComm_t comm, cudaStream_t stream)
{
    return begin(
        &(struct nccl_call){ALL_TO_ALL, comm, src, dst, n, type, ncclSum, 0, stream, NULL, 0, 0});
}

ncclResult_t ncclGather(const void *src, void *dst, size_t n, ncclDataType_t type, int root,
                        ncclComm_t comm, cudaStream_t stream)
{
    return begin(
        &(struct nccl_call){GATHER, comm, src, dst, n, type, ncclSum, root, stream, NULL, 0, 0});
}

ncclResult_t ncclScatter(const void *src, void *dst, size_t n, ncclDataType_t type, int root,
                         ncclComm_t comm, cudaStream_t stream)
{
    return begin(
        &(struct nccl_call){SCATTER, comm, src, dst, n, type, ncclSum, root, stream, NULL, 0, 0});
}

ncclResult_t ncclSend(const void *src, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return begin(
        &(struct nccl_call){SEND, comm, src, NULL, n, type, ncclSum, peer, stream, NULL, 0, 0});
}

ncclResult_t ncclRecv(void *dst, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return begin(
        &(struct nccl_call){RECV, comm, NULL, dst, n, type, ncclSum, peer, stream, NULL, 0, 0});
}

/* ------------------------------------------------------------------ with a configuration */

static ncclResult_t check_config(const char *function, const ncclCollConfig_t *config)
{
    if (!config || (config->size >= offsetof(ncclCollConfig_t, ext) &&
                    config->magic == (unsigned)NCCL_API_MAGIC))
        return ncclSuccess;
    return nccl_fail(ncclInvalidArgument,
                     "%s: the configuration has size %zu and magic 0x%x: begin with "
                     "NCCL_COLLCONFIG_INITIALIZER",
                     function, config->size, config->magic);
}

#define WITH_CONFIG(name, parameters, arguments)                                                   \
    ncclResult_t name##Config parameters                                                           \
    {                                                                                              \
        ncclResult_t result = check_config(#name "Config", config);                                \
        return result ? result : name arguments;                                                   \
    }

WITH_CONFIG(ncclAllReduce,
            (const void *src, void *dst, size_t n, ncclDataType_t type, ncclRedOp_t op,
             ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config),
            (src, dst, n, type, op, comm, stream))
WITH_CONFIG(ncclReduce,
            (const void *src, void *dst, size_t n, ncclDataType_t type, ncclRedOp_t op, int root,
             ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config),
            (src, dst, n, type, op, root, comm, stream))
WITH_CONFIG(ncclReduceScatter,
            (const void *src, void *dst, size_t n, ncclDataType_t type, ncclRedOp_t op,
             ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config),
            (src, dst, n, type, op, comm, stream))
WITH_CONFIG(ncclBroadcast,
            (const void *src, void *dst, size_t n, ncclDataType_t type, int root, ncclComm_t comm,
             cudaStream_t stream, const ncclCollConfig_t *config),
            (src, dst, n, type, root, comm, stream))
WITH_CONFIG(ncclAllGather,
            (const void *src, void *dst, size_t n, ncclDataType_t type, ncclComm_t comm,
             cudaStream_t stream, const ncclCollConfig_t *config),
            (src, dst, n, type, comm, stream))
WITH_CONFIG(ncclAlltoAll,
            (const void *src, void *dst, size_t n, ncclDataType_t type, ncclComm_t comm,
             cudaStream_t stream, const ncclCollConfig_t *config),
            (src, dst, n, type, comm, stream))
WITH_CONFIG(ncclGather,
            (const void *src, void *dst, size_t n, ncclDataType_t type, int root, ncclComm_t comm,
             cudaStream_t stream, const ncclCollConfig_t *config),
            (src, dst, n, type, root, comm, stream))
WITH_CONFIG(ncclScatter,
            (const void *src, void *dst, size_t n, ncclDataType_t type, int root, ncclComm_t comm,
             cudaStream_t stream, const ncclCollConfig_t *config),
            (src, dst, n, type, root, comm, stream))
