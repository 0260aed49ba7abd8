/* SPDX-License-Identifier: Apache-2.0 */
/* Calls libcrypto. Its prototypes are repeated here so that its headers are not needed to build:
 * EVP_EncryptInit(3ssl), EVP_PKEY_new_raw_private_key(3ssl), EVP_PKEY_derive(3ssl). */
#include "driver/cipher.h"

#include "base/status.h"
#include "driver/crypto.h"

#include <dlfcn.h>
#include <pthread.h>

enum {
    EVP_CTRL_GET_TAG = 0x10,
    EVP_CTRL_SET_TAG = 0x11,
    EVP_PKEY_X25519 = 1034,
};

/* EVP_CIPHER_CTX of the library. */
struct cipher;
struct evp_pkey;
struct evp_pkey_ctx;

#define CIPHER_FUNCTIONS(X)                                                                        \
    X(aes_256_gcm, EVP_aes_256_gcm, const void *, (void))                                          \
    X(new_context, EVP_CIPHER_CTX_new, struct cipher *, (void))                                    \
    X(free_context, EVP_CIPHER_CTX_free, void, (struct cipher *))                                  \
    X(control, EVP_CIPHER_CTX_ctrl, int, (struct cipher *, int type, int bytes, void *at))         \
    X(encrypt_init, EVP_EncryptInit_ex, int,                                                       \
      (struct cipher *, const void *algorithm, void *engine, const uint8_t *key,                   \
       const uint8_t *nonce))                                                                      \
    X(encrypt_update, EVP_EncryptUpdate, int,                                                      \
      (struct cipher *, uint8_t * out, int *out_bytes, const uint8_t *in, int bytes))              \
    X(encrypt_final, EVP_EncryptFinal_ex, int, (struct cipher *, uint8_t * out, int *out_bytes))   \
    X(decrypt_init, EVP_DecryptInit_ex, int,                                                       \
      (struct cipher *, const void *algorithm, void *engine, const uint8_t *key,                   \
       const uint8_t *nonce))                                                                      \
    X(decrypt_update, EVP_DecryptUpdate, int,                                                      \
      (struct cipher *, uint8_t * out, int *out_bytes, const uint8_t *in, int bytes))              \
    X(decrypt_final, EVP_DecryptFinal_ex, int, (struct cipher *, uint8_t * out, int *out_bytes))   \
    X(new_private, EVP_PKEY_new_raw_private_key, struct evp_pkey *,                                \
      (int type, void *engine, const uint8_t *key, size_t bytes))                                  \
    X(new_public, EVP_PKEY_new_raw_public_key, struct evp_pkey *,                                  \
      (int type, void *engine, const uint8_t *key, size_t bytes))                                  \
    X(get_public, EVP_PKEY_get_raw_public_key, int,                                                \
      (const struct evp_pkey *, uint8_t *key, size_t *bytes))                                      \
    X(free_key, EVP_PKEY_free, void, (struct evp_pkey *))                                          \
    X(new_exchange, EVP_PKEY_CTX_new, struct evp_pkey_ctx *, (struct evp_pkey *, void *engine))    \
    X(free_exchange, EVP_PKEY_CTX_free, void, (struct evp_pkey_ctx *))                             \
    X(derive_init, EVP_PKEY_derive_init, int, (struct evp_pkey_ctx *))                             \
    X(derive_peer, EVP_PKEY_derive_set_peer, int, (struct evp_pkey_ctx *, struct evp_pkey *))      \
    X(derive, EVP_PKEY_derive, int, (struct evp_pkey_ctx *, uint8_t * secret, size_t * bytes))

static struct {
#define MEMBER(name, symbol, result, parameters) result(*name) parameters;
    CIPHER_FUNCTIONS(MEMBER)
#undef MEMBER
    bool loaded;
} evp;

static pthread_mutex_t evp_lock = PTHREAD_MUTEX_INITIALIZER;

/* -------------------------------------------------------------------------------------- loading */

