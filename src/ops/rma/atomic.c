/* SPDX-License-Identifier: Apache-2.0 */
/* Atomics. Over a load/store path they are CPU atomics, which are atomic between all PEs of the
 * node. Fetching atomics are acquire-release, so locks built on them need no extra fence. */
#include "ops/access.h"

#define RELAXED UPDATE_AFTER_FENCE
#define ACQ_REL __ATOMIC_ACQ_REL

static __attribute__((noinline, cold)) weft_status
amo_slow(const char *function, weft_ctx *ctx, weft_amo amo, size_t width, const void *dst,
         uint64_t value, uint64_t expected, void *fetched, int pe, bool nbi)
{
    struct remote at;
    weft_status status = access_resolve_aligned(function, ctx, dst, width, pe, &at);
    if (status)
        return status;
    if (amo >= WEFT_AMO_FETCH && !fetched)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: fetched is null", function);
    at = ctx_atomic(ctx, at);
    access_count(BOX_OP_ATOMIC, at.peer, width, at.offset);
    struct gpu *gpu = ctx->job->gpu;
    if (!fetched || !gpu || gpu_place_of(gpu, fetched) != GPU_PLACE_DEVICE)
        return at.peer->ops->atomic(at, amo, width, value, expected, fetched, nbi);
    /* Paths store the fetched value with the CPU, which cannot access this memory. */
    uint64_t before = 0;
    status = at.peer->ops->atomic(at, amo, width, value, expected, &before, false);
    return status ? status : gpu_copy(gpu, 0, fetched, &before, width, GPU_DONE);
}

#define MODIFY(name, AMO, width, type, statement)                                                  \
    WEFT_EXPORT weft_status weft_atomic_##name##width(weft_ctx *ctx, void *dst, type value,        \
                                                      int pe)                                      \
    {                                                                                              \
        struct peer *peer;                                                                         \
        size_t offset;                                                                             \
        type *at = (type *)access_atomic(ctx, dst, sizeof(type), pe, &peer, &offset);              \
        if (unlikely(!at || (uintptr_t)dst % sizeof(type)))                                        \
            return amo_slow("weft_atomic_" #name #width, ctx, WEFT_AMO_##AMO, sizeof(type), dst,   \
                            value, 0, NULL, pe, false);                                            \
        access_count(BOX_OP_ATOMIC, peer, sizeof(type), offset);                                   \
        statement;                                                                                 \
        return WEFT_OK;                                                                            \
    }

#define FETCH(name, AMO, width, type, expression)                                                  \
    WEFT_EXPORT weft_status weft_atomic_##name##width(weft_ctx *ctx, void *dst, type value,        \
                                                      type *fetched, int pe)                       \
    {                                                                                              \
        struct peer *peer;                                                                         \
        size_t offset;                                                                             \
        type *at = (type *)access_atomic(ctx, dst, sizeof(type), pe, &peer, &offset);              \
        if (unlikely(!at || !fetched || (uintptr_t)dst % sizeof(type)))                            \
            return amo_slow("weft_atomic_" #name #width, ctx, WEFT_AMO_##AMO, sizeof(type), dst,   \
                            value, 0, fetched, pe, false);                                         \
        access_count(BOX_OP_ATOMIC, peer, sizeof(type), offset);                                   \
        *fetched = expression;                                                                     \
        return WEFT_OK;                                                                            \
    }

#define ATOMICS(width, type)                                                                       \
    MODIFY(set, SET, width, type, __atomic_store_n(at, value, STORE_AFTER_FENCE))                  \
    MODIFY(add, ADD, width, type, __atomic_fetch_add(at, value, RELAXED))                          \
    MODIFY(and, AND, width, type, __atomic_fetch_and(at, value, RELAXED))                          \
    MODIFY(or, OR, width, type, __atomic_fetch_or(at, value, RELAXED))                             \
    MODIFY(xor, XOR, width, type, __atomic_fetch_xor(at, value, RELAXED))                          \
    FETCH(swap, SWAP, width, type, __atomic_exchange_n(at, value, ACQ_REL))                        \
    FETCH(fetch_add, FETCH_ADD, width, type, __atomic_fetch_add(at, value, ACQ_REL))               \
    FETCH(fetch_and, FETCH_AND, width, type, __atomic_fetch_and(at, value, ACQ_REL))               \
    FETCH(fetch_or, FETCH_OR, width, type, __atomic_fetch_or(at, value, ACQ_REL))                  \
    FETCH(fetch_xor, FETCH_XOR, width, type, __atomic_fetch_xor(at, value, ACQ_REL))               \
                                                                                                   \
    WEFT_EXPORT weft_status weft_atomic_fetch##width(weft_ctx *ctx, const void *src,               \
                                                     type *fetched, int pe)                        \
    {                                                                                              \
        struct peer *peer;                                                                         \
        size_t offset;                                                                             \
        type *at = (type *)access_atomic(ctx, src, sizeof(type), pe, &peer, &offset);              \
        if (unlikely(!at || !fetched || (uintptr_t)src % sizeof(type)))                            \
            return amo_slow("weft_atomic_fetch" #width, ctx, WEFT_AMO_FETCH, sizeof(type), src, 0, \
                            0, fetched, pe, false);                                                \
        access_count(BOX_OP_ATOMIC, peer, sizeof(type), offset);                                   \
        *fetched = __atomic_load_n(at, __ATOMIC_ACQUIRE);                                          \
        return WEFT_OK;                                                                            \
    }                                                                                              \
                                                                                                   \
    WEFT_EXPORT weft_status weft_atomic_cswap##width(weft_ctx *ctx, void *dst, type expected,      \
                                                     type value, type *fetched, int pe)            \
    {                                                                                              \
        struct peer *peer;                                                                         \
        size_t offset;                                                                             \
        type *at = (type *)access_atomic(ctx, dst, sizeof(type), pe, &peer, &offset);              \
        if (unlikely(!at || !fetched || (uintptr_t)dst % sizeof(type)))                            \
            return amo_slow("weft_atomic_cswap" #width, ctx, WEFT_AMO_CSWAP, sizeof(type), dst,    \
                            value, expected, fetched, pe, false);                                  \
        access_count(BOX_OP_ATOMIC, peer, sizeof(type), offset);                                   \
        __atomic_compare_exchange_n(at, &expected, value, false, ACQ_REL, __ATOMIC_ACQUIRE);       \
        *fetched = expected;                                                                       \
        return WEFT_OK;                                                                            \
    }

WEFT_ATOMIC_WIDTH_LIST(ATOMICS)

WEFT_EXPORT weft_status weft_atomic_nbi(weft_ctx *ctx, weft_amo amo, size_t width, void *dst,
                                        uint64_t expected, uint64_t value, void *fetched, int pe)
{
    if ((unsigned)amo >= WEFT_AMO_COUNT)
        return base_fail(WEFT_ERR_OP, "weft_atomic_nbi: operation %d is not a weft_amo", (int)amo);
    if (width != 4 && width != 8)
        return base_fail(WEFT_ERR_TYPE, "weft_atomic_nbi: width %zu; 4 or 8 is needed", width);
    return amo_slow("weft_atomic_nbi", ctx, amo, width, dst, value, expected, fetched, pe, true);
}
