/* SPDX-License-Identifier: Apache-2.0 */
/* expf() and logf() of kernels that clang compiles without a toolkit. cuda_clang.h and hip_clang.h
 * include it, with WEFT_CLANG (a device function), WEFT_CLANG_EXP2(x), the GPU's own 2^x for x in
 * [-1, 1], and WEFT_CLANG_DIVIDE(a, b). */
#ifndef WEFT_DEVICE_CLANG_MATH_H
#define WEFT_DEVICE_CLANG_MATH_H

/* 2^n 2^f of x log2(e) = n + f, which is rounded to the sum of two floats; the error is 2 units in
 * the last place. */
WEFT_CLANG float expf(float x)
{
    const float log2_e = 1.44269504f, rest = 1.92596299e-8f;
    float n = __builtin_rintf(x * log2_e);
    n = n > 128 ? 128 : n < -151 ? -151 : n; /* beyond, the result is infinite or 0 */
    float f = fmaf(x, rest, fmaf(x, log2_e, -n));
    float power = __builtin_bit_cast(float, (int)((n * 0.5f) + 127) << 23);
    float other = __builtin_bit_cast(float, (int)(n - (int)(n * 0.5f) + 127) << 23);
    return x != x ? x : WEFT_CLANG_EXP2(f) * power * other;
}

/* e log(2) + log(m) of x = 2^e m with m from sqrt(1/2) to sqrt(2), and log(m) = 2 atanh(s) with
 * s = (m - 1) / (m + 1), by the first terms of its series. */
WEFT_CLANG float logf(float x)
{
    if (!(x > 0))
        return x == 0 ? -__builtin_inff() : __builtin_nanf("");
    if (x == __builtin_inff())
        return x;
    int tiny = x < 1.17549435e-38f;
    unsigned bits = __builtin_bit_cast(unsigned, tiny ? x * 16777216.0f : x);
    int e = (int)(bits >> 23) - 127 - (tiny ? 24 : 0);
    float m = __builtin_bit_cast(float, (bits & 0x7fffffu) | 0x3f800000u);
    if (m > 1.41421356f) {
        m *= 0.5f;
        e++;
    }
    float s = WEFT_CLANG_DIVIDE(m - 1, m + 1), z = s * s;
    float series = fmaf(z, fmaf(z, fmaf(z, 0.142857143f, 0.2f), 0.333333333f), 1.0f);
    return fmaf((float)e, 0.693147181f, 2 * s * series);
}

#endif
