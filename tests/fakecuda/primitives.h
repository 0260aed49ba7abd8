/* SPDX-License-Identifier: Apache-2.0 */
/* The primitives of <weft/device/simt.h> for a block of one thread, with which the stand-in of the
 * CUDA driver runs the library's own kernels. Only those that the kernels use. */
#ifndef WEFT_DEVICE_SIMT_H
#define WEFT_DEVICE_SIMT_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WEFT_TARGET_CUDA     0
#define WEFT_TARGET_SIMT     1
#define WEFT_DEVICE          static inline __attribute__((unused))
#define WEFT_DEVICE_NOINLINE static __attribute__((noinline, unused))
#define WEFT_RESTRICT        restrict
#define WEFT_UNROLL
#define WEFT_NO_UNROLL
#define WEFT_DEV_LIKELY(x)            __builtin_expect(!!(x), 1)

#define WEFT_ORDER_RELAXED            0
#define WEFT_ORDER_ACQUIRE            1
#define WEFT_ORDER_RELEASE            2
#define WEFT_ORDER_ACQ_REL            3
#define WEFT_SCOPE_CTA                0
#define WEFT_SCOPE_GPU                1
#define WEFT_SCOPE_SYS                2

#define WEFT_SHARED(type, name, dims) type name dims

static _Thread_local unsigned fake_block, fake_blocks;
/* 16-byte stores of the block after this number are lost, which tears lines. */
static _Thread_local unsigned fake_whole_stores = 0xffffffffu, fake_stores;

/* The kernel was launched by cuLaunchKernelEx() and has not waited yet: earlier work of the stream
 * may still run on a GPU. */
static _Thread_local bool fake_early;
#define GRID_WAIT() ((void)(fake_early = false))

static inline void fake_touch(void)
{
    if (fake_early) {
        fputs("a kernel uses memory before it has waited for its stream's earlier work\n", stderr);
        abort();
    }
}

/* Makes earlier copies of the stream visible: see stream.c. */
void fake_release(void);

static inline void fake_order(int order)
{
    if (order == WEFT_ORDER_RELEASE || order == WEFT_ORDER_ACQ_REL)
        fake_release();
}

struct weft_dev_vec16 {
    uint64_t lo, hi;
} __attribute__((aligned(16), may_alias));

typedef uint8_t __attribute__((may_alias)) weft_dev_any_u8;
typedef uint16_t __attribute__((may_alias)) weft_dev_any_u16;
typedef uint32_t __attribute__((may_alias)) weft_dev_any_u32;
typedef uint64_t __attribute__((may_alias)) weft_dev_any_u64;

WEFT_DEVICE unsigned weft_dev_in_place(unsigned x)
{
    return x;
}
WEFT_DEVICE struct weft_dev_vec16 weft_dev_load_vec16(const void *p)
{
    fake_touch();
    return *(const struct weft_dev_vec16 *)p;
}
WEFT_DEVICE void weft_dev_store_vec16(void *p, struct weft_dev_vec16 v)
{
    fake_touch();
    *(struct weft_dev_vec16 *)p = v;
}
WEFT_DEVICE struct weft_dev_vec16 weft_dev_load_vec16_whole(const void *p)
{
    return weft_dev_load_vec16(p);
}
WEFT_DEVICE void weft_dev_store_vec16_whole(void *p, struct weft_dev_vec16 v)
{
    weft_dev_store_vec16(p, v);
}

/* Atomic in units of 8 bytes, as on the oldest GPUs. */
WEFT_DEVICE struct weft_dev_vec16 weft_dev_load_vec16_relaxed(const void *p)
{
    struct weft_dev_vec16 v;
    fake_touch();
    v.lo = __atomic_load_n((const weft_dev_any_u64 *)p, __ATOMIC_RELAXED);
    v.hi = __atomic_load_n((const weft_dev_any_u64 *)p + 1, __ATOMIC_RELAXED);
    return v;
}
WEFT_DEVICE void weft_dev_store_vec16_relaxed(void *p, struct weft_dev_vec16 v)
{
    if (fake_stores++ >= fake_whole_stores)
        return;
    __atomic_store_n((weft_dev_any_u64 *)p, v.lo, __ATOMIC_RELAXED);
    __atomic_store_n((weft_dev_any_u64 *)p + 1, v.hi, __ATOMIC_RELAXED);
}

#define FAKE_BITS(name, real, N)                                                                   \
    WEFT_DEVICE uint##N##_t weft_dev_bits_##name(real x)                                           \
    {                                                                                              \
        uint##N##_t bits;                                                                          \
        memcpy(&bits, &x, sizeof bits);                                                            \
        return bits;                                                                               \
    }                                                                                              \
    WEFT_DEVICE real weft_dev_##name##_bits(uint##N##_t bits)                                      \
    {                                                                                              \
        real x;                                                                                    \
        memcpy(&x, &bits, sizeof x);                                                               \
        return x;                                                                                  \
    }
