/* SPDX-License-Identifier: Apache-2.0 */
/* Host-initiated collectives on GPU memory; one side may be host memory. Kernels perform them where
 * both sides are GPU memory that all members access by load and store (coll_kernel.h). Else each
 * member puts its blocks over the path of each pair, calls quiet, and syncs with the others.
 * Collectives called by device code are in include/weft/device/collective.h. */
#include "ops/coll/kernel.h"
#include "ops/coll/memory.h"
#include "ops/coll/nodes_gpu.h"
#include "ops/coll/packed.h"

weft_status coll_choose_kernel(struct weft_team *team, const void *dst, const void *src,
                               uint64_t bytes, bool *kernel)
{
    struct gpu *gpu = team->job->gpu;
    uintptr_t base = gpu ? gpu_heap_own(&gpu->heap)->base : 0;
    *kernel = gpu && (uintptr_t)dst - base < gpu->heap.size &&
              (uintptr_t)src - base < gpu->heap.size && coll_kernel_serves(team);
    return *kernel && bytes ? coll_kernel_is_faster(team, bytes, kernel) : WEFT_OK;
}

/* Sizes and overlaps are checked as for collectives on streams. */
static weft_status call_kernel(struct weft_team *team, const struct coll_request *request)
{
    bool host;
    weft_status status = request->bytes ? coll_kernel_memory(team, request, &host) : WEFT_OK;
    return status || !request->bytes ? status : coll_kernel_run(team, request);
}

weft_status coll_kernel_reduction(const char *function, struct weft_team *team, bool everywhere,
                                  void *dst, const void *src, uint64_t bytes,
                                  const struct combiner *c)
{
    struct coll_request request = {.function = function,
                                   .what = everywhere ? COLL_ALLREDUCE : COLL_REDUCESCATTER,
                                   .dst = dst,
                                   .src = src,
                                   .bytes = bytes,
                                   .reduction = *c};
    return call_kernel(team, &request);
}

weft_status coll_put_block(struct weft_team *team, int member, char *to, const char *block,
                           size_t bytes)
{
    if (!bytes || (member == team->me && to == block))
        return WEFT_OK;
    return weft_put_nbi(team->job->system_ctx, to, block, bytes, team->pes[member]);
}

weft_status coll_finish_puts(struct weft_team *team, enum box_operation operation,
                             weft_status status)
{
    struct weft_job *job = team->job;
    if (!status)
        status = weft_quiet(job->system_ctx);
    /* the other members must not wait until WEFT_WAIT_LIMIT; a failure of the job is reported
     * already */
    if (status) {
        if (!job_failed(job))
            job_fail(job, status, weft_last_error());
        return status;
    }
    return coll_sync(team, operation);
}

weft_status coll_gpu_broadcast(struct weft_team *team, void *dst, const void *src, size_t bytes,
                               int root, uint64_t phase)
{
    struct coll_request request = {.function = "weft_broadcast",
                                   .what = COLL_BROADCAST,
                                   .dst = dst,
                                   .src = src,
                                   .bytes = bytes,
                                   .root = root};
    bool kernel;
    weft_status status = coll_choose_kernel(team, dst, src, bytes, &kernel);
    if (status || kernel)
        return status ? status : call_kernel(team, &request);
    if (coll_gpu_spans_nodes(team))
        return coll_gpu_nodes_broadcast(team, dst, src, bytes, root, phase);
    for (int k = 0; team->me == root && k < team->n && !status; k++) {
        int member = (team->me + k) % team->n;
        if (member != root || dst != src)
            status = weft_put_nbi(team->job->system_ctx, dst, src, bytes, team->pes[member]);
    }
    return coll_finish_puts(team, BOX_OP_BROADCAST, status);
}

/* Puts block i of src to byte `at` of the dst of member i. With src_step 0 all members get the same
 * block. */
