/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of NICs and of RDMA into GPU memory. See checks.h. */
#include "machine/checks/checks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ROCE_MTU_LEAST = 4200 };

static enum level nic_distance(const struct machine *machine, const struct endpoint *gpu,
                               const struct machine_nic *nic)
{
    struct endpoint end = endpoint_of_nic(machine, nic);
    return routes_apart(machine, gpu, &end);
}

/* --- the port --------------------------------------------------------------------------------- */

static bool any_port_active(const struct machine *machine, const char *nic)
{
    for (size_t i = 0; i < machine->n_ports; i++)
        if (text_is(machine->ports[i].nic, nic) && text_is(machine->ports[i].state, "active"))
            return true;
    return false;
}

/* A port that is down is a note when another port of the NIC is active. */
static void check_port(const struct machine *machine, const struct machine_port *port,
                       struct findings *findings)
{
    const char *nic = text_or(port->nic, "?");
    const char *netdev = *text_or(port->netdev, "") ? port->netdev.value : nic;
    size_t number = (size_t)(port - machine->ports);
    bool active = any_port_active(machine, nic);
    if (port->state.value && !text_is(port->state, "active"))
        finding_repair(finding_add(findings, REASON_NIC_DOWN, active ? WEIGHT_NOTE : WEIGHT_OFF,
                                   nic, "%s port %" PRId64 ": %s, %s", nic,
                                   number_or(port->port, 0), port->state.value,
                                   text_or(port->physical, "?")),
                       "set ports[%zu].state active", number);
    if (number_or(port->symbol_errors, 0) > 0 || number_or(port->link_downed, 0) > 1)
        finding_add(findings, REASON_NIC_ERRORS, WEIGHT_NOTE, nic,
                    "%s port %" PRId64 ": %" PRId64 " symbol errors, link was down %" PRId64
                    " times",
                    nic, number_or(port->port, 0), number_or(port->symbol_errors, 0),
                    number_or(port->link_downed, 0));
    if (!text_is(port->layer, "roce"))
        return;
    if (port->roce.value && !text_is(port->roce, "v2"))
        finding_repair(finding_add(findings, REASON_ROCE_GID, WEIGHT_OFF, netdev,
                                   "%s port %" PRId64 ": newest RoCE version %s, %" PRId64 " GIDs",
                                   nic, number_or(port->port, 0), port->roce.value,
                                   number_or(port->gids, 0)),
                       "set ports[%zu].roce v2", number);
    else if (port->gid.value && (!*port->gid.value || strncmp(port->gid.value, "fe80:", 5) == 0))
        finding_add(findings, REASON_ROCE_GID, WEIGHT_SLOW, netdev,
                    "%s port %" PRId64 ": all %" PRId64 " GIDs are link-local (fe80::): they reach "
                    "one subnet only, and NCCL does not select them",
                    nic, number_or(port->port, 0), number_or(port->gids, 0));
    if (port->mtu.known && port->mtu.value < ROCE_MTU_LEAST)
        finding_add(findings, REASON_ROCE_MTU, WEIGHT_SLOW, netdev, "%s: MTU %" PRId64, netdev,
                    port->mtu.value);
}

static void check_access(const struct machine *machine, struct findings *findings)
{
    if (text_is(machine->drivers.libibverbs, ""))
        finding_repair(finding_add(findings, REASON_NIC_NO_VERBS, WEIGHT_OFF, NULL,
                                   "%zu RDMA devices, libibverbs.so.1 not found", machine->n_nics),
                       "set drivers.libibverbs libibverbs.so.1");
    if (number_is(machine->limits.uverbs_nodes, 0))
        finding_repair(
            finding_add(findings, REASON_NIC_NO_NODE, WEIGHT_OFF, NULL,
                        "%zu RDMA devices, none of /dev/infiniband/uverbs* can be opened",
                        machine->n_nics),
            "set limits.uverbs_nodes %zu", machine->n_nics);
}

