/* SPDX-License-Identifier: Apache-2.0 */
/* Stores to memory that a program polls, the clock, and random numbers. */
#include "hca.h"

#include "gpu/memory.h"

#include <sched.h>
#include <string.h>
#include <time.h>

/* Writes bytes. An aligned value of up to 8 bytes is one store that releases everything before,
 * because programs wait for such words. Of 16 bytes each half is one store, for packets whose
 * halves both contain a sequence number. */
static void put_word(void *to, const void *from, size_t bytes)
{
    uintptr_t at = (uintptr_t)to;
    uint64_t v = 0;
    if (bytes == 8 && !(at & 7)) {
        memcpy(&v, from, 8);
        __atomic_store_n((uint64_t *)to, v, __ATOMIC_RELEASE);
    } else if (bytes == 4 && !(at & 3)) {
        memcpy(&v, from, 4);
        __atomic_store_n((uint32_t *)to, (uint32_t)v, __ATOMIC_RELEASE);
    } else if (bytes == 2 && !(at & 1)) {
        memcpy(&v, from, 2);
        __atomic_store_n((uint16_t *)to, (uint16_t)v, __ATOMIC_RELEASE);
    } else if (bytes == 1) {
        __atomic_store_n((uint8_t *)to, *(const uint8_t *)from, __ATOMIC_RELEASE);
    } else if (bytes == 16 && !(at & 7)) {
        uint64_t halves[2];
        memcpy(halves, from, 16);
        __atomic_store_n((uint64_t *)to, halves[0], __ATOMIC_RELEASE);
        __atomic_store_n((uint64_t *)to + 1, halves[1], __ATOMIC_RELEASE);
    } else {
        memcpy(to, from, bytes);
        __atomic_thread_fence(__ATOMIC_RELEASE);
    }
}

static bool check_gpu_access(struct device *d, int result, const char *what, uintptr_t at,
                             size_t bytes)
{
    if (result)
        log_error(d, "%zu bytes of GPU memory at 0x%llx cannot be %s: the CUDA driver says %d",
                  bytes, (unsigned long long)at, what, result);
    return !result;
}

/* Earlier writes to GPU memory are completed before a write to host memory becomes visible. */
bool memory_put(struct device *d, void *to, const void *from, size_t bytes)
{
    if (!bytes)
        return true;
    if (gpu_memory_holds((uintptr_t)to))
        return check_gpu_access(d, gpu_memory_put((uintptr_t)to, from, bytes), "written",
                                (uintptr_t)to, bytes);
    bool flushed = memory_flush(d);
    put_word(to, from, bytes);
    return flushed;
}

bool memory_get(struct device *d, void *to, const void *from, size_t bytes)
{
    if (bytes && gpu_memory_holds((uintptr_t)from))
        return check_gpu_access(d, gpu_memory_get(to, (uintptr_t)from, bytes), "read",
                                (uintptr_t)from, bytes);
    if (bytes)
        memcpy(to, from, bytes);
    return true;
}

bool memory_flush(struct device *d)
{
    return check_gpu_access(d, gpu_memory_flush(), "written", 0, 0);
}

/* Executes an atomic on GPU memory as a read and a write; a concurrent access of the GPU itself may
 * be lost. One engine executes all atomics that arrive at a process. */
static bool gpu_atomic(struct device *d, void *at, const struct wqe_atomic *a, uint64_t *old)
{
    uint64_t value;
    *old = 0;
    if (!memory_get(d, old, at, a->bytes))
        return false;
    value = wqe_atomic_apply(a, *old);
    return memory_put(d, at, &value, a->bytes);
}

/* Yields between the load and the store of a weak atomic, to let other accesses in between. */
static void yield_between(struct device *d)
{
    if (adversary_skips_step(d))
        sched_yield();
}

static uint64_t atomic_8(struct device *d, uint64_t *at, const struct wqe_atomic *a)
{
    uint64_t old = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    if (d->config->atomics == ATOMICS_WEAK) {
        yield_between(d);
        __atomic_store_n(at, wqe_atomic_apply(a, old), __ATOMIC_RELEASE);
        return old;
    }
    while (!__atomic_compare_exchange_n(at, &old, wqe_atomic_apply(a, old), true, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
        ;
    return old;
}

static uint32_t atomic_4(struct device *d, uint32_t *at, const struct wqe_atomic *a)
{
    uint32_t old = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    if (d->config->atomics == ATOMICS_WEAK) {
        yield_between(d);
        __atomic_store_n(at, (uint32_t)wqe_atomic_apply(a, old), __ATOMIC_RELEASE);
        return old;
    }
    while (!__atomic_compare_exchange_n(at, &old, (uint32_t)wqe_atomic_apply(a, old), true,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        ;
    return old;
}

bool memory_atomic(struct device *d, void *at, const struct wqe_atomic *a, uint64_t *old)
{
    if (gpu_memory_holds((uintptr_t)at))
        return gpu_atomic(d, at, a, old);
    bool flushed = memory_flush(d);
    *old = a->bytes == 8 ? atomic_8(d, at, a) : atomic_4(d, at, a);
    return flushed;
}

uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Upper half of splitmix64. */
uint32_t random_next(struct device *d)
{
    uint64_t z = d->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ z >> 31) >> 32);
}
