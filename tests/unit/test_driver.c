/* SPDX-License-Identifier: Apache-2.0 */
/* Loading of foreign libraries: the message if a library is absent or too old, and HMAC-SHA256 by
 * both libraries with the vectors of RFC 4231. The linker wraps dlopen(), so that the test can hide
 * libraries. Each HMAC case runs in its own process, because a loaded library stays loaded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver/crypto.h"
#include "driver/driver.h"

static bool no_openssl, no_sodium, takes_signals;

static void theirs(int number)
{
    (void)number;
}

void *__real_dlopen(const char *file, int flags);
void *__wrap_dlopen(const char *file, int flags);

void *__wrap_dlopen(const char *file, int flags)
{
    bool sodium = file && strncmp(file, "libsodium", 9) == 0;
    if (file && no_openssl && strncmp(file, "libcrypto", 9) == 0)
        return __real_dlopen("libcrypto-that-is-not-here.so", flags);
    if (sodium && no_sodium)
        return __real_dlopen("libsodium-that-is-not-here.so", flags);
    if (takes_signals) {
        signal(SIGTERM, theirs);
        signal(SIGUSR1, theirs);
        signal(SIGUSR2, theirs);
    }
    return __real_dlopen(sodium ? SODIUM : file, flags);
}

struct maths {
    double (*cosine)(double);
    double (*sine)(double);
    void (*extra)(void);
};

#define SYMBOL(field, optional_, ...)                                                              \
    {                                                                                              \
        .names = {__VA_ARGS__}, .offset = offsetof(struct maths, field), .optional = (optional_)   \
    }

static weft_status load(const char *const *names, const struct driver_symbol *symbols, size_t count,
                        struct maths *maths, void **handle)
{
    struct driver_library library = {"the mathematics", "install the C library", names, symbols,
                                     count};
    memset(maths, 0x55, sizeof *maths);
    return driver_load(&library, maths, sizeof *maths, handle);
}

static bool is_zero(const struct maths *maths)
{
    static const struct maths zeros;
    return memcmp(maths, &zeros, sizeof zeros) == 0;
}

static void absent_library(void **state)
{
    (void)state;
    static const char *const names[] = {"libweft-none.so.7", "libweft-none.so.6", NULL};
    static const struct driver_symbol symbols[] = {SYMBOL(cosine, false, "cos")};
    struct maths maths;
    void *handle = &maths;
    assert_int_equal(load(names, symbols, 1, &maths, &handle), WEFT_ERR_UNSUPPORTED);
    assert_null(handle);
    assert_true(is_zero(&maths));
    assert_non_null(strstr(weft_last_error(), "the mathematics cannot be loaded"));
    assert_non_null(strstr(weft_last_error(), "libweft-none.so.7"));
    assert_non_null(strstr(weft_last_error(), "libweft-none.so.6"));
    assert_non_null(strstr(weft_last_error(), "install the C library"));
}

static void old_library(void **state)
{
    (void)state;
    static const char *const names[] = {"libm.so.6", NULL};
    static const struct driver_symbol symbols[] = {SYMBOL(cosine, false, "cos"),
                                                   SYMBOL(sine, false, "weft_sine_v2")};
    struct maths maths;
    void *handle = &maths;
    assert_int_equal(load(names, symbols, 2, &maths, &handle), WEFT_ERR_UNSUPPORTED);
    assert_null(handle);
    assert_true(is_zero(&maths));
    assert_non_null(strstr(weft_last_error(), "libm.so.6) has no function weft_sine_v2"));
}

static void second_names(void **state)
{
    (void)state;
    static const char *const names[] = {"libweft-none.so.7", "libm.so.6", NULL};
    static const struct driver_symbol symbols[] = {SYMBOL(cosine, false, "weft_cosine_v2", "cos"),
                                                   SYMBOL(extra, true, "weft_extra")};
    struct maths maths;
    void *handle;
    assert_int_equal(load(names, symbols, 2, &maths, &handle), WEFT_OK);
    assert_null(maths.extra);
    assert_null(maths.sine);
    assert_true(maths.cosine(0.0) == 1.0);
    driver_unload(handle);
    driver_unload(NULL);
}

/* Vectors 1, 2 and 6 (a key longer than a block) of RFC 4231. */
static int right_macs(const char *library)
{
    static const uint8_t wanted[3][CRYPTO_MAC_BYTES] = {
        {0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53, 0x5c, 0xa8, 0xaf,
         0xce, 0xaf, 0x0b, 0xf1, 0x2b, 0x88, 0x1d, 0xc2, 0x00, 0xc9, 0x83,
         0x3d, 0xa7, 0x26, 0xe9, 0x37, 0x6c, 0x2e, 0x32, 0xcf, 0xf7},
        {0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24,
         0x26, 0x08, 0x95, 0x75, 0xc7, 0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27,
         0x39, 0x83, 0x9d, 0xec, 0x58, 0xb9, 0x64, 0xec, 0x38, 0x43},
        {0x60, 0xe4, 0x31, 0x59, 0x1e, 0xe0, 0xb6, 0x7f, 0x0d, 0x8a, 0x26,
         0xaa, 0xcb, 0xf5, 0xb7, 0x7f, 0x8e, 0x0b, 0xc6, 0x21, 0x37, 0x28,
         0xc5, 0x14, 0x05, 0x46, 0x04, 0x0f, 0x0e, 0xe3, 0x7f, 0x54}};
    static const char *const messages[] = {
        "Hi There", "what do ya want for nothing?",
        "Test Using Larger Than Block-Size Key - Hash Key First"};
    uint8_t keys[3][131], mac[CRYPTO_MAC_BYTES];
    const size_t key_bytes[] = {20, 4, 131};
    const struct crypto_driver *crypto;
    memset(keys[0], 0x0b, 20);
    memcpy(keys[1], "Jefe", 4);
    memset(keys[2], 0xaa, 131);
    if (crypto_load(&crypto) || strncmp(crypto->library, library, strlen(library)) != 0)
        return 1;
    for (int i = 0; i < 3; i++) {
        if (!crypto->hmac_sha256(keys[i], key_bytes[i], messages[i], strlen(messages[i]), mac) ||
            !crypto_equal(mac, wanted[i]))
            return 2 + i;
        mac[31 - i] ^= 0x80;
        if (crypto_equal(mac, wanted[i]))
            return 10 + i;
    }
    return 0;
}

