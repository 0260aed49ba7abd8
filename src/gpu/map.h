/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of GPUs in the CPU's address space: for small transfers that the host begins the CPU
 * stores and loads by itself, some 50 ns where a copy engine takes 5 to 9 us. The windows of the
 * GPU heap have a range of CPU addresses each, as large as they are, and are mapped there pane by
 * pane at the first use; memory of the program's own is mapped where it is asked for. By which way
 * (map_way.h), and whether at all, is decided when the GPU side opens, by looking whether what
 * is stored arrives. Knows nothing of paths and operations. */
#ifndef WEFT_GPU_MAP_H
#define WEFT_GPU_MAP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "gpu/heap.h"
#include "gpu/wc.h"

struct gpu;
struct map_backend;
struct map_memory;
struct map_piece;
struct rm;

enum {
    GPU_BAR_WINDOW_BYTES = 64 << 20, /* mapped at a time */
    GPU_SLIDING_WINDOWS = 8,
    GPU_MAP_ALWAYS = 512,      /* bytes for which the CPU is the quicker one on any machine */
    GPU_MAP_MOST = 1 << 20,    /* beyond, a copy engine is the quicker one everywhere */
    GPU_MAP_TEST_BYTES = 2048, /* for each PE in each window, for the test of its mapping there */
};

/* The part of one local PE. */
struct gpu_map_window {
    char *base; /* the CPU's addresses of the whole window; NULL: not needed so far */
    _Atomic unsigned char *ready; /* for each granule of the window: it is mapped */
    _Atomic bool tested, refused;
    char why[256]; /* refused */
};

/* Copies of up to so many bytes are done by the CPU; beyond, by a copy engine. 0 = never. */
struct gpu_map_limits {
    size_t store_plain, store_pinned; /* into GPU memory, from plain and from pinned host memory */
    size_t load_plain, load_pinned;   /* out of it */
};

/* A small window that goes from place to place. */
struct gpu_sliding_window {
    char *at;                /* of the CPU; NULL: not needed so far */
    struct map_piece *piece; /* NULL: nowhere */
    int slot;
    size_t start;
    uint64_t used; /* the last time, counted in uses */
};

struct gpu_map {
    struct gpu *gpu;
    pthread_mutex_t lock;
    const struct map_backend *backend; /* NULL: none works */
    bool started;                      /* the way is chosen, or there is none */
    char why[1024];                    /* every way that was refused, and why */
    unsigned shift;                    /* granules of 1 << shift bytes */
    struct gpu_map_window *windows;    /* [local PEs] */
    struct map_memory *memories;
    struct map_piece *pieces;
    _Atomic bool scarce; /* BAR1 has had no room for a pane */
    struct gpu_sliding_window sliding[GPU_SLIDING_WINDOWS];
    uint64_t uses;
    struct map_memory *own;       /* memory of the program's own that is mapped, or was */
    size_t idle_bytes, idle_most; /* mapped of it for nobody, and how much may be */
    int idle_count;
    enum gpu_map_plain { GPU_MAP_UNTRIED, GPU_MAP_PROVEN, GPU_MAP_REFUSED } plain;
    char why_plain[256]; /* cudaMalloc()'s memory is refused */
    struct rm *rm;
    void *gdr; /* struct map_gdr */
    pthread_mutex_t measuring;
    _Atomic bool measured;
    struct gpu_map_limits limits;
};

/* Before any chunk of the heap is made. Fails only for want of private memory. */
weft_status gpu_map_create(struct gpu *gpu);

/* Chooses the way, when the heap and the lanes are there. Never fails: without a way copies are the
 * copy engines'. */
void gpu_map_start(struct gpu *gpu);
void gpu_map_destroy(struct gpu *gpu);

/* In a child of fork(): gives up the descriptors; the mappings are the parent's. */
void gpu_map_abandon(struct gpu_map *map);

/* The heap tells of its memory (src/gpu/heap.c): fd is of an import, -1 for the own part, which is
 * exported when needed. Without effect where `map` is NULL. */
void gpu_map_add_memory(struct gpu_map *map, int slot, const struct gpu_chunk *chunk, int fd);
void gpu_map_remove_memory(struct gpu_map *map, int slot, const struct gpu_chunk *chunk);

/* Maps what is not mapped yet of [offset, offset + bytes) of a window. False: it cannot be. */
bool gpu_map_extend(struct gpu_map *map, int slot, size_t offset, size_t bytes);

