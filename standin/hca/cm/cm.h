/* SPDX-License-Identifier: Apache-2.0 */
/* Connection manager: the interface of librdmacm, for programs that connect QPs by IP addresses
 * (libfabric's verbs provider, rping, perftest with -R). A connection is a TCP connection between
 * the two programs. It carries the attributes of the QPs, and its end reports that one program is
 * gone. It works only between software HCAs, because real NICs use datagrams of QP 1 instead.
 *
 * There is no thread. A channel's descriptor is an epoll instance of its identifiers' sockets and
 * of an eventfd for events that do not come from a socket; rdma_get_cm_event() reads them. One lock
 * protects everything. */
#ifndef WEFT_HCA_CM_H
#define WEFT_HCA_CM_H

#include "context.h"

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>

enum { CM_PRIVATE_BYTES = 196, CM_MAGIC = 0x57434d31 };

enum cm_kind { CM_REQ = 1, CM_REP, CM_RTU, CM_REJ, CM_DREQ, CM_DREP };

/* The message on the socket; always complete, big-endian. */
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
    CM_CONNECTING,   /* the socket is connecting */
    CM_REQ_SENT,     /* the request was sent */
    CM_REP_RECEIVED, /* the reply arrived, and the program connects its QP itself */
    CM_REQ_EXPECTED, /* accepted a socket; its request is not complete yet */
    CM_REQ_REPORTED, /* the request was reported to the program */
    CM_REP_SENT,     /* the reply was sent */
    CM_CONNECTED,
    CM_DREQ_SENT,    /* this end has sent a disconnect request */
    CM_DISCONNECTED, /* the end was reported to the program */
};

struct cm_event {
    struct rdma_cm_event event;
    uint8_t private_data[CM_PRIVATE_BYTES];
    struct cm_event *next;
};

struct cm_channel {
    struct rdma_event_channel channel; /* .fd is the epoll instance */
    int wakeup;                        /* an eventfd that counts the events in the list */
    struct cm_event *first, **last;
    struct cm_channel *next;
};

struct cm_id {
    struct rdma_cm_id id;
    uint64_t number; /* number in epoll events */
    enum cm_state state;
    int fd; /* -1: no socket */
    bool own_channel;
    unsigned unacknowledged;
    struct rdma_conn_param own; /* parameters that this end has sent */
    uint32_t psn;
    struct cm_message in, peer; /* message being received; the peer's request or reply */
    size_t got;
    struct cm_id *listener; /* NULL after the request was reported to the program */
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

/* The caller of the following functions holds the lock, except for cm_wait_for_event(). */

/* Creates an identifier in state CM_IDLE. NULL with errno. */
struct cm_id *cm_id_new(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps);
struct cm_id *cm_id_find(uint64_t number);
/* Removes the identifier and its unread events, and frees it. */
void cm_id_destroy(struct cm_id *c);

/* Frees a channel with its descriptors. */
void cm_channel_destroy(struct cm_channel *channel);

/* Gives the identifier the device that has its source address. -1 with errno. */
int cm_find_device(struct cm_id *c);

/* Watches the identifier's socket for these epoll events; 0: stops watching. */
void cm_watch(struct cm_id *c, uint32_t events);

/* Queues an event for the program. `said`: the peer's message that belongs to it, or NULL. */
void cm_post_event(struct cm_id *c, enum rdma_cm_event_type what, int status,
                   const struct cm_message *said);
/* Moves the identifier's unread events to that channel; NULL: frees them. Returns their number. */
unsigned cm_move_events(struct cm_id *c, struct cm_channel *to);

/* Handles an epoll event of the identifier's socket. */
void cm_handle_socket(struct cm_id *c);

/* For identifiers without a channel of the program: waits for the event that ends the call just
 * made, whose result was `result`. The caller does not hold the lock. */
int cm_wait_for_event(struct cm_id *c, int result);

#endif
