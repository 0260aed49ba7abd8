/* SPDX-License-Identifier: Apache-2.0 */
/* Every collective with every type and operator, in place and not, in random order, alone and in
 * groups, on two streams, against a serial model. Real numbers are small integers, so that every
 * sum is exact in every type; integers have all bits, and wrap. A rank's factor of
 * ncclRedOpCreatePreMulSum() is in memory of the host or of the GPU. Arguments: ranks, rounds; or
 * ranks, rounds, "windows": in symmetric windows; or ranks, "sweep", bytes: each collective once
 * with every size from 8 bytes on, doubled. */
#include "nccl_test.h"

enum {
    MOST = 3000,
    TYPES = 12,
    WHATS = 8,
    FACTOR = ncclNumOps /* operator number, of this test */
};

static int rounds;
static bool in_windows;
static size_t room = MOST * 8;             /* bytes of each memory */
static unsigned char *host, *right;        /* of the host, as large */
static unsigned char *memory[4], *factors; /* of the GPU: src and dst, twice */

static const ncclDataType_t types[TYPES] = {
    ncclInt8,    ncclUint8,   ncclInt32,   ncclUint32,   ncclInt64,      ncclUint64,
    ncclFloat16, ncclFloat32, ncclFloat64, ncclBfloat16, ncclFloat8e4m3, ncclFloat8e5m2,
};
static const size_t sizes[TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

static bool is_integer(int type)
{
    return type < 6;
}

static bool is_fp8(int type)
{
    return type >= 10;
}

/* A normal number or zero in a type of 16 or 8 bits: `digits` bits of the fraction. */
static uint16_t narrow(float value, int digits, int bias, int width)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 31 << (width - 1), exponent = (bits >> 23 & 255) - 127 + (uint32_t)bias;
    return (uint16_t)(value == 0 ? sign
                                 : sign | exponent << digits | (bits & 0x7fffff) >> (23 - digits));
}

static void store_real(unsigned char *at, int type, double value)
{
    float single = (float)value;
    uint16_t bits = types[type] == ncclFloat16      ? narrow(single, 10, 15, 16)
                    : types[type] == ncclBfloat16   ? narrow(single, 7, 127, 16)
                    : types[type] == ncclFloat8e4m3 ? narrow(single, 3, 7, 8)
                                                    : narrow(single, 2, 15, 8);
    memcpy(at,
           types[type] == ncclFloat64   ? (const void *)&value
           : types[type] == ncclFloat32 ? (const void *)&single
                                        : &bits,
           sizes[type]);
}

static uint64_t hash_of(uint64_t round, int rank, size_t i)
{
    uint64_t x = (round + 1) * 977 + (uint64_t)rank * 131 + i * 7 + i / 5;
    return x * UINT64_C(0x9e3779b97f4a7c15);
}

/* Number of a rank's operator. FP8 has few exact numbers. */
static int factor_of(uint64_t round, int type, int rank)
{
    int factor = (int)(hash_of(round, rank, 99) >> 61);
    return is_integer(type) ? factor * 1000003 - 3 : is_fp8(type) ? 1 + factor % 2 : factor - 3;
}

/* An integer as the type has it, with the sign in all 64 bits. */
static uint64_t as_type(int type, uint64_t x)
{
    unsigned unused = 64 - 8 * (unsigned)sizes[type];
    return type % 2 ? x << unused >> unused : (uint64_t)((int64_t)(x << unused) >> unused);
}

static bool is_less(int type, uint64_t a, uint64_t b)
{
    return type % 2 ? a < b : (int64_t)a < (int64_t)b;
}

/* Element i of a rank's source: real numbers 0 ... 3, of FP8 0 and 1. */
static double value_of(uint64_t round, int type, int rank, size_t i)
{
    return (double)(hash_of(round, rank, i) >> (is_fp8(type) ? 63 : 62));
}

static uint64_t integer_of(uint64_t round, int type, int rank, size_t i)
{
    return as_type(type, hash_of(round, rank, i) ^ hash_of(round, rank, i) >> 32);
}

