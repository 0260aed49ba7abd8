/* SPDX-License-Identifier: Apache-2.0 */
/* Loads, stores, atomics, vectors, bit operations and clocks of device code return the right
 * values. */
#include "simt_test.h"

struct accesses {
    uint8_t in8, out8;
    uint16_t in16, out16;
    uint32_t in32, out32;
    uint64_t in64, out64;
    struct weft_dev_vec16 in, plain, once, relaxed;
    int unit;
};

WEFT_KERNEL(accesses, (struct accesses *, a))
{
    weft_dev_store_u8(&a->out8, weft_dev_load_u8(&a->in8, WEFT_ORDER_RELAXED, WEFT_SCOPE_CTA),
                      WEFT_ORDER_RELAXED, WEFT_SCOPE_CTA);
    weft_dev_store_u16(&a->out16, weft_dev_load_u16(&a->in16, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_GPU),
                       WEFT_ORDER_RELEASE, WEFT_SCOPE_GPU);
    weft_dev_store_u32(&a->out32, weft_dev_load_u32(&a->in32, WEFT_ORDER_VOLATILE, WEFT_SCOPE_SYS),
                       WEFT_ORDER_VOLATILE, WEFT_SCOPE_SYS);
    weft_dev_store_u64(&a->out64, weft_dev_load_u64(&a->in64, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS),
                       WEFT_ORDER_RELEASE, WEFT_SCOPE_SYS);
    weft_dev_store_vec16(&a->plain, weft_dev_load_vec16(&a->in));
    weft_dev_store_vec16_once(&a->once, weft_dev_load_vec16_once(&a->in));
    weft_dev_store_vec16_relaxed(&a->relaxed, weft_dev_load_vec16_relaxed(&a->in));
    a->unit = weft_dev_vec16_unit();
}

static void loads_and_stores_of_all_widths(void **state)
{
    struct accesses a = {.in8 = 0xab,
                         .in16 = 0xabcd,
                         .in32 = 0xabcdef01u,
                         .in64 = 0xabcdef0123456789u,
                         .in = {0x1122334455667788u, 0x99aabbccddeeff00u}};
    assert_ok(WEFT_LAUNCH(accesses, 1, 1, 0, NULL, &a));
    assert_ok(weft_stream_synchronize(NULL));
    assert_int_equal(a.out8, 0xab);
    assert_int_equal(a.out16, 0xabcd);
    assert_int_equal(a.out32, 0xabcdef01u);
    assert_int_equal(a.out64, 0xabcdef0123456789u);
    assert_memory_equal(&a.plain, &a.in, 16);
    assert_memory_equal(&a.once, &a.in, 16);
    assert_memory_equal(&a.relaxed, &a.in, 16);
    assert_true(a.unit == 8 || a.unit == 16);
}

struct changed {
    uint32_t u32[8], old32[8];
    uint64_t u64[8], old64[8];
    int32_t i32[2];
    int64_t i64[2];
    float f32, old_f32;
    double f64, old_f64;
    uint32_t cas32, cas_won, cas_lost;
    uint64_t cas64, cas64_won, cas64_lost;
};

#define CHANGE(N, slot, op, value, order)                                                          \
    c->old##N[slot] =                                                                              \
        weft_dev_atomic_##op##_u##N(&c->u##N[slot], value, WEFT_ORDER_##order, WEFT_SCOPE_SYS)

