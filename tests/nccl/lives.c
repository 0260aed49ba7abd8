/* SPDX-License-Identifier: Apache-2.0 */
/* How communicators begin, end and fail. Argument: the case. */
#include "nccl_test.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

static const char *which;

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void sum(ncclComm_t comm, int *n_of)
{
    float *at = gpu_memory(sizeof *at), value;
    int rank, n;
    OK(ncclCommUserRank(comm, &rank));
    OK(ncclCommCount(comm, &n));
    value = (float)(rank + 1);
    to_gpu(at, &value, sizeof value);
    OK(ncclAllReduce(at, at, 1, ncclFloat, ncclSum, comm, NULL));
    finish(NULL);
    from_gpu(&value, at, sizeof value);
    CHECK(value == (float)(n * (n + 1) / 2));
    gpu_free(at);
    if (n_of)
        *n_of = n;
}

/* Two communicators of the same ranks, children that outlive their parents, a rank without one. */
static void splits(ncclUniqueId id)
{
    ncclComm_t comm, by_parity, reversed, none;
    int n, rank;
    OK(ncclCommInitRank(&comm, ranks, id, me));
    OK(ncclCommSplit(comm, me % 2, me, &by_parity, NULL));
    OK(ncclCommSplit(comm, 0, -me, &reversed, NULL));
    OK(ncclCommSplit(comm, me == 0 ? NCCL_SPLIT_NOCOLOR : 5, 0, &none, NULL));
    CHECK((none == NULL) == (me == 0));
    OK(ncclCommUserRank(reversed, &rank));
    CHECK(rank == ranks - 1 - me);
    sum(comm, &n);
    CHECK(n == ranks);
    OK(ncclCommDestroy(comm));
    sum(by_parity, &n);
    CHECK(n == (ranks + 1 - me % 2) / 2);
    sum(reversed, &n);
    CHECK(n == ranks);
    if (none)
        sum(none, NULL);
    OK(ncclCommDestroy(by_parity));
    OK(ncclCommDestroy(reversed));
    OK(ncclCommDestroy(none));
}

static void errors(ncclUniqueId id)
{
    ncclComm_t comm;
    float *at = gpu_memory(64), host = 0;
    ncclRedOp_t op;
    int n;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    FAILS(ncclCommInitRank(&comm, 0, id, 0), ncclInvalidArgument, "rank 0 of 0 ranks");
    FAILS(ncclCommInitRank(&comm, 2, id, 2), ncclInvalidArgument, "rank 2 of 2 ranks");
    FAILS(ncclCommInitRank(NULL, 1, id, 0), ncclInvalidArgument, "comm is null");
    config.magic = 1;
    FAILS(ncclCommInitRankConfig(&comm, ranks, id, me, &config), ncclInvalidArgument,
          "NCCL_CONFIG_INITIALIZER");
    FAILS(ncclCommCount(NULL, &n), ncclInvalidArgument, "the communicator is null");
    FAILS(ncclGroupEnd(), ncclInvalidUsage, "without ncclGroupStart");
    FAILS(ncclGetUniqueId(NULL), ncclInvalidArgument, "id is null");
    OK(ncclCommInitRank(&comm, ranks, id, me));
    FAILS(ncclAllReduce(at, at, 1, (ncclDataType_t)99, ncclSum, comm, NULL), ncclInvalidArgument,
          "99 is no type");
    FAILS(ncclAllReduce(at, at, 1, ncclFloat, (ncclRedOp_t)77, comm, NULL), ncclInvalidArgument,
          "operator 77 is none");
    FAILS(ncclBroadcast(at, at, 1, ncclFloat, ranks, comm, NULL), ncclInvalidArgument, "root is");
    FAILS(ncclSend(at, 1, ncclFloat, -1, comm, NULL), ncclInvalidArgument, "peer is -1");
    FAILS(ncclAllReduce(&host, &host, 1, ncclFloat, ncclSum, comm, NULL), ncclInvalidArgument,
          "nor memory that GPU");
    host = 3;
    OK(ncclRedOpCreatePreMulSum(&op, &host, ncclFloat, ncclScalarHostImmediate, comm));
    FAILS(ncclAllReduce(at, at, 1, ncclDouble, op, comm, NULL), ncclInvalidArgument,
          "made for ncclFloat32");
    to_gpu(at, &host, sizeof host);
    OK(ncclAllReduce(at, at, 1, ncclFloat, op, comm, NULL));
    finish(NULL);
    from_gpu(&host, at, sizeof host);
    CHECK(host == 9 * (float)ranks);
    OK(ncclRedOpDestroy(op, comm));
    FAILS(ncclRedOpDestroy(op, comm), ncclInvalidArgument, "none of this communicator");
    sum(comm, NULL);
    OK(ncclCommFinalize(comm));
    FAILS(ncclAllReduce(at, at, 1, ncclFloat, ncclSum, comm, NULL), ncclInvalidUsage,
          "has been finalized");
    OK(ncclCommDestroy(comm));
    FAILS(ncclCommDestroy(comm), ncclInvalidArgument, "has been destroyed");
}

