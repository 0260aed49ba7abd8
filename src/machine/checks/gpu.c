/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of GPUs, their links and the pairs they form. See checks.h. */
#include "machine/checks/checks.h"

#include <inttypes.h>
#include <string.h>

#include "machine/facts.h"

enum {
    /* NVML clock event reasons that are a fault: hardware slowdown, software and hardware thermal
     * slowdown, power brake */
    CLOCKS_HELD = 0x8 | 0x20 | 0x40 | 0x80,
    REPLAYS_MANY = 100,
};

static bool is_nvidia(const struct machine_gpu *gpu)
{
    return text_is(gpu->vendor, "nvidia");
}

static const char *index_text(const struct machine_gpu *gpu)
{
    static _Thread_local char text[24];
    snprintf(text, sizeof text, "%" PRId64, number_or(gpu->index, -1));
    return text;
}

/* The remedies of the table use NVIDIA's tools; GPUs of AMD get the command of amd-smi. */
static void set_vendor_remedy(const struct machine_gpu *gpu, struct finding *finding)
{
    static const struct {
        enum reason reason;
        const char *remedy;
    } amd[] = {
        {REASON_P2P_UNTOLD, "amd-smi topology --access"},
        {REASON_NVLINK_DOWN,
         "amd-smi reset --gpureset --gpu {dev} (no job may run); if it stays: replace the board"},
        {REASON_NVLINK_BRIDGE,
         "amd-smi xgmi --link-status; ask the provider to check the bridge or board of gpu{dev}"},
        {REASON_NVLINK_SPEED, "amd-smi reset --gpureset --gpu {dev}"},
        {REASON_GPU_ECC, "amd-smi reset --gpureset --gpu {dev}; if they return: replace the GPU"},
        {REASON_GPU_CLOCKS,
         "check cooling and power: amd-smi metric --clock --power --temperature --gpu {dev}"},
    };
    if (!finding || !text_is(gpu->vendor, "amd"))
        return;
    for (size_t i = 0; i < sizeof amd / sizeof amd[0]; i++)
        if (amd[i].reason == finding->reason)
            finding_remedy(finding, amd[i].remedy, index_text(gpu));
}

/* --- one GPU ---------------------------------------------------------------------------------- */

static void check_prohibited(const struct machine_gpu *gpu, struct findings *findings)
{
    const char *index = index_text(gpu);
    unsigned routes_off = findings->routes_off;
    findings->routes_off = ROUTE_BITS_ALL;
    finding_repair(finding_add(findings, REASON_GPU_PROHIBITED, WEIGHT_OFF, index,
                               "gpu%s: compute mode prohibited", index),
                   "set gpus[%s].compute_mode default", index);
    findings->routes_off = routes_off;
}

void check_gpu(const struct machine *machine, const struct machine_gpu *gpu,
               struct findings *findings)
{
    const char *index = index_text(gpu);
    if (number_or(gpu->ecc_uncorrected, 0) > 0)
        set_vendor_remedy(gpu, finding_add(findings, REASON_GPU_ECC, WEIGHT_SLOW, index,
                                           "gpu%s: %" PRId64 " uncorrected ECC errors", index,
                                           gpu->ecc_uncorrected.value));
    if (is_nvidia(gpu) && text_is(gpu->compute_mode, "prohibited"))
        check_prohibited(gpu, findings);
    if (gpu->clock_reasons.known && (gpu->clock_reasons.value & CLOCKS_HELD))
        set_vendor_remedy(gpu,
                          finding_add(findings, REASON_GPU_CLOCKS, WEIGHT_SLOW, index,
                                      "gpu%s: clock reasons 0x%" PRIx64 ", SM clock %" PRId64
                                      " of %" PRId64 " MHz",
                                      index, gpu->clock_reasons.value, number_or(gpu->sm_mhz, 0),
                                      number_or(gpu->sm_mhz_max, 0)));
    if (is_nvidia(gpu) && number_is(gpu->persistence, 0))
        finding_add(findings, REASON_GPU_PERSISTENCE, WEIGHT_NOTE, index,
                    "gpu%s: persistence mode is off", index);
    if (number_or(gpu->pcie_replays, 0) > REPLAYS_MANY)
        finding_add(findings, REASON_PCIE_REPLAYS, WEIGHT_NOTE, index,
                    "gpu%s: %" PRId64 " PCIe replays", index, gpu->pcie_replays.value);
    /* check_pcie() compares the width where the PCI tree has it */
    const struct machine_pci *pci = machine_find_pci(machine, gpu->bdf.value);
    bool in_tree = pci && pci->width.known && *text_or(pci->parent, "");
    if (!in_tree && gpu->pcie_width.known && gpu->pcie_width_max.known &&
        gpu->pcie_width.value < gpu->pcie_width_max.value)
        finding_repair(finding_add(findings, REASON_PCIE_WIDTH, WEIGHT_SLOW,
                                   text_or(gpu->bdf, index),
                                   "gpu%s runs with %" PRId64 " of %" PRId64 " PCIe lanes", index,
                                   gpu->pcie_width.value, gpu->pcie_width_max.value),
                       "set gpus[%s].pcie_width %" PRId64, index, gpu->pcie_width_max.value);
}

