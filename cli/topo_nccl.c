/* SPDX-License-Identifier: Apache-2.0 */
/* `weft topo --nccl`: the machine as a file for NCCL_TOPO_FILE. In a virtual machine with a flat
 * PCI tree the switches that the guest cannot see are written from what is known otherwise: P2P
 * clique ids, and places given with --what-if 'move nic ... under ...'. */
#include "topo.h"

#include <inttypes.h>
#include <string.h>

#include "machine/facts.h"

struct nccl {
    const struct machine *machine;
    FILE *to;
    bool flat;
};

static const char *link_speed(int64_t generation)
{
    static const char *const speeds[] = {"",
                                         "2.5 GT/s PCIe",
                                         "5.0 GT/s PCIe",
                                         "8.0 GT/s PCIe",
                                         "16.0 GT/s PCIe",
                                         "32.0 GT/s PCIe",
                                         "64.0 GT/s PCIe",
                                         "128.0 GT/s PCIe"};
    return generation >= 1 && generation <= 7 ? speeds[generation] : "";
}

/* A device whose address is not known is nobody's, and nobody's parent. */
static bool has_address(const char *bdf)
{
    return bdf && *bdf;
}

static bool is_below(const struct machine_pci *pci, const struct machine_pci *parent)
{
    return has_address(parent->bdf.value) && text_is(pci->parent, parent->bdf.value);
}

static const struct machine_gpu *gpu_at(const struct machine *m, const char *bdf)
{
    if (!has_address(bdf))
        return NULL;
    for (size_t i = 0; i < m->n_gpus; i++)
        if (text_is(m->gpus[i].bdf, bdf))
            return &m->gpus[i];
    return NULL;
}

static const struct machine_nic *nic_at(const struct machine *m, const char *bdf)
{
    if (!has_address(bdf))
        return NULL;
    for (size_t i = 0; i < m->n_nics; i++)
        if (text_is(m->nics[i].bdf, bdf))
            return &m->nics[i];
    return NULL;
}

static void open_pci(struct nccl *n, const struct machine_pci *pci, int depth)
{
    const struct machine_gpu *gpu = gpu_at(n->machine, pci->bdf.value);
    int64_t gen = gpu ? number_or(gpu->pcie_gen_max, 0) : number_or(pci->gen, 0);
    int64_t width = gpu ? number_or(gpu->pcie_width, 0) : number_or(pci->width, 0);
    fprintf(n->to,
            "%*s<pci busid=\"%s\" class=\"0x%06" PRIx64 "\" vendor=\"0x%04" PRIx64
            "\" device=\"0x%04" PRIx64 "\" link_speed=\"%s\" link_width=\"%" PRId64 "\">\n",
            2 * depth, "", pci->bdf.value, number_or(pci->class, 0), number_or(pci->vendor, 0),
            number_or(pci->device, 0), link_speed(gen), width);
}

/* Links of one GPU, summed by where they lead. */
static void write_nvlinks(struct nccl *n, const struct machine_gpu *gpu, int depth)
{
    const struct machine *m = n->machine;
    int to_switch = 0;
    for (size_t i = 0; i < m->n_links; i++)
        to_switch += number_is(m->links[i].gpu, gpu->index.value) &&
                     text_is(m->links[i].peer, "switch") && number_is(m->links[i].active, 1);
    if (to_switch)
        fprintf(n->to, "%*s<nvlink target=\"ffff:ff:00.0\" count=\"%d\" tclass=\"0x068000\"/>\n",
                2 * depth, "", to_switch);
    for (size_t i = 0; i < m->n_gpus; i++) {
        struct link_bundle b = m->gpus[i].index.value == gpu->index.value
                                   ? (struct link_bundle){0}
                                   : routes_links(m, gpu->index.value, m->gpus[i].index.value);
        if (b.links && !b.through_switch && m->gpus[i].bdf.value)
            fprintf(n->to, "%*s<nvlink target=\"%s\" count=\"%d\" tclass=\"0x030200\"/>\n",
                    2 * depth, "", m->gpus[i].bdf.value, b.links);
    }
}

static void write_gpu(struct nccl *n, const struct machine_gpu *gpu, int depth)
{
    fprintf(n->to, "%*s<gpu dev=\"%" PRId64 "\" sm=\"%" PRId64 "\" gdr=\"1\">\n", 2 * depth, "",
            gpu->index.value, 10 * number_or(gpu->cc_major, 0) + number_or(gpu->cc_minor, 0));
    write_nvlinks(n, gpu, depth + 1);
    fprintf(n->to, "%*s</gpu>\n", 2 * depth, "");
}

static void write_nic(struct nccl *n, const struct machine_nic *nic, int depth)
{
    fprintf(n->to, "%*s<nic>\n", 2 * depth, "");
    for (size_t i = 0; i < n->machine->n_ports; i++) {
        const struct machine_port *p = &n->machine->ports[i];
        if (text_is(p->nic, nic->name.value))
            fprintf(n->to,
                    "%*s<net name=\"%s\" dev=\"%td\" speed=\"%" PRId64 "\" port=\"%" PRId64
                    "\"/>\n",
                    2 * depth + 2, "", nic->name.value, nic - n->machine->nics,
                    number_or(p->mbit, 0), number_or(p->port, 1));
    }
    fprintf(n->to, "%*s</nic>\n", 2 * depth, "");
}

