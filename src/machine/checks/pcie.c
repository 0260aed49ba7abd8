/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the PCIe route between two devices, and of the links of one. See checks.h. */
#include "machine/checks/checks.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "machine/pci_config.h"

static void describe_acs(int64_t control, char *text, size_t size)
{
    snprintf(text, size, "ACSCtl %s%s%s%s0x%02" PRIx64, control & ACS_RR ? "ReqRedir+ " : "",
             control & ACS_CR ? "CmpltRedir+ " : "", control & ACS_EC ? "EgressCtrl+ " : "",
             control & ACS_UF ? "UpstreamFwd+ " : "", control);
}

/* Repairs all bridges of the route: without redirection at one bridge alone nothing gets faster. */
static void repair_acs(const struct machine_pci *const *bridges, int n, struct finding *finding)
{
    enum { NAMED_MOST = 8 };
    for (int i = 0; n <= NAMED_MOST && i < n; i++)
        finding_repair(finding, "drop acs %s", text_or(bridges[i]->bdf, "?"));
    if (n > NAMED_MOST)
        finding_repair(finding, "drop acs all");
}

static void check_acs_read(const struct machine *machine, const struct machine_pci *device,
                           const struct machine_pci *stop, struct findings *findings)
{
    for (const struct machine_pci *at = machine_find_pci(machine, device->parent.value);
         at && at != stop; at = machine_find_pci(machine, at->parent.value))
        if (!at->acs_control.known && !number_is(at->acs, 0) &&
            (text_is(at->kind, "downstream") || text_is(at->kind, "root-port")))
            finding_add(findings, REASON_PCIE_READ, WEIGHT_UNKNOWN, NULL, "ACS of %s: %s",
                        text_or(at->bdf, "?"), why_unknown(at->acs_control.why));
}

/* Adds a finding when the two devices share no root complex: the CPU or the interconnect between
 * CPU packages carries their peer traffic. */
static void check_roots(const struct machine *machine, const struct endpoint *a,
                        const struct endpoint *b, enum weight weight, struct findings *findings)
{
    const char *x = text_or(a->pci->root, ""), *y = text_or(b->pci->root, "");
    bool crosses = routes_peer_route(machine, a->pci, b->pci).crosses == ANSWER_YES;
    if (!*x || !*y || strcmp(x, y) == 0 || findings_have(findings, REASON_P2P_SOCKET))
        return;
    char limit[96], rate[48] = "", what[64] = "the CPU forwards their traffic";
    int64_t mbps = routes_peer_mbps(machine, a->pci, b->pci, 1000, limit, sizeof limit);
    if (mbps)
        snprintf(rate, sizeof rate, "; %.1f GB/s at most", (double)mbps / 1000);
    if (crosses)
        snprintf(what, sizeof what, "their CPU packages are connected by %s",
                 text_or(machine->system.socket_link, "an unknown interconnect"));
    finding_add(findings, REASON_P2P_ROOTS, crosses ? weight : WEIGHT_NOTE, NULL,
                "%s is below root complex %s, %s below %s, %s%s", a->name, x, b->name, y, what,
                rate);
}

void check_pcie_route(const struct machine *machine, const struct endpoint *a,
                      const struct endpoint *b, enum weight weight, struct findings *findings)
{
    const struct machine_pci *bridges[32];
    if (!a->pci || !b->pci)
        return;
    const struct machine_pci *common = routes_common_bridge(machine, a->pci, b->pci);
    int n = routes_acs_bridges(machine, a->pci, common, bridges, 16);
    n += routes_acs_bridges(machine, b->pci, common, bridges + n, 16);
    /* a translating IOMMU redirects by itself, so its finding comes first and repairs ACS as well
     */
    if (text_is(machine->system.iommu_mode, "translated")) {
        struct finding *f = finding_add(findings, REASON_P2P_IOMMU, weight, NULL,
                                        "IOMMU groups are of type DMA; kernel options \"%s\"",
                                        text_or(machine->system.iommu_options, ""));
        finding_repair(f, "set iommu passthrough");
        if (text_is(machine->system.arch, "aarch64"))
            finding_remedy(f, "add iommu.passthrough=1 to the kernel command line", "");
        repair_acs(bridges, n, f);
    }
    for (int i = 0; i < n; i++) {
        char bits[80];
        /* traffic that crosses the root complex anyway is not slowed by redirection in a switch */
        bool matters = common || text_is(bridges[i]->kind, "root-port");
        describe_acs(bridges[i]->acs_control.value, bits, sizeof bits);
        repair_acs(bridges, n,
                   finding_add(findings, REASON_P2P_ACS, matters ? weight : WEIGHT_NOTE,
                               text_or(bridges[i]->bdf, "?"), "%s %s has %s",
                               text_or(bridges[i]->kind, "bridge"), text_or(bridges[i]->bdf, "?"),
                               bits));
    }
    if (!common)
        check_roots(machine, a, b, weight, findings);
    check_acs_read(machine, a->pci, common, findings);
    check_acs_read(machine, b->pci, common, findings);
}

static void check_port_link(const struct machine_pci *pci, const struct machine_pci *above,
                            bool may_idle, struct findings *findings)
{
    int64_t width = number_or(pci->width_max, 0), gen = number_or(pci->gen_max, 0);
    if (number_or(above->width_max, width) < width)
        width = above->width_max.value;
    if (number_or(above->gen_max, gen) < gen)
        gen = above->gen_max.value;
    if (pci->width.known && width && pci->width.value < width)
        finding_repair(finding_add(findings, REASON_PCIE_WIDTH, WEIGHT_SLOW, pci->bdf.value,
                                   "%s runs with %" PRId64 " of %" PRId64 " lanes", pci->bdf.value,
                                   pci->width.value, width),
                       "width %s %" PRId64, pci->bdf.value, width);
    if (!may_idle && pci->gen.known && gen && pci->gen.value < gen)
        finding_repair(finding_add(findings, REASON_PCIE_GEN, WEIGHT_SLOW, text_or(above->bdf, "?"),
                                   "%s runs at generation %" PRId64 " of %" PRId64, pci->bdf.value,
                                   pci->gen.value, gen),
                       "set pci[%s].gen %" PRId64, pci->bdf.value, gen);
}

void check_pcie(const struct machine *machine, const struct endpoint *device,
                struct findings *findings)
{
    bool gpu = device->kind == ENDPOINT_GPU;
    if (!device->pci)
        return;
    size_t nodes = machine_count_host_numa(machine);
    if (nodes > 1 && routes_numa(machine, device->pci) < 0)
        finding_add(findings, REASON_NUMA_UNKNOWN, WEIGHT_SLOW, device->name,
                    "%s (%s): numa_node is -1 on %zu nodes", device->name,
                    text_or(device->pci->bdf, "?"), nodes);
    for (const struct machine_pci *at = device->pci; at && at->bdf.value;
         at = machine_find_pci(machine, at->parent.value)) {
        const struct machine_pci *above = machine_find_pci(machine, at->parent.value);
        bool top = text_is(at->kind, "downstream") || text_is(at->kind, "root-port");
        /* ports of a virtual machine report made-up speeds */
        if (above && !top && !machine_is_flat(machine))
            check_port_link(at, above, gpu, findings);
    }
}
