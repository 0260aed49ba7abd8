/* SPDX-License-Identifier: Apache-2.0 */
/* Warps of 64 lanes, which are not independent: operations of the warp, turns of lanes, and reports
 * of lanes that wait for other lanes of their warp. With argument `held`: the report that takes
 * seconds. */
#include "simt_test.h"

enum { LANES = 64, UNEVEN = 100 };

struct wave {
    uint64_t ballot, match, all_same, active, idx, up, down, exchanged;
    uint32_t any, all, warp;
};

WEFT_KERNEL(operations, (struct wave *, out))
{
    unsigned lane = weft_dev_lane();
    weft_lane_mask odd = 0xaaaaaaaaaaaaaaaaull, half = lane % 2 ? odd : ~odd;
    struct wave *w = &out[weft_dev_thread_rank()];
    w->ballot = weft_dev_ballot(WEFT_FULL_MASK, lane % 7 == 5);
    w->match = weft_dev_match_any_u64(half, lane / 16);
    w->all_same = weft_dev_match_all_u32(half, 9);
    w->active = weft_dev_active_mask();
    w->idx = weft_dev_shuffle_u64(WEFT_FULL_MASK, 1000 + lane, 63 - lane);
    w->up = weft_dev_shuffle_up_u32(WEFT_FULL_MASK, 1000 + lane, 33);
    w->down = weft_dev_shuffle_down_u64(WEFT_FULL_MASK, 1000 + lane, 33);
    w->exchanged = weft_dev_shuffle_xor_u32(WEFT_FULL_MASK, 1000 + lane, 37);
    w->any = (uint32_t)weft_dev_any(WEFT_FULL_MASK, lane == 63);
    w->all = (uint32_t)weft_dev_all(WEFT_FULL_MASK, lane != 40);
    w->warp = weft_dev_warp();
}

static void operations_of_64_lanes(void **state)
{
    static struct wave out[2 * LANES];
    assert_ok(WEFT_LAUNCH(operations, 1, 2 * LANES, 0, NULL, out));
    assert_ok(weft_stream_synchronize(NULL));
    for (unsigned t = 0; t < 2 * LANES; t++) {
        unsigned lane = t % LANES;
        uint64_t half = lane % 2 ? 0xaaaaaaaaaaaaaaaaull : 0x5555555555555555ull;
        const struct wave *w = &out[t];
        assert_int_equal(w->ballot, 0x2040810204081020ull);
        assert_int_equal(w->match, half & 0xffffull << lane / 16 * 16);
        assert_int_equal(w->all_same, half);
        assert_int_equal(w->active, ~0ull);
        assert_int_equal(w->idx, 1000 + 63 - lane);
        assert_int_equal(w->up, 1000 + (lane < 33 ? lane : lane - 33));
        assert_int_equal(w->down, 1000 + (lane + 33 < LANES ? lane + 33 : lane));
        assert_int_equal(w->exchanged, 1000 + (lane ^ 37));
        assert_true(w->any && !w->all);
        assert_int_equal(w->warp, t / LANES);
    }
}

WEFT_KERNEL(sets, (uint64_t *, out))
{
    weft_lane_mask mask = weft_dev_active_mask();
    uint64_t *to = out + 5 * weft_dev_thread_rank();
    to[0] = mask;
    to[1] = weft_dev_lanes_count(mask) * 100 + weft_dev_lanes_last(mask);
    to[2] = weft_dev_lanes_first(mask & ~weft_dev_lanes_up_to(3));
    to[3] = weft_dev_lanes_before(weft_dev_lane());
    to[4] = weft_dev_lanes_half();
}

static void sets_of_lanes(void **state)
{
    uint64_t out[UNEVEN][5];
    assert_ok(WEFT_LAUNCH(sets, 1, UNEVEN, 0, NULL, out[0]));
    assert_ok(weft_stream_synchronize(NULL));
    for (unsigned t = 0; t < UNEVEN; t++) {
        unsigned lane = t % LANES, lanes = t < LANES ? LANES : UNEVEN - LANES;
        assert_int_equal(out[t][0], ~0ull >> (LANES - lanes));
        assert_int_equal(out[t][1], lanes * 100 + lanes - 1);
        assert_int_equal(out[t][2], 4);
        assert_int_equal(out[t][3], ((uint64_t)1 << lane) - 1);
        assert_int_equal(out[t][4], lane < 32 ? 0xffffffffull : 0xffffffffull << 32);
    }
}

/* Lanes of a group run together, and groups one after the other, in the order of their first
 * lanes. */
