/* SPDX-License-Identifier: Apache-2.0 */
/* The benchmarks of `weft bench` that launch kernels or queue on streams (device.c, device_rma.c,
 * device_latency.c, device_stream.c): the grid and arguments of each kernel, the order of launches
 * and library calls, and what the benchmarks compute from the kernels' records. */
#include "bench_calls.h"

#include "bench/device/device.h"
#include "tool/tool.h"

#include <weft/device/control.h>
#include <weft/stream.h>

/* --------------------------------------------------------------------------------- mock kernels */

static char times_area[BENCH_CTAS_MAX * sizeof(struct device_times)], words_area[4096];
static int made_stream;

static weft_status launched(const char *name, weft_dim3 grid, weft_dim3 block, size_t shared,
                            weft_stream stream)
{
    assert_int_equal(shared, 0);
    assert_ptr_equal(stream, &made_stream);
    assert_int_equal(grid.y * grid.z * block.y * block.z, 1);
    return call("%s %u x %u", name, grid.x, block.x);
}

static const char *place(const void *at)
{
    ptrdiff_t off = (const char *)at - words_area;
    static char text[2][40];
    static int turn;
    if (off < 0 || off >= (ptrdiff_t)sizeof words_area)
        return (const char *)at == times_area ? "times" : where(at);
    return snprintf(text[turn++ % 2], 40, "words+%d", (int)off) ? text[(turn - 1) % 2] : "";
}

#define LAUNCHED(name) launched(name, weft_grid, weft_block, weft_shared, weft_on)
#define MORE(...)                                                                                  \
    do {                                                                                           \
        logged--; /* append to the same line */                                                    \
        call_log[logged] = '\0';                                                                   \
        logged += (size_t)sprintf(call_log + logged, __VA_ARGS__);                                 \
        logged += (size_t)sprintf(call_log + logged, "\n");                                        \
    } while (0)

