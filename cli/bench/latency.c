/* SPDX-License-Identifier: Apache-2.0 */
/* Ping-pong, barrier and sync from the host. */
#include "bench/bench.h"

#include "tool/tool.h"

#include <string.h>

/* `from` serves, `to` returns; with one PE it plays both. Flags: line 0 is the serve's, line 1 the
 * return's. Numbers only grow, so that no reset is needed between runs. */
static uint64_t *flag(struct bench *bench, int line)
{
    return bench->lines + line * BENCH_LINE_WORDS;
}

/* The number of rounds played since the case began; alike at both players. */
static uint64_t *rounds_played(struct bench *bench)
{
    return flag(bench, 2);
}

/* One way: put 8 bytes into the peer's flag, or wait for the own one. */
static weft_status throw8(struct bench *bench, int line, uint64_t round, int pe)
{
    return weft_put(bench->ctx, flag(bench, line), &round, sizeof round, pe);
}

static weft_status catch8(struct bench *bench, int line, uint64_t round)
{
    return weft_wait_until(bench->ctx, WEFT_UINT64, flag(bench, line), WEFT_EQ, round);
}

weft_status host_latency_run(struct bench *bench, struct bench_case *c, uint64_t iterations,
                             double *ns)
{
    bool serves = bench->me == bench->from, returns = bench->me == bench->to;
    uint64_t round = *rounds_played(bench), last = round + iterations;
    weft_status status = WEFT_OK;
    uint64_t start = clock_now_ns();
    while (!status && round < last) {
        round++;
        if (serves)
            status = throw8(bench, 0, round, bench->to);
        if (!status && returns)
            status = catch8(bench, 0, round);
        if (!status && returns)
            status = throw8(bench, 1, round, bench->from);
        if (!status && serves)
            status = catch8(bench, 1, round);
        if (!serves && !returns)
            round = last;
    }
    if (serves)
        *ns += (double)(clock_now_ns() - start) / 2;
    *rounds_played(bench) = last;
    return status;
}

weft_status host_latency_check(struct bench *bench, struct bench_case *c, bool *right)
{
    double ignored = 0;
    weft_status status = host_latency_run(bench, c, 100, &ignored);
    if (!status)
        status = weft_barrier(bench->world);
    uint64_t last = *rounds_played(bench);
    *right = (bench->me != bench->to || *flag(bench, 0) == last) &&
             (bench->me != bench->from || *flag(bench, 1) == last);
    return status;
}

static weft_status throw_data(struct bench *bench, struct bench_case *c, int line, uint64_t round,
                              int pe)
{
    return weft_put_signal(bench->ctx, c->dst, c->src, c->bytes, flag(bench, line), round,
                           WEFT_SIGNAL_SET, pe);
}

static weft_status catch_data(struct bench *bench, int line, uint64_t round)
{
    return weft_signal_wait(bench->ctx, flag(bench, line), WEFT_EQ, round, NULL);
}

weft_status host_latency_signal_run(struct bench *bench, struct bench_case *c, uint64_t iterations,
                                    double *ns)
{
    bool serves = bench->me == bench->from, returns = bench->me == bench->to;
    uint64_t round = *rounds_played(bench), last = round + iterations;
    weft_status status = WEFT_OK;
    uint64_t start = clock_now_ns();
    while (!status && round < last) {
        round++;
        if (serves)
            status = throw_data(bench, c, 0, round, bench->to);
        if (!status && returns)
            status = catch_data(bench, 0, round);
        if (!status && returns)
            status = throw_data(bench, c, 1, round, bench->from);
        if (!status && serves)
            status = catch_data(bench, 1, round);
        if (!serves && !returns)
            round = last;
    }
    if (serves)
        *ns += (double)(clock_now_ns() - start) / 2;
    *rounds_played(bench) = last;
    return status;
}

/* New contents in every round: data that came later than its signal would be seen. */
weft_status host_latency_signal_check(struct bench *bench, struct bench_case *c, bool *right)
{
    bool serves = bench->me == bench->from, returns = bench->me == bench->to;
    uint64_t round = *rounds_played(bench), last = round + 20;
    weft_status status = weft_barrier(bench->world);
    while (!status && (serves || returns) && round < last) {
        round++;
        if (serves) {
            bench_fill(c->src, c->bytes, 2 * round);
            status = throw_data(bench, c, 0, round, bench->to);
        }
        if (!status && returns) {
            status = catch_data(bench, 0, round);
            *right = *right && bench_holds(c->dst, c->bytes, 2 * round);
            bench_fill(c->src, c->bytes, 2 * round + 1);
            if (!status)
                status = throw_data(bench, c, 1, round, bench->from);
        }
        if (!status && serves) {
            status = catch_data(bench, 1, round);
            *right = *right && bench_holds(c->dst, c->bytes, 2 * round + 1);
        }
    }
    *rounds_played(bench) = last;
    return status;
}

weft_status host_barrier_run(struct bench *bench, struct bench_case *c, uint64_t iterations,
                             double *ns)
{
    weft_status status = WEFT_OK;
    uint64_t start = clock_now_ns();
    for (uint64_t i = 0; !status && i < iterations; i++)
        status = weft_barrier(bench->world);
    *ns += (double)(clock_now_ns() - start);
    return status;
}

/* After a barrier every PE sees what the one before it put, without quiet and without wait. */
weft_status host_barrier_check(struct bench *bench, struct bench_case *c, bool *right)
{
    uint64_t *dst = c->dst;
    int next = (bench->me + 1) % bench->n, before = (bench->me + bench->n - 1) % bench->n;
    weft_status status = WEFT_OK;
    for (uint64_t i = 0; !status && i < 50; i++) {
        uint64_t value = bench_word((uint64_t)bench->me, i);
        status = weft_put(bench->ctx, &dst[i % 2], &value, sizeof value, next);
        if (!status)
            status = weft_barrier(bench->world);
        *right = *right && dst[i % 2] == bench_word((uint64_t)before, i);
    }
    return status;
}

weft_status host_sync_run(struct bench *bench, struct bench_case *c, uint64_t iterations,
                          double *ns)
{
    weft_status status = WEFT_OK;
    uint64_t start = clock_now_ns();
    for (uint64_t i = 0; !status && i < iterations; i++)
        status = weft_sync(bench->world);
    *ns += (double)(clock_now_ns() - start);
    return status;
}

/* After a sync every PE's own store from before it is visible to a get. */
weft_status host_sync_check(struct bench *bench, struct bench_case *c, bool *right)
{
    uint64_t *dst = c->dst;
    int next = (bench->me + 1) % bench->n;
    weft_status status = WEFT_OK;
    for (uint64_t i = 0; !status && i < 50; i++) {
        uint64_t value = 0;
        dst[i % 2] = bench_word((uint64_t)bench->me, i);
        status = weft_sync(bench->world);
        if (!status)
            status = weft_g64(bench->ctx, &dst[i % 2], &value, next);
        *right = *right && value == bench_word((uint64_t)next, i);
    }
    return status;
}
