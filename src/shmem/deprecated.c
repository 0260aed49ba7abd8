/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSHMEM 1.5, annex F and section 9.13: old names, and the cache routines, which do nothing
 * because caches are coherent. They are in a file of their own, so that a static program with its
 * own function my_pe() does not link this one. */
#include "shmem/routine.h"

SHMEM_ROUTINE(int, _my_pe, (void))
{
    return shmem_own.my_pe;
}

SHMEM_ROUTINE(int, _num_pes, (void))
{
    return shmem_own.n_pes;
}

SHMEM_ROUTINE(int, my_pe, (void))
{
    return shmem_own.my_pe;
}

SHMEM_ROUTINE(int, num_pes, (void))
{
    return shmem_own.n_pes;
}

SHMEM_ROUTINE(void, shmem_set_cache_inv, (void))
{
}

SHMEM_ROUTINE(void, shmem_set_cache_line_inv, (void *dest))
{
}

SHMEM_ROUTINE(void, shmem_clear_cache_inv, (void))
{
}

SHMEM_ROUTINE(void, shmem_clear_cache_line_inv, (void *dest))
{
}

SHMEM_ROUTINE(void, shmem_udcflush, (void))
{
}

SHMEM_ROUTINE(void, shmem_udcflush_line, (void *dest))
{
}
