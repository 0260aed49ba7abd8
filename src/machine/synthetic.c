/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a machine from a short description: "2 socket, 4 gpu each, nvlink hybrid-cube-mesh, 1 nic
 * per 2 gpu". What the description does not say stays unknown. The words are in docs/machine.md. */
#include "machine/machine.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "machine/facts.h"

enum fabric { FABRIC_NONE, FABRIC_CUBE, FABRIC_MESH, FABRIC_PAIRS, FABRIC_SWITCH };

struct plan {
    int sockets, gpus, gpus_each;
    int nics, nic_gpus; /* `nics` per `nic_gpus` GPUs */
    int gpus_per_switch, disks;
    enum fabric fabric;
    const struct fact_gpu *model;
    bool acs, flat, iommu_on, iommu_said;
    int nic_gbit;
};

/* One phrase between commas as words; number words give their value. */
struct phrase {
    char words[8][32];
    int n;
    char text[96];
};

static bool parse_number(const char *word, int *value)
{
    char *end;
    long number = strtol(word, &end, 10);
    if (!isdigit((unsigned char)*word) || *end || number < 0 || number > 64)
        return false;
    *value = (int)number;
    return true;
}

/* "gpus" counts as "gpu". */
static bool is_word(const char *word, const char *want)
{
    size_t length = strlen(want);
    return strncmp(word, want, length) == 0 &&
           (word[length] == '\0' || (word[length] == 's' && word[length + 1] == '\0'));
}

static bool phrase_is(const struct phrase *p, int from, const char *a, const char *b)
{
    return p->n > from && is_word(p->words[from], a) &&
           (b ? p->n == from + 2 && is_word(p->words[from + 1], b) : p->n == from + 1);
}

static const struct fact_gpu *find_model(const char *word)
{
    for (int i = 0; i < fact_n_gpus; i++)
        if (is_word(word, fact_gpus[i].word))
            return &fact_gpus[i];
    return NULL;
}

static weft_status not_understood(const struct phrase *p)
{
    return base_fail(
        WEFT_ERR_ARGUMENT,
        "\"%s\" is not understood; write e.g. \"2 socket\", \"4 gpu each\", \"8 h200\", "
        "\"nvlink switch|mesh|pairs|hybrid-cube-mesh|none\", \"1 nic per 2 gpu\", "
        "\"2 gpu per pcie-switch\", \"4 disk\", \"acs on\", \"iommu on\", \"flat vm\"",
        p->text);
}

static weft_status set_fabric(struct plan *plan, const struct phrase *p)
{
    static const char *const words[] = {"none", "hybrid-cube-mesh", "mesh", "pair", "switch"};
    for (int i = 0; p->n == 2 && i < 5; i++)
        if (is_word(p->words[1], words[i])) {
            plan->fabric = (enum fabric)i;
            return WEFT_OK;
        }
    return not_understood(p);
}

/* "1 nic per 2 gpu", "nic per gpu", "1 nic each" (per socket is not offered: NICs follow GPUs). */
static bool set_nics(struct plan *plan, const struct phrase *p, int count, int at)
{
    plan->nics = count;
    plan->nic_gpus = 1;
    if (at >= p->n || !is_word(p->words[at], "nic"))
        return false;
    if (at + 1 == p->n)
        return true;
    int of = 1;
    bool counted = at + 2 < p->n && parse_number(p->words[at + 2], &of);
    int unit = at + 2 + counted;
    if (!is_word(p->words[at + 1], "per") || unit + 1 != p->n || !is_word(p->words[unit], "gpu") ||
        of < 1)
        return false;
    plan->nic_gpus = of;
    return true;
}

