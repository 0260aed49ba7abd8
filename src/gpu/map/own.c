/* SPDX-License-Identifier: Apache-2.0 */
/* CPU mappings of memory of the program. The driver takes longer to export such memory than to map
 * it, and longer to remove a mapping than to create one. So a limited number of mappings is kept
 * for the next caller. Each call queries the driver for the identity of the memory, so that a kept
 * mapping is not used for other memory at the same address. See map.h. */
#include "gpu/gpu.h"
#include "gpu/map/backend.h"

#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    IDLE_LEAST = 64 << 20,  /* bytes kept when the size of BAR1 is not known */
    IDLE_LARGEST = 1 << 30, /* bytes kept at most */
    /* the kept mappings get 1/8 of BAR1, which other processes need as well */
    IDLE_SHARE = 8,
    IDLE_COUNT = 64, /* mappings kept at most */
};

/* ------------------------------------------------------------------------ identity of memory */

/* An allocation and its identity. */
struct allocation {
    CUdeviceptr start;
    size_t bytes;
    CUmemGenericAllocationHandle handle; /* retained; 0: not memory of cuMemCreate() */
    unsigned long long number;
};

static weft_status query_range(struct gpu *gpu, const void *address, struct allocation *allocation)
{
    const struct gpu_api *driver = &gpu->driver;
    uintptr_t at = (uintptr_t)address;
    int ordinal = -1;
    *allocation = (struct allocation){0};
    CUresult result =
        driver->PointerGetAttribute(&allocation->start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at);
    if (!result)
        result =
            driver->PointerGetAttribute(&allocation->bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at);
    if (!result)
        result = driver->PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at);
    if (!result && ordinal != gpu->device.ordinal)
        return base_fail(WEFT_ERR_UNSUPPORTED,
                         "%p is memory of GPU %d, but this PE maps only memory of its own GPU %d",
                         address, ordinal, gpu->device.ordinal);
    if (!result && (!driver->MemRetainAllocationHandle ||
                    driver->MemRetainAllocationHandle(&allocation->handle, (void *)at))) {
        allocation->handle = 0;
        result =
            driver->PointerGetAttribute(&allocation->number, CU_POINTER_ATTRIBUTE_BUFFER_ID, at);
    }
    return result ? gpu_api_fail(driver, result, "cuPointerGetAttribute of %p", address) : WEFT_OK;
}

/* Handles are held while mapped, so equal handles mean the same allocation. */
static bool matches_range(const struct map_memory *memory, const struct allocation *allocation)
{
    return !memory->stale && memory->start == allocation->start &&
           memory->number == allocation->number && memory->handle == allocation->handle;
}

/* ------------------------------------------------------------------------------------ unmapping */

static void drop_user_memory(struct gpu_map *map, struct map_memory *memory)
{
    struct map_memory **at = &map->own;
    while (*at != memory)
        at = &(*at)->next;
    *at = memory->next;
    map->backend->forget(map, memory);
    if (memory->handle)
        map->gpu->driver.MemRelease(memory->handle);
    free(memory);
}

/* Unmaps a piece that is not counted as idle. */
static void drop_piece(struct gpu_map *map, struct map_piece *piece)
{
    struct map_memory *memory = piece->memory;
    struct map_piece **at = &memory->pieces;
    char *address = piece->at;
    size_t bytes = piece->bytes;
    while (*at != piece)
        at = &(*at)->next;
    *at = piece->next;
    map->backend->unmap(map, piece);
    munmap(address, bytes);
    free(piece);
    if (!memory->pieces && !memory->busy)
        drop_user_memory(map, memory);
}

static void drop_idle(struct gpu_map *map, struct map_piece *piece)
{
    map->idle_bytes -= piece->bytes;
    map->idle_count--;
    drop_piece(map, piece);
}

static struct map_piece *find_oldest_idle(const struct gpu_map *map)
{
    struct map_piece *oldest = NULL;
    for (const struct map_memory *memory = map->own; memory; memory = memory->next)
        for (struct map_piece *piece = memory->pieces; piece; piece = piece->next)
            if (!piece->users && (!oldest || piece->used < oldest->used))
                oldest = piece;
    return oldest;
}

bool map_own_trim(struct gpu_map *map, size_t bytes)
{
    bool any = false;
    while (map->idle_count > IDLE_COUNT || map->idle_bytes > bytes) {
        drop_idle(map, find_oldest_idle(map));
        any = true;
    }
    return any;
}

static void drop_idle_of(struct gpu_map *map, struct map_memory *memory)
{
    struct map_piece *next;
    for (struct map_piece *piece = memory->pieces; piece; piece = next) {
        next = piece->next; /* read before drop_idle(), which may free the memory */
        if (!piece->users)
            drop_idle(map, piece);
    }
}

