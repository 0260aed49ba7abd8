/* SPDX-License-Identifier: Apache-2.0 */
/* Reproducible buffer contents and their comparison. Only this file accesses benchmark buffers
 * from the host outside the operations. */
#include "bench/bench.h"

#include <string.h>

/* SplitMix64 (Steele, Lea, Flood 2014): neighbouring indices give unrelated words, so that a
 * displaced or stale word is detected. */
uint64_t bench_word(uint64_t seed, uint64_t index)
{
    uint64_t z = (seed << 32) + index + 0x9e3779b97f4a7c15u * (index + 1);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void bench_fill(void *buffer, size_t bytes, uint64_t seed)
{
    char *at = buffer;
    uint64_t index = 0;
    for (; bytes >= 8; bytes -= 8, at += 8, index++) {
        uint64_t word = bench_word(seed, index);
        memcpy(at, &word, 8);
    }
    uint64_t word = bench_word(seed, index);
    memcpy(at, &word, bytes);
}

bool bench_holds(const void *buffer, size_t bytes, uint64_t seed)
{
    const char *at = buffer;
    uint64_t index = 0;
    for (; bytes >= 8; bytes -= 8, at += 8, index++) {
        uint64_t word = bench_word(seed, index);
        if (memcmp(at, &word, 8) != 0)
            return false;
    }
    uint64_t word = bench_word(seed, index);
    return memcmp(at, &word, bytes) == 0;
}
