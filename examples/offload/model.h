/* SPDX-License-Identifier: Apache-2.0 */
/* The trained model: a stack of layers y = x + relu(x W + b), its loss, and Adam's update of one
 * layer. Each kernel computes every sum in a fixed order, so that runs are repeatable bit for bit.
 * Works on one layer at a time, wherever it is; knows nothing of files. */
#ifndef EXAMPLES_OFFLOAD_MODEL_H
#define EXAMPLES_OFFLOAD_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include <weft.h>

#ifdef __cplusplus
extern "C" {
#endif

struct model_shape {
    uint32_t layers, width, batch; /* batch: samples of this PE per step */
    uint64_t seed;
    /* PEs that train together, and the index of this one; 0 or 1: this one alone */
    uint32_t pes, me;
};

/* A layer in the file has three parts of model_part_bytes(): the parameters (`width` rows of
 * weights and a row of biases), and the first and second moments of their gradients. In memory a PE
 * has its share of each: the model_shard_count() floats from model_shard_first() on, in a block of
 * three times model_shard_bytes(). */
enum { MODEL_PARTS = 3 };
size_t model_part_bytes(const struct model_shape *shape);
size_t model_shard_bytes(const struct model_shape *shape);
size_t model_shard_first(const struct model_shape *shape, uint32_t pe);
size_t model_shard_count(const struct model_shape *shape, uint32_t pe);

/* Memory of a step besides layers: the input of every layer, gradients, the loss of each sample,
 * and buffers to exchange layers with other PEs. Collective. */
struct model_work;
size_t model_work_bytes(const struct model_shape *shape);
weft_status model_work_create(weft_job *job, const struct model_shape *shape,
                              struct model_work **work);
weft_status model_work_destroy(struct model_work *work);

/* The following functions enqueue kernels on the default stream and return. PEs that train together
 * call them in the same order. */

/* Initialises this PE's share of a layer. */
weft_status model_init_layer(const struct model_shape *shape, uint32_t layer, float *block);

/* Creates this PE's samples of a step; the samples of all PEs depend only on the step number. */
weft_status model_begin(struct model_work *work, uint64_t step);

weft_status model_forward(struct model_work *work, uint32_t layer, const float *block);

/* After the last layer: compares the output with the expected one. model_loss() is the mean over
 * this PE's samples, after the stream was synchronised. */
weft_status model_compare(struct model_work *work);
double model_loss(const struct model_work *work);

/* Called from the last layer to the first: computes the gradient for the layer below, then updates
 * the layer. step counts from 1. */
weft_status model_backward(struct model_work *work, uint32_t layer, float *block, uint64_t step);

#ifdef __cplusplus
}
#endif

#endif
