/* SPDX-License-Identifier: Apache-2.0 */
/* Every reduction of every type with the values at which types differ, over the world, a team and
 * an active set: the result equals that of C's operators on the type. */
#include "check.h"

#include "extremes.h"

static int me, n;
static long psync[4][SHMEM_SYNC_SIZE];
static shmem_team_t others; /* all PEs except the first; the world if there is only one */

/* Element i of member `pe`: the step 5 is coprime to EXTREMES, so each pair of values meets for
 * some i and step. */
#define AT(pe, i) ((pe) * (1 + (i) / EXTREMES) * 5 + (i))

enum { COUNT = 3 * EXTREMES };

/* Integers: bitwise and ordered operations as in C; sum and product modulo 2^width. */
#define C_and(TYPE, a, b)  (TYPE)((a) & (b))
#define C_or(TYPE, a, b)   (TYPE)((a) | (b))
#define C_xor(TYPE, a, b)  (TYPE)((a) ^ (b))
#define C_max(TYPE, a, b)  ((a) > (b) ? (a) : (b))
#define C_min(TYPE, a, b)  ((a) < (b) ? (a) : (b))
#define C_sum(TYPE, a, b)  (TYPE)((uint64_t)(a) + (uint64_t)(b))
#define C_prod(TYPE, a, b) (TYPE)((uint64_t)(a) * (uint64_t)(b))

static shmem_team_t team_of_round(int round)
{
    return round ? others : SHMEM_TEAM_WORLD;
}

#define FILL_AND_WANT(op, TYPE, VALUE, COMBINE)                                                    \
    for (int i = 0; i < COUNT; i++) {                                                              \
        source[i] = VALUE(TYPE, AT(rank, i));                                                      \
        wanted[i] = VALUE(TYPE, AT(0, i));                                                         \
        for (int pe = 1; pe < size; pe++) {                                                        \
            TYPE value = VALUE(TYPE, AT(pe, i));                                                   \
            wanted[i] = COMBINE(TYPE, wanted[i], value);                                           \
        }                                                                                          \
    }

