/* SPDX-License-Identifier: Apache-2.0 */
/* A PE's side of the protocol of hub.h: exchanges, passing of descriptors, and reports of the end
 * of the job. The hub may be another PE, `weft run`, or this PE itself. A hub in a PE has no
 * thread; it serves the others while this PE is in a call. Knows nothing of how connections are
 * made. */
#ifndef WEFT_BOOT_MEMBER_H
#define WEFT_BOOT_MEMBER_H

#include "boot/boot.h"
#include "boot/hub/hub.h"

#include <pthread.h>
#include <stdatomic.h>

struct member {
    int n;                   /* number of members */
    int me;                  /* index of this PE among them */
    const int *pes;          /* PE number of each member, for sentences; NULL: equal to its index */
    const struct boot *boot; /* source of host names for sentences; may be NULL */
    bool launched;           /* the hub is `weft run`, which is not a member */
    bool is_hub;             /* this PE is the hub; only then the following three are used */
    struct hub hub;
    struct wire *wires; /* one per member, [0] unused */
    bool *left;         /* per member: it has sent FRAME_BYE after a clean end */

    struct wire inbox; /* connection to the hub; in the hub itself only its queue is used */
    bool hub_left;
    int epoll;
    pthread_mutex_t lock; /* held by the thread that uses the wires */
    _Atomic(weft_status) ended;
    bool inferred; /* `ended` was inferred from a closed connection; no PE has reported a reason */
    char sentence[HUB_MOST_SENTENCE + 80];
};

/* Member 0 is the hub. wires: allocated by the caller; this function owns them, also when it fails.
 * The hub passes one wire per member, the others one wire, to the hub. */
weft_status member_init(struct member *member, int n, int me, const int *pes, struct wire *wires);

/* For a hub when not all members have connected: reports the reason to those that have, and closes
 * and frees the wires. */
void member_refuse(struct wire *wires, int n, weft_status why);

/* The hub is `weft run`, at the other end of `fd`, which stays open after member_close(). */
weft_status member_init_launched(struct member *member, int n, int me, int fd);

weft_status member_allgather(struct member *member, const void *mine, void *all, size_t bytes);

/* Only over AF_UNIX. from: a member. to: the members that get the descriptor, NULL for all. */
weft_status member_share_fd(struct member *member, int from, int fd, const int *to, int count,
                            int *taken);

/* Report to all members that the job ends, and why. Later calls here fail with that reason, too. */
void member_fail(struct member *member, weft_status why, const char *sentence);
void member_abort(struct member *member, int code, const char *sentence);

weft_status member_check(struct member *member);

/* In a child of fork(): closes the child's copies of the descriptors and does nothing else. */
void member_forked(struct member *member);

void member_close(struct member *member, bool clean);

#endif
