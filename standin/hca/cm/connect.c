/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: the active side sends REQ, the passive side answers REP, and the active side
 * confirms with RTU. Either side ends the connection with DREQ or by closing its socket. QPs of
 * identifiers change state along the way. */
#include "cm/cm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    REJ_INVALID_SERVICE_ID = 8, /* IBTA rejection reason: invalid service id */
    REJ_CONSUMER = 28,          /* IBTA rejection reason: the peer's program rejected the request */
    TIMEOUT = 14,               /* 4.096 us << 14 = 67 ms */
    RNR_TIMER = 12,
    LISTENING_MOST = 128,
};

/* --- Queue pairs --- */

static uint8_t smaller(uint8_t a, uint8_t b)
{
    return a < b ? a : b;
}

/* Reads and atomics that the peer may have outstanding here, and that this end may have outstanding
 * there. */
static uint8_t reads_served(const struct cm_id *c)
{
    return smaller(smaller(c->own.responder_resources, c->peer.initiator_depth), MAX_READS);
}

static uint8_t reads_outstanding(const struct cm_id *c)
{
    return smaller(smaller(c->own.initiator_depth, c->peer.responder_resources), MAX_READS);
}

static int fill_attributes(struct cm_id *c, enum ibv_qp_state to, struct ibv_qp_attr *a, int *mask)
{
    struct ibv_port_attr port;
    if (ibv_query_port(c->id.verbs, 1, &port)) {
        errno = EINVAL;
        return -1;
    }
    *a = (struct ibv_qp_attr){.qp_state = to};
    *mask = IBV_QP_STATE;
    switch (to) {
    case IBV_QPS_INIT:
        *mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        a->port_num = 1;
        a->qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                             IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
        return 0;
    case IBV_QPS_RTR:
        *mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        a->path_mtu =
            (enum ibv_mtu)smaller((uint8_t)port.active_mtu, (uint8_t)be16toh(c->peer.mtu));
        a->dest_qp_num = be32toh(c->peer.qpn);
        a->rq_psn = be32toh(c->peer.psn);
        a->max_dest_rd_atomic = reads_served(c);
        a->min_rnr_timer = RNR_TIMER;
        a->ah_attr =
            (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .dlid = be16toh(c->peer.lid)};
        a->ah_attr.grh.hop_limit = 64;
        a->ah_attr.grh.sgid_index = port.gid_tbl_len > 1;
        memcpy(a->ah_attr.grh.dgid.raw, c->peer.gid, 16);
        return 0;
    case IBV_QPS_RTS:
        *mask |= IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                 IBV_QP_MAX_QP_RD_ATOMIC;
        a->sq_psn = c->psn;
        a->timeout = TIMEOUT;
        a->retry_cnt = c->own.retry_count ? c->own.retry_count : smaller(c->peer.retry_count, 7);
        a->rnr_retry = c->own.rnr_retry_count;
        a->max_rd_atomic = reads_outstanding(c);
        return 0;
    default:
        return 0;
    }
}

PUBLIC int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *a, int *mask)
{
    struct cm_id *c = cm_of(id);
    pthread_mutex_lock(&cm_lock);
    enum ibv_qp_state to = a->qp_state;
    int result = id->verbs ? fill_attributes(c, to, a, mask) : (errno = EINVAL, -1);
    pthread_mutex_unlock(&cm_lock);
    return result;
}

static int move_qp(struct cm_id *c, enum ibv_qp_state to)
{
    struct ibv_qp_attr a;
    int mask, e;
    if (fill_attributes(c, to, &a, &mask))
        return -1;
    e = ibv_modify_qp(c->id.qp, &a, mask);
    errno = e;
    return e ? -1 : 0;
}

static int move_to_rts(struct cm_id *c)
{
    return move_qp(c, IBV_QPS_RTR) || move_qp(c, IBV_QPS_RTS) ? -1 : 0;
}

