/* SPDX-License-Identifier: Apache-2.0 */
/* Windows, chunks and their exchange between the PEs of a node. See heap.h. */
#include "gpu/heap.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "boot/agree.h"
#include "gpu/map/map.h"
#include "gpu/multipath/relay.h"
#include "gpu/users.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    WINDOW_ALIGN = 1 << 30, /* bytes */
    UNITS_WANTED =
        1024, /* of a window between nodes, at most, unless a unit would exceed GPU_FIRST_CHUNK */
    LARGEST_STEP = 1 << 30, /* bytes by which the heap grows at most, beyond what is requested */
};

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

CUmemAllocationProp gpu_heap_properties(const struct gpu_device *device)
{
    CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, device->device},
    };
    properties.allocFlags.gpuDirectRDMACapable = device->rdma;
    return properties;
}

/* ----------------------------------------------------------------------- own part of a chunk */

static weft_status fail_out_of_memory(const struct gpu_heap *heap, size_t bytes)
{
    char gpu[160], users[384];
    size_t free_bytes, total_bytes;
    gpu_device_memory(heap->device, &free_bytes, &total_bytes);
    gpu_memory_users(heap->device, users, sizeof users);
    return gpu_api_refuse(
        heap->device->driver, WEFT_ERR_NO_MEMORY,
        "cuMemCreate: %s has no %zu MiB more for the GPU heap: %zu of %zu MiB are free, "
        "this heap holds %zu MiB; %s",
        gpu_device_text(heap->device, gpu, sizeof gpu), bytes >> 20, free_bytes >> 20,
        total_bytes >> 20, heap->backed >> 20, users);
}

static weft_status allow_access(const struct gpu_heap *heap, const struct gpu_device *by,
                                CUdeviceptr address, size_t bytes)
{
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, by->device},
                              CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult result = heap->device->driver->MemSetAccess(address, bytes, &access, 1);
    return result ? gpu_api_fail(heap->device->driver, result,
                                 "cuMemSetAccess of %zu MiB for GPU %d", bytes >> 20, by->ordinal)
                  : WEFT_OK;
}

static bool is_open_to(const struct gpu_heap *heap, int slot, int relay)
{
    const struct gpu_window *window = &heap->windows[slot];
    if (slot == heap->boot->local_pe)
        return gpu_relay_used(heap, relay);
    return window->relay == relay || atomic_load(&window->stripes) & 1u << relay;
}

/* The own part is open to every relay GPU in use, a peer's part to those that carry data from and
 * to it. */
static weft_status allow_relays(const struct gpu_heap *heap, int slot, CUdeviceptr address,
                                size_t bytes)
{
    weft_status status = WEFT_OK;
    for (int relay = 0; relay < heap->relay_count && !status; relay++)
        if (is_open_to(heap, slot, relay))
            status = allow_access(heap, &heap->relays[relay], address, bytes);
    return status;
}

weft_status gpu_heap_map(const struct gpu_heap *heap, int slot, struct gpu_chunk *chunk,
                         CUmemGenericAllocationHandle handle)
{
    const struct gpu_api *driver = heap->device->driver;
    CUdeviceptr address = heap->windows[slot].base + chunk->offset;
    CUresult result = driver->MemMap(address, chunk->bytes, 0, handle, 0);
    if (result)
        return gpu_api_fail(driver, result, "cuMemMap of %zu MiB of PE %d", chunk->bytes >> 20,
                            heap->boot->local_pes[slot]);
    weft_status status = heap->windows[slot].mapped
                             ? allow_access(heap, heap->device, address, chunk->bytes)
                             : WEFT_OK;
    if (!status)
        status = allow_relays(heap, slot, address, chunk->bytes);
    if (status) {
        driver->MemUnmap(address, chunk->bytes);
        return status;
    }
    chunk->handles[slot] = handle;
    if (slot == heap->boot->local_pe)
        gpu_map_add_memory(heap->map, slot, chunk, -1);
    return WEFT_OK;
}

