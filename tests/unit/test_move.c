/* SPDX-License-Identifier: Apache-2.0 */
/* Broadcast, collect, and collectives on GPU memory: which functions they call, in which order and
 * with which arguments, at each member, and that a failed call is the last one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/move.h"

/* ------------------------------------------------------------------------------------ broadcast */

static void the_root_puts_to_all_and_others_wait(void **state)
{
    (void)state;
    ops.job.oversubscribed = true;
    assert_calls(WEFT_OK,
                 "begin weft_broadcast 1 24 0; place dst 24; put 2 512<8 24 100; put 0 512<8 24 "
                 "100; ",
                 weft_broadcast(&ops.team, own + TO, source + 8, 24, 1));
    assert_memory_equal(own + TO, source + 8, 24);
    assert_int_equal(own[TO + 24], 0x5a);
    assert_int_equal(ops.team.leader, 1);
    assert_calls(WEFT_OK, "begin weft_broadcast 2 24 0; place dst 24; await 2 100; ",
                 weft_broadcast(&ops.team, own + TO, source, 24, 2));
    assert_memory_equal(own + TO, source + 8, 24); /* the root puts the data */
    assert_int_equal(ops.team.leader, 2);
    ops.job.oversubscribed = false;
    memset(own, 0x5a, sizeof own);
    assert_calls(WEFT_OK,
                 "begin weft_broadcast 1 24 0; place dst 24; put 2 512<8 24 100; put 0 512<8 24 "
                 "100; ",
                 coll_broadcast(&ops.team, own + TO, source + 8, 24, 1, false));
    assert_true(is_filled(own + TO, 0x5a, 24));
    assert_int_equal(ops.team.leader, -1);
    ops.team.me = 0; /* the root sends first to the members that follow it */
    assert_calls(WEFT_OK,
                 "begin weft_broadcast 0 24 0; place dst 24; put 1 512<8 24 100; put 2 512<8 24 "
                 "100; ",
                 weft_broadcast(&ops.team, own + TO, source + 8, 24, 0));
}

static void a_broadcast_of_nodes_goes_by_node(void **state)
{
    (void)state;
    ops.team.nodes = &nodes;
    ops.job.oversubscribed = true;
    ops.team.direct = true;
    assert_calls(
        WEFT_OK,
        "begin weft_broadcast 1 65536 0; place dst 65536; nodes_broadcast 512<8 65536 from "
        "1 100; ",
        weft_broadcast(&ops.team, own + TO, source + 8, 2 * BIG, 1));
    assert_memory_equal(own + TO, source + 8, 2 * BIG);
    assert_int_equal(ops.team.leader, -1);
    fails = "nodes_broadcast";
    memset(own, 0x5a, sizeof own);
    calls[0] = 0;
    assert_int_equal(weft_broadcast(&ops.team, own + TO, source + 8, 64, 1), WEFT_ERR_SYSTEM);
    assert_true(is_filled(own + TO, 0x5a, 64));
}

static void wrong_broadcasts_are_refused(void **state)
{
    (void)state;
    assert_calls(WEFT_OK, "begin weft_broadcast 1 0 0; ",
                 weft_broadcast(&ops.team, NULL, NULL, 0, 1));
    assert_calls(WEFT_OK, "begin weft_broadcast 9 0 0; ",
                 weft_broadcast(&ops.team, NULL, NULL, 0, 9));
    assert_calls(WEFT_ERR_PE, "begin weft_broadcast 3 8 0; ",
                 weft_broadcast(&ops.team, own, source, 8, 3));
    assert_calls(WEFT_ERR_PE, "begin weft_broadcast -1 8 0; ",
                 weft_broadcast(&ops.team, own, source, 8, -1));
    assert_calls(WEFT_ERR_ARGUMENT, "begin weft_broadcast 1 8 0; place dst 8; ",
                 weft_broadcast(&ops.team, own, NULL, 8, 1));
    assert_string_equal(base_last_error(), "weft_broadcast: src is null");
    static const char *const steps[] = {"begin", "place", "put"};
    static const char *const heard[] = {
        "begin weft_broadcast 1 8 0; ", "begin weft_broadcast 1 8 0; place dst 8; ",
        "begin weft_broadcast 1 8 0; place dst 8; put 2 0<0 8 100; "};
    for (int i = 0; i < 3; i++) {
        fails = steps[i];
        assert_calls(WEFT_ERR_SYSTEM, heard[i], weft_broadcast(&ops.team, own, source, 8, 1));
        assert_int_equal(own[0], 0x5a);
    }
    fails = "await";
    assert_calls(WEFT_ERR_SYSTEM, "begin weft_broadcast 2 8 0; place dst 8; await 2 100; ",
                 weft_broadcast(&ops.team, own, source, 8, 2));
    fails = "begin";
    assert_calls(WEFT_ERR_SYSTEM, "begin weft_broadcast 2 8 0; ",
                 weft_broadcast(&ops.team, own, NULL, 8, 2));
}

