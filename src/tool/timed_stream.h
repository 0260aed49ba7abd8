/* SPDX-License-Identifier: Apache-2.0 */
/* A stream of the job with a clock of its own, and graphs where the driver has them: for benchmarks
 * of what is put on streams. On simt, and where the job has no GPU side, it is a stream of the
 * executor, which has no graphs. */
#ifndef WEFT_TOOL_TIMED_STREAM_H
#define WEFT_TOOL_TIMED_STREAM_H

#include <stdbool.h>

#include <weft/launch.h>

struct timed_stream;

weft_status timed_stream_open(weft_job *job, struct timed_stream **made);
void timed_stream_close(struct timed_stream *stream);

weft_stream timed_stream_handle(const struct timed_stream *stream);
bool timed_stream_has_graphs(const struct timed_stream *stream);

/* Notes the time at which the stream comes here: at the begin, at the end. */
weft_status timed_stream_mark(struct timed_stream *stream, bool end);

/* Returns when the stream has done all; *us (may be NULL): from the mark at the begin to that at
 * the end. */
weft_status timed_stream_wait(struct timed_stream *stream, double *us);

/* What is put on it from capture to captured becomes a graph, in place of that before, and is not
 * carried out. */
weft_status timed_stream_capture(struct timed_stream *stream);
weft_status timed_stream_captured(struct timed_stream *stream);
weft_status timed_stream_replay(struct timed_stream *stream);

#endif
