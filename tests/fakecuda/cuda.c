/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in of libcuda.so.1 for tests on machines without a GPU. GPU memory is a memfd, an
 * exported handle is its descriptor, and the library's own kernels run as blocks of one thread
 * (kernels.c), at once, late or reordered between streams (stream.c). Device addresses differ from
 * the addresses at which the CPU can access the memory, so that library code that accesses them by
 * mistake crashes. It counts all live objects, so that a test can find leaks. This file: driver,
 * devices, memory.
 *
 * Environment:
 *   FAKE_GPU              amd: the driver sees no GPU, since they are AMD's (tests/fakehip); both:
 *                         HIP sees the same GPUs
 *   FAKE_CUDA_DEVICES (2), FAKE_CUDA_MEMORY in MiB (8192), FAKE_CUDA_VERSION (13000)
 *   FAKE_CUDA_MODE (0)    compute mode
 *   FAKE_CUDA_PEER and other settings of links: see links.c
 *   FAKE_CUDA_VMM (1)
 *   FAKE_CUDA_INIT        result of cuInit
 *   FAKE_CUDA_LIE         1: stores to a peer's memory do not arrive; 2: only those of path test
 *                         kernels
 *   FAKE_CUDA_TORN        the LL128 test sees torn lines: 1: always; 2: with several blocks; 3:
 *                         after 256 stores of 16 bytes by a block; 4: from the second kernel on
 *   FAKE_CUDA_REFUSE      1: peer access is reported but cannot be enabled
 *   FAKE_CUDA_ORDER       immediate, delayed or reordered: see stream.c
 *   FAKE_CUDA_BLOCKS      reverse or random: the order in which the blocks of a collective's kernel
 *                         run, each to its end; otherwise by their index
 *   FAKE_CUDA_IPC         see plain.c
 *   FAKE_CUDA_SEED        seed of its delays
 *   FAKE_CUDA_MULTICAST   1: the driver offers multicast objects (only the attribute)
 *   FAKE_CUDA_PAGEABLE    1: the device accesses pageable host memory itself, when the copy
 *                         executes
 *   FAKE_CUDA_DMABUF      1: memory can be exported as a dma-buf
 *   FAKE_CUDA_RDMA        1: GPUDirect RDMA is supported
 *   FAKE_CUDA_REGISTER    1: host memory can be registered
 *   FAKE_CUDA_FLUSH       1: the driver flushes writes of NICs
 *   FAKE_CUDA_NIC_ORDER   (0) 200: writes of NICs need no flush
 *   FAKE_CUDA_GBPS (400)  GB/s of copies between GPUs, which the times of events show; 55 GB/s to
 *                         and from the host
 *   FAKE_CUDA_SLOW        "1-0": half of that rate from GPU 1 to GPU 0
 *   FAKE_CUDA_FLAG_NS (630)  latency of an echo in ns */
#include "fake.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct object objects[MOST];
_Atomic int objects_end = 1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic size_t used_bytes[DEVICES]; /* PEs may be threads */
static unsigned long long numbers;
static unsigned peers[DEVICES]; /* enabled access, as one bit for each device */
static _Thread_local CUcontext stack[16];
static _Thread_local int depth;
static int initialized;

int setting(const char *name, int preset)
{
    const char *text = getenv(name);
    return text ? atoi(text) : preset;
}

bool fake_is_amd(void)
{
    const char *text = getenv("FAKE_GPU");
    return text && (strcmp(text, "amd") == 0 || strcmp(text, "both") == 0);
}

struct object *new_object_of(int kind, CUdevice device)
{
    struct object *found = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 1; i < MOST && !found; i++)
        if (objects[i].kind == FREE)
            found = &objects[i];
    if (found) {
        found->base = 0;
        found->bytes = 0;
        memset(&found->fd, 0, sizeof *found - offsetof(struct object, fd));
        found->fd = -1;
        found->device = device;
        found->number = ++numbers;
        found->kind = kind;
    }
    if (found >= &objects[objects_end])
        objects_end = (int)(found - objects) + 1;
    pthread_mutex_unlock(&lock);
    if (!found)
        abort();
    return found;
}

struct object *new_object(int kind)
{
    return new_object_of(kind, 0);
}

static struct object *object(unsigned long long number, int kind)
{
    return number > 0 && number < MOST && (int)objects[number].kind == kind ? &objects[number]
                                                                            : NULL;
}

static unsigned long long number_of(const struct object *o)
{
    return (unsigned long long)(o - objects);
}

