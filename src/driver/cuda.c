/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the CUDA driver, makes its error messages, and injects faults. See gpu_api.h. */
#include "driver/gpu_api.h"

#include "base/status.h"
#include "driver/driver.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
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

const char *gpu_api_error_text(const struct gpu_api *driver, CUresult result, char *text,
                               size_t bytes)
{
    const char *name = NULL, *meaning = NULL;
    if (!driver->GetErrorName || driver->GetErrorName(result, &name) || !name)
        name = "unknown CUresult";
    if (!driver->GetErrorString || driver->GetErrorString(result, &meaning) || !meaning)
        meaning = "no text";
    snprintf(text, bytes, "%s (%d, %s)", name, result, meaning);
    return text;
}

static weft_status status_of(CUresult result)
{
    switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
        return WEFT_ERR_NO_MEMORY;
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
        return WEFT_ERR_UNSUPPORTED;
    case CUDA_ERROR_ILLEGAL_ADDRESS: /* a kernel failed, and its context is unusable */
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
        return WEFT_ERR_KERNEL;
    default:
        return WEFT_ERR_SYSTEM;
    }
}

weft_status gpu_api_fail(const struct gpu_api *driver, CUresult result, const char *format, ...)
{
    char what[512], error[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return base_fail(status_of(result), "%s: %s", what,
                     gpu_api_error_text(driver, result, error, sizeof error));
}

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

static void fault_install(struct gpu_api *driver);

weft_status gpu_api_open(struct gpu_api *driver)
{
    void *handle;
    weft_status status = driver_load(&cuda_library, driver, sizeof *driver, &handle);
    if (status)
        return status;
    driver->handle = handle;
    fault_install(driver);
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

void gpu_api_close(struct gpu_api *driver)
{
    driver_unload(driver->handle);
    memset(driver, 0, sizeof *driver);
}

CUcontext gpu_api_current_if_loaded(void)
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

/* -------------------------------------------------------------------------- tests of faults */

/* The fault plan of the process. It is global because the functions of the table have no argument
 * through which a wrapper could find it. */
static struct {
    struct gpu_api original; /* the driver's own functions */
    const char *field;       /* NULL: no plan */
    unsigned uses, k;
    CUresult result;
} fault;

static bool fault_strikes(void)
{
    unsigned use = __atomic_add_fetch(&fault.uses, 1, __ATOMIC_RELAXED);
    return use == fault.k;
}

#define WRAPPER(field, names, optional, parameters, arguments)                                     \
    static CUresult faulty_##field parameters                                                      \
    {                                                                                              \
        return fault_strikes() ? fault.result : fault.original.field arguments;                    \
    }
GPU_FUNCTIONS(WRAPPER)
#undef WRAPPER

const char *const gpu_api_function_names[] = {
#define NAME(field, names, optional, parameters, arguments) #field,
    GPU_FUNCTIONS(NAME)
#undef NAME
        NULL,
};

bool gpu_api_fault_plan(const char *field, unsigned k, CUresult result)
{
    fault.field = NULL;
    fault.k = k;
    fault.result = result;
    __atomic_store_n(&fault.uses, 0, __ATOMIC_RELAXED);
    for (const char *const *name = gpu_api_function_names; field && *name; name++)
        if (strcmp(*name, field) == 0)
            fault.field = *name;
    return fault.field != NULL;
}

unsigned gpu_api_fault_uses(void)
{
    return __atomic_load_n(&fault.uses, __ATOMIC_RELAXED);
}

/* PEs that are threads open several tables of the same library, whose original functions are equal.
 */
static void fault_install(struct gpu_api *driver)
{
    if (!fault.field)
        return;
    fault.original = *driver;
#define INSTALL(name, names, optional, parameters, arguments)                                      \
    if (strcmp(fault.field, #name) == 0 && driver->name)                                           \
        driver->name = faulty_##name;
    GPU_FUNCTIONS(INSTALL)
#undef INSTALL
}
