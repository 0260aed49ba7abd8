/* SPDX-License-Identifier: Apache-2.0 */
/* The trained model: a transformer that predicts the next character, its loss and its gradients.
 * Each kernel computes every sum in a fixed order, whatever the number of blocks and threads, so
 * that runs are repeatable bit for bit. Knows one PE and one stream; nothing of other PEs and of
 * the use of gradients. */
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
    uint32_t vocabulary;           /* different characters */
    uint32_t micro; /* micro-batches per step of all PEs; the loss is the mean over all */
    uint64_t seed;
} model_shape;

/* Parameters are one array of floats, in the order in which the backward pass computes their
 * gradients: from the last layer to the embeddings. Gradients and moments are arrays of the same
 * order. */
size_t model_floats(const model_shape *shape);

/* Callbacks of the passes while they enqueue kernels; functions may be NULL.
 *
 * wanted: the next kernels read the parameters from `first` to before `end`.
 *
 * filled: the enqueued kernels compute the gradients before `end`, and read the parameters before
 * `end` for the last time in this pass. The last call has end = model_floats(). */
struct model_hooks {
    weft_status (*wanted)(void *with, size_t first, size_t end);
    weft_status (*filled)(void *with, size_t end);
    void *with;
};

/* Activations, and the gradients of the backward pass. `text`: character numbers, in memory that
 * kernels can access; it has `length` elements, more than the context, and must not change. blocks:
 * of a kernel; 0: the target's default. Creation and destruction are collective. */
struct model;
size_t model_work_bytes(const model_shape *shape);
weft_status model_create(weft_job *job, const model_shape *shape, const uint8_t *text,
                         uint64_t length, unsigned blocks, weft_stream stream,
                         struct model **model);
weft_status model_destroy(struct model *model);

/* The following functions enqueue kernels on the model's stream and return. */

/* Initialises the parameters. */
weft_status model_init(struct model *model, float *values);

/* Forward pass of micro-batch `micro` of `step`, which is the same at every PE. *loss, in memory
 * that kernels can access, receives its mean loss. */
weft_status model_forward(struct model *model, const float *values, uint64_t step, uint32_t micro,
                          double *loss, const struct model_hooks *hooks);

/* Predicts the character after `count` characters, 1 to the context: *logits receives a float for
 * each character of the vocabulary. Both are in memory that kernels can access. */
weft_status model_next(struct model *model, const float *values, const uint8_t *characters,
                       uint32_t count, float *logits);

/* Backward pass of the last forward pass: the gradients of this micro-batch's part of the step's
 * loss. */
weft_status model_backward(struct model *model, const float *values, float *gradients,
                           const struct model_hooks *hooks);

/* Operations on any stream. */

/* to[i] = a[i] + b[i]; a NULL: to[i] = b[i]. */
weft_status model_add(struct model *model, float *to, const float *a, const float *b, size_t n,
                      weft_stream stream);

/* Writes zeros that change nothing when added, not even the sign of a zero (-0.0). */
weft_status model_nothing(struct model *model, float *to, size_t n, weft_stream stream);

/* AdamW's step with these gradients; step counts from 1. rate: learning rate after a warm-up of
 * MODEL_WARMUP steps. Source: I. Loshchilov, F. Hutter, "Decoupled Weight Decay Regularization",
 * ICLR 2019, algorithm 2. */
enum { MODEL_WARMUP = 10 };
weft_status model_update(struct model *model, float *values, float *first, float *second,
                         const float *gradients, size_t n, uint64_t step, float rate,
                         weft_stream stream);

#ifdef __cplusplus
}
#endif

#endif
