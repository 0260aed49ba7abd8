/* SPDX-License-Identifier: Apache-2.0 */
/* Fcollect, alltoall and alltoalls: which functions they call, in which order and with which
 * arguments, and that a failed call is the last one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/move.h"

/* --------------------------------------------------------------------------- allgather, alltoall
 */

static void large_blocks_are_put_to_each_member(void **state)
{
    (void)state;
    assert_calls(WEFT_OK,
                 "begin weft_alltoall -1 57 0; place dst 171; put 2 569<114 57 100; put 0 569<0 57 "
                 "100; await 0 100; await 2 100; ",
                 weft_alltoall(&ops.team, own + TO, source, 57));
    assert_memory_equal(own + TO + 57, source + 57, 57);
    assert_true(is_filled(own + TO, 0x5a, 57));
    assert_calls(WEFT_OK,
                 "begin weft_allgather -1 57 0; place dst 171; put 2 569<7 57 100; put 0 569<7 57 "
                 "100; await 0 100; await 2 100; ",
                 weft_allgather(&ops.team, own + TO, source + 7, 57));
    assert_memory_equal(own + TO + 57, source + 7, 57);
    static const char *const steps[] = {"place", "put", "await"};
    static const char *const heard[] = {
        "begin weft_allgather -1 57 0; place dst 171; ",
        "begin weft_allgather -1 57 0; place dst 171; put 2 569<0 57 100; ",
        ("begin weft_allgather -1 57 0; place dst 171; put 2 569<0 57 100; put 0 569<0 57 100; "
         "await 0 100; ")};
    for (int i = 0; i < 3; i++) {
        fails = steps[i];
        assert_calls(WEFT_ERR_SYSTEM, heard[i], weft_allgather(&ops.team, own + TO, source, 57));
    }
    fails = "begin";
    assert_calls(WEFT_ERR_SYSTEM, "begin weft_allgather -1 57 0; ",
                 weft_allgather(&ops.team, own + TO, source, 57));
}

static void small_blocks_are_packets(void **state)
{
    (void)state;
    assert_calls(WEFT_OK, "begin weft_allgather -1 56 0; place dst 168; exchange 3 56; ",
                 weft_allgather(&ops.team, own + TO, source + 3, 56));
    assert_calls(WEFT_OK, "begin weft_alltoall -1 56 0; place dst 168; exchange_each 3 56; ",
                 weft_alltoall(&ops.team, own + TO, source + 3, 56));
    ops.team.nodes = &nodes;
    assert_calls(WEFT_OK, "begin weft_allgather -1 56 0; place dst 168; exchange 3 56; ",
                 weft_allgather(&ops.team, own + TO, source + 3, 56));
    ops.team.nodes = NULL;
    ops.team.n = 64;
    assert_calls(WEFT_OK, "begin weft_allgather -1 8 0; place dst 512; exchange 3 8; ",
                 weft_allgather(&ops.team, own + TO, source + 3, 8));
    ops.team.n = 65;
    calls[0] = 0;
    assert_int_equal(weft_allgather(&ops.team, own + TO, source + 3, 8), WEFT_OK);
    assert_null(strstr(calls, "exchange"));
    assert_non_null(strstr(calls, "put 64 520<3 8 100; put 0 520<3"));
}

static void large_blocks_to_other_nodes_travel_side_by_side(void **state)
{
    (void)state;
    static char *blocks_of_all;
    blocks_of_all = __real_malloc(3 * COLL_NBI_LEAST);
    ops.job.segments[SEG_HEAP].base = blocks_of_all;
    for (int i = 0; i < 4; i++) {
        ops.team.direct = i == 1;
        size_t bytes = COLL_NBI_LEAST - (i == 2);
        fails = i == 3 ? "await" : NULL;
        calls[0] = 0;
        int status = weft_allgather(&ops.team, own, blocks_of_all + bytes, bytes);
        assert_int_equal(status, i == 3 ? WEFT_ERR_SYSTEM : WEFT_OK);
        assert_int_equal(strstr(calls, "100 nbi; ") != NULL, i == 0 || i == 3);
        assert_int_equal(strstr(calls, "; quiet; ") != NULL, i == 0);
    }
    fails = "quiet";
    assert_int_equal(weft_allgather(&ops.team, own, blocks_of_all + COLL_NBI_LEAST, COLL_NBI_LEAST),
                     WEFT_ERR_SYSTEM);
    __real_free(blocks_of_all);
}

