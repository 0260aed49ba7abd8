/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on streams and collectives of <nvshmem.h> that the host API does not have. A kernel
 * does them: that of the collective where the library has one, else the one of run_cuda.c or
 * run_simt.c. Also the cooperative launch of the program's kernels. */
#include <weft/nvshmem/host.h>

#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "gpu/gpu.h"
#include "gpu/stream.h"
#include "job/device_state.h"
#include "nvshmem/run.h"
#include "ops/coll/kernel.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const struct weft_nvshmem_kernels *program_kernels; /* for cuda; constructors set it */

WEFT_EXPORT void weft_nvshmem_register(const struct weft_nvshmem_kernels *kernels)
{
    const struct weft_nvshmem_kernels *none = NULL;
    const size_t needed = offsetof(struct weft_nvshmem_kernels, launch_config);
    if (kernels->size < needed)
        log_error(
            LOG_SHMEM,
            "the program was compiled against another nvshmem.h (its table of kernels has %zu "
            "bytes; this library needs %zu): they are not used",
            kernels->size, needed);
    else if (kernels->cuda) /* a table for simt comes from a program compiled before the library
                               had its own kernel */
        __atomic_compare_exchange_n(&program_kernels, &none, kernels, 0, __ATOMIC_RELEASE,
                                    __ATOMIC_RELAXED);
}

static const struct weft_nvshmem_kernels *get_program_kernels(void)
{
    return __atomic_load_n(&program_kernels, __ATOMIC_ACQUIRE);
}

static weft_status kernels_fail(const struct weft_nvshmem_kernels *kernels, int error,
                                const char *what)
{
    return error ? base_fail(WEFT_ERR_KERNEL, "%s: CUDA error %d: %s", what, error,
                             kernels->error_text(error))
                 : WEFT_OK;
}

static weft_status fail_without_kernel(void)
{
    return base_fail(WEFT_ERR_UNSUPPORTED,
                     "the program has no kernel for it on cuda; include <nvshmemx.h>, without "
                     "NVSHMEM_HOSTLIB_ONLY, in a file that is compiled by nvcc");
}

/* Collectives for which the library has kernels with many blocks. */
static bool is_collective(const struct weft_nv_call *call)
{
    return call->kind == WEFT_NV_CALL_BROADCAST || call->kind == WEFT_NV_CALL_FCOLLECT ||
           call->kind == WEFT_NV_CALL_ALLTOALL || call->kind == WEFT_NV_CALL_REDUCE ||
           call->kind == WEFT_NV_CALL_REDUCESCATTER;
}

static weft_status enqueue_collective(weft_team *team, const struct weft_nv_call *call,
                                      weft_stream stream)
{
    weft_type type = (weft_type)call->type;
    weft_op op = (weft_op)call->op;
    switch (call->kind) {
    case WEFT_NV_CALL_BROADCAST:
        return weft_broadcast_on_stream(team, call->dst, call->src, call->n, call->pe, stream);
    case WEFT_NV_CALL_FCOLLECT:
        return weft_allgather_on_stream(team, call->dst, call->src, call->n, stream);
    case WEFT_NV_CALL_ALLTOALL:
        return weft_alltoall_on_stream(team, call->dst, call->src, call->n, stream);
    case WEFT_NV_CALL_REDUCE:
        return weft_allreduce_on_stream(team, call->dst, call->src, call->n, type, op, stream);
    default:
        return weft_reducescatter_on_stream(team, call->dst, call->src, call->n, type, op, stream);
    }
}

static weft_status enqueue_call(const struct weft_nv_call *call, weft_stream stream)
{
    weft_job *job = weft_nvshmem_job();
    if (!job)
        return base_fail(WEFT_ERR_ARGUMENT, "called before nvshmem_init");
    if (weft_target_get() == WEFT_SIMT)
        return run_simt(call, stream);
    weft_team *team = is_collective(call) ? weft_nvshmem_team(call->team) : NULL;
    if (team && coll_kernel_serves(team))
        return enqueue_collective(team, call, stream);
    return run_cuda(job, call, stream);
}

WEFT_EXPORT int weft_nvshmem_enqueue(const struct weft_nv_call *call, weft_stream stream,
                                     const char *function)
{
    return weft_nvshmem_report(enqueue_call(call, stream), function);
}

/* On cuda by the driver: a program of host code alone has no CUDA runtime. */
static weft_status wait_for_calls(weft_job *job)
{
    if (weft_target_get() == WEFT_SIMT)
        return weft_stream_synchronize(NULL);
    weft_status status = gpu_enter(&job->gpu->device);
    if (status)
        return status;
    status = gpu_wait_stream(job->gpu, NULL, "a collective of NVSHMEM");
    gpu_leave(&job->gpu->device);
    return status;
}

WEFT_EXPORT int weft_nvshmem_now(const struct weft_nv_call *call, const char *function)
{
    weft_status status = enqueue_call(call, NULL);
    if (!status)
        status = wait_for_calls(weft_nvshmem_job());
    if (!status)
        status = weft_device_check(weft_nvshmem_job());
    return weft_nvshmem_report(status, function);
}

/* ----------------------------------------------------------------------------- modules */

static weft_status get_module(const struct gpu *gpu, CUlibrary library, CUmodule *module)
{
    if (!gpu->driver.LibraryGetModule)
        return base_fail(WEFT_ERR_UNSUPPORTED,
                         "the CUDA driver has no cuLibraryGetModule (it came with CUDA 12.0); load "
                         "the module and call nvshmemx_cumodule_init()");
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    CUresult result = gpu->driver.LibraryGetModule(module, library);
    gpu_leave(&gpu->device);
    return result ? gpu_api_fail(&gpu->driver, result, "cuLibraryGetModule") : WEFT_OK;
}

