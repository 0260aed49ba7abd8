/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of dispatch and combine, one source for GPUs and for CPU threads: place, send and receive
 * of a dispatch, return and sum of a combine. A function begins with experts_; the kernel of the
 * same name calls it in all threads. nodes.h explains relays between nodes, relay.h has their
 * kernels. */
#ifndef WEFT_OPS_EXPERTS_KERNELS_H
#define WEFT_OPS_EXPERTS_KERNELS_H

#include "ops/experts/nodes.h"

/* clang-format off */
#define FOR_ALL(i, n) for (size_t i = weft_dev_grid_rank(); i < (n); i += weft_dev_grid_threads())
#define FOR_BLOCKS(i, n)  for (size_t i = weft_dev_block_x(); i < (n); i += weft_dev_grid_dim_x())
#define FOR_THREADS(i, n) for (size_t i = weft_dev_thread_x(); i < (n); i += weft_dev_block_dim_x())
/* FOR_BLOCKS() of a loop over several lists, of which those before had `before` elements: blocks
 * share all of them evenly. */
#define FOR_BLOCKS_AFTER(i, before, n)                                                             \
    for (uint32_t i = experts_first_after(before); i < (n); i += weft_dev_grid_dim_x())
/* clang-format on */

WEFT_DEVICE uint32_t experts_first_after(uint32_t before)
{
    uint32_t blocks = weft_dev_grid_dim_x();
    return (weft_dev_block_x() + blocks - before % blocks) % blocks;
}

/* Tokens are divided into parts in order: part p has those from experts_part(p) to before
 * experts_part(p + 1). */
WEFT_DEVICE uint32_t experts_part(const struct experts_call *c, uint32_t tokens, uint32_t part)
{
    return (uint32_t)((uint64_t)part * tokens / c->parts);
}

/* ------------------------------------------------------------------------------ layout */

/* Rows that member `from` sends to member `to` in the parts before `part`. */
WEFT_DEVICE uint32_t experts_rows_before(const struct experts_call *c, uint32_t from, uint32_t to,
                                         uint32_t part)
{
    size_t words = EXPERTS_COUNT_WORDS(c->members, c->experts);
    return part ? c->known_counts[from * words + to * EXPERTS_PARTS_MOST + part - 1] : 0;
}

WEFT_DEVICE uint32_t experts_rows(const struct experts_call *c, uint32_t from, uint32_t to)
{
    return experts_rows_before(c, from, to, c->parts);
}

/* The first row of member `from` at member `to`. */
WEFT_DEVICE uint32_t experts_first_row(const struct experts_call *c, uint32_t from, uint32_t to)
{
    uint32_t first = 0;
    for (uint32_t member = 0; member < from; member++)
        first += experts_rows(c, member, to);
    return first;
}

/* The first of the rows that member `of` sends to member `to`, among all that it sends to others
 * without a relay: there it gets the results back. */
WEFT_DEVICE uint32_t experts_first_result(const struct experts_call *c, uint32_t of, uint32_t to)
{
    uint32_t first = 0;
    for (uint32_t member = 0; member < to; member++)
        if (member != of && !experts_is_relayed(c, of, member))
            first += experts_rows(c, of, member);
    return first;
}

/* Where a relay has the results of the part of which member `from` puts the rows to `relay`, which
 * is on the same node, for the tokens of member `of`, the relay's source `source`: row i of all
 * that `from` has of these tokens is at the returned index plus i, modulo 2^32. */
WEFT_DEVICE uint32_t experts_relay_first(const struct experts_call *c, uint32_t source, uint32_t of,
                                         uint32_t relay, uint32_t from)
{
    uint32_t at = (uint32_t)c->nodes.first[c->nodes.mine], member;
    uint32_t first = source * experts_part_results(c) - experts_rows_before(c, of, from, c->part);
    for (; (member = experts_member_at(c, at)) != from; at++)
        if (member != relay)
            first += experts_rows_before(c, of, member, c->part + 1) -
                     experts_rows_before(c, of, member, c->part);
    return first;
}

/* Rows that this PE has received. */
WEFT_DEVICE uint32_t experts_received(const struct experts_call *c)
{
    uint32_t rows = experts_first_row(c, c->members, c->me);
    return rows < c->rows ? rows : c->rows;
}

