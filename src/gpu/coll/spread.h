/* SPDX-License-Identifier: Apache-2.0 */
/* A large broadcast with the simple protocol: the root sends each other member a slice, which that
 * member forwards to the rest chunk by chunk, so that no link carries a byte twice: `bytes` go out
 * of the root, (n - 2) / (n - 1) x bytes out of each other member. `here` of all members comes
 * first. The root sends a fence and a flag after each chunk; a fence and `done` follow the last
 * chunk. A chunk reaches its last receiver after two transfers. */
#ifndef WEFT_GPU_COLL_SPREAD_H
#define WEFT_GPU_COLL_SPREAD_H

#include <weft/device/move.h>

#include "gpu/coll/round.h"

/* Returns the start of chunk `chunk` of this block's share of a slice: a multiple of 16 bytes
 * except at the end. */
WEFT_DEVICE uint64_t chunk_offset(uint64_t bytes, uint64_t chunk, uint64_t chunks)
{
    uint64_t units = (bytes + 15) / 16, at = units * chunk / chunks * 16;
    return at < bytes ? at : bytes;
}

/* Broadcast to several other members: the root sends each of them a slice, which that member
 * forwards to the rest chunk by chunk, so that each link carries each byte once. Each thread block
 * has a share of every slice. */
KERNEL weft_coll_spread(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    const struct coll_call *c = &call;
    struct round r;
    uint64_t ticket = round_draw(c);
    unsigned threads = weft_dev_block_dim_x(), rank = weft_dev_thread_x();
    uint64_t others = (uint64_t)c->members - 1,
             pieces = weft_dev_grid_dim_x() * (uint64_t)c->chunks;
    if (round_begin(&r, c, ticket, shared))
        return;
    unsigned block = r.block;
    send_here(&r);
    await_here(&r, r.number);
    int place = c->me - c->root - 1; /* index of this member's slice; -1: the root */
    place = c->me == c->root ? -1 : place < 0 ? place + c->members : place;
    for (uint32_t chunk = 0; chunk < c->chunks && !r.failed; chunk++) {
        uint64_t piece = block * (uint64_t)c->chunks + chunk;
        uint64_t reached = r.number * COLL_CHUNKS + chunk + 1;
        if (place >= 0) {
            if (rank == 0)
                await_flag(&r, &r.own->relay[block], reached, c->root);
            r.failed = weft_dev_sync_block_or(r.failed);
        }
        for (int k = 0; k < (int)others && !r.failed; k++) {
            int member = place < 0 ? (c->root + 1 + k) % c->members : rotated_member(c, k);
            if (member == c->root)
                continue;
            uint64_t slice = (uint64_t)(place < 0 ? k : place);
            uint64_t begin = chunk_offset(c->bytes, slice * pieces + piece, others * pieces);
            uint64_t end = chunk_offset(c->bytes, slice * pieces + piece + 1, others * pieces);
            weft_dev_move(c->part[member] + c->to + begin, (place < 0 ? c->src : c->dst) + begin,
                          (size_t)(end - begin), rank, threads, 0);
        }
        if (place >= 0)
            continue;
        weft_dev_sync_block();
        if (rank < (unsigned)c->members)
            weft_dev_fence(ORDERED, SYSTEM);
        for (int i = (int)rank; i < c->members; i += (int)threads)
            if (i != c->me)
                weft_dev_store_u64(&member_area(c, i)->relay[block], reached, RELAXED, SYSTEM);
    }
    if (c->me == c->root && c->dst != c->src)
        weft_dev_move(c->dst, c->src, c->bytes, r.rank, r.threads, 0);
    round_end(&r, 1);
}

#endif
