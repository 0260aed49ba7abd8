/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the program's own as a part of the GPU heap: allocations of cuMemCreate() are mapped
 * once more, in every window of every local PE at the same offset, from the end of the windows
 * down. From then on it is reached as all of the heap is, by host and device code. Memory of
 * cudaMalloc() cannot be: the driver maps a peer's where it likes. Knows nothing of paths and
 * operations. */
#ifndef WEFT_GPU_ADOPT_H
#define WEFT_GPU_ADOPT_H

#include "gpu/heap.h"

/* One PE's own memory, as the driver knows it. */
struct gpu_own_memory {
    CUmemGenericAllocationHandle handle; /* held until gpu_adopt() or gpu_release_memory() */
    size_t bytes;                        /* of the allocation */
    size_t lead;                         /* from its start to `address` */
};

/* Finds the allocation that holds `bytes` at `address`, and sees whether the peers could map it.
 * Not collective. WEFT_ERR_ADDRESS: it is none of cuMemCreate(), or too small;
 * WEFT_ERR_UNSUPPORTED: of another GPU, or without a descriptor to hand on. */
weft_status gpu_inspect_memory(const struct gpu_heap *heap, const void *address, size_t bytes,
                               struct gpu_own_memory *own);
void gpu_release_memory(const struct gpu_heap *heap, struct gpu_own_memory *own);

/* Maps every PE's memory in every window. Collective over the job; own->bytes and own->lead are
 * equal at every PE. Takes the handle over. Fails at every PE or at none, and then leaves nothing.
 * WEFT_ERR_NO_MEMORY: the windows have no such stretch left. */
weft_status gpu_register_memory(struct gpu_heap *heap, struct gpu_own_memory *own,
                                struct gpu_registered **registered);

/* Whether [offset, offset + bytes) of the windows lies in one adopted allocation. */
bool gpu_registered_holds(struct gpu_heap *heap, size_t offset, size_t bytes);

/* What was adopted by the address at `offset` of the own window, NULL: nothing. */
struct gpu_registered *gpu_registered_find(const struct gpu_heap *heap, size_t offset);

/* Unmaps it here. Not collective; the caller sees to it that no peer still uses it. */
void gpu_unregister_memory(struct gpu_heap *heap, struct gpu_registered *registered);

#endif
