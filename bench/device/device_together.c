/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of weft_device_bench of all PEs: barriers and collectives; and those of streams and of the
 * host. */
#include "device_rows.h"

/* ------------------------------------------------------------------------------------- barriers */

static double run_barriers(const char *row, const struct shape *s)
{
    uint64_t rounds = scaled(PLAN_PING_ROUNDS), warm = scaled(PLAN_PING_WARM);
    if (s->ctas == 32)
        LAUNCH(meet_warp, 1, 32, 0, bench.stream, s->what, warm, rounds, bench.times);
    else
        LAUNCH(meet_block, 1, bench.threads, 0, bench.stream, s->what, warm, rounds, bench.times);
    return max_over_pes(kernel_span_ns(row, 1) / (double)rounds / 1e3);
}

void barrier_rows(void)
{
    static const char *const names[] = {"meet", "sync", "barrier"};
    if (bench.n_pes < 2)
        return;
    for (int what = 0; what < 3; what++) {
        struct shape block = {0, 1, what}, warp = {0, 32, what};
        measure(row_name("%s_block", names[what]), "us", run_barriers, &block);
        measure(row_name("%s_warp", names[what]), "us", run_barriers, &warp);
    }
    for (int what = 1; what < 3 && is_row_wanted(names[what]); what++) {
        barrier();
        LAUNCH(check_meet_block, 1, bench.threads, 0, bench.stream, what, bench.flag + 64,
               bench.base, scaled(200), bench.times);
        bench.base += scaled(200);
        kernel_span_ns(names[what], 1);
    }
    barrier();
}

/* ------------------------------------------------------------------------------ collectives */

static int reduces(const struct shape *s)
{
    return s->what == DEVICE_ALLREDUCE || s->what == DEVICE_REDUCESCATTER ||
           s->what == DEVICE_REDUCE || s->what == DEVICE_WEIGHTED;
}

/* Each PE sends every other PE different data. */
static int send_to_each(const struct shape *s)
{
    return s->what == DEVICE_ALLTOALL || s->what == DEVICE_ALLTOALLV;
}

static uint64_t *counts; /* byte counts and offsets of alltoallv */

/* Counts wrong elements. PE k's elements are i % 64 + k, optionally weighted by k + 1. */
static void expect_floats(const struct shape *s)
{
    int n = bench.n_pes, weighted = s->what == DEVICE_WEIGHTED;
    size_t first = s->what == DEVICE_REDUCESCATTER ? (size_t)bench.me * (s->bytes / 4) : 0;
    if (reduces(s) && (s->what != DEVICE_REDUCE || bench.me == 0))
        LAUNCH(check_floats, bench.processors, bench.threads, 0, bench.stream, (float *)bench.dst,
               s->bytes / 4, first, weighted ? n * (n + 1) / 2 : n,
               weighted ? n * (n * n - 1) / 3 : n * (n - 1) / 2, bench.wrong);
}

/* Ends the job unless dst holds the collective's result of all PEs' src. */
static void expect_collective(const char *row, const struct shape *s)
{
    uint64_t *words = (uint64_t *)bench.dst;
    size_t n = s->bytes / 8, from = send_to_each(s) ? (size_t)bench.me * n : 0;
    clear_wrong();
    expect_floats(s);
    for (int pe = 0; !reduces(s) && pe < bench.n_pes; pe++)
        LAUNCH(check_words, bench.processors, bench.threads, 0, bench.stream,
               words + (size_t)pe * n, n, from + FILL_SEED, bench.wrong);
    uint64_t found = count_wrong_words();
    if (found) {
        fprintf(stderr, "weft_device_bench: PE %d: %s: %llu wrong elements\n", bench.me, row,
                (unsigned long long)found);
        weft_abort(bench.job, 1);
    }
    barrier();
}

