/* SPDX-License-Identifier: Apache-2.0 */
/* Headers that programs expect <nvshmem.h> to include: common ones of C and C++ and, where they are
 * in the include path, CUDA's driver, runtime and 16-bit reals, for host compilers too; cooperative
 * groups for nvcc. Defines WEFT_NV_CUDA_HEADERS and, without CUDA's headers, cudaStream_t. */
#ifndef WEFT_NVSHMEM_STANDARD_H
#define WEFT_NVSHMEM_STANDARD_H

#include <assert.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
#include <cassert>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#endif

/* WEFT_NV_CUDA_HEADERS: 1 when CUDA's headers are included and its types are known. A unit may
 * define it as 0 to compile without them. */
#if defined WEFT_NV_CUDA_HEADERS
#elif defined __CUDACC__
#define WEFT_NV_CUDA_HEADERS 1
#elif defined __has_include
#if __has_include(<cuda_runtime.h>) && __has_include(<cuda_fp16.h>) && __has_include(<cuda_bf16.h>)
#define WEFT_NV_CUDA_HEADERS 1
#endif
#endif
#ifndef WEFT_NV_CUDA_HEADERS
#define WEFT_NV_CUDA_HEADERS 0
#endif

#if WEFT_NV_CUDA_HEADERS
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#ifdef __CUDACC__
#include <cooperative_groups.h>
#endif
#else
/* The same type as in CUDA's headers, which may be included before or after. */
typedef struct CUstream_st *cudaStream_t;
#endif

#endif
