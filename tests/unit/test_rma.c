/* SPDX-License-Identifier: Apache-2.0 */
/* Puts and gets of bytes, single values and strided elements: which ones the CPU copies and which
 * ones the path gets, what is counted, and what is rejected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/ops_path.h"

#include <stdio.h>

enum { AT = 128, PEER = 2 };

static bool failed;
static char local[64];

weft_status __wrap_job_check_failed(struct weft_job *job);
weft_status __wrap_job_check_failed(struct weft_job *job)
{
    assert_ptr_equal(job, &ops.job);
    return failed ? base_fail(WEFT_ERR_PEER_DEAD, "a PE is dead") : WEFT_OK;
}

enum gpu_place __wrap_gpu_place_of(struct gpu *gpu, const void *address);
enum gpu_place __wrap_gpu_place_of(struct gpu *gpu, const void *address)
{
    assert_ptr_equal(gpu, &ops.gpu);
    return ops_place_of(address);
}

static void begin(bool gpu, bool far)
{
    failed = false;
    ops_begin();
    ops_path_begin(gpu, far);
    for (int i = 0; i < (int)sizeof local; i++)
        local[i] = (char)(i + 1);
    memset(ops_heaps, 0x5a, sizeof ops_heaps);
}

static int set_up(void **state)
{
    (void)state;
    begin(false, false);
    return 0;
}

static char *own(size_t offset)
{
    return ops_heaps[OPS_PE] + offset;
}

typedef weft_status move(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe);

static const struct {
    const char *name;
    move *call;
    bool get, nbi;
} moves[] = {{"weft_put", weft_put, false, false},
             {"weft_get", weft_get, true, false},
             {"weft_put_nbi", weft_put_nbi, false, true},
             {"weft_get_nbi", weft_get_nbi, true, true}};

static weft_status move_of(int i, void *symmetric, void *here, size_t bytes, int pe)
{
    return moves[i].get ? moves[i].call(&ops.ctx, here, symmetric, bytes, pe)
                        : moves[i].call(&ops.ctx, symmetric, here, bytes, pe);
}

static void assert_counted(weft_kind kind, int i, uint64_t operations, uint64_t bytes, size_t at)
{
    const struct box_counters *counters = &ops.counters[kind][PEER];
    assert_int_equal(counters->operations, operations);
    assert_int_equal(counters->bytes, bytes);
    assert_int_equal(counters->last, box_last(moves[i].get ? BOX_OP_GET : BOX_OP_PUT, PEER, at));
}

static void mapped_memory_is_copied_byte_for_byte(void **state)
{
    (void)state;
    for (int gpu = 0; gpu < 2; gpu++)
        for (int i = 0; i < 4; i++) {
            begin(gpu, false);
            uint64_t all = 0;
            for (size_t bytes = 1; bytes <= 20; bytes++) {
                char *there = ops_heaps[PEER] + AT, here[64];
                memcpy(here, local, sizeof here);
                for (int k = 0; k < 64; k++)
                    there[k] = (char)(100 + k);
                assert_int_equal(move_of(i, own(AT), here, bytes, PEER), WEFT_OK);
                for (int k = 0; k < 64; k++) {
                    bool moved = (size_t)k < bytes;
                    assert_int_equal(here[k], moves[i].get && moved ? 100 + k : k + 1);
                    assert_int_equal((unsigned char)there[k],
                                     !moves[i].get && moved ? k + 1 : 100 + k);
                }
                all += bytes;
                assert_counted(WEFT_HOST, i, bytes, all, AT);
            }
            assert_int_equal(given.calls, 0);
        }
}

static void other_memory_is_given_to_the_path(void **state)
{
    (void)state;
    char *gpu_side = (char *)(uintptr_t)(OPS_GPU + OPS_GPU_SYSTEM + AT);
    char *gpu_local = (char *)(uintptr_t)OPS_OWN_GPU;
    for (int i = 0; i < 4; i++)
        for (int far = 0; far < 4; far++) {
            begin(far > 1, far < 2);
            /* A remote side without address, then one in GPU memory, then a local side in GPU
             * memory. */
            char *there = far == 2 ? gpu_side : own(AT), *here = far == 3 ? gpu_local : local;
            assert_int_equal(move_of(i, there, here, 24, PEER), WEFT_OK);
            assert_string_equal(given.call, moves[i].get ? "get" : "put");
            weft_kind kind = far == 2 ? WEFT_GPU : WEFT_HOST;
            size_t offset = far == 2 ? OPS_GPU_SYSTEM + AT : AT;
            assert_ptr_equal(given.at.peer, &ops.peers[kind][PEER]);
            assert_int_equal(given.at.segment, far == 2 ? SEG_GPU : SEG_HEAP);
            assert_int_equal(given.at.offset, offset);
            assert_ptr_equal(given.local, here);
            assert_int_equal(given.bytes, 24);
            assert_int_equal(given.nbi, moves[i].nbi);
            assert_counted(kind, i, 1, 24, offset);
            given.fails = given.call;
            assert_int_equal(move_of(i, there, here, 24, PEER), WEFT_ERR_PATH);
        }
}

