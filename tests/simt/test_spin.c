/* SPDX-License-Identifier: Apache-2.0 */
/* A lane that polls for another one lets it run: in its warp, its block, its grid, on another
 * stream, and on the host. */
#include "simt_test.h"

#include <pthread.h>

WEFT_DEVICE void wait_for(const uint32_t *flag, uint32_t value)
{
    while (weft_dev_load_u32(flag, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS) < value)
        ;
}

WEFT_DEVICE void set(uint32_t *flag, uint32_t value)
{
    weft_dev_store_u32(flag, value, WEFT_ORDER_RELEASE, WEFT_SCOPE_SYS);
}

/* Thread i waits for thread i + 1, so the first one to run waits longest. */
WEFT_KERNEL(chain, (uint32_t *, flags), (unsigned *, data))
{
    unsigned i = (unsigned)weft_dev_grid_rank(), n = (unsigned)weft_dev_grid_threads();
    if (i + 1 < n) {
        wait_for(&flags[i + 1], 1);
        data[i] = data[i + 1] + 1;
    }
    set(&flags[i], 1);
}

static void run_chain(unsigned blocks, unsigned threads)
{
    unsigned n = blocks * threads;
    uint32_t *flags = calloc(n, sizeof *flags);
    unsigned *data = calloc(n, sizeof *data);
    assert_ok(WEFT_LAUNCH(chain, blocks, threads, 0, NULL, flags, data));
    assert_ok(weft_stream_synchronize(NULL));
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(data[i], n - 1 - i);
    free(flags);
    free(data);
}

static void lanes_of_one_warp(void **state)
{
    run_chain(1, 32);
}

static void warps_of_one_block(void **state)
{
    run_chain(1, 256);
}

static void blocks_of_one_grid(void **state)
{
    run_chain(20, 33);
}

static void blocks_on_one_worker(void **state)
{
    restart_with("WEFT_SIMT_THREADS", "1");
    run_chain(20, 8);
    assert_int_equal(weft_simt_threads(), 1);
    restart_with("WEFT_SIMT_THREADS", NULL);
}

/* The first block waits for the last one and counts its polls: it writes all the time, on the only
 * worker thread. */
