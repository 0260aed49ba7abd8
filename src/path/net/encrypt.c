/* SPDX-License-Identifier: Apache-2.0 */
/* Encrypts and decrypts messages, and derives their keys. See encrypt.h. The caller of
 * net_encrypt_message() and net_decrypt_message() holds the lock of path net. */
#include "path/net/encrypt.h"

#include "base/config.h"
#include "base/status.h"
#include "boot/agree.h"
#include "driver/crypto.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW_WORDS = NET_EARLY_MOST / 64 };

_Static_assert(sizeof(struct net_envelope) == 16, "as on the wire");
_Static_assert((int)CRYPTO_MAC_BYTES == (int)CIPHER_KEY_BYTES, "a code serves as a key");

/* Keys and counters for the messages to and from one peer. */
struct net_pair {
    uint8_t secret[CRYPTO_MAC_BYTES];
    uint64_t sent; /* counter of the last message to the peer */
    struct cipher *sending;
    uint64_t sending_key;        /* number of the key of `sending` */
    struct cipher *receiving[2]; /* keys receiving_key and receiving_key - 1, at number % 2 */
    uint64_t receiving_key;
    uint64_t received;             /* largest counter of the peer's messages */
    uint64_t window[WINDOW_WORDS]; /* bit per counter modulo NET_EARLY_MOST: it was received */
};

struct net_encryption {
    const struct crypto_driver *crypto;
    uint8_t private_key[CIPHER_POINT_BYTES];
    uint8_t (*public_keys)[CIPHER_POINT_BYTES]; /* [npes] */
    struct net_pair **pairs;                    /* [npes]; NULL before the first message */
};

/* ----------------------------------------------------------------------------------------- keys */

/* What a code is made of. `purpose` separates the secret of a pair from its keys and its check. */
struct key_text {
    char purpose[16];
    int32_t from, to;
    uint64_t number;
    uint8_t shared[CIPHER_POINT_BYTES];
    uint8_t public_keys[2][CIPHER_POINT_BYTES];
};

static bool derive_key(const struct net_encryption *encryption, const struct net_pair *pair,
                       const char *purpose, int from, int to, uint64_t number,
                       uint8_t key[CRYPTO_MAC_BYTES])
{
    struct key_text text = {.from = from, .to = to, .number = number};
    strncpy(text.purpose, purpose, sizeof text.purpose - 1);
    return encryption->crypto->hmac_sha256(pair->secret, sizeof pair->secret, &text, sizeof text,
                                           key);
}

/* Both PEs derive the same: the PE with the lower number comes first. */
static bool derive_secret_of_pair(struct path_common *net, int pe, struct net_pair *pair)
{
    const struct net_encryption *encryption = net->encryption;
    const char *secret = config_string(CONFIG_SECRET);
    int me = net->world->pe, low = pe < me ? pe : me, high = pe < me ? me : pe;
    struct key_text text = {.purpose = "weft net pair", .from = low, .to = high};
    memcpy(text.public_keys[0], encryption->public_keys[low], CIPHER_POINT_BYTES);
    memcpy(text.public_keys[1], encryption->public_keys[high], CIPHER_POINT_BYTES);
    bool good =
        cipher_shared_secret(encryption->private_key, encryption->public_keys[pe], text.shared) &&
        encryption->crypto->hmac_sha256(secret, strlen(secret), &text, sizeof text, pair->secret);
    explicit_bzero(&text, sizeof text);
    return good;
}

static struct cipher *open_key(struct path_common *net, const struct net_pair *pair, int pe,
                               uint64_t number, bool sending)
{
    uint8_t key[CRYPTO_MAC_BYTES];
    int me = net->world->pe;
    bool good = derive_key(net->encryption, pair, "weft net key", sending ? me : pe,
                           sending ? pe : me, number, key);
    struct cipher *cipher = good ? cipher_open(key, sending) : NULL;
    explicit_bzero(key, sizeof key);
    return cipher;
}

static void free_pair(struct net_pair *pair)
{
    if (!pair)
        return;
    cipher_close(pair->sending);
    cipher_close(pair->receiving[0]);
    cipher_close(pair->receiving[1]);
    explicit_bzero(pair->secret, sizeof pair->secret);
    free(pair);
}

/* The pair of this PE and `pe`, made at the first call. NULL if no memory is left, or the peer's
 * public key is none. */
static struct net_pair *get_pair(struct path_common *net, int pe)
{
    struct net_pair **place = &net->encryption->pairs[pe];
    if (likely(*place))
        return *place;
    struct net_pair *pair = calloc(1, sizeof *pair);
    if (!pair)
        return NULL;
    bool good = derive_secret_of_pair(net, pe, pair);
    pair->sending = good ? open_key(net, pair, pe, 0, true) : NULL;
    pair->receiving[0] = pair->sending ? open_key(net, pair, pe, 0, false) : NULL;
    if (pair->receiving[0])
        return *place = pair;
    free_pair(pair);
    return NULL;
}

