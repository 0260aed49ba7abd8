/* SPDX-License-Identifier: Apache-2.0 */
/* Registration of memory of the program as a part of the GPU heap. Allocations of cuMemCreate() are
 * mapped a second time, in every window of every local PE at the same offset, from the end of the
 * windows down. From then on host and device code access them as all memory of the heap. Memory of
 * cudaMalloc() cannot be registered: the driver maps a peer's memory at an address of its own
 * choice. This file knows nothing of paths and operations. */
#ifndef WEFT_GPU_ADOPT_H
#define WEFT_GPU_ADOPT_H

#include "gpu/heap.h"

/* The memory that one PE registers, as the driver reports it. */
struct gpu_own_memory {
    /* held until gpu_register_memory() or gpu_release_memory() */
    CUmemGenericAllocationHandle handle;
    size_t bytes; /* bytes of the allocation */
    size_t lead;  /* bytes from its start to `address` */
};

/* Finds the allocation that holds `bytes` at `address`, and checks whether peers can map it. Not
 * collective. WEFT_ERR_ADDRESS: not memory of cuMemCreate(), or too small. WEFT_ERR_UNSUPPORTED:
 * memory of another GPU, or not exportable as a file descriptor. */
weft_status gpu_inspect_memory(const struct gpu_heap *heap, const void *address, size_t bytes,
                               struct gpu_own_memory *own);
void gpu_release_memory(const struct gpu_heap *heap, struct gpu_own_memory *own);

/* Maps every PE's memory in every window. Collective over the job; own->bytes and own->lead are
 * equal at every PE. Takes ownership of the handle. Fails at every PE or at none; after a failure
 * nothing is left. WEFT_ERR_NO_MEMORY: the windows have no free range of this size. */
weft_status gpu_register_memory(struct gpu_heap *heap, struct gpu_own_memory *own,
                                struct gpu_registered **registered);

/* Returns whether [offset, offset + bytes) of the windows lies in one registered allocation. */
bool gpu_registered_holds(struct gpu_heap *heap, size_t offset, size_t bytes);

/* Returns the memory that was registered with the address at `offset` of the own window; NULL:
 * none. */
struct gpu_registered *gpu_registered_find(const struct gpu_heap *heap, size_t offset);

/* Unmaps registered memory here. Not collective: the caller makes sure that no peer still uses
 * it. */
void gpu_unregister_memory(struct gpu_heap *heap, struct gpu_registered *registered);

#endif
