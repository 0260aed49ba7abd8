/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of weft_device_bench from one PE to another: ping-pong, puts of blocks, single values,
 * atomics. */
#include "device_rows.h"

/* --------------------------------------------------------------------------------- ping-pong */

enum ping { PING_P, PING_SIGNAL, PING_PACKET };

static void launch_ping(const struct shape *s, uint64_t warm, uint64_t rounds, int verify)
{
    uint64_t *to = (uint64_t *)bench.dst, *from = (uint64_t *)bench.src, last = bench.base;
    bench.base += warm + rounds; /* the same at every PE */
    if (bench.me > 1)
        return;
    if (s->what == PING_P)
        LAUNCH(ping_p, 1, 1, 0, bench.stream, bench.flag, bench.me == 0, bench.peer, last, warm,
               rounds, bench.times);
    else if (s->what == PING_SIGNAL)
        LAUNCH(ping_signal_block, 1, bench.threads, 0, bench.stream, to, from, s->bytes, bench.flag,
               bench.me == 0, bench.peer, last, warm, rounds, verify, bench.times);
    else
        LAUNCH(ping_packet_block, 1, plan_packet_threads(s->bytes, bench.threads), 0, bench.stream,
               to, from, s->bytes, bench.packets, bench.me == 0, bench.peer, last, warm, rounds,
               verify, bench.times);
}

static double ping(const char *row, const struct shape *s)
{
    uint64_t rounds = scaled(PLAN_PING_ROUNDS);
    launch_ping(s, scaled(PLAN_PING_WARM), rounds, 0);
    return bench.me > 1 ? 0 : kernel_span_ns(row, 1) / (double)rounds / 2e3;
}

/* Sends messages that differ in each round and compares each word. */
static void verify_ping(const char *row, const struct shape *s)
{
    if (!is_row_wanted(row))
        return;
    barrier();
    launch_ping(s, 0, scaled(VERIFY_ROUNDS), 1);
    if (bench.me <= 1)
        kernel_span_ns(row, 1);
    barrier();
}

