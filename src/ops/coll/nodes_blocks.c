/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of blocks by node. allgather and collect: each block goes to one member of each other
 * node, which forwards it within its node. alltoall: small blocks of the members of a node go to
 * their target together. */
#include "ops/coll/nodes.h"

/* ------------------------------------------------------------------------- allgather and collect
 */

/* State of a collect: blocks go in chunks, and each PE forwards received chunks while more
 * arrive. */
struct collect_state {
    struct weft_team *team;
    enum box_operation operation;
    struct symmetric_range to;
    const size_t *at, *bytes; /* offset and size of each member's block, in bytes */
    struct chunks chunks;     /* chunks of the largest block */
    uint64_t phase;           /* phase of the first chunk */
    struct {
        uint64_t chunk;
        int k, rank; /* k-th node before this one, and a local rank there */
    } next;          /* the next chunk to forward */
};

static struct chunks chunks_of(const struct collect_state *c, int member)
{
    struct chunks chunks = c->chunks;
    chunks.bytes = c->bytes[member];
    return chunks;
}

static bool has_chunk(const struct collect_state *c, int member, uint64_t chunk)
{
    return chunk == 0 || chunk_offset(&c->chunks, chunk) < c->bytes[member];
}

static struct symmetric_range range_of_chunk(const struct collect_state *c, int member,
                                             uint64_t chunk)
{
    return (struct symmetric_range){c->to.segment,
                                    c->to.offset + c->at[member] + chunk_offset(&c->chunks, chunk)};
}

static weft_status send_chunk(const struct collect_state *c, const char *src, uint64_t chunk,
                              bool nbi)
{
    struct weft_team *team = c->team;
    const struct team_nodes *nodes = team->nodes;
    struct chunks chunks = chunks_of(c, team->me);
    struct symmetric_range to = range_of_chunk(c, team->me, chunk);
    size_t bytes = chunk_bytes(&chunks, chunk);
    const char *from = bytes ? src + chunk_offset(&chunks, chunk) : src;
    weft_status status = WEFT_OK;
    for (int k = 1; k < nodes->n && !status; k++) {
        int receiver = counterpart(nodes, (nodes->mine + k) % nodes->n, nodes->local_me);
        status = coll_put_notify(team, receiver, to, from, bytes, c->phase + chunk, nbi);
    }
    if (!status)
        status = put_to_neighbours(team, to, from, bytes);
    if (bytes && own_address(team, to) != from)
        memmove(own_address(team, to), from, bytes);
    return status;
}

/* Forwards chunks from other nodes in order, as far as they have arrived. wait: waits for all of
 * them. */
static weft_status forward_chunks(struct collect_state *c, bool wait)
{
    struct weft_team *team = c->team;
    const struct team_nodes *nodes = team->nodes;
    weft_status status = WEFT_OK;
    for (; c->next.chunk < c->chunks.count; c->next.chunk++, c->next.k = 1) {
        for (; c->next.k < nodes->n; c->next.k++, c->next.rank = nodes->local_me) {
            int node = (nodes->mine - c->next.k + nodes->n) % nodes->n;
            for (; c->next.rank < local_count(nodes, node);
                 c->next.rank += local_count(nodes, nodes->mine)) {
                int from = member_at(nodes, node, c->next.rank);
                uint64_t chunk = c->next.chunk, phase = c->phase + chunk;
                if (!has_chunk(c, from, chunk))
                    continue;
                if (!wait && !has_notified(team, from, phase))
                    return WEFT_OK;
                struct symmetric_range to = range_of_chunk(c, from, chunk);
                struct chunks chunks = chunks_of(c, from);
                status = coll_await(team, from, phase, c->operation);
                if (!status)
                    status = put_to_neighbours(team, to, own_address(team, to),
                                               chunk_bytes(&chunks, chunk));
                if (status)
                    return status;
            }
        }
    }
    return WEFT_OK;
}

/* Phases: phase + chunk: that chunk arrived from another node. Last phase, between neighbours: the
 * sender's own block and the blocks that it forwards are complete. */
weft_status coll_nodes_collect(struct weft_team *team, enum box_operation operation,
                               struct symmetric_range to, const void *src, const size_t *at,
                               const size_t *bytes, uint64_t phase)
{
    size_t most = 0;
    for (int i = 0; i < team->n; i++)
        most = bytes[i] > most ? bytes[i] : most;
    struct collect_state c = {team, operation, to, at, bytes, split_chunks(most), phase, {0, 1, 0}};
    c.next.rank = team->nodes->local_me;
    team->sequence += c.chunks.count;
    bool nbi = bytes[team->me] >= COLL_NBI_LEAST;
    weft_status status = WEFT_OK;
    for (uint64_t chunk = 0; has_chunk(&c, team->me, chunk) && !status; chunk++) {
        status = send_chunk(&c, src, chunk, nbi);
        if (!status)
            status = forward_chunks(&c, false);
    }
    if (!status)
        status = forward_chunks(&c, true);
    if (!status)
        status = notify_neighbours(team, phase + c.chunks.count);
    if (!status)
        status = await_neighbours(team, phase + c.chunks.count, operation);
    return status || !nbi ? status : weft_quiet(team->job->system_ctx);
}

/* --------------------------------------------------------------------- alltoall and alltoalls */

enum {
    GATHER_MOST_BYTES = 4 * 1024, /* blocks of up to this many bytes cross nodes together */
    BUFFER_BYTES = 32 * 1024,     /* bytes of such blocks sent at a time */
};

static bool is_contiguous(const struct coll_nodes_blocks *what)
{
    return what->n == 1 || (what->dst_stride == 1 && what->src_stride == 1);
}

