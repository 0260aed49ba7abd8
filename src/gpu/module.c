/* SPDX-License-Identifier: Apache-2.0 */
/* Loads and launches the library's kernels. See module.h. */
#include "gpu/module.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"

static const char *const kernel_names[GPU_KERNEL_COUNT] = {
#define GPU_KERNEL_NAME(name) #name,
    GPU_KERNELS(GPU_KERNEL_NAME)
#undef GPU_KERNEL_NAME
};

/* Compiles with as many threads as the machine has CPUs: 2.6 s for the kernels of collectives where
 * one thread took 11.9 s (H100, 16 CPUs). Drivers that do not know the option return
 * CUDA_ERROR_INVALID_VALUE. */
CUresult gpu_compile_ptx(const struct gpu_api *driver, const char *ptx, CUmodule *module)
{
    int options[] = {CU_JIT_SPLIT_COMPILE};
    void *values[] = {0};
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (driver->ModuleLoadDataEx)
        result = driver->ModuleLoadDataEx(module, ptx, 1, options, values);
    return result == CUDA_ERROR_INVALID_VALUE ? driver->ModuleLoadData(module, ptx) : result;
}

/* A cubin runs on later minor versions of its compute capability, PTX on all later ones. */
static bool runs_on(const struct gpu_code *code, const struct gpu_device *device)
{
    int arch = 10 * device->major + device->minor;
    return !code->amd && code->arch <= arch && (code->ptx || code->arch / 10 == device->major);
}

static CUresult compile_and_tell(const struct gpu_device *device, const char *ptx, CUmodule *module)
{
    uint64_t begun = clock_now_ns();
    CUresult result = gpu_compile_ptx(device->driver, ptx, module);
    double took = (double)(clock_now_ns() - begun) * 1e-9;
    if (took > 1)
        log_info(LOG_GPU,
                 "GPU %d: the driver compiled kernels for %.1f s and caches them for this user; a "
                 "build with ptxas avoids this",
                 device->ordinal, took);
    return result;
}

static CUresult load_code(const struct gpu_code *code, const struct gpu_device *device,
                          CUmodule *module)
{
    char *unpacked;
    const char *image = gpu_unpack(code->begin, code->end, &unpacked);
    if (!image)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (code->ptx && device->major < 9) {
        if (!unpacked)
            unpacked = strndup(code->begin, (size_t)(code->end - code->begin));
        if (!unpacked)
            return CUDA_ERROR_OUT_OF_MEMORY;
        gpu_ptx_lower(unpacked);
        image = unpacked;
    }
    CUresult result = code->ptx ? compile_and_tell(device, image, module)
                                : device->driver->ModuleLoadData(module, image);
    free(unpacked);
    return result;
}

/* A build without kernels loads an empty text: a driver refuses it, the stand-in, which has kernels
 * of its own, does not. */
static weft_status load_nothing(const struct gpu_device *device, CUmodule *module)
{
    if (!device->driver->ModuleLoadData(module, ""))
        return WEFT_OK;
    return base_fail(WEFT_ERR_UNSUPPORTED,
                     "this libweft has no GPU kernels: it was built without a compiler for them; "
                     "build it with clang 18 or newer, or with nvcc");
}

static weft_status load_amd(const struct gpu_image *image, const struct gpu_device *device,
                            CUmodule *module, const struct gpu_code **found)
{
    char have[80];
    const struct gpu_code *code = *found = gpu_image_find_amd(image, device->architecture);
    if (code) {
        CUresult result = load_code(code, device, module);
        return result ? gpu_api_fail(device->driver, result,
                                     "cuModuleLoadData of Weft's kernels for %s", code->amd)
                      : WEFT_OK;
    }
    /* As in load_nothing(). */
    if (!device->driver->ModuleLoadData(module, ""))
        return WEFT_OK;
    gpu_image_list_amd(image, have, sizeof have);
    return base_fail(WEFT_ERR_UNSUPPORTED,
                     "GPU %d (%s) is a %.*s, for which this libweft has no kernels (it has %s); "
                     "clang and lld 18 or newer make those for gfx90a and gfx942, and no others",
                     device->ordinal, device->name, (int)strcspn(device->architecture, ":"),
                     device->architecture, *have ? have : "none for GPUs of AMD");
}

static weft_status load_image(const struct gpu_image *image, const struct gpu_device *device,
                              CUmodule *module, const struct gpu_code **found)
{
    CUresult result = CUDA_SUCCESS;
    char error[160];
    *found = NULL;
    for (const struct gpu_code *code = image->codes; code->begin; code++) {
        if (code->image != image->image || !runs_on(code, device))
            continue;
        if (*found)
            log_debug(LOG_GPU, "cuModuleLoadData of the %s: %s; trying the next code",
                      gpu_code_kind(*found),
                      gpu_api_error_text(device->driver, result, error, sizeof error));
        *found = code;
        result = load_code(code, device, module);
        if (!result)
            return WEFT_OK;
    }
    *module = NULL;
    if (!*found)
        return load_nothing(device, module);
    return gpu_api_fail(device->driver, result,
                        "cuModuleLoadData of Weft's kernels (%s) for compute capability %d.%d",
                        gpu_code_kind(*found), device->major, device->minor);
}

void gpu_load_kernels(const struct gpu_api *driver, CUmodule module)
{
    unsigned count = 0;
    if (!driver->FuncLoad || !driver->ModuleGetFunctionCount || !driver->ModuleEnumerateFunctions ||
        driver->ModuleGetFunctionCount(&count, module))
        return;
    CUfunction *functions = calloc(count, sizeof *functions);
    if (functions && !driver->ModuleEnumerateFunctions(functions, count, module))
        for (unsigned i = 0; i < count; i++)
            driver->FuncLoad(functions[i]);
    free(functions);
}

