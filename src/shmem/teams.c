/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSHMEM 1.5, section 9.4: teams. A handle is one of the small numbers of the predefined teams,
 * or the address of a record here that holds the host API's team and the configuration. */
#include "shmem/routine.h"

#include "job/job.h"

#include <pthread.h>
#include <stdlib.h>

static struct weft_shmem_team *made;
static pthread_mutex_t made_lock = PTHREAD_MUTEX_INITIALIZER;

/* The standard promises that shmem_ptr() gives an address for every member of SHMEM_TEAM_SHARED.
 * Where the path to one PE of the node cannot be loaded and stored, it is this PE alone; a team of
 * one needs nobody's consent and no synchronisation area. */
weft_team *shmem_find_shared(weft_job *job)
{
    weft_team *node = weft_team_node(job);
    if (node->direct)
        return node;
    weft_team *alone = NULL;
    if (team_new(job, &job->pe, 1, node->slot, &alone))
        weft_shmem_fail("shmem_init", WEFT_ERR_NO_MEMORY);
    return alone;
}

void shmem_teams_close(void)
{
    while (made) {
        struct weft_shmem_team *team = made;
        made = team->next;
        free(team);
    }
}

shmem_team_t shmem_handle_of(weft_team *team)
{
    if (!team || team == shmem_own.world)
        return team ? SHMEM_TEAM_WORLD : SHMEM_TEAM_INVALID;
    if (team == shmem_own.shared)
        return SHMEM_TEAM_SHARED;
    pthread_mutex_lock(&made_lock);
    struct weft_shmem_team *record = made;
    while (record && record->team != team)
        record = record->next;
    pthread_mutex_unlock(&made_lock);
    return record ? record : SHMEM_TEAM_INVALID;
}

static shmem_team_t record_team(weft_team *team, const shmem_team_config_t *config, long mask)
{
    if (!team)
        return SHMEM_TEAM_INVALID;
    struct weft_shmem_team *record = malloc(sizeof *record);
    if (!record) {
        base_fail(WEFT_ERR_NO_MEMORY, "no memory for the record of a team");
        weft_shmem_fail("shmem_team_split", WEFT_ERR_NO_MEMORY);
    }
    *record = (struct weft_shmem_team){.team = team};
    if (config && (mask & SHMEM_TEAM_NUM_CONTEXTS))
        record->config.num_contexts = config->num_contexts;
    pthread_mutex_lock(&made_lock);
    record->next = made;
    made = record;
    pthread_mutex_unlock(&made_lock);
    return record;
}

static void forget(struct weft_shmem_team *record)
{
    pthread_mutex_lock(&made_lock);
    for (struct weft_shmem_team **at = &made; *at; at = &(*at)->next) {
        if (*at == record) {
            *at = record->next;
            break;
        }
    }
    pthread_mutex_unlock(&made_lock);
    free(record);
}

/* A mask that names what the standard has not, or names something in no structure, is refused. */
static weft_status check_config(const char *what, const shmem_team_config_t *config, long mask)
{
    weft_status status =
        base_check_bits(what, (unsigned long)mask, (unsigned long)SHMEM_TEAM_NUM_CONTEXTS);
    if (!status && mask && !config)
        status = base_fail(WEFT_ERR_ARGUMENT, "%s is %#lx, but the configuration is null", what,
                           (unsigned long)mask);
    return status;
}

SHMEM_ROUTINE(int, shmem_team_my_pe, (shmem_team_t team))
{
    weft_team *members = shmem_team_of(team);
    return members ? weft_team_my_pe(members) : -1;
}

SHMEM_ROUTINE(int, shmem_team_n_pes, (shmem_team_t team))
{
    weft_team *members = shmem_team_of(team);
    return members ? weft_team_n_pes(members) : -1;
}

SHMEM_ROUTINE(int, shmem_team_get_config,
              (shmem_team_t team, long config_mask, shmem_team_config_t *config))
{
    if (team == SHMEM_TEAM_INVALID)
        return WEFT_ERR_ARGUMENT;
    weft_status status = check_config("config_mask", config, config_mask);
    if (status)
        return shmem_result(__func__, status);
    if (config_mask & SHMEM_TEAM_NUM_CONTEXTS)
        config->num_contexts =
            team == SHMEM_TEAM_WORLD || team == SHMEM_TEAM_SHARED ? 0 : team->config.num_contexts;
    return 0;
}

SHMEM_ROUTINE(int, shmem_team_translate_pe,
              (shmem_team_t src_team, int src_pe, shmem_team_t dest_team))
{
    weft_team *from = shmem_team_of(src_team);
    weft_team *to = shmem_team_of(dest_team);
    return from && to ? weft_team_translate(from, src_pe, to) : -1;
}

SHMEM_ROUTINE(int, shmem_team_split_strided,
              (shmem_team_t parent_team, int start, int stride, int size,
               const shmem_team_config_t *config, long config_mask, shmem_team_t *new_team))
{
    weft_team *parent = shmem_team_of(parent_team);
    weft_team *team = NULL;
    *new_team = SHMEM_TEAM_INVALID;
    if (!parent)
        return WEFT_ERR_ARGUMENT;
    weft_status status = check_config("config_mask", config, config_mask);
    if (!status)
        status = weft_team_split_strided(parent, start, stride, size, &team);
    if (!status)
        *new_team = record_team(team, config, config_mask);
    return shmem_result(__func__, status);
}

SHMEM_ROUTINE(int, shmem_team_split_2d,
              (shmem_team_t parent_team, int xrange, const shmem_team_config_t *xaxis_config,
               long xaxis_mask, shmem_team_t *xaxis_team, const shmem_team_config_t *yaxis_config,
               long yaxis_mask, shmem_team_t *yaxis_team))
{
    weft_team *parent = shmem_team_of(parent_team);
    weft_team *row = NULL, *column = NULL;
    *xaxis_team = SHMEM_TEAM_INVALID;
    *yaxis_team = SHMEM_TEAM_INVALID;
    if (!parent)
        return WEFT_ERR_ARGUMENT;
    weft_status status = check_config("xaxis_mask", xaxis_config, xaxis_mask);
    if (!status)
        status = check_config("yaxis_mask", yaxis_config, yaxis_mask);
    if (!status)
        status = weft_team_split_2d(parent, xrange, &row, &column);
    if (!status) {
        *xaxis_team = record_team(row, xaxis_config, xaxis_mask);
        *yaxis_team = record_team(column, yaxis_config, yaxis_mask);
    }
    return shmem_result(__func__, status);
}

SHMEM_ROUTINE(void, shmem_team_destroy, (shmem_team_t team))
{
    if (team == SHMEM_TEAM_INVALID)
        return;
    if (team == SHMEM_TEAM_WORLD || team == SHMEM_TEAM_SHARED) {
        base_fail(WEFT_ERR_ARGUMENT, "a predefined team cannot be destroyed");
        weft_shmem_fail(__func__, WEFT_ERR_ARGUMENT);
    }
    weft_status status = weft_team_destroy(team->team);
    if (status)
        weft_shmem_fail(__func__, status);
    forget(team);
}

SHMEM_ROUTINE(int, shmem_team_sync, (shmem_team_t team))
{
    weft_team *members = shmem_team_of(team);
    return members ? shmem_result(__func__, weft_sync(members)) : WEFT_ERR_ARGUMENT;
}
