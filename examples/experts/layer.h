/* SPDX-License-Identifier: Apache-2.0 */
/* A mixture of experts over the PEs of a job: tokens go to the PEs that have their experts, and
 * come back as sums of what these make of them; gradients go the same way. A token goes to a PE
 * once, however many of its experts are there, and what it becomes there comes back once. Kernels
 * put the rows straight into the memory of the PE that wants them, and a barrier on the stream ends
 * that: how many go where is known to the devices alone. */
#ifndef EXAMPLES_EXPERTS_LAYER_H
#define EXAMPLES_EXPERTS_LAYER_H

#include <stdbool.h>

#include "kernels.h"

enum phase { DISPATCH, COMBINE, BACK_DISPATCH, BACK_COMBINE, PHASES };

struct layer;

/* Collective. */
weft_status layer_create(weft_job *job, const shape *s, weft_stream stream, struct layer **made);
weft_status layer_destroy(struct layer *layer);

/* Tokens, gradients and experts, and the choice of each token. */
weft_status layer_route(struct layer *layer);

/* One pass, forward in three steps; timed: events note when its phases begin and end. Members do
 * the same in the same order. */
weft_status layer_dispatch(struct layer *layer, bool timed);
weft_status layer_compute(struct layer *layer);
weft_status layer_combine(struct layer *layer, bool timed);
weft_status layer_backward(struct layer *layer, bool timed);

/* After the stream has ended: how long a phase of the latest timed pass took. */
weft_status layer_phase_ns(struct layer *layer, enum phase phase, uint64_t *ns);

/* After the stream has ended: WEFT_ERR_RANGE where so many rows of this PE's tokens go to a PE that
 * it has no room for them all, which the device has left out. */
weft_status layer_check(struct layer *layer, uint32_t *pe, uint32_t *rows);

/* Rows of this PE's tokens, and bytes of them that go to other PEs, and that come back. */
struct layer_traffic {
    double rows, far_rows, bytes_out, bytes_back;
};
weft_status layer_traffic(struct layer *layer, struct layer_traffic *traffic);

/* After a backward pass: how many tokens each of this PE's experts has got; `own` of them, at most
 * all there are. */
weft_status layer_tokens_of_experts(struct layer *layer, uint32_t *tokens, uint32_t *own);

const buffers *layer_buffers(const struct layer *layer);

#endif
