/* SPDX-License-Identifier: Apache-2.0 */
/* Template of collectives_generic.c: the selections for TYPE. */
#ifdef MOVES
static void JOIN(moves_, NAME)(void)
{
    TYPE *source = symmetric(sizeof(TYPE) * 2 * (size_t)n);
    TYPE *dest = symmetric(sizeof(TYPE) * 2 * (size_t)n);
    for (int i = 0; i < 2 * n; i++)
        source[i] = (TYPE)value_of(me, i);
    CHECK(shmem_alltoall(world, dest, source, 2) == 0);
    CHECK(dest[2 * n - 1] == (TYPE)value_of(n - 1, 2 * me + 1));
    shmem_sync(world);
    CHECK(shmem_alltoalls(world, dest, source, 1, 1, 1) == 0);
    CHECK(dest[n - 1] == (TYPE)value_of(n - 1, me));
    shmem_sync(world);
    CHECK(shmem_broadcast(world, dest, (const TYPE *)source, 2, 0) == 0);
    CHECK(dest[1] == (TYPE)value_of(0, 1));
    shmem_sync(world);
    CHECK(shmem_fcollect(world, dest, source, 1) == 0);
    CHECK(dest[n - 1] == (TYPE)value_of(n - 1, 0));
    shmem_sync(world);
    CHECK(shmem_collect(world, dest, source, (size_t)(me == 0)) == 0);
    CHECK(dest[0] == (TYPE)value_of(0, 0));
    shmem_sync(world);
    source[0] = (TYPE)(me + 1);
    CHECK(shmem_max_reduce(world, dest, source, 1) == 0 && dest[0] == (TYPE)n);
    CHECK(shmem_min_reduce(world, dest, source, 1) == 0 && dest[0] == (TYPE)1);
    CHECK(shmem_sum_reduce(world, dest, source, 1) == 0 && dest[0] == (TYPE)(n * (n + 1) / 2));
    source[0] = (TYPE)(me == 0 ? 3 : 1);
    CHECK(shmem_prod_reduce(world, dest, source, 1) == 0 && dest[0] == (TYPE)3);
    shmem_free(source);
    shmem_free(dest);
}
#endif
#ifdef BITWISE
static void JOIN(bitwise_, NAME)(void)
{
    TYPE *source = symmetric(sizeof(TYPE)), *dest = symmetric(sizeof(TYPE));
    *source = ((TYPE)1 << me) | 0x100;
    CHECK(shmem_or_reduce(world, dest, source, 1) == 0);
    CHECK(*dest == ((((TYPE)1 << n) - 1) | 0x100));
    CHECK(shmem_and_reduce(world, dest, source, 1) == 0);
    CHECK(*dest == (n == 1 ? 0x101 : 0x100));
    CHECK(shmem_xor_reduce(world, dest, source, 1) == 0);
    CHECK(*dest == ((((TYPE)1 << n) - 1) | (n % 2 ? 0x100 : 0)));
    shmem_free(source);
    shmem_free(dest);
}
#endif
