/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of `weft bench coll`: their buffers, their calls, and the expected result,
 * computed PE by PE in the order of the team. Reductions are sums of floats with rounding, so
 * that another order is detected; sums of bytes when the size is not a multiple of four. The
 * root is member 0. */
#include "bench/coll/coll.h"

#include "tool/tool.h"

#include <stdlib.h>
#include <string.h>
#include <weft/stream.h>

const char *const coll_way_names[COLL_WAYS] = {"auto",   "packets", "two",     "lines", "twolines",
                                               "direct", "scratch", "engines", "copies"};

/* Strides of alltoalls, in elements. */
enum { DST_STRIDE = 2, SRC_STRIDE = 3 };

/* A skewed alltoallv sends this many times fewer bytes to members other than 0. */
enum { SKEW = 4 };

/* Number of blocks of each side: 1, or one for each member. */
static const struct {
    const char *name;
    enum coll_what what;
    bool src_blocks, dst_blocks, reduces;
} ops[COLL_OPS] = {
    [COLL_BROADCAST] = {"broadcast", COLL_BROADCAST, false, false, false},
    [COLL_ALLGATHER] = {"allgather", COLL_ALLGATHER, false, true, false},
    [COLL_ALLTOALL] = {"alltoall", COLL_ALLTOALL, true, true, false},
    [COLL_GATHER] = {"gather", COLL_GATHER, false, true, false},
    [COLL_SCATTER] = {"scatter", COLL_SCATTER, true, false, false},
    [COLL_ALLREDUCE] = {"allreduce", COLL_ALLREDUCE, false, false, true},
    [COLL_REDUCESCATTER] = {"reducescatter", COLL_REDUCESCATTER, true, false, true},
    [COLL_REDUCE] = {"reduce", COLL_REDUCE, false, false, true},
    [COLL_COLLECT] = {"collect", COLL_COLLECT, false, true, false},
    [COLL_ALLTOALLV] = {"alltoallv", COLL_ALLTOALLV, true, true, false},
    [COLL_OP_STRIDED] = {"alltoalls", COLL_ALLTOALL, true, true, false},
    [COLL_OP_SKEWED] = {"alltoallv_skew", COLL_ALLTOALLV, true, true, false},
};

const char *coll_op_name(int op)
{
    return ops[op].name;
}

enum coll_what coll_op_what(int op)
{
    return ops[op].what;
}

size_t coll_src_bytes(int op, size_t bytes, int n)
{
    size_t block = op == COLL_OP_STRIDED ? SRC_STRIDE * bytes : bytes;
    return block * (ops[op].src_blocks ? (size_t)n : 1);
}

size_t coll_dst_bytes(int op, size_t bytes, int n)
{
    size_t block = op == COLL_OP_STRIDED ? DST_STRIDE * bytes : bytes;
    return block * (ops[op].dst_blocks ? (size_t)n : 1);
}

/* ------------------------------------------------------------------------------------- calling */

static size_t width_of(size_t bytes)
{
    return bytes % sizeof(float) ? 1 : sizeof(float);
}

static weft_type type_of(size_t bytes)
{
    return width_of(bytes) == 1 ? WEFT_UINT8 : WEFT_FLOAT;
}

enum { SEND_BYTES, SEND_AT, RECV_BYTES, RECV_AT };

static const uint64_t *counts(const struct coll_bench *b, int which)
{
    return b->counts + (size_t)which * (size_t)b->members;
}

