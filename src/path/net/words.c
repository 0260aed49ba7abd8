/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets that protect a PE's endpoint against other programs on the network: the keys of
 * registered memory, and for each ordered pair of PEs an authentication word in its messages and
 * the initial sequence numbers. All of them come from the kernel's random source. Words and numbers
 * are derived from one key of the job, which the PEs exchange at the start (open.c): a word that
 * leaks serves for one pair and one direction. Without encryption (encrypt.h) a program that reads
 * the network traffic reads the words too (docs/security.md). */
#include "path/net/net.h"

#include "base/log.h"
#include "base/siphash.h"
#include "base/status.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

bool net_random_bytes(void *bytes, size_t count)
{
    return getrandom(bytes, count, 0) == (ssize_t)count;
}

int net_random_key(const struct net_rail *rail, uint64_t *key)
{
    size_t bytes = rail->info->domain_attr->mr_key_size;
    if (!net_random_bytes(key, sizeof *key))
        return -errno;
    if (bytes < sizeof *key)
        *key &= (UINT64_C(1) << 8 * bytes) - 1;
    return 0;
}

static uint64_t derive_secret(const uint8_t key[SIPHASH_KEY_BYTES], int from, int to, int what)
{
    const int32_t text[] = {from, to, what};
    return siphash(key, text, sizeof text);
}

static struct net_session derive_session(const uint8_t key[SIPHASH_KEY_BYTES], int from, int to)
{
    enum { WORD, REQUESTS, ANSWERS };
    return (struct net_session){.auth_word = derive_secret(key, from, to, WORD),
                                .first_request = derive_secret(key, from, to, REQUESTS),
                                .first_answer = derive_secret(key, from, to, ANSWERS)};
}

void net_derive_session(const struct path_common *net, struct net_peer *peer)
{
    peer->outgoing = derive_session(net->start.key, net->world->pe, peer->pe);
    peer->incoming = derive_session(net->start.key, peer->pe, net->world->pe);
}

uint64_t net_derive_incoming_word(const struct path_common *net, int pe)
{
    return derive_session(net->start.key, pe, net->world->pe).auth_word;
}
