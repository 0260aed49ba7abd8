/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong use of a primitive ends the kernel with a message that names kernel, block and lane, and
 * never hangs. The executor continues as before. */
#include "simt_test.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

WEFT_KERNEL(exit_before_barrier)
{
    if (weft_dev_thread_rank() == 70)
        return;
    weft_dev_sync_block();
}

static void barrier_with_an_exited_lane(void **state)
{
    assert_ok(WEFT_LAUNCH(exit_before_barrier, weft_dim(1, 2, 1), 96, 0, NULL));
    expect_report("kernel exit_before_barrier, block (0,", "thread 70, which has exited",
                  "sync_block cannot be reached");
}

WEFT_KERNEL(shuffle_from_exited, (uint32_t *, out))
{
    unsigned lane = weft_dev_lane();
    if (lane == 3)
        return;
    out[lane] = weft_dev_shuffle_u32(~8u, lane, lane == 9 ? 3 : lane);
}

static void shuffle_from_a_lane_that_exited(void **state)
{
    uint32_t out[32];
    assert_ok(WEFT_LAUNCH(shuffle_from_exited, 1, 32, 0, NULL, out));
    expect_report("block (0,0,0), thread (9,0,0) (warp 0, lane 9)", "shuffle from lane 3",
                  "which has exited");
}

WEFT_KERNEL(shuffle_from_other, (uint32_t *, out))
{
    unsigned lane = weft_dev_lane();
    uint32_t half = lane < 16 ? 0xffffu : 0xffff0000u;
    out[lane] = weft_dev_shuffle_down_u32(half, lane, 8);
}

static void shuffle_from_a_lane_outside_the_mask(void **state)
{
    uint32_t out[32];
    assert_ok(WEFT_LAUNCH(shuffle_from_other, 1, 32, 0, NULL, out));
    expect_report("shuffle_down from lane 16", "which is not in the mask (mask 0x0000ffff)",
                  "lane 8)");
}

WEFT_KERNEL(shuffle_from_nowhere, (uint32_t *, out))
{
    out[weft_dev_lane()] = weft_dev_shuffle_u32(WEFT_FULL_MASK, 1, 31);
}

static void shuffle_from_a_lane_that_never_was(void **state)
{
    uint32_t out[32];
    assert_ok(WEFT_LAUNCH(shuffle_from_nowhere, 1, 20, 0, NULL, out));
    expect_report("shuffle from lane 31", "which the block does not have", "shuffle_from_nowhere");
}

WEFT_KERNEL(mask_without_caller)
{
    weft_dev_sync_warp(0xffu);
}

static void mask_that_does_not_name_the_caller(void **state)
{
    assert_ok(WEFT_LAUNCH(mask_without_caller, 1, 32, 0, NULL));
    expect_report("sync_warp with mask 0x000000ff", "does not name the calling lane", "lane 8)");
}

WEFT_KERNEL(masks_differ)
{
    weft_dev_ballot(weft_dev_lane() == 4 ? 0xffffu : WEFT_FULL_MASK, 1);
}

static void masks_that_differ(void **state)
{
    assert_ok(WEFT_LAUNCH(masks_differ, 1, 32, 0, NULL));
    expect_report("ballot with mask 0x0000ffff", "waits in ballot with mask 0xffffffff",
                  "thread (4,0,0)");
}

WEFT_KERNEL(operations_differ)
{
    if (weft_dev_lane() < 16)
        weft_dev_sync_warp(WEFT_FULL_MASK);
    else
        weft_dev_any(WEFT_FULL_MASK, 1);
}

static void operations_that_differ(void **state)
{
    assert_ok(WEFT_LAUNCH(operations_differ, 1, 32, 0, NULL));
    expect_report("any with mask 0xffffffff", "waits in sync_warp", "lane 16)");
}

WEFT_KERNEL(exit_before_vote)
{
    if (weft_dev_lane() == 31)
        return;
    weft_dev_ballot(WEFT_FULL_MASK, 1);
}

static void vote_that_names_an_exited_lane(void **state)
{
    assert_ok(WEFT_LAUNCH(exit_before_vote, 1, 32, 0, NULL));
    expect_report("ballot with mask 0xffffffff names lane 31", "which has exited", "warp 0");
}

WEFT_KERNEL(barrier_against_vote)
{
    if (weft_dev_lane() == 2)
        weft_dev_sync_block();
    else
        weft_dev_sync_warp(WEFT_FULL_MASK);
}

static void barrier_in_one_branch_only(void **state)
{
    assert_ok(WEFT_LAUNCH(barrier_against_vote, 1, 32, 0, NULL));
    expect_report("kernel barrier_against_vote", "lane 2", "for this lane too");
}

WEFT_KERNEL(barriers_differ)
{
    if (weft_dev_warp())
        weft_dev_sync_block();
    else
        weft_dev_sync_block_count(1);
}

static void barriers_that_differ(void **state)
{
    assert_ok(WEFT_LAUNCH(barriers_differ, 1, 64, 0, NULL));
    expect_report("sync_block, while thread 0 waits in sync_block_count", "warp 1",
                  "block (0,0,0)");
}

