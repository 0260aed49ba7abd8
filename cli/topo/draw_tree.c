/* SPDX-License-Identifier: Apache-2.0 */
/* The boxes of a drawing without their places: devices in frames of packages, root complexes and
 * PCIe switches, as the PCI tree has them. See draw.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine/routes/routes.h"
#include "topo/draw.h"

static int find_or_add_frame(struct drawing *d, enum draw_kind kind, int parent, const char *key)
{
    for (int i = 0; i < d->n_boxes; i++)
        if (d->boxes[i].kind == kind && d->boxes[i].parent == parent &&
            strcmp(d->boxes[i].key, key) == 0)
            return i;
    int at = draw_add_box(d, kind, parent);
    snprintf(d->boxes[at].key, sizeof d->boxes[at].key, "%s", key);
    return at;
}

static bool has_hosts(const struct machine *m)
{
    for (size_t i = 0; i < m->n_pci; i++)
        if (number_or(m->pci[i].host, 0) > 0)
            return true;
    return false;
}

/* Frame of the host of a device; -1: there is only one host. */
static int host_frame(const struct machine *m, const struct machine_pci *pci, struct drawing *d)
{
    char key[32];
    if (!pci || !has_hosts(m))
        return -1;
    snprintf(key, sizeof key, "%" PRId64, number_or(pci->host, 0));
    int at = find_or_add_frame(d, DRAW_HOST, -1, key);
    snprintf(d->boxes[at].name, DRAW_TEXT, "node %s", key);
    return at;
}

static int package_frame(const struct machine *m, const struct machine_pci *pci, struct drawing *d)
{
    char key[32];
    int host = host_frame(m, pci, d);
    int64_t package = pci ? routes_package(m, routes_numa(m, pci)) : -1;
    snprintf(key, sizeof key, "%" PRId64, package);
    if (package < 0 && pci)
        return host;
    int at = find_or_add_frame(d, DRAW_PACKAGE, host, key);
    if (package < 0)
        snprintf(d->boxes[at].name, DRAW_TEXT, "place unknown");
    else
        snprintf(d->boxes[at].name, DRAW_TEXT, "CPU package %" PRId64, package);
    if (package >= 0)
        snprintf(d->boxes[at].more, DRAW_TEXT, "%.90s", text_or(m->system.cpu_model, ""));
    return at;
}

static int root_frame(const struct machine *m, const struct machine_pci *pci, struct drawing *d)
{
    int package = package_frame(m, pci, d);
    if (!pci)
        return package;
    int at = find_or_add_frame(d, DRAW_ROOT, package, text_or(pci->root, "?"));
    int64_t numa = routes_numa(m, pci);
    snprintf(d->boxes[at].name, DRAW_TEXT, "root complex");
    snprintf(d->boxes[at].more, DRAW_TEXT, "%.40s", text_or(pci->root, "unknown"));
    if (machine_is_flat(m))
        snprintf(d->boxes[at].more, DRAW_TEXT, "flat: real places unknown");
    else if (numa >= 0)
        snprintf(d->boxes[at].more, DRAW_TEXT, "%.40s, NUMA %" PRId64,
                 text_or(pci->root, "unknown"), numa);
    return at;
}

/* Frame of a device: nested switches, the topmost in its root complex. */
static int place_of(const struct machine *m, const struct machine_pci *pci, int depth,
                    struct drawing *d)
{
    const struct machine_pci *above =
        pci && *text_or(pci->parent, "") ? machine_find_pci(m, pci->parent.value) : NULL;
    if (!above || depth > 32)
        return root_frame(m, pci, d);
    int at = place_of(m, above, depth + 1, d);
    if (!text_is(above->kind, "upstream") && !text_is(above->kind, "bridge"))
        return at;
    at = find_or_add_frame(d, DRAW_BRIDGE, at, text_or(above->bdf, "?"));
    snprintf(d->boxes[at].name, DRAW_TEXT, "PCIe switch");
    if (above->gen.known && above->width.known)
        snprintf(d->boxes[at].more, DRAW_TEXT, "up: %" PRId64 " x%" PRId64, above->gen.value,
                 above->width.value);
    return at;
}

static int add_device(const struct machine *m, enum draw_kind kind, const char *bdf,
                      const char *name, struct drawing *d)
{
    int parent = place_of(m, machine_find_pci(m, bdf), 0, d);
    int at = draw_add_box(d, kind, parent);
    snprintf(d->boxes[at].name, DRAW_TEXT, "%.24s", name);
    return at;
}

static bool has_c2c(const struct machine *m, int64_t gpu)
{
    for (size_t i = 0; i < m->n_links; i++)
        if (number_is(m->links[i].gpu, gpu) && text_is(m->links[i].peer, "cpu") &&
            number_is(m->links[i].active, 1))
            return true;
    return false;
}

