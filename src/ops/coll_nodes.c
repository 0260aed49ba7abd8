/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of teams whose members share nodes (struct team_nodes): what crosses the network crosses it
 * once for each node, not once for each PE. Within a node members load and store, or go the slow way of
 * coll.h; between nodes everything is a put. See coll.h for phases and packets, and for which member writes
 * a mailbox. */
#include "ops/coll.h"

#include <stdlib.h>

enum {
    SYNC_RADIX = 64,
    PULL_FROM_BYTES =
        32 * 1024, /* of a broadcast: members copy from the one that got it, in parallel */
    PIECE_BYTES = 256 * 1024, /* of what is fetched from another node at a time */
};

static int local_count(const struct team_nodes *nodes, int node)
{
    return nodes->first[node + 1] - nodes->first[node];
}

static int member_at(const struct team_nodes *nodes, int node, int place)
{
    return nodes->members[nodes->first[node] + place];
}

/* The k-th other member of this PE's node, 1 <= k < their number; each PE begins behind itself. */
static int neighbour(const struct team_nodes *nodes, int k)
{
    int count = local_count(nodes, nodes->mine), place = nodes->local_me + k;
    return member_at(nodes, nodes->mine, place < count ? place : place - count);
}

static weft_status notify_neighbours(struct weft_team *team, uint64_t phase)
{
    const struct team_nodes *nodes = team->nodes;
    weft_status status = WEFT_OK;
    for (int k = 1; k < local_count(nodes, nodes->mine) && !status; k++)
        status = coll_notify(team, neighbour(nodes, k), phase);
    return status;
}

static weft_status await_neighbours(struct weft_team *team, uint64_t phase,
                                    enum box_operation operation)
{
    const struct team_nodes *nodes = team->nodes;
    weft_status status = WEFT_OK;
    for (int k = 1; k < local_count(nodes, nodes->mine) && !status; k++)
        status = coll_await(team, neighbour(nodes, k), phase, operation);
    return status;
}

static weft_status put_to_neighbours(struct weft_team *team, struct place to, const void *src,
                                     size_t bytes)
{
    const struct team_nodes *nodes = team->nodes;
    weft_status status = WEFT_OK;
    for (int k = 1; bytes && k < local_count(nodes, nodes->mine) && !status; k++)
        status = coll_put(team, neighbour(nodes, k), to, src, bytes);
    return status;
}

static char *own(struct weft_team *team, struct place place)
{
    return team->job->segments[place.segment].base + place.offset;
}

/* --------------------------------------------------------------------------------------- sync */

