/* SPDX-License-Identifier: Apache-2.0 */
/* How PEs that train together divide a layer: each has its share of parameters and moments, in
 * memory and in the file, and its own samples. Parameters are gathered while they are used. Each
 * share of the gradients goes to its owner, which adds them in the order of the PEs: the same bits
 * in every run.
 *
 * Source of the idea: S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion
 * Parameter Models", SC 2020, stage 3. */
#ifndef EXAMPLES_OFFLOAD_SHARE_H
#define EXAMPLES_OFFLOAD_SHARE_H

#include "model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Buffers of the exchange; empty if a PE trains alone. Collective. */
struct share;
size_t share_bytes(const struct model_shape *shape);
weft_status share_create(weft_job *job, const struct model_shape *shape, struct share **share);
weft_status share_destroy(struct share *share);

/* Both enqueue on the default stream and return; every PE calls them for the same layers in the
 * same order. gather: all parameters arrive in share_whole(); this PE's are at `own`. scatter: each
 * PE's gradients are in share_whole(); those of this PE's parameters arrive in share_inbox(),
 * `model_shard_bytes()` from each PE, one after the other. */
weft_status share_gather(struct share *share, const float *own);
weft_status share_scatter(struct share *share);
float *share_whole(struct share *share);
const float *share_inbox(const struct share *share);

#ifdef __cplusplus
}
#endif

#endif
