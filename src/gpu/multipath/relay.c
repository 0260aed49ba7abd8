/* SPDX-License-Identifier: Apache-2.0 */
/* See relay.h. */
#include "gpu/multipath/relay.h"

#include "base/log.h"
#include "base/status.h"
#include "gpu/multipath/links.h"
#include "gpu/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------- choice of a relay GPU
 *
 * As gpu_relays_assign() assigns them. Where it finds none, as for GPUs beyond those that it
 * considers, the best relay GPU for this pair alone. */

/* A GPU that could relay between this PE's GPU and the peer's. */
struct relay_candidate {
    int ordinal;
    bool nvlink;   /* NVLink to both */
    bool is_peers; /* the candidate is the peer's own GPU */
    int rank; /* the driver's performance rank of the slower of its two links; 0: the fastest */
    int load; /* windows that it relays already */
};

static bool can_access(const struct gpu_api *driver, CUdevice by, CUdevice of)
{
    int can = 0;
    return by == of || (!driver->DeviceCanAccessPeer(&can, by, of) && can);
}

static int read_p2p_attribute(const struct gpu_api *driver, int which, CUdevice a, CUdevice b,
                              int same)
{
    int value = 0;
    if (a == b)
        return same;
    return driver->DeviceGetP2PAttribute(&value, which, a, b) ? -1 : value;
}

/* Links with native atomics are NVLink: PCIe between GPUs never has them. */
static bool has_nvlink(const struct gpu_api *driver, CUdevice a, CUdevice b)
{
    return read_p2p_attribute(driver, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, a, b, 1) ==
           1;
}

static int read_p2p_rank(const struct gpu_api *driver, CUdevice a, CUdevice b)
{
    int rank = read_p2p_attribute(driver, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, a, b, 0);
    return rank < 0 ? 1000 : rank;
}

static int count_relayed_windows(const struct gpu_heap *heap, int ordinal)
{
    int load = 0;
    for (int slot = 0; slot < heap->boot->local_npes; slot++) {
        int relay = heap->windows[slot].relay;
        load += relay >= 0 && heap->relays[relay].ordinal == ordinal;
    }
    return load;
}

/* Returns whether GPU `ordinal` can access this PE's GPU and the peer's, and rates it. */
static bool check_candidate(const struct gpu_heap *heap, int ordinal, CUdevice peer,
                            struct relay_candidate *candidate)
{
    const struct gpu_device *own = heap->device;
    const struct gpu_api *driver = own->driver;
    CUdevice via;
    if (driver->DeviceGet(&via, ordinal) || via == own->device ||
        !can_access(driver, via, own->device) || !can_access(driver, via, peer))
        return false;
    int here = read_p2p_rank(driver, via, own->device), there = read_p2p_rank(driver, via, peer);
    *candidate = (struct relay_candidate){.ordinal = ordinal,
                                          .nvlink = has_nvlink(driver, via, own->device) &&
                                                    has_nvlink(driver, via, peer),
                                          .is_peers = via == peer,
                                          .rank = here > there ? here : there,
                                          .load = count_relayed_windows(heap, ordinal)};
    return true;
}

static bool is_better_candidate(const struct relay_candidate *a, const struct relay_candidate *b)
{
    if (a->is_peers != b->is_peers)
        return b->is_peers;
    if (a->nvlink != b->nvlink)
        return a->nvlink;
    return a->rank != b->rank ? a->rank < b->rank : a->load < b->load;
}

/* Finds the relay GPU by the links of the machine and the needs of the other pairs of the node.
 * Returns false when none is assigned. */
