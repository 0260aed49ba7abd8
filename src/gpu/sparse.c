/* SPDX-License-Identifier: Apache-2.0 */
/* See sparse.h. */
#include "gpu/sparse.h"

#include "base/status.h"
#include "gpu/gpu.h"

#include <stdlib.h>

weft_status gpu_sparse_open(struct gpu *gpu, size_t bytes, struct gpu_sparse *table)
{
    const size_t page = gpu->heap.granularity, count = (bytes + page - 1) / page;
    *table = (struct gpu_sparse){.bytes = count * page, .page = page};
    table->pages = calloc(count, sizeof *table->pages);
    if (!table->pages)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a table of %zu MiB",
                         table->bytes >> 20);
    CUresult result = gpu->driver.MemAddressReserve(&table->base, table->bytes, 0, 0, 0);
    if (!result)
        return WEFT_OK;
    free(table->pages);
    *table = (struct gpu_sparse){0};
    return gpu_api_fail(&gpu->driver, result, "cuMemAddressReserve of %zu MiB", count * page >> 20);
}

static CUresult map_page(const struct gpu *gpu, const struct gpu_sparse *table, size_t i)
{
    const struct gpu_api *driver = &gpu->driver;
    const CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, gpu->device.device}};
    const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, gpu->device.device},
                                    CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    const CUdeviceptr at = table->base + i * table->page;
    CUmemGenericAllocationHandle handle = 0;
    CUresult result = driver->MemCreate(&handle, table->page, &properties, 0);
    if (result)
        return result;
    result = driver->MemMap(at, table->page, 0, handle, 0);
    if (!result) {
        result = driver->MemSetAccess(at, table->page, &access, 1);
        if (result)
            driver->MemUnmap(at, table->page);
    }
    if (result)
        driver->MemRelease(handle);
    else
        table->pages[i] = handle;
    return result;
}

static void unmap_page(const struct gpu *gpu, struct gpu_sparse *table, size_t i)
{
    gpu->driver.MemUnmap(table->base + i * table->page, table->page);
    gpu->driver.MemRelease(table->pages[i]);
    table->pages[i] = 0;
}

/* Zeros are copied there: filling memory would wait for running kernels. */
static weft_status add_page(struct gpu *gpu, unsigned stream_index, struct gpu_sparse *table,
                            size_t i, const void *zeros)
{
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    CUresult result = map_page(gpu, table, i);
    gpu_leave(&gpu->device);
    if (result)
        return gpu_api_fail(&gpu->driver, result, "%zu KiB of GPU memory for a table",
                            table->page >> 10);
    status = gpu_copy(gpu, stream_index, (void *)(uintptr_t)(table->base + i * table->page), zeros,
                      table->page, GPU_DONE);
    if (status)
        unmap_page(gpu, table, i);
    return status;
}

weft_status gpu_sparse_back(struct gpu *gpu, unsigned stream_index, struct gpu_sparse *table,
                            size_t at, size_t bytes)
{
    void *zeros = NULL;
    weft_status status = WEFT_OK;
    for (size_t i = at / table->page; i * table->page < at + bytes && !status; i++) {
        if (table->pages[i])
            continue;
        zeros = zeros ? zeros : calloc(1, table->page);
        status = zeros ? add_page(gpu, stream_index, table, i, zeros)
                       : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a table");
    }
    free(zeros);
    return status;
}

void gpu_sparse_close(struct gpu *gpu, struct gpu_sparse *table)
{
    if (!table->base)
        return;
    for (size_t i = 0; i < table->bytes / table->page; i++)
        if (table->pages[i])
            unmap_page(gpu, table, i);
    gpu->driver.MemAddressFree(table->base, table->bytes);
    free(table->pages);
    *table = (struct gpu_sparse){0};
}
