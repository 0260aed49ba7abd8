/* SPDX-License-Identifier: Apache-2.0 */
/* Queries the kernel for facts of RoCE ports that sysfs does not have: the highest supported rate
 * (ethtool) and priority flow control (rtnetlink). Only for this machine, not for another root. */
#include "machine/live/live.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/netlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "machine/live/ethernet_decode.h"

enum { MODE_WORDS = 127 /* the largest number that the signed byte of the request can hold */ };

/* Reads the link modes with two requests: the kernel answers the first one with the negative number
 * of words that it has. */
static void read_max_rate(struct machine *machine, int fd, struct machine_port *port)
{
    union {
        struct ethtool_link_settings settings;
        char bytes[sizeof(struct ethtool_link_settings) + 3 * MODE_WORDS * sizeof(uint32_t)];
    } question = {.settings = {.cmd = ETHTOOL_GLINKSETTINGS}};
    struct ifreq request = {.ifr_data = question.bytes};
    const char *name = port->netdev.value;
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    bool good = ioctl(fd, SIOCETHTOOL, &request) == 0;
    int words = -question.settings.link_mode_masks_nwords;
    if (good && words > 0) {
        memset(&question, 0, sizeof question);
        question.settings.cmd = ETHTOOL_GLINKSETTINGS;
        question.settings.link_mode_masks_nwords = (int8_t)words;
        good = ioctl(fd, SIOCETHTOOL, &request) == 0;
    }
    int64_t mbit =
        good && words > 0 ? ethernet_fastest_mbit(question.settings.link_mode_masks, words) : 0;
    if (mbit)
        number_set(&port->mbit_max, mbit);
    else
        number_unknown(machine, &port->mbit_max, "ethtool's link settings of %s: %s", name,
                       good ? "no link mode with a speed" : strerror(errno));
}

static void read_flow_control(struct machine *machine, int fd, struct machine_port *port)
{
    char message[8192];
    int64_t priorities;
    size_t bytes = ethernet_pfc_request(port->netdev.value, message, sizeof message);
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    bool sent = bytes && sendto(fd, message, bytes, 0, (struct sockaddr *)&kernel, sizeof kernel) ==
                             (ssize_t)bytes;
    ssize_t n = sent ? recv(fd, message, sizeof message, 0) : -1;
    if (n > 0 && ethernet_pfc_answer(message, (size_t)n, &priorities))
        number_set(&port->pfc, priorities);
    else
        number_unknown(machine, &port->pfc, "data centre bridging of %s: %s", port->netdev.value,
                       n < 0 ? strerror(errno) : "the driver does not support it");
}

void live_ethernet(struct machine *machine, const struct machine_source *source)
{
    const struct timeval limit = {.tv_sec = 1};
    int fd = -1, netlink = -1;
    for (size_t i = 0; !*source->root && i < machine->n_ports; i++) {
        struct machine_port *port = &machine->ports[i];
        if (!text_is(port->layer, "roce") || !*text_or(port->netdev, ""))
            continue;
        if (fd < 0) {
            fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
            netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
            setsockopt(netlink, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        }
        read_max_rate(machine, fd, port);
        read_flow_control(machine, netlink, port);
    }
    if (fd >= 0)
        close(fd);
    if (netlink >= 0)
        close(netlink);
}
