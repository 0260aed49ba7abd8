/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic of reductions on 16 bytes of elements at a time: every type and operation of the host
 * API except long double, and scaled sums. Knows nothing of memory and PEs. */
#ifndef WEFT_DEVICE_ARITHMETIC_H
#define WEFT_DEVICE_ARITHMETIC_H

#include <weft/types.h>

#include <weft/device/narrow.h>
#include <weft/device/simt.h>

/* Operation code of a sum of elements multiplied by a factor. It is not a weft_op, because it needs
 * the factor. */
#define WEFT_DEV_SCALED ((weft_op)100)

/* Products that are added afterwards: each product is rounded before the sum, so that no compiler
 * fuses both operations and every target gives the same bits. */
#if WEFT_TARGET_CUDA

WEFT_DEVICE float weft_dev_mul_f32(float a, float b)
{
    return __fmul_rn(a, b);
}

WEFT_DEVICE double weft_dev_mul_f64(double a, double b)
{
    return __dmul_rn(a, b);
}

WEFT_DEVICE float weft_dev_div_f32(float a, float b)
{
    return __fdiv_rn(a, b);
}

WEFT_DEVICE double weft_dev_div_f64(double a, double b)
{
    return __ddiv_rn(a, b);
}

#else

#if WEFT_TARGET_HIP
#define WEFT_DEV_UNFUSED _Pragma("clang fp contract(off)")
#else
#define WEFT_DEV_UNFUSED
#endif
#if !WEFT_TARGET_HIP &&                                                                            \
    (defined __FP_FAST_FMAF || defined __FP_FAST_FMA) /* the compiler may fuse them */
#define WEFT_DEV_ROUNDED volatile
#else
#define WEFT_DEV_ROUNDED
#endif

WEFT_DEVICE float weft_dev_mul_f32(float a, float b)
{
    WEFT_DEV_UNFUSED
    WEFT_DEV_ROUNDED float product = a * b;
    return product;
}

WEFT_DEVICE double weft_dev_mul_f64(double a, double b)
{
    WEFT_DEV_UNFUSED
    WEFT_DEV_ROUNDED double product = a * b;
    return product;
}
#undef WEFT_DEV_ROUNDED
#undef WEFT_DEV_UNFUSED

WEFT_DEVICE float weft_dev_div_f32(float a, float b)
{
    return a / b;
}

WEFT_DEVICE double weft_dev_div_f64(double a, double b)
{
    return a / b;
}

#endif

/* ------------------------------------------------------------------------------ one element */

