/* SPDX-License-Identifier: Apache-2.0 */
/* Consecutive collectives whose sizes, roots and teams change from call to call, while each PE is
 * late at random. All PEs draw the same sequence from one seed. */
#include "check.h"

enum { MOST = 6000, ROUNDS = 400, MOST_PES = 8 };

static int source[MOST], work[MOST / 2 + 1];
static int dest[2][MOST * MOST_PES]; /* in turn: a PE may still read the previous one */
static long pSync[2][SHMEM_SYNC_SIZE];

static unsigned step(unsigned *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 16;
}

static void fill(int round, int me, int count)
{
    for (int i = 0; i < count; i++)
        source[i] = round * 7 + me * 1000 + i;
}

static int wanted(int round, int pe, int i)
{
    return round * 7 + pe * 1000 + i;
}

int main(void)
{
    shmem_init();
    int world_me = shmem_my_pe(), pes = shmem_n_pes();
    unsigned shared = 42, own = (unsigned)world_me * 77 + 1;
    shmem_team_t reverse;
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, pes - 1, -1, pes, NULL, 0, &reverse) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        int kind = (int)(step(&shared) % 7), n = pes;
        int count = (int)(step(&shared) % (step(&shared) % 4 ? 40 : MOST - 2) + 1);
        int root = (int)(step(&shared) % (unsigned)n);
        shmem_team_t team = step(&shared) % 2 ? reverse : SHMEM_TEAM_WORLD;
        int me = shmem_team_my_pe(team);
        int *to = dest[round % 2];
        dawdle(&own);
        if (kind < 5) {
            fill(round, me, count);
            if (kind == 3 && (count = count / n * n) == 0)
                count = n;
            if (kind == 3)
                fill(round, me, count);
        }
        switch (kind) {
        case 0:
            CHECK(shmem_int_broadcast(team, to, source, (size_t)count, root) == 0);
            for (int i = 0; i < count; i++)
                CHECK(to[i] == wanted(round, root, i));
            break;
        case 1:
            CHECK(shmem_int_fcollect(team, to, source, (size_t)count) == 0);
            for (int i = 0; i < count * n; i++)
                CHECK(to[i] == wanted(round, i / count, i % count));
            break;
        case 2:
            CHECK(shmem_int_collect(team, to, source, (size_t)(me % 2 ? count : count / 2)) == 0);
            for (int pe = 0, at = 0; pe < n; pe++)
                for (int i = 0; i < (pe % 2 ? count : count / 2); i++, at++)
                    CHECK(to[at] == wanted(round, pe, i));
            break;
        case 3:
            CHECK(shmem_int_alltoall(team, to, source, (size_t)(count / n)) == 0);
            for (int i = 0; i < count; i++)
                CHECK(to[i] == wanted(round, i / (count / n), me * (count / n) + i % (count / n)));
            break;
        case 4:
            CHECK(shmem_int_sum_reduce(team, to, source, (size_t)count) == 0);
            for (int i = 0; i < count; i++)
                CHECK(to[i] == n * (round * 7 + i) + 1000 * (n * (n - 1) / 2));
            break;
        case 5:
            shmem_barrier_all();
            break;
        case 6: /* an active set without the last PE */
            if (world_me < pes - 1 || pes == 1) {
                int size = pes > 1 ? pes - 1 : 1;
                fill(round, world_me, count);
                shmem_broadcast32(to, source, (size_t)count, root % size, 0, 0, size, pSync[0]);
                for (int i = 0; i < count && world_me != root % size; i++)
                    CHECK(to[i] == wanted(round, root % size, i));
                shmem_int_sum_to_all(to, source, count, 0, 0, size, work, pSync[1]);
                for (int i = 0; i < count; i++)
                    CHECK(to[i] == size * (round * 7 + i) + 1000 * (size * (size - 1) / 2));
            }
            break;
        }
        /* Sources and destinations are reused two rounds later, so every PE must be done. */
        if (round % 2 || kind == 6)
            shmem_sync_all();
    }
    shmem_team_destroy(reverse);
    shmem_finalize();
    return 0;
}
