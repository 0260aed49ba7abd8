/* SPDX-License-Identifier: Apache-2.0 */
/* The host collectives and atomics of `weft bench`, and how it joins and leaves the job: the
 * sequence of calls, with correct results and with wrong ones. */
#include "bench_calls.h"

/* ------------------------------------------------------------------------- more of the library */

static int wrong_at; /* corrupt byte of the destination; -1: none */

/* Writes what PE `me` receives when the PEs fill their blocks of `sizes` with seeds 100, 101,
 * ... */
static void give(void *dst, int kind, size_t bytes, int root)
{
    char *at = dst;
    for (int pe = 0; pe < bench.n; pe++) {
        size_t own = kind == 'c' ? bytes - bytes * (size_t)(pe % 3) / 4 : bytes;
        uint64_t seed = kind == 'b'   ? 100 + (uint64_t)root
                        : kind == 'a' ? 100 + (uint64_t)(pe * bench.n + bench.me)
                                      : 100 + (uint64_t)pe;
        bench_fill(at, own, seed);
        at += own;
        if (kind == 'b')
            break;
    }
    if (wrong_at >= 0)
        ((char *)dst)[wrong_at] ^= 1;
}

weft_status __wrap_weft_broadcast(weft_team *team, void *dst, const void *src, size_t bytes,
                                  int root);
weft_status __wrap_weft_broadcast(weft_team *team, void *dst, const void *src, size_t bytes,
                                  int root)
{
    give(dst, 'b', bytes, root);
    return call("broadcast %zu from %s of %d to %s", bytes, where(src), root, where(dst));
}

weft_status __wrap_weft_allgather(weft_team *team, void *dst, const void *src, size_t bytes);
weft_status __wrap_weft_allgather(weft_team *team, void *dst, const void *src, size_t bytes)
{
    give(dst, 'f', bytes, 0);
    return call("allgather %zu from %s to %s", bytes, where(src), where(dst));
}

weft_status __wrap_weft_collect(weft_team *team, void *dst, const void *src, size_t bytes);
weft_status __wrap_weft_collect(weft_team *team, void *dst, const void *src, size_t bytes)
{
    give(dst, 'c', kase.bytes, 0);
    return call("collect %zu from %s to %s", bytes, where(src), where(dst));
}

weft_status __wrap_weft_alltoall(weft_team *team, void *dst, const void *src, size_t bytes);
weft_status __wrap_weft_alltoall(weft_team *team, void *dst, const void *src, size_t bytes)
{
    give(dst, 'a', bytes, 0);
    return call("alltoall %zu from %s to %s", bytes, where(src), where(dst));
}

/* ---------------------------------------------------------------------------------- collectives */

static void collectives_are_timed(void **state)
{
    made_bench(1, 4, 1, 2);
    wrong_at = -1;
    expect_run(
        host_broadcast_run, 35,
        "barrier\nbroadcast 24 from src of 0 to dst\nbarrier\nbroadcast 24 from src of 0 to dst\n"
        "barrier\nbroadcast 24 from src of 0 to dst\n");
    expect_run(host_allgather_run, 35,
               "barrier\nallgather 24 from src to dst\nbarrier\nallgather 24 from src to dst\n"
               "barrier\nallgather 24 from src to dst\n");
    expect_run(host_collect_run, 35,
               "barrier\ncollect 24 from src to dst\nbarrier\ncollect 24 from src to dst\n"
               "barrier\ncollect 24 from src to dst\n");
    expect_run(host_alltoall_run, 35,
               "barrier\nalltoall 24 from src to dst\nbarrier\nalltoall 24 from src to dst\n"
               "barrier\nalltoall 24 from src to dst\n");
    char expected[300], one[100];
    for (int odd = 0; odd < 2; odd++) {
        kase.bytes = odd ? 25 : 24;
        snprintf(one, sizeof one, "barrier\nsum of %d of type %d from src to dst\n", odd ? 25 : 3,
                 odd ? WEFT_UINT8 : WEFT_INT64);
        snprintf(expected, sizeof expected, "%s%s%s", one, one, one);
        expect_run(host_reduce_run, 35, expected);
    }
}

