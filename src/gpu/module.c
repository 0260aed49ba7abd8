/* SPDX-License-Identifier: Apache-2.0 */
/* Loading and launching the library's own kernels. See module.h. */
#include "gpu/module.h"

#include "base/log.h"
#include "base/status.h"

static const char *const names[GPU_KERNEL_COUNT] = {
#define GPU_KERNEL_NAME(name) #name,
    GPU_KERNELS(GPU_KERNEL_NAME)
#undef GPU_KERNEL_NAME
};

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
        log_debug("cuModuleLoadData of the fat binary: %s; trying the PTX text",
                  cuda_error_text(cuda, result, error, sizeof error));
    }
    *kind = "PTX text";
    result = cuda->ModuleLoadData(module, image->ptx);
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
    }
    if (status && *module)
        device->cuda->ModuleUnload(*module);
    return status;
}

weft_status gpu_module_load(struct gpu_module *module, const struct gpu_device *device)
{
    *module = (struct gpu_module){.device = device};
    weft_status status = gpu_image_load(&gpu_kernels_image, device, names, GPU_KERNEL_COUNT,
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
    return result ? cuda_fail(cuda, result, "cuLaunchKernel of %s on GPU %d", names[kernel],
                              module->device->ordinal)
                  : WEFT_OK;
}
