/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of teams whose members share nodes (struct team_nodes): data crosses the network once
 * for each node, not once for each PE. Within a node members load and store, or use the slow
 * functions of coll.h; between nodes they put. This file: sync, exchange and broadcast, along a
 * tree also where members share no nodes. See coll.h for phases and packets, and for the writer of
 * each mailbox. */
#include "ops/coll/nodes.h"

/* --------------------------------------------------------------------------------------- sync */

/* The leaders (local rank 0) of all nodes run the dissemination barrier of coll.c among
 * themselves. */
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

/* Forwards a packet from a member of another node into that member's mailbox at all neighbours. */
static weft_status forward_packet(struct weft_team *team, int member, uint64_t sequence,
                                  const char *payload, size_t bytes)
{
    const struct team_nodes *nodes = team->nodes;
    struct weft_ctx *ctx = team->job->system_ctx;
    weft_status status = WEFT_OK;
    for (int k = 1; k < local_count(nodes, nodes->mine) && !status; k++) {
        int to = neighbour(nodes, k);
        struct mailbox *mailbox = team->mailbox_at[to];
        if (mailbox) {
            mailbox += member - team->me;
            access_copy(mailbox->packet[sequence & 1].payload, payload, bytes);
            /* Release: pairs with the acquire load in coll_packet_await(). */
            atomic_store_explicit(&mailbox->packet[sequence & 1].sequence, sequence,
                                  memory_order_release);
            continue;
        }
        mailbox = &team->mailboxes[member];
        status = weft_put_signal(ctx, mailbox->packet[sequence & 1].payload, payload, bytes,
                                 (uint64_t *)&mailbox->packet[sequence & 1].sequence, sequence,
                                 WEFT_SIGNAL_SET, team->pes[to]);
        if (!status)
            status = weft_fence(ctx);
    }
    return status;
}

/* Receives all packets that members of other nodes send to this PE and forwards them. */
static weft_status forward_packets(struct weft_team *team, enum box_operation operation,
                                   uint64_t sequence, char *all, size_t bytes)
{
    const struct team_nodes *nodes = team->nodes;
    weft_status status = WEFT_OK;
    for (int k = 1; k < nodes->n; k++) {
        int node = (nodes->mine - k + nodes->n) % nodes->n;
        for (int rank = nodes->local_me; rank < local_count(nodes, node) && !status;
             rank += local_count(nodes, nodes->mine)) {
            int from = member_at(nodes, node, rank);
            char *payload = all + (size_t)from * bytes;
            status = coll_packet_await(team, from, sequence, operation, payload, bytes);
            if (!status)
                status = forward_packet(team, from, sequence, payload, bytes);
        }
    }
    return status;
}

weft_status coll_nodes_exchange(struct weft_team *team, enum box_operation operation,
                                const void *mine, char *all, size_t bytes)
{
    const struct team_nodes *nodes = team->nodes;
    uint64_t sequence = ++team->packets;
    char *own_packet = all + (size_t)team->me * bytes;
    weft_status status = WEFT_OK;
    memmove(own_packet, mine, bytes);
    for (int k = 1; k < nodes->n && !status; k++) {
        int node = (nodes->mine + k) % nodes->n;
        status = coll_packet_send(team, counterpart(nodes, node, nodes->local_me), sequence,
                                  own_packet, bytes);
    }
    for (int k = 1; k < local_count(nodes, nodes->mine) && !status; k++)
        status = coll_packet_send(team, neighbour(nodes, k), sequence, own_packet, bytes);
    if (!status)
        status = forward_packets(team, operation, sequence, all, bytes);
    for (int from = 0; from < team->n && !status; from++)
        if (from != team->me)
            status = coll_packet_await(team, from, sequence, operation, all + (size_t)from * bytes,
                                       bytes);
    return status;
}

/* ------------------------------------------------------------------------------------- compare */

/* What members report to each other when they compare records. */
struct compared {
    unsigned char record[COLL_COMPARED_BYTES];
    uint64_t differs; /* 1: the sender knows of records that are not equal */
};

_Static_assert(sizeof(struct compared) == PACKET_BYTES, "it is one packet");

static weft_status await_compared(struct weft_team *team, enum box_operation operation, int from,
                                  struct compared *own)
{
    struct compared theirs;
    weft_status status =
        coll_packet_await(team, from, team->packets, operation, &theirs, sizeof theirs);
    own->differs |=
        !status && (theirs.differs || memcmp(theirs.record, own->record, sizeof own->record) != 0);
    return status;
}

