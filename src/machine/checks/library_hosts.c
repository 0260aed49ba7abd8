/* SPDX-License-Identifier: Apache-2.0 */
/* What NCCL and NVSHMEM do between GPUs of different hosts, and which of their variables about
 * NICs, interfaces and the topology to set. See libraries.h. */
#include "machine/checks/library_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine/checks/gid.h"

static const char hosts_scope[] = "GPUs to other hosts";

/* Whether GPUDirect RDMA between the two works; a test result decides. */
static enum answer rdma_answer(const struct machine *machine, const struct endpoint *gpu,
                               const struct endpoint *nic, struct routes *routes)
{
    explain_routes(machine, gpu, nic, routes);
    const struct route *peer = library_find_route(routes, ROUTE_PEER);
    return peer ? peer->usable : ANSWER_NO;
}

/* The GPU reaches the NIC by its links to the CPU, which NCCL counts as near (P2C). */
static bool by_cpu_links(const struct machine *machine, const struct endpoint *gpu,
                         const struct endpoint *nic)
{
    return routes_cpu_links(machine, gpu->index).links &&
           routes_peer_route(machine, gpu->pci, nic->pci).crosses == ANSWER_NO;
}

static bool can_open_nics(const struct machine *machine)
{
    return !text_is(machine->drivers.libibverbs, "") && !number_is(machine->limits.uverbs_nodes, 0);
}

static void plan_nccl_host(const struct machine *machine, const struct endpoint *gpu,
                           const struct endpoint *nic, const char *driver,
                           struct library_plan *plan)
{
    static struct routes routes;
    enum level level = library_nccl_apart(machine, gpu, nic);
    enum answer works = rdma_answer(machine, gpu, nic, &routes);
    bool near = level <= LEVEL_PXB || by_cpu_links(machine, gpu, nic);
    if (strcmp(driver, "efa") == 0)
        library_add_use(plan, "NCCL", hosts_scope, gpu->name,
                        "NET/OFI with the plugin aws-ofi-nccl; without it NET/Socket (TCP)");
    else if (works == ANSWER_NO)
        library_add_use(plan, "NCCL", hosts_scope, gpu->name,
                        "NET/IB without GPUDirect RDMA: the NIC cannot register the GPU's memory");
    else if (level == LEVEL_UNKNOWN)
        library_add_use(
            plan, "NCCL", hosts_scope, gpu->name,
            "NET/IB; GPUDirect RDMA is not known: the distance of the NIC is not known");
    else if (!near)
        library_add_use(plan, "NCCL", hosts_scope, gpu->name,
                        "NET/IB without GPUDirect RDMA: distance %s, by default up to PXB",
                        level_name(level));
    else
        library_add_use(plan, "NCCL", hosts_scope, gpu->name, "NET/IB with GPUDirect RDMA%s",
                        works == ANSWER_YES ? "" : ", if registration works (not tested)");
    const struct route *peer = library_find_route(&routes, ROUTE_PEER);
    const struct route *staged = library_find_route(&routes, ROUTE_STAGED);
    if (!near && level != LEVEL_UNKNOWN && works == ANSWER_YES && peer && staged &&
        peer->mbps > staged->mbps)
        library_add_variable(
            plan, "NCCL", "NCCL_NET_GDR_LEVEL", library_nccl_level(level),
            "%s, the NIC of %s, is at distance %s; GPUDirect RDMA works there and is "
            "expected to be faster than through host memory",
            nic->name, gpu->name, level_name(level));
}

/* NVSHMEM takes devices whose name begins with NVSHMEM_HCA_PREFIX, mlx5 by default. */
static void advise_prefix(const struct endpoint *nic, struct library_plan *plan)
{
    char prefix[32];
    snprintf(prefix, sizeof prefix, "%.*s", (int)strcspn(nic->name, "0123456789"), nic->name);
    if (strncmp(nic->name, "mlx5", 4) != 0 && *prefix)
        library_add_variable(
            plan, "NVSHMEM", "NVSHMEM_HCA_PREFIX", prefix,
            "NVSHMEM passes over %s: by default it takes only devices named mlx5* (3.4.5 "
            "or newer)",
            nic->name);
}

