/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in of libamdhip64.so for tests on machines without a GPU: HIP's names over the stand-in
 * of the CUDA driver, which has the memory, the streams and their orders, and its FAKE_CUDA_
 * variables. FAKE_GPU=amd selects it. Where HIP differs from CUDA it is as strict as HIP:
 *   - each thread has a current device and no context; memory is created on the current device,
 *     whatever the properties say, so another one there is refused;
 *   - memory is coarse-grained unless asked otherwise: a kernel of another GPU, or a store of a
 *     stream of another GPU, may not touch it, since neither would be seen while kernels run;
 *   - access is granted to whole mappings, and a size that is no multiple of the granularity is
 *     refused;
 *   - attributes have numbers of their own, and others are errors;
 *   - code objects must be for the architecture, and PTX is none;
 *   - the last error of a thread stays until it is read.
 * The constants are written here once more, so that a wrong one in the library fails.
 *
 * Environment:
 *   FAKE_HIP_ARCH      (gfx942:sramecc+:xnack-)
 *   FAKE_HIP_VERSION   (70226015)
 *   FAKE_HIP_UUID      0: GPUs without a serial number */
#include "fake.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    INVALID_VALUE = 1,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    NO_BINARY = 209,
    INVALID_HANDLE = 400,
    PROPERTIES_BYTES = 1472,
    ARCHITECTURE_AT = 1160,
    XGMI = 4,
    PCIE = 2,
    UNCACHED = 3,       /* hipExtMallocWithFlags() */
    COHERENT = 1 << 30, /* hipHostMalloc() */
    TYPE_PINNED = 1,    /* hipMemCreate(): coarse-grained */
    TYPE_UNCACHED = 1 << 30,
    COPY_DEFAULT = 4,
    MACHINE_AMDGPU = 224, /* EM_AMDGPU */
};

static _Thread_local int last;
static bool initialized;

/* What every call returns passes through here. */
static int returned(int result)
{
    if (result)
        last = result;
    return result;
}

/* A thread begins with device 0. */
static void begin(void)
{
    if (fake_current_device() < 0)
        fake_set_device(0);
}

/* X(HIP's name, CUDA's, parameters, arguments): calls that differ in their name only. */
#define SAME(hip, cuda, parameters, arguments)                                                     \
    CUresult cuda parameters;                                                                      \
    EXPORT int hip parameters;                                                                     \
    EXPORT int hip parameters                                                                      \
    {                                                                                              \
        begin();                                                                                   \
        return returned(initialized ? cuda arguments : NOT_INITIALIZED);                           \
    }

/* ------------------------------------------------------------------------------ errors */

EXPORT int hipGetLastError(void);
EXPORT int hipGetLastError(void)
{
    int result = last;
    last = 0;
    return result;
}

static const struct {
    int value;
    const char *name;
} errors[] = {
    {0, "hipSuccess"},
    {1, "hipErrorInvalidValue"},
    {2, "hipErrorOutOfMemory"},
    {3, "hipErrorNotInitialized"},
    {100, "hipErrorNoDevice"},
    {101, "hipErrorInvalidDevice"},
    {201, "hipErrorInvalidContext"},
    {209, "hipErrorNoBinaryForGpu"},
    {217, "hipErrorPeerAccessUnsupported"},
    {304, "hipErrorOperatingSystem"},
    {400, "hipErrorInvalidHandle"},
    {500, "hipErrorNotFound"},
    {600, "hipErrorNotReady"},
    {700, "hipErrorIllegalAddress"},
    {704, "hipErrorPeerAccessAlreadyEnabled"},
    {712, "hipErrorHostMemoryAlreadyRegistered"},
    {719, "hipErrorLaunchFailure"},
    {720, "hipErrorCooperativeLaunchTooLarge"},
    {801, "hipErrorNotSupported"},
    {904, "hipErrorStreamCaptureUnjoined"},
    {905, "hipErrorStreamCaptureIsolation"},
    {999, "hipErrorUnknown"},
};

EXPORT int hipDrvGetErrorName(int error, const char **name);
EXPORT int hipDrvGetErrorName(int error, const char **name)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].value == error) {
            *name = errors[i].name;
            return 0;
        }
    return INVALID_VALUE;
}

EXPORT int hipDrvGetErrorString(int error, const char **text);
EXPORT int hipDrvGetErrorString(int error, const char **text)
{
    *text = error == 2 ? "out of memory" : "from the stand-in";
    return 0;
}

/* ------------------------------------------------------------------------------ devices */

CUresult cuDeviceGetCount(int *count);

