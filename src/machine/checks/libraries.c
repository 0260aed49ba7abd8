/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of NCCL (its documentation of NCCL_P2P_LEVEL and NCCL_NET_GDR_LEVEL, and what its
 * versions since 2.18 do by default) and of NVSHMEM (its list of environment variables). See
 * libraries.h. */
#include "machine/checks/libraries.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine/checks/explain.h"

enum { MULTICAST_CUDA = 12010, MULTICAST_MAJOR = 9 }; /* multicast: CUDA 12.1, Hopper */

static const char pairs_scope[] = "pairs of GPUs", hosts_scope[] = "GPUs to other hosts",
                  collectives_scope[] = "collectives";

/* Counts one more pair or GPU of a use. */
static void add_use(struct library_plan *plan, const char *library, const char *scope,
                    const char *example, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
static void add_use(struct library_plan *plan, const char *library, const char *scope,
                    const char *example, const char *format, ...)
{
    char does[sizeof plan->uses->does];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(does, sizeof does, format, arguments);
    va_end(arguments);
    for (int i = 0; i < plan->n_uses; i++) {
        struct library_use *use = &plan->uses[i];
        if (strcmp(use->library, library) == 0 && strcmp(use->scope, scope) == 0 &&
            strcmp(use->does, does) == 0) {
            use->n++;
            return;
        }
    }
    if (plan->n_uses == LIBRARY_USES)
        return;
    struct library_use *use = &plan->uses[plan->n_uses++];
    *use = (struct library_use){.library = library, .scope = scope, .n = *example != '\0'};
    snprintf(use->does, sizeof use->does, "%s", does);
    snprintf(use->example, sizeof use->example, "%s", example);
}

static struct library_variable *find_variable(struct library_plan *plan, const char *name)
{
    for (int i = 0; i < plan->n_variables; i++)
        if (strcmp(plan->variables[i].name, name) == 0)
            return &plan->variables[i];
    return NULL;
}

/* Adds a variable, once; `value` as in library_variable. */
static void add_variable(struct library_plan *plan, const char *library, const char *name,
                         const char *value, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
static void add_variable(struct library_plan *plan, const char *library, const char *name,
                         const char *value, const char *format, ...)
{
    if (find_variable(plan, name) || plan->n_variables == LIBRARY_VARIABLES)
        return;
    struct library_variable *variable = &plan->variables[plan->n_variables++];
    *variable = (struct library_variable){.library = library, .name = name};
    variable->value = value ? strdup(value) : NULL;
    if (value && !variable->value)
        abort();
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(variable->why, sizeof variable->why, format, arguments);
    va_end(arguments);
}

/* --- pairs of GPUs ---------------------------------------------------------------------------- */

/* What is known of the peer access of a pair, both directions together. */
struct pair_access {
    bool refused; /* by the driver, in one direction */
    bool offered; /* by the driver, in both */
    bool failed;  /* a path test failed */
    bool passed;  /* the path tests of both directions passed */
};

static bool is_refused(struct machine_text status)
{
    return status.value && !word_is_one_of(status.value, "ok|unknown");
}

static struct pair_access read_access(const struct machine *machine, const struct endpoint *a,
                                      const struct endpoint *b)
{
    const struct machine_p2p *there = machine_find_p2p(machine, a->index, b->index);
    const struct machine_p2p *back = machine_find_p2p(machine, b->index, a->index);
    const struct machine_measured *out = machine_find_measured(machine, a->name, b->name);
    const struct machine_measured *in = machine_find_measured(machine, b->name, a->name);
    return (struct pair_access){
        .refused = (there && (is_refused(there->read) || is_refused(there->write))) ||
                   (back && (is_refused(back->read) || is_refused(back->write))),
        .offered = there && back && text_is(there->write, "ok") && text_is(back->write, "ok"),
        .failed = (out && text_is(out->proof, "failed")) || (in && text_is(in->proof, "failed")),
        .passed = out && in && text_is(out->proof, "proven") && text_is(in->proof, "proven"),
    };
}

static const struct route *find_route(const struct routes *routes, enum route_kind kind)
{
    for (int i = 0; i < routes->n; i++)
        if (routes->list[i].kind == kind)
            return &routes->list[i];
    return NULL;
}

/* NCCL's names of distances; it has none for NODE, which it counts as PHB. */
static const char *nccl_level(enum level level)
{
    return level_name(level == LEVEL_NODE ? LEVEL_PHB : level);
}

/* The distance that NCCL finds. In a guest with a flat PCI tree it sees devices at the root
 * complex.
 */
static enum level nccl_apart(const struct machine *machine, const struct endpoint *a,
                             const struct endpoint *b)
{
    int64_t x = routes_numa_of(machine, a), y = routes_numa_of(machine, b);
    if (!machine_is_flat(machine))
        return routes_apart(machine, a, b);
    return x >= 0 && y >= 0 && x != y ? LEVEL_SYS : LEVEL_PHB;
}

/* Up to which distance NCCL uses P2P over PCIe by default: PXB; two GPUs on AMD's CPUs: SYS. */
static enum level nccl_p2p_limit(const struct machine *machine)
{
    bool amd = text_is(machine->system.cpu_vendor, "AuthenticAMD");
    return amd && machine->n_gpus <= 2 ? LEVEL_SYS : LEVEL_PXB;
}

static const char *access_words_of(struct pair_access access)
{
    return access.failed    ? ", which failed its path test here"
           : access.offered ? ""
                            : "; whether the driver allows it is not known";
}

/* P2P beyond NCCL's limit is better only where both directions passed their test and the direct
 * route is expected to be faster. */
static bool gains_by_p2p(const struct routes *routes, struct pair_access access)
{
    const struct route *peer = find_route(routes, ROUTE_PEER);
    const struct route *staged = find_route(routes, ROUTE_STAGED);
    return access.passed && peer && staged && peer->mbps > staged->mbps;
}

/* `farthest`: the greatest distance at which P2P is better and beyond NCCL's limit. */
static void plan_nccl_pair(const struct machine *machine, const struct endpoint *a,
                           const struct endpoint *b, const struct routes *routes,
                           enum level *farthest, struct library_plan *plan)
{
    struct pair_access access = read_access(machine, a, b);
    enum level level = nccl_apart(machine, a, b), limit = nccl_p2p_limit(machine);
    const struct route *relay = find_route(routes, ROUTE_RELAY);
    bool linked = routes_links(machine, a->index, b->index).links > 0;
    char pair[80];
    snprintf(pair, sizeof pair, "%.30s %.30s", a->name, b->name);
    if (linked && access.refused)
        add_use(plan, "NCCL", pairs_scope, pair,
                "stops with an error: the driver refuses P2P between linked GPUs");
    else if (linked)
        add_use(plan, "NCCL", pairs_scope, pair, "P2P over NVLink%s", access_words_of(access));
    else if (relay && relay->usable != ANSWER_NO)
        add_use(plan, "NCCL", pairs_scope, pair, "P2P over NVLink through another GPU");
    else if (access.refused)
        add_use(plan, "NCCL", pairs_scope, pair,
                "SHM (through host memory): the driver refuses peer access");
    else if (level == LEVEL_UNKNOWN)
        add_use(plan, "NCCL", pairs_scope, pair, "not known: their distance is not known");
    else if (level > limit)
        add_use(plan, "NCCL", pairs_scope, pair,
                "SHM (through host memory): distance %s, P2P by default up to %s",
                level_name(level), nccl_level(limit));
    else
        add_use(plan, "NCCL", pairs_scope, pair, "P2P over PCIe%s", access_words_of(access));
    if (!linked && !access.refused && level > limit && level != LEVEL_UNKNOWN &&
        level > *farthest && gains_by_p2p(routes, access))
        *farthest = level;
    if (access.failed && !access.refused && (linked || level <= limit))
        add_variable(plan, "NCCL", "NCCL_P2P_DISABLE", "1",
                     "peer access of %s failed its path test, and NCCL does not test it: jobs hang "
                     "or compute wrong results",
                     pair);
}

static bool has_mlx5(const struct machine *machine)
{
    for (size_t i = 0; i < machine->n_nics; i++)
        if (machine->nics[i].driver.value &&
            strncmp(machine->nics[i].driver.value, "mlx5", 4) == 0 &&
            assign_can_use(machine, &machine->nics[i]))
            return true;
    return false;
}

static void plan_nvshmem_pair(const struct machine *machine, const struct endpoint *a,
                              const struct endpoint *b, struct library_plan *plan)
{
    struct pair_access access = read_access(machine, a, b);
    bool linked = routes_links(machine, a->index, b->index).links > 0;
    char pair[80];
    snprintf(pair, sizeof pair, "%.30s %.30s", a->name, b->name);
    if (!access.refused)
        add_use(plan, "NVSHMEM", pairs_scope, pair, "P2P over %s%s", linked ? "NVLink" : "PCIe",
                access_words_of(access));
    else if (has_mlx5(machine))
        add_use(plan, "NVSHMEM", pairs_scope, pair,
                "IBRC through the NIC: the driver refuses peer access");
    else
        add_use(plan, "NVSHMEM", pairs_scope, pair,
                "fails: the driver refuses peer access, and there is no mlx5 NIC");
}

/* False for a GPU without an index of its own: look-ups by its name would find another one. */
static bool is_indexed(const struct machine *machine, const struct machine_gpu *gpu)
{
    return machine_find_gpu(machine, number_or(gpu->index, -1)) == gpu;
}

static void plan_pairs(const struct machine *machine, struct library_plan *plan)
{
    static struct routes routes;
    enum level farthest = LEVEL_SELF;
    for (size_t i = 0; i < machine->n_gpus; i++)
        for (size_t j = i + 1; j < machine->n_gpus; j++) {
            struct endpoint a = endpoint_of_gpu(machine, &machine->gpus[i]);
            struct endpoint b = endpoint_of_gpu(machine, &machine->gpus[j]);
            if (!is_indexed(machine, &machine->gpus[i]) || !is_indexed(machine, &machine->gpus[j]))
                continue;
            explain_routes(machine, &a, &b, &routes);
            if (!routes.n && routes_apart(machine, &a, &b) == LEVEL_NET)
                continue;
            plan_nccl_pair(machine, &a, &b, &routes, &farthest, plan);
            plan_nvshmem_pair(machine, &a, &b, plan);
        }
    if (farthest != LEVEL_SELF)
        add_variable(
            plan, "NCCL", "NCCL_P2P_LEVEL", nccl_level(farthest),
            "pairs at distance %s passed their path test, and PCIe peer access is expected "
            "to be faster than SHM",
            level_name(farthest));
}

/* --- other hosts ------------------------------------------------------------------------------ */

/* Whether GPUDirect RDMA between the two works; a test result decides. */
static enum answer rdma_answer(const struct machine *machine, const struct endpoint *gpu,
                               const struct endpoint *nic, struct routes *routes)
{
    explain_routes(machine, gpu, nic, routes);
    const struct route *peer = find_route(routes, ROUTE_PEER);
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
    enum level level = nccl_apart(machine, gpu, nic);
    enum answer works = rdma_answer(machine, gpu, nic, &routes);
    bool near = level <= LEVEL_PXB || by_cpu_links(machine, gpu, nic);
    if (strcmp(driver, "efa") == 0)
        add_use(plan, "NCCL", hosts_scope, gpu->name,
                "NET/OFI with the plugin aws-ofi-nccl; without it NET/Socket (TCP)");
    else if (works == ANSWER_NO)
        add_use(plan, "NCCL", hosts_scope, gpu->name,
                "NET/IB without GPUDirect RDMA: the NIC cannot register the GPU's memory");
    else if (level == LEVEL_UNKNOWN)
        add_use(plan, "NCCL", hosts_scope, gpu->name,
                "NET/IB; GPUDirect RDMA is not known: the distance of the NIC is not known");
    else if (!near)
        add_use(plan, "NCCL", hosts_scope, gpu->name,
                "NET/IB without GPUDirect RDMA: distance %s, by default up to PXB",
                level_name(level));
    else
        add_use(plan, "NCCL", hosts_scope, gpu->name, "NET/IB with GPUDirect RDMA%s",
                works == ANSWER_YES ? "" : ", if registration works (not tested)");
    const struct route *peer = find_route(&routes, ROUTE_PEER);
    const struct route *staged = find_route(&routes, ROUTE_STAGED);
    if (!near && level != LEVEL_UNKNOWN && works == ANSWER_YES && peer && staged &&
        peer->mbps > staged->mbps)
        add_variable(plan, "NCCL", "NCCL_NET_GDR_LEVEL", nccl_level(level),
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
        add_variable(plan, "NVSHMEM", "NVSHMEM_HCA_PREFIX", prefix,
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
        add_use(plan, "NVSHMEM", hosts_scope, gpu->name,
                "fails by default; libfabric with the variables below");
        add_variable(plan, "NVSHMEM", "NVSHMEM_REMOTE_TRANSPORT", "libfabric",
                     "IBRC, the default, needs a mlx5 NIC, and %s has driver efa", nic->name);
        add_variable(plan, "NVSHMEM", "NVSHMEM_LIBFABRIC_PROVIDER", "efa", "%s has driver efa",
                     nic->name);
        return;
    }
    if (*driver && strncmp(driver, "mlx5", 4) != 0) {
        add_use(plan, "NVSHMEM", hosts_scope, gpu->name, "fails: IBRC needs a mlx5 NIC, not %s",
                driver);
        return;
    }
    if (works == ANSWER_NO) {
        add_use(plan, "NVSHMEM", hosts_scope, gpu->name,
                "fails: the NIC cannot register the GPU's memory");
        return;
    }
    add_use(plan, "NVSHMEM", hosts_scope, gpu->name, "IBRC (a CPU thread posts)%s",
            works == ANSWER_YES ? "" : ", if registration works (not tested)");
    if (!*driver)
        return;
    advise_prefix(nic, plan);
    add_variable(plan, "NVSHMEM", "NVSHMEM_IB_ENABLE_IBGDA", "1",
                 "mlx5 NICs take requests from GPUs%s",
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
        add_variable(plan, "NCCL", "NCCL_TOPO_FILE", NULL,
                     "this guest has a flat PCI tree, so NCCL finds every distance to be PHB; a "
                     "file with the host's tree comes from the provider, or from weft topo --nccl "
                     "where the host has been recorded");
}

/* For RoCE: NCCL since 2.21 selects a GID itself. */
static void advise_gid(const struct machine *machine, struct library_plan *plan)
{
    for (size_t i = 0; i < machine->n_ports; i++)
        if (text_is(machine->ports[i].layer, "roce") && text_is(machine->ports[i].state, "active"))
            add_variable(plan, "NCCL", "NCCL_IB_GID_INDEX", NULL,
                         "only for NCCL before 2.21, which takes GID 0: the index of the RoCE v2 "
                         "GID with an IP address (show_gids, or ibv_devinfo -v)");
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
        enum level here = nccl_apart(machine, gpu, &end);
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
        add_variable(
            plan, "NCCL", "NCCL_IB_HCA", list,
            "%s is slower than others and no GPU's nearest, and NCCL takes every active NIC",
            slow->name.value);
        add_variable(plan, "NVSHMEM", "NVSHMEM_HCA_LIST", list + 1,
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
    add_variable(plan, "NCCL", "NCCL_SOCKET_IFNAME", value,
                 "%s has %" PRId64 " Mbit/s; NCCL takes the first interface, which may be %s with "
                 "%" PRId64,
                 best->name.value, best->mbit.value, first->name.value, first->mbit.value);
}

static void plan_hosts(const struct machine *machine, struct library_plan *plan)
{
    struct assignment assignment;
    assign_nics(machine, &assignment);
    for (int i = 0; i < assignment.n; i++) {
        struct endpoint gpu = endpoint_of_gpu(machine, assignment.list[i].gpu);
        if (!is_indexed(machine, assignment.list[i].gpu))
            continue;
        const struct machine_nic *used = nearest_of(machine, &gpu, assignment.list[i].nic);
        if (!used || !can_open_nics(machine)) {
            const char *why = used              ? "this process cannot open the NIC"
                              : machine->n_nics ? "no NIC has an active port"
                                                : "there is no RDMA NIC";
            add_use(plan, "NCCL", hosts_scope, gpu.name, "NET/Socket (TCP): %s", why);
            add_use(plan, "NVSHMEM", hosts_scope, gpu.name, "fails: %s", why);
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

/* --- collectives ------------------------------------------------------------------------------ */

/* NVLS needs multicast of NVSwitch: Hopper or newer, CUDA 12.1 and a completed fabric. */
static void plan_nvls(const struct machine *machine, struct library_plan *plan)
{
    int64_t first = number_or(machine->gpus[0].index, -1);
    int64_t second = machine->n_gpus > 1 ? number_or(machine->gpus[1].index, -1) : -1;
    struct link_bundle bundle = routes_links(machine, first, second);
    const struct machine_gpu *gpu = &machine->gpus[0];
    const char *state = text_or(gpu->fabric_state, "completed");
    if (machine->n_gpus < 2)
        return;
    if (bundle.count_only)
        add_use(plan, "NCCL", collectives_scope, "",
                "NVLS is not known: the file does not say whether an NVSwitch connects the GPUs");
    else if (!bundle.through_switch)
        add_use(plan, "NCCL", collectives_scope, "", "no NVLS: no NVSwitch connects the GPUs");
    else if (gpu->cc_major.known && gpu->cc_major.value < MULTICAST_MAJOR)
        add_use(plan, "NCCL", collectives_scope, "", "no NVLS: it needs Hopper or newer GPUs");
    else if (strcmp(state, "completed") != 0)
        add_use(plan, "NCCL", collectives_scope, "", "no NVLS: fabric state %s", state);
    else if (machine->drivers.cuda.known && machine->drivers.cuda.value < MULTICAST_CUDA)
        add_use(plan, "NCCL", collectives_scope, "", "no NVLS: the driver is older than CUDA 12.1");
    else
        add_use(plan, "NCCL", collectives_scope, "",
                "NVLS, if the driver offers multicast (not known)");
}

static bool are_all_nvidia(const struct machine *machine)
{
    for (size_t i = 0; i < machine->n_gpus; i++)
        if (!text_is(machine->gpus[i].vendor, "nvidia"))
            return false;
    return machine->n_gpus > 0;
}

void libraries_plan(const struct machine *machine, struct library_plan *plan)
{
    memset(plan, 0, sizeof *plan);
    if (!are_all_nvidia(machine))
        return;
    plan_pairs(machine, plan);
    plan_nvls(machine, plan);
    plan_hosts(machine, plan);
}

void libraries_free(struct library_plan *plan)
{
    for (int i = 0; i < plan->n_variables; i++)
        free(plan->variables[i].value);
    memset(plan, 0, sizeof *plan);
}
