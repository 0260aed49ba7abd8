/* SPDX-License-Identifier: Apache-2.0 */
/* Distance, link bundles and the rates of PCIe routes. See routes.h. */
#include "machine/routes/routes.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/status.h"
#include "base/text.h"
#include "machine/facts.h"
#include "machine/pci_config.h"

/* --- endpoints -------------------------------------------------------------------------------- */

static weft_status unknown_endpoint(const struct machine *machine, const char *name)
{
    const char *names[512];
    char gpus[64][16];
    size_t n = 0;
    for (size_t i = 0; i < machine->n_gpus && i < 64; i++) {
        snprintf(gpus[i], sizeof gpus[i], "gpu%" PRId64, number_or(machine->gpus[i].index, -1));
        names[n++] = gpus[i];
    }
    for (size_t i = 0; i < machine->n_nics && n < 400; i++)
        names[n++] = machine->nics[i].name.value;
    for (size_t i = 0; i < machine->n_disks && n < 500; i++)
        names[n++] = machine->disks[i].name.value;
    names[n++] = "host";
    for (size_t i = 0; i < machine->n_interfaces; i++)
        if (text_is(machine->interfaces[i].name, name))
            return base_fail(WEFT_ERR_ARGUMENT,
                             "%s is a network interface without RDMA: data goes there through host "
                             "memory; name host in its place",
                             name);
    const char *near = base_nearest(name, names, n);
    char known[300] = "";
    for (size_t i = 0; i < n && strlen(known) < 240; i++)
        if (names[i])
            snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "",
                     names[i]);
    return base_fail(WEFT_ERR_ARGUMENT, "there is no \"%s\" on this machine%s%s; it has %s", name,
                     near ? "; nearest: " : "", near ? near : "", known);
}

/* "gpu12" -> 12 for the prefix "gpu"; -1 when the name is not `prefix` and a number. */
static int64_t index_after(const char *name, const char *prefix)
{
    size_t length = strlen(prefix);
    char *end;
    if (strncasecmp(name, prefix, length) != 0 || !isdigit((unsigned char)name[length]))
        return -1;
    long number = strtol(name + length, &end, 10);
    return *end ? -1 : number;
}

static void name_endpoint(struct endpoint *end, enum endpoint_kind kind, const char *name,
                          int64_t index, const struct machine_pci *pci)
{
    *end = (struct endpoint){.kind = kind, .index = index, .pci = pci};
    snprintf(end->name, sizeof end->name, "%s", name);
}

struct endpoint endpoint_of_gpu(const struct machine *machine, const struct machine_gpu *gpu)
{
    struct endpoint end = {.kind = ENDPOINT_GPU,
                           .index = number_or(gpu->index, -1),
                           .pci = machine_find_pci(machine, gpu->bdf.value)};
    snprintf(end.name, sizeof end.name, "gpu%" PRId64, end.index);
    return end;
}

struct endpoint endpoint_of_nic(const struct machine *machine, const struct machine_nic *nic)
{
    struct endpoint end = {.kind = ENDPOINT_NIC,
                           .index = nic - machine->nics,
                           .pci = machine_find_pci(machine, nic->bdf.value)};
    const char *name = text_or(nic->name, "?");
    memcpy(end.name, name, strnlen(name, sizeof end.name - 1)); /* for every pair: no printf */
    return end;
}

static bool find_gpu_end(const struct machine *machine, const char *name, struct endpoint *end)
{
    for (size_t i = 0; i < machine->n_gpus; i++) {
        const struct machine_gpu *g = &machine->gpus[i];
        int64_t index = number_or(g->index, -2);
        if (index_after(name, "gpu") != index && index_after(name, "") != index &&
            !(g->bdf.value && strcasecmp(g->bdf.value, name) == 0))
            continue;
        *end = endpoint_of_gpu(machine, g);
        return true;
    }
    return false;
}

/* The RDMA device behind a network interface; NULL: there is none. */
static const char *nic_of_interface(const struct machine *machine, const char *interface)
{
    for (size_t i = 0; i < machine->n_ports; i++)
        if (text_is(machine->ports[i].netdev, interface))
            return machine->ports[i].nic.value;
    for (size_t i = 0; i < machine->n_interfaces; i++)
        if (text_is(machine->interfaces[i].name, interface) &&
            *text_or(machine->interfaces[i].nic, ""))
            return machine->interfaces[i].nic.value;
    return NULL;
}

