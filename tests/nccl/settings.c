/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations of calls. Argument: the case. */
#include "nccl_test.h"

#include <time.h>

enum { MOST = 1 << 18 };

static void all_reduce(ncclComm_t comm, float *at, const ncclCollConfig_t *config)
{
    static float host[MOST];
    for (int i = 0; i < MOST; i++)
        host[i] = (float)(me + i % 100);
    to_gpu(at, host, sizeof host);
    OK(ncclAllReduceConfig(at, at, MOST, ncclFloat, ncclSum, comm, NULL, config));
    finish(NULL);
    from_gpu(host, at, sizeof host);
    for (int i = 0; i < MOST; i++)
        CHECK(host[i] == (float)(ranks * (ranks - 1) / 2 + ranks * (i % 100)));
}

/* The test has WEFT_CHECK=1, with which ranks compare the numbers of blocks: so a limit that only
 * one rank sets shows that it applies. */
static void configs(ncclUniqueId id)
{
    ncclComm_t comm;
    ncclResult_t error = ncclSuccess;
    float *at = gpu_memory(MOST * sizeof *at);
    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER, wrong = config;
    OK(ncclCommInitRank(&comm, ranks, id, me));
    wrong.magic = 1;
    FAILS(ncclAllReduceConfig(at, at, 1, ncclFloat, ncclSum, comm, NULL, &wrong),
          ncclInvalidArgument, "ncclAllReduceConfig: the configuration has size");
    wrong = config;
    wrong.size = 8;
    FAILS(ncclBroadcastConfig(at, at, 1, ncclFloat, 0, comm, NULL, &wrong), ncclInvalidArgument,
          "NCCL_COLLCONFIG_INITIALIZER");
    wrong = config;
    wrong.maxCTAs = 0;
    FAILS(ncclAllGatherConfig(at, at, 1, ncclFloat, comm, NULL, &wrong), ncclInvalidArgument,
          "maxCTAs is 0");
    all_reduce(comm, at, NULL);
    all_reduce(comm, at, &config);
    config.maxCTAs = 2;
    all_reduce(comm, at, &config);
    config.maxCTAs = NCCL_CONFIG_UNDEF_INT;
    config.CTAPolicy = 2; /* NCCL_CTA_POLICY_ZERO */
    all_reduce(comm, at, &config);
    OK(ncclGroupStart());
    config.CTAPolicy = 0;
    config.maxCTAs = 1;
    OK(ncclAllReduceConfig(at, at, MOST, ncclFloat, ncclSum, comm, NULL, &config));
    OK(ncclAllReduce(at, at, MOST, ncclFloat, ncclSum, comm, NULL));
    OK(ncclGroupEnd());
    finish(NULL);
    all_reduce(comm, at, NULL);
    OK(ncclAllReduceConfig(at, at, MOST, ncclFloat, ncclSum, comm, NULL, me ? NULL : &config));
    finish(NULL);
    for (int i = 0; i < 5000 && error == ncclSuccess; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
        OK(ncclCommGetAsyncError(comm, &error));
    }
    CHECK(error != ncclSuccess);
    CHECK(strstr(ncclGetLastError(comm), "limits of SMs differ"));
    OK(ncclCommAbort(comm));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*body)(ncclUniqueId id);
        int ranks;
        const char *variables[16];
    } cases[] = {
        {"configs", configs, 2, {0}},
    };
    const char *which = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(cases[i].name, which) != 0)
            continue;
        CHECK(!putenv("NCCL_DEBUG=INFO") && !putenv("NCCL_DEBUG_FILE=nccl_settings.%p"));
        for (int v = 0; cases[i].variables[v]; v++)
            CHECK(!putenv((char *)(uintptr_t)cases[i].variables[v]));
        return run_ranks(cases[i].ranks, cases[i].body, NULL);
    }
    fprintf(stderr, "there is no case \"%s\"\n", which);
    return 2;
}
