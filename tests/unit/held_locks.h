/* SPDX-License-Identifier: Apache-2.0 */
/* For single-threaded tests. It checks that a held mutex is not locked again and that only a held
 * mutex is unlocked. The program wraps pthread_mutex_lock and pthread_mutex_unlock. */
#ifndef WEFT_TESTS_HELD_LOCKS_H
#define WEFT_TESTS_HELD_LOCKS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

enum { HELD_MOST = 4 };
static pthread_mutex_t *held_locks[HELD_MOST];

static inline pthread_mutex_t **held_place(const pthread_mutex_t *lock)
{
    for (int i = 0; i < HELD_MOST; i++)
        if (held_locks[i] == lock)
            return &held_locks[i];
    return NULL;
}

static inline bool is_held(const pthread_mutex_t *lock)
{
    return held_place(lock) != NULL;
}

static inline bool none_is_held(void)
{
    for (int i = 0; i < HELD_MOST; i++)
        if (held_locks[i])
            return false;
    return true;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    assert_false(is_held(lock));
    *held_place(NULL) = lock;
    return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
    assert_true(is_held(lock));
    *held_place(lock) = NULL;
    return 0;
}

#endif
