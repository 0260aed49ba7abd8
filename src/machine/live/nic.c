/* SPDX-License-Identifier: Apache-2.0 */
/* RDMA devices and network interfaces, from sysfs. */
#include "machine/live/live.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARP_ETHERNET = 1, ARP_INFINIBAND = 32, ARP_LOOPBACK = 772 };

static bool is_zero_gid(const char *gid)
{
    return strspn(gid, "0:") == strlen(gid) || strncmp(gid,
                                                       "fe80:0000:0000:0000:0000:0000:0000:"
                                                       "0000",
                                                       39) == 0;
}

/* Link-local IPv4 addresses are 169.254.0.0/16, which is a9fe of an IPv4-mapped address. */
static bool is_link_local(const char *gid, bool ipv4)
{
    return ipv4 ? strncmp(gid + 30, "a9fe", 4) == 0 : strncmp(gid, "fe80", 4) == 0;
}

/* `gid` has the form of sysfs: eight groups of four digits. */
static struct machine_gid *add_gid(struct machine *machine, const struct machine_port *port,
                                   const char *index, const char *gid)
{
    struct machine_gid *one = machine_add_gid(machine);
    bool ipv4 = strncmp(gid, "0000:0000:0000:0000:0000:ffff:", 30) == 0;
    one->nic = port->nic;
    one->port = port->port;
    number_set(&one->index, strtol(index, NULL, 10));
    text_set(machine, &one->family, ipv4 ? "ipv4" : "ipv6");
    number_set(&one->routable, !is_link_local(gid, ipv4));
    return one;
}

/* The kernel names RoCE v1 and InfiniBand alike: "IB/RoCE v1". */
static void read_gid_type(struct machine *machine, const char *path,
                          const struct machine_port *port, struct machine_gid *one)
{
    char line[128];
    if (!live_line(path, line, sizeof line))
        text_unknown(machine, &one->type, "%s: %s", path, strerror(errno));
    else if (strstr(line, "v2"))
        text_set(machine, &one->type, "roce-v2");
    else if (strstr(line, "v1"))
        text_set(machine, &one->type, text_is(port->layer, "infiniband") ? "ib" : "roce-v1");
    else
        text_unknown(machine, &one->type, "%s holds \"%s\"", path, line);
}

static void read_gids(struct machine *machine, const char *port_path, struct machine_port *port)
{
    char path[4200], line[128];
    int64_t count = 0;
    const char *best = NULL;
    bool v1 = false, v2 = false;
    snprintf(path, sizeof path, "%s/gids", port_path);
    const char **names = live_names(machine, path);
    for (; *names; names++) {
        snprintf(path, sizeof path, "%s/gids/%s", port_path, *names);
        if (!live_line(path, line, sizeof line) || is_zero_gid(line))
            continue;
        count++;
        if (!best || (strncmp(best, "fe80", 4) == 0 && strncmp(line, "fe80", 4) != 0))
            best = machine_printf(machine, "%s", line);
        struct machine_gid *one = add_gid(machine, port, *names, line);
        snprintf(path, sizeof path, "%s/gid_attrs/types/%s", port_path, *names);
        read_gid_type(machine, path, port, one);
        v1 |= text_is(one->type, "roce-v1");
        v2 |= text_is(one->type, "roce-v2");
    }
    number_set(&port->gids, count);
    text_set(machine, &port->gid, best && strncmp(best, "fe80", 4) != 0 ? best : "");
    text_set(machine, &port->roce,
             text_is(port->layer, "roce") ? (v2   ? "v2"
                                             : v1 ? "v1"
                                                  : "none")
                                          : "none");
}

static void read_layer(struct machine *machine, const char *port_path, int node_type,
                       struct machine_port *port)
{
    char path[4200], line[128];
    snprintf(path, sizeof path, "%s/link_layer", port_path);
    if (!live_line(path, line, sizeof line))
        text_unknown(machine, &port->layer, "%s: %s", path, strerror(errno));
    else if (node_type == 4) /* RNIC */
        text_set(machine, &port->layer, "iwarp");
    else
        text_set(machine, &port->layer,
                 strcmp(line, "InfiniBand") == 0 ? "infiniband"
                 : strcmp(line, "Ethernet") == 0 ? "roce"
                                                 : "other");
}

