/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes the GPU side. See gpu.h. */
#include "gpu/bounce.h"
#include "gpu/coll/coll.h"
#include "gpu/map/map.h"
#include "gpu/multipath/relay.h"
#include "gpu/multipath/stripe.h"
#include "gpu/stream.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "boot/agree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gpu_resources_init(struct gpu *gpu)
{
    pthread_mutex_init(&gpu->wait_lock, NULL);
    pthread_mutex_init(&gpu->load_lock, NULL);
    pthread_mutex_init(&gpu->making_lock, NULL);
    pthread_mutex_init(&gpu->registered.lock, NULL);
    pthread_mutex_init(&gpu->events.lock, NULL);
    pthread_mutex_init(&gpu->multipath.buffer_lock, NULL);
    pthread_mutex_init(&gpu->bouncing.lock, NULL);
    for (int i = 0; i < GPU_STREAMS; i++)
        pthread_mutex_init(&gpu->streams[i].lock, NULL);
}

void gpu_resources_end(struct gpu *gpu)
{
    pthread_mutex_destroy(&gpu->wait_lock);
    pthread_mutex_destroy(&gpu->load_lock);
    pthread_mutex_destroy(&gpu->making_lock);
    pthread_mutex_destroy(&gpu->registered.lock);
    pthread_mutex_destroy(&gpu->events.lock);
    pthread_mutex_destroy(&gpu->multipath.buffer_lock);
    pthread_mutex_destroy(&gpu->bouncing.lock);
    for (int i = 0; i < GPU_STREAMS; i++)
        pthread_mutex_destroy(&gpu->streams[i].lock);
}

/* The first stream, and where the kernels of all leave their answers. */
static weft_status create_streams(struct gpu *gpu)
{
    for (int i = 0; i < GPU_STREAMS; i++) {
        size_t at =
            offsetof(struct gpu_pinned, streams) + sizeof gpu->pinned->streams[0] * (size_t)i;
        gpu->streams[i].answer = &gpu->pinned->streams[i].answer;
        gpu->streams[i].answer_device = gpu->pinned_device + at;
    }
    CUresult result = gpu->driver.StreamCreate(&gpu->streams[0].stream, CU_STREAM_NON_BLOCKING);
    return result
               ? gpu_api_fail(&gpu->driver, result, "cuStreamCreate on GPU %d", gpu->device.ordinal)
               : WEFT_OK;
}

