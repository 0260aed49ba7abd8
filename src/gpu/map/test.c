/* SPDX-License-Identifier: Apache-2.0 */
/* Tests whether a mapping shows the memory that it should, with the copy engine at the other end,
 * and measures up to which sizes the CPU is faster. See map.h and backend.h. */
#include "gpu/gpu.h"
#include "gpu/map/backend.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "gpu/test/cache.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------- the test */

/* Never the same data twice, so that data of an earlier test is not taken for a result. */
static void fill_random(unsigned char *data, size_t bytes)
{
    static _Atomic uint64_t turn;
    uint64_t state = clock_now_ns() + (atomic_fetch_add(&turn, 1) << 32);
    for (size_t i = 0; i < bytes; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        data[i] = (unsigned char)(state >> 56);
    }
}

static weft_status compare_bytes(const char *what, const unsigned char *is,
                                 const unsigned char *should, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (is[i] != should[i])
            return base_fail(WEFT_ERR_PATH, "%zu bytes %s: byte %zu is %#x and should be %#x",
                             bytes, what, i, is[i], should[i]);
    return WEFT_OK;
}

weft_status map_test_store(struct gpu *gpu, char *mapped, CUdeviceptr device, size_t bytes)
{
    unsigned char sent[GPU_MAP_TEST_BYTES], received[GPU_MAP_TEST_BYTES];
    fill_random(sent, bytes);
    memset(received, 0, bytes);
    wc_store(mapped, sent, bytes);
    wc_flush(mapped);
    weft_status status = gpu_copy(gpu, 0, received, (void *)(uintptr_t)device, bytes, GPU_DONE);
    return status ? status
                  : compare_bytes("stored by the CPU and read by the GPU", received, sent, bytes);
}

weft_status map_test_load(struct gpu *gpu, const char *mapped, CUdeviceptr device, size_t bytes)
{
    unsigned char sent[GPU_MAP_TEST_BYTES], received[GPU_MAP_TEST_BYTES];
    fill_random(sent, bytes);
    memset(received, 0, bytes);
    weft_status status = gpu_copy(gpu, 0, (void *)(uintptr_t)device, sent, bytes, GPU_DONE);
    if (status)
        return status;
    wc_load(received, mapped, bytes);
    return compare_bytes("written by the GPU and loaded by the CPU", received, sent, bytes);
}

/* Tests `bytes` at `lead` of the test area: in by the CPU and out by the copy engine, and vice
 * versa. */
static weft_status test_size(struct gpu *gpu, char *mapped, CUdeviceptr device, size_t lead,
                             size_t bytes)
{
    weft_status status = map_test_store(gpu, mapped + lead, device + lead, bytes);
    return status ? status : map_test_load(gpu, mapped + lead, device + lead, bytes);
}

/* Makes the tag that local PE `owner` writes into its memory for PE `reader`. */
static void make_tag(const struct gpu *gpu, int owner, int reader, uint64_t tag[GPU_MAP_TAG_WORDS])
{
    uint64_t state = gpu->heap.windows[owner].gpu.job_tag + (uint64_t)reader * 0x9e3779b97f4a7c15u;
    for (int i = 0; i < GPU_MAP_TAG_WORDS; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        tag[i] = state ^ state >> 29;
    }
}

CUresult gpu_map_write_tags(struct gpu *gpu, CUstream stream)
{
    const struct boot *boot = gpu->boot;
    CUresult result = CUDA_SUCCESS;
    uint64_t *tag = gpu->pinned->map_tag; /* the copy may outlive a call that fails */
    for (int slot = 0; gpu->heap.map && slot < boot->local_npes && !result; slot++) {
        int reader = boot->local_pes[slot];
        make_tag(gpu, boot->local_pe, reader, tag);
        CUdeviceptr at = gpu_heap_own(&gpu->heap)->base + gpu->layout.map_test_offset +
                         (size_t)reader * GPU_MAP_TEST_BYTES;
        result = gpu->driver.MemcpyAsync(at, (uintptr_t)tag, sizeof gpu->pinned->map_tag, stream);
        if (!result)
            result = gpu->driver.StreamSynchronize(stream);
    }
    return result;
}

/* Tests memory that no GPU of this PE reaches: the owner's tag is found there, and stored data can
 * be loaded again. That stores reach GPU memory was tested with the same backend in this PE's own
 * memory. */
static weft_status test_by_tag(struct gpu_map *map, int slot)
{
    uint64_t wanted[GPU_MAP_TAG_WORDS], found[GPU_MAP_TAG_WORDS];
    char *at = gpu_map_test_area(map, slot);
    make_tag(map->gpu, slot, map->gpu->boot->pe, wanted);
    wc_load(found, at, sizeof found);
    if (memcmp(found, wanted, sizeof found) != 0)
        return base_fail(WEFT_ERR_PATH,
                         "the tag that PE %d wrote into its memory is not found in its mapping",
                         map->gpu->boot->local_pes[slot]);
    fill_random((unsigned char *)wanted, sizeof wanted);
    wc_store(at, wanted, sizeof wanted);
    wc_flush(at);
    wc_load(found, at, sizeof found);
    return memcmp(found, wanted, sizeof found) != 0
               ? base_fail(WEFT_ERR_PATH, "data stored into memory of PE %d is not found there",
                           map->gpu->boot->local_pes[slot])
               : WEFT_OK;
}

