/* SPDX-License-Identifier: Apache-2.0 */
/* Shows how CPU threads copy between plain and GPU memory: what they copy through their bounce
 * buffers, from which size they are used, and what is left when something fails. Copies of the
 * driver double complete when their stream is waited for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/thread.h"
#include "counted.h"
#include "gpu/bounce.h"
#include "gpu/stream.h"
#include "gpu/test/cache.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KIB = 1 << 10, MIB = 1 << 20, MOST = 17 * MIB, STREAMS = 64, DEPTH = 4 };

static struct stream {
    bool made;
    int pending;
    struct {
        char *to;
        const char *from;
        size_t bytes;
    } copies[DEPTH];
} streams[STREAMS];
static _Atomic int stream_count, streams_live, pinned_live, device_live, threads_live, entered;
static _Atomic int copies, fail_copy, waits, fail_wait;
static weft_status wait_failure;
static _Atomic size_t largest;
static int allocations, fail_allocation, fail_thread, stream_failure;
static struct gpu gpu;
static struct boot boot = {.local_npes = 1};
static char *device, *host;
static size_t device_bytes;
static bool push_fails, device_fails, unmoved; /* no bytes are copied while times are measured */
static int cpus;
static struct gpu_stream lane;
static int settled;
static weft_status settle_status;

static CUresult push(CUcontext context)
{
    if (push_fails)
        return CUDA_ERROR_UNKNOWN;
    entered++;
    return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *context)
{
    entered--;
    return CUDA_SUCCESS;
}

static CUresult stream_create(CUstream *stream, unsigned flags)
{
    assert_int_equal(flags, CU_STREAM_NON_BLOCKING);
    if (stream_count + 1 == stream_failure)
        return CUDA_ERROR_OUT_OF_MEMORY;
    streams[stream_count] = (struct stream){.made = true};
    *stream = (CUstream)&streams[stream_count++];
    streams_live++;
    return CUDA_SUCCESS;
}

static CUresult stream_destroy(CUstream handle)
{
    struct stream *stream = (struct stream *)handle;
    assert_true(stream->made);
    stream->made = false;
    streams_live--;
    return CUDA_SUCCESS;
}

/* A copy by threads takes a time that does not depend on its size. The time is counted at its first
 * part. */
static uint64_t own_ns, engine_ns[5];
static _Atomic uint64_t now_ns;
static const int noise[3] = {9, 0, 5}; /* of three tries, ns */
static _Atomic int own_copies, engine_copies;

static CUresult copy_async(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream handle)
{
    struct stream *stream = (struct stream *)handle;
    if (++copies == fail_copy)
        return CUDA_ERROR_UNKNOWN;
    if (bytes > largest)
        largest = bytes;
    if (to == (uintptr_t)device || from == (uintptr_t)device)
        now_ns += own_ns + (uint64_t)noise[own_copies++ % 3];
    if (stream->pending == DEPTH)
        return CUDA_ERROR_INVALID_VALUE;
    stream->copies[stream->pending].to = (char *)(uintptr_t)to;
    stream->copies[stream->pending].from = (const char *)(uintptr_t)from;
    stream->copies[stream->pending++].bytes = bytes;
    return CUDA_SUCCESS;
}

weft_status __wrap_gpu_wait_stream(struct gpu *by, CUstream handle, const char *what);
weft_status __wrap_gpu_wait_stream(struct gpu *by, CUstream handle, const char *what)
{
    struct stream *stream = (struct stream *)handle;
    if (handle == lane.stream) {
        settled++;
        return settle_status;
    }
    if (++waits == fail_wait)
        return base_fail(wait_failure, "it does not end");
    for (int i = 0; i < stream->pending && !unmoved; i++)
        memcpy(stream->copies[i].to, stream->copies[i].from, stream->copies[i].bytes);
    stream->pending = 0;
    return WEFT_OK;
}

static void *buffers[STREAMS]; /* pinned buffers */