void gpu_map_own_forget(struct gpu_map *map, const void *address, size_t bytes)
{
    uintptr_t from = (uintptr_t)address;
    struct map_memory *next;
    if (!gpu_map_works(map))
        return;
    pthread_mutex_lock(&map->lock);
    for (struct map_memory *memory = map->own; memory; memory = next) {
        next = memory->next;
        if (memory->address >= from + bytes || from >= memory->address + memory->bytes)
            continue;
        memory->stale = true;
        drop_idle_of(map, memory);
    }
    pthread_mutex_unlock(&map->lock);
}

/* -------------------------------------------------------------------------------------- mapping */

/* Reads the size of BAR1, the second region of the device, and returns the bytes of mappings to
 * keep. */
static size_t read_idle_limit(const char *bus_id)
{
    char name[96], line[128];
    unsigned long long first = 0, last = 0, bytes = 0;
    snprintf(name, sizeof name, "/sys/bus/pci/devices/%s/resource", bus_id);
    FILE *file = fopen(name, "re");
    for (int region = 0; file && region < 2 && fgets(line, sizeof line, file); region++)
        if (region == 1 && sscanf(line, "%llx %llx", &first, &last) == 2 && last > first)
            bytes = (last - first + 1) / IDLE_SHARE;
    if (file)
        fclose(file);
    if (!bytes)
        return IDLE_LEAST;
    return bytes < IDLE_LARGEST ? (size_t)bytes : IDLE_LARGEST;
}

static struct map_memory *find_known_memory(const struct gpu_map *map,
                                            const struct allocation *allocation)
{
    struct map_memory *memory = map->own;
    while (memory && !matches_range(memory, allocation))
        memory = memory->next;
    return memory;
}

/* Takes ownership of the range's handle. */
static struct map_memory *add_memory(struct gpu_map *map, struct allocation *allocation)
{
    struct map_memory *memory = calloc(1, sizeof *memory);
    size_t lead = allocation->start % MAP_PAGE_BYTES;
    if (!memory)
        return NULL;
    *memory = (struct map_memory){.next = map->own,
                                  .slot = -1,
                                  .bytes = (lead + allocation->bytes + MAP_PAGE_BYTES - 1) /
                                           MAP_PAGE_BYTES * MAP_PAGE_BYTES,
                                  .bus_id = map->gpu->device.bus_id,
                                  .address = allocation->start - lead,
                                  .start = allocation->start,
                                  .number = allocation->number,
                                  .handle = allocation->handle,
                                  .dmabuf = -1,
                                  .pending_fd = -1};
    allocation->handle = 0;
    map->own = memory;
    return memory;
}

static struct map_piece *find_covering_piece(struct map_memory *memory, size_t offset, size_t bytes)
{
    struct map_piece *piece = memory->pieces;
    while (piece && (offset < piece->offset || bytes > piece->bytes ||
                     offset - piece->offset > piece->bytes - bytes))
        piece = piece->next;
    return piece;
}

/* Compares what the CPU loads from the mapping with what the GPU reads, to detect a mapping of
 * other memory. A kernel that writes there may also cause a difference, so the comparison is
 * repeated. */
static weft_status compare_mapping(struct gpu_map *map, const char *mapped, const void *address,
                                   size_t bytes)
{
    enum { TRIES = 8, MOST = 64 }; /* MOST: bytes compared */
    unsigned char engine[MOST], cpu[MOST];
    size_t now = bytes < MOST ? bytes : MOST;
    for (int i = 0; i < TRIES; i++) {
        weft_status status = gpu_copy(map->gpu, 0, engine, address, now, GPU_DONE);
        if (status)
            return status;
        wc_load(cpu, mapped, now);
        if (memcmp(engine, cpu, now) == 0)
            return WEFT_OK;
    }
    return base_fail(
        WEFT_ERR_UNSUPPORTED,
        "%zu bytes of cudaMalloc() at %p differ from what the CPU loads from their mapping; "
        "unless a kernel writes there, this driver uses another handle format",
        now, address);
}

static weft_status compare_ends(struct gpu_map *map, const char *mapped, const char *address,
                                size_t bytes)
{
    size_t tail = bytes > 64 ? bytes - 64 : 0;
    weft_status status = compare_mapping(map, mapped, address, bytes);
    return status || !tail ? status
                           : compare_mapping(map, mapped + tail, address + tail, bytes - tail);
}

