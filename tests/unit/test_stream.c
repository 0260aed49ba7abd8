/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and signals on streams of CUDA: which become copies, kernels, driver stores or host
 * callbacks, with which arguments, and what is rejected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/stream.h"

/* ------------------------------------------------------------------------------------ streams */

static void a_stream_of_another_gpu_is_refused(void **state)
{
    (void)state;
    beneath.other_context = true;
    beneath.device = 5;
    assert_int_equal(stream_check("f", &ops.job, some_stream), WEFT_ERR_ARGUMENT);
    assert_non_null(
        strstr(base_last_error(), "belongs to GPU 5, but this PE uses GPU 2 (some GPU)"));
    for (uintptr_t handle = 0; handle < 3; handle++) /* default streams */
        assert_int_equal(stream_check("f", &ops.job, (weft_stream)handle), WEFT_OK);
    beneath.device = 2;
    assert_int_equal(stream_check("f", &ops.job, some_stream), WEFT_OK);
    beneath.device = 5;
    bool *const excuses[] = {&beneath.no_context, &beneath.no_push, &beneath.no_device};
    for (int i = 0; i < 3; i++) {
        *excuses[i] = true;
        assert_int_equal(stream_check("f", &ops.job, some_stream), WEFT_OK);
        *excuses[i] = false;
    }
    beneath.other_context = false;
    assert_int_equal(stream_check("f", &ops.job, some_stream), WEFT_OK);
    beneath.other_context = true;
    beneath.target = 2;
    assert_int_equal(stream_check("f", &ops.job, some_stream), WEFT_OK);
    beneath.target = 1;
    ops.driver.StreamGetCtx = NULL;
    assert_int_equal(stream_check("f", &ops.job, some_stream), WEFT_OK);
}

static void handle_3_is_a_stream(void **state)
{
    (void)state;
    ops.driver.StreamGetCtx = NULL;
    assert_true(stream_on_cuda(&ops.job));
    beneath.target = 2;
    assert_false(stream_on_cuda(&ops.job));
    ops.job.gpu = NULL;
    beneath.target = 0;
    assert_false(stream_on_cuda(&ops.job));
}

static void a_driver_that_cannot_tell_captures_nothing(void **state)
{
    (void)state;
    assert_false(stream_capturing(&ops.gpu, some_stream));
    beneath.capturing = true;
    assert_true(stream_capturing(&ops.gpu, some_stream));
    beneath.cannot_tell = true;
    assert_false(stream_capturing(&ops.gpu, some_stream));
}

/* ------------------------------------------------------------------------------- put and get */

static weft_status move_on(bool get, void *symmetric, void *local, size_t bytes, int pe)
{
    return get ? weft_get_on_stream(&ops.ctx, local, symmetric, bytes, pe, some_stream)
               : weft_put_on_stream(&ops.ctx, symmetric, local, bytes, pe, some_stream);
}

static void copies_go_to_the_address_of_the_peer(void **state)
{
    (void)state;
    for (int get = 0; get < 2; get++) {
        void *local = (void *)(uintptr_t)OPS_OWN_GPU;
        beneath.copies = 0;
        assert_int_equal(move_on(get, gpu_at(0x80), local, 24, 2), WEFT_OK);
        const void *remote = ops_at(2, SEG_GPU, OPS_GPU_SYSTEM + 0x80);
        assert_int_equal(beneath.copies, 1);
        assert_ptr_equal(beneath.copy_dst, get ? local : remote);
        assert_ptr_equal(beneath.copy_src, get ? remote : local);
        assert_int_equal(beneath.copy_bytes, 24);
        assert_ptr_equal(beneath.stream, some_stream);
        struct box_counters *counters = &ops.counters[WEFT_GPU][2];
        assert_int_equal(counters->operations, get + 1);
        assert_int_equal(counters->bytes, 24 * (get + 1));
        assert_int_equal(counters->last,
                         box_last(get ? BOX_OP_GET : BOX_OP_PUT, 2, OPS_GPU_SYSTEM + 0x80));
        /* No bytes to move; no local side. */
        assert_int_equal(move_on(get, gpu_at(0x80), NULL, 0, 2), WEFT_OK);
        assert_int_equal(move_on(get, gpu_at(0x80), NULL, 24, 2), WEFT_ERR_ARGUMENT);
        assert_int_equal(beneath.copies, 1);
    }
}