static int count_devices(void)
{
    int count = 0;
    cuDeviceGetCount(&count);
    return fake_is_amd() ? count : 0;
}

static bool is_device(int device)
{
    return device >= 0 && device < count_devices();
}

EXPORT int hipInit(unsigned flags);
EXPORT int hipInit(unsigned flags)
{
    int refusal = setting("FAKE_CUDA_INIT", 0);
    if (flags)
        return returned(INVALID_VALUE);
    if (!count_devices())
        return returned(NO_DEVICE);
    initialized = !refusal;
    return returned(refusal);
}

EXPORT int hipRuntimeGetVersion(int *version);
EXPORT int hipRuntimeGetVersion(int *version)
{
    *version = setting("FAKE_HIP_VERSION", 70226015);
    return 0;
}

EXPORT int hipGetDeviceCount(int *count);
EXPORT int hipGetDeviceCount(int *count)
{
    *count = count_devices();
    return returned(*count ? 0 : NO_DEVICE);
}

EXPORT int hipSetDevice(int device);
EXPORT int hipSetDevice(int device)
{
    if (!is_device(device))
        return returned(INVALID_DEVICE);
    fake_set_device(device);
    return 0;
}

EXPORT int hipGetDevice(int *device);
EXPORT int hipGetDevice(int *device)
{
    begin();
    *device = fake_current_device();
    return returned(count_devices() ? 0 : NO_DEVICE);
}

SAME(hipDeviceGet, cuDeviceGet, (int *device, int ordinal), (device, ordinal))
SAME(hipDeviceGetName, cuDeviceGetName, (char *name, int bytes, int device), (name, bytes, device))
SAME(hipDeviceTotalMem, cuDeviceTotalMem_v2, (size_t * bytes, int device), (bytes, device))
SAME(hipDeviceGetPCIBusId, cuDeviceGetPCIBusId, (char *text, int bytes, int device),
     (text, bytes, device))
SAME(hipDeviceCanAccessPeer, cuDeviceCanAccessPeer, (int *can, int device, int peer),
     (can, device, peer))

EXPORT int hipDeviceGetAttribute(int *value, int attribute, int device);
EXPORT int hipDeviceGetAttribute(int *value, int attribute, int device)
{
    if (!is_device(device))
        return returned(INVALID_DEVICE);
    switch (attribute) {
    case 2: /* hipDeviceAttributeAsyncEngineCount */
        *value = 2;
        break;
    case 6: /* hipDeviceAttributeComputeMode */
        *value = setting("FAKE_CUDA_MODE", 0);
        break;
    case 23: /* hipDeviceAttributeComputeCapabilityMajor */
        *value = 9;
        break;
    case 61: /* hipDeviceAttributeComputeCapabilityMinor */
        *value = 4;
        break;
    case 63: /* hipDeviceAttributeMultiprocessorCount */
        *value = 1;
        break;
    case 65: /* hipDeviceAttributePageableMemoryAccess */
        *value = setting("FAKE_CUDA_PAGEABLE", 1);
        break;
    case 74: /* hipDeviceAttributeMaxSharedMemoryPerBlock */
        *value = 65536;
        break;
    case 89: /* hipDeviceAttributeVirtualMemoryManagementSupported */
        *value = setting("FAKE_CUDA_VMM", 1);
        break;
    default:
        return returned(INVALID_VALUE);
    }
    return 0;
}

EXPORT int hipDeviceGetUuid(CUuuid *uuid, int device);
EXPORT int hipDeviceGetUuid(CUuuid *uuid, int device)
{
    char text[24] = "XX";
    if (!is_device(device))
        return returned(INVALID_DEVICE);
    if (setting("FAKE_HIP_UUID", 1))
        snprintf(text, sizeof text, "fa4e0001000000%02x", fake_physical(device) & 0xff);
    memcpy(uuid->bytes, text, sizeof uuid->bytes);
    return 0;
}

static const char *architecture(void)
{
    const char *text = getenv("FAKE_HIP_ARCH");
    return text ? text : "gfx942:sramecc+:xnack-";
}

EXPORT int hipGetDevicePropertiesR0600(char *properties, int device);
EXPORT int hipGetDevicePropertiesR0600(char *properties, int device)
{
    if (!is_device(device))
        return returned(INVALID_DEVICE);
    memset(properties, 0xa5, PROPERTIES_BYTES);
    snprintf(properties, 256, "Stand-in GPU");
    snprintf(properties + ARCHITECTURE_AT, 256, "%s", architecture());
    return 0;
}

