/* SPDX-License-Identifier: Apache-2.0 */
/* Every reduction of every type, on values that reveal a wrong width, sign or operation: the
 * smallest, the largest, all bits, the top bit. Small counts take LL, large counts take tiles; the
 * team has the order of the job or its reverse. The expected results are computed here in 128 bits,
 * or the values make them exact. */
#include "job.h"

#include <complex.h>
#include <stdint.h>
#include <unistd.h>

enum { SMALL = 3, LARGE = 9001, MOST_PES = 8 };

static weft_job *job;
static weft_team *team;
static int me, n;

typedef __int128 wide;
typedef unsigned __int128 pattern;

/* Index of the value of PE `pe` in element i; all combinations occur. */
static size_t choice(size_t i, int pe, size_t count)
{
    size_t step = 1;
    for (int k = 0; k < pe % 3; k++)
        step *= count;
    return (i / step + (size_t)pe * 5) % count;
}

static wide integer_of(int bits, int is_signed, size_t i, int pe)
{
    wide top = (wide)1 << (bits - 1);
    wide low = is_signed ? -top : 0, high = is_signed ? top - 1 : 2 * top - 1;
    wide alternating = (wide)(0x5555555555555555ull & ((pattern)high));
    const wide values[] = {0,        1,           is_signed ? -1 : high,     low, high,
                           high - 1, alternating, is_signed ? low + 1 : top, 3};
    return values[choice(i, pe, sizeof values / sizeof values[0])];
}

static wide wrapped(pattern value, int bits, int is_signed)
{
    pattern mask = ((pattern)1 << bits) - 1;
    value &= mask;
    if (is_signed && value >> (bits - 1))
        return (wide)value - ((wide)1 << bits);
    return (wide)value;
}

static wide combined(weft_op op, wide a, wide b, int bits, int is_signed)
{
    switch (op) {
    case WEFT_AND:
        return wrapped((pattern)a & (pattern)b, bits, is_signed);
    case WEFT_OR:
        return wrapped((pattern)a | (pattern)b, bits, is_signed);
    case WEFT_XOR:
        return wrapped((pattern)a ^ (pattern)b, bits, is_signed);
    case WEFT_MIN:
        return b < a ? b : a;
    case WEFT_MAX:
        return b > a ? b : a;
    case WEFT_SUM:
        return wrapped((pattern)a + (pattern)b, bits, is_signed);
    default:
        return wrapped((pattern)a * (pattern)b, bits, is_signed);
    }
}

static void wrong(const char *type, int op, size_t i)
{
    fprintf(stderr, "%s, operation %d: element %zu is wrong at PE %d of %d\n", type, op, i, me, n);
    exit(1);
}

