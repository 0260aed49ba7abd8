/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of blocks by node: fcollect and collect, where each block goes to one member of each
 * other node and is handed on there, and alltoall, where small blocks of a node's members go
 * together to the member that they are for. */
#include "ops/coll/nodes.h"

/* ------------------------------------------------------------------------- fcollect and collect */

/* Blocks go in pieces, so that what has come is handed on while more comes. */
struct collection {
    struct weft_team *team;
    enum box_operation operation;
    struct place to;
    const size_t *at, *bytes; /* of the members' blocks */
    struct pieces pieces;     /* of the largest block */
    uint64_t phase;           /* of the first piece */
    struct {
        uint64_t piece;
        int k, place; /* k-th node before this one, place there */
    } next;           /* to be handed on */
};

static struct pieces pieces_of(const struct collection *c, int member)
{
    struct pieces pieces = c->pieces;
    pieces.bytes = c->bytes[member];
    return pieces;
}

static bool has_piece(const struct collection *c, int member, uint64_t piece)
{
    return piece == 0 || piece_offset(&c->pieces, piece) < c->bytes[member];
}

static struct place place_of_piece(const struct collection *c, int member, uint64_t piece)
{
    return (struct place){c->to.segment,
                          c->to.offset + c->at[member] + piece_offset(&c->pieces, piece)};
}

static weft_status send_piece(const struct collection *c, const char *src, uint64_t piece, bool nbi)
{
    struct weft_team *team = c->team;
    const struct team_nodes *nodes = team->nodes;
    struct pieces pieces = pieces_of(c, team->me);
    struct place to = place_of_piece(c, team->me, piece);
    size_t bytes = piece_bytes(&pieces, piece);
    const char *from = bytes ? src + piece_offset(&pieces, piece) : src;
    weft_status status = WEFT_OK;
    for (int k = 1; k < nodes->n && !status; k++) {
        int receiver = counterpart(nodes, (nodes->mine + k) % nodes->n, nodes->local_me);
        status = coll_put_notify(team, receiver, to, from, bytes, c->phase + piece, nbi);
    }
    if (!status)
        status = put_to_neighbours(team, to, from, bytes);
    if (bytes && own(team, to) != from)
        memmove(own(team, to), from, bytes);
    return status;
}

/* Pieces that have come from other nodes, in order, as far as they are here; wait: all of them. */
static weft_status hand_on_pieces(struct collection *c, bool wait)
{
    struct weft_team *team = c->team;
    const struct team_nodes *nodes = team->nodes;
    weft_status status = WEFT_OK;
    for (; c->next.piece < c->pieces.count; c->next.piece++, c->next.k = 1) {
        for (; c->next.k < nodes->n; c->next.k++, c->next.place = nodes->local_me) {
            int node = (nodes->mine - c->next.k + nodes->n) % nodes->n;
            for (; c->next.place < local_count(nodes, node);
                 c->next.place += local_count(nodes, nodes->mine)) {
                int from = member_at(nodes, node, c->next.place);
                uint64_t piece = c->next.piece, phase = c->phase + piece;
                if (!has_piece(c, from, piece))
                    continue;
                if (!wait && !has_notified(team, from, phase))
                    return WEFT_OK;
                struct place to = place_of_piece(c, from, piece);
                struct pieces pieces = pieces_of(c, from);
                status = coll_await(team, from, phase, c->operation);
                if (!status)
                    status =
                        put_to_neighbours(team, to, own(team, to), piece_bytes(&pieces, piece));
                if (status)
                    return status;
            }
        }
    }
    return WEFT_OK;
}

/* Phases: a piece has come from another node; for neighbours, all of this PE's block and of those
 * that it hands on are there. */
