/* SPDX-License-Identifier: Apache-2.0 */
/* Uses every primitive and every macro of the device headers once, so that each one compiles as C,
 * as C++ and as CUDA. Never runs. */
#include <weft/launch.h>
#include <weft/simt_executor.h>

WEFT_CONST int factor;
WEFT_GLOBAL int counter;

WEFT_DEVICE_NOINLINE int scaled(int x)
{
    return x * factor + counter;
}

WEFT_KERNEL(nothing)
{
    weft_dev_sync_block();
}

WEFT_KERNEL(places, (unsigned *WEFT_RESTRICT, out))
{
    out[0] = weft_dev_thread_x() + weft_dev_thread_y() + weft_dev_thread_z();
    out[1] = weft_dev_block_x() + weft_dev_block_y() + weft_dev_block_z();
    out[2] = weft_dev_block_dim_x() + weft_dev_block_dim_y() + weft_dev_block_dim_z();
    out[3] = weft_dev_grid_dim_x() + weft_dev_grid_dim_y() + weft_dev_grid_dim_z();
    out[4] = weft_dev_lane() + weft_dev_warp() + weft_dev_thread_rank() + weft_dev_block_rank();
    out[5] = weft_dev_block_threads() + weft_dev_grid_blocks();
    out[6] = (unsigned)(weft_dev_grid_rank() + weft_dev_grid_threads());
    out[7] = (unsigned)scaled(2);
}

WEFT_KERNEL(meetings, (uint64_t *, out))
{
    uint32_t m = WEFT_FULL_MASK, v = weft_dev_lane();
    uint64_t w = *out;
    w += weft_dev_active_mask() + weft_dev_ballot(m, 1);
    w += (uint64_t)(weft_dev_any(m, 1) + weft_dev_all(m, 1));
    w += weft_dev_match_any_u32(m, v) + weft_dev_match_any_u64(m, w);
    w += weft_dev_match_all_u32(m, v) + weft_dev_match_all_u64(m, w);
    w += weft_dev_shuffle_u32(m, v, 1) + weft_dev_shuffle_u64(m, w, 1);
    w += weft_dev_shuffle_up_u32(m, v, 1) + weft_dev_shuffle_up_u64(m, w, 1);
    w += weft_dev_shuffle_down_u32(m, v, 1) + weft_dev_shuffle_down_u64(m, w, 1);
    w += weft_dev_shuffle_xor_u32(m, v, 1) + weft_dev_shuffle_xor_u64(m, w, 1);
    weft_dev_sync_warp(m);
    weft_dev_sync_block();
    w += (uint64_t)(weft_dev_sync_block_count(1) + weft_dev_sync_block_and(1) +
                    weft_dev_sync_block_or(1));
    *out = w;
}

#define EACH_SCOPE(DO, order)                                                                      \
    DO(order, WEFT_SCOPE_CTA);                                                                     \
    DO(order, WEFT_SCOPE_GPU);                                                                     \
    DO(order, WEFT_SCOPE_SYS)
#define LOAD(order, scope)                                                                         \
    sum += weft_dev_load_u8(p8, order, scope) + weft_dev_load_u16(p16, order, scope) +             \
           weft_dev_load_u32(p32, order, scope) + weft_dev_load_u64(p64, order, scope)
#define STORE(order, scope)                                                                        \
    weft_dev_store_u8(p8, 1, order, scope);                                                        \
    weft_dev_store_u16(p16, 1, order, scope);                                                      \
    weft_dev_store_u32(p32, 1, order, scope);                                                      \
    weft_dev_store_u64(p64, sum, order, scope)

