/* SPDX-License-Identifier: Apache-2.0 */
/* The default output of `weft topo`: the machine, its devices, their distances and the figures
 * of each kind of pair. */
#include "topo/topo.h"

#include <inttypes.h>
#include <string.h>

#include "columns.h"
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
    topo->nics = topo->n - topo->gpus;
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
        snprintf(label, size, "%s%s", level_name(routes_apart(topo->machine, x, y)),
                 bundle.unknown && routes_apart(topo->machine, x, y) != LEVEL_UNKNOWN ? "?" : "");
}

/* --- devices ---------------------------------------------------------------------------------- */

enum { LABEL = 10 }; /* width of the label of a line, in columns */

static size_t count_gpu_numa(const struct machine *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n_gpus; i++)
        n += m->gpus[i].memory_numa.known;
    return n;
}

static void print_system(const struct machine *m, FILE *to)
{
    const struct machine_system *s = &m->system;
    columns_print(to, LABEL, "machine   %s", m->origin);
    if (m->note)
        columns_print(to, LABEL, "note      %s", m->note);
    char packages[32] = "? packages", memory[48] = ""; /* 0 would claim a value that was not read */
    size_t nodes = machine_count_host_numa(m), of_gpus = count_gpu_numa(m);
    if (m->n_packages)
        snprintf(packages, sizeof packages, "%zu package%s", m->n_packages,
                 m->n_packages == 1 ? "" : "s");
    if (of_gpus)
        snprintf(memory, sizeof memory, " and %zu of GPU memory", of_gpus);
    columns_print(to, LABEL, "cpu       %s, %s, %zu NUMA node%s%s",
                  text_or(s->cpu_model, "model unknown"), packages, nodes, nodes == 1 ? "" : "s",
                  memory);
    columns_print(to, LABEL, "system    Linux %s, hypervisor %s%s, container %s, IOMMU %s",
                  text_or(s->kernel, "unknown"), text_or(s->hypervisor, "unknown"),
                  machine_is_flat(m) ? " (flat PCI tree: the real one is hidden)" : "",
                  text_or(s->container, "unknown"), text_or(s->iommu_mode, "unknown"));
    if (m->drivers.driver.value || m->drivers.nvidia_module.value)
        columns_print(to, LABEL, "driver    NVIDIA %s, %s kernel module",
                      text_or(m->drivers.driver, text_or(m->drivers.nvidia_module, "?")),
                      text_or(m->drivers.nvidia_flavor, "unknown"));
}

/* Describes a GPU without its PCI address. */
static void gpu_text(const struct machine *m, const struct machine_gpu *g, char *text, size_t size)
{
    struct link_bundle cpu = routes_cpu_links(m, number_or(g->index, -1));
    char memory[32] = "memory unknown", pcie[40] = "PCIe unknown";
    if (g->memory_bytes.known)
        snprintf(memory, sizeof memory, "%" PRId64 " GiB",
                 (g->memory_bytes.value + (1 << 29)) >> 30);
    bool at_most = !g->pcie_width.known && g->pcie_width_max.known;
    struct machine_number lanes = at_most ? g->pcie_width_max : g->pcie_width;
    if (g->pcie_gen_max.known && lanes.known)
        snprintf(pcie, sizeof pcie, "PCIe %" PRId64 " x%" PRId64 "%s", g->pcie_gen_max.value,
                 lanes.value, at_most ? " at most" : "");
    if (cpu.links) /* the GPU's path to its CPU, whose PCIe link is for its registers only */
        snprintf(pcie, sizeof pcie, "%.12s %" PRId64 " GB/s", link_title(cpu.kind),
                 (cpu.line_mbps + 500) / 1000);
    else if (routes_coherent(m, g))
        snprintf(pcie, sizeof pcie, "coherent link");
    snprintf(text, size, "%.100s, %s, %s%s", text_or(g->name, "model unknown"), memory, pcie,
             number_is(g->mig, 1) ? ", MIG on" : "");
}

static void print_gpu(const struct machine *m, const struct machine_gpu *g, FILE *to)
{
    char text[200], numa[64] = "NUMA unknown", name[32];
    const struct machine_pci *pci = machine_find_pci(m, g->bdf.value);
    int64_t node = pci ? routes_numa(m, pci) : number_or(g->numa, -1);
    if (node >= 0)
        snprintf(numa, sizeof numa, "NUMA %" PRId64, node);
    if (g->memory_numa.known)
        snprintf(numa + strlen(numa), sizeof numa - strlen(numa), ", memory NUMA %" PRId64,
                 g->memory_numa.value);
    gpu_text(m, g, text, sizeof text);
    snprintf(name, sizeof name, "gpu%" PRId64, number_or(g->index, -1));
    columns_print(to, LABEL, "%-9s %s, %s, %s", name, text, text_or(g->bdf, "place unknown"), numa);
}

/* Prints many GPUs by kind: consecutive equal GPUs share a line. */
static void print_kinds(const struct machine *m, FILE *to)
{
    for (size_t i = 0, end; i < m->n_gpus; i = end) {
        char text[200], other[200], name[48];
        gpu_text(m, &m->gpus[i], text, sizeof text);
        for (end = i + 1; end < m->n_gpus; end++) {
            gpu_text(m, &m->gpus[end], other, sizeof other);
            if (strcmp(text, other) != 0)
                break;
        }
        snprintf(name, sizeof name, "gpu%" PRId64 "..%" PRId64, number_or(m->gpus[i].index, -1),
                 number_or(m->gpus[end - 1].index, -1));
        columns_print(to, LABEL, "%-9s %zu x %s (places: --full)", name, end - i, text);
    }
}

