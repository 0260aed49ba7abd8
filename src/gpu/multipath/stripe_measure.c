/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the rate of each route to a peer, alone and together with the others: copies the first
 * bytes of a requested copy several times. At 25 GB/s this takes about 3 ms. See stripe_set.h. */
#include "gpu/multipath/stripe_set.h"

#include "base/status.h"
#include "gpu/stream.h"

#include <stdio.h>
#include <string.h>

enum {
    /* the smaller of the two measured sizes is set->measured_bytes divided by this */
    SMALLER = 8,
    LEAST_PERCENT = 10, /* a route needs this percentage of the sum of all rates to be used */
    GAIN_PERCENT = 5,   /* striping must be faster by this percentage at set->measured_bytes */
};

struct measurement {
    struct gpu_stripes *set;
    unsigned stream_index;
    void *dst;
    const void *src;
    CUevent begun, ended;
    size_t large, small;
};

static CUresult record_event(struct measurement *m, CUevent event)
{
    struct gpu *lead = m->set->lead;
    return lead->driver.EventRecord(event, stream_of(lead, m->stream_index)->stream);
}

/* Times one copy with the GPU's events: milliseconds from the start of the first share to the end
 * of the last. */
static weft_status time_once(struct measurement *m, size_t bytes, const unsigned *share, double *ms)
{
    struct gpu *lead = m->set->lead;
    float elapsed = 0;
    CUresult result = record_event(m, m->begun);
    weft_status status = WEFT_OK;
    if (!result)
        status = gpu_stripe_parts(m->set, m->stream_index, m->dst, m->src, bytes, share);
    if (!result && !status)
        result = record_event(m, m->ended);
    if (!result && !status)
        status = stream_drain(lead, stream_of(lead, m->stream_index));
    if (!result && !status)
        result = lead->driver.EventElapsedTime(&elapsed, m->begun, m->ended);
    *ms = elapsed;
    return result ? gpu_api_fail(&lead->driver, result, "timing a striped copy") : status;
}

static weft_status best_of_two(struct measurement *m, size_t bytes, const unsigned *share,
                               double *ms)
{
    double second;
    weft_status status = time_once(m, bytes, share, ms);
    if (!status)
        status = time_once(m, bytes, share, &second);
    if (!status && second < *ms)
        *ms = second;
    return status;
}

static void use_single_route(unsigned *share, int route)
{
    memset(share, 0, GPU_ROUTES_MOST * sizeof *share);
    share[route] = GPU_STRIPE_WHOLE;
}

/* Measures GB/s of each route alone. The first copy over a route is not counted. */
static weft_status measure_routes(struct measurement *m, double *rate)
{
    unsigned share[GPU_ROUTES_MOST];
    weft_status status = WEFT_OK;
    for (int i = 0; i < m->set->routes.n && !status; i++) {
        double ms;
        use_single_route(share, i);
        status = time_once(m, m->small, share, &ms);
        if (!status)
            status = best_of_two(m, m->large, share, &ms);
        rate[i] = ms > 0 ? (double)m->large / ms * 1e-6 : 0;
    }
    return status;
}

/* Sets the shares by the rates. Drops a route that would carry little, except the first, which may
 * get no share. */
static void set_shares(struct gpu_stripes *set, double *rate)
{
    double all = 0, kept = 0;
    int n = 1;
    for (int i = 0; i < set->routes.n; i++)
        all += rate[i];
    for (int i = 1; i < set->routes.n; i++)
        if (rate[i] * 100 >= all * LEAST_PERCENT) {
            set->issuer[n] = set->issuer[i];
            set->ended[n] = set->ended[i];
            set->routes.via[n] = set->routes.via[i];
            rate[n++] = rate[i];
        } else {
            set->lead->driver.EventDestroy(set->ended[i]);
        }
    for (int i = n; i < set->routes.n; i++)
        set->ended[i] = NULL;
    set->routes.n = n;
    if (rate[0] * 100 < all * LEAST_PERCENT)
        rate[0] = 0;
    for (int i = 0; i < n; i++)
        kept += rate[i];
    for (int i = 0; i < n; i++)
        set->share[i] = kept > 0 ? (unsigned)(rate[i] / kept * GPU_STRIPE_WHOLE) : 0;
}

