/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of reductions on the host: how two vectors of each type are combined, how elements
 * are scaled before and results divided after, and which operations are defined for which types.
 * Knows nothing of PEs. */
#include "ops/coll/reduce.h"

#include "base/status.h"
#include "base/type_names.h"

#include <string.h>

#include <weft/device/arithmetic.h>

#define COMBINE(name, ctype, expression)                                                           \
    static void name(void *restrict acc_, const void *restrict in_, size_t n)                      \
    {                                                                                              \
        ctype *restrict acc = acc_;                                                                \
        const ctype *restrict in = in_;                                                            \
        for (size_t i = 0; i < n; i++) {                                                           \
            ctype a = acc[i], b = in[i];                                                           \
            acc[i] = (ctype)(expression);                                                          \
        }                                                                                          \
    }
#define BITWISE(T, ctype)                                                                          \
    COMBINE(and_##T, ctype, a &b)                                                                  \
    COMBINE(or_##T, ctype, a | b)                                                                  \
    COMBINE(xor_##T, ctype, a ^ b)
#define ORDERED(T, ctype)                                                                          \
    COMBINE(min_##T, ctype, b < a ? b : a)                                                         \
    COMBINE(max_##T, ctype, b > a ? b : a)
#define ARITHMETIC(T, ctype)                                                                       \
    COMBINE(sum_##T, ctype, a + b)                                                                 \
    COMBINE(prod_##T, ctype, a *b)
/* Sums of signed integers wrap around, like atomics: they are computed on the unsigned type. */
#define INTEGER(T, ctype, wrapping)                                                                \
    BITWISE(T, ctype)                                                                              \
    ORDERED(T, ctype)                                                                              \
    ARITHMETIC(T, wrapping)

INTEGER(WEFT_INT8, int8_t, uint8_t)
INTEGER(WEFT_INT16, int16_t, uint16_t)
INTEGER(WEFT_INT32, int32_t, uint32_t)
INTEGER(WEFT_INT64, int64_t, uint64_t)
INTEGER(WEFT_UINT8, uint8_t, uint8_t)
INTEGER(WEFT_UINT16, uint16_t, uint16_t)
INTEGER(WEFT_UINT32, uint32_t, uint32_t)
INTEGER(WEFT_UINT64, uint64_t, uint64_t)
ORDERED(WEFT_FLOAT, float)
ARITHMETIC(WEFT_FLOAT, float)
ORDERED(WEFT_DOUBLE, double)
ARITHMETIC(WEFT_DOUBLE, double)
ORDERED(WEFT_LONG_DOUBLE, long double)
ARITHMETIC(WEFT_LONG_DOUBLE, long double)
ARITHMETIC(WEFT_COMPLEX_FLOAT, float _Complex)
ARITHMETIC(WEFT_COMPLEX_DOUBLE, double _Complex)

#define ROW_INTEGER(T)                                                                             \
    [T] = {                                                                                        \
        [WEFT_AND] = and_##T, [WEFT_OR] = or_##T,   [WEFT_XOR] = xor_##T,   [WEFT_MIN] = min_##T,  \
        [WEFT_MAX] = max_##T, [WEFT_SUM] = sum_##T, [WEFT_PROD] = prod_##T, [WEFT_AVG] = sum_##T}
#define ROW_REAL(T)                                                                                \
    [T] = {[WEFT_MIN] = min_##T,                                                                   \
           [WEFT_MAX] = max_##T,                                                                   \
           [WEFT_SUM] = sum_##T,                                                                   \
           [WEFT_PROD] = prod_##T,                                                                 \
           [WEFT_AVG] = sum_##T}
#define ROW_COMPLEX(T) [T] = {[WEFT_SUM] = sum_##T, [WEFT_PROD] = prod_##T, [WEFT_AVG] = sum_##T}

static reduce_function *const combine_of[WEFT_TYPE_COUNT][WEFT_OP_COUNT] = {
    ROW_INTEGER(WEFT_INT8),          ROW_INTEGER(WEFT_INT16),    ROW_INTEGER(WEFT_INT32),
    ROW_INTEGER(WEFT_INT64),         ROW_INTEGER(WEFT_UINT8),    ROW_INTEGER(WEFT_UINT16),
    ROW_INTEGER(WEFT_UINT32),        ROW_INTEGER(WEFT_UINT64),   ROW_REAL(WEFT_FLOAT),
    ROW_REAL(WEFT_DOUBLE),           ROW_REAL(WEFT_LONG_DOUBLE), ROW_COMPLEX(WEFT_COMPLEX_FLOAT),
    ROW_COMPLEX(WEFT_COMPLEX_DOUBLE)};

static const size_t bytes_of[WEFT_TYPE_COUNT] = {
#define BYTES(name, size, ctype) [name] = sizeof(ctype),
    WEFT_TYPE_LIST(BYTES)
#undef BYTES
};

reduce_function *reduce_function_of(weft_type type, weft_op op, size_t *element)
{
    if ((unsigned)type >= WEFT_TYPE_COUNT || (unsigned)op >= WEFT_OP_COUNT)
        return NULL;
    *element = bytes_of[type];
    return combine_of[type][op];
}

bool reduce_any_order(weft_type type)
{
    return type < WEFT_TYPE_COUNT && combine_of[type][WEFT_AND] != NULL;
}

/* ---------------------------------------------------------------------------- factors, averages */

#define EACH(real, parts, expression)                                                              \
    for (size_t i = 0; i < (parts)*n; i++) {                                                       \
        real x = ((real *)elements)[i];                                                            \
        ((real *)elements)[i] = (real)(expression);                                                \
    }
/* expression_of(the type of the calculation); integers are calculated in 64 bits. */
#define EACH_CASE(type, real, parts, calculated)                                                   \
    case type:                                                                                     \
        EACH(real, parts, calculated)                                                              \
        return;
#define EACH_TYPE(integer_of, real_of)                                                             \
    switch (c->type) {                                                                             \
        EACH_CASE(WEFT_INT8, int8_t, 1, integer_of(int64_t))                                       \
        EACH_CASE(WEFT_INT16, int16_t, 1, integer_of(int64_t))                                     \
        EACH_CASE(WEFT_INT32, int32_t, 1, integer_of(int64_t))                                     \
        EACH_CASE(WEFT_INT64, int64_t, 1, integer_of(int64_t))                                     \
        EACH_CASE(WEFT_UINT8, uint8_t, 1, integer_of(uint64_t))                                    \
        EACH_CASE(WEFT_UINT16, uint16_t, 1, integer_of(uint64_t))                                  \
        EACH_CASE(WEFT_UINT32, uint32_t, 1, integer_of(uint64_t))                                  \
        EACH_CASE(WEFT_UINT64, uint64_t, 1, integer_of(uint64_t))                                  \
        EACH_CASE(WEFT_FLOAT, float, 1, real_of(float))                                            \
        EACH_CASE(WEFT_COMPLEX_FLOAT, float, 2, real_of(float))                                    \
        EACH_CASE(WEFT_DOUBLE, double, 1, real_of(double))                                         \
        EACH_CASE(WEFT_COMPLEX_DOUBLE, double, 2, real_of(double))                                 \
        EACH_CASE(WEFT_LONG_DOUBLE, long double, 1, real_of(long double))                          \
    default:                                                                                       \
        return;                                                                                    \
    }

/* The bits of an integer factor. */
static uint64_t factor_bits(const struct combiner *c)
{
    return c->factor < 0 ? (uint64_t)(int64_t)c->factor : (uint64_t)c->factor;
}

void reduce_scale(const struct combiner *c, void *elements, size_t n)
{
    if (c->op != WEFT_DEV_SCALED)
        return;
    const uint64_t bits = reduce_any_order(c->type) ? factor_bits(c) : 0;
#define INTEGER_PRODUCT(type) (uint64_t) x *bits
#define REAL_PRODUCT(real)    x *(real)c->factor
    EACH_TYPE(INTEGER_PRODUCT, REAL_PRODUCT)
#undef INTEGER_PRODUCT
#undef REAL_PRODUCT
}

void reduce_end(const struct combiner *c, void *elements, size_t n, int members)
{
    if (c->op != WEFT_AVG)
        return;
#define QUOTIENT(type) x / (type)members
    EACH_TYPE(QUOTIENT, QUOTIENT)
#undef QUOTIENT
}

/* ------------------------------------------------------------------------------------ combiners */

weft_status reduce_combiner(const char *function, weft_type type, weft_op op,
                            struct combiner *combiner)
{
    bool narrow = weft_dev_is_narrow(type);
    if ((unsigned)type >= WEFT_TYPE_COUNT && !narrow)
        return base_fail(WEFT_ERR_TYPE, "%s: type %d is not a weft_type", function, (int)type);
    if ((unsigned)op >= WEFT_OP_COUNT)
        return base_fail(WEFT_ERR_OP, "%s: operation %d is not a weft_op", function, (int)op);
    *combiner = (struct combiner){.combine = narrow ? NULL : combine_of[type][op],
                                  .element = narrow ? weft_dev_type_bytes(type) : bytes_of[type],
                                  .type = type,
                                  .op = op};
    return combiner->combine || (narrow && op >= WEFT_MIN)
               ? WEFT_OK
               : base_fail(WEFT_ERR_TYPE, "%s: %s is not defined for %s", function,
                           base_op_name(op), base_type_name(type));
}

size_t reduce_factor_bytes(const struct combiner *c)
{
    return c->narrow_factor || reduce_any_order(c->type) || c->type == WEFT_LONG_DOUBLE ? c->element
           : c->type == WEFT_DOUBLE || c->type == WEFT_COMPLEX_DOUBLE ? sizeof(double)
                                                                      : sizeof(float);
}

long double reduce_factor_of(const struct combiner *c, const void *bytes)
{
    union {
        float f;
        double d;
        long double l;
        uint64_t u;
    } value = {.u = 0};
    size_t size = reduce_factor_bytes(c);
    unsigned unused = 64 - 8 * (unsigned)size;
    memcpy(&value, bytes, size);
    if (c->narrow_factor)
        return weft_dev_f32_narrow(c->type, (uint16_t)value.u);
    if (c->type <= WEFT_INT64)
        return (int64_t)(value.u << unused) >> unused;
    if (reduce_any_order(c->type))
        return value.u;
    return size == sizeof(float) ? value.f : size == sizeof(double) ? value.d : value.l;
}

double reduce_factor_word(const struct combiner *c)
{
    return reduce_any_order(c->type) ? weft_dev_f64_bits(factor_bits(c)) : (double)c->factor;
}

weft_type reduce_public_type(const struct combiner *c)
{
    return (weft_type)(c->type | (c->narrow_factor ? WEFT_NARROW_FACTOR : 0));
}

weft_status reduce_scaled_combiner(const char *function, weft_type type, const void *factor,
                                   struct combiner *combiner)
{
    weft_type element = (weft_type)(type & ~WEFT_NARROW_FACTOR);
    bool narrow = element != type && weft_dev_is_narrow(element);
    weft_status status = reduce_combiner(function, narrow ? element : type, WEFT_AVG, combiner);
    if (status)
        return status;
    if (!factor)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: factor is null", function);
    combiner->op = WEFT_DEV_SCALED;
    combiner->factor_at = factor;
    combiner->narrow_factor = narrow;
    return WEFT_OK;
}

uint64_t reduce_detail(const struct combiner *c)
{
    double factor = reduce_factor_word(c);
    /* a weighted sum has its own operation number */
    uint64_t bits = 0, op = (uint64_t)c->op + c->weighted;
    if (c->op == WEFT_DEV_SCALED && !c->factor_at && !c->weighted)
        memcpy(&bits, &factor, sizeof bits);
    return (uint64_t)c->type << 8 | op | (bits ^ bits << 24) >> 16 << 16;
}
