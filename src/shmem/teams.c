/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSHMEM 1.5, section 9.4: teams. A handle is the small number of a predefined team, or the
 * address of a record with the host API's team and the configuration. */
#include "shmem/routine.h"

#include "job/job.h"

#include <pthread.h>
#include <stdlib.h>

static struct weft_shmem_team *made_teams;
static pthread_mutex_t made_lock = PTHREAD_MUTEX_INITIALIZER;

/* The standard promises that shmem_ptr() gives an address for every member of SHMEM_TEAM_SHARED.
 * When the path to a PE of the node has no load/store access, the team has only this PE. A team of
 * one needs no agreement with other PEs and no synchronisation area. */
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
    while (made_teams) {
        struct weft_shmem_team *team = made_teams;
        made_teams = team->next;
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
    struct weft_shmem_team *record = made_teams;
    while (record && record->team != team)
        record = record->next;
    pthread_mutex_unlock(&made_lock);
    return record ? record : SHMEM_TEAM_INVALID;
}

static shmem_team_t make_record(weft_team *team, const shmem_team_config_t *config, long mask)
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
    record->next = made_teams;
    made_teams = record;
    pthread_mutex_unlock(&made_lock);
    return record;
}

static void free_record(struct weft_shmem_team *record)
{
    pthread_mutex_lock(&made_lock);
    for (struct weft_shmem_team **at = &made_teams; *at; at = &(*at)->next) {
        if (*at == record) {
            *at = record->next;
            break;
        }
    }
    pthread_mutex_unlock(&made_lock);
    free(record);
}

/* Refuses a mask with bits that the standard does not define, or without a configuration. */
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
        *new_team = make_record(team, config, config_mask);
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
        *xaxis_team = make_record(row, xaxis_config, xaxis_mask);
        *yaxis_team = make_record(column, yaxis_config, yaxis_mask);
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
    free_record(team);
}

SHMEM_ROUTINE(int, shmem_team_sync, (shmem_team_t team))
{
    weft_team *members = shmem_team_of(team);
    return members ? shmem_result(__func__, weft_sync(members)) : WEFT_ERR_ARGUMENT;
}