/* WSL never has /dev/nvidiactl, so there the finding is another one. */
static void check_map_node(const struct machine *machine, const char *index,
                           struct findings *findings)
{
    const char *kernel = text_or(machine->system.kernel, "");
    if (!number_is(machine->limits.nvidiactl_node, 0))
        return;
    if (strstr(kernel, "microsoft") || strstr(kernel, "Microsoft"))
        finding_add(findings, REASON_MAP_WSL, WEIGHT_OFF, index,
                    "kernel %s, /dev/nvidiactl cannot be opened", kernel);
    else
        finding_add(findings, REASON_MAP_NODE, WEIGHT_OFF, index,
                    "/dev/nvidiactl cannot be opened");
}

/* The result of a mapping test takes precedence over what is known of the device nodes. */
static void check_map_backends(const struct machine *machine, const struct machine_gpu *gpu,
                               struct findings *findings)
{
    const char *index = index_text(gpu);
    char name[32];
    snprintf(name, sizeof name, "gpu%s", index);
    const struct machine_measured *m = machine_find_measured(machine, name, "host");
    if (!m)
        m = machine_find_measured(machine, "host", name);
    if (text_is(machine->limits.weft_map, "none"))
        finding_add(findings, REASON_MAP_OFF, WEIGHT_NOTE, index, "WEFT_MAP=none");
    if (m && text_is(m->proof, "proven"))
        return;
    check_map_node(machine, index, findings);
    if (number_is(machine->drivers.conf_compute, 1))
        finding_add(findings, REASON_MAP_CC, WEIGHT_OFF, index,
                    "the driver reports confidential computing");
    if (m && text_is(m->proof, "refused"))
        finding_add(findings, REASON_MAP_REFUSED, WEIGHT_SLOW, index, "%s: %s", name,
                    text_or(m->evidence, "the driver refused"));
    else if (m && text_is(m->proof, "failed"))
        finding_add(findings, REASON_MAP_PROOF, WEIGHT_OFF, index, "%s: %s", name,
                    text_or(m->evidence, "the mapping test failed"));
    else if (number_is(gpu->mig, 1))
        finding_add(findings, REASON_MAP_MIG, WEIGHT_NOTE, name, "%s: MIG mode is on", name);
}

