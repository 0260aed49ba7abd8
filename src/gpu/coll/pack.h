/* SPDX-License-Identifier: Apache-2.0 */
/* A step of an alltoall over several nodes (ops/coll/nodes_alltoall.c): stores the blocks for each
 * local rank into a slot of the member of this GPU's node that has the rank.
 *
 * Not a round of the team: the members of a node have met, and the host orders the steps. */
#ifndef WEFT_GPU_COLL_PACK_H
#define WEFT_GPU_COLL_PACK_H

#include <weft/device/move.h>

#include "gpu/kernel_record.h"

/* part: the slot of each local rank; NULL: not by this kernel. In a slot, the blocks for one member
 * follow one another, in the order of those that send them. Each block is stored by a group of
 * threads. */
KERNEL_OF_512 weft_coll_pack(struct coll_call call)
{
    enum { LANES = 32 };
    const struct coll_call *c = &call;
    const unsigned lanes = weft_dev_block_dim_x() < LANES ? weft_dev_block_dim_x() : LANES,
                   groups = weft_dev_grid_dim_x() * weft_dev_block_dim_x() / lanes,
                   thread = weft_dev_block_x() * weft_dev_block_dim_x() + weft_dev_thread_x();
    const unsigned members = (unsigned)c->members;
    GRID_WAIT();
    WEFT_NO_UNROLL
    for (unsigned i = thread / lanes; i < c->pack.count * members; i += groups) {
        const unsigned k = i / members, rank = i % members;
        const unsigned node = (c->pack.first + k) % c->pack.nodes;
        if (c->part[rank])
            weft_dev_move(c->part[rank] + ((uint64_t)k * members + (unsigned)c->me) * c->bytes,
                          c->src + ((uint64_t)node * members + rank) * c->bytes, c->bytes,
                          thread % lanes, lanes, 0);
    }
}

#endif
