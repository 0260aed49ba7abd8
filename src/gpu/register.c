/* SPDX-License-Identifier: Apache-2.0 */
/* See register.h. */
#include "gpu/register.h"

#include "base/status.h"
#include "boot/agree.h"

#include <stdlib.h>
#include <unistd.h>

/* ---------------------------------------------------------------------------- one PE's memory */

static weft_status fail_not_vmm(const struct gpu_heap *heap, CUresult result, const void *address)
{
    return gpu_api_refuse(
        heap->device->driver, WEFT_ERR_ADDRESS,
        "%p is not memory of cuMemCreate() (cuMemRetainAllocationHandle: error %d). Memory of "
        "cudaMalloc() cannot be mapped into the heap of GPU %d; allocate it with cuMemCreate() or "
        "weft_alloc()",
        address, (int)result, heap->device->ordinal);
}

static weft_status check_properties(const struct gpu_heap *heap, const struct gpu_own_memory *own,
                                    const void *address)
{
    const struct gpu_api *driver = heap->device->driver;
    CUmemAllocationProp properties = {0};
    CUresult result = driver->MemGetAllocationPropertiesFromHandle(&properties, own->handle);
    if (result)
        return gpu_api_fail(driver, result, "cuMemGetAllocationPropertiesFromHandle of %p",
                            address);
    if (properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        properties.location.id != heap->device->device)
        return base_fail(WEFT_ERR_UNSUPPORTED,
                         "%p is memory of location %d, type %d, but this PE's heap is on GPU %d",
                         address, properties.location.id, properties.location.type,
                         heap->device->ordinal);
    if (driver->vendor == GPU_VENDOR_AMD && properties.type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return base_fail(WEFT_ERR_UNSUPPORTED,
                         "%p is memory that other GPUs see between kernels only: create it with "
                         "hipMemAllocationTypeUncached",
                         address);
    int fd = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if (heap->boot->local_npes > 1 && !(properties.requestedHandleTypes & fd))
        return gpu_api_refuse(
            driver, WEFT_ERR_UNSUPPORTED,
            "%p was created with handle types %#x, but peers need a file descriptor: "
            "create it with CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR",
            address, (unsigned)properties.requestedHandleTypes);
    return WEFT_OK;
}

static weft_status check_range(const struct gpu_heap *heap, struct gpu_own_memory *own,
                               const void *address, size_t bytes)
{
    const struct gpu_api *driver = heap->device->driver;
    CUdeviceptr start = 0;
    CUdeviceptr at = (uintptr_t)address;
    CUresult result =
        driver->PointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at);
    if (!result)
        result = driver->PointerGetAttribute(&own->bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at);
    if (result)
        return gpu_api_fail(driver, result, "cuPointerGetAttribute of %p", address);
    own->lead = at - start;
    if (bytes <= own->bytes - own->lead)
        return WEFT_OK;
    return base_fail(WEFT_ERR_ADDRESS,
                     "%zu bytes at %p: the allocation there has %zu bytes, %zu of them from that "
                     "address on; memory of several allocations is registered in several calls",
                     bytes, address, own->bytes, own->bytes - own->lead);
}

weft_status gpu_inspect_memory(const struct gpu_heap *heap, const void *address, size_t bytes,
                               struct gpu_own_memory *own)
{
    *own = (struct gpu_own_memory){0};
    if ((uintptr_t)address - heap->reservation < heap->reserved_bytes)
        return base_fail(WEFT_ERR_ADDRESS, "%p is symmetric already", address);
    CUresult result =
        heap->device->driver->MemRetainAllocationHandle(&own->handle, (void *)(uintptr_t)address);
    if (result) {
        own->handle = 0;
        return fail_not_vmm(heap, result, address);
    }
    weft_status status = check_properties(heap, own, address);
    if (!status)
        status = check_range(heap, own, address, bytes);
    if (status)
        gpu_release_memory(heap, own);
    return status;
}

void gpu_release_memory(const struct gpu_heap *heap, struct gpu_own_memory *own)
{
    if (own->handle)
        heap->device->driver->MemRelease(own->handle);
    own->handle = 0;
}

/* -------------------------------------------------------------------------------- all windows */

/* Finds the highest free range of the windows, between the ranges registered before. The result is
 * the same at every PE, because all PEs have registered the same ranges. */
