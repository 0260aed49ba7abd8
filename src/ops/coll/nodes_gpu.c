/* SPDX-License-Identifier: Apache-2.0 */
/* Broadcast, allgather and collect by node on GPU memory, and what all collectives by node on it
 * share: see nodes_gpu.h. */
#include "ops/coll/nodes_gpu.h"

#include "gpu/stream.h"
#include "ops/coll/kernel.h"

#include <stdlib.h>

/* -------------------------------------------------------------------------------------- nodes */

const struct team_nodes *coll_gpu_each_alone(const struct weft_team *team, struct team_nodes *nodes)
{
    int *same = malloc(((size_t)team->n + 1) * sizeof *same);
    for (int i = 0; same && i <= team->n; i++)
        same[i] = i;
    *nodes = (struct team_nodes){
        .n = team->n, .least = 1, .mine = team->me, .of = same, .first = same, .members = same};
    return same ? nodes : NULL;
}

/* ------------------------------------------------------------------------------------ kernels */

char *coll_gpu_mapped(const struct weft_team *team, int member, const char *own)
{
    const struct weft_job *job = team->job;
    const int slot = job->gpu->slot_of[team->pes[member]];
    if (member == team->me)
        return (char *)(uintptr_t)own;
    if (slot < 0 || !job_direct(job, WEFT_GPU, team->pes[member]))
        return NULL;
    return (char *)(uintptr_t)(job->gpu->heap.windows[slot].base +
                               ((uintptr_t)own - gpu_heap_own(&job->gpu->heap)->base));
}

weft_status coll_gpu_run_kernel(struct weft_team *team, enum box_operation operation,
                                enum coll_kernel kernel, uint64_t blocks, struct coll_call *call)
{
    enum { THREADS = 512 };
    struct gpu *gpu = team->job->gpu;
    const int most = coll_kernel_most_blocks(team);
    blocks = blocks < (uint64_t)most ? blocks : (uint64_t)most;
    pthread_mutex_lock(&gpu->coll->lock);
    weft_status status = gpu_enter(&gpu->device);
    if (!status) {
        status = gpu_coll_launch(gpu, kernel, blocks ? (unsigned)blocks : 1, THREADS,
                                 gpu->coll->stream, call);
        if (!status)
            status = gpu_wait_stream(gpu, gpu->coll->stream, box_operation_name(operation));
        gpu_leave(&gpu->device);
    }
    pthread_mutex_unlock(&gpu->coll->lock);
    return status;
}

weft_status coll_gpu_nodes_load(const struct weft_team *team)
{
    if (!coll_gpu_spans_nodes(team) || !coll_kernel_runs(team))
        return WEFT_OK;
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    gpu_exchange_capture_mode(team->job->gpu, &mode);
    weft_status status = gpu_coll_load(team->job->gpu);
    gpu_exchange_capture_mode(team->job->gpu, &mode);
    return status;
}

/* ---------------------------------------------------------------------------------- broadcast */

/* The nodes form a tree with the root's at the top. A large vector passes in slices and chunks
 * along a chain, which is a tree of width 1; a small one whole, from head to head. */
struct spread {
    struct weft_team *team;
    const struct team_nodes *nodes;
    char *dst;
    const char *src;
    size_t bytes;
    int root, owners, width, place; /* place: of this node in the tree */
    struct chunks chunks;           /* of the largest slice */
    uint64_t phase;                 /* of the first chunk */
};

/* The member with slice k at the node with that place in the tree. The root has a vector that is
 * not cut. */
static int owner_at(const struct spread *s, int place, int k)
{
    const struct team_nodes *nodes = s->nodes;
    if (place == 0 && s->owners == 1)
        return s->root;
    return member_at(nodes, (nodes->of[s->root] + place) % nodes->n, k);
}

/* Puts a chunk of slice k to the owners below in the tree, and within the node. */
static weft_status pass_chunk(const struct spread *s, int k, uint64_t chunk)
{
    struct weft_team *team = s->team;
    const size_t begin = slice_at(s->bytes, s->owners, k);
    struct chunks mine = s->chunks;
    mine.bytes = slice_at(s->bytes, s->owners, k + 1) - begin;
    const size_t at = begin + chunk_offset(&mine, chunk), bytes = chunk_bytes(&mine, chunk);
    const char *from = (team->me == s->root ? s->src : s->dst) + at;
    const int first = s->width * s->place + 1;
    weft_status status = WEFT_OK;
    for (int place = first; place < first + s->width && place < s->nodes->n && !status; place++)
        status = gpu_nodes_put(team, owner_at(s, place, k), s->dst + at, from, bytes);
    return status ? status
                  : gpu_nodes_put_in_node(team, s->nodes, s->dst + at, from, bytes, s->root);
}