/* --- Messages --- */

static int send_message(struct cm_id *c, enum cm_kind kind)
{
    struct ibv_port_attr port;
    struct cm_message m = {.magic = htobe32(CM_MAGIC),
                           .kind = htobe32(kind),
                           .qpn = htobe32(c->id.qp ? c->id.qp->qp_num : c->own.qp_num),
                           .psn = htobe32(c->psn),
                           .responder_resources = c->own.responder_resources,
                           .initiator_depth = c->own.initiator_depth,
                           .retry_count = c->own.retry_count,
                           .rnr_retry_count = c->own.rnr_retry_count,
                           .flow_control = c->own.flow_control,
                           .srq = c->own.srq,
                           .private_bytes = c->own.private_data_len};
    memcpy(m.private_data, c->own_private, sizeof m.private_data);
    memcpy(m.gid, c->id.route.addr.addr.ibaddr.sgid.raw, sizeof m.gid);
    if (c->id.verbs && !ibv_query_port(c->id.verbs, 1, &port)) {
        m.lid = htobe16(port.lid);
        m.mtu = htobe16((uint16_t)port.active_mtu);
    }
    /* The socket has carried almost nothing, so its buffer has space. */
    ssize_t n = send(c->fd, &m, sizeof m, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n == (ssize_t)sizeof m)
        return 0;
    if (n >= 0)
        errno = EPIPE;
    return -1;
}

/* Sets the parameters of a connection; NULL: the HCA's maxima. -1 with errno. */
static int set_parameters(struct cm_id *c, const struct rdma_conn_param *p)
{
    static const struct rdma_conn_param most = {.responder_resources = RDMA_MAX_RESP_RES,
                                                .initiator_depth = RDMA_MAX_INIT_DEPTH,
                                                .retry_count = 7,
                                                .rnr_retry_count = 7};
    p = p ? p : &most;
    if (p->private_data_len > CM_PRIVATE_BYTES || !c->id.verbs) {
        errno = EINVAL;
        return -1;
    }
    c->own = *p;
    c->own.responder_resources = smaller(p->responder_resources, MAX_READS);
    c->own.initiator_depth = smaller(p->initiator_depth, MAX_READS);
    c->own.private_data = NULL;
    memset(c->own_private, 0, sizeof c->own_private);
    if (p->private_data && p->private_data_len)
        memcpy(c->own_private, p->private_data, p->private_data_len);
    if (getrandom(&c->psn, sizeof c->psn, 0) != sizeof c->psn)
        c->psn = (uint32_t)(uintptr_t)c;
    c->psn &= 0xffffff;
    return 0;
}

/* --- Calls of the program --- */

PUBLIC int rdma_listen(struct rdma_cm_id *id, int backlog)
{
    struct cm_id *c = cm_of(id);
    pthread_mutex_lock(&cm_lock);
    int result = -1;
    if (c->fd < 0 || c->state != CM_IDLE)
        errno = EINVAL;
    else if (!listen(c->fd, backlog > 0 ? backlog : LISTENING_MOST)) {
        c->state = CM_LISTENING;
        cm_watch(c, EPOLLIN);
        result = 0;
    }
    pthread_mutex_unlock(&cm_lock);
    return result;
}

static int connect_to_peer(struct cm_id *c)
{
    const struct sockaddr *to = &c->id.route.addr.dst_addr;
    socklen_t bytes =
        to->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    if (c->fd < 0 || c->state != CM_IDLE) {
        errno = EINVAL;
        return -1;
    }
    c->state = CM_CONNECTING;
    if (connect(c->fd, to, bytes) && errno != EINPROGRESS) {
        /* As with real NICs, the failure is reported by an event. */
        c->state = CM_DISCONNECTED;
        cm_post_event(c, errno == ECONNREFUSED ? RDMA_CM_EVENT_REJECTED : RDMA_CM_EVENT_UNREACHABLE,
                      errno == ECONNREFUSED ? REJ_INVALID_SERVICE_ID : -errno, NULL);
        return 0;
    }
    cm_watch(c, EPOLLOUT);
    return 0;
}

