/* SPDX-License-Identifier: Apache-2.0 */
/* Ping-pong, barrier and sync called by kernels. */
#include "bench/device/device.h"

#include <weft_device.h>

static bool takes_part(const struct bench *bench)
{
    return bench->me == bench->from || bench->me == bench->to;
}

static int peer_of(const struct bench *bench)
{
    return bench->me == bench->from ? bench->to : bench->from;
}

/* The payload of a packet, followed by its two buffers. */
size_t device_packet_buffer_bytes(const struct bench_options *options, size_t bytes)
{
    return ((bytes + 15) & ~(size_t)15) + 2 * weft_packet_bytes(bytes);
}

/* -------------------------------------------------------------------------------- ping-pong */

enum ping { PING_P, PING_SIGNAL, PING_PACKET };

static weft_status launch_ping(struct bench *bench, struct bench_case *c, enum ping kind,
                               uint64_t warm, uint64_t rounds, int verify)
{
    struct bench_device *d = bench->device;
    unsigned threads = device_unit_threads(bench);
    int first = bench->me == bench->from, peer = peer_of(bench);
    char *buffers = (char *)c->dst + ((c->bytes + 15) & ~(size_t)15);
    if (kind == PING_P)
        return WEFT_LAUNCH(ping_p, 1, 1, 0, d->stream, d->flag, first, peer, d->base, warm, rounds,
                           d->times);
    if (kind == PING_SIGNAL)
        return DEVICE_LAUNCH(ping_signal, bench->options->scope, 1, threads, 0, d->stream, c->dst,
                             c->src, c->bytes, d->flag, first, peer, d->base, warm, rounds, verify,
                             d->times);
    return DEVICE_LAUNCH(ping_packet, bench->options->scope, 1, threads, 0, d->stream, c->dst,
                         c->src, c->bytes, buffers, first, peer, d->base, warm, rounds, verify,
                         d->times);
}

static weft_status run_ping(struct bench *bench, struct bench_case *c, enum ping kind,
                            uint64_t rounds, int verify, double *ns, uint64_t *wrong)
{
    double taken = 0;
    weft_status status = WEFT_OK;
    if (takes_part(bench)) {
        status = launch_ping(bench, c, kind, DEVICE_WARM, rounds, verify);
        if (!status)
            status = device_finish(bench, 1, &taken, wrong);
    }
    bench->device->base += DEVICE_WARM + rounds;
    if (bench->me == bench->from)
        *ns += taken / 2;
    return status;
}

/* PING_P needs no comparison: its data are the round numbers, which the kernel waits for. */
static weft_status check_ping(struct bench *bench, struct bench_case *c, enum ping kind,
                              bool *right)
{
    double ignored = 0;
    uint64_t wrong = 0;
    weft_status status = run_ping(bench, c, kind, DEVICE_CHECK_ROUNDS, 1, &ignored, &wrong);
    *right = wrong == 0;
    return status ? status : weft_barrier(bench->world);
}

#define PING_FUNCTIONS(name, kind)                                                                 \
    weft_status name##_run(struct bench *bench, struct bench_case *c, uint64_t iterations,         \
                           double *ns)                                                             \
    {                                                                                              \
        return run_ping(bench, c, kind, iterations, 0, ns, NULL);                                  \
    }                                                                                              \
    weft_status name##_check(struct bench *bench, struct bench_case *c, bool *right)               \
    {                                                                                              \
        return check_ping(bench, c, kind, right);                                                  \
    }
PING_FUNCTIONS(device_latency, PING_P)
PING_FUNCTIONS(device_latency_signal, PING_SIGNAL)
PING_FUNCTIONS(device_latency_packet, PING_PACKET)
#undef PING_FUNCTIONS

/* ------------------------------------------------------------------------- barrier and sync */

enum { SYNC = 1, BARRIER = 2 }; /* the numbers of kernels.h */

static weft_status run_sync(struct bench *bench, int what, uint64_t rounds, double *ns)
{
    struct bench_device *d = bench->device;
    weft_status status = DEVICE_LAUNCH(meet, bench->options->scope, 1, device_unit_threads(bench),
                                       0, d->stream, what, DEVICE_WARM, rounds, d->times);
    return status ? status : device_finish(bench, 1, ns, NULL);
}

static weft_status check_meet(struct bench *bench, int what, bool *right)
{
    struct bench_device *d = bench->device;
    double ignored = 0;
    uint64_t wrong = 0;
    weft_status status = weft_barrier(bench->world);
    if (!status)
        status =
            DEVICE_LAUNCH(check_meet, bench->options->scope, 1, device_unit_threads(bench), 0,
                          d->stream, what, d->flag + 32, d->base, DEVICE_CHECK_ROUNDS, d->times);
    if (!status)
        status = device_finish(bench, 1, &ignored, &wrong);
    d->base += DEVICE_CHECK_ROUNDS;
    *right = wrong == 0;
    return status ? status : weft_barrier(bench->world);
}

weft_status device_sync_run(struct bench *bench, struct bench_case *c, uint64_t iterations,
                            double *ns)
{
    return run_sync(bench, SYNC, iterations, ns);
}

weft_status device_sync_check(struct bench *bench, struct bench_case *c, bool *right)
{
    return check_meet(bench, SYNC, right);
}

weft_status device_barrier_run(struct bench *bench, struct bench_case *c, uint64_t iterations,
                               double *ns)
{
    return run_sync(bench, BARRIER, iterations, ns);
}

weft_status device_barrier_check(struct bench *bench, struct bench_case *c, bool *right)
{
    return check_meet(bench, BARRIER, right);
}
