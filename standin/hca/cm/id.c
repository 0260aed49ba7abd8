/* SPDX-License-Identifier: Apache-2.0 */
/* Identifiers of the connection manager: their address, device and QP. */
#include "cm/cm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CM_DEVICES = 8 };

static struct cm_id *ids;
static uint64_t ids_made;

/* One context of each device for all identifiers, and a protection domain for identifiers without
 * one. */
static struct ibv_context *contexts[CM_DEVICES];
static struct ibv_pd *domains[CM_DEVICES];

/* --- Devices --- */

static unsigned open_devices(void)
{
    int n;
    struct ibv_device **list = ibv_get_device_list(&n);
    unsigned opened = 0;
    for (int i = 0; list && i < n && i < CM_DEVICES; i++) {
        if (!contexts[i])
            contexts[i] = ibv_open_device(list[i]);
        if (!contexts[i])
            break;
        opened++;
    }
    if (list)
        ibv_free_device_list(list);
    return opened;
}

PUBLIC struct ibv_context **rdma_get_devices(int *count)
{
    pthread_mutex_lock(&cm_lock);
    unsigned n = open_devices();
    struct ibv_context **list = calloc(n + 1, sizeof *list);
    if (list)
        memcpy(list, contexts, n * sizeof *list);
    pthread_mutex_unlock(&cm_lock);
    if (count)
        *count = list ? (int)n : 0;
    return list;
}

PUBLIC void rdma_free_devices(struct ibv_context **list)
{
    free(list);
}

/* Returns the number of the address; 0: any address, or one that no device has. */
static uint32_t address_of_place(const struct sockaddr_storage *place)
{
    union socket_address from;
    uint16_t port;
    memcpy(&from, place, sizeof from);
    return address_of_socket(&from, &port);
}

/* Returns a device with that address, or NULL. Devices without an IP address reach every HCA of
 * this host by any address. */
static struct ibv_context *device_at(const struct sockaddr_storage *place, uint32_t *own)
{
    unsigned n = open_devices();
    for (unsigned i = 0; i < n; i++) {
        *own = roce_address(context_of(contexts[i])->device);
        if (!*own || *own == address_of_place(place))
            return contexts[i];
    }
    return NULL;
}

int cm_find_device(struct cm_id *c)
{
    uint32_t own;
    struct ibv_context *context = device_at(&c->id.route.addr.src_storage, &own);
    if (!context) {
        errno = ENODEV;
        return -1;
    }
    c->id.verbs = context;
    c->id.port_num = 1;
    c->id.route.addr.addr.ibaddr.pkey = htobe16(0xffff);
    return ibv_query_gid(context, 1, own ? 1 : 0, &c->id.route.addr.addr.ibaddr.sgid);
}

/* --- Identifiers --- */

struct cm_id *cm_id_new(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps)
{
    struct cm_id *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->id.channel = channel;
    c->id.context = context;
    c->id.ps = ps;
    c->id.qp_type = IBV_QPT_RC;
    c->fd = -1;
    c->number = ++ids_made;
    c->next = ids;
    ids = c;
    return c;
}

struct cm_id *cm_id_find(uint64_t number)
{
    struct cm_id *c = ids;
    while (c && c->number != number)
        c = c->next;
    return c;
}

void cm_id_destroy(struct cm_id *c)
{
    struct cm_id **place = &ids;
    while (*place != c)
        place = &(*place)->next;
    *place = c->next;
    cm_move_events(c, NULL);
    for (struct cm_id *child = ids, *next; child; child = next) {
        next = child->next;
        if (child->listener != c)
            continue;
        child->listener = NULL;
        /* The program will never learn of it. */
        if (child->state == CM_REQ_EXPECTED || cm_move_events(child, NULL)) {
            cm_id_destroy(child);
            next = ids;
        }
    }
    if (c->fd >= 0)
        close(c->fd);
    if (c->own_channel)
        cm_channel_destroy(cm_channel_of(c));
    free(c);
}