static weft_status load_evp(void)
{
    const struct crypto_driver *crypto;
    weft_status status = crypto_load(&crypto);
    void *library = status ? NULL : dlopen(crypto->library, RTLD_NOW | RTLD_LOCAL);
    if (status)
        return status;
    if (!library)
        return base_fail(WEFT_ERR_UNSUPPORTED, "%s", dlerror());
#define LOAD(name, symbol, result, parameters)                                                     \
    evp.name = (result(*) parameters)dlsym(library, #symbol);                                      \
    if (!evp.name)                                                                                 \
        status = base_fail(WEFT_ERR_UNSUPPORTED, "%s has no %s", crypto->library, #symbol);
    CIPHER_FUNCTIONS(LOAD)
#undef LOAD
    evp.loaded = !status;
    if (status)
        dlclose(library);
    return status;
}

weft_status cipher_load(void)
{
    pthread_mutex_lock(&evp_lock);
    weft_status status = evp.loaded ? WEFT_OK : load_evp();
    pthread_mutex_unlock(&evp_lock);
    return status;
}

/* ------------------------------------------------------------------------------------ AES-256-GCM
 */

struct cipher *cipher_open(const uint8_t key[CIPHER_KEY_BYTES], bool encrypts)
{
    struct cipher *cipher = evp.new_context();
    if (!cipher)
        return NULL;
    if ((encrypts ? evp.encrypt_init : evp.decrypt_init)(cipher, evp.aes_256_gcm(), NULL, key,
                                                         NULL) == 1)
        return cipher;
    evp.free_context(cipher);
    return NULL;
}

void cipher_close(struct cipher *cipher)
{
    if (cipher)
        evp.free_context(cipher);
}

bool cipher_encrypt(struct cipher *cipher, const uint8_t nonce[CIPHER_NONCE_BYTES],
                    const void *clear, size_t clear_bytes, const void *plain, size_t bytes,
                    void *encrypted, uint8_t tag[CIPHER_TAG_BYTES])
{
    int written, rest;
    return evp.encrypt_init(cipher, NULL, NULL, NULL, nonce) == 1 &&
           evp.encrypt_update(cipher, NULL, &written, clear, (int)clear_bytes) == 1 &&
           evp.encrypt_update(cipher, encrypted, &written, plain, (int)bytes) == 1 &&
           evp.encrypt_final(cipher, (uint8_t *)encrypted + written, &rest) == 1 &&
           evp.control(cipher, EVP_CTRL_GET_TAG, CIPHER_TAG_BYTES, tag) == 1;
}

bool cipher_decrypt(struct cipher *cipher, const uint8_t nonce[CIPHER_NONCE_BYTES],
                    const void *clear, size_t clear_bytes, const void *encrypted, size_t bytes,
                    void *plain, const uint8_t tag[CIPHER_TAG_BYTES])
{
    int written, rest;
    return evp.decrypt_init(cipher, NULL, NULL, NULL, nonce) == 1 &&
           evp.control(cipher, EVP_CTRL_SET_TAG, CIPHER_TAG_BYTES, (void *)tag) == 1 &&
           evp.decrypt_update(cipher, NULL, &written, clear, (int)clear_bytes) == 1 &&
           evp.decrypt_update(cipher, plain, &written, encrypted, (int)bytes) == 1 &&
           evp.decrypt_final(cipher, (uint8_t *)plain + written, &rest) == 1;
}

/* ----------------------------------------------------------------------------------------- X25519
 */

bool cipher_public_key(const uint8_t private_key[CIPHER_POINT_BYTES],
                       uint8_t public_key[CIPHER_POINT_BYTES])
{
    size_t bytes = CIPHER_POINT_BYTES;
    struct evp_pkey *key = evp.new_private(EVP_PKEY_X25519, NULL, private_key, CIPHER_POINT_BYTES);
    bool good = key && evp.get_public(key, public_key, &bytes) == 1 && bytes == CIPHER_POINT_BYTES;
    evp.free_key(key);
    return good;
}

/* The library refuses a secret of zeros, which a public key of low order gives. */
bool cipher_shared_secret(const uint8_t private_key[CIPHER_POINT_BYTES],
                          const uint8_t theirs[CIPHER_POINT_BYTES],
                          uint8_t secret[CIPHER_POINT_BYTES])
{
    size_t bytes = CIPHER_POINT_BYTES;
    struct evp_pkey *mine = evp.new_private(EVP_PKEY_X25519, NULL, private_key, CIPHER_POINT_BYTES);
    struct evp_pkey *peer = evp.new_public(EVP_PKEY_X25519, NULL, theirs, CIPHER_POINT_BYTES);
    struct evp_pkey_ctx *exchange = mine && peer ? evp.new_exchange(mine, NULL) : NULL;
    bool good = exchange && evp.derive_init(exchange) == 1 &&
                evp.derive_peer(exchange, peer) == 1 && evp.derive(exchange, secret, &bytes) == 1 &&
                bytes == CIPHER_POINT_BYTES;
    evp.free_exchange(exchange);
    evp.free_key(mine);
    evp.free_key(peer);
    return good;
}
