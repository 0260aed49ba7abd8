/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of the host benchmarks (cli/bench): the library and the clock are mocks, and each call
 * writes a line to a log. The linker option --wrap replaces the library's functions. */
#ifndef WEFT_TESTS_CLI_BENCH_CALLS_H
#define WEFT_TESTS_CLI_BENCH_CALLS_H

#include "bench/bench.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Lets AddressSanitizer return NULL for an allocation that is too large. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

/* ------------------------------------------------------------------------ replaces the library */

enum { AREA = 1 << 16 };

static char src_area[AREA], dst_area[AREA], flag_area[AREA], line_area[AREA];
static double control_area[2];
static struct bench_options options;
static struct bench bench;
static struct bench_case kase;

static char call_log[1 << 20];
static size_t logged;
static int calls, fails_at; /* number of the call that fails; -1: none */
static uint64_t now_ns, step_ns;
static int late; /* clock readings during which a PE is late */

__attribute__((format(printf, 1, 2))) static weft_status call(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    logged += (size_t)vsnprintf(call_log + logged, sizeof call_log - logged, format, arguments);
    va_end(arguments);
    assert_true(logged + 200 < sizeof call_log);
    bool fails = calls++ == fails_at;
    logged += (size_t)sprintf(call_log + logged, "%s\n", fails ? ", fails" : "");
    return fails ? WEFT_ERR_SYSTEM : WEFT_OK;
}

__attribute__((unused)) static void forget_log(void)
{
    *call_log = '\0';
    logged = 0;
    calls = 0;
}

#define expect_log(text)                                                                           \
    do {                                                                                           \
        assert_string_equal(call_log, text);                                                       \
        forget_log();                                                                              \
    } while (0)

/* Returns the name and offset, such as "dst+8". */
__attribute__((unused)) static const char *where(const void *at)
{
    static char texts[4][40];
    static int turn;
    const struct {
        const char *name;
        const char *from;
    } areas[] = {{"src", src_area},
                 {"dst", dst_area},
                 {"flags", flag_area},
                 {"lines", line_area},
                 {"control", (const char *)control_area}};
    char *text = texts[turn++ % 4];
    for (int i = 0; i < 5; i++) {
        ptrdiff_t off = (const char *)at - areas[i].from;
        if (off < 0 || off >= (i == 4 ? 16 : AREA))
            continue;
        snprintf(text, sizeof texts[0], off ? "%s+%d" : "%s", areas[i].name, (int)off);
        return text;
    }
    return "own";
}

uint64_t bench_now_ns(void)
{
    now_ns += step_ns;
    return now_ns;
}

__attribute__((weak)) double bench_units(const struct bench_options *o, const struct bench_entry *e)
{
    return e->by_units ? 5 : 1;
}

static void *given[8]; /* returned by weft_alloc() in turn */
static int n_given;

weft_status __wrap_weft_alloc(weft_job *job, weft_kind kind, size_t bytes, size_t align,
                              unsigned flags, void **address);
weft_status __wrap_weft_alloc(weft_job *job, weft_kind kind, size_t bytes, size_t align,
                              unsigned flags, void **address)
{
    weft_status status =
        call("alloc %s %zu, %zu, %x", kind == WEFT_GPU ? "GPU" : "host", bytes, align, flags);
    if (!status)
        *address = given[n_given++];
    return status;
}

weft_status __wrap_weft_free(weft_job *job, void *address);
weft_status __wrap_weft_free(weft_job *job, void *address)
{
    return call("free %s", where(address));
}

weft_status __wrap_weft_barrier(weft_team *team);
weft_status __wrap_weft_barrier(weft_team *team)
{
    return call("barrier");
}

weft_status __wrap_weft_sync(weft_team *team);
weft_status __wrap_weft_sync(weft_team *team)
{
    return call("sync");
}

static double reduced_by = 1; /* added to each reduced value */

weft_status __wrap_weft_allreduce(weft_team *team, void *dst, const void *src, size_t n,
                                  weft_type type, weft_op op);
