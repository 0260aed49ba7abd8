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
    PIECE_LEAST = 512 * 1024, /* large ones cross nodes in pieces of this size or more */
    PIECE_MOST = 2048 * 1024,
    PIECES = 8, /* more only where they would be too large: each costs a way there and back */
};

/* Large broadcasts and reductions go in pieces, so that one piece travels between nodes while another is
 * copied or combined within them. Each piece has a phase of its own; how many there are follows from the
 * arguments alone, so that the members agree. */
struct pieces {
    uint64_t count;
    size_t size;  /* of each but the last */
    size_t bytes; /* of all */
};

static struct pieces cut(size_t bytes)
{
    size_t size = bytes <= PIECE_LEAST ? bytes : bytes / PIECES;
    if (bytes > PIECE_LEAST && size < PIECE_LEAST)
        size = PIECE_LEAST;
    if (size > PIECE_MOST)
        size = PIECE_MOST;
    size = size ? (size + 63) / 64 * 64 : 64;
    return (struct pieces){bytes ? (bytes + size - 1) / size : 1, size, bytes};
}

static size_t piece_offset(const struct pieces *pieces, uint64_t piece)
{
    return (size_t)piece * pieces->size;
}

static size_t piece_bytes(const struct pieces *pieces, uint64_t piece)
{
    size_t offset = piece_offset(pieces, piece);
    size_t left = offset < pieces->bytes ? pieces->bytes - offset : 0;
    return left < pieces->size ? left : pieces->size;
}

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

/* Large: from node to node, in the order that begins with the root's, so that no link carries more than
 * the data once. */
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
        status = coll_put(team, next, to, source, bytes);
    if (!status && next >= 0)
        status = coll_notify(team, next, flow->phase + piece);
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
 * combined in the order of the team; from the last node the result goes back the same way. A large part does so in
 * pieces: a node works on one while the node before it works on the next. */
struct part {
    struct weft_team *team;
    const struct coll_nodes_reduction *what;
    int owner;            /* place in the node */
    size_t begin;         /* bytes */
    struct pieces pieces; /* count: as many as the largest part has */
    uint64_t phase;       /* of the first piece */
    uint64_t asked;       /* pieces that are on their way from the node before */
    uint64_t spread;      /* pieces whose result is with all of this node */
    char *room;           /* for three pieces: two results so far by turns, and what is added */
};

static struct place part_place(const struct part *part, struct place of, uint64_t piece)
{
    return (struct place){of.segment, of.offset + part->begin + piece_offset(&part->pieces, piece)};
}

static weft_status fetch_source(const struct part *part, int member, uint64_t piece, void *room,
                                const void **source)
{
    struct weft_team *team = part->team;
    struct place at = part_place(part, part->what->from, piece);
    *source = coll_address(team, member, at);
    if (*source)
        return WEFT_OK;
    *source = room;
    return weft_get(team->job->system_ctx, room, own(team, at), piece_bytes(&part->pieces, piece),
                    team->pes[member]);
}

/* Asks for what the nodes before this one have come to, which lies in the destination of the owner there:
 * here it may not go into ours before our own source has been combined, for both may be the same. */
static weft_status ask_before(struct part *part, uint64_t piece)
{
    struct weft_team *team = part->team;
    int before = member_at(team->nodes, team->nodes->mine - 1, part->owner);
    size_t bytes = piece_bytes(&part->pieces, piece);
    part->asked = piece + 1;
    if (!bytes)
        return WEFT_OK;
    return weft_get_nbi(team->job->system_ctx, part->room + (piece & 1) * part->pieces.size,
                        own(team, part_place(part, part->what->to, piece)), bytes,
                        team->pes[before]);
}

static bool has_notified(struct weft_team *team, int member, uint64_t phase)
{
    /* Acquire: pairs with the release in coll_notify(), or what stands for it on other paths. */
    return atomic_load_explicit(&team->mailboxes[member].flag, memory_order_acquire) >= phase;
}

/* What comes from the node before is in the room; the next piece, if it is ready there, on its way. */
static weft_status take_before(struct part *part, uint64_t piece)
{
    struct weft_team *team = part->team;
    int before = member_at(team->nodes, team->nodes->mine - 1, part->owner);
    weft_status status = WEFT_OK;
    if (part->asked == piece)
        status = coll_await(team, before, part->phase + piece, BOX_OP_REDUCE);
    if (!status && part->asked == piece)
        status = ask_before(part, piece);
    if (!status)
        status = weft_quiet(team->job->system_ctx);
    if (!status && piece + 1 < part->pieces.count &&
        has_notified(team, before, part->phase + piece + 1))
        status = ask_before(part, piece + 1);
    return status;
}

