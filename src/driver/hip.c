/* SPDX-License-Identifier: Apache-2.0 */
/* Fills the table of a GPU driver from the HIP runtime: functions with the same parameters as they
 * are, the others through adapters that translate handles, attributes, flags and memory types. See
 * gpu_api.h. */
#include "driver/hip.h"

#include "base/status.h"
#include "driver/driver.h"

#include <ctype.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------ the library */

enum { HIP_OLDEST_VERSION = 70200000, DEVICES_MOST = 256, DEPTH_MOST = 32 };

/* X(field of the table, HIP's name, optional): functions with the same parameters, where a pointer
 * to GPU memory counts as CUdeviceptr. */
#define SAME_FUNCTIONS(X)                                                                          \
    X(Init, "hipInit", 0)                                                                          \
    X(DriverGetVersion, "hipRuntimeGetVersion", 0)                                                 \
    X(DeviceGetCount, "hipGetDeviceCount", 0)                                                      \
    X(DeviceGet, "hipDeviceGet", 0)                                                                \
    X(DeviceGetName, "hipDeviceGetName", 0)                                                        \
    X(DeviceTotalMem, "hipDeviceTotalMem", 0)                                                      \
    X(DeviceGetPCIBusId, "hipDeviceGetPCIBusId", 0)                                                \
    X(DeviceCanAccessPeer, "hipDeviceCanAccessPeer", 0)                                            \
    X(CtxGetDevice, "hipGetDevice", 0)                                                             \
    X(MemGetInfo, "hipMemGetInfo", 0)                                                              \
    X(MemGetAllocationGranularity, "hipMemGetAllocationGranularity", 0)                            \
    X(MemAddressReserve, "hipMemAddressReserve", 0)                                                \
    X(MemAddressFree, "hipMemAddressFree", 0)                                                      \
    X(MemRelease, "hipMemRelease", 0)                                                              \
    X(MemMap, "hipMemMap", 0)                                                                      \
    X(MemUnmap, "hipMemUnmap", 0)                                                                  \
    X(MemSetAccess, "hipMemSetAccess", 0)                                                          \
    X(MemExportToShareableHandle, "hipMemExportToShareableHandle", 0)                              \
    X(MemImportFromShareableHandle, "hipMemImportFromShareableHandle", 0)                          \
    X(MemRetainAllocationHandle, "hipMemRetainAllocationHandle", 0)                                \
    X(MemFreeHost, "hipHostFree", 0)                                                               \
    X(MemHostGetDevicePointer, "hipHostGetDevicePointer", 0)                                       \
    X(MemHostRegister, "hipHostRegister", 0)                                                       \
    X(MemHostUnregister, "hipHostUnregister", 0)                                                   \
    X(MemFree, "hipFree", 0)                                                                       \
    X(MemcpyHtoD, "hipMemcpyHtoD", 0)                                                              \
    X(MemcpyDtoH, "hipMemcpyDtoH", 0)                                                              \
    X(MemsetD8Async, "hipMemsetD8Async", 0)                                                        \
    X(MemGetHandleForAddressRange, "hipMemGetHandleForAddressRange", 0)                            \
    X(PointerGetAttribute, "hipPointerGetAttribute", 0)                                            \
    X(StreamCreate, "hipStreamCreateWithFlags", 0)                                                 \
    X(StreamDestroy, "hipStreamDestroy", 0)                                                        \
    X(StreamSynchronize, "hipStreamSynchronize", 0)                                                \
    X(StreamQuery, "hipStreamQuery", 0)                                                            \
    X(StreamWaitEvent, "hipStreamWaitEvent", 0)                                                    \
    X(StreamIsCapturing, "hipStreamIsCapturing", 0)                                                \
    X(StreamGetCaptureInfo, "hipStreamGetCaptureInfo_v2", 1)                                       \
    X(ThreadExchangeStreamCaptureMode, "hipThreadExchangeStreamCaptureMode", 1)                    \
    X(StreamBeginCapture, "hipStreamBeginCapture", 1)                                              \
    X(StreamEndCapture, "hipStreamEndCapture", 1)                                                  \
    X(GraphInstantiate, "hipGraphInstantiateWithFlags", 1)                                         \
    X(GraphLaunch, "hipGraphLaunch", 1)                                                            \
    X(GraphExecDestroy, "hipGraphExecDestroy", 1)                                                  \
    X(GraphDestroy, "hipGraphDestroy", 1)                                                          \
    X(StreamWriteValue64, "hipStreamWriteValue64", 1)                                              \
    X(StreamWriteValue32, "hipStreamWriteValue32", 1)                                              \
    X(StreamBatchMemOp, "hipStreamBatchMemOp", 1)                                                  \
    X(LaunchHostFunc, "hipLaunchHostFunc", 0)                                                      \
    X(EventCreate, "hipEventCreateWithFlags", 0)                                                   \
    X(EventDestroy, "hipEventDestroy", 0)                                                          \
    X(EventRecord, "hipEventRecord", 0)                                                            \
    X(EventQuery, "hipEventQuery", 0)                                                              \
    X(EventSynchronize, "hipEventSynchronize", 0)                                                  \
    X(EventElapsedTime, "hipEventElapsedTime", 0)                                                  \
    X(ModuleLoadData, "hipModuleLoadData", 0)                                                      \
    X(ModuleUnload, "hipModuleUnload", 0)                                                          \
    X(ModuleGetFunction, "hipModuleGetFunction", 0)                                                \
    X(ModuleGetGlobal, "hipModuleGetGlobal", 0)                                                    \
    X(OccupancyMaxActiveBlocksPerMultiprocessor,                                                   \
      "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor", 0)                                     \
    X(LaunchKernel, "hipModuleLaunchKernel", 0)                                                    \
    X(LaunchCooperativeKernel, "hipModuleLaunchCooperativeKernel", 0)                              \
    X(GetErrorName, "hipDrvGetErrorName", 0)                                                       \
    X(GetErrorString, "hipDrvGetErrorString", 0)

