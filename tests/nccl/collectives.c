/* SPDX-License-Identifier: Apache-2.0 */
/* Every collective with every type and operator, in place and not, in random order, alone and in
 * groups, on two streams, against a serial model. Values are small integers, so that every sum is
 * exact in every type. Arguments: ranks, rounds. */
#include "nccl_test.h"

enum { MOST = 3000, TYPES = 10 }; /* TYPES: FP8 has tests of its own in tests/gpu */

static int rounds;
static unsigned char *memory[4]; /* of the GPU: src and dst, twice */

static const ncclDataType_t types[TYPES] = {
    ncclInt8,   ncclUint8,   ncclInt32,   ncclUint32,  ncclInt64,
    ncclUint64, ncclFloat16, ncclFloat32, ncclFloat64, ncclBfloat16,
};
static const size_t sizes[TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

static uint16_t narrow(float value, bool bfloat)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (bfloat)
        return (uint16_t)(bits >> 16);
    if (value == 0)
        return 0;
    return (uint16_t)((bits >> 16 & 0x8000) | (((bits >> 23 & 255) - 112) << 10) |
                      (bits >> 13 & 1023));
}

static void store(unsigned char *at, int type, size_t i, double value)
{
    switch (types[type]) {
    case ncclInt8:
        ((int8_t *)at)[i] = (int8_t)value;
        return;
    case ncclUint8:
        at[i] = (uint8_t)value;
        return;
    case ncclInt32:
        ((int32_t *)(void *)at)[i] = (int32_t)value;
        return;
    case ncclUint32:
        ((uint32_t *)(void *)at)[i] = (uint32_t)value;
        return;
    case ncclInt64:
        ((int64_t *)(void *)at)[i] = (int64_t)value;
        return;
    case ncclUint64:
        ((uint64_t *)(void *)at)[i] = (uint64_t)value;
        return;
    case ncclFloat32:
        ((float *)(void *)at)[i] = (float)value;
        return;
    case ncclFloat64:
        ((double *)(void *)at)[i] = value;
        return;
    default:
        ((uint16_t *)(void *)at)[i] = narrow((float)value, types[type] == ncclBfloat16);
    }
}

/* Element i of a rank's source, 0 ... 3. */
static double value_of(uint64_t round, int rank, size_t i)
{
    uint64_t x = (round + 1) * 977 + (uint64_t)rank * 131 + i * 7 + i / 5;
    return (double)(x * UINT64_C(0x9e3779b97f4a7c15) >> 62);
}

static double reduced(uint64_t round, int op, size_t i)
{
    double sum = value_of(round, 0, i);
    for (int rank = 1; rank < ranks; rank++) {
        double value = value_of(round, rank, i);
        if (op == ncclSum || op == ncclAvg)
            sum += value;
        else if (op == ncclProd)
            sum *= value;
        else if (op == ncclMax)
            sum = sum > value ? sum : value;
        else
            sum = sum < value ? sum : value;
    }
    return sum;
}

struct work {
    int what, type, op, root;
    size_t n;
    bool in_place;
    uint64_t round;
    unsigned char *src, *dst;
    cudaStream_t stream;
};

/* Elements of the source and of the destination, and where in the other one an operation in place
 * has the smaller one. */
static void extents(const struct work *w, size_t *src, size_t *dst)
{
    bool wide_src = w->what == 2 || w->what == 5 || w->what == 7;
    bool wide_dst = w->what == 4 || w->what == 5 || w->what == 6;
    *src = w->n * (wide_src ? (size_t)ranks : 1);
    *dst = w->n * (wide_dst ? (size_t)ranks : 1);
}

static void prepare(struct work *w, unsigned char *host)
{
    size_t src, dst, bytes = sizes[w->type], own = (size_t)me * w->n * bytes;
    extents(w, &src, &dst);
    if (w->what == 5)
        w->in_place = false;
    memset(host, 0xee, MOST * 8);
    to_gpu(w->dst, host, MOST * 8);
    if (w->in_place && dst > src)
        w->src = w->dst + own;
    else if (w->in_place && src > dst)
        w->dst = w->src + own;
    else if (w->in_place)
        w->src = w->dst;
    for (size_t i = 0; i < src; i++)
        store(host, w->type, i, value_of(w->round, me, i));
    to_gpu(w->src, host, src * bytes);
}

