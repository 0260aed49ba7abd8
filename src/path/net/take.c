/* SPDX-License-Identifier: Apache-2.0 */
/* Which NICs this PE opens, of those that all PEs can use: finds out where they are, tells the
 * others of them, and says in words what came of it. The choice itself is pick.h. */
#include "path/net/offers.h"

#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "boot/agree.h"
#include "path/net/near.h"

#include <netinet/in.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------------- which of the NICs */

static uint64_t number_of(const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    uint64_t hash = 1469598103934665603u; /* FNV-1a */
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ at[i]) * 1099511628211u;
    return hash ? hash : 1;
}

static uint64_t address_number(const struct fi_info *info)
{
    const struct sockaddr_in *in = info->src_addr;
    const struct sockaddr_in6 *in6 = info->src_addr;
    if (info->addr_format == FI_SOCKADDR_IN && in)
        return number_of(&in->sin_addr, sizeof in->sin_addr);
    if (info->addr_format == FI_SOCKADDR_IN6 && in6)
        return number_of(&in6->sin6_addr, sizeof in6->sin6_addr);
    return 0;
}

static bool find_place(const struct fi_info *info, const char *interface, struct net_place *place)
{
    char address[24];
    const struct fi_bus_attr *bus = info->nic ? info->nic->bus_attr : NULL;
    if (!bus || bus->bus_type != FI_BUS_PCI)
        return net_place_of_interface("", interface, place);
    snprintf(address, sizeof address, "%04x:%02x:%02x.%x", bus->attr.pci.domain_id,
             bus->attr.pci.bus_id, bus->attr.pci.device_id, bus->attr.pci.function_id);
    return net_place_of_pci("", address, place);
}

bool net_cpus(const struct path_common *net, cpu_set_t *cpus)
{
    struct net_place place;
    const struct net_rail *home = &net->rails[0];
    return home->info && find_place(home->info, net_interface(home), &place) &&
           net_cpus_at("", &place, cpus);
}

/* One CPU drives all rails of a PE, and moves the data of such a provider itself: it can do more
 * than a slow NIC, and no more than a fast one. */
static bool spreads(const struct fi_info *info, const struct net_offer *offer, bool placed)
{
    enum { OF_ONE_CPU_MBPS = 25000 };
    return !net_cpu_moves(info) || (placed && offer->mbps && offer->mbps <= OF_ONE_CPU_MBPS);
}

static struct net_candidate candidate_of(const struct fi_info *info, const struct net_offer *offer,
                                         const struct net_spot *spot)
{
    struct net_place place = {.numa = -1};
    bool placed = find_place(info, offer->interface, &place);
    return (struct net_candidate){
        .name = number_of(offer->interface, strlen(offer->interface)),
        .network = offer->network[0] ? number_of(offer->network, strlen(offer->network)) : 0,
        .address = address_number(info),
        .mbps = offer->mbps,
        .near = (uint8_t)net_near(spot, &place),
        .spreads = spreads(info, offer, placed)};
}

static void find_spot(const struct path_world *world, struct net_spot *spot)
{
    enum { SIMT = 2 }; /* of WEFT_TARGET's words */
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    sched_getaffinity(0, sizeof cpus, &cpus);
    net_find_spot("", world->boot->local_pe, config_string(CONFIG_GPU),
                  config_choice(CONFIG_TARGET) == SIMT ? "" : getenv("CUDA_VISIBLE_DEVICES"), &cpus,
                  spot);
}

/* What this PE could take, in `taken` and as it tells of it; returns the wish for rails. */
static void tell(const struct path_world *world, const struct net_offers *offers, const int *taken,
                 int count, struct net_spot *spot, struct net_candidates *mine)
{
    find_spot(world, spot);
    mine->count = count;
    mine->rails = (int32_t)config_int(CONFIG_FABRIC_RAILS);
    for (int i = 0; i < count; i++)
        mine->list[i] = candidate_of(offers->info[taken[i]], &offers->offer[taken[i]], spot);
}

static weft_status divide(const struct path_world *world, const struct net_candidates *mine,
                          struct net_picked *picked)
{
    struct net_candidates *all = calloc((size_t)world->npes, sizeof *all);
    weft_status status =
        all ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %d PEs", world->npes);
    status = boot_agree(world->boot, status);
    if (!status)
        status = world->boot->ops->allgather(world->boot, mine, all, sizeof *mine);
    if (!status)
        net_pick(all, world->boot->node_of, world->npes, world->pe, picked);
    free(all);
    return status;
}

/* ------------------------------------------------------------------------------------- in words */

static size_t add(char *text, size_t bytes, const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, bytes - used, format, arguments);
    va_end(arguments);
    return strlen(text);
}

static void add_interfaces(char *text, size_t bytes, const struct net_offers *offers,
                           const int *taken, const int *which, int count)
{
    for (int i = 0; i < count; i++)
        add(text, bytes, "%s%s", i ? "," : "",
            offers->offer[taken[which ? which[i] : i]].interface);
}

/* What keys of registered memory leave to an outsider on that network. */
static void add_exposure(const struct fi_domain_attr *domain, char *text, size_t bytes)
{
    enum { ENOUGH_BYTES = 6 }; /* so many random ones are not guessed over a network */
    if (domain->mr_mode & FI_MR_PROV_KEY)
        add(text, bytes, "; it chooses memory keys itself: keep strangers off its network");
    else if (domain->mr_key_size < ENOUGH_BYTES)
        add(text, bytes,
            "; memory keys of %zu bytes can be guessed: keep strangers off its network",
            domain->mr_key_size);
}