void cm_watch(struct cm_id *c, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.u64 = c->number};
    int fd = c->id.channel->fd;
    if (!events)
        epoll_ctl(fd, EPOLL_CTL_DEL, c->fd, NULL);
    else if (epoll_ctl(fd, EPOLL_CTL_MOD, c->fd, &event) && errno == ENOENT)
        epoll_ctl(fd, EPOLL_CTL_ADD, c->fd, &event);
}

PUBLIC int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                          enum rdma_port_space ps)
{
    if (ps != RDMA_PS_TCP && ps != RDMA_PS_IB) {
        errno = EPROTONOSUPPORT; /* the HCA has no UD QPs */
        return -1;
    }
    struct rdma_event_channel *own = channel ? channel : rdma_create_event_channel();
    if (!own)
        return -1;
    pthread_mutex_lock(&cm_lock);
    struct cm_id *c = cm_id_new(own, context, ps);
    pthread_mutex_unlock(&cm_lock);
    if (!c) {
        if (!channel)
            rdma_destroy_event_channel(own);
        return -1;
    }
    c->own_channel = !channel;
    *id = &c->id;
    return 0;
}

PUBLIC int rdma_destroy_id(struct rdma_cm_id *id)
{
    struct cm_id *c = cm_of(id);
    pthread_mutex_lock(&cm_lock);
    cm_move_events(c, NULL);
    while (c->unacknowledged)
        pthread_cond_wait(&cm_acknowledged, &cm_lock);
    cm_id_destroy(c);
    pthread_mutex_unlock(&cm_lock);
    return 0;
}

PUBLIC void rdma_destroy_ep(struct rdma_cm_id *id)
{
    if (id->qp)
        rdma_destroy_qp(id);
    rdma_destroy_id(id);
}

PUBLIC int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
    struct cm_id *c = cm_of(id);
    struct rdma_event_channel *to = channel ? channel : rdma_create_event_channel(),
                              *old = id->channel;
    if (!to)
        return -1;
    pthread_mutex_lock(&cm_lock);
    bool watched = c->fd >= 0 && !epoll_ctl(old->fd, EPOLL_CTL_DEL, c->fd, NULL);
    cm_move_events(c, HOLDER(to, struct cm_channel, channel));
    bool own = c->own_channel;
    id->channel = to;
    c->own_channel = !channel;
    if (watched)
        cm_watch(c, c->state == CM_CONNECTING ? EPOLLOUT : EPOLLIN);
    pthread_mutex_unlock(&cm_lock);
    if (own)
        rdma_destroy_event_channel(old);
    return 0;
}

PUBLIC int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t bytes)
{
    (void)id, (void)value, (void)bytes;
    /* Accepts and ignores type of service, address reuse, IPv6 only and ACK timeout: they have no
     * effect on TCP and the software HCA. */
    if (level == RDMA_OPTION_ID && name <= RDMA_OPTION_ID_ACK_TIMEOUT)
        return 0;
    errno = ENOSYS;
    return -1;
}

/* --- Addresses --- */

static socklen_t length_of(const struct sockaddr *address)
{
    return address->sa_family == AF_INET    ? sizeof(struct sockaddr_in)
           : address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                            : 0;
}

static bool is_any(const struct sockaddr_storage *address)
{
    struct sockaddr_in6 in6;
    memcpy(&in6, address, sizeof in6);
    return address->ss_family == AF_INET ? !address_of_place(address)
                                         : IN6_IS_ADDR_UNSPECIFIED(&in6.sin6_addr);
}

/* Binds a socket to that local address; the kernel chooses the port if it is 0. */
static int bind_to(struct cm_id *c, const struct sockaddr *address)
{
    static const int one = 1;
    struct sockaddr_storage *src = &c->id.route.addr.src_storage;
    socklen_t bytes = length_of(address);
    if (!bytes || c->fd >= 0) {
        errno = bytes ? EINVAL : EAFNOSUPPORT;
        return -1;
    }
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    socklen_t whole = sizeof *src;
    if (bind(fd, address, bytes) || getsockname(fd, (struct sockaddr *)src, &whole) ||
        (!is_any(src) && cm_find_device(c))) {
        int e = errno;
        close(fd);
        memset(src, 0, sizeof *src);
        errno = e;
        return -1;
    }
    c->fd = fd;
    return 0;
}

