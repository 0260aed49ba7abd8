/* SPDX-License-Identifier: Apache-2.0 */
/* How elements are combined, and weighted sums: scaled sums in which each member has its own
 * factor. The member that combines elements needs the factors of all members, since elements of 16
 * and 8 bits are multiplied in binary32, which no protocol carries. So each member sends its factor
 * as a unit of LL packets in addition to its data, into slots of its own (two, used in turn), and
 * each block receives all factors before it combines. The number of members does not change the
 * bits. */
#ifndef WEFT_GPU_COLL_FACTORS_H
#define WEFT_GPU_COLL_FACTORS_H

#include <weft/device/arithmetic.h>

#include "gpu/coll/round.h"

/* The number of a type of 16 or 8 bits. Not inlined, as weft_dev_combine_any(). */
WEFT_DEVICE_NOINLINE float factor_widen(weft_type type, uint32_t bits)
{
    return weft_dev_f32_narrow(type, (uint16_t)bits);
}

/* Reads the factor of a scaled sum from GPU memory. By bytes, because code for each size would take
 * more registers than the kernels have. */
WEFT_DEVICE double factor_load(const void *at, weft_type type, int narrow)
{
    int wide = type == WEFT_DOUBLE || type == WEFT_COMPLEX_DOUBLE;
    int bytes = type <= WEFT_UINT64 || narrow ? (int)weft_dev_type_bytes(type) : wide ? 8 : 4;
    uint64_t bits = 0;
    WEFT_NO_UNROLL
    for (int i = bytes - 1; i >= 0; i--)
        bits = bits << 8 | ((const unsigned char *)at)[i];
    if (type <= WEFT_UINT64 || wide)
        return weft_dev_f64_bits(bits);
    return (double)(narrow ? factor_widen(type, (uint32_t)bits)
                           : weft_dev_f32_bits((uint32_t)bits));
}

/* How elements are combined. more 0: elements of 16 bits and more, by the host's operations except
 * the average. Separate kernels of the same text serve the other cases, so that these are not
 * slower. */
WEFT_DEVICE struct weft_dev_how make_reduction(const struct coll_call *c, int more)
{
    weft_type type = (weft_type)c->reduction.type;
    int widened = weft_dev_widened(type);
    struct weft_dev_how h = {
        type,       (weft_op)c->reduction.op, more || !widened ? widened : 8, more,
        c->members, c->reduction.factor};
    if (more && c->reduction.op == WEFT_DEV_SCALED && c->reduction.factor_at)
        h.factor = factor_load(c->reduction.factor_at, type, c->reduction.narrow_factor);
    return h;
}

WEFT_DEVICE char *factor_slot(const struct round *r, int at, int from)
{
    return member_area(r->c, at)->factors[r->number & 1][from];
}

/* Called after await_slots(): the slots of the round before the last one are then free. */
WEFT_DEVICE void factors_send(const struct round *r, struct weft_dev_how h)
{
    const struct coll_call *c = r->c;
    struct weft_dev_vec16 v = {weft_dev_bits_f64(h.factor), 0};
    if (!h.more || !c->reduction.weighted || r->block != 0)
        return;
    for (int i = (int)weft_dev_thread_x(); i < c->members; i += (int)weft_dev_block_dim_x())
        if (i != c->me)
            ll_send_unit(factor_slot(r, i, c->me), 0, v, 0, r->ll_flag);
}

/* Receives the factors into `factors`, shared by the block. No thread continues before all have
 * arrived. */
WEFT_DEVICE void factors_receive(struct round *r, struct weft_dev_how h, double *factors)
{
    const struct coll_call *c = r->c;
    if (!h.more || !c->reduction.weighted)
        return;
    for (int i = (int)weft_dev_thread_x(); i < c->members; i += (int)weft_dev_block_dim_x()) {
        const char *slot = factor_slot(r, c->me, i);
        struct weft_dev_vec16 v = {weft_dev_bits_f64(h.factor), 0};
        if (i != c->me)
            v = ll_await_pair(r, ll_load_pair(slot, 0, 0), slot, 0, 0, i);
        factors[i] = weft_dev_f64_bits(v.lo);
    }
    r->failed = weft_dev_sync_block_or(r->failed);
    r->factors = factors;
}

/* Exchanges the factors in a round without LL packets. */
WEFT_DEVICE void factors_exchange(struct round *r, struct weft_dev_how h, double *factors)
{
    if (!h.more || !r->c->reduction.weighted)
        return;
    await_slots(r);
    factors_send(r, h);
    factors_receive(r, h, factors);
}

/* Returns how the elements of one member are combined. */
WEFT_DEVICE struct weft_dev_how member_reduction(const struct round *r, struct weft_dev_how h,
                                                 int member)
{
    if (h.more && r->factors)
        h.factor = r->factors[member];
    return h;
}

#endif
