/* SPDX-License-Identifier: Apache-2.0 */
/* Template of amo_generic.c: the selections of one family of atomics for TYPE. */
#ifdef EXTENDED
static void JOIN(extended_, NAME)(void)
{
    TYPE *at = symmetric(sizeof *at), got = 0;
    shmem_atomic_set(at, (TYPE)1, me);
    shmem_atomic_set(ctx, at, (TYPE)2, me);
    QUIET;
    CHECK(shmem_atomic_fetch((const TYPE *)at, me) == 2 && shmem_atomic_fetch(ctx, at, me) == 2);
    CHECK(shmem_atomic_swap(at, (TYPE)3, me) == 2);
    CHECK(shmem_atomic_swap(ctx, at, (TYPE)4, me) == 3);
    shmem_atomic_fetch_nbi(&got, at, me);
    QUIET;
    CHECK(got == 4);
    shmem_atomic_fetch_nbi(ctx, &got, at, me);
    QUIET;
    CHECK(got == 4);
    shmem_atomic_swap_nbi(&got, at, (TYPE)5, me);
    QUIET;
    shmem_atomic_swap_nbi(ctx, &got, at, (TYPE)6, me);
    QUIET;
    CHECK(got == 5 && *at == 6);
    shmem_free(at);
}
#endif
#ifdef STANDARD
static void JOIN(standard_, NAME)(void)
{
    TYPE *at = symmetric(sizeof *at), got = 0;
    CHECK(shmem_atomic_compare_swap(at, (TYPE)0, (TYPE)1, me) == 0);
    CHECK(shmem_atomic_compare_swap(ctx, at, (TYPE)1, (TYPE)2, me) == 1);
    CHECK(shmem_atomic_fetch_inc(at, me) == 2 && shmem_atomic_fetch_inc(ctx, at, me) == 3);
    shmem_atomic_inc(at, me);
    shmem_atomic_inc(ctx, at, me);
    QUIET;
    CHECK(shmem_atomic_fetch_add(at, (TYPE)4, me) == 6);
    CHECK(shmem_atomic_fetch_add(ctx, at, (TYPE)10, me) == 10);
    shmem_atomic_add(at, (TYPE)1, me);
    shmem_atomic_add(ctx, at, (TYPE)1, me);
    QUIET;
    CHECK(*at == 22);
    shmem_atomic_compare_swap_nbi(&got, at, (TYPE)22, (TYPE)23, me);
    QUIET;
    shmem_atomic_compare_swap_nbi(ctx, &got, at, (TYPE)23, (TYPE)24, me);
    QUIET;
    CHECK(got == 23);
    shmem_atomic_fetch_inc_nbi(&got, at, me);
    QUIET;
    shmem_atomic_fetch_inc_nbi(ctx, &got, at, me);
    QUIET;
    CHECK(got == 25);
    shmem_atomic_fetch_add_nbi(&got, at, (TYPE)2, me);
    QUIET;
    shmem_atomic_fetch_add_nbi(ctx, &got, at, (TYPE)2, me);
    QUIET;
    CHECK(got == 28 && *at == 30);
    shmem_free(at);
}
#endif
#ifdef BITWISE
static void JOIN(bitwise_, NAME)(void)
{
    TYPE *at = symmetric(sizeof *at), got = 0;
    BITWISE_OP(and, TYPE, 6, 3, 2)
    BITWISE_OP(or, TYPE, 6, 3, 7)
    BITWISE_OP(xor, TYPE, 6, 3, 5)
    shmem_free(at);
}
#endif
