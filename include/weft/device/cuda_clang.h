/* SPDX-License-Identifier: Apache-2.0 */
/* The part of CUDA C++ that <weft/device/target_cuda.h> and the library's kernels use, for clang 18
 * and newer without a CUDA toolkit (-x cuda -nocudainc -nocudalib): attributes, index variables and
 * intrinsics, by clang's builtins or PTX. Kernels may use them under CUDA's names. */
#ifndef WEFT_DEVICE_CUDA_CLANG_H
#define WEFT_DEVICE_CUDA_CLANG_H

#if __clang_major__ < 18
#error "Weft's device code needs clang 18 or newer: older ones spill its registers to the stack"
#endif

#define __host__               __attribute__((host))
#define __device__             __attribute__((device))
#define __global__             __attribute__((global))
#define __shared__             __attribute__((shared))
#define __constant__           __attribute__((constant))
#define __align__(bytes)       __attribute__((aligned(bytes)))
#define __forceinline__        __inline__ __attribute__((always_inline))
#define __noinline__           __attribute__((noinline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))

#define WEFT_CLANG             static __device__ __forceinline__

/* See simt.h. Of clang's code, ptxas computes what follows a call, such as the test at the end of a
 * loop, before it, and no predicate outlasts a call: it goes to a register and back on every path,
 * also on the one that does not call. It does not do so where the thread may end after the call. No
 * lane has the number 32, so the thread never ends here. */
struct weft_clang_after_call {
    __device__ __forceinline__ ~weft_clang_after_call()
    {
        asm volatile("{ .reg .pred p; .reg .u32 r; mov.u32 r, %laneid; setp.gt.u32 p, r, 31; "
                     "@p trap; }");
    }
};
#define WEFT_DEV_CALL_SLOW(function, ...)                                                          \
    ({                                                                                             \
        struct weft_clang_after_call weft_after;                                                   \
        function(__VA_ARGS__);                                                                     \
    })

/* A vector and not a structure, which clang divides: it may then load or store each half. */
typedef unsigned long long ulonglong2 __attribute__((ext_vector_type(2)));

/* threadIdx and its like: variables without memory, whose members are special registers. */
#define WEFT_CLANG_INDEX(name, sreg)                                                               \
    struct weft_clang_##name {                                                                     \
        __declspec(property(get = get_x)) unsigned x;                                              \
        __declspec(property(get = get_y)) unsigned y;                                              \
        __declspec(property(get = get_z)) unsigned z;                                              \
        WEFT_CLANG unsigned get_x()                                                                \
        {                                                                                          \
            return __nvvm_read_ptx_sreg_##sreg##_x();                                              \
        }                                                                                          \
        WEFT_CLANG unsigned get_y()                                                                \
        {                                                                                          \
            return __nvvm_read_ptx_sreg_##sreg##_y();                                              \
        }                                                                                          \
        WEFT_CLANG unsigned get_z()                                                                \
        {                                                                                          \
            return __nvvm_read_ptx_sreg_##sreg##_z();                                              \
        }                                                                                          \
    };                                                                                             \
    extern const __device__ __attribute__((weak)) struct weft_clang_##name name
WEFT_CLANG_INDEX(threadIdx, tid);
WEFT_CLANG_INDEX(blockIdx, ctaid);
WEFT_CLANG_INDEX(blockDim, ntid);
WEFT_CLANG_INDEX(gridDim, nctaid);
#undef WEFT_CLANG_INDEX

/* ------------------------------------------------------------------------------------ warp */

WEFT_CLANG unsigned __activemask()
{
    unsigned mask;
    asm volatile("activemask.b32 %0;" : "=r"(mask));
    return mask;
}

WEFT_CLANG unsigned __ballot_sync(unsigned mask, int pred)
{
    return __nvvm_vote_ballot_sync(mask, pred);
}

WEFT_CLANG int __any_sync(unsigned mask, int pred)
{
    return __nvvm_vote_any_sync(mask, pred);
}

WEFT_CLANG int __all_sync(unsigned mask, int pred)
{
    return __nvvm_vote_all_sync(mask, pred);
}

