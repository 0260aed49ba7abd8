/* SPDX-License-Identifier: Apache-2.0 */
/* Atomics of device code on a variable of any PE, with the device's own instructions: relaxed, of
 * system scope. Only scope thread has them. The variable is symmetric and aligned to its width.
 *
 * W is 32 or 64, T is uint32_t or uint64_t:
 *   void weft_thread_atomic_set##W(void *dst, T value, int pe), _add, _inc, _and, _or, _xor
 *   T    weft_thread_atomic_fetch##W(const void *src, int pe)
 *   T    weft_thread_atomic_swap##W(void *dst, T value, int pe)
 *   T    weft_thread_atomic_cswap##W(void *dst, T expected, T value, int pe)
 *   T    weft_thread_atomic_fetch_add##W(void *dst, T value, int pe), _inc, _and, _or, _xor
 * Real numbers (F is f32, f64, f16x2 or bf16x2; the last two are two 16-bit reals in a uint32_t,
 * each added to its counterpart; in hardware on cuda, bf16x2 from sm_90 on):
 *   void weft_thread_atomic_add_F(void *dst, T value, int pe)
 *   T    weft_thread_atomic_fetch_add_F(void *dst, T value, int pe)
 * Fetching atomics return the previous value, or 0 when the operation fails. */
#ifndef WEFT_DEVICE_ATOMICS_H
#define WEFT_DEVICE_ATOMICS_H

#include <weft/device/arithmetic.h>
#include <weft/device/rma.h>

/* weft_dev_direct_atomic() outside the window, or where not every link supports atomics. */
WEFT_DEVICE_NOINLINE char *weft_dev_direct_atomic_slow(const void *symmetric, int pe)
{
    return weft_dev_direct_atomic(symmetric, pe);
}

/* Declares the local `T *at`; in the window without a test for NULL. Where there is no direct
 * address, the macro sends the request to weft_dev_remote() and returns its result (bits),
 * converted by `result`. */
#define WEFT_DEV_ATOMIC_AT(T, symmetric, ID, bits, compare, result)                                \
    T *at;                                                                                         \
    if (WEFT_DEV_LIKELY(                                                                           \
            weft_dev_word_in_window_hoisted(symmetric, pe, weft_dev_state.all_atomics))) {         \
        at = (T *)weft_dev_window_hoisted(symmetric, pe);                                          \
    } else {                                                                                       \
        at = (T *)WEFT_DEV_CALL_SLOW(weft_dev_direct_atomic_slow, symmetric, pe);                  \
        if (!at)                                                                                   \
            return result(WEFT_DEV_CALL_RARELY(weft_dev_remote_word, WEFT_DEV_OP_ATOMIC,           \
                                               WEFT_DEV_ATOMIC_##ID, symmetric, sizeof(T), bits,   \
                                               compare, pe));                                      \
    }

