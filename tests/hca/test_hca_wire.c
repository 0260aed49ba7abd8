/* SPDX-License-Identifier: Apache-2.0 */
/* RoCE over UDP: the functions of roce.c with mock sockets. The log of datagrams is compared with
 * golden/hca_wire.txt. */
#include "fails.h"
#include "hca.h"
#include "link_mocks.h"
#include "roce_capture.h"
#include "roce_format.h"
#include "trace.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RING_DATA = 1 << 15, OWN = 0x0a010203, PEER = 0x0a010299 };

static struct config config;
static struct device device;

/* --- System calls --- */

static int next_socket;
static unsigned open_sockets;

int __wrap_socket(int family, int type, int protocol);
int __wrap_socket(int family, int type, int protocol)
{
    assert_int_equal(family, AF_INET);
    assert_int_equal(type, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_int_equal(protocol, 0);
    if (due("socket"))
        return -1;
    open_sockets++;
    return next_socket++;
}

int __wrap_close(int fd);
int __wrap_close(int fd)
{
    say("  close %d\n", fd);
    open_sockets--;
    errno = EBADF;
    return 0;
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t bytes);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t bytes)
{
    int number;
    assert_int_equal(bytes, sizeof number);
    memcpy(&number, value, sizeof number);
    say("  option of %d: %s %d\n", fd,
        level == IPPROTO_IP   ? name == IP_MTU_DISCOVER ? "MTU_DISCOVER" : "?"
        : level == SOL_SOCKET ? name == SO_RCVBUFFORCE ? "RCVBUFFORCE"
                                : name == SO_RCVBUF    ? "RCVBUF"
                                                       : "?"
                              : "?",
        number);
    return due(name == SO_RCVBUFFORCE ? "force" : "setsockopt") ? -1 : 0;
}

/* The first `taken` addresses are in use. */
static unsigned taken;
static int taken_error;
int __wrap_bind(int fd, const struct sockaddr *to, socklen_t bytes);
int __wrap_bind(int fd, const struct sockaddr *to, socklen_t bytes)
{
    const struct sockaddr_in *in = (const void *)to;
    assert_int_equal(bytes, sizeof *in);
    assert_int_equal(in->sin_family, AF_INET);
    say("  bind %d to %08x:%u\n", fd, ntohl(in->sin_addr.s_addr), ntohs(in->sin_port));
    if (!taken)
        return 0;
    taken--;
    errno = taken_error;
    return -1;
}

static struct ifaddrs *interfaces;
int __wrap_getifaddrs(struct ifaddrs **all);
int __wrap_getifaddrs(struct ifaddrs **all)
{
    if (due("getifaddrs"))
        return -1;
    *all = interfaces;
    return 0;
}

static unsigned lists_freed;
void __wrap_freeifaddrs(struct ifaddrs *all);
void __wrap_freeifaddrs(struct ifaddrs *all)
{
    assert_ptr_equal(all, interfaces);
    lists_freed++;
}

static int mtu_of_interface;
int __wrap_ioctl(int fd, unsigned long request, struct ifreq *out);
int __wrap_ioctl(int fd, unsigned long request, struct ifreq *out)
{
    assert_int_equal(request, SIOCGIFMTU);
    say("  MTU of %s by %d\n", out->ifr_name, fd);
    out->ifr_mtu = mtu_of_interface;
    return due("ioctl") ? -1 : 0;
}

static bool no_memory;
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
    return no_memory ? NULL : __real_calloc(count, bytes);
}

/* sendmmsg() sends at most most_at_a_time datagrams; after until_error it fails with send_error. */
static unsigned most_at_a_time = 100, until_error = 1000;
static int send_error;
int __wrap_sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags);
int __wrap_sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    assert_int_equal(flags, MSG_DONTWAIT);
    if (!until_error) {
        say("  send %d: %u, error\n", fd, count);
        until_error = 1000;
        errno = send_error;
        return -1;
    }
    unsigned n = count < most_at_a_time ? count : most_at_a_time;
    until_error--;
    say("  send %d: %u of %u\n", fd, n, count);
    for (unsigned i = 0; i < n; i++) {
        const struct msghdr *m = &messages[i].msg_hdr;
        struct sockaddr_in to;
        assert_int_equal(m->msg_namelen, sizeof to);
        assert_int_equal(m->msg_iovlen, 1);
        assert_null(m->msg_control);
        memcpy(&to, m->msg_name, sizeof to);
        say("    to %08x:%u: ", ntohl(to.sin_addr.s_addr), ntohs(to.sin_port));
        const uint8_t *at = m->msg_iov->iov_base;
        for (size_t k = 0; k < m->msg_iov->iov_len && k < 12; k++)
            say("%02x", at[k]);
        say(" ");
        say_bytes(at, m->msg_iov->iov_len);
        say("\n");
    }
    return (int)n;
}

