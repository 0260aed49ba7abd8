/* SPDX-License-Identifier: Apache-2.0 */
/* Operations in stream order: values after them, signals in both heaps, small copies at every
 * alignment, capture into a graph and its replay (on GPUs), the timeout of a wait. The driver's own
 * functions create the stream. */
#include "gpu_test.h"

#include "driver/gpu_api.h"

#include <dlfcn.h>
#include <weft/stream.h>

enum { ROOM = 1 << 20, REPLAYS = 5 };

static weft_job *job;
static weft_ctx *ctx;
static int me, n, next, previous;
static struct gpu_api driver;
static CUcontext context;
static CUstream stream;

static void make_stream(void)
{
    CUdevice device = 0;
    OK(gpu_api_open(&driver));
    /* The job's GPU is the one that holds its heap. */
    int ordinal = 0;
    void *probe = gpu_alloc(job, 64, 0);
    CHECK(driver.PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                     (uintptr_t)probe) == 0);
    CHECK(driver.DeviceGet(&device, ordinal) == 0);
    CHECK(driver.DevicePrimaryCtxRetain(&context, device) == 0);
    CHECK(driver.CtxPushCurrent(context) == 0);
    CHECK(driver.StreamCreate(&stream, CU_STREAM_NON_BLOCKING) == 0);
}

static void synchronize(void)
{
    CHECK(driver.StreamSynchronize(stream) == 0);
}

static void puts_and_gets(char *dst, char *src, char *back)
{
    static const size_t sizes[] = {8, 64, 1000, 8192, 65536, 1 << 20};
    unsigned char *mine = malloc(ROOM), *seen = malloc(ROOM);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        size_t bytes = sizes[s];
        make_pattern(mine, me + (int)s, bytes);
        fill(job, src, mine, bytes);
        OK(weft_barrier(weft_team_world(job)));
        OK(weft_put_on_stream(ctx, dst, src, bytes, next, stream));
        OK(weft_barrier_on_stream(weft_team_world(job), stream));
        OK(weft_get_on_stream(ctx, back, dst, bytes, next, stream));
        OK(weft_quiet_on_stream(ctx, stream));
        synchronize();
        look(job, seen, dst, bytes);
        make_pattern(mine, previous + (int)s, bytes);
        CHECK(memcmp(seen, mine, bytes) == 0);
        look(job, seen, back, bytes);
        make_pattern(mine, me + (int)s, bytes);
        CHECK(memcmp(seen, mine, bytes) == 0);
    }
    free(mine);
    free(seen);
}

static void signals(const char *what, char *dst, char *src, uint64_t *signal, char *back)
{
    static const size_t sizes[] = {8, 100, 8192, 100000, 1 << 20};
    unsigned char *mine = malloc(ROOM), *seen = malloc(ROOM);
    uint64_t zero = 0, value;
    fill(job, signal, &zero, sizeof zero);
    OK(weft_barrier(weft_team_world(job)));
    for (uint64_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        size_t bytes = sizes[s];
        make_pattern(mine, me + (int)s, bytes);
        fill(job, src, mine, bytes);
        if (s % 2)
            OK(weft_put_signal_on_stream(ctx, dst, src, bytes, signal, 1, WEFT_SIGNAL_ADD, next,
                                         stream));
        else
            OK(weft_put_signal_on_stream(ctx, dst, src, bytes, signal, s + 1, WEFT_SIGNAL_SET, next,
                                         stream));
        OK(weft_signal_wait_on_stream(ctx, signal, WEFT_GE, s + 1, stream));
        OK(weft_get_on_stream(ctx, back, dst, bytes, me, stream)); /* after the wait */
        synchronize();
        look(job, seen, back, bytes);
        make_pattern(mine, previous + (int)s, bytes);
        if (memcmp(seen, mine, bytes) != 0) {
            fprintf(stderr, "%s, %zu bytes: wrong data behind the signal\n", what, bytes);
            exit(1);
        }
        OK(weft_signal_fetch(ctx, signal, &value));
        CHECK(value == s + 1);
        OK(weft_barrier(weft_team_world(job)));
    }
    OK(weft_put_signal_on_stream(ctx, dst, src, 0, signal, 77, WEFT_SIGNAL_SET, next, stream));
    OK(weft_signal_wait(ctx, signal, WEFT_EQ, 77, NULL));
    synchronize();
    OK(weft_barrier(weft_team_world(job)));
    free(mine);
    free(seen);
}

/* Small copies by a kernel, whose widest access depends on the alignment of both sides: it writes
 * all bytes up to the end and none after it. */
static void places(char *dst, char *src, uint64_t *signal)
{
    static const size_t shifts[] = {0, 1, 2, 4, 8, 12, 16},
                        sizes[] = {1, 3, 5, 7, 18, 31, 102, 1023};
    enum { SHIFTS = sizeof shifts / sizeof shifts[0], SIZES = sizeof sizes / sizeof sizes[0] };
    unsigned char mine[1100], seen[1100];
    uint64_t turn = 1000;
    for (size_t k = 0; k < SHIFTS * SIZES; k++, turn++) {
        size_t shift = shifts[k % SHIFTS], bytes = sizes[k / SHIFTS];
        memset(mine, 0xee, sizeof mine);
        fill(job, dst, mine, sizeof mine);
        make_pattern(mine, me + (int)k, sizeof mine);
        fill(job, src, mine, sizeof mine);
        OK(weft_barrier(weft_team_world(job)));
        OK(weft_put_signal_on_stream(ctx, dst + shift, src + shift, bytes, signal, turn,
                                     WEFT_SIGNAL_SET, next, stream));
        OK(weft_signal_wait(ctx, signal, WEFT_EQ, turn, NULL));
        look(job, seen, dst, sizeof seen);
        make_pattern(mine, previous + (int)k, sizeof mine);
        for (size_t i = 0; i < sizeof seen; i++)
            if (seen[i] != (i >= shift && i < shift + bytes ? mine[i] : 0xee)) {
                fprintf(stderr, "%zu bytes at %zu: byte %zu is %#x\n", bytes, shift, i, seen[i]);
                exit(1);
            }
        synchronize();
        OK(weft_barrier(weft_team_world(job)));
    }
}

