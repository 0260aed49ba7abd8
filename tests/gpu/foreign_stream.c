/* SPDX-License-Identifier: Apache-2.0 */
/* A stream of another GPU than the PE's: each operation refuses it with a message, and nothing is
 * stored. */
#include "tests/job/job.h"

#include "job/job.h"
#include "ops/access.h"

#include <string.h>

#include <weft/stream.h>

enum { BYTES = 1000 };

static weft_job *job;
static CUstream foreign;

static void refused(weft_status status, const char *name)
{
    char words[160];
    const struct gpu_device *device = &job->gpu->device;
    snprintf(words, sizeof words, "%s: the stream belongs to GPU %d, but this PE uses GPU %d (",
             name, (device->ordinal + 1) % device->visible, device->ordinal);
    CHECK(status == WEFT_ERR_ARGUMENT);
    CHECK(strstr(weft_last_error(), words));
}

#define REFUSED(name, ...) refused(name(__VA_ARGS__, (weft_stream)foreign), #name)

static void each(char *dst, const char *src, uint64_t *signal)
{
    weft_ctx *ctx = weft_default_ctx(job);
    weft_team *world = weft_team_world(job);
    int to = (weft_my_pe(job) + 1) % weft_n_pes(job);
    REFUSED(weft_put_on_stream, ctx, dst, src, BYTES, to);
    REFUSED(weft_get_on_stream, ctx, dst, src, BYTES, to);
    REFUSED(weft_put_signal_on_stream, ctx, dst, src, BYTES, signal, 1, WEFT_SIGNAL_SET, to);
    REFUSED(weft_signal_on_stream, ctx, signal, 1, WEFT_SIGNAL_ADD, to);
    REFUSED(weft_signal_wait_on_stream, ctx, signal, WEFT_EQ, 0);
    REFUSED(weft_barrier_on_stream, world);
    REFUSED(weft_sync_on_stream, world);
    REFUSED(weft_broadcast_on_stream, world, dst, src, BYTES, 0);
    REFUSED(weft_alltoall_on_stream, world, dst, src, 8);
    REFUSED(weft_allreduce_on_stream, world, dst, src, 8, WEFT_INT32, WEFT_SUM);
}

static void *make(size_t bytes)
{
    void *made = NULL;
    weft_status status = weft_alloc(job, WEFT_GPU, bytes, 0, WEFT_ALLOC_ZERO, &made);
    if (status == WEFT_ERR_UNSUPPORTED) {
        fprintf(stderr, "skipped: %s\n", weft_last_error());
        exit(77);
    }
    OK(status);
    return made;
}

int main(void)
{
    OK(weft_init(&job, NULL));
    weft_ctx *ctx = weft_default_ctx(job);
    int me = weft_my_pe(job);
    char *dst = make(BYTES), *src = make(BYTES);
    uint64_t *signal = make(sizeof *signal);
    unsigned char seen[BYTES], given[BYTES];
    const struct gpu_device *device = &job->gpu->device;
    const struct gpu_api *driver = device->driver;
    CUcontext context;
    if (device->visible < 2) {
        printf("one GPU is visible; two are needed\n");
        OK(weft_finalize(job));
        return 77;
    }
    CUdevice other = (device->ordinal + 1) % device->visible;
    memset(given, 0x5a, sizeof given);
    OK(weft_put(ctx, src, given, sizeof given, me));
    CHECK(!driver->DevicePrimaryCtxRetain(&context, other) && !driver->CtxPushCurrent(context) &&
          !driver->StreamCreate(&foreign, CU_STREAM_NON_BLOCKING) &&
          !driver->CtxPopCurrent(&context));
    each(dst, src, signal);
    OK(weft_barrier(weft_team_world(job)));
    OK(weft_get(ctx, seen, dst, sizeof seen, me));
    for (size_t i = 0; i < sizeof seen; i++)
        CHECK(seen[i] == 0);
    /* A stream of the PE's own GPU still works, and so does the default stream. */
    OK(weft_allreduce_on_stream(weft_team_world(job), dst, src, 1, WEFT_INT32, WEFT_MAX, NULL));
    OK(weft_barrier_on_stream(weft_team_world(job), NULL));
    CHECK(!driver->CtxPushCurrent(device->context) && !driver->StreamSynchronize(NULL) &&
          !driver->CtxPopCurrent(&context));
    OK(weft_get(ctx, seen, dst, 4, me));
    CHECK(seen[0] == 0x5a && seen[3] == 0x5a);
    CHECK(!driver->StreamDestroy(foreign) && !driver->DevicePrimaryCtxRelease(other));
    OK(weft_finalize(job));
    return 0;
}
