/* SPDX-License-Identifier: Apache-2.0 */
/* Shows which relay GPU is chosen for which window, what is opened on it and closed, and how copies
 * go through memory that it can access. The driver is a table of functions over matrices of
 * links. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/status.h"
#include "counted.h"
#include "gpu/multipath/links.h"
#include "gpu/multipath/relay.h"
#include "gpu/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GPUS = 5, SLOTS = 4, OWN = 1, DEVICE = 100, MIB = 1 << 20, AROUND = 4 * MIB };

static struct gpu gpu;
static struct gpu_window windows[SLOTS];
static int local_pes[SLOTS] = {2, 4, 6, 8};
static struct boot boot = {.local_pe = OWN, .local_npes = SLOTS, .local_pes = local_pes, .pe = 4};
static bool access_to[GPUS][GPUS], nvlink[GPUS][GPUS];
static int rank[GPUS][GPUS];
/* GPUs whose rank the driver does not report, and that it does not return; -1: none. */
static int unranked, hidden;
static int planned[GPUS]; /* relay GPU for the pair of the own GPU and that one; -1: none */
static uint32_t planned_used;
static bool planned_all, opening_fails;
static char text[1024];
static int calls, fails;

static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void note(const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, sizeof text - used, format, args);
    va_end(args);
}

static void expect(const char *wanted)
{
    assert_string_equal(text, wanted);
    text[0] = '\0';
}

