/* SPDX-License-Identifier: Apache-2.0 */
/* Every route between two endpoints with its expected rate and latency. See routes.h. */
#include "machine/routes/routes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine/facts.h"

static struct route *add_route(struct routes *routes, enum route_kind kind)
{
    if (routes->n == ROUTES_MOST)
        return NULL;
    struct route *route = &routes->list[routes->n++];
    *route = (struct route){.kind = kind, .usable = ANSWER_UNKNOWN, .via = -1};
    return route;
}

static enum answer status_answer(struct machine_text status)
{
    return !status.value || strcmp(status.value, "unknown") == 0 ? ANSWER_UNKNOWN
           : strcmp(status.value, "ok") == 0                     ? ANSWER_YES
                                                                 : ANSWER_NO;
}

/* The peer access test of the pair failed, or the driver refused it. */
static bool test_failed(const struct machine *machine, const char *a, const char *b)
{
    const struct machine_measured *m = machine_find_measured(machine, a, b);
    return m && (text_is(m->proof, "failed") || text_is(m->proof, "refused"));
}

/* --- GPU to GPU ------------------------------------------------------------------------------- */

/* The fabric gives the GPU less than the bandwidth of its links; how much less is not known. */
static bool is_degraded(const struct machine *machine, int64_t gpu)
{
    const struct machine_gpu *g = machine_find_gpu(machine, gpu);
    return g && number_is(g->fabric_degraded, 1);
}

static void add_link_route(const struct machine *machine, const struct endpoint *a,
                           const struct endpoint *b, struct routes *routes)
{
    struct link_bundle bundle = routes_links(machine, a->index, b->index);
    struct route *route = bundle.links ? add_route(routes, ROUTE_LINK) : NULL;
    if (!route)
        return;
    const struct machine_p2p *p2p = machine_find_p2p(machine, a->index, b->index);
    route->usable = p2p ? status_answer(p2p->write) : ANSWER_UNKNOWN;
    if (test_failed(machine, a->name, b->name))
        route->usable = ANSWER_NO;
    route->mbps = bundle.mbps;
    route->latency_ns = bundle.latency_ns;
    route->hops = bundle.through_switch ? 2 : 1;
    char generation[24] = "";
    if (bundle.generation)
        snprintf(generation, sizeof generation, " %" PRId64, bundle.generation);
    snprintf(route->text, sizeof route->text, "%dx %s%s%s", bundle.links, link_title(bundle.kind),
             generation, bundle.through_switch ? " through NVSwitch" : "");
    if (is_degraded(machine, a->index) || is_degraded(machine, b->index)) {
        route->mbps = 0;
        snprintf(route->limit, sizeof route->limit,
                 "degraded fabric: below %" PRId64 " GB/s, by an unknown part", bundle.mbps / 1000);
        return;
    }
    if (!bundle.line_mbps)
        return;
    snprintf(route->limit, sizeof route->limit, "%d link%s of %" PRId64 ".%" PRId64 " GB/s",
             bundle.links, bundle.links == 1 ? "" : "s", bundle.line_mbps / bundle.links / 1000,
             bundle.line_mbps / bundle.links % 1000 / 100);
}

static int64_t peer_latency(enum level level, struct peer_route peer)
{
    const struct fact_link *fact = fact_find_link("pcie", 4);
    int switches = level == LEVEL_PIX ? 1 : level == LEVEL_PXB ? 3 : 2;
    return fact->latency_ns + switches * FACT_SWITCH_LATENCY_NS + routes_peer_extra_ns(peer);
}

/* Whether PCIe peer access works, from the test result, then the driver's status. Without both: an
 * older Intel interconnect (QPI, UPI) does not carry it between two CPU packages. */
static enum answer peer_answer(const struct machine *machine, const struct endpoint *a,
                               const struct endpoint *b, enum level level)
{
    const struct machine_p2p *p2p = machine_find_p2p(machine, a->index, b->index);
    enum answer answer = ANSWER_UNKNOWN;
    if (test_failed(machine, a->name, b->name))
        return ANSWER_NO;
    if (p2p)
        answer = status_answer(p2p->pci) == ANSWER_UNKNOWN || status_answer(p2p->write) == ANSWER_NO
                     ? status_answer(p2p->write)
                     : status_answer(p2p->pci);
    if (answer == ANSWER_UNKNOWN && level == LEVEL_SYS &&
        (text_is(machine->system.socket_link, "qpi") ||
         text_is(machine->system.socket_link, "upi")))
        answer = ANSWER_NO;
    return answer;
}

