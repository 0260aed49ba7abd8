/* SPDX-License-Identifier: Apache-2.0 */
/* clang-format off */
/* Arithmetic of reductions on 16 bytes of elements at a time: every type and operation of the host's
 * but long double, and 16-bit reals. Knows nothing of memory and PEs. */
#ifndef WEFT_DEVICE_ARITHMETIC_H
#define WEFT_DEVICE_ARITHMETIC_H

#include <weft.h>
#include <weft/device/simt.h>

/* Names of device code for the types of 16 bits: they are combined in binary32, and the result of all is
 * rounded once, to nearest even (struct weft_dev_wide). */
#define WEFT_DEV_HALF     ((weft_type)100)
#define WEFT_DEV_BFLOAT16 ((weft_type)101)

WEFT_DEVICE float weft_dev_f32_bf16(uint16_t x)
{
    return weft_dev_f32_bits((uint32_t)x << 16);
}

WEFT_DEVICE uint16_t weft_dev_bf16_f32(float x)
{
    uint32_t bits = weft_dev_bits_f32(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40); /* NaN stays one */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Products of which a sum is made: rounded before it, so that no compiler makes one operation of both and
 * the bits depend on no target. */
#if WEFT_TARGET_CUDA

WEFT_DEVICE float weft_dev_mul_f32(float a, float b)
{
    return __fmul_rn(a, b);
}

WEFT_DEVICE double weft_dev_mul_f64(double a, double b)
{
    return __dmul_rn(a, b);
}

#else

WEFT_DEVICE float weft_dev_mul_f32(float a, float b)
{
    return a * b;
}

WEFT_DEVICE double weft_dev_mul_f64(double a, double b)
{
    return a * b;
}

#endif

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
    float small = (float)mantissa * 5.9604644775390625e-8f; /* 2^-24, exact; C++11 has no 0x1p-24f */
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

/* ------------------------------------------------------------------------------ one element */

WEFT_DEVICE size_t weft_dev_type_bytes(weft_type type)
{
    switch ((int)type) {
    case WEFT_INT8:
    case WEFT_UINT8:
        return 1;
    case WEFT_INT16:
    case WEFT_UINT16:
    case 100:
    case 101:
        return 2;
    case WEFT_INT32:
    case WEFT_UINT32:
    case WEFT_FLOAT:
        return 4;
    case WEFT_INT64:
    case WEFT_UINT64:
    case WEFT_DOUBLE:
    case WEFT_COMPLEX_FLOAT:
        return 8;
    case WEFT_COMPLEX_DOUBLE:
        return 16;
    default:
        return 0;
    }
}

/* Whether a reduction is defined, and done here. */
WEFT_DEVICE int weft_dev_reducible(weft_type type, weft_op op)
{
    if (!weft_dev_type_bytes(type) || (unsigned)op >= WEFT_OP_COUNT)
        return 0;
    if (type == WEFT_COMPLEX_FLOAT || type == WEFT_COMPLEX_DOUBLE)
        return op >= WEFT_SUM;
    return op >= WEFT_MIN || type <= WEFT_UINT64;
}

#define WEFT_DEV_REAL(name, T)                                                                     \
    WEFT_DEVICE T weft_dev_combine_##name(weft_op op, T a, T b)                                    \
    {                                                                                              \
        return op == WEFT_MIN   ? (b < a ? b : a)                                                  \
               : op == WEFT_MAX ? (b > a ? b : a)                                                  \
               : op == WEFT_SUM ? a + b                                                            \
                                : a * b;                                                           \
    }
WEFT_DEV_REAL(f32, float)
WEFT_DEV_REAL(f64, double)
#undef WEFT_DEV_REAL

/* The lowest `width` bytes of a and b as integers; sums and products wrap, so their sign is of no
 * account. */
WEFT_DEVICE uint64_t weft_dev_combine_integer(weft_op op, int is_signed, unsigned width, uint64_t a,
                                              uint64_t b)
{
    unsigned up = 64 - 8 * width;
    switch (op) {
    case WEFT_AND:
        return a & b;
    case WEFT_OR:
        return a | b;
    case WEFT_XOR:
        return a ^ b;
    case WEFT_SUM:
        return a + b;
    case WEFT_PROD:
        return a * b;
    default:
        break;
    }
    int less = is_signed ? (int64_t)(b << up) < (int64_t)(a << up) : b << up < a << up;
    return less == (op == WEFT_MIN) ? b : a;
}

WEFT_DEVICE uint64_t weft_dev_combine_element(weft_type type, weft_op op, uint64_t a, uint64_t b)
{
    switch ((int)type) {
    case WEFT_FLOAT:
        return weft_dev_bits_f32(weft_dev_combine_f32(op, weft_dev_f32_bits((uint32_t)a),
                                                      weft_dev_f32_bits((uint32_t)b)));
    case WEFT_DOUBLE:
        return weft_dev_bits_f64(
            weft_dev_combine_f64(op, weft_dev_f64_bits(a), weft_dev_f64_bits(b)));
    case 100:
        return weft_dev_f16_f32(
            weft_dev_combine_f32(op, weft_dev_f32_f16((uint16_t)a), weft_dev_f32_f16((uint16_t)b)));
    case 101:
        return weft_dev_bf16_f32(weft_dev_combine_f32(op, weft_dev_f32_bf16((uint16_t)a),
                                                      weft_dev_f32_bf16((uint16_t)b)));
    default:
        return weft_dev_combine_integer(op, type <= WEFT_INT64, (unsigned)weft_dev_type_bytes(type),
                                        a, b);
    }
}

/* ------------------------------------------------------------------------------- 16 bytes */

WEFT_DEVICE uint64_t weft_dev_combine_u64(weft_type type, weft_op op, uint64_t a, uint64_t b)
{
    unsigned width = (unsigned)weft_dev_type_bytes(type);
    if (width == 8)
        return weft_dev_combine_element(type, op, a, b);
    uint64_t mask = ((uint64_t)1 << 8 * width) - 1, result = 0;
    WEFT_UNROLL
    for (unsigned at = 0; at < 64; at += 8 * width)
        result |= (weft_dev_combine_element(type, op, a >> at & mask, b >> at & mask) & mask) << at;
    return result;
}

WEFT_DEVICE uint64_t weft_dev_complex_f32(weft_op op, uint64_t a, uint64_t b)
{
    float ar = weft_dev_f32_bits((uint32_t)a), ai = weft_dev_f32_bits((uint32_t)(a >> 32));
    float br = weft_dev_f32_bits((uint32_t)b), bi = weft_dev_f32_bits((uint32_t)(b >> 32));
    float re = op == WEFT_SUM ? ar + br : weft_dev_mul_f32(ar, br) - weft_dev_mul_f32(ai, bi);
    float im = op == WEFT_SUM ? ai + bi : weft_dev_mul_f32(ar, bi) + weft_dev_mul_f32(ai, br);
    return weft_dev_bits_f32(re) | (uint64_t)weft_dev_bits_f32(im) << 32;
}

WEFT_DEVICE struct weft_dev_vec16 weft_dev_complex_f64(weft_op op, struct weft_dev_vec16 a,
                                                       struct weft_dev_vec16 b)
{
    double ar = weft_dev_f64_bits(a.lo), ai = weft_dev_f64_bits(a.hi);
    double br = weft_dev_f64_bits(b.lo), bi = weft_dev_f64_bits(b.hi);
    struct weft_dev_vec16 v;
    double re = weft_dev_mul_f64(ar, br) - weft_dev_mul_f64(ai, bi);
    double im = weft_dev_mul_f64(ar, bi) + weft_dev_mul_f64(ai, br);
    v.lo = weft_dev_bits_f64(op == WEFT_SUM ? ar + br : re);
    v.hi = weft_dev_bits_f64(op == WEFT_SUM ? ai + bi : im);
    return v;
}

/* X(type): each case below has its element size as a constant. */
#define WEFT_DEV_COMBINED_TYPES(X)                                                                 \
    X(WEFT_INT8)                                                                                   \
    X(WEFT_INT16)                                                                                  \
    X(WEFT_INT32)                                                                                  \
    X(WEFT_INT64)                                                                                  \
    X(WEFT_UINT8)                                                                                  \
    X(WEFT_UINT16) X(WEFT_UINT32) X(WEFT_UINT64) X(WEFT_FLOAT) X(WEFT_DOUBLE) X(WEFT_DEV_HALF)     \
        X(WEFT_DEV_BFLOAT16)

/* Out of line: once in a program and not once per load of every reduction. An SM has some 70
 * instructions of a warp for each 16 bytes per lane that arrive over a link, so the call is free. */
WEFT_DEVICE_NOINLINE struct weft_dev_vec16
weft_dev_combine_any(weft_type type, weft_op op, struct weft_dev_vec16 a, struct weft_dev_vec16 b)
{
    struct weft_dev_vec16 v;
#define WEFT_DEV_COMBINE_CASE(T)                                                                   \
    if (type == T) {                                                                               \
        v.lo = weft_dev_combine_u64(T, op, a.lo, b.lo);                                            \
        v.hi = weft_dev_combine_u64(T, op, a.hi, b.hi);                                            \
        return v;                                                                                  \
    }
    WEFT_DEV_COMBINED_TYPES(WEFT_DEV_COMBINE_CASE)
#undef WEFT_DEV_COMBINE_CASE
    if (type == WEFT_COMPLEX_DOUBLE)
        return weft_dev_complex_f64(op, a, b);
    v.lo = weft_dev_complex_f32(op, a.lo, b.lo);
    v.hi = weft_dev_complex_f32(op, a.hi, b.hi);
    return v;
}
#undef WEFT_DEV_COMBINED_TYPES

WEFT_DEVICE struct weft_dev_vec16 weft_dev_combine(weft_type type, weft_op op,
                                                   struct weft_dev_vec16 a, struct weft_dev_vec16 b)
{
    if (type == WEFT_FLOAT && op == WEFT_SUM) {
        struct weft_dev_vec16 v = {weft_dev_combine_u64(WEFT_FLOAT, WEFT_SUM, a.lo, b.lo),
                                   weft_dev_combine_u64(WEFT_FLOAT, WEFT_SUM, a.hi, b.hi)};
        return v;
    }
    return weft_dev_combine_any(type, op, a, b);
}

/* ----------------------------------------------------------------------------------- many
 *
 * What is combined of several members before it is rounded: for the types of 16 bits their elements in
 * binary32, else the elements as they are. */
struct weft_dev_wide {
    struct weft_dev_vec16 v;
    float f[8];
};

WEFT_DEVICE int weft_dev_is_narrow(weft_type type)
{
    return type == WEFT_DEV_HALF || type == WEFT_DEV_BFLOAT16;
}

/* Element i of 8 in a 16-byte vector. */
WEFT_DEVICE float weft_dev_narrow_load(weft_type type, struct weft_dev_vec16 v, int i)
{
    uint16_t bits = (uint16_t)((i < 4 ? v.lo : v.hi) >> 16 * (i & 3));
    return type == WEFT_DEV_HALF ? weft_dev_f32_f16(bits) : weft_dev_f32_bf16(bits);
}

WEFT_DEVICE void weft_dev_wide_begin(weft_type type, struct weft_dev_wide *w,
                                     struct weft_dev_vec16 v)
{
    w->v = v;
    if (!weft_dev_is_narrow(type))
        return;
    WEFT_UNROLL
    for (int i = 0; i < 8; i++)
        w->f[i] = weft_dev_narrow_load(type, v, i);
}

WEFT_DEVICE void weft_dev_wide_add(weft_type type, weft_op op, struct weft_dev_wide *w,
                                   struct weft_dev_vec16 v)
{
    if (!weft_dev_is_narrow(type)) {
        w->v = weft_dev_combine(type, op, w->v, v);
        return;
    }
    WEFT_UNROLL
    for (int i = 0; i < 8; i++)
        w->f[i] = weft_dev_combine_f32(op, w->f[i], weft_dev_narrow_load(type, v, i));
}

WEFT_DEVICE struct weft_dev_vec16 weft_dev_wide_end(weft_type type, const struct weft_dev_wide *w)
{
    uint64_t half[2] = {0, 0};
    if (!weft_dev_is_narrow(type))
        return w->v;
    WEFT_UNROLL
    for (int i = 0; i < 8; i++) {
        uint16_t bits =
            type == WEFT_DEV_HALF ? weft_dev_f16_f32(w->f[i]) : weft_dev_bf16_f32(w->f[i]);
        half[i / 4] |= (uint64_t)bits << 16 * (i & 3);
    }
    struct weft_dev_vec16 v = {half[0], half[1]};
    return v;
}

#endif
