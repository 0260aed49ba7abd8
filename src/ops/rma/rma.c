/* SPDX-License-Identifier: Apache-2.0 */
/* put and get: contiguous, single values, strided. */
#include "ops/access.h"

static weft_status null_argument(const char *function, const char *name)
{
    return base_fail(WEFT_ERR_ARGUMENT, "%s: %s is null", function, name);
}

/* Puts that are not to mapped host memory. Not marked cold, because all puts to GPU memory come
 * here. */
static __attribute__((noinline)) weft_status put_slow(const char *function, weft_ctx *ctx,
                                                      void *dst, const void *src, size_t bytes,
                                                      int pe, bool nbi)
{
    struct remote to;
    struct peer *peer;
    size_t offset;
    char *direct = access_guarded(ctx, dst, bytes, pe, &peer, &offset);
    if (direct && src && !access_is_device(ctx, src)) {
        access_count(BOX_OP_PUT, peer, bytes, offset);
        access_copy(direct, src, bytes);
        return WEFT_OK;
    }
    weft_status status = access_resolve(function, ctx, dst, bytes, pe, &to);
    if (status)
        return bytes == 0 && status == WEFT_ERR_ARGUMENT && ctx ? WEFT_OK : status;
    if (bytes == 0)
        return WEFT_OK;
    if (!src)
        return null_argument(function, "src");
    access_count(BOX_OP_PUT, to.peer, bytes, to.offset);
    return to.peer->ops->put(to, src, bytes, nbi);
}

static __attribute__((noinline)) weft_status get_slow(const char *function, weft_ctx *ctx,
                                                      void *dst, const void *src, size_t bytes,
                                                      int pe, bool nbi)
{
    struct remote from;
    struct peer *peer;
    size_t offset;
    const char *direct = access_guarded(ctx, src, bytes, pe, &peer, &offset);
    if (direct && dst && !access_is_device(ctx, dst)) {
        access_count(BOX_OP_GET, peer, bytes, offset);
        access_fetch(dst, direct, bytes);
        return WEFT_OK;
    }
    weft_status status = access_resolve(function, ctx, src, bytes, pe, &from);
    if (status)
        return bytes == 0 && status == WEFT_ERR_ARGUMENT && ctx ? WEFT_OK : status;
    if (bytes == 0)
        return WEFT_OK;
    if (!dst)
        return null_argument(function, "dst");
    access_count(BOX_OP_GET, from.peer, bytes, from.offset);
    return from.peer->ops->get(from, dst, bytes, nbi);
}

WEFT_EXPORT weft_status weft_put(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe)
{
    struct peer *peer;
    size_t offset;
    char *to = access_direct(ctx, dst, bytes, pe, &peer, &offset);
    if (unlikely(!to || !src))
        return put_slow("weft_put", ctx, dst, src, bytes, pe, false);
    access_count(BOX_OP_PUT, peer, bytes, offset);
    access_copy(to, src, bytes);
    return WEFT_OK;
}

WEFT_EXPORT weft_status weft_get(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe)
{
    struct peer *peer;
    size_t offset;
    const char *from = access_direct(ctx, src, bytes, pe, &peer, &offset);
    if (unlikely(!from || !dst))
        return get_slow("weft_get", ctx, dst, src, bytes, pe, false);
    access_count(BOX_OP_GET, peer, bytes, offset);
    access_fetch(dst, from, bytes);
    return WEFT_OK;
}

WEFT_EXPORT weft_status weft_put_nbi(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                                     int pe)
{
    struct peer *peer;
    size_t offset;
    char *to = access_direct(ctx, dst, bytes, pe, &peer, &offset);
    if (unlikely(!to || !src))
        return put_slow("weft_put_nbi", ctx, dst, src, bytes, pe, true);
    access_count(BOX_OP_PUT, peer, bytes, offset);
    access_copy(to, src, bytes);
    return WEFT_OK;
}

WEFT_EXPORT weft_status weft_get_nbi(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                                     int pe)
{
    struct peer *peer;
    size_t offset;
    const char *from = access_direct(ctx, src, bytes, pe, &peer, &offset);
    if (unlikely(!from || !dst))
        return get_slow("weft_get_nbi", ctx, dst, src, bytes, pe, true);
    access_count(BOX_OP_GET, peer, bytes, offset);
    access_copy(dst, from, bytes);
    return WEFT_OK;
}

WEFT_EXPORT weft_status weft_put_vector(weft_ctx *ctx, void *dst, const void *src,
                                        ptrdiff_t dst_stride, ptrdiff_t src_stride, size_t bytes,
                                        size_t n, const int *pes, size_t *done)
{
    weft_status status = WEFT_OK;
    size_t i = 0;
    if (n && (!dst || !src || !pes))
        status = base_fail(WEFT_ERR_ARGUMENT, "weft_put_vector: dst, src or pes is null");
    for (; i < n && !status; i++) {
        ptrdiff_t k = (ptrdiff_t)i;
        status = weft_put(ctx, (char *)dst + k * dst_stride, (const char *)src + k * src_stride,
                          bytes, pes[i]);
    }
    if (done)
        *done = status && i ? i - 1 : i;
    return status;
}

/* ----------------------------------------------------------------------------- single values */

static __attribute__((noinline)) weft_status p_slow(const char *function, weft_ctx *ctx, void *dst,
                                                    const void *value, size_t width, int pe)
{
    struct remote to;
    weft_status status = access_resolve_aligned(function, ctx, dst, width, pe, &to);
    if (status)
        return status;
    access_count(BOX_OP_PUT, to.peer, width, to.offset);
    return to.peer->ops->store(to, value, width);
}