void check_mapping(const struct machine *machine, const struct machine_gpu *gpu,
                   struct findings *findings)
{
    const char *index = index_text(gpu), *path = findings->path;
    unsigned routes_off = findings->routes_off;
    findings->path = "CPU mapping"; /* turns no route off: copies need no mapping */
    findings->routes_off = 0;
    if (gpu->bar1_bytes.known && gpu->memory_bytes.known &&
        gpu->bar1_bytes.value < gpu->memory_bytes.value)
        finding_add(findings, REASON_BAR1_SMALL, WEIGHT_SLOW, index,
                    "gpu%s: BAR1 %" PRId64 " MiB, memory %" PRId64 " MiB", index,
                    gpu->bar1_bytes.value >> 20, gpu->memory_bytes.value >> 20);
    if (is_nvidia(gpu))
        check_map_backends(machine, gpu, findings);
    if (number_is(machine->drivers.gdrdrv, 1) && number_is(machine->limits.gdrdrv_node, 0))
        finding_add(findings, REASON_MAP_GDRDRV, WEIGHT_NOTE, index,
                    "gdrdrv is loaded, /dev/gdrdrv cannot be opened");
    findings->path = path;
    findings->routes_off = routes_off;
}

static int64_t line_speed(const struct machine_link *link)
{
    const struct fact_link *fact =
        link->gen.known ? fact_find_link(text_or(link->kind, ""), link->gen.value) : NULL;
    return fact ? fact->line_mbps : 0;
}

struct link_count {
    int all, up;
    int peers_up;  /* active links that do not lead to a CPU */
    char down[64]; /* "3, 7" */
};

static struct link_count count_links(const struct machine *machine, int64_t gpu)
{
    struct link_count count = {0};
    struct machine_range range = machine_links_of(machine, gpu);
    for (size_t i = range.first; i < range.end; i++) {
        const struct machine_link *link = &machine->links[i];
        if (!number_is(link->gpu, gpu) || !link->active.known)
            continue;
        count.all++;
        count.up += link->active.value != 0;
        count.peers_up += link->active.value != 0 && !text_is(link->peer, "cpu");
        size_t n = strlen(count.down);
        if (!link->active.value && n < sizeof count.down - 8)
            snprintf(count.down + n, sizeof count.down - n, "%s%" PRId64, n ? ", " : "",
                     number_or(link->link, -1));
    }
    return count;
}

/* Another GPU of the same model has links that are up: then bridges and fabric are there. */
static const struct machine_gpu *linked_sibling(const struct machine *machine,
                                                const struct machine_gpu *gpu)
{
    for (size_t i = 0; i < machine->n_gpus; i++) {
        const struct machine_gpu *other = &machine->gpus[i];
        if (other != gpu && gpu->name.value && text_is(other->name, gpu->name.value) &&
            count_links(machine, number_or(other->index, -1)).peers_up)
            return other;
    }
    return NULL;
}

/* All links of this GPU alone are down. */
static const struct machine_gpu *has_lost_links(const struct machine *machine, int64_t index)
{
    const struct machine_gpu *gpu = machine_find_gpu(machine, index);
    struct link_count count = count_links(machine, index);
    return gpu && count.all && !count.peers_up ? linked_sibling(machine, gpu) : NULL;
}

static bool has_links_to_gpus(const struct machine *machine, const struct machine_gpu *gpu)
{
    for (size_t i = 0; i < machine->n_gpus; i++)
        if (&machine->gpus[i] != gpu &&
            routes_links(machine, gpu->index.value, number_or(machine->gpus[i].index, -1)).links)
            return true;
    return false;
}

/* Returns the number of other GPUs if there are three or more and all of them have links to GPUs,
 * but this one has none to any of them; else 0. A GPU of another model may have no NVLink. */
static int left_alone(const struct machine *machine, const struct machine_gpu *gpu)
{
    int others = 0;
    for (size_t i = 0; i < machine->n_gpus; i++) {
        const struct machine_gpu *other = &machine->gpus[i];
        if (other == gpu)
            continue;
        struct link_bundle links =
            routes_links(machine, gpu->index.value, number_or(other->index, -1));
        bool other_model =
            gpu->name.value && other->name.value && !text_is(other->name, gpu->name.value);
        if (links.links || links.unknown || other_model || !has_links_to_gpus(machine, other))
            return 0;
        others++;
    }
    return others >= 3 ? others : 0;
}

