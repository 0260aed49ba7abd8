/* SPDX-License-Identifier: Apache-2.0 */
/* Large copies over several routes: the text of weft_path_query(), and that data, signals and
 * overlapping copies give the same result as with one route, before and after the heap grows.
 *   stripe WORDS           expected text about the routes to the other PE; "-": any text
 *   stripe WORDS WEFT ...  also in the output of the command WEFT, explain --job, in another
 *                          process
 * With STRIPE_MIB in the environment it prints the rate of a put of that size. */
#include "gpu_test.h"

#include <ctype.h>
#include <time.h>
#include <unistd.h>
#include <weft.h>

enum {
    LARGE = 9 * 1024 * 1024 + 4099, /* large enough for several routes, and odd */
    WORDS = LARGE / 8,
    ROUNDS = 4,
};

static weft_job *job;
static weft_ctx *ctx;
static int me, other;

static void expect(const char *words)
{
    weft_path_info info = {.size = sizeof info, .kind = WEFT_GPU};
    OK(weft_path_query(job, other, &info));
    if (me == 0)
        printf("%s: %s\n", info.name, info.reason);
    if (strcmp(words, "-") != 0 && !strstr(info.reason, words)) {
        fprintf(stderr, "PE %d: %s: %s; expected: %s\n", me, info.name, info.reason, words);
        exit(1);
    }
}

/* The same text as another process reads it. */
static void expect_outside(const char *weft, const char *words)
{
    char command[512], all[8192];
    size_t used = 0;
    snprintf(command, sizeof command, "'%s' explain --job %d %d %d", weft, (int)getpid(), me,
             other);
    FILE *output = popen(command, "r");
    CHECK(output != NULL);
    for (int c; output && (c = fgetc(output)) != EOF && used + 1 < sizeof all;)
        if (!isspace(c))
            all[used++] = (char)c;
        else if (used && all[used - 1] != ' ')
            all[used++] = ' '; /* lines are broken anywhere */
    all[used] = '\0';
    CHECK(pclose(output) == 0);
    if (!strstr(all, words)) {
        fprintf(stderr, "PE %d: %s does not say: %s\n", me, command, words);
        exit(1);
    }
}

/* Puts and gets of odd sizes at odd addresses; the bytes around them do not change. */
static void odd_places(unsigned char *to, unsigned char *from, unsigned char *plain)
{
    static const size_t sizes[] = {LARGE, LARGE - 1, 65536 + 7, 8 << 20, 3 << 20, 131072};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        size_t bytes = sizes[k], at = 3 * k + 1;
        make_pattern(plain, me + (int)k, LARGE);
        fill(job, from, plain, LARGE);
        memset(plain, 0xa5, LARGE + 64);
        fill(job, to, plain, LARGE + 64);
        OK(weft_barrier(weft_team_world(job)));
        if (k % 2)
            OK(weft_put(ctx, to + at, from, bytes, other));
        else
            OK(weft_put_nbi(ctx, to + at, from, bytes, other));
        OK(weft_barrier(weft_team_world(job)));
        look(job, plain, to, LARGE + 64);
        CHECK(pattern_end(plain + at, other + (int)k, 0, bytes) == bytes);
        for (size_t i = 0; i < LARGE + 64; i = i + 1 == at ? at + bytes : i + 1)
            CHECK(plain[i] == 0xa5);
        memset(plain, 0x5a, LARGE + 64);
        fill(job, to, plain, LARGE + 64);
        if (k % 2)
            OK(weft_get_nbi(ctx, to + at, from + at, bytes - at, other));
        else
            OK(weft_get(ctx, to + at, from + at, bytes - at, other));
        OK(weft_quiet(ctx));
        look(job, plain, to, LARGE + 64);
        CHECK(pattern_end(plain, other + (int)k, at, bytes) == bytes);
        for (size_t i = 0; i < LARGE + 64; i = i + 1 == at ? bytes : i + 1)
            CHECK(plain[i] == 0x5a);
        OK(weft_barrier(weft_team_world(job)));
    }
}

static void words_of(uint64_t *words, uint64_t round)
{
    for (size_t i = 0; i < WORDS; i++)
        words[i] = round << 56 | (uint64_t)me << 48 | i;
}

static void check_words(uint64_t *words, uint64_t *at, uint64_t round)
{
    look(job, words, at, 8 * WORDS);
    for (size_t i = 0; i < WORDS; i++)
        CHECK(words[i] == (round << 56 | (uint64_t)other << 48 | i));
}

