/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of the stand-in: the operations of a captured stream, and of streams that waited for
 * events of the capture, in the order of their calls, which is one of the orders that the events
 * permit. Like the driver it refuses a captured stream that waits for an event outside the capture,
 * and the end of a capture while another stream has work in it that the first stream does not wait
 * for. */
#include "fake.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_IN_CAPTURE = 64 };

struct CUgraph_st {
    struct fake_op *first, **last;
    const struct fake_stream
        *streams[MOST_IN_CAPTURE]; /* captured streams; the first one began the capture */
    int given[MOST_IN_CAPTURE];    /* operations of each stream */
    int awaited[MOST_IN_CAPTURE];  /* operations of each stream that another stream waits for */
    struct {
        CUevent event; /* the last records of events in the capture */
        int stream, behind;
    } events[MOST_IN_CAPTURE];
    int stream_count, event_count;
    struct CUgraph_st *next; /* next graph that is being captured */
    struct CUgraph_st *kept;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUgraph_st *captures;
static struct CUgraph_st *kept; /* all graphs: a program may leave them to the driver at exit */

static CUgraph graph_new(void)
{
    CUgraph graph = calloc(1, sizeof *graph);
    if (!graph)
        return NULL;
    graph->last = &graph->first;
    pthread_mutex_lock(&lock);
    graph->kept = kept;
    kept = graph;
    pthread_mutex_unlock(&lock);
    return graph;
}

static void graph_free(CUgraph graph)
{
    pthread_mutex_lock(&lock);
    struct CUgraph_st **at = &kept;
    while (*at != graph)
        at = &(*at)->kept;
    *at = graph->kept;
    pthread_mutex_unlock(&lock);
    free(graph);
}

static CUgraph capture_of(const struct fake_stream *stream)
{
    CUgraph found = NULL;
    pthread_mutex_lock(&lock);
    for (CUgraph graph = captures; graph && !found; graph = graph->next)
        for (int i = 0; i < graph->stream_count; i++)
            if (graph->streams[i] == stream)
                found = graph;
    pthread_mutex_unlock(&lock);
    return found;
}

static int number_of(const struct CUgraph_st *graph, const struct fake_stream *stream)
{
    int i = 0;
    while (graph->streams[i] != stream)
        i++;
    return i;
}

static int place_of(const struct CUgraph_st *graph, CUevent event)
{
    for (int i = 0; i < graph->event_count; i++)
        if (graph->events[i].event == event)
            return i;
    return -1;
}

bool fake_capture_record(const struct fake_stream *stream, CUevent event)
{
    CUgraph graph = capture_of(stream);
    pthread_mutex_lock(&lock);
    for (CUgraph other = captures; other; other = other->next) {
        int place = place_of(other, event); /* a new record replaces the earlier one */
        if (place >= 0)
            other->events[place] = other->events[--other->event_count];
    }
    if (graph && graph->event_count == MOST_IN_CAPTURE)
        abort();
    if (graph) {
        int number = number_of(graph, stream);
        graph->events[graph->event_count].event = event;
        graph->events[graph->event_count].stream = number;
        graph->events[graph->event_count++].behind = graph->given[number];
    }
    pthread_mutex_unlock(&lock);
    return graph != NULL;
}

bool fake_capture_wait(const struct fake_stream *stream, CUevent event, CUresult *result)
{
    enum { CAPTURE_ISOLATION = 905 };
    CUgraph mine = capture_of(stream), graph = NULL;
    pthread_mutex_lock(&lock);
    for (CUgraph other = captures; other && !graph; other = other->next)
        if (place_of(other, event) >= 0)
            graph = other;
    if (graph && !mine) {
        if (graph->stream_count == MOST_IN_CAPTURE)
            abort();
        graph->given[graph->stream_count] = 0;
        graph->awaited[graph->stream_count] = 0;
        graph->streams[graph->stream_count++] = stream;
    }
    if (graph) {
        int place = place_of(graph, event), *awaited = &graph->awaited[graph->events[place].stream];
        if (*awaited < graph->events[place].behind)
            *awaited = graph->events[place].behind;
    }
    pthread_mutex_unlock(&lock);
    *result = mine && graph != mine ? CAPTURE_ISOLATION : CUDA_SUCCESS;
    return graph != NULL || mine;
}

bool fake_capturing(const struct fake_stream *stream)
{
    return capture_of(stream) != NULL;
}

bool fake_capture(struct fake_op *op)
{
    CUgraph graph = capture_of(op->stream);
    if (!graph)
        return false;
    op->next = NULL;
    pthread_mutex_lock(&lock);
    *graph->last = op;
    graph->last = &op->next;
    graph->given[number_of(graph, op->stream)]++;
    pthread_mutex_unlock(&lock);
    return true;
}

/* The stream of a handle. */
static const struct fake_stream *stream_behind(CUstream stream)
{
    struct fake_op *op = op_new(stream, NULL, 0);
    const struct fake_stream *s = op->stream;
    free(op);
    return s;
}

EXPORT CUresult cuStreamIsCapturing(CUstream stream, int *status)
{
    *status = fake_capturing(stream_behind(stream)) ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                                    : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream stream, int *status, uint64_t *id,
                                          CUgraph *graph, const void **nodes, size_t *node_count)
{
    CUgraph found = capture_of(stream_behind(stream));
    *status = found ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    *id = (uintptr_t)found;
    return graph || nodes || node_count ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
    const struct fake_stream *s = stream_behind(stream);
    if (!stream || mode < 0 || mode > 2 || fake_capturing(s))
        return CUDA_ERROR_INVALID_VALUE;
    CUgraph graph = graph_new();
    if (!graph)
        return CUDA_ERROR_OUT_OF_MEMORY;
    graph->streams[graph->stream_count++] = s;
    pthread_mutex_lock(&lock);
    graph->next = captures;
    captures = graph;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    enum { CAPTURE_UNJOINED = 904 };
    bool joined = true;
    *graph = capture_of(stream_behind(stream));
    if (!*graph)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    struct CUgraph_st **at = &captures;
    while (*at != *graph)
        at = &(*at)->next;
    *at = (*graph)->next;
    for (int i = 1; i < (*graph)->stream_count; i++)
        joined &= (*graph)->awaited[i] == (*graph)->given[i];
    pthread_mutex_unlock(&lock);
    return joined ? CUDA_SUCCESS : CAPTURE_UNJOINED;
}

static struct fake_op *copy_of(const struct fake_op *op)
{
    struct fake_op *copy = malloc(sizeof *op + op->extra);
    if (!copy)
        abort();
    memcpy(copy, op, sizeof *op + op->extra);
    copy->next = NULL;
    return copy;
}

static void forget(struct fake_op *op)
{
    while (op) {
        struct fake_op *next = op->next;
        free(op);
        op = next;
    }
}

/* An executable graph is a copy of the operations. */
EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *made, CUgraph graph,
                                            unsigned long long flags)
{
    CUgraph copy = flags ? NULL : graph_new();
    if (!copy)
        return CUDA_ERROR_INVALID_VALUE;
    for (const struct fake_op *op = graph->first; op; op = op->next) {
        *copy->last = copy_of(op);
        copy->last = &(*copy->last)->next;
    }
    *made = (CUgraphExec)copy;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphLaunch(CUgraphExec made, CUstream stream)
{
    for (const struct fake_op *op = ((CUgraph)made)->first; op; op = op->next) {
        struct fake_op *copy = copy_of(op), *place = op_new(stream, NULL, 0);
        copy->stream = place->stream;
        free(place);
        op_submit(copy);
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphDestroy(CUgraph graph)
{
    forget(graph->first);
    graph_free(graph);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec made)
{
    return cuGraphDestroy((CUgraph)made);
}
