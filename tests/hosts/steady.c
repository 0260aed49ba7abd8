/* SPDX-License-Identifier: Apache-2.0 */
/* A job that runs for SECONDS, during which a test can interrupt it: puts with signal around a
 * ring, reductions and barriers; all values are checked.
 *
 *   steady SECONDS [VICTIM]
 *
 * PE 0 prints "ready" when the work has started; PE VICTIM kills itself then. A PE whose call fails
 * prints "told PE: STATUS: sentence" and exits with 3. */
#include <weft.h>

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { WORDS = 1000 };

static weft_job *job;

static void must(weft_status status)
{
    if (status == WEFT_OK)
        return;
    fprintf(stderr, "told %d: %s: %s\n", weft_my_pe(job), weft_status_name(status),
            weft_last_error());
    exit(3);
}

static void check(int good, const char *what, uint64_t round)
{
    if (good)
        return;
    fprintf(stderr, "PE %d: %s of round %llu is wrong\n", weft_my_pe(job), what,
            (unsigned long long)round);
    exit(1);
}

static uint64_t *words(void)
{
    void *address;
    must(weft_alloc(job, WEFT_HOST, WORDS * sizeof(uint64_t), 0, WEFT_ALLOC_ZERO, &address));
    return address;
}

static void round_of(weft_team *world, uint64_t *to, uint64_t *from, uint64_t *signal,
                     uint64_t round)
{
    int me = weft_my_pe(job), n = weft_n_pes(job), next = (me + 1) % n, before = (me + n - 1) % n;
    weft_ctx *ctx = weft_default_ctx(job);
    for (int i = 0; i < WORDS; i++)
        from[i] = round * 1000003u + (uint64_t)me * 977u + (uint64_t)i;
    must(weft_put_signal(ctx, to, from, WORDS * sizeof *to, signal, round, WEFT_SIGNAL_SET, next));
    must(weft_signal_wait(ctx, signal, WEFT_GE, round, NULL));
    for (int i = 0; i < WORDS; i++)
        check(to[i] == round * 1000003u + (uint64_t)before * 977u + (uint64_t)i, "data", round);
    must(weft_barrier(world));
    for (int i = 0; i < WORDS; i++)
        from[i] = (round + (uint64_t)me) << 40 | (uint64_t)i;
    must(weft_allreduce(world, to, from, WORDS, WEFT_UINT64, WEFT_SUM));
    for (int i = 0; i < WORDS; i++) {
        uint64_t sum = 0;
        for (int pe = 0; pe < n; pe++)
            sum += (round + (uint64_t)pe) << 40 | (uint64_t)i;
        check(to[i] == sum, "sum", round);
    }
    must(weft_barrier(world));
}

int main(int argc, char **argv)
{
    time_t until = 0; /* the time starts with the work */
    int victim = argc > 2 ? atoi(argv[2]) : -1;
    must(weft_init(&job, NULL));
    weft_team *world = weft_team_world(job);
    uint64_t *to = words(), *from = words(), *signal = words(), *more = words();
    for (uint64_t round = 1;; round++) {
        round_of(world, to, from, signal, round);
        if (round == 2)
            until = time(NULL) + (argc > 1 ? atoi(argv[1]) : 1);
        if (round == 2 && weft_my_pe(job) == 0) {
            printf("ready\n");
            fflush(stdout);
        }
        if (round == 3 && weft_my_pe(job) == victim) {
            sleep(1); /* Slurm takes a process that dies at once for one that never started */
            kill(getpid(), SIGKILL);
        }
        *from = round < 3 || time(NULL) < until;
        must(weft_broadcast(world, more, from, sizeof *more, 0));
        if (!*more)
            break;
    }
    must(weft_finalize(job));
    return 0;
}
