/* SPDX-License-Identifier: Apache-2.0 */
/* Fence and quiet of device code. Where all peers have direct addresses both are fences of the
 * memory model. Otherwise they first complete or order the requests of the transports
 * (remote.h). */
#ifndef WEFT_DEVICE_ORDER_H
#define WEFT_DEVICE_ORDER_H

#include <weft/device/remote.h>

/* weft_{thread,warp,block}_fence()
 *     Puts, atomics and signals of the calling threads before it reach each PE before those after
 *     it.
 * weft_{thread,warp,block}_quiet()
 *     Puts, atomics and signals of the calling threads before it are complete and visible to every
 *     PE.
 *
 * In the scopes warp and block the threads synchronise, and then each of them fences: in the memory
 * model another thread's fence does not order a flag that this thread stores afterwards (PTX ISA,
 * "Release and Acquire Patterns"). Where one thread acts for the block, weft_dev_sync_block() and
 * that thread's weft_thread_fence() are enough, and cheaper; put_signal and barrier do that.
 *
 * fence is acquire-release, which is all that message passing needs; quiet is sequentially
 * consistent, because after it a PE may read what another PE wrote before its own quiet (store
 * buffering). Litmus tests message_passing and store_buffering. */
WEFT_DEVICE void weft_thread_fence(void)
{
    weft_dev_remote_order(0);
    weft_dev_fence(WEFT_ORDER_ACQ_REL, WEFT_SCOPE_SYS);
}

WEFT_DEVICE void weft_thread_quiet(void)
{
    if (!weft_dev_remote_order(1))
        weft_dev_fence(WEFT_ORDER_SEQ_CST, WEFT_SCOPE_SYS);
}

WEFT_DEVICE void weft_warp_fence(void)
{
    weft_dev_scope_sync(WEFT_DEV_WARP);
    weft_thread_fence();
}

WEFT_DEVICE void weft_warp_quiet(void)
{
    weft_dev_scope_sync(WEFT_DEV_WARP);
    weft_thread_quiet();
}

WEFT_DEVICE void weft_block_fence(void)
{
    weft_dev_scope_sync(WEFT_DEV_BLOCK);
    weft_thread_fence();
}

WEFT_DEVICE void weft_block_quiet(void)
{
    weft_dev_scope_sync(WEFT_DEV_BLOCK);
    weft_thread_quiet();
}

#endif
