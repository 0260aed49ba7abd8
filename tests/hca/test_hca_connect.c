/* SPDX-License-Identifier: Apache-2.0 */
/* The connection manager of the software HCA, in one thread: each message in each state, the data
 * on the socket, the events of the program, addresses and devices. The peer is a plain socket of
 * the test. The log is compared with golden/hca_connect.txt. */
#include "whole.h"

#include "cm/cm.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

/* --- Mocks --- */

ssize_t __wrap_getrandom(void *to, size_t bytes, unsigned flags);
ssize_t __wrap_getrandom(void *to, size_t bytes, unsigned flags)
{
    memset(to, 0x5c, bytes);
    return due("getrandom") ? -1 : (ssize_t)bytes;
}

/* IPv4 addresses of the devices. */
static uint32_t addresses[2];
uint32_t __wrap_roce_address(const struct device *d);
uint32_t __wrap_roce_address(const struct device *d)
{
    return addresses[d->number];
}

static jmp_buf out_of_pause;
int __wrap_pause(void);
int __wrap_pause(void)
{
    longjmp(out_of_pause, 1);
}

static struct rdma_cm_event *unacknowledged;
static unsigned waits;
int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
    assert_ptr_equal(c, &cm_acknowledged);
    assert_ptr_equal(m, &cm_lock);
    waits++;
    pthread_mutex_unlock(m);
    rdma_ack_cm_event(unacknowledged);
    pthread_mutex_lock(m);
    return 0;
}

