/* SPDX-License-Identifier: Apache-2.0 */
/* Waits, quiet, barriers and syncs on streams of CUDA: the kernels, their arguments, and what is
 * rejected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/stream.h"

/* ------------------------------------------------------------------------------------ waits */

static weft_status wait_on(void *signal, weft_cmp cmp)
{
    return weft_signal_wait_on_stream(&ops.ctx, signal, cmp, (uint64_t)-5, some_stream);
}

static void a_kernel_waits_for_a_signal(void **state)
{
    (void)state;
    assert_int_equal(wait_on(gpu_at(8), WEFT_CMP_COUNT - 1), WEFT_OK);
    assert_int_equal(beneath.kernel, GPU_weft_kernel_wait);
    assert_int_equal(beneath.threads, 1);
    assert_ptr_equal(beneath.signal, gpu_at(8));
    assert_int_equal(beneath.width, 8);
    assert_int_equal(beneath.is_signed, 0);
    assert_int_equal(beneath.cmp, WEFT_CMP_COUNT - 1);
    assert_int_equal(beneath.value, (uint64_t)-5);
    assert_int_equal(beneath.limit_ns, 54321);
    assert_ptr_equal(beneath.stream, some_stream);
    assert_int_equal(wait_on(host_at(OPS_HEAP / 2 - 8), WEFT_EQ), WEFT_OK);
    assert_int_equal(beneath.launches, 2);
    assert_int_equal(wait_on(host_at(OPS_HEAP / 2), WEFT_EQ), WEFT_ERR_UNSUPPORTED);
    static uint64_t data[2];
    ops.ctx.seg[SEG_DATA].base = (uintptr_t)data;
    ops.ctx.seg[SEG_DATA].size = sizeof data;
    assert_int_equal(wait_on(data, WEFT_EQ), WEFT_ERR_UNSUPPORTED);
    assert_int_equal(wait_on(gpu_at(8), WEFT_CMP_COUNT), WEFT_ERR_OP);
    assert_int_equal(wait_on(gpu_at(4), WEFT_EQ), WEFT_ERR_ALIGNMENT);
    assert_int_equal(wait_on((void *)(uintptr_t)OPS_OWN_GPU, WEFT_EQ), WEFT_ERR_ADDRESS);
    assert_int_equal(beneath.launches, 2);
    beneath.no_launch = true;
    assert_int_equal(wait_on(gpu_at(8), WEFT_EQ), WEFT_ERR_SYSTEM);
    beneath.no_enter = true;
    assert_int_equal(wait_on(gpu_at(8), WEFT_EQ), WEFT_ERR_SYSTEM);
    assert_int_equal(beneath.launches, 3);
    beneath.target = 2;
    assert_int_equal(wait_on(host_at(OPS_HEAP / 2), WEFT_EQ), WEFT_ERR_UNSUPPORTED);
    assert_string_equal(beneath.call, "signal_wait");
    beneath.target = 0;
    beneath.other_context = true;
    assert_int_equal(wait_on(gpu_at(8), WEFT_EQ), WEFT_ERR_ARGUMENT);
}

static void quiet_completes_what_the_host_began(void **state)
{
    (void)state;
    assert_int_equal(weft_quiet_on_stream(NULL, some_stream), WEFT_ERR_ARGUMENT);
    assert_int_equal(weft_quiet_on_stream(&ops.ctx, some_stream), WEFT_OK);
    assert_int_equal(beneath.quiets, 1);
    beneath.no_quiet = true;
    assert_int_equal(weft_quiet_on_stream(&ops.ctx, some_stream), WEFT_ERR_SYSTEM);
    beneath.failed = true;
    assert_int_equal(weft_quiet_on_stream(&ops.ctx, some_stream), WEFT_ERR_KERNEL);
    assert_int_equal(beneath.quiets, 2);
    beneath.failed = false;
    beneath.target = 2;
    assert_int_equal(weft_quiet_on_stream(&ops.ctx, some_stream), WEFT_ERR_UNSUPPORTED);
    assert_string_equal(beneath.call, "quiet");
    ops.ctx.options = WEFT_CTX_PRIVATE;
    assert_int_equal(weft_quiet_on_stream(&ops.ctx, some_stream), WEFT_ERR_ARGUMENT);
    assert_non_null(strstr(base_last_error(), "WEFT_CTX_PRIVATE"));
    ops.job.state = JOB_FINALIZED;
    assert_int_equal(weft_quiet_on_stream(&ops.ctx, some_stream), WEFT_ERR_FINALIZED);
    assert_int_equal(beneath.quiets, 2);
}

/* --------------------------------------------------------------------------------- barriers */

