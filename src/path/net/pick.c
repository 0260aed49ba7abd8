/* SPDX-License-Identifier: Apache-2.0 */
/* Division of the NICs of a node among its PEs. See pick.h. */
#include "path/net/pick.h"

#include <string.h>

enum { SHARE_MOST = 4 }; /* NICs that a PE takes unasked */

struct world {
    const struct net_candidates *all;
    const int *node_of;
    int npes;
};

/* ----------------------------------------------------------------------------- what can be used */

/* Another node has the address too, so that it leads nowhere. */
static bool is_private(const struct world *world, int pe, const struct net_candidate *nic)
{
    for (int other = 0; other < world->npes && nic->address; other++)
        for (int i = 0; i < world->all[other].count; i++)
            if (world->node_of[other] != world->node_of[pe] &&
                world->all[other].list[i].address == nic->address)
                return true;
    return false;
}

static bool has_network(const struct net_candidates *told, uint64_t network)
{
    for (int i = 0; i < told->count; i++)
        if (told->list[i].network == network)
            return true;
    return false;
}

static bool is_common(const struct world *world, uint64_t network)
{
    for (int pe = 0; pe < world->npes; pe++)
        if (!has_network(&world->all[pe], network))
            return false;
    return true;
}

/* Bit per NIC of a PE; all, where nothing would be left. */
static uint32_t usable(const struct world *world, int pe)
{
    const struct net_candidates *told = &world->all[pe];
    uint32_t every = ((uint32_t)1 << told->count) - 1, open = 0, common = 0;
    for (int i = 0; i < told->count; i++)
        open |= (uint32_t)!is_private(world, pe, &told->list[i]) << i;
    open = open ? open : every;
    for (int i = 0; i < told->count; i++)
        if (open >> i & 1 && (!told->list[i].network || is_common(world, told->list[i].network)))
            common |= (uint32_t)1 << i;
    return common ? common : open;
}

/* The network of everybody's home; 0: any will do. */
static uint64_t home_network(const struct world *world)
{
    const struct net_candidates *first = &world->all[0];
    uint32_t may = usable(world, 0);
    int best = -1;
    for (int i = 0; i < first->count; i++) {
        const struct net_candidate *nic = &first->list[i];
        if (!(may >> i & 1) || !nic->network || !is_common(world, nic->network))
            continue;
        if (best < 0 || nic->mbps > first->list[best].mbps)
            best = i;
    }
    return best < 0 ? 0 : first->list[best].network;
}

/* --------------------------------------------------------------------------------- the division */

/* How many PEs of the node have taken a NIC. */
struct loads {
    uint64_t names[64];
    int load[64], count;
    int further; /* of more NICs than a node has */
};

static int *load_of(struct loads *loads, uint64_t name)
{
    int i = 0;
    while (i < loads->count && loads->names[i] != name)
        i++;
    if (i == loads->count) {
        if (i == (int)(sizeof loads->load / sizeof loads->load[0]))
            return &loads->further;
        loads->names[loads->count] = name;
        loads->load[loads->count++] = 0;
    }
    return &loads->load[i];
}

/* Of those in `may`: nearer first, then less taken, then in the order told. -1 = none. */
static int nearest(const struct net_candidates *told, uint32_t may, struct loads *loads)
{
    int best = -1;
    for (int i = 0; i < told->count; i++) {
        const struct net_candidate *nic = &told->list[i];
        if (!(may >> i & 1))
            continue;
        if (best < 0 || nic->near < told->list[best].near ||
            (nic->near == told->list[best].near &&
             *load_of(loads, nic->name) < *load_of(loads, told->list[best].name)))
            best = i;
    }
    return best;
}

static int as_near_as(const struct net_candidates *told, uint32_t may, int which, bool spreading)
{
    int n = 0;
    for (int i = 0; i < told->count && which >= 0; i++)
        n += may >> i & 1 && told->list[i].near == told->list[which].near &&
             (told->list[i].spreads || !spreading);
    return n;
}

static int local_npes(const struct world *world, int pe)
{
    int n = 0;
    for (int other = 0; other < world->npes; other++)
        n += world->node_of[other] == world->node_of[pe];
    return n;
}

static int rails_of(const struct world *world, int pe, uint32_t may, int first)
{
    const struct net_candidates *told = &world->all[pe];
    int n = told->rails;
    if (!n) {
        n = as_near_as(told, may, first, true) / local_npes(world, pe);
        n = n > SHARE_MOST ? SHARE_MOST : n;
    }
    return n < 1 ? 1 : n > NET_RAILS ? NET_RAILS : n;
}

static uint32_t of_network(const struct net_candidates *told, uint32_t may, uint64_t network)
{
    uint32_t mask = 0;
    for (int i = 0; i < told->count; i++)
        if (may >> i & 1 && (!network || told->list[i].network == network))
            mask |= (uint32_t)1 << i;
    return mask ? mask : may;
}

static void pick_one(const struct world *world, int pe, uint64_t network, struct loads *loads,
                     struct net_picked *picked)
{
    const struct net_candidates *told = &world->all[pe];
    uint32_t may = usable(world, pe), left = may, homes = of_network(told, may, network);
    int first = nearest(told, may, loads), rails = rails_of(world, pe, may, first);
    *picked = (struct net_picked){.home = -1, .equal = as_near_as(told, may, first, false)};
    while (picked->count < rails && left) {
        int next = nearest(told, left, loads);
        if (picked->home < 0 && homes >> next & 1)
            picked->home = next;
        picked->rails[picked->count++] = next;
        left &= ~((uint32_t)1 << next);
        ++*load_of(loads, told->list[next].name);
    }
    if (picked->home < 0)
        picked->home = nearest(told, homes, loads);
}

void net_pick(const struct net_candidates *all, const int *node_of, int npes, int pe,
              struct net_picked *picked)
{
    const struct world world = {all, node_of, npes};
    uint64_t network = home_network(&world);
    struct loads loads = {.count = 0};
    struct net_picked one;
    bool crowded = true;
    int local = 0;
    *picked = (struct net_picked){.home = -1};
    for (int other = 0; other < npes; other++) {
        if (node_of[other] != node_of[pe])
            continue;
        pick_one(&world, other, network, &loads, &one);
        local++;
        crowded &= one.count == 1 && one.rails[0] == one.home;
        if (other == pe)
            *picked = one;
    }
    int taken = 0;
    for (int i = 0; i < loads.count; i++)
        taken += loads.load[i] > 0;
    picked->crowded = crowded && local > 1 && taken == 1;
}
