/* SPDX-License-Identifier: Apache-2.0 */
/* Implementation of <weft/device/simt.h> for gcc and clang: GNU atomics, and calls to the executor
 * in libweft (standin/simt) where lanes synchronise. Only simt.h includes it; C11 and C++17.
 *
 * Outside a kernel a caller counts as a grid of one thread, so that tests can call device functions
 * as plain functions. */
#ifndef WEFT_DEVICE_TARGET_SIMT_H
#define WEFT_DEVICE_TARGET_SIMT_H

#include <string.h>

/* A file with very many operations compiles in a fraction of the time without always_inline, so a
 * file that is compiled without optimisation does not have it. A file may define WEFT_DEVICE. */
#ifdef __OPTIMIZE__
#ifndef WEFT_DEVICE
#define WEFT_DEVICE static inline __attribute__((always_inline, unused))
#endif
#define WEFT_DEVICE_NOINLINE static __attribute__((noinline, unused))
#else /* what is `static` alone would be compiled in every file */
#ifndef WEFT_DEVICE
#define WEFT_DEVICE static inline __attribute__((unused))
#endif
#define WEFT_DEVICE_NOINLINE static inline __attribute__((unused))
#endif
/* Functions whose callers the executor distinguishes by the return address. Without inlining all
 * would return to the same place. */
#define WEFT_SIMT_SITE static inline __attribute__((always_inline, unused))
#define WEFT_GLOBAL    static __attribute__((unused))
#define WEFT_CONST     static __attribute__((unused))
#define WEFT_RESTRICT  __restrict__
#define WEFT_UNROLL
#define WEFT_NO_UNROLL
#define WEFT_NO_UNROLL

#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define WEFT_SIMT_TSAN 1
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define WEFT_SIMT_TSAN 1
#endif
#ifndef WEFT_SIMT_TSAN
#define WEFT_SIMT_TSAN 0
#endif

/* ------------------------------------------------ the executor's interface for device code */

/* The part of a lane that device code may access. The layout is part of the library's ABI. */
struct weft_simt_lane {
    unsigned thread[3], block[3], block_dim[3], grid_dim[3];
    unsigned lane;               /* index in the warp */
    int budget;                  /* polls left before the lane yields */
    int wrote;                   /* 1: the lane has stored to memory since it last yielded */
    const volatile void *polled; /* address of the last poll */
    uintptr_t low, high;         /* range of addresses polled since the lane last yielded */
    void *state;                 /* weft_simt_set_state() of the thread that launched */
    unsigned wave;               /* lanes of a warp */
    /* Lanes of the warp that poll one address without result, if they are not independent; else 0.
     */
    const uint64_t *watching;
};

enum weft_simt_warp_op {
    WEFT_SIMT_SYNC_WARP,
    WEFT_SIMT_BALLOT,
    WEFT_SIMT_ANY,
    WEFT_SIMT_ALL,
    WEFT_SIMT_MATCH_ANY,
    WEFT_SIMT_MATCH_ALL,
    WEFT_SIMT_SHUFFLE,
    WEFT_SIMT_SHUFFLE_UP,
    WEFT_SIMT_SHUFFLE_DOWN,
    WEFT_SIMT_SHUFFLE_XOR
};

enum weft_simt_block_op {
    WEFT_SIMT_SYNC_BLOCK,
    WEFT_SIMT_SYNC_BLOCK_COUNT,
    WEFT_SIMT_SYNC_BLOCK_AND,
    WEFT_SIMT_SYNC_BLOCK_OR
};

#ifdef __cplusplus
extern "C" {
#endif
/* Returns the calling lane; constant during the whole activation of a function, hence const. */
struct weft_simt_lane *weft_simt_self(void) __attribute__((const));
int weft_simt_in_kernel(void); /* returns 0 when the caller is not a lane of a kernel */
uint64_t weft_simt_warp(enum weft_simt_warp_op op, uint64_t mask, uint64_t value, unsigned arg);
int weft_simt_block(enum weft_simt_block_op op, int pred);
uint64_t weft_simt_active_mask(void);
void *weft_simt_shared(const void *site, const char *name, size_t bytes);
void *weft_simt_shared_dynamic(void);
uint64_t weft_simt_clock_ns(void);
void weft_simt_nanosleep(uint32_t ns);
void weft_simt_yield(void);
void weft_simt_wait_begins(void);
void weft_simt_wait_ends(void);
void weft_simt_written(const volatile void *p);
int weft_simt_vec16_unit(void);
/* Whether p is on the calling lane's stack or in its block's shared memory. The host could access
 * these here, but cannot on a GPU. */
int weft_simt_is_private(const void *p);
/* ThreadSanitizer knows no fences and must not see the lane's own fields. */
void weft_simt_tsan_poll(const volatile void *p, int wrote);
void weft_simt_tsan_loaded(const volatile void *p);
int weft_simt_tsan_fenced(void);
void weft_simt_tsan_fence(void);
#ifdef __cplusplus
}
#endif

