/* SPDX-License-Identifier: Apache-2.0 */
/* weft_device_bench: device operations between two PEs, and over all of them, timed inside kernels
 * and checked outside the timing; a table with floors and aims.
 *
 *     weft run -n 2 weft_device_bench [--json] [--log FILE] [--only PREFIX]
 *
 * On cuda buffers are GPU memory and the figures are figures of the machine. On simt everything is
 * small, in host memory, and the figures are figures of the stand-in. The kernels are in kernels.c,
 * how often they go round in plan.h, the rows in report.c. */
#include "kernels.h"
#include "plan.h"
#include "report.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weft/stream.h>
#include <weft_device.h>

enum { SIMT_THREADS = 64, SIMT_PROCESSORS = 2, VERIFY_ROUNDS = 50, FILL_SEED = 17, STALE_SEED = 5 };

static struct report report;
static const char *only = "";
static weft_job *job;
static weft_ctx *ctx;
static weft_team *world;
static weft_stream stream;
static int me, n_pes, on_gpu;
static int peer;            /* of PE 0; PE 1's is 0; both 0 when there is one PE */
static unsigned threads;    /* of a block */
static unsigned processors; /* blocks that "all" stands for */
static uint64_t base;       /* number of the last round of any kernel */

/* Symmetric memory of the kind that device code likes. */
static char *src, *dst;
static size_t room; /* of src and of dst */
static uint64_t *flag, *wrong;
static char *chain; /* the words of fetching atomics */
static char *packets;
static struct device_times *times;

/* ------------------------------------------------------------------------------------ faults */

static void give_up(const char *what, weft_status status)
{
    fprintf(stderr, "weft_device_bench: PE %d: %s: %s: %s\n", me, what, weft_status_name(status),
            weft_last_error());
    if (job)
        weft_abort(job, 1);
    exit(1);
}

static void check(weft_status status, const char *call)
{
    if (status)
        give_up(call, status);
}

#define CHECK(call) check((call), #call)
#define LAUNCH(...)                                                                                \
    do {                                                                                           \
        CHECK(WEFT_LAUNCH(__VA_ARGS__));                                                           \
        CHECK(weft_stream_synchronize(stream));                                                    \
    } while (0)

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void barrier(void)
{
    CHECK(weft_barrier(world));
}

/* The greatest of the PEs' values, at every PE. */
static double greatest(double value)
{
    static double *two;
    void *address = two;
    if (!two)
        CHECK(weft_alloc(job, WEFT_HOST, 2 * sizeof *two, 0, 0, &address));
    two = address;
    two[0] = value;
    CHECK(weft_reduce(world, &two[1], &two[0], 1, WEFT_DOUBLE, WEFT_MAX));
    return two[1];
}

/* ----------------------------------------------------------------------------- what was timed */

/* The ns from the first block's start to the last one's end. Ends the job when a block failed or
 * found wrong data. */
static double span_ns(const char *row, unsigned blocks)
{
    static struct device_times seen[4096];
    uint64_t start = UINT64_MAX, end = 0;
    CHECK(weft_get(ctx, seen, times, blocks * sizeof seen[0], me));
    for (unsigned i = 0; i < blocks; i++) {
        if (seen[i].status) {
            weft_status status = weft_device_check(job);
            give_up(row, status ? status : (weft_status)seen[i].status);
        }
        if (seen[i].wrong) {
            fprintf(stderr, "weft_device_bench: PE %d: %s: %llu wrong words\n", me, row,
                    (unsigned long long)seen[i].wrong);
            weft_abort(job, 1);
        }
        start = seen[i].start < start ? seen[i].start : start;
        end = seen[i].end > end ? seen[i].end : end;
    }
    CHECK(weft_device_check(job));
    return (double)(end - start);
}

/* The count of wrong words that checking kernels have made. */
static uint64_t taken_wrong(void)
{
    uint64_t found = 0;
    CHECK(weft_get(ctx, &found, wrong, sizeof found, me));
    return found;
}

static void clear_wrong(void)
{
    uint64_t zero = 0;
    CHECK(weft_put(ctx, wrong, &zero, sizeof zero, me));
    CHECK(weft_quiet(ctx));
}