WEFT_DEVICE void experts_report(const struct experts_call *c, uint64_t kind, uint64_t place,
                                int64_t value)
{
    if (weft_dev_atomic_cas_u64(&c->error->kind, EXPERTS_FAULT_NONE, kind, WEFT_ORDER_RELAXED,
                                WEFT_SCOPE_GPU) != EXPERTS_FAULT_NONE)
        return;
    c->error->place = place;
    c->error->value = value;
}

/* Called after the last put of a kernel. The barrier that follows on the stream completes stores,
 * but puts by other paths must be completed here. */
WEFT_DEVICE void experts_finish_puts(const struct experts_call *c)
{
    int remote = 0;
    weft_dev_sync_block();
    if (weft_dev_thread_x() > 0)
        return;
    for (uint32_t member = 0; member < c->members; member++)
        remote |= !weft_dev_ptr(c->counts, c->pes[member]);
    if (remote)
        weft_thread_quiet();
}

/* ---------------------------------------------------------------------------- dispatch */

/* Adds 1 for each thread of the block before this one whose `counts` is true. *all: of the block.
 * warps: [2][EXPERTS_WARPS_MOST], of which calls use the halves in turn. */
WEFT_DEVICE uint32_t experts_count_before(uint32_t *warps, uint32_t turn, int counts, uint32_t *all)
{
    weft_lane_mask lanes = weft_dev_ballot(weft_dev_warp_mask(), counts);
    uint32_t *of_warps = warps + turn % 2 * EXPERTS_WARPS_MOST, warp = weft_dev_warp();
    uint32_t n = (weft_dev_block_dim_x() + WEFT_WARP_LANES - 1) / WEFT_WARP_LANES;
    if (weft_dev_lane() == 0)
        of_warps[warp] = weft_dev_popcount_u64(lanes);
    weft_dev_sync_block();
    uint32_t before = 0, sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        before += i < warp ? of_warps[i] : 0;
        sum += of_warps[i];
    }
    *all = sum;
    return before + weft_dev_popcount_u64(lanes & (((weft_lane_mask)1 << weft_dev_lane()) - 1));
}

/* Counts the choices of token t that are experts in [first, end). Returns whether there are any. */
WEFT_DEVICE int experts_count_choices(const struct experts_call *c, size_t t, uint32_t first,
                                      uint32_t end, uint32_t *expert_tokens)
{
    enum { AT_ONCE = 8 }; /* loads in flight */
    const int64_t *idx = c->topk_idx + t * c->top;
    int goes = 0;
    for (uint32_t k = 0; k < c->top; k += AT_ONCE) {
        uint64_t experts[AT_ONCE];
        WEFT_UNROLL
        for (uint32_t i = 0; i < AT_ONCE; i++)
            experts[i] = k + i < c->top ? (uint64_t)idx[k + i] : ~(uint64_t)0;
        WEFT_UNROLL
        for (uint32_t i = 0; i < AT_ONCE; i++)
            if (experts[i] >= first && experts[i] < end) {
                goes = 1;
                weft_dev_atomic_add_u32(&expert_tokens[experts[i] - first], 1, WEFT_ORDER_RELAXED,
                                        WEFT_SCOPE_CTA);
            }
    }
    return goes;
}

/* Whether token t has an expert at a member of the node. */
WEFT_DEVICE int experts_goes_to(const struct experts_call *c, size_t t, uint32_t node)
{
    int goes = 0;
    for (uint32_t k = 0; k < c->top; k++) {
        uint64_t expert = (uint64_t)c->topk_idx[t * c->top + k];
        if (expert < c->experts)
            goes |= experts_node_of(c, experts_owner(c, (uint32_t)expert)) == node;
    }
    return goes;
}

/* Assigns to tokens, in order, their places in column `column` of experts_places(): the rows at one
 * member, whose experts' tokens are counted, too, or those for a node. */
