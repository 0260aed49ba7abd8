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

static weft_status load_image(struct gpu_module *module)
{
    const struct cuda *cuda = module->device->cuda;
    CUresult result = CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (gpu_image_fatbin) {
        module->image = "fat binary";
        result = cuda->ModuleLoadData(&module->module, gpu_image_fatbin);
        if (!result)
            return WEFT_OK;
        char error[160];
        log_debug("cuModuleLoadData of the fat binary: %s; trying the PTX text",
                  cuda_error_text(cuda, result, error, sizeof error));
    }
    module->image = "PTX text";
    result = cuda->ModuleLoadData(&module->module, gpu_image_ptx);
    if (!result)
        return WEFT_OK;
    module->module = NULL;
    return cuda_fail(cuda, result,
                     "cuModuleLoadData of Weft's kernels (%s) for compute capability %d.%d%s",
                     module->image, module->device->major, module->device->minor,
                     gpu_image_fatbin ? "" : "; this build has no fat binary (nvcc was absent)");
}

weft_status gpu_module_load(struct gpu_module *module, const struct gpu_device *device)
{
    *module = (struct gpu_module){.device = device};
    if (device->major < 7)
        return base_fail(WEFT_ERR_UNSUPPORTED,
                         "GPU %d (%s) has compute capability %d.%d; Weft's kernels need 7.0 "
                         "(Volta) or newer",
                         device->ordinal, device->name, device->major, device->minor);
    weft_status status = load_image(module);
    for (int i = 0; !status && i < GPU_KERNEL_COUNT; i++) {
        CUresult result =
            device->cuda->ModuleGetFunction(&module->functions[i], module->module, names[i]);
        if (result)
            status = cuda_fail(device->cuda, result, "cuModuleGetFunction(%s)", names[i]);
    }
    if (status)
        gpu_module_unload(module);
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