#define WRAP(result, name, parameters, arguments)                                                  \
    result __real_##name parameters;                                                               \
    result __wrap_##name parameters;                                                               \
    result __wrap_##name parameters                                                                \
    {                                                                                              \
        return due(#name) ? (result)-1 : __real_##name arguments;                                  \
    }
WRAP(int, eventfd, (unsigned n, int flags), (n, flags))
WRAP(int, epoll_create1, (int flags), (flags))
WRAP(int, epoll_ctl, (int fd, int op, int other, struct epoll_event *e), (fd, op, other, e))
WRAP(int, socket, (int family, int type, int protocol), (family, type, protocol))
WRAP(int, connect, (int fd, const struct sockaddr *to, socklen_t n), (fd, to, n))
WRAP(int, getsockname, (int fd, struct sockaddr *of, socklen_t *n), (fd, of, n))
WRAP(int, accept4, (int fd, struct sockaddr *of, socklen_t *n, int flags), (fd, of, n, flags))
WRAP(ssize_t, recv, (int fd, void *to, size_t n, int flags), (fd, to, n, flags))

static bool cut_send; /* only half of a message is sent */
ssize_t __real_send(int fd, const void *from, size_t n, int flags);
ssize_t __wrap_send(int fd, const void *from, size_t n, int flags);
ssize_t __wrap_send(int fd, const void *from, size_t n, int flags)
{
    assert_int_equal(flags, MSG_NOSIGNAL | MSG_DONTWAIT);
    return due("send") ? -1 : cut_send ? (ssize_t)n / 2 : __real_send(fd, from, n, flags);
}

/* --- Helpers --- */

static struct rdma_event_channel *channel;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static long blocks_before;
static unsigned files_before;

static int setup(void **state)
{
    (void)state;
    files_before = open_files();
    channel = rdma_create_event_channel();
    assert_non_null(channel);
    assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
    addresses[0] = addresses[1] = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rdma_destroy_event_channel(channel);
    assert_int_equal(open_files(), files_before);
    if (blocks != blocks_before)
        fail_msg("%ld blocks more", blocks - blocks_before);
    return 0;
}

static struct cm_id *id_make(void)
{
    struct rdma_cm_id *id;
    assert_int_equal(rdma_create_id(channel, &id, (void *)77, RDMA_PS_TCP), 0);
    return cm_of(id);
}

/* A message of the peer, with different values in all fields. */
static struct cm_message message_of(enum cm_kind kind)
{
    struct cm_message m = {.magic = htobe32(CM_MAGIC),
                           .kind = htobe32(kind),
                           .qpn = htobe32(WHOLE_LID << 12 | 0x321),
                           .psn = htobe32(0x135790),
                           .lid = htobe16(WHOLE_LID),
                           .mtu = htobe16(IBV_MTU_512),
                           .gid = {0xfe, 0x80, 1, 2, 3},
                           .responder_resources = 9,
                           .initiator_depth = 5,
                           .retry_count = 6,
                           .rnr_retry_count = 3,
                           .flow_control = 1,
                           .srq = 2,
                           .private_bytes = 4,
                           .private_data = "wxyz"};
    return m;
}

static void say_events(void)
{
    struct rdma_cm_event *e;
    while (!rdma_get_cm_event(channel, &e)) {
        const struct rdma_conn_param *p = &e->param.conn;
        say("  event %s status %d listener %d data %u \"%.*s\" reads %u %u flow %u "
            "tries %u %u srq %u qp %x\n",
            rdma_event_str(e->event), e->status, e->listen_id != NULL, p->private_data_len,
            p->private_data_len, p->private_data ? (const char *)p->private_data : "",
            p->responder_resources, p->initiator_depth, p->flow_control, p->retry_count,
            p->rnr_retry_count, p->srq, short_qpn(p->qp_num));
        assert_int_equal(rdma_ack_cm_event(e), 0);
    }
    assert_int_equal(errno, EAGAIN);
}

static void say_sent(int fd)
{
    struct cm_message m;
    ssize_t n = __real_recv(fd, &m, sizeof m, MSG_DONTWAIT);
    if (n == sizeof m)
        say("  sent %x kind %u qp %x psn %x lid %u mtu %u gid %02x..%02x reads %u %u tries %u %u "
            "flow %u srq %u data %u \"%.8s\"\n",
            be32toh(m.magic), be32toh(m.kind), short_qpn(be32toh(m.qpn)), be32toh(m.psn),
            be16toh(m.lid), be16toh(m.mtu), m.gid[0], m.gid[15], m.responder_resources,
            m.initiator_depth, m.retry_count, m.rnr_retry_count, m.flow_control, m.srq,
            m.private_bytes, (const char *)m.private_data);
    else if (n == 0)
        say("  over\n");
    else if (n > 0)
        say("  sent %zd\n", n);
}

/* An identifier in this state, connected to one end of a socket pair. */
static struct cm_id *id_at(enum cm_state state, int *peer)
{
    int fds[2];
    struct cm_id *c = id_make();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    c->fd = fds[0];
    *peer = fds[1];
    c->id.verbs = context;
    c->state = state;
    c->own = (struct rdma_conn_param){.responder_resources = 7,
                                      .initiator_depth = 4,
                                      .retry_count = 2,
                                      .rnr_retry_count = 1,
                                      .flow_control = 3,
                                      .srq = 4,
                                      .qp_num = 0x4567,
                                      .private_data_len = 3};
    memcpy(c->own_private, "abc", 3);
    memset(c->id.route.addr.addr.ibaddr.sgid.raw, 0x11, 16);
    c->id.route.addr.addr.ibaddr.sgid.raw[15] = 0x22;
    c->psn = 0x246;
    pthread_mutex_lock(&cm_lock);
    cm_watch(c, EPOLLIN);
    pthread_mutex_unlock(&cm_lock);
    return c;
}

static unsigned watched(const struct cm_id *c)
{
    /* A watched descriptor can be removed exactly once. */
    return __real_epoll_ctl(channel->fd, EPOLL_CTL_DEL, c->fd, NULL) ? 0 : 1;
}

static void come(struct cm_id *c)
{
    pthread_mutex_lock(&cm_lock);
    cm_handle_socket(c);
    pthread_mutex_unlock(&cm_lock);
}

static struct ibv_qp *queue(void)
{
    struct ibv_qp_init_attr a = {.send_cq = cq,
                                 .recv_cq = cq,
                                 .qp_type = IBV_QPT_RC,
                                 .cap = {.max_send_wr = 1, .max_send_sge = 1}};
    struct ibv_qp *qp = ibv_create_qp(pd, &a);
    assert_non_null(qp);
    return qp;
}

/* --- Messages --- */

static void messages_in_states(void)
{
    for (unsigned state = CM_REQ_SENT; state <= CM_DISCONNECTED; state++)
        for (unsigned kind = 0; kind <= CM_DREP + 4; kind++) {
            int peer;
            struct cm_id *c = id_at((enum cm_state)state, &peer), *listener = NULL;
            struct cm_message m = message_of((enum cm_kind)kind);
            size_t bytes = sizeof m;
            if (state == CM_REQ_EXPECTED && kind % 2)
                c->listener = listener = id_make();
            if (kind > CM_DREP)
                m = message_of(CM_DREQ);
            if (kind == CM_DREP + 1)
                m.magic++;
            if (kind == CM_DREP + 2)
                m.private_bytes = CM_PRIVATE_BYTES + 1;
            if (kind == CM_DREP + 3)
                m.private_bytes = CM_PRIVATE_BYTES;
            if (kind == CM_DREP + 4)
                bytes = 0;
            assert_int_equal(__real_send(peer, &m, bytes, 0), bytes);
            if (!bytes)
                shutdown(peer, SHUT_WR);
            uint64_t number = c->number;
            come(c);
            if (!cm_id_find(number)) {
                say("state %u message %u: gone\n", state, kind);
            } else {
                say("state %u message %u: state %u watched %u peer %x\n", state, kind, c->state,
                    watched(c), short_qpn(be32toh(c->peer.qpn)));
                assert_int_equal(c->got, 0);
                say_events();
                assert_null(c->listener);
                assert_int_equal(rdma_destroy_id(&c->id), 0);
            }
            say_sent(peer);
            close(peer);
            if (listener)
                assert_int_equal(rdma_destroy_id(&listener->id), 0);
        }
}

static void messages_in_pieces(void)
{
    int peer;
    struct cm_id *c = id_at(CM_REQ_SENT, &peer);
    struct cm_message m = message_of(CM_REJ);
    come(c); /* no data */
    assert_int_equal(c->state, CM_REQ_SENT);
    for (size_t at = 0; at < sizeof m; at += 60) {
        size_t n = sizeof m - at < 60 ? sizeof m - at : 60;
        assert_int_equal(c->got, at);
        assert_int_equal(__real_send(peer, (char *)&m + at, n, 0), n);
        come(c);
        assert_int_equal(c->state, at + n < sizeof m ? CM_REQ_SENT : CM_DISCONNECTED);
    }
    say_events();
    c->state = CM_CONNECTED;
    fail_next("recv", 1, EINTR);
    come(c);
    assert_int_equal(c->state, CM_CONNECTED);
    fail_next("recv", 1, ECONNRESET);
    come(c);
    assert_int_equal(c->state, CM_DISCONNECTED);
    say_events();
    assert_int_equal(rdma_destroy_id(&c->id), 0);
    say_sent(peer);
    close(peer);
}

/* A reply for an identifier with a queue pair: the queue pair is moved, and the peer gets a
 * message. */
static void say_queue(const struct ibv_qp *qp)
{
    const struct qp *q = qp_of((struct ibv_qp *)(uintptr_t)qp)->of;
    say("  qp state %u to %x at %u mtu %u expected %x psn %x access %x timer %u reads %u "
        "timeout %u tries %u %u\n",
        q->state, short_qpn(q->requester.remote_qpn), q->requester.remote, q->requester.mtu,
        q->responder.expected_psn, q->requester.psn, q->access, q->rnr_timer,
        q->requester.max_reads, q->requester.timeout, q->requester.retry_count,
        q->requester.rnr_retry);
}

static void replies(void)
{
    for (unsigned i = 0; i < 6; i++) {
        int peer;
        struct cm_id *c = id_at(CM_REQ_SENT, &peer);
        struct cm_message m = message_of(CM_REP);
        c->id.qp = queue();
        struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT};
        int mask;
        if (i != 1) {
            assert_int_equal(rdma_init_qp_attr(&c->id, &a, &mask), 0);
            assert_int_equal(ibv_modify_qp(c->id.qp, &a, mask), 0);
        }
        if (i == 2)
            fail_next("send", 1, EPIPE);
        if (i == 3)
            c->own.retry_count = 0, m.retry_count = 9;
        if (i == 4)
            m.mtu = htobe16(IBV_MTU_4096), m.responder_resources = 3, m.initiator_depth = 2;
        if (i == 5)
            m.mtu = htobe16(9), c->own.responder_resources = c->own.initiator_depth = 200,
            m.responder_resources = m.initiator_depth = 100;
        assert_int_equal(__real_send(peer, &m, sizeof m, 0), sizeof m);
        come(c);
        say("reply %u: state %u\n", i, c->state);
        say_events();
        say_sent(peer);
        say_queue(c->id.qp);
        rdma_destroy_qp(&c->id);
        assert_null(c->id.qp);
        assert_int_equal(rdma_destroy_id(&c->id), 0);
        close(peer);
    }
}

