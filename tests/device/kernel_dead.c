/* SPDX-License-Identifier: Apache-2.0 */
/* A PE is killed while kernels of the other PEs wait for a signal from it, and their hosts wait for
 * those kernels in stream synchronization. The kernels end, and the hosts report which PE died.
 * Each PE prints its process id, then the message and the time since the death; told_dead.sh checks
 * the output. */
#include "device_test.h"

enum { BLOCKS = 3, ROUNDS = 7 };

/* Every PE signals each round to every other, except the last round, which is never signalled. */
WEFT_KERNEL(rounds, (uint64_t *, signals), (uint64_t *, reached))
{
    int me = weft_dev_my_pe(), n = weft_dev_n_pes();
    unsigned block = weft_dev_block_rank();
    uint64_t *own = signals + (size_t)block * (unsigned)n;
    for (uint64_t round = 1; round <= ROUNDS + 1 && !weft_dev_job_failed(0); round++) {
        for (int to = 0; to < n && round <= ROUNDS; to++)
            if (to != me)
                weft_thread_signal(own + me, round, WEFT_SIGNAL_SET, to);
        for (int from = 0; from < n; from++)
            if (from != me)
                weft_thread_signal_wait(own + from, WEFT_GE, round);
        if (round <= ROUNDS)
            reached[block] = round;
    }
}

#if WEFT_HOST_CODE
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static bool all_wait(const uint64_t *reached)
{
    uint64_t blocks[BLOCKS];
    fetch(blocks, reached, sizeof blocks);
    for (int block = 0; block < BLOCKS; block++)
        if (blocks[block] != ROUNDS)
            return false;
    return true;
}

int main(void)
{
    signal(SIGTERM, SIG_IGN); /* ignore the launcher's SIGTERM: each PE ends by itself, also on a
                                 busy machine */
    device_begin();
    uint64_t *signals = symmetric(BLOCKS * (size_t)n_pes * sizeof *signals);
    uint64_t *reached = symmetric(BLOCKS * sizeof *reached);
    double *died, when = 0;
    OK(weft_alloc(job, WEFT_HOST, sizeof *died, 0, WEFT_ALLOC_ZERO, (void **)&died));
    fprintf(stderr, "process %d\n", (int)getpid());
    barrier();
    OK(WEFT_LAUNCH(rounds, BLOCKS, 1, 0, NULL, signals, reached));
    if (me == 1) {
        while (!all_wait(reached))
            usleep(1000);
        usleep(300 * 1000); /* the other hosts now wait only for their kernels */
        when = now();
        for (int pe = 0; pe < n_pes; pe++)
            OK(weft_put(ctx, died, &when, sizeof when, pe));
        OK(weft_quiet(ctx));
        raise(SIGKILL);
    }
    weft_status status = weft_stream_synchronize(NULL);
    memcpy(&when, died, sizeof when);
    fprintf(stderr, "PE %d was told after %.2f s: %s: %s; its kernel ended before: %s\n", me,
            now() - when, weft_status_name(status), weft_last_error(), weft_status_name(status));
    return 3;
}
#endif
