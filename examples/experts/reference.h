/* SPDX-License-Identifier: Apache-2.0 */
/* The same by one loop after another, without PEs, blocks and kernels. */
#ifndef EXAMPLES_EXPERTS_REFERENCE_H
#define EXAMPLES_EXPERTS_REFERENCE_H

#include "layer.h"

/* Whether every bit that this PE has is what it should be: results, gradients of its tokens and of
 * their weights, and of its experts; else says on stderr what is not. backward: the gradients
 * too. */
bool reference_agrees(weft_job *job, const shape *s, const struct layer *layer, bool backward);

#endif
