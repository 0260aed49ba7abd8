/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of many bytes by node: from node to node in the order of the team, each going on with
 * what the last has come to, so that their bits are those of one node. */
#include "ops/coll/nodes.h"

#include <stdlib.h>

/* One part of the vector, the same at every node, whose place `owner` in each node works on it: the
 * first node combines its members' elements, the next one goes on with that result, and so on, so
 * that they are combined in the order of the team; from the last node the result goes back the same
 * way. A large part does so in pieces: a node works on one while the node before it works on the
 * next. */
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

/* Asks for what the nodes before this one have come to, which lies in the destination of the owner
 * there: here it may not go into ours before our own source has been combined, for both may be the
 * same. */
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

/* What comes from the node before is in the room; the next piece, if it is ready there, on its
 * way. */
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

static weft_status combine_in_node(struct part *part, uint64_t piece)
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
            part->what->c->combine(acc, source, bytes / part->what->c->element);
    }
    if (!status && bytes && nodes->mine + 1 == nodes->n)
        reduce_end(part->what->c, acc, bytes / part->what->c->element, team->n);
    if (!status && bytes)
        memcpy(own(team, part_place(part, part->what->to, piece)), acc, bytes);
    return status;
}

/* The result of a piece is in the owner's destination: it goes on to the node before, and to all of
 * this node. */
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
        status = coll_put_notify(team, before, to, own(team, to), bytes, phase, false);
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
        status = combine_in_node(part, piece);
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

/* Phases: the sources of a node are ready; for each piece, the node before has combined it, or its
 * result has come from the next node; the owner's part is in all destinations of the node. */
weft_status coll_nodes_reduce(struct weft_team *team, const struct coll_nodes_reduction *what,
                              size_t n, uint64_t phase)
{
    const struct team_nodes *nodes = team->nodes;
    const size_t per_line = 64 / what->c->element, owners = (size_t)nodes->least;
    size_t lines = (n + per_line - 1) / per_line, me = (size_t)nodes->local_me;
    struct part part = {.team = team, .what = what, .owner = nodes->local_me, .phase = phase + 1};
    part.begin = lines * me / owners * 64;
    size_t end = lines * (me + 1) / owners * 64;
    end = end < n * what->c->element ? end : n * what->c->element;
    part.pieces = cut((lines + owners - 1) / owners * 64);
    team->sequence += part.pieces.count;
    part.pieces.bytes = end - part.begin;
    bool owns = me < owners;
    part.room = owns ? malloc(3 * part.pieces.size) : NULL;
    if (owns && !part.room)
        return job_fail_all(team->job, WEFT_ERR_NO_MEMORY,
                            "no private memory to reduce over nodes");
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
