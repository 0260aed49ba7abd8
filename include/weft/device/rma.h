/* SPDX-License-Identifier: Apache-2.0 */
/* Put, get and signals of device code.
 *
 * The destination of a put and the source of a get are symmetric addresses or, where pe is this PE,
 * any address that the device reaches. The other buffer is any memory of this PE. Sizes are in
 * bytes. The functions return no status: an operation that is refused (a peer's address in no
 * segment, no such PE, no path: remote.h) does nothing, leaves a record with its address, and makes
 * the job fail at the host's next call.
 *
 * In the scopes warp and block all threads call with the same arguments. The caller synchronises
 * with threads that wrote to a source before the call (weft_dev_sync_block()). Blocking forms end
 * with a sync of the scope. The _nbi forms do not sync: source and destination belong to the
 * library until a quiet of the scope, or until a sync of the scope and a quiet by one of its
 * threads. */
#ifndef WEFT_DEVICE_RMA_H
#define WEFT_DEVICE_RMA_H

#include <weft/device/move.h>
#include <weft/device/order.h>

/* ----------------------------------------------------------------------------- single values
 *
 * void weft_thread_p8(void *dst, uint8_t value, int pe), _p16, _p32, _p64, _p_f32, _p_f64
 * uint8_t weft_thread_g8(const void *src, int pe), _g16, _g32, _g64, _g_f32, _g_f64
 *     One store or one load of that width, so that a reader never sees a part of a value. The
 *     address is aligned to the width. Each call of g reads the peer's memory and bypasses the L1
 *     cache, so that a loop of g sees what the peer stores meanwhile. g returns 0 when it is
 *     refused.
 * uint8_t weft_thread_g8_cached(const void *src, int pe), _g16, _g32, _g64
 *     For memory that nothing writes while the kernel runs: a plain load, which the L1 cache may
 *     serve, and which the compiler may move or merge with others. Repeated and adjacent reads cost
 *     a fraction of g's. The load sees what was written before the kernel began (in stream order,
 *     or before a barrier of the hosts); it may or may not see what is written while the kernel
 *     runs. */

