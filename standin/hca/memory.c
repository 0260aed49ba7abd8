// SPDX-License-Identifier: Apache-2.0
// Stores into memory that a program polls, the clock, and random numbers.
#include "hca.h"

#include <string.h>
#include <time.h>

// A store of up to 8 bytes at an address of that alignment is one store, and releases all before: such words are
// the flags that programs wait for.
void memory_put(void *to, const void *from, size_t bytes)
{
    uintptr_t at = (uintptr_t)to;
    uint64_t v = 0;
    if (!bytes)
        return;
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
    } else {
        memcpy(to, from, bytes);
        __atomic_thread_fence(__ATOMIC_RELEASE);
    }
}

uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

// splitmix64, its upper half.
uint32_t random_next(struct device *d)
{
    uint64_t z = d->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ z >> 31) >> 32);
}
