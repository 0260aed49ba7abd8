/* SPDX-License-Identifier: Apache-2.0 */
/* Backends that map GPU memory into the CPU's address space. See backend.h. */
#include "driver/gdrapi.h"
#include "gpu/gpu.h"
#include "gpu/map/backend.h"

#include "base/status.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------------- dma-buf */

/* Older drivers refuse, and each refusal writes a line to the kernel's log. Source: release notes
 * of driver 610, which comes with CUDA 13.3. */
enum { DMABUF_MMAP_SINCE = 13030 };

static weft_status dmabuf_export(struct gpu_map *map, struct map_memory *memory)
{
    if (memory->dmabuf >= 0)
        return WEFT_OK;
    if (map->gpu->driver.driver_version < DMABUF_MMAP_SINCE)
        return base_fail(
            WEFT_ERR_UNSUPPORTED,
            "this driver (CUDA %d.%d) cannot map a dma-buf; drivers from 610 (CUDA 13.3) can",
            map->gpu->driver.driver_version / 1000, map->gpu->driver.driver_version % 1000 / 10);
    return gpu_export_dmabuf(map->gpu, memory->address, memory->bytes, &memory->dmabuf);
}

static weft_status dmabuf_map(struct gpu_map *map, struct map_memory *memory, size_t offset,
                              size_t bytes, char *at, struct map_piece *piece)
{
    weft_status status = dmabuf_export(map, memory);
    if (status)
        return status;
    void *mapped = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory->dmabuf,
                        (off_t)offset);
    if (mapped == MAP_FAILED) {
        int error = errno;
        map_unmap_to_reserved(at, bytes);
        return base_fail(WEFT_ERR_UNSUPPORTED, "mmap of %zu bytes of a dma-buf: %s", bytes,
                         strerror(error));
    }
    madvise(mapped, bytes, MADV_DONTFORK);
    piece->at = at;
    piece->bytes = bytes;
    return WEFT_OK;
}

static void dmabuf_unmap(struct gpu_map *map, struct map_piece *piece)
{
    (void)map;
    map_unmap_to_reserved(piece->at, piece->bytes);
}

static void dmabuf_forget(struct gpu_map *map, struct map_memory *memory)
{
    (void)map;
    if (memory->dmabuf >= 0)
        close(memory->dmabuf);
    memory->dmabuf = -1;
}

const struct map_backend map_backend_dmabuf = {.name = "dmabuf",
                                               .what = "mmap of a dma-buf",
                                               .map = dmabuf_map,
                                               .unmap = dmabuf_unmap,
                                               .forget = dmabuf_forget};

/* -------------------------------------------------------------- the driver's resource interface */

static weft_status rm_ready(struct gpu_map *map)
{
    return map->rm ? WEFT_OK : rm_open(&map->rm);
}

static weft_status rm_import_peer(struct gpu_map *map, struct map_memory *memory, int fd)
{
    weft_status status = rm_ready(map);
    return status ? status : rm_import(map->rm, memory->bus_id, fd, &memory->rm);
}

