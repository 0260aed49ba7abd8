/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of threads that call an operation together: each has thread_rank(), size(), num_threads()
 * and sync(). */
#ifndef NCCL_DEVICE_COOP_H_
#define NCCL_DEVICE_COOP_H_

#include "core.h"

#if defined __cplusplus && WEFT_NCCL_KERNELS

/* N threads of a warp that begin at a multiple of N, a power of 2. */
template <int N> struct ncclCoopTile {
    static_assert(N > 0 && N <= 32 && !(N & (N - 1)), "ncclCoopTile: give a power of 2, up to 32");

    NCCL_DEVICE_INLINE int thread_rank() const
    {
        return (int)(weft_dev_lane() % N);
    }
    NCCL_DEVICE_INLINE constexpr int size() const
    {
        return N;
    }
    NCCL_DEVICE_INLINE constexpr int num_threads() const
    {
        return N;
    }
    NCCL_DEVICE_INLINE uint32_t laneMask() const
    {
        return (~0u >> (32 - N)) << (weft_dev_lane() / N * N);
    }
    NCCL_DEVICE_INLINE void sync() const
    {
        if (N > 1)
            weft_dev_sync_warp(laneMask());
    }
};

typedef ncclCoopTile<1> ncclCoopThread;
typedef ncclCoopTile<32> ncclCoopWarp;

/* The lanes of the calling warp that are in a mask. */
struct ncclCoopLanes {
    uint32_t lmask;

    NCCL_DEVICE_INLINE constexpr ncclCoopLanes(uint32_t mask = ~0u) : lmask(mask)
    {
    }
    NCCL_DEVICE_INLINE int thread_rank() const
    {
        return (int)weft_dev_popcount_u32(lmask & ((1u << weft_dev_lane()) - 1));
    }
    NCCL_DEVICE_INLINE int size() const
    {
        return (int)weft_dev_popcount_u32(lmask);
    }
    NCCL_DEVICE_INLINE int num_threads() const
    {
        return size();
    }
    NCCL_DEVICE_INLINE void sync() const
    {
        weft_dev_sync_warp(lmask);
    }
};

/* All threads of the block. */
struct ncclCoopCta {
    NCCL_DEVICE_INLINE int thread_rank() const
    {
        return (int)weft_dev_thread_rank();
    }
    NCCL_DEVICE_INLINE int size() const
    {
        return (int)weft_dev_block_threads();
    }
    NCCL_DEVICE_INLINE int num_threads() const
    {
        return size();
    }
    NCCL_DEVICE_INLINE void sync() const
    {
        weft_dev_sync_block();
    }
};

#if WEFT_TARGET_CUDA
/* Warps warp0 ... warp0 + nWarps - 1 of the block. The program gives each span that is in use at a
 * time an id of its own, 0 ... 14. */
struct ncclCoopWarpSpan {
    uint32_t warp0 : 8, nWarps : 8, id : 8;

    NCCL_DEVICE_INLINE constexpr ncclCoopWarpSpan(int first, int warps, int number)
        : warp0((uint32_t)first), nWarps((uint32_t)warps), id((uint32_t)number)
    {
    }
    NCCL_DEVICE_INLINE int thread_rank() const
    {
        return (int)weft_dev_thread_rank() - 32 * (int)warp0;
    }
    NCCL_DEVICE_INLINE int size() const
    {
        return 32 * (int)nWarps;
    }
    NCCL_DEVICE_INLINE int num_threads() const
    {
        return size();
    }
    NCCL_DEVICE_INLINE void sync() const
    {
        asm volatile("bar.sync %0, %1;" : : "r"(1 + id), "r"(32 * nWarps) : "memory");
    }
};
#endif

/* Any of these, chosen when the kernel runs. */
struct ncclCoopAny {
    enum kind { LANES, SPAN, CTA };
    kind what;
    uint32_t lmask, span[3];

    template <int N>
    NCCL_DEVICE_INLINE ncclCoopAny(ncclCoopTile<N> coop) : what(LANES), lmask(coop.laneMask())
    {
    }
    NCCL_DEVICE_INLINE ncclCoopAny(ncclCoopLanes coop) : what(LANES), lmask(coop.lmask)
    {
    }
    NCCL_DEVICE_INLINE ncclCoopAny(ncclCoopCta) : what(CTA), lmask(~0u)
    {
    }
#if WEFT_TARGET_CUDA
    NCCL_DEVICE_INLINE ncclCoopAny(ncclCoopWarpSpan coop)
        : what(SPAN), lmask(~0u), span{coop.warp0, coop.nWarps, coop.id}
    {
    }
    NCCL_DEVICE_INLINE ncclCoopWarpSpan as_span() const
    {
        return ncclCoopWarpSpan((int)span[0], (int)span[1], (int)span[2]);
    }
#else
    NCCL_DEVICE_INLINE ncclCoopCta as_span() const
    {
        return ncclCoopCta();
    }
#endif
    NCCL_DEVICE_INLINE int thread_rank() const
    {
        return what == LANES  ? ncclCoopLanes(lmask).thread_rank()
               : what == SPAN ? as_span().thread_rank()
                              : ncclCoopCta().thread_rank();
    }
    NCCL_DEVICE_INLINE int size() const
    {
        return what == LANES  ? ncclCoopLanes(lmask).size()
               : what == SPAN ? as_span().size()
                              : ncclCoopCta().size();
    }
    NCCL_DEVICE_INLINE int num_threads() const
    {
        return size();
    }
    NCCL_DEVICE_INLINE void sync() const
    {
        if (what == LANES)
            ncclCoopLanes(lmask).sync();
        else if (what == SPAN)
            as_span().sync();
        else
            ncclCoopCta().sync();
    }
};

