/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of device code over teams that move blocks of different sizes, or with strides, in
 * scopes thread, warp and block: collect, alltoallv and alltoalls. See collective.h for teams,
 * memory, statuses and the protocol; grid.h has the forms for several blocks. */
#ifndef WEFT_DEVICE_SIZED_H
#define WEFT_DEVICE_SIZED_H

#include <weft/device/collective.h>
#include <weft/device/move.h>
#include <weft/device/staging.h>

/* int weft_{thread,warp,block}_collect(int team, void *dst, const void *src, size_t bytes)
 *     Joins the members' `bytes` bytes, which may differ and may be 0, in the order of the team at
 *     every member. src is this member's block of dst, or does not overlap dst. WEFT_ERR_RANGE, at
 *     all members: the blocks run past the end of the segment.
 * int weft_{thread,warp,block}_alltoallv(int team, void *dst, size_t room,
 *                                        const uint64_t *recv_bytes, const uint64_t *recv_at,
 *                                        const void *src, const uint64_t *send_bytes,
 *                                        const uint64_t *send_at)
 *     Sends send_bytes[i] bytes at src + send_at[i] to member i, and receives at most recv_bytes[j]
 *     bytes of member j at dst + recv_at[j]. Each array has one element per member, in memory of
 *     this PE; the host does not read them. dst is the same symmetric address at every member, of
 *     `room` bytes here. A block is not stored when it is larger than the receiver's recv_bytes for
 *     it, or when its place runs past the receiver's `room`: the sender gets WEFT_ERR_RANGE, and
 *     the job fails. A member's block for itself may already be in its place; otherwise source and
 *     destination do not overlap.
 * int weft_{thread,warp,block}_alltoalls(int team, void *dst, const void *src,
 *                                        ptrdiff_t dst_stride, ptrdiff_t src_stride,
 *                                        size_t element, size_t n)
 *     As alltoall, with n elements of `element` bytes for each pair of PEs, dst_stride and
 *     src_stride elements apart (at least 1), also from one member's block to the next. Memory
 *     between the elements of dst keeps its contents. An element may have any size and alignment;
 *     fastest with 4, 8 or 16 bytes, aligned to that. Source and destination do not overlap.
 *     WEFT_ERR_ARGUMENT: a stride or the element is less than 1.
 *
 * Collect and alltoallv take one more one-way latency of the link than allgather and alltoall, in
 * which the members exchange sizes and addresses without a fence. */

/* A block is larger than its receiver's recv_bytes for it. */
WEFT_DEVICE_NOINLINE int weft_dev_refuse_block(int operation, int team, int pe, const void *to,
                                               uint64_t bytes, int record)
{
    if (record) {
        weft_dev_record(WEFT_DEV_RECORD_REFUSED, operation, WEFT_ERR_RANGE, pe, team, to, 0, bytes,
                        0, 0);
        weft_dev_fail(WEFT_ERR_RANGE);
    }
    return WEFT_ERR_RANGE;
}

/* ---------------------------------------------------------------------------------- collect */

/* After the members have exchanged their sizes: offset of this member's block. The same status at
 * all members. */
WEFT_DEVICE int weft_dev_collect_place(const struct weft_dev_group *g, const void *dst,
                                       uint64_t bytes, uint64_t *before)
{
    struct weft_dev_staging staging = weft_dev_word_staging(g);
    uint64_t total = 0;
    int over = 0;
    for (int i = 0; i < g->m.n; i++) {
        uint64_t size = i == g->m.me ? bytes : weft_dev_member_word(&staging, i, 0);
        *before = i == g->m.me ? total : *before;
        over |= total + size < total;
        total += size;
    }
    if (over)
        return weft_dev_refuse_block(g->operation, g->m.number, weft_dev_state.me, dst,
                                     ~(uint64_t)0, g->rank == 0);
    return total ? weft_dev_check(g, dst, total) : WEFT_OK;
}

WEFT_DEVICE struct weft_dev_args weft_dev_collect_args(const void *dst)
{
    struct weft_dev_args args = weft_dev_args_of(WEFT_DEV_OP_COLLECT, 0, -1);
    weft_dev_args_set_memory(&args, dst, 0, NULL, 0, 0);
    return args;
}

