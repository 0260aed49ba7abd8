/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives that several blocks of a kernel share: their threads move or combine the bytes
 * together, because one block uses one SM and cannot saturate a GPU's links. See collective.h for
 * teams, memory and statuses.
 *
 *   int weft_grid_meet(int team), weft_grid_sync(int team), weft_grid_barrier(int team)
 *   int weft_grid_broadcast(int team, void *dst, const void *src, size_t bytes, int root)
 *   int weft_grid_allgather(int team, void *dst, const void *src, size_t bytes)
 *   int weft_grid_alltoall(int team, void *dst, const void *src, size_t bytes)
 *   int weft_grid_gather(int team, void *dst, const void *src, size_t bytes, int root)
 *   int weft_grid_scatter(int team, void *dst, const void *src, size_t bytes, int root)
 *   int weft_grid_collect(int team, void *dst, const void *src, size_t bytes)
 *   int weft_grid_alltoallv(int team, void *dst, size_t room, const uint64_t *recv_bytes,
 *                           const uint64_t *recv_at, const void *src, const uint64_t *send_bytes,
 *                           const uint64_t *send_at)
 *   int weft_grid_alltoalls(int team, void *dst, const void *src, ptrdiff_t dst_stride,
 *                           ptrdiff_t src_stride, size_t element, size_t n)
 *   int weft_grid_allreduce(int team, void *dst, const void *src, size_t n, weft_type type,
 *                           weft_op op)
 *   int weft_grid_reducescatter(int team, void *dst, const void *src, size_t n, weft_type type,
 *                               weft_op op)
 *   int weft_grid_reduce(int team, void *dst, const void *src, size_t n, weft_type type,
 *                        weft_op op, int root)
 *   int weft_grid_allreduce_scaled(int team, void *dst, const void *src, size_t n, weft_type type,
 *                                  double factor)
 *   int weft_grid_reducescatter_scaled(int team, void *dst, const void *src, size_t n,
 *                                      weft_type type, double factor)
 *   int weft_grid_reduce_scaled(int team, void *dst, const void *src, size_t n, weft_type type,
 *                               double factor, int root)
 *   weft_grid_allreduce_weighted(), _reducescatter_weighted() and _reduce_weighted() likewise
 *       All threads of all blocks of the grid call them, with the same arguments.
 *   int weft_blocks_meet(unsigned blocks, int team), and the same form of each function above
 *       The threads of the first `blocks` blocks of the grid call them (weft_dev_block_rank() <
 *       blocks). The grid may have more blocks, which do not wait.
 *
 * Residency. The blocks that take part wait for one another, so all of them must be resident on the
 * GPU at the same time. WEFT_LAUNCH_COOPERATIVE() fails for a grid that cannot be. A kernel that is
 * launched otherwise must not have more blocks than fit on the GPU along with the other running
 * kernels. If some blocks never arrive, the wait times out: after WEFT_WAIT_LIMIT the call returns
 * WEFT_ERR_TIMEOUT in the others, and the job's failure says how many have arrived.
 *
 * All members call the grid form, in the same order as their other device collectives of the team;
 * numbers of blocks and threads may differ between members and from call to call. One collective of
 * a team runs at a time in a PE; but blocks outside the first ones may already be in the next one
 * of the grid form. Between two calls of the blocks form with different numbers there must be one
 * of the grid form.
 * Sources: the program must synchronise what other blocks wrote there over the grid, which
 * weft_grid_meet() does. On return all blocks see the destination, and what this PE's blocks wrote
 * before the call. The status is the same for all blocks, unless some have never arrived.
 * WEFT_ERR_ARGUMENT, besides: `blocks` is more than the grid has, or the calling block is not among
 * them. Reductions give the same bits as the block forms and the host. Epochs are in the PE's
 * device memory: a captured kernel may be replayed.
 *
 * Implementation. Blocks move their parts, then arrive at a counter of the PE. The last block to
 * arrive does the rest of the protocol with the other members, as a single block does (fence,
 * flags, waiting), and then releases the other blocks. A member therefore has one fence and one set
 * of flags for each step, whatever its number of blocks. A broadcast of WEFT_DEV_SPREAD bytes and
 * more to several members is cut into one slice for each of them, which they forward to each other:
 * each link carries each byte once, in two steps. */