static size_t block_bytes(const struct coll_nodes_blocks *what)
{
    return what->element * what->n;
}

/* Start of a member's block in the destination of its receivers, and of the block for a member in
 * the source of its senders. */
static struct symmetric_range block_to(const struct coll_nodes_blocks *what, int from)
{
    return (struct symmetric_range){
        what->to.segment, what->to.offset + (size_t)from * block_bytes(what) * what->dst_stride};
}

static struct symmetric_range block_from(const struct coll_nodes_blocks *what, int to)
{
    return (struct symmetric_range){
        what->from.segment, what->from.offset + (size_t)to * block_bytes(what) * what->src_stride};
}

/* Puts this PE's block for a member from its source into the member's destination. */
static weft_status put_block(struct weft_team *team, const struct coll_nodes_blocks *what,
                             int member)
{
    struct symmetric_range to = block_to(what, team->me), from = block_from(what, member);
    if (is_contiguous(what) && member != team->me)
        return coll_put(team, member, to, own_address(team, from), block_bytes(what));
    if (is_contiguous(what)) {
        memmove(own_address(team, to), own_address(team, from), block_bytes(what));
        return WEFT_OK;
    }
    return weft_iput(team->job->system_ctx, own_address(team, to), own_address(team, from),
                     (ptrdiff_t)what->dst_stride, (ptrdiff_t)what->src_stride, what->element,
                     what->n, team->pes[member]);
}

/* Copies the block that a member of this node has for `target` into `buffer`, without gaps. */
static weft_status gather_block(struct weft_team *team, const struct coll_nodes_blocks *what,
                                int member, int target, char *buffer)
{
    struct symmetric_range from = block_from(what, target);
    const char *at =
        member == team->me ? own_address(team, from) : coll_address(team, member, from);
    if (!at)
        return weft_iget(team->job->system_ctx, buffer, own_address(team, from), 1,
                         (ptrdiff_t)what->src_stride, what->element, what->n, team->pes[member]);
    if (is_contiguous(what)) {
        memcpy(buffer, at, block_bytes(what));
        return WEFT_OK;
    }
    for (size_t i = 0; i < what->n; i++)
        memcpy(buffer + i * what->element, at + i * what->src_stride * what->element,
               what->element);
    return WEFT_OK;
}

/* Number of members of this node, from local rank `first` on, whose blocks one strided put can
 * carry. *step: the distance of these members in the team. */
static int count_run(const struct team_nodes *nodes, const struct coll_nodes_blocks *what,
                     int first, int *step)
{
    int count = local_count(nodes, nodes->mine), k = first + 1;
    size_t most = BUFFER_BYTES / block_bytes(what);
    *step = 1;
    if (k < count && what->n == 1)
        *step = member_at(nodes, nodes->mine, k) - member_at(nodes, nodes->mine, first);
    while (k < count && (size_t)(k - first) < most &&
           member_at(nodes, nodes->mine, k) - member_at(nodes, nodes->mine, k - 1) == *step)
        k++;
    return k - first;
}

/* Sends the blocks of all members of this node to `target`, then `phase`. */
static weft_status send_column(struct weft_team *team, const struct coll_nodes_blocks *what,
                               int target, uint64_t phase)
{
    const struct team_nodes *nodes = team->nodes;
    int count = local_count(nodes, nodes->mine), step, run;
    char buffer[BUFFER_BYTES];
    weft_status status = WEFT_OK;
    for (int first = 0; first < count && !status; first += run) {
        run = count_run(nodes, what, first, &step);
        for (int k = 0; k < run && !status; k++)
            status = gather_block(team, what, member_at(nodes, nodes->mine, first + k), target,
                                  buffer + (size_t)k * block_bytes(what));
        if (status)
            return status;
        struct symmetric_range to = block_to(what, member_at(nodes, nodes->mine, first));
        size_t elements = (size_t)run * what->n, stride = what->dst_stride * (size_t)step;
        if (elements > 1 && stride > 1)
            status = weft_iput(team->job->system_ctx, own_address(team, to), buffer,
                               (ptrdiff_t)stride, 1, what->element, elements, team->pes[target]);
        else if (first + run < count)
            status = coll_put(team, target, to, buffer, elements * what->element);
        else
            return coll_put_notify(team, target, to, buffer, elements * what->element, phase,
                                   false);
    }
    return status ? status : coll_notify(team, target, phase);
}

/* Phases: phase: the sources of a node are ready. phase + 1: blocks are in their destinations and
 * sources have been read. The members of a node share the targets in each other node. */
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
        for (int rank = nodes->local_me; rank < local_count(nodes, node) && !status; rank += count)
            status = send_column(team, what, member_at(nodes, node, rank), phase + 1);
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
    if (is_contiguous(what))
        return coll_put_notify(team, target, block_to(what, team->me),
                               own_address(team, block_from(what, target)), block_bytes(what),
                               phase, nbi);
    weft_status status = put_block(team, what, target);
    return status ? status : coll_notify(team, target, phase);
}

/* Large blocks: each member puts its blocks into their destinations; blocks to other nodes travel
 * while those of this node are copied. */
static weft_status alltoall_direct(struct weft_team *team, enum box_operation operation,
                                   const struct coll_nodes_blocks *what, uint64_t phase)
{
    const struct team_nodes *nodes = team->nodes;
    bool nbi = is_contiguous(what) && block_bytes(what) >= COLL_NBI_LEAST;
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
    if (block_bytes(what) <= GATHER_MOST_BYTES)
        return alltoall_gathered(team, operation, what, phase);
    return alltoall_direct(team, operation, what, phase);
}
