/* SPDX-License-Identifier: Apache-2.0 */
/* <nvshmem.h>: atomics, on the host and in device code. */
#ifndef WEFT_NVSHMEM_AMO_H
#define WEFT_NVSHMEM_AMO_H

#include <weft/nvshmem/types.h>

/* Every atomic is one weft_amo of the host API, on the bit pattern, with a constant width in
 * bytes. */
WEFT_NV_HOST uint64_t weft_nv_amo_host(weft_amo amo, size_t width, void *dest, uint64_t value,
                                       uint64_t expected, int pe)
{
    weft_ctx *ctx = weft_nvshmem_ctx();
    uint64_t fetched = 0;
    weft_status status = weft_atomic_nbi(ctx, amo, width, dest, expected, value,
                                         amo >= WEFT_AMO_FETCH ? &fetched : NULL, pe);
    if (!status && amo >= WEFT_AMO_FETCH)
        status = weft_quiet(ctx);
    weft_nvshmem_require(status, "nvshmem_atomic");
    return fetched;
}

#if WEFT_NV_DEVICE_PART
#define WEFT_NV_AMO_WIDTH(W)                                                                       \
    WEFT_NV_DEVICE uint64_t weft_nv_amo_device##W(weft_amo amo, void *dest, uint##W##_t value,     \
                                                  uint##W##_t expected, int pe)                    \
    {                                                                                              \
        switch (amo) {                                                                             \
        case WEFT_AMO_SET:                                                                         \
            weft_thread_atomic_set##W(dest, value, pe);                                            \
            return 0;                                                                              \
        case WEFT_AMO_ADD:                                                                         \
        case WEFT_AMO_FETCH_ADD:                                                                   \
            return weft_thread_atomic_fetch_add##W(dest, value, pe);                               \
        case WEFT_AMO_AND:                                                                         \
        case WEFT_AMO_FETCH_AND:                                                                   \
            return weft_thread_atomic_fetch_and##W(dest, value, pe);                               \
        case WEFT_AMO_OR:                                                                          \
        case WEFT_AMO_FETCH_OR:                                                                    \
            return weft_thread_atomic_fetch_or##W(dest, value, pe);                                \
        case WEFT_AMO_XOR:                                                                         \
        case WEFT_AMO_FETCH_XOR:                                                                   \
            return weft_thread_atomic_fetch_xor##W(dest, value, pe);                               \
        case WEFT_AMO_SWAP:                                                                        \
            return weft_thread_atomic_swap##W(dest, value, pe);                                    \
        case WEFT_AMO_CSWAP:                                                                       \
            return weft_thread_atomic_cswap##W(dest, expected, value, pe);                         \
        default:                                                                                   \
            return weft_thread_atomic_fetch##W(dest, pe);                                          \
        }                                                                                          \
    }
WEFT_NV_AMO_WIDTH(32)
WEFT_NV_AMO_WIDTH(64)
#undef WEFT_NV_AMO_WIDTH
#endif

WEFT_NV_BOTH uint64_t weft_nv_amo(weft_amo amo, size_t width, void *dest, uint64_t value,
                                  uint64_t expected, int pe)
{
    if (width == 8)
        WEFT_NV_SPLIT(return weft_nv_amo_device64(amo, dest, value, expected, pe),
                             return weft_nv_amo_host(amo, 8, dest, value, expected, pe));
    WEFT_NV_SPLIT(
        return weft_nv_amo_device32(amo, dest, (uint32_t)value, (uint32_t)expected, pe),
               return weft_nv_amo_host(amo, 4, dest, (uint32_t)value, (uint32_t)expected, pe));
}

#define WEFT_NV_BITS(T, value, bits)                                                               \
    uint64_t bits = 0;                                                                             \
    memcpy(&bits, &value, sizeof(T))

/* Name of the atomic and its weft_amo; the forms without and with a result. */
#define WEFT_NV_AMO_DO(type, T, name, amo)                                                         \
    WEFT_NV_BOTH void nvshmem_##type##_atomic_##name(T *dest, T value, int pe)                     \
    {                                                                                              \
        WEFT_NV_BITS(T, value, bits);                                                              \
        weft_nv_amo(amo, sizeof(T), dest, bits, 0, pe);                                            \
    }
