/* SPDX-License-Identifier: Apache-2.0 */
/* A PE's side of the protocol of hub.h: exchange, passing of descriptors, and news of the end. The
 * hub may be another PE, `weft run`, or this PE itself; a hub in a PE has no thread, it serves the
 * others while this PE is in a call. Knows nothing of how the connections came about. */
#ifndef WEFT_BOOT_MEMBER_H
#define WEFT_BOOT_MEMBER_H

#include "boot/boot.h"
#include "boot/hub/hub.h"

#include <pthread.h>
#include <stdatomic.h>

struct member {
    int n;          /* members */
    int me;         /* among them */
    const int *pes; /* PE number of each member, for sentences; NULL: the member's own number */
    const struct boot *boot; /* whose host names stand in sentences; may be NULL */
    bool launched;           /* the hub is `weft run`, and no member */
    bool is_hub;             /* then, and only then: */
    struct hub hub;
    struct wire *wires; /* one per member, [0] unused */
    bool *left;         /* who has said that it leaves after a clean end */

    struct wire inbox; /* the connection to the hub; where this is the hub only its queue is used */
    bool hub_left;
    int epoll;
    pthread_mutex_t lock; /* held by whoever uses the wires */
    _Atomic(weft_status) ended;
    bool inferred; /* `ended` was concluded from a closed connection; nobody has said why */
    char sentence[HUB_MOST_SENTENCE + 80];
};

/* Member 0 is the hub. wires: allocated by the caller, taken over, also when this fails: for the
 * hub one per member, for the others one, to the hub. */
weft_status member_init(struct member *member, int n, int me, const int *pes, struct wire *wires);

/* Where not all members have come, those that have are told why and the wires are closed and
 * freed. */
void member_refuse(struct wire *wires, int n, weft_status why);

/* The hub is `weft run`, at the other end of `fd`, which stays open after member_close(). */
weft_status member_init_launched(struct member *member, int n, int me, int fd);

weft_status member_allgather(struct member *member, const void *mine, void *all, size_t bytes);

/* Only over AF_UNIX; from: a member. to: the members that take it, NULL for all. */
weft_status member_share_fd(struct member *member, int from, int fd, const int *to, int count,
                            int *taken);

/* Tells everybody that the job ends, and why; later calls fail with it here, too. */
void member_fail(struct member *member, weft_status why, const char *sentence);
void member_abort(struct member *member, int code, const char *sentence);

weft_status member_check(struct member *member);

/* In a child of fork(): closes the child's copies of the descriptors and nothing else. */
void member_forked(struct member *member);

void member_close(struct member *member, bool clean);

#endif