static void attributes(void)
{
    int peer;
    struct cm_id *c = id_at(CM_REQ_REPORTED, &peer);
    c->peer = message_of(CM_REQ);
    for (unsigned state = IBV_QPS_RESET; state <= IBV_QPS_ERR; state++) {
        struct ibv_qp_attr a = {.qp_state = (enum ibv_qp_state)state};
        int mask = -1;
        addresses[0] = state == IBV_QPS_RTR ? 5 : 0;
        assert_int_equal(rdma_init_qp_attr(&c->id, &a, &mask), 0);
        addresses[0] = 0;
        say("attributes %u: mask %x state %u port %u access %x mtu %u to %x psn %x reads %u "
            "timer %u\n",
            state, mask, a.qp_state, a.port_num, a.qp_access_flags, a.path_mtu,
            short_qpn(a.dest_qp_num), a.rq_psn, a.max_dest_rd_atomic, a.min_rnr_timer);
        say("  address %u %u %u %u %u %02x%02x psn %x timeout %u tries %u %u reads %u\n",
            a.ah_attr.is_global, a.ah_attr.port_num, a.ah_attr.dlid, a.ah_attr.grh.hop_limit,
            a.ah_attr.grh.sgid_index, a.ah_attr.grh.dgid.raw[0], a.ah_attr.grh.dgid.raw[4],
            a.sq_psn, a.timeout, a.retry_cnt, a.rnr_retry, a.max_rd_atomic);
    }
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT};
    int mask;
    c->id.verbs = NULL;
    errno = 0;
    assert_int_equal(rdma_init_qp_attr(&c->id, &a, &mask), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_destroy_id(&c->id), 0);
    close(peer);
}

/* --- Calls in states --- */

static void calls_in_states(void)
{
    for (unsigned call = 0; call < 6; call++)
        for (unsigned state = CM_IDLE; state <= CM_DISCONNECTED; state++)
            for (unsigned cut = 0; cut < 2; cut++) {
                static const char data[200] = "qrst";
                struct rdma_conn_param p = {.private_data = data,
                                            .private_data_len = 4,
                                            .responder_resources = 20,
                                            .initiator_depth = 3,
                                            .flow_control = 1,
                                            .retry_count = 5,
                                            .rnr_retry_count = 6,
                                            .srq = 1,
                                            .qp_num = 0x777};
                int peer, result;
                struct cm_id *c = id_at((enum cm_state)state, &peer);
                cut_send = cut;
                errno = 0;
                switch (call) {
                case 0:
                    result = rdma_accept(&c->id, &p);
                    break;
                case 1:
                    result = rdma_reject(&c->id, data, 4);
                    break;
                case 2:
                    result = rdma_establish(&c->id);
                    break;
                case 3:
                    result = rdma_disconnect(&c->id);
                    break;
                case 4:
                    result = rdma_listen(&c->id, 3);
                    break;
                default:
                    result = rdma_connect(&c->id, cut ? NULL : &p);
                }
                int e = result ? errno : 0;
                cut_send = false;
                say("call %u state %u%s: %d %d, state %u watched %u\n", call, state,
                    cut ? " cut" : "", result, e, c->state, watched(c));
                say_events();
                if (call == 5 && c->state != state)
                    say("  own %u %u %u %u %u %u %x psn %x\n", c->own.responder_resources,
                        c->own.initiator_depth, c->own.retry_count, c->own.rnr_retry_count,
                        c->own.flow_control, c->own.srq, c->own.qp_num, c->psn);
                say_sent(peer);
                assert_int_equal(rdma_destroy_id(&c->id), 0);
                close(peer);
            }
}

static void parameters(void)
{
    int peer;
    char data[200] = "0123456789";
    struct cm_id *c = id_at(CM_REQ_REPORTED, &peer);
    struct rdma_conn_param p = {.private_data = data, .private_data_len = CM_PRIVATE_BYTES + 1};
    errno = 0;
    assert_int_equal(rdma_accept(&c->id, &p), -1);
    assert_int_equal(errno, EINVAL);
    p.private_data_len = CM_PRIVATE_BYTES;
    c->id.verbs = NULL;
    errno = 0;
    assert_int_equal(rdma_accept(&c->id, &p), -1);
    assert_int_equal(errno, EINVAL);
    c->id.verbs = context;
    fail_next("getrandom", 1, 0);
    assert_int_equal(rdma_accept(&c->id, &p), 0);
    assert_int_equal(c->psn, (uintptr_t)c & 0xffffff);
    struct cm_message m;
    assert_int_equal(__real_recv(peer, &m, sizeof m, 0), sizeof m);
    assert_int_equal(be32toh(m.psn), c->psn);
    assert_memory_equal(c->own_private, data, CM_PRIVATE_BYTES);
    assert_null(c->own.private_data);
    c->state = CM_REQ_REPORTED;
    p.private_data = NULL;
    p.private_data_len = 5;
    assert_int_equal(rdma_accept(&c->id, &p), 0);
    assert_int_equal(c->own_private[0], 0);
    assert_int_equal(c->psn, 0x5c5c5c);
    c->state = CM_REQ_REPORTED;
    assert_int_equal(rdma_accept(&c->id, NULL), 0);
    say("most: %u %u %u %u\n", c->own.responder_resources, c->own.initiator_depth,
        c->own.retry_count, c->own.rnr_retry_count);
    /* With a queue pair, whose transition fails. */
    c->state = CM_REQ_REPORTED;
    c->id.qp = queue();
    c->peer = message_of(CM_REQ);
    errno = 0;
    assert_int_equal(rdma_accept(&c->id, NULL), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(c->state, CM_REQ_REPORTED);
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT};
    int mask;
    assert_int_equal(rdma_init_qp_attr(&c->id, &a, &mask), 0);
    assert_int_equal(ibv_modify_qp(c->id.qp, &a, mask), 0);
    assert_int_equal(rdma_accept(&c->id, NULL), 0);
    say_queue(c->id.qp);
    c->state = CM_CONNECTED;
    assert_int_equal(rdma_disconnect(&c->id), 0);
    say_queue(c->id.qp);
    assert_int_equal(c->state, CM_DREQ_SENT);
    assert_int_equal(rdma_notify(&c->id, IBV_EVENT_COMM_EST), 0);
    for (unsigned i = 0; i < 6; i++)
        say_sent(peer);
    rdma_destroy_ep(&c->id);
    close(peer);
}

