/* SPDX-License-Identifier: Apache-2.0 */
/* The HIP runtime of AMD, for gpu_api.c. The declarations are our own and contain only what is
 * used, so the build needs no HIP header; names and values are those of HIP 7.2 (do not include
 * together with <hip/hip_runtime_api.h>). tests/unit/test_hip_abi.c compares them with that header
 * where it is installed. Values that HIP shares with the CUDA driver, such as those of errors, are
 * in gpu_api.h. */
#ifndef WEFT_DRIVER_HIP_H
#define WEFT_DRIVER_HIP_H

#include "driver/gpu_api.h"

/* X(name, value): constants of HIP whose values differ from CUDA's, or that CUDA lacks. */
#define HIP_CONSTANTS(X)                                                                           \
    X(hipDeviceAttributeAsyncEngineCount, 2)                                                       \
    X(hipDeviceAttributeComputeMode, 6)                                                            \
    X(hipDeviceAttributeComputeCapabilityMajor, 23)                                                \
    X(hipDeviceAttributeComputeCapabilityMinor, 61)                                                \
    X(hipDeviceAttributeMultiprocessorCount, 63)                                                   \
    X(hipDeviceAttributePageableMemoryAccess, 65)                                                  \
    X(hipDeviceAttributeMaxSharedMemoryPerBlock, 74)                                               \
    X(hipDeviceAttributeVirtualMemoryManagementSupported, 89)                                      \
    X(hipMemAllocationTypeUncached, 0x40000000)                                                    \
    X(hipDeviceMallocUncached, 3)                                                                  \
    X(hipHostMallocCoherent, 0x40000000)                                                           \
    X(hipMemcpyDefault, 4)

/* X(name, name in CUDA): constants with the value of CUDA. */
#define HIP_SAME_CONSTANTS(X)                                                                      \
    X(hipSuccess, CUDA_SUCCESS)                                                                    \
    X(hipErrorInvalidValue, CUDA_ERROR_INVALID_VALUE)                                              \
    X(hipErrorOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY)                                               \
    X(hipErrorNotInitialized, CUDA_ERROR_NOT_INITIALIZED)                                          \
    X(hipErrorDeinitialized, CUDA_ERROR_DEINITIALIZED)                                             \
    X(hipErrorNoDevice, CUDA_ERROR_NO_DEVICE)                                                      \
    X(hipErrorInvalidDevice, CUDA_ERROR_INVALID_DEVICE)                                            \
    X(hipErrorInvalidContext, CUDA_ERROR_INVALID_CONTEXT)                                          \
    X(hipErrorNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU)                                        \
    X(hipErrorPeerAccessUnsupported, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED)                           \
    X(hipErrorNotFound, CUDA_ERROR_NOT_FOUND)                                                      \
    X(hipErrorNotReady, CUDA_ERROR_NOT_READY)                                                      \
    X(hipErrorIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS)                                          \
    X(hipErrorLaunchTimeOut, CUDA_ERROR_LAUNCH_TIMEOUT)                                            \
    X(hipErrorPeerAccessAlreadyEnabled, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)                    \
    X(hipErrorAssert, CUDA_ERROR_ASSERT)                                                           \
    X(hipErrorHostMemoryAlreadyRegistered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)              \
    X(hipErrorLaunchFailure, CUDA_ERROR_LAUNCH_FAILED)                                             \
    X(hipErrorNotSupported, CUDA_ERROR_NOT_SUPPORTED)                                              \
    X(hipErrorUnknown, CUDA_ERROR_UNKNOWN)                                                         \
    X(hipComputeModeProhibited, CU_COMPUTEMODE_PROHIBITED)                                         \
    X(hipComputeModeExclusiveProcess, CU_COMPUTEMODE_EXCLUSIVE_PROCESS)                            \
    X(hipMemRangeHandleTypeDmaBufFd, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD)                          \
    X(hipMemLocationTypeDevice, CU_MEM_LOCATION_TYPE_DEVICE)                                       \
    X(hipMemHandleTypePosixFileDescriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)               \
    X(hipMemAccessFlagsProtReadWrite, CU_MEM_ACCESS_FLAGS_PROT_READWRITE)                          \
    X(hipMemAllocationGranularityMinimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM)                        \
    X(hipMemAllocationGranularityRecommended, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)                \
    X(hipMemoryTypeHost, CU_MEMORYTYPE_HOST)                                                       \
    X(hipMemoryTypeDevice, CU_MEMORYTYPE_DEVICE)                                                   \
    X(HIP_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE)                         \
    X(HIP_POINTER_ATTRIBUTE_BUFFER_ID, CU_POINTER_ATTRIBUTE_BUFFER_ID)                             \
    X(HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)                   \
    X(HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)               \
    X(HIP_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_RANGE_SIZE)                           \
    X(hipStreamNonBlocking, CU_STREAM_NON_BLOCKING)                                                \
    X(hipStreamCaptureStatusNone, CU_STREAM_CAPTURE_STATUS_NONE)                                   \
    X(hipStreamCaptureStatusActive, CU_STREAM_CAPTURE_STATUS_ACTIVE)                               \
    X(hipStreamCaptureModeThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)                        \
    X(hipStreamCaptureModeRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED)                                 \
    X(hipStreamMemOpWriteValue32, CU_STREAM_MEM_OP_WRITE_VALUE_32)                                 \
    X(hipStreamMemOpWriteValue64, CU_STREAM_MEM_OP_WRITE_VALUE_64)                                 \
    X(hipFuncAttributeMaxDynamicSharedMemorySize, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) \
    X(hipEventDisableTiming, CU_EVENT_DISABLE_TIMING)                                              \
    X(hipHostMallocPortable, CU_MEMHOSTALLOC_PORTABLE)                                             \
    X(hipHostMallocMapped, CU_MEMHOSTALLOC_DEVICEMAP)                                              \
    X(hipHostRegisterPortable, CU_MEMHOSTREGISTER_PORTABLE)                                        \
    X(hipHostRegisterMapped, CU_MEMHOSTREGISTER_DEVICEMAP)                                         \
    X(hipHostRegisterIoMemory, CU_MEMHOSTREGISTER_IOMEMORY)

enum hip_constant {
#define HIP_CONSTANT(name, value) name = value,
    HIP_CONSTANTS(HIP_CONSTANT)
#undef HIP_CONSTANT
        HIP_LINK_XGMI = 4, /* HSA_AMD_LINK_INFO_TYPE_XGMI of hipExtGetLinkTypeAndHopCount() */
};

/* The head of hipDeviceProp_tR0600. */
enum { HIP_PROPERTIES_BYTES = 1472, HIP_PROPERTIES_ARCHITECTURE_AT = 1160 };

/* Loads and initializes libamdhip64.so. */
weft_status hip_open(struct gpu_api *driver);

/* The current device of this thread as a context if the program has loaded libamdhip64.so and
 * chosen another device than 0, else NULL. */
CUcontext hip_current_if_loaded(void);

/* Puts HIP's names of functions and constants in place of CUDA's. */
void hip_translate(char *text, size_t bytes);

#endif
