/* SPDX-License-Identifier: Apache-2.0 */
/* A job with host code only has the threads of its paths and no others: none over mapped memory.
 * The program is linked with the shared library, which contains device code of its own.
 *
 *   threadless THREADS */
#include "job.h"

#include <dirent.h>

static int threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;
    for (const struct dirent *entry; tasks && (entry = readdir(tasks)) != NULL;)
        count += entry->d_name[0] != '.';
    if (tasks)
        closedir(tasks);
    return count;
}

int main(int argc, char **argv)
{
    weft_job *job;
    uint64_t *word;
    OK(weft_init(&job, NULL));
    int me = weft_my_pe(job), n = weft_n_pes(job);
    OK(weft_alloc(job, WEFT_HOST, sizeof *word, 0, WEFT_ALLOC_ZERO, (void **)&word));
    OK(weft_p64(weft_default_ctx(job), word, (uint64_t)me + 1, (me + 1) % n));
    OK(weft_barrier(weft_team_world(job)));
    CHECK(*word == (uint64_t)((me + n - 1) % n) + 1);
    CHECK(threads() == (argc > 1 ? atoi(argv[1]) : 1));
    OK(weft_finalize(job));
    return 0;
}