static void check_link_state(const struct machine *machine, const struct machine_gpu *gpu,
                             struct findings *findings)
{
    const char *index = index_text(gpu);
    struct link_count count = count_links(machine, gpu->index.value);
    const struct machine_gpu *sibling = has_lost_links(machine, gpu->index.value);
    if (sibling && !count.up)
        set_vendor_remedy(gpu, finding_add(findings, REASON_NVLINK_DOWN, WEIGHT_OFF, index,
                                           "gpu%s: none of its %d links is up; gpu%" PRId64
                                           " of the same model has %d",
                                           index, count.all, number_or(sibling->index, -1),
                                           count_links(machine, sibling->index.value).up));
    else if (count.all && !count.up)
        set_vendor_remedy(gpu, finding_add(findings, REASON_NVLINK_BRIDGE, WEIGHT_OFF, index,
                                           "gpu%s: none of its %d links is up", index, count.all));
    else if (count.up < count.all)
        set_vendor_remedy(gpu, finding_add(findings, REASON_NVLINK_DOWN, WEIGHT_SLOW, index,
                                           "gpu%s: %d of %d links up; down: %s", index, count.up,
                                           count.all, count.down));
    int others = count.all ? 0 : left_alone(machine, gpu);
    if (others)
        set_vendor_remedy(gpu, finding_add(findings, REASON_NVLINK_DOWN, WEIGHT_OFF, index,
                                           "gpu%s has no link to another GPU; each of the other "
                                           "%d GPUs has links",
                                           index, others));
}

struct link_errors {
    int64_t replays, recoveries, crc, ecc;
    int links;
    char list[80]; /* "0-6, 8" */
};

/* Appends `link` to e->list as a number or a range; the caller passes links in ascending order. */
static void list_link(struct link_errors *e, int64_t link, int64_t *first, int64_t *last)
{
    size_t n = strlen(e->list);
    if (*last >= 0 && link == *last + 1) {
        char *comma = strrchr(e->list, ' ');
        n = comma ? (size_t)(comma + 1 - e->list) : 0;
        snprintf(e->list + n, sizeof e->list - n, "%" PRId64 "-%" PRId64, *first, link);
    } else {
        *first = link;
        snprintf(e->list + n, sizeof e->list - n, "%s%" PRId64, n ? ", " : "", link);
    }
    *last = link;
}

static struct link_errors sum_link_errors(const struct machine *machine, int64_t gpu)
{
    struct link_errors e = {.links = 0};
    int64_t first = -1, last = -2;
    struct machine_range range = machine_links_of(machine, gpu);
    for (size_t i = range.first; i < range.end; i++) {
        const struct machine_link *link = &machine->links[i];
        int64_t replays = number_or(link->replays, 0), crc = number_or(link->crc_errors, 0);
        int64_t recoveries = number_or(link->recoveries, 0), ecc = number_or(link->ecc_errors, 0);
        if (!number_is(link->gpu, gpu) || !number_is(link->active, 1) ||
            replays + crc + recoveries + ecc == 0)
            continue;
        e.replays += replays;
        e.recoveries += recoveries;
        e.crc += crc;
        e.ecc += ecc;
        e.links++;
        list_link(&e, number_or(link->link, -1), &first, &last);
    }
    return e;
}

/* The counters are lifetime totals, so they make one note per GPU. check_speed() reports counters
 * that grow during a measured transfer. */
static void check_link_errors(const struct machine *machine, const struct machine_gpu *gpu,
                              struct findings *findings)
{
    const char *index = index_text(gpu);
    struct link_errors e = sum_link_errors(machine, number_or(gpu->index, -1));
    if (e.links)
        finding_add(findings, REASON_NVLINK_ERRORS, WEIGHT_NOTE, index,
                    "gpu%s, all links: crc %" PRId64 ", replay %" PRId64 ", recovery %" PRId64
                    ", ecc %" PRId64 "; on link%s %s",
                    index, e.crc, e.replays, e.recoveries, e.ecc, e.links == 1 ? "" : "s", e.list);
}