/* Leaders tell each other, as all members do in a team without nodes. */
static weft_status sync_leaders(struct weft_team *team, enum box_operation operation,
                                uint64_t phase)
{
    const struct team_nodes *nodes = team->nodes;
    long n = nodes->n, me = nodes->mine;
    weft_status status = WEFT_OK;
    for (long step = 1; step < n && !status; step *= SYNC_RADIX) {
        for (long j = 1; j < SYNC_RADIX && j * step < n && !status; j++)
            status = coll_notify(team, member_at(nodes, (int)((me + j * step) % n), 0), phase);
        for (long j = 1; j < SYNC_RADIX && j * step < n && !status; j++)
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

/* The packets of this node's members, to the leader of another: all payloads, then all numbers. */
static weft_status send_packets(struct weft_team *team, int to, uint64_t number, const char *all,
                                size_t bytes)
{
    const struct team_nodes *nodes = team->nodes;
    struct weft_ctx *ctx = team->job->system_ctx;
    int count = local_count(nodes, nodes->mine), pe = team->pes[to];
    weft_status status = WEFT_OK;
    for (int k = 0; k < count && !status; k++) {
        int member = member_at(nodes, nodes->mine, k);
        status = weft_put(ctx, team->mailboxes[member].packet[number & 1].payload,
                          all + (size_t)member * bytes, bytes, pe);
    }
    if (!status)
        status = weft_fence(ctx);
    for (int k = 0; k < count && !status; k++) {
        int member = member_at(nodes, nodes->mine, k);
        status = weft_put(ctx, (void *)&team->mailboxes[member].packet[number & 1].number, &number,
                          sizeof number, pe);
    }
    return status;
}

/* A packet of another node's member, from its place here to the same place at a neighbour. */
static weft_status hand_on(struct weft_team *team, int neighbour, int member, uint64_t number,
                           const char *payload, size_t bytes)
{
    struct mailbox *mailbox = team->mailbox_at[neighbour];
    struct weft_ctx *ctx = team->job->system_ctx;
    if (mailbox) {
        mailbox += member - team->me;
        access_copy(mailbox->packet[number & 1].payload, payload, bytes);
        /* Release: pairs with the acquire load in coll_packet_await(). */
        atomic_store_explicit(&mailbox->packet[number & 1].number, number, memory_order_release);
        return WEFT_OK;
    }
    mailbox = &team->mailboxes[member];
    weft_status status =
        weft_put(ctx, mailbox->packet[number & 1].payload, payload, bytes, team->pes[neighbour]);
    if (!status)
        status = weft_fence(ctx);
    if (!status)
        status = weft_put(ctx, (void *)&mailbox->packet[number & 1].number, &number, sizeof number,
                          team->pes[neighbour]);
    return status ? status : weft_fence(ctx);
}

static weft_status hand_on_all(struct weft_team *team, uint64_t number, const char *all,
                               size_t bytes)
{
    const struct team_nodes *nodes = team->nodes;
    weft_status status = WEFT_OK;
    for (int k = 1; k < local_count(nodes, nodes->mine); k++)
        for (int member = 0; member < team->n && !status; member++)
            if (nodes->of[member] != nodes->mine)
                status = hand_on(team, neighbour(nodes, k), member, number,
                                 all + (size_t)member * bytes, bytes);
    return status;
}

weft_status coll_nodes_exchange(struct weft_team *team, enum box_operation operation,
                                const void *mine, char *all, size_t bytes)
{
    const struct team_nodes *nodes = team->nodes;
    uint64_t number = ++team->packets;
    bool leader = nodes->local_me == 0;
    weft_status status = WEFT_OK;
    memmove(all + (size_t)team->me * bytes, mine, bytes);
    for (int k = 1; k < local_count(nodes, nodes->mine) && !status; k++)
        status = coll_packet_send(team, neighbour(nodes, k), number, all + (size_t)team->me * bytes,
                                  bytes);
    for (int k = 1; k < local_count(nodes, nodes->mine) && !status; k++) {
        int from = neighbour(nodes, k);
        status =
            coll_packet_await(team, from, number, operation, all + (size_t)from * bytes, bytes);
    }
    for (int k = 1; leader && k < nodes->n && !status; k++)
        status = send_packets(team, member_at(nodes, (nodes->mine + k) % nodes->n, 0), number, all,
                              bytes);
    if (leader && !status)
        status = weft_fence(team->job->system_ctx); /* a path that holds back lets them go now */
    for (int from = 0; from < team->n && !status; from++)
        if (nodes->of[from] != nodes->mine)
            status =
                coll_packet_await(team, from, number, operation, all + (size_t)from * bytes, bytes);
    return status || !leader ? status : hand_on_all(team, number, all, bytes);
}

/* ---------------------------------------------------------------------------------- broadcast */

/* From what `head` has in its destination to the rest of its node. Large: they copy, all at the same
 * time, and say when they have done so. */
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
        status = coll_put(team, head, to, src, bytes);
        if (!status)
            status = coll_notify(team, head, phase);
    }
    if (!status)
        status = put_to_neighbours(team, to, src, bytes);
    return status ? status : notify_neighbours(team, phase);
}

