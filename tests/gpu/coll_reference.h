/* SPDX-License-Identifier: Apache-2.0 */
/* Results of collectives, computed one element at a time in plain C: values that differ in every
 * PE, element and round, of both signs and many magnitudes, combined in the order of the team.
 * Shares no code with the library. */
#ifndef WEFT_TESTS_COLL_REFERENCE_H
#define WEFT_TESTS_COLL_REFERENCE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <weft.h>

static inline uint64_t ref_hash(uint64_t pe, uint64_t i, uint64_t salt)
{
    uint64_t x =
        pe * 0x9e3779b97f4a7c15u + i * 0xd1342543de82ef95u + salt * 0x2545f4914f6cdd1du + 1;
    x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 29) * 0x94d049bb133111ebu;
    return x ^ x >> 32;
}

/* Bytes at ... at + n - 1 of a PE's data: each 8 of them are a hash. */
static inline void ref_fill(unsigned char *to, int pe, size_t at, size_t n, uint64_t salt)
{
    for (size_t i = 0, part; i < n; i += part) {
        size_t inside = (at + i) % 8;
        uint64_t word = ref_hash((uint64_t)pe, (at + i) / 8, salt) >> 8 * inside;
        part = 8 - inside < n - i ? 8 - inside : n - i;
        if (part == 8)
            memcpy(to + i, &word, 8);
        else
            memcpy(to + i, &word, part);
    }
}

static inline unsigned char ref_byte(int pe, size_t at, uint64_t salt)
{
    return (unsigned char)(ref_hash((uint64_t)pe, at / 8, salt) >> at % 8 * 8);
}

static inline size_t ref_bytes(weft_type type)
{
    static const size_t bytes[] = {
#define REF_BYTES(name, size, ctype) [name] = size,
        WEFT_TYPE_LIST(REF_BYTES)
#undef REF_BYTES
    };
    return type == WEFT_HALF || type == WEFT_BFLOAT16       ? 2
           : type == WEFT_FP8_E4M3 || type == WEFT_FP8_E5M2 ? 1
                                                            : bytes[type];
}

/* A sum of elements times a factor, in addition to the weft_op values. */
#define REF_SCALED ((weft_op)100)
/* The same with a factor for each member. */
#define REF_WEIGHTED ((weft_op)101)

/* The factor of a scaled sum. The reference rounds it to binary32 where the type requires it. */
static inline double ref_factor(uint64_t salt)
{
    return 0.1 * (double)(salt % 7 + 1);
}

static inline double ref_weight(uint64_t salt, int pe)
{
    return -0.3 * (double)((salt + 5 * (uint64_t)pe) % 11 + 1);
}

/* The integer that is the factor of a sum of integers; types of fewer bits have its lowest ones. */
static inline uint64_t ref_integer_factor(double factor)
{
    return (uint64_t)(int64_t)(factor * 1e17);
}

static inline int ref_defined(weft_type type, weft_op op)
{
    if (type == WEFT_COMPLEX_FLOAT || type == WEFT_COMPLEX_DOUBLE)
        return op >= WEFT_SUM;
    return type <= WEFT_UINT64 || op >= WEFT_MIN;
}

static inline int ref_is_fp8(weft_type type)
{
    return type == WEFT_FP8_E4M3 || type == WEFT_FP8_E5M2;
}

/* 2 to the power of n, which is from -1022 to 1023. Multiplication by it is exact, and quicker than
 * ldexp(). */
