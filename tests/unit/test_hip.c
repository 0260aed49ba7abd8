/* SPDX-License-Identifier: Apache-2.0 */
/* What hip.c translates, over the strict stand-in of HIP (tests/fakehip), and what it says where
 * HIP cannot be used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/status.h"
#include "gpu/device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct gpu_api driver;
static void *library;
static int (*get_last_error)(void), (*set_device)(int), (*get_device)(int *);
static int (*plain_malloc)(CUdeviceptr *, size_t);
static int (*create)(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *,
                     unsigned long long);

/* Whether /dev/kfd exists, and may be opened. */
static bool kfd, kfd_open;
int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode);
int __wrap_access(const char *path, int mode)
{
    if (strcmp(path, "/dev/kfd"))
        return __real_access(path, mode);
    return kfd && (kfd_open || mode == F_OK) ? 0 : -1;
}

static int prepare(void **state)
{
    (void)state;
    setenv("FAKE_GPU", "amd", 1);
    setenv("FAKE_CUDA_DEVICES", "3", 1);
    library = dlopen("libamdhip64.so.7", RTLD_NOW);
    if (!library || gpu_api_open(&driver))
        return -1;
    *(void **)&get_last_error = dlsym(library, "hipGetLastError");
    *(void **)&set_device = dlsym(library, "hipSetDevice");
    *(void **)&get_device = dlsym(library, "hipGetDevice");
    *(void **)&plain_malloc = dlsym(library, "hipMalloc");
    *(void **)&create = dlsym(library, "hipMemCreate");
    return 0;
}

static void chosen_after_cuda(void **state)
{
    (void)state;
    assert_int_equal(driver.vendor, GPU_VENDOR_AMD);
    assert_int_equal(driver.driver_version, 70226015);
    assert_string_equal(base_last_error(), ""); /* that CUDA has no GPU is no error then */
    assert_null(driver.ModuleLoadDataEx);
    assert_null(driver.FlushGPUDirectRDMAWrites);
    assert_null(driver.IpcGetMemHandle);
}

/* HIP has no contexts: one is current after it was pushed, and the program's device is back after
 * it was popped. */
