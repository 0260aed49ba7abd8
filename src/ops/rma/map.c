/* SPDX-License-Identifier: Apache-2.0 */
/* Mappings of GPU memory for the program, and copies by the CPU. See weft/map.h. */
#include "gpu/map/map.h"
#include "gpu/bounce.h"
#include "gpu/register.h"
#include "ops/access.h"

#include <weft/map.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A mapping returned by weft_map(). The job keeps them in a list under its lock. */
struct mapping {
    struct mapping *next;
    char *at;
    size_t bytes;
    struct gpu_map_user own; /* own.memory NULL: the mapping is not of the program's own memory */
};

static weft_status check_map_job(const char *function, const struct weft_job *job)
{
    if (!job)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: job is null", function);
    return atomic_load(&job->state) == JOB_RUNNING ? WEFT_OK : job_finalized(function);
}

static weft_status check_argument(const char *function, struct weft_job *job, const void *a,
                                  const char *name)
{
    weft_status status = check_map_job(function, job);
    if (!status && !a)
        status = base_fail(WEFT_ERR_ARGUMENT, "%s: %s is null", function, name);
    return status;
}

/* ------------------------------------------------------------------------------------ mappings */

static const struct gpu_registration *find_registration(struct gpu *gpu, const void *address,
                                                        size_t bytes)
{
    const struct gpu_registration *found = NULL;
    pthread_mutex_lock(&gpu->registered.lock);
    for (const struct gpu_registration *r = gpu->registered.list; r && !found; r = r->next) {
        size_t within = (uintptr_t)address - r->base;
        if (within < r->bytes && bytes <= r->bytes - within)
            found = r;
    }
    pthread_mutex_unlock(&gpu->registered.lock);
    return found;
}

static weft_status map_failed(const struct gpu *gpu, int pe)
{
    const struct gpu_map *map = gpu->heap.map;
    int slot = gpu->slot_of[pe];
    if (!gpu_map_works(map))
        return base_fail(WEFT_ERR_UNSUPPORTED, "weft_map: GPU memory cannot be mapped here: %s",
                         map ? map->why : "WEFT_MAP=none");
    if (slot < 0)
        return base_fail(WEFT_ERR_UNSUPPORTED, "weft_map: PE %d is on another node", pe);
    if (atomic_load(&map->windows[slot].refused))
        return base_fail(WEFT_ERR_UNSUPPORTED, "weft_map: GPU memory of PE %d cannot be mapped: %s",
                         pe, map->windows[slot].why);
    return base_fail_context(WEFT_ERR_NO_MEMORY, "weft_map: GPU memory of PE %d", pe);
}

static weft_status map_heap(struct weft_job *job, size_t offset, int pe, struct mapping *mapping)
{
    struct gpu *gpu = job->gpu;
    int slot = gpu->slot_of[pe];
    struct gpu_map *map = gpu->heap.map;
    if (!gpu_map_works(map) || slot < 0 || !gpu_map_extend(map, slot, offset, mapping->bytes))
        return map_failed(gpu, pe);
    mapping->at = map->windows[slot].base + offset;
    return WEFT_OK;
}

static weft_status map_symmetric(struct weft_job *job, void *address, enum segment_id segment,
                                 size_t offset, int pe, struct mapping *mapping)
{
    if (segment == SEG_GPU)
        return map_heap(job, offset, pe, mapping);
    mapping->at = pe == job->pe ? address : weft_ptr(job, address, pe);
    return mapping->at ? WEFT_OK
                       : base_fail(WEFT_ERR_UNSUPPORTED,
                                   "weft_map: the host memory of PE %d is not mapped here", pe);
}

