/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives by node on GPU memory, or between GPU and host memory: see nodes_gpu.c. For teams
 * whose members share nodes (team->nodes); the broadcast also where each member has its own. */
#ifndef WEFT_OPS_COLL_NODES_GPU_H
#define WEFT_OPS_COLL_NODES_GPU_H

#include "ops/coll/coll.h"

/* Whether the members of the team are on several nodes. */
bool coll_gpu_nodes_broadcasts(const struct weft_team *team);

weft_status coll_gpu_nodes_broadcast(struct weft_team *team, void *dst, const void *src,
                                     size_t bytes, int root, uint64_t phase);

/* allgather and collect: block i, sizes[i] bytes long, goes to byte at[i] of dst. */
weft_status coll_gpu_nodes_collect(struct weft_team *team, enum box_operation operation, void *dst,
                                   const void *src, const size_t *at, const size_t *sizes,
                                   uint64_t phase);

/* Whether coll_gpu_nodes_reduce() can serve: both sides are in the GPU heap, the GPUs run kernels,
 * and the order of the team permits it. The same answer at every member. */
bool coll_gpu_nodes_reduces(const struct weft_team *team, const struct combiner *c, const void *dst,
                            const void *src);

/* Loads the kernel of reductions, before one is called in stream order: to load it waits for other
 * streams, and the stream of a host callback waits for the callback. */
weft_status coll_gpu_nodes_load(const struct weft_team *team);

/* A reduction, with the arguments of coll_pull_reduce(). */
weft_status coll_gpu_nodes_reduce(struct weft_team *team, enum box_operation operation, void *dst,
                                  const void *src, size_t n, const struct combiner *c, int root);

#endif