EXPORT int hipExtGetLinkTypeAndHopCount(int a, int b, uint32_t *type, uint32_t *hops);
EXPORT int hipExtGetLinkTypeAndHopCount(int a, int b, uint32_t *type, uint32_t *hops)
{
    if (!is_device(a) || !is_device(b) || a == b)
        return returned(INVALID_DEVICE);
    bool direct = fake_nvlink(fake_physical(a), fake_physical(b));
    *type = direct ? XGMI : PCIE;
    *hops = direct ? 1 : 2;
    return 0;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags);
CUresult cuCtxDisablePeerAccess(CUcontext peer);

EXPORT int hipDeviceEnablePeerAccess(int peer, unsigned flags);
EXPORT int hipDeviceEnablePeerAccess(int peer, unsigned flags)
{
    struct object context = {.kind = CONTEXT, .device = peer};
    begin();
    if (!is_device(peer) || flags || peer == fake_current_device())
        return returned(INVALID_DEVICE);
    return returned(cuCtxEnablePeerAccess((CUcontext)&context, 0));
}

EXPORT int hipDeviceDisablePeerAccess(int peer);
EXPORT int hipDeviceDisablePeerAccess(int peer)
{
    struct object context = {.kind = CONTEXT, .device = peer};
    begin();
    return returned(is_device(peer) ? (int)cuCtxDisablePeerAccess((CUcontext)&context)
                                    : INVALID_DEVICE);
}

/* ------------------------------------------------------------------------------ memory */

SAME(hipMemGetInfo, cuMemGetInfo_v2, (size_t * free_bytes, size_t *total_bytes),
     (free_bytes, total_bytes))
SAME(hipMemAddressFree, cuMemAddressFree, (CUdeviceptr address, size_t bytes), (address, bytes))
SAME(hipMemRelease, cuMemRelease, (CUmemGenericAllocationHandle handle), (handle))
SAME(hipMemUnmap, cuMemUnmap, (CUdeviceptr address, size_t bytes), (address, bytes))
SAME(hipMemRetainAllocationHandle, cuMemRetainAllocationHandle,
     (CUmemGenericAllocationHandle * handle, void *address), (handle, address))
SAME(hipMemGetAllocationPropertiesFromHandle, cuMemGetAllocationPropertiesFromHandle,
     (CUmemAllocationProp * properties, CUmemGenericAllocationHandle handle), (properties, handle))
SAME(hipMemGetHandleForAddressRange, cuMemGetHandleForAddressRange,
     (void *handle, CUdeviceptr address, size_t bytes, int type, unsigned long long flags),
     (handle, address, bytes, type, flags))
SAME(hipPointerGetAttribute, cuPointerGetAttribute,
     (void *value, int attribute, CUdeviceptr address), (value, attribute, address))
SAME(hipFree, cuMemFree_v2, (CUdeviceptr address), (address))
SAME(hipHostFree, cuMemFreeHost, (void *address), (address))
SAME(hipHostGetDevicePointer, cuMemHostGetDevicePointer_v2,
     (CUdeviceptr * device, void *address, unsigned flags), (device, address, flags))
SAME(hipHostUnregister, cuMemHostUnregister, (void *address), (address))
SAME(hipMemcpyHtoD, cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t bytes),
     (to, from, bytes))
SAME(hipMemcpyDtoH, cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes), (to, from, bytes))
SAME(hipMemsetD8Async, cuMemsetD8Async,
     (CUdeviceptr address, unsigned char value, size_t bytes, CUstream stream),
     (address, value, bytes, stream))

static bool is_type(int type)
{
    return type == TYPE_PINNED || type == TYPE_UNCACHED;
}

CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *properties,
                                       int option);

EXPORT int hipMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *properties,
                                          int option);
EXPORT int hipMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *properties,
                                          int option)
{
    if (!is_type(properties->type) || properties->location.type != 1 ||
        !is_device(properties->location.id) || option < 0 || option > 1)
        return returned(INVALID_VALUE);
    return returned(cuMemGetAllocationGranularity(bytes, properties, option));
}

CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr wish,
                             unsigned long long flags);

EXPORT int hipMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment,
                                CUdeviceptr wish, unsigned long long flags);
EXPORT int hipMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment,
                                CUdeviceptr wish, unsigned long long flags)
{
    if (!bytes || bytes % GRANULARITY || flags || alignment & (alignment - 1))
        return returned(INVALID_VALUE);
    return returned(cuMemAddressReserve(address, bytes, alignment, wish, 0));
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                     const CUmemAllocationProp *properties, unsigned long long flags);

