/* SPDX-License-Identifier: Apache-2.0 */
/* No starvation: while all PEs ask for one lock again and again, between two turns of a PE that is
 * waiting every other PE has at most two turns (one that was before it in the queue, and one that
 * asked while it was about to ask).
 * Covers: shmem_set_lock */
#include "check.h"

enum { TURNS = 300 };

static long lock, next_turn;
static int log_of_turns[16 * TURNS];

int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    CHECK(n <= 16);
    shmem_barrier_all();
    for (int i = 0; i < TURNS; i++) {
        shmem_set_lock(&lock);
        long turn = shmem_long_g(&next_turn, 0);
        shmem_int_p(&log_of_turns[turn], me, 0);
        shmem_long_p(&next_turn, turn + 1, 0);
        shmem_clear_lock(&lock);
    }
    shmem_barrier_all();
    if (me == 0) {
        int count[16] = {0};
        CHECK(next_turn == (long)n * TURNS);
        for (int i = 0; i < n * TURNS; i++)
            count[log_of_turns[i]]++;
        for (int pe = 0; pe < n; pe++)
            CHECK(count[pe] == TURNS);
    }
    shmem_finalize();
    return 0;
}
