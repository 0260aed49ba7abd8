/* SPDX-License-Identifier: Apache-2.0 */
/* CPU mappings of GPU memory through BAR1. For small transfers that the host issues, the CPU stores
 * and loads by itself: about 50 ns where a copy engine takes 5 to 9 us. Each window of the GPU heap
 * has a range of CPU addresses of the same size. A range is mapped at its first use, one BAR window
 * at a time. Memory of the program is mapped when the program asks for it. The backend (backend.h)
 * is chosen when the GPU side opens, by testing whether stored data arrives. This module knows
 * nothing of paths and operations. */
#ifndef WEFT_GPU_MAP_H
#define WEFT_GPU_MAP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "gpu/heap.h"
#include "gpu/map/wc.h"

struct gpu;
struct map_backend;
struct map_memory;
struct map_piece;
struct rm;

enum {
    GPU_BAR_WINDOW_BYTES = 64 << 20, /* bytes mapped at a time */
    GPU_SLIDING_WINDOWS = 8,         /* number of sliding BAR windows */
    GPU_MAP_ALWAYS = 512,            /* bytes; up to this size the CPU is faster on any machine */
    GPU_MAP_MOST = 1 << 20,    /* bytes; beyond this size a copy engine is faster on any machine */
    GPU_MAP_TEST_BYTES = 2048, /* bytes for each PE in each window, for the test of its mapping */
};

/* CPU mapping of one local PE's window. */
struct gpu_map_window {
    char *base;                   /* CPU address of the window; NULL: not needed so far */
    _Atomic unsigned char *ready; /* [granules] the granule is mapped */
    _Atomic bool tested, refused;
    char why[256]; /* why the window cannot be mapped */
};

/* Sizes in bytes up to which the CPU copies; beyond them a copy engine copies. 0 = never. */
struct gpu_map_limits {
    size_t store_plain, store_pinned; /* into GPU memory, from plain and from pinned host memory */
    size_t load_plain, load_pinned;   /* out of GPU memory */
};

/* A sliding BAR window: one granule of CPU addresses that is mapped to different places in turn. */
struct gpu_sliding_window {
    char *at;                /* CPU address; NULL: not needed so far */
    struct map_piece *piece; /* NULL: not mapped */
    int slot;
    size_t start;
    uint64_t used; /* time of the last use, counted in uses */
};

struct gpu_map {
    struct gpu *gpu;
    pthread_mutex_t lock;
    const struct map_backend *backend; /* NULL: no backend works */
    bool started;                      /* a backend was chosen, or none works */
    char why[1024];                    /* every backend that was refused, and why */
    unsigned shift;                    /* a granule has 1 << shift bytes */
    struct gpu_map_window *windows;    /* [local PEs] */
    struct map_memory *memories;
    struct map_piece *pieces;
    _Atomic bool bar1_full; /* BAR1 had no room for a BAR window */
    struct gpu_sliding_window sliding[GPU_SLIDING_WINDOWS];
    uint64_t uses;
    struct map_memory *own; /* memory of the program that is or was mapped */
    /* bytes of it that are mapped without a user, and the limit of them */
    size_t idle_bytes, idle_most;
    int idle_count;
    enum gpu_map_plain { GPU_MAP_UNTRIED, GPU_MAP_PROVEN, GPU_MAP_REFUSED } plain;
    char why_plain[256]; /* why memory of cudaMalloc() cannot be mapped */
    struct rm *rm;
    void *gdr; /* struct map_gdr */
    pthread_mutex_t measuring;
    _Atomic bool measured;
    struct gpu_map_limits limits;
};

/* Called before the first chunk of the heap is created. Fails only when private memory runs out. */
weft_status gpu_map_create(struct gpu *gpu);

/* Chooses the backend, after the heap and the internal streams were created. Never fails: without a
 * backend the copy engines do all copies. */
void gpu_map_start(struct gpu *gpu);
void gpu_map_destroy(struct gpu *gpu);

/* Called in a child of fork(): abandons the descriptors. The mappings belong to the parent. */
void gpu_map_abandon(struct gpu_map *map);

/* heap.c reports memory that it added or is about to unmap. fd: descriptor of an imported chunk;
 * -1: own memory, which is exported when needed. Does nothing where `map` is NULL. */
void gpu_map_add_memory(struct gpu_map *map, int slot, const struct gpu_chunk *chunk, int fd);
void gpu_map_remove_memory(struct gpu_map *map, int slot, const struct gpu_chunk *chunk);

/* Maps the unmapped parts of [offset, offset + bytes) of a window. Returns false when they cannot
 * be mapped. */
bool gpu_map_extend(struct gpu_map *map, int slot, size_t offset, size_t bytes);

static inline bool gpu_map_works(const struct gpu_map *map)
{
    return map && map->backend;
}

/* Writes tags into own memory, by which peers check that they map the right memory when their CPUs
 * but not their GPUs can access it. The stream is idle on return. Called before peers read the
 * tags. */
CUresult gpu_map_write_tags(struct gpu *gpu, CUstream stream);

/* Returns the backend's name in words; "": none. */
const char *gpu_map_backend_text(const struct gpu_map *map);

