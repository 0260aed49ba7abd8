/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a transfer, where it cannot be given to the kernel as it lies: between a pinned buffer and what
 * the CPU copies, what the GPU copies, and what the path to a peer carries. */
#include "path/file.h"

#include "gpu/gpu.h"

#include <string.h>

static weft_status by_gpu(struct gpu *gpu, unsigned lane, void *dst, const void *src, size_t bytes,
                          struct gpu_mark **mark)
{
    weft_status status = gpu_copy(gpu, lane, dst, src, bytes, GPU_IN_ORDER);
    return status ? status : gpu_mark_put(gpu, lane, mark);
}

weft_status file_place_put(const struct file_place *place, size_t at, const void *buffer,
                           size_t bytes, unsigned lane, struct gpu_mark **mark)
{
    struct remote to = place->remote;
    *mark = NULL;
    switch (place->kind) {
    case FILE_HOST:
        memcpy(place->address + at, buffer, bytes);
        return WEFT_OK;
    case FILE_DEVICE:
        return by_gpu(place->gpu, lane, place->address + at, buffer, bytes, mark);
    case FILE_REMOTE:
        to.offset += at;
        return to.peer->ops->put(to, buffer, bytes, false);
    }
    return WEFT_OK;
}

weft_status file_place_get(const struct file_place *place, size_t at, void *buffer, size_t bytes,
                           unsigned lane, struct gpu_mark **mark)
{
    struct remote from = place->remote;
    *mark = NULL;
    switch (place->kind) {
    case FILE_HOST:
        memcpy(buffer, place->address + at, bytes);
        return WEFT_OK;
    case FILE_DEVICE:
        return by_gpu(place->gpu, lane, buffer, place->address + at, bytes, mark);
    case FILE_REMOTE:
        from.offset += at;
        return from.peer->ops->get(from, buffer, bytes, false);
    }
    return WEFT_OK;
}

weft_status file_place_settle(const struct file_place *place)
{
    if (place->kind != FILE_REMOTE)
        return WEFT_OK;
    const struct peer *peer = place->remote.peer;
    return peer->state ? peer->ops->quiet(peer->state) : WEFT_OK;
}