WEFT_DEVICE size_t weft_dev_type_bytes(weft_type type)
{
    switch ((int)type) {
    case WEFT_INT8:
    case WEFT_UINT8:
    case 102: /* WEFT_DEV_FP8_E4M3 */
    case 103: /* WEFT_DEV_FP8_E5M2 */
        return 1;
    case WEFT_INT16:
    case WEFT_UINT16:
    case 100: /* WEFT_DEV_HALF */
    case 101: /* WEFT_DEV_BFLOAT16 */
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

/* Whether the operation is defined for the type and implemented here. Scaled sums of integers are
 * those of the host alone, which knows the factor as an integer. */
WEFT_DEVICE int weft_dev_reducible(weft_type type, weft_op op)
{
    if (!weft_dev_type_bytes(type) || ((unsigned)op >= WEFT_OP_COUNT && op != WEFT_DEV_SCALED))
        return 0;
    if (type == WEFT_COMPLEX_FLOAT || type == WEFT_COMPLEX_DOUBLE)
        return op >= WEFT_SUM;
    return type <= WEFT_UINT64 ? op <= WEFT_AVG : op >= WEFT_MIN;
}

/* The operation that combines two elements: averages and scaled sums use sums. */
WEFT_DEVICE weft_op weft_dev_pair_op(weft_op op)
{
    return op == WEFT_AVG || op == WEFT_DEV_SCALED ? WEFT_SUM : op;
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

/* Combines the lowest `width` bytes of a and b as integers. Sums and products wrap, so their sign
 * does not matter. */
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

/* X(type): types combined in their own format; each case below has its element size as a constant.
 * Types of 8 bits are missing: they are combined in binary32 only. */
#define WEFT_DEV_COMBINED_TYPES(X)                                                                 \
    X(WEFT_INT8)                                                                                   \
    X(WEFT_INT16)                                                                                  \
    X(WEFT_INT32)                                                                                  \
    X(WEFT_INT64)                                                                                  \
    X(WEFT_UINT8)                                                                                  \
    X(WEFT_UINT16)                                                                                 \
    X(WEFT_UINT32) X(WEFT_UINT64) X(WEFT_FLOAT) X(WEFT_DOUBLE) X(WEFT_DEV_HALF) X(WEFT_DEV_BFLOAT16)

/* Not inlined: the code is in a program once, not at every load of every reduction. An SM can issue
 * about 70 warp instructions for each 16 bytes per lane that arrive over a link, so the call costs
 * no time. */
WEFT_DEVICE_NOINLINE struct weft_dev_vec16 weft_dev_combine_any(weft_type type, weft_op op,
                                                                uint64_t a_lo, uint64_t a_hi,
                                                                uint64_t b_lo, uint64_t b_hi)
{
    struct weft_dev_vec16 v, a = {a_lo, a_hi}, b = {b_lo, b_hi};
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
    return weft_dev_combine_any(type, op, a.lo, a.hi, b.lo, b.hi);
}

/* ---------------------------------------------------------------------- averages, scaled sums */

/* A sum divided by the number of members. For a power of two, multiplying by its inverse gives the
 * same bits for every sum. */
WEFT_DEVICE float weft_dev_mean_f32(float sum, int members)
{
    if (members & (members - 1))
        return weft_dev_div_f32(sum, (float)members);
    return weft_dev_mul_f32(sum,
                            weft_dev_f32_bits(0x7f000000u - weft_dev_bits_f32((float)members)));
}

/* Applies the division or the factor to both floats in 8 bytes. */
WEFT_DEVICE uint64_t weft_dev_each_f32(uint64_t v, int members, float factor)
{
    float a = weft_dev_f32_bits((uint32_t)v), b = weft_dev_f32_bits((uint32_t)(v >> 32));
    a = members ? weft_dev_mean_f32(a, members) : weft_dev_mul_f32(a, factor);
    b = members ? weft_dev_mean_f32(b, members) : weft_dev_mul_f32(b, factor);
    return weft_dev_bits_f32(a) | (uint64_t)weft_dev_bits_f32(b) << 32;
}

WEFT_DEVICE uint64_t weft_dev_each_f64(uint64_t v, int members, double factor)
{
    double a = weft_dev_f64_bits(v);
    return weft_dev_bits_f64(members ? weft_dev_div_f64(a, (double)members)
                                     : weft_dev_mul_f64(a, factor));
}

/* x / by, which is at most 65536, in steps of 16 bits: a division of 64 bits would take more
 * registers than the kernels have. */
WEFT_DEVICE uint64_t weft_dev_quotient(uint64_t x, uint32_t by)
{
    uint64_t quotient = 0;
    uint32_t rest = 0;
    WEFT_NO_UNROLL
    for (int at = 48; at >= 0; at -= 16) {
        rest = rest << 16 | (uint16_t)(x >> at);
        quotient |= (uint64_t)(rest / by) << at;
        rest %= by;
    }
    return quotient;
}

/* The integers in 8 bytes divided by `members`, towards zero, or, with members = 0, multiplied by
 * the factor. */
WEFT_DEVICE_NOINLINE uint64_t weft_dev_each_integer(weft_type type, uint64_t v, int members,
                                                    uint64_t factor)
{
    unsigned bits = 8 * (unsigned)weft_dev_type_bytes(type);
    uint64_t mask = ~(uint64_t)0 >> (64 - bits), result = 0;
    WEFT_NO_UNROLL
    for (unsigned at = 0; at < 64; at += bits) {
        uint64_t x = v >> at & mask;
        int negative = members && type <= WEFT_INT64 && x >> (bits - 1);
        if (negative)
            x = -x & mask;
        x = members ? weft_dev_quotient(x, (uint32_t)members) : x * factor;
        if (negative)
            x = -x;
        result |= (x & mask) << at;
    }
    return result;
}

/* Elements of binary32 or binary64 divided by `members` or, with members = 0, multiplied by the
 * factor. Not inlined, as weft_dev_combine_any(). */
WEFT_DEVICE_NOINLINE struct weft_dev_vec16
weft_dev_each_real(weft_type type, uint64_t lo, uint64_t hi, int members, double factor)
{
    struct weft_dev_vec16 v = {lo, hi};
    if (type == WEFT_FLOAT || type == WEFT_COMPLEX_FLOAT) {
        v.lo = weft_dev_each_f32(v.lo, members, (float)factor);
        v.hi = weft_dev_each_f32(v.hi, members, (float)factor);
    } else {
        v.lo = weft_dev_each_f64(v.lo, members, factor);
        v.hi = weft_dev_each_f64(v.hi, members, factor);
    }
    return v;
}

/* The same for every type. */
WEFT_DEVICE struct weft_dev_vec16 weft_dev_each(weft_type type, uint64_t lo, uint64_t hi,
                                                int members, double factor)
{
    if (type > WEFT_UINT64)
        return weft_dev_each_real(type, lo, hi, members, factor);
    struct weft_dev_vec16 v = {weft_dev_each_integer(type, lo, members, weft_dev_bits_f64(factor)),
                               weft_dev_each_integer(type, hi, members, weft_dev_bits_f64(factor))};
    return v;
}

/* ----------------------------------------------------------------------------------- many
 *
 * The combined value of several members before it is rounded. Types of 16 and 8 bits have their
 * elements in binary32 (f); other types have their elements unchanged (v). */
struct weft_dev_wide {
    struct weft_dev_vec16 v;
    float f[16];
};

/* How a reduction combines. Where `widened` and `more` are constants of the caller, the compiler
 * leaves out code that they exclude. */
struct weft_dev_how {
    weft_type type;
    weft_op op;    /* may also be WEFT_DEV_SCALED */
    int widened;   /* number of elements of a vector combined in binary32: 16, 8 or 1 (the others
                      are unused); 0: none */
    int more;      /* 1: op may be an average or a scaled sum */
    int members;   /* of an average: number of members */
    double factor; /* of a scaled sum; rounded to binary32 where elements are combined in
                      binary32; its bits are those of an integer where the elements are integers */
};

WEFT_DEVICE int weft_dev_widened(weft_type type)
{
    return weft_dev_is_fp8(type) ? 16 : weft_dev_is_narrow(type) ? 8 : 0;
}

/* Element i of a vector with `of` = 16 or 8 elements, or the first element, in binary32. */
WEFT_DEVICE float weft_dev_narrow_load(weft_type type, struct weft_dev_vec16 v, int i, int of)
{
    if (of == 16) {
        uint8_t bits = (uint8_t)((i < 8 ? v.lo : v.hi) >> 8 * (i & 7));
        return type == WEFT_DEV_FP8_E4M3 ? weft_dev_f32_e4m3(bits) : weft_dev_f32_e5m2(bits);
    }
    uint16_t bits = (uint16_t)((i < 4 ? v.lo : v.hi) >> 16 * (i & 3));
    if (of == 8)
        return type == WEFT_DEV_HALF ? weft_dev_f32_f16(bits) : weft_dev_f32_bf16(bits);
    return weft_dev_f32_narrow(type, bits);
}

WEFT_DEVICE float weft_dev_wide_load(struct weft_dev_how h, struct weft_dev_vec16 v, int i, int of)
{
    float x = weft_dev_narrow_load(h.type, v, i, of);
    return h.more && h.op == WEFT_DEV_SCALED ? weft_dev_mul_f32(x, (float)h.factor) : x;
}

WEFT_DEVICE struct weft_dev_vec16 weft_dev_plain_load(struct weft_dev_how h,
                                                      struct weft_dev_vec16 v)
{
    return h.more && h.op == WEFT_DEV_SCALED ? weft_dev_each(h.type, v.lo, v.hi, 0, h.factor) : v;
}

/* EACH(i, number of elements of the vector) for each element: the loops have constant bounds, so
 * the elements stay in registers. */
#define WEFT_DEV_WIDENED(h, EACH)                                                                  \
    if ((h).widened == 16) {                                                                       \
        WEFT_UNROLL                                                                                \
        for (int i = 0; i < 16; i++)                                                               \
            EACH(i, 16);                                                                           \
    } else if ((h).widened == 8) {                                                                 \
        WEFT_UNROLL                                                                                \
        for (int i = 0; i < 8; i++)                                                                \
            EACH(i, 8);                                                                            \
    } else {                                                                                       \
        EACH(0, 1);                                                                                \
    }

WEFT_DEVICE void weft_dev_wide_begin(struct weft_dev_how h, struct weft_dev_wide *w,
                                     struct weft_dev_vec16 v)
{
    if (!h.widened) {
        w->v = weft_dev_plain_load(h, v);
        return;
    }
#define WEFT_DEV_BEGIN(i, of) w->f[i] = weft_dev_wide_load(h, v, i, of)
    WEFT_DEV_WIDENED(h, WEFT_DEV_BEGIN)
#undef WEFT_DEV_BEGIN
}

WEFT_DEVICE void weft_dev_wide_add(struct weft_dev_how h, struct weft_dev_wide *w,
                                   struct weft_dev_vec16 v)
{
    weft_op op = h.more ? weft_dev_pair_op(h.op) : h.op;
    if (!h.widened) {
        w->v = weft_dev_combine(h.type, op, w->v, weft_dev_plain_load(h, v));
        return;
    }
#define WEFT_DEV_ADD(i, of)                                                                        \
    w->f[i] = weft_dev_combine_f32(op, w->f[i], weft_dev_wide_load(h, v, i, of))
    WEFT_DEV_WIDENED(h, WEFT_DEV_ADD)
#undef WEFT_DEV_ADD
}

WEFT_DEVICE void weft_dev_narrow_store(struct weft_dev_how h, struct weft_dev_vec16 *v, int i,
                                       int of, float x)
{
    uint64_t bits;
    if (h.more && h.op == WEFT_AVG)
        x = weft_dev_mean_f32(x, h.members);
    if (of == 16)
        bits = h.type == WEFT_DEV_FP8_E4M3 ? weft_dev_e4m3_f32(x) : weft_dev_e5m2_f32(x);
    else if (of == 8)
        bits = h.type == WEFT_DEV_HALF ? weft_dev_f16_f32(x) : weft_dev_bf16_f32(x);
    else
        bits = weft_dev_narrow_f32(h.type, x);
    int half = of / 2;
    if (i <= half - 1 || of == 1)
        v->lo |= bits << (of == 16 ? 8 : 16) * i;
    else
        v->hi |= bits << (of == 16 ? 8 : 16) * (i - half);
}

WEFT_DEVICE struct weft_dev_vec16 weft_dev_wide_end(struct weft_dev_how h,
                                                    const struct weft_dev_wide *w)
{
    struct weft_dev_vec16 v = {0, 0};
    if (!h.widened)
        return h.more && h.op == WEFT_AVG ? weft_dev_each(h.type, w->v.lo, w->v.hi, h.members, 0)
                                          : w->v;
#define WEFT_DEV_END(i, of) weft_dev_narrow_store(h, &v, i, of, w->f[i])
    WEFT_DEV_WIDENED(h, WEFT_DEV_END)
#undef WEFT_DEV_END
    return v;
}
#undef WEFT_DEV_WIDENED

#endif
