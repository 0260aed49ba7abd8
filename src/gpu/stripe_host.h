/* SPDX-License-Identifier: Apache-2.0 */
/* A way beside NVLink for a part of a copy between this PE's GPU and a peer's: through pinned host
 * memory, out of the one GPU over its PCIe link and into the other over its own. Both copies are
 * made by this process, each by the engine of the GPU whose memory it is, which takes a context on
 * the peer's GPU (relay.h); they follow each other piece by piece, by events, and no CPU has a part
 * in it. See stripe_set.h. */
#ifndef WEFT_GPU_STRIPE_HOST_H
#define WEFT_GPU_STRIPE_HOST_H

#include "gpu/gpu.h"

enum { GPU_HOST_PIECES = 8, GPU_HOST_PIECE = 1 << 20 };

/* All zeros: there is none. */
struct gpu_host_route {
    char *ring; /* a place for each of GPU_HOST_PIECES pieces */
    /* This PE's GPU and the peer's: a stream on each, and events by which each says that it has
     * done with a place. */
    struct gpu *end[2];
    CUstream stream[2];
    CUevent done[2][GPU_HOST_PIECES];
};

/* What it has made in part is closed, too. */
weft_status gpu_host_route_open(struct gpu_host_route *route, struct gpu *own, struct gpu *peers);
void gpu_host_route_close(struct gpu_host_route *route);

/* Puts the copy on the way's streams: it begins behind `begun`, and `ended`, of the peer's context,
 * comes behind it. Copies of one way follow each other. */
weft_status gpu_host_route_copy(struct gpu_host_route *route, CUevent begun, CUevent ended,
                                char *dst, const char *src, size_t bytes);

/* Returns when what was put there is over. */
void gpu_host_route_drain(struct gpu_host_route *route);

#endif
