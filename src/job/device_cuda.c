/* SPDX-License-Identifier: Apache-2.0 */
/* The device view on target cuda: addresses of the GPU heap, the pinned part of the host heap, the
 * team areas and the tables. */
#include "job/device_state.h"

#include "base/log.h"
#include "gpu/gpu.h"
#include "gpu/map/map.h"

#include <stdlib.h>
#include <string.h>

struct cuda_view {
    struct device_view view; /* must be first: the functions get its address */
    struct weft_job *job;
    struct gpu *gpu;
    void **tables; /* device memory to free at the end */
    size_t table_count;
    void *shared;              /* pinned */
    struct gpu_map_extra near; /* 0 bytes: not used */
    struct gpu_map_user near_user;
};

static struct cuda_view *cuda_view_of(struct device_view *view)
{
    return (struct cuda_view *)view;
}

static size_t library_bytes(const struct gpu *gpu)
{
    return gpu->layout.system_bytes;
}

/* Size of the whole window: memory is added as the heap grows, so the device state never
 * changes. */
static size_t cuda_segment_bytes(struct device_view *view, enum weft_dev_segment_id segment)
{
    struct cuda_view *cuda = cuda_view_of(view);
    if (segment == WEFT_DEV_HEAP)
        return cuda->gpu->heap.size - library_bytes(cuda->gpu);
    if (segment == WEFT_DEV_OTHER && !cuda->gpu->registered.pins.refused)
        return cuda->job->segments[SEG_HEAP].size;
    return 0;
}

/* Slot of the peer's window of the GPU heap; -1: device code cannot access it. The own window is
 * always accessible, whatever path a test chose. */
static int direct_slot(const struct cuda_view *cuda, int pe)
{
    bool direct = pe == cuda->job->pe || job_direct(cuda->job, WEFT_GPU, pe);
    return direct ? cuda->gpu->slot_of[pe] : -1;
}

static uint64_t cuda_part(struct device_view *view, enum weft_dev_segment_id segment, int pe)
{
    struct cuda_view *cuda = cuda_view_of(view);
    if (segment == WEFT_DEV_OTHER)
        return pe == cuda->job->pe || job_direct(cuda->job, WEFT_HOST, pe)
                   /* CPU and GPU use the same address */
                   ? (uintptr_t)cuda->job->paths.map[pe][SEG_HEAP]
                   : 0;
    int slot = direct_slot(cuda, pe);
    return segment != WEFT_DEV_HEAP || slot < 0
               ? 0
               : gpu_address(cuda->gpu, slot, library_bytes(cuda->gpu));
}

static uint64_t cuda_areas(struct device_view *view, int pe)
{
    struct gpu *gpu = cuda_view_of(view)->gpu;
    int slot = direct_slot(cuda_view_of(view), pe);
    return slot < 0 ? 0 : gpu_address(gpu, slot, gpu->layout.areas_offset);
}

/* A pair whose atomics fail the path test is not mapped at all. */
static bool cuda_atomics(struct device_view *view, int pe)
{
    const struct weft_job *job = cuda_view_of(view)->job;
    return job_direct(job, WEFT_GPU, pe) && job->paths.atomics[WEFT_GPU] == PATH_NONE &&
           job->paths.atomics[WEFT_HOST] == PATH_NONE;
}

static weft_status cuda_table_make(struct device_view *view, size_t bytes, void **table)
{
    struct cuda_view *cuda = cuda_view_of(view);
    CUdeviceptr address = 0;
    void **tables = realloc(cuda->tables, (cuda->table_count + 1) * sizeof *tables);
    if (!tables)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a table");
    cuda->tables = tables;
    weft_status status = gpu_alloc(cuda->gpu, bytes, &address);
    if (status)
        return status;
    *table = (void *)(uintptr_t)address;
    cuda->tables[cuda->table_count++] = *table;
    return WEFT_OK;
}

