/* SPDX-License-Identifier: Apache-2.0 */
/* Queries InfiniBand ports for their highest supported rate; sysfs and libibverbs have only the
 * current one. Uses /dev/infiniband/umad*, which usually only root may open, and the board name of
 * the vital product data (VPD), which needs root as well. */
#include "machine/live/live.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/ib_user_mad.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "machine/live/infiniband_decode.h"

enum { ANSWER_LIMIT_MS = 100 };

struct mad_packet {
    struct ib_user_mad_hdr header;
    uint8_t mad[INFINIBAND_MAD_BYTES];
};

/* Finds the device node of a port, such as "umad3", in sysfs. */
static bool find_node(struct machine *machine, const struct machine_source *source,
                      const struct machine_port *port, struct live_path *node)
{
    const char *base = "sys/class/infiniband_mad";
    const char **names = live_names(machine, live_path(source, "%s", base).text);
    for (; *names; names++) {
        char nic[128], number[32];
        if (live_line(live_path(source, "%s/%s/ibdev", base, *names).text, nic, sizeof nic) &&
            live_line(live_path(source, "%s/%s/port", base, *names).text, number, sizeof number) &&
            text_is(port->nic, nic) && number_is(port->port, strtol(number, NULL, 10)) &&
            strncmp(*names, "umad", 4) == 0) {
            *node = live_path(source, "dev/infiniband/%s", *names);
            return true;
        }
    }
    return false;
}

/* Sends PortInfo to the NIC's own port and receives the answer. Returns 0 or an errno. The kernel
 * delivers the request to the local NIC, so nothing leaves the machine. */
static int query_port_info(int fd, int port, struct mad_packet *packet)
{
    struct ib_user_mad_reg_req agent = {
        .qpn = 0, .mgmt_class = 0x81 /* directed subnet management */, .mgmt_class_version = 1};
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    if (ioctl(fd, IB_USER_MAD_ENABLE_PKEY) != 0 ||
        ioctl(fd, IB_USER_MAD_REGISTER_AGENT, &agent) != 0)
        return errno;
    memset(packet, 0, sizeof *packet);
    packet->header.id = agent.id;
    packet->header.timeout_ms = ANSWER_LIMIT_MS;
    packet->header.lid = 0xffff;
    infiniband_request(packet->mad, port);
    if (write(fd, packet, sizeof *packet) != (ssize_t)sizeof *packet)
        return errno ? errno : EIO;
    if (poll(&ready, 1, 2 * ANSWER_LIMIT_MS) != 1)
        return ETIMEDOUT;
    ssize_t n = read(fd, packet, sizeof *packet);
    if (n < 0)
        return errno;
    return n < (ssize_t)sizeof *packet ? EPROTO : (int)packet->header.status;
}

static int64_t read_board(const struct machine *machine, const struct machine_source *source,
                          const struct machine_port *port)
{
    const struct machine_nic *nic = machine_find_nic(machine, text_or(port->nic, ""));
    uint8_t vpd[INFINIBAND_VPD_BYTES];
    if (!nic || !*text_or(nic->bdf, ""))
        return 0;
    long n = live_bytes(live_path(source, "sys/bus/pci/devices/%s/vpd", nic->bdf.value).text, vpd,
                        sizeof vpd);
    return n > 0 ? infiniband_board_mbit(vpd, (size_t)n) : 0;
}

static void query_ports(struct machine *machine, const struct machine_source *source,
                        struct machine_port *port)
{
    struct live_path node;
    struct mad_packet packet;
    struct infiniband_port able;
    const char *why = NULL;
    if (!find_node(machine, source, port, &node)) {
        number_unknown(machine, &port->mbit_max,
                       "/sys/class/infiniband_mad has no entry for this port: modprobe ib_umad");
        return;
    }
    int fd = open(node.text, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    int error = fd < 0 ? errno : query_port_info(fd, (int)number_or(port->port, 1), &packet);
    if (fd >= 0)
        close(fd);
    if (error) {
        number_unknown(machine, &port->mbit_max, "%s: %s%s", node.text, strerror(error),
                       error == EACCES || error == EPERM ? "; needs root" : "");
        return;
    }
    int64_t mbit = 0, active = number_or(port->mbit, 0);
    if (infiniband_answer(packet.mad, sizeof packet.mad, &able, &why))
        mbit = infiniband_possible_mbit(
            &able, active < able.mbit ? read_board(machine, source, port) : 0, active, &why);
    if (mbit)
        number_set(&port->mbit_max, mbit);
    else
        number_unknown(machine, &port->mbit_max, "%s: %s", node.text, why);
}

void live_infiniband(struct machine *machine, const struct machine_source *source)
{
    for (size_t i = 0; i < machine->n_ports; i++)
        if (text_is(machine->ports[i].layer, "infiniband"))
            query_ports(machine, source, &machine->ports[i]);
}
