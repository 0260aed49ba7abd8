/* SPDX-License-Identifier: Apache-2.0 */
/* LL128: a line carries 120 bytes of payload and a flag, the number of its round, in 128 bytes. 8
 * lanes of a warp store a line at once, 16 bytes each, with the flag in the last lane's store. A
 * link between GPUs delivers such a store as a whole: a reader that sees the flag has the payload.
 * No manual guarantees this. So weft_coll_prove_lines looks for lines that arrived in parts, and a
 * team in which a member saw one uses LL.
 *
 * Where a line is stored lane by lane (CPU threads run the lanes) no such guarantee is needed: the
 * lanes synchronize before the last one stores the flag, with release, and each lane loads the
 * flag, with acquire, before its payload. A block of one thread does what all lanes do, one after
 * the other.
 *
 * Each byte of payload takes 1.07 bytes on the link; no fence and no separate flag. Lines have slot
 * sets of their own, since payload of lines lies where packets have flags. Flags of lines have 64
 * bits and never repeat, so nothing has to be cleared.
 *
 * The four lines of 32 lanes make a piece of 30 units of 16 bytes. Each lane has one unit, except
 * the lanes with a flag, two of which share one. These 32 lanes are a warp, or half of a warp of
 * 64; "warp" means them here. */
#ifndef WEFT_GPU_COLL_LINES_H
#define WEFT_GPU_COLL_LINES_H

#include "gpu/coll/factors.h"
#include "gpu/coll/round.h"

enum {
    LANES = 32,                           /* that send a piece */
    LINE_LANES = 8,                       /* lanes that store one line */
    LINE_PAYLOAD = 16 * (LINE_LANES - 1), /* payload bytes of the lanes without the flag */
    HALVES_AT = 4 * LINE_PAYLOAD, /* offset in a piece of the payload of the lanes with a flag */
};

/* The lanes that a thread acts for: itself, or all lanes when it is the only thread of its
 * block. */
#if WEFT_TARGET_GPU
#define ALONE           0
#define FOR_LANES(lane) for (unsigned lane = PIECE_LANE, once_ = 1; once_; once_ = 0)
#else
#define ALONE (weft_dev_block_dim_x() == 1)
#define FOR_LANES(lane)                                                                            \
    for (unsigned lane = ALONE ? 0 : PIECE_LANE, end_ = ALONE ? LANES : lane + 1; lane < end_;     \
         lane++)
#endif

/* The lanes that send a piece with the caller, and its index among them. */
#define PIECE_LANES weft_dev_lanes_half()
#define PIECE_LANE  (WEFT_TARGET_CUDA ? weft_dev_lane() : weft_dev_lane() % LANES)
/* The lane with the flag of a lane's line. */
#define FLAG_LANE(lane) ((WEFT_TARGET_CUDA ? (lane) : weft_dev_lane()) | (LINE_LANES - 1))

WEFT_DEVICE int warp_any(int value)
{
    return ALONE ? value : weft_dev_any(PIECE_LANES, value);
}

WEFT_DEVICE int has_flag(unsigned lane)
{
    return lane % LINE_LANES == LINE_LANES - 1;
}

/* The warp's index in the grid, and the number of warps. */
WEFT_DEVICE uint64_t warp_rank(const struct round *r)
{
    return ALONE ? r->rank : r->rank / LANES;
}

WEFT_DEVICE uint64_t count_warps(const struct round *r)
{
    return ALONE ? r->threads : r->threads / LANES;
}

/* Returns the offset of a lane's payload in its piece. */
WEFT_DEVICE uint64_t lane_offset(unsigned lane)
{
    return has_flag(lane) ? HALVES_AT + lane / LINE_LANES * 8 : 16 * (lane - lane / LINE_LANES);
}

/* Returns whether the lane's line carries any of the `left` bytes from the start of the piece to
 * the end. */
WEFT_DEVICE int line_is_used(unsigned lane, uint64_t left)
{
    return lane / LINE_LANES * LINE_PAYLOAD < left;
}

/* Loads the payload of a lane from the `bytes` at src; zeros after their end. */
WEFT_DEVICE struct weft_dev_vec16 lane_load(const char *src, uint64_t bytes, uint64_t piece,
                                            unsigned lane)
{
    uint64_t begin = COLL_PIECE * piece, at = begin + lane_offset(lane);
    struct weft_dev_vec16 v = {0, 0};
    if (!has_flag(lane))
        return weft_dev_unit_load(src + begin, bytes - begin, lane_offset(lane) / 16);
    if (at < bytes)
        v.lo = weft_dev_packet_payload(src + at, (size_t)(bytes - at));
    return v;
}

