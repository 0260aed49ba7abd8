/* SPDX-License-Identifier: Apache-2.0 */
/* Subtracts the error counters of two readings. See growth.h. */
#include "machine/describe/growth.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct growth {
    bool known;
    int64_t sum;
    char where[128]; /* "symbol errors +3, link down +1" */
};

static void add_growth(struct growth *growth, struct machine_number before,
                       struct machine_number after, const char *name)
{
    if (!before.known || !after.known)
        return;
    growth->known = true;
    if (after.value <= before.value)
        return;
    size_t used = strlen(growth->where);
    growth->sum += after.value - before.value;
    snprintf(growth->where + used, sizeof growth->where - used, "%s%s +%" PRId64, used ? ", " : "",
             name, after.value - before.value);
}

static void set_growth(const struct growth *growth, struct machine_number *to)
{
    if (growth->known)
        number_set(to, growth->sum);
}

static void record_pci_growth(struct machine_pci *before, const struct machine_pci *after)
{
    struct growth growth = {.known = false};
    add_growth(&growth, before->aer_correctable, after->aer_correctable, "corrected");
    add_growth(&growth, before->aer_uncorrectable, after->aer_uncorrectable, "not corrected");
    set_growth(&growth, &before->aer_grown);
}

static void record_port_growth(struct machine *machine, struct machine_port *before,
                               const struct machine_port *after)
{
    struct growth growth = {.known = false};
    add_growth(&growth, before->symbol_errors, after->symbol_errors, "symbol errors");
    add_growth(&growth, before->link_downed, after->link_downed, "link down");
    add_growth(&growth, before->retransmits, after->retransmits, "retransmits");
    set_growth(&growth, &before->errors_grown);
    if (growth.known)
        text_set(machine, &before->errors_where, growth.where);
}

static void record_link_growth(struct machine *machine, struct machine_link *before,
                               const struct machine_link *after)
{
    struct growth growth = {.known = false};
    add_growth(&growth, before->crc_errors, after->crc_errors, "CRC");
    add_growth(&growth, before->replays, after->replays, "replays");
    add_growth(&growth, before->recoveries, after->recoveries, "recoveries");
    add_growth(&growth, before->ecc_errors, after->ecc_errors, "ECC");
    add_growth(&growth, before->receive_errors, after->receive_errors, "receive");
    add_growth(&growth, before->integrity_errors, after->integrity_errors, "integrity");
    add_growth(&growth, before->discards, after->discards, "discards");
    add_growth(&growth, before->failed_recoveries, after->failed_recoveries, "failed recoveries");
    add_growth(&growth, before->effective_errors, after->effective_errors, "effective");
    set_growth(&growth, &before->errors_grown);
    if (growth.known)
        text_set(machine, &before->errors_where, growth.where);
}

static const struct machine_port *find_port(const struct machine *machine,
                                            const struct machine_port *like)
{
    for (size_t i = 0; i < machine->n_ports; i++)
        if (like->nic.value && text_is(machine->ports[i].nic, like->nic.value) &&
            number_is(machine->ports[i].port, number_or(like->port, -1)))
            return &machine->ports[i];
    return NULL;
}

static const struct machine_link *find_link(const struct machine *machine,
                                            const struct machine_link *like)
{
    for (size_t i = 0; i < machine->n_links; i++)
        if (number_is(machine->links[i].gpu, number_or(like->gpu, -1)) &&
            number_is(machine->links[i].link, number_or(like->link, -1)))
            return &machine->links[i];
    return NULL;
}

void growth_record(struct machine *machine, const struct machine *later)
{
    for (size_t i = 0; i < machine->n_pci; i++) {
        const struct machine_pci *after = machine_find_pci(later, machine->pci[i].bdf.value);
        if (after)
            record_pci_growth(&machine->pci[i], after);
    }
    for (size_t i = 0; i < machine->n_ports; i++) {
        const struct machine_port *after = find_port(later, &machine->ports[i]);
        if (after)
            record_port_growth(machine, &machine->ports[i], after);
    }
    for (size_t i = 0; i < machine->n_links; i++) {
        const struct machine_link *after = find_link(later, &machine->links[i]);
        if (after)
            record_link_growth(machine, &machine->links[i], after);
    }
    for (size_t i = 0; i < machine->n_gpus; i++) {
        struct growth growth = {.known = false};
        const struct machine_gpu *after =
            machine_find_gpu(later, number_or(machine->gpus[i].index, -1));
        if (after)
            add_growth(&growth, machine->gpus[i].pcie_replays, after->pcie_replays, "replays");
        set_growth(&growth, &machine->gpus[i].replays_grown);
    }
}
