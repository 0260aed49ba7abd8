/* SPDX-License-Identifier: Apache-2.0 */
/* Teams: strided with gaps and in reverse, two-dimensional, nested, of one PE; translation of
 * ranks; contexts on teams; 1000 teams created and destroyed; the 1025th refused. */
#include "job.h"

static void sum_over(weft_team *team, long *room)
{
    int n = weft_team_n_pes(team);
    room[0] = weft_team_my_pe(team) + 1;
    OK(weft_allreduce(team, room + 1, room, 1, WEFT_INT64, WEFT_SUM));
    CHECK(room[1] == (long)n * (n + 1) / 2);
}

static void strided(weft_job *job, long *room)
{
    weft_team *world = weft_team_world(job), *team;
    int me = weft_my_pe(job), n = weft_n_pes(job);
    for (int stride = 1; stride <= 3; stride++) {
        int members = (n + stride - 1) / stride;
        OK(weft_team_split_strided(world, 0, stride, members, &team));
        CHECK((team != NULL) == (me % stride == 0));
        if (team) {
            CHECK(weft_team_my_pe(team) == me / stride && weft_team_n_pes(team) == members);
            CHECK(weft_team_translate(team, members - 1, world) == (members - 1) * stride);
            CHECK(weft_team_translate(world, 1, team) == (stride == 1 && n > 1 ? 1 : -1));
            sum_over(team, room);
            OK(weft_team_destroy(team));
        }
    }
    OK(weft_team_split_strided(world, n - 1, -1, n, &team));
    CHECK(weft_team_my_pe(team) == n - 1 - me);
    sum_over(team, room);
    OK(weft_team_destroy(team));
    FAILS(weft_team_split_strided(world, 0, 1, n + 1, &team), WEFT_ERR_ARGUMENT, "do not lie");
}

static void two_dimensions(weft_job *job, long *room)
{
    int n = weft_n_pes(job), me = weft_my_pe(job);
    for (int xrange = 1; xrange <= n + 1; xrange++) {
        weft_team *row, *column;
        OK(weft_team_split_2d(weft_team_world(job), xrange, &row, &column));
        int width = xrange < n ? xrange : n;
        CHECK(weft_team_my_pe(row) == me % width && weft_team_my_pe(column) == me / width);
        sum_over(row, room);
        sum_over(column, room);
        OK(weft_team_destroy(column));
        OK(weft_team_destroy(row));
    }
}

static void nested(weft_job *job, long *room)
{
    weft_team *teams[6] = {weft_team_world(job)};
    int depth = 0;
    while (depth < 5 && teams[depth]) {
        int n = weft_team_n_pes(teams[depth]);
        OK(weft_team_split_strided(teams[depth], 0, 1, n > 1 ? n - 1 : 1, &teams[depth + 1]));
        if (!teams[depth + 1])
            break;
        depth++;
        sum_over(teams[depth], room);
    }
    for (; depth > 0; depth--)
        OK(weft_team_destroy(teams[depth]));
}

static void many(weft_job *job, long *room)
{
    weft_team *team;
    for (int i = 0; i < 1000; i++) {
        OK(weft_team_split_strided(weft_team_world(job), 0, 1, weft_n_pes(job), &team));
        if (i % 50 == 0)
            sum_over(team, room);
        OK(weft_team_destroy(team));
    }
    weft_team *all[1024];
    int made = 0;
    weft_status status;
    while (!(status =
                 weft_team_split_strided(weft_team_world(job), 0, 1, weft_n_pes(job), &all[made])))
        made++;
    CHECK(status == WEFT_ERR_NO_MEMORY && made == 1022); /* world and node are the other two */
    while (made)
        OK(weft_team_destroy(all[--made]));
}

static void contexts(weft_job *job, uint64_t *word)
{
    weft_team *back;
    weft_ctx *ctx;
    int n = weft_n_pes(job), me = weft_my_pe(job);
    OK(weft_team_split_strided(weft_team_world(job), n - 1, -1, n, &back));
    OK(weft_ctx_create(back, WEFT_CTX_PRIVATE, &ctx));
    CHECK(weft_ctx_team(ctx) == back);
    OK(weft_p64(ctx, word, 500 + (uint64_t)me, n - 1 - (me + 1) % n));
    OK(weft_quiet(ctx));
    OK(weft_barrier(weft_team_world(job)));
    CHECK(*(volatile uint64_t *)word == 500 + (uint64_t)((me + n - 1) % n));
    FAILS(weft_p64(ctx, word, 1, n), WEFT_ERR_PE, "does not exist");
    OK(weft_ctx_destroy(ctx));
    FAILS(weft_ctx_destroy(weft_default_ctx(job)), WEFT_ERR_ARGUMENT, "default");
    FAILS(weft_ctx_create(back, 64, &ctx), WEFT_ERR_ARGUMENT, "0x40");
    OK(weft_ctx_create(back, 0, &ctx)); /* destroyed with its team */
    OK(weft_team_destroy(back));
    FAILS(weft_team_destroy(weft_team_world(job)), WEFT_ERR_ARGUMENT, "cannot be destroyed");
}

/* WEFT_TEST_NODE_PES (for tests) splits this node into several. */
static int expected_on_node(weft_job *job)
{
    const char *text = getenv("WEFT_TEST_NODE_PES");
    int n = weft_n_pes(job), per_node = text && atoi(text) > 0 ? atoi(text) : n;
    int first = weft_my_pe(job) / per_node * per_node;
    return n - first < per_node ? n - first : per_node;
}

int main(void)
{
    weft_job *job;
    OK(weft_init(&job, NULL));
    long *room = alloc(job, 64);
    CHECK(weft_team_n_pes(weft_team_node(job)) == expected_on_node(job));
    strided(job, room);
    two_dimensions(job, room);
    nested(job, room);
    many(job, room);
    contexts(job, (uint64_t *)room);
    OK(weft_free(job, room));
    OK(weft_finalize(job));
    return 0;
}