static CUresult host_alloc(void **address, size_t bytes, unsigned flags)
{
    assert_int_equal(bytes, MIB);
    assert_int_equal(flags, CU_MEMHOSTALLOC_PORTABLE);
    *address = (void *)1;
    if (++allocations == fail_allocation)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *address = aligned_alloc(4096, bytes);
    buffers[pinned_live++] = *address;
    return CUDA_SUCCESS;
}

static CUresult free_host(void *address)
{
    for (int i = 0; i < pinned_live; i++)
        if (buffers[i] == address) {
            buffers[i] = buffers[--pinned_live];
            __real_free(address);
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}

static CUresult alloc(CUdeviceptr *address, size_t bytes)
{
    if (device_fails)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *address = (uintptr_t)device;
    device_bytes = bytes;
    device_live++;
    return CUDA_SUCCESS;
}

static CUresult free_device(CUdeviceptr address)
{
    assert_int_equal(address, (uintptr_t)device);
    device_live--;
    return CUDA_SUCCESS;
}

static CUresult error_text(CUresult result, const char **words)
{
    *words = "FAILED";
    return CUDA_SUCCESS;
}

uint64_t __wrap_clock_now_ns(void);
uint64_t __wrap_clock_now_ns(void)
{
    return now_ns;
}

weft_status __wrap_gpu_copy(struct gpu *by, unsigned number, void *dst, const void *src,
                            size_t bytes, enum gpu_copy_mode manner);
weft_status __wrap_gpu_copy(struct gpu *by, unsigned number, void *dst, const void *src,
                            size_t bytes, enum gpu_copy_mode manner)
{
    assert_int_equal(manner, GPU_DONE);
    assert_true(dst == device || src == device);
    assert_int_equal(device_bytes, 16 * MIB);
    assert_true(bytes >= MIB && bytes <= 16 * MIB);
    now_ns += engine_ns[__builtin_ctzll(bytes) - 20] + (uint64_t)noise[engine_copies++ % 3];
    return WEFT_OK;
}

enum gpu_place __wrap_gpu_place_of(struct gpu *by, const void *address);
enum gpu_place __wrap_gpu_place_of(struct gpu *by, const void *address)
{
    if ((uintptr_t)address - (uintptr_t)device < MOST)
        return GPU_PLACE_DEVICE;
    return (uintptr_t)address - (uintptr_t)host < MOST ? GPU_PLACE_PLAIN : GPU_PLACE_PINNED;
}

int __real_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);
int __wrap_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);
int __wrap_thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    if (threads_live + 1 == fail_thread)
        return EAGAIN;
    threads_live++;
    return __real_thread_start(thread, run, argument);
}

int __wrap_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
    CPU_ZERO(set);
    for (int i = 0; i < cpus; i++)
        CPU_SET(i, set);
    return cpus < 0 ? -1 : 0;
}

/* The cache of earlier measurements. */
static struct {
    char name[32];
    size_t numbers[2];
    int kept;
} cache;

bool __wrap_proof_cache_load_numbers(const char *what, const CUuuid *of, int driver_version,
                                     size_t *numbers, int count);
bool __wrap_proof_cache_load_numbers(const char *what, const CUuuid *of, int driver_version,
                                     size_t *numbers, int count)
{
    assert_true(count == 2 && driver_version == 12345 && of == &gpu.device.uuid);
    memcpy(numbers, cache.numbers, sizeof cache.numbers);
    return strcmp(what, cache.name) == 0;
}

void __wrap_proof_cache_store_numbers(const char *what, const CUuuid *of, int driver_version,
                                      const size_t *numbers, int count);
void __wrap_proof_cache_store_numbers(const char *what, const CUuuid *of, int driver_version,
                                      const size_t *numbers, int count)
{
    assert_true(count == 2 && driver_version == 12345 && of == &gpu.device.uuid);
    snprintf(cache.name, sizeof cache.name, "%s", what);
    memcpy(cache.numbers, numbers, sizeof cache.numbers);
    cache.kept++;
}

