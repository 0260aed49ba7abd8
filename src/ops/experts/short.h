/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the short form of dispatch and combine, for few tokens: rows and results are sent as
 * LL128 lines, which carry their own flag, so that nothing waits for counts, signals or fences.
 *
 * Line: 120 bytes of payload and a flag in 128 bytes, stored by 8 lanes at once; 32 lanes store a
 * piece of four lines. gpu/coll/ll128.h explains why a reader that sees the flag has the payload,
 * and where the library relies on that. Flags are round numbers of 64 bits, which never repeat.
 *
 * Slot: a row goes to a slot of the receiver that follows from the sender and the row's index among
 * the rows from that sender; a result goes to a slot of the token's owner that follows from the
 * layout. The head of a sender has the number of its rows and its counts. A receiver takes the
 * numbers of all members from their heads, and copies rows in the order of members and tokens.
 *
 * Kernels: a dispatch or combine is one kernel, whose blocks send and then receive, or a sending
 * and a receiving kernel. In one kernel a block waits for the lines of all blocks of this PE, so
 * all of them must be resident (experts_one_kernel_blocks()).
 *
 * Round: each dispatch and each combine is a round. Its number is in memory and not in an argument,
 * so that a graph can be replayed. `rounds->tickets` is EXPERTS_TICKETS times the number of rounds
 * that have ended. In one kernel each block draws its share of the tickets of a round, so that a
 * block that starts late gets the same number as the others. A sending kernel reads `tickets` and
 * writes `rounds->sent`; the receiving kernel reads `sent` and writes `tickets`; the stream orders
 * them.
 *
 * Slots of even and odd rounds differ. A member may fill those of round k without asking: its
 * kernels of round k - 1 have ended, and waited for a head of that round from every member. A
 * member sends that head after its kernels of round k - 2, however late they are, and so no longer
 * reads slots of round k - 2. */
#ifndef WEFT_OPS_EXPERTS_SHORT_H
#define WEFT_OPS_EXPERTS_SHORT_H

#include "ops/experts/kernels.h"

enum {
    SHORT_LINE_LANES = 8,
    SHORT_LINE_BYTES = 16 * SHORT_LINE_LANES,
    SHORT_LINE_PAYLOAD = 16 * (SHORT_LINE_LANES - 1), /* of the lanes without the flag */
    SHORT_HALVES_AT = 4 * SHORT_LINE_PAYLOAD, /* offset of the payload of lanes with a flag */
    SHORT_LOADED = 4,                         /* pieces that a warp loads together */
    SHORT_NO_PLACE = 0xffff,
};

/* Values in registers, the same for all lanes of a warp but `lane`. "Warp" is 32 lanes here. */
struct experts_round {
    const struct experts_call *c;
    uint64_t number;
    uint64_t set;               /* offset of the slots of this round */
    uint32_t lane, warp, warps; /* warp: among all of the grid */
    int failed;                 /* a wait timed out or the job failed: no more waits */
};

/* ------------------------------------------------------------------------------- lines */

WEFT_DEVICE int experts_has_flag(uint32_t lane)
{
    return lane % SHORT_LINE_LANES == SHORT_LINE_LANES - 1;
}

/* Returns the offset of a lane's payload in piece `piece` of a message: 16 bytes, or 8 of a lane
 * with a flag. */
WEFT_DEVICE uint32_t experts_lane_offset(uint32_t piece, uint32_t lane)
{
    return piece * EXPERTS_PIECE + (experts_has_flag(lane)
                                        ? SHORT_HALVES_AT + lane / SHORT_LINE_LANES * 8
                                        : 16 * (lane - lane / SHORT_LINE_LANES));
}

/* Returns whether the lane's line in piece `piece` carries any of the message's bytes. */
WEFT_DEVICE int experts_line_is_used(uint32_t bytes, uint32_t piece, uint32_t lane)
{
    return piece * EXPERTS_PIECE + lane / SHORT_LINE_LANES * SHORT_LINE_PAYLOAD < bytes;
}

WEFT_DEVICE uint32_t experts_pieces(uint32_t bytes)
{
    return (bytes + EXPERTS_PIECE - 1) / EXPERTS_PIECE;
}

