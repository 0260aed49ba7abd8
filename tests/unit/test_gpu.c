/* SPDX-License-Identifier: Apache-2.0 */
/* Shows that the GPU part of a PE works over the stand-in of the CUDA driver, and what it reports
 * when something is wrong. Each driver function may fail at each of its uses, and no object is
 * left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/config.h"
#include "fake_cuda.h"
#include "gpu/gpu.h"
#include "gpu/test/cache.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void (*fill)(int);

static int set_up(void **state)
{
    (void)state;
    static char cache[] = "/tmp/weft-test-XXXXXX";
    if (!strstr(cache, "XXXXXX") || !mkdtemp(cache))
        return -1;
    setenv("XDG_RUNTIME_DIR", cache, 1);
    setenv("WEFT_WAIT_LIMIT", "2s", 1);
    setenv("WEFT_LOG", "error", 1);
    setenv("WEFT_BOOT", "single", 1);
    setenv("WEFT_GPU_HEAP_SIZE", "256M", 1);
    if (fake_cuda_find())
        return -1;
    *(void **)&fill = dlsym(fake.library, "fake_cuda_fill");
    return fill ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    char path[600];
    if (proof_cache_file(path, sizeof path))
        unlink(path);
    snprintf(path, sizeof path, "%s/weft", getenv("XDG_RUNTIME_DIR"));
    rmdir(path);
    rmdir(getenv("XDG_RUNTIME_DIR"));
    return 0;
}

static void assert_nothing_left(const char *what, unsigned k)
{
    if (fake.live() != 0) {
        fake.list();
        fail_msg("%s, use %u: %d objects are left", what, k, fake.live());
    }
}

static uint64_t word_at(struct gpu *gpu, CUdeviceptr at, size_t width)
{
    uint64_t value = 0;
    assert_int_equal(gpu_access(gpu, 0, at, GPU_ACCESS_LOAD, width, 0, 0, &value), WEFT_OK);
    return value;
}

/* Uses each host operation on the GPU; with `check` also asserts the values. */
static weft_status use_gpu(struct gpu *gpu, bool check)
{
    weft_status status = gpu_heap_grow(&gpu->heap, 96 << 20);
    size_t offset = 0;
    if (!status)
        status = heap_alloc(gpu->allocator, 1 << 20, 64, &offset);
    CUdeviceptr at = gpu_heap_own(&gpu->heap)->base + offset;
    /* Static, since a copy whose wait fails may still be running when this function returns. */
    static uint64_t data[64], back[64];
    uint64_t fetched = 0;
    memset(back, 0, sizeof back);
    for (int i = 0; i < 64; i++)
        data[i] = (uint64_t)i * 3 + 1;
    if (!status)
        status = gpu_copy(gpu, 0, (void *)(uintptr_t)at, data, sizeof data, GPU_IN_ORDER);
    if (!status)
        status = gpu_copy(gpu, 0, back, (void *)(uintptr_t)at, sizeof back, GPU_DONE);
    if (!status && check)
        assert_memory_equal(data, back, sizeof data);
    if (!status)
        status = gpu_access(gpu, 0, at, WEFT_AMO_FETCH_ADD, 8, 5, 0, &fetched);
    if (!status && check)
        assert_int_equal(fetched, 1);
    if (!status)
        status = gpu_access(gpu, 1, at + 8, WEFT_AMO_CSWAP, 4, 9, 4, &fetched);
    if (!status && check)
        assert_int_equal(fetched, 4);
    if (!status)
        status = gpu_access(gpu, 1, at + 16, GPU_ACCESS_STORE, 2, 0x1234, 0, NULL);
    if (!status)
        status = gpu_signal(gpu, 0, at + 24, 77, WEFT_SIGNAL_SET);
    if (!status)
        status = gpu_signal(gpu, 0, at + 24, 3, WEFT_SIGNAL_ADD);
    if (!status)
        status = gpu_copy_strided(gpu, 0, (void *)(uintptr_t)(at + 4096), (void *)(uintptr_t)at, 16,
                                  8, 8, 4);
    if (!status)
        status = gpu_quiet(gpu);
    uint64_t seen = 0;
    bool met = false;
    if (!status)
        status = gpu_wait_slice(gpu, at + 24, 8, false, WEFT_EQ, 80, 1000000, &seen, &met);
    if (!status && check) {
        assert_true(met);
        assert_int_equal(seen, 80);
        assert_int_equal(word_at(gpu, at, 8), 6);
        assert_int_equal(word_at(gpu, at + 8, 4), 9);
        assert_int_equal(word_at(gpu, at + 4096, 8), 6);
        assert_int_equal(word_at(gpu, at + 4096 + 48, 8), 80);
        assert_int_equal(gpu_place_of(gpu, (void *)(uintptr_t)at), GPU_PLACE_DEVICE);
        assert_int_equal(gpu_place_of(gpu, data), GPU_PLACE_PLAIN);
    }
    if (!status) {
        weft_status waited =
            gpu_wait_slice(gpu, at + 24, 8, false, WEFT_EQ, 81, 1000000, &seen, &met);
        if (check)
            assert_false(met);
        status = waited;
    }
    return status;
}