static int set_up(void **state)
{
    memset(&gpu, 0, sizeof gpu);
    memset(&cache, 0, sizeof cache);
    memset(engine_ns, 0, sizeof engine_ns);
    stream_count = streams_live = pinned_live = device_live = threads_live = entered = 0;
    copies = fail_copy = waits = fail_wait = own_copies = engine_copies = 0;
    allocations = fail_allocation = fail_thread = stream_failure = settled = 0;
    largest = own_ns = 0;
    wait_failure = WEFT_ERR_TIMEOUT;
    settle_status = WEFT_OK;
    push_fails = device_fails = unmoved = false;
    cpus = 16;
    boot.local_npes = 1;
    unsetenv("WEFT_TEST_COPY_THREADS");
    unsetenv("WEFT_PROVE");
    gpu.driver = (struct gpu_api){.CtxPushCurrent = push,
                                  .CtxPopCurrent = pop,
                                  .StreamCreate = stream_create,
                                  .StreamDestroy = stream_destroy,
                                  .MemcpyAsync = copy_async,
                                  .MemHostAlloc = host_alloc,
                                  .MemFreeHost = free_host,
                                  .MemAlloc = alloc,
                                  .MemFree = free_device,
                                  .GetErrorName = error_text,
                                  .GetErrorString = error_text,
                                  .driver_version = 12345};
    gpu.device.driver = &gpu.driver;
    gpu.boot = &boot;
    lane.stream = (CUstream)&streams[STREAMS - 1];
    pthread_mutex_init(&gpu.bouncing.lock, NULL);
    counted_begin();
    return 0;
}

static int tear_down(void **state)
{
    gpu_bounce_stop(&gpu);
    assert_null(gpu.bouncing.threads);
    assert_int_equal(streams_live, 0);
    assert_int_equal(pinned_live, 0);
    assert_int_equal(device_live, 0);
    assert_int_equal(entered, 0);
    return counted_end(state);
}

static void use(const char *threads)
{
    gpu_bounce_stop(&gpu);
    gpu.bouncing.refused = false;
    setenv("WEFT_TEST_COPY_THREADS", threads, 1);
    config_reset();
    largest = 0;
    allocations = 0;
    copies = 0;
    waits = 0;
    stream_count = threads_live = 0;
}

static bool bounce(void *dst, const void *src, size_t bytes, weft_status *status)
{
    *status = WEFT_ERR_RANGE; /* a value that gpu_bounce() never returns */
    bool done = gpu_bounce(&gpu, &lane, dst, src, bytes, status);
    assert_int_equal(pthread_mutex_trylock(&gpu.bouncing.lock), 0);
    pthread_mutex_unlock(&gpu.bouncing.lock);
    return done;
}

static void fill(char *at, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t value = (i + seed) * 0x9e3779b97f4a7c15u;
        memcpy(at + i, &value, 8);
    }
}

static void all_parts_are_carried(void **state)
{
    static const struct {
        const char *threads;
        size_t bytes, part;
    } rows[] = {
        {"2", MIB, 256 * KIB},          {"3", MIB + 24, 128 * KIB},
        {"8", MIB + 1, 128 * KIB},      {"2", 5 * MIB + 4321, 512 * KIB},
        {"4", 3 * MIB + 65, 384 * KIB}, {"4", 4 * MIB, 512 * KIB},
    };
    weft_status status;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        use(rows[i].threads);
        for (int in = 1; in >= 0; in--) {
            char *dst = in ? device : host, *src = in ? host : device;
            fill(src, rows[i].bytes + 128, (unsigned)i);
            memset(dst, 'x', rows[i].bytes + 128);
            settled = 0;
            assert_true(bounce(dst + 64, src + 128, rows[i].bytes, &status));
            assert_int_equal(status, WEFT_OK);
            assert_int_equal(settled, 1);
            assert_int_equal(memcmp(dst + 64, src + 128, rows[i].bytes), 0);
            assert_int_equal(dst[63], 'x');
            assert_int_equal(dst[64 + rows[i].bytes], 'x');
            assert_int_equal(largest, rows[i].part);
        }
        assert_int_equal(threads_live, rows[i].threads[0] - '1');
        assert_int_equal(streams_live, 2 * (rows[i].threads[0] - '0'));
    }
    assert_int_equal(device_live, 0);
    assert_int_equal(engine_copies, 0); /* no size is measured */
}