void check_nic(const struct machine *machine, const struct endpoint *nic, struct findings *findings)
{
    unsigned routes_off = findings->routes_off;
    findings->routes_off = ROUTE_BITS_ALL; /* a NIC that does not work has no route */
    for (size_t i = 0; i < machine->n_ports; i++)
        if (text_is(machine->ports[i].nic, nic->name))
            check_port(machine, &machine->ports[i], findings);
    for (size_t i = 0; i < machine->n_interfaces; i++) {
        const struct machine_netif *n = &machine->interfaces[i];
        if (text_is(n->kind, "ipoib") && text_is(n->nic, nic->name))
            finding_add(findings, REASON_IPOIB, WEIGHT_NOTE, text_or(n->name, "?"),
                        "%s over %s is IPoIB, mode %s, MTU %" PRId64, text_or(n->name, "?"),
                        nic->name, text_or(n->ipoib_mode, "?"), number_or(n->mtu, 0));
    }
    if (nic->pci && number_is(nic->pci->virtual_function, 1))
        finding_add(findings, REASON_NIC_VF, WEIGHT_NOTE, nic->name,
                    "%s (%s) is an SR-IOV virtual function", nic->name,
                    text_or(nic->pci->bdf, "?"));
    check_access(machine, findings);
    check_pcie(machine, nic, findings);
    findings->routes_off = routes_off;
}

/* --- GPUDirect RDMA --------------------------------------------------------------------------- */

/* The step `name` of the GPU-NIC test when it has this result, else NULL. */
static const struct machine_rung *rung(const struct machine *machine, const struct endpoint *gpu,
                                       const struct endpoint *nic, const char *name,
                                       const char *result)
{
    const struct machine_rung *r = machine_find_rung(machine, gpu->index, nic->name, name);
    return r && text_is(r->result, result) ? r : NULL;
}

static struct finding *rung_finding(struct findings *findings, enum reason reason,
                                    enum weight weight, const struct machine_rung *r)
{
    return finding_add(findings, reason, weight, text_or(r->nic, "?"),
                       "gpu%" PRId64 " %s, %s: %s (errno %" PRId64 ")", number_or(r->gpu, -1),
                       text_or(r->nic, "?"), text_or(r->rung, "?"), text_or(r->detail, "failed"),
                       number_or(r->err, 0));
}

/* Adds "this step of the GPU-NIC test succeeds" to a repair. */
static void repair_rung(const struct machine *machine, const struct endpoint *gpu,
                        const struct endpoint *nic, const char *name, struct finding *finding)
{
    const struct machine_rung *r = machine_find_rung(machine, gpu->index, nic->name, name);
    if (r && !text_is(r->result, "ok"))
        finding_repair(finding, "set ladder[%zu].result ok", (size_t)(r - machine->ladder));
}

/* nvidia_peermem is loaded, and the GPU-NIC test has not tried a registration with it. */
static bool may_register(const struct machine *machine, const struct endpoint *gpu,
                         const struct endpoint *nic)
{
    return number_is(machine->drivers.nvidia_peermem, 1) &&
           rung(machine, gpu, nic, "peermem", "not-tried");
}

/* The open kernel module, which exports dma-buf, needs a GPU System Processor (Turing and newer),
 * so older GPUs get another remedy; none where nvidia_peermem does what dma-buf would. */
static void set_generation_remedy(const struct machine_gpu *gpu, bool peermem_works,
                                  struct finding *finding)
{
    int64_t major = number_or(gpu->cc_major, 99), minor = number_or(gpu->cc_minor, 0);
    if (major < 7 || (major == 7 && minor < 5))
        finding_remedy(finding,
                       peermem_works
                           ? "none needed: nvidia_peermem registers the memory of {dev}, which the "
                             "open kernel module, and so dma-buf, does not support"
                           : "modprobe nvidia_peermem (dma-buf is not possible: the open kernel "
                             "module, which exports it, does not support {dev})",
                       text_or(gpu->name, "this GPU"));
}

/* Checks the two kinds of registration (dma-buf and peermem). A failure of one is a note when the
 * other works or has not been tried. */