static bool find_nic_end(const struct machine *machine, const char *name, struct endpoint *end)
{
    const char *behind = nic_of_interface(machine, name);
    if (behind)
        name = behind;
    for (size_t i = 0; i < machine->n_nics; i++) {
        const struct machine_nic *n = &machine->nics[i];
        if (!n->name.value ||
            (strcasecmp(n->name.value, name) != 0 && index_after(name, "nic") != (int64_t)i &&
             !(n->bdf.value && strcasecmp(n->bdf.value, name) == 0)))
            continue;
        *end = endpoint_of_nic(machine, n);
        return true;
    }
    return false;
}

weft_status endpoint_find(const struct machine *machine, const char *name, struct endpoint *end)
{
    int64_t numa = index_after(name, "numa");
    if (strcasecmp(name, "host") == 0 || strcasecmp(name, "cpu") == 0) {
        name_endpoint(end, ENDPOINT_HOST, "host", -1, NULL);
        return WEFT_OK;
    }
    if (numa >= 0 && machine_find_numa(machine, numa)) {
        char text[ENDPOINT_NAME];
        snprintf(text, sizeof text, "numa%" PRId64, numa);
        name_endpoint(end, ENDPOINT_HOST, text, numa, NULL);
        return WEFT_OK;
    }
    if (find_gpu_end(machine, name, end) || find_nic_end(machine, name, end))
        return WEFT_OK;
    if (strncmp(name, "/dev/", 5) == 0)
        name += 5;
    const struct machine_disk *disk = machine_find_disk(machine, name);
    if (!disk)
        return unknown_endpoint(machine, name);
    name_endpoint(end, ENDPOINT_DISK, disk->name.value, disk - machine->disks,
                  machine_find_pci(machine, disk->bdf.value));
    return WEFT_OK;
}

/* --- distance --------------------------------------------------------------------------------- */

const char *level_name(enum level level)
{
    static const char *const names[] = {"X", "PIX", "PXB", "PHB", "NODE", "SYS", "NET", "?"};
    return names[level];
}

enum { DEEPEST = 64 };

/* The bridges above a device, the nearest first. */
static int bridges_above(const struct machine *machine, const struct machine_pci *pci,
                         const struct machine_pci *found[DEEPEST])
{
    int n = 0;
    for (const struct machine_pci *at = machine_parent_of(machine, pci); at && n < DEEPEST;
         at = machine_parent_of(machine, at))
        found[n++] = at;
    return n;
}

const struct machine_pci *routes_common_bridge(const struct machine *machine,
                                               const struct machine_pci *a,
                                               const struct machine_pci *b)
{
    const struct machine_pci *above_a[DEEPEST], *above_b[DEEPEST];
    int n = bridges_above(machine, a, above_a), m = bridges_above(machine, b, above_b);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < m; k++)
            if (above_a[i] == above_b[k])
                return above_a[i];
    return NULL;
}

/* PCIe switches between a device and a bridge above it, the one that `stop` belongs to included
 * when `stop` is its upstream port. */
static int switches_up_to(const struct machine *machine, const struct machine_pci *from,
                          const struct machine_pci *stop)
{
    int n = 0;
    for (const struct machine_pci *at = machine_parent_of(machine, from); at && at != stop;
         at = machine_parent_of(machine, at))
        n += text_is(at->kind, "upstream") || text_is(at->kind, "bridge");
    return n;
}

int64_t routes_numa(const struct machine *machine, const struct machine_pci *pci)
{
    for (const struct machine_pci *at = pci; at; at = machine_parent_of(machine, at))
        if (number_or(at->numa, -1) >= 0)
            return at->numa.value;
    for (size_t i = 0; i < machine->n_numa && machine_count_host_numa(machine) == 1; i++)
        if (machine_is_host_numa(machine, &machine->numa[i]))
            return number_or(machine->numa[i].index, -1);
    return -1;
}

int64_t routes_package(const struct machine *machine, int64_t numa)
{
    const struct machine_numa *node = machine_find_numa(machine, numa);
    if (node && node->package.known)
        return node->package.value;
    return machine->n_packages == 1 ? number_or(machine->packages[0].index, -1) : -1;
}

/* A flat tree does not show the switches of the host; equal P2P cliques of the hypervisor mean that
 * two devices share one. */
