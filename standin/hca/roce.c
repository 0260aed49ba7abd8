/* SPDX-License-Identifier: Apache-2.0 */
/* RoCE v2 over a UDP socket. The socket is unconnected and forbids fragmentation, so the kernel
 * sends every IPv4 datagram with identification 0, which the ICRC covers. QPs are handled elsewhere
 * (send.c, respond.c): this file sends packets from the rings of its links and puts received
 * packets into them. */
#include "roce.h"
#include "hca.h"
#include "roce_capture.h"
#include "roce_format.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    BATCH = 32,
    /* outstanding bytes of a QP; socket buffers of receivers hold not much more */
    WINDOW_BYTES = 64 << 10,
    WINDOW_PACKETS = 64, /* linux soft RoCE queues 128 */
    SOURCES_MOST = 64,   /* source ports of a device */
    /* bytes of all headers that a network MTU must hold besides a path MTU */
    HEADERS_MOST = 84,
    HEADERS_MOST_IPV6 = HEADERS_MOST + 20,
    PROBE_INTERVAL_NS = 20000000,
    PROBES_MOST = 50, /* one second in all */
};

/* Remote ends of a link: the other process's view of the rings. */
struct roce_peer {
    struct ring requests, responses; /* requests to the peer, and its responses */
    struct ring arriving, leaving;   /* requests from the peer, and responses to it */
    enum roce_peer_kind kind;
    unsigned probes;
    uint64_t probed_at;
};

struct datagram {
    union socket_address other;
    socklen_t other_bytes;
    uint32_t to; /* address of `other` in sent datagrams */
    int socket;
    uint16_t port; /* local source port, or the sender's port */
    uint32_t bytes;
    uint8_t data[ROCE_BYTES_MOST];
};

/* A UDP source port of some QPs. All packets arrive at ROCE_PORT. */
struct source {
    uint16_t port;
    int socket;
};

struct roce {
    int socket;
    struct source sources[SOURCES_MOST];
    unsigned source_count;
    uint32_t address, mtu;
    char interface[IFNAMSIZ]; /* that has the address; "": unknown */
    struct roce_capture *capture;
    struct datagram out[BATCH], in[BATCH];
    unsigned out_count;
    bool too_long; /* already reported */
};

/* --- Address and socket --- */

static int open_socket(uint32_t address, uint16_t port)
{
    union socket_address own;
    socklen_t bytes = address_to_socket(address, port, &own);
    bool ipv6 = address_is_ipv6(address);
    int s = socket(own.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int whole = IP_PMTUDISC_DO, buffer = 8 << 20; /* IPV6_PMTUDISC_DO has the same value */
    if (s < 0)
        return -1;
    if (setsockopt(s, ipv6 ? IPPROTO_IPV6 : IPPROTO_IP, ipv6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER,
                   &whole, sizeof whole) ||
        bind(s, &own.any, bytes)) {
        int e = errno;
        close(s);
        errno = e;
        return -1;
    }
    /* The kernel may grant less. */
    if (setsockopt(s, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer))
        setsockopt(s, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    return s;
}

static bool has_address(const struct ifaddrs *i, uint32_t address)
{
    if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET6) {
        uint8_t ip[16];
        address_to_ip(address, ip);
        return !memcmp(&((struct sockaddr_in6 *)(void *)i->ifa_addr)->sin6_addr, ip, sizeof ip);
    }
    if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || !i->ifa_netmask)
        return false;
    uint32_t own = ntohl(((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr.s_addr);
    uint32_t mask = ntohl(((struct sockaddr_in *)(void *)i->ifa_netmask)->sin_addr.s_addr);
    /* All addresses of a loopback network belong to the interface. */
    return own == address || (i->ifa_flags & IFF_LOOPBACK && !((own ^ address) & mask));
}

static void find_interface(struct roce *r)
{
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all))
        return;
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        if (!has_address(i, r->address))
            continue;
        snprintf(r->interface, sizeof r->interface, "%s", i->ifa_name);
        break;
    }
    freeifaddrs(all);
}

static bool ask_interface(const struct roce *r, unsigned long what, struct ifreq *request)
{
    *request = (struct ifreq){0};
    snprintf(request->ifr_name, sizeof request->ifr_name, "%s", r->interface);
    return r->interface[0] && !ioctl(r->socket, what, request);
}

/* Returns the interface's MTU less the headers, rounded down to a path MTU. */
static uint32_t mtu_of(const struct roce *r)
{
    struct ifreq request;
    uint32_t headers = address_is_ipv6(r->address) ? HEADERS_MOST_IPV6 : HEADERS_MOST;
    uint32_t mtu = 4096, whole = 1500;
    if (ask_interface(r, SIOCGIFMTU, &request))
        whole = (uint32_t)request.ifr_mtu;
    while (mtu > 256 && mtu + headers > whole)
        mtu /= 2;
    return mtu;
}

