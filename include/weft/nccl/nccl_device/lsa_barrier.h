/* SPDX-License-Identifier: Apache-2.0 */
/* Barriers of ranks that reach each other by load and store. Each rank stores the number of the
 * barrier, its epoch, into the memory of each other one, and waits until all have. */
#ifndef NCCL_DEVICE_LSA_BARRIER_H_
#define NCCL_DEVICE_LSA_BARRIER_H_

#include "coop.h"
#include "ptr.h"

#if defined __cplusplus && WEFT_NCCL_KERNELS

/* A barrier of a team: this rank's epoch, and then the epoch that each member has reached. */
template <typename Coop> struct weft_nccl_barrier {
    Coop coop;
    ncclDevComm const &comm;
    ncclTeam team;
    size_t offset; /* in the resources, bytes */
    uint64_t epoch;

    NCCL_DEVICE_INLINE weft_nccl_barrier(Coop group, ncclDevComm const &of, ncclTeam members,
                                         ncclDevResourceHandle handle, int n, uint32_t index)
        : coop(group), comm(of), team(members),
          offset(ncclGetResourceBufferOffset(handle) +
                 weft_nccl_barrier_bytes((int)index, members.nRanks))
    {
        if (index >= (uint32_t)n) {
            struct weft_device weft = {*comm.weft};
            weft.weft_dev_record(WEFT_DEV_RECORD_REFUSED, WEFT_DEV_OP_BARRIER, WEFT_ERR_ARGUMENT,
                                 -1, -1, nullptr, WEFT_LT, (uint64_t)n, index, 0);
            weft.weft_dev_fail(WEFT_ERR_ARGUMENT);
            team.nRanks = 0;
            offset = 0;
        }
        epoch = weft_dev_load_u64(own(), WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    }
    weft_nccl_barrier(weft_nccl_barrier const &) = delete;

    NCCL_DEVICE_INLINE uint64_t *own() const
    {
        return (uint64_t *)(comm.resources.own + offset);
    }
    /* Number i of the other members. */
    NCCL_DEVICE_INLINE int other(int i) const
    {
        return i + (i >= team.rank);
    }
    NCCL_DEVICE_INLINE ncclResult_t wait_for_others(cuda::memory_order order, uint64_t cycles)
    {
        ncclResult_t result = ncclSuccess;
        for (int i = coop.thread_rank(); i < team.nRanks - 1 && !result; i += coop.size())
            result = weft_nccl_wait(comm, &own()[1 + other(i)], epoch + 1, 64, order,
                                    ncclTeamRankToWorld(comm, team, other(i)), cycles);
        epoch++;
        if (coop.thread_rank() == 0 && team.nRanks)
            weft_dev_store_u64(own(), epoch, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
        coop.sync();
        return result;
    }
};

/* `multimem` has no effect: barriers of Weft use stores. All threads of the group call each
 * function. The forms with `cycles` of the GPU's clock give ncclTimeout when these are over for a
 * rank that the calling thread waited for; then the barrier is not used again. */
template <typename Coop> struct ncclLsaBarrierSession : weft_nccl_barrier<Coop> {
    NCCL_DEVICE_INLINE ncclLsaBarrierSession(Coop coop, ncclDevComm const &comm, ncclTeam team,
                                             ncclLsaBarrierHandle handle, uint32_t index,
                                             bool multimem = false, ncclMultimemHandle = {})
        : weft_nccl_barrier<Coop>(coop, comm, team, handle.bufHandle, handle.nBarriers, index)
    {
        (void)multimem;
    }
    NCCL_DEVICE_INLINE ncclLsaBarrierSession(Coop coop, ncclDevComm const &comm, ncclTeamTagLsa,
                                             uint32_t index, bool multimem = false)
        : ncclLsaBarrierSession(coop, comm, ncclTeamLsa(comm), comm.lsaBarrier, index, multimem)
    {
    }

    /* A thread that stores orders what its group did before by its own fence, after the sync. */
    NCCL_DEVICE_INLINE void arrive(Coop, cuda::memory_order order)
    {
        this->coop.sync();
        if (weft_nccl_releases(order) && this->coop.thread_rank() < this->team.nRanks - 1)
            weft_dev_fence(WEFT_ORDER_ACQ_REL, WEFT_SCOPE_SYS);
        for (int i = this->coop.thread_rank(); i < this->team.nRanks - 1; i += this->coop.size()) {
            int lsa = ncclTeamRankToLsa(this->comm, this->team, this->other(i));
            char *at = this->comm.resources.first +
                       (uint64_t)(uint32_t)lsa * this->comm.resources.stride + this->offset;
            weft_dev_store_u64((uint64_t *)at + 1 + this->team.rank, this->epoch + 1,
                               WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
        }
    }
    NCCL_DEVICE_INLINE void wait(Coop, cuda::memory_order order)
    {
        this->wait_for_others(order, WEFT_NCCL_NO_TIMEOUT);
    }
    NCCL_DEVICE_INLINE ncclResult_t wait(Coop, cuda::memory_order order, uint64_t cycles)
    {
        return this->wait_for_others(order, cycles);
    }
    NCCL_DEVICE_INLINE void sync(Coop coop, cuda::memory_order order)
    {
        arrive(coop, order);
        wait(coop, order);
    }
    NCCL_DEVICE_INLINE ncclResult_t sync(Coop coop, cuda::memory_order order, uint64_t cycles)
    {
        arrive(coop, order);
        return wait(coop, order, cycles);
    }
};

#endif

#endif
