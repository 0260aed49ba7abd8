/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of one process: ncclCommInitAll(), and calls of one thread in groups. Argument: ranks.
 */
#include "nccl_test.h"

enum { N = 1000 };

int main(int argc, char **argv)
{
    ncclComm_t comms[8];
    float *at[8], *got[8], host[N];
    int devices[8];
    cudaStream_t streams[8];
    ranks = argc > 1 ? atoi(argv[1]) : 2;
    me = 0;
    use_gpu(0);
    int n = 1;
    CHECK(!cuda.device_count(&n));
    for (int r = 0; r < ranks; r++)
        devices[r] = r % 2 % n;
    if (ranks > 1) {
        ncclUniqueId id;
        ncclComm_t two[2];
        ncclResult_t error;
        devices[1] = 99;
        FAILS(ncclCommInitAll(comms, ranks, devices), ncclInvalidArgument, "no device 99");
        devices[1] = 1 % n;
        OK(ncclGetUniqueId(&id));
        OK(ncclGroupStart());
        OK(ncclCommInitRank(&two[0], 4, id, 3));
        OK(ncclCommInitRank(&two[1], 4, id, 3));
        FAILS(ncclGroupEnd(), ncclInvalidArgument, "rank 3 of a communicator is there twice");
        OK(ncclCommGetAsyncError(two[0], &error));
        CHECK(error == ncclInvalidArgument);
        OK(ncclCommDestroy(two[0]));
        OK(ncclCommDestroy(two[1]));
        OK(ncclGroupStart());
        OK(ncclCommInitRank(&two[0], 2, id, 0));
        OK(ncclCommInitRank(&two[1], 4, id, 3));
        FAILS(ncclGroupEnd(), ncclInvalidArgument, "of 2 ranks and of 4");
        OK(ncclGroupStart());
        OK(ncclCommInitRank(&two[0], 3, id, 0));
        OK(ncclCommInitRank(&two[1], 3, id, 1));
        FAILS(ncclGroupEnd(), ncclInvalidUsage, "2 of the 3 ranks");
    }
    OK(ncclCommInitAll(comms, ranks, devices));
    for (int r = 0; r < ranks; r++) {
        int device, rank;
        OK(ncclCommCuDevice(comms[r], &device));
        OK(ncclCommUserRank(comms[r], &rank));
        CHECK(device == devices[r] && rank == r);
        use_gpu(devices[r]);
        CHECK(!cuda.stream_create(&streams[r], 1));
        at[r] = gpu_memory(sizeof host);
        got[r] = gpu_memory(sizeof host);
        for (int i = 0; i < N; i++)
            host[i] = (float)(r + i % 7);
        to_gpu(at[r], host, sizeof host);
    }
    OK(ncclGroupStart());
    for (int r = 0; r < ranks; r++)
        OK(ncclAllReduce(at[r], got[r], N, ncclFloat, ncclSum, comms[r], streams[r]));
    OK(ncclGroupEnd());
    for (int r = 0; r < ranks; r++) {
        use_gpu(devices[r]);
        finish(streams[r]);
        from_gpu(host, got[r], sizeof host);
        for (int i = 0; i < N; i++)
            CHECK(host[i] == (float)(ranks * (ranks - 1) / 2 + ranks * (i % 7)));
    }
    OK(ncclGroupStart());
    for (int r = 0; r < ranks; r++) {
        OK(ncclSend(at[r], N, ncclFloat, (r + 1) % ranks, comms[r], streams[r]));
        OK(ncclRecv(got[r], N, ncclFloat, (r + ranks - 1) % ranks, comms[r], streams[r]));
    }
    OK(ncclGroupEnd());
    for (int r = 0; r < ranks; r++) {
        use_gpu(devices[r]);
        finish(streams[r]);
        from_gpu(host, got[r], sizeof host);
        for (int i = 0; i < N; i++)
            CHECK(host[i] == (float)((r + ranks - 1) % ranks + i % 7));
    }
    /* One after the other: the others remain. */
    for (int r = 0; r < ranks; r++) {
        uint64_t bytes = 0;
        OK(ncclCommMemStats(comms[r], ncclStatGpuMemTotal, &bytes));
        CHECK(bytes > 0);
        OK(ncclCommDestroy(comms[r]));
    }
    return 0;
}
