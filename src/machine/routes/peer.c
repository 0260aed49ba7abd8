/* SPDX-License-Identifier: Apache-2.0 */
/* Peer-to-peer over PCIe: which way it goes, and what that costs. Within a switch it is direct; ACS
 * and a translating IOMMU send it up to the root complex and back; between two CPU packages it
 * crosses their interconnect. The figures are those of facts.h. See routes.h. */
#include "machine/routes/routes.h"

#include <stdio.h>
#include <string.h>

#include "machine/facts.h"

/* Two NUMA nodes may be of one package or of two; one node, or none that is known, is taken to be
 * in one. */
static enum answer crosses_packages(const struct machine *machine, const struct machine_pci *a,
                                    const struct machine_pci *b)
{
    int64_t node_a = routes_numa(machine, a), node_b = routes_numa(machine, b);
    int64_t x = routes_package(machine, node_a), y = routes_package(machine, node_b);
    if (x >= 0 && y >= 0)
        return x != y ? ANSWER_YES : ANSWER_NO;
    return node_a >= 0 && node_b >= 0 && node_a != node_b ? ANSWER_UNKNOWN : ANSWER_NO;
}

/* Devices of a guest are passed through: what they send each other goes by the host's IOMMU. */
static bool is_guest(const struct machine *machine)
{
    const char *hypervisor = text_or(machine->system.hypervisor, "none");
    return strcmp(hypervisor, "none") != 0;
}

struct peer_way routes_peer_way(const struct machine *machine, const struct machine_pci *a,
                                const struct machine_pci *b)
{
    struct peer_way way = {.crosses = ANSWER_NO};
    if (!a || !b)
        return way;
    const struct machine_pci *common = routes_common_bridge(machine, a, b), *bridge;
    bool here = text_is(machine->system.iommu_mode, "translated");
    /* addresses that only the IOMMU knows lie in no window of the switch: it passes them upwards */
    way.redirected = common && (here || routes_acs_bridges(machine, a, common, &bridge, 1) ||
                                routes_acs_bridges(machine, b, common, &bridge, 1));
    way.translated = here || (is_guest(machine) && machine_is_flat(machine));
    if (!common)
        way.crosses = crosses_packages(machine, a, b);
    return way;
}

/* The line of this CPU; where it is not known, of its kind of interconnect that which gives
 * least. */
static const struct fact_socket *socket_of(const struct machine *machine)
{
    const struct fact_socket *found = fact_find_socket(machine);
    for (int i = 0; !fact_find_socket(machine) && i < fact_n_sockets; i++)
        if (text_is(machine->system.socket_link, fact_sockets[i].kind) &&
            fact_sockets[i].peer_mbps && (!found || fact_sockets[i].peer_mbps < found->peer_mbps))
            found = &fact_sockets[i];
    return found;
}

/* Neither more than was seen, nor a greater part than was seen. */
static int64_t bound_across(const struct machine *machine, int64_t mbps, char *limit, size_t size)
{
    const struct fact_socket *socket = socket_of(machine);
    int64_t most = socket && socket->peer_mbps ? socket->peer_mbps : mbps;
    int64_t line = number_or(machine->system.socket_link_mbps, most);
    int64_t part = socket && socket->peer_of_mbps ? mbps * socket->peer_mbps / socket->peer_of_mbps
                                                  : mbps * FACT_SOCKET_PERMILLE / 1000;
    snprintf(limit, size, "CPU interconnect between packages");
    mbps = part < most ? part : most;
    return mbps < line ? mbps : line;
}

/* The part that is left of a rate: of two causes at one place the worse one bounds it. */
static int64_t part_left(const struct machine *machine, struct peer_way way, int redirect,
                         char *limit, size_t size)
{
    /* a host maps a guest's memory in large pages, which cost latency and no rate */
    bool here = text_is(machine->system.iommu_mode, "translated");
    int64_t left = way.redirected ? redirect : 1000;
    if (way.redirected)
        snprintf(limit, size, "redirected to the root complex");
    if (here && FACT_IOMMU_PERMILLE < left) {
        snprintf(limit, size, "translation by the IOMMU");
        left = FACT_IOMMU_PERMILLE;
    }
    return left;
}

int64_t routes_peer_mbps(const struct machine *machine, const struct machine_pci *a,
                         const struct machine_pci *b, int redirect, char *limit, size_t size)
{
    struct peer_way way = routes_peer_way(machine, a, b);
    const struct machine_pci *stop = way.redirected ? NULL : routes_common_bridge(machine, a, b);
    char other[96];
    int64_t x = routes_pcie_mbps_to(machine, a, stop, limit, size);
    int64_t y = routes_pcie_mbps_to(machine, b, stop, other, sizeof other);
    if (!x || !y)
        return 0;
    if (y < x)
        snprintf(limit, size, "%s", other);
    int64_t mbps = x < y ? x : y;
    if (way.crosses == ANSWER_UNKNOWN) {
        snprintf(limit, size, "whether it crosses CPU packages is not known");
        return 0;
    }
    if (way.crosses == ANSWER_YES)
        mbps = bound_across(machine, mbps, limit, size);
    return mbps * part_left(machine, way, redirect, limit, size) / 1000;
}

int64_t routes_peer_extra_ns(struct peer_way way)
{
    return (way.redirected ? FACT_REDIRECT_LATENCY_NS : 0) +
           (way.translated ? FACT_IOMMU_LATENCY_NS : 0) +
           (way.crosses != ANSWER_NO ? FACT_SOCKET_LATENCY_NS : 0);
}