/* At the root: puts a chunk of each slice to its owner at this node. */
static weft_status hand_out_chunk(const struct spread *s, uint64_t chunk)
{
    weft_status status = WEFT_OK;
    for (int k = 0; k < s->owners && !status; k++) {
        const size_t begin = slice_at(s->bytes, s->owners, k);
        struct chunks its = s->chunks;
        its.bytes = slice_at(s->bytes, s->owners, k + 1) - begin;
        const size_t at = begin + chunk_offset(&its, chunk);
        if (owner_at(s, 0, k) != s->root)
            status = gpu_nodes_put(s->team, owner_at(s, 0, k), s->dst + at, s->src + at,
                                   chunk_bytes(&its, chunk));
    }
    return status;
}

/* Whether the owners at that place in the tree pass their slices on; the others need not know when
 * a chunk has come. */
static bool passes_on(const struct spread *s, int place)
{
    const struct team_nodes *nodes = s->nodes;
    return s->width * place + 1 < nodes->n ||
           local_count(nodes, (nodes->of[s->root] + place) % nodes->n) > 1;
}

static weft_status notify_below(const struct spread *s, int k, uint64_t phase)
{
    const int first = s->width * s->place + 1;
    weft_status status = WEFT_OK;
    for (int place = first; place < first + s->width && place < s->nodes->n && !status; place++)
        if (passes_on(s, place))
            status = coll_notify(s->team, owner_at(s, place, k), phase);
    return status;
}

/* The slice that this member owns; -1: none. */
static int own_slice(const struct spread *s)
{
    const int k = s->nodes->local_me;
    if (s->owners == 1)
        return s->team->me == owner_at(s, s->place, 0) ? 0 : -1;
    return k < s->owners ? k : -1;
}

static weft_status spread_chunk(const struct spread *s, uint64_t chunk)
{
    struct weft_team *team = s->team;
    const bool root = team->me == s->root;
    const int k = own_slice(s);
    weft_status status = WEFT_OK;
    if (k >= 0 && !root && passes_on(s, s->place))
        status = coll_await(team, s->place ? owner_at(s, (s->place - 1) / s->width, k) : s->root,
                            s->phase + chunk, BOX_OP_BROADCAST);
    if (root)
        status = hand_out_chunk(s, chunk);
    if (k >= 0 && !status)
        status = pass_chunk(s, k, chunk);
    if (!status)
        status = gpu_nodes_complete(team);
    for (int i = 0; root && i < s->owners && !status; i++)
        if (owner_at(s, 0, i) != s->root)
            status = coll_notify(team, owner_at(s, 0, i), s->phase + chunk);
    return status || k < 0 ? status : notify_below(s, k, s->phase + chunk);
}

/* A whole vector is one chunk. */
static struct chunks split_slice(size_t bytes, int nodes)
{
    const size_t chunk = nodes > 1 ? chain_chunk(bytes, nodes) : bytes;
    const size_t size = chunk ? (chunk + 63) / 64 * 64 : 64;
    return (struct chunks){bytes ? (bytes + size - 1) / size : 1, size, bytes};
}

bool coll_gpu_spans_nodes(const struct weft_team *team)
{
    const int *node_of = team->job->boot->node_of;
    return team->nodes || (team->n > 1 && node_of[team->pes[0]] != node_of[team->pes[1]]);
}

weft_status coll_gpu_nodes_broadcast(struct weft_team *team, void *dst, const void *src,
                                     size_t bytes, int root, uint64_t phase)
{
    const bool whole = bytes <= CHUNK_LEAST_BYTES;
    struct team_nodes each = {0};
    const struct team_nodes *nodes = team->nodes ? team->nodes : coll_gpu_each_alone(team, &each);
    if (!nodes)
        return job_fail_all(team->job, WEFT_ERR_NO_MEMORY, "no private memory for a broadcast");
    struct spread s = {.team = team,
                       .nodes = nodes,
                       .dst = dst,
                       .src = src,
                       .bytes = bytes,
                       .root = root,
                       .owners = whole ? 1 : nodes->least,
                       .width = whole ? coll_tree_width(bytes) : 1,
                       /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): a team has members */
                       .place = (nodes->mine - nodes->of[root] + nodes->n) % nodes->n,
                       .phase = phase};
    s.chunks = split_slice(slice_most(bytes, s.owners), whole ? 1 : nodes->n);
    team->sequence += s.chunks.count;
    weft_status status = WEFT_OK;
    if (team->me == root && dst != src)
        status = gpu_nodes_put(team, root, dst, src, bytes);
    for (uint64_t chunk = 0; chunk < s.chunks.count && !status; chunk++)
        status = spread_chunk(&s, chunk);
    free(each.of);
    return coll_finish_puts(team, BOX_OP_BROADCAST, status);
}

