/* SPDX-License-Identifier: Apache-2.0 */
/* The matrices, the tree and the list of links that `weft topo` prints. */
#include "topo.h"

#include <inttypes.h>
#include <string.h>

#include "machine/facts.h"
#include "machine/pci_config.h"
#include "machine_options.h"

static void collect(struct topo *topo, const char *name)
{
    if (name && topo->n < TOPO_MOST &&
        endpoint_find(topo->machine, name, &topo->ends[topo->n]) == WEFT_OK)
        topo->n++;
}

void topo_collect(const struct machine *machine, struct topo *topo)
{
    char name[32];
    *topo = (struct topo){.machine = machine};
    for (size_t i = 0; i < machine->n_gpus; i++) {
        snprintf(name, sizeof name, "gpu%" PRId64, number_or(machine->gpus[i].index, -1));
        collect(topo, name);
    }
    topo->gpus = topo->n;
    for (size_t i = 0; i < machine->n_nics; i++)
        collect(topo, machine->nics[i].name.value);
    for (size_t i = 0; i < machine->n_disks; i++)
        if (text_is(machine->disks[i].kind, "nvme"))
            collect(topo, machine->disks[i].name.value);
}

void topo_label(const struct topo *topo, int a, int b, char *label, size_t size)
{
    const struct endpoint *x = &topo->ends[a], *y = &topo->ends[b];
    struct link_bundle bundle = {0};
    if (a != b && a < topo->gpus && b < topo->gpus)
        bundle = routes_links(topo->machine, x->index, y->index);
    if (a == b)
        snprintf(label, size, "X");
    else if (bundle.links)
        snprintf(label, size, "%s%d", strcmp(bundle.kind, "xgmi") == 0 ? "XG" : "NV", bundle.links);
    else
        snprintf(label, size, "%s", level_name(routes_level(topo->machine, x->pci, y->pci)));
}

/* --- head -------------------------------------------------------------------------------------- */

enum { COUNT_BYTES = 24 };

/* A number, or "?": 0 of something that nobody has read would be a claim. */
static const char *count(bool known, int64_t value, char text[COUNT_BYTES])
{
    snprintf(text, COUNT_BYTES, known ? "%" PRId64 : "?", value);
    return text;
}

static const char *gib(struct machine_number bytes, int64_t round, char text[COUNT_BYTES])
{
    return count(bytes.known, (bytes.value + round) >> 30, text);
}

static void print_cpus(const struct machine *m, FILE *to)
{
    char packages[COUNT_BYTES];
    fprintf(to, "cpu       %s, %s package%s, %zu NUMA node%s\n",
            text_or(m->system.cpu_model, "model not known"),
            count(m->n_packages > 0, (int64_t)m->n_packages, packages),
            m->n_packages == 1 ? "" : "s", m->n_numa, m->n_numa == 1 ? "" : "s");
}

static void print_system(const struct machine *m, FILE *to)
{
    const struct machine_system *s = &m->system;
    fprintf(to, "machine   %s\n", m->origin);
    if (m->note)
        fprintf(to, "note      %s\n", m->note);
    print_cpus(m, to);
    fprintf(to, "system    Linux %s, hypervisor %s%s, container %s, IOMMU %s\n",
            text_or(s->kernel, "?"), text_or(s->hypervisor, "not known"),
            machine_is_flat(m) ? " (flat PCI tree: it tells nothing of the real one)" : "",
            text_or(s->container, "not known"), text_or(s->iommu_mode, "not known"));
    if (m->drivers.driver.value || m->drivers.nvidia_module.value)
        fprintf(to, "driver    NVIDIA %s, %s kernel module\n",
                text_or(m->drivers.driver, text_or(m->drivers.nvidia_module, "?")),
                text_or(m->drivers.nvidia_flavor, "unknown"));
}

