/* SPDX-License-Identifier: Apache-2.0 */
/* <nvshmemx.h>: functions on streams, and launches of kernels that use the device API. On simt
 * `stream` is a stream of the executor, a weft_stream. */
#ifndef WEFT_NVSHMEM_STREAM_H
#define WEFT_NVSHMEM_STREAM_H

#include <weft/nvshmem/kernel.h>
#include <weft/nvshmem/stream_call.h>

#define WEFT_NV_STREAM_DO(call, name) weft_nvshmem_require(call, name)

/* ------------------------------------------------------------------------ the untyped functions */

WEFT_NV_HOST void weft_nv_put_on_stream(void *dest, const void *src, size_t bytes, int pe,
                                        cudaStream_t stream)
{
    WEFT_NV_STREAM_DO(weft_put_on_stream(weft_nvshmem_ctx(), dest, src, bytes, pe, stream),
                      "nvshmemx_put_on_stream");
}

WEFT_NV_HOST void weft_nv_get_on_stream(void *dest, const void *src, size_t bytes, int pe,
                                        cudaStream_t stream)
{
    WEFT_NV_STREAM_DO(weft_get_on_stream(weft_nvshmem_ctx(), dest, src, bytes, pe, stream),
                      "nvshmemx_get_on_stream");
}

WEFT_NV_HOST void weft_nv_put_signal_on_stream(void *dest, const void *src, size_t bytes,
                                               uint64_t *sig_addr, uint64_t signal, int sig_op,
                                               int pe, cudaStream_t stream)
{
    WEFT_NV_STREAM_DO(weft_put_signal_on_stream(weft_nvshmem_ctx(), dest, src, bytes, sig_addr,
                                                signal, WEFT_NV_SIGNAL(sig_op), pe, stream),
                      "nvshmemx_put_signal_on_stream");
}

WEFT_NV_HOST int weft_nv_enqueue(struct weft_nv_call call, cudaStream_t stream)
{
    return weft_nvshmem_enqueue(&call, stream, "an operation on a stream");
}

/* -------------------------------------------------------------------------- families of names */

#define WEFT_NV_STREAM_MOVES(put, put_nbi, get, get_nbi, put_signal, T, unit)                      \
    WEFT_NV_STREAM_MOVE(put, weft_nv_put_on_stream, T, unit)                                       \
    WEFT_NV_STREAM_MOVE(put_nbi, weft_nv_put_on_stream, T, unit)                                   \
    WEFT_NV_STREAM_MOVE(get, weft_nv_get_on_stream, T, unit)                                       \
    WEFT_NV_STREAM_MOVE(get_nbi, weft_nv_get_on_stream, T, unit)                                   \
    WEFT_NV_STREAM_SIGNAL(put_signal, T, unit)                                                     \
    WEFT_NV_STREAM_SIGNAL(put_signal##_nbi, T, unit)
#define WEFT_NV_STREAM_MOVE(name, how, T, unit)                                                    \
    WEFT_NV_HOST void nvshmemx_##name##_on_stream(T *dest, const T *source, size_t nelems, int pe, \
                                                  cudaStream_t stream)                             \
    {                                                                                              \
        how(dest, source, nelems *(unit), pe, stream);                                             \
    }
#define WEFT_NV_STREAM_SIGNAL(name, T, unit)                                                       \
    WEFT_NV_HOST void nvshmemx_##name##_on_stream(T *dest, const T *source, size_t nelems,         \
                                                  uint64_t *sig_addr, uint64_t signal, int sig_op, \
                                                  int pe, cudaStream_t stream)                     \
    {                                                                                              \
        weft_nv_put_signal_on_stream(dest, source, nelems *(unit), sig_addr, signal, sig_op, pe,   \
                                     stream);                                                      \
    }
#define WEFT_NV_STREAM_STRIDED(name, put, T, unit)                                                 \
    WEFT_NV_HOST void nvshmemx_##name##_on_stream(T *dest, const T *source, ptrdiff_t dst,         \
                                                  ptrdiff_t sst, size_t nelems, int pe,            \
                                                  cudaStream_t stream)                             \
    {                                                                                              \
        weft_nv_enqueue(weft_nv_strided_call(put, dest, source, dst, sst, unit, nelems, pe),       \
                        stream);                                                                   \
    }