static void nothing_is_moved_for_no_bytes(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        for (int far = 0; far < 2; far++) {
            begin(false, far);
            assert_int_equal(move_of(i, own(AT), local, 0, PEER), WEFT_OK);
            assert_int_equal(move_of(i, NULL, NULL, 0, PEER), WEFT_OK);
            assert_int_equal(move_of(i, own(AT), NULL, 0, PEER), WEFT_OK);
            assert_int_equal(given.calls, 0);
            assert_int_equal(moves[i].call(NULL, local, local, 0, PEER), WEFT_ERR_ARGUMENT);
            assert_int_equal(move_of(i, own(OPS_HEAP), local, 0, PEER), WEFT_ERR_ADDRESS);
            assert_int_equal(move_of(i, own(AT), local, 0, OPS_PES), WEFT_ERR_PE);
            failed = true;
            ops.fault = 1;
            assert_int_equal(move_of(i, own(AT), local, 0, PEER), WEFT_ERR_PEER_DEAD);
        }
}

static void wrong_moves_are_refused(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        for (int far = 0; far < 3; far++) {
            char words[64];
            begin(far == 2, far == 1);
            assert_int_equal(moves[i].call(NULL, local, local, 8, PEER), WEFT_ERR_ARGUMENT);
            assert_int_equal(move_of(i, own(AT), NULL, 8, PEER), WEFT_ERR_ARGUMENT);
            snprintf(words, sizeof words, "%s: %s is null", moves[i].name,
                     moves[i].get ? "dst" : "src");
            assert_string_equal(base_last_error(), words);
            assert_int_equal(move_of(i, own(AT), local, 8, -1), WEFT_ERR_PE);
            assert_int_equal(move_of(i, own(AT), local, 8, OPS_PES), WEFT_ERR_PE);
            assert_int_equal(move_of(i, own(OPS_HEAP - 7), local, 8, PEER), WEFT_ERR_RANGE);
            assert_int_equal(move_of(i, local, local, 8, PEER), WEFT_ERR_ADDRESS);
            assert_int_equal(given.calls, 0);
            assert_int_equal(ops.counters[WEFT_HOST][PEER].operations, 0);
            assert_int_equal(move_of(i, own(OPS_HEAP - 8), local, 8, PEER), WEFT_OK);
            assert_int_equal(ops.counters[WEFT_HOST][PEER].operations, 1);
            failed = true;
            ops.fault = WEFT_ERR_PEER_DEAD;
            assert_int_equal(move_of(i, own(AT), local, 8, PEER), WEFT_ERR_PEER_DEAD);
            assert_int_equal(ops.counters[WEFT_HOST][PEER].operations, 1);
        }
}

/* -------------------------------------------------------------------------------- single values */

static weft_status set_value(int width, void *at, uint64_t value, int pe)
{
    return width == 1   ? weft_p8(&ops.ctx, at, (uint8_t)value, pe)
           : width == 2 ? weft_p16(&ops.ctx, at, (uint16_t)value, pe)
           : width == 4 ? weft_p32(&ops.ctx, at, (uint32_t)value, pe)
                        : weft_p64(&ops.ctx, at, value, pe);
}

static weft_status get_value(int width, const void *at, void *value, int pe)
{
    return width == 1   ? weft_g8(&ops.ctx, at, value, pe)
           : width == 2 ? weft_g16(&ops.ctx, at, value, pe)
           : width == 4 ? weft_g32(&ops.ctx, at, value, pe)
                        : weft_g64(&ops.ctx, at, value, pe);
}

static const uint64_t some_value = 0x8877665544332211;

