/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of `weft bench coll`: their buffers, how they are called, and what should come, made by one PE after
 * the other in the order of the team. Reductions are sums of floats that round, so that another order is seen; of bytes
 * where the size is not a multiple of four. The root is member 0. */
#include "bench/coll.h"

#include "tool/tool.h"

#include <stdlib.h>
#include <string.h>
#include <weft/stream.h>

const char *const coll_way_words[COLL_WAYS] = {"auto",     "packets", "two",     "lines",
                                               "twolines", "direct",  "engines", "copies"};

/* Blocks that each side has: 1, or one for each member. */
static const struct {
    const char *name;
    bool src_blocks, dst_blocks, reduces;
} ops[COLL_WHATS] = {
    [COLL_BROADCAST] = {"broadcast", false, false, false},
    [COLL_FCOLLECT] = {"fcollect", false, true, false},
    [COLL_ALLTOALL] = {"alltoall", true, true, false},
    [COLL_GATHER] = {"gather", false, true, false},
    [COLL_SCATTER] = {"scatter", true, false, false},
    [COLL_REDUCE] = {"reduce", false, false, true},
    [COLL_REDUCESCATTER] = {"reducescatter", true, false, true},
    [COLL_REDUCE_TO] = {"reduce_to", false, false, true},
    [COLL_COLLECT] = {"collect", false, true, false},
    [COLL_ALLTOALLV] = {"alltoallv", true, true, false},
};

const char *coll_op_name(enum coll_what what)
{
    return ops[what].name;
}

size_t coll_src_bytes(enum coll_what what, size_t bytes, int n)
{
    return bytes * (ops[what].src_blocks ? (size_t)n : 1);
}