#define TEAM_TEST(op, NAME, TYPE, VALUE, COMBINE)                                                  \
    {                                                                                              \
        TYPE *source = symmetric(COUNT * sizeof(TYPE)), *dest = symmetric(COUNT * sizeof(TYPE));   \
        TYPE wanted[COUNT];                                                                        \
        for (int round = 0; round < 2; round++) {                                                  \
            shmem_team_t team = team_of_round(round);                                              \
            int rank = shmem_team_my_pe(team), size = shmem_team_n_pes(team);                      \
            if (team == SHMEM_TEAM_INVALID)                                                        \
                continue;                                                                          \
            FILL_AND_WANT(op, TYPE, VALUE, COMBINE)                                                \
            CHECK(shmem_##NAME##_##op##_reduce(team, dest, source, COUNT) == 0);                   \
            for (int i = 0; i < COUNT; i++)                                                        \
                CHECK(dest[i] == wanted[i]);                                                       \
            shmem_team_sync(team);                                                                 \
        }                                                                                          \
        shmem_barrier_all();                                                                       \
        shmem_free(dest);                                                                          \
        shmem_free(source);                                                                        \
    }

/* Over all PEs, and over all except the first. */
#define SET_TEST(op, NAME, TYPE, VALUE, COMBINE)                                                   \
    {                                                                                              \
        TYPE *source = symmetric(COUNT * sizeof(TYPE)), *dest = symmetric(COUNT * sizeof(TYPE));   \
        TYPE wanted[COUNT], *work = symmetric(COUNT * sizeof(TYPE));                               \
        for (int first = 0; first < 2 && first < n; first++) {                                     \
            int rank = me - first, size = n - first;                                               \
            if (rank < 0)                                                                          \
                continue;                                                                          \
            FILL_AND_WANT(op, TYPE, VALUE, COMBINE)                                                \
            shmem_##NAME##_##op##_to_all(dest, source, COUNT, first, 0, size, work, psync[first]); \
            for (int i = 0; i < COUNT; i++)                                                        \
                CHECK(dest[i] == wanted[i]);                                                       \
            shmem_barrier(first, 0, size, psync[2 + first]);                                       \
        }                                                                                          \
        shmem_barrier_all();                                                                       \
        shmem_free(work);                                                                          \
        shmem_free(dest);                                                                          \
        shmem_free(source);                                                                        \
    }

#define INTEGER_TEAM(op, NAME, TYPE, code)                                                         \
    static void op##_##NAME(void) TEAM_TEST(op, NAME, TYPE, EXTREME, C_##op)
#define INTEGER_SET(op, NAME, TYPE, code)                                                          \
    static void set_##op##_##NAME(void) SET_TEST(op, NAME, TYPE, EXTREME, C_##op)

/* The integer types of the lists of ordered and arithmetic types. */
#define INTEGER_TYPES(X, arg)                                                                      \
    WEFT_SHMEM_REDUCE_BITWISE_TYPES(X, arg)                                                        \
    X(arg, char, char, 0)                                                                          \
    X(arg, schar, signed char, 0)                                                                  \
    X(arg, short, short, 0)                                                                        \
    X(arg, int, int, 0)                                                                            \
    X(arg, long, long, 0)                                                                          \
    X(arg, longlong, long long, 0)                                                                 \
    X(arg, ptrdiff, ptrdiff_t, 0)

WEFT_SHMEM_REDUCE_BITWISE_TYPES(INTEGER_TEAM, and)
WEFT_SHMEM_REDUCE_BITWISE_TYPES(INTEGER_TEAM, or)
WEFT_SHMEM_REDUCE_BITWISE_TYPES(INTEGER_TEAM, xor)
INTEGER_TYPES(INTEGER_TEAM, max)
INTEGER_TYPES(INTEGER_TEAM, min)
INTEGER_TYPES(INTEGER_TEAM, sum)
INTEGER_TYPES(INTEGER_TEAM, prod)
WEFT_SHMEM_TO_ALL_BITWISE_TYPES(INTEGER_SET, and)
WEFT_SHMEM_TO_ALL_BITWISE_TYPES(INTEGER_SET, or)
WEFT_SHMEM_TO_ALL_BITWISE_TYPES(INTEGER_SET, xor)
WEFT_SHMEM_TO_ALL_BITWISE_TYPES(INTEGER_SET, max)
WEFT_SHMEM_TO_ALL_BITWISE_TYPES(INTEGER_SET, min)
WEFT_SHMEM_TO_ALL_BITWISE_TYPES(INTEGER_SET, sum)
WEFT_SHMEM_TO_ALL_BITWISE_TYPES(INTEGER_SET, prod)

/* Real types: extremes for min and max; for sum and product, values with exact results in every
 * order. */
#define REAL_ORDER(TYPE, i) ((TYPE)real_extremes[(i) % EXTREMES])
#define REAL_EXACT(TYPE, i)                                                                        \
    ((TYPE)((const float[]){-1.5f, 2.0f, -0.25f, 4.0f, -3.0f, 0.5f})[(i) % 6])
#define C_plus(TYPE, a, b)  ((a) + (b))
#define C_times(TYPE, a, b) ((a) * (b))
#define REAL_TYPES(X)       X(float, float) X(double, double) X(longdouble, long double)
#define REAL_TEAM(NAME, TYPE)                                                                      \
    static void real_##NAME(void)                                                                  \
    {                                                                                              \
        TEAM_TEST(max, NAME, TYPE, REAL_ORDER, C_max)                                              \
        TEAM_TEST(min, NAME, TYPE, REAL_ORDER, C_min)                                              \
        TEAM_TEST(sum, NAME, TYPE, REAL_EXACT, C_plus)                                             \
        TEAM_TEST(prod, NAME, TYPE, REAL_EXACT, C_times)                                           \
        SET_TEST(max, NAME, TYPE, REAL_ORDER, C_max)                                               \
        SET_TEST(min, NAME, TYPE, REAL_ORDER, C_min)                                               \
        SET_TEST(sum, NAME, TYPE, REAL_EXACT, C_plus)                                              \
        SET_TEST(prod, NAME, TYPE, REAL_EXACT, C_times)                                            \
    }
REAL_TYPES(REAL_TEAM)

/* Complex numbers with different parts, so that exchanged parts show. */
#define COMPLEX(TYPE, i) ((TYPE)((i) % 3 - 1) + (TYPE)(2 - (i) % 4) * (TYPE) __extension__ 1.0i)
#define COMPLEX_TEAM(NAME, TYPE)                                                                   \
    static void complex_##NAME(void)                                                               \
    {                                                                                              \
        TEAM_TEST(sum, NAME, TYPE, COMPLEX, C_plus)                                                \
        TEAM_TEST(prod, NAME, TYPE, COMPLEX, C_times)                                              \
        SET_TEST(sum, NAME, TYPE, COMPLEX, C_plus)                                                 \
        SET_TEST(prod, NAME, TYPE, COMPLEX, C_times)                                               \
    }
COMPLEX_TEAM(complexf, float _Complex)
COMPLEX_TEAM(complexd, double _Complex)

int main(void)
{
    shmem_init();
    me = shmem_my_pe();
    n = shmem_n_pes();
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, n > 1, 1, n > 1 ? n - 1 : 1, NULL, 0,
                                   &others) == 0);
#define RUN_TEAM(op, NAME, TYPE, code) op##_##NAME();
#define RUN_SET(op, NAME, TYPE, code)  set_##op##_##NAME();
    WEFT_SHMEM_REDUCE_BITWISE_TYPES(RUN_TEAM, and)
    WEFT_SHMEM_REDUCE_BITWISE_TYPES(RUN_TEAM, or)
    WEFT_SHMEM_REDUCE_BITWISE_TYPES(RUN_TEAM, xor)
    INTEGER_TYPES(RUN_TEAM, max)
    INTEGER_TYPES(RUN_TEAM, min)
    INTEGER_TYPES(RUN_TEAM, sum)
    INTEGER_TYPES(RUN_TEAM, prod)
    WEFT_SHMEM_TO_ALL_BITWISE_TYPES(RUN_SET, and)
    WEFT_SHMEM_TO_ALL_BITWISE_TYPES(RUN_SET, or)
    WEFT_SHMEM_TO_ALL_BITWISE_TYPES(RUN_SET, xor)
    WEFT_SHMEM_TO_ALL_BITWISE_TYPES(RUN_SET, max)
    WEFT_SHMEM_TO_ALL_BITWISE_TYPES(RUN_SET, min)
    WEFT_SHMEM_TO_ALL_BITWISE_TYPES(RUN_SET, sum)
    WEFT_SHMEM_TO_ALL_BITWISE_TYPES(RUN_SET, prod)
#define RUN_REAL(NAME, TYPE) real_##NAME();
    REAL_TYPES(RUN_REAL)
    complex_complexf();
    complex_complexd();
    shmem_team_destroy(others);
    shmem_finalize();
    return 0;
}