static bool find_assigned_relay(const struct gpu_heap *heap, CUdevice peer, int peers, bool all,
                                struct relay_candidate *best)
{
    struct {
        struct gpu_links links;
        int relay_of[GPU_LINKS_MOST][GPU_LINKS_MOST];
    } *plan = malloc(sizeof *plan);
    uint32_t used = 0;
    bool found = false;
    if (!plan)
        return false;
    for (int slot = 0; slot < heap->boot->local_npes; slot++) {
        CUdevice device;
        int ordinal;
        if (gpu_device_find(heap->device, &heap->windows[slot].gpu.uuid, &device, &ordinal) &&
            ordinal < GPU_LINKS_MOST)
            used |= 1u << ordinal;
    }
    gpu_links_read(heap->device, &plan->links);
    gpu_relays_assign(&plan->links, used, all, plan->relay_of);
    if (heap->device->ordinal < GPU_LINKS_MOST && peers < GPU_LINKS_MOST) {
        int ordinal = plan->relay_of[heap->device->ordinal][peers];
        found = ordinal >= 0 && check_candidate(heap, ordinal, peer, best);
    }
    free(plan);
    return found;
}

static bool find_best_relay(const struct gpu_heap *heap, CUdevice peer,
                            struct relay_candidate *best)
{
    const struct gpu_device *own = heap->device;
    bool found = false;
    /* Starts after the own GPU, so that different PEs prefer different candidates of equal rank. */
    for (int i = 1; i < own->visible; i++) {
        struct relay_candidate candidate = {0};
        if (check_candidate(heap, (own->ordinal + i) % own->visible, peer, &candidate) &&
            (!found || is_better_candidate(&candidate, best))) {
            *best = candidate;
            found = true;
        }
    }
    return found;
}

/* Returns the index in heap->relays[] of the GPU with this ordinal, which is opened if needed; -1
 * with base_last_error(). */
static int open_relay_device(struct gpu_heap *heap, int ordinal)
{
    const struct gpu_device *own = heap->device;
    char number[12];
    for (int i = 0; i < heap->relay_count; i++)
        if (heap->relays[i].ordinal == ordinal)
            return i;
    if (!heap->relays)
        heap->relays = calloc((size_t)own->visible, sizeof *heap->relays);
    if (!heap->relays) {
        base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a relay GPU");
        return -1;
    }
    struct gpu_device *device = &heap->relays[heap->relay_count];
    snprintf(number, sizeof number, "%d", ordinal);
    if (gpu_device_open(device, own->driver, NULL, number, 0)) {
        *device = (struct gpu_device){0};
        return -1;
    }
    return heap->relay_count++;
}

static void set_no_relay(struct gpu_window *window, const char *why)
{
    char copy[sizeof window->relay_text];
    snprintf(copy, sizeof copy, "%s", why);
    memcpy(window->relay_text, copy, sizeof copy);
    window->relay = -1;
}

static void choose_window_relay(struct gpu_heap *heap, struct gpu_window *window,
                                enum gpu_relay_policy policy)
{
    const struct gpu_device *own = heap->device;
    struct relay_candidate candidate = {0};
    CUdevice peer;
    int ordinal;
    if (!gpu_device_find(own, &window->gpu.uuid, &peer, &ordinal)) {
        set_no_relay(window, "the peer's GPU is not visible to this PE (CUDA_VISIBLE_DEVICES)");
        return;
    }
    bool all = policy == GPU_RELAY_ALWAYS || window->mapped; /* its test has failed */
    if (!find_assigned_relay(heap, peer, ordinal, all, &candidate) &&
        !find_best_relay(heap, peer, &candidate)) {
        set_no_relay(window, own->visible < 3 ? "no relay GPU is visible to this PE"
                                              : "no GPU can access both this PE's and the peer's");
        return;
    }
    /* Two transfers over PCIe are no faster than path staged, which needs no context on another
     * GPU. */
    if (policy != GPU_RELAY_ALWAYS && (!candidate.nvlink || candidate.is_peers)) {
        set_no_relay(window, "no relay GPU has NVLink to both");
        return;
    }
    int relay = open_relay_device(heap, candidate.ordinal);
    if (relay < 0) {
        set_no_relay(window, base_last_error());
        return;
    }
    window->relay = relay;
    snprintf(
        window->relay_text, sizeof window->relay_text, "over %sGPU %d (%s), which reaches %s by %s",
        candidate.is_peers ? "the peer's own " : "", candidate.ordinal, heap->relays[relay].bus_id,
        candidate.is_peers ? "this PE's" : "both", candidate.nvlink ? "NVLink" : "PCIe");
}

