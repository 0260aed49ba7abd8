/* SPDX-License-Identifier: Apache-2.0 */
/* Puts the checks of a pair together. See explain.h. */
#include "machine/explain.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "machine/checks.h"

/* What lies right below /dev is a device; folders there (/dev/shm) have files. */
static bool is_path(const char *name)
{
    bool in_dev = strncmp(name, "/dev/", 5) == 0;
    return strchr(in_dev ? name + 5 : name, '/') != NULL;
}

/* A file is reached through the disk below its mount; a remote file system has none. */
static weft_status find_file(const struct machine *machine, const char *path,
                             struct verdict *verdict, struct endpoint *end)
{
    if (*path != '/')
        return base_fail(WEFT_ERR_ARGUMENT, "\"%s\": a file is named by its whole path", path);
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

static weft_status find_end(const struct machine *machine, const char *name,
                            struct verdict *verdict, struct endpoint *end)
{
    if (is_path(name))
        return find_file(machine, name, verdict, end);
    weft_status status = endpoint_find(machine, name, end);
    for (size_t i = 0; !status && end->kind == ENDPOINT_DISK && i < machine->n_mounts; i++)
        if (text_is(machine->mounts[i].disk, end->name) && !verdict->mount)
            verdict->mount = &machine->mounts[i];
    return status;
}

/* The OFF findings decide which ways are usable: what the graph offers is not yet what works. */
static bool turned_off(const struct findings *findings, const char *path)
{
    for (int i = 0; i < findings->n; i++)
        if (findings->list[i].weight == WEIGHT_OFF && strcmp(findings->list[i].path, path) == 0)
            return true;
    return false;
}

static bool found(const struct findings *findings, enum reason reason)
{
    for (int i = 0; i < findings->n; i++)
        if (findings->list[i].reason == reason && findings->list[i].weight == WEIGHT_OFF)
            return true;
    return false;
}

static void turn_off(struct verdict *v, const char *path)
{
    bool no_nic = found(&v->findings, REASON_NIC_DOWN) || found(&v->findings, REASON_NIC_NO_NODE) ||
                  found(&v->findings, REASON_NIC_NO_VERBS);
    bool direct = turned_off(&v->findings, path);
    int64_t offered = 0;
    for (int i = 0; i < v->routes.n; i++) {
        struct route *route = &v->routes.list[i];
        if (route->kind == ROUTE_PEER)
            offered = route->mbps;
        if (no_nic || (direct && route->kind == ROUTE_PEER))
            route->usable = ANSWER_NO;
    }
    routes_sort(&v->routes);
    const struct route *best = routes_best(&v->routes);
    int64_t gain = offered - (best ? best->mbps : 0);
    for (int i = 0; i < v->findings.n; i++) {
        struct finding *f = &v->findings.list[i];
        if (f->weight == WEIGHT_OFF && strcmp(f->path, path) == 0)
            f->gain_mbps = gain > 0 ? gain : 0;
    }
}

static void explain_gpus(const struct machine *machine, struct verdict *v)
{
    check_peer(machine, &v->a, &v->b, &v->routes, &v->findings);
    check_links(machine, &v->a, &v->b, &v->routes, &v->findings);
    check_measured(machine, &v->a, &v->b, &v->routes, &v->findings);
    check_proven(machine, &v->a, &v->b, &v->routes, &v->findings);
    const struct route *best = routes_best(&v->routes);
    v->findings.path = "PCIe";
    v->findings.gain_mbps = 0;
    if (best && best->kind != ROUTE_LINK && best->kind != ROUTE_RELAY) {
        check_pcie(machine, &v->a, &v->findings);
        check_pcie(machine, &v->b, &v->findings);
    }
}

static void explain_nic(const struct machine *machine, struct verdict *v,
                        const struct endpoint *gpu, const struct endpoint *nic)
{
    static const char *const rungs[] = {"export", "dmabuf", "peermem", "transfer",
                                        "speed",  "queues", "doorbell"};
    for (size_t i = 0; i < sizeof rungs / sizeof rungs[0]; i++) {
        const struct machine_rung *r = machine_find_rung(machine, gpu->index, nic->name, rungs[i]);
        if (r)
            v->ladder[v->n_ladder++] = r;
    }
    check_gdr(machine, gpu, nic, &v->findings);
    check_gda(machine, gpu, nic, &v->findings);
    turn_off(v, "GPUDirect RDMA");
}

static void explain_host(const struct machine *machine, struct verdict *v,
                         const struct endpoint *device)
{
    v->findings.path = "PCIe";
    if (device->kind == ENDPOINT_GPU) {
        const struct machine_gpu *gpu = machine_find_gpu(machine, device->index);
        check_gpu(machine, gpu, &v->findings);
        check_mapping(machine, gpu, &v->findings);
        check_pcie(machine, device, &v->findings);
    } else if (device->kind == ENDPOINT_NIC) {
        check_nic(machine, device, &v->findings);
    } else {
        check_pcie(machine, device, &v->findings);
    }
}

static void explain_kinds(const struct machine *machine, struct verdict *v)
{
    const struct endpoint *gpu = v->a.kind == ENDPOINT_GPU ? &v->a : &v->b;
    const struct endpoint *other = gpu == &v->a ? &v->b : &v->a;
    bool host = v->a.kind == ENDPOINT_HOST || v->b.kind == ENDPOINT_HOST;
    if (host)
        explain_host(machine, v, v->a.kind == ENDPOINT_HOST ? &v->b : &v->a);
    else if (other->kind == ENDPOINT_GPU)
        explain_gpus(machine, v);
    else if (other->kind == ENDPOINT_NIC)
        explain_nic(machine, v, gpu, other);
    else {
        check_file(machine, gpu, other->name, v->mount, &v->findings);
        turn_off(v, "GPUDirect Storage");
    }
}

weft_status explain_pair(const struct machine *machine, const char *a, const char *b,
                         struct verdict *v)
{
    memset(v, 0, sizeof *v);
    weft_status status = find_end(machine, a, v, &v->a);
    if (!status)
        status = find_end(machine, b, v, &v->b);
    if (status)
        return status;
    bool gpu = v->a.kind == ENDPOINT_GPU || v->b.kind == ENDPOINT_GPU;
    bool host = v->a.kind == ENDPOINT_HOST || v->b.kind == ENDPOINT_HOST;
    if (!gpu && !host)
        return base_fail(WEFT_ERR_ARGUMENT, "%s %s: one of the two must be a GPU or the host", a,
                         b);
    if (strcmp(v->a.name, v->b.name) == 0 ||
        (v->a.kind == ENDPOINT_HOST && v->b.kind == ENDPOINT_HOST))
        return base_fail(WEFT_ERR_ARGUMENT, "%s %s: both are the same place", a, b);
    char place[140];
    snprintf(place, sizeof place, "%s %s", v->a.name, v->b.name);
    v->findings.place = place;
    routes_between(machine, &v->a, &v->b, &v->routes);
    explain_kinds(machine, v);
    v->findings.place = NULL;
    v->findings.path = NULL;
    v->chosen = routes_taken(&v->routes);
    v->possible = routes_best(&v->routes);
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
