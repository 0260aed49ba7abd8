/* SPDX-License-Identifier: Apache-2.0 */
/* <nvshmem.h>: put, get, their nbi and strided forms, single values, signals, fence and quiet.
 * Every function is one line of a family below; the page nvshmem-reference lists them by name. */
#ifndef WEFT_NVSHMEM_RMA_H
#define WEFT_NVSHMEM_RMA_H

#include <weft/nvshmem/types.h>

#define WEFT_NV_HOST_DO(call, name) weft_nvshmem_require(call, name)
/* The same; an address `remote` of this PE that is not symmetric is used as a plain address. */
#define WEFT_NV_HOST_MOVE(call, remote, name)                                                      \
    weft_nvshmem_require(weft_nvshmem_or_own(call, remote, dest, src, 1, 1, 1, bytes, pe), name)
#define WEFT_NV_HOST_STRIDED(call, remote, name)                                                   \
    weft_nvshmem_require(weft_nvshmem_or_own(call, remote, dest, src, dst, sst, element, n, pe),   \
                         name)

/* ----------------------------------------------------------------------- the untyped functions
 * Warp and block forms begin with a sync of the scope: programs for this API expect that data that
 * other threads wrote to the source are sent. */

WEFT_NV_BOTH void weft_nv_put(void *dest, const void *src, size_t bytes, int pe)
{
    WEFT_NV_SPLIT(
        weft_thread_put(dest, src, bytes, pe),
        WEFT_NV_HOST_MOVE(weft_put(weft_nvshmem_ctx(), dest, src, bytes, pe), dest, "nvshmem_put"));
}

WEFT_NV_BOTH void weft_nv_put_nbi(void *dest, const void *src, size_t bytes, int pe)
{
    WEFT_NV_SPLIT(weft_thread_put_nbi(dest, src, bytes, pe),
                  WEFT_NV_HOST_MOVE(weft_put_nbi(weft_nvshmem_ctx(), dest, src, bytes, pe), dest,
                                    "nvshmem_put_nbi"));
}

WEFT_NV_BOTH void weft_nv_get(void *dest, const void *src, size_t bytes, int pe)
{
    WEFT_NV_SPLIT(
        weft_thread_get(dest, src, bytes, pe),
        WEFT_NV_HOST_MOVE(weft_get(weft_nvshmem_ctx(), dest, src, bytes, pe), src, "nvshmem_get"));
}

WEFT_NV_BOTH void weft_nv_get_nbi(void *dest, const void *src, size_t bytes, int pe)
{
    WEFT_NV_SPLIT(weft_thread_get_nbi(dest, src, bytes, pe),
                  WEFT_NV_HOST_MOVE(weft_get_nbi(weft_nvshmem_ctx(), dest, src, bytes, pe), src,
                                    "nvshmem_get_nbi"));
}

WEFT_NV_BOTH void weft_nv_iput(void *dest, const void *src, ptrdiff_t dst, ptrdiff_t sst,
                               size_t element, size_t n, int pe)
{
    WEFT_NV_SPLIT(
        weft_thread_iput(dest, src, dst, sst, element, n, pe),
        WEFT_NV_HOST_STRIDED(weft_iput(weft_nvshmem_ctx(), dest, src, dst, sst, element, n, pe),
                             dest, "nvshmem_iput"));
}

WEFT_NV_BOTH void weft_nv_iget(void *dest, const void *src, ptrdiff_t dst, ptrdiff_t sst,
                               size_t element, size_t n, int pe)
{
    WEFT_NV_SPLIT(
        weft_thread_iget(dest, src, dst, sst, element, n, pe),
        WEFT_NV_HOST_STRIDED(weft_iget(weft_nvshmem_ctx(), dest, src, dst, sst, element, n, pe),
                             src, "nvshmem_iget"));
}

WEFT_NV_HOST void weft_nv_p_host(void *dest, uint64_t bits, size_t bytes, int pe)
{
    weft_ctx *ctx = weft_nvshmem_ctx();
    weft_status status = bytes == 8   ? weft_p64(ctx, dest, bits, pe)
                         : bytes == 4 ? weft_p32(ctx, dest, (uint32_t)bits, pe)
                         : bytes == 2 ? weft_p16(ctx, dest, (uint16_t)bits, pe)
                                      : weft_p8(ctx, dest, (uint8_t)bits, pe);
    weft_nvshmem_require(weft_nvshmem_or_own(status, dest, dest, &bits, 1, 1, 1, bytes, pe),
                         "nvshmem_p"); /* little-endian */
}