weft_status coll_nodes_broadcast(struct weft_team *team, struct place to, const void *src,
                                 size_t bytes, int root, uint64_t phase)
{
    const struct team_nodes *nodes = team->nodes;
    bool with_root = nodes->of[root] == nodes->mine;
    int head = with_root ? root : member_at(nodes, nodes->mine, 0);
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

/* -------------------------------------------------------------------------- fcollect and collect */

/* Who of another node gets this member's block, and hands it on there: they share the work. */
static int receiver_of(const struct team_nodes *nodes, int node, int local)
{
    return member_at(nodes, node, local % local_count(nodes, node));
}

static weft_status hand_on_blocks(struct weft_team *team, enum box_operation operation,
                                  struct place to, const size_t *at, const size_t *bytes,
                                  uint64_t phase)
{
    const struct team_nodes *nodes = team->nodes;
    weft_status status = WEFT_OK;
    for (int k = 1; k < nodes->n; k++) {
        int node = (nodes->mine - k + nodes->n) % nodes->n;
        for (int place = nodes->local_me; place < local_count(nodes, node) && !status;
             place += local_count(nodes, nodes->mine)) {
            int from = member_at(nodes, node, place);
            struct place block = {to.segment, to.offset + at[from]};
            status = coll_await(team, from, phase, operation);
            if (!status)
                status = put_to_neighbours(team, block, own(team, block), bytes[from]);
        }
    }
    return status;
}

weft_status coll_nodes_collect(struct weft_team *team, enum box_operation operation,
                               struct place to, const void *src, const size_t *at,
                               const size_t *bytes, uint64_t phase)
{
    const struct team_nodes *nodes = team->nodes;
    int me = team->me;
    struct place block = {to.segment, to.offset + at[me]};
    weft_status status = WEFT_OK;
    for (int k = 1; k < nodes->n && !status; k++) {
        int receiver = receiver_of(nodes, (nodes->mine + k) % nodes->n, nodes->local_me);
        if (bytes[me])
            status = coll_put(team, receiver, block, src, bytes[me]);
        if (!status)
            status = coll_notify(team, receiver, phase);
    }
    if (!status)
        status = put_to_neighbours(team, block, src, bytes[me]);
    if (bytes[me] && own(team, block) != src)
        memmove(own(team, block), src, bytes[me]);
    if (!status)
        status = hand_on_blocks(team, operation, to, at, bytes, phase);
    if (!status)
        status = notify_neighbours(team, phase); /* my block, and those that I have handed on */
    return status ? status : await_neighbours(team, phase, operation);
}

/* ------------------------------------------------------------------------------------- reduce */

/* One part of the vector, the same at every node, whose place `owner` in each node works on it: the first
 * node combines its members' elements, the next one goes on with that result, and so on, so that they are
 * combined in the order of the team; from the last node the result goes back to all. */
struct part {
    struct weft_team *team;
    const struct coll_nodes_reduction *what;
    int owner;         /* place in the node */
    size_t begin, end; /* bytes */
    char *room;        /* PIECE_BYTES */
};

static weft_status fetch_source(const struct part *part, int member, size_t offset, size_t bytes,
                                void *room, const void **source)
{
    struct weft_team *team = part->team;
    struct place at = {part->what->from.segment, part->what->from.offset + offset};
    *source = coll_address(team, member, at);
    if (*source)
        return WEFT_OK;
    *source = room;
    return weft_get(team->job->system_ctx, room, own(team, at), bytes, team->pes[member]);
}

/* What the nodes before this one have come to lies in the destination of the owner there. */
static weft_status combine_piece(const struct part *part, size_t offset, size_t bytes)
{
    struct weft_team *team = part->team;
    const struct team_nodes *nodes = team->nodes;
    struct place to = {part->what->to.segment, part->what->to.offset + offset};
    char *acc = part->room, *room = part->room + PIECE_BYTES;
    int first = 0;
    weft_status status;
    if (nodes->mine > 0) {
        int before = member_at(nodes, nodes->mine - 1, part->owner);
        status = weft_get(team->job->system_ctx, acc, own(team, to), bytes, team->pes[before]);
    } else {
        const void *source;
        status = fetch_source(part, member_at(nodes, 0, 0), offset, bytes, room, &source);
        if (!status)
            memcpy(acc, source, bytes);
        first = 1;
    }
    for (int k = first; k < local_count(nodes, nodes->mine) && !status; k++) {
        const void *source;
        status = fetch_source(part, member_at(nodes, nodes->mine, k), offset, bytes, room, &source);
        if (!status)
            part->what->combine(acc, source, bytes / part->what->element);
    }
    if (!status)
        memcpy(own(team, to), acc, bytes);
    return status;
}

static weft_status combine_part(const struct part *part, uint64_t phase)
{
    struct weft_team *team = part->team;
    const struct team_nodes *nodes = team->nodes;
    weft_status status = WEFT_OK;
    if (nodes->mine > 0)
        status = coll_await(team, member_at(nodes, nodes->mine - 1, part->owner), phase + 1,
                            BOX_OP_REDUCE);
    for (size_t at = part->begin; at < part->end && !status; at += PIECE_BYTES) {
        size_t left = part->end - at;
        status = combine_piece(part, at, left < PIECE_BYTES ? left : PIECE_BYTES);
    }
    if (!status && nodes->mine + 1 < nodes->n)
        status = coll_notify(team, member_at(nodes, nodes->mine + 1, part->owner), phase + 1);
    return status;
}

static weft_status spread_part(const struct part *part, uint64_t phase)
{
    struct weft_team *team = part->team;
    const struct team_nodes *nodes = team->nodes;
    struct place to = {part->what->to.segment, part->what->to.offset + part->begin};
    size_t bytes = part->end - part->begin;
    int last = nodes->n - 1;
    weft_status status = WEFT_OK;
    for (int node = 0; nodes->mine == last && node < last && !status; node++) {
        int owner = member_at(nodes, node, part->owner);
        if (bytes)
            status = coll_put(team, owner, to, own(team, to), bytes);
        if (!status)
            status = coll_notify(team, owner, phase + 2);
    }
    if (nodes->mine != last)
        status = coll_await(team, member_at(nodes, last, part->owner), phase + 2, BOX_OP_REDUCE);
    if (!status)
        status = put_to_neighbours(team, to, own(team, to), bytes);
    return status ? status : notify_neighbours(team, phase + 3);
}

/* Phases: the sources of a node are ready; the node before has combined; the result has come from the last
 * node; the owner's part is in all destinations of the node. */
weft_status coll_nodes_reduce(struct weft_team *team, const struct coll_nodes_reduction *what,
                              size_t n, uint64_t phase)
{
    const struct team_nodes *nodes = team->nodes;
    const size_t per_line = 64 / what->element, owners = (size_t)nodes->least;
    size_t lines = (n + per_line - 1) / per_line, me = (size_t)nodes->local_me;
    struct part part = {.team = team, .what = what, .owner = nodes->local_me};
    part.begin = lines * me / owners * 64;
    part.end = lines * (me + 1) / owners * 64;
    part.end = part.end < n * what->element ? part.end : n * what->element;
    bool owns = me < owners;
    part.room = owns ? malloc(2 * (size_t)PIECE_BYTES) : NULL;
    if (owns && !part.room)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory to reduce over nodes");
    weft_status status = notify_neighbours(team, phase);
    if (owns && !status)
        status = await_neighbours(team, phase, BOX_OP_REDUCE);
    if (owns && !status)
        status = combine_part(&part, phase);
    if (owns && !status)
        status = spread_part(&part, phase);
    free(part.room);
    for (int k = 0; k < nodes->least && !status; k++)
        if (k != nodes->local_me)
            status = coll_await(team, member_at(nodes, nodes->mine, k), phase + 3, BOX_OP_REDUCE);
    return status;
}