static weft_status run_single(bool check)
{
    struct boot *boot;
    config_reset();
    weft_status status = boot_open(&boot, NULL, 0);
    assert_int_equal(status, WEFT_OK);
    struct gpu *gpu;
    status = gpu_open(&gpu, boot, NULL, 32, GPU_RELAY_NEVER);
    if (!status) {
        status = use_gpu(gpu, check);
        gpu_close(gpu);
    } else {
        assert_null(gpu);
    }
    char sentence[512];
    snprintf(sentence, sizeof sentence, "%s", weft_last_error());
    boot->ops->close(boot, true);
    if (status)
        assert_true(strlen(sentence) > 10);
    return status;
}

static void opens_and_works(void **state)
{
    (void)state;
    assert_int_equal(run_single(true), WEFT_OK);
    assert_nothing_left("a good run", 0);
}

static bool is_release(const char *name, weft_status status)
{
    static const char *const words[] = {"Release", "Unmap",      "Free",      "Destroy",
                                        "Unload",  "PopCurrent", "Unregister"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strstr(name, words[i]))
            return true;
    /* Without the context nothing can be released. This shows only if all else succeeded. */
    return status == WEFT_OK && strcmp(name, "CtxPushCurrent") == 0;
}

/* Errors that end a kernel are reported as errors of the kernel, not of the system. */
static void faults_of_kernels(void **state)
{
    (void)state;
    static const CUresult ended[] = {700, 702, 710, 714, 715, 716, 717, 718, 719};
    struct gpu_api driver;
    assert_int_equal(gpu_api_open(&driver), WEFT_OK);
    for (size_t i = 0; i < sizeof ended / sizeof *ended; i++)
        assert_int_equal(gpu_api_fail(&driver, ended[i], "cuStreamSynchronize"), WEFT_ERR_KERNEL);
    assert_int_equal(gpu_api_fail(&driver, CUDA_ERROR_OPERATING_SYSTEM, "any"), WEFT_ERR_SYSTEM);
    assert_int_equal(gpu_api_fail(&driver, CUDA_ERROR_OUT_OF_MEMORY, "any"), WEFT_ERR_NO_MEMORY);
    gpu_api_close(&driver);
}

/* A kernel of the program occupies the whole GPU and waits for the host; loads, stores, copies and
 * signals still work. */
