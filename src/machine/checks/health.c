/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of settings and counters of devices. They concern no route between two endpoints, so only
 * `doctor` makes them. A counter above 0 is a note; a counter that grew between two readings is a
 * fault. */
#include "machine/checks/checks.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { READ_REQUEST_LEAST = 512 };

/* --- PCIe ------------------------------------------------------------------------------------- */

/* Largest MaxPayload in bytes that the device and every bridge above it support. 0 when one of them
 * is not known, or when the device has no bridge above it, as in a flat virtual machine. */
static int64_t payload_of_route(const struct machine *machine, const struct machine_pci *device)
{
    int64_t least = 0;
    int bridges = 0;
    for (const struct machine_pci *at = device; at;
         at = machine_find_pci(machine, at->parent.value), bridges++) {
        if (!at->payload_max_bytes.known)
            return 0;
        if (!least || at->payload_max_bytes.value < least)
            least = at->payload_max_bytes.value;
        if (!*text_or(at->parent, ""))
            break;
    }
    return bridges ? least : 0;
}

static void check_packets(const struct machine *machine, const struct endpoint *device,
                          struct findings *findings)
{
    const struct machine_pci *pci = device->pci;
    const char *bdf = text_or(pci->bdf, "?");
    int64_t possible = machine_is_flat(machine) ? 0 : payload_of_route(machine, pci);
    if (pci->payload_bytes.known && pci->payload_bytes.value < possible)
        finding_add(findings, REASON_PCIE_PAYLOAD, WEIGHT_SLOW, bdf,
                    "%s (%s): MaxPayload %" PRId64 " of %" PRId64 " bytes", device->name, bdf,
                    pci->payload_bytes.value, possible);
    if (pci->read_request_bytes.known && pci->read_request_bytes.value < READ_REQUEST_LEAST)
        finding_add(findings, REASON_PCIE_READ_REQUEST, WEIGHT_SLOW, bdf,
                    "%s (%s): MaxReadReq %" PRId64 " bytes", device->name, bdf,
                    pci->read_request_bytes.value);
    if (number_is(pci->relaxed_ordering, 0))
        finding_add(findings, REASON_PCIE_ORDERING, WEIGHT_NOTE, bdf,
                    "%s (%s): relaxed ordering is off", device->name, bdf);
}

/* Checks the AER counters of the device and of each bridge above it: either end of a link may count
 * its errors. */
static void check_errors(const struct machine *machine, const struct endpoint *device,
                         struct findings *findings)
{
    for (const struct machine_pci *at = device->pci; at;
         at = machine_find_pci(machine, at->parent.value)) {
        const char *bdf = text_or(at->bdf, "?");
        int64_t corrected = number_or(at->aer_correctable, 0);
        int64_t lost = number_or(at->aer_uncorrectable, 0);
        if (number_or(at->aer_grown, 0) > 0)
            finding_add(findings, REASON_PCIE_GROWING, WEIGHT_SLOW, bdf,
                        "%s: AER counters grew by %" PRId64, bdf, at->aer_grown.value);
        if (corrected || lost)
            finding_add(findings, REASON_PCIE_AER, WEIGHT_NOTE, bdf,
                        "%s: %" PRId64 " corrected errors, %" PRId64 " uncorrected", bdf, corrected,
                        lost);
        if (!*text_or(at->parent, ""))
            break;
    }
}

void check_pcie_health(const struct machine *machine, const struct endpoint *device,
                       struct findings *findings)
{
    if (!device->pci)
        return;
    check_packets(machine, device, findings);
    check_errors(machine, device, findings);
}

/* --- NICs ------------------------------------------------------------------------------------- */

static bool same_model(const struct machine *machine, const struct machine_port *a,
                       const struct machine_port *b)
{
    const struct machine_nic *x = machine_find_nic(machine, text_or(a->nic, ""));
    const struct machine_nic *y = machine_find_nic(machine, text_or(b->nic, ""));
    return x && y && x->model.value && y->model.value &&
           strcmp(x->model.value, y->model.value) == 0;
}