/* A measurement returns its figure at this PE, or 0 at a PE that does not measure. */
struct shape {
    size_t bytes;
    unsigned ctas;
    int what;
};
typedef double (*measurement)(const char *row, const struct shape *shape);

static int wanted(const char *row)
{
    return strncmp(row, only, strlen(only)) == 0;
}

/* Runs a measurement at all PEs together: once to warm up, then as often as the median needs. */
static void measure(const char *row, const char *unit, measurement once, const struct shape *shape)
{
    double values[PLAN_REPEATS];
    int repeats = on_gpu ? PLAN_REPEATS : 1;
    if (!wanted(row))
        return;
    for (int i = on_gpu ? -1 : 0; i < repeats; i++) {
        barrier();
        double value = once(row, shape);
        barrier();
        if (i >= 0)
            values[i] = value;
    }
    if (me == 0)
        report_row(&report, row, unit, values, repeats);
}

static uint64_t scaled(uint64_t count)
{
    return on_gpu ? count : count < 20 ? count : 20;
}

/* --------------------------------------------------------------------------------- ping-pong */

enum ping { PING_P, PING_SIGNAL, PING_PACKET };

static void launch_ping(const struct shape *s, uint64_t warm, uint64_t rounds, int verify)
{
    uint64_t *to = (uint64_t *)dst, *from = (uint64_t *)src, last = base;
    base += warm + rounds; /* alike at every PE */
    if (me > 1)
        return;
    if (s->what == PING_P)
        LAUNCH(ping_p, 1, 1, 0, stream, flag, me == 0, peer, last, warm, rounds, times);
    else if (s->what == PING_SIGNAL)
        LAUNCH(ping_signal_block, 1, threads, 0, stream, to, from, s->bytes, flag, me == 0, peer,
               last, warm, rounds, verify, times);
    else
        LAUNCH(ping_packet_block, 1, plan_packet_threads(s->bytes, threads), 0, stream, to, from,
               s->bytes, packets, me == 0, peer, last, warm, rounds, verify, times);
}

static double ping(const char *row, const struct shape *s)
{
    uint64_t rounds = scaled(PLAN_PING_ROUNDS);
    launch_ping(s, scaled(PLAN_PING_WARM), rounds, 0);
    return me > 1 ? 0 : span_ns(row, 1) / (double)rounds / 2e3;
}

/* Messages that differ in each round, each word compared. */
static void verify_ping(const char *row, const struct shape *s)
{
    if (!wanted(row))
        return;
    barrier();
    launch_ping(s, 0, scaled(VERIFY_ROUNDS), 1);
    if (me <= 1)
        span_ns(row, 1);
    barrier();
}

static void pings(void)
{
    struct shape s = {8, 1, PING_P};
    if (n_pes < 2)
        return;
    measure("p_wait", "us", ping, &s);
    s.what = PING_SIGNAL;
    for (size_t i = 0; i < PLAN_COUNT(plan_signal_bytes); i++) {
        s.bytes = plan_signal_bytes[i];
        const char *row = row_name("put_signal.%zu", s.bytes);
        verify_ping(row, &s);
        measure(row, "us", ping, &s);
    }
    s.what = PING_PACKET;
    for (size_t i = 0; i < PLAN_COUNT(plan_packet_bytes); i++) {
        s.bytes = plan_packet_bytes[i];
        const char *row = row_name("packet.%zu", s.bytes);
        verify_ping(row, &s);
        measure(row, "us", ping, &s);
    }
}

/* ----------------------------------------------------------------------------------- block put */

enum put { PUT_PAIR, PUT_MISALIGNED, PUT_TO_ALL };

static unsigned blocks_of(const struct shape *s)
{
    return s->ctas ? s->ctas : processors;
}

/* Bytes that all blocks of a put row write. */
static size_t extent(const struct shape *s)
{
    return blocks_of(s) * plan_slots(s->bytes) * s->bytes;
}

static void fill(void *words, size_t bytes, uint64_t seed)
{
    LAUNCH(fill_words, processors, threads, 0, stream, (uint64_t *)words, bytes / 8, seed);
}

