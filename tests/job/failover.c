/* SPDX-License-Identifier: Apache-2.0 */
/* An adapter fails while a job uses it: no request is lost, and none is executed twice. Every PE is
 * a node, so that all pairs use path gda, and path net takes over.
 *
 *   failover WHAT AT PE   PE's adapter does SOFT_HCA_FAIL=WHAT at its request AT
 *   failover result ...   the same while every PE fetches: a result may be lost, and then the job
 *                         ends and says so
 *
 * What arrives twice is seen: rounds use two buffers in turn. A PE overwrites the one that it has
 * received, and checks after the next round that this is still there. */
#include "tests/job/job.h"

#include <pthread.h>
#include <time.h>

enum { ROUNDS = 500, WORDS = 37, MIDDLE = 5, POISON = 0xee };

static weft_job *job;
static weft_ctx *ctx;
static int me, npes, next, previous;
static unsigned long long rounds;
static int several_adapters;

static struct area {
    struct round {
        uint64_t data[WORDS];    /* by an nbi put in place */
        uint64_t small[2];       /* by an inline request of one block */
        uint64_t middle[MIDDLE]; /* by an inline request of two blocks */
        uint64_t large[4 * WORDS], value;
    } rounds[2];
    _Alignas(64) uint64_t signal;
    _Alignas(64) uint64_t back; /* rounds that the next PE has checked */
    _Alignas(64) uint64_t sum, streams;
    uint32_t bits, exclusive;
    uint64_t wide;
} * area, *source;

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void fill(uint64_t *words, int n, uint64_t round)
{
    for (int i = 0; i < n; i++)
        words[i] = round * 1000003 + (uint64_t)i * 7919 + (uint64_t)me;
}

static void check(uint64_t *words, int n, uint64_t round, const char *which)
{
    for (int i = 0; i < n; i++) {
        uint64_t wanted = round * 1000003 + (uint64_t)i * 7919 + (uint64_t)previous;
        if (words[i] != wanted) {
            fprintf(stderr, "PE %d, round %llu: word %d of %s is %#llx, not %#llx\n", me,
                    (unsigned long long)round, i, which, (unsigned long long)words[i],
                    (unsigned long long)wanted);
            exit(1);
        }
    }
    memset(words, POISON, (size_t)n * sizeof *words);
}

static void check_poison(const struct round *of, uint64_t round)
{
    for (size_t i = 0; i < sizeof *of; i++)
        if (((const unsigned char *)of)[i] != POISON) {
            fprintf(stderr, "PE %d, round %llu: byte %zu was written again\n", me,
                    (unsigned long long)round, i);
            exit(1);
        }
}

/* Sends a round to the next PE. */
static void send_round(uint64_t round)
{
    struct round *to = &area->rounds[round % 2], *from = &source->rounds[round % 2];
    fill(from->data, WORDS, round);
    fill(from->small, 2, round);
    fill(from->middle, MIDDLE, round);
    fill(from->large, 4 * WORDS, round);
    OK(weft_put_nbi(ctx, to->data, from->data, sizeof to->data, next));
    OK(weft_put_nbi(ctx, to->small, from->small, sizeof to->small, next));
    OK(weft_put(ctx, to->middle, from->middle, sizeof to->middle, next));
    OK(weft_p64(ctx, &to->value, round, next));
    OK(weft_atomic_add64(ctx, &area->sum, round, next));
    OK(weft_atomic_nbi(ctx, WEFT_AMO_OR, 4, &area->bits, 0, 1u << round % 32, NULL, next));
    OK(weft_atomic_nbi(ctx, WEFT_AMO_XOR, 4, &area->exclusive, 0, (uint32_t)round, NULL, next));
    OK(weft_atomic_nbi(ctx, WEFT_AMO_OR, 8, &area->wide, 0, (uint64_t)1 << round % 64, NULL, next));
    if (several_adapters) /* each has its own order */
        OK(weft_fence(ctx));
    OK(weft_put_signal_nbi(ctx, to->large, from->large, sizeof to->large, &area->signal, 1,
                           WEFT_SIGNAL_ADD, next));
}

/* Checks a round of the previous PE, and reports that it has arrived. */
static void receive_round(uint64_t round)
{
    struct round *at = &area->rounds[round % 2];
    uint64_t seen;
    OK(weft_signal_wait(ctx, &area->signal, WEFT_GE, round, &seen));
    check(at->data, WORDS, round, "data");
    check(at->small, 2, round, "small");
    check(at->middle, MIDDLE, round, "middle");
    check(at->large, 4 * WORDS, round, "large");
    CHECK(at->value == round && seen == round);
    memset(&at->value, POISON, sizeof at->value);
    if (round > 1)
        check_poison(&area->rounds[(round + 1) % 2], round);
    OK(weft_p64(ctx, &area->back, round, previous));
}

