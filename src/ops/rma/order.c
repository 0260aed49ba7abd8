/* SPDX-License-Identifier: Apache-2.0 */
/* fence and quiet. Over load/store paths each is one CPU instruction. Only contexts with a path
 * that delays operations call the functions of that path. */
#include "ops/access.h"

#include "job/device_state.h"

static weft_status check_order_ctx(const char *function, const weft_ctx *ctx)
{
    if (unlikely(!ctx))
        return base_fail(WEFT_ERR_ARGUMENT, "%s: ctx is null", function);
    if (likely(ctx->quick_npes && !access_failed(ctx)))
        return access_foreign(ctx) ? access_foreign_thread(function, ctx) : WEFT_OK;
    if (!ctx->npes)
        return atomic_load(&ctx->job->state) == JOB_RUNNING ? access_destroyed(function)
                                                            : job_finalized(function);
    if (unlikely(access_failed(ctx)))
        return job_check_failed(ctx->job);
    return access_foreign(ctx) ? access_foreign_thread(function, ctx) : WEFT_OK;
}

WEFT_EXPORT weft_status weft_fence(weft_ctx *ctx)
{
    weft_status status = check_order_ctx("weft_fence", ctx);
    if (unlikely(status))
        return status;
    int open = __atomic_load_n(&ctx->open_count, __ATOMIC_ACQUIRE);
    if (unlikely(open))
        box_record(ctx->job->box, BOX_OP_FENCE, -1, 0, 0);
    for (int i = 0; unlikely(i < open) && !status; i++)
        status = ctx->open[i].ops->fence(ctx->open[i].state);
    /* Release: earlier stores become visible before later ones. Pairs with the acquire loads of
     * waits. */
    atomic_thread_fence(memory_order_release);
    return status;
}

WEFT_EXPORT weft_status weft_quiet(weft_ctx *ctx)
{
    weft_status status = check_order_ctx("weft_quiet", ctx);
    if (unlikely(status))
        return status;
    int open = __atomic_load_n(&ctx->open_count, __ATOMIC_ACQUIRE);
    if (unlikely(open))
        box_record(ctx->job->box, BOX_OP_QUIET, -1, 0, 0);
    for (int i = 0; unlikely(i < open) && !status; i++)
        status = ctx->open[i].ops->quiet(ctx->open[i].state);
    if (unlikely(ctx->job->device) && !status)
        status = device_quiet(ctx->job);
    /* Complete means: visible to every PE before this PE's next load. Only a full fence drains the
     * store buffer (litmus test store_buffering). */
    atomic_thread_fence(memory_order_seq_cst);
    return status;
}