/* --- Over TCP --- */

static struct sockaddr_in place_of(uint32_t address, uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(address)};
}

/* The channel has an event within 10 s; log it. */
static void await(void)
{
    struct pollfd p = {.fd = channel->fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 10000), 1);
}

static void passive(void)
{
    struct sockaddr_in any = place_of(INADDR_LOOPBACK, 0);
    struct cm_id *listener = id_make();
    assert_int_equal(rdma_bind_addr(&listener->id, (struct sockaddr *)&any), 0);
    assert_int_equal(rdma_listen(&listener->id, 0), 0);
    assert_int_equal(listener->state, CM_LISTENING);
    any.sin_port = rdma_get_src_port(&listener->id);
    assert_int_not_equal(any.sin_port, 0);
    assert_int_equal(rdma_listen(&listener->id, 0), -1);
    for (unsigned i = 0; i < 6; i++) {
        int s = __real_socket(AF_INET, SOCK_STREAM, 0);
        struct cm_message m = message_of(CM_REQ);
        struct sockaddr_in mine;
        socklen_t bytes = sizeof mine;
        assert_int_equal(__real_connect(s, (struct sockaddr *)&any, sizeof any), 0);
        assert_int_equal(__real_getsockname(s, (struct sockaddr *)&mine, &bytes), 0);
        await();
        static const char *const calls[] = {"", "accept4", "calloc", "getsockname", "", ""};
        fail_next(calls[i], 1, EMFILE);
        if (i == 4)
            addresses[0] = addresses[1] = 5;
        say("visitor %u\n", i);
        say_events();
        fails = "";
        addresses[0] = addresses[1] = 0;
        if (i == 1)
            say_events(); /* then the connection is accepted */
        if (i == 0 || i == 5) {
            assert_int_equal(__real_send(s, &m, sizeof m, 0), sizeof m);
            await();
            struct rdma_cm_event *e;
            if (i == 5) { /* the listener is destroyed before the program reads the event */
                pthread_mutex_lock(&cm_lock);
                struct cm_id *c = NULL;
                for (uint64_t n = listener->number + 1; !c || c->listener != listener; n++)
                    c = cm_id_find(n);
                cm_handle_socket(c);
                pthread_mutex_unlock(&cm_lock);
                close(s);
                break;
            }
            assert_int_equal(rdma_get_cm_event(channel, &e), 0);
            struct cm_id *c = cm_of(e->id);
            assert_ptr_equal(e->listen_id, &listener->id);
            assert_int_equal(e->event, RDMA_CM_EVENT_CONNECT_REQUEST);
            assert_ptr_equal(c->id.context, listener->id.context);
            assert_int_equal(c->id.ps, RDMA_PS_TCP);
            assert_int_equal(c->state, CM_REQ_REPORTED);
            assert_ptr_equal(c->id.verbs, context);
            assert_int_equal(c->id.port_num, 1);
            assert_int_equal(rdma_get_dst_port(&c->id), mine.sin_port);
            assert_int_equal(rdma_get_src_port(&c->id), any.sin_port);
            assert_int_equal(c->id.route.addr.addr.ibaddr.pkey, 0xffff);
            assert_int_equal(rdma_ack_cm_event(e), 0);
            assert_int_equal(rdma_accept(&c->id, NULL), 0);
            assert_int_equal(__real_recv(s, &m, sizeof m, MSG_WAITALL), sizeof m);
            say("  reply kind %u\n", be32toh(m.kind));
            m = message_of(CM_RTU);
            assert_int_equal(__real_send(s, &m, sizeof m, 0), sizeof m);
            await();
            say_events();
            close(s);
            await();
            say_events();
            assert_int_equal(c->state, CM_DISCONNECTED);
            assert_int_equal(rdma_disconnect(&c->id), 0);
            assert_int_equal(rdma_destroy_id(&c->id), 0);
            continue;
        }
        close(s);
    }
    /* The listener also destroys connections that are still arriving. */
    assert_int_equal(rdma_destroy_id(&listener->id), 0);
    say_events();
}

