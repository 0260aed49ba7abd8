/* SPDX-License-Identifier: Apache-2.0 */
/* Times of host-initiated operations with GPU memory, from PE 0 to the last PE, used to choose
 * tunables and to compare changes of the library. Prints medians and asserts nothing. */
#include "gpu_test.h"

#include "driver/gpu_api.h"

#include <time.h>
#include <weft/gpu.h>
#include <weft/stream.h>

enum { ROOM = 256 << 20, SAMPLES = 200 };

static weft_job *job;
static weft_ctx *ctx;
static int me, n, peer;
static struct gpu_api driver;
static CUstream stream;

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

static double samples[SAMPLES];

static double median(int count)
{
    qsort(samples, (size_t)count, sizeof samples[0], by_value);
    return samples[count / 2];
}

#define MEDIAN_US(count, statement)                                                                \
    ({                                                                                             \
        for (int i_ = -3; i_ < (count); i_++) {                                                    \
            double begun_ = now_us();                                                              \
            statement;                                                                             \
            if (i_ >= 0)                                                                           \
                samples[i_] = now_us() - begun_;                                                   \
        }                                                                                          \
        median(count);                                                                             \
    })

static void print(const char *what, size_t bytes, double us)
{
    printf("%-44s %10zu B %10.2f us", what, bytes, us);
    if (bytes >= 65536)
        printf(" %8.1f GB/s", (double)bytes / us * 1e-3);
    printf("\n");
    fflush(stdout);
}

static void make_stream(void *probe)
{
    CUcontext context;
    int ordinal = 0;
    OK(gpu_api_open(&driver));
    CHECK(driver.PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                     (uintptr_t)probe) == 0);
    CHECK(driver.DevicePrimaryCtxRetain(&context, ordinal) == 0);
    CHECK(driver.CtxPushCurrent(context) == 0);
    CHECK(driver.StreamCreate(&stream, CU_STREAM_NON_BLOCKING) == 0);
}

static void blocking(char *dst, char *src, char *host)
{
    uint64_t value;
    static char plain[4 << 20];
    for (size_t bytes = 8; bytes <= 1 << 20; bytes *= bytes < 1024 ? 128 : 8)
        print("put, GPU to GPU, and quiet", bytes, MEDIAN_US(SAMPLES, {
                  OK(weft_put(ctx, dst, src, bytes, peer));
                  OK(weft_quiet(ctx));
              }));
    for (size_t bytes = 8; bytes <= 1 << 20; bytes *= bytes < 1024 ? 128 : 8)
        print("put, plain host to GPU, and quiet", bytes, MEDIAN_US(SAMPLES, {
                  OK(weft_put(ctx, dst, plain, bytes, peer));
                  OK(weft_quiet(ctx));
              }));
    print("put, plain host to GPU, alone", 8,
          MEDIAN_US(SAMPLES, OK(weft_put(ctx, dst, plain, 8, peer))));
    print("put, host heap to GPU, and quiet", 8, MEDIAN_US(SAMPLES, {
              OK(weft_put(ctx, dst, host, 8, peer));
              OK(weft_quiet(ctx));
          }));
    print("get, GPU to plain host", 8, MEDIAN_US(SAMPLES, OK(weft_get(ctx, plain, src, 8, peer))));
    print("get, GPU to GPU", 8, MEDIAN_US(SAMPLES, OK(weft_get(ctx, dst, src, 8, peer))));
    print("g64 of GPU memory", 8, MEDIAN_US(SAMPLES, OK(weft_g64(ctx, src, &value, peer))));
    print("p64 to GPU memory, alone", 8, MEDIAN_US(SAMPLES, OK(weft_p64(ctx, dst, 1, peer))));
    print("atomic_fetch_add64 of GPU memory", 8,
          MEDIAN_US(SAMPLES, OK(weft_atomic_fetch_add64(ctx, dst, 1, &value, peer))));
    print("put to the host heap while a GPU is open", 8,
          MEDIAN_US(SAMPLES, OK(weft_put(ctx, host, plain, 8, peer))));
}