/* ------------------------------------------------------------------------ allgather and collect */

struct gathering {
    struct weft_team *team;
    const struct team_nodes *nodes;
    enum box_operation operation;
    char *dst;
    const size_t *at, *sizes;
    struct chunks chunks; /* of the largest block */
    uint64_t phase;
};

/* Bytes of that chunk of a member's block; *to: where it goes. */
static size_t block_chunk(const struct gathering *g, int member, uint64_t chunk, char **to)
{
    struct chunks its = g->chunks;
    its.bytes = g->sizes[member];
    *to = g->dst + g->at[member] + chunk_offset(&its, chunk);
    return chunk_bytes(&its, chunk);
}

/* Puts a chunk of the own block to one member of each other node, and within the node. */
static weft_status send_own_block(const struct gathering *g, const char *src, uint64_t chunk)
{
    struct weft_team *team = g->team;
    const struct team_nodes *nodes = g->nodes;
    char *to;
    const size_t bytes = block_chunk(g, team->me, chunk, &to);
    weft_status status = WEFT_OK;
    if (!bytes)
        return WEFT_OK;
    const char *from = src + chunk_offset(&g->chunks, chunk);
    for (int k = 1; k < nodes->n && !status; k++)
        status =
            gpu_nodes_put(team, counterpart(nodes, (nodes->mine + k) % nodes->n, nodes->local_me),
                          to, from, bytes);
    if (!status)
        status = gpu_nodes_put_in_node(team, nodes, to, from, bytes, -1);
    return status || to == from ? status : gpu_nodes_put(team, team->me, to, from, bytes);
}

static weft_status notify_counterparts(const struct gathering *g, uint64_t chunk)
{
    struct weft_team *team = g->team;
    const struct team_nodes *nodes = g->nodes;
    const int n = nodes->n;
    char *to;
    weft_status status = WEFT_OK;
    if (!block_chunk(g, team->me, chunk, &to))
        return WEFT_OK;
    for (int k = 1; k < n && !status; k++)
        status = coll_notify(team, counterpart(nodes, (nodes->mine + k) % n, nodes->local_me),
                             g->phase + chunk);
    return status;
}

/* Puts a chunk of each block that comes to this member from other nodes to the rest of its node. */
static weft_status forward_blocks(const struct gathering *g, uint64_t chunk)
{
    struct weft_team *team = g->team;
    const struct team_nodes *nodes = g->nodes;
    weft_status status = WEFT_OK;
    for (int k = 1; k < nodes->n; k++) {
        const int node = (nodes->mine - k + nodes->n) % nodes->n;
        for (int rank = nodes->local_me; rank < local_count(nodes, node) && !status;
             rank += local_count(nodes, nodes->mine)) {
            const int from = member_at(nodes, node, rank);
            char *to;
            const size_t bytes = block_chunk(g, from, chunk, &to);
            if (!bytes)
                continue;
            status = coll_await(team, from, g->phase + chunk, g->operation);
            if (!status)
                status = gpu_nodes_put_in_node(team, nodes, to, to, bytes, -1);
        }
    }
    return status;
}

weft_status coll_gpu_nodes_collect(struct weft_team *team, enum box_operation operation, void *dst,
                                   const void *src, const size_t *at, const size_t *sizes,
                                   uint64_t phase)
{
    struct gathering g = {team, team->nodes, operation, dst, at, sizes, {0}, phase};
    size_t most = 0;
    for (int i = 0; i < team->n; i++)
        most = sizes[i] > most ? sizes[i] : most;
    g.chunks = split_chunks(most);
    team->sequence += g.chunks.count;
    weft_status status = WEFT_OK;
    /* Chunk i travels between nodes while chunk i - 1 is distributed within them. */
    for (uint64_t chunk = 0; chunk <= g.chunks.count && !status; chunk++) {
        if (chunk < g.chunks.count)
            status = send_own_block(&g, src, chunk);
        if (chunk && !status)
            status = forward_blocks(&g, chunk - 1);
        if (!status)
            status = gpu_nodes_complete(team);
        if (chunk < g.chunks.count && !status)
            status = notify_counterparts(&g, chunk);
    }
    return coll_finish_puts(team, operation, status);
}