/* X(field of the table, field of struct hip, HIP's name, parameters): functions that an adapter of
 * the field's name calls. */
#define ADAPTED_FUNCTIONS(X)                                                                       \
    X(DeviceGetAttribute, get_attribute, "hipDeviceGetAttribute",                                  \
      (int *value, int attribute, int device))                                                     \
    X(DeviceGetUuid, get_uuid, "hipDeviceGetUuid", (CUuuid * uuid, int device))                    \
    X(DeviceGetArchitecture, get_properties, "hipGetDevicePropertiesR0600",                        \
      (void *properties, int device))                                                              \
    X(DeviceGetP2PAttribute, get_link, "hipExtGetLinkTypeAndHopCount",                             \
      (int device, int peer, uint32_t *type, uint32_t *hops))                                      \
    X(CtxSetCurrent, set_device, "hipSetDevice", (int device))                                     \
    X(CtxEnablePeerAccess, enable_peer, "hipDeviceEnablePeerAccess", (int peer, unsigned flags))   \
    X(CtxDisablePeerAccess, disable_peer, "hipDeviceDisablePeerAccess", (int peer))                \
    X(MemCreate, create, "hipMemCreate",                                                           \
      (CUmemGenericAllocationHandle * handle, size_t bytes, const CUmemAllocationProp *properties, \
       unsigned long long flags))                                                                  \
    X(MemGetAllocationPropertiesFromHandle, get_allocation,                                        \
      "hipMemGetAllocationPropertiesFromHandle",                                                   \
      (CUmemAllocationProp * properties, CUmemGenericAllocationHandle handle))                     \
    X(MemHostAlloc, host_malloc, "hipHostMalloc", (void **address, size_t bytes, unsigned flags))  \
    X(MemAlloc, ext_malloc, "hipExtMallocWithFlags",                                               \
      (CUdeviceptr * address, size_t bytes, unsigned flags))                                       \
    X(MemcpyAsync, copy_async, "hipMemcpyAsync",                                                   \
      (CUdeviceptr to, CUdeviceptr from, size_t bytes, int kind, CUstream stream))                 \
    X(StreamGetCtx, stream_device, "hipStreamGetDevice", (CUstream stream, int *device))

static struct hip {
    struct gpu_api table; /* HIP's own functions, then adapters */
#define FIELD(field, name, exported, parameters) CUresult(*name) parameters;
    ADAPTED_FUNCTIONS(FIELD)
#undef FIELD
    CUresult (*last_error)(void);
} hip; /* equal for all tables of the process: functions of a table have no argument to find it by
        */

static const struct driver_symbol hip_symbols[] = {
#define SYMBOL(field, exported, optional) {{exported}, offsetof(struct hip, table.field), optional},
    SAME_FUNCTIONS(SYMBOL)
#undef SYMBOL
#define SYMBOL(field, name, exported, parameters) {{exported}, offsetof(struct hip, name), false},
        ADAPTED_FUNCTIONS(SYMBOL)
#undef SYMBOL
            {{"hipGetLastError"}, offsetof(struct hip, last_error), false},
};

/* ROCm's folder is often not among those of the loader. */
static const char *const hip_files[] = {"libamdhip64.so.7", "libamdhip64.so",
                                        "/opt/rocm/lib/libamdhip64.so", NULL};

