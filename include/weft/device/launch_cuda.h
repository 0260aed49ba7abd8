/* SPDX-License-Identifier: Apache-2.0 */
/* The half of <weft/launch.h> for GPUs: kernel definitions and, by nvcc, the table of the program's
 * own CUDA runtime through which libweft launches. What clang compiles is PTX, which libweft loads
 * and launches through the driver (<weft/device/image.h>). What NVRTC compiles, the program loads
 * and launches: kernel NAME is the function weft_cuda_kernel_NAME. */
#ifndef WEFT_DEVICE_LAUNCH_CUDA_H
#define WEFT_DEVICE_LAUNCH_CUDA_H

#if !WEFT_DEVICE_ONLY

#include <cuda_runtime.h>

enum { WEFT_CUDA_SHARED_WITHOUT_ASKING = 48 * 1024 };

static int weft_cuda_devices(void)
{
    int n = 0;
    if (cudaGetDeviceCount(&n) == cudaSuccess)
        return n;
    cudaGetLastError(); /* no GPU is an answer, not an error that a later call should return */
    return 0;
}

static const char *weft_cuda_error_text(int error)
{
    return cudaGetErrorString((cudaError_t)error);
}

static int weft_cuda_launch(const void *function, const unsigned *grid, const unsigned *block,
                            size_t shared_bytes, unsigned flags, weft_stream stream, void **params)
{
    dim3 g(grid[0], grid[1], grid[2]), b(block[0], block[1], block[2]);
    cudaStream_t on = (cudaStream_t)stream;
    if (shared_bytes > WEFT_CUDA_SHARED_WITHOUT_ASKING) {
        cudaError_t error = cudaFuncSetAttribute(
            function, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);
        if (error != cudaSuccess)
            return error;
    }
    if (flags & WEFT_LAUNCH_FLAG_COOPERATIVE)
        return cudaLaunchCooperativeKernel(function, g, b, params, shared_bytes, on);
    return cudaLaunchKernel(function, g, b, params, shared_bytes, on);
}

static int weft_cuda_stream_create(weft_stream *stream)
{
    return cudaStreamCreateWithFlags((cudaStream_t *)stream, cudaStreamNonBlocking);
}

static int weft_cuda_stream_destroy(weft_stream stream)
{
    cudaError_t error = cudaStreamSynchronize((cudaStream_t)stream);
    cudaError_t destroyed = cudaStreamDestroy((cudaStream_t)stream);
    return error != cudaSuccess ? error : destroyed;
}

static int weft_cuda_stream_synchronize(weft_stream stream)
{
    return cudaStreamSynchronize((cudaStream_t)stream);
}

static int weft_cuda_stream_query(weft_stream stream, int *idle)
{
    cudaError_t error = cudaStreamQuery((cudaStream_t)stream);
    *idle = error != cudaErrorNotReady;
    return error == cudaErrorNotReady ? cudaSuccess : error;
}

static int weft_cuda_stream_host_call(weft_stream stream, void (*fn)(void *arg), void *arg)
{
    return cudaLaunchHostFunc((cudaStream_t)stream, fn, arg);
}

static int weft_cuda_event_create(weft_event *event)
{
    return cudaEventCreate((cudaEvent_t *)event);
}

static int weft_cuda_event_destroy(weft_event event)
{
    return cudaEventDestroy((cudaEvent_t)event);
}

static int weft_cuda_event_record(weft_event event, weft_stream stream)
{
    return cudaEventRecord((cudaEvent_t)event, (cudaStream_t)stream);
}

static int weft_cuda_event_wait(weft_stream stream, weft_event event)
{
    return cudaStreamWaitEvent((cudaStream_t)stream, (cudaEvent_t)event, 0);
}

static int weft_cuda_event_synchronize(weft_event event)
{
    return cudaEventSynchronize((cudaEvent_t)event);
}

static int weft_cuda_event_elapsed(weft_event start, weft_event end, uint64_t *ns)
{
    float ms = 0;
    cudaError_t error = cudaEventElapsedTime(&ms, (cudaEvent_t)start, (cudaEvent_t)end);
    *ns = ms > 0 ? (uint64_t)((double)ms * 1e6) : 0;
    return error;
}

static int weft_cuda_resident_blocks(const void *function, unsigned threads, size_t shared_bytes,
                                     unsigned *blocks)
{
    int device = 0, processors = 0, each = 0;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    if (error == cudaSuccess)
        error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, function, (int)threads,
                                                              shared_bytes);
    *blocks = (unsigned)(processors * each);
    return error;
}

static const struct weft_cuda_runtime weft_cuda_runtime_here = {
    sizeof(struct weft_cuda_runtime),
    weft_cuda_devices,
    weft_cuda_error_text,
    weft_cuda_launch,
    weft_cuda_stream_create,
    weft_cuda_stream_destroy,
    weft_cuda_stream_synchronize,
    weft_cuda_stream_query,
    weft_cuda_stream_host_call,
    weft_cuda_event_create,
    weft_cuda_event_destroy,
    weft_cuda_event_record,
    weft_cuda_event_wait,
    weft_cuda_event_synchronize,
    weft_cuda_event_elapsed,
    weft_cuda_resident_blocks,
};

__attribute__((constructor)) static void weft_cuda_register_here(void)
{
    weft_cuda_register(&weft_cuda_runtime_here);
}

#endif

#define WEFT_KERNEL_DECLARE_0(name)      struct weft_kernel
#define WEFT_KERNEL_DECLARE_N(name, ...) struct weft_kernel

/* Largest number of threads of a block with which kernels of this file are launched. At 1024 the
 * compiler keeps every kernel within 64 registers, so that no launch fails for lack of registers. A
 * file with smaller blocks may define it before it includes <weft_device.h>. The launch bound also
 * says that one block per multiprocessor is enough. Without this the compiler may halve a kernel's
 * registers to fit two blocks, and spill the rest to the stack: single values then go at half the
 * rate (H200). */
#ifndef WEFT_KERNEL_THREADS
#if WEFT_TARGET_HIP /* at 1024 clang 19 takes more registers than such a block can have */
#define WEFT_KERNEL_THREADS 512
#else
#define WEFT_KERNEL_THREADS 1024
#endif
#endif

#if WEFT_DEVICE_ONLY
#define WEFT_KERNEL_CUDA(name, params)                                                             \
    extern "C" __global__ void __launch_bounds__(WEFT_KERNEL_THREADS, 1)                           \
        weft_cuda_kernel_##name params
#else
#define WEFT_KERNEL_CUDA(name, params)                                                             \
    extern "C" __global__ void __launch_bounds__(WEFT_KERNEL_THREADS, 1)                           \
        weft_cuda_kernel_##name params;                                                            \
    extern "C" const struct weft_kernel_cuda weft_kernel_cuda_##name                               \
        __attribute__((visibility("hidden")));                                                     \
    const struct weft_kernel_cuda weft_kernel_cuda_##name = {                                      \
        &weft_cuda_runtime_here, (const void *)weft_cuda_kernel_##name};                           \
    extern "C" __global__ void weft_cuda_kernel_##name params
#endif

#define WEFT_KERNEL_0(name) WEFT_KERNEL_CUDA(name, (void))
#define WEFT_KERNEL_N(name, ...)                                                                   \
    WEFT_KERNEL_CUDA(name, (WEFT_PP_MAP(WEFT_PP_DECLARE, WEFT_PP_COMMA, __VA_ARGS__)))

#endif
