/* SPDX-License-Identifier: Apache-2.0 */
/* Path gda where it differs from others: what it lacks and what is configured wrongly is refused at every
 * PE alike, in words; and a request that the adapter fails becomes a status that names the peer and what
 * was wrong, with nobody waiting for ever.
 *
 *   gda refused STATUS SENTENCE | fails */
#include "job.h"

#include <stdlib.h>

static int refused(weft_status wanted, const char *sentence)
{
    weft_job *job;
    FAILS(weft_init(&job, NULL), wanted, sentence);
    printf("refused as it should be\n");
    return 0;
}

/* The adapter fails one request; until then every put arrives. */
static int fails(void)
{
    enum { ROUNDS = 100000 };
    weft_job *job;
    uint64_t *word;
    weft_status status = WEFT_OK;
    OK(weft_init(&job, NULL));
    weft_ctx *ctx = weft_default_ctx(job);
    int to = (weft_my_pe(job) + 1) % weft_n_pes(job);
    OK(weft_alloc(job, WEFT_HOST, sizeof *word, 0, 0, (void **)&word));
    for (uint64_t i = 1; i < ROUNDS && !status; i++) {
        uint64_t back = 0;
        status = weft_p64(ctx, word, i, to);
        if (!status)
            status = weft_quiet(ctx);
        if (!status)
            status = weft_g64(ctx, word, &back, to);
        CHECK(status || back == i);
    }
    CHECK(status == WEFT_ERR_PATH || status == WEFT_ERR_PEER_DEAD);
    fprintf(stderr, "seen: %s\n", weft_last_error());
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "refused") == 0)
        return refused((weft_status)atoi(argv[2]), argv[3]);
    CHECK(argc == 2 && strcmp(argv[1], "fails") == 0);
    return fails();
}
