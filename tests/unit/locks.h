/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the mutexes that the code under test locks and unlocks, in a test that is linked with --wrap of both
 * functions. cmocka.h comes first. */
#ifndef WEFT_TESTS_UNIT_LOCKS_H
#define WEFT_TESTS_UNIT_LOCKS_H

#include <pthread.h>
#include <stdatomic.h>

static _Atomic int locks_held;

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    int error = __real_pthread_mutex_lock(mutex);
    atomic_fetch_add(&locks_held, 1);
    return error;
}

int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    atomic_fetch_sub(&locks_held, 1);
    return __real_pthread_mutex_unlock(mutex);
}

/* A tear-down function: what was locked has been unlocked, and nothing else. */
static int locks_are_free(void **state)
{
    int held = atomic_exchange(&locks_held, 0);
    assert_int_equal(held, 0);
    return 0;
}

#endif
