/* SPDX-License-Identifier: Apache-2.0 */
/* Puts, gets and signals to any rank. A rank that kernels reach by load and store gets them so; to
 * the others the requests go through Weft's device API (docs/device.md, "The proxy"). */
#ifndef NCCL_DEVICE_GIN_H_
#define NCCL_DEVICE_GIN_H_

#include "coop.h"
#include "ptr.h"

typedef enum {
    NCCL_NET_DEVICE_HOST = 0,
    NCCL_NET_DEVICE_UNPACK = 1,
    NCCL_NET_DEVICE_GIN_PROXY = 2,
    NCCL_NET_DEVICE_GIN_GDAKI = 3,
    NCCL_NET_DEVICE_GIN_GPI = 4,
    NCCL_NET_DEVICE_GIN_EFA_GDA = 5
} ncclNetDeviceType;

#define NCCL_GIN_BACKEND_MASK_ALL (1u << NCCL_NET_DEVICE_GIN_PROXY)

/* Hints, which have no effect. */
enum ncclGinOptFlags {
    ncclGinOptFlagsDefault = 0,
    ncclGinOptFlagsMaySkipCreditCheck = 1,
    ncclGinOptFlagsAggregateRequests = 2
};

#if defined __cplusplus && WEFT_NCCL_KERNELS

enum ncclGinResourceSharingMode : uint8_t {
    NCCL_GIN_RESOURCE_SHARING_GPU,
    NCCL_GIN_RESOURCE_SHARING_CTA,
    NCCL_GIN_RESOURCE_SHARING_THREAD
};

/* Shared memory that a program may offer; not used. */
struct ncclGinDescriptorSmem {
    alignas(16) char space[64];
};
struct ncclGin_DescriptorSmem {
    ncclGinDescriptorSmem *descriptor;
};

/* ------------------------------------------------------------------------------------ actions
 *
 * Remote actions, at the peer when the data is there: adds 1, or a value, to a signal of the
 * context, or to 8 bytes of a window (VA). After a strong one all earlier puts of the caller to
 * that peer are there too; one that is neither is strong. Local actions, when the source may be
 * reused.
 */
struct ncclGin_None {
};

#define WEFT_NCCL_SIGNALS(Strength)                                                                \
    struct ncclGin_##Strength##SignalInc {                                                         \
        ncclGinSignal_t signal;                                                                    \
    };                                                                                             \
    struct ncclGin_##Strength##SignalAdd {                                                         \
        ncclGinSignal_t signal;                                                                    \
        uint64_t value;                                                                            \
    };                                                                                             \
    struct ncclGin_##Strength##VASignalInc {                                                       \
        ncclWindow_t signalWindow;                                                                 \
        size_t signalOffset;                                                                       \
    };                                                                                             \
    struct ncclGin_##Strength##VASignalAdd {                                                       \
        ncclWindow_t signalWindow;                                                                 \
        size_t signalOffset;                                                                       \
        uint64_t value;                                                                            \
    };
WEFT_NCCL_SIGNALS()
WEFT_NCCL_SIGNALS(Strong)
WEFT_NCCL_SIGNALS(Weak)
#undef WEFT_NCCL_SIGNALS

struct ncclGin_CounterInc {
    ncclGinCounter_t counter;
};
struct ncclGin_WeakCounterInc {
    ncclGinCounter_t counter;
};

/* What the windows' memory consists of. */
struct ncclGin_SegmentDevice {
};
struct ncclGin_SegmentMixed {
};
struct ncclGin_SegmentHostNuma {
};

/* A remote action: at == nullptr is none. */
struct weft_nccl_signal {
    uint64_t *at; /* as an address of this rank */
    uint64_t value;
    bool strong;
};

/* ---------------------------------------------------------------------- operations of a group */

