/* SPDX-License-Identifier: Apache-2.0 */
/* The program's own memory as the local side: device and host memory, registered and not, at odd
 * addresses and sizes; invalid registrations; queries of the GPU and of GPU pairs. */
#include "gpu_test.h"

#include "driver/gpu_api.h"

#include <weft/gpu.h>

enum { ROOM = 300000 };

static weft_job *job;
static weft_ctx *ctx;
static int me, n, next, previous;

/* Sends `bytes` from local memory to the next PE, and reads into it what the previous PE sent. */
static void exchange(char *symmetric, char *local, size_t bytes)
{
    unsigned char *mine = malloc(ROOM), *seen = malloc(ROOM);
    make_pattern(mine, me, bytes);
    /* Fills the local memory through the library too, because it may be on the GPU. */
    fill(job, symmetric, mine, bytes);
    OK(weft_get(ctx, local, symmetric, bytes, me));
    OK(weft_barrier(weft_team_world(job)));
    OK(weft_put(ctx, symmetric, local, bytes, next));
    OK(weft_barrier(weft_team_world(job)));
    OK(weft_get_nbi(ctx, local, symmetric, bytes, me));
    OK(weft_quiet(ctx));
    OK(weft_barrier(weft_team_world(job)));
    fill(job, symmetric, seen, bytes);
    OK(weft_put(ctx, symmetric, local, bytes, me));
    OK(weft_quiet(ctx)); /* a get is not ordered after a put, not even to this PE */
    look(job, seen, symmetric, bytes);
    make_pattern(mine, previous, bytes);
    CHECK(memcmp(seen, mine, bytes) == 0);
    OK(weft_barrier(weft_team_world(job)));
    free(mine);
    free(seen);
}

int main(void)
{
    struct gpu_api driver;
    CUcontext context;
    CUdeviceptr device;
    int ordinal = 0;
    OK(weft_init(&job, NULL));
    ctx = weft_default_ctx(job);
    me = weft_my_pe(job);
    n = weft_n_pes(job);
    next = (me + 1) % n;
    previous = (me + n - 1) % n;
    static char plain[ROOM];
    FAILS(weft_register(job, plain, ROOM), WEFT_ERR_UNSUPPORTED, "no GPU side");
    char *gpu = gpu_alloc(job, ROOM, 0), *host = alloc(job, ROOM);

    OK(gpu_api_open(&driver));
    CHECK(driver.PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                     (uintptr_t)gpu) == 0);
    CHECK(driver.DevicePrimaryCtxRetain(&context, ordinal) == 0);
    CHECK(driver.CtxPushCurrent(context) == 0);
    CHECK(driver.MemAlloc(&device, ROOM) == 0);
    char *own = (char *)(uintptr_t)device;

    for (int registered = 0; registered < 2; registered++) {
        if (registered) {
            OK(weft_register(job, own + 24, 250001));
            OK(weft_register(job, plain + 5, 250001));
            FAILS(weft_register(job, own + 1000, 8), WEFT_ERR_ARGUMENT, "overlap");
        }
        for (size_t bytes = 1; bytes < 250000; bytes = bytes * 7 + 2) {
            exchange(gpu, own + 25, bytes);
            exchange(host, own + 25, bytes);
            exchange(gpu, plain + 7, bytes);
            exchange(host, plain + 7, bytes);
        }
    }
    OK(weft_unregister(job, own + 24));
    OK(weft_unregister(job, plain + 5));
    FAILS(weft_unregister(job, plain + 5), WEFT_ERR_ADDRESS, "nothing is registered");
    FAILS(weft_register(job, own, (size_t)1 << 40), WEFT_ERR_ADDRESS, "the allocation there has");
    FAILS(weft_register(job, NULL, 8), WEFT_ERR_ARGUMENT, "weft_register");

    weft_gpu_info info = {.size = sizeof info};
    OK(weft_gpu_query(job, &info));
    CHECK(info.ordinal == ordinal && info.name[0] && info.heap_backed >= info.heap_used);
    weft_gpu_pair pair = {.size = sizeof pair};
    OK(weft_gpu_pair_query(job, next, &pair));
    CHECK(pair.usable == 1 && pair.evidence[0]);
    if (me == 0)
        printf("GPU %d %s (%s), kernels as %s; to PE %d: %s\n", info.ordinal, info.name, info.why,
               info.kernels, next, pair.evidence);
    FAILS(weft_gpu_pair_query(job, n, &pair), WEFT_ERR_PE, "the PEs are");
    pair.size = sizeof pair + 8;
    FAILS(weft_gpu_pair_query(job, next, &pair), WEFT_ERR_ARGUMENT, "pair.size is");
    info.size = 4;
    FAILS(weft_gpu_query(job, &info), WEFT_ERR_ARGUMENT, "info.size is 4;");
    FAILS(weft_gpu_query(job, NULL), WEFT_ERR_ARGUMENT, "info is null");
    CHECK(driver.MemFree(device) == 0);
    OK(weft_finalize(job));
    return 0;
}
