/* SPDX-License-Identifier: Apache-2.0 */
/* Every kind of operation at the end of the host heap: an operation that ends there succeeds with
 * correct values; one that exceeds it by one byte or element is refused and writes nothing. */
#include "job.h"

#include <stdint.h>

static weft_job *job;
static weft_ctx *ctx;
static weft_team *world;
static int me, n, next, previous;
static char *start, *end; /* of the heap */

#define REFUSED(call)                                                                              \
    do {                                                                                           \
        weft_status status_ = (call);                                                              \
        if (status_ != WEFT_ERR_RANGE && status_ != WEFT_ERR_ADDRESS) {                            \
            fprintf(stderr, "%s:%d: %s gave %s: %s\n", __FILE__, __LINE__, #call,                  \
                    weft_status_name(status_), weft_last_error());                                 \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* The first address after `inside` that is not symmetric, in a heap of less than 1 GiB. */
static char *end_of(char *inside)
{
    size_t good = 0, bad = (size_t)1 << 30;
    while (bad - good > 1) {
        size_t middle = (good + bad) / 2;
        if (weft_accessible(job, inside + middle, me))
            good = middle;
        else
            bad = middle;
    }
    return inside + bad;
}

static char *start_of(char *inside)
{
    while (weft_accessible(job, inside - 64, me))
        inside -= 64;
    return inside;
}

static void blocks(void)
{
    static const size_t sizes[] = {1, 2, 3, 7, 8, 15, 16, 17, 64, 1000, 100000};
    static unsigned char mine[100001], seen[100001];
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        size_t bytes = sizes[s];
        memset(mine, 0x40 + me, sizeof mine);
        memset(end - bytes, 0, bytes);
        OK(weft_barrier(world));
        REFUSED(weft_put(ctx, end - bytes, mine, bytes + 1, next));
        REFUSED(weft_put_nbi(ctx, end - bytes + 1, mine, bytes, next));
        REFUSED(weft_put(ctx, end, mine, bytes, next));
        REFUSED(weft_put(ctx, start - bytes, mine, bytes + 1, next));
        REFUSED(weft_put(ctx, end - bytes, mine, SIZE_MAX - 3, next));
        REFUSED(weft_get(ctx, seen, end - bytes, bytes + 1, next));
        REFUSED(weft_get_nbi(ctx, seen, end - bytes + 1, bytes, next));
        REFUSED(weft_get(ctx, seen, start - 1, 1, next));
        OK(weft_barrier(world));
        for (size_t i = 0; i < bytes; i++)
            CHECK((end - bytes)[i] == 0);
        OK(weft_barrier(world));
        OK(weft_put(ctx, end - bytes, mine, bytes, next));
        OK(weft_barrier(world));
        for (size_t i = 0; i < bytes; i++)
            CHECK((end - bytes)[i] == 0x40 + previous);
        OK(weft_get(ctx, seen, end - bytes, bytes, next));
        for (size_t i = 0; i < bytes; i++)
            CHECK(seen[i] == 0x40 + me);
        OK(weft_barrier(world));
    }
}

#define SINGLE_TEST(bits, ctype)                                                                   \
    static void single_##bits(void)                                                                \
    {                                                                                              \
        ctype seen, value = (ctype)(0x8182838485868788ull + (unsigned)me);                         \
        size_t width = sizeof(ctype);                                                              \
        OK(weft_p##bits(ctx, end - width, value, next));                                           \
        OK(weft_quiet(ctx));                                                                       \
        OK(weft_g##bits(ctx, end - width, &seen, next));                                           \
        CHECK(seen == value);                                                                      \
        REFUSED(weft_p##bits(ctx, end, value, next));                                              \
        REFUSED(weft_g##bits(ctx, end, &seen, next));                                              \
        REFUSED(weft_p##bits(ctx, start - width, value, next));                                    \
        OK(weft_barrier(world));                                                                   \
    }
SINGLE_TEST(8, uint8_t)
SINGLE_TEST(16, uint16_t)
SINGLE_TEST(32, uint32_t)
SINGLE_TEST(64, uint64_t)

static void atomics(void)
{
    uint32_t seen32;
    uint64_t seen64;
    OK(weft_atomic_set64(ctx, end - 8, 5, next));
    OK(weft_quiet(ctx));
    OK(weft_atomic_fetch_add64(ctx, end - 8, UINT64_MAX, &seen64, next));
    CHECK(seen64 == 5);
    OK(weft_atomic_fetch32(ctx, end - 8, &seen32, next));
    CHECK(seen32 == 4);
    OK(weft_atomic_fetch32(ctx, end - 4, &seen32, next));
    CHECK(seen32 == 0);
    REFUSED(weft_atomic_set64(ctx, end, 1, next));
    REFUSED(weft_atomic_fetch32(ctx, end, &seen32, next));
    REFUSED(weft_atomic_add32(ctx, start - 4, 1, next));
    REFUSED(weft_signal(ctx, (uint64_t *)(void *)end, 1, WEFT_SIGNAL_SET, next));
    REFUSED(weft_put_signal(ctx, end - 16, &seen64, 8, (uint64_t *)(void *)end, 1, WEFT_SIGNAL_ADD,
                            next));
    REFUSED(weft_put_signal(ctx, end - 8, &seen64, 9, (uint64_t *)(void *)(end - 16), 1,
                            WEFT_SIGNAL_ADD, next));
    OK(weft_barrier(world));
}

static void waits(void)
{
    int result;
    size_t index;
    *(uint64_t *)(void *)(end - 8) = 1;
    OK(weft_test(ctx, WEFT_UINT64, end - 8, WEFT_EQ, 1, &result));
    CHECK(result == 1);
    OK(weft_wait_until_any(ctx, WEFT_UINT64, end - 8, 1, NULL, WEFT_EQ, 1, &index));
    REFUSED(weft_test_any(ctx, WEFT_UINT64, end - 8, 2, NULL, WEFT_EQ, 1, &index));
    REFUSED(weft_test(ctx, WEFT_UINT16, end, WEFT_EQ, 1, &result));
    REFUSED(weft_wait_until(ctx, WEFT_UINT64, start - 8, WEFT_EQ, 1));
    OK(weft_barrier(world));
}

/* The last of `count` elements of 4 bytes, `stride` elements apart, ends at the heap's end. */
static void strided(ptrdiff_t stride, size_t count)
{
    uint32_t mine[64], seen[64];
    char *first = end - 4 * ((count - 1) * (size_t)stride + 1);
    for (uint32_t i = 0; i < 64; i++)
        mine[i] = 1000u * (uint32_t)(me + 1) + i;
    OK(weft_barrier(world));
    OK(weft_iput(ctx, first, mine, stride, 1, 4, count, next));
    OK(weft_barrier(world));
    for (uint32_t i = 0; i < count; i++)
        CHECK(((uint32_t *)(void *)first)[i * (size_t)stride] ==
              1000u * (uint32_t)(previous + 1) + i);
    OK(weft_iget(ctx, seen, first, 1, stride, 4, count, next));
    for (uint32_t i = 0; i < count; i++)
        CHECK(seen[i] == mine[i]);
    REFUSED(weft_iput(ctx, first + 4, mine, stride, 1, 4, count, next));
    REFUSED(weft_iput(ctx, first, mine, stride, 1, 4, count + 1, next));
    REFUSED(weft_iput(ctx, first + 1, mine, stride, 1, 4, count, next));
    REFUSED(weft_iget(ctx, seen, first + 4, 1, stride, 4, count, next));
    REFUSED(weft_iget(ctx, seen, first, 1, stride, 4, count + 1, next));
    REFUSED(weft_iput(ctx, first, mine, (ptrdiff_t)1 << 61, 1, 4, 8, next));
    REFUSED(
        /* stride in bytes overflows to 0 */
        weft_iput(ctx, first, mine, (ptrdiff_t)1 << 62, 1, 4, 8, next));
    REFUSED(weft_iget(ctx, seen, first, 1, (ptrdiff_t)1 << 62, 4, 8, next));
    OK(weft_barrier(world));
}

/* Elements whose size is no machine word, and more operations in flight than a path can queue. */
static void odd_elements(void)
{
    unsigned char mine[60], *first = (unsigned char *)end - 300;
    memset(first, 0, 300);
    for (int i = 0; i < 60; i++)
        mine[i] = (unsigned char)(100 + 20 * me + i);
    OK(weft_barrier(world));
    OK(weft_iput(ctx, first, mine, 2, 1, 12, 5, next));
    OK(weft_barrier(world));
    for (int i = 0; i < 120; i++)
        CHECK(first[i] ==
              (i / 12 % 2 ? 0 : (unsigned char)(100 + 20 * previous + i / 24 * 12 + i % 12)));
    OK(weft_barrier(world));
}

static void many_at_once(void)
{
    enum { MANY = 500 };
    uint64_t *words = (uint64_t *)(void *)(end - MANY * 8);
    static uint64_t values[MANY];
    memset(words, 0, MANY * 8);
    OK(weft_barrier(world));
    for (uint64_t i = 0; i < MANY; i++) {
        values[i] = i * 7 + (uint64_t)me + 1;
        if (i % 3)
            OK(weft_put_nbi(ctx, words + i, values + i, 8, next));
        else
            OK(weft_p64(ctx, words + i, values[i], next));
    }
    OK(weft_barrier(world));
    for (uint64_t i = 0; i < MANY; i++)
        CHECK(words[i] == i * 7 + (uint64_t)previous + 1);
    OK(weft_barrier(world));
}

/* Collectives whose destination ends at the heap's end succeed; one that exceeds it is refused at
 * every member. */
static void collectives(void)
{
    uint32_t *src = (uint32_t *)(void *)start;
    size_t bytes = 12 * (size_t)n;
    for (uint32_t i = 0; i < 3u * (uint32_t)n; i++)
        src[i] = 100u * (uint32_t)me + i;
    OK(weft_alltoall(world, end - bytes, src, 12));
    CHECK(((uint32_t *)(void *)end)[-1] == 100u * (uint32_t)(n - 1) + 3u * (uint32_t)me + 2);
    OK(weft_barrier(world));
    REFUSED(weft_alltoall(world, end - bytes + 4, src, 12));
    OK(weft_allgather(world, end - bytes, src, 12));
    CHECK(((uint32_t *)(void *)end)[-1] == 100u * (uint32_t)(n - 1) + 2);
    OK(weft_barrier(world));
    REFUSED(weft_allgather(world, end - bytes + 1, src, 12));
    OK(weft_collect(world, end - bytes, src, 12));
    OK(weft_barrier(world));
    REFUSED(weft_collect(world, end - bytes + 4, src, 12));
    OK(weft_broadcast(world, end - 12, src, 12, n - 1));
    CHECK(((uint32_t *)(void *)end)[-1] == 100u * (uint32_t)(n - 1) + 2);
    OK(weft_barrier(world));
    REFUSED(weft_broadcast(world, end - 11, src, 12, n - 1));
    OK(weft_allreduce(world, end - 12, src, 3, WEFT_UINT32, WEFT_MAX));
    CHECK(((uint32_t *)(void *)end)[-1] == 100u * (uint32_t)(n - 1) + 2);
    OK(weft_barrier(world));
    REFUSED(weft_allreduce(world, end - 8, src, 3, WEFT_UINT32, WEFT_MAX));
    /* With a destination stride of 3 the last block ends with its last element. */
    size_t strided_bytes = 4 * ((size_t)n * 3 * 3 - 2);
    OK(weft_alltoalls(world, end - strided_bytes, src, 3, 1, 4, 3));
    CHECK(((uint32_t *)(void *)end)[-1] == 100u * (uint32_t)(n - 1) + 3u * (uint32_t)me + 2);
    OK(weft_barrier(world));
    REFUSED(weft_alltoalls(world, end - strided_bytes + 4, src, 3, 1, 4, 3));
    OK(weft_barrier(world));
}

int main(void)
{
    OK(weft_init(&job, NULL));
    ctx = weft_default_ctx(job);
    world = weft_team_world(job);
    me = weft_my_pe(job);
    n = weft_n_pes(job);
    next = (me + 1) % n;
    previous = (me + n - 1) % n;
    char *inside = alloc(job, 1 << 16);
    start = start_of(inside);
    end = end_of(inside);
    CHECK(end - start == 4 << 20);
    blocks();
    single_8();
    single_16();
    single_32();
    single_64();
    atomics();
    waits();
    strided(1, 5);
    strided(3, 7);
    strided(50, 40);
    odd_elements();
    many_at_once();
    collectives();
    OK(weft_finalize(job));
    return 0;
}