static inline double ref_power(int n)
{
    uint64_t bits = (uint64_t)(n + 1023) << 52;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The values of the positive FP8 numbers that are neither NaN nor infinity. */
static inline const double *ref_fp8_values(weft_type type)
{
    static double known[2][128];
    int digits = type == WEFT_FP8_E4M3 ? 3 : 2, bias = type == WEFT_FP8_E4M3 ? 7 : 15;
    double *values = known[digits - 2];
    for (int bits = 0; bits < 128 && values[1] == 0; bits++) { /* filled from the end */
        int at = 127 - bits, exponent = at >> digits, fraction = at & ((1 << digits) - 1);
        values[at] = exponent ? ldexp((1 << digits) + fraction, exponent - bias - digits)
                              : ldexp(fraction, 1 - bias - digits);
    }
    return values;
}

static inline double ref_fp8_wide(uint8_t bits, weft_type type)
{
    double x = ref_fp8_values(type)[bits & 0x7f];
    return bits & 0x80 ? -x : x;
}

/* The nearest finite FP8 number, found by search. Of two equally near ones the one whose last bit
 * is 0. */
static inline uint8_t ref_fp8_narrow(double x, weft_type type)
{
    const double *values = ref_fp8_values(type);
    uint8_t sign = signbit(x) ? 0x80 : 0, largest = type == WEFT_FP8_E4M3 ? 0x7e : 0x7b;
    int low = 0, high = largest;
    x = fabs(x);
    if (x >= values[largest])
        return (uint8_t)(sign | largest);
    while (high - low > 1) { /* low <= x < high */
        int middle = (low + high) / 2;
        if (values[middle] <= x)
            low = middle;
        else
            high = middle;
    }
    double below = x - values[low], above = values[high] - x;
    int nearest = below < above ? low : above < below ? high : low & 1 ? high : low;
    return (uint8_t)(sign | nearest);
}

/* 16 bits to a real number and back, rounded to nearest even: `digits` bits of the fraction, `bias`
 * of the exponent. */
static inline double ref_wide(uint16_t bits, int digits, int bias)
{
    int exponent = (bits & 0x7fff) >> digits, fraction = bits & ((1 << digits) - 1);
    double x = exponent ? ((1 << digits) + fraction) * ref_power(exponent - bias - digits)
                        : fraction * ref_power(1 - bias - digits);
    return bits & 0x8000 ? -x : x;
}

static inline uint16_t ref_narrow(double x, int digits, int bias)
{
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    int largest = (1 << (15 - digits)) - 1;
    x = fabs(x);
    if (x == 0)
        return sign;
    int exponent = ilogb(x);
    exponent = exponent < 1 - bias ? 1 - bias : exponent;
    double units = rint(x * ref_power(digits - exponent)); /* ties to even */
    if (units >= (double)(2 << digits)) {
        units /= 2;
        exponent++;
    }
    if (exponent + bias >= largest)
        return (uint16_t)(sign | largest << digits);
    int normal = units >= (double)(1 << digits);
    return (uint16_t)(sign | (normal ? (exponent + bias) << digits : 0) |
                      ((int)units & ((1 << digits) - 1)));
}

static inline int ref_digits(weft_type type)
{
    return type == WEFT_HALF ? 10 : 7;
}

static inline int ref_bias(weft_type type)
{
    return type == WEFT_HALF ? 15 : 127;
}

static inline double ref_real(uint64_t hash)
{
    int64_t mantissa = (int64_t)(hash % 2000003) - 1000001;
    return (double)mantissa * 1e-6 * (double)(1 << (hash >> 40) % 7) + 1e-9;
}

/* Element i of a PE's contribution. */
static inline void ref_element(void *to, weft_type type, int pe, size_t i, uint64_t salt)
{
    uint64_t h = ref_hash((uint64_t)pe, i, salt);
    if (type <= WEFT_UINT64) {
        memcpy(to, &h, ref_bytes(type));
        return;
    }
    int parts = type == WEFT_COMPLEX_FLOAT || type == WEFT_COMPLEX_DOUBLE ? 2 : 1;
    double re = ref_real(h), im = parts > 1 ? ref_real(h * 0x9e3779b97f4a7c15u) : 0;
    float f[2] = {(float)re, (float)im};
    double d[2] = {re, im};
    uint16_t narrow;
    switch (type) {
    case WEFT_HALF:
    case WEFT_BFLOAT16:
        narrow = ref_narrow((float)re, ref_digits(type), ref_bias(type));
        memcpy(to, &narrow, 2);
        return;
    case WEFT_FP8_E4M3:
    case WEFT_FP8_E5M2:
        *(uint8_t *)to = ref_fp8_narrow((float)re, type);
        return;
    case WEFT_FLOAT:
        memcpy(to, f, 4);
        return;
    case WEFT_COMPLEX_FLOAT:
        memcpy(to, f, 8);
        return;
    case WEFT_DOUBLE:
        memcpy(to, d, 8);
        return;
    default:
        memcpy(to, d, 16); /* WEFT_COMPLEX_DOUBLE */
    }
}

#define REF_COMBINE(ctype, op, a, b)                                                               \
    ((op) == WEFT_MIN    ? ((b) < (a) ? (b) : (a))                                                 \
     : (op) == WEFT_MAX  ? ((b) > (a) ? (b) : (a))                                                 \
     : (op) == WEFT_PROD ? (ctype)((a) * (b))                                                      \
                         : (ctype)((a) + (b)))

#define REF_INTEGER(constant, ctype, wrapping)                                                     \
    case constant: {                                                                               \
        ctype a, b, r;                                                                             \
        memcpy(&a, acc, sizeof a);                                                                 \
        memcpy(&b, in, sizeof b);                                                                  \
        r = op == WEFT_AND    ? (ctype)(a & b)                                                     \
            : op == WEFT_OR   ? (ctype)(a | b)                                                     \
            : op == WEFT_XOR  ? (ctype)(a ^ b)                                                     \
            : op == WEFT_SUM  ? (ctype)((wrapping)a + (wrapping)b)                                 \
            : op == WEFT_PROD ? (ctype)((wrapping)a * (wrapping)b)                                 \
                              : (ctype)REF_COMBINE(ctype, op, a, b);                               \
        memcpy(acc, &r, sizeof r);                                                                 \
        return;                                                                                    \
    }

#define REF_REAL(constant, ctype)                                                                  \
    case constant: {                                                                               \
        ctype a, b, r;                                                                             \
        memcpy(&a, acc, sizeof a);                                                                 \
        memcpy(&b, in, sizeof b);                                                                  \
        r = REF_COMBINE(ctype, op, a, b);                                                          \
        memcpy(acc, &r, sizeof r);                                                                 \
        return;                                                                                    \
    }

#define REF_COMPLEX(constant, ctype)                                                               \
    case constant: {                                                                               \
        ctype a[2], b[2], r[2];                                                                    \
        volatile ctype p[4];                                                                       \
        memcpy(a, acc, sizeof a);                                                                  \
        memcpy(b, in, sizeof b);                                                                   \
        p[0] = a[0] * b[0], p[1] = a[1] * b[1], p[2] = a[0] * b[1], p[3] = a[1] * b[0];            \
        r[0] = op != WEFT_PROD ? a[0] + b[0] : p[0] - p[1];                                        \
        r[1] = op != WEFT_PROD ? a[1] + b[1] : p[2] + p[3];                                        \
        memcpy(acc, r, sizeof r);                                                                  \
        return;                                                                                    \
    }

static inline void ref_combine(void *acc, const void *in, weft_type type, weft_op op)
{
    switch (type) {
        REF_INTEGER(WEFT_INT8, int8_t, uint8_t)
        REF_INTEGER(WEFT_INT16, int16_t, uint32_t)
        REF_INTEGER(WEFT_INT32, int32_t, uint32_t)
        REF_INTEGER(WEFT_INT64, int64_t, uint64_t)
        REF_INTEGER(WEFT_UINT8, uint8_t, uint32_t)
        REF_INTEGER(WEFT_UINT16, uint16_t, uint32_t)
        REF_INTEGER(WEFT_UINT32, uint32_t, uint32_t)
        REF_INTEGER(WEFT_UINT64, uint64_t, uint64_t)
        REF_REAL(WEFT_FLOAT, float)
        REF_REAL(WEFT_DOUBLE, double)
        REF_COMPLEX(WEFT_COMPLEX_FLOAT, float)
        REF_COMPLEX(WEFT_COMPLEX_DOUBLE, double)
    default:
        return;
    }
}

#define REF_QUOTIENT(constant, ctype)                                                              \
    case constant: {                                                                               \
        ctype x;                                                                                   \
        memcpy(&x, number, sizeof x);                                                              \
        x = sizeof x < 8 ? (ctype)((int64_t)x / n) : (ctype)(x / (ctype)n);                        \
        memcpy(number, &x, sizeof x);                                                              \
        return;                                                                                    \
    }

static inline void ref_divide_integer(void *number, weft_type type, int n)
{
    switch (type) {
        REF_QUOTIENT(WEFT_INT8, int8_t)
        REF_QUOTIENT(WEFT_INT16, int16_t)
        REF_QUOTIENT(WEFT_INT32, int32_t)
        REF_QUOTIENT(WEFT_INT64, int64_t)
        REF_QUOTIENT(WEFT_UINT8, uint8_t)
        REF_QUOTIENT(WEFT_UINT16, uint16_t)
        REF_QUOTIENT(WEFT_UINT32, uint32_t)
        REF_QUOTIENT(WEFT_UINT64, uint64_t)
    default:
        return;
    }
}

/* A number times the factor (what 0), or divided by n (what 1). */
static inline void ref_each(void *number, weft_type type, int what, double factor, int n)
{
    volatile float f[2] = {0, 0};
    volatile double d[2] = {0, 0};
    int parts = type == WEFT_COMPLEX_FLOAT || type == WEFT_COMPLEX_DOUBLE ? 2 : 1;
    int wide = type == WEFT_DOUBLE || type == WEFT_COMPLEX_DOUBLE;
    if (type <= WEFT_UINT64 && what) {
        ref_divide_integer(number, type, n);
        return;
    }
    if (type <= WEFT_UINT64) {
        uint64_t product = 0;
        memcpy(&product, number, ref_bytes(type));
        product *= ref_integer_factor(factor);
        memcpy(number, &product, ref_bytes(type)); /* of little-endian bytes the lowest */
        return;
    }
    memcpy(wide ? (void *)d : (void *)f, number, ref_bytes(type));
    for (int k = 0; k < parts; k++) {
        f[k] = what ? f[k] / (float)n : f[k] * (float)factor;
        d[k] = what ? d[k] / n : d[k] * factor;
    }
    memcpy(number, wide ? (void *)d : (void *)f, ref_bytes(type));
}

static inline float ref_widened(const void *element, weft_type type)
{
    uint16_t bits;
    if (ref_is_fp8(type))
        return (float)ref_fp8_wide(*(const uint8_t *)element, type);
    memcpy(&bits, element, 2);
    return (float)ref_wide(bits, ref_digits(type), ref_bias(type));
}

static inline void ref_rounded(void *to, weft_type type, float x)
{
    if (ref_is_fp8(type)) {
        *(uint8_t *)to = ref_fp8_narrow(x, type);
        return;
    }
    uint16_t bits = ref_narrow(x, ref_digits(type), ref_bias(type));
    memcpy(to, &bits, 2);
}

/* 1: for every other two salts the factor of a type of 16 or 8 bits has this type
 * (WEFT_NARROW_FACTOR). */
static int ref_narrow_factors;

static inline int ref_factor_is_narrow(weft_type type, uint64_t salt)
{
    return ref_narrow_factors && salt / 2 % 2 && type >= WEFT_HALF;
}

/* Puts the factor where a call reads it; returns its size in bytes. *with: the type for the call.
 */
static inline size_t ref_put_factor(void *to, weft_type type, double factor, uint64_t salt,
                                    weft_type *with)
{
    float narrow = (float)factor;
    uint64_t integer = ref_integer_factor(factor);
    *with = type;
    if (ref_factor_is_narrow(type, salt)) {
        *with = (weft_type)(type | WEFT_NARROW_FACTOR);
        ref_rounded(to, type, narrow);
        return ref_bytes(type);
    }
    if (type <= WEFT_UINT64)
        memcpy(to, &integer, ref_bytes(type));
    else if (type == WEFT_DOUBLE || type == WEFT_COMPLEX_DOUBLE)
        memcpy(to, &factor, sizeof factor);
    else
        memcpy(to, &narrow, sizeof narrow);
    return type <= WEFT_UINT64                                  ? ref_bytes(type)
           : type == WEFT_DOUBLE || type == WEFT_COMPLEX_DOUBLE ? sizeof factor
                                                                : sizeof narrow;
}

/* Element i combined over all members, whose PEs are pes[0 ... n - 1]. A scaled sum uses
 * ref_factor(salt), a weighted one ref_weight() of each PE. */
static inline void ref_reduced(void *to, weft_type type, weft_op op, const int *pes, int n,
                               size_t i, uint64_t salt)
{
    unsigned char next[16];
    int narrow = type == WEFT_HALF || type == WEFT_BFLOAT16 || ref_is_fp8(type);
    volatile float wide = 0;
    for (int k = 0; k < n; k++) {
        void *at = k ? next : to;
        ref_element(at, type, pes[k], i, salt);
        int has_factor = op == REF_SCALED || op == REF_WEIGHTED;
        double factor = op == REF_WEIGHTED ? ref_weight(salt, pes[k]) : ref_factor(salt);
        if (has_factor && ref_factor_is_narrow(type, salt)) {
            unsigned char rounded[2];
            ref_rounded(rounded, type, (float)factor);
            factor = ref_widened(rounded, type);
        }
        if (!narrow && has_factor)
            ref_each(at, type, 0, factor, n);
        if (k && !narrow)
            ref_combine(to, next, type, op);
        if (!narrow)
            continue;
        volatile float x = ref_widened(at, type);
        x = has_factor ? x * (float)factor : x;
        wide = k ? REF_COMBINE(float, op, wide, x) : x;
    }
    if (narrow)
        ref_rounded(to, type, op == WEFT_AVG ? wide / (float)n : wide);
    else if (op == WEFT_AVG)
        ref_each(to, type, 1, 0, n);
}

#endif