static void select_window_relay(struct gpu_heap *heap, struct gpu_window *window,
                                enum gpu_relay_policy policy)
{
    choose_window_relay(heap, window, policy);
    gpu_api_translate(heap->device->driver, window->relay_text, sizeof window->relay_text);
}

void gpu_relay_select(struct gpu_heap *heap, enum gpu_relay_policy policy)
{
    for (int slot = 0; slot < heap->boot->local_npes; slot++)
        heap->windows[slot].relay = -1;
    for (int slot = 0; slot < heap->boot->local_npes; slot++) {
        struct gpu_window *window = &heap->windows[slot];
        if (slot == heap->boot->local_pe)
            set_no_relay(window, "the same PE");
        else if (policy == GPU_RELAY_NEVER)
            set_no_relay(window, "not needed: WEFT_PATH excludes path relay");
        else if (policy == GPU_RELAY_WHERE_NEEDED && window->mapped)
            set_no_relay(window, "not needed: this GPU can access the peer's memory");
        else
            select_window_relay(heap, window, policy);
    }
}

bool gpu_relay_used(const struct gpu_heap *heap, int relay)
{
    for (int slot = 0; slot < heap->boot->local_npes; slot++)
        if (heap->windows[slot].relay == relay ||
            atomic_load(&heap->windows[slot].stripes) & 1u << relay)
            return true;
    return false;
}

void gpu_relay_drop(struct gpu_heap *heap, int slot, const char *evidence)
{
    struct gpu_window *window = &heap->windows[slot];
    if (window->relay < 0)
        return;
    set_no_relay(window, evidence);
    log_info(LOG_GPU, "GPU memory of PE %d is not relayed: %s", heap->boot->local_pes[slot],
             window->relay_text);
    gpu_heap_unmap_unused(heap, slot);
}

void gpu_relay_remove(struct gpu_heap *heap, int relay, const char *evidence)
{
    char copy[160];
    snprintf(copy, sizeof copy, "%s", evidence);
    for (int slot = 0; slot < heap->boot->local_npes; slot++) {
        atomic_fetch_and(&heap->windows[slot].stripes, ~(1u << relay));
        if (heap->windows[slot].relay == relay)
            gpu_relay_drop(heap, slot, copy);
    }
}

/* ----------------------------------------------------------------------------------- relay GPUs */

static struct gpu *create_relay_gpu(struct gpu *gpu, int relay)
{
    struct gpu *relay_gpu = calloc(1, sizeof *relay_gpu);
    if (!relay_gpu) {
        base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a relay GPU");
        return NULL;
    }
    relay_gpu->owner = gpu;
    relay_gpu->driver = gpu->driver;
    relay_gpu->boot = gpu->boot;
    relay_gpu->device = gpu->heap.relays[relay];
    relay_gpu->wait_limit_ns = gpu->wait_limit_ns;
    gpu_resources_init(relay_gpu);
    if (!gpu_resources_start(relay_gpu))
        return relay_gpu;
    gpu_resources_stop(relay_gpu);
    gpu_resources_end(relay_gpu);
    free(relay_gpu);
    return NULL;
}

