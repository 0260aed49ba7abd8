/* SPDX-License-Identifier: Apache-2.0 */
/* Weft: the first put, or with argument "sum" the first collective, on GPU memory, verified. */
#include "start.h"

#include <string.h>

#include <weft.h>

#define OK(call)                                                                                   \
    do {                                                                                           \
        if (call) {                                                                                \
            fprintf(stderr, "%s: %s\n", #call, weft_last_error());                                 \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

int main(int argc, char **argv)
{
    start_ms = now_ms();
    int sums = argc > 1 && strcmp(argv[1], "sum") == 0;
    float words[WORDS];
    weft_job *job;
    void *src, *dst;
    OK(weft_init(&job, NULL));
    int me = weft_my_pe(job), n = weft_n_pes(job);
    weft_ctx *ctx = weft_default_ctx(job);
    double set_up = since_start();
    OK(weft_alloc(job, WEFT_GPU, sizeof words, 0, WEFT_ALLOC_ZERO, &src));
    OK(weft_alloc(job, WEFT_GPU, sizeof words, 0, WEFT_ALLOC_ZERO, &dst));
    double memory = since_start();
    fill_words(words, me);
    OK(weft_put(ctx, src, words, sizeof words, me));
    OK(weft_quiet(ctx));
    if (sums) {
        OK(weft_allreduce(weft_team_world(job), dst, src, WORDS, WEFT_FLOAT, WEFT_SUM));
    } else {
        OK(weft_put(ctx, dst, src, sizeof words, (me + 1) % n));
        OK(weft_barrier(weft_team_world(job)));
    }
    OK(weft_get(ctx, words, dst, sizeof words, me));
    if (sums)
        check_sums("weft", words, n);
    else
        check_words("weft", words, (me + n - 1) % n);
    print_line("weft", sums ? "sum" : "put", me, n, set_up, memory, since_start());
    OK(weft_finalize(job));
    return 0;
}
