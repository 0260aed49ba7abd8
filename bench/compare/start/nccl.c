/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL: the first send and receive, or with argument "sum" the first all-reduce, on GPU memory,
 * verified. */
#include "start.h"

#include "pes.h"

#include <nccl.h>

#define NCCL(call)                                                                                 \
    do {                                                                                           \
        ncclResult_t error_ = (call);                                                              \
        if (error_ != ncclSuccess) {                                                               \
            fprintf(stderr, "rank %d: %s: %s\n", me, #call, ncclGetErrorString(error_));           \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

int main(int argc, char **argv)
{
    start_ms = now_ms();
    int sums = argc > 1 && strcmp(argv[1], "sum") == 0;
    float words[WORDS], *src, *dst;
    ncclUniqueId id;
    ncclComm_t comm;
    cudaStream_t stream;
    read_rank();
    if (me == 0)
        NCCL(ncclGetUniqueId(&id));
    share_id(&id, sizeof id);
    NCCL(ncclCommInitRank(&comm, n_pes, id, me));
    double set_up = since_start();
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA(cudaMalloc((void **)&src, sizeof words));
    CUDA(cudaMalloc((void **)&dst, sizeof words));
    double memory = since_start();
    fill_words(words, me);
    CUDA(cudaMemcpy(src, words, sizeof words, cudaMemcpyHostToDevice));
    if (sums) {
        NCCL(ncclAllReduce(src, dst, WORDS, ncclFloat, ncclSum, comm, stream));
    } else {
        NCCL(ncclGroupStart());
        NCCL(ncclSend(src, WORDS, ncclFloat, (me + 1) % n_pes, comm, stream));
        NCCL(ncclRecv(dst, WORDS, ncclFloat, (me + n_pes - 1) % n_pes, comm, stream));
        NCCL(ncclGroupEnd());
    }
    CUDA(cudaStreamSynchronize(stream));
    CUDA(cudaMemcpy(words, dst, sizeof words, cudaMemcpyDeviceToHost));
    if (sums)
        check_sums("nccl", words, n_pes);
    else
        check_words("nccl", words, (me + n_pes - 1) % n_pes);
    print_line("nccl", sums ? "sum" : "put", me, n_pes, set_up, memory, since_start());
    NCCL(ncclCommDestroy(comm));
    return 0;
}
