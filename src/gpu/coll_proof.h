/* SPDX-License-Identifier: Apache-2.0 */
/* The proof of lines at the first collective of a team, between each two members: half of a block's warps store lines
 * whose number and payload change on and on, without waiting for anybody; the other half looks at those that come, and
 * counts the lines whose payload is not of their number. The lines are stored and loaded as those of collectives. */
#ifndef WEFT_GPU_COLL_PROOF_H
#define WEFT_GPU_COLL_PROOF_H

#include "coll_lines.h"

#if WEFT_TARGET_CUDA
enum { PROOF_LINES = 8192, PROOF_LEAST = 64 }; /* of which each warp has to see so many */
#define PROOF_LIMIT_NS 1000000000ull
#else
enum {
    PROOF_LINES = 1,
    PROOF_LEAST = 1
}; /* stored in steps: who overwrites them must wait, see coll_lines.h */
#define PROOF_LIMIT_NS 20000000000ull /* a thread may be off its CPU for long */
#endif
#define PROOF_BIT ((uint64_t)1 << 63) /* numbers of rounds never have it */

WEFT_DEVICE uint64_t proof_word(uint64_t number, unsigned word)
{
    uint64_t x = (number + word) * 0x9e3779b97f4a7c15ull;
    return x ^ x >> 29;
}

/* Numbers of this proof are behind it. */
WEFT_DEVICE uint64_t proof_base(const struct round *r)
{
    return PROOF_BIT | r->number << 16;
}

WEFT_DEVICE void proof_send(const struct round *r, int member, uint64_t piece)
{
    char *slot = lines_slot(r, member, r->c->me, r->c->members);
    for (uint64_t k = 1; k <= PROOF_LINES; k++)
        FOR_LANES(lane)
        {
            uint64_t number = proof_base(r) + k;
            struct weft_dev_vec16 v = {proof_word(number, 2 * lane),
                                       proof_word(number, 2 * lane + 1)};
            lane_store(slot, piece, lane, v, number, 1);
        }
}

/* The number of a lane's line, and what is beside it. */
WEFT_DEVICE uint64_t proof_look(const char *slot, uint64_t piece, unsigned lane,
                                struct weft_dev_vec16 *v)
{
    const char *at = slot + COLL_PIECE_WIRE * piece + 16 * lane;
#if WEFT_TARGET_CUDA
    *v = weft_dev_load_vec16_relaxed(at);
    return weft_dev_shuffle_u64(ALL_LANES, v->hi, lane | (LINE_LANES - 1));
#else
    const char *line = at - lane % LINE_LANES * 16;
    const uint64_t *flag = (const uint64_t *)(const void *)(line + 16 * LINE_LANES - 8);
    uint64_t number = weft_dev_load_u64(flag, ACQUIRE, SYSTEM);
    *v = weft_dev_load_vec16_relaxed(at);
    return number;
#endif
}

/* What one lane found of `member`. Lines are looked at until the last one is there, or the limit has passed. */
WEFT_DEVICE enum coll_proof proof_take(const struct round *r, int member, uint64_t piece,
                                       unsigned lane)
{
    const char *slot = lines_slot(r, r->c->me, member, r->c->members);
    uint64_t base = proof_base(r), last = base, number;
    struct limit limit = limit_start(PROOF_LIMIT_NS);
    int seen = 0, torn = 0, over = 0;
    do {
        struct weft_dev_vec16 v;
        number = proof_look(slot, piece, lane, &v);
        if (number > base && number <= base + PROOF_LINES) {
            torn |= v.lo != proof_word(number, 2 * lane);
            torn |= !has_number(lane) && v.hi != proof_word(number, 2 * lane + 1);
            seen += number != last;
            last = number;
        }
        over = last == base + PROOF_LINES || limit_passed(&limit);
    } while (ALONE ? !over : !weft_dev_all(ALL_LANES, over));
    return torn ? COLL_PROOF_TORN : seen < PROOF_LEAST ? COLL_PROOF_FEW : COLL_PROOF_GOOD;
}

/* At distance i: this member says to the one i + 1 places before it that it looks, and stores to the one i + 1 places
 * behind when that has said so. `done` is of no other use in this round. */
WEFT_DEVICE void proof_of(struct round *r, int i)
{
    const struct coll_call *c = r->c;
    int to = turned(c, i), from = c->me - 1 - i + (c->me - 1 - i < 0 ? c->members : 0);
    uint64_t warp = warp_rank(r), half = warps_of(r) / 2;
    if (weft_dev_thread_x() == 0) {
        weft_dev_store_u64(&area_of(c, from)->done[c->me][0], r->number, RELAXED, SYSTEM);
        await_flag(r, &r->own->done[to][0], r->number, to);
    }
    r->failed = weft_dev_sync_block_or(r->failed);
    if (r->failed)
        return;
    if (warp >= half)
        proof_send(r, to, warp - half);
    if (warp < half || !half)
        FOR_LANES(lane)
        {
            enum coll_proof found = proof_take(r, from, warp, lane);
            if (found != COLL_PROOF_GOOD)
                weft_dev_atomic_max_u64(&r->own->proof,
                                        (uint64_t)found << COLL_PROOF_SHIFT | (uint64_t)from,
                                        RELAXED, WEFT_SCOPE_GPU);
        }
    weft_dev_sync_block();
}

/* One block of COLL_PROOF_THREADS, or of one thread. What was found is in the area when it has ended. */
KERNEL_OF_512 weft_coll_prove_lines(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    const struct coll_call *c = &call;
    struct round r;
    if (round_begin(&r, c, shared))
        return;
    if (weft_dev_thread_x() == 0)
        weft_dev_store_u64(&r.own->proof, (uint64_t)COLL_PROOF_GOOD << COLL_PROOF_SHIFT, RELAXED,
                           WEFT_SCOPE_GPU);
    say_here(&r);
    await_here(&r, r.number);
    for (int i = 0; i < c->members - 1 && !r.failed; i++)
        proof_of(&r, i);
    if (weft_dev_thread_x() == 0 && r.failed)
        weft_dev_store_u64(&r.own->proof, 0, RELAXED, WEFT_SCOPE_GPU);
}

#endif
