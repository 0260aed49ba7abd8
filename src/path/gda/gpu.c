/* SPDX-License-Identifier: Apache-2.0 */
/* Registration of GPU memory. Each allocation of the GPU heap is registered whole when it appears,
 * by dma-buf or else by its address, and its key is sent to the other PEs. If both fail, the error
 * states both causes. */
#include "path/gda/dc.h"

#include "base/status.h"
#include "boot/agree.h"
#include "gpu/gpu.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static CUdeviceptr own_window(const struct gda *gda)
{
    return gpu_heap_own(&gda->world->gpu->heap)->base;
}

/* --------------------------------------------------------------------------------- registration */

static struct ibv_mr *register_by_dmabuf(struct gda *gda, const struct gda_adapter *adapter,
                                         CUdeviceptr at, size_t bytes, bool relaxed, char *why,
                                         size_t room)
{
    const struct verbs *verbs = &adapter->lib->verbs;
    int fd;
    if (!verbs->reg_dmabuf_mr) {
        snprintf(why, room, "libibverbs has no ibv_reg_dmabuf_mr");
        return NULL;
    }
    if (gpu_export_dmabuf(gda->world->gpu, at, bytes, &fd)) {
        snprintf(why, room, "%.100s (needs NVIDIA's open modules)", base_last_error());
        return NULL;
    }
    struct ibv_mr *mr =
        verbs->reg_dmabuf_mr(adapter->pd, 0, bytes, at, fd, gda_access_flags(adapter, relaxed));
    if (!mr)
        snprintf(why, room, "ibv_reg_dmabuf_mr: %s", strerror(errno));
    close(fd); /* the memory region keeps its own reference */
    return mr;
}

static struct ibv_mr *register_by_address(struct gda *gda, const struct gda_adapter *adapter,
                                          CUdeviceptr at, size_t bytes, bool relaxed, char *why,
                                          size_t room)
{
    struct ibv_mr *mr = adapter->lib->verbs.reg_mr(adapter->pd, (void *)(uintptr_t)at, bytes,
                                                   gda_access_flags(adapter, relaxed));
    int error = errno;
    if (!mr)
        snprintf(why, room, "ibv_reg_mr: %s%s", strerror(error),
                 gpu_peermem_is_loaded() ? "" : " (load nvidia-peermem)");
    return mr;
}

static weft_status register_extent(struct gda *gda, const struct gda_adapter *adapter,
                                   const struct gpu_extent *extent, bool relaxed,
                                   struct ibv_mr **mr)
{
    CUdeviceptr at = own_window(gda) + extent->offset;
    char one[160] = "", other[160] = "";
    *mr = register_by_dmabuf(gda, adapter, at, extent->bytes, relaxed, one, sizeof one);
    if (*mr)
        return WEFT_OK;
    *mr = register_by_address(gda, adapter, at, extent->bytes, relaxed, other, sizeof other);
    gda->gpu->by_address |= *mr != NULL;
    return *mr ? WEFT_OK
               : base_fail(WEFT_ERR_NO_PATH,
                           "path gda: %s cannot register %zu MiB of GPU memory, by dma-buf (%s) "
                           "or by address (%s)",
                           adapter->name, extent->bytes >> 20, one, other);
}

/* ----------------------------------------------------------------------------------------- keys */

/* Gives the units of a region their keys. `local`: it has a key here. */
static void set_keys(const struct gda *gda, const struct gda_region *region, bool local)
{
    struct gda_gpu *gpu = gda->gpu;
    size_t first = region->offset >> gpu->unit_bits;
    size_t last = (region->offset + region->bytes - 1) >> gpu->unit_bits;
    for (size_t unit = first; unit <= last && unit < gpu->units; unit++) {
        for (uint32_t a = 0; a < gda->count; a++) {
            const struct ibv_mr *mr = gpu->relaxed ? region->data[a] : region->mrs[a];
            gpu->local_keys[(size_t)a * gpu->units + unit] = local ? htobe32(mr->lkey) : 0;
        }
        gpu->keys[unit] = local ? region->keys->strict : NULL;
    }
}

/* Takes the keys of a freed allocation, or new ones. */
static struct gda_gpu_keys *take_keys(struct gda *gda)
{
    struct gda_gpu *gpu = gda->gpu;
    struct gda_gpu_keys *keys = gpu->all_keys;
    while (keys && keys->used)
        keys = keys->next;
    if (!keys) {
        size_t count = 2 * gda->count * (size_t)gda->world->npes;
        keys = calloc(1, sizeof *keys + count * sizeof *keys->strict);
        if (!keys)
            return NULL;
        keys->next = gpu->all_keys;
        gpu->all_keys = keys;
    }
    keys->used = true;
    return keys;
}

