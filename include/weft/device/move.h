/* SPDX-License-Identifier: Apache-2.0 */
/* Copies bytes with the threads of a scope: 16 bytes per access, several loads in flight per
 * thread. The unaligned edges are copied in smaller units. A source with a different alignment than
 * its destination is also read by 16-byte loads, and shifted in registers. Knows nothing of PEs.
 *
 * `far_source`: the source is a peer's memory. Its loads bypass the L1 cache, which is not coherent
 * with stores by other PEs to a peer's memory. Stores are plain: a fence and a flag follow. */
#ifndef WEFT_DEVICE_MOVE_H
#define WEFT_DEVICE_MOVE_H

#include <weft/device/simt.h>

/* Loads in flight per thread. At 1024 threads, 4 * 16 bytes each are 64 KiB per SM: more than the
 * 45 KB that an SM has in flight at 45 GB/s and 1 us. They fit the 64 registers per thread of such
 * a block. */
enum { WEFT_DEV_UNROLL = 4 };

/* Fewer bytes that are not all aligned to 16 are copied in units of at most 8. */
enum { WEFT_DEV_MOVE_SMALL = 48 };

WEFT_DEVICE struct weft_dev_vec16 weft_dev_move_load(const char *p, int far_source)
{
    return far_source ? weft_dev_load_vec16_relaxed(p) : weft_dev_load_vec16_whole(p);
}

WEFT_DEVICE uint64_t weft_dev_move_load_u64(const char *p, int far_source)
{
    return far_source ? weft_dev_load_u64((const uint64_t *)p, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS)
                      : *(const weft_dev_any_u64 *)p;
}

/* Copies n units of 16 bytes; both addresses are aligned. */
WEFT_DEVICE void weft_dev_move_vec16(char *dst, const char *src, size_t n, unsigned rank,
                                     unsigned threads, int far_source)
{
    struct weft_dev_vec16 v[WEFT_DEV_UNROLL];
    size_t i = rank;
    /* At most one unit for this thread. The same test for all threads (n <= threads) took longer by
     * clang: 64 KiB of a block 1.07 instead of 1.04 us on an H200. */
    if (i + threads >= n) {
        if (i < n)
            weft_dev_store_vec16_whole(dst + 16 * i, weft_dev_move_load(src + 16 * i, far_source));
        return;
    }
    for (; i + (WEFT_DEV_UNROLL - 1) * (size_t)threads < n;
         i += WEFT_DEV_UNROLL * (size_t)threads) {
        WEFT_UNROLL
        for (int u = 0; u < WEFT_DEV_UNROLL; u++)
            v[u] = weft_dev_move_load(src + 16 * (i + (size_t)u * threads), far_source);
        WEFT_UNROLL
        for (int u = 0; u < WEFT_DEV_UNROLL; u++)
            weft_dev_store_vec16_whole(dst + 16 * (i + (size_t)u * threads), v[u]);
    }
    if (i >= n)
        return;
    /* The rest, fewer than UNROLL units per thread, is also in flight together: loads beyond the
     * end load the last unit again. */
    WEFT_UNROLL
    for (int u = 0; u < WEFT_DEV_UNROLL - 1; u++) {
        size_t at = i + (size_t)u * threads;
        v[u] = weft_dev_move_load(src + 16 * (at < n ? at : n - 1), far_source);
    }
    WEFT_UNROLL
    for (int u = 0; u < WEFT_DEV_UNROLL - 1; u++)
        if (i + (size_t)u * threads < n)
            weft_dev_store_vec16_whole(dst + 16 * (i + (size_t)u * threads), v[u]);
}