EXPORT int hipMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                        const CUmemAllocationProp *properties, unsigned long long flags);
EXPORT int hipMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                        const CUmemAllocationProp *properties, unsigned long long flags)
{
    begin();
    if (flags || !is_type(properties->type) || properties->location.type != 1 ||
        properties->requestedHandleTypes & ~1 || properties->location.id != fake_current_device())
        return returned(INVALID_VALUE);
    return returned(cuMemCreate(handle, bytes, properties, 0));
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags);

EXPORT int hipMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                     CUmemGenericAllocationHandle handle, unsigned long long flags);
EXPORT int hipMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                     CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    return returned(offset || flags || bytes % GRANULARITY
                        ? INVALID_VALUE
                        : (int)cuMemMap(address, bytes, 0, handle, 0));
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access,
                        size_t count);

EXPORT int hipMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access,
                           size_t count);
EXPORT int hipMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access,
                           size_t count)
{
    const struct object *mapping = find(MAPPING, address);
    if (!mapping || mapping->base != address || mapping->bytes != bytes ||
        !is_device(access->location.id))
        return returned(INVALID_VALUE);
    return returned(cuMemSetAccess(address, bytes, access, count));
}

CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
                                      int type, unsigned long long flags);

EXPORT int hipMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
                                         int type, unsigned long long flags);
EXPORT int hipMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
                                         int type, unsigned long long flags)
{
    return returned(flags ? INVALID_VALUE
                          : (int)cuMemExportToShareableHandle(shareable, handle, type, 0));
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable,
                                        int type);

EXPORT int hipMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable,
                                           int type);
EXPORT int hipMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable,
                                           int type)
{
    return returned(shareable ? (int)cuMemImportFromShareableHandle(handle, shareable, type)
                              : INVALID_VALUE);
}

EXPORT int hipExtMallocWithFlags(CUdeviceptr *address, size_t bytes, unsigned flags);
EXPORT int hipExtMallocWithFlags(CUdeviceptr *address, size_t bytes, unsigned flags)
{
    begin();
    if (flags > UNCACHED)
        return returned(INVALID_VALUE);
    int result = cuMemAlloc_v2(address, bytes);
    if (!result)
        find(DEVICE, *address)->coarse = flags == 0;
    return returned(result);
}

EXPORT int hipMalloc(CUdeviceptr *address, size_t bytes);
EXPORT int hipMalloc(CUdeviceptr *address, size_t bytes)
{
    return hipExtMallocWithFlags(address, bytes, 0);
}

CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned flags);

EXPORT int hipHostMalloc(void **address, size_t bytes, unsigned flags);
EXPORT int hipHostMalloc(void **address, size_t bytes, unsigned flags)
{
    enum { PORTABLE = 1, MAPPED = 2 };
    begin();
    if (flags & ~(unsigned)(PORTABLE | MAPPED | COHERENT))
        return returned(INVALID_VALUE);
    int result = cuMemHostAlloc(address, bytes, flags & (PORTABLE | MAPPED));
    if (!result)
        find(HOST, (uintptr_t)*address)->coarse = !(flags & COHERENT);
    return returned(result);
}

CUresult cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags);

/* Memory is registered once. */
EXPORT int hipHostRegister(void *address, size_t bytes, unsigned flags);
EXPORT int hipHostRegister(void *address, size_t bytes, unsigned flags)
{
    enum { ALREADY = 712, KNOWN = 7 };
    begin();
    const struct object *before = find(REGISTERED, (uintptr_t)address);
    if (flags & ~(unsigned)KNOWN)
        return returned(INVALID_VALUE);
    if (before && before->base == (uintptr_t)address)
        return returned(ALREADY);
    return returned(cuMemHostRegister_v2(address, bytes, flags));
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);

EXPORT int hipMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, int kind,
                          CUstream stream);
EXPORT int hipMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, int kind, CUstream stream)
{
    begin();
    return returned(kind == COPY_DEFAULT ? (int)cuMemcpyAsync(to, from, bytes, stream)
                                         : INVALID_VALUE);
}

/* ------------------------------------------------------------------------------ streams */

SAME(hipStreamCreateWithFlags, cuStreamCreate, (CUstream * stream, unsigned flags), (stream, flags))
SAME(hipStreamDestroy, cuStreamDestroy_v2, (CUstream stream), (stream))
SAME(hipStreamSynchronize, cuStreamSynchronize, (CUstream stream), (stream))
SAME(hipStreamQuery, cuStreamQuery, (CUstream stream), (stream))
SAME(hipStreamWaitEvent, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags),
     (stream, event, flags))
SAME(hipStreamIsCapturing, cuStreamIsCapturing, (CUstream stream, int *status), (stream, status))
SAME(hipStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo_v2,
     (CUstream stream, int *status, uint64_t *id, CUgraph *graph, const void **nodes,
      size_t *count),
     (stream, status, id, graph, nodes, count))
