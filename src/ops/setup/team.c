/* SPDX-License-Identifier: Apache-2.0 */
/* The functions on teams. All members of a team use the same slot: the number of a synchronisation
 * area that is free at all of them. Each PE keeps a bitmap of its free slots in the system segment.
 * A split reads the bitmaps of the whole parent, so every member finds the same lowest free slot.
 * PEs of the parent that are not in the new team need no slot, but take part in the collective. */
#include "ops/setup/team.h"

#include "job/device_state.h"
#include "ops/coll/coll.h"

#include <stdlib.h>
#include <string.h>

WEFT_EXPORT weft_team *weft_team_world(weft_job *job)
{
    return job ? job->world : NULL;
}

WEFT_EXPORT weft_team *weft_team_node(weft_job *job)
{
    return job ? job->node : NULL;
}

static bool is_usable(const weft_team *team)
{
    return team && atomic_load_explicit(&team->job->state, memory_order_relaxed) == JOB_RUNNING;
}

WEFT_EXPORT int weft_team_my_pe(const weft_team *team)
{
    return is_usable(team) ? team->me : -1;
}

WEFT_EXPORT int weft_team_n_pes(const weft_team *team)
{
    return is_usable(team) ? team->n : -1;
}

WEFT_EXPORT int weft_team_translate(const weft_team *from, int pe, const weft_team *to)
{
    if (!is_usable(from) || !is_usable(to) || pe < 0 || pe >= from->n)
        return -1;
    int world = from->pes[pe];
    if (to == to->job->world)
        return world;
    for (int i = 0; i < to->n; i++)
        if (to->pes[i] == world)
            return i;
    return -1;
}

/* Finds the lowest slot that is free at every member of `parent`. Collective; the syncs before and
 * after the reading keep the bitmaps unchanged. */
static weft_status choose_slot(struct weft_team *parent, int *slot)
{
    struct weft_job *job = parent->job;
    uint64_t common[TEAM_SLOT_WORDS];
    memset(common, 0xff, sizeof common);
    weft_status status = coll_sync(parent, BOX_OP_TEAM_SPLIT);
    for (int i = 0; i < parent->n && !status; i++) {
        uint64_t theirs[TEAM_SLOT_WORDS];
        status =
            weft_get(job->system_ctx, theirs, team_free_slots(job), sizeof theirs, parent->pes[i]);
        for (int word = 0; word < TEAM_SLOT_WORDS; word++)
            common[word] &= theirs[word];
    }
    if (!status)
        status = coll_sync(parent, BOX_OP_TEAM_SPLIT);
    if (status)
        return status;
    for (int word = 0; word < TEAM_SLOT_WORDS; word++) {
        if (common[word]) {
            *slot = word * 64 + __builtin_ctzll(common[word]);
            return WEFT_OK;
        }
    }
    return base_fail(WEFT_ERR_NO_MEMORY, "all %d team slots are in use; destroy a team first%s",
                     job->most_teams,
                     job->most_teams < TEAM_SLOTS ? ", or raise weft_init_attr.teams" : "");
}

static weft_status split_team(struct weft_team *parent, const int *pes, int n, bool member,
                              struct weft_team **team)
{
    int slot;
    box_record(parent->job->box, BOX_OP_TEAM_SPLIT, -1, (uint64_t)parent->slot, 0);
    weft_status status = choose_slot(parent, &slot);
    if (status)
        return status;
    /* The bit may change only after every PE has read the bitmaps, which choose_slot() ensures. */
    if (member)
        status = team_create(parent->job, pes, n, slot, team);
    /* No member may use the area before all members have claimed it. */
    weft_status synced = coll_sync(parent, BOX_OP_TEAM_SPLIT);
    return status ? status : synced;
}

static weft_status check_parent(const char *function, struct weft_team *parent, const void *result)
{
    if (!parent || !result)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: %s is null", function,
                         parent ? "the result" : "parent");
    return is_usable(parent) ? WEFT_OK : job_finalized(function);
}

/* Checking mode: compares the arguments of all members of the parent. This happens before the
 * arguments are checked, because one PE may be refused while the others wait for it. */
static weft_status compare_splits(const char *function, struct weft_team *parent, int start,
                                  int stride, int n)
{
    if (likely(!parent->job->checking))
        return WEFT_OK;
    int mine[3] = {start, stride, n};
    int(*all)[3] = malloc((size_t)parent->n * sizeof mine);
    if (!all)
        return base_fail(WEFT_ERR_NO_MEMORY, "%s: no private memory to check the call", function);
    weft_status status = coll_exchange(parent, BOX_OP_TEAM_SPLIT, mine, all, sizeof mine);
    for (int i = 0; i < parent->n && !status; i++)
        if (memcmp(all[i], mine, sizeof mine) != 0)
            status = base_fail(WEFT_ERR_MISMATCH,
                               "%s: start %d, stride %d, %d PEs (or xrange) at PE %d; start %d, "
                               "stride %d, %d at PE %d",
                               function, start, stride, n, parent->job->pe, all[i][0], all[i][1],
                               all[i][2], parent->pes[i]);
    free(all);
    return status;
}

