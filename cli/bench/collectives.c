/* SPDX-License-Identifier: Apache-2.0 */
/* The collectives that move data, called by the host, over all PEs, on host or GPU memory. Timed
 * as in the OSU benchmarks: the time in the call, with a barrier before each call; the result is
 * the mean over the PEs. One clock reading is included. */
#include "bench/bench.h"

#include "tool/tool.h"

#include <stdlib.h>
#include <string.h>

typedef weft_status (*collective)(struct bench *bench, struct bench_case *c);

static weft_status time_calls(struct bench *bench, struct bench_case *c, uint64_t iterations,
                              collective call, double *ns)
{
    uint64_t inside = 0;
    for (uint64_t i = 0; i < iterations; i++) {
        weft_status status = weft_barrier(bench->world);
        uint64_t start = bench_now_ns();
        if (!status)
            status = call(bench, c);
        inside += bench_now_ns() - start;
        if (status)
            return status;
    }
    *ns += (double)inside;
    return WEFT_OK;
}

static char *block_at(void *buffer, size_t bytes, int index)
{
    return (char *)buffer + bytes * (size_t)index;
}

/* Fills the source with known contents and the destination with others. */
static weft_status prepare_collective(struct bench *bench, struct bench_case *c,
                                      size_t blocks_in_dst)
{
    weft_status status = bench_set(bench, c->src, c->bytes, 100 + (uint64_t)bench->me);
    if (!status)
        status = bench_set(bench, c->dst, c->bytes * blocks_in_dst, 1);
    return status ? status : weft_barrier(bench->world);
}

static weft_status call_broadcast(struct bench *bench, struct bench_case *c)
{
    return weft_broadcast(bench->world, c->dst, c->src, c->bytes, 0);
}

weft_status host_broadcast_run(struct bench *bench, struct bench_case *c, uint64_t iterations,
                               double *ns)
{
    return time_calls(bench, c, iterations, call_broadcast, ns);
}

/* Each PE is the root once. */
weft_status host_broadcast_check(struct bench *bench, struct bench_case *c, bool *right)
{
    weft_status status = WEFT_OK;
    for (int root = 0; !status && root < bench->n; root++) {
        status = prepare_collective(bench, c, 1);
        if (!status)
            status = weft_broadcast(bench->world, c->dst, c->src, c->bytes, root);
        if (!status)
            status = bench_has(bench, c->dst, c->bytes, 100 + (uint64_t)root, right);
    }
    return status;
}

static weft_status call_allgather(struct bench *bench, struct bench_case *c)
{
    return weft_allgather(bench->world, c->dst, c->src, c->bytes);
}

weft_status host_allgather_run(struct bench *bench, struct bench_case *c, uint64_t iterations,
                               double *ns)
{
    return time_calls(bench, c, iterations, call_allgather, ns);
}

weft_status host_allgather_check(struct bench *bench, struct bench_case *c, bool *right)
{
    weft_status status = prepare_collective(bench, c, (size_t)bench->n);
    if (!status)
        status = call_allgather(bench, c);
    for (int pe = 0; !status && pe < bench->n; pe++)
        status =
            bench_has(bench, block_at(c->dst, c->bytes, pe), c->bytes, 100 + (uint64_t)pe, right);
    return status;
}

static weft_status call_collect(struct bench *bench, struct bench_case *c)
{
    return weft_collect(bench->world, c->dst, c->src, c->bytes);
}

weft_status host_collect_run(struct bench *bench, struct bench_case *c, uint64_t iterations,
                             double *ns)
{
    return time_calls(bench, c, iterations, call_collect, ns);
}

/* PEs contribute different sizes, which collect allows and allgather does not. */
weft_status host_collect_check(struct bench *bench, struct bench_case *c, bool *right)
{
    weft_status status = prepare_collective(bench, c, (size_t)bench->n);
    size_t own = c->bytes - c->bytes * (size_t)(bench->me % 3) / 4;
    if (!status)
        status = weft_collect(bench->world, c->dst, c->src, own);
    const char *at = c->dst;
    for (int pe = 0; !status && pe < bench->n; pe++) {
        size_t bytes = c->bytes - c->bytes * (size_t)(pe % 3) / 4;
        status = bench_has(bench, at, bytes, 100 + (uint64_t)pe, right);
        at += bytes;
    }
    return status;
}

