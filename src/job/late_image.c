/* SPDX-License-Identifier: Apache-2.0 */
/* See late_image.h. */
#include "job/late_image.h"

#include "base/log.h"
#include "base/status.h"
#include "job/device_state.h"

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;

static weft_status load(struct weft_job *job, struct late_image *image)
{
    struct gpu *gpu = job->gpu;
    const struct gpu_code *code;
    CUmodule module;
    char have[80];
    gpu_image_list_amd(image->image, have, sizeof have);
    if (gpu->driver.vendor == GPU_VENDOR_AMD && !*have)
        return base_fail(WEFT_ERR_UNSUPPORTED,
                         "libweft has no kernels for %s on GPUs of AMD; call the operation in a "
                         "kernel of the program",
                         image->what);
    weft_status status = gpu_image_load(image->image, &gpu->device, image->names, image->kernels,
                                        &module, image->functions, &code);
    if (status)
        return status;
    status = device_module_init(job, module);
    if (status) {
        gpu->driver.ModuleUnload(module);
        return status;
    }
    log_debug(LOG_GPU, "GPU %d: kernels for %s from the %s", gpu->device.ordinal, image->what,
              gpu_code_kind(code));
    image->module = module;
    image->next = job->modules.late_images;
    job->modules.late_images = image;
    return WEFT_OK;
}

/* While a stream is captured, CUDA permits loading only in the relaxed mode. */
static weft_status load_once(struct weft_job *job, struct late_image *image)
{
    const struct gpu_api *driver = &job->gpu->driver;
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    pthread_mutex_lock(&load_lock);
    weft_status status = WEFT_OK;
    if (!image->module) {
        if (driver->ThreadExchangeStreamCaptureMode)
            driver->ThreadExchangeStreamCaptureMode(&mode);
        status = load(job, image);
        if (driver->ThreadExchangeStreamCaptureMode)
            driver->ThreadExchangeStreamCaptureMode(&mode);
    }
    pthread_mutex_unlock(&load_lock);
    return status;
}

weft_status late_image_load(struct weft_job *job, struct late_image *image)
{
    weft_status status = gpu_enter(&job->gpu->device);
    if (status)
        return status;
    status = load_once(job, image);
    gpu_leave(&job->gpu->device);
    return status;
}

weft_status late_image_launch(struct weft_job *job, struct late_image *image, int kernel,
                              unsigned blocks, unsigned threads, const void *argument,
                              weft_stream stream)
{
    void *arguments[] = {(void *)(uintptr_t)argument};
    weft_status status = device_before_launch();
    if (!status)
        status = gpu_enter(&job->gpu->device);
    if (status)
        return status;
    status = load_once(job, image);
    if (!status) {
        CUresult result = job->gpu->driver.LaunchKernel(image->functions[kernel], blocks, 1, 1,
                                                        threads, 1, 1, 0, stream, arguments, NULL);
        if (result)
            status = gpu_api_fail(&job->gpu->driver, result, "cuLaunchKernel of %s on GPU %d",
                                  image->names[kernel], job->gpu->device.ordinal);
    }
    gpu_leave(&job->gpu->device);
    return status;
}

weft_status late_image_resident_blocks(struct weft_job *job, struct late_image *image, int kernel,
                                       unsigned threads, unsigned *blocks)
{
    struct gpu *gpu = job->gpu;
    int each = 0;
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    status = load_once(job, image);
    if (!status) {
        CUresult result = gpu->driver.OccupancyMaxActiveBlocksPerMultiprocessor(
            &each, image->functions[kernel], (int)threads, 0);
        if (result)
            status = gpu_api_fail(&gpu->driver, result,
                                  "cuOccupancyMaxActiveBlocksPerMultiprocessor of %s on GPU %d",
                                  image->names[kernel], gpu->device.ordinal);
    }
    gpu_leave(&gpu->device);
    *blocks = (unsigned)(each * gpu->device.multiprocessors);
    return status;
}

void late_image_unload(struct weft_job *job)
{
    while (job->modules.late_images) {
        struct late_image *image = job->modules.late_images;
        CUmodule module = image->module;
        job->modules.late_images = image->next;
        image->module = NULL;
        if (job->gpu->work_left || gpu_enter(&job->gpu->device))
            continue;
        job->gpu->driver.ModuleUnload(module);
        gpu_leave(&job->gpu->device);
    }
}
