/* SPDX-License-Identifier: Apache-2.0 */
/* Members, the nodes on which they are, and the layout of a dispatch, for all kernels of dispatch
 * and combine.
 *
 * Relay. For the tokens of a member, each other node of several members has a relay: one of its
 * members. A token crosses to the relay once, and the relay puts it on to the members of its node.
 * Results return to the relay, which adds them and sends one sum to the token's PE. Members of a
 * PE's own node, and a member that is alone on its node, are served without a relay.
 *
 * Of the members outside a node, in the order of nodes, the i-th one has the relay with index i
 * modulo the node's size. So relays have equal loads, within one; with nodes of equal sizes, a
 * member's relays have its own index within the node, as GPUs of one rail have.
 *
 * Order of nodes. Nodes are in the order of their first members, the members of a node in the order
 * of the team. `position` is a member's index in that order. Without relays it is the member
 * itself. */
#ifndef WEFT_OPS_EXPERTS_NODES_H
#define WEFT_OPS_EXPERTS_NODES_H

#include <weft_device.h>

#include "ops/experts/call.h"

/* The experts of a member: see weft_experts.h, Owners. */
WEFT_DEVICE uint32_t experts_first(const struct experts_call *c, uint32_t member)
{
    return (uint32_t)((uint64_t)member * c->experts / c->members);
}

/* The member that owns an expert: the last one whose first expert is not after it. */
WEFT_DEVICE uint32_t experts_owner(const struct experts_call *c, uint32_t expert)
{
    return ((expert + 1) * c->members - 1) / c->experts;
}

/* ------------------------------------------------------------------------------- nodes */

WEFT_DEVICE uint32_t experts_member_at(const struct experts_call *c, uint32_t position)
{
    return c->nodes.n ? (uint32_t)c->nodes.members[position] : position;
}

/* Without relays all members are on node 0. */
WEFT_DEVICE uint32_t experts_node_of(const struct experts_call *c, uint32_t member)
{
    return c->nodes.n ? (uint32_t)c->nodes.of[member] : 0;
}

WEFT_DEVICE uint32_t experts_node_members(const struct experts_call *c, uint32_t node)
{
    return (uint32_t)(c->nodes.first[node + 1] - c->nodes.first[node]);
}

/* Whether this PE sends to a node by a relay. There are nodes. */
WEFT_DEVICE int experts_is_node_relayed(const struct experts_call *c, uint32_t node)
{
    return node != c->nodes.mine && experts_node_members(c, node) > 1;
}

/* Whether tokens of member `of` come to member `to` by a relay. */
WEFT_DEVICE int experts_is_relayed(const struct experts_call *c, uint32_t of, uint32_t to)
{
    uint32_t node = experts_node_of(c, to);
    return experts_node_of(c, of) != node && experts_node_members(c, node) > 1;
}

struct experts_relay {
    uint32_t member;
    uint32_t source; /* index of the tokens' PE among those that the relay serves */
};

/* The relay in `node` for the tokens of the member at `position`, which is on another node. */
WEFT_DEVICE struct experts_relay experts_relay_of(const struct experts_call *c, uint32_t position,
                                                  uint32_t node)
{
    uint32_t first = (uint32_t)c->nodes.first[node], size = experts_node_members(c, node);
    uint32_t other = position < first ? position : position - size;
    struct experts_relay relay = {(uint32_t)c->nodes.members[first + other % size], other / size};
    return relay;
}

/* The member whose tokens this PE relays as source `source`. */
WEFT_DEVICE uint32_t experts_source_member(const struct experts_call *c, uint32_t source)
{
    uint32_t first = (uint32_t)c->nodes.first[c->nodes.mine];
    uint32_t size = experts_node_members(c, c->nodes.mine);
    uint32_t other = c->nodes.rank + source * size;
    return experts_member_at(c, other < first ? other : other + size);
}

/* Results that a relay gets at most for the tokens of one source in a part. */
WEFT_DEVICE uint32_t experts_part_results(const struct experts_call *c)
{
    uint32_t others = experts_node_members(c, c->nodes.mine) - 1;
    uint32_t tokens = (c->tokens_most + c->parts - 1) / c->parts;
    return tokens * (c->top < others ? c->top : others);
}

/* ------------------------------------------------------------------------------ layout
 *
 * Words: EXPERTS_LAYOUT_HEAD, the counts of all members, then experts_places() of all own tokens;
 * with nodes also experts_own_heads(), and, of the tokens that this PE relays,
 * experts_relay_heads() and experts_relay_places(). */

/* For each token the row at each member, by position, then the row for each node. */
WEFT_DEVICE uint32_t experts_columns(const struct experts_call *c)
{
    return c->members + c->nodes.n;
}

/* Rows of token t among those that this PE sends to each column; -1: none. */
WEFT_DEVICE int32_t *experts_places(const struct experts_call *c, size_t t)
{
    int32_t *places = (int32_t *)c->layout + EXPERTS_PLACES_AT(c->members, c->experts);
    return places + t * experts_columns(c);
}

/* [nodes] of the tokens of this PE. */
WEFT_DEVICE struct experts_head *experts_own_heads(const struct experts_call *c)
{
    return (struct experts_head *)(void *)experts_places(c, c->tokens_most);
}

/* [sources] */
WEFT_DEVICE struct experts_head *experts_relay_heads(const struct experts_call *c)
{
    return experts_own_heads(c) + c->nodes.n;
}

/* As experts_nodes.places. */
WEFT_DEVICE int32_t *experts_relay_places(const struct experts_call *c)
{
    return (int32_t *)(void *)(experts_relay_heads(c) + c->nodes.sources);
}

#endif
