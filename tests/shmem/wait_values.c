/* SPDX-License-Identifier: Apache-2.0 */
/* Every wait and test of every type with the values at which types differ: each comparison gives
 * the result of C's operator on that type, for values that are present and for values that
 * arrive. */
#include <stdbool.h>

#include "check.h"

#include "extremes.h"

#define NONE SIZE_MAX

static int me, n, next;

static const int comparisons[] = {SHMEM_CMP_EQ, SHMEM_CMP_NE, SHMEM_CMP_GT,
                                  SHMEM_CMP_LE, SHMEM_CMP_LT, SHMEM_CMP_GE};

#define HOLDS(a, cmp, b)                                                                           \
    ((cmp) == SHMEM_CMP_EQ   ? (a) == (b)                                                          \
     : (cmp) == SHMEM_CMP_NE ? (a) != (b)                                                          \
     : (cmp) == SHMEM_CMP_GT ? (a) > (b)                                                           \
     : (cmp) == SHMEM_CMP_LE ? (a) <= (b)                                                          \
     : (cmp) == SHMEM_CMP_LT ? (a) < (b)                                                           \
                             : (a) >= (b))

/* at[] holds all extremes; the test counts the values that satisfy the comparison and compares the
 * result of the routines. */
#define STANDING(arg, NAME, TYPE, code)                                                            \
    static void standing_##NAME(int cmp, TYPE value)                                               \
    {                                                                                              \
        static TYPE at[EXTREMES];                                                                  \
        TYPE values[EXTREMES];                                                                     \
        int status[EXTREMES] = {0};                                                                \
        size_t found[EXTREMES], holding = 0, last = NONE;                                          \
        for (int i = 0; i < EXTREMES; i++) {                                                       \
            at[i] = EXTREME(TYPE, i);                                                              \
            values[i] = value;                                                                     \
            bool holds = HOLDS(at[i], cmp, value);                                                 \
            CHECK(shmem_##NAME##_test(&at[i], cmp, value) == holds);                               \
            if (holds) {                                                                           \
                shmem_##NAME##_wait_until(&at[i], cmp, value);                                     \
                holding++;                                                                         \
                last = (size_t)i;                                                                  \
            }                                                                                      \
            status[i] = !holds;                                                                    \
        }                                                                                          \
        CHECK(shmem_##NAME##_test_all(at, EXTREMES, NULL, cmp, value) == (holding == EXTREMES));   \
        CHECK(shmem_##NAME##_test_all_vector(at, EXTREMES, NULL, cmp, values) ==                   \
              (holding == EXTREMES));                                                              \
        CHECK(shmem_##NAME##_test_all(at, EXTREMES, status, cmp, value) == 1);                     \
        CHECK(shmem_##NAME##_test_some(at, EXTREMES, found, NULL, cmp, value) == holding);         \
        for (size_t k = 0; k < holding; k++)                                                       \
            CHECK(HOLDS(at[found[k]], cmp, value) && (k == 0 || found[k] != found[k - 1]));        \
        CHECK(shmem_##NAME##_test_some_vector(at, EXTREMES, found, NULL, cmp, values) == holding); \
        size_t one = shmem_##NAME##_test_any(at, EXTREMES, NULL, cmp, value);                      \
        CHECK((one == NONE) == (holding == 0) && (one == NONE || !status[one]));                   \
        one = shmem_##NAME##_test_any_vector(at, EXTREMES, NULL, cmp, values);                     \
        CHECK((one == NONE) == (holding == 0) && (one == NONE || !status[one]));                   \
        if (!holding)                                                                              \
            return;                                                                                \
        shmem_##NAME##_wait_until_all(at, EXTREMES, status, cmp, value);                           \
        shmem_##NAME##_wait_until_all_vector(at, EXTREMES, status, cmp, values);                   \
        one = shmem_##NAME##_wait_until_any(at, EXTREMES, NULL, cmp, value);                       \
        CHECK(one < EXTREMES && !status[one]);                                                     \
        one = shmem_##NAME##_wait_until_any_vector(at, EXTREMES, NULL, cmp, values);               \
        CHECK(one < EXTREMES && !status[one]);                                                     \
        CHECK(shmem_##NAME##_wait_until_some(at, EXTREMES, found, NULL, cmp, value) == holding);   \
        CHECK(found[holding - 1] == last || holding > 1);                                          \
        CHECK(shmem_##NAME##_wait_until_some_vector(at, EXTREMES, found, NULL, cmp, values) ==     \
              holding);                                                                            \
    }                                                                                              \
    static void all_standing_##NAME(void)                                                          \
    {                                                                                              \
        for (int c = 0; c < 6; c++)                                                                \
            for (int i = 0; i < EXTREMES; i++)                                                     \
                standing_##NAME(comparisons[c], EXTREME(TYPE, i));                                 \
    }
WEFT_SHMEM_WAIT_TYPES(STANDING, )

/* Puts of the previous PE set a variable to one value after the other. The wait for each value uses
 * a comparison that the value satisfies and its predecessor does not. No wait may return early. */
#define ARRIVING(arg, NAME, TYPE, code)                                                            \
    static void arriving_##NAME(void)                                                              \
    {                                                                                              \
        TYPE *at = symmetric(2 * sizeof *at);                                                      \
        *at = EXTREME(TYPE, 0);                                                                    \
        shmem_barrier_all();                                                                       \
        for (int i = 1; i < 2 * EXTREMES; i++) {                                                   \
            TYPE old = EXTREME(TYPE, i - 1), new = EXTREME(TYPE, i), limit = EXTREME(TYPE, i / 2); \
            int cmp = comparisons[i % 6];                                                          \
            if (old == new)                                                                        \
                continue;                                                                          \
            shmem_##NAME##_p(at, new, next);                                                       \
            if (HOLDS(new, cmp, limit) && !HOLDS(old, cmp, limit))                                 \
                shmem_##NAME##_wait_until(at, cmp, limit);                                         \
            else if (new > old)                                                                    \
                shmem_##NAME##_wait_until(at, SHMEM_CMP_GT, old);                                  \
            else                                                                                   \
                shmem_##NAME##_wait_until(at, SHMEM_CMP_LT, old);                                  \
            CHECK(*at == new &&at[1] == 0);                                                        \
            shmem_barrier_all();                                                                   \
        }                                                                                          \
        shmem_free(at);                                                                            \
    }
WEFT_SHMEM_WAIT_TYPES(ARRIVING, )

/* The deprecated wait: any value except the given one, including changes only in the high half. */
#define OLD_WAIT(arg, NAME, TYPE, code)                                                            \
    {                                                                                              \
        static TYPE at;                                                                            \
        at = (TYPE)SIGN_BIT(TYPE);                                                                 \
        shmem_barrier_all();                                                                       \
        shmem_##NAME##_p(&at, (TYPE)0, next);                                                      \
        shmem_##NAME##_wait(&at, (TYPE)SIGN_BIT(TYPE));                                            \
        CHECK(at == 0);                                                                            \
        shmem_barrier_all();                                                                       \
    }

/* Signals are unsigned: a value with the high bit set is large. */
static void signals(void)
{
    static uint64_t signal;
    CHECK(shmem_signal_wait_until(&signal, SHMEM_CMP_LT, UINT64_MAX) == 0);
    shmem_barrier_all();
    shmem_putmem_signal(NULL, NULL, 0, &signal, SIGN_BIT(uint64_t), SHMEM_SIGNAL_SET, next);
    CHECK(shmem_signal_wait_until(&signal, SHMEM_CMP_GT, LARGEST_BITS(uint64_t)) ==
          SIGN_BIT(uint64_t));
    shmem_barrier_all();
    shmem_putmem_signal(NULL, NULL, 0, &signal, SIGN_BIT(uint64_t) - 1, SHMEM_SIGNAL_ADD, next);
    CHECK(shmem_signal_wait_until(&signal, SHMEM_CMP_EQ, UINT64_MAX) == UINT64_MAX);
    CHECK(shmem_signal_wait_until(&signal, SHMEM_CMP_GE, SIGN_BIT(uint64_t)) == UINT64_MAX);
    CHECK(shmem_signal_fetch(&signal) == UINT64_MAX);
    shmem_barrier_all();
    shmem_putmem_signal(NULL, NULL, 0, &signal, 1, SHMEM_SIGNAL_ADD, next);
    CHECK(shmem_signal_wait_until(&signal, SHMEM_CMP_LE, LARGEST_BITS(uint64_t)) == 0);
    CHECK(shmem_signal_wait_until(&signal, SHMEM_CMP_NE, UINT64_MAX) == 0);
    shmem_barrier_all();
}

int main(void)
{
    shmem_init();
    me = shmem_my_pe();
    n = shmem_n_pes();
    next = (me + 1) % n;
#define RUN(arg, NAME, TYPE, code)                                                                 \
    all_standing_##NAME();                                                                         \
    arriving_##NAME();
    WEFT_SHMEM_WAIT_TYPES(RUN, )
    WEFT_SHMEM_OLD_WAIT_TYPES(OLD_WAIT, )
    signals();
    shmem_finalize();
    return 0;
}