/* In checking mode, when the offset of this member's block is known: whether the source is that
 * block, or does not overlap dst. A member whose source overlaps otherwise sends nothing, and the
 * others continue. */
WEFT_DEVICE int weft_dev_collect_apart(const struct weft_dev_group *g, const void *dst,
                                       const void *src, uint64_t bytes, uint64_t before)
{
    if (!WEFT_DEV_CHECKS || WEFT_DEV_LIKELY(!weft_dev_state.checking))
        return WEFT_OK;
    struct weft_dev_staging staging = weft_dev_word_staging(g);
    struct weft_dev_args args = weft_dev_args_of(g->operation, 0, -1);
    uint64_t total = 0;
    for (int i = 0; i < g->m.n; i++)
        total += i == g->m.me ? bytes : weft_dev_member_word(&staging, i, 0);
    weft_dev_args_set_memory(&args, dst, total, src, bytes, (uintptr_t)dst + before);
    if (weft_dev_args_check(&args) != WEFT_DEV_WRONG_OVERLAP)
        return WEFT_OK;
    args.wrong = WEFT_DEV_WRONG_OVERLAP;
    return weft_dev_refuse_args(g->m.number, &args, g->rank == 0);
}

WEFT_DEVICE void weft_dev_collect_send(const struct weft_dev_group *g, char *to, const void *src,
                                       size_t bytes)
{
    struct weft_dev_share share = weft_dev_share_of(g);
    for (int i = share.first; i < g->m.n && bytes; i += share.step)
        weft_dev_move_to(g, weft_dev_next_member(g, i), to, (const char *)src, bytes, share.rank,
                         share.threads);
}

WEFT_DEVICE_NOINLINE int weft_dev_collect(int scope, int team, void *dst, const void *src,
                                          size_t bytes)
{
    struct weft_dev_group g;
    uint64_t before = 0;
    int status = weft_dev_group_begin(&g, scope, team, WEFT_DEV_OP_COLLECT);
    if (!status)
        status = weft_dev_compare_if_checking(scope, team, weft_dev_collect_args(dst));
    if (!status)
        status = weft_dev_exchange_words(scope, team, g.operation, weft_dev_words_of(bytes, 0));
    if (!status)
        status = weft_dev_collect_place(&g, dst, bytes, &before);
    if (status)
        return status;
    int apart = weft_dev_collect_apart(&g, dst, src, bytes, before);
    weft_dev_data_begin(&g);
    weft_dev_collect_send(&g, (char *)dst + before, src, apart ? 0 : bytes);
    weft_dev_deliver(&g);
    status = weft_dev_receive(&g, 0, g.m.n);
    return status ? status : apart;
}

/* -------------------------------------------------------------------------------- alltoallv */

struct weft_dev_blocks {
    char *dst;
    uint64_t room;
    const uint64_t *recv_bytes, *recv_at;
    const char *src;
    const uint64_t *send_bytes, *send_at;
};

WEFT_DEVICE struct weft_dev_words weft_dev_offers_of(const struct weft_dev_blocks *b)
{
    struct weft_dev_words words = {{0, 0}, b->recv_at, b->recv_bytes, b->room};
    return words;
}

/* What member `member` (which may be this one) has sent: 0: the offset for the block, 1: its
 * largest size. */
WEFT_DEVICE uint64_t weft_dev_offer(const struct weft_dev_group *g,
                                    const struct weft_dev_staging *staging,
                                    const struct weft_dev_blocks *b, int member, int k)
{
    struct weft_dev_words own = weft_dev_offers_of(b);
    return member == g->m.me ? weft_dev_word_for(&own, member, k)
                             : weft_dev_member_word(staging, member, k);
}

/* In checking mode each thread checks all blocks: returns the first that overlaps what is received,
 * or none. */