static CUresult device_get(CUdevice *device, int ordinal)
{
    *device = DEVICE + ordinal;
    return ordinal == hidden ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

/* A GPU outside the matrices has no links. */
static bool in_matrices(CUdevice a, CUdevice b)
{
    return a < DEVICE + GPUS && b < DEVICE + GPUS;
}

static CUresult can_access(int *can, CUdevice by, CUdevice of)
{
    assert_int_not_equal(by, of);
    *can = in_matrices(by, of) && access_to[by - DEVICE][of - DEVICE];
    return CUDA_SUCCESS;
}

static CUresult p2p(int *value, int which, CUdevice a, CUdevice b)
{
    assert_int_not_equal(a, b);
    if (which == CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK) {
        *value = in_matrices(a, b) ? rank[a - DEVICE][b - DEVICE] : 0;
        return a - DEVICE == unranked ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
    }
    assert_int_equal(which, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED);
    *value = in_matrices(a, b) && nvlink[a - DEVICE][b - DEVICE];
    return CUDA_SUCCESS;
}

bool __wrap_gpu_device_find(const struct gpu_device *own, const CUuuid *uuid, CUdevice *device,
                            int *ordinal);
bool __wrap_gpu_device_find(const struct gpu_device *own, const CUuuid *uuid, CUdevice *device,
                            int *ordinal)
{
    *ordinal = uuid->bytes[2];
    *device = DEVICE + *ordinal;
    return uuid->bytes[3] == 0;
}

void __wrap_gpu_links_read(const struct gpu_device *own, struct gpu_links *links);
void __wrap_gpu_links_read(const struct gpu_device *own, struct gpu_links *links)
{
    links->n = GPUS;
}

void __wrap_gpu_relays_assign(const struct gpu_links *links, uint32_t used, bool all,
                              int third[GPU_LINKS_MOST][GPU_LINKS_MOST]);
void __wrap_gpu_relays_assign(const struct gpu_links *links, uint32_t used, bool all,
                              int third[GPU_LINKS_MOST][GPU_LINKS_MOST])
{
    assert_int_equal(links->n, GPUS);
    memset(third, 0, sizeof(int[GPU_LINKS_MOST][GPU_LINKS_MOST]));
    for (int i = 0; i < GPUS; i++)
        third[gpu.device.ordinal][i] = planned[i];
    planned_used = used;
    planned_all = all;
}

weft_status __wrap_gpu_device_open(struct gpu_device *device, const struct gpu_api *driver,
                                   CUcontext current, const char *wanted, int local_pe);
weft_status __wrap_gpu_device_open(struct gpu_device *device, const struct gpu_api *driver,
                                   CUcontext current, const char *wanted, int local_pe)
{
    assert_true(driver == &gpu.driver && !current && local_pe == 0);
    note("open%s ", wanted);
    device->ordinal = atoi(wanted);
    device->device = DEVICE + device->ordinal;
    device->driver = driver;
    snprintf(device->bus_id, sizeof device->bus_id, "bus%s", wanted);
    return opening_fails ? base_fail(WEFT_ERR_SYSTEM, "no context") : WEFT_OK;
}

void __wrap_gpu_resources_init(struct gpu *side);
void __wrap_gpu_resources_init(struct gpu *side)
{
    pthread_mutex_init(&side->multipath.buffer_lock, NULL);
    note("init%d ", side->device.ordinal);
}

weft_status __wrap_gpu_resources_start(struct gpu *side);
weft_status __wrap_gpu_resources_start(struct gpu *side)
{
    assert_ptr_equal(side->owner, &gpu);
    assert_ptr_equal(side->boot, &boot);
    assert_true(side->wait_limit_ns == 123 && side->driver.MemMap == gpu.driver.MemMap);
    return ++calls == fails ? base_fail(WEFT_ERR_SYSTEM, "no streams") : WEFT_OK;
}

void __wrap_gpu_resources_stop(struct gpu *side);
void __wrap_gpu_resources_stop(struct gpu *side)
{
    note("stop%d ", side->device.ordinal);
}

void __wrap_gpu_resources_end(struct gpu *side);
void __wrap_gpu_resources_end(struct gpu *side)
{
    note("end%d ", side->device.ordinal);
}

weft_status __wrap_gpu_heap_open_to(struct gpu_heap *heap, int slot, const struct gpu_device *by);
weft_status __wrap_gpu_heap_open_to(struct gpu_heap *heap, int slot, const struct gpu_device *by)
{
    note("%d>%d ", slot, by->ordinal);
    return ++calls == fails ? base_fail(WEFT_ERR_SYSTEM, "no access") : WEFT_OK;
}

void __wrap_gpu_heap_unmap_unused(struct gpu_heap *heap, int slot);
void __wrap_gpu_heap_unmap_unused(struct gpu_heap *heap, int slot)
{
    note("unused%d ", slot);
}

static int entered, reserved, created, mapped;

weft_status __wrap_gpu_enter(const struct gpu_device *device);
weft_status __wrap_gpu_enter(const struct gpu_device *device)
{
    assert_ptr_equal(device, &gpu.device);
    if (++calls == fails)
        return base_fail(WEFT_ERR_SYSTEM, "no context");
    entered++;
    return WEFT_OK;
}

void __wrap_gpu_leave(const struct gpu_device *device);
void __wrap_gpu_leave(const struct gpu_device *device)
{
    entered--;
}

static CUresult step(int *count)
{
    if (++calls == fails)
        return CUDA_ERROR_OUT_OF_MEMORY;
    (*count)++;
    return CUDA_SUCCESS;
}

static CUresult reserve(CUdeviceptr *at, size_t bytes, size_t alignment, CUdeviceptr wish,
                        unsigned long long flags)
{
    assert_true(bytes == 6 * MIB && !alignment && !wish && !flags);
    *at = 0x5000000;
    return step(&reserved);
}

static CUresult unreserve(CUdeviceptr at, size_t bytes)
{
    assert_true(at == 0x5000000 && bytes == 6 * MIB);
    reserved--;
    return CUDA_SUCCESS;
}

static CUresult create(CUmemGenericAllocationHandle *handle, size_t bytes,
                       const CUmemAllocationProp *properties, unsigned long long flags)
{
    assert_true(bytes == 6 * MIB && properties->location.id == DEVICE + 1 && !flags);
    *handle = 44;
    return step(&created);
}

static CUresult release(CUmemGenericAllocationHandle handle)
{
    assert_int_equal(handle, 44);
    created--;
    return CUDA_SUCCESS;
}

static CUresult mem_map(CUdeviceptr at, size_t bytes, size_t offset,
                        CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    assert_true(at == 0x5000000 && bytes == 6 * MIB && !offset && handle == 44 && !flags);
    return step(&mapped);
}

static CUresult mem_unmap(CUdeviceptr at, size_t bytes)
{
    assert_true(at == 0x5000000 && bytes == 6 * MIB);
    mapped--;
    return CUDA_SUCCESS;
}

static CUresult set_access(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *access, size_t n)
{
    int opened = 0;
    assert_true(at == 0x5000000 && bytes == 6 * MIB && n == 1 &&
                access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    note("access%d ", access->location.id - DEVICE);
    return step(&opened);
}

static CUresult error_text(CUresult result, const char **words)
{
    *words = "FAILED";
    return CUDA_SUCCESS;
}

weft_status __wrap_gpu_copy(struct gpu *by, unsigned lane, void *dst, const void *src, size_t bytes,
                            enum gpu_copy_mode manner);
weft_status __wrap_gpu_copy(struct gpu *by, unsigned lane, void *dst, const void *src, size_t bytes,
                            enum gpu_copy_mode manner)
{
    assert_true(lane == 3 && manner == GPU_DONE);
    note("%s:%lx<%lx+%lx ", by == &gpu ? "own" : "side", (unsigned long)dst, (unsigned long)src,
         (unsigned long)bytes);
    return ++calls == fails ? base_fail(WEFT_ERR_SYSTEM, "no copy") : WEFT_OK;
}

enum gpu_place __wrap_gpu_place_of(struct gpu *by, const void *address);
enum gpu_place __wrap_gpu_place_of(struct gpu *by, const void *address)
{
    return (uintptr_t)address >= 0x90000000 ? GPU_PLACE_DEVICE : GPU_PLACE_PLAIN;
}

/* Each GPU can access each other by PCIe. The own GPU is GPU 1; slot n is on GPU n. */
static int set_up(void **state)
{
    memset(&gpu, 0, sizeof gpu);
    memset(windows, 0, sizeof windows);
    memset(nvlink, 0, sizeof nvlink);
    memset(rank, 0, sizeof rank);
    memset(access_to, 1, sizeof access_to);
    memset(planned, 0xff, sizeof planned);
    text[0] = '\0';
    unranked = hidden = -1;
    opening_fails = false;
    calls = fails = entered = reserved = created = mapped = 0;
    gpu.driver = (struct gpu_api){.DeviceGet = device_get,
                                  .DeviceCanAccessPeer = can_access,
                                  .DeviceGetP2PAttribute = p2p,
                                  .MemAddressReserve = reserve,
                                  .MemAddressFree = unreserve,
                                  .MemCreate = create,
                                  .MemRelease = release,
                                  .MemMap = mem_map,
                                  .MemUnmap = mem_unmap,
                                  .MemSetAccess = set_access,
                                  .GetErrorName = error_text,
                                  .GetErrorString = error_text};
    gpu.device = (struct gpu_device){
        .driver = &gpu.driver, .device = DEVICE + 1, .ordinal = 1, .visible = GPUS};
    gpu.boot = &boot;
    gpu.wait_limit_ns = 123;
    gpu.heap = (struct gpu_heap){.device = &gpu.device,
                                 .boot = &boot,
                                 .windows = windows,
                                 .granularity = 3 * MIB,
                                 .reservation = 0x70000000,
                                 .reserved_bytes = 0x1000};
    pthread_mutex_init(&gpu.heap.opening_lock, NULL);
    for (int slot = 0; slot < SLOTS; slot++)
        windows[slot].gpu.uuid.bytes[2] = (char)slot;
    counted_begin();
    return 0;
}

static int tear_down(void **state)
{
    gpu_relay_stop(&gpu);
    free(gpu.heap.relays);
    assert_int_equal(entered, 0);
    assert_int_equal(reserved, 0);
    assert_int_equal(created, 0);
    assert_int_equal(mapped, 0);
    return counted_end(state);
}

static void link(int a, int b)
{
    nvlink[a][b] = nvlink[b][a] = true;
}

static void cut(int a, int b)
{
    access_to[a][b] = access_to[b][a] = false;
}

static int relay_of(int slot)
{
    return windows[slot].relay < 0 ? -1 : gpu.heap.relays[windows[slot].relay].ordinal;
}

/* --------------------------------------------------------------------- choice of the relay GPU */

/* Only slot 2 has no peer access; the other windows count as mapped. */
static void only_slot_two(enum gpu_relay_policy wish)
{
    windows[0].mapped = windows[3].mapped = true;
    windows[2].mapped = wish == GPU_RELAY_ALWAYS;
    gpu_relay_select(&gpu.heap, wish);
}

static void the_best_third_is_taken(void **state)
{
    only_slot_two(GPU_RELAY_WHERE_NEEDED);
    assert_string_equal(windows[2].relay_text, "no relay GPU has NVLink to both");
    assert_string_equal(windows[0].relay_text, "not needed: this GPU can access the peer's memory");
    assert_string_equal(windows[OWN].relay_text, "the same PE");
    link(4, 1); /* NVLink to one side only */
    only_slot_two(GPU_RELAY_WHERE_NEEDED);
    assert_int_equal(relay_of(2), -1);
    link(4, 2);
    only_slot_two(GPU_RELAY_WHERE_NEEDED);
    assert_int_equal(relay_of(2), 4);
    assert_string_equal(windows[2].relay_text, "over GPU 4 (bus4), which reaches both by NVLink");
    assert_int_equal(windows[0].relay, -1);
    expect("open4 ");
    link(3, 1), link(3, 2); /* equally fast, and the first after the own GPU */
    only_slot_two(GPU_RELAY_WHERE_NEEDED);
    assert_int_equal(relay_of(2), 3);
    rank[3][1] = 2;
    only_slot_two(GPU_RELAY_WHERE_NEEDED);
    assert_int_equal(relay_of(2), 4);
    rank[4][2] = 3; /* the slower of the two links counts */
    only_slot_two(GPU_RELAY_WHERE_NEEDED);
    assert_int_equal(relay_of(2), 3);
    unranked = 3;
    only_slot_two(GPU_RELAY_WHERE_NEEDED);
    assert_int_equal(relay_of(2), 4);
    unranked = -1;
    cut(3, 2);
    only_slot_two(GPU_RELAY_WHERE_NEEDED);
    assert_int_equal(relay_of(2), 4);
    access_to[4][1] = false; /* seen from the relay GPU */
    only_slot_two(GPU_RELAY_WHERE_NEEDED);
    assert_int_equal(relay_of(2), -1);
    expect("open3 "); /* each relay GPU is opened once */
    assert_int_equal(gpu.heap.relay_count, 2);
    gpu_relay_select(&gpu.heap, GPU_RELAY_NEVER);
    assert_string_equal(windows[2].relay_text, "not needed: WEFT_PATH excludes path relay");
}

static void where_it_is_forced_anything_serves(void **state)
{
    only_slot_two(GPU_RELAY_ALWAYS);
    assert_int_equal(relay_of(2), 3);
    assert_int_equal(relay_of(0), 2);
    assert_string_equal(windows[2].relay_text, "over GPU 3 (bus3), which reaches both by PCIe");
    assert_true(planned_all);
    hidden = 3;
    cut(4, 1), cut(0, 2);
    only_slot_two(GPU_RELAY_ALWAYS);
    assert_int_equal(relay_of(2), 2);
    assert_string_equal(windows[2].relay_text,
                        "over the peer's own GPU 2 (bus2), which reaches this PE's by PCIe");
    cut(2, 1);
    only_slot_two(GPU_RELAY_ALWAYS);
    assert_string_equal(windows[2].relay_text, "no GPU can access both this PE's and the peer's");
    gpu.device.visible = 2;
    only_slot_two(GPU_RELAY_ALWAYS);
    assert_string_equal(windows[2].relay_text, "no relay GPU is visible to this PE");
    windows[2].gpu.uuid.bytes[3] = 1;
    only_slot_two(GPU_RELAY_ALWAYS);
    assert_string_equal(windows[2].relay_text,
                        "the peer's GPU is not visible to this PE (CUDA_VISIBLE_DEVICES)");
    gpu.device.visible = GPUS;
}

static void the_peers_own_is_the_last_resort(void **state)
{
    link(2, 1);
    only_slot_two(GPU_RELAY_ALWAYS);
    assert_int_equal(relay_of(2), 3); /* though the peer's own GPU has NVLink */
    windows[2].mapped = false;
    hidden = 3, cut(4, 1), cut(0, 1);
    gpu_relay_select(&gpu.heap, GPU_RELAY_WHERE_NEEDED);
    assert_string_equal(windows[2].relay_text, "no relay GPU has NVLink to both");
}

/* Of equally fast GPUs, the one that serves fewer windows is chosen. */
static void windows_are_shared_out(void **state)
{
    gpu_relay_select(&gpu.heap, GPU_RELAY_ALWAYS);
    assert_int_equal(relay_of(0), 2);
    assert_int_equal(relay_of(2), 3);
    assert_int_equal(relay_of(3), 4);
    expect("open2 open3 open4 ");
}

static void what_the_links_give_comes_first(void **state)
{
    planned[2] = 0;
    windows[3].gpu.uuid.bytes[3] = 1; /* a GPU that is not visible */
    link(0, 1), link(0, 2), link(3, 1), link(3, 2);
    windows[0].mapped = true;
    gpu_relay_select(&gpu.heap, GPU_RELAY_WHERE_NEEDED);
    assert_int_equal(relay_of(2), 0);
    assert_int_equal(planned_used, 7);
    assert_false(planned_all);
    cut(0, 1);
    gpu_relay_select(&gpu.heap, GPU_RELAY_WHERE_NEEDED);
    assert_int_equal(relay_of(2), 3);
    access_to[0][1] = true;
    windows[2].gpu.uuid.bytes[2] = GPU_LINKS_MOST; /* beyond the supported number of GPUs */
    gpu_relay_select(&gpu.heap, GPU_RELAY_WHERE_NEEDED);
    assert_int_equal(planned_used, 3);
}

static void a_third_that_cannot_be_opened_is_none(void **state)
{
    opening_fails = true;
    only_slot_two(GPU_RELAY_ALWAYS);
    assert_string_equal(windows[2].relay_text, "no context");
    assert_int_equal(gpu.heap.relay_count, 0);
    assert_null(gpu.heap.relays[0].driver);
    free(gpu.heap.relays);
    gpu.heap.relays = NULL;
    opening_fails = false;
    windows[0].gpu.uuid.bytes[3] = windows[3].gpu.uuid.bytes[3] = 1;
    counted.fail_in = 0; /* without memory for the links, the choice is made without them */
    only_slot_two(GPU_RELAY_ALWAYS);
    assert_int_equal(relay_of(2), 3);
    free(gpu.heap.relays);
    gpu.heap.relays = NULL;
    gpu.heap.relay_count = 0;
    counted.fail_in = 1;
    only_slot_two(GPU_RELAY_ALWAYS);
    assert_string_equal(windows[2].relay_text, "no private memory for a relay GPU");
}

/* ------------------------------------------------------------------------------ start and close */

static void choose_all(void)
{
    gpu_relay_select(&gpu.heap, GPU_RELAY_ALWAYS); /* relayed by GPUs 2, 3 and 4 */
    text[0] = '\0';
}

static void third_gpus_are_started_and_lost(void **state)
{
    choose_all();
    fails = 2;
    gpu_relay_start(&gpu);
    expect("init2 init3 stop3 end3 unused2 init4 ");
    assert_string_equal(windows[2].relay_text, "no streams");
    assert_int_equal(windows[2].relay, -1);
    assert_null(gpu.multipath.relay_gpus[1]);
    assert_int_equal(gpu.multipath.relay_gpus[2]->device.ordinal, 4);
    assert_ptr_equal(gpu_relay_gpu(&gpu, 3), gpu.multipath.relay_gpus[2]);
    assert_null(gpu_relay_gpu(&gpu, 2));
    gpu_relay_drop(&gpu.heap, 2, "again");
    expect("");
    windows[0].stripes = 5;
    windows[3].stripes = 4;
    assert_true(gpu_relay_used(&gpu.heap, 0) && gpu_relay_used(&gpu.heap, 2));
    assert_false(gpu_relay_used(&gpu.heap, 1));
    gpu_relay_remove(&gpu.heap, 2, "it is broken");
    expect("unused3 ");
    assert_string_equal(windows[3].relay_text, "it is broken");
    assert_true(windows[0].stripes == 1 && windows[3].stripes == 0);
    assert_int_equal(windows[0].relay, 0);
    gpu_relay_stop(&gpu);
    expect("stop2 end2 stop4 end4 ");
    assert_null(gpu.multipath.relay_gpus);
    for (int i = 0; i < 2; i++) {
        counted.fail_in = i;
        windows[0].relay = 0, windows[0].stripes = 0;
        gpu_relay_start(&gpu);
        assert_int_equal(windows[0].relay, -1);
        assert_string_equal(windows[0].relay_text,
                            i ? "no private memory for a relay GPU" : "no private memory");
        gpu_relay_stop(&gpu);
    }
}

static void a_further_third_is_opened_for_a_part(void **state)
{
    assert_int_equal(gpu_relay_open(&gpu, 3, 2), -1); /* before the start */
    gpu_relay_start(&gpu);
    expect("");
    assert_int_equal(gpu_relay_open(&gpu, 3, 2), 0);
    expect("open3 init3 1>3 2>3 ");
    assert_int_equal(gpu_relay_open(&gpu, 4, 2), 1);
    assert_int_equal(gpu_relay_open(&gpu, 3, 0), 0);
    expect("open4 init4 1>4 2>4 1>3 0>3 ");
    assert_int_equal(windows[2].stripes, 3);
    assert_int_equal(windows[0].stripes, 1);
    /* Fail in turn: the context, the own window, the peer's window. */
    for (int i = 1; i <= 3; i++) {
        calls = 0;
        fails = i;
        assert_int_equal(gpu_relay_open(&gpu, 4, 3), -1);
        assert_int_equal(windows[3].stripes, 0);
    }
    calls = 0, fails = 1, text[0] = '\0';
    assert_int_equal(gpu_relay_open(&gpu, 0, 3), -1); /* starting its streams fails */
    expect("open0 init0 stop0 end0 ");
}

static void a_third_is_found_late(void **state)
{
    gpu_relay_select(&gpu.heap, GPU_RELAY_NEVER);
    gpu_relay_start(&gpu);
    gpu.heap.policy = GPU_RELAY_NEVER;
    gpu_relay_add_fallback(&gpu, 2);
    gpu.heap.policy = GPU_RELAY_WHERE_NEEDED;
    gpu_relay_add_fallback(&gpu, OWN);
    gpu.heap.growing = true; /* another thread grows the heap */
    gpu_relay_add_fallback(&gpu, 2);
    expect("");
    gpu.heap.growing = false;
    windows[2].mapped = true; /* the window is about to be dropped */
    gpu_relay_add_fallback(&gpu, 2);
    assert_string_equal(windows[2].relay_text, "no relay GPU has NVLink to both");
    assert_true(planned_all);
    link(3, 1), link(3, 2);
    for (int i = 0; i < 2; i++) {
        calls = 0, fails = i ? 0 : 3;
        gpu_relay_add_fallback(&gpu, 2);
        expect(i ? "1>3 2>3 " : "open3 init3 1>3 ");
        assert_int_equal(relay_of(2), i ? 3 : -1);
    }
    gpu_relay_add_fallback(&gpu, 2);
    expect("");
    fails = calls + 1;
    windows[2].relay = -1, link(4, 1), link(4, 2), rank[3][1] = 9;
    gpu_relay_add_fallback(&gpu, 2); /* the streams on it cannot be made */
    assert_string_equal(windows[2].relay_text, "no streams");
}

/* ------------------------------------------------------- memory that the relay GPU cannot
 * access */

static void memory_that_it_cannot_access_goes_around(void **state)
{
    void *own = (void *)0x90000000, *peer = (void *)0x71000000;
    windows[2].mapped = false;
    link(3, 1), link(3, 2);
    windows[0].mapped = windows[3].mapped = true;
    gpu_relay_select(&gpu.heap, GPU_RELAY_WHERE_NEEDED);
    gpu_relay_start(&gpu);
    struct gpu *side = gpu_relay_gpu(&gpu, 2);
    assert_false(gpu_relay_reaches(side, own));
    assert_true(gpu_relay_reaches(side, (void *)0x70000fff)); /* memory of the heap */
    assert_true(gpu_relay_reaches(side, (void *)0x80000000)); /* host memory */
    gpu.heap.reservation = 0x90000000;
    assert_true(gpu_relay_reaches(side, (void *)0x90000fff));
    assert_false(gpu_relay_reaches(side, (void *)0x90001000));
    gpu.heap.reservation = 0x70000000;
    text[0] = '\0';
    /* Fail in turn: the context, addresses, memory, its mapping, access of both GPUs. */
    for (int i = 1; i <= 6; i++) {
        calls = 0;
        fails = i;
        assert_int_equal(gpu_relay_copy_staged(side, 3, peer, own, 8),
                         i == 1 ? WEFT_ERR_SYSTEM : WEFT_ERR_NO_MEMORY);
        assert_true(reserved == 0 && created == 0 && mapped == 0 && entered == 0);
    }
    assert_non_null(strstr(base_last_error(), "6 MiB of GPU 1 that GPU 3 can access"));
    fails = 0, text[0] = '\0';
    assert_int_equal(gpu_relay_copy_staged(side, 3, peer, own, 6 * MIB + 16), WEFT_OK);
    expect("access1 access3 own:5000000<90000000+600000 side:71000000<5000000+600000 "
           "own:5000000<90600000+10 side:71600000<5000000+10 ");
    assert_int_equal(gpu_relay_copy_staged(side, 3, own, peer, 6 * MIB), WEFT_OK);
    /* The staging memory is reused. */
    expect("side:5000000<71000000+600000 own:90000000<5000000+600000 ");
    for (int i = 1; i <= 2; i++) {
        calls = 0, fails = i, text[0] = '\0';
        assert_int_equal(gpu_relay_copy_staged(side, 3, own, peer, 12 * MIB), WEFT_ERR_SYSTEM);
        assert_int_equal(calls, i);
    }
    assert_true(reserved == 1 && created == 1 && mapped == 1 && entered == 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_best_third_is_taken),
        TEST(where_it_is_forced_anything_serves),
        TEST(the_peers_own_is_the_last_resort),
        TEST(windows_are_shared_out),
        TEST(what_the_links_give_comes_first),
        TEST(a_third_that_cannot_be_opened_is_none),
        TEST(third_gpus_are_started_and_lost),
        TEST(a_further_third_is_opened_for_a_part),
        TEST(a_third_is_found_late),
        TEST(memory_that_it_cannot_access_goes_around),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