#ifndef WEFT_DEVICE_GRID_H
#define WEFT_DEVICE_GRID_H

#include <weft/device/collective.h>
#include <weft/device/reduce.h>
#include <weft/device/sized.h>

enum { WEFT_DEV_SPREAD = 256 * 1024 };

/* What the last block to arrive does for all blocks. */
enum weft_dev_grid_what {
    WEFT_DEV_GRID_MEETING,      /* a synchronisation; at: enum weft_dev_meeting */
    WEFT_DEV_GRID_SEND,         /* sets the members' flags after data were moved to them, and awaits
                                   the flags from ... to - 1 */
    WEFT_DEV_GRID_TAKE,         /* only awaits these flags */
    WEFT_DEV_GRID_TELL,         /* sends two words to each member, and awaits theirs */
    WEFT_DEV_GRID_COMPARE_ARGS, /* compares the call's arguments with the members' */
    WEFT_DEV_GRID_REDUCE,       /* does the whole reduction */
};

struct weft_dev_grid_step {
    enum weft_dev_grid_what what;
    int operation, from, to;
    enum weft_dev_meeting at;
    const struct weft_dev_words *words;
    const struct weft_dev_args *args;
};

/* Arguments of a reduction. */
struct weft_dev_grid_reduction {
    void *dst;
    const void *src;
    size_t n;
    struct weft_dev_combining what;
};

/* ------------------------------------------------------------------------------- the blocks */

WEFT_DEVICE_NOINLINE int weft_dev_grid_refuse(int operation, int team, unsigned blocks)
{
    if (weft_dev_thread_rank() == 0) {
        weft_dev_record(WEFT_DEV_RECORD_REFUSED, operation, WEFT_ERR_ARGUMENT, -1, team, NULL,
                        WEFT_LE, blocks, weft_dev_grid_blocks(), 0);
        weft_dev_fail(WEFT_ERR_ARGUMENT);
    }
    return WEFT_ERR_ARGUMENT;
}

/* The threads of all blocks as one group. Its rank and number of threads serve to divide bytes; a
 * group of one block sets and awaits flags. */
WEFT_DEVICE int weft_dev_grid_begin(struct weft_dev_group *g, unsigned blocks, int team,
                                    int operation)
{
    g->m = weft_dev_members_of(team);
    g->scope = WEFT_DEV_BLOCK;
    g->operation = operation;
    g->rank = weft_dev_block_rank() * weft_dev_block_threads() + weft_dev_thread_rank();
    g->threads = blocks * weft_dev_block_threads();
    if (weft_dev_block_rank() >= blocks || blocks > weft_dev_grid_blocks())
        return weft_dev_grid_refuse(operation, team, blocks);
    if (WEFT_DEV_LIKELY(g->m.n && g->m.direct))
        return WEFT_OK;
    return g->m.n ? weft_dev_check_members(operation, team, g->rank == 0)
                  : weft_dev_refuse(operation, team, WEFT_ERR_NOT_MEMBER, NULL, 0, g->rank == 0);
}

/* The job has failed while a block waited for the other blocks. Some blocks may have returned
 * before, so the cause is not another PE: records the operation that was left, unless an earlier
 * block has recorded one. */
