/* SPDX-License-Identifier: Apache-2.0 */
/* Order of the threads of one PE at an OpenSHMEM lock: one at a time, in the order of their calls.
 * Knows nothing of other PEs. */
#include "shmem/routine.h"

#include <pthread.h>
#include <stdlib.h>

/* A lock that threads of this PE hold or wait for. */
struct guard {
    const long *lock;
    unsigned next_ticket;
    unsigned serving;
    struct guard *next;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct guard *guards;

static struct guard *find_guard(const long *lock)
{
    struct guard *guard = guards;
    while (guard && guard->lock != lock)
        guard = guard->next;
    return guard;
}

static struct guard *add_guard(const long *lock)
{
    struct guard *guard = calloc(1, sizeof *guard);
    if (!guard) {
        base_fail(WEFT_ERR_NO_MEMORY, "no memory for the queue of threads at a lock");
        weft_shmem_fail("shmem_set_lock", WEFT_ERR_NO_MEMORY);
    }
    guard->lock = lock;
    guard->next = guards;
    guards = guard;
    return guard;
}

void shmem_guard_enter(const long *lock)
{
    pthread_mutex_lock(&mutex);
    struct guard *guard = find_guard(lock);
    if (!guard)
        guard = add_guard(lock);
    unsigned ticket = guard->next_ticket++;
    while (guard->serving != ticket)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}

int shmem_guard_try(const long *lock)
{
    pthread_mutex_lock(&mutex);
    int is_free = !find_guard(lock);
    if (is_free)
        add_guard(lock)->next_ticket++;
    pthread_mutex_unlock(&mutex);
    return is_free;
}

void shmem_guard_leave(const long *lock)
{
    pthread_mutex_lock(&mutex);
    for (struct guard **at = &guards; *at; at = &(*at)->next) {
        struct guard *guard = *at;
        if (guard->lock != lock)
            continue;
        if (++guard->serving == guard->next_ticket) {
            *at = guard->next;
            free(guard);
        }
        break;
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}
