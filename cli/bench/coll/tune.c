/* SPDX-License-Identifier: Apache-2.0 */
/* `weft bench coll --tune`: measures the rates that ops/coll/choose.c uses, by collectives with
 * a forced algorithm and number of blocks, and saves them. Each rate is computed from one or two
 * times. A rate that cannot be measured here (forwarding with two members, or a time that is all
 * latency) is scaled from a related rate or keeps its built-in value, which the table marks. */
#include "bench/coll/coll.h"

#include "tool/tool.h"

#include <string.h>

enum { FEW_BLOCKS = 4, SMALL = 8, SHARED = 1 << 20, MOST_BLOCKS = 64, PIECE = 480 };

struct tuning {
    struct coll_bench *b;
    struct coll_rates rates;
    weft_status status;
    bool lines;   /* LL128 may be used here */
    size_t large; /* block size for full bandwidth, in bytes */
};

/* Time in us of a collective with this algorithm and number of blocks; 0 after a failure. */
static double measured_time(struct tuning *t, enum coll_what what, enum coll_algorithm way, int sms,
                            size_t bytes)
{
    double us = 0;
    if (!t->status)
        t->status = tool_coll_force(t->b->bench.world, way, sms);
    if (!t->status)
        t->status = coll_time_one(t->b, what, bytes, &us);
    return us;
}

/* Marks a rate as an estimate. */
static void mark_estimate(struct tuning *t, enum coll_rate rate)
{
    t->rates.estimates |= (uint64_t)1 << rate;
}

static void measure_latencies(struct tuning *t)
{
    size_t n = (size_t)t->b->members, slices = n * n * 16;
    struct coll_rates *r = &t->rates;
    r->one_trip_us = (measured_time(t, COLL_ALLGATHER, COLL_ALGO_LL, MOST_BLOCKS, SMALL) +
                      measured_time(t, COLL_ALLREDUCE, COLL_ALGO_LL, MOST_BLOCKS, SMALL)) /
                     2;
    r->two_trips_us = measured_time(t, COLL_ALLREDUCE, COLL_ALGO_TWO_SHOT_LL, MOST_BLOCKS, slices);
    if (t->lines) {
        r->lines_us = (measured_time(t, COLL_ALLGATHER, COLL_ALGO_LL128, MOST_BLOCKS, SMALL) +
                       measured_time(t, COLL_ALLREDUCE, COLL_ALGO_LL128, MOST_BLOCKS, SMALL)) /
                      2;
        r->two_lines_us =
            measured_time(t, COLL_ALLREDUCE, COLL_ALGO_TWO_SHOT_LL128, MOST_BLOCKS, n * n * PIECE);
    } else { /* this algorithm was never faster in this run, but may be in another */
        const struct coll_rates *was = &coll_rates_built_in;
        r->lines_us = r->one_trip_us * was->lines_us / was->one_trip_us;
        r->two_lines_us = r->two_trips_us * was->two_lines_us / was->two_trips_us;
        mark_estimate(t, COLL_RATE_lines_us);
        mark_estimate(t, COLL_RATE_two_lines_us);
    }
    r->push_us = measured_time(t, COLL_ALLTOALL, COLL_ALGO_SIMPLE, MOST_BLOCKS, SMALL);
    r->combine_us = measured_time(t, COLL_ALLREDUCE, COLL_ALGO_SIMPLE, MOST_BLOCKS, SMALL);
    if (n == 2)
        mark_estimate(t, COLL_RATE_spread_us);
    r->spread_us = n > 2 ? measured_time(t, COLL_BROADCAST, COLL_ALGO_SIMPLE, MOST_BLOCKS, SMALL)
                         : r->push_us * coll_rates_built_in.spread_us / coll_rates_built_in.push_us;
}

/* Bandwidth in 10^9 bytes per second, without the latency; the estimate `before` when the time
 * is not clearly longer than the latency, since a small difference of two noisy times is not a
 * rate. */
static double compute_rate(struct tuning *t, enum coll_rate which, size_t bytes, double us,
                           double begin, double before)
{
    double moved = (double)(t->b->members - 1) * (double)bytes;
    if (us > 1.25 * begin && moved > 0)
        return moved / (us - begin) / 1e3;
    mark_estimate(t, which);
    return before;
}

