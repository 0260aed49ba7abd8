/* SPDX-License-Identifier: Apache-2.0 */
/* Bits and bit patterns of <weft/device/simt.h> by the builtins that gcc and clang share, for the
 * targets simt and hip. Only target_simt.h and target_hip.h include it. */
#ifndef WEFT_DEVICE_BITS_H
#define WEFT_DEVICE_BITS_H

WEFT_DEVICE unsigned weft_dev_popcount_u32(uint32_t x)
{
    return (unsigned)__builtin_popcount(x);
}

WEFT_DEVICE unsigned weft_dev_popcount_u64(uint64_t x)
{
    return (unsigned)__builtin_popcountll(x);
}

WEFT_DEVICE unsigned weft_dev_find_first_u32(uint32_t x)
{
    return (unsigned)__builtin_ffs((int)x);
}

WEFT_DEVICE unsigned weft_dev_find_first_u64(uint64_t x)
{
    return (unsigned)__builtin_ffsll((long long)x);
}

WEFT_DEVICE unsigned weft_dev_leading_zeros_u32(uint32_t x)
{
    return x ? (unsigned)__builtin_clz(x) : 32;
}

WEFT_DEVICE unsigned weft_dev_leading_zeros_u64(uint64_t x)
{
    return x ? (unsigned)__builtin_clzll(x) : 64;
}

#define WEFT_DEV_BITS(to, To, from, From)                                                          \
    WEFT_DEVICE To weft_dev_##to##_##from(From x)                                                  \
    {                                                                                              \
        To result;                                                                                 \
        __builtin_memcpy(&result, &x, sizeof result);                                              \
        return result;                                                                             \
    }
WEFT_DEV_BITS(bits, uint32_t, f32, float)
WEFT_DEV_BITS(f32, float, bits, uint32_t)
WEFT_DEV_BITS(bits, uint64_t, f64, double)
WEFT_DEV_BITS(f64, double, bits, uint64_t)
#undef WEFT_DEV_BITS

#endif