static void moves_that_fail_say_so(void **state)
{
    (void)state;
    void *local = (void *)(uintptr_t)OPS_OWN_GPU;
    for (int get = 0; get < 2; get++) {
        memset(&beneath, 0, sizeof beneath);
        assert_int_equal(move_on(get, gpu_at(0), local, 24, 3), WEFT_ERR_PE);
        ops.addresses_fail_in = 0;
        assert_int_equal(move_on(get, gpu_at(0), local, 24, 2), WEFT_ERR_NO_PATH);
        assert_int_equal(beneath.copies, 0);
        beneath.no_enter = true;
        assert_int_equal(move_on(get, gpu_at(0), local, 24, 2), WEFT_ERR_SYSTEM);
        assert_int_equal(beneath.copies, 0);
        beneath.no_enter = false;
        beneath.no_copy = true;
        assert_int_equal(move_on(get, gpu_at(0), local, 24, 2), WEFT_ERR_SYSTEM);
        beneath.other_context = true;
        beneath.device = 5;
        assert_int_equal(move_on(get, gpu_at(0), local, 24, 2), WEFT_ERR_ARGUMENT);
        assert_int_equal(beneath.copies, 1);
    }
}

static void without_an_address_the_host_is_called(void **state)
{
    (void)state;
    void *local = (void *)(uintptr_t)OPS_OWN_GPU;
    const char *const calls[] = {"put", "get"};
    for (int get = 0; get < 2; get++)
        for (int i = 0; i < 3; i++) {
            beneath.call = "";
            ops_path(WEFT_GPU, 2, i == 1 ? PATH_STAGED : PATH_P2P);
            beneath.target = i == 0 ? 2 : 0;
            if (i == 2) { /* without a path the call fails at once */
                ops.peers[WEFT_GPU][2].path = PATH_NONE;
                ops.choices[WEFT_GPU][2].path = PATH_STAGED;
            }
            assert_int_equal(move_on(get, gpu_at(0), local, 32, 2),
                             i < 2 ? WEFT_ERR_UNSUPPORTED : WEFT_OK);
            assert_string_equal(beneath.call, i < 2 ? calls[get] : "");
            assert_int_equal(ops.counters[WEFT_GPU][2].operations, get + (i == 2));
        }
    ops_path(WEFT_GPU, 2, PATH_STAGED);
    ops_path(WEFT_HOST, 0, PATH_P2P);
    assert_int_equal(move_on(false, host_at(0), local, 32, 0), WEFT_OK);
}

/* ---------------------------------------------------------------------------------- signals */

static weft_status put_signal(void *dst, const void *src, size_t bytes, void *signal,
                              weft_signal_op op)
{
    return weft_put_signal_on_stream(&ops.ctx, dst, src, bytes, signal, 77, op, 2, some_stream);
}

