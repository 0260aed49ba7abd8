/* SPDX-License-Identifier: Apache-2.0 */
/* The host benchmarks (cli/bench): the sequence of library calls of each, which results its check
 * accepts, and what it computes from the times. The library and the clock are mocks. */
#include "bench_calls.h"

/* --------------------------------------------------------------------------- put, get, p, g */

static void puts_and_gets_are_timed(void **state)
{
    static const run_function all[] = {host_put_run, host_get_run, host_p_run, host_g_run};
    made_bench(2, 4, 1, 2); /* not the PE that acts */
    for (int i = 0; i < 4; i++)
        expect_run(all[i], 5, "");
    made_bench(1, 4, 1, 2);
    expect_run(host_put_run, 15,
               "put 24 from src to dst of 2\nput 24 from src to dst of 2\n"
               "put 24 from src to dst of 2\nquiet\n");
    expect_run(host_get_run, 15,
               "get 24 from src of 2 to dst\nget 24 from src of 2 to dst\n"
               "get 24 from src of 2 to dst\n");
    expect_run(host_p_run, 15, "p 0 at dst of 2\np 1 at dst+8 of 2\np 2 at dst+16 of 2\nquiet\n");
    expect_run(host_g_run, 15, "g src of 2\ng src+8 of 2\ng src+16 of 2\n");
    double ns = 0;
    host_p_run(&bench, &kase, 514, &ns); /* wraps around a window of 512 words */
    expect_begin_and_end("p 0 at dst of 2\n",
                         "p 1ff at dst+4088 of 2\np 200 at dst of 2\n"
                         "p 201 at dst+8 of 2\nquiet\n",
                         515);
    host_g_run(&bench, &kase, 514, &ns);
    expect_begin_and_end("g src of 2\n", "g src+4088 of 2\ng src of 2\ng src+8 of 2\n", 514);
}

static void puts_are_checked(void **state)
{
    made_bench(1, 4, 1, 2);
    assert_true(checked(host_put_check));
    assert_true(bench_holds(src_area, 24, 2));
    assert_true(bench_holds(dst_area, 24, 1000)); /* its own destination is unchanged */
    expect_log("barrier\nput 24 from src to dst of 2\nbarrier\n");
    expect_check_fails(host_put_check, 3);
    made_bench(2, 4, 1, 2);
    assert_false(checked(host_put_check)); /* no data has arrived */
    expect_log("barrier\nbarrier\n");
    made_bench(2, 4, 2, 2);
    assert_true(checked(host_put_check));
    made_bench(3, 4, 1, 2);
    assert_true(checked(host_put_check));
    expect_log("barrier\nbarrier\n");
}

static int planted; /* PE whose contents gets return */

static void get_pattern(void *to, const void *from, size_t bytes, int pe)
{
    ptrdiff_t at = (const char *)from - src_area;
    uint64_t *words = to;
    for (size_t i = 0; i < bytes / 8; i++)
        words[i] = bench_word(1 + (uint64_t)planted, (uint64_t)at / 8 + i);
}

static void gets_are_checked(void **state)
{
    made_bench(1, 4, 1, 2);
    on_get = get_pattern;
    planted = 2;
    assert_true(checked(host_get_check));
    expect_log("barrier\nget 24 from src of 2 to dst\n");
    assert_true(checked(host_g_check));
    expect_begin_and_end("barrier\ng src of 2\ng src+8 of 2\n", "g src+4088 of 2\n", 513);
    expect_check_fails(host_g_check, 5);
    expect_check_fails(host_get_check, 2);
    planted = 3;
    assert_false(checked(host_get_check));
    assert_false(checked(host_g_check));
    assert_true(bench_holds(src_area, 4096, 2)); /* source for the other PEs */
    made_bench(2, 4, 1, 2);
    assert_true(checked(host_get_check));
    expect_log("barrier\n");
    assert_true(checked(host_g_check));
    expect_log("barrier\n");
}