/* Arriving datagrams. */
static struct arrival {
    uint8_t bytes[ROCE_BYTES_MOST];
    unsigned count, flags;
    uint32_t from;
    uint16_t port;
} arrivals[40];
static unsigned arrived;
int __wrap_recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags,
                    struct timespec *timeout);
int __wrap_recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags,
                    struct timespec *timeout)
{
    assert_int_equal(flags, MSG_DONTWAIT);
    assert_null(timeout);
    if (!arrived)
        return -1;
    unsigned n = arrived < count ? arrived : count;
    say("  receive %d: %u\n", fd, n);
    for (unsigned i = 0; i < n; i++) {
        struct msghdr *m = &messages[i].msg_hdr;
        struct sockaddr_in from = {.sin_family = AF_INET,
                                   .sin_port = htons(arrivals[i].port),
                                   .sin_addr.s_addr = htonl(arrivals[i].from)};
        assert_int_equal(m->msg_namelen, sizeof(union socket_address));
        assert_int_equal(m->msg_iovlen, 1);
        assert_int_equal(m->msg_iov->iov_len, ROCE_BYTES_MOST);
        memcpy(m->msg_name, &from, sizeof from);
        memcpy(m->msg_iov->iov_base, arrivals[i].bytes, arrivals[i].count);
        messages[i].msg_len = arrivals[i].count;
        m->msg_flags = (int)arrivals[i].flags;
    }
    arrived -= n;
    memmove(arrivals, arrivals + n, arrived * sizeof *arrivals);
    return (int)n;
}

/* --- Other modules --- */

static struct roce_capture *capture_of(void)
{
    return (struct roce_capture *)(void *)&config;
}

struct roce_capture *roce_capture_open(const char *name, unsigned number, bool ipv6)
{
    say("  capture %s %u%s\n", name ? name : "nothing", number, ipv6 ? " of IPv6" : "");
    return name ? capture_of() : NULL;
}

void roce_capture_close(struct roce_capture *c)
{
    say("  end of capture %d\n", c != NULL);
}

void roce_capture_add(struct roce_capture *c, const struct roce_route *route, const uint8_t *bytes,
                      uint32_t n)
{
    assert_ptr_equal(c, capture_of());
    say("  captured %08x:%u to %08x:%u %u %02x\n", route->from, route->from_port, route->to,
        route->to_port, n, bytes[0]);
}

static struct qp queues[4];
struct qp *qp_find(struct device *d, uint32_t qpn)
{
    assert_ptr_equal(d, &device);
    for (unsigned i = 0; i < 4; i++)
        if (queues[i].qpn == qpn)
            return &queues[i];
    return NULL;
}

static uint32_t dice[80];
static unsigned dice_thrown;
uint32_t random_next(struct device *d)
{
    assert_ptr_equal(d, &device);
    return dice_thrown < 80 ? dice[dice_thrown++] : 63;
}

/* --- Helpers --- */

static uint64_t ring_memory[8][(sizeof(struct ring_shared) + RING_DATA) / 8 + 8]
    __attribute__((aligned(64)));
static struct link_out out[2];
static struct link_in in[2];

static void ring_make(struct ring *r, unsigned which)
{
    memset(ring_memory[which], 0, sizeof ring_memory[which]);
    *r = (struct ring){.shared = (void *)ring_memory[which], .size = RING_DATA};
}

static void begin(unsigned addresses)
{
    memset(&device, 0, sizeof device);
    config = (struct config){
        .link = LINK_ROCE, .address = "the list", .address_count = addresses, .addresses = {OWN}};
    for (unsigned i = 1; i < addresses; i++)
        config.addresses[i] = OWN + i;
    device.config = &config;
    device.number = 4;
    device.lid = 0x123;
    device.now = 1000000000;
    next_socket = 1000;
    mtu_of_interface = 1500;
    interfaces = NULL;
    taken = 0;
    taken_error = EADDRINUSE;
    open_sockets = lists_freed = 0;
    fails = "";
    arrived = 0;
    most_at_a_time = 100;
    until_error = 1000;
    dice_thrown = 80;
    memset(queues, 0, sizeof queues);
    memset(out, 0, sizeof out);
    memset(in, 0, sizeof in);
}

