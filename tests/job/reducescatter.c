/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions by the host on host memory, bit for bit against a serial reference: every type that
 * devices support, including those of 16 and 8 bits, every operation, and scaled and weighted sums.
 * allreduce in place and not, reduce, and reducescatter in place and not, which no other
 * test covers on host memory. */
#include "job.h"

#include "tests/gpu/coll_reference.h"

#include <stdbool.h>
#include <stdlib.h>

enum { MOST = 70000, MOST_PES = 16 };

static int me, n, pes[MOST_PES];

static void fill(char *src, weft_type type, size_t count, uint64_t salt)
{
    for (size_t i = 0; i < count; i++)
        ref_element(src + i * ref_bytes(type), type, me, i, salt);
}

static void compare(const char *dst, weft_type type, weft_op op, size_t first, size_t count,
                    uint64_t salt)
{
    unsigned char wanted[16];
    for (size_t i = 0; i < count; i++) {
        ref_reduced(wanted, type, op, pes, n, first + i, salt);
        if (memcmp(dst + i * ref_bytes(type), wanted, ref_bytes(type)) != 0) {
            fprintf(stderr, "PE %d: element %zu of %zu of type %d by %d is wrong\n", me, i, count,
                    (int)type, (int)op);
            exit(1);
        }
    }
}

static weft_status allreduce(weft_team *world, void *dst, const void *src, size_t count,
                             weft_type type, weft_op op, uint64_t salt, int what)
{
    double d = op == REF_WEIGHTED ? ref_weight(salt, me) : ref_factor(salt);
    _Alignas(8) unsigned char factor[8];
    if (op == REF_WEIGHTED || op == REF_SCALED)
        ref_put_factor(factor, type, d, salt, &type);
    if (op == REF_WEIGHTED)
        return what == 0   ? weft_reducescatter_weighted(world, dst, src, count, type, factor)
               : what == 1 ? weft_allreduce_weighted(world, dst, src, count, type, factor)
                           : weft_reduce_weighted(world, dst, src, count, type, factor, n - 1);
    if (op != REF_SCALED)
        return what == 0   ? weft_reducescatter(world, dst, src, count, type, op)
               : what == 1 ? weft_allreduce(world, dst, src, count, type, op)
                           : weft_reduce(world, dst, src, count, type, op, n - 1);
    return what == 0   ? weft_reducescatter_scaled(world, dst, src, count, type, factor)
           : what == 1 ? weft_allreduce_scaled(world, dst, src, count, type, factor)
                       : weft_reduce_scaled(world, dst, src, count, type, factor, n - 1);
}

static void one(weft_team *world, char *src, char *dst, weft_type type, weft_op op, size_t count)
{
    static uint64_t salt;
    size_t bytes = ref_bytes(type);
    fill(src, type, count * (size_t)n, ++salt);
    memset(dst, 0xa5, (count + 1) * bytes);
    OK(weft_sync(world));
    OK(allreduce(world, dst, src, count, type, op, salt, 0));
    compare(dst, type, op, (size_t)me * count, count, salt);
    CHECK((unsigned char)dst[count * bytes] == 0xa5);
    OK(weft_sync(world));
    OK(allreduce(world, dst, src, count, type, op, salt, 2));
    if (me == n - 1)
        compare(dst, type, op, 0, count, salt);
    OK(weft_sync(world));
    OK(allreduce(world, dst, src, count, type, op, salt, 1));
    compare(dst, type, op, 0, count, salt);
    CHECK((unsigned char)dst[count * bytes] == 0xa5);
    OK(weft_sync(world));
    OK(allreduce(world, src, src, count, type, op, salt, 1));
    compare(src, type, op, 0, count, salt);
    OK(weft_sync(world));
    fill(src, type, count * (size_t)n, ++salt); /* in place: dst is its own block of src */
    OK(weft_sync(world));
    OK(allreduce(world, src + (size_t)me * count * bytes, src, count, type, op, salt, 0));
    compare(src + (size_t)me * count * bytes, type, op, (size_t)me * count, count, salt);
}

