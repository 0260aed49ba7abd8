/* SPDX-License-Identifier: Apache-2.0 */
/* The sizes and constants that the test compares between Weft's declarations of the CUDA driver and
 * NVIDIA's. Two source files include it, each after one of the two headers, because the two headers
 * conflict. */
#include <stddef.h>

#define ABI_SIZES(X)                                                                               \
    X(sizeof(CUresult))                                                                            \
    X(sizeof(CUdevice))                                                                            \
    X(sizeof(CUdeviceptr))                                                                         \
    X(sizeof(CUmemGenericAllocationHandle))                                                        \
    X(sizeof(CUcontext))                                                                           \
    X(sizeof(CUuuid))                                                                              \
    X(sizeof(CUmemLocation))                                                                       \
    X(sizeof(CUmemAllocationProp))                                                                 \
    X(offsetof(CUmemAllocationProp, location))                                                     \
    X(offsetof(CUmemAllocationProp, win32HandleMetaData))                                          \
    X(offsetof(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable))                              \
    X(sizeof(CUipcMemHandle))                                                                      \
    X(sizeof(CUmemAccessDesc))                                                                     \
    X(sizeof(CUstreamBatchMemOpParams))                                                            \
    X(offsetof(CUstreamBatchMemOpParams, writeValue.address))                                      \
    X(offsetof(CUstreamBatchMemOpParams, writeValue.value64))                                      \
    X(offsetof(CUstreamBatchMemOpParams, writeValue.flags))                                        \
    X(offsetof(CUmemAccessDesc, flags))