weft_status map_test(struct gpu_map *map, int slot)
{
    static const struct {
        unsigned short lead, bytes;
    } sizes[] = {{0, 8}, {1, 1}, {12, 4}, {3, 200}, {64, 64}, {77, 1001}, {0, GPU_MAP_TEST_BYTES}};
    struct gpu *gpu = map->gpu;
    CUdeviceptr device = gpu_address(
        gpu, slot, gpu->layout.map_test_offset + (size_t)gpu->boot->pe * GPU_MAP_TEST_BYTES);
    if (!device)
        return test_by_tag(map, slot);
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && !status; i++)
        status =
            test_size(gpu, gpu_map_test_area(map, slot), device, sizes[i].lead, sizes[i].bytes);
    return status;
}

/* ----------------------------------------------------------------------------- up to which size */

enum { PROVE_ALWAYS_CHOICE = 0 }; /* value of WEFT_PROVE */
/* Sizes in bytes that are measured, tries of each, and the copies that warm up the GPU. */
enum { SMALLEST = 512, LARGEST = GPU_MAP_MOST, TRIES = 11, WARM_BYTES = 64 << 10, WARM_TRIES = 40 };

struct map_trial {
    struct gpu *gpu;
    char *mapped, *host;
    void *device;
    size_t bytes;
};

static void store_mapped(struct map_trial *t)
{
    wc_store(t->mapped, t->host, t->bytes);
    wc_flush(t->mapped);
}

static void load_mapped(struct map_trial *t)
{
    wc_load(t->host, t->mapped, t->bytes);
}

static void store_engine(struct map_trial *t)
{
    gpu_copy(t->gpu, 0, t->device, t->host, t->bytes, GPU_DONE);
}

static void load_engine(struct map_trial *t)
{
    gpu_copy(t->gpu, 0, t->host, t->device, t->bytes, GPU_DONE);
}

/* Returns the shortest time of several tries: disturbances make a try longer, never shorter. */
static uint64_t shortest_trial_ns(void (*copy)(struct map_trial *), struct map_trial *trial)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        uint64_t begin = clock_now_ns();
        copy(trial);
        uint64_t ns = clock_now_ns() - begin;
        least = ns < least ? ns : least;
    }
    return least;
}

/* Returns the largest size before the first size at which the copy engine is faster: the CPU's time
 * grows with the size, the engine's hardly does. */
static size_t find_crossover(void (*by_cpu)(struct map_trial *),
                             void (*by_engine)(struct map_trial *), struct map_trial *trial)
{
    size_t last = 0;
    trial->bytes = WARM_BYTES;
    for (int i = 0; i < WARM_TRIES;
         i++) /* the first copies of a process and of an idle GPU take several times as long */
        by_engine(trial);
    for (size_t bytes = SMALLEST; bytes <= LARGEST; bytes *= 2) {
        trial->bytes = bytes;
        if (shortest_trial_ns(by_cpu, trial) > shortest_trial_ns(by_engine, trial))
            return last;
        last = bytes;
    }
    return last;
}

static void measure_mapped_copies(struct gpu_map *map, void *plain, void *pinned,
                                  CUdeviceptr device, char *mapped)
{
    struct gpu_map_limits *limits = &map->limits;
    struct map_trial trial = {
        .gpu = map->gpu, .mapped = mapped, .device = (void *)(uintptr_t)device, .host = plain};
    limits->store_plain = find_crossover(store_mapped, store_engine, &trial);
    limits->load_plain = find_crossover(load_mapped, load_engine, &trial);
    trial.host = pinned;
    limits->store_pinned = pinned ? find_crossover(store_mapped, store_engine, &trial) : 0;
    limits->load_pinned = pinned ? find_crossover(load_mapped, load_engine, &trial) : 0;
    log_info(
        LOG_GPU,
        "the CPU copies into GPU memory up to %zu bytes (%zu from pinned memory), out of it up to "
        "%zu bytes (%zu), with %s",
        limits->store_plain, limits->store_pinned, limits->load_plain, limits->load_pinned,
        wc_isa_name());
}

void gpu_map_extra_free(const struct gpu *gpu, struct gpu_map_extra *extra)
{
    gpu->driver.MemUnmap(extra->at, extra->bytes);
    gpu->driver.MemRelease(extra->handle);
    gpu->driver.MemAddressFree(extra->at, extra->bytes);
}

static CUresult map_extra(const struct gpu *gpu, struct gpu_map_extra *extra)
{
    const struct gpu_api *driver = &gpu->driver;
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, gpu->device.device},
                              CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult result = driver->MemAddressReserve(&extra->at, extra->bytes, 0, 0, 0);
    if (result)
        return result;
    result = driver->MemMap(extra->at, extra->bytes, 0, extra->handle, 0);
    if (result) {
        driver->MemAddressFree(extra->at, extra->bytes);
        return result;
    }
    result = driver->MemSetAccess(extra->at, extra->bytes, &access, 1);
    if (result) {
        driver->MemUnmap(extra->at, extra->bytes);
        driver->MemAddressFree(extra->at, extra->bytes);
    }
    return result;
}

