/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives called by the host on GPU memory (either side may be host memory as well). Each
 * member puts its blocks over whatever path the pair has, quiets, and syncs with the others.
 * Collectives called by device code are in include/weft/device/collective.h. */
#include "ops/coll.h"
#include "ops/reduce.h"

#include <stdlib.h>

/* Returns when what this PE put is at the others, and what they put is here. */
static weft_status finish(struct weft_team *team, enum box_operation operation, weft_status status)
{
    struct weft_job *job = team->job;
    if (!status)
        status = weft_quiet(job->system_ctx);
    if (status) { /* the others must not wait for the whole limit */
        job_fail(job, status, weft_last_error());
        return status;
    }
    return coll_sync(team, operation);
}

weft_status coll_gpu_broadcast(struct weft_team *team, void *dst, const void *src, size_t bytes,
                               int root)
{
    weft_status status = WEFT_OK;
    for (int k = 0; team->me == root && k < team->n && !status; k++) {
        int member = (team->me + k) % team->n;
        if (member != root || dst != src)
            status = weft_put_nbi(team->job->system_ctx, dst, src, bytes, team->pes[member]);
    }
    return finish(team, BOX_OP_BROADCAST, status);
}

/* Block i of src (all the same block with src_step 0) goes to member i, to byte `at` of its dst. */
weft_status coll_gpu_blocks(struct weft_team *team, enum box_operation operation, void *dst,
                            const void *src, size_t src_step, size_t bytes, size_t at)
{
    weft_status status = WEFT_OK;
    for (int k = 0; k < team->n && bytes && !status; k++) {
        int member = (team->me + k) % team->n;
        const char *block = (const char *)src + (size_t)member * src_step;
        char *to = (char *)dst + at;
        if (member != team->me || to != block)
            status = weft_put_nbi(team->job->system_ctx, to, block, bytes, team->pes[member]);
    }
    return finish(team, operation, status);
}

weft_status coll_gpu_strided(struct weft_team *team, void *dst, const void *src,
                             ptrdiff_t dst_stride, ptrdiff_t src_stride, size_t element, size_t n)
{
    weft_status status = WEFT_OK;
    size_t dst_block = (size_t)dst_stride * element * n,
           src_block = (size_t)src_stride * element * n;
    char *to = (char *)dst + (size_t)team->me * dst_block;
    for (int k = 0; k < team->n && !status; k++) {
        int member = (team->me + k) % team->n;
        status =
            weft_iput(team->job->system_ctx, to, (const char *)src + (size_t)member * src_block,
                      dst_stride, src_stride, element, n, team->pes[member]);
    }
    return finish(team, BOX_OP_ALLTOALLS, status);
}

/* Chunk by chunk: member i's chunk comes here, is combined by the CPU in the order of the team, and
 * the result goes to everyone. */
enum { CHUNK_BYTES = 4 << 20 };

static weft_status reduce_chunk(struct weft_team *team, char *dst, const char *src, size_t elements,
                                size_t element, reduce_function *combine, char *acc, char *room)
{
    struct weft_ctx *ctx = team->job->system_ctx;
    size_t bytes = elements * element;
    weft_status status = weft_get(ctx, acc, src, bytes, team->pes[0]);
    for (int i = 1; i < team->n && !status; i++) {
        status = weft_get(ctx, room, src, bytes, team->pes[i]);
        if (!status)
            combine(acc, room, elements);
    }
    for (int i = 0; i < team->n && !status; i++)
        status = weft_put_nbi(ctx, dst, acc, bytes, team->pes[(team->me + i) % team->n]);
    return status ? status : weft_quiet(ctx);
}

weft_status coll_gpu_reduce(struct weft_team *team, void *dst, const void *src, size_t n,
                            size_t element, reduce_function *combine)
{
    size_t per_chunk = CHUNK_BYTES / element;
    char *acc = malloc(2 * CHUNK_BYTES);
    weft_status status =
        acc ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a reduction");
    /* Sources are ready. Each element is read by one member only, and before it is overwritten. */
    if (!status)
        status = coll_sync(team, BOX_OP_REDUCE);
    size_t first = n * (size_t)team->me / (size_t)team->n;
    size_t last = n * ((size_t)team->me + 1) / (size_t)team->n;
    for (size_t at = first; at < last && !status; at += per_chunk) {
        size_t now = last - at < per_chunk ? last - at : per_chunk;
        status = reduce_chunk(team, (char *)dst + at * element, (const char *)src + at * element,
                              now, element, combine, acc, acc + CHUNK_BYTES);
    }
    free(acc);
    return finish(team, BOX_OP_REDUCE, status);
}
