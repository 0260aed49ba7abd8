/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of programs through the driver, over the stand-ins of CUDA and of HIP: an image gets its
 * state in the context of each device, its kernels are found, launched and counted, and what the
 * driver refuses comes back as its code. The image's kernel is one that the stand-in has. */
#include "driver/gpu_api.h"
#include "gpu/image.h"
#include "gpu/program.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char ptx[] = "\n.version 6.4\n.visible .const .align 8 .b8 weft_dev_state[592];\n";
_Static_assert(sizeof(struct weft_dev) == 592, "the images here declare it");
static struct weft_image image = {"test.c", ptx, ptx + sizeof ptx, NULL};
static const struct weft_image_kernel copy = {&image, "weft_kernel_copy"};
static const struct weft_image_kernel absent = {&image, "weft_cuda_kernel_absent"};
static struct gpu_api driver;

static bool is_amd(void)
{
    return driver.vendor == GPU_VENDOR_AMD;
}

static CUcontext current(void)
{
    CUcontext context = NULL;
    assert_int_equal(driver.CtxGetCurrent(&context), 0);
    return context;
}

/* Device code of a job on another device than the first: threads without a context get that one. */
static void state_uploaded(void **state)
{
    struct weft_dev dev = {.me = 3, .n_pes = 7};
    struct weft_loaded *first;
    (void)state;
    assert_int_equal(program_devices(), 2);
    assert_null(current());
    assert_int_equal(program_upload(&image, &dev, sizeof dev, 1), 0);
    CUcontext second = current();
    first = image.loaded;
    assert_non_null(second);
    assert_int_equal(program_upload(&image, &dev, sizeof dev, -1), 0);
    assert_ptr_equal(image.loaded, first); /* loaded once for a context */
    assert_int_equal(program_upload(&image, &dev, sizeof dev, 0), 0);
    assert_ptr_not_equal(image.loaded, first);
    assert_ptr_not_equal(current(), second);
    assert_int_equal(program_upload(&image, &dev, sizeof dev, 1), 0);
    assert_ptr_equal(current(), second);
    assert_int_equal(program_upload(&image, &dev, sizeof dev - 8, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(program_upload(&image, &dev, sizeof dev, 64), CUDA_ERROR_INVALID_DEVICE);
    assert_non_null(strstr(program_error_text(CUDA_ERROR_INVALID_DEVICE),
                           is_amd() ? "InvalidDevice" : "INVALID_DEVICE"));
}

/* All kernels of an image are loaded with it: a later load would wait for kernels that run. */
static void kernels_loaded(void **state)
{
    static struct weft_image fresh = {"fresh.c", ptx, ptx + sizeof ptx, NULL};
    struct weft_dev dev = {.me = 3};
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    (void)state;
    if (is_amd())
        return; /* HIP loads them itself */
    assert_non_null(library);
    const int *loaded = dlsym(library, "fake_kernels_loaded");
    assert_non_null(loaded);
    int before = *loaded, all;
    assert_int_equal(program_upload(&fresh, &dev, sizeof dev, 0), 0);
    all = *loaded - before;
    assert_true(all > 10);
    assert_int_equal(program_upload(&fresh, &dev, sizeof dev, 0), 0);
    assert_int_equal(*loaded, before + all);
    assert_int_equal(program_upload(&fresh, &dev, sizeof dev, 1), 0);
    assert_int_equal(*loaded, before + 2 * all);
    dlclose(library);
}

/* A program's code objects are found by the name that HIP has for a GPU, and only those are loaded
 * there. */
static void code_of_an_amd_gpu(void **state)
{
    _Static_assert(sizeof(struct weft_dev) == 592, "the images here declare it");
    static struct weft_image image = {"test.c", ptx, ptx + sizeof ptx, NULL};
    static const struct weft_image other = {"other.c", ptx, ptx + sizeof ptx, NULL};
    static const char codes[3][4] = {"one", "two", "six"};
    const char *begin, *end;
    (void)state;
    assert_int_equal(program_find_amd(&image, "gfx90a", &begin, &end), WEFT_ERR_UNSUPPORTED);
    assert_string_equal(
        base_last_error(),
        "the kernels of test.c have no code for AMD GPUs; compile them with `weft cc "
        "--hip`, or WEFT_HIP_ARCHITECTURES in CMake");
    weft_image_add_code(&image, "gfx90a", codes[0], codes[0] + 4);
    weft_image_add_code(&other, "gfx942", codes[1], codes[1] + 4);
    weft_image_add_code(&image, "gfx942", codes[2], codes[2] + 4);
    assert_int_equal(program_find_amd(&image, "gfx942:sramecc+:xnack-", &begin, &end), WEFT_OK);
    assert_ptr_equal(begin, codes[2]);
    assert_ptr_equal(end, codes[2] + 4);
    assert_int_equal(program_find_amd(&image, "gfx90a", &begin, &end), WEFT_OK);
    assert_ptr_equal(begin, codes[0]);
    assert_int_equal(program_find_amd(&other, "gfx90a", &begin, &end), WEFT_ERR_UNSUPPORTED);
    assert_int_equal(program_find_amd(&image, "gfx90", &begin, &end), WEFT_ERR_UNSUPPORTED);
    assert_int_equal(program_find_amd(&image, "gfx90ab", &begin, &end), WEFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(base_last_error(),
                           "the kernels of test.c have code for AMD GPUs gfx942, gfx90a, not for "
                           "gfx90ab; `weft cc --hip`"));
    static struct weft_image third = {"third.c", ptx, ptx + sizeof ptx, NULL};
    struct weft_dev dev = {.me = 3};
    assert_int_equal(program_upload(&third, &dev, sizeof dev, 0),
                     is_amd() ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_SUCCESS);
}

/* The cubin of the latest minor version that the GPU runs; code of other GPUs does not count. */
static void cubin_of_a_gpu(void **state)
{
    static struct weft_image with = {"with.c", ptx, ptx + sizeof ptx, NULL};
    static const char codes[5][4] = {"7.0", "8.0", "8.6", "9.0", "10."};
    static const struct {
        int capability, wanted;
    } rows[] = {{70, 0}, {75, 0},  {80, 1},  {83, 1},  {86, 2},   {89, 2},
                {90, 3}, {100, 4}, {103, 4}, {60, -1}, {110, -1}, {120, -1}};
    const char *begin = NULL, *end = NULL;
    (void)state;
    assert_false(program_find_cubin(&with, 90, &begin, &end));
    weft_image_add_code(&with, "gfx942", codes[0], codes[0] + 4);
    bool amd = program_has_amd();
    for (int i = 0; i < 5; i++) /* in an order of its own */
        weft_image_add_code(
            &with, ((const char *[]){"sm_70", "sm_80", "sm_86", "sm_90", "sm_100"})[i * 3 % 5],
            codes[i * 3 % 5], codes[i * 3 % 5] + 3);
    assert_int_equal(program_has_amd(), amd);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool found = program_find_cubin(&with, rows[i].capability, &begin, &end);
        assert_int_equal(found, rows[i].wanted >= 0);
        if (found) {
            assert_ptr_equal(begin, codes[rows[i].wanted]);
            assert_ptr_equal(end, codes[rows[i].wanted] + 3);
        }
    }
    assert_false(program_find_cubin(&image, 90, &begin, &end));
    assert_int_equal(program_find_amd(&with, "gfx90a", &begin, &end), WEFT_ERR_UNSUPPORTED);
    assert_null(strstr(base_last_error(), "sm_"));
}

/* The library's own kernels, where the build made them. */
static void code_of_the_library(void **state)
{
    char have[80], *unpacked;
    (void)state;
    const struct gpu_code *code = gpu_image_find_amd(&gpu_kernels_image, "gfx90a:sramecc+:xnack-");
    gpu_image_list_amd(&gpu_kernels_image, have, sizeof have);
    assert_string_equal(have, code ? "gfx90a, gfx942" : "");
    assert_null(gpu_image_find_amd(&gpu_kernels_image, "gfx1100"));
    if (!code)
        return;
    assert_memory_equal(gpu_unpack(code->begin, code->end, &unpacked), "\177ELF", 4);
    free(unpacked);
    const struct gpu_code *coll = gpu_image_find_amd(&gpu_coll_kernels_image, "gfx90a");
    assert_non_null(coll);
    assert_ptr_not_equal(coll->begin, code->begin);
}

static int called;

static void note_call(void *arg)
{
    called += *(int *)arg;
}

static void launched(void **state)
{
    CUdeviceptr to, from;
    static char words[96] =
        "ninety-six bytes, of which ninety-one are copied by the kernel of the program";
    char seen[96] = "";
    uint64_t bytes = 91, *signal = NULL, value = 0, number = 0, ns = 0;
    int op = -1, by = 5, idle = 0;
    void *answer = NULL;
    weft_stream stream;
    weft_event begun, ended;
    (void)state;
    assert_int_equal(program_stream_create(&stream), 0);
    assert_int_equal(program_event_create(&begun), 0);
    assert_int_equal(program_event_create(&ended), 0);
    assert_int_equal(driver.MemAlloc(&to, sizeof words), 0);
    assert_int_equal(driver.MemAlloc(&from, sizeof words), 0);
    assert_int_equal(driver.MemcpyHtoD(from, words, sizeof words), 0);
    void *params[] = {&to, &from, &bytes, &signal, &value, &op, &answer, &number};
    const unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
    assert_int_equal(program_event_record(begun, stream), 0);
    assert_int_equal(program_launch(&copy, grid, block, 0, 0, stream, params), 0);
    assert_int_equal(program_event_record(ended, stream), 0);
    assert_int_equal(program_event_wait(NULL, ended), 0);
    assert_int_equal(program_stream_host_call(stream, note_call, &by), 0);
    assert_int_equal(program_event_synchronize(ended), 0);
    assert_int_equal(program_event_elapsed(begun, ended, &ns), 0);
    assert_int_equal(program_stream_synchronize(stream), 0);
    assert_int_equal(program_stream_query(stream, &idle), 0);
    assert_true(idle);
    assert_int_equal(called, 5);
    assert_int_equal(driver.MemcpyDtoH(seen, to, sizeof seen), 0);
    assert_memory_equal(seen, words, 91);
    /* More dynamic shared memory is asked for first, and refused where there is none. */
    size_t much = is_amd() ? 60 * 1024 : 200 * 1024;
    assert_int_equal(program_launch(&copy, grid, block, much, 0, stream, params), 0);
    assert_int_equal(program_launch(&copy, grid, block, 300 * 1024, 0, stream, params),
                     CUDA_ERROR_INVALID_VALUE);
    const unsigned large[3] = {100000, 1, 1};
    assert_int_equal(
        program_launch(&copy, grid, block, 0, WEFT_LAUNCH_FLAG_COOPERATIVE, stream, params), 0);
    assert_int_not_equal(
        program_launch(&copy, large, block, 0, WEFT_LAUNCH_FLAG_COOPERATIVE, stream, params), 0);
    assert_int_equal(program_launch(&absent, grid, block, 0, 0, stream, params),
                     CUDA_ERROR_NOT_FOUND);
    assert_int_equal(program_stream_synchronize(stream), 0);
    assert_int_equal(program_event_destroy(begun), 0);
    assert_int_equal(program_event_destroy(ended), 0);
    assert_int_equal(program_stream_destroy(stream), 0);
    driver.MemFree(to);
    driver.MemFree(from);
}

static void blocks_counted(void **state)
{
    unsigned blocks = 0;
    int processors = 0;
    (void)state;
    driver.DeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0);
    assert_true(processors > 0);
    assert_int_equal(program_resident_blocks(&copy, 512, 0, &blocks), 0);
    assert_int_equal(blocks, 4 * processors); /* 2048 threads on each */
    assert_int_equal(program_resident_blocks(&copy, 2000, 0, &blocks), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(program_resident_blocks(&absent, 32, 0, &blocks), CUDA_ERROR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(state_uploaded),     cmocka_unit_test(kernels_loaded),
        cmocka_unit_test(launched),           cmocka_unit_test(blocks_counted),
        cmocka_unit_test(code_of_an_amd_gpu), cmocka_unit_test(cubin_of_a_gpu),
        cmocka_unit_test(code_of_the_library)};
    /* what the stand-in takes for a module with the state */
    static const char code[] = "global weft_dev_state 592";
    if (gpu_api_open(&driver))
        return 1;
    if (is_amd()) {
        assert_int_equal(program_devices(), 0); /* it has no code for them yet */
        weft_image_add_code(&image, "gfx942", code, code + sizeof code);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