/* Binds a loopback address that contains the LID. No other process has the LID, so the address is
 * normally free. */
static int open_loopback(uint16_t lid, uint32_t *address)
{
    enum { TRIES = 16 };
    int s = -1;
    for (uint32_t i = 0; i < TRIES && s < 0; i++) {
        *address = (uint32_t)CONFIG_LOOPBACK | (i + 1) << 16 | lid;
        s = open_socket(*address, ROCE_PORT);
    }
    return s;
}

/* Binds the first free address of the list. */
static int bind_free_address(const struct device *d, uint32_t *address, int *error)
{
    const struct config *c = d->config;
    *error = EADDRNOTAVAIL;
    for (unsigned i = 0; i < c->address_count; i++) {
        *address = c->addresses[i];
        int s = *address == CONFIG_LOOPBACK ? open_loopback(d->lid, address)
                                            : open_socket(*address, ROCE_PORT);
        if (s >= 0)
            return s;
        *error = errno;
        if (errno != EADDRINUSE && errno != EADDRNOTAVAIL)
            return -1;
    }
    return -1;
}

int roce_open(struct device *d)
{
    const struct config *c = d->config;
    uint32_t address;
    int error;
    if (!c->address_count)
        return 0;
    int s = bind_free_address(d, &address, &error);
    if (s < 0) {
        fprintf(
            stderr,
            "soft HCA: mlx5_soft%u gets no address of SOFT_HCA_ADDRESS=%s at UDP port %d: %s. Each "
            "device of each process takes one that is of this host and free; soft RoCE of the "
            "kernel (rdma_rxe) takes the port of all addresses in its network namespace\n",
            d->number, c->address, ROCE_PORT, strerror(error));
        errno = error;
        return -1;
    }
    d->roce = calloc(1, sizeof *d->roce);
    if (!d->roce) {
        close(s);
        return -1;
    }
    d->roce->socket = s;
    d->roce->address = address;
    find_interface(d->roce);
    d->roce->mtu = mtu_of(d->roce);
    d->roce->capture = roce_capture_open(c->capture, d->number, address_is_ipv6(address));
    return 0;
}

void roce_close(struct device *d)
{
    if (!d->roce)
        return;
    for (unsigned i = 0; i < d->roce->source_count; i++)
        if (d->roce->sources[i].socket != d->roce->socket)
            close(d->roce->sources[i].socket);
    close(d->roce->socket);
    roce_capture_close(d->roce->capture);
    free(d->roce);
    d->roce = NULL;
}

uint32_t roce_address(const struct device *d)
{
    return d->roce ? d->roce->address : 0;
}

uint32_t roce_mtu(const struct device *d)
{
    return d->roce ? d->roce->mtu : 0;
}

bool roce_has_carrier(const struct device *d)
{
    struct ifreq request;
    if (!d->roce || !d->roce->interface[0])
        return true;
    return ask_interface(d->roce, SIOCGIFFLAGS, &request) && request.ifr_flags & IFF_RUNNING;
}

/* --- Links --- */

bool roce_attach(struct device *d, struct link_out *out, struct link_in *in)
{
    struct roce_peer *p = calloc(1, sizeof *p);
    if (!p)
        return false;
    p->requests = (struct ring){.shared = out->requests.shared, .size = out->requests.size};
    p->responses = (struct ring){.shared = out->responses.shared, .size = out->responses.size};
    p->arriving = (struct ring){.shared = in->requests.shared, .size = in->requests.size};
    p->leaving = (struct ring){.shared = in->responses.shared, .size = in->responses.size};
    out->roce = p;
    return true;
}

void roce_detach(struct link_out *out)
{
    free(out->roce);
    out->roce = NULL;
}

uint32_t roce_window(const struct qp *qp)
{
    uint32_t most = WINDOW_BYTES / qp->requester.mtu;
    if (!qp->requester.link || !qp->requester.link->roce)
        return 0;
    return most < WINDOW_PACKETS ? most : WINDOW_PACKETS;
}

/* --- Sending --- */

/* Returns the source port of a QP's packets. If another process uses the port on this address, it
 * is ROCE_PORT. */
static struct source source_port_of(struct device *d, uint32_t qpn)
{
    struct roce *r = d->roce;
    const struct qp *qp = qp_find(d, qpn);
    struct source usual = {ROCE_PORT, r->socket};
    uint16_t port = qp ? qp->requester.source_port : 0;
    if (!port || port == ROCE_PORT)
        return usual;
    for (unsigned i = 0; i < r->source_count; i++)
        if (r->sources[i].port == port)
            return r->sources[i].socket == r->socket ? usual : r->sources[i];
    if (r->source_count == SOURCES_MOST)
        return usual;
    int s = open_socket(r->address, port);
    struct source *new = &r->sources[r->source_count++];
    *new = (struct source){port, s < 0 ? r->socket : s};
    return s < 0 ? usual : *new;
}