/* Exports own memory and imports it here, when it is first mapped. */
static weft_status rm_import_own(struct gpu_map *map, struct map_memory *memory)
{
    const struct gpu_api *driver = &map->gpu->driver;
    int fd = -1;
    if (memory->number)
        return map_plain_import(map, memory);
    if (!memory->handle)
        return base_fail(WEFT_ERR_UNSUPPORTED,
                         "the memory was not imported while its descriptor was open");
    CUresult result = driver->MemExportToShareableHandle(
        &fd, memory->handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (result)
        return gpu_api_fail(driver, result,
                            "cuMemExportToShareableHandle (memory of cuMemCreate() needs "
                            "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR to be mapped)");
    weft_status status = rm_import_peer(map, memory, fd);
    close(fd);
    return status;
}

static weft_status rm_backend_map(struct gpu_map *map, struct map_memory *memory, size_t offset,
                                  size_t bytes, char *at, struct map_piece *piece)
{
    weft_status status = memory->rm.handle ? WEFT_OK : rm_import_own(map, memory);
    if (!status)
        status = rm_map(map->rm, &memory->rm, memory->inside + offset, bytes, at, &piece->rm);
    piece->at = at;
    piece->bytes = bytes;
    return status;
}

static void rm_backend_unmap(struct gpu_map *map, struct map_piece *piece)
{
    rm_unmap(map->rm, &piece->rm, 1);
}

static void rm_backend_forget(struct gpu_map *map, struct map_memory *memory)
{
    if (map->rm)
        rm_release(map->rm, &memory->rm);
}

const struct map_backend map_backend_rm = {.name = "rm",
                                           .what = "the GPU driver's resource interface",
                                           .import = rm_import_peer,
                                           .map = rm_backend_map,
                                           .unmap = rm_backend_unmap,
                                           .forget = rm_backend_forget};

/* ---------------------------------------------------------------------------------- gdrdrv */

struct map_gdr {
    struct gdrapi api;
    gdr_t gdr;
};

static weft_status gdr_ready(struct gpu_map *map)
{
    if (map->gdr)
        return WEFT_OK;
    struct map_gdr *gdr = calloc(1, sizeof *gdr);
    if (!gdr)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory");
    weft_status status = gdrapi_load(&gdr->api);
    if (!status) {
        gdr->gdr = gdr->api.open();
        if (!gdr->gdr) {
            status = base_fail(WEFT_ERR_UNSUPPORTED,
                               "gdr_open() failed: is the kernel module gdrdrv loaded?");
            gdrapi_unload(&gdr->api);
        }
    }
    if (status) {
        free(gdr);
        return status;
    }
    map->gdr = gdr;
    return WEFT_OK;
}

/* gdrapi maps at an address of its own choice; mremap() then moves the whole mapping to `at`. */
static weft_status gdr_backend_map(struct gpu_map *map, struct map_memory *memory, size_t offset,
                                   size_t bytes, char *at, struct map_piece *piece)
{
    weft_status status = gdr_ready(map);
    if (!status && memory->slot >= 0 && memory->slot != map->gpu->boot->local_pe)
        status = base_fail(WEFT_ERR_UNSUPPORTED, "gdrdrv maps a process's own GPU memory only");
    if (status)
        return status;
    struct map_gdr *gdr = map->gdr;
    gdr_mh_t pin;
    void *mapped = NULL;
    int error =
        gdr->api.pin_buffer(gdr->gdr, (unsigned long)(memory->address + offset), bytes, 0, 0, &pin);
    if (error)
        return base_fail(WEFT_ERR_UNSUPPORTED, "gdr_pin_buffer of %zu bytes: %s", bytes,
                         strerror(error));
    error = gdr->api.map(gdr->gdr, pin, &mapped, bytes);
    if (!error && mremap(mapped, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED) {
        error = errno;
        gdr->api.unmap(gdr->gdr, pin, mapped, bytes);
        map_unmap_to_reserved(at, bytes);
    }
    if (error) {
        gdr->api.unpin_buffer(gdr->gdr, pin);
        return base_fail(WEFT_ERR_UNSUPPORTED, "a mapping of %zu bytes by gdrdrv: %s", bytes,
                         strerror(error));
    }
    madvise(at, bytes, MADV_DONTFORK);
    piece->at = at;
    piece->bytes = bytes;
    piece->gdr = pin.h;
    return WEFT_OK;
}

static void gdr_backend_unmap(struct gpu_map *map, struct map_piece *piece)
{
    struct map_gdr *gdr = map->gdr;
    gdr->api.unmap(gdr->gdr, (gdr_mh_t){piece->gdr}, piece->at, piece->bytes);
    gdr->api.unpin_buffer(gdr->gdr, (gdr_mh_t){piece->gdr});
    map_unmap_to_reserved(piece->at, piece->bytes);
}

static void gdr_backend_forget(struct gpu_map *map, struct map_memory *memory)
{
    (void)map, (void)memory;
}

static void gdr_backend_close(struct gpu_map *map)
{
    struct map_gdr *gdr = map->gdr;
    if (!gdr)
        return;
    gdr->api.close(gdr->gdr);
    gdrapi_unload(&gdr->api);
    free(gdr);
    map->gdr = NULL;
}

const struct map_backend map_backend_gdr = {.name = "gdrdrv",
                                            .what = "gdrdrv",
                                            .map = gdr_backend_map,
                                            .unmap = gdr_backend_unmap,
                                            .forget = gdr_backend_forget,
                                            .close = gdr_backend_close};
