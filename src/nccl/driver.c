/* SPDX-License-Identifier: Apache-2.0 */
/* What a communicator needs of the CUDA driver itself. Streams and events are those of
 * <weft/launch.h>. */
#include "nccl/comm.h"

#include <dlfcn.h>

typedef unsigned long long address_t; /* the driver's CUdeviceptr */

static struct {
    int (*init)(unsigned);
    int (*get_context)(void **);
    int (*set_context)(void *);
    int (*get_device)(int *);
    int (*device_get)(int *, int);
    int (*retain)(void **, int);
    int (*alloc)(address_t *, size_t);
    int (*free)(address_t);
    int (*capture_info)(weft_stream, int *, uint64_t *, void *, void *, void *);
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
        {"cuStreamGetCaptureInfo_v2", &driver.capture_info},
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
        nccl_fail(ncclSystemError, "the CUDA driver lacks %s", driver.missing);
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

ncclResult_t driver_alloc(void **address, size_t bytes)
{
    address_t at = 0;
    int code = driver.alloc(&at, bytes);
    *address = (void *)(uintptr_t)at;
    return failed(code, "cuMemAlloc");
}

ncclResult_t driver_free(void *address)
{
    return failed(driver.free((uintptr_t)address), "cuMemFree");
}

uint64_t driver_capture(weft_stream stream)
{
    int state = 0;
    uint64_t id = 0;
    return !driver.capture_info(stream, &state, &id, NULL, NULL, NULL) && state ? id : 0;
}

ncclResult_t driver_event_create(weft_event *event)
{
    return failed(weft_driver_runtime.event_create(event), "cuEventCreate");
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
    weft_driver_runtime.event_destroy(event);
}
