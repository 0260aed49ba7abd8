/* SPDX-License-Identifier: Apache-2.0 */
/* put with signal into GPU memory with the signal in either heap; host waits for and tests of
 * variables in GPU memory; the limit of a wait. */
#include "gpu_test.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>
#include <weft.h>

enum { WORDS = 8192, ROUNDS = 20 };

static weft_job *job;
static weft_ctx *ctx;
static int me, n, next, previous;

static void ring(uint64_t *data, uint64_t *signal, const char *what)
{
    uint64_t *source = malloc(WORDS * 8), *seen = malloc(WORDS * 8), value = 0;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        for (uint64_t i = 0; i < WORDS; i++)
            source[i] = round << 32 | (uint64_t)me << 20 | i;
        if (round % 2)
            OK(weft_put_signal(ctx, data, source, WORDS * 8, signal, round, WEFT_SIGNAL_SET, next));
        else
            OK(weft_put_signal_nbi(ctx, data, source, WORDS * 8, signal, 1, WEFT_SIGNAL_ADD, next));
        OK(weft_signal_wait(ctx, signal, WEFT_GE, round, &value));
        CHECK(value >= round);
        OK(weft_signal_fetch(ctx, signal, &value));
        CHECK(value >= round);
        look(job, seen, data, WORDS * 8);
        for (uint64_t i = 0; i < WORDS; i++) {
            if (seen[i] != (round << 32 | (uint64_t)previous << 20 | i)) {
                fprintf(stderr, "%s, round %llu: word %llu is %#llx behind its signal\n", what,
                        (unsigned long long)round, (unsigned long long)i,
                        (unsigned long long)seen[i]);
                exit(1);
            }
        }
        OK(weft_barrier(weft_team_world(job)));
    }
    free(source);
    free(seen);
}

static void waits(void *place)
{
    uint64_t zero[8] = {0};
    int result;
    size_t index, indices[4], count;
    fill(job, place, zero, sizeof zero);
    int32_t *word = place;
    OK(weft_barrier(weft_team_world(job)));
    OK(weft_test(ctx, WEFT_INT32, word, WEFT_LT, 0, &result));
    CHECK(result == 0);
    OK(weft_barrier(weft_team_world(job)));
    OK(weft_p32(ctx, word, (uint32_t)-5, next));
    OK(weft_wait_until(ctx, WEFT_INT32, word, WEFT_LT, 0));
    OK(weft_p32(ctx, word + 2, 7, next));
    OK(weft_wait_until_any(ctx, WEFT_INT32, word, 4, NULL, WEFT_GT, 5, &index));
    CHECK(index == 2);
    OK(weft_wait_until_some(ctx, WEFT_INT32, word, 4, indices, NULL, WEFT_NE, 0, &count));
    CHECK(count == 2 && indices[0] == 0 && indices[1] == 2);
    uint64_t *wide = (uint64_t *)place + 4;
    OK(weft_p64(ctx, wide, 1ull << 63, next)); /* large if unsigned, negative if signed */
    OK(weft_wait_until(ctx, WEFT_UINT64, wide, WEFT_GT, 5));
    OK(weft_wait_until(ctx, WEFT_INT64, wide, WEFT_LT, (uint64_t)-5));
    OK(weft_barrier(weft_team_world(job)));
}

/* Each type on both sides of its sign bit: large unsigned values are negative signed ones. */
static void wait_types(char *place)
{
    uint64_t zero[4] = {0};
    int result;
    fill(job, place, zero, sizeof zero);
    OK(weft_p16(ctx, place, 0xfffd, me));
    OK(weft_p32(ctx, place + 8, 0x80000001u, me));
    OK(weft_p64(ctx, place + 16, 1ull << 63, me));
    OK(weft_quiet(ctx));
    OK(weft_wait_until(ctx, WEFT_INT16, place, WEFT_LT, (uint64_t)-2));
    OK(weft_wait_until(ctx, WEFT_INT16, place, WEFT_EQ, (uint64_t)-3));
    OK(weft_wait_until(ctx, WEFT_UINT16, place, WEFT_EQ, 0xfffd));
    OK(weft_wait_until(ctx, WEFT_UINT16, place, WEFT_GT, 0x8000));
    OK(weft_wait_until(ctx, WEFT_INT32, place + 8, WEFT_LE, (uint64_t)-0x7fffffff));
    OK(weft_wait_until(ctx, WEFT_UINT32, place + 8, WEFT_GE, 0x80000001u));
    OK(weft_wait_until(ctx, WEFT_INT64, place + 16, WEFT_LT, (uint64_t)INT64_MIN + 1));
    OK(weft_wait_until(ctx, WEFT_UINT64, place + 16, WEFT_GT, INT64_MAX));
    OK(weft_test(ctx, WEFT_INT16, place, WEFT_GT, 0, &result));
    CHECK(result == 0);
    OK(weft_test(ctx, WEFT_UINT32, place + 8, WEFT_LT, 0x80000001u, &result));
    CHECK(result == 0);
    OK(weft_barrier(weft_team_world(job)));
}

