/* SPDX-License-Identifier: Apache-2.0 */
/* A profiling tool as a library: it counts calls of routines, some of which shmem.h defines inline,
 * and forwards them. profile_program.c compares the counts of tool_seen(). */
#include <pshmem.h>

#include "profile_tool.h"

static struct tool_counts counts;

struct tool_counts tool_seen(void)
{
    return counts;
}

void shmem_init(void)
{
    counts.inits++;
    pshmem_init();
}

int shmem_my_pe(void)
{
    counts.my_pe++;
    return pshmem_my_pe();
}

void shmem_long_p(long *dest, long value, int pe)
{
    counts.puts++;
    pshmem_long_p(dest, value, pe);
}

void shmem_ctx_long_put(shmem_ctx_t ctx, long *dest, const long *source, size_t nelems, int pe)
{
    counts.ctx_puts++;
    pshmem_ctx_long_put(ctx, dest, source, nelems, pe);
}

double shmem_double_g(const double *source, int pe)
{
    counts.gets++;
    return pshmem_double_g(source, pe);
}

long shmem_long_atomic_fetch_add(long *dest, long value, int pe)
{
    counts.atomics++;
    return pshmem_long_atomic_fetch_add(dest, value, pe);
}

void shmem_long_wait_until(long *ivar, int cmp, long cmp_value)
{
    counts.waits++;
    pshmem_long_wait_until(ivar, cmp, cmp_value);
}

void shmem_ctx_quiet(shmem_ctx_t ctx)
{
    counts.ctx_quiets++;
    pshmem_ctx_quiet(ctx);
}

void shmem_barrier_all(void)
{
    counts.barriers++;
    pshmem_barrier_all();
}

int shmem_int_sum_reduce(shmem_team_t team, int *dest, const int *source, size_t nreduce)
{
    counts.reductions++;
    return pshmem_int_sum_reduce(team, dest, source, nreduce);
}