static weft_status map_registered(struct weft_job *job, void *address, int pe,
                                  struct mapping *mapping)
{
    const struct gpu_registration *found =
        job->gpu ? find_registration(job->gpu, address, mapping->bytes) : NULL;
    if (!found)
        return base_fail(
            WEFT_ERR_ADDRESS,
            "weft_map: %zu bytes at %p are neither symmetric memory (weft_alloc()) nor "
            "registered (weft_register())",
            mapping->bytes, address);
    if (pe != job->pe)
        return base_fail(
            WEFT_ERR_ADDRESS,
            "weft_map: %p is registered memory of this PE and not symmetric: PE %d has none there",
            address, pe);
    if (!found->device) {
        mapping->at = address;
        return WEFT_OK;
    }
    if (!gpu_map_works(job->gpu->heap.map))
        return map_failed(job->gpu, pe);
    weft_status status = gpu_map_own(job->gpu->heap.map, address, mapping->bytes, &mapping->own);
    mapping->at = mapping->own.at;
    return status ? base_fail_context(status, "weft_map") : WEFT_OK;
}

/* Ends all mappings when the job's GPU side closes. */
static void end_mappings(struct weft_job *job)
{
    while (job->modules.mappings) {
        struct mapping *first = job->modules.mappings;
        job->modules.mappings = first->next;
        gpu_map_own_end(job->gpu ? job->gpu->heap.map : NULL, &first->own);
        free(first);
    }
}

static void keep_mapping(struct weft_job *job, struct mapping *mapping)
{
    pthread_mutex_lock(&job->lock);
    job->modules.end_mappings = end_mappings;
    mapping->next = job->modules.mappings;
    job->modules.mappings = mapping;
    pthread_mutex_unlock(&job->lock);
}

WEFT_EXPORT weft_status weft_map(weft_job *job, void *address, size_t bytes, int pe, void **mapped)
{
    static const char name[] = "weft_map";
    weft_status status = check_argument(name, job, address, "address");
    if (!status)
        status = check_argument(name, job, mapped, "mapped");
    if (status)
        return status;
    *mapped = NULL;
    if (!bytes)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: 0 bytes", name);
    if (pe < 0 || pe >= job->npes)
        return base_fail(WEFT_ERR_PE, "%s: PE %d does not exist; the PEs here are 0 ... %d", name,
                         pe, job->npes - 1);
    struct mapping *mapping = calloc(1, sizeof *mapping);
    if (!mapping)
        return base_fail(WEFT_ERR_NO_MEMORY, "%s: no private memory", name);
    mapping->bytes = bytes;
    enum segment_id segment;
    size_t offset;
    struct weft_ctx *ctx = job->default_ctx;
    if (access_find(ctx, address, bytes, &segment, &offset))
        status = map_symmetric(job, address, segment, offset, pe, mapping);
    else if (access_find(ctx, address, 1, &segment, &offset))
        status = access_find_own(name, ctx, address, bytes, &segment, &offset);
    else
        status = map_registered(job, address, pe, mapping);
    if (status) {
        free(mapping);
        return status;
    }
    keep_mapping(job, mapping);
    *mapped = mapping->at;
    return WEFT_OK;
}

WEFT_EXPORT weft_status weft_unmap(weft_job *job, void *mapped)
{
    weft_status status = check_argument(__func__, job, mapped, "mapped");
    if (status)
        return status;
    pthread_mutex_lock(&job->lock);
    struct mapping **at = (struct mapping **)&job->modules.mappings, *found;
    while (*at && (*at)->at != mapped)
        at = &(*at)->next;
    found = *at;
    if (found)
        *at = found->next;
    pthread_mutex_unlock(&job->lock);
    if (!found)
        return base_fail(WEFT_ERR_ADDRESS, "%s: %p was not returned by weft_map()", __func__,
                         mapped);
    gpu_map_own_end(job->gpu ? job->gpu->heap.map : NULL, &found->own);
    free(found);
    return WEFT_OK;
}

WEFT_EXPORT weft_status weft_map_flush(weft_job *job, const void *mapped)
{
    weft_status status = check_argument(__func__, job, mapped, "mapped");
    if (!status)
        wc_flush(mapped);
    return status;
}

/* -------------------------------------------------------------------------------------- copies */

/* Returns the CPU address of program memory that weft_map() has mapped, for its GPU address. NULL:
 * not mapped. */
