/* SPDX-License-Identifier: Apache-2.0 */
/* Authentication of a hub and a member to each other:
 *
 *   hub     greeting  a random number (nonce)
 *   member  record    its own nonce, and which member of which job it is
 *   hub     proof     HMAC-SHA256 of all of these with the job's secret
 *   member  proof     the same with another purpose in the text
 *
 * The hub proves itself first, and only to a member that has not connected yet: a process that
 * merely listens on the hub's port gets nothing against which it could test guesses of the secret.
 * The connection's keys are derived from the secret and both nonces, so that no key is used twice.
 * Over AF_UNIX there is no secret, and the proofs are empty. Of sockets it knows only how to ask
 * the kernel about a peer. */
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

struct handshake_record {
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

/* Both return false when the system has no random numbers, or HMAC-SHA256 cannot be computed. */
bool handshake_make_greeting(const struct rendezvous *rendezvous,
                             struct handshake_greeting *greeting);
bool handshake_make_record(const struct rendezvous *rendezvous, struct handshake_record *record);

bool handshake_make_proof(const struct rendezvous *rendezvous, enum handshake_side side,
                          const struct handshake_greeting *greeting,
                          const struct handshake_record *record, struct handshake_proof *proof);

/* Whether the peer, which is `side`, knows the secret. */
bool handshake_check_proof(const struct rendezvous *rendezvous, enum handshake_side side,
                           const struct handshake_greeting *greeting,
                           const struct handshake_record *record,
                           const struct handshake_proof *proof);

/* Checks a member's record. Returns NULL when it is valid, else the reason why not. */
const char *handshake_check_record(const struct rendezvous *rendezvous,
                                   const struct handshake_record *record);

/* Initialises the connection with its keys. On success `wire` owns fd. */
weft_status handshake_finish(const struct rendezvous *rendezvous,
                             const struct handshake_greeting *greeting,
                             const struct handshake_record *record, int fd, bool connecting,
                             struct wire *wire);

/* Over AF_UNIX only: whether the peer's process belongs to this process's user. */
bool handshake_same_user(int fd);

/* Formats an IPv4 or IPv6 address and its port. */
void handshake_describe_address(const struct sockaddr_storage *address, char *text, size_t size);

/* Formats a peer: an address, or process and user. */
void handshake_describe_peer(int fd, char *text, size_t size);

#endif