/* Ends the job unless the own dst holds what the putter's src did, `shift` bytes on. */
static void expect(const char *row, size_t bytes, size_t shift)
{
    clear_wrong();
    LAUNCH(check_bytes, processors, threads, 0, stream, dst, bytes, shift, (uint64_t)FILL_SEED,
           wrong);
    uint64_t found = taken_wrong();
    if (found) {
        fprintf(stderr, "weft_device_bench: PE %d: %s: %llu of %zu bytes are wrong\n", me, row,
                (unsigned long long)found, bytes);
        weft_abort(job, 1);
    }
}

static double put(const char *row, const struct shape *s)
{
    unsigned ctas = blocks_of(s);
    uint64_t rounds = on_gpu ? plan_put_rounds(ctas, s->bytes) : 2 * plan_slots(s->bytes);
    if (me != 0 && s->what != PUT_TO_ALL)
        return 0;
    LAUNCH(put_rate_block, ctas, threads, 0, stream, dst, src + (s->what == PUT_MISALIGNED),
           s->bytes, plan_slots(s->bytes), s->what == PUT_TO_ALL ? -1 : peer, rounds, times);
    return (double)ctas * (double)s->bytes * (double)rounds / span_ns(row, ctas);
}

static double put_to_all(const char *row, const struct shape *s)
{
    return -greatest(-put(row, s)); /* of the slowest PE */
}

static void put_row(const char *row, measurement once, const struct shape *s)
{
    size_t bytes = extent(s);
    int receives = s->what == PUT_TO_ALL || me == (n_pes > 1);
    if (!wanted(row) || bytes + 8 > room)
        return;
    fill(src, bytes + 8, FILL_SEED);
    fill(dst, bytes, STALE_SEED);
    barrier();
    measure(row, "GB/s", once, s);
    if (receives)
        expect(row, bytes, s->what == PUT_MISALIGNED);
    barrier();
}

static const char *ctas_name(unsigned ctas)
{
    return ctas ? row_name("%u", ctas) : "all";
}

static void puts_of(size_t least, size_t most)
{
    for (size_t c = 0; c < PLAN_COUNT(plan_ctas); c++) {
        for (size_t i = 0; i < PLAN_COUNT(plan_put_bytes); i++) {
            struct shape s = {plan_put_bytes[i], plan_ctas[c], PUT_PAIR};
            if (s.bytes >= least && s.bytes <= most)
                put_row(row_name("put.%s.%zu", ctas_name(s.ctas), s.bytes), put, &s);
        }
    }
}

/* 1 MiB from and to addresses that are 1 byte apart in their line, beside the aligned figure. */
static double aligned_gbps;

static double misaligned_ratio(const char *row, const struct shape *s)
{
    struct shape even = *s;
    even.what = PUT_PAIR;
    aligned_gbps = put(row, &even);
    double odd = put(row, s);
    return aligned_gbps > 0 ? odd / aligned_gbps : 0;
}

static void misaligned(void)
{
    static const unsigned ctas[] = {1, 16};
    for (size_t c = 0; c < PLAN_COUNT(ctas); c++) {
        struct shape s = {on_gpu ? 1048576 : 32768, ctas[c], PUT_MISALIGNED};
        if (!on_gpu && s.ctas > processors)
            continue;
        const char *row = row_name("misaligned_ratio.%u", s.ctas);
        if (!wanted(row))
            continue;
        put_row(row_name("misaligned.%u.%zu", s.ctas, s.bytes), put, &s);
        fill(src, extent(&s) + 8, FILL_SEED);
        measure(row, "ratio", misaligned_ratio, &s);
    }
}

/* --------------------------------------------------------------------- single values, atomics */

static unsigned word_bits(unsigned bits)
{
    return on_gpu ? bits : 9;
}

static double p_rate_of(const char *row, const struct shape *s)
{
    unsigned ctas = blocks_of(s), bits = word_bits(PLAN_WORD_BITS);
    uint64_t all = (uint64_t)ctas * threads;
    uint64_t rounds = on_gpu ? plan_value_rounds(bits, all) : ((1u << bits) + all - 1) / all;
    if (me != 0)
        return 0;
    LAUNCH(p_rate, ctas, threads, 0, stream, (uint64_t *)dst, bits, s->what, peer, rounds, times);
    return (double)all * (double)rounds / span_ns(row, ctas);
}