static void describe_routes(struct gpu_stripes *set, const double *rate, double together,
                            size_t from)
{
    size_t used =
        (size_t)snprintf(set->text, sizeof set->text, "striped from %zu KiB:", from >> 10);
    const char *before = "";
    for (int i = 0; i < set->routes.n && used < sizeof set->text; i++) {
        char route[GPU_ROUTE_NAME];
        gpu_route_name(set->routes.via[i], route);
        if (!set->share[i])
            continue;
        used += (size_t)snprintf(set->text + used, sizeof set->text - used, "%s %s %.1f", before,
                                 route, rate[i]);
        before = " +";
    }
    if (used < sizeof set->text)
        snprintf(set->text + used, sizeof set->text - used, " = %.1f GB/s measured", together);
}

/* Models the time of one route and of all routes as linear in the size, each through two measured
 * points, and returns the size where the lines meet. All routes are faster at the larger size, so
 * the result is below it. */
static size_t crossover_bytes(const struct measurement *m, double one_small, double one,
                              double all_small, double all)
{
    enum { GRAIN = 64 << 10 }; /* bytes */
    if (all_small <= one_small)
        return m->small;
    double gain_per_byte = ((one - one_small) - (all - all_small)) / (double)(m->large - m->small);
    double at = (double)m->small + (all_small - one_small) / gain_per_byte;
    return ((size_t)at + GRAIN - 1) / GRAIN * GRAIN;
}

static weft_status measure_striping(struct measurement *m)
{
    struct gpu_stripes *set = m->set;
    double rate[GPU_ROUTES_MOST] = {0}, one = 0, one_small = 0, all = 0, all_small = 0;
    unsigned alone[GPU_ROUTES_MOST];
    int routes = set->routes.n;
    weft_status status = measure_routes(m, rate);
    if (status)
        return status;
    double direct = rate[0];
    set_shares(set, rate);
    use_single_route(alone, 0);
    status = best_of_two(m, m->large, alone, &one);
    if (!status)
        status = best_of_two(m, m->small, alone, &one_small);
    if (!status && set->routes.n > 1)
        status = best_of_two(m, m->large, set->share, &all);
    if (!status && set->routes.n > 1)
        status = best_of_two(m, m->small, set->share, &all_small);
    if (status)
        return status;
    if (set->routes.n < 2 || all * (100 + GAIN_PERCENT) > one * 100) {
        snprintf(set->text, sizeof set->text,
                 "one route: %d routes were measured %.2f times as fast as one (%.1f GB/s)", routes,
                 set->routes.n < 2 || all <= 0 ? 1.0 : one / all, direct);
        set->routes.n = 1;
        return WEFT_OK;
    }
    set->from = crossover_bytes(m, one_small, one, all_small, all);
    describe_routes(set, rate, (double)m->large / all * 1e-6, set->from);
    return WEFT_OK;
}

weft_status gpu_stripe_measure(struct gpu_stripes *set, unsigned stream_index, void *dst,
                               const void *src)
{
    const struct gpu_api *driver = &set->lead->driver;
    struct measurement m = {.set = set,
                            .stream_index = stream_index,
                            .dst = dst,
                            .src = src,
                            .large = set->measured_bytes};
    m.small = m.large / SMALLER / 4096 * 4096;
    CUresult result = driver->EventCreate(&m.begun, 0);
    if (!result)
        result = driver->EventCreate(&m.ended, 0);
    weft_status status =
        result ? gpu_api_fail(driver, result, "cuEventCreate on GPU %d", set->lead->device.ordinal)
               : measure_striping(&m);
    if (m.begun)
        driver->EventDestroy(m.begun);
    if (m.ended)
        driver->EventDestroy(m.ended);
    return status;
}