/* Rank 0 is killed: the others' operation ends, and they are told which rank. */
static void dies(ncclUniqueId id)
{
    ncclComm_t comm;
    ncclResult_t error = ncclSuccess;
    float *at = gpu_memory(64);
    OK(ncclCommInitRank(&comm, ranks, id, me));
    sum(comm, NULL);
    if (me == 0)
        raise(SIGKILL);
    double begun = seconds();
    ncclResult_t result = ncclAllReduce(at, at, 1, ncclFloat, ncclSum, comm, NULL);
    CHECK(result == ncclSuccess || result == ncclRemoteError);
    finish(NULL);
    while (error == ncclSuccess && seconds() - begun < 5)
        OK(ncclCommGetAsyncError(comm, &error));
    CHECK(error == ncclRemoteError);
    CHECK(strstr(ncclGetLastError(comm), "PE 0"));
    FAILS(ncclAllReduce(at, at, 1, ncclFloat, ncclSum, comm, NULL), ncclRemoteError, "PE 0");
    OK(ncclCommAbort(comm));
    CHECK(seconds() - begun < 4);
}

static void *abort_soon(void *comm)
{
    nanosleep(&(struct timespec){.tv_nsec = 200 * 1000 * 1000}, NULL);
    OK(ncclCommAbort(comm));
    return NULL;
}

/* Rank 1 comes to no operation; another thread of rank 0 aborts. */
static void aborts(ncclUniqueId id)
{
    ncclComm_t comm;
    pthread_t thread;
    ncclResult_t error = ncclSuccess;
    float *at = gpu_memory(64);
    double begun = seconds();
    OK(ncclCommInitRank(&comm, ranks, id, me));
    if (me == 0) {
        CHECK(!pthread_create(&thread, NULL, abort_soon, comm));
        ncclAllReduce(at, at, 1, ncclFloat, ncclSum, comm, NULL);
        finish(NULL);
        CHECK(!pthread_join(thread, NULL));
    } else {
        while (error == ncclSuccess && seconds() - begun < 10)
            OK(ncclCommGetAsyncError(comm, &error));
        CHECK(error == ncclRemoteError);
        CHECK(strstr(ncclGetLastError(comm), "PE 0 canceled the job: ncclCommAbort"));
        OK(ncclCommDestroy(comm));
    }
    CHECK(seconds() - begun < 8);
}

struct moment {
    ncclComm_t comm;
    long ns;
};

static void *abort_at(void *argument)
{
    struct moment *moment = argument;
    nanosleep(&(struct timespec){.tv_nsec = moment->ns}, NULL);
    OK(ncclCommAbort(moment->comm));
    return NULL;
}

/* A rank aborts at any moment of a flow of operations. All calls return, and other communicators
 * remain. */
