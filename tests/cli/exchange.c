/* SPDX-License-Identifier: Apache-2.0 */
/* exchange ROUNDS BYTES [HOW PE]: a PE that starts, exchanges BYTES bytes with all others ROUNDS
 * times, checks what arrived, and leaves. PE 0 prints the times. HOW is what PE number PE does in
 * the last round: "sleeps" (never reaches it), "differs" (exchanges one byte more), "dies". */
#include "base/clock.h"
#include "boot/boot.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned char byte_of(int pe, int round, size_t at)
{
    return (unsigned char)(31 * pe + 7 * round + (int)at);
}

static void misbehave(const char *how)
{
    if (strcmp(how, "sleeps") == 0)
        sleep(600);
    if (strcmp(how, "dies") == 0)
        raise(SIGKILL);
}

static int exchange(struct boot *boot, int round, size_t bytes)
{
    unsigned char *mine = calloc(1, bytes + 1), *all = calloc((size_t)boot->npes, bytes + 1);
    if (!mine || !all)
        return 1;
    for (size_t at = 0; at < bytes; at++)
        mine[at] = byte_of(boot->pe, round, at);
    int wrong = boot->ops->allgather(boot, mine, all, bytes) != WEFT_OK;
    if (wrong)
        fprintf(stderr, "PE %d: %s\n", boot->pe, weft_last_error());
    for (int pe = 0; !wrong && pe < boot->npes; pe++)
        for (size_t at = 0; !wrong && at < bytes; at++)
            wrong = all[(size_t)pe * bytes + at] != byte_of(pe, round, at);
    free(mine);
    free(all);
    return wrong;
}

int main(int argc, char **argv)
{
    struct boot *boot;
    const int rounds = argc > 2 ? atoi(argv[1]) : 1;
    const size_t bytes = argc > 2 ? (size_t)atoi(argv[2]) : 8;
    const char *how = argc > 4 ? argv[3] : "";
    uint64_t began = clock_now_ns();
    if (boot_open(&boot, NULL, 0)) {
        fprintf(stderr, "%s\n", weft_last_error());
        return 1;
    }
    uint64_t opened = clock_now_ns();
    int wrong = 0;
    for (int round = 0; round < rounds && !wrong; round++) {
        bool odd = argc > 4 && round + 1 == rounds && boot->pe == atoi(argv[4]);
        if (odd)
            misbehave(how);
        wrong = exchange(boot, round, bytes + (odd && strcmp(how, "differs") == 0));
    }
    uint64_t ended = clock_now_ns();
    if (boot->pe == 0 && !wrong)
        printf("%d PEs on %d nodes, start %.1f ms, each of %d exchanges of %zu bytes %.1f ms\n",
               boot->npes, boot->nodes, (double)(opened - began) / 1e6, rounds, bytes,
               (double)(ended - opened) / 1e6 / rounds);
    boot->ops->close(boot, !wrong);
    return wrong;
}
