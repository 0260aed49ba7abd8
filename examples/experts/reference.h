/* SPDX-License-Identifier: Apache-2.0 */
/* Serial reference: the same computation by loops, without PEs, blocks and kernels. */
#ifndef EXAMPLES_EXPERTS_REFERENCE_H
#define EXAMPLES_EXPERTS_REFERENCE_H

#include "layer.h"

/* Returns true if this PE's results, gradients of tokens and weights, and gradients of its experts
 * are right in every bit. Otherwise prints the first difference on stderr. backward: also compares
 * the gradients. */
bool reference_agrees(weft_job *job, const shape *s, const struct layer *layer, bool backward);

#endif