static void words_are_checked(void **state)
{
    char expected[80];
    made_bench(1, 4, 1, 2);
    assert_true(checked(host_p_check));
    snprintf(expected, sizeof expected, "barrier\np %llx at dst of 2\n",
             (unsigned long long)bench_word(7, 0));
    expect_begin_and_end(expected, "barrier\n", 514);
    expect_check_fails(host_p_check, 4);
    made_bench(2, 4, 2, 2);
    assert_true(checked(host_p_check));
    assert_true(bench_holds(dst_area, 4096, 7));
    made_bench(2, 4, 1, 2);
    assert_false(checked(host_p_check));
    expect_log("barrier\nbarrier\n");
}

/* ------------------------------------------------------------------------------------ latency */

static void come(const void *flag, uint64_t value)
{
    memcpy((void *)(uintptr_t)flag, &value, 8);
}

static void come_wrong(const void *flag, uint64_t value)
{
    value += value == 50; /* one value is wrong */
    memcpy((void *)(uintptr_t)flag, &value, 8);
}

static void words_go_there_and_back(void **state)
{
    made_bench(1, 4, 1, 2);
    expect_run(host_latency_run, 10,
               "put 4 at flags of 2\nwait for = 4 in flags+128\nput 5 at flags of 2\n"
               "wait for = 5 in flags+128\nput 6 at flags of 2\nwait for = 6 in flags+128\n");
    assert_int_equal(bench.rounds, 6);
    made_bench(2, 4, 1, 2);
    expect_run(host_latency_run, 5,
               "wait for = 4 in flags\nput 4 at flags+128 of 1\nwait for = 5 in flags\n"
               "put 5 at flags+128 of 1\nwait for = 6 in flags\nput 6 at flags+128 of 1\n");
    made_bench(3, 4, 1, 2);
    expect_run(host_latency_run, 5, "");
    assert_int_equal(bench.rounds, 6);
    made_bench(1, 4, 1, 1);
    double ns = 0;
    host_latency_run(&bench, &kase, 1, &ns);
    expect_log("put 4 at flags of 1\nwait for = 4 in flags\nput 4 at flags+128 of 1\n"
               "wait for = 4 in flags+128\n");

    made_bench(1, 4, 1, 2);
    on_wait = come;
    assert_true(checked(host_latency_check));
    assert_int_equal(bench.rounds, 103);
    expect_begin_and_end("barrier\nput 4 at flags of 2\nwait for = 4 in flags+128\n",
                         "put 103 at flags of 2\nwait for = 103 in flags+128\nbarrier\n", 202);
    expect_check_fails(host_latency_check, 5);
    made_bench(2, 4, 1, 2);
    on_wait = come;
    assert_true(checked(host_latency_check));
    expect_begin_and_end("barrier\nwait for = 4 in flags\nput 4 at flags+128 of 1\n",
                         "put 103 at flags+128 of 1\nbarrier\n", 202);
    expect_check_fails(host_latency_check, 5);
    made_bench(3, 4, 1, 2);
    assert_true(checked(host_latency_check));
    expect_log("barrier\nbarrier\n");
    for (int me = 1; me < 3; me++) {
        made_bench(me, 4, 1, 2);
        on_wait = come_wrong;
        assert_false(checked(host_latency_check));
    }
}

static uint64_t data_odd; /* 1: the answer has wrong contents */

static void data_comes(const void *flag, uint64_t value)
{
    bench_fill(dst_area, 24, 2 * value + data_odd);
}

