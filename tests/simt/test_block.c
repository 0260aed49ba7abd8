/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks and grids: indices, barriers and their counts, shared memory, lanes that exit early, more
 * blocks than can be resident. */
#include "simt_test.h"

struct where {
    unsigned t[3], b[3], bd[3], gd[3], lane, warp, thread_rank, block_rank, threads, blocks;
    size_t grid_rank, grid_threads;
};

WEFT_KERNEL(where_am_i, (struct where *, out))
{
    struct where w = {
        {weft_dev_thread_x(), weft_dev_thread_y(), weft_dev_thread_z()},
        {weft_dev_block_x(), weft_dev_block_y(), weft_dev_block_z()},
        {weft_dev_block_dim_x(), weft_dev_block_dim_y(), weft_dev_block_dim_z()},
        {weft_dev_grid_dim_x(), weft_dev_grid_dim_y(), weft_dev_grid_dim_z()},
        weft_dev_lane(),
        weft_dev_warp(),
        weft_dev_thread_rank(),
        weft_dev_block_rank(),
        weft_dev_block_threads(),
        weft_dev_grid_blocks(),
        weft_dev_grid_rank(),
        weft_dev_grid_threads(),
    };
    out[w.grid_rank] = w;
}

static void every_thread_knows_where_it_is(void **state)
{
    enum { N = 2 * 3 * 4 * 5 * 3 * 7 };
    struct where *out = calloc(N, sizeof *out);
    assert_ok(WEFT_LAUNCH(where_am_i, weft_dim(2, 3, 4), weft_dim(5, 3, 7), 0, NULL, out));
    assert_ok(weft_stream_synchronize(NULL));
    for (unsigned i = 0; i < N; i++) {
        const struct where *w = &out[i];
        unsigned t = i % 105, b = i / 105;
        assert_int_equal(w->grid_rank, i);
        assert_int_equal(w->grid_threads, N);
        assert_int_equal(w->thread_rank, t);
        assert_int_equal(w->block_rank, b);
        assert_int_equal(w->t[0], t % 5);
        assert_int_equal(w->t[1], t / 5 % 3);
        assert_int_equal(w->t[2], t / 15);
        assert_int_equal(w->b[0], b % 2);
        assert_int_equal(w->b[1], b / 2 % 3);
        assert_int_equal(w->b[2], b / 6);
        assert_true(w->bd[0] == 5 && w->bd[1] == 3 && w->bd[2] == 7 && w->threads == 105);
        assert_true(w->gd[0] == 2 && w->gd[1] == 3 && w->gd[2] == 4 && w->blocks == 24);
        assert_int_equal(w->lane, t % 32);
        assert_int_equal(w->warp, t / 32);
    }
    free(out);
}

WEFT_KERNEL(counts, (int *, out))
{
    unsigned t = weft_dev_thread_rank();
    int *mine = out + 6 * t;
    mine[0] = weft_dev_sync_block_count(t % 3 == 0);
    mine[1] = weft_dev_sync_block_count(0);
    mine[2] = weft_dev_sync_block_and(1);
    mine[3] = weft_dev_sync_block_and(t != 77);
    mine[4] = weft_dev_sync_block_or(t == 77);
    mine[5] = weft_dev_sync_block_or(0);
}

static void barriers_count(void **state)
{
    int out[100][6];
    static const int expected[6] = {34, 0, 1, 0, 1, 0};
    assert_ok(WEFT_LAUNCH(counts, 1, 100, 0, NULL, &out[0][0]));
    assert_ok(weft_stream_synchronize(NULL));
    for (int t = 0; t < 100; t++)
        assert_memory_equal(out[t], expected, sizeof expected);
}

WEFT_DEVICE void transpose_tile(uint32_t *out, const uint32_t *in)
{
    WEFT_SHARED(uint32_t, tile, [16][17]);
    unsigned x = weft_dev_thread_x(), y = weft_dev_thread_y();
    tile[y][x] = in[16 * y + x];
    weft_dev_sync_block();
    out[16 * y + x] = tile[x][y];
}

