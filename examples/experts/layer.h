/* SPDX-License-Identifier: Apache-2.0 */
/* A mixture of experts distributed over the PEs of a job. Tokens go to the PEs of their experts and
 * return as sums of the experts' results; gradients take the same way (<weft_experts.h>). Only the
 * devices know how many rows go where. */
#ifndef EXAMPLES_EXPERTS_LAYER_H
#define EXAMPLES_EXPERTS_LAYER_H

#include <stdbool.h>

#include "kernels.h"

enum phase { DISPATCH, COMBINE, BACK_DISPATCH, BACK_COMBINE, PHASES };

struct layer;

/* Collective. */
weft_status layer_create(weft_job *job, const shape *s, weft_stream stream, struct layer **made);
weft_status layer_destroy(struct layer *layer);

/* Whether each dispatch and combine is a send and a receive, as it must be where work is to overlap
 * with it, or one call, as it is at first. */
void layer_split_calls(struct layer *layer, bool split);

/* Creates tokens, gradients and experts, and routes each token. */
weft_status layer_route(struct layer *layer);

/* One pass; the forward pass has three steps. timed: events record the begin and end of its phases.
 * All PEs call the same steps in the same order. */
weft_status layer_dispatch(struct layer *layer, bool timed);
weft_status layer_compute(struct layer *layer);
weft_status layer_combine(struct layer *layer, bool timed);
weft_status layer_backward(struct layer *layer, bool timed);

/* After the stream is synchronised: duration of a phase of the latest timed pass in ns. */
weft_status layer_phase_ns(struct layer *layer, enum phase phase, uint64_t *ns);

/* After the stream is synchronised: what the device found wrong (weft_experts_check()). */
weft_status layer_check(struct layer *layer);

/* Rows of this PE's tokens, and bytes of them that go to other PEs and that return. */
struct layer_traffic {
    double rows, remote_rows, bytes_out, bytes_back;
};
weft_status layer_traffic(struct layer *layer, struct layer_traffic *traffic);

/* After a backward pass: the number of tokens of each of this PE's experts; `own` experts, at most
 * all. */
weft_status layer_tokens_of_experts(struct layer *layer, uint32_t *tokens, uint32_t *own);

/* Whether the results of each node are added before they return to a token's PE on another one. */
weft_status layer_adds_by_nodes(const struct layer *layer, bool *adds);

const buffers *layer_buffers(const struct layer *layer);

#endif
