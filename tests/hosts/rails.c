/* SPDX-License-Identifier: Apache-2.0 */
/* Large transfers to the PE half the job ahead, and from the one half the job behind; every round
 * compares the bytes, for SECONDS seconds. Puts with signal, puts before a fence, and gets, in both
 * directions at once, at addresses next to all boundaries. The program prints the path, the
 * duration of the longest round, and the rate of the gets.
 *
 *   rails SECONDS [BYTES [quiet | own]]
 *
 * quiet: a failed operation is printed and ends the program with status 0.
 * own: source and destination are private memory, not a segment. */
#include <weft.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool quiet;
static int me;
static double getting; /* seconds spent in gets */

static void check(weft_status status, const char *what)
{
    if (!status)
        return;
    printf("told %d: %s: %s: %s\n", me, what, weft_status_name(status), weft_last_error());
    fflush(stdout);
    _Exit(quiet ? 0 : 1);
}

#define OK(call) check(call, #call)

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static unsigned char content(size_t i, int pe, int round)
{
    return (unsigned char)((i * 7 + i / 251 + i / 65537) ^ (size_t)(pe * 85 + round * 29));
}

static void fill(unsigned char *at, size_t bytes, int pe, int round)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = content(i, pe, round);
}

static void compare(const unsigned char *at, size_t bytes, int pe, int round, const char *what)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != content(i, pe, round)) {
            printf("PE %d: %s of round %d: byte %zu is %d and not %d\n", me, what, round, i, at[i],
                   content(i, pe, round));
            fflush(stdout);
            _Exit(3);
        }
}

struct area {
    uint64_t signal, flag, stop;
    unsigned char bytes[];
};

/* The later of two puts wins, whichever NICs carry them. */
static void one_round(weft_job *job, struct area *area, unsigned char *mine, size_t bytes,
                      int round)
{
    int n = weft_n_pes(job), step = (n + 1) / 2, to = (me + step) % n, from = (me + n - step) % n;
    weft_ctx *ctx = weft_default_ctx(job);
    size_t at = (size_t)round % 3 * 4099; /* unaligned offsets */
    unsigned char *there = area->bytes + at;
    fill(mine, bytes, me, round);
    OK(weft_put_signal(ctx, there, mine, bytes, &area->signal, (uint64_t)round, WEFT_SIGNAL_SET,
                       to));
    OK(weft_signal_wait(ctx, &area->signal, WEFT_EQ, (uint64_t)round, NULL));
    compare(there, bytes, from, round, "a put with a signal");
    OK(weft_barrier(weft_team_world(job)));
    unsigned char *other = mine + bytes;
    fill(other, bytes, me, round + 1);
    OK(weft_put_nbi(ctx, there, mine, bytes, to));
    OK(weft_fence(ctx));
    OK(weft_put_nbi(ctx, there, other, bytes, to));
    OK(weft_fence(ctx));
    OK(weft_atomic_set64(ctx, &area->flag, (uint64_t)round, to));
    OK(weft_wait_until(ctx, WEFT_UINT64, &area->flag, WEFT_EQ, (uint64_t)round));
    compare(there, bytes, from, round + 1, "the later of two puts");
    OK(weft_quiet(ctx));
    OK(weft_barrier(weft_team_world(job)));
    memset(mine, 0, bytes);
    double begun = now();
    OK(weft_get(ctx, mine, there, bytes, to));
    getting += now() - begun;
    compare(mine, bytes, me, round + 1, "a get");
    OK(weft_barrier(weft_team_world(job)));
}

int main(int argc, char **argv)
{
    weft_job *job;
    double seconds = argc > 1 ? atof(argv[1]) : 0, longest = 0;
    size_t bytes = argc > 2 ? (size_t)atoll(argv[2]) : 6000011;
    quiet = argc > 3 && strcmp(argv[3], "quiet") == 0;
    bool own = argc > 3 && strcmp(argv[3], "own") == 0;
    OK(weft_init(&job, NULL));
    me = weft_my_pe(job);
    int n = weft_n_pes(job), rounds = 0;
    weft_path_info path = {.size = sizeof path};
    for (int pe = 0; pe < n && strcmp(path.name ? path.name : "", "net") != 0; pe++)
        OK(weft_path_query(job, pe, &path));
    printf("PE %d: %s\n", me, path.reason);
    struct area *area;
    /* unaligned */
    unsigned char *memory = own ? malloc(2 * bytes + 1) : NULL, *mine = memory + own;
    OK(weft_alloc(job, WEFT_HOST, sizeof *area + bytes + 3 * 4099, 0, 0, (void **)&area));
    if (!own)
        OK(weft_alloc(job, WEFT_HOST, 2 * bytes, 0, 0, (void **)&mine));
    memset(area, 0, sizeof *area);
    OK(weft_barrier(weft_team_world(job)));
    double start = now();
    printf("ready\n");
    fflush(stdout);
    for (int round = 1; !area->stop; round++, rounds++) {
        double begun = now();
        one_round(job, area, mine, bytes, round);
        double took = now() - begun;
        longest = took > longest ? took : longest;
        if (me == 0 && now() - start >= seconds)
            for (int pe = 0; pe < n; pe++)
                OK(weft_atomic_set64(weft_default_ctx(job), &area->stop, 1, pe));
        OK(weft_quiet(weft_default_ctx(job)));
        OK(weft_barrier(weft_team_world(job)));
    }
    printf("PE %d: %d rounds, the longest %.1f s, gets at %.1f MB/s\n", me, rounds, longest,
           1e-6 * (double)bytes * rounds / getting);
    OK(weft_finalize(job));
    free(memory);
    return 0;
}
