/* SPDX-License-Identifier: Apache-2.0 */
/* A token goes around a ring: each PE waits for it, adds its own number, and passes it on.
 *
 *     weft run -n 4 ./ring
 *
 * Shows symmetric memory (the same variable at every PE), put with a signal, and waiting. */
#include "check.h"

int main(void)
{
    enum { LAPS = 3 };
    weft_job *job = NULL;
    CHECK(job, weft_init(&job, NULL));
    int me = weft_my_pe(job), n = weft_n_pes(job), next = (me + 1) % n;
    weft_ctx *ctx = weft_default_ctx(job);

    /* Every PE gets such a block at the same offset. An address in it, together with a PE number,
     * names that PE's copy. */
    struct {
        int64_t token;
        uint64_t lap; /* signal: lap of the token */
    } * mine;
    void *block;
    CHECK(job, weft_alloc(job, WEFT_HOST, sizeof *mine, 0, WEFT_ALLOC_ZERO, &block));
    mine = block;

    for (uint64_t lap = 1; lap <= LAPS; lap++) {
        int64_t token = 0;
        if (me != 0 || lap > 1) {
            /* PE 0 receives the token of lap 1 as that of lap 1; the other PEs receive it in its
             * own lap. */
            uint64_t expected = me == 0 ? lap - 1 : lap;
            CHECK(job, weft_signal_wait(ctx, &mine->lap, WEFT_GE, expected, NULL));
            token = mine->token;
        }
        token += me;
        /* The signal never becomes visible before the token. */
        CHECK(job, weft_put_signal(ctx, &mine->token, &token, sizeof token, &mine->lap, lap,
                                   WEFT_SIGNAL_SET, next));
    }

    if (me == 0) {
        CHECK(job, weft_signal_wait(ctx, &mine->lap, WEFT_GE, LAPS, NULL));
        int64_t expected = (int64_t)LAPS * n * (n - 1) / 2;
        printf("%d laps over %d PEs: the token is %ld, expected %ld\n", LAPS, n, (long)mine->token,
               (long)expected);
        if (mine->token != expected)
            weft_abort(job, 1);
    }
    CHECK(job, weft_free(job, mine));
    CHECK(job, weft_finalize(job));
    return 0;
}
