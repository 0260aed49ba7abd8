/* SPDX-License-Identifier: Apache-2.0 */
/* Third GPUs: where this PE's GPU cannot access the memory of a local peer, and another GPU of the
 * machine can access both, this process opens a context there too. Chunks of both PEs, in the
 * windows of addresses that they have anyway, are opened to that GPU, so that its copy engines and
 * our kernels on it carry from one side to the other; nothing is kept in its memory. Local to this
 * process: peers need not take the same GPU. Knows addresses, no paths. */
#ifndef WEFT_GPU_RELAY_H
#define WEFT_GPU_RELAY_H

#include "gpu/gpu.h"

/* For every window that wants one: finds the third GPU and opens its context, heap->relays[]; the
 * window says which and by what links, or why there is none. Before anything is mapped. */
void gpu_relay_select(struct gpu_heap *heap, enum gpu_relay_policy policy);

/* A window, or all that go over one GPU, are relayed no more, and `evidence` is why. */
void gpu_relay_drop(struct gpu_heap *heap, int slot, const char *evidence);
void gpu_relay_remove(struct gpu_heap *heap, int relay, const char *evidence);

/* Whether some window goes over this one. */
bool gpu_relay_used(const struct gpu_heap *heap, int relay);

/* For a peer whose memory this GPU could access and is about to give up: looks for a third GPU, as
 * gpu_relay_select() does, and opens to it what is mapped. */
void gpu_relay_add_fallback(struct gpu *gpu, int slot);

/* Opens this PE's part and that of a peer to one more GPU, for a part of large copies: its place in
 * gpu->sides, and the bit of windows[].stripes; -1 with base_last_error(). Between
 * gpu_heap_begin_opening() and gpu_heap_end_opening(). */
int gpu_relay_open(struct gpu *gpu, int ordinal, int slot);

/* Streams and kernels on every third GPU, gpu->sides[]. One that fails is lost. */
void gpu_relay_start(struct gpu *gpu);
void gpu_relay_stop(struct gpu *gpu);

/* The side that reaches local PE `slot`, NULL: none. Operations of gpu.h take it in place of the
 * PE's own: equal addresses, lanes and kernels of the third GPU. */
static inline struct gpu *gpu_relay_gpu(const struct gpu *gpu, int slot)
{
    int relay = gpu->heap.windows[slot].relay;
    return relay < 0 ? NULL : gpu->relay_gpus[relay];
}

/* Whether a third GPU can access this PE's `local`: host memory, and the heap, whose chunks are
 * open to it. Memory of this GPU that the program made is not. */
bool gpu_relay_reaches(struct gpu *relay_gpu, const void *local);

/* As gpu_copy(), and complete on return, where one of `dst` and `src` is memory that the third GPU
 * cannot access: in pieces through memory of this PE's GPU that it can. */
weft_status gpu_relay_copy_staged(struct gpu *relay_gpu, unsigned stream_index, void *dst,
                                  const void *src, size_t bytes);

#endif
