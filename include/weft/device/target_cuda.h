/* SPDX-License-Identifier: Apache-2.0 */
/* Implementation of <weft/device/simt.h> for nvcc and clang, sm_70 and newer: CUDA's intrinsics
 * where they exist, PTX for accesses with order and scope (PTX ISA 6.0 and newer). Only simt.h
 * includes it. */
#ifndef WEFT_DEVICE_TARGET_CUDA_H
#define WEFT_DEVICE_TARGET_CUDA_H

#if !WEFT_DEVICE_ONLY
#include <cuda_runtime.h>
#endif

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

/* See simt.h. ptxas lets a function that is called by its name change any register, so that the
 * caller's values go to the stack on every path, not only on the rare one that calls. By a pointer
 * it calls functions that save what they change; all that such a function calls do so too, so
 * nothing that the fast path calls by its name should be among them. Without gda, nvcc's kernels
 * have fewer registers when they call the proxy's functions by their names. */
#if defined WEFT_DEVICE_GDA || defined __clang__
#define WEFT_DEV_CALL_RARELY(function, ...)                                                        \
    WEFT_DEV_CALL_SLOW(weft_dev_opaque_function(function), __VA_ARGS__)
template <typename F> WEFT_DEVICE F *weft_dev_opaque_function(F *function)
{
    asm("" : "+l"(function));
    return function;
}
#endif

/* ------------------------------------------------------------------------------ position */

#define WEFT_CUDA_INDEX(name, builtin)                                                             \
    WEFT_DEVICE unsigned name##_x(void)                                                            \
    {                                                                                              \
        return builtin.x;                                                                          \
    }                                                                                              \
    WEFT_DEVICE unsigned name##_y(void)                                                            \
    {                                                                                              \
        return builtin.y;                                                                          \
    }                                                                                              \
    WEFT_DEVICE unsigned name##_z(void)                                                            \
    {                                                                                              \
        return builtin.z;                                                                          \
    }
WEFT_CUDA_INDEX(weft_dev_thread, threadIdx)
WEFT_CUDA_INDEX(weft_dev_block, blockIdx)
WEFT_CUDA_INDEX(weft_dev_block_dim, blockDim)
WEFT_CUDA_INDEX(weft_dev_grid_dim, gridDim)
#undef WEFT_CUDA_INDEX

WEFT_DEVICE unsigned weft_dev_lane(void)
{
    unsigned lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}

WEFT_DEVICE unsigned weft_dev_in_place(unsigned x)
{
    asm volatile("" : "+r"(x));
    return x;
}

/* Only for clang: with nvcc the loop around a put would spill. */
WEFT_DEVICE uint64_t weft_dev_opaque_u64(uint64_t x)
{
#ifdef __clang__
    asm("" : "+l"(x));
#endif
    return x;
}

/* ------------------------------------------------------------------------------------ warp */

WEFT_DEVICE weft_lane_mask weft_dev_active_mask(void)
{
    return __activemask();
}

WEFT_DEVICE weft_lane_mask weft_dev_ballot(weft_lane_mask mask, int pred)
{
    return __ballot_sync(mask, pred);
}

WEFT_DEVICE int weft_dev_any(weft_lane_mask mask, int pred)
{
    return __any_sync(mask, pred) != 0;
}

WEFT_DEVICE int weft_dev_all(weft_lane_mask mask, int pred)
{
    return __all_sync(mask, pred) != 0;
}