#if WEFT_NV_DEVICE_PART
WEFT_NV_DEVICE void weft_nv_p_device(void *dest, uint64_t bits, size_t bytes, int pe)
{
    if (bytes == 8)
        weft_thread_p64(dest, bits, pe);
    else if (bytes == 4)
        weft_thread_p32(dest, (uint32_t)bits, pe);
    else if (bytes == 2)
        weft_thread_p16(dest, (uint16_t)bits, pe);
    else
        weft_thread_p8(dest, (uint8_t)bits, pe);
}
#endif

/* One access of `bytes` bytes, a constant, with the bit pattern `bits`. */
WEFT_NV_BOTH void weft_nv_p(void *dest, uint64_t bits, size_t bytes, int pe)
{
    WEFT_NV_SPLIT(weft_nv_p_device(dest, bits, bytes, pe), weft_nv_p_host(dest, bits, bytes, pe));
}

WEFT_NV_HOST uint64_t weft_nv_g_host(const void *src, size_t bytes, int pe)
{
    union {
        uint64_t v64;
        uint32_t v32;
        uint16_t v16;
        uint8_t v8;
    } bits = {0}; /* little-endian */
    weft_ctx *ctx = weft_nvshmem_ctx();
    weft_status status = bytes == 8   ? weft_g64(ctx, src, &bits.v64, pe)
                         : bytes == 4 ? weft_g32(ctx, src, &bits.v32, pe)
                         : bytes == 2 ? weft_g16(ctx, src, &bits.v16, pe)
                                      : weft_g8(ctx, src, &bits.v8, pe);
    weft_nvshmem_require(weft_nvshmem_or_own(status, src, &bits, src, 1, 1, 1, bytes, pe),
                         "nvshmem_g");
    return bits.v64;
}

/* g in device code reads the peer's memory at each call. A unit that defines WEFT_NVSHMEM_CACHED_G
 * before it includes <nvshmem.h> gets weft_thread_g*_cached() instead, for data that do not change
 * while a kernel runs; it must not wait for a value in a loop of g. */
#if WEFT_NV_DEVICE_PART
WEFT_NV_DEVICE uint64_t weft_nv_g_device(const void *src, size_t bytes, int pe)
{
#ifdef WEFT_NVSHMEM_CACHED_G
    return bytes == 8   ? weft_thread_g64_cached(src, pe)
           : bytes == 4 ? weft_thread_g32_cached(src, pe)
           : bytes == 2 ? weft_thread_g16_cached(src, pe)
                        : weft_thread_g8_cached(src, pe);
#else
    return bytes == 8   ? weft_thread_g64(src, pe)
           : bytes == 4 ? weft_thread_g32(src, pe)
           : bytes == 2 ? weft_thread_g16(src, pe)
                        : weft_thread_g8(src, pe);
#endif
}
#endif

WEFT_NV_BOTH uint64_t weft_nv_g(const void *src, size_t bytes, int pe)
{
    WEFT_NV_SPLIT(return weft_nv_g_device(src, bytes, pe), return weft_nv_g_host(src, bytes, pe));
}

#define WEFT_NV_UNTYPED_GROUP(scope, constant)                                                     \
    WEFT_NV_DEVICE void weft_nv_put_##scope(void *dest, const void *src, size_t bytes, int pe)     \
    {                                                                                              \
        weft_dev_scope_sync(constant);                                                             \
        weft_##scope##_put(dest, src, bytes, pe);                                                  \
    }                                                                                              \
    WEFT_NV_DEVICE void weft_nv_put_nbi_##scope(void *dest, const void *src, size_t bytes, int pe) \
    {                                                                                              \
        weft_dev_scope_sync(constant);                                                             \
        weft_##scope##_put_nbi(dest, src, bytes, pe);                                              \
    }                                                                                              \
    WEFT_NV_DEVICE void weft_nv_get_##scope(void *dest, const void *src, size_t bytes, int pe)     \
    {                                                                                              \
        weft_dev_scope_sync(constant);                                                             \
        weft_##scope##_get(dest, src, bytes, pe);                                                  \
    }                                                                                              \
    WEFT_NV_DEVICE void weft_nv_get_nbi_##scope(void *dest, const void *src, size_t bytes, int pe) \
    {                                                                                              \
        weft_dev_scope_sync(constant);                                                             \
        weft_##scope##_get_nbi(dest, src, bytes, pe);                                              \
    }                                                                                              \
    WEFT_NV_DEVICE void weft_nv_put_signal_##scope(void *dest, const void *src, size_t bytes,      \
                                                   uint64_t *sig_addr, uint64_t signal,            \
                                                   int sig_op, int pe)                             \
    {                                                                                              \
        weft_dev_scope_sync(constant);                                                             \
        weft_##scope##_put_signal(dest, src, bytes, sig_addr, signal, WEFT_NV_SIGNAL(sig_op), pe); \
    }                                                                                              \
    WEFT_NV_DEVICE void weft_nv_iput_##scope(void *dest, const void *src, ptrdiff_t dst,           \
                                             ptrdiff_t sst, size_t element, size_t n, int pe)      \
    {                                                                                              \
        weft_dev_scope_sync(constant);                                                             \
        weft_##scope##_iput(dest, src, dst, sst, element, n, pe);                                  \
    }                                                                                              \
    WEFT_NV_DEVICE void weft_nv_iget_##scope(void *dest, const void *src, ptrdiff_t dst,           \
                                             ptrdiff_t sst, size_t element, size_t n, int pe)      \
    {                                                                                              \
        weft_dev_scope_sync(constant);                                                             \
        weft_##scope##_iget(dest, src, dst, sst, element, n, pe);                                  \
    }