WEFT_EXPORT weft_status weft_nvshmem_library(void *library)
{
    weft_job *job = weft_nvshmem_job();
    CUmodule module = NULL;
    if (!job || !library)
        return base_fail(WEFT_ERR_ARGUMENT,
                         job ? "the library is null" : "called before nvshmem_init");
    if (!job->gpu)
        return base_fail(WEFT_ERR_UNSUPPORTED, "the job runs no device code on cuda");
    weft_status status = get_module(job->gpu, library, &module);
    return status ? status : weft_module_init(job, module);
}

/* ---------------------------------------------------------------------------- launches */

/* The executor takes the arguments as one block of memory. */
static weft_status launch_simt(const struct weft_kernel *kernel, weft_dim3 grid, weft_dim3 block,
                               void **args, size_t shared_bytes, weft_stream stream)
{
    char *packed = aligned_alloc(16, (kernel->args_bytes + 16) & ~(size_t)15);
    if (!packed)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for the arguments of %s",
                         kernel->name);
    for (unsigned i = 0; i < kernel->n_params; i++)
        memcpy(packed + kernel->offsets[i], args[i], kernel->sizes[i]);
    weft_status status = weft_launch(kernel, WEFT_LAUNCH_FLAG_COOPERATIVE, grid, block,
                                     shared_bytes, stream, packed);
    free(packed);
    return status;
}

/* The CUDA runtime's error for a function that is not a __global__ function of the program. */
enum { CUDA_INVALID_FUNCTION = 98 };

/* Whether the program passed a __global__ function; the runtime knows all of them by address. */
static bool is_cuda_function(const struct weft_nvshmem_kernels *kernels, const void *function)
{
    int blocks;
    return kernels->resident(function, 1, 0, &blocks) != CUDA_INVALID_FUNCTION;
}

static weft_status launch_cuda(const struct weft_kernel *kernel, weft_dim3 grid, weft_dim3 block,
                               void **args, size_t shared_bytes, weft_stream stream)
{
    const struct weft_nvshmem_kernels *kernels = get_program_kernels();
    const unsigned g[3] = {grid.x, grid.y, grid.z}, b[3] = {block.x, block.y, block.z};
    if (kernels && is_cuda_function(kernels, kernel))
        return kernels_fail(kernels, kernels->launch(kernel, g, b, args, shared_bytes, stream),
                            "the kernel");
    if (!kernels || !kernel->cuda)
        return fail_without_kernel();
    return kernels_fail(kernels,
                        kernels->launch(kernel->cuda->function, g, b, args, shared_bytes, stream),
                        kernel->name);
}

WEFT_EXPORT int weft_nvshmem_launch(const void *function, weft_dim3 grid, weft_dim3 block,
                                    void **args, size_t shared_bytes, weft_stream stream)
{
    const struct weft_kernel *kernel = function;
    weft_status status = device_units_upload();
    if (!status)
        status = weft_target_get() == WEFT_CUDA
                     ? launch_cuda(kernel, grid, block, args, shared_bytes, stream)
                     : launch_simt(kernel, grid, block, args, shared_bytes, stream);
    return weft_nvshmem_report(status, "nvshmemx_collective_launch");
}

static weft_status launch_config_cuda(const void *config, const struct weft_kernel *kernel,
                                      void **args)
{
    const struct weft_nvshmem_kernels *kernels = get_program_kernels();
    if (!kernels || kernels->size < sizeof *kernels || !kernels->launch_config)
        return fail_without_kernel();
    bool is_function = is_cuda_function(kernels, kernel);
    if (!is_function && !kernel->cuda)
        return fail_without_kernel();
    const void *function = is_function ? (const void *)kernel : kernel->cuda->function;
    return kernels_fail(kernels, kernels->launch_config(config, function, args), "the kernel");
}

WEFT_EXPORT int weft_nvshmem_launch_config(const void *config, const void *function, weft_dim3 grid,
                                           weft_dim3 block, void **args, size_t shared_bytes,
                                           weft_stream stream)
{
    if (weft_target_get() != WEFT_CUDA)
        return weft_nvshmem_launch(function, grid, block, args, shared_bytes, stream);
    weft_status status = device_units_upload();
    if (!status)
        status = launch_config_cuda(config, function, args);
    return weft_nvshmem_report(status, "nvshmemx_collective_launch_attr");
}

static weft_status count_resident(const struct weft_kernel *kernel, unsigned threads,
                                  size_t shared_bytes, int *blocks)
{
    const struct weft_nvshmem_kernels *kernels = get_program_kernels();
    if (!threads)
        return base_fail(WEFT_ERR_ARGUMENT, "a block of 0 threads");
    if (weft_target_get() == WEFT_SIMT) {
        size_t most = config_size(CONFIG_TEST_SIMT_LANES) / threads;
        *blocks = most ? (int)most : 1;
        return WEFT_OK;
    }
    if (kernels && is_cuda_function(kernels, kernel))
        return kernels_fail(kernels, kernels->resident(kernel, threads, shared_bytes, blocks),
                            "the kernel");
    if (!kernels || !kernel->cuda)
        return fail_without_kernel();
    return kernels_fail(kernels,
                        kernels->resident(kernel->cuda->function, threads, shared_bytes, blocks),
                        kernel->name);
}

WEFT_EXPORT int weft_nvshmem_resident(const void *function, weft_dim3 block, size_t shared_bytes,
                                      int *blocks)
{
    return weft_nvshmem_report(
        count_resident(function, block.x * block.y * block.z, shared_bytes, blocks),
        "nvshmemx_collective_launch_query_gridsize");
}
