/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives between nodes: broadcasts from every root, in place and not, and reductions whose
 * bits reveal the order of their terms, back to back, over all PEs and over teams that span the
 * nodes unevenly. The sizes are too large for one fragment, or with `small` those that pass along a
 * tree of nodes and are combined by groups of nodes.
 *
 *     pieces [small]
 */
#include "job.h"

#include <unistd.h>

enum { PIECE = 512 * 1024, MOST = 9 * PIECE + 4104, SIZES = 7, MOST_PES = 24 };

static const size_t large[SIZES] = {PIECE - 8,     PIECE,           PIECE + 8, 2 * PIECE + 40,
                                    3 * PIECE - 8, 5 * PIECE + 808, MOST};
static const size_t small[SIZES] = {72, 136, 1000, 4096, 4104, 20008, 65544};
static const size_t *sizes = large;

static inline uint64_t word(int pe, size_t i, int round)
{
    return ((uint64_t)(unsigned)pe << 56 | (uint64_t)i << 8 | (uint64_t)(unsigned)round) *
           UINT64_C(0x9e3779b97f4a7c15);
}

static void broadcasts(weft_team *team, uint64_t *dst, uint64_t *src)
{
    int n = weft_team_n_pes(team), me = weft_team_my_pe(team), round = 0;
    for (size_t s = 0; s < SIZES; s++)
        for (int root = 0; root < n; root++, round++) {
            size_t words = sizes[s] / 8;
            uint64_t *from = round % 2 ? src : dst;
            memset(dst, 0xee, sizes[SIZES - 1] + 8);
            OK(weft_sync(team));
            for (size_t i = 0; me == root && i < words; i++)
                from[i] = word(root, i, round);
            if (me == round * 3 % n) /* this member is late */
                usleep(3000);
            OK(weft_broadcast(team, dst, from, sizes[s], root));
            for (size_t i = 0; i < words; i++)
                CHECK(dst[i] == word(root, i, round));
            CHECK(dst[words] == UINT64_C(0xeeeeeeeeeeeeeeee));
            OK(weft_sync(team));
        }
}

/* Large terms that cancel: another order gives a sum with other bits. */
static inline double term(int member, size_t i, int round)
{
    size_t kind = ((size_t)member * 7 + i) % 5;
    return kind == 0 ? 1e17 : kind == 1 ? -1e17 : 0.37 * (member + round + 1) + (double)(i % 1009);
}

static void reductions(weft_team *team, double *dst, double *src)
{
    int n = weft_team_n_pes(team), me = weft_team_my_pe(team), differ = 0;
    CHECK(n <= MOST_PES);
    for (int round = 0; round < 2 * SIZES; round++) {
        size_t count = sizes[round / 2] / 8;
        double *from = round % 2 ? dst : src;
        if (me == round * 3 % n) /* this member is late: the others must not use its old data */
            usleep(3000);
        for (size_t i = 0; i < count; i++)
            from[i] = term(me, i, round);
        OK(weft_allreduce(team, dst, from, count, WEFT_DOUBLE, WEFT_SUM));
        for (size_t i = 0; i < count; i++) {
            double terms[MOST_PES], sum, back;
            for (int member = 0; member < n; member++)
                terms[member] = term(member, i, round);
            sum = terms[0], back = terms[n - 1];
            for (int member = 1; member < n; member++) {
                sum += terms[member];
                back += terms[n - 1 - member];
            }
            CHECK(memcmp(&dst[i], &sum, sizeof sum) == 0);
            differ += memcmp(&sum, &back, sizeof sum) != 0;
        }
    }
    CHECK(n < 3 || differ > 0);
}

int main(int argc, char **argv)
{
    weft_job *job;
    weft_team *most = NULL;
    if (argc > 1 && strcmp(argv[1], "small") == 0)
        sizes = small;
    OK(weft_init(&job, NULL));
    int n = weft_n_pes(job);
    uint64_t *dst = alloc(job, MOST + 64), *src = alloc(job, MOST + 64);
    OK(weft_barrier(weft_team_world(job)));
    broadcasts(weft_team_world(job), dst, src);
    reductions(weft_team_world(job), (double *)dst, (double *)src);
    OK(weft_barrier(weft_team_world(job)));
    if (n > 2)
        OK(weft_team_split_strided(weft_team_world(job), 1, 1, n - 1, &most));
    if (most) {
        broadcasts(most, dst, src);
        reductions(most, (double *)dst, (double *)src);
    }
    OK(weft_barrier(weft_team_world(job)));
    OK(weft_finalize(job));
    return 0;
}
