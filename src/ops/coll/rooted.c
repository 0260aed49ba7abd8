/* SPDX-License-Identifier: Apache-2.0 */
/* Gather and scatter called by the host: by kernels where those serve, else each member puts its
 * blocks over whatever path the pair has, quiets, and syncs with the others. */
#include "ops/coll/kernel.h"

/* WEFT_OK, and *done: there is nothing more to do. */
static weft_status begin_rooted(struct weft_team *team, const struct coll_ask *ask,
                                enum box_operation operation, size_t blocks, bool *done)
{
    struct place to;
    uint64_t phase;
    size_t all;
    bool kernel;
    *done = true;
    weft_status status =
        coll_begin(ask->function, team, operation, ask->root, ask->bytes, 0, &phase);
    if (!status)
        status = coll_check_root(ask->function, team, ask->root);
    if (status || !ask->bytes)
        return status;
    if (__builtin_mul_overflow((size_t)ask->bytes, blocks, &all))
        return base_fail(WEFT_ERR_RANGE, "%s: %zu bytes of %d PEs are too many", ask->function,
                         (size_t)ask->bytes, team->n);
    status = coll_place(ask->function, "dst", team, ask->dst, all, &to);
    if (!status && !ask->src)
        status = base_fail(WEFT_ERR_ARGUMENT, "%s: src is null", ask->function);
    if (!status)
        status = coll_by_kernel(team, ask->dst, ask->src, ask->bytes, &kernel);
    *done = status || kernel;
    bool host;
    if (!status && kernel)
        status = coll_kernel_memory(team, ask, &host);
    return status || !kernel ? status : coll_kernel_call(team, ask);
}

WEFT_EXPORT weft_status weft_gather(weft_team *team, void *dst, const void *src, size_t bytes,
                                    int root)
{
    struct coll_ask ask = {.function = "weft_gather",
                           .what = COLL_GATHER,
                           .dst = dst,
                           .src = src,
                           .bytes = bytes,
                           .root = root};
    bool done;
    weft_status status = begin_rooted(team, &ask, BOX_OP_GATHER, team ? (size_t)team->n : 1, &done);
    if (done)
        return status;
    status = coll_put_block(team, root, (char *)dst + (size_t)team->me * bytes, src, bytes);
    return coll_finish_puts(team, BOX_OP_GATHER, status);
}

WEFT_EXPORT weft_status weft_scatter(weft_team *team, void *dst, const void *src, size_t bytes,
                                     int root)
{
    struct coll_ask ask = {.function = "weft_scatter",
                           .what = COLL_SCATTER,
                           .dst = dst,
                           .src = src,
                           .bytes = bytes,
                           .root = root};
    bool done;
    weft_status status = begin_rooted(team, &ask, BOX_OP_SCATTER, 1, &done);
    if (done)
        return status;
    for (int i = 0; team->me == root && i < team->n && !status; i++)
        status = coll_put_block(team, i, dst, (const char *)src + (size_t)i * bytes, bytes);
    return coll_finish_puts(team, BOX_OP_SCATTER, status);
}
