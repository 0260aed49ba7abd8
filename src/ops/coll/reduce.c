/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions. Small vectors: every member sends its vector to every other member as a packet and
 * combines all. Larger vectors (two-shot): member i combines chunk i of all sources, tile by tile
 * in its first-level cache, and stores the result into all destinations; nodes_reduce.c does
 * so by node where the order of the team permits. In both cases each element is combined once, in
 * the order of the team, so all members get the same bits. */
#include "ops/coll/reduce.h"

#include "ops/coll/nodes_gpu.h"

#include <weft/device/arithmetic.h>

#include <stdlib.h>

enum {
    TILE_BYTES = 16 * 1024,
    /* bytes of private memory for tiles of members whose memory is not mapped */
    FETCH_BYTES = 1 << 20,
    LEAST_FETCH_BYTES = 16 * 1024, /* smallest tile of one such member, in bytes */
};

static const size_t alignment_of[WEFT_TYPE_COUNT] = {
#define ALIGNMENT(name, size, ctype) [name] = _Alignof(ctype),
    WEFT_TYPE_LIST(ALIGNMENT)
#undef ALIGNMENT
};

struct reduction {
    struct weft_team *team;
    const struct coll_range_reduction *what;
};

static char *own_pointer(struct weft_team *team, struct symmetric_range range)
{
    return team->job->segments[range.segment].base + range.offset;
}

static weft_status reduce_small(const struct reduction *reduction, size_t n)
{
    _Alignas(16) char all[COLL_PACKETS_MOST];
    _Alignas(16) char acc[PACKET_BYTES + 8], next[PACKET_BYTES + 8];
    struct weft_team *team = reduction->team;
    size_t bytes = n * reduction->what->c->element;
    weft_status status = coll_exchange(team, reduction->what->operation,
                                       own_pointer(team, reduction->what->from), all, bytes);
    if (status)
        return status;
    access_copy(acc, all, bytes);
    for (int i = 1; i < team->n; i++) {
        access_copy(next, all + (size_t)i * bytes, bytes);
        reduction->what->c->combine(acc, next, n);
    }
    reduce_end(reduction->what->c, acc, n, team->n);
    access_copy(own_pointer(team, reduction->what->to), acc, bytes);
    return WEFT_OK;
}

/* Combines one tile; the memory of all members is mapped here. */
static weft_status reduce_tile(const struct reduction *reduction, size_t offset, size_t bytes)
{
    _Alignas(64) char acc[TILE_BYTES];
    struct weft_team *team = reduction->team;
    struct symmetric_range from = reduction->what->from, to = reduction->what->to;
    from.offset += offset;
    to.offset += offset;
    memcpy(acc, coll_address(team, 0, from), bytes);
    for (int i = 1; i < team->n; i++)
        reduction->what->c->combine(acc, coll_address(team, i, from),
                                    bytes / reduction->what->c->element);
    reduce_end(reduction->what->c, acc, bytes / reduction->what->c->element, team->n);
    weft_status status = WEFT_OK;
    for (int k = 0; k < team->n && !status; k++)
        status = coll_put(team, (team->me + k) % team->n, to, acc, bytes);
    return status;
}

static weft_status sync_all(const struct reduction *reduction, uint64_t phase)
{
    struct weft_team *team = reduction->team;
    weft_status status = WEFT_OK;
    for (int i = 0; i < team->n && !status; i++)
        if (i != team->me)
            status = coll_notify(team, i, phase);
    for (int i = 0; i < team->n && !status; i++)
        if (i != team->me)
            status = coll_await(team, i, phase, reduction->what->operation);
    return status;
}

/* First byte of the chunk of a member; the chunk ends where the next member's begins. */
static size_t chunk_begin(const struct reduction *reduction, size_t n, int member)
{
    size_t per_line = 64 / reduction->what->c->element;
    size_t lines = (n + per_line - 1) / per_line;
    size_t first = lines * (size_t)member / (size_t)reduction->team->n * per_line;
    return (first < n ? first : n) * reduction->what->c->element;
}

/* ----------------------------------------------------------- members whose memory is not mapped */

/* State of a reduction with members whose memory is not mapped here: the tiles of all these members
 * are fetched at the same time, while the previous tile is combined. */
struct fetched {
    const struct reduction *reduction;
    size_t begin, bytes; /* this member's chunk */
    size_t tile;
    int unmapped; /* number of members whose memory is not mapped */
    char *buffer; /* the result, and for each unmapped member two tiles, used in turn */
};

static char *unmapped_tile(const struct fetched *f, size_t tile, int which)
{
    return f->buffer + (1 + (tile & 1) * (size_t)f->unmapped + (size_t)which) * f->tile;
}

