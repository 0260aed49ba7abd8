/* SPDX-License-Identifier: Apache-2.0 */
/* The cached form of g returns, at each width and from every PE, the value stored before the kernel
 * began, also when the peer stored it between two kernels. */
#include "device_test.h"

enum { VALUES = 24 };

WEFT_KERNEL(read_all, (const uint64_t *, words), (uint64_t *, got), (int, pes))
{
    unsigned i = weft_dev_thread_rank();
    for (int pe = 0; pe < pes; pe++) {
        uint64_t *of = got + pe * 4 * VALUES;
        if (i >= VALUES)
            continue;
        of[i] = weft_thread_g64_cached(words + i, pe);
        of[VALUES + i] = weft_thread_g32_cached((const uint32_t *)words + i, pe);
        of[2 * VALUES + i] = weft_thread_g16_cached((const uint16_t *)words + i, pe);
        of[3 * VALUES + i] = weft_thread_g8_cached((const uint8_t *)words + i, pe);
    }
}

#if WEFT_HOST_CODE

static uint64_t value(int pe, size_t i, int round)
{
    return ((uint64_t)pe * 977 + i * 31 + (uint64_t)round + 1) * 0x9e3779b97f4a7c15u;
}

static uint64_t part(const uint64_t *words, unsigned bytes, size_t i)
{
    uint64_t v = 0;
    memcpy(&v, (const char *)words + i * bytes, bytes);
    return v;
}

static void check(const uint64_t *got, int pe, int round)
{
    uint64_t words[VALUES];
    for (size_t i = 0; i < VALUES; i++)
        words[i] = value(pe, i, round);
    for (unsigned form = 0; form < 4; form++)
        for (size_t i = 0; i < VALUES; i++)
            CHECK(got[form * VALUES + i] == part(words, 8u >> form, i));
}

int main(void)
{
    device_begin();
    uint64_t *words = symmetric(VALUES * sizeof *words), mine[VALUES];
    size_t bytes = (size_t)n_pes * 4 * VALUES * sizeof *words;
    uint64_t *got = symmetric(bytes), *host = malloc(bytes);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < VALUES; i++)
            mine[i] = value(me, i, round);
        store(words, mine, sizeof mine);
        barrier();
        LAUNCH(read_all, 1, 32, 0, NULL, words, got, n_pes);
        fetch(host, got, bytes);
        for (int pe = 0; pe < n_pes; pe++)
            check(host + pe * 4 * VALUES, pe, round);
        barrier();
    }
    free(host);
    device_end();
    return 0;
}
#endif