static enum level flat_level(const struct machine_pci *a, const struct machine_pci *b)
{
    bool one = a->p2p_clique.known && number_is(b->p2p_clique, a->p2p_clique.value);
    return one ? LEVEL_PIX : LEVEL_UNKNOWN;
}

/* Distance where root complexes are unknown. A root complex has one PCI domain and one NUMA node,
 * so devices that differ in one of them have different root complexes. For others it is unknown. */
static enum level rootless_level(const struct machine *machine, const struct machine_pci *a,
                                 const struct machine_pci *b)
{
    int64_t numa_a = routes_numa(machine, a), numa_b = routes_numa(machine, b);
    if (numa_a < 0 || numa_b < 0)
        return LEVEL_UNKNOWN;
    if (numa_a != numa_b)
        return LEVEL_SYS;
    const char *x = text_or(a->bdf, ""), *y = text_or(b->bdf, "");
    size_t domain = strcspn(x, ":");
    return strncmp(x, y, domain + 1) != 0 ? LEVEL_NODE : LEVEL_UNKNOWN;
}

enum level routes_level(const struct machine *machine, const struct machine_pci *a,
                        const struct machine_pci *b)
{
    if (!a || !b)
        return LEVEL_UNKNOWN;
    if (a == b)
        return LEVEL_SELF;
    if (a->host.known && b->host.known && a->host.value != b->host.value)
        return LEVEL_NET;
    const struct machine_pci *common = routes_common_bridge(machine, a, b);
    if (common) {
        int n = switches_up_to(machine, a, common) + switches_up_to(machine, b, common) +
                !text_is(common->kind, "root-port");
        return n <= 1 ? LEVEL_PIX : LEVEL_PXB;
    }
    if (!a->root.value || !b->root.value)
        return rootless_level(machine, a, b);
    if (strcmp(a->root.value, b->root.value) == 0)
        return machine_is_flat(machine) ? flat_level(a, b) : LEVEL_PHB;
    int64_t numa_a = routes_numa(machine, a), numa_b = routes_numa(machine, b);
    if (numa_a < 0 || numa_b < 0)
        return LEVEL_UNKNOWN;
    return numa_a == numa_b ? LEVEL_NODE : LEVEL_SYS;
}

enum level routes_apart(const struct machine *machine, const struct endpoint *a,
                        const struct endpoint *b)
{
    static const char *const words[] = {"pix", "pxb", "phb", "node", "sys"};
    if (a->pci && b->pci)
        return routes_level(machine, a->pci, b->pci);
    const struct machine_distance *d = machine_find_distance(machine, a->name, b->name);
    for (int i = 0; d && i < 5; i++)
        if (text_is(d->level, words[i]))
            return (enum level)(LEVEL_PIX + i);
    return LEVEL_UNKNOWN;
}

int64_t routes_numa_of(const struct machine *machine, const struct endpoint *end)
{
    const struct machine_gpu *gpu =
        end->kind == ENDPOINT_GPU ? machine_find_gpu(machine, end->index) : NULL;
    if (end->pci || !gpu)
        return end->pci ? routes_numa(machine, end->pci) : -1;
    return number_or(gpu->numa, -1);
}

/* --- links ------------------------------------------------------------------------------------ */

static bool link_between(const struct machine_link *link, int64_t a, int64_t b)
{
    return number_is(link->gpu, a) && number_is(link->peer_gpu, b) && number_is(link->active, 1);
}

static bool link_to_cpu(const struct machine_link *link, int64_t gpu)
{
    return number_is(link->gpu, gpu) && text_is(link->peer, "cpu") && number_is(link->active, 1);
}

static bool link_to_switch(const struct machine_link *link, int64_t gpu)
{
    return number_is(link->gpu, gpu) && text_is(link->peer, "switch") && number_is(link->active, 1);
}

/* The entry of the table of facts for a link; that of the link before it, when both are alike. */
static const struct fact_link *link_fact(const struct machine_link *link,
                                         const struct machine_link *last,
                                         const struct fact_link *fact)
{
    if (!link->kind.value || !link->gen.known)
        return NULL;
    if (last && text_is(last->kind, link->kind.value) && number_is(last->gen, link->gen.value))
        return fact;
    return fact_find_link(link->kind.value, link->gen.value);
}

