/* SPDX-License-Identifier: Apache-2.0 */
/* See handshake.h. */
#include "boot/rendezvous/handshake.h"

#include "base/status.h"
#include "driver/crypto.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* The text that a proof authenticates. `purpose` separates the two directions, and proofs from
 * keys. */
struct proof_text {
    char purpose[16];
    uint8_t hub_nonce[32];
    uint8_t member_nonce[32];
    uint32_t member;
    uint32_t members;
    char job[64];
};

static bool make_mac(const struct rendezvous *rendezvous, const char *purpose,
                     const struct handshake_greeting *greeting,
                     const struct handshake_record *record, uint8_t mac[CRYPTO_MAC_BYTES])
{
    const struct crypto_driver *crypto;
    struct proof_text text = {.member = record->member, .members = record->members};
    if (crypto_load(&crypto))
        return false;
    snprintf(text.purpose, sizeof text.purpose, "%s", purpose);
    memcpy(text.hub_nonce, greeting->nonce, sizeof text.hub_nonce);
    memcpy(text.member_nonce, record->nonce, sizeof text.member_nonce);
    memcpy(text.job, record->job, sizeof text.job);
    return crypto->hmac_sha256(rendezvous->key, rendezvous->key_bytes, &text, sizeof text, mac);
}

static bool random_bytes(uint8_t *bytes, size_t count)
{
    return getrandom(bytes, count, 0) == (ssize_t)count;
}

bool handshake_make_greeting(const struct rendezvous *rendezvous,
                             struct handshake_greeting *greeting)
{
    *greeting = (struct handshake_greeting){
        .magic = HANDSHAKE_MAGIC, .version = HANDSHAKE_VERSION, .keyed = rendezvous->key != NULL};
    return random_bytes(greeting->nonce, sizeof greeting->nonce);
}

bool handshake_make_record(const struct rendezvous *rendezvous, struct handshake_record *record)
{
    *record = (struct handshake_record){.magic = HANDSHAKE_MAGIC,
                                        .version = HANDSHAKE_VERSION,
                                        .member = (uint32_t)rendezvous->me,
                                        .members = (uint32_t)rendezvous->n};
    memcpy(record->job, rendezvous->job, sizeof record->job);
    return random_bytes(record->nonce, sizeof record->nonce);
}

static const char *purpose_of(enum handshake_side side)
{
    return side == HANDSHAKE_HUB ? "weft hub" : "weft member";
}

bool handshake_make_proof(const struct rendezvous *rendezvous, enum handshake_side side,
                          const struct handshake_greeting *greeting,
                          const struct handshake_record *record, struct handshake_proof *proof)
{
    *proof = (struct handshake_proof){.magic = HANDSHAKE_MAGIC};
    return !rendezvous->key || make_mac(rendezvous, purpose_of(side), greeting, record, proof->mac);
}

bool handshake_check_proof(const struct rendezvous *rendezvous, enum handshake_side side,
                           const struct handshake_greeting *greeting,
                           const struct handshake_record *record,
                           const struct handshake_proof *proof)
{
    uint8_t mac[CRYPTO_MAC_BYTES];
    if (proof->magic != HANDSHAKE_MAGIC)
        return false;
    return !rendezvous->key || (make_mac(rendezvous, purpose_of(side), greeting, record, mac) &&
                                crypto_equal(mac, proof->mac));
}

const char *handshake_check_record(const struct rendezvous *rendezvous,
                                   const struct handshake_record *record)
{
    if (record->magic != HANDSHAKE_MAGIC)
        return "it does not speak Weft's protocol";
    if (record->version != HANDSHAKE_VERSION)
        return "it runs another version of Weft";
    if (memcmp(record->job, rendezvous->job, sizeof record->job) != 0)
        return "it belongs to another job";
    if (record->members != (uint32_t)rendezvous->n || record->member < 1 ||
        record->member >= (uint32_t)rendezvous->n)
        return "its number is not in this job";
    return NULL;
}

weft_status handshake_finish(const struct rendezvous *rendezvous,
                             const struct handshake_greeting *greeting,
                             const struct handshake_record *record, int fd, bool connecting,
                             struct wire *wire)
{
    uint8_t keys[2][WIRE_KEY_BYTES];
    if (rendezvous->key && (!make_mac(rendezvous, "weft key member", greeting, record, keys[0]) ||
                            !make_mac(rendezvous, "weft key hub", greeting, record, keys[1])))
        return base_fail(WEFT_ERR_SYSTEM, "HMAC-SHA256 could not be computed");
    wire_init(wire, fd, rendezvous->key ? (const uint8_t(*)[WIRE_KEY_BYTES])keys : NULL,
              connecting);
    return WEFT_OK;
}

/* -------------------------------------------------------------------------------- the peer */

bool handshake_same_user(int fd)
{
    struct ucred user;
    socklen_t bytes = sizeof user;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &bytes) == 0 && user.uid == geteuid();
}

void handshake_describe_address(const struct sockaddr_storage *address, char *text, size_t size)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    char host[INET6_ADDRSTRLEN] = "?";
    if (address->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
        snprintf(text, size, "%s:%d",
                 inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], host, sizeof host),
                 ntohs(v6->sin6_port));
    else if (address->ss_family == AF_INET)
        snprintf(text, size, "%s:%d", inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host),
                 ntohs(v4->sin_port));
    else if (address->ss_family == AF_INET6)
        snprintf(text, size, "[%s]:%d", inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host),
                 ntohs(v6->sin6_port));
    else
        snprintf(text, size, "?");
}

void handshake_describe_peer(int fd, char *text, size_t size)
{
    struct sockaddr_storage peer = {0};
    socklen_t bytes = sizeof peer;
    struct ucred user;
    socklen_t user_bytes = sizeof user;
    if (getpeername(fd, (struct sockaddr *)&peer, &bytes) < 0)
        snprintf(text, size, "a peer that is gone");
    else if (peer.ss_family == AF_INET || peer.ss_family == AF_INET6)
        handshake_describe_address(&peer, text, size);
    else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &user_bytes) == 0)
        snprintf(text, size, "process %d of user %d", (int)user.pid, (int)user.uid);
    else
        snprintf(text, size, "?");
}