/* Element i of rank `from`, or combined over all where `op` is not -1. */
static double real_result(uint64_t round, int type, int op, int from, size_t i)
{
    double result = 0;
    if (op < 0)
        return value_of(round, type, from, i);
    for (int rank = 0; rank < ranks; rank++) {
        double value = value_of(round, type, rank, i);
        value *= op == FACTOR ? factor_of(round, type, rank) : 1;
        bool replaces = (op == ncclMax && value > result) || (op == ncclMin && value < result);
        if (rank == 0 || replaces)
            result = value;
        else if (op == ncclProd)
            result *= value;
        else if (op != ncclMax && op != ncclMin)
            result += value;
    }
    return op == ncclAvg ? result / ranks : result;
}

static uint64_t integer_result(uint64_t round, int type, int op, int from, size_t i)
{
    uint64_t result = 0;
    if (op < 0)
        return integer_of(round, type, from, i);
    for (int rank = 0; rank < ranks; rank++) {
        uint64_t value = integer_of(round, type, rank, i);
        value *= op == FACTOR ? (uint64_t)factor_of(round, type, rank) : 1;
        bool replaces = (op == ncclMax && is_less(type, result, value)) ||
                        (op == ncclMin && is_less(type, value, result));
        if (rank == 0 || replaces)
            result = value;
        else if (op == ncclProd)
            result *= value;
        else if (op != ncclMax && op != ncclMin)
            result += value;
        result = as_type(type, result);
    }
    if (op != ncclAvg)
        return result;
    return type % 2 ? result / (uint64_t)ranks : (uint64_t)((int64_t)result / ranks);
}