static void enqueue(const struct work *w, ncclComm_t comm)
{
    ncclDataType_t type = types[w->type];
    ncclRedOp_t op = (ncclRedOp_t)w->op;
    bool root = w->root == me;
    switch (w->what) {
    case 0:
        OK(ncclAllReduce(w->src, w->dst, w->n, type, op, comm, w->stream));
        return;
    case 1:
        OK(ncclReduce(w->src, root ? w->dst : NULL, w->n, type, op, w->root, comm, w->stream));
        return;
    case 2:
        OK(ncclReduceScatter(w->src, w->dst, w->n, type, op, comm, w->stream));
        return;
    case 3:
        if (w->in_place && w->n % 2)
            OK(ncclBcast(w->dst, w->n, type, w->root, comm, w->stream));
        else
            OK(ncclBroadcast(root ? w->src : NULL, w->dst, w->n, type, w->root, comm, w->stream));
        return;
    case 4:
        OK(ncclAllGather(w->src, w->dst, w->n, type, comm, w->stream));
        return;
    case 5:
        OK(ncclAlltoAll(w->src, w->dst, w->n, type, comm, w->stream));
        return;
    case 6:
        OK(ncclGather(w->src, root ? w->dst : NULL, w->n, type, w->root, comm, w->stream));
        return;
    default:
        OK(ncclScatter(root ? w->src : NULL, w->dst, w->n, type, w->root, comm, w->stream));
    }
}

/* What element i of this rank's destination must be. */
static double wanted(const struct work *w, size_t i)
{
    switch (w->what) {
    case 0:
    case 1:
        return reduced(w->round, w->op, i);
    case 2:
        return reduced(w->round, w->op, (size_t)me * w->n + i);
    case 3:
        return value_of(w->round, w->root, i);
    case 4:
    case 6:
        return value_of(w->round, (int)(i / w->n), i % w->n);
    case 5:
        return value_of(w->round, (int)(i / w->n), (size_t)me * w->n + i % w->n);
    default:
        return value_of(w->round, w->root, (size_t)me * w->n + i);
    }
}

static void verify(const struct work *w, unsigned char *host)
{
    static unsigned char right[MOST * 8];
    size_t src, dst;
    bool only_root = w->what == 1 || w->what == 6;
    extents(w, &src, &dst);
    if ((only_root && w->root != me) || !w->n)
        return;
    bool divides = w->what < 3 && w->op == ncclAvg;
    for (size_t i = 0; i < dst; i++)
        store(right, w->type, i, divides ? wanted(w, i) / ranks : wanted(w, i));
    from_gpu(host, w->dst, dst * sizes[w->type]);
    for (size_t i = 0; i < dst * sizes[w->type]; i++)
        if (host[i] != right[i]) {
            fprintf(stderr,
                    "rank %d: round %llu, operation %d, type %d, operator %d, root %d, n %zu, in "
                    "place %d: byte %zu is %d, not %d\n",
                    me, (unsigned long long)w->round, w->what, w->type, w->op, w->root, w->n,
                    w->in_place, i, host[i], right[i]);
            _exit(1);
        }
}

/* Whether the result is exact in the type. */
static int draw_operator(uint64_t *state, int type)
{
    bool real = types[type] == ncclFloat32 || types[type] == ncclFloat64;
    bool power = (ranks & (ranks - 1)) == 0;
    int op = (int)draw(state, real && power ? 5 : 4);
    return op == ncclProd && ranks > 3 ? ncclSum : op;
}

static void body(ncclUniqueId id)
{
    static unsigned char host[MOST * 8];
    ncclComm_t comm;
    cudaStream_t streams[2];
    uint64_t state = 5;
    int count, rank;
    OK(ncclCommInitRank(&comm, ranks, id, me));
    OK(ncclCommCount(comm, &count));
    OK(ncclCommUserRank(comm, &rank));
    CHECK(count == ranks && rank == me);
    for (int i = 0; i < 2; i++)
        CHECK(!cuda.stream_create(&streams[i], 1));
    for (int i = 0; i < 4; i++)
        memory[i] = gpu_memory(MOST * 8);
    for (int round = 0; round < rounds; round++) {
        struct work works[2];
        int n = 1 + (int)draw(&state, 2);
        for (int i = 0; i < n; i++) {
            struct work *w = &works[i];
            w->what = (int)draw(&state, 8);
            w->type = (int)draw(&state, TYPES);
            w->op = draw_operator(&state, w->type);
            w->root = (int)draw(&state, (uint32_t)ranks);
            w->n = draw(&state, round % 4 ? 40 : MOST / (uint32_t)ranks);
            w->in_place = draw(&state, 2);
            w->stream = streams[draw(&state, 2)];
            w->round = (uint64_t)(2 * round + i);
            w->src = memory[2 * i];
            w->dst = memory[2 * i + 1];
            prepare(w, host);
        }
        if (n > 1)
            OK(ncclGroupStart());
        for (int i = 0; i < n; i++)
            enqueue(&works[i], comm);
        if (n > 1)
            OK(ncclGroupEnd());
        for (int i = 0; i < 2; i++)
            finish(streams[i]);
        for (int i = 0; i < n; i++)
            verify(&works[i], host);
    }
    OK(ncclCommFinalize(comm));
    OK(ncclCommDestroy(comm));
    FAILS(ncclCommCount(comm, &count), ncclInvalidArgument, "has been destroyed");
    for (int i = 0; i < 4; i++)
        gpu_free(memory[i]);
}

int main(int argc, char **argv)
{
    rounds = argc > 2 ? atoi(argv[2]) : 100;
    return run_ranks(argc > 1 ? atoi(argv[1]) : 2, body, NULL);
}
