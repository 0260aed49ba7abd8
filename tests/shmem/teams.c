/* SPDX-License-Identifier: Apache-2.0 */
/* Teams: of one PE, of odd size, with gaps, in reverse, nested five deep, in two dimensions; PE
 * numbers, translation, configuration; invalid handles; a thousand teams in sequence. */
#include "check.h"

#include <shmemx.h>

static int me, n;
static long sum, mine;

/* The members of a team add up their PE numbers in the team. */
static void use(shmem_team_t team)
{
    int size = shmem_team_n_pes(team);
    mine = shmem_team_my_pe(team) + 1;
    CHECK(shmem_long_sum_reduce(team, &sum, &mine, 1) == 0);
    CHECK(sum == (long)size * (size + 1) / 2);
    CHECK(shmem_team_sync(team) == 0);
}

static void check_strided(int start, int stride, int size)
{
    shmem_team_t team = (shmem_team_t)&sum;
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, start, stride, size, NULL, 0, &team) == 0);
    int wanted = -1;
    for (int i = 0; i < size; i++)
        if (start + i * stride == me)
            wanted = i;
    CHECK((wanted < 0) == (team == SHMEM_TEAM_INVALID));
    CHECK(shmem_team_my_pe(team) == wanted);
    CHECK(shmem_team_n_pes(team) == (wanted < 0 ? -1 : size));
    if (wanted >= 0) {
        for (int i = 0; i < size; i++) {
            CHECK(shmem_team_translate_pe(team, i, SHMEM_TEAM_WORLD) == start + i * stride);
            CHECK(shmem_team_translate_pe(SHMEM_TEAM_WORLD, start + i * stride, team) == i);
        }
        CHECK(shmem_team_translate_pe(team, size, SHMEM_TEAM_WORLD) == -1);
        CHECK(shmem_team_translate_pe(team, -1, SHMEM_TEAM_WORLD) == -1);
        for (int pe = 0; pe < n; pe++)
            if (size < n && (pe - start) % (stride ? stride : 1))
                CHECK(shmem_team_translate_pe(SHMEM_TEAM_WORLD, pe, team) == -1);
        use(team);
    }
    shmem_team_destroy(team);
}

static void strided(void)
{
    check_strided(0, 1, n);
    check_strided(n - 1, -1, n);
    check_strided(n / 2, 0, 1);
    check_strided(n - 1, 5, 1);
    check_strided(0, 1, n - (n > 1));
    if (n >= 3) {
        check_strided(0, 2, (n + 1) / 2);
        check_strided(1, 2, n / 2);
        check_strided(2, -2, 2);
        check_strided(n - 3, 1, 3);
    }
    if (n >= 7)
        check_strided(6, -3, 3);
}

static void nested(void)
{
    shmem_team_t teams[6] = {SHMEM_TEAM_WORLD};
    int depth = 0;
    /* Each level leaves out the first or the last member, down to one. */
    while (depth < 5) {
        int size = shmem_team_n_pes(teams[depth]);
        int less = size > 1;
        CHECK(shmem_team_split_strided(teams[depth], depth % 2 ? less : 0, 1, size - less, NULL, 0,
                                       &teams[depth + 1]) == 0);
        if (teams[depth + 1] == SHMEM_TEAM_INVALID)
            break;
        depth++;
        use(teams[depth]);
    }
    for (; depth > 0; depth--) {
        use(teams[depth]);
        shmem_team_destroy(teams[depth]);
    }
    shmem_barrier_all();
}

static void two_dimensions(void)
{
    for (int xrange = 1; xrange <= n + 1; xrange++) {
        shmem_team_t row, column;
        shmem_team_config_t config = {.num_contexts = 3};
        CHECK(shmem_team_split_2d(SHMEM_TEAM_WORLD, xrange, NULL, 0, &row, &config,
                                  SHMEM_TEAM_NUM_CONTEXTS, &column) == 0);
        CHECK(shmem_team_my_pe(row) == me % xrange);
        CHECK(shmem_team_my_pe(column) == me / xrange);
        CHECK(shmem_team_translate_pe(row, 0, SHMEM_TEAM_WORLD) == me / xrange * xrange);
        CHECK(shmem_team_translate_pe(column, 0, SHMEM_TEAM_WORLD) == me % xrange);
        use(row);
        use(column);
        shmem_team_config_t got = {.num_contexts = -1};
        CHECK(shmem_team_get_config(column, SHMEM_TEAM_NUM_CONTEXTS, &got) == 0);
        CHECK(got.num_contexts == 3);
        CHECK(shmem_team_get_config(row, SHMEM_TEAM_NUM_CONTEXTS, &got) == 0);
        CHECK(got.num_contexts == 0);
        shmem_team_destroy(column);
        shmem_team_destroy(row);
    }
}

