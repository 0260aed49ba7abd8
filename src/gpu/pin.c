/* SPDX-License-Identifier: Apache-2.0 */
/* Pins host memory of the job so that the GPU can access it. The host heap is pinned as far as it
 * has been allocated, in steps that double: pinning the whole reservation would take memory that
 * the reservation itself does not take. */
#include "gpu/gpu.h"

#include "base/log.h"
#include "base/status.h"

#include <stdlib.h>

enum { FIRST_STEP = 4 << 20 }; /* bytes */

static CUresult pin_block(struct gpu *gpu, char *address, size_t bytes)
{
    CUresult result = gpu->driver.MemHostRegister(
        address, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    /* PEs that are threads share mappings: another PE pinned it first and will unpin it. */
    if (result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
        return CUDA_SUCCESS;
    if (!result)
        gpu->registered.pins.undo[gpu->registered.pins.undo_count++] = address;
    return result;
}

static weft_status pin_step(struct gpu *gpu, size_t from, size_t to)
{
    struct gpu_pins *pins = &gpu->registered.pins;
    size_t room = (pins->undo_count + (size_t)pins->slot_count) * sizeof *pins->undo;
    void **undo = realloc(pins->undo, room);
    if (!undo)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory");
    pins->undo = undo;
    for (int slot = 0; slot < pins->slot_count; slot++) {
        CUresult result =
            pin_block(gpu, pins->slots + (size_t)slot * pins->stride + from, to - from);
        if (result)
            return gpu_api_fail(&gpu->driver, result,
                                "cuMemHostRegister of %zu KiB of the host heap", (to - from) >> 10);
    }
    return WEFT_OK;
}

void gpu_pin_heap(struct gpu *gpu, char *slots, size_t stride, size_t size, int slot_count,
                  size_t end)
{
    struct gpu_pins *pins = &gpu->registered.pins;
    pins->slots = slots;
    pins->stride = stride;
    pins->size = size;
    pins->slot_count = slot_count;
    size_t done = pins->count ? pins->ends[pins->count - 1] : 0;
    if (end <= done || pins->refused || !slots || gpu_enter(&gpu->device))
        return;
    size_t step = done > FIRST_STEP ? 2 * done : FIRST_STEP;
    size_t target = end > step ? (end + FIRST_STEP - 1) / FIRST_STEP * FIRST_STEP : step;
    if (target > size)
        target = (size + 4095) & ~(size_t)4095;
    if (pin_step(gpu, done, target)) {
        log_info(LOG_GPU, "the host heap is not pinned beyond %zu MiB: %s", done >> 20,
                 base_last_error());
        pins->refused = true;
    } else {
        pins->ends[pins->count++] = target;
    }
    gpu_leave(&gpu->device);
}

void gpu_unpin_heap(struct gpu *gpu)
{
    for (size_t i = 0; i < gpu->registered.pins.undo_count; i++)
        gpu->driver.MemHostUnregister(gpu->registered.pins.undo[i]);
    free(gpu->registered.pins.undo);
    gpu->registered.pins = (struct gpu_pins){0};
    if (gpu->registered_box)
        gpu->driver.MemHostUnregister(gpu->registered_box);
    gpu->registered_box = NULL;
}

static weft_status record_range(struct gpu *gpu, void *address)
{
    pthread_mutex_lock(&gpu->registered.lock);
    size_t count = gpu->registered.range_count;
    void **ranges = realloc(gpu->registered.ranges, (count + 1) * sizeof *ranges);
    if (ranges) {
        gpu->registered.ranges = ranges;
        ranges[count] = address;
        gpu->registered.range_count++;
    }
    pthread_mutex_unlock(&gpu->registered.lock);
    return ranges ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no private memory");
}

weft_status gpu_pin_range(struct gpu *gpu, void *address, size_t bytes)
{
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    CUresult result = gpu->driver.MemHostRegister(
        address, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    if (!result)
        status = record_range(gpu, address);
    if (status)
        gpu->driver.MemHostUnregister(address);
    gpu_leave(&gpu->device);
    /* PEs that are threads share mappings: another PE pinned it first and will unpin it. */
    return result && result != CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
               ? gpu_api_fail(&gpu->driver, result, "cuMemHostRegister of %zu KiB", bytes >> 10)
               : status;
}

weft_status gpu_device_pointer(struct gpu *gpu, void *address, CUdeviceptr *pointer)
{
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    CUresult result = gpu->driver.MemHostGetDevicePointer(pointer, address, 0);
    gpu_leave(&gpu->device);
    return result ? gpu_api_fail(&gpu->driver, result, "cuMemHostGetDevicePointer of %p", address)
                  : WEFT_OK;
}

/* The register of a stand-in NIC whose engine runs on a GPU lies in GPU memory. The driver accepts
 * device registers only with CU_MEMHOSTREGISTER_IOMEMORY, which it refuses for plain memory; that
 * tells the two apart. */
weft_status gpu_map_register(struct gpu *gpu, void *address, size_t bytes, CUdeviceptr *pointer,
                             enum gpu_register_kind *kind)
{
    const unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
    if (gpu_place_of(gpu, address) == GPU_PLACE_DEVICE) {
        *kind = GPU_REGISTER_MEMORY;
        *pointer = (uintptr_t)address;
        return WEFT_OK;
    }
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    *kind = GPU_REGISTER_DEVICE;
    CUresult result =
        gpu->driver.MemHostRegister(address, bytes, flags | CU_MEMHOSTREGISTER_IOMEMORY);
    if (result && result != CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) {
        *kind = GPU_REGISTER_MEMORY;
        result = gpu->driver.MemHostRegister(address, bytes, flags);
    }
    if (!result)
        status = record_range(gpu, address);
    /* Queues may share a register, so it may already be registered. */
    if (!result || result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
        result = gpu->driver.MemHostGetDevicePointer(pointer, address, 0);
    gpu_leave(&gpu->device);
    return result ? gpu_api_fail(&gpu->driver, result, "cuMemHostRegister of a register at %p",
                                 address)
                  : status;
}

void gpu_unpin_range(struct gpu *gpu, const void *base, size_t bytes)
{
    size_t kept = 0;
    if (gpu_enter(&gpu->device))
        return;
    pthread_mutex_lock(&gpu->registered.lock);
    for (size_t i = 0; i < gpu->registered.range_count; i++) {
        void *address = gpu->registered.ranges[i];
        if ((uintptr_t)address - (uintptr_t)base < bytes)
            gpu->driver.MemHostUnregister(address);
        else
            gpu->registered.ranges[kept++] = address;
    }
    gpu->registered.range_count = kept;
    if (!kept) {
        free(gpu->registered.ranges);
        gpu->registered.ranges = NULL;
    }
    pthread_mutex_unlock(&gpu->registered.lock);
    gpu_leave(&gpu->device);
}

size_t gpu_pinned_run_bytes(const struct gpu *gpu, const void *address, size_t bytes)
{
    const struct gpu_pins *pins = gpu->owner ? &gpu->owner->registered.pins : &gpu->registered.pins;
    size_t offset = (uintptr_t)address - (uintptr_t)pins->slots;
    if (!pins->count || offset >= pins->stride * (size_t)pins->slot_count)
        return bytes;
    size_t in_slot = offset % pins->stride;
    for (int i = 0; i < pins->count; i++)
        if (in_slot < pins->ends[i])
            return bytes < pins->ends[i] - in_slot ? bytes : pins->ends[i] - in_slot;
    return bytes;
}

weft_status gpu_attach_box(struct gpu *gpu, void *box, size_t bytes,
                           struct weft_dev_box *device_box)
{
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    CUresult result = gpu->driver.MemHostRegister(
        box, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    CUdeviceptr address = 0;
    if (!result) {
        gpu->registered_box = box;
        result = gpu->driver.MemHostGetDevicePointer(&address, device_box, 0);
    }
    gpu_leave(&gpu->device);
    if (result)
        return gpu_api_fail(&gpu->driver, result, "pinning the black box (%zu bytes)", bytes);
    gpu->reporting.box = (struct weft_dev_box *)(uintptr_t)address;
    gpu->reporting.limit_ns = gpu->wait_limit_ns;
    return WEFT_OK;
}
