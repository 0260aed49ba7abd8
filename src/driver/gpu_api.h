/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of a GPU driver as one table, loaded when it is first needed. Names, types and
 * values are those of the CUDA driver API, which hip.c translates for GPUs of AMD. The declarations
 * are our own and contain only what is used, so the build needs no CUDA header (do not include
 * together with <cuda.h>). tests/unit/test_cuda_abi.c compares them with <cuda.h> where that is
 * installed. */
#ifndef WEFT_DRIVER_GPU_API_H
#define WEFT_DRIVER_GPU_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUlib_st *CUlibrary;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;

typedef struct CUuuid_st {
    char bytes[16];
} CUuuid;

typedef struct CUmemLocation_st {
    int type;
    int id;
} CUmemLocation;

typedef struct CUmemAllocationProp_st {
    int type;
    int requestedHandleTypes;
    CUmemLocation location;
    void *win32HandleMetaData;
    struct {
        unsigned char compressionType;
        unsigned char gpuDirectRDMACapable;
        unsigned short usage;
        unsigned char reserved[4];
    } allocFlags;
} CUmemAllocationProp;

typedef struct CUmemAccessDesc_st {
    CUmemLocation location;
    int flags;
} CUmemAccessDesc;

typedef struct CUipcMemHandle_st {
    char reserved[64];
} CUipcMemHandle;

/* Only the write operations of the driver's union. */
/* One attribute of a launch; only the one that is used here. */
typedef struct CUlaunchAttribute_st {
    int id;
    int pad;
    int programmatic_stream_serialization;
    int unused[15];
} CUlaunchAttribute;

typedef struct CUlaunchConfig_st {
    unsigned grid[3], block[3], shared_bytes;
    CUstream stream;
    CUlaunchAttribute *attributes;
    unsigned attribute_count;
} CUlaunchConfig;

typedef union CUstreamBatchMemOpParams_union {
    int operation;
    struct CUstreamMemOpWriteValueParams_st {
        int operation;
        CUdeviceptr address;
        union {
            uint32_t value;
            uint64_t value64;
        };
        unsigned flags;
        CUdeviceptr alias; /* the driver's */
    } writeValue;
    uint64_t pad[6];
} CUstreamBatchMemOpParams;