static void add_peer(const struct machine *machine, const struct endpoint *a,
                     const struct endpoint *b, struct routes *routes)
{
    enum level level = routes_apart(machine, a, b);
    bool placed = a->pci && b->pci;
    struct route *route = placed || level != LEVEL_UNKNOWN ? add_route(routes, ROUTE_PEER) : NULL;
    if (!route)
        return;
    route->usable = peer_answer(machine, a, b, level);
    struct peer_route peer = routes_peer_route(machine, a->pci, b->pci);
    if (!placed && level == LEVEL_SYS)
        peer.crosses = ANSWER_UNKNOWN;
    if (placed)
        route->mbps = routes_peer_mbps(machine, a->pci, b->pci, FACT_REDIRECT_PERMILLE,
                                       route->limit, sizeof route->limit);
    route->latency_ns = level == LEVEL_UNKNOWN ? 0 : peer_latency(level, peer);
    route->hops = level == LEVEL_PIX ? 1 : 2;
    snprintf(route->text, sizeof route->text, "PCIe peer-to-peer (%s)", level_name(level));
}

/* A kernel on the relay GPU `via` reads from one GPU and writes to the other. So peer access to
 * both must not be refused, and the relay GPU must accept peer access at all. */
static enum answer relay_answer(const struct machine *machine, int64_t a, int64_t via, int64_t b)
{
    const struct machine_gpu *gpu = machine_find_gpu(machine, via);
    const int64_t ends[] = {a, b};
    if (number_is(gpu->mig, 1) || text_is(gpu->compute_mode, "prohibited"))
        return ANSWER_NO;
    for (int i = 0; i < 2; i++) {
        char name[32], other[32];
        const struct machine_p2p *p2p = machine_find_p2p(machine, via, ends[i]);
        snprintf(name, sizeof name, "gpu%" PRId64, via);
        snprintf(other, sizeof other, "gpu%" PRId64, ends[i]);
        if ((p2p && status_answer(p2p->write) == ANSWER_NO) || test_failed(machine, name, other))
            return ANSWER_NO;
    }
    return ANSWER_YES;
}

static void add_relays(const struct machine *machine, const struct endpoint *a,
                       const struct endpoint *b, struct routes *routes)
{
    struct link_bundle direct = routes_links(machine, a->index, b->index);
    if (direct.through_switch || direct.count_only)
        return; /* a relay would use, or may use, the same links */
    for (size_t i = 0; i < machine->n_gpus; i++) {
        int64_t via = number_or(machine->gpus[i].index, -1);
        if (via < 0 || via == a->index || via == b->index)
            continue;
        struct link_bundle in = routes_links(machine, a->index, via);
        if (!in.links || in.through_switch)
            continue;
        struct link_bundle out = routes_links(machine, via, b->index);
        if (!out.links || out.through_switch)
            continue;
        struct route *route = add_route(routes, ROUTE_RELAY);
        if (!route)
            return;
        const struct link_bundle *least = in.mbps <= out.mbps ? &in : &out;
        route->usable = relay_answer(machine, a->index, via, b->index);
        route->via = (int)via;
        route->mbps = least->mbps;
        route->latency_ns = in.latency_ns + out.latency_ns + FACT_RELAY_LATENCY_NS;
        route->hops = 2;
        snprintf(route->text, sizeof route->text, "%s relay through gpu%" PRId64,
                 link_title(in.kind), via);
        snprintf(route->limit, sizeof route->limit, "%dx %s between gpu%" PRId64 " and gpu%" PRId64,
                 least->links, link_title(least->kind), least == &in ? a->index : via,
                 least == &in ? via : b->index);
    }
}

