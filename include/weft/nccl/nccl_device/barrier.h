/* SPDX-License-Identifier: Apache-2.0 */
/* Barriers in two steps: of the LSA team, then of the ranks with the caller's place in theirs. */
#ifndef NCCL_DEVICE_BARRIER_H_
#define NCCL_DEVICE_BARRIER_H_

#include "gin_barrier.h"

#if defined __cplusplus && WEFT_NCCL_KERNELS

/* All threads of the group call each function. With ncclTeamTagLsa and ncclTeamTagRail only one of
 * the steps. Before the first step the operations of the group are completed, since in the second
 * one other ranks act for it. */
template <typename Coop> struct ncclBarrierSession {
    NCCL_DEVICE_INLINE ncclBarrierSession(Coop coop, ncclTeam innerTeam, ncclTeam outerTeam,
                                          ncclGin gin, ncclLsaBarrierHandle innerHandle,
                                          ncclGinBarrierHandle outerHandle, uint32_t index,
                                          bool multimem = false, ncclMultimemHandle = {})
        : inner(coop, gin.comm, innerTeam, innerHandle, index, multimem),
          outer(coop, gin, outerTeam, outerHandle, index), steps(INNER | OUTER)
    {
    }
    NCCL_DEVICE_INLINE ncclBarrierSession(Coop coop, ncclTeamTagWorld, ncclGin gin, uint32_t index,
                                          bool multimem = false)
        : ncclBarrierSession(coop, ncclTeamLsa(gin.comm), ncclTeamRail(gin.comm), gin,
                             gin.comm.hybridLsaBarrier, gin.comm.hybridRailGinBarrier, index,
                             multimem)
    {
    }
    NCCL_DEVICE_INLINE ncclBarrierSession(Coop coop, ncclTeamTagLsa, ncclDevComm const &comm,
                                          uint32_t index, bool multimem = false)
        : ncclBarrierSession(coop, ncclTeamTagWorld(), ncclGin(comm, 0), index, multimem)
    {
        steps = INNER;
    }
    NCCL_DEVICE_INLINE ncclBarrierSession(Coop coop, ncclTeamTagRail, ncclGin gin, uint32_t index)
        : ncclBarrierSession(coop, ncclTeamTagWorld(), gin, index)
    {
        steps = OUTER;
    }
    ncclBarrierSession(ncclBarrierSession const &) = delete;

    NCCL_DEVICE_INLINE ncclLsaBarrierSession<Coop> &lsaBarrier()
    {
        return inner;
    }
    NCCL_DEVICE_INLINE ncclGinBarrierSession<Coop> &ginBarrier()
    {
        return outer;
    }
    NCCL_DEVICE_INLINE void sync(Coop coop, cuda::memory_order order,
                                 ncclGinFenceLevel fence = ncclGinFenceLevel::Put |
                                                           ncclGinFenceLevel::Get)
    {
        sync(coop, order, fence, WEFT_NCCL_NO_TIMEOUT);
    }
    /* `cycles` for each step. */
    NCCL_DEVICE_INLINE ncclResult_t sync(Coop coop, cuda::memory_order order,
                                         ncclGinFenceLevel fence, uint64_t cycles)
    {
        ncclResult_t result = ncclSuccess;
        if (fence)
            weft_nccl_flush(inner.comm, coop);
        if (steps & INNER)
            result = inner.sync(coop, order, cycles);
        if (steps & OUTER) {
            ncclResult_t second = outer.sync(coop, order, ncclGinFenceLevel::None, cycles);
            result = result ? result : second;
        }
        return result;
    }

  private:
    enum { INNER = 1, OUTER = 2 };
    ncclLsaBarrierSession<Coop> inner;
    ncclGinBarrierSession<Coop> outer;
    int steps;
};

/* A session of one barrier. */
template <typename Coop>
NCCL_DEVICE_INLINE void ncclBarrier(Coop coop, ncclTeamTagWorld tag, ncclGin gin, uint32_t index,
                                    cuda::memory_order order = cuda::memory_order_acq_rel,
                                    ncclGinFenceLevel fence = ncclGinFenceLevel::Put |
                                                              ncclGinFenceLevel::Get,
                                    bool multimem = false)
{
    ncclBarrierSession<Coop>(coop, tag, gin, index, multimem).sync(coop, order, fence);
}
template <typename Coop>
NCCL_DEVICE_INLINE void ncclBarrier(Coop coop, ncclTeamTagRail tag, ncclGin gin, uint32_t index,
                                    cuda::memory_order order = cuda::memory_order_acq_rel,
                                    ncclGinFenceLevel fence = ncclGinFenceLevel::Put |
                                                              ncclGinFenceLevel::Get)
{
    ncclBarrierSession<Coop>(coop, tag, gin, index).sync(coop, order, fence);
}

#endif

#endif