static void contexts(void **state)
{
    CUcontext first, second, now;
    int device;
    (void)state;
    assert_int_equal(driver.CtxGetCurrent(&now), CUDA_SUCCESS);
    assert_null(now); /* device 0 of a thread that has chosen none */
    assert_null(gpu_api_chosen_if_loaded());
    assert_int_equal(driver.CtxPopCurrent(&now), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(driver.DevicePrimaryCtxRetain(&first, 1), CUDA_SUCCESS);
    assert_int_equal(driver.DevicePrimaryCtxRetain(&second, 2), CUDA_SUCCESS);
    assert_int_equal(driver.CtxPushCurrent(first), CUDA_SUCCESS);
    assert_int_equal(driver.CtxPushCurrent(second), CUDA_SUCCESS);
    assert_int_equal(driver.CtxGetDevice(&device), CUDA_SUCCESS);
    assert_int_equal(device, 2);
    assert_int_equal(driver.CtxGetCurrent(&now), CUDA_SUCCESS);
    assert_ptr_equal(now, second);
    assert_int_equal(driver.CtxPopCurrent(&now), CUDA_SUCCESS);
    assert_ptr_equal(now, second);
    assert_int_equal(get_device(&device), 0);
    assert_int_equal(device, 1);
    assert_int_equal(driver.CtxPopCurrent(&now), CUDA_SUCCESS);
    assert_ptr_equal(now, first);
    assert_int_equal(get_device(&device), 0);
    assert_int_equal(device, 0);
    assert_int_equal(set_device(2), 0); /* by the program */
    assert_ptr_equal(gpu_api_chosen_if_loaded(), second);
    struct gpu_device opened;
    assert_int_equal(gpu_device_open(&opened, &driver, second, "1", 0), WEFT_OK);
    assert_int_equal(opened.ordinal, 2); /* before WEFT_GPU */
    assert_string_equal(opened.uuid_text, "GPU-fa4e000100000002");
    assert_string_equal(opened.architecture, "gfx942:sramecc+:xnack-");
    gpu_device_close(&opened);
    assert_int_equal(set_device(0), 0);
    assert_int_equal(driver.CtxSetCurrent(first), CUDA_SUCCESS);
    assert_int_equal(get_device(&device), 0);
    assert_int_equal(device, 1);
    assert_int_equal(set_device(0), 0);
    assert_int_equal(driver.CtxGetCurrent(&now), CUDA_SUCCESS);
    assert_non_null(now); /* the library chose one for this thread before */
}

static void stream_of_a_device(void **state)
{
    CUcontext context, found;
    CUstream stream;
    (void)state;
    driver.DevicePrimaryCtxRetain(&context, 2);
    assert_int_equal(driver.CtxPushCurrent(context), CUDA_SUCCESS);
    assert_int_equal(driver.StreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(driver.CtxPopCurrent(&found), CUDA_SUCCESS);
    assert_int_equal(driver.StreamGetCtx(stream, &found), CUDA_SUCCESS);
    assert_ptr_equal(found, context);
    assert_int_equal(driver.StreamDestroy(stream), CUDA_SUCCESS);
}

static void attributes(void **state)
{
    static const struct {
        int attribute, value;
    } rows[] = {
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 4},
        {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 3},
        {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0},
        {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0},
        {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, 0},
        {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 0},
    };
    int value;
    (void)state;
    setenv("FAKE_CUDA_MODE", "3", 1);
    setenv("FAKE_CUDA_PAGEABLE", "0", 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        value = -1;
        assert_int_equal(driver.DeviceGetAttribute(&value, rows[i].attribute, 1), CUDA_SUCCESS);
        assert_int_equal(value, rows[i].value);
    }
    assert_int_equal(driver.DeviceGetAttribute(&value, 12345, 1), CUDA_ERROR_INVALID_VALUE);
    unsetenv("FAKE_CUDA_MODE");
    unsetenv("FAKE_CUDA_PAGEABLE");
}

static void identity(void **state)
{
    CUuuid uuid;
    char text[64];
    (void)state;
    assert_int_equal(driver.DeviceGetUuid(&uuid, 2), CUDA_SUCCESS);
    assert_memory_equal(uuid.bytes, "fa4e000100000002", 16);
    setenv("FAKE_HIP_UUID", "0", 1);
    assert_int_equal(driver.DeviceGetUuid(&uuid, 2), CUDA_SUCCESS);
    assert_memory_equal(uuid.bytes, "0000:12:00.0\0\0\0\0", 16);
    unsetenv("FAKE_HIP_UUID");
    assert_int_equal(driver.DeviceGetArchitecture(text, sizeof text, 1), CUDA_SUCCESS);
    assert_string_equal(text, "gfx942:sramecc+:xnack-");
}

static void links(void **state)
{
    int value = -1;
    (void)state;
    setenv("FAKE_CUDA_PCIE", "0-1", 1);
    const int atomics = CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED,
              rank = CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK;
    assert_int_equal(driver.DeviceGetP2PAttribute(&value, atomics, 0, 1), CUDA_SUCCESS);
    assert_int_equal(value, 0);
    assert_int_equal(driver.DeviceGetP2PAttribute(&value, atomics, 2, 1), CUDA_SUCCESS);
    assert_int_equal(value, 1);
    assert_int_equal(driver.DeviceGetP2PAttribute(&value, rank, 2, 1), CUDA_SUCCESS);
    assert_int_equal(value, 1);
    assert_int_equal(driver.DeviceGetP2PAttribute(&value, rank, 0, 1), CUDA_SUCCESS);
    assert_int_equal(value, 2);
    assert_int_equal(driver.DeviceGetP2PAttribute(&value, 4, 0, 1), CUDA_ERROR_INVALID_VALUE);
    unsetenv("FAKE_CUDA_PCIE");
}

enum { MIB = 1 << 20 };

/* Makes and maps memory of a device; a kernel of another one may touch it only if it is uncached.
 */
static CUdeviceptr map(CUmemGenericAllocationHandle handle, int by)
{
    CUdeviceptr at;
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, by},
                              CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    assert_int_equal(driver.MemAddressReserve(&at, 2 * MIB, 0, 0, 0), CUDA_SUCCESS);
    assert_int_equal(driver.MemMap(at, 2 * MIB, 0, handle, 0), CUDA_SUCCESS);
    assert_int_equal(driver.MemSetAccess(at, 2 * MIB, &access, 1), CUDA_SUCCESS);
    return at;
}

