/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the heap: every form of transfer may access its last byte and none after it. For
 * routines without a result the test calls the host API on the same context, which returns the
 * error. A refused operation must not write. */
#include "check.h"

#include <shmemx.h>

static int me, n, next, before;
static unsigned char *heap, *end;

#define REFUSED(call) CHECK((call) == WEFT_ERR_RANGE)

/* The whole heap is one block, so the block's end is the heap's end. */
static void take_all(void)
{
    size_t size = strtoull(getenv("SHMEM_SYMMETRIC_SIZE"), NULL, 10) << 20;
    heap = shmem_malloc(size);
    CHECK(heap != NULL);
    end = heap + size;
    memset(end - 4096, 0, 4096);
    shmem_barrier_all();
}

static void contiguous(void)
{
    unsigned char mine[64], got[64];
    for (int i = 0; i < 64; i++)
        mine[i] = (unsigned char)(me * 16 + i + 1);
    weft_ctx *ctx = shmemx_ctx(SHMEM_CTX_DEFAULT);
    for (size_t size = 2; size <= 64; size += 1 + size / 5) {
        shmem_putmem(end - size, mine, size, next);
        shmem_barrier_all();
        for (size_t i = 0; i < size; i++)
            CHECK((end - size)[i] == (unsigned char)(before * 16 + (int)i + 1));
        shmem_getmem(got, end - size, size, next);
        CHECK(memcmp(got, mine, size) == 0);
        unsigned char last = end[-1];
        shmem_barrier_all();
        REFUSED(weft_put(ctx, end - size + 1, got, size, next));
        REFUSED(weft_get(ctx, got, end - size + 1, size, next));
        REFUSED(weft_put_nbi(ctx, end - size + 1, mine, size, next));
        REFUSED(weft_put(ctx, heap, mine, (size_t)(end - heap) + 1, next));
        shmem_barrier_all();
        CHECK(end[-1] == last);
        shmem_barrier_all();
    }
}

static void single_values(void)
{
    weft_ctx *ctx = shmemx_ctx(SHMEM_CTX_DEFAULT);
    uint64_t word;
    shmem_uint64_p((uint64_t *)end - 1, UINT64_C(0x8000000000000001) + (uint64_t)me, next);
    shmem_barrier_all();
    CHECK(((uint64_t *)end)[-1] == UINT64_C(0x8000000000000001) + (uint64_t)before);
    CHECK(shmem_uint64_atomic_fetch_add((uint64_t *)end - 1, 0, me) == ((uint64_t *)end)[-1]);
    shmem_barrier_all();
    shmem_uchar_p(end - 1, 0x77, next);
    shmem_barrier_all();
    CHECK(end[-1] == 0x77);
    /* An address just after the end is not symmetric; a range across the end is out of range. */
    CHECK(weft_p8(ctx, end, 1, next) == WEFT_ERR_ADDRESS);
    REFUSED(weft_p64(ctx, end - 4, 1, next));
    REFUSED(weft_g64(ctx, end - 4, &word, next));
    REFUSED(weft_atomic_add64(ctx, end - 4, 1, next));
    REFUSED(weft_atomic_fetch_add32(ctx, end - 2, 1, (uint32_t *)&word, next));
    REFUSED(weft_signal(ctx, (uint64_t *)(end - 4), 1, WEFT_SIGNAL_SET, next));
    REFUSED(weft_put_signal(ctx, end - 8, &word, 9, (uint64_t *)heap, 1, WEFT_SIGNAL_SET, next));
    shmem_barrier_all();
    CHECK(end[-1] == 0x77 && *(uint64_t *)heap == 0);
    shmem_barrier_all();
}

