/* SPDX-License-Identifier: Apache-2.0 */
/* PEs call collective functions with different arguments. Allocation always reports it; the other
 * functions report it in checking mode (WEFT_CHECK=1). The message contains both values. */
#include "job.h"

int main(void)
{
    weft_job *job;
    void *address;
    OK(weft_init(&job, NULL));
    int me = weft_my_pe(job);
    weft_team *world = weft_team_world(job);
    void *dst = alloc(job, 4096), *src = alloc(job, 4096);
    FAILS(weft_alloc(job, WEFT_HOST, me == 0 ? 1000 : 2000, 0, 0, &address), WEFT_ERR_MISMATCH,
          "1000");
    CHECK(strstr(weft_last_error(), "2000"));
    FAILS(weft_allgather(world, dst, src, me == 0 ? 8 : 16), WEFT_ERR_MISMATCH, "16 ");
    FAILS(weft_broadcast(world, dst, src, 8, me == 0), WEFT_ERR_MISMATCH, "root");
    FAILS(weft_allreduce(world, dst, src, 1, me == 0 ? WEFT_INT64 : WEFT_DOUBLE, WEFT_SUM),
          WEFT_ERR_MISMATCH, "type");
    FAILS(me == 0 ? weft_barrier(world) : weft_sync(world), WEFT_ERR_MISMATCH, "barrier");
    OK(weft_barrier(world)); /* the job still works */
    OK(weft_finalize(job));
    return 0;
}