weft_status coll_call_on_stream(struct coll_bench *b, int op, size_t bytes, weft_stream stream)
{
    weft_team *t = b->bench.world;
    size_t elements = bytes / width_of(bytes), all = bytes * (size_t)b->members;
    weft_type type = type_of(bytes);
    switch (op) {
    case COLL_BROADCAST:
        return weft_broadcast_on_stream(t, b->dst, b->src, bytes, 0, stream);
    case COLL_ALLGATHER:
        return weft_allgather_on_stream(t, b->dst, b->src, bytes, stream);
    case COLL_ALLTOALL:
        return weft_alltoall_on_stream(t, b->dst, b->src, bytes, stream);
    case COLL_GATHER:
        return weft_gather_on_stream(t, b->dst, b->src, bytes, 0, stream);
    case COLL_SCATTER:
        return weft_scatter_on_stream(t, b->dst, b->src, bytes, 0, stream);
    case COLL_ALLREDUCE:
        return weft_allreduce_on_stream(t, b->dst, b->src, elements, type, WEFT_SUM, stream);
    case COLL_REDUCESCATTER:
        return weft_reducescatter_on_stream(t, b->dst, b->src, elements, type, WEFT_SUM, stream);
    case COLL_REDUCE:
        return weft_reduce_on_stream(t, b->dst, b->src, elements, type, WEFT_SUM, 0, stream);
    case COLL_COLLECT:
        return weft_collect_on_stream(t, b->dst, b->src, bytes, stream);
    case COLL_OP_STRIDED:
        return weft_alltoalls_on_stream(t, b->dst, b->src, DST_STRIDE, SRC_STRIDE, width_of(bytes),
                                        elements, stream);
    default:
        return weft_alltoallv_on_stream(t, b->dst, all, counts(b, RECV_BYTES), counts(b, RECV_AT),
                                        b->src, counts(b, SEND_BYTES), counts(b, SEND_AT), stream);
    }
}

weft_status coll_call_by_host(struct coll_bench *b, int op, size_t bytes)
{
    weft_team *t = b->bench.world;
    size_t elements = bytes / width_of(bytes), all = bytes * (size_t)b->members;
    weft_type type = type_of(bytes);
    switch (op) {
    case COLL_BROADCAST:
        return weft_broadcast(t, b->dst, b->src, bytes, 0);
    case COLL_ALLGATHER:
        return weft_allgather(t, b->dst, b->src, bytes);
    case COLL_ALLTOALL:
        return weft_alltoall(t, b->dst, b->src, bytes);
    case COLL_GATHER:
        return weft_gather(t, b->dst, b->src, bytes, 0);
    case COLL_SCATTER:
        return weft_scatter(t, b->dst, b->src, bytes, 0);
    case COLL_ALLREDUCE:
        return weft_allreduce(t, b->dst, b->src, elements, type, WEFT_SUM);
    case COLL_REDUCESCATTER:
        return weft_reducescatter(t, b->dst, b->src, elements, type, WEFT_SUM);
    case COLL_REDUCE:
        return weft_reduce(t, b->dst, b->src, elements, type, WEFT_SUM, 0);
    case COLL_COLLECT:
        return weft_collect(t, b->dst, b->src, bytes);
    case COLL_OP_STRIDED:
        return weft_alltoalls(t, b->dst, b->src, DST_STRIDE, SRC_STRIDE, width_of(bytes), elements);
    default:
        return weft_alltoallv(t, b->dst, all, counts(b, RECV_BYTES), counts(b, RECV_AT), b->src,
                              counts(b, SEND_BYTES), counts(b, SEND_AT));
    }
}

/* ------------------------------------------------------------------------------------ contents */

/* Makes the bytes of a member's source from `at` on. */
static void make_bytes(char *to, int member, size_t at, size_t bytes)
{
    for (size_t i = 0; i < bytes;) {
        uint64_t word = bench_word(100 + (uint64_t)member, (at + i) / 8);
        size_t from = (at + i) % 8, n = 8 - from < bytes - i ? 8 - from : bytes - i;
        memcpy(to + i, (char *)&word + from, n);
        i += n;
    }
}

/* The byte with which destinations are overwritten. */
enum { SPOILED = 0xff };

/* Values whose sums are always rounded. */
static float value_of(int member, size_t element)
{
    return (float)((int)(bench_word(100 + (uint64_t)member, element) & 0xffff) - 0x8000) / 7.0f;
}

static void make_values(char *to, int member, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof(float); i++) {
        float value = value_of(member, i);
        memcpy(to + i * sizeof value, &value, sizeof value);
    }
}

/* Sums the elements from `first` on over all members in the order of the team. */
static void make_sums(char *to, int members, size_t first, size_t bytes)
{
    size_t width = width_of(bytes);
    for (size_t i = 0; i < bytes / width; i++) {
        float sum = value_of(0, first + i);
        unsigned char small = 0, one;
        for (int k = 0; k < members; k++) {
            if (width == 1) {
                make_bytes((char *)&one, k, first + i, 1);
                small = (unsigned char)(small + one);
            } else if (k) {
                sum += value_of(k, first + i);
            }
        }
        if (width == 1)
            to[i] = (char)small;
        else
            memcpy(to + i * width, &sum, width);
    }
}