#define WEFT_NV_STREAM_DATA(name, KIND, T, unit)                                                   \
    WEFT_NV_HOST int nvshmemx_##name##_on_stream(nvshmem_team_t team, T *dest, const T *source,    \
                                                 size_t nelems, cudaStream_t stream)               \
    {                                                                                              \
        return weft_nv_enqueue(weft_nv_call_of(KIND, team, dest, source, nelems * (unit), 0),      \
                               stream);                                                            \
    }
/* As nvshmem_TYPE_alltoalls; NVSHMEM has no such form on streams. */
#define WEFT_NV_STREAM_ALLTOALLS(name, T)                                                          \
    WEFT_NV_HOST int nvshmemx_##name##_alltoalls_on_stream(                                        \
        nvshmem_team_t team, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst,               \
        size_t nelems, cudaStream_t stream)                                                        \
    {                                                                                              \
        return weft_nv_data_host(weft_alltoalls_on_stream(weft_nvshmem_team(team), dest, source,   \
                                                          dst, sst, sizeof(T), nelems, stream));   \
    }
#define WEFT_NV_STREAM_BROADCAST(name, T, unit)                                                    \
    WEFT_NV_HOST int nvshmemx_##name##_on_stream(nvshmem_team_t team, T *dest, const T *source,    \
                                                 size_t nelems, int PE_root, cudaStream_t stream)  \
    {                                                                                              \
        return weft_nv_enqueue(                                                                    \
            weft_nv_call_of(WEFT_NV_CALL_BROADCAST, team, dest, source, nelems * (unit), PE_root), \
            stream);                                                                               \
    }