/* Returns the CPU address of [offset, offset + bytes) of a local PE's window. NULL: not mapped;
 * map->why or the window has the reason. bytes > 0. */
static inline char *gpu_map_at(struct gpu_map *map, int slot, size_t offset, size_t bytes)
{
    if (!gpu_map_works(map))
        return NULL;
    struct gpu_map_window *window = &map->windows[slot];
    if (atomic_load_explicit(&window->tested, memory_order_acquire)) {
        size_t granule = offset >> map->shift, last = (offset + bytes - 1) >> map->shift;
        /* Acquire: pairs with the release store after the mapping. */
        while (granule <= last &&
               atomic_load_explicit(&window->ready[granule], memory_order_acquire))
            granule++;
        if (granule > last)
            return window->base + offset;
    }
    if (atomic_load_explicit(&map->bar1_full, memory_order_relaxed))
        return NULL;
    return gpu_map_extend(map, slot, offset, bytes) ? window->base + offset : NULL;
}

/* Copies through a sliding BAR window, for GPUs whose BAR1 cannot map all memory that is used.
 * Takes about 60 us when the window has to move. Complete on return. Returns false where BAR1 has
 * room, or where no backend works. */
bool gpu_map_copy_sliding(struct gpu_map *map, int slot, size_t offset, void *host, size_t bytes,
                          bool in);

/* Store, or load, through the mapping; see wc_post(), wc_send() and wc_load(). Return false when
 * the range is not mapped; nothing was copied then. */
static inline bool gpu_map_store(struct gpu_map *map, int slot, size_t offset, const void *from,
                                 size_t bytes)
{
    char *at = gpu_map_at(map, slot, offset, bytes);
    if (!at)
        return gpu_map_copy_sliding(map, slot, offset, (void *)(uintptr_t)from, bytes, true);
    wc_post(at, from, bytes);
    return true;
}

static inline bool gpu_map_send(struct gpu_map *map, int slot, size_t offset, const void *from,
                                size_t bytes)
{
    char *at = gpu_map_at(map, slot, offset, bytes);
    if (!at)
        return gpu_map_copy_sliding(map, slot, offset, (void *)(uintptr_t)from, bytes, true);
    wc_send(at, from, bytes);
    return true;
}

static inline bool gpu_map_load(struct gpu_map *map, int slot, size_t offset, void *to,
                                size_t bytes)
{
    const char *at = gpu_map_at(map, slot, offset, bytes);
    if (!at)
        return gpu_map_copy_sliding(map, slot, offset, to, bytes, false);
    wc_load(to, at, bytes);
    return true;
}

/* Finds the local PE and the offset of an address in the windows of the GPU heap. Returns false for
 * any other address. */
bool gpu_map_locate(const struct gpu *gpu, const void *address, int *slot, size_t *offset);

/* Returns this PE's test area in a mapped window. */
char *gpu_map_test_area(const struct gpu_map *map, int slot);

/* Returns when all data that this thread stored through the mapping of that window has arrived. */
static inline void gpu_map_flush(const struct gpu_map *map, int slot)
{
    wc_flush(gpu_map_test_area(map, slot));
}

/* Measures at the first call, which takes a few milliseconds. */
const struct gpu_map_limits *gpu_map_limits(struct gpu_map *map);

/* Returns whether the CPU is faster than a copy engine for `bytes` between host memory at `host`
 * and GPU memory. in: into GPU memory. */
bool gpu_map_is_faster_by_size(struct gpu_map *map, const void *host, size_t bytes, bool in);
static inline bool gpu_map_is_faster(struct gpu_map *map, const void *host, size_t bytes, bool in)
{
    return bytes <= GPU_MAP_ALWAYS ||
           (bytes <= GPU_MAP_MOST && gpu_map_is_faster_by_size(map, host, bytes, in));
}

/* GPU memory outside the heap, for measurements. The device's context is current. */
struct gpu_map_extra {
    CUdeviceptr at;
    size_t bytes;
    CUmemGenericAllocationHandle handle;
};
weft_status gpu_map_extra_make(const struct gpu *gpu, size_t bytes, struct gpu_map_extra *extra);
void gpu_map_extra_free(const struct gpu *gpu, struct gpu_map_extra *extra);

/* ---------------------------------------------------------------------- memory of the program */

/* One mapping of memory of the program. */
struct gpu_map_user {
    char *at;          /* CPU address that the program got */
    uintptr_t address; /* address of the GPU memory; host memory needs no mapping */
    size_t bytes;
    struct map_memory *memory; /* NULL: no mapping, and nothing to release */
    struct map_piece *piece;
};

/* Maps memory of cuMemCreate() or cudaMalloc() on this PE's GPU. gpu_map_own_end() keeps the
 * mapping for the next caller as long as the number of kept mappings is small and BAR1 has room. A
 * kept mapping holds a reference to the memory, so the memory is not freed before
 * gpu_map_own_forget(). */
weft_status gpu_map_own(struct gpu_map *map, const void *address, size_t bytes,
                        struct gpu_map_user *user);
void gpu_map_own_end(struct gpu_map *map, struct gpu_map_user *user);

/* Drops the kept mappings of all allocations in that range. `map` may be NULL. */
void gpu_map_own_forget(struct gpu_map *map, const void *address, size_t bytes);

#endif