static void bundle_add(struct link_bundle *bundle, const struct machine_link *link,
                       const struct fact_link *fact)
{
    int64_t line = number_or(link->mbps, fact ? fact->line_mbps : 0);
    bundle->links++;
    bundle->kind = text_or(link->kind, "nvlink");
    bundle->generation = number_or(link->gen, 0);
    bundle->line_mbps += line;
    bundle->mbps += fact ? line * fact->permille / 1000 : 0;
    bundle->latency_ns = fact ? fact->latency_ns : 0;
}

/* Sum of the active links of GPU `a` to GPU `b`, or into switches. */
static struct link_bundle bundle_of(const struct machine *machine, int64_t a, int64_t b,
                                    bool through_switch)
{
    struct link_bundle bundle = {.through_switch = through_switch};
    struct machine_range range = machine_links_of(machine, a);
    const struct machine_link *last = NULL;
    const struct fact_link *fact = NULL;
    for (size_t i = range.first; i < range.end; i++) {
        const struct machine_link *link = &machine->links[i];
        if (!(through_switch ? link_to_switch(link, a) : link_between(link, a, b)))
            continue;
        fact = link_fact(link, last, fact);
        last = link;
        bundle_add(&bundle, link, fact);
    }
    return bundle;
}

struct link_bundle routes_cpu_links(const struct machine *machine, int64_t gpu)
{
    struct link_bundle bundle = {.links = 0};
    struct machine_range range = machine_links_of(machine, gpu);
    for (size_t i = range.first; i < range.end; i++)
        if (link_to_cpu(&machine->links[i], gpu))
            bundle_add(&bundle, &machine->links[i], link_fact(&machine->links[i], NULL, NULL));
    return bundle;
}

bool routes_coherent(const struct machine *machine, const struct machine_gpu *gpu)
{
    struct link_bundle cpu = routes_cpu_links(machine, number_or(gpu->index, -1));
    return gpu->memory_numa.known || (cpu.links && strcmp(cpu.kind, "c2c") == 0);
}

const char *link_title(const char *kind)
{
    return strcmp(kind, "xgmi") == 0 ? "xGMI" : strcmp(kind, "c2c") == 0 ? "NVLink-C2C" : "NVLink";
}

/* The two GPUs are in different NVLink domains, which no switch connects. */
static bool other_fabric(const struct machine *machine, int64_t a, int64_t b)
{
    const struct machine_gpu *x = machine_find_gpu(machine, a), *y = machine_find_gpu(machine, b);
    return x && y && x->fabric_cluster.value && y->fabric_cluster.value &&
           strcmp(x->fabric_cluster.value, y->fabric_cluster.value) != 0;
}

/* The table of facts has the model by its PCI number, as one without links. */
static bool has_no_links(const struct machine *machine, const struct machine_gpu *gpu)
{
    const struct machine_pci *pci = machine_find_pci(machine, gpu->bdf.value);
    for (int i = 0; pci && i < fact_n_gpus; i++)
        if (!fact_gpus[i].link_kind && text_is(gpu->vendor, fact_gpus[i].vendor) &&
            number_is(pci->device, fact_gpus[i].pci_device))
            return true;
    return false;
}

bool routes_links_known(const struct machine *machine, int64_t gpu)
{
    const struct machine_gpu *g = machine_find_gpu(machine, gpu);
    struct machine_range range = machine_links_of(machine, gpu);
    if (!g || g->nvlinks.known || has_no_links(machine, g))
        return true;
    /* without a reason why the number is unknown, the links of a file are all links */
    for (size_t i = range.first; i < range.end && !g->nvlinks.why; i++)
        if (number_is(machine->links[i].gpu, gpu) && !text_is(machine->links[i].peer, "cpu"))
            return true;
    return false;
}

/* Number of links as an imported file has it. A file that has the distance of two GPUs instead
 * reports that they have no link, and so does a list of all links of one GPU. */
static struct link_bundle imported_links(const struct machine *machine, int64_t a, int64_t b)
{
    char name[32], other[32];
    const struct machine_distance *d = NULL;
    if (machine->n_distances) { /* asked for every pair and relay: no printf without need */
        snprintf(name, sizeof name, "gpu%" PRId64, a);
        snprintf(other, sizeof other, "gpu%" PRId64, b);
        d = machine_find_distance(machine, name, other);
    }
    if (!d || !d->links.known)
        return (struct link_bundle){.unknown = !(d && d->level.value) &&
                                               !routes_links_known(machine, a) &&
                                               !routes_links_known(machine, b)};
    return (struct link_bundle){.links = (int)d->links.value, .count_only = true, .kind = "nvlink"};
}

