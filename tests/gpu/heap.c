/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU heap grows on demand, keeps its contents, frees, and refuses with a message. init and
 * finalize can be repeated. */
#include "gpu_test.h"

static void once(void)
{
    weft_job *job;
    OK(weft_init(&job, NULL));
    weft_ctx *ctx = weft_default_ctx(job);
    int me = weft_my_pe(job), n = weft_n_pes(job), next = (me + 1) % n;
    uint64_t *first = gpu_alloc(job, 1 << 20, WEFT_ALLOC_ZERO);
    OK(weft_p64(ctx, first, 4711, next));
    uint64_t *large = gpu_alloc(job, 150 << 20, 0); /* larger than the first chunk */
    uint64_t *last = large + (150 << 20) / 8 - 1;
    OK(weft_p64(ctx, last, 42 + (uint64_t)me, next));
    OK(weft_barrier(weft_team_world(job)));
    uint64_t seen;
    OK(weft_g64(ctx, last, &seen, me));
    CHECK(seen == 42 + (uint64_t)((me + n - 1) % n));
    OK(weft_g64(ctx, first, &seen, me));
    CHECK(seen == 4711);
    CHECK(weft_accessible(job, last, next) == 1);

    uint64_t *resized;
    OK(weft_realloc(job, first, 3 << 20, (void **)&resized));
    OK(weft_g64(ctx, resized, &seen, me));
    CHECK(seen == 4711);
    OK(weft_free(job, large));
    FAILS(weft_free(job, (char *)resized + 64), WEFT_ERR_FREE, "not the start");
    void *same = gpu_alloc(job, 100 << 20, 0);
    OK(weft_free(job, same));

    void *none;
    FAILS(weft_alloc(job, WEFT_GPU, (size_t)1 << 50, 0, 0, &none), WEFT_ERR_NO_MEMORY, "GPU heap");
    if (getenv("TEST_TOO_MUCH")) /* more than the GPU has, but less than the window */
        FAILS(weft_alloc(job, WEFT_GPU, (size_t)atoll(getenv("TEST_TOO_MUCH")) << 20, 0, 0, &none),
              WEFT_ERR_NO_MEMORY, "MiB are free");
    FAILS(weft_put(ctx, last, first, 8, n), WEFT_ERR_PE, "does not exist");
    same = gpu_alloc(job, 4096, WEFT_ALLOC_ZERO); /* a refusal leaves the heap usable */
    OK(weft_g64(ctx, same, &seen, next));
    CHECK(seen == 0);
    OK(weft_finalize(job));
}

int main(void)
{
    once();
    once();
    return 0;
}
