/* SPDX-License-Identifier: Apache-2.0 */
/* The proxy alone: kernels issue requests to its ring even when the peer is directly accessible. */
#include "bench/device/device.h"
#include "device/proxy_kernels.h"

#include <string.h>

/* A word for each thread, followed by a signal. */
size_t device_proxied_buffer_bytes(const struct bench_options *options, size_t bytes)
{
    return ((size_t)options->ctas * (size_t)options->threads + 1) * bytes;
}

static bool uses_one_thread(int what)
{
    return what == PROXIED_TRIP || what == PROXIED_PUT || what == PROXIED_PUT_SIGNAL ||
           what == PROXIED_G;
}

static size_t threads_of(const struct bench *bench, int what)
{
    return uses_one_thread(what) ? 1
                                 : (size_t)bench->options->ctas * (size_t)bench->options->threads;
}

static weft_status ask(struct bench *bench, struct bench_case *c, int what, uint64_t rounds,
                       double *ns)
{
    const struct bench_options *o = bench->options;
    unsigned blocks = uses_one_thread(what) ? 1 : (unsigned)o->ctas;
    unsigned threads = uses_one_thread(what) ? 1 : (unsigned)o->threads;
    if (bench->me != bench->from)
        return WEFT_OK;
    weft_status status = WEFT_LAUNCH(proxied, blocks, threads, 0, bench->device->stream, what,
                                     c->dst, c->src, bench->to, rounds, bench->device->times);
    return status ? status : device_finish(bench, blocks, ns, NULL);
}

/* Data put to `to` must be there; data got from there must be in the own source. */
static weft_status check_proxied(struct bench *bench, struct bench_case *c, int what, bool *right)
{
    double ignored = 0;
    size_t bytes = threads_of(bench, what) * 8;
    bool gets = what == PROXIED_G, moves = what >= PROXIED_P;
    weft_status status = device_fill(bench, c->src, bytes, gets ? STALE : SENT);
    if (!status)
        status = device_fill(bench, c->dst, bytes, gets ? SENT : STALE);
    if (!status)
        status = weft_barrier(bench->world);
    if (!status)
        status = ask(bench, c, what, 1, &ignored);
    if (!status)
        status = weft_barrier(bench->world);
    if (!status && moves && bench->me == (gets ? bench->from : bench->to))
        status = device_holds(bench, gets ? c->src : c->dst, bytes, 0, SENT, right);
    return status;
}

#define PROXIED(name, what)                                                                        \
    weft_status name##_run(struct bench *bench, struct bench_case *c, uint64_t iterations,         \
                           double *ns)                                                             \
    {                                                                                              \
        return ask(bench, c, what, iterations, ns);                                                \
    }                                                                                              \
    weft_status name##_check(struct bench *bench, struct bench_case *c, bool *right)               \
    {                                                                                              \
        return check_proxied(bench, c, what, right);                                               \
    }
PROXIED(device_proxy_empty, PROXIED_EMPTY)
PROXIED(device_proxy_trip, PROXIED_TRIP)
PROXIED(device_proxy_p, PROXIED_P)
PROXIED(device_proxy_put, PROXIED_PUT)
PROXIED(device_proxy_put_signal, PROXIED_PUT_SIGNAL)
PROXIED(device_proxy_g, PROXIED_G)
