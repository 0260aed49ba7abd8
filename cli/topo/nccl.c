/* SPDX-License-Identifier: Apache-2.0 */
/* `weft topo --nccl`: writes the machine as a file for NCCL_TOPO_FILE (RCCL reads the same). For
 * a virtual machine with a flat PCI tree it adds the switches that the guest cannot see, from
 * P2P clique ids and from --what-if 'move nic ... under ...'. An unknown value is left out when
 * NCCL then reads it on its machine; where NCCL would refuse the file it is written as NCCL
 * writes unknown values. */
#include "topo/topo.h"

#include <inttypes.h>
#include <string.h>

#include "machine/facts.h"

struct nccl {
    const struct machine *machine;
    FILE *to;
    bool flat;
    int switches; /* number of added switches, each with its own address */
};

enum {
    /* NCCL refuses a file with a longer value; when the mask is left out NCCL reads it from /sys */
    VALUE_MOST = 253,
    CPUS_MOST = 65536,
    CLASS_BRIDGE = 0x060400,
    DEPTH_TOP = 2, /* directly below <cpu> */
};

static const char unknown_word[] = "unknown"; /* where NCCL requires a value */

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

/* Whether the address of a device is known; without one it has no parent and no children. */
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

/* Speed and width of a device's own link; 0: unknown. */
static void link_of(const struct nccl *n, const struct machine_pci *pci, int64_t *gen,
                    int64_t *width)
{
    const struct machine_gpu *gpu = gpu_at(n->machine, pci->bdf.value);
    /* an idle GPU lowers its PCIe generation */
    *gen = gpu ? number_or(gpu->pcie_gen_max, 0) : 0;
    *width = gpu ? number_or(gpu->pcie_width, 0) : 0;
    if (!*gen)
        *gen = number_or(pci->gen, number_or(pci->gen_max, 0));
    if (!*width)
        *width = number_or(pci->width, number_or(pci->width_max, 0));
}

/* Leaves out unknown values of a device, which NCCL reads from /sys. For a switch NCCL reads
 * nothing and requires both: an empty speed and a width of 0 are NCCL's values for unknown. */
static void write_link(struct nccl *n, bool is_switch, int64_t gen, int64_t width)
{
    if (gen || is_switch)
        fprintf(n->to, " link_speed=\"%s\"", gen ? link_speed(gen) : "");
    if (width || is_switch)
        fprintf(n->to, " link_width=\"%" PRId64 "\"", width);
    fputs(">\n", n->to);
}

static void open_pci(struct nccl *n, const struct machine_pci *pci, bool is_switch, int depth)
{
    int64_t gen, width;
    link_of(n, pci, &gen, &width);
    fprintf(n->to, "%*s<pci busid=\"%s\"", 2 * depth, "", pci->bdf.value);
    if (is_switch || pci->class.known)
        fprintf(n->to, " class=\"0x%06" PRIx64 "\"", number_or(pci->class, CLASS_BRIDGE));
    if (pci->vendor.known && pci->device.known)
        fprintf(n->to, " vendor=\"0x%04" PRIx64 "\" device=\"0x%04" PRIx64 "\"", pci->vendor.value,
                pci->device.value);
    /* NCCL ignores it; --machine reads from it which branches share a root complex */
    if (depth == DEPTH_TOP && !n->flat && pci->root.value)
        fprintf(n->to, " root=\"%s\"", pci->root.value);
    write_link(n, is_switch, gen, width);
}

/* Number of active links of this kind between a GPU and a switch or CPU. */
static int links_to(const struct machine *m, const struct machine_gpu *gpu, const char *peer,
                    const char *kind)
{
    int links = 0;
    for (size_t i = 0; i < m->n_links; i++)
        links += number_is(m->links[i].gpu, gpu->index.value) && text_is(m->links[i].peer, peer) &&
                 text_is(m->links[i].kind, kind) && number_is(m->links[i].active, 1);
    return links;
}