static void expect_right_and_wrong(check_function check, const char *expected, int last_byte)
{
    wrong_at = -1;
    assert_true(checked(check));
    int all = calls;
    expect_log(expected);
    for (wrong_at = 0; wrong_at <= last_byte; wrong_at += last_byte)
        assert_false(checked(check));
    wrong_at = -1;
    expect_check_fails(check, all);
}

static void collectives_are_checked(void **state)
{
    made_bench(1, 3, 1, 2);
    expect_right_and_wrong(host_broadcast_check,
                           "barrier\nbroadcast 24 from src of 0 to dst\nbarrier\n"
                           "broadcast 24 from src of 1 to dst\nbarrier\n"
                           "broadcast 24 from src of 2 to dst\n",
                           23);
    assert_true(bench_holds(src_area, 24, 101));
    expect_right_and_wrong(host_allgather_check, "barrier\nallgather 24 from src to dst\n", 71);
    expect_right_and_wrong(host_collect_check, "barrier\ncollect 18 from src to dst\n",
                           24 + 18 + 12 - 1);
    expect_right_and_wrong(host_alltoall_check, "barrier\nalltoall 24 from src to dst\n", 71);
    for (int pe = 0; pe < 3; pe++)
        assert_true(bench_holds(src_area + 24 * pe, 24, 100 + 3 + (uint64_t)pe));
    bench.me = 2;
    wrong_at = -1;
    assert_true(checked(host_collect_check));
    expect_log("barrier\ncollect 12 from src to dst\n");
}

static size_t sum_width;

/* Writes the sums over the PEs. */
static void sums(void *to, const void *from, size_t bytes, int pe)
{
    for (size_t i = 0; i * sum_width < bytes; i++) {
        uint64_t sum = 0;
        for (int k = 0; k < bench.n; k++)
            sum += bench_word(100 + (uint64_t)k, i);
        memcpy((char *)to + i * sum_width, &sum, sum_width);
    }
    if (wrong_at >= 0)
        ((char *)to)[wrong_at] ^= 1;
}

static void sums_are_checked(void **state)
{
    for (int odd = 0; odd < 2; odd++) {
        char expected[300];
        made_bench(1, 3, 1, 2);
        options.memory = MEMORY_GPU; /* the check reads it with get */
        on_get = sums;
        kase.bytes = odd ? 25 : 24;
        sum_width = odd ? 1 : 8;
        snprintf(
            expected, sizeof expected,
            "put %d from own to src of 1\nquiet\nput %d from own to dst of 1\nquiet\nbarrier\nsum "
            "of %d of type %d from src to dst\nget %d from dst of 1 to own\n",
            odd ? 25 : 24, odd ? 25 : 24, odd ? 25 : 3, odd ? WEFT_UINT8 : WEFT_INT64,
            odd ? 25 : 24);
        expect_right_and_wrong(host_reduce_check, expected, odd ? 24 : 23);
        for (int i = 0; i < 3; i++) {
            uint64_t word = bench_word(101, (uint64_t)i);
            assert_memory_equal(src_area + (size_t)i * sum_width, &word, sum_width);
        }
    }
    bool right = true;
    kase.bytes = SIZE_MAX / 2;
    assert_int_equal(host_reduce_check(&bench, &kase, &right), WEFT_ERR_NO_MEMORY);
    assert_string_equal(weft_last_error(), "no memory for 9223372036854775807 bytes to compare");
}

/* ------------------------------------------------------------------------------------- atomics */

static int off_by;      /* error of each result */
static uint64_t losing; /* number of operations that have no effect */
static bool quiet_log = true;