/* p at an address that weft_dev_in_window() does not cover. */
WEFT_DEVICE_NOINLINE void weft_dev_p_slow(void *dst, uint64_t value, unsigned bytes, int pe)
{
    char *to = weft_dev_is_far(dst, bytes, pe) ? NULL : weft_dev_direct_slow(dst, bytes, pe, 0);
    if (!to)
        WEFT_DEV_CALL_RARELY(weft_dev_remote_p, dst, bytes, value, pe);
    else if (bytes == 8)
        weft_dev_store_u64((uint64_t *)to, value, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    else if (bytes == 4)
        weft_dev_store_u32((uint32_t *)to, (uint32_t)value, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    else if (bytes == 2)
        weft_dev_store_u16((uint16_t *)to, (uint16_t)value, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    else
        weft_dev_store_u8((uint8_t *)to, (uint8_t)value, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
}

/* g at an address that weft_dev_in_window() does not cover. */
WEFT_DEVICE_NOINLINE uint64_t weft_dev_g_slow(const void *src, unsigned bytes, int pe)
{
    const char *from = weft_dev_direct_slow(src, 1, pe, 0);
    if (!from)
        return WEFT_DEV_CALL_RARELY(weft_dev_remote_word, WEFT_DEV_OP_G, 0, src, bytes, 0, 0, pe);
    if (bytes == 8)
        return weft_dev_load_u64((const uint64_t *)from, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    if (bytes == 4)
        return weft_dev_load_u32((const uint32_t *)from, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    if (bytes == 2)
        return weft_dev_load_u16((const uint16_t *)from, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    return weft_dev_load_u8((const uint8_t *)from, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
}

/* Instruction issue limits the rate of a block that only does p or g. Their fast branch therefore
 * calls weft_dev_window_hoisted(), whose result needs no test for NULL. */
#define WEFT_DEV_P_G(N)                                                                            \
    WEFT_DEVICE void weft_thread_p##N(void *dst, uint##N##_t value, int pe)                        \
    {                                                                                              \
        if (WEFT_DEV_LIKELY(weft_dev_word_in_window_hoisted(dst, pe, 1)))                          \
            weft_dev_store_u##N((uint##N##_t *)weft_dev_window_hoisted(dst, pe), value,            \
                                WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);                               \
        else                                                                                       \
            WEFT_DEV_CALL_SLOW(weft_dev_p_slow, dst, value, N / 8, pe);                            \
    }                                                                                              \
    WEFT_DEVICE uint##N##_t weft_thread_g##N(const void *src, int pe)                              \
    {                                                                                              \
        if (WEFT_DEV_LIKELY(weft_dev_word_in_window_hoisted(src, pe, 1)))                          \
            return weft_dev_load_u##N((const uint##N##_t *)weft_dev_window_hoisted(src, pe),       \
                                      WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);                         \
        return (uint##N##_t)WEFT_DEV_CALL_SLOW(weft_dev_g_slow, src, N / 8, pe);                   \
    }                                                                                              \
    WEFT_DEVICE uint##N##_t weft_thread_g##N##_cached(const void *src, int pe)                     \
    {                                                                                              \
        if (WEFT_DEV_LIKELY(weft_dev_word_in_window_hoisted(src, pe, 1)))                          \
            return *(const weft_dev_any_u##N *)weft_dev_window_hoisted(src, pe);                   \
        return (uint##N##_t)WEFT_DEV_CALL_SLOW(weft_dev_g_slow, src, N / 8, pe);                   \
    }
WEFT_DEV_P_G(8)
WEFT_DEV_P_G(16)
WEFT_DEV_P_G(32)
WEFT_DEV_P_G(64)
#undef WEFT_DEV_P_G

WEFT_DEVICE void weft_thread_p_f32(void *dst, float value, int pe)
{
    weft_thread_p32(dst, weft_dev_bits_f32(value), pe);
}

WEFT_DEVICE void weft_thread_p_f64(void *dst, double value, int pe)
{
    weft_thread_p64(dst, weft_dev_bits_f64(value), pe);
}

WEFT_DEVICE float weft_thread_g_f32(const void *src, int pe)
{
    return weft_dev_f32_bits(weft_thread_g32(src, pe));
}

WEFT_DEVICE double weft_thread_g_f64(const void *src, int pe)
{
    return weft_dev_f64_bits(weft_thread_g64(src, pe));
}

/* --------------------------------------------------------------------------------- put, get
 *
 * void weft_{thread,warp,block}_put(void *dst, const void *src, size_t bytes, int pe), _put_nbi
 *     Copies `bytes` bytes from src to dst at PE pe.
 * void weft_{thread,warp,block}_get(void *dst, const void *src, size_t bytes, int pe), _get_nbi
 *     Copies `bytes` bytes from src at PE pe to dst.
 */

/* Whether blocks have queues of their own, see weft_device_queue_mode(). Then the first thread of a
 * block makes all its requests. */
WEFT_DEVICE int weft_dev_owns_queues(void)
{
#if WEFT_TARGET_SIMT || defined WEFT_DEVICE_GDA
    return weft_dev_state.gda.sharing.exclusive != 0;
#else
    return 0;
#endif
}

/* `nbi` of a request to a transport. */
WEFT_DEVICE int weft_dev_request_form(int scope, int nbi)
{
    return scope == WEFT_DEV_BLOCK ? nbi | WEFT_DEV_OF_BLOCK : nbi;
}

/* Rotates a thread's rank: small puts of a block without syncs in between use different warps,
 * selected by their destination, so that several are in flight at a time. */
WEFT_DEVICE unsigned weft_dev_rotated_rank(unsigned rank, unsigned threads, const void *dst)
{
    uint32_t warps = (threads + WEFT_WARP_LANES - 1) / WEFT_WARP_LANES;
    uint32_t mixed = (uint32_t)((uintptr_t)dst >> 9) * 0x9e3779b1u;
    uint32_t start = (uint32_t)((uint64_t)mixed * warps >> 32) * WEFT_WARP_LANES;
    return rank >= start ? rank - start : rank + threads - start;
}

/* On simt an indirect destination is detected here; on a GPU the instructions in every put would
 * cost more. */
WEFT_DEVICE char *weft_dev_put_to(void *dst, size_t bytes, int pe)
{
    return WEFT_TARGET_SIMT && weft_dev_is_far(dst, bytes, pe) ? NULL
                                                               : weft_dev_direct(dst, bytes, pe);
}

WEFT_DEVICE void weft_dev_put(int scope, void *dst, const void *src, size_t bytes, int pe, int nbi)
{
    unsigned rank = weft_dev_scope_rank(scope), threads = weft_dev_scope_threads(scope);
    if (nbi && scope == WEFT_DEV_BLOCK && !(((uintptr_t)dst | (uintptr_t)src | bytes) & 15) &&
        !weft_dev_owns_queues()) {
        rank = weft_dev_rotated_rank(rank, threads, dst);
        if (rank >= bytes / 16)
            return;
    }
    char *to = weft_dev_put_to(dst, bytes, pe);
    if (to)
        weft_dev_move(to, (const char *)src, bytes, rank, threads, 0);
    else if (rank == 0)
        WEFT_DEV_CALL_RARELY(weft_dev_remote_move, WEFT_DEV_OP_PUT, dst, (void *)(uintptr_t)src,
                             bytes, pe, weft_dev_request_form(scope, nbi));
    if (!nbi)
        weft_dev_scope_sync(scope);
}

WEFT_DEVICE void weft_dev_get(int scope, void *dst, const void *src, size_t bytes, int pe, int nbi)
{
    unsigned rank = weft_dev_scope_rank(scope), threads = weft_dev_scope_threads(scope);
    if (nbi && scope == WEFT_DEV_BLOCK && !(((uintptr_t)dst | (uintptr_t)src | bytes) & 15) &&
        !weft_dev_owns_queues()) {
        rank = weft_dev_rotated_rank(rank, threads, dst);
        if (rank >= bytes / 16)
            return;
    }
    const char *from = weft_dev_direct(src, bytes, pe);
    if (from)
        weft_dev_move((char *)dst, from, bytes, rank, threads, 1);
    else if (rank == 0)
        WEFT_DEV_CALL_RARELY(weft_dev_remote_move, WEFT_DEV_OP_GET, src, dst, bytes, pe,
                             weft_dev_request_form(scope, nbi));
    if (!nbi)
        weft_dev_scope_sync(scope);
}

#define WEFT_DEV_PUT_GET(scope, constant)                                                          \
    WEFT_DEVICE void weft_##scope##_put(void *dst, const void *src, size_t bytes, int pe)          \
    {                                                                                              \
        weft_dev_put(constant, dst, src, bytes, pe, 0);                                            \
    }                                                                                              \
    WEFT_DEVICE void weft_##scope##_put_nbi(void *dst, const void *src, size_t bytes, int pe)      \
    {                                                                                              \
        weft_dev_put(constant, dst, src, bytes, pe, 1);                                            \
    }                                                                                              \
    WEFT_DEVICE void weft_##scope##_get(void *dst, const void *src, size_t bytes, int pe)          \
    {                                                                                              \
        weft_dev_get(constant, dst, src, bytes, pe, 0);                                            \
    }                                                                                              \
    WEFT_DEVICE void weft_##scope##_get_nbi(void *dst, const void *src, size_t bytes, int pe)      \
    {                                                                                              \
        weft_dev_get(constant, dst, src, bytes, pe, 1);                                            \
    }
WEFT_DEV_SCOPE_LIST(WEFT_DEV_PUT_GET)
#undef WEFT_DEV_PUT_GET

/* ---------------------------------------------------------------------------------- strided
 *
 * void weft_{thread,warp,block}_iput(void *dst, const void *src, ptrdiff_t dst_stride,
 *                                    ptrdiff_t src_stride, size_t element, size_t n, int pe), _iget
 *     Copies n elements of `element` bytes (1, 2, 4, 8 or 16), aligned to min(element, 8) bytes.
 *     Strides are in elements, at least 1.
 */
WEFT_DEVICE void weft_dev_move_element(char *dst, const char *src, size_t element)
{
    if (element == 16) {
        weft_dev_move_small(dst, src, 16, 0, 1, 1);
    } else if (element == 8) {
        weft_dev_store_u64(
            (uint64_t *)dst,
            weft_dev_load_u64((const uint64_t *)src, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS),
            WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    } else if (element == 4) {
        weft_dev_store_u32(
            (uint32_t *)dst,
            weft_dev_load_u32((const uint32_t *)src, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS),
            WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    } else {
        weft_dev_move_small(dst, src, element, 0, 1, 1);
    }
}

/* Bytes from the first element's start to the last one's end. */
WEFT_DEVICE size_t weft_dev_span(ptrdiff_t stride, size_t element, size_t n)
{
    return n ? ((n - 1) * (size_t)stride + 1) * element : 0;
}

WEFT_DEVICE void weft_dev_strided(int scope, int put, void *dst, const void *src,
                                  ptrdiff_t dst_stride, ptrdiff_t src_stride, size_t element,
                                  size_t n, int pe)
{
    unsigned rank = weft_dev_scope_rank(scope), threads = weft_dev_scope_threads(scope);
    char *to = (char *)dst;
    const char *from = (const char *)src;
    if (put)
        to = weft_dev_direct(dst, weft_dev_span(dst_stride, element, n), pe);
    else
        from = weft_dev_direct(src, weft_dev_span(src_stride, element, n), pe);
    if (to && from)
        for (size_t i = rank; i < n; i += threads)
            weft_dev_move_element(to + i * (size_t)dst_stride * element,
                                  from + i * (size_t)src_stride * element, element);
    else if (rank == 0 && put)
        weft_dev_remote_strided(WEFT_DEV_OP_IPUT, dst, (void *)(uintptr_t)src, dst_stride,
                                src_stride, element, n, pe);
    else if (rank == 0)
        weft_dev_remote_strided(WEFT_DEV_OP_IGET, src, dst, src_stride, dst_stride, element, n, pe);
    weft_dev_scope_sync(scope);
}

#define WEFT_DEV_STRIDED(scope, constant)                                                          \
    WEFT_DEVICE void weft_##scope##_iput(void *dst, const void *src, ptrdiff_t dst_stride,         \
                                         ptrdiff_t src_stride, size_t element, size_t n, int pe)   \
    {                                                                                              \
        weft_dev_strided(constant, 1, dst, src, dst_stride, src_stride, element, n, pe);           \
    }                                                                                              \
    WEFT_DEVICE void weft_##scope##_iget(void *dst, const void *src, ptrdiff_t dst_stride,         \
                                         ptrdiff_t src_stride, size_t element, size_t n, int pe)   \
    {                                                                                              \
        weft_dev_strided(constant, 0, dst, src, dst_stride, src_stride, element, n, pe);           \
    }
WEFT_DEV_SCOPE_LIST(WEFT_DEV_STRIDED)
#undef WEFT_DEV_STRIDED

/* ---------------------------------------------------------------------------------- signals
 *
 * void weft_{thread,warp,block}_put_signal(void *dst, const void *src, size_t bytes,
 *                     uint64_t *signal, uint64_t value, weft_signal_op op, int pe), _put_signal_nbi
 *     A put, after which *signal (symmetric, 8-byte aligned) at the same PE is set to `value`, or
 *     has `value` added, once for the scope. The signal is not visible before the data. If either
 *     address is refused, neither is done. The nbi form may read the source until the next quiet.
 *     The blocking form returns in the scope's first thread when the source may be reused. Other
 *     threads may return earlier: they sync the scope before they write to the source.
 * void weft_thread_signal(uint64_t *signal, uint64_t value, weft_signal_op op, int pe)
 *     Sets *signal at PE pe to `value`, or adds `value` to it.
 * uint64_t weft_thread_signal_fetch(const uint64_t *signal)
 *     Returns a signal in the caller's own memory. Later operations are ordered after what the
 *     signaller did before it signalled.
 */

WEFT_DEVICE char *weft_dev_direct_signal(const uint64_t *signal, weft_signal_op op, int pe)
{
    return op == WEFT_SIGNAL_SET ? weft_dev_direct_word(signal, pe)
                                 : weft_dev_direct_atomic(signal, pe);
}

WEFT_DEVICE void weft_dev_signal_at(char *at, uint64_t value, weft_signal_op op)
{
    if (op == WEFT_SIGNAL_SET)
        weft_dev_store_u64((uint64_t *)at, value, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    else
        weft_dev_atomic_add_u64((uint64_t *)at, value, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
}

WEFT_DEVICE void weft_thread_signal(uint64_t *signal, uint64_t value, weft_signal_op op, int pe)
{
    char *at = weft_dev_direct_signal(signal, op, pe);
    if (at)
        weft_dev_signal_at(at, value, op);
    else
        WEFT_DEV_CALL_RARELY(weft_dev_remote_word, WEFT_DEV_OP_SIGNAL, (int)op, signal, 8, value, 0,
                             pe);
}

WEFT_DEVICE uint64_t weft_thread_signal_fetch(const uint64_t *signal)
{
    return weft_dev_load_u64(signal, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS);
}

/* Moves the data of a put with signal, if they have a direct address. Returns the signal's address
 * at PE pe, or NULL: data or signal have no direct address. */
WEFT_DEVICE char *weft_dev_put_signal_data(int scope, unsigned rank, void *dst, const void *src,
                                           size_t bytes, const uint64_t *signal, weft_signal_op op,
                                           int pe)
{
    char *to, *at;
    if (WEFT_DEV_LIKELY(weft_dev_word_in_window(signal, pe) && weft_dev_in_window(dst, bytes, pe) &&
                        (op == WEFT_SIGNAL_SET || weft_dev_state.all_atomics))) {
        at = weft_dev_window(signal, pe);
        to = weft_dev_window(dst, pe);
    } else {
        to = WEFT_DEV_CALL_SLOW(weft_dev_direct_slow, dst, bytes, pe, 0);
        if (!to)
            return NULL;
        at = weft_dev_direct_signal(signal, op, pe);
    }
    weft_dev_move(to, (const char *)src, bytes, rank, weft_dev_scope_threads(scope), 0);
    return at;
}

/* The sync orders the stores of all threads before the first thread's fence, and that cumulative
 * fence orders them before the signal: one fence of the system instead of one per thread. Litmus
 * test put_signal. The sync also makes the source reusable, so the nbi form differs only with a
 * transport, where it returns when data and signal are issued. */
WEFT_DEVICE void weft_dev_put_signal(int scope, void *dst, const void *src, size_t bytes,
                                     uint64_t *signal, uint64_t value, weft_signal_op op, int pe,
                                     int nbi)
{
    unsigned rank = weft_dev_scope_rank(scope);
    char *at = NULL;
    if (rank < bytes / 16 + 48) /* warps with nothing to move go straight to the sync */
        at = weft_dev_put_signal_data(scope, rank, dst, src, bytes, signal, op, pe);
    weft_dev_scope_sync(scope);
    if (rank != 0)
        return;
    if (!weft_dev_opaque_u64((uintptr_t)at)) { /* tested here alone, and not in each branch above */
        WEFT_DEV_CALL_RARELY(weft_dev_remote_put_signal, dst, src, bytes, signal, value, (int)op,
                             pe, weft_dev_request_form(scope, nbi));
        return;
    }
    weft_dev_fence(WEFT_ORDER_ACQ_REL, WEFT_SCOPE_SYS);
    weft_dev_signal_at(at, value, op);
}

#define WEFT_DEV_PUT_SIGNAL(scope, constant)                                                       \
    WEFT_DEVICE void weft_##scope##_put_signal(void *dst, const void *src, size_t bytes,           \
                                               uint64_t *signal, uint64_t value,                   \
                                               weft_signal_op op, int pe)                          \
    {                                                                                              \
        weft_dev_put_signal(constant, dst, src, bytes, signal, value, op, pe, 0);                  \
    }                                                                                              \
    WEFT_DEVICE void weft_##scope##_put_signal_nbi(void *dst, const void *src, size_t bytes,       \
                                                   uint64_t *signal, uint64_t value,               \
                                                   weft_signal_op op, int pe)                      \
    {                                                                                              \
        weft_dev_put_signal(constant, dst, src, bytes, signal, value, op, pe, 1);                  \
    }
WEFT_DEV_SCOPE_LIST(WEFT_DEV_PUT_SIGNAL)
#undef WEFT_DEV_PUT_SIGNAL

#endif
