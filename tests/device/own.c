/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on this PE's memory that is not symmetric use the address directly, in every scope and
 * at every alignment, and write no byte next to the range. */
#include "device_test.h"

enum { BYTES = 512, EDGE = 0x5a };

WEFT_GLOBAL unsigned char plain[BYTES]
    __attribute__((aligned(16))); /* device memory in no segment */
WEFT_GLOBAL unsigned char source[BYTES] __attribute__((aligned(16)));

WEFT_DEVICE unsigned char pattern(size_t i, int round)
{
    return (unsigned char)(i * 167 + (size_t)round * 59 + 129);
}

WEFT_DEVICE void clear(void)
{
    weft_dev_sync_block();
    for (size_t i = weft_dev_thread_rank(); i < BYTES; i += weft_dev_block_threads())
        plain[i] = EDGE;
    weft_dev_sync_block();
}

/* One thread counts wrong bytes: `plain` holds the pattern in [at, at + n) and EDGE around it. */
WEFT_DEVICE void count_wrong(int *wrong, size_t at, size_t n, int round)
{
    weft_dev_sync_block();
    if (weft_dev_thread_rank() == 0)
        for (size_t i = 0; i < BYTES; i++)
            *wrong += plain[i] != (i >= at && i < at + n ? pattern(i - at, round) : EDGE);
    weft_dev_sync_block();
}

WEFT_KERNEL(move_own, (int *, wrong), (int, me))
{
    int round = 0;
    for (size_t at = 0; at < 18; at += 3) {
        for (size_t n = 0; n <= 400; n = n * 2 + 1, round++) {
            for (size_t i = weft_dev_thread_rank(); i < BYTES; i += weft_dev_block_threads())
                source[i] = pattern(i, round);
            clear();
            weft_block_put(plain + at, source, n, me);
            count_wrong(wrong, at, n, round);
            clear();
            if (weft_dev_warp() == 0)
                weft_warp_put_nbi(plain + at, source, n, me);
            count_wrong(wrong, at, n, round);
            clear();
            if (weft_dev_thread_rank() == 5)
                weft_thread_get(plain + at, source, n, me);
            count_wrong(wrong, at, n, round);
        }
    }
}

WEFT_KERNEL(words_own, (uint64_t *, got), (int, me))
{
    uint64_t *at = (uint64_t *)plain;
    clear();
    if (weft_dev_thread_rank() != 0)
        return;
    weft_thread_p8(plain, 0x81, me);
    weft_thread_p16(plain + 2, 0x8282, me);
    weft_thread_p32(plain + 4, 0x83838383u, me);
    got[0] = weft_thread_g64(plain, me);
    weft_thread_p64(at + 1, 0xf000000000000001u, me);
    got[1] = weft_thread_atomic_fetch_add64(at + 1, 0xfffffffffffffffeu, me);
    got[2] = weft_thread_g64(at + 1, me);
    weft_thread_p64(at + 2, 5, me);
    weft_thread_put_signal(at + 3, at + 1, 8, at + 2, 8, WEFT_SIGNAL_ADD, me);
    got[3] = at[3];
    got[4] = weft_thread_signal_fetch(at + 2);
    /* weft_dev_ptr() has no address for such memory. */
    got[5] = weft_dev_ptr(plain, me) == NULL;
}

#if WEFT_HOST_CODE

int main(void)
{
    device_begin();
    int *wrong = symmetric(sizeof *wrong), seen = -1;
    uint64_t *got = symmetric(6 * sizeof *got), values[6];
    LAUNCH(move_own, 1, 64, 0, NULL, wrong, me);
    fetch(&seen, wrong, sizeof seen);
    CHECK(seen == 0);
    LAUNCH(words_own, 1, 32, 0, NULL, got, me);
    fetch(values, got, sizeof values);
    CHECK(values[0] == 0x8383838382825a81u);
    CHECK(values[1] == 0xf000000000000001u);
    CHECK(values[2] == 0xefffffffffffffffu);
    CHECK(values[3] == 0xefffffffffffffffu);
    CHECK(values[4] == 13);
    CHECK(values[5] == 1);
    barrier();
    device_end();
    return 0;
}
#endif