static weft_status map_piece(struct gpu_map *map, struct map_memory *memory, size_t offset,
                             size_t bytes, struct map_piece **result)
{
    struct map_piece *piece = calloc(1, sizeof *piece);
    char *at = piece ? map_reserve(bytes) : NULL;
    weft_status status =
        at ? map_range_or_trim(map, memory, offset, bytes, at, piece)
           : base_fail(WEFT_ERR_NO_MEMORY, "cannot reserve %zu bytes of CPU addresses", bytes);
    if (status) {
        if (at)
            munmap(at, bytes);
        free(piece);
        return status;
    }
    piece->memory = memory;
    piece->offset = offset;
    piece->next = memory->pieces;
    memory->pieces = piece;
    *result = piece;
    return WEFT_OK;
}

/* Maps [offset, offset + whole) of the memory, whose `bytes` at `address` the caller needs. */
static weft_status map_and_compare(struct gpu_map *map, struct map_memory *memory, size_t offset,
                                   size_t whole, const char *address, size_t bytes,
                                   struct map_piece **piece)
{
    memory->busy = true; /* its idle mappings may be removed to make room */
    weft_status status = map_piece(map, memory, offset, whole, piece);
    memory->busy = false;
    if (status) {
        if (!memory->pieces)
            drop_user_memory(map, memory);
        return status == WEFT_ERR_NO_MEMORY
                   ? status
                   : base_fail_context(WEFT_ERR_UNSUPPORTED, "%s", map->backend->what);
    }
    size_t lead = (uintptr_t)address - memory->address - offset;
    if (memory->number)
        status = compare_ends(map, (*piece)->at + lead, address, bytes);
    if (status)
        drop_piece(map, *piece);
    return status;
}

/* The caller holds the lock. */
static weft_status find_or_map(struct gpu_map *map, struct allocation *allocation,
                               const char *address, size_t bytes, struct map_piece **piece)
{
    struct map_memory *memory = find_known_memory(map, allocation);
    if (!memory)
        memory = add_memory(map, allocation);
    if (!memory)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a mapping");
    size_t offset = (uintptr_t)address - memory->address,
           first = offset / MAP_PAGE_BYTES * MAP_PAGE_BYTES;
    size_t whole = (offset + bytes - first + MAP_PAGE_BYTES - 1) / MAP_PAGE_BYTES * MAP_PAGE_BYTES;
    weft_status status = WEFT_OK;
    *piece = find_covering_piece(memory, first, whole);
    if (!*piece) {
        status = map_and_compare(map, memory, first, whole, address, bytes, piece);
    } else if (!(*piece)->users) {
        map->idle_bytes -= (*piece)->bytes;
        map->idle_count--;
    }
    if (!status)
        (*piece)->users++;
    return status;
}

weft_status gpu_map_own(struct gpu_map *map, const void *address, size_t bytes,
                        struct gpu_map_user *user)
{
    struct allocation allocation;
    struct map_piece *piece = NULL;
    weft_status status = query_range(map->gpu, address, &allocation);
    if (status)
        return status;
    size_t offset = (uintptr_t)address - allocation.start;
    if (offset > allocation.bytes || bytes > allocation.bytes - offset)
        status = base_fail(WEFT_ERR_RANGE,
                           "%zu bytes at %p: the allocation there has %zu bytes, %zu of them from "
                           "that address on",
                           bytes, address, allocation.bytes, allocation.bytes - offset);
    if (!status) {
        pthread_mutex_lock(&map->lock);
        status = find_or_map(map, &allocation, address, bytes, &piece);
        pthread_mutex_unlock(&map->lock);
    }
    if (allocation.handle)
        map->gpu->driver.MemRelease(allocation.handle);
    if (status)
        return status;
    *user = (struct gpu_map_user){
        .at = piece->at + ((uintptr_t)address - piece->memory->address - piece->offset),
        .address = (uintptr_t)address,
        .bytes = bytes,
        .memory = piece->memory,
        .piece = piece};
    return WEFT_OK;
}

void gpu_map_own_end(struct gpu_map *map, struct gpu_map_user *user)
{
    struct map_piece *piece = user->piece;
    if (!user->memory)
        return;
    pthread_mutex_lock(&map->lock);
    if (!map->idle_most)
        map->idle_most = read_idle_limit(map->gpu->device.bus_id);
    if (--piece->users == 0) {
        if (piece->memory->stale) {
            drop_piece(map, piece);
        } else {
            piece->used = ++map->uses;
            map->idle_bytes += piece->bytes;
            map->idle_count++;
            map_own_trim(map, map->idle_most);
        }
    }
    pthread_mutex_unlock(&map->lock);
    user->memory = NULL;
}
