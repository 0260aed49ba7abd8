/* SPDX-License-Identifier: Apache-2.0 */
/* Looks up the driver's functions. See gpu/driver.h. */
#include "gpu/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

static struct gpu_driver table;

static const struct {
    void *function;
    const char *symbol;
    bool optional;
} symbols[] = {
    {&table.device_count, "cuDeviceGetCount", false},
    {&table.device_get, "cuDeviceGet", false},
    {&table.retain, "cuDevicePrimaryCtxRetain", false},
    {&table.push, "cuCtxPushCurrent_v2", false},
    {&table.pop, "cuCtxPopCurrent_v2", false},
    {&table.enable_peer, "cuCtxEnablePeerAccess", false},
    {&table.pointer_attribute, "cuPointerGetAttribute", false},
    {&table.module_load, "cuModuleLoadData", false},
    {&table.module_function, "cuModuleGetFunction", false},
    {&table.launch, "cuLaunchKernel", false},
    {&table.stream_create, "cuStreamCreate", false},
    {&table.stream_create_priority, "cuStreamCreateWithPriority", true},
    {&table.stream_query, "cuStreamQuery", false},
    {&table.synchronize, "cuStreamSynchronize", false},
    {&table.copy, "cuMemcpyAsync", false},
    {&table.allocate, "cuMemAlloc_v2", false},
    {&table.host_alloc, "cuMemHostAlloc", false},
    {&table.host_register, "cuMemHostRegister_v2", false},
    {&table.host_unregister, "cuMemHostUnregister", false},
    {&table.host_pointer, "cuMemHostGetDevicePointer_v2", false},
    {&table.handle_of, "cuMemRetainAllocationHandle", false},
    {&table.export_handle, "cuMemExportToShareableHandle", false},
    {&table.import_handle, "cuMemImportFromShareableHandle", false},
    {&table.release, "cuMemRelease", false},
    {&table.reserve, "cuMemAddressReserve", false},
    {&table.unreserve, "cuMemAddressFree", false},
    {&table.map, "cuMemMap", false},
    {&table.unmap, "cuMemUnmap", false},
    {&table.set_access, "cuMemSetAccess", false},
};

static bool load_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    for (size_t i = 0; library && i < sizeof symbols / sizeof symbols[0]; i++) {
        void *found = dlsym(library, symbols[i].symbol);
        if (!found && !symbols[i].optional)
            return false;
        memcpy(symbols[i].function, &found, sizeof found);
    }
    return library;
}

const struct gpu_driver *gpu_driver(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool usable;
    pthread_mutex_lock(&lock);
    usable = usable || load_driver(); /* the program may load the driver late */
    bool now = usable;
    pthread_mutex_unlock(&lock);
    return now ? &table : NULL;
}

int gpu_driver_owner(const struct gpu_driver *driver, uint64_t address)
{
    enum { MEMORY_TYPE = 2, ORDINAL = 9, DEVICE = 2 };
    unsigned type = 0;
    int gpu = -1;
    if (driver->pointer_attribute(&type, MEMORY_TYPE, address) || type != DEVICE ||
        driver->pointer_attribute(&gpu, ORDINAL, address))
        return -1;
    return gpu;
}
