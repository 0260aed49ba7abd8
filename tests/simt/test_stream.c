/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: order within one, many in parallel, events between them, host calls. The executor's
 * threads start with the first launch and end at shutdown. */
#include "simt_test.h"

#include <pthread.h>

/* Runs first, before any launch. */
static void no_thread_before_the_first_launch(void **state)
{
    weft_stream stream;
    assert_ok(weft_stream_create(&stream));
    assert_ok(weft_stream_synchronize(stream));
    assert_ok(weft_stream_destroy(stream));
    assert_ok(weft_stream_synchronize(NULL));
    assert_int_equal(weft_simt_threads(), 0);
}

WEFT_KERNEL(append, (unsigned *, list), (unsigned *, n), (unsigned, value))
{
    if (weft_dev_sync_block_count(1) == 32 && weft_dev_thread_rank() == 0)
        list[(*n)++] = value;
}

static void operations_of_a_stream_run_in_order(void **state)
{
    unsigned list[100], n = 0;
    for (unsigned i = 0; i < 100; i++)
        assert_ok(WEFT_LAUNCH(append, 1, 32, 0, NULL, list, &n, i));
    assert_ok(weft_stream_synchronize(NULL));
    assert_int_equal(n, 100);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(list[i], i);
    assert_true(weft_simt_threads() > 0);
}

WEFT_KERNEL(add, (uint64_t *, sum), (unsigned, value))
{
    int n = weft_dev_sync_block_count(1);
    if (weft_dev_thread_rank() == 0)
        weft_dev_atomic_add_u64(sum, (uint64_t)n * value, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
}

static void many_grids_on_several_streams(void **state)
{
    enum { STREAMS = 6, GRIDS = WEFT_SIMT_TSAN ? 4 : 40 };
    weft_stream streams[STREAMS];
    uint64_t sums[STREAMS] = {0};
    for (int s = 0; s < STREAMS; s++)
        assert_ok(weft_stream_create(&streams[s]));
    for (unsigned g = 0; g < GRIDS; g++)
        for (unsigned s = 0; s < STREAMS; s++)
            assert_ok(
                WEFT_LAUNCH(add, 1 + g % 4, 32 * (1 + s % 3), 0, streams[s], &sums[s], s + 1));
    for (unsigned s = 0; s < STREAMS; s++) {
        assert_ok(weft_stream_synchronize(streams[s]));
        assert_int_equal(sums[s], (uint64_t)GRIDS / 4 * 10 * 32 * (1 + s % 3) * (s + 1));
        int idle = 0;
        assert_ok(weft_stream_query(streams[s], &idle));
        assert_int_equal(idle, 1);
        assert_ok(weft_stream_destroy(streams[s]));
    }
}

WEFT_KERNEL(hold, (uint32_t *, open))
{
    while (!weft_dev_load_u32(open, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS))
        ;
}

WEFT_KERNEL(copy, (unsigned *, to), (const unsigned *, from))
{
    *to = *from + 1;
}

static void events_order_streams(void **state)
{
    weft_stream first, second;
    weft_event event, end;
    uint32_t open = 0;
    unsigned a = 1, b = 0, c = 0;
    int idle = 1;
    uint64_t ns = 0;
    assert_ok(weft_stream_create(&first));
    assert_ok(weft_stream_create(&second));
    assert_ok(weft_event_create(&event));
    assert_ok(weft_event_create(&end));
    assert_ok(weft_event_wait(second, event)); /* never recorded: no wait */
    assert_ok(weft_stream_synchronize(second));
    assert_ok(WEFT_LAUNCH(hold, 1, 1, 0, first, &open));
    assert_ok(WEFT_LAUNCH(copy, 1, 1, 0, first, &b, &a));
    assert_ok(weft_event_record(event, first));
    assert_ok(weft_event_wait(second, event));
    assert_ok(WEFT_LAUNCH(copy, 1, 1, 0, second, &c, &b));
    assert_ok(weft_event_record(end, second));
    assert_ok(weft_stream_query(second, &idle));
    assert_int_equal(idle, 0);
    assert_int_equal(weft_event_elapsed(event, end, &ns), WEFT_ERR_ARGUMENT);
    __atomic_store_n(&open, 1, __ATOMIC_RELEASE);
    assert_ok(weft_event_synchronize(end));
    assert_int_equal(c, 3);
    assert_ok(weft_event_elapsed(event, end, &ns));
    assert_true(ns < 60000000000u);
    assert_ok(weft_event_destroy(event));
    assert_ok(weft_event_destroy(end));
    assert_ok(weft_stream_destroy(first));
    assert_ok(weft_stream_destroy(second));
}

struct call {
    unsigned *value;
    pthread_barrier_t *meet;
};

static void twice(void *arg)
{
    struct call *call = arg;
    if (call->meet)
        pthread_barrier_wait(call->meet);
    *call->value *= 2;
}

/* A host call sees the results of the kernels before it, and kernels after it see its results.
 * Calls of two streams may wait for each other. */
static void host_calls_run_in_order_and_side_by_side(void **state)
{
    unsigned a[2] = {1, 10}, b[2] = {0}, c[2] = {0};
    pthread_barrier_t meet;
    struct call calls[2] = {{&b[0], &meet}, {&b[1], &meet}};
    weft_stream streams[2];
    pthread_barrier_init(&meet, NULL, 2);
    for (int s = 0; s < 2; s++) {
        assert_ok(weft_stream_create(&streams[s]));
        assert_ok(WEFT_LAUNCH(copy, 1, 1, 0, streams[s], &b[s], &a[s]));
        assert_ok(weft_stream_host_call(streams[s], twice, &calls[s]));
        assert_ok(WEFT_LAUNCH(copy, 1, 1, 0, streams[s], &c[s], &b[s]));
    }
    for (int s = 0; s < 2; s++)
        assert_ok(weft_stream_destroy(streams[s]));
    assert_int_equal(c[0], 5);
    assert_int_equal(c[1], 23);
    pthread_barrier_destroy(&meet);
}

static void *launch_some(void *arg)
{
    for (int i = 0; i < 30; i++)
        if (WEFT_LAUNCH(add, 2, 32, 0, NULL, (uint64_t *)arg, 1))
            return arg;
    return NULL;
}

static void threads_may_share_a_stream(void **state)
{
    uint64_t sum = 0;
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, launch_some, &sum), 0);
    for (int i = 0; i < 3; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_ok(weft_simt_synchronize());
    assert_int_equal(sum, 3 * 30 * 2 * 32);
}