/* Whether the peer's memory is reached by load and store is the same for all threads. */
template <typename Coop>
NCCL_DEVICE_INLINE void weft_nccl_put(ncclDevComm const &comm, Coop coop, int pe, char *dst,
                                      const char *src, size_t bytes, weft_nccl_signal signal,
                                      uint64_t *counter)
{
    struct weft_device weft = {*comm.weft};
    coop.sync(); /* other threads of the group wrote the source */
    char *to = weft.weft_dev_direct(dst, bytes, pe);
    if (to) {
        weft_dev_move(to, src, bytes, (unsigned)coop.thread_rank(), (unsigned)coop.size(), 0);
        coop.sync();
    }
    if (coop.thread_rank() != 0)
        return;
    if (to && signal.at) {
        weft_dev_fence(WEFT_ORDER_ACQ_REL, WEFT_SCOPE_SYS);
        weft.weft_thread_signal(signal.at, signal.value, WEFT_SIGNAL_ADD, pe);
    } else if (!to && signal.at) {
        if (signal.strong)
            weft.weft_thread_fence();
        if (counter)
            weft.weft_thread_put_signal(dst, src, bytes, signal.at, signal.value, WEFT_SIGNAL_ADD,
                                        pe);
        else
            weft.weft_thread_put_signal_nbi(dst, src, bytes, signal.at, signal.value,
                                            WEFT_SIGNAL_ADD, pe);
    } else if (!to && counter) {
        weft.weft_thread_put(dst, src, bytes, pe);
    } else if (!to) {
        weft.weft_thread_put_nbi(dst, src, bytes, pe);
    }
    if (counter) /* release: the source has been read */
        weft_dev_atomic_add_u64(counter, 1, WEFT_ORDER_RELEASE, WEFT_SCOPE_GPU);
}

template <typename Coop>
NCCL_DEVICE_INLINE void weft_nccl_get(ncclDevComm const &comm, Coop coop, int pe, char *dst,
                                      const char *src, size_t bytes)
{
    struct weft_device weft = {*comm.weft};
    coop.sync();
    const char *from = weft.weft_dev_direct(src, bytes, pe);
    if (from)
        weft_dev_move(dst, from, bytes, (unsigned)coop.thread_rank(), (unsigned)coop.size(), 1);
    else if (coop.thread_rank() == 0)
        weft.weft_thread_get_nbi(dst, src, bytes, pe);
}

template <typename Coop>
NCCL_DEVICE_INLINE void weft_nccl_put_value(ncclDevComm const &comm, Coop coop, int pe, char *dst,
                                            uint64_t value, unsigned bytes, weft_nccl_signal signal)
{
    struct weft_device weft = {*comm.weft};
    coop.sync();
    if (coop.thread_rank() != 0)
        return;
    if (bytes == 8)
        weft.weft_thread_p64(dst, value, pe);
    else if (bytes == 4)
        weft.weft_thread_p32(dst, (uint32_t)value, pe);
    else if (bytes == 2)
        weft.weft_thread_p16(dst, (uint16_t)value, pe);
    else
        weft.weft_thread_p8(dst, (uint8_t)value, pe);
    if (signal.at) {
        weft.weft_thread_fence();
        weft.weft_thread_signal(signal.at, signal.value, WEFT_SIGNAL_ADD, pe);
    }
}

/* Completes what the group did at every rank, in both directions. */
template <typename Coop> NCCL_DEVICE_INLINE void weft_nccl_flush(ncclDevComm const &comm, Coop coop)
{
    struct weft_device weft = {*comm.weft};
    coop.sync();
    if (coop.thread_rank() == 0)
        weft.weft_thread_quiet();
    coop.sync();
}

/* The first thread waits, and its group continues together. */
template <typename Coop>
NCCL_DEVICE_INLINE ncclResult_t weft_nccl_wait_together(ncclDevComm const &comm, Coop coop,
                                                        const uint64_t *at, uint64_t least,
                                                        int bits, cuda::memory_order order,
                                                        uint64_t cycles)
{
    ncclResult_t result = ncclSuccess;
    coop.sync();
    if (coop.thread_rank() == 0)
        result = weft_nccl_wait(comm, at, least, bits, order, -1, cycles);
    coop.sync();
    return result;
}