static weft_status place_registered(const struct gpu_heap *heap, size_t bytes,
                                    struct gpu_registered *registered,
                                    struct gpu_registered ***behind)
{
    struct gpu_registered **at = (struct gpu_registered **)&heap->registered;
    size_t unit = heap->unit;
    size_t need = (bytes + unit - 1) / unit * unit, end = heap->size;
    for (; *at; at = &(*at)->next) {
        size_t used = ((*at)->chunk.offset + (*at)->chunk.bytes + unit - 1) / unit * unit;
        if (end - used >= need)
            break;
        end = (*at)->chunk.offset;
    }
    if (!*at && (end < heap->backed || end - heap->backed < need))
        return base_fail(WEFT_ERR_NO_MEMORY,
                         "%zu MiB more do not fit into the GPU heap's windows of %zu MiB. The heap "
                         "uses the first %zu MiB and registered memory the rest from %zu MiB on; "
                         "set a larger WEFT_GPU_HEAP_SIZE",
                         need >> 20, heap->size >> 20, heap->backed >> 20,
                         gpu_heap_limit(heap) >> 20);
    registered->chunk.offset = end - need;
    *behind = at;
    return WEFT_OK;
}

/* Each PE in turn passes its descriptor to all others. After a failure the loop goes on, since the
 * other PEs take part in every turn. */
static weft_status exchange_memory(struct gpu_heap *heap, struct gpu_chunk *chunk, int own_fd)
{
    struct boot *boot = heap->boot;
    weft_status failed = WEFT_OK;
    for (int slot = 0; slot < boot->local_npes; slot++) {
        int received_fd = -1;
        weft_status status = boot->ops->share_fd(boot, boot->local_pes[slot], own_fd, &received_fd);
        if (status)
            return status;
        if (!failed)
            failed = gpu_heap_import(heap, slot, chunk, received_fd);
        if (received_fd >= 0 && received_fd != own_fd)
            close(received_fd);
    }
    return boot_agree(boot, failed);
}

static weft_status map_in_all_windows(struct gpu_heap *heap, struct gpu_chunk *chunk,
                                      struct gpu_own_memory *own)
{
    int fd = -1;
    weft_status status = gpu_heap_map(heap, heap->boot->local_pe, chunk, own->handle);
    if (status)
        gpu_release_memory(heap, own);
    else if (heap->boot->local_npes > 1)
        status = gpu_heap_export(heap, chunk, &fd);
    status = boot_agree(heap->boot, status);
    if (!status && heap->boot->local_npes > 1)
        status = exchange_memory(heap, chunk, fd);
    else if (!status) /* other nodes have several PEs */
        status = boot_agree(heap->boot, WEFT_OK);
    if (fd >= 0)
        close(fd);
    return status;
}

static void free_registered(struct gpu_heap *heap, struct gpu_registered *registered)
{
    for (int slot = 0; slot < heap->boot->local_npes; slot++)
        gpu_heap_unmap(heap, slot, &registered->chunk);
    free(registered->chunk.handles);
    free(registered);
}

weft_status gpu_register_memory(struct gpu_heap *heap, struct gpu_own_memory *own,
                                struct gpu_registered **result)
{
    *result = NULL;
    struct gpu_registered **behind = &heap->registered, *registered = calloc(1, sizeof *registered);
    CUmemGenericAllocationHandle *handles = calloc((size_t)heap->boot->local_npes, sizeof *handles);
    weft_status status =
        registered && handles
            ? place_registered(heap, own->bytes, registered, &behind)
            : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a registration");
    status = boot_agree(heap->boot, status);
    /* the status alone decides; the compiler cannot know */
    if (status || !registered || !handles) {
        gpu_release_memory(heap, own);
        free(handles);
        free(registered);
        return status;
    }
    registered->chunk.bytes = own->bytes;
    registered->chunk.handles = handles;
    registered->lead = own->lead;
    gpu_heap_begin_growing(heap);
    status = map_in_all_windows(heap, &registered->chunk, own);
    if (status) {
        free_registered(heap, registered);
    } else {
        pthread_mutex_lock(&heap->chunks_lock);
        registered->next = *behind;
        *behind = registered;
        pthread_mutex_unlock(&heap->chunks_lock);
        *result = registered;
    }
    gpu_heap_end_growing(heap);
    return status;
}

bool gpu_registered_holds(struct gpu_heap *heap, size_t offset, size_t bytes)
{
    bool held = false;
    pthread_mutex_lock(&heap->chunks_lock);
    for (const struct gpu_registered *a = heap->registered; a && !held; a = a->next) {
        size_t within = offset - a->chunk.offset;
        held = within < a->chunk.bytes && bytes <= a->chunk.bytes - within;
    }
    pthread_mutex_unlock(&heap->chunks_lock);
    return held;
}

struct gpu_registered *gpu_registered_find(const struct gpu_heap *heap, size_t offset)
{
    struct gpu_registered *a = heap->registered;
    while (a && a->chunk.offset + a->lead != offset)
        a = a->next;
    return a;
}

void gpu_unregister_memory(struct gpu_heap *heap, struct gpu_registered *registered)
{
    struct gpu_registered **at = &heap->registered;
    pthread_mutex_lock(&heap->chunks_lock);
    while (*at != registered)
        at = &(*at)->next;
    *at = registered->next;
    pthread_mutex_unlock(&heap->chunks_lock);
    free_registered(heap, registered);
}
