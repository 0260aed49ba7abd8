/* SPDX-License-Identifier: Apache-2.0 */
/* Ping-pong, barrier and sync called by the host, on host or GPU memory. */
#include "bench/bench.h"

#include <sched.h>
#include <string.h>

/* `from` sends and `to` answers; in a job of one PE it does both. `from` writes flag line 0,
 * `to` line 1. Round numbers only grow, so that no reset is needed between runs. */
static uint64_t *flag(struct bench *bench, int line)
{
    return bench->flags + line * BENCH_LINE_WORDS;
}

/* One direction: puts 8 bytes into the peer's flag, or waits for its own flag. */
static weft_status send8(struct bench *bench, int line, uint64_t round, int pe)
{
    return weft_put(bench->ctx, flag(bench, line), &round, sizeof round, pe);
}

static weft_status wait8(struct bench *bench, int line, uint64_t round)
{
    return weft_wait_until(bench->ctx, WEFT_UINT64, flag(bench, line), WEFT_EQ, round);
}

weft_status host_latency_run(struct bench *bench, struct bench_case *c, uint64_t iterations,
                             double *ns)
{
    bool serves = bench->me == bench->from, returns = bench->me == bench->to;
    uint64_t round = bench->rounds, last = round + iterations;
    weft_status status = WEFT_OK;
    uint64_t start = bench_now_ns();
    while (!status && round < last) {
        round++;
        if (serves)
            status = send8(bench, 0, round, bench->to);
        if (!status && returns)
            status = wait8(bench, 0, round);
        if (!status && returns)
            status = send8(bench, 1, round, bench->from);
        if (!status && serves)
            status = wait8(bench, 1, round);
        if (!serves && !returns)
            round = last;
    }
    if (serves)
        *ns += (double)(bench_now_ns() - start) / 2;
    bench->rounds = last;
    return status;
}

/* Checks the value of this PE's flag after the wait. */
static weft_status check8(struct bench *bench, int line, uint64_t round, bool *right)
{
    uint64_t seen = 0;
    weft_status status = wait8(bench, line, round);
    if (!status)
        status = bench_read(bench, &seen, flag(bench, line), sizeof seen);
    *right = *right && seen == round;
    return status;
}

weft_status host_latency_check(struct bench *bench, struct bench_case *c, bool *right)
{
    bool serves = bench->me == bench->from, returns = bench->me == bench->to;
    uint64_t round = bench->rounds, last = round + 100;
    weft_status status = weft_barrier(bench->world);
    while (!status && (serves || returns) && round < last) {
        round++;
        if (serves)
            status = send8(bench, 0, round, bench->to);
        if (!status && returns)
            status = check8(bench, 0, round, right);
        if (!status && returns)
            status = send8(bench, 1, round, bench->from);
        if (!status && serves)
            status = check8(bench, 1, round, right);
    }
    bench->rounds = last;
    return status ? status : weft_barrier(bench->world);
}

static weft_status send_data(struct bench *bench, struct bench_case *c, int line, uint64_t round,
                             int pe)
{
    return weft_put_signal(bench->ctx, c->dst, c->src, c->bytes, flag(bench, line), round,
                           WEFT_SIGNAL_SET, pe);
}

static weft_status wait_data(struct bench *bench, int line, uint64_t round)
{
    return weft_signal_wait(bench->ctx, flag(bench, line), WEFT_EQ, round, NULL);
}

weft_status host_latency_signal_run(struct bench *bench, struct bench_case *c, uint64_t iterations,
                                    double *ns)
{
    bool serves = bench->me == bench->from, returns = bench->me == bench->to;
    uint64_t round = bench->rounds, last = round + iterations;
    weft_status status = WEFT_OK;
    uint64_t start = bench_now_ns();
    while (!status && round < last) {
        round++;
        if (serves)
            status = send_data(bench, c, 0, round, bench->to);
        if (!status && returns)
            status = wait_data(bench, 0, round);
        if (!status && returns)
            status = send_data(bench, c, 1, round, bench->from);
        if (!status && serves)
            status = wait_data(bench, 1, round);
        if (!serves && !returns)
            round = last;
    }
    if (serves)
        *ns += (double)(bench_now_ns() - start) / 2;
    bench->rounds = last;
    return status;
}

