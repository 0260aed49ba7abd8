/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves addresses off the fast path and reports what is wrong with an argument. */
#include "ops/access.h"

#include "base/compare.h"
#include "base/thread.h"
#include "gpu/register.h"
#include "job/waiter.h"

static const char *const segment_names[SEG_ALL] = {[SEG_HEAP] = "heap",
                                                   [SEG_DATA] = "global data",
                                                   [SEG_SYSTEM] = "system",
                                                   [SEG_GPU] = "GPU heap"};

weft_status access_destroyed(const char *function)
{
    return base_fail(WEFT_ERR_ARGUMENT,
                     "%s: the context has been destroyed, by itself or with its team", function);
}

weft_status access_foreign_thread(const char *function, const struct weft_ctx *ctx)
{
    if (job_acts_for_others)
        return WEFT_OK;
    return base_fail(WEFT_ERR_ARGUMENT,
                     "%s: the context was made with WEFT_CTX_PRIVATE by thread %d and is used by "
                     "thread %d; create one in that thread, or omit the option",
                     function, (int)ctx->owner_number, (int)thread_number());
}

weft_status access_check_signal_op(const char *function, weft_signal_op op)
{
    if (op == WEFT_SIGNAL_SET || op == WEFT_SIGNAL_ADD)
        return WEFT_OK;
    return base_fail(WEFT_ERR_OP, "%s: signal operation %d is neither SET nor ADD", function,
                     (int)op);
}

static weft_status check_running(const char *function, const struct weft_ctx *ctx)
{
    if (!ctx)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: ctx is null", function);
    if (atomic_load(&ctx->job->state) != JOB_RUNNING)
        return job_finalized(function);
    if (!ctx->npes)
        return access_destroyed(function);
    return access_foreign(ctx) ? access_foreign_thread(function, ctx) : WEFT_OK;
}

/* Whether the range is program memory that weft_register_symmetric() has mapped into the address
 * range of the GPU heap. */
static bool find_registered(const struct weft_ctx *ctx, const void *address, size_t bytes,
                            enum segment_id *segment, size_t *offset)
{
    struct gpu *gpu = ctx->gpu;
    if (!gpu || !gpu->heap.registered)
        return false;
    *segment = SEG_GPU;
    *offset = (uintptr_t)address - gpu_heap_own(&gpu->heap)->base;
    return gpu_registered_holds(&gpu->heap, *offset, bytes);
}

bool access_find(const struct weft_ctx *ctx, const void *address, size_t bytes,
                 enum segment_id *segment, size_t *offset)
{
    for (int s = 0; s < SEG_ALL; s++) {
        size_t off = (uintptr_t)address - ctx->seg[s].base;
        if (off < ctx->seg[s].size && bytes <= ctx->seg[s].size - off) {
            *segment = (enum segment_id)s;
            *offset = off + ctx->skipped[s];
            return true;
        }
    }
    return find_registered(ctx, address, bytes, segment, offset);
}

static weft_status find_failed(const char *function, const struct weft_ctx *ctx,
                               const void *address, size_t bytes)
{
    if (!address)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: the symmetric address is null", function);
    for (int s = 0; s < SEG_ALL; s++) {
        size_t off = (uintptr_t)address - ctx->seg[s].base;
        if (off < ctx->seg[s].size)
            return base_fail(WEFT_ERR_RANGE,
                             "%s: %zu bytes at %p run past the end of the %s segment: it has %zu "
                             "bytes, %zu of them from there on",
                             function, bytes, address, segment_names[s], ctx->seg[s].size,
                             ctx->seg[s].size - off);
    }
    return base_fail(WEFT_ERR_ADDRESS,
                     "%s: %p is not a symmetric address: the heap of PE %d is %p ... %p; memory "
                     "for remote use comes from weft_alloc()",
                     function, address, ctx->job->pe, (void *)ctx->seg[SEG_HEAP].base,
                     (void *)(ctx->seg[SEG_HEAP].base + ctx->seg[SEG_HEAP].size));
}

/* Checking mode: checks that the range lies in one allocated block. All PEs allocate the same
 * blocks, so this PE's allocator knows a peer's blocks. */