/* Data and signal of a PE arrive although that PE calls no function of Weft: it waits for an
 * operating system signal that the receiver sends. `pid`: a word of host memory. */
static void away(uint64_t *data, uint64_t *signal, uint64_t *pid)
{
    enum { LIMIT_S = 10 };
    uint64_t *source = gpu_alloc(job, WORDS * 8, 0), *seen = malloc(WORDS * 8);
    const struct timespec limit = {.tv_sec = LIMIT_S};
    sigset_t told;
    sigemptyset(&told);
    sigaddset(&told, SIGUSR1);
    OK(weft_p64(ctx, pid, (uint64_t)getpid(), next));
    OK(weft_barrier(weft_team_world(job)));
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        for (uint64_t i = 0; i < WORDS; i++)
            seen[i] = round << 32 | i;
        fill(job, source, seen, WORDS * 8);
        OK(weft_barrier(weft_team_world(job)));
        if (me == 0) {
            OK(weft_put_signal_nbi(ctx, data, source, WORDS * 8, signal, round, WEFT_SIGNAL_SET,
                                   next));
            CHECK(sigtimedwait(&told, NULL, &limit) == SIGUSR1);
        } else {
            OK(weft_signal_wait(ctx, signal, WEFT_EQ, round, NULL));
            look(job, seen, data, WORDS * 8);
            for (uint64_t i = 0; i < WORDS; i++)
                CHECK(seen[i] == (round << 32 | i));
            CHECK(kill((pid_t)*pid, SIGUSR1) == 0);
        }
        OK(weft_barrier(weft_team_world(job)));
    }
    free(seen);
}

int main(int argc, char **argv)
{
    sigset_t told;
    sigemptyset(&told);
    sigaddset(&told, SIGUSR1);
    sigprocmask(SIG_BLOCK, &told, NULL); /* for every thread; see away() */
    OK(weft_init(&job, NULL));
    ctx = weft_default_ctx(job);
    me = weft_my_pe(job);
    n = weft_n_pes(job);
    next = (me + 1) % n;
    previous = (me + n - 1) % n;
    uint64_t *gpu_data = gpu_alloc(job, WORDS * 8, WEFT_ALLOC_ZERO);
    uint64_t *gpu_signal = gpu_alloc(job, 64, WEFT_ALLOC_ZERO);
    uint64_t *host_data = alloc(job, WORDS * 8), *host_signal = alloc(job, 64);
    uint64_t zero = 0;
    if (argc > 1 && strcmp(argv[1], "expire") == 0) {
        FAILS(weft_signal_wait(ctx, gpu_signal, WEFT_EQ, 99, NULL), WEFT_ERR_TIMEOUT,
              "expected == 99");
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "waits") == 0) {
        waits(gpu_data);
        OK(weft_finalize(job));
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "away") == 0) {
        away(gpu_data, gpu_signal, host_data);
        OK(weft_finalize(job));
        return 0;
    }
    ring(gpu_data, gpu_signal, "GPU data, GPU signal");
    ring(gpu_data, host_signal, "GPU data, host signal");
    fill(job, gpu_signal, &zero, 8);
    OK(weft_barrier(weft_team_world(job)));
    ring(host_data, gpu_signal, "host data, GPU signal");
    waits(gpu_data);
    wait_types((char *)gpu_data);
    waits(host_data);
    OK(weft_finalize(job));
    return 0;
}