static void plan_nvshmem_host(const struct machine *machine, const struct endpoint *gpu,
                              const struct endpoint *nic, const char *driver,
                              struct library_plan *plan)
{
    static struct routes routes;
    enum answer works = rdma_answer(machine, gpu, nic, &routes);
    if (strcmp(driver, "efa") == 0) {
        library_add_use(plan, "NVSHMEM", hosts_scope, gpu->name,
                        "fails by default; libfabric with the variables below");
        library_add_variable(plan, "NVSHMEM", "NVSHMEM_REMOTE_TRANSPORT", "libfabric",
                             "IBRC, the default, needs a mlx5 NIC, and %s has driver efa",
                             nic->name);
        library_add_variable(plan, "NVSHMEM", "NVSHMEM_LIBFABRIC_PROVIDER", "efa",
                             "%s has driver efa", nic->name);
        return;
    }
    if (*driver && strncmp(driver, "mlx5", 4) != 0) {
        library_add_use(plan, "NVSHMEM", hosts_scope, gpu->name,
                        "fails: IBRC needs a mlx5 NIC, not %s", driver);
        return;
    }
    if (works == ANSWER_NO) {
        library_add_use(plan, "NVSHMEM", hosts_scope, gpu->name,
                        "fails: the NIC cannot register the GPU's memory");
        return;
    }
    library_add_use(plan, "NVSHMEM", hosts_scope, gpu->name, "IBRC (a CPU thread posts)%s",
                    works == ANSWER_YES ? "" : ", if registration works (not tested)");
    if (!*driver)
        return;
    advise_prefix(nic, plan);
    library_add_variable(
        plan, "NVSHMEM", "NVSHMEM_IB_ENABLE_IBGDA", "1", "mlx5 NICs take requests from GPUs%s",
        number_is(machine->drivers.peer_mapping_override, 1)
            ? ", and PeerMappingOverride=1 lets GPUs ring the doorbell"
            : "; without PeerMappingOverride=1 a CPU thread rings the doorbell (NVSHMEM "
              "3.4.5 or newer)");
}

static void advise_topology(const struct machine *machine, struct library_plan *plan)
{
    const struct machine_gpu *gpus = machine->gpus;
    bool linked =
        machine->n_gpus > 1 &&
        routes_links(machine, number_or(gpus[0].index, -1), number_or(gpus[1].index, -1)).links > 0;
    if (machine_is_flat(machine) && (machine->n_nics || (machine->n_gpus > 1 && !linked)))
        library_add_variable(
            plan, "NCCL", "NCCL_TOPO_FILE", NULL,
            "this guest has a flat PCI tree, so NCCL finds every distance to be PHB; a "
            "file with the host's tree comes from the provider, or from weft topo --nccl "
            "where the host has been recorded");
}

/* One index holds for every port. NCCL since 2.21 selects a GID itself, so older versions alone
 * get a "maybe". */
static void advise_gid(const struct machine *machine, struct library_plan *plan)
{
    struct gid_advice gid;
    char index[24], *value = NULL;
    gid_advise(machine, &gid);
    if (gid.index >= 0) {
        snprintf(index, sizeof index, "%" PRId64, gid.index);
        value = index;
    }
    if (gid.nic)
        for (int i = 0; i < 2; i++)
            library_add_variable(
                plan, i ? "NVSHMEM" : "NCCL", i ? "NVSHMEM_IB_GID_INDEX" : "NCCL_IB_GID_INDEX",
                value, "by default %s of %s is taken, %s reaches other subnets%s", gid.taken,
                gid.nic, gid.best, value ? "" : "; the ports have no good index in common");
    else if (gid.old_nic)
        library_add_variable(
            plan, "NCCL", "NCCL_IB_GID_INDEX", NULL,
            "only for NCCL before 2.21, which takes %s of %s: %s reaches other subnets%s",
            gid.old_taken, gid.old_nic, gid.old_best,
            value ? "" : "; the ports have no good index in common");
    else if (gid.recorded < gid.ports)
        library_add_variable(
            plan, "NCCL", "NCCL_IB_GID_INDEX", NULL,
            "only for NCCL before 2.21, which takes GID 0: the index of the RoCE v2 GID "
            "with an IP address (show_gids, or ibv_devinfo -v)");
}

/* The NIC that the libraries use for a GPU: the nearest, whatever its rate. Of several at that
 * distance the one that Weft would assign. NULL: none can be used. */
static const struct machine_nic *nearest_of(const struct machine *machine,
                                            const struct endpoint *gpu,
                                            const struct machine_nic *assigned)
{
    const struct machine_nic *nearest = NULL;
    enum level least = LEVEL_UNKNOWN;
    for (size_t i = 0; i < machine->n_nics; i++) {
        const struct machine_nic *nic = &machine->nics[i];
        if (!assign_can_use(machine, nic) ||
            machine_find_nic(machine, text_or(nic->name, "")) != nic)
            continue;
        struct endpoint end = endpoint_of_nic(machine, nic);
        enum level here = library_nccl_apart(machine, gpu, &end);
        if (!nearest || here < least || (here == least && nic == assigned)) {
            nearest = nic;
            least = here;
        }
    }
    return nearest;
}

