/* SPDX-License-Identifier: Apache-2.0 */
/* Host-initiated gather and scatter: by kernels where these can serve, and large blocks of GPU
 * memory over nodes by all NICs of the root's node (nodes_rooted.c). Else each member puts its
 * blocks over the path of each pair, calls quiet, and syncs with the others. */
#include "ops/coll/kernel.h"
#include "ops/coll/memory.h"
#include "ops/coll/nodes_gpu.h"

/* Checks the arguments and performs the collective where kernels can. *done: the call is complete,
 * or failed. */
static weft_status begin_rooted(struct weft_team *team, const struct coll_request *request,
                                enum box_operation operation, size_t blocks, bool *done)
{
    struct symmetric_range to;
    uint64_t phase;
    size_t all;
    bool kernel;
    *done = true;
    weft_status status =
        coll_begin(request->function, team, operation, request->root, request->bytes, 0, &phase);
    if (!status)
        status = coll_check_root(request->function, team, request->root);
    if (status || !request->bytes)
        return status;
    if (__builtin_mul_overflow((size_t)request->bytes, blocks, &all))
        return base_fail(
            WEFT_ERR_RANGE, "%s: %zu bytes of %d PEs are too many", request->function,
            /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): coll_begin() refuses NULL */
            (size_t)request->bytes, team->n);
    status = coll_find_range(request->function, "dst", team, request->dst, all, &to);
    if (!status && !request->src)
        status = base_fail(WEFT_ERR_ARGUMENT, "%s: src is null", request->function);
    if (!status)
        status = coll_choose_kernel(team, request->dst, request->src, request->bytes, &kernel);
    *done = status || kernel;
    bool host;
    if (!status && kernel)
        status = coll_kernel_memory(team, request, &host);
    if (!status && kernel)
        return coll_kernel_run(team, request);
    const struct coll_rooted what = {operation,      request->what == COLL_GATHER,
                                     request->dst,   request->src,
                                     request->bytes, request->root};
    if (!status && coll_gpu_nodes_relays(team, &what)) {
        status = coll_gpu_nodes_rooted(team, &what, done);
        *done |= status != WEFT_OK;
    }
    return status;
}

WEFT_EXPORT weft_status weft_gather(weft_team *team, void *dst, const void *src, size_t bytes,
                                    int root)
{
    struct coll_request request = {.function = "weft_gather",
                                   .what = COLL_GATHER,
                                   .dst = dst,
                                   .src = src,
                                   .bytes = bytes,
                                   .root = root};
    bool done;
    weft_status status =
        begin_rooted(team, &request, BOX_OP_GATHER, team ? (size_t)team->n : 1, &done);
    if (done)
        return status;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): begin_rooted() refuses NULL */
    status = coll_put_block(team, root, (char *)dst + (size_t)team->me * bytes, src, bytes);
    return coll_finish_puts(team, BOX_OP_GATHER, status);
}

WEFT_EXPORT weft_status weft_scatter(weft_team *team, void *dst, const void *src, size_t bytes,
                                     int root)
{
    struct coll_request request = {.function = "weft_scatter",
                                   .what = COLL_SCATTER,
                                   .dst = dst,
                                   .src = src,
                                   .bytes = bytes,
                                   .root = root};
    bool done;
    weft_status status = begin_rooted(team, &request, BOX_OP_SCATTER, 1, &done);
    if (done)
        return status;
    for (int i = 0; team->me == root && i < team->n && !status; i++)
        status = coll_put_block(team, i, dst, (const char *)src + (size_t)i * bytes, bytes);
    return coll_finish_puts(team, BOX_OP_SCATTER, status);
}
