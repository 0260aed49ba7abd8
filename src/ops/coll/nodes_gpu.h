/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives by node on GPU memory: data crosses the network once for each node. Large vectors are
 * cut into slices; the members with local rank k ("owners" of slice k) send it from node to node,
 * so every member uses the NIC next to its GPU, and distribute it within their nodes by the paths
 * between GPUs. nodes_gpu.c moves data, also between GPU and host memory; nodes_fold.c reduces;
 * nodes_rooted.c gathers and scatters; nodes_alltoall.c sends small blocks from all to all.
 *
 * The CPU orders the steps. A PE puts what a step has to send, to other nodes and within its own at
 * the same time, completes all of it (quiet), and then notifies. A flag is in host memory, and
 * nothing but completion orders it behind data in GPU memory.
 *
 * For teams whose members share nodes (team->nodes); broadcast and reductions also where each
 * member has its own. */
#ifndef WEFT_OPS_COLL_NODES_GPU_H
#define WEFT_OPS_COLL_NODES_GPU_H

#include "base/config.h"
#include "gpu/coll/coll.h"
#include "ops/coll/nodes.h"

#include <math.h>

/* Whether the members of the team are on several nodes. */
bool coll_gpu_spans_nodes(const struct weft_team *team);

/* Describes nodes with one member each, in the order of the team; the caller frees nodes->of. NULL:
 * there is no memory. */
const struct team_nodes *coll_gpu_each_alone(const struct weft_team *team,
                                             struct team_nodes *nodes);

weft_status coll_gpu_nodes_broadcast(struct weft_team *team, void *dst, const void *src,
                                     size_t bytes, int root, uint64_t phase);

/* allgather and collect: block i, sizes[i] bytes long, goes to byte at[i] of dst. */
weft_status coll_gpu_nodes_collect(struct weft_team *team, enum box_operation operation, void *dst,
                                   const void *src, const size_t *at, const size_t *sizes,
                                   uint64_t phase);

/* A gather or scatter: with `gathers`, block i of dst at the root is the src of member i; else
 * block i of the root's src goes to the dst of member i. */
struct coll_rooted {
    enum box_operation operation;
    bool gathers;
    void *dst;
    const void *src;
    size_t bytes; /* of a block */
    int root;
};

/* Whether relays are worth that the members meet first: `far` members of other nodes have blocks.
 * The limit is where both ways take the same time by `weft explain coll`, with 400 Gbit/s. */
static inline bool coll_is_relayed(int far, size_t bytes)
{
    enum { LEAST_BYTES = 1 << 20 };
    return bytes >= LEAST_BYTES / (size_t)(far ? far : 1);
}

/* Whether coll_gpu_nodes_rooted() is worth an attempt; the same answer at every member. *done
 * false: the members do not name the same memory, and nothing has been moved. */
bool coll_gpu_nodes_relays(const struct weft_team *team, const struct coll_rooted *what);
weft_status coll_gpu_nodes_rooted(struct weft_team *team, const struct coll_rooted *what,
                                  bool *done);

/* Whether the blocks that a node has for one member in an alltoall are worth being put together,
 * which takes a kernel first; each node has as many members. The limits are where both ways take
 * about the same time by `weft explain coll`, with 400 Gbit/s. */
static inline bool coll_is_packed(int nodes, int members, size_t bytes)
{
    enum { MOST_BYTES = 16 << 10, LEAST_BYTES = 8 << 10 };
    const int64_t saved = (int64_t)(nodes - 1) * (members - 1), /* messages of a member */
        least = config_int(CONFIG_TEST_COLL_PACKED);
    return least <= 0 ||
           (bytes <= MOST_BYTES && saved >= least && saved * LEAST_BYTES >= least * (int64_t)bytes);
}

/* Whether coll_gpu_nodes_alltoall() serves, and is faster; the same answer at every member. */
bool coll_gpu_nodes_packs(const struct weft_team *team, const void *dst, size_t bytes);
weft_status coll_gpu_nodes_alltoall(struct weft_team *team, void *dst, const void *src,
                                    size_t bytes);

/* Whether coll_gpu_nodes_reduce() can serve: both sides are in the GPU heap, and the GPUs run
 * kernels. The same answer at every member. */
bool coll_gpu_nodes_reduces(const struct weft_team *team, const struct coll_any_reduction *what);

/* Loads the kernels of collectives before one is called in stream order: to load it waits for other
 * streams, and the stream of a host callback waits for the callback. */
weft_status coll_gpu_nodes_load(const struct weft_team *team);

weft_status coll_gpu_nodes_reduce(struct weft_team *team, const struct coll_any_reduction *what);

/* --------------------------------------------------------------------- parts of these files */

/* The address here of what lies at a member where `own` lies here; NULL: this GPU neither loads nor
 * stores it. */
char *coll_gpu_mapped(const struct weft_team *team, int member, const char *own);

/* Runs a kernel of up to `blocks` blocks, and waits for it. */
weft_status coll_gpu_run_kernel(struct weft_team *team, enum box_operation operation,
                                enum coll_kernel kernel, uint64_t blocks, struct coll_call *call);

/* Starts a put to a member, at this PE's address of its memory. */
static inline weft_status gpu_nodes_put(struct weft_team *team, int member, void *to,
                                        const void *from, size_t bytes)
{
    return bytes ? weft_put_nbi(team->job->system_ctx, to, from, bytes, team->pes[member])
                 : WEFT_OK;
}

/* The same to the other members of the node, without the member `but`. */
static inline weft_status gpu_nodes_put_in_node(struct weft_team *team,
                                                const struct team_nodes *nodes, void *to,
                                                const void *from, size_t bytes, int but)
{
    weft_status status = WEFT_OK;
    for (int k = 1; k < local_count(nodes, nodes->mine) && !status; k++)
        if (neighbour(nodes, k) != but)
            status = gpu_nodes_put(team, neighbour(nodes, k), to, from, bytes);
    return status;
}

static inline weft_status gpu_nodes_complete(struct weft_team *team)
{
    return weft_quiet(team->job->system_ctx);
}

/* Slice k of `owners` of `bytes` bytes; slices begin at multiples of 64 bytes. */
static inline size_t slice_at(size_t bytes, int owners, int k)
{
    size_t at = (bytes + 63) / 64 * (size_t)k / (size_t)owners * 64;
    return at < bytes ? at : bytes;
}

/* Bytes of the longest slice. */
static inline size_t slice_most(size_t bytes, int owners)
{
    return ((bytes + 63) / 64 + (size_t)owners - 1) / (size_t)owners * 64;
}

/* Bytes of the chunks of a slice that passes along a chain of nodes: a chunk takes its time once
 * for each further node, and what a chunk costs is paid for each. CHAIN_BYTES is what a link moves
 * in the time that a step costs; by `weft explain coll` with 400 Gbit/s and 5 us between nodes,
 * half and twice as much is no better. */
static inline size_t chain_chunk(size_t bytes, int nodes)
{
    enum { LEAST_BYTES = 64 << 10, CHAIN_BYTES = 400 << 10 };
    const size_t chunk = (size_t)sqrt((double)bytes * CHAIN_BYTES / (nodes > 1 ? nodes - 1 : 1));
    return chunk < LEAST_BYTES ? LEAST_BYTES : chunk;
}

#endif
