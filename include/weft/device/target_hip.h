/* SPDX-License-Identifier: Apache-2.0 */
/* Implementation of <weft/device/simt.h> for AMD GPUs with waves of 64 lanes (gfx90a, gfx942), by
 * clang's builtins alone. A warp is a wave. Its lanes are not independent: operations of a warp
 * take those of the lanes in `mask` that are here, so all of them must have come by the same
 * branch. Only simt.h includes it.
 *
 * Accesses with order and scope are LLVM's scoped atomics, for which the LLVM User Guide for AMDGPU
 * ("Memory Model") lists the instructions: system scope bypasses the caches that other devices do
 * not see. */
#ifndef WEFT_DEVICE_TARGET_HIP_H
#define WEFT_DEVICE_TARGET_HIP_H

#define WEFT_DEVICE                   static __device__ __forceinline__
#define WEFT_DEVICE_NOINLINE          static __device__ __noinline__
#define WEFT_GLOBAL                   static __device__
#define WEFT_CONST                    static __constant__
#define WEFT_RESTRICT                 __restrict__
#define WEFT_UNROLL                   _Pragma("unroll")
#define WEFT_NO_UNROLL                _Pragma("unroll 1")

#define WEFT_SHARED(type, name, dims) __shared__ __align__(16) type name dims
#define WEFT_SHARED_DYNAMIC(type, name)                                                            \
    extern __shared__ __align__(16) unsigned char weft_dev_shared_bytes[];                         \
    type *const name = (type *)weft_dev_shared_bytes

#ifndef WEFT_DEV_HOST_IN_TURN
#define WEFT_DEV_HOST_IN_TURN 1
#endif

/* ------------------------------------------------------------------------------ position */

#define WEFT_HIP_INDEX(a)                                                                          \
    WEFT_DEVICE unsigned weft_dev_thread_##a(void)                                                 \
    {                                                                                              \
        return __builtin_amdgcn_workitem_id_##a();                                                 \
    }                                                                                              \
    WEFT_DEVICE unsigned weft_dev_block_##a(void)                                                  \
    {                                                                                              \
        return __builtin_amdgcn_workgroup_id_##a();                                                \
    }                                                                                              \
    WEFT_DEVICE unsigned weft_dev_block_dim_##a(void)                                              \
    {                                                                                              \
        return __builtin_amdgcn_workgroup_size_##a();                                              \
    }                                                                                              \
    WEFT_DEVICE unsigned weft_dev_grid_dim_##a(void)                                               \
    {                                                                                              \
        return __builtin_amdgcn_grid_size_##a() / __builtin_amdgcn_workgroup_size_##a();           \
    }
WEFT_HIP_INDEX(x)
WEFT_HIP_INDEX(y)
WEFT_HIP_INDEX(z)
#undef WEFT_HIP_INDEX

WEFT_DEVICE unsigned weft_dev_lane(void)
{
    return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0));
}

/* As on the other targets; a block of 1024 threads has registers enough here. */
WEFT_DEVICE unsigned weft_dev_in_place(unsigned x)
{
    return x;
}

WEFT_DEVICE uint64_t weft_dev_opaque_u64(uint64_t x)
{
    return x;
}

/* ------------------------------------------------------------------------------------ warp */

WEFT_DEVICE weft_lane_mask weft_dev_active_mask(void)
{
    return __builtin_amdgcn_ballot_w64(true);
}

WEFT_DEVICE weft_lane_mask weft_dev_ballot(weft_lane_mask mask, int pred)
{
    return __builtin_amdgcn_ballot_w64(pred != 0) & mask;
}

WEFT_DEVICE int weft_dev_any(weft_lane_mask mask, int pred)
{
    return weft_dev_ballot(mask, pred) != 0;
}

WEFT_DEVICE int weft_dev_all(weft_lane_mask mask, int pred)
{
    return weft_dev_ballot(mask, pred) == mask;
}

WEFT_DEVICE uint32_t weft_hip_value_of(uint32_t value, unsigned lane)
{
    return (uint32_t)__builtin_amdgcn_ds_bpermute((int)(lane << 2), (int)value);
}