weft_status coll_gpu_blocks(struct weft_team *team, enum box_operation operation, void *dst,
                            const void *src, size_t src_step, size_t bytes, size_t at)
{
    struct coll_request request = {.function = src_step ? "weft_alltoall" : "weft_allgather",
                                   .what = src_step ? COLL_ALLTOALL : COLL_ALLGATHER,
                                   .dst = dst,
                                   .src = src,
                                   .bytes = bytes};
    bool kernel = false;
    weft_status status = WEFT_OK;
    if (operation != BOX_OP_COLLECT) /* blocks of a collect differ in size */
        status = coll_choose_kernel(team, dst, src, bytes, &kernel);
    if (status || kernel)
        return status ? status : call_kernel(team, &request);
    if (operation == BOX_OP_ALLTOALL && coll_gpu_nodes_packs(team, dst, bytes))
        return coll_gpu_nodes_alltoall(team, dst, src, bytes);
    for (int k = 0; k < team->n && bytes && !status; k++) {
        int member = (team->me + k) % team->n;
        const char *block = (const char *)src + (size_t)member * src_step;
        char *to = (char *)dst + at;
        if (member != team->me || to != block)
            status = weft_put_nbi(team->job->system_ctx, to, block, bytes, team->pes[member]);
    }
    return coll_finish_puts(team, operation, status);
}

struct coll_block_record coll_gpu_block_record(const struct weft_team *team, const void *dst,
                                               const void *src, size_t bytes)
{
    struct gpu *gpu = team->job->gpu;
    uintptr_t base = gpu ? gpu_heap_own(&gpu->heap)->base : 0;
    bool there =
        gpu && (uintptr_t)dst - base < gpu->heap.size && (uintptr_t)src - base < gpu->heap.size;
    return (struct coll_block_record){bytes, there ? (uintptr_t)src - base : COLL_NOT_IN_GPU_HEAP};
}

/* Whether kernels can perform a collect. They accept no block that overlaps the destination, not
 * even at its own position. *most: size of the largest block. */
static bool kernel_collects(const struct weft_team *team, uint64_t to, uint64_t total,
                            const struct coll_block_record *shares, uint64_t *most)
{
    *most = 0;
    for (int i = 0; i < team->n; i++) {
        const struct coll_block_record *s = &shares[i];
        if (s->bytes &&
            (s->at == COLL_NOT_IN_GPU_HEAP || (s->at < to + total && to < s->at + s->bytes)))
            return false;
        *most = s->bytes > *most ? s->bytes : *most;
    }
    return true;
}

weft_status coll_gpu_collect(struct weft_team *team, void *dst, const void *src,
                             const struct coll_block_record *shares, size_t before, size_t total)
{
    uint64_t bytes = shares[team->me].bytes, most, to = coll_gpu_block_record(team, dst, dst, 0).at;
    struct coll_request request = {.function = "weft_collect",
                                   .what = COLL_COLLECT,
                                   .dst = dst,
                                   .src = bytes ? src : dst,
                                   .bytes = bytes};
    bool kernel = to != COLL_NOT_IN_GPU_HEAP && coll_kernel_serves(team) &&
                  kernel_collects(team, to, total, shares, &most);
    weft_status status = kernel ? coll_kernel_is_faster(team, most, &kernel) : WEFT_OK;
    if (status || kernel)
        return status ? status : coll_kernel_run(team, &request);
    return coll_gpu_blocks(team, BOX_OP_COLLECT, dst, src, 0, bytes, before);
}

weft_status coll_gpu_strided(struct weft_team *team, void *dst, const void *src,
                             ptrdiff_t dst_stride, ptrdiff_t src_stride, size_t element, size_t n)
{
    struct coll_request request = {.function = "weft_alltoalls",
                                   .what = COLL_ALLTOALL,
                                   .dst = dst,
                                   .src = src,
                                   .bytes = element * n,
                                   .element = element,
                                   .dst_stride = (uint64_t)dst_stride,
                                   .src_stride = (uint64_t)src_stride};
    bool kernel;
    weft_status status = coll_choose_kernel(team, dst, src, element * n, &kernel);
    if (status || kernel)
        return status ? status : call_kernel(team, &request);
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