static void run_rounds(double *longest)
{
    double begun = now_ms();
    for (uint64_t round = 1; round <= rounds; round++) {
        uint64_t got = 0;
        send_round(round);
        receive_round(round);
        OK(weft_wait_until(ctx, WEFT_UINT64, &area->back, WEFT_GE, round));
        OK(weft_get(ctx, &got, &area->sum, sizeof got, next));
        OK(weft_quiet(ctx));
        CHECK(got >= round * (round + 1) / 2);
        double passed = now_ms() - begun;
        begun = now_ms();
        *longest = passed > *longest ? passed : *longest;
    }
}

/* A second thread adds to a word of every PE, over a context of its own. */
static void *run_stream(void *unused)
{
    weft_ctx *own;
    (void)unused;
    OK(weft_ctx_create(weft_team_world(job), 0, &own));
    for (uint64_t i = 0; i < 4 * rounds; i++) {
        OK(weft_atomic_nbi(own, WEFT_AMO_ADD, 8, &area->streams, 0, 1, NULL,
                           (int)(i % (uint64_t)npes)));
        if (i % 64 == 63)
            OK(weft_quiet(own));
    }
    OK(weft_quiet(own));
    OK(weft_ctx_destroy(own));
    return NULL;
}

static void check_totals(void)
{
    uint32_t bits = 0, exclusive = 0;
    uint64_t wide = 0, streams = 0;
    for (uint64_t round = 1; round <= rounds; round++) {
        bits |= 1u << round % 32;
        exclusive ^= (uint32_t)round;
        wide |= (uint64_t)1 << round % 64;
    }
    for (uint64_t i = 0; i < 4 * rounds; i++)
        streams += (uint64_t)npes * (i % (uint64_t)npes == (uint64_t)me);
    if (area->sum != rounds * (rounds + 1) / 2 || area->signal != rounds || area->bits != bits ||
        area->exclusive != exclusive || area->wide != wide || area->streams != streams) {
        fprintf(stderr,
                "PE %d: sum %llu of %llu, signal %llu of %llu, bits %#x of %#x, exclusive %#x of "
                "%#x, wide %#llx, streams %llu of %llu\n",
                me, (unsigned long long)area->sum, rounds * (rounds + 1) / 2,
                (unsigned long long)area->signal, rounds, area->bits, bits, area->exclusive,
                exclusive, (unsigned long long)area->wide, (unsigned long long)area->streams,
                (unsigned long long)streams);
        exit(1);
    }
}

/* Every PE takes tickets of PE 0. */
static int run_results(void)
{
    for (uint64_t i = 0; i < 8 * rounds; i++) {
        uint64_t ticket;
        weft_status status = weft_atomic_fetch_add64(ctx, &area->sum, 1, &ticket, 0);
        if (status) {
            fprintf(stderr, "PE %d, ticket %llu: %s\n", me, (unsigned long long)i,
                    weft_last_error());
            return 1;
        }
    }
    OK(weft_barrier(weft_team_world(job)));
    CHECK(me || area->sum == 8 * rounds * (uint64_t)npes);
    OK(weft_finalize(job));
    fprintf(stderr, "all tickets were taken once\n");
    return 0;
}

int main(int argc, char **argv)
{
    const char *pe = getenv("WEFT_PE");
    int results = argc > 1 && strcmp(argv[1], "result") == 0;
    char **what = argv + 1 + results;
    pthread_t thread;
    double longest = 0;
    if (argc < 4 + results)
        return 2;
    if (pe && atoi(pe) == atoi(what[2])) {
        setenv("SOFT_HCA_FAIL", what[0], 1);
        setenv("SOFT_HCA_FAIL_AT", what[1], 1);
    }
    OK(weft_init(&job, NULL));
    ctx = weft_default_ctx(job);
    me = weft_my_pe(job);
    npes = weft_n_pes(job);
    next = (me + 1) % npes;
    previous = (me + npes - 1) % npes;
    rounds = rounds_or(ROUNDS);
    several_adapters = getenv("WEFT_RAILS") != NULL;
    area = alloc(job, sizeof *area);
    source = alloc(job, sizeof *source);
    if (results)
        return run_results();
    CHECK(pthread_create(&thread, NULL, run_stream, NULL) == 0);
    run_rounds(&longest);
    CHECK(pthread_join(thread, NULL) == 0);
    OK(weft_barrier(weft_team_world(job)));
    check_totals();
    weft_path_info info = {.size = sizeof info};
    OK(weft_path_query(job, next, &info));
    printf("PE %d: the longest round took %.0f ms; path to PE %d: %s, %s\n", me, longest, next,
           info.name, info.reason);
    fflush(stdout);
    OK(weft_barrier(weft_team_world(job)));
    OK(weft_free(job, source));
    OK(weft_free(job, area));
    OK(weft_finalize(job));
    return 0;
}