static const struct driver_library hip_library = {
    .what = "AMD's HIP runtime",
    .remedy = "install ROCm 7.2 or newer (its package hip-runtime-amd has libamdhip64.so)",
    .names = hip_files,
    .symbols = hip_symbols,
    .symbol_count = sizeof hip_symbols / sizeof hip_symbols[0],
};

/* ------------------------------------------------------------------------------ contexts */

/* HIP has devices and no contexts: the context of a device is an address that stands for it. */
static char contexts[DEVICES_MOST];

static int device_of(CUcontext context)
{
    return (int)((char *)context - contexts);
}

static CUcontext context_of(int device)
{
    return (CUcontext)&contexts[device];
}

/* Devices that this thread had before each push, and whether the library has chosen one for it. */
static _Thread_local int pushed[DEPTH_MOST];
static _Thread_local int depth;
static _Thread_local bool chosen;

static CUresult adapt_DevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    if (device < 0 || device >= DEVICES_MOST)
        return CUDA_ERROR_INVALID_DEVICE;
    *context = context_of(device);
    return CUDA_SUCCESS;
}

static CUresult adapt_DevicePrimaryCtxRelease(CUdevice device)
{
    (void)device;
    return CUDA_SUCCESS;
}

static CUresult adapt_CtxPushCurrent(CUcontext context)
{
    int before;
    if (depth == DEPTH_MOST)
        return CUDA_ERROR_INVALID_CONTEXT;
    CUresult result = hip.table.CtxGetDevice(&before);
    if (!result)
        result = hip.set_device(device_of(context));
    if (!result)
        pushed[depth++] = before;
    return result;
}

static CUresult adapt_CtxPopCurrent(CUcontext *context)
{
    int device;
    if (!depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    CUresult result = hip.table.CtxGetDevice(&device);
    if (result)
        return result;
    *context = context_of(device);
    return hip.set_device(pushed[--depth]);
}

static CUresult adapt_CtxSetCurrent(CUcontext context)
{
    chosen = true;
    return hip.set_device(device_of(context));
}

static CUresult adapt_CtxGetCurrent(CUcontext *context)
{
    int device;
    CUresult result = hip.table.CtxGetDevice(&device);
    *context = !result && (device || depth || chosen) ? context_of(device) : NULL;
    return result;
}

static CUresult adapt_CtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    return hip.enable_peer(device_of(peer), flags);
}

static CUresult adapt_CtxDisablePeerAccess(CUcontext peer)
{
    return hip.disable_peer(device_of(peer));
}

static CUresult adapt_StreamGetCtx(CUstream stream, CUcontext *context)
{
    int device = 0;
    CUresult result = hip.stream_device(stream, &device);
    *context = !result && device >= 0 ? context_of(device) : NULL;
    return result;
}

/* ------------------------------------------------------------------------------ devices */

static CUresult adapt_DeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    static const struct {
        int cuda, hip;
    } rows[] = {
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, hipDeviceAttributeMultiprocessorCount},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, hipDeviceAttributeComputeMode},
        {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, hipDeviceAttributeAsyncEngineCount},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, hipDeviceAttributeComputeCapabilityMajor},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, hipDeviceAttributeComputeCapabilityMinor},
        {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, hipDeviceAttributePageableMemoryAccess},
        {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
         hipDeviceAttributeVirtualMemoryManagementSupported},
        /* HIP has no attribute for it: what it creates, it exports. */
        {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
         hipDeviceAttributeVirtualMemoryManagementSupported},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].cuda == attribute)
            return hip.get_attribute(value, rows[i].hip, device);
    *value = attribute == CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED;
    switch (attribute) { /* HIP says nothing of the order in which a NIC's writes become visible */
    case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING:
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* The library recognises a GPU of another process by its UUID. HIP writes the 16 digits of the
 * serial number there, or "XX" for a GPU without one; then the PCI address serves. */
static CUresult adapt_DeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    char address[32] = "";
    CUresult result = hip.get_uuid(uuid, device);
    if (result || isxdigit((unsigned char)uuid->bytes[0]))
        return result;
    result = hip.table.DeviceGetPCIBusId(address, sizeof address, device);
    memcpy(uuid->bytes, address, sizeof uuid->bytes);
    return result;
}

static CUresult adapt_DeviceGetArchitecture(char *text, size_t bytes, CUdevice device)
{
    char properties[2 * HIP_PROPERTIES_BYTES] = ""; /* room for those of later versions */
    CUresult result = hip.get_properties(properties, device);
    snprintf(text, bytes, "%s", properties + HIP_PROPERTIES_ARCHITECTURE_AT);
    return result;
}

