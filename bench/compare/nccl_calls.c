/* SPDX-License-Identifier: Apache-2.0 */
/* What a program that is written to nccl.h pays besides the transfer: time to make a communicator,
 * its GPU memory, the host's time of a call on a stream, of a group of 64 messages, and latency and
 * rate of collectives. With LD_PRELOAD=libnccl.so.2 the figures of NCCL.
 *
 *     nccl_calls [RANKS [sweep [windows]]]
 *
 * sweep: all collectives from 8 bytes to 256 MiB, of the vector or of all blocks together; windows:
 * in symmetric windows, else in plain memory.
 */
#include "tests/nccl/nccl_test.h"

#include <time.h>

enum { CALLS = 50, ROUNDS = 20, MESSAGES = 32, LARGE = 64 << 20, LARGEST = 256 << 20 };

static double microseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static float *buffers[2];
static bool in_windows;
static cudaStream_t stream;
static ncclComm_t comm;

static void all_reduce(size_t n)
{
    OK(ncclAllReduce(buffers[0], buffers[1], n, ncclFloat, ncclSum, comm, stream));
}

/* A send to and a receive from the next rank, MESSAGES times. */
static void messages(size_t n)
{
    int next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
    OK(ncclGroupStart());
    for (size_t i = 0; i < MESSAGES; i++) {
        OK(ncclSend(buffers[0] + i * n, n, ncclFloat, next, comm, stream));
        OK(ncclRecv(buffers[1] + i * n, n, ncclFloat, before, comm, stream));
    }
    OK(ncclGroupEnd());
}

/* Medians of the time until the call returns, and until the stream has ended it. */
static void measure(const char *name, void (*call)(size_t n), size_t n, int calls)
{
    double host[ROUNDS], whole[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        finish(stream);
        double begun = microseconds();
        for (int i = 0; i < calls; i++)
            call(n);
        host[round] = (microseconds() - begun) / calls;
        finish(stream);
        whole[round] = (microseconds() - begun) / calls;
    }
    qsort(host, ROUNDS, sizeof *host, by_value);
    qsort(whole, ROUNDS, sizeof *whole, by_value);
    if (me == 0)
        printf("%-32s %9zu bytes: host %8.1f us, in all %9.1f us\n", name, 4 * n, host[ROUNDS / 2],
               whole[ROUNDS / 2]);
}

static void all_gather(size_t n)
{
    size_t each = n / (size_t)ranks;
    OK(ncclAllGather(buffers[0], buffers[1], each, ncclFloat, comm, stream));
}

static void all_to_all(size_t n)
{
    size_t each = n / (size_t)ranks;
    int peer;
    OK(ncclGroupStart());
    for (peer = 0; peer < ranks; peer++) {
        OK(ncclSend(buffers[0] + (size_t)peer * each, each, ncclFloat, peer, comm, stream));
        OK(ncclRecv(buffers[1] + (size_t)peer * each, each, ncclFloat, peer, comm, stream));
    }
    OK(ncclGroupEnd());
}

static void reduce_scatter(size_t n)
{
    size_t each = n / (size_t)ranks;
    OK(ncclReduceScatter(buffers[0], buffers[1], each, ncclFloat, ncclSum, comm, stream));
}

static void broadcast(size_t n)
{
    OK(ncclBroadcast(buffers[0], buffers[1], n, ncclFloat, 0, comm, stream));
}

static void reduce(size_t n)
{
    OK(ncclReduce(buffers[0], buffers[1], n, ncclFloat, ncclSum, 0, comm, stream));
}

static void make_window(int i)
{
    ncclWindow_t window; /* ends with the communicator */
    OK(ncclMemAlloc((void **)&buffers[i], LARGEST));
    OK(ncclCommWindowRegister(comm, buffers[i], LARGEST, &window, NCCL_WIN_COLL_SYMMETRIC));
}

static void sweep(ncclUniqueId id)
{
    static const struct {
        const char *name;
        void (*call)(size_t n);
    } all[] = {{"all_reduce", all_reduce},         {"reduce", reduce},
               {"reduce_scatter", reduce_scatter}, {"all_gather", all_gather},
               {"broadcast", broadcast},           {"sends and receives to all", all_to_all}};
    CHECK(!cuda.stream_create(&stream, 1));
    OK(ncclCommInitRank(&comm, ranks, id, me));
    for (int i = 0; i < 2; i++)
        if (in_windows)
            make_window(i);
        else
            buffers[i] = gpu_memory(LARGEST);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (size_t bytes = 8; bytes <= LARGEST; bytes *= bytes < 1 << 20 ? 8 : 4)
            measure(all[i].name, all[i].call, bytes / 4, bytes < 1 << 20 ? CALLS : 4);
    OK(ncclCommDestroy(comm));
}

static void body(ncclUniqueId id)
{
    size_t free_before, free_after, all;
    int (*memory_info)(size_t *, size_t *);
    load_function(dlopen("libcuda.so.1", RTLD_NOW), &memory_info, "cuMemGetInfo_v2");
    for (int i = 0; i < 2; i++)
        buffers[i] = gpu_memory(LARGE);
    CHECK(!cuda.stream_create(&stream, 1));
    CHECK(!memory_info(&free_before, &all));
    double begun = microseconds();
    OK(ncclCommInitRank(&comm, ranks, id, me));
    double made = microseconds();
    all_reduce(1);
    finish(stream);
    double reduced = microseconds();
    CHECK(!memory_info(&free_after, &all));
    if (me == 0)
        printf("%d ranks: communicator %.1f ms, first all_reduce %.1f ms, %.1f MB of GPU memory\n",
               ranks, (made - begun) / 1e3, (reduced - made) / 1e3,
               (double)(free_before - free_after) / 1e6);
    measure("all_reduce", all_reduce, 256, CALLS);
    measure("all_reduce", all_reduce, 256 << 10, 10);
    measure("all_reduce", all_reduce, LARGE / 4, 2);
    measure("32 sends and 32 receives", messages, 256, 2);
    measure("32 sends and 32 receives", messages, LARGE / 4 / MESSAGES, 1);
    OK(ncclCommDestroy(comm));
}

int main(int argc, char **argv)
{
    in_windows = argc > 3;
    return run_ranks(argc > 1 ? atoi(argv[1]) : 2, argc > 2 ? sweep : body, NULL);
}
