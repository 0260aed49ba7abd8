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
        [WEFT_AND] = and_##T, [WEFT_OR] = or_##T,   [WEFT_XOR] = xor_##T,  [WEFT_MIN] = min_##T,   \
        [WEFT_MAX] = max_##T, [WEFT_SUM] = sum_##T, [WEFT_PROD] = prod_##T}
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
#define EACH_TYPE(expression_of)                                                                   \
    switch (c->type) {                                                                             \
    case WEFT_FLOAT:                                                                               \
        EACH(float, 1, expression_of(float))                                                       \
        return;                                                                                    \
    case WEFT_COMPLEX_FLOAT:                                                                       \
        EACH(float, 2, expression_of(float))                                                       \
        return;                                                                                    \
    case WEFT_DOUBLE:                                                                              \
        EACH(double, 1, expression_of(double))                                                     \
        return;                                                                                    \
    case WEFT_COMPLEX_DOUBLE:                                                                      \
        EACH(double, 2, expression_of(double))                                                     \
        return;                                                                                    \
    case WEFT_LONG_DOUBLE:                                                                         \
        EACH(long double, 1, expression_of(long double))                                           \
        return;                                                                                    \
    default:                                                                                       \
        return;                                                                                    \
    }

void reduce_scale(const struct combiner *c, void *elements, size_t n)
{
    if (c->op != WEFT_DEV_SCALED)
        return;
#define PRODUCT(real) x *(real)c->factor
    EACH_TYPE(PRODUCT)
#undef PRODUCT
}

void reduce_end(const struct combiner *c, void *elements, size_t n, int members)
{
    if (c->op != WEFT_AVG)
        return;
#define QUOTIENT(real) x / (real)members
    EACH_TYPE(QUOTIENT)
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

size_t reduce_factor_bytes(weft_type type)
{
    return type == WEFT_LONG_DOUBLE                             ? sizeof(long double)
           : type == WEFT_DOUBLE || type == WEFT_COMPLEX_DOUBLE ? sizeof(double)
                                                                : sizeof(float);
}

long double reduce_factor_of(weft_type type, const void *bytes)
{
    union {
        float f;
        double d;
        long double l;
    } value;
    size_t size = reduce_factor_bytes(type);
    memcpy(&value, bytes, size);
    return size == sizeof(float) ? value.f : size == sizeof(double) ? value.d : value.l;
}

weft_status reduce_scaled_combiner(const char *function, weft_type type, const void *factor,
                                   struct combiner *combiner)
{
    weft_status status = reduce_combiner(function, type, WEFT_AVG, combiner);
    if (status == WEFT_ERR_TYPE && (unsigned)type < WEFT_TYPE_COUNT)
        return base_fail(status, "%s: type %d; a scaled sum is of real and complex numbers",
                         function, (int)type);
    if (status)
        return status;
    if (!factor)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: factor is null", function);
    combiner->op = WEFT_DEV_SCALED;
    combiner->factor_at = factor;
    return WEFT_OK;
}

uint64_t reduce_detail(const struct combiner *c)
{
    double factor = (double)c->factor;
    /* a weighted sum has its own operation number */
    uint64_t bits = 0, op = (uint64_t)c->op + c->weighted;
    if (c->op == WEFT_DEV_SCALED && !c->factor_at && !c->weighted)
        memcpy(&bits, &factor, sizeof bits);
    return (uint64_t)c->type << 8 | op | (bits ^ bits << 24) >> 16 << 16;
}