static void read_port_state(struct machine *machine, const char *port_path,
                            struct machine_port *port)
{
    static const char *const states[] = {NULL, "down", "init", "armed", "active"};
    char path[4200], line[128];
    snprintf(path, sizeof path, "%s/state", port_path);
    if (!live_line(path, line, sizeof line))
        text_unknown(machine, &port->state, "%s: %s", path, strerror(errno));
    else if (line[0] >= '1' && line[0] <= '4')
        text_set(machine, &port->state, states[line[0] - '0']);
    else
        text_unknown(machine, &port->state, "%s holds \"%s\"", path, line);
    snprintf(path, sizeof path, "%s/phys_state", port_path);
    if (live_line(path, line, sizeof line))
        text_set(machine, &port->physical, strchr(line, ' ') ? strchr(line, ' ') + 1 : line);
    snprintf(path, sizeof path, "%s/rate", port_path);
    if (live_line(path, line, sizeof line) && strtod(line, NULL) > 0)
        number_set(&port->mbit, (int64_t)(strtod(line, NULL) * 1000));
    else
        number_unknown(machine, &port->mbit, "%s holds no rate", path);
}

/* Sums the loss counters of mlx5; unknown for a driver that has none of them. */
static void read_retransmits(struct machine *machine, const char *port_path,
                             struct machine_port *port)
{
    static const char *const names[] = {"packet_seq_err", "local_ack_timeout_err",
                                        "out_of_sequence"};
    struct machine_number sum = {.known = false};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[4200];
        struct machine_number one;
        snprintf(path, sizeof path, "%s/hw_counters/%s", port_path, names[i]);
        live_number(machine, &one, path);
        sum.known |= one.known;
        sum.value += number_or(one, 0);
        sum.why = one.why;
    }
    port->retransmits = sum;
}

static void read_port(struct machine *machine, const struct machine_source *source, const char *nic,
                      const char *number, int node_type)
{
    struct live_path base = live_path(source, "sys/class/infiniband/%s/ports/%s", nic, number);
    char path[4200], line[128];
    struct machine_port *port = machine_add_port(machine);
    text_set(machine, &port->nic, nic);
    number_set(&port->port, strtol(number, NULL, 10));
    read_layer(machine, base.text, node_type, port);
    read_port_state(machine, base.text, port);
    read_gids(machine, base.text, port);
    snprintf(path, sizeof path, "%s/lid", base.text);
    live_number(machine, &port->lid, path);
    snprintf(path, sizeof path, "%s/counters/symbol_error", base.text);
    live_number(machine, &port->symbol_errors, path);
    snprintf(path, sizeof path, "%s/counters/link_downed", base.text);
    live_number(machine, &port->link_downed, path);
    read_retransmits(machine, base.text, port);
    snprintf(path, sizeof path, "%s/gid_attrs/ndevs/0", base.text);
    text_set(machine, &port->netdev, live_line(path, line, sizeof line) ? line : "");
    if (*port->netdev.value)
        live_number(machine, &port->mtu,
                    live_path(source, "sys/class/net/%s/mtu", port->netdev.value).text);
}

static void read_rdma_device(struct machine *machine, const struct machine_source *source,
                             const char *name)
{
    const char *base = "sys/class/infiniband";
    char line[128];
    struct machine_nic *nic = machine_add_nic(machine);
    text_set(machine, &nic->name, name);
    live_pci_address(machine, &nic->bdf, live_path(source, "%s/%s/device", base, name).text);
    text_set(machine, &nic->driver,
             live_link(live_path(source, "%s/%s/device/driver", base, name).text, line, sizeof line)
                 ? line
                 : "");
    live_text(machine, &nic->firmware, live_path(source, "%s/%s/fw_ver", base, name).text);
    live_text(machine, &nic->guid, live_path(source, "%s/%s/node_guid", base, name).text);
    live_text(machine, &nic->model, live_path(source, "%s/%s/hca_type", base, name).text);
    int node_type =
        live_line(live_path(source, "%s/%s/node_type", base, name).text, line, sizeof line)
            ? line[0] - '0'
            : 0;
    const char **ports = live_names(machine, live_path(source, "%s/%s/ports", base, name).text);
    for (; *ports; ports++)
        read_port(machine, source, name, *ports, node_type);
}