struct object *find(int kind, uintptr_t address)
{
    for (int i = 1; i < objects_end; i++)
        if ((int)objects[i].kind == kind && address - objects[i].base < objects[i].bytes)
            return &objects[i];
    return NULL;
}

/* For tests: the number of live objects, to find leaks. */
EXPORT int fake_cuda_live(void);
EXPORT int fake_cuda_live(void)
{
    int live = 0;
    for (int i = 1; i < objects_end; i++)
        live += objects[i].kind != FREE;
    return live;
}

EXPORT void fake_cuda_list(void);
EXPORT void fake_cuda_list(void)
{
    static const char *const names[] = {"free",  "handle",     "reservation", "mapping",
                                        "host",  "registered", "device",      "stream",
                                        "event", "module",     "context"};
    for (int i = 1; i < objects_end; i++)
        if (objects[i].kind != FREE)
            fprintf(stderr, "alive: %s %#zx %zu\n", names[objects[i].kind], objects[i].base,
                    objects[i].bytes);
}

/* Forgets all objects, including those that a failed release left. */
EXPORT void fake_cuda_reset(void);
EXPORT void fake_cuda_reset(void)
{
    streams_reset();
    for (int i = 1; i < objects_end; i++)
        if (objects[i].kind == HANDLE || objects[i].kind == DEVICE)
            close(objects[i].fd);
    memset(objects, 0, sizeof objects);
    objects_end = 1;
    for (int i = 0; i < DEVICES; i++)
        used_bytes[i] = 0;
    memset(peers, 0, sizeof peers);
    depth = 0;
}

/* ------------------------------------------------------------------------------ driver, devices */