weft_status gpu_map_extra_make(const struct gpu *gpu, size_t bytes, struct gpu_map_extra *extra)
{
    CUmemAllocationProp properties = gpu_heap_properties(&gpu->device);
    size_t unit = gpu->heap.granularity;
    extra->bytes = (bytes + unit - 1) / unit * unit;
    CUresult result = gpu->driver.MemCreate(&extra->handle, extra->bytes, &properties, 0);
    if (!result) {
        result = map_extra(gpu, extra);
        if (result)
            gpu->driver.MemRelease(extra->handle);
    }
    return result ? gpu_api_fail(&gpu->driver, result, "%zu bytes to measure with", bytes)
                  : WEFT_OK;
}

static weft_status measure_with(struct gpu_map *map, void *plain, void *pinned)
{
    struct gpu *gpu = map->gpu;
    struct gpu_map_user user = {0};
    struct gpu_map_extra extra;
    weft_status status = gpu_map_extra_make(gpu, LARGEST, &extra);
    if (status)
        return status;
    status = gpu_map_own(map, (void *)(uintptr_t)extra.at, LARGEST, &user);
    if (!status) {
        measure_mapped_copies(map, plain, pinned, extra.at, user.at);
        gpu_map_own_end(map, &user);
        gpu_map_own_forget(map, (void *)(uintptr_t)extra.at, extra.bytes);
    }
    gpu_map_extra_free(gpu, &extra);
    return status;
}

static weft_status measure_now(struct gpu_map *map)
{
    struct gpu *gpu = map->gpu;
    void *plain = malloc(LARGEST), *pinned = NULL;
    weft_status status = plain ? gpu_enter(&gpu->device)
                               : base_fail(WEFT_ERR_NO_MEMORY, "no private memory to measure with");
    if (status) {
        free(plain);
        return status;
    }
    memset(plain, 1, LARGEST); /* touches the pages */
    if (gpu->driver.MemHostAlloc(&pinned, LARGEST, CU_MEMHOSTALLOC_PORTABLE))
        pinned = NULL;
    status = measure_with(map, plain, pinned);
    if (pinned)
        gpu->driver.MemFreeHost(pinned);
    gpu_leave(&gpu->device);
    free(plain);
    return status;
}

/* Limits where no measurement is possible, as measured on an H200 over PCIe 5. */
static const struct gpu_map_limits default_limits = {.store_plain = 64 << 10,
                                                     .store_pinned = 64 << 10,
                                                     .load_plain = 4 << 10,
                                                     .load_pinned = 4 << 10};

/* Measures once after each boot, unless WEFT_PROVE=always asks for new measurements. */
static void find_map_limits(struct gpu_map *map)
{
    const struct gpu *gpu = map->gpu;
    struct gpu_map_limits *l = &map->limits;
    size_t known[4];
    int driver = gpu->driver.driver_version;
    if (config_choice(CONFIG_PROVE) != PROVE_ALWAYS_CHOICE &&
        proof_cache_load_numbers("gpu-copies", &gpu->device.uuid, driver, known, 4)) {
        *l = (struct gpu_map_limits){known[0], known[1], known[2], known[3]};
        return;
    }
    if (measure_now(map)) {
        log_info(LOG_GPU, "copies by the CPU could not be measured: %s", base_last_error());
        *l = default_limits;
        return;
    }
    proof_cache_store_numbers(
        "gpu-copies", &gpu->device.uuid, driver,
        (size_t[4]){l->store_plain, l->store_pinned, l->load_plain, l->load_pinned}, 4);
}

const struct gpu_map_limits *gpu_map_limits(struct gpu_map *map)
{
    if (atomic_load_explicit(&map->measured, memory_order_acquire))
        return &map->limits;
    pthread_mutex_lock(&map->measuring);
    if (!atomic_load_explicit(&map->measured, memory_order_relaxed)) {
        find_map_limits(map);
        /* Release: pairs with the acquire above. */
        atomic_store_explicit(&map->measured, true, memory_order_release);
    }
    pthread_mutex_unlock(&map->measuring);
    return &map->limits;
}

/* Queries the driver for the kind of host memory only where the kind decides. */
bool gpu_map_is_faster_by_size(struct gpu_map *map, const void *host, size_t bytes, bool in)
{
    const struct gpu_map_limits *limits = gpu_map_limits(map);
    size_t plain = in ? limits->store_plain : limits->load_plain;
    size_t pinned = in ? limits->store_pinned : limits->load_pinned;
    if ((bytes <= plain) == (bytes <= pinned))
        return bytes <= plain;
    return bytes <= (gpu_place_of(map->gpu, host) == GPU_PLACE_PLAIN ? plain : pinned);
}
