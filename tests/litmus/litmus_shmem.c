/* SPDX-License-Identifier: Apache-2.0 */
/* Litmus tests of guarantees of OpenSHMEM beyond weft.h: `litmus_shmem NAME [removed]`, like
 * litmus.c. Two PEs. */
#include <shmem.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 4000, MOST_ROUNDS = 1000 * 1000, ROUNDS_AT_A_TIME = 200, WORDS = 16 };

static int me, removed;
static shmem_ctx_t own_ctx;

static struct area {
    long lock;
    _Alignas(64) long plain_lock;
    _Alignas(64) long words[WORDS]; /* at PE 0 for the locks, otherwise at PE 1 */
    _Alignas(64) long flag;
} * area;

/* Removed: a lock with mutual exclusion that does not complete operations. */
static void enter(void)
{
    if (!removed)
        shmem_set_lock(&area->lock);
    while (removed && shmem_long_atomic_compare_swap(&area->plain_lock, 0, 1, 0) != 0)
        ;
}

static void leave(void)
{
    if (!removed)
        shmem_clear_lock(&area->lock);
    else
        shmem_long_atomic_set(&area->plain_lock, 0, 0);
}

/* Both PEs increment all words of PE 0 in any order: the holder of the lock sees all words as the
 * previous holder left them. */
static int count_up(int by_atomics)
{
    long words[WORDS];
    int torn = 0;
    enter();
    shmem_getmem(words, area->words, sizeof words, 0);
    for (int i = 1; i < WORDS; i++)
        torn += words[i] != words[0];
    for (int i = WORDS - 1; i >= 0; i--)
        words[i] = words[0] + 1;
    for (int i = 0; by_atomics && i < WORDS; i++)
        shmem_long_atomic_set(&area->words[i], words[i], 0);
    if (!by_atomics)
        shmem_putmem(area->words, words, sizeof words, 0);
    leave();
    return torn > 0;
}

/* Each round has 2 increments; the sum is less if a PE started from an old value. */
static int count_is_short(long round)
{
    shmem_barrier_all();
    int wrong = me == 0 && area->words[0] != 2 * round;
    shmem_barrier_all();
    return wrong;
}

static int lock_orders_puts(long round)
{
    return count_up(0) + count_is_short(round);
}

static int lock_orders_atomics(long round)
{
    return count_up(1) + count_is_short(round);
}

/* Atomics of each kind on an own context; its fence; a flag => a PE that sees the flag sees
 * them. */
static int context_orders_atomics(long round)
{
    int stale = 0;
    long fetched;
    if (me == 1) {
        shmem_long_wait_until(&area->flag, SHMEM_CMP_GE, round);
        for (int i = 0; i < 8; i++)
            stale += __atomic_load_n(&area->words[i], __ATOMIC_RELAXED) != (i < 7 ? round : ~round);
        return stale;
    }
    long *w = area->words;
    shmem_ctx_long_atomic_inc(own_ctx, &w[0], 1);
    shmem_ctx_long_atomic_add(own_ctx, &w[1], 1, 1);
    shmem_ctx_long_atomic_set(own_ctx, &w[2], round, 1);
    shmem_ctx_ulong_atomic_xor(own_ctx, (unsigned long *)&w[3],
                               (unsigned long)(round ^ (round - 1)), 1);
    shmem_ctx_long_atomic_fetch_add_nbi(own_ctx, &fetched, &w[4], 1, 1);
    shmem_ctx_ulong_atomic_or(own_ctx, (unsigned long *)&w[5], (unsigned long)round, 1);
    shmem_ctx_ulong_atomic_and(own_ctx, (unsigned long *)&w[5], (unsigned long)round, 1);
    shmem_ctx_long_p(own_ctx, &w[6], round, 1);
    shmem_ctx_long_put(own_ctx, &w[7], (long[]){~round}, 1, 1);
    if (!removed)
        shmem_ctx_fence(own_ctx);
    shmem_ctx_long_atomic_set(own_ctx, &area->flag, round, 1);
    shmem_ctx_quiet(own_ctx);
    return 0;
}

static const struct {
    const char *name;
    int (*run)(long round);
} tests[] = {
    {"lock_orders_puts", lock_orders_puts},
    {"lock_orders_atomics", lock_orders_atomics},
    {"context_orders_atomics", context_orders_atomics},
};

static long look_for(int (*run)(long round), long *rounds)
{
    long *forbidden = shmem_calloc(2, sizeof *forbidden);
    long most = removed ? MOST_ROUNDS : ROUNDS;
    for (*rounds = 0; *rounds < most && (!removed || !forbidden[1]);) {
        for (int i = 0; i < ROUNDS_AT_A_TIME; i++) {
            forbidden[0] += run(++*rounds) > 0;
            shmem_barrier_all();
        }
        shmem_long_sum_reduce(SHMEM_TEAM_WORLD, forbidden + 1, forbidden, 1);
    }
    long seen = forbidden[1];
    shmem_free(forbidden);
    return seen;
}

int main(int argc, char **argv)
{
    int which = -1;
    for (int i = 0; argc > 1 && i < (int)(sizeof tests / sizeof tests[0]); i++)
        if (strcmp(argv[1], tests[i].name) == 0)
            which = i;
    removed = argc > 2 && strcmp(argv[2], "removed") == 0;
    if (which < 0) {
        fprintf(stderr, "litmus_shmem: no test \"%s\"\n", argc > 1 ? argv[1] : "");
        return 2;
    }
    shmem_init();
    me = shmem_my_pe();
    if (shmem_n_pes() != 2 || shmem_ctx_create(0, &own_ctx))
        shmem_global_exit(2);
    area = shmem_calloc(1, sizeof *area);
    long rounds, seen = look_for(tests[which].run, &rounds);
    if (me == 0)
        printf("%s%s: the forbidden outcome came in %ld of %ld rounds\n", argv[1],
               removed ? " (removed)" : "", seen, rounds);
    shmem_ctx_destroy(own_ctx);
    shmem_finalize();
    return removed ? seen == 0 : seen != 0;
}