/* Two declarations and the dynamic memory do not overlap, and blocks do not share them. */
WEFT_KERNEL(shared, (uint32_t *, out), (const uint32_t *, in), (uint32_t *, sums))
{
    WEFT_SHARED(uint32_t, sum, [1]);
    WEFT_SHARED_DYNAMIC(uint32_t, all);
    unsigned t = weft_dev_thread_rank(), base = 256 * weft_dev_block_rank();
    if (t == 0)
        sum[0] = 0;
    transpose_tile(out + base, in + base);
    all[t] = in[base + t];
    weft_dev_sync_block();
    weft_dev_atomic_add_u32(&sum[0], all[255 - t], WEFT_ORDER_RELAXED, WEFT_SCOPE_CTA);
    weft_dev_sync_block();
    if (t == 5)
        sums[weft_dev_block_rank()] = sum[0];
}

static void shared_memory_belongs_to_the_block(void **state)
{
    enum { BLOCKS = WEFT_SIMT_TSAN ? 4 : 40, N = 256 * BLOCKS };
    uint32_t *in = calloc(N, sizeof *in), *out = calloc(N, sizeof *out), sums[BLOCKS];
    for (uint32_t i = 0; i < N; i++)
        in[i] = i * 3;
    assert_ok(WEFT_LAUNCH(shared, BLOCKS, weft_dim(16, 16, 1), 1024, NULL, out, in, sums));
    assert_ok(weft_stream_synchronize(NULL));
    for (uint32_t b = 0; b < BLOCKS; b++) {
        assert_int_equal(sums[b], 3 * (256 * 256 * b + 255 * 128));
        for (uint32_t y = 0; y < 16; y++)
            for (uint32_t x = 0; x < 16; x++)
                assert_int_equal(out[256 * b + 16 * y + x], in[256 * b + 16 * x + y]);
    }
    free(in);
    free(out);
}

WEFT_KERNEL(leave_early, (uint32_t *, out), (unsigned, n))
{
    unsigned i = (unsigned)weft_dev_grid_rank();
    if (i >= n)
        return;
    uint32_t mask = weft_dev_ballot(weft_dev_active_mask(), 1);
    out[i] = mask;
}

static void lanes_may_exit_early(void **state)
{
    uint32_t out[100] = {0};
    assert_ok(WEFT_LAUNCH(leave_early, 4, 32, 0, NULL, out, 100));
    assert_ok(weft_stream_synchronize(NULL));
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(out[i], i < 96 ? WEFT_FULL_MASK : 0xfu);
}

/* With WEFT_TEST_SIMT_EXITED=allow a barrier includes only lanes that have not exited, as on sm_70.
 */
WEFT_KERNEL(barrier_of_survivors, (int *, out))
{
    unsigned t = weft_dev_thread_rank();
    if (t % 2)
        return;
    out[t] = weft_dev_sync_block_count(1);
    if (t < 32)
        out[t] += 100 * (int)weft_dev_popcount_u32(weft_dev_ballot(WEFT_FULL_MASK, 1));
}

static void exited_lanes_can_be_allowed(void **state)
{
    int out[64] = {0};
    restart_with("WEFT_TEST_SIMT_EXITED", "allow");
    assert_ok(WEFT_LAUNCH(barrier_of_survivors, 1, 64, 0, NULL, out));
    assert_ok(weft_stream_synchronize(NULL));
    restart_with("WEFT_TEST_SIMT_EXITED", NULL);
    for (int t = 0; t < 64; t++)
        assert_int_equal(out[t], t % 2 ? 0 : t < 32 ? 1632 : 32);
}

