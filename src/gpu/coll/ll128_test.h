/* SPDX-License-Identifier: Apache-2.0 */
/* The LL128 test at the first collective of a team, between each pair of members, by as many blocks
 * as collectives may have, several times. A quarter of a block's warps store lines whose flag and
 * payload change continually. Another quarter loads the lines that arrive and compares their
 * payload with their flag. The remaining warps store to the same member's LL slots, so that the
 * link is under load. Stores go on until the loading warps have seen enough lines, however slowly
 * they see them. Lines are stored and loaded as in collectives. */
#ifndef WEFT_GPU_COLL_PROOF_H
#define WEFT_GPU_COLL_PROOF_H

#include "gpu/coll/ll128.h"

enum {
#if WEFT_TARGET_GPU
    PROOF_LINES = 16384, /* lines that a warp stores at least, divided by the number of blocks */
    PROOF_FEWEST = 2048, /* but a warp stores at least this number */
    PROOF_LEAST = 64,    /* changes that a lane has to see */
#else
    /* a line is stored in steps and must not be overwritten before it was seen, see ll128.h */
    PROOF_LINES = 1,
    PROOF_FEWEST = 1,
    PROOF_LEAST = 1,
#endif
    PROOF_LOAD = 64,   /* stores to LL slots that a lane makes at least */
    PROOF_STRIDE = 16, /* stores between two checks whether enough lines have been seen */
};
#if WEFT_TARGET_GPU
#define PROOF_LIMIT_NS 1000000000ull
#else
#define PROOF_LIMIT_NS 20000000000ull /* a thread may be descheduled for long */
#endif
#if WEFT_TARGET_HIP /* the 16 bytes of a lane are two stores */
#define PROOF_BEST COLL_PROOF_TORN
#else
#define PROOF_BEST COLL_PROOF_GOOD
#endif
#define PROOF_BIT ((uint64_t)1 << 63) /* never set in round numbers */

WEFT_DEVICE uint64_t proof_word(uint64_t number, unsigned word)
{
    uint64_t x = (number + word) * 0x9e3779b97f4a7c15ull;
    return x ^ x >> 29;
}

/* Flags of this test are larger than this. */
WEFT_DEVICE uint64_t proof_base(const struct round *r)
{
    return PROOF_BIT | (r->number & COLL_RENEW_MASK) << 32;
}

WEFT_DEVICE uint64_t proof_lines(void)
{
    uint64_t lines = PROOF_LINES / weft_dev_grid_dim_x();
    return lines < PROOF_FEWEST ? PROOF_FEWEST : lines;
}

WEFT_DEVICE struct limit proof_limit(const struct round *r)
{
    uint64_t most_ns = r->c->record.reporting.limit_ns;
    return limit_start(most_ns && most_ns < PROOF_LIMIT_NS ? most_ns : PROOF_LIMIT_NS);
}

/* The value of `emptied` by which the loading warps of a block report to the storing block that
 * they have seen enough: a step of this round. */
WEFT_DEVICE uint64_t proof_enough(const struct round *r)
{
    return r->number * COLL_STEPS + 1;
}

/* Returns whether stores go on after the k-th one to `member`, the same in all lanes: at least
 * `least` stores, then until enough lines have been seen. A block of one thread does not wait for
 * that: it loads only after its own stores. */
WEFT_DEVICE int proof_must_continue(const struct round *r, int member, uint64_t k, uint64_t least,
                                    struct limit *limit)
{
#if WEFT_TARGET_GPU
    if (k >= least && k % PROOF_STRIDE == 0) {
        const uint64_t *enough = &r->own->emptied[member][r->block];
        return weft_dev_all(PIECE_LANES,
                            weft_dev_load_u64(enough, RELAXED, SYSTEM) < proof_enough(r) &&
                                !limit_passed(limit));
    }
    return 1;
#else
    (void)r, (void)member, (void)limit;
    return k < least;
#endif
}

/* Puts load on the link to `member`, as warp `warp` of `warps`: fills the own LL slot there again
 * and again with words that are no packets. Packets have COLL_NUMBER_BIT in each upper half. */
WEFT_DEVICE void proof_make_load(const struct round *r, int member, uint64_t warp, uint64_t warps)
{
    const struct coll_call *c = r->c;
    char *slot = ll_slot(r, member, c->me, c->members);
    uint64_t pieces = c->set_bytes / (uint64_t)c->members / COLL_PIECE_WIRE, piece = warp % pieces;
    uint64_t least = proof_lines() > PROOF_LOAD ? proof_lines() : PROOF_LOAD;
    struct limit limit = proof_limit(r);
    for (uint64_t k = 0; proof_must_continue(r, member, k, least, &limit); k++) {
        FOR_LANES(lane)
        {
            uint64_t word = proof_word(k, lane) & ~((uint64_t)COLL_NUMBER_BIT << 32);
            struct weft_dev_vec16 v = {word, word};
            weft_dev_store_vec16_relaxed(slot + COLL_PIECE_WIRE * piece + 16 * lane, v);
        }
        piece = (piece + warps) % pieces;
    }
}

WEFT_DEVICE void proof_send(const struct round *r, int member, uint64_t piece)
{
    char *slot = ll128_slot(r, member, r->c->me, r->c->members);
    struct limit limit = proof_limit(r);
    for (uint64_t k = 0; proof_must_continue(r, member, k, proof_lines(), &limit); k++)
        FOR_LANES(lane)
        {
            uint64_t number = proof_base(r) + k + 1;
            struct weft_dev_vec16 v = {proof_word(number, 2 * lane),
                                       proof_word(number, 2 * lane + 1)};
            lane_store(slot, piece, lane, v, number, 1);
        }
}