static void describe_cpu_links(struct link_bundle cpu, char *limit, size_t size)
{
    snprintf(limit, size, "%d links of %" PRId64 ".%" PRId64 " GB/s to the CPU", cpu.links,
             cpu.line_mbps / cpu.links / 1000, cpu.line_mbps / cpu.links % 1000 / 100);
}

/* Rate in MB/s between a device and host memory: over PCIe, or over the GPU's links to the CPU
 * where these are faster. */
static int64_t host_mbps(const struct machine *machine, const struct endpoint *device, char *limit,
                         size_t size)
{
    int64_t pcie = device->pci ? routes_pcie_mbps(machine, device->pci, limit, size) : 0;
    struct link_bundle cpu = {.links = 0};
    if (device->kind == ENDPOINT_GPU)
        cpu = routes_cpu_links(machine, device->index);
    if (!cpu.links || cpu.mbps <= pcie)
        return pcie;
    describe_cpu_links(cpu, limit, size);
    return cpu.mbps;
}

static void add_staged(const struct machine *machine, const struct endpoint *a,
                       const struct endpoint *b, int permille, struct routes *routes)
{
    struct route *route = add_route(routes, ROUTE_STAGED);
    if (!route)
        return;
    char other[96];
    int64_t x = host_mbps(machine, a, route->limit, sizeof route->limit);
    int64_t y = host_mbps(machine, b, other, sizeof other);
    route->usable = ANSWER_YES;
    if (x && y && y < x)
        snprintf(route->limit, sizeof route->limit, "%s", other);
    route->mbps = x && y ? (x < y ? x : y) * permille / 1000 : 0;
    route->latency_ns = FACT_STAGED_LATENCY_NS;
    route->hops = 2;
    snprintf(route->text, sizeof route->text, "staged through pinned host memory");
}

/* --- other pairs ------------------------------------------------------------------------------ */

/* A route to the memory of the other CPU package crosses the interconnect between packages. */
static void bound_by_interconnect(const struct machine *machine, struct route *route)
{
    route->latency_ns += FACT_SOCKET_LATENCY_NS;
    if (!machine->system.socket_link_mbps.known ||
        machine->system.socket_link_mbps.value >= route->mbps)
        return;
    route->mbps = machine->system.socket_link_mbps.value;
    snprintf(route->limit, sizeof route->limit, "CPU interconnect between packages");
}

static void add_host(const struct machine *machine, const struct endpoint *device,
                     const struct endpoint *host, struct routes *routes)
{
    struct route *route = add_route(routes, ROUTE_HOST);
    if (!route)
        return;
    struct link_bundle cpu = {.links = 0};
    if (device->kind == ENDPOINT_GPU)
        cpu = routes_cpu_links(machine, device->index);
    route->usable = ANSWER_YES;
    route->hops = 1;
    route->latency_ns = cpu.latency_ns ? cpu.latency_ns : FACT_HOST_LATENCY_NS;
    route->mbps = host_mbps(machine, device, route->limit, sizeof route->limit);
    int64_t here = routes_numa_of(machine, device);
    bool crosses = host->index >= 0 && here >= 0 &&
                   routes_package(machine, here) != routes_package(machine, host->index);
    if (crosses)
        bound_by_interconnect(machine, route);
    if (crosses && cpu.links && !machine->system.socket_link_mbps.known) {
        route->mbps = 0; /* the links are faster than many an interconnect */
        snprintf(route->limit, sizeof route->limit, "CPU interconnect, whose rate is unknown");
    }
    const char *other = crosses ? " of the other package" : "";
    const struct machine_gpu *gpu =
        device->kind == ENDPOINT_GPU ? machine_find_gpu(machine, device->index) : NULL;
    if (cpu.links) {
        snprintf(route->text, sizeof route->text, "%dx %s to host memory%s", cpu.links,
                 link_title(cpu.kind), other);
    } else if (gpu && routes_coherent(machine, gpu)) { /* links that a file does not report */
        snprintf(route->text, sizeof route->text, "coherent link to host memory%s", other);
        snprintf(route->limit, sizeof route->limit, "coherent link, whose rate is unknown");
        route->mbps = 0;
    } else
        snprintf(route->text, sizeof route->text, "PCIe to host memory%s", other);
}