static int by_openssl(void)
{
    return right_macs("libcrypto");
}

static int by_sodium(void)
{
    no_openssl = true;
    return right_macs("libsodium");
}

static int by_none(void)
{
    const struct crypto_driver *crypto;
    no_openssl = no_sodium = true;
    for (int i = 0; i < 2; i++) /* a failed load is tried again */
        if (crypto_load(&crypto) != WEFT_ERR_UNSUPPORTED ||
            !strstr(weft_last_error(), "libcrypto.so.3 (") ||
            !strstr(weft_last_error(), "libsodium.so.26 (") ||
            !strstr(weft_last_error(), "install libssl3"))
            return 1;
    no_openssl = false;
    return right_macs("libcrypto");
}

static void in_process(int (*test)(void))
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        exit(test());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void hmac(void **state)
{
    (void)state;
    in_process(by_openssl);
    in_process(by_sodium);
    in_process(by_none);
}

static void own(int number)
{
    (void)number;
}

/* A library that installs signal handlers when it is loaded: the program's handlers are
 * restored. */
static void signals_stay(void **state)
{
    const char *const names[] = {"libm.so.6", NULL};
    const struct driver_symbol symbols[] = {SYMBOL(cosine, false, "cos")};
    struct maths maths;
    void *handle;
    (void)state;
    signal(SIGTERM, SIG_DFL);
    signal(SIGUSR1, own);
    signal(SIGUSR2, SIG_IGN);
    takes_signals = true;
    assert_int_equal(load(names, symbols, 1, &maths, &handle), WEFT_OK);
    takes_signals = false;
    driver_unload(handle);
    assert_ptr_equal(signal(SIGTERM, SIG_DFL), SIG_DFL);
    assert_ptr_equal(signal(SIGUSR1, SIG_DFL), own);
    assert_ptr_equal(signal(SIGUSR2, SIG_DFL), SIG_IGN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absent_library), cmocka_unit_test(signals_stay),
        cmocka_unit_test(old_library), cmocka_unit_test(second_names), cmocka_unit_test(hmac)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
