/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of one block that does what <nvshmemx.h> puts on a stream and <weft/stream.h> has no
 * function for, and its registration with the library (host.h). */
#ifndef WEFT_NVSHMEM_KERNEL_H
#define WEFT_NVSHMEM_KERNEL_H

#include <weft/nvshmem/types.h>

#if WEFT_NV_DEVICE_PART

#if WEFT_TARGET_SIMT
#include <weft/simt_executor.h>
#endif

/* By all threads of the block. Collectives report themselves; a wait that ran out is reported here. */
WEFT_NV_DEVICE void weft_nv_run(const struct weft_nv_call *c)
{
    int status = WEFT_OK;
    switch (c->kind) {
    case WEFT_NV_CALL_SYNC:
        weft_block_sync(c->team);
        return;
    case WEFT_NV_CALL_BROADCAST:
        weft_block_broadcast(c->team, c->dst, c->src, c->n, c->pe);
        return;
    case WEFT_NV_CALL_FCOLLECT:
        weft_block_fcollect(c->team, c->dst, c->src, c->n);
        return;
    case WEFT_NV_CALL_ALLTOALL:
        weft_block_alltoall(c->team, c->dst, c->src, c->n);
        return;
    case WEFT_NV_CALL_REDUCE:
        weft_block_reduce(c->team, c->dst, c->src, c->n, (weft_type)c->type, (weft_op)c->op);
        return;
    case WEFT_NV_CALL_REDUCESCATTER:
        weft_block_reducescatter(c->team, c->dst, c->src, c->n, (weft_type)c->type, (weft_op)c->op);
        return;
    case WEFT_NV_CALL_P:
        weft_block_put(c->dst, &c->value, c->element, c->pe);
        return;
    case WEFT_NV_CALL_IPUT:
        weft_block_iput(c->dst, c->src, c->dst_stride, c->src_stride, c->element, c->n, c->pe);
        return;
    case WEFT_NV_CALL_IGET:
        weft_block_iget(c->dst, c->src, c->dst_stride, c->src_stride, c->element, c->n, c->pe);
        return;
    case WEFT_NV_CALL_WAIT:
        status = weft_block_wait_until((weft_type)c->type, c->src, (weft_cmp)c->pe, c->value);
        break;
    case WEFT_NV_CALL_WAIT_ALL:
        status = weft_block_wait_until_all((weft_type)c->type, c->src, c->n, (const int *)c->dst,
                                           (weft_cmp)c->pe, c->value);
        break;
    case WEFT_NV_CALL_WAIT_ALL_VECTOR:
        status =
            weft_block_wait_until_all_vector((weft_type)c->type, c->src, c->n, (const int *)c->dst,
                                             (weft_cmp)c->pe, (void *)(uintptr_t)c->value);
        break;
    }
    if (status && weft_dev_thread_rank() == 0)
        weft_dev_fail(status);
}

#if WEFT_TARGET_CUDA

enum { WEFT_NV_KERNEL_THREADS = 512 };

static __global__ void weft_nv_kernel(struct weft_nv_call call)
{
    weft_nv_run(&call);
}

static int weft_nv_kernel_call(const struct weft_nv_call *call, weft_stream stream)
{
    struct weft_nv_call copy = *call;
    void *args[] = {&copy};
    return cudaLaunchKernel((const void *)weft_nv_kernel, dim3(1), dim3(WEFT_NV_KERNEL_THREADS),
                            args, 0, (cudaStream_t)stream);
}

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
                                                            weft_nv_kernel_call,
                                                            weft_nv_kernel_launch,
                                                            weft_nv_kernel_resident,
                                                            weft_nv_kernel_error};

#else

enum { WEFT_NV_KERNEL_THREADS = 64 };

WEFT_NV_HOST void weft_nv_kernel(const void *call)
{
    weft_nv_run((const struct weft_nv_call *)call);
}

WEFT_NV_HOST int weft_nv_kernel_call(const struct weft_nv_call *call, weft_stream stream)
{
    weft_simt_launch_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.size = sizeof attr;
    attr.name = "an operation on a stream";
    attr.kernel = weft_nv_kernel;
    attr.args = call;
    attr.args_bytes = sizeof *call;
    attr.grid[0] = attr.grid[1] = attr.grid[2] = 1;
    attr.block[0] = WEFT_NV_KERNEL_THREADS;
    attr.block[1] = attr.block[2] = 1;
    return weft_simt_launch(&attr, (weft_simt_stream *)stream);
}

WEFT_NV_HOST const char *weft_nv_kernel_error(int error)
{
    (void)error;
    return weft_last_error();
}

static const struct weft_nvshmem_kernels weft_nv_kernels = {
    sizeof(struct weft_nvshmem_kernels), 0, weft_nv_kernel_call, NULL, NULL, weft_nv_kernel_error};

#endif

__attribute__((constructor)) static void weft_nv_kernels_register(void)
{
    weft_nvshmem_register(&weft_nv_kernels);
}

#endif

#endif