static void blocks_of_nodes_go_by_node(void **state)
{
    (void)state;
    ops.team.nodes = &nodes;
    assert_calls(
        WEFT_OK,
        "begin weft_alltoall -1 8 0; place dst 24; place src 24; nodes_alltoall 512<16 8*1 "
        "1 1 100; ",
        weft_alltoall(&ops.team, own + TO, source + 16, 8));
    assert_calls(WEFT_OK,
                 "begin weft_allgather -1 57 0; place dst 171; nodes_collect 512 source 0:57 57:57 "
                 "114:57 100; ",
                 weft_allgather(&ops.team, own + TO, source, 57));
    no_memory = true;
    assert_calls(WEFT_ERR_NO_MEMORY,
                 "begin weft_allgather -1 57 0; place dst 171; "
                 "fail_all weft_allgather: no private memory for 3 sizes; ",
                 weft_allgather(&ops.team, own + TO, source, 57));
    no_memory = false;
    fails = "nodes_collect";
    assert_int_equal(weft_allgather(&ops.team, own + TO, source, 57), WEFT_ERR_SYSTEM);
    fails = "nodes_alltoall";
    assert_int_equal(weft_alltoall(&ops.team, own + TO, source, 57), WEFT_ERR_SYSTEM);
    fails = "place";
    assert_int_equal(weft_alltoall(&ops.team, own + TO, source, 57), WEFT_ERR_SYSTEM);
}

static void wrong_blocks_are_refused(void **state)
{
    (void)state;
    assert_calls(WEFT_OK, "begin weft_allgather -1 0 0; ",
                 weft_allgather(&ops.team, NULL, NULL, 0));
    assert_calls(WEFT_ERR_ARGUMENT, "begin weft_allgather -1 8 0; place dst 24; ",
                 weft_allgather(&ops.team, own, NULL, 8));
    assert_string_equal(base_last_error(), "weft_allgather: src is null");
    calls[0] = 0;
    assert_int_equal(weft_alltoall(&ops.team, own, source, SIZE_MAX / 3 + 1), WEFT_ERR_RANGE);
    assert_null(strstr(calls, "place"));
    fails = "place";
    assert_int_equal(weft_alltoall(&ops.team, own, NULL, 8), WEFT_ERR_SYSTEM);
}

/* ------------------------------------------------------------------------------------ alltoalls */

