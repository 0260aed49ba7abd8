/* SPDX-License-Identifier: Apache-2.0 */
/* PEs are threads of one process, each with helper threads on their own contexts, so that a
 * ThreadSanitizer build sees all of them. Without a launcher the program starts its own job. */
#include "job.h"

#include <pthread.h>
#include <time.h>

enum { PES = 3, HELPERS = 2, ROUNDS = 200, WORDS = 64 };

static weft_group *group;

struct helper {
    weft_job *job;
    uint64_t *counters, *mail, *signal;
    int number, me;
};

/* Each helper thread writes its own words over its own context. */
static void *help(void *argument)
{
    struct helper *helper = argument;
    weft_ctx *ctx;
    OK(weft_ctx_create(weft_team_world(helper->job), WEFT_CTX_PRIVATE, &ctx));
    int to = (helper->me + 1) % PES;
    uint64_t *mail = helper->mail + helper->number * WORDS, words[WORDS];
    uint64_t *signal = helper->signal + helper->number * 2, *taken = signal + 1;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < WORDS; i++)
            words[i] = round * 100 + (uint64_t)i;
        OK(weft_put_signal(ctx, mail, words, sizeof words, signal, round, WEFT_SIGNAL_SET, to));
        OK(weft_atomic_add64(ctx, helper->counters, 1, 0));
        OK(weft_signal_wait(ctx, signal, WEFT_GE, round, NULL));
        for (int i = 0; i < WORDS; i++)
            CHECK(mail[i] == round * 100 + (uint64_t)i);
        int from = (helper->me + PES - 1) % PES;
        OK(weft_fence(ctx));
        OK(weft_signal(ctx, taken, round, WEFT_SIGNAL_SET, from));
        OK(weft_signal_wait(ctx, taken, WEFT_GE, round, NULL));
    }
    OK(weft_quiet(ctx));
    OK(weft_ctx_destroy(ctx));
    return NULL;
}

static void collectives(weft_job *job, int me)
{
    weft_team *world = weft_team_world(job);
    long *src = alloc(job, 8 * 5000), *dst = alloc(job, 8 * 5000 * PES);
    for (int round = 0; round < 20; round++) {
        for (int count = 1; count <= 5000; count = count * 9 + 1) {
            for (int i = 0; i < count; i++)
                src[i] = me + i + round;
            OK(weft_allreduce(world, dst, src, (size_t)count, WEFT_INT64, WEFT_SUM));
            for (int i = 0; i < count; i++)
                CHECK(dst[i] == PES * (PES - 1) / 2 + (long)PES * (i + round));
            OK(weft_sync(world)); /* dst may be overwritten */
            OK(weft_allgather(world, dst, src, (size_t)count * 8));
            for (int pe = 0; pe < PES; pe++)
                CHECK(dst[pe * count] == pe + round);
            OK(weft_sync(world));
            OK(weft_broadcast(world, dst, src, (size_t)count * 8, round % PES));
            CHECK(dst[0] == round % PES + round);
            OK(weft_barrier(world));
        }
    }
    OK(weft_free(job, dst));
    OK(weft_free(job, src));
}

struct check {
    int asked, ends_at; /* calls so far; the call that ends the wait */
};

static int end_wait(void *arg)
{
    struct check *check = arg;
    return ++check->asked == check->ends_at;
}