static void check_registration(const struct machine *machine, const struct endpoint *gpu,
                               const struct endpoint *nic, struct findings *findings)
{
    bool works =
        rung(machine, gpu, nic, "dmabuf", "ok") || rung(machine, gpu, nic, "peermem", "ok");
    bool may = !works && may_register(machine, gpu, nic);
    enum weight weight = works || may ? WEIGHT_NOTE : WEIGHT_OFF;
    if (may)
        finding_add(findings, REASON_GDR_UNTRIED, WEIGHT_UNKNOWN, nic->name,
                    "%s %s: registration with nvidia_peermem is not tested", gpu->name, nic->name);
    const struct machine_rung *failed;
    bool closed = text_is(machine->drivers.nvidia_flavor, "closed");
    bool loaded = number_is(machine->drivers.nvidia_peermem, 1);
    struct finding *f;
    if ((failed = rung(machine, gpu, nic, "export", "failed"))) {
        f = rung_finding(findings, closed && !works ? REASON_GDR_CLOSED : REASON_GDR_NO_DMABUF,
                         weight, failed);
        set_generation_remedy(machine_find_gpu(machine, gpu->index),
                              rung(machine, gpu, nic, "peermem", "ok") != NULL, f);
        if (loaded && rung(machine, gpu, nic, "peermem", "failed"))
            finding_remedy(f,
                           "fix GDR-PEERMEM-REG, or install the open kernel module if it supports "
                           "this GPU (Turing or newer)",
                           "");
        repair_rung(machine, gpu, nic, "export", f);
        repair_rung(machine, gpu, nic, "dmabuf", f);
    }
    if ((failed = rung(machine, gpu, nic, "dmabuf", "failed"))) {
        f = rung_finding(findings, REASON_GDR_DMABUF_REG, weight, failed);
        repair_rung(machine, gpu, nic, "dmabuf", f);
    }
    if ((failed = rung(machine, gpu, nic, "peermem", "failed"))) {
        f = rung_finding(findings, loaded ? REASON_GDR_PEERMEM_REG : REASON_GDR_NO_PEERMEM, weight,
                         failed);
        if (!loaded)
            finding_repair(f, "load module nvidia_peermem");
        repair_rung(machine, gpu, nic, "peermem", f);
    }
}

/* Without test results: adds what is already known to prevent registration. */
static void check_untried(const struct machine *machine, const struct endpoint *gpu,
                          const struct endpoint *nic, const struct machine_gpu *g,
                          struct findings *findings)
{
    char pair[140];
    snprintf(pair, sizeof pair, "%s %s", gpu->name, nic->name);
    finding_add(findings, REASON_GDR_UNTRIED, WEIGHT_UNKNOWN, pair,
                "%s: registration is not tested", pair);
    if (!text_is(g->vendor, "nvidia"))
        return;
    bool closed = text_is(machine->drivers.nvidia_flavor, "closed");
    bool no_peermem = number_is(machine->drivers.nvidia_peermem, 0);
    struct finding *f;
    if (number_is(g->dmabuf, 0)) {
        f = finding_add(findings, REASON_GDR_NO_DMABUF, no_peermem ? WEIGHT_OFF : WEIGHT_NOTE, NULL,
                        "%s: CUDA attribute 124 (dma-buf) is 0", gpu->name);
        set_generation_remedy(g, false, f);
        finding_repair(f, "load module nvidia_peermem");
    }
    if (closed && no_peermem) {
        f = finding_add(findings, REASON_GDR_CLOSED, WEIGHT_OFF, NULL,
                        "closed kernel module %s, nvidia_peermem is not loaded",
                        text_or(machine->drivers.nvidia_module, "?"));
        set_generation_remedy(g, false, f);
        finding_repair(f, "load module nvidia_peermem");
    } else if (no_peermem)
        finding_add(findings, REASON_GDR_NO_PEERMEM, WEIGHT_NOTE, NULL,
                    "nvidia_peermem is not loaded; dma-buf may work without it");
}

/* The port of the NIC is known, and its rate is more than 10 % below `mbit`. */
static bool is_slower(const struct machine *machine, const struct machine_nic *nic, int64_t mbit)
{
    const struct machine_port *port = assign_port(machine, nic);
    return port && port->mbit.known && port->mbit.value * 11 / 10 < mbit;
}

