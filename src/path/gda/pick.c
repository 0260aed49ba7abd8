/* SPDX-License-Identifier: Apache-2.0 */
/* Divides the NICs of a node among its PEs. See pick.h. */
#include "path/gda/pick.h"

#include <stdbool.h>

struct world {
    const struct gda_candidates *all;
    const int *node_of;
    int npes;
};

/* Returns how many NICs are as near as the nearest one. */
static uint32_t nearest_count(const struct gda_candidates *candidates)
{
    uint32_t n = 0;
    while (n < (uint32_t)candidates->count && candidates->list[n].near == candidates->list[0].near)
        n++;
    return n;
}

static bool is_same_node(const struct world *world, int pe, int other)
{
    return world->node_of[other] == world->node_of[pe];
}

/* Returns the PE's rank on its node. */
static uint32_t local_rank(const struct world *world, int pe)
{
    uint32_t n = 0;
    for (int other = 0; other < pe; other++)
        n += is_same_node(world, pe, other);
    return n;
}

static bool is_nearer_to_another(const struct world *world, int pe,
                                 const struct gda_candidate *adapter)
{
    for (int other = 0; other < world->npes; other++) {
        const struct gda_candidates *candidates = &world->all[other];
        if (other == pe || !is_same_node(world, pe, other))
            continue;
        for (int i = 0; i < candidates->count; i++)
            if (candidates->list[i].name == adapter->name &&
                candidates->list[i].near < adapter->near)
                return true;
    }
    return false;
}

/* Returns true if a NIC in `free` is one of the nearest NICs of the other PE. */
static bool shares(const struct world *world, int pe, uint32_t free, int other)
{
    const struct gda_candidates *mine = &world->all[pe], *its = &world->all[other];
    for (int i = 0; i < mine->count; i++)
        for (uint32_t k = 0; free >> i & 1 && k < nearest_count(its); k++)
            if (its->list[k].name == mine->list[i].name)
                return true;
    return false;
}

static void pick_share(const struct world *world, int pe, struct gda_picked *picked)
{
    const struct gda_candidates *candidates = &world->all[pe];
    uint32_t free = 0, sharers = 0, before = 0, equal = nearest_count(candidates), passed = 0;
    for (uint32_t i = 0; i < equal; i++)
        free |= (uint32_t)!is_nearer_to_another(world, pe, &candidates->list[i]) << i;
    for (int other = 0; other < world->npes; other++) {
        bool one = is_same_node(world, pe, other) && shares(world, pe, free, other);
        sharers += one;
        before += one && other < pe;
    }
    uint32_t share = sharers ? (uint32_t)__builtin_popcount(free) / sharers : 0;
    share = share < GDA_ADAPTERS_MOST ? share : GDA_ADAPTERS_MOST;
    for (uint32_t i = 0; i < equal && picked->count < share; i++)
        if (free >> i & 1 && passed++ >= before * share)
            picked->which[picked->count++] = i;
    if (!picked->count)
        /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): called with candidates */
        picked->which[picked->count++] = local_rank(world, pe) % equal;
}

/* Picks the requested number. If more NICs are equally near, the PEs of the node start at different
 * ones. */
static void pick_requested(const struct world *world, int pe, struct gda_picked *picked)
{
    const struct gda_candidates *candidates = &world->all[pe];
    uint32_t wanted = (uint32_t)candidates->requested, equal = nearest_count(candidates), taken = 0;
    uint32_t first = wanted < equal ? local_rank(world, pe) * wanted % equal : 0;
    uint32_t round = wanted < equal ? equal : (uint32_t)candidates->count;
    for (uint32_t i = 0; i < wanted; i++)
        taken |= (uint32_t)1 << (first + i) % round;
    for (uint32_t i = 0; i < round && picked->count < GDA_ADAPTERS_MOST; i++)
        if (taken >> i & 1)
            picked->which[picked->count++] = i;
}

void gda_pick_adapters(const struct gda_candidates *all, const int *node_of, int npes, int pe,
                       struct gda_picked *picked)
{
    const struct world world = {all, node_of, npes};
    *picked = (struct gda_picked){0};
    if (all[pe].count && all[pe].requested)
        pick_requested(&world, pe, picked);
    else if (all[pe].count)
        pick_share(&world, pe, picked);
}