static void single_values_are_stored_and_loaded(void **state)
{
    (void)state;
    for (int width = 1; width <= 8; width *= 2) {
        begin(false, false);
        uint64_t got = 0;
        char *there = ops_heaps[PEER] + AT;
        assert_int_equal(set_value(width, own(AT), some_value, PEER), WEFT_OK);
        assert_memory_equal(there, &some_value, (size_t)width);
        assert_int_equal(there[width], 0x5a);
        assert_counted(WEFT_HOST, 0, 1, (uint64_t)width, AT);
        assert_int_equal(get_value(width, own(AT), &got, PEER), WEFT_OK);
        assert_memory_equal(&got, &some_value, (size_t)width);
        assert_int_equal(got >> 4 * width >> 4 * width, 0);
        assert_counted(WEFT_HOST, 1, 2, 2 * (uint64_t)width, AT);
        assert_int_equal(given.calls, 0);

        begin(true, true);
        assert_int_equal(set_value(width, own(AT), some_value, PEER), WEFT_OK);
        assert_string_equal(given.call, "store");
        assert_int_equal(given.bytes, width);
        assert_memory_equal(&given.value, &some_value, (size_t)width);
        assert_int_equal(given.at.offset, AT);
        assert_counted(WEFT_HOST, 0, 1, (uint64_t)width, AT);
        assert_int_equal(get_value(width, own(AT), &got, PEER), WEFT_OK);
        assert_string_equal(given.call, "load");
        assert_int_equal(given.bytes, width);
        assert_int_equal(got & 0xff, 0x33);
        assert_counted(WEFT_HOST, 1, 2, 2 * (uint64_t)width, AT);
    }
}

static void wrong_single_values_are_refused(void **state)
{
    (void)state;
    for (int far = 0; far < 2; far++)
        for (int width = 1; width <= 8; width *= 2) {
            uint64_t got = 7;
            char words[32];
            begin(false, far);
            if (width > 1) {
                assert_int_equal(set_value(width, own(AT + 1), some_value, PEER),
                                 WEFT_ERR_ALIGNMENT);
                snprintf(words, sizeof words, "weft_p%d: ", 8 * width);
                assert_non_null(strstr(base_last_error(), words));
                assert_int_equal(get_value(width, own(AT + 1), &got, PEER), WEFT_ERR_ALIGNMENT);
                snprintf(words, sizeof words, "weft_g%d: ", 8 * width);
                assert_non_null(strstr(base_last_error(), words));
            }
            assert_int_equal(get_value(width, own(AT), NULL, PEER), WEFT_ERR_ARGUMENT);
            assert_non_null(strstr(base_last_error(), "value is null"));
            assert_int_equal(set_value(width, own(AT), some_value, OPS_PES), WEFT_ERR_PE);
            assert_int_equal(get_value(width, own(AT), &got, OPS_PES), WEFT_ERR_PE);
            assert_int_equal(set_value(width, own(OPS_HEAP), some_value, PEER), WEFT_ERR_ADDRESS);
            assert_int_equal(got, 7);
            assert_int_equal(given.calls, 0);
            assert_int_equal(ops.counters[WEFT_HOST][PEER].operations, 0);
            assert_int_equal(set_value(width, own(OPS_HEAP - (size_t)width), some_value, PEER),
                             WEFT_OK);
        }
}

/* -------------------------------------------------------------------------------------- strided */

static weft_status strided(bool get, void *symmetric, void *here, ptrdiff_t there_stride,
                           ptrdiff_t here_stride, size_t element, size_t n, int pe)
{
    return get ? weft_iget(&ops.ctx, here, symmetric, here_stride, there_stride, element, n, pe)
               : weft_iput(&ops.ctx, symmetric, here, there_stride, here_stride, element, n, pe);
}

static void strides_are_given_in_bytes(void **state)
{
    (void)state;
    for (int get = 0; get < 2; get++) {
        begin(false, false);
        assert_int_equal(strided(get, own(AT), local, 3, 5, 4, 7, PEER), WEFT_OK);
        assert_string_equal(given.call, get ? "iget" : "iput");
        assert_int_equal(given.strides.remote_step, 12);
        assert_int_equal(given.strides.local_step, 20);
        assert_int_equal(given.strides.element, 4);
        assert_int_equal(given.strides.n, 7);
        assert_ptr_equal(given.local, local);
        assert_int_equal(given.at.offset, AT);
        assert_counted(WEFT_HOST, get, 1, 28, AT);
        given.fails = given.call;
        assert_int_equal(strided(get, own(AT), local, 1, 1, 4, 7, PEER), WEFT_ERR_PATH);
        /* The last element ends at the end of the heap. */
        given.fails = NULL;
        const size_t extent = (6 * 3 + 1) * 4;
        assert_int_equal(strided(get, own(OPS_HEAP - extent), local, 3, 900, 4, 7, PEER), WEFT_OK);
        assert_int_equal(strided(get, own(OPS_HEAP - extent + 1), local, 3, 1, 4, 7, PEER),
                         WEFT_ERR_RANGE);
    }
}