/* Makes a team of `n` members whose memory is mapped. */
static void map_all(int n)
{
    ops.team.n = n;
    ops.team.direct = true;
    for (int i = 0; i < n; i++) {
        mailbox_at[i] = &mailboxes[2][i]; /* the other members' mailboxes that this member writes */
        ops.map[pes[i]][SEG_HEAP] = large[i];
    }
}

static void large_broadcasts_are_read_from_the_root(void **state)
{
    (void)state;
    map_all(3);
    memcpy(large[2] + 64, source, BIG);
    /* The fake coll_find_range() reports offset 64 for the root's source. */
    assert_calls(WEFT_OK,
                 "begin weft_broadcast 2 32768 0; place dst 32768; place src 32768; "
                 "await 2 100; ",
                 weft_broadcast(&ops.team, own + TO, source + 64, BIG, 2));
    assert_memory_equal(own + TO, source, BIG);
    assert_int_equal(own[TO + BIG], 0x5a);
    assert_int_equal(mailboxes[2][2].flag, PHASE + 2);
    assert_int_equal(mailboxes[2][0].flag, 0);
    fails = "await";
    memset(mailboxes, 0, sizeof mailboxes);
    memset(own, 0x5a, sizeof own);
    assert_calls(WEFT_ERR_SYSTEM,
                 "begin weft_broadcast 2 32768 0; place dst 32768; place src 32768; "
                 "await 2 100; ",
                 weft_broadcast(&ops.team, own + TO, source + 64, BIG, 2));
    assert_int_equal(mailboxes[2][2].flag, 0);
    assert_int_equal(own[TO], 0x5a);
    fails = NULL;
    assert_calls(WEFT_OK,
                 "begin weft_broadcast 1 32768 0; place dst 32768; place src 32768; "
                 "await 0 102; await 2 102; ",
                 weft_broadcast(&ops.team, own + TO, source + 64, BIG, 1));
    assert_int_equal(mailboxes[2][2].flag, PHASE);
    assert_int_equal(mailboxes[2][0].flag, PHASE);
    assert_int_equal(mailboxes[2][1].flag, 0);
    assert_memory_equal(own + TO, source + 64, BIG);
    /* One byte less, or members without mapped memory: the root puts the data. */
    assert_calls(WEFT_OK, "begin weft_broadcast 2 32767 0; place dst 32767; await 2 100; ",
                 weft_broadcast(&ops.team, own + TO, source, BIG - 1, 2));
    ops.team.direct = false;
    assert_calls(WEFT_OK, "begin weft_broadcast 2 32768 0; place dst 32768; await 2 100; ",
                 weft_broadcast(&ops.team, own + TO, source, BIG, 2));
    ops.team.direct = true;
    fails = "place";
    assert_calls(WEFT_ERR_SYSTEM, "begin weft_broadcast 2 32768 0; place dst 32768; ",
                 weft_broadcast(&ops.team, own + TO, source, BIG, 2));
    map_all(1);
    fails = NULL;
    ops.team.me = 0;
    assert_calls(WEFT_OK, "begin weft_broadcast 0 32768 0; place dst 32768; ",
                 weft_broadcast(&ops.team, own + TO, source, BIG, 0));
}

/* Meanwhile the root puts the first half, a multiple of 64 bytes. */
static void one_receiver_reads_half_of_it(void **state)
{
    (void)state;
    map_all(2);
    const size_t bytes = BIG + 200, half = (BIG + 200) / 2 & ~(size_t)63;
    memcpy(large[0] + 64, source, bytes);
    assert_calls(WEFT_OK,
                 "begin weft_broadcast 0 32968 0; place dst 32968; place src 32968; "
                 "await 0 100; await 0 101; ",
                 weft_broadcast(&ops.team, own + TO, source + 64, bytes, 0));
    assert_true(is_filled(own + TO, 0x5a, half));
    assert_memory_equal(own + TO + half, source + half, bytes - half);
    assert_int_equal(mailboxes[2][0].flag, PHASE + 2);
    memset(large, 0x5a, sizeof large);
    memset(mailboxes, 0, sizeof mailboxes);
    memcpy(own + 64, source + 64, bytes); /* at the offset that the fake reports */
    assert_calls(WEFT_OK,
                 "begin weft_broadcast 1 32968 0; place dst 32968; place src 32968; "
                 "await 0 102; ",
                 weft_broadcast(&ops.team, own + 3 * BIG / 2, source + 64, bytes, 1));
    assert_memory_equal(large[0] + 3 * BIG / 2, source + 64, half / 2);
    assert_int_equal(mailboxes[2][0].flag, PHASE + 1);
    fails = "await";
    mailboxes[1][0].flag = PHASE;
    assert_calls(WEFT_ERR_SYSTEM,
                 "begin weft_broadcast 0 32968 0; place dst 32968; place src 32968; "
                 "await 0 101; ",
                 weft_broadcast(&ops.team, own + TO, source + 64, bytes, 0));
    assert_int_equal(mailboxes[2][0].flag, PHASE + 1);
}

