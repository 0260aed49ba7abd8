/* SPDX-License-Identifier: Apache-2.0 */
/* One PE runs a short job twice. A call that fails is reported with status 3; a call that succeeds
 * has a correct result. The PE counts descriptors: it has as many after finalize as before, and the
 * launcher's do not grow. */
#include "../job/job.h"

#include <dirent.h>
#include <unistd.h>

static int descriptors(pid_t pid)
{
    char path[64];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *folder = opendir(path);
    if (!folder) /* fail_at.c may make it fail once */
        folder = opendir(path);
    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count;
}

static void must(weft_status status)
{
    if (!status)
        return;
    if (!*weft_last_error()) {
        fprintf(stderr, "once: a failure without a sentence: %s\n", weft_status_name(status));
        exit(4);
    }
    fprintf(stderr, "once: %s: %s\n", weft_status_name(status), weft_last_error());
    exit(3);
}

static void one_job(int *launchers)
{
    weft_job *job;
    uint64_t *area, seen = 0, value;
    must(weft_init(&job, NULL));
    int me = weft_my_pe(job), n = weft_n_pes(job), to = (me + 1) % n;
    weft_ctx *ctx = weft_default_ctx(job);
    must(weft_alloc(job, WEFT_HOST, 4096, 0, WEFT_ALLOC_ZERO, (void **)&area));
    value = UINT64_C(0x8000000000000000) + (uint64_t)me;
    must(weft_put(ctx, area, &value, 8, to));
    must(weft_barrier(weft_team_world(job)));
    CHECK(*area == UINT64_C(0x8000000000000000) + (uint64_t)((me + n - 1) % n));
    must(weft_get(ctx, &seen, area, 8, to));
    CHECK(seen == UINT64_C(0x8000000000000000) + (uint64_t)me);
    must(weft_barrier(weft_team_world(job)));
    *launchers = n > 1 ? descriptors(getppid()) : 0;
    must(weft_finalize(job));
}

int main(void)
{
    int before = descriptors(getpid()), launchers[2];
    for (int again = 0; again < 2; again++) {
        one_job(&launchers[again]);
        CHECK(descriptors(getpid()) == before);
    }
    CHECK(launchers[1] == launchers[0]);
    return 0;
}
