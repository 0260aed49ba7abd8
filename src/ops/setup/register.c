/* SPDX-License-Identifier: Apache-2.0 */
/* Registration of program memory for the local side of operations, and queries of the GPU side. */
#include "gpu/gpu.h"
#include "gpu/map/map.h"
#include "job/job.h"

#include <weft/gpu.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static weft_status check_registration(const char *function, struct weft_job *job)
{
    if (!job)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: job is null", function);
    if (atomic_load(&job->state) != JOB_RUNNING)
        return job_finalized(function);
    if (!job->gpu)
        return base_fail(WEFT_ERR_UNSUPPORTED,
                         "%s: the job has no GPU side; weft_alloc(WEFT_GPU) opens it", function);
    return WEFT_OK;
}

/* Checks that the range ends inside its allocation: a kernel or copy past the end would fail later,
 * far from the mistake. */
static weft_status check_device_range(struct gpu *gpu, uintptr_t address, size_t bytes)
{
    CUdeviceptr start = 0;
    size_t size = 0;
    CUresult result =
        gpu->driver.PointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address);
    if (!result)
        result = gpu->driver.PointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address);
    if (result)
        return gpu_api_fail(&gpu->driver, result, "cuPointerGetAttribute of %#zx", address);
    if (bytes <= size - (address - start))
        return WEFT_OK;
    /* Memory of cuMemCreate() may be mapped as several allocations side by side, so the last byte
     * decides. */
    if (gpu_place_of(gpu, (void *)(address + bytes - 1)) == GPU_PLACE_DEVICE)
        return WEFT_OK;
    return base_fail(WEFT_ERR_ADDRESS,
                     "weft_register: %zu bytes at %#zx: the allocation there has %zu bytes, %zu of "
                     "them from that address on",
                     bytes, address, size, (size_t)(size - (address - start)));
}