WEFT_DEVICE uint64_t weft_hip_value_of(uint64_t value, unsigned lane)
{
    uint64_t high = weft_hip_value_of((uint32_t)(value >> 32), lane);
    return high << 32 | weft_hip_value_of((uint32_t)value, lane);
}

#define WEFT_HIP_WARP(suffix, type)                                                                \
    WEFT_DEVICE type weft_dev_shuffle_##suffix(weft_lane_mask mask, type value, unsigned lane)     \
    {                                                                                              \
        (void)mask;                                                                                \
        return weft_hip_value_of(value, lane % WEFT_WARP_LANES);                                   \
    }                                                                                              \
    WEFT_DEVICE type weft_dev_shuffle_up_##suffix(weft_lane_mask mask, type value, unsigned delta) \
    {                                                                                              \
        unsigned lane = weft_dev_lane();                                                           \
        (void)mask;                                                                                \
        return weft_hip_value_of(value, delta > lane ? lane : lane - delta);                       \
    }                                                                                              \
    WEFT_DEVICE type weft_dev_shuffle_down_##suffix(weft_lane_mask mask, type value,               \
                                                    unsigned delta)                                \
    {                                                                                              \
        unsigned lane = weft_dev_lane();                                                           \
        (void)mask;                                                                                \
        return weft_hip_value_of(value, delta < WEFT_WARP_LANES - lane ? lane + delta : lane);     \
    }                                                                                              \
    WEFT_DEVICE type weft_dev_shuffle_xor_##suffix(weft_lane_mask mask, type value, unsigned bits) \
    {                                                                                              \
        unsigned lane = weft_dev_lane(), from = lane ^ bits;                                       \
        (void)mask;                                                                                \
        return weft_hip_value_of(value, from < WEFT_WARP_LANES ? from : lane);                     \
    }                                                                                              \
    WEFT_DEVICE weft_lane_mask weft_dev_match_any_##suffix(weft_lane_mask mask, type value)        \
    {                                                                                              \
        weft_lane_mask mine = 0;                                                                   \
        for (weft_lane_mask left = mask; left;) {                                                  \
            type first = weft_hip_value_of(value, (unsigned)__builtin_ctzll(left));                \
            weft_lane_mask same = weft_dev_ballot(mask, value == first);                           \
            mine = value == first ? same : mine;                                                   \
            left &= ~same;                                                                         \
        }                                                                                          \
        return mine;                                                                               \
    }                                                                                              \
    WEFT_DEVICE weft_lane_mask weft_dev_match_all_##suffix(weft_lane_mask mask, type value)        \
    {                                                                                              \
        type first = weft_hip_value_of(value, (unsigned)__builtin_ctzll(mask));                    \
        return weft_dev_all(mask, value == first) ? mask : 0;                                      \
    }
WEFT_HIP_WARP(u32, uint32_t)
WEFT_HIP_WARP(u64, uint64_t)
#undef WEFT_HIP_WARP