WEFT_DEVICE void lane_deliver(char *dst, uint64_t bytes, uint64_t piece, unsigned lane,
                              struct weft_dev_vec16 v)
{
    uint64_t begin = COLL_PIECE * piece, at = begin + lane_offset(lane);
    if (at >= bytes)
        return;
    if (has_flag(lane))
        weft_dev_packet_deliver(dst + at, v.lo, (size_t)(bytes - at));
    else
        weft_dev_unit_deliver(dst + begin, bytes - begin, lane_offset(lane) / 16, v);
}

/* Returns the slot of member `from` in the set of member `at`; `slots` slots share the set. */
WEFT_DEVICE char *ll128_slot(const struct round *r, int at, int from, int slots)
{
    const struct coll_call *c = r->c;
    uint64_t bytes = c->set_bytes / (uint64_t)slots / COLL_PIECE_WIRE * COLL_PIECE_WIRE;
    return c->part[at] + r->set + 2 * c->set_bytes + (uint64_t)from * bytes;
}

/* Stores a lane's part of a piece. All lanes of the warp call it, or the only thread for each lane
 * from 0 on. */
WEFT_DEVICE void lane_store(char *slot, uint64_t piece, unsigned lane, struct weft_dev_vec16 v,
                            uint64_t number, int sent)
{
    char *to = slot + COLL_PIECE_WIRE * piece + 16 * lane;
#if WEFT_TARGET_GPU
    v.hi = has_flag(lane) ? number : v.hi;
    weft_dev_sync_warp(PIECE_LANES); /* all lanes then store with one instruction */
    if (sent)
        weft_dev_store_vec16_relaxed(to, v);
#else
    if (sent && !has_flag(lane))
        weft_dev_store_vec16_relaxed(to, v);
    else if (sent)
        weft_dev_store_u64((uint64_t *)(void *)to, v.lo, RELAXED, SYSTEM);
    if (!ALONE)
        weft_dev_sync_warp(PIECE_LANES);
    if (sent && has_flag(lane)) /* release: pairs with the acquire in lane_await() */
        weft_dev_store_u64((uint64_t *)(void *)(to + 8), number, RELEASE, SYSTEM);
#endif
}

/* Loads what is in the slot now, without waiting. */
WEFT_DEVICE struct weft_dev_vec16 lane_peek(const char *slot, uint64_t piece, unsigned lane,
                                            int sent)
{
    struct weft_dev_vec16 v = {0, 0};
#if WEFT_TARGET_GPU
    if (sent)
        v = weft_dev_load_vec16_relaxed(slot + COLL_PIECE_WIRE * piece + 16 * lane);
#else
    (void)slot, (void)piece, (void)lane, (void)sent;
#endif
    return v;
}

/* Waits until the line has this round's flag and returns the payload of a lane of `member`'s piece.
 * v: result of lane_peek(). */
WEFT_DEVICE struct weft_dev_vec16 lane_await(struct round *r, struct weft_dev_vec16 v,
                                             const char *slot, uint64_t piece, unsigned lane,
                                             int sent, int member)
{
    const char *at = slot + COLL_PIECE_WIRE * piece + 16 * lane;
    struct wait_progress progress = {0, 0, 0};
#if WEFT_TARGET_GPU
    for (;;) {
        uint64_t seen = weft_dev_shuffle_u64(PIECE_LANES, v.hi, FLAG_LANE(lane));
        int late = sent && seen != r->number && !r->failed;
        if (!weft_dev_any(PIECE_LANES, late))
            break;
        if (late && has_flag(lane))
            check_wait(r, &progress, member, at, r->number, seen);
        r->failed = weft_dev_any(PIECE_LANES, r->failed);
        if (sent)
            v = weft_dev_load_vec16_relaxed(at);
    }
#else
    const char *line = at - lane % LINE_LANES * 16;
    const uint64_t *flag = (const uint64_t *)(const void *)(line + 16 * LINE_LANES - 8);
    uint64_t seen;
    while (sent && !r->failed && (seen = weft_dev_load_u64(flag, ACQUIRE, SYSTEM)) != r->number)
        check_wait(r, &progress, member, line, r->number, seen);
    if (sent)
        v = weft_dev_load_vec16_relaxed(at);
#endif
    if (has_flag(lane))
        v.hi = 0;
    return v;
}

WEFT_DEVICE uint64_t count_pieces(uint64_t bytes)
{
    return (bytes + COLL_PIECE - 1) / COLL_PIECE;
}

