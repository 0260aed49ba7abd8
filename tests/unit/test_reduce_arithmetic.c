/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of reductions on the host: every operation of every type, factors and averages,
 * and the combinations that are rejected. */
#include "ops/coll/reduce.h"

#include <complex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"

#include <weft/device/arithmetic.h>

/* Elements 0 and 1 are combined; element 2 must stay unchanged. */
#define INTEGERS(name, ctype, x, y)                                                                \
    static void name(void **state)                                                                 \
    {                                                                                              \
        const ctype all[][2] = {[WEFT_AND] = {(ctype)((x) & (y)), (ctype)(7 & 9)},                 \
                                [WEFT_OR] = {(ctype)((x) | (y)), (ctype)(7 | 9)},                  \
                                [WEFT_XOR] = {(ctype)((x) ^ (y)), (ctype)(7 ^ 9)},                 \
                                [WEFT_MIN] = {(x) < (y) ? (x) : (y), 7},                           \
                                [WEFT_MAX] = {(x) > (y) ? (x) : (y), 9},                           \
                                [WEFT_SUM] = {(ctype)((uint64_t)(x) + (uint64_t)(y)), 16},         \
                                [WEFT_PROD] = {(ctype)((uint64_t)(x) * (uint64_t)(y)), 63},        \
                                [WEFT_AVG] = {(ctype)((uint64_t)(x) + (uint64_t)(y)), 16}};        \
        for (int op = 0; op < WEFT_OP_COUNT; op++) {                                               \
            size_t element = 0;                                                                    \
            ctype a[3] = {(x), 7, 5}, b[3] = {(y), 9, 6};                                          \
            reduce_function *combine = reduce_function_of(TYPE, (weft_op)op, &element);            \
            combine(a, b, 2);                                                                      \
            assert_int_equal(element, sizeof(ctype));                                              \
            assert_true(a[0] == all[op][0] && a[1] == all[op][1] && a[2] == 5);                    \
        }                                                                                          \
        struct combiner c = {.type = TYPE, .op = WEFT_AVG};                                        \
        ctype e[3] = {(x), (y), 5};                                                                \
        reduce_end(&c, e, 2, 300); /* more members than some types can count */                    \
        assert_true(e[0] == (ctype)((x) / 300) && e[1] == (ctype)((y) / 300) && e[2] == 5);        \
        ctype factor = (ctype)((x)-1), v[3] = {(y), 3, 5};                                         \
        assert_int_equal(reduce_scaled_combiner("f", TYPE, &factor, &c), WEFT_OK);                 \
        assert_int_equal(reduce_factor_bytes(&c), sizeof factor);                                  \
        c.factor = reduce_factor_of(&c, &factor);                                                  \
        assert_true(c.factor == factor);                                                           \
        reduce_scale(&c, v, 2);                                                                    \
        assert_true(v[0] == (ctype)((uint64_t)(y) * (uint64_t)factor) && v[2] == 5);               \
        assert_true(v[1] == (ctype)(3 * (uint64_t)factor));                                        \
        assert_true((ctype)weft_dev_bits_f64(reduce_factor_word(&c)) == factor);                   \
    }
#define TYPE WEFT_INT8
INTEGERS(of_int8, int8_t, (int8_t)-100, (int8_t)-101)
#undef TYPE
#define TYPE WEFT_INT16
INTEGERS(of_int16, int16_t, (int16_t)-30000, (int16_t)31000)
#undef TYPE
#define TYPE WEFT_INT32
INTEGERS(of_int32, int32_t, INT32_MIN + 5, -77)
#undef TYPE
#define TYPE WEFT_INT64
INTEGERS(of_int64, int64_t, INT64_MAX - 2, (int64_t)1000)
#undef TYPE
#define TYPE WEFT_UINT8
INTEGERS(of_uint8, uint8_t, (uint8_t)200, (uint8_t)99)
#undef TYPE
#define TYPE WEFT_UINT16
INTEGERS(of_uint16, uint16_t, (uint16_t)60000, (uint16_t)9999)
#undef TYPE
#define TYPE WEFT_UINT32
INTEGERS(of_uint32, uint32_t, 4000000000u, 999999999u)
#undef TYPE
#define TYPE WEFT_UINT64
INTEGERS(of_uint64, uint64_t, UINT64_MAX - 9, (uint64_t)1 << 63)
#undef TYPE

