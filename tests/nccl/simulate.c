/* SPDX-License-Identifier: Apache-2.0 */
/* ncclGroupSimulateEnd(), with the built-in rates (WEFT_COLL_RATES=off) and without LL128. */
#include "nccl_test.h"

enum { N = 1000 };

static float *at;

/* The estimate of `calls` all_reduces of n bytes, with at most `ctas` CTAs. */
static float estimate(ncclComm_t comm, size_t n, int calls, int ctas)
{
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
    config.maxCTAs = ctas;
    OK(ncclGroupStart());
    for (int i = 0; i < calls; i++)
        OK(ncclAllReduceConfig(at, at, n, ncclUint8, ncclSum, comm, NULL, &config));
    OK(ncclGroupSimulateEnd(&info));
    return info.estimatedTime;
}

static bool is_about(float value, double wanted)
{
    return value > wanted * 0.999 && value < wanted * 1.001;
}

/* 8 bytes take one trip of LL packets, 4.0 us, and 16 bytes more at 73.5 GB/s. 64 MiB take longer
 * than their way at the rate of copy engines, 311 GB/s, and with one block at most at 23.4 GB/s. */
static void check_times(ncclComm_t comm)
{
    const size_t large = 64 << 20;
    float small = estimate(comm, 8, 1, 64), big = estimate(comm, large, 1, 64);
    CHECK(small >= 4.0F && small < 4.1F);
    CHECK(is_about(estimate(comm, 8, 3, 64), 3.0 * (double)small));
    CHECK((double)big > (double)large / 311e3 && big < 2000);
    CHECK((double)estimate(comm, large, 1, 1) > (double)large / 23.4e3);
    CHECK(estimate(comm, 0, 1, 64) == 0);
}

static void check_errors(ncclComm_t comm)
{
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER, wrong = info;
    ncclUniqueId id;
    ncclComm_t made;
    ncclResult_t error;
    FAILS(ncclGroupSimulateEnd(&info), ncclInvalidUsage, "without ncclGroupStart");
    OK(ncclGroupStart());
    OK(ncclSend(at, N, ncclFloat, 0, comm, NULL));
    FAILS(ncclGroupSimulateEnd(&info), ncclInvalidUsage, "ncclSend has no estimate");
    wrong.magic = 0;
    OK(ncclGroupStart());
    FAILS(ncclGroupSimulateEnd(&wrong), ncclInvalidArgument, "NCCL_SIM_INFO_INITIALIZER");
    OK(ncclGroupStart());
    FAILS(ncclGroupSimulateEnd(NULL), ncclInvalidArgument, "the result is null");
    OK(ncclGetUniqueId(&id));
    OK(ncclGroupStart());
    OK(ncclCommInitRank(&made, ranks, id, me));
    FAILS(ncclGroupSimulateEnd(&info), ncclInvalidUsage, "makes communicators");
    OK(ncclCommGetAsyncError(made, &error));
    CHECK(error == ncclInvalidUsage && info.estimatedTime == NCCL_UNDEF_FLOAT);
    OK(ncclCommDestroy(made));
    OK(ncclGroupStart()); /* the inner end estimates nothing */
    OK(ncclGroupStart());
    OK(ncclAllReduce(at, at, N, ncclFloat, ncclSum, comm, NULL));
    OK(ncclGroupSimulateEnd(&info));
    CHECK(info.estimatedTime == NCCL_UNDEF_FLOAT);
    OK(ncclGroupSimulateEnd(&info));
    CHECK(info.estimatedTime > 0);
}

/* In a window of NCCL_WIN_COLL_SYMMETRIC data are not staged: 283 GB/s in place of 196. */
static void check_windows(ncclComm_t comm)
{
    const size_t large = 64 << 20;
    ncclWindow_t window;
    float *plain = at;
    double staged = (double)estimate(comm, large, 1, 64);
    OK(ncclMemAlloc((void **)&at, large));
    OK(ncclCommWindowRegister(comm, at, large, &window, NCCL_WIN_DEFAULT));
    CHECK(is_about(estimate(comm, large, 1, 64), staged));
    OK(ncclCommWindowDeregister(comm, window));
    OK(ncclCommWindowRegister(comm, at, large, &window, NCCL_WIN_COLL_SYMMETRIC));
    CHECK((double)estimate(comm, large, 1, 64) < 0.8 * staged);
    at++; /* the end is outside */
    CHECK(is_about(estimate(comm, large, 1, 64), staged));
    at--;
    OK(ncclCommWindowDeregister(comm, window));
    OK(ncclMemFree(at));
    at = plain;
}

static void simulates(ncclUniqueId id)
{
    ncclComm_t comm, other;
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    float host[N];
    at = gpu_memory(sizeof host);
    for (int i = 0; i < N; i++)
        host[i] = (float)(me + i);
    to_gpu(at, host, sizeof host);
    OK(ncclCommInitRank(&comm, ranks, id, me));
    OK(ncclCommSplit(comm, 0, me, &other, NULL));
    if (!me) { /* alone, before the first collective */
        check_times(comm);
        check_errors(comm);
    }
    OK(ncclAllReduce(at, at, N, ncclFloat, ncclSum, comm, NULL));
    finish(NULL);
    from_gpu(host, at, sizeof host);
    for (int i = 0; i < N; i++)
        CHECK(host[i] == (float)(ranks * (ranks - 1) / 2 + ranks * i));
    if (me)
        check_times(comm);
    /* The longer one of two communicators. */
    OK(ncclGroupStart());
    OK(ncclAllReduce(at, at, 8, ncclUint8, ncclSum, comm, NULL));
    OK(ncclAllReduce(at, at, 1 << 20, ncclUint8, ncclSum, other, NULL));
    OK(ncclAllReduce(at, at, 1 << 20, ncclUint8, ncclSum, comm, NULL));
    OK(ncclGroupSimulateEnd(&info));
    CHECK(is_about(info.estimatedTime,
                   (double)(estimate(comm, 8, 1, 64) + estimate(comm, 1 << 20, 1, 64))));
    check_windows(comm);
    OK(ncclCommDestroy(other));
    OK(ncclCommDestroy(comm));
}

int main(void)
{
    return run_ranks(2, simulates, NULL);
}
