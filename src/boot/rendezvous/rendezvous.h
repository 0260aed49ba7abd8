/* SPDX-License-Identifier: Apache-2.0 */
/* How members connect to a hub that listens where others can connect too. Over TCP both sides prove
 * that they know the job's secret (handshake.h); over AF_UNIX the kernel tells the other side's
 * user. Whoever does not belong to the job is dropped and logged, costs no more than a descriptor,
 * and nobody waits for it. Knows nothing of what the connections are used for. */
#ifndef WEFT_BOOT_RENDEZVOUS_H
#define WEFT_BOOT_RENDEZVOUS_H

#include "boot/hub/wire.h"

#include <sys/socket.h>

struct rendezvous {
    const char *what; /* "TCP start"; for the log */
    int n;            /* members; the hub is member 0 */
    int me;
    const void *key; /* the job's secret; NULL: AF_UNIX, the user is checked instead */
    size_t key_bytes;
    const char *secret;       /* what the secret is called in sentences; NULL: WEFT_SECRET */
    const char *const *names; /* of the members, for sentences; NULL: their numbers */
    bool many_addresses;      /* members reach the hub at several, and hang up at all but one */
    char job[64];             /* must be equal at all members; padded with zeros */
    /* Asked now and then while waiting: not WEFT_OK ends the wait. May be NULL. */
    weft_status (*still_wanted)(void *argument);
    void *argument;
};

struct rendezvous_address {
    struct sockaddr_storage address;
    socklen_t bytes;
};

/* What the side that has connected gets to prove itself, before it is dropped. */
enum { RENDEZVOUS_SECONDS = 5 };

/* The hub: accepts at the listening socket until every member has come. wires: n of them, zeroed;
 * fd is -1 at wires[0], and, when this fails, at those that have not come: the others are to be
 * told why. The listening socket stays the caller's. */
weft_status rendezvous_accept(const struct rendezvous *rendezvous, int listening,
                              struct wire *wires);

/* A member: connects to whichever of the addresses the hub of this job answers at. All are tried
 * side by side and again, until one does or WEFT_BOOT_LIMIT has passed. */
weft_status rendezvous_connect(const struct rendezvous *rendezvous,
                               const struct rendezvous_address *addresses, int count,
                               struct wire *wire);

/* Of a connected socket: no delay, dead peers noticed. For both sides. */
void rendezvous_tune(int fd);

#endif