static void predefined(void)
{
    CHECK(shmem_team_my_pe(SHMEM_TEAM_WORLD) == me && shmem_team_n_pes(SHMEM_TEAM_WORLD) == n);
    int in_shared = shmem_team_my_pe(SHMEM_TEAM_SHARED);
    CHECK(in_shared >= 0 && in_shared < shmem_team_n_pes(SHMEM_TEAM_SHARED));
    CHECK(shmem_team_translate_pe(SHMEM_TEAM_SHARED, in_shared, SHMEM_TEAM_WORLD) == me);
    /* This PE can load and store the memory of every member of the shared team. */
    for (int i = 0; i < shmem_team_n_pes(SHMEM_TEAM_SHARED); i++)
        CHECK(shmemx_team_ptr(SHMEM_TEAM_SHARED, &sum, i) != NULL);
    use(SHMEM_TEAM_WORLD);
    use(SHMEM_TEAM_SHARED);
    shmem_sync(SHMEM_TEAM_WORLD);
}

/* A mask with unknown bits, or with bits but without a configuration. */
static void masks(void)
{
    shmem_team_t team, other;
    shmem_team_config_t config = {.num_contexts = 1};
    const long unknown = SHMEM_TEAM_NUM_CONTEXTS | 0x10;
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, 1, &config, unknown, &team) != 0);
    CHECK(team == SHMEM_TEAM_INVALID && strstr(weft_last_error(), "config_mask is 0x11"));
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, 1, NULL, SHMEM_TEAM_NUM_CONTEXTS,
                                   &team) != 0);
    CHECK(strstr(weft_last_error(), "the configuration is null"));
    CHECK(shmem_team_split_2d(SHMEM_TEAM_WORLD, 1, &config, unknown, &team, NULL, 0, &other) != 0);
    CHECK(strstr(weft_last_error(), "xaxis_mask is 0x11"));
    CHECK(shmem_team_split_2d(SHMEM_TEAM_WORLD, 1, NULL, 0, &team, &config, unknown, &other) != 0);
    CHECK(strstr(weft_last_error(), "yaxis_mask is 0x11"));
    CHECK(shmem_team_get_config(SHMEM_TEAM_WORLD, unknown, &config) != 0);
    CHECK(config.num_contexts == 1 && strstr(weft_last_error(), "the bits 0x10"));
}

static void invalid(void)
{
    shmem_team_t team = SHMEM_TEAM_WORLD, other = SHMEM_TEAM_WORLD;
    shmem_ctx_t ctx = SHMEM_CTX_DEFAULT;
    CHECK(shmem_team_my_pe(SHMEM_TEAM_INVALID) == -1);
    CHECK(shmem_team_n_pes(SHMEM_TEAM_INVALID) == -1);
    CHECK(shmem_team_translate_pe(SHMEM_TEAM_INVALID, 0, SHMEM_TEAM_WORLD) == -1);
    CHECK(shmem_team_translate_pe(SHMEM_TEAM_WORLD, 0, SHMEM_TEAM_INVALID) == -1);
    CHECK(shmem_team_get_config(SHMEM_TEAM_INVALID, 0, NULL) != 0);
    CHECK(shmem_team_split_strided(SHMEM_TEAM_INVALID, 0, 1, 1, NULL, 0, &team) != 0);
    CHECK(team == SHMEM_TEAM_INVALID);
    team = SHMEM_TEAM_WORLD;
    CHECK(shmem_team_split_2d(SHMEM_TEAM_INVALID, 1, NULL, 0, &team, NULL, 0, &other) != 0);
    CHECK(team == SHMEM_TEAM_INVALID && other == SHMEM_TEAM_INVALID);
    CHECK(shmem_team_create_ctx(SHMEM_TEAM_INVALID, 0, &ctx) != 0 && ctx == SHMEM_CTX_INVALID);
    CHECK(shmem_ctx_get_team(SHMEM_CTX_INVALID, &team) != 0 && team == SHMEM_TEAM_INVALID);
    shmem_ctx_destroy(SHMEM_CTX_INVALID);
    shmem_team_destroy(SHMEM_TEAM_INVALID);
    /* A triplet outside the parent team: every PE refuses it. */
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, n + 1, NULL, 0, &team) != 0);
    CHECK(team == SHMEM_TEAM_INVALID);
}

static void a_thousand(void)
{
    unsigned seed = (unsigned)me;
    for (int i = 0; i < 1000; i++) {
        shmem_team_t team;
        int size = i % n + 1;
        CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, (n - size) / 2, 1, size, NULL, 0, &team) ==
              0);
        if (team != SHMEM_TEAM_INVALID && i % 10 == 0)
            use(team);
        if (i % 16 == 0)
            dawdle(&seed);
        shmem_team_destroy(team);
    }
    /* Many teams at once. */
    shmem_team_t many[60];
    for (int i = 0; i < 60; i++)
        CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, n, NULL, 0, &many[i]) == 0);
    for (int i = 59; i >= 0; i--)
        use(many[i]);
    for (int i = 0; i < 60; i++)
        shmem_team_destroy(many[(i * 7) % 60]);
}

int main(void)
{
    shmem_init();
    me = shmem_my_pe();
    n = shmem_n_pes();
    predefined();
    strided();
    nested();
    two_dimensions();
    masks();
    invalid();
    a_thousand();
    shmem_finalize();
    return 0;
}