/* ------------------------------------------------------------------------- questions about them */

/* Lanes of the calling warp that are in the group. */
template <int N> NCCL_DEVICE_INLINE uint32_t ncclCoopGetLaneMask(ncclCoopTile<N> coop)
{
    return coop.laneMask();
}
NCCL_DEVICE_INLINE uint32_t ncclCoopGetLaneMask(ncclCoopLanes coop)
{
    return coop.lmask;
}
template <typename Coop> NCCL_DEVICE_INLINE uint32_t ncclCoopGetLaneMask(Coop)
{
    return ~0u;
}

/* Whether the compiler knows that the group is one thread, and that it is in one warp. */
template <int N> NCCL_DEVICE_INLINE constexpr bool ncclCoopIsThread(ncclCoopTile<N>)
{
    return N == 1;
}
template <typename Coop> NCCL_DEVICE_INLINE constexpr bool ncclCoopIsThread(Coop)
{
    return false;
}
template <int N> NCCL_DEVICE_INLINE constexpr bool ncclCoopWithinWarp(ncclCoopTile<N>)
{
    return true;
}
NCCL_DEVICE_INLINE constexpr bool ncclCoopWithinWarp(ncclCoopLanes)
{
    return true;
}
template <typename Coop> NCCL_DEVICE_INLINE constexpr bool ncclCoopWithinWarp(Coop)
{
    return false;
}

/* Lanes of the calling warp that may act together: those that are converged now, and those of a
 * group whose threads all call. */
NCCL_DEVICE_INLINE ncclCoopLanes ncclCoopCoalesced()
{
    return ncclCoopLanes((uint32_t)weft_dev_active_mask());
}
template <int N> NCCL_DEVICE_INLINE ncclCoopTile<N> ncclCoopCoalesced(ncclCoopTile<N> coop)
{
    return coop;
}
NCCL_DEVICE_INLINE ncclCoopLanes ncclCoopCoalesced(ncclCoopLanes coop)
{
    return coop;
}
template <typename Coop> NCCL_DEVICE_INLINE ncclCoopWarp ncclCoopCoalesced(Coop)
{
    return ncclCoopWarp();
}

/* ---------------------------------------------------------------------------------- broadcast
 *
 * T ncclCoopBcast(coop, T value, int root, bool entrySync)
 *     The value of thread `root` of the group. Up to 16 bytes in a span or a block, where
 *     entrySync = false says that the threads have synchronised since the last broadcast. */

template <typename T> NCCL_DEVICE_INLINE T weft_nccl_shuffle(uint32_t mask, T value, unsigned lane)
{
    enum { WORDS = (sizeof(T) + 3) / 4 };
    union {
        uint32_t word[WORDS];
        T value;
    } of = {};
    of.value = value;
    for (int i = 0; i < WORDS; i++)
        of.word[i] = weft_dev_shuffle_u32(mask, of.word[i], lane);
    return of.value;
}

template <int N, typename T>
NCCL_DEVICE_INLINE T ncclCoopBcast(ncclCoopTile<N> coop, T value, int root, bool = true)
{
    return weft_nccl_shuffle(coop.laneMask(), value, weft_dev_lane() / N * N + (unsigned)root);
}

template <typename T>
NCCL_DEVICE_INLINE T ncclCoopBcast(ncclCoopLanes coop, T value, int root, bool = true)
{
    uint32_t left = coop.lmask;
    while (root-- > 0)
        left &= left - 1;
    return weft_nccl_shuffle(coop.lmask, value, weft_dev_find_first_u32(left) - 1);
}

template <typename Coop, typename T>
NCCL_DEVICE_INLINE T weft_nccl_broadcast(Coop coop, T value, int root, bool entrySync, T *slot)
{
    if (entrySync)
        coop.sync();
    if (coop.thread_rank() == root)
        *slot = value;
    coop.sync();
    return *slot;
}

template <typename T>
NCCL_DEVICE_INLINE T ncclCoopBcast(ncclCoopCta coop, T value, int root, bool entrySync = true)
{
    static_assert(sizeof(T) <= 16, "ncclCoopBcast: give a value of up to 16 bytes");
    WEFT_SHARED(uint64_t, slot, [2]);
    return weft_nccl_broadcast(coop, value, root, entrySync, (T *)&slot[0]);
}

#if WEFT_TARGET_CUDA
template <typename T>
NCCL_DEVICE_INLINE T ncclCoopBcast(ncclCoopWarpSpan coop, T value, int root, bool entrySync = true)
{
    static_assert(sizeof(T) <= 16, "ncclCoopBcast: give a value of up to 16 bytes");
    WEFT_SHARED(uint64_t, slots, [2 * 15]);
    return weft_nccl_broadcast(coop, value, root, entrySync, (T *)&slots[2 * coop.id]);
}
#endif

#endif

#endif