WEFT_NV_GROUPS(WEFT_NV_UNTYPED_GROUP)
#undef WEFT_NV_UNTYPED_GROUP

/* -------------------------------------------------------------------------- families of names */

/* put, get and nbi of elements of `unit` bytes, type T. */
#define WEFT_NV_MOVE_FAMILY(put, put_nbi, get, get_nbi, T, unit)                                   \
    WEFT_NV_BOTH void nvshmem_##put(T *dest, const T *source, size_t nelems, int pe)               \
    {                                                                                              \
        weft_nv_put(dest, source, nelems *(unit), pe);                                             \
    }                                                                                              \
    WEFT_NV_BOTH void nvshmem_##put_nbi(T *dest, const T *source, size_t nelems, int pe)           \
    {                                                                                              \
        weft_nv_put_nbi(dest, source, nelems *(unit), pe);                                         \
    }                                                                                              \
    WEFT_NV_BOTH void nvshmem_##get(T *dest, const T *source, size_t nelems, int pe)               \
    {                                                                                              \
        weft_nv_get(dest, source, nelems *(unit), pe);                                             \
    }                                                                                              \
    WEFT_NV_BOTH void nvshmem_##get_nbi(T *dest, const T *source, size_t nelems, int pe)           \
    {                                                                                              \
        weft_nv_get_nbi(dest, source, nelems *(unit), pe);                                         \
    }                                                                                              \
    WEFT_NV_MOVE_GROUP(put, put_nbi, get, get_nbi, T, unit, warp)                                  \
    WEFT_NV_MOVE_GROUP(put, put_nbi, get, get_nbi, T, unit, block)

#if WEFT_NV_DEVICE_PART
#define WEFT_NV_MOVE_GROUP(put, put_nbi, get, get_nbi, T, unit, scope)                             \
    WEFT_NV_DEVICE void nvshmemx_##put##_##scope(T *dest, const T *source, size_t nelems, int pe)  \
    {                                                                                              \
        weft_nv_put_##scope(dest, source, nelems *(unit), pe);                                     \
    }                                                                                              \
    WEFT_NV_DEVICE void nvshmemx_##put_nbi##_##scope(T *dest, const T *source, size_t nelems,      \
                                                     int pe)                                       \
    {                                                                                              \
        weft_nv_put_nbi_##scope(dest, source, nelems *(unit), pe);                                 \
    }                                                                                              \
    WEFT_NV_DEVICE void nvshmemx_##get##_##scope(T *dest, const T *source, size_t nelems, int pe)  \
    {                                                                                              \
        weft_nv_get_##scope(dest, source, nelems *(unit), pe);                                     \
    }                                                                                              \
    WEFT_NV_DEVICE void nvshmemx_##get_nbi##_##scope(T *dest, const T *source, size_t nelems,      \
                                                     int pe)                                       \
    {                                                                                              \
        weft_nv_get_nbi_##scope(dest, source, nelems *(unit), pe);                                 \
    }
#else
#define WEFT_NV_MOVE_GROUP(put, put_nbi, get, get_nbi, T, unit, scope)
#endif

/* Only device code has put_signal; its nbi form is the same. */
#if WEFT_NV_DEVICE_PART
#define WEFT_NV_SIGNAL_ONE(name, T, unit, how)                                                     \
    WEFT_NV_DEVICE void name(T *dest, const T *source, size_t nelems, uint64_t *sig_addr,          \
                             uint64_t signal, int sig_op, int pe)                                  \
    {                                                                                              \
        how(dest, source, nelems *(unit), sig_addr, signal, sig_op, pe);                           \
    }