WEFT_DEVICE void weft_dev_grid_leave(int operation, int team)
{
    struct weft_dev_box *box = weft_dev_state.box;
    if (weft_dev_job_failed(0) &&
        !weft_dev_load_u64(&box->left, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS))
        weft_dev_store_u64(&box->left, WEFT_DEV_LEFT(operation, team, weft_dev_state.me),
                           WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
}

/* Called by one thread of each block but the last one to arrive. Returns when the last block has
 * done its step. *released: the value before this block arrived; becomes the new value. Once all
 * blocks have arrived there is no time limit here: each wait of the last block has its own
 * limit. */
WEFT_DEVICE_NOINLINE int weft_dev_grid_await(const struct weft_dev_area *own, int form,
                                             unsigned blocks, int operation, int team,
                                             uint64_t *released)
{
    uint64_t before = *released, arrived = 0;
    uint32_t polls = 0;
    struct weft_dev_patience p;
    struct weft_dev_awaited what = weft_dev_awaited_of(WEFT_DEV_OP_GRID, weft_dev_state.me, team,
                                                       &own->grid_arrived[form], WEFT_GE, blocks);
    int status = WEFT_OK;
    /* Acquire: pairs with the release of the block that arrived last. */
    while ((*released = weft_dev_load_u64(&own->grid_released[form], WEFT_ORDER_ACQUIRE,
                                          WEFT_SCOPE_GPU)) == before &&
           !status) {
        if (arrived == blocks)
            continue;
        arrived = weft_dev_load_u64(&own->grid_arrived[form], WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
        status = weft_dev_patience_step(&p, what, &polls, arrived);
    }
    weft_dev_patience_end(&p, polls);
    if (status) {
        weft_dev_grid_leave(operation, team);
        weft_dev_fail(status);
    }
    return status;
}

WEFT_DEVICE int weft_dev_grid_members(int team, const struct weft_dev_grid_step *step,
                                      const struct weft_dev_grid_reduction *r)
{
    struct weft_dev_group g;
    if (step->what == WEFT_DEV_GRID_REDUCE)
        return weft_dev_reduce(WEFT_DEV_BLOCK, team, r->dst, r->src, r->n, r->what);
    if (step->what == WEFT_DEV_GRID_TELL)
        return weft_dev_exchange_words(WEFT_DEV_BLOCK, team, step->operation, *step->words);
    if (step->what == WEFT_DEV_GRID_COMPARE_ARGS)
        return weft_dev_compare_args(WEFT_DEV_BLOCK, team, *step->args);
    weft_dev_group_begin(&g, WEFT_DEV_BLOCK, team, step->operation);
    if (step->what == WEFT_DEV_GRID_MEETING)
        return weft_dev_meeting(&g, step->at);
    weft_dev_data_begin(&g);
    if (step->what == WEFT_DEV_GRID_SEND)
        weft_dev_deliver(&g);
    else
        weft_dev_scope_sync(
            WEFT_DEV_BLOCK); /* all have read the count before one of them raises it */
    return weft_dev_receive(&g, step->from, step->to);
}

/* All blocks arrive, and continue when the last one has done the step with the other members. What
 * the blocks did before is ordered before the step, by each block's sync and its arrival, which the
 * last block's arrival acquires. The step is ordered before what they do next, by the last block's
 * sync and release, which the other blocks' loads acquire. */
WEFT_DEVICE int weft_dev_grid_step(unsigned blocks, int team, const struct weft_dev_grid_step *step,
                                   const struct weft_dev_grid_reduction *r)
{
    struct weft_dev_group of;
    of.m.number = team;
    struct weft_dev_area *own = weft_dev_own_area(&of);
    uint64_t released = 0;
    int first = weft_dev_thread_rank() == 0, last = 0, failed = 0;
    int form = blocks != weft_dev_grid_blocks();
    weft_dev_sync_block();
    if (first) {
        released = weft_dev_load_u64(&own->grid_released[form], WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
        last = weft_dev_atomic_add_u64(&own->grid_arrived[form], 1, WEFT_ORDER_ACQ_REL,
                                       WEFT_SCOPE_GPU) +
                   1 ==
               blocks;
    }
    if (weft_dev_sync_block_or(last)) {
        int status = weft_dev_grid_members(team, step, r);
        if (first) {
            weft_dev_store_u64(&own->grid_arrived[form], 0, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
            weft_dev_store_u64(&own->grid_released[form],
                               ((released >> 1) + 1) << 1 | (status != WEFT_OK), WEFT_ORDER_RELEASE,
                               WEFT_SCOPE_GPU);
        }
        return status;
    }
    if (first)
        failed = weft_dev_grid_await(own, form, blocks, step->operation, team, &released) ||
                 (released & 1);
    return weft_dev_sync_block_or(failed) ? WEFT_ERR_TIMEOUT : WEFT_OK;
}

/* The last block compares the arguments for all. The other blocks learn only that there is a
 * difference; the fault record has it. */
WEFT_DEVICE int weft_dev_grid_compare_args(unsigned blocks, int team, struct weft_dev_args args)
{
    struct weft_dev_grid_step step = {
        WEFT_DEV_GRID_COMPARE_ARGS, args.operation, 0, 0, WEFT_DEV_MEET, NULL, &args};
    if (!WEFT_DEV_CHECKS || WEFT_DEV_LIKELY(!weft_dev_state.checking))
        return WEFT_OK;
    args.grid = 1;
    return weft_dev_grid_step(blocks, team, &step, NULL) ? WEFT_ERR_MISMATCH : WEFT_OK;
}

/* ------------------------------------------------------------------------------- operations */

WEFT_DEVICE_NOINLINE int weft_dev_grid_meet_as(unsigned blocks, int team, int operation,
                                               enum weft_dev_meeting meeting)
{
    struct weft_dev_group g;
    struct weft_dev_grid_step step = {WEFT_DEV_GRID_MEETING, operation, 0, 0, meeting, NULL, NULL};
    int status = weft_dev_grid_begin(&g, blocks, team, operation);
    if (!status)
        status = weft_dev_grid_compare_args(blocks, team, weft_dev_args_of(operation, 0, -1));
    return status ? status : weft_dev_grid_step(blocks, team, &step, NULL);
}

WEFT_DEVICE int weft_dev_grid_notify(const struct weft_dev_group *g, unsigned blocks,
                                     enum weft_dev_grid_what what, int from, int to)
{
    struct weft_dev_grid_step step = {what, g->operation, from, to, WEFT_DEV_MEET, NULL, NULL};
    return weft_dev_grid_step(blocks, g->m.number, &step, NULL);
}

/* Offset in bytes of slice `place` of a broadcast, the slice of the member that is `place` + 1
 * positions after the root. */
WEFT_DEVICE size_t weft_dev_grid_slice(size_t bytes, int others, int place)
{
    size_t slice = ((bytes + (size_t)others - 1) / (size_t)others + 15) & ~(size_t)15;
    size_t begin = slice * (size_t)place;
    return begin < bytes ? begin : bytes;
}

/* All threads move slice `place` of the data at `from` to the same slice of `symmetric` at a
 * member. */
WEFT_DEVICE void weft_dev_grid_send_slice(const struct weft_dev_group *g, int member, int place,
                                          char *symmetric, const char *from, size_t bytes,
                                          unsigned rank, unsigned threads)
{
    size_t begin = weft_dev_grid_slice(bytes, g->m.n - 1, place);
    size_t end = weft_dev_grid_slice(bytes, g->m.n - 1, place + 1);
    weft_dev_move_to(g, member, symmetric + begin, from + begin, end - begin, rank, threads);
}

WEFT_DEVICE int weft_dev_grid_spread(const struct weft_dev_group *g, unsigned blocks, void *dst,
                                     const void *src, size_t bytes, int root)
{
    struct weft_dev_share share = weft_dev_share_of(g);
    int n = g->m.n, place = (g->m.me - root - 1 + n) % n;
    char *symmetric = (char *)(dst ? dst : (void *)(uintptr_t)src);
    int is_root = g->m.me == root;
    for (int i = share.first; i < n - 1 && is_root; i += share.step)
        weft_dev_grid_send_slice(g, weft_dev_next_member(g, i), i, symmetric, (const char *)src,
                                 bytes, share.rank, share.threads);
    if (is_root && dst && dst != src)
        weft_dev_move((char *)dst, (const char *)src, bytes, g->rank, g->threads, 0);
    int status = is_root ? weft_dev_grid_notify(g, blocks, WEFT_DEV_GRID_SEND, 0, 0)
                         : weft_dev_grid_notify(g, blocks, WEFT_DEV_GRID_TAKE, root, root + 1);
    for (int i = share.first; i < n - 1 && !is_root && !status; i += share.step)
        if (weft_dev_next_member(g, i) != root)
            weft_dev_grid_send_slice(g, weft_dev_next_member(g, i), place, symmetric, symmetric,
                                     bytes, share.rank, share.threads);
    return status ? status : weft_dev_grid_notify(g, blocks, WEFT_DEV_GRID_SEND, 0, n);
}

WEFT_DEVICE_NOINLINE int weft_dev_grid_broadcast(unsigned blocks, int team, void *dst,
                                                 const void *src, size_t bytes, int root)
{
    struct weft_dev_group g;
    int status = weft_dev_grid_begin(&g, blocks, team, WEFT_DEV_OP_BROADCAST);
    if (!status)
        status = weft_dev_grid_compare_args(blocks, team,
                                            weft_dev_broadcast_args(&g, dst, src, bytes, root));
    if (!status && (root < 0 || root >= g.m.n))
        status = weft_dev_refuse(g.operation, team, WEFT_ERR_PE, dst, bytes, g.rank == 0);
    if (!status)
        status = weft_dev_check(&g, dst ? dst : src, bytes);
    if (status)
        return status;
    if (g.m.n > 2 && bytes >= WEFT_DEV_SPREAD && weft_dev_team_all_direct(team))
        return weft_dev_grid_spread(&g, blocks, dst, src, bytes, root);
    if (g.m.me != root)
        return weft_dev_grid_notify(&g, blocks, WEFT_DEV_GRID_TAKE, root, root + 1);
    struct weft_dev_share share = weft_dev_share_of(&g);
    for (int i = share.first; i < g.m.n; i += share.step) {
        int member = weft_dev_next_member(&g, i);
        if (member != g.m.me || dst)
            weft_dev_move_to(&g, member, dst ? dst : (void *)(uintptr_t)src, (const char *)src,
                             bytes, share.rank, share.threads);
    }
    return weft_dev_grid_notify(&g, blocks, WEFT_DEV_GRID_SEND, 0, 0);
}

WEFT_DEVICE_NOINLINE int weft_dev_grid_exchange(unsigned blocks, int team, int operation, void *dst,
                                                const void *src, size_t bytes, int each)
{
    struct weft_dev_group g;
    int status = weft_dev_grid_begin(&g, blocks, team, operation);
    if (!status)
        status = weft_dev_grid_compare_args(blocks, team,
                                            weft_dev_exchange_args(&g, dst, src, bytes, each));
    if (!status)
        status = weft_dev_check(&g, dst, bytes * (size_t)g.m.n);
    if (status)
        return status;
    struct weft_dev_share share = weft_dev_share_of(&g);
    for (int i = share.first; i < g.m.n; i += share.step) {
        int member = weft_dev_next_member(&g, i);
        const char *from = (const char *)src + (each ? bytes * (size_t)member : 0);
        weft_dev_move_to(&g, member, (char *)dst + bytes * (size_t)g.m.me, from, bytes, share.rank,
                         share.threads);
    }
    return weft_dev_grid_notify(&g, blocks, WEFT_DEV_GRID_SEND, 0, g.m.n);
}

WEFT_DEVICE_NOINLINE int weft_dev_grid_rooted(unsigned blocks, int team, int operation, void *dst,
                                              const void *src, size_t bytes, int root)
{
    struct weft_dev_group g;
    int from, to, status = weft_dev_grid_begin(&g, blocks, team, operation);
    if (!status)
        status = weft_dev_grid_compare_args(blocks, team,
                                            weft_dev_rooted_args(&g, dst, src, bytes, root));
    if (!status)
        status = weft_dev_rooted_check(&g, dst, bytes, root);
    if (status)
        return status;
    weft_dev_rooted_send(&g, dst, src, bytes, root);
    int sends = weft_dev_rooted_sends(&g, root, &from, &to);
    return weft_dev_grid_notify(&g, blocks, sends ? WEFT_DEV_GRID_SEND : WEFT_DEV_GRID_TAKE, from,
                                to);
}

WEFT_DEVICE int weft_dev_grid_tell(const struct weft_dev_group *g, unsigned blocks,
                                   struct weft_dev_words words)
{
    struct weft_dev_grid_step step = {WEFT_DEV_GRID_TELL, g->operation, 0,   0,
                                      WEFT_DEV_MEET,      &words,       NULL};
    return weft_dev_grid_step(blocks, g->m.number, &step, NULL);
}

WEFT_DEVICE_NOINLINE int weft_dev_grid_collect(unsigned blocks, int team, void *dst,
                                               const void *src, size_t bytes)
{
    struct weft_dev_group g;
    uint64_t before = 0;
    int status = weft_dev_grid_begin(&g, blocks, team, WEFT_DEV_OP_COLLECT);
    if (!status)
        status = weft_dev_grid_compare_args(blocks, team, weft_dev_collect_args(dst));
    if (!status)
        status = weft_dev_grid_tell(&g, blocks, weft_dev_words_of(bytes, 0));
    if (!status)
        status = weft_dev_collect_place(&g, dst, bytes, &before);
    if (status)
        return status;
    int apart = weft_dev_collect_apart(&g, dst, src, bytes, before);
    weft_dev_collect_send(&g, (char *)dst + before, src, apart ? 0 : bytes);
    status = weft_dev_grid_notify(&g, blocks, WEFT_DEV_GRID_SEND, 0, g.m.n);
    return status ? status : apart;
}

WEFT_DEVICE_NOINLINE int weft_dev_grid_alltoallv(unsigned blocks, int team,
                                                 struct weft_dev_blocks what)
{
    struct weft_dev_group g;
    int status = weft_dev_grid_begin(&g, blocks, team, WEFT_DEV_OP_ALLTOALLV);
    if (!status)
        status = weft_dev_grid_compare_args(blocks, team, weft_dev_blocks_args(&g, &what));
    if (!status)
        status = weft_dev_check(&g, what.dst, what.room);
    if (!status)
        status = weft_dev_grid_tell(&g, blocks, weft_dev_offers_of(&what));
    if (status)
        return status;
    int fits = weft_dev_blocks_send(&g, &what);
    status = weft_dev_grid_notify(&g, blocks, WEFT_DEV_GRID_SEND, 0, g.m.n);
    return status ? status : fits;
}

WEFT_DEVICE_NOINLINE int weft_dev_grid_alltoalls(unsigned blocks, int team, void *dst,
                                                 const void *src, int64_t dst_stride,
                                                 int64_t src_stride, size_t element, size_t n)
{
    struct weft_dev_group g;
    struct weft_dev_gaps s = {(char *)dst, (const char *)src, 0, 0, element, n, 0};
    int status = weft_dev_grid_begin(&g, blocks, team, WEFT_DEV_OP_ALLTOALL);
    if (!status)
        status = weft_dev_grid_compare_args(blocks, team,
                                            weft_dev_gaps_args(&g, &s, dst_stride, src_stride));
    if (!status)
        status = weft_dev_gaps_begin(&g, &s, dst_stride, src_stride);
    if (status)
        return status;
    weft_dev_gaps_send(&g, &s);
    return weft_dev_grid_notify(&g, blocks, WEFT_DEV_GRID_SEND, 0, g.m.n);
}

/* The slices of large reductions, as in weft_dev_reduce_slices(). */
WEFT_DEVICE int weft_dev_grid_reduce_slices(struct weft_dev_reduction *r, unsigned blocks, int team)
{
    struct weft_dev_grid_step step = {WEFT_DEV_GRID_MEETING, r->g.operation, 0,   0,
                                      WEFT_DEV_SYNC,         NULL,           NULL};
    uint64_t begin, end;
    int status = weft_dev_grid_step(blocks, team, &step, NULL);
    if (status)
        return status;
    weft_dev_reduce_part(r, &begin, &end);
    weft_dev_reduce_slice(r, begin, end, 1);
    step.at = r->each ? WEFT_DEV_SYNC : WEFT_DEV_BARRIER;
    return weft_dev_grid_step(blocks, team, &step, NULL);
}

WEFT_DEVICE_NOINLINE int weft_dev_grid_reduce(unsigned blocks, int team, void *dst, const void *src,
                                              size_t n, struct weft_dev_combining what)
{
    struct weft_dev_reduction r;
    struct weft_dev_grid_reduction call = {dst, src, n, what};
    struct weft_dev_grid_step step = {
        WEFT_DEV_GRID_REDUCE, weft_dev_reduce_operation(what), 0, 0, WEFT_DEV_MEET, NULL, NULL};
    int status = weft_dev_grid_begin(&r.g, blocks, team, weft_dev_reduce_operation(what));
    weft_dev_reduce_fill(&r, dst, src, n, what);
    r.how.members = r.g.m.n;
    if (!status)
        status = weft_dev_grid_compare_args(blocks, team, weft_dev_reduce_compared(&r, n, what));
    if (!status)
        status = weft_dev_reduce_args(&r, what);
    if (!status)
        status = weft_dev_reduce_places(&r);
    if (status || !n)
        return status;
    if (weft_dev_reduce_is_small(team, r.bytes, what.weighted) || !weft_dev_team_all_direct(team))
        return weft_dev_grid_step(blocks, team, &step, &call);
    if (what.weighted)
        status =
            weft_dev_grid_tell(&r.g, blocks, weft_dev_words_of(weft_dev_bits_f64(what.factor), 0));
    if (status)
        return status;
    weft_dev_reduce_find_factors(&r);
    return weft_dev_grid_reduce_slices(&r, blocks, team);
}

/* X(name of the form, its own parameters, number of blocks) */
#define WEFT_DEV_GRID_FORMS(X)                                                                     \
    X(grid, int team, weft_dev_grid_blocks())                                                      \
    X(blocks, WEFT_DEV_GRID_FIRST, blocks)
#define WEFT_DEV_GRID_FIRST unsigned blocks, int team

#define WEFT_DEV_GRID_FUNCTIONS(form, leading, count)                                              \
    WEFT_DEVICE int weft_##form##_meet(leading)                                                    \
    {                                                                                              \
        return weft_dev_grid_meet_as(count, team, WEFT_DEV_OP_SYNC, WEFT_DEV_MEET);                \
    }                                                                                              \
    WEFT_DEVICE int weft_##form##_sync(leading)                                                    \
    {                                                                                              \
        return weft_dev_grid_meet_as(count, team, WEFT_DEV_OP_SYNC, WEFT_DEV_SYNC);                \
    }                                                                                              \
    WEFT_DEVICE int weft_##form##_barrier(leading)                                                 \
    {                                                                                              \
        return weft_dev_grid_meet_as(count, team, WEFT_DEV_OP_BARRIER, WEFT_DEV_BARRIER);          \
    }                                                                                              \
    WEFT_DEVICE int weft_##form##_broadcast(leading, void *dst, const void *src, size_t bytes,     \
                                            int root)                                              \
    {                                                                                              \
        return weft_dev_grid_broadcast(count, team, dst, src, bytes, root);                        \
    }                                                                                              \
    WEFT_DEVICE int weft_##form##_allgather(leading, void *dst, const void *src, size_t bytes)     \
    {                                                                                              \
        return weft_dev_grid_exchange(count, team, WEFT_DEV_OP_ALLGATHER, dst, src, bytes, 0);     \
    }                                                                                              \
    WEFT_DEVICE int weft_##form##_alltoall(leading, void *dst, const void *src, size_t bytes)      \
    {                                                                                              \
        return weft_dev_grid_exchange(count, team, WEFT_DEV_OP_ALLTOALL, dst, src, bytes, 1);      \
    }                                                                                              \
    WEFT_DEVICE int weft_##form##_gather(leading, void *dst, const void *src, size_t bytes,        \
                                         int root)                                                 \
    {                                                                                              \
        return weft_dev_grid_rooted(count, team, WEFT_DEV_OP_GATHER, dst, src, bytes, root);       \
    }                                                                                              \
    WEFT_DEVICE int weft_##form##_scatter(leading, void *dst, const void *src, size_t bytes,       \
                                          int root)                                                \
    {                                                                                              \
        return weft_dev_grid_rooted(count, team, WEFT_DEV_OP_SCATTER, dst, src, bytes, root);      \
    }                                                                                              \
    WEFT_DEVICE int weft_##form##_collect(leading, void *dst, const void *src, size_t bytes)       \
    {                                                                                              \
        return weft_dev_grid_collect(count, team, dst, src, bytes);                                \
    }                                                                                              \
    WEFT_DEVICE int weft_##form##_alltoallv(                                                       \
        leading, void *dst, size_t room, const uint64_t *recv_bytes, const uint64_t *recv_at,      \
        const void *src, const uint64_t *send_bytes, const uint64_t *send_at)                      \
    {                                                                                              \
        struct weft_dev_blocks what = {(char *)dst,       room,       recv_bytes, recv_at,         \
                                       (const char *)src, send_bytes, send_at};                    \
        return weft_dev_grid_alltoallv(count, team, what);                                         \
    }                                                                                              \
    WEFT_DEVICE int weft_##form##_alltoalls(leading, void *dst, const void *src,                   \
                                            ptrdiff_t dst_stride, ptrdiff_t src_stride,            \
                                            size_t element, size_t n)                              \
    {                                                                                              \
        return weft_dev_grid_alltoalls(count, team, dst, src, dst_stride, src_stride, element, n); \
    }                                                                                              \
    WEFT_DEVICE int weft_##form##_allreduce(leading, void *dst, const void *src, size_t n,         \
                                            weft_type type, weft_op op)                            \
    {                                                                                              \
        struct weft_dev_combining what = {type, weft_dev_op_of(op), 0, WEFT_DEV_ALL, 0};           \
        return weft_dev_grid_reduce(count, team, dst, src, n, what);                               \
    }                                                                                              \
    WEFT_DEVICE int weft_##form##_reducescatter(leading, void *dst, const void *src, size_t n,     \
                                                weft_type type, weft_op op)                        \
    {                                                                                              \
        struct weft_dev_combining what = {type, weft_dev_op_of(op), 0, WEFT_DEV_EACH, 0};          \
        return weft_dev_grid_reduce(count, team, dst, src, n, what);                               \
    }                                                                                              \
    WEFT_DEVICE int weft_##form##_reduce(leading, void *dst, const void *src, size_t n,            \
                                         weft_type type, weft_op op, int root)                     \
    {                                                                                              \
        struct weft_dev_combining what = {type, weft_dev_op_of(op), 0, weft_dev_root_of(root), 0}; \
        return weft_dev_grid_reduce(count, team, dst, src, n, what);                               \
    }                                                                                              \
    WEFT_DEV_GRID_SUMS(form, count, scaled, 0, leading)                                            \
    WEFT_DEV_GRID_SUMS(form, count, weighted, 1, leading)

