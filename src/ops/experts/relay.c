/* SPDX-License-Identifier: Apache-2.0 */
/* Relays between nodes (nodes.h): whether an object has them, and what memory they take. */
#include "ops/experts/experts.h"

#include "base/config.h"
#include "ops/coll/coll.h"
#include "ops/setup/team.h"

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void raise_to(size_t *most, size_t value)
{
    *most = value > *most ? value : *most;
}

/* The share of tokens that have an expert at some of the members, for experts chosen at random. */
static double share_of_tokens(size_t members, size_t some, size_t top)
{
    double none = 1;
    for (size_t k = 0; k < top; k++)
        none *= (double)(members - some) / (double)members;
    return 1 - none;
}

/* Whether relays save time: an extra step within the node against rows that cross fewer times. With
 * 1 Gbit/s between two nodes of two PEs, relays took longer where rows would otherwise cross 1.17
 * times as often, and less at 1.32 (docs/experts.md). */
static bool relays_pay(size_t members, size_t top, size_t nodes, const int *first)
{
    double by_relays = 0, without = 0;
    int form = config_choice(CONFIG_TEST_EXPERTS);
    if (form == EXPERTS_FORM_DIRECT || form == EXPERTS_FORM_RELAY)
        return form == EXPERTS_FORM_RELAY;
    for (size_t k = 0; k < nodes; k++) {
        size_t size = (size_t)(first[k + 1] - first[k]);
        by_relays += (double)(members - size) * share_of_tokens(members, size, top);
        without += (double)((members - size) * size) * share_of_tokens(members, 1, top);
    }
    return without >= 1.25 * by_relays;
}

struct experts_division experts_divide(size_t members, size_t top, size_t nodes, const int *first)
{
    size_t alone = 0;
    struct experts_division d = {.nodes = nodes, .returned = least(top, members - 1)};
    if (!nodes)
        return d;
    for (size_t k = 0; k < nodes; k++)
        alone += first[k + 1] - first[k] == 1;
    d.returned = 0;
    for (size_t k = 0; k < nodes; k++) {
        size_t size = (size_t)(first[k + 1] - first[k]), relayed = nodes - alone - (size > 1);
        raise_to(&d.returned, least(top, size - 1 + alone - (size == 1) + relayed));
        if (size == 1)
            continue;
        size_t sources = (members - size + size - 1) / size;
        raise_to(&d.sources, sources);
        raise_to(&d.places, sources * size);
        raise_to(&d.results, sources * least(top, size - 1));
    }
    return d;
}

struct experts_division experts_divide_evenly(size_t members, size_t top, size_t node_members)
{
    int first[EXPERTS_MEMBERS_MOST + 1] = {0};
    size_t nodes = 0;
    if (node_members < 2 || node_members >= members)
        return experts_divide(members, top, 0, NULL);
    for (size_t end = 0; end < members; first[++nodes] = (int)end)
        end += least(node_members, members - end);
    return experts_divide(members, top, relays_pay(members, top, nodes, first) ? nodes : 0, first);
}

bool experts_has_relays(struct weft_team *team, size_t top, weft_status *status)
{
    const struct team_nodes *nodes = team->nodes;
    if (!nodes || !relays_pay((size_t)team->n, top, (size_t)nodes->n, nodes->first))
        return false;
    int32_t far = !experts_reaches_members(team), *all = team->scratch;
    *status = coll_exchange(team, BOX_OP_SYNC, &far, all, sizeof far);
    bool any = false;
    for (int i = 0; i < team->n && !*status; i++)
        any |= all[i] != 0;
    return any;
}

/* Writes an array to the object's memory. */
static weft_status write_array(struct weft_job *job, const int32_t *to, const int *from, int n)
{
    return weft_put(job->default_ctx, (void *)(uintptr_t)to, from, (size_t)n * sizeof *to, job->pe);
}

weft_status experts_nodes_create(struct weft_experts *e)
{
    const struct weft_team *team = e->team;
    const struct team_nodes *nodes = team->nodes;
    struct experts_nodes *made = &e->call.nodes;
    int size = nodes->first[nodes->mine + 1] - nodes->first[nodes->mine];
    made->mine = (uint32_t)nodes->mine;
    made->rank = (uint32_t)nodes->local_me;
    made->sources = 0;
    if (size > 1)
        made->sources = (uint32_t)((team->n - size - nodes->local_me + size - 1) / size);
    e->call.position = (uint32_t)(nodes->first[nodes->mine] + nodes->local_me);
    weft_status status = write_array(team->job, made->of, nodes->of, team->n);
    if (!status)
        status = write_array(team->job, made->first, nodes->first, nodes->n + 1);
    if (!status)
        status = write_array(team->job, made->members, nodes->members, team->n);
    weft_status split = team_split_node(e->team, &e->node);
    return status ? status : split;
}
