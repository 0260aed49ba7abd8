/* SPDX-License-Identifier: Apache-2.0 */
/* Teams: their members and the addresses of the members' synchronisation areas. ops/setup/team.c
 * chooses the slot of a team among these areas. */
#include "job/device_state.h"

#include <stdlib.h>
#include <string.h>

/* Radix of a barrier. Path net sends a message for each notification, which costs CPU time at both
 * ends. Either all PEs of a job use path net or none does. */
enum { RADIX_BY_STORES = 64, RADIX_BY_MESSAGES = 8 };

uint64_t *team_free_slots(struct weft_job *job)
{
    return (uint64_t *)((char *)job->box + BOX_BYTES);
}

void team_fill(struct weft_team *team)
{
    struct weft_job *job = team->job;
    size_t area = team_area_offset(team->slot, job->npes);
    team->direct = true;
    for (int i = 0; i < team->n; i++) {
        int pe = team->pes[i];
        bool direct = job_direct(job, WEFT_HOST, pe);
        team->mailbox_at[i] =
            direct ? (struct mailbox *)(job->paths.map[pe][SEG_SYSTEM] + area) + team->me : NULL;
        team->direct &= direct;
    }
}

static void count_members(struct weft_team *team, struct team_nodes *nodes, int *node_number)
{
    const int *node_of = team->job->boot->node_of;
    for (int i = 0; i < team->n; i++) {
        int *known = &node_number[node_of[team->pes[i]]];
        if (*known < 0)
            *known = nodes->n++;
        nodes->of[i] = *known;
        nodes->first[*known + 1]++;
        nodes->in_order &= i == 0 || nodes->of[i] >= nodes->of[i - 1];
    }
    nodes->least = team->n;
    for (int k = 0; k < nodes->n; k++) {
        if (nodes->first[k + 1] < nodes->least)
            nodes->least = nodes->first[k + 1];
        nodes->first[k + 1] += nodes->first[k];
    }
}

static void list_members(struct weft_team *team, struct team_nodes *nodes, int *used)
{
    for (int i = 0; i < team->n; i++) {
        int node = nodes->of[i];
        if (i == team->me) {
            nodes->mine = node;
            nodes->local_me = used[node];
        }
        nodes->members[nodes->first[node] + used[node]++] = i;
    }
}

static void free_nodes(struct team_nodes *nodes)
{
    if (!nodes)
        return;
    free(nodes->of);
    free(nodes->first);
    free(nodes->members);
    free(nodes);
}

/* Sets team->nodes; leaves it NULL where nodes make no difference. */
static weft_status find_nodes(struct weft_team *team)
{
    int all = team->job->boot->nodes;
    if (all < 2 || team->n < 3)
        return WEFT_OK;
    struct team_nodes *nodes = calloc(1, sizeof *nodes);
    int *node_number = malloc((size_t)all * sizeof *node_number),
        *used = calloc((size_t)all, sizeof *used);
    if (nodes) {
        nodes->in_order = true;
        nodes->of = calloc((size_t)team->n, sizeof *nodes->of);
        nodes->first = calloc((size_t)all + 1, sizeof *nodes->first);
        nodes->members = calloc((size_t)team->n, sizeof *nodes->members);
    }
    bool good = nodes && node_number && used && nodes->of && nodes->first && nodes->members;
    if (good) {
        for (int k = 0; k < all; k++)
            node_number[k] = -1;
        count_members(team, nodes, node_number);
        list_members(team, nodes, used);
    }
    free(node_number);
    free(used);
    if (good && nodes->n > 1 && nodes->n < team->n) {
        team->nodes = nodes;
        return WEFT_OK;
    }
    free_nodes(nodes);
    return good ? WEFT_OK
                : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a team of %d PEs", team->n);
}

weft_status team_new(struct weft_job *job, const int *pes, int n, int slot,
                     struct weft_team **result)
{
    struct weft_team *team = calloc(1, sizeof *team);
    if (!team)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a team");
    team->job = job;
    team->n = n;
    team->me = -1;
    team->leader = -1;
    team->slot = slot;
    team->radix = job->paths.common[PATH_NET] ? RADIX_BY_MESSAGES : RADIX_BY_STORES;
    team->pes = malloc((size_t)n * sizeof *team->pes);
    team->mailbox_at = calloc((size_t)n, sizeof *team->mailbox_at);
    team->scratch = calloc((size_t)n, PACKET_BYTES);
    if (!team->pes || !team->mailbox_at || !team->scratch) {
        team_free(team);
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a team of %d PEs", n);
    }
    memcpy(team->pes, pes, (size_t)n * sizeof *team->pes);
    for (int i = 0; i < n; i++)
        if (pes[i] == job->pe)
            team->me = i;
    weft_status status = find_nodes(team);
    if (status) {
        team_free(team);
        return status;
    }
    team->mailboxes =
        (struct mailbox *)(job->segments[SEG_SYSTEM].base + team_area_offset(slot, job->npes));
    team_fill(team);
    pthread_mutex_lock(&job->lock);
    team->next = job->teams;
    job->teams = team;
    pthread_mutex_unlock(&job->lock);
    *result = team;
    return device_team_made(job, team);
}

weft_status team_create(struct weft_job *job, const int *pes, int n, int slot,
                        struct weft_team **team)
{
    weft_status status = team_new(job, pes, n, slot, team);
    if (status)
        return status;
    (*team)->split_off = true;
    team_free_slots(job)[slot / 64] &= ~(1ull << (slot % 64));
    return WEFT_OK;
}

void team_unlink(struct weft_team *team)
{
    pthread_mutex_lock(&team->job->lock);
    for (struct weft_team **at = &team->job->teams; *at; at = &(*at)->next) {
        if (*at == team) {
            *at = team->next;
            break;
        }
    }
    pthread_mutex_unlock(&team->job->lock);
}

void team_empty(struct weft_team *team)
{
    free(team->pes);
    free(team->mailbox_at);
    free(team->coll);
    free(team->scratch);
    free_nodes(team->nodes);
    team->pes = NULL;
    team->scratch = NULL;
    team->mailbox_at = NULL;
    team->coll = NULL;
    team->nodes = NULL;
}

void team_free(struct weft_team *team)
{
    team_empty(team);
    free(team);
}
