/* SPDX-License-Identifier: Apache-2.0 */
/* Warp operations give each lane the value that CUDA defines, for full and partial masks, divergent
 * groups, and lanes that have exited. */
#include "simt_test.h"

enum { LANES = 32 };

struct votes {
    uint32_t ballot, half_ballot, match_u32, match_u64, all_same, all_differ, active;
    int any, none, all, not_all;
};

WEFT_KERNEL(votes, (struct votes *, out))
{
    unsigned lane = weft_dev_lane();
    struct votes *v = &out[lane];
    uint32_t half = lane < 16 ? 0xffffu : 0xffff0000u;
    v->ballot = weft_dev_ballot(WEFT_FULL_MASK, lane % 3 == 0);
    v->half_ballot = weft_dev_ballot(half, lane % 2);
    v->any = weft_dev_any(WEFT_FULL_MASK, lane == 31);
    v->none = weft_dev_any(WEFT_FULL_MASK, 0);
    v->all = weft_dev_all(WEFT_FULL_MASK, 8);
    v->not_all = weft_dev_all(WEFT_FULL_MASK, lane != 5);
    v->match_u32 = weft_dev_match_any_u32(WEFT_FULL_MASK, lane / 8);
    v->match_u64 = weft_dev_match_any_u64(half, (uint64_t)(lane % 4) << 40);
    v->all_same = weft_dev_match_all_u64(half, 7ull << 33);
    v->all_differ = weft_dev_match_all_u32(WEFT_FULL_MASK, lane == 9);
    v->active = weft_dev_active_mask();
}

static void votes_and_matches(void **state)
{
    struct votes out[LANES];
    assert_ok(WEFT_LAUNCH(votes, 1, LANES, 0, NULL, out));
    assert_ok(weft_stream_synchronize(NULL));
    for (unsigned lane = 0; lane < LANES; lane++) {
        uint32_t half = lane < 16 ? 0xffffu : 0xffff0000u;
        assert_int_equal(out[lane].ballot, 0x49249249u);
        assert_int_equal(out[lane].half_ballot, 0xaaaaaaaau & half);
        assert_int_equal(out[lane].any, 1);
        assert_int_equal(out[lane].none, 0);
        assert_int_equal(out[lane].all, 1);
        assert_int_equal(out[lane].not_all, 0);
        assert_int_equal(out[lane].match_u32, 0xffu << lane / 8 * 8);
        assert_int_equal(out[lane].match_u64, 0x11111111u << lane % 4 & half);
        assert_int_equal(out[lane].all_same, half);
        assert_int_equal(out[lane].all_differ, 0);
        assert_int_equal(out[lane].active, WEFT_FULL_MASK);
    }
}

struct shuffles {
    uint32_t idx, up, down, exchanged, wide_index;
    uint64_t idx64, up64, down64, exchanged64;
};

WEFT_KERNEL(shuffles, (struct shuffles *, out))
{
    unsigned lane = weft_dev_lane();
    struct shuffles *s = &out[lane];
    uint32_t mine = 100 + lane;
    uint64_t wide = (uint64_t)lane << 32 | 5;
    s->idx = weft_dev_shuffle_u32(WEFT_FULL_MASK, mine, 31 - lane);
    s->wide_index = weft_dev_shuffle_u32(WEFT_FULL_MASK, mine, lane + 33);
    s->up = weft_dev_shuffle_up_u32(WEFT_FULL_MASK, mine, 3);
    s->down = weft_dev_shuffle_down_u32(WEFT_FULL_MASK, mine, 30);
    s->exchanged = weft_dev_shuffle_xor_u32(WEFT_FULL_MASK, mine, 5);
    s->idx64 = weft_dev_shuffle_u64(WEFT_FULL_MASK, wide, 17);
    s->up64 = weft_dev_shuffle_up_u64(WEFT_FULL_MASK, wide, 40);
    s->down64 = weft_dev_shuffle_down_u64(WEFT_FULL_MASK, wide, 1);
    s->exchanged64 = weft_dev_shuffle_xor_u64(WEFT_FULL_MASK, wide, 16);
}

static void shuffles_of_all_kinds(void **state)
{
    struct shuffles out[LANES];
    assert_ok(WEFT_LAUNCH(shuffles, 1, LANES, 0, NULL, out));
    assert_ok(weft_stream_synchronize(NULL));
    for (uint64_t lane = 0; lane < LANES; lane++) {
        assert_int_equal(out[lane].idx, 131 - lane);
        assert_int_equal(out[lane].wide_index, 100 + (lane + 1) % 32);
        assert_int_equal(out[lane].up, 100 + (lane < 3 ? lane : lane - 3));
        assert_int_equal(out[lane].down, 100 + (lane < 2 ? lane + 30 : lane));
        assert_int_equal(out[lane].exchanged, 100 + (lane ^ 5));
        assert_int_equal(out[lane].idx64, 17ull << 32 | 5);
        assert_int_equal(out[lane].up64, lane << 32 | 5);
        assert_int_equal(out[lane].down64, (lane < 31 ? lane + 1 : lane) << 32 | 5);
        assert_int_equal(out[lane].exchanged64, (lane ^ 16) << 32 | 5);
    }
}

/* Three groups in different operations at once, in loops of different length. */
WEFT_KERNEL(diverge, (uint32_t *, out))
{
    unsigned lane = weft_dev_lane();
    uint32_t sum = 0;
    if (lane < 4) {
        for (int i = 0; i < 10; i++)
            sum += weft_dev_ballot(0xfu, lane != 0);
    } else if (lane < 20) {
        for (int i = 0; i < 3; i++)
            sum += weft_dev_shuffle_xor_u32(0xffff0u, lane, 1);
    } else {
        sum = weft_dev_match_any_u32(0xfff00000u, lane & 1);
    }
    weft_dev_sync_warp(WEFT_FULL_MASK);
    out[lane] = sum;
}

