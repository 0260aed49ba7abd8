/* SPDX-License-Identifier: Apache-2.0 */
/* Large reductions by node. Each node combines its elements with the result of the node before it,
 * in the order of the team, so the result has the same bits as on one node. */
#include "ops/coll/nodes.h"

#include <stdlib.h>

/* One slice of the vector. At every node the member with local rank `owner` works on it. The first
 * node combines its members' elements, the next node combines its own with that result, and so on
 * in the order of the team. From the last node the result returns the same way. A large slice is
 * pipelined in chunks: a node works on one chunk while the node before it works on the next. */
struct slice {
    struct weft_team *team;
    const struct coll_nodes_reduction *what;
    int owner;            /* local rank */
    size_t begin;         /* first byte of the slice */
    struct chunks chunks; /* count: that of the largest slice */
    uint64_t phase;       /* phase of the first chunk */
    uint64_t requested;   /* chunks requested from the node before */
    uint64_t distributed; /* chunks whose result is at all members of this node */
    char *buffer; /* three chunks: two partial results, used in turn, and the elements to add */
};

static struct symmetric_range range_in_slice(const struct slice *slice, struct symmetric_range of,
                                             uint64_t chunk)
{
    return (struct symmetric_range){of.segment,
                                    of.offset + slice->begin + chunk_offset(&slice->chunks, chunk)};
}

static weft_status fetch_source(const struct slice *slice, int member, uint64_t chunk, void *buffer,
                                const void **source)
{
    struct weft_team *team = slice->team;
    struct symmetric_range at = range_in_slice(slice, slice->what->from, chunk);
    *source = coll_address(team, member, at);
    if (*source)
        return WEFT_OK;
    *source = buffer;
    return weft_get(team->job->system_ctx, buffer, own_address(team, at),
                    chunk_bytes(&slice->chunks, chunk), team->pes[member]);
}

/* Starts the get of the previous nodes' partial result, which is in the destination of the owner
 * there. It may not go into this PE's destination before this PE's source has been combined,
 * because both may be the same memory. */
static weft_status request_previous(struct slice *slice, uint64_t chunk)
{
    struct weft_team *team = slice->team;
    int before = member_at(team->nodes, team->nodes->mine - 1, slice->owner);
    size_t bytes = chunk_bytes(&slice->chunks, chunk);
    slice->requested = chunk + 1;
    if (!bytes)
        return WEFT_OK;
    return weft_get_nbi(team->job->system_ctx, slice->buffer + (chunk & 1) * slice->chunks.size,
                        own_address(team, range_in_slice(slice, slice->what->to, chunk)), bytes,
                        team->pes[before]);
}

/* Completes the get of a chunk's partial result, and starts the get of the next chunk if it is
 * ready. */
static weft_status receive_previous(struct slice *slice, uint64_t chunk)
{
    struct weft_team *team = slice->team;
    int before = member_at(team->nodes, team->nodes->mine - 1, slice->owner);
    weft_status status = WEFT_OK;
    if (slice->requested == chunk)
        status = coll_await(team, before, slice->phase + chunk, BOX_OP_ALLREDUCE);
    if (!status && slice->requested == chunk)
        status = request_previous(slice, chunk);
    if (!status)
        status = weft_quiet(team->job->system_ctx);
    if (!status && chunk + 1 < slice->chunks.count &&
        has_notified(team, before, slice->phase + chunk + 1))
        status = request_previous(slice, chunk + 1);
    return status;
}

static weft_status combine_in_node(struct slice *slice, uint64_t chunk)
{
    struct weft_team *team = slice->team;
    const struct team_nodes *nodes = team->nodes;
    size_t bytes = chunk_bytes(&slice->chunks, chunk);
    char *acc = slice->buffer + (chunk & 1) * slice->chunks.size,
         *buffer = slice->buffer + 2 * slice->chunks.size;
    const void *source;
    int first = nodes->mine > 0 ? 0 : 1;
    weft_status status = nodes->mine > 0 ? receive_previous(slice, chunk) : WEFT_OK;
    if (!status && bytes && nodes->mine == 0) {
        status = fetch_source(slice, member_at(nodes, 0, 0), chunk, buffer, &source);
        if (!status)
            memcpy(acc, source, bytes);
    }
    for (int k = first; bytes && k < local_count(nodes, nodes->mine) && !status; k++) {
        status = fetch_source(slice, member_at(nodes, nodes->mine, k), chunk, buffer, &source);
        if (!status)
            slice->what->c->combine(acc, source, bytes / slice->what->c->element);
    }
    if (!status && bytes && nodes->mine + 1 == nodes->n)
        reduce_end(slice->what->c, acc, bytes / slice->what->c->element, team->n);
    if (!status && bytes)
        memcpy(own_address(team, range_in_slice(slice, slice->what->to, chunk)), acc, bytes);
    return status;
}

