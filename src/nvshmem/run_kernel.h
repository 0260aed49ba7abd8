/* SPDX-License-Identifier: Apache-2.0 */
/* Stream operations for which <weft/stream.h> has no function, carried out by one block of threads:
 * the kernel of run.cu and run_simt.c. */
#ifndef WEFT_NVSHMEM_RUN_KERNEL_H
#define WEFT_NVSHMEM_RUN_KERNEL_H

#include <weft/nvshmem/host.h>
#include <weft_device.h>

/* A reduction of NVSHMEM's types and operations: as weft_block_allreduce(), without the code for
 * averages, scaled sums and reals of 8 bits, which NVSHMEM does not have. */
WEFT_DEVICE int weft_nv_run_reduce(const struct weft_nv_call *c, int to)
{
    const int scope = WEFT_DEV_BLOCK, team = c->team;
    weft_type type = (weft_type)c->type;
    size_t n = (size_t)c->n;
    struct weft_dev_combining what = {type, weft_dev_op_of((weft_op)c->op), 0, to, 0};
    int status = weft_dev_reduce_check(scope, team, c->dst, c->src, n, what);
    if (status || !n)
        return status;
    if (!weft_dev_team_all_direct(team))
        return weft_dev_reduce_carried(scope, team, c->dst, c->src, n, what);
    if (!weft_dev_reduce_is_small(team, n * weft_dev_type_bytes(type), 0))
        return weft_dev_reduce_large_plain(scope, team, c->dst, c->src, n, what);
    return weft_dev_is_narrow(type)
               ? weft_dev_reduce_small_narrow(scope, team, c->dst, c->src, n, what)
               : weft_dev_reduce_small(scope, team, c->dst, c->src, n, what);
}

/* Called by all threads of the block. Collectives report their own errors; a wait that timed out is
 * reported here. */
WEFT_DEVICE void weft_nv_run(const struct weft_nv_call *c)
{
    int status = WEFT_OK;
    switch (c->kind) {
    case WEFT_NV_CALL_SYNC:
        weft_block_sync(c->team);
        return;
    case WEFT_NV_CALL_BROADCAST:
        weft_block_broadcast(c->team, c->dst, c->src, c->n, c->pe);
        return;
    case WEFT_NV_CALL_FCOLLECT:
        weft_block_allgather(c->team, c->dst, c->src, c->n);
        return;
    case WEFT_NV_CALL_ALLTOALL:
        weft_block_alltoall(c->team, c->dst, c->src, c->n);
        return;
    case WEFT_NV_CALL_REDUCE:
        (void)weft_nv_run_reduce(c, WEFT_DEV_ALL);
        return;
    case WEFT_NV_CALL_REDUCESCATTER:
        (void)weft_nv_run_reduce(c, WEFT_DEV_EACH);
        return;
    case WEFT_NV_CALL_P:
        weft_block_put(c->dst, &c->value, c->element, c->pe);
        return;
    case WEFT_NV_CALL_IPUT:
        weft_block_iput(c->dst, c->src, c->dst_stride, c->src_stride, c->element, c->n, c->pe);
        return;
    case WEFT_NV_CALL_IGET:
        weft_block_iget(c->dst, c->src, c->dst_stride, c->src_stride, c->element, c->n, c->pe);
        return;
    case WEFT_NV_CALL_WAIT:
        status = weft_block_wait_until((weft_type)c->type, c->src, (weft_cmp)c->pe, c->value);
        break;
    case WEFT_NV_CALL_WAIT_ALL:
        status = weft_block_wait_until_all((weft_type)c->type, c->src, c->n, (const int *)c->dst,
                                           (weft_cmp)c->pe, c->value);
        break;
    case WEFT_NV_CALL_WAIT_ALL_VECTOR:
        status =
            weft_block_wait_until_all_vector((weft_type)c->type, c->src, c->n, (const int *)c->dst,
                                             (weft_cmp)c->pe, (void *)(uintptr_t)c->value);
        break;
    }
    if (status && weft_dev_thread_rank() == 0)
        weft_dev_fail(status);
}

#endif
