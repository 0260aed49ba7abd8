/* SPDX-License-Identifier: Apache-2.0 */
/* A program compiled without profiling options. The preloaded tool (profile_tool.c) counts each of
 * its calls, also those of inline functions, and the program gets the same results. */
#include <shmem.h>

#include <stdio.h>

#include "profile_tool.h"

static long cell, flag, counter;
static double real;
static int sum, one = 1;

#define WANT(what, wanted)                                                                         \
    if (seen.what != (wanted)) {                                                                   \
        fprintf(stderr, "the tool saw %d of " #what ", %d were called\n", seen.what, (wanted));    \
        return 1;                                                                                  \
    }

int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes(), next = (me + 1) % n, before = (me + n - 1) % n;
    shmem_ctx_t ctx;
    if (shmem_ctx_create(0, &ctx))
        return 1;
    long mine = -7 - me;
    real = 0.5 + me;
    shmem_ctx_long_put(ctx, &cell, &mine, 1, next);
    shmem_ctx_quiet(ctx);
    shmem_ctx_quiet(SHMEM_CTX_INVALID);
    shmem_long_p(&flag, -3, next);
    shmem_long_p(&flag, -3, next);
    shmem_long_wait_until(&flag, SHMEM_CMP_LT, 0);
    shmem_barrier_all();
    double got = shmem_double_g(&real, next);
    for (int i = 0; i < 5; i++)
        shmem_long_atomic_fetch_add(&counter, me + 1, 0);
    shmem_int_sum_reduce(SHMEM_TEAM_WORLD, &sum, &one, 1);
    shmem_barrier_all();
    if (cell != -7 - before || got != 0.5 + next || sum != n ||
        shmem_long_g(&counter, 0) != 5L * n * (n + 1) / 2) {
        fprintf(stderr, "PE %d: a value is wrong: %ld %g %d\n", me, cell, got, sum);
        return 1;
    }
    shmem_ctx_destroy(ctx);
    struct tool_counts seen = tool_seen();
    WANT(inits, 1)
    WANT(my_pe, 1)
    WANT(puts, 2)
    WANT(ctx_puts, 1)
    WANT(gets, 1)
    WANT(atomics, 5)
    WANT(waits, 1)
    WANT(ctx_quiets, 2)
    WANT(barriers, 2)
    WANT(reductions, 1)
    shmem_finalize();
    return shmem_my_pe() == -1 ? 0 : 1;
}
