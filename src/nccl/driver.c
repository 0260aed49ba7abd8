/* SPDX-License-Identifier: Apache-2.0 */
/* What a communicator needs of the CUDA driver itself. Streams and events are those of
 * <weft/launch.h>. */
#include "nccl/comm.h"

#include <dlfcn.h>

#include "driver/gpu_api.h" /* types and constants */

#include <stdlib.h>

typedef CUdeviceptr address_t;

static struct {
    int (*init)(unsigned);
    int (*get_context)(void **);
    int (*set_context)(void *);
    int (*get_device)(int *);
    int (*device_get)(int *, int);
    int (*retain)(void **, int);
    int (*alloc)(address_t *, size_t);
    int (*free)(address_t);
    int (*to_gpu)(address_t, const void *, size_t);
    int (*event_create)(weft_event *, unsigned);
    int (*capture_info)(weft_stream, int *, uint64_t *, void *, void *, void *);
    int (*granularity)(size_t *, const CUmemAllocationProp *, int);
    int (*create)(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, uint64_t);
    int (*release)(CUmemGenericAllocationHandle);
    int (*reserve)(address_t *, size_t, size_t, address_t, uint64_t);
    int (*unreserve)(address_t, size_t);
    int (*map)(address_t, size_t, size_t, CUmemGenericAllocationHandle, uint64_t);
    int (*unmap)(address_t, size_t);
    int (*allow)(address_t, size_t, const CUmemAccessDesc *, size_t);
    const char *missing;
} driver;
static pthread_once_t loaded = PTHREAD_ONCE_INIT;

static void load(void)
{
    static const struct {
        const char *name;
        void *function;
    } table[] = {
        {"cuInit", &driver.init},
        {"cuCtxGetCurrent", &driver.get_context},
        {"cuCtxSetCurrent", &driver.set_context},
        {"cuCtxGetDevice", &driver.get_device},
        {"cuDeviceGet", &driver.device_get},
        {"cuDevicePrimaryCtxRetain", &driver.retain},
        {"cuMemAlloc_v2", &driver.alloc},
        {"cuMemFree_v2", &driver.free},
        {"cuMemcpyHtoD_v2", &driver.to_gpu},
        {"cuEventCreate", &driver.event_create},
        {"cuStreamGetCaptureInfo_v2", &driver.capture_info},
        {"cuMemGetAllocationGranularity", &driver.granularity},
        {"cuMemCreate", &driver.create},
        {"cuMemRelease", &driver.release},
        {"cuMemAddressReserve", &driver.reserve},
        {"cuMemAddressFree", &driver.unreserve},
        {"cuMemMap", &driver.map},
        {"cuMemUnmap", &driver.unmap},
        {"cuMemSetAccess", &driver.allow},
    };
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    driver.missing = library ? NULL : "libcuda.so.1";
    for (size_t i = 0; i < sizeof table / sizeof *table && !driver.missing; i++) {
        void *found = dlsym(library, table[i].name);
        *(void **)table[i].function = found;
        if (!found)
            driver.missing = table[i].name;
    }
    if (!driver.missing && driver.init(0))
        driver.missing = "a GPU (cuInit failed)";
    weft_cuda_register(&weft_driver_runtime); /* the program may have no kernels of Weft's */
}

bool driver_load(void)
{
    pthread_once(&loaded, load);
    if (driver.missing)
        nccl_keep("the CUDA driver lacks %s", driver.missing);
    return !driver.missing;
}

void *driver_context(void)
{
    void *context = NULL;
    return driver.get_context(&context) ? NULL : context;
}

void driver_set_context(void *context)
{
    driver.set_context(context);
}

int driver_device(void)
{
    int device = -1, ordinal = -1, candidate;
    if (driver.get_device(&device))
        return -1;
    while (!driver.device_get(&candidate, ++ordinal))
        if (candidate == device)
            return ordinal;
    return -1;
}

bool driver_use_device(int ordinal)
{
    int device;
    void *context;
    return !driver.device_get(&device, ordinal) && !driver.retain(&context, device) &&
           !driver.set_context(context);
}

static ncclResult_t failed(int code, const char *what)
{
    return code ? nccl_fail(ncclUnhandledCudaError, "%s failed with code %d of the CUDA driver",
                            what, code)
                : ncclSuccess;
}

