/* SPDX-License-Identifier: Apache-2.0 */
/* Every atomic of every type, blocking and non-blocking, on the default context and on a new one:
 * the values, and no update is lost when all PEs change one variable. */
#include "check.h"

static int me, n, next;
static shmem_ctx_t ctx;

/* Each PE owns the variable at the next PE. prefix: empty, or ctx_ for the form whose first
 * argument is a context. */
/* Completes non-fetching and non-blocking atomics. */
#define QUIET          (shmem_ctx_quiet(ctx), shmem_quiet())
#define ARGS_(...)     __VA_ARGS__
#define ARGS_ctx_(...) ctx, __VA_ARGS__

#define EXTENDED_FORMS(NAME, TYPE, prefix)                                                         \
    shmem_##prefix##NAME##_atomic_set(ARGS_##prefix(&at[0]), (TYPE)5, next);                       \
    QUIET;                                                                                         \
    CHECK(shmem_##prefix##NAME##_atomic_fetch(ARGS_##prefix(&at[0]), next) == (TYPE)5);            \
    CHECK(shmem_##prefix##NAME##_atomic_swap(ARGS_##prefix(&at[0]), (TYPE)6, next) == (TYPE)5);    \
    shmem_##prefix##NAME##_atomic_fetch_nbi(ARGS_##prefix(&got), &at[0], next);                    \
    QUIET;                                                                                         \
    CHECK(got == (TYPE)6);                                                                         \
    shmem_##prefix##NAME##_atomic_swap_nbi(ARGS_##prefix(&got), &at[0], (TYPE)7, next);            \
    QUIET;                                                                                         \
    CHECK(got == (TYPE)6);                                                                         \
    CHECK(shmem_##prefix##NAME##_atomic_fetch(ARGS_##prefix(&at[0]), next) == (TYPE)7);

#define STANDARD_FORMS(NAME, TYPE, prefix)                                                         \
    shmem_##prefix##NAME##_atomic_set(ARGS_##prefix(&at[0]), (TYPE)7, next);                       \
    QUIET;                                                                                         \
    CHECK(shmem_##prefix##NAME##_atomic_compare_swap(ARGS_##prefix(&at[0]), (TYPE)3, (TYPE)4,      \
                                                     next) == (TYPE)7);                            \
    CHECK(shmem_##prefix##NAME##_atomic_compare_swap(ARGS_##prefix(&at[0]), (TYPE)7, (TYPE)-4,     \
                                                     next) == (TYPE)7);                            \
    CHECK(shmem_##prefix##NAME##_atomic_fetch_inc(ARGS_##prefix(&at[0]), next) == (TYPE)-4);       \
    shmem_##prefix##NAME##_atomic_inc(ARGS_##prefix(&at[0]), next);                                \
    QUIET;                                                                                         \
    CHECK(shmem_##prefix##NAME##_atomic_fetch_add(ARGS_##prefix(&at[0]), (TYPE)10, next) ==        \
          (TYPE)-2);                                                                               \
    shmem_##prefix##NAME##_atomic_add(ARGS_##prefix(&at[0]), (TYPE)-1, next);                      \
    QUIET;                                                                                         \
    CHECK(shmem_##prefix##NAME##_atomic_fetch(ARGS_##prefix(&at[0]), next) == (TYPE)7);            \
    shmem_##prefix##NAME##_atomic_compare_swap_nbi(ARGS_##prefix(&got), &at[0], (TYPE)7, (TYPE)20, \
                                                   next);                                          \
    QUIET;                                                                                         \
    CHECK(got == (TYPE)7);                                                                         \
    shmem_##prefix##NAME##_atomic_fetch_inc_nbi(ARGS_##prefix(&got), &at[0], next);                \
    QUIET;                                                                                         \
    CHECK(got == (TYPE)20);                                                                        \
    shmem_##prefix##NAME##_atomic_fetch_add_nbi(ARGS_##prefix(&got), &at[0], (TYPE)-2, next);      \
    QUIET;                                                                                         \
    CHECK(got == (TYPE)21);                                                                        \
    CHECK(shmem_##prefix##NAME##_atomic_fetch(ARGS_##prefix(&at[0]), next) == (TYPE)19);

#define BITWISE_OP(NAME, TYPE, prefix, op, start, value, wanted)                                   \
    shmem_##prefix##NAME##_atomic_set(ARGS_##prefix(&at[0]), (TYPE)(start), next);                 \
    QUIET;                                                                                         \
    CHECK(shmem_##prefix##NAME##_atomic_fetch_##op(ARGS_##prefix(&at[0]), (TYPE)(value), next) ==  \
          (TYPE)(start));                                                                          \
    CHECK(shmem_##prefix##NAME##_atomic_fetch(ARGS_##prefix(&at[0]), next) == (TYPE)(wanted));     \
    shmem_##prefix##NAME##_atomic_set(ARGS_##prefix(&at[0]), (TYPE)(start), next);                 \
    QUIET;                                                                                         \
    shmem_##prefix##NAME##_atomic_##op(ARGS_##prefix(&at[0]), (TYPE)(value), next);                \
    QUIET;                                                                                         \
    CHECK(shmem_##prefix##NAME##_atomic_fetch(ARGS_##prefix(&at[0]), next) == (TYPE)(wanted));     \
    shmem_##prefix##NAME##_atomic_set(ARGS_##prefix(&at[0]), (TYPE)(start), next);                 \
    QUIET;                                                                                         \
    shmem_##prefix##NAME##_atomic_fetch_##op##_nbi(ARGS_##prefix(&got), &at[0], (TYPE)(value),     \
                                                   next);                                          \
    QUIET;                                                                                         \
    CHECK(got == (TYPE)(start));                                                                   \
    CHECK(shmem_##prefix##NAME##_atomic_fetch(ARGS_##prefix(&at[0]), next) == (TYPE)(wanted));

#define BITWISE_FORMS(NAME, TYPE, prefix)                                                          \
    BITWISE_OP(NAME, TYPE, prefix, and, 0x7f, 0x1f3, 0x73)                                         \
    BITWISE_OP(NAME, TYPE, prefix, or, 0x50, 0x105, 0x155)                                         \
    BITWISE_OP(NAME, TYPE, prefix, xor, 0x7f, 0x101, 0x17e)

#define EXTENDED(arg, NAME, TYPE, bits)                                                            \
    {                                                                                              \
        TYPE *at = symmetric(2 * sizeof *at), got = 0;                                             \
        EXTENDED_FORMS(NAME, TYPE, )                                                               \
        EXTENDED_FORMS(NAME, TYPE, ctx_)                                                           \
        CHECK(at[1] == 0);                                                                         \
        shmem_barrier_all();                                                                       \
        shmem_free(at);                                                                            \
    }
#define STANDARD(arg, NAME, TYPE, bits)                                                            \
    {                                                                                              \
        TYPE *at = symmetric(3 * sizeof *at), got = 0;                                             \
        STANDARD_FORMS(NAME, TYPE, )                                                               \
        STANDARD_FORMS(NAME, TYPE, ctx_)                                                           \
        for (int i = 0; i < 50; i++) {                                                             \
            shmem_##NAME##_atomic_inc(&at[1], 0);                                                  \
            shmem_##NAME##_atomic_add(&at[1], (TYPE)2, 0);                                         \
            shmem_##NAME##_atomic_fetch_add(&at[1], (TYPE)3, 0);                                   \
            TYPE seen = shmem_##NAME##_atomic_fetch(&at[2], 0), before;                            \
            while ((before = shmem_##NAME##_atomic_compare_swap(&at[2], seen, (TYPE)(seen + 1),    \
                                                                0)) != seen)                       \
                seen = before;                                                                     \
        }                                                                                          \
        shmem_barrier_all();                                                                       \
        CHECK(shmem_##NAME##_atomic_fetch(&at[1], 0) == (TYPE)(50 * 6 * n));                       \
        CHECK(shmem_##NAME##_atomic_fetch(&at[2], 0) == (TYPE)(50 * n));                           \
        shmem_barrier_all();                                                                       \
        shmem_free(at);                                                                            \
    }
#define BITWISE(arg, NAME, TYPE, bits)                                                             \
    {                                                                                              \
        TYPE *at = symmetric(4 * sizeof *at), got = 0;                                             \
        BITWISE_FORMS(NAME, TYPE, )                                                                \
        BITWISE_FORMS(NAME, TYPE, ctx_)                                                            \
        shmem_##NAME##_atomic_or(&at[1], (TYPE)1 << me, 0);                                        \
        for (int i = 0; i <= me; i++)                                                              \
            shmem_##NAME##_atomic_xor(&at[2], (TYPE)1 << me, 0);                                   \
        shmem_barrier_all();                                                                       \
        CHECK(shmem_##NAME##_atomic_fetch(&at[1], 0) == ((TYPE)1 << n) - 1);                       \
        CHECK((shmem_##NAME##_atomic_fetch(&at[2], 0) >> me & 1) == (TYPE)((me + 1) & 1));         \
        shmem_barrier_all();                                                                       \
        shmem_##NAME##_atomic_and(&at[1], ~((TYPE)1 << me), 0);                                    \
        shmem_barrier_all();                                                                       \
        CHECK(shmem_##NAME##_atomic_fetch(&at[1], 0) == 0);                                        \
        shmem_barrier_all();                                                                       \
        shmem_free(at);                                                                            \
    }

int main(void)
{
    shmem_init();
    me = shmem_my_pe();
    n = shmem_n_pes();
    next = (me + 1) % n;
    CHECK(shmem_ctx_create(0, &ctx) == 0);
    WEFT_SHMEM_AMO_EXTENDED_TYPES(EXTENDED, )
    WEFT_SHMEM_AMO_TYPES(STANDARD, )
    WEFT_SHMEM_AMO_BITWISE_TYPES(BITWISE, )
    shmem_ctx_destroy(ctx);
    shmem_finalize();
    return 0;
}
