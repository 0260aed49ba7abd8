/* SPDX-License-Identifier: Apache-2.0 */
/* Finding A8: three executables of one captured graph whose operation the host executes (this GPU
 * has no address of the peer) run concurrently on three streams. The operation runs once for each
 * launch, and work queued after a launch comes after the operation of that launch. */
#include "gpu_test.h"

#include "driver/gpu_api.h"

#include <dlfcn.h>
#include <weft/stream.h>

enum { ROUNDS = 60, EXECUTABLES = 3 };

static weft_job *job;
static struct gpu_api driver;
static void *executables[EXECUTABLES];
static CUstream streams[EXECUTABLES + 1]; /* the last one is for capturing */
static CUresult (*launch)(void *, CUstream);

static void make_streams(void)
{
    CUdevice device = 0;
    CUcontext context;
    int ordinal = 0;
    void *probe = gpu_alloc(job, 64, 0);
    OK(gpu_api_open(&driver));
    CHECK(!driver.PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                      (uintptr_t)probe));
    CHECK(!driver.DeviceGet(&device, ordinal));
    CHECK(!driver.DevicePrimaryCtxRetain(&context, device));
    CHECK(!driver.CtxPushCurrent(context));
    for (int i = 0; i <= EXECUTABLES; i++)
        CHECK(!driver.StreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
}

static void make_executables(uint64_t *counter, int next)
{
    CUresult (*begin)(CUstream, int), (*end)(CUstream, void **);
    CUresult (*instantiate)(void **, void *, unsigned long long);
    void *graph;
    *(void **)&begin = dlsym(driver.handle, "cuStreamBeginCapture_v2");
    *(void **)&end = dlsym(driver.handle, "cuStreamEndCapture");
    *(void **)&instantiate = dlsym(driver.handle, "cuGraphInstantiateWithFlags");
    *(void **)&launch = dlsym(driver.handle, "cuGraphLaunch");
    CHECK(begin && end && instantiate && launch);
    weft_ctx *ctx = weft_default_ctx(job);
    /* The first call on a stream does the setup that a real driver refuses during a capture. */
    OK(weft_signal_on_stream(ctx, counter, 1, WEFT_SIGNAL_ADD, next, streams[EXECUTABLES]));
    CHECK(!driver.StreamSynchronize(streams[EXECUTABLES]));
    CHECK(!begin(streams[EXECUTABLES], 2));
    OK(weft_signal_on_stream(ctx, counter, 1, WEFT_SIGNAL_ADD, next, streams[EXECUTABLES]));
    CHECK(!end(streams[EXECUTABLES], &graph));
    for (int i = 0; i < EXECUTABLES; i++)
        CHECK(!instantiate(&executables[i], graph, 0));
}

int main(void)
{
    OK(weft_init(&job, NULL));
    const int me = weft_my_pe(job), next = (me + 1) % weft_n_pes(job);
    weft_ctx *ctx = weft_default_ctx(job);
    make_streams();
    uint64_t *counter = gpu_alloc(job, 64, WEFT_ALLOC_ZERO), seen[EXECUTABLES];
    make_executables(counter, next);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        memset(seen, 0, sizeof seen);
        for (int i = 0; i < EXECUTABLES; i++) {
            CHECK(!launch(executables[i], streams[i]));
            OK(weft_get_on_stream(ctx, &seen[i], counter, sizeof seen[i], next, streams[i]));
        }
        for (int i = 0; i < EXECUTABLES; i++)
            CHECK(!driver.StreamSynchronize(streams[i]));
        for (int i = 0; i < EXECUTABLES;
             i++) /* all earlier rounds, the first call, and the own launch */
            CHECK(seen[i] >= EXECUTABLES * round + 2 && seen[i] <= EXECUTABLES * (round + 1) + 1);
    }
    OK(weft_quiet(ctx));
    OK(weft_barrier(weft_team_world(job)));
    OK(weft_g64(ctx, counter, &seen[0], me));
    CHECK(seen[0] == EXECUTABLES * ROUNDS + 1);
    OK(weft_finalize(job));
    return 0;
}
