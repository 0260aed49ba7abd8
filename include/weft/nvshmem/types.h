/* SPDX-License-Identifier: Apache-2.0 */
/* Definitions that all parts of <nvshmem.h> share: the type lists, one for each family of
 * functions, and how one function serves host and device code.
 *
 * A function for both has one text. nvcc compiles each half for its side; on simt, where both are
 * one compilation, the calling thread decides at run time. */
#ifndef WEFT_NVSHMEM_TYPES_H
#define WEFT_NVSHMEM_TYPES_H

#include <weft/nvshmem/standard.h>

#include <weft/device/control.h>
#include <weft/gpu.h>
#include <weft/nvshmem/constants.h>
#include <weft/nvshmem/host.h>

/* NVSHMEM_HOSTLIB_ONLY: this unit gets the host functions and no device code. */
#ifdef NVSHMEM_HOSTLIB_ONLY
#define WEFT_NV_DEVICE_PART 0
#else
#define WEFT_NV_DEVICE_PART 1
#include <weft_device.h>
#endif

/* Qualifiers of each definition: for host and device code, for device code, for the host.
 * tests/nvshmem/functions.sh replaces them with markers, by which it lists the functions. */
#ifdef WEFT_NV_MARKS
#define WEFT_NV_BOTH   WEFT_MARK_BOTH
#define WEFT_NV_DEVICE WEFT_MARK_DEVICE
#define WEFT_NV_HOST   WEFT_MARK_HOST
#elif WEFT_NV_DEVICE_PART && WEFT_TARGET_CUDA
#define WEFT_NV_BOTH   static __host__ __device__ __forceinline__
#define WEFT_NV_DEVICE static __device__ __forceinline__
#define WEFT_NV_HOST   static inline
#else
#define WEFT_NV_BOTH   static inline __attribute__((unused))
#define WEFT_NV_DEVICE static inline __attribute__((unused))
#define WEFT_NV_HOST   static inline __attribute__((unused))
#endif

#if !WEFT_NV_DEVICE_PART || (WEFT_TARGET_CUDA && !defined __CUDA_ARCH__)
#define WEFT_NV_SPLIT(in_kernel, on_host)                                                          \
    do {                                                                                           \
        on_host;                                                                                   \
    } while (0)
#elif WEFT_TARGET_CUDA
#define WEFT_NV_SPLIT(in_kernel, on_host)                                                          \
    do {                                                                                           \
        in_kernel;                                                                                 \
    } while (0)
#else
#define WEFT_NV_SPLIT(in_kernel, on_host)                                                          \
    do {                                                                                           \
        if (weft_simt_in_kernel()) {                                                               \
            in_kernel;                                                                             \
        } else {                                                                                   \
            on_host;                                                                               \
        }                                                                                          \
    } while (0)
#endif

/* 16-bit reals: CUDA's types in C++ with its headers. In C they have no type: they are passed as
 * bits, and reductions add them. */
#ifdef __CUDA_FP16_TYPES_EXIST__
typedef __half weft_nv_half;
#else
typedef struct weft_nv_half {
    uint16_t bits;
} weft_nv_half;
#endif
#ifdef __CUDA_BF16_TYPES_EXIST__
typedef __nv_bfloat16 weft_nv_bfloat16;
#else
typedef struct weft_nv_bfloat16 {
    uint16_t bits;
} weft_nv_bfloat16;
#endif

/* The same values as in <weft/device/narrow.h>. */
#define WEFT_NV_HALF     ((weft_type)100)
#define WEFT_NV_BFLOAT16 ((weft_type)101)

/* ------------------------------------------------------------------------------- type lists */

/* X(name, C type): put, get and their forms. */
#define WEFT_NV_RMA_TYPES(X)                                                                       \
    X(bfloat16, weft_nv_bfloat16)                                                                  \
    X(half, weft_nv_half)                                                                          \
    WEFT_NV_RMA_PLAIN_TYPES(X)
#define WEFT_NV_RMA_PLAIN_TYPES(X)                                                                 \
    X(float, float)                                                                                \
    X(double, double)                                                                              \
    X(char, char)                                                                                  \
    X(short, short)                                                                                \
    X(schar, signed char)                                                                          \
    X(int, int)                                                                                    \
    X(long, long)                                                                                  \
    X(longlong, long long)                                                                         \
    X(uchar, unsigned char)                                                                        \
    X(ushort, unsigned short)                                                                      \
    X(uint, unsigned int)                                                                          \
    X(ulong, unsigned long)                                                                        \
    X(ulonglong, unsigned long long)                                                               \
    X(int8, int8_t)                                                                                \
    X(int16, int16_t)                                                                              \
    X(int32, int32_t)                                                                              \
    X(int64, int64_t)                                                                              \
    X(uint8, uint8_t)                                                                              \
    X(uint16, uint16_t)                                                                            \
    X(uint32, uint32_t)                                                                            \
    X(uint64, uint64_t)                                                                            \
    X(size, size_t)                                                                                \
    X(ptrdiff, ptrdiff_t)