static void what_is_not_large_or_not_plain_is_the_drivers(void **state)
{
    char pinned[8];
    struct gpu main = {0};
    weft_status status;
    use("2");
    assert_false(bounce(device, host, MIB - 1, &status));
    assert_false(bounce(device, device + MIB, MIB, &status));
    assert_false(bounce(host, host + MIB, MIB, &status));
    assert_false(bounce(device, pinned, MIB, &status));
    assert_false(bounce(pinned, device, MIB, &status));
    gpu.owner = &main; /* a relay GPU */
    assert_false(bounce(device, host, MIB, &status));
    gpu.owner = NULL;
    gpu.bouncing.refused = true;
    assert_false(bounce(device, host, MIB, &status));
    gpu.bouncing.refused = false;
    pthread_mutex_lock(&gpu.bouncing.lock); /* another thread is copying */
    status = WEFT_ERR_RANGE;
    assert_false(gpu_bounce(&gpu, &lane, device, host, MIB, &status));
    pthread_mutex_unlock(&gpu.bouncing.lock);
    assert_int_equal(status, WEFT_ERR_RANGE);
    assert_null(gpu.bouncing.threads);
    assert_true(bounce(device, host, MIB, &status));
    copies = 0;
    settle_status = WEFT_ERR_SYSTEM; /* the stream has an error */
    assert_true(bounce(device, host, MIB, &status));
    assert_int_equal(status, WEFT_ERR_SYSTEM);
    assert_int_equal(copies, 0);
}

/* A failed part fails the copy; the next copy succeeds. */
static void a_part_that_fails_is_the_callers(void **state)
{
    weft_status status;
    use("2");
    for (int in = 0; in < 2; in++) {
        for (int k = 1; k <= 12; k += 5) {
            char *dst = in ? device : host, *src = in ? host : device;
            fail_copy = copies + k;
            assert_true(bounce(dst, src, 6 * MIB, &status));
            assert_int_equal(status, WEFT_ERR_SYSTEM);
            assert_non_null(strstr(base_last_error(), "cuMemcpyAsync of 524288 bytes"));
            for (int i = 0; i < STREAMS; i++)
                assert_int_equal(streams[i].pending, 0);
            fail_wait = waits + k;
            wait_failure = WEFT_ERR_SYSTEM;
            assert_true(bounce(dst, src, 6 * MIB, &status));
            assert_int_equal(status, WEFT_ERR_SYSTEM);
            assert_string_equal(base_last_error(), "it does not end");
            assert_false(gpu.bouncing.refused);
            fail_copy = fail_wait = 0;
            fill(src, 6 * MIB, (unsigned)k);
            assert_true(bounce(dst, src, 6 * MIB, &status));
            assert_int_equal(status, WEFT_OK);
            assert_int_equal(memcmp(dst, src, 6 * MIB), 0);
        }
    }
    wait_failure = WEFT_ERR_TIMEOUT; /* other parts are running and do not end */
    while (!gpu.bouncing.refused) {
        fail_copy = copies + 3;
        fail_wait = waits + 2;
        assert_true(bounce(device, host, 6 * MIB, &status));
    }
    assert_false(bounce(device, host, MIB, &status));
}

