/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the machine of a plan. See synthetic.h. */
#include "machine/describe/synthetic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DOMAINS_OF_HOST = 0x400, NIC_GENERATION = 5 };

struct maker {
    struct machine *machine;
    const struct plan *plan;
    bool wide; /* each root complex has its own PCI domain, because it needs many buses */
    int host;
    int group;            /* number of PCIe root complexes of this host so far */
    const char *upstream; /* upstream port of the current switch; NULL: none */
    int ports_bus;        /* bus of its downstream ports, or of the root ports */
    int bus;              /* next free bus of this root complex */
    int slot;             /* next free downstream or root port */
    int upper_slot;       /* next free downstream port of the switch above */
    int flat;             /* number of devices in a flat tree so far, 28 per root bus */
    int package, numa;    /* current CPU package and NUMA node */
};

static const char *bdf(struct maker *k, int bus, int device)
{
    int domain = k->host * DOMAINS_OF_HOST + (k->wide ? k->group : k->group / 15);
    int first = k->wide ? 0 : 0x10 * (k->group % 15 + 1);
    return machine_printf(k->machine, "%04x:%02x:%02x.0", domain, first + bus, device);
}

static const char *root_of(struct maker *k)
{
    const char *address = bdf(k, k->plan->flat ? k->bus : 0, 0);
    return machine_printf(k->machine, "%.*s", (int)strlen(address) - 5, address);
}

static struct machine_pci *make_pci(struct maker *k, const char *address, const char *parent,
                                    const char *kind, int64_t class, int generation)
{
    struct machine_pci *pci = machine_add_pci(k->machine);
    text_set(k->machine, &pci->bdf, address);
    text_set(k->machine, &pci->parent, parent);
    text_set(k->machine, &pci->root, root_of(k));
    text_set(k->machine, &pci->kind, kind);
    number_set(&pci->class, class);
    number_set(&pci->numa, k->numa);
    if (k->plan->hosts > 1)
        number_set(&pci->host, k->host);
    if (k->plan->flat)
        return pci;
    if (generation) {
        number_set(&pci->gen, generation);
        number_set(&pci->gen_max, generation);
        number_set(&pci->width, 16);
        number_set(&pci->width_max, 16);
    }
    if (strcmp(kind, "downstream") == 0 || strcmp(kind, "root-port") == 0) {
        number_set(&pci->acs, 1);
        number_set(&pci->acs_control, k->plan->acs ? 0x1d : 0); /* SV RR CR UF, as Linux sets it */
    }
    return pci;
}

/* Makes a device in the next slot: below the switch or a root port, or directly at the root complex
 * of a flat virtual machine. */
static struct machine_pci *make_device(struct maker *k, int64_t class, int generation)
{
    if (k->plan->flat) {
        k->group = 15 * (k->flat / 28);
        k->bus = -0x10; /* bus 0 of the domain */
        const char *address = bdf(k, k->bus, 4 + k->flat++ % 28);
        return make_pci(k, address, "", "integrated", class, generation);
    }
    const char *port = bdf(k, k->ports_bus, k->slot++);
    make_pci(k, port, k->upstream ? k->upstream : "", k->upstream ? "downstream" : "root-port",
             0x060400, generation);
    return make_pci(k, bdf(k, k->bus++, 0), port, "endpoint", class, generation);
}

/* Starts a root complex with a switch, or with root ports only. */
static void start_group(struct maker *k)
{
    int generation = k->plan->model->pcie_generation;
    k->bus = 1;
    k->slot = 1;
    k->ports_bus = 0;
    k->upstream = NULL;
    if (k->plan->flat || k->plan->no_switch)
        return;
    make_pci(k, bdf(k, 0, 1), "", "root-port", 0x060400, generation);
    k->upstream = bdf(k, 1, 0);
    make_pci(k, k->upstream, bdf(k, 0, 1), "upstream", 0x060400, generation);
    k->ports_bus = 2;
    k->bus = 3;
    k->slot = k->upper_slot = 0;
}

/* Starts a switch below the first switch of the root complex, whose upstream port is `above`. */
static void start_lower(struct maker *k, const char *above)
{
    int generation = k->plan->model->pcie_generation;
    const char *port = bdf(k, 2, k->upper_slot++);
    make_pci(k, port, above, "downstream", 0x060400, generation);
    k->upstream = bdf(k, k->bus++, 0);
    make_pci(k, k->upstream, port, "upstream", 0x060400, generation);
    k->ports_bus = k->bus++;
    k->slot = 0;
}