/* No table has the rate of a NIC model, so the rate that most ports of the model run at here is
 * expected. Where the fastest are not the majority, the ports may belong to two networks: a note.
 */
static void check_port_rate(const struct machine *machine, const struct machine_port *port,
                            struct findings *findings)
{
    const struct machine_port *best = port;
    int alike = 0, fastest = 0;
    if (!text_is(port->state, "active") || !port->mbit.known)
        return;
    for (size_t i = 0; i < machine->n_ports; i++) {
        const struct machine_port *other = &machine->ports[i];
        bool comparable = text_is(other->state, "active") && other->layer.value &&
                          text_is(port->layer, other->layer.value) && other->mbit.known &&
                          same_model(machine, port, other);
        if (!comparable)
            continue;
        alike++;
        if (other->mbit.value > best->mbit.value) {
            best = other;
            fastest = 0;
        }
        fastest += other->mbit.value == best->mbit.value;
    }
    /* a port without a faster one to compare with may run at the rate of its network */
    if (best == port && port->mbit_max.known && port->mbit.value < port->mbit_max.value)
        finding_add(findings, REASON_NIC_RATE, WEIGHT_NOTE, text_or(port->nic, "?"),
                    "%s port %" PRId64 ": %" PRId64 " of %" PRId64 " Mbit/s",
                    text_or(port->nic, "?"), number_or(port->port, 0), port->mbit.value,
                    port->mbit_max.value);
    if (best != port)
        finding_add(findings, REASON_NIC_RATE, 2 * fastest > alike ? WEIGHT_SLOW : WEIGHT_NOTE,
                    text_or(port->nic, "?"),
                    "%s port %" PRId64 ": %" PRId64
                    " Mbit/s; %d of %d ports of its model run at %" PRId64 ", e.g. %s",
                    text_or(port->nic, "?"), number_or(port->port, 0), port->mbit.value, fastest,
                    alike, best->mbit.value, text_or(best->nic, "?"));
}

static void check_port_counters(const struct machine_port *port, struct findings *findings)
{
    const char *nic = text_or(port->nic, "?");
    const char *netdev = *text_or(port->netdev, "") ? port->netdev.value : nic;
    if (text_is(port->layer, "roce") && text_is(port->state, "active") && number_is(port->pfc, 0))
        finding_add(findings, REASON_ROCE_PFC, WEIGHT_NOTE, netdev, "%s: PFC is off", netdev);
    if (number_or(port->errors_grown, 0) > 0)
        finding_add(findings, REASON_NIC_GROWING, WEIGHT_SLOW, nic,
                    "%s port %" PRId64 ": counters grew by %" PRId64 " (%s)", nic,
                    number_or(port->port, 0), port->errors_grown.value,
                    text_or(port->errors_where, "?"));
    if (number_or(port->retransmits, 0) > 0)
        finding_add(findings, REASON_NIC_LOSS, WEIGHT_NOTE, nic,
                    "%s port %" PRId64 ": %" PRId64 " sequence errors and timeouts", nic,
                    number_or(port->port, 0), port->retransmits.value);
}

void check_nic_health(const struct machine *machine, const struct endpoint *nic,
                      struct findings *findings)
{
    for (size_t i = 0; i < machine->n_ports; i++) {
        if (!text_is(machine->ports[i].nic, nic->name))
            continue;
        check_port_rate(machine, &machine->ports[i], findings);
        check_port_counters(&machine->ports[i], findings);
    }
    check_pcie_health(machine, nic, findings);
}

/* Length of the part of a GID that names its subnet: of an IPv4 address (::ffff:a.b.c.d) the first
 * 24 bits, else the first 64. 0: no routable GID is known. */
static size_t subnet_length(const struct machine_port *port)
{
    static const char mapped[] = "0000:0000:0000:0000:0000:ffff:";
    const char *gid = text_or(port->gid, "");
    if (strlen(gid) != 39 || strncmp(gid, "fe80", 4) == 0 || !text_is(port->state, "active"))
        return 0;
    return strncmp(gid, mapped, strlen(mapped)) == 0 ? strlen(mapped) + 7 : 19;
}

