/* SPDX-License-Identifier: Apache-2.0 */
/* How members connect to a hub that listens where strangers can connect too. Over TCP both sides
 * prove by HMAC-SHA256 over fresh random numbers that they know the job's secret; over AF_UNIX the
 * kernel tells the other side's user. A stranger is dropped and logged, costs no more than its
 * descriptor, and nobody waits for it. Knows nothing of what the connections are used for. */
#ifndef WEFT_BOOT_MEET_H
#define WEFT_BOOT_MEET_H

#include "boot/wire.h"

#include <sys/socket.h>

struct meeting {
    const char *what; /* "TCP start"; for the log */
    int n;            /* members; the hub is member 0 */
    int me;
    const void *key; /* the job's secret; NULL: AF_UNIX, the user is checked instead */
    size_t key_bytes;
    char job[64]; /* must be equal at all members; padded with zeros */
    /* Asked now and then while waiting: not WEFT_OK ends the wait. May be NULL. */
    weft_status (*still_wanted)(void *argument);
    void *argument;
};

struct meeting_address {
    struct sockaddr_storage address;
    socklen_t bytes;
};

/* The hub: accepts at the listening socket until every member has come. wires: n of them, zeroed;
 * wires[0].fd is set to -1. The listening socket stays the caller's. */
weft_status meet_accept(const struct meeting *meeting, int listening, struct wire *wires);

/* A member: connects to the first of the addresses where the hub of this job answers, trying again
 * until it does. */
weft_status meet_connect(const struct meeting *meeting, const struct meeting_address *addresses,
                         int count, struct wire *wire);

/* What the hub says first, and what a member answers. */
struct meet_greeting {
    uint64_t magic;
    uint32_t version;
    uint32_t keyed;
    uint8_t nonce[32];
};

struct meet_hello {
    uint64_t magic;
    uint32_t version;
    uint32_t member;
    uint32_t members;
    uint32_t zero;
    char job[64];
    uint8_t nonce[32];
    uint8_t mac[32];
};

struct meet_welcome {
    uint64_t magic;
    uint8_t mac[32];
};

/* Judges a hello; NULL when it is good, else why not. For the hub, and for tests. */
const char *meet_judge(const struct meeting *meeting, const struct meet_greeting *greeting,
                       const struct meet_hello *hello);

#endif
