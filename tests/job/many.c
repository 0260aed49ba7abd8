/* SPDX-License-Identifier: Apache-2.0 */
/* Many more PEs than CPUs: they yield to each other, and no call takes long. */
#include "job.h"

int main(void)
{
    weft_job *job;
    OK(weft_init(&job, NULL));
    weft_team *world = weft_team_world(job);
    long *sum = alloc(job, 16);
    sum[0] = weft_my_pe(job);
    for (int i = 0; i < 5; i++)
        OK(weft_barrier(world));
    OK(weft_allreduce(world, sum + 1, sum, 1, WEFT_INT64, WEFT_SUM));
    CHECK(sum[1] == (long)weft_n_pes(job) * (weft_n_pes(job) - 1) / 2);
    OK(weft_finalize(job));
    return 0;
}
