/* SPDX-License-Identifier: Apache-2.0 */
/* How PEs train one model together: each has all parameters and its own micro-batches. Gradients
 * are added up in buckets, on a second stream, while the backward pass computes the next ones. With
 * `shard` a PE has the optimizer's state only of its share of every bucket: it receives the sum of
 * that share, updates it, and sends it to all PEs.
 *
 * All additions are in the order of the micro-batches' numbers, so the bits depend neither on the
 * number of PEs nor on the buckets. In round r, PE p of P has micro-batch r * P + p, and a
 * reduction adds in the order of the PEs; PE 0 starts with the sum of the previous rounds. A PE
 * without a micro-batch in the last round contributes zeros.
 *
 * Source of the idea of shares: S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training
 * Trillion Parameter Models", SC 2020, stage 1. */
#ifndef EXAMPLES_TRAIN_PARALLEL_H
#define EXAMPLES_TRAIN_PARALLEL_H

#include "model.h"

#include <stdbool.h>

struct parallel_settings {
    size_t bucket_bytes;
    bool shard;
    float rate; /* learning rate */
};

struct parallel;

/* Largest number of heap bytes at each PE, for any number of PEs. */
size_t parallel_bytes(const model_shape *shape, const struct parallel_settings *settings);

/* `compute` is the model's stream. Collective, like all functions below. */
weft_status parallel_create(weft_job *job, const model_shape *shape,
                            const struct parallel_settings *settings, struct model *model,
                            weft_stream compute, struct parallel **parallel);
weft_status parallel_destroy(struct parallel *parallel);

/* Enqueues a step; waits for the step before the last. Steps count from 1. */
weft_status parallel_step(struct parallel *parallel, uint64_t step);

/* Waits for all steps. */
weft_status parallel_finish(struct parallel *parallel);

/* Returns the loss of the last finished step: the same bits at every PE. */
weft_status parallel_loss(struct parallel *parallel, double *loss);

/* The state after all steps are finished: model_floats() each, at every PE. With shares, the
 * moments are gathered in memory that the next step uses. */
struct parallel_state {
    float *values, *first, *second;
};
weft_status parallel_state(struct parallel *parallel, struct parallel_state *state);
/* parallel_place() returns where to put a state; the next function announces that it is there. */
struct parallel_state parallel_place(struct parallel *parallel);
weft_status parallel_load_state(struct parallel *parallel);

/* Measures the exchanges of a step with nothing else running, in ns; called before the first
 * step. */
weft_status parallel_alone(struct parallel *parallel, uint64_t *ns);
/* Figures of all finished steps: time of the exchanges, and time that the model's kernels waited
 * for them and for updates. */
void parallel_figures(const struct parallel *parallel, uint64_t *exchanged_ns, uint64_t *waited_ns);
uint32_t parallel_buckets(const struct parallel *parallel);

#endif
