/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of put and get: size 0, this PE as the peer, the last byte of the heap, overlapping
 * strides, odd sizes and alignments. */
#include "check.h"

static int me, n, next, before;

static void nothing(void)
{
    long *there = symmetric(sizeof *there), here = 5;
    shmem_long_put(there, &here, 0, next);
    shmem_long_get(&here, there, 0, next);
    shmem_long_put_nbi(there, &here, 0, next);
    shmem_long_get_nbi(&here, there, 0, next);
    shmem_long_iput(there, &here, 3, 2, 0, next);
    shmem_long_iget(&here, there, 3, 2, 0, next);
    shmem_putmem(NULL, NULL, 0, next);
    shmem_getmem(NULL, NULL, 0, next);
    shmem_put64_nbi(NULL, NULL, 0, next);
    shmem_get64_nbi(NULL, NULL, 0, next);
    shmem_long_iput(NULL, NULL, 1, 1, 0, next);
    shmem_long_iget(NULL, NULL, 1, 1, 0, next);
    shmem_ctx_iput128(SHMEM_CTX_DEFAULT, NULL, NULL, 3, 2, 0, next);
    shmem_ctx_iget8(SHMEM_CTX_DEFAULT, NULL, NULL, 3, 2, 0, next);
    shmem_barrier_all();
    CHECK(*there == 0 && here == 5);
    shmem_free(there);
}

static void oneself(void)
{
    long *there = symmetric(4 * sizeof *there), here[4] = {1, 2, 3, 4}, got[4];
    shmem_long_put(there, here, 4, me);
    shmem_quiet();
    CHECK(memcmp(there, here, sizeof here) == 0);
    shmem_long_get(got, there, 4, me);
    CHECK(memcmp(got, here, sizeof here) == 0);
    /* Source and destination are the same address. */
    shmem_long_put(there, there, 4, me);
    shmem_long_get(there, there, 4, me);
    shmem_quiet();
    CHECK(memcmp(there, here, sizeof here) == 0);
    shmem_long_p(there, 77, me);
    CHECK(shmem_long_g(there, me) == 77);
    shmem_barrier_all();
    shmem_free(there);
}

/* The largest block that the heap provides, up to its last byte. */
static void whole_heap(void)
{
    size_t size = (size_t)1 << 40;
    unsigned char *block = NULL;
    while (size > 64 && !(block = shmem_malloc(size)))
        size /= 2;
    CHECK(block != NULL);
    shmem_uchar_p(block + size - 1, (unsigned char)(me + 1), next);
    shmem_barrier_all();
    CHECK(block[size - 1] == before + 1);
    CHECK(shmem_uchar_g(block + size - 1, next) == me + 1);
    shmem_barrier_all();
    shmem_free(block);
}

/* Interleaved writers: each PE writes every n-th element of the same array at every PE. */
static void interleaved(void)
{
    enum { EACH = 13 };
    int *there = symmetric((size_t)n * EACH * sizeof *there), mine[EACH];
    for (int i = 0; i < EACH; i++)
        mine[i] = 100 * me + i;
    for (int pe = 0; pe < n; pe++)
        shmem_int_iput(there + me, mine, n, 1, EACH, pe);
    shmem_barrier_all();
    for (int i = 0; i < n * EACH; i++)
        CHECK(there[i] == 100 * (i % n) + i / n);
    /* Two strided reads whose elements interleave. */
    int even[EACH], both[EACH];
    shmem_int_iget(even, there, 1, n, EACH, next);
    shmem_int_iget(both, there + n - 1, 1, n, EACH, next);
    for (int i = 0; i < EACH; i++)
        CHECK(even[i] == i && both[i] == 100 * (n - 1) + i);
    shmem_barrier_all();
    shmem_free(there);
}

/* Every small size at every small misalignment; the neighbouring bytes do not change. */
static void odd_sizes(void)
{
    enum { ROOM = 96 };
    unsigned char *there = symmetric(ROOM), here[ROOM], got[ROOM];
    for (size_t i = 0; i < ROOM; i++)
        here[i] = (unsigned char)(i + 1);
    for (size_t size = 1; size <= 67; size += size < 20 ? 1 : 7) {
        for (size_t at = 0; at < 9; at++) {
            memset(there, 0, ROOM);
            shmem_barrier_all();
            shmem_putmem(there + at, here + at % 3, size, next);
            shmem_barrier_all();
            for (size_t i = 0; i < ROOM; i++)
                CHECK(there[i] == (i >= at && i < at + size ? here[i - at + at % 3] : 0));
            memset(got, 0, ROOM);
            shmem_getmem(got + 1, there + at, size, next);
            CHECK(memcmp(got + 1, here + at % 3, size) == 0 && got[0] == 0 && got[size + 1] == 0);
            shmem_barrier_all();
        }
    }
    shmem_free(there);
}

static void large(void)
{
    size_t count = 3 * 1024 * 1024 / sizeof(long) + 1;
    long *there = shmem_malloc(2 * count * sizeof *there);
    CHECK(there != NULL);
    for (size_t i = 0; i < count; i++)
        there[i] = (long)i * (me + 1);
    shmem_barrier_all();
    shmem_long_put_nbi(there + count, there, count, next);
    shmem_barrier_all();
    for (size_t i = 0; i < count; i++)
        CHECK(there[count + i] == (long)i * (before + 1));
    shmem_long_get_nbi(there + count, there, count, next);
    shmem_quiet();
    for (size_t i = 0; i < count; i++)
        CHECK(there[count + i] == (long)i * (next + 1));
    shmem_barrier_all();
    shmem_free(there);
}

int main(void)
{
    shmem_init();
    me = shmem_my_pe();
    n = shmem_n_pes();
    next = (me + 1) % n;
    before = (me + n - 1) % n;
    nothing();
    oneself();
    whole_heap();
    interleaved();
    odd_sizes();
    large();
    shmem_finalize();
    return 0;
}