/* The library asks for native atomics to tell NVLink from PCIe, and for the rank to compare links.
 * AMD's GPUs may have atomics over PCIe too, so xGMI answers here, with its hops as the rank. */
static CUresult adapt_DeviceGetP2PAttribute(int *value, int attribute, CUdevice device,
                                            CUdevice peer)
{
    uint32_t type = 0, hops = 0;
    if (attribute != CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED &&
        attribute != CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = hip.get_link(device, peer, &type, &hops);
    *value =
        attribute == CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ? (int)hops : type == HIP_LINK_XGMI;
    return result;
}

/* ------------------------------------------------------------------------------ memory */

/* Memory of the heap holds flags that other GPUs and the CPU change while kernels poll them, so it
 * is uncached: other memory is coherent between kernels only. HIP allocates on the current device,
 * whatever the properties say. */
static CUresult adapt_MemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                                const CUmemAllocationProp *properties, unsigned long long flags)
{
    CUmemAllocationProp uncached = *properties;
    CUcontext popped;
    uncached.type = hipMemAllocationTypeUncached;
    const int device = properties->location.id;
    if (device < 0 || device >= DEVICES_MOST)
        return CUDA_ERROR_INVALID_DEVICE;
    CUresult result = adapt_CtxPushCurrent(context_of(device));
    if (result)
        return result;
    result = hip.create(handle, bytes, &uncached, flags);
    adapt_CtxPopCurrent(&popped);
    return result;
}

/* Only uncached memory may become symmetric: other types are none that the table names. */
static CUresult adapt_MemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties,
                                                           CUmemGenericAllocationHandle handle)
{
    CUresult result = hip.get_allocation(properties, handle);
    properties->type =
        properties->type == hipMemAllocationTypeUncached ? CU_MEM_ALLOCATION_TYPE_PINNED : 0;
    return result;
}

static CUresult adapt_MemAlloc(CUdeviceptr *address, size_t bytes)
{
    return hip.ext_malloc(address, bytes, hipDeviceMallocUncached);
}

/* Coherent whatever HIP_HOST_COHERENT says: kernels and the CPU poll words there. */
static CUresult adapt_MemHostAlloc(void **address, size_t bytes, unsigned flags)
{
    return hip.host_malloc(address, bytes, flags | hipHostMallocCoherent);
}

static CUresult adapt_MemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return hip.copy_async(to, from, bytes, hipMemcpyDefault, stream);
}

/* ------------------------------------------------------------------------------ kernels */

/* A kernel may use all shared memory of its GPU without asking. */
static CUresult adapt_FuncSetAttribute(CUfunction function, int attribute, int value)
{
    int device, most = 0;
    CUresult result = hip.table.CtxGetDevice(&device);
    if (!result)
        result = hip.get_attribute(&most, hipDeviceAttributeMaxSharedMemoryPerBlock, device);
    if (!result && (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value > most))
        result = CUDA_ERROR_INVALID_VALUE;
    (void)function;
    return result;
}

/* ------------------------------------------------------------------------------ the table */

/* HIP keeps the last error of a thread, and the program may read it. Errors of the library's calls
 * are none of the program's. */
static CUresult forget_error(CUresult result)
{
    if (result)
        hip.last_error();
    return result;
}

#define CALL(field, names, optional, parameters, arguments)                                        \
    static CUresult call_##field parameters                                                        \
    {                                                                                              \
        return forget_error(hip.table.field arguments);                                            \
    }
GPU_FUNCTIONS(CALL)
#undef CALL

/* Several threads may open tables at once. While one is open the functions stay the same, and are
 * not written again, since other threads call them. */
static void fill_table(struct gpu_api *driver, struct hip *loaded)
{
#define ADAPT(field, ...) loaded->table.field = adapt_##field;
    ADAPTED_FUNCTIONS(ADAPT)
    ADAPT(DevicePrimaryCtxRetain)
    ADAPT(DevicePrimaryCtxRelease)
    ADAPT(CtxGetCurrent)
    ADAPT(CtxPushCurrent)
    ADAPT(CtxPopCurrent)
    ADAPT(FuncSetAttribute)
#undef ADAPT
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (memcmp(&hip, loaded, sizeof hip) != 0)
        hip = *loaded;
    pthread_mutex_unlock(&lock);
    *driver = loaded->table;
#define INSTALL(field, names, optional, parameters, arguments)                                     \
    if (driver->field)                                                                             \
        driver->field = call_##field;
    GPU_FUNCTIONS(INSTALL)
#undef INSTALL
    driver->vendor = GPU_VENDOR_AMD;
}