WEFT_DEVICE struct weft_dev_args weft_dev_blocks_args(const struct weft_dev_group *g,
                                                      const struct weft_dev_blocks *b)
{
    struct weft_dev_args args = weft_dev_args_of(WEFT_DEV_OP_ALLTOALLV, 0, -1);
    weft_dev_args_set_memory(&args, b->dst, b->room, NULL, 0, 0);
    for (int i = 0; i < g->m.n && WEFT_DEV_CHECKS && weft_dev_state.checking; i++) {
        uint64_t own = i == g->m.me ? (uintptr_t)b->dst + b->recv_at[i] : 0;
        args.src = (uintptr_t)b->src + b->send_at[i];
        args.src_bytes = b->send_bytes[i];
        args.same = own;
        args.wrong = weft_dev_args_check(&args);
        if (args.wrong)
            break;
    }
    return args;
}

/* Whether all blocks of this member fit. Each thread checks all blocks, so that all have the same
 * answer. */
WEFT_DEVICE int weft_dev_blocks_fit(const struct weft_dev_group *g,
                                    const struct weft_dev_staging *staging,
                                    const struct weft_dev_blocks *b)
{
    int status = WEFT_OK;
    for (int i = 0; i < g->m.n; i++)
        if (b->send_bytes[i] > weft_dev_offer(g, staging, b, i, 1))
            status = weft_dev_refuse_block(g->operation, g->m.number, weft_dev_member_pe(&g->m, i),
                                           b->dst + weft_dev_offer(g, staging, b, i, 0),
                                           b->send_bytes[i], g->rank == 0 && !status);
    return status;
}

/* After the members have exchanged offsets and sizes: sends the blocks that fit. */
WEFT_DEVICE int weft_dev_blocks_send(const struct weft_dev_group *g,
                                     const struct weft_dev_blocks *b)
{
    struct weft_dev_staging staging = weft_dev_word_staging(g);
    struct weft_dev_share share = weft_dev_share_of(g);
    int status = weft_dev_blocks_fit(g, &staging, b);
    for (int i = share.first; i < g->m.n; i += share.step) {
        int member = weft_dev_next_member(g, i);
        uint64_t bytes = b->send_bytes[member];
        if (bytes && bytes <= weft_dev_offer(g, &staging, b, member, 1))
            weft_dev_move_to(g, member, b->dst + weft_dev_offer(g, &staging, b, member, 0),
                             b->src + b->send_at[member], bytes, share.rank, share.threads);
    }
    return status;
}

WEFT_DEVICE_NOINLINE int weft_dev_alltoallv(int scope, int team, struct weft_dev_blocks blocks)
{
    struct weft_dev_group g;
    int status = weft_dev_group_begin(&g, scope, team, WEFT_DEV_OP_ALLTOALLV);
    if (!status)
        status = weft_dev_compare_if_checking(scope, team, weft_dev_blocks_args(&g, &blocks));
    if (!status)
        status = weft_dev_check(&g, blocks.dst, blocks.room);
    if (!status)
        status = weft_dev_exchange_words(scope, team, g.operation, weft_dev_offers_of(&blocks));
    if (status)
        return status;
    weft_dev_data_begin(&g);
    int fits = weft_dev_blocks_send(&g, &blocks);
    weft_dev_deliver(&g);
    status = weft_dev_receive(&g, 0, g.m.n);
    return status ? status : fits;
}

/* -------------------------------------------------------------------------------- alltoalls */

struct weft_dev_gaps {
    char *dst;
    const char *src;
    uint64_t dst_apart, src_apart; /* bytes from one element to the next */
    uint64_t element, n;
    unsigned grain; /* bytes loaded and stored at a time; an element is a multiple of it */
};

/* Strides are in elements. Returns WEFT_OK and the transfer in *s, or an error, which it
 * records. */
