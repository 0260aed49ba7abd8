/* SPDX-License-Identifier: Apache-2.0 */
/* The route of PCIe peer-to-peer traffic and its cost. Within a switch the traffic is direct. ACS
 * and a translating IOMMU redirect it to the root complex and back. Between two CPU packages it
 * crosses their interconnect. The figures are in facts.h. See routes.h. */
#include "machine/routes/routes.h"

#include <stdio.h>
#include <string.h>

#include "machine/facts.h"

/* Whether the route crosses two CPU packages. Two NUMA nodes of unknown packages: unknown. One
 * node, or an unknown node: no. */
static enum answer crosses_packages(const struct machine *machine, const struct machine_pci *a,
                                    const struct machine_pci *b)
{
    int64_t node_a = routes_numa(machine, a), node_b = routes_numa(machine, b);
    int64_t x = routes_package(machine, node_a), y = routes_package(machine, node_b);
    if (x >= 0 && y >= 0)
        return x != y ? ANSWER_YES : ANSWER_NO;
    return node_a >= 0 && node_b >= 0 && node_a != node_b ? ANSWER_UNKNOWN : ANSWER_NO;
}

/* In a guest, devices are passed through, and the host's IOMMU translates their peer traffic. */
static bool is_guest(const struct machine *machine)
{
    const char *hypervisor = text_or(machine->system.hypervisor, "none");
    return strcmp(hypervisor, "none") != 0;
}

struct peer_route routes_peer_route(const struct machine *machine, const struct machine_pci *a,
                                    const struct machine_pci *b)
{
    struct peer_route route = {.crosses = ANSWER_NO};
    if (!a || !b)
        return route;
    const struct machine_pci *common = routes_common_bridge(machine, a, b), *bridge;
    bool here = text_is(machine->system.iommu_mode, "translated");
    /* an I/O virtual address is in no address window of the switch, so it forwards it upstream */
    route.redirected = common && (here || routes_acs_bridges(machine, a, common, &bridge, 1) ||
                                  routes_acs_bridges(machine, b, common, &bridge, 1));
    route.translated = here || (is_guest(machine) && machine_is_flat(machine));
    if (!common)
        route.crosses = crosses_packages(machine, a, b);
    return route;
}

/* The table entry of this CPU. For an unknown CPU: the entry with the lowest peer rate of the same
 * kind of interconnect. */
static const struct fact_socket *socket_of(const struct machine *machine)
{
    const struct fact_socket *found = fact_find_socket(machine);
    for (int i = 0; !fact_find_socket(machine) && i < fact_n_sockets; i++)
        if (text_is(machine->system.socket_link, fact_sockets[i].kind) &&
            fact_sockets[i].peer_mbps && (!found || fact_sockets[i].peer_mbps < found->peer_mbps))
            found = &fact_sockets[i];
    return found;
}

/* Bounds a rate across two CPU packages by the highest rate that was measured on such a machine,
 * and by the highest measured fraction of the PCIe rate. */
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

/* Permille of the rate that is left after redirection and translation; the worse of the two counts.
 */
static int64_t permille_left(const struct machine *machine, struct peer_route route, int redirect,
                             char *limit, size_t size)
{
    /* a host maps a guest's memory in large pages, which cost latency but no bandwidth */
    bool here = text_is(machine->system.iommu_mode, "translated");
    int64_t left = route.redirected ? redirect : 1000;
    if (route.redirected)
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
    struct peer_route route = routes_peer_route(machine, a, b);
    const struct machine_pci *stop = route.redirected ? NULL : routes_common_bridge(machine, a, b);
    char other[96];
    int64_t x = routes_pcie_mbps_to(machine, a, stop, limit, size);
    int64_t y = routes_pcie_mbps_to(machine, b, stop, other, sizeof other);
    if (!x || !y)
        return 0;
    if (y < x)
        snprintf(limit, size, "%s", other);
    int64_t mbps = x < y ? x : y;
    if (route.crosses == ANSWER_UNKNOWN) {
        snprintf(limit, size, "unknown whether it crosses CPU packages");
        return 0;
    }
    if (route.crosses == ANSWER_YES)
        mbps = bound_across(machine, mbps, limit, size);
    return mbps * permille_left(machine, route, redirect, limit, size) / 1000;
}

int64_t routes_peer_extra_ns(struct peer_route route)
{
    return (route.redirected ? FACT_REDIRECT_LATENCY_NS : 0) +
           (route.translated ? FACT_IOMMU_LATENCY_NS : 0) +
           (route.crosses != ANSWER_NO ? FACT_SOCKET_LATENCY_NS : 0);
}