/* Three lanes wait in a circle: no two of them contradict each other, but all are stuck. */
WEFT_KERNEL(circle)
{
    unsigned lane = weft_dev_lane();
    weft_dev_sync_warp(1u << lane | 1u << (lane + 1) % 3);
}

static void lanes_that_wait_in_a_circle(void **state)
{
    assert_ok(WEFT_LAUNCH(circle, 1, 3, 0, NULL));
    expect_report("all 3 lanes that remain of the block wait", "waits in sync_warp with mask",
                  "kernel circle");
}

WEFT_KERNEL(too_much_shared)
{
    WEFT_SHARED(char, large, [48 * 1024]);
    WEFT_SHARED(char, more, [16]);
    large[0] = more[0] = 1;
}

static void shared_memory_beyond_its_limit(void **state)
{
    assert_ok(WEFT_LAUNCH(too_much_shared, 1, 1, 0, NULL));
    expect_report("shared memory more of 16 bytes", "48 KiB", "too_much_shared");
}

WEFT_KERNEL(count, (uint32_t *, n))
{
    weft_dev_atomic_add_u32(n, 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
}

static void note(void *arg)
{
    *(int *)arg = 1;
}

/* After a fault kernels are skipped until it is read; host calls and events still run. */
static void a_fault_ends_only_what_depends_on_it(void **state)
{
    uint32_t skipped = 0, other = 0, after = 0;
    int called = 0;
    weft_stream stream;
    weft_event event;
    assert_ok(weft_stream_create(&stream));
    assert_ok(weft_event_create(&event));
    assert_ok(WEFT_LAUNCH(mask_without_caller, 100, 32, 0, NULL));
    assert_ok(WEFT_LAUNCH(count, 1, 32, 0, NULL, &skipped));
    assert_ok(weft_event_record(event, NULL));
    assert_ok(weft_stream_host_call(NULL, note, &called));
    assert_ok(WEFT_LAUNCH(count, 1, 32, 0, stream, &other));
    assert_ok(weft_event_synchronize(event));
    assert_ok(weft_stream_synchronize(stream));
    expect_report("mask_without_caller", "sync_warp", "lane");
    assert_ok(WEFT_LAUNCH(count, 1, 32, 0, NULL, &after));
    assert_ok(weft_stream_synchronize(NULL));
    assert_int_equal(skipped, 0);
    assert_int_equal(other, 32);
    assert_int_equal(after, 32);
    assert_int_equal(called, 1);
    assert_ok(weft_event_destroy(event));
    assert_ok(weft_stream_destroy(stream));
}

WEFT_KERNEL(launch_inside, (int *, status))
{
    *status = weft_stream_synchronize(NULL);
}

static void host_functions_are_refused_in_kernels(void **state)
{
    int status = 0;
    assert_ok(WEFT_LAUNCH(launch_inside, 1, 1, 0, NULL, &status));
    assert_ok(weft_stream_synchronize(NULL));
    assert_int_equal(status, WEFT_ERR_ARGUMENT);
}

#if !WEFT_SIMT_TSAN && !defined(__SANITIZE_ADDRESS__)
WEFT_DEVICE_NOINLINE int recurse(int depth)
{
    volatile char frame[512];
    frame[0] = (char)depth;
    return depth ? recurse(depth - 1) + frame[0] : 0;
}

WEFT_KERNEL(overrun, (int *, out))
{
    *out = recurse(1 << 20);
}

static void a_lane_that_overruns_its_stack_is_stopped(void **state)
{
    weft_simt_shutdown(); /* the child has only the worker threads that it starts */
    pid_t child = fork();
    if (child == 0) {
        int out;
        signal(SIGSEGV, SIG_DFL);
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        (void)!WEFT_LAUNCH(overrun, 1, 1, 0, NULL, &out);
        (void)!weft_stream_synchronize(NULL);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(barrier_with_an_exited_lane),
        cmocka_unit_test(shuffle_from_a_lane_that_exited),
        cmocka_unit_test(shuffle_from_a_lane_outside_the_mask),
        cmocka_unit_test(shuffle_from_a_lane_that_never_was),
        cmocka_unit_test(mask_that_does_not_name_the_caller),
        cmocka_unit_test(masks_that_differ),
        cmocka_unit_test(operations_that_differ),
        cmocka_unit_test(vote_that_names_an_exited_lane),
        cmocka_unit_test(barrier_in_one_branch_only),
        cmocka_unit_test(barriers_that_differ),
        cmocka_unit_test(lanes_that_wait_in_a_circle),
        cmocka_unit_test(shared_memory_beyond_its_limit),
        cmocka_unit_test(a_fault_ends_only_what_depends_on_it),
        cmocka_unit_test(host_functions_are_refused_in_kernels),
#if !WEFT_SIMT_TSAN && !defined(__SANITIZE_ADDRESS__)
        cmocka_unit_test(a_lane_that_overruns_its_stack_is_stopped),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