PUBLIC int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *parameters)
{
    struct cm_id *c = cm_of(id);
    pthread_mutex_lock(&cm_lock);
    int result = set_parameters(c, parameters) || connect_to_peer(c) ? -1 : 0;
    pthread_mutex_unlock(&cm_lock);
    return cm_wait_for_event(c, result);
}

PUBLIC int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *parameters)
{
    struct cm_id *c = cm_of(id);
    pthread_mutex_lock(&cm_lock);
    int result = -1;
    if (c->state != CM_REQ_REPORTED)
        errno = c->state == CM_DISCONNECTED ? ECONNRESET : EINVAL;
    else if (!set_parameters(c, parameters) && (!id->qp || !move_to_rts(c)) &&
             !send_message(c, CM_REP)) {
        c->state = CM_REP_SENT;
        result = 0;
    }
    pthread_mutex_unlock(&cm_lock);
    return cm_wait_for_event(c, result);
}

PUBLIC int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t bytes)
{
    struct cm_id *c = cm_of(id);
    const struct rdma_conn_param p = {.private_data = private_data, .private_data_len = bytes};
    pthread_mutex_lock(&cm_lock);
    int result = -1;
    if (c->state != CM_REQ_REPORTED)
        errno = EINVAL;
    else if (!set_parameters(c, &p) && !send_message(c, CM_REJ)) {
        c->state = CM_DISCONNECTED;
        cm_watch(c, 0);
        result = 0;
    }
    pthread_mutex_unlock(&cm_lock);
    return result;
}

PUBLIC int rdma_establish(struct rdma_cm_id *id)
{
    struct cm_id *c = cm_of(id);
    pthread_mutex_lock(&cm_lock);
    int result = -1;
    if (c->state != CM_REP_RECEIVED)
        errno = EINVAL;
    else if (!send_message(c, CM_RTU)) {
        c->state = CM_CONNECTED;
        result = 0;
    }
    pthread_mutex_unlock(&cm_lock);
    return result;
}

static void end_connection(struct cm_id *c, enum rdma_cm_event_type what, int status,
                           const struct cm_message *said)
{
    c->state = CM_DISCONNECTED;
    cm_watch(c, 0);
    cm_post_event(c, what, status, said);
}

PUBLIC int rdma_disconnect(struct rdma_cm_id *id)
{
    struct cm_id *c = cm_of(id);
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
    if (id->qp)
        ibv_modify_qp(id->qp, &error, IBV_QP_STATE);
    pthread_mutex_lock(&cm_lock);
    int result = 0;
    bool ends = false;
    if (c->state == CM_CONNECTED || c->state == CM_REP_SENT || c->state == CM_REP_RECEIVED) {
        c->state = CM_DREQ_SENT;
        ends = true;
        if (send_message(c, CM_DREQ))
            end_connection(c, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
    } else if (c->state != CM_DISCONNECTED && c->state != CM_DREQ_SENT) {
        errno = EINVAL;
        result = -1;
    }
    pthread_mutex_unlock(&cm_lock);
    return ends ? cm_wait_for_event(c, result) : result;
}

PUBLIC int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
    (void)id, (void)event; /* nothing to do: connections are established by messages only */
    return 0;
}

/* --- Events of sockets --- */