WEFT_KERNEL(busy_wait, (uint32_t *, flag), (uint64_t *, looks))
{
    if (weft_dev_block_rank() + 1 == weft_dev_grid_blocks())
        set(flag, 1);
    while (!weft_dev_load_u32(flag, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS))
        weft_dev_atomic_add_u64(looks, 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
}

static void a_lane_that_writes_lets_blocks_begin(void **state)
{
    uint32_t flag = 0;
    uint64_t looks = 0;
    restart_with("WEFT_SIMT_THREADS", "1");
    assert_ok(WEFT_LAUNCH(busy_wait, 3, 1, 0, NULL, &flag, &looks));
    assert_ok(weft_stream_synchronize(NULL));
    assert_true(looks > 0);
    restart_with("WEFT_SIMT_THREADS", NULL);
}

/* A lock by compare-and-swap, a barrier of the grid, and polling by clock and sleep. */
WEFT_KERNEL(grid_barrier, (uint32_t *, lock), (uint32_t *, arrived), (unsigned *, plain),
            (uint64_t *, slept))
{
    while (weft_dev_atomic_cas_u32(lock, 0, 1, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_GPU))
        ;
    ++*plain;
    weft_dev_atomic_exch_u32(lock, 0, WEFT_ORDER_RELEASE, WEFT_SCOPE_GPU);

    weft_dev_sync_block();
    if (weft_dev_thread_rank() == 0) {
        weft_dev_atomic_add_u32(arrived, 1, WEFT_ORDER_ACQ_REL, WEFT_SCOPE_GPU);
        uint64_t start = weft_dev_clock_ns();
        while (weft_dev_load_u32(arrived, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_GPU) <
               weft_dev_grid_blocks())
            weft_dev_nanosleep(1000);
        weft_dev_atomic_max_u64(slept, weft_dev_clock_ns() - start, WEFT_ORDER_RELAXED,
                                WEFT_SCOPE_GPU);
    }
    weft_dev_sync_block();
    if (*plain != weft_dev_grid_threads())
        weft_dev_atomic_add_u32(arrived, 1000, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
}

static void locks_and_barriers_of_a_grid(void **state)
{
    uint32_t lock = 0, arrived = 0;
    unsigned plain = 0;
    uint64_t slept = 0;
    assert_ok(
        WEFT_LAUNCH_COOPERATIVE(grid_barrier, 12, 64, 0, NULL, &lock, &arrived, &plain, &slept));
    assert_ok(weft_stream_synchronize(NULL));
    assert_int_equal(plain, 12 * 64);
    assert_int_equal(arrived, 12);
}

/* All lanes of a warp poll together until one sees the flag. */
WEFT_KERNEL(poll_by_vote, (uint32_t *, flag), (uint32_t *, seen))
{
    if (weft_dev_warp() == 1) {
        weft_dev_nanosleep(50000);
        if (weft_dev_lane() == 0)
            set(flag, 1);
        return;
    }
    while (!weft_dev_any(WEFT_FULL_MASK,
                         weft_dev_lane() == 7 &&
                             weft_dev_load_u32(flag, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_CTA)))
        ;
    weft_dev_atomic_add_u32(seen, 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_CTA);
}

static void warps_poll_by_vote(void **state)
{
    uint32_t flag = 0, seen = 0;
    assert_ok(WEFT_LAUNCH(poll_by_vote, 1, 64, 0, NULL, &flag, &seen));
    assert_ok(weft_stream_synchronize(NULL));
    assert_int_equal(seen, 32);
}

WEFT_KERNEL(ping, (uint32_t *, mine), (uint32_t *, theirs), (unsigned, rounds))
{
    for (uint32_t r = 1; r <= rounds; r++) {
        set(theirs, r);
        wait_for(mine, r);
    }
}

static void grids_on_two_streams(void **state)
{
    uint32_t a = 0, b = 0;
    weft_stream one, two;
    assert_ok(weft_stream_create(&one));
    assert_ok(weft_stream_create(&two));
    assert_ok(WEFT_LAUNCH(ping, 1, 1, 0, one, &a, &b, 200));
    assert_ok(WEFT_LAUNCH(ping, 1, 1, 0, two, &b, &a, 200));
    assert_ok(weft_stream_destroy(one));
    assert_ok(weft_stream_destroy(two));
    assert_int_equal(a, 200);
    assert_int_equal(b, 200);
}

static void the_host_answers_a_kernel(void **state)
{
    uint32_t mine = 0, theirs = 0;
    assert_ok(WEFT_LAUNCH(ping, 1, 1, 0, NULL, &mine, &theirs, 50));
    for (uint32_t r = 1; r <= 50; r++) {
        while (__atomic_load_n(&theirs, __ATOMIC_ACQUIRE) < r)
            sched_yield();
        __atomic_store_n(&mine, r, __ATOMIC_RELEASE);
    }
    assert_ok(weft_stream_synchronize(NULL));
}

/* Fences order data and a flag that are accessed with relaxed order, as in put with signal. */
WEFT_KERNEL(fenced, (unsigned *, data), (uint32_t *, flag), (unsigned *, got))
{
    if (weft_dev_block_rank() == 1) {
        data[weft_dev_thread_rank()] = 7;
        weft_dev_sync_block();
        if (weft_dev_thread_rank() == 0) {
            weft_dev_fence(WEFT_ORDER_ACQ_REL, WEFT_SCOPE_SYS);
            weft_dev_store_u32(flag, 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
        }
        return;
    }
    if (weft_dev_thread_rank() == 0) {
        while (!weft_dev_load_u32(flag, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS))
            ;
        weft_dev_fence(WEFT_ORDER_ACQ_REL, WEFT_SCOPE_SYS);
    }
    weft_dev_sync_block();
    got[weft_dev_thread_rank()] = data[63 - weft_dev_thread_rank()];
}

static void fences_order_relaxed_accesses(void **state)
{
    unsigned data[64] = {0}, got[64] = {0};
    uint32_t flag = 0;
    assert_ok(WEFT_LAUNCH(fenced, 2, 64, 0, NULL, data, &flag, got));
    assert_ok(weft_stream_synchronize(NULL));
    for (int i = 0; i < 64; i++)
        assert_int_equal(got[i], 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_of_one_warp),
        cmocka_unit_test(warps_of_one_block),
        cmocka_unit_test(blocks_of_one_grid),
        cmocka_unit_test(blocks_on_one_worker),
        cmocka_unit_test(a_lane_that_writes_lets_blocks_begin),
        cmocka_unit_test(locks_and_barriers_of_a_grid),
        cmocka_unit_test(warps_poll_by_vote),
        cmocka_unit_test(grids_on_two_streams),
        cmocka_unit_test(the_host_answers_a_kernel),
        cmocka_unit_test(fences_order_relaxed_accesses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