void check_gpu_links(const struct machine *machine, const struct machine_gpu *gpu,
                     struct findings *findings)
{
    const char *index = index_text(gpu);
    check_link_state(machine, gpu, findings);
    check_link_errors(machine, gpu, findings);
    struct machine_range range = machine_links_of(machine, number_or(gpu->index, -1));
    for (size_t i = range.first; i < range.end; i++) {
        const struct machine_link *link = &machine->links[i];
        if (!number_is(link->gpu, number_or(gpu->index, -1)) || !number_is(link->active, 1))
            continue;
        int64_t line = line_speed(link);
        if (line && link->mbps.known && link->mbps.value < line * 95 / 100)
            set_vendor_remedy(
                gpu, finding_add(findings, REASON_NVLINK_SPEED, WEIGHT_SLOW, index,
                                 "gpu%s link %" PRId64 ": %" PRId64 " of %" PRId64 " MB/s", index,
                                 number_or(link->link, -1), link->mbps.value, line));
    }
}

void check_fabric(const struct machine *machine, const struct machine_gpu *gpu,
                  struct findings *findings)
{
    const char *index = index_text(gpu);
    bool part = gpu->fabric_state.value && !text_is(gpu->fabric_state, "not-supported");
    if (!is_nvidia(gpu) && gpu->vendor.value)
        return;
    if (part && (!text_is(gpu->fabric_state, "completed") || number_or(gpu->fabric_status, 0) != 0))
        finding_repair(finding_add(findings, REASON_FABRIC_STATE, WEIGHT_OFF, index,
                                   "gpu%s: fabric state %s, status %" PRId64, index,
                                   gpu->fabric_state.value, number_or(gpu->fabric_status, 0)),
                       "set gpus[%s].fabric_state completed; set gpus[%s].fabric_status 0", index,
                       index);
    if (number_is(gpu->fabric_degraded, 1))
        finding_add(findings, REASON_FABRIC_DEGRADED, WEIGHT_SLOW, index,
                    "gpu%s: fabric health reports degraded bandwidth", index);
}

/* --- pairs ------------------------------------------------------------------------------------ */

static void check_clique(const struct machine_gpu *x, const struct machine_gpu *y,
                         struct findings *findings)
{
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a known text has a value */
    bool clusters = x->fabric_cluster.value && y->fabric_cluster.value &&
                    strcmp(x->fabric_cluster.value, y->fabric_cluster.value) != 0;
    bool cliques = x->fabric_clique.known && y->fabric_clique.known &&
                   x->fabric_clique.value != y->fabric_clique.value;
    if (!clusters && !cliques)
        return;
    /* two clusters are two NVLink domains, as the machine was built */
    struct finding *f =
        finding_add(findings, REASON_FABRIC_CLIQUE, clusters ? WEIGHT_NOTE : WEIGHT_OFF, NULL,
                    "fabric clique %" PRId64 " and %" PRId64 "%s", number_or(x->fabric_clique, -1),
                    number_or(y->fabric_clique, -1), clusters ? ", different clusters" : "");
    if (clusters && f)
        f->routes_off = findings->routes_off;
    else
        finding_repair(f, "set gpus[%s].fabric_clique %" PRId64, index_text(y),
                       x->fabric_clique.value);
}

void check_links(const struct machine *machine, const struct endpoint *a, const struct endpoint *b,
                 const struct routes *routes, struct findings *findings)
{
    const struct machine_gpu *x = machine_find_gpu(machine, a->index);
    const struct machine_gpu *y = machine_find_gpu(machine, b->index);
    struct link_count from = count_links(machine, a->index), to = count_links(machine, b->index);
    findings->path = link_title(x && text_is(x->vendor, "amd") ? "xgmi" : "nvlink");
    findings->routes_off = ROUTE_BIT(ROUTE_LINK);
    if (from.peers_up && to.peers_up && !routes_links(machine, a->index, b->index).links) {
        const struct route *best = routes_best(routes);
        finding_add(findings, REASON_NVLINK_NONE, WEIGHT_NOTE, NULL,
                    "%s has %d links up, %s has %d, none connects the two%s%s", a->name,
                    from.peers_up, b->name, to.peers_up,
                    best && best->kind == ROUTE_RELAY ? "; Weft uses: " : "",
                    best && best->kind == ROUTE_RELAY ? best->text : "");
    }
    check_clique(x, y, findings);
    check_fabric(machine, x, findings);
    check_fabric(machine, y, findings);
    check_gpu_links(machine, x, findings);
    check_gpu_links(machine, y, findings);
}

