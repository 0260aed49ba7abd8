/* SPDX-License-Identifier: Apache-2.0 */
/* What a NIC needs of this PE's GPU memory: the position of physical allocations, dma-bufs of them,
 * and when data that it wrote is visible to kernels. See gpu.h. This file knows nothing of NICs
 * themselves. */
#include "gpu/gpu.h"

#include "base/status.h"

#include <stdio.h>
#include <unistd.h>

bool gpu_find_chunk(struct gpu *gpu, size_t offset, size_t *start, size_t *bytes)
{
    struct gpu_heap *heap = &gpu->heap;
    bool found = false;
    pthread_mutex_lock(&heap->chunks_lock);
    for (int i = 0; i < heap->chunk_count && !found; i++) {
        found = offset - heap->chunks[i].offset < heap->chunks[i].bytes;
        *start = heap->chunks[i].offset;
        *bytes = heap->chunks[i].bytes;
    }
    pthread_mutex_unlock(&heap->chunks_lock);
    return found;
}

static void add_extent(const struct gpu_chunk *chunk, struct gpu_extent *list, size_t most,
                       size_t *n)
{
    if (*n < most)
        list[*n] = (struct gpu_extent){chunk->offset, chunk->bytes};
    ++*n;
}

size_t gpu_list_extents(struct gpu *gpu, struct gpu_extent *list, size_t most)
{
    struct gpu_heap *heap = &gpu->heap;
    size_t n = 0;
    pthread_mutex_lock(&heap->chunks_lock);
    for (int i = 0; i < heap->chunk_count; i++)
        add_extent(&heap->chunks[i], list, most, &n);
    for (const struct gpu_registered *a = heap->registered; a; a = a->next)
        add_extent(&a->chunk, list, most, &n);
    pthread_mutex_unlock(&heap->chunks_lock);
    return n;
}

bool gpu_peermem_is_loaded(void)
{
    return access("/sys/module/nvidia_peermem", F_OK) == 0 ||
           access("/sys/module/nv_peer_mem", F_OK) == 0;
}

weft_status gpu_export_dmabuf(struct gpu *gpu, CUdeviceptr at, size_t bytes, int *fd)
{
    *fd = -1;
    if (!gpu->driver.MemGetHandleForAddressRange)
        return base_fail(WEFT_ERR_UNSUPPORTED,
                         "this CUDA driver has no cuMemGetHandleForAddressRange; CUDA 11.7 has");
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    CUresult result = gpu->driver.MemGetHandleForAddressRange(
        fd, at, bytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    gpu_leave(&gpu->device);
    return result ? gpu_api_fail(&gpu->driver, result, "cuMemGetHandleForAddressRange of %zu KiB",
                                 bytes >> 10)
                  : WEFT_OK;
}

enum gpu_nic_writes gpu_nic_writes(struct gpu *gpu)
{
    int ordering = 0, options = 0;
    const struct gpu_api *driver = &gpu->driver;
    if (!driver->DeviceGetAttribute(&ordering, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING,
                                    gpu->device.device) &&
        ordering >= CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES)
        return GPU_NIC_WRITES_ORDERED;
    bool flushes = driver->FlushGPUDirectRDMAWrites &&
                   !driver->DeviceGetAttribute(
                       &options, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS,
                       gpu->device.device) &&
                   options & CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST;
    return flushes ? GPU_NIC_WRITES_FLUSHED : GPU_NIC_WRITES_UNORDERED;
}

bool gpu_sees_nic_writes(struct gpu *gpu)
{
    int ordering = 0;
    return !gpu->driver.DeviceGetAttribute(&ordering,
                                           CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING,
                                           gpu->device.device) &&
           ordering >= CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
}

weft_status gpu_flush_nic_writes(struct gpu *gpu)
{
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    CUresult result =
        gpu->driver.FlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                             CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES);
    gpu_leave(&gpu->device);
    return result ? gpu_api_fail(&gpu->driver, result, "cuFlushGPUDirectRDMAWrites on GPU %d",
                                 gpu->device.ordinal)
                  : WEFT_OK;
}
