/* SPDX-License-Identifier: Apache-2.0 */
/* Every reduction of every type, on the world and a team, in place and not, short and long. */
#include "check.h"

enum { MOST = 3000 };

static shmem_team_t team;
static int n;

/* Element i of member `pe`: small, so that the product of seven fits 8 bits. */
static int part(int pe, int i)
{
    return (pe + i) % 2 + 1;
}

#define OP_and(a, b)  ((a) & (b))
#define OP_or(a, b)   ((a) | (b))
#define OP_xor(a, b)  ((a) ^ (b))
#define OP_max(a, b)  ((a) > (b) ? (a) : (b))
#define OP_min(a, b)  ((a) < (b) ? (a) : (b))
#define OP_sum(a, b)  ((a) + (b))
#define OP_prod(a, b) ((a) * (b))

#define REDUCE(op, NAME, TYPE, code)                                                               \
    static void op##_##NAME(size_t count)                                                          \
    {                                                                                              \
        TYPE *dest = symmetric(sizeof(TYPE) * (count + 1));                                        \
        TYPE *source = symmetric(sizeof(TYPE) * (count + 1));                                      \
        int me = shmem_team_my_pe(team);                                                           \
        for (size_t i = 0; i < count; i++)                                                         \
            source[i] = (TYPE)part(me, (int)i);                                                    \
        if (team != SHMEM_TEAM_INVALID) {                                                          \
            CHECK(shmem_##NAME##_##op##_reduce(team, dest, source, count) == 0);                   \
            CHECK(shmem_##NAME##_##op##_reduce(team, source, source, count) == 0);                 \
            for (size_t i = 0; i < count; i++) {                                                   \
                TYPE wanted = (TYPE)part(0, (int)i);                                               \
                for (int pe = 1; pe < n; pe++)                                                     \
                    wanted = (TYPE)OP_##op(wanted, (TYPE)part(pe, (int)i));                        \
                CHECK(dest[i] == wanted && source[i] == wanted);                                   \
            }                                                                                      \
            CHECK(dest[count] == 0 && source[count] == 0);                                         \
        }                                                                                          \
        shmem_barrier_all();                                                                       \
        shmem_free(source);                                                                        \
        shmem_free(dest);                                                                          \
    }
WEFT_SHMEM_REDUCE_BITWISE_TYPES(REDUCE, and)
WEFT_SHMEM_REDUCE_BITWISE_TYPES(REDUCE, or)
WEFT_SHMEM_REDUCE_BITWISE_TYPES(REDUCE, xor)
WEFT_SHMEM_REDUCE_ORDERED_TYPES(REDUCE, max)
WEFT_SHMEM_REDUCE_ORDERED_TYPES(REDUCE, min)
WEFT_SHMEM_REDUCE_ARITHMETIC_TYPES(REDUCE, sum)
WEFT_SHMEM_REDUCE_ARITHMETIC_TYPES(REDUCE, prod)

#define CALL(op, NAME, TYPE, code) op##_##NAME(count);

static void all_with(size_t count)
{
    WEFT_SHMEM_REDUCE_BITWISE_TYPES(CALL, and)
    WEFT_SHMEM_REDUCE_BITWISE_TYPES(CALL, or)
    WEFT_SHMEM_REDUCE_BITWISE_TYPES(CALL, xor)
    WEFT_SHMEM_REDUCE_ORDERED_TYPES(CALL, max)
    WEFT_SHMEM_REDUCE_ORDERED_TYPES(CALL, min)
    WEFT_SHMEM_REDUCE_ARITHMETIC_TYPES(CALL, sum)
    WEFT_SHMEM_REDUCE_ARITHMETIC_TYPES(CALL, prod)
}

/* All members get the same bits where the order of additions matters. */
static void same_bits(void)
{
    enum { COUNT = 1000 };
    double *source = symmetric(COUNT * sizeof(double)), *dest = symmetric(COUNT * sizeof(double));
    int me = shmem_my_pe(), pes = shmem_n_pes();
    for (int i = 0; i < COUNT; i++)
        source[i] = 1.0 / (1 + i + 17.0 * me) * (i % 2 ? -1e10 : 1e-10);
    CHECK(shmem_double_sum_reduce(SHMEM_TEAM_WORLD, dest, source, COUNT) == 0);
    double theirs[COUNT];
    shmem_barrier_all();
    shmem_double_get(theirs, dest, COUNT, (me + 1) % pes);
    CHECK(memcmp(theirs, dest, sizeof theirs) == 0);
    shmem_barrier_all();
}

int main(void)
{
    shmem_init();
    int pes = shmem_n_pes();
    shmem_team_t odd;
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, pes > 1, 2, pes > 1 ? pes / 2 : 1, NULL, 0,
                                   &odd) == 0);
    for (int which = 0; which < 2; which++) {
        team = which ? odd : SHMEM_TEAM_WORLD;
        n = shmem_team_n_pes(team);
        all_with(1);
        all_with(5);
        all_with(MOST);
        all_with(0);
    }
    same_bits();
    shmem_team_destroy(odd);
    shmem_finalize();
    return 0;
}
