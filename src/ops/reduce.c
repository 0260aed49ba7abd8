/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions. Small vectors: everyone sends everyone its vector as a packet and combines. Larger:
 * member i combines chunk i of all sources, tile by tile in its first-level cache, and stores the
 * result into all destinations. Either way each element is combined once, in the order of the team,
 * so all members get the same bits. */
#include "ops/reduce.h"

#include "ops/coll.h"

#include <stdlib.h>

enum { TILE_BYTES = 16 * 1024, SMALL_STACK_BYTES = 64 * PACKET_BYTES };

#define COMBINE(name, ctype, expression)                                                           \
    static void name(void *restrict acc_, const void *restrict in_, size_t n)                      \
    {                                                                                              \
        ctype *restrict acc = acc_;                                                                \
        const ctype *restrict in = in_;                                                            \
        for (size_t i = 0; i < n; i++) {                                                           \
            ctype a = acc[i], b = in[i];                                                           \
            acc[i] = (ctype)(expression);                                                          \
        }                                                                                          \
    }
#define BITWISE(T, ctype)                                                                          \
    COMBINE(and_##T, ctype, a &b)                                                                  \
    COMBINE(or_##T, ctype, a | b)                                                                  \
    COMBINE(xor_##T, ctype, a ^ b)
#define ORDERED(T, ctype)                                                                          \
    COMBINE(min_##T, ctype, b < a ? b : a)                                                         \
    COMBINE(max_##T, ctype, b > a ? b : a)
#define ARITHMETIC(T, ctype)                                                                       \
    COMBINE(sum_##T, ctype, a + b)                                                                 \
    COMBINE(prod_##T, ctype, a *b)
/* Sums of signed integers wrap, as atomics do: they are computed on the unsigned type. */
#define INTEGER(T, ctype, wrapping)                                                                \
    BITWISE(T, ctype)                                                                              \
    ORDERED(T, ctype)                                                                              \
    ARITHMETIC(T, wrapping)

INTEGER(WEFT_INT8, int8_t, uint8_t)
INTEGER(WEFT_INT16, int16_t, uint16_t)
INTEGER(WEFT_INT32, int32_t, uint32_t)
INTEGER(WEFT_INT64, int64_t, uint64_t)
INTEGER(WEFT_UINT8, uint8_t, uint8_t)
INTEGER(WEFT_UINT16, uint16_t, uint16_t)
INTEGER(WEFT_UINT32, uint32_t, uint32_t)
INTEGER(WEFT_UINT64, uint64_t, uint64_t)
ORDERED(WEFT_FLOAT, float)
ARITHMETIC(WEFT_FLOAT, float)
ORDERED(WEFT_DOUBLE, double)
ARITHMETIC(WEFT_DOUBLE, double)
ORDERED(WEFT_LONG_DOUBLE, long double)
ARITHMETIC(WEFT_LONG_DOUBLE, long double)
ARITHMETIC(WEFT_COMPLEX_FLOAT, float _Complex)
ARITHMETIC(WEFT_COMPLEX_DOUBLE, double _Complex)

#define ROW_INTEGER(T)                                                                             \
    [T] = {                                                                                        \
        [WEFT_AND] = and_##T, [WEFT_OR] = or_##T,   [WEFT_XOR] = xor_##T,  [WEFT_MIN] = min_##T,   \
        [WEFT_MAX] = max_##T, [WEFT_SUM] = sum_##T, [WEFT_PROD] = prod_##T}
#define ROW_REAL(T)                                                                                \
    [T] = {[WEFT_MIN] = min_##T, [WEFT_MAX] = max_##T, [WEFT_SUM] = sum_##T, [WEFT_PROD] = prod_##T}
#define ROW_COMPLEX(T) [T] = {[WEFT_SUM] = sum_##T, [WEFT_PROD] = prod_##T}

static reduce_function *const combine_of[WEFT_TYPE_COUNT][WEFT_OP_COUNT] = {
    ROW_INTEGER(WEFT_INT8),          ROW_INTEGER(WEFT_INT16),    ROW_INTEGER(WEFT_INT32),
    ROW_INTEGER(WEFT_INT64),         ROW_INTEGER(WEFT_UINT8),    ROW_INTEGER(WEFT_UINT16),
    ROW_INTEGER(WEFT_UINT32),        ROW_INTEGER(WEFT_UINT64),   ROW_REAL(WEFT_FLOAT),
    ROW_REAL(WEFT_DOUBLE),           ROW_REAL(WEFT_LONG_DOUBLE), ROW_COMPLEX(WEFT_COMPLEX_FLOAT),
    ROW_COMPLEX(WEFT_COMPLEX_DOUBLE)};

static const size_t bytes_of[WEFT_TYPE_COUNT] = {
#define BYTES(name, size, ctype) [name] = sizeof(ctype),
    WEFT_TYPE_LIST(BYTES)
#undef BYTES
};

reduce_function *reduce_function_of(weft_type type, weft_op op, size_t *element)
{
    if ((unsigned)type >= WEFT_TYPE_COUNT || (unsigned)op >= WEFT_OP_COUNT)
        return NULL;
    *element = bytes_of[type];
    return combine_of[type][op];
}

static const size_t alignment_of[WEFT_TYPE_COUNT] = {
#define ALIGNMENT(name, size, ctype) [name] = _Alignof(ctype),
    WEFT_TYPE_LIST(ALIGNMENT)
#undef ALIGNMENT
};

struct reduction {
    struct weft_team *team;
    reduce_function *combine;
    size_t element;
    struct place from, to;
};

static weft_status reduce_small(const struct reduction *reduction, void *dst, const void *src,
                                size_t n)
{
    _Alignas(16) char all[SMALL_STACK_BYTES];
    _Alignas(16) char acc[PACKET_BYTES + 8], next[PACKET_BYTES + 8];
    struct weft_team *team = reduction->team;
    size_t bytes = n * reduction->element;
    weft_status status = coll_exchange(team, BOX_OP_REDUCE, src, all, bytes);
    if (status)
        return status;
    access_copy(acc, all, bytes);
    for (int i = 1; i < team->n; i++) {
        access_copy(next, all + (size_t)i * bytes, bytes);
        reduction->combine(acc, next, n);
    }
    access_copy(dst, acc, bytes);
    return WEFT_OK;
}

/* What member i contributes to a tile: in place where it can be loaded, else fetched into `room`. */
static weft_status tile_of(const struct reduction *reduction, int member, size_t offset,
                           size_t bytes, void *room, const void **tile)
{
    struct weft_team *team = reduction->team;
    struct place at = reduction->from;
    at.offset += offset;
    const char *address = coll_address(team, member, at);
    *tile = address;
    if (address)
        return WEFT_OK;
    *tile = room;
    return weft_get(team->job->system_ctx, room, team->job->segments[at.segment].base + at.offset,
                    bytes, team->pes[member]);
}

static weft_status reduce_tile(const struct reduction *reduction, size_t offset, size_t bytes)
{
    _Alignas(64) char acc[TILE_BYTES], room[TILE_BYTES];
    struct weft_team *team = reduction->team;
    const void *tile;
    weft_status status = tile_of(reduction, 0, offset, bytes, room, &tile);
    if (!status)
        memcpy(acc, tile, bytes);
    for (int i = 1; i < team->n && !status; i++) {
        status = tile_of(reduction, i, offset, bytes, room, &tile);
        if (!status)
            reduction->combine(acc, tile, bytes / reduction->element);
    }
    struct place to = reduction->to;
    to.offset += offset;
    for (int k = 0; k < team->n && !status; k++)
        status = coll_put(team, (team->me + k) % team->n, to, acc, bytes);
    return status;
}

static weft_status everyone(struct weft_team *team, uint64_t phase)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < team->n && !status; i++)
        if (i != team->me)
            status = coll_notify(team, i, phase);
    for (int i = 0; i < team->n && !status; i++)
        if (i != team->me)
            status = coll_await(team, i, phase, BOX_OP_REDUCE);
    return status;
}

/* Phases: all sources are ready; all chunks are in all destinations (and all sources are read). */
static weft_status reduce_large(const struct reduction *reduction, size_t n, uint64_t phase)
{
    struct weft_team *team = reduction->team;
    weft_status status = everyone(team, phase);
    size_t per_line = 64 / reduction->element;
    size_t lines = (n + per_line - 1) / per_line;
    size_t first = lines * (size_t)team->me / (size_t)team->n * per_line;
    size_t last = lines * ((size_t)team->me + 1) / (size_t)team->n * per_line;
    if (last > n)
        last = n;
    for (size_t at = first * reduction->element; at < last * reduction->element && !status;
         at += TILE_BYTES) {
        size_t left = last * reduction->element - at;
        status = reduce_tile(reduction, at, left < TILE_BYTES ? left : TILE_BYTES);
    }
    return status ? status : everyone(team, phase + 1);
}

WEFT_EXPORT weft_status weft_reduce(weft_team *team, void *dst, const void *src, size_t n,
                                    weft_type type, weft_op op)
{
    static const char name[] = "weft_reduce";
    if ((unsigned)type >= WEFT_TYPE_COUNT)
        return base_fail(WEFT_ERR_TYPE, "%s: type %d is not a weft_type", name, (int)type);
    if ((unsigned)op >= WEFT_OP_COUNT)
        return base_fail(WEFT_ERR_OP, "%s: operation %d is not a weft_op", name, (int)op);
    struct reduction reduction = {
        .team = team, .combine = combine_of[type][op], .element = bytes_of[type]};
    if (!reduction.combine)
        return base_fail(WEFT_ERR_TYPE, "%s: operation %d is not defined for type %d", name,
                         (int)op, (int)type);
    size_t bytes;
    if (__builtin_mul_overflow(n, reduction.element, &bytes))
        return base_fail(WEFT_ERR_RANGE, "%s: %zu elements are too many", name, n);
    uint64_t phase;
    weft_status status = coll_begin(name, team, BOX_OP_REDUCE, -1, bytes,
                                    (uint64_t)type << 8 | (uint64_t)op, &phase);
    if (status || n == 0)
        return status;
    status = coll_place(name, "dst", team, dst, bytes, &reduction.to);
    if (!status)
        status = coll_place(name, "src", team, src, bytes, &reduction.from);
    if (status)
        return status;
    size_t apart = dst < src ? (size_t)((const char *)src - (const char *)dst)
                             : (size_t)((const char *)dst - (const char *)src);
    if (unlikely(team->job->checking) && apart && apart < bytes)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "%s: dst %p and src %p overlap by %zu of %zu bytes; they may be the same "
                         "or lie apart",
                         name, dst, src, bytes - apart, bytes);
    if (coll_on_gpu(team, dst, src))
        return coll_gpu_reduce(team, dst, src, n, reduction.element, reduction.combine);
    if ((uintptr_t)dst % alignment_of[type] || (uintptr_t)src % alignment_of[type])
        return base_fail(WEFT_ERR_ALIGNMENT, "%s: dst %p or src %p is not aligned for its type",
                         name, dst, src);
    if (bytes <= PACKET_BYTES && bytes * (size_t)team->n <= SMALL_STACK_BYTES)
        return reduce_small(&reduction, dst, src, n);
    if (team->nodes && team->nodes->in_order) {
        struct coll_nodes_reduction what = {reduction.combine, reduction.element, reduction.from,
                                            reduction.to};
        return coll_nodes_reduce(team, &what, n, phase);
    }
    return reduce_large(&reduction, n, phase);
}
