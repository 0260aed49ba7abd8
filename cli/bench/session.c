/* SPDX-License-Identifier: Apache-2.0 */
/* A benchmark's session: joins the job, binds each PE to its own CPU when the host is measured
 * and there are enough CPUs, and finds the measured pair and its path. */
#include "bench/bench.h"

#include <sched.h>

/* Binds PE k of the node to the k-th CPU of this process, unless there are too few CPUs (the
 * kernel then balances better) or the launcher has bound the PE. */
static void bind_to_cpu(int local_pe, int local_pes)
{
    cpu_set_t allowed, own;
    if (sched_getaffinity(0, sizeof allowed, &allowed) || CPU_COUNT(&allowed) < local_pes)
        return;
    for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed) || seen++ != local_pe)
            continue;
        CPU_ZERO(&own);
        CPU_SET(cpu, &own);
        sched_setaffinity(0, sizeof own, &own); /* a failure only makes the timing less steady */
        return;
    }
}

/* Finds the name of the path from `from` to `to`; other PEs get that of their own path to `to`,
 * which is not used. */
static weft_status find_path(struct bench *bench)
{
    weft_kind kind = bench->options->memory == MEMORY_GPU ? WEFT_GPU : WEFT_HOST;
    weft_path_info info = {.size = sizeof info, .kind = kind};
    weft_status status = weft_path_query(bench->job, bench->to, &info);
    bench->path = info.name ? info.name : "";
    return status;
}

weft_status bench_open(struct bench *bench, const struct bench_options *options)
{
    *bench = (struct bench){.options = options};
    bench_device_set_target(options);
    weft_status status = weft_init(&bench->job, NULL);
    if (status)
        return status;
    bench->ctx = weft_default_ctx(bench->job);
    bench->world = weft_team_world(bench->job);
    bench->me = weft_my_pe(bench->job);
    bench->n = weft_n_pes(bench->job);
    bench->from = options->from;
    bench->to = options->to < 0 ? (bench->n > 1 ? 1 : 0) : options->to;
    return WEFT_OK;
}

weft_status bench_flags_make(struct bench *bench)
{
    void *flags = NULL;
    weft_status status = bench_alloc(bench, BENCH_LINES * BENCH_LINE_WORDS * sizeof(uint64_t),
                                     WEFT_ALLOC_ZERO, &flags);
    bench->flags = flags;
    return status;
}

weft_status bench_prepare(struct bench *bench)
{
    const struct bench_options *options = bench->options;
    weft_team *node = weft_team_node(bench->job);
    /* Kernels may need a proxy thread of the PE, which needs another CPU. */
    if (options->bind && options->scope == SCOPE_HOST)
        bind_to_cpu(weft_team_my_pe(node), weft_team_n_pes(node));
    weft_status status = WEFT_OK;
    void *control = NULL, *lines = NULL;
    if (!status)
        status = weft_alloc(bench->job, WEFT_HOST, 2 * sizeof(double), 0, 0, &control);
    if (!status)
        status =
            weft_alloc(bench->job, WEFT_HOST, BENCH_LINES * BENCH_LINE_WORDS * sizeof(uint64_t),
                       4096, WEFT_ALLOC_ZERO, &lines);
    bench->control = control;
    bench->lines = lines;
    if (!status)
        status = bench_flags_make(bench);
    if (!status)
        status = find_path(bench); /* the path of GPU memory is known after an allocation */
    if (!status)
        status = bench_floors_measure(bench);
    return status ? status : bench_device_prepare(bench);
}

weft_status bench_close(struct bench *bench)
{
    weft_status status = weft_free(bench->job, bench->flags);
    if (!status)
        status = weft_free(bench->job, bench->lines);
    if (!status)
        status = weft_free(bench->job, bench->control);
    if (!status)
        status = weft_finalize(bench->job);
    return status;
}
