/* SPDX-License-Identifier: Apache-2.0 */
/* Encryption of path net's messages (WEFT_FABRIC_PROVIDER=...+encrypted). Each message is encrypted
 * and authenticated by AES-256-GCM with a key of its sender and receiver, which no other PE and no
 * reader of the network knows.
 *
 * Keys: each PE makes a key pair of X25519 for this job. The PEs exchange the public keys at the
 * start, which authenticates them. From the secret that two PEs share, WEFT_SECRET and both public
 * keys, HMAC-SHA256 derives a key for each direction. Two messages never have the same key and
 * nonce: the nonce counts the messages of that direction, a retransmission is a new message, and
 * each 2^22 messages have a key of their own.
 *
 * The receiver drops a message that is not as its sender made it, that is for another PE or of
 * another job, or that it has received before. With encryption no memory is registered for remote
 * access: all data go in messages. */
#ifndef WEFT_PATH_NET_ENCRYPT_H
#define WEFT_PATH_NET_ENCRYPT_H

#include "driver/cipher.h"
#include "path/net/net.h"

enum {
    NET_ENVELOPE_BYTES = sizeof(struct net_envelope) + CIPHER_TAG_BYTES,
    NET_WIRE_BYTES = NET_MESSAGE_BYTES + NET_ENVELOPE_BYTES, /* of an encrypted message at most */
    NET_KEY_MESSAGES_LOG2 = 22, /* Each key encrypts 2^22 messages of a direction. */
};

/* Whether the configuration asks for encryption; whether this PE can encrypt: WEFT_ERR_CONFIG says
 * what is missing. */
bool net_is_encryption_wanted(void);
weft_status net_check_encryption(const struct path_world *world);

/* Makes this PE's key pair for the job; from now on new messages are encrypted. */
weft_status net_begin_encryption(struct path_common *net);

/* Exchanges the public keys, and checks that each PE and the next one derive the same keys.
 * Collective over the job; `status` is the outcome of the last step at this PE. */
weft_status net_exchange_keys(struct path_common *net, weft_status status);

/* Encrypts the message into its envelope, unless it was and has not been posted since. Returns the
 * bytes of the envelope; 0 if no memory is left. */
size_t net_encrypt_message(struct path_common *net, struct net_message *message);

/* Decrypts the envelope of `bytes` bytes into the message. Returns the bytes of the message; 0 if
 * it must be dropped. */
size_t net_decrypt_message(struct path_common *net, struct net_message *message, size_t bytes);

void net_end_encryption(struct path_common *net);

#endif
