/* SPDX-License-Identifier: Apache-2.0 */
/* SHMEM_THREAD_MULTIPLE: threads with their own contexts, shared contexts and the default context
 * put, get, add, signal and wait concurrently; all threads of all PEs share a lock. */
#include "check.h"

#include <pthread.h>
#include <sched.h>

enum { THREADS = 4, ROUNDS = 200, WORDS = 16 };

static long sum, counter, lock;
static long box[THREADS][WORDS];
static uint64_t signals[THREADS];
static long acknowledged[THREADS];
static shmem_ctx_t shared_ctx;

static void *work(void *argument)
{
    int t = *(int *)argument, me = shmem_my_pe(), n = shmem_n_pes(), next = (me + 1) % n;
    int before = (me + n - 1) % n;
    shmem_ctx_t ctx;
    CHECK(shmem_ctx_create(SHMEM_CTX_PRIVATE, &ctx) == 0);
    long mine[WORDS], got[WORDS];
    for (int round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < WORDS; i++)
            mine[i] = me * 1000000 + t * 10000 + round * 20 + i;
        shmem_ctx_long_put_signal(ctx, box[t], mine, WORDS, &signals[t], (uint64_t)round,
                                  SHMEM_SIGNAL_SET, next);
        shmem_signal_wait_until(&signals[t], SHMEM_CMP_EQ, (uint64_t)round);
        for (int i = 0; i < WORDS; i++)
            CHECK(box[t][i] == before * 1000000 + t * 10000 + round * 20 + i);
        if (round % 8 == 0) {
            shmem_ctx_long_get(ctx, got, box[t], WORDS, me);
            CHECK(memcmp(got, box[t], sizeof got) == 0);
        }
        shmem_ctx_long_atomic_add(shared_ctx, &sum, 1, 0);
        shmem_long_atomic_inc(&sum, 0);
        /* An acknowledgement allows the sender to fill the box again. */
        shmem_ctx_quiet(ctx);
        shmem_long_atomic_set(&acknowledged[t], round, before);
        shmem_quiet();
        shmem_long_wait_until(&acknowledged[t], SHMEM_CMP_EQ, round);
    }
    for (int i = 0; i < 20; i++) {
        shmem_set_lock(&lock);
        long value = shmem_ctx_long_g(ctx, &counter, 0);
        shmem_ctx_long_p(ctx, &counter, value + 1, 0);
        shmem_ctx_quiet(ctx);
        shmem_clear_lock(&lock);
    }
    for (int i = 0; i < 5; i++) {
        while (shmem_test_lock(&lock))
            sched_yield();
        shmem_long_p(&counter, shmem_long_g(&counter, 0) + 1, 0);
        shmem_clear_lock(&lock);
    }
    shmem_ctx_destroy(ctx);
    return NULL;
}

int main(void)
{
    int provided = -1, level = -1;
    CHECK(shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided) == 0);
    CHECK(provided == SHMEM_THREAD_MULTIPLE);
    shmem_query_thread(&level);
    CHECK(level == SHMEM_THREAD_MULTIPLE);
    CHECK(shmem_ctx_create(0, &shared_ctx) == 0);
    pthread_t threads[THREADS];
    int number[THREADS];
    for (int t = 0; t < THREADS; t++) {
        number[t] = t;
        CHECK(pthread_create(&threads[t], NULL, work, &number[t]) == 0);
    }
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    shmem_ctx_quiet(shared_ctx);
    shmem_ctx_destroy(shared_ctx);
    shmem_barrier_all();
    CHECK(shmem_long_g(&sum, 0) == 2L * THREADS * ROUNDS * shmem_n_pes());
    CHECK(shmem_long_g(&counter, 0) == 25L * THREADS * shmem_n_pes());
    CHECK(lock == 0);
    shmem_barrier_all();
    shmem_finalize();
    return 0;
}
