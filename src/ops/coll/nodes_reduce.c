/* SPDX-License-Identifier: Apache-2.0 */
/* Large reductions by node. Each node combines its elements with the result of the node before it,
 * in the order of the team, so the result has the same bits as on one node. */
#include "ops/coll/nodes.h"

#include <stdlib.h>

/* One slice of the vector. At every node the member with local rank `owner` works on it. The first
 * node combines its members' elements, the next node combines its own with that result, and so on
 * in the order of the team. From the last node the result returns the same way. A large slice is
 * pipelined in chunks: a node works on one chunk while the node before it works on the next.
 *
 * A small slice takes as long as its way from node to node. Of a team of many nodes a group of them
 * is therefore worked on as if it were one node: the owner at its first node gets the elements of
 * all members of the group together. */
struct slice {
    struct weft_team *team;
    const struct coll_range_reduction *what;
    int owner;            /* local rank */
    int group;            /* number of nodes of a group */
    int first, end;       /* nodes of this group: first ... end - 1 */
    size_t begin;         /* first byte of the slice */
    struct chunks chunks; /* count: that of the largest slice */
    uint64_t phase;       /* phase of the first chunk */
    uint64_t requested;   /* chunks requested from the node before */
    uint64_t distributed; /* chunks whose result is at all members of this node */
    /* three chunks: two partial results, used in turn, and the elements to add; then a chunk for
     * each member of the group's other nodes */
    char *buffer;
};

/* Number of nodes of a group. A slice passes from group to group, which takes as long as about HOP
 * gets, and so does a get from a node that must report first; the gets of a group follow one
 * another. Groups send more messages, so they must take half the time. Every member finds the same
 * number. */
static int group_size(const struct weft_team *team, const struct chunks *chunks)
{
    enum { HOP = 12, GET_BYTES = 4096 }; /* a get of so many bytes takes twice as long as of one */
    const uint64_t nodes = (uint64_t)team->nodes->n, members = (uint64_t)team->n / nodes;
    const uint64_t hop = HOP * GET_BYTES, get = members * (GET_BYTES + chunks->size);
    uint64_t group = 1;
    while (chunks->count == 1 && group < nodes && (group + 1) * (group + 1) * get <= nodes * hop)
        group++;
    const uint64_t hops = (nodes + group - 1) / group; /* from group to group, and within one */
    return 2 * (hops * hop + (group - 1) * get) <= (nodes - 1) * hop ? (int)group : 1;
}

/* The owner at the first node of the group that is `groups` after this one. */
static int leader_at(const struct slice *slice, int groups)
{
    return member_at(slice->team->nodes, slice->first + groups * slice->group, slice->owner);
}

/* Number of members of the group's other nodes. */
static size_t far_members(const struct slice *slice)
{
    const int *first = slice->team->nodes->first;
    return (size_t)(first[slice->end] - first[slice->first + 1]);
}

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
    int before = leader_at(slice, -1);
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
    int before = leader_at(slice, -1);
    weft_status status = WEFT_OK;
    if (slice->requested == chunk)
        status = coll_await(team, before, slice->phase + chunk, slice->what->operation);
    if (!status && slice->requested == chunk)
        status = request_previous(slice, chunk);
    if (!status)
        status = weft_quiet(team->job->system_ctx);
    if (!status && chunk + 1 < slice->chunks.count &&
        has_notified(team, before, slice->phase + chunk + 1))
        status = request_previous(slice, chunk + 1);
    return status;
}

/* Starts the gets of what the members of the group's other nodes have, once their owners have
 * reported that it is there. */
static weft_status request_group(const struct slice *slice)
{
    struct weft_team *team = slice->team;
    const struct team_nodes *nodes = team->nodes;
    const size_t bytes = chunk_bytes(&slice->chunks, 0);
    char *to = slice->buffer + 3 * slice->chunks.size;
    const void *from = own_address(team, range_in_slice(slice, slice->what->from, 0));
    weft_status status = WEFT_OK;
    for (int node = slice->first + 1; node < slice->end && !status; node++) {
        status = coll_await(team, member_at(nodes, node, slice->owner), slice->phase - 1,
                            slice->what->operation);
        for (int k = 0; bytes && k < local_count(nodes, node) && !status; k++) {
            status = weft_get_nbi(team->job->system_ctx, to, from, bytes,
                                  team->pes[member_at(nodes, node, k)]);
            to += slice->chunks.size;
        }
    }
    return status;
}

static weft_status combine_in_group(struct slice *slice, uint64_t chunk)
{
    struct weft_team *team = slice->team;
    const struct team_nodes *nodes = team->nodes;
    size_t bytes = chunk_bytes(&slice->chunks, chunk);
    char *acc = slice->buffer + (chunk & 1) * slice->chunks.size,
         *buffer = slice->buffer + 2 * slice->chunks.size, *far = buffer + slice->chunks.size;
    const void *source;
    int first = nodes->mine > 0 ? 0 : 1;
    weft_status status = request_group(slice);
    if (!status && nodes->mine > 0)
        status = receive_previous(slice, chunk);
    else if (!status && slice->group > 1)
        status = weft_quiet(team->job->system_ctx);
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
    for (size_t k = 0; bytes && k < far_members(slice) && !status; k++)
        slice->what->c->combine(acc, far + k * slice->chunks.size, bytes / slice->what->c->element);
    if (!status && bytes && slice->end == nodes->n)
        reduce_end(slice->what->c, acc, bytes / slice->what->c->element, team->n);
    if (!status && bytes)
        memcpy(own_address(team, range_in_slice(slice, slice->what->to, chunk)), acc, bytes);
    return status;
}