/* A few bytes, in the largest unit to which both addresses and the size are aligned. */
#define WEFT_DEV_MOVE_UNITS(N)                                                                     \
    for (size_t i = rank; i < bytes / (N / 8); i += threads)                                       \
    weft_dev_store_u##N((uint##N##_t *)dst + i,                                                    \
                        far_source ? weft_dev_load_u##N((const uint##N##_t *)src + i,              \
                                                        WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS)        \
                                   : ((const weft_dev_any_u##N *)src)[i],                          \
                        WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS)
WEFT_DEVICE_NOINLINE void weft_dev_move_small(char *dst, const char *src, size_t bytes,
                                              unsigned rank, unsigned threads, int far_source)
{
    unsigned odd = (unsigned)((uintptr_t)dst | (uintptr_t)src | bytes) & 7;
    if (odd == 0)
        WEFT_DEV_MOVE_UNITS(64);
    else if ((odd & 3) == 0)
        WEFT_DEV_MOVE_UNITS(32);
    else if ((odd & 1) == 0)
        WEFT_DEV_MOVE_UNITS(16);
    else
        WEFT_DEV_MOVE_UNITS(8);
}

/* The 16 bytes that begin `shift` (1 ... 15) bytes into `a` and continue in `b`. */
WEFT_DEVICE struct weft_dev_vec16 weft_dev_shifted(struct weft_dev_vec16 a, struct weft_dev_vec16 b,
                                                   unsigned shift)
{
    uint64_t w0 = shift < 8 ? a.lo : a.hi;
    uint64_t w1 = shift < 8 ? a.hi : b.lo;
    uint64_t w2 = shift < 8 ? b.lo : b.hi;
    unsigned bits = 8 * (shift & 7);
    struct weft_dev_vec16 v;
    v.lo = w0 >> bits | (w1 << 1) << (63 - bits);
    v.hi = w1 >> bits | (w2 << 1) << (63 - bits);
    return v;
}

/* Copies n units to an aligned dst. src is aligned, and the data begin at src + shift. Reads src to
 * src + 16 * (n + 1). The second load of a pair is the next thread's first load, so it comes from
 * L1. */
WEFT_DEVICE void weft_dev_move_shifted(char *dst, const char *src, unsigned shift, size_t n,
                                       unsigned rank, unsigned threads, int far_source)
{
    enum { PAIRS = WEFT_DEV_UNROLL / 2 };
    struct weft_dev_vec16 a[PAIRS], b[PAIRS];
    for (size_t i = rank; i < n; i += PAIRS * (size_t)threads) {
        WEFT_UNROLL
        for (int u = 0; u < PAIRS; u++) {
            size_t at = i + (size_t)u * threads;
            const char *from = src + 16 * (at < n ? at : n - 1);
            a[u] = weft_dev_move_load(from, far_source);
            b[u] = weft_dev_move_load(from + 16, far_source);
        }
        WEFT_UNROLL
        for (int u = 0; u < PAIRS; u++)
            if (i + (size_t)u * threads < n)
                weft_dev_store_vec16(dst + 16 * (i + (size_t)u * threads),
                                     weft_dev_shifted(a[u], b[u], shift));
    }
}

/* Any addresses, at least WEFT_DEV_MOVE_SMALL bytes. Accesses no byte outside source and
 * destination. */
WEFT_DEVICE_NOINLINE void weft_dev_move_any(char *dst, const char *src, size_t bytes, unsigned rank,
                                            unsigned threads, int far_source)
{
    size_t head = (0 - (uintptr_t)dst) & 15;
    unsigned shift = (unsigned)((uintptr_t)src + head) & 15;
    size_t first = 0, end = (bytes - head) / 16; /* units copied as vectors */
    if (!shift) {
        weft_dev_move_vec16(dst + head, src + head, end, rank, threads, far_source);
    } else {
        /* Unit i is read from the aligned 32 bytes that begin `shift` bytes before it. The first
         * and last units are copied with the edges when those 32 bytes would exceed the source. */
        first = head < shift;
        end = (bytes - head + shift) / 16 - 1;
        weft_dev_move_shifted(dst + head + 16 * first, src + head + 16 * first - shift, shift,
                              end - first, rank, threads, far_source);
    }
    head += 16 * first;
    size_t tail = head + 16 * (end - first);
    weft_dev_move_small(dst, src, head, rank, threads, far_source);
    weft_dev_move_small(dst + tail, src + tail, bytes - tail, rank, threads, far_source);
}

WEFT_DEVICE void weft_dev_move(char *dst, const char *src, size_t bytes, unsigned rank,
                               unsigned threads, int far_source)
{
    if (WEFT_DEV_LIKELY(!(((uintptr_t)dst | (uintptr_t)src | bytes) & 15))) {
        /* A loop of the caller would keep the distances of the units, and spill them. Loads from a
         * peer are quicker with distances that are known before. */
        if (!far_source) {
            rank = weft_dev_in_place(rank);
            threads = weft_dev_in_place(threads);
        }
        weft_dev_move_vec16(dst, src, bytes / 16, rank, threads, far_source);
    } else if (bytes == 8 && !(((uintptr_t)dst | (uintptr_t)src) & 7)) {
        if (rank == 0)
            /* NOLINTNEXTLINE(clang-analyzer-core*): the bytes are there */
            weft_dev_store_u64((uint64_t *)dst, weft_dev_move_load_u64(src, far_source),
                               WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    } else if (bytes < WEFT_DEV_MOVE_SMALL)
        weft_dev_move_small(dst, src, bytes, rank, threads, far_source);
    else
        weft_dev_move_any(dst, src, bytes, rank, threads, far_source);
}

/* ------------------------------------------------------------------------------ one element
 *
 * An element has 1, 2, 4, 8 or 16 bytes and is aligned to its size. One of 16 bytes needs only
 * 8-byte alignment, because its halves are moved separately. */
WEFT_DEVICE struct weft_dev_vec16 weft_dev_element_load(const char *p, size_t bytes)
{
    struct weft_dev_vec16 v = {0, 0};
    if (bytes == 16) {
        v.lo = weft_dev_load_u64((const uint64_t *)p, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
        v.hi = weft_dev_load_u64((const uint64_t *)p + 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    } else if (bytes == 8) {
        v.lo = weft_dev_load_u64((const uint64_t *)p, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    } else if (bytes == 4) {
        v.lo = weft_dev_load_u32((const uint32_t *)p, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    } else if (bytes == 2) {
        v.lo = weft_dev_load_u16((const uint16_t *)p, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    } else {
        v.lo = weft_dev_load_u8((const uint8_t *)p, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    }
    return v;
}

WEFT_DEVICE void weft_dev_element_store(char *p, struct weft_dev_vec16 v, size_t bytes)
{
    if (bytes == 16) {
        weft_dev_store_u64((uint64_t *)p, v.lo, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
        weft_dev_store_u64((uint64_t *)p + 1, v.hi, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    } else if (bytes == 8) {
        weft_dev_store_u64((uint64_t *)p, v.lo, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    } else if (bytes == 4) {
        weft_dev_store_u32((uint32_t *)p, (uint32_t)v.lo, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    } else if (bytes == 2) {
        weft_dev_store_u16((uint16_t *)p, (uint16_t)v.lo, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    } else {
        weft_dev_store_u8((uint8_t *)p, (uint8_t)v.lo, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    }
}

#endif
