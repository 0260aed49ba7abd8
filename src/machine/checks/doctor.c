/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the checks over all devices and pairs of the machine. See doctor.h. */
#include "machine/checks/doctor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "machine/checks/checks.h"
#include "machine/checks/explain.h"

/* Reasons that follow from how a machine is built, or that name an optional feature. They may
 * decide the route of a pair, but for the whole machine they are notes, not faults. */
static bool is_by_design(enum reason reason)
{
    switch (reason) {
    case REASON_P2P_SOCKET:
    case REASON_P2P_ROOTS:
    case REASON_P2P_GEFORCE:
    case REASON_P2P_CHIPSET:
    case REASON_P2P_GPU:
    case REASON_P2P_VM_CLIQUE:
    case REASON_P2P_NO_ATOMICS:
    case REASON_NVLINK_NONE:
    case REASON_BAR1_SMALL:
    case REASON_MAP_WSL:
    case REASON_MAP_CC:
    case REASON_MAP_REFUSED:
    case REASON_GDR_FAR:
    case REASON_GDR_GPU:
    case REASON_GDA_NIC:
    case REASON_GDA_LIB:
    case REASON_GDA_DEVX:
    case REASON_GDA_PEER_MAPPING:
    case REASON_FILE_NO_FS_MODULE:
    case REASON_FILE_NO_CUFILE:
    case REASON_FILE_CUFILE:
    case REASON_FILE_BUFFERED:
    case REASON_FILE_SYSTEM:
    case REASON_FILE_OPTIONS:
    case REASON_FILE_DEVICE:
    case REASON_FILE_P2PDMA:
    case REASON_FILE_FAR:
    case REASON_FILE_NVME_DRIVER:
    case REASON_FILE_RAID:
    case REASON_FILE_RAID_LEVEL:
    case REASON_FILE_COMPAT:
        return true;
    default:
        return false;
    }
}

/* Sets the endpoint of a GPU. False when the GPU has no index of its own: lookups by its name would
 * find another one. */
static bool endpoint_of_indexed_gpu(const struct machine *machine, size_t i, struct endpoint *end)
{
    const struct machine_gpu *gpu = &machine->gpus[i];
    *end = endpoint_of_gpu(machine, gpu);
    return machine_find_gpu(machine, end->index) == gpu;
}

/* The same for a NIC and its name. */
static bool endpoint_of_named_nic(const struct machine *machine, const struct machine_nic *nic,
                                  struct endpoint *end)
{
    *end = endpoint_of_nic(machine, nic);
    return machine_find_nic(machine, end->name) == nic;
}

static int examine_drivers(const struct machine *machine, struct findings *findings)
{
    int n = (int)number_or(machine->limits.nvidia_pci_devices, 0);
    for (size_t i = 0; i < machine->n_gpus; i++)
        n += text_is(machine->gpus[i].vendor, "nvidia");
    check_drivers(machine, findings);
    check_services(machine, findings);
    return n;
}

static int examine_limits(const struct machine *machine, struct findings *findings)
{
    check_limits(machine, findings);
    check_coherent(machine, findings);
    return 1;
}

typedef void gpu_check(const struct machine *machine, const struct machine_gpu *gpu,
                       struct findings *findings);

static void check_each_gpu(const struct machine *machine, struct findings *findings,
                           gpu_check *first, gpu_check *second, gpu_check *third)
{
    for (size_t i = 0; i < machine->n_gpus; i++) {
        struct endpoint end;
        if (!endpoint_of_indexed_gpu(machine, i, &end))
            continue;
        findings->place = end.name;
        first(machine, &machine->gpus[i], findings);
        second(machine, &machine->gpus[i], findings);
        third(machine, &machine->gpus[i], findings);
    }
}

static int examine_gpus(const struct machine *machine, struct findings *findings)
{
    check_each_gpu(machine, findings, check_gpu, check_mapping, check_gpu_health);
    return (int)machine->n_gpus;
}