static void data_goes_there_and_back(void **state)
{
    made_bench(1, 4, 1, 2);
    expect_run(host_latency_signal_run, 10,
               "put 24 from src to dst, set 4 in flags of 2\nsignal = 4 in flags+128\n"
               "put 24 from src to dst, set 5 in flags of 2\nsignal = 5 in flags+128\n"
               "put 24 from src to dst, set 6 in flags of 2\nsignal = 6 in flags+128\n");
    assert_int_equal(bench.rounds, 6);
    made_bench(2, 4, 1, 2);
    expect_run(host_latency_signal_run, 5,
               "signal = 4 in flags\nput 24 from src to dst, set 4 in flags+128 of 1\n"
               "signal = 5 in flags\nput 24 from src to dst, set 5 in flags+128 of 1\n"
               "signal = 6 in flags\nput 24 from src to dst, set 6 in flags+128 of 1\n");
    made_bench(3, 4, 1, 2);
    expect_run(host_latency_signal_run, 5, "");
    for (int me = 1; me < 3; me++) {
        for (int wrong = 0; wrong < 2; wrong++) {
            made_bench(me, 4, 1, 2);
            on_wait = data_comes;
            data_odd = (uint64_t)((me == 1) ^ wrong);
            assert_int_equal(checked(host_latency_signal_check), !wrong);
            assert_int_equal(bench.rounds, 23);
            assert_true(bench_holds(src_area, 24, 46 + (me == 2)));
            expect_begin_and_end(me == 1 ? "barrier\nput 24 from src to dst, set 4 in flags of 2\n"
                                           "signal = 4 in flags+128\n"
                                         : "barrier\nsignal = 4 in flags\n"
                                           "put 24 from src to dst, set 4 in flags+128 of 1\n",
                                 me == 1 ? "signal = 23 in flags+128\n" : "23 in flags+128 of 1\n",
                                 41);
            expect_check_fails(host_latency_signal_check, 5);
        }
    }
    made_bench(3, 4, 1, 2);
    assert_true(checked(host_latency_signal_check));
    expect_log("barrier\n");
}

static int whose, round_now;

/* Each barrier or get delivers the word of PE `whose` for this round. */
static void words_of_a_pe(void *to, const void *from, size_t bytes, int pe)
{
    uint64_t value = bench_word((uint64_t)whose, (uint64_t)round_now++);
    memcpy(to, &value, 8);
}

static void barriers_are_timed_and_checked(void **state)
{
    made_bench(1, 4, 1, 2);
    expect_run(host_barrier_run, 15, "barrier\nbarrier\nbarrier\n");
    expect_run(host_sync_run, 15, "sync\nsync\nsync\n");
    for (int wrong = 0; wrong < 2; wrong++) {
        char expected[300];
        made_bench(0, 3, 1, 2);
        options.memory = MEMORY_GPU; /* the check reads it with get */
        on_get = words_of_a_pe;
        whose = wrong ? 1 : 2;
        round_now = 0;
        assert_int_equal(checked(host_barrier_check), !wrong);
        snprintf(expected, sizeof expected,
                 "put 8 from own to dst of 1\nbarrier\nget 8 from dst of 0 to own\n"
                 "put 8 from own to dst+8 of 1\nbarrier\nget 8 from dst+8 of 0 to own\n");
        expect_begin_and_end(expected, expected + strlen(expected) / 2 + 20, 0 + 150);
        assert_int_equal(late, 17 * 20); /* the PE is late in every third round */
        expect_check_fails(host_barrier_check, 5);
        made_bench(0, 3, 1, 2);
        on_get = words_of_a_pe;
        whose = wrong ? 2 : 1;
        round_now = 0;
        assert_int_equal(checked(host_sync_check), !wrong);
        expect_begin_and_end("sync\ng dst of 1\nsync\ng dst+8 of 1\n", "sync\ng dst+8 of 1\n", 100);
        assert_int_equal(late, 17 * 20);
        uint64_t last[2] = {bench_word(0, 48), bench_word(0, 49)};
        assert_memory_equal(dst_area, last, sizeof last);
        expect_check_fails(host_sync_check, 5);
        made_bench(2, 3, 1, 2);
        checked(host_sync_check);
        assert_int_equal(late, 16 * 20);
        assert_non_null(strstr(call_log, "g dst of 0\n"));
    }
    made_bench(2, 3, 1, 2); /* with 10 ns between clock readings it is 20000 ns late */
    uint64_t began = now_ns;
    checked(host_sync_check);
    assert_int_equal(now_ns - began, 16 * (20000 + 10));
}

/* ------------------------------------------------------------------------------------- memory */