/* The lanes of a wave are at one instruction: only the compiler must not move accesses. */
WEFT_DEVICE void weft_dev_sync_warp(weft_lane_mask mask)
{
    (void)mask;
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

WEFT_DEVICE int weft_dev_is_global(const void *p)
{
    const __attribute__((address_space(0))) void *generic =
        (const __attribute__((address_space(0))) void *)p;
    return !__builtin_amdgcn_is_shared(generic) && !__builtin_amdgcn_is_private(generic);
}

/* ----------------------------------------------------------------------------------- block */

WEFT_DEVICE void weft_dev_sync_block(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

/* The first sync of the next call keeps `count` until all threads have read it. */
WEFT_DEVICE int weft_dev_sync_block_count(int pred)
{
    __shared__ unsigned count;
    weft_lane_mask set = __builtin_amdgcn_ballot_w64(pred != 0);
    weft_dev_sync_block();
    if (!(weft_dev_thread_x() | weft_dev_thread_y() | weft_dev_thread_z()))
        count = 0;
    weft_dev_sync_block();
    if (pred && weft_dev_lane() == (unsigned)__builtin_ctzll(set))
        __scoped_atomic_fetch_add(&count, (unsigned)__builtin_popcountll(set), __ATOMIC_RELAXED,
                                  __MEMORY_SCOPE_WRKGRP);
    weft_dev_sync_block();
    return (int)count;
}

WEFT_DEVICE int weft_dev_sync_block_and(int pred)
{
    return weft_dev_sync_block_count(!pred) == 0;
}

WEFT_DEVICE int weft_dev_sync_block_or(int pred)
{
    return weft_dev_sync_block_count(pred) != 0;
}

/* -------------------------------------------------------------------------- loads and stores
 *
 * `order` and `scope` are constants, so the compiler keeps one of the branches below. */

/* CALL(order) with the given scope. */
#define WEFT_HIP_SCOPES(CALL, order)                                                               \
    (scope == WEFT_SCOPE_CTA   ? CALL(order, __MEMORY_SCOPE_WRKGRP)                                \
     : scope == WEFT_SCOPE_GPU ? CALL(order, __MEMORY_SCOPE_DEVICE)                                \
                               : CALL(order, __MEMORY_SCOPE_SYSTEM))
#define WEFT_HIP_LD(order, scope) __scoped_atomic_load_n(p, order, scope)
#define WEFT_HIP_ST(order, scope) __scoped_atomic_store_n(p, value, order, scope)

#define WEFT_HIP_MEMORY(N)                                                                         \
    WEFT_DEVICE uint##N##_t weft_dev_load_u##N(const volatile uint##N##_t *p, int order,           \
                                               int scope)                                          \
    {                                                                                              \
        if (order == WEFT_ORDER_ACQUIRE)                                                           \
            return WEFT_HIP_SCOPES(WEFT_HIP_LD, __ATOMIC_ACQUIRE);                                 \
        if (order == WEFT_ORDER_VOLATILE)                                                          \
            return WEFT_HIP_LD(__ATOMIC_RELAXED, __MEMORY_SCOPE_SYSTEM);                           \
        return WEFT_HIP_SCOPES(WEFT_HIP_LD, __ATOMIC_RELAXED);                                     \
    }                                                                                              \
    WEFT_DEVICE void weft_dev_store_u##N(volatile uint##N##_t *p, uint##N##_t value, int order,    \
                                         int scope)                                                \
    {                                                                                              \
        if (order == WEFT_ORDER_RELEASE)                                                           \
            WEFT_HIP_SCOPES(WEFT_HIP_ST, __ATOMIC_RELEASE);                                        \
        else if (order == WEFT_ORDER_VOLATILE)                                                     \
            WEFT_HIP_ST(__ATOMIC_RELAXED, __MEMORY_SCOPE_SYSTEM);                                  \
        else                                                                                       \
            WEFT_HIP_SCOPES(WEFT_HIP_ST, __ATOMIC_RELAXED);                                        \
    }
WEFT_HIP_MEMORY(8)
WEFT_HIP_MEMORY(16)
WEFT_HIP_MEMORY(32)
WEFT_HIP_MEMORY(64)
#undef WEFT_HIP_MEMORY
#undef WEFT_HIP_LD
#undef WEFT_HIP_ST

WEFT_DEVICE struct weft_dev_vec16 weft_dev_load_vec16(const void *p)
{
    return *(const struct weft_dev_vec16 *)p;
}

WEFT_DEVICE void weft_dev_store_vec16(void *p, struct weft_dev_vec16 v)
{
    *(struct weft_dev_vec16 *)p = v;
}

WEFT_DEVICE struct weft_dev_vec16 weft_dev_load_vec16_whole(const void *p)
{
    return weft_dev_load_vec16(p);
}

WEFT_DEVICE void weft_dev_store_vec16_whole(void *p, struct weft_dev_vec16 v)
{
    weft_dev_store_vec16(p, v);
}

typedef uint64_t weft_hip_pair __attribute__((ext_vector_type(2)));

WEFT_DEVICE struct weft_dev_vec16 weft_dev_load_vec16_once(const void *p)
{
    weft_hip_pair raw = __builtin_nontemporal_load((const weft_hip_pair *)p);
    struct weft_dev_vec16 v = {raw.x, raw.y};
    return v;
}

