/* SPDX-License-Identifier: Apache-2.0 */
/* Waits and tests in all forms and types, and put with signal. */
#include "job.h"

static void signals(weft_job *job, weft_ctx *ctx, int me, int n)
{
    enum { WORDS = 500, ROUNDS = 200 };
    uint64_t *data = alloc(job, WORDS * 8), *signal = alloc(job, 16), local[WORDS], seen;
    int to = (me + 1) % n, from = (me + n - 1) % n;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < WORDS; i++)
            local[i] = round * 1000 + (uint64_t)i + (uint64_t)me;
        if (round % 2)
            OK(weft_put_signal(ctx, data, local, sizeof local, signal, round, WEFT_SIGNAL_SET, to));
        else
            OK(weft_put_signal_nbi(ctx, data, local, sizeof local, signal, 1, WEFT_SIGNAL_ADD, to));
        OK(weft_signal_wait(ctx, signal, WEFT_GE, round, &seen));
        CHECK(seen == round);
        for (int i = 0; i < WORDS; i++)
            CHECK(data[i] == round * 1000 + (uint64_t)i + (uint64_t)from);
        OK(weft_quiet(ctx)); /* local[] can be reused */
        /* the sender may overwrite only after all PEs have read */
        OK(weft_signal(ctx, signal + 1, 1, WEFT_SIGNAL_ADD, from));
        OK(weft_signal_wait(ctx, signal + 1, WEFT_GE, round, NULL));
        OK(weft_signal_fetch(ctx, signal + 1, &seen));
        CHECK(seen >= round);
    }
    OK(weft_put_signal(ctx, data, local, 0, signal, 7777, WEFT_SIGNAL_SET, to));
    OK(weft_signal_wait(ctx, signal, WEFT_EQ, 7777, NULL));
    OK(weft_barrier(weft_team_world(job)));
    OK(weft_free(job, signal));
    OK(weft_free(job, data));
}

#define WAIT_TYPES(X)                                                                              \
    X(WEFT_INT16, int16_t)                                                                         \
    X(WEFT_INT32, int32_t)                                                                         \
    X(WEFT_INT64, int64_t)                                                                         \
    X(WEFT_UINT16, uint16_t)                                                                       \
    X(WEFT_UINT32, uint32_t)                                                                       \
    X(WEFT_UINT64, uint64_t)

/* The PE compares its own memory: every operator gives the correct result for every pair of
 * values. */
