/* SPDX-License-Identifier: Apache-2.0 */
/* See gid.h. */
#include "machine/checks/gid.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool is_of_port(const struct machine_gid *gid, const struct machine_port *port)
{
    return gid->nic.value && text_is(port->nic, gid->nic.value) && gid->index.known &&
           gid->port.known && number_is(port->port, gid->port.value);
}

static bool is_any(const struct machine_gid *gid)
{
    (void)gid;
    return true;
}

static bool is_ipv4(const struct machine_gid *gid)
{
    return text_is(gid->family, "ipv4");
}

static bool is_ipv4_v2(const struct machine_gid *gid)
{
    return is_ipv4(gid) && text_is(gid->type, "roce-v2");
}

static bool is_good(const struct machine_gid *gid)
{
    return text_is(gid->type, "roce-v2") && number_is(gid->routable, 1);
}

static bool is_good_ipv4(const struct machine_gid *gid)
{
    return is_ipv4(gid) && is_good(gid);
}

/* The GID of the port with the lowest index that fits; NULL: none does. */
static const struct machine_gid *first_of(const struct machine *machine,
                                          const struct machine_port *port,
                                          bool (*fits)(const struct machine_gid *gid))
{
    const struct machine_gid *first = NULL;
    for (size_t i = 0; i < machine->n_gids; i++) {
        const struct machine_gid *gid = &machine->gids[i];
        if (is_of_port(gid, port) && fits(gid) && (!first || gid->index.value < first->index.value))
            first = gid;
    }
    return first;
}

/* NULL: the port has no GID 0. */
static const struct machine_gid *gid_zero(const struct machine *machine,
                                          const struct machine_port *port)
{
    const struct machine_gid *first = first_of(machine, port, is_any);
    return first && first->index.value == 0 ? first : NULL;
}

static const struct machine_gid *default_of(const struct machine *machine,
                                            const struct machine_port *port)
{
    const struct machine_gid *gid = first_of(machine, port, is_ipv4_v2);
    if (!gid)
        gid = first_of(machine, port, is_ipv4);
    return gid ? gid : gid_zero(machine, port);
}

static void print_gid(const struct machine_gid *gid, char *text, size_t bytes)
{
    if (!gid)
        snprintf(text, bytes, "GID 0 (empty)");
    else
        snprintf(text, bytes, "GID %" PRId64 " (RoCE %s, %s)", gid->index.value,
                 text_is(gid->type, "roce-v2")   ? "v2"
                 : text_is(gid->type, "roce-v1") ? "v1"
                                                 : "version not known",
                 number_is(gid->routable, 0)    ? "link-local"
                 : text_is(gid->family, "ipv4") ? "IPv4"
                                                : "IPv6");
}

static void advise_port(const struct machine *machine, const struct machine_port *port,
                        struct gid_advice *advice)
{
    const struct machine_gid *taken = default_of(machine, port), *zero = gid_zero(machine, port);
    const struct machine_gid *best = first_of(machine, port, is_good_ipv4);
    best = best ? best : first_of(machine, port, is_good);
    if (!first_of(machine, port, is_any))
        return;
    advice->recorded++;
    if (!best || (advice->recorded > 1 && advice->index != best->index.value))
        advice->index = -1;
    else
        advice->index = best->index.value;
    if (!best)
        return;
    if (!advice->nic && !(taken && is_good(taken))) {
        advice->nic = port->nic.value;
        print_gid(taken, advice->taken, sizeof advice->taken);
        print_gid(best, advice->best, sizeof advice->best);
    }
    if (!advice->old_nic && !(zero && is_good(zero))) {
        advice->old_nic = port->nic.value;
        print_gid(zero, advice->old_taken, sizeof advice->old_taken);
        print_gid(best, advice->old_best, sizeof advice->old_best);
    }
}

void gid_advise(const struct machine *machine, struct gid_advice *advice)
{
    *advice = (struct gid_advice){.index = -1};
    for (size_t i = 0; i < machine->n_ports; i++) {
        const struct machine_port *port = &machine->ports[i];
        if (text_is(port->layer, "roce") && text_is(port->state, "active") && port->nic.value) {
            advice->ports++;
            advise_port(machine, port, advice);
        }
    }
    if (advice->recorded < advice->ports)
        advice->index = -1;
}