struct link_bundle routes_links(const struct machine *machine, int64_t a, int64_t b)
{
    struct link_bundle direct = bundle_of(machine, a, b, false);
    struct link_bundle back = bundle_of(machine, b, a, false);
    if (direct.links || back.links) /* the links may be recorded at one side only */
        return direct.links >= back.links ? direct : back;
    if (other_fabric(machine, a, b))
        return (struct link_bundle){0};
    struct link_bundle from = bundle_of(machine, a, b, true), to = bundle_of(machine, b, a, true);
    if (!from.links || !to.links)
        return imported_links(machine, a, b);
    return from.mbps <= to.mbps ? from : to;
}

/* --- PCIe ------------------------------------------------------------------------------------- */

/* The smaller number; 0 stands for unknown. */
static int64_t smaller_known(int64_t a, int64_t b)
{
    return !a ? b : !b ? a : a < b ? a : b;
}

/* Expected rate of one link, between a device (or upstream port) and the port above it. An idle GPU
 * lowers the generation of its link, so the generation that both ends support counts. Lost lanes do
 * not come back, so the current width counts. */
static int64_t link_mbps(const struct machine *machine, const struct machine_pci *pci, char *text,
                         size_t size)
{
    const struct machine_gpu *gpu = machine_gpu_at(machine, pci);
    const struct machine_pci *above = machine_parent_of(machine, pci);
    int64_t gen = gpu ? number_or(gpu->pcie_gen_max, 0) : 0;
    int64_t width = gpu ? number_or(gpu->pcie_width, 0) : 0;
    if (!gen)
        gen = smaller_known(number_or(pci->gen_max, 0), above ? number_or(above->gen_max, 0) : 0);
    if (!gpu && pci->gen.known)
        gen = smaller_known(gen, pci->gen.value);
    if (!width)
        width = smaller_known(number_or(pci->width, 0), number_or(pci->width_max, 0));
    const struct fact_link *fact = fact_find_link("pcie", gen);
    if (!fact || !width)
        return 0;
    snprintf(text, size, "PCIe %" PRId64 " x%" PRId64 " of %s", gen, width, text_or(pci->bdf, "?"));
    return fact->line_mbps * width * fact->permille / 1000;
}

int64_t routes_gpu_mbps(const struct machine *machine, int64_t index)
{
    const struct machine_gpu *gpu = machine_find_gpu(machine, index);
    const struct fact_link *fact =
        gpu ? fact_find_link("pcie", number_or(gpu->pcie_gen_max, 0)) : NULL;
    return fact ? fact->line_mbps * number_or(gpu->pcie_width, 0) * fact->permille / 1000 : 0;
}

int64_t routes_pcie_mbps_to(const struct machine *machine, const struct machine_pci *pci,
                            const struct machine_pci *stop, char *limit, size_t size)
{
    int64_t least = 0;
    if (size)
        limit[0] = '\0';
    for (const struct machine_pci *at = pci; at && at != stop;
         at = machine_parent_of(machine, at)) {
        /* a downstream port and the device below it are the two ends of one link */
        if (text_is(at->kind, "downstream") || text_is(at->kind, "root-port"))
            continue;
        char text[96];
        int64_t mbps = link_mbps(machine, at, text, sizeof text);
        if (mbps && (!least || mbps < least)) {
            least = mbps;
            snprintf(limit, size, "%s", text);
        }
    }
    return least;
}

int64_t routes_pcie_mbps(const struct machine *machine, const struct machine_pci *pci, char *limit,
                         size_t size)
{
    return routes_pcie_mbps_to(machine, pci, NULL, limit, size);
}

int routes_acs_bridges(const struct machine *machine, const struct machine_pci *a,
                       const struct machine_pci *stop, const struct machine_pci **found, int most)
{
    int n = 0;
    for (const struct machine_pci *at = machine_parent_of(machine, a); at && at != stop;
         at = machine_parent_of(machine, at))
        if (at->acs_control.known && (at->acs_control.value & (ACS_RR | ACS_CR)) && n < most)
            found[n++] = at;
    return n;
}
