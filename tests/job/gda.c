/* SPDX-License-Identifier: Apache-2.0 */
/* Path gda where it differs from other paths. A missing feature or a wrong configuration is refused
 * at every PE alike, with a message. A request that the adapter fails becomes a status that names
 * the peer and the error; no PE waits forever.
 *
 *   gda refused STATUS SENTENCE | fails | fewer */
#include "job.h"

#include <stdlib.h>
#include <string.h>

static int refused(weft_status wanted, const char *sentence)
{
    weft_job *job;
    FAILS(weft_init(&job, NULL), wanted, sentence);
    printf("refused as it should be\n");
    return 0;
}

/* The adapter fails one request; every put before it arrives. */
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

/* PE 0 is limited to one adapter, the others to two: all use one, and their reason names PE 0. */
static int fewer(void)
{
    weft_job *job;
    uint64_t *word, back = 0;
    weft_path_info info = {.size = sizeof info, .kind = WEFT_HOST};
    const char *number = getenv("WEFT_PE");
    CHECK(number != NULL);
    setenv("WEFT_RAILS", strcmp(number, "0") ? "2" : "1", 1);
    OK(weft_init(&job, NULL));
    int me = weft_my_pe(job), to = (me + 1) % weft_n_pes(job);
    OK(weft_path_query(job, to, &info));
    CHECK(strstr(info.reason, "requests to mlx5_soft0, port 1"));
    CHECK(!strstr(info.reason, "limited by PE 0") == (me == 0));
    OK(weft_alloc(job, WEFT_HOST, sizeof *word, 0, WEFT_ALLOC_ZERO, (void **)&word));
    OK(weft_atomic_add64(weft_default_ctx(job), word, 7, to));
    OK(weft_quiet(weft_default_ctx(job)));
    OK(weft_g64(weft_default_ctx(job), word, &back, to));
    CHECK(back == 7);
    OK(weft_finalize(job));
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "refused") == 0)
        return refused((weft_status)atoi(argv[2]), argv[3]);
    if (argc == 2 && strcmp(argv[1], "fewer") == 0)
        return fewer();
    CHECK(argc == 2 && strcmp(argv[1], "fails") == 0);
    return fails();
}