WEFT_KERNEL(atomics, (struct changed *, c))
{
    CHANGE(32, 0, add, 5, RELAXED);
    CHANGE(32, 1, exch, 5, ACQUIRE);
    CHANGE(32, 2, and, 12, RELEASE);
    CHANGE(32, 3, or, 5, ACQ_REL);
    CHANGE(32, 4, xor, 3, RELAXED);
    CHANGE(32, 5, min, 5, RELAXED);
    CHANGE(32, 6, max, 5, RELAXED);
    CHANGE(64, 0, add, 5ull << 40, RELAXED);
    CHANGE(64, 1, exch, 5ull << 40, ACQUIRE);
    CHANGE(64, 2, and, 12, RELEASE);
    CHANGE(64, 3, or, 5ull << 40, ACQ_REL);
    CHANGE(64, 4, xor, 3, RELAXED);
    CHANGE(64, 5, min, 5, RELAXED);
    CHANGE(64, 6, max, 5ull << 40, RELAXED);
    weft_dev_atomic_min_i32(&c->i32[0], -7, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    weft_dev_atomic_max_i32(&c->i32[1], -7, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    weft_dev_atomic_min_i64(&c->i64[0], -7 * (1ll << 40), WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    weft_dev_atomic_max_i64(&c->i64[1], -7 * (1ll << 40), WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    c->old_f32 = weft_dev_atomic_add_f32(&c->f32, 0.5f, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    c->old_f64 = weft_dev_atomic_add_f64(&c->f64, 0.25, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    c->cas_won = weft_dev_atomic_cas_u32(&c->cas32, 10, 20, WEFT_ORDER_ACQ_REL, WEFT_SCOPE_SYS);
    c->cas_lost = weft_dev_atomic_cas_u32(&c->cas32, 10, 30, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    c->cas64_won =
        weft_dev_atomic_cas_u64(&c->cas64, 10, 1ull << 50, WEFT_ORDER_RELEASE, WEFT_SCOPE_SYS);
    c->cas64_lost = weft_dev_atomic_cas_u64(&c->cas64, 10, 30, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS);
}

static void atomics_return_what_was_there(void **state)
{
    struct changed c = {.u32 = {10, 10, 10, 10, 10, 10, 10},
                        .u64 = {10, 10, 10, 10, 10, 10, 10},
                        .i32 = {3, -9},
                        .i64 = {3, -9 * (1ll << 40)},
                        .f32 = 1.5f,
                        .f64 = -2,
                        .cas32 = 10,
                        .cas64 = 10};
    static const uint32_t after32[] = {15, 5, 8, 15, 9, 5, 10};
    static const uint64_t after64[] = {10 + (5ull << 40), 5ull << 40, 8, 10 | 5ull << 40, 9, 5,
                                       5ull << 40};
    assert_ok(WEFT_LAUNCH(atomics, 1, 1, 0, NULL, &c));
    assert_ok(weft_stream_synchronize(NULL));
    for (int i = 0; i < 7; i++) {
        assert_int_equal(c.old32[i], 10);
        assert_int_equal(c.old64[i], 10);
        assert_int_equal(c.u32[i], after32[i]);
        assert_int_equal(c.u64[i], after64[i]);
    }
    assert_int_equal(c.i32[0], -7);
    assert_int_equal(c.i32[1], -7);
    assert_true(c.i64[0] == -7 * (1ll << 40) && c.i64[1] == -7 * (1ll << 40));
    assert_true(c.f32 == 2.0f && c.old_f32 == 1.5f && c.f64 == -1.75 && c.old_f64 == -2);
    assert_int_equal(c.cas_won, 10);
    assert_int_equal(c.cas_lost, 20);
    assert_int_equal(c.cas32, 20);
    assert_int_equal(c.cas64_won, 10);
    assert_int_equal(c.cas64_lost, 1ull << 50);
    assert_int_equal(c.cas64, 1ull << 50);
}

struct contended {
    uint32_t sum, least, most;
    double real;
};

WEFT_KERNEL(contend, (struct contended *, c))
{
    uint32_t i = (uint32_t)weft_dev_grid_rank();
    weft_dev_atomic_add_u32(&c->sum, i, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    weft_dev_atomic_min_u32(&c->least, i + 7, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    weft_dev_atomic_max_u32(&c->most, i, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    weft_dev_atomic_add_f64(&c->real, 0.5, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
}

static void atomics_of_many_threads_lose_nothing(void **state)
{
    enum { BLOCKS = 16, THREADS = 128, N = BLOCKS * THREADS };
    struct contended c = {.least = ~0u};
    assert_ok(WEFT_LAUNCH(contend, BLOCKS, THREADS, 0, NULL, &c));
    assert_ok(weft_stream_synchronize(NULL));
    assert_int_equal(c.sum, N * (N - 1) / 2);
    assert_int_equal(c.least, 7);
    assert_int_equal(c.most, N - 1);
    assert_true(c.real == N / 2);
}

struct bits {
    unsigned pop, pop64, first, first_none, first64, zeros, zeros_none, zeros64;
    uint32_t f32;
    uint64_t f64;
    float back32;
    double back64;
};

WEFT_KERNEL(bits, (struct bits *, b))
{
    b->pop = weft_dev_popcount_u32(0xf0f0u);
    b->pop64 = weft_dev_popcount_u64(0xf0f0ull << 40);
    b->first = weft_dev_find_first_u32(0x80u);
    b->first_none = weft_dev_find_first_u32(0);
    b->first64 = weft_dev_find_first_u64(1ull << 63);
    b->zeros = weft_dev_leading_zeros_u32(1);
    b->zeros_none = weft_dev_leading_zeros_u32(0);
    b->zeros64 = weft_dev_leading_zeros_u64(1);
    b->f32 = weft_dev_bits_f32(1.0f);
    b->f64 = weft_dev_bits_f64(-2.0);
    b->back32 = weft_dev_f32_bits(b->f32);
    b->back64 = weft_dev_f64_bits(b->f64);
}

static void bits_and_bit_patterns(void **state)
{
    struct bits b;
    assert_ok(WEFT_LAUNCH(bits, 1, 1, 0, NULL, &b));
    assert_ok(weft_stream_synchronize(NULL));
    assert_int_equal(b.pop, 8);
    assert_int_equal(b.pop64, 8);
    assert_int_equal(b.first, 8);
    assert_int_equal(b.first_none, 0);
    assert_int_equal(b.first64, 64);
    assert_int_equal(b.zeros, 31);
    assert_int_equal(b.zeros_none, 32);
    assert_int_equal(b.zeros64, 63);
    assert_int_equal(b.f32, 0x3f800000u);
    assert_int_equal(b.f64, 0xc000000000000000u);
    assert_true(b.back32 == 1.0f && b.back64 == -2.0);
}

WEFT_KERNEL(clocks, (uint64_t *, times))
{
    times[0] = weft_dev_clock_ns();
    weft_dev_nanosleep(200000);
    times[1] = weft_dev_clock_ns();
    times[2] = weft_dev_clock_cycles();
    times[3] = weft_dev_clock_cycles();
}

static void clock_goes_on_and_sleep_lasts(void **state)
{
    uint64_t times[4];
    assert_ok(WEFT_LAUNCH(clocks, 1, 1, 0, NULL, times));
    assert_ok(weft_stream_synchronize(NULL));
    assert_true(times[1] - times[0] >= 200000 && times[1] > times[0]);
    assert_true(times[3] >= times[2]);
}

/* A device function called by the host is a grid of one thread. */
WEFT_DEVICE uint64_t helper(uint64_t *word)
{
    weft_dev_sync_block();
    return weft_dev_atomic_add_u64(word, weft_dev_grid_threads(), WEFT_ORDER_ACQ_REL,
                                   WEFT_SCOPE_SYS) +
           weft_dev_ballot(1, 1) + weft_dev_shuffle_u64(1, 40, 0) + weft_dev_thread_rank();
}

static void device_functions_run_outside_kernels(void **state)
{
    uint64_t word = 1;
    for (int i = 0; i < 1000; i++)
        assert_int_equal(helper(&word), 42 + i);
    assert_int_equal(word, 1001);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_and_stores_of_all_widths),
        cmocka_unit_test(atomics_return_what_was_there),
        cmocka_unit_test(atomics_of_many_threads_lose_nothing),
        cmocka_unit_test(bits_and_bit_patterns),
        cmocka_unit_test(clock_goes_on_and_sleep_lasts),
        cmocka_unit_test(device_functions_run_outside_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
