/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between a pinned buffer and the memory of a transfer that the kernel cannot access itself:
 * by the CPU, by the GPU, or over the path to a peer. */
#include "file/file.h"

#include "gpu/gpu.h"
#include "gpu/map/map.h"

#include <string.h>

/* Largest copies between a buffer and the GPU heap that the CPU makes itself: it is faster than a
 * copy engine there, and larger ones would delay the driving thread. */
enum { STORED_BYTES = 8 << 10, LOADED_BYTES = 1 << 10 };

static bool copy_by_cpu(struct gpu *gpu, char *device, void *buffer, size_t bytes, bool in)
{
    int slot;
    size_t offset;
    struct gpu_map *map = gpu->heap.map;
    if (!gpu_map_works(map) || bytes > (in ? STORED_BYTES : LOADED_BYTES) ||
        !gpu_map_locate(gpu, device, &slot, &offset))
        return false;
    if (!in)
        return gpu_map_load(map, slot, offset, buffer, bytes);
    if (!gpu_map_store(map, slot, offset, buffer, bytes))
        return false;
    gpu_map_flush(map, slot); /* visible to all GPUs before the transfer is reported as ended */
    return true;
}

static weft_status copy_by_gpu(struct gpu *gpu, unsigned lane, void *dst, const void *src,
                               size_t bytes, struct gpu_event **mark)
{
    weft_status status = gpu_copy(gpu, lane, dst, src, bytes, GPU_IN_ORDER);
    return status ? status : gpu_event_record(gpu, lane, mark);
}

weft_status file_place_put(const struct file_place *place, size_t at, const void *buffer,
                           size_t bytes, unsigned lane, struct gpu_event **mark)
{
    struct remote to = place->remote;
    *mark = NULL;
    switch (place->kind) {
    case FILE_HOST:
        memcpy(place->address + at, buffer, bytes);
        return WEFT_OK;
    case FILE_DEVICE:
        if (copy_by_cpu(place->gpu, place->address + at, (void *)(uintptr_t)buffer, bytes, true))
            return WEFT_OK;
        return copy_by_gpu(place->gpu, lane, place->address + at, buffer, bytes, mark);
    case FILE_REMOTE:
        to.offset += at;
        return to.peer->ops->put(to, buffer, bytes, false);
    }
    return WEFT_OK;
}

weft_status file_place_get(const struct file_place *place, size_t at, void *buffer, size_t bytes,
                           unsigned lane, struct gpu_event **mark)
{
    struct remote from = place->remote;
    *mark = NULL;
    switch (place->kind) {
    case FILE_HOST:
        memcpy(buffer, place->address + at, bytes);
        return WEFT_OK;
    case FILE_DEVICE:
        if (copy_by_cpu(place->gpu, place->address + at, buffer, bytes, false))
            return WEFT_OK;
        return copy_by_gpu(place->gpu, lane, buffer, place->address + at, bytes, mark);
    case FILE_REMOTE:
        from.offset += at;
        return from.peer->ops->get(from, buffer, bytes, false);
    }
    return WEFT_OK;
}

weft_status file_place_complete(const struct file_place *place)
{
    if (place->kind != FILE_REMOTE)
        return WEFT_OK;
    const struct peer *peer = place->remote.peer;
    return peer->state ? peer->ops->quiet(peer->state) : WEFT_OK;
}