static weft_status find_functions(const struct gpu_device *device, CUmodule module,
                                  const char *const *wanted, int count, CUfunction *functions)
{
    for (int i = 0; i < count; i++) {
        CUresult result = device->driver->ModuleGetFunction(&functions[i], module, wanted[i]);
        if (result)
            return gpu_api_fail(device->driver, result, "cuModuleGetFunction(%s)", wanted[i]);
        if (device->driver->FuncLoad)
            device->driver->FuncLoad(functions[i]); /* see module.h */
    }
    return WEFT_OK;
}

weft_status gpu_image_load(const struct gpu_image *image, const struct gpu_device *device,
                           const char *const *wanted, int count, CUmodule *module,
                           CUfunction *functions, const struct gpu_code **found)
{
    *module = NULL;
    bool amd = device->driver->vendor == GPU_VENDOR_AMD;
    if (!amd && device->major < 7)
        return base_fail(WEFT_ERR_UNSUPPORTED,
                         "GPU %d (%s) has compute capability %d.%d; Weft's kernels need 7.0 "
                         "(Volta) or newer",
                         device->ordinal, device->name, device->major, device->minor);
    weft_status status =
        amd ? load_amd(image, device, module, found) : load_image(image, device, module, found);
    if (!status)
        status = find_functions(device, *module, wanted, count, functions);
    if (status && *module)
        device->driver->ModuleUnload(*module);
    return status;
}

/* ---------------------------------------------------------------------- shared by several jobs */

struct shared_module {
    struct shared_module *next;
    const struct gpu_image *image;
    const struct gpu_code *code;
    CUcontext context;
    CUmodule module;
    int users;
};

static struct shared_module *shared_modules;
static pthread_mutex_t shared_modules_lock = PTHREAD_MUTEX_INITIALIZER;

static weft_status load_shared(const struct gpu_image *image, const struct gpu_device *device,
                               const char *const *wanted, int count, struct shared_module **made,
                               CUfunction *functions)
{
    struct shared_module *shared = calloc(1, sizeof *shared);
    if (!shared)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a list of modules");
    weft_status status =
        gpu_image_load(image, device, wanted, count, &shared->module, functions, &shared->code);
    if (status) {
        free(shared);
        return status;
    }
    shared->image = image;
    shared->context = device->context;
    shared->next = shared_modules;
    *made = shared_modules = shared;
    return WEFT_OK;
}

weft_status gpu_image_share(const struct gpu_image *image, const struct gpu_device *device,
                            const char *const *wanted, int count, CUmodule *module,
                            CUfunction *functions, const struct gpu_code **found)
{
    *module = NULL;
    pthread_mutex_lock(&shared_modules_lock);
    struct shared_module *shared = shared_modules;
    while (shared && (shared->image != image || shared->context != device->context))
        shared = shared->next;
    weft_status status = shared ? find_functions(device, shared->module, wanted, count, functions)
                                : load_shared(image, device, wanted, count, &shared, functions);
    if (!status) {
        shared->users++;
        *module = shared->module;
        *found = shared->code;
    }
    pthread_mutex_unlock(&shared_modules_lock);
    return status;
}

void gpu_image_leave(const struct gpu_device *device, CUmodule module)
{
    pthread_mutex_lock(&shared_modules_lock);
    struct shared_module **at = &shared_modules, *shared;
    while ((*at)->module != module || (*at)->context != device->context)
        at = &(*at)->next;
    shared = *at;
    if (--shared->users == 0) {
        *at = shared->next;
        device->driver->ModuleUnload(module);
        free(shared);
    }
    pthread_mutex_unlock(&shared_modules_lock);
}

weft_status gpu_module_load(struct gpu_module *module, const struct gpu_device *device)
{
    *module = (struct gpu_module){.device = device};
    const struct gpu_code *code;
    weft_status status = gpu_image_share(&gpu_kernels_image, device, kernel_names, GPU_KERNEL_COUNT,
                                         &module->module, module->functions, &code);
    if (status)
        *module = (struct gpu_module){0};
    else
        module->image = gpu_code_kind(code);
    return status;
}

void gpu_module_unload(struct gpu_module *module)
{
    if (module->module)
        gpu_image_leave(module->device, module->module);
    *module = (struct gpu_module){0};
}

CUresult gpu_launch_function(const struct gpu_api *driver, CUfunction function, unsigned blocks,
                             unsigned threads, CUstream stream, void **arguments, bool early)
{
    CUlaunchAttribute attribute = {
        .id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
        .programmatic_stream_serialization = 1,
    };
    CUlaunchConfig config = {
        .grid = {blocks, 1, 1},
        .block = {threads, 1, 1},
        .stream = stream,
        .attributes = &attribute,
        .attribute_count = 1,
    };
    return early ? driver->LaunchKernelEx(&config, function, arguments, NULL)
                 : driver->LaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, arguments,
                                        NULL);
}

weft_status gpu_launch(const struct gpu_module *module, enum gpu_kernel kernel, unsigned blocks,
                       unsigned threads, CUstream stream, void **arguments)
{
    const struct gpu_api *driver = module->device->driver;
    CUresult result = gpu_launch_function(driver, module->functions[kernel], blocks, threads,
                                          stream, arguments, false);
    return result ? gpu_api_fail(driver, result, "cuLaunchKernel of %s on GPU %d",
                                 kernel_names[kernel], module->device->ordinal)
                  : WEFT_OK;
}
