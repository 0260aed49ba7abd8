/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions, waits and tests at the limits of every type: smallest, largest, negative, high bit,
 * signed zeros and infinities, compared with the C compiler's arithmetic in that type. Reductions
 * at sizes around a packet, a unit and a slot of the packet staging buffer. Rounds in which packet
 * sequence numbers wrap around. */
#include "device_test.h"

enum { MOST = 9000, VALUES = 8 };

WEFT_KERNEL(combine, (int, scope), (int, all), (int, team), (void *, dst), (const void *, src),
            (size_t, n), (weft_type, type), (weft_op, op), (int *, result))
{
    int status = 0;
    if (scope == WEFT_DEV_BLOCK)
        status = all ? weft_block_allreduce(team, dst, src, n, type, op)
                     : weft_block_reducescatter(team, dst, src, n, type, op);
    else if (scope == WEFT_DEV_WARP && weft_dev_warp() == 0)
        status = all ? weft_warp_allreduce(team, dst, src, n, type, op)
                     : weft_warp_reducescatter(team, dst, src, n, type, op);
    else if (scope == WEFT_DEV_THREAD && weft_dev_thread_rank() == 0)
        status = all ? weft_thread_allreduce(team, dst, src, n, type, op)
                     : weft_thread_reducescatter(team, dst, src, n, type, op);
    if (weft_dev_thread_rank() == 0)
        *result = status;
}

/* Bit cmp of hits[i]: variable i compares true with `bound` by test, and also by the forms over
 * several variables of which one is selected, with the bound as a value and in an array. */
WEFT_KERNEL(compare, (weft_type, type), (void *, vars), (uint64_t, bound), (void *, bounds),
            (int *, hits))
{
    for (int i = 0; i < VALUES; i++) {
        const char *var = (const char *)vars + (size_t)i * weft_dev_type_width(type);
        int status[VALUES], seen[3] = {0, 0, 0};
        for (int j = 0; j < VALUES; j++)
            status[j] = j != i;
        for (int cmp = 0; cmp < WEFT_CMP_COUNT; cmp++) {
            int met = weft_thread_test(type, var, (weft_cmp)cmp, bound);
            seen[0] |= met << cmp;
            seen[1] |= weft_thread_test_all(type, vars, VALUES, status, (weft_cmp)cmp, bound)
                       << cmp;
            seen[2] |= (weft_thread_test_any_vector(type, vars, VALUES, status, (weft_cmp)cmp,
                                                    bounds) == (size_t)i)
                       << cmp;
            /* A wait for a condition that already holds returns at once. */
            if (met && weft_thread_wait_until(type, var, (weft_cmp)cmp, bound))
                seen[0] = -1;
        }
        hits[i] = seen[0] == seen[1] && seen[0] == seen[2] ? seen[0] : -2;
    }
}

WEFT_KERNEL(set_rounds, (int, team), (uint64_t, rounds))
{
    struct weft_dev_area *area =
        (struct weft_dev_area *)(uintptr_t)(weft_dev_part(WEFT_DEV_AREAS, weft_dev_my_pe()) +
                                            (uint64_t)team * weft_dev_area_bytes(weft_dev_n_pes()));
    area->packets = rounds;
}

#if WEFT_HOST_CODE

#include <float.h>
#include <math.h>

static unsigned char *src, *dst;
static int *result, *hits;
static unsigned char buffer[MOST * 8], wanted[MOST * 8];

/* X(name, C type, its unsigned type (itself for real types) for wrapping arithmetic, weft_type,
 * integer?) */
#define TYPES(X)                                                                                   \
    X(i8, int8_t, uint8_t, WEFT_INT8, 1)                                                           \
    X(i16, int16_t, uint16_t, WEFT_INT16, 1)                                                       \
    X(i32, int32_t, uint32_t, WEFT_INT32, 1)                                                       \
    X(i64, int64_t, uint64_t, WEFT_INT64, 1)                                                       \
    X(u8, uint8_t, uint8_t, WEFT_UINT8, 1)                                                         \
    X(u16, uint16_t, uint16_t, WEFT_UINT16, 1)                                                     \
    X(u32, uint32_t, uint32_t, WEFT_UINT32, 1)                                                     \
    X(u64, uint64_t, uint64_t, WEFT_UINT64, 1)                                                     \
    X(float, float, float, WEFT_FLOAT, 0)                                                          \
    X(double, double, double, WEFT_DOUBLE, 0)