static void wrong_strides_are_refused(void **state)
{
    (void)state;
    for (int get = 0; get < 2; get++) {
        begin(false, false);
        static const struct {
            ptrdiff_t there, here;
            size_t element, n;
            weft_status status;
        } rows[] = {{0, 1, 4, 7, WEFT_ERR_ARGUMENT},
                    {1, 0, 4, 7, WEFT_ERR_ARGUMENT},
                    {-1, 1, 4, 7, WEFT_ERR_ARGUMENT},
                    {1, 1, 0, 7, WEFT_ERR_ARGUMENT},
                    {0, 1, 4, 0, WEFT_ERR_ARGUMENT},
                    {(ptrdiff_t)1 << 61, 1, 16, 2, WEFT_ERR_RANGE},
                    {(ptrdiff_t)1 << 40, 1, 16, (size_t)1 << 30, WEFT_ERR_RANGE},
                    {1, 1, (size_t)1 << 63, 2, WEFT_ERR_RANGE},
                    {1, 1, 4, 0, WEFT_OK}};
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            assert_int_equal(strided(get, own(AT), local, rows[i].there, rows[i].here,
                                     rows[i].element, rows[i].n, PEER),
                             rows[i].status);
        assert_int_equal(strided(get, NULL, NULL, 1, 1, 4, 0, PEER), WEFT_OK);
        assert_int_equal(strided(get, own(AT), NULL, 1, 1, 4, 7, PEER), WEFT_ERR_ARGUMENT);
        assert_non_null(
            strstr(base_last_error(), get ? "weft_iget: dst is null" : "weft_iput: src is null"));
        assert_int_equal(strided(get, own(AT), local, 1, 1, 4, 7, OPS_PES), WEFT_ERR_PE);
        assert_int_equal(strided(get, own(AT), local, 1, 1, 4, 0, OPS_PES), WEFT_ERR_PE);
        assert_int_equal(strided(get, NULL, local, 1, 1, 4, 7, PEER), WEFT_ERR_ARGUMENT);
        assert_int_equal(given.calls, 0);
    }
    assert_int_equal(weft_iput(NULL, own(AT), local, 1, 1, 4, 0, PEER), WEFT_ERR_ARGUMENT);
    assert_int_equal(weft_iget(NULL, local, own(AT), 1, 1, 4, 0, PEER), WEFT_ERR_ARGUMENT);
    assert_int_equal(ops.counters[WEFT_HOST][PEER].operations, 0);
}

/* --------------------------------------------------------------------------------- global data */

static void global_data_is_a_segment_of_its_own(void **state)
{
    (void)state;
    static char data[64], data_of_peer[64];
    ops.ctx.seg[SEG_DATA].base = (uintptr_t)data;
    ops.ctx.seg[SEG_DATA].size = sizeof data;
    ops.ctx.skipped[SEG_DATA] = 256;
    ops.peers[WEFT_HOST][PEER].base[SEG_DATA] = data_of_peer;
    assert_int_equal(weft_put(&ops.ctx, data + 40, local, 24, PEER), WEFT_OK);
    assert_memory_equal(data_of_peer + 40, local, 24);
    assert_counted(WEFT_HOST, 0, 1, 24, 40);
    assert_int_equal(weft_put(&ops.ctx, data + 40, local, 25, PEER), WEFT_ERR_RANGE);
    assert_int_equal(weft_put(&ops.ctx, data + 64, local, 1, PEER), WEFT_ERR_ADDRESS);
    ops.peers[WEFT_HOST][PEER].base[SEG_DATA] = NULL;
    assert_int_equal(weft_put(&ops.ctx, data + 40, local, 24, PEER), WEFT_OK);
    assert_int_equal(given.at.segment, SEG_DATA);
    assert_int_equal(given.at.offset, 256 + 40);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(mapped_memory_is_copied_byte_for_byte),
        TEST(other_memory_is_given_to_the_path),
        TEST(nothing_is_moved_for_no_bytes),
        TEST(wrong_moves_are_refused),
        TEST(single_values_are_stored_and_loaded),
        TEST(wrong_single_values_are_refused),
        TEST(strides_are_given_in_bytes),
        TEST(wrong_strides_are_refused),
        TEST(global_data_is_a_segment_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