/* Returns the flag of a lane's line, and loads the lane's payload. */
WEFT_DEVICE uint64_t proof_load_line(const char *slot, uint64_t piece, unsigned lane,
                                     struct weft_dev_vec16 *v)
{
    const char *at = slot + COLL_PIECE_WIRE * piece + 16 * lane;
#if WEFT_TARGET_GPU
    *v = weft_dev_load_vec16_relaxed(at);
    return weft_dev_shuffle_u64(PIECE_LANES, v->hi, FLAG_LANE(lane));
#else
    const char *line = at - lane % LINE_LANES * 16;
    const uint64_t *flag = (const uint64_t *)(const void *)(line + 16 * LINE_LANES - 8);
    uint64_t number = weft_dev_load_u64(flag, ACQUIRE, SYSTEM);
    *v = weft_dev_load_vec16_relaxed(at);
    return number;
#endif
}

/* Returns what one lane found in lines of `member`. Loads lines until it has seen enough, among
 * them one of the last that arrive in any case, or until the limit has passed. */
WEFT_DEVICE enum coll_proof proof_check_lines(const struct round *r, int member, uint64_t piece,
                                              unsigned lane)
{
    const char *slot = ll128_slot(r, r->c->me, member, r->c->members);
    uint64_t base = proof_base(r), last = base, number;
    struct limit limit = proof_limit(r);
    int seen = 0, torn = 0, over = 0;
    do {
        struct weft_dev_vec16 v;
        number = proof_load_line(slot, piece, lane, &v);
        if (number > base && number - base <= UINT32_MAX) {
            torn |= v.lo != proof_word(number, 2 * lane);
            torn |= !has_flag(lane) && v.hi != proof_word(number, 2 * lane + 1);
            seen += number != last;
            last = number;
        }
        over = (last - base >= proof_lines() && seen >= PROOF_LEAST) || limit_passed(&limit);
    } while (ALONE ? !over : !weft_dev_all(PIECE_LANES, over));
    return torn ? COLL_PROOF_TORN : seen < PROOF_LEAST ? COLL_PROOF_FEW : COLL_PROOF_GOOD;
}

WEFT_DEVICE void proof_record_result(const struct round *r, enum coll_proof found, int member)
{
    weft_dev_atomic_max_u64(&r->own->proof, (uint64_t)found << COLL_PROOF_SHIFT | (uint64_t)member,
                            RELAXED, WEFT_SCOPE_GPU);
}

/* One pair of transfers, at distance i: this member reports to the member i + 1 ranks before it
 * that it loads, and stores to the member i + 1 ranks after it when that one has reported. Each
 * block reports to the block of the same index, by `done`, which has no other use in this round.
 * Where the slots have too few pieces for all blocks, the remaining blocks make load. */
WEFT_DEVICE void proof_test_pair(struct round *r, int i, uint64_t *finished)
{
    const struct coll_call *c = r->c;
    int to = rotated_member(c, i), from = c->me - 1 - i + (c->me - 1 - i < 0 ? c->members : 0);
    uint64_t warps = ALONE ? 1 : weft_dev_block_dim_x() / LANES, blocks = weft_dev_grid_dim_x();
    uint64_t warp = ALONE ? 0 : weft_dev_thread_x() / LANES, pairs = warps < 8 ? 1 : warps / 4;
    uint64_t loaders =
        warps > 1 ? pairs : 0; /* a block of one thread does everything, one after the other */
    /* index among the loading, or storing, warps */
    uint64_t place = warp < loaders ? warp : warp - loaders;
    uint64_t piece = place * blocks + r->block;
    int has_piece = place < pairs && piece < c->set_bytes / (uint64_t)c->members / COLL_PIECE_WIRE;
    if (weft_dev_thread_x() == 0) {
        weft_dev_store_u64(&member_area(c, from)->done[c->me][r->block], r->number, RELAXED,
                           SYSTEM);
        await_flag(r, &r->own->done[to][r->block], r->number, to);
    }
    r->failed = weft_dev_sync_block_or(r->failed);
    if (r->failed)
        return;
    if (!has_piece || warps == 1)
        proof_make_load(r, to, warp * blocks + r->block, warps * blocks);
    if (has_piece && warp >= loaders)
        proof_send(r, to, piece);
    if (has_piece && (warp < loaders || warps == 1))
        FOR_LANES(lane)
        {
            enum coll_proof found = proof_check_lines(r, from, piece, lane);
            if (found != COLL_PROOF_GOOD)
                proof_record_result(r, found, from);
        }
    if (warp < loaders && PIECE_LANE == 0 &&
        weft_dev_atomic_add_u64(finished, 1, RELAXED, WEFT_SCOPE_GPU) % loaders == loaders - 1)
        weft_dev_store_u64(&member_area(c, from)->emptied[c->me][r->block], proof_enough(r),
                           RELAXED, SYSTEM);
    weft_dev_sync_block();
}

/* One of several rounds of the test, by blocks of COLL_PROOF_THREADS threads or of one thread. The
 * worst result is in the area when they have ended. */
KERNEL_OF_512 weft_coll_prove_lines(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    WEFT_SHARED(uint64_t, finished, [1]); /* number of warps that have seen enough lines */
    const struct coll_call *c = &call;
    struct round r;
    uint64_t ticket = round_draw(c);
    if (weft_dev_thread_x() == 0)
        finished[0] = 0;
    if (round_begin(&r, c, ticket, shared))
        return;
    send_here(&r);
    await_here(&r, r.number);
    for (int i = 0; i < c->members - 1 && !r.failed; i++)
        proof_test_pair(&r, i, finished);
    if (weft_dev_thread_x() == 0)
        proof_record_result(&r, r.failed ? COLL_PROOF_CUT : PROOF_BEST, c->me);
}

#endif