static int64_t port_mbps(const struct machine *machine, const struct endpoint *nic)
{
    const struct machine_port *port = machine_find_port(machine, nic->name);
    return port && port->mbit.known ? port->mbit.value / 8 * FACT_NIC_PERMILLE / 1000 : 0;
}

/* The rate of the NIC's port bounds the route. */
static void bound_by_port(const struct machine *machine, const struct endpoint *nic, int permille,
                          struct route *route)
{
    int64_t port = port_mbps(machine, nic) * permille / 1000;
    if (port && (!route->mbps || port < route->mbps)) {
        route->mbps = port;
        snprintf(route->limit, sizeof route->limit, "port of %.40s", nic->name);
    }
}

/* The GPU's own PCIe link bounds the route, also where the rest of the route is unknown. */
static void bound_by_gpu(const struct machine *machine, const struct endpoint *gpu,
                         struct route *route)
{
    int64_t most = routes_gpu_mbps(machine, gpu->index);
    if (routes_cpu_links(machine, gpu->index).links)
        return; /* not bound by PCIe */
    if (most && most < route->mbps) {
        route->mbps = most;
        snprintf(route->limit, sizeof route->limit, "PCIe link of %.40s", gpu->name);
    }
}

/* Whether the NIC can write to the GPU, from the results of the GPU-NIC test. */
static enum answer ladder_answer(const struct machine *machine, const struct endpoint *gpu,
                                 const struct endpoint *nic)
{
    const struct machine_rung *dmabuf = machine_find_rung(machine, gpu->index, nic->name, "dmabuf");
    const struct machine_rung *peer = machine_find_rung(machine, gpu->index, nic->name, "peermem");
    const struct machine_rung *moved =
        machine_find_rung(machine, gpu->index, nic->name, "transfer");
    if (moved && text_is(moved->result, "failed"))
        return ANSWER_NO;
    if ((dmabuf && text_is(dmabuf->result, "ok")) || (peer && text_is(peer->result, "ok")))
        return ANSWER_YES;
    if (dmabuf && peer && text_is(dmabuf->result, "failed") && text_is(peer->result, "failed"))
        return ANSWER_NO;
    return ANSWER_UNKNOWN;
}

bool routes_by_cpu_links(const struct machine *machine, const struct endpoint *gpu,
                         const struct endpoint *nic)
{
    struct link_bundle cpu = routes_cpu_links(machine, gpu->index);
    return cpu.links && strcmp(cpu.kind, "c2c") == 0 && gpu->pci && nic->pci &&
           !routes_common_bridge(machine, gpu->pci, nic->pci);
}

/* The route of a NIC through a CPU and the links of the GPU to it. From the NIC of another CPU
 * package it crosses the interconnect between the two as well. */
static void over_cpu_links(const struct machine *machine, const struct endpoint *gpu,
                           const struct endpoint *nic, struct route *route)
{
    struct link_bundle cpu = routes_cpu_links(machine, gpu->index);
    int64_t mbps = routes_pcie_mbps(machine, nic->pci, route->limit, sizeof route->limit);
    enum answer crosses = routes_peer_route(machine, gpu->pci, nic->pci).crosses;
    route->mbps = mbps && cpu.mbps < mbps ? cpu.mbps : mbps;
    if (mbps && route->mbps == cpu.mbps)
        describe_cpu_links(cpu, route->limit, sizeof route->limit);
    route->latency_ns = FACT_NIC_LATENCY_NS + cpu.latency_ns;
    snprintf(route->text, sizeof route->text, "GPUDirect RDMA over %s%s", link_title(cpu.kind),
             crosses != ANSWER_NO ? " (SYS)" : "");
    if (crosses != ANSWER_NO)
        bound_by_interconnect(machine, route);
}

/* The NIC's own PCIe link bounds the route. */
static void bound_by_nic(const struct machine *machine, const struct endpoint *nic, int permille,
                         struct route *route)
{
    char limit[sizeof route->limit];
    int64_t mbps = nic->pci ? routes_pcie_mbps(machine, nic->pci, limit, sizeof limit) : 0;
    if (!mbps || !route->mbps || mbps * permille / 1000 >= route->mbps)
        return;
    route->mbps = mbps * permille / 1000;
    snprintf(route->limit, sizeof route->limit, "%s", limit);
}

