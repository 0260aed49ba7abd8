/* SPDX-License-Identifier: Apache-2.0 */
/* A training's state in a file, from which any number of PEs goes on: parameters and moments, as
 * checkpoints of the checkpoint example. */
#ifndef EXAMPLES_TRAIN_STATE_H
#define EXAMPLES_TRAIN_STATE_H

#include "parallel.h"

/* What has to be the same in a run that goes on, besides the shape that the arrays have. */
enum { STATE_MICRO, STATE_BATCH, STATE_HEADS, STATE_SEED, STATE_RATE, STATE_TEXT, STATE_SETTINGS };
struct state_settings {
    uint64_t value[STATE_SETTINGS]; /* STATE_RATE: bits of the float; STATE_TEXT: its CRC-32C */
};

/* False, which PE 0 explains, where it cannot be written or read. Collective. */
bool state_save(weft_job *job, const char *path, const model_shape *shape,
                const struct state_settings *settings, struct parallel *parallel, uint64_t step);
bool state_resume(weft_job *job, const char *path, const model_shape *shape,
                  const struct state_settings *settings, struct parallel *parallel, uint64_t *step);

#endif