/* One graph: add to a counter of the next PE, call barrier, read that counter into a slot. */
static void graph(uint64_t *counter, uint64_t *seen)
{
    CUresult (*begin)(CUstream, int), (*end)(CUstream, void **);
    CUresult (*instantiate)(void **, void *, unsigned long long), (*launch)(void *, CUstream);
    *(void **)&begin = dlsym(driver.handle, "cuStreamBeginCapture_v2");
    *(void **)&end = dlsym(driver.handle, "cuStreamEndCapture");
    *(void **)&instantiate = dlsym(driver.handle, "cuGraphInstantiateWithFlags");
    *(void **)&launch = dlsym(driver.handle, "cuGraphLaunch");
    if (!begin || !end || !instantiate || !launch)
        return; /* the stand-in has no graphs */
    uint64_t zero[2] = {0}, value;
    void *captured, *executable;
    fill(job, counter, zero, sizeof zero);
    fill(job, seen, zero, sizeof zero);
    OK(weft_barrier(weft_team_world(job)));
    CHECK(begin(stream, 0 /* global: the strictest */) == 0);
    OK(weft_put_signal_on_stream(ctx, seen, counter, 8, counter + 1, 1, WEFT_SIGNAL_ADD, next,
                                 stream));
    OK(weft_signal_on_stream(ctx, counter, 3, WEFT_SIGNAL_ADD, next, stream));
    OK(weft_barrier_on_stream(weft_team_world(job), stream));
    OK(weft_get_on_stream(ctx, seen + 1, counter + 1, 8, next, stream));
    OK(weft_barrier_on_stream(weft_team_world(job), stream));
    CHECK(end(stream, &captured) == 0);
    CHECK(instantiate(&executable, captured, 0) == 0);
    for (uint64_t replay = 1; replay <= REPLAYS; replay++) {
        CHECK(launch(executable, stream) == 0);
        synchronize();
        look(job, &value, seen + 1, 8);
        CHECK(value == replay);
        look(job, &value, counter, 8);
        CHECK(value == 3 * replay);
        /* The value of the previous PE's counter when its put read it: that PE's own previous PE
         * may have added in this replay, or not yet. */
        look(job, &value, seen, 8);
        CHECK(value == 3 * (replay - 1) || value == 3 * replay);
        OK(weft_barrier(weft_team_world(job)));
    }
}

int main(int argc, char **argv)
{
    OK(weft_init(&job, NULL));
    ctx = weft_default_ctx(job);
    me = weft_my_pe(job);
    n = weft_n_pes(job);
    next = (me + 1) % n;
    previous = (me + n - 1) % n;
    char *gpu_a = gpu_alloc(job, ROOM, 0), *gpu_b = gpu_alloc(job, ROOM, 0);
    char *gpu_c = gpu_alloc(job, ROOM, 0);
    uint64_t *gpu_signal = gpu_alloc(job, 64, WEFT_ALLOC_ZERO);
    char *host_a = alloc(job, ROOM);
    uint64_t *host_signal = alloc(job, 64);
    make_stream();
    if (argc > 1 && strcmp(argv[1], "expire") == 0) {
        OK(weft_signal_wait_on_stream(ctx, gpu_signal, WEFT_EQ, 5, stream));
        synchronize();
        FAILS(weft_p64(ctx, gpu_signal, 1, me), WEFT_ERR_TIMEOUT, "expected == 5, seen 0");
        return 0;
    }
    puts_and_gets(gpu_a, gpu_b, gpu_c);
    puts_and_gets(gpu_a, host_a, gpu_c);
    puts_and_gets(host_a, gpu_b, gpu_c);
    signals("GPU, GPU signal", gpu_a, gpu_b, gpu_signal, gpu_c);
    signals("GPU, host signal", gpu_a, gpu_b, host_signal, gpu_c);
    signals("host, GPU signal", host_a, gpu_b, gpu_signal, gpu_c);
    places(gpu_a, gpu_b, gpu_signal);
    graph((uint64_t *)gpu_a, (uint64_t *)gpu_b);
    for (int i = 0; i < 20; i++)
        OK(weft_barrier_on_stream(weft_team_world(job), stream));
    synchronize();
    FAILS(weft_put_on_stream(ctx, gpu_a, gpu_b, 8, n, stream), WEFT_ERR_PE, "does not exist");
    FAILS(weft_signal_wait_on_stream(ctx, gpu_signal, WEFT_CMP_COUNT, 1, stream), WEFT_ERR_OP,
          "not a weft_cmp");
    CHECK(driver.StreamDestroy(stream) == 0);
    OK(weft_finalize(job));
    return 0;
}
