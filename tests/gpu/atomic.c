/* SPDX-License-Identifier: Apache-2.0 */
/* Atomics of the host on GPU memory: the result of each operation, and additions of all PEs to one
 * variable of each PE. */
#include "gpu_test.h"

int main(void)
{
    weft_job *job;
    OK(weft_init(&job, NULL));
    weft_ctx *ctx = weft_default_ctx(job);
    int me = weft_my_pe(job), n = weft_n_pes(job), next = (me + 1) % n;
    uint64_t *own = gpu_alloc(job, 4096, WEFT_ALLOC_ZERO);
    uint32_t *narrow = (uint32_t *)(own + 16);
    uint64_t seen;
    uint32_t seen32;

    /* Only this PE accesses the first word of the next PE. Operations without a result are complete
     * after quiet. */
    OK(weft_atomic_set64(ctx, own, 0xf0, next));
    OK(weft_quiet(ctx));
    OK(weft_atomic_fetch64(ctx, own, &seen, next));
    CHECK(seen == 0xf0);
    OK(weft_atomic_add64(ctx, own, 0x0f, next));
    OK(weft_quiet(ctx));
    OK(weft_atomic_fetch_add64(ctx, own, 1, &seen, next));
    CHECK(seen == 0xff);
    OK(weft_atomic_and64(ctx, own, 0xf00, next));
    OK(weft_fence(ctx));
    OK(weft_atomic_or64(ctx, own, 0x21, next));
    OK(weft_fence(ctx));
    OK(weft_atomic_xor64(ctx, own, 0x01, next));
    OK(weft_quiet(ctx));
    OK(weft_atomic_swap64(ctx, own, 5, &seen, next));
    CHECK(seen == 0x120);
    OK(weft_atomic_cswap64(ctx, own, 4, 9, &seen, next));
    CHECK(seen == 5);
    OK(weft_atomic_cswap64(ctx, own, 5, 9, &seen, next));
    CHECK(seen == 5);
    OK(weft_atomic_fetch_and64(ctx, own, 8, &seen, next));
    CHECK(seen == 9);
    OK(weft_atomic_fetch_or64(ctx, own, 3, &seen, next));
    CHECK(seen == 8);
    OK(weft_atomic_fetch_xor64(ctx, own, 1, &seen, next));
    CHECK(seen == 11);
    OK(weft_atomic_nbi(ctx, WEFT_AMO_FETCH, 8, own, 0, 0, &seen, next));
    OK(weft_quiet(ctx));
    CHECK(seen == 10);
    /* Finding A10: fetched values go to GPU memory, from GPU memory and from host memory. */
    uint64_t *fetched = gpu_alloc(job, 64, WEFT_ALLOC_ZERO), *host;
    OK(weft_alloc(job, WEFT_HOST, 64, 0, WEFT_ALLOC_ZERO, (void **)&host));
    *host = 77 + (uint64_t)me;
    OK(weft_barrier(weft_team_world(job)));
    OK(weft_atomic_nbi(ctx, WEFT_AMO_SWAP, 8, own, 0, 13, fetched, next));
    OK(weft_atomic_nbi(ctx, WEFT_AMO_FETCH, 8, own, 0, 0, fetched + 1, next));
    OK(weft_atomic_nbi(ctx, WEFT_AMO_FETCH_ADD, 8, host, 0, 5, fetched + 2, next));
    OK(weft_atomic_nbi(ctx, WEFT_AMO_FETCH_ADD, 4, host, 0, 5, fetched + 3, next));
    OK(weft_quiet(ctx));
    const uint64_t wanted[] = {10, 13, 77 + (uint64_t)next, 82 + (uint64_t)next};
    for (int i = 0; i < 4; i++) {
        OK(weft_g64(ctx, fetched + i, &seen, me));
        CHECK(seen == wanted[i]);
    }
    OK(weft_barrier(weft_team_world(job)));

    OK(weft_atomic_set32(ctx, narrow, 7, next));
    OK(weft_quiet(ctx));
    OK(weft_atomic_fetch_add32(ctx, narrow, 0xffffffffu, &seen32, next));
    CHECK(seen32 == 7);
    OK(weft_atomic_cswap32(ctx, narrow, 6, 60, &seen32, next));
    CHECK(seen32 == 6);
    OK(weft_atomic_fetch32(ctx, narrow, &seen32, next));
    CHECK(seen32 == 60);
    FAILS(weft_atomic_add64(ctx, (char *)own + 4, 1, next), WEFT_ERR_ALIGNMENT, "multiple of 8");

    /* Every PE adds to every PE. */
    for (int round = 0; round < 50; round++)
        for (int pe = 0; pe < n; pe++)
            OK(weft_atomic_add64(ctx, own + 8, (uint64_t)me + 1, pe));
    OK(weft_barrier(weft_team_world(job)));
    OK(weft_g64(ctx, own + 8, &seen, me));
    CHECK(seen == 50ull * (uint64_t)n * ((uint64_t)n + 1) / 2);
    OK(weft_finalize(job));
    return 0;
}