/* -------------------------------------------------------------------------------- begin and end */

bool net_is_encryption_wanted(void)
{
    return config_bool(CONFIG_FABRIC_PROVIDER);
}

weft_status net_check_encryption(const struct path_world *world)
{
    const char *value = config_string(CONFIG_FABRIC_PROVIDER);
    if (cipher_load())
        return base_fail(WEFT_ERR_CONFIG,
                         "WEFT_FABRIC_PROVIDER is \"%s\", and encryption needs OpenSSL's libcrypto "
                         "(install libssl3): %s",
                         value, base_last_error());
    if (strcmp(world->boot->ops->name, "pmix") == 0 && !config_string(CONFIG_SECRET)[0])
        return base_fail(WEFT_ERR_CONFIG,
                         "WEFT_FABRIC_PROVIDER is \"%s\", but PMIx does not authenticate the keys "
                         "that PEs exchange: set WEFT_SECRET to the same text for every PE",
                         value);
    return WEFT_OK;
}

weft_status net_begin_encryption(struct path_common *net)
{
    size_t npes = (size_t)net->world->npes;
    struct net_encryption *encryption = calloc(1, sizeof *encryption);
    net->encryption = encryption;
    if (encryption) {
        encryption->public_keys = calloc(npes, sizeof *encryption->public_keys);
        encryption->pairs = calloc(npes, sizeof *encryption->pairs);
    }
    if (!encryption || !encryption->public_keys || !encryption->pairs)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for the keys of %zu PEs", npes);
    weft_status status = crypto_load(&encryption->crypto);
    if (!status && !net_random_bytes(encryption->private_key, sizeof encryption->private_key))
        status = base_fail(WEFT_ERR_SYSTEM, "getrandom: %s", strerror(errno));
    if (!status &&
        !cipher_public_key(encryption->private_key, encryption->public_keys[net->world->pe]))
        status = base_fail(WEFT_ERR_SYSTEM, "libcrypto made no key of X25519");
    return status;
}

void net_end_encryption(struct path_common *net)
{
    struct net_encryption *encryption = net->encryption;
    if (!encryption)
        return;
    for (int pe = 0; encryption->pairs && pe < net->world->npes; pe++)
        free_pair(encryption->pairs[pe]);
    free(encryption->pairs);
    free(encryption->public_keys);
    explicit_bzero(encryption->private_key, sizeof encryption->private_key);
    free(encryption);
    net->encryption = NULL;
}

/* The code by which `from` shows `to` that it has derived their secret. */
static bool make_check(struct path_common *net, int from, int to, uint8_t code[CRYPTO_MAC_BYTES])
{
    const struct net_pair *pair = get_pair(net, from == net->world->pe ? to : from);
    return pair && derive_key(net->encryption, pair, "weft net check", from, to, 0, code);
}

/* Each PE sends the next one a code, and checks that of the one before. */
static weft_status check_next_keys(struct path_common *net)
{
    const struct path_world *world = net->world;
    int npes = world->npes, before = (world->pe + npes - 1) % npes;
    uint8_t mine[CRYPTO_MAC_BYTES] = {0}, expected[CRYPTO_MAC_BYTES];
    uint8_t(*all)[CRYPTO_MAC_BYTES] = calloc((size_t)npes, sizeof *all);
    weft_status status =
        all ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %d PEs", npes);
    if (!status && !make_check(net, world->pe, (world->pe + 1) % npes, mine))
        status = base_fail(WEFT_ERR_SYSTEM, "libcrypto could not derive a key");
    status = boot_agree(world->boot, status);
    if (!status)
        status = world->boot->ops->allgather(world->boot, mine, all, sizeof *all);
    if (!status &&
        (!make_check(net, before, world->pe, expected) || !crypto_equal(all[before], expected)))
        status = base_fail(WEFT_ERR_CONFIG,
                           "path net: the keys of PE %d and PE %d for encryption differ: set "
                           "WEFT_SECRET to the same text for every PE",
                           before, world->pe);
    free(all);
    return boot_agree(world->boot, status);
}

weft_status net_exchange_keys(struct path_common *net, weft_status status)
{
    const struct path_world *world = net->world;
    uint8_t mine[CIPHER_POINT_BYTES];
    status = boot_agree(world->boot, status);
    if (status)
        return status;
    memcpy(mine, net->encryption->public_keys[world->pe], sizeof mine);
    status =
        world->boot->ops->allgather(world->boot, mine, net->encryption->public_keys, sizeof mine);
    status = boot_agree(world->boot, status);
    return status || world->npes == 1 ? status : check_next_keys(net);
}

/* -------------------------------------------------------------------------------------- sending */