void check_rails(const struct machine *machine, struct findings *findings)
{
    const struct machine_port *first = NULL, *other = NULL;
    int ports = 0, subnets = 0;
    for (size_t i = 0; i < machine->n_ports; i++) {
        const struct machine_port *port = &machine->ports[i];
        size_t length = subnet_length(port);
        bool known = length == 0;
        for (size_t k = 0; k < i && !known; k++)
            known = subnet_length(&machine->ports[k]) == length &&
                    strncmp(machine->ports[k].gid.value, port->gid.value, length) == 0;
        ports += length > 0;
        subnets += !known;
        if (!known && !first)
            first = port;
        else if (!known && !other)
            other = port;
    }
    if (other)
        finding_add(findings, REASON_NIC_RAILS, WEIGHT_NOTE, NULL,
                    "%d active ports in %d subnets: %s has %s, %s has %s", ports, subnets,
                    text_or(first->nic, "?"), first->gid.value, text_or(other->nic, "?"),
                    other->gid.value);
}

void check_bonds(const struct machine *machine, struct findings *findings)
{
    for (size_t i = 0; i < machine->n_interfaces; i++) {
        const struct machine_netif *n = &machine->interfaces[i];
        const char *name = text_or(n->name, "?");
        int64_t members = number_or(n->bond_members, 0);
        if (!*text_or(n->bond_mode, ""))
            continue;
        findings->place = name;
        if (n->bond_members_up.known && n->bond_members_up.value < members)
            finding_add(findings, REASON_BOND_MEMBER, WEIGHT_SLOW, name,
                        "%s (%s): %" PRId64 " of %" PRId64 " members have a link", name,
                        n->bond_mode.value, n->bond_members_up.value, members);
        if (text_is(n->bond_mode, "active-backup") && members > 1)
            finding_add(findings, REASON_BOND_BACKUP, WEIGHT_NOTE, name,
                        "%s: mode active-backup with %" PRId64 " members", name, members);
    }
}

/* --- GPUs ------------------------------------------------------------------------------------- */

static void check_rows(const struct machine_gpu *gpu, const char *index, struct findings *findings)
{
    int64_t corrected = number_or(gpu->rows_corrected, 0);
    int64_t uncorrected = number_or(gpu->rows_uncorrected, 0);
    if (number_is(gpu->rows_failed, 1))
        finding_add(findings, REASON_GPU_ROWS_FAILED, WEIGHT_SLOW, index,
                    "gpu%s: a row remapping has failed", index);
    if (number_is(gpu->rows_pending, 1))
        finding_add(findings, REASON_GPU_ROWS_PENDING, WEIGHT_SLOW, index,
                    "gpu%s: a row remapping is pending", index);
    if (corrected || uncorrected)
        finding_add(findings, REASON_GPU_ROWS, WEIGHT_NOTE, index,
                    "gpu%s: %" PRId64 " rows remapped after corrected errors, %" PRId64
                    " after uncorrected ones",
                    index, corrected, uncorrected);
}

/* What NVIDIA's Xid catalog advises, for the numbers that are seen most. NULL: not in this table.
 */
static const char *xid_remedy(int64_t xid)
{
    static const char *const reset = "nvidia-smi --gpu-reset -i {dev} (no job may run); if it "
                                     "returns: reboot, then replace the GPU";
    static const char *const program =
        "restart the program and run it under compute-sanitizer: it used memory or instructions "
        "wrongly; if several programs get it on this GPU alone: reset the GPU";
    static const char *const link = "nvidia-smi nvlink -e -i {dev} names the link; reset the GPUs "
                                    "or reboot; if it returns: replace board or cable";
    static const struct {
        int64_t xid;
        const char *remedy;
    } table[] = {
        {13, program},
        {31, program},
        {45, "look for the Xid before it (dmesg | grep Xid): this one follows from another error "
             "or from a program that was ended"},
        {48, "nvidia-smi --gpu-reset -i {dev} (no job may run), which remaps the memory row; if it "
             "returns: replace the GPU"},
        {54, "check the power cables of the board"},
        {62, reset},
        {63, "none needed: a memory row will be remapped at the next reset"},
        {64, "nvidia-smi --gpu-reset -i {dev}; a row could not be remapped: replace the GPU"},
        {74, link},
        {79, "power-cycle the machine: the GPU no longer answers on PCIe; if it returns: reseat "
             "it, check its power, replace it"},
        {92, "none needed; watch for Xid 48 and 64"},
        {94, "restart the program that had the error: it was contained"},
        {95, reset},
        {109, reset},
        {110, reset},
        {119, reset},
        {120, reset},
        {144, link},
        {145, link},
        {146, link},
        {147, link},
        {148, link},
        {149, link},
        {150, link},
        {154, "do what the line says; nvidia-smi -q prints it as GPU Recovery Action"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].xid == xid)
            return table[i].remedy;
    return NULL;
}

