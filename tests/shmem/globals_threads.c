/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that run before shmem_init() keep writing to global variables: no write is lost while
 * init and finalize move the pages. */
#include "check.h"

#include <pthread.h>

enum { THREADS = 3 };

static struct {
    _Alignas(4096) volatile unsigned long count;
    volatile unsigned long copy;
} place[THREADS];
static volatile int stop;
static int from_peer;

static void *count_on(void *argument)
{
    int i = *(int *)argument;
    unsigned long *written = calloc(1, sizeof *written);
    while (!stop || *written < 1000) {
        place[i].count++;
        ++*written;
        place[i].copy = place[i].count;
    }
    return written;
}

int main(void)
{
    pthread_t threads[THREADS];
    int number[THREADS];
    for (int i = 0; i < THREADS; i++) {
        number[i] = i;
        pthread_create(&threads[i], NULL, count_on, &number[i]);
    }
    while (!place[0].count || !place[THREADS - 1].count)
        ;
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    shmem_int_p(&from_peer, me + 1, (me + 1) % n);
    shmem_barrier_all();
    CHECK(from_peer == (me + n - 1) % n + 1);
    shmem_finalize();
    stop = 1;
    for (int i = 0; i < THREADS; i++) {
        void *written;
        pthread_join(threads[i], &written);
        if (place[i].count != *(unsigned long *)written || place[i].copy != place[i].count) {
            fprintf(stderr, "thread %d wrote %lu, memory says %lu\n", i, *(unsigned long *)written,
                    place[i].count);
            return 1;
        }
        free(written);
    }
    return 0;
}
