/* SPDX-License-Identifier: Apache-2.0 */
/* Maps memory of cudaMalloc() through the driver's resource interface. CUDA exports no such memory,
 * but the handle for sharing it between processes (cuIpcGetMemHandle) contains the driver's object
 * number. The position of that number in the handle is not documented. So it is first tested on
 * memory of the library, and nothing is stored through a mapping before data that the GPU wrote was
 * found there. */
#include "gpu/gpu.h"
#include "gpu/map/backend.h"

#include "base/log.h"
#include "base/status.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { TEST_BYTES = 4096 };

/* Positions of 32-bit words in the handle (as in driver 580). */
enum { WORD_OFFSET = 7, WORD_CLIENT = 12, WORD_OBJECT = 13, WORDS = 16 };

static weft_status duplicate_object(struct gpu_map *map, struct map_memory *memory)
{
    const struct gpu_api *driver = &map->gpu->driver;
    CUipcMemHandle handle;
    uint32_t words[WORDS];
    _Static_assert(sizeof words == sizeof handle, "a handle has 64 bytes");
    weft_status status = gpu_enter(&map->gpu->device);
    if (status)
        return status;
    CUresult result = driver->IpcGetMemHandle ? driver->IpcGetMemHandle(&handle, memory->start)
                                              : CUDA_ERROR_NOT_SUPPORTED;
    gpu_leave(&map->gpu->device);
    if (result)
        return gpu_api_fail(
            driver, result,
            "cuIpcGetMemHandle of %#llx (memory of cudaMalloc() and cuMemCreate() can be "
            "mapped, that of cudaMallocAsync() and cudaMallocManaged() cannot)",
            memory->start);
    memcpy(words, &handle, sizeof words);
    size_t lead = memory->start - memory->address;
    if (words[WORD_OFFSET] % MAP_PAGE_BYTES != lead)
        return base_fail(WEFT_ERR_UNSUPPORTED,
                         "cuIpcGetMemHandle of %#llx gives the offset %#x: this driver uses "
                         "another handle format",
                         memory->start, words[WORD_OFFSET]);
    status =
        rm_duplicate(map->rm, memory->bus_id, words[WORD_CLIENT], words[WORD_OBJECT], &memory->rm);
    memory->inside = words[WORD_OFFSET] - lead;
    return status;
}

static weft_status test_mapping(struct gpu_map *map, struct map_memory *memory)
{
    size_t lead = memory->start - memory->address;
    struct rm_mapping mapping = {0};
    char *at = map_reserve(memory->bytes);
    if (!at)
        return base_fail(WEFT_ERR_NO_MEMORY, "cannot reserve %zu bytes of CPU addresses",
                         memory->bytes);
    weft_status status = rm_map(map->rm, &memory->rm, memory->inside, memory->bytes, at, &mapping);
    if (!status) {
        status = map_test_load(map->gpu, at + lead, memory->start, GPU_MAP_TEST_BYTES);
        if (!status)
            status = map_test_store(map->gpu, at + lead, memory->start, GPU_MAP_TEST_BYTES);
        rm_unmap(map->rm, &mapping, 1);
    }
    munmap(at, memory->bytes);
    return status;
}

static weft_status test_allocation(struct gpu_map *map, CUdeviceptr at)
{
    size_t lead = at % MAP_PAGE_BYTES;
    struct map_memory memory = {.bytes = (lead + TEST_BYTES + MAP_PAGE_BYTES - 1) / MAP_PAGE_BYTES *
                                         MAP_PAGE_BYTES,
                                .bus_id = map->gpu->device.bus_id,
                                .start = at,
                                .address = at - lead};
    weft_status status = duplicate_object(map, &memory);
    if (!status)
        status = test_mapping(map, &memory);
    rm_release(map->rm, &memory.rm);
    return status;
}

/* Tests two small allocations, so that one of them does not begin where the driver's object begins.
 * WEFT_ERR_SYSTEM: no memory for the test, which decides nothing. */
static weft_status test_handle_layout(struct gpu_map *map)
{
    const struct gpu_api *driver = &map->gpu->driver;
    CUdeviceptr areas[2] = {0};
    weft_status status = gpu_enter(&map->gpu->device);
    if (status)
        return status;
    CUresult result = driver->MemAlloc(&areas[0], TEST_BYTES);
    if (!result)
        result = driver->MemAlloc(&areas[1], TEST_BYTES);
    if (result) {
        gpu_api_fail(driver, result, "cuMemAlloc of %d bytes to test mappings with", TEST_BYTES);
        status = WEFT_ERR_SYSTEM;
    }
    for (int i = 0; i < 2 && !status; i++) {
        status = test_allocation(map, areas[i]);
        status = status == WEFT_ERR_SYSTEM ? WEFT_ERR_UNSUPPORTED : status;
    }
    for (int i = 0; i < 2; i++)
        if (areas[i])
            driver->MemFree(areas[i]);
    gpu_leave(&map->gpu->device);
    return status;
}

weft_status map_plain_import(struct gpu_map *map, struct map_memory *memory)
{
    if (map->plain == GPU_MAP_UNTRIED) {
        weft_status status = test_handle_layout(map);
        if (status == WEFT_ERR_SYSTEM || status == WEFT_ERR_NO_MEMORY)
            return status;
        map->plain = status ? GPU_MAP_REFUSED : GPU_MAP_PROVEN;
        if (status)
            snprintf(map->why_plain, sizeof map->why_plain, "%s", base_last_error());
        log_info(LOG_GPU, "CPU mapping of cudaMalloc() memory: %s",
                 status ? map->why_plain : "works");
    }
    if (map->plain == GPU_MAP_REFUSED)
        return base_fail(
            WEFT_ERR_UNSUPPORTED,
            "memory of cudaMalloc() cannot be mapped here: %s; memory of cuMemCreate() "
            "and weft_alloc() can",
            map->why_plain);
    return duplicate_object(map, memory);
}