static void add_gpu_nic(const struct machine *machine, const struct endpoint *gpu,
                        const struct endpoint *nic, struct routes *routes)
{
    struct route *route = add_route(routes, ROUTE_PEER);
    enum level level = routes_apart(machine, gpu, nic);
    route->usable = ladder_answer(machine, gpu, nic);
    if (gpu->pci && nic->pci)
        route->mbps = routes_peer_mbps(machine, gpu->pci, nic->pci, FACT_REDIRECT_NIC_PERMILLE,
                                       route->limit, sizeof route->limit);
    if (level != LEVEL_UNKNOWN)
        route->latency_ns = FACT_NIC_LATENCY_NS +
                            routes_peer_extra_ns(routes_peer_route(machine, gpu->pci, nic->pci));
    snprintf(route->text, sizeof route->text, "GPUDirect RDMA (%s)", level_name(level));
    if (routes_by_cpu_links(machine, gpu, nic))
        over_cpu_links(machine, gpu, nic, route);
    bound_by_port(machine, nic, 1000, route);
    bound_by_gpu(machine, gpu, route);
    add_staged(machine, gpu, nic, 1000, routes);
    struct route *staged = &routes->list[routes->n - 1];
    bound_by_port(machine, nic, FACT_NIC_STAGED_PERMILLE, staged);
    bound_by_nic(machine, nic, FACT_NIC_STAGED_PERMILLE, staged);
    bound_by_gpu(machine, gpu, staged);
}

static void add_gpu_disk(const struct machine *machine, const struct endpoint *gpu,
                         const struct endpoint *disk, struct routes *routes)
{
    struct route *route = add_route(routes, ROUTE_PEER);
    route->usable = ANSWER_UNKNOWN;
    if (gpu->pci && disk->pci)
        route->mbps = routes_peer_mbps(machine, gpu->pci, disk->pci, FACT_REDIRECT_PERMILLE,
                                       route->limit, sizeof route->limit) *
                      FACT_DISK_PERMILLE / 1000;
    snprintf(route->text, sizeof route->text, "GPUDirect Storage (%s)",
             level_name(routes_apart(machine, gpu, disk)));
    add_staged(machine, gpu, disk, FACT_DISK_PERMILLE, routes);
}

bool route_is_direct(const struct route *route)
{
    return route->kind == ROUTE_LINK || route->kind == ROUTE_PEER || route->kind == ROUTE_HOST;
}

/* Weft transfers data for NVIDIA GPUs only. For GPUs of other vendors it only describes the
 * machine. A GPU of unknown vendor may be NVIDIA's. */
static bool weft_supports(const struct machine *machine, const struct endpoint *end)
{
    const struct machine_gpu *gpu =
        end->kind == ENDPOINT_GPU ? machine_find_gpu(machine, end->index) : NULL;
    return !gpu || text_is(gpu->vendor, "nvidia") || !gpu->vendor.value;
}

static int by_use_and_speed(const void *a, const void *b)
{
    const struct route *x = a, *y = b;
    int use_x = x->usable != ANSWER_NO, use_y = y->usable != ANSWER_NO;
    if (use_x != use_y)
        return use_y - use_x;
    if (x->mbps != y->mbps)
        return x->mbps < y->mbps ? 1 : -1;
    return x->kind != y->kind ? (int)x->kind - (int)y->kind : x->via - y->via;
}

/* Links before PCIe peer access before routes with an intermediate copy. */
static int access_rank(const struct route *route)
{
    return route->kind == ROUTE_LINK ? 0 : route->kind == ROUTE_PEER ? 1 : 2;
}

/* Between two GPUs, peer access comes before a route that copies faster: kernels load and store
 * over it, and no kernel has to run on a relay GPU. */
static int by_use_and_access(const void *a, const void *b)
{
    const struct route *x = a, *y = b;
    bool same_use = (x->usable != ANSWER_NO) == (y->usable != ANSWER_NO);
    int rank_x = access_rank(x), rank_y = access_rank(y);
    return same_use && rank_x != rank_y ? rank_x - rank_y : by_use_and_speed(a, b);
}