#define WEFT_CUDA_WARP(suffix, type, cuda)                                                         \
    WEFT_DEVICE weft_lane_mask weft_dev_match_any_##suffix(weft_lane_mask mask, type value)        \
    {                                                                                              \
        return __match_any_sync(mask, (cuda)value);                                                \
    }                                                                                              \
    WEFT_DEVICE weft_lane_mask weft_dev_match_all_##suffix(weft_lane_mask mask, type value)        \
    {                                                                                              \
        int same;                                                                                  \
        return __match_all_sync(mask, (cuda)value, &same);                                         \
    }                                                                                              \
    WEFT_DEVICE type weft_dev_shuffle_##suffix(weft_lane_mask mask, type value, unsigned lane)     \
    {                                                                                              \
        return __shfl_sync(mask, (cuda)value, (int)lane);                                          \
    }                                                                                              \
    WEFT_DEVICE type weft_dev_shuffle_up_##suffix(weft_lane_mask mask, type value, unsigned delta) \
    {                                                                                              \
        return __shfl_up_sync(mask, (cuda)value, delta);                                           \
    }                                                                                              \
    WEFT_DEVICE type weft_dev_shuffle_down_##suffix(weft_lane_mask mask, type value,               \
                                                    unsigned delta)                                \
    {                                                                                              \
        return __shfl_down_sync(mask, (cuda)value, delta);                                         \
    }                                                                                              \
    WEFT_DEVICE type weft_dev_shuffle_xor_##suffix(weft_lane_mask mask, type value, unsigned bits) \
    {                                                                                              \
        return __shfl_xor_sync(mask, (cuda)value, (int)bits);                                      \
    }
WEFT_CUDA_WARP(u32, uint32_t, unsigned)
WEFT_CUDA_WARP(u64, uint64_t, unsigned long long)
#undef WEFT_CUDA_WARP

WEFT_DEVICE void weft_dev_sync_warp(weft_lane_mask mask)
{
    __syncwarp(mask);
}

WEFT_DEVICE int weft_dev_is_global(const void *p)
{
    return __isGlobal(p) != 0;
}

/* ----------------------------------------------------------------------------------- block */

WEFT_DEVICE void weft_dev_sync_block(void)
{
    __syncthreads();
}

WEFT_DEVICE int weft_dev_sync_block_count(int pred)
{
    return __syncthreads_count(pred);
}

WEFT_DEVICE int weft_dev_sync_block_and(int pred)
{
    return __syncthreads_and(pred) != 0;
}

WEFT_DEVICE int weft_dev_sync_block_or(int pred)
{
    return __syncthreads_or(pred) != 0;
}

/* -------------------------------------------------------------------------- loads and stores
 *
 * A volatile access of C is a relaxed access of system scope (PTX ISA, "ld.volatile"). Unlike an
 * asm statement that clobbers memory, it lets the compiler keep other variables in registers: in a
 * loop the device state is not loaded again after each access (p of one block: 6.2 instead of 4.0
 * G/s on an H200). Every asm clobbers memory, also the relaxed ones, because the compiler must not
 * move a plain access of the same location across it. `order` and `scope` are constants, so the
 * compiler keeps one of the branches below.
 */

/* ASM(how, scope, operation and type, asm constraint) with the given scope. */
#define WEFT_CUDA_SCOPES(ASM, how, scope, op, C)                                                   \
    do {                                                                                           \
        if ((scope) == WEFT_SCOPE_CTA)                                                             \
            ASM(how, "cta", op, C);                                                                \
        else if ((scope) == WEFT_SCOPE_GPU)                                                        \
            ASM(how, "gpu", op, C);                                                                \
        else                                                                                       \
            ASM(how, "sys", op, C);                                                                \
    } while (0)

#define WEFT_CUDA_LD(how, s, op, C)                                                                \
    asm volatile("ld." how "." s "." op " %0, [%1];" : "=" C(v) : "l"(p) : "memory")
#define WEFT_CUDA_ST(how, s, op, C)                                                                \
    asm volatile("st." how "." s "." op " [%0], %1;" : : "l"(p), C(v) : "memory")

