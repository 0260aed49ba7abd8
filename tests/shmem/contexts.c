/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: options; contexts of teams, with the team's PE numbers; quiet of one context; the team
 * of a context; contexts left when their team is destroyed. */
#include "check.h"

static long there[8], source[8];
static shmem_ctx_t in_static = SHMEM_CTX_DEFAULT, none = SHMEM_CTX_INVALID;

int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes(), next = (me + 1) % n, before = (me + n - 1) % n;
    shmem_team_t team;
    CHECK(none != in_static);
    CHECK(shmem_ctx_get_team(in_static, &team) == 0 && team == SHMEM_TEAM_WORLD);

    const long options[] = {0, SHMEM_CTX_SERIALIZED, SHMEM_CTX_PRIVATE, SHMEM_CTX_NOSTORE,
                            SHMEM_CTX_PRIVATE | SHMEM_CTX_NOSTORE};
    for (int i = 0; i < 5; i++) {
        shmem_ctx_t ctx = SHMEM_CTX_INVALID;
        CHECK(shmem_ctx_create(options[i], &ctx) == 0 && ctx != SHMEM_CTX_INVALID);
        CHECK(ctx != SHMEM_CTX_DEFAULT);
        CHECK(shmem_ctx_get_team(ctx, &team) == 0 && team == SHMEM_TEAM_WORLD);
        shmem_ctx_long_p(ctx, &there[i], 10 * me + i, next);
        shmem_ctx_destroy(ctx); /* completes operations in flight */
        shmem_barrier_all();
        CHECK(there[i] == 10 * before + i);
    }

    shmem_ctx_t unknown = SHMEM_CTX_DEFAULT;
    CHECK(shmem_ctx_create(SHMEM_CTX_PRIVATE | 0x100, &unknown) != 0);
    CHECK(unknown == SHMEM_CTX_INVALID && strstr(weft_last_error(), "the bits 0x100"));

    /* Many contexts at once, each with its own transfer. */
    enum { MANY = 100 };
    static long cells[MANY];
    shmem_ctx_t many[MANY];
    for (int i = 0; i < MANY; i++) {
        CHECK(shmem_ctx_create(0, &many[i]) == 0);
        source[0] = i;
        shmem_ctx_long_put(many[i], &cells[i], source, 1, next);
    }
    for (int i = 0; i < MANY; i++) {
        shmem_ctx_quiet(many[i]);
        shmem_ctx_destroy(many[i]);
    }
    shmem_barrier_all();
    for (int i = 0; i < MANY; i++)
        CHECK(cells[i] == i);

    /* PE numbers in a context are those of its team, here in reverse order. */
    shmem_team_t reverse;
    shmem_team_config_t config = {.num_contexts = 2};
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, n - 1, -1, n, &config, SHMEM_TEAM_NUM_CONTEXTS,
                                   &reverse) == 0);
    shmem_ctx_t ctx, left_over;
    CHECK(shmem_team_create_ctx(reverse, 0, &ctx) == 0);
    CHECK(shmem_team_create_ctx(reverse, SHMEM_CTX_SERIALIZED, &left_over) == 0);
    CHECK(shmem_ctx_get_team(ctx, &team) == 0 && team == reverse);
    shmem_ctx_long_p(ctx, &there[5], 100 + me, (n - 1 - me + 1) % n); /* the previous PE */
    shmem_ctx_long_atomic_add(ctx, &there[6], me + 1, 0);             /* the last PE */
    shmem_ctx_quiet(ctx);
    shmem_barrier_all();
    CHECK(there[5] == 100 + next);
    CHECK(shmem_ctx_long_g(ctx, &there[6], 0) == (long)n * (n + 1) / 2);
    CHECK(shmem_long_g(&there[6], n - 1) == (long)n * (n + 1) / 2);
    shmem_ctx_long_put_nbi(left_over, &there[7], &there[5], 1, 0);
    shmem_ctx_destroy(ctx);
    shmem_barrier_all();
    shmem_team_destroy(reverse); /* also destroys left_over */

    CHECK(shmem_team_create_ctx(SHMEM_TEAM_SHARED, 0, &ctx) == 0);
    CHECK(shmem_ctx_get_team(ctx, &team) == 0);
    CHECK(shmem_team_my_pe(team) == shmem_team_my_pe(SHMEM_TEAM_SHARED));
    CHECK(shmem_ctx_long_atomic_fetch_inc(ctx, &there[1], shmem_team_my_pe(team)) ==
          10 * before + 1);
    shmem_ctx_destroy(ctx);
    shmem_ctx_fence(SHMEM_CTX_DEFAULT);
    shmem_ctx_quiet(SHMEM_CTX_DEFAULT);
    shmem_ctx_fence(SHMEM_CTX_INVALID); /* no operations, so these calls do nothing (9.11) */
    shmem_ctx_quiet(SHMEM_CTX_INVALID);
    void (*quiet)(shmem_ctx_t) = shmem_ctx_quiet, (*fence)(shmem_ctx_t) = shmem_ctx_fence;
    quiet(none);
    fence(none);
    shmem_barrier_all();
    shmem_finalize();
    return 0;
}
