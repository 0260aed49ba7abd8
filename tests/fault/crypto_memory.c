/* SPDX-License-Identifier: Apache-2.0 */
/* The first HMAC of a process, for crypto_memory.sh. Exit status 0: the HMAC is correct; 3: no
 * library was loaded; 4: the call failed. */
#include "driver/crypto.h"

#include <string.h>

int main(void)
{
    /* HMAC-SHA256, test case 2 of RFC 4231. */
    static const uint8_t right[CRYPTO_MAC_BYTES] = {0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e,
                                                    0x6a, 0x04, 0x24, 0x26, 0x08, 0x95, 0x75, 0xc7,
                                                    0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27, 0x39, 0x83,
                                                    0x9d, 0xec, 0x58, 0xb9, 0x64, 0xec, 0x38, 0x43};
    static const char message[] = "what do ya want for nothing?";
    const struct crypto_driver *crypto;
    uint8_t mac[CRYPTO_MAC_BYTES];
    if (crypto_load(&crypto))
        return 3;
    if (!crypto->hmac_sha256("Jefe", 4, message, strlen(message), mac))
        return 4;
    return memcmp(mac, right, sizeof right) ? 5 : 0;
}