/* Value k of a type: the limits, their neighbours, and values around zero. */
#define INTEGER_VALUE(T, k)                                                                        \
    (T)((k) == 0   ? (T)0                                                                          \
        : (k) == 1 ? (T)1                                                                          \
        : (k) == 2 ? (T)-1 /* signed: -1, unsigned: the largest */                                 \
        : (k) == 3 ? (T)((uint64_t)1 << (8 * sizeof(T) - 1)) /* only the high bit */               \
        : (k) == 4 ? (T)(((uint64_t)1 << (8 * sizeof(T) - 1)) - 1)                                 \
        : (k) == 5 ? (T)(((uint64_t)1 << (8 * sizeof(T) - 1)) + 1)                                 \
        : (k) == 6 ? (T)-2                                                                         \
                   : (T)100)
static double real_value(int k, int wide)
{
    const double values[VALUES] = {
        0.0,      -0.0, wide ? DBL_MAX : FLT_MAX,           wide ? -DBL_MAX : -FLT_MAX,
        INFINITY, -1.5, wide ? DBL_TRUE_MIN : FLT_TRUE_MIN, 1.0};
    return values[k];
}

/* Index of the value of element i of member m; it differs in each round of numbers_again(). */
static size_t salt;
static int chosen(int m, size_t i)
{
    return (int)((i * 5 + (size_t)m * 3 + i / VALUES + salt) % VALUES);
}

#define REFERENCE(name, T, U, type, integer)                                                       \
    static T value_##name(int k)                                                                   \
    {                                                                                              \
        return integer ? INTEGER_VALUE(T, k) : (T)real_value(k, sizeof(T) == 8);                   \
    }                                                                                              \
    static T combined_##name(weft_op op, T a, T b)                                                 \
    {                                                                                              \
        uint64_t x = (uint64_t)(integer ? a : 0), y = (uint64_t)(integer ? b : 0);                 \
        switch (op) {                                                                              \
        case WEFT_SUM:                                                                             \
            return (T)(U)((U)a + (U)b);                                                            \
        case WEFT_PROD: /* in 64 bits: C would promote 16-bit operands to int */                   \
            return integer ? (T)(x * y) : (T)(a * b);                                              \
        case WEFT_MIN:                                                                             \
            return b < a ? b : a;                                                                  \
        case WEFT_MAX:                                                                             \
            return b > a ? b : a;                                                                  \
        case WEFT_AND:                                                                             \
            return (T)(x & y);                                                                     \
        case WEFT_OR:                                                                              \
            return (T)(x | y);                                                                     \
        default:                                                                                   \
            return (T)(x ^ y);                                                                     \
        }                                                                                          \
    }                                                                                              \
    static void fill_##name(void *at, int m, size_t n)                                             \
    {                                                                                              \
        for (size_t i = 0; i < n; i++)                                                             \
            ((T *)at)[i] = value_##name(chosen(m, i));                                             \
    }                                                                                              \
    static void expect_##name(void *at, weft_op op, int members, size_t first, size_t n)           \
    {                                                                                              \
        for (size_t i = 0; i < n; i++) {                                                           \
            T acc = value_##name(chosen(0, first + i));                                            \
            for (int m = 1; m < members; m++)                                                      \
                acc = combined_##name(op, acc, value_##name(chosen(m, first + i)));                \
            ((T *)at)[i] = acc;                                                                    \
        }                                                                                          \
    }                                                                                              \
    static size_t differs_##name(const void *got, const void *want, size_t n)                      \
    {                                                                                              \
        const T *a = got, *b = want;                                                               \
        size_t i = 0; /* NaN equals NaN: the sign of inf - inf is undefined */                     \
        while (i < n && (a[i] == b[i] || (a[i] != a[i] && b[i] != b[i])))                          \
            i++;                                                                                   \
        return i;                                                                                  \
    }
TYPES(REFERENCE)