static void print_gpus(const struct machine *m, FILE *to)
{
    if (m->n_gpus == 0) {
        const char *why = m->drivers.driver.value ? NULL : m->drivers.driver.why;
        fprintf(to, "gpus      none%s%s\n", why ? ": " : "", why ? why : "");
    }
    for (size_t i = 0; i < m->n_gpus; i++) {
        const struct machine_gpu *g = &m->gpus[i];
        const struct machine_pci *pci = machine_find_pci(m, g->bdf.value);
        bool at_most = !g->pcie_width.known && g->pcie_width_max.known;
        struct machine_number lanes = at_most ? g->pcie_width_max : g->pcie_width;
        int64_t node = pci ? routes_numa(m, pci) : -1;
        char memory[COUNT_BYTES], generation[COUNT_BYTES], width[COUNT_BYTES], numa[COUNT_BYTES];
        fprintf(to, "gpu%-6" PRId64 " %s, %s GiB, %s, PCIe %s x%s%s, NUMA %s%s\n",
                number_or(g->index, -1), text_or(g->name, "model not known"),
                gib(g->memory_bytes, 1 << 29, memory), text_or(g->bdf, "place not known"),
                count(g->pcie_gen_max.known, g->pcie_gen_max.value, generation),
                count(lanes.known, lanes.value, width), at_most ? " at most" : "",
                count(node >= 0, node, numa), number_is(g->mig, 1) ? ", MIG on" : "");
    }
}

static void print_nics(const struct machine *m, FILE *to)
{
    for (size_t i = 0; i < m->n_nics; i++) {
        const struct machine_nic *n = &m->nics[i];
        const struct machine_port *p = machine_find_port(m, text_or(n->name, ""));
        fprintf(to, "%-9s %s, %s", text_or(n->name, "?"), text_or(n->model, "model not known"),
                text_or(n->bdf, "place not known"));
        char gbit[COUNT_BYTES];
        if (p)
            fprintf(to, ", %s %s Gbit/s, %s", text_or(p->layer, "?"),
                    count(p->mbit.known, p->mbit.value / 1000, gbit),
                    text_or(p->state, "state not known"));
        fputc('\n', to);
    }
    for (size_t i = 0; i < m->n_interfaces; i++) {
        const struct machine_netif *n = &m->interfaces[i];
        if (n->kind.value && word_is_one_of(n->kind.value, "loopback|virtual|other"))
            continue;
        char mtu[COUNT_BYTES];
        fprintf(to, "%-9s %s%s%s, %s, mtu %s", text_or(n->name, "?"),
                text_or(n->kind, "kind not known"), *text_or(n->nic, "") ? " over " : "",
                text_or(n->nic, ""), text_or(n->state, "state not known"),
                count(n->mtu.known, n->mtu.value, mtu));
        if (n->mbit.known)
            fprintf(to, ", %" PRId64 " Mbit/s", n->mbit.value);
        fputc('\n', to);
    }
    for (size_t i = 0; i < m->n_disks; i++) {
        const struct machine_disk *d = &m->disks[i];
        if (d->kind.value && word_is_one_of(d->kind.value, "raid|mapper|other"))
            continue;
        fprintf(to, "%-9s %s, %s%s%s\n", text_or(d->name, "?"), text_or(d->kind, "?"),
                text_or(d->model, ""), *text_or(d->model, "") ? ", " : "",
                *text_or(d->bdf, "") ? d->bdf.value : "not on PCI");
    }
}

/* --- matrices ---------------------------------------------------------------------------------- */

typedef void cell_function(const struct topo *topo, int a, int b, char *cell, size_t size);

static void print_matrix(const struct topo *topo, int n, int least, cell_function *cell, FILE *to)
{
    int wide[TOPO_MOST], first = 0;
    for (int b = 0; b < n; b++) {
        wide[b] = (int)strlen(topo->ends[b].name);
        first = wide[b] > first ? wide[b] : first;
        wide[b] = wide[b] < least ? least : wide[b];
    }
    fprintf(to, "%*s", first, "");
    for (int b = 0; b < n; b++)
        fprintf(to, "  %*s", wide[b], topo->ends[b].name);
    fputc('\n', to);
    for (int a = 0; a < n; a++) {
        fprintf(to, "%-*s", first, topo->ends[a].name);
        for (int b = 0; b < n; b++) {
            char text[32];
            cell(topo, a, b, text, sizeof text);
            fprintf(to, "  %*s", wide[b], text);
        }
        fputc('\n', to);
    }
}

static void cell_gbps(const struct topo *topo, int a, int b, char *cell, size_t size)
{
    struct routes routes = {.n = 0};
    if (a == b || (a >= topo->gpus && b >= topo->gpus)) {
        snprintf(cell, size, a == b ? "X" : "-");
        return;
    }
    explain_routes(topo->machine, &topo->ends[a], &topo->ends[b], &routes);
    const struct route *best = routes_best(&routes);
    if (routes.n && !best)
        snprintf(cell, size, "off");
    else
        show_gbps(best ? best->mbps : 0, cell, size);
}