/* Writes the NVLink-C2C links of a GPU. NCCL requires their rate. */
static void write_c2c(struct nccl *n, const struct machine_gpu *gpu, int depth)
{
    int links = links_to(n->machine, gpu, "cpu", "c2c");
    struct link_bundle all = routes_cpu_links(n->machine, number_or(gpu->index, -1));
    if (links && all.line_mbps)
        fprintf(n->to, "%*s<c2c bw=\"%" PRId64 "\" count=\"%d\"/>\n", 2 * depth, "",
                all.line_mbps / all.links, links);
}

static bool is_hidden_link(const struct machine_link *link, const struct machine_gpu *gpu)
{
    return number_is(link->gpu, gpu->index.value) && text_is(link->peer, "gpu") &&
           !link->peer_gpu.known && number_is(link->active, 1) && has_address(link->peer_bdf.value);
}

/* Writes the links to GPUs that the machine does not list, as those of a container are. */
static void write_hidden_links(struct nccl *n, const struct machine_gpu *gpu, int depth)
{
    const struct machine *m = n->machine;
    for (size_t i = 0; i < m->n_links; i++) {
        const struct machine_link *link = &m->links[i];
        int before = 0, links = 0;
        for (size_t k = 0; is_hidden_link(link, gpu) && k < m->n_links; k++) {
            bool same = is_hidden_link(&m->links[k], gpu) &&
                        text_is(m->links[k].peer_bdf, link->peer_bdf.value);
            links += same;
            before += same && k < i;
        }
        bool xgmi = text_is(link->kind, "xgmi");
        if (links && !before)
            fprintf(n->to, "%*s<%s target=\"%s\" count=\"%d\" tclass=\"%s\"/>\n", 2 * depth, "",
                    xgmi ? "xgmi" : "nvlink", link->peer_bdf.value, links,
                    xgmi ? "0x120000" : "0x030200");
    }
}

/* Writes the links of a GPU, summed by destination. */
static void write_nvlinks(struct nccl *n, const struct machine_gpu *gpu, int depth)
{
    static const char *const peers[][2] = {{"switch", "0x068000"}, {"cpu", "0x068001"}};
    const struct machine *m = n->machine;
    for (int k = 0; k < 2; k++) {
        int links = links_to(m, gpu, peers[k][0], "nvlink");
        if (links)
            fprintf(n->to, "%*s<nvlink target=\"ffff:ff:00.0\" count=\"%d\" tclass=\"%s\"/>\n",
                    2 * depth, "", links, peers[k][1]);
    }
    for (size_t i = 0; i < m->n_gpus; i++) {
        struct link_bundle b = m->gpus[i].index.value == gpu->index.value
                                   ? (struct link_bundle){0}
                                   : routes_links(m, gpu->index.value, m->gpus[i].index.value);
        const struct machine_pci *peer = machine_find_pci(m, m->gpus[i].bdf.value);
        if (b.links && !b.through_switch && has_address(m->gpus[i].bdf.value))
            fprintf(n->to, "%*s<%s target=\"%s\" count=\"%d\" tclass=\"0x%06" PRIx64 "\"/>\n",
                    2 * depth, "", strcmp(b.kind, "xgmi") == 0 ? "xgmi" : "nvlink",
                    m->gpus[i].bdf.value, b.links, peer ? number_or(peer->class, 0) : 0);
    }
}

/* Whether NICs can access this GPU's memory: 1 or 0 as tested with any NIC, 0 when the GPU or
 * the driver cannot, -1 when unknown. */
static int64_t gpu_direct(const struct machine *m, const struct machine_gpu *gpu)
{
    bool tried = false;
    for (size_t i = 0; i < m->n_ladder; i++) {
        const struct machine_rung *r = &m->ladder[i];
        if (!number_is(r->gpu, number_or(gpu->index, -1)) || !r->rung.value ||
            !word_is_one_of(r->rung.value, "dmabuf|peermem"))
            continue;
        if (text_is(r->result, "ok"))
            return 1;
        tried |= text_is(r->result, "failed");
    }
    return tried || number_is(gpu->rdma, 0) ? 0 : -1;
}