static void aborts_any_time(ncclUniqueId id)
{
    enum { ROUNDS = 30, BYTES = 100000 };
    ncclComm_t base, comm;
    uint64_t state = 3;
    cudaStream_t stream;
    char *at = gpu_memory(BYTES), *got = gpu_memory(BYTES);
    OK(ncclCommInitRank(&base, ranks, id, me));
    CHECK(!cuda.stream_create(&stream, 1));
    for (int round = 0; round < ROUNDS; round++) {
        int aborter = (int)draw(&state, (uint32_t)ranks);
        long ns = (long)draw(&state, 8 * 1000 * 1000);
        uint64_t alike = state;
        pthread_t thread;
        ncclResult_t result = ncclSuccess, error = ncclSuccess;
        OK(ncclCommSplit(base, 0, me, &comm, NULL));
        struct moment moment = {comm, ns};
        if (me == aborter)
            CHECK(!pthread_create(&thread, NULL, abort_at, &moment));
        for (int i = 0; i < 100000 && !result && !error; i++) {
            if (draw(&alike, 2)) {
                result = ncclAllReduce(at, got, BYTES / 4, ncclFloat, ncclSum, comm, stream);
            } else {
                OK(ncclGroupStart());
                result = ncclSend(at, BYTES, ncclChar, (me + 1) % ranks, comm, stream);
                if (!result)
                    result = ncclRecv(got, BYTES, ncclChar, (me + ranks - 1) % ranks, comm, stream);
                ncclResult_t end = ncclGroupEnd();
                result = result ? result : end;
            }
            finish(stream);
            if (me != aborter)
                OK(ncclCommGetAsyncError(comm, &error));
        }
        CHECK(result || error);
        if (me == aborter)
            CHECK(!pthread_join(thread, NULL));
        else
            OK(ncclCommAbort(comm));
        sum(base, NULL);
    }
    OK(ncclCommDestroy(base));
}

static void starts_later(ncclUniqueId id)
{
    ncclComm_t comm;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclResult_t state = ncclInProgress;
    float *at = gpu_memory(64);
    config.blocking = 0;
    if (me)
        nanosleep(&(struct timespec){.tv_nsec = 300 * 1000 * 1000}, NULL);
    CHECK(ncclCommInitRankConfig(&comm, ranks, id, me, &config) == ncclInProgress);
    if (!me)
        FAILS(ncclAllReduce(at, at, 1, ncclFloat, ncclSum, comm, NULL), ncclInvalidUsage,
              "is being set up");
    while (state == ncclInProgress)
        OK(ncclCommGetAsyncError(comm, &state));
    CHECK(state == ncclSuccess);
    sum(comm, NULL);
    OK(ncclCommDestroy(comm));
}

/* Ranks 0 and 1 grow by ranks 2 and 3, which have no communicator. */
static void grows(ncclUniqueId id)
{
    ncclComm_t small, large;
    ncclUniqueId more;
    int n, rank, fd;
    char path[128];
    snprintf(path, sizeof path, "/tmp/weft-test-nccl-grow-%d", (int)getppid());
    if (me > 1) { /* the program brings the id to new ranks */
        while ((fd = open(path, O_RDONLY)) < 0 || read(fd, &more, sizeof more) != sizeof more) {
            if (fd >= 0)
                close(fd);
            nanosleep(&(struct timespec){.tv_nsec = 5 * 1000 * 1000}, NULL);
        }
        close(fd);
        OK(ncclCommGrow(NULL, ranks, &more, me, &large, NULL));
    } else {
        OK(ncclCommInitRank(&small, 2, id, me));
        if (me == 1) {
            OK(ncclCommGetUniqueId(small, &more));
            fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
            CHECK(fd >= 0 && write(fd, &more, sizeof more) == sizeof more);
            close(fd);
        }
        OK(ncclCommGrow(small, ranks, me == 1 ? &more : NULL, -1, &large, NULL));
        sum(small, &n);
        CHECK(n == 2);
        OK(ncclCommDestroy(small));
    }
    OK(ncclCommUserRank(large, &rank));
    CHECK(rank == me);
    sum(large, &n);
    CHECK(n == ranks);
    OK(ncclCommDestroy(large));
    if (me == 1)
        unlink(path);
}

