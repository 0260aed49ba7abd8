/* SPDX-License-Identifier: Apache-2.0 */
/* How libweft defines a routine of OpenSHMEM: pshmem_x() is the function, shmem_x() a weak alias of
 * it, so that a profiling tool can replace shmem_x() in static and in dynamic programs. The room
 * shmem knows the one implicit job (shmem_own) and the host API; it knows no path. */
#ifndef WEFT_SHMEM_ROUTINE_H
#define WEFT_SHMEM_ROUTINE_H

#define SHMEM_NO_INLINE
#define WEFT_SHMEM_JOB                                                                             \
    shmem_own /* the implicit job; a program's inline functions see weft_shmem                     \
               * \ */
#include <shmem.h>
#include <shmemx.h>

#include "base/log.h"
#include "base/status.h"

#define SHMEM_ROUTINE(ret, name, params)                                                           \
    ret p##name params;                                                                            \
    extern __typeof__(p##name) name                                                                \
        __attribute__((weak, alias("p" #name), visibility("default")));                            \
    WEFT_EXPORT ret p##name params

/* A team as the program holds it: the host API's team, and the configuration it was made with. */
struct weft_shmem_team {
    weft_team *team;
    shmem_team_config_t config;
    struct weft_shmem_team *next; /* all teams that the program made */
};

/* The host API's team behind a handle; NULL for SHMEM_TEAM_INVALID. */
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

/* What is behind SHMEM_TEAM_SHARED in this job. */
weft_team *shmem_find_shared(weft_job *job);

/* Frees the records of the program's teams. */
void shmem_teams_close(void);

/* What a routine with an int result returns: 0; else the sentence is logged. A fault that ends the
 * connection to a PE or the job ends the program. */
int shmem_result(const char *routine, weft_status status);

/* SHMEM_VERSION, SHMEM_INFO, SHMEM_SYMMETRIC_SIZE, SHMEM_DEBUG and their SMA_ forms. */
weft_status shmem_environment_read(size_t *heap_bytes);
void shmem_environment_print(void);

/* One thread of this PE at a time holds or waits for a lock; in the order of the calls. Needed at
 * SHMEM_THREAD_MULTIPLE, for a PE has one place in a lock's queue. */
void shmem_guard_enter(const long *lock);
int shmem_guard_try(const long *lock); /* 1 when entered */
void shmem_guard_leave(const long *lock);

#endif
