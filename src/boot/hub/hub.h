/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol by which the processes of a job find each other: members send frames to a hub, and
 * the hub answers. The hub of a job is `weft run`, or PE 0 when another launcher started it. The
 * first PE of a node is the hub of that node's PEs. This file is the hub's side: it gathers what
 * members exchange, passes descriptors on, and reports everything else as an event. It never waits.
 * Knows nothing of processes and of how connections are made. */
#ifndef WEFT_BOOT_HUB_H
#define WEFT_BOOT_HUB_H

#include "boot/hub/wire.h"

enum frame_type {
    /* from a member */
    FRAME_JOIN = 1, /* begins a job, on a connection that serves several jobs one after another */
    FRAME_PART,     /* payload: the member's part of an exchange; FRAME_ALL answers it when all
                       parts have arrived */
    FRAME_FAILED,   /* number: a weft_status, payload: why this member cannot continue */
    FRAME_ABORT,    /* number: exit status, payload: a sentence */
    FRAME_BYE,      /* number: 1 after weft_finalize, 0 without it; a hub that leaves sends it
                       too */
    FRAME_WHO,      /* asks which members have not reached the exchange; FRAME_MISSING answers it */
    /* from the hub */
    FRAME_ALL,     /* payload: all parts in the order of members */
    FRAME_END,     /* number: a weft_status, payload: why the job ends */
    FRAME_MISSING, /* payload: a sentence */
    /* In both directions, with a descriptor. number: the member that shares it. payload, to the
     * hub: the members that get it (int32_t each); empty: all others. */
    FRAME_FD = 1u << 31,
};

enum { HUB_MOST_ANSWER = 262144, HUB_MOST_SENTENCE = 400 };

/* Bytes from each member in one slice of an exchange. */
static inline size_t hub_slice(int members)
{
    return HUB_MOST_ANSWER / (size_t)members + 1;
}

/* Any function below may call them. A sentence has at most HUB_MOST_SENTENCE bytes and no control
 * characters. */
struct hub_events {
    void (*joined)(void *owner, int member, pid_t sender);
    void (*left)(void *owner, int member, bool clean);
    void (*aborted)(void *owner, int member, int code, const char *sentence);
    /* the member reported a failure, or it violated the protocol */
    void (*failed)(void *owner, int member, weft_status status, const char *sentence);
    void (*lost)(void *owner, int member); /* the member's connection is closed; the owner must
                                              close its wire */
    void (*unsent_changed)(void *owner, int member); /* wire->unsent has become empty or non-empty,
                                                        or the wire is starved */
    /* Sends frames to members that are connected to another process. May be NULL. */
    void (*send)(void *owner, int member, enum frame_type type, int number, const void *payload,
                 size_t bytes);
};

struct hub {
    int n;
    const int *pes;     /* PE number of each member; NULL: the member's own number */
    struct wire *wires; /* one per member; fd is -1 where there is no connection */
    struct wire *local; /* queue of frames for member 0 when it is in this process; else NULL */
    const struct hub_events *events;
    void *owner;
    bool *in_job; /* members that have joined and not left */
    bool *gathering;
    int parts;
    size_t part_bytes;
    char *answer; /* result of the exchange in progress; NULL between two exchanges */
};

/* joined: connected members are in the job; else each must send FRAME_JOIN. */
weft_status hub_init(struct hub *hub, int n, struct wire *wires, bool joined);
void hub_free(struct hub *hub); /* does not free the wires */

/* Reads and handles what has arrived from a member. */
void hub_read(struct hub *hub, int member);

/* Handles the complete frames of a member's wire; hub_read() calls it. For tests. */
void hub_act(struct hub *hub, int member);

/* Handles one frame and frees it. */
void hub_handle(struct hub *hub, int member, struct wire_frame *frame);

/* Sends unsent frames; called when the member's socket may accept data again. */
void hub_flush(struct hub *hub, int member);

void hub_send(struct hub *hub, int to, enum frame_type type, int number, const void *payload,
              size_t bytes, int fd);

/* Drops an exchange that not all members have reached. */
void hub_forget_exchange(struct hub *hub);

/* "PEs 2, 5 did not reach the exchange" */
void hub_describe_missing(const struct hub *hub, int asking, char *text, size_t size);

#endif
