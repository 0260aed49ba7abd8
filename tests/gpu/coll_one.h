/* SPDX-License-Identifier: Apache-2.0 */
/* One collective of coll_stream.c, on a stream or by the host: its source, the result of the
 * reference, and the comparison, including the bytes around the destination. */
#ifndef WEFT_TESTS_COLL_ONE_H
#define WEFT_TESTS_COLL_ONE_H

#include "coll_factor.h"

enum what { BROADCAST, ALLGATHER, ALLTOALL, ALLREDUCE, REDUCESCATTER, WHATS };
static const char *const names[WHATS] = {"broadcast", "allgather", "alltoall", "allreduce",
                                         "reducescatter"};

static bool by_host;

struct call {
    enum what what;
    const struct members *t;
    char *dst;
    const char *src;
    size_t count; /* bytes, or elements */
    int root;
    weft_type type;
    weft_op op;    /* also REF_SCALED and REF_WEIGHTED */
    uint64_t salt; /* of its factor */
};

static weft_status ask(const struct call *c)
{
    weft_team *team = c->t->team;
    struct factor_call factored = {c->what == ALLREDUCE ? FOR_ALL : FOR_EACH,
                                   team,
                                   c->dst,
                                   c->src,
                                   c->count,
                                   c->type,
                                   0,
                                   NULL};
    if (c->op >= REF_SCALED && c->what >= ALLREDUCE)
        return with_factor(factored, c->op, c->salt, by_host);
    switch (c->what) {
    case BROADCAST:
        return by_host ? weft_broadcast(team, c->dst, c->src, c->count, c->root)
                       : weft_broadcast_on_stream(team, c->dst, c->src, c->count, c->root, stream);
    case ALLGATHER:
        return by_host ? weft_allgather(team, c->dst, c->src, c->count)
                       : weft_allgather_on_stream(team, c->dst, c->src, c->count, stream);
    case ALLTOALL:
        return by_host ? weft_alltoall(team, c->dst, c->src, c->count)
                       : weft_alltoall_on_stream(team, c->dst, c->src, c->count, stream);
    case ALLREDUCE:
        return by_host ? weft_allreduce(team, c->dst, c->src, c->count, c->type, c->op)
                       : weft_allreduce_on_stream(team, c->dst, c->src, c->count, c->type, c->op,
                                                  stream);
    default:
        return by_host ? weft_reducescatter(team, c->dst, c->src, c->count, c->type, c->op)
                       : weft_reducescatter_on_stream(team, c->dst, c->src, c->count, c->type,
                                                      c->op, stream);
    }
}

static bool reduces(enum what what)
{
    return what >= ALLREDUCE;
}

static size_t block_bytes(const struct call *c)
{
    return reduces(c->what) ? c->count * ref_bytes(c->type) : c->count;
}

static size_t src_bytes(const struct call *c)
{
    bool all = c->what == ALLTOALL || c->what == REDUCESCATTER;
    return block_bytes(c) * (size_t)(all ? c->t->n : 1);
}

static size_t dst_bytes(const struct call *c)
{
    return block_bytes(c) * (size_t)(c->what == ALLGATHER || c->what == ALLTOALL ? c->t->n : 1);
}

static void make_source(const struct call *c, uint64_t salt)
{
    size_t bytes = src_bytes(c);
    if (reduces(c->what))
        for (size_t i = 0; i * ref_bytes(c->type) < bytes; i++)
            ref_element(mine + i * ref_bytes(c->type), c->type, me, i, salt);
    else
        ref_fill(mine, me, 0, bytes, salt);
}

static void make_wanted(const struct call *c, uint64_t salt)
{
    const struct members *t = c->t;
    size_t bytes = block_bytes(c), element = reduces(c->what) ? ref_bytes(c->type) : 1;
    size_t first = c->what == REDUCESCATTER ? (size_t)t->me * c->count : 0;
    if (reduces(c->what)) {
        for (size_t i = 0; i < c->count; i++)
            ref_reduced(wanted + i * element, c->type, c->op, t->pes, t->n, first + i, salt);
        return;
    }
    for (int k = 0; k < (c->what == BROADCAST ? 1 : t->n); k++)
        ref_fill(wanted + (size_t)k * bytes, t->pes[c->what == BROADCAST ? c->root : k],
                 c->what == ALLTOALL ? (size_t)t->me * bytes : 0, bytes, salt);
}

/* Compares the destination and the bytes around it, and for a reducescatter in place the whole
 * source. */
static void compare(const struct call *c, const char *text)
{
    size_t bytes = dst_bytes(c),
           before = (uintptr_t)c->dst - (uintptr_t)c->src; /* very large if dst is before src */
    bool block = c->what == REDUCESCATTER && before < src_bytes(c);
    if (block) {
        CHECK(!driver.MemcpyDtoH(seen, (uintptr_t)c->src, src_bytes(c)));
        for (size_t i = 0; i < src_bytes(c); i++) /* its other blocks have not changed */
            CHECK(seen[i] == mine[i] || (i >= before && i - before < bytes));
    }
    CHECK(!driver.MemcpyDtoH(seen, (uintptr_t)(c->dst - GUARD), bytes + 2 * GUARD));
    for (size_t i = 0; i < GUARD && !block; i++)
        CHECK(seen[i] == 0xa5 && seen[GUARD + bytes + i] == 0xa5);
    for (size_t i = 0; i < bytes; i++)
        if (seen[GUARD + i] != wanted[i]) {
            fprintf(stderr,
                    "PE %d of %d members: %s, %s, %zu of type %d by %d, root %d, dst %p, src %p: "
                    "byte %zu is %#x and not %#x\n",
                    me, c->t->n, names[c->what], text, c->count, (int)c->type, (int)c->op, c->root,
                    (void *)c->dst, (const void *)c->src, i, seen[GUARD + i], wanted[i]);
            exit(1);
        }
}

/* off: offset of both sides from an aligned address. in_place: the source is the destination, or
 * this member's part of it. */
static void one(struct call c, bool own, size_t off, bool in_place, const char *text)
{
    uint64_t salt = ++teams[c.t - teams].calls;
    own &= job_gpu_team_direct(c.t->team); /* otherwise the host's functions serve the team */
    char *to = (own ? own_dst : heap_dst) + 256, *from = (own ? own_src : heap_src) + 256;
    c.salt = salt;
    c.dst = to + off;
    c.src = from + off;
    if (in_place)
        c.src = c.dst + (c.what == ALLGATHER ? (size_t)c.t->me * block_bytes(&c) : 0);
    memset(seen, 0xa5, dst_bytes(&c) + 2 * GUARD);
    if (in_place && c.what == REDUCESCATTER) /* the guards are the other blocks of the source */
        c.dst += (size_t)c.t->me * block_bytes(&c);
    else
        to_gpu(c.dst - GUARD, seen, dst_bytes(&c) + 2 * GUARD);
    make_source(&c, salt);
    make_wanted(&c, salt);
    if (!in_place || c.what != BROADCAST || c.t->me == c.root)
        to_gpu((char *)c.src, mine, src_bytes(&c));
    OK(weft_sync(c.t->team)); /* destinations are ready */
    OK(ask(&c));
    synchronize();
    compare(&c, text);
}

#endif
