/* SPDX-License-Identifier: Apache-2.0 */
/* Which operations of path staged the CPU does itself, and which requests the others become. The
 * channel is a fake that records calls and checks that the channel's lock is held. */
#include "path/local/mapped.h"
#include "path/staged/staged.h"

#include "base/status.h"
#include "callocs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

extern const struct path_ops path_staged;

enum { LOCALS = 4, OWNER = 2 };

static char gpu_here, trace[1024], local[600000];
static bool cpu_does;
static int calls, fails_at;
static int local_pes[LOCALS] = {3, 4, 8, 9};
static struct boot boot = {.local_npes = LOCALS, .local_pe = 1, .local_pes = local_pes};
static struct path_world world;
static struct staged_channel channels[LOCALS];
static struct staged_common common;
static struct path_state *state;
static struct peer peer;
static struct serve_request last_request;

__attribute__((format(printf, 1, 2))) static void log_call(const char *format, ...)
{
    size_t used = strlen(trace);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(trace + used, sizeof trace - used, format, arguments);
    va_end(arguments);
}

static bool is_locked(int slot)
{
    if (pthread_mutex_trylock(&channels[slot].lock))
        return true;
    pthread_mutex_unlock(&channels[slot].lock);
    return false;
}

static weft_status held(const struct staged_channel *channel)
{
    assert_true(is_locked((int)(channel - channels)));
    return ++calls == fails_at ? base_fail(WEFT_ERR_TIMEOUT, "call %d", calls) : WEFT_OK;
}

weft_status __wrap_staged_send_request(struct staged_channel *channel, enum box_operation operation,
                                       const struct serve_request *request, const void *from,
                                       void *to);
weft_status __wrap_staged_send_request(struct staged_channel *channel, enum box_operation operation,
                                       const struct serve_request *request, const void *from,
                                       void *to)
{
    (void)operation;
    last_request = *request;
    log_call("ask%d:%d:%zu:%zu:%d:%d ", request->operation, request->segment,
             (size_t)request->offset, (size_t)request->bytes,
             from ? (int)((const char *)from - local) : -1, to ? (int)((char *)to - local) : -1);
    weft_status status = held(channel);
    channel->begun += !status;
    return status;
}

weft_status __wrap_staged_await_published(struct staged_channel *channel,
                                          enum box_operation operation, uint64_t number);
weft_status __wrap_staged_await_published(struct staged_channel *channel,
                                          enum box_operation operation, uint64_t number)
{
    assert_int_equal(operation, BOX_OP_PUT);
    assert_int_equal(number, channel->begun);
    log_call("published ");
    return held(channel);
}

weft_status __wrap_staged_await_retired(struct staged_channel *channel,
                                        enum box_operation operation, uint64_t number);
weft_status __wrap_staged_await_retired(struct staged_channel *channel,
                                        enum box_operation operation, uint64_t number)
{
    log_call("gone%d:%d:%d ", (int)(channel - channels), operation, (int)number);
    return held(channel);
}

weft_status __wrap_staged_advance(struct staged_channel *channel);
weft_status __wrap_staged_advance(struct staged_channel *channel)
{
    log_call("advance%d ", (int)(channel - channels));
    return held(channel);
}

void __wrap_staged_hand_to_thread(struct staged_channel *channel);
void __wrap_staged_hand_to_thread(struct staged_channel *channel)
{
    assert_true(is_locked((int)(channel - channels)));
    log_call("alone ");
}

enum gpu_place __wrap_gpu_place_of(struct gpu *gpu, const void *at);
enum gpu_place __wrap_gpu_place_of(struct gpu *gpu, const void *at)
{
    (void)gpu, (void)at;
    return GPU_PLACE_PLAIN;
}

static bool by_cpu(const char *what)
{
    assert_false(is_locked(OWNER));
    log_call("cpu_%s ", what);
    return cpu_does;
}

bool __wrap_mapped_put(struct mapped *m, struct remote to, const void *src, size_t bytes);
bool __wrap_mapped_put(struct mapped *m, struct remote to, const void *src, size_t bytes)
{
    (void)m, (void)to, (void)src, (void)bytes;
    return by_cpu("put");
}

bool __wrap_mapped_get(struct mapped *m, struct remote from, void *dst, size_t bytes);
bool __wrap_mapped_get(struct mapped *m, struct remote from, void *dst, size_t bytes)
{
    (void)m, (void)from, (void)dst, (void)bytes;
    return by_cpu("get");
}