static double collective(const char *row, const struct shape *s)
{
    uint64_t rounds = scaled(plan_collective_rounds(s->bytes)), warm = scaled(20);
    if (s->what >= DEVICE_ALLTOALLV && s->ctas == 1)
        LAUNCH(sized_block, 1, bench.threads, 0, bench.stream, s->what, bench.dst, bench.src,
               s->bytes, counts, warm, rounds, bench.times);
    else if (s->what >= DEVICE_ALLTOALLV)
        LAUNCH(sized_grid, s->ctas, bench.threads, 0, bench.stream, s->what, bench.dst, bench.src,
               s->bytes, counts, warm, rounds, bench.times);
    else if (s->ctas == 1)
        LAUNCH(collective_block, 1, bench.threads, 0, bench.stream, s->what, bench.dst, bench.src,
               s->bytes, warm, rounds, bench.times);
    else
        LAUNCH(collective_grid, s->ctas, bench.threads, 0, bench.stream, s->what, bench.dst,
               bench.src, s->bytes, warm, rounds, bench.times);
    return max_over_pes(kernel_span_ns(row, s->ctas) / (double)rounds / 1e3);
}

/* Measures the host's allreduce, which returns when the result is there. */
static double allreduce_by_host(const char *row, const struct shape *s)
{
    uint64_t rounds = scaled(plan_collective_rounds(s->bytes));
    (void)row;
    double start = now_ns();
    for (uint64_t i = 0; i < rounds; i++)
        CHECK(
            weft_allreduce(bench.world, bench.dst, bench.src, s->bytes / 4, WEFT_FLOAT, WEFT_SUM));
    return max_over_pes((now_ns() - start) / (double)rounds / 1e3);
}

static void collective_row(const char *row, measurement once, const struct shape *s)
{
    int one = reduces(s) && s->what != DEVICE_REDUCESCATTER;
    size_t parts = one ? 1 : (size_t)bench.n_pes;
    if (!is_row_wanted(row) || parts * s->bytes > bench.room)
        return;
    fill(bench.dst, parts * s->bytes, STALE_SEED);
    if (reduces(s))
        LAUNCH(fill_floats, bench.processors, bench.threads, 0, bench.stream, (float *)bench.src,
               parts * s->bytes / 4, bench.me);
    else
        fill(bench.src, parts * s->bytes, FILL_SEED);
    if (s->what == DEVICE_ALLTOALLV)
        LAUNCH(fill_counts, 1, 32, 0, bench.stream, counts, s->bytes, bench.n_pes);
    barrier();
    measure(row, "us", once, s);
    expect_collective(row, s);
}

void collective_rows(void)
{
    static const char *const names[] = {"alltoall",  "allgather", "allreduce", "reducescatter",
                                        "alltoallv", "collect",   "reduce",    "weighted"};
    if (bench.n_pes < 2)
        return;
    void *words;
    CHECK(weft_alloc(bench.job, weft_device_kind(bench.job), 4 * (size_t)bench.n_pes * 8, 256,
                     WEFT_ALLOC_ZERO, &words));
    counts = (uint64_t *)words;
    for (int what = DEVICE_ALLTOALL; what <= DEVICE_WEIGHTED; what++) {
        for (size_t i = 0; i < PLAN_COUNT(plan_collective_bytes); i++) {
            struct shape s = {plan_collective_bytes[i], 1, what};
            collective_row(row_name("%s_block.%zu", names[what], s.bytes), collective, &s);
        }
        for (size_t i = 0; i < PLAN_COUNT(plan_grid_bytes); i++) {
            struct shape s = {plan_grid_bytes[i], bench.on_gpu ? PLAN_GRID_BLOCKS : 2, what};
            collective_row(row_name("%s_grid.%zu", names[what], s.bytes), collective, &s);
        }
    }
    for (size_t i = 0; i < PLAN_COUNT(plan_reduce_bytes); i++) {
        struct shape s = {plan_reduce_bytes[i], 0, DEVICE_ALLREDUCE};
        collective_row(row_name("allreduce_host.%zu", s.bytes), allreduce_by_host, &s);
    }
    CHECK(weft_free(bench.job, words));
}

/* ---------------------------------------------------------------------- stream and host */

