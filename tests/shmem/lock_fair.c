/* SPDX-License-Identifier: Apache-2.0 */
/* First come, first served, while all PEs repeatedly request one lock: the holder records which PEs
 * wait in the queue, and they must get the next turns in that order. The queue is read as
 * src/shmem/lock.c describes it: the second half of a PE's lock names the next PE, which waits for
 * its turn. */
#include "check.h"

enum { TURNS = 200, MOST_PES = 16 };

static long lock, next_turn;
static int turn_of[MOST_PES * TURNS];
static int queue_at[MOST_PES * TURNS][MOST_PES]; /* 1 + PE, then 0 */

/* The PEs known to wait after this PE, which holds the lock. */
static int read_queue(int *queue, int me)
{
    int length = 0;
    for (int pe = me; length < MOST_PES - 1; length++) {
        uint32_t node = shmem_uint32_atomic_fetch((uint32_t *)&lock + 1, pe) & 0x7fffffffu;
        if (!node)
            break;
        queue[length] = (int)node;
        pe = (int)node - 1;
    }
    queue[length] = 0;
    return length;
}

int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes(), queue[MOST_PES];
    CHECK(n <= MOST_PES);
    shmem_barrier_all();
    for (int i = 0; i < TURNS; i++) {
        shmem_set_lock(&lock);
        long turn = shmem_long_g(&next_turn, 0);
        int waiting = read_queue(queue, me);
        while (turn == 0 && waiting < n - 1) /* wait until all others are in the queue */
            waiting = read_queue(queue, me);
        shmem_int_p(&turn_of[turn], me, 0);
        shmem_int_put(queue_at[turn], queue, MOST_PES, 0);
        shmem_long_p(&next_turn, turn + 1, 0);
        shmem_clear_lock(&lock);
    }
    shmem_barrier_all();
    if (me == 0) {
        int count[MOST_PES] = {0};
        CHECK(next_turn == (long)n * TURNS);
        for (int turn = 0; turn < n * TURNS; turn++) {
            count[turn_of[turn]]++;
            for (int k = 0; queue_at[turn][k]; k++)
                CHECK(turn_of[turn + 1 + k] == queue_at[turn][k] - 1);
        }
        for (int pe = 0; pe < n; pe++)
            CHECK(count[pe] == TURNS);
    }
    CHECK(lock == 0);
    shmem_finalize();
    return 0;
}
