/* SPDX-License-Identifier: Apache-2.0 */
/* SipHash-2-4 with the test vectors of its authors (siphash.c of their reference: key 00 to 0f,
 * texts 00, 00 01 ...). */
#include "base/siphash.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void vectors(void **context)
{
    static const struct {
        size_t count;
        uint64_t hash;
    } known[] = {
        {0, UINT64_C(0x726fdb47dd0e0e31)},  {1, UINT64_C(0x74f839c593dc67fd)},
        {7, UINT64_C(0xab0200f58b01d137)},  {8, UINT64_C(0x93f5f5799a932462)},
        {15, UINT64_C(0xa129ca6149be45e5)},
    };
    uint8_t key[SIPHASH_KEY_BYTES], text[16];
    (void)context;
    for (uint8_t i = 0; i < 16; i++)
        key[i] = text[i] = i;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        assert_int_equal(siphash(key, text, known[i].count), known[i].hash);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(vectors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
