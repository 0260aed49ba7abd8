/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives that move data: broadcast, alltoall, alltoalls, allgather, collect. A member puts
 * directly into the destinations, which OpenSHMEM requires to be ready. Small blocks of allgather
 * and alltoall travel as packets, in the same cache line as the number that reports their
 * arrival. */
#include "ops/coll/nodes_gpu.h"

#include <stdlib.h>

enum {
    PACKET_STACK_PES = 64,
};

/* ---------------------------------------------------------------------------------- broadcast */

static weft_status push_to_all(struct weft_team *team, struct symmetric_range to, const void *src,
                               size_t bytes, uint64_t phase)
{
    weft_status status = WEFT_OK;
    for (int k = 1; k < team->n && !status; k++) {
        int i = team->me + k < team->n ? team->me + k : team->me + k - team->n;
        status = coll_put_notify(team, i, to, src, bytes, phase, false);
    }
    return status;
}

static weft_status notify_all(struct weft_team *team, uint64_t phase)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < team->n && !status; i++)
        if (i != team->me)
            status = coll_notify(team, i, phase);
    return status;
}

static weft_status await_all(struct weft_team *team, uint64_t phase, enum box_operation operation)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < team->n && !status; i++)
        if (i != team->me)
            status = coll_await(team, i, phase, operation);
    return status;
}

/* Large broadcast: all receivers copy from the root's source in parallel. With one receiver, the
 * root pushes the first half meanwhile. Phases: source ready, first half pushed, source read. */
static weft_status broadcast_pull(struct weft_team *team, void *dst, struct symmetric_range to,
                                  struct symmetric_range from, size_t bytes, int root,
                                  uint64_t phase)
{
    size_t pushed = team->n == 2 ? bytes / 2 & ~(size_t)63 : 0;
    weft_status status;
    if (team->me == root) {
        status = notify_all(team, phase);
        if (!status && pushed)
            status = push_to_all(team, to, team->job->segments[from.segment].base + from.offset,
                                 pushed, phase + 1);
        return status ? status : await_all(team, phase + 2, BOX_OP_BROADCAST);
    }
    status = coll_await(team, root, phase, BOX_OP_BROADCAST);
    if (status)
        return status;
    const char *source = coll_address(team, root, from);
    memcpy((char *)dst + pushed, source + pushed, bytes - pushed);
    if (pushed)
        status = coll_await(team, root, phase + 1, BOX_OP_BROADCAST);
    return status ? status : coll_notify(team, root, phase + 2);
}

weft_status coll_broadcast(weft_team *team, void *dst, const void *src, size_t bytes, int root,
                           bool to_root)
{
    static const char name[] = "weft_broadcast";
    uint64_t phase;
    weft_status status = coll_begin(name, team, BOX_OP_BROADCAST, root, bytes, 0, &phase);
    if (status || bytes == 0)
        return status;
    if ((unsigned)root >= (unsigned)team->n)
        return base_fail(WEFT_ERR_PE, "%s: root %d; the team's PEs are 0 ... %d", name, root,
                         team->n - 1);
    team->leader = team->job->oversubscribed && !team->nodes ? root : -1;
    struct symmetric_range to, from;
    status = coll_find_range(name, "dst", team, dst, bytes, &to);
    if (!status && !src)
        status = base_fail(WEFT_ERR_ARGUMENT, "%s: src is null", name);
    if (status)
        return status;
    if (coll_on_gpu(team, dst, src))
        return coll_gpu_broadcast(team, dst, src, bytes, root, phase);
    /* All members must make the same choice, so it depends only on what is the same at every
     * member. */
    if (team->nodes) {
        status = coll_nodes_broadcast(team, to, src, bytes, root, phase);
    } else if (bytes >= COLL_PULL_LEAST && team->direct && team->n > 1) {
        status = coll_find_range(name, "src", team, src, bytes, &from);
        if (!status)
            status = broadcast_pull(team, dst, to, from, bytes, root, phase);
    } else if (!team->direct) {
        status = coll_tree_broadcast(team, to, src, bytes, root, phase);
    } else if (team->me == root) {
        status = push_to_all(team, to, src, bytes, phase);
    } else {
        status = coll_await(team, root, phase, BOX_OP_BROADCAST);
    }
    if (!status && to_root && team->me == root && dst != src)
        memmove(dst, src, bytes);
    return status;
}

