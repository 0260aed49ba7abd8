/* SPDX-License-Identifier: Apache-2.0 */
/* Relay GPUs. Where this PE's GPU cannot access a local peer's memory and another GPU of the
 * machine can access both, this process opens a context on that relay GPU. The chunks of both PEs
 * are opened to the relay GPU at the same window addresses, so its copy engines and kernels move
 * data between the two sides. Nothing is stored in its memory. Local to this process: the peer may
 * use another relay GPU. This file knows addresses, no paths. */
#ifndef WEFT_GPU_RELAY_H
#define WEFT_GPU_RELAY_H

#include "gpu/gpu.h"

/* Finds a relay GPU for every window that needs one and opens its context, heap->relays[]. The
 * window records which GPU and links, or why there is none. Called before anything is mapped. */
void gpu_relay_select(struct gpu_heap *heap, enum gpu_relay_policy policy);

/* Stops relaying a window, or all windows that use one relay GPU; `evidence` is the reason. */
void gpu_relay_drop(struct gpu_heap *heap, int slot, const char *evidence);
void gpu_relay_remove(struct gpu_heap *heap, int relay, const char *evidence);

/* Returns whether any window uses this relay GPU. */
bool gpu_relay_used(const struct gpu_heap *heap, int relay);

/* For a peer whose memory this GPU is about to stop accessing: looks for a relay GPU as
 * gpu_relay_select() does, and opens the mapped chunks to it. */
void gpu_relay_add_fallback(struct gpu *gpu, int slot);

/* Opens this PE's part and a peer's part to one more GPU, which will carry a share of large copies.
 * Returns its index in gpu->relay_gpus, which is also its bit of windows[].stripes; -1 with
 * base_last_error(). Called between gpu_heap_begin_opening() and gpu_heap_end_opening(). */
int gpu_relay_open(struct gpu *gpu, int ordinal, int slot);

/* Create and destroy streams and kernels on every relay GPU, gpu->relay_gpus[]. A relay GPU that
 * fails is removed. */
void gpu_relay_start(struct gpu *gpu);
void gpu_relay_stop(struct gpu *gpu);

/* Returns the relay GPU that reaches local PE `slot`; NULL: none. Operations of gpu.h accept it in
 * place of the PE's own GPU: the addresses are the same, the streams and kernels are those of the
 * relay GPU. */
static inline struct gpu *gpu_relay_gpu(const struct gpu *gpu, int slot)
{
    int relay = gpu->heap.windows[slot].relay;
    return relay < 0 ? NULL : gpu->multipath.relay_gpus[relay];
}

/* Returns whether a relay GPU can access `local`: host memory, and the heap, whose chunks are open
 * to it. It cannot access other memory of this PE's GPU that the program allocated. */
bool gpu_relay_reaches(struct gpu *relay_gpu, const void *local);

/* As gpu_copy(), and complete on return, where the relay GPU cannot access one of `dst` and `src`:
 * copies in pieces through a staging buffer of this PE's GPU. */
weft_status gpu_relay_copy_staged(struct gpu *relay_gpu, unsigned stream_index, void *dst,
                                  const void *src, size_t bytes);

#endif