/* X(name, value): every constant of the driver API that is used. */
#define CUDA_CONSTANTS(X)                                                                          \
    X(CUDA_SUCCESS, 0)                                                                             \
    X(CUDA_ERROR_INVALID_VALUE, 1)                                                                 \
    X(CUDA_ERROR_OUT_OF_MEMORY, 2)                                                                 \
    X(CUDA_ERROR_NOT_INITIALIZED, 3)                                                               \
    X(CUDA_ERROR_DEINITIALIZED, 4)                                                                 \
    X(CUDA_ERROR_DEVICE_UNAVAILABLE, 46)                                                           \
    X(CUDA_ERROR_NO_DEVICE, 100)                                                                   \
    X(CUDA_ERROR_INVALID_DEVICE, 101)                                                              \
    X(CUDA_ERROR_INVALID_CONTEXT, 201)                                                             \
    X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209)                                                           \
    X(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, 217)                                                     \
    X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222)                                                     \
    X(CUDA_ERROR_OPERATING_SYSTEM, 304)                                                            \
    X(CUDA_ERROR_NOT_FOUND, 500)                                                                   \
    X(CUDA_ERROR_NOT_READY, 600)                                                                   \
    X(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, 704)                                                 \
    X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712)                                              \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, 700)                                                             \
    X(CUDA_ERROR_LAUNCH_TIMEOUT, 702)                                                              \
    X(CUDA_ERROR_ASSERT, 710)                                                                      \
    X(CUDA_ERROR_HARDWARE_STACK_ERROR, 714)                                                        \
    X(CUDA_ERROR_ILLEGAL_INSTRUCTION, 715)                                                         \
    X(CUDA_ERROR_MISALIGNED_ADDRESS, 716)                                                          \
    X(CUDA_ERROR_INVALID_ADDRESS_SPACE, 717)                                                       \
    X(CUDA_ERROR_INVALID_PC, 718)                                                                  \
    X(CUDA_ERROR_LAUNCH_FAILED, 719)                                                               \
    X(CUDA_ERROR_NOT_SUPPORTED, 801)                                                               \
    X(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803)                                                      \
    X(CUDA_ERROR_UNKNOWN, 999)                                                                     \
    X(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)                                                \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 20)                                                        \
    X(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 40)                                                  \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)                                            \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)                                            \
    X(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 88)                                              \
    X(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 102)                                \
    X(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 103)                        \
    X(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 110)                            \
    X(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, 116)                                          \
    X(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, 117)                               \
    X(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, 118)                                    \
    X(CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER, 100)                                               \
    X(CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES, 200)                                         \
    X(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST, 1)                                              \
    X(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX, 0)                                       \
    X(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES, 200)                                         \
    X(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 124)                                                  \
    X(CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 132)                                                \
    X(CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, 1)                                                 \
    X(CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, 3)                                          \
    X(CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 1)                                                      \
    X(CU_COMPUTEMODE_PROHIBITED, 2)                                                                \
    X(CU_COMPUTEMODE_EXCLUSIVE_PROCESS, 3)                                                         \
    X(CU_MEM_ALLOCATION_TYPE_PINNED, 1)                                                            \
    X(CU_MEM_LOCATION_TYPE_DEVICE, 1)                                                              \
    X(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1)                                                 \
    X(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 3)                                                       \
    X(CU_MEM_ALLOC_GRANULARITY_MINIMUM, 0)                                                         \
    X(CU_MEM_ALLOC_GRANULARITY_RECOMMENDED, 1)                                                     \
    X(CU_MEMORYTYPE_HOST, 1)                                                                       \
    X(CU_MEMORYTYPE_DEVICE, 2)                                                                     \
    X(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)                                                         \
    X(CU_POINTER_ATTRIBUTE_BUFFER_ID, 7)                                                           \
    X(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9)                                                      \
    X(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, 11)                                                   \
    X(CU_POINTER_ATTRIBUTE_RANGE_SIZE, 12)                                                         \
    X(CU_STREAM_NON_BLOCKING, 1)                                                                   \
    X(CU_STREAM_CAPTURE_STATUS_NONE, 0)                                                            \
    X(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1)                                                      \
    X(CU_STREAM_CAPTURE_MODE_RELAXED, 2)                                                           \
    X(CU_STREAM_CAPTURE_STATUS_ACTIVE, 1)                                                          \
    X(CU_STREAM_WRITE_VALUE_DEFAULT, 0)                                                            \
    X(CU_STREAM_MEM_OP_WRITE_VALUE_32, 2)                                                          \
    X(CU_STREAM_MEM_OP_WRITE_VALUE_64, 5)                                                          \
    X(CU_JIT_SPLIT_COMPILE, 34)                                                                    \
    X(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8)                                          \
    X(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 6)                                    \
    X(CU_EVENT_DISABLE_TIMING, 2)                                                                  \
    X(CU_MEMHOSTALLOC_PORTABLE, 1)                                                                 \
    X(CU_MEMHOSTALLOC_DEVICEMAP, 2)                                                                \
    X(CU_MEMHOSTREGISTER_PORTABLE, 1)                                                              \
    X(CU_MEMHOSTREGISTER_DEVICEMAP, 2)                                                             \
    X(CU_MEMHOSTREGISTER_IOMEMORY, 4)

enum cuda_constant {
#define CUDA_CONSTANT(name, value) name = value,
    CUDA_CONSTANTS(CUDA_CONSTANT)
#undef CUDA_CONSTANT
};

/* X(field, names in libcuda in the order in which they are tried, optional, parameters, arguments)
 */
