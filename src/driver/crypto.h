/* SPDX-License-Identifier: Apache-2.0 */
/* HMAC-SHA256 from OpenSSL's libcrypto or, if that is absent, from libsodium. The library is loaded
 * when a job needs it. */
#ifndef WEFT_DRIVER_CRYPTO_H
#define WEFT_DRIVER_CRYPTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft.h>

enum { CRYPTO_MAC_BYTES = 32 };

struct crypto_driver {
    const char *library; /* the file that was loaded */
    /* mac = HMAC-SHA256(key, message). False when the library refused. */
    bool (*hmac_sha256)(const void *key, size_t key_bytes, const void *message,
                        size_t message_bytes, uint8_t mac[CRYPTO_MAC_BYTES]);
};

/* Loads the library at the first call; it stays loaded. WEFT_ERR_UNSUPPORTED: the message has the
 * files that were tried and the loader's reasons. */
weft_status crypto_load(const struct crypto_driver **crypto);

/* Compares two codes in constant time. */
bool crypto_equal(const uint8_t a[CRYPTO_MAC_BYTES], const uint8_t b[CRYPTO_MAC_BYTES]);

#endif
