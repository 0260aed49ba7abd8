/* SPDX-License-Identifier: Apache-2.0 */
/* Litmus tests of the order guarantees in weft.h. `litmus NAME` looks for an outcome that the
 * guarantee forbids, and exits with 0 if it never occurs. `litmus NAME removed` runs the same
 * without the call that gives the guarantee, until the forbidden outcome occurs, and then exits
 * with 0, which shows that the test can detect it. `second` uses a new context in place of the
 * default one. Two PEs. Over `p2p` the result depends on the hardware (x86 shows only store
 * buffering, and a busy machine not even that: the test is then skipped). Over `weak` every
 * permitted reordering occurs soon. */
#include "../job/job.h"

#include <sched.h>
#include <stdbool.h>
#include <unistd.h>

enum {
    ROUNDS = 4000,
    MOST_ROUNDS = 1000 * 1000, /* without the call; over weak a few are enough */
    ROUNDS_AT_A_TIME = 200,    /* after which the PEs exchange their results */
    WORDS = 16
};

static weft_job *job;
static weft_ctx *ctx; /* context of the operations */
static int me;
static bool removed;

static struct area {
    uint64_t data[WORDS];
    _Alignas(64) uint64_t flag;
    _Alignas(64) uint64_t x;
    _Alignas(64) uint64_t y;
    _Alignas(64) uint64_t turn;
} * area;

static void meet(void)
{
    OK(weft_quiet(ctx));
    OK(weft_sync(weft_team_world(job)));
}

/* PE 1 waits for the flag of the round, then counts words with another value than the round. */
static int observe(uint64_t round)
{
    int stale = 0;
    OK(weft_wait_until(ctx, WEFT_UINT64, &area->flag, WEFT_GE, round));
    for (int i = 0; i < WORDS; i++)
        stale += __atomic_load_n(&area->data[i], __ATOMIC_RELAXED) != round;
    return stale;
}

static void words_of(uint64_t round, uint64_t *words)
{
    for (int i = 0; i < WORDS; i++)
        words[i] = round;
}

/* put; fence; p => a PE that sees the p sees the put. */
static int fence_orders_puts(uint64_t round)
{
    if (me == 1)
        return observe(round);
    uint64_t words[WORDS];
    words_of(round, words);
    OK(weft_put(ctx, area->data, words, sizeof words, 1));
    if (!removed)
        OK(weft_fence(ctx));
    OK(weft_p64(ctx, &area->flag, round, 1));
    return 0;
}

/* atomics; fence; atomic  =>  the same. */
static int fence_orders_atomics(uint64_t round)
{
    if (me == 1)
        return observe(round);
    for (int i = 0; i < WORDS; i++)
        OK(weft_atomic_add64(ctx, &area->data[i], 1, 1));
    if (!removed)
        OK(weft_fence(ctx));
    OK(weft_atomic_add64(ctx, &area->flag, 1, 1));
    return 0;
}

/* put_signal => a PE that sees the signal sees the data. Removed: put and signal as two calls. */
static int signal_follows_data(uint64_t round)
{
    if (me == 1)
        return observe(round);
    uint64_t words[WORDS];
    words_of(round, words);
    if (removed) {
        OK(weft_put(ctx, area->data, words, sizeof words, 1));
        OK(weft_signal(ctx, &area->flag, round, WEFT_SIGNAL_SET, 1));
    } else {
        OK(weft_put_signal(ctx, area->data, words, sizeof words, &area->flag, round,
                           WEFT_SIGNAL_SET, 1));
    }
    return 0;
}

/* put returns => the source may be changed. Removed: the non-blocking form without quiet. */
static int source_is_free_after_put(uint64_t round)
{
    static uint64_t words[WORDS];
    if (me == 1)
        return observe(round);
    words_of(round, words);
    if (removed)
        OK(weft_put_nbi(ctx, area->data, words, sizeof words, 1));
    else
        OK(weft_put(ctx, area->data, words, sizeof words, 1));
    words_of(0, words);
    OK(weft_fence(ctx));
    OK(weft_p64(ctx, &area->flag, round, 1));
    return 0;
}

