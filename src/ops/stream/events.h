/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events of the library's own, on the target of the job's device code: of its GPU, or
 * of the SIMT executor. */
#ifndef WEFT_OPS_STREAM_EVENTS_H
#define WEFT_OPS_STREAM_EVENTS_H

#include "job/job.h"

#include <weft/launch.h>

weft_status events_new_stream(struct weft_job *job, weft_stream *stream);
weft_status events_new(struct weft_job *job, weft_event *event);
weft_status events_record(struct weft_job *job, weft_event event, weft_stream stream);
weft_status events_wait(struct weft_job *job, weft_stream stream, weft_event event);

/* Whether the event's last record has been passed. */
bool events_passed(struct weft_job *job, weft_event event);

/* on_cuda: whether the stream or event was made on a GPU. A job may get a GPU side later. */

/* Waits for what is on the stream. */
weft_status events_finish(struct weft_job *job, bool on_cuda, weft_stream stream);

/* NULL is allowed. */
void events_delete(struct weft_job *job, bool on_cuda, weft_event event);
void events_delete_stream(struct weft_job *job, bool on_cuda, weft_stream stream);

#endif