#define WEFT_DEV_GRID_SUMS(form, count, kind, weighted, ...)                                       \
    WEFT_DEVICE int weft_##form##_allreduce_##kind(__VA_ARGS__, void *dst, const void *src,        \
                                                   size_t n, weft_type type, double factor)        \
    {                                                                                              \
        struct weft_dev_combining what = {type, WEFT_DEV_SCALED, factor, WEFT_DEV_ALL, weighted};  \
        return weft_dev_grid_reduce(count, team, dst, src, n, what);                               \
    }                                                                                              \
    WEFT_DEVICE int weft_##form##_reducescatter_##kind(__VA_ARGS__, void *dst, const void *src,    \
                                                       size_t n, weft_type type, double factor)    \
    {                                                                                              \
        struct weft_dev_combining what = {type, WEFT_DEV_SCALED, factor, WEFT_DEV_EACH, weighted}; \
        return weft_dev_grid_reduce(count, team, dst, src, n, what);                               \
    }                                                                                              \
    WEFT_DEVICE int weft_##form##_reduce_##kind(__VA_ARGS__, void *dst, const void *src, size_t n, \
                                                weft_type type, double factor, int root)           \
    {                                                                                              \
        struct weft_dev_combining what = {type, WEFT_DEV_SCALED, factor, weft_dev_root_of(root),   \
                                          weighted};                                               \
        return weft_dev_grid_reduce(count, team, dst, src, n, what);                               \
    }
WEFT_DEV_GRID_FORMS(WEFT_DEV_GRID_FUNCTIONS)
#undef WEFT_DEV_GRID_FUNCTIONS
#undef WEFT_DEV_GRID_SUMS
#undef WEFT_DEV_GRID_FORMS
#undef WEFT_DEV_GRID_FIRST

#endif