static weft_status check_block(const char *function, struct weft_job *job, const void *address,
                               size_t offset, size_t bytes)
{
    pthread_mutex_lock(&job->lock);
    bool held = heap_holds(job->heap, offset, bytes);
    pthread_mutex_unlock(&job->lock);
    if (held)
        return WEFT_OK;
    return base_fail(WEFT_ERR_ADDRESS,
                     "%s: %zu bytes at %p do not lie in one allocated block of the heap: the block "
                     "was freed, is too small, or was never there",
                     function, bytes, address);
}

weft_status access_find_own(const char *function, const struct weft_ctx *ctx, const void *address,
                            size_t bytes, enum segment_id *segment, size_t *offset)
{
    weft_status status = check_running(function, ctx);
    if (status)
        return status;
    if (!access_find(ctx, address, bytes, segment, offset))
        return find_failed(function, ctx, address, bytes);
    if (unlikely(ctx->job->checking) && *segment == SEG_HEAP)
        status = check_block(function, ctx->job, address, *offset, bytes);
    return access_failed(ctx) ? job_check_failed(ctx->job) : status;
}

weft_status access_resolve(const char *function, struct weft_ctx *ctx, const void *symmetric,
                           size_t bytes, int pe, struct remote *remote)
{
    if (access_gpu_heap(ctx, symmetric, bytes, pe, remote))
        return WEFT_OK;
    weft_status status = check_running(function, ctx);
    if (status)
        return status;
    if ((unsigned)pe >= ctx->npes)
        return base_fail(WEFT_ERR_PE, "%s: PE %d does not exist; the PEs here are 0 ... %u",
                         function, pe, ctx->npes - 1);
    if (!access_find(ctx, symmetric, bytes, &remote->segment, &remote->offset))
        return find_failed(function, ctx, symmetric, bytes);
    if (unlikely(ctx->job->checking) && remote->segment == SEG_HEAP) {
        status = check_block(function, ctx->job, symmetric, remote->offset, bytes);
        if (status)
            return status;
    }
    remote->peer = &ctx->peers[segment_kind(remote->segment)][pe];
    return job_check_failed(ctx->job);
}

weft_status access_resolve_aligned(const char *function, struct weft_ctx *ctx,
                                   const void *symmetric, size_t width, int pe,
                                   struct remote *remote)
{
    weft_status status = access_resolve(function, ctx, symmetric, width, pe, remote);
    if (status)
        return status;
    if ((uintptr_t)symmetric % width)
        return base_fail(WEFT_ERR_ALIGNMENT, "%s: %p is not a multiple of %zu", function, symmetric,
                         width);
    return WEFT_OK;
}

/* The CPU polls through its mapping of GPU memory. False: there is no mapping, and *status is
 * unchanged. */
static bool wait_by_peeks(struct weft_ctx *ctx, struct waiter *waiter, const void *variable,
                          size_t width, bool is_signed, uint64_t *seen, weft_status *status)
{
    uint64_t flip = is_signed ? 1ull << 63 : 0;
    unsigned spare = 64 - 8 * (unsigned)width;
    while (!*status) {
        uint64_t bits;
        if (!gpu_peek(ctx->gpu, (uintptr_t)variable, width, &bits))
            return false;
        *seen = is_signed ? (uint64_t)((int64_t)(bits << spare) >> spare) : bits;
        if (compare_holds(*seen ^ flip, (weft_cmp)waiter->compare, waiter->expected ^ flip))
            return true;
        *status = waiter_step(waiter, *seen);
    }
    return true;
}

weft_status access_wait_device(struct weft_ctx *ctx, struct waiter *waiter, const void *variable,
                               size_t width, bool is_signed, uint64_t *seen)
{
    static const uint64_t slice_ns = 2 * 1000 * 1000;
    uint64_t now = 0;
    bool met = false;
    weft_status status = WEFT_OK;
    met = wait_by_peeks(ctx, waiter, variable, width, is_signed, &now, &status);
    while (!met && !status) {
        status = gpu_wait_slice(ctx->gpu, (uintptr_t)variable, width, is_signed,
                                (weft_cmp)waiter->compare, (int64_t)waiter->expected, slice_ns,
                                &now, &met);
        if (!status && !met)
            status = waiter_slow(waiter, now);
    }
    waiter_end(waiter);
    if (seen)
        *seen = now;
    return status;
}
