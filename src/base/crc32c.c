/* SPDX-License-Identifier: Apache-2.0 */
/* See crc32c.h. Uses the CPU's CRC instruction where it has one. */
#include "base/crc32c.h"

#include <pthread.h>
#include <string.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

enum { POLYNOMIAL = (int)0x82f63b78u }; /* reflected */

static uint32_t table[256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; bit++)
            value = value >> 1 ^ (value & 1 ? (uint32_t)POLYNOMIAL : 0);
        table[i] = value;
    }
}

static uint32_t by_table(uint32_t state, const unsigned char *data, size_t bytes)
{
    pthread_once(&once, fill_table);
    for (size_t i = 0; i < bytes; i++)
        state = state >> 8 ^ table[(state ^ data[i]) & 0xff];
    return state;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t
by_instruction(uint32_t state, const unsigned char *data, size_t bytes)
{
    uint64_t wide = state;
    for (; bytes >= 8; data += 8, bytes -= 8) {
        uint64_t word;
        memcpy(&word, data, sizeof word);
        wide = _mm_crc32_u64(wide, word);
    }
    state = (uint32_t)wide;
    for (; bytes; data++, bytes--)
        state = _mm_crc32_u8(state, *data);
    return state;
}
#endif

uint32_t crc32c(uint32_t crc, const void *data, size_t bytes)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2"))
        return ~by_instruction(~crc, data, bytes);
#endif
    return ~by_table(~crc, data, bytes);
}

/* --------------------------------------------------------------------------------------- join
 * Appending a zero byte maps the CRC state linearly over GF(2). Appending n zero bytes is the n-th
 * power of that map, computed by repeated squaring. */

static uint32_t apply(const uint32_t map[32], uint32_t vector)
{
    uint32_t sum = 0;
    for (int i = 0; vector; i++, vector >>= 1)
        if (vector & 1)
            sum ^= map[i];
    return sum;
}

/* result may be the map itself. */
static void multiply(uint32_t result[32], const uint32_t left[32], const uint32_t right[32])
{
    uint32_t product[32];
    for (int i = 0; i < 32; i++)
        product[i] = apply(left, right[i]);
    memcpy(result, product, sizeof product);
}

static void make_shift(struct crc32c_shift *shift, uint64_t bytes)
{
    uint32_t power[32];
    power[0] = (uint32_t)POLYNOMIAL; /* one bit of zeros */
    for (int i = 1; i < 32; i++)
        power[i] = 1u << (i - 1);
    for (int i = 0; i < 3; i++) /* two, four, eight bits */
        multiply(power, power, power);
    for (int i = 0; i < 32; i++)
        shift->map[i] = 1u << i;
    shift->bytes = bytes;
    for (; bytes; bytes >>= 1) {
        if (bytes & 1)
            multiply(shift->map, power, shift->map);
        multiply(power, power, power);
    }
}

uint32_t crc32c_join(struct crc32c_shift *shift, uint32_t first, uint32_t second,
                     uint64_t second_bytes)
{
    if (!second_bytes)
        return first;
    if (shift->bytes != second_bytes)
        make_shift(shift, second_bytes);
    return apply(shift->map, first) ^ second;
}
