/* SPDX-License-Identifier: Apache-2.0 */
/* The primitives of <weft/device/simt.h> for a block of one thread, by which the stand-in of the
 * CUDA driver runs the library's own kernels. Only those that kernels.cu uses. */
#ifndef WEFT_DEVICE_SIMT_H
#define WEFT_DEVICE_SIMT_H

#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define WEFT_TARGET_CUDA              0
#define WEFT_TARGET_SIMT              1
#define WEFT_DEVICE                   static inline

#define WEFT_ORDER_RELAXED            0
#define WEFT_ORDER_ACQUIRE            1
#define WEFT_ORDER_RELEASE            2
#define WEFT_ORDER_ACQ_REL            3
#define WEFT_SCOPE_CTA                0
#define WEFT_SCOPE_GPU                1
#define WEFT_SCOPE_SYS                2

#define WEFT_SHARED(type, name, dims) type name dims

static _Thread_local unsigned fake_block, fake_blocks;

/* What the stream copied before becomes visible: see stream.c. */
void fake_release(void);

static inline void fake_order(int order)
{
    if (order == WEFT_ORDER_RELEASE || order == WEFT_ORDER_ACQ_REL)
        fake_release();
}

struct weft_dev_vec16 {
    uint64_t lo, hi;
};

WEFT_DEVICE struct weft_dev_vec16 weft_dev_load_vec16(const void *p)
{
    return *(const struct weft_dev_vec16 *)p;
}
WEFT_DEVICE void weft_dev_store_vec16(void *p, struct weft_dev_vec16 v)
{
    *(struct weft_dev_vec16 *)p = v;
}

#define weft_dev_thread_x()          0u
#define weft_dev_block_dim_x()       1u
#define weft_dev_block_x()           fake_block
#define weft_dev_grid_rank()         ((uint64_t)fake_block)
#define weft_dev_grid_threads()      ((uint64_t)fake_blocks)
#define weft_dev_sync_block()        ((void)0)
#define weft_dev_sync_block_or(x)    ((x) != 0)
#define weft_dev_fence(order, scope) (fake_order(order), __atomic_thread_fence(__ATOMIC_SEQ_CST))

#define FAKE_MEMORY(N)                                                                             \
    WEFT_DEVICE uint##N##_t weft_dev_load_u##N(const uint##N##_t *p, int order, int scope)         \
    {                                                                                              \
        (void)order, (void)scope;                                                                  \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                               \
    }                                                                                              \
    WEFT_DEVICE void weft_dev_store_u##N(uint##N##_t *p, uint##N##_t v, int order, int scope)      \
    {                                                                                              \
        (void)scope;                                                                               \
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
FAKE_ATOMICS(32)
FAKE_ATOMICS(64)

WEFT_DEVICE uint64_t weft_dev_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    sched_yield(); /* whoever looks at the clock in a loop waits for somebody */
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
