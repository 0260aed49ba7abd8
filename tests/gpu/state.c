/* SPDX-License-Identifier: Apache-2.0 */
/* A program without device code of its own gives the state to kernels: to a module of the driver by
 * weft_module_init(), as an argument by weft_device_state(). WEFT_TARGET is cuda. */
#include "gpu_test.h"

#include "driver/gpu_api.h"

#include <string.h>
#include <weft/device/control.h>
#include <weft/gpu.h>

static struct gpu_api driver;

static void expect_error(weft_status seen, weft_status wanted, const char *part)
{
    if (seen != wanted || !strstr(weft_last_error(), part)) {
        fprintf(stderr, "%s, \"%s\"; expected %s, \"...%s...\"\n", weft_status_name(seen),
                weft_last_error(), weft_status_name(wanted), part);
        exit(1);
    }
}

static void expect_state(const weft_job *job, CUdeviceptr at, const struct weft_dev *other)
{
    struct weft_dev seen;
    CHECK(driver.MemcpyDtoH(&seen, at, sizeof seen) == CUDA_SUCCESS);
    CHECK(seen.version == WEFT_DEV_VERSION && seen.bytes == sizeof seen);
    CHECK(seen.me == weft_my_pe(job) && seen.n_pes == weft_n_pes(job));
    CHECK(seen.segment[WEFT_DEV_HEAP].size > 0 && seen.peers && seen.teams && seen.box);
    if (other)
        CHECK(memcmp(&seen, other, sizeof seen) == 0);
}

/* The image is one that the stand-in takes as a module with this variable. */
static void load_module(size_t bytes, CUmodule *module)
{
    char image[64];
    snprintf(image, sizeof image, "global weft_dev_state %zu", bytes);
    CHECK(driver.ModuleLoadData(module, image) == CUDA_SUCCESS);
}

int main(void)
{
    weft_job *job;
    const struct weft_dev *state = NULL, *again = NULL;
    struct weft_dev copy;
    CUmodule module, larger;
    CUdeviceptr symbol;
    size_t bytes;
    OK(weft_init(&job, NULL));
    gpu_alloc(job, 64, 0);
    CHECK(gpu_api_open(&driver) == WEFT_OK);
    OK(weft_device_state(job, WEFT_DEV_VERSION, &state)); /* without weft_device_start() */
    expect_state(job, (CUdeviceptr)(uintptr_t)state, NULL);
    OK(weft_device_start(job));
    expect_error(weft_device_state(job, WEFT_DEV_VERSION + 1, &state), WEFT_ERR_ARGUMENT,
                 "compile them with the headers of this library");
    expect_error(weft_device_state(job, WEFT_DEV_VERSION, NULL), WEFT_ERR_ARGUMENT, "null");
    expect_error(weft_device_state(NULL, WEFT_DEV_VERSION, &state), WEFT_ERR_ARGUMENT, "null");
    OK(weft_device_state(job, WEFT_DEV_VERSION, &state));
    OK(weft_device_state(job, WEFT_DEV_VERSION, &again));
    CHECK(state == again);
    expect_state(job, (CUdeviceptr)(uintptr_t)state, NULL);

    weft_gpu_info gpu = {.size = sizeof gpu};
    CUcontext context;
    OK(weft_gpu_query(job, &gpu));
    CHECK(driver.DevicePrimaryCtxRetain(&context, gpu.ordinal) == CUDA_SUCCESS &&
          driver.CtxPushCurrent(context) == CUDA_SUCCESS);
    load_module(sizeof copy, &module);
    OK(weft_module_init(job, module));
    CHECK(driver.ModuleGetGlobal(&symbol, &bytes, module, "weft_dev_state") == CUDA_SUCCESS);
    CHECK(driver.MemcpyDtoH(&copy, (CUdeviceptr)(uintptr_t)state, sizeof copy) == CUDA_SUCCESS);
    expect_state(job, symbol, &copy);
    load_module(sizeof copy + 8, &larger);
    expect_error(weft_module_init(job, larger), WEFT_ERR_ARGUMENT, "another weft_device.h");
    CHECK(driver.ModuleUnload(module) == CUDA_SUCCESS &&
          driver.ModuleUnload(larger) == CUDA_SUCCESS);

    OK(weft_finalize(job));
    expect_error(weft_device_state(job, WEFT_DEV_VERSION, &state), WEFT_ERR_FINALIZED, "");
    return 0;
}
