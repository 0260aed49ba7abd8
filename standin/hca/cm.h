/* SPDX-License-Identifier: Apache-2.0 */
/* The connection manager: the names of librdmacm for programs that connect their queue pairs by IP
 * addresses (libfabric's provider verbs, rping, perftest with -R). A connection is a TCP connection
 * between the two programs, over which they tell each other what they need to know of the queue
 * pairs, and which says, by its end, that one of them is gone. It speaks to its own kind alone:
 * adapters use datagrams of queue pair 1.
 *
 * There is no thread. The descriptor of a channel is an epoll instance of the sockets of its
 * identifiers and of a bell for events that did not come by a socket; rdma_get_cm_event() reads
 * them. One lock for all of it. */
#ifndef WEFT_HCA_CM_H
#define WEFT_HCA_CM_H

#include "context.h"

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>

enum { CM_PRIVATE_BYTES = 196, CM_MAGIC = 0x57434d31 };

enum cm_kind { CM_REQ = 1, CM_REP, CM_RTU, CM_REJ, CM_DREQ, CM_DREP };

/* What goes over the socket: all of it each time, big-endian. */
struct cm_message {
    uint32_t magic, kind;
    uint32_t qpn, psn;
    uint16_t lid, mtu; /* mtu: enum ibv_mtu */
    uint8_t gid[16];
    uint8_t responder_resources, initiator_depth, retry_count, rnr_retry_count;
    uint8_t flow_control, srq, reserved, private_bytes;
    uint8_t private_data[CM_PRIVATE_BYTES];
};

enum cm_state {
    CM_IDLE,
    CM_LISTENING,
    CM_CONNECTING,   /* the socket connects */
    CM_REQ_SENT,     /* the request has gone */
    CM_REP_RECEIVED, /* the reply came, and the program connects its queue pair itself */
    CM_REQ_EXPECTED, /* a socket that was accepted; its request has not come whole */
    CM_REQ_REPORTED, /* the program has been told of the request */
    CM_REP_SENT,     /* the reply has gone */
    CM_CONNECTED,
    CM_DREQ_SENT,    /* this end has said so */
    CM_DISCONNECTED, /* the program has been told that it is */
};

struct cm_event {
    struct rdma_cm_event event;
    uint8_t private_data[CM_PRIVATE_BYTES];
    struct cm_event *next;
};

struct cm_channel {
    struct rdma_event_channel channel; /* .fd: of epoll */
    int bell; /* an eventfd: its count is that of `first` and those behind it */
    struct cm_event *first, **last;
    struct cm_channel *next;
};

struct cm_id {
    struct rdma_cm_id id;
    uint64_t number; /* as epoll knows it */
    enum cm_state state;
    int fd; /* -1: none */
    bool own_channel;
    unsigned unacknowledged;
    struct rdma_conn_param own; /* what this end has said */
    uint32_t psn;
    struct cm_message in, peer; /* being read; the peer's request or reply */
    size_t got;
    struct cm_id *listener; /* until the program has been told of the request */
    struct cm_id *next;
    char own_private[CM_PRIVATE_BYTES];
};

extern pthread_mutex_t cm_lock;
extern pthread_cond_t cm_acknowledged;

static inline struct cm_id *cm_of(struct rdma_cm_id *id)
{
    return HOLDER(id, struct cm_id, id);
}

static inline struct cm_channel *cm_channel_of(const struct cm_id *c)
{
    return HOLDER(c->id.channel, struct cm_channel, channel);
}

/* What follows: lock held, but for cm_wait_for_event(). */

/* An identifier more, in no state; NULL with errno. */
struct cm_id *cm_id_new(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps);
struct cm_id *cm_id_find(uint64_t number);
/* Takes the identifier out of everything, with the events that nobody has got, and frees it. */
void cm_id_destroy(struct cm_id *c);

/* Frees it, with its descriptors. */
void cm_channel_destroy(struct cm_channel *channel);

/* The device that has the identifier's source address becomes its device. -1 with errno. */
int cm_find_device(struct cm_id *c);

/* Watches the identifier's socket for these events of epoll; 0: no longer. */
void cm_watch(struct cm_id *c, uint32_t events);

/* Tells the program. `said`: the peer's message that goes with it, NULL: none. */
void cm_post_event(struct cm_id *c, enum rdma_cm_event_type what, int status,
                   const struct cm_message *said);
/* Events on their way to the program that are of this identifier go to that channel, NULL: nowhere.
 * How many. */
unsigned cm_move_events(struct cm_id *c, struct cm_channel *to);

/* Something came by the identifier's socket. */
void cm_handle_socket(struct cm_id *c);

/* For identifiers without a channel of the program's: waits for the event that ends the call just
 * made, whose result was `result`. Without the lock. */
int cm_wait_for_event(struct cm_id *c, int result);

#endif
