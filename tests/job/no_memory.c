/* SPDX-License-Identifier: Apache-2.0 */
/* no_memory CASE KIND BYTES (finding A13): the first allocation of BYTES bytes of private memory
 * inside a collective (0: of any size) fails at PE 1. The others must not wait for PE 1 until the
 * limit. Either the call succeeds everywhere, because it does not need the memory, or it fails at
 * every PE with the reason. */
#include "job.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <weft/stream.h>

enum { ELEMENTS = 40000 };

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
static _Thread_local bool fails;
static size_t wanted; /* size of the allocation that fails; 0: any */
static int failed;

void *malloc(size_t bytes)
{
    if (!fails || (wanted && bytes != wanted))
        return __libc_malloc(bytes);
    fails = false;
    failed++;
    errno = ENOMEM;
    return NULL;
}

void *calloc(size_t n, size_t bytes)
{
    if (!fails || (wanted && n * bytes != wanted))
        return __libc_calloc(n, bytes);
    fails = false;
    failed++;
    errno = ENOMEM;
    return NULL;
}

static weft_job *job;
static double *area;
static uint64_t sizes[64], places[64];

static weft_status call(const char *what)
{
    weft_team *world = weft_team_world(job);
    const size_t n = (size_t)weft_n_pes(job);
    if (strcmp(what, "allreduce") == 0)
        return weft_allreduce(world, area, area + ELEMENTS, ELEMENTS, WEFT_DOUBLE, WEFT_SUM);
    if (strcmp(what, "barrier") == 0)
        return weft_barrier(world);
    if (strcmp(what, "limit") == 0)
        return weft_team_limit_sms(world, 8);
    if (strcmp(what, "alltoallv") == 0) {
        for (size_t i = 0; i < n; i++) {
            sizes[i] = 72;
            places[i] = i * 72;
        }
        return weft_alltoallv(world, area, 72 * n, sizes, places, area + ELEMENTS, sizes, places);
    }
    if (strcmp(what, "collect") == 0)
        return weft_collect(world, area, area + ELEMENTS, 72 * ((size_t)weft_my_pe(job) + 1));
    if (strcmp(what, "allgather") == 0)
        return weft_allgather(world, area, area + ELEMENTS, 72);
    CHECK(!"such a case");
    return WEFT_OK;
}

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    const bool gpu = strcmp(argv[2], "gpu") == 0;
    OK(weft_init(&job, NULL));
    OK(weft_alloc(job, gpu ? WEFT_GPU : WEFT_HOST, 2 * ELEMENTS * sizeof *area, 0, WEFT_ALLOC_ZERO,
                  (void **)&area));
    wanted = (size_t)atoi(argv[3]);
    fails = weft_my_pe(job) == 1;
    weft_status status = call(argv[1]);
    fails = false;
    CHECK(status == WEFT_OK || status == WEFT_ERR_NO_MEMORY);
    if (status) {
        CHECK(strstr(weft_last_error(), "no private memory") || strstr(weft_last_error(), "PE 1 "));
        printf("PE %d: refused for want of memory\n", weft_my_pe(job));
        if (weft_barrier(weft_team_world(job)))
            return 0; /* the job has failed too */
    } else {
        printf("PE %d: %d allocations failed, and the call went well\n", weft_my_pe(job), failed);
    }
    OK(weft_finalize(job));
    return 0;
}
