/* SPDX-License-Identifier: Apache-2.0 */
/* Put with signal, and signals without data. */
#include "base/compare.h"
#include "base/cpus.h"
#include "job/waiter.h"
#include "ops/access.h"

static inline void apply(uint64_t *at, uint64_t value, weft_signal_op op)
{
    /* Release: pairs with the acquire load of a wait, which then sees the data put before. */
    if (op == WEFT_SIGNAL_SET)
        __atomic_store_n(at, value, __ATOMIC_RELEASE);
    else
        __atomic_fetch_add(at, value, __ATOMIC_RELEASE);
}

static __attribute__((noinline, cold)) weft_status
put_signal_slow(const char *function, weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                uint64_t *signal, uint64_t value, weft_signal_op op, int pe, bool nbi)
{
    struct remote to, at;
    weft_status status = access_check_signal_op(function, op);
    if (!status)
        status = access_resolve_aligned(function, ctx, signal, sizeof *signal, pe, &at);
    if (status)
        return status;
    if (bytes == 0)
        return weft_signal(ctx, signal, value, op, pe);
    status = access_resolve(function, ctx, dst, bytes, pe, &to);
    if (status)
        return status;
    if (!src)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: src is null", function);
    access_count(BOX_OP_SIGNAL, to.peer, bytes, to.offset);
    return ctx_put_signal(ctx, to, src, bytes, at, value, op, nbi);
}

/* Where the CPU changes a signal: its address, which access_direct() would give for a store, and
 * access_atomic() for an addition. */
static inline char *find_signal(const weft_ctx *ctx, const uint64_t *signal, weft_signal_op op,
                                int pe, struct peer **peer, size_t *offset)
{
    return op == WEFT_SIGNAL_SET ? access_direct(ctx, signal, sizeof *signal, pe, peer, offset)
                                 : access_atomic(ctx, signal, sizeof *signal, pe, peer, offset);
}

static inline weft_status put_signal(const char *function, weft_ctx *ctx, void *dst,
                                     const void *src, size_t bytes, uint64_t *signal,
                                     uint64_t value, weft_signal_op op, int pe, bool nbi)
{
    struct peer *peer;
    size_t offset, signal_offset;
    char *to = access_direct(ctx, dst, bytes, pe, &peer, &offset);
    char *at = find_signal(ctx, signal, op, pe, &peer, &signal_offset);
    if (unlikely(!to || !at || !src || (uintptr_t)signal % sizeof *signal || (unsigned)op > 1))
        return put_signal_slow(function, ctx, dst, src, bytes, signal, value, op, pe, nbi);
    access_count(BOX_OP_SIGNAL, peer, bytes, offset);
    access_copy(to, src, bytes);
    apply((uint64_t *)at, value, op);
    return WEFT_OK;
}

WEFT_EXPORT weft_status weft_put_signal(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                                        uint64_t *signal, uint64_t value, weft_signal_op op, int pe)
{
    return put_signal("weft_put_signal", ctx, dst, src, bytes, signal, value, op, pe, false);
}

WEFT_EXPORT weft_status weft_put_signal_nbi(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                                            uint64_t *signal, uint64_t value, weft_signal_op op,
                                            int pe)
{
    return put_signal("weft_put_signal_nbi", ctx, dst, src, bytes, signal, value, op, pe, true);
}

WEFT_EXPORT weft_status weft_signal(weft_ctx *ctx, uint64_t *signal, uint64_t value,
                                    weft_signal_op op, int pe)
{
    struct peer *peer;
    size_t offset;
    char *at = find_signal(ctx, signal, op, pe, &peer, &offset);
    if (likely(at && (unsigned)op <= 1 && (uintptr_t)signal % sizeof *signal == 0)) {
        access_count(BOX_OP_SIGNAL, peer, sizeof *signal, offset);
        if (op == WEFT_SIGNAL_SET)
            __atomic_store_n((uint64_t *)at, value, STORE_AFTER_FENCE);
        else
            __atomic_fetch_add((uint64_t *)at, value, UPDATE_AFTER_FENCE);
        return WEFT_OK;
    }
    weft_status status = access_check_signal_op("weft_signal", op);
    if (status)
        return status;
    struct remote remote;
    status = access_resolve_aligned("weft_signal", ctx, signal, sizeof *signal, pe, &remote);
    if (status)
        return status;
    access_count(BOX_OP_SIGNAL, remote.peer, sizeof *signal, remote.offset);
    return ctx_signal(ctx, remote, value, op, false);
}

static weft_status check_alignment(const char *function, const uint64_t *signal)
{
    if (likely((uintptr_t)signal % sizeof *signal == 0))
        return WEFT_OK;
    return base_fail(WEFT_ERR_ALIGNMENT, "%s: %p is not a multiple of 8", function,
                     (const void *)signal);
}

/* Acquire: pairs with the release in apply(), or its equivalent on other paths. */
static inline uint64_t load_signal(const uint64_t *signal)
{
    uint64_t value = __atomic_load_n(signal, __ATOMIC_ACQUIRE);
    cpu_order_device_loads();
    return value;
}

WEFT_EXPORT weft_status weft_signal_fetch(weft_ctx *ctx, const uint64_t *signal, uint64_t *value)
{
    enum segment_id segment;
    size_t offset;
    weft_status status =
        access_find_own("weft_signal_fetch", ctx, signal, sizeof *signal, &segment, &offset);
    if (!status)
        status = check_alignment("weft_signal_fetch", signal);
    if (status)
        return status;
    if (!value)
        return base_fail(WEFT_ERR_ARGUMENT, "weft_signal_fetch: value is null");
    if (segment == SEG_GPU && gpu_peek(ctx->gpu, (uintptr_t)signal, sizeof *signal, value))
        return WEFT_OK;
    if (segment == SEG_GPU)
        return gpu_access(ctx->gpu, 0, (uintptr_t)signal, GPU_ACCESS_LOAD, sizeof *signal, 0, 0,
                          value);
    *value = load_signal(signal);
    return WEFT_OK;
}

WEFT_EXPORT weft_status weft_signal_wait(weft_ctx *ctx, const uint64_t *signal, weft_cmp cmp,
                                         uint64_t value, uint64_t *seen)
{
    enum segment_id segment;
    size_t offset;
    weft_status status =
        access_find_own("weft_signal_wait", ctx, signal, sizeof *signal, &segment, &offset);
    if (!status)
        status = check_alignment("weft_signal_wait", signal);
    if (status)
        return status;
    if ((unsigned)cmp >= WEFT_CMP_COUNT)
        return base_fail(WEFT_ERR_OP, "weft_signal_wait: comparison %d is not a weft_cmp",
                         (int)cmp);
    struct waiter waiter = WAITER(ctx->job, BOX_OP_SIGNAL_WAIT, -1);
    waiter.segment = segment;
    waiter.offset = offset;
    waiter.expected = value;
    waiter.compare = cmp;
    if (segment == SEG_GPU)
        return access_wait_device(ctx, &waiter, signal, sizeof *signal, false, seen);
    uint64_t now = load_signal(signal);
    while (!compare_holds(now, cmp, value)) {
        status = waiter_step(&waiter, now);
        if (status)
            break;
        now = load_signal(signal);
    }
    waiter_end(&waiter);
    if (seen)
        *seen = now;
    return status;
}
