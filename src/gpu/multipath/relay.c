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

/* ------------------------------------------------------------------------------ which third GPU
 *
 * As gpu_thirds_divide() divides them; where that knows of none, as of GPUs beyond those it looks
 * at, the best one for this pair alone. */

/* One that might serve. */
struct third {
    int ordinal;
    bool nvlink; /* to both */
    bool peers;  /* it is the peer's own GPU */
    int rank;    /* of the slower of its two links as the driver ranks them, 0 = the fastest */
    int load;    /* windows that go over it already */
};

static bool can_access(const struct cuda *cuda, CUdevice by, CUdevice of)
{
    int can = 0;
    return by == of || (!cuda->DeviceCanAccessPeer(&can, by, of) && can);
}

static int attribute(const struct cuda *cuda, int which, CUdevice a, CUdevice b, int same)
{
    int value = 0;
    if (a == b)
        return same;
    return cuda->DeviceGetP2PAttribute(&value, which, a, b) ? -1 : value;
}

/* Links that carry atomics natively are NVLink: PCIe never does between GPUs. */
static bool by_nvlink(const struct cuda *cuda, CUdevice a, CUdevice b)
{
    return attribute(cuda, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, a, b, 1) == 1;
}

static int rank_of(const struct cuda *cuda, CUdevice a, CUdevice b)
{
    int rank = attribute(cuda, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, a, b, 0);
    return rank < 0 ? 1000 : rank;
}

static int load_of(const struct gpu_heap *heap, int ordinal)
{
    int load = 0;
    for (int slot = 0; slot < heap->boot->local_npes; slot++) {
        int relay = heap->windows[slot].relay;
        load += relay >= 0 && heap->relays[relay].ordinal == ordinal;
    }
    return load;
}

/* Whether GPU `ordinal` can serve between this PE's and the peer's, and how well. */
static bool look_at(const struct gpu_heap *heap, int ordinal, CUdevice peer, struct third *third)
{
    const struct gpu_device *own = heap->device;
    const struct cuda *cuda = own->cuda;
    CUdevice it;
    if (cuda->DeviceGet(&it, ordinal) || it == own->device || !can_access(cuda, it, own->device) ||
        !can_access(cuda, it, peer))
        return false;
    int here = rank_of(cuda, it, own->device), there = rank_of(cuda, it, peer);
    *third = (struct third){.ordinal = ordinal,
                            .nvlink = by_nvlink(cuda, it, own->device) && by_nvlink(cuda, it, peer),
                            .peers = it == peer,
                            .rank = here > there ? here : there,
                            .load = load_of(heap, ordinal)};
    return true;
}

static bool is_better(const struct third *a, const struct third *b)
{
    if (a->peers != b->peers)
        return b->peers;
    if (a->nvlink != b->nvlink)
        return a->nvlink;
    return a->rank != b->rank ? a->rank < b->rank : a->load < b->load;
}

/* By the links of the machine, and by what the other pairs of the node take; false: not found
 * so. */
