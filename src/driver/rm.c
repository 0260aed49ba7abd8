/* SPDX-License-Identifier: Apache-2.0 */
/* See rm.h. Every structure has a status of the driver: ioctl() itself succeeds even when the
 * driver refuses the request. */
#include "driver/rm.h"

#include "base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/* --------------------------------------------------------------- constants and structures */

enum { /* ioctl numbers */
       NV_ESC_RM_FREE = 0x29,
       NV_ESC_RM_CONTROL = 0x2a,
       NV_ESC_RM_ALLOC = 0x2b,
       NV_ESC_RM_DUP_OBJECT = 0x34,
       NV_ESC_RM_MAP_MEMORY = 0x4e,
       NV_ESC_RM_UNMAP_MEMORY = 0x4f,
       NV_ESC_CARD_INFO = 200,
};

enum { /* classes and controls */
       NV01_ROOT_CLIENT = 0x41,
       NV01_DEVICE_0 = 0x80,
       CMD_GPU_GET_ID_INFO_V2 = 0x205,
       CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD = 0x3d06,
       EXPORT_OBJECT_TYPE_RM = 1,
       VA_MODE_OPTIONAL_MULTIPLE = 2,
};

enum { /* statuses that are handled */
       NV_OK = 0,
       NV_ERR_INSUFFICIENT_RESOURCES = 0x1a,
       NV_ERR_NO_MEMORY = 0x51,
       NOT_ANSWERED = 0x7fffffff, /* not a status of the driver: set before each request */
};

struct nvos00_free {
    uint32_t client, parent, old, status;
};

struct nvos21_alloc {
    uint32_t root, parent, new, class;
    uint64_t parameters;
    uint32_t parameter_bytes, status;
};

struct nvos33_map { /* fd: descriptor of the mapping */
    uint32_t client, device, memory, pad;
    uint64_t offset, length, linear;
    uint32_t status, flags;
    int32_t fd;
    uint32_t pad_2;
};

struct nvos34_unmap {
    uint32_t client, device, memory, pad;
    uint64_t linear;
    uint32_t status, flags;
};

struct nvos54_control {
    uint32_t client, object, command, flags;
    uint64_t parameters;
    uint32_t parameter_bytes, status;
};

struct nvos55_duplicate {
    uint32_t client, parent, object, source_client, source_object, flags, status;
};

struct nv0080_device {
    uint32_t device_id, client_share, target_client, target_device, flags, pad;
    uint64_t va_size, va_start, va_limit;
    uint32_t va_mode, pad_2;
};

struct import_object {
    int32_t fd;
    uint32_t type, device, parent, object;
};

struct id_info {
    uint32_t gpu_id, flags, device_instance, subdevice_instance, sli_status, board_id, gpu_instance;
    int32_t numa_id;
};

struct card_info {
    uint8_t valid;
    uint32_t domain;
    uint8_t bus, slot, function;
    uint16_t vendor, device;
    uint32_t gpu_id;
    uint16_t interrupt;
    uint64_t registers, registers_bytes, memory, memory_bytes;
    uint32_t minor;
    uint8_t name[10];
};

_Static_assert(sizeof(struct nvos00_free) == 16 && sizeof(struct nvos21_alloc) == 32 &&
                   sizeof(struct nvos33_map) == 56 && sizeof(struct nvos34_unmap) == 32 &&
                   sizeof(struct nvos54_control) == 32 && sizeof(struct nvos55_duplicate) == 28 &&
                   sizeof(struct nv0080_device) == 56 && sizeof(struct import_object) == 20 &&
                   sizeof(struct id_info) == 32 && sizeof(struct card_info) == 72,
               "the sizes are part of the interface");

enum { MOST_CARDS = 32 };

/* ------------------------------------------------------------------------------------ a client */