/* Sends the pieces of this warp: to each member the pieces of the block for it. */
WEFT_DEVICE void pieces_send(const struct round *r)
{
    const struct coll_call *c = r->c;
    for (uint64_t p = warp_rank(r); p < count_pieces(c->bytes); p += count_warps(r)) {
        uint64_t left = c->bytes - COLL_PIECE * p;
        FOR_LANES(lane)
        {
            struct weft_dev_vec16 v = {0, 0};
            int loaded = -1;
            for (int i = 0; i < c->members - 1; i++) {
                int member = rotated_member(c, i), of = c->src_step ? member : 0;
                if (!sends_to(c, member))
                    continue;
                if (of != loaded)
                    v = lane_load(c->src + (uint64_t)of * c->src_step, c->bytes, p, lane);
                loaded = of;
                lane_store(ll128_slot(r, member, c->me, c->members), p, lane, v, r->number,
                           line_is_used(lane, left));
            }
        }
    }
}

/* Receives one lane's part of piece p from all members that send to this member. */
WEFT_DEVICE void lane_receive(struct round *r, uint64_t p, unsigned lane)
{
    const struct coll_call *c = r->c;
    int sent = line_is_used(lane, c->bytes - COLL_PIECE * p), n = c->members;
    for (int i = 0; i < n - 1; i += LOADED_TOGETHER) {
        struct weft_dev_vec16 v[LOADED_TOGETHER];
        WEFT_UNROLL
        for (int k = 0; k < LOADED_TOGETHER; k++) {
            int member = rotated_member(c, i + k < n - 1 ? i + k : i);
            v[k] = lane_peek(ll128_slot(r, c->me, member, n), p, lane,
                             sent && receives_from(c, member));
        }
        WEFT_UNROLL
        for (int k = 0; k < LOADED_TOGETHER; k++) {
            int member = rotated_member(c, i + k < n - 1 ? i + k : i);
            if (i + k >= n - 1 || !receives_from(c, member))
                continue;
            v[k] = lane_await(r, v[k], ll128_slot(r, c->me, member, n), p, lane, sent, member);
            if (!r->failed)
                lane_deliver(c->dst + (uint64_t)member * c->dst_step, c->bytes, p, lane, v[k]);
        }
    }
}

/* As weft_coll_send, with LL128. */
KERNEL weft_coll_send_lines(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    const struct coll_call *c = &call;
    struct round r;
    uint64_t ticket = round_draw(c);
    if (round_begin(&r, c, ticket, shared))
        return;
    if (c->flow != COLL_ALL)
        send_here(&r);
    await_slots(&r);
    pieces_send(&r);
    const char *mine = c->src + (uint64_t)c->me * c->src_step;
    char *to = c->dst + (uint64_t)c->me * c->dst_step;
    for (uint64_t p = warp_rank(&r); p < count_pieces(c->bytes); p += count_warps(&r))
        FOR_LANES(lane)
        {
            if (receives_from(c, c->me) && to != mine)
                lane_deliver(to, c->bytes, p, lane, lane_load(mine, c->bytes, p, lane));
            lane_receive(&r, p, lane);
        }
    if (c->flow == COLL_ALL)
        mark_all_begun(&r);
}

/* Combines a lane's part of piece `at` of every member's slot in the order of the team. `mine`:
 * this member's part. */
WEFT_DEVICE struct weft_dev_vec16 lane_combine(struct round *r, struct weft_dev_how h,
                                               struct weft_dev_vec16 mine, int slots, uint64_t at,
                                               unsigned lane, int sent)
{
    const struct coll_call *c = r->c;
    struct weft_dev_wide acc;
    struct weft_dev_vec16 nothing = {0, 0};
    weft_dev_wide_begin(h, &acc, nothing);
    for (int i = 0; i < c->members; i += LOADED_TOGETHER) {
        struct weft_dev_vec16 v[LOADED_TOGETHER];
        WEFT_UNROLL
        for (int k = 0; k < LOADED_TOGETHER; k++)
            if (i + k < c->members && i + k != c->me)
                v[k] = lane_peek(ll128_slot(r, c->me, i + k, slots), at, lane, sent);
        WEFT_UNROLL
        for (int k = 0; k < LOADED_TOGETHER; k++) {
            if (i + k >= c->members)
                break;
            if (i + k == c->me)
                v[k] = mine;
            else
                v[k] =
                    lane_await(r, v[k], ll128_slot(r, c->me, i + k, slots), at, lane, sent, i + k);
            if (i + k)
                weft_dev_wide_add(h, &acc, v[k]);
            else
                weft_dev_wide_begin(h, &acc, v[k]);
        }
    }
    return weft_dev_wide_end(h, &acc);
}

