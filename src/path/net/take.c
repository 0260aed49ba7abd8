/* SPDX-License-Identifier: Apache-2.0 */
/* Selects the NICs that this PE opens, of those that all PEs can use: locates them, exchanges their
 * description with all PEs, and describes the selection. The choice itself is in pick.c. */
#include "path/net/offers.h"

#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "boot/agree.h"
#include "path/net/encrypt.h"
#include "path/net/near.h"

#include <netinet/in.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------- location of the NICs */

static uint64_t hash_bytes(const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    uint64_t hash = 1469598103934665603u; /* FNV-1a */
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ at[i]) * 1099511628211u;
    return hash ? hash : 1;
}

static uint64_t hash_address(const struct fi_info *info)
{
    const struct sockaddr_in *in = info->src_addr;
    const struct sockaddr_in6 *in6 = info->src_addr;
    if (info->addr_format == FI_SOCKADDR_IN && in)
        return hash_bytes(&in->sin_addr, sizeof in->sin_addr);
    if (info->addr_format == FI_SOCKADDR_IN6 && in6)
        return hash_bytes(&in6->sin6_addr, sizeof in6->sin6_addr);
    return 0;
}

static bool locate_nic(const struct fi_info *info, const char *interface,
                       struct net_device_location *location)
{
    char address[24];
    const struct fi_bus_attr *bus = info->nic ? info->nic->bus_attr : NULL;
    if (!bus || bus->bus_type != FI_BUS_PCI)
        return net_locate_interface("", interface, location);
    snprintf(address, sizeof address, "%04x:%02x:%02x.%x", bus->attr.pci.domain_id,
             bus->attr.pci.bus_id, bus->attr.pci.device_id, bus->attr.pci.function_id);
    return net_locate_pci("", address, location);
}

bool net_cpus(const struct path_common *net, cpu_set_t *cpus)
{
    struct net_device_location location;
    const struct net_rail *first = &net->rails[0];
    return first->info && locate_nic(first->info, net_interface_name(first), &location) &&
           net_cpus_at("", &location, cpus);
}

/* One CPU drives all rails of a PE, and moves the data itself with such a provider: that CPU is
 * faster than a slow NIC, and not faster than a fast one. */
static bool gains_by_spreading(const struct fi_info *info, const struct net_provider_entry *entry,
                               bool placed)
{
    enum { OF_ONE_CPU_MBPS = 25000 };
    return !net_cpu_executes_rma(info) || (placed && entry->mbps && entry->mbps <= OF_ONE_CPU_MBPS);
}

static struct net_candidate make_candidate(const struct fi_info *info,
                                           const struct net_provider_entry *entry,
                                           const struct net_pe_location *location)
{
    struct net_device_location nic = {.numa = -1};
    bool placed = locate_nic(info, entry->interface, &nic);
    return (struct net_candidate){
        .name = hash_bytes(entry->interface, strlen(entry->interface)),
        .network = entry->network[0] ? hash_bytes(entry->network, strlen(entry->network)) : 0,
        .address = hash_address(info),
        .mbps = entry->mbps,
        .distance = (uint8_t)net_find_distance(location, &nic),
        .spreads = gains_by_spreading(info, entry, placed)};
}

static void locate_own_pe(const struct path_world *world, struct net_pe_location *location)
{
    enum { SIMT = 2 }; /* index of "simt" in WEFT_TARGET's list */
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    sched_getaffinity(0, sizeof cpus, &cpus);
    net_locate_pe("", world->boot->local_pe, config_string(CONFIG_GPU),
                  config_choice(CONFIG_TARGET) == SIMT ? "" : getenv("CUDA_VISIBLE_DEVICES"), &cpus,
                  location);
}

/* Describes the NICs that this PE could use, those in `chosen`, as its exchange record. */
static void list_candidates(const struct path_world *world,
                            const struct net_provider_list *providers, const int *chosen, int count,
                            struct net_pe_location *location, struct net_candidates *mine)
{
    locate_own_pe(world, location);
    mine->count = count;
    mine->requested_rails = config_choice(CONFIG_RAILS);
    for (int i = 0; i < count; i++)
        mine->list[i] =
            make_candidate(providers->info[chosen[i]], &providers->entry[chosen[i]], location);
}

static weft_status divide_nics(const struct path_world *world, const struct net_candidates *mine,
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

/* ---------------------------------------------------------------------------------- description */

static size_t append_text(char *text, size_t bytes, const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, bytes - used, format, arguments);
    va_end(arguments);
    return strlen(text);
}

static void append_interfaces(char *text, size_t bytes, const struct net_provider_list *providers,
                              const int *chosen, const int *which, int count)
{
    for (int i = 0; i < count; i++)
        append_text(text, bytes, "%s%s", i ? "," : "",
                    providers->entry[chosen[which ? which[i] : i]].interface);
}

/* Adds a warning if another program on that network can guess the keys of registered memory. */
static void append_exposure(const struct fi_domain_attr *domain, char *text, size_t bytes)
{
    enum { ENOUGH_BYTES = 6 }; /* random keys of this length cannot be guessed over a network */
    if (domain->mr_mode & FI_MR_PROV_KEY)
        append_text(text, bytes,
                    "; it chooses memory keys itself: keep untrusted hosts off its network");
    else if (domain->mr_key_size < ENOUGH_BYTES)
        append_text(
            text, bytes,
            "; memory keys of %zu bytes can be guessed: keep untrusted hosts off its network",
            domain->mr_key_size);
}

