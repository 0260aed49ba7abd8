/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of teams whose members share nodes (struct team_nodes): what crosses the network
 * crosses it once for each node, not once for each PE. Within a node members load and store, or go
 * the slow way of coll.h; between nodes everything is a put. Here: sync, exchange and broadcast;
 * blocks and reductions have files of their own. See coll.h for phases and packets, and for which
 * member writes a mailbox. */
#include "ops/coll/nodes.h"

enum {
    PULL_FROM_BYTES =
        32 * 1024, /* of a broadcast: members copy from the one that got it, in parallel */
};

/* --------------------------------------------------------------------------------------- sync */

/* Leaders tell each other, as all members do in a team without nodes. */
static weft_status sync_leaders(struct weft_team *team, enum box_operation operation,
                                uint64_t phase)
{
    const struct team_nodes *nodes = team->nodes;
    long n = nodes->n, me = nodes->mine;
    weft_status status = WEFT_OK;
    for (long step = 1; step < n && !status; step *= team->radix) {
        for (long j = 1; j < team->radix && j * step < n && !status; j++)
            status = coll_notify(team, member_at(nodes, (int)((me + j * step) % n), 0), phase);
        for (long j = 1; j < team->radix && j * step < n && !status; j++)
            status = coll_await(team, member_at(nodes, (int)((me - j * step + n) % n), 0), phase,
                                operation);
    }
    return status;
}

weft_status coll_nodes_sync(struct weft_team *team, enum box_operation operation, uint64_t phase)
{
    const struct team_nodes *nodes = team->nodes;
    int leader = member_at(nodes, nodes->mine, 0);
    weft_status status;
    if (team->me != leader) {
        status = coll_notify(team, leader, phase);
        return status ? status : coll_await(team, leader, phase, operation);
    }
    status = await_neighbours(team, phase, operation);
    if (!status)
        status = sync_leaders(team, operation, phase);
    return status ? status : notify_neighbours(team, phase);
}

/* ------------------------------------------------------------------------------------ packets */

/* A packet of another node's member, to the same place at all neighbours. */
static weft_status hand_on(struct weft_team *team, int member, uint64_t number, const char *payload,
                           size_t bytes)
{
    const struct team_nodes *nodes = team->nodes;
    struct weft_ctx *ctx = team->job->system_ctx;
    weft_status status = WEFT_OK;
    for (int k = 1; k < local_count(nodes, nodes->mine) && !status; k++) {
        int to = neighbour(nodes, k);
        struct mailbox *mailbox = team->mailbox_at[to];
        if (mailbox) {
            mailbox += member - team->me;
            access_copy(mailbox->packet[number & 1].payload, payload, bytes);
            /* Release: pairs with the acquire load in coll_packet_await(). */
            atomic_store_explicit(&mailbox->packet[number & 1].number, number,
                                  memory_order_release);
            continue;
        }
        mailbox = &team->mailboxes[member];
        status = weft_put_signal(ctx, mailbox->packet[number & 1].payload, payload, bytes,
                                 (uint64_t *)&mailbox->packet[number & 1].number, number,
                                 WEFT_SIGNAL_SET, team->pes[to]);
        if (!status)
            status = weft_fence(ctx);
    }
    return status;
}

/* What members of other nodes have sent here, to be handed on. */
static weft_status hand_on_all(struct weft_team *team, enum box_operation operation,
                               uint64_t number, char *all, size_t bytes)
{
    const struct team_nodes *nodes = team->nodes;
    weft_status status = WEFT_OK;
    for (int k = 1; k < nodes->n; k++) {
        int node = (nodes->mine - k + nodes->n) % nodes->n;
        for (int place = nodes->local_me; place < local_count(nodes, node) && !status;
             place += local_count(nodes, nodes->mine)) {
            int from = member_at(nodes, node, place);
            char *payload = all + (size_t)from * bytes;
            status = coll_packet_await(team, from, number, operation, payload, bytes);
            if (!status)
                status = hand_on(team, from, number, payload, bytes);
        }
    }
    return status;
}

weft_status coll_nodes_exchange(struct weft_team *team, enum box_operation operation,
                                const void *mine, char *all, size_t bytes)
{
    const struct team_nodes *nodes = team->nodes;
    uint64_t number = ++team->packets;
    char *own_packet = all + (size_t)team->me * bytes;
    weft_status status = WEFT_OK;
    memmove(own_packet, mine, bytes);
    for (int k = 1; k < nodes->n && !status; k++) {
        int node = (nodes->mine + k) % nodes->n;
        status = coll_packet_send(team, counterpart(nodes, node, nodes->local_me), number,
                                  own_packet, bytes);
    }
    for (int k = 1; k < local_count(nodes, nodes->mine) && !status; k++)
        status = coll_packet_send(team, neighbour(nodes, k), number, own_packet, bytes);
    if (!status)
        status = hand_on_all(team, operation, number, all, bytes);
    for (int from = 0; from < team->n && !status; from++)
        if (from != team->me)
            status =
                coll_packet_await(team, from, number, operation, all + (size_t)from * bytes, bytes);
    return status;
}

/* ---------------------------------------------------------------------------------- broadcast */

/* From what `head` has in its destination to the rest of its node. Large: they copy, all at the
 * same time, and say when they have done so. */