static bool set_counted(struct plan *plan, const struct phrase *p, int count)
{
    bool each = p->n == 3 && is_word(p->words[2], "each");
    const struct fact_gpu *model = p->n > 1 ? find_model(p->words[1]) : NULL;
    if (model || (p->n > 1 && is_word(p->words[1], "gpu") && (each || p->n == 2))) {
        plan->model = model ? model : plan->model;
        *(each ? &plan->gpus_each : &plan->gpus) = count;
        return each || p->n == 2;
    }
    if (phrase_is(p, 1, "socket", NULL) || phrase_is(p, 1, "package", NULL)) {
        plan->sockets = count;
        return count >= 1;
    }
    if (phrase_is(p, 1, "disk", NULL)) {
        plan->disks = count;
        return true;
    }
    if (p->n == 4 && is_word(p->words[1], "gpu") && is_word(p->words[2], "per") &&
        is_word(p->words[3], "pcie-switch")) {
        plan->gpus_per_switch = count;
        return count >= 1;
    }
    return set_nics(plan, p, count, 1);
}

static weft_status apply(struct plan *plan, const struct phrase *p)
{
    int count;
    if (parse_number(p->words[0], &count))
        return set_counted(plan, p, count) ? WEFT_OK : not_understood(p);
    if (is_word(p->words[0], "nvlink") || is_word(p->words[0], "xgmi"))
        return set_fabric(plan, p);
    if (phrase_is(p, 0, "nvswitch", NULL))
        plan->fabric = FABRIC_SWITCH;
    else if (phrase_is(p, 0, "acs", "on"))
        plan->acs = true;
    else if (phrase_is(p, 0, "iommu", "on") || phrase_is(p, 0, "iommu", "off")) {
        plan->iommu_on = is_word(p->words[1], "on");
        plan->iommu_said = true;
    } else if (phrase_is(p, 0, "flat", "vm"))
        plan->flat = true;
    else if (p->n == 1 && find_model(p->words[0]))
        plan->model = find_model(p->words[0]);
    else if (!set_nics(plan, p, 1, 0))
        return not_understood(p);
    return WEFT_OK;
}

static weft_status read_plan(const char *description, struct plan *plan)
{
    const char *at = description;
    while (*at) {
        struct phrase p = {.n = 0};
        size_t length = strcspn(at, ",;");
        while (length && isspace((unsigned char)*at)) {
            at++;
            length--;
        }
        snprintf(p.text, sizeof p.text, "%.*s", (int)(length < 90 ? length : 90), at);
        char copy[96], *save = NULL;
        snprintf(copy, sizeof copy, "%s", p.text);
        for (char *word = strtok_r(copy, " \t\n", &save); word && p.n < 8;
             word = strtok_r(NULL, " \t\n", &save))
            snprintf(p.words[p.n++], sizeof p.words[0], "%.31s", word);
        weft_status status = p.n ? apply(plan, &p) : not_understood(&p);
        if (status)
            return status;
        at += length;
        at += *at != '\0';
    }
    return *description ? WEFT_OK
                        : base_fail(WEFT_ERR_ARGUMENT, "the description of the machine is empty");
}

/* --- making it --------------------------------------------------------------------------------- */

struct maker {
    struct machine *machine;
    const struct plan *plan;
    int group; /* PCIe root complexes made so far */
    int bus;   /* next free bus of this one */
    int slot;  /* next downstream port */
    int flat;  /* devices made so far in a flat tree: 28 on each root bus */
    int numa;
};

static const char *bdf(struct maker *k, int bus, int device)
{
    return machine_printf(k->machine, "%04x:%02x:%02x.0", k->group / 15,
                          0x10 * (k->group % 15 + 1) + bus, device);
}

static struct machine_pci *add_pci(struct maker *k, const char *address, const char *parent,
                                   const char *kind, int64_t class, int generation)
{
    struct machine_pci *pci = machine_add_pci(k->machine);
    text_set(k->machine, &pci->bdf, address);
    text_set(k->machine, &pci->parent, parent);
    text_set(k->machine, &pci->root,
             machine_printf(k->machine, "%.7s", bdf(k, k->plan->flat ? k->bus : 0, 0)));
    text_set(k->machine, &pci->kind, kind);
    number_set(&pci->class, class);
    number_set(&pci->numa, k->numa);
    if (k->plan->flat)
        return pci;
    number_set(&pci->gen, generation);
    number_set(&pci->gen_max, generation);
    number_set(&pci->width, 16);
    number_set(&pci->width_max, 16);
    if (strcmp(kind, "downstream") == 0 || strcmp(kind, "root-port") == 0) {
        number_set(&pci->acs, 1);
        number_set(&pci->acs_control, k->plan->acs ? 0x1d : 0); /* SV RR CR UF, as Linux sets it */
    }
    return pci;
}