EXPORT CUresult cuInit(unsigned flags)
{
    if (fake_is_amd() && strcmp(getenv("FAKE_GPU"), "amd") == 0)
        return CUDA_ERROR_NO_DEVICE;
    initialized = 1;
    return setting("FAKE_CUDA_DEVICES", 2) ? setting("FAKE_CUDA_INIT", 0) : CUDA_ERROR_NO_DEVICE;
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
    *version = setting("FAKE_CUDA_VERSION", 13000);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorName(CUresult result, const char **name)
{
    static const struct {
        const char *name;
        int value;
    } names[] = {
#define NAME(name, value) {#name, value},
        CUDA_CONSTANTS(NAME)
#undef NAME
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i].value == result && strncmp(names[i].name, "CUDA_", 5) == 0) {
            *name = names[i].name;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGetErrorString(CUresult result, const char **text)
{
    *text = result == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "from the stand-in";
    return CUDA_SUCCESS;
}

/* Parses CUDA_VISIBLE_DEVICES with plain numbers. HIP reads it too, after its own variable. */
static int visible(int *list)
{
    int all = setting("FAKE_CUDA_DEVICES", 2), count = 0;
    const char *text = fake_is_amd() ? getenv("HIP_VISIBLE_DEVICES") : NULL;
    if (!text)
        text = getenv("CUDA_VISIBLE_DEVICES");
    for (int i = 0; !text && i < all; i++)
        list[count++] = i;
    while (text && *text && count < DEVICES) {
        char *end;
        long device = strtol(text, &end, 10);
        if (end == text || device < 0 || device >= all)
            break;
        list[count++] = (int)device;
        text = *end == ',' ? end + 1 : end;
    }
    return count;
}

EXPORT CUresult cuDeviceGetCount(int *count)
{
    int list[DEVICES];
    *count = visible(list);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    int list[DEVICES];
    *device = ordinal;
    return ordinal >= 0 && ordinal < visible(list) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

int fake_physical(CUdevice device)
{
    int list[DEVICES];
    return device >= 0 && device < visible(list) ? list[device] : 0;
}

EXPORT CUresult cuDeviceGetName(char *name, int bytes, CUdevice device)
{
    snprintf(name, (size_t)bytes, "Stand-in GPU");
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    memset(uuid, 0, sizeof *uuid);
    memcpy(uuid->bytes, "\xfa\x4e\x00\x01", 4);
    uuid->bytes[15] = (char)fake_physical(device);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
        *value = setting("FAKE_CUDA_MODE", 0);
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = setting("FAKE_CUDA_MAJOR", 9);
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = 0;
        break;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        *value = setting("FAKE_CUDA_VMM", 1);
        break;
    case 116: /* CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED */
        *value = setting("FAKE_CUDA_RDMA", 1);
        break;
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
        *value = setting("FAKE_CUDA_MULTICAST", 1);
        break;
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
        *value = setting("FAKE_CUDA_PAGEABLE", 1);
        break;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS:
        *value = setting("FAKE_CUDA_FLUSH", 1);
        break;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING:
        *value = setting("FAKE_CUDA_NIC_ORDER", 0);
        break;
    default:
        *value = 1;
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    *bytes = (size_t)setting("FAKE_CUDA_MEMORY", 8192) << 20;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetPCIBusId(char *text, int bytes, CUdevice device)
{
    snprintf(text, (size_t)bytes, "0000:%02X:00.0", 0x10 + fake_physical(device));
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------------------------ contexts */

/* One object each time a thread retains a device's context; several threads may do this at once. */
/* A device has one primary context, which ends with its last release. */
EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    static pthread_mutex_t retaining = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&retaining);
    *context = fake_context_of(device);
    if (!*context)
        *context = (CUcontext)new_object_of(CONTEXT, device);
    pthread_mutex_lock(&lock);
    ((struct object *)*context)->uses++;
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&retaining);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    CUresult result = CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&lock);
    for (int i = 1; i < objects_end && result; i++) {
        if (objects[i].kind == CONTEXT && objects[i].device == device) {
            if (--objects[i].uses == 0)
                objects[i].kind = FREE;
            result = CUDA_SUCCESS;
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUcontext fake_context_of(int device)
{
    CUcontext context = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 1; i < objects_end && !context; i++)
        if (objects[i].kind == CONTEXT && objects[i].device == device)
            context = (CUcontext)&objects[i];
    pthread_mutex_unlock(&lock);
    return context;
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *context)
{
    *context = depth ? stack[depth - 1] : NULL;
    return initialized ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    if (depth == 16)
        return CUDA_ERROR_UNKNOWN;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

/* In place of the current context, if there is one. */
EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
    if (depth)
        depth--;
    return cuCtxPushCurrent_v2(context);
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    if (!depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    *context = stack[--depth];
    return CUDA_SUCCESS;
}

static int current_device(void)
{
    return depth ? ((struct object *)stack[depth - 1])->device : 0;
}

int fake_current_device(void)
{
    return depth ? current_device() : -1;
}

void fake_set_device(int device)
{
    static struct object primary[DEVICES];
    primary[device].kind = CONTEXT;
    primary[device].device = device;
    cuCtxSetCurrent((CUcontext)&primary[device]);
}

bool fake_peer_open(CUdevice by, CUdevice of)
{
    return peers[by] & 1u << of;
}

EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    int device = ((struct object *)peer)->device;
    unsigned bit = 1u << device;
    if (!fake_peers(fake_physical(current_device()), fake_physical(device)) ||
        setting("FAKE_CUDA_REFUSE", 0))
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    if (peers[current_device()] & bit)
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    peers[current_device()] |= bit;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    unsigned bit = 1u << ((struct object *)peer)->device;
    if (!(peers[current_device()] & bit))
        return CUDA_ERROR_INVALID_VALUE;
    peers[current_device()] &= ~bit;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
    if (!depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    *device = ((struct object *)stack[depth - 1])->device;
    return CUDA_SUCCESS;
}

/* -------------------------------------------------------------------------------------- memory */

EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    CUdevice device;
    CUresult result = cuCtxGetDevice(&device);
    if (result)
        return result;
    cuDeviceTotalMem_v2(total_bytes, device);
    *free_bytes = *total_bytes - used_bytes[fake_physical(device)];
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *properties,
                                              int option)
{
    *bytes = GRANULARITY;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment,
                                    CUdeviceptr wish, unsigned long long flags)
{
    if (!alignment) /* the driver chooses the alignment */
        alignment = GRANULARITY;
    size_t room = bytes + alignment;
    char *base = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uintptr_t start = ((uintptr_t)base + alignment - 1) / alignment * alignment;
    munmap(base, start - (uintptr_t)base);
    munmap((char *)start + bytes, room - bytes - (start - (uintptr_t)base));
    struct object *o = new_object(RESERVATION);
    o->base = start & ~DEVICE_BIT;
    o->bytes = bytes;
    *address = o->base;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes)
{
    struct object *o = find(RESERVATION, address);
    if (!o || o->base != address || o->bytes != bytes)
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 1; i < objects_end; i++) /* a mapping in it still exists */
        if (objects[i].kind == MAPPING && objects[i].base - address < bytes)
            return CUDA_ERROR_INVALID_VALUE;
    munmap(memory_at(address), bytes);
    o->kind = FREE;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                            const CUmemAllocationProp *properties, unsigned long long flags)
{
    int device = fake_physical(properties->location.id);
    size_t total;
    cuDeviceTotalMem_v2(&total, properties->location.id);
    if (bytes % GRANULARITY || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (used_bytes[device] + bytes > total)
        return CUDA_ERROR_OUT_OF_MEMORY;
    bool coarse = fake_is_amd() && properties->type == CU_MEM_ALLOCATION_TYPE_PINNED;
    char name[40]; /* the name tells an importing process which GPU owns the memory */
    snprintf(name, sizeof name, "fake-gpu-memory-%d%s", device, coarse ? "-coarse" : "");
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)bytes))
        return CUDA_ERROR_OPERATING_SYSTEM;
    struct object *o = new_object(HANDLE);
    o->fd = fd;
    o->bytes = bytes;
    o->device = device;
    o->handle_types = properties->requestedHandleTypes;
    o->type = properties->type;
    o->coarse = coarse;
    o->uses = 1;
    used_bytes[device] += bytes;
    *handle = number_of(o);
    return CUDA_SUCCESS;
}

