/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory that the NIC reads and writes directly (FI_HMEM). */
#ifndef WEFT_PATH_NET_HMEM_H
#define WEFT_PATH_NET_HMEM_H

#include "path/net/net.h"

/* A range of GPU memory with one registration, as its owner and its peers know it. */
struct net_gpu_region {
    uint64_t start, end;            /* byte offsets in the GPU heap */
    struct net_key keys[NET_RAILS]; /* by rail of the owner; known 0: that NIC does not reach it */
    uint32_t dmabuf, needs_flush;   /* dmabuf: registered by dma-buf; needs_flush: the owner must
                                       flush NIC writes */
    char reason[NET_REASON_BYTES];  /* why no NIC reaches it */
};

/* Returns the fi_info with FI_HMEM if the configuration wants it and the provider has it, and frees
 * `info`. Else returns `info`, and `why` says why. */
struct fi_info *net_add_hmem(const struct fabric *lib, struct fi_info *info, char *why,
                             size_t bytes);

/* Gets the local descriptors of GPU memory, by rail; NULL where the rail does not reach it. *bytes
 * is cut at the end of the registered range. False if no rail reaches it. */
bool net_get_gpu_descriptors(struct path_common *net, const void *local, size_t *bytes,
                             void *descriptors[NET_RAILS]);

/* Gets the keys of a peer's GPU memory, by rail of the peer; known 0: that NIC does not reach it.
 * *bytes is cut at the end of the registered range. The first call asks the peer and waits. */
weft_status net_get_gpu_keys(struct net_state *state, struct net_peer *peer, size_t offset,
                             size_t *bytes, struct net_key keys[NET_RAILS]);

/* Describes the range of own GPU memory around `offset` for a peer that asks. */
void net_get_own_region(struct path_common *net, size_t offset, struct net_gpu_region *region);

/* Makes NIC writes to own GPU memory visible: before a peer's request that follows such writes, and
 * before a get into GPU memory completes. */
weft_status net_flush_gpu(struct path_common *net);

/* A rail has failed at either end. If it was the last one that passed the path test for the peer's
 * GPU memory, transfers use pinned memory from now on, and the path's reason says so. */
void net_gpu_rail_lost(struct path_common *net, struct net_peer *peer, int rail);

/* Entry of the path's table: runs the path test for GPU memory, and describes the result in
 * `found`. */
weft_status net_refine(const struct path_world *world, weft_kind kind, int pe, char *found,
                       size_t bytes);

void net_free_regions(struct path_common *net);

#endif