static void add_gpu(const struct machine *m, const struct machine_gpu *g, int domain,
                    struct drawing *d)
{
    char name[32];
    snprintf(name, sizeof name, "gpu%" PRId64, number_or(g->index, -1));
    int at = add_device(m, DRAW_GPU, g->bdf.value, name, d);
    d->boxes[at].gpu = number_or(g->index, -1);
    d->boxes[at].domain = domain;
    if (has_c2c(m, d->boxes[at].gpu))
        snprintf(d->boxes[at].more, DRAW_TEXT, "NVLink-C2C");
    else if (g->pcie_gen_max.known && g->pcie_width.known)
        snprintf(d->boxes[at].more, DRAW_TEXT, "PCIe %" PRId64 " x%" PRId64, g->pcie_gen_max.value,
                 g->pcie_width.value);
}

/* Adds the GPUs; with `by_domain` in the order of NVLink domains, so that GPUs of a domain are
 * adjacent where the tree allows it. */
static void add_gpus(const struct machine *m, bool by_domain, struct drawing *d)
{
    int *of = calloc(m->n_gpus + 1, sizeof *of);
    if (!of)
        abort();
    d->n_domains = draw_domains(m, of);
    for (int domain = 0; domain <= d->n_domains; domain++)
        for (size_t i = 0; i < m->n_gpus; i++) {
            int turn = !by_domain || d->n_domains < 2 ? 0 : of[i] < 0 ? d->n_domains : of[i];
            if (turn == domain)
                add_gpu(m, &m->gpus[i], of[i], d);
        }
    free(of);
}

static void add_nics(const struct machine *m, struct drawing *d)
{
    for (size_t i = 0; i < m->n_nics; i++) {
        const struct machine_nic *n = &m->nics[i];
        const struct machine_port *p = machine_find_port(m, text_or(n->name, ""));
        int at = add_device(m, DRAW_NIC, n->bdf.value, text_or(n->name, "NIC"), d);
        if (p && p->state.value && !text_is(p->state, "active"))
            snprintf(d->boxes[at].more, DRAW_TEXT, "%.16s", p->state.value);
        else if (p && p->mbit.known)
            snprintf(d->boxes[at].more, DRAW_TEXT, "%" PRId64 " Gbit/s", p->mbit.value / 1000);
    }
    for (size_t i = 0; i < m->n_interfaces; i++) {
        const struct machine_netif *n = &m->interfaces[i];
        if (!text_is(n->kind, "ethernet") || *text_or(n->nic, "") || !*text_or(n->bdf, ""))
            continue;
        int at = add_device(m, DRAW_NIC, n->bdf.value, text_or(n->name, "?"), d);
        snprintf(d->boxes[at].more, DRAW_TEXT, "Ethernet");
    }
}

static void add_disks(const struct machine *m, struct drawing *d)
{
    for (size_t i = 0; i < m->n_disks; i++) {
        const struct machine_disk *k = &m->disks[i];
        if (!*text_or(k->bdf, ""))
            continue;
        int at = add_device(m, DRAW_DISK, k->bdf.value, text_or(k->name, "disk"), d);
        snprintf(d->boxes[at].more, DRAW_TEXT, "%.20s",
                 text_is(k->kind, "nvme") ? "NVMe" : text_or(k->kind, ""));
    }
}

/* A root complex with a single device. */
static bool is_lone(const struct drawing *d, int frame)
{
    int n = 0;
    for (int i = 0; i < d->n_boxes && d->boxes[frame].kind == DRAW_ROOT; i++)
        n += d->boxes[i].parent == frame ? (draw_is_frame(d->boxes[i].kind) ? 2 : 1) : 0;
    return n == 1;
}

/* Many root complexes with a device each are no frames: the devices are in the package. */
static void drop_lone_roots(struct drawing *d)
{
    enum { LONE_MOST = 8 };
    int lone = 0, kept = 0, *to = calloc((size_t)d->n_boxes + 1, sizeof *to);
    if (!to)
        abort();
    for (int i = 0; i < d->n_boxes; i++)
        lone += is_lone(d, i);
    for (int i = 0; i < d->n_boxes; i++)
        to[i] = is_lone(d, i) ? -1 : kept++;
    for (int i = 0; i < d->n_boxes && lone > LONE_MOST; i++) {
        struct draw_box box = d->boxes[i];
        if (to[i] < 0)
            continue;
        if (box.parent >= 0 && to[box.parent] < 0)
            box.parent = d->boxes[box.parent].parent;
        box.parent = box.parent < 0 ? -1 : to[box.parent];
        d->boxes[to[i]] = box;
    }
    d->n_boxes = lone > LONE_MOST ? kept : d->n_boxes;
    free(to);
}

void draw_tree(const struct machine *machine, bool by_domain, struct drawing *d)
{
    add_gpus(machine, by_domain, d);
    add_nics(machine, d);
    add_disks(machine, d);
    drop_lone_roots(d);
}
