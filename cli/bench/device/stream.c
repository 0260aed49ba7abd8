/* SPDX-License-Identifier: Apache-2.0 */
/* Operations in stream order, back to back, timed by events of the stream. */
#include "bench/device/device.h"

#include <weft/stream.h>

enum stream_operation { STREAM_PUT, STREAM_GET, STREAM_BARRIER };

static weft_status enqueue_operation(struct bench *bench, struct bench_case *c,
                                     enum stream_operation what, uint64_t count)
{
    weft_stream stream = bench->device->stream;
    weft_status status = WEFT_OK;
    for (uint64_t i = 0; !status && i < count; i++) {
        if (what == STREAM_PUT)
            status = weft_put_on_stream(bench->ctx, c->dst, c->src, c->bytes, bench->to, stream);
        else if (what == STREAM_GET)
            status = weft_get_on_stream(bench->ctx, c->dst, c->src, c->bytes, bench->to, stream);
        else
            status = weft_barrier_on_stream(bench->world, stream);
    }
    if (!status && what == STREAM_PUT)
        status = weft_quiet_on_stream(bench->ctx, stream);
    return status;
}

static weft_status time_queue(struct bench *bench, struct bench_case *c, enum stream_operation what,
                              uint64_t count, double *ns)
{
    weft_event start = NULL, end = NULL;
    uint64_t taken = 0;
    if (what != STREAM_BARRIER && bench->me != bench->from)
        return WEFT_OK;
    weft_status status = weft_event_create(&start);
    if (!status)
        status = weft_event_create(&end);
    if (!status)
        status = weft_event_record(start, bench->device->stream);
    if (!status)
        status = enqueue_operation(bench, c, what, count);
    if (!status)
        status = weft_event_record(end, bench->device->stream);
    if (!status)
        status = weft_event_synchronize(end);
    if (!status)
        status = weft_event_elapsed(start, end, &taken);
    if (!status)
        status = weft_event_destroy(end);
    if (!status)
        status = weft_event_destroy(start);
    *ns += (double)taken;
    return status;
}

static weft_status check_stream_move(struct bench *bench, struct bench_case *c,
                                     enum stream_operation what, bool *right)
{
    double ignored = 0;
    int receiver = what == STREAM_PUT ? bench->to : bench->from;
    uint64_t sender = (uint64_t)(what == STREAM_PUT ? bench->from : bench->to);
    size_t whole = c->bytes < 4096 ? 4096 : c->bytes & ~(size_t)7; /* bytes of the case's memory */
    weft_status status = device_fill(bench, c->src, whole, 100 + (uint64_t)bench->me);
    if (!status)
        status = device_fill(bench, c->dst, whole, 1);
    if (!status)
        status = weft_barrier(bench->world);
    if (!status)
        status = time_queue(bench, c, what, 1, &ignored);
    if (!status)
        status = weft_barrier(bench->world);
    if (!status && bench->me == receiver)
        status = device_holds(bench, c->dst, c->bytes < whole ? c->bytes : whole, 0, 100 + sender,
                              right);
    return status;
}

weft_status stream_put_run(struct bench *bench, struct bench_case *c, uint64_t iterations,
                           double *ns)
{
    return time_queue(bench, c, STREAM_PUT, iterations, ns);
}

weft_status stream_put_check(struct bench *bench, struct bench_case *c, bool *right)
{
    return check_stream_move(bench, c, STREAM_PUT, right);
}

weft_status stream_get_run(struct bench *bench, struct bench_case *c, uint64_t iterations,
                           double *ns)
{
    return time_queue(bench, c, STREAM_GET, iterations, ns);
}

weft_status stream_get_check(struct bench *bench, struct bench_case *c, bool *right)
{
    return check_stream_move(bench, c, STREAM_GET, right);
}

weft_status stream_barrier_run(struct bench *bench, struct bench_case *c, uint64_t iterations,
                               double *ns)
{
    return time_queue(bench, c, STREAM_BARRIER, iterations, ns);
}

/* After the barrier each PE must see the data that its predecessor put on its stream. */
weft_status stream_barrier_check(struct bench *bench, struct bench_case *c, bool *right)
{
    int next = (bench->me + 1) % bench->n, before = (bench->me + bench->n - 1) % bench->n;
    weft_stream stream = bench->device->stream;
    weft_status status = device_fill(bench, c->src, 64, 100 + (uint64_t)bench->me);
    if (!status)
        status = weft_put_on_stream(bench->ctx, c->dst, c->src, 64, next, stream);
    if (!status)
        status = weft_barrier_on_stream(bench->world, stream);
    if (!status)
        status = weft_stream_synchronize(stream);
    return status ? status : device_holds(bench, c->dst, 64, 0, 100 + (uint64_t)before, right);
}
