/* SPDX-License-Identifier: Apache-2.0 */
/* How members connect to a hub whose socket other processes can reach too. Over TCP hub and member
 * prove to each other that they know the job's secret (handshake.h). Over AF_UNIX the kernel
 * reports the peer's user. The hub drops and logs an unauthenticated peer, which costs it only a
 * descriptor; no member waits for such a peer. Knows nothing of how the connections are used. */
#ifndef WEFT_BOOT_RENDEZVOUS_H
#define WEFT_BOOT_RENDEZVOUS_H

#include "boot/hub/wire.h"

#include <sys/socket.h>

struct rendezvous {
    const char *what; /* "TCP start"; for the log */
    int n;            /* number of members; the hub is member 0 */
    int me;
    const void *key; /* the job's secret; NULL: AF_UNIX, where the user is checked instead */
    size_t key_bytes;
    const char *secret;       /* name of the secret in sentences; NULL: WEFT_SECRET */
    const char *const *names; /* names of the members in sentences; NULL: their numbers */
    bool many_addresses;      /* members reach the hub at several addresses, and close all
                                 connections but one */
    bool limit_from_last;     /* the limit of time counts from the last member that has come */
    char job[64];             /* must be equal at all members; padded with zeros */
    /* Called at intervals while waiting; a status other than WEFT_OK ends the wait. May be NULL. */
    weft_status (*still_wanted)(void *argument);
    void *argument;
};

struct rendezvous_address {
    struct sockaddr_storage address;
    socklen_t bytes;
};

/* Seconds in which a peer must authenticate itself before it is dropped. */
enum { RENDEZVOUS_SECONDS = 5 };

/* The hub: accepts connections at the listening socket until every member has connected. wires: n
 * of them, zeroed. wires[0] gets fd -1. On failure members that have not connected also have fd -1;
 * the caller reports the reason to the others. The caller keeps the listening socket. */
weft_status rendezvous_accept(const struct rendezvous *rendezvous, int listening,
                              struct wire *wires);

/* A member: connects to the address at which the hub of this job answers. It tries all addresses
 * concurrently and repeatedly, until one succeeds or WEFT_BOOT_LIMIT has passed. */
weft_status rendezvous_connect(const struct rendezvous *rendezvous,
                               const struct rendezvous_address *addresses, int count,
                               struct wire *wire);

/* Sets options of a connected socket, for hub and member: no delay, detection of dead peers. */
void rendezvous_tune(int fd);

#endif