static char *own_mapping(struct weft_job *job, const void *address, size_t bytes)
{
    char *at = NULL;
    if (!job->modules.mappings)
        return NULL;
    pthread_mutex_lock(&job->lock);
    for (struct mapping *m = job->modules.mappings; m && !at; m = m->next) {
        size_t within = (uintptr_t)address - m->own.address;
        if (m->own.memory && within < m->own.bytes && bytes <= m->own.bytes - within)
            at = m->own.at + within;
    }
    pthread_mutex_unlock(&job->lock);
    return at;
}

/* The GPU side of a copy. */
struct device_place {
    bool in_heap; /* in a window of the GPU heap; else the program's own memory */
    int slot;
    size_t offset;
};

/* Stores through the CPU's mapping. False: nothing was stored, and a copy engine must copy. */
static bool store_mapped(struct weft_job *job, const struct device_place *place, void *dst,
                         const void *src, size_t bytes)
{
    if (place->in_heap)
        return gpu_map_send(job->gpu->heap.map, place->slot, place->offset, src, bytes);
    char *mapped = own_mapping(job, dst, bytes);
    if (mapped)
        wc_send(mapped, src, bytes);
    return mapped != NULL;
}

static bool load_mapped(struct weft_job *job, const struct device_place *place, void *dst,
                        const void *src, size_t bytes)
{
    if (place->in_heap)
        return gpu_map_load(job->gpu->heap.map, place->slot, place->offset, dst, bytes);
    const char *mapped = own_mapping(job, src, bytes);
    if (mapped)
        wc_load(dst, mapped, bytes);
    return mapped != NULL;
}

static bool cpu_is_faster(struct weft_job *job, bool in, const void *host, size_t bytes)
{
    struct gpu_map *map = job->gpu->heap.map;
    return gpu_map_works(map) && gpu_place_for_cpu(job->gpu, host) != GPU_PLACE_DEVICE &&
           gpu_map_is_faster(map, host, bytes, in);
}

/* Resolves the GPU side of a copy. Inside a symmetric heap the range must be backed by memory. */
static weft_status find_device(const char *function, const struct weft_job *job,
                               const void *address, size_t bytes, struct device_place *place)
{
    enum segment_id segment;
    size_t offset;
    *place = (struct device_place){.in_heap = false};
    if (!job->gpu || !gpu_map_locate(job->gpu, address, &place->slot, &place->offset))
        return access_find(job->default_ctx, address, 1, &segment, &offset)
                   ? access_find_own(function, job->default_ctx, address, bytes, &segment, &offset)
                   : WEFT_OK;
    const struct gpu_heap *heap = &job->gpu->heap;
    place->in_heap = true;
    offset = place->offset;
    if (likely(offset < heap->backed && bytes <= heap->backed - offset) ||
        gpu_registered_holds((struct gpu_heap *)heap, offset, bytes))
        return WEFT_OK;
    return base_fail(
        WEFT_ERR_RANGE,
        "%s: %zu bytes at %p run past the end of PE %d's GPU heap, which has %zu bytes, %zu "
        "of them from there on",
        function, bytes, address, job->boot->local_pes[place->slot], heap->backed,
        offset < heap->backed ? heap->backed - offset : 0);
}

/* Reports what is wrong with the arguments of a copy; copies of 0 bytes succeed. */
static __attribute__((noinline, cold)) weft_status check_copy(const char *function,
                                                              struct weft_job *job, const void *dst,
                                                              const void *src, size_t bytes)
{
    weft_status status = check_map_job(function, job);
    if (status || !bytes)
        return status;
    status = check_argument(function, job, dst, "dst");
    return status ? status : check_argument(function, job, src, "src");
}

static inline bool is_valid_copy(const struct weft_job *job, const void *dst, const void *src,
                                 size_t bytes)
{
    return job && dst && src && bytes && atomic_load(&job->state) == JOB_RUNNING;
}

WEFT_EXPORT weft_status weft_copy_to(weft_job *job, void *dst, const void *src, size_t bytes)
{
    struct device_place place;
    if (unlikely(!is_valid_copy(job, dst, src, bytes)))
        return check_copy(__func__, job, dst, src, bytes);
    weft_status status = find_device(__func__, job, dst, bytes, &place);
    if (unlikely(status))
        return status;
    if (!job->gpu) {
        memmove(dst, src, bytes);
        return WEFT_OK;
    }
    if (cpu_is_faster(job, true, src, bytes) && store_mapped(job, &place, dst, src, bytes))
        return WEFT_OK;
    return gpu_copy(job->gpu, 0, dst, src, bytes, GPU_DONE);
}

