/* SPDX-License-Identifier: Apache-2.0 */
/* Invalid use, one case for each run; the test checks the message. */
#include "check.h"

#include <shmemx.h>

#include <unistd.h>

static long cell[4];
static long psync[SHMEM_SYNC_SIZE];

static void before_init(void)
{
    shmem_long_p(cell, 1, 0);
}

static void barrier_before_init(void)
{
    shmem_barrier_all();
}

static void after_finalize(void)
{
    shmem_finalize();
    shmem_long_p(cell, 1, 0);
}

static void finalized_twice(void)
{
    shmem_finalize();
    shmem_finalize();
    exit(0);
}

/* Finding A16: PE 1 finalizes while PE 0 is in a barrier, so the counterpart of PE 0's finalize is
 * missing. */
static void finalize_expires(void)
{
    if (shmem_my_pe() == 0)
        shmem_barrier_all();
    shmem_finalize();
    exit(0);
}

static void finalize_before_init(void)
{
    shmem_finalize();
}

/* The time in the message counts from the start of the process, not from its first message: at
 * least one second has passed here. */
static void late_fault(void)
{
    sleep(1);
    shmem_long_p(cell, 1, -1);
}

static void no_such_pe(void)
{
    shmem_long_p(cell, 1, shmem_n_pes());
}

static void negative_pe(void)
{
    shmem_long_g(cell, -1);
}

static void stack_address(void)
{
    long mine = 0;
    shmem_long_put(&mine, cell, 1, 0);
}

static void null_address(void)
{
    shmem_long_put(NULL, cell, 1, 0);
}

static void past_the_end(void)
{
    long *block = shmem_malloc(1 << 16);
    shmem_long_put(block, block, (size_t)1 << 40, 0);
}

static void freed(void)
{
    long *block = shmem_malloc(1000);
    shmem_free(block);
    shmem_long_p(block, 1, 0);
}

static void beyond_block(void)
{
    char *block = shmem_malloc(1024);
    shmem_putmem(block, block, 4096, 0);
}

static void wait_on_freed(void)
{
    long *block = shmem_malloc(1000);
    shmem_free(block);
    shmem_long_wait_until(block, SHMEM_CMP_NE, 0);
}

static void freed_twice(void)
{
    long *block = shmem_malloc(1000);
    shmem_free(block);
    shmem_free(block);
}

static void foreign_free(void)
{
    shmem_free(cell);
}

static void misaligned(void)
{
    shmem_long_atomic_inc((long *)((char *)cell + 4), 0);
}

static void stride_zero(void)
{
    shmem_long_iput(cell, cell, 0, 1, 2, 0);
}

static void sizes_differ(void)
{
    shmem_malloc(shmem_my_pe() ? 1000 : 2000);
}

static void collectives_differ(void)
{
    if (shmem_my_pe())
        shmem_barrier_all();
    else
        shmem_long_broadcast(SHMEM_TEAM_WORLD, cell, cell, 1, 0);
    shmem_global_exit(1);
}

static void roots_differ(void)
{
    if (shmem_long_broadcast(SHMEM_TEAM_WORLD, cell, cell, 1, shmem_my_pe()))
        shmem_global_exit(1);
}

static void splits_differ(void)
{
    shmem_team_t team;
    if (shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, shmem_my_pe() + 1, NULL, 0, &team))
        shmem_global_exit(1);
}

static void grids_differ(void)
{
    shmem_team_t x, y;
    if (shmem_team_split_2d(SHMEM_TEAM_WORLD, shmem_my_pe() + 1, NULL, 0, &x, NULL, 0, &y))
        shmem_global_exit(1);
}

static void reduce_overlap(void)
{
    if (shmem_long_sum_reduce(SHMEM_TEAM_WORLD, cell + 1, cell, 3))
        shmem_global_exit(1);
}