static weft_status allocate_pinned(struct gpu *gpu)
{
    void *pinned;
    CUresult result = gpu->driver.MemHostAlloc(
        &pinned, sizeof *gpu->pinned, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    if (result)
        return gpu_api_fail(&gpu->driver, result, "cuMemHostAlloc of %zu bytes",
                            sizeof *gpu->pinned);
    gpu->pinned = pinned;
    memset(pinned, 0, sizeof *gpu->pinned);
    result = gpu->driver.MemHostGetDevicePointer(&gpu->pinned_device, pinned, 0);
    return result ? gpu_api_fail(&gpu->driver, result, "cuMemHostGetDevicePointer") : WEFT_OK;
}

weft_status gpu_resources_start(struct gpu *gpu)
{
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    status = gpu_module_load(&gpu->module, &gpu->device);
    if (!status)
        status = allocate_pinned(gpu);
    if (!status)
        status = create_streams(gpu);
    gpu_leave(&gpu->device);
    return status;
}

enum { TICKETS_BYTES = 4096 }; /* bytes of the count of error records, a page */

static size_t take(size_t *end, size_t bytes, size_t align)
{
    size_t at = (*end + align - 1) / align * align;
    *end = at + bytes;
    return at;
}

/* Lays out the library's part, at the start of every window: a count of error records, two areas
 * for each team (for device collectives and for barriers on streams), one area for each local peer
 * for the test of the pair, and the areas of collectives that the host and streams call. */
static void lay_out(struct gpu_layout *layout, const struct boot *boot, int teams)
{
    size_t members = (size_t)boot->npes, end = TICKETS_BYTES;
    bool one_node = boot->local_npes == boot->npes;
    layout->areas_offset = take(&end, weft_dev_staging_offset(boot->npes, teams, teams), 4096);
    layout->team_bytes = (sizeof(struct gpu_team_area) + members * sizeof(uint64_t) + 63) & ~63ul;
    layout->teams_offset = take(&end, layout->team_bytes * (size_t)teams, 4096);
    layout->proof_offset = take(&end, members * sizeof(struct prove_area), 4096);
    layout->lines_offset = take(&end, members * GPU_LINE_BYTES, 64);
    layout->nic_lines_offset = take(&end, 2 * members * GPU_LINE_BYTES, 64);
    layout->map_test_offset = take(&end, members * GPU_MAP_TEST_BYTES, 64);
    layout->coll.teams = teams < COLL_TEAMS ? teams : COLL_TEAMS;
    /* a job of two teams on one node has these for its world: the node's team has the same PEs */
    layout->coll.wide = teams == 2 && one_node ? 1 : COLL_WIDE_TEAMS;
    layout->coll.offset = take(&end, 0, 4096);
    layout->system_bytes = coll_area_offset(&layout->coll, layout->coll.teams);
}

static weft_status allocate_system_area(struct gpu *gpu)
{
    size_t at;
    gpu->allocator = heap_create(gpu->heap.size);
    if (!gpu->allocator)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for the GPU heap's allocator");
    gpu->reporting.tickets = (uint64_t *)(uintptr_t)gpu_heap_own(&gpu->heap)->base;
    return heap_alloc(gpu->allocator, gpu->layout.system_bytes, 4096, &at);
}

static weft_status clear_system_area(struct gpu *gpu)
{
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    CUstream stream = gpu->streams[0].stream;
    CUresult result = gpu->driver.MemsetD8Async(gpu_heap_own(&gpu->heap)->base, 0,
                                                gpu->layout.system_bytes, stream);
    if (!result)
        result = gpu_map_write_tags(gpu, stream);
    status = result ? gpu_api_fail(&gpu->driver, result, "clearing the GPU heap's system area")
                    : gpu_wait_stream(gpu, stream, "clearing the GPU heap's system area");
    gpu_leave(&gpu->device);
    return status;
}

/* Logs how long each step of opening a GPU takes; the driver takes most of the time. */
static void log_step(uint64_t *since_ns, const char *step)
{
    uint64_t now = clock_now_ns();
    log_debug(LOG_GPU, "GPU: %s took %.1f ms", step, (double)(now - *since_ns) * 1e-6);
    *since_ns = now;
}

static weft_status choose_gpu(struct gpu *gpu, CUcontext current)
{
    return gpu_device_open(&gpu->device, &gpu->driver, current, config_string(CONFIG_GPU),
                           gpu->boot->local_pe);
}

/* Where there are GPUs of both vendors, WEFT_GPU may name one of that whose library comes second.
 */
static weft_status open_device(struct gpu *gpu, CUcontext current)
{
    char sentence[512];
    if (!current)
        current = gpu_api_chosen_if_loaded();
    weft_status status = gpu_api_open(&gpu->driver);
    if (!status)
        status = choose_gpu(gpu, current);
    if (status != WEFT_ERR_CONFIG || current)
        return status;
    snprintf(sentence, sizeof sentence, "%s", base_last_error());
    enum gpu_vendor other =
        gpu->driver.vendor == GPU_VENDOR_AMD ? GPU_VENDOR_NVIDIA : GPU_VENDOR_AMD;
    gpu_api_close(&gpu->driver);
    if (gpu_api_open_vendor(&gpu->driver, other) || choose_gpu(gpu, current))
        return base_fail(status, "%s", sentence);
    gpu_api_prefer(other); /* for the program's kernels, too */
    return WEFT_OK;
}

static weft_status open_all(struct gpu *gpu, CUcontext current, int teams,
                            enum gpu_relay_policy policy)
{
    struct boot *boot = gpu->boot;
    uint64_t since = clock_now_ns();
    lay_out(&gpu->layout, boot, teams);
    /* a job of few teams is to use little memory */
    size_t first = teams >= COLL_TEAMS && gpu->layout.system_bytes < GPU_FIRST_CHUNK
                       ? GPU_FIRST_CHUNK
                       : gpu->layout.system_bytes;
    weft_status status = open_device(gpu, current);
    log_step(&since, "loading the driver and creating the context");
    if (!status)
        status = gpu_map_create(gpu);
    status = boot_agree(boot, status);
    if (!status)
        status = gpu_heap_create(&gpu->heap, &gpu->device, boot, config_size(CONFIG_GPU_HEAP_SIZE),
                                 first, policy);
    if (status)
        return status;
    log_step(&since, "waiting for the other PEs, and reserving addresses");
    status = gpu_resources_start(gpu);
    if (!status)
        status = allocate_system_area(gpu);
    log_step(&since, "kernels, streams, pinned memory");
    if (!status)
        status = gpu_stripes_start(gpu);
    if (!status)
        gpu_relay_start(gpu);
    log_step(&since, "relay GPUs");
    status = boot_agree(boot, status);
    if (!status)
        status = boot_agree(boot, clear_system_area(gpu));
    log_step(&since, "allocating the first memory and mapping that of peers");
    if (!status)
        status = gpu_prove(gpu);
    log_step(&since, "testing the pairs");
    if (!status) {
        gpu_map_start(gpu);
        log_step(&since, "mapping GPU memory for the CPU");
    }
    return status;
}

weft_status gpu_open(struct gpu **result, struct boot *boot, CUcontext current, int teams,
                     enum gpu_relay_policy policy)
{
    *result = NULL;
    struct gpu *gpu = calloc(1, sizeof *gpu);
    weft_status status =
        gpu ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for the GPU side");
    if (!gpu)
        return boot_agree(boot, status);
    gpu->boot = boot;
    gpu->slot_of = malloc((size_t)boot->npes * sizeof *gpu->slot_of);
    for (int pe = 0; gpu->slot_of && pe < boot->npes; pe++)
        gpu->slot_of[pe] = -1;
    for (int slot = 0; gpu->slot_of && slot < boot->local_npes; slot++)
        gpu->slot_of[boot->local_pes[slot]] = slot;
    gpu->wait_limit_ns = config_duration_ns(CONFIG_WAIT_LIMIT);
    gpu_resources_init(gpu);
    status = gpu->slot_of ? WEFT_OK
                          : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for the GPU side");
    status = boot_agree(boot, status);
    if (!status)
        status = open_all(gpu, current, teams, policy);
    if (status) {
        char sentence[512];
        snprintf(sentence, sizeof sentence, "%s", base_last_error());
        gpu_close(gpu);
        return base_fail(status, "%s", sentence);
    }
    char text[160];
    log_info(LOG_GPU, "uses %s: %s; kernels as %s",
             gpu_device_text(&gpu->device, text, sizeof text), gpu->device.why, gpu->module.image);
    *result = gpu;
    return WEFT_OK;
}

weft_status gpu_check(struct gpu *gpu)
{
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    CUresult result = gpu->driver.StreamQuery(gpu->streams[0].stream);
    gpu_leave(&gpu->device);
    return result && result != CUDA_ERROR_NOT_READY
               ? gpu_api_fail(&gpu->driver, result, "GPU %d, after an error of an earlier kernel",
                              gpu->device.ordinal)
               : WEFT_OK;
}

static void free_registrations(struct gpu *gpu)
{
    while (gpu->registered.list) {
        struct gpu_registration *first = gpu->registered.list;
        gpu->registered.list = first->next;
        if (first->pinned_here)
            gpu->driver.MemHostUnregister((void *)first->base);
        free(first);
    }
}

/* Returns false when the stream is still busy, so the memory that its work writes to must stay. */
static bool close_stream(struct gpu *gpu, CUstream stream)
{
    if (!stream)
        return true;
    weft_status status = gpu_wait_stream(gpu, stream, "its remaining operations");
    if (status)
        log_warn(LOG_GPU, "closing the GPU side: %s", base_last_error());
    gpu->driver.StreamDestroy(stream);
    return status != WEFT_ERR_TIMEOUT;
}

/* Closes a stream of gpu_stream_make(). */
static bool close_made(struct gpu *gpu, CUstream stream)
{
    return stream == gpu->streams[0].stream || close_stream(gpu, stream);
}

void gpu_resources_stop(struct gpu *gpu)
{
    bool idle = !gpu->work_left;
    /* Tried twice: after a transient error of this call, work would run on in memory that is freed
     * next. */
    bool entered = !gpu_enter(&gpu->device);
    if (!entered)
        entered = !gpu_enter(&gpu->device);
    if (!entered)
        return;
    gpu_bounce_stop(gpu);
    for (int i = 1; i < GPU_STREAMS; i++)
        idle &= close_made(gpu, gpu->streams[i].stream);
    idle &= close_made(gpu, gpu->wait_stream);
    idle &= close_made(gpu, gpu->load_stream);
    idle &= close_stream(gpu, gpu->streams[0].stream);
    if (gpu->coll)
        idle &= close_stream(gpu, gpu_coll_take_stream(gpu));
    gpu_coll_close(gpu);
    gpu_events_free(gpu);
    free_registrations(gpu);
    gpu_unpin_heap(gpu);
    if (!gpu->work_left)
        gpu_module_unload(&gpu->module);
    if (gpu->pinned && idle)
        gpu->driver.MemFreeHost(gpu->pinned);
    gpu_leave(&gpu->device);
}

void gpu_close(struct gpu *gpu)
{
    if (!gpu)
        return;
    gpu_stripes_stop(gpu);
    gpu_relay_stop(gpu);
    free(gpu->multipath.links);
    if (gpu->device.context)
        gpu_resources_stop(gpu);
    if (gpu->heap.device)
        gpu_heap_destroy(&gpu->heap);
    gpu_map_destroy(gpu);
    heap_destroy(gpu->allocator);
    free(gpu->slot_of);
    if (gpu->device.context)
        gpu_device_close(&gpu->device);
    if (gpu->driver.handle)
        gpu_api_close(&gpu->driver);
    gpu_resources_end(gpu);
    free(gpu);
}