#ifndef WEFT_DEV_HOST_IN_TURN
#define WEFT_DEV_HOST_IN_TURN 0
#endif

WEFT_DEVICE unsigned weft_simt_wave(void)
{
    return weft_simt_self()->wave;
}

/* The lane writes: that is progress, whatever it polled. */
WEFT_DEVICE void weft_simt_progress(const volatile void *p)
{
    struct weft_simt_lane *self = weft_simt_self();
    self->wrote = 1;
    if (__builtin_expect(*self->watching != 0, 0))
        weft_simt_written(p);
}

/* Called before each load or atomic, because a lane might spin on it. A lane that polls one address
 * yields soon. */
WEFT_DEVICE void weft_simt_poll(const volatile void *p, int wrote)
{
#if WEFT_SIMT_TSAN
    weft_simt_tsan_poll(p, wrote);
#else
    struct weft_simt_lane *self = weft_simt_self();
    self->budget -= self->polled == p ? 16 : 1;
    self->polled = p;
    if (wrote) {
        weft_simt_progress(p);
    } else {
        self->low = (uintptr_t)p < self->low ? (uintptr_t)p : self->low;
        self->high = (uintptr_t)p > self->high ? (uintptr_t)p : self->high;
    }
    if (__builtin_expect(self->budget <= 0, 0))
        weft_simt_yield();
#endif
}

/* Called before each store, on which no lane spins. A lane that stores makes progress. */
WEFT_DEVICE void weft_simt_writes(const volatile void *p)
{
#if WEFT_SIMT_TSAN
    weft_simt_tsan_poll(p, 1);
#else
    weft_simt_progress(p);
#endif
}

WEFT_DEVICE int weft_dev_is_global(const void *p)
{
    return !weft_simt_is_private(p); /* as on a GPU, where no window of private memory holds 0 */
}

/* The address of a static array of one byte is the key by which the lanes of a block find the same
 * memory. */
