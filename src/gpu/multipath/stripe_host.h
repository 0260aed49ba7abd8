/* SPDX-License-Identifier: Apache-2.0 */
/* A route in parallel with NVLink for a share of a copy between this PE's GPU and a peer's: through
 * pinned host memory, out of one GPU over its PCIe link and into the other GPU over its own. This
 * process issues both copies, each on the GPU whose memory it reads or writes, which needs a
 * context on the peer's GPU (relay.h). Events order the copies of each piece; no CPU takes part.
 * See stripe_set.h. */
#ifndef WEFT_GPU_STRIPE_HOST_H
#define WEFT_GPU_STRIPE_HOST_H

#include "gpu/gpu.h"

enum {
    GPU_HOST_PIECES = 8,      /* slots of the ring */
    GPU_HOST_PIECE = 1 << 20, /* bytes of a slot */
};

/* The host route; all zeros: none. */
struct gpu_host_route {
    char *ring; /* a slot for each of GPU_HOST_PIECES pieces */
    /* This PE's GPU and the peer's: a stream on each, and an event for each slot, recorded when
     * that GPU has finished with the slot. */
    struct gpu *end[2];
    CUstream stream[2];
    CUevent done[2][GPU_HOST_PIECES];
};

/* gpu_host_route_close() also closes a route that was opened in part. */
weft_status gpu_host_route_open(struct gpu_host_route *route, struct gpu *own, struct gpu *peers);
void gpu_host_route_close(struct gpu_host_route *route);

/* Enqueues the copy on the route's streams. It begins after `begun`; `ended`, an event of the
 * peer's context, is recorded after it. Copies of one route run one after the other. */
weft_status gpu_host_route_copy(struct gpu_host_route *route, CUevent begun, CUevent ended,
                                char *dst, const char *src, size_t bytes);

/* Returns when all copies of the route are complete. */
void gpu_host_route_drain(struct gpu_host_route *route);

#endif