static void strided_blocks_are_put_with_strides(void **state)
{
    (void)state;
    assert_calls(WEFT_OK,
                 "begin weft_alltoalls -1 20 200000003; place dst 116; iput 0 552<60 2 3 4*5; iput "
                 "1 552<120 2 3 4*5; notify 2 100; iput 2 552<0 2 3 4*5; notify 0 100; await 0 "
                 "100; await 2 100; ",
                 weft_alltoalls(&ops.team, own + TO, source, 2, 3, 4, 5));
    ops.team.nodes = &nodes;
    assert_calls(WEFT_OK,
                 "begin weft_alltoalls -1 20 200000003; place dst 116; place src 172; "
                 "nodes_alltoall 512<0 4*5 2 3 100; ",
                 weft_alltoalls(&ops.team, own + TO, source, 2, 3, 4, 5));
    fails = "place";
    assert_calls(WEFT_ERR_SYSTEM, "begin weft_alltoalls -1 20 200000003; place dst 116; ",
                 weft_alltoalls(&ops.team, own + TO, source, 2, 3, 4, 5));
    ops.team.nodes = NULL;
    assert_calls(WEFT_ERR_SYSTEM, "begin weft_alltoalls -1 20 200000003; place dst 116; ",
                 weft_alltoalls(&ops.team, own + TO, source, 2, 3, 4, 5));
    assert_calls(WEFT_ERR_SYSTEM, "begin weft_alltoalls -1 20 200000003; place dst 116; ",
                 weft_alltoalls(&ops.team, own + TO, NULL, 2, 3, 4, 5));
    fails = "iput";
    assert_calls(WEFT_ERR_SYSTEM,
                 "begin weft_alltoalls -1 20 200000003; place dst 116; iput 0 552<60 2 3 4*5; ",
                 weft_alltoalls(&ops.team, own + TO, source, 2, 3, 4, 5));
    assert_string_equal(base_last_error(), "weft_alltoalls: iput fails");
    fails = "notify";
    assert_calls(WEFT_ERR_SYSTEM,
                 "begin weft_alltoalls -1 20 200000003; place dst 116; iput 0 552<60 2 3 4*5; iput "
                 "1 552<120 2 3 4*5; notify 2 100; ",
                 weft_alltoalls(&ops.team, own + TO, source, 2, 3, 4, 5));
}

static void wrong_strides_are_refused(void **state)
{
    (void)state;
    assert_calls(WEFT_OK, "begin weft_alltoalls -1 0 0; ",
                 weft_alltoalls(&ops.team, NULL, NULL, 0, 0, 4, 0));
    static const struct {
        ptrdiff_t dst, src;
        size_t element, n;
        weft_status status;
    } rows[] = {{0, 1, 4, 5, WEFT_ERR_ARGUMENT},
                {1, 0, 4, 5, WEFT_ERR_ARGUMENT},
                {1, 1, 0, 5, WEFT_ERR_ARGUMENT},
                {(ptrdiff_t)1 << 60, 1, 4, 5, WEFT_ERR_RANGE},
                {1, (ptrdiff_t)1 << 60, 4, 5, WEFT_ERR_RANGE},
                {(ptrdiff_t)1 << 60, 1, 4, 2, WEFT_ERR_RANGE},
                {1, (ptrdiff_t)1 << 60, 4, 2, WEFT_ERR_RANGE}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        calls[0] = 0;
        assert_int_equal(weft_alltoalls(&ops.team, own, source, rows[i].dst, rows[i].src,
                                        rows[i].element, rows[i].n),
                         rows[i].status);
        assert_null(strstr(calls, "place"));
    }
    assert_int_equal(weft_alltoalls(&ops.team, own, NULL, 1, 1, 4, 5), WEFT_ERR_ARGUMENT);
    assert_string_equal(base_last_error(), "weft_alltoalls: src is null");
    fails = "begin";
    assert_calls(WEFT_ERR_SYSTEM, "begin weft_alltoalls -1 20 100000001; ",
                 weft_alltoalls(&ops.team, own, source, 1, 1, 4, 5));
    fails = NULL;
    assert_calls(
        WEFT_OK,
        "begin weft_alltoalls -1 4 100000001; place dst 12; iput 0 4<8 1 1 4*1; iput 1 4<12 "
        "1 1 4*1; notify 2 100; iput 2 4<4 1 1 4*1; notify 0 100; await 0 100; await 2 "
        "100; ",
        weft_alltoalls(&ops.team, own, source + 4, 1, 1, 4, 1));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(large_blocks_are_put_to_each_member),
        TEST(small_blocks_are_packets),
        TEST(large_blocks_to_other_nodes_travel_side_by_side),
        TEST(blocks_of_nodes_go_by_node),
        TEST(wrong_blocks_are_refused),
        TEST(strided_blocks_are_put_with_strides),
        TEST(wrong_strides_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
