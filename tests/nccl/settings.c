/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations of calls, NCCL's environment variables, and parameters by key. Argument: the
 * case. */
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
/* The event is recorded: only then does the driver know its time. */
static void launch_event(ncclComm_t comm, float *at, ncclCollConfig_t config)
{
    float ms = -1;
    CHECK(!cuda.event_create(&config.launchCompletionEvent, 0));
    CHECK(cuda.event_elapsed(&ms, config.launchCompletionEvent, config.launchCompletionEvent));
    all_reduce(comm, at, &config);
    CHECK(!cuda.event_elapsed(&ms, config.launchCompletionEvent, config.launchCompletionEvent));
    CHECK(!cuda.event_destroy(config.launchCompletionEvent));
}

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
    launch_event(comm, at, config);
    config.size = offsetof(ncclCollConfig_t, launchCompletionEvent); /* that of NCCL 2.31 */
    config.launchCompletionEvent = (cudaEvent_t)at;                  /* not read */
    all_reduce(comm, at, &config);
    config.size = sizeof config;
    config.launchCompletionEvent = NULL;
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

/* The log of this process. */
static const char *read_log(void)
{
    static char text[32768];
    char path[64];
    snprintf(path, sizeof path, "nccl_settings.%d", (int)getpid());
    FILE *file = fopen(path, "r");
    CHECK(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    unlink(path);
    return text;
}

static bool is_set(const char *name, const char *value)
{
    const char *found = getenv(name);
    return value ? found && !strcmp(found, value) : !found;
}

static void variables(ncclUniqueId id)
{
    ncclComm_t comm;
    ncclResult_t state = ncclInProgress;
    float *at = gpu_memory(MOST * sizeof *at);
    CHECK(ncclCommInitRank(&comm, ranks, id, me) == ncclInProgress);
    while (state == ncclInProgress)
        OK(ncclCommGetAsyncError(comm, &state));
    CHECK(state == ncclSuccess);
    all_reduce(comm, at, NULL);
    OK(ncclCommDestroy(comm));
    CHECK(is_set("WEFT_PATH", "^p2p,^gda") && is_set("WEFT_FABRIC_PROVIDER", "tcp"));
    CHECK(is_set("WEFT_FABRIC_INTERFACE", "lo") && is_set("WEFT_HCA", NULL));
    CHECK(is_set("WEFT_LOG", "warn,net:info,gda:info"));
    const char *log = read_log();
    CHECK(strstr(log, "NCCL_MAX_CTAS=8: collectives use at most 8 SMs\n"));
    CHECK(strstr(log, "NCCL_MAX_NCHANNELS=3: collectives use at most 3 SMs\n"));
    CHECK(strstr(log, "NCCL_P2P_DISABLE=1: WEFT_PATH=^p2p\n"));
    CHECK(strstr(log, "NCCL_SHM_DISABLE=0: as without it\n"));
    CHECK(strstr(log, "NCCL_IB_DISABLE=1: WEFT_FABRIC_PROVIDER=tcp, WEFT_PATH=^p2p,^gda\n"));
    CHECK(strstr(log, "NCCL_SOCKET_IFNAME==lo: WEFT_FABRIC_INTERFACE=lo\n"));
    CHECK(strstr(log, "NCCL_IB_HCA=mlx5: no effect with NCCL_IB_DISABLE=1"));
    CHECK(strstr(log, "NCCL_COMM_BLOCKING=0: communicators are set up by a thread"));
    CHECK(strstr(log, "NCCL_MIN_CTAS has no effect"));
    CHECK(strstr(log,
                 "NCCL_BUFFSIZE=1000000: messages of a communicator pass through 1000000 bytes"));
    CHECK(!strstr(log, "Weft 0")); /* NCCL_DEBUG_SUBSYS leaves INIT out */
}

/* Weft's variables win. */
static void weft_wins(ncclUniqueId id)
{
    ncclComm_t comm;
    OK(ncclCommInitRank(&comm, ranks, id, me));
    OK(ncclCommDestroy(comm));
    CHECK(is_set("WEFT_PATH", "p2p,staged") && is_set("WEFT_FABRIC_PROVIDER", NULL));
    const char *log = read_log();
    CHECK(strstr(log, "NCCL_MAX_CTAS=8: no effect, because WEFT_COLL_SMS=16\n"));
    CHECK(strstr(log, "NCCL_P2P_LEVEL=LOC: no effect on paths, because WEFT_PATH=p2p,staged\n"));
    CHECK(strstr(log, "NCCL_SOCKET_IFNAME=^lo: no effect without NCCL_IB_DISABLE=1"));
    CHECK(strstr(log, "NCCL_IB_HCA==none_0:1: no effect: there is no such adapter\n"));
    CHECK(strstr(log, "Weft "));
    CHECK(strstr(log, "NCCL_BUFFSIZE=8M: no effect: give 1 to 1073741824, in bytes\n"));
}

static void policy(ncclUniqueId id)
{
    ncclComm_t comm;
    float *at = gpu_memory(MOST * sizeof *at);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.maxCTAs = 32; /* the variable wins */
    OK(ncclCommInitRankConfig(&comm, ranks, id, me, &config));
    all_reduce(comm, at, NULL);
    OK(ncclCommDestroy(comm));
    CHECK(strstr(read_log(), "NCCL_CTA_POLICY=EFFICIENCY|ZERO: collectives use copy engines"));
}

static void encryption(void)
{
    ncclEncryptionConfig_t config = NCCL_ENCRYPTION_CONFIG_INITIALIZER;
    OK(ncclSetEncryption(&config));
    config.mode = NCCL_ENCRYPTION_MODE_PSK;
    config.psk = "word";
    FAILS(ncclSetEncryption(&config), ncclInvalidUsage, "mode 1: connections of Weft are not");
    config.magic = 7;
    FAILS(ncclSetEncryption(&config), ncclInvalidArgument, "NCCL_ENCRYPTION_CONFIG_INITIALIZER");
    FAILS(ncclSetEncryption(NULL), ncclInvalidArgument, "null");
}

static void parameters(ncclUniqueId id)
{
    const char **keys, *text;
    char room[8];
    ncclParamHandle_t handle = NULL, size;
    int n, bytes, found = 0;
    int8_t small;
    int32_t number;
    uint8_t byte;
    uint64_t large;
    (void)id;
    encryption();
    FAILS(ncclParamBind(&handle, "NCCL_NONE"), ncclInvalidArgument, "no parameter \"NCCL_NONE\"");
    CHECK(!handle);
    FAILS(ncclParamBind(NULL, "NCCL_DEBUG"), ncclInvalidArgument, "handle is null");
    OK(ncclParamGetAllParameterKeys(&keys, &n));
    for (int i = 0; i < n; i++) {
        found += !strcmp(keys[i], "NCCL_MAX_CTAS") || !strcmp(keys[i], "WEFT_COLL_SMS");
        CHECK(strcmp(keys[i], "WEFT_TEST_SPIN") != 0); /* for tests only */
        OK(ncclParamBind(&handle, keys[i]));
        OK(ncclParamGetStr(handle, &text));
        CHECK(text);
    }
    CHECK(found == 2);
    OK(ncclParamGetParameter("WEFT_COLL_SMS", &text, &bytes));
    CHECK(!strcmp(text, "64") && bytes == 2);
    OK(ncclParamBind(&handle, "NCCL_MAX_CTAS"));
    OK(ncclParamGetI32(handle, &number));
    OK(ncclParamGetU64(handle, &large));
    CHECK(number == 300 && large == 300);
    FAILS(ncclParamGetU8(handle, &byte), ncclInvalidArgument, "is \"300\", which is no number");
    FAILS(ncclParamGetI8(handle, &small), ncclInvalidArgument, "is \"300\", which is no number");
    OK(ncclParamGet(handle, room, sizeof room, &bytes));
    CHECK(bytes == 4 && !strcmp(room, "300"));
    FAILS(ncclParamGet(handle, room, 3, &bytes), ncclInvalidArgument, "takes 4 bytes");
    CHECK(bytes == 4);
    OK(ncclParamBind(&size, "WEFT_HEAP_SIZE"));
    FAILS(ncclParamGetI32(size, &number), ncclInvalidArgument, "WEFT_HEAP_SIZE is \"4G\"");
    FAILS(ncclParamGetI32(NULL, &number), ncclInvalidArgument, "null");
    ncclParamDumpAll();
    text = read_log();
    CHECK(strstr(text, "NCCL_MAX_CTAS=300\n"));
    CHECK(strstr(text, "WEFT_COLL_SMS=64 (not set)\n"));
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
        {"variables",
         variables,
         2,
         {"NCCL_MAX_CTAS=8", "NCCL_MAX_NCHANNELS=3", "NCCL_MIN_CTAS=2", "NCCL_P2P_DISABLE=1",
          "NCCL_SHM_DISABLE=0", "NCCL_IB_DISABLE=1", "NCCL_SOCKET_IFNAME==lo", "NCCL_IB_HCA=mlx5",
          "NCCL_COMM_BLOCKING=0", "NCCL_DEBUG_SUBSYS=ENV,NET", "NCCL_BUFFSIZE=1000000"}},
        {"weft_wins",
         weft_wins,
         2,
         {"NCCL_MAX_CTAS=8", "WEFT_COLL_SMS=16", "NCCL_P2P_LEVEL=LOC", "WEFT_PATH=p2p,staged",
          "NCCL_SOCKET_IFNAME=^lo", "NCCL_IB_HCA==none_0:1", "NCCL_BUFFSIZE=8M"}},
        {"policy", policy, 2, {"NCCL_CTA_POLICY=EFFICIENCY|ZERO"}},
        {"parameters", parameters, 1, {"NCCL_MAX_CTAS=300"}},
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