/* Stores a lane's part of a piece. All lanes of the warp call it. */
WEFT_DEVICE void experts_line_store(const struct experts_round *r, char *piece,
                                    struct weft_dev_vec16 v, int used)
{
    char *to = piece + 16 * r->lane;
#if WEFT_TARGET_GPU
    v.hi = experts_has_flag(r->lane) ? r->number : v.hi;
    weft_dev_sync_warp(weft_dev_lanes_half()); /* all lanes then store with one instruction */
    if (used)
        weft_dev_store_vec16_relaxed(to, v);
#else
    uint64_t *half = (uint64_t *)(void *)to;
    if (used && !experts_has_flag(r->lane))
        weft_dev_store_vec16_relaxed(to, v);
    else if (used)
        weft_dev_store_u64(half, v.lo, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    weft_dev_sync_warp(weft_dev_lanes_half());
    if (used && experts_has_flag(r->lane)) /* release: pairs with the acquire of a line's flag */
        weft_dev_store_u64(half + 1, r->number, WEFT_ORDER_RELEASE, WEFT_SCOPE_SYS);
#endif
}

/* Loads what is in the piece now, without waiting. */
WEFT_DEVICE struct weft_dev_vec16 experts_line_peek(const struct experts_round *r,
                                                    const char *piece, int used)
{
    struct weft_dev_vec16 v = {0, 0};
#if WEFT_TARGET_GPU
    if (used)
        v = weft_dev_load_vec16_relaxed(piece + 16 * r->lane);
#else
    (void)r, (void)piece, (void)used;
#endif
    return v;
}

WEFT_DEVICE int experts_wait_step(struct weft_dev_patience *p, const struct experts_call *c,
                                  const char *at, uint32_t member, uint64_t number, uint32_t *polls,
                                  uint64_t seen)
{
    struct weft_dev_awaited what =
        weft_dev_awaited_of(WEFT_DEV_OP_TAKE_PACKET, c->pes[member], c->team, at, WEFT_EQ, number);
    int status = weft_dev_patience_step(p, what, polls, seen);
    if (status)
        weft_dev_fail(status);
    return status != WEFT_OK;
}

/* Waits until the lane's line has the flag of this round, and returns the lane's payload. v: result
 * of experts_line_peek(). member: the sender. All lanes of the warp call it. */
WEFT_DEVICE struct weft_dev_vec16 experts_line_await(struct experts_round *r,
                                                     struct weft_dev_vec16 v, const char *piece,
                                                     int used, uint32_t member)
{
    const char *at = piece + 16 * r->lane;
    struct weft_dev_patience p;
    uint32_t polls = 0;
#if WEFT_TARGET_GPU
    weft_lane_mask lanes = weft_dev_lanes_half();
    for (;;) {
        uint64_t seen = weft_dev_shuffle_u64(lanes, v.hi, r->lane | (SHORT_LINE_LANES - 1));
        int late = used && seen != r->number && !r->failed;
        if (!weft_dev_any(lanes, late))
            break;
        if (late && experts_has_flag(r->lane))
            r->failed = experts_wait_step(&p, r->c, at, member, r->number, &polls, seen);
        r->failed = weft_dev_any(lanes, r->failed);
        if (used)
            v = weft_dev_load_vec16_relaxed(at);
    }
#else
    const char *line = piece + r->lane / SHORT_LINE_LANES * SHORT_LINE_BYTES;
    const uint64_t *flag = (const uint64_t *)(const void *)(line + SHORT_LINE_BYTES - 8);
    uint64_t seen;
    while (used && !r->failed &&
           (seen = weft_dev_load_u64(flag, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS)) != r->number)
        r->failed = experts_wait_step(&p, r->c, line, member, r->number, &polls, seen);
    if (used)
        v = weft_dev_load_vec16_relaxed(at);
#endif
    weft_dev_patience_end(&p, polls);
    return v;
}

/* ------------------------------------------------------------------------------- rounds */

/* A round whose number experts_round_set() sets. */
WEFT_DEVICE struct experts_round experts_round_of(const struct experts_call *c)
{
    uint32_t warps = weft_dev_block_dim_x() / EXPERTS_LANES;
    struct experts_round r = {c,
                              0,
                              0,
                              weft_dev_thread_x() % EXPERTS_LANES,
                              weft_dev_thread_x() / EXPERTS_LANES + weft_dev_block_x() * warps,
                              weft_dev_grid_dim_x() * warps,
                              0};
    return r;
}

WEFT_DEVICE void experts_round_set(struct experts_round *r, uint64_t number)
{
    r->number = number;
    r->set = number % 2 * r->c->set_bytes;
}

/* These two set the number of the next round, in shared memory: the other threads read it after
 * they have synchronised. The first one is of a sending kernel, the second one of a kernel that
 * also receives. Relaxed: the ticket is the only data. */
WEFT_DEVICE void experts_send_begin(const struct experts_call *c, uint64_t *number)
{
    if (weft_dev_thread_x() > 0)
        return;
    *number = c->rounds->tickets / EXPERTS_TICKETS + 1;
    if (weft_dev_block_x() == 0)
        c->rounds->sent = *number;
}

WEFT_DEVICE void experts_both_begin(const struct experts_call *c, uint64_t *number)
{
    if (weft_dev_thread_x() > 0)
        return;
    uint64_t ticket =
        weft_dev_atomic_add_u64(&c->rounds->tickets, EXPERTS_TICKETS / weft_dev_grid_dim_x(),
                                WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    *number = ticket / EXPERTS_TICKETS + 1;
}

WEFT_DEVICE struct experts_round experts_receive_begin(const struct experts_call *c)
{
    struct experts_round r = experts_round_of(c);
    experts_round_set(&r, c->rounds->sent);
    if (weft_dev_grid_rank() == 0)
        c->rounds->tickets = r.number * EXPERTS_TICKETS;
    return r;
}

/* Index of the calling warp in its block, and their number. */
WEFT_DEVICE uint32_t experts_own_warp(void)
{
    return weft_dev_thread_x() / EXPERTS_LANES;
}

WEFT_DEVICE uint32_t experts_own_warps(void)
{
    return weft_dev_block_dim_x() / EXPERTS_LANES;
}

/* Addresses of the slots of all members, for the sending kernels. */
WEFT_DEVICE void experts_find_slots(const struct experts_call *c, char **slots)
{
    FOR_THREADS(member, c->members)
    slots[member] = (char *)weft_dev_ptr(c->slots, c->pes[member]);
}

/* Offset of the head of member `from` in the slots. */
WEFT_DEVICE uint64_t experts_head_at(const struct experts_round *r, uint32_t from)
{
    return r->set + (uint64_t)from * r->c->head_pieces * EXPERTS_PIECE_WIRE;
}

/* Offset of piece `piece` of slot `slot`. slot_pieces: pieces of a slot. */
WEFT_DEVICE uint64_t experts_piece_at(const struct experts_round *r, uint64_t slot,
                                      uint32_t slot_pieces, uint32_t piece)
{
    return experts_head_at(r, r->c->members) + (slot * slot_pieces + piece) * EXPERTS_PIECE_WIRE;
}

/* Called by one block: waits until every member has sent its head, which allows the next round. */
WEFT_DEVICE void experts_await_heads(struct experts_round *r)
{
    for (uint32_t from = experts_own_warp(); from < r->c->members; from += experts_own_warps()) {
        const char *head = r->c->slots + experts_head_at(r, from);
        int used = r->lane < SHORT_LINE_LANES;
        experts_line_await(r, experts_line_peek(r, head, used), head, used, from);
    }
}

/* The last block of a kernel that receives also receives what belongs to all rows. */
WEFT_DEVICE int experts_is_last_block(void)
{
    return weft_dev_block_x() == weft_dev_grid_dim_x() - 1;
}

/* The member from which a row is. first: the first row of each member, and the number of all. */
WEFT_DEVICE uint32_t experts_row_owner(const uint32_t *first, uint32_t row)
{
    uint32_t from = 0;
    while (row >= first[from + 1])
        from++;
    return from;
}

/* ----------------------------------------------------------------------- sending a dispatch */

/* What a sending block knows of all tokens of this PE, in its shared memory. */
struct experts_plan {
    uint64_t *to;            /* [tokens] bit m: the token goes to member m */
    uint16_t *place;         /* [tokens][members] index among the rows for the member */
    uint32_t *rows;          /* [members] rows for each */
    uint32_t *expert_tokens; /* [experts], in block 0 */
    char **slots;            /* [members] */
};

/* Reads the choices of all tokens. */
WEFT_DEVICE void experts_plan_choices(const struct experts_call *c, struct experts_plan plan)
{
    enum { AT_ONCE = 8 }; /* loads in flight */
    uint32_t n = c->tokens * c->top, threads = weft_dev_block_dim_x();
    for (uint32_t i = weft_dev_thread_x(); i < n; i += AT_ONCE * threads) {
        int64_t experts[AT_ONCE];
        WEFT_UNROLL
        for (uint32_t k = 0; k < AT_ONCE; k++)
            experts[k] = i + k * threads < n ? c->topk_idx[i + k * threads] : -1;
        WEFT_UNROLL
        for (uint32_t k = 0; k < AT_ONCE; k++) {
            if (experts[k] >= 0 && experts[k] < (int64_t)c->experts) {
                uint32_t expert = (uint32_t)experts[k];
                weft_dev_atomic_or_u64(&plan.to[(i + k * threads) / c->top],
                                       (uint64_t)1 << experts_owner(c, expert), WEFT_ORDER_RELAXED,
                                       WEFT_SCOPE_CTA);
                if (weft_dev_block_x() == 0)
                    weft_dev_atomic_add_u32(&plan.expert_tokens[expert], 1, WEFT_ORDER_RELAXED,
                                            WEFT_SCOPE_CTA);
            } else if (experts[k] != -1 && weft_dev_block_x() == 0) {
                experts_report(c, EXPERTS_FAULT_EXPERT, i + k * threads, experts[k]);
            }
        }
    }
}

/* Numbers the rows for each member in the order of the tokens. A warp serves a member. */
WEFT_DEVICE void experts_plan_places(const struct experts_call *c, struct experts_plan plan)
{
    weft_lane_mask lanes = weft_dev_lanes_half();
    uint32_t lane = weft_dev_thread_x() % EXPERTS_LANES;
    for (uint32_t member = experts_own_warp(); member < c->members; member += experts_own_warps()) {
        uint32_t rows = 0;
        for (uint32_t base = 0; base < c->tokens; base += EXPERTS_LANES) {
            uint32_t t = base + lane;
            int goes = t < c->tokens && (plan.to[t] >> member & 1);
            uint32_t going = (uint32_t)(weft_dev_ballot(lanes, goes) >> (weft_dev_lane() & 32));
            uint32_t place = rows + weft_dev_popcount_u32(going & ((1u << lane) - 1));
            if (t < c->tokens)
                plan.place[t * c->members + member] = (uint16_t)(goes ? place : SHORT_NO_PLACE);
            rows += weft_dev_popcount_u32(going);
        }
        if (lane == 0)
            plan.rows[member] = rows;
    }
}

/* Takes the places of a known layout. */
WEFT_DEVICE void experts_plan_known(const struct experts_call *c, struct experts_plan plan,
                                    uint32_t tokens)
{
    const int32_t *places = experts_places(c, 0);
    FOR_THREADS(i, tokens * c->members)
    {
        plan.place[i] = (uint16_t)places[i];
        if (places[i] >= 0)
            weft_dev_atomic_or_u64(&plan.to[i / c->members], (uint64_t)1 << i % c->members,
                                   WEFT_ORDER_RELAXED, WEFT_SCOPE_CTA);
    }
    FOR_THREADS(member, c->members)
    plan.rows[member] = experts_rows(c, c->me, (uint32_t)member);
}

/* Word i of the counts of this PE: see EXPERTS_COUNT_WORDS. There is one part. */
WEFT_DEVICE uint32_t experts_plan_word(const struct experts_call *c, struct experts_plan plan,
                                       uint32_t i)
{
    uint32_t experts_at = c->members * EXPERTS_PARTS_MOST;
    if (i >= experts_at)
        return i - experts_at < c->experts ? plan.expert_tokens[i - experts_at] : 0;
    return i % EXPERTS_PARTS_MOST ? 0 : plan.rows[i / EXPERTS_PARTS_MOST];
}

/* Sends the head of this PE to every member: `bytes` bytes, of which the first 16 are the number of
 * rows, the others the counts. One block calls it. */
WEFT_DEVICE void experts_send_heads(struct experts_round *r, struct experts_plan plan,
                                    uint32_t bytes)
{
    const struct experts_call *c = r->c;
    uint32_t items = experts_pieces(bytes) * c->members;
    for (uint32_t i = experts_own_warp(); i < items; i += experts_own_warps()) {
        uint32_t member = i % c->members, piece = i / c->members;
        uint32_t at = experts_lane_offset(piece, r->lane), word = (at - EXPERTS_HEAD) / 4;
        struct weft_dev_vec16 v = {0, 0};
        if (at == 0)
            v.lo = plan.rows ? plan.rows[member] : 0;
        else if (at < bytes) {
            v.lo = experts_plan_word(c, plan, word) | (uint64_t)experts_plan_word(c, plan, word + 1)
                                                          << 32;
            v.hi = experts_plan_word(c, plan, word + 2) |
                   (uint64_t)experts_plan_word(c, plan, word + 3) << 32;
        }
        experts_line_store(
            r, plan.slots[member] + experts_head_at(r, c->me) + (size_t)piece * EXPERTS_PIECE_WIRE,
            v, experts_line_is_used(bytes, piece, r->lane));
    }
}

/* Bytes of a row with what is sent next to it. */
WEFT_DEVICE uint32_t experts_row_bytes(const struct experts_call *c)
{
    return c->token_bytes + c->scale_bytes +
           (c->known ? 0 : c->top * (uint32_t)sizeof(struct experts_choice));
}

/* On GPUs, relaxed accesses are one instruction. A compiler divides plain ones next to those of 8
 * bytes, which takes twice the transactions. */
#if WEFT_TARGET_GPU
#define EXPERTS_LOAD_16  weft_dev_load_vec16_relaxed
#define EXPERTS_STORE_16 weft_dev_store_vec16_relaxed
#else
#define EXPERTS_LOAD_16  weft_dev_load_vec16
#define EXPERTS_STORE_16 weft_dev_store_vec16
#endif

/* Loads 16 bytes, or 8 where two is 0; addresses and ends are multiples of them. */
WEFT_DEVICE struct weft_dev_vec16 experts_load(const char *at, int two)
{
    struct weft_dev_vec16 v = {0, 0};
    if (two)
        v = EXPERTS_LOAD_16(at);
    else
        v.lo = *(const weft_dev_any_u64 *)(const void *)at;
    return v;
}

WEFT_DEVICE void experts_store(char *at, struct weft_dev_vec16 v, int two)
{
    if (two)
        EXPERTS_STORE_16(at, v);
    else
        *(weft_dev_any_u64 *)(void *)at = v.lo;
}

/* A choice as it is sent: the expert below the bits of its weight. */
WEFT_DEVICE uint64_t experts_choice_bits(const struct experts_call *c, size_t t, uint32_t k)
{
    if (k >= c->top)
        return 0;
    int64_t expert = c->topk_idx[t * c->top + k];
    float weight = c->topk_weights ? c->topk_weights[t * c->top + k] : 1.0f;
    if (expert < 0 || expert >= (int64_t)c->experts)
        expert = -1;
    return (uint32_t)expert | (uint64_t)weft_dev_bits_f32(weight) << 32;
}

/* Loads what a lane sends of token t: of its elements, its scales, or its choices. */
WEFT_DEVICE struct weft_dev_vec16 experts_row_load(const struct experts_call *c, size_t t,
                                                   uint32_t at, int two)
{
    struct weft_dev_vec16 v = {0, 0};
    if (at < c->token_bytes)
        return experts_load(c->x + t * c->token_bytes + at, two);
    at -= c->token_bytes;
    if (at < c->scale_bytes)
        return experts_load(c->scales + t * c->scale_bytes + at, two);
    uint32_t k = (at - c->scale_bytes) / (uint32_t)sizeof(struct experts_choice);
    if (c->known || k >= c->top)
        return v;
    v.lo = experts_choice_bits(c, t, k);
    v.hi = two ? experts_choice_bits(c, t, k + 1) : 0;
    return v;
}

/* Pieces of tokens that a warp has loaded. */
struct experts_loaded {
    struct weft_dev_vec16 v[SHORT_LOADED];
};

/* Loads pieces `first`, first + warps, and so on, of all tokens. */
WEFT_DEVICE void experts_load_pieces(const struct experts_round *r, uint32_t first,
                                     struct experts_loaded *loaded)
{
    uint32_t pieces = experts_pieces(experts_row_bytes(r->c)), items = r->c->tokens * pieces;
    WEFT_UNROLL
    for (uint32_t k = 0; k < SHORT_LOADED; k++) {
        uint32_t i = first + k * r->warps;
        if (i < items)
            loaded->v[k] =
                experts_row_load(r->c, i / pieces, experts_lane_offset(i % pieces, r->lane),
                                 !experts_has_flag(r->lane));
    }
}

/* Sends the rows: a warp stores a piece of a token to each member that gets the token. loaded: the
 * warp's first pieces. */
WEFT_DEVICE void experts_send_rows(struct experts_round *r, struct experts_plan plan,
                                   uint32_t tokens, struct experts_loaded *loaded)
{
    const struct experts_call *c = r->c;
    uint32_t bytes = experts_row_bytes(c), pieces = experts_pieces(bytes), items = tokens * pieces;
    for (uint32_t first = r->warp; first < items; first += SHORT_LOADED * r->warps) {
        if (first != r->warp)
            experts_load_pieces(r, first, loaded);
        WEFT_UNROLL
        for (uint32_t k = 0; k < SHORT_LOADED; k++) {
            uint32_t i = first + k * r->warps, t = i / pieces, piece = i % pieces;
            for (uint64_t to = i < items ? plan.to[t] : 0; to; to &= to - 1) {
                uint32_t member = weft_dev_find_first_u64(to) - 1;
                uint64_t slot =
                    (uint64_t)c->me * c->tokens_most + plan.place[t * c->members + member];
                experts_line_store(
                    r, plan.slots[member] + experts_piece_at(r, slot, c->row_pieces, piece),
                    loaded->v[k], experts_line_is_used(bytes, piece, r->lane));
            }
        }
    }
}

/* number: see experts_send_begin(). */
WEFT_DEVICE void experts_send_tokens(struct experts_round *r, const uint64_t *number)
{
    WEFT_SHARED(uint64_t, to, [EXPERTS_SHORT_TOKENS]);
    WEFT_SHARED(uint16_t, place, [EXPERTS_SHORT_PLACES]);
    WEFT_SHARED(uint32_t, rows, [EXPERTS_SHORT_MEMBERS]);
    WEFT_SHARED(uint32_t, expert_tokens, [EXPERTS_SHORT_EXPERTS]);
    WEFT_SHARED(char *, slots, [EXPERTS_SHORT_MEMBERS]);
    struct experts_plan plan = {to, place, rows, expert_tokens, slots};
    struct experts_loaded loaded;
    const struct experts_call *c = r->c;
    uint32_t tokens = c->tokens, words = EXPERTS_COUNT_WORDS(c->members, c->experts);
    experts_load_pieces(r, r->warp, &loaded); /* these arrive while the block makes its plan */
    if (c->known && c->layout[0] < tokens)
        tokens = c->layout[0];
    FOR_THREADS(t, tokens)
    to[t] = 0;
    FOR_THREADS(e, c->experts)
    expert_tokens[e] = 0;
    experts_find_slots(c, slots);
    weft_dev_sync_block();
    if (c->known) {
        experts_plan_known(c, plan, tokens);
        if (c->layout[0] != c->tokens && weft_dev_grid_rank() == 0)
            experts_report(c, EXPERTS_FAULT_TOKENS, c->layout[0], c->tokens);
    } else {
        experts_plan_choices(c, plan);
        weft_dev_sync_block();
        experts_plan_places(c, plan);
    }
    weft_dev_sync_block();
    experts_round_set(r, *number);
    if (weft_dev_block_x() == 0)
        experts_send_heads(r, plan, c->known ? EXPERTS_HEAD : EXPERTS_HEAD + 4 * words);
    experts_send_rows(r, plan, tokens, &loaded);
    if (c->known)
        return;
    FOR_ALL(i, tokens * c->members)
    experts_places(c, 0)[i] = place[i] == SHORT_NO_PLACE ? -1 : place[i];
    if (weft_dev_grid_rank() == 0)
        c->layout[0] = tokens;
}

WEFT_DEVICE void experts_short_send(const struct experts_call *c)
{
    WEFT_SHARED(uint64_t, number, [1]);
    struct experts_round r = experts_round_of(c);
    experts_send_begin(c, number);
    experts_send_tokens(&r, number);
}

/* --------------------------------------------------------------------- receiving a dispatch */

/* Stores a choice of a row. */
WEFT_DEVICE void experts_choice_deliver(const struct experts_call *c, size_t i, uint64_t bits)
{
    uint32_t begin = experts_first(c, c->me), own = experts_first(c, c->me + 1) - begin;
    uint32_t expert = (uint32_t)bits - begin;
    if (c->to_idx)
        c->to_idx[i] = expert < own ? (int64_t)expert : -1;
    if (c->to_weights)
        c->to_weights[i] = expert < own ? weft_dev_f32_bits((uint32_t)(bits >> 32)) : 0.0f;
}

/* Stores what a lane received of a row: the reverse of experts_row_load(). */
WEFT_DEVICE void experts_row_deliver(const struct experts_call *c, size_t row, uint32_t at,
                                     struct weft_dev_vec16 v, int two)
{
    if (at < c->token_bytes) {
        experts_store(c->rows_in + row * c->token_bytes + at, v, two);
        if (c->to_x && c->to_x != c->rows_in)
            experts_store(c->to_x + row * c->token_bytes + at, v, two);
        return;
    }
    at -= c->token_bytes;
    if (at < c->scale_bytes) {
        experts_store(c->scales_in + row * c->scale_bytes + at, v, two);
        if (c->to_scales && c->to_scales != c->scales_in)
            experts_store(c->to_scales + row * c->scale_bytes + at, v, two);
        return;
    }
    uint32_t k = (at - c->scale_bytes) / (uint32_t)sizeof(struct experts_choice);
    if (c->known || k >= c->top)
        return;
    experts_choice_deliver(c, row * c->top + k, v.lo);
    if (two && k + 1 < c->top)
        experts_choice_deliver(c, row * c->top + k + 1, v.hi);
}

/* Sets first[m] to the first row of member m, and first[members] to the number of all rows: from
 * the members' heads, or from a known layout. */
WEFT_DEVICE void experts_receive_first(struct experts_round *r, uint32_t *first)
{
    const struct experts_call *c = r->c;
    for (uint32_t from = experts_own_warp(); from < c->members; from += experts_own_warps()) {
        const char *head = c->slots + experts_head_at(r, from);
        int used = r->lane < SHORT_LINE_LANES && !c->known;
        struct weft_dev_vec16 v =
            experts_line_await(r, experts_line_peek(r, head, used), head, used, from);
        if (r->lane == 0)
            first[from + 1] = c->known    ? experts_rows(c, from, c->me)
                              : r->failed ? 0
                                          : (uint32_t)v.lo;
    }
    weft_dev_sync_block();
    if (weft_dev_thread_x() == 0)
        first[0] = 0;
    if (weft_dev_thread_x() == 0)
        for (uint32_t from = 0; from < c->members; from++)
            first[from + 1] += first[from];
    weft_dev_sync_block();
}

WEFT_DEVICE void experts_receive_rows(struct experts_round *r, const uint32_t *first, uint32_t rows)
{
    const struct experts_call *c = r->c;
    uint32_t bytes = experts_row_bytes(c), pieces = experts_pieces(bytes), items = rows * pieces;
    int two = !experts_has_flag(r->lane);
    for (uint32_t begin = r->warp; begin < items; begin += SHORT_LOADED * r->warps) {
        struct weft_dev_vec16 v[SHORT_LOADED];
        const char *from_at[SHORT_LOADED];
        uint32_t from[SHORT_LOADED];
        WEFT_UNROLL
        for (uint32_t k = 0; k < SHORT_LOADED; k++) {
            uint32_t i = begin + k * r->warps, row = i / pieces, piece = i % pieces;
            if (i >= items)
                continue;
            from[k] = experts_row_owner(first, row);
            uint64_t slot = (uint64_t)from[k] * c->tokens_most + (row - first[from[k]]);
            from_at[k] = c->slots + experts_piece_at(r, slot, c->row_pieces, piece);
            v[k] = experts_line_peek(r, from_at[k], experts_line_is_used(bytes, piece, r->lane));
        }
        WEFT_UNROLL
        for (uint32_t k = 0; k < SHORT_LOADED; k++) {
            uint32_t i = begin + k * r->warps, row = i / pieces, piece = i % pieces;
            if (i >= items)
                continue;
            v[k] = experts_line_await(r, v[k], from_at[k],
                                      experts_line_is_used(bytes, piece, r->lane), from[k]);
            if (!r->failed)
                experts_row_deliver(c, row, experts_lane_offset(piece, r->lane), v[k], two);
        }
    }
}

/* Copies the counts of all members to the layout. One block calls it. */
WEFT_DEVICE void experts_receive_counts(struct experts_round *r)
{
    const struct experts_call *c = r->c;
    uint32_t words = EXPERTS_COUNT_WORDS(c->members, c->experts);
    uint32_t bytes = EXPERTS_HEAD + 4 * words, items = experts_pieces(bytes) * c->members;
    for (uint32_t i = experts_own_warp(); i < items; i += experts_own_warps()) {
        uint32_t from = i % c->members, piece = i / c->members;
        uint32_t at = experts_lane_offset(piece, r->lane), word = (at - EXPERTS_HEAD) / 4;
        const char *head = c->slots + experts_head_at(r, from) + (size_t)piece * EXPERTS_PIECE_WIRE;
        int used = experts_line_is_used(bytes, piece, r->lane);
        struct weft_dev_vec16 v =
            experts_line_await(r, experts_line_peek(r, head, used), head, used, from);
        uint32_t n = experts_has_flag(r->lane) ? 2 : 4;
        uint32_t *to = c->layout + EXPERTS_LAYOUT_HEAD + (size_t)from * words;
        for (uint32_t k = 0; k < n && at >= EXPERTS_HEAD && word + k < words && !r->failed; k++)
            to[word + k] = (uint32_t)((k < 2 ? v.lo : v.hi) >> 32 * (k % 2));
    }
}

/* Stores the numbers that the caller wants to know. One block calls it, after the counts of the
 * layout are there. */
WEFT_DEVICE void experts_store_numbers(const struct experts_call *c, uint32_t wanted)
{
    uint32_t first = experts_first(c, c->me), own = experts_first(c, c->me + 1) - first;
    if (c->to_n_tokens)
        FOR_THREADS(e, own)
        {
            c->to_n_tokens[e] = experts_count_tokens(c, first + (uint32_t)e);
        }
    if (weft_dev_thread_x() > 0)
        return;
    if (c->to_n_rows)
        *c->to_n_rows = wanted < c->rows ? wanted : c->rows;
    if (wanted > c->rows)
        experts_report(c, EXPERTS_FAULT_ROWS, 0, wanted);
}

WEFT_DEVICE void experts_receive_tokens(struct experts_round *r)
{
    WEFT_SHARED(uint32_t, first, [EXPERTS_SHORT_MEMBERS + 1]);
    const struct experts_call *c = r->c;
    experts_receive_first(r, first);
    uint32_t wanted = first[c->members];
    experts_receive_rows(r, first, wanted < c->rows ? wanted : c->rows);
    if (!experts_is_last_block())
        return;
    if (c->known)
        experts_await_heads(r);
    else
        experts_receive_counts(r);
    weft_dev_sync_block();
    experts_store_numbers(c, wanted);
}

WEFT_DEVICE void experts_short_receive(const struct experts_call *c)
{
    struct experts_round r = experts_receive_begin(c);
    experts_receive_tokens(&r);
}

WEFT_DEVICE void experts_short_dispatch(const struct experts_call *c)
{
    WEFT_SHARED(uint64_t, number, [1]);
    struct experts_round r = experts_round_of(c);
    experts_both_begin(c, number);
    experts_send_tokens(&r, number);
    experts_receive_tokens(&r);
}

/* ------------------------------------------------------------------------ sending a combine */

/* Bytes of a result with its weights. */
WEFT_DEVICE uint32_t experts_result_message(const struct experts_call *c, int weights)
{
    return c->result_bytes + (weights ? c->top * (uint32_t)sizeof(float) : 0);
}

/* Loads up to four weights from the k-th on. */
WEFT_DEVICE struct weft_dev_vec16 experts_weights_load(const float *weights, uint32_t k,
                                                       uint32_t top)
{
    uint32_t bits[4];
    WEFT_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        bits[i] = k + i < top ? weft_dev_bits_f32(weights[k + i]) : 0;
    struct weft_dev_vec16 v = {bits[0] | (uint64_t)bits[1] << 32,
                               bits[2] | (uint64_t)bits[3] << 32};
    return v;
}

/* Loads what a lane sends, or adds, of the result of a row. */
WEFT_DEVICE struct weft_dev_vec16 experts_result_load(const struct experts_call *c, size_t row,
                                                      uint32_t at, int two)
{
    struct weft_dev_vec16 none = {0, 0};
    if (at < c->result_bytes)
        return experts_load(c->results + row * c->result_bytes + at, two);
    if (!c->result_weights)
        return none;
    return experts_weights_load(c->result_weights + row * c->top, (at - c->result_bytes) / 4,
                                c->top);
}

/* What a block knows of the results that it sends, in its shared memory. */
struct experts_returns {
    uint32_t *first;        /* [members + 1] the first row of each member, and the number of all */
    uint32_t *first_result; /* [members] where the owner of these tokens gets the first result */
    char **slots;           /* [members] */
};

WEFT_DEVICE void experts_plan_results(const struct experts_call *c, struct experts_returns plan)
{
    FOR_THREADS(i, c->members + 1)
    {
        uint32_t member = (uint32_t)i, row = experts_first_row(c, member, c->me), result = 0;
        if (member < c->members)
            result = experts_first_result(c, member, c->me);
        plan.first[member] = row;
        if (member < c->members)
            plan.first_result[member] = result;
    }
    experts_find_slots(c, plan.slots);
}

/* Sends the results of the rows of other members. Each PE starts with the rows after its own. */
WEFT_DEVICE void experts_send_results(struct experts_round *r, struct experts_returns plan)
{
    const struct experts_call *c = r->c;
    const uint32_t *first = plan.first;
    uint32_t bytes = experts_result_message(c, c->result_weights != NULL);
    uint32_t pieces = experts_pieces(bytes), all = first[c->members];
    uint32_t rows = all < c->rows ? all : c->rows;
    uint32_t begin = first[c->me] < rows ? first[c->me] : rows;
    uint32_t end = first[c->me + 1] < rows ? first[c->me + 1] : rows;
    uint32_t items = (rows - (end - begin)) * pieces;
    int two = !experts_has_flag(r->lane);
    for (uint32_t base = r->warp; base < items; base += SHORT_LOADED * r->warps) {
        struct weft_dev_vec16 v[SHORT_LOADED];
        WEFT_UNROLL
        for (uint32_t k = 0; k < SHORT_LOADED; k++) {
            uint32_t i = base + k * r->warps, row = end + i / pieces;
            if (i < items)
                v[k] = experts_result_load(c, row < rows ? row : row - rows,
                                           experts_lane_offset(i % pieces, r->lane), two);
        }
        WEFT_UNROLL
        for (uint32_t k = 0; k < SHORT_LOADED; k++) {
            uint32_t i = base + k * r->warps, row = end + i / pieces, piece = i % pieces;
            if (i >= items)
                continue;
            row = row < rows ? row : row - rows;
            uint32_t to = experts_row_owner(first, row);
            uint64_t slot = plan.first_result[to] + (row - first[to]);
            experts_line_store(r,
                               plan.slots[to] + experts_piece_at(r, slot, c->result_pieces, piece),
                               v[k], experts_line_is_used(bytes, piece, r->lane));
        }
    }
}

/* Sends the heads and the results. The plan is made, and threads have synchronised. */
WEFT_DEVICE void experts_return_results(struct experts_round *r, struct experts_returns plan)
{
    struct experts_plan no_rows = {NULL, NULL, NULL, NULL, plan.slots};
    if (weft_dev_block_x() == 0)
        experts_send_heads(r, no_rows, EXPERTS_HEAD);
    experts_send_results(r, plan);
}

WEFT_DEVICE void experts_short_return(const struct experts_call *c)
{
    WEFT_SHARED(uint64_t, number, [1]);
    WEFT_SHARED(uint32_t, first, [EXPERTS_SHORT_MEMBERS + 1]);
    WEFT_SHARED(uint32_t, first_result, [EXPERTS_SHORT_MEMBERS]);
    WEFT_SHARED(char *, slots, [EXPERTS_SHORT_MEMBERS]);
    struct experts_returns plan = {first, first_result, slots};
    struct experts_round r = experts_round_of(c);
    experts_send_begin(c, number);
    experts_plan_results(c, plan);
    weft_dev_sync_block();
    experts_round_set(&r, *number);
    experts_return_results(&r, plan);
}

/* ---------------------------------------------------------------------- receiving a combine */

WEFT_DEVICE void experts_add_of(const struct experts_call *c, float *sums, struct weft_dev_vec16 v,
                                int weights)
{
    if (weights || c->result_type == WEFT_FLOAT)
        experts_add(sums, v, WEFT_FLOAT);
    else if (c->result_type == WEFT_BFLOAT16)
        experts_add(sums, v, WEFT_BFLOAT16);
    else
        experts_add(sums, v, WEFT_HALF);
}

/* Stores a lane's sums of token t. */
WEFT_DEVICE void experts_sums_deliver(const struct experts_call *c, size_t t, uint32_t at,
                                      const float *sums, int two)
{
    if (at < c->result_bytes) {
        char *to = c->to + t * c->result_bytes + at;
        if (c->result_type == WEFT_FLOAT)
            experts_store(to, experts_rounded(sums, WEFT_FLOAT), two);
        else if (c->result_type == WEFT_BFLOAT16)
            experts_store(to, experts_rounded(sums, WEFT_BFLOAT16), two);
        else
            experts_store(to, experts_rounded(sums, WEFT_HALF), two);
        return;
    }
    uint32_t k = (at - c->result_bytes) / 4;
    WEFT_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        if (c->to_sums && k + i < c->top && (two || i < 2))
            c->to_sums[t * c->top + k + i] = sums[i];
}

/* Adds what the members in `bits` returned for token t, in their order. base: the member of bit 0.
 * index: in lane m, where the result of member base + m is. */
WEFT_DEVICE void experts_add_members(struct experts_round *r, uint32_t bits, uint32_t base,
                                     uint32_t index, uint32_t piece, uint32_t bytes, float *sums)
{
    const struct experts_call *c = r->c;
    weft_lane_mask lanes = weft_dev_lanes_half();
    uint32_t at = experts_lane_offset(piece, r->lane);
    int two = !experts_has_flag(r->lane), used = experts_line_is_used(bytes, piece, r->lane);
    while (bits) {
        struct weft_dev_vec16 v[SHORT_LOADED];
        const char *from[SHORT_LOADED];
        uint32_t left = bits;
        WEFT_UNROLL
        for (uint32_t k = 0; k < SHORT_LOADED; k++) {
            if (!left)
                continue;
            uint32_t member = weft_dev_find_first_u32(left) - 1;
            uint32_t place = weft_dev_shuffle_u32(lanes, index, member | (weft_dev_lane() & 32));
            left &= left - 1;
            from[k] = c->slots + experts_piece_at(r, place, c->result_pieces, piece);
            if (base + member == c->me && at < bytes)
                v[k] = experts_result_load(c, place, at, two);
            else if (base + member != c->me)
                v[k] = experts_line_peek(r, from[k], used);
        }
        WEFT_UNROLL
        for (uint32_t k = 0; k < SHORT_LOADED; k++) {
            if (!bits)
                continue;
            uint32_t member = base + weft_dev_find_first_u32(bits) - 1;
            bits &= bits - 1;
            if (member != c->me)
                v[k] = experts_line_await(r, v[k], from[k], used, member);
            if (at < bytes)
                experts_add_of(c, sums, v[k], at >= c->result_bytes);
        }
    }
}

/* The place of token t at member `member` in a lane; -1: none, or there is no such member. */
WEFT_DEVICE int32_t experts_place_of(const struct experts_call *c, size_t t, uint32_t member)
{
    return member < c->members ? experts_places(c, t)[member] : -1;
}

/* Adds the results of the tokens. A warp adds one piece of a token, and loads the places of the
 * next one meanwhile. */
WEFT_DEVICE void experts_add_tokens(struct experts_round *r, struct experts_sources from)
{
    const struct experts_call *c = r->c;
    weft_lane_mask lanes = weft_dev_lanes_half();
    uint32_t bytes = experts_result_message(c, c->to_sums != NULL);
    uint32_t pieces = experts_pieces(bytes), items = c->layout[0] * pieces;
    int32_t next = r->warp < items ? experts_place_of(c, r->warp / pieces, r->lane) : -1;
    for (uint32_t i = r->warp; i < items; i += r->warps) {
        uint32_t t = i / pieces, piece = i % pieces, at = experts_lane_offset(piece, r->lane);
        int32_t place = next;
        float sums[8] = {0.0f};
        next = i + r->warps < items ? experts_place_of(c, (i + r->warps) / pieces, r->lane) : -1;
        for (uint32_t base = 0; base < c->members; base += EXPERTS_LANES) {
            place = base ? experts_place_of(c, t, base + r->lane) : place;
            int64_t index = experts_result_of(c, from, base + r->lane, place);
            uint32_t bits =
                (uint32_t)(weft_dev_ballot(lanes, index >= 0) >> (weft_dev_lane() & 32));
            experts_add_members(r, bits, base, (uint32_t)index, piece, bytes, sums);
        }
        if (at < bytes && !r->failed)
            experts_sums_deliver(c, t, at, sums, !experts_has_flag(r->lane));
    }
}

/* Finds where the results of this PE's tokens are. first, remote: [members], in shared memory. */
WEFT_DEVICE struct experts_sources experts_plan_sums(const struct experts_call *c, uint32_t *first,
                                                     uint32_t *remote)
{
    struct experts_values none = {NULL, NULL};
    struct experts_sources from = {first, remote, c->me, c->members, none, NULL, NULL};
    FOR_THREADS(i, c->members)
    {
        uint32_t member = (uint32_t)i, result = experts_first_result(c, c->me, member);
        uint32_t row = experts_first_row(c, c->me, member);
        first[member] = result;
        remote[member] = row;
    }
    return from;
}

/* Adds the results and waits for the heads. The sources are found, and threads have synchronised.
 */
WEFT_DEVICE void experts_sum_results(struct experts_round *r, struct experts_sources from)
{
    experts_add_tokens(r, from);
    if (experts_is_last_block())
        experts_await_heads(r);
}

WEFT_DEVICE void experts_short_sum(const struct experts_call *c)
{
    WEFT_SHARED(uint32_t, first, [EXPERTS_SHORT_MEMBERS]);
    WEFT_SHARED(uint32_t, remote, [EXPERTS_SHORT_MEMBERS]);
    struct experts_round r = experts_receive_begin(c);
    struct experts_sources from = experts_plan_sums(c, first, remote);
    weft_dev_sync_block();
    experts_sum_results(&r, from);
}

WEFT_DEVICE void experts_short_combine(const struct experts_call *c)
{
    WEFT_SHARED(uint64_t, number, [1]);
    WEFT_SHARED(uint32_t, first_row, [EXPERTS_SHORT_MEMBERS + 1]);
    WEFT_SHARED(uint32_t, first_result, [EXPERTS_SHORT_MEMBERS]);
    WEFT_SHARED(char *, slots, [EXPERTS_SHORT_MEMBERS]);
    WEFT_SHARED(uint32_t, first, [EXPERTS_SHORT_MEMBERS]);
    WEFT_SHARED(uint32_t, remote, [EXPERTS_SHORT_MEMBERS]);
    struct experts_returns plan = {first_row, first_result, slots};
    struct experts_round r = experts_round_of(c);
    experts_both_begin(c, number);
    experts_plan_results(c, plan);
    struct experts_sources from = experts_plan_sums(c, first, remote);
    weft_dev_sync_block();
    experts_round_set(&r, *number);
    experts_return_results(&r, plan);
    experts_sum_results(&r, from);
}

#endif
