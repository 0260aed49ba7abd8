/* SPDX-License-Identifier: Apache-2.0 */
/* NVSHMEM names: atomics over all types on host and device, waits and tests in all forms,
 * signals. */
#include "values.h"

enum { THREADS = 64, VARS = 6, ENDS = 8 };

static char *room;
static uint64_t *counter;
static weft_stream stream;

/* ------------------------------------------------------------------------------- atomics
 * One writer for each variable, so every result is known if a fence follows each atomic without a
 * result. room[64] counts wrong results. */
#define EXPECT(value, wanted) bad += (value) != (T)(wanted)

#define STANDARD_BODY(name, U)                                                                     \
    typedef U T;                                                                                   \
    int bad = 0;                                                                                   \
    nvshmem_##name##_atomic_set(at, 40, pe);                                                       \
    nvshmem_fence();                                                                               \
    nvshmem_##name##_atomic_inc(at, pe);                                                           \
    nvshmem_fence();                                                                               \
    EXPECT(nvshmem_##name##_atomic_fetch_inc(at, pe), 41);                                         \
    nvshmem_##name##_atomic_add(at, 8, pe);                                                        \
    nvshmem_fence();                                                                               \
    EXPECT(nvshmem_##name##_atomic_fetch_add(at, (T)-1, pe), 50);                                  \
    EXPECT(nvshmem_##name##_atomic_compare_swap(at, 48, 7, pe), 49);                               \
    EXPECT(nvshmem_##name##_atomic_compare_swap(at, 49, 7, pe), 49);                               \
    EXPECT(nvshmem_##name##_atomic_swap(at, 12, pe), 7);                                           \
    EXPECT(nvshmem_##name##_atomic_fetch(at, pe), 12);                                             \
    /* all bits of the variable, and none of its neighbour */                                      \
    nvshmem_##name##_atomic_set(at + 1, (T)0x5a, pe);                                              \
    nvshmem_fence();                                                                               \
    nvshmem_##name##_atomic_set(at, LARGEST(T), pe);                                               \
    nvshmem_fence();                                                                               \
    EXPECT(nvshmem_##name##_atomic_fetch_inc(at, pe), LARGEST(T));                                 \
    EXPECT(nvshmem_##name##_atomic_fetch(at, pe), SMALLEST(T));                                    \
    EXPECT(nvshmem_##name##_atomic_fetch_add(at, HIGH_BIT(T), pe), SMALLEST(T));                   \
    EXPECT(nvshmem_##name##_atomic_swap(at, (T)-2, pe), (T)(SMALLEST(T) ^ HIGH_BIT(T)));           \
    EXPECT(nvshmem_##name##_atomic_compare_swap(at, (T)-2, HIGH_BIT(T), pe), -2);                  \
    nvshmem_##name##_atomic_add(at, (T)-1, pe);                                                    \
    nvshmem_fence();                                                                               \
    EXPECT(nvshmem_##name##_atomic_fetch(at, pe), (T)(HIGH_BIT(T) ^ (T)-1));                       \
    EXPECT(nvshmem_##name##_atomic_fetch(at + 1, pe), 0x5a);                                       \
    return bad;
#define BITWISE_BODY(name, U)                                                                      \
    typedef U T;                                                                                   \
    int bad = 0;                                                                                   \
    nvshmem_##name##_atomic_set(at, 12, pe);                                                       \
    nvshmem_fence();                                                                               \
    nvshmem_##name##_atomic_or(at, 3, pe);                                                         \
    nvshmem_fence();                                                                               \
    EXPECT(nvshmem_##name##_atomic_fetch_and(at, 6, pe), 15);                                      \
    nvshmem_##name##_atomic_xor(at, 1, pe);                                                        \
    nvshmem_fence();                                                                               \
    EXPECT(nvshmem_##name##_atomic_fetch_or(at, 8, pe), 7);                                        \
    nvshmem_##name##_atomic_and(at, 9, pe);                                                        \
    nvshmem_fence();                                                                               \
    EXPECT(nvshmem_##name##_atomic_fetch_xor(at, 3, pe), 9);                                       \
    EXPECT(nvshmem_##name##_atomic_fetch(at, pe), 10);                                             \
    EXPECT(nvshmem_##name##_atomic_fetch_or(at, HIGH_BIT(T), pe), 10);                             \
    EXPECT(nvshmem_##name##_atomic_fetch_xor(at, (T)-1, pe), (T)(HIGH_BIT(T) | 10));               \
    nvshmem_##name##_atomic_and(at, (T)-3, pe);                                                    \
    nvshmem_fence();                                                                               \
    EXPECT(nvshmem_##name##_atomic_fetch(at, pe),                                                  \
           (T)(LARGEST(uint64_t) ^ HIGH_BIT(T) ^ 10) & (T)-3);                                     \
    return bad;
#define REAL_BODY(name, U)                                                                         \
    typedef U T;                                                                                   \
    int bad = 0;                                                                                   \
    nvshmem_##name##_atomic_set(at, (T)1.5, pe);                                                   \
    nvshmem_fence();                                                                               \
    EXPECT(nvshmem_##name##_atomic_swap(at, (T)-2.25, pe), 1.5);                                   \
    EXPECT(nvshmem_##name##_atomic_fetch(at, pe), -2.25);                                          \
    return bad;

/* The same text for host and device. */
#define ATOMICS(kind, name, T, BODY)                                                               \
    static int kind##_##name(T *at, int pe){BODY(name, T)} WEFT_KERNEL(                            \
        kind##_kernel_##name, (char *, at), (int *, bad), (int, pe))                               \
    {                                                                                              \
        *bad = kind##_##name((T *)at, pe);                                                         \
    }
#define STANDARD(name, T) ATOMICS(standard, name, T, STANDARD_BODY)
#define BITWISE(name, T)  ATOMICS(bitwise, name, T, BITWISE_BODY)
WEFT_NV_AMO_TYPES(STANDARD)
WEFT_NV_AMO_BITWISE_TYPES(BITWISE)
ATOMICS(real, float, float, REAL_BODY)
ATOMICS(real, double, double, REAL_BODY)

WEFT_KERNEL(contend, (uint64_t *, sum), (double *, real), (float *, small), (int, pe))
{
    nvshmem_uint64_atomic_inc(sum, pe);
    nvshmemx_double_atomic_add(real, 0.5, pe);
    (void)nvshmemx_double_atomic_fetch_add(real, 0.25, pe);
    nvshmemx_float_atomic_add(small, 0.5f, pe);
    (void)nvshmemx_float_atomic_fetch_add(small, 0.25f, pe);
}

static void check_atomics(void)
{
    int *bad = (int *)(room + 64);
#define RUN(kind, name, T)                                                                         \
    LAUNCH(1, kind##_kernel_##name, room, bad, next);                                              \
    CHECK(host_alone || !*bad, "device, " #name);                                                  \
    CHECK(!kind##_##name((T *)room, next), "host, " #name);
#define RUN_STANDARD(name, T) RUN(standard, name, T)
#define RUN_BITWISE(name, T)  RUN(bitwise, name, T)
    WEFT_NV_AMO_TYPES(RUN_STANDARD)
    WEFT_NV_AMO_BITWISE_TYPES(RUN_BITWISE)
    RUN(real, float, float)
    RUN(real, double, double)
    double *real = (double *)(counter + 1);
    float *small = (float *)(counter + 2);
    nvshmem_barrier_all();
    LAUNCH(THREADS, contend, counter, real, small, 0);
    nvshmem_uint64_atomic_add(counter, 1000, 0);
    nvshmem_barrier_all();
    if (host_alone) {
        CHECK(me || *counter == (uint64_t)n_pes * 1000, "%llu", (unsigned long long)*counter);
    } else if (me == 0) {
        CHECK(*counter == (uint64_t)n_pes * (THREADS + 1000), "%llu", (unsigned long long)*counter);
        CHECK(*real == n_pes * THREADS * 0.75, "%g", *real);
        CHECK(*small == (float)(n_pes * THREADS * 0.75), "%g", (double)*small);
    }
    nvshmem_barrier_all();
}

/* --------------------------------------------------------------------------- waits and tests
 * The previous PE stores 10 + i into variable i; status[] excludes variable 0. */
#define WAITING(name, U)                                                                           \
    WEFT_KERNEL(waiting_##name, (U *, vars), (U *, values), (int *, status), (size_t *, indices),  \
                (int *, bad), (int, pe))                                                           \
    {                                                                                              \
        typedef U T;                                                                               \
        *bad = nvshmem_##name##_test_any(vars, 0, status, NVSHMEM_CMP_EQ, 0) != WEFT_NONE;         \
        for (int i = 1; i < VARS; i++)                                                             \
            nvshmem_##name##_p(vars + i, (T)(10 + i), pe);                                         \
        nvshmem_##name##_wait_until(vars + 3, NVSHMEM_CMP_EQ, (T)13);                              \
        nvshmem_##name##_wait_until_all(vars, VARS, status, NVSHMEM_CMP_GE, (T)11);                \
        nvshmem_##name##_wait_until_all_vector(vars, VARS, status, NVSHMEM_CMP_EQ, values);        \
        *bad += nvshmem_##name##_wait_until_any(vars, VARS, status, NVSHMEM_CMP_EQ, (T)14) != 4;   \
        *bad += nvshmem_##name##_wait_until_some(vars, VARS, indices, status, NVSHMEM_CMP_GT,      \
                                                 (T)13) != VARS - 4;                               \
        *bad += indices[0] != 4;                                                                   \
        *bad += nvshmem_##name##_wait_until_any_vector(vars, VARS, status, NVSHMEM_CMP_EQ,         \
                                                       values) != 1;                               \
        *bad += nvshmem_##name##_wait_until_some_vector(vars, VARS, indices, status,               \
                                                        NVSHMEM_CMP_LE, values) != VARS - 1;       \
        *bad += !nvshmem_##name##_test(vars + 2, NVSHMEM_CMP_NE, (T)11);                           \
        *bad += nvshmem_##name##_test(vars + 2, NVSHMEM_CMP_LT, (T)12);                            \
        *bad += !nvshmem_##name##_test_all(vars, VARS, status, NVSHMEM_CMP_GT, (T)10);             \
        *bad += nvshmem_##name##_test_all(vars, VARS, status, NVSHMEM_CMP_GT, (T)11);              \
        *bad += nvshmem_##name##_test_any(vars, VARS, status, NVSHMEM_CMP_EQ, (T)15) != 5;         \
        *bad +=                                                                                    \
            nvshmem_##name##_test_some(vars, VARS, indices, status, NVSHMEM_CMP_LE, (T)12) != 2;   \
        *bad += !nvshmem_##name##_test_all_vector(vars, VARS, status, NVSHMEM_CMP_EQ, values);     \
        *bad += nvshmem_##name##_test_any_vector(vars, VARS, status, NVSHMEM_CMP_NE, values) !=    \
                WEFT_NONE;                                                                         \
        *bad += nvshmem_##name##_test_some_vector(vars, VARS, indices, status, NVSHMEM_CMP_EQ,     \
                                                  values) != VARS - 1;                             \
    }                                                                                              \
    static void wait_##name(void)                                                                  \
    {                                                                                              \
        typedef U T;                                                                               \
        T *vars = (T *)room, *values = (T *)(room + 128);                                          \
        int *status = (int *)(room + 256), *bad = (int *)(room + 320);                             \
        memset(room, 0, 1024);                                                                     \
        status[0] = 1;                                                                             \
        for (int i = 0; i < VARS; i++)                                                             \
            values[i] = (T)(10 + i);                                                               \
        nvshmem_barrier_all();                                                                     \
        LAUNCH(1, waiting_##name, vars, values, status, (size_t *)(room + 384), bad, next);        \
        CHECK(!*bad, "%d faults, " #name, *bad);                                                   \
        nvshmem_barrier_all();                                                                     \
        memset(room, 0, 128);                                                                      \
        nvshmem_barrier_all();                                                                     \
        nvshmemx_##name##_wait_until_on_stream(vars + 1, NVSHMEM_CMP_EQ, (T)11, stream);           \
        nvshmemx_##name##_wait_until_all_on_stream(vars, VARS, status, NVSHMEM_CMP_GT, (T)10,      \
                                                   stream);                                        \
        nvshmemx_##name##_wait_until_all_vector_on_stream(vars, VARS, status, NVSHMEM_CMP_EQ,      \
                                                          values, stream);                         \
        nvshmemx_##name##_p_on_stream(vars + 7, (T)77, next, stream);                              \
        for (int i = 1; i < VARS; i++)                                                             \
            nvshmem_##name##_p(vars + i, (T)(10 + i), next);                                       \
        nvshmem_quiet();                                                                           \
        CHECK(!weft_stream_synchronize(stream), "%s", weft_last_error());                          \
        for (int i = 1; i < VARS; i++)                                                             \
            CHECK(vars[i] == (T)(10 + i), "the stream passed its waits too early, " #name);        \
        nvshmem_barrier_all();                                                                     \
    }
WEFT_NV_WAIT_TYPES(WAITING)

/* Every comparison over the limits of the type and their neighbours, where a type of another sign
 * or width compares differently: as tests, and the true ones also as waits, which return at
 * once. */
#define COMPARING(name, U)                                                                         \
    WEFT_KERNEL(comparing_##name, (U *, vars), (U *, values), (size_t *, indices), (int *, bad))   \
    {                                                                                              \
        for (int i = 0; i < ENDS * ENDS * 6; i++) {                                                \
            U a = values[i % ENDS], b = values[i / ENDS % ENDS], both[2] = {b, b};                 \
            int cmp = i / ENDS / ENDS;                                                             \
            int wanted = cmp == NVSHMEM_CMP_EQ   ? a == b                                          \
                         : cmp == NVSHMEM_CMP_NE ? a != b                                          \
                         : cmp == NVSHMEM_CMP_GT ? a > b                                           \
                         : cmp == NVSHMEM_CMP_LE ? a <= b                                          \
                         : cmp == NVSHMEM_CMP_LT ? a < b                                           \
                                                 : a >= b;                                         \
            vars[0] = vars[1] = a;                                                                 \
            *bad += nvshmem_##name##_test(vars, cmp, b) != wanted;                                 \
            *bad += nvshmem_##name##_test_all(vars, 2, NULL, cmp, b) != wanted;                    \
            *bad += (nvshmem_##name##_test_any(vars, 2, NULL, cmp, b) < 2) != wanted;              \
            *bad += nvshmem_##name##_test_some(vars, 2, indices, NULL, cmp, b) !=                  \
                    (size_t)(2 * wanted);                                                          \
            *bad += nvshmem_##name##_test_all_vector(vars, 2, NULL, cmp, both) != wanted;          \
            *bad += (nvshmem_##name##_test_any_vector(vars, 2, NULL, cmp, both) < 2) != wanted;    \
            *bad += nvshmem_##name##_test_some_vector(vars, 2, indices, NULL, cmp, both) !=        \
                    (size_t)(2 * wanted);                                                          \
            if (!wanted || *bad)                                                                   \
                continue;                                                                          \
            nvshmem_##name##_wait_until(vars, cmp, b);                                             \
            nvshmem_##name##_wait_until_all(vars, 2, NULL, cmp, b);                                \
            nvshmem_##name##_wait_until_all_vector(vars, 2, NULL, cmp, both);                      \
            *bad += nvshmem_##name##_wait_until_any(vars, 2, NULL, cmp, b) > 1;                    \
            *bad +=                                                                                \
                nvshmem_##name##_wait_until_some_vector(vars, 2, indices, NULL, cmp, both) != 2;   \
        }                                                                                          \
    }                                                                                              \
    static void compare_##name(void)                                                               \
    {                                                                                              \
        const U ends[ENDS] = {SMALLEST(U), (U)(SMALLEST(U) + 1), (U)-1,     0, 1,                  \
                              HIGH_BIT(U), (U)(LARGEST(U) - 1),  LARGEST(U)};                      \
        U *vars = (U *)room;                                                                       \
        int *bad = (int *)(room + 320);                                                            \
        memcpy(room + 128, ends, sizeof ends);                                                     \
        *bad = 0;                                                                                  \
        LAUNCH(1, comparing_##name, vars, (U *)(room + 128), (size_t *)(room + 384), bad);         \
        CHECK(!*bad, "%d faults of comparison, " #name, *bad);                                     \
        /* on the stream true conditions pass, also for signed types */                            \
        vars[0] = vars[1] = LARGEST(U);                                                            \
        nvshmemx_##name##_wait_until_on_stream(vars, NVSHMEM_CMP_GT, SMALLEST(U), stream);         \
        nvshmemx_##name##_wait_until_all_on_stream(vars, 2, NULL, NVSHMEM_CMP_GE, LARGEST(U),      \
                                                   stream);                                        \
        CHECK(!weft_stream_synchronize(stream), "%s", weft_last_error());                          \
        vars[0] = (U)-1;                                                                           \
        nvshmemx_##name##_wait_until_on_stream(                                                    \
            vars, IS_SIGNED(U) ? NVSHMEM_CMP_LT : NVSHMEM_CMP_GT, (U)0, stream);                   \
        CHECK(!weft_stream_synchronize(stream), "%s", weft_last_error());                          \
    }
WEFT_NV_WAIT_TYPES(COMPARING)

/* --------------------------------------------------------------------------------- signals */

WEFT_KERNEL(signals, (uint64_t *, signal), (uint64_t *, seen), (int, pe))
{
    nvshmemx_signal_op(signal, 5, NVSHMEM_SIGNAL_SET, pe);
    seen[0] = nvshmem_signal_wait_until(signal, NVSHMEM_CMP_EQ, 5);
    nvshmem_fence();
    nvshmemx_signal_op(signal + 1, 6, NVSHMEM_SIGNAL_ADD, pe);
    nvshmem_signal_wait_until(signal + 1, NVSHMEM_CMP_GT, 5);
    seen[1] = nvshmem_signal_fetch(signal + 1);
}

static void check_signals(void)
{
    uint64_t *signal = (uint64_t *)room, *seen = signal + 8;
    memset(room, 0, 1024);
    nvshmem_barrier_all();
    LAUNCH(1, signals, signal, seen, next);
    CHECK(host_alone || (seen[0] == 5 && seen[1] == 6), "%llu, %llu", (unsigned long long)seen[0],
          (unsigned long long)seen[1]);
    nvshmem_barrier_all();
    nvshmemx_signal_op(signal + 2, 9, NVSHMEM_SIGNAL_ADD, next);
    nvshmemx_signal_op_on_stream(signal + 3, 4, NVSHMEM_SIGNAL_SET, next, stream);
    nvshmemx_signal_wait_until_on_stream(signal + 3, NVSHMEM_CMP_EQ, 4, stream);
    nvshmemx_barrier_all_on_stream(stream);
    CHECK(!nvshmemx_barrier_on_stream(NVSHMEM_TEAM_WORLD, stream), "refused");
    if (!host_alone) {
        CHECK(!nvshmemx_team_sync_on_stream(NVSHMEM_TEAM_WORLD, stream), "refused");
        nvshmemx_sync_all_on_stream(stream);
    }
    CHECK(!weft_stream_synchronize(stream), "%s", weft_last_error());
    nvshmem_barrier_all();
    CHECK(nvshmem_signal_fetch(signal + 2) == 9, "from the host");
}

int main(int argc, char **argv)
{
    host_alone = argc > 1 && !strcmp(argv[1], "host");
    begin();
    CHECK(!weft_stream_create(&stream), "%s", weft_last_error());
    room = nvshmem_calloc(1, 1024);
    counter = nvshmem_calloc(4, sizeof *counter);
    check_atomics();
#define RUN_WAIT(name, T) wait_##name(), compare_##name();
    if (!host_alone) {
        WEFT_NV_WAIT_TYPES(RUN_WAIT)
    }
    check_signals();
    weft_stream_destroy(stream);
    return end();
}
