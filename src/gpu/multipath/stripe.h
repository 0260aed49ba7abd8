/* SPDX-License-Identifier: Apache-2.0 */
/* Large copies between this PE's GPU memory and a local peer's, striped over routes that share no
 * link: one share goes the direct route, other shares go over relay GPUs (relay.h). A striped copy
 * keeps its place on its internal stream: its shares begin after earlier operations of the stream,
 * and later operations begin after all shares. So order, completion and signals are those of a
 * plain copy.
 *
 * At the first large copy to a peer the library opens the relay GPUs and measures the routes. The
 * measurement copies the program's own bytes several times and yields the size from which striping
 * is faster. WEFT_TEST_STRIPES forces a number of routes without a measurement. This file knows
 * addresses, no paths. */
#ifndef WEFT_GPU_STRIPE_H
#define WEFT_GPU_STRIPE_H

#include "gpu/gpu.h"

/* Prepares striping without opening or measuring anything; with WEFT_TEST_STRIPES=1 copies are
 * never striped. WEFT_ERR_CONFIG: WEFT_TEST_STRIPES is not a valid number of routes. */
weft_status gpu_stripes_start(struct gpu *gpu);
void gpu_stripes_stop(struct gpu *gpu);

/* As gpu_copy() on `issuer`, which is this PE's GPU or the relay GPU of path relay. One of `dst`
 * and `src` is memory of local PE `slot` in the GPU heap. */
weft_status gpu_copy_peer(struct gpu *gpu, struct gpu *issuer, int slot, unsigned stream_index,
                          void *dst, const void *src, size_t bytes, enum gpu_copy_mode mode);

/* Describes the routes to local PE `slot`; "": not determined yet. */
void gpu_stripes_text(struct gpu *gpu, int slot, char *text, size_t bytes);

#endif