#define WEFT_DEV_AMO(W, name, primitive, ID)                                                       \
    WEFT_DEVICE uint##W##_t weft_thread_atomic_##name##W(void *dst, uint##W##_t value, int pe)     \
    {                                                                                              \
        WEFT_DEV_ATOMIC_AT(uint##W##_t, dst, ID, value, 0, (uint##W##_t));                         \
        return weft_dev_atomic_##primitive##_u##W(at, value, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);  \
    }

/* In the form without a fetch the result is unused, so the compiler can use an instruction that
 * returns nothing and no thread waits for it. */
#define WEFT_DEV_AMO_BOTH(W, name, ID)                                                             \
    WEFT_DEV_AMO(W, fetch_##name, name, ID)                                                        \
    WEFT_DEVICE void weft_thread_atomic_##name##W(void *dst, uint##W##_t value, int pe)            \
    {                                                                                              \
        WEFT_DEV_ATOMIC_AT(uint##W##_t, dst, ID | WEFT_DEV_WITHOUT_RESULT, value, 0, (void));      \
        (void)weft_dev_atomic_##name##_u##W(at, value, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);        \
    }

#define WEFT_DEV_AMO_WIDTH(W)                                                                      \
    WEFT_DEV_AMO_BOTH(W, add, ADD)                                                                 \
    WEFT_DEV_AMO_BOTH(W, and, AND)                                                                 \
    WEFT_DEV_AMO_BOTH(W, or, OR)                                                                   \
    WEFT_DEV_AMO_BOTH(W, xor, XOR)                                                                 \
    WEFT_DEV_AMO(W, swap, exch, SWAP)                                                              \
    WEFT_DEVICE void weft_thread_atomic_inc##W(void *dst, int pe)                                  \
    {                                                                                              \
        weft_thread_atomic_add##W(dst, 1, pe);                                                     \
    }                                                                                              \
    WEFT_DEVICE uint##W##_t weft_thread_atomic_fetch_inc##W(void *dst, int pe)                     \
    {                                                                                              \
        return weft_thread_atomic_fetch_add##W(dst, 1, pe);                                        \
    }                                                                                              \
    WEFT_DEVICE uint##W##_t weft_thread_atomic_cswap##W(void *dst, uint##W##_t expected,           \
                                                        uint##W##_t value, int pe)                 \
    {                                                                                              \
        WEFT_DEV_ATOMIC_AT(uint##W##_t, dst, CSWAP, value, expected, (uint##W##_t));               \
        return weft_dev_atomic_cas_u##W(at, expected, value, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);  \
    }                                                                                              \
    WEFT_DEVICE uint##W##_t weft_thread_atomic_fetch##W(const void *src, int pe)                   \
    {                                                                                              \
        WEFT_DEV_ATOMIC_AT(uint##W##_t, src, FETCH, 0, 0, (uint##W##_t));                          \
        return weft_dev_load_u##W(at, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);                         \
    }                                                                                              \
    WEFT_DEVICE void weft_thread_atomic_set##W(void *dst, uint##W##_t value, int pe)               \
    {                                                                                              \
        WEFT_DEV_ATOMIC_AT(uint##W##_t, dst, SET | WEFT_DEV_WITHOUT_RESULT, value, 0, (void));     \
        weft_dev_store_u##W(at, value, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);                        \
    }
WEFT_DEV_AMO_WIDTH(32)
WEFT_DEV_AMO_WIDTH(64)
#undef WEFT_DEV_AMO_WIDTH
#undef WEFT_DEV_AMO_BOTH
#undef WEFT_DEV_AMO

/* Adds a pair of 16-bit reals by compare and swap. */
#define WEFT_DEV_PAIR_LOOP(from, to)                                                               \
    uint32_t seen = weft_dev_load_u32(at, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS), old;                \
    do {                                                                                           \
        uint32_t low = to(from((uint16_t)seen) + from((uint16_t)pair));                            \
        uint32_t high = to(from((uint16_t)(seen >> 16)) + from((uint16_t)(pair >> 16)));           \
        old = seen;                                                                                \
        seen = weft_dev_atomic_cas_u32(at, old, low | high << 16, order, scope);                   \
    } while (seen != old);                                                                         \
    return old

WEFT_DEVICE uint32_t weft_dev_atomic_add_f16x2(uint32_t *at, uint32_t pair, int order, int scope)
{
#if WEFT_TARGET_CUDA
    uint32_t old;
    (void)order;
    (void)scope;
    asm volatile("atom.relaxed.sys.add.noftz.f16x2 %0, [%1], %2;"
                 : "=r"(old)
                 : "l"(at), "r"(pair)
                 : "memory");
    return old;
#else
    WEFT_DEV_PAIR_LOOP(weft_dev_f32_f16, weft_dev_f16_f32);
#endif
}

WEFT_DEVICE uint32_t weft_dev_atomic_add_bf16x2(uint32_t *at, uint32_t pair, int order, int scope)
{
#if WEFT_TARGET_CUDA && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    uint32_t old;
    (void)order;
    (void)scope;
    asm volatile("atom.relaxed.sys.add.noftz.bf16x2 %0, [%1], %2;"
                 : "=r"(old)
                 : "l"(at), "r"(pair)
                 : "memory");
    return old;
#else
    WEFT_DEV_PAIR_LOOP(weft_dev_f32_bf16, weft_dev_bf16_f32);
#endif
}
#undef WEFT_DEV_PAIR_LOOP

#define WEFT_DEV_FROM_F32(bits) weft_dev_f32_bits((uint32_t)(bits))
#define WEFT_DEV_AMO_REAL(suffix, T, ID, to_bits, from_bits)                                       \
    WEFT_DEVICE T weft_thread_atomic_fetch_add_##suffix(void *dst, T value, int pe)                \
    {                                                                                              \
        WEFT_DEV_ATOMIC_AT(T, dst, ID, to_bits(value), 0, from_bits);                              \
        return weft_dev_atomic_add_##suffix(at, value, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);        \
    }                                                                                              \
    WEFT_DEVICE void weft_thread_atomic_add_##suffix(void *dst, T value, int pe)                   \
    {                                                                                              \
        WEFT_DEV_ATOMIC_AT(T, dst, ID | WEFT_DEV_WITHOUT_RESULT, to_bits(value), 0, (void));       \
        (void)weft_dev_atomic_add_##suffix(at, value, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);         \
    }
WEFT_DEV_AMO_REAL(f32, float, ADD_F32, weft_dev_bits_f32, WEFT_DEV_FROM_F32)
WEFT_DEV_AMO_REAL(f64, double, ADD_F64, weft_dev_bits_f64, weft_dev_f64_bits)
WEFT_DEV_AMO_REAL(f16x2, uint32_t, ADD_F16X2, , (uint32_t))
WEFT_DEV_AMO_REAL(bf16x2, uint32_t, ADD_BF16X2, , (uint32_t))
#undef WEFT_DEV_FROM_F32
#undef WEFT_DEV_AMO_REAL
#undef WEFT_DEV_ATOMIC_AT

#endif
