/* SPDX-License-Identifier: Apache-2.0 */
/* Measures a point: check, warm up, find the number of iterations, repeat, take the median. All
 * PEs use the same numbers, since each decision is made on a value reduced over all PEs. */
#include "bench/bench.h"

#include <stdlib.h>

/* Adaptive runs: target time of a repetition, of the warm-up and of a point. */
static const double REPETITION_NS = 15e6, WARM_UP_NS = 3e6, POINT_NS = 400e6;
static const uint64_t ITERATIONS_MAX = 10 * 1000 * 1000;

weft_status bench_combine(struct bench *bench, weft_op op, double *value)
{
    bench->control[0] = *value;
    weft_status status =
        weft_allreduce(bench->world, &bench->control[1], &bench->control[0], 1, WEFT_DOUBLE, op);
    *value = bench->control[1];
    return status;
}

weft_status bench_combine_bits(struct bench *bench, uint64_t *bits)
{
    uint64_t *words = (uint64_t *)(void *)bench->control;
    words[0] = *bits;
    weft_status status =
        weft_allreduce(bench->world, &words[1], &words[0], 1, WEFT_UINT64, WEFT_XOR);
    *bits = words[1];
    return status;
}

weft_status bench_case_open(struct bench *bench, const struct bench_entry *entry, size_t bytes,
                            struct bench_case *c)
{
    size_t least = 4096, n = (size_t)bench->n; /* space for the checks of entries without sizes */
    size_t src = bytes * (entry->src_per_pe ? n : 1), dst = bytes * (entry->dst_per_pe ? n : 1);
    unsigned hints = entry->scope == SCOPE_HOST ? 0 : WEFT_ALLOC_ZERO;
    if (entry->buffer_bytes)
        src = dst = entry->buffer_bytes(bench->options, bytes);
    src = (src + 7) & ~(size_t)7; /* buffers are filled in words */
    dst = (dst + 7) & ~(size_t)7;
    *c = (struct bench_case){.entry = entry, .bytes = bytes};
    weft_status status = bench_alloc(bench, src > least ? src : least, hints, &c->src);
    if (status)
        return status;
    status = bench_alloc(bench, dst > least ? dst : least, hints, &c->dst);
    if (status) {
        /* The allocation fails at every PE, so that freeing the first block is collective. */
        weft_free(bench->job, c->src);
        return status;
    }
    return weft_barrier(bench->world);
}

weft_status bench_case_close(struct bench *bench, struct bench_case *c)
{
    weft_status status = weft_free(bench->job, c->dst);
    return status ? status : weft_free(bench->job, c->src);
}

/* Runs `iterations` and gives the total time in ns, the same at every PE. */
static weft_status run_once(struct bench *bench, struct bench_case *c, uint64_t iterations,
                            double *ns)
{
    *ns = 0;
    weft_status status = weft_sync(bench->world);
    if (!status)
        status = c->entry->run(bench, c, iterations, ns);
    if (!status)
        status = bench_combine(bench, c->entry->shape == SHAPE_PAIR ? WEFT_MAX : WEFT_SUM, ns);
    if (c->entry->shape == SHAPE_ALL)
        *ns /= bench->n;
    return status;
}

/* Increases the count until a run is long enough to extrapolate; this is also the warm-up. */
static weft_status find_iterations(struct bench *bench, struct bench_case *c, uint64_t *iterations,
                                   int *repetitions)
{
    double ns = 0;
    uint64_t count = 1;
    weft_status status = run_once(bench, c, count, &ns); /* page faults and first connections */
    for (;;) {
        if (!status)
            status = run_once(bench, c, count, &ns);
        if (status || ns >= WARM_UP_NS || count >= ITERATIONS_MAX)
            break;
        double factor = ns > 0 ? WARM_UP_NS / ns * 1.2 : 16;
        count = (uint64_t)((double)count * (factor > 16 ? 16 : factor) + 1);
    }
    double each = ns / (double)count;
    double wanted = each > 0 ? REPETITION_NS / each : (double)ITERATIONS_MAX;
    *iterations = wanted < 1                        ? 1
                  : wanted > (double)ITERATIONS_MAX ? ITERATIONS_MAX
                                                    : (uint64_t)wanted;
    double affordable = POINT_NS / (each * (double)*iterations);
    if (affordable < *repetitions)
        *repetitions = affordable < 3 ? 3 : (int)affordable;
    return status;
}