#define WEFT_SHARED(type, name, dims)                                                              \
    typedef type weft_shared_type_##name dims;                                                     \
    static char weft_shared_site_##name;                                                           \
    __typeof__((*(weft_shared_type_##name *)0)[0]) *const name =                                   \
        (__typeof__((*(weft_shared_type_##name *)0)[0]) *)weft_simt_shared(                        \
            &weft_shared_site_##name, #name, sizeof(weft_shared_type_##name))
#define WEFT_SHARED_DYNAMIC(type, name) type *const name = (type *)weft_simt_shared_dynamic()

/* ------------------------------------------------------------------------------ position */

#define WEFT_SIMT_INDEX(name, field)                                                               \
    WEFT_DEVICE unsigned name##_x(void)                                                            \
    {                                                                                              \
        return weft_simt_self()->field[0];                                                         \
    }                                                                                              \
    WEFT_DEVICE unsigned name##_y(void)                                                            \
    {                                                                                              \
        return weft_simt_self()->field[1];                                                         \
    }                                                                                              \
    WEFT_DEVICE unsigned name##_z(void)                                                            \
    {                                                                                              \
        return weft_simt_self()->field[2];                                                         \
    }
WEFT_SIMT_INDEX(weft_dev_thread, thread)
WEFT_SIMT_INDEX(weft_dev_block, block)
WEFT_SIMT_INDEX(weft_dev_block_dim, block_dim)
WEFT_SIMT_INDEX(weft_dev_grid_dim, grid_dim)
#undef WEFT_SIMT_INDEX

WEFT_DEVICE unsigned weft_dev_lane(void)
{
    return weft_simt_self()->lane;
}

WEFT_DEVICE unsigned weft_dev_in_place(unsigned x)
{
    return x;
}

WEFT_DEVICE uint64_t weft_dev_opaque_u64(uint64_t x)
{
    return x;
}

/* ------------------------------------------------------------------------------------ warp */

WEFT_SIMT_SITE weft_lane_mask weft_dev_active_mask(void)
{
    return weft_simt_active_mask();
}

WEFT_DEVICE weft_lane_mask weft_dev_ballot(weft_lane_mask mask, int pred)
{
    return weft_simt_warp(WEFT_SIMT_BALLOT, mask, pred != 0, 0);
}

WEFT_DEVICE int weft_dev_any(weft_lane_mask mask, int pred)
{
    return (int)weft_simt_warp(WEFT_SIMT_ANY, mask, pred != 0, 0);
}

WEFT_DEVICE int weft_dev_all(weft_lane_mask mask, int pred)
{
    return (int)weft_simt_warp(WEFT_SIMT_ALL, mask, pred != 0, 0);
}

#define WEFT_SIMT_WARP(suffix, type)                                                               \
    WEFT_DEVICE weft_lane_mask weft_dev_match_any_##suffix(weft_lane_mask mask, type value)        \
    {                                                                                              \
        return weft_simt_warp(WEFT_SIMT_MATCH_ANY, mask, value, 0);                                \
    }                                                                                              \
    WEFT_DEVICE weft_lane_mask weft_dev_match_all_##suffix(weft_lane_mask mask, type value)        \
    {                                                                                              \
        return weft_simt_warp(WEFT_SIMT_MATCH_ALL, mask, value, 0);                                \
    }                                                                                              \
    WEFT_DEVICE type weft_dev_shuffle_##suffix(weft_lane_mask mask, type value, unsigned lane)     \
    {                                                                                              \
        return (type)weft_simt_warp(WEFT_SIMT_SHUFFLE, mask, value, lane);                         \
    }                                                                                              \
    WEFT_DEVICE type weft_dev_shuffle_up_##suffix(weft_lane_mask mask, type value, unsigned delta) \
    {                                                                                              \
        return (type)weft_simt_warp(WEFT_SIMT_SHUFFLE_UP, mask, value, delta);                     \
    }                                                                                              \
    WEFT_DEVICE type weft_dev_shuffle_down_##suffix(weft_lane_mask mask, type value,               \
                                                    unsigned delta)                                \
    {                                                                                              \
        return (type)weft_simt_warp(WEFT_SIMT_SHUFFLE_DOWN, mask, value, delta);                   \
    }                                                                                              \
    WEFT_DEVICE type weft_dev_shuffle_xor_##suffix(weft_lane_mask mask, type value, unsigned bits) \
    {                                                                                              \
        return (type)weft_simt_warp(WEFT_SIMT_SHUFFLE_XOR, mask, value, bits);                     \
    }
WEFT_SIMT_WARP(u32, uint32_t)
WEFT_SIMT_WARP(u64, uint64_t)
#undef WEFT_SIMT_WARP

WEFT_DEVICE void weft_dev_sync_warp(weft_lane_mask mask)
{
    weft_simt_warp(WEFT_SIMT_SYNC_WARP, mask, 0, 0);
}

/* ----------------------------------------------------------------------------------- block */

WEFT_DEVICE void weft_dev_sync_block(void)
{
    weft_simt_block(WEFT_SIMT_SYNC_BLOCK, 0);
}

WEFT_DEVICE int weft_dev_sync_block_count(int pred)
{
    return weft_simt_block(WEFT_SIMT_SYNC_BLOCK_COUNT, pred);
}

WEFT_DEVICE int weft_dev_sync_block_and(int pred)
{
    return weft_simt_block(WEFT_SIMT_SYNC_BLOCK_AND, pred);
}

WEFT_DEVICE int weft_dev_sync_block_or(int pred)
{
    return weft_simt_block(WEFT_SIMT_SYNC_BLOCK_OR, pred);
}

/* -------------------------------------------------------------------------- loads and stores
 *
 * ThreadSanitizer learns of a fence through the accesses around it: a relaxed store or atomic after
 * a fence releases, and a fence acquires from the addresses loaded before it.
 */

#if WEFT_SIMT_TSAN
#define WEFT_SIMT_LOADED(p)   weft_simt_tsan_loaded(p)
#define WEFT_SIMT_RELEASES(o) ((o) == WEFT_ORDER_RELEASE || weft_simt_tsan_fenced())
#else
#define WEFT_SIMT_LOADED(p)   ((void)0)
#define WEFT_SIMT_RELEASES(o) ((o) == WEFT_ORDER_RELEASE)
#endif

/* C orders memory among CPUs, on Arm the inner shareable domain. Scope SYS includes NICs, which are
 * outside of it: the host posts requests with these functions too (gda_queue.h). `kind`: "ld"
 * orders earlier loads before everything later, "" everything. */
#if defined(__aarch64__) && !WEFT_SIMT_TSAN
#define WEFT_SIMT_ORDER_DEVICES(scope, kind)                                                       \
    do {                                                                                           \
        if ((scope) == WEFT_SCOPE_SYS)                                                             \
            __asm__ volatile("dmb osh" kind ::: "memory");                                         \
    } while (0)
#else
#define WEFT_SIMT_ORDER_DEVICES(scope, kind) ((void)(scope))
#endif

#define WEFT_SIMT_MEMORY(N)                                                                        \
    WEFT_DEVICE uint##N##_t weft_dev_load_u##N(const volatile uint##N##_t *p, int order,           \
                                               int scope)                                          \
    {                                                                                              \
        uint##N##_t value;                                                                         \
        weft_simt_poll(p, 0);                                                                      \
        if (order == WEFT_ORDER_ACQUIRE) {                                                         \
            value = __atomic_load_n(p, __ATOMIC_ACQUIRE);                                          \
            WEFT_SIMT_ORDER_DEVICES(scope, "ld");                                                  \
        } else {                                                                                   \
            value = __atomic_load_n(p, __ATOMIC_RELAXED);                                          \
            WEFT_SIMT_LOADED(p);                                                                   \
        }                                                                                          \
        return value;                                                                              \
    }                                                                                              \
    WEFT_DEVICE void weft_dev_store_u##N(volatile uint##N##_t *p, uint##N##_t value, int order,    \
                                         int scope)                                                \
    {                                                                                              \
        weft_simt_writes(p);                                                                       \
        if (WEFT_SIMT_RELEASES(order)) {                                                           \
            WEFT_SIMT_ORDER_DEVICES(scope, "");                                                    \
            __atomic_store_n(p, value, __ATOMIC_RELEASE);                                          \
        } else {                                                                                   \
            __atomic_store_n(p, value, __ATOMIC_RELAXED);                                          \
        }                                                                                          \
    }
WEFT_SIMT_MEMORY(8)
WEFT_SIMT_MEMORY(16)
WEFT_SIMT_MEMORY(32)
WEFT_SIMT_MEMORY(64)
#undef WEFT_SIMT_MEMORY

WEFT_DEVICE struct weft_dev_vec16 weft_dev_load_vec16(const void *p)
{
    return *(const struct weft_dev_vec16 *)p;
}

WEFT_DEVICE void weft_dev_store_vec16(void *p, struct weft_dev_vec16 v)
{
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

WEFT_DEVICE struct weft_dev_vec16 weft_dev_load_vec16_once(const void *p)
{
    return weft_dev_load_vec16(p);
}

WEFT_DEVICE void weft_dev_store_vec16_once(void *p, struct weft_dev_vec16 v)
{
    weft_dev_store_vec16(p, v);
}

/* x86-64 with AVX and Arm with LSE2 do an aligned 16-byte access as one (Intel SDM 3A, 9.1.1; AMD
 * APM 2, 7.3.2; Arm ARM, B2.2.1); weft_dev_vec16_unit() says whether this CPU does. */
WEFT_DEVICE struct weft_dev_vec16 weft_dev_load_vec16_relaxed(const void *p)
{
    struct weft_dev_vec16 v;
    weft_simt_poll(p, 0);
#if defined(__x86_64__) && !WEFT_SIMT_TSAN
    typedef long long weft_simt_vector __attribute__((vector_size(16)));
    weft_simt_vector raw;
    __asm__ volatile("movdqa %1, %0" : "=x"(raw) : "m"(*(const weft_simt_vector *)p) : "memory");
    v.lo = (uint64_t)raw[0];
    v.hi = (uint64_t)raw[1];
#elif defined(__aarch64__) && !WEFT_SIMT_TSAN
    __asm__ volatile("ldp %0, %1, [%2]" : "=r"(v.lo), "=r"(v.hi) : "r"(p) : "memory");
#else
    v.lo = __atomic_load_n((const uint64_t *)p, __ATOMIC_RELAXED);
    v.hi = __atomic_load_n((const uint64_t *)p + 1, __ATOMIC_RELAXED);
    WEFT_SIMT_LOADED(p);
    WEFT_SIMT_LOADED((const uint64_t *)p + 1);
#endif
    return v;
}

WEFT_DEVICE void weft_dev_store_vec16_relaxed(void *p, struct weft_dev_vec16 v)
{
    weft_simt_writes(p);
#if defined(__x86_64__) && !WEFT_SIMT_TSAN
    typedef long long weft_simt_vector __attribute__((vector_size(16)));
    weft_simt_vector raw = {(long long)v.lo, (long long)v.hi};
    __asm__ volatile("movdqa %1, %0" : "=m"(*(weft_simt_vector *)p) : "x"(raw) : "memory");
#elif defined(__aarch64__) && !WEFT_SIMT_TSAN
    __asm__ volatile("stp %0, %1, [%2]" : : "r"(v.lo), "r"(v.hi), "r"(p) : "memory");
#else
    int how = WEFT_SIMT_RELEASES(WEFT_ORDER_RELAXED) ? __ATOMIC_RELEASE : __ATOMIC_RELAXED;
    __atomic_store_n((uint64_t *)p, v.lo, how);
    __atomic_store_n((uint64_t *)p + 1, v.hi, how);
#endif
}

WEFT_DEVICE int weft_dev_vec16_unit(void)
{
    return WEFT_SIMT_TSAN ? 8 : weft_simt_vec16_unit();
}

/* --------------------------------------------------------------------------------- atomics */

/* The C order of an atomic. Under ThreadSanitizer a preceding fence strengthens it, see above. */
WEFT_DEVICE int weft_simt_order(int order)
{
#if WEFT_SIMT_TSAN
    if (weft_simt_tsan_fenced())
        order = order == WEFT_ORDER_RELAXED   ? WEFT_ORDER_RELEASE
                : order == WEFT_ORDER_ACQUIRE ? WEFT_ORDER_ACQ_REL
                                              : order;
#endif
    return order == WEFT_ORDER_RELAXED   ? __ATOMIC_RELAXED
           : order == WEFT_ORDER_ACQUIRE ? __ATOMIC_ACQUIRE
           : order == WEFT_ORDER_RELEASE ? __ATOMIC_RELEASE
                                         : __ATOMIC_ACQ_REL;
}

#define WEFT_SIMT_CAS(suffix, type)                                                                \
    WEFT_DEVICE type weft_dev_atomic_cas_##suffix(volatile type *p, type expected, type value,     \
                                                  int order, int scope)                            \
    {                                                                                              \
        int failed = order == WEFT_ORDER_RELAXED || order == WEFT_ORDER_RELEASE                    \
                         ? __ATOMIC_RELAXED                                                        \
                         : __ATOMIC_ACQUIRE;                                                       \
        (void)scope;                                                                               \
        weft_simt_poll(p, 0);                                                                      \
        if (__atomic_compare_exchange_n(p, &expected, value, 0, weft_simt_order(order), failed))   \
            weft_simt_progress(p);                                                                 \
        WEFT_SIMT_LOADED(p);                                                                       \
        return expected;                                                                           \
    }
WEFT_SIMT_CAS(u32, uint32_t)
WEFT_SIMT_CAS(u64, uint64_t)
#undef WEFT_SIMT_CAS

/* Name, C type, GNU builtin. */
#define WEFT_SIMT_FETCH(name, type, builtin)                                                       \
    WEFT_DEVICE type weft_dev_atomic_##name(volatile type *p, type value, int order, int scope)    \
    {                                                                                              \
        (void)scope;                                                                               \
        weft_simt_poll(p, 1);                                                                      \
        type old = builtin(p, value, weft_simt_order(order));                                      \
        WEFT_SIMT_LOADED(p);                                                                       \
        return old;                                                                                \
    }
WEFT_SIMT_FETCH(add_u32, uint32_t, __atomic_fetch_add)
WEFT_SIMT_FETCH(add_u64, uint64_t, __atomic_fetch_add)
#define weft_dev_global_add_u64 weft_dev_atomic_add_u64
WEFT_SIMT_FETCH(exch_u32, uint32_t, __atomic_exchange_n)
WEFT_SIMT_FETCH(exch_u64, uint64_t, __atomic_exchange_n)
WEFT_SIMT_FETCH(and_u32, uint32_t, __atomic_fetch_and)
WEFT_SIMT_FETCH(and_u64, uint64_t, __atomic_fetch_and)
WEFT_SIMT_FETCH(or_u32, uint32_t, __atomic_fetch_or)
WEFT_SIMT_FETCH(or_u64, uint64_t, __atomic_fetch_or)
WEFT_SIMT_FETCH(xor_u32, uint32_t, __atomic_fetch_xor)
WEFT_SIMT_FETCH(xor_u64, uint64_t, __atomic_fetch_xor)
#undef WEFT_SIMT_FETCH

/* Atomics without a C builtin: a compare-and-swap loop on the word that holds the value. `wanted`
 * is the new value, an expression of `old` and `value`. */
#define WEFT_SIMT_LOOP(name, type, word, wanted)                                                   \
    WEFT_DEVICE type weft_dev_atomic_##name(volatile type *p, type value, int order, int scope)    \
    {                                                                                              \
        volatile word *at = (volatile word *)p;                                                    \
        word seen, next;                                                                           \
        type old, result;                                                                          \
        (void)scope;                                                                               \
        weft_simt_poll(p, 1);                                                                      \
        seen = __atomic_load_n(at, __ATOMIC_RELAXED);                                              \
        do {                                                                                       \
            memcpy(&old, &seen, sizeof old);                                                       \
            result = (wanted);                                                                     \
            memcpy(&next, &result, sizeof next);                                                   \
        } while (!__atomic_compare_exchange_n(at, &seen, next, 1, weft_simt_order(order),          \
                                              __ATOMIC_RELAXED));                                  \
        WEFT_SIMT_LOADED(p);                                                                       \
        return old;                                                                                \
    }
WEFT_SIMT_LOOP(add_f32, float, uint32_t, old + value)
WEFT_SIMT_LOOP(add_f64, double, uint64_t, old + value)
WEFT_SIMT_LOOP(min_u32, uint32_t, uint32_t, old < value ? old : value)
WEFT_SIMT_LOOP(min_u64, uint64_t, uint64_t, old < value ? old : value)
WEFT_SIMT_LOOP(min_i32, int32_t, uint32_t, old < value ? old : value)
WEFT_SIMT_LOOP(min_i64, int64_t, uint64_t, old < value ? old : value)
WEFT_SIMT_LOOP(max_u32, uint32_t, uint32_t, old > value ? old : value)
WEFT_SIMT_LOOP(max_u64, uint64_t, uint64_t, old > value ? old : value)
WEFT_SIMT_LOOP(max_i32, int32_t, uint32_t, old > value ? old : value)
WEFT_SIMT_LOOP(max_i64, int64_t, uint64_t, old > value ? old : value)
#undef WEFT_SIMT_LOOP

WEFT_DEVICE void weft_dev_fence(int order, int scope)
{
#if WEFT_SIMT_TSAN
    (void)order, (void)scope;
    weft_simt_tsan_fence();
#else
    WEFT_SIMT_ORDER_DEVICES(scope, "");
    if (order == WEFT_ORDER_SEQ_CST)
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    else
        __atomic_thread_fence(__ATOMIC_ACQ_REL);
#endif
}

/* ------------------------------------------------------------------------------------ time */

WEFT_DEVICE uint64_t weft_dev_clock_ns(void)
{
    return weft_simt_clock_ns();
}

WEFT_DEVICE uint64_t weft_dev_clock_cycles(void)
{
    return weft_simt_clock_ns();
}

WEFT_DEVICE void weft_dev_nanosleep(uint32_t ns)
{
    weft_simt_nanosleep(ns);
}

WEFT_DEVICE int weft_dev_lanes_independent(void)
{
    return weft_simt_wave() == 32;
}

WEFT_SIMT_SITE void weft_dev_wait_begins(void)
{
    weft_simt_wait_begins();
}

WEFT_DEVICE void weft_dev_wait_ends(void)
{
    weft_simt_wait_ends();
}

#include <weft/device/bits.h>

#endif