static void one_block_does_a_small_copy_and_its_signal(void **state)
{
    (void)state;
    static const struct {
        size_t bytes;
        unsigned threads;
    } rows[] = {{1, 32},
                {GPU_WIDE_BLOCK, 32},
                {GPU_WIDE_BLOCK + 1, GPU_SIGNAL_THREADS},
                {GPU_BLOCK_COPY_LIMIT, GPU_SIGNAL_THREADS}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const void *src = (const void *)(uintptr_t)(i % 2 ? OPS_OWN_GPU : OPS_PINNED);
        beneath.launches = 0;
        assert_int_equal(put_signal(gpu_at(0x80), src, rows[i].bytes, gpu_at(8), WEFT_SIGNAL_ADD),
                         WEFT_OK);
        assert_int_equal(beneath.launches, 1);
        assert_int_equal(beneath.kernel, GPU_weft_kernel_copy);
        assert_int_equal(beneath.threads, rows[i].threads);
        assert_ptr_equal(beneath.dst, ops_at(2, SEG_GPU, OPS_GPU_SYSTEM + 0x80));
        assert_ptr_equal(beneath.src, src);
        assert_int_equal(beneath.bytes, rows[i].bytes);
        assert_ptr_equal(beneath.signal, ops_at(2, SEG_GPU, OPS_GPU_SYSTEM + 8));
        assert_int_equal(beneath.value, 77);
        assert_int_equal(beneath.op, WEFT_SIGNAL_ADD);
        assert_ptr_equal(beneath.stream, some_stream);
    }
    assert_int_equal(beneath.copies, 0);
    assert_int_equal(ops.counters[WEFT_GPU][2].operations, 4);
    assert_int_equal(ops.counters[WEFT_GPU][2].last,
                     box_last(BOX_OP_SIGNAL, 2, OPS_GPU_SYSTEM + 0x80));
}

static void other_copies_are_followed_by_their_signal(void **state)
{
    (void)state;
    const void *own = (const void *)(uintptr_t)OPS_OWN_GPU;
    static char plain[64];
    const struct {
        void *dst;
        const void *src;
        size_t bytes;
    } rows[] = {{gpu_at(0x80), own, GPU_BLOCK_COPY_LIMIT + 1},
                {gpu_at(0x80), plain, 64},
                {host_at(0x80), own, 64}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        beneath.copies = beneath.writes = 0;
        assert_int_equal(
            put_signal(rows[i].dst, rows[i].src, rows[i].bytes, gpu_at(8), WEFT_SIGNAL_SET),
            WEFT_OK);
        assert_int_equal(beneath.copies, 1);
        assert_ptr_equal(beneath.copy_src, rows[i].src);
        assert_int_equal(beneath.copy_bytes, rows[i].bytes);
        assert_int_equal(beneath.writes, 1);
        assert_int_equal(beneath.written, 77);
        assert_ptr_equal(beneath.written_at, ops_at(2, SEG_GPU, OPS_GPU_SYSTEM + 8));
        assert_int_equal(beneath.launches, 0);
    }
    beneath.no_copy = true;
    beneath.writes = 0;
    assert_int_equal(put_signal(host_at(0), own, 64, gpu_at(8), WEFT_SIGNAL_SET), WEFT_ERR_SYSTEM);
    assert_int_equal(beneath.writes, 0);
}

static weft_status signal_on(void *signal, weft_signal_op op)
{
    return weft_signal_on_stream(&ops.ctx, signal, 77, op, 2, some_stream);
}

static void the_driver_stores_a_signal_where_it_can(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        beneath.launches = beneath.writes = 0;
        beneath.capturing = i == 1;
        beneath.no_write = i == 3;
        ops.gpu.driver.StreamWriteValue64 = i == 2 ? NULL : write_value;
        assert_int_equal(signal_on(gpu_at(16), i == 4 ? WEFT_SIGNAL_ADD : WEFT_SIGNAL_SET),
                         WEFT_OK);
        assert_int_equal(beneath.writes, i == 0 || i == 3);
        assert_int_equal(beneath.launches, i > 0);
    }
    assert_int_equal(beneath.op, WEFT_SIGNAL_ADD);
    assert_int_equal(beneath.threads, 32);
    assert_int_equal(beneath.bytes, 0);
    assert_null(beneath.dst);
    assert_null(beneath.src);
    assert_ptr_equal(beneath.signal, ops_at(2, SEG_GPU, OPS_GPU_SYSTEM + 16));
    assert_int_equal(ops.counters[WEFT_GPU][2].operations, 5);
    assert_int_equal(ops.counters[WEFT_GPU][2].bytes, 40);
    assert_int_equal(ops.counters[WEFT_GPU][2].last,
                     box_last(BOX_OP_SIGNAL, 2, OPS_GPU_SYSTEM + 16));
    beneath.no_launch = true;
    assert_int_equal(signal_on(gpu_at(16), WEFT_SIGNAL_ADD), WEFT_ERR_SYSTEM);
    beneath.no_enter = true;
    beneath.launches = 0;
    assert_int_equal(signal_on(gpu_at(16), WEFT_SIGNAL_ADD), WEFT_ERR_SYSTEM);
    assert_int_equal(beneath.launches, 0);
}

