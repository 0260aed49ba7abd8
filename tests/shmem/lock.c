/* SPDX-License-Identifier: Apache-2.0 */
/* Locks: exclusion, order of arrival, test, many at once with different homes, and that the word is
 * zero again.
 * Covers: shmem_set_lock */
#include "check.h"

static long lock, counter, turns, ready;
static long order[64];
static long many[40], cells[40];

int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    unsigned seed = (unsigned)me;

    /* Exclusion: get, change, put without atomics; nothing is lost. */
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

    /* Not reentrant: a test by the holder fails, as does one by others; it changes nothing. */
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

    /* First come, first served: PE 0 holds it while the others ask one after the other. */
    if (me == 0)
        shmem_set_lock(&lock);
    shmem_barrier_all();
    if (me != 0) {
        /* PE k asks when k - 1 are in the queue; the last word on that is the queue itself, so
         * each waits a while after its predecessor has said that it is about to ask. */
        shmem_long_wait_until(&ready, SHMEM_CMP_GE, me);
        if (me + 1 < n)
            for (int i = 0; i < 200; i++)
                dawdle(&seed);
        long next_turn;
        if (me + 1 < n)
            shmem_long_p(&ready, me + 1, me + 1);
        shmem_quiet();
        shmem_set_lock(&lock);
        next_turn = shmem_long_atomic_fetch_inc(&turns, 0);
        shmem_long_p(&order[next_turn], me, 0);
        shmem_clear_lock(&lock);
    } else {
        if (n > 1)
            shmem_long_p(&ready, 1, 1);
        shmem_quiet();
        for (int i = 0; i < 3000; i++)
            dawdle(&seed);
        shmem_clear_lock(&lock);
    }
    shmem_barrier_all();
    CHECK(shmem_long_g(&turns, 0) == n - 1);
    if (me == 0) {
        long members = 0;
        for (int i = 0; i < n - 1; i++)
            members |= 1L << order[i];
        CHECK(members == (1L << n) - 2);
    }
    shmem_barrier_all();

    /* Many locks, each guarding one cell; taken with test and with set. */
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