static void make_gpu(struct maker *k)
{
    const struct fact_gpu *model = k->plan->model;
    bool nvidia = strcmp(model->vendor, "nvidia") == 0;
    struct machine_pci *pci = make_device(k, nvidia ? 0x030200 : 0x120000, model->pcie_generation);
    number_set(&pci->vendor, nvidia ? 0x10de : 0x1002);
    number_set(&pci->device, model->pci_device);
    number_set(&pci->bar_bytes, model->bar1_bytes);
    const char *address = pci->bdf.value;
    struct machine_gpu *gpu = machine_add_gpu(k->machine);
    number_set(&gpu->index, (int64_t)k->machine->n_gpus - 1);
    text_set(k->machine, &gpu->name, model->name);
    text_set(k->machine, &gpu->vendor, model->vendor);
    text_set(k->machine, &gpu->bdf, address);
    number_set(&gpu->memory_bytes, model->memory_bytes);
    number_set(&gpu->bar1_bytes, model->bar1_bytes);
    number_set(&gpu->cc_major, model->cc_major);
    number_set(&gpu->cc_minor, model->cc_minor);
    if (model->pcie_generation) {
        number_set(&gpu->pcie_gen_max, model->pcie_generation);
        number_set(&gpu->pcie_gen, model->pcie_generation);
        number_set(&gpu->pcie_width, 16);
        number_set(&gpu->pcie_width_max, 16);
    }
    if (k->plan->hosts > 1 || k->plan->domain < k->plan->gpus) {
        int domain = (int)gpu->index.value / k->plan->domain;
        if (k->plan->fabric == FABRIC_SWITCH) {
            text_set(k->machine, &gpu->fabric_cluster,
                     machine_printf(k->machine, "domain-%d", domain));
            number_set(&gpu->fabric_clique, 0);
        }
    }
    number_set(&gpu->nvlinks, nvidia && k->plan->fabric != FABRIC_NONE ? model->links : 0);
}

static void add_nic(struct maker *k)
{
    struct machine *m = k->machine;
    int published = k->plan->model->pcie_generation;
    int generation = published ? published : NIC_GENERATION;
    struct machine_pci *pci = make_device(k, 0x020700, generation);
    number_set(&pci->vendor, 0x15b3);
    number_set(&pci->device, 0x1021);
    const char *address = pci->bdf.value;
    struct machine_nic *nic = machine_add_nic(m);
    const char *name = machine_printf(m, "mlx5_%zu", m->n_nics - 1);
    text_set(m, &nic->name, name);
    text_set(m, &nic->bdf, address);
    struct machine_port *port = machine_add_port(m);
    text_set(m, &port->nic, name);
    number_set(&port->port, 1);
    text_set(m, &port->layer, "infiniband");
    text_set(m, &port->state, "active");
    number_set(&port->mbit, k->plan->nic_gbit * 1000);
}

static void add_disk(struct maker *k)
{
    struct machine *m = k->machine;
    int generation = k->plan->model->pcie_generation;
    struct machine_pci *pci = make_device(k, 0x010802, generation);
    if (!k->plan->flat && generation) {
        number_set(&pci->width, 4);
        number_set(&pci->width_max, 4);
    }
    const char *address = pci->bdf.value;
    struct machine_disk *disk = machine_add_disk(m);
    text_set(m, &disk->name, machine_printf(m, "nvme%zun1", m->n_disks - 1));
    text_set(m, &disk->kind, "nvme");
    text_set(m, &disk->transport, "pcie");
    text_set(m, &disk->bdf, address);
}

static int64_t link_count(enum fabric fabric, const struct fact_gpu *model, int n, int a, int b)
{
    /* DGX-1 with V100: two fully connected quads, and a link from each GPU to its counterpart in
     * the other quad. Two of the four peers of a GPU get two of its six links (V100 white paper,
     * figure 2). */
    static const char cube[8][9] = {"01122000", "10210200", "12020010", "21200001",
                                    "20000112", "02001021", "00101202", "00012120"};
    if (a == b)
        return 0;
    switch (fabric) {
    case FABRIC_CUBE: {
        int links = a < 8 && b < 8 ? cube[a][b] - '0' : 0;
        return model->links == 4 && links ? 1 : links; /* P100 has one link to each peer */
    }
    case FABRIC_MESH:
        return n > 1 ? model->links / (n - 1) : 0;
    case FABRIC_PAIRS:
        return a / 2 == b / 2 ? model->links : 0;
    default:
        return 0;
    }
}

static void add_link(struct maker *k, const char *kind, int generation, int gpu, int number,
                     const char *peer, int peer_gpu)
{
    const struct fact_link *fact = fact_find_link(kind, generation);
    struct machine_link *link = machine_add_link(k->machine);
    text_set(k->machine, &link->kind, kind);
    number_set(&link->gpu, gpu);
    number_set(&link->link, number);
    number_set(&link->gen, generation);
    number_set(&link->active, 1);
    text_set(k->machine, &link->peer, peer);
    if (peer_gpu >= 0)
        number_set(&link->peer_gpu, peer_gpu);
    number_set(&link->mbps, fact->line_mbps);
}

/* Adds links without switches, which connect GPUs of one host by their positions in the host. */
static void add_peer_links(struct maker *k, int a, int *number)
{
    const struct fact_gpu *model = k->plan->model;
    int n = k->plan->gpus / k->plan->hosts;
    for (int place = 0; place < n; place++) {
        int b = a / n * n + place;
        for (int64_t i = link_count(k->plan->fabric, model, n, a % n, place); i > 0; i--)
            add_link(k, model->link_kind, model->link_generation, a, (*number)++, "gpu", b);
    }
}