static weft_status combine_piece(struct part *part, uint64_t piece)
{
    struct weft_team *team = part->team;
    const struct team_nodes *nodes = team->nodes;
    size_t bytes = piece_bytes(&part->pieces, piece);
    char *acc = part->room + (piece & 1) * part->pieces.size,
         *room = part->room + 2 * part->pieces.size;
    const void *source;
    int first = nodes->mine > 0 ? 0 : 1;
    weft_status status = nodes->mine > 0 ? take_before(part, piece) : WEFT_OK;
    if (!status && bytes && nodes->mine == 0) {
        status = fetch_source(part, member_at(nodes, 0, 0), piece, room, &source);
        if (!status)
            memcpy(acc, source, bytes);
    }
    for (int k = first; bytes && k < local_count(nodes, nodes->mine) && !status; k++) {
        status = fetch_source(part, member_at(nodes, nodes->mine, k), piece, room, &source);
        if (!status)
            part->what->combine(acc, source, bytes / part->what->element);
    }
    if (!status && bytes)
        memcpy(own(team, part_place(part, part->what->to, piece)), acc, bytes);
    return status;
}

/* The result of a piece is in the owner's destination: it goes on to the node before, and to all of this
 * node. */
static weft_status hand_back(struct part *part)
{
    struct weft_team *team = part->team;
    const struct team_nodes *nodes = team->nodes;
    struct place to = part_place(part, part->what->to, part->spread);
    size_t bytes = piece_bytes(&part->pieces, part->spread);
    uint64_t phase = part->phase + part->spread++;
    weft_status status = WEFT_OK;
    if (nodes->mine > 0) {
        int before = member_at(nodes, nodes->mine - 1, part->owner);
        if (bytes)
            status = coll_put(team, before, to, own(team, to), bytes);
        if (!status)
            status = coll_notify(team, before, phase);
    }
    return status ? status : put_to_neighbours(team, to, own(team, to), bytes);
}

/* Results that have come back from the next node; wait: for all of them. */
static weft_status take_back(struct part *part, bool wait)
{
    struct weft_team *team = part->team;
    int from = member_at(team->nodes, team->nodes->mine + 1, part->owner);
    weft_status status = WEFT_OK;
    while (part->spread < part->pieces.count && !status) {
        uint64_t phase = part->phase + part->spread;
        if (!wait && !has_notified(team, from, phase))
            return WEFT_OK;
        status = coll_await(team, from, phase, BOX_OP_REDUCE);
        if (!status)
            status = hand_back(part);
    }
    return status;
}

static weft_status reduce_part(struct part *part)
{
    struct weft_team *team = part->team;
    const struct team_nodes *nodes = team->nodes;
    bool last = nodes->mine + 1 == nodes->n;
    weft_status status = WEFT_OK;
    for (uint64_t piece = 0; piece < part->pieces.count && !status; piece++) {
        status = combine_piece(part, piece);
        if (!status && last)
            status = hand_back(part);
        if (!status && !last)
            status = coll_notify(team, member_at(nodes, nodes->mine + 1, part->owner),
                                 part->phase + piece);
        if (!status && !last)
            status = take_back(part, false);
    }
    if (!status && !last)
        status = take_back(part, true);
    return status ? status : notify_neighbours(team, part->phase + part->pieces.count);
}

/* Phases: the sources of a node are ready; for each piece, the node before has combined it, or its result has
 * come from the next node; the owner's part is in all destinations of the node. */
weft_status coll_nodes_reduce(struct weft_team *team, const struct coll_nodes_reduction *what,
                              size_t n, uint64_t phase)
{
    const struct team_nodes *nodes = team->nodes;
    const size_t per_line = 64 / what->element, owners = (size_t)nodes->least;
    size_t lines = (n + per_line - 1) / per_line, me = (size_t)nodes->local_me;
    struct part part = {.team = team, .what = what, .owner = nodes->local_me, .phase = phase + 1};
    part.begin = lines * me / owners * 64;
    size_t end = lines * (me + 1) / owners * 64;
    end = end < n * what->element ? end : n * what->element;
    part.pieces = cut((lines + owners - 1) / owners * 64);
    team->sequence += part.pieces.count;
    part.pieces.bytes = end - part.begin;
    bool owns = me < owners;
    part.room = owns ? malloc(3 * part.pieces.size) : NULL;
    if (owns && !part.room)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory to reduce over nodes");
    weft_status status = notify_neighbours(team, phase);
    if (owns && !status)
        status = await_neighbours(team, phase, BOX_OP_REDUCE);
    if (owns && !status)
        status = reduce_part(&part);
    if (!status) /* else what was asked for may still come */
        free(part.room);
    for (int k = 0; k < nodes->least && !status; k++)
        if (k != nodes->local_me)
            status = coll_await(team, member_at(nodes, nodes->mine, k),
                                part.phase + part.pieces.count, BOX_OP_REDUCE);
    return status;
}
