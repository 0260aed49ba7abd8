/* SPDX-License-Identifier: Apache-2.0 */
/* Large copies between this PE's GPU memory and a local peer's, striped over ways that share no
 * link: a part goes the direct way, parts are carried by third GPUs (relay.h). A striped copy keeps
 * its place on its lane: its parts begin behind what the lane did before, and what the lane does
 * next begins behind all of them. So order, completion and signals are those of a plain copy.
 *
 * Third GPUs are opened, and the ways measured, at the first large copy to a peer; from which size
 * on striping is faster is told by that measurement, which copies the program's own bytes several
 * times. WEFT_STRIPES forces a number of ways, without measuring. Knows addresses, no paths. */
#ifndef WEFT_GPU_STRIPE_H
#define WEFT_GPU_STRIPE_H

#include "gpu/gpu.h"

/* Nothing is opened or measured yet; with WEFT_STRIPES=1 nothing ever is. WEFT_ERR_CONFIG: that is
 * no number of ways. */
weft_status gpu_stripes_start(struct gpu *gpu);
void gpu_stripes_stop(struct gpu *gpu);

/* As gpu_copy() on `by`, which is this PE's GPU or the third one of path relay, where one of `dst`
 * and `src` is memory of local PE `slot` in the GPU heap. */
weft_status gpu_copy_peer(struct gpu *gpu, struct gpu *issuer, int slot, unsigned stream_index,
                          void *dst, const void *src, size_t bytes, enum gpu_manner manner);

/* What is known of the ways to local PE `slot`; "" = nobody has needed to know. */
void gpu_stripes_text(struct gpu *gpu, int slot, char *text, size_t bytes);

#endif