/* put_nbi; quiet  =>  the data is there and the source is free. */
static int quiet_completes_nbi(uint64_t round)
{
    static uint64_t words[WORDS];
    if (me == 1)
        return observe(round);
    words_of(round, words);
    OK(weft_put_nbi(ctx, area->data, words, sizeof words, 1));
    if (!removed)
        OK(weft_quiet(ctx));
    words_of(0, words);
    OK(weft_fence(ctx));
    OK(weft_p64(ctx, &area->flag, round, 1));
    return 0;
}

/* get_nbi; quiet  =>  the data has arrived. */
static int quiet_completes_get(uint64_t round)
{
    uint64_t words[WORDS] = {0};
    int stale = 0;
    if (me == 1)
        words_of(round, area->data);
    meet();
    if (me == 0) {
        OK(weft_get_nbi(ctx, words, area->data, sizeof words, 1));
        if (!removed)
            OK(weft_quiet(ctx));
        for (int i = 0; i < WORDS; i++)
            stale += words[i] != round;
        OK(weft_quiet(ctx)); /* the lifetime of words[] ends here */
    }
    return stale;
}

/* own stores; fence; own flag  =>  a peer that gets the flag, and then the data, gets both.
 * Removed: the get of the data is not awaited. */
static int get_follows_get(uint64_t round)
{
    uint64_t words[WORDS] = {0}, seen = 0;
    int stale = 0;
    if (me == 1) {
        words_of(round, area->data);
        OK(weft_fence(ctx));
        __atomic_store_n(&area->flag, round, __ATOMIC_RELAXED);
        return 0;
    }
    for (; seen != round; sched_yield())
        OK(weft_g64(ctx, &area->flag, &seen, 1));
    if (removed)
        OK(weft_get_nbi(ctx, words, area->data, sizeof words, 1));
    else
        OK(weft_get(ctx, words, area->data, sizeof words, 1));
    for (int i = 0; i < WORDS; i++)
        stale += words[i] != round;
    OK(weft_quiet(ctx)); /* the lifetime of words[] ends here */
    return stale;
}

/* p x; quiet; g y concurrent with p y; quiet; g x => at least one sees the other's store. */
static int store_buffering(uint64_t round)
{
    static uint64_t missed;
    uint64_t *mine = me == 0 ? &area->x : &area->y, *other = me == 0 ? &area->y : &area->x, seen;
    missed = 0;
    OK(weft_sync(weft_team_world(job)));
    OK(weft_p64(ctx, mine, round, 1 - me));
    if (!removed)
        OK(weft_quiet(ctx));
    seen = __atomic_load_n(other, __ATOMIC_RELAXED);
    missed = seen != round;
    meet();
    area->turn = missed;
    OK(weft_sync(weft_team_world(job)));
    uint64_t theirs;
    OK(weft_g64(ctx, &area->turn, &theirs, 1 - me));
    return missed && theirs;
}

/* put; barrier => the data is at the peer. Removed: sync, which completes no puts. */
static int barrier_completes(uint64_t round)
{
    uint64_t words[WORDS];
    words_of(round, words);
    OK(weft_put(ctx, area->data, words, sizeof words, 1 - me));
    if (removed)
        OK(weft_sync(weft_team_world(job)));
    else
        OK(weft_barrier(weft_team_world(job)));
    int stale = 0;
    for (int i = 0; i < WORDS; i++)
        stale += __atomic_load_n(&area->data[i], __ATOMIC_RELAXED) != round;
    return stale;
}

/* own store; sync  =>  a peer's get sees it. Removed: no sync. */
static int sync_shows_own_stores(uint64_t round)
{
    uint64_t words[WORDS];
    words_of(round, area->data);
    if (!removed)
        OK(weft_sync(weft_team_world(job)));
    OK(weft_get(ctx, words, area->data, sizeof words, 1 - me));
    int stale = 0;
    for (int i = 0; i < WORDS; i++)
        stale += words[i] != round;
    return stale;
}