WEFT_EXPORT weft_status weft_copy_from(weft_job *job, void *dst, const void *src, size_t bytes)
{
    struct device_place place;
    if (unlikely(!is_valid_copy(job, dst, src, bytes)))
        return check_copy(__func__, job, dst, src, bytes);
    weft_status status = find_device(__func__, job, src, bytes, &place);
    if (unlikely(status))
        return status;
    if (!job->gpu) {
        memmove(dst, src, bytes);
        return WEFT_OK;
    }
    if (cpu_is_faster(job, false, dst, bytes) && load_mapped(job, &place, dst, src, bytes))
        return WEFT_OK;
    return gpu_copy(job->gpu, 0, dst, src, bytes, GPU_DONE);
}

WEFT_EXPORT weft_status weft_copy_flush(weft_job *job, const void *dst)
{
    weft_status status = check_argument(__func__, job, dst, "dst");
    if (status)
        return status;
    int slot;
    size_t offset;
    const char *own;
    if (!job->gpu) {
        wc_fence();
    } else if (gpu_map_locate(job->gpu, dst, &slot, &offset)) {
        if (gpu_map_works(job->gpu->heap.map) &&
            atomic_load(&job->gpu->heap.map->windows[slot].tested))
            gpu_map_flush(job->gpu->heap.map, slot);
    } else if ((own = own_mapping(job, dst, 1))) {
        wc_flush(own);
    } /* else a copy engine made the copy, which is already complete */
    return WEFT_OK;
}

/* -------------------------------------------------------------------------------------- queries */

WEFT_EXPORT weft_status weft_map_query(weft_job *job, int pe, weft_map_info *info)
{
    static const char name[] = "weft_map_query";
    weft_status status = check_argument(name, job, info, "info");
    if (!status)
        status = base_check_size("weft_map_query: info", info, offsetof(weft_map_info, way),
                                 sizeof *info);
    if (status)
        return status;
    if (pe < 0 || pe >= job->npes)
        return base_fail(WEFT_ERR_PE, "%s: PE %d does not exist; the PEs here are 0 ... %d", name,
                         pe, job->npes - 1);
    if (!job->gpu)
        return base_fail(WEFT_ERR_UNSUPPORTED,
                         "%s: the job has no GPU side; weft_alloc(WEFT_GPU) opens it", name);
    weft_map_info now = {.size = info->size};
    struct gpu_map *map = job->gpu->heap.map;
    int slot = job->gpu->slot_of[pe];
    snprintf(now.by, sizeof now.by, "%s", wc_isa_name());
    snprintf(now.why, sizeof now.why, "%s", map ? map->why : "WEFT_MAP=none");
    if (gpu_map_works(map) && slot < 0) {
        snprintf(now.why, sizeof now.why, "PE %d is on another node", pe);
    } else if (gpu_map_works(map)) {
        now.works = gpu_map_at(map, slot, job->gpu->layout.map_test_offset, 1) != NULL;
        snprintf(now.way, sizeof now.way, "%s", gpu_map_backend_text(map));
        if (!now.works)
            snprintf(now.why, sizeof now.why, "%s", map->windows[slot].why);
        const struct gpu_map_limits *limits = gpu_map_limits(map);
        now.to_from_plain = limits->store_plain;
        now.to_from_pinned = limits->store_pinned;
        now.from_to_plain = limits->load_plain;
        now.from_to_pinned = limits->load_pinned;
    }
    const struct gpu_bounce_limits bounce = gpu_bounce_limits(job->gpu);
    now.threads = bounce.threads;
    now.to_by_threads = bounce.in_from;
    now.from_by_threads = bounce.out_from;
    memcpy(info, &now, info->size < sizeof now ? info->size : sizeof now);
    return WEFT_OK;
}
