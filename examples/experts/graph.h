/* SPDX-License-Identifier: Apache-2.0 */
/* A CUDA graph of what is put on a stream, by the driver itself: nothing else of the program is
 * bound to CUDA. */
#ifndef EXAMPLES_EXPERTS_GRAPH_H
#define EXAMPLES_EXPERTS_GRAPH_H

#include <stdbool.h>

#include <weft/launch.h>

struct graph;

/* NULL: there are none, since kernels run on CPU threads or the driver has no graphs. */
struct graph *graph_open(void);
void graph_close(struct graph *graph);

/* What is put on the stream between the two is kept, and not carried out. False: the driver
 * refused. */
bool graph_capture(struct graph *graph, weft_stream stream);
bool graph_captured(struct graph *graph, weft_stream stream);

bool graph_replay(struct graph *graph, weft_stream stream);

#endif
