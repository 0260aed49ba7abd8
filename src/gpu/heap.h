/* SPDX-License-Identifier: Apache-2.0 */
/* The symmetric heap in GPU memory. Every local PE's part has a window of addresses; the windows
 * lie next to each other in one reservation. As the heap grows, each PE creates chunks of physical
 * memory, passes them to the other PEs of the node as file descriptors, and all map them into the
 * windows. Nothing has a name in the system, so nothing is left when a PE dies. memory/heap.h knows
 * which parts are allocated. This file knows nothing of paths and operations. */
#ifndef WEFT_GPU_HEAP_H
#define WEFT_GPU_HEAP_H

#include "boot/boot.h"
#include "gpu/device.h"

#include <pthread.h>
#include <stdatomic.h>

enum { GPU_FIRST_CHUNK = 64 << 20 }; /* bytes, of most jobs */

/* What a PE reports to the others about its GPU. */
struct gpu_identity {
    CUuuid uuid;
    char bus_id[20];
    int32_t ordinal;
    int32_t copy_engines;
    uint64_t granularity; /* granularity of chunks, bytes */
    uint64_t total_bytes;
    int32_t major, minor;
    /* random tag of this job, written into the GPU memory so that a CPU mapping of it can be
     * checked (gpu/map/map.h) */
    uint64_t job_tag;
};

/* One local PE's part of the heap as seen from this PE. */
struct gpu_window {
    CUdeviceptr base;
    struct gpu_identity gpu;
    bool mapped;        /* this PE's GPU maps the chunks and may access them */
    char evidence[256]; /* why the memory is accessible, or why not */
    /* index in heap->relays[] of the relay GPU for which the chunks are mapped; -1: none */
    int relay;
    char relay_text[160]; /* which relay GPU, or why there is none */
    /* a bit per entry of heap->relays[]: the chunks are also open to that relay GPU (stripe.h) */
    _Atomic uint32_t stripes;
};

/* For which peers the library looks for a relay GPU; see gpu/multipath/relay.h. */
enum gpu_relay_policy {
    GPU_RELAY_NEVER,
    /* only where this PE's GPU cannot access the peer's, and a relay GPU has NVLink to both */
    GPU_RELAY_WHERE_NEEDED,
    /* also in addition to direct access, over PCIe, and by the peer's own GPU */
    GPU_RELAY_ALWAYS,
};

struct gpu_chunk {
    size_t offset, bytes;                  /* the same in every window */
    CUmemGenericAllocationHandle *handles; /* [local_npes]; 0: none */
};

/* Memory of the program that was registered as a part of every window; see gpu/register.h. */
struct gpu_registered {
    struct gpu_chunk chunk; /* a whole allocation */
    /* bytes from the start of the allocation to the address that the program named; equal at every
     * PE */
    size_t lead;
    struct gpu_registered *next;
};

struct gpu_map;

struct gpu_heap {
    const struct gpu_device *device;
    struct boot *boot;
    size_t size;   /* bytes of each window */
    size_t backed; /* bytes at the start of each window that are backed by physical memory */
    size_t granularity;
    /* Chunks and ranges of registered memory begin at multiples of this power of two: the
     * granularity, and in large windows of a job on several nodes up to GPU_FIRST_CHUNK, so that
     * tables with a word for each unit of every PE (path gda) stay small. */
    size_t unit;
    CUdeviceptr reservation;
    size_t reserved_bytes;
    struct gpu_window *windows; /* [local_npes], in the order of local PEs */
    enum gpu_relay_policy policy;
    struct gpu_device *relays; /* [device->visible] relay GPUs that this PE has opened */
    _Atomic int relay_count;
    struct gpu_chunk *chunks;
    int chunk_count;
    struct gpu_registered *registered; /* registered memory, from the end of the window down */
    /* protects chunks and `registered`: other threads read them while one adds */
    pthread_mutex_t chunks_lock;
    /* protects `growing`; held while chunks are opened to further GPUs */
    pthread_mutex_t opening_lock;
    bool growing; /* chunks are being added or memory is being registered */
    /* CPU mappings of the heap, which are informed of all its memory; NULL: none (map.h) */
    struct gpu_map *map;
};

