/* SPDX-License-Identifier: Apache-2.0 */
/* Every typed collective on the world and on teams, and the untyped memory forms. */
#include "check.h"

enum { N = 3, MOST = 7 };

static shmem_team_t team;
static int me, n;

#define TYPED(arg, NAME, TYPE, bits)                                                               \
    static void test_##NAME(void)                                                                  \
    {                                                                                              \
        TYPE *source = symmetric(sizeof(TYPE) * 3 * N * MOST);                                     \
        TYPE *dest = symmetric(sizeof(TYPE) * 3 * N * MOST);                                       \
        if (team == SHMEM_TEAM_INVALID)                                                            \
            goto out;                                                                              \
        for (int i = 0; i < 3 * N * MOST; i++)                                                     \
            source[i] = (TYPE)value_of(me, i);                                                     \
        CHECK(shmem_##NAME##_alltoall(team, dest, source, N) == 0);                                \
        for (int i = 0; i < N * n; i++)                                                            \
            CHECK(dest[i] == (TYPE)value_of(i / N, me * N + i % N));                               \
        shmem_team_sync(team);                                                                     \
        memset(dest, 0, sizeof(TYPE) * 3 * N * MOST);                                              \
        shmem_team_sync(team);                                                                     \
        CHECK(shmem_##NAME##_alltoalls(team, dest, source, 2, 3, N) == 0);                         \
        for (int i = 0; i < N * n; i++) {                                                          \
            CHECK(dest[2 * i] == (TYPE)value_of(i / N, 3 * (me * N + i % N)));                     \
            CHECK(dest[2 * i + 1] == 0);                                                           \
        }                                                                                          \
        for (int root = 0; root < n; root++) {                                                     \
            shmem_team_sync(team);                                                                 \
            CHECK(shmem_##NAME##_broadcast(team, dest, source, N, root) == 0);                     \
            for (int i = 0; i < N; i++)                                                            \
                CHECK(dest[i] == (TYPE)value_of(root, i));                                         \
        }                                                                                          \
        shmem_team_sync(team);                                                                     \
        CHECK(shmem_##NAME##_fcollect(team, dest, source, N) == 0);                                \
        for (int i = 0; i < N * n; i++)                                                            \
            CHECK(dest[i] == (TYPE)value_of(i / N, i % N));                                        \
        shmem_team_sync(team);                                                                     \
        CHECK(shmem_##NAME##_collect(team, dest, source, (size_t)(me % 3)) == 0);                  \
        for (int pe = 0, at = 0; pe < n; pe++)                                                     \
            for (int i = 0; i < pe % 3; i++, at++)                                                 \
                CHECK(dest[at] == (TYPE)value_of(pe, i));                                          \
    out:                                                                                           \
        shmem_barrier_all();                                                                       \
        shmem_free(dest);                                                                          \
        shmem_free(source);                                                                        \
    }
WEFT_SHMEM_RMA_TYPES(TYPED, )

static void memory_forms(void)
{
    enum { BYTES = 13 };
    unsigned char *source = symmetric(3 * BYTES * MOST), *dest = symmetric(3 * BYTES * MOST);
    if (team == SHMEM_TEAM_INVALID)
        goto out;
    for (int i = 0; i < 3 * BYTES * MOST; i++)
        source[i] = (unsigned char)value_of(me, i);
    CHECK(shmem_alltoallmem(team, dest, source, BYTES) == 0);
    for (int i = 0; i < BYTES * n; i++)
        CHECK(dest[i] == value_of(i / BYTES, me * BYTES + i % BYTES));
    shmem_team_sync(team);
    memset(dest, 0, 3 * BYTES * MOST);
    shmem_team_sync(team);
    CHECK(shmem_alltoallsmem(team, dest, source, 3, 2, BYTES) == 0);
    for (int i = 0; i < BYTES * n; i++)
        CHECK(dest[3 * i] == value_of(i / BYTES, 2 * (me * BYTES + i % BYTES)));
    shmem_team_sync(team);
    CHECK(shmem_broadcastmem(team, dest, source, BYTES, n - 1) == 0);
    for (int i = 0; i < BYTES; i++)
        CHECK(dest[i] == value_of(n - 1, i));
    shmem_team_sync(team);
    CHECK(shmem_fcollectmem(team, dest, source, BYTES) == 0);
    for (int i = 0; i < BYTES * n; i++)
        CHECK(dest[i] == value_of(i / BYTES, i % BYTES));
    shmem_team_sync(team);
    CHECK(shmem_collectmem(team, dest, source, (size_t)(n - 1 - me)) == 0);
    for (int pe = 0, at = 0; pe < n; pe++)
        for (int i = 0; i < n - 1 - pe; i++, at++)
            CHECK(dest[at] == value_of(pe, i));
    /* Calls with size 0 are valid. */
    CHECK(shmem_broadcastmem(team, dest, source, 0, 0) == 0);
    CHECK(shmem_fcollectmem(team, dest, source, 0) == 0);
    CHECK(shmem_collectmem(team, dest, source, 0) == 0);
    CHECK(shmem_alltoallmem(team, dest, source, 0) == 0);
    CHECK(shmem_alltoallsmem(team, dest, source, 1, 1, 0) == 0);
out:
    shmem_barrier_all();
    shmem_free(dest);
    shmem_free(source);
}

static void all_on(shmem_team_t now)
{
    team = now;
    me = shmem_team_my_pe(now);
    n = shmem_team_n_pes(now);
#define CALL(arg, NAME, TYPE, bits) test_##NAME();
    WEFT_SHMEM_RMA_TYPES(CALL, )
    memory_forms();
}

int main(void)
{
    shmem_init();
    int pes = shmem_n_pes();
    all_on(SHMEM_TEAM_WORLD);
    shmem_team_t some;
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, pes - 1, -2, (pes + 1) / 2, NULL, 0, &some) ==
          0);
    all_on(some);
    shmem_team_destroy(some);

    /* A barrier makes earlier puts visible. */
    static long cell;
    shmem_long_p(&cell, shmem_my_pe() + 1, (shmem_my_pe() + 1) % pes);
    shmem_barrier_all();
    CHECK(cell == (shmem_my_pe() + pes - 1) % pes + 1);
    shmem_sync_all();
    shmem_finalize();
    return 0;
}
