/* SPDX-License-Identifier: Apache-2.0 */
/* Division of the NICs of a node among its PEs. See pick.h. */
#include "path/net/pick.h"

#include <string.h>

enum { SHARE_MOST = 4 }; /* NICs that a PE uses at most by default */

struct pick_input {
    const struct net_candidates *all;
    const int *node_of;
    int npes;
};

/* ---------------------------------------------------------------------------------- usable NICs */

/* Whether another node has the same address, so that the address reaches no other node. */
static bool is_private(const struct pick_input *world, int pe, const struct net_candidate *nic)
{
    for (int other = 0; other < world->npes && nic->address; other++)
        for (int i = 0; i < world->all[other].count; i++)
            if (world->node_of[other] != world->node_of[pe] &&
                world->all[other].list[i].address == nic->address)
                return true;
    return false;
}

static bool lists_network(const struct net_candidates *candidates, uint64_t network)
{
    for (int i = 0; i < candidates->count; i++)
        if (candidates->list[i].network == network)
            return true;
    return false;
}

static bool is_common_network(const struct pick_input *world, uint64_t network)
{
    for (int pe = 0; pe < world->npes; pe++)
        if (!lists_network(&world->all[pe], network))
            return false;
    return true;
}

/* Bit per NIC of a PE: those with an address of their own, on a network that all PEs have. A
 * condition that no NIC meets is dropped. */
static uint32_t find_usable_nics(const struct pick_input *world, int pe)
{
    const struct net_candidates *candidates = &world->all[pe];
    uint32_t every = ((uint32_t)1 << candidates->count) - 1, open = 0, common = 0;
    for (int i = 0; i < candidates->count; i++)
        open |= (uint32_t)!is_private(world, pe, &candidates->list[i]) << i;
    open = open ? open : every;
    for (int i = 0; i < candidates->count; i++)
        if (open >> i & 1 &&
            (!candidates->list[i].network || is_common_network(world, candidates->list[i].network)))
            common |= (uint32_t)1 << i;
    return common ? common : open;
}

/* The network of all first rails; 0: any network. */
static uint64_t find_first_rail_network(const struct pick_input *world)
{
    const struct net_candidates *first = &world->all[0];
    uint32_t may = find_usable_nics(world, 0);
    int best = -1;
    for (int i = 0; i < first->count; i++) {
        const struct net_candidate *nic = &first->list[i];
        if (!(may >> i & 1) || !nic->network || !is_common_network(world, nic->network))
            continue;
        if (best < 0 || nic->mbps > first->list[best].mbps)
            best = i;
    }
    return best < 0 ? 0 : first->list[best].network;
}

/* --------------------------------------------------------------------------- division among PEs */

/* Number of PEs on the node that use each NIC. */
struct loads {
    uint64_t names[64];
    int load[64], count;
    int others; /* load of all NICs beyond the 64th */
};

static int *find_load(struct loads *loads, uint64_t name)
{
    int i = 0;
    while (i < loads->count && loads->names[i] != name)
        i++;
    if (i == loads->count) {
        if (i == (int)(sizeof loads->load / sizeof loads->load[0]))
            return &loads->others;
        loads->names[loads->count] = name;
        loads->load[loads->count++] = 0;
    }
    return &loads->load[i];
}

/* Index of the best NIC in `may`: the nearest, then the one with the lowest load, then the first in
 * the list. -1 if none. */
static int find_nearest(const struct net_candidates *candidates, uint32_t may, struct loads *loads)
{
    int best = -1;
    for (int i = 0; i < candidates->count; i++) {
        const struct net_candidate *nic = &candidates->list[i];
        if (!(may >> i & 1))
            continue;
        if (best < 0 || nic->distance < candidates->list[best].distance ||
            (nic->distance == candidates->list[best].distance &&
             *find_load(loads, nic->name) < *find_load(loads, candidates->list[best].name)))
            best = i;
    }
    return best;
}

static int count_equally_near(const struct net_candidates *candidates, uint32_t may, int which,
                              bool spreading)
{
    int n = 0;
    for (int i = 0; i < candidates->count && which >= 0; i++)
        n += may >> i & 1 && candidates->list[i].distance == candidates->list[which].distance &&
             (candidates->list[i].spreads || !spreading);
    return n;
}

static int count_local_pes(const struct pick_input *world, int pe)
{
    int n = 0;
    for (int other = 0; other < world->npes; other++)
        n += world->node_of[other] == world->node_of[pe];
    return n;
}

static int choose_rail_count(const struct pick_input *world, int pe, uint32_t may, int first)
{
    const struct net_candidates *candidates = &world->all[pe];
    int n = candidates->requested_rails;
    if (!n) {
        n = count_equally_near(candidates, may, first, true) / count_local_pes(world, pe);
        n = n > SHARE_MOST ? SHARE_MOST : n;
    }
    return n < 1 ? 1 : n > NET_RAILS ? NET_RAILS : n;
}

static uint32_t find_nics_of_network(const struct net_candidates *candidates, uint32_t may,
                                     uint64_t network)
{
    uint32_t mask = 0;
    for (int i = 0; i < candidates->count; i++)
        if (may >> i & 1 && (!network || candidates->list[i].network == network))
            mask |= (uint32_t)1 << i;
    return mask ? mask : may;
}

static void pick_for_pe(const struct pick_input *world, int pe, uint64_t network,
                        struct loads *loads, struct net_picked *picked)
{
    const struct net_candidates *candidates = &world->all[pe];
    uint32_t may = find_usable_nics(world, pe), left = may,
             first_rails = find_nics_of_network(candidates, may, network);
    int first = find_nearest(candidates, may, loads),
        rails = choose_rail_count(world, pe, may, first);
    *picked = (struct net_picked){
        .first_rail = -1, .equally_near = count_equally_near(candidates, may, first, false)};
    while (picked->count < rails) {
        int next = find_nearest(candidates, left, loads);
        if (next < 0)
            break;
        if (picked->first_rail < 0 && first_rails >> next & 1)
            picked->first_rail = next;
        picked->rails[picked->count++] = next;
        left &= ~((uint32_t)1 << next);
        ++*find_load(loads, candidates->list[next].name);
    }
    if (picked->first_rail < 0)
        picked->first_rail = find_nearest(candidates, first_rails, loads);
}

void net_pick(const struct net_candidates *all, const int *node_of, int npes, int pe,
              struct net_picked *picked)
{
    const struct pick_input world = {all, node_of, npes};
    uint64_t network = find_first_rail_network(&world);
    struct loads loads = {.count = 0};
    struct net_picked one;
    bool crowded = true;
    int local = 0;
    *picked = (struct net_picked){.first_rail = -1};
    for (int other = 0; other < npes; other++) {
        if (node_of[other] != node_of[pe])
            continue;
        pick_for_pe(&world, other, network, &loads, &one);
        local++;
        crowded &= one.count == 1 && one.rails[0] == one.first_rail;
        if (other == pe)
            *picked = one;
    }
    int used = 0;
    for (int i = 0; i < loads.count; i++)
        used += loads.load[i] > 0;
    picked->all_on_one_nic = crowded && local > 1 && used == 1;
}