/* The nearest active NIC that is not slower than `mbit`. Of several equally near ones, GPU indices
 * select one in round-robin order. This runs for every pair of a table, so it does not compute the
 * assignment of all GPUs (assign.h). */
static const struct machine_nic *nearest_nic(const struct machine *machine,
                                             const struct endpoint *gpu, int64_t mbit,
                                             enum level *level)
{
    const struct machine_nic *near[8] = {NULL};
    size_t n = 0;
    *level = LEVEL_UNKNOWN;
    for (size_t i = 0; i < machine->n_nics; i++) {
        enum level here = nic_distance(machine, gpu, &machine->nics[i]);
        if (here > *level || !assign_can_use(machine, &machine->nics[i]) ||
            is_slower(machine, &machine->nics[i], mbit))
            continue;
        if (here < *level)
            n = 0;
        *level = here < *level ? here : *level;
        if (here == *level && n < sizeof near / sizeof near[0])
            near[n++] = &machine->nics[i];
    }
    return n ? near[(size_t)gpu->index % n] : NULL;
}

/* Expected rate of GPUDirect RDMA between a GPU and a NIC in MB/s; 0 when unknown. */
static int64_t direct_mbps(const struct machine *machine, const struct endpoint *gpu,
                           const struct endpoint *nic)
{
    struct routes routes;
    routes_between(machine, gpu, nic, &routes);
    for (int i = 0; i < routes.n; i++)
        if (routes.list[i].kind == ROUTE_PEER)
            return routes.list[i].mbps;
    return 0;
}

/* `direct`: expected rate of this NIC in MB/s. A nearer NIC that is slower (ACS on its route, a
 * slower port) is no better, so it makes no finding. */
static void check_far(const struct machine *machine, const struct endpoint *gpu,
                      const struct endpoint *nic, int64_t direct, struct findings *findings)
{
    enum level nearest, here = routes_apart(machine, gpu, nic);
    const struct machine_nic *this = machine_find_nic(machine, nic->name);
    const struct machine_port *port = this ? assign_port(machine, this) : NULL;
    const struct machine_nic *near =
        here == LEVEL_UNKNOWN
            ? NULL
            : nearest_nic(machine, gpu, port ? number_or(port->mbit, 0) : 0, &nearest);
    if (!near || nearest >= here)
        return;
    struct endpoint end = endpoint_of_nic(machine, near);
    int64_t there = direct_mbps(machine, gpu, &end);
    if (!there || !direct || there * 11 / 10 >= direct)
        finding_add(findings, REASON_GDR_FAR, WEIGHT_SLOW, near->name.value,
                    "%s is at distance %s, %s at %s", nic->name, level_name(here), near->name.value,
                    level_name(nearest));
}

static void add_gdr(const struct machine *machine, const struct endpoint *gpu,
                    const struct endpoint *nic, struct findings *findings)
{
    const struct machine_gpu *g = machine_find_gpu(machine, gpu->index);
    const struct machine_rung *r;
    int64_t direct = direct_mbps(machine, gpu, nic);
    if (number_is(g->rdma, 0))
        finding_repair(finding_add(findings, REASON_GDR_GPU, WEIGHT_OFF, NULL,
                                   "%s (%s): CUDA attribute 116 is 0", gpu->name,
                                   text_or(g->name, "?")),
                       "set gpus[%" PRId64 "].rdma yes", gpu->index);
    check_registration(machine, gpu, nic, findings);
    if (!machine_find_rung(machine, gpu->index, nic->name, "export"))
        check_untried(machine, gpu, nic, g, findings);
    if ((r = rung(machine, gpu, nic, "transfer", "failed")))
        repair_rung(machine, gpu, nic, "transfer",
                    rung_finding(findings, REASON_GDR_DATA, WEIGHT_OFF, r));
    r = rung(machine, gpu, nic, "speed", "ok");
    if (r && direct && number_or(r->mbps, direct) < check_threshold(machine, direct))
        finding_add(findings, REASON_GDR_SLOW, WEIGHT_SLOW, NULL,
                    "%s %s: %" PRId64 " of %" PRId64 " MB/s", gpu->name, nic->name, r->mbps.value,
                    direct);
    if (!findings->off_only)
        check_far(machine, gpu, nic, direct, findings);
    check_nic(machine, nic, findings);
    if (routes_by_cpu_links(machine, gpu, nic))
        finding_add(findings, REASON_GDR_COHERENT, WEIGHT_NOTE, NULL,
                    "%s has %dx NVLink-C2C to its CPU", gpu->name,
                    routes_cpu_links(machine, gpu->index).links);
    else /* only a note when the route is off for another cause */
        check_pcie_route(machine, gpu, nic,
                         findings_turn_off(findings, ROUTE_BIT(ROUTE_PEER)) ? WEIGHT_NOTE
                                                                            : WEIGHT_SLOW,
                         findings);
    check_mapping(machine, g, findings);
}

