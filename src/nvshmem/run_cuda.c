/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on a stream of a GPU. The kernel is an image of the library, loaded at its first use
 * in a job, because loading takes time and few programs use it. */
#include "nvshmem/run.h"

#include "base/log.h"
#include "base/status.h"
#include "gpu/gpu.h"
#include "gpu/image.h"
#include "job/device_state.h"

#define KERNEL_NAME "weft_nv_operation"

enum { OPERATION_THREADS = 512 };

/* Of the one job that has device code. */
static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static CUmodule loaded_module; /* NULL: not loaded */
static CUfunction loaded_function;

/* The kernel ends before the job does, unless the job has failed. */
static void unload_kernel(struct weft_job *job)
{
    CUmodule module = loaded_module;
    loaded_module = NULL;
    job->modules.end_operations = NULL;
    if (job->gpu->work_left || gpu_enter(&job->gpu->device))
        return;
    job->gpu->driver.ModuleUnload(module);
    gpu_leave(&job->gpu->device);
}

static weft_status load_kernel(struct weft_job *job)
{
    static const char *const name = KERNEL_NAME;
    struct gpu *gpu = job->gpu;
    const struct gpu_code *code;
    CUmodule module;
    if (gpu->driver.vendor == GPU_VENDOR_AMD)
        return base_fail(WEFT_ERR_UNSUPPORTED,
                         "libweft has no kernel for it on GPUs of AMD; call the operation in a "
                         "kernel of the program");
    weft_status status = gpu_image_load(&gpu_nvshmem_image, &gpu->device, &name, 1, &module,
                                        &loaded_function, &code);
    if (status)
        return status;
    status = device_module_init(job, module);
    if (status) {
        gpu->driver.ModuleUnload(module);
        return status;
    }
    log_debug(LOG_GPU, "GPU %d: the kernel of operations on streams from the %s",
              gpu->device.ordinal, gpu_code_kind(code));
    loaded_module = module;
    job->modules.end_operations = unload_kernel;
    return WEFT_OK;
}

/* While a stream is captured, CUDA permits loading only in the relaxed mode. */
static weft_status load_kernel_once(struct weft_job *job)
{
    const struct gpu_api *driver = &job->gpu->driver;
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    pthread_mutex_lock(&load_lock);
    weft_status status = WEFT_OK;
    if (!loaded_module) {
        if (driver->ThreadExchangeStreamCaptureMode)
            driver->ThreadExchangeStreamCaptureMode(&mode);
        status = load_kernel(job);
        if (driver->ThreadExchangeStreamCaptureMode)
            driver->ThreadExchangeStreamCaptureMode(&mode);
    }
    pthread_mutex_unlock(&load_lock);
    return status;
}

weft_status run_cuda(struct weft_job *job, const struct weft_nv_call *call, weft_stream stream)
{
    struct weft_nv_call copy = *call;
    void *arguments[] = {&copy};
    weft_status status = device_before_launch();
    if (!status)
        status = gpu_enter(&job->gpu->device);
    if (status)
        return status;
    status = load_kernel_once(job);
    if (!status) {
        CUresult result = job->gpu->driver.LaunchKernel(loaded_function, 1, 1, 1, OPERATION_THREADS,
                                                        1, 1, 0, stream, arguments, NULL);
        if (result)
            status = gpu_api_fail(&job->gpu->driver, result,
                                  "cuLaunchKernel of " KERNEL_NAME " on GPU %d",
                                  job->gpu->device.ordinal);
    }
    gpu_leave(&job->gpu->device);
    return status;
}