static weft_status check_data_received(struct bench *bench, struct bench_case *c, int line,
                                       uint64_t round, uint64_t seed, bool *right)
{
    weft_status status = wait_data(bench, line, round);
    return status ? status : bench_has(bench, c->dst, c->bytes, seed, right);
}

/* New contents in every round, so that data that arrives after its signal is detected. */
weft_status host_latency_signal_check(struct bench *bench, struct bench_case *c, bool *right)
{
    bool serves = bench->me == bench->from, returns = bench->me == bench->to;
    uint64_t round = bench->rounds, last = round + 20;
    weft_status status = weft_barrier(bench->world);
    while (!status && (serves || returns) && round < last) {
        round++;
        if (serves) {
            status = bench_set(bench, c->src, c->bytes, 2 * round);
            if (!status)
                status = send_data(bench, c, 0, round, bench->to);
        }
        if (!status && returns) {
            status = check_data_received(bench, c, 0, round, 2 * round, right);
            if (!status)
                status = bench_set(bench, c->src, c->bytes, 2 * round + 1);
            if (!status)
                status = send_data(bench, c, 1, round, bench->from);
        }
        if (!status && serves)
            status = check_data_received(bench, c, 1, round, 2 * round + 1, right);
    }
    bench->rounds = last;
    return status;
}

weft_status host_barrier_run(struct bench *bench, struct bench_case *c, uint64_t iterations,
                             double *ns)
{
    weft_status status = WEFT_OK;
    uint64_t start = bench_now_ns();
    for (uint64_t i = 0; !status && i < iterations; i++)
        status = weft_barrier(bench->world);
    *ns += (double)(bench_now_ns() - start);
    return status;
}

/* In each round another PE arrives late, so that a barrier or sync that does not wait for it is
 * detected. The PE spins for some time and yields its CPU several times, so that PEs on the same
 * CPU run. */
static void arrive_late(const struct bench *bench, uint64_t round)
{
    enum { LATE_NS = 20000, LATE_TURNS = 20 };
    if (round % (uint64_t)bench->n != (uint64_t)bench->me)
        return;
    for (uint64_t start = bench_now_ns(); bench_now_ns() - start < LATE_NS;)
        ;
    for (int i = 0; i < LATE_TURNS; i++)
        sched_yield();
}

/* After a barrier each PE must see the data that its predecessor put, without quiet or wait. */
weft_status host_barrier_check(struct bench *bench, struct bench_case *c, bool *right)
{
    uint64_t *dst = c->dst;
    int next = (bench->me + 1) % bench->n, before = (bench->me + bench->n - 1) % bench->n;
    weft_status status = WEFT_OK;
    for (uint64_t i = 0; !status && i < 50; i++) {
        uint64_t value = bench_word((uint64_t)bench->me, i);
        arrive_late(bench, i);
        status = weft_put(bench->ctx, &dst[i % 2], &value, sizeof value, next);
        if (!status)
            status = weft_barrier(bench->world);
        uint64_t seen = 0;
        if (!status)
            status = bench_read(bench, &seen, &dst[i % 2], sizeof seen);
        *right = *right && seen == bench_word((uint64_t)before, i);
    }
    return status;
}

weft_status host_sync_run(struct bench *bench, struct bench_case *c, uint64_t iterations,
                          double *ns)
{
    weft_status status = WEFT_OK;
    uint64_t start = bench_now_ns();
    for (uint64_t i = 0; !status && i < iterations; i++)
        status = weft_sync(bench->world);
    *ns += (double)(bench_now_ns() - start);
    return status;
}

/* After a sync each PE's earlier store to its own memory must be visible to a get. */
weft_status host_sync_check(struct bench *bench, struct bench_case *c, bool *right)
{
    uint64_t *dst = c->dst;
    int next = (bench->me + 1) % bench->n;
    weft_status status = WEFT_OK;
    for (uint64_t i = 0; !status && i < 50; i++) {
        uint64_t value = bench_word((uint64_t)bench->me, i);
        arrive_late(bench, i);
        status = bench_write(bench, &dst[i % 2], &value, sizeof value);
        if (!status)
            status = weft_sync(bench->world);
        if (!status)
            status = weft_g64(bench->ctx, &dst[i % 2], &value, next);
        *right = *right && value == bench_word((uint64_t)next, i);
    }
    return status;
}
