/* SPDX-License-Identifier: Apache-2.0 */
/* Litmus tests of the guarantees of contexts other than the default one; like litmus.c, with and
 * without the call in question. The variant without it makes the same call on another context, so
 * that a library with one queue for all contexts would be detected. Two PEs. */
#include "../job/job.h"

#include <stdbool.h>

enum { ROUNDS = 3000, WORDS = 16 };

static weft_job *job;
static weft_team *world;
static weft_ctx *one, *other; /* in addition to the default context */
static int me;
static bool removed;

static struct area {
    uint64_t data[WORDS];
    _Alignas(64) uint64_t flag;
} * area;

static void complete_all(void)
{
    OK(weft_quiet(one));
    OK(weft_quiet(other));
    OK(weft_quiet(weft_default_ctx(job)));
}

static int stale_words(uint64_t expected)
{
    int stale = 0;
    for (int i = 0; i < WORDS; i++)
        stale += __atomic_load_n(&area->data[i], __ATOMIC_RELAXED) != expected;
    return stale;
}

static int observe(uint64_t round)
{
    OK(weft_wait_until(weft_default_ctx(job), WEFT_UINT64, &area->flag, WEFT_GE, round));
    return stale_words(round);
}

static void words_of(uint64_t round, uint64_t *words)
{
    for (int i = 0; i < WORDS; i++)
        words[i] = round;
}

/* put on a context; fence of that context; p on it. */
static int fence_of_context(uint64_t round)
{
    uint64_t words[WORDS];
    if (me == 1)
        return observe(round);
    words_of(round, words);
    OK(weft_put(one, area->data, words, sizeof words, 1));
    OK(weft_fence(removed ? other : one));
    OK(weft_p64(one, &area->flag, round, 1));
    return 0;
}

/* atomics on a context; fence of that context; atomic on it. */
static int fence_of_context_orders_atomics(uint64_t round)
{
    if (me == 1)
        return observe(round);
    for (int i = 0; i < WORDS; i++)
        OK(weft_atomic_add64(one, &area->data[i], 1, 1));
    OK(weft_fence(removed ? other : one));
    OK(weft_atomic_add64(one, &area->flag, 1, 1));
    return 0;
}

/* atomics, some of them non-blocking, on a context; quiet of that context; a flag on another. */
static int quiet_of_context_completes_atomics(uint64_t round)
{
    uint64_t before[WORDS];
    int stale = 0;
    if (me == 1)
        return observe(round);
    for (int i = 0; i < WORDS; i++)
        if (i % 2)
            OK(weft_atomic_nbi(one, WEFT_AMO_ADD, 8, &area->data[i], 0, 1, NULL, 1));
        else
            OK(weft_atomic_nbi(one, WEFT_AMO_FETCH_ADD, 8, &area->data[i], 0, 1, &before[i], 1));
    OK(weft_quiet(removed ? other : one));
    OK(weft_p64(other, &area->flag, round, 1));
    OK(weft_quiet(other));
    OK(weft_quiet(one));
    for (int i = 0; i < WORDS; i += 2)
        stale += before[i] != round - 1;
    return stale;
}

/* put on a context of the team; barrier of the team. Removed: sync. */
static int barrier_completes_contexts(uint64_t round)
{
    uint64_t words[WORDS];
    words_of(round, words);
    OK(weft_put(one, area->data, words, sizeof words, 1 - me));
    if (removed)
        OK(weft_sync(world));
    else
        OK(weft_barrier(world));
    return stale_words(round);
}

/* put on a context; its destruction; a flag. Removed: it is not destroyed. */
static int end_of_context_completes(uint64_t round)
{
    uint64_t words[WORDS];
    weft_ctx *made;
    if (me == 1)
        return observe(round);
    words_of(round, words);
    OK(weft_ctx_create(world, 0, &made));
    OK(weft_put(made, area->data, words, sizeof words, 1));
    if (!removed)
        OK(weft_ctx_destroy(made));
    OK(weft_p64(other, &area->flag, round, 1));
    OK(weft_quiet(other));
    if (removed)
        OK(weft_ctx_destroy(made));
    return 0;
}

/* put_nbi on two contexts; quiet of both; a flag. Removed: quiet of the first one only, which does
 * not complete the puts of the other. */
static int quiet_of_each(uint64_t round)
{
    static uint64_t first[WORDS / 2], second[WORDS / 2];
    if (me == 1)
        return observe(round);
    for (int i = 0; i < WORDS / 2; i++)
        first[i] = second[i] = round;
    OK(weft_put_nbi(one, area->data, first, sizeof first, 1));
    OK(weft_put_nbi(other, area->data + WORDS / 2, second, sizeof second, 1));
    OK(weft_quiet(one));
    if (!removed)
        OK(weft_quiet(other));
    OK(weft_p64(weft_default_ctx(job), &area->flag, round, 1));
    OK(weft_quiet(weft_default_ctx(job)));
    return 0;
}

/* put on a context of a team; destruction of the team, which all members call. Removed: only a
 * sync. */
static int end_of_team_completes(uint64_t round)
{
    uint64_t words[WORDS];
    weft_team *team;
    weft_ctx *made;
    int stale = 0;
    words_of(round, words);
    OK(weft_team_split_strided(world, 0, 1, 2, &team));
    OK(weft_ctx_create(team, 0, &made));
    OK(weft_put(made, area->data, words, sizeof words, 1 - me));
    if (removed) {
        OK(weft_sync(world));
        stale = stale_words(round);
        OK(weft_sync(world));
    }
    OK(weft_team_destroy(team));
    return removed ? stale : stale_words(round);
}

static const struct {
    const char *name;
    int (*run)(uint64_t round);
} tests[] = {
    {"fence_of_context", fence_of_context},
    {"fence_of_context_orders_atomics", fence_of_context_orders_atomics},
    {"quiet_of_context_completes_atomics", quiet_of_context_completes_atomics},
    {"barrier_completes_contexts", barrier_completes_contexts},
    {"end_of_context_completes", end_of_context_completes},
    {"end_of_team_completes", end_of_team_completes},
    {"quiet_of_each", quiet_of_each},
};

int main(int argc, char **argv)
{
    int which = -1;
    for (int i = 0; argc > 1 && i < (int)(sizeof tests / sizeof tests[0]); i++)
        if (strcmp(argv[1], tests[i].name) == 0)
            which = i;
    removed = argc > 2 && strcmp(argv[2], "removed") == 0;
    CHECK(which >= 0);
    OK(weft_init(&job, NULL));
    world = weft_team_world(job);
    me = weft_my_pe(job);
    CHECK(weft_n_pes(job) == 2);
    OK(weft_ctx_create(world, 0, &one));
    OK(weft_ctx_create(world, 0, &other));
    area = alloc(job, sizeof *area);
    int64_t *forbidden = alloc(job, 2 * sizeof *forbidden);
    const uint64_t rounds = rounds_or(ROUNDS);
    for (uint64_t round = 1; round <= rounds; round++) {
        forbidden[0] += tests[which].run(round) > 0;
        complete_all();
        OK(weft_sync(world));
    }
    OK(weft_allreduce(world, forbidden + 1, forbidden, 1, WEFT_INT64, WEFT_SUM));
    int64_t seen = forbidden[1];
    if (me == 0)
        printf("%s%s: the forbidden outcome came in %lld of %llu rounds\n", argv[1],
               removed ? " (removed)" : "", (long long)seen, (unsigned long long)rounds);
    OK(weft_finalize(job));
    return removed ? seen == 0 : seen != 0;
}