WEFT_EXPORT weft_status weft_broadcast(weft_team *team, void *dst, const void *src, size_t bytes,
                                       int root)
{
    return coll_broadcast(team, dst, src, bytes, root, true);
}

/* --------------------------------------------------------------------- allgather and alltoall */

/* Every member puts one block to every member, at the position of the sender's rank. alltoall:
 * block i of src goes to member i. allgather (src_step 0): the same block goes to all. */
static weft_status push_blocks(struct weft_team *team, enum box_operation operation,
                               struct symmetric_range to, const char *src, size_t src_step,
                               size_t bytes, uint64_t phase)
{
    int n = team->n, me = team->me;
    bool nbi = !team->direct && bytes >= COLL_NBI_LEAST;
    weft_status status = WEFT_OK;
    to.offset += (size_t)me * bytes;
    for (int k = 1; k < n && !status; k++) {
        int i = me + k < n ? me + k : me + k - n;
        status = coll_put_notify(team, i, to, src + (size_t)i * src_step, bytes, phase, nbi);
    }
    char *own = team->job->segments[to.segment].base + to.offset;
    if (own != src + (size_t)me * src_step)
        memmove(own, src + (size_t)me * src_step, bytes);
    if (!status)
        status = await_all(team, phase, operation);
    return status || !nbi ? status : weft_quiet(team->job->system_ctx);
}

/* Fails the job, because the other members already wait for this member. */
static weft_status no_memory_for_sizes(const char *function, struct weft_team *team)
{
    weft_status status =
        base_fail(WEFT_ERR_NO_MEMORY, "%s: no private memory for %d sizes", function, team->n);
    return job_fail_all(team->job, status, base_last_error());
}

/* allgather in a team whose members share nodes. */
static weft_status collect_equal(struct weft_team *team, enum box_operation operation,
                                 struct symmetric_range to, void *dst, const void *src,
                                 size_t bytes, uint64_t phase)
{
    size_t *at = malloc((size_t)team->n * 2 * sizeof *at);
    if (!at)
        return no_memory_for_sizes("weft_allgather", team);
    size_t *sizes = at + team->n;
    for (int i = 0; i < team->n; i++) {
        at[i] = (size_t)i * bytes;
        sizes[i] = bytes;
    }
    weft_status status = coll_on_gpu(team, dst, src)
                             ? coll_gpu_nodes_collect(team, operation, dst, src, at, sizes, phase)
                             : coll_nodes_collect(team, operation, to, src, at, sizes, phase);
    free(at);
    return status;
}

/* src_bytes: from the first byte of the source to its last. */
static weft_status alltoall_by_node(const char *name, struct weft_team *team,
                                    enum box_operation operation, const void *src, size_t src_bytes,
                                    struct coll_nodes_blocks what, uint64_t phase)
{
    weft_status status = coll_find_range(name, "src", team, src, src_bytes, &what.from);
    return status ? status : coll_nodes_alltoall(team, operation, &what, phase);
}

static weft_status all_blocks(const char *name, struct weft_team *team,
                              enum box_operation operation, void *dst, const void *src,
                              size_t bytes, bool each)
{
    uint64_t phase;
    weft_status status = coll_begin(name, team, operation, -1, bytes, 0, &phase);
    if (status || bytes == 0)
        return status;
    size_t total;
    if (__builtin_mul_overflow(bytes, (size_t)team->n, &total))
        return base_fail(WEFT_ERR_RANGE, "%s: %zu bytes for each of %d PEs are too many", name,
                         bytes, team->n);
    struct symmetric_range to;
    status = coll_find_range(name, "dst", team, dst, total, &to);
    if (!status && !src)
        status = base_fail(WEFT_ERR_ARGUMENT, "%s: src is null", name);
    if (status)
        return status;
    if (coll_on_gpu(team, dst, src) && (each || !team->nodes))
        return coll_gpu_blocks(team, operation, dst, src, each ? bytes : 0, bytes,
                               (size_t)team->me * bytes);
    if (team->nodes && each) {
        struct coll_nodes_blocks what = {
            .to = to, .element = bytes, .n = 1, .dst_stride = 1, .src_stride = 1};
        return alltoall_by_node(name, team, operation, src, total, what, phase);
    }
    if (bytes <= PACKET_BYTES && team->n <= PACKET_STACK_PES && !coll_on_gpu(team, dst, src))
        return each ? coll_exchange_each(team, operation, src, dst, bytes)
                    : coll_exchange(team, operation, src, dst, bytes);
    if (team->nodes && !each)
        return collect_equal(team, operation, to, dst, src, bytes, phase);
    return push_blocks(team, operation, to, src, each ? bytes : 0, bytes, phase);
}

