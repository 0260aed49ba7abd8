/* SPDX-License-Identifier: Apache-2.0 */
/* What collectives are made of: phases and packets.
 *
 * Phases. Each collective of a team owns TEAM_PHASES numbers of the team's sequence, the same at
 * every member. "Member i has reached phase p" is a store of p into flag of the mailbox that i has
 * at the other; flags only grow, so a late reader that finds a higher number is right to go on.
 * Large ones over nodes take a number more for each piece.
 *
 * Packets. A payload of up to PACKET_BYTES and its number travel in one cache line, so that the
 * line's arrival tells of the data too (NCCL calls this its LL protocol). A mailbox has two
 * packets; exchanges with even numbers use one, those with odd numbers the other. Two are enough
 * where every member sends to every other: a member that sends exchange k + 2 has finished k + 1,
 * so it has k + 1 from everyone, so everyone had finished reading k. One-sided collectives
 * (broadcast) therefore use phases only.
 *
 * Nodes. Where members share nodes (team->nodes), the coll_nodes*.c do all of them by node. In an
 * exchange a member then sends its packet to one member of each other node, which hands it on into
 * the mailboxes at its neighbours before its own exchange ends: still one writer for each mailbox
 * and exchange, and the count of two holds as above. */
#ifndef WEFT_OPS_COLL_H
#define WEFT_OPS_COLL_H

#include "job/waiter.h"
#include "ops/access.h"
#include "ops/coll/reduce.h"

enum { COLL_NBI_LEAST = 256 * 1024 }; /* blocks to other nodes from here on travel side by side */

/* A symmetric range, found once and used for every member. */
struct place {
    enum segment_id segment;
    size_t offset;
};

/* Checks team and job, notes the call in the black box, and in checking mode compares the call's
 * arguments between the members. *phase: this call's first phase number; phase + 1 ... may be used
 * too, up to TEAM_PHASES of them. */
weft_status coll_begin(const char *function, struct weft_team *team, enum box_operation operation,
                       int root, uint64_t bytes, uint64_t detail, uint64_t *phase);

weft_status coll_check_root(const char *function, const struct weft_team *team, int root);

/* WEFT_OK or, naming function and argument, what is wrong with a symmetric range. */
weft_status coll_place(const char *function, const char *argument, struct weft_team *team,
                       const void *address, size_t bytes, struct place *place);

weft_status coll_notify_slow(struct weft_team *team, int member, uint64_t phase);
weft_status coll_await_slow(struct weft_team *team, int member, uint64_t phase,
                            enum box_operation operation);
weft_status coll_put_slow(struct weft_team *team, int member, struct place to, const void *src,
                          size_t bytes);
weft_status coll_put_notify_slow(struct weft_team *team, int member, struct place to,
                                 const void *src, size_t bytes, uint64_t phase, bool nbi);

/* Tells a member that this PE has reached `phase`; what this PE stored or put before through
 * coll_put() is visible to it then. */
static inline weft_status coll_notify(struct weft_team *team, int member, uint64_t phase)
{
    struct mailbox *mailbox = team->mailbox_at[member];
    if (unlikely(!mailbox))
        return coll_notify_slow(team, member, phase);
    /* Release: pairs with the acquire load in coll_await(). */
    atomic_store_explicit(&mailbox->flag, phase, memory_order_release);
    return WEFT_OK;
}

static inline weft_status coll_await(struct weft_team *team, int member, uint64_t phase,
                                     enum box_operation operation)
{
    if (likely(atomic_load_explicit(&team->mailboxes[member].flag, memory_order_acquire) >= phase))
        return WEFT_OK;
    return coll_await_slow(team, member, phase, operation);
}

/* Address of a place at a member, or NULL when it cannot be loaded and stored. */
static inline char *coll_address(struct weft_team *team, int member, struct place place)
{
    if (unlikely(!team->mailbox_at[member]))
        return NULL;
    return team->job->paths.map[team->pes[member]][place.segment] + place.offset;
}

static inline weft_status coll_put(struct weft_team *team, int member, struct place to,
                                   const void *src, size_t bytes)
{
    char *address = coll_address(team, member, to);
    if (unlikely(!address))
        return coll_put_slow(team, member, to, src, bytes);
    memcpy(address, src, bytes);
    return WEFT_OK;
}

/* coll_put() and coll_notify(): over a network one message instead of two. nbi: src stays as it is
 * until the next quiet of the library's context. */
static inline weft_status coll_put_notify(struct weft_team *team, int member, struct place to,
                                          const void *src, size_t bytes, uint64_t phase, bool nbi)
{
    char *address = coll_address(team, member, to);
    if (unlikely(!address))
        return coll_put_notify_slow(team, member, to, src, bytes, phase, nbi);
    memcpy(address, src, bytes);
    return coll_notify(team, member, phase);
}

/* Whether a collective with these arguments touches GPU memory; then it is done by the functions of
 * gpu.c, which check places and sizes themselves. The answer is the same at every member,
 * because dst and src are symmetric. */
static inline bool coll_on_gpu(const struct weft_team *team, const void *dst, const void *src)
{
    if (likely(!team || !team->job->gpu))
        return false;
    struct gpu *gpu = team->job->gpu;
    uintptr_t base = gpu->heap.reservation;
    size_t size = gpu->heap.reserved_bytes;
    return (uintptr_t)dst - base < size || (uintptr_t)src - base < size;
}

weft_status coll_gpu_broadcast(struct weft_team *team, void *dst, const void *src, size_t bytes,
                               int root);