static void the_cpu_changes_a_signal_of_the_host_once(void **state)
{
    (void)state;
    uint64_t *at = (uint64_t *)(void *)(ops_heaps[2] + 24);
    *at = 1000;
    assert_int_equal(signal_on(host_at(24), WEFT_SIGNAL_ADD), WEFT_OK);
    assert_int_equal(beneath.given, 1);
    assert_int_equal(beneath.host_calls, 1);
    assert_int_equal(*at, 1000);
    beneath.host_function(beneath.host_argument);
    assert_int_equal(*at, 1077);
    assert_int_equal(beneath.made, 1);
    assert_int_equal(beneath.blocks, 0);
    assert_int_equal(beneath.given, 1);
    assert_int_equal(signal_on(host_at(24), WEFT_SIGNAL_SET), WEFT_OK);
    beneath.host_function(beneath.host_argument);
    assert_int_equal(*at, 77);
    assert_int_equal(beneath.writes + beneath.launches, 0);
    beneath.no_host_call = true;
    assert_true(signal_on(host_at(24), WEFT_SIGNAL_SET) != WEFT_OK);
    assert_int_equal(beneath.blocks, 0);
    assert_int_equal(beneath.given, 2);
    beneath.no_memory = true;
    beneath.host_calls = 0;
    assert_int_equal(signal_on(host_at(24), WEFT_SIGNAL_SET), WEFT_ERR_NO_MEMORY);
    assert_int_equal(beneath.host_calls, 0);
    ops.addresses_fail_in = 0;
    assert_int_equal(signal_on(host_at(24), WEFT_SIGNAL_SET), WEFT_ERR_NO_PATH);
}

/* In a graph a function of the driver could block other threads. */
static void a_captured_signal_of_the_host_is_a_callback(void **state)
{
    (void)state;
    uint64_t *at = (uint64_t *)(void *)(ops_heaps[2] + 24);
    beneath.capturing = true;
    assert_int_equal(signal_on(host_at(24), WEFT_SIGNAL_ADD), WEFT_OK);
    for (int replay = 1; replay <= 3; replay++) {
        callback.run(callback.argument);
        assert_int_equal(*at, 77 * replay);
    }
    free(callback.argument);
    assert_int_equal(signal_on(host_at(24), WEFT_SIGNAL_SET), WEFT_OK);
    callback.run(callback.argument);
    assert_int_equal(*at, 77);
    free(callback.argument);
    callback.fails = true;
    assert_true(signal_on(host_at(24), WEFT_SIGNAL_SET) != WEFT_OK);
    callback.fails = false;
    assert_int_equal(beneath.host_calls, 0);
    assert_int_equal(beneath.given, 0);
}