static CUresult store(int device, CUdeviceptr at)
{
    CUcontext context, popped;
    CUstream stream;
    driver.DevicePrimaryCtxRetain(&context, device);
    assert_int_equal(driver.CtxPushCurrent(context), CUDA_SUCCESS);
    assert_int_equal(driver.StreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    CUresult result = driver.StreamWriteValue64(stream, at, 77, CU_STREAM_WRITE_VALUE_DEFAULT);
    assert_int_equal(driver.StreamSynchronize(stream), CUDA_SUCCESS);
    driver.StreamDestroy(stream);
    driver.CtxPopCurrent(&popped);
    return result;
}

static void drop(CUdeviceptr at, CUmemGenericAllocationHandle handle)
{
    assert_int_equal(driver.MemUnmap(at, 2 * MIB), CUDA_SUCCESS);
    assert_int_equal(driver.MemAddressFree(at, 2 * MIB), CUDA_SUCCESS);
    assert_int_equal(driver.MemRelease(handle), CUDA_SUCCESS);
}

static void heap_memory_is_uncached(void **state)
{
    CUmemAllocationProp want = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 1}},
                        got;
    CUmemGenericAllocationHandle handle;
    uint64_t seen = 0;
    int device, type = want.type;
    (void)state;
    set_device(2);
    assert_int_equal(driver.MemCreate(&handle, 2 * MIB, &want, 0), CUDA_SUCCESS);
    assert_int_equal(get_device(&device), 0);
    assert_int_equal(device, 2);
    assert_int_equal(want.type, type); /* the caller's properties are the caller's */
    assert_int_equal(driver.MemGetAllocationPropertiesFromHandle(&got, handle), CUDA_SUCCESS);
    assert_int_equal(got.type, CU_MEM_ALLOCATION_TYPE_PINNED);
    assert_int_equal(got.location.id, 1);
    CUdeviceptr at = map(handle, 2);
    assert_int_equal(store(2, at), CUDA_SUCCESS);
    assert_int_equal(driver.MemcpyDtoH(&seen, at, 8), CUDA_SUCCESS);
    assert_int_equal(seen, 77);
    drop(at, handle);
    /* What a program creates is coarse-grained, and is told from it. */
    set_device(1);
    assert_int_equal(create(&handle, 2 * MIB, &want, 0), 0);
    assert_int_equal(driver.MemGetAllocationPropertiesFromHandle(&got, handle), CUDA_SUCCESS);
    assert_int_not_equal(got.type, CU_MEM_ALLOCATION_TYPE_PINNED);
    at = map(handle, 2);
    assert_int_equal(store(2, at), CUDA_ERROR_INVALID_VALUE);
    drop(at, handle);
    set_device(0);
}

