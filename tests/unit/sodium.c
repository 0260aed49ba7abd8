/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for libsodium. It computes HMAC-SHA256 by libcrypto, for machines that have libcrypto
 * and not libsodium. */
#include <stdint.h>
#include <string.h>

struct state {
    const unsigned char *key;
    size_t key_bytes, bytes;
    unsigned char message[512];
};

unsigned char *HMAC(const void *type, const void *key, int key_bytes, const unsigned char *message,
                    size_t message_bytes, unsigned char *mac, unsigned *mac_bytes);
const void *EVP_sha256(void);
int sodium_init(void);
size_t crypto_auth_hmacsha256_statebytes(void);
int crypto_auth_hmacsha256_init(struct state *state, const unsigned char *key, size_t key_bytes);
int crypto_auth_hmacsha256_update(struct state *state, const unsigned char *message,
                                  unsigned long long bytes);
int crypto_auth_hmacsha256_final(struct state *state, unsigned char *mac);

int sodium_init(void)
{
    return 0;
}

size_t crypto_auth_hmacsha256_statebytes(void)
{
    return sizeof(struct state);
}

int crypto_auth_hmacsha256_init(struct state *state, const unsigned char *key, size_t key_bytes)
{
    *state = (struct state){.key = key, .key_bytes = key_bytes};
    return 0;
}

int crypto_auth_hmacsha256_update(struct state *state, const unsigned char *message,
                                  unsigned long long bytes)
{
    if (bytes > sizeof state->message - state->bytes)
        return -1;
    memcpy(state->message + state->bytes, message, bytes);
    state->bytes += bytes;
    return 0;
}

int crypto_auth_hmacsha256_final(struct state *state, unsigned char *mac)
{
    unsigned bytes = 32;
    return HMAC(EVP_sha256(), state->key, (int)state->key_bytes, state->message, state->bytes, mac,
                &bytes)
               ? 0
               : -1;
}
