/* SPDX-License-Identifier: Apache-2.0 */
/* The paths of the demo: tests all of them, then measures each pair with the benchmarks of `weft
 * bench`. */
#include "demo/demo.h"

#include "tool/tool.h"

#include <stdio.h>
#include <string.h>

weft_status demo_prove(struct demo *demo)
{
    struct bench *bench = &demo->bench;
    demo->all_proven = true;
    weft_status proof = weft_prove(bench->job);
    if (proof && proof != WEFT_ERR_PATH)
        return proof;
    for (int pe = 0; pe < bench->n; pe++) {
        weft_path_info info = {.size = sizeof info};
        weft_status status = weft_path_query(bench->job, pe, &info);
        if (status)
            return status;
        if (info.proven == 1)
            continue;
        demo->all_proven = false;
        snprintf(demo->unproven, sizeof demo->unproven, "PE %d to PE %d: %s", bench->me, pe,
                 info.reason);
    }
    /* Includes failures that other PEs found. */
    double worst = demo->all_proven && !proof;
    weft_status status = bench_combine(bench, WEFT_MIN, &worst);
    demo->all_proven = worst != 0;
    return status;
}

static weft_status measure_path(struct demo *demo, const char *name, size_t bytes,
                                struct bench_point *point)
{
    struct bench_case c;
    const struct bench_entry *entry = bench_find(name, demo->bench.options);
    if (!entry)
        return base_fail(WEFT_ERR_UNSUPPORTED, "this build has no benchmark \"%s\"", name);
    weft_status status = bench_case_open(&demo->bench, entry, bytes, &c);
    if (!status)
        status = bench_measure(&demo->bench, &c, point);
    /* Only `from` knows the rate of memcpy; elsewhere it is negative. */
    if (!status)
        status = bench_combine(&demo->bench, WEFT_MAX, &point->memcpy_us);
    return status ? status : bench_case_close(&demo->bench, &c);
}

static weft_status measure_pair_of_pes(struct demo *demo, int from, int to)
{
    struct demo_pair *pair = &demo->pairs[demo->n_pairs++];
    struct bench_point latency, put;
    demo->bench.from = from;
    demo->bench.to = to;
    weft_status status = measure_path(demo, "latency", 8, &latency);
    if (!status)
        status = measure_path(demo, "put", 1 << 20, &put);
    if (status)
        return status;
    /* The best repetition instead of the median: a user's machine is seldom idle. */
    weft_path_info info = {.size = sizeof info};
    status = weft_path_query(demo->bench.job, from == demo->bench.me ? to : from, &info);
    *pair = (struct demo_pair){.from = from,
                               .to = to,
                               .latency_us = latency.us_min,
                               .put_gbps = (double)put.bytes / put.us_min / 1e3,
                               .memcpy_gbps = bench_memcpy_gbps(&put),
                               .right = latency.verified == 1 && put.verified == 1};
    snprintf(pair->path, sizeof pair->path, "%s", info.name ? info.name : "");
    return status;
}

/* Measures every pair, or those of PE 0 when there are many. */
weft_status demo_measure(struct demo *demo)
{
    int n = demo->bench.n;
    bool all = n * (n - 1) / 2 <= 16;
    demo->possible_pairs = n * (n - 1) / 2;
    weft_status status = WEFT_OK;
    for (int from = 0; !status && from < (all ? n : 1); from++)
        for (int to = from + 1; !status && to < n && demo->n_pairs < DEMO_PAIRS_MAX; to++)
            status = measure_pair_of_pes(demo, from, to);
    return status;
}
