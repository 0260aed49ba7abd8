/* SPDX-License-Identifier: Apache-2.0 */
/* How PEs train one model together: each has all parameters and its own micro-batches, and their
 * gradients are added up in buckets, on a second stream, while the backward pass finds those of the
 * next. With `shard` a PE has the optimizer's state of its share of every bucket alone: it gets the
 * sum of that share, updates it, and gives it to all.
 *
 * The order of all additions is that of the micro-batches' numbers, so the bits depend neither on
 * the number of PEs nor on the buckets. In round r, PE p of P has micro-batch r * P + p, and a
 * reduction adds in the order of the PEs; PE 0 begins with the sum of the rounds before. Who has no
 * micro-batch in the last round gives zeros. Source of the idea of shares: S. Rajbhandari et al.,
 * "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020, stage 1. */
#ifndef EXAMPLES_TRAIN_PARALLEL_H
#define EXAMPLES_TRAIN_PARALLEL_H

#include "model.h"

#include <stdbool.h>

struct parallel_wish {
    size_t bucket_bytes;
    bool shard;
    float rate; /* of learning */
};

struct parallel;

/* Of the heap at each PE, at most, however many there are. */
size_t parallel_bytes(const model_shape *shape, const struct parallel_wish *wish);

/* `compute` is the model's stream. Collective, as all below. */
weft_status parallel_create(weft_job *job, const model_shape *shape,
                            const struct parallel_wish *wish, struct model *model,
                            weft_stream compute, struct parallel **parallel);
weft_status parallel_destroy(struct parallel *parallel);

/* Puts a step on the streams; waits for the step before the last. Steps count from 1. */
weft_status parallel_step(struct parallel *parallel, uint64_t step);

/* Waits for all steps. */
weft_status parallel_finish(struct parallel *parallel);

/* Of the last step, when it is finished: the same bits at every PE. */
weft_status parallel_loss(struct parallel *parallel, double *loss);

/* The state, when all steps are finished: model_floats() each, at every PE; with shares, the
 * moments are put together for it in memory that the next step uses. */
struct parallel_state {
    float *values, *first, *second;
};
weft_status parallel_state(struct parallel *parallel, struct parallel_state *state);
/* Where to put a state, and that it is there. */
struct parallel_state parallel_place(struct parallel *parallel);
weft_status parallel_adopt(struct parallel *parallel);

/* What the exchanges of a step take with nothing beside them, in ns; before the first step. */
weft_status parallel_alone(struct parallel *parallel, uint64_t *ns);
/* Of all finished steps: how long exchanges took, and how long the model's kernels waited for them
 * and for updates. */
void parallel_figures(const struct parallel *parallel, uint64_t *exchanged_ns, uint64_t *waited_ns);
uint32_t parallel_buckets(const struct parallel *parallel);

#endif