WEFT_DEVICE void experts_place_in(const struct experts_call *c, uint32_t column, uint32_t *warps,
                                  uint32_t *expert_tokens)
{
    uint32_t threads = weft_dev_block_dim_x(), me = weft_dev_thread_x(), rows = 0, turn = 0, all;
    uint32_t first = 0, end = 0, ends[EXPERTS_PARTS_MOST], *counts;
    int for_node = column >= c->members;
    if (for_node) {
        counts = experts_own_heads(c)[column - c->members].rows;
    } else {
        uint32_t member = experts_member_at(c, column);
        first = experts_first(c, member);
        end = experts_first(c, member + 1);
        counts = c->own_counts + member * EXPERTS_PARTS_MOST;
    }
    for (uint32_t part = 0; part < c->parts; part++) {
        ends[part] = experts_part(c, c->tokens, part + 1);
        if (me == 0 && ends[part] == 0)
            counts[part] = 0;
    }
    FOR_THREADS(e, end - first)
    expert_tokens[e] = 0;
    weft_dev_sync_block();
    for (uint32_t base = 0; base < c->tokens; base += threads) {
        uint32_t t = base + me;
        int goes =
            t < c->tokens && (for_node ? experts_goes_to(c, t, column - c->members)
                                       : experts_count_choices(c, t, first, end, expert_tokens));
        uint32_t row = rows + experts_count_before(warps, turn++, goes, &all);
        if (t < c->tokens)
            experts_places(c, t)[column] = goes ? (int32_t)row : -1;
        for (uint32_t part = 0; part < c->parts; part++)
            if (ends[part] == t + 1) /* this token is the last one of the part */
                counts[part] = row + (uint32_t)goes;
        rows += all;
    }
    weft_dev_sync_block();
    FOR_THREADS(e, end - first)
    c->own_counts[(size_t)c->members * EXPERTS_PARTS_MOST + first + e] = expert_tokens[e];
}

/* Copies the experts and weights of the tokens for the transfer. */
WEFT_DEVICE void experts_copy_choice(const struct experts_call *c, size_t thread, size_t threads)
{
    for (size_t i = thread; i < (size_t)c->tokens * c->top; i += threads) {
        int64_t expert = c->topk_idx[i];
        if (expert < -1 || expert >= (int64_t)c->experts) {
            experts_report(c, EXPERTS_FAULT_EXPERT, i, expert);
            expert = -1;
        }
        c->choices[i].expert = (int32_t)expert;
        c->choices[i].weight = c->topk_weights ? c->topk_weights[i] : 1.0f;
    }
}

/* One block for each column, and at least one more for the tokens' experts and weights. */
WEFT_DEVICE void experts_place(const struct experts_call *c)
{
    WEFT_SHARED(uint32_t, warps, [2 * EXPERTS_WARPS_MOST]);
    WEFT_SHARED(uint32_t, expert_tokens, [EXPERTS_OWN_MOST]);
    uint32_t block = weft_dev_block_x(), threads = weft_dev_block_dim_x();
    uint32_t columns = experts_columns(c);
    if (block < columns) {
        experts_place_in(c, block, warps, expert_tokens);
        return;
    }
    if (block == columns && weft_dev_thread_x() == 0)
        c->layout[0] = c->tokens;
    experts_copy_choice(c, (size_t)(block - columns) * threads + weft_dev_thread_x(),
                        (size_t)(weft_dev_grid_dim_x() - columns) * threads);
}

/* Puts a row with its scales, and if the layout is new its experts and weights. */
WEFT_DEVICE void experts_put_row(const struct experts_call *c, struct experts_arrays to, size_t row,
                                 struct experts_arrays from, size_t from_row, int pe)
{
    weft_block_put_nbi(to.x + row * c->token_bytes, from.x + from_row * c->token_bytes,
                       c->token_bytes, pe);
    if (c->scale_bytes)
        weft_block_put_nbi(to.scales + row * c->scale_bytes,
                           from.scales + from_row * c->scale_bytes, c->scale_bytes, pe);
    if (!c->known)
        weft_block_put_nbi(to.choices + row * c->top, from.choices + from_row * c->top,
                           c->top * sizeof *c->choices, pe);
}

/* Puts token t once to the relay of each node that has an expert of the token, and if the layout is
 * new its places at the members of that node. */