static weft_status pass_on(struct weft_team *team, struct place to, size_t bytes, bool pull,
                           uint64_t phase)
{
    weft_status status = pull ? WEFT_OK : put_to_neighbours(team, to, own(team, to), bytes);
    if (!status)
        status = notify_neighbours(team, phase);
    return status || !pull ? status : await_neighbours(team, phase + 1, BOX_OP_BROADCAST);
}

static weft_status broadcast_root(struct weft_team *team, struct place to, const void *src,
                                  size_t bytes, uint64_t phase)
{
    const struct team_nodes *nodes = team->nodes;
    weft_status status = WEFT_OK;
    for (int k = 1; k < nodes->n && !status; k++) {
        int head = member_at(nodes, (nodes->mine + k) % nodes->n, 0);
        status = coll_put_notify(team, head, to, src, bytes, phase, false);
    }
    if (!status)
        status = put_to_neighbours(team, to, src, bytes);
    return status ? status : notify_neighbours(team, phase);
}

/* Large: from node to node, in the order that begins with the root's, so that no link carries more
 * than the data once. */
struct flow {
    struct weft_team *team;
    struct place to;
    const char *src; /* at the root */
    struct pieces pieces;
    int root, head; /* head: of this node */
    uint64_t phase;
};

static weft_status flow_piece(const struct flow *flow, uint64_t piece, int before, int next,
                              bool pull)
{
    struct weft_team *team = flow->team;
    size_t offset = piece_offset(&flow->pieces, piece);
    size_t bytes = piece_bytes(&flow->pieces, piece);
    struct place to = {flow->to.segment, flow->to.offset + offset};
    const char *source = before < 0 ? flow->src + offset : own(team, to);
    weft_status status =
        before < 0 ? WEFT_OK : coll_await(team, before, flow->phase + piece, BOX_OP_BROADCAST);
    if (!status && next >= 0)
        status = coll_put_notify(team, next, to, source, bytes, flow->phase + piece, false);
    if (status)
        return status;
    return pull ? notify_neighbours(team, flow->phase + piece)
                : put_to_neighbours(team, to, source, bytes);
}

static weft_status flow_head(const struct flow *flow)
{
    struct weft_team *team = flow->team;
    const struct team_nodes *nodes = team->nodes;
    int at_root = nodes->of[flow->root], before_node = (nodes->mine - 1 + nodes->n) % nodes->n;
    int next_node = (nodes->mine + 1) % nodes->n, before = -1, next = -1;
    if (next_node != at_root)
        next = member_at(nodes, next_node, 0);
    if (team->me != flow->root)
        before = before_node == at_root ? flow->root : member_at(nodes, before_node, 0);
    bool pull =
        before >= 0 && local_count(nodes, nodes->mine) > 1 && team->mailbox_at[neighbour(nodes, 1)];
    weft_status status = WEFT_OK;
    for (uint64_t piece = 0; piece < flow->pieces.count && !status; piece++)
        status = flow_piece(flow, piece, before, next, pull);
    if (status)
        return status;
    return pull ? await_neighbours(team, flow->phase + flow->pieces.count, BOX_OP_BROADCAST)
                : notify_neighbours(team, flow->phase + flow->pieces.count);
}

static weft_status flow_rest(const struct flow *flow)
{
    struct weft_team *team = flow->team;
    const char *source = coll_address(team, flow->head, flow->to);
    if (flow->head == flow->root || !source)
        return coll_await(team, flow->head, flow->phase + flow->pieces.count, BOX_OP_BROADCAST);
    weft_status status = WEFT_OK;
    for (uint64_t piece = 0; piece < flow->pieces.count && !status; piece++) {
        size_t offset = piece_offset(&flow->pieces, piece);
        status = coll_await(team, flow->head, flow->phase + piece, BOX_OP_BROADCAST);
        if (!status)
            memcpy(own(team, flow->to) + offset, source + offset,
                   piece_bytes(&flow->pieces, piece));
    }
    return status ? status : coll_notify(team, flow->head, flow->phase + flow->pieces.count);
}

weft_status coll_nodes_broadcast(struct weft_team *team, struct place to, const void *src,
                                 size_t bytes, int root, uint64_t phase)
{
    const struct team_nodes *nodes = team->nodes;
    bool with_root = nodes->of[root] == nodes->mine;
    int head = with_root ? root : member_at(nodes, nodes->mine, 0);
    if (bytes > PIECE_LEAST) {
        struct flow flow = {team, to, src, cut(bytes), root, head, phase};
        team->sequence += flow.pieces.count;
        return team->me == head ? flow_head(&flow) : flow_rest(&flow);
    }
    if (team->me == root)
        return broadcast_root(team, to, src, bytes, phase);
    weft_status status = coll_await(team, team->me == head ? root : head, phase, BOX_OP_BROADCAST);
    if (status || with_root)
        return status;
    if (team->me == head) {
        bool pull = bytes >= PULL_FROM_BYTES && local_count(nodes, nodes->mine) > 1 &&
                    team->mailbox_at[neighbour(nodes, 1)];
        return pass_on(team, to, bytes, pull, phase);
    }
    const char *source = coll_address(team, head, to);
    if (bytes < PULL_FROM_BYTES || !source)
        return WEFT_OK;
    memcpy(own(team, to), source, bytes);
    return coll_notify(team, head, phase + 1);
}