/* Whether the operation writes this member's destination. */
static bool receives_result(const struct coll_bench *b, int op)
{
    return (op != COLL_GATHER && op != COLL_REDUCE) || b->member == 0;
}

/* Bytes that a member of an alltoallv sends to member `to`. */
static size_t sent_bytes(int op, size_t bytes, int to)
{
    return op == COLL_OP_SKEWED && to != 0 ? bytes / SKEW : bytes;
}

/* Makes block `member` of the expected result: its elements, with the bytes of coll_spoil() in
 * the gaps. */
static void make_wanted_strided(struct coll_bench *b, int member, size_t bytes)
{
    size_t width = width_of(bytes), elements = bytes / width;
    char *to = b->wanted + (size_t)member * DST_STRIDE * bytes;
    for (size_t i = 0; i < elements; i++)
        make_bytes(to + i * DST_STRIDE * width, member,
                   ((size_t)b->member * elements + i) * SRC_STRIDE * width, width);
}

static void make_wanted(struct coll_bench *b, int op, size_t bytes)
{
    size_t mine = (size_t)b->member * bytes;
    if (ops[op].reduces) {
        size_t first = op == COLL_REDUCESCATTER ? mine / width_of(bytes) : 0;
        make_sums(b->wanted, b->members, first, bytes);
        return;
    }
    memset(b->wanted, SPOILED, coll_dst_bytes(op, bytes, b->members));
    for (int k = 0; k < (ops[op].dst_blocks ? b->members : 1); k++)
        if (op == COLL_OP_STRIDED)
            make_wanted_strided(b, k, bytes);
        else
            make_bytes(b->wanted + (size_t)k * bytes, k, ops[op].src_blocks ? mine : 0,
                       sent_bytes(op, bytes, b->member));
}

/* Sets the counts of alltoallv: all blocks equal, or those to member 0 larger. The offsets are
 * the same, so that the busiest GPU receives as many bytes as in a uniform exchange. */
static weft_status make_counts(struct coll_bench *b, int op, size_t bytes)
{
    size_t n = (size_t)b->members;
    uint64_t *words = malloc(4 * n * sizeof *words);
    if (!words)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %zu sizes", n);
    for (size_t i = 0; i < n; i++) {
        words[SEND_BYTES * n + i] = sent_bytes(op, bytes, (int)i);
        words[RECV_BYTES * n + i] = sent_bytes(op, bytes, b->member);
        words[SEND_AT * n + i] = words[RECV_AT * n + i] = i * bytes;
    }
    weft_status status = bench_write(&b->bench, b->counts, words, 4 * n * sizeof *words);
    free(words);
    return status;
}

weft_status coll_prepare(struct coll_bench *b, int op, size_t bytes)
{
    size_t all = coll_src_bytes(op, bytes, b->members);
    if (ops[op].reduces && width_of(bytes) > 1)
        make_values(b->seen, b->member, all);
    else
        make_bytes(b->seen, b->member, 0, all);
    weft_status status = bench_write(&b->bench, b->src, b->seen, all);
    if (!status && ops[op].what == COLL_ALLTOALLV)
        status = make_counts(b, op, bytes);
    if (!status && b->options->verify)
        make_wanted(b, op, bytes);
    return status;
}

weft_status coll_spoil(struct coll_bench *b, int op, size_t bytes)
{
    size_t all = coll_dst_bytes(op, bytes, b->members);
    if (!b->options->verify)
        return WEFT_OK;
    memset(b->seen, SPOILED, all);
    weft_status status = bench_write(&b->bench, b->dst, b->seen, all);
    return status ? status : weft_barrier(b->bench.world);
}

weft_status coll_compare(struct coll_bench *b, int op, size_t bytes, bool *right)
{
    size_t all = coll_dst_bytes(op, bytes, b->members);
    double least = 1;
    if (!b->options->verify)
        return WEFT_OK;
    weft_status status = bench_read(&b->bench, b->seen, b->dst, all);
    if (!status && receives_result(b, op))
        least = memcmp(b->seen, b->wanted, all) == 0;
    if (!status)
        status = bench_combine(&b->bench, WEFT_MIN, &least);
    *right &= least != 0;
    return status;
}
