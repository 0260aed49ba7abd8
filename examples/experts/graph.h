/* SPDX-License-Identifier: Apache-2.0 */
/* A CUDA graph captured from a stream by the driver API: nothing else in the program depends on
 * CUDA. */
#ifndef EXAMPLES_EXPERTS_GRAPH_H
#define EXAMPLES_EXPERTS_GRAPH_H

#include <stdbool.h>

#include <weft/launch.h>

struct graph;

/* Returns NULL if there are no graphs: kernels run on CPU threads, or the driver lacks them. */
struct graph *graph_open(void);
void graph_close(struct graph *graph);

/* Operations enqueued between the two calls are captured and not executed. False: a driver call
 * failed. */
bool graph_capture(struct graph *graph, weft_stream stream);
bool graph_captured(struct graph *graph, weft_stream stream);

bool graph_replay(struct graph *graph, weft_stream stream);

#endif