/* Returns how many datagrams from `at` on use the same socket. */
static unsigned same_socket_count(const struct roce *r, unsigned at)
{
    unsigned end = at;
    while (end < r->out_count && r->out[end].socket == r->out[at].socket)
        end++;
    return end - at;
}

/* Sends the queued datagrams, as far as the kernel accepts them. */
static void flush_datagrams(struct roce *r)
{
    struct mmsghdr messages[BATCH];
    struct iovec parts[BATCH];
    unsigned sent = 0;
    for (unsigned i = 0; i < r->out_count; i++) {
        parts[i] = (struct iovec){r->out[i].data, r->out[i].bytes};
        messages[i].msg_hdr = (struct msghdr){.msg_name = &r->out[i].other,
                                              .msg_namelen = r->out[i].other_bytes,
                                              .msg_iov = &parts[i],
                                              .msg_iovlen = 1};
    }
    while (sent < r->out_count) {
        int n = sendmmsg(r->out[sent].socket, messages + sent, same_socket_count(r, sent),
                         MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == EINTR))
            break;
        /* A datagram that cannot be sent is lost, as on any network. */
        sent += n < 0 ? 1 : (unsigned)n;
    }
    for (unsigned i = 0; i < sent && r->capture; i++)
        roce_capture_add(r->capture,
                         &(struct roce_route){r->address, r->out[i].to, r->out[i].port, ROCE_PORT},
                         r->out[i].data, r->out[i].bytes);
    r->out_count -= sent;
    memmove(r->out, r->out + sent, r->out_count * sizeof *r->out);
}

/* Adversarial mode: loses, duplicates, reorders or damages the last queued datagram. */
static void distort_last(struct device *d)
{
    struct roce *r = d->roce;
    struct datagram *last = &r->out[r->out_count - 1];
    uint32_t dice = random_next(d), which = dice >> 8;
    if (d->config->mode != MODE_ADVERSARIAL)
        return;
    switch (dice % 64) {
    case 0:
    case 1: /* lost */
        r->out_count--;
        break;
    case 2: /* twice */
        if (r->out_count < BATCH)
            r->out[r->out_count++] = *last;
        break;
    case 3:
    case 4: /* before one that was sent earlier */
        if (r->out_count > 1) {
            struct datagram *other = &r->out[which % (r->out_count - 1)], held = *other;
            *other = *last;
            *last = held;
        }
        break;
    case 5: /* damaged, if receivers check the ICRC */
        if (d->config->check_icrc)
            last->data[which / 8 % last->bytes] ^= (uint8_t)(1u << which % 8);
        break;
    default:
        break;
    }
}

/* Queues one packet. False: no space until some datagrams were sent. */
static bool add_datagram(struct device *d, uint32_t to, const struct packet *p,
                         const uint8_t *payload)
{
    struct roce *r = d->roce;
    struct source source = source_port_of(d, p->from_qpn);
    struct roce_route route = {r->address, to, source.port, ROCE_PORT};
    if (r->out_count == BATCH)
        flush_datagrams(r);
    if (r->out_count == BATCH)
        return false;
    struct datagram *g = &r->out[r->out_count];
    g->bytes = (uint32_t)roce_encode(p, payload, &route, g->data);
    if (!g->bytes)
        return true;
    g->socket = source.socket;
    g->port = source.port;
    g->to = to;
    g->other_bytes = address_to_socket(to, ROCE_PORT, &g->other);
    r->out_count++;
    distort_last(d);
    return true;
}

static bool send_ring(struct device *d, uint32_t to, struct ring *ring)
{
    const struct packet *p;
    bool broken = false, worked = false;
    while ((p = ring_peek(ring, &broken)) && add_datagram(d, to, p, (const uint8_t *)(p + 1))) {
        ring_consume(ring, p);
        worked = true;
    }
    if (worked)
        ring_release(ring);
    return worked;
}

bool roce_send(struct device *d)
{
    bool worked = false;
    if (!d->roce)
        return false;
    for (unsigned i = 0; i < d->links.out_count; i++) {
        struct link_out *l = d->links.out[i];
        if (!l->roce)
            continue;
        worked |= send_ring(d, l->address, &l->roce->leaving);
        worked |= send_ring(d, l->address, &l->roce->requests);
    }
    if (d->roce->out_count)
        flush_datagrams(d->roce);
    return worked;
}

/* --- Probing the peer's kind --- */

static void send_control(struct qp *qp, uint8_t kind)
{
    struct packet p = {.kind = kind,
                       .to_qpn = qp->requester.remote_qpn,
                       .from_qpn = qp->qpn,
                       .psn = qp->requester.psn};
    add_datagram(qp->device, qp->requester.link->address, &p, NULL);
}