/* -------------------------------------------------------------------------------------- collect */

static void blocks_of_different_sizes_lie_one_behind_the_other(void **state)
{
    (void)state;
    shares[0].bytes = 7;
    shares[2].bytes = 20;
    assert_calls(WEFT_OK,
                 "begin weft_collect -1 0 0; shares 16; place dst 40; put 2 519<3 13 100; put 0 "
                 "519<3 13 100; await 0 100; await 2 100; ",
                 weft_collect(&ops.team, own + TO, source + 3, 13));
    /* Member 0 has 7 bytes, so this member's block begins at offset 7. */
    assert_memory_equal(own + TO + 7, source + 3, 13);
    assert_true(is_filled(own + TO, 0x5a, 7));
    assert_int_equal(own[TO + 20], 0x5a);
}

static void who_has_nothing_only_tells(void **state)
{
    (void)state;
    shares[2].bytes = 20;
    assert_calls(WEFT_OK,
                 "begin weft_collect -1 0 0; shares 16; place dst 20; notify 0 100; notify 2 100; "
                 "await 0 100; await 2 100; ",
                 weft_collect(&ops.team, own, NULL, 0));
    fails = "notify";
    assert_calls(WEFT_ERR_SYSTEM,
                 "begin weft_collect -1 0 0; shares 16; place dst 20; notify 0 100; ",
                 weft_collect(&ops.team, own, NULL, 0));
    fails = NULL;
    shares[2].bytes = 0;
    assert_calls(WEFT_OK, "begin weft_collect -1 0 0; shares 16; ",
                 weft_collect(&ops.team, own, NULL, 0));
    shares[2].bytes = 1;
    assert_calls(WEFT_OK,
                 "begin weft_collect -1 0 0; shares 16; place dst 1; notify 0 100; notify 2 100; "
                 "await 0 100; await 2 100; ",
                 weft_collect(&ops.team, own, NULL, 0));
}

static void wrong_collects_are_refused(void **state)
{
    (void)state;
    static const char *const steps[] = {"begin", "shares", "place", "put", "await"};
    for (int i = 0; i < 5; i++) {
        fails = steps[i];
        calls[0] = 0;
        assert_int_equal(weft_collect(&ops.team, own, source, 8), WEFT_ERR_SYSTEM);
        for (int k = i + 1; k < 5; k++)
            assert_null(strstr(calls, steps[k]));
    }
    fails = NULL;
    assert_calls(WEFT_ERR_ARGUMENT, "begin weft_collect -1 0 0; shares 16; place dst 8; ",
                 weft_collect(&ops.team, own, NULL, 8));
    assert_string_equal(base_last_error(), "weft_collect: src is null");
    shares[0].bytes = shares[2].bytes = SIZE_MAX / 2 + 1;
    assert_calls(WEFT_ERR_RANGE, "begin weft_collect -1 0 0; shares 16; ",
                 weft_collect(&ops.team, own, source, 8));
    no_memory = true;
    assert_calls(WEFT_ERR_NO_MEMORY,
                 "begin weft_collect -1 0 0; "
                 "fail_all weft_collect: no private memory for 3 sizes; ",
                 weft_collect(&ops.team, own, source, 8));
}

/* ---------------------------------------------------------------------------------- GPU memory */

