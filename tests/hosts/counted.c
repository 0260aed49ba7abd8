/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of all kinds to the PE half the job ahead, for SECONDS seconds, each of them counted.
 * Fetching atomics return the value that the previous one left, the others add up, signals arrive
 * once and after their data, puts before a fence stay in order, and larger puts and gets have the
 * right bytes. The program prints their number and the path.
 *
 *   counted SECONDS [quiet|one]
 *
 * quiet: a failed operation is printed and ends the program with status 0.
 * one: only PE 0 sends, the PEs synchronize rarely, and all data goes in messages. */
#include <weft.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STEPS = 40, ALONE = 2000, SMALL = 251, SIGNALLED = 2003, LARGE = 20011 };

static bool quiet, one;
static int me;

#define OK(call)                                                                                   \
    do {                                                                                           \
        weft_status status_ = (call);                                                              \
        if (status_) {                                                                             \
            printf("told %d: %s: %s: %s\n", me, #call, weft_status_name(status_),                  \
                   weft_last_error());                                                             \
            fflush(stdout);                                                                        \
            _Exit(quiet ? 0 : 1);                                                                  \
        }                                                                                          \
    } while (0)

#define SAME(seen, wanted)                                                                         \
    do {                                                                                           \
        unsigned long long seen_ = (seen), wanted_ = (wanted);                                     \
        if (seen_ != wanted_) {                                                                    \
            printf("PE %d, line %d: %s is %llu and not %llu\n", me, __LINE__, #seen, seen_,        \
                   wanted_);                                                                       \
            fflush(stdout);                                                                        \
            _Exit(3);                                                                              \
        }                                                                                          \
    } while (0)

struct area {
    uint64_t fetched, added, signal, flag, stop;
    unsigned char small[SMALL], signalled[SIGNALLED], large[LARGE];
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void fill(unsigned char *at, size_t bytes, int pe, uint64_t step)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (unsigned char)(i * 7 + i / 251 + (size_t)pe * 85 + step * 29);
}

static void compare(const unsigned char *seen, size_t bytes, int pe, uint64_t step)
{
    static unsigned char wanted[LARGE];
    fill(wanted, bytes, pe, step);
    for (size_t i = 0; i < bytes; i++)
        SAME(seen[i], wanted[i]);
}

/* Only the fetching atomic and the get wait for the target. */
static void one_step(weft_ctx *ctx, struct area *area, struct area *mine, int to, uint64_t step)
{
    uint64_t before;
    OK(weft_atomic_fetch_add64(ctx, &area->fetched, 3, &before, to));
    SAME(before, 3 * (step - 1));
    OK(weft_atomic_add64(ctx, &area->added, step, to));
    fill(mine->signalled, SIGNALLED, me, step);
    OK(weft_put_signal(ctx, area->signalled, mine->signalled, SIGNALLED, &area->signal, 1,
                       WEFT_SIGNAL_ADD, to));
    fill(mine->small, SMALL, me, step - 1);
    OK(weft_put(ctx, area->small, mine->small, SMALL, to));
    OK(weft_fence(ctx));
    fill(mine->small, SMALL, me, step);
    OK(weft_put(ctx, area->small, mine->small, SMALL, to));
    OK(weft_fence(ctx));
    OK(weft_atomic_set64(ctx, &area->flag, step, to));
    if (one)
        return;
    fill(mine->large, LARGE, me, step);
    OK(weft_put(ctx, area->large, mine->large, LARGE, to));
    OK(weft_fence(ctx));
    memset(mine->large, 0, LARGE);
    OK(weft_get(ctx, mine->large, area->large, LARGE, to));
    compare(mine->large, LARGE, me, step);
}

/* All data of the previous PE has arrived, once. */
static void count(const struct area *area, int from, uint64_t steps)
{
    SAME(area->fetched, 3 * steps);
    SAME(area->added, steps * (steps + 1) / 2);
    SAME(area->signal, steps);
    SAME(area->flag, steps);
    compare(area->signalled, SIGNALLED, from, steps);
    compare(area->small, SMALL, from, steps);
    if (!one)
        compare(area->large, LARGE, from, steps);
}

int main(int argc, char **argv)
{
    weft_job *job;
    struct area *area, *mine;
    double seconds = argc > 1 ? atof(argv[1]) : 0;
    quiet = argc > 2 && strcmp(argv[2], "quiet") == 0;
    one = argc > 2 && strcmp(argv[2], "one") == 0;
    OK(weft_init(&job, NULL));
    me = weft_my_pe(job);
    int n = weft_n_pes(job), half = (n + 1) / 2, to = (me + half) % n, from = (me + n - half) % n;
    weft_ctx *ctx = weft_default_ctx(job);
    OK(weft_alloc(job, WEFT_HOST, sizeof *area, 0, WEFT_ALLOC_ZERO, (void **)&area));
    OK(weft_alloc(job, WEFT_HOST, sizeof *mine, 0, WEFT_ALLOC_ZERO, (void **)&mine));
    weft_path_info path = {.size = sizeof path};
    OK(weft_path_query(job, to, &path));
    printf("PE %d: %s\nready\n", me, path.reason);
    fflush(stdout);
    uint64_t steps = 0;
    for (double start = now(); !area->stop;) {
        for (int i = 0; i < (one ? ALONE : STEPS); i++, steps++)
            if (me == 0 || !one)
                one_step(ctx, area, mine, to, steps + 1);
        OK(weft_barrier(weft_team_world(job)));
        if (from == 0 || !one)
            count(area, from, steps);
        if (me == 0 && now() - start >= seconds)
            for (int pe = 0; pe < n; pe++)
                OK(weft_atomic_set64(ctx, &area->stop, 1, pe));
        OK(weft_quiet(ctx));
        OK(weft_barrier(weft_team_world(job)));
    }
    printf("PE %d: counted %llu steps\n", me, (unsigned long long)steps);
    OK(weft_finalize(job));
    return 0;
}
