/* SPDX-License-Identifier: Apache-2.0 */
/* The simple protocol: blocks are stored directly to their destinations, and slices of vectors are
 * loaded directly from their sources, without a copy by the library. A member reports that its
 * destination is ready (`here`, which is in flight while the member moves its own block) and stores
 * when the other members have reported too. After its stores it executes one fence and sends one
 * flag (`done`) to each of them. Two transfers and a fence; the bytes themselves on each link: (n -
 * 1) x bytes of a block, 2 x (n - 1) / n x bytes of a vector.
 *
 * Members push, since concurrent pulls by several GPUs are slower; a reduction has to load. Large
 * broadcasts are in spread.h. */
#ifndef WEFT_GPU_COLL_DIRECT_H
#define WEFT_GPU_COLL_DIRECT_H

#include <weft/device/move.h>

#include "gpu/coll/factors.h"
#include "gpu/coll/round.h"
#include "gpu/coll/strided.h"

/* Fcollect, alltoall, gather, scatter, and broadcast to one other member. */
KERNEL weft_coll_push(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    const struct coll_call *c = &call;
    struct round r;
    uint64_t ticket = round_draw(c);
    if (round_begin(&r, c, ticket, shared))
        return;
    send_here(&r);
    push_own_block(&r, 0);
    await_here(&r, r.number);
    for (int i = 0; i < c->members - 1 && !r.failed; i++) {
        int member = rotated_member(c, i);
        if (sends_to(c, member))
            weft_dev_move(c->part[member] + c->to + (uint64_t)c->me * c->dst_step,
                          c->src + (uint64_t)member * c->src_step, c->bytes, r.rank, r.threads, 0);
    }
    round_end(&r, 1);
}

/* Combines bytes begin ... end of all sources, `step` bytes apart for each thread, and stores the
 * results. h.type and h.op are constants for a sum of binary32, which then needs no call. element:
 * the element size, or 16. */
WEFT_DEVICE void combine_range(const struct round *r, struct weft_dev_how h, uint64_t begin,
                               uint64_t end, uint64_t shift, unsigned element)
{
    const struct coll_call *c = r->c;
    /* Unrolls less for the kernels of more types: widened types need more registers, the others
     * more code. */
    const int unroll = !h.more ? WEFT_DEV_UNROLL : element != 16 || h.widened == 16 ? 1 : 2;
    uint64_t step = (uint64_t)r->threads * element;
    for (uint64_t at = begin + (uint64_t)r->rank * element; at < end;
         at += (uint64_t)unroll * step) {
        struct weft_dev_vec16 v[WEFT_DEV_UNROLL], nothing = {0, 0};
        struct weft_dev_wide acc[WEFT_DEV_UNROLL];
        int i = 0;
        do {
            const char *from = c->part[i] + c->from;
            WEFT_UNROLL
            for (int u = 0; u < unroll; u++) {
                uint64_t place = at + (uint64_t)u * step;
                v[u] = nothing;
                if (place < end)
                    v[u] = element == 16 ? weft_dev_load_vec16_relaxed(from + place)
                                         : weft_dev_element_load(from + place, element);
            }
            struct weft_dev_how here = member_reduction(r, h, i);
            WEFT_UNROLL
            for (int u = 0; u < unroll; u++) {
                if (i)
                    weft_dev_wide_add(here, &acc[u], v[u]);
                else
                    weft_dev_wide_begin(here, &acc[u], v[u]);
            }
        } while (++i < c->members);
        WEFT_UNROLL
        for (int u = 0; u < unroll; u++)
            v[u] = weft_dev_wide_end(h, &acc[u]);
        for (i = c->reduction.everywhere ? 0 : c->members - 1; i < c->members; i++) {
            char *to = c->part[rotated_member(c, i)] + c->to - shift;
            WEFT_UNROLL
            for (int u = 0; u < unroll; u++)
                if (at + (uint64_t)u * step < end) {
                    if (element == 16)
                        weft_dev_store_vec16(to + at + (uint64_t)u * step, v[u]);
                    else
                        weft_dev_element_store(to + at + (uint64_t)u * step, v[u], element);
                }
        }
    }
}

WEFT_DEVICE void combine_elements(const struct round *r, struct weft_dev_how h, uint64_t begin,
                                  uint64_t end, uint64_t shift)
{
    unsigned element = (unsigned)weft_dev_type_bytes(h.type);
    int widened = h.widened;
    h.widened = 1;
    if (widened == 16)
        combine_range(r, h, begin, end, shift, 1);
    else if (widened)
        combine_range(r, h, begin, end, shift, 2);
    h.widened = 0;
    if (!widened)
        combine_range(r, h, begin, end, shift, element);
}

WEFT_DEVICE void combine_vectors(const struct round *r, struct weft_dev_how h, uint64_t begin,
                                 uint64_t end, uint64_t shift)
{
    if (h.type == WEFT_FLOAT && h.op == (h.more ? WEFT_AVG : WEFT_SUM)) {
        struct weft_dev_how sum = {WEFT_FLOAT, h.more ? WEFT_AVG : WEFT_SUM, 0, h.more, h.members,
                                   0};
        combine_range(r, sum, begin, end, shift, 16);
    } else if (h.widened == 8) {
        h.widened = 8;
        combine_range(r, h, begin, end, shift, 16);
    } else if (h.widened == 16) {
        h.widened = 16;
        combine_range(r, h, begin, end, shift, 16);
    } else {
        h.widened = 0;
        combine_range(r, h, begin, end, shift, 16);
    }
}

/* Member i combines slice i, or block i, of the sources, which it loads from where they are, and
 * stores the result into all destinations, or its own. Each element is combined once. */
WEFT_DEVICE void combine(const struct coll_call *c, uint64_t *shared, double *factors, int more)
{
    struct round r;
    uint64_t ticket = round_draw(c);
    struct weft_dev_how h = make_reduction(c, more);
    uint64_t n = (uint64_t)c->members, me = (uint64_t)c->me, begin, end, shift = 0;
    if (round_begin(&r, c, ticket, shared))
        return;
    send_here(&r);
    factors_exchange(&r, h, factors);
    if (c->reduction.everywhere) { /* slices are multiples of 16 bytes except the last */
        uint64_t slice = ((c->bytes + n - 1) / n + 15) & ~(uint64_t)15;
        begin = slice * me < c->bytes ? slice * me : c->bytes;
        end = begin + slice < c->bytes ? begin + slice : c->bytes;
    } else {
        begin = c->src_step * me;
        end = begin + c->bytes;
        shift = begin;
    }
    await_here(&r, r.number);
    if (!r.failed) {
        uint64_t vectors = begin;
        if (!(((c->from + begin) | (c->to + begin - shift)) & 15))
            vectors = begin + ((end - begin) & ~(uint64_t)15);
        combine_vectors(&r, h, begin, vectors, shift);
        combine_elements(&r, h, vectors, end, shift);
    }
    round_end(&r, c->reduction.everywhere);
}

KERNEL_OF_512 weft_coll_combine(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    combine(&call, shared, 0, 0);
}

KERNEL_OF_512 weft_coll_combine_more(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    WEFT_SHARED(double, factors, [COLL_MEMBERS]);
    combine(&call, shared, factors, 1);
}

#endif