static void active(void)
{
    struct sockaddr_in to = place_of(INADDR_LOOPBACK, 0), own = place_of(INADDR_LOOPBACK, 0);
    socklen_t bytes = sizeof to;
    int door = __real_socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(__real_bind(door, (struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(__real_getsockname(door, (struct sockaddr *)&to, &bytes), 0);
    assert_int_equal(__real_listen(door, 8), 0);
    for (unsigned i = 0; i < 7; i++) {
        struct cm_id *c = id_make();
        errno = 0;
        assert_int_equal(rdma_resolve_route(&c->id, 1), -1);
        assert_int_equal(errno, EINVAL);
        assert_int_equal(rdma_resolve_addr(&c->id, i ? NULL : (struct sockaddr *)&own,
                                           (struct sockaddr *)&to, 1),
                         0);
        say_events();
        assert_int_equal(rdma_get_dst_port(&c->id), to.sin_port);
        assert_int_equal(ntohl(c->id.route.addr.src_sin.sin_addr.s_addr), INADDR_LOOPBACK);
        assert_int_equal(rdma_resolve_route(&c->id, 1), 0);
        say_events();
        static const char *const calls[] = {"", "connect", "connect", "send", "", "", ""};
        static const int errors[] = {0, ECONNREFUSED, ENETUNREACH, EPIPE, 0, 0, 0};
        fail_next(calls[i], 1, errors[i]);
        if (i == 6)
            close(door);
        assert_int_equal(rdma_connect(&c->id, NULL), 0);
        if (i == 1 || i == 2) {
            assert_int_equal(c->state, CM_DISCONNECTED);
            fails = "";
            say("connect %u\n", i);
            say_events();
            assert_int_equal(rdma_destroy_id(&c->id), 0);
            continue;
        }
        if (c->state == CM_CONNECTING)
            await();
        say("connect %u\n", i);
        say_events();
        fails = "";
        if (i != 6) {
            int s = accept(door, NULL, NULL);
            struct cm_message m;
            if (i != 3) {
                assert_int_equal(__real_recv(s, &m, sizeof m, MSG_WAITALL), sizeof m);
                say("  request kind %u reads %u %u tries %u %u\n", be32toh(m.kind),
                    m.responder_resources, m.initiator_depth, m.retry_count, m.rnr_retry_count);
                m = message_of(i == 4 ? CM_REJ : CM_REP);
                assert_int_equal(__real_send(s, &m, sizeof m, 0), sizeof m);
                await();
                say_events();
            }
            if (i == 0) {
                assert_int_equal(c->state, CM_REP_RECEIVED);
                assert_int_equal(rdma_establish(&c->id), 0);
                assert_int_equal(__real_recv(s, &m, sizeof m, MSG_WAITALL), sizeof m);
                say("  ready kind %u\n", be32toh(m.kind));
            }
            close(s);
        }
        say("  state %u\n", c->state);
        assert_int_equal(rdma_destroy_id(&c->id), 0);
    }
}

/* --- Identifiers and channels --- */

static void identifiers(void)
{
    struct rdma_cm_id *id = NULL;
    long files = 0;
    errno = 0;
    assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_UDP), -1);
    assert_int_equal(errno, EPROTONOSUPPORT);
    assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_IPOIB), -1);
    assert_int_equal(rdma_create_id(channel, &id, (void *)5, RDMA_PS_IB), 0);
    assert_ptr_equal(id->channel, channel);
    assert_ptr_equal(id->context, (void *)5);
    assert_int_equal(id->ps, RDMA_PS_IB);
    assert_int_equal(id->qp_type, IBV_QPT_RC);
    assert_int_equal(cm_of(id)->fd, -1);
    assert_false(cm_of(id)->own_channel);
    struct cm_id *second = id_make();
    assert_int_equal(second->number, cm_of(id)->number + 1);
    assert_ptr_equal(cm_id_find(second->number), second);
    assert_ptr_equal(cm_id_find(cm_of(id)->number), cm_of(id));
    assert_null(cm_id_find(second->number + 1));
    assert_int_equal(rdma_destroy_id(id), 0);
    assert_null(cm_id_find(second->number - 1));
    fail_next("calloc", 1, 0);
    assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), -1);
    static const char *const calls[] = {"calloc", "calloc", "eventfd", "epoll_create1",
                                        "epoll_ctl"};
    files = dup(0);
    close((int)files);
    for (unsigned i = 0; i < 5; i++) {
        fail_next(calls[i], i == 1 ? 2 : 1, ENFILE);
        errno = 0;
        assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), -1);
        assert_int_equal(errno, ENFILE);
    }
    fails = "";
    assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
    assert_ptr_not_equal(id->channel, channel);
    assert_true(cm_of(id)->own_channel);
    /* To the test's channel, and back to its own. */
    struct rdma_event_channel *own = id->channel;
    assert_int_equal(rdma_migrate_id(id, channel), 0);
    assert_ptr_equal(id->channel, channel);
    assert_false(cm_of(id)->own_channel);
    assert_int_equal(rdma_migrate_id(id, NULL), 0);
    assert_ptr_not_equal(id->channel, channel);
    assert_true(cm_of(id)->own_channel);
    (void)own;
    fail_next("eventfd", 1, ENFILE);
    assert_int_equal(rdma_migrate_id(id, NULL), -1);
    assert_int_equal(rdma_destroy_id(id), 0);
    int now = dup(0);
    close(now);
    assert_int_equal(now, files);
    /* Options. */
    assert_int_equal(rdma_set_option(&second->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, NULL, 0), 0);
    assert_int_equal(
        rdma_set_option(&second->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, NULL, 0), 0);
    errno = 0;
    assert_int_equal(
        rdma_set_option(&second->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT + 1, NULL, 0), -1);
    assert_int_equal(errno, ENOSYS);
    assert_int_equal(rdma_set_option(&second->id, RDMA_OPTION_IB, RDMA_OPTION_ID_TOS, NULL, 0), -1);
    assert_int_equal(rdma_destroy_id(&second->id), 0);
    say("names:");
    for (int e = -1; e <= RDMA_CM_EVENT_TIMEWAIT_EXIT + 1; e++)
        say(" %s", rdma_event_str((enum rdma_cm_event_type)e));
    say("\n");
}

static void tell(struct cm_id *c, int status)
{
    pthread_mutex_lock(&cm_lock);
    cm_post_event(c, RDMA_CM_EVENT_ADDR_RESOLVED, status, NULL);
    pthread_mutex_unlock(&cm_lock);
}

static unsigned bell_of(struct rdma_event_channel *of)
{
    struct pollfd p = {.fd = of->fd, .events = POLLIN};
    return (unsigned)poll(&p, 1, 0);
}