void check_gdr(const struct machine *machine, const struct endpoint *gpu,
               const struct endpoint *nic, struct findings *findings)
{
    struct findings own = {.place = findings->place,
                           .path = "GPUDirect RDMA",
                           .routes_off = ROUTE_BIT(ROUTE_PEER),
                           .off_only = findings->off_only};
    findings->path = own.path;
    add_gdr(machine, gpu, nic, &own);
    findings_merge(findings, &own);
}

/* --- GPU-initiated ---------------------------------------------------------------------------- */

/* A process that cannot open the NIC has no queues. This is a note: check_nic() reports the fault.
 */
static void check_nic_open(const struct machine *machine, const struct endpoint *gpu,
                           const struct endpoint *nic, struct findings *findings)
{
    bool library = !text_is(machine->drivers.libibverbs, "");
    if (!library || number_is(machine->limits.uverbs_nodes, 0))
        finding_add(findings, library ? REASON_NIC_NO_NODE : REASON_NIC_NO_VERBS, WEIGHT_NOTE, NULL,
                    "%s %s: no queues, because the NIC cannot be opened", gpu->name, nic->name);
}

/* EPERM or EACCES: the NIC can, and the process may not. */
static void add_no_queues(const struct machine_rung *queues, struct findings *findings)
{
    struct finding *f = rung_finding(findings, REASON_GDA_DEVX, WEIGHT_OFF, queues);
    int64_t error = number_or(queues->err, 0);
    if (error != EPERM && error != EACCES)
        return;
    finding_by_user(f);
    finding_remedy(f,
                   "give the process the privilege: docker run --privileged, or the pod's "
                   "securityContext privileged: true; without a container run it as root",
                   "");
}

void check_gda(const struct machine *machine, const struct endpoint *gpu,
               const struct endpoint *nic, struct findings *findings)
{
    const struct machine_nic *n = machine_find_nic(machine, nic->name);
    const struct machine_rung *doorbell = rung(machine, gpu, nic, "doorbell", "failed");
    const struct machine_rung *queues = rung(machine, gpu, nic, "queues", "failed");
    findings->path = "GPU-initiated RDMA";
    findings->routes_off = 0; /* concerns who posts the requests, not the route of the data */
    if (n->driver.value && strncmp(n->driver.value, "mlx5", 4) != 0) {
        struct finding *f =
            finding_add(findings, REASON_GDA_NIC, WEIGHT_NOTE, nic->name, "%s has %s%s", nic->name,
                        *n->driver.value ? "driver " : "no driver", n->driver.value);
        if (text_is(n->driver, "efa"))
            finding_remedy(
                f,
                "Weft's CPU proxy posts the requests; NCCL's GIN posts them from GPUs of "
                "P5en, P6-B200 and P6-B300: EFA installer 1.50 or newer, GDRCopy 2.5, "
                "PeerMappingOverride=1 (aws-ofi-nccl, gin-getting-started)",
                "");
        return;
    }
    check_nic_open(machine, gpu, nic, findings);
    if (text_is(machine->drivers.libmlx5, ""))
        finding_add(findings, REASON_GDA_LIB, WEIGHT_OFF, NULL, "libmlx5.so.1 not found");
    if (queues)
        add_no_queues(queues, findings);
    if (number_is(machine->drivers.peer_mapping_override, 0))
        finding_add(findings, REASON_GDA_PEER_MAPPING, WEIGHT_SLOW, NULL,
                    "NVreg_RegistryDwords is \"%s\"",
                    text_or(machine->drivers.registry_dwords, ""));
    if (doorbell)
        rung_finding(findings, REASON_GDA_UAR, WEIGHT_SLOW, doorbell);
}

