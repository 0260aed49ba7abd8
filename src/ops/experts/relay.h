/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the relays between nodes (nodes.h): each runs between two barriers, after members have
 * put rows, or results, to the relays.
 *
 * What arrives with the rows of a new layout, the relay keeps in its own layout: the numbers of
 * tokens and their places at the members of the node. Combine and further dispatches read them
 * there. */
#ifndef WEFT_OPS_EXPERTS_RELAY_H
#define WEFT_OPS_EXPERTS_RELAY_H

#include "ops/experts/kernels.h"

/* Members of the own node. */
WEFT_DEVICE uint32_t experts_relay_members(const struct experts_call *c)
{
    return experts_node_members(c, c->nodes.mine);
}

/* Sets first_row[source][i] to the first row of each source at member i of the own node. */
WEFT_DEVICE void experts_relay_first_rows(const struct experts_call *c, uint32_t *first_row)
{
    uint32_t members = experts_relay_members(c);
    FOR_THREADS(i, c->nodes.sources * members)
    {
        uint32_t position = (uint32_t)c->nodes.first[c->nodes.mine] + (uint32_t)i % members;
        first_row[i] = experts_first_row(c, experts_source_member(c, (uint32_t)i / members),
                                         experts_member_at(c, position));
    }
}

/* Puts a row to the members of the node that have an expert of the token. first_row: of the source
 * at each of them. */
WEFT_DEVICE void experts_relay_row(const struct experts_call *c, size_t slot,
                                   const uint32_t *first_row)
{
    uint32_t members = experts_relay_members(c), first = (uint32_t)c->nodes.first[c->nodes.mine];
    int32_t *kept = experts_relay_places(c) + slot * members;
    const int32_t *places = c->known ? kept : c->nodes.places + slot * members;
    for (uint32_t i = 0; i < members; i++) {
        uint32_t to = (c->nodes.rank + i) % members;
        uint32_t row = first_row[to] + (uint32_t)places[to];
        if (places[to] >= 0 && row < c->rows)
            experts_put_row(c, experts_rows_in(c), row, c->nodes.rows, slot,
                            c->pes[experts_member_at(c, first + to)]);
    }
    if (!c->known)
        FOR_THREADS(i, members)
        {
            kept[i] = places[i];
        }
}

WEFT_DEVICE void experts_relay_rows(const struct experts_call *c)
{
    WEFT_SHARED(uint32_t, first_row, [EXPERTS_MEMBERS_MOST]);
    struct experts_head *kept = experts_relay_heads(c);
    const struct experts_head *heads = c->known ? kept : c->nodes.heads;
    uint32_t before = 0;
    experts_relay_first_rows(c, first_row);
    if (!c->known)
        FOR_ALL(source, c->nodes.sources)
        {
            kept[source] = heads[source];
        }
    weft_dev_sync_block();
    for (uint32_t source = 0; source < c->nodes.sources; source++) {
        uint32_t rows = heads[source].rows[c->parts - 1];
        FOR_BLOCKS_AFTER(row, before, rows)
        experts_relay_row(c, (size_t)source * c->tokens_most + row,
                          first_row + source * experts_relay_members(c));
        before += rows;
    }
    experts_finish_puts(c);
}

/* Adds the results of the node for one token, and puts the sum to the token's PE. A single result
 * is put as it is. The sum replaces the first result that another member has put here. */
WEFT_DEVICE void experts_relay_sum(const struct experts_call *c, struct experts_sources from,
                                   const int32_t *places, size_t to_row, int pe)
{
    struct experts_values own = {c->results, c->result_weights};
    struct experts_values to = {c->returned, c->weights_returned};
    uint32_t results = 0, end;
    int64_t own_row = -1, row = -1;
    for (uint32_t i = 0; i < from.n; i++) {
        int64_t at = experts_result_at(c, from, places, i, &end);
        if (i == from.me)
            own_row = at;
        else if (row < 0)
            row = at;
        results += at >= 0;
    }
    if (results == 0)
        return;
    if (results > 1) {
        float *sums = c->result_weights ? c->nodes.weights + (size_t)row * c->top : NULL;
        experts_sum_to(c, from, places, c->nodes.results + (size_t)row * c->result_bytes, sums);
        weft_dev_sync_block();
    }
    if (row >= 0)
        experts_put_result(c, to, to_row, from.came, (size_t)row, pe);
    else
        experts_put_result(c, to, to_row, own, (size_t)own_row, pe);
}

/* Sums of a part of the tokens. */
WEFT_DEVICE void experts_relay_sums(const struct experts_call *c)
{
    WEFT_SHARED(uint32_t, first, [EXPERTS_MEMBERS_MOST]);
    WEFT_SHARED(uint32_t, remote, [EXPERTS_MEMBERS_MOST]);
    struct experts_values came = {c->nodes.results, c->nodes.weights};
    uint32_t members = experts_relay_members(c), before = 0;
    experts_relay_first_rows(c, remote);
    FOR_THREADS(i, c->nodes.sources * members)
    {
        uint32_t source = (uint32_t)i / members;
        uint32_t position = (uint32_t)c->nodes.first[c->nodes.mine] + (uint32_t)i % members;
        first[i] = experts_relay_first(c, source, experts_source_member(c, source), c->me,
                                       experts_member_at(c, position));
    }
    weft_dev_sync_block();
    for (uint32_t source = 0; source < c->nodes.sources; source++) {
        const struct experts_head *head = experts_relay_heads(c) + source;
        uint32_t begin = c->part ? head->rows[c->part - 1] : 0;
        uint32_t rows = head->rows[c->part] - begin;
        int32_t pe = c->pes[experts_source_member(c, source)];
        struct experts_sources from = {first + source * members,
                                       remote + source * members,
                                       c->nodes.rank,
                                       members,
                                       came,
                                       NULL,
                                       NULL};
        FOR_BLOCKS_AFTER(i, before, rows)
        {
            size_t row = begin + i, slot = (size_t)source * c->tokens_most + row;
            experts_relay_sum(c, from, experts_relay_places(c) + slot * members, head->first + row,
                              pe);
        }
        before += rows;
    }
    experts_finish_puts(c);
}

#endif
