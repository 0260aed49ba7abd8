/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that run before shmem_init() keep writing to global variables: no write is lost while
 * init and finalize move the pages. A thread whose fault is delivered after the pages have moved
 * goes on; a fault of the program itself still ends it. */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* The signal of a write to `address`, as the kernel sends it. */
static void fault_at(const volatile void *address)
{
    siginfo_t info = {.si_signo = SIGSEGV, .si_code = SI_QUEUE};
    info.si_addr = (void *)(uintptr_t)address;
    CHECK(syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), SIGSEGV, &info) == 0);
}

/* Whether a child ends by SIGSEGV: sent by a process, or by its own wrong access. */
__attribute__((unused)) static bool child_dies(bool sent)
{
    volatile int *volatile nowhere = NULL;
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (sent)
            kill(getpid(), SIGSEGV);
        else
            *nowhere = 1;
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
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
    fault_at(&place[1].count);
    fault_at(&place[1].count);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they handle SIGSEGV */
    CHECK(child_dies(false));
    CHECK(child_dies(true));
#endif
    shmem_int_p(&from_peer, me + 1, (me + 1) % n);
    shmem_barrier_all();
    CHECK(from_peer == (me + n - 1) % n + 1);
    shmem_finalize();
    fault_at(&place[2].copy);
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
