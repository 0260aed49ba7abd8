/* SPDX-License-Identifier: Apache-2.0 */
/* Shortest paths in a graph whose edges are distributed over the PEs, found by one kernel without
 * host calls between rounds. In each round all blocks of every PE process their PE's edges and then
 * call one collective, which gives every PE the least distance that any PE has found
 * (weft/device/grid.h). The kernel ends when a round changes nothing.
 *
 *     weft run -n 4 ./paths       # 20000 nodes
 *     WEFT_TARGET=simt weft run -n 3 ./paths 1000
 *
 * The result is compared with a serial search. */
#include <weft_device.h>

enum { EDGES = 8, WINDOW = 50, INFINITE = -1 };

/* Edges into node v: `each` entries from v * each on; the others are at other PEs. */
typedef struct edge {
    uint32_t from, length;
} edge;

typedef struct graph {
    uint32_t nodes, each;
    const edge *edges;
} graph;

/* Arrays of the search; `nearest` and `nearer` are symmetric, as the collective requires. */
typedef struct search {
    uint32_t *distance; /* distances after the previous round */
    uint32_t *nearer;   /* distances found by this PE in this round */
    uint32_t *nearest;  /* least distances of all PEs */
    uint32_t *changed;  /* [rounds] 1: the round changed something */
    uint32_t *rounds;   /* number of rounds */
} search;

WEFT_DEV_BOTH uint32_t shorter_by(const graph *g, const uint32_t *distance, uint32_t node)
{
    uint32_t best = distance[node];
    for (uint32_t k = 0; k < g->each; k++) {
        edge e = g->edges[node * g->each + k];
        uint32_t way = distance[e.from];
        if (way != (uint32_t)INFINITE && way + e.length < best)
            best = way + e.length;
    }
    return best;
}

WEFT_KERNEL(find, (graph, g), (search, s))
{
    uint32_t rank = (uint32_t)weft_dev_grid_rank(), threads = (uint32_t)weft_dev_grid_threads();
    uint32_t round = 0, go_on = 1;
    while (go_on) {
        for (uint32_t v = rank; v < g.nodes; v += threads)
            s.nearer[v] = shorter_by(&g, s.distance, v);
        /* The collective reads the results of all blocks, so they synchronise first. */
        if (weft_grid_meet(WEFT_DEV_WORLD))
            return; /* a PE has failed; weft_device_check() reports it to the host */
        if (weft_grid_allreduce(WEFT_DEV_WORLD, s.nearest, s.nearer, g.nodes, WEFT_UINT32,
                                WEFT_MIN))
            return;
        for (uint32_t v = rank; v < g.nodes; v += threads)
            if (s.nearest[v] != s.distance[v]) {
                s.distance[v] = s.nearest[v];
                s.changed[round] = 1; /* all threads store the same value */
            }
        /* After this all blocks see the flag and the distances. They are the same at every PE, so
         * all PEs end in the same round. */
        if (weft_grid_meet(WEFT_DEV_WORLD))
            return;
        go_on = s.changed[round++];
    }
    if (rank == 0)
        *s.rounds = round;
}

#if WEFT_HOST_CODE

#include "check.h"

#include <string.h>
#include <weft/launch.h>