bool __wrap_mapped_store(struct mapped *m, struct remote to, const void *value, size_t width);
bool __wrap_mapped_store(struct mapped *m, struct remote to, const void *value, size_t width)
{
    (void)m, (void)to, (void)value, (void)width;
    return by_cpu("store");
}

bool __wrap_mapped_load(struct remote from, void *value, size_t width);
bool __wrap_mapped_load(struct remote from, void *value, size_t width)
{
    (void)from, (void)value, (void)width;
    return by_cpu("load");
}

bool __wrap_mapped_put_signal(struct mapped *m, struct remote to, const void *src, size_t bytes,
                              struct remote signal, uint64_t value);
bool __wrap_mapped_put_signal(struct mapped *m, struct remote to, const void *src, size_t bytes,
                              struct remote signal, uint64_t value)
{
    (void)m, (void)to, (void)src, (void)bytes, (void)signal, (void)value;
    return by_cpu("signal");
}

static const void *opened;
void __wrap_mapped_open(struct mapped *m, const struct path_world *of);
void __wrap_mapped_open(struct mapped *m, const struct path_world *of)
{
    assert_ptr_equal(of, &world);
    opened = m;
}

void __wrap_mapped_flush(struct mapped *m);
void __wrap_mapped_flush(struct mapped *m)
{
    assert_ptr_equal(m, opened);
    log_call("settle ");
}

/* --------------------------------------------------------------------------------------- set-up */

static int prepare(void **context)
{
    (void)context;
    world = (struct path_world){.boot = &boot, .gpu = (struct gpu *)(void *)&gpu_here};
    common = (struct staged_common){
        .world = &world, .local_pe = 1, .local_npes = LOCALS, .channels = channels};
    world.common[PATH_STAGED] = (struct path_common *)(void *)&common;
    memset(channels, 0, sizeof channels);
    for (int i = 0; i < LOCALS; i++) {
        channels[i].slot = i;
        channels[i].common = &common;
        channels[i].cpu_access = true;
    }
    assert_int_equal(path_staged.open(&world, &state), WEFT_OK);
    peer = (struct peer){.pe = 8, .state = state, .world = &world};
    trace[0] = '\0';
    calls = fails_at = 0;
    cpu_does = false;
    return 0;
}

static int finish(void **context)
{
    (void)context;
    path_staged.close(state);
    for (int i = 0; i < LOCALS; i++)
        assert_false(is_locked(i));
    return 0;
}

/* Parameters of the tested operation. */
static struct {
    enum segment_id segment, signal_segment;
    size_t bytes;
    weft_amo amo;
    weft_signal_op op;
    bool nbi, fetches;
} o;

static struct remote there(size_t offset)
{
    return (struct remote){&peer, o.segment, offset};
}

static weft_status put(void)
{
    return path_staged.put(there(4096), local, o.bytes, o.nbi);
}

static weft_status get(void)
{
    return path_staged.get(there(4096), local, o.bytes, o.nbi);
}

static weft_status put_signal(void)
{
    return path_staged.put_signal(there(4096), local, o.bytes,
                                  (struct remote){&peer, o.signal_segment, 88}, 7, o.op, o.nbi);
}

static weft_status iget(void)
{
    const struct path_strides strides = {
        .n = 3, .element = 8, .local_step = 100, .remote_step = 16};
    return path_staged.iget(there(4096), local, &strides);
}

static weft_status store(void)
{
    return path_staged.store(there(4096), local, 4);
}

static weft_status load(void)
{
    return path_staged.load(there(4096), local, 4);
}

static weft_status atomic(void)
{
    return path_staged.atomic(there(4096), o.amo, 8, 5, 6, o.fetches ? local : NULL, o.nbi);
}

/* Makes the next request the first one. */
static void start_anew(void)
{
    channels[OWNER].begun = 0;
    channels[OWNER].retired = 0;
}

/* Checks the calls. Then lets each call fail once, and checks that it is the last one. */
static void expect(weft_status (*run)(void), const char *expected)
{
    trace[0] = '\0';
    calls = fails_at = 0;
    assert_int_equal(run(), WEFT_OK);
    assert_string_equal(trace, expected);
    channels[OWNER].retired = channels[OWNER].begun;
    int all = calls;
    for (int i = 1; i <= all; i++) {
        calls = 0;
        fails_at = i;
        assert_int_equal(run(), WEFT_ERR_TIMEOUT);
        if (calls != i)
            fail_msg("call %d fails, and others follow it", i);
        channels[OWNER].retired = channels[OWNER].begun;
    }
    fails_at = 0;
}

