/* SPDX-License-Identifier: Apache-2.0 */
/* Event channels of the connection manager. */
#include "cm/cm.h"

#include <errno.h>
#include <fcntl.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

pthread_mutex_t cm_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t cm_acknowledged = PTHREAD_COND_INITIALIZER;

enum { WAKEUP = 0 }; /* number of the eventfd in epoll events; identifiers have other numbers */

/* All channels. A program may destroy a channel while its thread waits for it; the thread then
 * checks here whether the channel still exists. */
static struct cm_channel *channels;

static struct cm_channel **find_channel(const struct cm_channel *channel)
{
    struct cm_channel **place = &channels;
    while (*place && *place != channel)
        place = &(*place)->next;
    return place;
}

PUBLIC struct rdma_event_channel *rdma_create_event_channel(void)
{
    struct cm_channel *channel = calloc(1, sizeof *channel);
    if (!channel)
        return NULL;
    channel->last = &channel->first;
    channel->wakeup = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    channel->channel.fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = WAKEUP};
    if (channel->wakeup >= 0 && channel->channel.fd >= 0 &&
        !epoll_ctl(channel->channel.fd, EPOLL_CTL_ADD, channel->wakeup, &event)) {
        pthread_mutex_lock(&cm_lock);
        channel->next = channels;
        channels = channel;
        pthread_mutex_unlock(&cm_lock);
        return &channel->channel;
    }
    cm_channel_destroy(channel);
    return NULL;
}

void cm_channel_destroy(struct cm_channel *channel)
{
    struct cm_channel **place = find_channel(channel);
    int e = errno;
    if (*place)
        *place = channel->next;
    if (channel->wakeup >= 0)
        close(channel->wakeup);
    if (channel->channel.fd >= 0)
        close(channel->channel.fd);
    free(channel);
    errno = e;
}

PUBLIC void rdma_destroy_event_channel(struct rdma_event_channel *public)
{
    pthread_mutex_lock(&cm_lock);
    cm_channel_destroy(HOLDER(public, struct cm_channel, channel));
    pthread_mutex_unlock(&cm_lock);
}

/* --- Unread events --- */

static void put_event(struct cm_channel *channel, struct cm_event *event)
{
    event->next = NULL;
    *channel->last = event;
    channel->last = &event->next;
    eventfd_write(channel->wakeup, 1);
}

static struct cm_event *remove_event(struct cm_channel *channel, struct cm_event **place)
{
    struct cm_event *event = *place;
    eventfd_t one;
    *place = event->next;
    if (!*place)
        channel->last = place;
    eventfd_read(channel->wakeup, &one);
    return event;
}

void cm_post_event(struct cm_id *c, enum rdma_cm_event_type what, int status,
                   const struct cm_message *said)
{
    struct cm_event *event = calloc(1, sizeof *event);
    if (!event)
        return;
    event->event = (struct rdma_cm_event){.id = &c->id, .event = what, .status = status};
    if (what == RDMA_CM_EVENT_CONNECT_REQUEST && c->listener)
        event->event.listen_id = &c->listener->id;
    if (said) {
        memcpy(event->private_data, said->private_data, sizeof event->private_data);
        /* The peer's initiator depth is what this end must serve, and vice versa. */
        event->event.param.conn = (struct rdma_conn_param){
            .private_data = said->private_bytes ? event->private_data : NULL,
            .private_data_len = said->private_bytes,
            .responder_resources = said->initiator_depth,
            .initiator_depth = said->responder_resources,
            .flow_control = said->flow_control,
            .retry_count = said->retry_count,
            .rnr_retry_count = said->rnr_retry_count,
            .srq = said->srq,
            .qp_num = be32toh(said->qpn)};
    }
    c->unacknowledged++;
    put_event(cm_channel_of(c), event);
}

unsigned cm_move_events(struct cm_id *c, struct cm_channel *to)
{
    unsigned moved = 0;
    struct cm_channel *from = cm_channel_of(c);
    for (struct cm_event **place = &from->first; *place;) {
        if ((*place)->event.id != &c->id) {
            place = &(*place)->next;
            continue;
        }
        struct cm_event *event = remove_event(from, place);
        moved++;
        if (to)
            put_event(to, event);
        else {
            c->unacknowledged--;
            free(event);
        }
    }
    return moved;
}

/* --- Reading events --- */

/* Polls the sockets of a channel once. */
static int poll_sockets(int fd, int timeout_ms)
{
    struct epoll_event events[16];
    int n = epoll_wait(fd, events, 16, timeout_ms);
    pthread_mutex_lock(&cm_lock);
    for (int i = 0; i < n; i++) {
        struct cm_id *c = events[i].data.u64 == WAKEUP ? NULL : cm_id_find(events[i].data.u64);
        if (c)
            cm_handle_socket(c);
    }
    pthread_mutex_unlock(&cm_lock);
    return n;
}