/* ---------------------------------------------------------------------------------------- GIN
 *
 * One context of an ncclDevComm. The threads of `coop` call an operation together, with the same
 * arguments; a put or get returns before it is complete.
 *
 *   put        bytes of a window to a window at a member of a team, then the actions
 *   putValue   a value of 1, 2, 4 or 8 bytes, aligned
 *   get        bytes of a member's window into an own window; flush() completes it
 *   signal     a remote action alone
 *   flush      completes the operations of the group, of any context; flushAsync() with wait() does
 *              the same
 *   readSignal, waitSignal, resetSignal        of a number, or at 8 bytes of an own window
 *   readCounter, waitCounter, resetCounter
 *
 * Waits compare numbers of `bits` bits that wrap, and are over when the signal is at least `least`.
 * They end when the job fails or after WEFT_WAIT_LIMIT; the next call of the host reports it. Those
 * with `cycles` give ncclTimeout, in the first thread of the group, when these are over. Numbers of
 * signals and counters are not checked. `descriptor`, releases and flags have no effect: each
 * operation is ordered after what its group did before. */
template <unsigned mask> struct ncclGin_BackendMask {
    static_assert(mask & NCCL_GIN_BACKEND_MASK_ALL,
                  "ncclGin_BackendMask: Weft has NCCL_NET_DEVICE_GIN_PROXY alone; use ncclGin");
    ncclDevComm const &comm;
    uint32_t contextId;
    ncclGinResourceSharingMode resourceSharingMode;

    NCCL_DEVICE_INLINE
    ncclGin_BackendMask(ncclDevComm const &of, int contextIndex,
                        ncclGinResourceSharingMode mode = NCCL_GIN_RESOURCE_SHARING_GPU)
        : comm(of), contextId((uint32_t)contextIndex % (uint32_t)of.ginContextCount),
          resourceSharingMode(mode)
    {
    }

    template <typename RemoteAction = ncclGin_None, typename LocalAction = ncclGin_None,
              typename Coop = ncclCoopThread, typename DescriptorSmem = ncclGin_None,
              typename SegmentType = ncclGin_SegmentDevice>
    NCCL_DEVICE_INLINE void
    put(ncclTeam team, int peer, ncclWindow_t dstWnd, size_t dstOffset, ncclWindow_t srcWnd,
        size_t srcOffset, size_t bytes, RemoteAction remoteAction = RemoteAction{},
        LocalAction localAction = LocalAction{}, Coop coop = Coop{},
        DescriptorSmem = DescriptorSmem{}, cuda::thread_scope = cuda::thread_scope_thread,
        cuda::thread_scope = cuda::thread_scope_device, uint32_t = ncclGinOptFlagsDefault,
        SegmentType = SegmentType{}) const
    {
        check_segment(SegmentType{});
        weft_nccl_put(comm, coop, ncclTeamRankToWorld(comm, team, peer), dstWnd->own + dstOffset,
                      srcWnd->own + srcOffset, bytes, signal_of(remoteAction),
                      counter_of(localAction));
    }

    template <typename T, typename RemoteAction = ncclGin_None, typename LocalAction = ncclGin_None,
              typename Coop = ncclCoopThread, typename DescriptorSmem = ncclGin_None,
              typename SegmentType = ncclGin_SegmentDevice>
    NCCL_DEVICE_INLINE void
    put(ncclTeam team, int peer, ncclSymPtr<T> dst, ncclSymPtr<T> src, size_t elements,
        RemoteAction remoteAction = RemoteAction{}, LocalAction localAction = LocalAction{},
        Coop coop = Coop{}, DescriptorSmem = DescriptorSmem{},
        cuda::thread_scope = cuda::thread_scope_thread,
        cuda::thread_scope = cuda::thread_scope_device, uint32_t = ncclGinOptFlagsDefault,
        SegmentType = SegmentType{}) const
    {
        put(team, peer, dst.window, dst.offset, src.window, src.offset, elements * sizeof(T),
            remoteAction, localAction, coop, ncclGin_None{}, cuda::thread_scope_thread,
            cuda::thread_scope_device, ncclGinOptFlagsDefault, SegmentType{});
    }

    template <typename T, typename RemoteAction = ncclGin_None, typename Coop = ncclCoopThread,
              typename DescriptorSmem = ncclGin_None>
    NCCL_DEVICE_INLINE void putValue(ncclTeam team, int peer, ncclWindow_t dstWnd, size_t dstOffset,
                                     T value, RemoteAction remoteAction = RemoteAction{},
                                     Coop coop = Coop{}, DescriptorSmem = DescriptorSmem{},
                                     cuda::thread_scope = cuda::thread_scope_thread,
                                     cuda::thread_scope = cuda::thread_scope_device,
                                     uint32_t = ncclGinOptFlagsDefault) const
    {
        static_assert(sizeof(T) <= 8 && !(sizeof(T) & (sizeof(T) - 1)),
                      "ncclGin::putValue: give a value of 1, 2, 4 or 8 bytes");
        union {
            uint64_t bits;
            T value;
        } of = {};
        of.value = value;
        weft_nccl_put_value(comm, coop, ncclTeamRankToWorld(comm, team, peer),
                            dstWnd->own + dstOffset, of.bits, sizeof(T), signal_of(remoteAction));
    }

    template <typename T, typename RemoteAction = ncclGin_None, typename Coop = ncclCoopThread,
              typename DescriptorSmem = ncclGin_None>
    NCCL_DEVICE_INLINE void putValue(ncclTeam team, int peer, ncclSymPtr<T> dst, T value,
                                     RemoteAction remoteAction = RemoteAction{}, Coop coop = Coop{},
                                     DescriptorSmem = DescriptorSmem{},
                                     cuda::thread_scope = cuda::thread_scope_thread,
                                     cuda::thread_scope = cuda::thread_scope_device,
                                     uint32_t = ncclGinOptFlagsDefault) const
    {
        putValue(team, peer, dst.window, dst.offset, value, remoteAction, coop);
    }

    template <typename Coop = ncclCoopThread, typename DescriptorSmem = ncclGin_None,
              typename SegmentType = ncclGin_SegmentDevice>
    NCCL_DEVICE_INLINE void
    get(ncclTeam team, int peer, ncclWindow_t remoteWnd, size_t remoteOffset, ncclWindow_t localWnd,
        size_t localOffset, size_t bytes, Coop coop = Coop{}, DescriptorSmem = DescriptorSmem{},
        uint32_t = ncclGinOptFlagsDefault, SegmentType = SegmentType{}) const
    {
        check_segment(SegmentType{});
        weft_nccl_get(comm, coop, ncclTeamRankToWorld(comm, team, peer),
                      localWnd->own + localOffset, remoteWnd->own + remoteOffset, bytes);
    }

    template <typename RemoteAction, typename Coop = ncclCoopThread,
              typename DescriptorSmem = ncclGin_None>
    NCCL_DEVICE_INLINE void
    signal(ncclTeam team, int peer, RemoteAction remoteAction, Coop coop = Coop{},
           DescriptorSmem = DescriptorSmem{}, cuda::thread_scope = cuda::thread_scope_thread,
           cuda::thread_scope = cuda::thread_scope_device, uint32_t = ncclGinOptFlagsDefault) const
    {
        struct weft_device weft = {*comm.weft};
        weft_nccl_signal what = signal_of(remoteAction);
        coop.sync();
        if (coop.thread_rank() != 0 || !what.at)
            return;
        weft.weft_thread_fence();
        weft.weft_thread_signal(what.at, what.value, WEFT_SIGNAL_ADD,
                                ncclTeamRankToWorld(comm, team, peer));
    }

    template <typename Coop, typename DescriptorSmem = ncclGin_None>
    NCCL_DEVICE_INLINE void flush(Coop coop, cuda::memory_order = cuda::memory_order_acquire,
                                  DescriptorSmem = DescriptorSmem{}) const
    {
        weft_nccl_flush(comm, coop);
    }
    /* Bounded by WEFT_WAIT_LIMIT, not by `cycles`. */
    template <typename Coop, typename DescriptorSmem = ncclGin_None>
    NCCL_DEVICE_INLINE ncclResult_t flush(Coop coop, cuda::memory_order, DescriptorSmem,
                                          uint64_t cycles) const
    {
        (void)cycles;
        weft_nccl_flush(comm, coop);
        return ncclSuccess;
    }
    template <typename Coop = ncclCoopThread, typename DescriptorSmem = ncclGin_None>
    NCCL_DEVICE_INLINE void flushAsync(ncclTeam, uint32_t, ncclGinRequest_t *request, Coop = Coop{},
                                       uint32_t = ncclGinOptFlagsDefault,
                                       DescriptorSmem = DescriptorSmem{}) const
    {
        *request = ncclGinRequest_t();
    }
    template <typename Coop = ncclCoopThread, typename DescriptorSmem = ncclGin_None>
    NCCL_DEVICE_INLINE void wait(ncclGinRequest_t &, Coop coop = Coop{},
                                 DescriptorSmem = DescriptorSmem{},
                                 cuda::memory_order = cuda::memory_order_acquire) const
    {
        weft_nccl_flush(comm, coop);
    }
    template <typename Coop, typename DescriptorSmem>
    NCCL_DEVICE_INLINE ncclResult_t wait(ncclGinRequest_t &, Coop coop, DescriptorSmem,
                                         cuda::memory_order, uint64_t cycles) const
    {
        (void)cycles;
        weft_nccl_flush(comm, coop);
        return ncclSuccess;
    }

    NCCL_DEVICE_INLINE uint64_t
    readSignal(ncclGinSignal_t signal, int bits = 64,
               cuda::memory_order order = cuda::memory_order_acquire) const
    {
        return weft_nccl_load(signal_at(signal), order) & weft_nccl_mask(bits);
    }
    NCCL_DEVICE_INLINE uint64_t
    readSignal(ncclWindow_t window, size_t offset, int bits = 64,
               cuda::memory_order order = cuda::memory_order_acquire) const
    {
        return weft_nccl_load((uint64_t *)(window->own + offset), order) & weft_nccl_mask(bits);
    }
    NCCL_DEVICE_INLINE uint64_t
    readCounter(ncclGinCounter_t counter, int bits = 56,
                cuda::memory_order order = cuda::memory_order_acquire) const
    {
        return weft_nccl_load(counter_at(counter), order) & weft_nccl_mask(bits);
    }

    template <typename Coop>
    NCCL_DEVICE_INLINE void waitSignal(Coop coop, ncclGinSignal_t signal, uint64_t least,
                                       int bits = 64,
                                       cuda::memory_order order = cuda::memory_order_acquire) const
    {
        weft_nccl_wait_together(comm, coop, signal_at(signal), least, bits, order,
                                WEFT_NCCL_NO_TIMEOUT);
    }
    template <typename Coop>
    NCCL_DEVICE_INLINE ncclResult_t waitSignal(Coop coop, ncclGinSignal_t signal, uint64_t least,
                                               int bits, cuda::memory_order order,
                                               uint64_t cycles) const
    {
        return weft_nccl_wait_together(comm, coop, signal_at(signal), least, bits, order, cycles);
    }
    template <typename Coop>
    NCCL_DEVICE_INLINE void waitSignal(Coop coop, ncclWindow_t window, size_t offset,
                                       uint64_t least, int bits = 64,
                                       cuda::memory_order order = cuda::memory_order_acquire) const
    {
        weft_nccl_wait_together(comm, coop, (uint64_t *)(window->own + offset), least, bits, order,
                                WEFT_NCCL_NO_TIMEOUT);
    }
    template <typename Coop>
    NCCL_DEVICE_INLINE ncclResult_t waitSignal(Coop coop, ncclWindow_t window, size_t offset,
                                               uint64_t least, int bits, cuda::memory_order order,
                                               uint64_t cycles) const
    {
        return weft_nccl_wait_together(comm, coop, (uint64_t *)(window->own + offset), least, bits,
                                       order, cycles);
    }
    template <typename Coop>
    NCCL_DEVICE_INLINE void waitCounter(Coop coop, ncclGinCounter_t counter, uint64_t least,
                                        int bits = 56,
                                        cuda::memory_order order = cuda::memory_order_acquire) const
    {
        weft_nccl_wait_together(comm, coop, counter_at(counter), least, bits, order,
                                WEFT_NCCL_NO_TIMEOUT);
    }
    template <typename Coop>
    NCCL_DEVICE_INLINE ncclResult_t waitCounter(Coop coop, ncclGinCounter_t counter, uint64_t least,
                                                int bits, cuda::memory_order order,
                                                uint64_t cycles) const
    {
        return weft_nccl_wait_together(comm, coop, counter_at(counter), least, bits, order, cycles);
    }

    /* The shadow of a signal is a number for the program. */
    NCCL_DEVICE_INLINE uint64_t *getSignalShadowPtr(ncclGinSignal_t signal) const
    {
        return word_at(comm.gin_shadows, comm.ginSignalCount, signal);
    }
    NCCL_DEVICE_INLINE void increaseSignalShadow(ncclGinSignal_t signal, uint64_t delta) const
    {
        *getSignalShadowPtr(signal) += delta;
    }
    template <typename Coop>
    NCCL_DEVICE_INLINE void
    waitSignalMeetShadow(Coop coop, ncclGinSignal_t signal, int bits = 64,
                         cuda::memory_order order = cuda::memory_order_acquire) const
    {
        coop.sync(); /* another thread may have increased the shadow */
        waitSignal(coop, signal, *getSignalShadowPtr(signal), bits, order);
    }
    /* Waits until the signal is leastDelta above the shadow, which becomes the signal's value.
     * *before: the shadow's old value. *delta: by how much it grew. The same in all threads. */
    template <typename Coop, typename Uint>
    NCCL_DEVICE_INLINE void
    waitSignalFollowShadow(Coop coop, ncclGinSignal_t signal, Uint leastDelta, Uint *before,
                           Uint *delta, int bits = 64,
                           cuda::memory_order order = cuda::memory_order_acquire) const
    {
        uint64_t *shadow = getSignalShadowPtr(signal), seen = 0;
        coop.sync();
        uint64_t old = *shadow;
        waitSignal(coop, signal, old + leastDelta, bits, order);
        if (coop.thread_rank() == 0)
            seen = readSignal(signal, bits, order);
        seen = ncclCoopBcast(coop, seen, 0);
        if (coop.thread_rank() == 0)
            *shadow = seen;
        coop.sync();
        *before = (Uint)old;
        *delta = (Uint)((seen - old) & weft_nccl_mask(bits));
    }

    /* Not while it changes. */
    NCCL_DEVICE_INLINE void resetSignal(ncclGinSignal_t signal) const
    {
        weft_dev_store_u64(signal_at(signal), 0, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
        *getSignalShadowPtr(signal) = 0;
    }
    NCCL_DEVICE_INLINE void resetSignal(ncclWindow_t window, size_t offset) const
    {
        weft_dev_store_u64((uint64_t *)(window->own + offset), 0, WEFT_ORDER_RELAXED,
                           WEFT_SCOPE_SYS);
    }
    NCCL_DEVICE_INLINE void resetCounter(ncclGinCounter_t counter) const
    {
        weft_dev_store_u64(counter_at(counter), 0, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    }

  private:
    NCCL_DEVICE_INLINE uint64_t *word_at(ncclDevResourceHandle handle, int n, uint32_t index) const
    {
        return (uint64_t *)(comm.resources.own + ncclGetResourceBufferOffset(handle)) +
               (uint64_t)contextId * (uint32_t)n + index;
    }
    NCCL_DEVICE_INLINE uint64_t *signal_at(ncclGinSignal_t signal) const
    {
        return word_at(comm.gin_signals, comm.ginSignalCount, signal);
    }
    NCCL_DEVICE_INLINE uint64_t *counter_at(ncclGinCounter_t counter) const
    {
        return word_at(comm.gin_counters, comm.ginCounterCount, counter);
    }

#define WEFT_NCCL_SIGNALS(Strength, strong)                                                        \
    NCCL_DEVICE_INLINE weft_nccl_signal signal_of(ncclGin_##Strength##SignalInc a) const           \
    {                                                                                              \
        return {signal_at(a.signal), 1, strong};                                                   \
    }                                                                                              \
    NCCL_DEVICE_INLINE weft_nccl_signal signal_of(ncclGin_##Strength##SignalAdd a) const           \
    {                                                                                              \
        return {signal_at(a.signal), a.value, strong};                                             \
    }                                                                                              \
    NCCL_DEVICE_INLINE weft_nccl_signal signal_of(ncclGin_##Strength##VASignalInc a) const         \
    {                                                                                              \
        return {(uint64_t *)(a.signalWindow->own + a.signalOffset), 1, strong};                    \
    }                                                                                              \
    NCCL_DEVICE_INLINE weft_nccl_signal signal_of(ncclGin_##Strength##VASignalAdd a) const         \
    {                                                                                              \
        return {(uint64_t *)(a.signalWindow->own + a.signalOffset), a.value, strong};              \
    }
    WEFT_NCCL_SIGNALS(, true)
    WEFT_NCCL_SIGNALS(Strong, true)
    WEFT_NCCL_SIGNALS(Weak, false)
#undef WEFT_NCCL_SIGNALS
    NCCL_DEVICE_INLINE weft_nccl_signal signal_of(ncclGin_None) const
    {
        return {nullptr, 0, false};
    }
    template <typename Other> NCCL_DEVICE_INLINE weft_nccl_signal signal_of(Other) const
    {
        static_assert(sizeof(Other) == 0, "ncclGin: this is no remote action of Weft; give "
                                          "ncclGin_None, ncclGin_SignalInc, ncclGin_SignalAdd, "
                                          "ncclGin_VASignalInc or ncclGin_VASignalAdd");
        return {};
    }
    NCCL_DEVICE_INLINE uint64_t *counter_of(ncclGin_CounterInc a) const
    {
        return counter_at(a.counter);
    }
    NCCL_DEVICE_INLINE uint64_t *counter_of(ncclGin_WeakCounterInc a) const
    {
        return counter_at(a.counter);
    }
    NCCL_DEVICE_INLINE uint64_t *counter_of(ncclGin_None) const
    {
        return nullptr;
    }
    template <typename Other> NCCL_DEVICE_INLINE uint64_t *counter_of(Other) const
    {
        static_assert(sizeof(Other) == 0, "ncclGin: this is no local action of Weft; give "
                                          "ncclGin_None or ncclGin_CounterInc");
        return nullptr;
    }
    template <typename SegmentType> NCCL_DEVICE_INLINE void check_segment(SegmentType) const
    {
        static_assert(sizeof(SegmentType) == 0,
                      "ncclGin: Weft's windows are GPU memory; give ncclGin_SegmentDevice");
    }
    NCCL_DEVICE_INLINE void check_segment(ncclGin_SegmentDevice) const
    {
    }
};

template <ncclNetDeviceType backend>
using ncclGin_BackendOne = ncclGin_BackendMask<(1u << (unsigned)backend)>;
using ncclGin = ncclGin_BackendMask<NCCL_GIN_BACKEND_MASK_ALL>;

#endif

#endif