static void unuse(struct object *o)
{
    if (--o->uses)
        return;
    if (!o->imported)
        used_bytes[o->device] -= o->bytes;
    close(o->fd);
    o->kind = FREE;
}

EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    struct object *o = object(handle, HANDLE);
    if (!o)
        return CUDA_ERROR_INVALID_VALUE;
    unuse(o);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                         CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    struct object *o = object(handle, HANDLE), *r = find(RESERVATION, address);
    if (!o || !r || bytes > o->bytes || address + bytes > r->base + r->bytes ||
        find(MAPPING, address))
        return CUDA_ERROR_INVALID_VALUE;
    int lie = o->imported && setting("FAKE_CUDA_LIE", 0) == 1;
    if (mmap(memory_at(address), bytes, PROT_NONE, (lie ? MAP_PRIVATE : MAP_SHARED) | MAP_FIXED,
             o->fd, (off_t)offset) == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct object *m = new_object(MAPPING);
    m->base = address;
    m->bytes = bytes;
    m->device = (int)number_of(o);
    o->uses++;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
    struct object *m = find(MAPPING, address);
    if (!m || m->base != address || m->bytes != bytes)
        return CUDA_ERROR_INVALID_VALUE;
    mmap(memory_at(address), bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    unuse(&objects[m->device]);
    m->kind = FREE;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access,
                               size_t count)
{
    struct object *m = find(MAPPING, address);
    if (!m || count != 1 || access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return CUDA_ERROR_INVALID_VALUE;
    int by = fake_physical(access->location.id), of = objects[m->device].device;
    if (by != of && (!fake_peers(by, of) || setting("FAKE_CUDA_REFUSE", 0)))
        return CUDA_ERROR_INVALID_DEVICE;
    m->access |= 1u << access->location.id;
    return mprotect(memory_at(address), bytes, PROT_READ | PROT_WRITE) ? CUDA_ERROR_INVALID_VALUE
                                                                       : CUDA_SUCCESS;
}

EXPORT CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
                                             int type, unsigned long long flags)
{
    struct object *o = object(handle, HANDLE);
    if (!o || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !(o->handle_types & type))
        return CUDA_ERROR_INVALID_VALUE;
    *(int *)shareable = dup(o->fd);
    return CUDA_SUCCESS;
}

/* The GPU that owns imported memory. */
static int device_of_memory(int fd, bool *coarse)
{
    char link[40], name[80] = "";
    int device = 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (readlink(link, name, sizeof name - 1) > 0)
        sscanf(name, "/memfd:fake-gpu-memory-%d", &device);
    *coarse = strstr(name, "-coarse") != NULL;
    return device;
}

EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
                                               void *shareable, int type)
{
    int fd = dup((int)(intptr_t)shareable);
    off_t bytes = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    if (bytes <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct object *o = new_object(HANDLE);
    o->fd = fd;
    o->bytes = (size_t)bytes;
    o->device = device_of_memory(fd, &o->coarse);
    o->type = CU_MEM_ALLOCATION_TYPE_PINNED;
    o->uses = 1;
    o->imported = 1;
    *handle = number_of(o);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    struct object *m = find(MAPPING, (uintptr_t)address);
    if (!m)
        return CUDA_ERROR_INVALID_VALUE;
    objects[m->device].uses++;
    *handle = (unsigned long long)m->device;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties,
                                                       CUmemGenericAllocationHandle handle)
{
    struct object *o = object(handle, HANDLE);
    if (!o)
        return CUDA_ERROR_INVALID_VALUE;
    *properties = (CUmemAllocationProp){
        .type = o->type,
        .requestedHandleTypes = o->handle_types,
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, o->device},
    };
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address, size_t bytes,
                                              int type, unsigned long long flags)
{
    struct object *o = find(DEVICE, address);
    if (!o)
        o = find(MAPPING, address);
    if (!setting("FAKE_CUDA_DMABUF", 1))
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!o || address + bytes > o->base + o->bytes || address % 4096 || bytes % 4096)
        return CUDA_ERROR_INVALID_VALUE;
    if (setting("FAKE_CUDA_DMABUF", 1) == 2) { /* a descriptor that can be mapped */
        struct object *memory = o->kind == MAPPING ? &objects[o->device] : NULL;
        if (!memory || address != o->base)
            return CUDA_ERROR_INVALID_VALUE;
        *(int *)handle = dup(memory->fd);
        return CUDA_SUCCESS;
    }
    int fd = memfd_create("fake-dma-buf", MFD_CLOEXEC);
    const uint64_t range[2] = {address, bytes}; /* for other stand-ins that import it */
    if (fd < 0 || write(fd, range, sizeof range) != sizeof range)
        return CUDA_ERROR_OPERATING_SYSTEM;
    *(int *)handle = fd;
    return CUDA_SUCCESS;
}