int bench_compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double floor_of(struct bench *bench, const struct bench_case *c, double memcpy_us)
{
    const struct bench_floors *floors = &bench->floors;
    double lines = floors->two_lines_ns / 1e3;
    double received = memcpy_us * (c->entry->dst_per_pe ? bench->n : 1);
    if (bench->options->memory != MEMORY_HOST)
        return -1; /* floors exist only for CPUs and host memory */
    switch (c->entry->floor) {
    case FLOOR_NONE:
        return -1;
    case FLOOR_MEMCPY:
        return memcpy_us;
    case FLOOR_STORE:
        return floors->store_ns / 1e3;
    case FLOOR_LOAD:
        return floors->load_ns / 1e3;
    case FLOOR_ATOMIC:
        return floors->atomic_ns / 1e3;
    case FLOOR_LINES:
        return lines;
    case FLOOR_HEARD:
        if (bench->n > 1 && lines < 0)
            return -1;
        return lines > received ? lines : received;
    }
    return -1;
}

static weft_status check_data(struct bench *bench, struct bench_case *c, int *verified)
{
    *verified = -1;
    if (!bench->options->verify)
        return WEFT_OK;
    bool right = true;
    weft_status status = c->entry->check(bench, c, &right);
    double least = right;
    if (!status)
        status = bench_combine(bench, WEFT_MIN, &least);
    *verified = least != 0;
    return status;
}

/* Computes bandwidth and rate from the median time. Bytes are those that one PE sends or
 * receives. */
static void compute_rates(struct bench_point *point, const struct bench *bench)
{
    const struct bench_entry *entry = point->entry;
    double moved = entry->family == NULL || entry->sized ? (double)point->bytes : 0;
    double units = bench_units(bench->options, entry);
    if (entry->dst_per_pe)
        moved *= bench->n;
    point->gbps = point->us > 0 ? units * moved / point->us / 1e3 : 0;
    point->mops = point->us > 0 ? units / point->us : 0;
}

weft_status bench_measure(struct bench *bench, struct bench_case *c, struct bench_point *point)
{
    const struct bench_options *options = bench->options;
    *point = (struct bench_point){.entry = c->entry,
                                  .memory = options->memory,
                                  .path = bench->path,
                                  .pes = bench->n,
                                  .from = bench->from,
                                  .to = bench->to,
                                  .ctas = options->ctas,
                                  .threads = options->threads,
                                  .bytes = c->bytes,
                                  .iterations = options->iterations,
                                  .repetitions = options->repetitions,
                                  .floors = bench->floors};
    weft_status status = check_data(bench, c, &point->verified);
    double warm_up = 0;
    if (!status && options->iterations)
        status = run_once(bench, c, options->iterations, &warm_up);
    else if (!status)
        status = find_iterations(bench, c, &point->iterations, &point->repetitions);
    double us[BENCH_REPETITIONS_MAX];
    for (int i = 0; !status && i < point->repetitions; i++) {
        double ns = 0;
        status = run_once(bench, c, point->iterations, &ns);
        us[i] = ns / (double)point->iterations / 1e3;
    }
    if (status)
        return status;
    qsort(us, (size_t)point->repetitions, sizeof us[0], bench_compare_doubles);
    point->us = us[point->repetitions / 2];
    point->us_min = us[0];
    point->us_max = us[point->repetitions - 1];
    /* After the timing, so that the buffers are as warm as for the operation. */
    bool by_cpus = c->entry->scope == SCOPE_HOST && options->memory == MEMORY_HOST;
    point->memcpy_us = by_cpus ? bench_memcpy_ns(bench, c) / 1e3 : -1;
    point->floor_us = floor_of(bench, c, point->memcpy_us);
    compute_rates(point, bench);
    return weft_sync(bench->world);
}