WEFT_EXPORT weft_status weft_alltoall(weft_team *team, void *dst, const void *src, size_t bytes)
{
    return all_blocks("weft_alltoall", team, BOX_OP_ALLTOALL, dst, src, bytes, true);
}

WEFT_EXPORT weft_status weft_allgather(weft_team *team, void *dst, const void *src, size_t bytes)
{
    return all_blocks("weft_allgather", team, BOX_OP_ALLGATHER, dst, src, bytes, false);
}

/* ------------------------------------------------------------------------------------ collect */

/* Collect from GPU memory into host memory, through a temporary copy in host memory. */
static weft_status collect_from_gpu(struct weft_team *team, struct symmetric_range to, void *dst,
                                    const void *src, const size_t *sizes, const size_t *at,
                                    uint64_t phase)
{
    size_t bytes = sizes[team->me], before = at[team->me];
    char *copy = malloc(bytes ? bytes : 1);
    weft_status status =
        copy ? gpu_copy(team->job->gpu, 0, copy, src, bytes, GPU_DONE)
             : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %zu bytes", bytes);
    if (status) { /* the other members already wait for this member */
        free(copy);
        return job_fail_all(team->job, status, base_last_error());
    }
    if (team->nodes) {
        status = coll_nodes_collect(team, BOX_OP_COLLECT, to, copy, at, sizes, phase);
        free(copy);
        return status;
    }
    to.offset += before;
    status = push_to_all(team, to, copy, bytes, phase);
    if (!status)
        memcpy((char *)dst + before, copy, bytes);
    free(copy);
    return status ? status : await_all(team, phase, BOX_OP_COLLECT);
}

/* Computes the offset of each member's block from the exchanged sizes. */
static weft_status compute_offsets(const char *name, const struct weft_team *team,
                                   const size_t *sizes, size_t *at, size_t *total)
{
    *total = 0;
    for (int i = 0; i < team->n; i++) {
        at[i] = *total;
        if (__builtin_add_overflow(*total, sizes[i], total))
            return base_fail(WEFT_ERR_RANGE, "%s: the sum of the sizes overflows", name);
    }
    return WEFT_OK;
}

static weft_status collect_blocks(const char *name, struct weft_team *team, void *dst,
                                  const void *src, const struct coll_block_record *shares,
                                  const size_t *sizes, const size_t *at, size_t total,
                                  uint64_t phase)
{
    size_t bytes = sizes[team->me], before = at[team->me];
    struct symmetric_range to;
    weft_status status = total ? coll_find_range(name, "dst", team, dst, total, &to) : WEFT_OK;
    if (status || total == 0)
        return status;
    if (bytes && !src)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: src is null", name);
    if (coll_on_gpu(team, dst, dst) && team->nodes)
        return coll_gpu_nodes_collect(team, BOX_OP_COLLECT, dst, src, at, sizes, phase);
    if (coll_on_gpu(team, dst, dst))
        return coll_gpu_collect(team, dst, src, shares, before, total);
    /* sizes differ, so src may be null at other members: only this member knows */
    if (coll_on_gpu(team, src, src))
        return collect_from_gpu(team, to, dst, src, sizes, at, phase);
    if (team->nodes)
        return coll_nodes_collect(team, BOX_OP_COLLECT, to, src, at, sizes, phase);
    to.offset += before;
    if (bytes) {
        status = push_to_all(team, to, src, bytes, phase);
        memmove((char *)dst + before, src, bytes);
    } else {
        status = notify_all(team, phase);
    }
    return status ? status : await_all(team, phase, BOX_OP_COLLECT);
}