/* Host of a device or of a NUMA node; -1 when the machine is a single host. */
static int64_t host_of(const struct machine *machine, const struct endpoint *end)
{
    const struct machine_numa *node =
        end->kind == ENDPOINT_HOST ? machine_find_numa(machine, end->index) : NULL;
    if (node)
        return number_or(node->host, -1);
    return end->pci ? number_or(end->pci->host, -1) : -1;
}

static bool other_host(const struct machine *machine, const struct endpoint *a,
                       const struct endpoint *b)
{
    int64_t x = host_of(machine, a), y = host_of(machine, b);
    return x >= 0 && y >= 0 && x != y;
}

static void add_relay_routes(const struct machine *machine, const struct endpoint *a,
                             const struct endpoint *b, struct routes *routes)
{
    if (a->index == b->index)
        return;
    add_link_route(machine, a, b, routes); /* these may lead to another host too */
    if (other_host(machine, a, b))
        return;
    add_peer(machine, a, b, routes);
    add_relays(machine, a, b, routes);
    add_staged(machine, a, b, FACT_STAGED_PERMILLE, routes);
}

static void add_device_and_host(const struct machine *machine, const struct endpoint *device,
                                const struct endpoint *host, struct routes *routes)
{
    add_host(machine, device, host, routes);
    if (device->kind == ENDPOINT_NIC)
        bound_by_port(machine, device, 1000, &routes->list[0]);
}

void routes_between(const struct machine *machine, const struct endpoint *a,
                    const struct endpoint *b, struct routes *routes)
{
    const struct endpoint *gpu = a->kind == ENDPOINT_GPU ? a : b;
    const struct endpoint *other = gpu == a ? b : a;
    routes->n = 0;
    routes->gpus = a->kind == ENDPOINT_GPU && b->kind == ENDPOINT_GPU;
    if (routes->gpus)
        add_relay_routes(machine, a, b, routes);
    else if (other_host(machine, a, b))
        return; /* only the network connects two hosts */
    else if (a->kind == ENDPOINT_HOST || b->kind == ENDPOINT_HOST)
        add_device_and_host(machine, a->kind == ENDPOINT_HOST ? b : a,
                            a->kind == ENDPOINT_HOST ? a : b, routes);
    else if (gpu->kind == ENDPOINT_GPU && other->kind == ENDPOINT_NIC)
        add_gpu_nic(machine, gpu, other, routes);
    else if (gpu->kind == ENDPOINT_GPU && other->kind == ENDPOINT_DISK)
        add_gpu_disk(machine, gpu, other, routes);
    for (int i = 0; i < routes->n; i++)
        routes->list[i].offered = weft_supports(machine, a) && weft_supports(machine, b);
    routes_sort(routes);
}

const char *route_state(const struct route *route)
{
    static const char *const states[] = {"off", "on", "unknown"};
    static const char *const without[] = {"off", "not supported by this version of Weft",
                                          "unknown, and not supported by this version of Weft"};
    return (route->offered ? states : without)[route->usable];
}

void routes_sort(struct routes *routes)
{
    qsort(routes->list, (size_t)routes->n, sizeof routes->list[0],
          routes->gpus ? by_use_and_access : by_use_and_speed);
}

const struct route *routes_best(const struct routes *routes)
{
    return routes->n && routes->list[0].usable != ANSWER_NO ? &routes->list[0] : NULL;
}

/* The direct route (the driver uses the links where there are any) and each relay, which uses links
 * of its own. Not the staged route: it shares PCIe with peer-to-peer and needs the peer's thread.
 */
int routes_disjoint(const struct routes *routes, int *indices, int64_t *total_mbps)
{
    int n = 0;
    bool direct_used = false;
    *total_mbps = 0;
    for (int i = 0; i < routes->n; i++) {
        const struct route *route = &routes->list[i];
        bool direct = route->kind == ROUTE_LINK || route->kind == ROUTE_PEER;
        if (route->usable == ANSWER_NO || !route->mbps || !route->offered ||
            route->kind == ROUTE_STAGED || (direct && direct_used))
            continue;
        direct_used |= direct;
        indices[n++] = i;
        *total_mbps += route->mbps;
    }
    return n;
}