weft_status __wrap_weft_allreduce(weft_team *team, void *dst, const void *src, size_t n,
                                  weft_type type, weft_op op)
{
    static const char *const ops[] = {
        [WEFT_SUM] = "sum", [WEFT_MIN] = "min", [WEFT_MAX] = "max", [WEFT_XOR] = "xor"};
    weft_status status;
    if (type == WEFT_DOUBLE) {
        status =
            call("%s of %g from %s to %s", ops[op], *(const double *)src, where(src), where(dst));
        *(double *)dst = *(const double *)src + reduced_by;
    } else {
        status = call("%s of %zu of type %d from %s to %s", ops[op], n, (int)type, where(src),
                      where(dst));
        if (op == WEFT_XOR)
            *(uint64_t *)dst = *(const uint64_t *)src ^ 0xf0;
    }
    return status;
}

static void (*on_get)(void *to, const void *from, size_t bytes, int pe);

weft_status __wrap_weft_put(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe);
weft_status __wrap_weft_put(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe)
{
    uint64_t word = 0;
    if (bytes == 8)
        memcpy(&word, src, 8);
    if (pe == bench.me)
        memmove(dst, src, bytes);
    return word && word < 1000
               ? call("put %d at %s of %d", (int)word, where(dst), pe)
               : call("put %zu from %s to %s of %d", bytes, where(src), where(dst), pe);
}

weft_status __wrap_weft_get(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe);
weft_status __wrap_weft_get(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe)
{
    weft_status status = call("get %zu from %s of %d to %s", bytes, where(src), pe, where(dst));
    if (on_get)
        on_get(dst, src, bytes, pe);
    else if (pe == bench.me)
        memmove(dst, src, bytes);
    return status;
}

weft_status __wrap_weft_quiet(weft_ctx *ctx);
weft_status __wrap_weft_quiet(weft_ctx *ctx)
{
    return call("quiet");
}

weft_status __wrap_weft_p64(weft_ctx *ctx, void *dst, uint64_t value, int pe);
weft_status __wrap_weft_p64(weft_ctx *ctx, void *dst, uint64_t value, int pe)
{
    if (pe == bench.me)
        memcpy(dst, &value, 8);
    return call("p %llx at %s of %d", (unsigned long long)value, where(dst), pe);
}

weft_status __wrap_weft_g64(weft_ctx *ctx, const void *src, uint64_t *value, int pe);
weft_status __wrap_weft_g64(weft_ctx *ctx, const void *src, uint64_t *value, int pe)
{
    weft_status status = call("g %s of %d", where(src), pe);
    if (on_get)
        on_get(value, src, 8, pe);
    else
        memcpy(value, src, 8);
    return status;
}

weft_status __wrap_weft_put_signal(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                                   uint64_t *signal, uint64_t value, weft_signal_op op, int pe);
weft_status __wrap_weft_put_signal(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                                   uint64_t *signal, uint64_t value, weft_signal_op op, int pe)
{
    if (pe == bench.me)
        memcpy(dst, src, bytes);
    return call("put %zu from %s to %s, %s %d in %s of %d", bytes, where(src), where(dst),
                op == WEFT_SIGNAL_SET ? "set" : "?", (int)value, where(signal), pe);
}

static void (*on_wait)(const void *flag, uint64_t value);

weft_status __wrap_weft_wait_until(weft_ctx *ctx, weft_type type, const void *ivar, weft_cmp cmp,
                                   uint64_t value);
weft_status __wrap_weft_wait_until(weft_ctx *ctx, weft_type type, const void *ivar, weft_cmp cmp,
                                   uint64_t value)
{
    assert_int_equal(type, WEFT_UINT64);
    if (on_wait)
        on_wait(ivar, value);
    return call("wait for %s %d in %s", cmp == WEFT_EQ ? "=" : "?", (int)value, where(ivar));
}

weft_status __wrap_weft_signal_wait(weft_ctx *ctx, const uint64_t *signal, weft_cmp cmp,
                                    uint64_t value, uint64_t *seen);