WEFT_KERNEL(accesses, (uint8_t *, p8), (uint16_t *, p16), (uint32_t *, p32), (uint64_t *, p64))
{
    WEFT_SHARED(float, tile, [2][33]);
    WEFT_SHARED_DYNAMIC(double, rest);
    uint64_t sum = 0;
    EACH_SCOPE(LOAD, WEFT_ORDER_RELAXED);
    EACH_SCOPE(LOAD, WEFT_ORDER_ACQUIRE);
    EACH_SCOPE(LOAD, WEFT_ORDER_VOLATILE);
    EACH_SCOPE(STORE, WEFT_ORDER_RELAXED);
    EACH_SCOPE(STORE, WEFT_ORDER_RELEASE);
    EACH_SCOPE(STORE, WEFT_ORDER_VOLATILE);
    tile[1][weft_dev_lane()] = 1;
    rest[0] = (double)tile[1][0];
    weft_dev_store_vec16(p64, weft_dev_load_vec16(p64 + 2));
    weft_dev_store_vec16_once(p64, weft_dev_load_vec16_once(p64 + 2));
    weft_dev_store_vec16_relaxed(p64, weft_dev_load_vec16_relaxed(p64 + 2));
    p64[4] = (uint64_t)weft_dev_vec16_unit() + weft_dev_clock_ns() + weft_dev_clock_cycles();
    weft_dev_nanosleep(10);
    p64[5] = weft_dev_popcount_u32(1) + weft_dev_popcount_u64(1) + weft_dev_find_first_u32(1) +
             weft_dev_find_first_u64(1) + weft_dev_leading_zeros_u32(1) +
             weft_dev_leading_zeros_u64(1);
    p64[6] = weft_dev_bits_f32(weft_dev_f32_bits(1)) + weft_dev_bits_f64(weft_dev_f64_bits(1));
}

#define ATOMIC(order, scope)                                                                       \
    INTEGER(u32, p32, order, scope);                                                               \
    INTEGER(u64, p64, order, scope);                                                               \
    weft_dev_atomic_min_i32((int32_t *)p32, 1, order, scope);                                      \
    weft_dev_atomic_max_i32((int32_t *)p32, 1, order, scope);                                      \
    weft_dev_atomic_min_i64((int64_t *)p64, 1, order, scope);                                      \
    weft_dev_atomic_max_i64((int64_t *)p64, 1, order, scope);                                      \
    weft_dev_atomic_add_f32(f, 1, order, scope);                                                   \
    weft_dev_atomic_add_f64(d, 1, order, scope)
#define INTEGER(t, p, order, scope)                                                                \
    weft_dev_atomic_add_##t(p, 1, order, scope);                                                   \
    weft_dev_atomic_exch_##t(p, 1, order, scope);                                                  \
    weft_dev_atomic_cas_##t(p, 1, 2, order, scope);                                                \
    weft_dev_atomic_and_##t(p, 1, order, scope);                                                   \
    weft_dev_atomic_or_##t(p, 1, order, scope);                                                    \
    weft_dev_atomic_xor_##t(p, 1, order, scope);                                                   \
    weft_dev_atomic_min_##t(p, 1, order, scope);                                                   \
    weft_dev_atomic_max_##t(p, 1, order, scope)

WEFT_KERNEL(atomics, (uint32_t *, p32), (uint64_t *, p64), (float *, f), (double *, d))
{
    EACH_SCOPE(ATOMIC, WEFT_ORDER_RELAXED);
    EACH_SCOPE(ATOMIC, WEFT_ORDER_ACQUIRE);
    EACH_SCOPE(ATOMIC, WEFT_ORDER_RELEASE);
    EACH_SCOPE(ATOMIC, WEFT_ORDER_ACQ_REL);
    EACH_SCOPE(weft_dev_fence, WEFT_ORDER_ACQ_REL);
    EACH_SCOPE(weft_dev_fence, WEFT_ORDER_SEQ_CST);
}

WEFT_KERNEL_DECLARE(elsewhere, (int, x));

#if WEFT_HOST_CODE
weft_status launch_all(unsigned *out, uint64_t *words);
weft_status launch_all(unsigned *out, uint64_t *words)
{
    weft_status status = WEFT_LAUNCH(nothing, 1, weft_dim(8, 8, 1), 0, NULL);
    if (!status)
        status = WEFT_LAUNCH(places, 1u, (size_t)32, 64, NULL, out);
    if (!status)
        status = WEFT_LAUNCH(meetings, weft_dim(1, 1, 1), 32, 64, NULL, words);
    return status ? status : WEFT_LAUNCH_COOPERATIVE(elsewhere, 2, 32, 0, NULL, 5);
}
#endif