static void memory_is_written_and_read(void **state)
{
    char text[24];
    void *address = NULL;
    bool right = true;
    made_bench(1, 4, 1, 2);
    given[0] = dst_area;
    assert_int_equal(bench_alloc(&bench, 100, 5, &address), WEFT_OK);
    assert_ptr_equal(address, dst_area);
    expect_log("alloc host 100, 4096, 5\n");
    assert_int_equal(bench_write(&bench, dst_area, "abcdefgh", 8), WEFT_OK);
    assert_int_equal(bench_read(&bench, text, dst_area, 8), WEFT_OK);
    assert_memory_equal(text, "abcdefgh", 8);
    assert_int_equal(bench_set(&bench, dst_area, 24, 9), WEFT_OK);
    assert_int_equal(bench_has(&bench, dst_area, 24, 9, &right), WEFT_OK);
    assert_true(right);
    bench_has(&bench, dst_area, 24, 8, &right);
    assert_false(right);
    bench_has(&bench, dst_area, 24, 9, &right);
    assert_false(right); /* stays false */
    expect_log("");

    options.memory = MEMORY_GPU;
    n_given = 0;
    bench_alloc(&bench, 100, 5, &address);
    bench_write(&bench, dst_area, "abcdefgh", 8);
    bench_read(&bench, text, dst_area, 8);
    bench_set(&bench, dst_area, 24, 11);
    right = true;
    bench_has(&bench, dst_area, 24, 11, &right);
    assert_true(right);
    expect_log("alloc GPU 100, 4096, 5\nput 8 from own to dst of 1\nquiet\n"
               "get 8 from dst of 1 to own\nput 24 from own to dst of 1\nquiet\n"
               "get 24 from dst of 1 to own\n");
    bench_has(&bench, dst_area, 24, 12, &right);
    assert_false(right);
    for (fails_at = 0; fails_at < 2; fails_at++) {
        forget_log();
        assert_int_equal(bench_write(&bench, dst_area, "abcdefgh", 8), WEFT_ERR_SYSTEM);
        assert_int_equal(calls, fails_at + 1);
        forget_log();
        assert_int_equal(bench_set(&bench, dst_area, 24, 11), WEFT_ERR_SYSTEM);
    }
    forget_log();
    fails_at = 0;
    right = true;
    assert_int_equal(bench_has(&bench, dst_area, 24, 11, &right), WEFT_ERR_SYSTEM);
    assert_false(right);
    right = true;
    assert_int_equal(bench_set(&bench, dst_area, SIZE_MAX / 2, 1), WEFT_ERR_NO_MEMORY);
    assert_int_equal(bench_has(&bench, dst_area, SIZE_MAX / 2, 1, &right), WEFT_ERR_NO_MEMORY);
    assert_string_equal(weft_last_error(),
                        "no memory for 9223372036854775807 bytes to compare GPU memory with");
}

/* ---------------------------------------------------------------------------------- measuring */

static double each_ns;
static uint64_t counts[40];
static int n_counts, wrong_runs;

static weft_status made_run(struct bench *b, struct bench_case *c, uint64_t iterations, double *ns)
{
    assert_true(*ns == 0);
    counts[n_counts++] = iterations;
    *ns += each_ns * (double)iterations * (n_counts % 2 ? 1 : 1.5);
    return call("run");
}

static weft_status made_check(struct bench *b, struct bench_case *c, bool *right)
{
    *right = !wrong_runs;
    return call("check");
}

static size_t made_room(const struct bench_options *o, size_t bytes)
{
    return 3 * bytes + 1;
}

static struct bench_entry entry;

static void made_entry(void)
{
    entry = (struct bench_entry){.name = "made",
                                 .scope = SCOPE_HOST,
                                 .shape = SHAPE_PAIR,
                                 .sized = true,
                                 .floor = FLOOR_NONE,
                                 .run = made_run,
                                 .check = made_check};
    kase.entry = &entry;
    n_counts = 0;
    wrong_runs = 0;
    given[0] = src_area;
    given[1] = dst_area;
    n_given = 0;
}

