/* SPDX-License-Identifier: Apache-2.0 */
/* The target of this compilation: `cuda` under nvcc, under clang -x cuda and under NVRTC, `hip`
 * under clang -x hip, else `simt`. Exactly one of the three macros is 1. WEFT_TARGET_GPU is 1 for
 * cuda and hip. WEFT_DEVICE_ONLY is 1 where the compiler has device code alone, and no runtime:
 * clang without a toolkit, and NVRTC. */
#ifndef WEFT_DEVICE_TARGET_H
#define WEFT_DEVICE_TARGET_H

#if defined __HIP__
#define WEFT_TARGET_CUDA 0
#define WEFT_TARGET_HIP  1
#define WEFT_TARGET_SIMT 0
#define WEFT_DEVICE_ONLY 1
#include <weft/device/hip_clang.h>
#elif defined __CUDACC__ || defined __CUDA__
#define WEFT_TARGET_CUDA 1
#define WEFT_TARGET_HIP  0
#define WEFT_TARGET_SIMT 0
/* clang without the headers of a CUDA toolkit */
#if defined __CUDACC_RTC__
#define WEFT_DEVICE_ONLY 1
#elif defined __clang__ && !defined __CLANG_CUDA_RUNTIME_WRAPPER_H__
#define WEFT_DEVICE_ONLY 1
#include <weft/device/cuda_clang.h>
#else
#define WEFT_DEVICE_ONLY 0
#endif
#else
#define WEFT_TARGET_CUDA 0
#define WEFT_TARGET_HIP  0
#define WEFT_TARGET_SIMT 1
#define WEFT_DEVICE_ONLY 0
#endif

#define WEFT_TARGET_GPU (WEFT_TARGET_CUDA || WEFT_TARGET_HIP)

/* Transport dc (state.h) posts to the NICs by the code of transport gda. */
#if defined WEFT_DEVICE_DC && !defined WEFT_DEVICE_GDA
#define WEFT_DEVICE_GDA
#endif

#endif