size_t coll_dst_bytes(enum coll_what what, size_t bytes, int n)
{
    return bytes * (ops[what].dst_blocks ? (size_t)n : 1);
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

weft_status coll_call_on_stream(struct coll_bench *b, enum coll_what what, size_t bytes,
                                weft_stream stream)
{
    weft_team *t = b->bench.world;
    size_t elements = bytes / width_of(bytes), all = bytes * (size_t)b->members;
    weft_type type = type_of(bytes);
    switch (what) {
    case COLL_BROADCAST:
        return weft_broadcast_on_stream(t, b->dst, b->src, bytes, 0, stream);
    case COLL_FCOLLECT:
        return weft_fcollect_on_stream(t, b->dst, b->src, bytes, stream);
    case COLL_ALLTOALL:
        return weft_alltoall_on_stream(t, b->dst, b->src, bytes, stream);
    case COLL_GATHER:
        return weft_gather_on_stream(t, b->dst, b->src, bytes, 0, stream);
    case COLL_SCATTER:
        return weft_scatter_on_stream(t, b->dst, b->src, bytes, 0, stream);
    case COLL_REDUCE:
        return weft_reduce_on_stream(t, b->dst, b->src, elements, type, WEFT_SUM, stream);
    case COLL_REDUCESCATTER:
        return weft_reducescatter_on_stream(t, b->dst, b->src, elements, type, WEFT_SUM, stream);
    case COLL_REDUCE_TO:
        return weft_reduce_to_on_stream(t, b->dst, b->src, elements, type, WEFT_SUM, 0, stream);
    case COLL_COLLECT:
        return weft_collect_on_stream(t, b->dst, b->src, bytes, stream);
    default:
        return weft_alltoallv_on_stream(t, b->dst, all, counts(b, RECV_BYTES), counts(b, RECV_AT),
                                        b->src, counts(b, SEND_BYTES), counts(b, SEND_AT), stream);
    }
}

weft_status coll_call_by_host(struct coll_bench *b, enum coll_what what, size_t bytes)
{
    weft_team *t = b->bench.world;
    size_t elements = bytes / width_of(bytes), all = bytes * (size_t)b->members;
    weft_type type = type_of(bytes);
    switch (what) {
    case COLL_BROADCAST:
        return weft_broadcast(t, b->dst, b->src, bytes, 0);
    case COLL_FCOLLECT:
        return weft_fcollect(t, b->dst, b->src, bytes);
    case COLL_ALLTOALL:
        return weft_alltoall(t, b->dst, b->src, bytes);
    case COLL_GATHER:
        return weft_gather(t, b->dst, b->src, bytes, 0);
    case COLL_SCATTER:
        return weft_scatter(t, b->dst, b->src, bytes, 0);
    case COLL_REDUCE:
        return weft_reduce(t, b->dst, b->src, elements, type, WEFT_SUM);
    case COLL_REDUCESCATTER:
        return weft_reducescatter(t, b->dst, b->src, elements, type, WEFT_SUM);
    case COLL_REDUCE_TO:
        return weft_reduce_to(t, b->dst, b->src, elements, type, WEFT_SUM, 0);
    case COLL_COLLECT:
        return weft_collect(t, b->dst, b->src, bytes);
    default:
        return weft_alltoallv(t, b->dst, all, counts(b, RECV_BYTES), counts(b, RECV_AT), b->src,
                              counts(b, SEND_BYTES), counts(b, SEND_AT));
    }
}

/* ------------------------------------------------------------------------------------ contents */

/* Bytes from `at` on of what a member's source holds. */
static void make_bytes(char *to, int member, size_t at, size_t bytes)
{
    for (size_t i = 0; i < bytes;) {
        uint64_t word = bench_word(100 + (uint64_t)member, (at + i) / 8);
        size_t from = (at + i) % 8, n = 8 - from < bytes - i ? 8 - from : bytes - i;
        memcpy(to + i, (char *)&word + from, n);
        i += n;
    }
}

/* No sum of a few of these is exact. */
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

/* Elements from `first` on, of all members, summed in the order of the team. */
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

/* Whether this member's destination is written at all. */
static bool is_told(const struct coll_bench *b, enum coll_what what)
{
    return (what != COLL_GATHER && what != COLL_REDUCE_TO) || b->member == 0;
}

static void make_wanted(struct coll_bench *b, enum coll_what what, size_t bytes)
{
    size_t mine = (size_t)b->member * bytes;
    if (ops[what].reduces) {
        size_t first = what == COLL_REDUCESCATTER ? mine / width_of(bytes) : 0;
        make_sums(b->wanted, b->members, first, bytes);
        return;
    }
    for (int k = 0; k < (ops[what].dst_blocks ? b->members : 1); k++)
        make_bytes(b->wanted + (size_t)k * bytes, k, ops[what].src_blocks ? mine : 0, bytes);
}

/* Every block as large as the next: a uniform exchange. */
static weft_status make_counts(struct coll_bench *b, size_t bytes)
{
    size_t n = (size_t)b->members;
    uint64_t *words = malloc(4 * n * sizeof *words);
    if (!words)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %zu sizes", n);
    for (size_t i = 0; i < n; i++) {
        words[SEND_BYTES * n + i] = words[RECV_BYTES * n + i] = bytes;
        words[SEND_AT * n + i] = words[RECV_AT * n + i] = i * bytes;
    }
    weft_status status = bench_write(&b->bench, b->counts, words, 4 * n * sizeof *words);
    free(words);
    return status;
}

weft_status coll_prepare(struct coll_bench *b, enum coll_what what, size_t bytes)
{
    size_t all = coll_src_bytes(what, bytes, b->members);
    if (ops[what].reduces && width_of(bytes) > 1)
        make_values(b->seen, b->member, all);
    else
        make_bytes(b->seen, b->member, 0, all);
    weft_status status = bench_write(&b->bench, b->src, b->seen, all);
    if (!status && what == COLL_ALLTOALLV)
        status = make_counts(b, bytes);
    if (!status && b->options->verify)
        make_wanted(b, what, bytes);
    return status;
}

weft_status coll_spoil(struct coll_bench *b, enum coll_what what, size_t bytes)
{
    size_t all = coll_dst_bytes(what, bytes, b->members);
    if (!b->options->verify)
        return WEFT_OK;
    memset(b->seen, 0xff, all);
    weft_status status = bench_write(&b->bench, b->dst, b->seen, all);
    return status ? status : weft_barrier(b->bench.world);
}

weft_status coll_compare(struct coll_bench *b, enum coll_what what, size_t bytes, bool *right)
{
    size_t all = coll_dst_bytes(what, bytes, b->members);
    double least = 1;
    if (!b->options->verify)
        return WEFT_OK;
    weft_status status = bench_read(&b->bench, b->seen, b->dst, all);
    if (!status && is_told(b, what))
        least = memcmp(b->seen, b->wanted, all) == 0;
    if (!status)
        status = bench_combine(&b->bench, WEFT_MIN, &least);
    *right &= least != 0;
    return status;
}