/* A device of its own slot: below the group's switch, or straight at the root complex of a VM. */
static struct machine_pci *add_device(struct maker *k, int64_t class)
{
    int generation = k->plan->model->pcie_generation;
    if (k->plan->flat) {
        k->group = 15 * (k->flat / 28);
        k->bus = -0x10; /* bus 0 of the domain */
        const char *address = bdf(k, k->bus, 4 + k->flat++ % 28);
        return add_pci(k, address, "", "integrated", class, generation);
    }
    const char *port = bdf(k, 2, k->slot++);
    add_pci(k, port, bdf(k, 1, 0), "downstream", 0x060400, generation);
    return add_pci(k, bdf(k, k->bus++, 0), port, "endpoint", class, generation);
}

static void start_group(struct maker *k)
{
    int generation = k->plan->model->pcie_generation;
    k->bus = 3;
    k->slot = 0;
    if (k->plan->flat)
        return;
    add_pci(k, bdf(k, 0, 1), "", "root-port", 0x060400, generation);
    add_pci(k, bdf(k, 1, 0), bdf(k, 0, 1), "upstream", 0x060400, generation);
}

static void add_gpu(struct maker *k)
{
    const struct fact_gpu *model = k->plan->model;
    bool nvidia = strcmp(model->vendor, "nvidia") == 0;
    struct machine_pci *pci = add_device(k, nvidia ? 0x030200 : 0x120000);
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
    number_set(&gpu->pcie_gen_max, model->pcie_generation);
    number_set(&gpu->pcie_gen, model->pcie_generation);
    number_set(&gpu->pcie_width, 16);
    number_set(&gpu->pcie_width_max, 16);
    number_set(&gpu->nvlinks, nvidia && k->plan->fabric != FABRIC_NONE ? model->links : 0);
}

