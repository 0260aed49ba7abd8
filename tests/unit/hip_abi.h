/* SPDX-License-Identifier: Apache-2.0 */
/* The sizes and constants that the test compares between Weft's declarations of HIP and AMD's. Two
 * source files include it, each after one of the two headers, because the two headers conflict. */
#include <stddef.h>

#define ABI_SIZES(X)                                                                               \
    X(sizeof(CUuuid), sizeof(hipUUID))                                                             \
    X(sizeof(CUmemAllocationProp), sizeof(hipMemAllocationProp))                                   \
    X(offsetof(CUmemAllocationProp, location), offsetof(hipMemAllocationProp, location))           \
    X(sizeof(CUmemAccessDesc), sizeof(hipMemAccessDesc))                                           \
    X(sizeof(CUstreamBatchMemOpParams), sizeof(hipStreamBatchMemOpParams))                         \
    X(offsetof(CUstreamBatchMemOpParams, writeValue.address),                                      \
      offsetof(hipStreamBatchMemOpParams, writeValue.address))                                     \
    X(offsetof(CUstreamBatchMemOpParams, writeValue.value64),                                      \
      offsetof(hipStreamBatchMemOpParams, writeValue.value64))                                     \
    X(offsetof(CUstreamBatchMemOpParams, writeValue.flags),                                        \
      offsetof(hipStreamBatchMemOpParams, writeValue.flags))                                       \
    X(HIP_PROPERTIES_BYTES, sizeof(hipDeviceProp_tR0600))                                          \
    X(HIP_PROPERTIES_ARCHITECTURE_AT, offsetof(hipDeviceProp_tR0600, gcnArchName))