static inline bool gpu_map_works(const struct gpu_map *map)
{
    return map && map->backend;
}

/* Leaves in the own memory what tells it to peers whose GPUs do not reach it, but whose CPUs may;
 * the stream is idle then. Before they may look. */
CUresult gpu_map_write_tags(struct gpu *gpu, CUstream stream);

/* In words; "" = none. */
const char *gpu_map_backend_text(const struct gpu_map *map);

/* Where the CPU finds [offset, offset + bytes) of a local PE's window; NULL: it does not, and why
 * stands in map->why or in the window. bytes > 0. */
static inline char *gpu_map_at(struct gpu_map *map, int slot, size_t offset, size_t bytes)
{
    if (!gpu_map_works(map))
        return NULL;
    struct gpu_map_window *window = &map->windows[slot];
    if (atomic_load_explicit(&window->tested, memory_order_acquire)) {
        size_t granule = offset >> map->shift, last = (offset + bytes - 1) >> map->shift;
        /* Acquire: pairs with the release store behind the mapping. */
        while (granule <= last &&
               atomic_load_explicit(&window->ready[granule], memory_order_acquire))
            granule++;
        if (granule > last)
            return window->base + offset;
    }
    if (atomic_load_explicit(&map->scarce, memory_order_relaxed))
        return NULL;
    return gpu_map_extend(map, slot, offset, bytes) ? window->base + offset : NULL;
}

/* A copy of that part by a window that is moved there, where the GPU has no room to map all that is
 * used: some 60 us where the window has to move. Complete on return, and false where there is room,
 * or no way. */
bool gpu_map_copy_sliding(struct gpu_map *map, int slot, size_t offset, void *host, size_t bytes,
                          bool in);

/* Stores and loads there, see wc_post(), wc_send() and wc_load(). False: it is not mapped, and
 * nothing was done. */
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

/* An address of the GPU heap's windows, of this or another local PE; false: it lies in none. */
bool gpu_map_locate(const struct gpu *gpu, const void *address, int *slot, size_t *offset);

/* The own test area in a window that is mapped. */
char *gpu_map_test_area(const struct gpu_map *map, int slot);

/* Returns when what this thread stored through the mapping of that window has arrived. */
static inline void gpu_map_flush(const struct gpu_map *map, int slot)
{
    wc_flush(gpu_map_test_area(map, slot));
}

/* Measured at the first call, in some milliseconds. */
const struct gpu_map_limits *gpu_map_limits(struct gpu_map *map);

/* Whether the CPU is the quicker one for so many bytes between its memory at `host` and GPU memory.
 * in: to the GPU. */
bool gpu_map_is_faster_by_size(struct gpu_map *map, const void *host, size_t bytes, bool in);
static inline bool gpu_map_is_faster(struct gpu_map *map, const void *host, size_t bytes, bool in)
{
    return bytes <= GPU_MAP_ALWAYS ||
           (bytes <= GPU_MAP_MOST && gpu_map_is_faster_by_size(map, host, bytes, in));
}

/* Memory of the GPU outside the heap, to measure with. The device's context is current. */
struct gpu_map_extra {
    CUdeviceptr at;
    size_t bytes;
    CUmemGenericAllocationHandle handle;
};
weft_status gpu_map_extra_make(const struct gpu *gpu, size_t bytes, struct gpu_map_extra *extra);
void gpu_map_extra_free(const struct gpu *gpu, struct gpu_map_extra *extra);

/* ---------------------------------------------------------------- memory of the program's own */

/* One mapping of it. */
struct gpu_map_user {
    char *at;          /* what the program was given */
    uintptr_t address; /* of the GPU memory; host memory is its own mapping */
    size_t bytes;
    struct map_memory *memory; /* NULL: none, and nothing is to be ended */
    struct map_piece *piece;
};

/* Maps memory of cuMemCreate() or cudaMalloc() on this PE's GPU, wherever the program has it. The
 * end of it keeps the mapping for the next one who asks, as long as there are not too many of them
 * and BAR1 has room; a reference to the memory with it, so that it is not freed before
 * gpu_map_own_forget(). */
weft_status gpu_map_own(struct gpu_map *map, const void *address, size_t bytes,
                        struct gpu_map_user *user);
void gpu_map_own_end(struct gpu_map *map, struct gpu_map_user *user);

/* Keeps nothing of the allocations that lie in that range. NULL is allowed. */
void gpu_map_own_forget(struct gpu_map *map, const void *address, size_t bytes);

#endif