/* fetching, non-blocking and other atomics, then a fence => the same as for add. */
static int fence_orders_every_atomic(uint64_t round)
{
    uint64_t before[WORDS], later;
    if (me == 1)
        return observe(round);
    for (int i = 0; i < WORDS; i += 4) {
        OK(weft_atomic_nbi(ctx, WEFT_AMO_FETCH_ADD, 8, &area->data[i], 0, 1, &later, 1));
        OK(weft_atomic_set64(ctx, &area->data[i + 1], round, 1));
        OK(weft_atomic_xor64(ctx, &area->data[i + 2], round ^ (round - 1), 1));
        OK(weft_atomic_swap64(ctx, &area->data[i + 3], round, &before[i], 1));
    }
    if (!removed)
        OK(weft_fence(ctx));
    OK(weft_atomic_set64(ctx, &area->flag, round, 1));
    OK(weft_quiet(ctx)); /* the lifetime of `later` ends here */
    return 0;
}

static const struct {
    const char *name;
    int (*run)(uint64_t round);
} tests[] = {
    {"fence_orders_puts", fence_orders_puts},
    {"fence_orders_atomics", fence_orders_atomics},
    {"fence_orders_every_atomic", fence_orders_every_atomic},
    {"signal_follows_data", signal_follows_data},
    {"source_is_free_after_put", source_is_free_after_put},
    {"quiet_completes_nbi", quiet_completes_nbi},
    {"quiet_completes_get", quiet_completes_get},
    {"get_follows_get", get_follows_get},
    {"store_buffering", store_buffering},
    {"barrier_completes", barrier_completes},
    {"sync_shows_own_stores", sync_shows_own_stores},
};

/* Number of rounds with the forbidden outcome at either PE. */
static int64_t look_for(int (*run)(uint64_t round), uint64_t *rounds)
{
    uint64_t most = removed ? MOST_ROUNDS : rounds_or(ROUNDS);
    int64_t *forbidden = alloc(job, 2 * sizeof *forbidden);
    for (*rounds = 0; *rounds < most && (!removed || !forbidden[1]);) {
        for (int i = 0; i < ROUNDS_AT_A_TIME; i++) {
            forbidden[0] += run(++*rounds) > 0;
            meet();
        }
        OK(weft_allreduce(weft_team_world(job), forbidden + 1, forbidden, 1, WEFT_INT64, WEFT_SUM));
    }
    int64_t seen = forbidden[1];
    OK(weft_free(job, forbidden));
    return seen;
}

static bool has_argument(int argc, char **argv, const char *word)
{
    for (int i = 2; i < argc; i++)
        if (strcmp(argv[i], word) == 0)
            return true;
    return false;
}

int main(int argc, char **argv)
{
    int which = -1;
    for (int i = 0; argc > 1 && i < (int)(sizeof tests / sizeof tests[0]); i++)
        if (strcmp(argv[1], tests[i].name) == 0)
            which = i;
    removed = has_argument(argc, argv, "removed");
    if (which < 0) {
        fprintf(stderr, "litmus: no test \"%s\"\n", argc > 1 ? argv[1] : "");
        return 2;
    }
    if (removed && sysconf(_SC_NPROCESSORS_ONLN) < 2)
        return 77; /* one CPU does not reorder between its own processes */
    OK(weft_init(&job, NULL));
    ctx = weft_default_ctx(job);
    if (has_argument(argc, argv, "second"))
        OK(weft_ctx_create(weft_team_world(job), 0, &ctx));
    me = weft_my_pe(job);
    CHECK(weft_n_pes(job) == 2);
    area = alloc(job, sizeof *area);
    uint64_t rounds;
    int64_t seen = look_for(tests[which].run, &rounds);
    if (me == 0)
        printf("%s%s: the forbidden outcome came in %lld of %llu rounds\n", argv[1],
               removed ? " (removed)" : "", (long long)seen, (unsigned long long)rounds);
    OK(weft_finalize(job));
    if (!removed)
        return seen != 0;
    const char *path = getenv("WEFT_PATH");
    if (seen == 0 && path && strcmp(path, "p2p") == 0) {
        if (me == 0)
            printf("this machine did not show the reordering\n");
        return 77;
    }
    return seen == 0;
}