/* A thread whose channel was destroyed waits forever, as for a closed descriptor: programs (rping)
 * leave such a thread behind at exit and would take an error for a failure. */
static _Noreturn void wait_for_ever(void)
{
    for (;;)
        pause();
}

PUBLIC int rdma_get_cm_event(struct rdma_event_channel *public, struct rdma_cm_event **out)
{
    struct cm_channel *channel = HOLDER(public, struct cm_channel, channel);
    for (int timeout_ms = 0;;) {
        pthread_mutex_lock(&cm_lock);
        if (!*find_channel(channel)) {
            pthread_mutex_unlock(&cm_lock);
            wait_for_ever();
        }
        int fd = public->fd; /* only now: the channel may have been destroyed */
        struct cm_event *event = channel->first ? remove_event(channel, &channel->first) : NULL;
        /* from now on the identifier belongs to the program */
        if (event)
            cm_of(event->event.id)->listener = NULL;
        pthread_mutex_unlock(&cm_lock);
        if (event) {
            *out = &event->event;
            return 0;
        }
        int n = poll_sockets(fd, timeout_ms);
        if (n < 0)
            return -1;
        if (n)
            continue;
        if (fcntl(fd, F_GETFL) & O_NONBLOCK) {
            errno = EAGAIN;
            return -1;
        }
        timeout_ms = -1;
    }
}

PUBLIC int rdma_ack_cm_event(struct rdma_cm_event *event)
{
    if (!event) {
        errno = EINVAL;
        return -1;
    }
    pthread_mutex_lock(&cm_lock);
    cm_of(event->id)->unacknowledged--;
    pthread_cond_broadcast(&cm_acknowledged);
    pthread_mutex_unlock(&cm_lock);
    free(HOLDER(event, struct cm_event, event));
    return 0;
}

int cm_wait_for_event(struct cm_id *c, int result)
{
    struct rdma_cm_event *event;
    if (result || !c->own_channel)
        return result;
    if (rdma_get_cm_event(c->id.channel, &event))
        return -1;
    int status = event->status;
    if (status < 0)
        status = -status;
    else if (status)
        status = ECONNREFUSED;
    rdma_ack_cm_event(event);
    errno = status;
    return status ? -1 : 0;
}

/* For programs that poll channels with it. There are no RDMA sockets here, so all are plain
 * descriptors. */
PUBLIC int rpoll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    return poll(fds, count, timeout_ms);
}

PUBLIC const char *rdma_event_str(enum rdma_cm_event_type event)
{
    static const char *const names[] = {
        [RDMA_CM_EVENT_ADDR_RESOLVED] = "RDMA_CM_EVENT_ADDR_RESOLVED",
        [RDMA_CM_EVENT_ADDR_ERROR] = "RDMA_CM_EVENT_ADDR_ERROR",
        [RDMA_CM_EVENT_ROUTE_RESOLVED] = "RDMA_CM_EVENT_ROUTE_RESOLVED",
        [RDMA_CM_EVENT_ROUTE_ERROR] = "RDMA_CM_EVENT_ROUTE_ERROR",
        [RDMA_CM_EVENT_CONNECT_REQUEST] = "RDMA_CM_EVENT_CONNECT_REQUEST",
        [RDMA_CM_EVENT_CONNECT_RESPONSE] = "RDMA_CM_EVENT_CONNECT_RESPONSE",
        [RDMA_CM_EVENT_CONNECT_ERROR] = "RDMA_CM_EVENT_CONNECT_ERROR",
        [RDMA_CM_EVENT_UNREACHABLE] = "RDMA_CM_EVENT_UNREACHABLE",
        [RDMA_CM_EVENT_REJECTED] = "RDMA_CM_EVENT_REJECTED",
        [RDMA_CM_EVENT_ESTABLISHED] = "RDMA_CM_EVENT_ESTABLISHED",
        [RDMA_CM_EVENT_DISCONNECTED] = "RDMA_CM_EVENT_DISCONNECTED",
        [RDMA_CM_EVENT_DEVICE_REMOVAL] = "RDMA_CM_EVENT_DEVICE_REMOVAL",
        [RDMA_CM_EVENT_MULTICAST_JOIN] = "RDMA_CM_EVENT_MULTICAST_JOIN",
        [RDMA_CM_EVENT_MULTICAST_ERROR] = "RDMA_CM_EVENT_MULTICAST_ERROR",
        [RDMA_CM_EVENT_ADDR_CHANGE] = "RDMA_CM_EVENT_ADDR_CHANGE",
        [RDMA_CM_EVENT_TIMEWAIT_EXIT] = "RDMA_CM_EVENT_TIMEWAIT_EXIT"};
    const char *name = event < sizeof names / sizeof names[0] ? names[event] : NULL;
    return name ? name : "UNKNOWN EVENT";
}