WEFT_KERNEL(turns, (uint32_t *, running), (uint32_t *, order), (uint32_t *, wrong))
{
    unsigned lane = weft_dev_lane(), kind = lane * 5 % 3;
    weft_lane_mask lanes = weft_dev_active_mask(), group = weft_dev_match_any_u32(lanes, kind);
    WEFT_DEV_IN_TURN(lanes, group)
    {
        if (weft_dev_atomic_add_u32(running, 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_CTA) >=
            weft_dev_lanes_count(group))
            *wrong = 1;
        order[lane] = kind;
        for (int i = 0; i < 200; i++) /* gives other lanes their chance */
            if (weft_dev_load_u32(order + lane, WEFT_ORDER_RELAXED, WEFT_SCOPE_CTA) != kind)
                *wrong = 2;
        weft_dev_sync_warp(group);
        if (lane == weft_dev_lanes_first(group))
            weft_dev_store_u32(running, 0, WEFT_ORDER_RELAXED, WEFT_SCOPE_CTA);
        weft_dev_sync_warp(group);
    }
}

static void groups_of_lanes_in_turn(void **state)
{
    uint32_t running = 0, wrong = 0, order[LANES];
    assert_ok(WEFT_LAUNCH(turns, 1, LANES, 0, NULL, &running, order, &wrong));
    assert_ok(weft_stream_synchronize(NULL));
    assert_int_equal(wrong, 0);
    for (unsigned lane = 0; lane < LANES; lane++)
        assert_int_equal(order[lane], lane * 5 % 3);
}

/* One lane polls, and another one of its warp would store what it waits for. */
WEFT_KERNEL(signal_within, (uint32_t *, flag))
{
    if (weft_dev_lane() == 7)
        while (!weft_dev_load_u32(flag, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_GPU))
            ;
    if (weft_dev_lane() == 9)
        weft_dev_store_u32(flag, 1, WEFT_ORDER_RELEASE, WEFT_SCOPE_GPU);
}

static void lane_that_another_lane_must_release(void **state)
{
    uint32_t flag = 0;
    assert_ok(WEFT_LAUNCH(signal_within, 1, LANES, 0, NULL, &flag));
    expect_report("this lane polls", "lane 9 of its warp stores there only now", "lane 7)");
}

/* The same between warps, and between lanes that have met. */
WEFT_KERNEL(signal_between, (uint32_t *, flag))
{
    unsigned t = weft_dev_thread_rank();
    if (t == 9)
        weft_dev_store_u32(flag, 1, WEFT_ORDER_RELEASE, WEFT_SCOPE_GPU);
    weft_dev_sync_warp(WEFT_FULL_MASK);
    if (t == 7 || t == LANES + 7)
        while (!weft_dev_load_u32(flag, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_GPU))
            ;
}

static void lane_that_another_warp_releases(void **state)
{
    uint32_t flag = 0;
    assert_ok(WEFT_LAUNCH(signal_between, 1, 2 * LANES, 0, NULL, &flag));
    assert_ok(weft_stream_synchronize(NULL));
}

/* Each lane waits for a number that the lane before it in `from` raises after its own wait: by a
 * store to another word, which a second block turns into the number. */
WEFT_KERNEL(chain, (uint32_t *, number), (uint32_t *, relay), (uint32_t, last))
{
    unsigned lane = weft_dev_lane();
    uint32_t seen;
    if (weft_dev_block_rank()) {
        while ((seen = weft_dev_load_u32(relay, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_GPU)) < last)
            weft_dev_store_u32(number, seen, WEFT_ORDER_RELEASE, WEFT_SCOPE_GPU);
        weft_dev_store_u32(number, last, WEFT_ORDER_RELEASE, WEFT_SCOPE_GPU);
        return;
    }
    weft_dev_wait_begins();
    while (weft_dev_load_u32(number, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_GPU) < (lane + 1) % last)
        ;
    weft_dev_wait_ends();
    weft_dev_atomic_max_u32(relay, (lane + 1) % last + 1, WEFT_ORDER_RELEASE, WEFT_SCOPE_GPU);
}

static void lane_that_acts_after_its_wait(void **state)
{
    uint32_t number = 0, relay = 0;
    assert_ok(WEFT_LAUNCH(chain, 2, LANES, 0, NULL, &number, &relay, 2));
    expect_report("this lane waits for lane", "which has left the same wait", "kernel chain");
}

static void lanes_that_leave_a_wait_together(void **state)
{
    uint32_t number = 0, relay = 0;
    assert_ok(WEFT_LAUNCH(chain, 2, LANES, 0, NULL, &number, &relay, 1));
    assert_ok(weft_stream_synchronize(NULL));
    assert_int_equal(number, 1);
}

int main(int argc, char **argv)
{
    (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_of_64_lanes),
        cmocka_unit_test(sets_of_lanes),
        cmocka_unit_test(groups_of_lanes_in_turn),
        cmocka_unit_test(lane_that_another_lane_must_release),
        cmocka_unit_test(lane_that_another_warp_releases),
        cmocka_unit_test(lanes_that_leave_a_wait_together),
    };
    const struct CMUnitTest held[] = {cmocka_unit_test(lane_that_acts_after_its_wait)};
    restart_with("WEFT_TEST_SIMT_WAVE", "64");
    return argc > 1 ? cmocka_run_group_tests(held, NULL, NULL)
                    : cmocka_run_group_tests(tests, NULL, NULL);
}