#else
#define WEFT_NV_SIGNAL_ONE(name, T, unit, how)
#endif
#define WEFT_NV_SIGNAL_FAMILY(put_signal, T, unit)                                                 \
    WEFT_NV_SIGNAL_ONE(nvshmem_##put_signal, T, unit, weft_nv_put_signal)                          \
    WEFT_NV_SIGNAL_ONE(nvshmem_##put_signal##_nbi, T, unit, weft_nv_put_signal)                    \
    WEFT_NV_SIGNAL_ONE(nvshmemx_##put_signal##_warp, T, unit, weft_nv_put_signal_warp)             \
    WEFT_NV_SIGNAL_ONE(nvshmemx_##put_signal##_nbi_warp, T, unit, weft_nv_put_signal_warp)         \
    WEFT_NV_SIGNAL_ONE(nvshmemx_##put_signal##_block, T, unit, weft_nv_put_signal_block)           \
    WEFT_NV_SIGNAL_ONE(nvshmemx_##put_signal##_nbi_block, T, unit, weft_nv_put_signal_block)

#if WEFT_NV_DEVICE_PART
WEFT_NV_DEVICE void weft_nv_put_signal(void *dest, const void *src, size_t bytes,
                                       uint64_t *sig_addr, uint64_t signal, int sig_op, int pe)
{
    weft_thread_put_signal(dest, src, bytes, sig_addr, signal, WEFT_NV_SIGNAL(sig_op), pe);
}
#endif

#define WEFT_NV_STRIDED_FAMILY(iput, iget, T, unit)                                                \
    WEFT_NV_BOTH void nvshmem_##iput(T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst,       \
                                     size_t nelems, int pe)                                        \
    {                                                                                              \
        weft_nv_iput(dest, source, dst, sst, unit, nelems, pe);                                    \
    }                                                                                              \
    WEFT_NV_BOTH void nvshmem_##iget(T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst,       \
                                     size_t nelems, int pe)                                        \
    {                                                                                              \
        weft_nv_iget(dest, source, dst, sst, unit, nelems, pe);                                    \
    }                                                                                              \
    WEFT_NV_STRIDED_GROUP(iput, iget, T, unit, warp)                                               \
    WEFT_NV_STRIDED_GROUP(iput, iget, T, unit, block)
#if WEFT_NV_DEVICE_PART
#define WEFT_NV_STRIDED_GROUP(iput, iget, T, unit, scope)                                          \
    WEFT_NV_DEVICE void nvshmemx_##iput##_##scope(T *dest, const T *source, ptrdiff_t dst,         \
                                                  ptrdiff_t sst, size_t nelems, int pe)            \
    {                                                                                              \
        weft_nv_iput_##scope(dest, source, dst, sst, unit, nelems, pe);                            \
    }                                                                                              \
    WEFT_NV_DEVICE void nvshmemx_##iget##_##scope(T *dest, const T *source, ptrdiff_t dst,         \
                                                  ptrdiff_t sst, size_t nelems, int pe)            \
    {                                                                                              \
        weft_nv_iget_##scope(dest, source, dst, sst, unit, nelems, pe);                            \
    }
#else
#define WEFT_NV_STRIDED_GROUP(iput, iget, T, unit, scope)
#endif

/* nvshmem_TYPE_put ... nvshmemx_TYPE_iget_block, and p and g. */
#define WEFT_NV_RMA_TYPE(name, T)                                                                  \
    WEFT_NV_BOTH void nvshmem_##name##_p(T *dest, T value, int pe)                                 \
    {                                                                                              \
        uint64_t bits = 0;                                                                         \
        memcpy(&bits, &value, sizeof value); /* little-endian, as every target is */               \
        weft_nv_p(dest, bits, sizeof(T), pe);                                                      \
    }                                                                                              \
    WEFT_NV_BOTH T nvshmem_##name##_g(const T *source, int pe)                                     \
    {                                                                                              \
        uint64_t bits = weft_nv_g(source, sizeof(T), pe);                                          \
        T value;                                                                                   \
        memcpy((void *)&value, &bits, sizeof value);                                               \
        return value;                                                                              \
    }                                                                                              \
    WEFT_NV_MOVE_FAMILY(name##_put, name##_put_nbi, name##_get, name##_get_nbi, T, sizeof(T))      \
    WEFT_NV_SIGNAL_FAMILY(name##_put_signal, T, sizeof(T))                                         \
    WEFT_NV_STRIDED_FAMILY(name##_iput, name##_iget, T, sizeof(T))
WEFT_NV_RMA_TYPES(WEFT_NV_RMA_TYPE)

/* nvshmem_put32 ... */
#define WEFT_NV_RMA_SIZE(bits, bytes)                                                              \
    WEFT_NV_MOVE_FAMILY(put##bits, put##bits##_nbi, get##bits, get##bits##_nbi, void, bytes)       \
    WEFT_NV_SIGNAL_FAMILY(put##bits##_signal, void, bytes)                                         \
    WEFT_NV_STRIDED_FAMILY(iput##bits, iget##bits, void, bytes)
WEFT_NV_RMA_SIZES(WEFT_NV_RMA_SIZE)

/* nvshmem_putmem ... */
WEFT_NV_MOVE_FAMILY(putmem, putmem_nbi, getmem, getmem_nbi, void, 1)
WEFT_NV_SIGNAL_FAMILY(putmem_signal, void, 1)

#if WEFT_NV_DEVICE_PART
/* Called by all threads of a block: a put that adds its size in bytes to a signal at PE pe when the
 * data have arrived. */
WEFT_NV_DEVICE int nvshmemx_putmem_signal_counted_nbi_block(void *dest, const void *source,
                                                            size_t bytes, uint64_t *signal_addr,
                                                            int pe)
{
    nvshmemx_putmem_signal_nbi_block(dest, source, bytes, signal_addr, bytes, NVSHMEM_SIGNAL_ADD,
                                     pe);
    return NVSHMEMX_SUCCESS;
}
#endif

#undef WEFT_NV_RMA_TYPE
#undef WEFT_NV_RMA_SIZE
#undef WEFT_NV_MOVE_FAMILY
#undef WEFT_NV_MOVE_GROUP
#undef WEFT_NV_SIGNAL_FAMILY
#undef WEFT_NV_SIGNAL_ONE
#undef WEFT_NV_STRIDED_FAMILY
#undef WEFT_NV_STRIDED_GROUP

/* ------------------------------------------------------------------------ signals and ordering */

WEFT_NV_BOTH void nvshmemx_signal_op(uint64_t *sig_addr, uint64_t signal, int sig_op, int pe)
{
    WEFT_NV_SPLIT(weft_thread_signal(sig_addr, signal, WEFT_NV_SIGNAL(sig_op), pe),
                  WEFT_NV_HOST_DO(
                      weft_signal(weft_nvshmem_ctx(), sig_addr, signal, WEFT_NV_SIGNAL(sig_op), pe),
                      "nvshmemx_signal_op"));
}

WEFT_NV_HOST uint64_t weft_nv_signal_fetch_host(const uint64_t *sig_addr)
{
    uint64_t value = 0;
    weft_nvshmem_require(weft_signal_fetch(weft_nvshmem_ctx(), sig_addr, &value),
                         "nvshmem_signal_fetch");
    return value;
}

WEFT_NV_BOTH uint64_t nvshmem_signal_fetch(uint64_t *sig_addr)
{
    WEFT_NV_SPLIT(return weft_thread_signal_fetch(sig_addr),
                         return weft_nv_signal_fetch_host(sig_addr));
}

/* Sets a counted signal of this PE to 0. */
WEFT_NV_BOTH void nvshmemx_signal_counted_reset(uint64_t *signal_addr)
{
    nvshmemx_signal_op(signal_addr, 0, NVSHMEM_SIGNAL_SET, nvshmem_my_pe());
}

WEFT_NV_BOTH void nvshmem_fence(void)
{
    WEFT_NV_SPLIT(weft_thread_fence(),
                  WEFT_NV_HOST_DO(weft_fence(weft_nvshmem_ctx()), "nvshmem_fence"));
}

WEFT_NV_BOTH void nvshmem_quiet(void)
{
    WEFT_NV_SPLIT(weft_thread_quiet(),
                  WEFT_NV_HOST_DO(weft_quiet(weft_nvshmem_ctx()), "nvshmem_quiet"));
}

/* Returns when the sources of earlier nbi puts may be reused. A quiet guarantees that and more. */
WEFT_NV_BOTH void nvshmemx_flush(void)
{
    nvshmem_quiet();
}

#define WEFT_NV_FLUSH(scope, constant)                                                             \
    WEFT_NV_DEVICE void nvshmemx_flush_##scope(void)                                               \
    {                                                                                              \
        weft_##scope##_quiet();                                                                    \
    }
WEFT_NV_GROUPS(WEFT_NV_FLUSH)
#undef WEFT_NV_FLUSH

#endif
