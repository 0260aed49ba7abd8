/* SPDX-License-Identifier: Apache-2.0 */
/* <nvshmem.h>: barriers and syncs of a warpgroup, four consecutive warps of a block. All its
 * threads call together; the last warpgroup of a block whose size is no multiple of 128 has fewer.
 * On cuda warpgroup g of a block uses hardware barrier 15 - g: a kernel that uses named barriers
 * itself must not use those of its warpgroups. */
#ifndef WEFT_NVSHMEM_WARPGROUP_H
#define WEFT_NVSHMEM_WARPGROUP_H

#include <weft/nvshmem/types.h>

#if WEFT_NV_DEVICE_PART

#define WEFT_NV_WARPGROUP_WARPS 4u
#define WEFT_NV_WARPGROUPS      8

WEFT_NV_DEVICE unsigned weft_nv_warpgroup_warps(void)
{
    unsigned warps = (weft_dev_block_threads() + WEFT_WARP_LANES - 1) / WEFT_WARP_LANES;
    unsigned left = warps - weft_dev_warp() / WEFT_NV_WARPGROUP_WARPS * WEFT_NV_WARPGROUP_WARPS;
    return left < WEFT_NV_WARPGROUP_WARPS ? left : WEFT_NV_WARPGROUP_WARPS;
}

/* Barrier of all threads of the warpgroup, which also orders their memory accesses among them. */
#if WEFT_TARGET_CUDA
WEFT_NV_DEVICE void weft_nv_warpgroup_sync(void)
{
    asm volatile("barrier.sync %0, %1;" ::"r"(15 - weft_dev_warp() / WEFT_NV_WARPGROUP_WARPS),
                 "r"(weft_nv_warpgroup_warps() * WEFT_WARP_LANES)
                 : "memory");
}
#else
/* State of a barrier in shared memory, which the executor does not initialise: on simt the lanes of
 * a block run one at a time, and the first lane to arrive initialises it. */
struct weft_nv_gathering {
    uint32_t ready, arrived, round;
};

WEFT_NV_DEVICE void weft_nv_warpgroup_sync(void)
{
    enum { READY = 0x57475250 };
    WEFT_SHARED(struct weft_nv_gathering, gatherings, [WEFT_NV_WARPGROUPS]);
    struct weft_nv_gathering *g = &gatherings[weft_dev_warp() / WEFT_NV_WARPGROUP_WARPS];
    weft_dev_sync_warp(weft_dev_warp_mask());
    if (weft_dev_lane() == 0) {
        if (g->ready != READY) {
            g->ready = READY;
            g->arrived = g->round = 0;
        }
        uint32_t round = g->round;
        /* The other warps' acquire sees the last warp's store of the round, which orders for them
         * what all warps did before they arrived. */
        if (weft_dev_atomic_add_u32(&g->arrived, 1, WEFT_ORDER_ACQ_REL, WEFT_SCOPE_CTA) + 1 ==
            weft_nv_warpgroup_warps()) {
            g->arrived = 0;
            weft_dev_store_u32(&g->round, round + 1, WEFT_ORDER_RELEASE, WEFT_SCOPE_CTA);
        } else {
            while (weft_dev_load_u32(&g->round, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_CTA) == round)
                ;
        }
    }
    weft_dev_sync_warp(weft_dev_warp_mask());
}
#endif

/* The first warp of the warpgroup synchronises with the other PEs for all of its threads. The first
 * sync orders what the other threads did before, and the second what the PEs did for their later
 * accesses. */
WEFT_NV_DEVICE int weft_nv_warpgroup_meet(nvshmem_team_t team, int barrier)
{
    WEFT_SHARED(int, status, [WEFT_NV_WARPGROUPS]);
    unsigned group = weft_dev_warp() / WEFT_NV_WARPGROUP_WARPS;
    weft_nv_warpgroup_sync();
    if (weft_dev_warp() % WEFT_NV_WARPGROUP_WARPS == 0) {
        int met = barrier ? weft_warp_barrier(team) : weft_warp_sync(team);
        if (weft_dev_lane() == 0)
            status[group] = met;
    }
    weft_nv_warpgroup_sync();
    return status[group];
}

WEFT_NV_DEVICE int nvshmemx_barrier_warpgroup(nvshmem_team_t team)
{
    return weft_nv_warpgroup_meet(team, 1);
}

WEFT_NV_DEVICE void nvshmemx_barrier_all_warpgroup(void)
{
    (void)weft_nv_warpgroup_meet(NVSHMEM_TEAM_WORLD, 1);
}

WEFT_NV_DEVICE int nvshmemx_team_sync_warpgroup(nvshmem_team_t team)
{
    return weft_nv_warpgroup_meet(team, 0);
}

WEFT_NV_DEVICE int nvshmemx_sync_warpgroup(nvshmem_team_t team)
{
    return weft_nv_warpgroup_meet(team, 0);
}

WEFT_NV_DEVICE void nvshmemx_sync_all_warpgroup(void)
{
    (void)weft_nv_warpgroup_meet(NVSHMEM_TEAM_WORLD, 0);
}

#endif

#endif