static __attribute__((noinline)) weft_status
g_slow(const char *function, weft_ctx *ctx, const void *src, void *value, size_t width, int pe)
{
    struct remote from;
    weft_status status = access_resolve_aligned(function, ctx, src, width, pe, &from);
    if (status)
        return status;
    if (!value)
        return null_argument(function, "value");
    access_count(BOX_OP_GET, from.peer, width, from.offset);
    return from.peer->ops->load(from, value, width);
}

#define SINGLE_VALUE(bits)                                                                         \
    WEFT_EXPORT weft_status weft_p##bits(weft_ctx *ctx, void *dst, uint##bits##_t value, int pe)   \
    {                                                                                              \
        struct peer *peer;                                                                         \
        size_t offset;                                                                             \
        char *to = access_direct(ctx, dst, bits / 8, pe, &peer, &offset);                          \
        if (unlikely(!to || (uintptr_t)dst % (bits / 8)))                                          \
            return p_slow("weft_p" #bits, ctx, dst, &value, bits / 8, pe);                         \
        access_count(BOX_OP_PUT, peer, bits / 8, offset);                                          \
        __atomic_store_n((uint##bits##_t *)to, value, STORE_AFTER_FENCE);                          \
        return WEFT_OK;                                                                            \
    }                                                                                              \
    WEFT_EXPORT weft_status weft_g##bits(weft_ctx *ctx, const void *src, uint##bits##_t *value,    \
                                         int pe)                                                   \
    {                                                                                              \
        struct peer *peer;                                                                         \
        size_t offset;                                                                             \
        const char *from = access_direct(ctx, src, bits / 8, pe, &peer, &offset);                  \
        if (unlikely(!from || !value || (uintptr_t)src % (bits / 8)))                              \
            return g_slow("weft_g" #bits, ctx, src, value, bits / 8, pe);                          \
        access_count(BOX_OP_GET, peer, bits / 8, offset);                                          \
        /* Acquire: see access_fetch(). */                                                         \
        *value = __atomic_load_n((const uint##bits##_t *)from, __ATOMIC_ACQUIRE);                  \
        return WEFT_OK;                                                                            \
    }

SINGLE_VALUE(8)
SINGLE_VALUE(16)
SINGLE_VALUE(32)
SINGLE_VALUE(64)

/* ----------------------------------------------------------------------------------- strided */

/* Bytes from the first byte to the end of the last element. False: the number overflows. */
static bool strided_extent(ptrdiff_t stride, size_t element, size_t n, size_t *extent)
{
    size_t step;
    return !__builtin_mul_overflow((size_t)stride, element, &step) &&
           !__builtin_mul_overflow(step, n - 1, extent) &&
           !__builtin_add_overflow(*extent, element, extent);
}

static weft_status check_strides(const char *function, ptrdiff_t dst_stride, ptrdiff_t src_stride,
                                 size_t element)
{
    if (dst_stride < 1 || src_stride < 1)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: strides are %td and %td; at least 1 is needed",
                         function, dst_stride, src_stride);
    if (element == 0)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: the element has 0 bytes", function);
    return WEFT_OK;
}

WEFT_EXPORT weft_status weft_iput(weft_ctx *ctx, void *dst, const void *src, ptrdiff_t dst_stride,
                                  ptrdiff_t src_stride, size_t element, size_t n, int pe)
{
    weft_status status = check_strides("weft_iput", dst_stride, src_stride, element);
    if (status)
        return status;
    size_t extent = 0;
    if (n && !strided_extent(dst_stride, element, n, &extent))
        extent = SIZE_MAX;
    struct remote to;
    status = access_resolve("weft_iput", ctx, dst, extent, pe, &to);
    if (n == 0 && status == WEFT_ERR_ARGUMENT && ctx)
        return WEFT_OK; /* null, as for a put of 0 bytes */
    if (status || n == 0)
        return status;
    if (!src)
        return null_argument("weft_iput", "src");
    access_count(BOX_OP_PUT, to.peer, element * n, to.offset);
    struct path_strides strides = {.remote_step = (size_t)dst_stride * element,
                                   .local_step = (size_t)src_stride * element,
                                   .element = element,
                                   .n = n};
    return to.peer->ops->iput(to, src, &strides);
}

WEFT_EXPORT weft_status weft_iget(weft_ctx *ctx, void *dst, const void *src, ptrdiff_t dst_stride,
                                  ptrdiff_t src_stride, size_t element, size_t n, int pe)
{
    weft_status status = check_strides("weft_iget", dst_stride, src_stride, element);
    if (status)
        return status;
    size_t extent = 0;
    if (n && !strided_extent(src_stride, element, n, &extent))
        extent = SIZE_MAX;
    struct remote from;
    status = access_resolve("weft_iget", ctx, src, extent, pe, &from);
    if (n == 0 && status == WEFT_ERR_ARGUMENT && ctx)
        return WEFT_OK; /* null, as for a put of 0 bytes */
    if (status || n == 0)
        return status;
    if (!dst)
        return null_argument("weft_iget", "dst");
    access_count(BOX_OP_GET, from.peer, element * n, from.offset);
    struct path_strides strides = {.remote_step = (size_t)src_stride * element,
                                   .local_step = (size_t)dst_stride * element,
                                   .element = element,
                                   .n = n};
    return from.peer->ops->iget(from, dst, &strides);
}
