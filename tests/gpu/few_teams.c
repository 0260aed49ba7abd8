/* SPDX-License-Identifier: Apache-2.0 */
/* A job of few teams (weft_init_attr.teams): how much GPU memory the library takes, which teams
 * there are, and collectives of each. */
#include "tests/job/job.h"

#include "ops/coll/kernel.h"

enum { WORDS = 3001, ROOM = 3 << 20, MOST_BYTES = 14 << 20, GRAIN = 2 << 20 };

static weft_job *start(int teams)
{
    weft_job *job;
    weft_init_attr attr = {.size = sizeof attr, .teams = teams};
    OK(weft_init(&job, &attr));
    return job;
}

static uint64_t word_of(int member, int i)
{
    return (uint64_t)(member + 1) << 32 | (unsigned)(i * 7 + member);
}

static void reduce_and_gather(weft_job *job, weft_team *team, uint64_t *gpu)
{
    static uint64_t words[8 * WORDS], sum[WORDS], all[8 * WORDS];
    int n = weft_team_n_pes(team), me = weft_team_my_pe(team);
    weft_ctx *ctx = weft_default_ctx(job);
    uint64_t *src = gpu, *to = src + WORDS, *blocks = to + WORDS;
    for (int i = 0; i < WORDS; i++)
        words[i] = word_of(me, i);
    OK(weft_put(ctx, src, words, sizeof sum, weft_my_pe(job)));
    OK(weft_allreduce(team, to, src, WORDS, WEFT_UINT64, WEFT_SUM));
    OK(weft_allgather(team, blocks, src, sizeof sum));
    OK(weft_get(ctx, sum, to, sizeof sum, weft_my_pe(job)));
    OK(weft_get(ctx, all, blocks, (size_t)n * sizeof sum, weft_my_pe(job)));
    for (int i = 0; i < WORDS; i++) {
        uint64_t expected = 0;
        for (int member = 0; member < n; member++) {
            expected += word_of(member, i);
            CHECK(all[member * WORDS + i] == word_of(member, i));
        }
        CHECK(sum[i] == expected);
    }
}

static void memory_and_teams(int teams)
{
    weft_job *job = start(teams);
    weft_team *made[3] = {NULL}, *world = weft_team_world(job);
    int n = weft_n_pes(job), most = teams - 2;
    void *gpu = NULL;
    weft_status status = weft_alloc(job, WEFT_GPU, ROOM, 0, 0, &gpu);
    if (status == WEFT_ERR_UNSUPPORTED)
        exit(77); /* no GPU */
    OK(status);
    const struct gpu_heap *heap = &job->gpu->heap;
    size_t whole = job->gpu->layout.system_bytes + ROOM;
    if (weft_my_pe(job) == 0)
        fprintf(stderr, "%d PEs, %d teams: the library takes %zu bytes, the heap has %zu\n", n,
                teams, job->gpu->layout.system_bytes, heap->backed);
    CHECK(teams > 2 || heap->backed <= MOST_BYTES);
    CHECK(heap->unit <= GRAIN && heap->backed <= whole + 2 * heap->unit);
    for (int i = 0; i < most; i++)
        OK(weft_team_split_strided(world, 0, 1, n, &made[i]));
    char sentence[64];
    snprintf(sentence, sizeof sentence, "all %d team slots are in use", teams);
    FAILS(weft_team_split_strided(world, 0, 1, n, &made[2]), WEFT_ERR_NO_MEMORY, sentence);
    CHECK(strstr(weft_last_error(), "raise weft_init_attr.teams"));
    reduce_and_gather(job, world, gpu);
    reduce_and_gather(job, weft_team_node(job), gpu);
    for (int i = 0; i < most; i++) {
        CHECK(coll_kernel_serves(made[i]) == coll_kernel_serves(world));
        reduce_and_gather(job, made[i], gpu);
        OK(weft_team_destroy(made[i]));
    }
    if (most) {
        OK(weft_team_split_strided(world, 0, 1, n, &made[0]));
        reduce_and_gather(job, made[0], gpu);
    }
    OK(weft_finalize(job));
}

/* Argument "differ": PE 0 gives another number than the others, and no job begins. */
int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "differ"))
        start(!strcmp(getenv("WEFT_PE"), "0") ? 5 : 1024);
    memory_and_teams(2);
    memory_and_teams(4);
    return 0;
}