void gpu_relay_start(struct gpu *gpu)
{
    struct gpu_heap *heap = &gpu->heap;
    gpu->multipath.relay_gpus =
        calloc((size_t)gpu->device.visible, sizeof *gpu->multipath.relay_gpus);
    for (int relay = 0; relay < heap->relay_count; relay++) {
        if (gpu->multipath.relay_gpus && gpu_relay_used(heap, relay))
            gpu->multipath.relay_gpus[relay] = create_relay_gpu(gpu, relay);
        if (!gpu->multipath.relay_gpus ||
            (gpu_relay_used(heap, relay) && !gpu->multipath.relay_gpus[relay]))
            gpu_relay_remove(heap, relay,
                             gpu->multipath.relay_gpus ? base_last_error() : "no private memory");
    }
}

/* Opens a relay GPU and its streams. Returns its index; -1 with base_last_error(). */
static int open_relay_gpu(struct gpu *gpu, int ordinal)
{
    int relay = gpu->multipath.relay_gpus ? open_relay_device(&gpu->heap, ordinal) : -1;
    if (relay >= 0 && !gpu->multipath.relay_gpus[relay])
        gpu->multipath.relay_gpus[relay] = create_relay_gpu(gpu, relay);
    return relay >= 0 && gpu->multipath.relay_gpus[relay] ? relay : -1;
}

static weft_status open_heap_to(struct gpu *gpu, int relay, int slot)
{
    struct gpu_heap *heap = &gpu->heap;
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    status = gpu_heap_open_to(heap, heap->boot->local_pe, &heap->relays[relay]);
    if (!status)
        status = gpu_heap_open_to(heap, slot, &heap->relays[relay]);
    gpu_leave(&gpu->device);
    return status;
}

int gpu_relay_open(struct gpu *gpu, int ordinal, int slot)
{
    int relay = open_relay_gpu(gpu, ordinal);
    if (relay < 0 || open_heap_to(gpu, relay, slot))
        return -1;
    atomic_fetch_or(&gpu->heap.windows[slot].stripes, 1u << relay);
    return relay;
}

void gpu_relay_add_fallback(struct gpu *gpu, int slot)
{
    struct gpu_heap *heap = &gpu->heap;
    struct gpu_window *window = &heap->windows[slot];
    if (heap->policy == GPU_RELAY_NEVER || window->relay >= 0 || slot == heap->boot->local_pe ||
        !gpu_heap_begin_opening(heap))
        return;
    select_window_relay(heap, window, heap->policy);
    int relay = window->relay;
    if (relay >= 0 &&
        (open_relay_gpu(gpu, heap->relays[relay].ordinal) < 0 || open_heap_to(gpu, relay, slot)))
        set_no_relay(window, base_last_error());
    gpu_heap_end_opening(heap);
}

static void free_relay_buffer(struct gpu *relay_gpu, struct gpu_relay_buffer *buffer)
{
    const struct gpu_api *driver = &relay_gpu->driver;
    if (!buffer->at)
        return;
    driver->MemUnmap(buffer->at, buffer->bytes);
    driver->MemRelease(buffer->handle);
    driver->MemAddressFree(buffer->at, buffer->bytes);
    buffer->at = 0;
}

void gpu_relay_stop(struct gpu *gpu)
{
    for (int relay = 0; gpu->multipath.relay_gpus && relay < gpu->device.visible; relay++) {
        struct gpu *relay_gpu = gpu->multipath.relay_gpus[relay];
        if (!relay_gpu)
            continue;
        gpu_resources_stop(relay_gpu);
        free_relay_buffer(relay_gpu, &relay_gpu->multipath.buffer);
        gpu_resources_end(relay_gpu);
        free(relay_gpu);
    }
    free(gpu->multipath.relay_gpus);
    gpu->multipath.relay_gpus = NULL;
}

/* -------------------------------------------------------- memory that a relay GPU cannot access */

bool gpu_relay_reaches(struct gpu *relay_gpu, const void *local)
{
    const struct gpu_heap *heap = &relay_gpu->owner->heap;
    return (uintptr_t)local - heap->reservation < heap->reserved_bytes ||
           gpu_place_of(relay_gpu, local) != GPU_PLACE_DEVICE;
}

