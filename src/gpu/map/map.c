/* SPDX-License-Identifier: Apache-2.0 */
/* See map.h. */
#include "gpu/gpu.h"
#include "gpu/map/backend.h"

#include "base/config.h"
#include "base/log.h"
#include "base/status.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    MAP_AUTO_CHOICE,
    MAP_NONE_CHOICE = 4
}; /* values of WEFT_MAP; the backends are between them, in their order */

/* ---------------------------------------------------------------------------------- addresses */

char *map_reserve(size_t bytes)
{
    char *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

void map_unmap_to_reserved(char *at, size_t bytes)
{
    (void)mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
               0);
}

bool gpu_map_locate(const struct gpu *gpu, const void *address, int *slot, size_t *offset)
{
    size_t at = (uintptr_t)address - gpu->heap.reservation;
    if (!gpu->heap.size || at >= gpu->heap.reserved_bytes)
        return false;
    *slot = gpu->boot->local_pe;
    *offset = at - (size_t)*slot * gpu->heap.size;
    if (*offset < gpu->heap.size) /* usually the own window: avoids a division */
        return true;
    *slot = (int)(at / gpu->heap.size);
    *offset = at % gpu->heap.size;
    return true;
}

char *gpu_map_test_area(const struct gpu_map *map, int slot)
{
    const struct gpu *gpu = map->gpu;
    return map->windows[slot].base + gpu->layout.map_test_offset +
           (size_t)gpu->boot->pe * GPU_MAP_TEST_BYTES;
}

/* ------------------------------------------------------------------------------------- pieces */

struct map_memory *map_memory_at(const struct gpu_map *map, int slot, size_t offset)
{
    struct map_memory *memory = map->memories;
    while (memory && (memory->slot != slot || offset - memory->offset >= memory->bytes))
        memory = memory->next;
    return memory;
}

static void mark_granules(struct gpu_map_window *window, const struct gpu_map *map, size_t offset,
                          size_t bytes, unsigned char ready)
{
    size_t end = (offset + bytes - 1) >> map->shift;
    /* Release: pairs with the acquire in gpu_map_at(). */
    for (size_t granule = offset >> map->shift; granule <= end; granule++)
        atomic_store_explicit(&window->ready[granule], ready, memory_order_release);
}

weft_status map_range_or_trim(struct gpu_map *map, struct map_memory *memory, size_t offset,
                              size_t bytes, char *at, struct map_piece *piece)
{
    weft_status status = map->backend->map(map, memory, offset, bytes, at, piece);
    if (status == WEFT_ERR_NO_MEMORY && map_own_trim(map, 0))
        status = map->backend->map(map, memory, offset, bytes, at, piece);
    return status;
}

/* Maps the part of one BAR window that lies in one allocation and holds `offset`. The caller holds
 * the lock. */
static weft_status map_bar_window(struct gpu_map *map, int slot, size_t offset, size_t *end)
{
    struct gpu_map_window *window = &map->windows[slot];
    struct map_memory *memory = map_memory_at(map, slot, offset);
    if (!memory)
        return base_fail(WEFT_ERR_UNSUPPORTED, "PE %d has no known memory at offset %zu",
                         map->gpu->boot->local_pes[slot], offset);
    size_t start = offset / GPU_BAR_WINDOW_BYTES * GPU_BAR_WINDOW_BYTES,
           stop = start + GPU_BAR_WINDOW_BYTES;
    if (start < memory->offset)
        start = memory->offset;
    if (stop > memory->offset + memory->bytes)
        stop = memory->offset + memory->bytes;
    struct map_piece *piece = calloc(1, sizeof *piece);
    if (!piece)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a mapping");
    weft_status status = map_range_or_trim(map, memory, start - memory->offset, stop - start,
                                           window->base + start, piece);
    if (status == WEFT_ERR_NO_MEMORY && !atomic_load(&window->tested)) {
        /* One granule is enough for the test and for flushes. */
        start = offset >> map->shift << map->shift;
        stop = start + ((size_t)1 << map->shift);
        status = map_range_or_trim(map, memory, start - memory->offset, stop - start,
                                   window->base + start, piece);
    }
    if (status) {
        free(piece);
        return status;
    }
    piece->memory = memory;
    piece->next = map->pieces;
    map->pieces = piece;
    mark_granules(window, map, start, stop - start, 1);
    *end = stop;
    return WEFT_OK;
}

static weft_status map_range(struct gpu_map *map, int slot, size_t offset, size_t bytes)
{
    struct gpu_map_window *window = &map->windows[slot];
    weft_status status = WEFT_OK;
    for (size_t at = offset; at < offset + bytes && !status;) {
        if (atomic_load_explicit(&window->ready[at >> map->shift], memory_order_relaxed))
            at = ((at >> map->shift) + 1) << map->shift;
        else
            status = map_bar_window(map, slot, at, &at);
    }
    return status;
}