/* As weft_coll_reduce_one, with LL128, for elements of at most 8 bytes. */
KERNEL weft_coll_reduce_one_lines(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    const struct coll_call *c = &call;
    struct round r;
    uint64_t ticket = round_draw(c);
    struct weft_dev_how h = make_reduction(c, 0);
    if (round_begin(&r, c, ticket, shared))
        return;
    if (c->flow != COLL_ALL)
        send_here(&r);
    await_slots(&r);
    pieces_send(&r);
    const char *mine = c->src + (uint64_t)c->me * c->src_step;
    uint64_t end = receives_from(c, c->me) ? count_pieces(c->bytes) : 0;
    for (uint64_t p = warp_rank(&r); p < end; p += count_warps(&r))
        FOR_LANES(lane)
        {
            struct weft_dev_vec16 v =
                lane_combine(&r, h, lane_load(mine, c->bytes, p, lane), c->members, p, lane,
                             line_is_used(lane, c->bytes - COLL_PIECE * p));
            if (!r.failed)
                lane_deliver(c->dst, c->bytes, p, lane, v);
        }
    if (c->flow == COLL_ALL)
        mark_all_begun(&r);
}

WEFT_DEVICE uint64_t piece_slice_end(uint64_t pieces, uint64_t slice, int member)
{
    uint64_t end = slice * ((uint64_t)member + 1);
    return end < pieces ? end : pieces;
}

/* Combines this member's slice of all vectors and sends the result to all members. */
WEFT_DEVICE void slice_combine(struct round *r, uint64_t slice)
{
    const struct coll_call *c = r->c;
    struct weft_dev_how h = make_reduction(c, 0);
    int n = c->members, slots = 2 * n;
    uint64_t begin = slice * (uint64_t)c->me;
    uint64_t end = piece_slice_end(count_pieces(c->bytes), slice, c->me);
    for (uint64_t v = warp_rank(r); begin + v < end; v += count_warps(r))
        FOR_LANES(lane)
        {
            uint64_t p = begin + v;
            int sent = line_is_used(lane, c->bytes - COLL_PIECE * p);
            struct weft_dev_vec16 result =
                lane_combine(r, h, lane_load(c->src, c->bytes, p, lane), slots, v, lane, sent);
            if (warp_any(r->failed)) {
                r->failed = 1;
                return;
            }
            for (int i = 0; i < n - 1; i++)
                lane_store(ll128_slot(r, rotated_member(c, i), n + c->me, slots), v, lane, result,
                           r->number, sent);
            lane_deliver(c->dst, c->bytes, p, lane, result);
        }
}

/* As weft_coll_reduce_two, with LL128 and slices of whole pieces. */
KERNEL weft_coll_reduce_two_lines(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    const struct coll_call *c = &call;
    struct round r;
    uint64_t ticket = round_draw(c);
    int n = c->members, slots = 2 * n;
    uint64_t pieces = count_pieces(c->bytes), slice = (pieces + n - 1) / n;
    if (round_begin(&r, c, ticket, shared))
        return;
    await_slots(&r);
    for (uint64_t v = warp_rank(&r); v < slice; v += count_warps(&r))
        FOR_LANES(lane)
    for (int i = 0; i < n - 1; i++) {
        int member = rotated_member(c, i);
        uint64_t p = slice * (uint64_t)member + v;
        if (p < piece_slice_end(pieces, slice, member))
            lane_store(ll128_slot(&r, member, c->me, slots), v, lane,
                       lane_load(c->src, c->bytes, p, lane), r.number,
                       line_is_used(lane, c->bytes - COLL_PIECE * p));
    }
    slice_combine(&r, slice);
    for (uint64_t v = warp_rank(&r); v < slice; v += count_warps(&r))
        FOR_LANES(lane)
    for (int i = 0; i < n - 1; i++) {
        int member = rotated_member(c, i);
        uint64_t p = slice * (uint64_t)member + v;
        if (p >= piece_slice_end(pieces, slice, member))
            continue;
        const char *slot = ll128_slot(&r, c->me, n + member, slots);
        int sent = line_is_used(lane, c->bytes - COLL_PIECE * p);
        struct weft_dev_vec16 result =
            lane_await(&r, lane_peek(slot, v, lane, sent), slot, v, lane, sent, member);
        if (!r.failed)
            lane_deliver(c->dst, c->bytes, p, lane, result);
    }
    mark_all_begun(&r);
}

#include "gpu/coll/ll128_test.h"

#endif
