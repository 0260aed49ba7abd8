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

#include "machine/checks/library_plan.h"

enum { MULTICAST_CUDA = 12010, MULTICAST_MAJOR = 9 }; /* multicast: CUDA 12.1, Hopper */

static const char pairs_scope[] = "pairs of GPUs", collectives_scope[] = "collectives";

void library_add_use(struct library_plan *plan, const char *library, const char *scope,
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

void library_add_variable(struct library_plan *plan, const char *library, const char *name,
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

const struct route *library_find_route(const struct routes *routes, enum route_kind kind)
{
    for (int i = 0; i < routes->n; i++)
        if (routes->list[i].kind == kind)
            return &routes->list[i];
    return NULL;
}

const char *library_nccl_level(enum level level)
{
    return level_name(level == LEVEL_NODE ? LEVEL_PHB : level);
}

enum level library_nccl_apart(const struct machine *machine, const struct endpoint *a,
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
    const struct route *peer = library_find_route(routes, ROUTE_PEER);
    const struct route *staged = library_find_route(routes, ROUTE_STAGED);
    return access.passed && peer && staged && peer->mbps > staged->mbps;
}

/* `farthest`: the greatest distance at which P2P is better and beyond NCCL's limit. */
static void plan_nccl_pair(const struct machine *machine, const struct endpoint *a,
                           const struct endpoint *b, const struct routes *routes,
                           enum level *farthest, struct library_plan *plan)
{
    struct pair_access access = read_access(machine, a, b);
    enum level level = library_nccl_apart(machine, a, b), limit = nccl_p2p_limit(machine);
    const struct route *relay = library_find_route(routes, ROUTE_RELAY);
    bool linked = routes_links(machine, a->index, b->index).links > 0;
    char pair[80];
    snprintf(pair, sizeof pair, "%.30s %.30s", a->name, b->name);
    if (linked && access.refused)
        library_add_use(plan, "NCCL", pairs_scope, pair,
                        "stops with an error: the driver refuses P2P between linked GPUs");
    else if (linked)
        library_add_use(plan, "NCCL", pairs_scope, pair, "P2P over NVLink%s",
                        access_words_of(access));
    else if (relay && relay->usable != ANSWER_NO)
        library_add_use(plan, "NCCL", pairs_scope, pair, "P2P over NVLink through another GPU");
    else if (access.refused)
        library_add_use(plan, "NCCL", pairs_scope, pair,
                        "SHM (through host memory): the driver refuses peer access");
    else if (level == LEVEL_UNKNOWN)
        library_add_use(plan, "NCCL", pairs_scope, pair, "not known: their distance is not known");
    else if (level > limit)
        library_add_use(plan, "NCCL", pairs_scope, pair,
                        "SHM (through host memory): distance %s, P2P by default up to %s",
                        level_name(level), library_nccl_level(limit));
    else
        library_add_use(plan, "NCCL", pairs_scope, pair, "P2P over PCIe%s",
                        access_words_of(access));
    if (!linked && !access.refused && level > limit && level != LEVEL_UNKNOWN &&
        level > *farthest && gains_by_p2p(routes, access))
        *farthest = level;
    if (access.failed && !access.refused && (linked || level <= limit))
        library_add_variable(
            plan, "NCCL", "NCCL_P2P_DISABLE", "1",
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
        library_add_use(plan, "NVSHMEM", pairs_scope, pair, "P2P over %s%s",
                        linked ? "NVLink" : "PCIe", access_words_of(access));
    else if (has_mlx5(machine))
        library_add_use(plan, "NVSHMEM", pairs_scope, pair,
                        "IBRC through the NIC: the driver refuses peer access");
    else
        library_add_use(plan, "NVSHMEM", pairs_scope, pair,
                        "fails: the driver refuses peer access, and there is no mlx5 NIC");
}

bool library_is_indexed(const struct machine *machine, const struct machine_gpu *gpu)
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
            if (!library_is_indexed(machine, &machine->gpus[i]) ||
                !library_is_indexed(machine, &machine->gpus[j]))
                continue;
            explain_routes(machine, &a, &b, &routes);
            if (!routes.n && routes_apart(machine, &a, &b) == LEVEL_NET)
                continue;
            plan_nccl_pair(machine, &a, &b, &routes, &farthest, plan);
            plan_nvshmem_pair(machine, &a, &b, plan);
        }
    if (farthest != LEVEL_SELF)
        library_add_variable(
            plan, "NCCL", "NCCL_P2P_LEVEL", library_nccl_level(farthest),
            "pairs at distance %s passed their path test, and PCIe peer access is expected "
            "to be faster than SHM",
            level_name(farthest));
}

/* --- collectives ------------------------------------------------------------------------------ */

/* A GPU for which the driver offers no multicast, or else one for which that is not known. */
static const struct machine_gpu *find_no_multicast(const struct machine *machine)
{
    const struct machine_gpu *found = NULL;
    for (size_t i = 0; i < machine->n_gpus; i++) {
        if (number_is(machine->gpus[i].multicast, 0))
            return &machine->gpus[i];
        if (!machine->gpus[i].multicast.known)
            found = &machine->gpus[i];
    }
    return found;
}

/* NVLS needs multicast of NVSwitch: Hopper or newer, CUDA 12.1 and a completed fabric. */
static void plan_nvls(const struct machine *machine, struct library_plan *plan)
{
    int64_t first = number_or(machine->gpus[0].index, -1);
    int64_t second = machine->n_gpus > 1 ? number_or(machine->gpus[1].index, -1) : -1;
    struct link_bundle bundle = routes_links(machine, first, second);
    const struct machine_gpu *gpu = &machine->gpus[0], *without = find_no_multicast(machine);
    const char *state = text_or(gpu->fabric_state, "completed");
    if (machine->n_gpus < 2)
        return;
    if (bundle.count_only)
        library_add_use(
            plan, "NCCL", collectives_scope, "",
            "NVLS is not known: the file does not say whether an NVSwitch connects the GPUs");
    else if (!bundle.through_switch)
        library_add_use(plan, "NCCL", collectives_scope, "",
                        "no NVLS: no NVSwitch connects the GPUs");
    else if (gpu->cc_major.known && gpu->cc_major.value < MULTICAST_MAJOR)
        library_add_use(plan, "NCCL", collectives_scope, "",
                        "no NVLS: it needs Hopper or newer GPUs");
    else if (strcmp(state, "completed") != 0)
        library_add_use(plan, "NCCL", collectives_scope, "", "no NVLS: fabric state %s", state);
    else if (machine->drivers.cuda.known && machine->drivers.cuda.value < MULTICAST_CUDA)
        library_add_use(plan, "NCCL", collectives_scope, "",
                        "no NVLS: the driver is older than CUDA 12.1");
    else if (!without)
        library_add_use(plan, "NCCL", collectives_scope, "", "NVLS: the driver offers multicast");
    else if (without->multicast.known)
        library_add_use(plan, "NCCL", collectives_scope, "",
                        "no NVLS: the driver offers no multicast for gpu%" PRId64
                        " (CUDA attribute 132)",
                        number_or(without->index, 0));
    else
        library_add_use(plan, "NCCL", collectives_scope, "",
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
    library_plan_hosts(machine, plan);
}

void libraries_free(struct library_plan *plan)
{
    for (int i = 0; i < plan->n_variables; i++)
        free(plan->variables[i].value);
    memset(plan, 0, sizeof *plan);
}
