/* SPDX-License-Identifier: Apache-2.0 */
/* Barriers of any ranks, as those of lsa_barrier.h: each rank's epoch goes to each other one as a
 * value that is put. */
#ifndef NCCL_DEVICE_GIN_BARRIER_H_
#define NCCL_DEVICE_GIN_BARRIER_H_

#include "gin.h"
#include "lsa_barrier.h"

#if defined __cplusplus && WEFT_NCCL_KERNELS

/* Put: what other members put to this rank before the barrier is there after it. Get: what this
 * rank got before the barrier is there after it. */
enum ncclGinFenceLevel : uint32_t { None = 0, Put = 1, Get = 2, Relaxed = None };

WEFT_NCCL_BOTH constexpr ncclGinFenceLevel operator|(ncclGinFenceLevel a, ncclGinFenceLevel b)
{
    return static_cast<ncclGinFenceLevel>(static_cast<uint32_t>(a) | static_cast<uint32_t>(b));
}
WEFT_NCCL_BOTH constexpr ncclGinFenceLevel operator&(ncclGinFenceLevel a, ncclGinFenceLevel b)
{
    return static_cast<ncclGinFenceLevel>(static_cast<uint32_t>(a) & static_cast<uint32_t>(b));
}

/* In place of an ncclGin: the fence is for all contexts, as that of an ncclGin here is too. */
struct ncclGinAllContexts {
    ncclDevComm const &comm;
    WEFT_NCCL_BOTH constexpr ncclGinAllContexts(ncclDevComm const &of) : comm(of)
    {
    }
};

/* All threads of the group call each function. */
template <typename Coop> struct ncclGinBarrierSession : weft_nccl_barrier<Coop> {
    template <typename Gin>
    NCCL_DEVICE_INLINE ncclGinBarrierSession(Coop coop, Gin gin, ncclTeam team,
                                             ncclGinBarrierHandle handle, uint32_t index)
        : weft_nccl_barrier<Coop>(coop, gin.comm, team, handle.bufHandle, handle.nBarriers, index)
    {
    }
    template <typename Gin>
    NCCL_DEVICE_INLINE ncclGinBarrierSession(Coop coop, Gin gin, ncclTeamTagRail, uint32_t index)
        : ncclGinBarrierSession(coop, gin, ncclTeamRail(gin.comm), gin.comm.railGinBarrier, index)
    {
    }
    template <typename Gin>
    NCCL_DEVICE_INLINE ncclGinBarrierSession(Coop coop, Gin gin, ncclTeamTagWorld, uint32_t index)
        : ncclGinBarrierSession(coop, gin, ncclTeamWorld(gin.comm), gin.comm.worldGinBarrier, index)
    {
    }

    NCCL_DEVICE_INLINE void sync(Coop, cuda::memory_order order,
                                 ncclGinFenceLevel fence = ncclGinFenceLevel::Put |
                                                           ncclGinFenceLevel::Get)
    {
        sync_within(order, fence, WEFT_NCCL_NO_TIMEOUT);
    }
    NCCL_DEVICE_INLINE ncclResult_t sync(Coop, cuda::memory_order order, ncclGinFenceLevel fence,
                                         uint64_t cycles)
    {
        return sync_within(order, fence, cycles);
    }

  private:
    NCCL_DEVICE_INLINE ncclResult_t sync_within(cuda::memory_order order, ncclGinFenceLevel fence,
                                                uint64_t cycles)
    {
        struct weft_device weft = {*this->comm.weft};
        if (fence)
            weft_nccl_flush(this->comm, this->coop);
        else
            this->coop.sync();
        if (weft_nccl_releases(order) && this->coop.thread_rank() < this->team.nRanks - 1)
            weft_dev_fence(WEFT_ORDER_ACQ_REL, WEFT_SCOPE_SYS);
        for (int i = this->coop.thread_rank(); i < this->team.nRanks - 1; i += this->coop.size())
            weft.weft_thread_p64(this->own() + 1 + this->team.rank, this->epoch + 1,
                                 ncclTeamRankToWorld(this->comm, this->team, this->other(i)));
        return this->wait_for_others(order, cycles);
    }
};

/* A session of one barrier. `gin`: an ncclGin, or ncclGinAllContexts(comm). */
template <typename Coop, typename Gin>
NCCL_DEVICE_INLINE void
ncclGinBarrier(Coop coop, Gin gin, ncclTeam team, ncclGinBarrierHandle handle, uint32_t index,
               cuda::memory_order order = cuda::memory_order_acq_rel,
               ncclGinFenceLevel fence = ncclGinFenceLevel::Put | ncclGinFenceLevel::Get)
{
    ncclGinBarrierSession<Coop>(coop, gin, team, handle, index).sync(coop, order, fence);
}
template <typename Coop, typename Gin, typename Tag>
NCCL_DEVICE_INLINE void ncclGinBarrier(Coop coop, Gin gin, Tag tag, uint32_t index,
                                       cuda::memory_order order = cuda::memory_order_acq_rel,
                                       ncclGinFenceLevel fence = ncclGinFenceLevel::Put |
                                                                 ncclGinFenceLevel::Get)
{
    ncclGinBarrierSession<Coop>(coop, gin, tag, index).sync(coop, order, fence);
}

#endif

#endif