static void make_nonce(uint64_t counter, uint8_t nonce[CIPHER_NONCE_BYTES])
{
    memset(nonce, 0, CIPHER_NONCE_BYTES);
    memcpy(nonce, &counter, sizeof counter);
}

/* Takes the key of the next message into use. False if no memory is left. */
static bool renew_sending_key(struct path_common *net, struct net_pair *pair, int pe)
{
    uint64_t number = (pair->sent + 1) >> NET_KEY_MESSAGES_LOG2;
    if (likely(number == pair->sending_key))
        return true;
    struct cipher *next = open_key(net, pair, pe, number, true);
    if (!next)
        return false;
    cipher_close(pair->sending);
    pair->sending = next;
    pair->sending_key = number;
    return true;
}

size_t net_encrypt_message(struct path_common *net, struct net_message *message)
{
    int pe = message->post.peer->pe;
    size_t bytes = net_message_head(message)->bytes;
    struct net_envelope *envelope = message->envelope;
    uint8_t nonce[CIPHER_NONCE_BYTES], *encrypted = (uint8_t *)(envelope + 1);
    if (message->encrypted_bytes)
        return message->encrypted_bytes;
    struct net_pair *pair = get_pair(net, pe);
    if (!pair || !renew_sending_key(net, pair, pe))
        return 0;
    *envelope = (struct net_envelope){.counter = ++pair->sent, .from = net->world->pe};
    make_nonce(envelope->counter, nonce);
    if (!cipher_encrypt(pair->sending, nonce, envelope, sizeof *envelope, message->bytes, bytes,
                        encrypted, encrypted + bytes))
        return 0;
    message->encrypted_bytes = (uint32_t)(bytes + NET_ENVELOPE_BYTES);
    return message->encrypted_bytes;
}

/* ------------------------------------------------------------------------------------ receiving */

/* Whether a message with this counter may still come, and has not. */
static bool is_new_counter(const struct net_pair *pair, uint64_t counter)
{
    uint64_t bit = counter % NET_EARLY_MOST;
    if (!counter || counter > pair->received)
        return counter != 0;
    return pair->received - counter < NET_EARLY_MOST && !(pair->window[bit / 64] >> bit % 64 & 1);
}

static void mark_received(struct net_pair *pair, uint64_t counter)
{
    uint64_t steps = counter > pair->received ? counter - pair->received : 0;
    if (steps >= NET_EARLY_MOST)
        memset(pair->window, 0, sizeof pair->window);
    for (uint64_t i = 1; i <= steps && steps < NET_EARLY_MOST; i++) {
        uint64_t bit = (pair->received + i) % NET_EARLY_MOST;
        pair->window[bit / 64] &= ~(UINT64_C(1) << bit % 64);
    }
    if (steps)
        pair->received = counter;
    pair->window[counter % NET_EARLY_MOST / 64] |= UINT64_C(1) << counter % 64;
}

/* Decrypts with the key of the counter's number, which is one of the last two or the next one; a
 * message with another number is not authentic. The next key is taken into use when a message with
 * it is authentic. */
static bool decrypt_with_key(struct path_common *net, struct net_pair *pair,
                             const struct net_envelope *envelope, size_t bytes, void *plain)
{
    uint64_t number = envelope->counter >> NET_KEY_MESSAGES_LOG2;
    bool next = number == pair->receiving_key + 1;
    const uint8_t *encrypted = (const uint8_t *)(envelope + 1);
    uint8_t nonce[CIPHER_NONCE_BYTES];
    struct cipher *cipher =
        next ? open_key(net, pair, envelope->from, number, false) : pair->receiving[number % 2];
    make_nonce(envelope->counter, nonce);
    bool good = cipher && cipher_decrypt(cipher, nonce, envelope, sizeof *envelope, encrypted,
                                         bytes, plain, encrypted + bytes);
    if (!next)
        return good;
    if (!good) {
        cipher_close(cipher);
        return false;
    }
    cipher_close(pair->receiving[number % 2]);
    pair->receiving[number % 2] = cipher;
    pair->receiving_key = number;
    return true;
}

size_t net_decrypt_message(struct path_common *net, struct net_message *message, size_t bytes)
{
    const struct net_envelope *envelope = message->envelope;
    if (bytes < NET_ENVELOPE_BYTES + sizeof(struct net_head) || envelope->from < 0 ||
        envelope->from >= net->world->npes)
        return 0;
    struct net_pair *pair = get_pair(net, envelope->from);
    size_t plain_bytes = bytes - NET_ENVELOPE_BYTES;
    if (!pair || !is_new_counter(pair, envelope->counter) ||
        !decrypt_with_key(net, pair, envelope, plain_bytes, message->bytes))
        return 0;
    mark_received(pair, envelope->counter);
    return net_message_head(message)->from == envelope->from ? plain_bytes : 0;
}