/* Bits, C type of the register, asm constraint. An 8-bit value uses a 32-bit register. */
#define WEFT_CUDA_MEMORY(N, reg, C)                                                                \
    WEFT_DEVICE uint##N##_t weft_dev_load_u##N(const volatile uint##N##_t *p, int order,           \
                                               int scope)                                          \
    {                                                                                              \
        reg v;                                                                                     \
        if (order == WEFT_ORDER_VOLATILE ||                                                        \
            (order == WEFT_ORDER_RELAXED && scope == WEFT_SCOPE_SYS))                              \
            return *p;                                                                             \
        if (order == WEFT_ORDER_ACQUIRE)                                                           \
            WEFT_CUDA_SCOPES(WEFT_CUDA_LD, "acquire", scope, "u" #N, C);                           \
        else                                                                                       \
            WEFT_CUDA_SCOPES(WEFT_CUDA_LD, "relaxed", scope, "u" #N, C);                           \
        return (uint##N##_t)v;                                                                     \
    }                                                                                              \
    WEFT_DEVICE void weft_dev_store_u##N(volatile uint##N##_t *p, uint##N##_t value, int order,    \
                                         int scope)                                                \
    {                                                                                              \
        reg v = value;                                                                             \
        if (order == WEFT_ORDER_VOLATILE ||                                                        \
            (order == WEFT_ORDER_RELAXED && scope == WEFT_SCOPE_SYS))                              \
            *p = value;                                                                            \
        else if (order == WEFT_ORDER_RELEASE)                                                      \
            WEFT_CUDA_SCOPES(WEFT_CUDA_ST, "release", scope, "u" #N, C);                           \
        else                                                                                       \
            WEFT_CUDA_SCOPES(WEFT_CUDA_ST, "relaxed", scope, "u" #N, C);                           \
    }
WEFT_CUDA_MEMORY(8, uint32_t, "r")
WEFT_CUDA_MEMORY(16, uint16_t, "h")
WEFT_CUDA_MEMORY(32, uint32_t, "r")
WEFT_CUDA_MEMORY(64, uint64_t, "l")
#undef WEFT_CUDA_MEMORY
#undef WEFT_CUDA_LD
#undef WEFT_CUDA_ST

/* Plain vectors are ordinary accesses, which the compiler may combine and move. */
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
    ulonglong2 raw = *(const ulonglong2 *)p;
    struct weft_dev_vec16 v = {raw.x, raw.y};
    return v;
}

WEFT_DEVICE void weft_dev_store_vec16_whole(void *p, struct weft_dev_vec16 v)
{
    ulonglong2 raw = {v.lo, v.hi};
    *(ulonglong2 *)p = raw;
}

WEFT_DEVICE struct weft_dev_vec16 weft_dev_load_vec16_once(const void *p)
{
    ulonglong2 raw = __ldcs((const ulonglong2 *)p);
    struct weft_dev_vec16 v = {raw.x, raw.y};
    return v;
}

WEFT_DEVICE void weft_dev_store_vec16_once(void *p, struct weft_dev_vec16 v)
{
    ulonglong2 raw = {v.lo, v.hi};
    __stcs((ulonglong2 *)p, raw);
}

/* Version of the PTX ISA that is written, times 10. nvcc writes its own version; clang writes the
 * one that --cuda-feature=+ptx64 names. */
#ifndef WEFT_PTX_ISA
#if __CUDACC_VER_MAJOR__ > 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 3)
#define WEFT_PTX_ISA 83
#else
#define WEFT_PTX_ISA 64
#endif
#endif

/* One access of 128 bits since PTX ISA 8.3. Before, a vector of two halves, each of which is a
 * single access. */
#if WEFT_PTX_ISA >= 83
#define WEFT_CUDA_VEC16_UNIT 16
#define WEFT_CUDA_VEC16_LD   "{ .reg .b128 t; ld.relaxed.sys.b128 t, [%2]; mov.b128 {%0, %1}, t; }"
#define WEFT_CUDA_VEC16_ST   "{ .reg .b128 t; mov.b128 t, {%1, %2}; st.relaxed.sys.b128 [%0], t; }"
#else
#define WEFT_CUDA_VEC16_UNIT 8
#define WEFT_CUDA_VEC16_LD   "ld.relaxed.sys.v2.u64 {%0, %1}, [%2];"
#define WEFT_CUDA_VEC16_ST   "st.relaxed.sys.v2.u64 [%0], {%1, %2};"
#endif

WEFT_DEVICE struct weft_dev_vec16 weft_dev_load_vec16_relaxed(const void *p)
{
    struct weft_dev_vec16 v;
    asm volatile(WEFT_CUDA_VEC16_LD : "=l"(v.lo), "=l"(v.hi) : "l"(p) : "memory");
    return v;
}

WEFT_DEVICE void weft_dev_store_vec16_relaxed(void *p, struct weft_dev_vec16 v)
{
    asm volatile(WEFT_CUDA_VEC16_ST : : "l"(p), "l"(v.lo), "l"(v.hi) : "memory");
}

WEFT_DEVICE int weft_dev_vec16_unit(void)
{
    return WEFT_CUDA_VEC16_UNIT;
}

/* --------------------------------------------------------------------------------- atomics */

#define WEFT_CUDA_ORDERS(ASM, order, scope, op, C)                                                 \
    do {                                                                                           \
        if ((order) == WEFT_ORDER_RELAXED)                                                         \
            WEFT_CUDA_SCOPES(ASM, "relaxed", scope, op, C);                                        \
        else if ((order) == WEFT_ORDER_ACQUIRE)                                                    \
            WEFT_CUDA_SCOPES(ASM, "acquire", scope, op, C);                                        \
        else if ((order) == WEFT_ORDER_RELEASE)                                                    \
            WEFT_CUDA_SCOPES(ASM, "release", scope, op, C);                                        \
        else                                                                                       \
            WEFT_CUDA_SCOPES(ASM, "acq_rel", scope, op, C);                                        \
    } while (0)

#define WEFT_CUDA_ATOM(how, s, op, C)                                                              \
    asm volatile("atom." how "." s "." op " %0, [%1], %2;"                                         \
                 : "=" C(old)                                                                      \
                 : "l"(p), C(value)                                                                \
                 : "memory")
#define WEFT_CUDA_CAS(how, s, op, C)                                                               \
    asm volatile("atom." how "." s "." op " %0, [%1], %2, %3;"                                     \
                 : "=" C(old)                                                                      \
                 : "l"(p), C(expected), C(value)                                                   \
                 : "memory")

/* Name, C type, PTX operation and type, asm constraint. */
#define WEFT_CUDA_ATOMIC(name, type, op, C)                                                        \
    WEFT_DEVICE type weft_dev_atomic_##name(volatile type *p, type value, int order, int scope)    \
    {                                                                                              \
        type old;                                                                                  \
        WEFT_CUDA_ORDERS(WEFT_CUDA_ATOM, order, scope, op, C);                                     \
        return old;                                                                                \
    }
WEFT_CUDA_ATOMIC(add_u32, uint32_t, "add.u32", "r")
WEFT_CUDA_ATOMIC(add_u64, uint64_t, "add.u64", "l")
WEFT_CUDA_ATOMIC(add_f32, float, "add.f32", "f")
WEFT_CUDA_ATOMIC(add_f64, double, "add.f64", "d")
WEFT_CUDA_ATOMIC(exch_u32, uint32_t, "exch.b32", "r")
WEFT_CUDA_ATOMIC(exch_u64, uint64_t, "exch.b64", "l")
WEFT_CUDA_ATOMIC(and_u32, uint32_t, "and.b32", "r")
WEFT_CUDA_ATOMIC(and_u64, uint64_t, "and.b64", "l")
WEFT_CUDA_ATOMIC(or_u32, uint32_t, "or.b32", "r")
WEFT_CUDA_ATOMIC(or_u64, uint64_t, "or.b64", "l")
WEFT_CUDA_ATOMIC(xor_u32, uint32_t, "xor.b32", "r")
WEFT_CUDA_ATOMIC(xor_u64, uint64_t, "xor.b64", "l")
WEFT_CUDA_ATOMIC(min_u32, uint32_t, "min.u32", "r")
WEFT_CUDA_ATOMIC(min_u64, uint64_t, "min.u64", "l")
WEFT_CUDA_ATOMIC(min_i32, int32_t, "min.s32", "r")
WEFT_CUDA_ATOMIC(min_i64, int64_t, "min.s64", "l")
WEFT_CUDA_ATOMIC(max_u32, uint32_t, "max.u32", "r")
WEFT_CUDA_ATOMIC(max_u64, uint64_t, "max.u64", "l")
WEFT_CUDA_ATOMIC(max_i32, int32_t, "max.s32", "r")
WEFT_CUDA_ATOMIC(max_i64, int64_t, "max.s64", "l")
#undef WEFT_CUDA_ATOMIC

/* For memory that is known to be global: the compiler makes a generic atomic with a branch for
 * shared memory. */
WEFT_DEVICE uint64_t weft_dev_global_add_u64(volatile uint64_t *address, uint64_t value, int order,
                                             int scope)
{
    uint64_t old, p = __cvta_generic_to_global((const void *)address);
    WEFT_CUDA_ORDERS(WEFT_CUDA_ATOM, order, scope, "global.add.u64", "l");
    return old;
}

#define WEFT_CUDA_ATOMIC_CAS(suffix, type, op, C)                                                  \
    WEFT_DEVICE type weft_dev_atomic_cas_##suffix(volatile type *p, type expected, type value,     \
                                                  int order, int scope)                            \
    {                                                                                              \
        type old;                                                                                  \
        WEFT_CUDA_ORDERS(WEFT_CUDA_CAS, order, scope, op, C);                                      \
        return old;                                                                                \
    }
WEFT_CUDA_ATOMIC_CAS(u32, uint32_t, "cas.b32", "r")
WEFT_CUDA_ATOMIC_CAS(u64, uint64_t, "cas.b64", "l")
#undef WEFT_CUDA_ATOMIC_CAS
#undef WEFT_CUDA_ATOM
#undef WEFT_CUDA_CAS
#undef WEFT_CUDA_ORDERS

#define WEFT_CUDA_FENCE(how, s, op, C) asm volatile("fence." how "." s ";" : : : "memory")

WEFT_DEVICE void weft_dev_fence(int order, int scope)
{
    if (order == WEFT_ORDER_SEQ_CST)
        WEFT_CUDA_SCOPES(WEFT_CUDA_FENCE, "sc", scope, "", "");
    else
        WEFT_CUDA_SCOPES(WEFT_CUDA_FENCE, "acq_rel", scope, "", "");
}
#undef WEFT_CUDA_FENCE
#undef WEFT_CUDA_SCOPES

/* ------------------------------------------------------------------------------------ time */

WEFT_DEVICE uint64_t weft_dev_clock_ns(void)
{
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now) : : "memory");
    return now;
}

