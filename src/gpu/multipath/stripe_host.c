/* SPDX-License-Identifier: Apache-2.0 */
/* See stripe_host.h. */
#include "gpu/multipath/stripe_host.h"

#include "base/status.h"
#include "gpu/stream.h"

#include <string.h>

enum { OWN, PEERS, ENDS };

static weft_status open_end(struct gpu_host_route *route, int end)
{
    struct gpu *gpu = route->end[end];
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    CUresult result = gpu->driver.StreamCreate(&route->stream[end], CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < GPU_HOST_PIECES && !result; i++)
        result = gpu->driver.EventCreate(&route->done[end][i], CU_EVENT_DISABLE_TIMING);
    gpu_leave(&gpu->device);
    return result ? gpu_api_fail(&gpu->driver, result, "a stream and events on GPU %d",
                                 gpu->device.ordinal)
                  : WEFT_OK;
}

static weft_status allocate_ring(struct gpu_host_route *route)
{
    enum { BYTES = GPU_HOST_PIECES * GPU_HOST_PIECE };
    struct gpu *gpu = route->end[OWN];
    void *ring;
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    CUresult result = gpu->driver.MemHostAlloc(&ring, BYTES, CU_MEMHOSTALLOC_PORTABLE);
    gpu_leave(&gpu->device);
    if (result)
        return gpu_api_fail(&gpu->driver, result, "cuMemHostAlloc of %d MiB", BYTES >> 20);
    route->ring = ring;
    return WEFT_OK;
}

weft_status gpu_host_route_open(struct gpu_host_route *route, struct gpu *own, struct gpu *peers)
{
    *route = (struct gpu_host_route){.end = {own, peers}};
    weft_status status = allocate_ring(route);
    for (int end = 0; end < ENDS && !status; end++)
        status = open_end(route, end);
    if (status)
        gpu_host_route_close(route);
    return status;
}

static void close_end(struct gpu_host_route *route, int end)
{
    struct gpu *gpu = route->end[end];
    if (gpu_enter(&gpu->device))
        return;
    for (int i = 0; i < GPU_HOST_PIECES; i++)
        if (route->done[end][i])
            gpu->driver.EventDestroy(route->done[end][i]);
    if (route->stream[end])
        gpu->driver.StreamDestroy(route->stream[end]);
    gpu_leave(&gpu->device);
}

void gpu_host_route_close(struct gpu_host_route *route)
{
    if (!route->end[OWN])
        return;
    gpu_host_route_drain(route);
    for (int end = 0; end < ENDS; end++)
        close_end(route, end);
    if (route->ring)
        route->end[OWN]->driver.MemFreeHost(route->ring);
    memset(route, 0, sizeof *route);
}

void gpu_host_route_drain(struct gpu_host_route *route)
{
    for (int end = 0; end < ENDS; end++)
        if (route->stream[end] && !gpu_enter(&route->end[end]->device)) {
            gpu_wait_stream(route->end[end], route->stream[end], "a share of a copy");
            gpu_leave(&route->end[end]->device);
        }
}

/* Enqueues one of the two copies of a piece, which waits for event `behind`: the other end has then
 * finished with the slot. */
static weft_status move_piece(struct gpu_host_route *route, int end, CUevent behind, void *dst,
                              const void *src, size_t bytes, CUevent done)
{
    struct gpu *gpu = route->end[end];
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    CUresult result = gpu->driver.StreamWaitEvent(route->stream[end], behind, 0);
    if (!result)
        status = gpu_copy_on(gpu, route->stream[end], dst, src, bytes);
    if (!result && !status)
        result = gpu->driver.EventRecord(done, route->stream[end]);
    if (result)
        status =
            gpu_api_fail(&gpu->driver, result, "an event of a share over host memory by GPU %d",
                         gpu->device.ordinal);
    gpu_leave(&gpu->device);
    return status;
}

/* Makes the stream of one end wait for event `behind`, then records `done` on it. Either may be
 * NULL. */
static weft_status wait_and_record(struct gpu_host_route *route, int end, CUevent behind,
                                   CUevent done)
{
    struct gpu *gpu = route->end[end];
    CUresult result = CUDA_SUCCESS;
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    if (behind)
        result = gpu->driver.StreamWaitEvent(route->stream[end], behind, 0);
    if (!result && done)
        result = gpu->driver.EventRecord(done, route->stream[end]);
    gpu_leave(&gpu->device);
    return result
               ? gpu_api_fail(&gpu->driver, result,
                              "an event of a share over host memory by GPU %d", gpu->device.ordinal)
               : WEFT_OK;
}

/* Chooses a piece size: small, so that the second copy begins soon, but large compared with the
 * cost of the driver calls for each piece. */
static size_t choose_piece_bytes(size_t bytes)
{
    enum { LEAST = 256 << 10, GRAIN = 64 << 10 }; /* bytes */
    size_t piece = (bytes / 16 + GRAIN - 1) / GRAIN * GRAIN;
    return piece < LEAST ? LEAST : piece > GPU_HOST_PIECE ? GPU_HOST_PIECE : piece;
}

weft_status gpu_host_route_copy(struct gpu_host_route *route, CUevent begun, CUevent ended,
                                char *dst, const char *src, size_t bytes)
{
    const struct gpu_heap *heap = &route->end[OWN]->heap;
    int from = (uintptr_t)src - gpu_heap_own(heap)->base < heap->size ? OWN : PEERS, to = !from;
    size_t piece = choose_piece_bytes(bytes), at = 0;
    weft_status status = wait_and_record(route, from, begun, NULL);
    CUevent last = NULL;
    for (unsigned n = 0; at < bytes && !status; n++) {
        unsigned slot = n % GPU_HOST_PIECES;
        size_t now = bytes - at < piece ? bytes - at : piece;
        char *between = route->ring + (size_t)slot * GPU_HOST_PIECE;
        last = route->done[to][slot];
        status = move_piece(route, from, last, between, src + at, now, route->done[from][slot]);
        if (!status)
            status = move_piece(route, to, route->done[from][slot], dst + at, between, now, last);
        at += now;
    }
    return status ? status : wait_and_record(route, PEERS, to == PEERS ? NULL : last, ended);
}
