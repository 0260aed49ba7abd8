/* SPDX-License-Identifier: Apache-2.0 */
/* What a trained model says. */
#ifndef EXAMPLES_TRAIN_SAY_H
#define EXAMPLES_TRAIN_SAY_H

#include "model.h"
#include "text.h"

/* PE 0 prints `n` characters that the model finds likely behind the first ones of the text, which
 * it prints before them. Collective. */
void say(weft_job *job, const model_shape *shape, const struct text *text, struct model *model,
         weft_stream stream, const float *values, uint64_t n);

#endif
