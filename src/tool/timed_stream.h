/* SPDX-License-Identifier: Apache-2.0 */
/* A stream with timing, and with CUDA graphs where the driver has them, for benchmarks of stream
 * operations. On simt, and when the job has no GPU side, it is a stream of the executor, without
 * graphs. */
#ifndef WEFT_TOOL_TIMED_STREAM_H
#define WEFT_TOOL_TIMED_STREAM_H

#include <stdbool.h>

#include <weft/launch.h>

struct timed_stream;

weft_status timed_stream_open(weft_job *job, struct timed_stream **made);
void timed_stream_close(struct timed_stream *stream);

weft_stream timed_stream_handle(const struct timed_stream *stream);
bool timed_stream_has_graphs(const struct timed_stream *stream);

/* Records the begin or end event on the stream. */
weft_status timed_stream_record(struct timed_stream *stream, bool end);

/* Waits until the stream is idle. *us (may be NULL): time between the begin and the end event in
 * microseconds. */
weft_status timed_stream_wait(struct timed_stream *stream, double *us);

/* timed_stream_capture() starts recording a graph, and timed_stream_captured() ends it and replaces
 * the earlier graph. Operations in between are recorded but not run. timed_stream_replay() launches
 * the graph. */
weft_status timed_stream_capture(struct timed_stream *stream);
weft_status timed_stream_captured(struct timed_stream *stream);
weft_status timed_stream_replay(struct timed_stream *stream);

#endif