#define INTEGER_TEST(TYPE, ctype, bits, is_signed)                                                 \
    static void integer_##TYPE(void *dst_, void *src_, size_t count)                               \
    {                                                                                              \
        ctype *dst = dst_, *src = src_;                                                            \
        for (int op = 0; op <= WEFT_AVG; op++) {                                                   \
            for (size_t i = 0; i < count; i++)                                                     \
                src[i] = (ctype)integer_of(bits, is_signed, i, me);                                \
            dst[count] = (ctype)0x2a;                                                              \
            OK(weft_sync(team));                                                                   \
            OK(weft_allreduce(team, dst, src, count, WEFT_##TYPE, (weft_op)op));                   \
            for (size_t i = 0; i < count; i++) {                                                   \
                wide expected = integer_of(bits, is_signed, i, 0);                                 \
                for (int pe = 1; pe < n; pe++)                                                     \
                    expected = combined(op == WEFT_AVG ? WEFT_SUM : (weft_op)op, expected,         \
                                        integer_of(bits, is_signed, i, pe), bits, is_signed);      \
                expected = op == WEFT_AVG ? expected / n : expected;                               \
                if (dst[i] != (ctype)expected)                                                     \
                    wrong(#TYPE, op, i);                                                           \
            }                                                                                      \
            if (dst[count] != (ctype)0x2a)                                                         \
                wrong(#TYPE " beyond the end", op, count);                                         \
            OK(weft_sync(team));                                                                   \
        }                                                                                          \
    }
INTEGER_TEST(INT8, int8_t, 8, 1)
INTEGER_TEST(INT16, int16_t, 16, 1)
INTEGER_TEST(INT32, int32_t, 32, 1)
INTEGER_TEST(INT64, int64_t, 64, 1)
INTEGER_TEST(UINT8, uint8_t, 8, 0)
INTEGER_TEST(UINT16, uint16_t, 16, 0)
INTEGER_TEST(UINT32, uint32_t, 32, 0)
INTEGER_TEST(UINT64, uint64_t, 64, 0)

/* Sums and products of these values are exact in every real type. */
static double real_of(size_t i, int pe)
{
    static const double values[] = {1, -1, 0.5, -2, 4, -0.25, 0, 8};
    return values[choice(i, pe, sizeof values / sizeof values[0])];
}

static double combined_real(weft_op op, double a, double b)
{
    return op == WEFT_MIN    ? (b < a ? b : a)
           : op == WEFT_MAX  ? (b > a ? b : a)
           : op == WEFT_PROD ? a * b
                             : a + b;
}

#define REAL_TEST(TYPE, ctype)                                                                     \
    static void real_##TYPE(void *dst_, void *src_, size_t count)                                  \
    {                                                                                              \
        ctype *dst = dst_, *src = src_;                                                            \
        for (int op = WEFT_MIN; op <= WEFT_AVG; op++) {                                            \
            for (size_t i = 0; i < count; i++)                                                     \
                src[i] = (ctype)real_of(i, me);                                                    \
            OK(weft_sync(team));                                                                   \
            OK(weft_allreduce(team, dst, src, count, WEFT_##TYPE, (weft_op)op));                   \
            for (size_t i = 0; i < count; i++) {                                                   \
                double expected = real_of(i, 0);                                                   \
                for (int pe = 1; pe < n; pe++)                                                     \
                    expected = combined_real((weft_op)op, expected, real_of(i, pe));               \
                if (dst[i] != (op == WEFT_AVG ? (ctype)expected / (ctype)n : (ctype)expected))     \
                    wrong(#TYPE, op, i);                                                           \
            }                                                                                      \
            OK(weft_sync(team));                                                                   \
        }                                                                                          \
        for (int op = WEFT_AND; op <= WEFT_XOR; op++)                                              \
            FAILS(weft_allreduce(team, dst, src, 1, WEFT_##TYPE, (weft_op)op), WEFT_ERR_TYPE,      \
                  "not defined");                                                                  \
    }
REAL_TEST(FLOAT, float)
REAL_TEST(DOUBLE, double)
REAL_TEST(LONG_DOUBLE, long double)

/* Parts of few bits: products of eight values are exact. */
static double _Complex complex_of(size_t i, int pe)
{
    static const double parts[] = {1, -1, 2, 0, -0.5};
    return parts[choice(i, pe, 5)] + parts[choice(i / 2 + 3, pe, 5)] * I;
}

#define COMPLEX_TEST(TYPE, ctype)                                                                  \
    static void complex_##TYPE(void *dst_, void *src_, size_t count)                               \
    {                                                                                              \
        ctype *dst = dst_, *src = src_;                                                            \
        for (int op = WEFT_SUM; op <= WEFT_PROD; op++) {                                           \
            for (size_t i = 0; i < count; i++)                                                     \
                src[i] = (ctype)complex_of(i, me);                                                 \
            OK(weft_sync(team));                                                                   \
            OK(weft_allreduce(team, dst, src, count, WEFT_##TYPE, (weft_op)op));                   \
            for (size_t i = 0; i < count; i++) {                                                   \
                double _Complex expected = complex_of(i, 0);                                       \
                for (int pe = 1; pe < n; pe++)                                                     \
                    expected = op == WEFT_SUM ? expected + complex_of(i, pe)                       \
                                              : expected * complex_of(i, pe);                      \
                if (dst[i] != (ctype)expected)                                                     \
                    wrong(#TYPE, op, i);                                                           \
            }                                                                                      \
            OK(weft_sync(team));                                                                   \
        }                                                                                          \
        for (int op = WEFT_AND; op <= WEFT_MAX; op++)                                              \
            FAILS(weft_allreduce(team, dst, src, 1, WEFT_##TYPE, (weft_op)op), WEFT_ERR_TYPE,      \
                  "not defined");                                                                  \
    }
COMPLEX_TEST(COMPLEX_FLOAT, float _Complex)
COMPLEX_TEST(COMPLEX_DOUBLE, double _Complex)

static void all_types(void *dst, void *src, size_t count)
{
    integer_INT8(dst, src, count);
    integer_INT16(dst, src, count);
    integer_INT32(dst, src, count);
    integer_INT64(dst, src, count);
    integer_UINT8(dst, src, count);
    integer_UINT16(dst, src, count);
    integer_UINT32(dst, src, count);
    integer_UINT64(dst, src, count);
    real_FLOAT(dst, src, count);
    real_DOUBLE(dst, src, count);
    real_LONG_DOUBLE(dst, src, count);
    complex_COMPLEX_FLOAT(dst, src, count);
    complex_COMPLEX_DOUBLE(dst, src, count);
}

/* The rounding reveals the order of the terms: 2^24 + 1 + 1 in floats is not 1 + 1 + 2^24. */
static void order_of_team(float *dst, float *src)
{
    float expected = 0;
    for (int pe = 0; pe < n; pe++)
        expected = pe ? expected + (pe == n - 1 ? 16777216.0f : 1.0f) : (n == 1 ? 16777216.0f : 1);
    for (size_t count = 1; count <= 5000; count += 4999) {
        for (size_t i = 0; i < count; i++)
            src[i] = me == n - 1 ? 16777216.0f : 1.0f;
        OK(weft_sync(team));
        OK(weft_allreduce(team, dst, src, count, WEFT_FLOAT, WEFT_SUM));
        for (size_t i = 0; i < count; i++)
            CHECK(dst[i] == expected);
        OK(weft_sync(team));
    }
}

/* Members are not synchronized: one fills its source late, and all overwrite their source as soon
 * as the reduction has returned. */
static void out_of_step(int64_t *dst, int64_t *src)
{
    static const size_t counts[] = {1, 6, 2000, LARGE};
    for (int round = 0; round < 40; round++) {
        size_t count = counts[round % 4];
        memset(dst, 0xaa, count * sizeof *dst);
        memset(src, 0xbb, count * sizeof *src);
        OK(weft_sync(team));
        if (me == round / 4 % n)
            usleep(1500);
        for (size_t i = 0; i < count; i++)
            src[i] = (int64_t)i * (me + 1) + round;
        OK(weft_allreduce(team, dst, src, count, WEFT_INT64, WEFT_SUM));
        memset(src, 0xcc, count * sizeof *src);
        for (size_t i = count; i-- > 0;)
            if (dst[i] != (int64_t)i * n * (n + 1) / 2 + (int64_t)round * n)
                wrong("members out of step", WEFT_SUM, i);
        OK(weft_sync(team));
    }
}

int main(void)
{
    OK(weft_init(&job, NULL));
    weft_team *world = weft_team_world(job), *reversed;
    CHECK(weft_n_pes(job) <= MOST_PES);
    char *dst = alloc(job, LARGE * 16 + 64), *src = alloc(job, LARGE * 16 + 64);
    OK(weft_team_split_strided(world, weft_n_pes(job) - 1, -1, weft_n_pes(job), &reversed));
    weft_team *const teams[] = {world, reversed};
    for (int t = 0; t < 2; t++) {
        team = teams[t];
        me = weft_team_my_pe(team);
        n = weft_team_n_pes(team);
        for (size_t count = 1; count <= SMALL; count++)
            all_types(dst, src, count);
        all_types(dst, src, t ? 700 : LARGE);
        order_of_team((float *)dst, (float *)src);
        out_of_step((int64_t *)dst, (int64_t *)src);
    }
    OK(weft_team_destroy(reversed));
    OK(weft_finalize(job));
    return 0;
}