WEFT_DEVICE void experts_put_to_relays(const struct experts_call *c, struct experts_arrays from,
                                       size_t t)
{
    const int32_t *places = experts_places(c, t);
    for (uint32_t i = 1; i < c->nodes.n; i++) {
        uint32_t node = (c->nodes.mine + i) % c->nodes.n, members = experts_node_members(c, node);
        int32_t place = places[c->members + node];
        if (place < 0 || members == 1)
            continue;
        struct experts_relay relay = experts_relay_of(c, c->position, node);
        size_t slot = (size_t)relay.source * c->tokens_most + (uint32_t)place;
        experts_put_row(c, c->nodes.rows, slot, from, t, c->pes[relay.member]);
        if (!c->known)
            weft_block_put_nbi(c->nodes.places + slot * members, places + c->nodes.first[node],
                               members * sizeof *places, c->pes[relay.member]);
    }
}

/* Puts to the relay of each node the numbers of the tokens for that node. */
WEFT_DEVICE void experts_put_heads(const struct experts_call *c)
{
    struct experts_head *heads = experts_own_heads(c);
    FOR_BLOCKS(node, c->nodes.n)
    {
        if (!experts_is_node_relayed(c, (uint32_t)node))
            continue;
        if (weft_dev_thread_x() == 0) {
            uint32_t first = experts_first_result(c, c->me, c->members);
            for (uint32_t before = 0; before < node; before++)
                first += experts_is_node_relayed(c, before) ? heads[before].rows[c->parts - 1] : 0;
            heads[node].first = first;
        }
        weft_dev_sync_block();
        struct experts_relay relay = experts_relay_of(c, c->position, (uint32_t)node);
        weft_block_put_nbi(c->nodes.heads + relay.source, heads + node, sizeof *heads,
                           c->pes[relay.member]);
    }
}

/* Where rows arrive. */
WEFT_DEVICE struct experts_arrays experts_rows_in(const struct experts_call *c)
{
    struct experts_arrays rows = {c->rows_in, c->scales_in, c->choices_in};
    return rows;
}

/* Puts each token once to each member that has an expert of the token, or to the relay of its
 * node. */
WEFT_DEVICE void experts_send(const struct experts_call *c)
{
    WEFT_SHARED(uint32_t, first_row, [EXPERTS_MEMBERS_MOST]);
    size_t words = (size_t)c->members * EXPERTS_COUNT_WORDS(c->members, c->experts);
    struct experts_arrays own = {(char *)(uintptr_t)c->x, (char *)(uintptr_t)c->scales, c->choices};
    FOR_THREADS(i, c->members)
    {
        uint32_t member = experts_member_at(c, (uint32_t)i);
        int relayed = experts_is_relayed(c, c->me, member); /* no row of such a member is put */
        first_row[i] = relayed ? c->rows : experts_first_row(c, c->me, member);
    }
    if (c->known_counts != c->layout + EXPERTS_LAYOUT_HEAD) {
        FOR_ALL(i, words)
        c->layout[EXPERTS_LAYOUT_HEAD + i] = c->known_counts[i];
    }
    if (c->known && c->layout[0] != c->tokens && weft_dev_grid_rank() == 0)
        experts_report(c, EXPERTS_FAULT_TOKENS, c->layout[0], c->tokens);
    weft_dev_sync_block();
    if (!c->known)
        experts_put_heads(c);
    FOR_BLOCKS(t, c->known && c->layout[0] < c->tokens ? c->layout[0] : c->tokens)
    {
        experts_put_to_relays(c, own, t);
        for (uint32_t i = 0; i < c->members; i++) {
            uint32_t position = (c->position + i) % c->members;
            int32_t place = experts_places(c, t)[position];
            uint32_t row = first_row[position] + (uint32_t)place;
            if (place >= 0 && row < c->rows)
                experts_put_row(c, experts_rows_in(c), row, own, t,
                                c->pes[experts_member_at(c, position)]);
        }
    }
    experts_finish_puts(c);
}

WEFT_DEVICE void experts_copy_quads(char *to, const char *from, size_t bytes)
{
    if (!to || to == from)
        return;
    FOR_ALL(i, bytes / sizeof(struct weft_dev_vec16))
    weft_dev_store_vec16(to + i * sizeof(struct weft_dev_vec16),
                         weft_dev_load_vec16(from + i * sizeof(struct weft_dev_vec16)));
}