static void end(void)
{
    for (unsigned i = 0; i < 2; i++)
        roce_detach(&out[i]);
    roce_close(&device);
    assert_null(device.roce);
    assert_int_equal(open_sockets, 0);
}

/* Two links over the wire, with two queues each. */
static void begin_links(void)
{
    begin(1);
    assert_int_equal(roce_open(&device), 0);
    for (unsigned i = 0; i < 2; i++) {
        ring_make(&out[i].requests, 4 * i);
        ring_make(&out[i].responses, 4 * i + 1);
        ring_make(&in[i].requests, 4 * i + 2);
        ring_make(&in[i].responses, 4 * i + 3);
        out[i].address = in[i].address = PEER + i;
        assert_true(roce_attach(&device, &out[i], &in[i]));
        device.links.out[device.links.out_count++] = &out[i];
    }
    for (unsigned i = 0; i < 4; i++)
        queues[i] = (struct qp){.device = &device,
                                .qpn = 0x5001 + i,
                                .requester.remote_qpn = 0x9001 + i,
                                .requester.link = &out[i / 2],
                                .requester.mtu = 1024,
                                .requester.psn = 0x77 + i};
}

/* Puts a packet of this side into the ring, as the requester and the responder do. */
static void leaves(struct ring *r, struct packet p)
{
    static uint8_t data[2048] = "data of a packet";
    struct packet *to = ring_reserve(r, p.bytes);
    assert_non_null(to);
    *to = p;
    memcpy(to + 1, data, p.bytes);
    ring_commit(r, to);
    ring_publish(r);
}

static struct packet write_of(unsigned queue, uint32_t bytes)
{
    return (struct packet){.kind = PACKET_WRITE,
                           .flags = PACKET_FIRST | PACKET_LAST,
                           .bytes = bytes,
                           .length = bytes,
                           .to_qpn = 0x9001 + queue,
                           .from_qpn = 0x5001 + queue,
                           .psn = 0x100 + bytes};
}

static void arrives(struct packet p, const void *payload, uint32_t from, uint32_t to)
{
    struct arrival *a = &arrivals[arrived++];
    struct roce_route route = {from, to, 0xc001, ROCE_PORT};
    a->count = (unsigned)roce_encode(&p, payload, &route, a->bytes);
    a->flags = 0;
    a->from = from;
    a->port = 0xc001;
}

static void say_ring(const char *name, struct ring *r)
{
    const struct packet *p;
    bool broken = false;
    while ((p = ring_peek(r, &broken))) {
        say("  %s %u flags %x to %x from %x psn %x length %u mtu %u: ", name, p->kind, p->flags,
            p->to_qpn, p->from_qpn, p->psn, p->length, p->mtu);
        say_bytes(p + 1, p->bytes);
        say("\n");
        ring_consume(r, p);
    }
    ring_release(r);
}

static void say_arrived(void)
{
    for (unsigned i = 0; i < 2; i++) {
        say_ring(i ? "second answer" : "first answer", &out[i].responses);
        say_ring(i ? "second request" : "first request", &in[i].requests);
    }
}

/* --- Tests --- */

static int opened(const char *what)
{
    take_stderr();
    errno = 0;
    int result = roce_open(&device);
    int e = errno;
    say_stderr();
    say("%s: %d, %08x mtu %u\n", what, result, roce_address(&device), roce_mtu(&device));
    errno = e;
    return result;
}