/* The pattern of sync_leaders(), with a record in place of each flag. */
static weft_status compare_leaders(struct weft_team *team, enum box_operation operation,
                                   struct compared *own)
{
    const struct team_nodes *nodes = team->nodes;
    const long n = nodes ? nodes->n : team->n, me = nodes ? nodes->mine : team->me;
    weft_status status = WEFT_OK;
    for (long step = 1; step < n && !status; step *= team->radix) {
        const struct compared sent = *own;
        for (long j = 1; j < team->radix && j * step < n && !status; j++) {
            int to = (int)((me + j * step) % n);
            status = coll_packet_send(team, nodes ? member_at(nodes, to, 0) : to, team->packets,
                                      &sent, sizeof sent);
        }
        for (long j = 1; j < team->radix && j * step < n && !status; j++) {
            int from = (int)((me - j * step + n) % n);
            status = await_compared(team, operation, nodes ? member_at(nodes, from, 0) : from, own);
        }
    }
    return status;
}

static weft_status compare_at_leader(struct weft_team *team, enum box_operation operation,
                                     struct compared *own)
{
    const struct team_nodes *nodes = team->nodes;
    const int neighbours = nodes ? local_count(nodes, nodes->mine) - 1 : 0;
    weft_status status = WEFT_OK;
    for (int k = 1; k <= neighbours && !status; k++)
        status = await_compared(team, operation, neighbour(nodes, k), own);
    if (!status)
        status = compare_leaders(team, operation, own);
    for (int k = 1; k <= neighbours && !status; k++)
        status = coll_packet_send(team, neighbour(nodes, k), team->packets, own, sizeof *own);
    return status;
}

weft_status coll_nodes_compare(struct weft_team *team, enum box_operation operation,
                               const void *mine, size_t bytes, bool *differs)
{
    const struct team_nodes *nodes = team->nodes;
    int leader = nodes ? member_at(nodes, nodes->mine, 0) : team->me;
    struct compared own = {.differs = 0};
    weft_status status;
    memcpy(own.record, mine, bytes);
    team->packets++;
    if (team->me == leader) {
        status = compare_at_leader(team, operation, &own);
    } else {
        status = coll_packet_send(team, leader, team->packets, &own, sizeof own);
        if (!status)
            status = await_compared(team, operation, leader, &own);
    }
    *differs = own.differs;
    return status;
}

/* ---------------------------------------------------------------------------------- broadcast */

/* Forwards from the head's destination to the other members of its node. pull: the members copy in
 * parallel, and the head waits until all have copied; else the head puts. */
static weft_status forward_in_node(struct weft_team *team, struct symmetric_range to, size_t bytes,
                                   bool pull, uint64_t phase)
{
    weft_status status = pull ? WEFT_OK : put_to_neighbours(team, to, own_address(team, to), bytes);
    if (!status)
        status = notify_neighbours(team, phase);
    return status || !pull ? status : await_neighbours(team, phase + 1, BOX_OP_BROADCAST);
}

/* A small broadcast passes from head to head along a tree of nodes with the root's at its top;
 * where members share no nodes, each is a node. The head of a node, by its place in the tree; the
 * root's place is 0. */
static int head_in_tree(const struct weft_team *team, int root, int place)
{
    const struct team_nodes *nodes = team->nodes;
    if (!place || !nodes)
        return (root + place) % team->n;
    return member_at(nodes, (nodes->of[root] + place) % nodes->n, 0);
}

static int place_in_tree(const struct weft_team *team, int root)
{
    const struct team_nodes *nodes = team->nodes;
    return nodes ? (nodes->mine - nodes->of[root] + nodes->n) % nodes->n
                 : (team->me - root + team->n) % team->n;
}

static weft_status send_down_tree(struct weft_team *team, struct symmetric_range to,
                                  const void *src, size_t bytes, int root, uint64_t phase)
{
    const int width = coll_tree_width(bytes), first = width * place_in_tree(team, root) + 1;
    const int places = team->nodes ? team->nodes->n : team->n;
    weft_status status = WEFT_OK;
    for (int place = first; place < first + width && place < places && !status; place++)
        status =
            coll_put_notify(team, head_in_tree(team, root, place), to, src, bytes, phase, false);
    return status;
}

/* Waits for what the head above in the tree sends. */
static weft_status await_tree(struct weft_team *team, size_t bytes, int root, uint64_t phase)
{
    int above = (place_in_tree(team, root) - 1) / coll_tree_width(bytes);
    return coll_await(team, head_in_tree(team, root, above), phase, BOX_OP_BROADCAST);
}

weft_status coll_tree_broadcast(struct weft_team *team, struct symmetric_range to, const void *src,
                                size_t bytes, int root, uint64_t phase)
{
    if (team->me == root)
        return send_down_tree(team, to, src, bytes, root, phase);
    weft_status status = await_tree(team, bytes, root, phase);
    return status ? status : send_down_tree(team, to, own_address(team, to), bytes, root, phase);
}

static weft_status broadcast_root(struct weft_team *team, struct symmetric_range to,
                                  const void *src, size_t bytes, uint64_t phase)
{
    weft_status status = send_down_tree(team, to, src, bytes, team->me, phase);
    if (!status)
        status = put_to_neighbours(team, to, src, bytes);
    return status ? status : notify_neighbours(team, phase);
}