/* The signal, in the put or after a fence, comes after every part of the data. */
static void behind_all_parts(uint64_t *to, uint64_t *from, uint64_t *signal, uint64_t *words)
{
    uint64_t zero = 0;
    fill(job, signal, &zero, sizeof zero);
    OK(weft_barrier(weft_team_world(job)));
    for (uint64_t round = 1; round <= 3 * ROUNDS; round++) {
        words_of(words, round);
        fill(job, from, words, 8 * WORDS);
        if (round % 3 == 0) {
            OK(weft_put_signal(ctx, to, from, 8 * WORDS, signal, round, WEFT_SIGNAL_SET, other));
        } else if (round % 3 == 1) {
            OK(weft_put_signal_nbi(ctx, to, from, 8 * WORDS, signal, 1, WEFT_SIGNAL_ADD, other));
        } else {
            OK(weft_put_nbi(ctx, to, from, 8 * WORDS, other));
            OK(weft_fence(ctx));
            OK(weft_p64(ctx, signal, round, other));
        }
        OK(weft_signal_wait(ctx, signal, WEFT_GE, round, NULL));
        check_words(words, to, round);
        OK(weft_barrier(weft_team_world(job)));
    }
}

/* Puts of one context to one address, the later one with the later value: large after small, small
 * after large, large after large. `unasked`: every other round has no fence, because striped copies
 * keep their order within a context, although the API does not promise it. */
static void one_behind_the_other(uint64_t *to, uint64_t *from, uint64_t *words, int unasked)
{
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t *second = from + WORDS;
        uint64_t small[5] = {7, 8, 9, 10, round};
        words_of(words, round);
        fill(job, from, words, 8 * WORDS);
        words_of(words, round + 100);
        fill(job, second, words, 8 * WORDS);
        OK(weft_barrier(weft_team_world(job)));
        OK(weft_put(ctx, to + WORDS - 11, small, sizeof small, other));
        OK(unasked && round % 2 ? WEFT_OK : weft_fence(ctx));
        OK(weft_put_nbi(ctx, to, from, 8 * WORDS, other));
        OK(unasked && round % 2 ? WEFT_OK : weft_fence(ctx));
        OK(weft_put(ctx, to + WORDS - 11, small, sizeof small, other));
        OK(unasked && round % 2 ? WEFT_OK : weft_fence(ctx));
        OK(weft_put_nbi(ctx, to, second, 8 * WORDS, other));
        OK(unasked && round % 2 ? WEFT_OK : weft_fence(ctx));
        OK(weft_put(ctx, to + WORDS - 5, small, sizeof small, other));
        OK(weft_barrier(weft_team_world(job)));
        look(job, words, to, 8 * WORDS);
        for (size_t i = 0; i < WORDS - 5; i++)
            CHECK(words[i] == ((round + 100) << 56 | (uint64_t)other << 48 | i));
        for (size_t i = 0; i < 5; i++)
            CHECK(words[WORDS - 5 + i] == (i < 4 ? 7 + i : round));
        OK(weft_barrier(weft_team_world(job)));
    }
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* Prints the best of 5 rates of PE 0, and asserts nothing. */
static void print_rate(char *to, const char *from, size_t bytes)
{
    double best = 0;
    for (int i = 0; me == 0 && i < 5; i++) {
        double begun = now_us();
        OK(weft_put_nbi(ctx, to, from, bytes, other));
        OK(weft_quiet(ctx));
        double us = now_us() - begun;
        best = i == 0 || us < best ? us : best;
    }
    if (me == 0)
        printf("put of %zu MiB and quiet: %.0f us, %.1f GB/s\n", bytes >> 20, best,
               (double)bytes / best * 1e-3);
    OK(weft_barrier(weft_team_world(job)));
}

int main(int argc, char **argv)
{
    OK(weft_init(&job, NULL));
    ctx = weft_default_ctx(job);
    me = weft_my_pe(job);
    other = me ^ 1;
    CHECK(weft_n_pes(job) % 2 == 0 && argc > 1);
    int figures = getenv("STRIPE_MIB") != NULL;
    size_t room = figures ? (size_t)atoi(getenv("STRIPE_MIB")) << 20 : 0;
    unsigned char *to = gpu_alloc(job, LARGE + 64, 0), *from = gpu_alloc(job, 2 * LARGE + 64, 0);
    uint64_t *signal = gpu_alloc(job, 64, WEFT_ALLOC_ZERO);
    unsigned char *plain = malloc(LARGE + 64);
    odd_places(to, from, plain);
    expect(argv[1]);
    behind_all_parts((uint64_t *)(void *)to, (uint64_t *)(void *)from, signal, (void *)plain);
    one_behind_the_other((uint64_t *)(void *)to, (uint64_t *)(void *)from, (void *)plain,
                         strcmp(argv[1], "-"));
    /* More than the first chunk: the same routes reach the new memory. */
    unsigned char *grown = gpu_alloc(job, (64u << 20) + LARGE, 0);
    odd_places(grown + (64u << 20) - 64, from, plain);
    expect(argv[1]);
    if (argc > 2 && me == 0)
        expect_outside(argv[2], argv[1]);
    OK(weft_barrier(weft_team_world(job)));
    if (figures) {
        print_rate(gpu_alloc(job, room, 0), gpu_alloc(job, room, 0), room);
        expect(argv[1]); /* for routes that only so large a copy measures */
    }
    free(plain);
    OK(weft_finalize(job));
    return 0;
}