static weft_status exchange_keys(struct gda *gda, const struct gda_region *region)
{
    const struct path_world *world = gda->world;
    size_t npes = (size_t)world->npes;
    const bool relaxed = gda->gpu->relaxed;
    uint32_t *keys = region->keys->strict;
    uint32_t mine[2][GDA_ADAPTERS_MOST] = {0}, (*all)[2][GDA_ADAPTERS_MOST];
    all = calloc(npes, sizeof *all);
    weft_status status = all ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no private memory");
    status = boot_agree(world->boot, status);
    for (uint32_t a = 0; a < gda->count; a++) {
        mine[0][a] = htobe32(region->mrs[a]->rkey);
        mine[1][a] = htobe32(relaxed ? region->data[a]->rkey : region->mrs[a]->rkey);
    }
    if (!status)
        status = world->boot->ops->allgather(world->boot, mine, all, sizeof mine);
    for (uint32_t a = 0; a < gda->count && !status; a++)
        for (size_t pe = 0; pe < npes; pe++) {
            keys[a * npes + pe] = all[pe][0][a];
            keys[(gda->count + a) * npes + pe] = all[pe][1][a];
        }
    if (!status)
        set_keys(gda, region, true);
    free(all);
    return status;
}

static weft_status add_region(struct gda *gda, const struct gpu_extent *extent)
{
    struct gda_gpu *gpu = gda->gpu;
    const bool relaxed = gpu->relaxed;
    struct gda_region made = {extent->offset, extent->bytes, take_keys(gda), {NULL}, {NULL}};
    struct gda_region *more = realloc(gpu->regions, (gpu->region_count + 1) * sizeof *more);
    gpu->regions = more ? more : gpu->regions;
    weft_status status =
        more && made.keys ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a key");
    for (uint32_t a = 0; a < gda->count && !status; a++)
        status = register_extent(gda, &gda->adapters->one[a], extent, false, &made.mrs[a]);
    for (uint32_t a = 0; a < gda->count && relaxed && !status; a++)
        status = register_extent(gda, &gda->adapters->one[a], extent, true, &made.data[a]);
    if (more)
        gpu->regions[gpu->region_count++] = made;
    status = boot_agree(gda->world->boot, status);
    return status ? status : exchange_keys(gda, &made);
}

static void deregister(const struct gda *gda, const struct gda_region *region)
{
    for (uint32_t a = 0; a < gda->count; a++) {
        if (region->mrs[a])
            gda->adapters->lib.verbs.dereg_mr(region->mrs[a]);
        if (region->data[a])
            gda->adapters->lib.verbs.dereg_mr(region->data[a]);
    }
}

static bool is_listed(const struct gpu_extent *list, size_t count, size_t offset, size_t bytes)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].offset == offset && list[i].bytes == bytes)
            return true;
    return false;
}

static void deregister_freed(struct gda *gda, const struct gpu_extent *list, size_t count)
{
    struct gda_gpu *gpu = gda->gpu;
    for (size_t i = 0; i < gpu->region_count; i++) {
        struct gda_region *region = &gpu->regions[i];
        if (is_listed(list, count, region->offset, region->bytes))
            continue;
        set_keys(gda, region, false);
        if (region->keys)
            region->keys->used = false;
        deregister(gda, region);
        *region = gpu->regions[--gpu->region_count];
        i--;
    }
}

static bool is_registered(const struct gda_gpu *gpu, const struct gpu_extent *extent)
{
    for (size_t i = 0; i < gpu->region_count; i++)
        if (gpu->regions[i].offset == extent->offset && gpu->regions[i].bytes == extent->bytes)
            return true;
    return false;
}

/* Registers new allocations of the heap and deregisters freed ones; collective. All PEs allocate
 * and free the same. */
static weft_status sync_regions(struct gda *gda)
{
    struct gpu *gpu = gda->world->gpu;
    size_t count = gpu_list_extents(gpu, NULL, 0);
    struct gpu_extent *list = calloc(count + 1, sizeof *list);
    weft_status status = list ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no private memory");
    status = boot_agree(gda->world->boot, status);
    if (status) {
        free(list);
        return status;
    }
    gpu_list_extents(gpu, list, count);
    deregister_freed(gda, list, count);
    for (size_t i = 0; i < count && !status; i++)
        if (!is_registered(gda->gpu, &list[i]))
            status = add_region(gda, &list[i]);
    free(list);
    return status;
}

/* -------------------------------------------------------------------------------------- opening */

