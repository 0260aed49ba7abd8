/* SPDX-License-Identifier: Apache-2.0 */
/* See siphash.h. */
#include "base/siphash.h"

static uint64_t rotate(uint64_t value, int by)
{
    return value << by | value >> (64 - by);
}

static uint64_t read_word(const uint8_t *bytes, size_t count)
{
    uint64_t word = 0;
    for (size_t i = 0; i < count; i++)
        word |= (uint64_t)bytes[i] << 8 * i;
    return word;
}

static void mix(uint64_t v[4], int rounds)
{
    while (rounds--) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] = rotate(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] = rotate(v[2], 32);
    }
}

static void absorb(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    mix(v, 2);
    v[0] ^= word;
}

uint64_t siphash(const uint8_t key[SIPHASH_KEY_BYTES], const void *bytes, size_t count)
{
    const uint8_t *at = bytes;
    uint64_t k0 = read_word(key, 8), k1 = read_word(key + 8, 8);
    uint64_t v[4] = {k0 ^ UINT64_C(0x736f6d6570736575), k1 ^ UINT64_C(0x646f72616e646f6d),
                     k0 ^ UINT64_C(0x6c7967656e657261), k1 ^ UINT64_C(0x7465646279746573)};
    size_t left = count;
    for (; left >= 8; left -= 8, at += 8)
        absorb(v, read_word(at, 8));
    absorb(v, read_word(at, left) | (uint64_t)count << 56);
    v[2] ^= 0xff;
    mix(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