/* X(bits, bytes): put32 and the like. */
#define WEFT_NV_RMA_SIZES(X) X(8, 1) X(16, 2) X(32, 4) X(64, 8) X(128, 16)

/* X(name, C type): waits and tests. */
#define WEFT_NV_WAIT_TYPES(X)                                                                      \
    X(short, short)                                                                                \
    X(int, int)                                                                                    \
    X(long, long)                                                                                  \
    X(longlong, long long)                                                                         \
    X(ushort, unsigned short)                                                                      \
    X(uint, unsigned int)                                                                          \
    X(ulong, unsigned long)                                                                        \
    X(ulonglong, unsigned long long)                                                               \
    X(int32, int32_t)                                                                              \
    X(int64, int64_t)                                                                              \
    X(uint32, uint32_t)                                                                            \
    X(uint64, uint64_t)                                                                            \
    X(size, size_t)                                                                                \
    X(ptrdiff, ptrdiff_t)

/* X(name, C type): bitwise atomics; the standard atomics; the atomics that set and fetch. */
#define WEFT_NV_AMO_BITWISE_TYPES(X)                                                               \
    X(uint, unsigned int)                                                                          \
    X(ulong, unsigned long)                                                                        \
    X(ulonglong, unsigned long long)                                                               \
    X(int32, int32_t)                                                                              \
    X(uint32, uint32_t)                                                                            \
    X(int64, int64_t)                                                                              \
    X(uint64, uint64_t)
#define WEFT_NV_AMO_TYPES(X)                                                                       \
    WEFT_NV_AMO_BITWISE_TYPES(X)                                                                   \
    X(int, int)                                                                                    \
    X(long, long)                                                                                  \
    X(longlong, long long)                                                                         \
    X(size, size_t)                                                                                \
    X(ptrdiff, ptrdiff_t)
#define WEFT_NV_AMO_EXTENDED_TYPES(X) WEFT_NV_AMO_TYPES(X) X(float, float) X(double, double)

/* X(name, C type, weft_type): reductions by and, or, xor; and by min, max, sum, prod. */
#define WEFT_NV_REDUCE_BITWISE_TYPES(X)                                                            \
    X(uchar, unsigned char, WEFT_UINT8)                                                            \
    X(ushort, unsigned short, WEFT_UINT16)                                                         \
    X(uint, unsigned int, WEFT_UINT32)                                                             \
    X(ulong, unsigned long, WEFT_UINT64)                                                           \
    X(ulonglong, unsigned long long, WEFT_UINT64)                                                  \
    X(int8, int8_t, WEFT_INT8)                                                                     \
    X(int16, int16_t, WEFT_INT16)                                                                  \
    X(int32, int32_t, WEFT_INT32)                                                                  \
    X(int64, int64_t, WEFT_INT64)                                                                  \
    X(uint8, uint8_t, WEFT_UINT8)                                                                  \
    X(uint16, uint16_t, WEFT_UINT16)                                                               \
    X(uint32, uint32_t, WEFT_UINT32)                                                               \
    X(uint64, uint64_t, WEFT_UINT64)                                                               \
    X(size, size_t, WEFT_UINT64)
#define WEFT_NV_REDUCE_TYPES(X)                                                                    \
    WEFT_NV_REDUCE_BITWISE_TYPES(X)                                                                \
    X(char, char, ((char)-1 < 0 ? WEFT_INT8 : WEFT_UINT8))                                         \
    X(schar, signed char, WEFT_INT8)                                                               \
    X(short, short, WEFT_INT16)                                                                    \
    X(int, int, WEFT_INT32)                                                                        \
    X(long, long, WEFT_INT64)                                                                      \
    X(longlong, long long, WEFT_INT64)                                                             \
    X(bfloat16, weft_nv_bfloat16, WEFT_NV_BFLOAT16)                                                \
    X(half, weft_nv_half, WEFT_NV_HALF)                                                            \
    X(float, float, WEFT_FLOAT)                                                                    \
    X(double, double, WEFT_DOUBLE)

/* X(scope, constant): the scopes whose names end in _warp and _block. */
#if WEFT_NV_DEVICE_PART
#define WEFT_NV_GROUPS(X) X(warp, WEFT_DEV_WARP) X(block, WEFT_DEV_BLOCK)
#else
#define WEFT_NV_GROUPS(X)
#endif

/* The weft_type of an integer C type. */
#define WEFT_NV_TYPE_OF(T)                                                                         \
    (sizeof(T) == 8   ? ((T)-1 < (T)1 ? WEFT_INT64 : WEFT_UINT64)                                  \
     : sizeof(T) == 4 ? ((T)-1 < (T)1 ? WEFT_INT32 : WEFT_UINT32)                                  \
                      : ((T)-1 < (T)1 ? WEFT_INT16 : WEFT_UINT16))

#define WEFT_NV_SIGNAL(op) ((op) == NVSHMEM_SIGNAL_ADD ? WEFT_SIGNAL_ADD : WEFT_SIGNAL_SET)

#endif