static void gpu_memory_is_for_its_own_functions(void **state)
{
    (void)state;
    void *gpu = (void *)(uintptr_t)OPS_GPU;
    ops.job.gpu = &ops.gpu;
    ops.team.nodes = &nodes;
    shares[0].bytes = 7;
    shares[2].bytes = 20;
    calls[0] = 0;
    assert_int_equal(weft_broadcast(&ops.team, gpu, source, 8, 1), WEFT_OK);
    assert_non_null(strstr(calls, "; gpu_broadcast 8 1 100; "));
    assert_int_equal(weft_broadcast(&ops.team, own, gpu, 8, 1), WEFT_OK);
    assert_null(strstr(calls, "nodes"));
    calls[0] = 0;
    assert_int_equal(weft_alltoall(&ops.team, gpu, source, 8), WEFT_OK);
    assert_non_null(strstr(calls, "; gpu_blocks 8 8 8; "));
    assert_int_equal(weft_allgather(&ops.team, own, gpu, 8), WEFT_OK);
    assert_non_null(strstr(calls, "; gpu_nodes_collect 0:8 8:8 16:8 100; "));
    assert_int_equal(weft_alltoalls(&ops.team, gpu, source, 2, 3, 4, 5), WEFT_OK);
    assert_non_null(strstr(calls, "; gpu_strided 2 3 4*5; "));
    assert_int_equal(weft_alltoalls(&ops.team, own, gpu, 2, 3, 4, 5), WEFT_OK);
    assert_null(strstr(calls, "nodes_alltoall"));
    assert_int_equal(weft_collect(&ops.team, gpu, source, 13), WEFT_OK);
    assert_non_null(strstr(calls, "; gpu_nodes_collect 0:7 7:13 20:20 100; "));
    ops.team.nodes = NULL;
    calls[0] = 0;
    assert_int_equal(weft_allgather(&ops.team, own, gpu, 8), WEFT_OK);
    assert_non_null(strstr(calls, "; gpu_blocks 0 8 8; "));
    assert_int_equal(weft_collect(&ops.team, gpu, source, 13), WEFT_OK);
    assert_non_null(strstr(calls, "; gpu_collect 7+13+20 7 40; "));
    assert_null(strstr(calls, "nodes"));
    fails = "place";
    calls[0] = 0;
    assert_int_equal(weft_alltoalls(&ops.team, gpu, source, 2, 3, 4, 5), WEFT_ERR_SYSTEM);
    assert_null(strstr(calls, "gpu_strided"));
}

static void a_collect_out_of_gpu_memory_goes_through_a_copy(void **state)
{
    (void)state;
    void *gpu = (void *)(uintptr_t)OPS_GPU;
    ops.job.gpu = &ops.gpu;
    shares[0].bytes = 7;
    shares[2].bytes = 20;
    assert_calls(WEFT_OK,
                 "begin weft_collect -1 0 0; shares 16; place dst 40; copy 13; put 2 7<-1 13 100; "
                 "put 0 7<-1 13 100; await 0 100; await 2 100; ",
                 weft_collect(&ops.team, own, gpu, 13));
    assert_true(is_filled(own + 7, 'g', 13));
    assert_true(is_filled(own, 0x5a, 7));
    assert_int_equal(own[20], 0x5a);
    assert_calls(
        WEFT_OK,
        "begin weft_collect -1 0 0; shares 16; place dst 27; copy 0; put 2 7<-1 0 100; put "
        "0 7<-1 0 100; await 0 100; await 2 100; ",
        weft_collect(&ops.team, own, gpu, 0));
    static const char *const steps[] = {"copy", "put", "await"};
    for (int i = 0; i < 3; i++) {
        memset(own, 0x5a, sizeof own);
        fails = steps[i];
        calls[0] = 0;
        assert_int_equal(weft_collect(&ops.team, own, gpu, 13), WEFT_ERR_SYSTEM);
        for (int k = i + 1; k < 3; k++)
            assert_null(strstr(calls, steps[k]));
        assert_int_equal(own[7], i < 2 ? 0x5a : 'g');
    }
    fails = NULL;
    ops.team.nodes = &nodes;
    assert_calls(
        WEFT_OK,
        "begin weft_collect -1 0 0; shares 16; place dst 40; copy 13; nodes_collect 0 copy "
        "0:7 7:13 20:20 100; ",
        weft_collect(&ops.team, own, gpu, 13));
    fails = "copy";
    assert_calls(WEFT_ERR_SYSTEM,
                 "begin weft_collect -1 0 0; shares 16; place dst 40; copy 13; "
                 "fail_all copy fails; ",
                 weft_collect(&ops.team, own, gpu, 13));
    fails = NULL;
    assert_calls(WEFT_OK,
                 "begin weft_collect -1 0 0; shares 16; place dst 40; nodes_collect 0 source 0:7 "
                 "7:13 20:20 100; ",
                 weft_collect(&ops.team, own, source, 13));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_root_puts_to_all_and_others_wait),
        TEST(a_broadcast_of_nodes_goes_by_node),
        TEST(wrong_broadcasts_are_refused),
        TEST(large_broadcasts_are_read_from_the_root),
        TEST(one_receiver_reads_half_of_it),
        TEST(blocks_of_different_sizes_lie_one_behind_the_other),
        TEST(who_has_nothing_only_tells),
        TEST(wrong_collects_are_refused),
        TEST(gpu_memory_is_for_its_own_functions),
        TEST(a_collect_out_of_gpu_memory_goes_through_a_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