static weft_status prepare_range(struct gpu *gpu, struct gpu_registration *registration)
{
    void *address = (void *)registration->base;
    enum gpu_place place = gpu_place_of(gpu, address);
    registration->device = place == GPU_PLACE_DEVICE;
    if (place == GPU_PLACE_DEVICE)
        return check_device_range(gpu, registration->base, registration->bytes);
    if (place == GPU_PLACE_PINNED)
        return WEFT_OK;
    CUresult result = gpu->driver.MemHostRegister(
        address, registration->bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    registration->pinned_here = result == CUDA_SUCCESS;
    return result ? gpu_api_fail(&gpu->driver, result, "cuMemHostRegister of %zu bytes at %p",
                                 registration->bytes, address)
                  : WEFT_OK;
}

static const struct gpu_registration *overlapping(const struct gpu *gpu, uintptr_t base,
                                                  size_t bytes)
{
    for (const struct gpu_registration *r = gpu->registered.list; r; r = r->next)
        if (base < r->base + r->bytes && r->base < base + bytes)
            return r;
    return NULL;
}

static weft_status add_registration(struct gpu *gpu, struct gpu_registration *registration)
{
    pthread_mutex_lock(&gpu->registered.lock);
    const struct gpu_registration *other =
        overlapping(gpu, registration->base, registration->bytes);
    weft_status status = WEFT_OK;
    if (other)
        status =
            base_fail(WEFT_ERR_ARGUMENT,
                      "weft_register: %zu bytes at %#zx overlap the %zu bytes at %#zx that are "
                      "registered already",
                      registration->bytes, registration->base, other->bytes, other->base);
    if (!status) {
        registration->next = gpu->registered.list;
        gpu->registered.list = registration;
    }
    pthread_mutex_unlock(&gpu->registered.lock);
    return status;
}

static void remove_registration(struct gpu *gpu, struct gpu_registration *registration)
{
    if (registration->pinned_here && gpu_enter(&gpu->device) == WEFT_OK) {
        gpu->driver.MemHostUnregister((void *)registration->base);
        gpu_leave(&gpu->device);
    }
    free(registration);
}

WEFT_EXPORT weft_status weft_register(weft_job *job, void *address, size_t bytes)
{
    static const char name[] = "weft_register";
    weft_status status = check_registration(name, job);
    if (status)
        return status;
    if (!address || bytes == 0 || (uintptr_t)address + bytes < (uintptr_t)address)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: %zu bytes at %p", name, bytes, address);
    struct gpu_registration *registration = calloc(1, sizeof *registration);
    if (!registration)
        return base_fail(WEFT_ERR_NO_MEMORY, "%s: no private memory", name);
    registration->base = (uintptr_t)address;
    registration->bytes = bytes;
    status = gpu_enter(&job->gpu->device);
    if (!status) {
        status = prepare_range(job->gpu, registration);
        gpu_leave(&job->gpu->device);
    }
    if (!status)
        status = add_registration(job->gpu, registration);
    if (status)
        remove_registration(job->gpu, registration);
    return status;
}

WEFT_EXPORT weft_status weft_unregister(weft_job *job, void *address)
{
    static const char name[] = "weft_unregister";
    weft_status status = check_registration(name, job);
    if (status)
        return status;
    struct gpu *gpu = job->gpu;
    pthread_mutex_lock(&gpu->registered.lock);
    struct gpu_registration **at = &gpu->registered.list, *found;
    while (*at && (*at)->base != (uintptr_t)address)
        at = &(*at)->next;
    found = *at;
    if (found)
        *at = found->next;
    pthread_mutex_unlock(&gpu->registered.lock);
    if (!found)
        return base_fail(WEFT_ERR_ADDRESS, "%s: nothing is registered at %p", name, address);
    if (found->device)
        gpu_map_own_forget(gpu->heap.map, (void *)found->base, found->bytes);
    remove_registration(gpu, found);
    return WEFT_OK;
}

/* -------------------------------------------------------------------------------------- queries */

WEFT_EXPORT weft_status weft_gpu_query(weft_job *job, weft_gpu_info *info)
{
    weft_status status = check_registration("weft_gpu_query", job);
    if (status)
        return status;
    if (!info)
        return base_fail(WEFT_ERR_ARGUMENT, "weft_gpu_query: info is null");
    if (info->size != sizeof *info)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "weft_gpu_query: info.size is %zu; set it to sizeof(weft_gpu_info), %zu",
                         info->size, sizeof *info);
    const struct gpu *gpu = job->gpu;
    weft_gpu_info filled = {.size = info->size,
                            .ordinal = gpu->device.ordinal,
                            .heap_window = gpu->heap.size,
                            .heap_backed = gpu->heap.backed,
                            .processors = gpu->device.multiprocessors};
    snprintf(filled.name, sizeof filled.name, "%s", gpu->device.name);
    snprintf(filled.uuid, sizeof filled.uuid, "%s", gpu->device.uuid_text);
    snprintf(filled.bus_id, sizeof filled.bus_id, "%s", gpu->device.bus_id);
    snprintf(filled.why, sizeof filled.why, "%s", gpu->device.why);
    snprintf(filled.kernels, sizeof filled.kernels, "%s", gpu->module.image);
    pthread_mutex_lock(&job->lock);
    filled.heap_used = heap_get_stats(gpu->allocator).used;
    pthread_mutex_unlock(&job->lock);
    *info = filled;
    return WEFT_OK;
}

WEFT_EXPORT weft_status weft_gpu_pair_query(weft_job *job, int pe, weft_gpu_pair *pair)
{
    weft_status status = check_registration("weft_gpu_pair_query", job);
    if (status)
        return status;
    if (pe < 0 || pe >= job->npes)
        return base_fail(WEFT_ERR_PE, "weft_gpu_pair_query: PE %d; the PEs are 0 ... %d", pe,
                         job->npes - 1);
    if (!pair)
        return base_fail(WEFT_ERR_ARGUMENT, "weft_gpu_pair_query: pair is null");
    if (pair->size != sizeof *pair)
        return base_fail(
            WEFT_ERR_ARGUMENT,
            "weft_gpu_pair_query: pair.size is %zu; set it to sizeof(weft_gpu_pair), %zu",
            pair->size, sizeof *pair);
    int slot = job->gpu->slot_of[pe];
    weft_gpu_pair filled = {.size = pair->size};
    if (slot < 0) {
        snprintf(filled.evidence, sizeof filled.evidence, "PE %d is on another node", pe);
    } else {
        const struct gpu_window *window = &job->gpu->heap.windows[slot];
        filled.usable = window->mapped;
        snprintf(filled.bus_id, sizeof filled.bus_id, "%s", window->gpu.bus_id);
        snprintf(filled.evidence, sizeof filled.evidence, "%s", window->evidence);
    }
    *pair = filled;
    return WEFT_OK;
}
