/* SPDX-License-Identifier: Apache-2.0 */
/* All PEs add to words of PE 0 at once: blocks of each PE's kernel by atomics and by the signals of
 * puts, and its host by the same calls. No addition is lost, whichever queue and NIC executes
 * it. */
#include "device_test.h"

enum { WORDS = 6, ROUNDS = 150, BLOCKS = 3 };

WEFT_KERNEL(add, (uint64_t *, words), (uint64_t *, data), (int, rounds))
{
    unsigned rank = weft_dev_thread_rank(), block = weft_dev_block_rank();
    uint64_t *there = data + (unsigned)weft_dev_my_pe() * (BLOCKS + 1) + block;
    uint64_t *mine = data + (unsigned)weft_dev_n_pes() * (BLOCKS + 1);
    for (int i = 0; i < rounds; i++) {
        uint64_t *word = words + (block + (unsigned)i) % WORDS;
        if (rank == 0)
            weft_thread_atomic_add64(word, 1, 0);
        if (rank == 0 && weft_thread_atomic_fetch_add64(word, 1, 0) == ~(uint64_t)0)
            return;
        weft_block_put_signal(there, mine, 8, word, 1, WEFT_SIGNAL_ADD, 0);
    }
    weft_block_quiet();
}

#if WEFT_HOST_CODE
int main(void)
{
    device_begin();
    uint64_t *words = symmetric(WORDS * sizeof *words), mine = 5, seen[WORDS], sum = 0;
    uint64_t *data = symmetric(((size_t)n_pes * (BLOCKS + 1) + 1) * sizeof *data);
    uint64_t *there = data + me * (BLOCKS + 1) + BLOCKS;
    barrier();
    OK(WEFT_LAUNCH(add, BLOCKS, 32, 0, NULL, words, data, ROUNDS));
    for (int i = 0; i < ROUNDS; i++) {
        OK(weft_atomic_add64(ctx, words + i % WORDS, 1, 0));
        OK(weft_put_signal(ctx, there, &mine, sizeof mine, words + (i + 1) % WORDS, 1,
                           WEFT_SIGNAL_ADD, 0));
    }
    OK(weft_stream_synchronize(NULL));
    OK(weft_quiet(ctx));
    OK(weft_device_check(job));
    barrier();
    fetch(seen, words, sizeof seen);
    for (int i = 0; i < WORDS; i++)
        sum += seen[i];
    if (me == 0)
        CHECK(sum == (uint64_t)n_pes * ROUNDS * (3 * BLOCKS + 2));
    device_end();
    return 0;
}
#endif