/* Tokens of all members that name an expert. */
WEFT_DEVICE uint32_t experts_count_tokens(const struct experts_call *c, uint32_t expert)
{
    size_t words = EXPERTS_COUNT_WORDS(c->members, c->experts);
    const uint32_t *counts = c->known_counts + (size_t)c->members * EXPERTS_PARTS_MOST + expert;
    uint32_t tokens = 0;
    for (uint32_t member = 0; member < c->members; member++)
        tokens += counts[member * words];
    return tokens;
}

/* After the rows have arrived: stores what the caller wants to know. */
WEFT_DEVICE void experts_receive(const struct experts_call *c)
{
    uint32_t first = experts_first(c, c->me), own = experts_first(c, c->me + 1) - first;
    size_t rows = experts_received(c);
    experts_copy_quads(c->to_x, c->rows_in, rows * c->token_bytes);
    experts_copy_quads(c->to_scales, c->scales_in, rows * c->scale_bytes);
    FOR_ALL(i, rows * c->top)
    {
        struct experts_choice choice = c->choices_in[i];
        uint32_t expert = (uint32_t)choice.expert - first;
        if (c->to_idx)
            c->to_idx[i] = expert < own ? (int64_t)expert : -1;
        if (c->to_weights)
            c->to_weights[i] = expert < own ? choice.weight : 0.0f;
    }
    if (c->to_n_tokens)
        FOR_ALL(e, own)
        {
            c->to_n_tokens[e] = experts_count_tokens(c, first + (uint32_t)e);
        }
    if (weft_dev_grid_rank() > 0)
        return;
    if (c->to_n_rows)
        *c->to_n_rows = (uint32_t)rows;
    uint32_t wanted = experts_first_row(c, c->members, c->me);
    if (wanted > c->rows)
        experts_report(c, EXPERTS_FAULT_ROWS, 0, wanted);
}

/* ----------------------------------------------------------------------------- combine */

/* Results, and weights that go with them. */
struct experts_values {
    const char *results;
    const float *weights;
};

/* Puts result `from_row` to result `to_row` at PE pe, and its weights if there are any. */
WEFT_DEVICE void experts_put_result(const struct experts_call *c, struct experts_values to,
                                    size_t to_row, struct experts_values from, size_t from_row,
                                    int pe)
{
    weft_block_put_nbi((char *)(uintptr_t)to.results + to_row * c->result_bytes,
                       from.results + from_row * c->result_bytes, c->result_bytes, pe);
    if (c->result_weights)
        weft_block_put_nbi((float *)(uintptr_t)to.weights + to_row * c->top,
                           from.weights + from_row * c->top, c->top * sizeof(float), pe);
}

/* Where the first result of this PE for the tokens of member `of` goes: to its relay in this PE's
 * node, or to `of` itself. */
WEFT_DEVICE uint32_t experts_return_at(const struct experts_call *c, uint32_t position, uint32_t of)
{
    if (!experts_is_relayed(c, of, c->me))
        return experts_first_result(c, of, c->me);
    struct experts_relay relay = experts_relay_of(c, position, c->nodes.mine);
    return experts_relay_first(c, relay.source, of, relay.member, c->me);
}

/* Returns the results of a part to the other members, or to relays in this PE's node. Each PE
 * starts with the next member. A relay does not copy its own results. */
WEFT_DEVICE void experts_return(const struct experts_call *c)
{
    WEFT_SHARED(uint32_t, first_row, [EXPERTS_MEMBERS_MOST]);
    WEFT_SHARED(uint32_t, first_result, [EXPERTS_MEMBERS_MOST]);
    struct experts_values own = {c->results, c->result_weights};
    struct experts_values to_owner = {c->returned, c->weights_returned};
    struct experts_values to_relay = {c->nodes.results, c->nodes.weights};
    uint32_t before = 0;
    FOR_THREADS(i, c->members)
    {
        uint32_t member = experts_member_at(c, (uint32_t)i);
        first_row[i] = experts_first_row(c, member, c->me);
        first_result[i] = experts_return_at(c, (uint32_t)i, member);
    }
    weft_dev_sync_block();
    for (uint32_t i = 1; i < c->members; i++) {
        uint32_t at = (c->position + i) % c->members, member = experts_member_at(c, at);
        uint32_t from = experts_rows_before(c, member, c->me, c->part);
        uint32_t rows = experts_rows_before(c, member, c->me, c->part + 1) - from;
        int relayed = experts_is_relayed(c, member, c->me);
        uint32_t to = relayed ? experts_relay_of(c, at, c->nodes.mine).member : member;
        if (to == c->me)
            continue;
        FOR_BLOCKS_AFTER(row, before, rows)
        if (first_row[at] + from + row < c->rows)
            experts_put_result(c, relayed ? to_relay : to_owner, first_result[at] + from + row, own,
                               first_row[at] + from + row, c->pes[to]);
        before += rows;
    }
    experts_finish_puts(c);
}