static void add_nic(struct maker *k)
{
    struct machine *m = k->machine;
    struct machine_pci *pci = add_device(k, 0x020700);
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
    struct machine_pci *pci = add_device(k, 0x010802);
    if (!k->plan->flat) {
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
    /* DGX-1 with V100: two quads, each fully connected, corner to corner between them; the six
     * links of a GPU spread so that two of its four peers get two (V100 white paper, figure 2). */
    static const char cube[8][9] = {"01122000", "10210200", "12020010", "21200001",
                                    "20000112", "02001021", "00101202", "00012120"};
    if (a == b)
        return 0;
    switch (fabric) {
    case FABRIC_CUBE: {
        int links = a < 8 && b < 8 ? cube[a][b] - '0' : 0;
        return model->links == 4 && links ? 1 : links; /* P100 has one of each */
    }
    case FABRIC_MESH:
        return n > 1 ? model->links / (n - 1) : 0;
    case FABRIC_PAIRS:
        return a / 2 == b / 2 ? model->links : 0;
    default:
        return 0;
    }
}

static void add_link(struct maker *k, int gpu, int number, int peer)
{
    const struct fact_gpu *model = k->plan->model;
    const struct fact_link *fact = fact_find_link(model->link_kind, model->link_generation);
    struct machine_link *link = machine_add_link(k->machine);
    text_set(k->machine, &link->kind, model->link_kind);
    number_set(&link->gpu, gpu);
    number_set(&link->link, number);
    number_set(&link->gen, model->link_generation);
    number_set(&link->active, 1);
    text_set(k->machine, &link->peer, peer < 0 ? "switch" : "gpu");
    if (peer >= 0)
        number_set(&link->peer_gpu, peer);
    number_set(&link->mbps, fact->line_mbps);
}

static void add_links(struct maker *k)
{
    int n = (int)k->machine->n_gpus;
    const struct fact_gpu *model = k->plan->model;
    for (int a = 0; a < n && model->link_kind; a++) {
        int number = 0;
        for (int i = 0; k->plan->fabric == FABRIC_SWITCH && i < model->links; i++)
            add_link(k, a, number++, -1);
        for (int b = 0; b < n; b++)
            for (int64_t i = link_count(k->plan->fabric, model, n, a, b); i > 0; i--)
                add_link(k, a, number++, b);
    }
}

/* The vendor's driver withholds peer access from boards of this name, whatever they stand in. */
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

static void make_socket(struct maker *k, int gpus)
{
    const struct plan *plan = k->plan;
    int done = 0, disks = plan->disks;
    struct machine_package *package = machine_add_package(k->machine);
    number_set(&package->index, k->numa);
    struct machine_numa *node = machine_add_numa(k->machine);
    number_set(&node->index, k->numa);
    number_set(&node->package, k->numa);
    for (; done < gpus; k->group++) {
        start_group(k);
        int here = gpus - done < plan->gpus_per_switch ? gpus - done : plan->gpus_per_switch;
        for (int i = 0; i < here; i++, done++) {
            add_gpu(k);
            int before = (int)k->machine->n_gpus - 1;
            int due =
                (before + 1) * plan->nics / plan->nic_gpus - before * plan->nics / plan->nic_gpus;
            for (int nic = 0; nic < due; nic++)
                add_nic(k);
        }
        for (; k->numa == 0 && disks > 0 && k->slot < 12; disks--)
            add_disk(k);
    }
    if (k->numa == 0 && disks > 0) {
        start_group(k);
        for (; disks > 0 && k->slot < 13; disks--)
            add_disk(k);
        k->group++;
    }
}

static weft_status check_plan(struct plan *plan)
{
    if (plan->gpus && plan->gpus_each)
        return base_fail(WEFT_ERR_ARGUMENT, "the number of GPUs is said twice");
    if (plan->gpus_each)
        plan->gpus = plan->gpus_each * plan->sockets;
    if (plan->fabric == FABRIC_CUBE && plan->gpus != 8)
        return base_fail(WEFT_ERR_ARGUMENT, "a hybrid cube mesh has 8 GPUs, the description %d",
                         plan->gpus);
    if (!plan->model)
        plan->model = find_model(plan->fabric == FABRIC_CUBE ? "v100" : "h100");
    if (plan->fabric != FABRIC_NONE && !plan->model->link_kind)
        return base_fail(WEFT_ERR_ARGUMENT, "%s has no NVLink", plan->model->name);
    if (plan->gpus > 64 || plan->sockets > 16)
        return base_fail(WEFT_ERR_ARGUMENT, "at most 16 sockets and 64 GPUs");
    if (plan->fabric == FABRIC_MESH && plan->gpus - 1 > plan->model->links)
        return base_fail(WEFT_ERR_ARGUMENT, "%s has %d links, too few for a mesh of %d",
                         plan->model->name, plan->model->links, plan->gpus);
    int nics_per_switch =
        (plan->gpus_per_switch * plan->nics + plan->nic_gpus - 1) / plan->nic_gpus;
    if (plan->gpus_per_switch + nics_per_switch > 11 || plan->disks > 12)
        return base_fail(WEFT_ERR_ARGUMENT, "a PCIe switch here has 11 ports for GPUs and NICs; "
                                            "at most 12 disks");
    return WEFT_OK;
}

weft_status machine_synthetic(const char *description, struct machine **machine)
{
    struct plan plan = {.sockets = 1, .gpus_per_switch = 2, .nic_gpus = 1, .nic_gbit = 400};
    *machine = NULL;
    weft_status status = read_plan(description, &plan);
    if (!status)
        status = check_plan(&plan);
    if (status)
        return status;
    char origin[300];
    snprintf(origin, sizeof origin, "description \"%.270s\"", description);
    struct maker k = {.machine = machine_new(origin), .plan = &plan};
    for (; k.numa < plan.sockets; k.numa++) {
        int share = plan.gpus / plan.sockets + (k.numa < plan.gpus % plan.sockets);
        make_socket(&k, share);
    }
    add_links(&k);
    add_refusals(&k);
    if (plan.flat)
        text_set(k.machine, &k.machine->system.hypervisor, "kvm");
    if (plan.iommu_said)
        text_set(k.machine, &k.machine->system.iommu_mode, plan.iommu_on ? "translated" : "off");
    *machine = k.machine;
    return machine_check(k.machine);
}