static bool find_planned(const struct gpu_heap *heap, CUdevice peer, int peers, bool all,
                         struct third *best)
{
    struct {
        struct gpu_links links;
        int third[GPU_LINKS_MOST][GPU_LINKS_MOST];
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
    gpu_thirds_divide(&plan->links, used, all, plan->third);
    if (heap->device->ordinal < GPU_LINKS_MOST && peers < GPU_LINKS_MOST) {
        int ordinal = plan->third[heap->device->ordinal][peers];
        found = ordinal >= 0 && look_at(heap, ordinal, peer, best);
    }
    free(plan);
    return found;
}

static bool find_third(const struct gpu_heap *heap, CUdevice peer, struct third *best)
{
    const struct gpu_device *own = heap->device;
    bool found = false;
    /* From the next one on, so that equal ones are taken by different PEs. */
    for (int i = 1; i < own->visible; i++) {
        struct third third = {0};
        if (look_at(heap, (own->ordinal + i) % own->visible, peer, &third) &&
            (!found || is_better(&third, best))) {
            *best = third;
            found = true;
        }
    }
    return found;
}

/* heap->relays[] at this ordinal, opened if it is new; -1 with base_last_error(). */
static int relay_on(struct gpu_heap *heap, int ordinal)
{
    const struct gpu_device *own = heap->device;
    char number[12];
    for (int i = 0; i < heap->relay_count; i++)
        if (heap->relays[i].ordinal == ordinal)
            return i;
    if (!heap->relays)
        heap->relays = calloc((size_t)own->visible, sizeof *heap->relays);
    if (!heap->relays) {
        base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a third GPU");
        return -1;
    }
    struct gpu_device *device = &heap->relays[heap->relay_count];
    snprintf(number, sizeof number, "%d", ordinal);
    if (gpu_device_open(device, own->cuda, NULL, number, 0)) {
        *device = (struct gpu_device){0};
        return -1;
    }
    return heap->relay_count++;
}

static void no_relay(struct gpu_window *window, const char *why)
{
    char copy[sizeof window->relay_text];
    snprintf(copy, sizeof copy, "%s", why);
    memcpy(window->relay_text, copy, sizeof copy);
    window->relay = -1;
}

static void choose(struct gpu_heap *heap, struct gpu_window *window, enum gpu_relay_wish wish)
{
    const struct gpu_device *own = heap->device;
    struct third third = {0};
    CUdevice peer;
    int ordinal;
    if (!gpu_device_find(own, &window->gpu.uuid, &peer, &ordinal)) {
        no_relay(window, "the peer's GPU is not visible to this PE (CUDA_VISIBLE_DEVICES)");
        return;
    }
    bool all = wish == GPU_RELAY_ALWAYS || window->mapped; /* its proof has failed */
    if (!find_planned(heap, peer, ordinal, all, &third) && !find_third(heap, peer, &third)) {
        no_relay(window, own->visible < 3 ? "no third GPU is visible to this PE"
                                          : "no GPU can access both this PE's and the peer's");
        return;
    }
    /* Over PCIe twice is no faster than staged, which needs no context on another GPU. */
    if (wish != GPU_RELAY_ALWAYS && (!third.nvlink || third.peers)) {
        no_relay(window, "no third GPU has NVLink to both");
        return;
    }
    int relay = relay_on(heap, third.ordinal);
    if (relay < 0) {
        no_relay(window, base_last_error());
        return;
    }
    window->relay = relay;
    snprintf(window->relay_text, sizeof window->relay_text,
             "over %sGPU %d (%s), which reaches %s by %s", third.peers ? "the peer's own " : "",
             third.ordinal, heap->relays[relay].bus_id, third.peers ? "this PE's" : "both",
             third.nvlink ? "NVLink" : "PCIe");
}

void gpu_relay_choose(struct gpu_heap *heap, enum gpu_relay_wish wish)
{
    for (int slot = 0; slot < heap->boot->local_npes; slot++)
        heap->windows[slot].relay = -1;
    for (int slot = 0; slot < heap->boot->local_npes; slot++) {
        struct gpu_window *window = &heap->windows[slot];
        if (slot == heap->boot->local_pe)
            no_relay(window, "the same PE");
        else if (wish == GPU_RELAY_NEVER)
            no_relay(window, "not looked for: WEFT_PATH leaves it out");
        else if (wish == GPU_RELAY_WHERE_NEEDED && window->mapped)
            no_relay(window, "not looked for: this GPU could access the peer's memory");
        else
            choose(heap, window, wish);
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
    no_relay(window, evidence);
    log_info("GPU memory of PE %d is not relayed: %s", heap->boot->local_pes[slot],
             window->relay_text);
    gpu_heap_unmap_unused(heap, slot);
}

void gpu_relay_lose(struct gpu_heap *heap, int relay, const char *evidence)
{
    char copy[160];
    snprintf(copy, sizeof copy, "%s", evidence);
    for (int slot = 0; slot < heap->boot->local_npes; slot++) {
        atomic_fetch_and(&heap->windows[slot].stripes, ~(1u << relay));
        if (heap->windows[slot].relay == relay)
            gpu_relay_drop(heap, slot, copy);
    }
}

/* ------------------------------------------------------------------------------------ the sides */

static struct gpu *make_side(struct gpu *gpu, int relay)
{
    struct gpu *side = calloc(1, sizeof *side);
    if (!side) {
        base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a third GPU");
        return NULL;
    }
    side->main = gpu;
    side->cuda = gpu->cuda;
    side->boot = gpu->boot;
    side->device = gpu->heap.relays[relay];
    side->wait_limit_ns = gpu->wait_limit_ns;
    side->stripe_bytes = gpu->stripe_bytes;
    gpu_machinery_init(side);
    if (!gpu_machinery_start(side))
        return side;
    gpu_machinery_stop(side);
    gpu_machinery_end(side);
    free(side);
    return NULL;
}

void gpu_relay_start(struct gpu *gpu)
{
    struct gpu_heap *heap = &gpu->heap;
    gpu->sides = calloc((size_t)gpu->device.visible, sizeof *gpu->sides);
    for (int relay = 0; relay < heap->relay_count; relay++) {
        if (gpu->sides && gpu_relay_used(heap, relay))
            gpu->sides[relay] = make_side(gpu, relay);
        if (!gpu->sides || (gpu_relay_used(heap, relay) && !gpu->sides[relay]))
            gpu_relay_lose(heap, relay, gpu->sides ? base_last_error() : "no private memory");
    }
}

/* A third GPU with its streams; -1 with base_last_error(). */
static int side_on(struct gpu *gpu, int ordinal)
{
    int relay = gpu->sides ? relay_on(&gpu->heap, ordinal) : -1;
    if (relay >= 0 && !gpu->sides[relay])
        gpu->sides[relay] = make_side(gpu, relay);
    return relay >= 0 && gpu->sides[relay] ? relay : -1;
}

static weft_status open_to(struct gpu *gpu, int relay, int slot)
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
    int relay = side_on(gpu, ordinal);
    if (relay < 0 || open_to(gpu, relay, slot))
        return -1;
    atomic_fetch_or(&gpu->heap.windows[slot].stripes, 1u << relay);
    return relay;
}

void gpu_relay_late(struct gpu *gpu, int slot)
{
    struct gpu_heap *heap = &gpu->heap;
    struct gpu_window *window = &heap->windows[slot];
    if (heap->wish == GPU_RELAY_NEVER || window->relay >= 0 || slot == heap->boot->local_pe ||
        !gpu_heap_begin_opening(heap))
        return;
    choose(heap, window, heap->wish);
    int relay = window->relay;
    if (relay >= 0 && (side_on(gpu, heap->relays[relay].ordinal) < 0 || open_to(gpu, relay, slot)))
        no_relay(window, base_last_error());
    gpu_heap_end_opening(heap);
}

static void free_around(struct gpu *side, struct gpu_around *around)
{
    const struct cuda *cuda = &side->cuda;
    if (!around->at)
        return;
    cuda->MemUnmap(around->at, around->bytes);
    cuda->MemRelease(around->handle);
    cuda->MemAddressFree(around->at, around->bytes);
    around->at = 0;
}

void gpu_relay_stop(struct gpu *gpu)
{
    for (int relay = 0; gpu->sides && relay < gpu->device.visible; relay++) {
        struct gpu *side = gpu->sides[relay];
        if (!side)
            continue;
        gpu_machinery_stop(side);
        free_around(side, &side->around);
        gpu_machinery_end(side);
        free(side);
    }
    free(gpu->sides);
    gpu->sides = NULL;
}

/* -------------------------------------------------------- memory that a third GPU cannot access */

bool gpu_relay_reaches(struct gpu *side, const void *local)
{
    const struct gpu_heap *heap = &side->main->heap;
    return (uintptr_t)local - heap->reservation < heap->reserved_bytes ||
           gpu_place_of(side, local) != GPU_PLACE_DEVICE;
}

static CUresult map_around(struct gpu *side, CUdeviceptr at, size_t bytes,
                           CUmemGenericAllocationHandle handle)
{
    const struct gpu_device *own = &side->main->device;
    const struct cuda *cuda = &side->cuda;
    const CUmemAccessDesc here = {{CU_MEM_LOCATION_TYPE_DEVICE, own->device},
                                  CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    const CUmemAccessDesc there = {{CU_MEM_LOCATION_TYPE_DEVICE, side->device.device},
                                   CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult result = cuda->MemMap(at, bytes, 0, handle, 0);
    if (result)
        return result;
    result = cuda->MemSetAccess(at, bytes, &here, 1);
    if (!result)
        result = cuda->MemSetAccess(at, bytes, &there, 1);
    if (result)
        cuda->MemUnmap(at, bytes);
    return result;
}

static weft_status fill_around(struct gpu *side, struct gpu_around *around)
{
    enum { AROUND_BYTES = 4 << 20 };
    const struct cuda *cuda = &side->cuda;
    CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, side->main->device.device}};
    size_t unit = side->main->heap.granularity, bytes = (AROUND_BYTES + unit - 1) / unit * unit;
    CUdeviceptr at = 0;
    CUresult result = cuda->MemAddressReserve(&at, bytes, 0, 0, 0);
    if (result)
        return cuda_fail(cuda, result, "cuMemAddressReserve of %zu MiB", bytes >> 20);
    result = cuda->MemCreate(&around->handle, bytes, &properties, 0);
    if (!result) {
        result = map_around(side, at, bytes, around->handle);
        if (result)
            cuda->MemRelease(around->handle);
    }
    if (result) {
        cuda->MemAddressFree(at, bytes);
        return cuda_fail(cuda, result, "%zu MiB of GPU %d that GPU %d can access", bytes >> 20,
                         side->main->device.ordinal, side->device.ordinal);
    }
    around->at = at;
    around->bytes = bytes;
    return WEFT_OK;
}

static weft_status make_around(struct gpu *side, struct gpu_around *around)
{
    weft_status status = around->at ? WEFT_OK : gpu_enter(&side->main->device);
    if (status || around->at)
        return status;
    status = fill_around(side, around);
    gpu_leave(&side->main->device);
    return status;
}

weft_status gpu_relay_copy_around(struct gpu *side, unsigned lane, void *dst, const void *src,
                                  size_t bytes)
{
    bool out = !gpu_relay_reaches(side, src); /* from this GPU, else to it */
    struct gpu *first = out ? side->main : side, *second = out ? side : side->main;
    pthread_mutex_lock(&side->around_lock);
    weft_status status = make_around(side, &side->around);
    void *between = (void *)(uintptr_t)side->around.at;
    for (size_t done = 0; done < bytes && !status;) {
        size_t now = bytes - done < side->around.bytes ? bytes - done : side->around.bytes;
        status = gpu_copy(first, lane, between, (const char *)src + done, now, GPU_DONE);
        if (!status)
            status = gpu_copy(second, lane, (char *)dst + done, between, now, GPU_DONE);
        done += now;
    }
    pthread_mutex_unlock(&side->around_lock);
    return status;
}