static void what_cannot_be_made_leaves_nothing(void **state)
{
    weft_status status;
    for (int i = 0; i < 8; i++) {
        use("3");
        fail_allocation = i < 3 ? i + 1 : 0;
        stream_failure = i == 3 ? 1 : i == 4 ? 4 : 0;
        fail_thread = i == 5 ? 1 : i == 6 ? 2 : 0;
        counted.fail_in = i == 7 ? 0 : -1;
        if (i == 7)
            gpu_bounce_limits(&gpu); /* the variables have been read before */
        else
            assert_false(bounce(device, host, MIB, &status));
        assert_true(gpu.bouncing.refused);
        assert_null(gpu.bouncing.threads);
        assert_int_equal(streams_live, 0);
        assert_int_equal(pinned_live, 0);
        assert_false(bounce(device, host, MIB, &status)); /* no second attempt is made */
    }
    use("1"); /* one thread means no threads */
    assert_false(bounce(device, host, MIB, &status));
    assert_true(gpu.bouncing.refused);
    assert_int_equal(allocations, 0);
}

/* Buffers stay pinned if a kernel that is not waited for may still use them. */
static void memory_stays_where_work_is_left(void **state)
{
    weft_status status;
    use("2");
    assert_true(bounce(device, host, MIB, &status));
    gpu.work_left = true;
    gpu_bounce_stop(&gpu);
    assert_int_equal(pinned_live, 2);
    assert_int_equal(streams_live, 0);
    gpu.work_left = false;
    use("2");
    assert_true(bounce(device, host, MIB, &status));
    fail_wait = waits + 4; /* the last stream does not complete */
    gpu_bounce_stop(&gpu);
    assert_int_equal(pinned_live, 3);
    while (pinned_live)
        free_host(buffers[0]);
}

static void a_worker_without_a_context_leaves_its_part_to_others(void **state)
{
    weft_status status;
    use("3");
    push_fails = true;
    fill(host, 4 * MIB, 5);
    assert_true(bounce(device, host, 4 * MIB, &status));
    assert_int_equal(status, WEFT_OK);
    assert_int_equal(memcmp(device, host, 4 * MIB), 0);
    push_fails = false;
    gpu_bounce_stop(&gpu);
    push_fails = true;
    assert_int_equal(gpu_bounce_limits(&gpu).threads, 0);
    assert_null(gpu.bouncing.threads);
}

static void sizes_are_measured_once(void **state)
{
    static const struct {
        uint64_t engine[5]; /* ns at 1, 2, 4, 8 and 16 MiB; copies by threads take 100 ns */
        size_t from;
        int tried;
    } rows[] = {
        {{104, 104, 104, 104, 104}, 0, 1},       {{105, 105, 105, 105, 105}, MIB, 5},
        {{50, 200, 90, 200, 300}, 8 * MIB, 3},   {{10, 104, 105, 200, 300}, 4 * MIB, 4},
        {{104, 105, 200, 200, 300}, 2 * MIB, 5}, {{500, 500, 500, 500, 90}, 0, 1},
    };
    unmoved = true;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        use("auto");
        memset(&cache, 0, sizeof cache);
        own_copies = engine_copies = 0;
        memcpy(engine_ns, rows[i].engine, sizeof engine_ns);
        own_ns = 100;
        struct gpu_bounce_limits limits = gpu_bounce_limits(&gpu);
        assert_int_equal(limits.in_from, rows[i].from);
        assert_int_equal(limits.out_from, rows[i].from);
        assert_int_equal(limits.threads, rows[i].from ? 4 : 0);
        assert_int_equal(engine_copies, 2 * 3 * rows[i].tried);
        assert_int_equal(own_copies, 2 * 3 * rows[i].tried);
        assert_string_equal(cache.name, "gpu-bounces-4");
        assert_int_equal(cache.kept, 1);
        assert_int_equal(cache.numbers[0], rows[i].from);
        assert_int_equal(gpu.bouncing.refused, rows[i].from == 0);
        limits = gpu_bounce_limits(&gpu);
        assert_int_equal(limits.in_from, rows[i].from);
        assert_int_equal(engine_copies, 2 * 3 * rows[i].tried);
        use("auto");
        assert_int_equal(device_live, 0);
        own_copies = engine_copies = 0;
        limits = gpu_bounce_limits(&gpu); /* loaded from the cache of an earlier job */
        assert_int_equal(limits.out_from, rows[i].from);
        assert_int_equal(engine_copies, 0);
    }
    setenv("WEFT_PROVE", "always", 1);
    use("auto");
    memcpy(engine_ns, rows[1].engine, sizeof engine_ns);
    assert_int_equal(gpu_bounce_limits(&gpu).in_from, MIB);
    assert_int_equal(engine_copies, 30);
}

