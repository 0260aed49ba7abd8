/* SPDX-License-Identifier: Apache-2.0 */
/* See coll.h. */
#include "gpu/coll/coll.h"

#include "base/log.h"
#include "base/status.h"
#include "gpu/stream.h"

#include <stdlib.h>
#include <string.h>

static const char *const coll_kernel_names[COLL_KERNEL_COUNT] = {
#define COLL_KERNEL_NAME(name) #name,
    COLL_KERNELS(COLL_KERNEL_NAME)
#undef COLL_KERNEL_NAME
};

/* Whether kernels of this code can be launched early. NULL: the code of a build without kernels,
 * which is that of the stand-in for the driver. */
static bool starts_early(const struct gpu_device *device, const struct gpu_code *code)
{
    enum {
        WAIT_ARCH = 90, /* code for this compute capability times 10 on has GRID_WAIT() */
        EARLY_VERSION = 12 * 1000 + 30, /* of CUDA: since then such launches can be captured */
    };
    return (!code || code->arch >= WAIT_ARCH) && device->driver->LaunchKernelEx &&
           device->driver->driver_version >= EARLY_VERSION;
}

static weft_status load_coll_kernels(struct gpu *gpu, struct gpu_coll *coll)
{
    const struct gpu_code *code;
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    status = gpu_image_share(&gpu_coll_kernels_image, &gpu->device, coll_kernel_names,
                             COLL_KERNEL_COUNT, &coll->module, coll->functions, &code);
    if (!status) {
        CUresult result = gpu->driver.StreamCreate(&coll->stream, CU_STREAM_NON_BLOCKING);
        if (result) {
            status = gpu_api_fail(&gpu->driver, result, "cuStreamCreate for collectives");
            gpu_image_leave(&gpu->device, coll->module);
        }
    }
    if (!status)
        log_debug(LOG_COLL, "GPU %d: kernels of collectives from the %s", gpu->device.ordinal,
                  gpu_code_kind(code));
    coll->early = !status && starts_early(&gpu->device, code);
    gpu_leave(&gpu->device);
    return status;
}

weft_status gpu_coll_load(struct gpu *gpu)
{
    /* one lock for all GPUs: loading is rare */
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    if (__atomic_load_n(&gpu->coll, __ATOMIC_ACQUIRE))
        return WEFT_OK;
    pthread_mutex_lock(&lock);
    weft_status status = WEFT_OK;
    struct gpu_coll *coll = NULL;
    if (!gpu->coll) {
        coll = calloc(1, sizeof *coll);
        status = coll ? load_coll_kernels(gpu, coll)
                      : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for collectives");
        if (!status) {
            pthread_mutex_init(&coll->lock, NULL);
            gpu_engines_open(&coll->engines);
            /* Release: pairs with the acquire above. */
            __atomic_store_n(&gpu->coll, coll, __ATOMIC_RELEASE);
            coll = NULL;
        }
    }
    pthread_mutex_unlock(&lock);
    free(coll);
    return status;
}

CUstream gpu_coll_take_stream(struct gpu *gpu)
{
    CUstream stream = gpu->coll->stream;
    gpu->coll->stream = NULL;
    return stream;
}

void gpu_coll_close(struct gpu *gpu)
{
    struct gpu_coll *coll = gpu->coll;
    if (!coll)
        return;
    gpu->coll = NULL;
    gpu_engines_close(&coll->engines, gpu);
    gpu_image_leave(&gpu->device, coll->module);
    pthread_mutex_destroy(&coll->lock);
    free(coll);
}

weft_status gpu_coll_launch(struct gpu *gpu, enum coll_kernel kernel, unsigned blocks,
                            unsigned threads, CUstream stream, struct coll_call *call)
{
    void *arguments[] = {call};
    CUresult result = gpu_launch_function(&gpu->driver, gpu->coll->functions[kernel], blocks,
                                          threads, stream, arguments, gpu->coll->early);
    return result ? gpu_api_fail(&gpu->driver, result, "cuLaunchKernel of %s on GPU %d",
                                 coll_kernel_names[kernel], gpu->device.ordinal)
                  : WEFT_OK;
}

const uint64_t *gpu_coll_sizes(struct gpu *gpu, int which, const uint64_t *words, int n)
{
    _Static_assert((int)GPU_SIZES_MEMBERS >= (int)COLL_MEMBERS, "a word for each member");
    size_t at = offsetof(struct gpu_pinned, sizes) + (size_t)which * sizeof gpu->pinned->sizes[0];
    memcpy(gpu->pinned->sizes[which], words, (size_t)n * sizeof *words);
    return (const uint64_t *)(uintptr_t)(gpu->pinned_device + at);
}

static CUdeviceptr team_area_address(const struct gpu *gpu, int team)
{
    return gpu_heap_own(&gpu->heap)->base + coll_area_offset(&gpu->layout.coll, team);
}

weft_status gpu_coll_read_number(struct gpu *gpu, int team, uint64_t *number)
{
    uint64_t tickets = 0;
    weft_status status =
        gpu_access(gpu, 0, team_area_address(gpu, team) + offsetof(struct coll_area, tickets),
                   GPU_ACCESS_LOAD, sizeof tickets, 0, 0, &tickets);
    *number = tickets / COLL_BLOCKS;
    return status;
}

weft_status gpu_coll_set_number(struct gpu *gpu, int team, uint64_t number)
{
    uint64_t before;
    weft_status status =
        gpu_access(gpu, 0, team_area_address(gpu, team) + offsetof(struct coll_area, tickets),
                   GPU_ACCESS_STORE, sizeof number, number * COLL_BLOCKS, 0, NULL);
    if (!status)
        status =
            gpu_access(gpu, 0, team_area_address(gpu, team) + offsetof(struct coll_area, begun),
                       GPU_ACCESS_STORE, sizeof number, number, 0, NULL);
    if (!status)
        status =
            gpu_access(gpu, 0, team_area_address(gpu, team) + offsetof(struct coll_area, proof),
                       GPU_ACCESS_STORE, sizeof number, COLL_PROOF_NONE, 0, NULL);
    /* A load after the three stores waits until they are complete. */
    return status ? status
                  : gpu_access(gpu, 0,
                               team_area_address(gpu, team) + offsetof(struct coll_area, begun),
                               GPU_ACCESS_LOAD, sizeof number, 0, 0, &before);
}

weft_status gpu_coll_read_proof(struct gpu *gpu, int team, uint64_t *found)
{
    return gpu_access(gpu, 0, team_area_address(gpu, team) + offsetof(struct coll_area, proof),
                      GPU_ACCESS_LOAD, sizeof *found, 0, 0, found);
}