static void buffers_of_a_case(void **state)
{
    struct bench_case c;
    made_bench(1, 3, 1, 2);
    made_entry();
    assert_int_equal(bench_case_open(&bench, &entry, 5000, &c), WEFT_OK);
    expect_log("alloc host 5000, 4096, 0\nalloc host 5000, 4096, 0\nbarrier\n");
    assert_ptr_equal(c.src, src_area);
    assert_ptr_equal(c.dst, dst_area);
    assert_ptr_equal(c.entry, &entry);
    assert_int_equal(c.bytes, 5000);
    assert_int_equal(bench_case_close(&bench, &c), WEFT_OK);
    expect_log("free dst\nfree src\n");
    n_given = 0;
    bench_case_open(&bench, &entry, 4097, &c);
    expect_log("alloc host 4104, 4096, 0\nalloc host 4104, 4096, 0\nbarrier\n");
    n_given = 0;
    bench_case_open(&bench, &entry, 9, &c); /* the size that the checks need */
    expect_log("alloc host 4096, 4096, 0\nalloc host 4096, 4096, 0\nbarrier\n");
    n_given = 0;
    entry.src_per_pe = true;
    entry.scope = SCOPE_WARP;
    char expected[200];
    bench_case_open(&bench, &entry, 4000, &c);
    snprintf(expected, sizeof expected,
             "alloc host 12000, 4096, %x\nalloc host 4096, 4096, %x\nbarrier\n", WEFT_ALLOC_ZERO,
             WEFT_ALLOC_ZERO);
    expect_log(expected);
    n_given = 0;
    entry.src_per_pe = false;
    entry.dst_per_pe = true;
    entry.scope = SCOPE_HOST;
    bench_case_open(&bench, &entry, 4000, &c);
    expect_log("alloc host 4096, 4096, 0\nalloc host 12000, 4096, 0\nbarrier\n");
    n_given = 0;
    entry.buffer_bytes = made_room;
    bench_case_open(&bench, &entry, 3000, &c);
    expect_log("alloc host 9008, 4096, 0\nalloc host 9008, 4096, 0\nbarrier\n");
    for (fails_at = 0; fails_at < 3; fails_at++) {
        n_given = 0;
        forget_log();
        assert_int_equal(bench_case_open(&bench, &entry, 3000, &c), WEFT_ERR_SYSTEM);
        assert_int_equal(strstr(call_log, "free src\n") != NULL, fails_at == 1);
        assert_int_equal(calls, fails_at == 1 ? 3 : fails_at + 1);
    }
    for (fails_at = 0; fails_at < 2; fails_at++) {
        forget_log();
        assert_int_equal(bench_case_close(&bench, &c), WEFT_ERR_SYSTEM);
        assert_int_equal(calls, fails_at + 1);
    }
}

static void a_fixed_number_of_iterations(void **state)
{
    struct bench_point point;
    made_bench(1, 3, 1, 2);
    made_entry();
    options.iterations = 100;
    options.repetitions = 3;
    options.memory = MEMORY_GPU;
    options.ctas = 7;
    options.threads = 32;
    bench.floors.load_ns = 77;
    reduced_by = 1000;
    each_ns = 20;
    assert_int_equal(bench_measure(&bench, &kase, &point), WEFT_OK);
    expect_log("check\nmin of 1 from control to control+8\n"
               "sync\nrun\nmax of 2000 from control to control+8\n"
               "sync\nrun\nmax of 3000 from control to control+8\n"
               "sync\nrun\nmax of 2000 from control to control+8\n"
               "sync\nrun\nmax of 3000 from control to control+8\nsync\n");
    assert_int_equal(n_counts, 4);
    assert_int_equal(counts[3], 100);
    assert_true(point.us_min == 0.03);
    assert_true(point.us == 0.04);
    assert_true(point.us_max == 0.04);
    assert_ptr_equal(point.entry, &entry);
    assert_int_equal(point.memory, MEMORY_GPU);
    assert_string_equal(point.path, "path");
    assert_int_equal(point.pes, 3);
    assert_int_equal(point.from, 1);
    assert_int_equal(point.to, 2);
    assert_int_equal(point.ctas, 7);
    assert_int_equal(point.threads, 32);
    assert_int_equal(point.bytes, 24);
    assert_int_equal(point.iterations, 100);
    assert_int_equal(point.repetitions, 3);
    assert_true(point.floors.load_ns == 77);
    assert_true(point.memcpy_us == -1);
    assert_true(point.floor_us == -1);
    assert_int_equal(point.verified, 1);
    assert_true(point.gbps == 24 / 0.04 / 1e3);
    assert_true(point.mops == 1 / 0.04);
    int all = 15;
    for (fails_at = 0; fails_at < all; fails_at++) {
        n_counts = 0;
        forget_log();
        assert_int_equal(bench_measure(&bench, &kase, &point), WEFT_ERR_SYSTEM);
        assert_int_equal(calls, fails_at + 1);
    }
    fails_at = -1;
}

