/* SPDX-License-Identifier: Apache-2.0 */
/* shmem_barrier over an active set that is not the whole job completes the puts of its members
 * (9.9.1), also where two members synchronize only through a third one. After the barrier the owner
 * sees the data, and so does a get of another member. */
#include "check.h"

enum { ROUNDS = 100, WORDS = 40, SET = 4 };

static long data[SET][WORDS], seen[WORDS], barrier_sync[SHMEM_BARRIER_SYNC_SIZE];

static long word(long round, int from, int i)
{
    return round * 10000 + from * 1000 + i;
}

int main(void)
{
    shmem_init();
    int me = shmem_my_pe();
    CHECK(shmem_n_pes() > SET);
    for (long round = 1; me < SET && round <= ROUNDS; round++) {
        long mine[WORDS];
        for (int i = 0; i < WORDS; i++)
            mine[i] = word(round, me, i);
        for (int i = 0; i < WORDS; i++) /* many operations that a barrier could overtake */
            for (int to = 0; to < SET; to++)
                shmem_long_put(&data[me][i], &mine[i], 1, to);
        shmem_barrier(0, 0, SET, barrier_sync);
        for (int from = 0; from < SET; from++)
            for (int i = WORDS; i-- > 0;)
                CHECK(((volatile long *)data[from])[i] == word(round, from, i));
        shmem_long_get(seen, data[(me + 1) % SET], WORDS, (me + 3) % SET);
        for (int i = 0; i < WORDS; i++)
            CHECK(seen[i] == word(round, (me + 1) % SET, i));
        shmem_barrier(0, 0, SET, barrier_sync);
    }
    shmem_barrier_all();
    shmem_finalize();
    return 0;
}