enum { MANY = 16 }; /* GPUs or NICs that are listed one by one */

static void print_gpus(const struct machine *m, FILE *to)
{
    if (m->n_gpus == 0) {
        const char *why = m->drivers.driver.value ? NULL : m->drivers.driver.why;
        columns_print(to, LABEL, "gpus      none%s%s", why ? ": " : "", why ? why : "");
    }
    if (m->n_gpus > MANY && !columns_are_full())
        print_kinds(m, to);
    else
        for (size_t i = 0; i < m->n_gpus; i++)
            print_gpu(m, &m->gpus[i], to);
}

/* The network interface of an RDMA device; "": unknown. */
static const char *interface_of(const struct machine *m, const char *nic)
{
    for (size_t i = 0; i < m->n_interfaces; i++)
        if (text_is(m->interfaces[i].nic, nic))
            return text_or(m->interfaces[i].name, "");
    return "";
}

/* Describes the first port of a NIC and its interface. */
static void port_text(const struct machine *m, const struct machine_nic *n, char *text, size_t size)
{
    const struct machine_port *p = machine_find_port(m, text_or(n->name, ""));
    const char *over = interface_of(m, text_or(n->name, ""));
    char port[96] = "port unknown", rate[48] = "rate unknown";
    if (p && p->mbit.known)
        snprintf(rate, sizeof rate, "%" PRId64 " Gbit/s", p->mbit.value / 1000);
    if (p)
        snprintf(port, sizeof port, "%s %s, %s", text_or(p->layer, "layer unknown"), rate,
                 text_or(p->state, "state unknown"));
    snprintf(text, size, "%s%s%s", port, *over ? ", " : "", over);
}

static void print_nic(const struct machine *m, const struct machine_nic *n, FILE *to)
{
    char port[200];
    port_text(m, n, port, sizeof port);
    columns_print(to, LABEL, "%-9s %s, %s, %s", text_or(n->name, "?"),
                  text_or(n->model, "model unknown"), text_or(n->bdf, "place unknown"), port);
}

/* Prints many NICs by kind: consecutive equal NICs share a line. */
static void print_nic_kinds(const struct machine *m, FILE *to)
{
    for (size_t i = 0, end; i < m->n_nics; i = end) {
        char text[200], other[200], name[80];
        const char *model = text_or(m->nics[i].model, "model unknown");
        port_text(m, &m->nics[i], text, sizeof text);
        for (end = i + 1; end < m->n_nics; end++) {
            port_text(m, &m->nics[end], other, sizeof other);
            if (strcmp(text, other) != 0 ||
                strcmp(text_or(m->nics[end].model, "model unknown"), model) != 0)
                break;
        }
        if (end == i + 1) {
            print_nic(m, &m->nics[i], to);
            continue;
        }
        snprintf(name, sizeof name, "%.30s..%.30s", text_or(m->nics[i].name, "?"),
                 text_or(m->nics[end - 1].name, "?"));
        columns_print(to, LABEL, "%-9s %zu x %s, %s (places: --full)", name, end - i, model, text);
    }
}

/* Prints a network interface, unless it is in the line of its RDMA device. */
static void print_interface(const struct machine_netif *n, FILE *to)
{
    char rate[48] = "", mtu[32] = "unknown";
    bool over = *text_or(n->nic, "") != '\0';
    if ((n->kind.value && word_is_one_of(n->kind.value, "loopback|virtual|other")) ||
        (over && !columns_are_full()))
        return;
    if (n->mtu.known)
        snprintf(mtu, sizeof mtu, "%" PRId64, n->mtu.value);
    if (n->mbit.known)
        snprintf(rate, sizeof rate, ", %" PRId64 " Mbit/s", n->mbit.value);
    columns_print(to, LABEL, "%-9s %s%s%s, %s, mtu %s%s", text_or(n->name, "?"),
                  text_or(n->kind, "kind unknown"), over ? " over " : "", text_or(n->nic, ""),
                  text_or(n->state, "state unknown"), mtu, rate);
}

static void print_disk(const struct machine_disk *d, FILE *to)
{
    if (d->kind.value && word_is_one_of(d->kind.value, "raid|mapper|other"))
        return;
    columns_print(to, LABEL, "%-9s %s, %s%s%s", text_or(d->name, "?"), text_or(d->kind, "?"),
                  text_or(d->model, ""), *text_or(d->model, "") ? ", " : "",
                  *text_or(d->bdf, "") ? d->bdf.value : "not on PCI");
}

static void print_devices(const struct machine *m, FILE *to)
{
    print_gpus(m, to);
    if (m->n_nics > MANY && !columns_are_full())
        print_nic_kinds(m, to);
    else
        for (size_t i = 0; i < m->n_nics; i++)
            print_nic(m, &m->nics[i], to);
    for (size_t i = 0; i < m->n_interfaces; i++)
        print_interface(&m->interfaces[i], to);
    for (size_t i = 0; i < m->n_disks; i++)
        print_disk(&m->disks[i], to);
}

void topo_text(const struct topo *topo, FILE *to)
{
    print_system(topo->machine, to);
    print_devices(topo->machine, to);
    if (columns_are_full())
        topo_matrices(topo, to);
    else
        topo_distances(topo, to);
    topo_paths(topo, to);
}
