/* SPDX-License-Identifier: Apache-2.0 */
/* All threads of all PEs execute atomics of every name, width and kind on variables of PE 0. */
#include "device_test.h"

/* One thread in GUARDED takes the lock. All of them retry until they have it, so the number of
 * attempts grows with the square. Two lanes of a warp do not: where lanes are not independent, one
 * would wait for the other for ever. */
enum { BLOCKS = 3, THREADS = 64, GUARDED = 64 };

#define WIDTHS(X) X(32) X(64)

#define FIELDS(W)                                                                                  \
    uint##W##_t add##W, inc##W, fetched##W, finc##W, and##W, or##W, xor##W, fand##W, for##W,       \
        fxor##W, swapped##W, locked##W, lock##W, set##W, tickets##W[2048];
struct board {
    WIDTHS(FIELDS)
    float add_f32, fetched_f32;
    double add_f64, fetched_f64;
    uint32_t add_f16x2, fetched_f16x2, add_bf16x2, fetched_bf16x2;
    uint64_t faults;
};

#define COUNT_FAULT(condition)                                                                     \
    do {                                                                                           \
        if (!(condition))                                                                          \
            weft_dev_atomic_add_u64(&b->faults, 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);            \
    } while (0)

#define ALL_OF(W)                                                                                  \
    do {                                                                                           \
        uint##W##_t bit = (uint##W##_t)1 << (who % W), old;                                        \
        weft_thread_atomic_add##W(&b->add##W, 3, 0);                                               \
        weft_thread_atomic_inc##W(&b->inc##W, 0);                                                  \
        old = weft_thread_atomic_fetch_add##W(&b->fetched##W, 1, 0);                               \
        weft_thread_atomic_inc##W(&b->tickets##W[old % 2048], 0);                                  \
        old = weft_thread_atomic_fetch_inc##W(&b->finc##W, 0);                                     \
        COUNT_FAULT(old < (uint##W##_t)total);                                                     \
        weft_thread_atomic_or##W(&b->or ##W, bit, 0);                                              \
        weft_thread_atomic_and##W(&b->and##W, ~bit, 0);                                            \
        weft_thread_atomic_xor##W(&b->xor ##W, 5, 0);                                              \
        old = weft_thread_atomic_fetch_or##W(&b->for##W, bit, 0);                                  \
        COUNT_FAULT(weft_thread_atomic_fetch##W(&b->for##W, 0) & bit);                             \
        weft_thread_atomic_fetch_and##W(&b->fand##W, ~bit, 0);                                     \
        weft_thread_atomic_fetch_xor##W(&b->fxor##W, 9, 0);                                        \
        /* A swapped-in value comes out exactly once, so the sum of the results is known. */       \
        old = weft_thread_atomic_swap##W(&b->swapped##W, (uint##W##_t)who + 1, 0);                 \
        weft_thread_atomic_add##W(&b->set##W, old, 0);                                             \
        /* a section guarded by compare-and-swap */                                                \
        if (who % GUARDED == 0) {                                                                  \
            while (weft_thread_atomic_cswap##W(&b->lock##W, 0, 1, 0) != 0)                         \
                weft_dev_nanosleep(100);                                                           \
            weft_thread_fence();                                                                   \
            weft_thread_p##W(&b->locked##W, weft_thread_g##W(&b->locked##W, 0) + 1, 0);            \
            weft_thread_fence();                                                                   \
            weft_thread_atomic_set##W(&b->lock##W, 0, 0);                                          \
        }                                                                                          \
    } while (0)

WEFT_KERNEL(work, (struct board *, b), (uint64_t, total))
{
    uint64_t who = (uint64_t)weft_dev_my_pe() * weft_dev_grid_threads() + weft_dev_grid_rank();
    ALL_OF(32);
    ALL_OF(64);
    weft_thread_atomic_add_f32(&b->add_f32, 0.5f, 0);
    weft_thread_atomic_add_f64(&b->add_f64, 0.25, 0);
    /* The sums stay below what these types hold exactly: 2048 halves of 0.5, 256 ones. */
    uint32_t halves = weft_dev_f16_f32(0.5f) | (uint32_t)weft_dev_f16_f32(-0.25f) << 16;
    uint32_t ones = weft_dev_bf16_f32(1) | (uint32_t)weft_dev_bf16_f32(2) << 16;
    weft_thread_atomic_add_f16x2(&b->add_f16x2, halves, 0);
    weft_thread_atomic_fetch_add_f16x2(&b->fetched_f16x2, halves, 0);
    if (who % (total / 64) == 0) { /* 64 threads, of every PE */
        weft_thread_atomic_add_bf16x2(&b->add_bf16x2, ones, 0);
        weft_thread_atomic_fetch_add_bf16x2(&b->fetched_bf16x2, ones, 0);
    }
    COUNT_FAULT(weft_thread_atomic_fetch_add_f32(&b->fetched_f32, 1, 0) < (float)total);
    COUNT_FAULT(weft_thread_atomic_fetch_add_f64(&b->fetched_f64, 1, 0) < (double)total);
}

/* One thread with a word of its own: the results of compare-and-swap, the values it leaves, and
 * that the neighbouring words keep their values. */
#define COMPARE_SWAP(W)                                                                            \
    do {                                                                                           \
        const uint##W##_t high = (uint##W##_t)1 << (W - 1);                                        \
        uint##W##_t *word = &b->set##W;                                                            \
        weft_thread_atomic_set##W(word, 7, pe);                                                    \
        weft_thread_fence();                                                                       \
        COUNT_FAULT(weft_thread_atomic_cswap##W(word, 8, 9, pe) == 7);                             \
        COUNT_FAULT(weft_thread_atomic_fetch##W(word, pe) == 7);                                   \
        COUNT_FAULT(weft_thread_atomic_cswap##W(word, 9, 7, pe) == 7);                             \
        COUNT_FAULT(weft_thread_atomic_fetch##W(word, pe) == 7);                                   \
        COUNT_FAULT(weft_thread_atomic_cswap##W(word, 7, high | 1, pe) == 7);                      \
        COUNT_FAULT(weft_thread_atomic_cswap##W(word, high | 1, high, pe) == (high | 1));          \
        COUNT_FAULT(weft_thread_atomic_swap##W(word, (uint##W##_t) - 3, pe) == high);              \
        COUNT_FAULT(weft_thread_atomic_fetch##W(word, pe) == (uint##W##_t) - 3);                   \
    } while (0)

WEFT_KERNEL(alone, (struct board *, b), (int, pe))
{
    COMPARE_SWAP(32);
    COMPARE_SWAP(64);
}

#if WEFT_HOST_CODE

#define EXPECT(W)                                                                                  \
    do {                                                                                           \
        uint##W##_t every = 0;                                                                     \
        for (uint64_t who = 0; who < total; who++)                                                 \
            every |= (uint##W##_t)1 << (who % W);                                                  \
        CHECK(result.add##W == 3 * total && result.inc##W == total);                               \
        CHECK(result.fetched##W == total && result.finc##W == total);                              \
        CHECK(result.or##W == every && result.for##W == every);                                    \
        CHECK(result.and##W == (uint##W##_t) ~every && result.fand##W == (uint##W##_t) ~every);    \
        CHECK(result.xor ##W == (total % 2 ? 5 : 0) && result.fxor##W == (total % 2 ? 9 : 0));     \
        CHECK(result.set##W + result.swapped##W == total * (total + 1) / 2);                       \
        CHECK(result.locked##W == total / GUARDED && result.lock##W == 0);                         \
        for (uint64_t i = 0; i < 2048; i++)                                                        \
            CHECK(result.tickets##W[i] == (i < total));                                            \
    } while (0)

int main(void)
{
    device_begin();
    static struct board result;
    struct board *board = symmetric(sizeof *board);
    uint64_t total = (uint64_t)n_pes * BLOCKS * THREADS;
    CHECK(total <= 2048);
    result.and32 = result.fand32 = 0xffffffffu;
    result.and64 = result.fand64 = ~0ull;
    store(board, &result, sizeof result);
    barrier();
    LAUNCH(work, BLOCKS, THREADS, 0, NULL, board, total);
    barrier();
    if (me == 0) {
        fetch(&result, board, sizeof result);
        EXPECT(32);
        EXPECT(64);
        CHECK(result.add_f32 == 0.5f * (float)total && result.add_f64 == 0.25 * (double)total);
        CHECK(result.fetched_f32 == (float)total && result.fetched_f64 == (double)total);
        uint32_t halves = weft_dev_f16_f32(0.5f * (float)total) |
                          (uint32_t)weft_dev_f16_f32(-0.25f * (float)total) << 16;
        uint32_t ones = weft_dev_bf16_f32(64) | (uint32_t)weft_dev_bf16_f32(128) << 16;
        CHECK(result.add_f16x2 == halves && result.fetched_f16x2 == halves);
        CHECK(result.add_bf16x2 == ones && result.fetched_bf16x2 == ones);
        CHECK(result.faults == 0);
    }
    barrier();
    memset(&result, 0, sizeof result);
    store(board, &result, sizeof result);
    barrier();
    LAUNCH(alone, 1, 1, 0, NULL, board, (me + 1) % n_pes);
    barrier();
    fetch(&result, board, sizeof result);
    CHECK(result.faults == 0);
    CHECK(result.set32 == (uint32_t)-3 && result.set64 == (uint64_t)-3);
    CHECK(result.swapped32 == 0 && result.locked32 == 0 && result.tickets32[0] == 0);
    barrier();
    device_end();
    return 0;
}
#endif