/* The driver's peer status of the route that the pair would use (NVLink when `linked`, else PCIe).
 * A refusal of writes decides in both cases. */
static struct machine_text peer_status(const struct machine_p2p *p, bool linked)
{
    struct machine_text none = {.value = NULL};
    if (!p)
        return none;
    bool refused = p->write.value && !word_is_one_of(p->write.value, "ok|unknown");
    return linked || refused || !p->pci.value || text_is(p->pci, "unknown") ? p->write : p->pci;
}

/* Adds "peer status ok" to a repair: the driver's status follows from the cause that it removes. */
static void repair_peer_status(const struct machine *machine, const struct machine_p2p *p,
                               struct finding *finding)
{
    if (!p)
        return;
    size_t i = (size_t)(p - machine->p2p);
    if (p->write.value && !text_is(p->write, "ok"))
        finding_repair(finding, "set p2p[%zu].write ok", i);
    if (p->pci.value && !text_is(p->pci, "ok"))
        finding_repair(finding, "set p2p[%zu].pci ok", i);
}

static bool are_of_one_model(const struct machine *machine, int64_t a, int64_t b)
{
    const struct machine_gpu *x = machine_find_gpu(machine, a), *y = machine_find_gpu(machine, b);
    return x && y && x->name.value && text_is(y->name, x->name.value);
}

/* Links connect the two GPUs, or the driver allows peer access to another pair of their model. So
 * the model has peer access. */
static bool should_have_access(const struct machine *machine, int64_t a, int64_t b)
{
    if (!are_of_one_model(machine, a, b))
        return false;
    if (routes_links(machine, a, b).links)
        return true;
    for (size_t i = 0; i < machine->n_p2p; i++) {
        const struct machine_p2p *p = &machine->p2p[i];
        if (text_is(p->write, "ok") && are_of_one_model(machine, number_or(p->a, -1), a) &&
            are_of_one_model(machine, number_or(p->b, -1), a))
            return true;
    }
    return false;
}

/* Adds the reason for the driver's refusal, from its status, the GPU model and the distance. */
static void check_peer_status(const struct machine *machine, const struct endpoint *a,
                              const struct endpoint *b, const struct machine_p2p *p,
                              const char *status, enum weight weight, struct findings *findings)
{
    const struct machine_gpu *x = machine_find_gpu(machine, a->index);
    bool geforce = x && x->name.value && strstr(x->name.value, "GeForce");
    enum level level = routes_apart(machine, a, b);
    enum reason reason = REASON_P2P_GPU;
    if (strcmp(status, "disabled-by-regkey") == 0)
        reason = REASON_P2P_REGKEY;
    else if (geforce)
        reason = REASON_P2P_GEFORCE;
    else if (strcmp(status, "topology-not-supported") == 0 && level == LEVEL_SYS)
        reason = REASON_P2P_SOCKET;
    else if (strcmp(status, "chipset-not-supported") == 0 ||
             strcmp(status, "topology-not-supported") == 0)
        reason = REASON_P2P_CHIPSET;
    else if (should_have_access(machine, a->index, b->index))
        reason = REASON_P2P_PAIR;
    struct finding *f = finding_add(
        findings, reason, weight, NULL, "the driver reports %s for %s %s (distance %s)%s%s", status,
        a->name, b->name, level_name(level), geforce ? ", " : "", geforce ? x->name.value : "");
    if (reason == REASON_P2P_REGKEY || reason == REASON_P2P_PAIR)
        repair_peer_status(machine, p, f);
    if (reason == REASON_P2P_GPU && are_of_one_model(machine, a->index, b->index))
        /* NOLINTBEGIN(clang-analyzer-core.NullDereference): both GPUs are there */
        finding_remedy(f,
                       "none: no pair of {dev} has peer access on this machine; use a model that "
                       "has it",
                       text_or(x->name, "this model"));
    /* NOLINTEND(clang-analyzer-core.NullDereference) */
}