static weft_status call_alltoall(struct bench *bench, struct bench_case *c)
{
    return weft_alltoall(bench->world, c->dst, c->src, c->bytes);
}

weft_status host_alltoall_run(struct bench *bench, struct bench_case *c, uint64_t iterations,
                              double *ns)
{
    return time_calls(bench, c, iterations, call_alltoall, ns);
}

static uint64_t pair_seed(struct bench *bench, int from, int to)
{
    return 100 + (uint64_t)from * (uint64_t)bench->n + (uint64_t)to;
}

weft_status host_alltoall_check(struct bench *bench, struct bench_case *c, bool *right)
{
    weft_status status = bench_set(bench, c->dst, c->bytes * (size_t)bench->n, 1);
    for (int pe = 0; !status && pe < bench->n; pe++)
        status = bench_set(bench, block_at(c->src, c->bytes, pe), c->bytes,
                           pair_seed(bench, bench->me, pe));
    if (!status)
        status = weft_barrier(bench->world);
    if (!status)
        status = call_alltoall(bench, c);
    for (int pe = 0; !status && pe < bench->n; pe++)
        status = bench_has(bench, block_at(c->dst, c->bytes, pe), c->bytes,
                           pair_seed(bench, pe, bench->me), right);
    return status;
}

/* Sums int64, or bytes when the size is not a multiple of eight. */
static weft_type sum_type(const struct bench_case *c)
{
    return c->bytes % 8 ? WEFT_UINT8 : WEFT_INT64;
}

static size_t sum_width(const struct bench_case *c)
{
    return c->bytes % 8 ? 1 : 8;
}

static weft_status call_reduce(struct bench *bench, struct bench_case *c)
{
    return weft_allreduce(bench->world, c->dst, c->src, c->bytes / sum_width(c), sum_type(c),
                          WEFT_SUM);
}

weft_status host_reduce_run(struct bench *bench, struct bench_case *c, uint64_t iterations,
                            double *ns)
{
    return time_calls(bench, c, iterations, call_reduce, ns);
}

/* Integer sums wrap, so that the sum of whole words modulo the width is the expected value. */
static uint64_t expected_sum(struct bench *bench, size_t index)
{
    uint64_t sum = 0;
    for (int pe = 0; pe < bench->n; pe++)
        sum += bench_word(100 + (uint64_t)pe, index);
    return sum;
}

static weft_status reduce_and_compare(struct bench *bench, struct bench_case *c, char *buffer,
                                      bool *right)
{
    size_t width = sum_width(c), n = c->bytes / width;
    for (size_t i = 0; i < n; i++) {
        uint64_t word = bench_word(100 + (uint64_t)bench->me, i);
        memcpy(buffer + i * width, &word, width); /* the low bytes: little-endian hosts */
    }
    weft_status status = bench_write(bench, c->src, buffer, c->bytes);
    if (!status)
        status = bench_set(bench, c->dst, c->bytes, 1);
    if (!status)
        status = weft_barrier(bench->world);
    if (!status)
        status = call_reduce(bench, c);
    if (!status)
        status = bench_read(bench, buffer, c->dst, c->bytes);
    for (size_t i = 0; !status && *right && i < n; i++) {
        uint64_t word = expected_sum(bench, i);
        *right = memcmp(buffer + i * width, &word, width) == 0;
    }
    return status;
}

weft_status host_reduce_check(struct bench *bench, struct bench_case *c, bool *right)
{
    char *buffer = malloc(c->bytes);
    if (!buffer)
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory for %zu bytes to compare", c->bytes);
    weft_status status = reduce_and_compare(bench, c, buffer, right);
    free(buffer);
    return status;
}