static bool links_are_known(const struct machine *machine)
{
    for (size_t i = 0; i < machine->n_gpus; i++)
        if (!routes_links_known(machine, number_or(machine->gpus[i].index, -1)))
            return false;
    return true;
}

static int examine_links(const struct machine *machine, struct findings *findings)
{
    check_each_gpu(machine, findings, check_fabric, check_gpu_links, check_link_health);
    return machine->n_links ? (int)machine->n_links : !links_are_known(machine);
}

static int examine_pcie(const struct machine *machine, struct findings *findings)
{
    int n = 0;
    for (size_t i = 0; i < machine->n_gpus; i++, n++) {
        struct endpoint end;
        if (!endpoint_of_indexed_gpu(machine, i, &end))
            continue;
        findings->place = end.name;
        check_pcie(machine, &end, findings);
        check_pcie_health(machine, &end, findings);
        check_host_speed(machine, &end, findings);
    }
    for (size_t i = 0; i < machine->n_disks; i++, n++) {
        struct endpoint end = {.kind = ENDPOINT_DISK,
                               .pci = machine_find_pci(machine, machine->disks[i].bdf.value)};
        snprintf(end.name, sizeof end.name, "%s", text_or(machine->disks[i].name, "?"));
        findings->place = end.name;
        check_pcie(machine, &end, findings);
        check_pcie_health(machine, &end, findings);
    }
    check_captures(machine, findings);
    return n;
}

/* Adds one finding for all pairs without a test, not one for each. */
static void add_untested(int untested, int n, struct findings *findings)
{
    findings->place = "";
    findings->path = "";
    if (untested)
        finding_add(findings, REASON_P2P_UNPROVEN, WEIGHT_UNKNOWN, "gpu0 gpu1",
                    "%d of %d pairs: no test result is recorded", untested, n);
}

/* Removes findings of a pair that no test has run. Returns how many. */
static int remove_untested(struct findings *findings)
{
    int kept = 0;
    for (int i = 0; i < findings->n; i++) {
        const struct finding *f = &findings->list[i];
        if (f->reason != REASON_P2P_UNPROVEN || f->weight != WEIGHT_UNKNOWN)
            findings->list[kept++] = findings->list[i];
    }
    int removed = findings->n - kept;
    findings_cut(findings, kept);
    return removed;
}

/* Adds the findings of two GPUs. Returns true when no test of their peer access has run. */
static bool examine_gpu_pair(const struct machine *machine, const struct endpoint *a,
                             const struct endpoint *b, struct findings *findings)
{
    static struct routes routes;
    char place[140];
    snprintf(place, sizeof place, "%s %s", a->name, b->name);
    struct findings own = {.place = place};
    int first = findings->n;
    explain_routes(machine, a, b, &routes);
    if (!routes.n)
        return false; /* in two hosts */
    explain_findings(machine, a, b, NULL, &routes, &own);
    bool untested = remove_untested(&own);
    findings_merge(findings, &own);
    explain_gains(machine, a, b, NULL, findings, first);
    return untested;
}

static int examine_pairs(const struct machine *machine, struct findings *findings)
{
    int n = 0, untested = 0;
    for (size_t i = 0; i < machine->n_gpus; i++)
        for (size_t j = 0; j < machine->n_gpus; j++) {
            struct endpoint a, b;
            if (i == j || !endpoint_of_indexed_gpu(machine, i, &a) ||
                !endpoint_of_indexed_gpu(machine, j, &b))
                continue;
            untested += examine_gpu_pair(machine, &a, &b, findings);
            n++;
        }
    add_untested(untested, n, findings);
    return n;
}

static bool was_tried(const struct machine *machine, const struct endpoint *gpu,
                      const struct machine_nic *nic)
{
    return nic && nic->name.value &&
           machine_find_rung(machine, gpu->index, nic->name.value, "export");
}

/* True for a GPU and its assigned NIC. When the GPU-NIC test did not run for these two, pairs for
 * which it did run are examined as well: their results may have changed the assignment. */