static void what_is_verified(void **state)
{
    struct bench_point point;
    made_bench(1, 3, 1, 2);
    made_entry();
    options.iterations = options.repetitions = 1;
    options.memory = MEMORY_GPU;
    wrong_runs = 1;
    bench_measure(&bench, &kase, &point);
    assert_int_equal(point.verified, 0);
    assert_non_null(strstr(call_log, "min of 0 from"));
    options.verify = false;
    forget_log();
    bench_measure(&bench, &kase, &point);
    assert_int_equal(point.verified, -1);
    assert_null(strstr(call_log, "check"));
}

static void the_mean_over_all_pes(void **state)
{
    struct bench_point point;
    made_bench(1, 4, 1, 2);
    made_entry();
    entry.shape = SHAPE_ALL;
    entry.dst_per_pe = true;
    options.iterations = 100;
    options.repetitions = 1;
    options.memory = MEMORY_GPU;
    each_ns = 20;
    reduced_by = 5000;
    bench_measure(&bench, &kase, &point);
    assert_non_null(strstr(call_log, "sum of 3000 from"));
    assert_true(point.us == 0.02);
    assert_true(point.gbps == 4 * 24 / 0.02 / 1e3);
    entry.family = "family"; /* in a family, an entry without a size reports no bandwidth */
    entry.sized = false;
    bench_measure(&bench, &kase, &point);
    assert_true(point.gbps == 0);
    entry.family = NULL;
    bench_measure(&bench, &kase, &point);
    assert_true(point.gbps > 0);
    entry.by_units = true;
    bench_measure(&bench, &kase, &point);
    assert_true(point.gbps == 5.0 * (4 * 24) / 0.02 / 1e3);
    assert_true(point.mops == 5 / 0.02);
    each_ns = 0;
    reduced_by = 0;
    bench_measure(&bench, &kase, &point);
    assert_true(point.gbps == 0 && point.mops == 0);
}

/* Checks the iteration counts of the runs, such as "1 1 17 ...". */
static void expect_counts(double each, int repetitions, const char *expected, int repeated)
{
    struct bench_point point;
    char text[600] = "";
    made_bench(1, 3, 1, 2);
    made_entry();
    options.memory = MEMORY_GPU;
    options.repetitions = repetitions;
    each_ns = each;
    assert_int_equal(bench_measure(&bench, &kase, &point), WEFT_OK);
    int n = n_counts - point.repetitions;
    for (int i = 0; i < n + 1; i++)
        sprintf(text + strlen(text), "%s%llu", i ? " " : "", (unsigned long long)counts[i]);
    assert_string_equal(text, expected);
    assert_int_equal(point.repetitions, repeated);
    assert_int_equal(counts[n_counts - 1], point.iterations);
}

static void iterations_are_found(void **state)
{
    expect_counts(2e6, 9, "1 1 5", 9); /* one iteration reaches the warm-up of 3 ms */
    expect_counts(1e6, 9, "1 1 3 15", 9);
    expect_counts(1000, 9, "1 1 17 273 2400 3601 10000", 9);
    expect_counts(50e6, 9, "1 1 1", 5);  /* at most 400 ms in all */
    expect_counts(200e6, 9, "1 1 1", 3); /* but at least three repetitions */
    expect_counts(0, 3, "1 1 17 273 4369 69905 1118481 17895697 10000000",
                  3); /* the clock is too coarse */
    made_bench(1, 3, 1, 2);
    made_entry();
    options.repetitions = 9;
    options.memory = MEMORY_GPU;
    struct bench_point point;
    each_ns = 1e6;
    for (fails_at = 0; fails_at < 11; fails_at++) { /* a failure also ends the search */
        n_counts = 0;
        forget_log();
        assert_int_equal(bench_measure(&bench, &kase, &point), WEFT_ERR_SYSTEM);
        assert_int_equal(calls, fails_at + 1);
    }
}