struct type {
    const char *name;
    weft_type type;
    size_t width;
    int integer;
    void (*fill)(void *at, int m, size_t n);
    void (*expect)(void *at, weft_op op, int members, size_t first, size_t n);
    size_t (*differs)(const void *got, const void *want, size_t n);
};
static const struct type types[] = {
#define ENTRY(name, T, U, type, integer)                                                           \
    {#name, type, sizeof(T), integer, fill_##name, expect_##name, differs_##name},
    TYPES(ENTRY)
#undef ENTRY
};
enum { N_TYPES = sizeof types / sizeof *types };

static void reduce_one(weft_team *team, const struct type *t, weft_op op, int scope, int all,
                       size_t n, int in_place)
{
    int members = weft_team_n_pes(team), mine = weft_team_my_pe(team), status;
    size_t total = all ? n : n * (size_t)members;
    CHECK(total <= MOST);
    t->fill(buffer, mine, total);
    store(src, buffer, total * t->width);
    memset(buffer, 0x5a, n * t->width + 8);
    if (!in_place)
        store(dst, buffer, n * t->width + 8);
    OK(weft_barrier(team));
    void *to =
        in_place ? (void *)((char *)src + (all ? 0 : n * t->width * (size_t)mine)) : (void *)dst;
    LAUNCH(combine, 1, 96, 0, NULL, scope, all, weft_team_device(team), to, src, n, t->type, op,
           result);
    fetch(&status, result, sizeof status);
    CHECK(status == WEFT_OK);
    fetch(buffer, to, n * t->width + 8);
    t->expect(wanted, op, members, all ? 0 : n * (size_t)mine, n);
    size_t wrong = t->differs(buffer, wanted, n);
    if (wrong < n)
        fprintf(stderr, "%s, operation %d, %s of %zu by scope %d: element %zu of PE %d is wrong\n",
                t->name, op, all ? "allreduce" : "reducescatter", n, scope, wrong, me);
    CHECK(wrong == n);
    for (size_t i = 0; i < 8 && !in_place; i++) /* nothing is written after the end */
        CHECK(buffer[n * t->width + i] == 0x5a);
    OK(weft_barrier(team));
}

static int op_fits(const struct type *t, int op)
{
    return t->integer || (op != WEFT_AND && op != WEFT_OR && op != WEFT_XOR);
}

static void every_type_and_operation(weft_team *team)
{
    int turn = 0;
    for (int t = 0; t < N_TYPES; t++)
        for (int op = 0; op < WEFT_AVG; op++)
            for (int all = 0; op_fits(&types[t], op) && all < 2; all++, turn++)
                reduce_one(team, &types[t], (weft_op)op, turn % 3, all,
                           VALUES * VALUES + (size_t)turn % 7, turn % 5 == 2);
}

/* Bytes around a packet (8), a unit (16), a warp's units (512), a slot, and more. */
static void every_size(weft_team *team)
{
    size_t slot = weft_dev_slot_bytes(n_pes, weft_team_device(team)) / 2;
    const size_t bytes[] = {1,  7,   8,   9,   15,       16,   17,       31,        32,
                            33, 511, 512, 513, slot - 1, slot, slot + 1, slot + 16, 3 * slot + 5};
    const struct type *t = &types[4]; /* bytes */
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
        for (int all = 0; all < 2; all++)
            if ((all ? 1 : (size_t)weft_team_n_pes(team)) * bytes[i] <= MOST)
                for (int in_place = 0; in_place < 2; in_place++)
                    reduce_one(team, t, WEFT_MAX, (int)i % 3, all, bytes[i], in_place);
}

/* Rounds in which packet sequence numbers repeat, as they do after 2^30 rounds: from one renewal of
 * the slots to the next, without the rounds between. Every second time the first rounds send much
 * and the next ones so little that only the renewal overwrites the old packets before their number
 * repeats. */
static void numbers_again(weft_team *team)
{
    for (uint64_t i = 1; i <= 9; i++) {
        OK(weft_barrier(team));
        LAUNCH(set_rounds, 1, 1, 0, NULL, weft_team_device(team), (i << 29) - 3);
        OK(weft_barrier(team));
        for (size_t k = 0; k < 8; k++, salt++)
            reduce_one(team, &types[6], WEFT_SUM, (int)k % 3, 1, i % 2 && k % 3 == 0 ? 60 : 1 + k,
                       0);
        salt++;
    }
}

/* Complex numbers whose real and imaginary parts take both signs and matter, so small that every
 * result is exact. */
static void complex_element(int m, size_t i, double *re, double *im)
{
    *re = (double)((i + (size_t)m) % 4) - 1;
    *im = (double)((i / 4 + 3 * (size_t)m) % 5) - 2;
}

static void complex_wanted(weft_op op, int members, size_t i, double *re, double *im)
{
    complex_element(0, i, re, im);
    for (int m = 1; m < members; m++) {
        double r, j, before = *re;
        complex_element(m, i, &r, &j);
        *re = op == WEFT_SUM ? *re + r : *re * r - *im * j;
        *im = op == WEFT_SUM ? *im + j : before * j + *im * r;
    }
}

/* In the memory layout of floats or doubles. */
static void put_complex(unsigned char *at, int wide, double re, double im)
{
    const double doubles[2] = {re, im};
    const float floats[2] = {(float)re, (float)im};
    memcpy(at, wide ? (const void *)doubles : floats, wide ? sizeof doubles : sizeof floats);
}

static double complex_part(const unsigned char *at, int wide, size_t i)
{
    double d;
    float f;
    memcpy(&d, at + i * (wide ? sizeof d : 0), sizeof d);
    memcpy(&f, at + i * (wide ? 0 : sizeof f), sizeof f);
    return wide ? d : (double)f;
}

static void reduce_complex(weft_team *team, int wide, weft_op op, int scope)
{
    enum { N = 40 };
    size_t width = wide ? 16 : 8;
    double re, im;
    int status;
    for (size_t i = 0; i < N; i++) {
        complex_element(weft_team_my_pe(team), i, &re, &im);
        put_complex(buffer + i * width, wide, re, im);
        complex_wanted(op, weft_team_n_pes(team), i, &re, &im);
        put_complex(wanted + i * width, wide, re, im);
    }
    store(src, buffer, N * width);
    OK(weft_barrier(team));
    LAUNCH(combine, 1, 96, 0, NULL, scope, 1, weft_team_device(team), dst, src, N,
           wide ? WEFT_COMPLEX_DOUBLE : WEFT_COMPLEX_FLOAT, op, result);
    fetch(&status, result, sizeof status);
    CHECK(status == WEFT_OK);
    fetch(buffer, dst, N * width);
    for (size_t i = 0; i < 2 * N; i++) /* by value: -0 equals 0 */
        CHECK(complex_part(buffer, wide, i) == complex_part(wanted, wide, i));
    OK(weft_barrier(team));
}

static void complex_numbers(weft_team *team)
{
    for (int wide = 0; wide < 2; wide++)
        for (int scope = 0; scope < 3; scope++) {
            reduce_complex(team, wide, WEFT_SUM, scope);
            reduce_complex(team, wide, WEFT_PROD, scope);
        }
}

static void compare_all(void *vars, void *bounds)
{
    int seen[VALUES];
#define COMPARE_TYPE(name, T, U, type, integer)                                                    \
    for (int b = 0; integer && sizeof(T) > 1 && b < VALUES; b++) {                                 \
        T values[VALUES], same[VALUES], bound = value_##name(b);                                   \
        for (int i = 0; i < VALUES; i++) {                                                         \
            values[i] = value_##name(i);                                                           \
            same[i] = bound;                                                                       \
        }                                                                                          \
        store(vars, values, sizeof values);                                                        \
        store(bounds, same, sizeof same);                                                          \
        LAUNCH(compare, 1, 1, 0, NULL, type, vars, (uint64_t)bound, bounds, hits);                 \
        fetch(seen, hits, sizeof seen);                                                            \
        for (int i = 0; i < VALUES; i++) {                                                         \
            T v = values[i];                                                                       \
            int wants = (v == bound) << WEFT_EQ | (v != bound) << WEFT_NE |                        \
                        (v > bound) << WEFT_GT | (v <= bound) << WEFT_LE |                         \
                        (v < bound) << WEFT_LT | (v >= bound) << WEFT_GE;                          \
            if (seen[i] != wants)                                                                  \
                fprintf(stderr, "%s: %lld beside %lld: %x, not %x\n", #name, (long long)v,         \
                        (long long)bound, (unsigned)seen[i], (unsigned)wants);                     \
            CHECK(seen[i] == wants);                                                               \
        }                                                                                          \
    }
    TYPES(COMPARE_TYPE)
}

int main(void)
{
    device_begin();
    src = symmetric(MOST * 8 + 8);
    dst = symmetric(MOST * 8 + 8);
    result = symmetric(sizeof *result);
    hits = symmetric(VALUES * sizeof *hits);
    weft_team *reverse;
    OK(weft_team_split_strided(weft_team_world(job), n_pes - 1, -1, n_pes, &reverse));
    every_type_and_operation(weft_team_world(job));
    every_type_and_operation(reverse);
    every_size(weft_team_world(job));
    every_size(reverse);
    complex_numbers(weft_team_world(job));
    numbers_again(weft_team_world(job));
    numbers_again(reverse);
    complex_numbers(reverse);
    OK(weft_team_destroy(reverse));
    /* The next team with the same index starts from zero. */
    OK(weft_team_split_strided(weft_team_world(job), 0, 1, n_pes, &reverse));
    every_size(reverse);
    OK(weft_team_destroy(reverse));
    compare_all(src, dst);
    device_end();
    return 0;
}
#endif
