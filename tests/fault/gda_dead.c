/* SPDX-License-Identifier: Apache-2.0 */
/* A PE is killed while the blocks of all PEs put into each other's memory over path gda. The
 * kernels of the surviving PEs end, and their hosts get a status that names the dead PE. Each PE
 * prints its process ID, then the status and the time since the death; told_dead.sh checks the
 * output. */
#include "tests/device/device_test.h"

enum { BLOCKS = 3, BYTES = 4096, BEFORE = 50 };

/* Puts until an operation fails. */
WEFT_KERNEL(put_all, (char *, there), (char *, mine), (uint64_t *, counts))
{
    int me = weft_dev_my_pe(), n = weft_dev_n_pes();
    unsigned block = weft_dev_block_rank();
    uint64_t round = 0;
    while (!weft_dev_sync_block_or(weft_dev_job_failed(0)) && ++round < (uint64_t)1 << 40) {
        int to = (me + 1 + (int)(round % (unsigned)(n - 1))) % n;
        weft_block_put(there + (unsigned)me * BYTES, mine, BYTES, to);
        weft_thread_atomic_add64(counts + block, 1, to);
        weft_block_quiet();
    }
}

#if WEFT_HOST_CODE
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(void)
{
    /* The launcher sends SIGTERM to the survivors. Each ignores it and ends by itself, even on a
     * busy machine. */
    signal(SIGTERM, SIG_IGN);
    device_begin();
    char *there = symmetric((size_t)n_pes * BYTES), *mine = symmetric(BYTES);
    uint64_t *counts = symmetric(BLOCKS * sizeof *counts), seen = 0;
    double *died = symmetric(sizeof *died), when = 0;
    fprintf(stderr, "process %d\n", (int)getpid());
    barrier();
    OK(WEFT_LAUNCH(put_all, BLOCKS, 64, 0, NULL, there, mine, counts));
    if (me == 1) {
        while (seen < BEFORE) {
            fetch(&seen, counts, sizeof seen);
            usleep(1000);
        }
        when = now();
        for (int pe = 0; pe < n_pes; pe++)
            OK(weft_put(ctx, died, &when, sizeof when, pe));
        OK(weft_quiet(ctx));
        raise(SIGKILL);
    }
    weft_status status = weft_barrier(weft_team_world(job)), kernel;
    char sentence[512];
    snprintf(sentence, sizeof sentence, "%s", weft_last_error());
    double told = now();
    kernel = weft_stream_synchronize(NULL);
    memcpy(&when, died, sizeof when);
    fprintf(stderr, "PE %d was told after %.2f s: %s: %s; its kernel ended %.2f s later: %s\n", me,
            told - when, weft_status_name(status), sentence, now() - told,
            weft_status_name(kernel));
    return 3;
}
#endif
