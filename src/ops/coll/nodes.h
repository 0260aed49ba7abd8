/* SPDX-License-Identifier: Apache-2.0 */
/* What the collectives by node (coll_nodes*.c) share: the rank of each member in its node, the
 * neighbours of a PE (members of the same node), and the chunks of large collectives. */
#ifndef WEFT_OPS_COLL_NODES_H
#define WEFT_OPS_COLL_NODES_H

#include "ops/coll/coll.h"

enum {
    /* smallest chunk of a large collective between nodes, in bytes */
    CHUNK_LEAST_BYTES = 512 * 1024,
    CHUNK_MOST_BYTES = 2048 * 1024,
    /* number of chunks, unless they would exceed CHUNK_MOST_BYTES; each chunk costs a round trip */
    CHUNKS = 8,
};

/* Large broadcasts and reductions are pipelined in chunks: one chunk travels between nodes while
 * another is copied or combined within the nodes. Each chunk has its own phase number. The number
 * of chunks follows from the arguments alone, so all members use the same. */
struct chunks {
    uint64_t count;
    size_t size;  /* bytes of each chunk but the last */
    size_t bytes; /* bytes of all chunks */
};

static inline struct chunks split_chunks(size_t bytes)
{
    size_t size = bytes <= CHUNK_LEAST_BYTES ? bytes : bytes / CHUNKS;
    if (bytes > CHUNK_LEAST_BYTES && size < CHUNK_LEAST_BYTES)
        size = CHUNK_LEAST_BYTES;
    if (size > CHUNK_MOST_BYTES)
        size = CHUNK_MOST_BYTES;
    size = size ? (size + 63) / 64 * 64 : 64;
    return (struct chunks){bytes ? (bytes + size - 1) / size : 1, size, bytes};
}

static inline size_t chunk_offset(const struct chunks *chunks, uint64_t chunk)
{
    return (size_t)chunk * chunks->size;
}

static inline size_t chunk_bytes(const struct chunks *chunks, uint64_t chunk)
{
    size_t offset = chunk_offset(chunks, chunk);
    size_t left = offset < chunks->bytes ? chunks->bytes - offset : 0;
    return left < chunks->size ? left : chunks->size;
}

/* A node of the tree of a broadcast has as many nodes below it as it can send to in about the time
 * that one message is under way. */
static inline int coll_tree_width(size_t bytes)
{
    return bytes <= 4 * 1024 ? 16 : bytes <= 64 * 1024 ? 8 : 4;
}

static inline int local_count(const struct team_nodes *nodes, int node)
{
    return nodes->first[node + 1] - nodes->first[node];
}

static inline int member_at(const struct team_nodes *nodes, int node, int rank)
{
    return nodes->members[nodes->first[node] + rank];
}

/* The k-th other member of this PE's node, 1 <= k < number of members; each PE starts with the
 * member after itself. */
static inline int neighbour(const struct team_nodes *nodes, int k)
{
    int count = local_count(nodes, nodes->mine), rank = nodes->local_me + k;
    return member_at(nodes, nodes->mine, rank < count ? rank : rank - count);
}

static inline weft_status notify_neighbours(struct weft_team *team, uint64_t phase)
{
    const struct team_nodes *nodes = team->nodes;
    weft_status status = WEFT_OK;
    for (int k = 1; k < local_count(nodes, nodes->mine) && !status; k++)
        status = coll_notify(team, neighbour(nodes, k), phase);
    return status;
}

static inline weft_status await_neighbours(struct weft_team *team, uint64_t phase,
                                           enum box_operation operation)
{
    const struct team_nodes *nodes = team->nodes;
    weft_status status = WEFT_OK;
    for (int k = 1; k < local_count(nodes, nodes->mine) && !status; k++)
        status = coll_await(team, neighbour(nodes, k), phase, operation);
    return status;
}

static inline weft_status put_to_neighbours(struct weft_team *team, struct symmetric_range to,
                                            const void *src, size_t bytes)
{
    const struct team_nodes *nodes = team->nodes;
    weft_status status = WEFT_OK;
    for (int k = 1; bytes && k < local_count(nodes, nodes->mine) && !status; k++)
        status = coll_put(team, neighbour(nodes, k), to, src, bytes);
    return status;
}

/* The member of another node that the member with local rank `rank` of this node sends to; the
 * members of a node share this work. In the other direction, a member of that node with local rank
 * `rank` sends to counterpart(nodes, mine, rank) here. */
static inline int counterpart(const struct team_nodes *nodes, int node, int rank)
{
    return member_at(nodes, node, rank % local_count(nodes, node));
}

static inline bool has_notified(struct weft_team *team, int member, uint64_t phase)
{
    return coll_reported(team, member) >= phase;
}

static inline char *own_address(struct weft_team *team, struct symmetric_range rank)
{
    return team->job->segments[rank.segment].base + rank.offset;
}

#endif