static void measure_lines_bandwidths(struct tuning *t)
{
    const struct coll_rates *was = &coll_rates_built_in;
    struct coll_rates *r = &t->rates;
    if (!t->lines) {
        r->lines_gbps = r->packets_gbps * was->lines_gbps / was->packets_gbps;
        r->block_lines_gbps =
            r->block_packets_gbps * was->block_lines_gbps / was->block_packets_gbps;
        mark_estimate(t, COLL_RATE_lines_gbps);
        mark_estimate(t, COLL_RATE_block_lines_gbps);
        return;
    }
    size_t bytes =
        (size_t)tool_coll_round_bytes(t->b->bench.world, COLL_ALLGATHER, COLL_ALGO_LL128);
    if (bytes > t->large)
        bytes = t->large;
    double us = measured_time(t, COLL_ALLGATHER, COLL_ALGO_LL128, MOST_BLOCKS, bytes);
    r->lines_gbps = compute_rate(t, COLL_RATE_lines_gbps, bytes, us, r->lines_us, r->lines_gbps);
    us = measured_time(t, COLL_ALLGATHER, COLL_ALGO_LL128, FEW_BLOCKS, bytes);
    r->block_lines_gbps = compute_rate(t, COLL_RATE_block_lines_gbps, bytes, us, r->lines_us,
                                       FEW_BLOCKS * r->block_lines_gbps) /
                          FEW_BLOCKS;
}

static void measure_bandwidths(struct tuning *t)
{
    struct coll_rates *r = &t->rates;
    size_t packets = (size_t)tool_coll_round_bytes(t->b->bench.world, COLL_ALLGATHER, COLL_ALGO_LL);
    if (packets > t->large)
        packets = t->large;
    double us = measured_time(t, COLL_ALLGATHER, COLL_ALGO_LL, MOST_BLOCKS, packets);
    r->packets_gbps =
        compute_rate(t, COLL_RATE_packets_gbps, packets, us, r->one_trip_us, r->packets_gbps);
    us = measured_time(t, COLL_ALLGATHER, COLL_ALGO_LL, FEW_BLOCKS, packets);
    r->block_packets_gbps = compute_rate(t, COLL_RATE_block_packets_gbps, packets, us,
                                         r->one_trip_us, FEW_BLOCKS * r->block_packets_gbps) /
                            FEW_BLOCKS;
    measure_lines_bandwidths(t);
    us = measured_time(t, COLL_ALLTOALL, COLL_ALGO_SIMPLE, MOST_BLOCKS, t->large);
    r->stores_gbps =
        compute_rate(t, COLL_RATE_stores_gbps, t->large, us, r->push_us, r->stores_gbps);
    size_t few = t->large < SHARED ? t->large : SHARED;
    us = measured_time(t, COLL_ALLTOALL, COLL_ALGO_SIMPLE, FEW_BLOCKS, few);
    r->block_stores_gbps = compute_rate(t, COLL_RATE_block_stores_gbps, few, us, r->push_us,
                                        FEW_BLOCKS * r->block_stores_gbps) /
                           FEW_BLOCKS;
}

/* The staged algorithm: the same stores, and a copy at each end. */
static void measure_scratch_bandwidths(struct tuning *t)
{
    struct coll_rates *r = &t->rates;
    size_t few = t->large < SHARED ? t->large : SHARED;
    double begin = measured_time(t, COLL_ALLTOALL, COLL_ALGO_STAGED, MOST_BLOCKS, SMALL);
    double us = measured_time(t, COLL_ALLTOALL, COLL_ALGO_STAGED, MOST_BLOCKS, t->large);
    r->scratch_gbps = compute_rate(t, COLL_RATE_scratch_gbps, t->large, us, begin, r->scratch_gbps);
    us = measured_time(t, COLL_ALLTOALL, COLL_ALGO_STAGED, FEW_BLOCKS, few);
    r->block_scratch_gbps = compute_rate(t, COLL_RATE_block_scratch_gbps, few, us, begin,
                                         FEW_BLOCKS * r->block_scratch_gbps) /
                            FEW_BLOCKS;
}

