/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the library of a GPU driver, makes its error messages, and injects faults. See gpu_api.h.
 */
#include "driver/gpu_api.h"

#include "base/log.h"
#include "base/status.h"
#include "driver/cuda.h"
#include "driver/driver.h"
#include "driver/hip.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------ the library */

/* Of the process and not of a job: kernels of the program have a table of their own (program.c). */
static _Atomic(enum gpu_vendor) preferred = GPU_VENDOR_NVIDIA;

void gpu_api_prefer(enum gpu_vendor vendor)
{
    preferred = vendor;
}

weft_status gpu_api_open_vendor(struct gpu_api *driver, enum gpu_vendor vendor)
{
    return vendor == GPU_VENDOR_AMD ? hip_open(driver) : cuda_open(driver);
}

/* Whether AMD's library is the one whose failure matters. */
static bool is_amd_machine(void)
{
    return preferred == GPU_VENDOR_AMD || access("/dev/kfd", F_OK) == 0;
}

weft_status gpu_api_open(struct gpu_api *driver)
{
    char first[512], *message = base_thread_text(BASE_TEXT_ERROR), before[BASE_TEXT_BYTES];
    enum gpu_vendor vendor = preferred;
    memcpy(before, message, sizeof before);
    weft_status status = gpu_api_open_vendor(driver, vendor);
    if (!status)
        return WEFT_OK;
    snprintf(first, sizeof first, "%s", base_last_error());
    vendor = vendor == GPU_VENDOR_AMD ? GPU_VENDOR_NVIDIA : GPU_VENDOR_AMD;
    weft_status second = gpu_api_open_vendor(driver, vendor);
    if (!second) {
        log_debug(LOG_GPU, "not used: %s", first);
        memcpy(message, before, sizeof before);
        return WEFT_OK;
    }
    return is_amd_machine() == (vendor == GPU_VENDOR_AMD) ? second : base_fail(status, "%s", first);
}

void gpu_api_close(struct gpu_api *driver)
{
    driver_unload(driver->handle);
    memset(driver, 0, sizeof *driver);
}

CUcontext gpu_api_current_if_loaded(void)
{
    return cuda_current_if_loaded();
}

CUcontext gpu_api_chosen_if_loaded(void)
{
    CUcontext context = hip_current_if_loaded();
    if (context)
        gpu_api_prefer(GPU_VENDOR_AMD);
    return context;
}

/* ------------------------------------------------------------------------------ messages */

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

void gpu_api_translate(const struct gpu_api *driver, char *text, size_t bytes)
{
    if (driver->vendor == GPU_VENDOR_AMD)
        hip_translate(text, bytes);
}

weft_status gpu_api_fail(const struct gpu_api *driver, CUresult result, const char *format, ...)
{
    char what[512], error[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    gpu_api_translate(driver, what, sizeof what);
    return base_fail(status_of(result), "%s: %s", what,
                     gpu_api_error_text(driver, result, error, sizeof error));
}

weft_status gpu_api_refuse(const struct gpu_api *driver, weft_status status, const char *format,
                           ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    gpu_api_translate(driver, text, sizeof text);
    return base_fail(status, "%s", text);
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
void gpu_api_install_faults(struct gpu_api *driver)
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
