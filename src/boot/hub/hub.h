/* SPDX-License-Identifier: Apache-2.0 */
/* The one protocol by which the processes of a job find each other: members talk to a hub, the hub
 * answers. The hub of a job is `weft run`, or PE 0 when another launcher has started it; the first
 * PE of a node is the hub of that node's PEs. Here is the hub's side: it gathers what members
 * exchange, passes descriptors on, and reports everything else as an event. It never waits. Knows
 * nothing of processes and of how the connections came about. */
#ifndef WEFT_BOOT_HUB_H
#define WEFT_BOOT_HUB_H

#include "boot/hub/wire.h"

enum frame_type {
    /* from a member */
    FRAME_JOIN = 1, /* begins a job, over a connection that serves several one after another */
    FRAME_PART,     /* payload: its part of an exchange; answered by FRAME_ALL when all are there */
    FRAME_FAILED,   /* number: a weft_status, payload: why this member cannot go on */
    FRAME_ABORT,    /* number: exit status, payload: a sentence */
    FRAME_BYE,      /* number: 1 after weft_finalize, 0 without; also from a hub that leaves */
    FRAME_WHO,      /* asks who has not come to the exchange; answered by FRAME_MISSING */
    /* from the hub */
    FRAME_ALL,     /* payload: all parts in the order of members */
    FRAME_END,     /* number: a weft_status, payload: why the job ends */
    FRAME_MISSING, /* payload: a sentence */
    /* Both ways, with a descriptor; number: the member that shares it; payload, to the hub: the
     * members that shall have it (int32_t each), none: all others. */
    FRAME_FD = 1u << 31,
};

enum { HUB_MOST_ANSWER = 262144, HUB_MOST_SENTENCE = 400 };

/* An exchange is cut into slices of so many bytes from each member. */
static inline size_t hub_slice(int members)
{
    return HUB_MOST_ANSWER / (size_t)members + 1;
}

/* All may be called from within any function below. A sentence is not longer than
 * HUB_MOST_SENTENCE and holds no control characters. */
struct hub_events {
    void (*joined)(void *owner, int member, pid_t sender);
    void (*left)(void *owner, int member, bool clean);
    void (*aborted)(void *owner, int member, int code, const char *sentence);
    /* It says that it failed, or it broke the protocol. */
    void (*failed)(void *owner, int member, weft_status status, const char *sentence);
    void (*lost)(void *owner, int member); /* its connection is closed; hub_close_member() it */
    void (*room)(void *owner, int member); /* wire->unsent has come to be empty, or not to be */
    /* Takes frames for members that have no wire here, but somewhere else. May be NULL. */
    void (*send)(void *owner, int member, enum frame_type type, int number, const void *payload,
                 size_t bytes);
};

struct hub {
    int n;
    const int *pes;     /* PE number of each member; NULL: the member's own number */
    struct wire *wires; /* one per member; fd is -1 where there is no connection */
    struct wire *local; /* where frames for member 0 go when it is in this process; else NULL */
    const struct hub_events *events;
    void *owner;
    bool *in_job; /* which members have joined and not left */
    bool *gathering;
    int parts;
    size_t part_bytes;
    char *answer; /* NULL between two exchanges */
};

/* joined: members are in the job by being connected; else each must send FRAME_JOIN. */
weft_status hub_init(struct hub *hub, int n, struct wire *wires, bool joined);
void hub_free(struct hub *hub); /* not the wires */

/* Takes in what has arrived from a member. */
void hub_read(struct hub *hub, int member);

/* Acts on the complete frames of its wire; hub_read() does so. For tests. */
void hub_act(struct hub *hub, int member);

/* Acts on one frame, which it takes over. */
void hub_handle(struct hub *hub, int member, struct wire_frame *frame);

/* There may be room again. */
void hub_flush(struct hub *hub, int member);

void hub_send(struct hub *hub, int to, enum frame_type type, int number, const void *payload,
              size_t bytes, int fd);

/* Forgets the exchange to which not all have come. */
void hub_forget_exchange(struct hub *hub);

/* "PEs 2, 5 did not reach the exchange" */
void hub_describe_missing(const struct hub *hub, int asking, char *text, size_t size);

#endif