static void plain_memory_is_uncached(void **state)
{
    CUcontext peer, popped;
    CUdeviceptr ours, theirs;
    (void)state;
    assert_int_equal(driver.MemAlloc(&ours, 4096), CUDA_SUCCESS); /* on device 0 */
    assert_int_equal(plain_malloc(&theirs, 4096), 0);
    driver.DevicePrimaryCtxRetain(&peer, 1);
    driver.CtxPushCurrent(peer);
    CUcontext zero;
    driver.DevicePrimaryCtxRetain(&zero, 0);
    assert_int_equal(driver.CtxEnablePeerAccess(zero, 0), CUDA_SUCCESS);
    assert_int_equal(driver.CtxEnablePeerAccess(zero, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    driver.CtxPopCurrent(&popped);
    assert_int_equal(store(1, ours), CUDA_SUCCESS);
    assert_int_equal(store(1, theirs), CUDA_ERROR_INVALID_VALUE);
    driver.CtxPushCurrent(peer);
    assert_int_equal(driver.CtxDisablePeerAccess(zero), CUDA_SUCCESS);
    driver.CtxPopCurrent(&popped);
    assert_int_equal(driver.MemFree(ours), CUDA_SUCCESS);
    assert_int_equal(driver.MemFree(theirs), CUDA_SUCCESS);
}

static void host_memory_is_coherent(void **state)
{
    void *host;
    (void)state;
    assert_int_equal(
        driver.MemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
        CUDA_SUCCESS);
    assert_int_equal(store(1, (uintptr_t)host), CUDA_SUCCESS);
    assert_int_equal(*(uint64_t *)host, 77);
    assert_int_equal(driver.MemFreeHost(host), CUDA_SUCCESS);
}

static void copies(void **state)
{
    CUdeviceptr at;
    CUstream stream;
    uint64_t sent = 0x0123456789abcdef, came = 0;
    (void)state;
    assert_int_equal(driver.MemAlloc(&at, 4096), CUDA_SUCCESS);
    assert_int_equal(driver.StreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(driver.MemcpyAsync(at + 8, (uintptr_t)&sent, 8, stream), CUDA_SUCCESS);
    assert_int_equal(driver.MemcpyAsync((uintptr_t)&came, at + 8, 8, stream), CUDA_SUCCESS);
    assert_int_equal(driver.StreamSynchronize(stream), CUDA_SUCCESS);
    assert_int_equal(came, sent);
    driver.StreamDestroy(stream);
    driver.MemFree(at);
}

static void shared_memory(void **state)
{
    const int which = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    (void)state;
    assert_int_equal(driver.FuncSetAttribute(NULL, which, 65536), CUDA_SUCCESS);
    assert_int_equal(driver.FuncSetAttribute(NULL, which, 65537), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(driver.FuncSetAttribute(NULL, which + 1, 1), CUDA_ERROR_INVALID_VALUE);
}

/* PTX is no code for a GPU of AMD. */
static void code_of_another_vendor(void **state)
{
    CUmodule module;
    (void)state;
    assert_int_equal(driver.ModuleLoadData(&module, "\n.version 8.0"),
                     CUDA_ERROR_NO_BINARY_FOR_GPU);
}

/* The program may ask HIP for the last error of the thread: those of the library are not its. */
static void errors_are_not_the_program_s(void **state)
{
    unsigned type;
    (void)state;
    assert_int_equal(
        driver.PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)&type),
        CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(get_last_error(), 0);
    set_device(99);
    assert_int_equal(get_last_error(), 101);
}

static void words(void **state)
{
    static const char *const rows[][2] = {
        {"cuStreamCreate on GPU 3", "hipStreamCreateWithFlags on GPU 3"},
        {"(cuMemAlloc)", "(hipExtMallocWithFlags)"},
        {"cuCtxSomething, cudaSetDevice(2)", "hipCtxSomething, hipSetDevice(2)"},
        {"cudaMallocHost() or cudaMalloc()", "hipHostMalloc() or hipMalloc()"},
        {"the CUDA driver; CUDA_VISIBLE_DEVICES may", "the HIP driver; HIP_VISIBLE_DEVICES may"},
        {"cubins, custom and libcuda", "cubins, custom and libcuda"},
        {"", ""},
    };
    char text[80], error[80];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        snprintf(text, sizeof text, "%s", rows[i][0]);
        gpu_api_translate(&driver, text, sizeof text);
        assert_string_equal(text, rows[i][1]);
    }
    snprintf(text, sizeof text, "cuMemAlloc");
    gpu_api_translate(&driver, text, 12); /* what has no room is cut */
    assert_string_equal(text, "hipExtMallo");
    assert_int_equal(gpu_api_fail(&driver, CUDA_ERROR_OUT_OF_MEMORY, "cuMemAlloc of %d", 7),
                     WEFT_ERR_NO_MEMORY);
    assert_string_equal(base_last_error(),
                        "hipExtMallocWithFlags of 7: hipErrorOutOfMemory (2, out of memory)");
    assert_string_equal(gpu_api_error_text(&driver, 700, error, sizeof error),
                        "hipErrorIllegalAddress (700, from the stand-in)");
}

static void says(const char *expected)
{
    struct gpu_api other;
    assert_int_equal(gpu_api_open(&other), WEFT_ERR_UNSUPPORTED);
    if (!strstr(base_last_error(), expected))
        fail_msg("\"%s\" without \"%s\"", base_last_error(), expected);
    assert_null(other.MemCreate);
}

/* Which of the two libraries the message is about. */
static void why_not(void **state)
{
    (void)state;
    setenv("FAKE_CUDA_DEVICES", "0", 1);
    gpu_api_prefer(GPU_VENDOR_AMD); /* as where the program itself uses HIP */
    says("HIP sees no GPU: HIP_VISIBLE_DEVICES");
    gpu_api_prefer(GPU_VENDOR_NVIDIA);
    says("cuInit: CUDA_ERROR_NO_DEVICE");
    kfd = kfd_open = true;
    says("HIP sees no GPU: HIP_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES may hide it");
    kfd_open = false;
    says("HIP sees no GPU: this user may not open /dev/kfd; add the user to the group");
    setenv("FAKE_CUDA_DEVICES", "3", 1);
    setenv("FAKE_HIP_VERSION", "60342133", 1);
    says("AMD's HIP runtime is too old: it is 6.3, Weft needs 7.2 (ROCm 7.2)");
    unsetenv("FAKE_HIP_VERSION");
    kfd = false;
    setenv("FAKE_GPU", "", 1);
    struct gpu_api other;
    assert_int_equal(gpu_api_open(&other), WEFT_OK);
    assert_int_equal(other.vendor, GPU_VENDOR_NVIDIA);
    gpu_api_close(&other);
    setenv("FAKE_GPU", "amd", 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chosen_after_cuda),
        cmocka_unit_test(contexts),
        cmocka_unit_test(stream_of_a_device),
        cmocka_unit_test(attributes),
        cmocka_unit_test(identity),
        cmocka_unit_test(links),
        cmocka_unit_test(heap_memory_is_uncached),
        cmocka_unit_test(plain_memory_is_uncached),
        cmocka_unit_test(host_memory_is_coherent),
        cmocka_unit_test(copies),
        cmocka_unit_test(shared_memory),
        cmocka_unit_test(code_of_another_vendor),
        cmocka_unit_test(errors_are_not_the_program_s),
        cmocka_unit_test(words),
        cmocka_unit_test(why_not),
    };
    (void)argv;
    if (argc > 1) { /* without the stand-ins: no library at all */
        kfd = kfd_open = true;
        says("AMD's HIP runtime cannot be loaded (libamdhip64.so.7: ");
        says("install ROCm 7.2 or newer");
        kfd = false;
        says("the CUDA driver cannot be loaded");
        return 0;
    }
    return cmocka_run_group_tests(tests, prepare, NULL);
}
