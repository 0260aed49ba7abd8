/* SPDX-License-Identifier: Apache-2.0 */
/* Division of the adapters of a node among its PEs. See pick.h. */
#include "path/gda/pick.h"

#include <stdbool.h>

struct world {
    const struct gda_candidates *all;
    const int *node_of;
    int npes;
};

/* How many are as near as the nearest. */
static uint32_t nearest(const struct gda_candidates *told)
{
    uint32_t n = 0;
    while (n < (uint32_t)told->count && told->list[n].near == told->list[0].near)
        n++;
    return n;
}

static bool is_beside(const struct world *world, int pe, int other)
{
    return world->node_of[other] == world->node_of[pe];
}

/* PEs of the node before this one. */
static uint32_t turn_of(const struct world *world, int pe)
{
    uint32_t n = 0;
    for (int other = 0; other < pe; other++)
        n += is_beside(world, pe, other);
    return n;
}

static bool is_nearer_to_another(const struct world *world, int pe,
                                 const struct gda_candidate *adapter)
{
    for (int other = 0; other < world->npes; other++) {
        const struct gda_candidates *told = &world->all[other];
        if (other == pe || !is_beside(world, pe, other))
            continue;
        for (int i = 0; i < told->count; i++)
            if (told->list[i].name == adapter->name && told->list[i].near < adapter->near)
                return true;
    }
    return false;
}

/* Whether one of the adapters in `free` is among the nearest of the other PE. */
static bool shares(const struct world *world, int pe, uint32_t free, int other)
{
    const struct gda_candidates *mine = &world->all[pe], *its = &world->all[other];
    for (int i = 0; i < mine->count; i++)
        for (uint32_t k = 0; free >> i & 1 && k < nearest(its); k++)
            if (its->list[k].name == mine->list[i].name)
                return true;
    return false;
}

static void take_share(const struct world *world, int pe, struct gda_picked *picked)
{
    const struct gda_candidates *told = &world->all[pe];
    uint32_t free = 0, sharers = 0, before = 0, equal = nearest(told), passed = 0;
    for (uint32_t i = 0; i < equal; i++)
        free |= (uint32_t)!is_nearer_to_another(world, pe, &told->list[i]) << i;
    for (int other = 0; other < world->npes; other++) {
        bool one = is_beside(world, pe, other) && shares(world, pe, free, other);
        sharers += one;
        before += one && other < pe;
    }
    uint32_t share = sharers ? (uint32_t)__builtin_popcount(free) / sharers : 0;
    share = share < GDA_ADAPTERS_MOST ? share : GDA_ADAPTERS_MOST;
    for (uint32_t i = 0; i < equal && picked->count < share; i++)
        if (free >> i & 1 && passed++ >= before * share)
            picked->which[picked->count++] = i;
    if (!picked->count)
        picked->which[picked->count++] = turn_of(world, pe) % equal;
}

/* By turns too, where there are more that are equally near. */
static void take_wanted(const struct world *world, int pe, struct gda_picked *picked)
{
    const struct gda_candidates *told = &world->all[pe];
    uint32_t wanted = (uint32_t)told->wanted, equal = nearest(told), taken = 0;
    uint32_t first = wanted < equal ? turn_of(world, pe) * wanted % equal : 0;
    uint32_t round = wanted < equal ? equal : (uint32_t)told->count;
    for (uint32_t i = 0; i < wanted; i++)
        taken |= (uint32_t)1 << (first + i) % round;
    for (uint32_t i = 0; i < round && picked->count < GDA_ADAPTERS_MOST; i++)
        if (taken >> i & 1)
            picked->which[picked->count++] = i;
}

void gda_pick(const struct gda_candidates *all, const int *node_of, int npes, int pe,
              struct gda_picked *picked)
{
    const struct world world = {all, node_of, npes};
    *picked = (struct gda_picked){0};
    if (all[pe].count && all[pe].wanted)
        take_wanted(&world, pe, picked);
    else if (all[pe].count)
        take_share(&world, pe, picked);
}