/* A GPU that the client has opened. */
struct rm_gpu {
    char bus_id[20];
    char node[32]; /* "/dev/nvidia0" */
    int fd;        /* open device node, which gives access to the GPU */
    uint32_t device;
    struct rm_gpu *next;
};

struct rm {
    int ctl;
    uint32_t client;
    uint32_t last_object;
    struct rm_gpu *gpus;
};

static weft_status send_request(int fd, unsigned number, size_t bytes, void *parameters,
                                const char *what)
{
    if (ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, 'F', number, bytes), parameters) == 0)
        return WEFT_OK;
    return base_fail(WEFT_ERR_UNSUPPORTED, "%s (request %#x of the GPU's driver): %s", what, number,
                     strerror(errno));
}

/* Converts the driver's status of a request whose ioctl() succeeded. */
static weft_status check_answer(uint32_t status, const char *what)
{
    if (status == NV_OK)
        return WEFT_OK;
    if (status == NOT_ANSWERED)
        return base_fail(WEFT_ERR_UNSUPPORTED,
                         "%s: the GPU's driver has set no status: its interface differs from the "
                         "expected one",
                         what);
    return base_fail(status == NV_ERR_INSUFFICIENT_RESOURCES || status == NV_ERR_NO_MEMORY
                         ? WEFT_ERR_NO_MEMORY
                         : WEFT_ERR_UNSUPPORTED,
                     "%s: the GPU's driver refuses with status %#x", what, status);
}

static weft_status allocate_object(struct rm *rm, uint32_t parent, uint32_t class, void *parameters,
                                   size_t bytes, uint32_t *object, const char *what)
{
    struct nvos21_alloc alloc = {.root = rm->client,
                                 .parent = parent,
                                 .new = rm->client ? ++rm->last_object : 0,
                                 .class = class,
                                 .parameters = (uintptr_t)parameters,
                                 .parameter_bytes = (uint32_t)bytes,
                                 .status = NOT_ANSWERED};
    weft_status status = send_request(rm->ctl, NV_ESC_RM_ALLOC, sizeof alloc, &alloc, what);
    if (!status)
        status = check_answer(alloc.status, what);
    *object = alloc.new;
    return status;
}

static weft_status send_control(struct rm *rm, uint32_t command, void *parameters, size_t bytes,
                                const char *what)
{
    struct nvos54_control call = {.client = rm->client,
                                  .object = rm->client,
                                  .command = command,
                                  .parameters = (uintptr_t)parameters,
                                  .parameter_bytes = (uint32_t)bytes,
                                  .status = NOT_ANSWERED};
    weft_status status = send_request(rm->ctl, NV_ESC_RM_CONTROL, sizeof call, &call, what);
    return status ? status : check_answer(call.status, what);
}

static void free_object(struct rm *rm, uint32_t parent, uint32_t object)
{
    struct nvos00_free call = {.client = rm->client, .parent = parent, .old = object};
    ioctl(rm->ctl, _IOC(_IOC_READ | _IOC_WRITE, 'F', NV_ESC_RM_FREE, sizeof call), &call);
}

weft_status rm_open(struct rm **result)
{
    *result = NULL;
    struct rm *rm = calloc(1, sizeof *rm);
    if (!rm)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory");
    rm->last_object = 0x57000000; /* arbitrary; each object needs its own number */
    rm->ctl = open("/dev/nvidiactl", O_RDWR | O_CLOEXEC);
    weft_status status =
        rm->ctl < 0 ? base_fail(WEFT_ERR_UNSUPPORTED, "open of /dev/nvidiactl: %s", strerror(errno))
                    : WEFT_OK;
    if (!status)
        status = allocate_object(rm, 0, NV01_ROOT_CLIENT, NULL, 0, &rm->client, "a client");
    if (status) {
        rm_close(rm);
        return status;
    }
    *result = rm;
    return WEFT_OK;
}