#define WEFT_NV_AMO_FETCH(type, T, name, amo)                                                      \
    WEFT_NV_BOTH T nvshmem_##type##_atomic_##name(T *dest, T value, int pe)                        \
    {                                                                                              \
        WEFT_NV_BITS(T, value, bits);                                                              \
        bits = weft_nv_amo(amo, sizeof(T), dest, bits, 0, pe);                                     \
        memcpy((void *)&value, &bits, sizeof(T));                                                  \
        return value;                                                                              \
    }

#define WEFT_NV_AMO_BITWISE(type, T)                                                               \
    WEFT_NV_AMO_DO(type, T, and, WEFT_AMO_AND)                                                     \
    WEFT_NV_AMO_DO(type, T, or, WEFT_AMO_OR)                                                       \
    WEFT_NV_AMO_DO(type, T, xor, WEFT_AMO_XOR)                                                     \
    WEFT_NV_AMO_FETCH(type, T, fetch_and, WEFT_AMO_FETCH_AND)                                      \
    WEFT_NV_AMO_FETCH(type, T, fetch_or, WEFT_AMO_FETCH_OR)                                        \
    WEFT_NV_AMO_FETCH(type, T, fetch_xor, WEFT_AMO_FETCH_XOR)
WEFT_NV_AMO_BITWISE_TYPES(WEFT_NV_AMO_BITWISE)
#undef WEFT_NV_AMO_BITWISE

#define WEFT_NV_AMO_STANDARD(type, T)                                                              \
    WEFT_NV_AMO_DO(type, T, add, WEFT_AMO_ADD)                                                     \
    WEFT_NV_AMO_FETCH(type, T, fetch_add, WEFT_AMO_FETCH_ADD)                                      \
    WEFT_NV_BOTH void nvshmem_##type##_atomic_inc(T *dest, int pe)                                 \
    {                                                                                              \
        weft_nv_amo(WEFT_AMO_ADD, sizeof(T), dest, 1, 0, pe);                                      \
    }                                                                                              \
    WEFT_NV_BOTH T nvshmem_##type##_atomic_fetch_inc(T *dest, int pe)                              \
    {                                                                                              \
        return (T)weft_nv_amo(WEFT_AMO_FETCH_ADD, sizeof(T), dest, 1, 0, pe);                      \
    }                                                                                              \
    WEFT_NV_BOTH T nvshmem_##type##_atomic_compare_swap(T *dest, T cond, T value, int pe)          \
    {                                                                                              \
        return (T)weft_nv_amo(WEFT_AMO_CSWAP, sizeof(T), dest, (uint64_t)value, (uint64_t)cond,    \
                              pe);                                                                 \
    }
WEFT_NV_AMO_TYPES(WEFT_NV_AMO_STANDARD)
#undef WEFT_NV_AMO_STANDARD

#define WEFT_NV_AMO_EXTENDED(type, T)                                                              \
    WEFT_NV_AMO_DO(type, T, set, WEFT_AMO_SET)                                                     \
    WEFT_NV_AMO_FETCH(type, T, swap, WEFT_AMO_SWAP)                                                \
    WEFT_NV_BOTH T nvshmem_##type##_atomic_fetch(const T *source, int pe)                          \
    {                                                                                              \
        uint64_t bits = weft_nv_amo(WEFT_AMO_FETCH, sizeof(T), (void *)source, 0, 0, pe);          \
        T value;                                                                                   \
        memcpy((void *)&value, &bits, sizeof(T));                                                  \
        return value;                                                                              \
    }
WEFT_NV_AMO_EXTENDED_TYPES(WEFT_NV_AMO_EXTENDED)
#undef WEFT_NV_AMO_EXTENDED
#undef WEFT_NV_AMO_DO
#undef WEFT_NV_AMO_FETCH
#undef WEFT_NV_BITS

/* Only device code has these. */
#if WEFT_NV_DEVICE_PART
#define WEFT_NV_AMO_REAL(type, T, suffix)                                                          \
    WEFT_NV_DEVICE void nvshmemx_##type##_atomic_add(T *dest, T value, int pe)                     \
    {                                                                                              \
        weft_thread_atomic_add_##suffix(dest, value, pe);                                          \
    }                                                                                              \
    WEFT_NV_DEVICE T nvshmemx_##type##_atomic_fetch_add(T *dest, T value, int pe)                  \
    {                                                                                              \
        return weft_thread_atomic_fetch_add_##suffix(dest, value, pe);                             \
    }
WEFT_NV_AMO_REAL(float, float, f32)
WEFT_NV_AMO_REAL(double, double, f64)
#undef WEFT_NV_AMO_REAL
#endif

#endif