static void write_gpu(struct nccl *n, const struct machine_gpu *gpu, int depth)
{
    fprintf(n->to, "%*s<gpu dev=\"%" PRId64 "\"", 2 * depth, "", number_or(gpu->index, -1));
    bool sm = gpu->cc_major.known && gpu->cc_minor.known;
    if (sm)
        fprintf(n->to, " sm=\"%" PRId64 "\"", 10 * gpu->cc_major.value + gpu->cc_minor.value);
    int64_t gdr = gpu_direct(n->machine, gpu);
    if (gdr >= 0)
        fprintf(n->to, " gdr=\"%" PRId64 "\"", gdr);
    /* NCCL ignores it; --machine reads from it whether these are all links */
    bool known = routes_links_known(n->machine, number_or(gpu->index, -1));
    if (!known || !sm)
        fprintf(n->to, " links=\"%s\"", known ? "all" : "unknown");
    fputs(">\n", n->to);
    write_nvlinks(n, gpu, depth + 1);
    write_hidden_links(n, gpu, depth + 1);
    write_c2c(n, gpu, depth + 1);
    fprintf(n->to, "%*s</gpu>\n", 2 * depth, "");
}

/* Writes a <net> for each port; for a NIC without one, a <net> without port. */
static void write_nets(struct nccl *n, const struct machine_nic *nic, int depth)
{
    const struct machine *m = n->machine;
    bool any = false;
    for (size_t i = 0; i <= m->n_ports; i++) {
        const struct machine_port *p = i < m->n_ports ? &m->ports[i] : NULL;
        if (p ? !text_is(p->nic, nic->name.value) : any)
            continue;
        fprintf(n->to, "%*s<net name=\"%s\" dev=\"%td\"", 2 * depth, "", nic->name.value,
                nic - m->nics);
        if (p && p->mbit.known)
            fprintf(n->to, " speed=\"%" PRId64 "\"", p->mbit.value);
        if (p)
            fprintf(n->to, " port=\"%" PRId64 "\"", number_or(p->port, 1));
        fputs("/>\n", n->to);
        any = true;
    }
}

/* Whether a NIC has a name of its own. One from a file that has only PCI classes has the name of
 * its PCI address, and NCCL finds the name on its machine. */
static bool has_name(const struct machine_nic *nic)
{
    return nic->name.value && !text_is(nic->bdf, nic->name.value);
}

/* Writes all NICs of a PCI function; with an empty address, all without a place in the PCI tree. */
static void write_nics(struct nccl *n, const char *bdf, int depth)
{
    const struct machine *m = n->machine;
    bool opened = false;
    for (size_t i = 0; i < m->n_nics; i++) {
        const char *place = m->nics[i].bdf.value;
        bool here = *bdf ? text_is(m->nics[i].bdf, bdf) : !machine_find_pci(m, place);
        if (!here || !has_name(&m->nics[i]))
            continue;
        if (!opened)
            fprintf(n->to, "%*s<nic>\n", 2 * depth, "");
        opened = true;
        write_nets(n, &m->nics[i], depth + 1);
    }
    if (opened)
        fprintf(n->to, "%*s</nic>\n", 2 * depth, "");
}