static weft_status create_gpu_keys(struct gda *gda)
{
    struct gpu *gpu = gda->world->gpu;
    size_t npes = (size_t)gda->world->npes;
    struct gda_gpu *made = calloc(1, sizeof *made);
    if (!made)
        return base_fail(WEFT_ERR_NO_MEMORY, "path gda: no private memory for keys");
    gda->gpu = made;
    enum gpu_nic_writes order = gpu_nic_writes(gpu);
    if (order == GPU_NIC_WRITES_UNORDERED)
        return base_fail(WEFT_ERR_NO_PATH,
                         "path gda: GPU %d does not order the writes of adapters, and its driver "
                         "cannot flush them",
                         gpu->device.ordinal);
    made->flushed = order == GPU_NIC_WRITES_FLUSHED;
    made->dumps = !gpu_sees_nic_writes(gpu);
    made->unit_bits = (uint32_t)__builtin_ctzll(gpu->heap.unit);
    made->units = (uint32_t)(gpu->heap.size >> made->unit_bits);
    made->bases = calloc(npes, sizeof *made->bases);
    made->local_keys = calloc((size_t)gda->count * made->units, sizeof *made->local_keys);
    made->keys = calloc(made->units, sizeof *made->keys);
    return made->bases && made->local_keys && made->keys
               ? WEFT_OK
               : base_fail(WEFT_ERR_NO_MEMORY, "path gda: no private memory for keys of %u units",
                           made->units);
}

/* Creates the keys, the queues in GPU memory and the tables for device code. If device code cannot
 * use the queues of a PE, the PE's proxy serves it. */
static weft_status open_gpu(struct gda *gda)
{
    const struct path_world *world = gda->world;
    weft_status status = boot_agree(world->boot, create_gpu_keys(gda));
    if (status)
        return status;
    uint64_t mine = own_window(gda);
    status = world->boot->ops->allgather(world->boot, &mine, gda->gpu->bases, sizeof mine);
    for (int pe = 0; pe < world->npes && !status; pe++) {
        const char *fault = gda_window_fault(gda->gpu->bases[pe], world->gpu->heap.size);
        if (fault)
            status = gda_fail_record(pe, fault);
    }
    if (!status)
        status = gda_open_gpu_queues(gda, gda->gpu->why_host, sizeof gda->gpu->why_host);
    gda->gpu->relaxed = gda->gpu_queues != NULL;
    if (!status)
        status = gda_open_cuda(gda, gda->gpu->why_proxy, sizeof gda->gpu->why_proxy);
    return boot_agree(world->boot, status);
}

weft_status gda_gpu_memory(struct path_common *common)
{
    struct gda *gda = (struct gda *)(void *)common;
    char sentence[512];
    if (!gda->world->gpu)
        return WEFT_OK;
    bool opens = !gda->gpu;
    weft_status status = opens ? gda_hold_links(gda) : WEFT_OK;
    if (!status && opens)
        status = open_gpu(gda);
    if (!status)
        status = sync_regions(gda);
    if (!status)
        status = boot_agree(gda->world->boot, gda_write_cuda_keys(gda));
    if (!status && opens)
        gda_release_links(gda);
    if (!status || !opens)
        return status;
    /* GPU memory takes another path; nothing of it stays here. */
    snprintf(sentence, sizeof sentence, "%s", base_last_error());
    gda_close_cuda(gda);
    gda_close_gpu_queues(gda);
    gda_free_gpu(gda);
    gda_release_links(gda);
    return base_fail(status, "%s", sentence);
}

void gda_free_gpu(struct gda *gda)
{
    struct gda_gpu *gpu = gda->gpu;
    if (!gpu)
        return;
    for (size_t i = 0; i < gpu->region_count; i++)
        deregister(gda, &gpu->regions[i]);
    free(gpu->regions);
    free(gpu->bases);
    free(gpu->local_keys);
    free(gpu->keys);
    for (struct gda_gpu_keys *keys = gpu->all_keys, *next; keys; keys = next) {
        next = keys->next;
        free(keys);
    }
    free(gpu);
    gda->gpu = NULL;
}

/* ------------------------------------------------------------------------ flush and description */

weft_status gda_flush_gpu_writes(const struct gda *gda)
{
    return gda->gpu && gda->gpu->flushed ? gpu_flush_nic_writes(gda->world->gpu) : WEFT_OK;
}

weft_status gda_refine(const struct path_world *world, weft_kind kind, int pe, char *found,
                       size_t bytes)
{
    const struct gda *gda = (const struct gda *)(void *)world->common[PATH_GDA];
    char device[PATH_FOUND_BYTES];
    if (kind != WEFT_GPU || !gda || !gda->gpu)
        return WEFT_OK;
    const bool dc = gda_is_dc_peer(gda, pe), by_proxy = dc && !gda_cuda_initiators(gda);
    gda_describe_cuda(gda, device, sizeof device);
    snprintf(found, bytes, "GPU memory by %s; %s%.150s",
             gda->gpu->by_address ? "address (peermem)" : "dma-buf", dc ? "by DC; " : "",
             by_proxy ? "requests of kernels by the proxy" : device);
    return WEFT_OK;
}
