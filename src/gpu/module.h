/* SPDX-License-Identifier: Apache-2.0 */
/* The library's kernels, loaded into a GPU's context: from the embedded cubin where the build had
 * ptxas and the GPU is of that generation, else from the embedded PTX, which the driver compiles.
 * For a GPU of AMD: from the embedded code object for its architecture. */
#ifndef WEFT_GPU_MODULE_H
#define WEFT_GPU_MODULE_H

#include "gpu/device.h"
#include "gpu/image.h"
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
    const char *image; /* "cubin", "PTX" or "code object" */
};

/* The device's context is current. */
weft_status gpu_module_load(struct gpu_module *module, const struct gpu_device *device);
void gpu_module_unload(struct gpu_module *module);

/* Launches a kernel. early: it may start before the earlier work of the stream has ended, and waits
 * for that itself. */
CUresult gpu_launch_function(const struct gpu_api *driver, CUfunction function, unsigned blocks,
                             unsigned threads, CUstream stream, void **arguments, bool early);

/* Launches a kernel on a stream; `arguments` point to the kernel's arguments. */
weft_status gpu_launch(const struct gpu_module *module, enum gpu_kernel kernel, unsigned blocks,
                       unsigned threads, CUstream stream, void **arguments);

/* Loads PTX, which the driver compiles on all CPUs if it can. A context is current. */
CUresult gpu_compile_ptx(const struct gpu_api *driver, const char *ptx, CUmodule *module);

/* Loads all kernels of a module, if the driver can (CUDA 12.4). Since 12.2 it loads a kernel at its
 * first launch, unless CUDA_MODULE_LOADING=EAGER, and first waits for running kernels to end. One
 * of those may wait for the kernel that is being launched, or for a message that other threads of
 * this process put into GPU memory, whose calls of the driver wait for the launch. */
void gpu_load_kernels(const struct gpu_api *driver, CUmodule module);

/* Loads an image and finds its `count` kernels by name. *found: its code; NULL in a
 * build without kernels. On failure nothing is left. The device's context is current. Loads all
 * kernels at once (see gpu_load_kernels()). */
weft_status gpu_image_load(const struct gpu_image *image, const struct gpu_device *device,
                           const char *const *names, int count, CUmodule *module,
                           CUfunction *functions, const struct gpu_code **found);

/* The same, for kernels that keep nothing in their module: jobs of a process share the module in a
 * context. The last one that calls gpu_image_leave() unloads it. */
weft_status gpu_image_share(const struct gpu_image *image, const struct gpu_device *device,
                            const char *const *names, int count, CUmodule *module,
                            CUfunction *functions, const struct gpu_code **found);
void gpu_image_leave(const struct gpu_device *device, CUmodule module);

#endif