static void members_meet_in_a_kernel(void **state)
{
    (void)state;
    assert_int_equal(weft_sync_on_stream(&ops.team, some_stream), WEFT_OK);
    assert_int_equal(beneath.quiets, 0);
    assert_int_equal(beneath.barrier.operation, WEFT_DEV_OP_SYNC);
    assert_int_equal(weft_barrier_on_stream(&ops.team, some_stream), WEFT_OK);
    assert_int_equal(beneath.quiets, 1);
    assert_int_equal(beneath.watches, 2);
    assert_int_equal(beneath.launches, 2);
    assert_int_equal(beneath.barrier.operation, WEFT_DEV_OP_BARRIER);
    assert_int_equal(beneath.barrier.members, OPS_PES);
    assert_int_equal(beneath.barrier.me, OPS_PE);
    assert_int_equal(beneath.barrier.team, 3);
    assert_int_equal(beneath.threads, 32);
    assert_int_equal(beneath.limit_ns, 54321);
    assert_ptr_equal(beneath.stream, some_stream);
    for (int i = 0; i < OPS_PES; i++) {
        assert_ptr_equal(beneath.barrier.areas[i], ops_at(i, SEG_GPU, 0x100 + 3 * 0x40));
        assert_int_equal(beneath.barrier.pe[i], i);
    }
    assert_null(beneath.barrier.areas[OPS_PES]);
}

static void large_teams_need_more_threads(void **state)
{
    (void)state;
    static int pes[GPU_BARRIER_MEMBERS + 1];
    static const struct {
        int n;
        unsigned threads;
    } rows[] = {{32, 32}, {33, 64}, {GPU_BARRIER_MEMBERS, 64}};
    ops.team.pes = pes;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ops.team.n = rows[i].n;
        assert_int_equal(weft_sync_on_stream(&ops.team, some_stream), WEFT_OK);
        assert_int_equal(beneath.threads, rows[i].threads);
    }
    ops.team.n = GPU_BARRIER_MEMBERS + 1;
    assert_int_equal(weft_sync_on_stream(&ops.team, some_stream), WEFT_ERR_UNSUPPORTED);
    assert_int_equal(beneath.launches, 3);
    assert_int_equal(beneath.watches, 3);
}

static void a_member_out_of_reach_is_named(void **state)
{
    (void)state;
    ops.choices[WEFT_GPU][2].reason = "it is far";
    for (int i = 0; i < 3; i++) {
        ops.slot_of[2] = i == 0 ? -1 : 2;
        ops_path(WEFT_GPU, 2, i == 1 ? PATH_STAGED : PATH_P2P);
        ops.windows[2].mapped = i != 2;
        assert_int_equal(weft_barrier_on_stream(&ops.team, some_stream), WEFT_ERR_NO_PATH);
        assert_non_null(strstr(base_last_error(), "kernels of PE 1 cannot access the GPU memory of "
                                                  "PE 2 by load and store (it is far)"));
    }
    assert_int_equal(beneath.launches + beneath.quiets + beneath.watches, 0);
    ops.slot_of[0] = 0;
    ops.windows[2].mapped = true;
    assert_int_equal(weft_barrier_on_stream(&ops.team, some_stream), WEFT_OK);
}

static void a_meeting_that_cannot_be_says_so(void **state)
{
    (void)state;
    assert_int_equal(weft_barrier_on_stream(NULL, some_stream), WEFT_ERR_ARGUMENT);
    bool *const failures[] = {&beneath.no_enter, &beneath.no_quiet, &beneath.no_watch,
                              &beneath.failed};
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        *failures[i] = true;
        beneath.quiets = beneath.enters = 0;
        assert_int_equal(weft_barrier_on_stream(&ops.team, some_stream),
                         i == 3 ? WEFT_ERR_KERNEL : WEFT_ERR_SYSTEM);
        assert_int_equal(beneath.launches, 0);
        assert_int_equal(beneath.enters, i == 0);
        assert_int_equal(beneath.quiets, i < 2);
        *failures[i] = false;
    }
    beneath.no_launch = true;
    assert_int_equal(weft_barrier_on_stream(&ops.team, some_stream), WEFT_ERR_SYSTEM);
    beneath.other_context = true;
    assert_int_equal(weft_barrier_on_stream(&ops.team, some_stream), WEFT_ERR_ARGUMENT);
    beneath.other_context = false;
    for (int i = 0; i < 2; i++) {
        beneath.target = i ? 0 : 2;
        beneath.not_direct = i;
        assert_int_equal(weft_barrier_on_stream(&ops.team, some_stream), WEFT_ERR_UNSUPPORTED);
        assert_string_equal(beneath.call, "barrier");
        assert_int_equal(weft_sync_on_stream(&ops.team, some_stream), WEFT_ERR_UNSUPPORTED);
        assert_string_equal(beneath.call, "sync");
    }
    ops.job.state = JOB_FINALIZED;
    beneath.call = "";
    assert_true(weft_sync_on_stream(&ops.team, some_stream) != WEFT_OK);
    assert_string_equal(beneath.call, "");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_kernel_waits_for_a_signal),    TEST(quiet_completes_what_the_host_began),
        TEST(members_meet_in_a_kernel),       TEST(large_teams_need_more_threads),
        TEST(a_member_out_of_reach_is_named), TEST(a_meeting_that_cannot_be_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
