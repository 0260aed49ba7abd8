/* SPDX-License-Identifier: Apache-2.0 */
/* Conversion between binary32 and the 16- and 8-bit real types that C has no name for: rounded to
 * nearest, ties to even. Knows nothing of reductions. */
#ifndef WEFT_DEVICE_NARROW_H
#define WEFT_DEVICE_NARROW_H

#include <weft/types.h>

#include <weft/device/simt.h>

/* Names of device code for these types. */
#define WEFT_DEV_HALF     ((weft_type)100)
#define WEFT_DEV_BFLOAT16 ((weft_type)101)
#define WEFT_DEV_FP8_E4M3 ((weft_type)102)
#define WEFT_DEV_FP8_E5M2 ((weft_type)103)

WEFT_DEVICE float weft_dev_f32_bf16(uint16_t x)
{
    return weft_dev_f32_bits((uint32_t)x << 16);
}

WEFT_DEVICE uint16_t weft_dev_bf16_f32(float x)
{
    uint32_t bits = weft_dev_bits_f32(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40); /* a NaN stays a NaN */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#if WEFT_TARGET_CUDA

WEFT_DEVICE float weft_dev_f32_f16(uint16_t x)
{
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x));
    return result;
}

WEFT_DEVICE uint16_t weft_dev_f16_f32(float x)
{
    uint16_t result;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result) : "f"(x));
    return result;
}

#else

WEFT_DEVICE float weft_dev_f32_f16(uint16_t x)
{
    uint32_t sign = (uint32_t)(x & 0x8000) << 16, exponent = x >> 10 & 31, mantissa = x & 1023;
    if (exponent == 31)
        return weft_dev_f32_bits(sign | 0x7f800000u | mantissa << 13);
    if (exponent)
        return weft_dev_f32_bits(sign | (exponent + 112) << 23 | mantissa << 13);
    float small =
        (float)mantissa * 5.9604644775390625e-8f; /* 2^-24, exact; C++11 has no 0x1p-24f */
    return sign ? -small : small;
}

WEFT_DEVICE uint16_t weft_dev_f16_f32(float x)
{
    uint32_t bits = weft_dev_bits_f32(x), sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u)
        return (uint16_t)(sign | 0x7fff);
    if (bits >= 0x477ff000u) /* rounds to 65536 or more */
        return (uint16_t)(sign | 0x7c00);
    if (bits < 0x38800000u) { /* below 2^-14: adding 0.5 rounds at the unit of the subnormals */
        float shifted = weft_dev_f32_bits(bits) + 0.5f;
        return (uint16_t)(sign | (weft_dev_bits_f32(shifted) - 0x3f000000u));
    }
    bits += 0xfff + (bits >> 13 & 1);
    return (uint16_t)(sign | (bits - 0x38000000u) >> 13);
}

#endif

/* FP8 of the Open Compute Project (OCP 8-bit Floating Point Specification, revision 1.0). E4M3:
 * bias 7, no infinity, NaN has all bits but the sign set. E5M2: bias 15, infinity and NaN as in
 * IEEE 754. Too large a number, and infinity, becomes the largest finite number, 448 or 57344, and
 * NaN becomes 0x7f: the specification's saturating conversion, as CUDA's __NV_SATFINITE. The code
 * does not use a GPU's own conversion instructions (from sm_89 on): all targets give the same
 * bits. */
/* Fraction and exponent as those of a binary32, also for subnormals, times the difference of the
 * biases: exact. Not flushed to zero, however the program is compiled. */
WEFT_DEVICE float weft_dev_fp8_scaled(uint32_t bits, float by)
{
    float x = weft_dev_f32_bits(bits);
#if WEFT_TARGET_CUDA
    asm("mul.rn.f32 %0, %0, %1;" : "+f"(x) : "f"(by));
    return x;
#else
    return x * by;
#endif
}

