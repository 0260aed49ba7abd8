/* SPDX-License-Identifier: Apache-2.0 */
/* NVSHMEM's part of bench/compare/coll. On streams NVSHMEM calls NCCL for large messages if it
 * finds it (NVSHMEM_DISABLE_NCCL=1 prevents that). */
#include "coll_bench.h"

#include <nvshmem.h>
#include <nvshmemx.h>

static void join(void)
{
    nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
    nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
    read_rank();
    if (me == 0 && nvshmemx_get_uniqueid(&id))
        exit(1);
    share_id(&id, sizeof id);
    nvshmemx_set_attr_uniqueid_args(me, n_pes, &id, &attr);
    if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attr))
        exit(1);
}

static void *memory(size_t bytes)
{
    void *address = nvshmem_malloc(bytes);
    if (!address) {
        fprintf(stderr, "nvshmem_malloc of %zu bytes: NVSHMEM_SYMMETRIC_SIZE is too small\n",
                bytes);
        exit(1);
    }
    return address;
}

static void barrier(void)
{
    nvshmem_barrier_all();
}

static void call(enum op op, void *dst, void *src, size_t bytes, cudaStream_t stream)
{
    float *to = (float *)dst, *from = (float *)src;
    size_t words = bytes / 4;
    int status = 0;
    switch (op) {
    case OP_ALLREDUCE:
        status = nvshmemx_float_sum_reduce_on_stream(NVSHMEM_TEAM_WORLD, to, from, words, stream);
        break;
    case OP_ALLGATHER:
        status = nvshmemx_float_fcollect_on_stream(NVSHMEM_TEAM_WORLD, to, from, words, stream);
        break;
    case OP_REDUCESCATTER:
        status =
            nvshmemx_float_sum_reducescatter_on_stream(NVSHMEM_TEAM_WORLD, to, from, words, stream);
        break;
    case OP_ALLTOALL:
        status = nvshmemx_float_alltoall_on_stream(NVSHMEM_TEAM_WORLD, to, from, words, stream);
        break;
    default:
        status = nvshmemx_float_broadcast_on_stream(NVSHMEM_TEAM_WORLD, to, from, words, 0, stream);
    }
    if (status) {
        fprintf(stderr, "rank %d: %s of %zu bytes on a stream: status %d\n", me, op_names[op],
                bytes, status);
        exit(1);
    }
}

static void host(enum op op, void *dst, void *src, size_t bytes)
{
    float *to = (float *)dst, *from = (float *)src;
    size_t words = bytes / 4;
    switch (op) {
    case OP_ALLREDUCE:
        nvshmem_float_sum_reduce(NVSHMEM_TEAM_WORLD, to, from, words);
        return;
    case OP_ALLGATHER:
        nvshmem_float_fcollect(NVSHMEM_TEAM_WORLD, to, from, words);
        return;
    case OP_REDUCESCATTER:
        nvshmem_float_sum_reducescatter(NVSHMEM_TEAM_WORLD, to, from, words);
        return;
    case OP_ALLTOALL:
        nvshmem_float_alltoall(NVSHMEM_TEAM_WORLD, to, from, words);
        return;
    default:
        nvshmem_float_broadcast(NVSHMEM_TEAM_WORLD, to, from, words, 0);
    }
}

static void leave(void)
{
    nvshmem_finalize();
}

int main(void)
{
    static const struct side side = {"nvshmem", join, memory, barrier, call, host, leave};
    return bench_run(&side);
}