void rm_abandon(struct rm *rm)
{
    if (!rm)
        return;
    for (struct rm_gpu *gpu = rm->gpus; gpu; gpu = gpu->next)
        close(gpu->fd);
    if (rm->ctl >= 0)
        close(rm->ctl);
}

/* Closing the descriptor of a client makes the driver free all its objects. */
void rm_close(struct rm *rm)
{
    if (!rm)
        return;
    rm_abandon(rm);
    while (rm->gpus) {
        struct rm_gpu *first = rm->gpus;
        rm->gpus = first->next;
        free(first);
    }
    free(rm);
}

/* ------------------------------------------------------------------------------------- a GPU */

static weft_status find_card(struct rm *rm, const char *bus_id, struct card_info *found)
{
    struct card_info cards[MOST_CARDS];
    unsigned domain, bus, slot;
    if (sscanf(bus_id, "%x:%x:%x", &domain, &bus, &slot) != 3)
        return base_fail(WEFT_ERR_UNSUPPORTED, "'%s' is not a PCI address", bus_id);
    memset(cards, 0, sizeof cards);
    weft_status status =
        send_request(rm->ctl, NV_ESC_CARD_INFO, sizeof cards, cards, "the list of GPUs");
    if (status)
        return status;
    for (int i = 0; i < MOST_CARDS; i++) {
        if (!cards[i].valid || cards[i].domain != domain || cards[i].bus != bus ||
            cards[i].slot != slot)
            continue;
        *found = cards[i];
        return WEFT_OK;
    }
    return base_fail(WEFT_ERR_UNSUPPORTED, "the GPU's driver lists no GPU at %s", bus_id);
}

/* Opens the device node and keeps it open: the driver lets a process use only GPUs whose nodes it
 * has open. */
static weft_status open_gpu(struct rm *rm, struct rm_gpu *gpu)
{
    struct card_info card;
    weft_status status = find_card(rm, gpu->bus_id, &card);
    if (status)
        return status;
    snprintf(gpu->node, sizeof gpu->node, "/dev/nvidia%u", card.minor);
    gpu->fd = open(gpu->node, O_RDWR | O_CLOEXEC);
    if (gpu->fd < 0)
        return base_fail(WEFT_ERR_UNSUPPORTED, "open of %s: %s", gpu->node, strerror(errno));
    struct id_info id = {.gpu_id = card.gpu_id};
    status = send_control(rm, CMD_GPU_GET_ID_INFO_V2, &id, sizeof id, "a GPU's number");
    struct nv0080_device parameters = {.device_id = id.device_instance,
                                       .client_share = rm->client,
                                       .va_mode = VA_MODE_OPTIONAL_MULTIPLE};
    if (!status)
        status = allocate_object(rm, rm->client, NV01_DEVICE_0, &parameters, sizeof parameters,
                                 &gpu->device, "a device");
    return status;
}

