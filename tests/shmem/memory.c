/* SPDX-License-Identifier: Apache-2.0 */
/* The symmetric heap: alignment, contents, calls without effect, and a block is usable at every PE
 * when the call returns. */
#include "check.h"

int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes(), next = (me + 1) % n, before = (me + n - 1) % n;

    /* Calls without effect contain no barrier, so one PE may call alone. */
    if (me == 0) {
        CHECK(shmem_malloc(0) == NULL && shmem_calloc(0, 8) == NULL && shmem_calloc(8, 0) == NULL);
        CHECK(shmem_align(64, 0) == NULL && shmem_malloc_with_hints(0, 0) == NULL);
        shmem_free(NULL);
        CHECK(shmem_realloc(NULL, 0) == NULL);
        CHECK(shmem_calloc(SIZE_MAX / 2, 3) == NULL);
        CHECK(shmem_align(3, 8) == NULL && shmem_align(0, 8) == NULL && shmem_align(24, 8) == NULL);
    }

    long *block = shmem_malloc(10 * sizeof *block);
    CHECK(block && (uintptr_t)block % 16 == 0);
    shmem_long_p(&block[9], me, next); /* allowed at once: malloc ends with a barrier */
    shmem_barrier_all();
    CHECK(block[9] == before);

    long *zero = shmem_calloc(100, sizeof *zero);
    for (int i = 0; i < 100; i++)
        CHECK(zero[i] == 0);
    memset(zero, 1, 100 * sizeof *zero);
    shmem_free(zero);
    zero = shmem_calloc(100, sizeof *zero);
    for (int i = 0; i < 100; i++)
        CHECK(zero[i] == 0);

    for (size_t align = 1; align <= 64 << 20; align *= 2) { /* above 2 MiB: finding E3 */
        char *aligned = shmem_align(align, 100);
        CHECK(aligned && (uintptr_t)aligned % align == 0);
        /* Finding A24: a block that realloc moves keeps its alignment. */
        aligned = shmem_realloc(aligned, 5000);
        CHECK(aligned && (uintptr_t)aligned % align == 0);
        shmem_free(aligned);
    }

    block[0] = 5;
    block[9] = 6;
    shmem_barrier_all();
    block = shmem_realloc(block, 1000 * sizeof *block);
    CHECK(block && block[0] == 5 && block[9] == 6);
    shmem_long_p(&block[999], me, next);
    shmem_barrier_all();
    CHECK(block[999] == before);
    block = shmem_realloc(block, 2 * sizeof *block);
    CHECK(block && block[0] == 5);
    long *more = shmem_realloc(NULL, 64);
    CHECK(more != NULL);
    CHECK(shmem_realloc(more, 0) == NULL);

    uint64_t *hinted =
        shmem_malloc_with_hints(8, SHMEM_MALLOC_ATOMICS_REMOTE | SHMEM_MALLOC_SIGNAL_REMOTE);
    CHECK(hinted != NULL);
    *hinted = 0;
    shmem_barrier_all();
    shmem_uint64_atomic_inc(hinted, next);
    shmem_barrier_all();
    CHECK(*hinted == 1);
    shmem_free(hinted);
    /* Finding E2: unknown hints are ignored. */
    CHECK((hinted = shmem_malloc_with_hints(8, SHMEM_MALLOC_SIGNAL_REMOTE | 0x40)) != NULL);
    shmem_free(hinted);
    CHECK((hinted = shmem_malloc_with_hints(8, 0)) != NULL);
    shmem_free(hinted);
    shmem_free(block);
    shmem_free(zero);

    /* More than the heap has: every PE gets a null pointer, and the heap does not change. */
    CHECK(shmem_malloc((size_t)1 << 60) == NULL);

    /* Deprecated names. */
    CHECK(_my_pe() == me && _num_pes() == n && my_pe() == me && num_pes() == n);
    char *old = shmalloc(10);
    CHECK(old && (old = shrealloc(old, 20)));
    shfree(old);
    CHECK((old = shmemalign(4096, 1)) && (uintptr_t)old % 4096 == 0);
    shfree(old);

    /* Free returns memory: 200 allocations of a size that fits only once. */
    for (int i = 0; i < 200; i++) {
        char *part = shmem_malloc((size_t)256 << 20);
        CHECK(part != NULL);
        shmem_free(part);
    }
    shmem_finalize();
    return 0;
}
