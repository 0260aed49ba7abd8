/* SPDX-License-Identifier: Apache-2.0 */
/* Alltoall by node on GPU memory: see nodes_gpu.h. Blocks for a member of another node go by way of
 * the member of this node with the same local rank ("relay"): a kernel stores them into a slot of
 * the relay (gpu/coll/pack.h), which puts all that its node has for that member at once. So there
 * are as many messages as nodes, and not as PEs, and each goes from a NIC to the NIC of the same
 * rank. What does not fit the slot takes further steps; meanwhile the other slot travels. */
#include "ops/coll/kernel.h"
#include "ops/coll/nodes_gpu.h"
#include "ops/coll/slots.h"

enum { PACK_SLOTS = 2 };

/* All nodes have as many members, which are consecutive in the team. */
struct pack {
    struct weft_team *team;
    const struct team_nodes *nodes;
    char *dst;
    const char *src;
    size_t bytes;        /* of a block */
    int members;         /* of a node */
    int per_step, steps; /* per_step: nodes whose blocks fit a slot */
    struct coll_slots slots;
};

/* The first node whose blocks pass in a step. Each node begins with its own, so that not all send
 * to the same. */
static int first_node(const struct pack *p, int step)
{
    return (p->nodes->mine + step * p->per_step) % p->nodes->n;
}

static int count_nodes(const struct pack *p, int step)
{
    const int left = p->nodes->n - step * p->per_step;
    return left < p->per_step ? left : p->per_step;
}

/* Blocks for the relay with that rank, for `count` nodes from `node` on, whose place in the slot is
 * `k`. */
static weft_status pack_nodes(const struct pack *p, int step, int rank, int node, int k, int count)
{
    struct weft_team *team = p->team;
    const size_t row = (size_t)p->members * p->bytes;
    const struct path_strides strides = {row, row, p->bytes, (size_t)count};
    struct remote at =
        coll_slot_at(team, &p->slots, member_at(p->nodes, p->nodes->mine, rank), step % PACK_SLOTS);
    at.offset += (size_t)k * row + (size_t)p->nodes->local_me * p->bytes;
    return count ? at.peer->ops->iput(at, p->src + (size_t)node * row + (size_t)rank * p->bytes,
                                      &strides)
                 : WEFT_OK;
}

/* The same by the path to the relay, where the kernel does not serve. */
static weft_status pack_by_path(const struct pack *p, int step, int rank)
{
    const int first = first_node(p, step), count = count_nodes(p, step),
              before = p->nodes->n - first < count ? p->nodes->n - first : count;
    weft_status status = pack_nodes(p, step, rank, first, 0, before);
    return status ? status : pack_nodes(p, step, rank, 0, before, count - before);
}

static weft_status pack_blocks(const struct pack *p, int step)
{
    enum { BLOCKS_OF_GROUP = 16 }; /* groups of lanes in a block of threads */
    struct weft_team *team = p->team;
    const int nodes = count_nodes(p, step);
    char *own = coll_slot_own(team, &p->slots, step % PACK_SLOTS);
    const bool loads = gpu_heap_covers(&team->job->gpu->heap, p->src);
    struct coll_call call = {.src = p->src,
                             .bytes = p->bytes,
                             .members = p->members,
                             .me = p->nodes->local_me,
                             .pack = {first_node(p, step), nodes, p->nodes->n}};
    weft_status status = WEFT_OK;
    for (int rank = 0; rank < p->members && !status; rank++) {
        const int relay = member_at(p->nodes, p->nodes->mine, rank);
        call.part[rank] = loads ? coll_gpu_mapped(team, relay, own) : NULL;
        if (!call.part[rank])
            status = pack_by_path(p, step, rank);
    }
    if (loads && !status)
        status =
            coll_gpu_run_kernel(team, BOX_OP_ALLTOALL, COLL_weft_coll_pack,
                                (uint64_t)nodes * (uint64_t)p->members / BLOCKS_OF_GROUP, &call);
    return status;
}

/* As a relay: puts what the members of this node have for the members of its rank. */
static weft_status send_slot(const struct pack *p, int step)
{
    struct weft_team *team = p->team;
    const size_t row = (size_t)p->members * p->bytes;
    const char *own = coll_slot_own(team, &p->slots, step % PACK_SLOTS);
    char *to = p->dst + (size_t)p->nodes->first[p->nodes->mine] * p->bytes;
    weft_status status = WEFT_OK;
    for (int k = 0; k < count_nodes(p, step) && !status; k++) {
        const int node = (first_node(p, step) + k) % p->nodes->n;
        status = gpu_nodes_put(team, member_at(p->nodes, node, p->nodes->local_me), to,
                               own + (size_t)k * row, row);
    }
    return status;
}

bool coll_gpu_nodes_packs(const struct weft_team *team, const void *dst, size_t bytes)
{
    const struct team_nodes *nodes = team->nodes;
    const struct gpu *gpu = team->job->gpu;
    if (!nodes || !nodes->in_order || nodes->n * nodes->least != team->n || !gpu ||
        !gpu_heap_covers(&gpu->heap, dst) || !coll_kernel_runs(team))
        return false;
    return nodes->least <= COLL_MEMBERS && coll_is_packed(nodes->n, nodes->least, bytes) &&
           (size_t)nodes->least * bytes <= coll_slots_of(team, PACK_SLOTS).each;
}

weft_status coll_gpu_nodes_alltoall(struct weft_team *team, void *dst, const void *src,
                                    size_t bytes)
{
    const struct team_nodes *nodes = team->nodes;
    struct pack p = {.team = team,
                     .nodes = nodes,
                     .dst = dst,
                     .src = src,
                     .bytes = bytes,
                     .members = nodes->least,
                     .slots = coll_slots_of(team, PACK_SLOTS)};
    const size_t fit = p.slots.each / ((size_t)p.members * bytes);
    p.per_step = fit < (size_t)nodes->n ? (int)fit : nodes->n;
    p.steps = (nodes->n + p.per_step - 1) / p.per_step;
    const uint64_t phase = team->sequence + 1;
    team->sequence += (uint64_t)p.steps;
    weft_status status = gpu_coll_load(team->job->gpu);
    for (int step = 0; step < p.steps && !status; step++) {
        status = pack_blocks(&p, step);
        /* With the puts of the step before, whose slot the next one fills. */
        if (!status)
            status = gpu_nodes_complete(team);
        if (!status)
            status = notify_neighbours(team, phase + (uint64_t)step);
        if (!status)
            status = await_neighbours(team, phase + (uint64_t)step, BOX_OP_ALLTOALL);
        if (!status)
            status = send_slot(&p, step);
    }
    return coll_finish_puts(team, BOX_OP_ALLTOALL, status);
}