void ping_rows(void)
{
    struct shape s = {8, 1, PING_P};
    if (bench.n_pes < 2)
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

/* Returns the bytes that all blocks of a put row write. */
static size_t put_bytes(const struct shape *s)
{
    return blocks_of(s) * plan_slots(s->bytes) * s->bytes;
}

static double put(const char *row, const struct shape *s)
{
    unsigned ctas = blocks_of(s);
    uint64_t rounds = bench.on_gpu ? plan_put_rounds(ctas, s->bytes) : 2 * plan_slots(s->bytes);
    if (bench.me != 0 && s->what != PUT_TO_ALL)
        return 0;
    LAUNCH(put_rate_block, ctas, bench.threads, 0, bench.stream, bench.dst,
           bench.src + (s->what == PUT_MISALIGNED), s->bytes, plan_slots(s->bytes),
           s->what == PUT_TO_ALL ? -1 : bench.peer, rounds, bench.times);
    return (double)ctas * (double)s->bytes * (double)rounds / kernel_span_ns(row, ctas);
}

static double put_to_all(const char *row, const struct shape *s)
{
    return -max_over_pes(-put(row, s)); /* bandwidth of the slowest PE */
}

static void put_row(const char *row, measurement once, const struct shape *s)
{
    size_t bytes = put_bytes(s);
    int receives = s->what == PUT_TO_ALL || bench.me == (bench.n_pes > 1);
    if (!is_row_wanted(row) || bytes + 8 > bench.room)
        return;
    fill(bench.src, bytes + 8, FILL_SEED);
    fill(bench.dst, bytes, STALE_SEED);
    barrier();
    measure(row, "GB/s", once, s);
    if (receives)
        expect_bytes(row, bytes, s->what == PUT_MISALIGNED);
    barrier();
}

void put_rows_of(size_t least, size_t most)
{
    for (size_t c = 0; c < PLAN_COUNT(plan_ctas); c++) {
        for (size_t i = 0; i < PLAN_COUNT(plan_put_bytes); i++) {
            struct shape s = {plan_put_bytes[i], plan_ctas[c], PUT_PAIR};
            if (s.bytes >= least && s.bytes <= most)
                put_row(row_name("put.%s.%zu", ctas_name(s.ctas), s.bytes), put, &s);
        }
    }
}

void put_to_all_rows(void)
{
    struct shape s = {bench.on_gpu ? 2097152 : 32768, 0, PUT_TO_ALL};
    if (bench.n_pes > 2)
        put_row(row_name("put_to_all.all.%zu", s.bytes), put_to_all, &s);
}

/* Measures 1 MiB between addresses that differ by 1 byte modulo the line size, compared with the
 * aligned figure. */
static double aligned_gbps;

static double misaligned_ratio(const char *row, const struct shape *s)
{
    struct shape even = *s;
    even.what = PUT_PAIR;
    aligned_gbps = put(row, &even);
    double odd = put(row, s);
    return aligned_gbps > 0 ? odd / aligned_gbps : 0;
}

void misaligned_rows(void)
{
    static const unsigned ctas[] = {1, 16};
    for (size_t c = 0; c < PLAN_COUNT(ctas); c++) {
        struct shape s = {bench.on_gpu ? 1048576 : 32768, ctas[c], PUT_MISALIGNED};
        if (!bench.on_gpu && s.ctas > bench.processors)
            continue;
        const char *row = row_name("misaligned_ratio.%u", s.ctas);
        if (!is_row_wanted(row))
            continue;
        put_row(row_name("misaligned.%u.%zu", s.ctas, s.bytes), put, &s);
        fill(bench.src, put_bytes(&s) + 8, FILL_SEED);
        measure(row, "ratio", misaligned_ratio, &s);
    }
}

/* --------------------------------------------------------------------- single values, atomics */

static unsigned word_bits(unsigned bits)
{
    return bench.on_gpu ? bits : 9;
}

static double p_rate_of(const char *row, const struct shape *s)
{
    unsigned ctas = blocks_of(s), bits = word_bits(PLAN_WORD_BITS);
    uint64_t all = (uint64_t)ctas * bench.threads;
    uint64_t rounds = bench.on_gpu ? plan_value_rounds(bits, all) : ((1u << bits) + all - 1) / all;
    if (bench.me != 0)
        return 0;
    LAUNCH(p_rate, ctas, bench.threads, 0, bench.stream, (uint64_t *)bench.dst, bits, s->what,
           bench.peer, rounds, bench.times);
    return (double)all * (double)rounds / kernel_span_ns(row, ctas);
}

static void p_row(const char *row, const struct shape *s)
{
    size_t words = (size_t)1 << word_bits(PLAN_WORD_BITS);
    if (!is_row_wanted(row))
        return;
    fill(bench.dst, words * 8, STALE_SEED);
    measure(row, "G/s", p_rate_of, s);
    if (bench.me != (bench.n_pes > 1))
        return;
    clear_wrong();
    LAUNCH(check_words, bench.processors, bench.threads, 0, bench.stream, (uint64_t *)bench.dst,
           words, (uint64_t)0, bench.wrong);
    uint64_t found = count_wrong_words();
    if (found) {
        fprintf(stderr, "weft_device_bench: %s: %llu wrong words\n", row,
                (unsigned long long)found);
        weft_abort(bench.job, 1);
    }
}

static double fetch_add(const char *row, const struct shape *s)
{
    uint64_t rounds = scaled(PLAN_CHAIN_ROUNDS);
    double ns = 0;
    (void)s;
    for (int place = 0; bench.me == 0 && place < PLAN_CHAIN_PLACES; place++) {
        uint64_t *word = (uint64_t *)(bench.chain + (size_t)place * PLAN_CHAIN_STEP);
        LAUNCH(atomic_latency, 1, 1, 0, bench.stream, word, (int)DEVICE_ATOMIC_FETCH_ADD,
               bench.peer, rounds, bench.times);
        ns += kernel_span_ns(row, 1) / (double)rounds;
    }
    return ns / PLAN_CHAIN_PLACES / 1e3;
}

static uint64_t added; /* added by all launches of add_rate, at PE 0 */

static double add_rate(const char *row, const struct shape *s)
{
    unsigned ctas = blocks_of(s), bits = word_bits(PLAN_ADD_BITS);
    uint64_t all = (uint64_t)ctas * bench.threads;
    uint64_t rounds = bench.on_gpu ? plan_value_rounds(bits, all) : ((1u << bits) + all - 1) / all;
    if (bench.me != 0)
        return 0;
    LAUNCH(atomic_rate, ctas, bench.threads, 0, bench.stream, (uint64_t *)bench.dst, bits,
           bench.peer, rounds, bench.times);
    added += all * rounds;
    return (double)all * (double)rounds / kernel_span_ns(row, ctas);
}

/* Returns the receiver's sum at PE 0. */
static uint64_t sum_of_words(size_t words)
{
    uint64_t sum = 0, *copy = malloc(words * 8);
    if (!copy)
        fail_job("malloc", WEFT_ERR_NO_MEMORY);
    CHECK(weft_get(bench.ctx, copy, bench.dst, words * 8, bench.peer));
    for (size_t i = 0; i < words; i++)
        sum += copy[i];
    free(copy);
    return sum;
}

static void add_row(void)
{
    size_t words = (size_t)1 << word_bits(PLAN_ADD_BITS);
    struct shape s = {8, 0, 0};
    if (!is_row_wanted("add_rate.all"))
        return;
    void *zero = calloc(words, 8);
    if (!zero)
        fail_job("calloc", WEFT_ERR_NO_MEMORY);
    CHECK(weft_put(bench.ctx, bench.dst, zero, words * 8, bench.me));
    free(zero);
    barrier();
    measure("add_rate.all", "G/s", add_rate, &s);
    if (bench.me == 0 && sum_of_words(words) != added) {
        fprintf(stderr, "weft_device_bench: add_rate: the sum is wrong: additions were lost\n");
        weft_abort(bench.job, 1);
    }
    barrier();
}

void value_and_atomic_rows(void)
{
    static const unsigned ctas[] = {1, 8, 0};
    struct shape s = {8, 0, 0};
    for (s.what = 0; s.what < 2; s.what++) {
        for (size_t c = 0; c < PLAN_COUNT(ctas); c++) {
            s.ctas = ctas[c];
            if (bench.on_gpu || blocks_of(&s) <= bench.processors)
                p_row(row_name("%s.%s", s.what ? "p_scattered" : "p_contiguous", ctas_name(s.ctas)),
                      &s);
        }
    }
    measure("fetch_add", "us", fetch_add, &s);
    add_row();
}