static uint32_t mix_bits(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

/* Returns edge k into a node: from one of the WINDOW nodes before it. */
static edge edge_of(uint32_t nodes, uint32_t node, uint32_t k)
{
    uint32_t x = mix_bits(node * EDGES + k + 1);
    edge e = {(node + nodes - 1 - x % WINDOW % nodes) % nodes, 1 + x / WINDOW % 100};
    return e;
}

/* Creates the edges k, k + n, k + 2 n ... of every node. Unused entries lead from the node to
 * itself. */
static graph make_graph(uint32_t nodes, uint32_t first, uint32_t n, edge *edges)
{
    graph g = {nodes, (EDGES + n - 1) / n, edges};
    for (uint32_t v = 0; v < nodes; v++)
        for (uint32_t i = 0; i < g.each; i++) {
            edge none = {v, 0};
            uint32_t k = first + i * n;
            edges[v * g.each + i] = k < EDGES ? edge_of(nodes, v, k) : none;
        }
    return g;
}

/* Serial search: one round after the other, over all edges. */
static uint32_t serial(const graph *g, uint32_t *distance, uint32_t *next)
{
    uint32_t rounds = 0;
    int changed = 1;
    for (; changed; rounds++) {
        for (uint32_t v = 0; v < g->nodes; v++)
            next[v] = shorter_by(g, distance, v);
        changed = memcmp(next, distance, g->nodes * sizeof *next) != 0;
        memcpy(distance, next, g->nodes * sizeof *next);
    }
    return rounds;
}

static void *symmetric(weft_job *job, size_t bytes)
{
    void *address = NULL;
    CHECK(job, weft_alloc(job, weft_device_kind(job), bytes, 256, WEFT_ALLOC_ZERO, &address));
    return address;
}

static void copy_to_device(weft_job *job, void *to, const void *from, size_t bytes)
{
    CHECK(job, weft_put(weft_default_ctx(job), to, from, bytes, weft_my_pe(job)));
    CHECK(job, weft_quiet(weft_default_ctx(job)));
}

/* Writes distance[]; returns the number of rounds. */
static uint32_t search_by_kernels(weft_job *job, graph g, uint32_t *distance)
{
    size_t bytes = g.nodes * sizeof *distance, edges = (size_t)g.nodes * g.each * sizeof(edge);
    int gpu = weft_target_get() == WEFT_CUDA;
    edge *here = symmetric(job, edges);
    search s = {symmetric(job, bytes), symmetric(job, bytes), symmetric(job, bytes),
                symmetric(job, bytes + sizeof *s.changed), symmetric(job, sizeof *s.rounds)};
    uint32_t rounds = 0;
    copy_to_device(job, here, g.edges, edges);
    copy_to_device(job, s.distance, distance, bytes);
    g.edges = here;
    CHECK(job, weft_barrier(weft_team_world(job)));
    /* Blocks that wait for each other must be resident at the same time: this launch guarantees
     * it. */
    CHECK(job, WEFT_LAUNCH_COOPERATIVE(find, gpu ? 32 : 4, gpu ? 256 : 32, 0, NULL, g, s));
    CHECK(job, weft_stream_synchronize(NULL));
    CHECK(job, weft_device_check(job));
    CHECK(job, weft_get(weft_default_ctx(job), distance, s.distance, bytes, weft_my_pe(job)));
    CHECK(job, weft_get(weft_default_ctx(job), &rounds, s.rounds, sizeof rounds, weft_my_pe(job)));
    CHECK(job, weft_free(job, s.rounds));
    CHECK(job, weft_free(job, s.changed));
    CHECK(job, weft_free(job, s.nearest));
    CHECK(job, weft_free(job, s.nearer));
    CHECK(job, weft_free(job, s.distance));
    CHECK(job, weft_free(job, here));
    return rounds;
}

int main(int argc, char **argv)
{
    weft_job *job = NULL;
    uint32_t nodes = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 20000;
    if (nodes < 2 || nodes > 10000000) {
        fprintf(stderr, "usage: paths [NODES (2 to 10000000)]\n");
        return 2;
    }
    CHECK(job, weft_init(&job, NULL));
    uint32_t me = (uint32_t)weft_my_pe(job), n = (uint32_t)weft_n_pes(job);
    edge *edges = malloc((size_t)nodes * EDGES * sizeof *edges);
    uint32_t *found = malloc(nodes * sizeof *found), *wanted = malloc(nodes * sizeof *wanted);
    uint32_t *next = malloc(nodes * sizeof *next);
    if (!edges || !found || !wanted || !next)
        CHECK(job, WEFT_ERR_NO_MEMORY);
    memset(wanted, 0xff, nodes * sizeof *wanted); /* all distances are infinite, except node 0 */
    wanted[0] = 0;
    memcpy(found, wanted, nodes * sizeof *found);
    uint32_t rounds = search_by_kernels(job, make_graph(nodes, me, n, edges), found);
    graph whole = make_graph(nodes, 0, 1, edges);
    uint32_t rounds_wanted = serial(&whole, wanted, next);
    int same = rounds == rounds_wanted && memcmp(found, wanted, nodes * sizeof *found) == 0;
    if (me == 0)
        printf("%u nodes, %u PEs on %s: %u rounds in one kernel; node %u is %u away; %s\n", nodes,
               n, weft_target_name(weft_target_get()), rounds, nodes - 1, found[nodes - 1],
               same ? "the same as by a serial search" : "NOT the same as by a serial search");
    free(edges);
    free(found);
    free(wanted);
    free(next);
    if (!same)
        weft_abort(job, 1);
    CHECK(job, weft_finalize(job));
    return 0;
}
#endif