WEFT_EXPORT weft_status weft_collect(weft_team *team, void *dst, const void *src, size_t bytes)
{
    static const char name[] = "weft_collect";
    uint64_t phase;
    weft_status status = coll_begin(name, team, BOX_OP_COLLECT, -1, 0, 0, &phase);
    if (status)
        return status;
    size_t n = (size_t)team->n, total = 0;
    struct coll_block_record mine = coll_gpu_block_record(team, dst, src, bytes), *shares;
    size_t *sizes = malloc(n * (2 * sizeof *sizes + sizeof *shares));
    if (!sizes)
        return no_memory_for_sizes(name, team);
    size_t *at = sizes + n;
    shares = (struct coll_block_record *)(void *)(at + n);
    status = coll_exchange(team, BOX_OP_COLLECT, &mine, shares, sizeof mine);
    for (size_t i = 0; i < n && !status; i++)
        sizes[i] = (size_t)shares[i].bytes;
    if (!status)
        status = compute_offsets(name, team, sizes, at, &total);
    if (!status)
        status = collect_blocks(name, team, dst, src, shares, sizes, at, total, phase);
    free(sizes);
    return status;
}

/* ---------------------------------------------------------------------------------- alltoalls */

WEFT_EXPORT weft_status weft_alltoalls(weft_team *team, void *dst, const void *src,
                                       ptrdiff_t dst_stride, ptrdiff_t src_stride, size_t element,
                                       size_t n)
{
    static const char name[] = "weft_alltoalls";
    uint64_t phase;
    weft_status status = coll_begin(name, team, BOX_OP_ALLTOALLS, -1, element * n,
                                    (uint64_t)dst_stride << 32 ^ (uint64_t)src_stride, &phase);
    if (status || n == 0)
        return status;
    if (dst_stride < 1 || src_stride < 1 || element == 0)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "%s: strides %td and %td, element of %zu bytes; at least 1 is needed",
                         name, dst_stride, src_stride, element);
    /* Block i of either side begins n elements, each `stride` apart, after block i - 1. */
    size_t dst_block, src_block, total, src_total;
    if (__builtin_mul_overflow((size_t)dst_stride * element, n, &dst_block) ||
        __builtin_mul_overflow((size_t)src_stride * element, n, &src_block) ||
        __builtin_mul_overflow(dst_block, (size_t)team->n, &total) ||
        __builtin_mul_overflow(src_block, (size_t)team->n, &src_total))
        return base_fail(WEFT_ERR_RANGE, "%s: strides and sizes are too large", name);
    struct symmetric_range to;
    status =
        coll_find_range(name, "dst", team, dst, total - ((size_t)dst_stride - 1) * element, &to);
    if (!status && !src)
        status = base_fail(WEFT_ERR_ARGUMENT, "%s: src is null", name);
    if (!status && coll_on_gpu(team, dst, src))
        return coll_gpu_strided(team, dst, src, dst_stride, src_stride, element, n);
    if (!status && team->nodes) {
        struct coll_nodes_blocks what = {.to = to,
                                         .element = element,
                                         .n = n,
                                         .dst_stride = (size_t)dst_stride,
                                         .src_stride = (size_t)src_stride};
        size_t src_bytes = src_total - ((size_t)src_stride - 1) * element;
        return alltoall_by_node(name, team, BOX_OP_ALLTOALLS, src, src_bytes, what, phase);
    }
    char *target = (char *)dst + (size_t)team->me * dst_block;
    for (int k = 0; k < team->n && !status; k++) {
        int i = (team->me + k) % team->n;
        status = weft_iput(team->job->system_ctx, target, (const char *)src + (size_t)i * src_block,
                           dst_stride, src_stride, element, n, team->pes[i]);
        if (status)
            base_fail_context(status, "%s", name);
        if (!status && i != team->me)
            status = coll_notify(team, i, phase);
    }
    return status ? status : await_all(team, phase, BOX_OP_ALLTOALLS);
}