#define SCOPED(scope)                                                                              \
    weft_status weft_launch_ping_signal_##scope(                                                   \
        WEFT_LAUNCH_PARAMS, uint64_t *dst, uint64_t *src, size_t bytes, uint64_t *signal,          \
        int first, int peer, uint64_t base, uint64_t warm, uint64_t rounds, int verify,            \
        struct device_times *times)                                                                \
    {                                                                                              \
        weft_status status = LAUNCHED("ping_signal_" #scope);                                      \
        MORE(": %s %s %zu %s, %d %d, %d %d %d, %d %s", place(dst), place(src), bytes,              \
             place(signal), first, peer, (int)base, (int)warm, (int)rounds, verify, place(times)); \
        return status;                                                                             \
    }                                                                                              \
    weft_status weft_launch_ping_packet_##scope(WEFT_LAUNCH_PARAMS, uint64_t *dst, uint64_t *src,  \
                                                size_t bytes, char *buffers, int first, int peer,  \
                                                uint64_t base, uint64_t warm, uint64_t rounds,     \
                                                int verify, struct device_times *times)            \
    {                                                                                              \
        weft_status status = LAUNCHED("ping_packet_" #scope);                                      \
        MORE(": %s %s %zu %s, %d %d, %d %d %d, %d %s", place(dst), place(src), bytes,              \
             place(buffers), first, peer, (int)base, (int)warm, (int)rounds, verify,               \
             place(times));                                                                        \
        return status;                                                                             \
    }                                                                                              \
    weft_status weft_launch_put_rate_##scope(WEFT_LAUNCH_PARAMS, char *dst, char *src,             \
                                             size_t bytes, uint64_t slots, int peer,               \
                                             uint64_t rounds, struct device_times *times)          \
    {                                                                                              \
        weft_status status = LAUNCHED("put_rate_" #scope);                                         \
        MORE(": %s %s %zu, %d slots, %d, %d %s", place(dst), place(src), bytes, (int)slots, peer,  \
             (int)rounds, place(times));                                                           \
        return status;                                                                             \
    }                                                                                              \
    weft_status weft_launch_get_rate_##scope(WEFT_LAUNCH_PARAMS, char *dst, char *src,             \
                                             size_t bytes, uint64_t slots, int peer,               \
                                             uint64_t rounds, struct device_times *times)          \
    {                                                                                              \
        weft_status status = LAUNCHED("get_rate_" #scope);                                         \
        MORE(": %s %s %zu, %d slots, %d, %d %s", place(dst), place(src), bytes, (int)slots, peer,  \
             (int)rounds, place(times));                                                           \
        return status;                                                                             \
    }                                                                                              \
    weft_status weft_launch_meet_##scope(WEFT_LAUNCH_PARAMS, int what, uint64_t warm,              \
                                         uint64_t rounds, struct device_times *times)              \
    {                                                                                              \
        weft_status status = LAUNCHED("meet_" #scope);                                             \
        MORE(": %d, %d %d %s", what, (int)warm, (int)rounds, place(times));                        \
        return status;                                                                             \
    }                                                                                              \
    weft_status weft_launch_check_meet_##scope(WEFT_LAUNCH_PARAMS, int what, uint64_t *slots,      \
                                               uint64_t base, uint64_t rounds,                     \
                                               struct device_times *times)                         \
    {                                                                                              \
        weft_status status = LAUNCHED("check_meet_" #scope);                                       \
        MORE(": %d %s, %d %d %s", what, place(slots), (int)base, (int)rounds, place(times));       \
        return status;                                                                             \
    }
DEVICE_SCOPES(SCOPED)

weft_status weft_launch_ping_p(WEFT_LAUNCH_PARAMS, uint64_t *flag, int first, int peer,
                               uint64_t base, uint64_t warm, uint64_t rounds,
                               struct device_times *times)
{
    weft_status status = LAUNCHED("ping_p");
    MORE(": %s, %d %d, %d %d %d %s", place(flag), first, peer, (int)base, (int)warm, (int)rounds,
         place(times));
    return status;
}

weft_status weft_launch_p_rate(WEFT_LAUNCH_PARAMS, uint64_t *dst, unsigned bits, int scattered,
                               int peer, uint64_t rounds, struct device_times *times)
{
    weft_status status = LAUNCHED("p_rate");
    MORE(": %s %u bits%s, %d, %d %s", place(dst), bits, scattered ? " scattered" : "", peer,
         (int)rounds, place(times));
    return status;
}

weft_status weft_launch_g_rate(WEFT_LAUNCH_PARAMS, uint64_t *src, unsigned bits, int scattered,
                               int peer, uint64_t rounds, struct device_times *times)
{
    weft_status status = LAUNCHED("g_rate");
    MORE(": %s %u bits%s, %d, %d %s", place(src), bits, scattered ? " scattered" : "", peer,
         (int)rounds, place(times));
    return status;
}

weft_status weft_launch_atomic_latency(WEFT_LAUNCH_PARAMS, uint64_t *word, int what, int peer,
                                       uint64_t rounds, struct device_times *times)
{
    weft_status status = LAUNCHED("atomic_latency");
    MORE(": %s %d, %d, %d %s", place(word), what, peer, (int)rounds, place(times));
    return status;
}

weft_status weft_launch_atomic_rate(WEFT_LAUNCH_PARAMS, uint64_t *words, unsigned bits, int peer,
                                    uint64_t rounds, struct device_times *times)
{
    weft_status status = LAUNCHED("atomic_rate");
    MORE(": %s %u bits, %d, %d %s", place(words), bits, peer, (int)rounds, place(times));
    return status;
}

weft_status weft_launch_fill_words(WEFT_LAUNCH_PARAMS, uint64_t *words, size_t n, uint64_t seed)
{
    weft_status status = LAUNCHED("fill");
    MORE(": %s %zu, %d", place(words), n, (int)seed);
    return status;
}

weft_status weft_launch_check_bytes(WEFT_LAUNCH_PARAMS, char *bytes, size_t n, size_t shift,
                                    uint64_t seed, uint64_t *wrong)
{
    weft_status status = LAUNCHED("check");
    MORE(": %s %zu from %zu, %d, %s", place(bytes), n, shift, (int)seed, place(wrong));
    return status;
}

/* ------------------------------------------------------------------------- more of the library */

static bool proxy_named;

bool bench_names_proxy(const struct bench_options *o)
{
    return proxy_named;
}

weft_status __wrap_weft_stream_create(weft_stream *stream);
weft_status __wrap_weft_stream_create(weft_stream *stream)
{
    *stream = &made_stream;
    return call("create the stream");
}

weft_status __wrap_weft_stream_synchronize(weft_stream stream);
weft_status __wrap_weft_stream_synchronize(weft_stream stream)
{
    assert_ptr_equal(stream, &made_stream);
    return call("synchronize");
}

weft_status __wrap_weft_device_start(weft_job *job);
weft_status __wrap_weft_device_start(weft_job *job)
{
    return call("start the device");
}

weft_status __wrap_weft_device_queue_mode(weft_job *job, weft_queue_mode mode, int *blocks);
weft_status __wrap_weft_device_queue_mode(weft_job *job, weft_queue_mode mode, int *blocks)
{
    assert_int_equal(mode, options.queues);
    assert_null(blocks);
    return call("share the queues");
}

weft_status __wrap_weft_device_check(weft_job *job);
weft_status __wrap_weft_device_check(weft_job *job)
{
    return call("check the device");
}

static weft_kind kind = WEFT_HOST;

weft_kind __wrap_weft_device_kind(const weft_job *job);
weft_kind __wrap_weft_device_kind(const weft_job *job)
{
    return kind;
}

static weft_target target;

weft_target __wrap_weft_target_get(void);
weft_target __wrap_weft_target_get(void)
{
    return target;
}

static int events; /* created and not destroyed */

weft_status __wrap_weft_event_create(weft_event *event);
weft_status __wrap_weft_event_create(weft_event *event)
{
    *event = words_area + ++events;
    return call("create event %d", events);
}

static int event_number(weft_event event)
{
    return event ? (int)((char *)event - words_area) : 0;
}

weft_status __wrap_weft_event_destroy(weft_event event);
weft_status __wrap_weft_event_destroy(weft_event event)
{
    events--;
    return call("destroy event %d", event_number(event));
}

weft_status __wrap_weft_event_record(weft_event event, weft_stream stream);
weft_status __wrap_weft_event_record(weft_event event, weft_stream stream)
{
    assert_ptr_equal(stream, &made_stream);
    return call("record event %d", event_number(event));
}

weft_status __wrap_weft_event_synchronize(weft_event event);
weft_status __wrap_weft_event_synchronize(weft_event event)
{
    return call("synchronize event %d", event_number(event));
}

weft_status __wrap_weft_event_elapsed(weft_event start, weft_event end, uint64_t *ns);
weft_status __wrap_weft_event_elapsed(weft_event start, weft_event end, uint64_t *ns)
{
    *ns = 77;
    return call("elapsed from event %d to %d", event_number(start), event_number(end));
}

weft_status __wrap_weft_put_on_stream(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                                      int pe, weft_stream stream);
weft_status __wrap_weft_put_on_stream(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                                      int pe, weft_stream stream)
{
    return call("queue put %zu from %s to %s of %d", bytes, where(src), where(dst), pe);
}

weft_status __wrap_weft_get_on_stream(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                                      int pe, weft_stream stream);
weft_status __wrap_weft_get_on_stream(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                                      int pe, weft_stream stream)
{
    return call("queue get %zu from %s of %d to %s", bytes, where(src), pe, where(dst));
}

weft_status __wrap_weft_quiet_on_stream(weft_ctx *ctx, weft_stream stream);
weft_status __wrap_weft_quiet_on_stream(weft_ctx *ctx, weft_stream stream)
{
    return call("queue quiet");
}

weft_status __wrap_weft_barrier_on_stream(weft_team *team, weft_stream stream);
weft_status __wrap_weft_barrier_on_stream(weft_team *team, weft_stream stream)
{
    return call("queue barrier");
}

/* --------------------------------------------------------------------------------- the device */

static struct bench_device device;
static struct device_times noted[8]; /* records of the blocks of a kernel */
static uint64_t found_wrong;         /* wrong words that a memory check finds */
static uint64_t sums[2];             /* of the words, before and after */
static int sum_turn;

static void device_memory(void *to, const void *from, size_t bytes, int pe)
{
    if (from == times_area)
        memcpy(to, noted, bytes);
    else if (from == words_area + 512)
        memcpy(to, &found_wrong, bytes);
    else { /* the first word gets the sum of all */
        memset(to, 0, bytes);
        memcpy(to, &sums[sum_turn++ % 2], 8);
    }
}

static void made_device(int me, enum bench_scope scope)
{
    made_bench(me, 4, 1, 2);
    options.scope = scope;
    options.target = TARGET_SIMT;
    options.ctas = 3;
    options.threads = 70;
    device = (struct bench_device){.stream = &made_stream,
                                   .times = (struct device_times *)(void *)times_area,
                                   .flag = (uint64_t *)(void *)words_area,
                                   .wrong = (uint64_t *)(void *)(words_area + 512),
                                   .base = 1000};
    bench.device = &device;
    memset(noted, 0, sizeof noted);
    for (int i = 0; i < 3; i++) {
        noted[i].start = 500 + 10 * (uint64_t)(i != 1);
        noted[i].end = 700 + 10 * (uint64_t)(i == 1);
    }
    found_wrong = 0;
    sum_turn = 0;
    events = 0;
    on_get = device_memory;
}

static void where_it_says_times(void)
{
    /* The times are in no area of bench_calls.h; name them TIM. */
    char *at;
    while ((at = strstr(call_log, "from own of")))
        memcpy(at, "from TIM of", 11);
}

/* Runs six iterations with initial `ns` = 5, then again with each call failing in turn. */
static void expect_device_run(run_function run, double expected_ns, const char *expected)
{
    double ns = 5;
    assert_int_equal(run(&bench, &kase, 6, &ns), WEFT_OK);
    assert_true(ns == expected_ns);
    int all = calls;
    where_it_says_times();
    uint64_t base = device.base;
    expect_log(expected);
    for (fails_at = 0; fails_at < all; fails_at++) {
        events = 0;
        assert_int_equal(run(&bench, &kase, 6, &ns), WEFT_ERR_SYSTEM);
        assert_int_equal(calls, fails_at + 1);
        forget_log();
    }
    fails_at = -1;
    device.base = base;
}

static void expect_device_check(check_function check, bool right, const char *expected)
{
    bool is = true;
    forget_log();
    sum_turn = 0;
    uint64_t base = device.base;
    assert_int_equal(check(&bench, &kase, &is), WEFT_OK);
    assert_int_equal(is, right);
    int all = calls;
    where_it_says_times();
    if (expected)
        expect_log(expected);
    for (fails_at = 0; fails_at < all; fails_at++) {
        forget_log();
        sum_turn = events = 0;
        assert_int_equal(check(&bench, &kase, &is), WEFT_ERR_SYSTEM);
        assert_int_equal(calls, fails_at + 1);
    }
    fails_at = -1;
    sum_turn = 0;
    device.base = base;
    forget_log();
}

static void expect_first(const char *line)
{
    assert_memory_equal(call_log, line, strlen(line));
    forget_log();
}

static void what_is_chosen(void **state)
{
    for (int cuda = 0; cuda < 2; cuda++) {
        struct bench_options o = {
            .scope = SCOPE_WARP, .target = TARGET_COUNT, .memory = MEMORY_COUNT};
        target = cuda ? WEFT_CUDA : WEFT_SIMT;
        bench_device_choose(&o);
        assert_int_equal(o.target, cuda ? TARGET_CUDA : TARGET_SIMT);
        assert_int_equal(o.memory, cuda ? MEMORY_GPU : MEMORY_HOST);
        assert_int_equal(o.threads, cuda ? 1024 : 64);
        assert_int_equal(o.n_ctas, 1);
        assert_int_equal(o.ctas_list[0], 1);
        assert_int_equal(o.ctas, 1);
        o = (struct bench_options){
            .scope = SCOPE_HOST, .target = TARGET_COUNT, .memory = MEMORY_COUNT};
        bench_device_choose(&o);
        assert_int_equal(o.target, TARGET_HOST);
        assert_int_equal(o.memory, MEMORY_HOST);
        assert_int_equal(o.threads, 0);
        bench_device_set_target(
            &(struct bench_options){.target = cuda ? TARGET_CUDA : TARGET_HOST});
        assert_string_equal(getenv("WEFT_TARGET"), cuda ? "cuda" : "simt");
    }
    struct bench_options o = {.scope = SCOPE_HOST, .target = TARGET_CUDA, .memory = MEMORY_GPU};
    bench_device_choose(&o);
    assert_int_equal(o.target, TARGET_CUDA);
    assert_int_equal(o.memory, MEMORY_GPU);
    o = (struct bench_options){.scope = SCOPE_BLOCK,
                               .target = TARGET_SIMT,
                               .memory = MEMORY_GPU,
                               .threads = 96,
                               .n_ctas = 2,
                               .ctas_list = {5, 6}};
    bench_device_choose(&o);
    assert_int_equal(o.target, TARGET_SIMT);
    assert_int_equal(o.memory, MEMORY_GPU);
    assert_int_equal(o.threads, 96);
    assert_int_equal(o.n_ctas, 2);
    assert_int_equal(o.ctas, 5);
    unsetenv("WEFT_TEST_PROXY");
    bench_device_set_target(&o);
    assert_null(getenv("WEFT_TEST_PROXY"));
    proxy_named = true;
    bench_device_set_target(&o);
    assert_string_equal(getenv("WEFT_TEST_PROXY"), "always");
    unsetenv("WEFT_TEST_PROXY");
    unsetenv("WEFT_TARGET");
    config_reset();
}

static void the_device_is_prepared(void **state)
{
    char expected[300];
    made_device(1, SCOPE_HOST);
    assert_int_equal(bench_device_prepare(&bench), WEFT_OK);
    expect_log("");
    for (int gpu = 0; gpu < 2; gpu++) {
        options.scope = SCOPE_WARP;
        kind = gpu ? WEFT_GPU : WEFT_HOST;
        given[0] = times_area;
        given[1] = words_area;
        n_given = 0;
        bench.device = NULL;
        assert_int_equal(bench_device_prepare(&bench), WEFT_OK);
        snprintf(expected, sizeof expected,
                 "start the device\nshare the queues\nalloc %s %zu, 4096, %x\nalloc %s 4096, 4096, "
                 "%x\ncreate the "
                 "stream\n",
                 gpu ? "GPU" : "host", sizeof times_area, WEFT_ALLOC_ZERO, gpu ? "GPU" : "host",
                 WEFT_ALLOC_ZERO);
        expect_log(expected);
        assert_ptr_equal(bench.device->times, times_area);
        assert_ptr_equal(bench.device->flag, words_area);
        assert_ptr_equal(bench.device->wrong, words_area + 512);
        assert_ptr_equal(bench.device->stream, &made_stream);
    }
    for (fails_at = 0; fails_at < 5; fails_at++) {
        n_given = 0;
        forget_log();
        assert_int_equal(bench_device_prepare(&bench), WEFT_ERR_SYSTEM);
        assert_int_equal(calls, fails_at + 1);
        if (fails_at < 4)
            assert_int_equal(bench.device->wrong != NULL, 0);
    }
    kind = WEFT_HOST;
}

static void units_of_a_scope(void **state)
{
    static const struct {
        enum bench_scope scope;
        double units;
        unsigned threads;
    } rows[] = {{SCOPE_THREAD, 210, 1}, {SCOPE_WARP, 9, 32}, {SCOPE_BLOCK, 3, 70}};
    for (int i = 0; i < 3; i++) {
        struct bench_entry entry = {.by_units = true};
        made_device(1, rows[i].scope);
        assert_true(bench_units(&options, &entry) == rows[i].units);
        assert_int_equal(device_unit_threads(&bench), rows[i].threads);
        entry.by_units = false;
        assert_true(bench_units(&options, &entry) == 1);
    }
    options.scope = SCOPE_WARP;
    options.threads = 64;
    struct bench_entry entry = {.by_units = true};
    assert_true(bench_units(&options, &entry) == 6);
}

static void what_kernels_note(void **state)
{
    char expected[300];
    double ns = 5;
    uint64_t wrong = 9;
    made_device(1, SCOPE_WARP);
    noted[0].wrong = 2;
    noted[2].wrong = 3;
    noted[3].wrong = 100; /* not a block of this grid */
    assert_int_equal(device_finish(&bench, 3, &ns, &wrong), WEFT_OK);
    where_it_says_times();
    snprintf(expected, sizeof expected,
             "synchronize\ncheck the device\nget %zu from TIM of 1 to own\n", 3 * sizeof noted[0]);
    expect_log(expected);
    assert_true(ns == 5 + 210);
    assert_int_equal(wrong, 5);
    noted[1].status = WEFT_ERR_RANGE;
    assert_int_equal(device_finish(&bench, 3, &ns, NULL), WEFT_ERR_RANGE);
    for (fails_at = 0; fails_at < 3; fails_at++) {
        forget_log();
        assert_int_equal(device_finish(&bench, 3, &ns, NULL), WEFT_ERR_SYSTEM);
        assert_int_equal(calls, fails_at + 1);
    }
    fails_at = -1;
    forget_log();
    bool right = false;
    assert_int_equal(device_fill(&bench, dst_area, 17, 4), WEFT_OK);
    assert_int_equal(device_holds(&bench, dst_area, 17, 3, 4, &right), WEFT_OK);
    assert_true(right);
    where_it_says_times();
    expect_log(
        "fill 16 x 64: dst 3, 4\nsynchronize\nput 8 from own to own of 1\nquiet\n"
        "check 16 x 64: dst 17 from 3, 4, words+512\nsynchronize\nget 8 from TIM of 1 to own\n");
    found_wrong = 1;
    device_holds(&bench, dst_area, 17, 3, 4, &right);
    assert_false(right);
    for (fails_at = 0; fails_at < 5; fails_at++) {
        forget_log();
        assert_int_equal(device_holds(&bench, dst_area, 17, 3, 4, &right), WEFT_ERR_SYSTEM);
        assert_int_equal(calls, fails_at + 1);
    }
    for (fails_at = 0; fails_at < 2; fails_at++) {
        forget_log();
        assert_int_equal(device_fill(&bench, dst_area, 17, 4), WEFT_ERR_SYSTEM);
    }
}

/* ------------------------------------------------------------------------------- put, get, p, g */

#define END3 "synchronize\ncheck the device\nget 96 from TIM of 1 to own\n"
#define END1 "synchronize\ncheck the device\nget 32 from TIM of 1 to own\n"

static void moves_are_launched(void **state)
{
    made_device(1, SCOPE_WARP);
    assert_int_equal(sizeof(struct device_times), 32);
    expect_device_run(device_put_run, 215,
                      "put_rate_warp 3 x 70: dst src 24, 1 slots, 2, 6 times\n" END3);
    expect_device_run(device_get_run, 215,
                      "get_rate_warp 3 x 70: dst src 24, 16384 slots, 2, 6 times\n" END3);
    assert_int_equal(device_put_buffer_bytes(&options, 24), 9 * 24 + 8);
    assert_int_equal(device_get_buffer_bytes(&options, 24), 9 * 16384 * 24 + 8);
    made_device(1, SCOPE_THREAD);
    expect_device_run(device_put_run, 215,
                      "put_rate_thread 3 x 70: dst src 24, 1 slots, 2, 6 times\n" END3);
    expect_device_run(device_get_run, 215,
                      "get_rate_thread 3 x 70: dst src 24, 1024 slots, 2, 6 times\n" END3);
    made_device(1, SCOPE_BLOCK);
    kase.bytes = 1 << 20;
    expect_device_run(device_get_run, 215,
                      "get_rate_block 3 x 70: dst src 1048576, 1 slots, 2, 6 times\n" END3);
    made_device(2, SCOPE_BLOCK);
    static const run_function all[] = {device_put_run, device_get_run,         device_p_run,
                                       device_g_run,   device_p_scattered_run, device_fetch_add_run,
                                       device_add_run};
    for (int i = 0; i < 7; i++)
        expect_device_run(all[i], 5, "");
}

static void moves_are_checked(void **state)
{
    made_device(2, SCOPE_WARP); /* receiver */
    expect_device_check(
        device_put_check, true,
        "fill 16 x 64: src 27, 3000\nsynchronize\nfill 16 x 64: dst 27, 7\nsynchronize\n"
        "barrier\nbarrier\nput 8 from own to own of 2\nquiet\n"
        "check 16 x 64: dst 216 from 0, 2000, words+512\nsynchronize\n"
        "get 8 from TIM of 2 to own\n");
    found_wrong = 1;
    expect_device_check(device_put_check, false, NULL);
    made_device(1, SCOPE_WARP); /* sender */
    found_wrong = 1;
    expect_device_check(
        device_put_check, true,
        "fill 16 x 64: src 27, 2000\nsynchronize\nfill 16 x 64: dst 27, 7\nsynchronize\n"
        "barrier\nput_rate_warp 3 x 70: dst src 24, 1 slots, 2, 1 times\n" END3 "barrier\n");
    found_wrong = 0;
    expect_device_check(device_get_check, true,
                        "fill 16 x 64: src 442368, 2000\nsynchronize\nfill 16 x 64: dst 442368, 7\n"
                        "synchronize\nbarrier\n"
                        "get_rate_warp 3 x 70: dst src 24, 16384 slots, 2, 16384 times\n" END3
                        "barrier\nput 8 from own to own of 1\nquiet\n"
                        "check 16 x 64: dst 3538944 from 0, 3000, words+512\nsynchronize\n"
                        "get 8 from TIM of 1 to own\n");
    found_wrong = 1;
    expect_device_check(device_get_check, false, NULL);
    made_device(3, SCOPE_WARP);
    found_wrong = 1;
    expect_device_check(device_get_check, true, NULL);
}

static void words_are_launched_and_checked(void **state)
{
    made_device(1, SCOPE_THREAD);
    assert_int_equal(device_words_buffer_bytes(&options, 8), 8 << 19);
    expect_device_run(device_p_run, 215, "p_rate 3 x 70: dst 19 bits, 2, 6 times\n" END3);
    expect_device_run(device_p_scattered_run, 215,
                      "p_rate 3 x 70: dst 19 bits scattered, 2, 6 times\n" END3);
    expect_device_run(device_g_run, 215, "g_rate 3 x 70: src 19 bits, 2, 6 times\n" END3);
    expect_device_run(device_fetch_add_run, 5 + 190,
                      "atomic_latency 1 x 1: dst 0, 2, 6 times\n" END1);
    expect_device_run(device_add_run, 215, "atomic_rate 3 x 70: dst 19 bits, 2, 6 times\n" END3);
    static const int bits[] = {17, 18, 19, 19, 20};
    for (int ctas = 1; ctas < 6; ctas++) {
        options.ctas = ctas;
        assert_int_equal(device_words_buffer_bytes(&options, 8), 8 << bits[ctas - 1]);
    }
    options.ctas = 3;
    expect_device_check(device_p_check, true,
                        "fill 16 x 64: dst 524288, 7\nsynchronize\nbarrier\n"
                        "p_rate 3 x 70: dst 19 bits, 2, 2497 times\n" END3 "barrier\n");
    expect_device_check(device_g_check, true,
                        "fill 16 x 64: src 524288, 0\nsynchronize\nbarrier\n"
                        "g_rate 3 x 70: src 19 bits, 2, 2497 times\n" END3 "barrier\n");
    noted[2].wrong = 1;
    expect_device_check(device_g_check, false, NULL);
    made_device(2, SCOPE_THREAD);
    expect_device_check(device_p_scattered_check, true,
                        "fill 16 x 64: dst 524288, 7\nsynchronize\nbarrier\nbarrier\n"
                        "put 8 from own to own of 2\nquiet\n"
                        "check 16 x 64: dst 4194304 from 0, 0, words+512\nsynchronize\n"
                        "get 8 from TIM of 2 to own\n");
    found_wrong = 1;
    expect_device_check(device_p_check, false, NULL);
    made_device(1, SCOPE_THREAD);
    expect_device_check(device_p_scattered_check, true,
                        "fill 16 x 64: dst 524288, 7\nsynchronize\nbarrier\n"
                        "p_rate 3 x 70: dst 19 bits scattered, 2, 2497 times\n" END3 "barrier\n");
}

static void sums_of_atomics_are_checked(void **state)
{
    for (int wrong = 0; wrong < 2; wrong++) {
        made_device(3, SCOPE_THREAD); /* all PEs take part */
        sums[0] = 11;
        sums[1] = 11 + 10 * 4 + (uint64_t)wrong;
        expect_device_check(
            device_fetch_add_check, !wrong,
            "barrier\nget 8 from dst of 2 to own\nbarrier\n"
            "atomic_latency 1 x 1: dst 0, 2, 10 times\nsynchronize\ncheck the device\n"
            "get 32 from TIM of 3 to own\nbarrier\nget 8 from dst of 2 to own\nbarrier\n");
        sums[1] = 11 + 10 * 4 * 210 + (uint64_t)wrong;
        expect_device_check(device_add_check, !wrong,
                            "barrier\nget 4194304 from dst of 2 to own\nbarrier\n"
                            "atomic_rate 3 x 70: dst 19 bits, 2, 10 times\nsynchronize\ncheck the "
                            "device\nget 96 from TIM of 3 to own\nbarrier\n"
                            "get 4194304 from dst of 2 to own\nbarrier\n");
    }
}

/* ------------------------------------------------------------------------------------ latency */

static void pings_are_launched(void **state)
{
    made_device(1, SCOPE_WARP);
    kase.bytes = 40;
    assert_int_equal(device_packet_buffer_bytes(&options, 40), 48 + 2 * 80);
    assert_int_equal(device_packet_buffer_bytes(&options, 16), 16 + 2 * 32);
    expect_device_run(device_latency_run, 5 + 95,
                      "ping_p 1 x 1: words+0, 1 2, 1000 20 6 times\n" END1);
    assert_int_equal(device.base, 1026);
    device.base = 1000;
    expect_device_run(
        device_latency_signal_run, 100,
        "ping_signal_warp 1 x 32: dst src 40 words+0, 1 2, 1000 20 6, 0 times\n" END1);
    device.base = 1000;
    expect_device_run(device_latency_packet_run, 100,
                      "ping_packet_warp 1 x 32: dst src 40 dst+48, 1 2, 1000 20 6, 0 times\n" END1);
    device.base = 1000;
    expect_device_check(device_latency_check, true,
                        "ping_p 1 x 1: words+0, 1 2, 1000 20 50 times\n" END1 "barrier\n");
    expect_device_check(
        device_latency_signal_check, true,
        "ping_signal_warp 1 x 32: dst src 40 words+0, 1 2, 1000 20 50, 1 times\n" END1 "barrier\n");
    noted[0].wrong = 1;
    expect_device_check(
        device_latency_packet_check, false,
        "ping_packet_warp 1 x 32: dst src 40 dst+48, 1 2, 1000 20 50, 1 times\n" END1 "barrier\n");
    made_device(2, SCOPE_THREAD);
    double ns = 5;
    assert_int_equal(device_latency_signal_run(&bench, &kase, 6, &ns), WEFT_OK);
    assert_true(ns == 5);
    expect_first("ping_signal_thread 1 x 1: dst src 24 words+0, 0 1, 1000 20 6, 0 times\n");
    made_device(3, SCOPE_BLOCK);
    expect_device_run(device_latency_packet_run, 5, "");
    assert_int_equal(device.base, 1026);
    expect_device_check(device_latency_check, true, "barrier\n");
}

static void meetings_are_launched(void **state)
{
    made_device(1, SCOPE_BLOCK);
    expect_device_run(device_sync_run, 5 + 190, "meet_block 1 x 70: 1, 20 6 times\n" END1);
    expect_device_run(device_barrier_run, 5 + 190, "meet_block 1 x 70: 2, 20 6 times\n" END1);
    expect_device_check(device_sync_check, true,
                        "barrier\ncheck_meet_block 1 x 70: 1 words+256, 1000 50 times\n" END1
                        "barrier\n");
    bool right = true;
    noted[0].wrong = 1;
    assert_int_equal(device_barrier_check(&bench, &kase, &right), WEFT_OK);
    assert_false(right);
    assert_int_equal(device.base, 1050);
    where_it_says_times();
    expect_log("barrier\ncheck_meet_block 1 x 70: 2 words+256, 1000 50 times\n" END1 "barrier\n");
    options.scope = SCOPE_THREAD;
    double ns = 0;
    device_sync_run(&bench, &kase, 6, &ns);
    expect_first("meet_thread 1 x 1: 1, 20 6 times\n");
    options.scope = SCOPE_WARP;
    device_sync_run(&bench, &kase, 6, &ns);
    expect_first("meet_warp 1 x 32: 1, 20 6 times\n");
}

/* ------------------------------------------------------------------------------------- streams */

#define QUEUED(what)                                                                               \
    "create event 1\ncreate event 2\nrecord event 1\n" what                                        \
    "record event 2\nsynchronize event 2\nelapsed from event 1 to 2\ndestroy event 2\n"            \
    "destroy event 1\n"

static void operations_are_queued(void **state)
{
    made_device(1, SCOPE_STREAM);
    double ns = 5;
    assert_int_equal(stream_put_run(&bench, &kase, 2, &ns), WEFT_OK);
    assert_true(ns == 82);
    expect_log(QUEUED("queue put 24 from src to dst of 2\nqueue put 24 from src to dst of 2\n"
                      "queue quiet\n"));
    stream_get_run(&bench, &kase, 2, &ns);
    expect_log(QUEUED("queue get 24 from src of 2 to dst\nqueue get 24 from src of 2 to dst\n"));
    stream_barrier_run(&bench, &kase, 2, &ns);
    expect_log(QUEUED("queue barrier\nqueue barrier\n"));
    expect_device_check(stream_put_check, true,
                        "fill 16 x 64: src 512, 101\nsynchronize\nfill 16 x 64: dst 512, 1\n"
                        "synchronize\nbarrier\n" QUEUED(
                            "queue put 24 from src to dst of 2\nqueue quiet\n") "barrier\n");
    expect_device_check(
        stream_get_check, true,
        "fill 16 x 64: src 512, 101\nsynchronize\nfill 16 x 64: dst 512, 1\n"
        "synchronize\nbarrier\n" QUEUED(
            "queue get 24 from src of 2 to dst\n") "barrier\nput 8 from own to own of 1\nquiet\n"
                                                   "check 16 x 64: dst 24 from 0, 102, "
                                                   "words+512\nsynchronize\n"
                                                   "get 8 from TIM of 1 to own\n");
    found_wrong = 1;
    expect_device_check(stream_get_check, false, NULL);
    expect_device_check(stream_barrier_check, false,
                        "fill 16 x 64: src 8, 101\nsynchronize\nqueue put 64 from src to dst of 2\n"
                        "queue barrier\nsynchronize\nput 8 from own to own of 1\nquiet\n"
                        "check 16 x 64: dst 64 from 0, 100, words+512\nsynchronize\n"
                        "get 8 from TIM of 1 to own\n");
    made_device(2, SCOPE_STREAM);
    kase.bytes = 5003;
    stream_put_run(&bench, &kase, 2, &ns);
    stream_get_run(&bench, &kase, 2, &ns);
    expect_log("");
    expect_device_check(stream_put_check, true,
                        "fill 16 x 64: src 625, 102\nsynchronize\nfill 16 x 64: dst 625, 1\n"
                        "synchronize\nbarrier\nbarrier\nput 8 from own to own of 2\nquiet\n"
                        "check 16 x 64: dst 5000 from 0, 101, words+512\nsynchronize\n"
                        "get 8 from TIM of 2 to own\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_chosen),
        cmocka_unit_test(the_device_is_prepared),
        cmocka_unit_test(units_of_a_scope),
        cmocka_unit_test(what_kernels_note),
        cmocka_unit_test(moves_are_launched),
        cmocka_unit_test(moves_are_checked),
        cmocka_unit_test(words_are_launched_and_checked),
        cmocka_unit_test(sums_of_atomics_are_checked),
        cmocka_unit_test(pings_are_launched),
        cmocka_unit_test(meetings_are_launched),
        cmocka_unit_test(operations_are_queued),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