static weft_status cuda_shared_make(struct device_view *view, size_t bytes, void **host,
                                    uint64_t *seen)
{
    struct cuda_view *cuda = cuda_view_of(view);
    struct gpu *gpu = cuda->gpu;
    CUdeviceptr address = 0;
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    CUresult result =
        gpu->driver.MemHostAlloc(host, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    if (!result) {
        cuda->shared = *host;
        memset(*host, 0, bytes);
        result = gpu->driver.MemHostGetDevicePointer(&address, *host, 0);
    }
    gpu_leave(&gpu->device);
    *seen = address;
    return result ? gpu_api_fail(&gpu->driver, result, "%zu bytes of pinned memory for the proxy",
                                 bytes)
                  : WEFT_OK;
}

/* Optional: without this memory device code polls host memory over PCIe. */
static bool cuda_near_make(struct device_view *view, size_t bytes, void **mapped, uint64_t *device)
{
    struct cuda_view *cuda = cuda_view_of(view);
    struct gpu *gpu = cuda->gpu;
    struct gpu_map *map = gpu->heap.map;
    struct gpu_map_extra extra;
    if (!gpu_map_works(map) || gpu_enter(&gpu->device))
        return false;
    weft_status status = gpu_map_extra_make(gpu, bytes, &extra);
    if (!status) {
        void *at = (void *)(uintptr_t)extra.at;
        status = gpu_fill(gpu, at, 0, bytes);
        if (!status)
            status = gpu_map_own(map, at, bytes, &cuda->near_user);
        if (status)
            gpu_map_extra_free(gpu, &extra);
    }
    gpu_leave(&gpu->device);
    if (status) {
        log_info(LOG_JOB, "the proxy's counters are in host memory: %s", base_last_error());
        return false;
    }
    cuda->near = extra;
    *mapped = cuda->near_user.at;
    *device = extra.at;
    return true;
}

static void free_near_memory(struct cuda_view *cuda)
{
    if (!cuda->near.bytes || gpu_enter(&cuda->gpu->device))
        return;
    gpu_map_own_end(cuda->gpu->heap.map, &cuda->near_user);
    gpu_map_own_forget(cuda->gpu->heap.map, (void *)(uintptr_t)cuda->near.at, cuda->near.bytes);
    gpu_map_extra_free(cuda->gpu, &cuda->near);
    gpu_leave(&cuda->gpu->device);
}

static weft_status cuda_table_write(struct device_view *view, void *table, size_t offset,
                                    const void *from, size_t bytes)
{
    return gpu_copy(cuda_view_of(view)->gpu, 0, (char *)table + offset, from, bytes, GPU_DONE);
}

/* Of a module whose state is at that address. */
static weft_status check_module_gpu(struct gpu *gpu, CUdeviceptr state)
{
    int ordinal = 0;
    if (gpu->driver.PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, state) ||
        ordinal == gpu->device.device)
        return WEFT_OK;
    return gpu_api_refuse(
        &gpu->driver, WEFT_ERR_ARGUMENT,
        "weft_module_init: the module is loaded on GPU %d, but this PE uses GPU %d (%s); load it "
        "after cudaSetDevice(%d)",
        ordinal, (int)gpu->device.device, gpu->device.name, (int)gpu->device.device);
}

static weft_status cuda_module_symbol(struct device_view *view, void *module, const char *name,
                                      uint64_t *address, size_t *bytes)
{
    struct gpu *gpu = cuda_view_of(view)->gpu;
    CUdeviceptr found = 0;
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    CUresult result = gpu->driver.ModuleGetGlobal(&found, bytes, module, name);
    if (!result)
        status = check_module_gpu(gpu, found);
    gpu_leave(&gpu->device);
    *address = found;
    return result ? gpu_api_fail(&gpu->driver, result,
                                 "cuModuleGetGlobal(%s): a module that uses no device operation of "
                                 "Weft has no state, and needs none",
                                 name)
                  : status;
}

static weft_status cuda_symbol_write(struct device_view *view, uint64_t address, const void *from,
                                     size_t bytes)
{
    return gpu_copy(cuda_view_of(view)->gpu, 0, (void *)(uintptr_t)address, from, bytes, GPU_DONE);
}

static void cuda_view_close(struct device_view *view)
{
    struct cuda_view *cuda = cuda_view_of(view);
    free_near_memory(cuda);
    for (size_t i = 0; i < cuda->table_count; i++)
        gpu_free(cuda->gpu, (uintptr_t)cuda->tables[i]);
    if (cuda->shared && gpu_enter(&cuda->gpu->device) == WEFT_OK) {
        cuda->gpu->driver.MemFreeHost(cuda->shared);
        gpu_leave(&cuda->gpu->device);
    }
    free(cuda->tables);
    free(cuda);
}

weft_status device_view_cuda(struct weft_job *job, struct device_view **result)
{
    *result = NULL;
    weft_status status = job_gpu_open(job);
    if (status)
        return status;
    struct cuda_view *cuda = calloc(1, sizeof *cuda);
    if (!cuda)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for the view of device code");
    cuda->job = job;
    cuda->gpu = job->gpu;
    cuda->view = (struct device_view){
        .cuda = true,
        .ordinal = job->gpu->device.ordinal,
        .segment_bytes = cuda_segment_bytes,
        .part = cuda_part,
        .areas = cuda_areas,
        .atomics = cuda_atomics,
        .table_make = cuda_table_make,
        .table_write = cuda_table_write,
        .shared_make = cuda_shared_make,
        .near_make = cuda_near_make,
        .box = job->gpu->reporting.box,
        .tickets = job->gpu->reporting.tickets,
        .module_symbol = cuda_module_symbol,
        .symbol_write = cuda_symbol_write,
        .close = cuda_view_close,
    };
    *result = &cuda->view;
    return WEFT_OK;
}