static CUresult map_relay_buffer(struct gpu *relay_gpu, CUdeviceptr at, size_t bytes,
                                 CUmemGenericAllocationHandle handle)
{
    const struct gpu_device *own = &relay_gpu->owner->device;
    const struct gpu_api *driver = &relay_gpu->driver;
    const CUmemAccessDesc here = {{CU_MEM_LOCATION_TYPE_DEVICE, own->device},
                                  CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    const CUmemAccessDesc there = {{CU_MEM_LOCATION_TYPE_DEVICE, relay_gpu->device.device},
                                   CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult result = driver->MemMap(at, bytes, 0, handle, 0);
    if (result)
        return result;
    result = driver->MemSetAccess(at, bytes, &here, 1);
    if (!result)
        result = driver->MemSetAccess(at, bytes, &there, 1);
    if (result)
        driver->MemUnmap(at, bytes);
    return result;
}

static weft_status allocate_relay_buffer(struct gpu *relay_gpu, struct gpu_relay_buffer *buffer)
{
    enum { BUFFER_BYTES = 4 << 20 }; /* bytes, rounded up to the granularity */
    const struct gpu_api *driver = &relay_gpu->driver;
    CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, relay_gpu->owner->device.device}};
    size_t unit = relay_gpu->owner->heap.granularity,
           bytes = (BUFFER_BYTES + unit - 1) / unit * unit;
    CUdeviceptr at = 0;
    CUresult result = driver->MemAddressReserve(&at, bytes, 0, 0, 0);
    if (result)
        return gpu_api_fail(driver, result, "cuMemAddressReserve of %zu MiB", bytes >> 20);
    result = driver->MemCreate(&buffer->handle, bytes, &properties, 0);
    if (!result) {
        result = map_relay_buffer(relay_gpu, at, bytes, buffer->handle);
        if (result)
            driver->MemRelease(buffer->handle);
    }
    if (result) {
        driver->MemAddressFree(at, bytes);
        return gpu_api_fail(driver, result, "%zu MiB of GPU %d that GPU %d can access", bytes >> 20,
                            relay_gpu->owner->device.ordinal, relay_gpu->device.ordinal);
    }
    buffer->at = at;
    buffer->bytes = bytes;
    return WEFT_OK;
}

static weft_status get_relay_buffer(struct gpu *relay_gpu, struct gpu_relay_buffer *buffer)
{
    weft_status status = buffer->at ? WEFT_OK : gpu_enter(&relay_gpu->owner->device);
    if (status || buffer->at)
        return status;
    status = allocate_relay_buffer(relay_gpu, buffer);
    gpu_leave(&relay_gpu->owner->device);
    return status;
}

weft_status gpu_relay_copy_staged(struct gpu *relay_gpu, unsigned stream_index, void *dst,
                                  const void *src, size_t bytes)
{
    bool out = !gpu_relay_reaches(relay_gpu, src); /* out of this PE's GPU, else into it */
    struct gpu *first = out ? relay_gpu->owner : relay_gpu,
               *second = out ? relay_gpu : relay_gpu->owner;
    pthread_mutex_lock(&relay_gpu->multipath.buffer_lock);
    weft_status status = get_relay_buffer(relay_gpu, &relay_gpu->multipath.buffer);
    void *between = (void *)(uintptr_t)relay_gpu->multipath.buffer.at;
    for (size_t done = 0; done < bytes && !status;) {
        size_t now = bytes - done < relay_gpu->multipath.buffer.bytes
                         ? bytes - done
                         : relay_gpu->multipath.buffer.bytes;
        status = gpu_copy(first, stream_index, between, (const char *)src + done, now, GPU_DONE);
        if (!status)
            status = gpu_copy(second, stream_index, (char *)dst + done, between, now, GPU_DONE);
        done += now;
    }
    pthread_mutex_unlock(&relay_gpu->multipath.buffer_lock);
    return status;
}
