/* SPDX-License-Identifier: Apache-2.0 */
/* The long lists of `weft topo`: the PCI tree, every link, every path of every pair. */
#include "topo/topo.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"
#include "machine/pci_config.h"
#include "machine_options.h"

/* --- tree ------------------------------------------------------------------------------------- */

static const char *device_name(const struct machine *m, const struct machine_pci *pci)
{
    static char name[128];
    for (size_t i = 0; i < m->n_gpus; i++)
        if (text_is(m->gpus[i].bdf, pci->bdf.value)) {
            snprintf(name, sizeof name, "gpu%" PRId64 " %s", number_or(m->gpus[i].index, -1),
                     text_or(m->gpus[i].name, ""));
            return name;
        }
    for (size_t i = 0; i < m->n_nics; i++)
        if (text_is(m->nics[i].bdf, pci->bdf.value))
            return text_or(m->nics[i].name, "nic");
    for (size_t i = 0; i < m->n_disks; i++)
        if (text_is(m->disks[i].bdf, pci->bdf.value))
            return text_or(m->disks[i].name, "disk");
    for (size_t i = 0; i < m->n_interfaces; i++)
        if (text_is(m->interfaces[i].bdf, pci->bdf.value))
            return text_or(m->interfaces[i].name, "interface");
    return text_or(pci->kind, "device");
}

static void acs_text(const struct machine_pci *pci, char *text, size_t size)
{
    static const struct {
        int bit;
        const char *name;
    } bits[] = {{ACS_SV, "SrcValid"},   {ACS_TB, "TransBlk"},    {ACS_RR, "ReqRedir"},
                {ACS_CR, "CmpltRedir"}, {ACS_UF, "UpstreamFwd"}, {ACS_EC, "EgressCtrl"},
                {ACS_DT, "DirectTrans"}};
    text[0] = '\0';
    if (!pci->acs_control.known || pci->acs_control.value == 0)
        return;
    size_t used = (size_t)snprintf(text, size, " ACS");
    for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++)
        if (pci->acs_control.value & bits[i].bit)
            used += (size_t)snprintf(text + used, size - used, " %s+", bits[i].name);
}

static void print_pci_device(const struct machine *m, const struct machine_pci *pci, int depth,
                             FILE *to)
{
    char link[48] = "", can[48] = "", group[48] = "", clique[48] = "", acs[128];
    if (pci->gen.known && pci->width.known) {
        snprintf(link, sizeof link, ", PCIe %" PRId64 " x%" PRId64, pci->gen.value,
                 pci->width.value);
        if (number_or(pci->gen_max, 0) > pci->gen.value ||
            number_or(pci->width_max, 0) > pci->width.value)
            snprintf(can, sizeof can, " (can %" PRId64 " x%" PRId64 ")", number_or(pci->gen_max, 0),
                     number_or(pci->width_max, 0));
    }
    if (number_or(pci->iommu_group, -1) >= 0)
        snprintf(group, sizeof group, ", IOMMU group %" PRId64, pci->iommu_group.value);
    if (pci->p2p_clique.known)
        snprintf(clique, sizeof clique, ", P2P clique %" PRId64, pci->p2p_clique.value);
    acs_text(pci, acs, sizeof acs);
    int indent = 2 * depth < columns_limit() / 2 ? 2 * depth : columns_limit() / 2;
    columns_print(to, indent + 4, "%*s%s %s%s%s%s%s%s", indent, "", text_or(pci->bdf, "?"),
                  device_name(m, pci), link, can, group, clique, acs);
    for (size_t i = 0; i < m->n_pci && depth < 64; i++)
        if (text_is(m->pci[i].parent, text_or(pci->bdf, "?")))
            print_pci_device(m, &m->pci[i], depth + 1, to);
}

enum { COUNT_BYTES = 24 };

/* A number, or "?" when unknown: 0 would claim a value that was not read. */
static const char *count_text(struct machine_number number, int shift, char text[COUNT_BYTES])
{
    snprintf(text, COUNT_BYTES, number.known ? "%" PRId64 : "?", number.value >> shift);
    return text;
}

static void print_cpus(const struct machine *m, FILE *to)
{
    char one[COUNT_BYTES], two[COUNT_BYTES];
    for (size_t i = 0; i < m->n_packages; i++)
        fprintf(to, "package %" PRId64 ": %s cores, %s threads\n",
                number_or(m->packages[i].index, -1), count_text(m->packages[i].cores, 0, one),
                count_text(m->packages[i].threads, 0, two));
    for (size_t i = 0; i < m->n_numa; i++) {
        const struct machine_gpu *gpu = machine_gpu_of_numa(m, number_or(m->numa[i].index, -1));
        if (gpu)
            columns_print(to, 4, "NUMA node %" PRId64 ": %s GiB, memory of gpu%" PRId64,
                          number_or(m->numa[i].index, -1),
                          count_text(m->numa[i].memory_bytes, 30, two), number_or(gpu->index, -1));
        if (!machine_is_host_numa(m, &m->numa[i]))
            continue;
        columns_print(to, 4, "NUMA node %" PRId64 " of package %s: CPUs %s, %s GiB",
                      number_or(m->numa[i].index, -1), count_text(m->numa[i].package, 0, one),
                      text_or(m->numa[i].cpus, "unknown"),
                      count_text(m->numa[i].memory_bytes, 30, two));
    }
}

