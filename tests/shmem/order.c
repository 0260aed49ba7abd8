/* SPDX-License-Identifier: Apache-2.0 */
/* Fence and quiet order data before a flag, on the default context and on a new one. */
#include "check.h"

enum { ROUNDS = 200, WORDS = 32 };

static long data[WORDS], flag, ack;

int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes(), next = (me + 1) % n, before = (me + n - 1) % n;
    long mine[WORDS];
    shmem_ctx_t ctx;
    CHECK(shmem_ctx_create(0, &ctx) == 0);
    for (long round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < WORDS; i++)
            mine[i] = round * 1000 + me * 100 + i;
        int how = (int)(round % 4);
        if (how == 0) {
            shmem_long_put_nbi(data, mine, WORDS, next);
            shmem_fence();
            shmem_long_p(&flag, round, next);
        } else if (how == 1) {
            shmem_ctx_long_put(ctx, data, mine, WORDS, next);
            shmem_ctx_fence(ctx);
            shmem_ctx_long_atomic_set(ctx, &flag, round, next);
        } else if (how == 2) {
            shmem_ctx_long_put_nbi(ctx, data, mine, WORDS, next);
            shmem_ctx_quiet(ctx);
            shmem_long_p(&flag, round, next);
        } else {
            shmem_long_iput(data, mine, 1, 1, WORDS, next);
            shmem_quiet();
            shmem_ctx_long_p(ctx, &flag, round, next);
        }
        shmem_ctx_quiet(ctx);
        shmem_quiet();
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, round);
        for (int i = 0; i < WORDS; i++)
            CHECK(data[i] == round * 1000 + before * 100 + i);
        shmem_long_atomic_inc(&ack, before);
        shmem_quiet();
        shmem_long_wait_until(&ack, SHMEM_CMP_EQ, round);
    }
    shmem_ctx_destroy(ctx);
    shmem_finalize();
    return 0;
}
