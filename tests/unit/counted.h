/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the mutexes that the tested code holds and the memory blocks that it has allocated. An
 * allocation can be made to fail. For tests that are linked with WRAP_COUNTED (gpu.cmake). Include
 * cmocka.h first. */
#ifndef WEFT_TESTS_UNIT_COUNTED_H
#define WEFT_TESTS_UNIT_COUNTED_H

#include "base/config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static struct {
    _Atomic int locks, blocks; /* mutexes held, blocks allocated */
    _Atomic int fail_in;       /* allocations that succeed before one fails; -1 = none fails */
    int blocks_before;
} counted = {.fail_in = -1};

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    int error = __real_pthread_mutex_lock(mutex);
    atomic_fetch_add(&counted.locks, 1);
    return error;
}

int __real_pthread_mutex_trylock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    int error = __real_pthread_mutex_trylock(mutex);
    counted.locks += !error;
    return error;
}

int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    atomic_fetch_sub(&counted.locks, 1);
    return __real_pthread_mutex_unlock(mutex);
}

static int counted_fails(void)
{
    return counted.fail_in >= 0 && atomic_fetch_sub(&counted.fail_in, 1) == 0;
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
    void *block = counted_fails() ? NULL : __real_malloc(bytes);
    counted.blocks += block != NULL;
    return block;
}

void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes)
{
    void *block = counted_fails() ? NULL : __real_calloc(n, bytes);
    counted.blocks += block != NULL;
    return block;
}

void *__real_realloc(void *old, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes)
{
    void *block = counted_fails() ? NULL : __real_realloc(old, bytes);
    counted.blocks += block && !old;
    return block;
}

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text)
{
    char *block = __real_strdup(text); /* never fails, because variables are read at any time */
    counted.blocks += block != NULL;
    return block;
}

void __real_free(void *block);
void __wrap_free(void *block);
void __wrap_free(void *block)
{
    counted.blocks -= block != NULL;
    __real_free(block);
}

/* Starts the counts. For a set-up function. */
static inline void counted_begin(void)
{
    config_reset();
    counted.blocks_before = counted.blocks;
    counted.locks = 0;
    counted.fail_in = -1;
}

/* A tear-down function. It checks that every mutex was unlocked and every block was freed. */
static int counted_end(void **state)
{
    config_reset();
    int locks = counted.locks, blocks = counted.blocks - counted.blocks_before;
    counted.fail_in = -1;
    assert_int_equal(locks, 0);
    assert_int_equal(blocks, 0);
    return 0;
}

#endif