static void each_direction_has_its_size(void **state)
{
    weft_status status;
    snprintf(cache.name, sizeof cache.name, "gpu-bounces-4");
    cache.numbers[0] = 2 * MIB;
    use("auto");
    assert_false(bounce(device, host, 2 * MIB - 1, &status));
    assert_true(bounce(device, host, 2 * MIB, &status));
    assert_false(bounce(host, device, 16 * MIB, &status)); /* 0 means never */
    assert_int_equal(gpu_bounce_limits(&gpu).threads, 4);
    cache.numbers[0] = 0;
    cache.numbers[1] = 4 * MIB;
    use("auto");
    assert_false(bounce(device, host, 16 * MIB, &status));
    assert_true(bounce(host, device, 4 * MIB, &status));
    assert_false(bounce(host, device, 4 * MIB - 1, &status));
    use("2");
    struct gpu_bounce_limits limits = gpu_bounce_limits(&gpu);
    assert_true(limits.threads == 2 && limits.in_from == MIB && limits.out_from == MIB);
}

static void what_fails_while_it_is_measured_is_not_used(void **state)
{
    unmoved = true;
    use("auto");
    own_ns = 1;
    for (int i = 0; i < 5; i++)
        engine_ns[i] = 900;
    device_fails = true;
    assert_int_equal(gpu_bounce_limits(&gpu).threads, 0);
    assert_true(gpu.bouncing.refused);
    assert_int_equal(engine_copies, 0);
    device_fails = false;
    use("auto");
    memset(&cache, 0, sizeof cache);
    fail_copy = 5; /* the copy of the largest size */
    struct gpu_bounce_limits limits = gpu_bounce_limits(&gpu);
    assert_int_equal(limits.in_from, 0);
    assert_int_equal(limits.out_from, MIB);
}

static void as_many_threads_as_cpus(void **state)
{
    static const struct {
        int cpus, pes, threads;
    } rows[] = {{16, 1, 4}, {3, 1, 3}, {16, 5, 3}, {16, 4, 4}, {7, 4, 0}, {1, 1, 0}, {-1, 1, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cpus = rows[i].cpus;
        boot.local_npes = rows[i].pes;
        snprintf(cache.name, sizeof cache.name, "gpu-bounces-%d", rows[i].threads);
        cache.numbers[0] = cache.numbers[1] = MIB;
        use("auto");
        assert_int_equal(gpu_bounce_limits(&gpu).threads, rows[i].threads);
    }
}

static int begin(void **state)
{
    device = aligned_alloc(4096, MOST);
    host = aligned_alloc(4096, MOST);
    return device && host ? 0 : -1;
}

static int end(void **state)
{
    __real_free(device);
    __real_free(host);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_parts_are_carried),
        TEST(what_is_not_large_or_not_plain_is_the_drivers),
        TEST(a_part_that_fails_is_the_callers),
        TEST(what_cannot_be_made_leaves_nothing),
        TEST(memory_stays_where_work_is_left),
        TEST(a_worker_without_a_context_leaves_its_part_to_others),
        TEST(sizes_are_measured_once),
        TEST(each_direction_has_its_size),
        TEST(what_fails_while_it_is_measured_is_not_used),
        TEST(as_many_threads_as_cpus),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
