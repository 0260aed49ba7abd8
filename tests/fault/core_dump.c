/* SPDX-License-Identifier: Apache-2.0 */
/* core_dump MEGABYTES HOW: a PE crashes. Its heap has MEGABYTES MiB, of which it has touched the
 * first and the last page. HOW: abort, fault (an invalid access), or raise (it sends itself
 * SIGFPE). PE 1 crashes, and the core file is written to its working directory. */
#include <weft.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const size_t bytes = (size_t)atoi(argv[1]) << 20;
    const struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    char *block;
    weft_job *job;
    if (argc != 3 || setrlimit(RLIMIT_CORE, &all))
        return 77;
    if (weft_init(&job, &(weft_init_attr){.size = sizeof(weft_init_attr),
                                          .heap_bytes = bytes + (1 << 20)}) ||
        weft_alloc(job, WEFT_HOST, bytes, 0, 0, (void **)&block)) {
        fprintf(stderr, "%s\n", weft_last_error());
        return 1;
    }
    /* The text is composed at run time, so that the program image does not contain it. */
    snprintf(block, 64, "%s in the %s page", "weft was", "first");
    snprintf(block + bytes - 64, 64, "%s in the %s page", "weft was", "last");
    if (weft_barrier(weft_team_world(job)))
        return 1;
    if (weft_my_pe(job) == 1 && strcmp(argv[2], "abort") == 0)
        abort();
    if (weft_my_pe(job) == 1 && strcmp(argv[2], "fault") == 0)
        *(volatile char *)(uintptr_t)16 = 1;
    if (weft_my_pe(job) == 1)
        raise(SIGFPE);
    return weft_barrier(weft_team_world(job)) == WEFT_ERR_PEER_DEAD ? 9 : 1;
}
