/* SPDX-License-Identifier: Apache-2.0 */
/* What collectives by node share: who is where, the neighbours of a PE, and the pieces that large
 * ones go in. For the coll_nodes*.c alone. */
#ifndef WEFT_OPS_COLL_NODES_H
#define WEFT_OPS_COLL_NODES_H

#include "ops/coll/coll.h"

enum {
    PIECE_LEAST = 512 * 1024, /* large ones cross nodes in pieces of this size or more */
    PIECE_MOST = 2048 * 1024,
    PIECES = 8, /* more only where they would be too large: each costs a way there and back */
};

/* Large broadcasts and reductions go in pieces, so that one piece travels between nodes while
 * another is copied or combined within them. Each piece has a phase of its own; how many there are
 * follows from the arguments alone, so that the members agree. */
struct pieces {
    uint64_t count;
    size_t size;  /* of each but the last */
    size_t bytes; /* of all */
};

static inline struct pieces cut(size_t bytes)
{
    size_t size = bytes <= PIECE_LEAST ? bytes : bytes / PIECES;
    if (bytes > PIECE_LEAST && size < PIECE_LEAST)
        size = PIECE_LEAST;
    if (size > PIECE_MOST)
        size = PIECE_MOST;
    size = size ? (size + 63) / 64 * 64 : 64;
    return (struct pieces){bytes ? (bytes + size - 1) / size : 1, size, bytes};
}

static inline size_t piece_offset(const struct pieces *pieces, uint64_t piece)
{
    return (size_t)piece * pieces->size;
}

static inline size_t piece_bytes(const struct pieces *pieces, uint64_t piece)
{
    size_t offset = piece_offset(pieces, piece);
    size_t left = offset < pieces->bytes ? pieces->bytes - offset : 0;
    return left < pieces->size ? left : pieces->size;
}

static inline int local_count(const struct team_nodes *nodes, int node)
{
    return nodes->first[node + 1] - nodes->first[node];
}

static inline int member_at(const struct team_nodes *nodes, int node, int place)
{
    return nodes->members[nodes->first[node] + place];
}

/* The k-th other member of this PE's node, 1 <= k < their number; each PE begins behind itself. */
static inline int neighbour(const struct team_nodes *nodes, int k)
{
    int count = local_count(nodes, nodes->mine), place = nodes->local_me + k;
    return member_at(nodes, nodes->mine, place < count ? place : place - count);
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

static inline weft_status put_to_neighbours(struct weft_team *team, struct place to,
                                            const void *src, size_t bytes)
{
    const struct team_nodes *nodes = team->nodes;
    weft_status status = WEFT_OK;
    for (int k = 1; bytes && k < local_count(nodes, nodes->mine) && !status; k++)
        status = coll_put(team, neighbour(nodes, k), to, src, bytes);
    return status;
}

/* Who of another node the member at a place of this one exchanges with: they share the work. A
 * member of that node at `place` has, the other way, counterpart(nodes, mine, place) here. */
static inline int counterpart(const struct team_nodes *nodes, int node, int place)
{
    return member_at(nodes, node, place % local_count(nodes, node));
}

static inline bool has_notified(struct weft_team *team, int member, uint64_t phase)
{
    /* Acquire: pairs with the release in coll_notify(), or what stands for it on other paths. */
    return atomic_load_explicit(&team->mailboxes[member].flag, memory_order_acquire) >= phase;
}

static inline char *own(struct weft_team *team, struct place place)
{
    return team->job->segments[place.segment].base + place.offset;
}

#endif