/* Copy engines: only the total latency is measured; it is divided as in the built-in rates. */
static void measure_engines(struct tuning *t)
{
    const struct coll_rates *was = &coll_rates_built_in;
    struct coll_rates *r = &t->rates;
    double us = measured_time(t, COLL_ALLTOALL, COLL_ALGO_ENGINES, MOST_BLOCKS, SMALL);
    double share = us / (was->engines_meet_us + was->engines_first_us +
                         (t->b->members - 2) * was->engines_more_us);
    r->engines_meet_us = share * was->engines_meet_us;
    r->engines_first_us = share * was->engines_first_us;
    r->engines_more_us = share * was->engines_more_us;
    double large = measured_time(t, COLL_ALLTOALL, COLL_ALGO_ENGINES, MOST_BLOCKS, t->large);
    r->engines_gbps = compute_rate(t, COLL_RATE_engines_gbps, t->large, large, us, r->engines_gbps);
}

/* The smallest number of blocks within 3 % of the best, for 1 MiB per PE: gives the bytes of
 * each block. */
static void measure_block_share(struct tuning *t)
{
    double us[8], best = 0;
    int n = 0, chosen = 0;
    size_t others = (size_t)(t->b->members > 1 ? t->b->members - 1 : 1);
    for (int blocks = 1; blocks <= MOST_BLOCKS; blocks *= 2, n++) {
        us[n] =
            measured_time(t, COLL_ALLTOALL, COLL_ALGO_SIMPLE, blocks, SHARED / others / 16 * 16);
        best = !n || us[n] < best ? us[n] : best;
    }
    while (us[chosen] > 1.03 * best)
        chosen++;
    t->rates.block_share_bytes = (double)(SHARED >> chosen);
}

static void print_rate(const char *name, double built_in, double measured, double kept,
                       bool estimated)
{
    printf("  %-20s %10.6g %10.4g", name, built_in, kept);
    if (kept != measured)
        printf("  the built-in value: the measured %.4g is not a rate", measured);
    else if (estimated)
        printf("  an estimate, not measured");
    printf("\n");
}

static void print_tuning(const struct tuning *t, const struct coll_rates *measured,
                         const char *path)
{
    const struct coll_rates *was = &coll_rates_built_in;
    printf("rates of collectives between %d PEs, built-in and measured:\n", t->b->members);
#define LINE(name, built_in, least, most)                                                          \
    print_rate(#name, was->name, measured->name, t->rates.name,                                    \
               coll_rates_estimated(&t->rates, COLL_RATE_##name));
    COLL_RATES(LINE)
#undef LINE
    printf("saved in %s\n", path);
}

weft_status coll_tune(struct coll_bench *b)
{
    struct tuning t = {.b = b, .rates = coll_rates_built_in};
    t.rates.estimates = 0;
    char path[600] = "";
    for (int i = 0; i < b->options->n_sizes; i++)
        t.large = b->options->sizes[i] > t.large ? b->options->sizes[i] : t.large;
    t.lines =
        tool_coll_model(b->bench.world, COLL_ALLGATHER, COLL_ALGO_LL128, MOST_BLOCKS, SMALL).us >=
        0;
    measure_latencies(&t);
    measure_bandwidths(&t);
    measure_scratch_bandwidths(&t);
    measure_engines(&t);
    measure_block_share(&t);
    if (t.status)
        return t.status;
    if (b->wrong)
        return base_fail(WEFT_ERR_JOB, "received data is wrong; nothing is saved");
    struct coll_rates measured = t.rates;
    coll_rates_replace_invalid(&t.rates);
    /* One PE of each node saves the rates, which are the same at all PEs. */
    weft_team *node = weft_team_node(b->bench.job);
    if (weft_team_my_pe(node) == 0)
        t.status = tool_coll_keep(b->bench.job, &t.rates, b->members, path, sizeof path);
    if (!t.status && b->bench.me == 0)
        print_tuning(&t, &measured, path);
    return t.status ? t.status : weft_barrier(b->all);
}
