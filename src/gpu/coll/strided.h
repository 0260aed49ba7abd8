/* SPDX-License-Identifier: Apache-2.0 */
/* Alltoall of blocks whose elements have gaps: with LL packets, which carry them without gaps, and
 * with the simple protocol. The staged protocol is in staged.h. See kernels.cu. */
#ifndef WEFT_GPU_COLL_STRIDED_H
#define WEFT_GPU_COLL_STRIDED_H

#include <weft/device/move.h>

#include "gpu/coll/round.h"

/* Position of byte `at` of a block without gaps, counted from strided.first: index of the element,
 * and offset in that element. */
struct strided_place {
    uint64_t element, within;
};

WEFT_DEVICE struct strided_place strided_place(const struct coll_call *c, uint64_t at)
{
    struct strided_place place = {c->strided.first + at, 0};
    if (c->strided.element == 1)
        return place;
    place.within = place.element % c->strided.element;
    place.element /= c->strided.element;
    return place;
}

/* Advances to the next grain of the block; an element is a whole number of grains. */
WEFT_DEVICE void strided_next(const struct coll_call *c, struct strided_place *place)
{
    place->within += c->strided.grain;
    if (place->within < c->strided.element)
        return;
    place->within = 0;
    place->element++;
}

/* Loads unit `unit` of a block of the source. */
WEFT_DEVICE struct weft_dev_vec16 strided_load(const struct coll_call *c, const char *block,
                                               uint64_t unit)
{
    struct strided_place place = strided_place(c, COLL_UNIT * unit);
    uint64_t left = c->bytes - COLL_UNIT * unit;
    struct weft_dev_vec16 v = {0, 0};
    for (unsigned k = 0; k < COLL_UNIT && k < left; k += c->strided.grain) {
        const char *at = block + place.element * c->strided.src_apart + place.within;
        uint64_t bits = weft_dev_element_load(at, c->strided.grain).lo;
        if (k < 8)
            v.lo |= bits << 8 * k;
        else
            v.hi |= bits << 8 * (k - 8);
        strided_next(c, &place);
    }
    return v;
}

WEFT_DEVICE void strided_deliver(const struct coll_call *c, char *block, uint64_t unit,
                                 struct weft_dev_vec16 v)
{
    struct strided_place place = strided_place(c, COLL_UNIT * unit);
    uint64_t left = c->bytes - COLL_UNIT * unit;
    for (unsigned k = 0; k < COLL_UNIT && k < left; k += c->strided.grain) {
        struct weft_dev_vec16 piece = {k < 8 ? v.lo >> 8 * k : v.hi >> 8 * (k - 8), 0};
        weft_dev_element_store(block + place.element * c->strided.dst_apart + place.within, piece,
                               c->strided.grain);
        strided_next(c, &place);
    }
}

KERNEL weft_coll_send_strided(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    const struct coll_call *c = &call;
    struct round r;
    uint64_t ticket = round_draw(c);
    uint64_t units = (c->bytes + COLL_UNIT - 1) / COLL_UNIT;
    if (round_begin(&r, c, ticket, shared))
        return;
    await_slots(&r);
    for (uint64_t u = r.rank; u < units; u += r.threads)
        for (int i = 0; i < c->members - 1; i++) {
            int member = rotated_member(c, i);
            ll_send_unit(ll_slot(&r, member, c->me, c->members), u,
                         strided_load(c, c->src + (uint64_t)member * c->src_step, u),
                         unit_has_two(c->bytes, u), r.ll_flag);
        }
    for (uint64_t u = r.rank; u < units; u += r.threads)
        strided_deliver(c, c->dst + (uint64_t)c->me * c->dst_step, u,
                        strided_load(c, c->src + (uint64_t)c->me * c->src_step, u));
    for (uint64_t u = r.rank; u < units; u += r.threads) {
        int two = unit_has_two(c->bytes, u);
        for (int i = 0; i < c->members - 1; i++) {
            int member = rotated_member(c, i);
            const char *slot = ll_slot(&r, c->me, member, c->members);
            struct weft_dev_vec16 v =
                ll_await_pair(&r, ll_load_pair(slot, u, two), slot, u, two, member);
            if (!r.failed)
                strided_deliver(c, c->dst + (uint64_t)member * c->dst_step, u, v);
        }
    }
    mark_all_begun(&r);
}

/* Copies a block of this member's source to its place in a destination. The loads of a thread do
 * not wait for each other. */
WEFT_DEVICE void strided_move(const struct round *r, char *to, const char *from)
{
    const struct coll_call *c = r->c;
    uint64_t pieces = c->bytes / c->strided.grain;
    for (uint64_t first = r->rank; first < pieces;
         first += WEFT_DEV_UNROLL * (uint64_t)r->threads) {
        struct weft_dev_vec16 v[WEFT_DEV_UNROLL];
        uint64_t at[WEFT_DEV_UNROLL];
        WEFT_UNROLL
        for (int k = 0; k < WEFT_DEV_UNROLL; k++) {
            uint64_t piece = first + (uint64_t)k * r->threads;
            struct strided_place place =
                strided_place(c, (piece < pieces ? piece : first) * c->strided.grain);
            at[k] = place.element * c->strided.dst_apart + place.within;
            v[k] = weft_dev_element_load(from + place.element * c->strided.src_apart + place.within,
                                         c->strided.grain);
        }
        WEFT_UNROLL
        for (int k = 0; k < WEFT_DEV_UNROLL; k++)
            if (first + (uint64_t)k * r->threads < pieces)
                weft_dev_element_store(to + at[k], v[k], c->strided.grain);
    }
}

/* Copies the own block to its place, before any other block. */
WEFT_DEVICE void push_own_block(const struct round *r, int strided)
{
    const struct coll_call *c = r->c;
    const char *mine = c->src + (uint64_t)c->me * c->src_step;
    char *to = c->dst + (uint64_t)c->me * c->dst_step;
    if (!receives_from(c, c->me) || to == mine)
        return;
    if (strided)
        strided_move(r, to, mine);
    else
        weft_dev_move(to, mine, c->bytes, r->rank, r->threads, 0);
}

KERNEL weft_coll_push_strided(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    const struct coll_call *c = &call;
    struct round r;
    uint64_t ticket = round_draw(c);
    if (round_begin(&r, c, ticket, shared))
        return;
    send_here(&r);
    push_own_block(&r, 1);
    await_here(&r, r.number);
    for (int i = 0; i < c->members - 1 && !r.failed; i++) {
        int member = rotated_member(c, i);
        strided_move(&r, c->part[member] + c->to + (uint64_t)c->me * c->dst_step,
                     c->src + (uint64_t)member * c->src_step);
    }
    round_end(&r, 1);
}

#endif
