/* SPDX-License-Identifier: Apache-2.0 */
/* Loads and launches the library's kernels. See module.h. */
#include "gpu/module.h"

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
static CUresult compile_ptx(const struct cuda *cuda, const char *ptx, CUmodule *module)
{
    int options[] = {CU_JIT_SPLIT_COMPILE};
    void *values[] = {0};
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (cuda->ModuleLoadDataEx)
        result = cuda->ModuleLoadDataEx(module, ptx, 1, options, values);
    return result == CUDA_ERROR_INVALID_VALUE ? cuda->ModuleLoadData(module, ptx) : result;
}

static weft_status load_image(const struct gpu_image *image, const struct gpu_device *device,
                              CUmodule *module, const char **kind)
{
    const struct cuda *cuda = device->cuda;
    CUresult result = CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (image->fatbin) {
        *kind = "fat binary";
        result = cuda->ModuleLoadData(module, image->fatbin);
        if (!result)
            return WEFT_OK;
        char error[160];
        log_debug(LOG_GPU, "cuModuleLoadData of the fat binary: %s; trying the PTX text",
                  cuda_error_text(cuda, result, error, sizeof error));
    }
    *kind = "PTX text";
    uint64_t begun = clock_now_ns();
    result = compile_ptx(cuda, image->ptx, module);
    double took = (double)(clock_now_ns() - begun) * 1e-9;
    if (took > 1)
        log_info(LOG_GPU,
                 "GPU %d: the driver compiled kernels for %.1f s and caches them for this user; a "
                 "build with nvcc avoids this",
                 device->ordinal, took);
    if (!result)
        return WEFT_OK;
    *module = NULL;
    return cuda_fail(cuda, result,
                     "cuModuleLoadData of Weft's kernels (%s) for compute capability %d.%d%s",
                     *kind, device->major, device->minor,
                     image->fatbin ? "" : "; this build has no fat binary (nvcc was absent)");
}

weft_status gpu_image_load(const struct gpu_image *image, const struct gpu_device *device,
                           const char *const *wanted, int count, CUmodule *module,
                           CUfunction *functions, const char **kind)
{
    *module = NULL;
    if (device->major < 7)
        return base_fail(WEFT_ERR_UNSUPPORTED,
                         "GPU %d (%s) has compute capability %d.%d; Weft's kernels need 7.0 "
                         "(Volta) or newer",
                         device->ordinal, device->name, device->major, device->minor);
    weft_status status = load_image(image, device, module, kind);
    for (int i = 0; !status && i < count; i++) {
        CUresult result = device->cuda->ModuleGetFunction(&functions[i], *module, wanted[i]);
        if (result)
            status = cuda_fail(device->cuda, result, "cuModuleGetFunction(%s)", wanted[i]);
        else if (device->cuda->FuncLoad)
            device->cuda->FuncLoad(functions[i]); /* see module.h */
    }
    if (status && *module)
        device->cuda->ModuleUnload(*module);
    return status;
}

weft_status gpu_module_load(struct gpu_module *module, const struct gpu_device *device)
{
    *module = (struct gpu_module){.device = device};
    weft_status status = gpu_image_load(&gpu_kernels_image, device, kernel_names, GPU_KERNEL_COUNT,
                                        &module->module, module->functions, &module->image);
    if (status)
        *module = (struct gpu_module){0};
    return status;
}

void gpu_module_unload(struct gpu_module *module)
{
    if (module->module)
        module->device->cuda->ModuleUnload(module->module);
    *module = (struct gpu_module){0};
}

weft_status gpu_launch(const struct gpu_module *module, enum gpu_kernel kernel, unsigned blocks,
                       unsigned threads, CUstream stream, void **arguments)
{
    const struct cuda *cuda = module->device->cuda;
    CUresult result = cuda->LaunchKernel(module->functions[kernel], blocks, 1, 1, threads, 1, 1, 0,
                                         stream, arguments, NULL);
    return result ? cuda_fail(cuda, result, "cuLaunchKernel of %s on GPU %d", kernel_names[kernel],
                              module->device->ordinal)
                  : WEFT_OK;
}