weft_status coll_nodes_collect(struct weft_team *team, enum box_operation operation,
                               struct place to, const void *src, const size_t *at,
                               const size_t *bytes, uint64_t phase)
{
    size_t most = 0;
    for (int i = 0; i < team->n; i++)
        most = bytes[i] > most ? bytes[i] : most;
    struct collection c = {team, operation, to, at, bytes, cut(most), phase, {0, 1, 0}};
    c.next.place = team->nodes->local_me;
    team->sequence += c.pieces.count;
    bool nbi = bytes[team->me] >= COLL_NBI_LEAST;
    weft_status status = WEFT_OK;
    for (uint64_t piece = 0; has_piece(&c, team->me, piece) && !status; piece++) {
        status = send_piece(&c, src, piece, nbi);
        if (!status)
            status = hand_on_pieces(&c, false);
    }
    if (!status)
        status = hand_on_pieces(&c, true);
    if (!status)
        status = notify_neighbours(team, phase + c.pieces.count);
    if (!status)
        status = await_neighbours(team, phase + c.pieces.count, operation);
    return status || !nbi ? status : weft_quiet(team->job->system_ctx);
}

/* --------------------------------------------------------------------- alltoall and alltoalls */

enum {
    GATHER_MOST = 4 * 1024, /* blocks up to this cross nodes together */
    ROOM_BYTES = 32 * 1024, /* so much of them at a time */
};

static bool packed(const struct coll_nodes_blocks *what)
{
    return what->n == 1 || (what->dst_stride == 1 && what->src_stride == 1);
}

static size_t block_bytes(const struct coll_nodes_blocks *what)
{
    return what->element * what->n;
}

/* Where the block of a member begins at its receivers, and the block for a member at its
 * senders. */
static struct place block_to(const struct coll_nodes_blocks *what, int from)
{
    return (struct place){what->to.segment,
                          what->to.offset + (size_t)from * block_bytes(what) * what->dst_stride};
}

static struct place block_from(const struct coll_nodes_blocks *what, int to)
{
    return (struct place){what->from.segment,
                          what->from.offset + (size_t)to * block_bytes(what) * what->src_stride};
}

/* This PE's block for a member, from its source into its destination. */
static weft_status put_block(struct weft_team *team, const struct coll_nodes_blocks *what,
                             int member)
{
    struct place to = block_to(what, team->me), from = block_from(what, member);
    if (packed(what) && member != team->me)
        return coll_put(team, member, to, own(team, from), block_bytes(what));
    if (packed(what)) {
        memmove(own(team, to), own(team, from), block_bytes(what));
        return WEFT_OK;
    }
    return weft_iput(team->job->system_ctx, own(team, to), own(team, from),
                     (ptrdiff_t)what->dst_stride, (ptrdiff_t)what->src_stride, what->element,
                     what->n, team->pes[member]);
}

/* What a member of this node has for `target`, its elements one behind the other. */
static weft_status gather_block(struct weft_team *team, const struct coll_nodes_blocks *what,
                                int member, int target, char *room)
{
    struct place from = block_from(what, target);
    const char *at = member == team->me ? own(team, from) : coll_address(team, member, from);
    if (!at)
        return weft_iget(team->job->system_ctx, room, own(team, from), 1,
                         (ptrdiff_t)what->src_stride, what->element, what->n, team->pes[member]);
    if (packed(what)) {
        memcpy(room, at, block_bytes(what));
        return WEFT_OK;
    }
    for (size_t i = 0; i < what->n; i++)
        memcpy(room + i * what->element, at + i * what->src_stride * what->element, what->element);
    return WEFT_OK;
}

/* How many members of this node from place `first` on have blocks that one strided put can carry,
 * and how far apart in the team they are. */
static int run_of(const struct team_nodes *nodes, const struct coll_nodes_blocks *what, int first,
                  int *step)
{
    int count = local_count(nodes, nodes->mine), k = first + 1;
    size_t most = ROOM_BYTES / block_bytes(what);
    *step = 1;
    if (k < count && what->n == 1)
        *step = member_at(nodes, nodes->mine, k) - member_at(nodes, nodes->mine, first);
    while (k < count && (size_t)(k - first) < most &&
           member_at(nodes, nodes->mine, k) - member_at(nodes, nodes->mine, k - 1) == *step)
        k++;
    return k - first;
}