static bool is_examined_pair(const struct machine *machine, const struct assigned *given,
                             const struct endpoint *gpu, const struct machine_nic *nic)
{
    return given->nic == nic ||
           (!was_tried(machine, gpu, given->nic) && was_tried(machine, gpu, nic));
}

typedef void pair_check(const struct machine *machine, const struct endpoint *gpu,
                        const struct endpoint *nic, struct findings *findings);

/* Adds the findings of one check of a GPU and a NIC: all of an examined pair, of another pair only
 * those that turn a route off. */
static void examine_gpu_nic(const struct machine *machine, const struct endpoint *gpu,
                            const struct endpoint *nic, bool examined, pair_check *check,
                            struct findings *findings)
{
    struct findings own = {.place = gpu->name};
    int first = findings->n, kept = 0;
    check(machine, gpu, nic, &own);
    for (int i = 0; i < own.n; i++)
        if (examined || own.list[i].weight == WEIGHT_OFF)
            own.list[kept++] = own.list[i];
    findings_cut(&own, kept);
    findings_merge(findings, &own);
    if (examined) /* the machine gains nothing by a pair that is not used */
        explain_gains(machine, gpu, nic, NULL, findings, first);
}

/* True when no route of the pair is off for a reason of the pair itself. What turns GPUDirect RDMA
 * off without a test is of the GPU, and its own NIC shows it, or of the NIC alone. */
static bool adds_nothing(const struct machine *machine, const struct assigned *given,
                         const struct endpoint *gpu, const struct endpoint *nic, pair_check *check)
{
    bool tested = machine_find_rung(machine, gpu->index, nic->name, "export") != NULL;
    return routes_apart(machine, gpu, nic) == LEVEL_NET ||
           (check == check_gdr && given->nic && !tested);
}

/* Examines every GPU with every NIC, as `explain` does for one pair: by check_gdr(), which is for
 * GPUs of all vendors, or by check_gda(). Returns the number of examined pairs. */
static int examine_each_nic(const struct machine *machine, const struct assignment *assignment,
                            pair_check *check, struct findings *findings)
{
    int n = 0;
    for (size_t i = 0; i < machine->n_gpus; i++) {
        struct endpoint gpu, nic;
        bool able = check != check_gda || text_is(machine->gpus[i].vendor, "nvidia");
        if (!endpoint_of_indexed_gpu(machine, i, &gpu))
            continue;
        for (size_t k = 0; k < machine->n_nics; k++) {
            const struct assigned *given = &assignment->list[i];
            bool own = is_examined_pair(machine, given, &gpu, &machine->nics[k]);
            if (!endpoint_of_named_nic(machine, &machine->nics[k], &nic) ||
                (!own && adds_nothing(machine, given, &gpu, &nic, check)))
                continue;
            examine_gpu_nic(machine, &gpu, &nic, able && own, check, findings);
            n += able && own;
        }
    }
    return n;
}

static int examine_rdma(const struct machine *machine, const struct assignment *assignment,
                        struct findings *findings)
{
    for (size_t i = 0; i < machine->n_nics; i++) {
        struct endpoint nic;
        if (!endpoint_of_named_nic(machine, &machine->nics[i], &nic))
            continue;
        findings->place = nic.name;
        check_nic(machine, &nic, findings);
        check_nic_health(machine, &nic, findings);
    }
    check_bonds(machine, findings);
    findings->place = "";
    check_rails(machine, findings);
    examine_each_nic(machine, assignment, check_gdr, findings);
    findings->place = "";
    check_shared_nics(machine, assignment, findings);
    if (machine->n_nics == 0)
        check_no_nic(machine, findings);
    else
        check_nic_keys(machine, findings);
    return (int)machine->n_nics;
}

static int examine_gda(const struct machine *machine, const struct assignment *assignment,
                       struct findings *findings)
{
    return examine_each_nic(machine, assignment, check_gda, findings);
}

