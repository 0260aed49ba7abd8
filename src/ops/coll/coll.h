/* SPDX-License-Identifier: Apache-2.0 */
/* The two mechanisms that collectives are built from: phases and packets.
 *
 * Phases. Each collective of a team owns TEAM_PHASES consecutive numbers of the team's sequence;
 * the numbers are the same at every member. Member i reports that it has reached phase p by storing
 * p into the flag of the mailbox that i has in the other member's memory. Flags only grow, so a
 * late reader that finds a larger number may go on. A large collective over several nodes uses one
 * more number for each chunk.
 *
 * Packets. A payload of up to PACKET_BYTES bytes and its sequence number travel in one cache line,
 * so the arrival of the number implies the arrival of the payload (the idea of NCCL's LL protocol).
 * A mailbox has two packets: exchanges with even sequence numbers use one, those with odd numbers
 * the other. Two are enough where every member sends to every other member: a member that sends
 * exchange k + 2 has finished k + 1, so it has received k + 1 from all members, so all members have
 * finished reading k. One-sided collectives (broadcast) therefore use phases only.
 *
 * Nodes. Where members share nodes (team->nodes), the functions of coll_nodes*.c perform every
 * collective by node. In an exchange a member sends its packet to one member of each other node.
 * That member forwards the packet into the mailboxes of its neighbours before its own exchange
 * ends. Each mailbox still has one writer per exchange, so two packets are enough here too. */
#ifndef WEFT_OPS_COLL_H
#define WEFT_OPS_COLL_H

#include "base/cpus.h"
#include "job/waiter.h"
#include "ops/access.h"
#include "ops/coll/reduce.h"

/* larger blocks to other nodes are sent with nonblocking puts */
enum { COLL_NBI_LEAST = 256 * 1024 };

/* Smallest broadcast, in bytes, that the receivers copy in parallel, from the root or from the head
 * of their node. */
enum { COLL_PULL_LEAST = 32 * 1024 };

/* A symmetric range: looked up once, valid for every member. */
struct symmetric_range {
    enum segment_id segment;
    size_t offset;
};

/* Checks team and job, records the call in the black box, and in checking mode compares the
 * arguments of all members. *phase: the first phase number of this call; the call may also use the
 * next numbers, TEAM_PHASES in total. */
weft_status coll_begin(const char *function, struct weft_team *team, enum box_operation operation,
                       int root, uint64_t bytes, uint64_t detail, uint64_t *phase);

weft_status coll_check_root(const char *function, const struct weft_team *team, int root);

/* Looks up a symmetric range. The error message names the function and the argument. */
weft_status coll_find_range(const char *function, const char *argument, struct weft_team *team,
                            const void *address, size_t bytes, struct symmetric_range *range);

weft_status coll_notify_slow(struct weft_team *team, int member, uint64_t phase);
weft_status coll_await_slow(struct weft_team *team, int member, uint64_t phase,
                            enum box_operation operation);
weft_status coll_put_slow(struct weft_team *team, int member, struct symmetric_range to,
                          const void *src, size_t bytes);
weft_status coll_put_notify_slow(struct weft_team *team, int member, struct symmetric_range to,
                                 const void *src, size_t bytes, uint64_t phase, bool nbi);

/* Reports to a member that this PE has reached `phase`. What this PE stored or put before with
 * coll_put() is visible to that member once it has read the flag. */
static inline weft_status coll_notify(struct weft_team *team, int member, uint64_t phase)
{
    struct mailbox *mailbox = team->mailbox_at[member];
    if (unlikely(!mailbox))
        return coll_notify_slow(team, member, phase);
    /* Release: pairs with the acquire load in coll_await(). */
    atomic_store_explicit(&mailbox->flag, phase, memory_order_release);
    return WEFT_OK;
}

/* The phase that a member has reported to this PE. Acquire: pairs with the release in
 * coll_notify(), or its equivalent on other paths. */
static inline uint64_t coll_reported(const struct weft_team *team, int member)
{
    uint64_t phase = atomic_load_explicit(&team->mailboxes[member].flag, memory_order_acquire);
    cpu_order_device_loads();
    return phase;
}

static inline weft_status coll_await(struct weft_team *team, int member, uint64_t phase,
                                     enum box_operation operation)
{
    if (likely(coll_reported(team, member) >= phase))
        return WEFT_OK;
    return coll_await_slow(team, member, phase, operation);
}

/* Address of a symmetric range at a member. NULL: the CPU cannot load and store there. */
static inline char *coll_address(struct weft_team *team, int member, struct symmetric_range range)
{
    if (unlikely(!team->mailbox_at[member]))
        return NULL;
    return team->job->paths.map[team->pes[member]][range.segment] + range.offset;
}

static inline weft_status coll_put(struct weft_team *team, int member, struct symmetric_range to,
                                   const void *src, size_t bytes)
{
    char *address = coll_address(team, member, to);
    if (unlikely(!address))
        return coll_put_slow(team, member, to, src, bytes);
    memcpy(address, src, bytes);
    return WEFT_OK;
}