static void p_row(const char *row, const struct shape *s)
{
    size_t words = (size_t)1 << word_bits(PLAN_WORD_BITS);
    if (!wanted(row))
        return;
    fill(dst, words * 8, STALE_SEED);
    measure(row, "G/s", p_rate_of, s);
    if (me != (n_pes > 1))
        return;
    clear_wrong();
    LAUNCH(check_words, processors, threads, 0, stream, (uint64_t *)dst, words, (uint64_t)0, wrong);
    uint64_t found = taken_wrong();
    if (found) {
        fprintf(stderr, "weft_device_bench: %s: %llu wrong words\n", row,
                (unsigned long long)found);
        weft_abort(job, 1);
    }
}

static double fetch_add(const char *row, const struct shape *s)
{
    uint64_t rounds = scaled(PLAN_CHAIN_ROUNDS);
    double ns = 0;
    (void)s;
    for (int place = 0; me == 0 && place < PLAN_CHAIN_PLACES; place++) {
        uint64_t *word = (uint64_t *)(chain + (size_t)place * PLAN_CHAIN_STEP);
        LAUNCH(atomic_latency, 1, 1, 0, stream, word, (int)DEVICE_ATOMIC_FETCH_ADD, peer, rounds,
               times);
        ns += span_ns(row, 1) / (double)rounds;
    }
    return ns / PLAN_CHAIN_PLACES / 1e3;
}

static uint64_t added; /* by all launches of add_rate, at PE 0 */

static double add_rate(const char *row, const struct shape *s)
{
    unsigned ctas = blocks_of(s), bits = word_bits(PLAN_ADD_BITS);
    uint64_t all = (uint64_t)ctas * threads;
    uint64_t rounds = on_gpu ? plan_value_rounds(bits, all) : ((1u << bits) + all - 1) / all;
    if (me != 0)
        return 0;
    LAUNCH(atomic_rate, ctas, threads, 0, stream, (uint64_t *)dst, bits, peer, rounds, times);
    added += all * rounds;
    return (double)all * (double)rounds / span_ns(row, ctas);
}

/* The receiver's sum, told to PE 0. */
static uint64_t sum_of_words(size_t words)
{
    uint64_t sum = 0, *copy = malloc(words * 8);
    if (!copy)
        give_up("malloc", WEFT_ERR_NO_MEMORY);
    CHECK(weft_get(ctx, copy, dst, words * 8, peer));
    for (size_t i = 0; i < words; i++)
        sum += copy[i];
    free(copy);
    return sum;
}

static void add_row(void)
{
    size_t words = (size_t)1 << word_bits(PLAN_ADD_BITS);
    struct shape s = {8, 0, 0};
    if (!wanted("add_rate.all"))
        return;
    void *zero = calloc(words, 8);
    if (!zero)
        give_up("calloc", WEFT_ERR_NO_MEMORY);
    CHECK(weft_put(ctx, dst, zero, words * 8, me));
    free(zero);
    barrier();
    measure("add_rate.all", "G/s", add_rate, &s);
    if (me == 0 && sum_of_words(words) != added) {
        fprintf(stderr, "weft_device_bench: add_rate: the sum is wrong: additions were lost\n");
        weft_abort(job, 1);
    }
    barrier();
}

static void values_and_atomics(void)
{
    static const unsigned ctas[] = {1, 8, 0};
    struct shape s = {8, 0, 0};
    for (s.what = 0; s.what < 2; s.what++) {
        for (size_t c = 0; c < PLAN_COUNT(ctas); c++) {
            s.ctas = ctas[c];
            if (on_gpu || blocks_of(&s) <= processors)
                p_row(row_name("%s.%s", s.what ? "p_scattered" : "p_contiguous", ctas_name(s.ctas)),
                      &s);
        }
    }
    measure("fetch_add", "us", fetch_add, &s);
    add_row();
}

/* ------------------------------------------------------------------------------- meetings */

