/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions by the host on host memory, of every type that devices know, those of 16 bits among them, bit for bit
 * against a serial reference: reduce in place and not, and reducescatter, which has no other test on host memory. */
#include "job.h"

#include "tests/gpu/coll_reference.h"

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

static void one(weft_team *world, char *src, char *dst, weft_type type, weft_op op, size_t count)
{
    static uint64_t salt;
    size_t bytes = ref_bytes(type);
    fill(src, type, count * (size_t)n, ++salt);
    memset(dst, 0xa5, (count + 1) * bytes);
    OK(weft_sync(world));
    OK(weft_reducescatter(world, dst, src, count, type, op));
    compare(dst, type, op, (size_t)me * count, count, salt);
    CHECK((unsigned char)dst[count * bytes] == 0xa5);
    OK(weft_sync(world));
    OK(weft_reduce(world, dst, src, count, type, op));
    compare(dst, type, op, 0, count, salt);
    CHECK((unsigned char)dst[count * bytes] == 0xa5);
    OK(weft_sync(world));
    OK(weft_reduce(world, src, src, count, type, op));
    compare(src, type, op, 0, count, salt);
}

int main(void)
{
    weft_job *job;
    void *src, *dst;
    OK(weft_init(&job, NULL));
    me = weft_my_pe(job);
    n = weft_n_pes(job);
    CHECK(n <= MOST_PES);
    for (int i = 0; i < n; i++)
        pes[i] = i;
    OK(weft_alloc(job, WEFT_HOST, (size_t)MOST * 4 * (size_t)n, 0, 0, &src));
    OK(weft_alloc(job, WEFT_HOST, (size_t)(MOST + 1) * 4, 0, 0, &dst));
    weft_team *world = weft_team_world(job);
    for (int type = 0; type <= WEFT_BFLOAT16; type++) {
        if (type == WEFT_LONG_DOUBLE || (type >= WEFT_TYPE_COUNT && type < WEFT_HALF))
            continue;
        for (int op = 0; op < WEFT_OP_COUNT; op++)
            if (ref_defined((weft_type)type, (weft_op)op))
                one(world, src, dst, (weft_type)type, (weft_op)op,
                    1 + (size_t)(op * 7 + type) % 90);
    }
    one(world, src, dst, WEFT_HALF, WEFT_SUM, MOST);
    one(world, src, dst, WEFT_BFLOAT16, WEFT_SUM, MOST - 1);
    one(world, src, dst, WEFT_FLOAT, WEFT_SUM, MOST - 3);
    FAILS(weft_reducescatter(world, src, src, 4, WEFT_FLOAT, WEFT_SUM), WEFT_ERR_ARGUMENT,
          "must lie apart");
    FAILS(weft_reducescatter(NULL, dst, src, 4, WEFT_FLOAT, WEFT_SUM), WEFT_ERR_ARGUMENT,
          "team is null");
    FAILS(weft_reducescatter(world, dst, src, 4, WEFT_FLOAT, WEFT_AND), WEFT_ERR_TYPE,
          "not defined");
    FAILS(weft_reducescatter(world, dst, src, 4, (weft_type)50, WEFT_SUM), WEFT_ERR_TYPE, "50");
    FAILS(weft_reducescatter(world, dst, &job, 4, WEFT_FLOAT, WEFT_SUM), WEFT_ERR_ADDRESS, "src");
    OK(weft_reducescatter(world, dst, src, 0, WEFT_FLOAT, WEFT_SUM));
    OK(weft_finalize(job));
    return 0;
}