static void divergent_groups_do_not_disturb_each_other(void **state)
{
    uint32_t out[LANES];
    assert_ok(WEFT_LAUNCH(diverge, 1, LANES, 0, NULL, out));
    assert_ok(weft_stream_synchronize(NULL));
    for (unsigned lane = 0; lane < LANES; lane++)
        assert_int_equal(out[lane], lane < 4    ? 140u
                                    : lane < 20 ? 3 * (lane ^ 1)
                                    : lane % 2  ? 0xaaa00000u
                                                : 0x55500000u);
}

/* Lanes reach active_mask at the same place in groups; the lanes of a group may then cooperate. */
WEFT_KERNEL(coalesce, (uint32_t *, counter), (uint32_t *, masks), (uint32_t *, tickets))
{
    unsigned lane = weft_dev_lane();
    if (lane % 4 == 1)
        return;
    uint32_t mask = lane % 2 ? weft_dev_active_mask() : weft_dev_active_mask();
    unsigned leader = weft_dev_find_first_u32(mask) - 1;
    unsigned before = weft_dev_popcount_u32(mask & ((1u << lane) - 1));
    uint32_t base = 0;
    if (lane == leader)
        base = weft_dev_atomic_add_u32(counter, weft_dev_popcount_u32(mask), WEFT_ORDER_RELAXED,
                                       WEFT_SCOPE_GPU);
    masks[lane] = mask;
    tickets[lane] = weft_dev_shuffle_u32(mask, base, leader) + before;
}

static void active_mask_groups_lanes_at_one_place(void **state)
{
    uint32_t counter = 0, masks[LANES] = {0}, tickets[LANES] = {0}, seen = 0;
    assert_ok(WEFT_LAUNCH(coalesce, 1, LANES, 0, NULL, &counter, masks, tickets));
    assert_ok(weft_stream_synchronize(NULL));
    assert_int_equal(counter, 24);
    for (unsigned lane = 0; lane < LANES; lane++) {
        if (lane % 4 == 1)
            continue;
        assert_true(masks[lane] & 1u << lane);
        assert_int_equal(masks[lane] & (lane % 2 ? 0x55555555u : 0xaaaaaaaau), 0);
        assert_true(tickets[lane] < 24);
        seen |= 1u << tickets[lane];
    }
    assert_int_equal(seen, 0xffffffu);
}

WEFT_KERNEL(survivors, (uint32_t *, out))
{
    unsigned lane = weft_dev_lane();
    if (lane % 2)
        return;
    out[lane] = weft_dev_ballot(0x55555555u, 1);
}

static void masks_without_exited_lanes_go_on(void **state)
{
    uint32_t out[LANES] = {0};
    assert_ok(WEFT_LAUNCH(survivors, 1, LANES, 0, NULL, out));
    assert_ok(weft_stream_synchronize(NULL));
    for (unsigned lane = 0; lane < LANES; lane++)
        assert_int_equal(out[lane], lane % 2 ? 0 : 0x55555555u);
}

/* A block whose size is no multiple of 32: lanes that do not exist do not take part. */
WEFT_KERNEL(partial, (uint32_t *, out))
{
    out[weft_dev_thread_rank()] = weft_dev_ballot(WEFT_FULL_MASK, 1);
}

static void last_warp_may_be_partial(void **state)
{
    uint32_t out[40];
    assert_ok(WEFT_LAUNCH(partial, 1, 40, 0, NULL, out));
    assert_ok(weft_stream_synchronize(NULL));
    for (unsigned i = 0; i < 40; i++)
        assert_int_equal(out[i], i < 32 ? WEFT_FULL_MASK : 0xffu);
}

WEFT_KERNEL(reduce_warp, (uint64_t *, out), (unsigned, rounds))
{
    uint64_t sum = 0;
    for (unsigned r = 0; r < rounds; r++) {
        uint64_t value = weft_dev_grid_rank() + r;
        for (unsigned delta = 16; delta; delta /= 2)
            value += weft_dev_shuffle_down_u64(WEFT_FULL_MASK, value, delta);
        sum += weft_dev_shuffle_u64(WEFT_FULL_MASK, value, 0);
    }
    out[weft_dev_grid_rank()] = sum;
}

static void reductions_in_many_blocks(void **state)
{
    enum { BLOCKS = 24, THREADS = 96, ROUNDS = 20 };
    uint64_t out[BLOCKS * THREADS];
    assert_ok(WEFT_LAUNCH(reduce_warp, BLOCKS, THREADS, 0, NULL, out, ROUNDS));
    assert_ok(weft_stream_synchronize(NULL));
    for (uint64_t i = 0; i < BLOCKS * THREADS; i++) {
        uint64_t first = i / 32 * 32, sum = 0;
        for (uint64_t r = 0; r < ROUNDS; r++)
            sum += 32 * (first + r) + 31 * 16;
        assert_int_equal(out[i], sum);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(votes_and_matches),
        cmocka_unit_test(shuffles_of_all_kinds),
        cmocka_unit_test(divergent_groups_do_not_disturb_each_other),
        cmocka_unit_test(active_mask_groups_lanes_at_one_place),
        cmocka_unit_test(masks_without_exited_lanes_go_on),
        cmocka_unit_test(last_warp_may_be_partial),
        cmocka_unit_test(reductions_in_many_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