static void addresses(void)
{
    begin(0);
    assert_int_equal(roce_address(&device), 0);
    assert_int_equal(roce_mtu(&device), 0);
    assert_int_equal(opened("no address"), 0);
    assert_null(device.roce);
    assert_false(roce_send(&device));
    assert_false(roce_receive(&device));
    end();
    begin(3);
    config.capture = "name";
    assert_int_equal(opened("the first"), 0);
    end();
    begin(3);
    taken = 2;
    assert_int_equal(opened("the third"), 0);
    end();
    begin(3);
    taken = 3;
    assert_int_equal(opened("none"), -1);
    assert_int_equal(errno, EADDRINUSE);
    begin(3);
    taken = 2;
    taken_error = EADDRNOTAVAIL;
    assert_int_equal(opened("not of this host"), 0);
    end();
    begin(3);
    taken = 2;
    taken_error = EACCES;
    assert_int_equal(opened("not allowed"), -1);
    assert_int_equal(errno, EACCES);
    assert_int_equal(open_sockets, 0);
    begin(3);
    config.addresses[0] = CONFIG_LOOPBACK;
    taken = 2;
    assert_int_equal(opened("the loopback, whose first addresses are taken"), 0);
    end();
    begin(2);
    config.addresses[0] = CONFIG_LOOPBACK;
    taken = 16;
    assert_int_equal(opened("all that are tried"), 0);
    end();
    static const char *const calls[] = {"socket", "setsockopt", "force"};
    for (unsigned i = 0; i < 3; i++) {
        begin(1);
        fails = calls[i];
        fails_at = 1;
        fails_with = EPERM;
        assert_int_equal(opened(calls[i]), i == 2 ? 0 : -1);
        if (i < 2)
            assert_int_equal(errno, EPERM);
        assert_int_equal(open_sockets, i == 2);
        end();
    }
    begin(1);
    no_memory = true;
    assert_int_equal(opened("no memory"), -1);
    assert_int_equal(open_sockets, 0);
    assert_false(roce_attach(&device, &out[0], &in[0]));
    no_memory = false;
}

static void path_mtus(void)
{
    static const int mtus[] = {65536, 4180, 4179, 9000, 1500, 1108, 1107, 596, 595, 340, 68};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(OWN)},
                       net = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(OWN ^ 1)},
                       loop = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001)},
                       mask = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xffffff00)},
                       wide = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xff000000)};
    struct ifaddrs list[] = {
        {.ifa_name = (char *)"none"},
        {.ifa_name = (char *)"six", .ifa_addr = (void *)&six, .ifa_netmask = (void *)&mask},
        {.ifa_name = (char *)"bare", .ifa_addr = (void *)&own},
        {.ifa_name = (char *)"lo",
         .ifa_addr = (void *)&loop,
         .ifa_netmask = (void *)&wide,
         .ifa_flags = IFF_LOOPBACK},
        {.ifa_name = (char *)"net", .ifa_addr = (void *)&net, .ifa_netmask = (void *)&mask},
        {.ifa_name = (char *)"own", .ifa_addr = (void *)&own, .ifa_netmask = (void *)&mask},
        {.ifa_name = (char *)"later", .ifa_addr = (void *)&own, .ifa_netmask = (void *)&mask},
    };
    for (unsigned i = 0; i < 6; i++)
        list[i].ifa_next = &list[i + 1];
    for (unsigned i = 0; i < sizeof mtus / sizeof *mtus; i++) {
        begin(1);
        interfaces = list;
        mtu_of_interface = mtus[i];
        assert_int_equal(opened("by its interface"), 0);
        assert_int_equal(lists_freed, 1);
        end();
    }
    for (unsigned i = 0; i < 4; i++) {
        begin(1);
        interfaces = list;
        mtu_of_interface = 9000;
        fails = i == 0 ? "getifaddrs" : i == 1 ? "ioctl" : "";
        fails_at = 1;
        if (i == 2)
            config.addresses[0] = 0x7f884422;
        if (i == 3)
            config.addresses[0] = OWN ^ 5;
        opened("without its interface, by the loopback, without an interface");
        assert_int_equal(lists_freed, i > 0);
        end();
    }
}

static void windows(void)
{
    static const uint32_t mtus[] = {256, 512, 1023, 1024, 1025, 2048, 4096};
    begin_links();
    for (unsigned i = 0; i < sizeof mtus / sizeof *mtus; i++) {
        queues[0].requester.mtu = mtus[i];
        say("  mtu %u window %u\n", mtus[i], roce_window(&queues[0]));
    }
    struct link_out near = {0};
    queues[0].requester.link = &near;
    assert_int_equal(roce_window(&queues[0]), 0);
    queues[0].requester.link = NULL;
    assert_int_equal(roce_window(&queues[0]), 0);
    end();
}