static weft_status prepare_window(struct gpu_map *map, int slot)
{
    struct gpu_map_window *window = &map->windows[slot];
    size_t bytes = map->gpu->heap.size;
    if (window->base)
        return WEFT_OK;
    /* Sizes and offsets of all allocations are multiples of the granularity. */
    map->shift = (unsigned)__builtin_ctzll(map->gpu->heap.granularity);
    window->ready = calloc((bytes >> map->shift) + 1, sizeof *window->ready);
    window->base = window->ready ? map_reserve(bytes) : NULL;
    return window->base
               ? WEFT_OK
               : base_fail(WEFT_ERR_NO_MEMORY,
                           "cannot reserve %zu MiB of CPU addresses for a window", bytes >> 20);
}

/* Maps the test areas of the window and tests whether stored data arrives. */
static weft_status test_window(struct gpu_map *map, int slot)
{
    weft_status status = prepare_window(map, slot);
    if (!status)
        status = map_range(map, slot, map->gpu->layout.map_test_offset,
                           GPU_MAP_TEST_BYTES * (size_t)map->gpu->boot->npes);
    return status ? status : map_test(map, slot);
}

static void refuse_window(struct gpu_map *map, int slot)
{
    struct gpu_map_window *window = &map->windows[slot];
    snprintf(window->why, sizeof window->why, "%s", base_last_error());
    atomic_store(&window->refused, true);
    log_info(LOG_GPU, "GPU memory of PE %d is not mapped for the CPU: %s",
             map->gpu->boot->local_pes[slot], window->why);
}

