/* SPDX-License-Identifier: Apache-2.0 */
/* Every atomic operation in both widths: the fetched values and the final values are correct, and
 * no increment is lost when all PEs update one word. */
#include "job.h"

#define EACH_WIDTH(width, type)                                                                    \
    static void values##width(weft_job *job, weft_ctx *ctx, int me, int n)                         \
    {                                                                                              \
        type *word = alloc(job, sizeof *word), got;                                                \
        int to = (me + 1) % n;                                                                     \
        OK(weft_atomic_set##width(ctx, word, (type)100, to));                                      \
        OK(weft_quiet(ctx));                                                                       \
        OK(weft_atomic_fetch##width(ctx, word, &got, to));                                         \
        CHECK(got == 100);                                                                         \
        OK(weft_atomic_add##width(ctx, word, (type)5, to));                                        \
        OK(weft_quiet(ctx));                                                                       \
        OK(weft_atomic_fetch_add##width(ctx, word, (type)-1, &got, to));                           \
        CHECK(got == 105);                                                                         \
        OK(weft_quiet(ctx));                                                                       \
        OK(weft_atomic_swap##width(ctx, word, (type)0xf0f0, &got, to));                            \
        CHECK(got == 104);                                                                         \
        OK(weft_atomic_cswap##width(ctx, word, (type)1, (type)2, &got, to));                       \
        CHECK(got == 0xf0f0);                                                                      \
        OK(weft_atomic_cswap##width(ctx, word, (type)0xf0f0, (type)0xff00, &got, to));             \
        CHECK(got == 0xf0f0);                                                                      \
        OK(weft_atomic_fetch_and##width(ctx, word, (type)0x0ff0, &got, to));                       \
        CHECK(got == 0xff00);                                                                      \
        OK(weft_atomic_fetch_or##width(ctx, word, (type)0x000f, &got, to));                        \
        CHECK(got == 0x0f00);                                                                      \
        OK(weft_atomic_fetch_xor##width(ctx, word, (type)0x0f0f, &got, to));                       \
        CHECK(got == 0x0f0f);                                                                      \
        OK(weft_atomic_fetch##width(ctx, word, &got, to));                                         \
        CHECK(got == 0);                                                                           \
        OK(weft_atomic_or##width(ctx, word, (type)0xff, to));                                      \
        OK(weft_fence(ctx));                                                                       \
        OK(weft_atomic_and##width(ctx, word, (type)0x3c, to));                                     \
        OK(weft_fence(ctx));                                                                       \
        OK(weft_atomic_xor##width(ctx, word, (type)0x0c, to));                                     \
        OK(weft_quiet(ctx));                                                                       \
        OK(weft_barrier(weft_team_world(job)));                                                    \
        CHECK(*(volatile type *)word == 0x30);                                                     \
        OK(weft_barrier(weft_team_world(job)));                                                    \
        OK(weft_atomic_nbi(ctx, WEFT_AMO_FETCH_ADD, sizeof *word, word, 0, 7, &got, to));          \
        OK(weft_quiet(ctx));                                                                       \
        CHECK(got == 0x30);                                                                        \
        OK(weft_barrier(weft_team_world(job)));                                                    \
        CHECK(*(volatile type *)word == 0x37);                                                     \
        OK(weft_free(job, word));                                                                  \
    }                                                                                              \
                                                                                                   \
    static void contended##width(weft_job *job, weft_ctx *ctx, int me, int n)                      \
    {                                                                                              \
        enum { ADDS = 2000 };                                                                      \
        type *word = alloc(job, 2 * sizeof *word), got;                                            \
        unsigned long sum = 0;                                                                     \
        for (int i = 0; i < ADDS; i++) {                                                           \
            OK(weft_atomic_add##width(ctx, word, 1, 0));                                           \
            OK(weft_atomic_fetch_add##width(ctx, word + 1, 1, &got, 0));                           \
            sum += got;                                                                            \
        }                                                                                          \
        OK(weft_barrier(weft_team_world(job)));                                                    \
        long *sums = alloc(job, 2 * sizeof *sums);                                                 \
        sums[0] = (long)sum;                                                                       \
        OK(weft_allreduce(weft_team_world(job), sums + 1, sums, 1, WEFT_INT64, WEFT_SUM));         \
        long total = (long)ADDS * n;                                                               \
        CHECK(sums[1] == total * (total - 1) / 2); /* all fetched values differ */                 \
        if (me == 0)                                                                               \
            CHECK(*(volatile type *)word == (type)total);                                          \
        OK(weft_free(job, sums));                                                                  \
        OK(weft_free(job, word));                                                                  \
    }
WEFT_ATOMIC_WIDTH_LIST(EACH_WIDTH)

int main(void)
{
    weft_job *job;
    OK(weft_init(&job, NULL));
    weft_ctx *ctx = weft_default_ctx(job);
    int me = weft_my_pe(job), n = weft_n_pes(job);
    values32(job, ctx, me, n);
    values64(job, ctx, me, n);
    contended32(job, ctx, me, n);
    contended64(job, ctx, me, n);
    OK(weft_finalize(job));
    return 0;
}