#define REALS(name, TYPE, ctype)                                                                   \
    static void name(void **state)                                                                 \
    {                                                                                              \
        const ctype all[][2] = {[WEFT_MIN] = {-8, 3},                                              \
                                [WEFT_MAX] = {2.5, 4},                                             \
                                [WEFT_SUM] = {-5.5, 7},                                            \
                                [WEFT_PROD] = {-20, 12},                                           \
                                [WEFT_AVG] = {-5.5, 7}};                                           \
        for (int op = 0; op < WEFT_OP_COUNT; op++) {                                               \
            size_t element = 0;                                                                    \
            ctype a[3] = {2.5, 3, 5}, b[3] = {-8, 4, 6};                                           \
            reduce_function *combine = reduce_function_of(TYPE, (weft_op)op, &element);            \
            assert_int_equal(element, sizeof(ctype));                                              \
            assert_int_equal(combine == NULL, op == WEFT_AND || op == WEFT_OR || op == WEFT_XOR);  \
            if (!combine)                                                                          \
                continue;                                                                          \
            combine(a, b, 2);                                                                      \
            assert_true(a[0] == all[op][0] && a[1] == all[op][1] && a[2] == 5);                    \
        }                                                                                          \
        struct combiner c = {.type = TYPE, .op = WEFT_DEV_SCALED, .factor = 0.25L};                \
        ctype e[3] = {8, -2, 5};                                                                   \
        reduce_scale(&c, e, 2);                                                                    \
        assert_true(e[0] == 2 && e[1] == (ctype)-0.5 && e[2] == 5);                                \
        reduce_end(&c, e, 2, 4); /* not an average: unchanged */                                   \
        assert_true(e[0] == 2);                                                                    \
        c.op = WEFT_AVG;                                                                           \
        reduce_scale(&c, e, 2);                                                                    \
        assert_true(e[0] == 2);                                                                    \
        reduce_end(&c, e, 2, 4);                                                                   \
        assert_true(e[0] == (ctype)0.5 && e[1] == (ctype)-0.125 && e[2] == 5);                     \
    }
REALS(of_float, WEFT_FLOAT, float)
REALS(of_double, WEFT_DOUBLE, double)
REALS(of_long_double, WEFT_LONG_DOUBLE, long double)

#define COMPLEX(name, TYPE, ctype, real)                                                           \
    static void name(void **state)                                                                 \
    {                                                                                              \
        for (int op = 0; op < WEFT_OP_COUNT; op++) {                                               \
            size_t element = 0;                                                                    \
            ctype a[2] = {1 + 2 * I, 3}, b[2] = {3 - 1 * I, 4};                                    \
            reduce_function *combine = reduce_function_of(TYPE, (weft_op)op, &element);            \
            bool sums = op == WEFT_SUM || op == WEFT_AVG;                                          \
            assert_int_equal(element, sizeof(ctype));                                              \
            assert_int_equal(combine != NULL, sums || op == WEFT_PROD);                            \
            if (!combine)                                                                          \
                continue;                                                                          \
            combine(a, b, 1);                                                                      \
            assert_true(a[0] == (sums ? 4 + 1 * I : 5 + 5 * I) && a[1] == 3);                      \
        }                                                                                          \
        struct combiner c = {.type = TYPE, .op = WEFT_DEV_SCALED, .factor = 0.5L};                 \
        real e[6] = {2, 4, 6, 8, 5, 5}; /* two elements, both parts */                             \
        reduce_scale(&c, e, 2);                                                                    \
        assert_true(e[0] == 1 && e[1] == 2 && e[2] == 3 && e[3] == 4 && e[4] == 5);                \
        c.op = WEFT_AVG;                                                                           \
        reduce_end(&c, e, 2, 2);                                                                   \
        assert_true(e[0] == (real)0.5 && e[1] == 1 && e[3] == 2 && e[4] == 5);                     \
    }
COMPLEX(of_complex_float, WEFT_COMPLEX_FLOAT, float _Complex, float)
COMPLEX(of_complex_double, WEFT_COMPLEX_DOUBLE, double _Complex, double)

