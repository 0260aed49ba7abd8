/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the checks of a pair. See explain.h. */
#include "machine/checks/explain.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "machine/checks/checks.h"
#include "machine/routes/whatif.h"

/* "/dev/NAME" is a device; a path below a folder of /dev (/dev/shm/x) is a file. */
static bool is_path(const char *name)
{
    bool in_dev = strncmp(name, "/dev/", 5) == 0;
    return strchr(in_dev ? name + 5 : name, '/') != NULL;
}

/* The endpoint of a file is the disk of its mount; a remote file system has no disk. */
static weft_status find_file(const struct machine *machine, const char *path,
                             struct verdict *verdict, struct endpoint *end)
{
    if (*path != '/')
        return base_fail(WEFT_ERR_ARGUMENT, "\"%s\" is not an absolute path: write a file as /...",
                         path);
    verdict->mount = machine_find_mount(machine, path);
    const char *disk = verdict->mount ? text_or(verdict->mount->disk, "") : "";
    if (*disk && machine_find_disk(machine, disk) && endpoint_find(machine, disk, end) == WEFT_OK) {
        snprintf(end->name, sizeof end->name, "%.63s", path);
        return WEFT_OK;
    }
    *end = (struct endpoint){.kind = ENDPOINT_DISK, .index = -1};
    snprintf(end->name, sizeof end->name, "%.63s", path);
    return WEFT_OK;
}

/* The first mount on a disk. */
static const struct machine_mount *mount_of(const struct machine *machine,
                                            const struct endpoint *disk)
{
    for (size_t i = 0; disk->kind == ENDPOINT_DISK && i < machine->n_mounts; i++)
        if (text_is(machine->mounts[i].disk, disk->name))
            return &machine->mounts[i];
    return NULL;
}

static weft_status find_named_end(const struct machine *machine, const char *name,
                                  struct verdict *verdict, struct endpoint *end)
{
    if (is_path(name))
        return find_file(machine, name, verdict, end);
    weft_status status = endpoint_find(machine, name, end);
    if (!status && !verdict->mount)
        verdict->mount = mount_of(machine, end);
    return status;
}

static void explain_gpus(const struct machine *machine, const struct endpoint *a,
                         const struct endpoint *b, const struct routes *routes,
                         struct findings *findings)
{
    check_peer(machine, a, b, routes, findings);
    check_links(machine, a, b, routes, findings);
    check_measured(machine, a, b, routes, findings);
    check_tested(machine, a, b, routes, findings);
    const struct route *best = routes_best(routes);
    findings->path = "PCIe";
    if (best && best->kind != ROUTE_LINK && best->kind != ROUTE_RELAY) {
        check_pcie(machine, a, findings);
        check_pcie(machine, b, findings);
    }
}

static void add_ladder(const struct machine *machine, struct verdict *v)
{
    static const char *const rungs[] = {"export", "dmabuf", "peermem", "transfer",
                                        "speed",  "queues", "doorbell"};
    const struct endpoint *gpu = v->a.kind == ENDPOINT_GPU ? &v->a : &v->b;
    const struct endpoint *nic = gpu == &v->a ? &v->b : &v->a;
    for (size_t i = 0; nic->kind == ENDPOINT_NIC && i < sizeof rungs / sizeof rungs[0]; i++) {
        const struct machine_rung *r = machine_find_rung(machine, gpu->index, nic->name, rungs[i]);
        if (r)
            v->ladder[v->n_ladder++] = r;
    }
}

/* Adds what a coherent link means for the two ends of a pair. */
static void explain_coherent(const struct machine *machine, const struct machine_gpu *gpu,
                             struct findings *findings)
{
    struct link_bundle cpu = routes_cpu_links(machine, number_or(gpu->index, -1));
    char links[96] = "", node[64] = "";
    if (!routes_coherent(machine, gpu))
        return;
    if (cpu.links)
        snprintf(links, sizeof links, "%dx %.20s, %" PRId64 " GB/s in each direction", cpu.links,
                 link_title(cpu.kind), (cpu.line_mbps + 500) / 1000);
    if (gpu->memory_numa.known)
        snprintf(node, sizeof node, "%sthe GPU's memory is NUMA node %" PRId64,
                 cpu.links ? "; " : "", gpu->memory_numa.value);
    findings->path = cpu.links ? link_title(cpu.kind) : "coherent link";
    findings->routes_off = 0;
    finding_add(findings, REASON_HOST_COHERENT, WEIGHT_NOTE, NULL, "%s%s", links, node);
    check_coherent(machine, findings);
}

static void explain_host(const struct machine *machine, const struct endpoint *device,
                         struct findings *findings)
{
    findings->path = "PCIe";
    findings->routes_off = ROUTE_BITS_ALL;
    if (device->kind == ENDPOINT_GPU) {
        const struct machine_gpu *gpu = machine_find_gpu(machine, device->index);
        check_gpu(machine, gpu, findings);
        check_mapping(machine, gpu, findings);
        check_pcie(machine, device, findings);
        check_host_speed(machine, device, findings);
        explain_coherent(machine, gpu, findings);
    } else if (device->kind == ENDPOINT_NIC) {
        check_nic(machine, device, findings);
    } else {
        check_pcie(machine, device, findings);
    }
}

