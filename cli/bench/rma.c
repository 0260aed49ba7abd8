/* SPDX-License-Identifier: Apache-2.0 */
/* put, get, p and g called by the host, on host or GPU memory: `from` accesses `to`, back to
 * back on the same buffers, then one quiet. */
#include "bench/bench.h"

/* p and g go over this many words, as a program that writes an array. */
enum { WINDOW_WORDS = 512 };

/* Fills each PE's source with its own pattern and its destination with another. */
static weft_status prepare_rma(struct bench *bench, struct bench_case *c)
{
    weft_status status = bench_set(bench, c->src, c->bytes, 1 + (uint64_t)bench->me);
    if (!status)
        status = bench_set(bench, c->dst, c->bytes, 1000);
    return status ? status : weft_barrier(bench->world);
}

weft_status host_put_run(struct bench *bench, struct bench_case *c, uint64_t iterations, double *ns)
{
    if (bench->me != bench->from)
        return WEFT_OK;
    uint64_t start = bench_now_ns();
    for (uint64_t i = 0; i < iterations; i++) {
        weft_status status = weft_put(bench->ctx, c->dst, c->src, c->bytes, bench->to);
        if (status)
            return status;
    }
    weft_status status = weft_quiet(bench->ctx);
    *ns += (double)(bench_now_ns() - start);
    return status;
}

weft_status host_put_check(struct bench *bench, struct bench_case *c, bool *right)
{
    weft_status status = prepare_rma(bench, c);
    if (!status && bench->me == bench->from)
        status = weft_put(bench->ctx, c->dst, c->src, c->bytes, bench->to);
    if (!status)
        status = weft_barrier(bench->world);
    uint64_t seed = bench->me == bench->to ? 1 + (uint64_t)bench->from : 1000;
    return status ? status : bench_has(bench, c->dst, c->bytes, seed, right);
}

weft_status host_get_run(struct bench *bench, struct bench_case *c, uint64_t iterations, double *ns)
{
    if (bench->me != bench->from)
        return WEFT_OK;
    uint64_t start = bench_now_ns();
    for (uint64_t i = 0; i < iterations; i++) {
        weft_status status = weft_get(bench->ctx, c->dst, c->src, c->bytes, bench->to);
        if (status)
            return status;
    }
    *ns += (double)(bench_now_ns() - start);
    return WEFT_OK;
}

weft_status host_get_check(struct bench *bench, struct bench_case *c, bool *right)
{
    weft_status status = prepare_rma(bench, c);
    if (status || bench->me != bench->from)
        return status;
    status = weft_get(bench->ctx, c->dst, c->src, c->bytes, bench->to);
    return status ? status : bench_has(bench, c->dst, c->bytes, 1 + (uint64_t)bench->to, right);
}

weft_status host_p_run(struct bench *bench, struct bench_case *c, uint64_t iterations, double *ns)
{
    if (bench->me != bench->from)
        return WEFT_OK;
    uint64_t *dst = c->dst;
    uint64_t start = bench_now_ns();
    for (uint64_t i = 0; i < iterations; i++) {
        weft_status status = weft_p64(bench->ctx, &dst[i % WINDOW_WORDS], i, bench->to);
        if (status)
            return status;
    }
    weft_status status = weft_quiet(bench->ctx);
    *ns += (double)(bench_now_ns() - start);
    return status;
}

weft_status host_p_check(struct bench *bench, struct bench_case *c, bool *right)
{
    uint64_t *dst = c->dst;
    size_t bytes = WINDOW_WORDS * sizeof *dst;
    weft_status status = bench_set(bench, dst, bytes, 1000);
    if (!status)
        status = weft_barrier(bench->world);
    for (uint64_t i = 0; !status && bench->me == bench->from && i < WINDOW_WORDS; i++)
        status = weft_p64(bench->ctx, &dst[i], bench_word(7, i), bench->to);
    if (!status)
        status = weft_barrier(bench->world);
    return status ? status : bench_has(bench, dst, bytes, bench->me == bench->to ? 7 : 1000, right);
}

weft_status host_g_run(struct bench *bench, struct bench_case *c, uint64_t iterations, double *ns)
{
    if (bench->me != bench->from)
        return WEFT_OK;
    const uint64_t *src = c->src;
    uint64_t value;
    uint64_t start = bench_now_ns();
    for (uint64_t i = 0; i < iterations; i++) {
        weft_status status = weft_g64(bench->ctx, &src[i % WINDOW_WORDS], &value, bench->to);
        if (status)
            return status;
    }
    *ns += (double)(bench_now_ns() - start);
    return WEFT_OK;
}

weft_status host_g_check(struct bench *bench, struct bench_case *c, bool *right)
{
    const uint64_t *src = c->src;
    weft_status status =
        bench_set(bench, c->src, WINDOW_WORDS * sizeof *src, 1 + (uint64_t)bench->me);
    if (!status)
        status = weft_barrier(bench->world);
    for (uint64_t i = 0; !status && bench->me == bench->from && i < WINDOW_WORDS; i++) {
        uint64_t value = 0;
        status = weft_g64(bench->ctx, &src[i], &value, bench->to);
        *right = *right && value == bench_word(1 + (uint64_t)bench->to, i);
    }
    return status;
}
