/* SPDX-License-Identifier: Apache-2.0 */
/* Scaled and weighted sums of the tests, with the factor in host memory or, every second time, in
 * GPU memory. */
#ifndef WEFT_TESTS_COLL_FACTOR_H
#define WEFT_TESTS_COLL_FACTOR_H

#include "coll_job.h"

enum for_whom { FOR_ALL, FOR_EACH, FOR_ONE };

struct factor_call {
    enum for_whom whom;
    weft_team *team;
    void *dst;
    const void *src;
    size_t count;
    weft_type type;
    int root;
    const void *factor;
};

static weft_status weighted(const struct factor_call *c, bool by_host)
{
    if (c->whom == FOR_ALL)
        return by_host
                   ? weft_allreduce_weighted(c->team, c->dst, c->src, c->count, c->type, c->factor)
                   : weft_allreduce_weighted_on_stream(c->team, c->dst, c->src, c->count, c->type,
                                                       c->factor, stream);
    if (c->whom == FOR_EACH)
        return by_host ? weft_reducescatter_weighted(c->team, c->dst, c->src, c->count, c->type,
                                                     c->factor)
                       : weft_reducescatter_weighted_on_stream(c->team, c->dst, c->src, c->count,
                                                               c->type, c->factor, stream);
    return by_host ? weft_reduce_weighted(c->team, c->dst, c->src, c->count, c->type, c->factor,
                                          c->root)
                   : weft_reduce_weighted_on_stream(c->team, c->dst, c->src, c->count, c->type,
                                                    c->factor, c->root, stream);
}

static weft_status scaled(const struct factor_call *c, bool by_host)
{
    if (c->whom == FOR_ALL)
        return by_host
                   ? weft_allreduce_scaled(c->team, c->dst, c->src, c->count, c->type, c->factor)
                   : weft_allreduce_scaled_on_stream(c->team, c->dst, c->src, c->count, c->type,
                                                     c->factor, stream);
    if (c->whom == FOR_EACH)
        return by_host ? weft_reducescatter_scaled(c->team, c->dst, c->src, c->count, c->type,
                                                   c->factor)
                       : weft_reducescatter_scaled_on_stream(c->team, c->dst, c->src, c->count,
                                                             c->type, c->factor, stream);
    return by_host
               ? weft_reduce_scaled(c->team, c->dst, c->src, c->count, c->type, c->factor, c->root)
               : weft_reduce_scaled_on_stream(c->team, c->dst, c->src, c->count, c->type, c->factor,
                                              c->root, stream);
}

/* op: REF_SCALED or REF_WEIGHTED. The factor depends on `salt`. */
static weft_status with_factor(struct factor_call c, weft_op op, uint64_t salt, bool by_host)
{
    double d = op == REF_WEIGHTED ? ref_weight(salt, me) : ref_factor(salt);
    _Alignas(8) unsigned char factor[8];
    size_t bytes = ref_put_factor(factor, c.type, d, salt, &c.type);
    c.factor = factor;
    if (salt % 2) {
        to_gpu(factor_room, c.factor, bytes);
        c.factor = factor_room;
    }
    return op == REF_WEIGHTED ? weighted(&c, by_host) : scaled(&c, by_host);
}

#endif