/* The instruction for a value of `type`, of as many bits and with asm constraint C. */
#define WEFT_CLANG_MATCH(type, bits, C)                                                            \
    WEFT_CLANG unsigned __match_any_sync(unsigned mask, type value)                                \
    {                                                                                              \
        unsigned lanes;                                                                            \
        asm volatile("match.any.sync.b" #bits " %0, %1, %2;" : "=r"(lanes) : C(value), "r"(mask)); \
        return lanes;                                                                              \
    }                                                                                              \
    WEFT_CLANG unsigned __match_all_sync(unsigned mask, type value, int *same)                     \
    {                                                                                              \
        unsigned lanes;                                                                            \
        asm volatile("match.all.sync.b" #bits " %0, %1, %2;" : "=r"(lanes) : C(value), "r"(mask)); \
        *same = lanes != 0;                                                                        \
        return lanes;                                                                              \
    }
WEFT_CLANG_MATCH(unsigned, 32, "r")
WEFT_CLANG_MATCH(unsigned long long, 64, "l")
#undef WEFT_CLANG_MATCH

/* `last` is the operand of the instruction that clamps lanes to those of the warp. */
#define WEFT_CLANG_SHUFFLE(name, type, how, last)                                                  \
    WEFT_CLANG unsigned name(unsigned mask, unsigned value, type by)                               \
    {                                                                                              \
        return (unsigned)__nvvm_shfl_sync_##how##_i32(mask, (int)value, (int)by, last);            \
    }                                                                                              \
    WEFT_CLANG unsigned long long name(unsigned mask, unsigned long long value, type by)           \
    {                                                                                              \
        unsigned low = name(mask, (unsigned)value, by);                                            \
        unsigned high = name(mask, (unsigned)(value >> 32), by);                                   \
        return (unsigned long long)high << 32 | low;                                               \
    }
WEFT_CLANG_SHUFFLE(__shfl_sync, int, idx, 31)
WEFT_CLANG_SHUFFLE(__shfl_up_sync, unsigned, up, 0)
WEFT_CLANG_SHUFFLE(__shfl_down_sync, unsigned, down, 31)
WEFT_CLANG_SHUFFLE(__shfl_xor_sync, int, bfly, 31)
#undef WEFT_CLANG_SHUFFLE

WEFT_CLANG void __syncwarp(unsigned mask)
{
    __nvvm_bar_warp_sync(mask);
}

/* ----------------------------------------------------------------------------------- block
 *
 * __syncthreads() is a builtin of clang. */

WEFT_CLANG int __syncthreads_count(int pred)
{
    return __nvvm_bar0_popc(pred);
}

WEFT_CLANG int __syncthreads_and(int pred)
{
    return __nvvm_bar0_and(pred);
}

WEFT_CLANG int __syncthreads_or(int pred)
{
    return __nvvm_bar0_or(pred);
}

/* ---------------------------------------------------------------------------------- memory */

WEFT_CLANG unsigned __isGlobal(const void *p)
{
    return __nvvm_isspacep_global(p);
}

WEFT_CLANG unsigned long long __cvta_generic_to_global(const void *p)
{
    unsigned long long global;
    asm("cvta.to.global.u64 %0, %1;" : "=l"(global) : "l"(p));
    return global;
}

WEFT_CLANG ulonglong2 __ldcs(const ulonglong2 *p)
{
    unsigned long long x, y;
    asm volatile("ld.global.cs.v2.u64 {%0, %1}, [%2];" : "=l"(x), "=l"(y) : "l"(p));
    return (ulonglong2){x, y};
}

WEFT_CLANG void __stcs(ulonglong2 *p, ulonglong2 v)
{
    asm volatile("st.global.cs.v2.u64 [%0], {%1, %2};" : : "l"(p), "l"(v.x), "l"(v.y) : "memory");
}

#define WEFT_CLANG_ATOMIC(name, type, how)                                                         \
    WEFT_CLANG type name(type *p, type value)                                                      \
    {                                                                                              \
        return __scoped_atomic_fetch_##how(p, value, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);     \
    }
WEFT_CLANG_ATOMIC(atomicAdd, unsigned, add)
WEFT_CLANG_ATOMIC(atomicAdd, unsigned long long, add)
WEFT_CLANG_ATOMIC(atomicMin, unsigned, min)
WEFT_CLANG_ATOMIC(atomicMax, unsigned, max)
#undef WEFT_CLANG_ATOMIC

/* ------------------------------------------------------------------------------------ time */

WEFT_CLANG long long clock64()
{
    long long now;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(now));
    return now;
}

WEFT_CLANG void __nanosleep(unsigned ns)
{
    asm volatile("nanosleep.u32 %0;" : : "r"(ns));
}

/* -------------------------------------------------------------------- bits and arithmetic */

WEFT_CLANG unsigned __byte_perm(unsigned x, unsigned y, unsigned which)
{
    return __nvvm_prmt(x, y, which);
}

WEFT_CLANG int __popc(unsigned x)
{
    return __builtin_popcount(x);
}

WEFT_CLANG int __popcll(unsigned long long x)
{
    return __builtin_popcountll(x);
}

WEFT_CLANG int __ffs(int x)
{
    return __builtin_ffs(x);
}

WEFT_CLANG int __ffsll(long long x)
{
    return __builtin_ffsll(x);
}

WEFT_CLANG int __clz(int x)
{
    return x ? __builtin_clz((unsigned)x) : 32;
}

WEFT_CLANG int __clzll(long long x)
{
    return x ? __builtin_clzll((unsigned long long)x) : 64;
}

WEFT_CLANG unsigned __float_as_uint(float x)
{
    return __builtin_bit_cast(unsigned, x);
}

WEFT_CLANG float __uint_as_float(unsigned x)
{
    return __builtin_bit_cast(float, x);
}

WEFT_CLANG long long __double_as_longlong(double x)
{
    return __builtin_bit_cast(long long, x);
}

WEFT_CLANG double __longlong_as_double(long long x)
{
    return __builtin_bit_cast(double, x);
}

WEFT_CLANG float __fmul_rn(float a, float b)
{
    return __nvvm_mul_rn_f(a, b);
}

WEFT_CLANG double __dmul_rn(double a, double b)
{
    return __nvvm_mul_rn_d(a, b);
}

WEFT_CLANG float __fdiv_rn(float a, float b)
{
    return __nvvm_div_rn_f(a, b);
}

WEFT_CLANG double __ddiv_rn(double a, double b)
{
    return __nvvm_div_rn_d(a, b);
}

/* ------------------------------------------------------- functions of <math.h> in binary32 */

WEFT_CLANG float fmaf(float a, float b, float c)
{
    return __nvvm_fma_rn_f(a, b, c);
}

WEFT_CLANG float sqrtf(float x)
{
    return __nvvm_sqrt_rn_f(x);
}

#define WEFT_CLANG_EXP2(x)      __nvvm_ex2_approx_f(x)
#define WEFT_CLANG_DIVIDE(a, b) __nvvm_div_rn_f(a, b)
#include <weft/device/clang_math.h>
#undef WEFT_CLANG_EXP2
#undef WEFT_CLANG_DIVIDE
#undef WEFT_CLANG

#endif
