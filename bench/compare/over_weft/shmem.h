/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSHMEM names used by the comparison, implemented directly by weft.h. It shows what Weft's own
 * API costs without the OpenSHMEM layer. It is not an OpenSHMEM implementation. */
#ifndef COMPARE_OVER_WEFT_SHMEM_H
#define COMPARE_OVER_WEFT_SHMEM_H

#include <stdio.h>
#include <stdlib.h>

#include <weft.h>

#define SHMEM_MAJOR_VERSION 1
#define SHMEM_MINOR_VERSION 5
#define SHMEM_TEAM_WORLD    over_team
#define SHMEM_CMP_EQ        WEFT_EQ

static weft_job *over_job;
static weft_ctx *over_ctx;
static weft_team *over_team;

static inline void over_check(weft_status status)
{
    if (__builtin_expect(status == WEFT_OK, 1))
        return;
    fprintf(stderr, "%s: %s\n", weft_status_name(status), weft_last_error());
    if (over_job)
        weft_abort(over_job, 1);
    exit(1);
}

static inline void shmem_init(void)
{
    over_check(weft_init(&over_job, NULL));
    over_ctx = weft_default_ctx(over_job);
    over_team = weft_team_world(over_job);
}

static inline void shmem_finalize(void)
{
    over_check(weft_finalize(over_job));
}

static inline int shmem_my_pe(void)
{
    return weft_my_pe(over_job);
}

static inline int shmem_n_pes(void)
{
    return weft_n_pes(over_job);
}

static inline void *shmem_malloc(size_t bytes)
{
    void *address;
    over_check(weft_alloc(over_job, WEFT_HOST, bytes, 0, 0, &address));
    return address;
}

static inline void shmem_putmem(void *dst, const void *src, size_t bytes, int pe)
{
    over_check(weft_put(over_ctx, dst, src, bytes, pe));
}

static inline void shmem_getmem(void *dst, const void *src, size_t bytes, int pe)
{
    over_check(weft_get(over_ctx, dst, src, bytes, pe));
}

static inline void shmem_long_p(long *dst, long value, int pe)
{
    over_check(weft_p64(over_ctx, dst, (uint64_t)value, pe));
}

static inline long shmem_long_g(const long *src, int pe)
{
    uint64_t value;
    over_check(weft_g64(over_ctx, src, &value, pe));
    return (long)value;
}

static inline long shmem_long_atomic_fetch_add(long *dst, long value, int pe)
{
    uint64_t fetched;
    over_check(weft_atomic_fetch_add64(over_ctx, dst, (uint64_t)value, &fetched, pe));
    return (long)fetched;
}

static inline void shmem_long_atomic_add(long *dst, long value, int pe)
{
    over_check(weft_atomic_add64(over_ctx, dst, (uint64_t)value, pe));
}

static inline void shmem_long_wait_until(long *ivar, int cmp, long value)
{
    over_check(weft_wait_until(over_ctx, WEFT_INT64, ivar, (weft_cmp)cmp, (uint64_t)value));
}

static inline void shmem_quiet(void)
{
    over_check(weft_quiet(over_ctx));
}

static inline void shmem_barrier_all(void)
{
    over_check(weft_barrier(over_team));
}

static inline void shmem_sync_all(void)
{
    over_check(weft_sync(over_team));
}

static inline void shmem_broadcastmem(weft_team *team, void *dst, const void *src, size_t bytes,
                                      int root)
{
    over_check(weft_broadcast(team, dst, src, bytes, root));
}

static inline void shmem_fcollectmem(weft_team *team, void *dst, const void *src, size_t bytes)
{
    over_check(weft_allgather(team, dst, src, bytes));
}

static inline void shmem_alltoallmem(weft_team *team, void *dst, const void *src, size_t bytes)
{
    over_check(weft_alltoall(team, dst, src, bytes));
}

static inline void shmem_long_sum_reduce(weft_team *team, long *dst, const long *src, size_t n)
{
    over_check(weft_allreduce(team, dst, src, n, WEFT_INT64, WEFT_SUM));
}

#endif