static weft_status act(const char *name, void *var, uint64_t next, uint64_t *fetched, int pe,
                       uint64_t operand)
{
    uint64_t *word = var;
    if (fetched)
        *fetched = *word + (uint64_t)off_by;
    if (losing)
        losing--;
    else
        *word = next;
    if (!quiet_log)
        return call("%s %llx in %s of %d", name, (unsigned long long)operand, where(var), pe);
    bool fails = calls++ == fails_at;
    return fails ? WEFT_ERR_SYSTEM : WEFT_OK;
}

#define PLAIN(name, next)                                                                          \
    weft_status __wrap_weft_atomic_##name##64(weft_ctx * ctx, void *dst, uint64_t value, int pe);  \
    weft_status __wrap_weft_atomic_##name##64(weft_ctx * ctx, void *dst, uint64_t value, int pe)   \
    {                                                                                              \
        uint64_t old = *(uint64_t *)dst;                                                           \
        (void)old;                                                                                 \
        return act(#name, dst, next, NULL, pe, value);                                             \
    }
#define FETCHING(name, next)                                                                       \
    weft_status __wrap_weft_atomic_##name##64(weft_ctx * ctx, void *dst, uint64_t value,           \
                                              uint64_t *fetched, int pe);                          \
    weft_status __wrap_weft_atomic_##name##64(weft_ctx * ctx, void *dst, uint64_t value,           \
                                              uint64_t *fetched, int pe)                           \
    {                                                                                              \
        uint64_t old = *(uint64_t *)dst;                                                           \
        (void)old;                                                                                 \
        return act(#name, dst, next, fetched, pe, value);                                          \
    }
PLAIN(set, value)
PLAIN(add, old + value)
PLAIN(and, old &value)
PLAIN(or, old | value)
PLAIN(xor, old ^ value)
FETCHING(swap, value)
FETCHING(fetch_add, old + value)
FETCHING(fetch_and, old &value)
FETCHING(fetch_or, old | value)
FETCHING(fetch_xor, old ^ value)

weft_status __wrap_weft_atomic_fetch64(weft_ctx *ctx, const void *src, uint64_t *fetched, int pe);
weft_status __wrap_weft_atomic_fetch64(weft_ctx *ctx, const void *src, uint64_t *fetched, int pe)
{
    return act("fetch", (void *)(uintptr_t)src, *(const uint64_t *)src, fetched, pe, 0);
}

weft_status __wrap_weft_atomic_cswap64(weft_ctx *ctx, void *dst, uint64_t expected, uint64_t value,
                                       uint64_t *fetched, int pe);
weft_status __wrap_weft_atomic_cswap64(weft_ctx *ctx, void *dst, uint64_t expected, uint64_t value,
                                       uint64_t *fetched, int pe)
{
    uint64_t old = *(uint64_t *)dst;
    return act("cswap", dst, old == expected ? value : old, fetched, pe, expected);
}

#define EACH(name, floor) {#name, host_atomic_##name##_run, host_atomic_##name##_check},
static const struct {
    const char *name;
    run_function run;
    check_function check;
} atomics[] = {BENCH_ATOMIC_LIST(EACH)};
#undef EACH

static void atomics_are_timed(void **state)
{
    for (size_t i = 0; i < sizeof atomics / sizeof *atomics; i++) {
        double ns = 5;
        made_bench(1, 4, 1, 2);
        quiet_log = false;
        assert_int_equal(atomics[i].run(&bench, &kase, 2, &ns), WEFT_OK);
        assert_true(ns == 15);
        assert_int_equal(calls, 5);
        assert_memory_equal(call_log, "set 0 in dst of 2\nquiet\n", 24);
        assert_non_null(strstr(call_log, atomics[i].name));
        for (fails_at = 0; fails_at < 5; fails_at++) {
            forget_log();
            assert_int_equal(atomics[i].run(&bench, &kase, 2, &ns), WEFT_ERR_SYSTEM);
            assert_int_equal(calls, fails_at + 1);
        }
        made_bench(2, 4, 1, 2);
        ns = 5;
        assert_int_equal(atomics[i].run(&bench, &kase, 2, &ns), WEFT_OK);
        assert_true(ns == 5);
        expect_log("");
        quiet_log = true;
    }
}

/* One PE, so that the final value and the traces are its own. */
static void made_alone(enum bench_memory memory)
{
    made_bench(0, 1, 0, 0);
    options.memory = memory;
    off_by = 0;
    losing = 0;
    reduced_by = 0;
}

static void atomics_are_checked(void **state)
{
    for (size_t i = 0; i < sizeof atomics / sizeof *atomics; i++) {
        bool fetches = strncmp(atomics[i].name, "fetch", 5) == 0 || strstr(atomics[i].name, "swap");
        for (int memory = 0; memory < 2; memory++) {
            int rounds = memory ? 500 : 10000;
            made_alone(memory ? MEMORY_GPU : MEMORY_HOST);
            if (!checked(atomics[i].check))
                fail_msg("%s", atomics[i].name);
            assert_true(calls >= rounds + 4);
            /* each iteration but the first takes two calls */
            bool again = strcmp(atomics[i].name, "cswap") == 0;
            assert_true(calls <= rounds + 8 + (again ? rounds : 0));
            losing = 1; /* the first operation */
            bool right = checked(atomics[i].check);
            bool idempotent = strstr(atomics[i].name, "or") == atomics[i].name ||
                              strstr(atomics[i].name, "and") || strstr(atomics[i].name, "_or") ||
                              strcmp(atomics[i].name, "set") == 0 ||
                              strcmp(atomics[i].name, "fetch") == 0;
            if (right != idempotent)
                fail_msg("%s: %d", atomics[i].name, right);
        }
        losing = 1000000; /* all operations */
        if (checked(atomics[i].check) != (strcmp(atomics[i].name, "fetch") == 0))
            fail_msg("%s", atomics[i].name);
        losing = 0;
        off_by = 1;
        if (fetches && strcmp(atomics[i].name, "cswap") != 0) /* cswap would not end */
            assert_int_equal(checked(atomics[i].check), strstr(atomics[i].name, "_and") ||
                                                            strstr(atomics[i].name, "_or") ||
                                                            strstr(atomics[i].name, "_xor"));
        off_by = 0;
        made_alone(MEMORY_HOST);
        bool right = true;
        int all;
        checked(atomics[i].check);
        all = calls;
        for (int which = 0; which < 6; which++) {
            int at = which < 3 ? which : all - 1 - (which - 3);
            forget_log();
            fails_at = at;
            assert_int_equal(atomics[i].check(&bench, &kase, &right), WEFT_ERR_SYSTEM);
            assert_int_equal(calls, at + 1);
        }
        fails_at = -1;
    }
}

static void bits_of_many_pes(void **state)
{
    for (int n = 63; n < 67; n++) { /* PEs 64 and up have no bit of their own */
        made_alone(MEMORY_HOST);
        bench.n = n;
        for (size_t i = 0; i < sizeof atomics / sizeof *atomics; i++) {
            bool or_ =
                strcmp(atomics[i].name, "or") == 0 || strcmp(atomics[i].name, "fetch_or") == 0;
            if (!or_)
                continue;
            assert_false(checked(atomics[i].check)); /* the other PEs have done nothing */
            uint64_t own = 1;
            assert_memory_equal(dst_area, &own, 8);
        }
    }
    made_alone(MEMORY_HOST);
    bench.me = bench.to = 65;
    for (size_t i = 0; i < sizeof atomics / sizeof *atomics; i++) {
        if (strcmp(atomics[i].name, "or") != 0)
            continue;
        checked(atomics[i].check);
        uint64_t own = 2;
        assert_memory_equal(dst_area, &own, 8);
    }
}

/* ------------------------------------------------------------------------------------ the job */

static cpu_set_t allowed;
static int local_pe, local_pes, job_pes;
static bool no_affinity;

weft_status __wrap_weft_init(weft_job **job, const weft_init_attr *attr);
weft_status __wrap_weft_init(weft_job **job, const weft_init_attr *attr)
{
    *job = (weft_job *)src_area;
    assert_null(attr);
    return call("init");
}

weft_status __wrap_weft_finalize(weft_job *job);
weft_status __wrap_weft_finalize(weft_job *job)
{
    return call("finalize");
}

weft_ctx *__wrap_weft_default_ctx(weft_job *job);
weft_ctx *__wrap_weft_default_ctx(weft_job *job)
{
    return (weft_ctx *)dst_area;
}

weft_team *__wrap_weft_team_world(weft_job *job);
weft_team *__wrap_weft_team_world(weft_job *job)
{
    return (weft_team *)flag_area;
}

weft_team *__wrap_weft_team_node(weft_job *job);
weft_team *__wrap_weft_team_node(weft_job *job)
{
    return (weft_team *)line_area;
}

int __wrap_weft_my_pe(const weft_job *job);
int __wrap_weft_my_pe(const weft_job *job)
{
    return 4;
}

int __wrap_weft_n_pes(const weft_job *job);
int __wrap_weft_n_pes(const weft_job *job)
{
    return job_pes;
}

int __wrap_weft_team_my_pe(const weft_team *team);
int __wrap_weft_team_my_pe(const weft_team *team)
{
    assert_ptr_equal(team, line_area);
    return local_pe;
}

int __wrap_weft_team_n_pes(const weft_team *team);
int __wrap_weft_team_n_pes(const weft_team *team)
{
    assert_ptr_equal(team, line_area);
    return local_pes;
}

static const char *path_name;

weft_status __wrap_weft_path_query(weft_job *job, int pe, weft_path_info *info);
weft_status __wrap_weft_path_query(weft_job *job, int pe, weft_path_info *info)
{
    assert_int_equal(info->size, sizeof *info);
    info->name = path_name;
    return call("path to %d of %s", pe, info->kind == WEFT_GPU ? "GPU" : "host");
}

int __wrap_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
    *set = allowed;
    return no_affinity ? -1 : 0;
}