/* Rank 0 is killed. The others shrink, and go on; then again without the last one, which lives. */
static void shrinks(ncclUniqueId id)
{
    ncclComm_t comm, less, least;
    ncclResult_t error = ncclSuccess;
    int n, rank, dead = 0, last = ranks - 2;
    double begun = seconds();
    OK(ncclCommInitRank(&comm, ranks, id, me));
    sum(comm, NULL);
    if (me == 0)
        raise(SIGKILL);
    while (error == ncclSuccess && seconds() - begun < 5)
        OK(ncclCommGetAsyncError(comm, &error));
    CHECK(error == ncclRemoteError);
    FAILS(ncclCommShrink(comm, &me, 1, &less, NULL, 0), ncclInvalidUsage, "is among the excluded");
    FAILS(ncclCommShrink(comm, &ranks, 1, &less, NULL, 0), ncclInvalidArgument, "is excluded, of");
    OK(ncclCommShrink(comm, &dead, 1, &less, NULL, NCCL_SHRINK_ABORT));
    FAILS(ncclCommShrink(comm, &dead, 1, &least, NULL, 0), ncclInvalidUsage, "has been shrunk");
    OK(ncclCommAbort(comm));
    OK(ncclCommUserRank(less, &rank));
    CHECK(rank == me - 1);
    sum(less, &n);
    CHECK(n == ranks - 1);
    if (rank != last) {
        OK(ncclCommShrink(less, &last, 1, &least, NULL, NCCL_SHRINK_DEFAULT));
        sum(least, &n);
        CHECK(n == ranks - 2);
        OK(ncclCommDestroy(least));
    }
    OK(ncclCommDestroy(less));
}

enum { WINDOW = 1 << 20, PART = 5000 };

/* Each rank puts a part into each other one's window, twice, with two signals. */
static uint64_t memory_of(ncclComm_t comm, ncclCommMemStat_t stat)
{
    uint64_t bytes = 99;
    OK(ncclCommMemStats(comm, stat, &bytes));
    return bytes;
}

static size_t free_memory(void)
{
    int (*get)(size_t *, size_t *);
    size_t left = 0, all = 0;
    load_function(dlopen("libcuda.so.1", RTLD_NOW), &get, "cuMemGetInfo_v2");
    CHECK(!get(&left, &all));
    return left;
}

/* What stands in the way of it, at every rank. */
static void check_obstacles(ncclComm_t comm)
{
    int (*begin)(cudaStream_t, int), (*end)(cudaStream_t, void **);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *at, *graph;
    cudaStream_t stream;
    ncclWindow_t window;
    load_function(driver, &begin, "cuStreamBeginCapture_v2");
    load_function(driver, &end, "cuStreamEndCapture");
    CHECK(!cuda.stream_create(&stream, 1));
    OK(ncclMemAlloc(&at, 4096));
    FAILS(ncclCommSuspend(comm, 0), ncclInvalidArgument, "give NCCL_SUSPEND_MEM");
    OK(ncclCommWindowRegister(comm, at, 4096, &window, NCCL_WIN_COLL_SYMMETRIC));
    FAILS(ncclCommSuspend(comm, NCCL_SUSPEND_MEM), ncclInvalidUsage,
          "at this rank it has symmetric windows");
    OK(ncclCommWindowDeregister(comm, window));
    if (!me) { /* a signal to itself, which no other rank sees */
        CHECK(!begin(stream, 2));
        OK(ncclSignal(0, 0, 0, 0, comm, stream));
        CHECK(!end(stream, &graph));
    }
    FAILS(ncclCommSuspend(comm, NCCL_SUSPEND_MEM), ncclInvalidUsage,
          me ? "at another rank graphs have captured" : "at this rank graphs have captured");
    sum(comm, NULL);
}

static void exchange_values(ncclComm_t comm, float *at)
{
    float value = (float)me;
    to_gpu(at, &value, sizeof value);
    OK(ncclGroupStart());
    OK(ncclSend(at, 1, ncclFloat, (me + 1) % ranks, comm, NULL));
    OK(ncclRecv(at + 1, 1, ncclFloat, (me + ranks - 1) % ranks, comm, NULL));
    OK(ncclGroupEnd());
    finish(NULL);
    from_gpu(&value, at + 1, sizeof value);
    CHECK(value == (float)((me + ranks - 1) % ranks));
}

