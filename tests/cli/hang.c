/* SPDX-License-Identifier: Apache-2.0 */
/* A job that `weft attach` and `weft explain --job` inspect: PE 1 waits in a barrier for the
 * others, which sleep. PE 0 prints its process ID first. With the argument put each PE has put 3
 * values of 8 bytes to the next one by then; with any other argument the PEs also allocate GPU
 * memory. The job ends by itself after 60 s. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <weft.h>

int main(int argc, char **argv)
{
    weft_job *job;
    if (weft_init(&job, NULL)) {
        fprintf(stderr, "%s\n", weft_last_error());
        return 1;
    }
    void *block;
    const bool puts = argc > 1 && strcmp(argv[1], "put") == 0;
    if (argc > 1 && weft_alloc(job, puts ? WEFT_HOST : WEFT_GPU, 64, 0, 0, &block)) {
        fprintf(stderr, "%s\n", weft_last_error());
        return 1;
    }
    for (int i = 0; puts && i < 3; i++)
        weft_p64(weft_default_ctx(job), (uint64_t *)block + i, 5,
                 (weft_my_pe(job) + 1) % weft_n_pes(job));
    if (weft_my_pe(job) == 0) {
        printf("%d\n", (int)getpid());
        fflush(stdout);
    }
    if (weft_my_pe(job) != 1)
        sleep(60);
    weft_barrier(weft_team_world(job));
    return weft_finalize(job) ? 1 : 0;
}