/* Unmaps from the GPUs only; the CPU may still have it mapped. */
static void unmap_chunk(const struct gpu_heap *heap, int slot, struct gpu_chunk *chunk)
{
    const struct gpu_api *driver = heap->device->driver;
    if (!chunk->handles[slot])
        return;
    driver->MemUnmap(heap->windows[slot].base + chunk->offset, chunk->bytes);
    driver->MemRelease(chunk->handles[slot]);
    chunk->handles[slot] = 0;
}

void gpu_heap_unmap(const struct gpu_heap *heap, int slot, struct gpu_chunk *chunk)
{
    /* first, so that no CPU mapping outlives the memory */
    gpu_map_remove_memory(heap->map, slot, chunk);
    unmap_chunk(heap, slot, chunk);
}

weft_status gpu_heap_export(const struct gpu_heap *heap, const struct gpu_chunk *chunk, int *fd)
{
    const struct gpu_api *driver = heap->device->driver;
    CUresult result = driver->MemExportToShareableHandle(
        fd, chunk->handles[heap->boot->local_pe], CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (!result) {
        fcntl(*fd, F_SETFD, FD_CLOEXEC);
        return WEFT_OK;
    }
    *fd = -1;
    return gpu_api_fail(driver, result, "cuMemExportToShareableHandle of %zu MiB of GPU %d",
                        chunk->bytes >> 20, heap->device->ordinal);
}

/* Maps own memory. If the relay GPUs cannot be given access, they are removed and the memory is
 * mapped without them. */
static weft_status map_own(struct gpu_heap *heap, struct gpu_chunk *chunk,
                           CUmemGenericAllocationHandle handle)
{
    int me = heap->boot->local_pe;
    weft_status status = gpu_heap_map(heap, me, chunk, handle);
    if (!status || !heap->relay_count)
        return status;
    for (int relay = 0; relay < heap->relay_count; relay++)
        gpu_relay_remove(heap, relay, base_last_error());
    return gpu_heap_map(heap, me, chunk, handle);
}

static weft_status make_own_part(struct gpu_heap *heap, struct gpu_chunk *chunk, int *fd)
{
    const struct gpu_api *driver = heap->device->driver;
    int me = heap->boot->local_pe;
    CUmemAllocationProp properties = gpu_heap_properties(heap->device);
    CUmemGenericAllocationHandle handle;
    CUresult result = driver->MemCreate(&handle, chunk->bytes, &properties, 0);
    if (result && result != CUDA_ERROR_OUT_OF_MEMORY && heap->device->rdma) {
        /* Some machines report memory for RDMA but fail to allocate it; memory without RDMA is
         * better than none. */
        properties.allocFlags.gpuDirectRDMACapable = 0;
        result = driver->MemCreate(&handle, chunk->bytes, &properties, 0);
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return fail_out_of_memory(heap, chunk->bytes);
    if (result)
        return gpu_api_fail(driver, result, "cuMemCreate of %zu MiB on GPU %d", chunk->bytes >> 20,
                            heap->device->ordinal);
    weft_status status = map_own(heap, chunk, handle);
    if (status) {
        driver->MemRelease(handle);
        return status;
    }
    if (heap->boot->local_npes == 1)
        return WEFT_OK;
    status = gpu_heap_export(heap, chunk, fd);
    if (status)
        gpu_heap_unmap(heap, me, chunk);
    return status;
}

/* ------------------------------------------------------------------------------ peers' parts */

void gpu_heap_unmap_unused(struct gpu_heap *heap, int slot)
{
    if (gpu_heap_holds(heap, slot))
        return;
    for (int i = 0; i < heap->chunk_count; i++)
        unmap_chunk(heap, slot, &heap->chunks[i]);
    for (struct gpu_registered *a = heap->registered; a; a = a->next)
        unmap_chunk(heap, slot, &a->chunk);
}

void gpu_heap_drop(struct gpu_heap *heap, int slot, const char *evidence)
{
    struct gpu_window *window = &heap->windows[slot];
    char copy[sizeof window->evidence];
    snprintf(copy, sizeof copy, "%s", evidence);
    memcpy(window->evidence, copy, sizeof copy);
    window->mapped = false;
    gpu_heap_unmap_unused(heap, slot);
}

/* Stops all GPUs' use of a part that cannot be mapped. When this GPU did not use it, its evidence
 * stays. */
static void give_up_window(struct gpu_heap *heap, int slot)
{
    char why[sizeof heap->windows->evidence];
    snprintf(why, sizeof why, "%s", base_last_error());
    gpu_relay_drop(heap, slot, why);
    if (!heap->windows[slot].mapped)
        return;
    log_info(LOG_GPU, "GPU memory of PE %d cannot be mapped: %s", heap->boot->local_pes[slot], why);
    gpu_heap_drop(heap, slot, why);
}

static weft_status import_chunk(const struct gpu_heap *heap, int slot, struct gpu_chunk *chunk,
                                int fd)
{
    const struct gpu_api *driver = heap->device->driver;
    CUmemGenericAllocationHandle handle;
    CUresult result = driver->MemImportFromShareableHandle(
        &handle, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (result)
        return gpu_api_fail(driver, result, "cuMemImportFromShareableHandle of %zu MiB of PE %d",
                            chunk->bytes >> 20, heap->boot->local_pes[slot]);
    weft_status status = gpu_heap_map(heap, slot, chunk, handle);
    if (status)
        driver->MemRelease(handle);
    return status;
}

/* If the part cannot be mapped with access for the GPUs of striped copies, tries again without
 * them: large copies then take one route. The CPU may map a part even when no GPU here can access
 * it. */
weft_status gpu_heap_import(const struct gpu_heap *heap, int slot, struct gpu_chunk *chunk, int fd)
{
    if (slot == heap->boot->local_pe)
        return WEFT_OK;
    gpu_map_add_memory(heap->map, slot, chunk, fd);
    if (!gpu_heap_holds(heap, slot))
        return WEFT_OK;
    weft_status status = import_chunk(heap, slot, chunk, fd);
    if (!status || !atomic_exchange(&heap->windows[slot].stripes, 0))
        return status;
    return import_chunk(heap, slot, chunk, fd);
}

/* Each PE in turn passes its descriptor to all others. A peer whose memory cannot be mapped is
 * dropped, and the turns go on. */
static weft_status share_parts(struct gpu_heap *heap, struct gpu_chunk *chunk, int own_fd)
{
    struct boot *boot = heap->boot;
    for (int slot = 0; slot < boot->local_npes; slot++) {
        int received_fd = -1;
        weft_status status = boot->ops->share_fd(boot, boot->local_pes[slot], own_fd, &received_fd);
        if (status)
            return status;
        if (gpu_heap_import(heap, slot, chunk, received_fd))
            give_up_window(heap, slot);
        if (received_fd >= 0 && received_fd != own_fd)
            close(received_fd);
    }
    return WEFT_OK;
}

static weft_status add_chunk(struct gpu_heap *heap, size_t bytes)
{
    struct boot *boot = heap->boot;
    struct gpu_chunk chunk = {.offset = heap->backed, .bytes = bytes};
    int fd = -1;
    pthread_mutex_lock(&heap->chunks_lock);
    struct gpu_chunk *chunks =
        realloc(heap->chunks, (size_t)(heap->chunk_count + 1) * sizeof *chunks);
    if (chunks)
        heap->chunks = chunks;
    pthread_mutex_unlock(&heap->chunks_lock);
    chunk.handles = calloc((size_t)boot->local_npes, sizeof *chunk.handles);
    weft_status status = chunks && chunk.handles
                             ? make_own_part(heap, &chunk, &fd)
                             : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a chunk");
    /* No PE shares before every PE has allocated. */
    status = boot_agree(boot, status);
    if (!status) {
        pthread_mutex_lock(&heap->chunks_lock);
        heap->chunks[heap->chunk_count++] = chunk;
        pthread_mutex_unlock(&heap->chunks_lock);
        heap->backed += bytes;
        if (boot->local_npes > 1)
            status = share_parts(heap, &heap->chunks[heap->chunk_count - 1], fd);
    } else if (chunk.handles) {
        gpu_heap_unmap(heap, boot->local_pe, &chunk);
        free(chunk.handles);
    }
    if (fd >= 0)
        close(fd);
    return status;
}

size_t gpu_heap_limit(const struct gpu_heap *heap)
{
    size_t ceiling = heap->size;
    for (const struct gpu_registered *a = heap->registered; a; a = a->next)
        ceiling = a->chunk.offset;
    return ceiling;
}

weft_status gpu_heap_grow(struct gpu_heap *heap, size_t end)
{
    if (end <= heap->backed)
        return WEFT_OK;
    size_t ceiling = gpu_heap_limit(heap);
    if (end > ceiling)
        return base_fail(
            WEFT_ERR_NO_MEMORY,
            "the GPU heap's window of %zu MiB per PE, %zu MiB of it for registered memory, is too "
            "small for %zu MiB; set a larger WEFT_GPU_HEAP_SIZE",
            heap->size >> 20, (heap->size - ceiling) >> 20, end >> 20);
    /* Doubling the memory, up to a maximum step, keeps the number of chunks small. A heap smaller
     * than most jobs' first chunk grows by what is needed. */
    size_t step = heap->backed < LARGEST_STEP ? heap->backed : LARGEST_STEP;
    if (step < GPU_FIRST_CHUNK)
        step = 0;
    size_t need = round_up(end - heap->backed, heap->unit);
    size_t bytes = round_up(need > step ? need : step, heap->unit);
    if (bytes > ceiling - heap->backed)
        bytes = ceiling - heap->backed;
    weft_status status = gpu_enter(heap->device);
    if (status)
        return status;
    gpu_heap_begin_growing(heap);
    status = add_chunk(heap, bytes);
    if (status == WEFT_ERR_NO_MEMORY && bytes > need)
        status = add_chunk(heap, need);
    gpu_heap_end_growing(heap);
    gpu_leave(heap->device);
    return status;
}

/* --------------------------------------------------------------------- opening to further GPUs */

bool gpu_heap_begin_opening(struct gpu_heap *heap)
{
    pthread_mutex_lock(&heap->opening_lock);
    if (!heap->growing)
        return true;
    pthread_mutex_unlock(&heap->opening_lock);
    return false;
}

void gpu_heap_end_opening(struct gpu_heap *heap)
{
    pthread_mutex_unlock(&heap->opening_lock);
}

/* Growing waits for peers, and a peer may wait for a put of another thread here. So that thread
 * does not wait for the growth, but copies over one route. */
void gpu_heap_begin_growing(struct gpu_heap *heap)
{
    pthread_mutex_lock(&heap->opening_lock);
    heap->growing = true;
    pthread_mutex_unlock(&heap->opening_lock);
}

void gpu_heap_end_growing(struct gpu_heap *heap)
{
    pthread_mutex_lock(&heap->opening_lock);
    heap->growing = false;
    pthread_mutex_unlock(&heap->opening_lock);
}

weft_status gpu_heap_open_to(struct gpu_heap *heap, int slot, const struct gpu_device *by)
{
    CUdeviceptr base = heap->windows[slot].base;
    weft_status status = WEFT_OK;
    for (int i = 0; i < heap->chunk_count && !status; i++)
        if (heap->chunks[i].handles[slot])
            status = allow_access(heap, by, base + heap->chunks[i].offset, heap->chunks[i].bytes);
    pthread_mutex_lock(&heap->chunks_lock);
    for (struct gpu_registered *a = heap->registered; a && !status; a = a->next)
        if (a->chunk.handles[slot])
            status = allow_access(heap, by, base + a->chunk.offset, a->chunk.bytes);
    pthread_mutex_unlock(&heap->chunks_lock);
    return status;
}

/* ------------------------------------------------------------------------------------ set-up */

static weft_status exchange_identities(struct gpu_heap *heap, size_t *bytes)
{
    const struct gpu_device *device = heap->device;
    struct boot *boot = heap->boot;
    CUmemAllocationProp properties = gpu_heap_properties(device);
    size_t granularity = 0;
    CUresult result = device->driver->MemGetAllocationGranularity(
        &granularity, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    weft_status status =
        result ? gpu_api_fail(device->driver, result, "cuMemGetAllocationGranularity of GPU %d",
                              device->ordinal)
               : WEFT_OK;
    status = boot_agree(boot, status);
    struct gpu_identity mine = {.uuid = device->uuid,
                                .job_tag = clock_now_ns() ^ (uint64_t)getpid() << 40,
                                .ordinal = device->ordinal,
                                .copy_engines = device->copy_engines,
                                .granularity = granularity,
                                .total_bytes = device->total_bytes,
                                .major = device->major,
                                .minor = device->minor};
    memcpy(mine.bus_id, device->bus_id, sizeof mine.bus_id);
    struct gpu_identity *all = status ? NULL : calloc((size_t)boot->npes, sizeof *all);
    if (!status && !all)
        status = base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %d GPUs", boot->npes);
    if (!status)
        status = boot->ops->allgather(boot, &mine, all, sizeof mine);
    uint64_t largest = 0;
    for (int pe = 0; !status && pe < boot->npes; pe++) {
        if (all[pe].granularity > heap->granularity)
            heap->granularity = all[pe].granularity;
        if (all[pe].total_bytes > largest)
            largest = all[pe].total_bytes;
    }
    for (int slot = 0; !status && slot < boot->local_npes; slot++)
        heap->windows[slot].gpu = all[boot->local_pes[slot]];
    if (*bytes == 0)
        *bytes = largest;
    free(all);
    return status;
}

static weft_status reserve_windows(struct gpu_heap *heap, size_t bytes)
{
    const struct gpu_api *driver = heap->device->driver;
    struct boot *boot = heap->boot;
    /* Windows are multiples of 1 GiB so that the largest pages can be used. */
    heap->size =
        round_up(bytes, WINDOW_ALIGN > heap->granularity ? WINDOW_ALIGN : heap->granularity);
    heap->unit = heap->granularity;
    bool one_node = boot->local_npes == boot->npes;
    while (!one_node && heap->unit < GPU_FIRST_CHUNK && heap->unit < heap->size / UNITS_WANTED)
        heap->unit *= 2;
    heap->reserved_bytes = heap->size * (size_t)boot->local_npes;
    CUresult result =
        driver->MemAddressReserve(&heap->reservation, heap->reserved_bytes, WINDOW_ALIGN, 0, 0);
    if (result) {
        heap->reservation = 0;
        return gpu_api_fail(driver, result,
                            "cuMemAddressReserve of %d windows of %zu MiB (a smaller "
                            "WEFT_GPU_HEAP_SIZE needs fewer addresses)",
                            boot->local_npes, heap->size >> 20);
    }
    for (int slot = 0; slot < boot->local_npes; slot++)
        heap->windows[slot].base = heap->reservation + (size_t)slot * heap->size;
    return WEFT_OK;
}

/* Queries the driver whether a peer's GPU is accessible. When that GPU is not visible here
 * (CUDA_VISIBLE_DEVICES), only an attempt to map its memory can tell. */
static void query_peer_access(struct gpu_heap *heap, struct gpu_window *window)
{
    const struct gpu_device *own = heap->device;
    const struct gpu_api *driver = own->driver;
    window->mapped = true;
    if (memcmp(&window->gpu.uuid, &own->uuid, sizeof own->uuid) == 0) {
        snprintf(window->evidence, sizeof window->evidence, "the same GPU");
        return;
    }
    CUdevice device;
    int ordinal, can = 0;
    if (gpu_device_find(own, &window->gpu.uuid, &device, &ordinal)) {
        CUresult result = driver->DeviceCanAccessPeer(&can, own->device, device);
        char error[128] = "";
        if (result)
            gpu_api_error_text(driver, result, error, sizeof error);
        window->mapped = !result && can;
        snprintf(window->evidence, sizeof window->evidence, "cuDeviceCanAccessPeer(%s, %s): %s%s",
                 own->bus_id, window->gpu.bus_id,
                 result ? error
                 : can  ? "yes"
                        : "no",
                 can ? "" : "; `weft explain` says why and what helps");
        gpu_api_translate(driver, window->evidence, sizeof window->evidence);
        return;
    }
    snprintf(window->evidence, sizeof window->evidence,
             "%s is not visible to this PE (CUDA_VISIBLE_DEVICES), so its memory is mapped without "
             "a query",
             window->gpu.bus_id);
    gpu_api_translate(driver, window->evidence, sizeof window->evidence);
}

/* A pair is used only when both sides can access each other: otherwise one side could write and get
 * no answer. */
static weft_status exchange_pairs(struct gpu_heap *heap)
{
    struct boot *boot = heap->boot;
    size_t n = (size_t)boot->npes;
    unsigned char *mine = calloc(n + n * n, 1);
    if (!mine)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %d pairs", boot->npes);
    unsigned char *all = mine + n;
    for (int slot = 0; slot < boot->local_npes; slot++)
        mine[boot->local_pes[slot]] = heap->windows[slot].mapped;
    weft_status status = boot->ops->allgather(boot, mine, all, n);
    for (int slot = 0; !status && slot < boot->local_npes; slot++) {
        int pe = boot->local_pes[slot];
        if (heap->windows[slot].mapped && !all[(size_t)pe * n + (size_t)boot->pe])
            gpu_heap_drop(heap, slot, "the other side cannot access this PE's GPU memory");
    }
    free(mine);
    return status;
}

static weft_status set_up_heap(struct gpu_heap *heap, size_t bytes, size_t first,
                               enum gpu_relay_policy policy)
{
    weft_status status = exchange_identities(heap, &bytes);
    if (status)
        return status;
    status = boot_agree(heap->boot, reserve_windows(heap, bytes));
    if (status)
        return status;
    for (int slot = 0; slot < heap->boot->local_npes; slot++)
        query_peer_access(heap, &heap->windows[slot]);
    gpu_relay_select(heap, policy);
    status = add_chunk(heap, round_up(first, heap->unit));
    return status ? status : exchange_pairs(heap);
}

weft_status gpu_heap_create(struct gpu_heap *heap, const struct gpu_device *device,
                            struct boot *boot, size_t bytes, size_t first,
                            enum gpu_relay_policy policy)
{
    *heap = (struct gpu_heap){.device = device,
                              .boot = boot,
                              .map = heap->map,
                              .policy = policy,
                              .chunks_lock = PTHREAD_MUTEX_INITIALIZER,
                              .opening_lock = PTHREAD_MUTEX_INITIALIZER};
    heap->windows = calloc((size_t)boot->local_npes, sizeof *heap->windows);
    weft_status status =
        heap->windows ? gpu_enter(device) : base_fail(WEFT_ERR_NO_MEMORY, "no private memory");
    bool entered = !status;
    status = boot_agree(boot, status);
    if (!status)
        status = set_up_heap(heap, bytes, first, policy);
    if (entered)
        gpu_leave(device);
    if (status)
        gpu_heap_destroy(heap);
    return status;
}

void gpu_heap_destroy(struct gpu_heap *heap)
{
    bool entered = heap->device && gpu_enter(heap->device) == WEFT_OK;
    for (int i = 0; i < heap->chunk_count; i++) {
        for (int slot = 0; entered && slot < heap->boot->local_npes; slot++)
            gpu_heap_unmap(heap, slot, &heap->chunks[i]);
        free(heap->chunks[i].handles);
    }
    while (heap->registered) {
        struct gpu_registered *first = heap->registered;
        for (int slot = 0; entered && slot < heap->boot->local_npes; slot++)
            gpu_heap_unmap(heap, slot, &first->chunk);
        heap->registered = first->next;
        free(first->chunk.handles);
        free(first);
    }
    if (entered && heap->reservation)
        heap->device->driver->MemAddressFree(heap->reservation, heap->reserved_bytes);
    if (entered)
        gpu_leave(heap->device);
    for (int relay = 0; relay < heap->relay_count; relay++)
        gpu_device_close(&heap->relays[relay]);
    free(heap->relays);
    free(heap->chunks);
    free(heap->windows);
    *heap = (struct gpu_heap){.map = heap->map};
}