/* "provider verbs;ofi_rxm on mlx5_0; of 4 the nearest to GPU 0000:3b:00.0 (PIX); large transfers
 * over mlx5_0,mlx5_1" */
static void describe(const struct net_offers *offers, const int *taken,
                     const struct net_candidates *mine, const struct net_picked *picked,
                     const struct net_spot *spot, char *text, size_t bytes)
{
    const struct net_candidate *home = &mine->list[picked->home];
    net_offer_text(&offers->offer[taken[picked->home]], text, bytes);
    if (mine->count > 1 && home->near == NET_NEAR_UNKNOWN)
        add(text, bytes, "; one of %d at a distance that is not told", mine->count);
    else if (mine->count > 1 && picked->rails[0] == picked->home)
        add(text, bytes,
            picked->equal > 1 ? "; one of %d as near to %s (%s)" : "; of %d the nearest to %s (%s)",
            picked->equal > 1 ? picked->equal : mine->count, spot->text,
            net_near_name((enum net_near)home->near));
    if (picked->count > 1 || picked->rails[0] != picked->home) {
        add(text, bytes, "; large transfers over ");
        add_interfaces(text, bytes, offers, taken, picked->rails, picked->count);
    }
    add_exposure(offers->info[taken[picked->home]]->domain_attr, text, bytes);
}

/* What is wrong with all PEs of a node on one NIC, told by one of them. */
static void warn_of_crowd(const struct path_world *world, const struct net_wish *wish,
                          const struct net_offers *offers, const struct net_common *both,
                          const char *interface)
{
    const struct net_wish anything = {
        .provider = wish->provider, .interface = "", .nodes = wish->nodes};
    int every[NET_CANDIDATES];
    char names[128] = "";
    int count = net_choose_offers(offers->offer, offers->count, &anything, both->rows,
                                  both->networks, every, NET_CANDIDATES);
    if (count < 2)
        return;
    add_interfaces(names, sizeof names, offers, every, NULL, count);
    log_warn("path net: all %d PEs of this node use %s alone, while %s can be used; %s",
             world->boot->local_npes, interface, names,
             wish->interface[0]
                 ? "with all of them in WEFT_FABRIC_INTERFACE, or without it, each PE takes the "
                   "nearest"
                 : "bind the PEs to CPUs or GPUs that are near different ones, or set "
                   "WEFT_FABRIC_RAILS=2 or more to spread large transfers");
}

/* --------------------------------------------------------------------------------------- taking */

static struct fi_info *copy_info(const struct fabric *lib, const struct fi_info *info)
{
    struct fi_info single = *info;
    single.next = NULL;
    return lib->dupinfo(&single);
}

static void add_nic(struct net_taken *keeps, const struct fabric *lib,
                    const struct net_offers *offers, const int *taken,
                    const struct net_candidates *mine, int which)
{
    keeps->network[keeps->count] = mine->list[which].network;
    keeps->mbps[keeps->count] = mine->list[which].mbps;
    keeps->info[keeps->count++] = copy_info(lib, offers->info[taken[which]]);
}

/* Home first, then what large transfers go over besides. */
static weft_status keep(const struct fabric *lib, const struct net_offers *offers, const int *taken,
                        const struct net_candidates *mine, const struct net_picked *picked,
                        struct net_taken **result)
{
    struct net_taken *keeps = calloc(1, sizeof *keeps);
    *result = keeps;
    if (!keeps)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a list of NICs");
    add_nic(keeps, lib, offers, taken, mine, picked->home);
    for (int i = 0; i < picked->count && keeps->count < NET_RAILS; i++)
        if (picked->rails[i] == picked->home)
            keeps->home_carries = true;
        else
            add_nic(keeps, lib, offers, taken, mine, picked->rails[i]);
    for (int i = 0; i < keeps->count; i++)
        if (!keeps->info[i])
            return base_fail(WEFT_ERR_NO_MEMORY, "fi_dupinfo: no memory");
    return WEFT_OK;
}

weft_status net_take(const struct path_world *world, const struct fabric *lib,
                     const struct net_wish *wish, const struct net_offers *offers,
                     const struct net_common *both, struct net_taken **result, char *has,
                     size_t bytes)
{
    struct net_candidates mine = {0};
    struct net_picked picked;
    struct net_spot spot;
    int taken[NET_CANDIDATES];
    int count = net_choose_offers(offers->offer, offers->count, wish, both->rows, both->networks,
                                  taken, NET_CANDIDATES);
    tell(world, offers, taken, count, &spot, &mine);
    weft_status status = divide(world, &mine, &picked);
    if (status || picked.home < 0)
        return status;
    describe(offers, taken, &mine, &picked, &spot, has, bytes);
    if (picked.crowded && world->boot->local_pe == 0 && wish->nodes)
        warn_of_crowd(world, wish, offers, both, offers->offer[taken[picked.home]].interface);
    return keep(lib, offers, taken, &mine, &picked, result);
}

void net_drop_taken(void *keeps)
{
    struct net_taken *taken = keeps;
    const struct fabric *lib;
    for (int i = 0; taken && i < taken->count && fabric_open(&lib) == WEFT_OK; i++)
        if (taken->info[i])
            lib->freeinfo(taken->info[i]);
    free(taken);
}