static void cell_us(const struct topo *topo, int a, int b, char *cell, size_t size)
{
    struct routes routes = {.n = 0};
    if (a == b || (a >= topo->gpus && b >= topo->gpus)) {
        snprintf(cell, size, a == b ? "X" : "-");
        return;
    }
    explain_routes(topo->machine, &topo->ends[a], &topo->ends[b], &routes);
    const struct route *best = routes_best(&routes);
    show_us(best ? best->latency_ns : 0, cell, size);
}

static char capability(struct machine_text word, char letter)
{
    return !word.value || text_is(word, "unknown") ? '?' : text_is(word, "ok") ? letter : '-';
}

static void cell_p2p(const struct topo *topo, int a, int b, char *cell, size_t size)
{
    const struct machine_p2p *p =
        machine_find_p2p(topo->machine, topo->ends[a].index, topo->ends[b].index);
    if (a == b)
        snprintf(cell, size, "X");
    else if (!p)
        snprintf(cell, size, "???");
    else
        snprintf(cell, size, "%c%c%c", capability(p->read, 'r'), capability(p->write, 'w'),
                 capability(p->atomics, 'a'));
}

static void cell_measured(const struct topo *topo, int a, int b, char *cell, size_t size)
{
    const struct machine_measured *m =
        machine_find_measured(topo->machine, topo->ends[a].name, topo->ends[b].name);
    if (a == b)
        snprintf(cell, size, "X");
    else if (m && text_is(m->proof, "failed"))
        snprintf(cell, size, "BAD");
    else if (m && m->proof.value && !text_is(m->proof, "proven"))
        snprintf(cell, size, "OFF");
    else
        show_gbps(m ? number_or(m->write_mbps, 0) : 0, cell, size);
}

/* Expected and measured, so that the two are read side by side. */
static void beside(char *cell, size_t size, const char *expected, const char *measured,
                   int64_t expected_value, int64_t measured_value)
{
    if (expected_value > 0 && measured_value > 0)
        snprintf(cell, size, "%.8s/%.8s %" PRId64 "%%", measured, expected,
                 (measured_value * 100 + expected_value / 2) / expected_value);
    else
        snprintf(cell, size, "%.8s", measured);
}

static void cell_gbps_beside(const struct topo *topo, int a, int b, char *cell, size_t size)
{
    const struct machine_measured *m =
        machine_find_measured(topo->machine, topo->ends[a].name, topo->ends[b].name);
    struct routes routes = {.n = 0};
    char expected[16], measured[16];
    cell_measured(topo, a, b, measured, sizeof measured);
    explain_routes(topo->machine, &topo->ends[a], &topo->ends[b], &routes);
    const struct route *best = routes_best(&routes);
    int64_t mbps = best ? best->mbps : 0;
    beside(cell, size, show_gbps(mbps, expected, sizeof expected), measured, mbps,
           m ? number_or(m->write_mbps, 0) : 0);
}

static void cell_measured_us(const struct topo *topo, int a, int b, char *cell, size_t size)
{
    const struct machine_measured *m =
        machine_find_measured(topo->machine, topo->ends[a].name, topo->ends[b].name);
    if (a == b)
        snprintf(cell, size, "X");
    else
        show_us(m ? number_or(m->latency_ns, 0) : 0, cell, size);
}

static void cell_us_beside(const struct topo *topo, int a, int b, char *cell, size_t size)
{
    const struct machine_measured *m =
        machine_find_measured(topo->machine, topo->ends[a].name, topo->ends[b].name);
    struct routes routes = {.n = 0};
    char expected[16], measured[16];
    cell_measured_us(topo, a, b, measured, sizeof measured);
    explain_routes(topo->machine, &topo->ends[a], &topo->ends[b], &routes);
    const struct route *best = routes_best(&routes);
    int64_t ns = best ? best->latency_ns : 0;
    beside(cell, size, show_us(ns, expected, sizeof expected), measured, ns,
           m ? number_or(m->latency_ns, 0) : 0);
}

static void print_proofs(const struct topo *topo, FILE *to)
{
    int pairs = 0, proven = 0;
    for (int a = 0; a < topo->gpus; a++)
        for (int b = 0; b < topo->gpus; b++) {
            const struct machine_measured *m =
                machine_find_measured(topo->machine, topo->ends[a].name, topo->ends[b].name);
            pairs += a != b;
            proven += m && text_is(m->proof, "proven");
        }
    if (pairs)
        fprintf(to, "%d of %d pairs proven by resident kernels on both GPUs\n", proven, pairs);
}