/* Adds the numbers of 16 bytes. `type` is a constant. */
WEFT_DEVICE void experts_add(float *sums, struct weft_dev_vec16 v, weft_type type)
{
    if (type == WEFT_FLOAT) {
        sums[0] += weft_dev_f32_bits((uint32_t)v.lo);
        sums[1] += weft_dev_f32_bits((uint32_t)(v.lo >> 32));
        sums[2] += weft_dev_f32_bits((uint32_t)v.hi);
        sums[3] += weft_dev_f32_bits((uint32_t)(v.hi >> 32));
        return;
    }
    WEFT_UNROLL
    for (int i = 0; i < 8; i++)
        sums[i] += weft_dev_f32_narrow(type, (uint16_t)((i < 4 ? v.lo : v.hi) >> 16 * (i % 4)));
}

WEFT_DEVICE struct weft_dev_vec16 experts_rounded(const float *sums, weft_type type)
{
    struct weft_dev_vec16 v = {0, 0};
    if (type == WEFT_FLOAT) {
        v.lo = weft_dev_bits_f32(sums[0]) | (uint64_t)weft_dev_bits_f32(sums[1]) << 32;
        v.hi = weft_dev_bits_f32(sums[2]) | (uint64_t)weft_dev_bits_f32(sums[3]) << 32;
        return v;
    }
    WEFT_UNROLL
    for (int i = 0; i < 4; i++) {
        v.lo |= (uint64_t)weft_dev_narrow_f32(type, sums[i]) << 16 * i;
        v.hi |= (uint64_t)weft_dev_narrow_f32(type, sums[i + 4]) << 16 * i;
    }
    return v;
}

/* Where the results of the tokens of a member are: own ones where the caller has them, others as
 * they came. Arrays are by the member that made the result; members are in the order of nodes. */
struct experts_sources {
    uint32_t *first;  /* the first of its results, among all that came */
    uint32_t *remote; /* its first row of these tokens */
    uint32_t me;      /* this PE */
    uint32_t n;
    struct experts_values came;
    /* Of the first member of a node that sends one sum: the end of that node's members, and the
     * column of the token's place. NULL: every member sends its result. */
    uint32_t *end, *column;
};

/* Returns the index of the result of a token whose place at the member is `place`, or -1. */
WEFT_DEVICE int64_t experts_result_of(const struct experts_call *c, struct experts_sources from,
                                      uint32_t member, int32_t place)
{
    if (place < 0 || from.remote[member] + (uint32_t)place >= c->rows)
        return -1;
    uint32_t first = member == from.me ? from.remote[member] : from.first[member];
    return (uint32_t)(first + (uint32_t)place);
}

/* Returns the index of what members i to before *end made of a token, one result or sum, or -1.
 * places: of the token. Sets *end. */
WEFT_DEVICE int64_t experts_result_at(const struct experts_call *c, struct experts_sources from,
                                      const int32_t *places, uint32_t i, uint32_t *end)
{
    *end = from.end ? from.end[i] : i + 1;
    if (*end == i + 1)
        return experts_result_of(c, from, i, places[i]);
    for (uint32_t member = i; member < *end; member++)
        if (experts_result_of(c, from, member, places[member]) >= 0)
            return (int64_t)from.first[i] + places[from.column[i]];
    return -1;
}

/* Adds the results of a token in the order of the members, and rounds the sum. A thread adds
 * several vectors at a time, so that several loads are in flight. `to` may be one of the results.
 */