static void wrong_signals_are_refused(void **state)
{
    (void)state;
    const void *own = (const void *)(uintptr_t)OPS_OWN_GPU;
    assert_int_equal(signal_on(gpu_at(8), (weft_signal_op)2), WEFT_ERR_OP);
    assert_int_equal(signal_on(gpu_at(4), WEFT_SIGNAL_SET), WEFT_ERR_ALIGNMENT);
    assert_int_equal(put_signal(gpu_at(64), own, 8, gpu_at(8), (weft_signal_op)2), WEFT_ERR_OP);
    assert_int_equal(put_signal(gpu_at(64), own, 8, gpu_at(4), WEFT_SIGNAL_SET),
                     WEFT_ERR_ALIGNMENT);
    assert_int_equal(put_signal(gpu_at(64), NULL, 8, gpu_at(8), WEFT_SIGNAL_SET),
                     WEFT_ERR_ARGUMENT);
    assert_int_equal(put_signal(gpu_at(OPS_GPU_BYTES), own, 8, gpu_at(8), WEFT_SIGNAL_SET),
                     WEFT_ERR_ADDRESS);
    beneath.other_context = true;
    beneath.device = 5;
    assert_int_equal(put_signal(gpu_at(64), own, 8, gpu_at(8), WEFT_SIGNAL_SET), WEFT_ERR_ARGUMENT);
    assert_int_equal(signal_on(gpu_at(8), WEFT_SIGNAL_SET), WEFT_ERR_ARGUMENT);
    assert_int_equal(ops.counters[WEFT_GPU][2].operations, 0);
    assert_int_equal(beneath.enters, 0);
    beneath.other_context = false;
    for (int i = 0; i < 2; i++) { /* of the data, then of the signal */
        ops.addresses_fail_in = i;
        assert_int_equal(put_signal(gpu_at(64), own, 8, gpu_at(8), WEFT_SIGNAL_SET),
                         WEFT_ERR_NO_PATH);
    }
    beneath.no_enter = true;
    assert_int_equal(put_signal(gpu_at(64), own, 8, gpu_at(8), WEFT_SIGNAL_SET), WEFT_ERR_SYSTEM);
    beneath.no_enter = false;
    beneath.no_launch = true;
    assert_int_equal(put_signal(gpu_at(64), own, 8, gpu_at(8), WEFT_SIGNAL_SET), WEFT_ERR_SYSTEM);
    assert_int_equal(beneath.launches, 1);
}

static void a_put_of_nothing_is_its_signal(void **state)
{
    (void)state;
    assert_int_equal(put_signal(NULL, NULL, 0, gpu_at(8), WEFT_SIGNAL_SET), WEFT_OK);
    assert_int_equal(beneath.writes, 1);
    assert_int_equal(beneath.written, 77);
    assert_int_equal(beneath.copies + beneath.launches, 0);
}

static void the_host_signals_where_the_stream_cannot(void **state)
{
    (void)state;
    const void *own = (const void *)(uintptr_t)OPS_OWN_GPU;
    for (int i = 0; i < 3; i++) {
        beneath.call = "";
        beneath.target = i == 2 ? 2 : 0;
        ops_path(WEFT_GPU, 2, i == 0 ? PATH_STAGED : PATH_P2P);
        ops_path(WEFT_HOST, 2, i == 1 ? PATH_STAGED : PATH_P2P);
        assert_int_equal(put_signal(gpu_at(64), own, 32, host_at(8), WEFT_SIGNAL_SET),
                         WEFT_ERR_UNSUPPORTED);
        assert_string_equal(beneath.call, "put_signal");
        if (!i)
            continue;
        assert_int_equal(signal_on(host_at(8), WEFT_SIGNAL_SET), WEFT_ERR_UNSUPPORTED);
        assert_string_equal(beneath.call, "signal");
    }
    assert_int_equal(ops.counters[WEFT_HOST][2].operations, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_stream_of_another_gpu_is_refused),
        TEST(handle_3_is_a_stream),
        TEST(a_driver_that_cannot_tell_captures_nothing),
        TEST(copies_go_to_the_address_of_the_peer),
        TEST(moves_that_fail_say_so),
        TEST(without_an_address_the_host_is_called),
        TEST(one_block_does_a_small_copy_and_its_signal),
        TEST(other_copies_are_followed_by_their_signal),
        TEST(the_driver_stores_a_signal_where_it_can),
        TEST(the_cpu_changes_a_signal_of_the_host_once),
        TEST(a_captured_signal_of_the_host_is_a_callback),
        TEST(wrong_signals_are_refused),
        TEST(a_put_of_nothing_is_its_signal),
        TEST(the_host_signals_where_the_stream_cannot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
