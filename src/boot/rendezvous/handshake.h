/* SPDX-License-Identifier: Apache-2.0 */
/* What a hub and a member say to each other before they trust each other, and how it is judged:
 *
 *   hub     greeting  a random number
 *   member  hello     its own random number, which member of which job it is
 *   hub     proof     HMAC-SHA256 with the job's secret over all of that
 *   member  proof     the same with another word in front
 *
 * The hub comes first, and only to a member that it lacks: whoever has merely taken the hub's port
 * gets nothing from which the secret could be guessed. The keys of the connection are made from the
 * secret and the two numbers, so that none is ever used twice. Over AF_UNIX there is no secret, and
 * the proofs are empty. Knows nothing of sockets but what it asks the kernel about their peers. */
#ifndef WEFT_BOOT_HANDSHAKE_H
#define WEFT_BOOT_HANDSHAKE_H

#include "boot/rendezvous/rendezvous.h"

#define HANDSHAKE_MAGIC UINT64_C(0x7472617473665457) /* "WTfstart" */

enum { HANDSHAKE_VERSION = 2 };

struct handshake_greeting {
    uint64_t magic;
    uint32_t version;
    uint32_t keyed;
    uint8_t nonce[32];
};

struct handshake_hello {
    uint64_t magic;
    uint32_t version;
    uint32_t member;
    uint32_t members;
    uint32_t zero;
    char job[64];
    uint8_t nonce[32];
};

struct handshake_proof {
    uint64_t magic;
    uint8_t mac[32];
};

enum handshake_side { HANDSHAKE_HUB, HANDSHAKE_MEMBER };

/* Both false when the system gives no random number, or HMAC-SHA256 cannot be computed. */
bool handshake_greet(const struct rendezvous *rendezvous, struct handshake_greeting *greeting);
bool handshake_answer(const struct rendezvous *rendezvous, struct handshake_hello *hello);

bool handshake_prove(const struct rendezvous *rendezvous, enum handshake_side side,
                     const struct handshake_greeting *greeting, const struct handshake_hello *hello,
                     struct handshake_proof *proof);

/* Whether the other side, `side`, knows the secret. */
bool handshake_proven(const struct rendezvous *rendezvous, enum handshake_side side,
                      const struct handshake_greeting *greeting,
                      const struct handshake_hello *hello, const struct handshake_proof *proof);

/* Judges what a would-be member says of itself; NULL when it is good, else why not. */
const char *handshake_judge(const struct rendezvous *rendezvous,
                            const struct handshake_hello *hello);

/* The connection, with its keys. Takes fd over when it succeeds. */
weft_status handshake_finish(const struct rendezvous *rendezvous,
                             const struct handshake_greeting *greeting,
                             const struct handshake_hello *hello, int fd, bool connecting,
                             struct wire *wire);

/* Over AF_UNIX only: the process at the other end belongs to our user. */
bool handshake_same_user(int fd);

/* An IPv4 or IPv6 address and its port, in words. */
void handshake_describe_address(const struct sockaddr_storage *address, char *text, size_t size);

/* The other end in words: an address, or process and user. */
void handshake_describe_peer(int fd, char *text, size_t size);

#endif