#define COMPARISONS(T, ctype)                                                                      \
    static void compare_##T(weft_ctx *ctx, void *room)                                             \
    {                                                                                              \
        static const long values[] = {-3, -1, 0, 1, 2, 32767};                                     \
        ctype *ivar = room;                                                                        \
        for (int a = 0; a < 6; a++) {                                                              \
            for (int b = 0; b < 6; b++) {                                                          \
                ctype x = (ctype)values[a], y = (ctype)values[b];                                  \
                int wanted[] = {x == y, x != y, x > y, x <= y, x < y, x >= y}, got;                \
                *ivar = x;                                                                         \
                for (int cmp = 0; cmp < WEFT_CMP_COUNT; cmp++) {                                   \
                    OK(weft_test(ctx, T, ivar, (weft_cmp)cmp, (uint64_t)y, &got));                 \
                    CHECK(got == wanted[cmp]);                                                     \
                    if (got)                                                                       \
                        OK(weft_wait_until(ctx, T, ivar, (weft_cmp)cmp, (uint64_t)y));             \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
WAIT_TYPES(COMPARISONS)

/* Each PE sets one element at every PE; waits of all forms return when the elements arrive. */
#define FORMS(T, ctype)                                                                            \
    static void forms_##T(weft_job *job, weft_ctx *ctx, int me, int n)                             \
    {                                                                                              \
        ctype *ivars = alloc(job, (size_t)(n + 1) * sizeof *ivars);                                \
        ctype *wanted = malloc((size_t)n * sizeof *wanted);                                        \
        int *status = calloc((size_t)n, sizeof *status), got;                                      \
        size_t *indices = malloc((size_t)n * sizeof *indices), count, index, seen = 0;             \
        for (int i = 0; i < n; i++)                                                                \
            wanted[i] = (ctype)(i + 1);                                                            \
        for (int k = 0; k < n; k++) {                                                              \
            ctype value = (ctype)(me + 1);                                                         \
            OK(weft_put(ctx, ivars + me, &value, sizeof value, (me + k) % n));                     \
        }                                                                                          \
        for (int i = 0; i < n / 2; i++) {                                                          \
            OK(weft_wait_until_any(ctx, T, ivars, (size_t)n, status, WEFT_NE, 0, &index));         \
            CHECK(index < (size_t)n && !status[index] && ivars[index] == (ctype)(index + 1));      \
            status[index] = 1;                                                                     \
            seen++;                                                                                \
        }                                                                                          \
        while (seen < (size_t)n) {                                                                 \
            OK(weft_wait_until_some_vector(ctx, T, ivars, (size_t)n, indices, status, WEFT_EQ,     \
                                           wanted, &count));                                       \
            CHECK(count >= 1);                                                                     \
            for (size_t i = 0; i < count; i++, seen++)                                             \
                status[indices[i]] = 1;                                                            \
        }                                                                                          \
        OK(weft_wait_until_all(ctx, T, ivars, (size_t)n, NULL, WEFT_GT, 0));                       \
        OK(weft_wait_until_all_vector(ctx, T, ivars, (size_t)n, NULL, WEFT_GE, wanted));           \
        OK(weft_wait_until_any_vector(ctx, T, ivars, (size_t)n, NULL, WEFT_EQ, wanted, &index));   \
        CHECK(index < (size_t)n);                                                                  \
        OK(weft_wait_until_some(ctx, T, ivars, (size_t)n, indices, NULL, WEFT_NE, 0, &count));     \
        CHECK(count == (size_t)n);                                                                 \
        OK(weft_wait_until_any(ctx, T, ivars, (size_t)n, status, WEFT_EQ, 0, &index));             \
        CHECK(index == WEFT_NONE); /* all elements are excluded */                                 \
        OK(weft_test_any(ctx, T, ivars, (size_t)n, NULL, WEFT_EQ, 99, &index));                    \
        CHECK(index == WEFT_NONE);                                                                 \
        OK(weft_test_any_vector(ctx, T, ivars, (size_t)n, NULL, WEFT_EQ, wanted, &index));         \
        CHECK(index < (size_t)n);                                                                  \
        OK(weft_test_some(ctx, T, ivars, (size_t)n, indices, NULL, WEFT_LE, 1, &count));           \
        CHECK(count == 1 && indices[0] == 0);                                                      \
        OK(weft_test_some_vector(ctx, T, ivars, (size_t)n, indices, NULL, WEFT_NE, wanted,         \
                                 &count));                                                         \
        CHECK(count == 0);                                                                         \
        OK(weft_test_all(ctx, T, ivars, (size_t)n, NULL, WEFT_EQ, 1, &got));                       \
        CHECK(got == (n == 1));                                                                    \
        OK(weft_test_all_vector(ctx, T, ivars, (size_t)n, NULL, WEFT_EQ, wanted, &got));           \
        CHECK(got == 1);                                                                           \
        OK(weft_test_all(ctx, T, ivars, 0, NULL, WEFT_EQ, 1, &got));                               \
        CHECK(got == 1);                                                                           \
        OK(weft_barrier(weft_team_world(job)));                                                    \
        OK(weft_free(job, ivars));                                                                 \
        free(wanted);                                                                              \
        free(status);                                                                              \
        free(indices);                                                                             \
    }
WAIT_TYPES(FORMS)

int main(void)
{
    weft_job *job;
    OK(weft_init(&job, NULL));
    weft_ctx *ctx = weft_default_ctx(job);
    int me = weft_my_pe(job), n = weft_n_pes(job);
    signals(job, ctx, me, n);
    void *room = alloc(job, 64);
#define CALL(T, ctype)                                                                             \
    compare_##T(ctx, room);                                                                        \
    forms_##T(job, ctx, me, n);
    WAIT_TYPES(CALL)
    OK(weft_free(job, room));
    OK(weft_finalize(job));
    return 0;
}