/* Operations on the program's streams need memory that the PE's GPU can access; barriers on streams
 * need this for all PEs. */
static bool is_mapped(void)
{
    int count = 0;
    for (int pe = 0; pe < n; pe++) {
        weft_path_info info = {.size = sizeof info, .kind = WEFT_GPU};
        OK(weft_path_query(job, pe, &info));
        count += info.load_store;
        if (me == 0 && pe == peer)
            printf("to the GPU memory of PE %d over path %s: %s\n", pe, info.name, info.reason);
    }
    return count == n;
}

static void large(char *dst, char *src)
{
    for (size_t bytes = 1 << 20; bytes <= ROOM; bytes *= 16)
        print("put, GPU to GPU, and quiet", bytes, MEDIAN_US(15, {
                  OK(weft_put(ctx, dst, src, bytes, peer));
                  OK(weft_quiet(ctx));
              }));
    for (size_t bytes = 1 << 20; bytes <= ROOM; bytes *= 16)
        print("get, GPU to GPU", bytes, MEDIAN_US(15, OK(weft_get(ctx, dst, src, bytes, peer))));
}

/* Queues many operations on the stream and prints the time of one. */
static void on_stream(char *dst, char *src, uint64_t *signal)
{
    enum { ROW = 100 };
    for (size_t bytes = 8; bytes <= 128 << 20; bytes *= bytes < 4096 ? 512 : 32)
        print("put_on_stream, of a row", bytes,
              MEDIAN_US(bytes < 1 << 20 ? 20 : 3, {
                  for (int k = 0; k < ROW; k++)
                      OK(weft_put_on_stream(ctx, dst, src, bytes, peer, stream));
                  CHECK(driver.StreamSynchronize(stream) == 0);
              }) / ROW);
    for (size_t bytes = 8; bytes <= 1 << 20; bytes *= bytes < 4096 ? 512 : 16)
        print("put_signal_on_stream, of a row", bytes,
              MEDIAN_US(20, {
                  for (int k = 0; k < ROW; k++)
                      OK(weft_put_signal_on_stream(ctx, dst, src, bytes, signal, 1, WEFT_SIGNAL_SET,
                                                   peer, stream));
                  CHECK(driver.StreamSynchronize(stream) == 0);
              }) / ROW);
}

static void barriers(bool mapped)
{
    enum { ROW = 100 };
    double us = mapped ? MEDIAN_US(20,
                                   {
                                       for (int k = 0; k < ROW; k++)
                                           OK(weft_barrier_on_stream(weft_team_world(job), stream));
                                       CHECK(driver.StreamSynchronize(stream) == 0);
                                   })
                       : 0;
    if (me == 0 && mapped)
        print("barrier_on_stream, of a row", 0, us / ROW);
    us = MEDIAN_US(SAMPLES, OK(weft_barrier(weft_team_world(job))));
    if (me == 0)
        print("barrier on the host", 0, us);
}

int main(void)
{
    double begun = now_us();
    OK(weft_init(&job, NULL));
    double joined = now_us();
    ctx = weft_default_ctx(job);
    me = weft_my_pe(job);
    n = weft_n_pes(job);
    peer = n - 1;
    char *dst = gpu_alloc(job, ROOM, 0);
    double opened = now_us();
    char *src = gpu_alloc(job, ROOM, 0), *host = alloc(job, 4 << 20);
    uint64_t *signal = gpu_alloc(job, 64, WEFT_ALLOC_ZERO);
    make_stream(dst);
    bool mapped = is_mapped();
    if (me == 0) {
        print("weft_init", 0, joined - begun);
        print("first weft_alloc(WEFT_GPU), 256 MiB", 0, opened - joined);
        blocking(dst, src, host);
        large(dst, src);
        if (mapped)
            on_stream(dst, src, signal);
    }
    OK(weft_barrier(weft_team_world(job)));
    barriers(mapped);
    begun = now_us();
    OK(weft_finalize(job));
    if (me == 0)
        print("weft_finalize", 0, now_us() - begun);
    return 0;
}