static void *wait_for_one(void *argument)
{
    struct helper *helper = argument;
    OK(weft_signal_wait(weft_default_ctx(helper->job), helper->signal, WEFT_EQ, 1, NULL));
    return NULL;
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The check ends waits of the thread that has it, at the call at which it says so. It is not called
 * by waits of another thread, nor after it has been taken away. */
static void interrupted(weft_job *job, int me)
{
    weft_ctx *ctx = weft_default_ctx(job);
    uint64_t *signal = alloc(job, 8);
    struct check check = {0, 3};
    struct helper helper = {.job = job, .signal = signal};
    pthread_t thread;
    OK(weft_set_interrupt(job, end_wait, &check));
    double begun = now_s();
    FAILS(weft_signal_wait(ctx, signal, WEFT_EQ, 1, NULL), WEFT_ERR_INTERRUPTED,
          "the program's check ended the wait");
    CHECK(check.asked == 3 && now_s() - begun > 0.14);
    int before = check.asked;
    CHECK(pthread_create(&thread, NULL, wait_for_one, &helper) == 0);
    nanosleep(&(struct timespec){.tv_nsec = 160 * 1000 * 1000}, NULL);
    CHECK(check.asked == before);
    check.ends_at = before + 1;
    FAILS(weft_wait_until(ctx, WEFT_UINT64, signal, WEFT_EQ, 1), WEFT_ERR_INTERRUPTED, "waited");
    OK(weft_set_interrupt(job, NULL, NULL));
    OK(weft_signal(ctx, signal, 1, WEFT_SIGNAL_SET, me));
    OK(weft_signal_wait(ctx, signal, WEFT_EQ, 1, NULL));
    pthread_join(thread, NULL);
    OK(weft_barrier(weft_team_world(job)));
    OK(weft_free(job, signal));
}

static weft_group *start;

/* Joins the job of `start`, which the check of PE 0 ends. PE 2 comes after that. */
static void *join_interrupted(void *argument)
{
    int me = (int)(intptr_t)argument;
    weft_init_attr attr = {.size = sizeof attr, .group = start, .group_pe = me};
    weft_job *job;
    struct check check = {0, 3};
    if (me == 0)
        OK(weft_set_interrupt(NULL, end_wait, &check));
    if (me == 2)
        nanosleep(&(struct timespec){.tv_nsec = 900 * 1000 * 1000}, NULL);
    double begun = now_s();
    if (me == 0)
        FAILS(weft_init(&job, &attr), WEFT_ERR_INTERRUPTED, "PE 0 was interrupted");
    else
        FAILS(weft_init(&job, &attr), WEFT_ERR_JOB, "PE 0 was interrupted");
    CHECK(me != 0 || (check.asked == 3 && now_s() - begun > 0.09));
    return NULL;
}

/* The check that a thread has before it joins a job is also that of the job. */
static void *join_with_check(void *argument)
{
    weft_job *job;
    struct check check = {0, 2};
    OK(weft_set_interrupt(NULL, end_wait, &check));
    OK(weft_init(&job, NULL));
    uint64_t *signal = alloc(job, 8);
    FAILS(weft_signal_wait(weft_default_ctx(job), signal, WEFT_EQ, 1, NULL), WEFT_ERR_INTERRUPTED,
          "the program's check ended the wait");
    OK(weft_finalize(job));
    OK(weft_set_interrupt(NULL, NULL, NULL));
    return argument;
}

static void interrupted_starts(void)
{
    pthread_t threads[3];
    OK(weft_group_create(3, &start));
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, join_interrupted, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    weft_group_destroy(start);
    CHECK(pthread_create(&threads[0], NULL, join_with_check, NULL) == 0);
    pthread_join(threads[0], NULL);
}

static void *run_pe(void *argument)
{
    int me = (int)(intptr_t)argument;
    weft_init_attr attr = {.size = sizeof attr,
                           .thread = WEFT_THREAD_MULTIPLE,
                           .group = group,
                           .group_pe = me,
                           .heap_bytes = 4 << 20};
    weft_job *job;
    OK(weft_init(&job, &attr));
    CHECK(weft_my_pe(job) == me && weft_n_pes(job) == PES);
    CHECK(weft_query_thread(job) == WEFT_THREAD_MULTIPLE);
    uint64_t *counters = alloc(job, 8), *mail = alloc(job, HELPERS * WORDS * 8),
             *signal = alloc(job, HELPERS * 2 * 8);
    struct helper helpers[HELPERS];
    pthread_t threads[HELPERS];
    for (int i = 0; i < HELPERS; i++) {
        helpers[i] = (struct helper){job, counters, mail, signal, i, me};
        CHECK(pthread_create(&threads[i], NULL, help, &helpers[i]) == 0);
    }
    for (int i = 0; i < HELPERS; i++)
        pthread_join(threads[i], NULL);
    OK(weft_barrier(weft_team_world(job)));
    uint64_t total;
    OK(weft_atomic_fetch64(weft_default_ctx(job), counters, &total, 0));
    CHECK(total == PES * HELPERS * ROUNDS);
    collectives(job, me);
    interrupted(job, me);
    OK(weft_prove(job));
    OK(weft_finalize(job));
    return NULL;
}

int main(void)
{
    pthread_t threads[PES];
    interrupted_starts();
    OK(weft_group_create(PES, &group));
    for (int i = 0; i < PES; i++)
        CHECK(pthread_create(&threads[i], NULL, run_pe, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < PES; i++)
        pthread_join(threads[i], NULL);
    weft_group_destroy(group);
    return 0;
}