static void accept_socket(struct cm_id *listener)
{
    struct sockaddr_storage from;
    socklen_t bytes = sizeof from;
    int fd = accept4(listener->fd, (struct sockaddr *)&from, &bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    struct cm_id *c = cm_id_new(listener->id.channel, listener->id.context, listener->id.ps);
    if (!c) {
        close(fd);
        return;
    }
    c->fd = fd;
    c->state = CM_REQ_EXPECTED;
    c->listener = listener;
    memcpy(&c->id.route.addr.dst_storage, &from, bytes);
    bytes = sizeof c->id.route.addr.src_storage;
    if (getsockname(fd, &c->id.route.addr.src_addr, &bytes) || cm_find_device(c))
        cm_id_destroy(c);
    else
        cm_watch(c, EPOLLIN);
}

static void handle_connected(struct cm_id *c)
{
    int error = 0;
    socklen_t bytes = sizeof error;
    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
    if (!error && send_message(c, CM_REQ))
        error = errno;
    if (error) {
        end_connection(c,
                       error == ECONNREFUSED ? RDMA_CM_EVENT_REJECTED : RDMA_CM_EVENT_UNREACHABLE,
                       error == ECONNREFUSED ? REJ_INVALID_SERVICE_ID : -error, NULL);
        return;
    }
    c->state = CM_REQ_SENT;
    cm_watch(c, EPOLLIN);
}

/* The peer is gone or sent an unexpected message. */
static void fail_connection(struct cm_id *c)
{
    switch (c->state) {
    case CM_REQ_EXPECTED:
        cm_id_destroy(c);
        return;
    case CM_REQ_SENT:
    case CM_REQ_REPORTED:
    case CM_REP_SENT:
    case CM_REP_RECEIVED:
        end_connection(c, RDMA_CM_EVENT_UNREACHABLE, -ECONNRESET, NULL);
        return;
    default:
        end_connection(c, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
    }
}

static void handle_rep(struct cm_id *c)
{
    c->peer = c->in;
    if (!c->id.qp) {
        c->state = CM_REP_RECEIVED;
        cm_post_event(c, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, &c->peer);
    } else if (move_to_rts(c) || send_message(c, CM_RTU))
        end_connection(c, RDMA_CM_EVENT_CONNECT_ERROR, -errno, NULL);
    else {
        c->state = CM_CONNECTED;
        cm_post_event(c, RDMA_CM_EVENT_ESTABLISHED, 0, &c->peer);
    }
}

static void handle_message(struct cm_id *c)
{
    enum cm_kind kind = (enum cm_kind)be32toh(c->in.kind);
    bool sound = c->in.magic == htobe32(CM_MAGIC) && c->in.private_bytes <= CM_PRIVATE_BYTES;
    if (sound && kind == CM_REQ && c->state == CM_REQ_EXPECTED && c->listener) {
        c->peer = c->in;
        c->state = CM_REQ_REPORTED;
        cm_post_event(c, RDMA_CM_EVENT_CONNECT_REQUEST, 0, &c->peer);
    } else if (sound && kind == CM_REP && c->state == CM_REQ_SENT)
        handle_rep(c);
    else if (sound && kind == CM_REJ && c->state == CM_REQ_SENT)
        end_connection(c, RDMA_CM_EVENT_REJECTED, REJ_CONSUMER, &c->in);
    else if (sound && kind == CM_RTU && c->state == CM_REP_SENT) {
        c->state = CM_CONNECTED;
        cm_post_event(c, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
    } else if (sound && kind == CM_DREQ && (c->state == CM_CONNECTED || c->state == CM_DREQ_SENT)) {
        send_message(c, CM_DREP);
        end_connection(c, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
    } else if (sound && kind == CM_DREP && c->state == CM_DREQ_SENT)
        end_connection(c, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
    else
        fail_connection(c);
}

void cm_handle_socket(struct cm_id *c)
{
    if (c->state == CM_LISTENING) {
        accept_socket(c);
        return;
    }
    if (c->state == CM_CONNECTING) {
        handle_connected(c);
        return;
    }
    ssize_t n = recv(c->fd, (char *)&c->in + c->got, sizeof c->in - c->got, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        fail_connection(c);
        return;
    }
    c->got += (size_t)n;
    if (c->got < sizeof c->in)
        return;
    c->got = 0;
    handle_message(c);
}