static weft_status fail_no_device(void)
{
    bool closed = access("/dev/kfd", F_OK) == 0 && access("/dev/kfd", R_OK | W_OK) != 0;
    return base_fail(
        WEFT_ERR_UNSUPPORTED, "HIP sees no GPU: %s",
        closed ? "this user may not open /dev/kfd; add the user to the group that owns it (render)"
               : "HIP_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES may hide it, or this container has "
                 "none");
}

static weft_status start(struct gpu_api *driver)
{
    int count = 0;
    CUresult result = driver->DriverGetVersion(&driver->driver_version);
    if (result)
        return gpu_api_fail(driver, result, "cuDriverGetVersion");
    if (driver->driver_version < HIP_OLDEST_VERSION)
        return base_fail(WEFT_ERR_UNSUPPORTED,
                         "AMD's HIP runtime is too old: it is %d.%d, Weft needs %d.%d (ROCm 7.2); "
                         "older ones share no memory that kernels may poll",
                         driver->driver_version / 10000000, driver->driver_version / 100000 % 100,
                         HIP_OLDEST_VERSION / 10000000, HIP_OLDEST_VERSION / 100000 % 100);
    result = driver->Init(0);
    if (!result)
        result = driver->DeviceGetCount(&count);
    if (result == CUDA_ERROR_NO_DEVICE || (!result && !count))
        return fail_no_device();
    if (!result)
        return WEFT_OK;
    gpu_api_fail(driver, result, "cuInit");
    return base_fail(WEFT_ERR_UNSUPPORTED, "%s; `weft doctor` shows more", base_last_error());
}

weft_status hip_open(struct gpu_api *driver)
{
    struct hip loaded;
    void *handle;
    memset(driver, 0, sizeof *driver);
    weft_status status = driver_load(&hip_library, &loaded, sizeof loaded, &handle);
    if (status)
        return status;
    fill_table(driver, &loaded);
    driver->handle = handle;
    gpu_api_install_faults(driver);
    status = start(driver);
    if (status)
        gpu_api_close(driver);
    return status;
}

CUcontext hip_current_if_loaded(void)
{
    int device = 0;
    void *handle = NULL;
    for (const char *const *name = hip_files; *name && !handle; name++)
        handle = dlopen(*name, RTLD_NOW | RTLD_NOLOAD);
    if (!handle)
        return NULL;
    CUresult (*get_device)(int *);
    void *address = dlsym(handle, "hipGetDevice");
    memcpy(&get_device, &address, sizeof get_device);
    bool other = get_device && !get_device(&device) && device > 0 && device < DEVICES_MOST;
    dlclose(handle);
    return other ? context_of(device) : NULL;
}

/* ------------------------------------------------------------------------------ messages */

/* HIP's name for a word of CUDA, or NULL. */
static const char *name_of(const char *word, size_t length, char *made, size_t bytes)
{
    static const struct {
        const char *cuda, *hip;
    } rows[] = {{"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"},
                {"CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR", "hipMemHandleTypePosixFileDescriptor"},
                {"cudaMallocHost", "hipHostMalloc"},
                {"NVLink", "xGMI"},
                {"CUDA", "HIP"},
#define ROW(field, exported, optional) {"cu" #field, exported},
                SAME_FUNCTIONS(ROW)
#undef ROW
#define ROW(field, name, exported, parameters) {"cu" #field, exported},
                    ADAPTED_FUNCTIONS(ROW)
#undef ROW
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strlen(rows[i].cuda) == length && memcmp(rows[i].cuda, word, length) == 0)
            return rows[i].hip;
    size_t head = length > 4 && memcmp(word, "cuda", 4) == 0 ? 4 : 2;
    if (length <= head || memcmp(word, "cu", 2) != 0 || !isupper((unsigned char)word[head]))
        return NULL;
    snprintf(made, bytes, "hip%.*s", (int)(length - head), word + head);
    return made;
}

void hip_translate(char *text, size_t bytes)
{
    char from[1024], made[80];
    size_t used = 0;
    snprintf(from, sizeof from, "%s", text);
    for (const char *at = from; *at && used + 1 < bytes;) {
        size_t length = 0;
        while (isalnum((unsigned char)at[length]) || at[length] == '_')
            length++;
        const char *name = length ? name_of(at, length, made, sizeof made) : NULL;
        if (!length)
            length = 1;
        int n = name ? snprintf(text + used, bytes - used, "%s", name)
                     : snprintf(text + used, bytes - used, "%.*s", (int)length, at);
        used += (size_t)n < bytes - used ? (size_t)n : bytes - used - 1;
        at += length;
    }
}