/* The memory of a suspended communicator is free; signals that no rank has waited for remain. */
static void suspends(ncclUniqueId id)
{
    ncclComm_t comm, other;
    ncclResult_t error;
    float *at = gpu_memory(8);
    ncclWaitSignalDesc_t wait = {1, (me + ranks - 1) % ranks, 0, 0};
    OK(ncclCommInitRank(&comm, ranks, id, me));
    OK(ncclCommSplit(comm, 0, me, &other, NULL));
    FAILS(ncclCommResume(comm), ncclInvalidUsage, "not suspended");
    sum(other, NULL); /* loads its kernels */
    for (int round = 0; round < 3; round++) {
        sum(comm, NULL);
        OK(ncclSignal((me + 1) % ranks, 0, 0, 0, comm, NULL));
        finish(NULL);
        CHECK(memory_of(comm, ncclStatGpuMemSuspend) > 0);
        CHECK(memory_of(comm, ncclStatGpuMemSuspended) == 0);
        CHECK(memory_of(comm, ncclStatGpuMemPersist) == 0);
        size_t before = free_memory(), held = memory_of(comm, ncclStatGpuMemSuspend);
        OK(ncclCommSuspend(comm, NCCL_SUSPEND_MEM));
        sum(other, NULL); /* no other rank maps the memory any more */
        CHECK(free_memory() >= before + held);
        CHECK(memory_of(comm, ncclStatGpuMemSuspended) == 1);
        CHECK(memory_of(comm, ncclStatGpuMemTotal) == 0);
        FAILS(ncclAllReduce(at, at, 1, ncclFloat, ncclSum, comm, NULL), ncclInvalidUsage,
              "the communicator is suspended");
        OK(ncclCommGetAsyncError(comm, &error));
        OK(error);
        OK(ncclCommResume(comm));
        OK(ncclWaitSignal(1, &wait, comm, NULL));
        exchange_values(comm, at);
        sum(comm, NULL);
        CHECK(memory_of(comm, ncclStatGpuMemTotal) > 0);
    }
    OK(ncclCommGetAsyncError(comm, &error));
    OK(error);
    OK(ncclCommSuspend(other, NCCL_SUSPEND_MEM));
    check_obstacles(comm);
    OK(ncclCommDestroy(other)); /* while it is suspended */
    OK(ncclCommDestroy(comm));
}

static void windows(ncclUniqueId id)
{
    ncclComm_t comm;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclWindow_t window, plain;
    ncclWaitSignalDesc_t waits[8];
    unsigned char *at, *from = gpu_memory(PART), host[PART], *same;
    uint64_t bytes;
    cudaStream_t stream;
    config.numRmaSig = 3;
    OK(ncclCommInitRankConfig(&comm, ranks, id, me, &config));
    CHECK(!cuda.stream_create(&stream, 1));
    OK(ncclMemAlloc((void **)&at, WINDOW));
    OK(ncclCommWindowRegister(comm, at, WINDOW, &window, NCCL_WIN_COLL_SYMMETRIC));
    OK(ncclWinGetUserPtr(comm, window, (void **)&same));
    CHECK(same == at);
    OK(ncclCommMemStats(comm, ncclStatGpuMemTotal, &bytes));
    CHECK(bytes > 0);
    for (int round = 0; round < 2; round++) {
        memset(host, 10 * me + round + 1, PART);
        to_gpu(from, host, PART);
        OK(ncclGroupStart());
        for (int peer = 0; peer < ranks; peer++) {
            waits[peer] = (ncclWaitSignalDesc_t){2, peer, 1, 0};
            OK(ncclPutSignal(from, PART, ncclUint8, peer, window, (size_t)me * PART + 7, 1, 0, 0,
                             comm, stream));
            OK(ncclSignal(peer, 1, 0, 0, comm, stream));
        }
        OK(ncclWaitSignal(ranks, waits, comm, stream));
        OK(ncclGroupEnd());
        finish(stream);
        for (int peer = 0; peer < ranks; peer++) {
            from_gpu(host, at + peer * PART + 7, PART);
            for (int i = 0; i < PART; i++)
                CHECK(host[i] == 10 * peer + round + 1);
        }
        sum(comm, NULL); /* nobody puts again before all have looked */
    }
    FAILS(ncclPutSignal(from, PART, ncclUint8, 0, window, WINDOW - PART + 1, 0, 0, 0, comm, stream),
          ncclInvalidArgument, "of a window of 1048576 bytes");
    FAILS(ncclSignal(0, 3, 0, 0, comm, stream), ncclInvalidArgument, "has 3 (config->numRmaSig)");
    OK(ncclCommWindowRegister(comm, from, PART, &plain, 0));
    FAILS(ncclPutSignal(at, 1, ncclUint8, 0, plain, 0, 0, 0, 0, comm, stream), ncclInvalidUsage,
          "allocate it with ncclMemAlloc()");
    OK(ncclCommWindowDeregister(comm, plain));
    OK(ncclCommWindowDeregister(comm, window));
    OK(ncclMemFree(at));
    OK(ncclCommDestroy(comm));
}