/* The last of 5 elements of 3 bytes, 4 elements apart, ends at the end of the heap. */
static void strided(void)
{
    enum { N = 5, STEP = 4, ELEMENT = 3, EXTENT = ((N - 1) * STEP + 1) * ELEMENT };
    weft_ctx *ctx = shmemx_ctx(SHMEM_CTX_DEFAULT);
    unsigned char mine[N * ELEMENT], got[N * ELEMENT];
    for (int i = 0; i < N * ELEMENT; i++)
        mine[i] = (unsigned char)(me * 20 + i + 1);
    shmem_barrier_all();
    memset(end - EXTENT, 0, EXTENT);
    shmem_barrier_all();
    CHECK(weft_iput(ctx, end - EXTENT, mine, STEP, 1, ELEMENT, N, next) == WEFT_OK);
    shmem_barrier_all();
    for (int i = 0; i < EXTENT; i++) {
        int at = i / (STEP * ELEMENT), within = i % (STEP * ELEMENT);
        CHECK(end[i - EXTENT] ==
              (within < ELEMENT ? (unsigned char)(before * 20 + at * ELEMENT + within + 1) : 0));
    }
    CHECK(weft_iget(ctx, got, end - EXTENT, 1, STEP, ELEMENT, N, next) == WEFT_OK);
    CHECK(memcmp(got, mine, sizeof got) == 0);
    unsigned char copy[EXTENT];
    memcpy(copy, end - EXTENT, EXTENT);
    shmem_barrier_all();
    REFUSED(weft_iput(ctx, end - EXTENT + 1, mine, STEP, 1, ELEMENT, N, next));
    REFUSED(weft_iput(ctx, end - EXTENT, mine, STEP, 1, ELEMENT, N + 1, next));
    REFUSED(weft_iput(ctx, end - EXTENT, mine, STEP + 1, 1, ELEMENT, N, next));
    REFUSED(weft_iget(ctx, got, end - EXTENT + 1, 1, STEP, ELEMENT, N, next));
    REFUSED(weft_iget(ctx, got, end - EXTENT, 1, STEP, ELEMENT, SIZE_MAX / 2, next));
    REFUSED(weft_iput(ctx, end - EXTENT, mine, PTRDIFF_MAX, 1, 8, 3, next));
    shmem_barrier_all();
    CHECK(memcmp(copy, end - EXTENT, EXTENT) == 0);
    shmem_barrier_all();
}

/* Collectives whose destination or source ends at the end of the heap, and one element further. */
static void collectives(void)
{
    enum { N = 3, ROOM = 2048 };
    weft_team *world = shmemx_team(SHMEM_TEAM_WORLD);
    long *source = (long *)heap, *last = (long *)end;
    size_t all = (size_t)n * N;
    for (size_t i = 0; i < ROOM / sizeof(long); i++)
        source[i] = -1000 * me - (long)i;
    memset(end - ROOM, 0, ROOM);
    shmem_barrier_all();
    CHECK(shmem_long_alltoall(SHMEM_TEAM_WORLD, last - all, source, N) == 0);
    for (size_t i = 0; i < all; i++)
        CHECK(last[i - all] == -1000 * (long)(i / N) - (me * N + (long)(i % N)));
    shmem_barrier_all();
    /* Stride 2: the blocks are 2 * N elements apart, and the last element is the last but one of
     * its block. */
    size_t extent = 2 * all - 1;
    CHECK(shmem_long_alltoalls(SHMEM_TEAM_WORLD, last - extent, source, 2, 1, N) == 0);
    for (size_t i = 0; i < all; i++)
        CHECK((last - extent)[2 * i] == -1000 * (long)(i / N) - (me * N + (long)(i % N)));
    shmem_barrier_all();
    CHECK(shmem_long_fcollect(SHMEM_TEAM_WORLD, last - all, source, N) == 0);
    CHECK(last[-1] == -1000 * (n - 1) - (N - 1));
    shmem_barrier_all();
    CHECK(shmem_long_broadcast(SHMEM_TEAM_WORLD, last - N, source, N, n - 1) == 0);
    CHECK(last[-1] == -1000 * (n - 1) - (N - 1));
    shmem_barrier_all();
    CHECK(shmem_long_min_reduce(SHMEM_TEAM_WORLD, last - N, source, N) == 0);
    CHECK(last[-1] == -1000 * (n - 1) - (N - 1));
    shmem_barrier_all();
    long copy[ROOM / sizeof(long)];
    memcpy(copy, end - ROOM, ROOM);
    REFUSED(weft_alltoall(world, last - all + 1, source, N * sizeof(long)));
    REFUSED(weft_alltoalls(world, last - extent + 1, source, 2, 1, sizeof(long), N));
    REFUSED(weft_allgather(world, last - all + 1, source, N * sizeof(long)));
    REFUSED(weft_broadcast(world, last - N + 1, source, N * sizeof(long), 0));
    REFUSED(weft_allreduce(world, last - N + 1, source, N, WEFT_INT64, WEFT_MIN));
    REFUSED(weft_allreduce(world, source, last - N + 1, N, WEFT_INT64, WEFT_MIN));
    shmem_barrier_all();
    CHECK(memcmp(copy, end - ROOM, ROOM) == 0);
}

int main(void)
{
    shmem_init();
    me = shmem_my_pe();
    n = shmem_n_pes();
    next = (me + 1) % n;
    before = (me + n - 1) % n;
    take_all();
    contiguous();
    single_values();
    strided();
    collectives();
    shmem_free(heap);
    shmem_finalize();
    return 0;
}