static void packets_leave(void)
{
    begin_links();
    leaves(&out[0].requests, write_of(0, 5));
    leaves(&out[0].requests, write_of(1, 9));
    leaves(&in[0].responses, (struct packet){.kind = PACKET_ACK, .to_qpn = 0x9002, .psn = 3});
    leaves(&out[1].requests, write_of(2, 100));
    leaves(&out[1].requests, (struct packet){.kind = PACKET_PAD + 9, .to_qpn = 1});
    assert_true(roce_send(&device));
    say("nothing more\n");
    assert_false(roce_send(&device));
    assert_int_equal(out[0].requests.shared->head, out[0].requests.own);
    assert_int_equal(in[0].responses.shared->head, in[0].responses.own);
    say("ports of their own\n");
    queues[0].requester.source_port = 0xc123;
    queues[1].requester.source_port = ROCE_PORT;
    queues[2].requester.source_port = 0xc124;
    for (unsigned k = 0; k < 2; k++) {
        for (unsigned i = 0; i < 4; i++) {
            leaves(&out[i / 2].requests, write_of(i, 1 + i));
            leaves(&out[i / 2].requests, write_of(i, 11 + i));
        }
        roce_send(&device);
    }
    say("one that another has\n");
    taken = 1;
    queues[3].requester.source_port = 0xc125;
    leaves(&out[1].requests, write_of(3, 1));
    roce_send(&device);
    leaves(&out[1].requests, write_of(3, 2));
    roce_send(&device);
    say("more ports than are kept\n");
    for (unsigned i = 0; i < 64; i++) {
        queues[3].requester.source_port = (uint16_t)(0xd000 + i);
        leaves(&out[1].requests, write_of(3, 1));
        roce_send(&device);
    }
    end();
}

static void the_kernel_takes_less(void)
{
    begin_links();
    say("forty, of which it takes ten at a time\n");
    most_at_a_time = 10;
    for (unsigned i = 0; i < 40; i++)
        leaves(&out[0].requests, write_of(0, i + 1));
    assert_true(roce_send(&device));
    static const int errors[] = {EAGAIN, ENOBUFS, EINTR, EPERM};
    for (unsigned i = 0; i < 4; i++) {
        say("twelve, an error %u\n", i);
        until_error = 1;
        send_error = errors[i];
        for (unsigned k = 0; k < 12; k++)
            leaves(&out[0].requests, write_of(0, k + 1));
        assert_true(roce_send(&device));
        say("the rest\n");
        roce_send(&device);
    }
    say("none, and there is no room for the thirty-third\n");
    for (unsigned k = 0; k < 34; k++)
        leaves(&out[0].requests, write_of(0, k + 1));
    until_error = 0;
    send_error = EAGAIN;
    assert_true(roce_send(&device));
    say("those\n");
    assert_true(roce_send(&device));
    say("at last\n");
    assert_false(roce_send(&device));
    until_error = 0;
    for (unsigned k = 0; k < 32; k++)
        leaves(&out[0].requests, write_of(0, k + 1));
    roce_send(&device);
    until_error = 0;
    leaves(&out[0].requests, write_of(0, 77));
    say("full\n");
    assert_false(roce_send(&device));
    say("left\n");
    assert_true(roce_send(&device));
    end();
}

static void captured(void)
{
    begin(1);
    config.capture = "file";
    assert_int_equal(roce_open(&device), 0);
    ring_make(&out[0].requests, 0);
    ring_make(&out[0].responses, 1);
    ring_make(&in[0].requests, 2);
    ring_make(&in[0].responses, 3);
    out[0].address = PEER;
    assert_true(roce_attach(&device, &out[0], &in[0]));
    struct link_out near = {0};
    device.links.out[0] = &near;
    device.links.out[1] = &out[0];
    device.links.out_count = 2;
    queues[0] = (struct qp){.device = &device,
                            .qpn = 0x5001,
                            .requester.remote_qpn = 0x9001,
                            .requester.link = &out[0],
                            .requester.mtu = 256,
                            .requester.source_port = 0xc777};
    leaves(&out[0].requests, write_of(0, 5));
    leaves(&out[0].requests, write_of(1, 6));
    most_at_a_time = 1;
    until_error = 1;
    send_error = EAGAIN;
    assert_true(roce_send(&device));
    say("the other\n");
    assert_false(roce_send(&device));
    arrives((struct packet){.kind = PACKET_ACK, .to_qpn = 0x5001, .psn = 3}, NULL, PEER, OWN);
    arrivals[0].bytes[2] = 0; /* for no queue; captured all the same */
    assert_true(roce_receive(&device));
    end();
}