/* In a virtual machine with a flat PCI tree the P2P cliques of the hypervisor decide, unless the
 * driver reports that the pair works. Returns true when they turn the route off. */
static bool check_flat(const struct machine *machine, const struct endpoint *a,
                       const struct endpoint *b, const struct machine_p2p *p, const char *status,
                       struct findings *findings)
{
    if (!machine_is_flat(machine) || !a->pci || !b->pci || strcmp(status, "ok") == 0 ||
        strcmp(status, "gpu-not-supported") == 0)
        return false;
    struct machine_number x = a->pci->p2p_clique, y = b->pci->p2p_clique;
    if (x.known && y.known && x.value != y.value) {
        finding_add(findings, REASON_P2P_VM_CLIQUE, WEIGHT_OFF, NULL,
                    "%s is in clique %" PRId64 ", %s in clique %" PRId64, a->name, x.value, b->name,
                    y.value);
        return true;
    }
    if (x.known && y.known)
        return false;
    /* a GPU that has lost its links needs these, not peer access over PCIe */
    bool lost = has_lost_links(machine, a->index) || has_lost_links(machine, b->index);
    struct finding *f =
        finding_add(findings, REASON_P2P_VM_FLAT, lost ? WEIGHT_NOTE : WEIGHT_OFF, NULL,
                    "hypervisor %s, %s and %s are at the root complex without a P2P capability "
                    "(%s)",
                    text_or(machine->system.hypervisor, "?"), a->name, b->name,
                    why_unknown(x.known ? y.why : x.why));
    finding_repair(f, "set pci[%s].p2p_clique 0; set pci[%s].p2p_clique 0",
                   text_or(a->pci->bdf, "?"), text_or(b->pci->bdf, "?"));
    repair_peer_status(machine, p, f);
    if (f)
        f->routes_off = findings->routes_off;
    return true;
}

/* Checks the modes of a GPU. `p` is the driver's status of the pair, which follows from them. */
static void check_modes(const struct machine *machine, const struct machine_gpu *gpu,
                        const struct machine_p2p *p, const char *status, struct findings *findings)
{
    const char *index = index_text(gpu);
    if (!is_nvidia(gpu) && gpu->vendor.value)
        return; /* modes of NVIDIA's driver */
    if (number_is(gpu->mig, 1)) {
        struct finding *f = finding_add(findings, REASON_P2P_MIG, WEIGHT_OFF, index,
                                        "gpu%s: MIG mode is on", index);
        finding_repair(f, "set gpus[%s].mig no", index);
        repair_peer_status(machine, p, f);
    }
    if (text_is(gpu->virtualization, "vgpu")) {
        bool works = strcmp(status, "ok") == 0; /* some vGPU profiles have peer access */
        struct finding *f = finding_add(findings, REASON_P2P_VGPU, works ? WEIGHT_NOTE : WEIGHT_OFF,
                                        index, "gpu%s is a vGPU", index);
        finding_repair(f, "set gpus[%s].virtualization passthrough", index);
        repair_peer_status(machine, p, f);
    }
    if (text_is(gpu->compute_mode, "prohibited"))
        check_prohibited(gpu, findings);
    else if (gpu->compute_mode.value && !text_is(gpu->compute_mode, "default"))
        finding_add(findings, REASON_P2P_COMPUTE_MODE, WEIGHT_SLOW, index, "gpu%s: compute mode %s",
                    index, gpu->compute_mode.value);
}

