/* SPDX-License-Identifier: Apache-2.0 */
/* The model that is trained: a transformer that says what character comes next, its loss and its
 * gradients. Each kernel finds every sum in one order, whatever the number of blocks and threads,
 * so that a run can be repeated bit for bit. Knows one PE and one stream; nothing of other PEs and
 * of what becomes of gradients. */
#ifndef EXAMPLES_TRAIN_MODEL_H
#define EXAMPLES_TRAIN_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include <weft.h>
#include <weft/launch.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct model_shape {
    uint32_t layers, width, heads; /* heads divides width */
    uint32_t context;              /* characters that the model sees */
    uint32_t batch;                /* sequences of a micro-batch */
    uint32_t vocabulary;           /* characters there are */
    uint32_t micro; /* micro-batches of a step, of all PEs: the loss is the mean over all */
    uint64_t seed;
} model_shape;

/* Parameters are one array of floats, in the order in which the backward pass finds their
 * gradients: from the last layer's to the embeddings. Gradients and moments are arrays of the same
 * order. */
size_t model_floats(const model_shape *shape);

/* What the passes tell while they queue kernels; functions may be NULL.
 * wanted: the kernels that are queued next read the parameters from `first` to before `end`.
 * filled: what has been queued finds the gradients before `end`, and reads the parameters before
 * `end` for the last time in this pass. The last call has end = model_floats(). */
struct model_hooks {
    weft_status (*wanted)(void *with, size_t first, size_t end);
    weft_status (*filled)(void *with, size_t end);
    void *with;
};

/* Activations, and the gradients that flow back. `text`: numbers of characters, in memory that
 * kernels reach; it is as long as `length`, which is more than the context, and stays as it is.
 * blocks: of a kernel; 0: as the target has it. Creation and destruction are collective. */
struct model;
size_t model_work_bytes(const model_shape *shape);
weft_status model_create(weft_job *job, const model_shape *shape, const uint8_t *text,
                         uint64_t length, unsigned blocks, weft_stream stream,
                         struct model **model);
weft_status model_destroy(struct model *model);

/* All of the following queue kernels on the model's stream and return. */

/* The parameters before the first step. */
weft_status model_init(struct model *model, float *values);

/* Micro-batch `micro` of `step`, which is the same at every PE that asks for it. *loss, in memory
 * that kernels reach, becomes its mean loss. */
weft_status model_forward(struct model *model, const float *values, uint64_t step, uint32_t micro,
                          double *loss, const struct model_hooks *hooks);

/* What comes behind `count` characters, of which there are 1 to the context: *logits, a float for
 * each of the vocabulary. Both in memory that kernels reach. */
weft_status model_next(struct model *model, const float *values, const uint8_t *characters,
                       uint32_t count, float *logits);

/* Of the last forward pass: the gradients of this micro-batch's part of the step's loss. */
weft_status model_backward(struct model *model, const float *values, float *gradients,
                           const struct model_hooks *hooks);

/* On any stream. */

/* to[i] = a[i] + b[i]; of NULL for `a`, b[i]. */
weft_status model_add(struct model *model, float *to, const float *a, const float *b, size_t n,
                      weft_stream stream);

/* Zeros that change nothing when they are added, not even the sign of a zero. */
weft_status model_nothing(struct model *model, float *to, size_t n, weft_stream stream);

/* AdamW's step with these gradients; step counts from 1. rate: after a warm-up of MODEL_WARMUP
 * steps.
 * Source: I. Loshchilov, F. Hutter, "Decoupled Weight Decay Regularization", ICLR 2019, algorithm
 * 2. */
enum { MODEL_WARMUP = 10 };
weft_status model_update(struct model *model, float *values, float *first, float *second,
                         const float *gradients, size_t n, uint64_t step, float rate,
                         weft_stream stream);

#ifdef __cplusplus
}
#endif

#endif
