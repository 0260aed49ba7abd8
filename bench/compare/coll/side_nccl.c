/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's part of bench/compare/coll. COLL_SYMMETRIC=1: memory of ncclMemAlloc, registered as
 * symmetric windows. */
#include "coll_bench.h"

#include <nccl.h>

#define NCCL(call)                                                                                 \
    do {                                                                                           \
        ncclResult_t result_ = (call);                                                             \
        if (result_ != ncclSuccess) {                                                              \
            fprintf(stderr, "rank %d: %s: %s\n", me, #call, ncclGetErrorString(result_));          \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static ncclComm_t comm;
static cudaStream_t own;
static float *word;
static int symmetric;

static void join(void)
{
    ncclUniqueId id;
    read_rank();
    if (me == 0)
        NCCL(ncclGetUniqueId(&id));
    share_id(&id, sizeof id);
    NCCL(ncclCommInitRank(&comm, n_pes, id, me));
    CUDA(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
    CUDA(cudaMalloc((void **)&word, 4));
}

static void *memory(size_t bytes)
{
    void *address = NULL;
    if (!symmetric) {
        CUDA(cudaMalloc(&address, bytes));
        return address;
    }
    ncclWindow_t window;
    NCCL(ncclMemAlloc(&address, bytes));
    NCCL(ncclCommWindowRegister(comm, address, bytes, &window, NCCL_WIN_COLL_SYMMETRIC));
    return address;
}

static void barrier(void)
{
    NCCL(ncclAllReduce(word, word, 1, ncclFloat, ncclSum, comm, own));
    CUDA(cudaStreamSynchronize(own));
}

static void call(enum op op, void *dst, void *src, size_t bytes, cudaStream_t stream)
{
    size_t words = bytes / 4;
    switch (op) {
    case OP_ALLREDUCE:
        NCCL(ncclAllReduce(src, dst, words, ncclFloat, ncclSum, comm, stream));
        return;
    case OP_ALLGATHER:
        NCCL(ncclAllGather(src, dst, words, ncclFloat, comm, stream));
        return;
    case OP_REDUCESCATTER:
        NCCL(ncclReduceScatter(src, dst, words, ncclFloat, ncclSum, comm, stream));
        return;
    case OP_ALLTOALL:
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
        NCCL(ncclAlltoAll(src, dst, words, ncclFloat, comm, stream));
#else
        NCCL(ncclGroupStart());
        for (int pe = 0; pe < n_pes; pe++) {
            NCCL(ncclSend((char *)src + (size_t)pe * bytes, words, ncclFloat, pe, comm, stream));
            NCCL(ncclRecv((char *)dst + (size_t)pe * bytes, words, ncclFloat, pe, comm, stream));
        }
        NCCL(ncclGroupEnd());
#endif
        return;
    default:
        NCCL(ncclBroadcast(src, dst, words, ncclFloat, 0, comm, stream));
    }
}

static void leave(void)
{
    NCCL(ncclCommDestroy(comm));
}

int main(void)
{
    symmetric = getenv("COLL_SYMMETRIC") != NULL;
    struct side side = {
        symmetric ? "nccl-symmetric" : "nccl", join, memory, barrier, call, NULL, leave};
    return bench_run(&side);
}