static void unknown_hint(void)
{
    void *block;
    if (weft_alloc(shmemx_job(), WEFT_HOST, 64, 0, 1u << 20, &block)) {
        fprintf(stderr, "%s\n", weft_last_error());
        shmem_global_exit(1);
    }
}

static void misaligned_signal(void)
{
    shmem_signal_fetch((uint64_t *)((char *)cell + 4));
}

static void misaligned_signal_wait(void)
{
    shmem_signal_wait_until((uint64_t *)((char *)cell + 4), SHMEM_CMP_EQ, 0);
}

/* Destroying a team destroys its contexts. */
static void context_of_team(void (*use)(shmem_ctx_t ctx))
{
    shmem_team_t team;
    shmem_ctx_t ctx;
    if (shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, shmem_n_pes(), NULL, 0, &team) ||
        shmem_team_create_ctx(team, 0, &ctx))
        exit(3);
    shmem_ctx_long_p(ctx, cell, 1, 0);
    shmem_team_destroy(team);
    use(ctx);
}

static void put_on(shmem_ctx_t ctx)
{
    shmem_ctx_long_p(ctx, cell, 1, 0);
}

static void destroyed_context(void)
{
    context_of_team(put_on);
}

static void destroyed_context_quiet(void)
{
    context_of_team(shmem_ctx_quiet);
}

static void no_such_root(void)
{
    if (shmem_long_broadcast(SHMEM_TEAM_WORLD, cell, cell, 1, 99))
        shmem_global_exit(1);
}

static void no_team(void)
{
    if (shmem_long_sum_reduce(SHMEM_TEAM_INVALID, cell, cell, 1))
        shmem_global_exit(1);
}

static void destroy_world(void)
{
    shmem_team_destroy(SHMEM_TEAM_WORLD);
}

static void destroy_default(void)
{
    shmem_ctx_destroy(SHMEM_CTX_DEFAULT);
}

static void invalid_context(void)
{
    shmem_ctx_long_p(SHMEM_CTX_INVALID, cell, 1, 0);
}

static void bad_active_set(void)
{
    shmem_barrier(0, 1, shmem_n_pes(), psync);
}

static void not_in_active_set(void)
{
    if (shmem_my_pe() == 1)
        shmem_barrier(0, 0, 1, psync);
    shmem_barrier_all();
}

static void lock_not_held(void)
{
    shmem_clear_lock(cell);
}

static void bad_comparison(void)
{
    shmem_long_wait_until(cell, 17, 0);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
#define CASE(name)                                                                                 \
    {                                                                                              \
#name, name                                                                                \
    }
    CASE(before_init),
    CASE(barrier_before_init),
    CASE(after_finalize),
    CASE(finalized_twice),
    CASE(finalize_before_init),
    CASE(finalize_expires),
    CASE(late_fault),
    CASE(no_such_pe),
    CASE(negative_pe),
    CASE(stack_address),
    CASE(null_address),
    CASE(past_the_end),
    CASE(freed),
    CASE(beyond_block),
    CASE(wait_on_freed),
    CASE(freed_twice),
    CASE(foreign_free),
    CASE(misaligned),
    CASE(stride_zero),
    CASE(sizes_differ),
    CASE(collectives_differ),
    CASE(roots_differ),
    CASE(splits_differ),
    CASE(grids_differ),
    CASE(reduce_overlap),
    CASE(unknown_hint),
    CASE(misaligned_signal),
    CASE(misaligned_signal_wait),
    CASE(destroyed_context),
    CASE(destroyed_context_quiet),
    CASE(no_such_root),
    CASE(no_team),
    CASE(destroy_world),
    CASE(destroy_default),
    CASE(invalid_context),
    CASE(bad_active_set),
    CASE(not_in_active_set),
    CASE(lock_not_held),
    CASE(bad_comparison),
};

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    if (!strstr(argv[1], "before_init"))
        shmem_init();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(argv[1], cases[i].name) == 0)
            cases[i].run();
    fprintf(stderr, "case %s: nothing was found to be wrong\n", argv[1]);
    return 0;
}