static size_t tile_bytes(const struct fetched *f, size_t tile)
{
    size_t left = f->bytes - tile * f->tile;
    return left < f->tile ? left : f->tile;
}

static struct symmetric_range tile_at(const struct fetched *f, struct symmetric_range of,
                                      size_t tile)
{
    return (struct symmetric_range){of.segment, of.offset + f->begin + tile * f->tile};
}

static bool is_unmapped(struct weft_team *team, int member)
{
    return member != team->me && !team->mailbox_at[member];
}

static weft_status request_tile(const struct fetched *f, size_t tile)
{
    struct weft_team *team = f->reduction->team;
    char *from = own_pointer(team, tile_at(f, f->reduction->what->from, tile));
    weft_status status = WEFT_OK;
    int which = 0;
    for (int i = 0; i < team->n && !status; i++)
        if (is_unmapped(team, i))
            status = weft_get_nbi(team->job->system_ctx, unmapped_tile(f, tile, which++), from,
                                  tile_bytes(f, tile), team->pes[i]);
    return status;
}

static void combine_tile(const struct fetched *f, size_t tile)
{
    struct weft_team *team = f->reduction->team;
    struct symmetric_range at = tile_at(f, f->reduction->what->from, tile);
    size_t bytes = tile_bytes(f, tile);
    int which = 0;
    for (int i = 0; i < team->n; i++) {
        const char *source = is_unmapped(team, i) ? unmapped_tile(f, tile, which++)
                             : i == team->me      ? own_pointer(team, at)
                                                  : coll_address(team, i, at);
        if (i == 0)
            memcpy(f->buffer, source, bytes);
        else
            f->reduction->what->c->combine(f->buffer, source,
                                           bytes / f->reduction->what->c->element);
    }
    reduce_end(f->reduction->what->c, f->buffer, bytes / f->reduction->what->c->element, team->n);
    memcpy(own_pointer(team, tile_at(f, f->reduction->what->to, tile)), f->buffer, bytes);
}

/* Combines this member's chunk into its own destination. */
static weft_status reduce_fetched(const struct reduction *reduction, size_t begin, size_t bytes)
{
    struct weft_team *team = reduction->team;
    struct fetched f = {.reduction = reduction, .begin = begin, .bytes = bytes};
    if (!bytes)
        return WEFT_OK;
    for (int i = 0; i < team->n; i++)
        f.unmapped += is_unmapped(team, i);
    f.tile = FETCH_BYTES / (2 * (size_t)f.unmapped + 1) / 64 * 64;
    f.tile = f.tile < LEAST_FETCH_BYTES ? LEAST_FETCH_BYTES : f.tile;
    f.tile = f.tile > bytes ? (bytes + 63) / 64 * 64 : f.tile;
    f.buffer = malloc((2 * (size_t)f.unmapped + 1) * f.tile);
    if (!f.buffer)
        return job_fail_all(team->job, WEFT_ERR_NO_MEMORY, "no private memory to reduce");
    weft_status status = request_tile(&f, 0);
    for (size_t tile = 0; tile * f.tile < bytes && !status; tile++) {
        status = weft_quiet(team->job->system_ctx);
        if (!status && (tile + 1) * f.tile < bytes)
            status = request_tile(&f, tile + 1);
        if (!status)
            combine_tile(&f, tile);
    }
    if (!status) /* after a failure a requested tile may still arrive */
        free(f.buffer);
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): kept after a failure, see above */
    return status;
}

/* A team whose members share nodes but are not in node order: each member combines its chunk, then
 * sends the result once to each node. */
static weft_status reduce_over_nodes(const struct reduction *reduction, size_t n, uint64_t phase)
{
    struct weft_team *team = reduction->team;
    size_t *at = malloc((size_t)team->n * 2 * sizeof *at);
    if (!at)
        return job_fail_all(team->job, WEFT_ERR_NO_MEMORY,
                            "no private memory for sizes of a reduction");
    size_t *bytes = at + team->n;
    for (int i = 0; i < team->n; i++) {
        at[i] = chunk_begin(reduction, n, i);
        bytes[i] = chunk_begin(reduction, n, i + 1) - at[i];
    }
    struct symmetric_range mine = {reduction->what->to.segment,
                                   reduction->what->to.offset + at[team->me]};
    weft_status status = coll_nodes_sync(team, reduction->what->operation, phase);
    if (!status)
        status = reduce_fetched(reduction, at[team->me], bytes[team->me]);
    if (!status)
        status = coll_nodes_collect(team, reduction->what->operation, reduction->what->to,
                                    own_pointer(team, mine), at, bytes, phase + 1);
    free(at);
    return status;
}

/* Phases: all sources are ready; all chunks are in all destinations and all sources have been
 * read. */
