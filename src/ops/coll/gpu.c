/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives called by the host on GPU memory (either side may be host memory as well): by kernels
 * where both sides are GPU memory that all members reach by load and store (coll_kernel.h). Else
 * each member puts its blocks over whatever path the pair has, quiets, and syncs with the others.
 * Collectives called by device code are in include/weft/device/collective.h. */
#include "ops/coll/kernel.h"
#include "ops/coll/packed.h"

weft_status coll_by_kernel(struct weft_team *team, const void *dst, const void *src, uint64_t bytes,
                           bool *kernel)
{
    struct gpu *gpu = team->job->gpu;
    uintptr_t base = gpu ? gpu_heap_own(&gpu->heap)->base : 0;
    *kernel = gpu && (uintptr_t)dst - base < gpu->heap.size &&
              (uintptr_t)src - base < gpu->heap.size && coll_kernel_serves(team);
    return *kernel && bytes ? coll_kernel_pays(team, bytes, kernel) : WEFT_OK;
}

/* The kernels check sizes and overlaps as for streams. */
static weft_status call_kernel(struct weft_team *team, const struct coll_ask *ask)
{
    bool host;
    weft_status status = ask->bytes ? coll_kernel_memory(team, ask, &host) : WEFT_OK;
    return status || !ask->bytes ? status : coll_kernel_call(team, ask);
}

weft_status coll_kernel_reduction(const char *function, struct weft_team *team, bool everywhere,
                                  void *dst, const void *src, uint64_t bytes,
                                  const struct combiner *c)
{
    struct coll_ask ask = {.function = function,
                           .what = everywhere ? COLL_REDUCE : COLL_REDUCESCATTER,
                           .dst = dst,
                           .src = src,
                           .bytes = bytes,
                           .type = c->type,
                           .op = c->op,
                           .factor = (double)c->factor,
                           .weighted = c->weighted};
    return call_kernel(team, &ask);
}

weft_status coll_put_block(struct weft_team *team, int member, char *to, const char *block,
                           size_t bytes)
{
    if (!bytes || (member == team->me && to == block))
        return WEFT_OK;
    return weft_put_nbi(team->job->system_ctx, to, block, bytes, team->pes[member]);
}

/* Returns when what this PE put is at the others, and what they put is here. */
weft_status coll_finish_puts(struct weft_team *team, enum box_operation operation,
                             weft_status status)
{
    struct weft_job *job = team->job;
    if (!status)
        status = weft_quiet(job->system_ctx);
    if (status) { /* the others must not wait for the whole limit; of a death they know, and what
                     was left is said already */
        if (!job_failed(job))
            job_fail(job, status, weft_last_error());
        return status;
    }
    return coll_sync(team, operation);
}

weft_status coll_gpu_broadcast(struct weft_team *team, void *dst, const void *src, size_t bytes,
                               int root)
{
    struct coll_ask ask = {.function = "weft_broadcast",
                           .what = COLL_BROADCAST,
                           .dst = dst,
                           .src = src,
                           .bytes = bytes,
                           .root = root};
    bool kernel;
    weft_status status = coll_by_kernel(team, dst, src, bytes, &kernel);
    if (status || kernel)
        return status ? status : call_kernel(team, &ask);
    for (int k = 0; team->me == root && k < team->n && !status; k++) {
        int member = (team->me + k) % team->n;
        if (member != root || dst != src)
            status = weft_put_nbi(team->job->system_ctx, dst, src, bytes, team->pes[member]);
    }
    return coll_finish_puts(team, BOX_OP_BROADCAST, status);
}

