/* SPDX-License-Identifier: Apache-2.0 */
/* Weft's part of bench/compare/coll. */
#include "coll_bench.h"

#include <weft.h>
#include <weft/stream.h>

#define OK(call)                                                                                   \
    do {                                                                                           \
        if (call) {                                                                                \
            fprintf(stderr, "rank %d: %s: %s\n", me, #call, weft_last_error());                    \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static weft_job *job;
static weft_team *world;

static void join(void)
{
    int devices = 0;
    OK(weft_init(&job, NULL));
    world = weft_team_world(job);
    me = weft_my_pe(job);
    n_pes = weft_n_pes(job);
    CUDA(cudaGetDeviceCount(&devices));
    CUDA(cudaSetDevice(me % devices));
}

static void *memory(size_t bytes)
{
    void *address;
    OK(weft_alloc(job, WEFT_GPU, bytes, 0, 0, &address));
    return address;
}

static void barrier(void)
{
    OK(weft_barrier(world));
}

static void call(enum op op, void *dst, void *src, size_t bytes, cudaStream_t stream)
{
    switch (op) {
    case OP_ALLREDUCE:
        OK(weft_allreduce_on_stream(world, dst, src, bytes / 4, WEFT_FLOAT, WEFT_SUM, stream));
        return;
    case OP_ALLGATHER:
        OK(weft_allgather_on_stream(world, dst, src, bytes, stream));
        return;
    case OP_REDUCESCATTER:
        OK(weft_reducescatter_on_stream(world, dst, src, bytes / 4, WEFT_FLOAT, WEFT_SUM, stream));
        return;
    case OP_ALLTOALL:
        OK(weft_alltoall_on_stream(world, dst, src, bytes, stream));
        return;
    default:
        OK(weft_broadcast_on_stream(world, dst, src, bytes, 0, stream));
    }
}

static void host(enum op op, void *dst, void *src, size_t bytes)
{
    switch (op) {
    case OP_ALLREDUCE:
        OK(weft_allreduce(world, dst, src, bytes / 4, WEFT_FLOAT, WEFT_SUM));
        return;
    case OP_ALLGATHER:
        OK(weft_allgather(world, dst, src, bytes));
        return;
    case OP_REDUCESCATTER:
        OK(weft_reducescatter(world, dst, src, bytes / 4, WEFT_FLOAT, WEFT_SUM));
        return;
    case OP_ALLTOALL:
        OK(weft_alltoall(world, dst, src, bytes));
        return;
    default:
        OK(weft_broadcast(world, dst, src, bytes, 0));
    }
}

static void leave(void)
{
    OK(weft_finalize(job));
}

int main(void)
{
    static const struct side side = {"weft", join, memory, barrier, call, host, leave};
    return bench_run(&side);
}