PUBLIC int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
    pthread_mutex_lock(&cm_lock);
    int result = bind_to(cm_of(id), address);
    pthread_mutex_unlock(&cm_lock);
    return result;
}

static void clear_port(struct sockaddr_storage *address)
{
    struct sockaddr_in in; /* the port is at the same offset in both families */
    memcpy(&in, address, sizeof in);
    in.sin_port = 0;
    memcpy(address, &in, sizeof in);
}

/* Finds the local address from which the kernel reaches that address. */
static int source_towards(const struct sockaddr *to, struct sockaddr_storage *src)
{
    socklen_t bytes = sizeof *src;
    int fd = socket(to->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    int result = connect(fd, to, length_of(to)) || getsockname(fd, (struct sockaddr *)src, &bytes);
    int e = errno;
    close(fd);
    errno = e;
    clear_port(src);
    return result ? -1 : 0;
}

static int resolve_route(struct cm_id *c, const struct sockaddr *from, const struct sockaddr *to)
{
    struct sockaddr_storage src = {0};
    struct rdma_addr *address = &c->id.route.addr;
    if (!length_of(to)) {
        errno = EAFNOSUPPORT;
        return -1;
    }
    memcpy(&address->dst_storage, to, length_of(to));
    if (c->id.verbs)
        return 0;
    bool bound = c->fd >= 0;
    if (from && length_of(from) && !bound)
        memcpy(&src, from, length_of(from));
    uint32_t own = 0;
    bool given = src.ss_family && !is_any(&src);
    if (!given && device_at(&address->dst_storage, &own) && own) {
        /* A local address; the kernel would choose 127.0.0.1 for the whole network. */
        memcpy(&src, to, length_of(to));
        clear_port(&src);
    } else if (!given && source_towards(to, &src))
        return -1;
    if (!bound)
        return bind_to(c, (struct sockaddr *)&src);
    /* It was bound to any address: now the address that leads to the peer is known. */
    in_port_t port = address->src_sin.sin_port;
    memcpy(&address->src_storage, &src, sizeof src);
    address->src_sin.sin_port = port;
    return cm_find_device(c);
}

PUBLIC int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to,
                             int timeout_ms)
{
    (void)timeout_ms; /* no path query is needed */
    struct cm_id *c = cm_of(id);
    pthread_mutex_lock(&cm_lock);
    int result = resolve_route(c, from, to);
    if (!result)
        cm_post_event(c, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL);
    pthread_mutex_unlock(&cm_lock);
    return cm_wait_for_event(c, result);
}

PUBLIC int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
    (void)timeout_ms;
    struct cm_id *c = cm_of(id);
    pthread_mutex_lock(&cm_lock);
    int result = id->verbs ? 0 : (errno = EINVAL, -1);
    if (!result)
        cm_post_event(c, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
    pthread_mutex_unlock(&cm_lock);
    return cm_wait_for_event(c, result);
}

PUBLIC __be16 rdma_get_src_port(struct rdma_cm_id *id)
{
    return id->route.addr.src_sin.sin_port;
}

PUBLIC __be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
    return id->route.addr.dst_sin.sin_port;
}

static struct sockaddr *copy_of(const struct sockaddr *address, socklen_t bytes)
{
    struct sockaddr *copy = malloc(bytes);
    return copy ? memcpy(copy, address, bytes) : NULL;
}