enum roce_peer_kind roce_query_peer(struct qp *qp)
{
    struct roce_peer *p = qp->requester.link ? qp->requester.link->roce : NULL;
    uint64_t now = qp->device->now;
    if (!p || qp->type == QP_DCI) /* no other HCA knows the format of DC */
        return ROCE_PEER_SOFT;
    if (p->kind != ROCE_PEER_UNKNOWN || (p->probes && now - p->probed_at < PROBE_INTERVAL_NS))
        return p->kind;
    if (p->probes == PROBES_MOST) {
        /* A later HCA at this address is probed again. */
        p->probes = 0;
        return ROCE_PEER_OTHER;
    }
    p->probes++;
    p->probed_at = now;
    send_control(qp, PACKET_PROBE);
    return p->kind;
}

/* --- Receiving --- */

/* Puts a packet into a ring; the payload of a DC request begins with its key. If the ring is full,
 * the packet is lost. */
static void put_packet(struct ring *ring, const struct packet *p, const uint8_t *payload,
                       const uint8_t *key)
{
    const uint32_t key_bytes = p->flags & PACKET_DC ? ROCE_DC_KEY_BYTES : 0;
    struct packet *to = ring_reserve(ring, p->bytes + key_bytes);
    if (!to)
        return;
    *to = *p;
    to->bytes += key_bytes;
    memcpy(to + 1, key, key_bytes);
    if (p->bytes)
        memcpy((uint8_t *)(to + 1) + key_bytes, payload, p->bytes);
    ring_commit(ring, to);
    ring_publish(ring);
}

/* Returns the link to a peer that sends a QP a packet, NULL: there is none. A DC target gets a link
 * to each initiator; packets are lost until it exists. */
static struct link_out *link_of(struct device *d, const struct qp *qp, uint32_t from)
{
    struct link_out *link = qp->type == QP_DCT ? link_find(d, from) : qp->requester.link;
    if (qp->type == QP_DCT && !link && from)
        link_request(d, from);
    return link && link->roce && link->address == from ? link : NULL;
}

void roce_handle_datagram(struct device *d, const uint8_t *bytes, uint32_t n, uint32_t from,
                          uint16_t port)
{
    struct roce_route route = {from, d->roce->address, port, ROCE_PORT};
    struct packet p;
    const uint8_t *payload;
    uint64_t scratch[4];
    uint32_t qpn;
    if (!roce_target(bytes, n, &qpn))
        return;
    struct qp *qp = qp_find(d, qpn);
    struct link_out *link = qp ? link_of(d, qp, from) : NULL;
    if (!link)
        return;
    if (d->config->check_icrc && !roce_is_whole(bytes, n, &route)) {
        d->record.damaged++;
        return;
    }
    if (!roce_decode(bytes, n, qp->requester.mtu, &p, &payload, scratch))
        return;
    /* Other packets do not name their source QP: it is the one that this QP is connected to. */
    if (!(p.flags & PACKET_DC))
        p.from_qpn = qp->requester.remote_qpn;
    struct roce_peer *peer = link->roce;
    if (p.kind == PACKET_PROBE)
        send_control(qp, PACKET_PROBE_REPLY);
    else if (p.kind == PACKET_PROBE_REPLY)
        peer->kind = ROCE_PEER_SOFT;
    else
        put_packet(roce_is_response(p.kind) ? &peer->responses : &peer->arriving, &p, payload,
                   bytes + ROCE_DC_KEY_AT);
}

bool roce_receive(struct device *d)
{
    struct roce *r = d->roce;
    struct mmsghdr messages[BATCH];
    struct iovec parts[BATCH];
    if (!r)
        return false;
    for (unsigned i = 0; i < BATCH; i++) {
        parts[i] = (struct iovec){r->in[i].data, sizeof r->in[i].data};
        messages[i].msg_hdr = (struct msghdr){.msg_name = &r->in[i].other,
                                              .msg_namelen = sizeof r->in[i].other,
                                              .msg_iov = &parts[i],
                                              .msg_iovlen = 1};
    }
    int n = recvmmsg(r->socket, messages, BATCH, MSG_DONTWAIT, NULL);
    for (int i = 0; i < n; i++) {
        uint16_t port;
        uint32_t from = address_of_socket(&r->in[i].other, &port);
        if (messages[i].msg_hdr.msg_flags & MSG_TRUNC)
            continue;
        if (r->capture)
            roce_capture_add(r->capture, &(struct roce_route){from, r->address, port, ROCE_PORT},
                             r->in[i].data, messages[i].msg_len);
        roce_handle_datagram(d, r->in[i].data, messages[i].msg_len, from, port);
    }
    return n > 0;
}