/* Block i of src (all the same block with src_step 0) goes to member i, to byte `at` of its dst. */
weft_status coll_gpu_blocks(struct weft_team *team, enum box_operation operation, void *dst,
                            const void *src, size_t src_step, size_t bytes, size_t at)
{
    struct coll_ask ask = {.function = src_step ? "weft_alltoall" : "weft_fcollect",
                           .what = src_step ? COLL_ALLTOALL : COLL_FCOLLECT,
                           .dst = dst,
                           .src = src,
                           .bytes = bytes};
    bool kernel = false;
    weft_status status = WEFT_OK;
    if (operation != BOX_OP_COLLECT) /* whose blocks differ */
        status = coll_by_kernel(team, dst, src, bytes, &kernel);
    if (status || kernel)
        return status ? status : call_kernel(team, &ask);
    for (int k = 0; k < team->n && bytes && !status; k++) {
        int member = (team->me + k) % team->n;
        const char *block = (const char *)src + (size_t)member * src_step;
        char *to = (char *)dst + at;
        if (member != team->me || to != block)
            status = weft_put_nbi(team->job->system_ctx, to, block, bytes, team->pes[member]);
    }
    return coll_finish_puts(team, operation, status);
}

struct coll_share coll_gpu_share(const struct weft_team *team, const void *dst, const void *src,
                                 size_t bytes)
{
    struct gpu *gpu = team->job->gpu;
    uintptr_t base = gpu ? gpu_heap_own(&gpu->heap)->base : 0;
    bool there =
        gpu && (uintptr_t)dst - base < gpu->heap.size && (uintptr_t)src - base < gpu->heap.size;
    return (struct coll_share){bytes, there ? (uintptr_t)src - base : COLL_ELSEWHERE};
}

/* Kernels take no block that lies in the destination, even where it belongs. */
static bool kernel_collects(const struct weft_team *team, uint64_t to, uint64_t total,
                            const struct coll_share *shares, uint64_t *most)
{
    *most = 0;
    for (int i = 0; i < team->n; i++) {
        const struct coll_share *s = &shares[i];
        if (s->bytes && (s->at == COLL_ELSEWHERE || (s->at < to + total && to < s->at + s->bytes)))
            return false;
        *most = s->bytes > *most ? s->bytes : *most;
    }
    return true;
}

weft_status coll_gpu_collect(struct weft_team *team, void *dst, const void *src,
                             const struct coll_share *shares, size_t before, size_t total)
{
    uint64_t bytes = shares[team->me].bytes, most, to = coll_gpu_share(team, dst, dst, 0).at;
    struct coll_ask ask = {.function = "weft_collect",
                           .what = COLL_COLLECT,
                           .dst = dst,
                           .src = bytes ? src : dst,
                           .bytes = bytes};
    bool kernel = to != COLL_ELSEWHERE && coll_kernel_serves(team) &&
                  kernel_collects(team, to, total, shares, &most);
    weft_status status = kernel ? coll_kernel_pays(team, most, &kernel) : WEFT_OK;
    if (status || kernel)
        return status ? status : coll_kernel_call(team, &ask);
    return coll_gpu_blocks(team, BOX_OP_COLLECT, dst, src, 0, bytes, before);
}

weft_status coll_gpu_strided(struct weft_team *team, void *dst, const void *src,
                             ptrdiff_t dst_stride, ptrdiff_t src_stride, size_t element, size_t n)
{
    struct coll_ask ask = {.function = "weft_alltoalls",
                           .what = COLL_ALLTOALL,
                           .dst = dst,
                           .src = src,
                           .bytes = element * n,
                           .element = element,
                           .dst_stride = (uint64_t)dst_stride,
                           .src_stride = (uint64_t)src_stride};
    bool kernel;
    weft_status status = coll_by_kernel(team, dst, src, element * n, &kernel);
    if (status || kernel)
        return status ? status : call_kernel(team, &ask);
    struct coll_packed packed = {dst, src, (size_t)dst_stride, (size_t)src_stride, element, n};
    if (coll_packed_serves(team, element, n))
        return coll_packed_alltoall(team, &packed);
    size_t dst_block = (size_t)dst_stride * element * n,
           src_block = (size_t)src_stride * element * n;
    char *to = (char *)dst + (size_t)team->me * dst_block;
    for (int k = 0; k < team->n && !status; k++) {
        int member = (team->me + k) % team->n;
        status =
            weft_iput(team->job->system_ctx, to, (const char *)src + (size_t)member * src_block,
                      dst_stride, src_stride, element, n, team->pes[member]);
    }
    return coll_finish_puts(team, BOX_OP_ALLTOALLS, status);
}