static void write_device(struct nccl *n, const struct machine_pci *pci, int depth)
{
    const struct machine_gpu *gpu = gpu_at(n->machine, pci->bdf.value);
    const struct machine_nic *nic = nic_at(n->machine, pci->bdf.value);
    if (!gpu && !nic)
        return;
    open_pci(n, pci, depth);
    if (gpu)
        write_gpu(n, gpu, depth + 1);
    else
        write_nic(n, nic, depth + 1);
    fprintf(n->to, "%*s</pci>\n", 2 * depth, "");
}

static bool leads_somewhere(const struct machine *m, const struct machine_pci *pci, int depth)
{
    if (gpu_at(m, pci->bdf.value) || nic_at(m, pci->bdf.value))
        return true;
    for (size_t i = 0; i < m->n_pci && depth < 64; i++)
        if (is_below(&m->pci[i], pci) && leads_somewhere(m, &m->pci[i], depth + 1))
            return true;
    return false;
}

/* NCCL draws a switch as one element: its upstream port. Downstream and root ports are skipped. */
static void write_branch(struct nccl *n, const struct machine_pci *pci, int depth)
{
    if (!leads_somewhere(n->machine, pci, 0) || depth > 64)
        return;
    bool is_switch = text_is(pci->kind, "upstream") || text_is(pci->kind, "bridge");
    if (is_switch)
        open_pci(n, pci, depth);
    else if (!n->flat || !pci->p2p_clique.known) /* else it stands below its clique's switch */
        write_device(n, pci, depth);
    for (size_t i = 0; i < n->machine->n_pci; i++)
        if (is_below(&n->machine->pci[i], pci))
            write_branch(n, &n->machine->pci[i], depth + is_switch);
    if (is_switch)
        fprintf(n->to, "%*s</pci>\n", 2 * depth, "");
}

/* In a flat tree: devices of one clique under one made-up switch. */
static void write_cliques(struct nccl *n, int64_t numa, int depth)
{
    const struct machine *m = n->machine;
    for (int64_t clique = 0; clique < 16; clique++) {
        bool opened = false;
        for (size_t i = 0; i < m->n_pci; i++) {
            const struct machine_pci *pci = &m->pci[i];
            if (!number_is(pci->p2p_clique, clique) || routes_numa(m, pci) != numa)
                continue;
            if (!opened)
                fprintf(n->to,
                        "%*s<pci busid=\"ffff:ff:%02x.0\" class=\"0x060400\" "
                        "vendor=\"0xffff\" device=\"0xffff\" link_speed=\"\" "
                        "link_width=\"16\">\n",
                        2 * depth, "", (unsigned)clique + 1);
            opened = true;
            write_device(n, pci, depth + 1);
        }
        if (opened)
            fprintf(n->to, "%*s</pci>\n", 2 * depth, "");
    }
}

/* NCCL wants the affinity as a hexadecimal mask, words of 32 CPUs from the highest. */
static void write_affinity(struct nccl *n, const char *cpus)
{
    uint32_t words[64] = {0};
    int top = 0;
    for (const char *at = cpus; at && *at;) {
        unsigned low, high;
        int used = 0;
        if (sscanf(at, "%u-%u%n", &low, &high, &used) < 2) {
            if (sscanf(at, "%u%n", &low, &used) < 1)
                break;
            high = low;
        }
        for (unsigned cpu = low; cpu <= high && cpu < 2048; cpu++) {
            words[cpu / 32] |= 1u << cpu % 32;
            top = (int)(cpu / 32) > top ? (int)(cpu / 32) : top;
        }
        at += used;
        at += *at == ',';
    }
    for (int i = top; i >= 0; i--)
        fprintf(n->to, "%08" PRIx32 "%s", words[i], i ? "," : "");
}

static void write_cpu(struct nccl *n, int64_t numa)
{
    const struct machine *m = n->machine;
    const struct machine_system *s = &m->system;
    const struct machine_numa *node = machine_find_numa(m, numa);
    fprintf(n->to, "  <cpu numaid=\"%" PRId64 "\" affinity=\"", numa);
    write_affinity(n, node ? text_or(node->cpus, "") : "");
    fprintf(n->to,
            "\" arch=\"%s\" vendor=\"%s\" familyid=\"%" PRId64 "\" modelid=\"%" PRId64 "\">\n",
            text_or(s->arch, "x86_64"), text_or(s->cpu_vendor, ""), number_or(s->cpu_family, 0),
            number_or(s->cpu_model_number, 0));
    for (size_t i = 0; i < m->n_pci; i++) {
        const struct machine_pci *pci = &m->pci[i];
        if (*text_or(pci->parent, "") || routes_numa(m, pci) != numa)
            continue;
        write_branch(n, pci, 2);
    }
    if (n->flat)
        write_cliques(n, numa, 2);
    fputs("  </cpu>\n", n->to);
}

void topo_nccl(const struct machine *machine, FILE *to)
{
    struct nccl n = {.machine = machine, .to = to, .flat = machine_is_flat(machine)};
    int64_t seen[64];
    int n_seen = 0;
    fputs("<system version=\"1\">\n", to);
    if (n.flat)
        fputs("  <!-- a flat virtual machine: switches are written from P2P clique ids, and where "
              "there are none the devices stand at the root complex as the guest sees them -->\n",
              to);
    for (size_t i = 0; i < machine->n_pci; i++) {
        int64_t numa = routes_numa(machine, &machine->pci[i]);
        bool known = false;
        for (int k = 0; k < n_seen; k++)
            known |= seen[k] == numa;
        if (known || n_seen == 64 || !leads_somewhere(machine, &machine->pci[i], 0))
            continue;
        seen[n_seen++] = numa;
        write_cpu(&n, numa);
    }
    fputs("</system>\n", to);
}