static void store(unsigned char *at, uint64_t round, int type, int op, int from, size_t i)
{
    uint64_t integer = is_integer(type) ? integer_result(round, type, op, from, i) : 0;
    if (is_integer(type))
        memcpy(at, &integer, sizes[type]); /* of little-endian bytes the lowest */
    else
        store_real(at, type, real_result(round, type, op, from, i));
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

static void prepare(struct work *w)
{
    size_t src, dst, bytes = sizes[w->type], own = (size_t)me * w->n * bytes;
    extents(w, &src, &dst);
    if (w->what == 5)
        w->in_place = false;
    memset(host, 0xee, room);
    to_gpu(w->dst, host, room);
    if (w->in_place && dst > src)
        w->src = w->dst + own;
    else if (w->in_place && src > dst)
        w->dst = w->src + own;
    else if (w->in_place)
        w->src = w->dst;
    for (size_t i = 0; i < src; i++)
        store(host + i * bytes, w->round, w->type, -1, me, i);
    to_gpu(w->src, host, src * bytes);
}

/* The operator with this rank's factor, which the caller destroys. */
static ncclRedOp_t make_operator(const struct work *w, ncclComm_t comm)
{
    unsigned char bytes[8] = {0};
    unsigned char *at = factors + w->round % 64 * 8;
    int64_t number = factor_of(w->round, w->type, me);
    ncclRedOp_t op;
    if (is_integer(w->type))
        memcpy(bytes, &number, sizes[w->type]);
    else
        store_real(bytes, w->type, (double)number);
    to_gpu(at, bytes, sizeof bytes);
    if (w->round % 3)
        OK(ncclRedOpCreatePreMulSum(&op, at, types[w->type], ncclScalarDevice, comm));
    else
        OK(ncclRedOpCreatePreMulSum(&op, bytes, types[w->type], ncclScalarHostImmediate, comm));
    return op;
}

static void enqueue_with(const struct work *w, ncclRedOp_t op, ncclComm_t comm)
{
    ncclDataType_t type = types[w->type];
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

/* An operator may be destroyed as soon as the call has returned, in a group too. */
static void enqueue(const struct work *w, ncclComm_t comm)
{
    ncclRedOp_t op = w->op == FACTOR ? make_operator(w, comm) : (ncclRedOp_t)w->op;
    enqueue_with(w, op, comm);
    if (w->op == FACTOR)
        OK(ncclRedOpDestroy(op, comm));
}

/* Stores element i of what this rank's destination must be. */
static void store_wanted(unsigned char *at, const struct work *w, size_t i)
{
    size_t mine = (size_t)me * w->n;
    int from = w->n ? (int)(i / w->n) : 0;
    switch (w->what) {
    case 0:
    case 1:
        store(at, w->round, w->type, w->op, 0, i);
        return;
    case 2:
        store(at, w->round, w->type, w->op, 0, mine + i);
        return;
    case 3:
        store(at, w->round, w->type, -1, w->root, i);
        return;
    case 4:
    case 6:
        store(at, w->round, w->type, -1, from, i % w->n);
        return;
    case 5:
        store(at, w->round, w->type, -1, from, mine + i % w->n);
        return;
    default:
        store(at, w->round, w->type, -1, w->root, mine + i);
    }
}

static void verify(const struct work *w)
{
    size_t src, dst;
    bool only_root = w->what == 1 || w->what == 6;
    extents(w, &src, &dst);
    if ((only_root && w->root != me) || !w->n)
        return;
    for (size_t i = 0; i < dst; i++)
        store_wanted(right + i * sizes[w->type], w, i);
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

/* An operator whose result is exact in the type. */
static int draw_operator(uint64_t *state, int type)
{
    static const int ops[] = {ncclSum, ncclProd, ncclMax, ncclMin, FACTOR, ncclAvg};
    bool exact = is_integer(type) || (ranks & (ranks - 1)) == 0;
    int op = ops[draw(state, exact ? 6 : 5)];
    return op == ncclProd && ranks > 3 ? ncclSum : op;
}

/* Random works, one or two at a time. */
static void random_works(ncclComm_t comm, const cudaStream_t streams[2])
{
    uint64_t state = 5;
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
            w->round = 2 * (uint64_t)round + (uint64_t)i;
            w->src = memory[2 * i];
            w->dst = memory[2 * i + 1];
            prepare(w);
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
            verify(&works[i]);
    }
}

/* Every size, and a little less of every second one. Types and operators take turns. */
static void sweep(ncclComm_t comm, cudaStream_t stream)
{
    int turn = 0;
    for (size_t bytes = 8; bytes <= room; bytes *= 2)
        for (int what = 0; what < WHATS; what++, turn++) {
            struct work w = {.what = what,
                             .type = (turn + turn / TYPES) % TYPES,
                             .root = turn % ranks,
                             .in_place = turn % 3 == 0,
                             .round = (uint64_t)turn,
                             .src = memory[0],
                             .dst = memory[1],
                             .stream = stream};
            bool wide = what == 2 || what >= 4;
            w.op = turn % 2 ? ncclSum : ncclMax;
            w.n = bytes / sizes[w.type] / (wide ? (size_t)ranks : 1);
            w.n -= w.n > 1000 && turn % 2 ? 7 : 0;
            prepare(&w);
            enqueue(&w, comm);
            finish(stream);
            verify(&w);
        }
}

static void make_window(ncclComm_t comm, int i)
{
    ncclWindow_t window; /* ends with the communicator */
    OK(ncclMemAlloc((void **)&memory[i], room));
    OK(ncclCommWindowRegister(comm, memory[i], room, &window, NCCL_WIN_COLL_SYMMETRIC));
}

static void body(ncclUniqueId id)
{
    ncclComm_t comm;
    cudaStream_t streams[2];
    int count, rank;
    host = malloc(room);
    right = malloc(room);
    CHECK(host && right);
    OK(ncclCommInitRank(&comm, ranks, id, me));
    OK(ncclCommCount(comm, &count));
    OK(ncclCommUserRank(comm, &rank));
    CHECK(count == ranks && rank == me);
    for (int i = 0; i < 2; i++)
        CHECK(!cuda.stream_create(&streams[i], 1));
    for (int i = 0; i < 4; i++)
        if (in_windows)
            make_window(comm, i);
        else
            memory[i] = gpu_memory(room);
    factors = gpu_memory(64 * 8);
    if (rounds)
        random_works(comm, streams);
    else
        sweep(comm, streams[0]);
    OK(ncclCommFinalize(comm));
    OK(ncclCommDestroy(comm));
    FAILS(ncclCommCount(comm, &count), ncclInvalidArgument, "has been destroyed");
    for (int i = 0; i < 4; i++)
        if (in_windows)
            OK(ncclMemFree(memory[i]));
        else
            gpu_free(memory[i]);
    gpu_free(factors);
    free(host);
    free(right);
}

int main(int argc, char **argv)
{
    rounds = argc > 2 ? atoi(argv[2]) : 100;
    in_windows = argc > 3 && !strcmp(argv[3], "windows");
    if (argc > 3 && !strcmp(argv[2], "sweep"))
        room = strtoull(argv[3], NULL, 0);
    return run_ranks(argc > 1 ? atoi(argv[1]) : 2, body, NULL);
}
