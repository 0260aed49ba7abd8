/* SPDX-License-Identifier: Apache-2.0 */
/* Fills the table of a GPU driver from the CUDA driver. See gpu_api.h. */
#include "driver/cuda.h"

#include "base/status.h"
#include "driver/driver.h"

#include <dlfcn.h>
#include <string.h>

#define NAMES(...)                                                                                 \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static const struct driver_symbol cuda_symbols[] = {
#define SYMBOL(field, names, optional, parameters, arguments)                                      \
    {NAMES names, offsetof(struct gpu_api, field), optional},
    GPU_FUNCTIONS(SYMBOL)
#undef SYMBOL
        {{"cuGetErrorName"}, offsetof(struct gpu_api, GetErrorName), false},
    {{"cuGetErrorString"}, offsetof(struct gpu_api, GetErrorString), false},
};

static const char *const cuda_files[] = {"libcuda.so.1", "libcuda.so", NULL};

static const struct driver_library cuda_library = {
    .what = "the CUDA driver",
    .remedy = "install the NVIDIA driver (its user-space part has libcuda.so.1)",
    .names = cuda_files,
    .symbols = cuda_symbols,
    .symbol_count = sizeof cuda_symbols / sizeof cuda_symbols[0],
};

static weft_status init_failed(const struct gpu_api *driver, CUresult result)
{
    char error[256];
    gpu_api_error_text(driver, result, error, sizeof error);
    if (result == CUDA_ERROR_NO_DEVICE)
        return base_fail(WEFT_ERR_UNSUPPORTED,
                         "cuInit: %s: the driver sees no GPU; CUDA_VISIBLE_DEVICES may hide it, or "
                         "this container has none",
                         error);
    if (result == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)
        return base_fail(WEFT_ERR_UNSUPPORTED,
                         "cuInit: %s: libcuda.so.1 and the kernel module have different versions; "
                         "reboot, or load the matching module",
                         error);
    return base_fail(WEFT_ERR_UNSUPPORTED, "cuInit: %s; `weft doctor` shows more", error);
}

/* The oldest driver with all required functions: CUDA 11.2 (driver 460). */
enum { CUDA_OLDEST_VERSION = 11020 };

weft_status cuda_open(struct gpu_api *driver)
{
    void *handle;
    weft_status status = driver_load(&cuda_library, driver, sizeof *driver, &handle);
    if (status)
        return status;
    driver->handle = handle;
    gpu_api_install_faults(driver);
    CUresult result = driver->DriverGetVersion(&driver->driver_version);
    if (result) {
        status = gpu_api_fail(driver, result, "cuDriverGetVersion");
    } else if (driver->driver_version < CUDA_OLDEST_VERSION) {
        status = base_fail(WEFT_ERR_UNSUPPORTED,
                           "the CUDA driver is too old: it supports CUDA %d.%d, Weft needs %d.%d "
                           "(driver 460 or newer)",
                           driver->driver_version / 1000, driver->driver_version % 1000 / 10,
                           CUDA_OLDEST_VERSION / 1000, CUDA_OLDEST_VERSION % 1000 / 10);
    } else if ((result = driver->Init(0)) != CUDA_SUCCESS) {
        status = init_failed(driver, result);
    }
    if (status)
        gpu_api_close(driver);
    return status;
}

CUcontext cuda_current_if_loaded(void)
{
    CUcontext context = NULL;
    void *handle = dlopen(cuda_files[0], RTLD_NOW | RTLD_NOLOAD);
    if (!handle)
        return NULL;
    CUresult (*get_current)(CUcontext *);
    void *address = dlsym(handle, "cuCtxGetCurrent");
    memcpy(&get_current, &address, sizeof get_current);
    /* Fails with NOT_INITIALIZED when the library is loaded but not initialized. */
    if (get_current && get_current(&context) != CUDA_SUCCESS)
        context = NULL;
    dlclose(handle);
    return context;
}