weft_status coll_gpu_blocks(struct weft_team *team, enum box_operation operation, void *dst,
                            const void *src, size_t src_step, size_t bytes, size_t at);

/* What a member tells the others of its part of a collect, so that all choose alike: how many
 * bytes, and how far in its GPU heap they lie. */
struct coll_share {
    uint64_t bytes, at;
};
#define COLL_ELSEWHERE UINT64_MAX /* not in the GPU heap, or dst is not */

struct coll_share coll_gpu_share(const struct weft_team *team, const void *dst, const void *src,
                                 size_t bytes);

/* shares: of all members; `before` bytes of them lie before this member's, of `total`. */
weft_status coll_gpu_collect(struct weft_team *team, void *dst, const void *src,
                             const struct coll_share *shares, size_t before, size_t total);

weft_status coll_gpu_strided(struct weft_team *team, void *dst, const void *src,
                             ptrdiff_t dst_stride, ptrdiff_t src_stride, size_t element, size_t n);

/* Whether a collective of the host on this memory, of `bytes` a block, is done by kernels
 * (coll_kernel.h); the same answer at every member. Collective over the team. */
weft_status coll_by_kernel(struct weft_team *team, const void *dst, const void *src, uint64_t bytes,
                           bool *kernel);
weft_status coll_kernel_reduction(const char *function, struct weft_team *team, bool everywhere,
                                  void *dst, const void *src, uint64_t bytes,
                                  const struct combiner *c);

/* The combiner of a scaled sum that the host asks for, with its factor, wherever that is. */
weft_status coll_scaled(const char *function, struct weft_team *team, weft_type type,
                        const void *factor, struct combiner *c);

/* A reduction over any memory (reduce_pull.c): of n elements at everyone, of n for each member, or
 * of n at one. */
enum { COLL_EVERYWHERE = -1, COLL_EACH = -2 };
weft_status coll_pull_reduce(struct weft_team *team, enum box_operation operation, void *dst,
                             const void *src, size_t n, const struct combiner *combiner, int root);

/* This member's block to `to` at another, or at itself unless it is there already. */
weft_status coll_put_block(struct weft_team *team, int member, char *to, const char *block,
                           size_t bytes);

/* Returns when what this PE put, with `status`, is at the others, and what they put is here. */
weft_status coll_finish_puts(struct weft_team *team, enum box_operation operation,
                             weft_status status);

/* Where PEs share CPUs, the root of a broadcast is the first to leave the barrier or sync that
 * follows: it is likely to be the root of the next broadcast too, and its data is then there when
 * the others look for it. They lose nothing, since else they would wait for it in that broadcast.
 * Any other collective in between cancels this. Who goes first follows from the sequence of calls
 * alone, so the members agree. */

/* weft_barrier() under the name of the call that it is part of. */
weft_status coll_barrier(const char *function, struct weft_team *team,
                         enum box_operation operation);

/* All members have arrived; nothing is completed. Used inside other collectives too. */
weft_status coll_sync(struct weft_team *team, enum box_operation operation);

/* Every member tells every other the same `bytes` (at most PACKET_BYTES); all[i * bytes] gets
 * member i's. */
weft_status coll_exchange(struct weft_team *team, enum box_operation operation, const void *mine,
                          void *all, size_t bytes);

/* The same with a different payload for each member: mine + i * bytes goes to member i. */
weft_status coll_exchange_each(struct weft_team *team, enum box_operation operation,
                               const void *mine, void *all, size_t bytes);

/* One packet to a member, and from one: what an exchange is made of. */
weft_status coll_packet_send(struct weft_team *team, int member, uint64_t number,
                             const void *payload, size_t bytes);
weft_status coll_packet_await(struct weft_team *team, int member, uint64_t number,
                              enum box_operation operation, void *payload, size_t bytes);

/* The same as their namesakes, for a team with nodes. collect: block i, bytes[i] long, lies at
 * at[i] of the destination. reduce: where the members of each node follow one another
 * (nodes->in_order), or the order of the elements makes no difference. */
weft_status coll_nodes_sync(struct weft_team *team, enum box_operation operation, uint64_t phase);
weft_status coll_nodes_exchange(struct weft_team *team, enum box_operation operation,
                                const void *mine, char *all, size_t bytes);
weft_status coll_nodes_broadcast(struct weft_team *team, struct place to, const void *src,
                                 size_t bytes, int root, uint64_t phase);
weft_status coll_nodes_collect(struct weft_team *team, enum box_operation operation,
                               struct place to, const void *src, const size_t *at,
                               const size_t *bytes, uint64_t phase);

/* n elements for each member, elements `dst_stride` and `src_stride` of them apart, as
 * weft_alltoalls() has them. */
struct coll_nodes_blocks {
    struct place to, from;
    size_t element, n, dst_stride, src_stride;
};

weft_status coll_nodes_alltoall(struct weft_team *team, enum box_operation operation,
                                const struct coll_nodes_blocks *what, uint64_t phase);

struct coll_nodes_reduction {
    const struct combiner *c; /* with a function, and no scaled sum */
    struct place from, to;
};

weft_status coll_nodes_reduce(struct weft_team *team, const struct coll_nodes_reduction *what,
                              size_t n, uint64_t phase);

/* weft_broadcast(); with to_root false the root's own destination stays as it is, as the active-set
 * routines of OpenSHMEM want it. */
weft_status coll_broadcast(weft_team *team, void *dst, const void *src, size_t bytes, int root,
                           bool to_root);

#endif
