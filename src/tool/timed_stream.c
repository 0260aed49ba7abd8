/* SPDX-License-Identifier: Apache-2.0 */
/* See timed_stream.h. */
#include "tool/timed_stream.h"

#include "gpu/gpu.h"
#include "gpu/stream.h"
#include "ops/stream/stream.h"

#include <stdlib.h>

struct timed_stream {
    struct gpu *gpu; /* NULL: simt */
    CUstream stream;
    CUevent events[2];
    CUgraphExec graph;
    weft_stream simt;
    weft_event simt_events[2];
};

static weft_status check_result(const struct timed_stream *s, CUresult result, const char *what)
{
    return result ? gpu_api_fail(&s->gpu->driver, result, "%s", what) : WEFT_OK;
}

static weft_status open_stream_gpu(struct timed_stream *s)
{
    const struct gpu_api *driver = &s->gpu->driver;
    weft_status status = gpu_enter(&s->gpu->device);
    if (status)
        return status;
    status =
        check_result(s, driver->StreamCreate(&s->stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    for (int i = 0; i < 2 && !status; i++)
        status = check_result(s, driver->EventCreate(&s->events[i], 0), "cuEventCreate");
    gpu_leave(&s->gpu->device);
    return status;
}

static weft_status open_simt(struct timed_stream *s)
{
    weft_status status = weft_stream_create(&s->simt);
    for (int i = 0; i < 2 && !status; i++)
        status = weft_event_create(&s->simt_events[i]);
    return status;
}

weft_status timed_stream_open(weft_job *job, struct timed_stream **made)
{
    struct timed_stream *s = calloc(1, sizeof *s);
    if (!s)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a stream");
    s->gpu = stream_on_cuda(job) ? job->gpu : NULL;
    weft_status status = s->gpu ? open_stream_gpu(s) : open_simt(s);
    if (status) {
        timed_stream_close(s);
        s = NULL;
    }
    *made = s;
    return status;
}

static void close_stream_gpu(struct timed_stream *s)
{
    const struct gpu_api *driver = &s->gpu->driver;
    if (gpu_enter(&s->gpu->device))
        return;
    if (s->graph)
        driver->GraphExecDestroy(s->graph);
    for (int i = 0; i < 2; i++)
        if (s->events[i])
            driver->EventDestroy(s->events[i]);
    if (s->stream)
        driver->StreamDestroy(s->stream);
    gpu_leave(&s->gpu->device);
}

void timed_stream_close(struct timed_stream *s)
{
    if (s->gpu)
        close_stream_gpu(s);
    for (int i = 0; i < 2; i++)
        if (s->simt_events[i])
            weft_event_destroy(s->simt_events[i]);
    if (s->simt)
        weft_stream_destroy(s->simt);
    free(s);
}

weft_stream timed_stream_handle(const struct timed_stream *s)
{
    return s->gpu ? (weft_stream)s->stream : s->simt;
}

bool timed_stream_has_graphs(const struct timed_stream *s)
{
    const struct gpu_api *driver = s->gpu ? &s->gpu->driver : NULL;
    return driver && driver->StreamBeginCapture && driver->StreamEndCapture &&
           driver->GraphInstantiate && driver->GraphLaunch && driver->GraphExecDestroy &&
           driver->GraphDestroy;
}

weft_status timed_stream_record(struct timed_stream *s, bool end)
{
    if (!s->gpu)
        return weft_event_record(s->simt_events[end], s->simt);
    weft_status status = gpu_enter(&s->gpu->device);
    if (status)
        return status;
    status =
        check_result(s, s->gpu->driver.EventRecord(s->events[end], s->stream), "cuEventRecord");
    gpu_leave(&s->gpu->device);
    return status;
}

static weft_status wait_gpu(struct timed_stream *s, double *us)
{
    float ms = 0;
    weft_status status = gpu_enter(&s->gpu->device);
    if (status)
        return status;
    status = gpu_wait_stream(s->gpu, s->stream, "a stream that is measured");
    if (!status && us)
        status = check_result(s, s->gpu->driver.EventElapsedTime(&ms, s->events[0], s->events[1]),
                              "cuEventElapsedTime");
    gpu_leave(&s->gpu->device);
    if (us)
        *us = 1e3 * (double)ms;
    return status;
}

weft_status timed_stream_wait(struct timed_stream *s, double *us)
{
    uint64_t ns = 0;
    if (s->gpu)
        return wait_gpu(s, us);
    weft_status status = weft_stream_synchronize(s->simt);
    if (!status && us)
        status = weft_event_elapsed(s->simt_events[0], s->simt_events[1], &ns);
    if (us)
        *us = (double)ns / 1e3;
    return status;
}

/* -------------------------------------------------------------------------------------- graphs */

static weft_status begin_graph(struct timed_stream *s)
{
    if (timed_stream_has_graphs(s))
        return gpu_enter(&s->gpu->device);
    return base_fail(WEFT_ERR_UNSUPPORTED, "this stream has no graphs");
}

weft_status timed_stream_capture(struct timed_stream *s)
{
    weft_status status = begin_graph(s);
    if (status)
        return status;
    if (s->graph)
        s->gpu->driver.GraphExecDestroy(s->graph);
    s->graph = NULL;
    status = check_result(
        s, s->gpu->driver.StreamBeginCapture(s->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
        "cuStreamBeginCapture");
    gpu_leave(&s->gpu->device);
    return status;
}

weft_status timed_stream_captured(struct timed_stream *s)
{
    const struct gpu_api *driver = &s->gpu->driver;
    CUgraph graph = NULL;
    weft_status status = begin_graph(s);
    if (status)
        return status;
    status = check_result(s, driver->StreamEndCapture(s->stream, &graph), "cuStreamEndCapture");
    if (!status)
        status =
            check_result(s, driver->GraphInstantiate(&s->graph, graph, 0), "cuGraphInstantiate");
    if (graph)
        driver->GraphDestroy(graph);
    gpu_leave(&s->gpu->device);
    return status;
}

weft_status timed_stream_replay(struct timed_stream *s)
{
    weft_status status = begin_graph(s);
    if (status)
        return status;
    status = check_result(s, s->gpu->driver.GraphLaunch(s->graph, s->stream), "cuGraphLaunch");
    gpu_leave(&s->gpu->device);
    return status;
}