/* The NIC is the nearest of some GPU, so that leaving it out would take GPUDirect RDMA from it. */
static bool is_nearest(const struct machine *machine, const struct assignment *assignment,
                       const struct machine_nic *nic)
{
    for (int i = 0; i < assignment->n; i++) {
        struct endpoint gpu = endpoint_of_gpu(machine, assignment->list[i].gpu);
        if (nearest_of(machine, &gpu, assignment->list[i].nic) == nic)
            return true;
    }
    return false;
}

/* The highest rate of an active port in Mbit/s; 0: no rate is known. */
static int64_t fastest_port(const struct machine *machine)
{
    int64_t most = 0;
    for (size_t i = 0; i < machine->n_nics; i++) {
        const struct machine_port *port = assign_port(machine, &machine->nics[i]);
        int64_t mbit = port ? number_or(port->mbit, 0) : 0;
        most = mbit > most ? mbit : most;
    }
    return most;
}

/* Where some active NICs are slower than others and no GPU's nearest (for storage or management),
 * names the others. '=' selects exact names in NCCL. */
static void advise_nics(const struct machine *machine, const struct assignment *assignment,
                        struct library_plan *plan)
{
    char *list;
    size_t size;
    int64_t most = fastest_port(machine);
    const struct machine_nic *slow = NULL;
    FILE *to = open_memstream(&list, &size);
    if (!to)
        abort();
    for (size_t i = 0; i < machine->n_nics; i++) {
        const struct machine_nic *nic = &machine->nics[i];
        const struct machine_port *port = assign_port(machine, nic);
        if (!port || !port->mbit.known || !nic->name.value)
            continue;
        if (port->mbit.value * 11 / 10 < most && !is_nearest(machine, assignment, nic))
            slow = nic;
        else
            fprintf(to, "%c%s:%" PRId64, ftell(to) ? ',' : '=', nic->name.value,
                    number_or(port->port, 1));
    }
    fclose(to);
    if (slow) {
        library_add_variable(
            plan, "NCCL", "NCCL_IB_HCA", list,
            "%s is slower than others and no GPU's nearest, and NCCL takes every active NIC",
            slow->name.value);
        library_add_variable(plan, "NVSHMEM", "NVSHMEM_HCA_LIST", list + 1,
                             "the same NICs; NVSHMEM chooses the nearest of them for each GPU");
    }
    free(list);
}

/* NCCL takes the first interface that is neither lo nor docker*. */
static void advise_interface(const struct machine *machine, struct library_plan *plan)
{
    const struct machine_netif *best = NULL, *first = NULL;
    int n = 0;
    char value[80];
    for (size_t i = 0; i < machine->n_interfaces; i++) {
        const struct machine_netif *one = &machine->interfaces[i];
        if (!text_is(one->kind, "ethernet") || !text_is(one->state, "up") || !one->name.value ||
            *text_or(one->master, "") || number_or(one->mbit, 0) == 0)
            continue;
        n++;
        first = first ? first : one;
        best = !best || one->mbit.value > best->mbit.value ? one : best;
    }
    if (n < 2 || first == best || first->mbit.value == best->mbit.value)
        return;
    snprintf(value, sizeof value, "=%.70s", best->name.value);
    library_add_variable(plan, "NCCL", "NCCL_SOCKET_IFNAME", value,
                         "%s has %" PRId64
                         " Mbit/s; NCCL takes the first interface, which may be %s with "
                         "%" PRId64,
                         best->name.value, best->mbit.value, first->name.value, first->mbit.value);
}

void library_plan_hosts(const struct machine *machine, struct library_plan *plan)
{
    struct assignment assignment;
    assign_nics(machine, &assignment);
    for (int i = 0; i < assignment.n; i++) {
        struct endpoint gpu = endpoint_of_gpu(machine, assignment.list[i].gpu);
        if (!library_is_indexed(machine, assignment.list[i].gpu))
            continue;
        const struct machine_nic *used = nearest_of(machine, &gpu, assignment.list[i].nic);
        if (!used || !can_open_nics(machine)) {
            const char *why = used              ? "this process cannot open the NIC"
                              : machine->n_nics ? "no NIC has an active port"
                                                : "there is no RDMA NIC";
            library_add_use(plan, "NCCL", hosts_scope, gpu.name, "NET/Socket (TCP): %s", why);
            library_add_use(plan, "NVSHMEM", hosts_scope, gpu.name, "fails: %s", why);
            continue;
        }
        struct endpoint nic = endpoint_of_nic(machine, used);
        plan_nccl_host(machine, &gpu, &nic, text_or(used->driver, ""), plan);
        plan_nvshmem_host(machine, &gpu, &nic, text_or(used->driver, ""), plan);
    }
    if (can_open_nics(machine)) {
        advise_nics(machine, &assignment, plan);
        advise_gid(machine, plan);
    }
    advise_interface(machine, plan);
    advise_topology(machine, plan);
    assignment_free(&assignment);
}
