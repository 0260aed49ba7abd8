/* SPDX-License-Identifier: Apache-2.0 */
/* A peer dies while it executes requests of PE 0, on a path on which the target executes them. The
 * call and the next call at PE 0 fail with a status that names the PE and the path. The argument
 * selects what PE 0 calls: get, put or atomic. `weft run -n 2` starts this program; the test checks
 * what PE 0 prints. */
#include "../job/job.h"

#include <signal.h>
#include <unistd.h>

enum { BYTES = 3 << 20, BEFORE = 20 };

static weft_status one(weft_ctx *ctx, const char *what, char *there, char *here)
{
    uint64_t before;
    if (strcmp(what, "put") == 0) {
        weft_status status = weft_put(ctx, there, here, BYTES, 1);
        return status ? status : weft_quiet(ctx);
    }
    if (strcmp(what, "atomic") == 0)
        return weft_atomic_fetch_add64(ctx, (uint64_t *)(void *)there, 1, &before, 1);
    return weft_get(ctx, here, there, BYTES, 1);
}

int main(int argc, char **argv)
{
    weft_job *job;
    OK(weft_init(&job, NULL));
    CHECK(weft_n_pes(job) == 2 && argc == 2);
    weft_ctx *ctx = weft_default_ctx(job);
    char *there = alloc(job, BYTES), *here = malloc(BYTES);
    uint64_t *count = alloc(job, 64);
    OK(weft_barrier(weft_team_world(job)));
    if (weft_my_pe(job) == 1) {
        OK(weft_wait_until(ctx, WEFT_UINT64, count, WEFT_GE, BEFORE));
        raise(SIGKILL);
    }
    weft_status status = WEFT_OK;
    memset(here, 0x5a, BYTES);
    for (uint64_t i = 1; !status; i++) {
        status = one(ctx, argv[1], there, here);
        if (!status)
            status = weft_p64(ctx, count, i, 1);
    }
    char sentence[512];
    snprintf(sentence, sizeof sentence, "%s", weft_last_error());
    weft_status again = one(ctx, argv[1], there, here);
    fprintf(stderr, "asked: %s: %s; again: %s\n", weft_status_name(status), sentence,
            weft_status_name(again));
    free(here);
    return 3;
}