WEFT_DEVICE int weft_dev_gaps_begin(const struct weft_dev_group *g, struct weft_dev_gaps *s,
                                    int64_t dst_stride, int64_t src_stride)
{
    if (dst_stride < 1 || src_stride < 1 || !s->element) {
        if (g->rank == 0) {
            weft_dev_record(WEFT_DEV_RECORD_REFUSED, g->operation, WEFT_ERR_ARGUMENT, -1,
                            g->m.number, s->dst, WEFT_GE,
                            (uint64_t)dst_stride << 32 | (uint32_t)src_stride, s->element, 0);
            weft_dev_fail(WEFT_ERR_ARGUMENT);
        }
        return WEFT_ERR_ARGUMENT;
    }
    if (dst_stride == 1 && src_stride == 1 && s->n) {
        s->element = weft_dev_times(s->element, s->n);
        s->n = 1;
    }
    uint64_t odd = (uint64_t)(uintptr_t)s->dst | (uint64_t)(uintptr_t)s->src | s->element | 16;
    s->dst_apart = weft_dev_times((uint64_t)dst_stride, s->element);
    s->src_apart = weft_dev_times((uint64_t)src_stride, s->element);
    s->grain = (unsigned)(odd & (0 - odd));
    uint64_t places = weft_dev_times(s->n, (uint64_t)g->m.n);
    uint64_t bytes = weft_dev_times(s->dst_apart, places ? places - 1 : 0);
    return weft_dev_check(g, s->dst,
                          bytes > ~(uint64_t)0 - s->element ? ~(uint64_t)0
                                                            : bytes + (places ? s->element : 0));
}

/* Bytes from the first to the last of all members' elements; 0 when there are none, or when the
 * strides will be refused. */
WEFT_DEVICE uint64_t weft_dev_gaps_extent(const struct weft_dev_gaps *s, int members,
                                          int64_t stride)
{
    uint64_t places = weft_dev_times(s->n, (uint64_t)(uint32_t)members);
    if (!places || stride < 1)
        return 0;
    uint64_t bytes = weft_dev_times(weft_dev_times((uint64_t)stride, s->element), places - 1);
    return bytes > ~(uint64_t)0 - s->element ? ~(uint64_t)0 : bytes + s->element;
}

/* Called before weft_dev_gaps_begin(). */
WEFT_DEVICE struct weft_dev_args weft_dev_gaps_args(const struct weft_dev_group *g,
                                                    const struct weft_dev_gaps *s,
                                                    int64_t dst_stride, int64_t src_stride)
{
    struct weft_dev_args args = weft_dev_args_of(WEFT_DEV_OP_ALLTOALL, s->element * s->n, -1);
    args.detail = (uint64_t)dst_stride << 32 | (uint32_t)src_stride;
    args.element = s->element;
    weft_dev_args_set_memory(&args, s->dst, weft_dev_gaps_extent(s, g->m.n, dst_stride), s->src,
                             weft_dev_gaps_extent(s, g->m.n, src_stride), 0);
    return args;
}

/* Moves a block of elements; the loads of a thread are in flight together. */
WEFT_DEVICE void weft_dev_gaps_move(const struct weft_dev_gaps *s, char *to, const char *from,
                                    unsigned rank, unsigned threads)
{
    uint64_t grains = s->element / s->grain, pieces = s->n * grains;
    for (uint64_t first = rank; first < pieces; first += WEFT_DEV_UNROLL * (uint64_t)threads) {
        struct weft_dev_vec16 v[WEFT_DEV_UNROLL];
        uint64_t at[WEFT_DEV_UNROLL];
        WEFT_UNROLL
        for (int k = 0; k < WEFT_DEV_UNROLL; k++) {
            uint64_t piece = first + (uint64_t)k * threads, within = 0;
            piece = piece < pieces ? piece : first;
            if (grains > 1) {
                within = piece % grains * s->grain;
                piece /= grains;
            }
            at[k] = piece * s->dst_apart + within;
            v[k] = weft_dev_element_load(from + piece * s->src_apart + within, s->grain);
        }
        WEFT_UNROLL
        for (int k = 0; k < WEFT_DEV_UNROLL; k++)
            if (first + (uint64_t)k * threads < pieces)
                weft_dev_element_store(to + at[k], v[k], s->grain);
    }
}

/* Called by one thread for a member without a direct address: transports take strided elements of
 * up to 16 bytes, aligned to their size. */