int __wrap_sched_setaffinity(pid_t pid, size_t bytes, const cpu_set_t *set);
int __wrap_sched_setaffinity(pid_t pid, size_t bytes, const cpu_set_t *set)
{
    assert_int_equal(CPU_COUNT(set), 1);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, set))
            call("CPU %d", cpu);
    return 0;
}

void bench_device_set_target(const struct bench_options *o)
{
    call("tell the device");
}

weft_status bench_device_prepare(struct bench *b)
{
    return call("prepare the device");
}

/* With one PE there is nothing to combine. */
weft_status bench_combine_bits(struct bench *b, uint64_t *bits)
{
    return call("combine");
}

weft_status bench_floors_measure(struct bench *b)
{
    return call("floors");
}

static void joining_and_leaving(void **state)
{
    static const int pairs[][4] = {
        {3, -1, 5, 1}, {3, 2, 5, 2}, {0, -1, 1, 0}, {0, -1, 2, 1}, {0, 0, 2, 0}};
    for (int i = 0; i < 5; i++) {
        made_bench(1, 4, 1, 2);
        options.from = pairs[i][0];
        options.to = pairs[i][1];
        job_pes = pairs[i][2];
        assert_int_equal(bench_open(&bench, &options), WEFT_OK);
        expect_log("tell the device\ninit\n");
        assert_ptr_equal(bench.options, &options);
        assert_ptr_equal(bench.job, src_area);
        assert_ptr_equal(bench.ctx, dst_area);
        assert_ptr_equal(bench.world, flag_area);
        assert_int_equal(bench.me, 4);
        assert_int_equal(bench.n, job_pes);
        assert_int_equal(bench.from, pairs[i][0]);
        assert_int_equal(bench.to, pairs[i][3]);
    }
    fails_at = 1;
    assert_int_equal(bench_open(&bench, &options), WEFT_ERR_SYSTEM);
    assert_null(bench.ctx);
    made_bench(1, 4, 1, 2);
    assert_int_equal(bench_close(&bench), WEFT_OK);
    expect_log("free flags\nfree lines\nfree control\nfinalize\n");
    for (fails_at = 0; fails_at < 4; fails_at++) {
        forget_log();
        assert_int_equal(bench_close(&bench), WEFT_ERR_SYSTEM);
        assert_int_equal(calls, fails_at + 1);
    }
}