/* Sends the result of a chunk from the owner's destination to the node before and to all members of
 * this node. */
static weft_status return_result(struct slice *slice)
{
    struct weft_team *team = slice->team;
    const struct team_nodes *nodes = team->nodes;
    struct symmetric_range to = range_in_slice(slice, slice->what->to, slice->distributed);
    size_t bytes = chunk_bytes(&slice->chunks, slice->distributed);
    uint64_t phase = slice->phase + slice->distributed++;
    weft_status status = WEFT_OK;
    if (nodes->mine > 0) {
        int before = member_at(nodes, nodes->mine - 1, slice->owner);
        status = coll_put_notify(team, before, to, own_address(team, to), bytes, phase, false);
    }
    return status ? status : put_to_neighbours(team, to, own_address(team, to), bytes);
}

/* Receives results that return from the next node. wait: waits for all of them. */
static weft_status receive_results(struct slice *slice, bool wait)
{
    struct weft_team *team = slice->team;
    int from = member_at(team->nodes, team->nodes->mine + 1, slice->owner);
    weft_status status = WEFT_OK;
    while (slice->distributed < slice->chunks.count && !status) {
        uint64_t phase = slice->phase + slice->distributed;
        if (!wait && !has_notified(team, from, phase))
            return WEFT_OK;
        status = coll_await(team, from, phase, BOX_OP_ALLREDUCE);
        if (!status)
            status = return_result(slice);
    }
    return status;
}

static weft_status reduce_slice(struct slice *slice)
{
    struct weft_team *team = slice->team;
    const struct team_nodes *nodes = team->nodes;
    bool last = nodes->mine + 1 == nodes->n;
    weft_status status = WEFT_OK;
    for (uint64_t chunk = 0; chunk < slice->chunks.count && !status; chunk++) {
        status = combine_in_node(slice, chunk);
        if (!status && last)
            status = return_result(slice);
        if (!status && !last)
            status = coll_notify(team, member_at(nodes, nodes->mine + 1, slice->owner),
                                 slice->phase + chunk);
        if (!status && !last)
            status = receive_results(slice, false);
    }
    if (!status && !last)
        status = receive_results(slice, true);
    return status ? status : notify_neighbours(team, slice->phase + slice->chunks.count);
}

/* Phases: the sources of a node are ready. Then one phase for each chunk: the node before has
 * combined it, or its result has returned from the next node. Last: the owner's slice is in all
 * destinations of the node. */
weft_status coll_nodes_reduce(struct weft_team *team, const struct coll_nodes_reduction *what,
                              size_t n, uint64_t phase)
{
    const struct team_nodes *nodes = team->nodes;
    const size_t per_line = 64 / what->c->element, owners = (size_t)nodes->least;
    size_t lines = (n + per_line - 1) / per_line, me = (size_t)nodes->local_me;
    struct slice slice = {.team = team, .what = what, .owner = nodes->local_me, .phase = phase + 1};
    slice.begin = lines * me / owners * 64;
    size_t end = lines * (me + 1) / owners * 64;
    end = end < n * what->c->element ? end : n * what->c->element;
    slice.chunks = split_chunks((lines + owners - 1) / owners * 64);
    team->sequence += slice.chunks.count;
    slice.chunks.bytes = end - slice.begin;
    bool owns = me < owners;
    slice.buffer = owns ? malloc(3 * slice.chunks.size) : NULL;
    if (owns && !slice.buffer)
        return job_fail_all(team->job, WEFT_ERR_NO_MEMORY,
                            "no private memory to reduce over nodes");
    weft_status status = notify_neighbours(team, phase);
    if (owns && !status)
        status = await_neighbours(team, phase, BOX_OP_ALLREDUCE);
    if (owns && !status)
        status = reduce_slice(&slice);
    if (!status) /* after a failure a requested chunk may still arrive in the buffer */
        free(slice.buffer);
    for (int k = 0; k < nodes->least && !status; k++)
        if (k != nodes->local_me)
            status = coll_await(team, member_at(nodes, nodes->mine, k),
                                slice.phase + slice.chunks.count, BOX_OP_ALLREDUCE);
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): kept after a failure, see above */
    return status;
}