/* coll_put() followed by coll_notify(). Over a network this is one message instead of two. nbi: the
 * caller does not change src until the next quiet of the library's context. */
static inline weft_status coll_put_notify(struct weft_team *team, int member,
                                          struct symmetric_range to, const void *src, size_t bytes,
                                          uint64_t phase, bool nbi)
{
    char *address = coll_address(team, member, to);
    if (unlikely(!address))
        return coll_put_notify_slow(team, member, to, src, bytes, phase, nbi);
    memcpy(address, src, bytes);
    return coll_notify(team, member, phase);
}

/* Whether a collective with these arguments touches GPU memory. Such a collective is performed by
 * the functions of gpu.c, which check addresses and sizes themselves. The answer is the same
 * at every member, because dst and src are symmetric. */
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
                               int root, uint64_t phase);
weft_status coll_gpu_blocks(struct weft_team *team, enum box_operation operation, void *dst,
                            const void *src, size_t src_step, size_t bytes, size_t at);

/* What each member reports of its block of a collect, so that all members choose the same
 * algorithm. bytes: size of the block. at: byte offset of the block in the member's GPU heap, or
 * COLL_NOT_IN_GPU_HEAP. */
struct coll_block_record {
    uint64_t bytes, at;
};
#define COLL_NOT_IN_GPU_HEAP UINT64_MAX /* src or dst is not in the GPU heap */

struct coll_block_record coll_gpu_block_record(const struct weft_team *team, const void *dst,
                                               const void *src, size_t bytes);

/* shares: one entry for each member. before: bytes of the blocks in front of this member's block.
 * total: bytes of all blocks. */
weft_status coll_gpu_collect(struct weft_team *team, void *dst, const void *src,
                             const struct coll_block_record *shares, size_t before, size_t total);

weft_status coll_gpu_strided(struct weft_team *team, void *dst, const void *src,
                             ptrdiff_t dst_stride, ptrdiff_t src_stride, size_t element, size_t n);

/* Decides whether kernels (coll_kernel.h) perform a host-initiated collective on this memory, with
 * blocks of `bytes` bytes. The answer is the same at every member. Collective over the team. */
weft_status coll_choose_kernel(struct weft_team *team, const void *dst, const void *src,
                               uint64_t bytes, bool *kernel);
weft_status coll_kernel_reduction(const char *function, struct weft_team *team, bool everywhere,
                                  void *dst, const void *src, uint64_t bytes,
                                  const struct combiner *c);

/* Makes the combiner of a scaled sum called by the host. The factor may be in host or GPU
 * memory. */
weft_status coll_scaled(const char *function, struct weft_team *team, weft_type type,
                        const void *factor, struct combiner *c);

/* Exchanges the factors of a weighted sum. *factors: one for each member, to be freed; NULL for
 * other reductions. */
weft_status coll_exchange_factors(struct weft_team *team, enum box_operation operation,
                                  const struct combiner *c, long double **factors);

/* A reduction on any memory. root: COLL_EVERYWHERE (n elements, result at every member), COLL_EACH
 * (n elements for each member), or the one member that gets the result. */
enum { COLL_EVERYWHERE = -1, COLL_EACH = -2 };
struct coll_any_reduction {
    enum box_operation operation;
    void *dst;
    const void *src;
    size_t n;
    const struct combiner *c;
    int root;
    uint64_t phase; /* of the call */
};

/* By the first of three ways that serves: through a buffer of the team, from node to node on the
 * GPUs (nodes_gpu.h), or each member gets the elements of all others. */
weft_status coll_reduce_any(struct weft_team *team, const struct coll_any_reduction *what);
weft_status coll_pull_reduce(struct weft_team *team, const struct coll_any_reduction *what);

/* Whether every member sends its whole vector of so many bytes to all others, as packets. */
enum { COLL_PACKETS_MOST = 64 * PACKET_BYTES };
static inline bool coll_reduces_by_packets(const struct weft_team *team, size_t bytes)
{
    return bytes <= PACKET_BYTES && bytes * (size_t)team->n <= COLL_PACKETS_MOST;
}

/* A reduction of symmetric host memory, whose result every member gets, by the algorithm that
 * serves the team. Both sides are aligned for the type. */
struct coll_range_reduction {
    enum box_operation operation; /* the call that it is part of */
    const struct combiner *c;     /* its `combine` is not NULL, and it is no scaled sum */
    struct symmetric_range from, to;
};
weft_status coll_reduce_ranges(struct weft_team *team, const struct coll_range_reduction *what,
                               size_t n, uint64_t phase);

/* A reduction through a buffer of the team in host memory (reduce_buffered.c), and whether that is
 * faster: the vector is small, and the reduction goes by node, or is one of GPU memory. The same
 * answer at every member. */
size_t coll_buffer_bytes(void); /* of the longest vector */
bool coll_reduce_is_buffered(const struct weft_team *team, const struct coll_any_reduction *what);
weft_status coll_buffered_reduce(struct weft_team *team, const struct coll_any_reduction *what);