static double meet(const char *row, const struct shape *s)
{
    uint64_t rounds = scaled(PLAN_PING_ROUNDS), warm = scaled(PLAN_PING_WARM);
    if (s->ctas == 32)
        LAUNCH(meet_warp, 1, 32, 0, stream, s->what, warm, rounds, times);
    else
        LAUNCH(meet_block, 1, threads, 0, stream, s->what, warm, rounds, times);
    return greatest(span_ns(row, 1) / (double)rounds / 1e3);
}

static void meetings(void)
{
    static const char *const names[] = {"meet", "sync", "barrier"};
    if (n_pes < 2)
        return;
    for (int what = 0; what < 3; what++) {
        struct shape block = {0, 1, what}, warp = {0, 32, what};
        measure(row_name("%s_block", names[what]), "us", meet, &block);
        measure(row_name("%s_warp", names[what]), "us", meet, &warp);
    }
    for (int what = 1; what < 3 && wanted(names[what]); what++) {
        barrier();
        LAUNCH(check_meet_block, 1, threads, 0, stream, what, flag + 64, base, scaled(200), times);
        base += scaled(200);
        span_ns(names[what], 1);
    }
    barrier();
}

/* ------------------------------------------------------------------------------ collectives */

static int reduces(const struct shape *s)
{
    return s->what == DEVICE_REDUCE || s->what == DEVICE_REDUCESCATTER;
}

/* Ends the job unless dst holds what the collective makes of everybody's src. */
static void expect_collective(const char *row, const struct shape *s)
{
    uint64_t *words = (uint64_t *)dst;
    size_t n = s->bytes / 8, from = s->what == DEVICE_ALLTOALL ? (size_t)me * n : 0;
    clear_wrong();
    if (reduces(s))
        LAUNCH(check_floats, processors, threads, 0, stream, (float *)dst, s->bytes / 4,
               s->what == DEVICE_REDUCE ? 0 : (size_t)me * (s->bytes / 4), n_pes, wrong);
    for (int pe = 0; !reduces(s) && pe < n_pes; pe++)
        LAUNCH(check_words, processors, threads, 0, stream, words + (size_t)pe * n, n,
               from + FILL_SEED, wrong);
    uint64_t found = taken_wrong();
    if (found) {
        fprintf(stderr, "weft_device_bench: PE %d: %s: %llu wrong elements\n", me, row,
                (unsigned long long)found);
        weft_abort(job, 1);
    }
    barrier();
}

static double collective(const char *row, const struct shape *s)
{
    uint64_t rounds = scaled(plan_collective_rounds(s->bytes)), warm = scaled(20);
    if (s->ctas == 1)
        LAUNCH(collective_block, 1, threads, 0, stream, s->what, dst, src, s->bytes, warm, rounds,
               times);
    else
        LAUNCH(collective_grid, s->ctas, threads, 0, stream, s->what, dst, src, s->bytes, warm,
               rounds, times);
    return greatest(span_ns(row, s->ctas) / (double)rounds / 1e3);
}

/* The host's reduce, which returns when the result is there. */
static double reduce_by_host(const char *row, const struct shape *s)
{
    uint64_t rounds = scaled(plan_collective_rounds(s->bytes));
    (void)row;
    double start = now_ns();
    for (uint64_t i = 0; i < rounds; i++)
        CHECK(weft_reduce(world, dst, src, s->bytes / 4, WEFT_FLOAT, WEFT_SUM));
    return greatest((now_ns() - start) / (double)rounds / 1e3);
}

static void collective_row(const char *row, measurement once, const struct shape *s)
{
    size_t parts = s->what == DEVICE_REDUCE ? 1 : (size_t)n_pes;
    if (!wanted(row) || parts * s->bytes > room)
        return;
    fill(dst, parts * s->bytes, STALE_SEED);
    if (reduces(s))
        LAUNCH(fill_floats, processors, threads, 0, stream, (float *)src, parts * s->bytes / 4, me);
    else
        fill(src, parts * s->bytes, FILL_SEED);
    barrier();
    measure(row, "us", once, s);
    expect_collective(row, s);
}