/* Without a driver status: an older Intel interconnect (QPI, UPI) carries no peer traffic. */
static void check_socket(const struct machine *machine, const struct endpoint *a,
                         const struct endpoint *b, struct findings *findings)
{
    const char *link = text_or(machine->system.socket_link, "");
    if (routes_apart(machine, a, b) == LEVEL_SYS &&
        (strcmp(link, "qpi") == 0 || strcmp(link, "upi") == 0))
        finding_add(findings, REASON_P2P_SOCKET, WEIGHT_OFF, NULL,
                    "%s is on NUMA node %" PRId64 ", %s on %" PRId64 ", connected by %s", a->name,
                    routes_numa_of(machine, a), b->name, routes_numa_of(machine, b), link);
}

/* Checks settings of the GPUs that turn peer access off on every route. Returns true when one does:
 * the driver's status of the pair then follows from it. */
static bool check_settings(const struct machine *machine, const struct endpoint *a,
                           const struct endpoint *b, const struct machine_p2p *p,
                           const char *status, struct findings *findings)
{
    struct findings own = {
        .place = findings->place, .path = findings->path, .routes_off = ROUTE_BITS_DIRECT};
    check_modes(machine, machine_find_gpu(machine, a->index), p, status, &own);
    check_modes(machine, machine_find_gpu(machine, b->index), p, status, &own);
    if (number_is(machine->drivers.conf_compute, 1)) {
        /* Protected PCIe and encrypted NVLink keep peer access */
        bool works = strcmp(status, "ok") == 0;
        struct finding *f = finding_add(&own, REASON_P2P_CC, works ? WEIGHT_NOTE : WEIGHT_OFF, NULL,
                                        "nvmlSystemGetConfComputeState: feature on%s",
                                        works ? "; the driver offers peer access" : "");
        finding_repair(f, "set drivers.conf_compute no");
        repair_peer_status(machine, p, f);
    }
    bool off = findings_turn_off(&own, ROUTE_BITS_DIRECT);
    findings_merge(findings, &own);
    return off;
}

void check_peer(const struct machine *machine, const struct endpoint *a, const struct endpoint *b,
                const struct routes *routes, struct findings *findings)
{
    const struct machine_p2p *p = machine_find_p2p(machine, a->index, b->index);
    const struct route *best = routes_best(routes);
    struct link_bundle bundle = routes_links(machine, a->index, b->index);
    bool linked = bundle.links > 0;
    const char *status = text_or(peer_status(p, linked), "unknown");
    bool known = strcmp(status, "unknown") != 0;
    findings->path = linked ? link_title(bundle.kind) : "PCIe peer-to-peer";
    bool explained = check_settings(machine, a, b, p, status, findings);
    findings->routes_off = linked ? ROUTE_BIT(ROUTE_LINK) : ROUTE_BIT(ROUTE_PEER);
    bool flat = !linked && check_flat(machine, a, b, p, status, findings);
    if (known && strcmp(status, "ok") != 0 && !flat)
        check_peer_status(machine, a, b, p, status, explained ? WEIGHT_NOTE : WEIGHT_OFF, findings);
    if (!known && !linked)
        check_socket(machine, a, b, findings);
    if (!known)
        set_vendor_remedy(
            machine_find_gpu(machine, a->index),
            finding_add(findings, REASON_P2P_UNTOLD, WEIGHT_UNKNOWN, NULL,
                        "no peer status of %s %s: %s", a->name, b->name,
                        p ? why_unknown(peer_status(p, linked).why) : "not recorded"));
    if (!linked) /* only a note when the route is off for another cause */
        check_pcie_route(machine, a, b,
                         best && best->kind == ROUTE_PEER ? WEIGHT_SLOW : WEIGHT_NOTE, findings);
    if (best && (best->kind == ROUTE_LINK || best->kind == ROUTE_PEER) && p && p->atomics.value &&
        !text_is(p->atomics, "ok"))
        finding_add(findings, REASON_P2P_NO_ATOMICS, WEIGHT_NOTE, NULL,
                    "the driver reports %s for atomics of %s %s", p->atomics.value, a->name,
                    b->name);
}