/* The hardware behind an old Xid may be repaired since, which the log does not record: only a
 * hardware error of the last 24 hours is a fault. */
static void check_xids(const struct machine_gpu *gpu, const char *index, struct findings *findings)
{
    enum { RECENT_S = 24 * 3600 };
    bool hardware = number_is(gpu->xid_hardware, 1);
    bool recent = number_or(gpu->xid_age_s, 0) < RECENT_S;
    char when[32] = "at an unknown time";
    if (gpu->xid_age_s.known)
        snprintf(when, sizeof when, "%" PRId64 " h ago", gpu->xid_age_s.value / 3600);
    if (number_or(gpu->xids, 0) == 0 || !gpu->xid.known)
        return;
    struct finding *f =
        finding_add(findings, REASON_GPU_XID, hardware && recent ? WEIGHT_SLOW : WEIGHT_NOTE, index,
                    "gpu%s: %" PRId64 " since boot, the last%s %s: %.150s", index, gpu->xids.value,
                    hardware ? " hardware error" : "", when, text_or(gpu->xid_text, "?"));
    const char *remedy = xid_remedy(gpu->xid.value);
    if (remedy)
        finding_remedy(f, remedy, index);
    if (number_is(gpu->xid, 13) || number_is(gpu->xid, 31) || number_is(gpu->xid, 94))
        finding_by_user(f); /* a program is to be restarted or fixed */
}

void check_gpu_health(const struct machine *machine, const struct machine_gpu *gpu,
                      struct findings *findings)
{
    char index[24];
    snprintf(index, sizeof index, "%" PRId64, number_or(gpu->index, -1));
    if (number_or(gpu->replays_grown, 0) > 0)
        finding_add(findings, REASON_PCIE_GROWING, WEIGHT_SLOW, text_or(gpu->bdf, "?"),
                    "gpu%s: the replay counter grew by %" PRId64, index, gpu->replays_grown.value);
    check_rows(gpu, index, findings);
    check_xids(gpu, index, findings);
}

/* --- links ------------------------------------------------------------------------------------ */

static void check_counters(const struct machine_link *link, const char *gpu,
                           struct findings *findings)
{
    int64_t receive = number_or(link->receive_errors, 0);
    int64_t integrity = number_or(link->integrity_errors, 0);
    int64_t discards = number_or(link->discards, 0);
    int64_t failed = number_or(link->failed_recoveries, 0);
    int64_t effective = number_or(link->effective_errors, 0);
    if (receive || integrity || discards || failed || effective)
        finding_add(findings, REASON_NVLINK_ERRORS, WEIGHT_NOTE, gpu,
                    "gpu%s link %" PRId64 ": receive %" PRId64 ", integrity %" PRId64
                    ", discards %" PRId64 ", failed recoveries %" PRId64 ", effective %" PRId64,
                    gpu, number_or(link->link, -1), receive, integrity, discards, failed,
                    effective);
}