weft_status __wrap_weft_signal_wait(weft_ctx *ctx, const uint64_t *signal, weft_cmp cmp,
                                    uint64_t value, uint64_t *seen)
{
    assert_null(seen);
    if (on_wait)
        on_wait(signal, value);
    return call("signal %s %d in %s", cmp == WEFT_EQ ? "=" : "?", (int)value, where(signal));
}

void *__wrap_weft_ptr(const weft_job *job, const void *symmetric, int pe);
static char *peers_place; /* returned by weft_ptr() */
void *__wrap_weft_ptr(const weft_job *job, const void *symmetric, int pe)
{
    call("address of %s of %d", where(symmetric), pe);
    return peers_place;
}

int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
    late++;
    return 0;
}

/* PE `me` of n; PE `from` acts on `to`. */
__attribute__((unused)) static void made_bench(int me, int n, int from, int to)
{
    memset(&options, 0, sizeof options);
    options.memory = MEMORY_HOST;
    options.verify = true;
    bench = (struct bench){.options = &options,
                           .me = me,
                           .n = n,
                           .from = from,
                           .to = to,
                           .path = "path",
                           .control = control_area,
                           .lines = (uint64_t *)(void *)line_area,
                           .flags = (uint64_t *)(void *)flag_area,
                           .rounds = 3};
    kase = (struct bench_case){.bytes = 24, .src = src_area, .dst = dst_area};
    forget_log();
    fails_at = -1;
    now_ns = 0;
    step_ns = 10;
    on_get = NULL;
    on_wait = NULL;
    reduced_by = 0;
    n_given = 0;
    late = 0;
    memset(dst_area, 0, sizeof dst_area);
    memset(src_area, 0, sizeof src_area);
    memset(flag_area, 0, sizeof flag_area);
    memset(line_area, 0, sizeof line_area);
}

typedef weft_status (*run_function)(struct bench *bench, struct bench_case *c, uint64_t iterations,
                                    double *ns);
typedef weft_status (*check_function)(struct bench *bench, struct bench_case *c, bool *right);

/* Runs three iterations with initial `ns` = 5, then again with each call failing in turn. */
__attribute__((unused)) static void expect_run(run_function run, double expected_ns,
                                               const char *expected)
{
    double ns = 5;
    assert_int_equal(run(&bench, &kase, 3, &ns), WEFT_OK);
    assert_true(ns == expected_ns);
    int all = calls;
    uint64_t rounds = bench.rounds;
    expect_log(expected);
    for (fails_at = 0; fails_at < all; fails_at++) {
        assert_int_equal(run(&bench, &kase, 3, &ns), WEFT_ERR_SYSTEM);
        assert_int_equal(calls, fails_at + 1);
        forget_log();
    }
    fails_at = -1;
    bench.rounds = rounds;
}

/* Checks that a failure of each of its first `least` calls ends the check and is returned. */
__attribute__((unused)) static void expect_check_fails(check_function check, int least)
{
    bool right = true;
    for (fails_at = 0; fails_at < least; fails_at++) {
        forget_log();
        assert_int_equal(check(&bench, &kase, &right), WEFT_ERR_SYSTEM);
        assert_int_equal(calls, fails_at + 1);
    }
    fails_at = -1;
    forget_log();
}

__attribute__((unused)) static bool checked(check_function check)
{
    bool right = true;
    forget_log();
    assert_int_equal(check(&bench, &kase, &right), WEFT_OK);
    return right;
}

__attribute__((unused)) static void expect_begin_and_end(const char *begin, const char *end,
                                                         int count)
{
    if (strncmp(call_log, begin, strlen(begin)) != 0)
        fail_msg("%.600s\ndoes not begin with\n%s", call_log, begin);
    if (logged < strlen(end) || strcmp(call_log + logged - strlen(end), end) != 0)
        fail_msg("%s\ndoes not end with\n%s", call_log + (logged > 600 ? logged - 600 : 0), end);
    assert_int_equal(calls, count);
    forget_log();
}

#endif