/* The code of kernels does as that of the host, on 16 bytes. */
static void kernels_do_the_same_with_integers(void **state)
{
    for (int type = WEFT_INT8; type <= WEFT_UINT64; type++)
        for (int members = 0; members <= 1000; members += 1 + members / 3) {
            int64_t words[2] = {INT64_C(-0x7f80fe0180007fff), INT64_C(0x00ff01807f80abcd)};
            struct combiner c = {.type = (weft_type)type, .factor = -77777777777777777.0L};
            c.op = members ? WEFT_AVG : WEFT_DEV_SCALED;
            c.factor = type > WEFT_INT64 && c.factor < 0 ? -c.factor : c.factor;
            struct weft_dev_vec16 v = weft_dev_each(c.type, (uint64_t)words[0], (uint64_t)words[1],
                                                    members, members ? 0 : reduce_factor_word(&c));
            size_t n = sizeof words >> (type - WEFT_INT8) % 4; /* elements of 1, 2, 4 or 8 bytes */
            if (members)
                reduce_end(&c, words, n, members);
            else
                reduce_scale(&c, words, n);
            assert_int_equal(v.lo, words[0]);
            assert_int_equal(v.hi, words[1]);
        }
}

static void what_is_none_is_refused(void **state)
{
    size_t element;
    struct combiner c;
    assert_null(reduce_function_of(WEFT_TYPE_COUNT, WEFT_SUM, &element));
    assert_null(reduce_function_of((weft_type)-1, WEFT_SUM, &element));
    assert_null(reduce_function_of(WEFT_INT32, WEFT_OP_COUNT, &element));
    assert_null(reduce_function_of(WEFT_INT32, (weft_op)-1, &element));
    for (int type = 0; type < WEFT_TYPE_COUNT; type++)
        assert_int_equal(reduce_any_order((weft_type)type), type <= WEFT_UINT64);
    assert_false(reduce_any_order(WEFT_TYPE_COUNT));
    assert_int_equal(reduce_combiner("f", (weft_type)-1, WEFT_SUM, &c), WEFT_ERR_TYPE);
    assert_string_equal(weft_last_error(), "f: type -1 is not a weft_type");
    assert_int_equal(reduce_combiner("f", WEFT_INT8, WEFT_OP_COUNT, &c), WEFT_ERR_OP);
    assert_int_equal(reduce_combiner("f", WEFT_INT8, (weft_op)-1, &c), WEFT_ERR_OP);
    assert_int_equal(reduce_combiner("f", WEFT_INT8, WEFT_AVG, &c), WEFT_OK);
    assert_int_equal(reduce_combiner("f", WEFT_FLOAT, WEFT_XOR, &c), WEFT_ERR_TYPE);
    assert_int_equal(reduce_combiner("f", WEFT_COMPLEX_FLOAT, WEFT_MIN, &c), WEFT_ERR_TYPE);
    assert_int_equal(reduce_combiner("f", WEFT_LONG_DOUBLE, WEFT_MAX, &c), WEFT_OK);
    assert_true(c.type == WEFT_LONG_DOUBLE && c.op == WEFT_MAX && c.element == sizeof(long double));
    for (int type = WEFT_TYPE_COUNT; type < WEFT_TYPE_COUNT + 64; type++) /* of device code */
        for (int op = 0; op < WEFT_OP_COUNT; op++) {
            bool good = weft_dev_is_narrow((weft_type)type) && op >= WEFT_MIN;
            assert_int_equal(reduce_combiner("f", (weft_type)type, (weft_op)op, &c) == WEFT_OK,
                             good);
            if (good)
                assert_true(!c.combine && c.element == weft_dev_type_bytes((weft_type)type));
        }
}