static void beside_a_kernel_that_fills_the_gpu(void **state)
{
    (void)state;
    struct boot *boot;
    struct gpu *gpu;
    size_t offset;
    const char *order = getenv("FAKE_CUDA_ORDER");
    if (!order || strcmp(order, "immediate") == 0)
        skip(); /* the stand-in completes everything at once */
    config_reset();
    assert_int_equal(boot_open(&boot, NULL, 0), WEFT_OK);
    assert_int_equal(gpu_open(&gpu, boot, NULL, 32, GPU_RELAY_NEVER), WEFT_OK);
    assert_int_equal(gpu_heap_grow(&gpu->heap, 4 << 20), WEFT_OK);
    assert_int_equal(heap_alloc(gpu->allocator, 4096, 64, &offset), WEFT_OK);
    CUdeviceptr at = gpu_heap_own(&gpu->heap)->base + offset;
    uint64_t seen = 0, fetched = 0, out[3] = {7, 1ull << 63, 0xf00dull << 40}, in[3] = {0, 0, 0};
    bool met = true;
    assert_int_equal(gpu_fill(gpu, (void *)(uintptr_t)at, 0x11, 64), WEFT_OK);
    fill(1);
    /* The kernel of this wait stays queued from now on. */
    assert_int_equal(gpu_wait_slice(gpu, at, 8, false, WEFT_EQ, 5, 1000 * 1000, &seen, &met),
                     WEFT_OK);
    assert_false(met);
    assert_int_equal(seen, 0x1111111111111111);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(word_at(gpu, at + 8, 8), 0x1111111111111111);
        assert_int_equal(gpu_access(gpu, 0, at + 16, GPU_ACCESS_STORE, 8, ~0ull << 60, 0, NULL),
                         WEFT_OK);
        assert_int_equal(gpu_access(gpu, 0, at + 24, WEFT_AMO_SET, 4, 0x80000001u, 0, NULL),
                         WEFT_OK);
        assert_int_equal(gpu_access(gpu, 0, at + 28, GPU_ACCESS_STORE, 2, 0x8003, 0, NULL),
                         WEFT_OK);
        assert_int_equal(gpu_access(gpu, 0, at + 16, WEFT_AMO_FETCH, 8, 0, 0, &fetched), WEFT_OK);
        assert_int_equal(fetched, ~0ull << 60);
        assert_int_equal(word_at(gpu, at + 24, 8), 0x1111800380000001);
        assert_int_equal(word_at(gpu, at + 28, 2), 0x8003);
        assert_int_equal(word_at(gpu, at + 30, 1), 0x11);
        assert_int_equal(gpu_copy_plain(gpu, 0, (void *)(uintptr_t)(at + 32), out, sizeof out),
                         WEFT_OK);
        assert_int_equal(gpu_copy(gpu, 0, in, (void *)(uintptr_t)(at + 32), sizeof in, GPU_DONE),
                         WEFT_OK);
        assert_memory_equal(in, out, sizeof in);
        assert_int_equal(gpu_signal(gpu, 0, at + 64, 99, WEFT_SIGNAL_SET), WEFT_OK);
        assert_int_equal(gpu_quiet(gpu), WEFT_OK);
        assert_int_equal(
            gpu_wait_slice(gpu, at + 64, 8, false, WEFT_EQ, 99, 1000 * 1000, &seen, &met), WEFT_OK);
        assert_true(met);
    }
    /* An atomic needs a kernel on the GPU: it times out at the limit of waits. */
    gpu->wait_limit_ns = 20 * 1000 * 1000;
    assert_int_equal(gpu_access(gpu, 1, at, WEFT_AMO_FETCH_ADD, 8, 1, 0, &fetched),
                     WEFT_ERR_TIMEOUT);
    assert_non_null(strstr(weft_last_error(), "a kernel of the program may occupy the GPU"));
    fill(0);
    gpu->wait_limit_ns = 2000 * 1000 * 1000;
    assert_int_equal(gpu_quiet(gpu), WEFT_OK);
    assert_int_equal(word_at(gpu, at, 8), 0x1111111111111112);
    gpu_close(gpu);
    boot->ops->close(boot, true);
    assert_nothing_left("a full GPU", 0);
}

static void every_call_may_fail(void **state)
{
    (void)state;
    for (const char *const *name = gpu_api_function_names; *name; name++) {
        for (unsigned k = 1; k < 100; k++) {
            gpu_api_fault_plan(*name, k, CUDA_ERROR_UNKNOWN);
            weft_status status = run_single(false);
            unsigned uses = gpu_api_fault_uses();
            gpu_api_fault_plan(NULL, 0, 0);
            /* Objects that a failed release leaves are no fault of the library. */
            if (!is_release(*name, status))
                assert_nothing_left(*name, k);
            fake.reset();
            if (uses < k)
                break;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_and_works),
        cmocka_unit_test(faults_of_kernels),
        cmocka_unit_test(beside_a_kernel_that_fills_the_gpu),
        cmocka_unit_test(every_call_may_fail),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