WEFT_DEVICE void weft_dev_store_vec16_once(void *p, struct weft_dev_vec16 v)
{
    weft_hip_pair raw = {v.lo, v.hi};
    __builtin_nontemporal_store(raw, (weft_hip_pair *)p);
}

/* Two accesses of 8 bytes: there are no atomic ones of 16. */
WEFT_DEVICE struct weft_dev_vec16 weft_dev_load_vec16_relaxed(const void *p)
{
    const volatile uint64_t *words = (const volatile uint64_t *)p;
    struct weft_dev_vec16 v;
    v.lo = weft_dev_load_u64(words, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    v.hi = weft_dev_load_u64(words + 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    return v;
}

WEFT_DEVICE void weft_dev_store_vec16_relaxed(void *p, struct weft_dev_vec16 v)
{
    volatile uint64_t *words = (volatile uint64_t *)p;
    weft_dev_store_u64(words, v.lo, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    weft_dev_store_u64(words + 1, v.hi, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
}

WEFT_DEVICE int weft_dev_vec16_unit(void)
{
    return 8;
}

/* --------------------------------------------------------------------------------- atomics */

#define WEFT_HIP_ORDERS(CALL)                                                                      \
    (order == WEFT_ORDER_RELAXED   ? WEFT_HIP_SCOPES(CALL, __ATOMIC_RELAXED)                       \
     : order == WEFT_ORDER_ACQUIRE ? WEFT_HIP_SCOPES(CALL, __ATOMIC_ACQUIRE)                       \
     : order == WEFT_ORDER_RELEASE ? WEFT_HIP_SCOPES(CALL, __ATOMIC_RELEASE)                       \
                                   : WEFT_HIP_SCOPES(CALL, __ATOMIC_ACQ_REL))

#define WEFT_HIP_ATOMIC(name, type, CALL)                                                          \
    WEFT_DEVICE type weft_dev_atomic_##name(volatile type *p, type value, int order, int scope)    \
    {                                                                                              \
        return WEFT_HIP_ORDERS(CALL);                                                              \
    }
#define WEFT_HIP_ADD(order, scope)  __scoped_atomic_fetch_add(p, value, order, scope)
#define WEFT_HIP_EXCH(order, scope) __scoped_atomic_exchange_n(p, value, order, scope)
#define WEFT_HIP_AND(order, scope)  __scoped_atomic_fetch_and(p, value, order, scope)
#define WEFT_HIP_OR(order, scope)   __scoped_atomic_fetch_or(p, value, order, scope)
#define WEFT_HIP_XOR(order, scope)  __scoped_atomic_fetch_xor(p, value, order, scope)
#define WEFT_HIP_MIN(order, scope)  __scoped_atomic_fetch_min(p, value, order, scope)
#define WEFT_HIP_MAX(order, scope)  __scoped_atomic_fetch_max(p, value, order, scope)
WEFT_HIP_ATOMIC(add_u32, uint32_t, WEFT_HIP_ADD)
WEFT_HIP_ATOMIC(add_u64, uint64_t, WEFT_HIP_ADD)
WEFT_HIP_ATOMIC(add_f32, float, WEFT_HIP_ADD)
WEFT_HIP_ATOMIC(add_f64, double, WEFT_HIP_ADD)
WEFT_HIP_ATOMIC(exch_u32, uint32_t, WEFT_HIP_EXCH)
WEFT_HIP_ATOMIC(exch_u64, uint64_t, WEFT_HIP_EXCH)
WEFT_HIP_ATOMIC(and_u32, uint32_t, WEFT_HIP_AND)
WEFT_HIP_ATOMIC(and_u64, uint64_t, WEFT_HIP_AND)
WEFT_HIP_ATOMIC(or_u32, uint32_t, WEFT_HIP_OR)
WEFT_HIP_ATOMIC(or_u64, uint64_t, WEFT_HIP_OR)
WEFT_HIP_ATOMIC(xor_u32, uint32_t, WEFT_HIP_XOR)
WEFT_HIP_ATOMIC(xor_u64, uint64_t, WEFT_HIP_XOR)
WEFT_HIP_ATOMIC(min_u32, uint32_t, WEFT_HIP_MIN)
WEFT_HIP_ATOMIC(min_u64, uint64_t, WEFT_HIP_MIN)
WEFT_HIP_ATOMIC(min_i32, int32_t, WEFT_HIP_MIN)
WEFT_HIP_ATOMIC(min_i64, int64_t, WEFT_HIP_MIN)
WEFT_HIP_ATOMIC(max_u32, uint32_t, WEFT_HIP_MAX)
WEFT_HIP_ATOMIC(max_u64, uint64_t, WEFT_HIP_MAX)
WEFT_HIP_ATOMIC(max_i32, int32_t, WEFT_HIP_MAX)
WEFT_HIP_ATOMIC(max_i64, int64_t, WEFT_HIP_MAX)
#undef WEFT_HIP_ATOMIC
#undef WEFT_HIP_ADD
#undef WEFT_HIP_EXCH
#undef WEFT_HIP_AND
#undef WEFT_HIP_OR
#undef WEFT_HIP_XOR
#undef WEFT_HIP_MIN
#undef WEFT_HIP_MAX
#define weft_dev_global_add_u64 weft_dev_atomic_add_u64

/* Returns the previous value, which the builtin stores in `expected`. */
#define WEFT_HIP_CAS(order, scope)                                                                 \
    (__scoped_atomic_compare_exchange_n(p, &expected, value, 0, order, __ATOMIC_RELAXED, scope),   \
     expected)
#define WEFT_HIP_ATOMIC_CAS(suffix, type)                                                          \
    WEFT_DEVICE type weft_dev_atomic_cas_##suffix(volatile type *p, type expected, type value,     \
                                                  int order, int scope)                            \
    {                                                                                              \
        return WEFT_HIP_ORDERS(WEFT_HIP_CAS);                                                      \
    }
WEFT_HIP_ATOMIC_CAS(u32, uint32_t)
WEFT_HIP_ATOMIC_CAS(u64, uint64_t)
#undef WEFT_HIP_ATOMIC_CAS
#undef WEFT_HIP_CAS
#undef WEFT_HIP_ORDERS
#undef WEFT_HIP_SCOPES

#define WEFT_HIP_FENCE(order)                                                                      \
    do {                                                                                           \
        if (scope == WEFT_SCOPE_CTA)                                                               \
            __builtin_amdgcn_fence(order, "workgroup");                                            \
        else if (scope == WEFT_SCOPE_GPU)                                                          \
            __builtin_amdgcn_fence(order, "agent");                                                \
        else                                                                                       \
            __builtin_amdgcn_fence(order, "");                                                     \
    } while (0)

WEFT_DEVICE void weft_dev_fence(int order, int scope)
{
    if (order == WEFT_ORDER_SEQ_CST)
        WEFT_HIP_FENCE(__ATOMIC_SEQ_CST);
    else
        WEFT_HIP_FENCE(__ATOMIC_ACQ_REL);
}
#undef WEFT_HIP_FENCE

/* ------------------------------------------------------------------------------------ time */

/* The counter that all units share has 100 MHz (CDNA2 and CDNA3 ISA, "S_MEMREALTIME"). */
WEFT_DEVICE uint64_t weft_dev_clock_ns(void)
{
    return __builtin_amdgcn_s_memrealtime() * 10;
}

WEFT_DEVICE uint64_t weft_dev_clock_cycles(void)
{
    return __builtin_readcyclecounter();
}

/* A unit of S_SLEEP is 64 cycles, about 32 ns. */
WEFT_DEVICE void weft_dev_nanosleep(uint32_t ns)
{
    WEFT_NO_UNROLL
    for (; ns >= 256; ns -= 256)
        __builtin_amdgcn_s_sleep(8);
    WEFT_NO_UNROLL
    for (uint32_t slept = 0; slept < ns; slept += 32)
        __builtin_amdgcn_s_sleep(1);
}

WEFT_DEVICE int weft_dev_lanes_independent(void)
{
    return 0;
}

WEFT_DEVICE void weft_dev_wait_begins(void)
{
}

WEFT_DEVICE void weft_dev_wait_ends(void)
{
}

#include <weft/device/bits.h>

#endif