#define WEFT_NV_STREAM_TYPE(name, T)                                                               \
    WEFT_NV_STREAM_MOVES(name##_put, name##_put_nbi, name##_get, name##_get_nbi,                   \
                         name##_put_signal, T, sizeof(T))                                          \
    WEFT_NV_STREAM_STRIDED(name##_iput, 1, T, sizeof(T))                                           \
    WEFT_NV_STREAM_STRIDED(name##_iget, 0, T, sizeof(T))                                           \
    WEFT_NV_STREAM_DATA(name##_fcollect, WEFT_NV_CALL_FCOLLECT, T, sizeof(T))                      \
    WEFT_NV_STREAM_DATA(name##_alltoall, WEFT_NV_CALL_ALLTOALL, T, sizeof(T))                      \
    WEFT_NV_STREAM_ALLTOALLS(name, T)                                                              \
    WEFT_NV_STREAM_BROADCAST(name##_broadcast, T, sizeof(T))                                       \
    WEFT_NV_HOST void nvshmemx_##name##_p_on_stream(T *dest, T value, int pe, cudaStream_t stream) \
    {                                                                                              \
        uint64_t bits = 0;                                                                         \
        memcpy(&bits, &value, sizeof value);                                                       \
        weft_nv_enqueue(weft_nv_p_call(dest, bits, sizeof(T), pe), stream);                        \
    }                                                                                              \
    WEFT_NV_HOST T nvshmemx_##name##_g_on_stream(const T *source, int pe, cudaStream_t stream)     \
    {                                                                                              \
        WEFT_NV_STREAM_DO(weft_stream_synchronize(stream), "nvshmemx_" #name "_g_on_stream");      \
        return nvshmem_##name##_g(source, pe);                                                     \
    }
WEFT_NV_RMA_TYPES(WEFT_NV_STREAM_TYPE)

#define WEFT_NV_STREAM_SIZE(bits, bytes)                                                           \
    WEFT_NV_STREAM_MOVES(put##bits, put##bits##_nbi, get##bits, get##bits##_nbi,                   \
                         put##bits##_signal, void, bytes)                                          \
    WEFT_NV_STREAM_STRIDED(iput##bits, 1, void, bytes)                                             \
    WEFT_NV_STREAM_STRIDED(iget##bits, 0, void, bytes)
WEFT_NV_RMA_SIZES(WEFT_NV_STREAM_SIZE)

WEFT_NV_STREAM_MOVES(putmem, putmem_nbi, getmem, getmem_nbi, putmem_signal, void, 1)
WEFT_NV_STREAM_DATA(fcollectmem, WEFT_NV_CALL_FCOLLECT, void, 1)
WEFT_NV_STREAM_DATA(alltoallmem, WEFT_NV_CALL_ALLTOALL, void, 1)
WEFT_NV_STREAM_BROADCAST(broadcastmem, void, 1)

#define WEFT_NV_STREAM_REDUCE(name, T, type, op)                                                   \
    WEFT_NV_HOST int nvshmemx_##name##_reduce_on_stream(                                           \
        nvshmem_team_t team, T *dest, const T *source, size_t nreduce, cudaStream_t stream)        \
    {                                                                                              \
        return weft_nv_enqueue(weft_nv_reduce_call(1, team, dest, source, nreduce, type, op),      \
                               stream);                                                            \
    }                                                                                              \
    WEFT_NV_HOST int nvshmemx_##name##_reducescatter_on_stream(                                    \
        nvshmem_team_t team, T *dest, const T *source, size_t nreduce, cudaStream_t stream)        \
    {                                                                                              \
        return weft_nv_enqueue(weft_nv_reduce_call(0, team, dest, source, nreduce, type, op),      \
                               stream);                                                            \
    }
#define WEFT_NV_STREAM_BITWISE(name, T, type)                                                      \
    WEFT_NV_STREAM_REDUCE(name##_and, T, type, WEFT_AND)                                           \
    WEFT_NV_STREAM_REDUCE(name##_or, T, type, WEFT_OR)                                             \
    WEFT_NV_STREAM_REDUCE(name##_xor, T, type, WEFT_XOR)
#define WEFT_NV_STREAM_ARITHMETIC(name, T, type)                                                   \
    WEFT_NV_STREAM_REDUCE(name##_min, T, type, WEFT_MIN)                                           \
    WEFT_NV_STREAM_REDUCE(name##_max, T, type, WEFT_MAX)                                           \
    WEFT_NV_STREAM_REDUCE(name##_sum, T, type, WEFT_SUM)                                           \
    WEFT_NV_STREAM_REDUCE(name##_prod, T, type, WEFT_PROD)
WEFT_NV_REDUCE_BITWISE_TYPES(WEFT_NV_STREAM_BITWISE)
WEFT_NV_REDUCE_TYPES(WEFT_NV_STREAM_ARITHMETIC)

#define WEFT_NV_STREAM_WAIT(name, T)                                                               \
    WEFT_NV_HOST void nvshmemx_##name##_wait_until_on_stream(T *ivar, int cmp, T value,            \
                                                             cudaStream_t stream)                  \
    {                                                                                              \
        weft_nv_enqueue(weft_nv_wait_call(WEFT_NV_CALL_WAIT, WEFT_NV_TYPE_OF(T), ivar, 1, NULL,    \
                                          cmp, (uint64_t)value),                                   \
                        stream);                                                                   \
    }                                                                                              \
    WEFT_NV_HOST void nvshmemx_##name##_wait_until_all_on_stream(                                  \
        T *ivars, size_t nelems, const int *status, int cmp, T value, cudaStream_t stream)         \
    {                                                                                              \
        weft_nv_enqueue(weft_nv_wait_call(WEFT_NV_CALL_WAIT_ALL, WEFT_NV_TYPE_OF(T), ivars,        \
                                          nelems, status, cmp, (uint64_t)value),                   \
                        stream);                                                                   \
    }                                                                                              \
    WEFT_NV_HOST void nvshmemx_##name##_wait_until_all_vector_on_stream(                           \
        T *ivars, size_t nelems, const int *status, int cmp, T *values, cudaStream_t stream)       \
    {                                                                                              \
        weft_nv_enqueue(weft_nv_wait_call(WEFT_NV_CALL_WAIT_ALL_VECTOR, WEFT_NV_TYPE_OF(T), ivars, \
                                          nelems, status, cmp, (uint64_t)(uintptr_t)values),       \
                        stream);                                                                   \
    }
WEFT_NV_WAIT_TYPES(WEFT_NV_STREAM_WAIT)

#undef WEFT_NV_STREAM_MOVES
#undef WEFT_NV_STREAM_MOVE
#undef WEFT_NV_STREAM_SIGNAL
#undef WEFT_NV_STREAM_STRIDED
#undef WEFT_NV_STREAM_DATA
#undef WEFT_NV_STREAM_ALLTOALLS
#undef WEFT_NV_STREAM_BROADCAST
#undef WEFT_NV_STREAM_TYPE
#undef WEFT_NV_STREAM_SIZE
#undef WEFT_NV_STREAM_REDUCE
#undef WEFT_NV_STREAM_BITWISE
#undef WEFT_NV_STREAM_ARITHMETIC
#undef WEFT_NV_STREAM_WAIT

/* ------------------------------------------------------- signals, ordering, synchronisation */

WEFT_NV_HOST void nvshmemx_signal_op_on_stream(uint64_t *sig_addr, uint64_t signal, int sig_op,
                                               int pe, cudaStream_t stream)
{
    WEFT_NV_STREAM_DO(weft_signal_on_stream(weft_nvshmem_ctx(), sig_addr, signal,
                                            WEFT_NV_SIGNAL(sig_op), pe, stream),
                      "nvshmemx_signal_op_on_stream");
}

WEFT_NV_HOST void nvshmemx_signal_wait_until_on_stream(uint64_t *sig_addr, int cmp,
                                                       uint64_t cmp_value, cudaStream_t stream)
{
    WEFT_NV_STREAM_DO(
        weft_signal_wait_on_stream(weft_nvshmem_ctx(), sig_addr, (weft_cmp)cmp, cmp_value, stream),
        "nvshmemx_signal_wait_until_on_stream");
}

WEFT_NV_HOST void nvshmemx_quiet_on_stream(cudaStream_t stream)
{
    WEFT_NV_STREAM_DO(weft_quiet_on_stream(weft_nvshmem_ctx(), stream), "nvshmemx_quiet_on_stream");
}

WEFT_NV_HOST void nvshmemx_flush_on_stream(cudaStream_t stream)
{
    nvshmemx_quiet_on_stream(stream);
}

WEFT_NV_HOST int nvshmemx_barrier_on_stream(nvshmem_team_t team, cudaStream_t stream)
{
    return weft_nvshmem_report(weft_barrier_on_stream(weft_nvshmem_team(team), stream),
                               "nvshmemx_barrier_on_stream");
}

WEFT_NV_HOST void nvshmemx_barrier_all_on_stream(cudaStream_t stream)
{
    WEFT_NV_STREAM_DO(weft_barrier_on_stream(weft_nvshmem_team(NVSHMEM_TEAM_WORLD), stream),
                      "nvshmemx_barrier_all_on_stream");
}

WEFT_NV_HOST int nvshmemx_team_sync_on_stream(nvshmem_team_t team, cudaStream_t stream)
{
    return weft_nv_enqueue(weft_nv_call_of(WEFT_NV_CALL_SYNC, team, NULL, NULL, 0, 0), stream);
}

WEFT_NV_HOST int nvshmemx_sync_on_stream(nvshmem_team_t team, cudaStream_t stream)
{
    return nvshmemx_team_sync_on_stream(team, stream);
}

WEFT_NV_HOST void nvshmemx_sync_all_on_stream(cudaStream_t stream)
{
    weft_nv_enqueue(weft_nv_call_of(WEFT_NV_CALL_SYNC, NVSHMEM_TEAM_WORLD, NULL, NULL, 0, 0),
                    stream);
}

/* --------------------------------------------------------------------------------- launching
 * All blocks of a kernel whose blocks wait for other PEs must be resident: a cooperative launch.
 * `func` is a __global__ function in code that nvcc compiles. In the C half of a program for both
 * targets it is NVSHMEMX_KERNEL(name), with a kernel that WEFT_KERNEL() defined. A host file of a
 * CUDA program may also pass the address of a __global__ function of another file. */
#if WEFT_NV_CUDA_HEADERS
/* Attributes of nvshmemx_collective_launch_attr(). */
typedef struct nvshmemx_collective_launch_attr {
    /* always a cooperative launch, even when its attributes do not request one */
    cudaLaunchConfig_t cuda_config;
} nvshmemx_collective_launch_attr_t;
#endif

#if WEFT_TARGET_CUDA

#define NVSHMEMX_KERNEL(name) ((const void *)weft_cuda_kernel_##name)

WEFT_NV_HOST int nvshmemx_collective_launch(const void *func, dim3 gridDims, dim3 blockDims,
                                            void **args, size_t sharedMem, cudaStream_t stream)
{
    cudaError_t error =
        cudaLaunchCooperativeKernel(func, gridDims, blockDims, args, sharedMem, stream);
    return error == cudaSuccess ? NVSHMEMX_SUCCESS
                                : (weft_nvshmem_report(WEFT_ERR_KERNEL, cudaGetErrorString(error)),
                                   NVSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED);
}

WEFT_NV_HOST int nvshmemx_collective_launch_attr(const nvshmemx_collective_launch_attr_t *attr,
                                                 const void *func, void **args)
{
    if (!attr || !func)
        return NVSHMEMX_ERROR_INVALID_VALUE;
    int error = weft_nv_kernel_launch_config(&attr->cuda_config, func, args);
    return error == cudaSuccess
               ? NVSHMEMX_SUCCESS
               : (weft_nvshmem_report(WEFT_ERR_KERNEL, cudaGetErrorString((cudaError_t)error)),
                  NVSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED);
}

/* *gridsize becomes the largest number of blocks that such a launch accepts. */
WEFT_NV_HOST int nvshmemx_collective_launch_query_gridsize(const void *func, dim3 blockDims,
                                                           void **args, size_t sharedMem,
                                                           int *gridsize)
{
    int device = 0, blocks = 0, multiprocessors = 0;
    (void)args;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
    if (error == cudaSuccess)
        error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
            &blocks, func, (int)(blockDims.x * blockDims.y * blockDims.z), sharedMem);
    *gridsize = blocks * multiprocessors;
    return error == cudaSuccess ? NVSHMEMX_SUCCESS
                                : (weft_nvshmem_report(WEFT_ERR_KERNEL, cudaGetErrorString(error)),
                                   NVSHMEMX_ERROR_INTERNAL);
}

#else

#define NVSHMEMX_KERNEL(name) ((const void *)&weft_kernel_##name)

WEFT_NV_HOST int nvshmemx_collective_launch(const void *func, weft_dim3 gridDims,
                                            weft_dim3 blockDims, void **args, size_t sharedMem,
                                            cudaStream_t stream)
{
    return weft_nvshmem_launch(func, gridDims, blockDims, args, sharedMem, stream)
               ? NVSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED
               : NVSHMEMX_SUCCESS;
}

WEFT_NV_HOST int nvshmemx_collective_launch_query_gridsize(const void *func, weft_dim3 blockDims,
                                                           void **args, size_t sharedMem,
                                                           int *gridsize)
{
    (void)args;
    return weft_nvshmem_resident(func, blockDims, sharedMem, gridsize) ? NVSHMEMX_ERROR_INTERNAL
                                                                       : NVSHMEMX_SUCCESS;
}

#if WEFT_NV_CUDA_HEADERS || defined WEFT_NV_MARKS
WEFT_NV_HOST int nvshmemx_collective_launch_attr(const nvshmemx_collective_launch_attr_t *attr,
                                                 const void *func, void **args)
{
    if (!attr || !func)
        return NVSHMEMX_ERROR_INVALID_VALUE;
    const cudaLaunchConfig_t *config = &attr->cuda_config;
    weft_dim3 grid = {config->gridDim.x, config->gridDim.y, config->gridDim.z};
    weft_dim3 block = {config->blockDim.x, config->blockDim.y, config->blockDim.z};
    return weft_nvshmem_launch_config(config, func, grid, block, args, config->dynamicSmemBytes,
                                      config->stream)
               ? NVSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED
               : NVSHMEMX_SUCCESS;
}
#endif

#if WEFT_NV_CUDA_HEADERS && defined __cplusplus
WEFT_NV_HOST int nvshmemx_collective_launch(const void *func, dim3 gridDims, dim3 blockDims,
                                            void **args, size_t sharedMem, cudaStream_t stream)
{
    weft_dim3 grid = {gridDims.x, gridDims.y, gridDims.z};
    weft_dim3 block = {blockDims.x, blockDims.y, blockDims.z};
    return nvshmemx_collective_launch(func, grid, block, args, sharedMem, stream);
}

WEFT_NV_HOST int nvshmemx_collective_launch_query_gridsize(const void *func, dim3 blockDims,
                                                           void **args, size_t sharedMem,
                                                           int *gridsize)
{
    weft_dim3 block = {blockDims.x, blockDims.y, blockDims.z};
    return nvshmemx_collective_launch_query_gridsize(func, block, args, sharedMem, gridsize);
}
#endif

#endif

#endif