static void what_is_prepared(void **state)
{
    char expected[400];
    made_bench(1, 4, 1, 2);
    given[0] = control_area;
    given[1] = line_area;
    given[2] = flag_area;
    path_name = "p2p";
    for (int gpu = 0; gpu < 2; gpu++) {
        options.memory = gpu ? MEMORY_GPU : MEMORY_HOST;
        bench.control = NULL;
        bench.lines = bench.flags = NULL;
        n_given = 0;
        assert_int_equal(bench_prepare(&bench), WEFT_OK);
        unsigned hints = WEFT_ALLOC_ZERO;
        snprintf(
            expected, sizeof expected,
            "alloc host 16, 0, 0\nalloc host 512, 4096, %x\nalloc %s 512, 4096, %x\npath to 2 of "
            "%s\nfloors\nprepare the device\n",
            hints, gpu ? "GPU" : "host", hints, gpu ? "GPU" : "host");
        expect_log(expected);
        assert_ptr_equal(bench.control, control_area);
        assert_ptr_equal(bench.lines, line_area);
        assert_ptr_equal(bench.flags, flag_area);
        assert_string_equal(bench.path, "p2p");
    }
    path_name = NULL;
    n_given = 0;
    bench_prepare(&bench);
    assert_string_equal(bench.path, "");
    for (fails_at = 0; fails_at < 6; fails_at++) {
        n_given = 0;
        forget_log();
        assert_int_equal(bench_prepare(&bench), WEFT_ERR_SYSTEM);
        assert_int_equal(calls, fails_at + 1);
    }
}