#define GPU_FUNCTIONS(X)                                                                           \
    X(Init, ("cuInit"), 0, (unsigned flags), (flags))                                              \
    X(DriverGetVersion, ("cuDriverGetVersion"), 0, (int *version), (version))                      \
    X(DeviceGetCount, ("cuDeviceGetCount"), 0, (int *count), (count))                              \
    X(DeviceGet, ("cuDeviceGet"), 0, (CUdevice * device, int ordinal), (device, ordinal))          \
    X(DeviceGetName, ("cuDeviceGetName"), 0, (char *name, int bytes, CUdevice device),             \
      (name, bytes, device))                                                                       \
    X(DeviceGetUuid, ("cuDeviceGetUuid_v2", "cuDeviceGetUuid"), 0,                                 \
      (CUuuid * uuid, CUdevice device), (uuid, device))                                            \
    X(DeviceGetAttribute, ("cuDeviceGetAttribute"), 0,                                             \
      (int *value, int attribute, CUdevice device), (value, attribute, device))                    \
    X(DeviceTotalMem, ("cuDeviceTotalMem_v2"), 0, (size_t * bytes, CUdevice device),               \
      (bytes, device))                                                                             \
    X(DeviceGetPCIBusId, ("cuDeviceGetPCIBusId"), 0, (char *text, int bytes, CUdevice device),     \
      (text, bytes, device))                                                                       \
    X(DeviceCanAccessPeer, ("cuDeviceCanAccessPeer"), 0,                                           \
      (int *can, CUdevice device, CUdevice peer), (can, device, peer))                             \
    X(DeviceGetP2PAttribute, ("cuDeviceGetP2PAttribute"), 0,                                       \
      (int *value, int attribute, CUdevice device, CUdevice peer),                                 \
      (value, attribute, device, peer))                                                            \
    X(DevicePrimaryCtxRetain, ("cuDevicePrimaryCtxRetain"), 0,                                     \
      (CUcontext * context, CUdevice device), (context, device))                                   \
    X(DevicePrimaryCtxRelease, ("cuDevicePrimaryCtxRelease_v2"), 0, (CUdevice device), (device))   \
    X(CtxGetCurrent, ("cuCtxGetCurrent"), 0, (CUcontext * context), (context))                     \
    X(CtxPushCurrent, ("cuCtxPushCurrent_v2"), 0, (CUcontext context), (context))                  \
    X(CtxSetCurrent, ("cuCtxSetCurrent"), 0, (CUcontext context), (context))                       \
    X(CtxPopCurrent, ("cuCtxPopCurrent_v2"), 0, (CUcontext * context), (context))                  \
    X(CtxGetDevice, ("cuCtxGetDevice"), 0, (CUdevice * device), (device))                          \
    X(CtxEnablePeerAccess, ("cuCtxEnablePeerAccess"), 0, (CUcontext peer, unsigned flags),         \
      (peer, flags))                                                                               \
    X(CtxDisablePeerAccess, ("cuCtxDisablePeerAccess"), 0, (CUcontext peer), (peer))               \
    X(MemGetInfo, ("cuMemGetInfo_v2"), 0, (size_t * free_bytes, size_t * total_bytes),             \
      (free_bytes, total_bytes))                                                                   \
    X(MemGetAllocationGranularity, ("cuMemGetAllocationGranularity"), 0,                           \
      (size_t * bytes, const CUmemAllocationProp *properties, int option),                         \
      (bytes, properties, option))                                                                 \
    X(MemAddressReserve, ("cuMemAddressReserve"), 0,                                               \
      (CUdeviceptr * address, size_t bytes, size_t alignment, CUdeviceptr wish,                    \
       unsigned long long flags),                                                                  \
      (address, bytes, alignment, wish, flags))                                                    \
    X(MemAddressFree, ("cuMemAddressFree"), 0, (CUdeviceptr address, size_t bytes),                \
      (address, bytes))                                                                            \
    X(MemCreate, ("cuMemCreate"), 0,                                                               \
      (CUmemGenericAllocationHandle * handle, size_t bytes, const CUmemAllocationProp *properties, \
       unsigned long long flags),                                                                  \
      (handle, bytes, properties, flags))                                                          \
    X(MemRelease, ("cuMemRelease"), 0, (CUmemGenericAllocationHandle handle), (handle))            \
    X(MemMap, ("cuMemMap"), 0,                                                                     \
      (CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,      \
       unsigned long long flags),                                                                  \
      (address, bytes, offset, handle, flags))                                                     \
    X(MemUnmap, ("cuMemUnmap"), 0, (CUdeviceptr address, size_t bytes), (address, bytes))          \
    X(MemSetAccess, ("cuMemSetAccess"), 0,                                                         \
      (CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count),            \
      (address, bytes, access, count))                                                             \
    X(MemExportToShareableHandle, ("cuMemExportToShareableHandle"), 0,                             \
      (void *shareable, CUmemGenericAllocationHandle handle, int type, unsigned long long flags),  \
      (shareable, handle, type, flags))                                                            \
    X(MemImportFromShareableHandle, ("cuMemImportFromShareableHandle"), 0,                         \
      (CUmemGenericAllocationHandle * handle, void *shareable, int type),                          \
      (handle, shareable, type))                                                                   \
    X(MemRetainAllocationHandle, ("cuMemRetainAllocationHandle"), 0,                               \
      (CUmemGenericAllocationHandle * handle, void *address), (handle, address))                   \
    X(MemGetAllocationPropertiesFromHandle, ("cuMemGetAllocationPropertiesFromHandle"), 0,         \
      (CUmemAllocationProp * properties, CUmemGenericAllocationHandle handle),                     \
      (properties, handle))                                                                        \
    X(MemHostAlloc, ("cuMemHostAlloc"), 0, (void **address, size_t bytes, unsigned flags),         \
      (address, bytes, flags))                                                                     \
    X(MemFreeHost, ("cuMemFreeHost"), 0, (void *address), (address))                               \
    X(MemHostGetDevicePointer, ("cuMemHostGetDevicePointer_v2"), 0,                                \
      (CUdeviceptr * device, void *address, unsigned flags), (device, address, flags))             \
    X(MemHostRegister, ("cuMemHostRegister_v2"), 0, (void *address, size_t bytes, unsigned flags), \
      (address, bytes, flags))                                                                     \
    X(MemHostUnregister, ("cuMemHostUnregister"), 0, (void *address), (address))                   \
    X(MemAlloc, ("cuMemAlloc_v2"), 0, (CUdeviceptr * address, size_t bytes), (address, bytes))     \
    X(MemFree, ("cuMemFree_v2"), 0, (CUdeviceptr address), (address))                              \
    X(IpcGetMemHandle, ("cuIpcGetMemHandle"), 1, (CUipcMemHandle * handle, CUdeviceptr address),   \
      (handle, address))                                                                           \
    X(MemcpyAsync, ("cuMemcpyAsync"), 0,                                                           \
      (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),                           \
      (to, from, bytes, stream))                                                                   \
    X(MemcpyHtoD, ("cuMemcpyHtoD_v2"), 1, (CUdeviceptr to, const void *from, size_t bytes),        \
      (to, from, bytes))                                                                           \
    X(MemcpyDtoH, ("cuMemcpyDtoH_v2"), 1, (void *to, CUdeviceptr from, size_t bytes),              \
      (to, from, bytes))                                                                           \
    X(MemsetD8Async, ("cuMemsetD8Async"), 0,                                                       \
      (CUdeviceptr address, unsigned char value, size_t bytes, CUstream stream),                   \
      (address, value, bytes, stream))                                                             \
    X(MemGetHandleForAddressRange, ("cuMemGetHandleForAddressRange"), 1,                           \
      (void *handle, CUdeviceptr address, size_t bytes, int type, unsigned long long flags),       \
      (handle, address, bytes, type, flags))                                                       \
    X(FlushGPUDirectRDMAWrites, ("cuFlushGPUDirectRDMAWrites"), 1, (int target, int scope),        \
      (target, scope))                                                                             \
    X(PointerGetAttribute, ("cuPointerGetAttribute"), 0,                                           \
      (void *value, int attribute, CUdeviceptr address), (value, attribute, address))              \
    X(StreamCreate, ("cuStreamCreate"), 0, (CUstream * stream, unsigned flags), (stream, flags))   \
    X(StreamDestroy, ("cuStreamDestroy_v2"), 0, (CUstream stream), (stream))                       \
    X(StreamSynchronize, ("cuStreamSynchronize"), 0, (CUstream stream), (stream))                  \
    X(StreamQuery, ("cuStreamQuery"), 0, (CUstream stream), (stream))                              \
    X(StreamWaitEvent, ("cuStreamWaitEvent"), 0, (CUstream stream, CUevent event, unsigned flags), \
      (stream, event, flags))                                                                      \
    X(StreamGetCtx, ("cuStreamGetCtx"), 1, (CUstream stream, CUcontext * context),                 \
      (stream, context))                                                                           \
    X(StreamIsCapturing, ("cuStreamIsCapturing"), 0, (CUstream stream, int *status),               \
      (stream, status))                                                                            \
    X(StreamGetCaptureInfo, ("cuStreamGetCaptureInfo_v2"), 1,                                      \
      (CUstream stream, int *status, uint64_t *id, void *graph, void *nodes, size_t *node_count),  \
      (stream, status, id, graph, nodes, node_count))                                              \
    X(ThreadExchangeStreamCaptureMode, ("cuThreadExchangeStreamCaptureMode"), 1, (int *mode),      \
      (mode))                                                                                      \
    X(StreamBeginCapture, ("cuStreamBeginCapture_v2"), 1, (CUstream stream, int mode),             \
      (stream, mode))                                                                              \
    X(StreamEndCapture, ("cuStreamEndCapture"), 1, (CUstream stream, CUgraph * graph),             \
      (stream, graph))                                                                             \
    X(GraphInstantiate, ("cuGraphInstantiateWithFlags"), 1,                                        \
      (CUgraphExec * made, CUgraph graph, unsigned long long flags), (made, graph, flags))         \
    X(GraphLaunch, ("cuGraphLaunch"), 1, (CUgraphExec made, CUstream stream), (made, stream))      \
    X(GraphExecDestroy, ("cuGraphExecDestroy"), 1, (CUgraphExec made), (made))                     \
    X(GraphDestroy, ("cuGraphDestroy"), 1, (CUgraph graph), (graph))                               \
    X(StreamWriteValue64, ("cuStreamWriteValue64_v2", "cuStreamWriteValue64"), 1,                  \
      (CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags),                      \
      (stream, address, value, flags))                                                             \
    X(StreamWriteValue32, ("cuStreamWriteValue32_v2", "cuStreamWriteValue32"), 1,                  \
      (CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags),                      \
      (stream, address, value, flags))                                                             \
    X(StreamBatchMemOp, ("cuStreamBatchMemOp_v2", "cuStreamBatchMemOp"), 1,                        \
      (CUstream stream, unsigned count, CUstreamBatchMemOpParams *list, unsigned flags),           \
      (stream, count, list, flags))                                                                \
    X(LaunchHostFunc, ("cuLaunchHostFunc"), 0,                                                     \
      (CUstream stream, void (*function)(void *), void *argument), (stream, function, argument))   \
    X(EventCreate, ("cuEventCreate"), 0, (CUevent * event, unsigned flags), (event, flags))        \
    X(EventDestroy, ("cuEventDestroy_v2"), 0, (CUevent event), (event))                            \
    X(EventRecord, ("cuEventRecord"), 0, (CUevent event, CUstream stream), (event, stream))        \
    X(EventQuery, ("cuEventQuery"), 0, (CUevent event), (event))                                   \
    X(EventSynchronize, ("cuEventSynchronize"), 0, (CUevent event), (event))                       \
    X(EventElapsedTime, ("cuEventElapsedTime"), 0, (float *ms, CUevent begun, CUevent ended),      \
      (ms, begun, ended))                                                                          \
    X(ModuleLoadData, ("cuModuleLoadData"), 0, (CUmodule * module, const void *image),             \
      (module, image))                                                                             \
    X(ModuleLoadDataEx, ("cuModuleLoadDataEx"), 1,                                                 \
      (CUmodule * module, const void *image, unsigned count, int *options, void **values),         \
      (module, image, count, options, values))                                                     \
    X(ModuleUnload, ("cuModuleUnload"), 0, (CUmodule module), (module))                            \
    X(ModuleGetFunction, ("cuModuleGetFunction"), 0,                                               \
      (CUfunction * function, CUmodule module, const char *name), (function, module, name))        \
    X(ModuleGetFunctionCount, ("cuModuleGetFunctionCount"), 1, (unsigned *count, CUmodule module), \
      (count, module))                                                                             \
    X(ModuleEnumerateFunctions, ("cuModuleEnumerateFunctions"), 1,                                 \
      (CUfunction * functions, unsigned count, CUmodule module), (functions, count, module))       \
    X(FuncLoad, ("cuFuncLoad"), 1, (CUfunction function), (function))                              \
    X(FuncSetAttribute, ("cuFuncSetAttribute"), 0,                                                 \
      (CUfunction function, int attribute, int value), (function, attribute, value))               \
    X(OccupancyMaxActiveBlocksPerMultiprocessor, ("cuOccupancyMaxActiveBlocksPerMultiprocessor"),  \
      0, (int *blocks, CUfunction function, int threads, size_t shared_bytes),                     \
      (blocks, function, threads, shared_bytes))                                                   \
    X(ModuleGetGlobal, ("cuModuleGetGlobal_v2"), 0,                                                \
      (CUdeviceptr * address, size_t * bytes, CUmodule module, const char *name),                  \
      (address, bytes, module, name))                                                              \
    X(LibraryGetModule, ("cuLibraryGetModule"), 1, (CUmodule * module, CUlibrary library),         \
      (module, library))                                                                           \
    X(LaunchKernel, ("cuLaunchKernel"), 0,                                                         \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,   \
       unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream,                 \
       void **parameters, void **extra),                                                           \
      (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,          \
       parameters, extra))                                                                         \
    X(LaunchKernelEx, ("cuLaunchKernelEx"), 1,                                                     \
      (const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra),        \
      (config, function, parameters, extra))                                                       \
    X(LaunchCooperativeKernel, ("cuLaunchCooperativeKernel"), 0,                                   \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,   \
       unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream,                 \
       void **parameters),                                                                         \
      (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,          \
       parameters))

