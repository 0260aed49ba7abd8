/* SPDX-License-Identifier: Apache-2.0 */
/* How elements are combined, and weighted sums: scaled ones whose factor is of the member's own
 * elements. Who combines elements needs the factors of all, since those of 16 and 8 bits are
 * multiplied in binary32, which no way carries: so each member sends its own one as a unit of
 * packets, beside what else it sends and in the order of slots (two places used in turn), and each
 * block takes all before it combines. How many members there are makes no difference to the
 * bits. */
#ifndef WEFT_GPU_COLL_FACTORS_H
#define WEFT_GPU_COLL_FACTORS_H

#include <weft/device/arithmetic.h>

#include "gpu/coll/round.h"

/* How elements are combined. more 0: of 16 bits and more, by the host's operations but the average.
 * The kernels of the rest are others of the same text, so that these are not slower for it. */
WEFT_DEVICE struct weft_dev_how how_of(const struct coll_call *c, int more)
{
    weft_type type = (weft_type)c->type;
    int widened = weft_dev_widened(type);
    struct weft_dev_how h = {type, (weft_op)c->op, more || !widened ? widened : 8,
                             more, c->members,     c->factor};
    if (more && c->op == WEFT_DEV_SCALED && c->factor_at)
        h.factor = type == WEFT_DOUBLE || type == WEFT_COMPLEX_DOUBLE
                       ? *(const double *)c->factor_at
                       : (double)*(const float *)c->factor_at;
    return h;
}

WEFT_DEVICE char *factor_slot(const struct round *r, int at, int from)
{
    return area_of(r->c, at)->factors[r->number & 1][from];
}

/* Behind await_slots(): places of the round before the last are free. */
WEFT_DEVICE void factors_send(const struct round *r, struct weft_dev_how h)
{
    const struct coll_call *c = r->c;
    struct weft_dev_vec16 v = {weft_dev_bits_f64(h.factor), 0};
    if (!h.more || !c->weighted || r->block != 0)
        return;
    for (int i = (int)weft_dev_thread_x(); i < c->members; i += (int)weft_dev_block_dim_x())
        if (i != c->me)
            unit_send(factor_slot(r, i, c->me), 0, v, 0, r->packet);
}

/* Into `factors`, shared by the block; no thread goes on before all are there. */
WEFT_DEVICE void factors_take(struct round *r, struct weft_dev_how h, double *factors)
{
    const struct coll_call *c = r->c;
    if (!h.more || !c->weighted)
        return;
    for (int i = (int)weft_dev_thread_x(); i < c->members; i += (int)weft_dev_block_dim_x()) {
        const char *slot = factor_slot(r, c->me, i);
        struct weft_dev_vec16 v = {weft_dev_bits_f64(h.factor), 0};
        if (i != c->me)
            v = pair_await(r, pair_load(slot, 0, 0), slot, 0, 0, i);
        factors[i] = weft_dev_f64_bits(v.lo);
    }
    r->failed = weft_dev_sync_block_or(r->failed);
    r->factors = factors;
}

/* Of a round without packets. */
WEFT_DEVICE void factors_exchange(struct round *r, struct weft_dev_how h, double *factors)
{
    if (!h.more || !r->c->weighted)
        return;
    await_slots(r);
    factors_send(r, h);
    factors_take(r, h, factors);
}

/* How the elements of a member are combined. */
WEFT_DEVICE struct weft_dev_how how_for(const struct round *r, struct weft_dev_how h, int member)
{
    if (h.more && r->factors)
        h.factor = r->factors[member];
    return h;
}

#endif
