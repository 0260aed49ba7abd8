/* SPDX-License-Identifier: Apache-2.0 */
/* The library's own kernels, loaded into a GPU's context: from the embedded fat binary when it was
 * built with nvcc, else from the embedded PTX text, which the driver compiles. */
#ifndef WEFT_GPU_MODULE_H
#define WEFT_GPU_MODULE_H

#include "gpu/device.h"
#include "gpu/kernels.h"

enum gpu_kernel {
#define GPU_KERNEL_ENUM(name) GPU_##name,
    GPU_KERNELS(GPU_KERNEL_ENUM)
#undef GPU_KERNEL_ENUM
        GPU_KERNEL_COUNT
};

struct gpu_module {
    const struct gpu_device *device;
    CUmodule module;
    CUfunction functions[GPU_KERNEL_COUNT];
    const char *image; /* "fat binary" or "PTX text" */
};

/* The device's context is current. */
weft_status gpu_module_load(struct gpu_module *module, const struct gpu_device *device);
void gpu_module_unload(struct gpu_module *module);

/* Puts a kernel on a stream; `arguments` point to the kernel's arguments. */
weft_status gpu_launch(const struct gpu_module *module, enum gpu_kernel kernel, unsigned blocks,
                       unsigned threads, CUstream stream, void **arguments);

/* image.c: the embedded images. The fat binary is NULL when nvcc was absent at build time. */
extern const void *const gpu_image_fatbin;
extern const char gpu_image_ptx[];

#endif