WEFT_DEVICE uint64_t weft_dev_clock_cycles(void)
{
    return (uint64_t)clock64();
}

WEFT_DEVICE void weft_dev_nanosleep(uint32_t ns)
{
    __nanosleep(ns);
}

WEFT_DEVICE int weft_dev_lanes_independent(void)
{
    return 1;
}

WEFT_DEVICE void weft_dev_wait_begins(void)
{
}

WEFT_DEVICE void weft_dev_wait_ends(void)
{
}

/* ---------------------------------------------------------------------- bits, bit patterns */

WEFT_DEVICE unsigned weft_dev_popcount_u32(uint32_t x)
{
    return (unsigned)__popc(x);
}

WEFT_DEVICE unsigned weft_dev_popcount_u64(uint64_t x)
{
    return (unsigned)__popcll(x);
}

WEFT_DEVICE unsigned weft_dev_find_first_u32(uint32_t x)
{
    return (unsigned)__ffs((int)x);
}

WEFT_DEVICE unsigned weft_dev_find_first_u64(uint64_t x)
{
    return (unsigned)__ffsll((long long)x);
}

WEFT_DEVICE unsigned weft_dev_leading_zeros_u32(uint32_t x)
{
    return (unsigned)__clz((int)x);
}

WEFT_DEVICE unsigned weft_dev_leading_zeros_u64(uint64_t x)
{
    return (unsigned)__clzll((long long)x);
}

WEFT_DEVICE uint32_t weft_dev_bits_f32(float x)
{
    return __float_as_uint(x);
}

WEFT_DEVICE float weft_dev_f32_bits(uint32_t x)
{
    return __uint_as_float(x);
}

WEFT_DEVICE uint64_t weft_dev_bits_f64(double x)
{
    return (uint64_t)__double_as_longlong(x);
}

WEFT_DEVICE double weft_dev_f64_bits(uint64_t x)
{
    return __longlong_as_double((long long)x);
}

#endif
