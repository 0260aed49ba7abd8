/* SPDX-License-Identifier: Apache-2.0 */
/* Global and static variables are symmetric: initialised, zero, in functions, with large alignment,
 * the first and the last one of the program. They keep their values through init and finalize. */
#include "check.h"

long initialised[3] = {7, 8, 9};
static long zero[1000];
static char aligned_page[100] __attribute__((aligned(4096))) = "page";
static char aligned_large[1 << 16] __attribute__((aligned(1 << 16)));
static unsigned char big[1 << 20];
const long constant = 42;
extern char end[];

static int *in_function(void)
{
    static int counter = 100;
    return &counter;
}

static int after_exit;

static void look_again(void)
{
    if (!after_exit || initialised[0] < 1000)
        _Exit(3);
}

int main(void)
{
    initialised[1] = 80;
    zero[5] = 55;
    big[sizeof big - 1] = 3;
    atexit(look_again);
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes(), next = (me + 1) % n, before = (me + n - 1) % n;

    /* Moving the variables to the symmetric segment keeps their values. */
    CHECK(initialised[0] == 7 && initialised[1] == 80 && initialised[2] == 9);
    CHECK(zero[5] == 55 && zero[6] == 0 && big[sizeof big - 1] == 3 && big[17] == 0);
    CHECK(strcmp(aligned_page, "page") == 0 && *in_function() == 100);

    shmem_barrier_all();
    shmem_long_p(&initialised[0], 1000 + me, next);
    shmem_long_p(&zero[999], me + 1, next);
    shmem_int_p(in_function(), 200 + me, next);
    char word[100];
    snprintf(word, sizeof word, "from %d", me);
    shmem_putmem(aligned_page, word, sizeof word, next);
    shmem_putmem(aligned_large + sizeof aligned_large - 8, word, 8, next);
    memset(big, me + 1, sizeof big / 2);
    shmem_barrier_all();
    CHECK(initialised[0] == 1000 + before && zero[999] == before + 1);
    CHECK(*in_function() == 200 + before);
    snprintf(word, sizeof word, "from %d", before);
    CHECK(strcmp(aligned_page, word) == 0);
    CHECK(memcmp(aligned_large + sizeof aligned_large - 8, word, 7) == 0);
    shmem_getmem(big + sizeof big / 2, big, sizeof big / 2, next);
    CHECK(big[sizeof big - 1] == next + 1 && big[sizeof big / 2] == next + 1);

    /* From a global of this PE to a global of another, and atomics and waits on them. */
    static long flag, sum;
    shmem_long_atomic_add(&sum, me + 1, 0);
    shmem_long_atomic_set(&flag, 1, next);
    shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
    shmem_barrier_all();
    if (me == 0)
        CHECK(sum == (long)n * (n + 1) / 2);
    CHECK(shmem_addr_accessible((char *)((uintptr_t)end - 1), next));
    shmem_finalize();
    if (initialised[0] != 1000 + before || zero[5] != 55 || *in_function() != 200 + before)
        return 2;
    zero[5] = 1;
    after_exit = 1;
    return constant == 42 ? 0 : 4;
}
