/* SPDX-License-Identifier: Apache-2.0 */
/* Where the GPU's BAR1 has no room to map all that is used: a few small windows that go where they
 * are needed, under a lock, so that none is moved while another thread copies through it. See
 * map.h. */
#include "gpu/gpu.h"
#include "gpu/map/backend.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* NULL: none is there. */
static struct gpu_map_rover *rover_at(struct gpu_map *map, int slot, size_t start)
{
    for (int i = 0; i < GPU_MAP_ROVERS; i++) {
        struct gpu_map_rover *rover = &map->rovers[i];
        if (rover->piece && rover->slot == slot && rover->start == start)
            return rover;
    }
    return NULL;
}

/* The one that has been used least lately. */
static struct gpu_map_rover *idle_rover(struct gpu_map *map)
{
    struct gpu_map_rover *oldest = &map->rovers[0];
    for (int i = 1; i < GPU_MAP_ROVERS; i++)
        if (map->rovers[i].used < oldest->used)
            oldest = &map->rovers[i];
    return oldest;
}

static void leave(struct gpu_map *map, struct gpu_map_rover *rover)
{
    if (!rover->piece)
        return;
    map->way->unmap(map, rover->piece);
    free(rover->piece);
    rover->piece = NULL;
    rover->used = 0;
}

/* Also what it leaves may be needed for the next one. */
static void leave_all(struct gpu_map *map)
{
    for (int i = 0; i < GPU_MAP_ROVERS; i++)
        leave(map, &map->rovers[i]);
}

static weft_status go(struct gpu_map *map, struct gpu_map_rover *rover, int slot, size_t start)
{
    size_t granule = (size_t)1 << map->shift;
    struct map_memory *memory = map_memory_at(map, slot, start);
    leave(map, rover);
    if (!memory)
        return base_fail(WEFT_ERR_UNSUPPORTED, "no memory is known at offset %zu", start);
    if (!rover->at)
        rover->at = map_reserve(granule);
    struct map_piece *piece = rover->at ? calloc(1, sizeof *piece) : NULL;
    if (!piece)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a mapping");
    weft_status status = map_some(map, memory, start - memory->offset, granule, rover->at, piece);
    if (status == WEFT_ERR_NO_MEMORY) {
        leave_all(map);
        status = map->way->map(map, memory, start - memory->offset, granule, rover->at, piece);
    }
    if (status) {
        free(piece);
        return status;
    }
    piece->memory = memory;
    rover->piece = piece;
    rover->slot = slot;
    rover->start = start;
    return WEFT_OK;
}

static bool copy_part(struct gpu_map *map, int slot, size_t offset, char *host, size_t bytes,
                      bool in)
{
    size_t start = offset >> map->shift << map->shift;
    struct gpu_map_rover *rover = rover_at(map, slot, start);
    if (!rover) {
        rover = idle_rover(map);
        if (go(map, rover, slot, start))
            return false;
    }
    rover->used = ++map->uses;
    if (in) {
        wc_store(rover->at + (offset - start), host, bytes);
        wc_settle(rover->at); /* it may be gone before quiet asks */
    } else {
        wc_load(host, rover->at + (offset - start), bytes);
    }
    return true;
}

bool gpu_map_rove(struct gpu_map *map, int slot, size_t offset, void *host, size_t bytes, bool in)
{
    if (!gpu_map_works(map) || !atomic_load_explicit(&map->scarce, memory_order_relaxed) ||
        !atomic_load_explicit(&map->windows[slot].tested, memory_order_acquire))
        return false;
    bool done = true;
    char *at = host;
    pthread_mutex_lock(&map->lock);
    while (bytes && done) {
        size_t end = ((offset >> map->shift) + 1) << map->shift;
        size_t now = end - offset < bytes ? end - offset : bytes;
        done = copy_part(map, slot, offset, at, now, in);
        offset += now, at += now, bytes -= now;
    }
    pthread_mutex_unlock(&map->lock);
    return done;
}

void map_rove_forget(struct gpu_map *map, const struct map_memory *memory)
{
    for (int i = 0; i < GPU_MAP_ROVERS; i++)
        if (map->rovers[i].piece && map->rovers[i].piece->memory == memory)
            leave(map, &map->rovers[i]);
}

void map_rove_end(struct gpu_map *map)
{
    leave_all(map);
    for (int i = 0; i < GPU_MAP_ROVERS; i++)
        if (map->rovers[i].at)
            munmap(map->rovers[i].at, (size_t)1 << map->shift);
}