WEFT_KERNEL(read_state, (void **, out))
{
    out[weft_dev_thread_rank()] = weft_simt_self()->state;
}

static void *launch_with_own_state(void *arg)
{
    void **out = arg;
    weft_simt_set_state(arg);
    return WEFT_LAUNCH(read_state, 1, 2, 0, NULL, out) ? arg : NULL;
}

static void kernels_find_the_state_of_their_launcher(void **state)
{
    void *out[3][2];
    pthread_t threads[2];
    int mine;
    weft_simt_set_state(&mine);
    assert_ptr_equal(weft_simt_self()->state, &mine);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, launch_with_own_state, out[i]), 0);
    assert_ok(WEFT_LAUNCH(read_state, 1, 2, 0, NULL, out[2]));
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_ok(weft_simt_synchronize());
    for (int i = 0; i < 3; i++)
        for (int lane = 0; lane < 2; lane++)
            assert_ptr_equal(out[i][lane], i == 2 ? (void *)&mine : (void *)out[i]);
    weft_simt_set_state(NULL);
}

static void shutdown_ends_the_threads_and_launch_starts_them(void **state)
{
    uint64_t sum = 0;
    restart_with("WEFT_SIMT_THREADS", "3");
    assert_int_equal(weft_simt_threads(), 0);
    assert_ok(WEFT_LAUNCH(add, 9, 32, 0, NULL, &sum, 1));
    assert_ok(weft_stream_synchronize(NULL));
    assert_int_equal(weft_simt_threads(), 3);
    assert_int_equal(sum, 9 * 32);
    restart_with("WEFT_SIMT_THREADS", NULL);
    assert_int_equal(weft_simt_threads(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_thread_before_the_first_launch),
        cmocka_unit_test(operations_of_a_stream_run_in_order),
        cmocka_unit_test(many_grids_on_several_streams),
        cmocka_unit_test(events_order_streams),
        cmocka_unit_test(host_calls_run_in_order_and_side_by_side),
        cmocka_unit_test(threads_may_share_a_stream),
        cmocka_unit_test(kernels_find_the_state_of_their_launcher),
        cmocka_unit_test(shutdown_ends_the_threads_and_launch_starts_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
