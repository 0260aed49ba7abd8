/* SPDX-License-Identifier: Apache-2.0 */
/* How PEs that train together hold a layer: each has the same share of its parameters and moments,
 * in memory and to read from the file and write to it, and its own samples. Parameters are put
 * together for the time of their use; gradients go, each share to its owner, which adds them up in
 * the order of the PEs: the same bits in every run. Source of the idea: S. Rajbhandari et al.,
 * "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020, stage 3. */
#ifndef EXAMPLES_OFFLOAD_SHARE_H
#define EXAMPLES_OFFLOAD_SHARE_H

#include "model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the two functions below exchange through; nothing where a PE trains alone. Collective. */
struct share;
size_t share_bytes(const struct model_shape *shape);
weft_status share_create(weft_job *job, const struct model_shape *shape, struct share **share);
weft_status share_destroy(struct share *share);

/* Both queue on the default stream and return; every PE calls them for the same layers in the same
 * order.
 * gather: all parameters, of whose this PE's are at `own`, stand in share_whole().
 * scatter: of the gradients that every PE has in share_whole(), those of this PE's parameters stand
 * in share_inbox(), `model_shard_bytes()` from each PE one behind the other. */
weft_status share_gather(struct share *share, const float *own);
weft_status share_scatter(struct share *share);
float *share_whole(struct share *share);
const float *share_inbox(const struct share *share);

#ifdef __cplusplus
}
#endif

#endif
