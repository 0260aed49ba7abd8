/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of the program's kernels by the CUDA runtime, and their registration with the library
 * (host.h). */
#ifndef WEFT_NVSHMEM_KERNEL_H
#define WEFT_NVSHMEM_KERNEL_H

#include <weft/nvshmem/types.h>

#if WEFT_TARGET_CUDA
/* See nvshmemx_collective_launch_attr(). */
static inline int weft_nv_kernel_launch_config(const void *given, const void *function, void **args)
{
    enum { MOST = 32 }; /* more than the number of attribute kinds */
    cudaLaunchConfig_t config = *(const cudaLaunchConfig_t *)given;
    cudaLaunchAttribute attributes[MOST + 1];
    if (config.numAttrs > MOST || (config.numAttrs && !config.attrs))
        return cudaErrorInvalidValue;
    unsigned n = 0;
    for (unsigned i = 0; i < config.numAttrs; i++)
        if (config.attrs[i].id != cudaLaunchAttributeCooperative)
            attributes[n++] = config.attrs[i];
    attributes[n].id = cudaLaunchAttributeCooperative;
    attributes[n++].val.cooperative = 1;
    config.attrs = attributes;
    config.numAttrs = n;
    return cudaLaunchKernelExC(&config, function, args);
}

#endif

#if WEFT_NV_DEVICE_PART && WEFT_TARGET_CUDA

static int weft_nv_kernel_launch(const void *function, const unsigned *grid, const unsigned *block,
                                 void **args, size_t shared_bytes, weft_stream stream)
{
    if (shared_bytes > WEFT_CUDA_SHARED_WITHOUT_ASKING) {
        cudaError_t error = cudaFuncSetAttribute(
            function, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);
        if (error != cudaSuccess)
            return error;
    }
    return cudaLaunchCooperativeKernel(function, dim3(grid[0], grid[1], grid[2]),
                                       dim3(block[0], block[1], block[2]), args, shared_bytes,
                                       (cudaStream_t)stream);
}

static int weft_nv_kernel_resident(const void *function, unsigned threads, size_t shared_bytes,
                                   int *blocks)
{
    int device = 0, of_each = 0, multiprocessors = 0;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
    if (error == cudaSuccess)
        error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&of_each, function, (int)threads,
                                                              shared_bytes);
    *blocks = of_each * multiprocessors;
    return error;
}

static const char *weft_nv_kernel_error(int error)
{
    return cudaGetErrorString((cudaError_t)error);
}

static const struct weft_nvshmem_kernels weft_nv_kernels = {sizeof(struct weft_nvshmem_kernels),
                                                            1,
                                                            NULL,
                                                            weft_nv_kernel_launch,
                                                            weft_nv_kernel_resident,
                                                            weft_nv_kernel_error,
                                                            weft_nv_kernel_launch_config};

__attribute__((constructor)) static void weft_nv_kernels_register(void)
{
    weft_nvshmem_register(&weft_nv_kernels);
}

#endif

#endif
