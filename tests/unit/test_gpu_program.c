/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of programs through the driver, over the stand-in of CUDA: an image gets its state in the
 * context of each device, its kernels are found, launched and counted, and what the driver refuses
 * comes back as its code. The image's kernel is one that the stand-in has. */
#include "driver/gpu_api.h"
#include "gpu/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char ptx[] = "\n.version 6.4\n.visible .const .align 8 .b8 weft_dev_state[384];\n";
static struct weft_image image = {"test.c", ptx, ptx + sizeof ptx, NULL};
static const struct weft_image_kernel copy = {&image, "weft_kernel_copy"};
static const struct weft_image_kernel absent = {&image, "weft_cuda_kernel_absent"};
static struct gpu_api driver;

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
    assert_non_null(strstr(program_error_text(CUDA_ERROR_INVALID_DEVICE), "INVALID_DEVICE"));
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
    assert_int_equal(program_launch(&copy, grid, block, 200 * 1024, 0, stream, params), 0);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(state_uploaded), cmocka_unit_test(launched),
                                       cmocka_unit_test(blocks_counted)};
    return gpu_api_open(&driver) ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
