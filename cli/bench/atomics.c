/* SPDX-License-Identifier: Apache-2.0 */
/* The 64-bit atomics called by the host, on host or GPU memory: `from` accesses one variable of
 * `to`, back to back, then one quiet. In the checks all PEs access that variable at the same
 * time. */
#include "bench/bench.h"

/* Enough rounds that the PEs contend for the variable although they leave the barrier at
 * different times. Fewer on GPU memory, where a host operation takes microseconds. */
static uint64_t check_rounds(const struct bench *bench)
{
    return bench->options->memory == MEMORY_GPU ? 500 : 10000;
}

/* X(name, one call with ctx, var, i and pe in scope; it may store to `fetched`). */
#define ATOMIC_CALLS(X)                                                                            \
    X(fetch_add, weft_atomic_fetch_add64(ctx, var, 1, &fetched, pe))                               \
    X(add, weft_atomic_add64(ctx, var, 1, pe))                                                     \
    X(swap, weft_atomic_swap64(ctx, var, i, &fetched, pe))                                         \
    X(cswap, weft_atomic_cswap64(ctx, var, i, i + 1, &fetched, pe))                                \
    X(set, weft_atomic_set64(ctx, var, i, pe))                                                     \
    X(fetch, weft_atomic_fetch64(ctx, var, &fetched, pe))                                          \
    X(fetch_and, weft_atomic_fetch_and64(ctx, var, ~i, &fetched, pe))                              \
    X(fetch_or, weft_atomic_fetch_or64(ctx, var, i, &fetched, pe))                                 \
    X(fetch_xor, weft_atomic_fetch_xor64(ctx, var, i, &fetched, pe))                               \
    X(and, weft_atomic_and64(ctx, var, ~i, pe))                                                    \
    X(or, weft_atomic_or64(ctx, var, i, pe))                                                       \
    X(xor, weft_atomic_xor64(ctx, var, i, pe))

#define ATOMIC_RUN(name, call)                                                                     \
    weft_status host_atomic_##name##_run(struct bench *bench, struct bench_case *c,                \
                                         uint64_t iterations, double *ns)                          \
    {                                                                                              \
        if (bench->me != bench->from)                                                              \
            return WEFT_OK;                                                                        \
        weft_ctx *ctx = bench->ctx;                                                                \
        uint64_t *var = c->dst, fetched = 0;                                                       \
        int pe = bench->to;                                                                        \
        weft_status status = weft_atomic_set64(ctx, var, 0, pe);                                   \
        if (!status)                                                                               \
            status = weft_quiet(ctx);                                                              \
        uint64_t start = bench_now_ns();                                                           \
        for (uint64_t i = 0; !status && i < iterations; i++)                                       \
            status = call;                                                                         \
        (void)fetched;                                                                             \
        if (!status)                                                                               \
            status = weft_quiet(ctx);                                                              \
        *ns += (double)(bench_now_ns() - start);                                                   \
        return status;                                                                             \
    }
ATOMIC_CALLS(ATOMIC_RUN)
#undef ATOMIC_RUN

/* All PEs access the variable of `to` at once, in steps whose final value does not depend on the
 * order of the PEs. `traces` is the xor of all fetched values, which does not depend on it
 * either. */
struct contest {
    weft_ctx *ctx;
    uint64_t *var;
    int pe; /* PE that owns the variable */
    int me, n;
    uint64_t rounds; /* rounds of each PE */
    uint64_t traces; /* combined by xor */
};

typedef weft_status (*contest_step)(struct contest *contest, uint64_t round);
typedef uint64_t (*contest_result)(int n, uint64_t rounds);

/* Sets the variable to `start`, runs the steps of every PE, and gives *final (at every PE) and
 * the xor of all PEs' traces. */
static weft_status hold_contest(struct bench *bench, struct bench_case *c, uint64_t start,
                                contest_step step, uint64_t *final, uint64_t *traces)
{
    struct contest contest = {bench->ctx,          c->dst, bench->to, bench->me, bench->n,
                              check_rounds(bench), 0};
    weft_status status = bench_write(bench, c->dst, &start, sizeof start);
    if (!status)
        status = weft_barrier(bench->world);
    for (uint64_t i = 0; !status && i < contest.rounds; i++)
        status = step(&contest, i);
    if (!status)
        status = weft_barrier(bench->world);
    if (!status)
        status = weft_g64(bench->ctx, contest.var, final, bench->to);
    if (!status)
        status = bench_combine_bits(bench, &contest.traces);
    *traces = contest.traces;
    return status;
}

static weft_status step_add(struct contest *t, uint64_t round)
{
    return weft_atomic_add64(t->ctx, t->var, round + 1, t->pe);
}

static weft_status step_fetch_add(struct contest *t, uint64_t round)
{
    uint64_t fetched;
    weft_status status = weft_atomic_fetch_add64(t->ctx, t->var, 1, &fetched, t->pe);
    t->traces ^= fetched;
    return status;
}

static weft_status step_cswap(struct contest *t, uint64_t round)
{
    uint64_t seen = 0, expected;
    do {
        expected = seen;
        weft_status status =
            weft_atomic_cswap64(t->ctx, t->var, expected, expected + 1, &seen, t->pe);
        if (status)
            return status;
    } while (seen != expected);
    t->traces ^= seen;
    return WEFT_OK;
}

/* The value that a PE swaps in, different in each round. Each is fetched by another swap or is
 * the final value. */
static uint64_t token(int pe, uint64_t round)
{
    return bench_word(50 + (uint64_t)pe, round);
}