/* ---------------------------------------------------------------------------------------- tests */

static void large_transfers_are_sent_in_chunks(void **context)
{
    char expected[200];
    (void)context;
    o.segment = SEG_HEAP;
    o.bytes = 20000;
    o.nbi = false;
    snprintf(expected, sizeof expected,
             "ask%d:0:4096:16384:0:-1 ask%d:0:20480:3616:16384:-1 published ", SERVE_PUT,
             SERVE_PUT);
    expect(put, expected);
    assert_true(last_request.urgent);
    *strstr(expected, "published") = '\0';
    o.nbi = true;
    expect(put, expected);
    assert_false(last_request.urgent);
    snprintf(expected, sizeof expected, "ask%d:0:4096:16384:-1:0 ask%d:0:20480:3616:-1:16384 ",
             SERVE_GET, SERVE_GET);
    expect(get, expected);
    assert_false(last_request.urgent);
    o.nbi = false;
    start_anew();
    snprintf(expected + strlen(expected), 40, "gone2:%d:2 ", BOX_OP_GET);
    expect(get, expected);
    assert_true(last_request.urgent);
}

static void strided_gets_wait_for_the_last(void **context)
{
    char expected[200];
    (void)context;
    o.segment = SEG_HEAP;
    snprintf(expected, sizeof expected,
             "ask%d:0:4096:8:-1:0 ask%d:0:4112:8:-1:100 ask%d:0:4128:8:-1:200 gone2:%d:3 ",
             SERVE_GET, SERVE_GET, SERVE_GET, BOX_OP_GET);
    expect(iget, expected);
}

static void signals_are_left_alone_where_nobody_waits(void **context)
{
    char expected[200];
    (void)context;
    o.segment = SEG_HEAP;
    o.signal_segment = SEG_GPU;
    o.bytes = 50;
    o.op = WEFT_SIGNAL_ADD;
    for (int i = 0; i < 2; i++) {
        o.nbi = i;
        snprintf(expected, sizeof expected, "ask%d:0:4096:50:0:-1 %s", SERVE_PUT_SIGNAL,
                 i ? "alone " : "published ");
        expect(put_signal, expected);
        assert_int_equal(last_request.signal_segment, SEG_GPU);
        assert_int_equal(last_request.signal_offset, 88);
        assert_int_equal(last_request.signal_op, WEFT_SIGNAL_ADD);
        assert_int_equal(last_request.value, 7);
    }
    /* After a failure the channel is broken and is not handed to the thread. */
    fails_at = 1;
    calls = 0;
    trace[0] = '\0';
    put_signal();
    assert_null(strstr(trace, "alone"));
}

static void the_cpu_does_small_ones_in_gpu_memory(void **context)
{
    (void)context;
    static weft_status (*const run[])(void) = {put, get, store, load, atomic, atomic, put_signal};
    static const char *const cpu[] = {"cpu_put ",   "cpu_get ",  "cpu_store ", "cpu_load ",
                                      "cpu_store ", "cpu_load ", "cpu_signal "};
    o.bytes = 8;
    o.op = WEFT_SIGNAL_SET;
    o.nbi = false;
    o.fetches = true;
    for (int i = 0; i < 7; i++)
        for (int row = 0; row < 6; row++) {
            o.segment = row == 1 ? SEG_HEAP : SEG_GPU;
            o.signal_segment = SEG_GPU;
            o.amo = i == 4 ? WEFT_AMO_SET : WEFT_AMO_FETCH;
            channels[OWNER].cpu_access = row != 2;
            cpu_does = row != 3;
            uint64_t before = channels[OWNER].begun;
            channels[OWNER].retired = before;
            if (row >= 4) /* a request of this context, or of another, is in flight */
                path_staged.store((struct remote){&peer, SEG_HEAP, 8}, local, 4);
            if (row == 5)
                channels[OWNER].retired = channels[OWNER].begun;
            trace[0] = '\0';
            assert_int_equal(run[i](), WEFT_OK);
            bool tried = row == 0 || row == 3 || row == 5;
            assert_int_equal(strncmp(trace, cpu[i], strlen(cpu[i])) == 0, tried);
            assert_int_equal(strstr(trace, "ask") == NULL, tried && cpu_does);
            channels[OWNER].retired = channels[OWNER].begun;
        }
    /* In GPU memory the CPU does only these atomics, and signals that are set. */
    cpu_does = true;
    channels[OWNER].cpu_access = true;
    o.segment = SEG_GPU;
    o.amo = WEFT_AMO_ADD;
    trace[0] = '\0';
    atomic();
    assert_null(strstr(trace, "cpu"));
    channels[OWNER].retired = channels[OWNER].begun;
    o.op = WEFT_SIGNAL_ADD;
    put_signal();
    assert_null(strstr(trace, "cpu"));
    channels[OWNER].retired = channels[OWNER].begun;
    o.op = WEFT_SIGNAL_SET;
    o.signal_segment = SEG_HEAP;
    put_signal();
    assert_null(strstr(trace, "cpu"));
}