static void the_network_misbehaves(void)
{
    begin_links();
    config.mode = MODE_ADVERSARIAL;
    for (unsigned check = 0; check < 2; check++) {
        config.check_icrc = check;
        for (unsigned i = 0; i < 20; i++)
            dice[i] = (i % 7) | (i * 3001 + 777) << 8;
        dice_thrown = 0;
        for (unsigned i = 0; i < 20; i++)
            leaves(&out[0].requests, write_of(0, i + 1));
        say("lost, lost, twice, swapped, swapped, damaged, well\n");
        roce_send(&device);
        dice_thrown = 80;
    }
    for (unsigned i = 0; i < 80; i++)
        dice[i] = i < 31 ? 63 : 2; /* the last packet that fits is sent twice */
    dice_thrown = 0;
    for (unsigned i = 0; i < 33; i++)
        leaves(&out[0].requests, write_of(0, i + 1));
    say("twice, where there is no room\n");
    roce_send(&device);
    for (unsigned i = 0; i < 80; i++)
        dice[i] = 4;
    dice_thrown = 0;
    leaves(&out[0].requests, write_of(0, 99));
    say("swapped with nothing\n");
    roce_send(&device);
    config.mode = MODE_STRICT;
    dice[0] = 0;
    dice_thrown = 0;
    leaves(&out[0].requests, write_of(0, 98));
    say("a network that behaves\n");
    roce_send(&device);
    end();
}

static void packets_come(void)
{
    static uint8_t data[1024] = "what comes";
    begin_links();
    struct packet ack = {.kind = PACKET_ACK, .to_qpn = 0x5001, .psn = 3, .msn = 7};
    struct packet request = {.kind = PACKET_WRITE,
                             .flags = PACKET_FIRST | PACKET_LAST,
                             .bytes = 11,
                             .length = 11,
                             .to_qpn = 0x5003,
                             .psn = 0x123456};
    struct packet answer = {
        .kind = PACKET_READ_DATA, .flags = PACKET_FIRST, .bytes = 1024, .to_qpn = 0x5002, .psn = 4};
    uint64_t value = 0x1122334455667788;
    assert_false(roce_receive(&device));
    arrives(ack, NULL, PEER, OWN);
    arrives(request, data, PEER + 1, OWN);
    arrives(answer, data, PEER, OWN);
    arrives((struct packet){.kind = PACKET_ATOMIC_VALUE, .bytes = 8, .to_qpn = 0x5004}, &value,
            PEER + 1, OWN);
    assert_true(roce_receive(&device));
    say_arrived();
    say("those that are nobody's\n");
    arrives(ack, NULL, PEER + 1, OWN); /* from another address */
    ack.to_qpn = 0x5009;
    arrives(ack, NULL, PEER, OWN); /* to a queue that does not exist */
    ack.to_qpn = 0x5001;
    arrives(ack, NULL, PEER, OWN);
    arrivals[2].flags = MSG_TRUNC;
    arrives(ack, NULL, PEER, OWN);
    arrivals[3].bytes[1] |= 1; /* another version */
    arrives(ack, NULL, PEER, OWN);
    arrivals[4].bytes[0] = 0x60; /* not an opcode of a reliable connection */
    arrives(ack, NULL, PEER, OWN);
    assert_true(roce_receive(&device));
    say_arrived();
    struct link_out near = {.address = PEER};
    queues[0].requester.link = &near;
    arrives(ack, NULL, PEER, OWN);
    roce_receive(&device);
    queues[0].requester.link = NULL;
    arrives(ack, NULL, PEER, OWN);
    roce_receive(&device);
    queues[0].requester.link = &out[0];
    say_arrived();
    say("with a check that is wrong\n");
    for (unsigned check = 0; check < 2; check++) {
        config.check_icrc = check;
        arrives(ack, NULL, PEER, OWN);
        arrivals[0].bytes[arrivals[0].count - 1] ^= 1;
        arrives(ack, NULL, PEER, OWN);
        arrives(ack, NULL, PEER, OWN);
        arrivals[2].port++;
        roce_receive(&device);
        say_arrived();
        say("  damaged %llu\n", (unsigned long long)device.record.damaged);
    }
    config.check_icrc = 0;
    say("more than one look takes\n");
    for (unsigned i = 0; i < 35; i++) {
        ack.psn = i;
        arrives(ack, NULL, PEER, OWN);
    }
    assert_true(roce_receive(&device));
    assert_true(roce_receive(&device));
    say_arrived();
    say("more than the ring has room for\n");
    for (unsigned i = 0; i < 32; i++)
        arrives(answer, data, PEER, OWN);
    assert_true(roce_receive(&device));
    say_arrived();
    end();
}

