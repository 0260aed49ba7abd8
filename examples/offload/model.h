/* SPDX-License-Identifier: Apache-2.0 */
/* The model that is trained: a stack of layers y = x + relu(x W + b), its loss, and Adam's update
 * of one layer, each a kernel that finds every sum in one order, so that a run can be repeated bit
 * for bit. Works on one layer at a time, wherever that lies; knows nothing of files. */
#ifndef EXAMPLES_OFFLOAD_MODEL_H
#define EXAMPLES_OFFLOAD_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include <weft.h>

#ifdef __cplusplus
extern "C" {
#endif

struct model_shape {
    uint32_t layers, width, batch; /* batch: samples of this PE in a step */
    uint64_t seed;
    uint32_t pes, me; /* PEs that train together, and which this is; 0 or 1: this one alone */
};

/* A layer in the file: three parts of model_part_bytes(): the parameters (`width` rows of weights
 * and a row of biases), and the first and second moments of their gradients. In memory a PE has its
 * share of each: the floats from model_shard_first(), model_shard_count() of them, in a block of
 * three times model_shard_bytes(). */
enum { MODEL_PARTS = 3 };
size_t model_part_bytes(const struct model_shape *shape);
size_t model_shard_bytes(const struct model_shape *shape);
size_t model_shard_first(const struct model_shape *shape, uint32_t pe);
size_t model_shard_count(const struct model_shape *shape, uint32_t pe);

/* What a step needs besides layers: the input of every layer, gradients, the loss of each sample,
 * and what PEs exchange layers through. Collective. */
struct model_work;
size_t model_work_bytes(const struct model_shape *shape);
weft_status model_work_create(weft_job *job, const struct model_shape *shape,
                              struct model_work **work);
weft_status model_work_destroy(struct model_work *work);

/* All of them queue kernels on the default stream and return; PEs that train together call them
 * alike. */

/* This PE's share of a layer as it is before the first step. */
weft_status model_init_layer(const struct model_shape *shape, uint32_t layer, float *block);

/* This PE's samples of a step; those of all depend on its number alone. */
weft_status model_begin(struct model_work *work, uint64_t step);

weft_status model_forward(struct model_work *work, uint32_t layer, const float *block);

/* After the last layer: how far its output is from what it should be. model_loss() is the mean of
 * this PE's samples, when the stream has been synchronized. */
weft_status model_compare(struct model_work *work);
double model_loss(const struct model_work *work);

/* From the last layer to the first: the gradient for the layer below, then the layer's update. step
 * counts from 1. */
weft_status model_backward(struct model_work *work, uint32_t layer, float *block, uint64_t step);

#ifdef __cplusplus
}
#endif

#endif