/* A range that cannot be mapped does not refuse the window: BAR1 may be full. */
bool gpu_map_extend(struct gpu_map *map, int slot, size_t offset, size_t bytes)
{
    struct gpu_map_window *window = &map->windows[slot];
    if (atomic_load_explicit(&window->refused, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&map->lock);
    weft_status status = WEFT_OK;
    if (!atomic_load_explicit(&window->tested, memory_order_relaxed)) {
        status = test_window(map, slot);
        if (status)
            refuse_window(map, slot);
        else
            atomic_store_explicit(&window->tested, true, memory_order_release);
    }
    if (!status)
        status = map_range(map, slot, offset, bytes);
    if (status == WEFT_ERR_NO_MEMORY && !atomic_exchange(&map->bar1_full, true))
        log_info(LOG_GPU, "not all GPU memory in use can be mapped for the CPU: %s",
                 base_last_error());
    pthread_mutex_unlock(&map->lock);
    return !status;
}

bool gpu_peek(struct gpu *gpu, CUdeviceptr at, size_t width, uint64_t *value)
{
    int slot;
    size_t offset;
    if (!gpu_map_works(gpu->heap.map) ||
        !gpu_map_locate(gpu, (void *)(uintptr_t)at, &slot, &offset))
        return false;
    *value = 0;
    return gpu_map_load(gpu->heap.map, slot, offset, value, width);
}

/* ----------------------------------------------------------------------- memory of the heap */

static void import_memory(struct gpu_map *map, struct map_memory *memory, int fd)
{
    const struct map_backend *backend = map->backend;
    if (backend && backend->import && backend->import(map, memory, fd))
        log_debug(LOG_GPU, "memory of PE %d: %s", map->gpu->boot->local_pes[memory->slot],
                  base_last_error());
}

static void close_pending_fd(struct map_memory *memory)
{
    if (memory->pending_fd >= 0)
        close(memory->pending_fd);
    memory->pending_fd = -1;
}

/* Imports the memory whose descriptors arrived before the backend was chosen. */
static void import_pending(struct gpu_map *map)
{
    for (struct map_memory *memory = map->memories; memory; memory = memory->next) {
        if (memory->pending_fd >= 0)
            import_memory(map, memory, memory->pending_fd);
        close_pending_fd(memory);
    }
}

void gpu_map_add_memory(struct gpu_map *map, int slot, const struct gpu_chunk *chunk, int fd)
{
    if (!map)
        return;
    struct map_memory *memory = calloc(1, sizeof *memory);
    if (!memory)
        return;
    const struct gpu_window *window = &map->gpu->heap.windows[slot];
    *memory = (struct map_memory){.slot = slot,
                                  .offset = chunk->offset,
                                  .bytes = chunk->bytes,
                                  .bus_id = window->gpu.bus_id,
                                  .address = window->base + chunk->offset,
                                  .handle = fd < 0 ? chunk->handles[slot] : 0,
                                  .dmabuf = -1,
                                  .pending_fd = -1};
    pthread_mutex_lock(&map->lock);
    if (fd >= 0 && !map->started) /* the first chunks arrive before the backend is chosen */
        memory->pending_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    else if (fd >= 0)
        import_memory(map, memory, fd);
    memory->next = map->memories;
    map->memories = memory;
    pthread_mutex_unlock(&map->lock);
}

static void unmap_piece(struct gpu_map *map, struct map_piece *piece)
{
    map->backend->unmap(map, piece);
    free(piece);
}

static void drop_pieces(struct gpu_map *map, const struct map_memory *memory)
{
    for (struct map_piece **at = &map->pieces; *at;) {
        struct map_piece *piece = *at;
        if (piece->memory != memory) {
            at = &piece->next;
            continue;
        }
        struct gpu_map_window *window = &map->windows[memory->slot];
        mark_granules(window, map, (size_t)(piece->at - window->base), piece->bytes, 0);
        *at = piece->next;
        unmap_piece(map, piece);
    }
}

static void drop_heap_memory(struct gpu_map *map, struct map_memory *memory)
{
    map_sliding_forget(map, memory);
    drop_pieces(map, memory);
    map_backend_dmabuf.forget(map, memory);
    map_backend_rm.forget(map, memory);
    close_pending_fd(memory);
    free(memory);
}

void gpu_map_remove_memory(struct gpu_map *map, int slot, const struct gpu_chunk *chunk)
{
    if (!map)
        return;
    pthread_mutex_lock(&map->lock);
    struct map_memory **at = &map->memories, *found;
    while (*at && ((*at)->slot != slot || (*at)->offset != chunk->offset))
        at = &(*at)->next;
    found = *at;
    if (found) {
        *at = found->next;
        drop_heap_memory(map, found);
    }
    pthread_mutex_unlock(&map->lock);
}

/* -------------------------------------------------------------------------- choice of a backend */

static void record_refusal(struct gpu_map *map, const struct map_backend *backend)
{
    size_t used = strlen(map->why);
    snprintf(map->why + used, sizeof map->why - used, "%s%s: %s", used ? "; " : "", backend->what,
             base_last_error());
}

/* Removes what a backend that failed its test has mapped. */
static void undo_backend(struct gpu_map *map)
{
    for (struct map_memory *memory = map->memories; memory; memory = memory->next)
        drop_pieces(map, memory);
    if (map->backend->close)
        map->backend->close(map);
    map->backend = NULL;
}

const char *gpu_map_backend_text(const struct gpu_map *map)
{
    return map->backend ? map->backend->what : "";
}

void gpu_map_start(struct gpu *gpu)
{
    static const struct map_backend *const backends[] = {&map_backend_dmabuf, &map_backend_rm,
                                                         &map_backend_gdr};
    struct gpu_map *map = gpu->heap.map;
    int wanted = config_choice(CONFIG_MAP);
    int me = gpu->boot->local_pe;
    if (!map)
        return;
    bool amd = gpu->driver.vendor == GPU_VENDOR_AMD;
    pthread_mutex_lock(&map->lock);
    if (amd)
        snprintf(map->why, sizeof map->why, "HIP has no call that maps a GPU's memory for the CPU");
    for (size_t i = 0; !amd && i < sizeof backends / sizeof backends[0] && !map->backend; i++) {
        if (wanted != MAP_AUTO_CHOICE && wanted != (int)i + 1)
            continue;
        map->backend = backends[i];
        if (!test_window(map, me))
            break;
        record_refusal(map, backends[i]);
        undo_backend(map);
    }
    if (map->backend)
        atomic_store_explicit(&map->windows[me].tested, true, memory_order_release);
    map->started = true;
    import_pending(map);
    pthread_mutex_unlock(&map->lock);
    log_info(LOG_GPU, "CPU mapping of GPU memory: %s",
             map->backend ? map->backend->what : map->why);
}

/* ------------------------------------------------------------------------------------ life time */

weft_status gpu_map_create(struct gpu *gpu)
{
    if (config_choice(CONFIG_MAP) == MAP_NONE_CHOICE)
        return WEFT_OK;
    struct gpu_map *map = calloc(1, sizeof *map);
    struct gpu_map_window *windows = calloc((size_t)gpu->boot->local_npes, sizeof *windows);
    if (!map || !windows) {
        free(map);
        free(windows);
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for mappings of GPU memory");
    }
    map->gpu = gpu;
    map->windows = windows;
    pthread_mutex_init(&map->lock, NULL);
    pthread_mutex_init(&map->measuring, NULL);
    gpu->heap.map = map;
    return WEFT_OK;
}

void gpu_map_destroy(struct gpu *gpu)
{
    struct gpu_map *map = gpu->heap.map;
    if (!map)
        return;
    while (map->memories) {
        struct map_memory *first = map->memories;
        map->memories = first->next;
        drop_heap_memory(map, first);
    }
    map_sliding_end(map);
    map_own_trim(map, 0);
    for (int slot = 0; slot < gpu->boot->local_npes; slot++) {
        if (map->windows[slot].base)
            munmap(map->windows[slot].base, gpu->heap.size);
        free((void *)map->windows[slot].ready);
    }
    if (map->backend && map->backend->close)
        map->backend->close(map);
    rm_close(map->rm);
    pthread_mutex_destroy(&map->lock);
    pthread_mutex_destroy(&map->measuring);
    free(map->windows);
    free(map);
    gpu->heap.map = NULL;
}

void gpu_map_abandon(struct gpu_map *map)
{
    if (!map)
        return;
    rm_abandon(map->rm);
    map->backend = NULL;
}