/* Memory that was mapped, which is freed by its size. */
struct mapped_memory {
    struct mapped_memory *next;
    address_t at;
    size_t bytes;
};
static struct mapped_memory *all_mapped;
static pthread_mutex_t mapped_lock = PTHREAD_MUTEX_INITIALIZER;

/* Creates `bytes` bytes that other processes can map, at *at. Returns a code of the driver. */
static int map_new(address_t *at, size_t *bytes, int device)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes =
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, device},
                              CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    size_t unit = 0;
    int code = driver.granularity(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (code)
        return code;
    *bytes = (*bytes + unit - 1) / unit * unit;
    code = driver.create(&handle, *bytes, &properties, 0);
    if (code)
        return code;
    code = driver.reserve(at, *bytes, 0, 0, 0);
    if (!code && (code = driver.map(*at, *bytes, 0, handle, 0)) != 0)
        driver.unreserve(*at, *bytes);
    else if (!code && (code = driver.allow(*at, *bytes, &access, 1)) != 0) {
        driver.unmap(*at, *bytes);
        driver.unreserve(*at, *bytes);
    }
    driver.release(handle); /* the mapping keeps it */
    return code;
}

ncclResult_t driver_alloc(void **address, size_t bytes)
{
    address_t at = 0;
    int device;
    struct mapped_memory *mapped = malloc(sizeof *mapped);
    size_t whole = bytes;
    if (mapped && !driver.get_device(&device) && !map_new(&at, &whole, device)) {
        pthread_mutex_lock(&mapped_lock);
        *mapped = (struct mapped_memory){all_mapped, at, whole};
        all_mapped = mapped;
        pthread_mutex_unlock(&mapped_lock);
        *address = (void *)(uintptr_t)at;
        return ncclSuccess;
    }
    free(mapped);
    int code = driver.alloc(&at, bytes);
    *address = (void *)(uintptr_t)at;
    return failed(code, "cuMemAlloc");
}

ncclResult_t driver_free(void *address)
{
    address_t at = (uintptr_t)address;
    pthread_mutex_lock(&mapped_lock);
    struct mapped_memory **place = &all_mapped, *found;
    while (*place && (*place)->at != at)
        place = &(*place)->next;
    found = *place;
    if (found)
        *place = found->next;
    pthread_mutex_unlock(&mapped_lock);
    if (!found)
        return failed(driver.free(at), "cuMemFree");
    int code = driver.unmap(at, found->bytes);
    if (!code)
        code = driver.unreserve(at, found->bytes);
    free(found);
    return failed(code, "cuMemUnmap");
}

uint64_t driver_capture(weft_stream stream)
{
    int state = 0;
    uint64_t id = 0;
    return !driver.capture_info(stream, &state, &id, NULL, NULL, NULL) && state ? id : 0;
}

ncclResult_t driver_event_create(weft_event *event)
{
    return failed(driver.event_create(event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
}

ncclResult_t driver_event_record(weft_event event, weft_stream stream)
{
    return failed(weft_driver_runtime.event_record(event, stream), "cuEventRecord");
}

ncclResult_t driver_event_wait(weft_stream stream, weft_event event)
{
    return failed(weft_driver_runtime.event_wait(stream, event), "cuStreamWaitEvent");
}

ncclResult_t driver_stream_create(weft_stream *stream)
{
    return failed(weft_driver_runtime.stream_create(stream), "cuStreamCreate");
}

void driver_stream_destroy(weft_stream stream)
{
    weft_driver_runtime.stream_destroy(stream);
}

void driver_event_destroy(weft_event event)
{
    weft_driver_runtime.event_synchronize(event);
    weft_driver_runtime.event_destroy(event);
}

ncclResult_t driver_copy_make(const void *from, size_t bytes, void **address)
{
    address_t made = 0;
    *address = NULL;
    ncclResult_t result = failed(driver.alloc(&made, bytes), "cuMemAlloc");
    if (!result)
        result = failed(driver.to_gpu(made, from, bytes), "cuMemcpyHtoD");
    if (result && made)
        driver.free(made);
    else if (!result)
        *address = (void *)(uintptr_t)made;
    return result;
}

void driver_copy_free(void *address)
{
    driver.free((address_t)(uintptr_t)address);
}
