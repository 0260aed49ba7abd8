/* SPDX-License-Identifier: Apache-2.0 */
/* The routines of the symmetric heap begin and end with a barrier that completes earlier puts
 * (9.3): after each of them the data of all PEs is there.
 * Covers: shmem_malloc, shmem_calloc, shmem_align, shmem_malloc_with_hints, shmem_realloc,
 * shmem_free */
#include "check.h"

enum { ROUNDS = 60, WORDS = 16 };

static long data[WORDS];

int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes(), next = (me + 1) % n, before = (me + n - 1) % n;
    long *block = shmem_malloc(100);
    for (long round = 1; round <= ROUNDS; round++) {
        long mine[WORDS];
        for (int i = 0; i < WORDS; i++)
            mine[i] = round * 1000 + me * 100 + i;
        shmem_long_put(data, mine, WORDS, next);
        switch (round % 5) {
        case 0:
            shmem_free(block);
            block = NULL;
            break;
        case 1:
            block = block ? block : shmem_malloc(100);
            if (round == 1)
                shmem_barrier_all();
            break;
        case 2:
            block = shmem_realloc(block, 100 + (size_t)round * 8);
            break;
        case 3:
            shmem_free(block);
            block = shmem_align(256, 500);
            break;
        case 4:
            shmem_free(shmem_calloc(10, 8));
            break;
        }
        for (int i = 0; i < WORDS; i++)
            CHECK(data[i] == round * 1000 + before * 100 + i);
        shmem_barrier_all();
    }
    long *hinted;
    shmem_long_p(&data[0], -7, next);
    hinted = shmem_malloc_with_hints(64, SHMEM_MALLOC_SIGNAL_REMOTE);
    CHECK(data[0] == -7);
    shmem_barrier_all();
    shmem_free(hinted);
    shmem_free(block);
    shmem_finalize();
    return 0;
}