static void factors_are_of_the_part_of_a_number(void **state)
{
    const float f = 1.5f;
    const double d = 2.25;
    const long double l = 3.125L;
    const uint16_t half = 0xc100, bfloat = 0x3fc0; /* -2.5, 1.5 */
    const uint8_t e4m3 = 0xb8, e5m2 = 0x41;        /* -1, 2.5 */
    const struct {
        int type;
        size_t bytes;
        const void *at;
        long double value;
    } rows[] = {
        {WEFT_FLOAT, sizeof f, &f, 1.5L},
        {WEFT_COMPLEX_FLOAT, sizeof f, &f, 1.5L},
        {WEFT_DOUBLE, sizeof d, &d, 2.25L},
        {WEFT_COMPLEX_DOUBLE, sizeof d, &d, 2.25L},
        {WEFT_LONG_DOUBLE, sizeof l, &l, 3.125L},
        {WEFT_HALF, sizeof f, &f, 1.5L},
        {WEFT_FP8_E4M3, sizeof f, &f, 1.5L},
        {WEFT_HALF | WEFT_NARROW_FACTOR, 2, &half, -2.5L},
        {WEFT_BFLOAT16 | WEFT_NARROW_FACTOR, 2, &bfloat, 1.5L},
        {WEFT_FP8_E4M3 | WEFT_NARROW_FACTOR, 1, &e4m3, -1},
        {WEFT_FP8_E5M2 | WEFT_NARROW_FACTOR, 1, &e5m2, 2.5L},
    };
    struct combiner c;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_type type = (weft_type)rows[i].type;
        assert_int_equal(reduce_scaled_combiner("f", type, rows[i].at, &c), WEFT_OK);
        assert_int_equal(c.type, rows[i].type & ~WEFT_NARROW_FACTOR);
        assert_int_equal(reduce_public_type(&c), type);
        assert_int_equal(reduce_factor_bytes(&c), rows[i].bytes);
        assert_true(reduce_factor_of(&c, rows[i].at) == rows[i].value);
    }
    assert_int_equal(
        reduce_scaled_combiner("f", (weft_type)(WEFT_INT32 | WEFT_NARROW_FACTOR), &f, &c),
        WEFT_ERR_TYPE);
    assert_int_equal(reduce_scaled_combiner("f", (weft_type)-1, &f, &c), WEFT_ERR_TYPE);
    assert_string_equal(weft_last_error(), "f: type -1 is not a weft_type");
    assert_int_equal(reduce_scaled_combiner("f", WEFT_DOUBLE, NULL, &c), WEFT_ERR_ARGUMENT);
    assert_int_equal(reduce_scaled_combiner("f", WEFT_DOUBLE, &d, &c), WEFT_OK);
    assert_true(c.op == WEFT_DEV_SCALED && c.factor_at == &d && c.type == WEFT_DOUBLE && c.combine);
}

/* The detail that members compare differs by type, operation, factor, and the presence of
 * weights. */
static void details_differ(void **state)
{
    const float at = 1;
    const struct combiner all[] = {
        {.type = WEFT_FLOAT, .op = WEFT_SUM},
        {.type = WEFT_DOUBLE, .op = WEFT_SUM},
        {.type = WEFT_FLOAT, .op = WEFT_PROD},
        {.type = WEFT_FLOAT, .op = WEFT_DEV_SCALED, .factor = 1},
        {.type = WEFT_FLOAT, .op = WEFT_DEV_SCALED, .factor = 1.0000001L},
        {.type = WEFT_FLOAT, .op = WEFT_DEV_SCALED, .factor = -1},
        {.type = WEFT_FLOAT, .op = WEFT_DEV_SCALED, .factor = 1, .weighted = true},
        {.type = WEFT_FLOAT, .op = WEFT_DEV_SCALED, .factor = 3, .factor_at = &at},
        {.type = WEFT_INT64, .op = WEFT_DEV_SCALED, .factor = 1},
        {.type = WEFT_INT64, .op = WEFT_DEV_SCALED, .factor = INT64_MAX},
        {.type = WEFT_INT64, .op = WEFT_DEV_SCALED, .factor = INT64_MAX - 1},
    };
    enum { N = sizeof all / sizeof *all };
    for (int i = 0; i < N; i++)
        for (int k = 0; k < i; k++)
            assert_true(reduce_detail(&all[i]) != reduce_detail(&all[k]));
    struct combiner other =
        all[7]; /* a factor in memory is read later, and members may have different ones */
    other.factor = 4;
    assert_true(reduce_detail(&other) == reduce_detail(&all[7]));
    other = all[6];
    other.factor = 4;
    assert_true(reduce_detail(&other) == reduce_detail(&all[6]));
    other = all[0];
    other.factor = 4;
    assert_true(reduce_detail(&other) == reduce_detail(&all[0]));
    assert_int_equal(reduce_detail(&all[0]), (uint64_t)WEFT_FLOAT << 8 | WEFT_SUM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_int8),
        cmocka_unit_test(of_int16),
        cmocka_unit_test(of_int32),
        cmocka_unit_test(of_int64),
        cmocka_unit_test(of_uint8),
        cmocka_unit_test(of_uint16),
        cmocka_unit_test(of_uint32),
        cmocka_unit_test(of_uint64),
        cmocka_unit_test(of_float),
        cmocka_unit_test(of_double),
        cmocka_unit_test(of_long_double),
        cmocka_unit_test(of_complex_float),
        cmocka_unit_test(of_complex_double),
        cmocka_unit_test(kernels_do_the_same_with_integers),
        cmocka_unit_test(what_is_none_is_refused),
        cmocka_unit_test(factors_are_of_the_part_of_a_number),
        cmocka_unit_test(details_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