static void (*on_flush)(void);

/* For a stand-in of a NIC: a function to call at a flush. */
EXPORT void fake_cuda_on_flush(void (*function)(void));
EXPORT void fake_cuda_on_flush(void (*function)(void))
{
    on_flush = function;
}

EXPORT CUresult cuFlushGPUDirectRDMAWrites(int target, int scope)
{
    if (target != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX ||
        scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES || !depth)
        return CUDA_ERROR_INVALID_VALUE;
    if (on_flush)
        on_flush();
    return CUDA_SUCCESS;
}

static CUresult allocate(int kind, uintptr_t *address, size_t bytes)
{
    size_t room = (bytes + 4095) & ~4095ul;
    void *base = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!bytes || base == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct object *o = new_object(kind);
    o->base = (uintptr_t)base;
    o->bytes = room;
    *address = o->base;
    return CUDA_SUCCESS;
}

static CUresult release(int kind, uintptr_t address)
{
    struct object *o = find(kind, address);
    if (!o || o->base != address)
        return CUDA_ERROR_INVALID_VALUE;
    if (kind != REGISTERED)
        munmap(memory_at(o->base), o->bytes);
    o->kind = FREE;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned flags)
{
    return allocate(HOST, (uintptr_t *)address, bytes);
}

EXPORT CUresult cuMemFreeHost(void *address)
{
    return release(HOST, (uintptr_t)address);
}

EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *address, unsigned flags)
{
    *device = (uintptr_t)address;
    return find(HOST, (uintptr_t)address) || find(REGISTERED, (uintptr_t)address)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

/* There is no I/O memory to register. */
EXPORT CUresult cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags)
{
    if (flags & CU_MEMHOSTREGISTER_IOMEMORY || !setting("FAKE_CUDA_REGISTER", 1))
        return CUDA_ERROR_INVALID_VALUE;
    struct object *o = new_object(REGISTERED);
    o->base = (uintptr_t)address;
    o->bytes = bytes;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostUnregister(void *address)
{
    return release(REGISTERED, (uintptr_t)address);
}

EXPORT CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr address)
{
    struct object *o = find(DEVICE, address);
    int type = 0;
    if (o || (o = find(MAPPING, address)))
        type = CU_MEMORYTYPE_DEVICE;
    else if ((o = find(HOST, address)) || (o = find(REGISTERED, address)))
        type = CU_MEMORYTYPE_HOST;
    if (!type)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
        *(unsigned *)value = (unsigned)type;
    else if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
        *(int *)value = o->kind == MAPPING ? objects[o->device].device : o->device;
    else if (attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID)
        *(unsigned long long *)value = o->number;
    else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
        *(CUdeviceptr *)value = o->base;
    else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
        *(size_t *)value = o->bytes;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}
