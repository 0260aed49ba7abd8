/* SPDX-License-Identifier: Apache-2.0 */
/* HMAC-SHA256 of a library that is loaded when a job needs it: OpenSSL's libcrypto, else libsodium.
 * Knows nothing of what is authenticated. */
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

/* Loads it at the first call; stays loaded. WEFT_ERR_UNSUPPORTED names the files that were tried
 * and what the loader said. */
weft_status crypto_load(const struct crypto_driver **crypto);

/* Compares in a time that does not depend on where the two differ. */
bool crypto_equal(const uint8_t a[CRYPTO_MAC_BYTES], const uint8_t b[CRYPTO_MAC_BYTES]);

#endif
