/* SPDX-License-Identifier: Apache-2.0 */
/* The target of this compilation: `cuda` under nvcc and under clang -x cuda, else `simt`. Exactly
 * one of the two macros is 1. */
#ifndef WEFT_DEVICE_TARGET_H
#define WEFT_DEVICE_TARGET_H

#if defined __CUDACC__ || defined __CUDA__
#define WEFT_TARGET_CUDA 1
#define WEFT_TARGET_SIMT 0
/* clang without the headers of a CUDA toolkit */
#if defined __clang__ && !defined __CLANG_CUDA_RUNTIME_WRAPPER_H__
#include <weft/device/cuda_clang.h>
#endif
#else
#define WEFT_TARGET_CUDA 0
#define WEFT_TARGET_SIMT 1
#endif

#endif
