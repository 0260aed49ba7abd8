/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of weft_device_bench that NCCL can measure too, with the same sizes and counts: send and
 * receive on a stream, compared with put_on_stream, and an all-reduce that the host waits for. NCCL
 * has no single values, signals and atomics. */
#include "bench/device/plan.h"
#include "bench/device/report.h"
#include "pes.h"

#include <nccl.h>

#define NCCL(call)                                                                                 \
    do {                                                                                           \
        ncclResult_t result_ = (call);                                                             \
        if (result_ != ncclSuccess) {                                                              \
            fprintf(stderr, "rank %d: %s: %s\n", me, #call, ncclGetErrorString(result_));          \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static struct report report = {"nccl", "cuda", 0, 0, NULL};
static ncclComm_t comm;
static cudaStream_t stream;
static char *src, *dst;
static size_t room;

static void barrier(void)
{
    NCCL(ncclAllReduce(dst + room, dst + room, 1, ncclFloat, ncclSum, comm, stream));
    CUDA(cudaStreamSynchronize(stream));
}

/* Rank 0 sends to rank 1 back to back. */
static double send_receive(size_t bytes)
{
    int count = bytes > (1 << 20) ? 20 : PLAN_STREAM_OPERATIONS;
    cudaEvent_t start, end;
    float ms;
    CUDA(cudaEventCreate(&start));
    CUDA(cudaEventCreate(&end));
    CUDA(cudaEventRecord(start, stream));
    for (int i = 0; i < count && me < 2; i++) {
        if (me == 0)
            NCCL(ncclSend(src, bytes, ncclChar, 1, comm, stream));
        else
            NCCL(ncclRecv(dst, bytes, ncclChar, 0, comm, stream));
    }
    CUDA(cudaEventRecord(end, stream));
    CUDA(cudaEventSynchronize(end));
    CUDA(cudaEventElapsedTime(&ms, start, end));
    CUDA(cudaEventDestroy(end));
    CUDA(cudaEventDestroy(start));
    double ns = 1e6 * ms / count;
    return bytes > (1 << 20) ? (double)bytes / ns : ns / 1e3;
}

static double all_reduce(size_t bytes)
{
    uint64_t rounds = plan_collective_rounds(bytes);
    double start = now_ns();
    for (uint64_t i = 0; i < rounds; i++) {
        NCCL(ncclAllReduce(src, dst, bytes / 4, ncclFloat, ncclSum, comm, stream));
        CUDA(cudaStreamSynchronize(stream));
    }
    return (now_ns() - start) / (double)rounds / 1e3;
}

static void measure(const char *row, const char *unit, double (*once)(size_t), size_t bytes)
{
    double values[PLAN_REPEATS];
    for (int i = -1; i < PLAN_REPEATS; i++) {
        barrier();
        double value = once(bytes);
        if (i >= 0)
            values[i] = value;
    }
    if (me == 0)
        report_row(&report, row, unit, values, PLAN_REPEATS);
}

/* All elements are 1: the result of the last all-reduce is the number of ranks. */
static void check_sum(size_t bytes)
{
    float *seen = malloc(bytes);
    size_t wrong = 0;
    CUDA(cudaMemcpy(seen, dst, bytes, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < bytes / 4; i++)
        wrong += seen[i] != (float)n_pes;
    free(seen);
    if (wrong) {
        fprintf(stderr, "nccl_bench: rank %d: %zu wrong sums\n", me, wrong);
        exit(1);
    }
}

static void join(void)
{
    ncclUniqueId id;
    if (me == 0)
        NCCL(ncclGetUniqueId(&id));
    share_id(&id, sizeof id);
    NCCL(ncclCommInitRank(&comm, n_pes, id, me));
}

static void set_up(void)
{
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    room = plan_stream_bytes[PLAN_COUNT(plan_stream_bytes) - 1];
    CUDA(cudaMalloc((void **)&src, room));
    CUDA(cudaMalloc((void **)&dst, room + 64));
    CUDA(cudaMemset(dst, 0, room + 64));
    float *ones = malloc(room);
    for (size_t i = 0; i < room / 4; i++)
        ones[i] = 1;
    CUDA(cudaMemcpy(src, ones, room, cudaMemcpyHostToDevice));
    free(ones);
}

int main(void)
{
    read_rank();
    report.log = getenv("PEER_LOG");
    report.pes = n_pes;
    double start = now_ns();
    join();
    double init = (now_ns() - start) / 1e9;
    set_up();
    if (me == 0)
        report_begin(&report, "GPU memory; one process a GPU.");
    for (size_t i = 0; n_pes > 1 && i < PLAN_COUNT(plan_stream_bytes); i++) {
        size_t bytes = plan_stream_bytes[i];
        measure(row_name("put_on_stream.%zu", bytes), bytes > (1 << 20) ? "GB/s" : "us",
                send_receive, bytes);
    }
    for (size_t i = 0; i < PLAN_COUNT(plan_reduce_bytes); i++) {
        measure(row_name("allreduce_host.%zu", plan_reduce_bytes[i]), "us", all_reduce,
                plan_reduce_bytes[i]);
        check_sum(plan_reduce_bytes[i]);
    }
    if (me == 0)
        report_row(&report, "init", "s", &init, 1);
    barrier();
    start = now_ns();
    NCCL(ncclCommDestroy(comm));
    double finalize = (now_ns() - start) / 1e9;
    if (me == 0)
        report_row(&report, "finalize", "s", &finalize, 1);
    return 0;
}