static double put_on_stream(const char *row, const struct shape *s)
{
    uint64_t count = s->bytes > (1 << 20) ? 20 : scaled(PLAN_STREAM_OPERATIONS), ns = 0;
    weft_event start, end;
    (void)row;
    if (bench.me != 0)
        return 0;
    CHECK(weft_event_create(&start));
    CHECK(weft_event_create(&end));
    CHECK(weft_event_record(start, bench.stream));
    for (uint64_t i = 0; i < count; i++)
        CHECK(weft_put_on_stream(bench.ctx, bench.dst, bench.src, s->bytes, bench.peer,
                                 bench.stream));
    CHECK(weft_quiet_on_stream(bench.ctx, bench.stream));
    CHECK(weft_event_record(end, bench.stream));
    CHECK(weft_event_synchronize(end));
    CHECK(weft_event_elapsed(start, end, &ns));
    CHECK(weft_event_destroy(end));
    CHECK(weft_event_destroy(start));
    double each = (double)ns / (double)count;
    return s->what ? (double)s->bytes / each : each / 1e3;
}

/* Measures barriers issued back to back at every PE. */
static double barrier_on_stream(const char *row, const struct shape *s)
{
    uint64_t count = scaled(PLAN_STREAM_OPERATIONS), ns = 0;
    weft_event start, end;
    (void)row, (void)s;
    CHECK(weft_event_create(&start));
    CHECK(weft_event_create(&end));
    CHECK(weft_event_record(start, bench.stream));
    for (uint64_t i = 0; i < count; i++)
        CHECK(weft_barrier_on_stream(bench.world, bench.stream));
    CHECK(weft_event_record(end, bench.stream));
    CHECK(weft_event_synchronize(end));
    CHECK(weft_event_elapsed(start, end, &ns));
    CHECK(weft_event_destroy(end));
    CHECK(weft_event_destroy(start));
    return max_over_pes((double)ns / (double)count / 1e3);
}

/* what: 1 = with a quiet after each put. */
static double put_by_host(const char *row, const struct shape *s)
{
    uint64_t count = scaled(PLAN_HOST_OPERATIONS);
    (void)row;
    if (bench.me != 0)
        return 0;
    double start = now_ns();
    for (uint64_t i = 0; i < count; i++) {
        CHECK(weft_put(bench.ctx, bench.dst, bench.src, s->bytes, bench.peer));
        if (s->what)
            CHECK(weft_quiet(bench.ctx));
    }
    double us = (now_ns() - start) / (double)count / 1e3;
    CHECK(weft_quiet(bench.ctx));
    return us;
}

static void host_side_row(const char *row, const char *unit, measurement once,
                          const struct shape *s)
{
    if (!is_row_wanted(row) || s->bytes > bench.room)
        return;
    fill(bench.src, s->bytes, FILL_SEED);
    fill(bench.dst, s->bytes, STALE_SEED);
    barrier();
    measure(row, unit, once, s);
    if (bench.me == (bench.n_pes > 1))
        expect_bytes(row, s->bytes, 0);
    barrier();
}

void stream_and_host_rows(void)
{
    struct shape none = {0, 0, 0};
    if (bench.n_pes > 1)
        measure("barrier_on_stream", "us", barrier_on_stream, &none);
    for (size_t i = 0; i < PLAN_COUNT(plan_stream_bytes); i++) {
        size_t bytes = plan_stream_bytes[i];
        struct shape s = {bytes, 0, bytes > (1 << 20)};
        host_side_row(row_name("put_on_stream.%zu", bytes), s.what ? "GB/s" : "us", put_on_stream,
                      &s);
    }
    for (int quiet = 0; quiet < 2; quiet++) {
        struct shape small = {8, 0, quiet}, large = {524288, 0, quiet};
        host_side_row(quiet ? "put_quiet_host.8" : "put_host.8", "us", put_by_host, &small);
        host_side_row(quiet ? "put_quiet_host.524288" : "put_host.524288", "us", put_by_host,
                      &large);
    }
}