/* "provider verbs;ofi_rxm on mlx5_0; of 4 the nearest to GPU 0000:3b:00.0 (PIX); large transfers
 * over mlx5_0,mlx5_1" */
static void describe_selection(const struct net_provider_list *providers, const int *chosen,
                               const struct net_candidates *mine, const struct net_picked *picked,
                               const struct net_pe_location *location, char *text, size_t bytes)
{
    const struct net_candidate *first = &mine->list[picked->first_rail];
    net_entry_text(&providers->entry[chosen[picked->first_rail]], text, bytes);
    if (mine->count > 1 && first->distance == NET_DISTANCE_UNKNOWN)
        append_text(text, bytes, "; one of %d at unknown distance", mine->count);
    else if (mine->count > 1 && picked->rails[0] == picked->first_rail)
        append_text(text, bytes,
                    picked->equally_near > 1 ? "; one of %d as near to %s (%s)"
                                             : "; of %d the nearest to %s (%s)",
                    picked->equally_near > 1 ? picked->equally_near : mine->count, location->text,
                    net_distance_name((enum net_distance)first->distance));
    if (picked->count > 1 || picked->rails[0] != picked->first_rail) {
        append_text(text, bytes, "; large transfers over ");
        append_interfaces(text, bytes, providers, chosen, picked->rails, picked->count);
    }
    if (net_is_encryption_wanted())
        append_text(text, bytes, "; encrypted (AES-256-GCM)");
    else
        append_exposure(providers->info[chosen[picked->first_rail]]->domain_attr, text, bytes);
}

/* Warns that all PEs of the node use one NIC; one of them reports it. */
static void warn_shared_nic(const struct path_world *world, const struct net_config *config,
                            const struct net_provider_list *providers,
                            const struct net_exchange_record *all_pes, const char *interface)
{
    const struct net_config anything = {
        .provider = config->provider, .interface = "", .nodes = config->nodes};
    int every[NET_CANDIDATES];
    char names[128] = "";
    int count = net_choose_entries(providers->entry, providers->count, &anything, all_pes->rows,
                                   all_pes->networks, every, NET_CANDIDATES);
    if (count < 2)
        return;
    append_interfaces(names, sizeof names, providers, every, NULL, count);
    log_warn(LOG_NET, "path net: all %d PEs of this node use %s alone, while %s can be used; %s",
             world->boot->local_npes, interface, names,
             config->interface[0]
                 ? "list all of them in WEFT_FABRIC_INTERFACE, or unset it, so that each PE takes "
                   "the nearest"
                 : "bind the PEs to CPUs or GPUs near different NICs, or set "
                   "WEFT_RAILS=2 or more to spread large transfers");
}

/* ------------------------------------------------------------------------------------ selection */

static struct fi_info *copy_info(const struct fabric *lib, const struct fi_info *info)
{
    struct fi_info single = *info;
    single.next = NULL;
    return lib->dupinfo(&single);
}

static void add_nic(struct net_selection *selection, const struct fabric *lib,
                    const struct net_provider_list *providers, const int *chosen,
                    const struct net_candidates *mine, int which)
{
    selection->network[selection->count] = mine->list[which].network;
    selection->mbps[selection->count] = mine->list[which].mbps;
    selection->info[selection->count++] = copy_info(lib, providers->info[chosen[which]]);
}

/* The NIC that carries messages first, then the others for large transfers. */
static weft_status make_selection(const struct fabric *lib,
                                  const struct net_provider_list *providers, const int *chosen,
                                  const struct net_candidates *mine,
                                  const struct net_picked *picked, struct net_selection **result)
{
    struct net_selection *selection = calloc(1, sizeof *selection);
    *result = selection;
    if (!selection)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a list of NICs");
    add_nic(selection, lib, providers, chosen, mine, picked->first_rail);
    for (int i = 0; i < picked->count && selection->count < NET_RAILS; i++)
        if (picked->rails[i] == picked->first_rail)
            selection->first_rail_carries = true;
        else
            add_nic(selection, lib, providers, chosen, mine, picked->rails[i]);
    for (int i = 0; i < selection->count; i++)
        if (!selection->info[i])
            return base_fail(WEFT_ERR_NO_MEMORY, "fi_dupinfo: no memory");
    return WEFT_OK;
}

weft_status net_select_nics(const struct path_world *world, const struct fabric *lib,
                            const struct net_config *config,
                            const struct net_provider_list *providers,
                            const struct net_exchange_record *all_pes,
                            struct net_selection **result, char *has, size_t bytes)
{
    struct net_candidates mine = {0};
    struct net_picked picked;
    struct net_pe_location location;
    int chosen[NET_CANDIDATES];
    int count = net_choose_entries(providers->entry, providers->count, config, all_pes->rows,
                                   all_pes->networks, chosen, NET_CANDIDATES);
    list_candidates(world, providers, chosen, count, &location, &mine);
    weft_status status = divide_nics(world, &mine, &picked);
    if (status || picked.first_rail < 0)
        return status;
    describe_selection(providers, chosen, &mine, &picked, &location, has, bytes);
    if (picked.all_on_one_nic && world->boot->local_pe == 0 && config->nodes)
        warn_shared_nic(world, config, providers, all_pes,
                        providers->entry[chosen[picked.first_rail]].interface);
    return make_selection(lib, providers, chosen, &mine, &picked, result);
}

void net_free_selection(void *opaque)
{
    struct net_selection *selection = opaque;
    const struct fabric *lib;
    for (int i = 0; selection && i < selection->count && fabric_open(&lib) == WEFT_OK; i++)
        if (selection->info[i])
            lib->freeinfo(selection->info[i]);
    free(selection);
}