/* Puts this member's block to `to` at `member`. Does nothing where the block already lies there. */
weft_status coll_put_block(struct weft_team *team, int member, char *to, const char *block,
                           size_t bytes);

/* Completes the puts of this PE, then waits for all members. status: the result of the puts so far;
 * a failure fails the job, so that the other members do not wait until WEFT_WAIT_LIMIT. */
weft_status coll_finish_puts(struct weft_team *team, enum box_operation operation,
                             weft_status status);

/* Where PEs share CPUs, the root of a broadcast leaves the following barrier or sync first. The
 * root is likely to be the root of the next broadcast too, so its data is ready when the others
 * need it. The others lose nothing: otherwise they would wait for the root in that broadcast. Any
 * other collective in between cancels this. Which member leaves first follows from the sequence of
 * calls alone, so all members agree. */

/* weft_barrier() as a part of another call; error messages name that call (`function`). */
weft_status coll_barrier(const char *function, struct weft_team *team,
                         enum box_operation operation);

/* Returns when all members have arrived. Completes no operations. Other collectives use it too. */
weft_status coll_sync(struct weft_team *team, enum box_operation operation);

/* Every member sends the same payload of `bytes` bytes (at most PACKET_BYTES) to every other
 * member. The payload of member i arrives at all + i * bytes. */
weft_status coll_exchange(struct weft_team *team, enum box_operation operation, const void *mine,
                          void *all, size_t bytes);

/* Members compare records of up to COLL_COMPARED_BYTES bytes. *same: all are equal. Otherwise
 * team->scratch has the records of all members, as after coll_exchange(). Where members do not load
 * and store each other's memory, they send as many packets as coll_sync() notifies, and exchange
 * only records that differ. Returns when all members have arrived. */
enum { COLL_COMPARED_BYTES = PACKET_BYTES - sizeof(uint64_t) };
weft_status coll_compare_records(struct weft_team *team, enum box_operation operation,
                                 const void *mine, size_t bytes, bool *same);

/* As coll_exchange(), with a different payload for each member: mine + i * bytes goes to member
 * i. */
weft_status coll_exchange_each(struct weft_team *team, enum box_operation operation,
                               const void *mine, void *all, size_t bytes);

/* Send one packet to a member, and wait for one packet from a member. An exchange consists of
 * these. */
weft_status coll_packet_send(struct weft_team *team, int member, uint64_t sequence,
                             const void *payload, size_t bytes);
weft_status coll_packet_await(struct weft_team *team, int member, uint64_t sequence,
                              enum box_operation operation, void *payload, size_t bytes);

/* The collectives of a team whose members share nodes (team->nodes). collect: block i, bytes[i]
 * bytes long, lies at byte at[i] of the destination. allreduce: requires that the members of each
 * node are consecutive in the team (nodes->in_order), or that the order of the elements does not
 * change the result. */
weft_status coll_nodes_sync(struct weft_team *team, enum box_operation operation, uint64_t phase);
weft_status coll_nodes_exchange(struct weft_team *team, enum box_operation operation,
                                const void *mine, char *all, size_t bytes);
/* Also where each member has a node of its own. *differs: some records are not equal. */
weft_status coll_nodes_compare(struct weft_team *team, enum box_operation operation,
                               const void *mine, size_t bytes, bool *differs);
weft_status coll_nodes_broadcast(struct weft_team *team, struct symmetric_range to, const void *src,
                                 size_t bytes, int root, uint64_t phase);
/* Of a team whose members share no nodes, and do not store into each other's memory. */
weft_status coll_tree_broadcast(struct weft_team *team, struct symmetric_range to, const void *src,
                                size_t bytes, int root, uint64_t phase);
weft_status coll_nodes_collect(struct weft_team *team, enum box_operation operation,
                               struct symmetric_range to, const void *src, const size_t *at,
                               const size_t *bytes, uint64_t phase);

/* The arguments of weft_alltoalls(): n elements for each member. Strides count elements; `element`
 * is the size of one in bytes. */
struct coll_nodes_blocks {
    struct symmetric_range to, from;
    size_t element, n, dst_stride, src_stride;
};

weft_status coll_nodes_alltoall(struct weft_team *team, enum box_operation operation,
                                const struct coll_nodes_blocks *what, uint64_t phase);

/* Whether coll_nodes_reduce() gives the bits of the team's order. */
static inline bool coll_nodes_keep_order(const struct weft_team *team, weft_type type)
{
    return team->nodes && (team->nodes->in_order || reduce_any_order(type));
}

weft_status coll_nodes_reduce(struct weft_team *team, const struct coll_range_reduction *what,
                              size_t n, uint64_t phase);

/* weft_broadcast(). to_root false: the root's own destination stays unchanged, as the active-set
 * routines of OpenSHMEM require. */
weft_status coll_broadcast(weft_team *team, void *dst, const void *src, size_t bytes, int root,
                           bool to_root);

#endif
