/* SPDX-License-Identifier: Apache-2.0 */
/* See stripe_host.h. */
#include "gpu/multipath/stripe_host.h"

#include "base/status.h"
#include "gpu/stream.h"

#include <string.h>

enum { OWN, PEERS, ENDS };

static weft_status open_end(struct gpu_host_way *way, int end)
{
    struct gpu *gpu = way->end[end];
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    CUresult result = gpu->cuda.StreamCreate(&way->stream[end], CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < GPU_HOST_PIECES && !result; i++)
        result = gpu->cuda.EventCreate(&way->done[end][i], CU_EVENT_DISABLE_TIMING);
    gpu_leave(&gpu->device);
    return result
               ? cuda_fail(&gpu->cuda, result, "a stream and events on GPU %d", gpu->device.ordinal)
               : WEFT_OK;
}

static weft_status make_ring(struct gpu_host_way *way)
{
    enum { BYTES = GPU_HOST_PIECES * GPU_HOST_PIECE };
    struct gpu *gpu = way->end[OWN];
    void *ring;
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    CUresult result = gpu->cuda.MemHostAlloc(&ring, BYTES, CU_MEMHOSTALLOC_PORTABLE);
    gpu_leave(&gpu->device);
    if (result)
        return cuda_fail(&gpu->cuda, result, "cuMemHostAlloc of %d MiB", BYTES >> 20);
    way->ring = ring;
    return WEFT_OK;
}

weft_status gpu_host_way_open(struct gpu_host_way *way, struct gpu *own, struct gpu *peers)
{
    *way = (struct gpu_host_way){.end = {own, peers}};
    weft_status status = make_ring(way);
    for (int end = 0; end < ENDS && !status; end++)
        status = open_end(way, end);
    if (status)
        gpu_host_way_close(way);
    return status;
}

static void close_end(struct gpu_host_way *way, int end)
{
    struct gpu *gpu = way->end[end];
    if (gpu_enter(&gpu->device))
        return;
    for (int i = 0; i < GPU_HOST_PIECES; i++)
        if (way->done[end][i])
            gpu->cuda.EventDestroy(way->done[end][i]);
    if (way->stream[end])
        gpu->cuda.StreamDestroy(way->stream[end]);
    gpu_leave(&gpu->device);
}

void gpu_host_way_close(struct gpu_host_way *way)
{
    if (!way->end[OWN])
        return;
    gpu_host_way_settle(way);
    for (int end = 0; end < ENDS; end++)
        close_end(way, end);
    if (way->ring)
        way->end[OWN]->cuda.MemFreeHost(way->ring);
    memset(way, 0, sizeof *way);
}

void gpu_host_way_settle(struct gpu_host_way *way)
{
    for (int end = 0; end < ENDS; end++)
        if (way->stream[end] && !gpu_enter(&way->end[end]->device)) {
            gpu_wait_stream(way->end[end], way->stream[end], "a part of a copy");
            gpu_leave(&way->end[end]->device);
        }
}

/* One of the two copies of a piece. The place is as the other end has left it when `behind` is
 * over. */
static weft_status move(struct gpu_host_way *way, int end, CUevent behind, void *dst,
                        const void *src, size_t bytes, CUevent done)
{
    struct gpu *gpu = way->end[end];
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    CUresult result = gpu->cuda.StreamWaitEvent(way->stream[end], behind, 0);
    if (!result)
        status = gpu_copy_on(gpu, way->stream[end], dst, src, bytes);
    if (!result && !status)
        result = gpu->cuda.EventRecord(done, way->stream[end]);
    if (result)
        status = cuda_fail(&gpu->cuda, result, "an event of a part over host memory by GPU %d",
                           gpu->device.ordinal);
    gpu_leave(&gpu->device);
    return status;
}

/* The peer's stream goes on behind an event, and has one of its own behind that; each NULL: not. */
static weft_status mark(struct gpu_host_way *way, int end, CUevent behind, CUevent done)
{
    struct gpu *gpu = way->end[end];
    CUresult result = CUDA_SUCCESS;
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    if (behind)
        result = gpu->cuda.StreamWaitEvent(way->stream[end], behind, 0);
    if (!result && done)
        result = gpu->cuda.EventRecord(done, way->stream[end]);
    gpu_leave(&gpu->device);
    return result ? cuda_fail(&gpu->cuda, result, "an event of a part over host memory by GPU %d",
                              gpu->device.ordinal)
                  : WEFT_OK;
}

/* Small enough that the second copy begins soon, large enough for the calls that each takes. */
static size_t piece_of(size_t bytes)
{
    enum { LEAST = 256 << 10, GRAIN = 64 << 10 };
    size_t piece = (bytes / 16 + GRAIN - 1) / GRAIN * GRAIN;
    return piece < LEAST ? LEAST : piece > GPU_HOST_PIECE ? GPU_HOST_PIECE : piece;
}

weft_status gpu_host_way_copy(struct gpu_host_way *way, CUevent begun, CUevent ended, char *dst,
                              const char *src, size_t bytes)
{
    const struct gpu_heap *heap = &way->end[OWN]->heap;
    int from = (uintptr_t)src - gpu_heap_own(heap)->base < heap->size ? OWN : PEERS, to = !from;
    size_t piece = piece_of(bytes), at = 0;
    weft_status status = mark(way, from, begun, NULL);
    CUevent last = NULL;
    for (unsigned n = 0; at < bytes && !status; n++) {
        unsigned place = n % GPU_HOST_PIECES;
        size_t now = bytes - at < piece ? bytes - at : piece;
        char *between = way->ring + (size_t)place * GPU_HOST_PIECE;
        last = way->done[to][place];
        status = move(way, from, last, between, src + at, now, way->done[from][place]);
        if (!status)
            status = move(way, to, way->done[from][place], dst + at, between, now, last);
        at += now;
    }
    return status ? status : mark(way, PEERS, to == PEERS ? NULL : last, ended);
}
