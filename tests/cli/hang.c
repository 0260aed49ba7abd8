/* SPDX-License-Identifier: Apache-2.0 */
/* A job for `weft attach` to look at: PE 1 waits in a barrier for the others, which sleep. PE 0 prints
 * its number of process first. Ends by itself after a minute. */
#include <stdio.h>
#include <unistd.h>

#include <weft.h>

int main(void)
{
    weft_job *job;
    if (weft_init(&job, NULL)) {
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