/* Checks each mount with the GPU nearest to its disk. */
static int examine_storage(const struct machine *machine, struct findings *findings)
{
    int n = check_raids(machine, findings);
    for (size_t i = 0; machine->n_gpus && i < machine->n_mounts; i++) {
        const struct machine_mount *mount = &machine->mounts[i];
        const struct machine_disk *disk = machine_find_disk(machine, text_or(mount->disk, ""));
        const struct machine_pci *pci = disk ? machine_find_pci(machine, disk->bdf.value) : NULL;
        struct endpoint gpu, best;
        enum level least = LEVEL_UNKNOWN;
        if (mount->type.value && word_is_one_of(mount->type.value, "tmpfs|overlay"))
            continue;
        bool any = endpoint_of_indexed_gpu(machine, 0, &best);
        for (size_t g = 0; g < machine->n_gpus; g++) {
            bool known = endpoint_of_indexed_gpu(machine, g, &gpu);
            enum level here = routes_level(machine, gpu.pci, pci);
            if (known && (here < least || !any)) {
                any = true;
                least = here;
                best = gpu;
            }
        }
        if (!any)
            continue;
        findings->place = text_or(mount->path, "?");
        check_file(machine, &best, text_or(mount->path, "?"), mount, findings);
        n++;
    }
    return n;
}

/* The finding says that the machine lacks a feature, not that the feature is broken. */
static bool is_absent(const struct finding *f)
{
    bool closed = f->reason == REASON_NIC_NO_NODE || f->reason == REASON_NIC_NO_VERBS;
    return f->reason == REASON_GDA_NIC || (closed && f->weight == WEIGHT_NOTE) ||
           (f->weight == WEIGHT_OFF && is_by_design(f->reason));
}

/* Number of places of a check that lack its feature. */
static int count_absent(const struct findings *findings, const struct doctor_check *check)
{
    int n = 0;
    for (int i = check->first; i < findings->n; i++) {
        const struct finding *f = &findings->list[i];
        bool counted = false;
        for (int k = check->first; is_absent(f) && k < i; k++)
            counted |=
                is_absent(&findings->list[k]) && strcmp(findings->list[k].place, f->place) == 0;
        n += is_absent(f) && !counted;
    }
    return n;
}

/* Whether a record knows one of these facts ("a|b|c"), or one that is not among these. */
static bool knows(const struct machine *machine, const char *name, const char *facts, bool among)
{
    for (size_t r = 0; r < machine_n_records; r++) {
        const struct machine_record *record = &machine_records[r];
        size_t n;
        const struct machine_field *fields = record->fields(&n);
        for (size_t i = 0; strcmp(record->name, name) == 0 && i < record_count(machine, record);
             i++)
            for (size_t f = 0; f < n; f++) {
                const char *at = (const char *)record_item(machine, record, i) + fields[f].offset;
                bool known = fields[f].type <= FIELD_FLAG
                                 ? ((const struct machine_number *)(const void *)at)->known
                                 : ((const struct machine_text *)(const void *)at)->value != NULL;
                if (known && word_is_one_of(fields[f].name, facts) == among)
                    return true;
            }
    }
    return false;
}

/* A file may tell which devices there are, and nothing of what a check looks at. */
static bool is_told(const struct machine *machine, const char *check)
{
    static const char names[] = "index|name|vendor|bdf|numa|nvlinks",
                      links[] = "gen|gen_max|width|width_max";
    if (strcmp(check, "drivers") == 0)
        return knows(machine, "drivers", "", false);
    if (strcmp(check, "limits") == 0)
        return knows(machine, "limits", "", false);
    if (strcmp(check, "gpus") == 0)
        return knows(machine, "gpus", names, false);
    if (strcmp(check, "links") == 0)
        return machine->n_links || links_are_known(machine);
    if (strcmp(check, "pcie") == 0)
        return knows(machine, "pci", links, true) ||
               knows(machine, "gpus", "pcie_gen|pcie_gen_max|pcie_width|pcie_width_max", true);
    /* a description has what it names; a file of another program may have no disks at all */
    if (strcmp(check, "storage") == 0)
        return machine->n_disks || machine->n_mounts || machine->system.kernel.value ||
               strncmp(machine->origin, "description", 11) == 0;
    if (strcmp(check, "gda") == 0)
        return machine->n_ladder || knows(machine, "nics", "driver", true) ||
               knows(machine, "drivers", "libmlx5|peer_mapping_override", true);
    return true;
}