enum gpu_vendor {
    GPU_VENDOR_NVIDIA, /* libcuda.so.1 (cuda.c) */
    GPU_VENDOR_AMD,    /* libamdhip64.so (hip.c) */
};

struct gpu_api {
#define GPU_FIELD(field, names, optional, parameters, arguments) CUresult(*field) parameters;
    GPU_FUNCTIONS(GPU_FIELD)
#undef GPU_FIELD
    /* Not in GPU_FUNCTIONS, so no fault is injected: they only make messages. */
    CUresult (*GetErrorName)(CUresult result, const char **name);
    CUresult (*GetErrorString)(CUresult result, const char **text);
    /* AMD only, else NULL: the architecture of a device, such as "gfx942:sramecc+:xnack-". */
    CUresult (*DeviceGetArchitecture)(char *text, size_t bytes, CUdevice device);
    void *handle;
    enum gpu_vendor vendor;
    int driver_version; /* 13000 = CUDA 13.0, 70200000 = HIP 7.2 */
};

/* Loads and initializes libcuda.so.1 or, where that has no GPU, libamdhip64.so.
 * WEFT_ERR_UNSUPPORTED: neither can be used; the message says why: no library, too old, no device,
 * or driver and kernel module of different versions. */
weft_status gpu_api_open(struct gpu_api *driver);
weft_status gpu_api_open_vendor(struct gpu_api *driver, enum gpu_vendor vendor); /* only this one */
void gpu_api_close(struct gpu_api *driver);