enum { LARGE = 1500007 };

static int32_t large_value(int rank, size_t i)
{
    return (int32_t)(i * 2654435761u + (unsigned)rank * 40503u);
}

static void compare_large(const int32_t *host, const char *what, int32_t (*wanted)(size_t i))
{
    for (size_t i = 0; i < LARGE; i++)
        if (host[i] != wanted(i)) {
            fprintf(stderr, "rank %d: %s: element %zu is %d\n", me, what, i, host[i]);
            _exit(1);
        }
}

static int32_t large_sum(size_t i)
{
    uint32_t sum = 0;
    for (int rank = 0; rank < ranks; rank++)
        sum += (uint32_t)large_value(rank, i);
    return (int32_t)sum;
}

static int32_t large_part(size_t i)
{
    return large_sum((size_t)me * LARGE + i);
}

static int32_t large_next(size_t i)
{
    return large_value(1, (size_t)me * LARGE + i);
}

/* More than fits what is staged at once. */
static void large(ncclUniqueId id)
{
    ncclComm_t comm;
    cudaStream_t stream;
    size_t bytes = (size_t)LARGE * sizeof(int32_t), all = bytes * (size_t)ranks;
    int32_t *host = malloc(all), *src, *dst;
    OK(ncclCommInitRank(&comm, ranks, id, me));
    CHECK(!cuda.stream_create(&stream, 1));
    src = gpu_memory(all);
    dst = gpu_memory(all);
    for (size_t i = 0; i < (size_t)LARGE * (size_t)ranks; i++)
        host[i] = large_value(me, i);
    to_gpu(src, host, all);
    OK(ncclAllReduce(src, dst, LARGE, ncclInt32, ncclSum, comm, stream));
    finish(stream);
    from_gpu(host, dst, bytes);
    compare_large(host, "all_reduce", large_sum);
    OK(ncclReduceScatter(src, dst, LARGE, ncclInt32, ncclSum, comm, stream));
    finish(stream);
    from_gpu(host, dst, bytes);
    compare_large(host, "reduce_scatter", large_part);
    OK(ncclAlltoAll(src, dst, LARGE, ncclInt32, comm, stream));
    finish(stream);
    from_gpu(host, (char *)dst + bytes, bytes);
    compare_large(host, "all_to_all", large_next);
    OK(ncclCommDestroy(comm));
    free(host);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*body)(ncclUniqueId id);
        int ranks, killed;
    } cases[] = {{"splits", splits, 4, 0},           {"errors", errors, 2, 0},
                 {"dies", dies, 3, 128 + 9},         {"aborts", aborts, 2, 0},
                 {"later", starts_later, 2, 0},      {"grows", grows, 4, 0},
                 {"windows", windows, 3, 0},         {"large", large, 3, 0},
                 {"suspends", suspends, 3, 0},       {"shrinks", shrinks, 4, 128 + 9},
                 {"any_time", aborts_any_time, 2, 0}};
    which = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int expected[8] = {cases[i].killed};
        if (!strcmp(cases[i].name, which))
            return run_ranks(cases[i].ranks, cases[i].body, expected);
    }
    fprintf(stderr, "there is no case \"%s\"\n", which);
    return 2;
}