static weft_status reduce_large(const struct reduction *reduction, size_t n, uint64_t phase)
{
    struct weft_team *team = reduction->team;
    size_t begin = chunk_begin(reduction, n, team->me),
           end = chunk_begin(reduction, n, team->me + 1);
    struct symmetric_range mine = {reduction->what->to.segment, reduction->what->to.offset + begin};
    weft_status status = sync_all(reduction, phase);
    if (team->direct) {
        for (size_t at = begin; at < end && !status; at += TILE_BYTES)
            status = reduce_tile(reduction, at, end - at < TILE_BYTES ? end - at : TILE_BYTES);
        return status ? status : sync_all(reduction, phase + 1);
    }
    if (!status)
        status = reduce_fetched(reduction, begin, end - begin);
    for (int k = 1; k < team->n && begin < end && !status; k++)
        status =
            coll_put(team, (team->me + k) % team->n, mine, own_pointer(team, mine), end - begin);
    return status ? status : sync_all(reduction, phase + 1);
}

weft_status coll_reduce_ranges(struct weft_team *team, const struct coll_range_reduction *what,
                               size_t n, uint64_t phase)
{
    const struct reduction reduction = {team, what};
    if (coll_reduces_by_packets(team, n * what->c->element))
        return reduce_small(&reduction, n);
    if (coll_nodes_keep_order(team, what->c->type))
        return coll_nodes_reduce(team, what, n, phase);
    if (team->nodes)
        return reduce_over_nodes(&reduction, n, phase);
    return reduce_large(&reduction, n, phase);
}

static weft_status reduce_by(const char *name, struct weft_team *team, void *dst, const void *src,
                             size_t n, const struct combiner *c)
{
    struct symmetric_range to, from;
    size_t bytes;
    if (__builtin_mul_overflow(n, c->element, &bytes))
        return base_fail(WEFT_ERR_RANGE, "%s: %zu elements are too many", name, n);
    uint64_t phase;
    weft_status status =
        coll_begin(name, team, BOX_OP_ALLREDUCE, -1, bytes, reduce_detail(c), &phase);
    if (status || n == 0)
        return status;
    status = coll_find_range(name, "dst", team, dst, bytes, &to);
    if (!status)
        status = coll_find_range(name, "src", team, src, bytes, &from);
    if (status)
        return status;
    size_t apart = dst < src ? (size_t)((const char *)src - (const char *)dst)
                             : (size_t)((const char *)dst - (const char *)src);
    if (unlikely(team->job->checking) && apart && apart < bytes)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "%s: dst %p and src %p overlap by %zu of %zu bytes; they must be equal "
                         "or disjoint",
                         name, dst, src, bytes - apart, bytes);
    bool kernel = false;
    if (c->type != WEFT_LONG_DOUBLE && coll_on_gpu(team, dst, src))
        status = coll_choose_kernel(team, dst, src, bytes, &kernel);
    if (status || kernel)
        return status ? status : coll_kernel_reduction(name, team, true, dst, src, bytes, c);
    if (!c->combine || c->op == WEFT_DEV_SCALED || coll_on_gpu(team, dst, src))
        return coll_reduce_any(team, &(struct coll_any_reduction){BOX_OP_ALLREDUCE, dst, src, n, c,
                                                                  COLL_EVERYWHERE, phase});
    if ((uintptr_t)dst % alignment_of[c->type] || (uintptr_t)src % alignment_of[c->type])
        return base_fail(WEFT_ERR_ALIGNMENT, "%s: dst %p or src %p is not aligned for its type",
                         name, dst, src);
    return coll_reduce_ranges(team, &(struct coll_range_reduction){BOX_OP_ALLREDUCE, c, from, to},
                              n, phase);
}

WEFT_EXPORT weft_status weft_allreduce(weft_team *team, void *dst, const void *src, size_t n,
                                       weft_type type, weft_op op)
{
    struct combiner c;
    weft_status status = reduce_combiner("weft_allreduce", type, op, &c);
    return status ? status : reduce_by("weft_allreduce", team, dst, src, n, &c);
}

WEFT_EXPORT weft_status weft_allreduce_scaled(weft_team *team, void *dst, const void *src, size_t n,
                                              weft_type type, const void *factor)
{
    struct combiner c;
    weft_status status = coll_scaled("weft_allreduce_scaled", team, type, factor, &c);
    return status ? status : reduce_by("weft_allreduce_scaled", team, dst, src, n, &c);
}

WEFT_EXPORT weft_status weft_allreduce_weighted(weft_team *team, void *dst, const void *src,
                                                size_t n, weft_type type, const void *factor)
{
    struct combiner c;
    weft_status status = coll_scaled("weft_allreduce_weighted", team, type, factor, &c);
    c.weighted = true;
    return status ? status : reduce_by("weft_allreduce_weighted", team, dst, src, n, &c);
}