WEFT_EXPORT weft_status weft_team_split_strided(weft_team *parent, int start, int stride, int n,
                                                weft_team **team)
{
    weft_status status = check_parent("weft_team_split_strided", parent, team);
    if (status)
        return status;
    *team = NULL;
    status = compare_splits("weft_team_split_strided", parent, start, stride, n);
    if (status)
        return status;
    long last = (long)start + (long)(n - 1) * stride;
    if (n < 1 || start < 0 || start >= parent->n || last < 0 || last >= parent->n ||
        (stride == 0 && n > 1))
        return base_fail(WEFT_ERR_ARGUMENT,
                         "weft_team_split_strided: start %d, stride %d, %d PEs do not lie in a "
                         "parent of %d PEs",
                         start, stride, n, parent->n);
    int *pes = malloc((size_t)n * sizeof *pes);
    if (!pes)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a team of %d PEs", n);
    bool member = false;
    for (int i = 0; i < n; i++) {
        pes[i] = parent->pes[start + i * stride];
        member |= pes[i] == parent->job->pe;
    }
    status = split_team(parent, pes, n, member, team);
    free(pes);
    return status;
}

WEFT_EXPORT weft_status weft_team_split_2d(weft_team *parent, int xrange, weft_team **xteam,
                                           weft_team **yteam)
{
    weft_status status = check_parent("weft_team_split_2d", parent, xteam && yteam ? xteam : NULL);
    if (status)
        return status;
    *xteam = *yteam = NULL;
    status = compare_splits("weft_team_split_2d", parent, 0, 0, xrange);
    if (status)
        return status;
    if (xrange < 1)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "weft_team_split_2d: xrange is %d, at least 1 is needed", xrange);
    if (xrange > parent->n)
        xrange = parent->n;
    int column = parent->me % xrange, row = parent->me / xrange;
    int width = parent->n - row * xrange < xrange ? parent->n - row * xrange : xrange;
    int height = (parent->n - column + xrange - 1) / xrange;
    int most = width > height ? width : height;
    int *pes = malloc((size_t)most * sizeof *pes);
    if (!pes)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a team of %d PEs", most);
    for (int i = 0; i < width; i++)
        pes[i] = parent->pes[row * xrange + i];
    status = split_team(parent, pes, width, true, xteam);
    for (int i = 0; i < height; i++)
        pes[i] = parent->pes[column + i * xrange];
    if (!status)
        status = split_team(parent, pes, height, true, yteam);
    free(pes);
    return status;
}

weft_status team_split_node(struct weft_team *parent, struct weft_team **team)
{
    const struct team_nodes *nodes = parent->nodes;
    int first = nodes->first[nodes->mine], n = nodes->first[nodes->mine + 1] - first;
    int *pes = malloc((size_t)n * sizeof *pes);
    if (!pes)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a team of %d PEs", n);
    for (int i = 0; i < n; i++)
        pes[i] = parent->pes[nodes->members[first + i]];
    weft_status status = split_team(parent, pes, n, true, team);
    free(pes);
    return status;
}

static weft_status drop_contexts(struct weft_team *team)
{
    for (;;) {
        pthread_mutex_lock(&team->job->lock);
        struct weft_ctx *ctx = team->job->contexts;
        while (ctx && ctx->team != team)
            ctx = ctx->next;
        pthread_mutex_unlock(&team->job->lock);
        if (!ctx)
            return WEFT_OK;
        weft_status status = weft_ctx_destroy(ctx);
        if (status)
            return status;
    }
}

WEFT_EXPORT weft_status weft_team_destroy(weft_team *team)
{
    if (!team)
        return WEFT_OK;
    if (!is_usable(team))
        return job_finalized("weft_team_destroy");
    if (!team->split_off)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "weft_team_destroy: the world and node teams cannot be destroyed");
    box_record(team->job->box, BOX_OP_TEAM_DESTROY, -1, (uint64_t)team->slot, 0);
    weft_status status = drop_contexts(team);
    if (!status)
        status = coll_sync(team, BOX_OP_TEAM_DESTROY);
    if (status)
        return status;
    /* All data for this PE in the team has arrived, so the area can be cleared and reused. */
    memset(team->mailboxes, 0, (size_t)team->n * sizeof *team->mailboxes);
    device_team_gone(team->job, team);
    job_gpu_team_gone(team->job, team);
    team_free_slots(team->job)[team->slot / 64] |= 1ull << (team->slot % 64);
    team_unlink(team);
    team_free(team);
    return WEFT_OK;
}