static void single_accesses_wait_for_what_they_fetch(void **context)
{
    char expected[100];
    (void)context;
    o.segment = SEG_HEAP;
    o.amo = WEFT_AMO_CSWAP;
    snprintf(expected, sizeof expected, "ask%d:0:4096:4:0:-1 ", SERVE_STORE);
    expect(store, expected);
    start_anew();
    snprintf(expected, sizeof expected, "ask%d:0:4096:4:-1:0 gone2:%d:1 ", SERVE_LOAD, BOX_OP_GET);
    expect(load, expected);
    for (int i = 0; i < 4; i++) {
        o.fetches = i & 1;
        o.nbi = i & 2;
        start_anew();
        int used = snprintf(expected, sizeof expected, "ask%d:0:4096:8:-1:%d ", SERVE_ATOMIC,
                            o.fetches ? 0 : -1);
        if (i == 1)
            snprintf(expected + used, sizeof expected - (size_t)used, "gone2:%d:1 ", BOX_OP_ATOMIC);
        expect(atomic, expected);
        assert_int_equal(last_request.amo, WEFT_AMO_CSWAP);
        assert_int_equal(last_request.value, 5);
        assert_int_equal(last_request.expected, 6);
    }
}

static weft_status quiet(void)
{
    return path_staged.quiet(state);
}

static weft_status fence(void)
{
    return path_staged.fence(state);
}

static void quiet_waits_for_each_channel_with_something_under_way(void **context)
{
    char expected[100];
    struct path_choice choices[10] = {{0}};
    (void)context;
    o.segment = SEG_HEAP;
    expect(quiet, "settle ");
    static const int pes[] = {3, 9, 8};
    for (int i = 0; i < 3; i++) {
        peer.pe = pes[i];
        store();
    }
    channels[2].retired = 1;
    trace[0] = '\0';
    assert_false(path_staged.progress(state));
    assert_string_equal(trace, "advance0 advance3 ");
    pthread_mutex_lock(&channels[0].lock);
    trace[0] = '\0';
    path_staged.progress(state);
    assert_string_equal(trace, "advance3 ");
    pthread_mutex_unlock(&channels[0].lock);
    snprintf(expected, sizeof expected, "settle gone0:%d:1 gone3:%d:1 ", BOX_OP_QUIET,
             BOX_OP_QUIET);
    expect(quiet, expected);
    expect(fence, "settle ");
    world.choices[MEMORY_KINDS - 1] = choices;
    for (int i = 0; i < 10; i++)
        choices[i].path = i == 9 ? PATH_P2P : PATH_STAGED;
    snprintf(expected, sizeof expected, "settle gone3:%d:1 ", BOX_OP_FENCE);
    expect(fence, expected);
}

static void a_context_needs_memory(void **context)
{
    struct path_state *none = NULL;
    (void)context;
    callocs.left = 0;
    assert_int_equal(path_staged.open(&world, &none), WEFT_ERR_NO_MEMORY);
    assert_null(none);
    assert_non_null(strstr(base_last_error(), "a context on path staged"));
    callocs.left = -1;
}

#define test(name) cmocka_unit_test_setup_teardown(name, prepare, finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(large_transfers_are_sent_in_chunks),
        test(strided_gets_wait_for_the_last),
        test(signals_are_left_alone_where_nobody_waits),
        test(the_cpu_does_small_ones_in_gpu_memory),
        test(single_accesses_wait_for_what_they_fetch),
        test(quiet_waits_for_each_channel_with_something_under_way),
        test(a_context_needs_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
