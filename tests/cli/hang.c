/* SPDX-License-Identifier: Apache-2.0 */
/* A job for `weft attach` and `weft explain --job` to look at: PE 1 waits in a barrier for the others,
 * which sleep. PE 0 prints its number of process first. With an argument there is GPU memory too. Ends by
 * itself after a minute. */
#include <stdio.h>
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
    (void)argv;
    if (argc > 1 && weft_alloc(job, WEFT_GPU, 64, 0, 0, &block)) {
        fprintf(stderr, "%s\n", weft_last_error());
        return 1;
    }
    if (weft_my_pe(job) == 0) {
        printf("%d\n", (int)getpid());
        fflush(stdout);
    }
    if (weft_my_pe(job) != 1)
        sleep(60);
    weft_barrier(weft_team_world(job));
    return weft_finalize(job) ? 1 : 0;
}
