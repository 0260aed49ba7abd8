/* SPDX-License-Identifier: Apache-2.0 */
/* The check: PE 0 repeats the whole training from the first step without using other PEs. */
#ifndef EXAMPLES_TRAIN_ALONE_H
#define EXAMPLES_TRAIN_ALONE_H

#include "parallel.h"

/* Bytes of the heap at each PE. */
size_t alone_bytes(const model_shape *shape);

/* Returns true if parameters and moments after `steps` equal those of `parallel` in every bit. PE 0
 * prints the result or the first difference, and *seconds receives the time of its steps. The other
 * PEs wait and get true. `stream` is the model's. Collective. */
bool alone_same(weft_job *job, const model_shape *shape, float rate, struct model *model,
                weft_stream stream, struct parallel *parallel, uint64_t steps, double *seconds);

#endif
