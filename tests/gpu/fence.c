/* SPDX-License-Identifier: Apache-2.0 */
/* A fence keeps a flag behind a few bytes of data in GPU memory, also over a path that may write
 * data in any order. */
#include "gpu_test.h"

enum { ROUNDS = 100, DATA = 24 };

int main(void)
{
    weft_job *job;
    unsigned char data[DATA], seen[DATA];
    OK(weft_init(&job, NULL));
    weft_ctx *ctx = weft_default_ctx(job);
    weft_team *world = weft_team_world(job);
    int me = weft_my_pe(job), n = weft_n_pes(job), next = (me + 1) % n;
    char *to = gpu_alloc(job, 4096, WEFT_ALLOC_ZERO);
    for (int round = 1; round <= ROUNDS; round++) {
        memset(data, round & 0xff, DATA);
        OK(weft_put(ctx, to, data, DATA, next));
        OK(weft_fence(ctx));
        OK(weft_p64(ctx, (uint64_t *)(void *)(to + 2048), (uint64_t)round, next));
        OK(weft_wait_until(ctx, WEFT_UINT64, to + 2048, WEFT_GE, (uint64_t)round));
        OK(weft_get(ctx, seen, to, DATA, me));
        for (int i = 0; i < DATA; i++)
            CHECK(seen[i] == (unsigned char)round);
        OK(weft_barrier(world));
    }
    OK(weft_finalize(job));
    return 0;
}