/* Reserves the windows, determines which peers' memory is accessible, and creates the first chunk,
 * of `first` bytes. `bytes` per PE; 0: the memory size of the largest GPU of the job. Collective
 * over the job. On failure, which is the same at every PE, nothing is left. */
weft_status gpu_heap_create(struct gpu_heap *heap, const struct gpu_device *device,
                            struct boot *boot, size_t bytes, size_t first,
                            enum gpu_relay_policy policy);

/* Allocation properties of heap memory. */
CUmemAllocationProp gpu_heap_properties(const struct gpu_device *device);

/* Backs [0, end) of every window with memory. Collective over the job, with the same `end`. Fails
 * at every PE or at none. WEFT_ERR_NO_MEMORY reports how much is free and which processes use the
 * rest. When a peer's new memory cannot be mapped here, this PE stops using that peer's part
 * (windows[].mapped, evidence). */
weft_status gpu_heap_grow(struct gpu_heap *heap, size_t end);

/* Unmaps and frees the heap. Not collective: the caller makes sure that no peer still uses this
 * memory. */
void gpu_heap_destroy(struct gpu_heap *heap);

/* Stops this GPU's use of a peer's part; `evidence` is the reason. The chunks are unmapped here
 * unless a relay GPU uses them. */
void gpu_heap_drop(struct gpu_heap *heap, int slot, const char *evidence);

/* Unmaps a peer's part if no GPU of this PE uses it. */
void gpu_heap_unmap_unused(struct gpu_heap *heap, int slot);

/* Returns whether a peer's part is mapped here for any GPU. */
static inline bool gpu_heap_holds(const struct gpu_heap *heap, int slot)
{
    return heap->windows[slot].mapped || heap->windows[slot].relay >= 0;
}

/* Mapping of one PE's part of a chunk, for heap.c and register.c. The device's context is current.
 * gpu_heap_map() sets chunk->handles[slot], which gpu_heap_unmap() releases. */
weft_status gpu_heap_map(const struct gpu_heap *heap, int slot, struct gpu_chunk *chunk,
                         CUmemGenericAllocationHandle handle);
void gpu_heap_unmap(const struct gpu_heap *heap, int slot, struct gpu_chunk *chunk);
weft_status gpu_heap_export(const struct gpu_heap *heap, const struct gpu_chunk *chunk, int *fd);
/* Does nothing for this PE's own slot and for a slot that no GPU of this PE uses. */
weft_status gpu_heap_import(const struct gpu_heap *heap, int slot, struct gpu_chunk *chunk, int fd);

/* Between these two calls no chunk is added or removed. gpu_heap_begin_opening() returns false
 * while another thread makes the heap grow; the caller then does not call
 * gpu_heap_end_opening(). */
bool gpu_heap_begin_opening(struct gpu_heap *heap);
void gpu_heap_end_opening(struct gpu_heap *heap);

/* Enclose a change of the chunks. Excludes gpu_heap_begin_opening(). */
void gpu_heap_begin_growing(struct gpu_heap *heap);
void gpu_heap_end_growing(struct gpu_heap *heap);

/* Gives a further GPU access to all chunks of a part that is mapped here. The device's context is
 * current. */
weft_status gpu_heap_open_to(struct gpu_heap *heap, int slot, const struct gpu_device *by);

/* Returns the end of the range into which the heap may grow; registered memory begins there. */
size_t gpu_heap_limit(const struct gpu_heap *heap);

/* Returns this PE's own window. */
static inline struct gpu_window *gpu_heap_own(const struct gpu_heap *heap)
{
    return &heap->windows[heap->boot->local_pe];
}

/* Whether the address is in this PE's range of the heap, backed or not. */
static inline bool gpu_heap_covers(const struct gpu_heap *heap, const void *address)
{
    return (uintptr_t)address - gpu_heap_own(heap)->base < heap->size;
}

#endif
