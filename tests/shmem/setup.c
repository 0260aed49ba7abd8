/* SPDX-License-Identifier: Apache-2.0 */
/* Initialization, queries and accessibility. */
#include "check.h"

#include <shmemx.h>

#include <stdbool.h>

static int in_bss[4];
static int in_data = 3;

int main(void)
{
    int on_stack = 0, major = 0, minor = 0, level = -1;
    char name[SHMEM_MAX_NAME_LEN];
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    CHECK(me >= 0 && me < n);

    shmem_query_thread(&level);
    CHECK(level == SHMEM_THREAD_SINGLE);
    shmem_info_get_version(&major, &minor);
    CHECK(major == 1 && minor == 5);
    CHECK(major == SHMEM_MAJOR_VERSION && minor == SHMEM_MINOR_VERSION);
    shmem_info_get_name(name);
    CHECK(strcmp(name, SHMEM_VENDOR_STRING) == 0);
    double start = shmemx_wtime();
    CHECK(start > 0 && shmemx_wtime() >= start && shmemx_wtime() - start < 1000);
    shmem_pcontrol(0);
    shmem_pcontrol(2, "more", 7);

    /* Over the default path of one machine this PE can load and store every PE's memory. Over
     * another path (the tests set WEFT_PATH) it can access only its own, and shmem_ptr() must
     * return NULL for the others. */
    const char *path = getenv("WEFT_PATH");
    bool direct = !path || !*path || strcmp(path, "p2p") == 0;
    int *in_heap = symmetric(sizeof *in_heap);
    for (int pe = 0; pe < n; pe++) {
        CHECK(shmem_pe_accessible(pe));
        CHECK(shmem_addr_accessible(in_heap, pe));
        CHECK(shmem_addr_accessible(&in_bss[3], pe));
        CHECK(shmem_addr_accessible(&in_data, pe));
        CHECK(!shmem_addr_accessible(&on_stack, pe));
        int *there = shmem_ptr(in_heap, pe);
        CHECK((there != NULL) == (direct || pe == me));
        CHECK((shmem_ptr(&in_bss[1], pe) != NULL) == (direct || pe == me));
        CHECK(pe == me || !there || there != in_heap);
        if (there)
            __atomic_fetch_add(there, me + 1, __ATOMIC_RELAXED);
        CHECK(shmemx_team_ptr(SHMEM_TEAM_WORLD, in_heap, pe) == there);
    }
    CHECK(!shmem_pe_accessible(n) && !shmem_pe_accessible(-1));
    CHECK(!shmem_addr_accessible(in_heap, n) && !shmem_addr_accessible(in_heap, -1));
    CHECK(shmem_ptr(&on_stack, me) == NULL && shmem_ptr(in_heap, n) == NULL);
    CHECK(shmemx_team_ptr(SHMEM_TEAM_INVALID, in_heap, 0) == NULL);
    CHECK(shmem_ptr(in_heap, me) == in_heap && shmem_ptr(&in_data, me) == &in_data);
    CHECK(shmemx_job() != NULL && shmemx_team(SHMEM_TEAM_WORLD) != NULL);
    CHECK(shmemx_ctx(SHMEM_CTX_DEFAULT) == weft_default_ctx(shmemx_job()));
    shmem_barrier_all();
    /* The stores of every PE have arrived; without addresses only this PE's own store was made. */
    CHECK(*in_heap == (direct ? n * (n + 1) / 2 : me + 1));
    shmem_barrier_all();
    int *last = shmem_ptr(in_heap, n - 1);
    if (last && me == 0)
        *last = -12345;
    shmem_barrier_all();
    if (direct || n == 1)
        CHECK(shmem_int_g(in_heap, n - 1) == -12345);

    in_data = me + 10;
    shmem_barrier_all();
    int *next = shmem_ptr(&in_data, (me + 1) % n);
    if (next)
        CHECK(*next == (me + 1) % n + 10);
    shmem_barrier_all();
    shmem_finalize();
    if (in_data != me + 10 || shmem_my_pe() != -1)
        return 1;
    in_data = 1; /* the variables are ordinary memory again */
    return 0;
}
