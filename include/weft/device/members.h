/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the operations members of struct weft_device: functions that are not static. Only
 * <weft_device.h> includes it, after the headers that need no state. */
#ifndef WEFT_DEVICE_MEMBERS_H
#define WEFT_DEVICE_MEMBERS_H

#include <weft/device/target.h>

#if WEFT_TARGET_HIP || !defined __cplusplus
#error "WEFT_STATE_BY_POINTER is for CUDA C++ (nvcc, clang -x cuda or NVRTC), and for C++ on simt"
#endif
#ifdef WEFT_DEVICE_GDA
#error                                                                                             \
    "WEFT_DEVICE_GDA needs the state as a symbol: define only one of it and WEFT_STATE_BY_POINTER"
#endif

#undef WEFT_DEVICE
#undef WEFT_DEVICE_NOINLINE
#if WEFT_TARGET_CUDA
#define WEFT_DEVICE          __device__ __forceinline__
#define WEFT_DEVICE_NOINLINE __device__ __noinline__
#else
#define WEFT_DEVICE          inline
#define WEFT_DEVICE_NOINLINE __attribute__((noinline))
#endif

/* Member functions are called by name: a pointer to one is no address. */
#undef WEFT_DEV_CALL_RARELY
#define WEFT_DEV_CALL_RARELY(function, ...) function(__VA_ARGS__)

#endif