/* A DC target has no peer: any PE with a link here may send to it. */
static void targets_of_dc(void)
{
    static uint8_t data[64] = "the key of a target";
    struct packet request = {.kind = PACKET_WRITE,
                             .flags = PACKET_FIRST | PACKET_LAST | PACKET_DC,
                             .bytes = 8 + 11,
                             .length = 11,
                             .mtu = 512,
                             .to_qpn = 0x5001,
                             .from_qpn = 0x4321,
                             .msn = 0x77,
                             .connection = 5,
                             .psn = 0x79};
    begin_links();
    queues[0].type = QP_DCT;
    queues[0].requester.link = NULL;
    requested_link = 0;
    arrives(request, data, PEER + 1, OWN);
    request.from_qpn++;
    arrives(request, data, PEER, OWN);
    assert_true(roce_receive(&device));
    assert_int_equal(requested_link, 0);
    say("to a DC target, from two\n");
    say_arrived();
    arrives(request, data, PEER + 2, OWN);
    assert_true(roce_receive(&device));
    assert_int_equal(requested_link, PEER + 2);
    struct roce_peer *peer = out[0].roce;
    out[0].roce = NULL; /* a link within the host */
    arrives(request, data, PEER, OWN);
    assert_true(roce_receive(&device));
    say("from one without a link\n");
    say_arrived();
    out[0].roce = peer;
    end();
}

static void who_is_there(void)
{
    begin_links();
    struct link_out near = {0};
    queues[3].requester.link = &near;
    assert_int_equal(roce_query_peer(&queues[3]), ROCE_PEER_SOFT);
    queues[3].requester.link = NULL;
    assert_int_equal(roce_query_peer(&queues[3]), ROCE_PEER_SOFT);
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 51; i++) {
            enum roce_peer_kind now = roce_query_peer(&queues[0]);
            assert_int_equal(now, i == 50 ? ROCE_PEER_OTHER : ROCE_PEER_UNKNOWN);
            device.now += 19999999;
            if (i < 50)
                assert_int_equal(roce_query_peer(&queues[0]), ROCE_PEER_UNKNOWN);
            device.now += 1;
            if (i == 0 || i == 49)
                roce_send(&device);
        }
    }
    roce_send(&device);
    say("asked by the other\n");
    arrives((struct packet){.kind = PACKET_PROBE, .to_qpn = 0x5002}, NULL, PEER, OWN);
    roce_receive(&device);
    roce_send(&device);
    say("answered\n");
    arrives((struct packet){.kind = PACKET_PROBE_REPLY, .to_qpn = 0x5002}, NULL, PEER, OWN);
    roce_receive(&device);
    assert_int_equal(roce_query_peer(&queues[0]), ROCE_PEER_SOFT);
    assert_int_equal(roce_query_peer(&queues[2]), ROCE_PEER_UNKNOWN);
    say_arrived();
    end();
}

#define TEST(name)                                                                                 \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        say("# " #name "\n");                                                                      \
        name();                                                                                    \
    }
TEST(addresses)
TEST(path_mtus)
TEST(windows)
TEST(packets_leave)
TEST(the_kernel_takes_less)
TEST(captured)
TEST(the_network_misbehaves)
TEST(packets_come)
TEST(targets_of_dc)
TEST(who_is_there)

static void all_is_as_written(void **state)
{
    (void)state;
    golden_is(GOLDEN, text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_path_mtus),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_packets_leave),
        cmocka_unit_test(test_the_kernel_takes_less),
        cmocka_unit_test(test_captured),
        cmocka_unit_test(test_the_network_misbehaves),
        cmocka_unit_test(test_packets_come),
        cmocka_unit_test(test_targets_of_dc),
        cmocka_unit_test(test_who_is_there),
        cmocka_unit_test(all_is_as_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