WEFT_DEVICE float weft_dev_f32_e4m3(uint8_t x)
{
    uint32_t magnitude = x & 0x7f;
    uint32_t bits =
        weft_dev_bits_f32(weft_dev_fp8_scaled(magnitude << 20, 1.329227995784916e36f /* 2^120 */));
    return weft_dev_f32_bits((magnitude == 0x7f ? 0x7fc00000u : bits) | (uint32_t)(x & 0x80) << 24);
}

/* An E5M2 has the upper half of the bits of a binary16. */
WEFT_DEVICE float weft_dev_f32_e5m2(uint8_t x)
{
    return weft_dev_f32_f16((uint16_t)((uint32_t)x << 8));
}

/* Converts the bits of a binary32 to an FP8 with `digits` bits of fraction. normal and largest:
 * bits of its smallest normal and its largest number. unit: the number whose last bit is the unit
 * of the subnormals. saturated: the result for larger numbers. */
WEFT_DEVICE uint8_t weft_dev_fp8_bits(uint32_t bits, unsigned digits, uint32_t normal,
                                      uint32_t largest, float unit, uint32_t saturated)
{
    uint32_t sign = bits >> 24 & 0x80, drop = 23 - digits, magnitude = bits & 0x7fffffffu;
    /* The sum rounds to a multiple of the smallest subnormal. */
    float shifted = weft_dev_f32_bits(magnitude < normal ? magnitude : 0) + unit;
    uint32_t subnormal = weft_dev_bits_f32(shifted) - weft_dev_bits_f32(unit);
    uint32_t rounded = magnitude + ((uint32_t)1 << (drop - 1)) - 1 + (magnitude >> drop & 1);
    uint32_t result = ((rounded - normal) >> drop) + ((uint32_t)1 << digits);
    result = magnitude < normal ? subnormal : result;
    result = magnitude >= largest ? saturated : result;
    return (uint8_t)(magnitude > 0x7f800000u ? 0x7f : sign | result);
}

WEFT_DEVICE uint8_t weft_dev_e4m3_f32(float x)
{
    return weft_dev_fp8_bits(weft_dev_bits_f32(x), 3, 0x3c800000u /* 2^-6 */, 0x43e00000u, 16384.0f,
                             0x7e);
}

WEFT_DEVICE uint8_t weft_dev_e5m2_f32(float x)
{
    return weft_dev_fp8_bits(weft_dev_bits_f32(x), 2, 0x38800000u /* 2^-14 */, 0x47600000u, 128.0f,
                             0x7b);
}

/* ---------------------------------------------------------------------------------- any of them */

WEFT_DEVICE int weft_dev_is_fp8(weft_type type)
{
    return type == WEFT_DEV_FP8_E4M3 || type == WEFT_DEV_FP8_E5M2;
}

WEFT_DEVICE int weft_dev_is_narrow(weft_type type)
{
    return type == WEFT_DEV_HALF || type == WEFT_DEV_BFLOAT16 || weft_dev_is_fp8(type);
}

WEFT_DEVICE float weft_dev_f32_narrow(weft_type type, uint16_t bits)
{
    return type == WEFT_DEV_HALF       ? weft_dev_f32_f16(bits)
           : type == WEFT_DEV_BFLOAT16 ? weft_dev_f32_bf16(bits)
           : type == WEFT_DEV_FP8_E4M3 ? weft_dev_f32_e4m3((uint8_t)bits)
                                       : weft_dev_f32_e5m2((uint8_t)bits);
}

WEFT_DEVICE uint16_t weft_dev_narrow_f32(weft_type type, float x)
{
    return type == WEFT_DEV_HALF       ? weft_dev_f16_f32(x)
           : type == WEFT_DEV_BFLOAT16 ? weft_dev_bf16_f32(x)
           : type == WEFT_DEV_FP8_E4M3 ? weft_dev_e4m3_f32(x)
                                       : weft_dev_e5m2_f32(x);
}

#endif