static void write_device(struct nccl *n, const struct machine_pci *pci, int depth)
{
    const struct machine_gpu *gpu = gpu_at(n->machine, pci->bdf.value);
    const struct machine_nic *nic = nic_at(n->machine, pci->bdf.value);
    if (!gpu && !nic)
        return;
    open_pci(n, pci, false, depth);
    if (gpu)
        write_gpu(n, gpu, depth + 1);
    else
        write_nics(n, pci->bdf.value, depth + 1);
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

/* Whether several devices are directly below a port and share it as they would a switch;
 * functions of one device count once. */
static bool is_shared_port(const struct machine *m, const struct machine_pci *port)
{
    const char *first = NULL;
    for (size_t i = 0; i < m->n_pci; i++) {
        const struct machine_pci *pci = &m->pci[i];
        if (!is_below(pci, port) || !leads_somewhere(m, pci, 0))
            continue;
        if (first && strncmp(first, pci->bdf.value, strcspn(first, ".")) != 0)
            return true;
        first = pci->bdf.value;
    }
    return false;
}

/* Writes a branch. NCCL represents a switch by one element, its upstream port; downstream and
 * root ports are skipped. */
static void write_branch(struct nccl *n, const struct machine_pci *pci, int depth)
{
    if (!leads_somewhere(n->machine, pci, 0) || depth > 64)
        return;
    bool is_switch = text_is(pci->kind, "upstream") || text_is(pci->kind, "bridge") ||
                     is_shared_port(n->machine, pci);
    if (is_switch)
        open_pci(n, pci, true, depth);
    else if (!n->flat ||
             !pci->p2p_clique.known) /* else the device is below the switch of its clique */
        write_device(n, pci, depth);
    for (size_t i = 0; i < n->machine->n_pci; i++)
        if (is_below(&n->machine->pci[i], pci))
            write_branch(n, &n->machine->pci[i], depth + is_switch);
    if (is_switch)
        fprintf(n->to, "%*s</pci>\n", 2 * depth, "");
}

static bool is_member(const struct nccl *n, const struct machine_pci *pci, int64_t clique,
                      int64_t numa)
{
    return number_is(pci->p2p_clique, clique) && routes_numa(n->machine, pci) == numa &&
           (gpu_at(n->machine, pci->bdf.value) || nic_at(n->machine, pci->bdf.value));
}

/* Opens an added switch. Its link is assumed to be the best of the links below it. */
static void open_made_switch(struct nccl *n, int64_t clique, int64_t numa, int depth)
{
    int64_t best_gen = 0, best_width = 0;
    for (size_t i = 0; i < n->machine->n_pci; i++) {
        int64_t gen, width;
        if (!is_member(n, &n->machine->pci[i], clique, numa))
            continue;
        link_of(n, &n->machine->pci[i], &gen, &width);
        best_gen = gen > best_gen ? gen : best_gen;
        best_width = width > best_width ? width : best_width;
    }
    n->switches++;
    fprintf(n->to,
            "%*s<pci busid=\"ffff:%02x:%02x.0\" class=\"0x060400\" vendor=\"0xffff\" "
            "device=\"0xffff\"",
            2 * depth, "", 0xff - (unsigned)n->switches / 32, (unsigned)n->switches % 32);
    write_link(n, true, best_gen, best_width);
}

/* In a flat tree, writes the devices of each clique under an added switch. */
static void write_cliques(struct nccl *n, int64_t numa, int depth)
{
    for (int64_t clique = 0; clique < 16; clique++) {
        bool opened = false;
        for (size_t i = 0; i < n->machine->n_pci; i++) {
            const struct machine_pci *pci = &n->machine->pci[i];
            if (!is_member(n, pci, clique, numa))
                continue;
            if (!opened)
                open_made_switch(n, clique, numa, depth);
            opened = true;
            write_device(n, pci, depth + 1);
        }
        if (opened)
            fprintf(n->to, "%*s</pci>\n", 2 * depth, "");
    }
}

/* Sets the bits of a list such as "0-19,40-59". Returns the highest bit, -1: none. */
static int read_cpus(const char *cpus, uint32_t *words)
{
    int top = -1;
    for (const char *at = cpus; at && *at;) {
        unsigned low, high;
        int used = 0;
        if (sscanf(at, "%u-%u%n", &low, &high, &used) < 2) {
            if (sscanf(at, "%u%n", &low, &used) < 1)
                break;
            high = low;
        }
        for (unsigned cpu = low; cpu <= high && cpu < CPUS_MOST; cpu++) {
            words[cpu / 32] |= 1u << cpu % 32;
            top = (int)cpu > top ? (int)cpu : top;
        }
        at += used;
        at += *at == ',';
    }
    return top;
}

/* Writes the affinity as NCCL reads it: a hexadecimal mask in words of 32 CPUs, highest word
 * first. */
static void write_affinity(struct nccl *n, const char *cpus)
{
    static uint32_t words[CPUS_MOST / 32];
    memset(words, 0, sizeof words);
    int top = read_cpus(cpus, words);
    if (top < 0 || (top / 32 + 1) * 9 - 1 > VALUE_MOST)
        return;
    fputs(" affinity=\"", n->to);
    for (int i = top / 32; i >= 0; i--)
        fprintf(n->to, "%08" PRIx32 "%s", words[i], i ? "," : "\"");
}

/* NCCL's name of an architecture; NCCL treats an unknown word as no CPU type. */
static const char *arch_name(const char *arch)
{
    static const char *const names[][2] = {{"x86_64", "x86_64"},
                                           {"aarch64", "arm64"},
                                           {"arm64", "arm64"},
                                           {"ppc64", "ppc64"},
                                           {"ppc64le", "ppc64"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(arch, names[i][0]) == 0)
            return names[i][1];
    return NULL;
}

/* Writes the CPU model. NCCL refuses a CPU without an architecture, an x86 CPU without a vendor,
 * and one of these vendors without its numbers; it treats an unknown vendor as unknown. For Arm
 * it needs no vendor. */
static void write_model(struct nccl *n)
{
    const struct machine_system *s = &n->machine->system;
    const char *arch = arch_name(text_or(s->arch, "")), *vendor = text_or(s->cpu_vendor, "");
    bool numbers = s->cpu_family.known && s->cpu_model_number.known;
    fprintf(n->to, " arch=\"%s\"", arch ? arch : unknown_word);
    if (!arch || strcmp(arch, "x86_64") != 0)
        return;
    if (!numbers || !word_is_one_of(vendor, "GenuineIntel|AuthenticAMD"))
        vendor = unknown_word;
    fprintf(n->to, " vendor=\"%s\"", vendor);
    if (numbers)
        fprintf(n->to, " familyid=\"%" PRId64 "\" modelid=\"%" PRId64 "\"", s->cpu_family.value,
                s->cpu_model_number.value);
}

/* `first`: the first of the file, to which NCCL adds NICs without a place in the PCI tree. */
static void write_cpu(struct nccl *n, int64_t numa, bool first)
{
    const struct machine *m = n->machine;
    const struct machine_numa *node = machine_find_numa(m, numa);
    fprintf(n->to, "  <cpu numaid=\"%" PRId64 "\"", numa);
    write_affinity(n, node ? text_or(node->cpus, "") : "");
    write_model(n);
    fputs(">\n", n->to);
    for (size_t i = 0; i < m->n_pci; i++) {
        const struct machine_pci *pci = &m->pci[i];
        if (*text_or(pci->parent, "") || routes_numa(m, pci) != numa)
            continue;
        write_branch(n, pci, DEPTH_TOP);
    }
    if (n->flat)
        write_cliques(n, numa, DEPTH_TOP);
    if (first)
        write_nics(n, "", DEPTH_TOP);
    fputs("  </cpu>\n", n->to);
}

/* Whether the machine has AMD GPUs: RCCL's format is version 2. */
static bool has_amd(const struct machine *m)
{
    for (size_t i = 0; i < m->n_gpus; i++)
        if (text_is(m->gpus[i].vendor, "amd"))
            return true;
    return false;
}

void topo_nccl(const struct machine *machine, FILE *to)
{
    struct nccl n = {.machine = machine, .to = to, .flat = machine_is_flat(machine)};
    int64_t seen[64];
    int n_seen = 0;
    fprintf(to, "<system version=\"%d\">\n", has_amd(machine) ? 2 : 1);
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
        write_cpu(&n, numa, n_seen == 1);
    }
    fputs("</system>\n", to);
}