PUBLIC int rdma_getaddrinfo(const char *node, const char *service,
                            const struct rdma_addrinfo *hints, struct rdma_addrinfo **out)
{
    int flags = hints ? hints->ai_flags : 0;
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM,
                              .ai_family = hints && flags & RAI_FAMILY ? hints->ai_family : 0},
                    *found = NULL;
    wanted.ai_flags =
        (flags & RAI_PASSIVE ? AI_PASSIVE : 0) | (flags & RAI_NUMERICHOST ? AI_NUMERICHOST : 0);
    if (node || service) {
        int e = getaddrinfo(node, service, &wanted, &found);
        if (e) {
            errno = e == EAI_SYSTEM ? errno : EADDRNOTAVAIL;
            return e;
        }
    }
    struct rdma_addrinfo *info = calloc(1, sizeof *info);
    if (!info) {
        freeaddrinfo(found);
        return EAI_MEMORY;
    }
    info->ai_flags = flags;
    info->ai_port_space = hints && hints->ai_port_space ? hints->ai_port_space : RDMA_PS_TCP;
    info->ai_qp_type = hints && hints->ai_qp_type           ? hints->ai_qp_type
                       : info->ai_port_space == RDMA_PS_UDP ? IBV_QPT_UD
                                                            : IBV_QPT_RC;
    if (found && flags & RAI_PASSIVE) {
        info->ai_src_addr = copy_of(found->ai_addr, found->ai_addrlen);
        info->ai_src_len = found->ai_addrlen;
    } else if (found) {
        info->ai_dst_addr = copy_of(found->ai_addr, found->ai_addrlen);
        info->ai_dst_len = found->ai_addrlen;
    } else if (hints && hints->ai_dst_len) {
        info->ai_dst_addr = copy_of(hints->ai_dst_addr, hints->ai_dst_len);
        info->ai_dst_len = hints->ai_dst_len;
    }
    if (!info->ai_src_addr && hints && hints->ai_src_len) {
        info->ai_src_addr = copy_of(hints->ai_src_addr, hints->ai_src_len);
        info->ai_src_len = hints->ai_src_len;
    }
    const struct sockaddr *either = info->ai_dst_addr ? info->ai_dst_addr : info->ai_src_addr;
    info->ai_family = either ? either->sa_family : 0;
    freeaddrinfo(found);
    *out = info;
    return 0;
}

PUBLIC void rdma_freeaddrinfo(struct rdma_addrinfo *info)
{
    while (info) {
        struct rdma_addrinfo *next = info->ai_next;
        free(info->ai_src_addr);
        free(info->ai_dst_addr);
        free(info);
        info = next;
    }
}

/* --- Queue pairs --- */

/* Returns the protection domain for identifiers without one. */
static struct ibv_pd *domain_of(const struct ibv_context *context)
{
    struct ibv_pd *pd = NULL;
    pthread_mutex_lock(&cm_lock);
    for (unsigned i = 0; i < CM_DEVICES; i++)
        if (contexts[i] == context)
            pd = domains[i] = domains[i] ? domains[i] : ibv_alloc_pd(contexts[i]);
    pthread_mutex_unlock(&cm_lock);
    return pd;
}

static int attach_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = 1,
                               .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                                  IBV_ACCESS_REMOTE_READ |
                                                  IBV_ACCESS_REMOTE_ATOMIC};
    if (!qp)
        return -1;
    int e = ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    if (e) {
        ibv_destroy_qp(qp);
        errno = e;
        return -1;
    }
    id->qp = qp;
    id->pd = pd;
    id->send_cq = qp->send_cq;
    id->recv_cq = qp->recv_cq;
    id->srq = qp->srq;
    return 0;
}

PUBLIC int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    if (!id->verbs || id->qp || !attr->send_cq || !attr->recv_cq) {
        errno = EINVAL;
        return -1;
    }
    pd = pd ? pd : domain_of(id->verbs);
    return pd ? attach_qp(id, pd, ibv_create_qp(pd, attr)) : -1;
}

PUBLIC int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
    if (!id->verbs || id->qp || !attr->send_cq || !attr->recv_cq) {
        errno = EINVAL;
        return -1;
    }
    if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD)) {
        attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
        attr->pd = domain_of(id->verbs);
    }
    return attr->pd ? attach_qp(id, attr->pd, ibv_create_qp_ex(id->verbs, attr)) : -1;
}

PUBLIC void rdma_destroy_qp(struct rdma_cm_id *id)
{
    ibv_destroy_qp(id->qp);
    id->qp = NULL;
}
