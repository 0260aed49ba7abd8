/* SPDX-License-Identifier: Apache-2.0 */
/* See listen.h. */
#include "boot/rendezvous/listen.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

static int listen_on(int family, struct sockaddr *address, socklen_t bytes)
{
    int on = 1, off = 0;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, address, bytes) == 0 && listen(fd, 4096) == 0 &&
        getsockname(fd, address, &bytes) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

int listen_everywhere(int *port)
{
    uint16_t wanted = htons((uint16_t)*port);
    struct sockaddr_in6 v6 = {
        .sin6_family = AF_INET6, .sin6_addr = in6addr_any, .sin6_port = wanted};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = wanted};
    int fd = listen_on(AF_INET6, (struct sockaddr *)&v6, sizeof v6);
    *port = ntohs(v6.sin6_port);
    if (fd >= 0)
        return fd;
    fd = listen_on(AF_INET, (struct sockaddr *)&v4, sizeof v4);
    *port = ntohs(v4.sin_port);
    return fd;
}

static socklen_t store_address(struct rendezvous_address *at, const struct sockaddr *from, int port)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)&at->address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&at->address;
    memset(at, 0, sizeof *at);
    if (from->sa_family == AF_INET) {
        memcpy(v4, from, at->bytes = sizeof *v4);
        v4->sin_port = htons((uint16_t)port);
    } else if (from->sa_family == AF_INET6) {
        memcpy(v6, from, at->bytes = sizeof *v6);
        v6->sin6_port = htons((uint16_t)port);
        if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr))
            at->bytes = 0; /* its scope id has no meaning on another machine */
    }
    return at->bytes;
}

int listen_addresses(struct rendezvous_address *addresses, int most, int port)
{
    struct ifaddrs *all;
    int count = 0;
    if (getifaddrs(&all) < 0)
        return 0;
    /* Loopback addresses come last: only processes of this machine can use them. */
    for (int loopback = 0; loopback < 2; loopback++)
        for (struct ifaddrs *one = all; one && count < most; one = one->ifa_next)
            if (one->ifa_addr && one->ifa_flags & IFF_UP &&
                !(one->ifa_flags & IFF_LOOPBACK) == !loopback)
                count += store_address(&addresses[count], one->ifa_addr, port) > 0;
    freeifaddrs(all);
    return count;
}
