/* SPDX-License-Identifier: Apache-2.0 */
/* fence and quiet. Over load/store paths they are one instruction of the CPU; paths that hold
 * something back are asked only by contexts that have such a path. */
#include "ops/access.h"

static weft_status check(const char *function, const weft_ctx *ctx)
{
    if (unlikely(!ctx))
        return base_fail(WEFT_ERR_ARGUMENT, "%s: ctx is null", function);
    if (unlikely(!ctx->npes))
        return job_finalized(function);
    return WEFT_OK;
}

WEFT_EXPORT weft_status weft_fence(weft_ctx *ctx)
{
    weft_status status = check("weft_fence", ctx);
    if (unlikely(status))
        return status;
    if (unlikely(ctx->buffered))
        for (int i = 0; i < PATH_COUNT && !status; i++)
            if (ctx->states[i])
                status = path_weak_ops.fence(ctx->states[i]);
    /* A later store by the CPU must not overtake a copy that is under way. */
    if (unlikely(ctx->gpu != NULL) && !status)
        status = gpu_quiet(ctx->gpu);
    /* Stores before are seen before stores after: pairs with the acquire loads of waits. */
    atomic_thread_fence(memory_order_release);
    return status;
}

WEFT_EXPORT weft_status weft_quiet(weft_ctx *ctx)
{
    weft_status status = check("weft_quiet", ctx);
    if (unlikely(status))
        return status;
    if (unlikely(ctx->buffered))
        for (int i = 0; i < PATH_COUNT && !status; i++)
            if (ctx->states[i])
                status = path_weak_ops.quiet(ctx->states[i]);
    if (unlikely(ctx->gpu != NULL) && !status)
        status = gpu_quiet(ctx->gpu);
    /* Complete means: seen by everyone before this PE's next load. Only a full fence drains the
     * store buffer (litmus test store_buffering). */
    atomic_thread_fence(memory_order_seq_cst);
    return status;
}