/* Sends the result of a chunk from the owner's destination to the group before, to the owners of
 * this group, and to all members of this node. */
static weft_status return_result(struct slice *slice)
{
    struct weft_team *team = slice->team;
    const struct team_nodes *nodes = team->nodes;
    struct symmetric_range to = range_in_slice(slice, slice->what->to, slice->distributed);
    size_t bytes = chunk_bytes(&slice->chunks, slice->distributed);
    uint64_t phase = slice->phase + slice->distributed++;
    weft_status status = WEFT_OK;
    if (nodes->mine > 0)
        status = coll_put_notify(team, leader_at(slice, -1), to, own_address(team, to), bytes,
                                 phase, false);
    for (int node = slice->first + 1; node < slice->end && !status; node++)
        status = coll_put_notify(team, member_at(nodes, node, slice->owner), to,
                                 own_address(team, to), bytes, phase, false);
    return status ? status : put_to_neighbours(team, to, own_address(team, to), bytes);
}

/* Receives results that return from the next node. wait: waits for all of them. */
static weft_status receive_results(struct slice *slice, bool wait)
{
    struct weft_team *team = slice->team;
    int from = leader_at(slice, 1);
    weft_status status = WEFT_OK;
    while (slice->distributed < slice->chunks.count && !status) {
        uint64_t phase = slice->phase + slice->distributed;
        if (!wait && !has_notified(team, from, phase))
            return WEFT_OK;
        status = coll_await(team, from, phase, slice->what->operation);
        if (!status)
            status = return_result(slice);
    }
    return status;
}

static weft_status reduce_slice(struct slice *slice)
{
    struct weft_team *team = slice->team;
    const struct team_nodes *nodes = team->nodes;
    bool last = slice->end == nodes->n;
    weft_status status = WEFT_OK;
    for (uint64_t chunk = 0; chunk < slice->chunks.count && !status; chunk++) {
        status = combine_in_group(slice, chunk);
        if (!status && last)
            status = return_result(slice);
        if (!status && !last)
            status = coll_notify(team, leader_at(slice, 1), slice->phase + chunk);
        if (!status && !last)
            status = receive_results(slice, false);
    }
    if (!status && !last)
        status = receive_results(slice, true);
    return status ? status : notify_neighbours(team, slice->phase + slice->chunks.count);
}

/* The owner at another node than the group's first. */
static weft_status follow_leader(struct slice *slice)
{
    struct weft_team *team = slice->team;
    struct symmetric_range to = range_in_slice(slice, slice->what->to, 0);
    size_t bytes = chunk_bytes(&slice->chunks, 0);
    weft_status status = coll_notify(team, leader_at(slice, 0), slice->phase - 1);
    if (!status)
        status = coll_await(team, leader_at(slice, 0), slice->phase, slice->what->operation);
    if (!status)
        status = put_to_neighbours(team, to, own_address(team, to), bytes);
    return status ? status : notify_neighbours(team, slice->phase + 1);
}

/* Phases: the sources of a node are ready. Then one phase for each chunk: the group before has
 * combined it, or its result has returned from the next group, or from the first node of this one.
 * Last: the owner's slice is in all destinations of the node. */
weft_status coll_nodes_reduce(struct weft_team *team, const struct coll_range_reduction *what,
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
    slice.group = group_size(team, &slice.chunks);
    slice.first = nodes->mine / slice.group * slice.group;
    slice.end = slice.first + slice.group < nodes->n ? slice.first + slice.group : nodes->n;
    slice.chunks.bytes = end - slice.begin;
    bool owns = me < owners, leads = owns && slice.first == nodes->mine;
    slice.buffer = leads ? malloc((3 + far_members(&slice)) * slice.chunks.size) : NULL;
    if (leads && !slice.buffer)
        return job_fail_all(team->job, WEFT_ERR_NO_MEMORY,
                            "no private memory to reduce over nodes");
    weft_status status = notify_neighbours(team, phase);
    if (owns && !status)
        status = await_neighbours(team, phase, what->operation);
    if (owns && !status)
        status = leads ? reduce_slice(&slice) : follow_leader(&slice);
    if (!status) /* after a failure a requested chunk may still arrive in the buffer */
        free(slice.buffer);
    for (int k = 0; k < nodes->least && !status; k++)
        if (k != nodes->local_me)
            status = coll_await(team, member_at(nodes, nodes->mine, k),
                                slice.phase + slice.chunks.count, what->operation);
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): kept after a failure, see above */
    return status;
}