/* What all members of this node have for `target`, and `phase` behind it. */
static weft_status send_column(struct weft_team *team, const struct coll_nodes_blocks *what,
                               int target, uint64_t phase)
{
    const struct team_nodes *nodes = team->nodes;
    int count = local_count(nodes, nodes->mine), step, run;
    char room[ROOM_BYTES];
    weft_status status = WEFT_OK;
    for (int first = 0; first < count && !status; first += run) {
        run = run_of(nodes, what, first, &step);
        for (int k = 0; k < run && !status; k++)
            status = gather_block(team, what, member_at(nodes, nodes->mine, first + k), target,
                                  room + (size_t)k * block_bytes(what));
        if (status)
            return status;
        struct place to = block_to(what, member_at(nodes, nodes->mine, first));
        size_t elements = (size_t)run * what->n, stride = what->dst_stride * (size_t)step;
        if (elements > 1 && stride > 1)
            status = weft_iput(team->job->system_ctx, own(team, to), room, (ptrdiff_t)stride, 1,
                               what->element, elements, team->pes[target]);
        else if (first + run < count)
            status = coll_put(team, target, to, room, elements * what->element);
        else
            return coll_put_notify(team, target, to, room, elements * what->element, phase, false);
    }
    return status ? status : coll_notify(team, target, phase);
}

/* Phases: the sources of a node are ready; blocks are in their destinations, and sources have been
 * read. Each member cares for one in so many targets of another node. */
static weft_status alltoall_gathered(struct weft_team *team, enum box_operation operation,
                                     const struct coll_nodes_blocks *what, uint64_t phase)
{
    const struct team_nodes *nodes = team->nodes;
    int count = local_count(nodes, nodes->mine);
    weft_status status = notify_neighbours(team, phase);
    if (!status)
        status = await_neighbours(team, phase, operation);
    for (int k = 1; k < nodes->n; k++) {
        int node = (nodes->mine + k) % nodes->n;
        for (int place = nodes->local_me; place < local_count(nodes, node) && !status;
             place += count)
            status = send_column(team, what, member_at(nodes, node, place), phase + 1);
    }
    for (int k = 0; k < count && !status; k++)
        status = put_block(team, what, k ? neighbour(nodes, k) : team->me);
    if (!status)
        status = notify_neighbours(team, phase + 1);
    if (!status)
        status = await_neighbours(team, phase + 1, operation);
    for (int k = 1; k < nodes->n && !status; k++) {
        int node = (nodes->mine - k + nodes->n) % nodes->n;
        status = coll_await(team, counterpart(nodes, node, nodes->local_me), phase + 1, operation);
    }
    return status;
}

static weft_status send_block(struct weft_team *team, const struct coll_nodes_blocks *what,
                              int target, uint64_t phase, bool nbi)
{
    if (packed(what))
        return coll_put_notify(team, target, block_to(what, team->me),
                               own(team, block_from(what, target)), block_bytes(what), phase, nbi);
    weft_status status = put_block(team, what, target);
    return status ? status : coll_notify(team, target, phase);
}

/* Large blocks: each straight into its destination; those for other nodes travel while those of
 * this node are copied. */
static weft_status alltoall_direct(struct weft_team *team, enum box_operation operation,
                                   const struct coll_nodes_blocks *what, uint64_t phase)
{
    const struct team_nodes *nodes = team->nodes;
    bool nbi = packed(what) && block_bytes(what) >= COLL_NBI_LEAST;
    weft_status status = WEFT_OK;
    for (int k = 1; k < nodes->n; k++) {
        int node = (nodes->mine + k) % nodes->n, count = local_count(nodes, node);
        for (int j = 0; j < count && !status; j++) {
            int target = member_at(nodes, node, (nodes->local_me + j) % count);
            status = send_block(team, what, target, phase, nbi);
        }
    }
    for (int k = 0; k < local_count(nodes, nodes->mine) && !status; k++)
        status = put_block(team, what, k ? neighbour(nodes, k) : team->me);
    if (!status)
        status = notify_neighbours(team, phase);
    for (int k = 1; k < team->n && !status; k++)
        status = coll_await(team, (team->me + k) % team->n, phase, operation);
    return status || !nbi ? status : weft_quiet(team->job->system_ctx);
}

weft_status coll_nodes_alltoall(struct weft_team *team, enum box_operation operation,
                                const struct coll_nodes_blocks *what, uint64_t phase)
{
    if (block_bytes(what) <= GATHER_MOST)
        return alltoall_gathered(team, operation, what, phase);
    return alltoall_direct(team, operation, what, phase);
}