static void events_are_in_order(void)
{
    struct cm_id *a = id_make(), *b = id_make();
    struct rdma_event_channel *other = rdma_create_event_channel();
    assert_int_equal(fcntl(other->fd, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(bell_of(channel), 0);
    for (int i = 1; i <= 6; i++)
        tell(i % 2 ? a : b, i);
    assert_int_equal(a->unacknowledged, 3);
    assert_int_equal(bell_of(channel), 1);
    struct rdma_cm_event *e;
    assert_int_equal(rdma_get_cm_event(channel, &e), 0);
    assert_int_equal(e->status, 1);
    assert_ptr_equal(e->id, &a->id);
    /* Unread events move along. */
    assert_int_equal(rdma_migrate_id(&a->id, other), 0);
    assert_int_equal(bell_of(other), 1);
    say("of b\n");
    say_events();
    assert_int_equal(bell_of(channel), 0);
    tell(a, 7);
    struct rdma_event_channel *first = channel;
    channel = other;
    say("of a\n");
    say_events();
    channel = first;
    assert_int_equal(a->unacknowledged, 1);
    assert_int_equal(b->unacknowledged, 0);
    /* After all events have moved away, the list keeps no pointer to its old end. */
    tell(b, 8);
    tell(b, 9);
    pthread_mutex_lock(&cm_lock);
    assert_int_equal(cm_move_events(b, NULL), 2);
    pthread_mutex_unlock(&cm_lock);
    assert_int_equal(b->unacknowledged, 0);
    assert_int_equal(bell_of(channel), 0);
    tell(b, 10);
    say("after all were taken\n");
    say_events();
    fail_next("calloc", 1, 0);
    tell(b, 11);
    assert_int_equal(b->unacknowledged, 0);
    say_events();
    errno = 0;
    assert_int_equal(rdma_ack_cm_event(NULL), -1);
    assert_int_equal(errno, EINVAL);
    /* Destroying the identifier waits until the program has acknowledged its events. */
    tell(a, 12);
    unacknowledged = e;
    waits = 0;
    assert_int_equal(rdma_destroy_id(&a->id), 0);
    assert_int_equal(waits, 1);
    assert_int_equal(rdma_destroy_id(&b->id), 0);
    /* A reader of a destroyed channel never returns. */
    volatile bool waited = false;
    rdma_destroy_event_channel(other);
    if (!setjmp(out_of_pause))
        rdma_get_cm_event(other == channel ? NULL : other, &e);
    else
        waited = true;
    assert_true(waited);
}

static void calls_of_ones_own_channel(void)
{
    static const struct {
        int status, result, error;
    } cases[] = {{0, 0, 0}, {-ENETDOWN, -1, ENETDOWN}, {28, -1, ECONNREFUSED}};
    struct rdma_cm_id *id;
    assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
    for (unsigned i = 0; i < 3; i++) {
        tell(cm_of(id), cases[i].status);
        errno = 99;
        assert_int_equal(cm_wait_for_event(cm_of(id), 0), cases[i].result);
        assert_int_equal(errno, cases[i].error);
        assert_int_equal(cm_of(id)->unacknowledged, 0);
    }
    assert_int_equal(cm_wait_for_event(cm_of(id), -1), -1);
    cm_of(id)->own_channel = false;
    assert_int_equal(cm_wait_for_event(cm_of(id), 0), 0);
    cm_of(id)->own_channel = true;
    assert_int_equal(fcntl(id->channel->fd, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(cm_wait_for_event(cm_of(id), 0), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(rdma_destroy_id(id), 0);
    /* Without a channel, a call returns when its result is there. */
    for (unsigned i = 0; i < 4; i++) {
        int fds[2];
        struct cm_message m = message_of(i < 2 ? CM_DREP : i == 2 ? CM_RTU : CM_REP);
        assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
        struct cm_id *c = cm_of(id);
        c->fd = fds[0];
        c->id.verbs = context;
        c->state = i == 0   ? CM_CONNECTED
                   : i == 1 ? CM_DREQ_SENT
                   : i == 2 ? CM_REQ_REPORTED
                            : CM_DISCONNECTED;
        pthread_mutex_lock(&cm_lock);
        cm_watch(c, EPOLLIN);
        pthread_mutex_unlock(&cm_lock);
        assert_int_equal(__real_send(fds[1], &m, sizeof m, 0), sizeof m);
        assert_int_equal(i == 2 ? rdma_accept(id, NULL) : rdma_disconnect(id), 0);
        /* A connection that is ending or closed is not waited for. */
        assert_int_equal(c->state, i == 0   ? CM_DISCONNECTED
                                   : i == 1 ? CM_DREQ_SENT
                                   : i == 2 ? CM_CONNECTED
                                            : CM_DISCONNECTED);
        assert_int_equal(c->unacknowledged, 0);
        assert_int_equal(rdma_destroy_id(id), 0);
        close(fds[1]);
    }
}

/* --- Addresses and devices --- */

static void resolved(const char *what, const struct sockaddr *from, struct sockaddr *to, bool bind)
{
    struct cm_id *c = id_make();
    struct sockaddr_in any = place_of(INADDR_ANY, 0);
    if (bind)
        assert_int_equal(rdma_bind_addr(&c->id, (struct sockaddr *)&any), 0);
    in_port_t port = rdma_get_src_port(&c->id);
    errno = 0;
    int result = rdma_resolve_addr(&c->id, (struct sockaddr *)(uintptr_t)from, to, 1);
    int e = result ? errno : 0;
    char text_of[64] = "";
    const struct rdma_addr *a = &c->id.route.addr;
    if (a->src_addr.sa_family == AF_INET)
        inet_ntop(AF_INET, &a->src_sin.sin_addr, text_of, sizeof text_of);
    else if (a->src_addr.sa_family == AF_INET6)
        inet_ntop(AF_INET6, &a->src_sin6.sin6_addr, text_of, sizeof text_of);
    say("%s: %d %d from %s fd %d verbs %d port %d\n", what, result, e, text_of, c->fd >= 0,
        c->id.verbs ? (int)device_of(c->id.verbs)->number : -1,
        bind ? rdma_get_src_port(&c->id) == port : rdma_get_src_port(&c->id) != 0);
    if (c->id.verbs)
        say("  gid %02x%02x%02x%02x port %u\n", a->addr.ibaddr.sgid.raw[10],
            a->addr.ibaddr.sgid.raw[11], a->addr.ibaddr.sgid.raw[12], a->addr.ibaddr.sgid.raw[15],
            c->id.port_num);
    say_events();
    assert_int_equal(rdma_destroy_id(&c->id), 0);
}

static void places(void)
{
    struct sockaddr_in to = place_of(0x7f010203, 7471), from = place_of(0x7f040506, 0),
                       any = place_of(INADDR_ANY, 0);
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    struct sockaddr unknown = {.sa_family = AF_APPLETALK};
    struct sockaddr *there = (struct sockaddr *)&to;
    resolved("from where the system says", NULL, there, false);
    resolved("from an address", (struct sockaddr *)&from, there, false);
    resolved("from any", (struct sockaddr *)&any, there, false);
    resolved("from any of the other kind", (struct sockaddr *)&six, there, false);
    resolved("from nothing known", &unknown, there, false);
    resolved("to nothing known", NULL, &unknown, false);
    resolved("bound to a port of all", NULL, there, true);
    resolved("bound, and from an address", (struct sockaddr *)&from, there, true);
    addresses[0] = 0x7f070809;
    addresses[1] = 0x7f010203;
    resolved("the second device's own", NULL, there, false);
    addresses[1] = 0x7f0a0b0c;
    resolved("no device's", NULL, there, false);
    resolved("from the first device's",
             (struct sockaddr *)&(struct sockaddr_in){.sin_family = AF_INET,
                                                      .sin_addr.s_addr = htonl(0x7f070809)},
             there, false);
    addresses[0] = addresses[1] = 0;
    static const char *const calls[] = {"socket", "connect", "getsockname",
                                        "socket", "bind",    "getsockname"};
    for (unsigned i = 0; i < 6; i++) {
        fail_next(calls[i], i == 3 || i == 5 ? 2 : 1, ENETUNREACH);
        resolved(calls[i], NULL, there, false);
        fails = "";
    }
    struct cm_id *c = id_make();
    c->id.verbs = context;
    assert_int_equal(rdma_resolve_addr(&c->id, NULL, there, 1), 0);
    assert_int_equal(c->fd, -1);
    assert_int_equal(c->id.route.addr.dst_sin.sin_port, htons(7471));
    say_events();
    errno = 0;
    assert_int_equal(rdma_listen(&c->id, 1), -1);
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_int_equal(rdma_connect(&c->id, NULL), -1);
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_int_equal(rdma_bind_addr(&c->id, &unknown), -1);
    assert_int_equal(errno, EAFNOSUPPORT);
    assert_int_equal(rdma_bind_addr(&c->id, (struct sockaddr *)&from), 0);
    errno = 0;
    assert_int_equal(rdma_bind_addr(&c->id, (struct sockaddr *)&from), -1);
    assert_int_equal(errno, EINVAL);
    int reuse = 0;
    socklen_t n = sizeof reuse;
    assert_int_equal(getsockopt(c->fd, SOL_SOCKET, SO_REUSEADDR, &reuse, &n), 0);
    assert_int_equal(reuse, 1);
    fail_next("listen", 1, EADDRINUSE);
    assert_int_equal(rdma_listen(&c->id, 1), -1);
    assert_int_equal(c->state, CM_IDLE);
    assert_int_equal(rdma_destroy_id(&c->id), 0);
    c = id_make();
    from.sin_port = 0;
    addresses[0] = addresses[1] = 9;
    errno = 0;
    assert_int_equal(rdma_bind_addr(&c->id, (struct sockaddr *)&from), -1);
    assert_int_equal(errno, ENODEV);
    assert_int_equal(c->fd, -1);
    assert_int_equal(c->id.route.addr.src_addr.sa_family, 0);
    addresses[0] = addresses[1] = 0;
    six.sin6_addr = in6addr_loopback;
    if (!rdma_bind_addr(&c->id, (struct sockaddr *)&six))
        assert_ptr_equal(c->id.verbs, context);
    assert_int_equal(rdma_destroy_id(&c->id), 0);
}

static void devices(void)
{
    int count = 9;
    struct ibv_context **list = rdma_get_devices(&count);
    assert_int_equal(count, 2);
    assert_ptr_equal(list[0], context);
    assert_int_equal(device_of(list[1])->number, 1);
    assert_null(list[2]);
    rdma_free_devices(list);
    list = rdma_get_devices(NULL);
    assert_non_null(list);
    rdma_free_devices(list);
    fail_next("calloc", 2, 0);
    assert_null(rdma_get_devices(&count));
    assert_int_equal(count, 0);
}

static void queue_pairs(void)
{
    struct cm_id *c = id_make();
    struct ibv_qp_init_attr a = {.send_cq = cq,
                                 .recv_cq = cq,
                                 .qp_type = IBV_QPT_RC,
                                 .cap = {.max_send_wr = 1, .max_send_sge = 1}};
    errno = 0;
    assert_int_equal(rdma_create_qp(&c->id, pd, &a), -1);
    assert_int_equal(errno, EINVAL);
    c->id.verbs = context;
    a.send_cq = NULL;
    assert_int_equal(rdma_create_qp(&c->id, pd, &a), -1);
    a.send_cq = cq;
    a.recv_cq = NULL;
    assert_int_equal(rdma_create_qp(&c->id, pd, &a), -1);
    a.recv_cq = cq;
    a.qp_type = IBV_QPT_UD;
    errno = 0;
    assert_int_equal(rdma_create_qp(&c->id, pd, &a), -1);
    assert_int_equal(errno, EOPNOTSUPP);
    a.qp_type = IBV_QPT_RC;
    assert_int_equal(rdma_create_qp(&c->id, pd, &a), 0);
    assert_ptr_equal(c->id.pd, pd);
    assert_ptr_equal(c->id.send_cq, cq);
    assert_ptr_equal(c->id.recv_cq, cq);
    assert_null(c->id.srq);
    assert_int_equal(c->id.qp->state, IBV_QPS_INIT);
    say_queue(c->id.qp);
    assert_int_equal(rdma_create_qp(&c->id, pd, &a), -1);
    rdma_destroy_qp(&c->id);
    /* Without a domain, the library supplies one. */
    assert_int_equal(rdma_create_qp(&c->id, NULL, &a), 0);
    struct ibv_pd *own = c->id.pd;
    assert_ptr_not_equal(own, pd);
    assert_ptr_equal(own->context, context);
    rdma_destroy_qp(&c->id);
    struct ibv_qp_init_attr_ex ex = {.send_cq = cq,
                                     .recv_cq = cq,
                                     .qp_type = IBV_QPT_RC,
                                     .cap = {.max_send_wr = 1, .max_send_sge = 1}};
    assert_int_equal(rdma_create_qp_ex(&c->id, &ex), 0);
    assert_ptr_equal(c->id.pd, own);
    assert_int_equal(ex.comp_mask, IBV_QP_INIT_ATTR_PD);
    assert_int_equal(rdma_create_qp_ex(&c->id, &ex), -1);
    rdma_destroy_qp(&c->id);
    ex.pd = pd;
    assert_int_equal(rdma_create_qp_ex(&c->id, &ex), 0);
    assert_ptr_equal(c->id.pd, pd);
    rdma_destroy_qp(&c->id);
    ex.send_cq = NULL;
    assert_int_equal(rdma_create_qp_ex(&c->id, &ex), -1);
    ex.send_cq = cq;
    ex.recv_cq = NULL;
    assert_int_equal(rdma_create_qp_ex(&c->id, &ex), -1);
    c->id.verbs = NULL;
    ex.recv_cq = cq;
    assert_int_equal(rdma_create_qp_ex(&c->id, &ex), -1);
    assert_int_equal(rdma_destroy_id(&c->id), 0);
    blocks_before++; /* the domain stays allocated */
}

static void say_info(const char *what, const char *node, const char *service,
                     const struct rdma_addrinfo *hints)
{
    struct rdma_addrinfo *info = NULL;
    errno = 0;
    int e = rdma_getaddrinfo(node, service, hints, &info);
    say("%s: %d errno %d\n", what, e, errno * (e != 0));
    if (e)
        return;
    const struct sockaddr *both[2] = {info->ai_src_addr, info->ai_dst_addr};
    say("  flags %x family %d type %d space %x lengths %u %u", info->ai_flags, info->ai_family,
        info->ai_qp_type, info->ai_port_space, info->ai_src_len, info->ai_dst_len);
    for (unsigned i = 0; i < 2; i++) {
        char address[64] = "";
        if (both[i] && both[i]->sa_family == AF_INET)
            inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)both[i])->sin_addr,
                      address, sizeof address);
        say(" %s:%u", both[i] ? address : "none",
            both[i] ? ntohs(((const struct sockaddr_in *)(const void *)both[i])->sin_port) : 0);
    }
    say("\n");
    rdma_freeaddrinfo(info);
}

static void names(void)
{
    struct sockaddr_in one = place_of(0x0a000001, 11), two = place_of(0x0a000002, 22);
    struct rdma_addrinfo hints = {.ai_flags = RAI_NUMERICHOST};
    say_info("an address", "10.1.2.3", "77", NULL);
    say_info("numbers only", "10.1.2.3", "77", &hints);
    say_info("a name where there are numbers only", "no.such.host.example", "77", &hints);
    hints.ai_flags = RAI_PASSIVE | RAI_NUMERICHOST;
    say_info("to listen", "10.1.2.4", "78", &hints);
    hints.ai_flags = RAI_PASSIVE | RAI_FAMILY;
    hints.ai_family = AF_INET;
    say_info("to listen at any", NULL, "79", &hints);
    hints = (struct rdma_addrinfo){.ai_port_space = RDMA_PS_UDP,
                                   .ai_src_addr = (struct sockaddr *)&one,
                                   .ai_src_len = sizeof one,
                                   .ai_dst_addr = (struct sockaddr *)&two,
                                   .ai_dst_len = sizeof two};
    say_info("by hints alone", NULL, NULL, &hints);
    hints.ai_qp_type = IBV_QPT_UC;
    say_info("with a source", "10.1.2.5", "80", &hints);
    hints.ai_flags = RAI_PASSIVE;
    say_info("to listen, with a source", "10.1.2.6", "81", &hints);
    say_info("nothing", NULL, NULL, NULL);
    fail_next("calloc", 1, 0);
    say_info("without memory", "10.1.2.7", "82", NULL);
    struct pollfd none = {.fd = -1};
    assert_int_equal(rpoll(&none, 1, 0), 0);
    struct rdma_addrinfo *last = __real_calloc(1, sizeof *last),
                         *first = __real_calloc(1, sizeof *first);
    first->ai_next = last;
    blocks += 2;
    rdma_freeaddrinfo(first);
}

#define TEST(name)                                                                                 \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        say("# " #name "\n");                                                                      \
        name();                                                                                    \
    }
TEST(devices)
TEST(messages_in_states)
TEST(messages_in_pieces)
TEST(replies)
TEST(attributes)
TEST(calls_in_states)
TEST(parameters)
TEST(passive)
TEST(active)
TEST(identifiers)
TEST(events_are_in_order)
TEST(calls_of_ones_own_channel)
TEST(places)
TEST(queue_pairs)
TEST(names)

static void all_is_as_written(void **state)
{
    (void)state;
    golden_is(GOLDEN, text);
}

int main(void)
{
    setenv("SOFT_HCA_LOG", "none", 1);
    setenv("SOFT_HCA_DEVICES", "2", 1);
    struct ibv_context **list = rdma_get_devices(NULL);
    context = list[0];
    rdma_free_devices(list);
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 9, NULL, NULL, 0);
    link_connect(device_of(context), WHOLE_LID); /* the link stays allocated with the device */
    blocks_before = blocks;
#define UNIT(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        UNIT(devices),
        UNIT(messages_in_states),
        UNIT(messages_in_pieces),
        UNIT(replies),
        UNIT(attributes),
        UNIT(calls_in_states),
        UNIT(parameters),
        UNIT(passive),
        UNIT(active),
        UNIT(identifiers),
        UNIT(events_are_in_order),
        UNIT(calls_of_ones_own_channel),
        UNIT(places),
        UNIT(queue_pairs),
        UNIT(names),
        cmocka_unit_test(all_is_as_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
