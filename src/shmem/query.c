/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSHMEM 1.5: queries of the library and of addresses (9.1), and the profiling control (10),
 * which is for tools. */
#include "shmem/routine.h"

#include "base/clock.h"

#include <string.h>

SHMEM_ROUTINE(int, shmem_pe_accessible, (int pe))
{
    return pe >= 0 && pe < shmem_own.n_pes;
}

SHMEM_ROUTINE(int, shmem_addr_accessible, (const void *addr, int pe))
{
    return shmem_own.job && weft_accessible(shmem_own.job, addr, pe);
}

/* This PE's own object keeps its address, although it may also be mapped at another one. */
static void *find_address(const void *dest, int pe)
{
    void *address = shmem_own.job ? weft_ptr(shmem_own.job, dest, pe) : NULL;
    return address && pe == shmem_own.my_pe ? (void *)dest : address;
}

SHMEM_ROUTINE(void *, shmem_ptr, (const void *dest, int pe))
{
    return find_address(dest, pe);
}

SHMEM_ROUTINE(void *, shmemx_team_ptr, (shmem_team_t team, const void *dest, int pe))
{
    weft_team *members = shmem_team_of(team);
    if (!members)
        return NULL;
    int world = weft_team_translate(members, pe, weft_team_world(shmem_own.job));
    return world < 0 ? NULL : find_address(dest, world);
}

SHMEM_ROUTINE(void, shmem_info_get_version, (int *major, int *minor))
{
    *major = SHMEM_MAJOR_VERSION;
    *minor = SHMEM_MINOR_VERSION;
}

SHMEM_ROUTINE(void, shmem_info_get_name, (char *name))
{
    _Static_assert(sizeof SHMEM_VENDOR_STRING <= SHMEM_MAX_NAME_LEN, "the name fits");
    strcpy(name, SHMEM_VENDOR_STRING);
}

SHMEM_ROUTINE(void, shmem_pcontrol, (int level, ...))
{
}

SHMEM_ROUTINE(double, shmemx_wtime, (void))
{
    return (double)clock_now_ns() * 1e-9;
}

SHMEM_ROUTINE(weft_job *, shmemx_job, (void))
{
    return shmem_own.job;
}

SHMEM_ROUTINE(weft_team *, shmemx_team, (shmem_team_t team))
{
    return shmem_team_of(team);
}

SHMEM_ROUTINE(weft_ctx *, shmemx_ctx, (shmem_ctx_t ctx))
{
    return weft_shmem_ctx(ctx);
}
