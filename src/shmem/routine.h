/* SPDX-License-Identifier: Apache-2.0 */
/* How libweft defines a routine of OpenSHMEM: pshmem_x() is the function, and shmem_x() a weak
 * alias of it, so that a profiling tool can replace shmem_x() in static and in dynamic programs.
 * This folder knows the one implicit job (shmem_own) and the host API; it knows no path. */
#ifndef WEFT_SHMEM_ROUTINE_H
#define WEFT_SHMEM_ROUTINE_H

#define SHMEM_NO_INLINE
/* The library's implicit job; a program's inline functions use weft_shmem instead. */
#define WEFT_SHMEM_JOB shmem_own
#include <shmem.h>
#include <shmemx.h>

#include "base/log.h"
#include "base/sentence.h"
#include "base/status.h"

#define SHMEM_ROUTINE(ret, name, params)                                                           \
    ret p##name params;                                                                            \
    extern __typeof__(p##name) name                                                                \
        __attribute__((weak, alias("p" #name), visibility("default")));                            \
    WEFT_EXPORT ret p##name params

/* Ends the program if a call of the host API fails in a routine, which has no status to return. */
#define REQUIRE(routine, call)                                                                     \
    do {                                                                                           \
        weft_status status_ = (call);                                                              \
        if (unlikely(status_))                                                                     \
            weft_shmem_fail(routine, status_);                                                     \
    } while (0)

/* A program's team: the host API's team, and the configuration that it was made with. */
struct weft_shmem_team {
    weft_team *team;
    shmem_team_config_t config;
    struct weft_shmem_team *next; /* list of all teams that the program made */
};

/* The host API's team of a handle; NULL for SHMEM_TEAM_INVALID. */
static inline weft_team *shmem_team_of(shmem_team_t team)
{
    if (team == SHMEM_TEAM_WORLD)
        return shmem_own.world;
    if (team == SHMEM_TEAM_SHARED)
        return shmem_own.shared;
    return team == SHMEM_TEAM_INVALID ? NULL : team->team;
}

/* The handle of a team of the host API. */
shmem_team_t shmem_handle_of(weft_team *team);

/* The team of SHMEM_TEAM_SHARED in this job. */
weft_team *shmem_find_shared(weft_job *job);

/* Frees the records of the program's teams. */
void shmem_teams_close(void);

/* The result of a routine that returns int: 0, or the status, whose sentence it logs. A failure
 * that ends the connection to a PE or the job ends the program. */
int shmem_result(const char *routine, weft_status status);

/* Read the variables SHMEM_VERSION, SHMEM_INFO, SHMEM_SYMMETRIC_SIZE, SHMEM_DEBUG and their SMA_
 * forms. */
weft_status shmem_environment_read(size_t *heap_bytes);
void shmem_environment_print(void);

/* Let one thread of this PE at a time hold or wait for a lock, in the order of the calls. Needed
 * with SHMEM_THREAD_MULTIPLE, because a PE has one entry in a lock's queue. */
void shmem_guard_enter(const long *lock);
int shmem_guard_try(const long *lock); /* returns 1 when entered */
void shmem_guard_leave(const long *lock);

#endif
