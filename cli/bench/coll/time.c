/* SPDX-License-Identifier: Apache-2.0 */
/* Timing of a collective with one algorithm: replayed in a graph and enqueued on a stream, both
 * timed by events of the stream, and called by the host. The time of a repetition is that of the
 * slowest member; the result is the median of the repetitions. */
#include "bench/coll/coll.h"

#include <stdlib.h>

static int calls_for(const struct coll_bench *b, size_t bytes)
{
    if (b->options->calls)
        return b->options->calls;
    if (!b->cuda)
        return bytes >= 1 << 20 ? 3 : 10;
    return bytes >= 16 << 20 ? 6 : bytes >= 1 << 20 ? 20 : 60;
}

static weft_status enqueue_calls(struct coll_bench *b, int op, size_t bytes, int calls)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < calls && !status; i++)
        status = coll_call_on_stream(b, op, bytes, timed_stream_handle(b->stream));
    return status;
}

/* Enqueues `calls` calls from a graph or one by one. */
static weft_status enqueue_repetition(struct coll_bench *b, int op, size_t bytes, int how,
                                      int calls)
{
    return how == COLL_GRAPH ? timed_stream_replay(b->stream) : enqueue_calls(b, op, bytes, calls);
}

static weft_status capture(struct coll_bench *b, int op, size_t bytes, int calls)
{
    weft_status status = timed_stream_capture(b->stream);
    if (status)
        return status;
    status = enqueue_calls(b, op, bytes, calls);
    weft_status ended = timed_stream_captured(b->stream);
    return status ? status : ended;
}

/* Times one repetition. The first calls are not counted: after them all members run together. */
static weft_status time_on_stream(struct coll_bench *b, int op, size_t bytes, int how, int calls,
                                  double *us)
{
    int before = calls < 10 ? calls : 10;
    *us = 0;
    weft_status status = enqueue_repetition(b, op, bytes, how, before);
    if (!status)
        status = timed_stream_record(b->stream, false);
    if (!status)
        status = enqueue_repetition(b, op, bytes, how, calls);
    if (!status)
        status = timed_stream_record(b->stream, true);
    if (!status)
        status = timed_stream_wait(b->stream, us);
    *us /= calls;
    return status;
}

static weft_status time_by_host(struct coll_bench *b, int op, size_t bytes, int calls, double *us)
{
    weft_status status = WEFT_OK;
    uint64_t start = bench_now_ns();
    for (int i = 0; i < calls && !status; i++)
        status = coll_call_by_host(b, op, bytes);
    *us = (double)(bench_now_ns() - start) / 1e3 / calls;
    return status;
}

static weft_status repeat_collective(struct coll_bench *b, int op, size_t bytes, int how,
                                     double *median, double *least)
{
    double us[COLL_BENCH_REPETITIONS];
    int calls = calls_for(b, bytes), n = b->options->repetitions;
    weft_status status = how == COLL_GRAPH ? capture(b, op, bytes, calls) : WEFT_OK;
    if (!status && how == COLL_GRAPH) /* the first replay uploads the graph */
        status = timed_stream_replay(b->stream);
    for (int i = 0; i < n && !status; i++) {
        status = weft_barrier(b->bench.world);
        if (!status)
            status = how == COLL_HOST ? time_by_host(b, op, bytes, calls, &us[i])
                                      : time_on_stream(b, op, bytes, how, calls, &us[i]);
        if (!status)
            status = bench_combine(&b->bench, WEFT_MAX, &us[i]);
    }
    if (status)
        return status;
    qsort(us, (size_t)n, sizeof *us, bench_compare_doubles);
    *median = us[n / 2];
    *least = us[0];
    return WEFT_OK;
}

static bool has_graph(const struct coll_bench *b, enum coll_algorithm way)
{
    return b->kernels && way != COLL_ALGO_COPIES && timed_stream_has_graphs(b->stream);
}

weft_status coll_time(struct coll_bench *b, struct coll_row *row)
{
    bool right = true;
    weft_status status = WEFT_OK;
    for (int how = 0; how < COLL_HOWS && !status; how++) {
        row->us[how] = row->us_min[how] = -1;
        if (how == COLL_GRAPH && !has_graph(b, row->way))
            continue;
        status = coll_spoil(b, row->op, row->bytes);
        if (!status)
            status =
                repeat_collective(b, row->op, row->bytes, how, &row->us[how], &row->us_min[how]);
        if (!status)
            status = coll_compare(b, row->op, row->bytes, &right);
    }
    row->verified = b->options->verify ? right : -1;
    b->wrong |= !right;
    return status;
}

weft_status coll_time_one(struct coll_bench *b, int op, size_t bytes, double *us)
{
    double least;
    bool right = true;
    int how = has_graph(b, COLL_ALGO_AUTO) ? COLL_GRAPH : COLL_STREAM;
    weft_status status = coll_prepare(b, op, bytes);
    if (!status)
        status = coll_spoil(b, op, bytes);
    if (!status)
        status = repeat_collective(b, op, bytes, how, us, &least);
    if (!status)
        status = coll_compare(b, op, bytes, &right);
    b->wrong |= !right;
    return status;
}