static void floors_of_entries(void **state)
{
    static const struct {
        enum bench_floor floor;
        double us;
    } rows[] = {{FLOOR_NONE, -1},      {FLOOR_STORE, 0.011}, {FLOOR_LOAD, 0.012},
                {FLOOR_ATOMIC, 0.013}, {FLOOR_LINES, 0.014}, {FLOOR_HEARD, 500}};
    struct bench_point point;
    made_bench(1, 3, 1, 2);
    made_entry();
    options.iterations = options.repetitions = 1;
    bench.floors =
        (struct bench_floors){.two_lines_ns = 14, .store_ns = 11, .load_ns = 12, .atomic_ns = 13};
    peers_place = NULL;
    step_ns = 500000; /* one copy between two clock readings */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        entry.floor = rows[i].floor;
        assert_int_equal(bench_measure(&bench, &kase, &point), WEFT_OK);
        assert_true(point.floor_us == rows[i].us);
        assert_true(point.memcpy_us == 500);
    }
    entry.floor = FLOOR_MEMCPY;
    bench_measure(&bench, &kase, &point);
    assert_true(point.floor_us == point.memcpy_us);
    entry.floor = FLOOR_HEARD; /* the larger of the two */
    bench.floors.two_lines_ns = 501e3;
    bench_measure(&bench, &kase, &point);
    assert_true(point.floor_us == 501);
    entry.dst_per_pe = true;
    bench_measure(&bench, &kase, &point);
    assert_true(point.floor_us == 1500);
    bench.floors.two_lines_ns = -1;
    bench_measure(&bench, &kase, &point);
    assert_true(point.floor_us == -1);
    bench.n = 1;
    bench.to = bench.from;
    bench_measure(&bench, &kase, &point);
    assert_true(point.floor_us == point.memcpy_us);
    entry.scope = SCOPE_WARP;
    bench_measure(&bench, &kase, &point);
    assert_true(point.memcpy_us == -1);
}

static void bits_are_combined(void **state)
{
    uint64_t bits = 0x3c;
    made_bench(1, 3, 1, 2);
    assert_int_equal(bench_combine_bits(&bench, &bits), WEFT_OK);
    assert_int_equal(bits, 0xcc);
    char expected[100];
    snprintf(expected, sizeof expected, "xor of 1 of type %d from control to control+8\n",
             WEFT_UINT64);
    expect_log(expected);
    fails_at = 0;
    assert_int_equal(bench_combine_bits(&bench, &bits), WEFT_ERR_SYSTEM);
}

/* ----------------------------------------------------------------------------------- baseline */

