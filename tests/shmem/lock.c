/* SPDX-License-Identifier: Apache-2.0 */
/* Locks: mutual exclusion, order of arrival, test, many locks with different home PEs, and the word
 * is zero again at the end. */
#include "check.h"

static long lock, counter, turns;
static long order[64];
static long many[40], cells[40];

/* Waits until PE `number` - 1 is the last one that requested the lock, wherever its home is. */
static void await_last(int number, int n)
{
    for (int pe = 0;; pe = (pe + 1) % n)
        if (shmem_uint32_atomic_fetch((uint32_t *)&lock, pe) == (uint32_t)number)
            return;
}

int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    unsigned seed = (unsigned)me;

    /* Mutual exclusion: get, change and put without atomics lose no update. */
    for (int i = 0; i < 100; i++) {
        shmem_set_lock(&lock);
        long value = shmem_long_g(&counter, 0);
        dawdle(&seed);
        shmem_long_p(&counter, value + 1, 0);
        shmem_clear_lock(&lock);
    }
    shmem_barrier_all();
    CHECK(shmem_long_g(&counter, 0) == 100L * n);
    shmem_barrier_all();
    CHECK(lock == 0);
    shmem_barrier_all();

    /* Not reentrant: test_lock fails for the holder and for others, and changes nothing. */
    if (me == 0) {
        CHECK(shmem_test_lock(&lock) == 0);
        CHECK(shmem_test_lock(&lock) == 1);
        CHECK(shmem_test_lock(&lock) == 1);
    }
    shmem_barrier_all();
    if (me != 0)
        CHECK(shmem_test_lock(&lock) == 1);
    shmem_barrier_all();
    if (me == 0)
        shmem_clear_lock(&lock);
    shmem_barrier_all();
    CHECK(lock == 0);
    shmem_barrier_all();

    /* First come, first served: PE 0 holds the lock while the others request it one after the
     * other. PE k requests it when PE k - 1 is in the queue: the first half of the lock at its home
     * then holds 1 + (k - 1). */
    if (me == 0)
        shmem_set_lock(&lock);
    shmem_barrier_all();
    if (me != 0) {
        await_last(me, n);
        shmem_set_lock(&lock);
        long turn = shmem_long_atomic_fetch_inc(&turns, 0);
        shmem_long_p(&order[turn], me, 0);
        shmem_clear_lock(&lock);
    } else {
        await_last(n, n);
        shmem_clear_lock(&lock);
    }
    shmem_barrier_all();
    CHECK(shmem_long_g(&turns, 0) == n - 1);
    for (int i = 0; me == 0 && i < n - 1; i++)
        CHECK(order[i] == i + 1);
    shmem_barrier_all();

    /* Many locks, each of which guards one cell, taken by test and by set. */
    for (int i = 0; i < 400; i++) {
        int which = (i * 7 + me) % 40;
        if (i % 3 == 0) {
            while (shmem_test_lock(&many[which]))
                ;
        } else {
            shmem_set_lock(&many[which]);
        }
        int pe = which % n;
        shmem_long_p(&cells[which], shmem_long_g(&cells[which], pe) + 1, pe);
        shmem_clear_lock(&many[which]);
    }
    shmem_barrier_all();
    long sum = 0;
    for (int which = 0; which < 40; which++) {
        sum += shmem_long_g(&cells[which], which % n);
        CHECK(many[which] == 0);
    }
    CHECK(sum == 400L * n);
    shmem_finalize();
    return 0;
}
