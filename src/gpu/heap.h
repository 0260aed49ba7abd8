/* SPDX-License-Identifier: Apache-2.0 */
/* The symmetric heap in GPU memory. Every local PE's part has a window of addresses, side by side
 * in one reservation; chunks of physical memory are mapped into the windows as the heap grows, each
 * made by its PE and passed to the others of the node as a file descriptor. Nothing has a name in
 * the system, so nothing is left when a PE dies. Which parts are allocated is not known here but in
 * memory/heap.h. Knows nothing of paths and operations. */
#ifndef WEFT_GPU_HEAP_H
#define WEFT_GPU_HEAP_H

#include "boot/boot.h"
#include "gpu/device.h"

#include <pthread.h>
#include <stdatomic.h>

enum { GPU_FIRST_CHUNK = 64 << 20 };

/* What a PE tells the others of its GPU. */
struct gpu_identity {
    CUuuid uuid;
    char bus_id[20];
    int32_t ordinal;
    int32_t copy_engines;
    uint64_t granularity; /* of chunks */
    uint64_t total_bytes;
    int32_t major, minor;
    uint64_t job_tag; /* of this job: what is found in its memory by other ways (gpu/map.h) */
};

/* One local PE's part as seen from this PE. */
struct gpu_window {
    CUdeviceptr base;
    struct gpu_identity gpu;
    bool mapped;          /* its chunks are mapped here and may be accessed */
    char evidence[256];   /* what said so, or what refused */
    int relay;            /* of heap->relays[]: its chunks are mapped for that GPU; -1 = for none */
    char relay_text[160]; /* which GPU that is, or why there is none */
    _Atomic uint32_t
        stripes; /* bit per heap->relays[]: its chunks are open to those too (stripe.h) */
};

/* For which peers a third GPU is looked for; see gpu/relay.h. */
enum gpu_relay_policy {
    GPU_RELAY_NEVER,
    GPU_RELAY_WHERE_NEEDED, /* this PE's GPU cannot access theirs, and NVLink leads there */
    GPU_RELAY_ALWAYS,       /* also beside direct access, over PCIe, and by the peer's own GPU */
};

struct gpu_chunk {
    size_t offset, bytes;                  /* in every window */
    CUmemGenericAllocationHandle *handles; /* [local_npes], 0 = not held */
};

/* Memory of the program's own that is a part of every window; see gpu/adopt.h. */
struct gpu_registered {
    struct gpu_chunk chunk; /* whole allocations */
    size_t lead;            /* from their start to what the program named, equal at every PE */
    struct gpu_registered *next;
};

struct gpu_map;

struct gpu_heap {
    const struct gpu_device *device;
    struct boot *boot;
    size_t size;   /* bytes of each window */
    size_t backed; /* bytes at its start that have memory behind them */
    size_t granularity;
    CUdeviceptr reservation;
    size_t reserved_bytes;
    struct gpu_window *windows; /* [local_npes], in the order of local PEs */
    enum gpu_relay_policy policy;
    struct gpu_device *relays; /* [device->visible] third GPUs that this PE has opened */
    _Atomic int relay_count;
    struct gpu_chunk *chunks;
    int chunk_count;
    struct gpu_registered *registered; /* from the end of the window down */
    pthread_mutex_t chunks_lock;       /* of both lists: other threads read them while one adds */
    pthread_mutex_t opening_lock; /* of `growing`; held while chunks are opened to further GPUs */
    bool growing;                 /* chunks come, or memory is adopted */
    struct gpu_map
        *map; /* what the CPU maps of it, which is told of all memory; NULL: nothing (map.h) */
};

/* Reserves the windows, finds out which peers' memory can be accessed, and makes the first chunk.
 * `bytes` per PE, 0 = the memory of the largest GPU of the job. Collective over the job.
 * On failure, which is the same at every PE, nothing is left. */
weft_status gpu_heap_create(struct gpu_heap *heap, const struct gpu_device *device,
                            struct boot *boot, size_t bytes, enum gpu_relay_policy policy);

/* How memory of the heap is made. */
CUmemAllocationProp gpu_heap_properties(const struct gpu_device *device);

/* Puts memory behind [0, end) of every window. Collective over the job, with the same `end`. Fails
 * at every PE or at none; WEFT_ERR_NO_MEMORY says how much is free and who holds the rest. A peer
 * whose new memory cannot be mapped here is dropped (windows[].mapped, evidence). */
weft_status gpu_heap_grow(struct gpu_heap *heap, size_t end);

/* Unmaps and frees. Not collective; the caller sees to it that no peer still uses this memory. */
void gpu_heap_destroy(struct gpu_heap *heap);

/* Gives up a peer's part for this GPU, and `evidence` is why: its chunks are unmapped here unless a
 * third GPU uses them. */
void gpu_heap_drop(struct gpu_heap *heap, int slot, const char *evidence);

/* Unmaps a peer's part that no GPU of this PE uses. */
void gpu_heap_unmap_unused(struct gpu_heap *heap, int slot);

/* Whether a peer's part is mapped here for any GPU. */
static inline bool gpu_heap_holds(const struct gpu_heap *heap, int slot)
{
    return heap->windows[slot].mapped || heap->windows[slot].relay >= 0;
}

/* Parts of a chunk, as heap.c and adopt.c both need them; the device's context is current. Mapping
 * sets chunk->handles[slot], which unmapping releases. */
weft_status gpu_heap_map(const struct gpu_heap *heap, int slot, struct gpu_chunk *chunk,
                         CUmemGenericAllocationHandle handle);
void gpu_heap_unmap(const struct gpu_heap *heap, int slot, struct gpu_chunk *chunk);
weft_status gpu_heap_export(const struct gpu_heap *heap, const struct gpu_chunk *chunk, int *fd);
/* `slot` may be the own one, for which there is nothing to do, or one that no GPU of this PE
 * uses. */
weft_status gpu_heap_import(const struct gpu_heap *heap, int slot, struct gpu_chunk *chunk, int fd);

/* Between these two the chunks that there are stay, and no others come: another thread may be
 * making the heap grow. False: it is at it, and there is nothing to end. */
bool gpu_heap_begin_opening(struct gpu_heap *heap);
void gpu_heap_end_opening(struct gpu_heap *heap);

/* Round what changes the chunks; not at once with an opening. */
void gpu_heap_begin_growing(struct gpu_heap *heap);
void gpu_heap_end_growing(struct gpu_heap *heap);

/* Opens all chunks of a part that is mapped here to a further GPU. The device's context is
 * current. */
weft_status gpu_heap_open_to(struct gpu_heap *heap, int slot, const struct gpu_device *by);

/* The end of what the heap itself may grow into: adopted memory is behind. */
size_t gpu_heap_ceiling(const struct gpu_heap *heap);

/* This PE's own part. */
static inline struct gpu_window *gpu_heap_own(const struct gpu_heap *heap)
{
    return &heap->windows[heap->boot->local_pe];
}

#endif
