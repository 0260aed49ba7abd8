/* SPDX-License-Identifier: Apache-2.0 */
/* State of a training in a file, from which any number of PEs can resume: parameters and moments,
 * written by the checkpoint example. */
#ifndef EXAMPLES_TRAIN_STATE_H
#define EXAMPLES_TRAIN_STATE_H

#include "parallel.h"

/* Settings that a resumed run must share, besides the shape of the arrays. */
enum { STATE_MICRO, STATE_BATCH, STATE_HEADS, STATE_SEED, STATE_RATE, STATE_TEXT, STATE_SETTINGS };
struct state_settings {
    /* STATE_RATE: bits of the float; STATE_TEXT: CRC-32C of the text */
    uint64_t value[STATE_SETTINGS];
};

/* Returns false, and PE 0 prints why, if the file cannot be written or read. Collective. */
bool state_save(weft_job *job, const char *path, const model_shape *shape,
                const struct state_settings *settings, struct parallel *parallel, uint64_t step);
bool state_resume(weft_job *job, const char *path, const model_shape *shape,
                  const struct state_settings *settings, struct parallel *parallel, uint64_t *step);

#endif