WEFT_DEVICE void experts_sum_token(const struct experts_call *c, struct experts_sources from,
                                   const int32_t *places, char *to, weft_type type)
{
    enum { VECTORS = 4 };
    const size_t vector = sizeof(struct weft_dev_vec16), stride = weft_dev_block_dim_x() * vector;
    for (size_t at = weft_dev_thread_x() * vector; at < c->result_bytes; at += VECTORS * stride) {
        float sums[VECTORS][8] = {{0.0f}};
        struct weft_dev_vec16 v[VECTORS] = {{0, 0}};
        for (uint32_t i = 0, end; i < from.n; i = end) {
            int64_t row = experts_result_at(c, from, places, i, &end);
            if (row < 0)
                continue;
            const char *result = (i == from.me ? c->results : from.came.results) +
                                 (size_t)row * c->result_bytes + at;
            WEFT_UNROLL
            for (int k = 0; k < VECTORS; k++)
                if (at + (size_t)k * stride < c->result_bytes)
                    v[k] = weft_dev_load_vec16(result + (size_t)k * stride);
            WEFT_UNROLL
            for (int k = 0; k < VECTORS; k++)
                if (at + (size_t)k * stride < c->result_bytes)
                    experts_add(sums[k], v[k], type);
        }
        WEFT_UNROLL
        for (int k = 0; k < VECTORS; k++)
            if (at + (size_t)k * stride < c->result_bytes)
                weft_dev_store_vec16(to + at + (size_t)k * stride, experts_rounded(sums[k], type));
    }
}

WEFT_DEVICE void experts_sum_weights(const struct experts_call *c, struct experts_sources from,
                                     const int32_t *places, float *to)
{
    FOR_THREADS(k, c->top)
    {
        float sum = 0.0f;
        for (uint32_t i = 0, end; i < from.n; i = end) {
            int64_t row = experts_result_at(c, from, places, i, &end);
            const float *weights = i == from.me ? c->result_weights : from.came.weights;
            if (row >= 0)
                sum += weights[(size_t)row * c->top + k];
        }
        to[k] = sum;
    }
}

/* Adds the results of a token, and with to_sums its weights. */
WEFT_DEVICE void experts_sum_to(const struct experts_call *c, struct experts_sources from,
                                const int32_t *places, char *to, float *to_sums)
{
    if (c->result_type == WEFT_BFLOAT16)
        experts_sum_token(c, from, places, to, WEFT_BFLOAT16);
    else if (c->result_type == WEFT_HALF)
        experts_sum_token(c, from, places, to, WEFT_HALF);
    else
        experts_sum_token(c, from, places, to, WEFT_FLOAT);
    if (to_sums)
        experts_sum_weights(c, from, places, to_sums);
}

/* Adds the results of the tokens of a part. */
WEFT_DEVICE void experts_sum(const struct experts_call *c)
{
    WEFT_SHARED(uint32_t, first, [EXPERTS_MEMBERS_MOST]);
    WEFT_SHARED(uint32_t, remote, [EXPERTS_MEMBERS_MOST]);
    WEFT_SHARED(uint32_t, ends, [EXPERTS_MEMBERS_MOST]);
    WEFT_SHARED(uint32_t, columns, [EXPERTS_MEMBERS_MOST]);
    uint32_t *end = c->nodes.n ? ends : NULL;
    struct experts_values came = {c->returned, c->weights_returned};
    struct experts_sources from = {first, remote, c->position, c->members, came, end, columns};
    uint32_t tokens = c->layout[0], begin = experts_part(c, tokens, c->part);
    FOR_THREADS(i, c->members)
    {
        uint32_t member = experts_member_at(c, (uint32_t)i), node = experts_node_of(c, member);
        int relayed = experts_is_relayed(c, c->me, member);
        first[i] =
            relayed ? experts_own_heads(c)[node].first : experts_first_result(c, c->me, member);
        remote[i] = experts_first_row(c, c->me, member);
        ends[i] = relayed ? (uint32_t)c->nodes.first[node + 1] : (uint32_t)i + 1;
        columns[i] = c->members + node;
    }
    weft_dev_sync_block();
    FOR_BLOCKS(i, experts_part(c, tokens, c->part + 1) - begin)
    {
        size_t t = begin + i;
        experts_sum_to(c, from, experts_places(c, t), c->to + t * c->result_bytes,
                       c->to_sums ? c->to_sums + t * c->top : NULL);
    }
}

#endif
