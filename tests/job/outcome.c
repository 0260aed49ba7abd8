/* SPDX-License-Identifier: Apache-2.0 */
/* All PEs get the same outcome of an allocation. Private memory runs out at one PE, in the k-th
 * request of each call: every PE must get the error, keep equal offsets, and be able to continue.
 * The linker wraps malloc, calloc and realloc (--wrap). */
#include "tests/job/job.h"

#include <stdbool.h>
#include <stdlib.h>

enum { ROUNDS = 600 };

static long requests, fail_at; /* fail_at 0: never */

static bool runs_out(void)
{
    return fail_at && ++requests == fail_at;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    return runs_out() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    return runs_out() ? NULL : __real_calloc(n, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    return runs_out() ? NULL : __real_realloc(old, bytes);
}

static weft_job *job;
static int me, npes;
static uint64_t *statuses, *offsets; /* [npes], symmetric */
static char *first;

/* Every PE puts its number to all PEs. */
static void tell(uint64_t *where, uint64_t number)
{
    OK(weft_barrier(weft_team_world(job)));
    for (int pe = 0; pe < npes; pe++)
        OK(weft_p64(weft_default_ctx(job), &where[me], number, pe));
    OK(weft_barrier(weft_team_world(job)));
}

/* After each call: all succeeded at one offset, or all failed. */
static bool compare(weft_status status, void *block)
{
    tell(statuses, (uint64_t)(int64_t)status);
    tell(offsets, block ? (uint64_t)((char *)block - first) : 0);
    for (int pe = 0; pe < npes; pe++) {
        CHECK(((int64_t)statuses[pe] == 0) == (status == 0));
        CHECK(offsets[pe] == offsets[me]);
    }
    return status == 0;
}

/* The k-th request for private memory fails at the last PE. A put still arrives where it should.
 * True: the call made at least k requests. */
static bool fail_alloc(long k)
{
    void *block = NULL, *moved = NULL;
    bool victim = me == npes - 1;
    requests = 0;
    fail_at = victim ? k : 0;
    weft_status status = weft_alloc(job, WEFT_HOST, 1000, 64, WEFT_ALLOC_ZERO, &block);
    bool used = requests >= k;
    fail_at = 0;
    if (!compare(status, block))
        return used;
    uint64_t *words = block;
    OK(weft_p64(weft_default_ctx(job), &words[7], 0x8000000000000001u + (unsigned)me,
                (me + 1) % npes));
    OK(weft_barrier(weft_team_world(job)));
    CHECK(words[7] == 0x8000000000000001u + (unsigned)((me + npes - 1) % npes));
    requests = 0;
    fail_at = victim ? k : 0;
    status = weft_realloc(job, block, 5000, &moved);
    used |= requests >= k;
    fail_at = 0;
    block = compare(status, moved) ? moved : block;
    words = block;
    CHECK(words[7] == 0x8000000000000001u + (unsigned)((me + npes - 1) % npes));
    OK(weft_free(job, block));
    return used;
}

int main(void)
{
    OK(weft_init(&job, NULL));
    me = weft_my_pe(job);
    npes = weft_n_pes(job);
    size_t bytes = (size_t)npes * sizeof(uint64_t);
    OK(weft_alloc(job, WEFT_HOST, 64, 0, 0, (void **)&first));
    OK(weft_alloc(job, WEFT_HOST, bytes, 0, WEFT_ALLOC_ZERO, (void **)&statuses));
    OK(weft_alloc(job, WEFT_HOST, bytes, 0, WEFT_ALLOC_ZERO, (void **)&offsets));
    /* The blocks are kept between the rounds, so that the allocator metadata must grow in some
     * rounds. */
    int refused = 0;
    for (long k = 0; k < ROUNDS; k++) {
        void *kept;
        refused += fail_alloc(1 + k % 3);
        OK(weft_alloc(job, WEFT_HOST, 64, 0, 0, &kept));
    }
    CHECK(me != npes - 1 || refused > 0); /* otherwise no request failed */
    OK(weft_finalize(job));
    return 0;
}