/* Reads the settings of a bond and the link state of each member; for any interface, the bond or
 * bridge that it belongs to. */
static void read_bond(struct machine *machine, const struct machine_source *source,
                      const char *name, struct machine_netif *i)
{
    const char *base = "sys/class/net";
    char line[512], state[32], *save = NULL;
    int64_t members = 0, up = 0;
    text_set(machine, &i->master,
             live_link(live_path(source, "%s/%s/master", base, name).text, line, sizeof line) ? line
                                                                                              : "");
    if (!live_line(live_path(source, "%s/%s/bonding/mode", base, name).text, line, sizeof line)) {
        text_set(machine, &i->bond_mode, "");
        return;
    }
    line[strcspn(line, " ")] = '\0'; /* "802.3ad 4" */
    text_set(machine, &i->bond_mode, line);
    live_line(live_path(source, "%s/%s/bonding/slaves", base, name).text, line, sizeof line);
    for (char *one = strtok_r(line, " ", &save); one; one = strtok_r(NULL, " ", &save)) {
        members++;
        up += live_line(live_path(source, "%s/%s/bonding_slave/mii_status", base, one).text, state,
                        sizeof state) &&
              strcmp(state, "up") == 0;
    }
    number_set(&i->bond_members, members);
    number_set(&i->bond_members_up, up);
}

static void read_interface(struct machine *machine, const struct machine_source *source,
                           const char *name)
{
    const char *base = "sys/class/net";
    char line[128];
    struct machine_number type;
    struct machine_netif *i = machine_add_netif(machine);
    text_set(machine, &i->name, name);
    live_pci_address(machine, &i->bdf, live_path(source, "%s/%s/device", base, name).text);
    live_number(machine, &type, live_path(source, "%s/%s/type", base, name).text);
    int64_t arp = number_or(type, -1);
    text_set(machine, &i->kind,
             arp == ARP_LOOPBACK                    ? "loopback"
             : arp == ARP_INFINIBAND                ? "ipoib"
             : arp == ARP_ETHERNET && *i->bdf.value ? "ethernet"
             : arp == ARP_ETHERNET                  ? "virtual"
                                                    : "other");
    const char **rdma =
        live_names(machine, live_path(source, "%s/%s/device/infiniband", base, name).text);
    text_set(machine, &i->nic, *rdma ? *rdma : "");
    if (live_line(live_path(source, "%s/%s/speed", base, name).text, line, sizeof line) &&
        strtol(line, NULL, 10) > 0)
        number_set(&i->mbit, strtol(line, NULL, 10));
    else
        number_unknown(machine, &i->mbit, "the driver of %s reports no speed", name);
    live_text(machine, &i->state, live_path(source, "%s/%s/operstate", base, name).text);
    if (i->state.value && !word_is_one_of(i->state.value, "up|down"))
        text_set(machine, &i->state, "unknown");
    live_number(machine, &i->mtu, live_path(source, "%s/%s/mtu", base, name).text);
    live_text(machine, &i->mac, live_path(source, "%s/%s/address", base, name).text);
    if (live_line(live_path(source, "%s/%s/mode", base, name).text, line, sizeof line) &&
        word_is_one_of(line, "datagram|connected"))
        text_set(machine, &i->ipoib_mode, line);
    else
        text_set(machine, &i->ipoib_mode, "none");
    read_bond(machine, source, name, i);
}

void live_nic(struct machine *machine, const struct machine_source *source)
{
    const char **names = live_names(machine, live_path(source, "sys/class/infiniband").text);
    for (; *names; names++) /* a container may have links to devices that it does not see */
        if (live_exists(live_path(source, "sys/class/infiniband/%s", *names).text))
            read_rdma_device(machine, source, *names);
    names = live_names(machine, live_path(source, "sys/class/net").text);
    for (; *names; names++)
        if (strcmp(*names, "bonding_masters") != 0)
            read_interface(machine, source, *names);
}
