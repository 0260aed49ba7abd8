/* SPDX-License-Identifier: Apache-2.0 */
/* AES-256-GCM and X25519 from OpenSSL's libcrypto, version 1.1.1 or later. The library is loaded
 * when a job encrypts. Contexts are not thread-safe. */
#ifndef WEFT_DRIVER_CIPHER_H
#define WEFT_DRIVER_CIPHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft.h>

enum {
    CIPHER_KEY_BYTES = 32,
    CIPHER_NONCE_BYTES = 12,
    CIPHER_TAG_BYTES = 16,
    CIPHER_POINT_BYTES = 32, /* a private key, a public key or a shared secret of X25519 */
};

/* AES-256-GCM with one key in one direction. */
struct cipher;

/* Loads the library at the first call; it stays loaded. WEFT_ERR_UNSUPPORTED: the message names
 * what is missing. The other functions may be called after it has succeeded. */
weft_status cipher_load(void);

/* Returns NULL if no memory is left. */
struct cipher *cipher_open(const uint8_t key[CIPHER_KEY_BYTES], bool encrypts);
void cipher_close(struct cipher *cipher);

/* Encrypts `bytes` bytes and authenticates them together with `clear`. The caller passes each
 * nonce once for a key. False: the library refused. */
bool cipher_encrypt(struct cipher *cipher, const uint8_t nonce[CIPHER_NONCE_BYTES],
                    const void *clear, size_t clear_bytes, const void *plain, size_t bytes,
                    void *encrypted, uint8_t tag[CIPHER_TAG_BYTES]);

/* Decrypts. False: key, nonce, clear, encrypted and tag do not belong together; the contents of
 * `plain` must not be used. */
bool cipher_decrypt(struct cipher *cipher, const uint8_t nonce[CIPHER_NONCE_BYTES],
                    const void *clear, size_t clear_bytes, const void *encrypted, size_t bytes,
                    void *plain, const uint8_t tag[CIPHER_TAG_BYTES]);

/* The public key of a private one, which is any 32 random bytes. False: the library refused. */
bool cipher_public_key(const uint8_t private_key[CIPHER_POINT_BYTES],
                       uint8_t public_key[CIPHER_POINT_BYTES]);

/* The secret that the owners of the two private keys share. False: `theirs` is no key. */
bool cipher_shared_secret(const uint8_t private_key[CIPHER_POINT_BYTES],
                          const uint8_t theirs[CIPHER_POINT_BYTES],
                          uint8_t secret[CIPHER_POINT_BYTES]);

#endif