static void print_host(const struct topo *topo, FILE *to)
{
    for (int a = 0; a < topo->gpus; a++) {
        const struct machine_measured *m =
            machine_find_measured(topo->machine, topo->ends[a].name, "host");
        struct routes routes = {.n = 0};
        struct endpoint host;
        char out[16], in[16], gbps[16];
        if (!m || endpoint_find(topo->machine, "host", &host))
            continue;
        explain_routes(topo->machine, &topo->ends[a], &host, &routes);
        const struct route *best = routes_best(&routes);
        fprintf(to, "%s and host memory: to it %s GB/s, from it %s, expected %s\n",
                topo->ends[a].name, show_gbps(number_or(m->write_mbps, 0), out, sizeof out),
                show_gbps(number_or(m->read_mbps, 0), in, sizeof in),
                show_gbps(best ? best->mbps : 0, gbps, sizeof gbps));
    }
}

static void print_measured(const struct topo *topo, FILE *to)
{
    if (topo->machine->n_measured == 0) {
        if (topo->gpus > 1)
            fputs("\nMeasured: not measured\n", to);
        return;
    }
    if (topo->gpus > 1) {
        fputs("\nMeasured/expected GB/s, row writes to column (BAD: the proof failed, OFF: no peer "
              "access)\n",
              to);
        print_matrix(topo, topo->gpus, 12, cell_gbps_beside, to);
        fputs("\nMeasured/expected us, one way, 8 bytes\n", to);
        print_matrix(topo, topo->gpus, 14, cell_us_beside, to);
        print_proofs(topo, to);
    }
    print_host(topo, to);
}

static void print_relays(const struct topo *topo, FILE *to)
{
    bool title = false;
    for (int a = 0; a < topo->gpus; a++)
        for (int b = a + 1; b < topo->gpus; b++) {
            struct routes routes = {.n = 0};
            char gbps[16];
            explain_routes(topo->machine, &topo->ends[a], &topo->ends[b], &routes);
            const struct route *best = routes_best(&routes);
            if (!best || best->kind != ROUTE_RELAY)
                continue;
            if (!title)
                fputs("\nPairs without a direct link, best by relay\n", to);
            title = true;
            fprintf(to, "%s %s  %s, %s GB/s\n", topo->ends[a].name, topo->ends[b].name, best->text,
                    show_gbps(best->mbps, gbps, sizeof gbps));
        }
}

void topo_text(const struct topo *topo, FILE *to)
{
    print_system(topo->machine, to);
    print_gpus(topo->machine, to);
    print_nics(topo->machine, to);
    if (topo->n > 1) {
        fputs("\nDistance\n", to);
        print_matrix(topo, topo->n, 4, topo_label, to);
        fputs(
            "NV# XG#: # links bonded (NVLink, xGMI)  PIX: one PCIe switch  PXB: several  PHB: one "
            "root complex\nNODE: one NUMA node  SYS: across NUMA nodes  ?: cannot be told\n",
            to);
        fputs("\nExpected GB/s, one way, large copies\n", to);
        print_matrix(topo, topo->n, 4, cell_gbps, to);
    }
    if (topo->gpus > 1) {
        fputs("\nExpected us, one way, 8 bytes\n", to);
        print_matrix(topo, topo->gpus, 4, cell_us, to);
        fputs("\nPeer access by the driver (r read, w write, a atomics, - refused, ? not told)\n",
              to);
        print_matrix(topo, topo->gpus, 4, cell_p2p, to);
        print_relays(topo, to);
    }
    print_measured(topo, to);
}

/* --- tree -------------------------------------------------------------------------------------- */

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

static void print_acs(const struct machine_pci *pci, FILE *to)
{
    static const struct {
        int bit;
        const char *name;
    } bits[] = {{ACS_SV, "SrcValid"},   {ACS_TB, "TransBlk"},    {ACS_RR, "ReqRedir"},
                {ACS_CR, "CmpltRedir"}, {ACS_UF, "UpstreamFwd"}, {ACS_EC, "EgressCtrl"},
                {ACS_DT, "DirectTrans"}};
    if (!pci->acs_control.known || pci->acs_control.value == 0)
        return;
    fputs(" ACS", to);
    for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++)
        if (pci->acs_control.value & bits[i].bit)
            fprintf(to, " %s+", bits[i].name);
}