const char *doctor_state(const struct doctor_check *check)
{
    bool storage = strcmp(check->name, "storage") == 0;
    return check->examined == 0               ? storage && !check->known ? "not-known" : "absent"
           : check->faults                    ? "fault"
           : check->unknown                   ? "unknown"
           : !check->known                    ? "not-known"
           : check->absent >= check->examined ? "not-offered"
           : check->absent                    ? "in-part"
                                              : "good";
}

/* The same finding may be a fault for one pair and a note for another: keeps only the one of the
 * most severe weight. */
static void drop_less_severe(struct findings *findings, int first)
{
    int kept = first;
    for (int i = first; i < findings->n; i++) {
        bool lesser = false;
        const struct finding *f = &findings->list[i];
        for (int k = findings->n; !lesser && (k = finding_before(findings, k, f)) > i;)
            lesser = findings->list[k].weight < f->weight;
        findings->list[i].dropped = lesser;
    }
    for (int i = first; i < findings->n; i++)
        if (!findings->list[i].dropped)
            findings->list[kept++] = findings->list[i];
    findings_cut(findings, kept);
}

static void count_findings(struct diagnosis *d, struct doctor_check *check)
{
    drop_less_severe(&d->findings, check->first);
    check->n = d->findings.n - check->first;
    check->absent = count_absent(&d->findings, check);
    for (int i = check->first; i < d->findings.n; i++) {
        struct finding *f = &d->findings.list[i];
        if (f->weight <= WEIGHT_SLOW && is_by_design(f->reason))
            f->weight = WEIGHT_NOTE;
        check->faults += f->weight <= WEIGHT_SLOW;
        check->unknown += f->weight == WEIGHT_UNKNOWN;
    }
    d->faults += check->faults;
    d->unknown += check->unknown;
}

void doctor_examine(const struct machine *machine, struct diagnosis *diagnosis)
{
    static const struct {
        const char *name, *title;
        int (*examine)(const struct machine *machine, struct findings *findings);
        int (*examine_nics)(const struct machine *machine, const struct assignment *assignment,
                            struct findings *findings);
    } checks[DOCTOR_CHECKS] = {
        {"drivers", "drivers and libraries", examine_drivers, NULL},
        {"limits", "limits of this process", examine_limits, NULL},
        {"gpus", "GPUs", examine_gpus, NULL},
        {"links", "NVLink and xGMI links", examine_links, NULL},
        {"pcie", "PCIe links", examine_pcie, NULL},
        {"pairs", "peer access between GPUs", examine_pairs, NULL},
        {"rdma", "NICs and GPUDirect RDMA", NULL, examine_rdma},
        {"gda", "GPU-initiated RDMA", NULL, examine_gda},
        {"storage", "GPUDirect Storage", examine_storage, NULL},
    };
    struct assignment assignment;
    memset(diagnosis, 0, sizeof *diagnosis);
    assign_nics(machine, &assignment);
    for (int i = 0; i < DOCTOR_CHECKS; i++) {
        struct doctor_check *check = &diagnosis->checks[i];
        *check = (struct doctor_check){
            .name = checks[i].name, .title = checks[i].title, .first = diagnosis->findings.n};
        diagnosis->findings.place = NULL;
        diagnosis->findings.path = NULL;
        check->examined = checks[i].examine
                              ? checks[i].examine(machine, &diagnosis->findings)
                              : checks[i].examine_nics(machine, &assignment, &diagnosis->findings);
        check->known = is_told(machine, checks[i].name);
        count_findings(diagnosis, check);
    }
    assignment_free(&assignment);
    diagnosis->findings.place = NULL;
    diagnosis->findings.path = NULL;
}