SAME(hipStreamBeginCapture, cuStreamBeginCapture_v2, (CUstream stream, int mode), (stream, mode))
SAME(hipStreamEndCapture, cuStreamEndCapture, (CUstream stream, CUgraph *graph), (stream, graph))
SAME(hipGraphInstantiateWithFlags, cuGraphInstantiateWithFlags,
     (CUgraphExec * made, CUgraph graph, unsigned long long flags), (made, graph, flags))
SAME(hipGraphLaunch, cuGraphLaunch, (CUgraphExec made, CUstream stream), (made, stream))
SAME(hipGraphExecDestroy, cuGraphExecDestroy, (CUgraphExec made), (made))
SAME(hipGraphDestroy, cuGraphDestroy, (CUgraph graph), (graph))
SAME(hipStreamWriteValue64, cuStreamWriteValue64_v2,
     (CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags),
     (stream, address, value, flags))
SAME(hipStreamWriteValue32, cuStreamWriteValue32_v2,
     (CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags),
     (stream, address, value, flags))
SAME(hipStreamBatchMemOp, cuStreamBatchMemOp_v2,
     (CUstream stream, unsigned count, CUstreamBatchMemOpParams *list, unsigned flags),
     (stream, count, list, flags))
SAME(hipLaunchHostFunc, cuLaunchHostFunc,
     (CUstream stream, void (*function)(void *), void *argument), (stream, function, argument))
SAME(hipEventCreateWithFlags, cuEventCreate, (CUevent * event, unsigned flags), (event, flags))
SAME(hipEventDestroy, cuEventDestroy_v2, (CUevent event), (event))
SAME(hipEventRecord, cuEventRecord, (CUevent event, CUstream stream), (event, stream))
SAME(hipEventQuery, cuEventQuery, (CUevent event), (event))
SAME(hipEventSynchronize, cuEventSynchronize, (CUevent event), (event))
SAME(hipEventElapsedTime, cuEventElapsedTime, (float *ms, CUevent begun, CUevent ended),
     (ms, begun, ended))

EXPORT int hipStreamGetDevice(CUstream stream, int *device);
EXPORT int hipStreamGetDevice(CUstream stream, int *device)
{
    begin();
    *device = fake_stream_device(stream);
    return 0;
}

/* ------------------------------------------------------------------------------ kernels */

/* Whether an image is for this GPU. "": the stand-in's own kernels, in a build without code for the
 * architecture; "global NAME BYTES": a module with a variable. */
static bool is_for_this(const char *image)
{
    static const struct {
        const char *name;
        unsigned machine; /* EF_AMDGPU_MACH_ of e_flags */
    } known[] = {{"gfx90a", 0x3f}, {"gfx942", 0x4c}};
    Elf64_Ehdr head;
    unsigned machine = 0;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strncmp(architecture(), known[i].name, 6) == 0)
            machine = known[i].machine;
    if (!machine)
        return false;
    if (!*image || strncmp(image, "global ", 7) == 0)
        return true;
    if (memcmp(image, ELFMAG, SELFMAG) != 0)
        return false;
    memcpy(&head, image, sizeof head);
    return head.e_machine == MACHINE_AMDGPU && (head.e_flags & 0xff) == machine;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image);

EXPORT int hipModuleLoadData(CUmodule *module, const void *image);
EXPORT int hipModuleLoadData(CUmodule *module, const void *image)
{
    begin();
    return returned(is_for_this(image) ? (int)cuModuleLoadData(module, image) : NO_BINARY);
}

SAME(hipModuleUnload, cuModuleUnload, (CUmodule module), (module))
SAME(hipModuleGetFunction, cuModuleGetFunction,
     (CUfunction * function, CUmodule module, const char *name), (function, module, name))
SAME(hipModuleGetGlobal, cuModuleGetGlobal_v2,
     (CUdeviceptr * address, size_t *bytes, CUmodule module, const char *name),
     (address, bytes, module, name))
SAME(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor,
     cuOccupancyMaxActiveBlocksPerMultiprocessor,
     (int *blocks, CUfunction function, int threads, size_t shared_bytes),
     (blocks, function, threads, shared_bytes))
SAME(hipModuleLaunchKernel, cuLaunchKernel,
     (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
      unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters,
      void **extra),
     (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters,
      extra))
SAME(hipModuleLaunchCooperativeKernel, cuLaunchCooperativeKernel,
     (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
      unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream,
      void **parameters),
     (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
      parameters))