static void make_links(struct maker *k)
{
    const struct fact_gpu *model = k->plan->model;
    for (int a = 0; a < (int)k->machine->n_gpus; a++) {
        int number = 0;
        for (int i = 0; k->plan->fabric == FABRIC_SWITCH && i < model->links; i++)
            add_link(k, model->link_kind, model->link_generation, a, number++, "switch", -1);
        if (model->link_kind)
            add_peer_links(k, a, &number);
        for (int i = 0; i < model->cpu_links; i++)
            add_link(k, "c2c", 1, a, number++, "cpu", -1);
    }
}

/* The NVIDIA driver refuses peer access between GeForce boards on every machine. */
static void add_refusals(struct maker *k)
{
    int n = (int)k->machine->n_gpus;
    if (!strstr(k->plan->model->name, "GeForce"))
        return;
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++) {
            if (a == b)
                continue;
            struct machine_p2p *p2p = machine_add_p2p(k->machine);
            number_set(&p2p->a, a);
            number_set(&p2p->b, b);
            text_set(k->machine, &p2p->read, "chipset-not-supported");
            text_set(k->machine, &p2p->write, "chipset-not-supported");
            text_set(k->machine, &p2p->atomics, "chipset-not-supported");
            text_set(k->machine, &p2p->pci, "chipset-not-supported");
        }
}

static int nics_of(const struct plan *plan, int gpu)
{
    return (gpu + 1) * plan->nics / plan->nic_gpus - gpu * plan->nics / plan->nic_gpus +
           plan->beside[gpu];
}

/* Each device has a root complex of its own. */
static bool is_alone(const struct plan *plan)
{
    return plan->no_switch && !plan->gpus_per_root && !plan->flat;
}

/* Makes a GPU and its NICs. Where each device has its own root complex, the caller has started that
 * of the GPU. */
static void add_gpu_and_nics(struct maker *k)
{
    make_gpu(k);
    for (int i = nics_of(k->plan, (int)k->machine->n_gpus - 1); i > 0; i--) {
        if (is_alone(k->plan)) {
            k->group++;
            start_group(k);
        }
        add_nic(k);
    }
}

/* Makes the GPUs of one root complex, at most `most`. Returns their number. */
static int fill_group(struct maker *k, int most)
{
    const struct plan *plan = k->plan;
    bool ports = plan->no_switch || plan->flat;
    int each = !plan->no_switch ? plan->gpus_per_switch : plan->gpus_per_root;
    int done = 0, lowers = ports || !plan->switches_per_switch ? 1 : plan->switches_per_switch;
    start_group(k);
    const char *above = k->upstream;
    for (int i = 0; i < lowers && done < most; i++) {
        if (above && plan->switches_per_switch)
            start_lower(k, above);
        for (int g = 0; g < (each ? each : 1) && done < most; g++, done++)
            add_gpu_and_nics(k);
    }
    return done;
}

/* Makes the drives, which are on the first NUMA node: in free slots, then in a root complex of
 * their own. Returns the number of drives that are left. */
static int fill_disks(struct maker *k, int disks, int slots)
{
    for (; k->numa == 0 && disks > 0 && k->slot < slots; disks--) {
        if (is_alone(k->plan)) {
            k->group++;
            start_group(k);
        }
        add_disk(k);
    }
    return disks;
}

static void make_numa(struct maker *k, int gpus)
{
    int disks = k->plan->disks;
    struct machine_numa *node = machine_add_numa(k->machine);
    number_set(&node->index, k->numa);
    number_set(&node->package, k->package);
    if (k->plan->hosts > 1)
        number_set(&node->host, k->host);
    for (int done = 0; done < gpus; k->group++) {
        done += fill_group(k, gpus - done);
        disks = fill_disks(k, disks, PLAN_SLOTS);
    }
    if (k->numa == 0 && disks > 0) {
        start_group(k);
        fill_disks(k, disks, PLAN_SLOTS + 1);
        k->group++;
    }
}

static void make_host(struct maker *k)
{
    const struct plan *plan = k->plan;
    int nodes = plan->sockets * plan->numa, gpus = plan->gpus / plan->hosts;
    k->group = 0;
    k->flat = 0;
    for (int i = 0; i < nodes; i++, k->numa++) {
        if (i % plan->numa == 0) {
            k->package = (int)k->machine->n_packages;
            number_set(&machine_add_package(k->machine)->index, k->package);
        }
        make_numa(k, gpus / nodes + (i < gpus % nodes));
    }
}

void plan_make(const struct plan *plan, struct machine *machine)
{
    struct maker k = {.machine = machine, .plan = plan};
    k.wide = plan->no_switch || plan->switches_per_switch;
    for (; k.host < plan->hosts; k.host++)
        make_host(&k);
    make_links(&k);
    add_refusals(&k);
    if (plan->flat)
        text_set(machine, &machine->system.hypervisor, "kvm");
    if (plan->iommu_said)
        text_set(machine, &machine->system.iommu_mode, plan->iommu_on ? "translated" : "off");
    if (plan->model->cpu_links)
        text_set(machine, &machine->system.arch, "aarch64");
}