static weft_status step_swap(struct contest *t, uint64_t round)
{
    uint64_t fetched;
    weft_status status = weft_atomic_swap64(t->ctx, t->var, token(t->me, round), &fetched, t->pe);
    t->traces ^= fetched ^ token(t->me, round);
    return status;
}

static weft_status step_xor(struct contest *t, uint64_t round)
{
    return weft_atomic_xor64(t->ctx, t->var, token(t->me, round), t->pe);
}

static weft_status step_fetch_xor(struct contest *t, uint64_t round)
{
    uint64_t ignored;
    return weft_atomic_fetch_xor64(t->ctx, t->var, token(t->me, round), &ignored, t->pe);
}

static uint64_t own_bit(const struct contest *t)
{
    return (uint64_t)1 << (t->me % 64);
}

static weft_status step_or(struct contest *t, uint64_t round)
{
    return weft_atomic_or64(t->ctx, t->var, own_bit(t), t->pe);
}

static weft_status step_fetch_or(struct contest *t, uint64_t round)
{
    uint64_t ignored;
    return weft_atomic_fetch_or64(t->ctx, t->var, own_bit(t), &ignored, t->pe);
}

static weft_status step_and(struct contest *t, uint64_t round)
{
    return weft_atomic_and64(t->ctx, t->var, ~own_bit(t), t->pe);
}

static weft_status step_fetch_and(struct contest *t, uint64_t round)
{
    uint64_t ignored;
    return weft_atomic_fetch_and64(t->ctx, t->var, ~own_bit(t), &ignored, t->pe);
}

static weft_status step_set(struct contest *t, uint64_t round)
{
    return weft_atomic_set64(t->ctx, t->var, 77, t->pe);
}

static weft_status step_fetch(struct contest *t, uint64_t round)
{
    uint64_t fetched;
    weft_status status = weft_atomic_fetch64(t->ctx, t->var, &fetched, t->pe);
    if (fetched != 42)
        t->traces |= own_bit(t); /* not the difference: those of two PEs would cancel out */
    return status;
}

static uint64_t all_tokens(int n, uint64_t rounds)
{
    uint64_t all = 0;
    for (int pe = 0; pe < n; pe++)
        for (uint64_t i = 0; i < rounds; i++)
            all ^= token(pe, i);
    return all;
}

static uint64_t all_bits(int n, uint64_t rounds)
{
    return n >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1;
}

static uint64_t count_of(int n, uint64_t rounds)
{
    return (uint64_t)n * rounds;
}

static uint64_t sum_of_atomics(int n, uint64_t rounds)
{
    return (uint64_t)n * rounds * (rounds + 1) / 2;
}

static uint64_t no_bits(int n, uint64_t rounds)
{
    return ~all_bits(n, rounds);
}

static uint64_t constant_77(int n, uint64_t rounds)
{
    return 77;
}

static uint64_t constant_42(int n, uint64_t rounds)
{
    return 42;
}

/* xor of 0 ... count-1, the values that fetch-and-increment must return once each. */
static uint64_t all_counts(int n, uint64_t rounds)
{
    uint64_t all = 0;
    for (uint64_t i = 0; i < count_of(n, rounds); i++)
        all ^= i;
    return all;
}

static uint64_t nothing(int n, uint64_t rounds)
{
    return 0;
}

/* X(name, start, step, final value, xor of the traces). For swap the final value is part of the
 * traces. */
#define ATOMIC_CHECKS(X)                                                                           \
    X(fetch_add, 0, step_fetch_add, count_of, all_counts)                                          \
    X(add, 0, step_add, sum_of_atomics, nothing)                                                   \
    X(cswap, 0, step_cswap, count_of, all_counts)                                                  \
    X(set, 0, step_set, constant_77, nothing)                                                      \
    X(fetch, 42, step_fetch, constant_42, nothing)                                                 \
    X(fetch_and, ~(uint64_t)0, step_fetch_and, no_bits, nothing)                                   \
    X(fetch_or, 0, step_fetch_or, all_bits, nothing)                                               \
    X(fetch_xor, 0, step_fetch_xor, all_tokens, nothing)                                           \
    X(and, ~(uint64_t)0, step_and, no_bits, nothing)                                               \
    X(or, 0, step_or, all_bits, nothing)                                                           \
    X(xor, 0, step_xor, all_tokens, nothing)

static weft_status check_contest(struct bench *bench, struct bench_case *c, uint64_t start,
                                 contest_step step, contest_result final, contest_result traces,
                                 bool *right)
{
    uint64_t seen_final = 0, seen_traces = 0, rounds = check_rounds(bench);
    weft_status status = hold_contest(bench, c, start, step, &seen_final, &seen_traces);
    *right = seen_final == final(bench->n, rounds) && seen_traces == traces(bench->n, rounds);
    return status;
}

#define ATOMIC_CHECK(name, start, step, final, traces)                                             \
    weft_status host_atomic_##name##_check(struct bench *bench, struct bench_case *c, bool *right) \
    {                                                                                              \
        return check_contest(bench, c, start, step, final, traces, right);                         \
    }
ATOMIC_CHECKS(ATOMIC_CHECK)
#undef ATOMIC_CHECK

weft_status host_atomic_swap_check(struct bench *bench, struct bench_case *c, bool *right)
{
    uint64_t final = 0, traces = 0;
    weft_status status = hold_contest(bench, c, 0, step_swap, &final, &traces);
    *right = (final ^ traces) == 0;
    return status;
}