static void collectives(void)
{
    static const char *const names[] = {"alltoall", "fcollect", "reduce", "reducescatter"};
    if (n_pes < 2)
        return;
    for (int what = DEVICE_ALLTOALL; what <= DEVICE_REDUCESCATTER; what++) {
        for (size_t i = 0; i < PLAN_COUNT(plan_collective_bytes); i++) {
            struct shape s = {plan_collective_bytes[i], 1, what};
            collective_row(row_name("%s_block.%zu", names[what], s.bytes), collective, &s);
        }
        for (size_t i = 0; i < PLAN_COUNT(plan_grid_bytes); i++) {
            struct shape s = {plan_grid_bytes[i], on_gpu ? PLAN_GRID_BLOCKS : 2, what};
            collective_row(row_name("%s_grid.%zu", names[what], s.bytes), collective, &s);
        }
    }
    for (size_t i = 0; i < PLAN_COUNT(plan_reduce_bytes); i++) {
        struct shape s = {plan_reduce_bytes[i], 0, DEVICE_REDUCE};
        collective_row(row_name("reduce_host.%zu", s.bytes), reduce_by_host, &s);
    }
}

/* ---------------------------------------------------------------------- stream and host */

static double put_on_stream(const char *row, const struct shape *s)
{
    uint64_t count = s->bytes > (1 << 20) ? 20 : scaled(PLAN_STREAM_OPERATIONS), ns = 0;
    weft_event start, end;
    (void)row;
    if (me != 0)
        return 0;
    CHECK(weft_event_create(&start));
    CHECK(weft_event_create(&end));
    CHECK(weft_event_record(start, stream));
    for (uint64_t i = 0; i < count; i++)
        CHECK(weft_put_on_stream(ctx, dst, src, s->bytes, peer, stream));
    CHECK(weft_quiet_on_stream(ctx, stream));
    CHECK(weft_event_record(end, stream));
    CHECK(weft_event_synchronize(end));
    CHECK(weft_event_elapsed(start, end, &ns));
    CHECK(weft_event_destroy(end));
    CHECK(weft_event_destroy(start));
    double each = (double)ns / (double)count;
    return s->what ? (double)s->bytes / each : each / 1e3;
}

/* Back to back at every PE. */
static double barrier_on_stream(const char *row, const struct shape *s)
{
    uint64_t count = scaled(PLAN_STREAM_OPERATIONS), ns = 0;
    weft_event start, end;
    (void)row, (void)s;
    CHECK(weft_event_create(&start));
    CHECK(weft_event_create(&end));
    CHECK(weft_event_record(start, stream));
    for (uint64_t i = 0; i < count; i++)
        CHECK(weft_barrier_on_stream(world, stream));
    CHECK(weft_event_record(end, stream));
    CHECK(weft_event_synchronize(end));
    CHECK(weft_event_elapsed(start, end, &ns));
    CHECK(weft_event_destroy(end));
    CHECK(weft_event_destroy(start));
    return greatest((double)ns / (double)count / 1e3);
}

/* what: 1 = with a quiet behind each put. */
static double put_by_host(const char *row, const struct shape *s)
{
    uint64_t count = scaled(PLAN_HOST_OPERATIONS);
    (void)row;
    if (me != 0)
        return 0;
    double start = now_ns();
    for (uint64_t i = 0; i < count; i++) {
        CHECK(weft_put(ctx, dst, src, s->bytes, peer));
        if (s->what)
            CHECK(weft_quiet(ctx));
    }
    double us = (now_ns() - start) / (double)count / 1e3;
    CHECK(weft_quiet(ctx));
    return us;
}

static void host_side_row(const char *row, const char *unit, measurement once,
                          const struct shape *s)
{
    if (!wanted(row) || s->bytes > room)
        return;
    fill(src, s->bytes, FILL_SEED);
    fill(dst, s->bytes, STALE_SEED);
    barrier();
    measure(row, unit, once, s);
    if (me == (n_pes > 1))
        expect(row, s->bytes, 0);
    barrier();
}

