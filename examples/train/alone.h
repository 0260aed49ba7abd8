/* SPDX-License-Identifier: Apache-2.0 */
/* The check: PE 0 does the whole training again, from the first step, with nothing of what PEs do
 * together. */
#ifndef EXAMPLES_TRAIN_ALONE_H
#define EXAMPLES_TRAIN_ALONE_H

#include "parallel.h"

/* Of the heap, at each PE. */
size_t alone_bytes(const model_shape *shape);

/* Whether parameters and moments after `steps` are, in every bit, those of `parallel`; PE 0 says
 * so, or what is not, and gets the *seconds that its steps have taken. The others wait, and get
 * true. `stream` is the model's. Collective. */
bool alone_same(weft_job *job, const model_shape *shape, float rate, struct model *model,
                weft_stream stream, struct parallel *parallel, uint64_t steps, double *seconds);

#endif