static void print_node(const struct machine *m, const struct machine_pci *pci, int depth, FILE *to)
{
    fprintf(to, "%*s%s %s", 2 * depth, "", text_or(pci->bdf, "?"), device_name(m, pci));
    if (pci->gen.known && pci->width.known) {
        fprintf(to, ", PCIe %" PRId64 " x%" PRId64, pci->gen.value, pci->width.value);
        if (number_or(pci->gen_max, 0) > pci->gen.value ||
            number_or(pci->width_max, 0) > pci->width.value)
            fprintf(to, " (can %" PRId64 " x%" PRId64 ")", number_or(pci->gen_max, 0),
                    number_or(pci->width_max, 0));
    }
    if (number_or(pci->iommu_group, -1) >= 0)
        fprintf(to, ", IOMMU group %" PRId64, pci->iommu_group.value);
    if (pci->p2p_clique.known)
        fprintf(to, ", P2P clique %" PRId64, pci->p2p_clique.value);
    print_acs(pci, to);
    fputc('\n', to);
    for (size_t i = 0; i < m->n_pci && depth < 64; i++)
        if (text_is(m->pci[i].parent, text_or(pci->bdf, "?")))
            print_node(m, &m->pci[i], depth + 1, to);
}

void topo_tree(const struct machine *m, FILE *to)
{
    char one[COUNT_BYTES], two[COUNT_BYTES];
    for (size_t i = 0; i < m->n_packages; i++) {
        const struct machine_package *p = &m->packages[i];
        fprintf(to, "package %" PRId64 ": %s cores, %s threads\n", number_or(p->index, -1),
                count(p->cores.known, p->cores.value, one),
                count(p->threads.known, p->threads.value, two));
    }
    for (size_t i = 0; i < m->n_numa; i++) {
        const struct machine_numa *n = &m->numa[i];
        fprintf(to, "NUMA node %" PRId64 " of package %s: CPUs %s, %s GiB\n",
                number_or(n->index, -1), count(n->package.known, n->package.value, one),
                text_or(n->cpus, "not known"), gib(n->memory_bytes, 0, two));
    }
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
        print_node(m, pci, 1, to);
    }
}

/* --- links ------------------------------------------------------------------------------------- */

static void print_link_line(const struct machine_link *l, FILE *to)
{
    fprintf(to, "gpu%" PRId64 " link %-2" PRId64 " %s %" PRId64 "  %s  to %s",
            number_or(l->gpu, -1), number_or(l->link, -1), text_or(l->kind, "link"),
            number_or(l->gen, 0),
            !l->active.known  ? "state not known"
            : l->active.value ? "up"
                              : "DOWN",
            text_or(l->peer, "?"));
    if (l->peer_gpu.known)
        fprintf(to, "%" PRId64, l->peer_gpu.value);
    if (l->mbps.known)
        fprintf(to, "  %" PRId64 ".%" PRId64 " GB/s", l->mbps.value / 1000,
                l->mbps.value % 1000 / 100);
    const struct machine_number counters[] = {l->crc_errors, l->replays, l->recoveries,
                                              l->ecc_errors};
    static const char *const names[] = {"crc", "replay", "recovery", "ecc"};
    for (int i = 0; i < 4; i++)
        if (counters[i].known)
            fprintf(to, "  %s %" PRId64, names[i], counters[i].value);
    fputc('\n', to);
}

void topo_links(const struct machine *m, FILE *to)
{
    for (size_t i = 0; i < m->n_links; i++)
        print_link_line(&m->links[i], to);
    if (m->n_links == 0)
        fputs("no NVLink or xGMI links\n", to);
}

/* --- routes ------------------------------------------------------------------------------------ */

void topo_routes(const struct topo *topo, FILE *to)
{
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
                fprintf(to, "  %-36s %5s GB/s %5s us  %s; %s\n", routes.list[i].text,
                        show_gbps(routes.list[i].mbps, gbps, sizeof gbps),
                        show_us(routes.list[i].latency_ns, us, sizeof us),
                        route_state(&routes.list[i]), routes.list[i].limit);
            if (disjoint > 1)
                fprintf(to, "  striped over %d ways that share no link: %s GB/s\n", disjoint,
                        show_gbps(total, gbps, sizeof gbps));
        }
}
