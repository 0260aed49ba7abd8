/* SPDX-License-Identifier: Apache-2.0 */
/* The part of HIP that Weft's device code and kernels use, for clang 18 and newer without ROCm (-x
 * hip -nogpuinc -nogpulib): attributes, and functions of <math.h> in binary32. */
#ifndef WEFT_DEVICE_HIP_CLANG_H
#define WEFT_DEVICE_HIP_CLANG_H

#if __clang_major__ < 18
#error "Weft's device code needs clang 18 or newer"
#endif

#define __host__                        __attribute__((host))
#define __device__                      __attribute__((device))
#define __global__                      __attribute__((global))
#define __shared__                      __attribute__((shared))
#define __constant__                    __attribute__((constant))
#define __align__(bytes)                __attribute__((aligned(bytes)))
#define __forceinline__                 __inline__ __attribute__((always_inline))
#define __noinline__                    __attribute__((noinline))
#define __launch_bounds__(threads, ...) __attribute__((amdgpu_flat_work_group_size(1, threads)))

#define WEFT_CLANG                      static __device__ __forceinline__

WEFT_CLANG float fmaf(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}

WEFT_CLANG float sqrtf(float x)
{
    return __builtin_sqrtf(x);
}

#define WEFT_CLANG_EXP2(x)      __builtin_amdgcn_exp2f(x)
#define WEFT_CLANG_DIVIDE(a, b) ((a) / (b))
#include <weft/device/clang_math.h>
#undef WEFT_CLANG_EXP2
#undef WEFT_CLANG_DIVIDE
#undef WEFT_CLANG

#endif
