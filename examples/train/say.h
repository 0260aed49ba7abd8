/* SPDX-License-Identifier: Apache-2.0 */
/* Text generation with a trained model. */
#ifndef EXAMPLES_TRAIN_SAY_H
#define EXAMPLES_TRAIN_SAY_H

#include "model.h"
#include "text.h"

/* PE 0 prints the first characters of the text, and then `n` characters that the model predicts
 * after them. Collective. */
void say(weft_job *job, const model_shape *shape, const struct text *text, struct model *model,
         weft_stream stream, const float *values, uint64_t n);

#endif