WEFT_DEVICE void weft_dev_gaps_carry(const struct weft_dev_gaps *s, char *symmetric,
                                     const char *from, int pe)
{
    if (s->element == s->grain) {
        weft_dev_remote_strided(WEFT_DEV_OP_IPUT, symmetric, (void *)(uintptr_t)from,
                                (ptrdiff_t)(s->dst_apart / s->element),
                                (ptrdiff_t)(s->src_apart / s->element), (size_t)s->element,
                                (size_t)s->n, pe);
        return;
    }
    WEFT_NO_UNROLL
    for (uint64_t i = 0; i < s->n; i++)
        weft_dev_remote_move(WEFT_DEV_OP_PUT, symmetric + i * s->dst_apart,
                             (void *)(uintptr_t)(from + i * s->src_apart), s->element, pe, 0);
}

WEFT_DEVICE void weft_dev_gaps_send(const struct weft_dev_group *g, const struct weft_dev_gaps *s)
{
    struct weft_dev_share share = weft_dev_share_of(g);
    char *symmetric = s->dst + (uint64_t)(uint32_t)g->m.me * s->n * s->dst_apart;
    for (int i = share.first; i < g->m.n; i += share.step) {
        int member = weft_dev_next_member(g, i), pe = weft_dev_member_pe(&g->m, member);
        const char *from = s->src + (uint64_t)(uint32_t)member * s->n * s->src_apart;
        char *to = (char *)weft_dev_ptr(symmetric, pe);
        if (s->n == 1)
            weft_dev_move_to(g, member, symmetric, from, s->element, share.rank, share.threads);
        else if (WEFT_DEV_LIKELY(to != NULL))
            weft_dev_gaps_move(s, to, from, share.rank, share.threads);
        else if (share.rank == 0)
            weft_dev_gaps_carry(s, symmetric, from, pe);
    }
}

WEFT_DEVICE_NOINLINE int weft_dev_alltoalls(int scope, int team, void *dst, const void *src,
                                            int64_t dst_stride, int64_t src_stride, size_t element,
                                            size_t n)
{
    struct weft_dev_group g;
    struct weft_dev_gaps s = {(char *)dst, (const char *)src, 0, 0, element, n, 0};
    int status = weft_dev_group_begin(&g, scope, team, WEFT_DEV_OP_ALLTOALL);
    if (!status)
        status = weft_dev_compare_if_checking(scope, team,
                                              weft_dev_gaps_args(&g, &s, dst_stride, src_stride));
    if (!status)
        status = weft_dev_gaps_begin(&g, &s, dst_stride, src_stride);
    if (status)
        return status;
    weft_dev_data_begin(&g);
    weft_dev_gaps_send(&g, &s);
    weft_dev_deliver(&g);
    return weft_dev_receive(&g, 0, g.m.n);
}

#define WEFT_DEV_SIZED(scope, constant)                                                            \
    WEFT_DEVICE int weft_##scope##_collect(int team, void *dst, const void *src, size_t bytes)     \
    {                                                                                              \
        return weft_dev_collect(constant, team, dst, src, bytes);                                  \
    }                                                                                              \
    WEFT_DEVICE int weft_##scope##_alltoallv(                                                      \
        int team, void *dst, size_t room, const uint64_t *recv_bytes, const uint64_t *recv_at,     \
        const void *src, const uint64_t *send_bytes, const uint64_t *send_at)                      \
    {                                                                                              \
        struct weft_dev_blocks blocks = {(char *)dst,       room,       recv_bytes, recv_at,       \
                                         (const char *)src, send_bytes, send_at};                  \
        return weft_dev_alltoallv(constant, team, blocks);                                         \
    }                                                                                              \
    WEFT_DEVICE int weft_##scope##_alltoalls(int team, void *dst, const void *src,                 \
                                             ptrdiff_t dst_stride, ptrdiff_t src_stride,           \
                                             size_t element, size_t n)                             \
    {                                                                                              \
        return weft_dev_alltoalls(constant, team, dst, src, dst_stride, src_stride, element, n);   \
    }
WEFT_DEV_SCOPE_LIST(WEFT_DEV_SIZED)
#undef WEFT_DEV_SIZED

#endif