static void stream_and_host(void)
{
    struct shape none = {0, 0, 0};
    if (n_pes > 1)
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

/* --------------------------------------------------------------------------------- set-up */

static void *symmetric(size_t bytes)
{
    void *address;
    CHECK(weft_alloc(job, weft_device_kind(job), bytes, 4096, WEFT_ALLOC_ZERO, &address));
    return address;
}

static void set_up(void)
{
    ctx = weft_default_ctx(job);
    world = weft_team_world(job);
    me = weft_my_pe(job);
    n_pes = weft_n_pes(job);
    peer = n_pes > 1 ? me == 0 : 0;
    on_gpu = weft_target_get() == WEFT_CUDA;
    int counted = on_gpu && device_bench_processors ? device_bench_processors() : 0;
    processors = on_gpu ? (counted > 0 ? (unsigned)counted : 132) : SIMT_PROCESSORS;
    processors = (unsigned)greatest(processors);
    threads = on_gpu ? PLAN_THREADS : SIMT_THREADS;
    size_t largest = on_gpu ? plan_put_bytes[PLAN_COUNT(plan_put_bytes) - 1] : 65536;
    room = processors * largest + 4096;
    if (on_gpu && room < plan_stream_bytes[PLAN_COUNT(plan_stream_bytes) - 1])
        room = plan_stream_bytes[PLAN_COUNT(plan_stream_bytes) - 1];
    src = symmetric(room);
    dst = symmetric(room);
    flag = symmetric(4096);
    chain = symmetric(PLAN_CHAIN_PLACES * PLAN_CHAIN_STEP);
    wrong = symmetric(4096);
    packets =
        symmetric(2 * weft_packet_bytes(plan_packet_bytes[PLAN_COUNT(plan_packet_bytes) - 1]));
    times = symmetric(4096 * sizeof *times);
    CHECK(weft_stream_create(&stream));
    report.target = weft_target_name(weft_target_get());
    report.pes = n_pes;
}

static void measure_all(void)
{
    size_t largest = on_gpu ? (size_t)-1 : 32768;
    pings();
    puts_of(0, largest);
    if (n_pes > 2) {
        struct shape s = {on_gpu ? 2097152 : 32768, 0, PUT_TO_ALL};
        put_row(row_name("put_to_all.all.%zu", s.bytes), put_to_all, &s);
    }
    misaligned();
    values_and_atomics();
    meetings();
    collectives();
    stream_and_host();
}

static void usage(int status)
{
    fprintf(status ? stderr : stdout,
            "usage: weft run -n N weft_device_bench [--json] [--log FILE] [--only PREFIX]\n"
            "  --json         print JSON lines instead of the table\n"
            "  --log FILE     also append JSON lines to FILE\n"
            "  --only PREFIX  rows whose name begins so\n");
    exit(status);
}

static void parse(int argc, char **argv)
{
    static const struct option options[] = {{"json", no_argument, NULL, 'j'},
                                            {"log", required_argument, NULL, 'l'},
                                            {"only", required_argument, NULL, 'o'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    report.side = "weft";
    for (int c; (c = getopt_long(argc, argv, "jl:o:h", options, NULL)) != -1;) {
        if (c == 'j')
            report.json = 1;
        else if (c == 'l')
            report.log = optarg;
        else if (c == 'o')
            only = optarg;
        else
            usage(c == 'h' ? 0 : 2);
    }
    if (optind < argc)
        usage(2);
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    double start = now_ns();
    CHECK(weft_init(&job, NULL));
    CHECK(weft_device_start(job));
    double init = (now_ns() - start) / 1e9;
    start = now_ns();
    set_up();
    double memory = (now_ns() - start) / 1e9;
    init = greatest(init);
    memory = greatest(memory);
    if (me == 0) {
        report_begin(&report, !on_gpu      ? "Figures of the stand-in, not of a GPU."
                              : n_pes == 1 ? "One PE: figures of a GPU's own memory."
                                           : "GPU memory on both sides; PE 0 acts on PE 1.");
        report_row(&report, "init", "s", &init, 1);
        report_row(&report, "memory", "s", &memory, 1);
    }
    measure_all();
    CHECK(weft_stream_destroy(stream));
    barrier();
    start = now_ns();
    weft_status status = weft_finalize(job);
    job = NULL;
    double finalize = (now_ns() - start) / 1e9;
    if (me == 0)
        report_row(&report, "finalize", "s", &finalize, 1);
    CHECK(status);
    return 0;
}
