/* SPDX-License-Identifier: Apache-2.0 */
/* A program that ends without shmem_finalize() completes its puts, and the peer sees them. */
#include "check.h"

static long cell;

static void look(void)
{
    /* Registered before init, so it runs after the implicit finalize. */
    if (cell != 42)
        _Exit(1);
}

int main(void)
{
    atexit(look);
    start_pes(0);
    shmem_barrier_all();
    shmem_long_put_nbi(&cell, &(long){42}, 1, (shmem_my_pe() + 1) % shmem_n_pes());
    exit(0);
}