void check_shared_nics(const struct machine *machine, const struct assignment *assignment,
                       struct findings *findings)
{
    for (size_t n = 0; n < machine->n_nics; n++) {
        int gpus = 0;
        char names[128] = "";
        for (int i = 0; i < assignment->n; i++) {
            const struct assigned *a = &assignment->list[i];
            if (a->nic != &machine->nics[n] || a->level == LEVEL_UNKNOWN)
                continue;
            gpus++;
            size_t used = strlen(names);
            snprintf(names + used, sizeof names - used, "%sgpu%" PRId64, used ? ", " : "",
                     number_or(a->gpu->index, -1));
        }
        if (gpus > 1)
            finding_add(findings, REASON_NIC_SHARED, WEIGHT_NOTE, machine->nics[n].name.value,
                        "%s is assigned to %s", text_or(machine->nics[n].name, "?"), names);
    }
}

/* --- other NICs ----------------------------------------------------------------------------- */

/* Name of the kernel's RDMA driver for a network controller that may be an RDMA NIC, else NULL.
 * Source: the PCI device tables of the kernel's drivers, and the PCI ID repository. */
static const char *rdma_driver(const struct machine_pci *pci)
{
    static const struct {
        int64_t vendor, first, last; /* devices */
        const char *driver;
    } nics[] = {{0x15b3, 0, 0xffff, "mlx5_ib (mlx4_ib before Connect-IB)"},
                {0x8086, 0x1590, 0x159f, "irdma"}, /* E810 */
                {0x8086, 0x37cc, 0x37d3, "irdma"}, /* X722 */
                {0x14e4, 0x16c0, 0x17ff, "bnxt_re"},
                {0x1d0f, 0xefa0, 0xefaf, "efa"},
                {0x1077, 0x1600, 0x8fff, "qedr"},
                {0x1425, 0, 0xffff, "iw_cxgb4"},
                {0x15ad, 0x0820, 0x0820, "vmw_pvrdma"},
                {0x1414, 0x00ba, 0x00ba, "mana_ib"}};
    enum { CLASS_NETWORK = 0x02 };
    int64_t device = number_or(pci->device, -1);
    if (number_or(pci->class, 0) >> 16 != CLASS_NETWORK)
        return NULL;
    for (size_t i = 0; i < sizeof nics / sizeof nics[0]; i++)
        if (number_is(pci->vendor, nics[i].vendor) && device >= nics[i].first &&
            device <= nics[i].last)
            return nics[i].driver;
    return NULL;
}

void check_nic_keys(const struct machine *machine, struct findings *findings)
{
    const char *library = text_or(machine->drivers.libibverbs, "");
    if (*library)
        finding_add(findings, REASON_NIC_KEYS, WEIGHT_NOTE, NULL, "%zu RDMA devices, %s",
                    machine->n_nics, library);
}

void check_no_nic(const struct machine *machine, struct findings *findings)
{
    for (size_t i = 0; i < machine->n_pci; i++) {
        const char *driver = rdma_driver(&machine->pci[i]);
        if (driver) {
            finding_add(findings, REASON_NIC_NONE, WEIGHT_NOTE, driver,
                        "no RDMA device in /sys/class/infiniband; %s (%04" PRIx64 ":%04" PRIx64
                        ") may be one",
                        text_or(machine->pci[i].bdf, "?"), (uint64_t)machine->pci[i].vendor.value,
                        (uint64_t)machine->pci[i].device.value);
            return;
        }
    }
    finding_add(findings, REASON_NIC_ABSENT, WEIGHT_NOTE, NULL,
                "no RDMA device in /sys/class/infiniband, and no PCI device that may be one");
}