void check_link_health(const struct machine *machine, const struct machine_gpu *gpu,
                       struct findings *findings)
{
    int64_t index = number_or(gpu->index, -1);
    char name[24];
    snprintf(name, sizeof name, "%" PRId64, index);
    struct machine_range range = machine_links_of(machine, index);
    for (size_t i = range.first; i < range.end; i++) {
        const struct machine_link *link = &machine->links[i];
        if (!number_is(link->gpu, index))
            continue;
        check_counters(link, name, findings);
        if (number_or(link->errors_grown, 0) > 0)
            finding_add(findings, REASON_NVLINK_GROWING, WEIGHT_SLOW, name,
                        "gpu%" PRId64 " link %" PRId64 ": %s", index, number_or(link->link, -1),
                        text_or(link->errors_where, "errors grew"));
    }
}

/* --- the driver and its services -------------------------------------------------------------- */

void check_services(const struct machine *machine, struct findings *findings)
{
    const struct machine_driver *d = &machine->drivers;
    const char *driver = d->driver.value ? d->driver.value : d->nvidia_module.value;
    if (driver && d->fabric_manager_version.value &&
        strcmp(driver, d->fabric_manager_version.value) != 0)
        finding_add(findings, REASON_FABRIC_VERSION, WEIGHT_SLOW, NULL,
                    "fabric manager %s, driver %s", d->fabric_manager_version.value, driver);
    if (number_or(d->sxids, 0) > 0)
        finding_add(findings, REASON_FABRIC_SXID,
                    number_is(d->sxid_fatal, 1) ? WEIGHT_SLOW : WEIGHT_NOTE, NULL,
                    "%" PRId64 " since boot, the last%s: %.180s", d->sxids.value,
                    number_is(d->sxid_fatal, 1) ? " fatal one" : "", text_or(d->sxid_text, "?"));
    if (!d->kernel_log.known && d->kernel_log.why)
        finding_add(findings, REASON_KERNEL_LOG, WEIGHT_UNKNOWN, NULL, "%s", d->kernel_log.why);
}

/* --- disks and capture devices ---------------------------------------------------------------- */

int check_raids(const struct machine *machine, struct findings *findings)
{
    int n = 0;
    for (size_t i = 0; i < machine->n_disks; i++) {
        const struct machine_disk *disk = &machine->disks[i];
        const char *name = text_or(disk->name, "?");
        n += text_is(disk->kind, "raid");
        findings->place = name;
        if (number_or(disk->raid_missing, 0) > 0)
            finding_add(findings, REASON_RAID_DEGRADED, WEIGHT_SLOW, name,
                        "%s (%s): %" PRId64 " members are missing", name,
                        text_or(disk->raid_level, "level not known"), disk->raid_missing.value);
    }
    return n;
}

/* Returns the smallest distance of a PCI device to a GPU, and the index of that GPU. */
static enum level nearest_gpu(const struct machine *machine, const struct machine_pci *pci,
                              int64_t *index)
{
    enum level least = LEVEL_UNKNOWN;
    for (size_t i = 0; i < machine->n_gpus; i++) {
        const struct machine_pci *gpu = machine_find_pci(machine, machine->gpus[i].bdf.value);
        enum level here = routes_level(machine, gpu, pci);
        if (here < least) {
            least = here;
            *index = number_or(machine->gpus[i].index, -1);
        }
    }
    return least;
}

void check_captures(const struct machine *machine, struct findings *findings)
{
    for (size_t i = 0; i < machine->n_captures; i++) {
        const struct machine_capture *c = &machine->captures[i];
        const char *name = text_or(c->name, "?");
        int64_t gpu = -1;
        const struct machine_pci *pci =
            *text_or(c->bdf, "") ? machine_find_pci(machine, c->bdf.value) : NULL;
        enum level level = pci ? nearest_gpu(machine, pci, &gpu) : LEVEL_UNKNOWN;
        findings->place = name;
        if (level >= LEVEL_NODE && level != LEVEL_UNKNOWN)
            finding_add(findings, REASON_CAPTURE_FAR, WEIGHT_NOTE, name,
                        "%s (%s): the nearest GPU is gpu%" PRId64 " at distance %s", name,
                        text_or(c->model, "?"), gpu, level_name(level));
        if (number_is(c->node, 0))
            finding_add(findings, REASON_CAPTURE_NODE, WEIGHT_NOTE, name,
                        "/dev/%s cannot be opened", name);
    }
}