FAKE_BITS(f32, float, 32)
FAKE_BITS(f64, double, 64)

#define weft_dev_thread_x()          0u
#define weft_dev_block_dim_x()       1u
#define weft_dev_block_x()           fake_block
#define weft_dev_grid_dim_x()        fake_blocks
#define weft_dev_grid_rank()         ((uint64_t)fake_block)
#define weft_dev_grid_threads()      ((uint64_t)fake_blocks)
#define weft_dev_lane()              0u
#define weft_dev_sync_warp(mask)     ((void)0)
#define weft_dev_any(mask, x)        ((x) != 0)
#define weft_dev_all(mask, x)        ((x) != 0)
#define weft_dev_sync_block()        ((void)0)
#define weft_dev_sync_block_or(x)    ((x) != 0)
#define weft_dev_fence(order, scope) (fake_order(order), __atomic_thread_fence(__ATOMIC_SEQ_CST))

#define FAKE_MEMORY(N)                                                                             \
    WEFT_DEVICE uint##N##_t weft_dev_load_u##N(const uint##N##_t *p, int order, int scope)         \
    {                                                                                              \
        (void)order, (void)scope;                                                                  \
        fake_touch();                                                                              \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                               \
    }                                                                                              \
    WEFT_DEVICE void weft_dev_store_u##N(uint##N##_t *p, uint##N##_t v, int order, int scope)      \
    {                                                                                              \
        (void)scope;                                                                               \
        fake_touch();                                                                              \
        fake_order(order);                                                                         \
        __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                  \
    }
FAKE_MEMORY(8)
FAKE_MEMORY(16)
FAKE_MEMORY(32)
FAKE_MEMORY(64)

#define FAKE_ATOMIC(name, builtin, N)                                                              \
    WEFT_DEVICE uint##N##_t weft_dev_atomic_##name##_u##N(uint##N##_t *p, uint##N##_t v,           \
                                                          int order, int scope)                    \
    {                                                                                              \
        (void)scope;                                                                               \
        fake_order(order);                                                                         \
        return builtin(p, v, __ATOMIC_SEQ_CST);                                                    \
    }
#define FAKE_ATOMICS(N)                                                                            \
    FAKE_ATOMIC(exch, __atomic_exchange_n, N)                                                      \
    FAKE_ATOMIC(add, __atomic_fetch_add, N)                                                        \
    FAKE_ATOMIC(and, __atomic_fetch_and, N)                                                        \
    FAKE_ATOMIC(or, __atomic_fetch_or, N)                                                          \
    FAKE_ATOMIC(xor, __atomic_fetch_xor, N)                                                        \
    WEFT_DEVICE uint##N##_t weft_dev_atomic_cas_u##N(uint##N##_t *p, uint##N##_t expected,         \
                                                     uint##N##_t v, int order, int scope)          \
    {                                                                                              \
        (void)scope;                                                                               \
        fake_order(order);                                                                         \
        __atomic_compare_exchange_n(p, &expected, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);       \
        return expected;                                                                           \
    }
WEFT_DEVICE uint64_t weft_dev_atomic_max_u64(uint64_t *p, uint64_t v, int order, int scope)
{
    (void)order, (void)scope;
    uint64_t before = __atomic_load_n(p, __ATOMIC_SEQ_CST);
    while (before < v &&
           !__atomic_compare_exchange_n(p, &before, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        ;
    return before;
}
FAKE_ATOMICS(32)
FAKE_ATOMICS(64)

/* Yields the CPU and returns how long that took, in ns. Not a name that a test may replace. */
static inline uint64_t fake_yield(void)
{
    struct timespec begun, ended;
    (clock_gettime)(CLOCK_MONOTONIC, &begun);
    sched_yield();
    (clock_gettime)(CLOCK_MONOTONIC, &ended);
    return (uint64_t)(ended.tv_sec - begun.tv_sec) * 1000000000u +
           (uint64_t)(ended.tv_nsec - begun.tv_nsec);
}

/* A loop that reads the clock waits for another thread, so the CPU is yielded. Where another thread
 * ran at the yield, the next readings sleep instead: threads that only wait would pass the CPU to
 * each other, and on a busy machine a yield costs the time slices of all others. */
WEFT_DEVICE uint64_t weft_dev_clock_ns(void)
{
    enum { YIELD_ALONE_NS = 2000, SLEEPS = 64, SLEEP_NS = 20000 };
    static _Thread_local int sleeps;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (sleeps) {
        sleeps--;
        nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
    } else if (fake_yield() > YIELD_ALONE_NS) {
        sleeps = SLEEPS;
    }
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