void explain_findings(const struct machine *machine, const struct endpoint *a,
                      const struct endpoint *b, const struct machine_mount *mount,
                      const struct routes *routes, struct findings *findings)
{
    const struct endpoint *gpu = a->kind == ENDPOINT_GPU ? a : b;
    const struct endpoint *other = gpu == a ? b : a;
    if (!routes->n && routes_apart(machine, a, b) == LEVEL_NET) {
        finding_add(findings, REASON_OTHER_HOST, WEIGHT_NOTE, NULL, "distance of %s and %s: NET",
                    a->name, b->name);
        return; /* devices of two hosts share no hardware that a check could examine */
    }
    if (a->kind == ENDPOINT_HOST || b->kind == ENDPOINT_HOST) {
        explain_host(machine, a->kind == ENDPOINT_HOST ? b : a, findings);
    } else if (gpu->kind != ENDPOINT_GPU) {
        return;
    } else if (other->kind == ENDPOINT_GPU) {
        explain_gpus(machine, a, b, routes, findings);
    } else if (other->kind == ENDPOINT_NIC) {
        check_gdr(machine, gpu, other, findings);
        check_gda(machine, gpu, other, findings);
    } else {
        check_file(machine, gpu, other->name, mount, findings);
    }
}

/* Finds all routes of the pair, then marks those that a finding turns off. */
static void find_routes(const struct machine *machine, const struct endpoint *a,
                        const struct endpoint *b, const struct machine_mount *mount,
                        struct routes *routes)
{
    struct findings findings = {.off_only = true};
    unsigned off = 0;
    routes_between(machine, a, b, routes);
    if (routes->n)
        explain_findings(machine, a, b, mount, routes, &findings);
    for (int i = 0; i < findings.n; i++)
        off |= findings.list[i].routes_off;
    findings_free(&findings);
    for (int i = 0; i < routes->n; i++)
        if (off & ROUTE_BIT(routes->list[i].kind))
            routes->list[i].usable = ANSWER_NO;
    routes_sort(routes);
}

void explain_routes(const struct machine *machine, const struct endpoint *a,
                    const struct endpoint *b, struct routes *routes)
{
    const struct machine_mount *mount = mount_of(machine, a);
    find_routes(machine, a, b, mount ? mount : mount_of(machine, b), routes);
}

/* --- gain of a remedy ------------------------------------------------------------------------- */

static int64_t best_mbps(const struct machine *machine, const struct endpoint *a,
                         const struct endpoint *b, const struct machine_mount *mount)
{
    struct routes routes = {.n = 0};
    find_routes(machine, a, b, mount, &routes);
    const struct route *best = routes_best(&routes);
    return best ? best->mbps : 0;
}

/* The same endpoint on a copy of the machine. */
static struct endpoint end_on(const struct machine *machine, const struct endpoint *end)
{
    struct endpoint same = *end;
    same.pci = end->pci ? machine_find_pci(machine, end->pci->bdf.value) : NULL;
    return same;
}

static int64_t mbps_after(const struct machine *machine, const struct endpoint *a,
                          const struct endpoint *b, const struct machine_mount *mount,
                          const char *changes)
{
    struct machine *copy = machine_copy(machine);
    int64_t mbps = 0;
    if (whatif_apply(copy, changes) == WEFT_OK) {
        struct endpoint x = end_on(copy, a), y = end_on(copy, b);
        mbps = best_mbps(copy, &x, &y, mount ? &copy->mounts[mount - machine->mounts] : NULL);
    }
    machine_free(copy);
    return mbps;
}

void explain_gains(const struct machine *machine, const struct endpoint *a,
                   const struct endpoint *b, const struct machine_mount *mount,
                   struct findings *findings, int first)
{
    int64_t now = -1;
    for (int i = first; i < findings->n; i++) {
        struct finding *f = &findings->list[i];
        bool fault = f->weight == WEIGHT_OFF || f->weight == WEIGHT_SLOW;
        if (!fault || !*f->repair)
            continue;
        if (now < 0)
            now = best_mbps(machine, a, b, mount);
        int64_t then = mbps_after(machine, a, b, mount, f->repair);
        f->gain_mbps = then > now ? then - now : 0;
    }
}

weft_status explain_pair(const struct machine *machine, const char *a, const char *b,
                         struct verdict *v)
{
    memset(v, 0, sizeof *v);
    weft_status status = find_named_end(machine, a, v, &v->a);
    if (!status)
        status = find_named_end(machine, b, v, &v->b);
    if (status)
        return status;
    bool gpu = v->a.kind == ENDPOINT_GPU || v->b.kind == ENDPOINT_GPU;
    bool host = v->a.kind == ENDPOINT_HOST || v->b.kind == ENDPOINT_HOST;
    if (!gpu && !host)
        return base_fail(WEFT_ERR_ARGUMENT, "%s %s: one of the two must be a GPU or the host", a,
                         b);
    if (strcmp(v->a.name, v->b.name) == 0 ||
        (v->a.kind == ENDPOINT_HOST && v->b.kind == ENDPOINT_HOST))
        return base_fail(WEFT_ERR_ARGUMENT, "%s %s: both name the same device", a, b);
    char place[140];
    snprintf(place, sizeof place, "%s %s", v->a.name, v->b.name);
    v->findings.place = place;
    add_ladder(machine, v);
    find_routes(machine, &v->a, &v->b, v->mount, &v->routes);
    explain_findings(machine, &v->a, &v->b, v->mount, &v->routes, &v->findings);
    explain_gains(machine, &v->a, &v->b, v->mount, &v->findings, 0);
    v->findings.place = NULL;
    v->findings.path = NULL;
    v->possible = routes_best(&v->routes);
    v->chosen = v->possible && v->possible->offered ? v->possible : NULL;
    v->measured = machine_find_measured(machine, v->a.name, v->b.name);
    v->measured_back = machine_find_measured(machine, v->b.name, v->a.name);
    return WEFT_OK;
}

bool verdict_has_fault(const struct verdict *verdict)
{
    for (int i = 0; i < verdict->findings.n; i++)
        if (verdict->findings.list[i].weight <= WEIGHT_SLOW)
            return true;
    return false;
}

void verdict_free(struct verdict *verdict)
{
    findings_free(&verdict->findings);
}
