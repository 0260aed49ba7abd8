/* SPDX-License-Identifier: Apache-2.0 */
/* Members connected to one of them, the hub: exchange, passing of descriptors, and news of the end.
 * The hub has no thread; it serves the others while it is itself in a call. Used for the job over
 * TCP and for the PEs of a node over AF_UNIX. Knows nothing of how the connections came about. */
#ifndef WEFT_BOOT_STAR_H
#define WEFT_BOOT_STAR_H

#include "boot/wire.h"

#include <pthread.h>
#include <stdatomic.h>

struct star {
    int n;              /* members */
    int me;             /* 0 is the hub */
    const int *pes;     /* PE number of each member, for sentences; NULL: the member's own number */
    struct wire *wires; /* hub: one per member, [0] unused; others: one, to the hub */
    bool *left;         /* who has said that it leaves after a clean end */
    int epoll;
    pthread_mutex_t lock; /* held by whoever uses the wires */
    _Atomic(weft_status) ended;
    bool inferred; /* that from a closed connection; nobody has told us why */
    char sentence[480];
};

/* wires: allocated by the caller, taken over by the star, also when this fails. */
weft_status star_init(struct star *star, int n, int me, const int *pes, struct wire *wires);

weft_status star_allgather(struct star *star, const void *mine, void *all, size_t bytes);

/* Only over AF_UNIX; from: a member. */
weft_status star_share_fd(struct star *star, int from, int fd, int *taken);

/* Tells everybody that the job ends, and why; later calls fail with it here, too. */
void star_end(struct star *star, weft_status why, const char *sentence);

weft_status star_check(struct star *star);

/* In a child of fork(): closes the child's copies of the descriptors and nothing else. */
void star_forked(struct star *star);
void star_close(struct star *star, bool clean);

#endif
