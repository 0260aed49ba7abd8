/* SPDX-License-Identifier: Apache-2.0 */
/* Sliding BAR windows, for GPUs whose BAR1 cannot map all memory that is used: a few small windows
 * that are mapped where they are needed, under a lock, so that none is moved while another thread
 * copies through it. See map.h. */
#include "gpu/gpu.h"
#include "gpu/map/backend.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Returns the window that is mapped there; NULL: none. */
static struct gpu_sliding_window *find_window(struct gpu_map *map, int slot, size_t start)
{
    for (int i = 0; i < GPU_SLIDING_WINDOWS; i++) {
        struct gpu_sliding_window *window = &map->sliding[i];
        if (window->piece && window->slot == slot && window->start == start)
            return window;
    }
    return NULL;
}

/* Returns the least recently used window. */
static struct gpu_sliding_window *find_oldest_window(struct gpu_map *map)
{
    struct gpu_sliding_window *oldest = &map->sliding[0];
    for (int i = 1; i < GPU_SLIDING_WINDOWS; i++)
        if (map->sliding[i].used < oldest->used)
            oldest = &map->sliding[i];
    return oldest;
}

static void unmap_window(struct gpu_map *map, struct gpu_sliding_window *window)
{
    if (!window->piece)
        return;
    map->backend->unmap(map, window->piece);
    free(window->piece);
    window->piece = NULL;
    window->used = 0;
}

/* Unmaps all windows, since BAR1 may need all their room for the next mapping. */
static void unmap_all_windows(struct gpu_map *map)
{
    for (int i = 0; i < GPU_SLIDING_WINDOWS; i++)
        unmap_window(map, &map->sliding[i]);
}

static weft_status move_window(struct gpu_map *map, struct gpu_sliding_window *window, int slot,
                               size_t start)
{
    size_t granule = (size_t)1 << map->shift;
    struct map_memory *memory = map_memory_at(map, slot, start);
    unmap_window(map, window);
    if (!memory)
        return base_fail(WEFT_ERR_UNSUPPORTED, "no memory is known at offset %zu", start);
    if (!window->at)
        window->at = map_reserve(granule);
    struct map_piece *piece = window->at ? calloc(1, sizeof *piece) : NULL;
    if (!piece)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a mapping");
    weft_status status =
        map_range_or_trim(map, memory, start - memory->offset, granule, window->at, piece);
    if (status == WEFT_ERR_NO_MEMORY) {
        unmap_all_windows(map);
        status = map->backend->map(map, memory, start - memory->offset, granule, window->at, piece);
    }
    if (status) {
        free(piece);
        return status;
    }
    piece->memory = memory;
    window->piece = piece;
    window->slot = slot;
    window->start = start;
    return WEFT_OK;
}

static bool copy_granule(struct gpu_map *map, int slot, size_t offset, char *host, size_t bytes,
                         bool in)
{
    size_t start = offset >> map->shift << map->shift;
    struct gpu_sliding_window *window = find_window(map, slot, start);
    if (!window) {
        window = find_oldest_window(map);
        if (move_window(map, window, slot, start))
            return false;
    }
    window->used = ++map->uses;
    if (in) {
        wc_store(window->at + (offset - start), host, bytes);
        wc_flush(window->at); /* the window may have moved before the caller's quiet */
    } else {
        wc_load(host, window->at + (offset - start), bytes);
    }
    return true;
}

bool gpu_map_copy_sliding(struct gpu_map *map, int slot, size_t offset, void *host, size_t bytes,
                          bool in)
{
    if (!gpu_map_works(map) || !atomic_load_explicit(&map->bar1_full, memory_order_relaxed) ||
        !atomic_load_explicit(&map->windows[slot].tested, memory_order_acquire))
        return false;
    bool done = true;
    char *at = host;
    pthread_mutex_lock(&map->lock);
    while (bytes && done) {
        size_t end = ((offset >> map->shift) + 1) << map->shift;
        size_t now = end - offset < bytes ? end - offset : bytes;
        done = copy_granule(map, slot, offset, at, now, in);
        offset += now, at += now, bytes -= now;
    }
    pthread_mutex_unlock(&map->lock);
    return done;
}

void map_sliding_forget(struct gpu_map *map, const struct map_memory *memory)
{
    for (int i = 0; i < GPU_SLIDING_WINDOWS; i++)
        if (map->sliding[i].piece && map->sliding[i].piece->memory == memory)
            unmap_window(map, &map->sliding[i]);
}

void map_sliding_end(struct gpu_map *map)
{
    unmap_all_windows(map);
    for (int i = 0; i < GPU_SLIDING_WINDOWS; i++)
        if (map->sliding[i].at)
            munmap(map->sliding[i].at, (size_t)1 << map->shift);
}
