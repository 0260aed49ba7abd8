/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of windows in kernels, and ncclSymPtr: a place in a window. */
#ifndef NCCL_DEVICE_PTR_H_
#define NCCL_DEVICE_PTR_H_

#include "left_out.h"

#ifdef __cplusplus

#if WEFT_NCCL_KERNELS

/* The window's memory at this rank. */
NCCL_DEVICE_INLINE void *ncclGetLocalPointer(ncclWindow_t window, size_t offset)
{
    return window->own + offset;
}

/* At rank `peer` of the LSA team, which must be one of it. */
NCCL_DEVICE_INLINE void *ncclGetLsaPointer(ncclWindow_t window, size_t offset, int peer)
{
    return window->first + (uint64_t)(uint32_t)peer * window->stride + offset;
}

/* At rank `peer` of the communicator; NULL: it is not in the LSA team, or the window is memory that
 * peers cannot reach. */
NCCL_DEVICE_INLINE void *ncclGetPeerPointer(ncclWindow_t window, size_t offset, int peer)
{
    int lsa = window->lsa_rank + peer - window->rank;
    return window->first && (uint32_t)lsa < (uint32_t)window->lsa_size
               ? ncclGetLsaPointer(window, offset, lsa)
               : nullptr;
}

/* The same for a member of a team. */
NCCL_DEVICE_INLINE void *ncclGetPeerPointer(ncclWindow_t window, size_t offset, ncclTeam team,
                                            int peer)
{
    return ncclGetPeerPointer(window, offset, window->rank + (peer - team.rank) * team.stride);
}

NCCL_DEVICE_INLINE void *ncclGetResourceBufferLocalPointer(ncclDevComm const &comm,
                                                           ncclDevResourceHandle handle)
{
    return comm.resources.own + ncclGetResourceBufferOffset(handle);
}

NCCL_DEVICE_INLINE void *ncclGetResourceBufferLsaPointer(ncclDevComm const &comm,
                                                         ncclDevResourceHandle handle, int peer)
{
    return comm.resources.first + (uint64_t)(uint32_t)peer * comm.resources.stride +
           ncclGetResourceBufferOffset(handle);
}

/* A member of a team that is in the LSA team. */
NCCL_DEVICE_INLINE void *ncclGetResourceBufferPeerPointer(ncclDevComm const &comm,
                                                          ncclDevResourceHandle handle,
                                                          ncclTeam team, int peer)
{
    return ncclGetResourceBufferLsaPointer(comm, handle, ncclTeamRankToLsa(comm, team, peer));
}

#endif

/* Without a window the offset is an address of this rank. */
template <typename T> struct ncclSymPtr {
    using ElementType = T;
    ncclWindow_t window;
    size_t offset; /* bytes */

    WEFT_NCCL_BOTH constexpr ncclSymPtr(ncclWindow_t of = nullptr, size_t at = 0)
        : window(of), offset(at)
    {
    }
    template <typename U> WEFT_NCCL_BOTH operator ncclSymPtr<U>() const
    {
        return ncclSymPtr<U>(window, offset);
    }
    template <typename Int> WEFT_NCCL_BOTH ncclSymPtr &operator+=(Int elements)
    {
        offset += (size_t)elements * sizeof(T);
        return *this;
    }
    template <typename Int> WEFT_NCCL_BOTH ncclSymPtr &operator-=(Int elements)
    {
        offset -= (size_t)elements * sizeof(T);
        return *this;
    }
#if WEFT_NCCL_KERNELS
    NCCL_DEVICE_INLINE T *localPtr() const
    {
        return window ? (T *)ncclGetLocalPointer(window, offset) : (T *)offset;
    }
    NCCL_DEVICE_INLINE T *lsaPtr(int peer) const
    {
        return (T *)ncclGetLsaPointer(window, offset, peer);
    }
    NCCL_DEVICE_INLINE T *peerPtr(int peer) const
    {
        return (T *)ncclGetPeerPointer(window, offset, peer);
    }
    NCCL_DEVICE_INLINE T *peerPtr(ncclTeam team, int peer) const
    {
        return (T *)ncclGetPeerPointer(window, offset, team, peer);
    }
    template <typename Any> NCCL_DEVICE_INLINE T *multimemPtr(Any) const
    {
        static_assert(sizeof(Any) == 0, "ncclSymPtr::multimemPtr" WEFT_NCCL_NO_MULTIMEM);
        return nullptr;
    }
    template <typename Any> NCCL_DEVICE_INLINE T *lsaMultimemPtr(Any const &) const
    {
        static_assert(sizeof(Any) == 0, "ncclSymPtr::lsaMultimemPtr" WEFT_NCCL_NO_MULTIMEM);
        return nullptr;
    }
#endif
};

template <typename T, typename Int>
WEFT_NCCL_BOTH ncclSymPtr<T> operator+(ncclSymPtr<T> p, Int elements)
{
    return p += elements;
}
template <typename T, typename Int>
WEFT_NCCL_BOTH ncclSymPtr<T> operator-(ncclSymPtr<T> p, Int elements)
{
    return p -= elements;
}
template <typename T> WEFT_NCCL_BOTH ptrdiff_t operator-(ncclSymPtr<T> a, ncclSymPtr<T> b)
{
    return (ptrdiff_t)(a.offset - b.offset) / (ptrdiff_t)sizeof(T);
}
template <typename T> WEFT_NCCL_BOTH bool operator==(ncclSymPtr<T> a, ncclSymPtr<T> b)
{
    return a.window == b.window && a.offset == b.offset;
}
template <typename T> WEFT_NCCL_BOTH bool operator!=(ncclSymPtr<T> a, ncclSymPtr<T> b)
{
    return !(a == b);
}

#if WEFT_NCCL_KERNELS
NCCL_DEVICE_INLINE ncclSymPtr<char> ncclGetResourceBuffer(ncclDevComm const &comm,
                                                          ncclDevResourceHandle handle)
{
    return ncclSymPtr<char>(comm.resourceWindow, ncclGetResourceBufferOffset(handle));
}
#endif

#endif

#endif