WEFT_KERNEL(count_all, (uint64_t *, sum))
{
    int here = weft_dev_sync_block_count(1);
    if (weft_dev_thread_rank() == 0)
        weft_dev_atomic_add_u64(sum, (uint64_t)here, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
}

static void more_blocks_than_fit_run_in_waves(void **state)
{
    /* A fiber costs ThreadSanitizer almost a millisecond. */
    enum { BLOCKS = WEFT_SIMT_TSAN ? 20 : 500 };
    uint64_t sum = 0;
    restart_with("WEFT_TEST_SIMT_LANES", "256");
    assert_ok(WEFT_LAUNCH(count_all, BLOCKS, 64, 0, NULL, &sum));
    assert_ok(weft_stream_synchronize(NULL));
    assert_int_equal(sum, BLOCKS * 64);
    /* A block with more lanes than the limit still runs. */
    assert_ok(WEFT_LAUNCH(count_all, 3, 1024, 0, NULL, &sum));
    assert_ok(weft_stream_synchronize(NULL));
    assert_int_equal(sum, BLOCKS * 64 + 3 * 1024);
    assert_int_equal(WEFT_LAUNCH_COOPERATIVE(count_all, 5, 64, 0, NULL, &sum), WEFT_ERR_ARGUMENT);
    assert_non_null(strstr(weft_last_error(), "only 256 lanes"));
    assert_ok(WEFT_LAUNCH_COOPERATIVE(count_all, 4, 64, 0, NULL, &sum));
    weft_dim3 one = {1, 1, 1};
    assert_int_equal(weft_launch_count_all(0x12, one, one, 0, NULL, &sum), WEFT_ERR_ARGUMENT);
    assert_non_null(strstr(weft_last_error(), "weft_launch: flags is 0x12: the bits 0x12 are"));
    weft_simt_launch_attr attr = {.size = sizeof attr - 1, .grid = {1, 1, 1}, .block = {1, 1, 1}};
    assert_int_equal(weft_simt_launch(&attr, NULL), WEFT_ERR_ARGUMENT);
    assert_non_null(strstr(weft_last_error(), "attr.size is"));
    attr.size = sizeof attr;
    attr.flags = WEFT_SIMT_COOPERATIVE | 4;
    assert_int_equal(weft_simt_launch(&attr, NULL), WEFT_ERR_ARGUMENT);
    assert_non_null(strstr(weft_last_error(), "attr.flags is 0x5: the bits 0x4 are"));
    assert_int_equal(weft_simt_launch(NULL, NULL), WEFT_ERR_ARGUMENT);
    assert_ok(weft_stream_synchronize(NULL));
    restart_with("WEFT_TEST_SIMT_LANES", NULL);
}

struct many {
    char c;
    double d;
};

WEFT_KERNEL(parameters, (char, a), (short, b), (int, c), (long, d), (float, e), (double, f),
            (struct many, g), (double *, sum), (char, i), (char, j), (char, k), (char, l),
            (char, m), (char, n), (char, o), (long, p))
{
    *sum = a + b + c + (double)d + e + f + g.c + g.d + i + j + k + l + m + n + o + (double)p;
}

static void sixteen_parameters_arrive(void **state)
{
    double sum = 0;
    struct many g = {7, 8};
    assert_ok(WEFT_LAUNCH(parameters, 1, 1, 0, NULL, 1, 2, 3, 4, 5, 6, g, &sum, 9, 10, 11, 12, 13,
                          14, 15, 16));
    assert_ok(weft_stream_synchronize(NULL));
    assert_true(sum == 136);
}

static void bad_dimensions_are_refused(void **state)
{
    uint64_t sum = 0;
    assert_int_equal(WEFT_LAUNCH(count_all, 0, 32, 0, NULL, &sum), WEFT_ERR_ARGUMENT);
    assert_int_equal(WEFT_LAUNCH(count_all, 1, 0, 0, NULL, &sum), WEFT_ERR_ARGUMENT);
    assert_int_equal(WEFT_LAUNCH(count_all, 1, 1025, 0, NULL, &sum), WEFT_ERR_ARGUMENT);
    assert_non_null(strstr(weft_last_error(), "count_all: block of 1025 x 1 x 1"));
    assert_int_equal(WEFT_LAUNCH(count_all, 1, weft_dim(65536, 65536, 1), 0, NULL, &sum),
                     WEFT_ERR_ARGUMENT);
    assert_int_equal(WEFT_LAUNCH(count_all, 1, 32, 1 << 20, NULL, &sum), WEFT_ERR_ARGUMENT);
    assert_int_equal(sum, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_thread_knows_where_it_is),
        cmocka_unit_test(barriers_count),
        cmocka_unit_test(shared_memory_belongs_to_the_block),
        cmocka_unit_test(lanes_may_exit_early),
        cmocka_unit_test(exited_lanes_can_be_allowed),
        cmocka_unit_test(more_blocks_than_fit_run_in_waves),
        cmocka_unit_test(sixteen_parameters_arrive),
        cmocka_unit_test(bad_dimensions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