/* expected "": the PE is not bound. */
static void expect_bound(int pe, int pes, const char *expected)
{
    local_pe = pe;
    local_pes = pes;
    n_given = 0;
    forget_log();
    assert_int_equal(bench_prepare(&bench), WEFT_OK);
    if (*expected)
        assert_memory_equal(call_log, expected, strlen(expected));
    else
        assert_memory_equal(call_log, "alloc", 5);
}

static void each_pe_gets_a_cpu(void **state)
{
    made_bench(1, 4, 1, 2);
    options.bind = true;
    options.scope = SCOPE_HOST;
    CPU_ZERO(&allowed);
    CPU_SET(2, &allowed);
    CPU_SET(5, &allowed);
    CPU_SET(9, &allowed);
    expect_bound(0, 3, "CPU 2\nalloc");
    expect_bound(1, 3, "CPU 5\nalloc");
    expect_bound(2, 3, "CPU 9\nalloc");
    expect_bound(0, 4, ""); /* too few CPUs */
    no_affinity = true;
    expect_bound(0, 3, "");
    no_affinity = false;
    options.scope = SCOPE_WARP;
    expect_bound(0, 3, "");
    options.scope = SCOPE_HOST;
    options.bind = false;
    expect_bound(0, 3, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collectives_are_timed), cmocka_unit_test(collectives_are_checked),
        cmocka_unit_test(sums_are_checked),      cmocka_unit_test(atomics_are_timed),
        cmocka_unit_test(atomics_are_checked),   cmocka_unit_test(bits_of_many_pes),
        cmocka_unit_test(joining_and_leaving),   cmocka_unit_test(what_is_prepared),
        cmocka_unit_test(each_pe_gets_a_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