/* A large broadcast: a pipeline from node to node, starting at the root's node, so that no link
 * carries the data more than once. The head of a node receives the chunks: the root in its own
 * node, else local rank 0. */
struct pipeline {
    struct weft_team *team;
    struct symmetric_range to;
    const char *src; /* src of the root */
    struct chunks chunks;
    int root, head; /* head: of this node */
    uint64_t phase;
};

static weft_status forward_chunk(const struct pipeline *pipeline, uint64_t chunk, int before,
                                 int next, bool pull)
{
    struct weft_team *team = pipeline->team;
    size_t offset = chunk_offset(&pipeline->chunks, chunk);
    size_t bytes = chunk_bytes(&pipeline->chunks, chunk);
    struct symmetric_range to = {pipeline->to.segment, pipeline->to.offset + offset};
    const char *source = before < 0 ? pipeline->src + offset : own_address(team, to);
    weft_status status =
        before < 0 ? WEFT_OK : coll_await(team, before, pipeline->phase + chunk, BOX_OP_BROADCAST);
    if (!status && next >= 0)
        status = coll_put_notify(team, next, to, source, bytes, pipeline->phase + chunk, false);
    if (status)
        return status;
    return pull ? notify_neighbours(team, pipeline->phase + chunk)
                : put_to_neighbours(team, to, source, bytes);
}

static weft_status run_head(const struct pipeline *pipeline)
{
    struct weft_team *team = pipeline->team;
    const struct team_nodes *nodes = team->nodes;
    int at_root = nodes->of[pipeline->root], before_node = (nodes->mine - 1 + nodes->n) % nodes->n;
    int next_node = (nodes->mine + 1) % nodes->n, before = -1, next = -1;
    if (next_node != at_root)
        next = member_at(nodes, next_node, 0);
    if (team->me != pipeline->root)
        before = before_node == at_root ? pipeline->root : member_at(nodes, before_node, 0);
    bool pull =
        before >= 0 && local_count(nodes, nodes->mine) > 1 && team->mailbox_at[neighbour(nodes, 1)];
    weft_status status = WEFT_OK;
    for (uint64_t chunk = 0; chunk < pipeline->chunks.count && !status; chunk++)
        status = forward_chunk(pipeline, chunk, before, next, pull);
    if (status)
        return status;
    return pull ? await_neighbours(team, pipeline->phase + pipeline->chunks.count, BOX_OP_BROADCAST)
                : notify_neighbours(team, pipeline->phase + pipeline->chunks.count);
}

static weft_status receive_chunks(const struct pipeline *pipeline)
{
    struct weft_team *team = pipeline->team;
    const char *source = coll_address(team, pipeline->head, pipeline->to);
    if (pipeline->head == pipeline->root || !source)
        return coll_await(team, pipeline->head, pipeline->phase + pipeline->chunks.count,
                          BOX_OP_BROADCAST);
    weft_status status = WEFT_OK;
    for (uint64_t chunk = 0; chunk < pipeline->chunks.count && !status; chunk++) {
        size_t offset = chunk_offset(&pipeline->chunks, chunk);
        status = coll_await(team, pipeline->head, pipeline->phase + chunk, BOX_OP_BROADCAST);
        if (!status)
            memcpy(own_address(team, pipeline->to) + offset, source + offset,
                   chunk_bytes(&pipeline->chunks, chunk));
    }
    return status ? status
                  : coll_notify(team, pipeline->head, pipeline->phase + pipeline->chunks.count);
}

weft_status coll_nodes_broadcast(struct weft_team *team, struct symmetric_range to, const void *src,
                                 size_t bytes, int root, uint64_t phase)
{
    const struct team_nodes *nodes = team->nodes;
    bool with_root = nodes->of[root] == nodes->mine;
    int head = with_root ? root : member_at(nodes, nodes->mine, 0);
    if (bytes > CHUNK_LEAST_BYTES) {
        struct pipeline pipeline = {team, to, src, split_chunks(bytes), root, head, phase};
        team->sequence += pipeline.chunks.count;
        return team->me == head ? run_head(&pipeline) : receive_chunks(&pipeline);
    }
    if (team->me == root)
        return broadcast_root(team, to, src, bytes, phase);
    weft_status status = team->me == head ? await_tree(team, bytes, root, phase)
                                          : coll_await(team, head, phase, BOX_OP_BROADCAST);
    if (status || with_root)
        return status;
    if (team->me == head) {
        status = send_down_tree(team, to, own_address(team, to), bytes, root, phase);
        if (status)
            return status;
        bool pull = bytes >= COLL_PULL_LEAST && local_count(nodes, nodes->mine) > 1 &&
                    team->mailbox_at[neighbour(nodes, 1)];
        return forward_in_node(team, to, bytes, pull, phase);
    }
    const char *source = coll_address(team, head, to);
    if (bytes < COLL_PULL_LEAST || !source)
        return WEFT_OK;
    memcpy(own_address(team, to), source, bytes);
    return coll_notify(team, head, phase + 1);
}