static void round_trips_are_bounded(void **state)
{
    static uint64_t peer[BENCH_LINE_WORDS];
    made_bench(1, 4, 1, 2);
    peers_place = (char *)peer;
    step_ns = 2000000; /* the peer does not answer: 1 s passes soon */
    assert_int_equal(bench_floors_measure(&bench), WEFT_OK);
    assert_true(bench.floors.one_line_ns == -1);
    assert_true(bench.floors.two_lines_ns == -1);
    assert_int_equal(peer[0], UINT64_MAX); /* ends the peer's loop too */
    assert_int_equal(((uint64_t *)(void *)line_area)[0], 0);
    assert_true(bench.floors.store_ns == 2000000.0 / 65536);
    assert_true(bench.floors.load_ns == 2000000.0 / 65536);
    assert_true(bench.floors.atomic_ns == 2000000.0 / 65536);
    assert_true(bench.floors.clock_ns == (4096 + 1) * 2000000.0 / 4096);
    int barriers = 0;
    for (const char *at = call_log; (at = strstr(at, "barrier")); at++)
        barriers++;
    assert_int_equal(barriers, 2 * (2 * 15 + 1));
    assert_memory_equal(call_log, "address of lines of 2\n", 22);
    assert_int_equal(calls, barriers + 2);
    assert_int_equal(late, 2 * 501); /* until more than 1 s has passed */
    for (fails_at = 0; fails_at < 20; fails_at++) {
        if (fails_at == 0)
            continue; /* address lookup: it cannot fail */
        forget_log();
        assert_int_equal(bench_floors_measure(&bench), WEFT_ERR_SYSTEM);
        assert_int_equal(calls, fails_at + 1);
    }
    for (fails_at = 31; fails_at < 36; fails_at++) {
        if (fails_at == 32)
            continue; /* address lookup of the second test */
        forget_log();
        assert_int_equal(bench_floors_measure(&bench), WEFT_ERR_SYSTEM);
        assert_int_equal(calls, fails_at + 1);
    }
    fails_at = -1;
    made_bench(2, 4, 1, 2); /* the answering PE is told to stop */
    peers_place = (char *)peer;
    step_ns = 2000000;
    bench_floors_measure(&bench);
    assert_memory_equal(call_log, "address of lines of 1\n", 22);
    assert_true(bench.floors.one_line_ns == -1);
    assert_true(bench.floors.store_ns == 0);
    made_bench(3, 4, 1, 2);
    step_ns = 2000000;
    bench_floors_measure(&bench);
    assert_null(strstr(call_log, "address"));
    made_bench(1, 4, 1, 1); /* a PE has no round trip with itself */
    peers_place = line_area;
    step_ns = 2000000;
    bench_floors_measure(&bench);
    assert_true(bench.floors.one_line_ns == -1);
    made_bench(1, 4, 1, 2);
    peers_place = NULL;
    step_ns = 2000000;
    bench_floors_measure(&bench);
    assert_true(bench.floors.one_line_ns == -1);
}

static void copies_are_timed(void **state)
{
    static char peer[64];
    made_bench(1, 4, 1, 2);
    peers_place = peer;
    memcpy(src_area, "abcdefghijklmnopqrstuvw", 24);
    step_ns = 1000000;
    assert_true(bench_memcpy_ns(&bench, &kase) == 1000000);
    assert_string_equal(peer, "abcdefghijklmnopqrstuvw");
    assert_int_equal(dst_area[0], 0);
    expect_log("address of dst of 2\n");
    assert_int_equal(now_ns, 2 * 8 * 1000000);
    step_ns = 500000;
    assert_true(bench_memcpy_ns(&bench, &kase) == 500000);
    peers_place = NULL;
    kase.bytes = 0;
    assert_true(bench_memcpy_ns(&bench, &kase) == -1);
    kase.bytes = 24;
    bench.me = 2;
    assert_true(bench_memcpy_ns(&bench, &kase) == -1);
    bench.me = 1;
    step_ns = 500000;
    bench_memcpy_ns(&bench, &kase);
    assert_string_equal(dst_area, "abcdefghijklmnopqrstuvw");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(puts_and_gets_are_timed),
        cmocka_unit_test(puts_are_checked),
        cmocka_unit_test(gets_are_checked),
        cmocka_unit_test(words_are_checked),
        cmocka_unit_test(words_go_there_and_back),
        cmocka_unit_test(data_goes_there_and_back),
        cmocka_unit_test(barriers_are_timed_and_checked),
        cmocka_unit_test(memory_is_written_and_read),
        cmocka_unit_test(buffers_of_a_case),
        cmocka_unit_test(a_fixed_number_of_iterations),
        cmocka_unit_test(what_is_verified),
        cmocka_unit_test(the_mean_over_all_pes),
        cmocka_unit_test(iterations_are_found),
        cmocka_unit_test(floors_of_entries),
        cmocka_unit_test(bits_are_combined),
        cmocka_unit_test(round_trips_are_bounded),
        cmocka_unit_test(copies_are_timed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
