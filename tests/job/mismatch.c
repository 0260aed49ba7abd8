/* SPDX-License-Identifier: Apache-2.0 */
/* PEs call collective functions with different arguments. Allocation always reports it; the other
 * functions report it in checking mode (WEFT_CHECK=1). The message contains both values.
 *
 *   mismatch [PE]   the PE whose arguments differ from those of all others: 0 */
#include "job.h"

#include <stdbool.h>

int main(int argc, char **argv)
{
    weft_job *job;
    void *address;
    OK(weft_init(&job, NULL));
    bool odd = weft_my_pe(job) == (argc > 1 ? atoi(argv[1]) : 0);
    weft_team *world = weft_team_world(job);
    void *dst = alloc(job, 4096), *src = alloc(job, 4096);
    FAILS(weft_alloc(job, WEFT_HOST, odd ? 1000 : 2000, 0, 0, &address), WEFT_ERR_MISMATCH, "1000");
    CHECK(strstr(weft_last_error(), "2000"));
    OK(weft_alloc(job, WEFT_HOST, 3000, 0, 0, &address));
    FAILS(weft_free(job, odd ? dst : src), WEFT_ERR_MISMATCH, "weft_free");
    OK(weft_free(job, address));
    FAILS(weft_allgather(world, dst, src, odd ? 8 : 16), WEFT_ERR_MISMATCH, "16 ");
    FAILS(weft_broadcast(world, dst, src, 8, odd), WEFT_ERR_MISMATCH, "root");
    FAILS(weft_allreduce(world, dst, src, 1, odd ? WEFT_INT64 : WEFT_DOUBLE, WEFT_SUM),
          WEFT_ERR_MISMATCH, "type");
    FAILS(odd ? weft_barrier(world) : weft_sync(world), WEFT_ERR_MISMATCH, "barrier");
    OK(weft_barrier(world)); /* the job still works */
    OK(weft_finalize(job));
    return 0;
}