void topo_tree(const struct machine *m, FILE *to)
{
    print_cpus(m, to);
    const char *root = "";
    int64_t node = -1;
    for (size_t i = 0; i < m->n_pci; i++) {
        const struct machine_pci *pci = &m->pci[i];
        int64_t here = routes_numa(m, pci);
        if (*text_or(pci->parent, ""))
            continue;
        if (strcmp(root, text_or(pci->root, "?")) != 0 || (!pci->root.value && here != node)) {
            root = text_or(pci->root, "?");
            node = here;
            fprintf(to, "root complex %s, NUMA node %" PRId64 "\n", root, here);
        }
        print_pci_device(m, pci, 1, to);
    }
}

/* --- links ------------------------------------------------------------------------------------ */

static void print_link_line(const struct machine_link *l, FILE *to)
{
    char peer[48] = "?", speed[48] = "", counted[160] = "";
    const struct machine_number counters[] = {l->crc_errors, l->replays, l->recoveries,
                                              l->ecc_errors};
    static const char *const names[] = {"crc", "replay", "recovery", "ecc"};
    size_t used = 0;
    if (l->peer_gpu.known)
        snprintf(peer, sizeof peer, "%s%" PRId64, text_or(l->peer, "?"), l->peer_gpu.value);
    else
        snprintf(peer, sizeof peer, "%s", text_or(l->peer, "?"));
    if (l->mbps.known)
        snprintf(speed, sizeof speed, "  %" PRId64 ".%" PRId64 " GB/s", l->mbps.value / 1000,
                 l->mbps.value % 1000 / 100);
    for (int i = 0; i < 4; i++)
        if (counters[i].known)
            used += (size_t)snprintf(counted + used, sizeof counted - used, "  %s %" PRId64,
                                     names[i], counters[i].value);
    columns_print(to, 4, "gpu%" PRId64 " link %-2" PRId64 " %s %" PRId64 "  %s  to %s%s%s",
                  number_or(l->gpu, -1), number_or(l->link, -1), text_or(l->kind, "link"),
                  number_or(l->gen, 0),
                  !l->active.known  ? "state unknown"
                  : l->active.value ? "up"
                                    : "DOWN",
                  peer, speed, counted);
}

void topo_links(const struct machine *m, FILE *to)
{
    for (size_t i = 0; i < m->n_links; i++)
        print_link_line(&m->links[i], to);
    int unknown = 0;
    for (size_t i = 0; i < m->n_gpus; i++)
        unknown += !routes_links_known(m, number_or(m->gpus[i].index, -1));
    if (unknown)
        fprintf(to, "the NVLink and xGMI links of %d GPU%s are unknown\n", unknown,
                unknown == 1 ? "" : "s");
    else if (m->n_links == 0)
        fputs("no NVLink or xGMI links\n", to);
}

/* --- routes ----------------------------------------------------------------------------------- */

void topo_routes(const struct topo *topo, FILE *to)
{
    if (topo->n > 1 && topo->gpus)
        fputs("each path: expected GB/s and us, state; limited by\n", to);
    else
        fputs("no pair of devices of which one is a GPU: no paths to list\n", to);
    for (int a = 0; a < topo->n; a++)
        for (int b = 0; b < topo->n; b++) {
            struct routes routes = {.n = 0};
            int indices[ROUTES_MOST];
            int64_t total;
            char gbps[16], us[16];
            if (a == b || (a >= topo->gpus && b >= topo->gpus))
                continue;
            explain_routes(topo->machine, &topo->ends[a], &topo->ends[b], &routes);
            int disjoint = routes_disjoint(&routes, indices, &total);
            fprintf(to, "%s %s\n", topo->ends[a].name, topo->ends[b].name);
            for (int i = 0; i < routes.n; i++)
                columns_print(to, 6, "  %-36s %5s GB/s %5s us  %s%s%s", routes.list[i].text,
                              show_gbps(routes.list[i].mbps, gbps, sizeof gbps),
                              show_us(routes.list[i].latency_ns, us, sizeof us),
                              route_state(&routes.list[i]), *routes.list[i].limit ? "; " : "",
                              routes.list[i].limit);
            if (disjoint > 1)
                columns_print(to, 4, "  striped over %d paths that share no link: %s GB/s",
                              disjoint, show_gbps(total, gbps, sizeof gbps));
        }
}