int main(void)
{
    weft_job *job;
    void *src, *dst;
    OK(weft_init(&job, NULL));
    ref_narrow_factors = 1;
    me = weft_my_pe(job);
    n = weft_n_pes(job);
    CHECK(n <= MOST_PES);
    for (int i = 0; i < n; i++)
        pes[i] = i;
    OK(weft_alloc(job, WEFT_HOST, (size_t)MOST * 4 * (size_t)n, 0, 0, &src));
    OK(weft_alloc(job, WEFT_HOST, (size_t)(MOST + 1) * 4, 0, 0, &dst));
    weft_team *world = weft_team_world(job);
    for (int type = 0; type <= WEFT_FP8_E5M2; type++) {
        if (type == WEFT_LONG_DOUBLE || (type >= WEFT_TYPE_COUNT && type < WEFT_HALF))
            continue;
        for (int i = 0; i <= WEFT_OP_COUNT + 1; i++) {
            weft_op op = i < WEFT_OP_COUNT   ? (weft_op)i
                         : i > WEFT_OP_COUNT ? REF_WEIGHTED
                                             : REF_SCALED;
            if (ref_defined((weft_type)type, op))
                one(world, src, dst, (weft_type)type, op, 1 + (size_t)(i * 7 + type) % 90);
        }
    }
    one(world, src, dst, WEFT_HALF, WEFT_SUM, MOST);
    one(world, src, dst, WEFT_BFLOAT16, WEFT_SUM, MOST - 1);
    one(world, src, dst, WEFT_FLOAT, WEFT_SUM, MOST - 3);
    one(world, src, dst, WEFT_FLOAT, WEFT_AVG, MOST - 5);
    one(world, src, dst, WEFT_DOUBLE, WEFT_AVG, MOST / 2);
    one(world, src, dst, WEFT_INT8, WEFT_AVG, MOST - 7);
    one(world, src, dst, WEFT_UINT64, WEFT_AVG, MOST / 2);
    one(world, src, dst, WEFT_INT64, REF_WEIGHTED, MOST / 2);
    one(world, src, dst, WEFT_FP8_E5M2, REF_SCALED, MOST);
    one(world, src, dst, WEFT_FLOAT, REF_SCALED, MOST);
    one(world, src, dst, WEFT_BFLOAT16, REF_WEIGHTED, MOST);
    FAILS(weft_allreduce_weighted(world, dst, src, 4, WEFT_FLOAT, NULL), WEFT_ERR_ARGUMENT,
          "weft_allreduce_weighted: factor is null");
    FAILS(weft_reducescatter_weighted(world, dst, src, 4,
                                      (weft_type)(WEFT_INT32 | WEFT_NARROW_FACTOR), src),
          WEFT_ERR_TYPE, "type 258 is not a weft_type");
    FAILS(weft_reducescatter(world, (float *)src + 4 * me + 1, src, 4, WEFT_FLOAT, WEFT_SUM),
          WEFT_ERR_ARGUMENT, "must be this member's block of src, or disjoint");
    FAILS(weft_reducescatter(NULL, dst, src, 4, WEFT_FLOAT, WEFT_SUM), WEFT_ERR_ARGUMENT,
          "team is null");
    FAILS(weft_reducescatter(world, dst, src, 4, WEFT_FLOAT, WEFT_AND), WEFT_ERR_TYPE,
          "not defined");
    FAILS(weft_reducescatter(world, dst, src, 4, (weft_type)50, WEFT_SUM), WEFT_ERR_TYPE, "50");
    FAILS(weft_reducescatter(world, dst, &job, 4, WEFT_FLOAT, WEFT_SUM), WEFT_ERR_ADDRESS, "src");
    OK(weft_reducescatter(world, dst, src, 0, WEFT_FLOAT, WEFT_SUM));
    FAILS(weft_allreduce(world, dst, src, 4, (weft_type)(WEFT_HALF | WEFT_NARROW_FACTOR), WEFT_SUM),
          WEFT_ERR_TYPE, "type 356 is not a weft_type");
    FAILS(weft_allreduce_scaled(world, dst, src, 4, WEFT_FLOAT, NULL), WEFT_ERR_ARGUMENT,
          "factor is null");
    FAILS(weft_allreduce_scaled(world, dst, src, 4, (weft_type)104, src), WEFT_ERR_TYPE, "104");
    FAILS(weft_reduce_scaled(world, dst, src, 4, WEFT_FLOAT, src, n), WEFT_ERR_PE, "root");
    OK(weft_finalize(job));
    return 0;
}
