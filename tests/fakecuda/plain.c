/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of cuMemAlloc() in the stand-in of the CUDA driver. As in the driver it lies within
 * blocks, each of which is a memfd; small allocations begin at an offset. FAKE_CUDA_IPC chooses the
 * handle for other processes: 1: its words are at the positions of driver 580; 0: none; 2: the
 * words are elsewhere; 3: a handle of other memory. */
#include "fake.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SMALL = 1 << 20, SMALL_LEAD = 65536 + 8192, PAGE = 4096 };

/* tests/fakerm uses the same numbers. */
enum { CLIENT = 0xc1d0f00d, FIRST_OBJECT = 0x5c000000, FIRST_GPU = 0x100 };

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
    int device = fake_current_device() < 0 ? 0 : fake_current_device();
    size_t lead = bytes < SMALL ? SMALL_LEAD : 0;
    size_t room = (lead + bytes + GRANULARITY - 1) / GRANULARITY * GRANULARITY;
    char name[32];
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(name, sizeof name, "fake-gpu-memory-%d", fake_physical(device));
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)room))
        return CUDA_ERROR_OPERATING_SYSTEM;
    /* At an address with the alignment of blocks. */
    char *area = mmap(NULL, room + GRANULARITY, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    char *base = (char *)(((uintptr_t)area + GRANULARITY - 1) / GRANULARITY * GRANULARITY);
    if (base > area)
        munmap(area, (size_t)(base - area));
    munmap(base + room, (size_t)(area + GRANULARITY - base));
    if (mmap(base, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct object *o = new_object_of(DEVICE, device);
    o->base = ((uintptr_t)base + lead) & ~DEVICE_BIT;
    o->bytes = (bytes + PAGE - 1) / PAGE * PAGE;
    o->lead = lead;
    o->fd = fd;
    *address = o->base;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr address)
{
    struct object *o = find(DEVICE, address);
    if (!o || o->base != address)
        return CUDA_ERROR_INVALID_VALUE;
    size_t room = (o->lead + o->bytes + GRANULARITY - 1) / GRANULARITY * GRANULARITY;
    munmap((char *)memory_at(o->base) - o->lead, room);
    close(o->fd);
    o->kind = FREE;
    return CUDA_SUCCESS;
}

/* For stand-ins that map it: a descriptor of the block that contains the address, and the offset in
 * it; -1: none. */
EXPORT int fake_cuda_plain(CUdeviceptr address, size_t *offset);
EXPORT int fake_cuda_plain(CUdeviceptr address, size_t *offset)
{
    for (int i = 1; i < objects_end; i++) {
        const struct object *o = &objects[i];
        if (o->kind != DEVICE || address - (o->base - o->lead) >= o->lead + o->bytes)
            continue;
        *offset = address - (o->base - o->lead);
        return dup(o->fd);
    }
    return -1;
}

EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
    struct object *o = find(DEVICE, address);
    int kind = setting("FAKE_CUDA_IPC", 1), at = kind == 2;
    uint32_t words[16] = {0};
    if (!o || o->base != address || !kind || fake_current_device() < 0)
        return CUDA_ERROR_INVALID_VALUE;
    int fd = o->fd;
    for (int i = 1; i < objects_end && kind == 3; i++)
        if (objects[i].kind == HANDLE)
            fd = objects[i].fd;
    words[at + 7] = (uint32_t)o->lead;
    words[at + 8] = FIRST_GPU + (uint32_t)fake_physical(o->device);
    words[at + 12] = CLIENT;
    words[at + 13] = FIRST_OBJECT + (uint32_t)fd;
    memcpy(handle, words, sizeof words);
    return CUDA_SUCCESS;
}

/* --------------------------------------------------------------------------- synchronous copies */

EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    memcpy(memory_at(to), from, bytes);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    memcpy(to, memory_at(from), bytes);
    return CUDA_SUCCESS;
}
