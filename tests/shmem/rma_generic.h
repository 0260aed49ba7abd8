/* SPDX-License-Identifier: Apache-2.0 */
/* Template of rma_generic.c: the selections of put and get for TYPE. */
static void TEST(NAME)(void)
{
    TYPE *row = symmetric(sizeof(TYPE) * 10 * N);
    TYPE mine[N], got[N], zero = 0;
    const TYPE *constant = mine;
    for (int i = 0; i < N; i++)
        mine[i] = (TYPE)value_of(me, i);
    shmem_put(row, constant, N, next);
    shmem_put(ctx, row + N, mine, N, next);
    shmem_put_nbi(row + 2 * N, mine, N, next);
    shmem_put_nbi(ctx, row + 3 * N, constant, N, next);
    for (int i = 0; i < N; i++) {
        shmem_p(row + 4 * N + i, mine[i], next);
        shmem_p(ctx, row + 5 * N + i, mine[i], next);
    }
    shmem_iput(row + 6 * N, mine, 1, 1, N, next);
    shmem_iput(ctx, row + 7 * N, mine, 1, 1, N, next);
    shmem_put_signal(row + 8 * N, mine, N, &signals[0], 1, SHMEM_SIGNAL_ADD, next);
    shmem_put_signal(SHMEM_CTX_DEFAULT, row + 8 * N, mine, N, &signals[0], 1, SHMEM_SIGNAL_ADD,
                     next);
    shmem_put_signal_nbi(row + 9 * N, mine, N, &signals[1], 1, SHMEM_SIGNAL_ADD, next);
    shmem_put_signal_nbi(ctx, row + 9 * N, mine, N, &signals[1], 1, SHMEM_SIGNAL_ADD, next);
    shmem_ctx_quiet(ctx);
    shmem_barrier_all();
    for (int i = 0; i < 10 * N; i++)
        CHECK(row[i] == (TYPE)value_of(before, i % N));
    CHECK(shmem_g((const TYPE *)row + 1, next) == mine[1]);
    CHECK(shmem_g(ctx, row + 1, next) == mine[1]);
    CHECK(sizeof(shmem_g(row, next)) == sizeof(TYPE));
    for (int form = 0; form < 6; form++) {
        for (int i = 0; i < N; i++)
            got[i] = zero;
        if (form == 0)
            shmem_get(got, row, N, next);
        else if (form == 1)
            shmem_get(ctx, got, row, N, next);
        else if (form == 2)
            shmem_get_nbi(got, row, N, next);
        else if (form == 3)
            shmem_get_nbi(ctx, got, row, N, next);
        else if (form == 4)
            shmem_iget(got, row, 1, 1, N, next);
        else
            shmem_iget(ctx, got, row, 1, 1, N, next);
        shmem_quiet();
        shmem_ctx_quiet(ctx);
        for (int i = 0; i < N; i++)
            CHECK(got[i] == mine[i]);
    }
    shmem_free(row);
}