static weft_status gpu_at(struct rm *rm, const char *bus_id, struct rm_gpu **found)
{
    for (struct rm_gpu *gpu = rm->gpus; gpu; gpu = gpu->next) {
        if (strcmp(gpu->bus_id, bus_id) != 0)
            continue;
        *found = gpu;
        return WEFT_OK;
    }
    struct rm_gpu *gpu = calloc(1, sizeof *gpu);
    if (!gpu)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory");
    snprintf(gpu->bus_id, sizeof gpu->bus_id, "%s", bus_id);
    gpu->fd = -1;
    weft_status status = open_gpu(rm, gpu);
    if (status) {
        if (gpu->fd >= 0)
            close(gpu->fd);
        free(gpu);
        return status;
    }
    gpu->next = rm->gpus;
    rm->gpus = gpu;
    *found = gpu;
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------ memory */

weft_status rm_import(struct rm *rm, const char *bus_id, int fd, struct rm_memory *memory)
{
    struct rm_gpu *gpu = NULL;
    weft_status status = gpu_at(rm, bus_id, &gpu);
    if (status || !gpu)
        return status;
    struct import_object import = {
        .fd = fd, .type = EXPORT_OBJECT_TYPE_RM, .device = gpu->device, .parent = gpu->device};
    status = send_control(rm, CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD, &import, sizeof import,
                          "the import of GPU memory");
    if (!status)
        *memory = (struct rm_memory){import.object, gpu};
    return status;
}

weft_status rm_duplicate(struct rm *rm, const char *bus_id, uint32_t client, uint32_t object,
                         struct rm_memory *memory)
{
    static const char what[] = "a reference to memory of the CUDA driver";
    struct rm_gpu *gpu = NULL;
    weft_status status = gpu_at(rm, bus_id, &gpu);
    if (status || !gpu)
        return status;
    struct nvos55_duplicate call = {.client = rm->client,
                                    .parent = gpu->device,
                                    .object = ++rm->last_object,
                                    .source_client = client,
                                    .source_object = object,
                                    .status = NOT_ANSWERED};
    status = send_request(rm->ctl, NV_ESC_RM_DUP_OBJECT, sizeof call, &call, what);
    if (!status)
        status = check_answer(call.status, what);
    if (!status)
        *memory = (struct rm_memory){call.object, gpu};
    return status;
}

void rm_release(struct rm *rm, struct rm_memory *memory)
{
    if (memory->handle)
        free_object(rm, memory->gpu->device, memory->handle);
    *memory = (struct rm_memory){0};
}

static void unmap_memory(struct rm *rm, const struct rm_memory *memory, uint64_t linear)
{
    struct nvos34_unmap call = {.client = rm->client,
                                .device = memory->gpu->device,
                                .memory = memory->handle,
                                .linear = linear};
    ioctl(rm->ctl, _IOC(_IOC_READ | _IOC_WRITE, 'F', NV_ESC_RM_UNMAP_MEMORY, sizeof call), &call);
}

static void leave_reserved(void *at, size_t bytes)
{
    (void)mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
               0);
}

/* The driver keeps one mapping per open file, so each mapping needs a descriptor of its own. The
 * mapping stays after the descriptor is closed. */
weft_status rm_map(struct rm *rm, const struct rm_memory *memory, size_t offset, size_t bytes,
                   void *at, struct rm_mapping *mapping)
{
    int fd = open(memory->gpu->node, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return base_fail(WEFT_ERR_UNSUPPORTED, "open of %s: %s", memory->gpu->node,
                         strerror(errno));
    struct nvos33_map call = {.client = rm->client,
                              .device = memory->gpu->device,
                              .memory = memory->handle,
                              .offset = offset,
                              .length = bytes,
                              .status = NOT_ANSWERED,
                              .fd = fd};
    weft_status status =
        send_request(rm->ctl, NV_ESC_RM_MAP_MEMORY, sizeof call, &call, "a mapping of GPU memory");
    if (!status)
        status = check_answer(call.status, "a mapping of GPU memory");
    if (!status) {
        void *mapped =
            mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0), fd, 0);
        if (mapped == MAP_FAILED) {
            if (at) /* the failed mmap may have removed the reservation */
                leave_reserved(at, bytes);
            status = base_fail(WEFT_ERR_UNSUPPORTED, "mmap of %zu bytes of %s: %s", bytes,
                               memory->gpu->node, strerror(errno));
            unmap_memory(rm, memory, call.linear);
        } else {
            madvise(mapped, bytes, MADV_DONTFORK);
            *mapping = (struct rm_mapping){mapped, bytes, call.linear, *memory};
        }
    }
    close(fd);
    return status;
}

void rm_unmap(struct rm *rm, struct rm_mapping *mapping, int leave)
{
    if (!mapping->at)
        return;
    if (leave)
        leave_reserved(mapping->at, mapping->bytes);
    else
        munmap(mapping->at, mapping->bytes);
    unmap_memory(rm, &mapping->memory, mapping->linear);
    *mapping = (struct rm_mapping){0};
}