/* Makes gpu_api_open() in this process try this vendor's library first. */
void gpu_api_prefer(enum gpu_vendor vendor);

/* The current context of this thread if the program itself has loaded CUDA, else NULL. Does not
 * load the driver. */
CUcontext gpu_api_current_if_loaded(void);

/* The same for HIP, which has no contexts: the device that this thread chose, unless it is 0, with
 * which each thread begins. HIP is preferred from then on. Initializes HIP if it is loaded, so a
 * job without a GPU must not call this. */
CUcontext gpu_api_chosen_if_loaded(void);

/* Prints an error into `text`, such as "CUDA_ERROR_OUT_OF_MEMORY (2, out of memory)", and returns
 * `text`. */
const char *gpu_api_error_text(const struct gpu_api *driver, CUresult result, char *text,
                               size_t bytes);

/* Messages are written in the words of CUDA. This puts those of the vendor in their place:
 * "cuStreamCreate" becomes "hipStreamCreateWithFlags". */
void gpu_api_translate(const struct gpu_api *driver, char *text, size_t bytes);

/* Sets the last error to "<what>: CUDA_ERROR_... (...)", translated, and returns the matching
 * status. */
weft_status gpu_api_fail(const struct gpu_api *driver, CUresult result, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));

/* base_fail() with a translated message. */
weft_status gpu_api_refuse(const struct gpu_api *driver, weft_status status, const char *format,
                           ...) __attribute__((format(printf, 3, 4), cold));

/* -------------------------------------------------------------------------- tests of faults */

/* Makes the k-th call (1 = the next) of the function `field` ("MemCreate") return `result` without
 * calling the driver, in every table that is opened from now on; k = 0 only counts calls. There is
 * one plan at a time; a new plan restarts the count. NULL: no faults in tables opened from now on.
 * False when there is no such function. */
bool gpu_api_fault_plan(const char *field, unsigned k, CUresult result);

/* For what fills a table: puts the planned fault into it. */
void gpu_api_install_faults(struct gpu_api *driver);

/* Number of calls of the planned function since the plan was made. */
unsigned gpu_api_fault_uses(void);

/* Names of the functions that can be planned, NULL at the end. */
extern const char *const gpu_api_function_names[];

#endif
