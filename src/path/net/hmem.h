/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory that the NIC itself reads and writes (FI_HMEM): for the files of path net. */
#ifndef WEFT_PATH_NET_HMEM_H
#define WEFT_PATH_NET_HMEM_H

#include "path/net/net.h"

/* A stretch of GPU memory that is registered as one, at its owner and as peers know it. */
struct net_gpu_region {
    uint64_t start, end;            /* offsets in the windows */
    struct net_key keys[NET_RAILS]; /* by rail of the owner; known 0: that NIC does not reach it */
    uint32_t dmabuf, needs_flush;   /* registered so; writes are to be flushed */
    char reason[NET_REASON_BYTES];  /* it does not, or the owner's proof of nothing more */
};

/* In place of `info`, which it takes: the same with FI_HMEM, where it is wanted and there. Else why
 * not. */
struct fi_info *net_add_hmem(const struct fabric *lib, struct fi_info *info, char *why,
                             size_t bytes);

/* Whether local GPU memory can be given to libfabric, and how, on each rail (NULL: not on that
 * one); *bytes is cut at the end of what is registered as one. */
bool net_get_gpu_descriptors(struct path_common *net, const void *local, size_t *bytes,
                             void *descriptors[NET_RAILS]);

/* Where a place in the GPU memory of a peer is, by rail of the peer, known 0: not within reach of
 * that NIC; *bytes is cut at the end of what is one. Asks at first, and waits. */
weft_status net_get_gpu_keys(struct path_state *state, struct net_peer *peer, size_t offset,
                             size_t *bytes, struct net_key keys[NET_RAILS]);

/* At the owner: what is told of a place of its own. */
void net_get_own_region(struct path_common *net, size_t offset, struct net_gpu_region *region);

/* Before what a peer asks for that has written into GPU memory here, or a get into it is
 * complete. */
weft_status net_flush_gpu(struct path_common *net);

/* A rail has failed at either end: where it was the last one over which GPU memory of the peer was
 * proven, that goes through pinned memory from now on, and the path's reason says why. */
void net_gpu_rail_lost(struct path_common *net, struct net_peer *peer, int rail);

/* Entry of the path's table. */
weft_status net_refine(const struct path_world *world, weft_kind kind, int pe, char *found,
                       size_t bytes);

void net_free_regions(struct path_common *net);

#endif
