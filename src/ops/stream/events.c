/* SPDX-License-Identifier: Apache-2.0 */
/* See events.h. */
#include "ops/stream/events.h"

#include "gpu/gpu.h"
#include "gpu/stream.h"
#include "ops/stream/stream.h"

#include <weft/simt_executor.h>

/* Makes one call with the GPU's context current, or of the SIMT executor. */
#define ON_TARGET_OF(job, on_cuda, what, gpu_call, simt_call)                                      \
    do {                                                                                           \
        struct gpu *gpu_ = (job)->gpu;                                                             \
        if (!(on_cuda))                                                                            \
            return simt_call;                                                                      \
        weft_status entered_ = gpu_enter(&gpu_->device);                                           \
        if (entered_)                                                                              \
            return entered_;                                                                       \
        int error_ = gpu_call;                                                                     \
        gpu_leave(&gpu_->device);                                                                  \
        return error_ ? gpu_api_fail(&gpu_->driver, (CUresult)error_, what " on GPU %d",           \
                                     gpu_->device.ordinal)                                         \
                      : WEFT_OK;                                                                   \
    } while (0)

weft_status events_new_stream(struct weft_job *job, weft_stream *stream)
{
    ON_TARGET_OF(job, stream_on_cuda(job), "a stream",
                 gpu_->driver.StreamCreate((CUstream *)stream, CU_STREAM_NON_BLOCKING),
                 weft_simt_stream_create((weft_simt_stream **)stream));
}

weft_status events_new(struct weft_job *job, weft_event *event)
{
    ON_TARGET_OF(job, stream_on_cuda(job), "an event",
                 gpu_->driver.EventCreate((CUevent *)event, CU_EVENT_DISABLE_TIMING),
                 weft_simt_event_create((weft_simt_event **)event));
}

weft_status events_record(struct weft_job *job, weft_event event, weft_stream stream)
{
    ON_TARGET_OF(job, stream_on_cuda(job), "recording an event",
                 gpu_->driver.EventRecord(event, stream), weft_simt_event_record(event, stream));
}

weft_status events_wait(struct weft_job *job, weft_stream stream, weft_event event)
{
    ON_TARGET_OF(job, stream_on_cuda(job), "waiting for an event",
                 gpu_->driver.StreamWaitEvent(stream, event, 0),
                 weft_simt_event_wait(stream, event));
}

weft_status events_finish(struct weft_job *job, bool on_cuda, weft_stream stream)
{
    if (!on_cuda)
        return weft_simt_stream_synchronize(stream);
    weft_status status = gpu_enter(&job->gpu->device);
    if (status)
        return status;
    status = gpu_wait_stream(job->gpu, stream, "a stream of the library");
    gpu_leave(&job->gpu->device);
    return status;
}

bool events_passed(struct weft_job *job, weft_event event)
{
    return stream_on_cuda(job) && !job->gpu->driver.EventQuery(event);
}

static weft_status delete_event(struct weft_job *job, bool on_cuda, weft_event event)
{
    ON_TARGET_OF(job, on_cuda, "destroying an event", gpu_->driver.EventDestroy(event),
                 weft_simt_event_destroy(event));
}

static weft_status delete_stream(struct weft_job *job, bool on_cuda, weft_stream stream)
{
    ON_TARGET_OF(job, on_cuda, "destroying a stream", gpu_->driver.StreamDestroy(stream),
                 weft_simt_stream_destroy(stream));
}

void events_delete(struct weft_job *job, bool on_cuda, weft_event event)
{
    if (event)
        delete_event(job, on_cuda, event);
}

void events_delete_stream(struct weft_job *job, bool on_cuda, weft_stream stream)
{
    if (stream)
        delete_stream(job, on_cuda, stream);
}
