/* SPDX-License-Identifier: Apache-2.0 */
/* Loads libcrypto or libsodium. Their prototypes are repeated here so that neither is needed to
 * build: HMAC(3ssl), EVP_sha256(3ssl); crypto_auth_hmacsha256_*() of libsodium. */
#include "driver/crypto.h"

#include "base/status.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef unsigned char *openssl_hmac(const void *type, const void *key, int key_bytes,
                                    const unsigned char *message, size_t message_bytes,
                                    unsigned char *mac, unsigned *mac_bytes);
typedef const void *openssl_sha256(void);

/* Larger than the state of any release of libsodium (208 bytes in 1.0.18). */
struct sodium_state {
    _Alignas(64) unsigned char bytes[1024];
};

typedef int sodium_init_library(void);
typedef size_t sodium_state_bytes(void);
typedef int sodium_begin(struct sodium_state *state, const unsigned char *key, size_t key_bytes);
typedef int sodium_update(struct sodium_state *state, const unsigned char *message,
                          unsigned long long bytes);
typedef int sodium_final(struct sodium_state *state, unsigned char *mac);

static struct {
    openssl_hmac *hmac;
    openssl_sha256 *sha256;
    sodium_begin *begin;
    sodium_update *update;
    sodium_final *final;
} loaded;

static struct crypto_driver opened_crypto;
static pthread_mutex_t crypto_lock = PTHREAD_MUTEX_INITIALIZER;
static char tried[512];

static bool hmac_by_openssl(const void *key, size_t key_bytes, const void *message,
                            size_t message_bytes, uint8_t mac[CRYPTO_MAC_BYTES])
{
    unsigned mac_bytes = CRYPTO_MAC_BYTES;
    return loaded.hmac(loaded.sha256(), key, (int)key_bytes, message, message_bytes, mac,
                       &mac_bytes) != NULL &&
           mac_bytes == CRYPTO_MAC_BYTES;
}

static bool hmac_by_sodium(const void *key, size_t key_bytes, const void *message,
                           size_t message_bytes, uint8_t mac[CRYPTO_MAC_BYTES])
{
    struct sodium_state state;
    return loaded.begin(&state, key, key_bytes) == 0 &&
           loaded.update(&state, message, message_bytes) == 0 && loaded.final(&state, mac) == 0;
}

/* OpenSSL 3 allocates its state at the first call, and HMAC() crashes when that allocation fails.
 * This call allocates it and returns NULL on failure. */
static bool openssl_is_ready(void *library)
{
    typedef void *get_context(void);
    get_context *get = (get_context *)dlsym(library, "OSSL_LIB_CTX_get0_global_default");
    return !get || get();
}

static bool find_openssl(void *library)
{
    if (!openssl_is_ready(library))
        return false;
    loaded.hmac = (openssl_hmac *)dlsym(library, "HMAC");
    loaded.sha256 = (openssl_sha256 *)dlsym(library, "EVP_sha256");
    opened_crypto.hmac_sha256 = hmac_by_openssl;
    return loaded.hmac && loaded.sha256;
}

static bool find_sodium(void *library)
{
    sodium_init_library *init = (sodium_init_library *)dlsym(library, "sodium_init");
    sodium_state_bytes *state_bytes =
        (sodium_state_bytes *)dlsym(library, "crypto_auth_hmacsha256_statebytes");
    loaded.begin = (sodium_begin *)dlsym(library, "crypto_auth_hmacsha256_init");
    loaded.update = (sodium_update *)dlsym(library, "crypto_auth_hmacsha256_update");
    loaded.final = (sodium_final *)dlsym(library, "crypto_auth_hmacsha256_final");
    opened_crypto.hmac_sha256 = hmac_by_sodium;
    return init && init() >= 0 && state_bytes && state_bytes() <= sizeof(struct sodium_state) &&
           loaded.begin && loaded.update && loaded.final;
}

static void record_failure(const char *file, const char *why)
{
    size_t used = strlen(tried);
    snprintf(tried + used, sizeof tried - used, "%s%s (%s)", used ? "; " : "", file, why);
}

static bool load_crypto(void)
{
    static const struct {
        const char *file;
        bool (*find)(void *library);
    } candidates[] = {
        {"libcrypto.so.3", find_openssl},
        {"libcrypto.so.1.1", find_openssl},
        {"libsodium.so.23", find_sodium},
        {"libsodium.so.26", find_sodium},
    };
    tried[0] = '\0';
    for (size_t i = 0; i < sizeof candidates / sizeof candidates[0]; i++) {
        void *library = dlopen(candidates[i].file, RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            record_failure(candidates[i].file, dlerror());
        } else if (candidates[i].find(library)) {
            opened_crypto.library = candidates[i].file;
            return true;
        } else {
            record_failure(candidates[i].file, "a required function is missing, or memory ran out");
            dlclose(library);
        }
    }
    return false;
}

weft_status crypto_load(const struct crypto_driver **crypto)
{
    pthread_mutex_lock(&crypto_lock);
    bool good = opened_crypto.library || load_crypto();
    pthread_mutex_unlock(&crypto_lock);
    if (!good)
        return base_fail(WEFT_ERR_UNSUPPORTED,
                         "no library for HMAC-SHA256 could be loaded (install libssl3 or "
                         "libsodium23): %s",
                         tried);
    *crypto = &opened_crypto;
    return WEFT_OK;
}

bool crypto_equal(const uint8_t a[CRYPTO_MAC_BYTES], const uint8_t b[CRYPTO_MAC_BYTES])
{
    volatile uint8_t difference = 0;
    for (int i = 0; i < CRYPTO_MAC_BYTES; i++)
        difference |= a[i] ^ b[i];
    return difference == 0;
}
