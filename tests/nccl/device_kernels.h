/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels written to NCCL's device API: one source for GPUs and for CPU threads. Each rank sends
 * other values, and receivers check them as soon as a barrier or signal says that they are there.
 */
#ifndef WEFT_TESTS_NCCL_DEVICE_KERNELS_H
#define WEFT_TESTS_NCCL_DEVICE_KERNELS_H

#include "device_call.h"

#define EXPECT(call, condition)                                                                    \
    do {                                                                                           \
        if (!(condition))                                                                          \
            report((call), __LINE__);                                                              \
    } while (0)

static constexpr cuda::memory_order RELAXED = cuda::memory_order_relaxed,
                                    ACQUIRE = cuda::memory_order_acquire,
                                    RELEASE = cuda::memory_order_release,
                                    ACQ_REL = cuda::memory_order_acq_rel;

NCCL_DEVICE_INLINE void report(device_call const &call, int line)
{
    weft_dev_atomic_add_u64(&call.out[0], 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    weft_dev_store_u64(&call.out[1], (uint64_t)line, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
}

NCCL_DEVICE_INLINE uint64_t value_of(int rank, int round, int i)
{
    return (uint64_t)rank * 1000003 + (uint64_t)round * 7919 * 65536 + (uint64_t)i;
}

NCCL_DEVICE_INLINE int block()
{
    return (int)weft_dev_block_rank();
}

/* Where rank `rank` writes in the window; 8 bytes from the start, for copies at an odd place. */
NCCL_DEVICE_INLINE size_t part_of(int rank)
{
    return (size_t)(block() * MOST_RANKS + rank) * PART_BYTES + 8;
}

NCCL_DEVICE_INLINE void check_part(device_call const &call, int rank, int round)
{
    const volatile uint64_t *at =
        (const volatile uint64_t *)ncclGetLocalPointer(call.window, part_of(rank));
    for (int i = ncclCoopCta().thread_rank(); i < ELEMENTS; i += ncclCoopCta().size())
        EXPECT(call, at[i] == value_of(rank, round, i));
}

/* Every rank stores into the window of each one of its LSA team. */
NCCL_DEVICE_INLINE void kernel_lsa(device_call const &call)
{
    ncclCoopCta cta;
    ncclTeam lsa = ncclTeamLsa(call.comm);
    ncclLsaBarrierSession<ncclCoopCta> barrier(cta, call.comm, ncclTeamTagLsa(), (uint32_t)block());
    int me = call.comm.rank, first = me - lsa.rank;
    for (int round = call.first; round < call.first + call.rounds; round++) {
        for (int peer = 0; peer < lsa.nRanks; peer++) {
            uint64_t *to = (uint64_t *)ncclGetLsaPointer(call.window, part_of(me), peer);
            EXPECT(call, ncclGetPeerPointer(call.window, part_of(me), first + peer) == to);
            EXPECT(call, ncclGetPeerPointer(call.window, part_of(me), lsa, peer) == to);
            for (int i = cta.thread_rank(); i < ELEMENTS; i += cta.size())
                to[i] = value_of(me, round, i);
        }
        if (round % 2) {
            barrier.arrive(cta, RELEASE);
            barrier.wait(cta, ACQUIRE);
        } else {
            barrier.sync(cta, ACQ_REL);
        }
        for (int rank = first; rank < first + lsa.nRanks; rank++)
            check_part(call, rank, round);
        barrier.sync(cta, ACQ_REL);
    }
    for (int rank = 0; rank < call.comm.nRanks; rank++)
        if (rank / lsa.nRanks != me / lsa.nRanks)
            EXPECT(call, ncclGetPeerPointer(call.window, 0, rank) == nullptr);
}

/* A barrier of any group of threads, with the session number `index`. */
template <typename Coop>
NCCL_DEVICE_INLINE void meet(device_call const &call, Coop coop, uint32_t index, int word)
{
    ncclTeam lsa = ncclTeamLsa(call.comm);
    ncclSymPtr<uint64_t> slots(call.window, VALUE_PART * PART_BYTES);
    slots = slots + word * MOST_RANKS;
    for (int round = call.first; round < call.first + call.rounds; round++) {
        ncclLsaBarrierSession<Coop> barrier(coop, call.comm, lsa, call.lsa_handle, index);
        for (int peer = coop.thread_rank(); peer < lsa.nRanks; peer += coop.size())
            (slots + lsa.rank).lsaPtr(peer)[0] = value_of(lsa.rank, round, word);
        EXPECT(call, barrier.sync(coop, ACQ_REL, ~(uint64_t)0 >> 1) == ncclSuccess);
        const volatile uint64_t *own = slots.localPtr();
        for (int peer = 0; peer < lsa.nRanks; peer++)
            EXPECT(call, own[peer] == value_of(peer, round, word));
        barrier.sync(coop, ACQ_REL);
    }
}

NCCL_DEVICE_INLINE void kernel_coops(device_call const &call)
{
    ncclCoopCta cta;
    int warp = (int)weft_dev_warp(), thread = cta.thread_rank();
    if (block())
        return;
    meet(call, ncclCoopWarp(), (uint32_t)warp, warp);
    if (thread % 32 == 5)
        meet(call, ncclCoopThread(), (uint32_t)(2 + warp), 2 + warp);
    weft_dev_sync_warp(~0u);
    ncclCoopTile<8> tile;
    meet(call, tile, (uint32_t)(4 + thread / 8), 4 + thread / 8);
    if (thread % 3 == 0)
        meet(call, ncclCoopLanes(warp ? 0x92492492u : 0x49249249u), (uint32_t)(12 + warp),
             12 + warp);
    cta.sync();
    meet(call, ncclCoopAny(cta), 14, 14);

    EXPECT(call, tile.thread_rank() == thread % 8 && tile.num_threads() == 8);
    EXPECT(call, ncclCoopBcast(tile, thread, 3) == thread / 8 * 8 + 3);
    EXPECT(call, ncclCoopBcast(cta, thread * 2, 33) == 66);
    ncclCoopLanes odd(0xaaaaaaaau);
    if (thread % 2) {
        EXPECT(call, odd.thread_rank() == thread % 32 / 2 && odd.size() == 16);
        EXPECT(call, ncclCoopBcast(odd, (uint64_t)thread << 32, 2) ==
                         (uint64_t)(thread / 32 * 32 + 5) << 32);
    }
#if WEFT_TARGET_CUDA
    ncclCoopWarpSpan span(0, 2, 3);
    meet(call, span, 15, 15);
    EXPECT(call, ncclCoopBcast(span, thread, 40) == 40);
#endif
}

NCCL_DEVICE_INLINE void fill_source(device_call const &call, int round)
{
    uint64_t *from =
        (uint64_t *)ncclGetLocalPointer(call.window, (size_t)(SOURCE_PART + block()) * PART_BYTES);
    for (int i = ncclCoopCta().thread_rank(); i < ELEMENTS; i += ncclCoopCta().size())
        from[i] = value_of(call.comm.rank, round, i);
}

/* Every rank puts into the window of each one, with a signal and a counter. */
NCCL_DEVICE_INLINE void kernel_gin(device_call const &call)
{
    ncclCoopCta cta;
    ncclGin gin(call.comm, block());
    ncclTeam world = ncclTeamWorld(call.comm);
    ncclBarrierSession<ncclCoopCta> barrier(cta, ncclTeamTagWorld(), gin, (uint32_t)block());
    size_t source = (size_t)(SOURCE_PART + block()) * PART_BYTES;
    uint64_t all = (uint64_t)world.nRanks, before, more;
    for (int round = call.first; round < call.first + call.rounds; round++) {
        uint64_t counted = gin.readCounter(call.counter);
        fill_source(call, round);
        for (int peer = 0; peer < world.nRanks; peer++)
            gin.put(world, peer, call.window, part_of(world.rank), call.window, source,
                    sizeof(uint64_t) * ELEMENTS, ncclGin_SignalInc{call.signal},
                    ncclGin_CounterInc{call.counter}, cta);
        gin.waitCounter(cta, call.counter, counted + all);
        fill_source(call, -1); /* it has been read */
        gin.waitSignalFollowShadow(cta, call.signal, all, &before, &more);
        EXPECT(call, more == all && before == (uint64_t)round * all);
        for (int rank = 0; rank < world.nRanks; rank++)
            check_part(call, rank, round);
        barrier.sync(cta, ACQ_REL);
    }
}

/* Values of each size, other actions, gets, and what follows a strong signal. */
NCCL_DEVICE_INLINE void kernel_signals(device_call const &call)
{
    enum { PIECES = 8, NUMBER = 1, PIECE_SIGNAL = 2 };
    ncclCoopCta cta;
    ncclGin gin(call.comm, block());
    ncclTeam world = ncclTeamWorld(call.comm);
    int me = world.rank, next = (me + 1) % world.nRanks,
        from = (me + world.nRanks - 1) % world.nRanks;
    size_t values = (size_t)(VALUE_PART + block()) * PART_BYTES;
    const volatile uint64_t *own =
        (const volatile uint64_t *)ncclGetLocalPointer(call.window, values);
    const volatile unsigned char *bytes = (const volatile unsigned char *)(own + 3);
    for (int round = call.first; round < call.first + call.rounds; round++) {
        uint64_t number = gin.readSignal(NUMBER), word = gin.readSignal(call.window, values);
        uint64_t pieces = gin.readSignal(PIECE_SIGNAL);
        uint64_t value = value_of(me, round, 77), sent = value_of(from, round, 77);
        ncclGinBarrier(cta, gin, ncclTeamTagWorld(), (uint32_t)block());
        gin.putValue(world, next, call.window, values + 16, value, ncclGin_SignalAdd{NUMBER, 5},
                     cta);
        gin.putValue(world, next, ncclSymPtr<unsigned char>(call.window, values + 24),
                     (unsigned char)value, ncclGin_None(), cta);
        gin.putValue(world, next, call.window, values + 26, (unsigned short)value,
                     ncclGin_WeakSignalInc{NUMBER}, cta);
        gin.putValue(world, next, call.window, values + 28, (unsigned)value,
                     ncclGin_VASignalAdd{call.window, values, 1000 + (uint64_t)me}, cta);
        gin.waitSignal(cta, NUMBER, number + 6, 32);
        gin.waitSignal(cta, call.window, values, word + 1000 + (uint64_t)from);
        EXPECT(call, gin.readSignal(NUMBER, 3) == (number + 6) % 8);
        gin.waitSignal(cta, NUMBER, number + 6 + 8, 3); /* numbers of 3 bits wrap */
        EXPECT(call, own[2] == sent && bytes[0] == (unsigned char)sent);
        EXPECT(call, *(const volatile unsigned short *)(bytes + 2) == (unsigned short)sent);
        EXPECT(call, *(const volatile unsigned *)(bytes + 4) == (unsigned)sent);

        /* Pieces without a signal, and then one that is after all of them. */
        fill_source(call, round);
        for (int i = 0; i < PIECES; i++)
            gin.put(
                world, next, ncclSymPtr<uint64_t>(call.window, part_of(me)) + i * 32,
                ncclSymPtr<uint64_t>(call.window, (size_t)(SOURCE_PART + block()) * PART_BYTES) +
                    i * 32,
                i + 1 < PIECES ? 32 : ELEMENTS - 32 * i, ncclGin_None(), ncclGin_None(), cta);
        gin.signal(world, next, ncclGin_StrongSignalInc{PIECE_SIGNAL}, cta);
        gin.waitSignal(cta, PIECE_SIGNAL, pieces + 1);
        check_part(call, from, round);

        /* What the next rank got from this one. */
        size_t got = (size_t)(GOT_PART + block()) * PART_BYTES;
        ncclGinRequest_t request;
        gin.get(world, next, call.window, part_of(me), call.window, got,
                sizeof(uint64_t) * ELEMENTS, cta);
        if (round % 2) {
            gin.flushAsync(world, (uint32_t)next, &request, cta);
            gin.wait(request, cta);
        } else {
            gin.flush(cta);
        }
        const volatile uint64_t *at =
            (const volatile uint64_t *)ncclGetLocalPointer(call.window, got);
        for (int i = cta.thread_rank(); i < ELEMENTS; i += cta.size())
            EXPECT(call, at[i] == value_of(me, round, i));
        ncclResult_t late = gin.waitSignal(cta, NUMBER, number + 7, 64, ACQUIRE, 1000);
        EXPECT(call, late == (cta.thread_rank() ? ncclSuccess : ncclTimeout));
        ncclGinBarrier(cta, gin, ncclTeamTagWorld(), (uint32_t)block());
        if (round % 3 == 2 && cta.thread_rank() == 0) {
            gin.resetSignal(NUMBER);
            gin.resetSignal(call.window, values);
        }
        ncclGinBarrier(cta, gin, ncclTeamTagWorld(), (uint32_t)block());
    }
}

/* What each rank put before a barrier, without a signal, is at every rank after it. */
template <typename Barrier>
NCCL_DEVICE_INLINE void check_barrier(device_call const &call, ncclTeam team, int round,
                                      Barrier meet_all)
{
    ncclCoopCta cta;
    ncclGin gin(call.comm, 0);
    /* Each kind has a place of its own: ranks of other teams may be ahead. */
    size_t values =
        (size_t)(VALUE_PART + block()) * PART_BYTES + 1024 + (size_t)(round % 8) * 8 * MOST_RANKS;
    const volatile uint64_t *own =
        (const volatile uint64_t *)ncclGetLocalPointer(call.window, values);
    for (int peer = 0; peer < team.nRanks; peer++)
        gin.putValue(team, peer, call.window, values + 8 * (size_t)team.rank,
                     value_of(call.comm.rank, round, 5), ncclGin_None(), cta);
    meet_all();
    for (int peer = 0; peer < team.nRanks; peer++)
        EXPECT(call, own[peer] == value_of(ncclTeamRankToWorld(call.comm, team, peer), round, 5));
    meet_all();
}

NCCL_DEVICE_INLINE void kernel_barriers(device_call const &call)
{
    ncclCoopCta cta;
    ncclGin gin(call.comm, 0);
    uint32_t index = (uint32_t)block();
    ncclTeam world = ncclTeamWorld(call.comm), lsa = ncclTeamLsa(call.comm);
    ncclTeam rail = ncclTeamRail(call.comm);
    for (int round = 8 * call.first; round < 8 * (call.first + call.rounds); round += 8) {
        check_barrier(call, world, round,
                      [&] { ncclBarrier(cta, ncclTeamTagWorld(), gin, index); });
        check_barrier(call, world, round + 1, [&] {
            ncclGinBarrier(cta, ncclGinAllContexts(call.comm), world, call.gin_handle, index);
        });
        check_barrier(call, rail, round + 2,
                      [&] { ncclGinBarrier(cta, gin, ncclTeamTagRail(), index, ACQ_REL); });
        check_barrier(call, rail, round + 3,
                      [&] { ncclBarrier(cta, ncclTeamTagRail(), gin, index); });
        check_barrier(call, lsa, round + 4, [&] {
            ncclBarrierSession<ncclCoopCta> session(cta, ncclTeamTagLsa(), call.comm, index);
            session.sync(cta, ACQ_REL);
        });
        check_barrier(call, world, round + 5, [&] {
            ncclBarrierSession<ncclCoopCta> session(cta, lsa, rail, gin, call.comm.hybridLsaBarrier,
                                                    call.comm.hybridRailGinBarrier, index);
            EXPECT(call, session.sync(cta, ACQ_REL, Put | Get, ~(uint64_t)0 >> 1) == ncclSuccess);
        });
        check_barrier(call, lsa, round + 6, [&] {
            ncclBarrierSession<ncclCoopCta> session(cta, ncclTeamTagWorld(), gin, index);
            session.lsaBarrier().sync(cta, ACQ_REL);
        });
        ncclGinBarrier(cta, gin, ncclTeamTagWorld(), index, RELAXED, ncclGinFenceLevel::None);
    }
    /* The program's own resource, of this rank and of a peer. */
    char *buffer = (char *)ncclGetResourceBufferLocalPointer(call.comm, call.buffer);
    EXPECT(call, ncclGetResourceBuffer(call.comm, call.buffer).localPtr() == buffer);
    EXPECT(call, ncclGetResourceBufferLsaPointer(call.comm, call.buffer, lsa.rank) ==
                     ncclGetResourceBufferPeerPointer(call.comm, call.buffer, world, world.rank));
}

/* A barrier that was not asked for. */
NCCL_DEVICE_INLINE void kernel_bad_index(device_call const &call)
{
    ncclCoopCta cta;
    ncclLsaBarrierSession<ncclCoopCta>(cta, call.comm, ncclTeamTagLsa(), 99).sync(cta, ACQ_REL);
}

/* A barrier to which the other ranks do not come: those call nothing. */
NCCL_DEVICE_INLINE void kernel_alone(device_call const &call)
{
    ncclCoopCta cta;
    if (call.comm.rank == 0)
        ncclGinBarrier(cta, ncclGin(call.comm, 0), ncclTeamTagWorld(), 0);
}

#endif
