/* SPDX-License-Identifier: Apache-2.0 */
/* The names that versions 1.0 to 1.4 of the standard deprecated, in a program without shmem_init()
 * and shmem_finalize(). */
#include "check.h"

#include <mpp/shmem.h>
#include <mpp/shmemx.h>

static long flag, psync[_SHMEM_BARRIER_SYNC_SIZE];

#define OLD(arg, NAME, TYPE, bits)                                                                 \
    {                                                                                              \
        static TYPE at;                                                                            \
        CHECK(shmem_##NAME##_finc(&at, me) == 0 && shmem_##NAME##_fadd(&at, 4, me) == 1);          \
        shmem_##NAME##_inc(&at, me);                                                               \
        shmem_##NAME##_add(&at, 2, me);                                                            \
        shmem_quiet();                                                                             \
        CHECK(at == 8 && shmem_##NAME##_cswap(&at, 8, 9, me) == 8 && at == 9);                     \
    }
#define OLD_EXTENDED(arg, NAME, TYPE, bits)                                                        \
    {                                                                                              \
        static TYPE at;                                                                            \
        shmem_##NAME##_set(&at, (TYPE)3, me);                                                      \
        shmem_quiet();                                                                             \
        CHECK(shmem_##NAME##_fetch(&at, me) == 3 && shmem_##NAME##_swap(&at, (TYPE)4, me) == 3);   \
        CHECK(at == 4);                                                                            \
    }
#define OLD_WAIT(arg, NAME, TYPE, code)                                                            \
    {                                                                                              \
        static TYPE at;                                                                            \
        shmem_##NAME##_p(&at, 5, (me + 1) % n);                                                    \
        shmem_##NAME##_wait(&at, 0);                                                               \
        CHECK(at == 5);                                                                            \
    }

int main(void)
{
    start_pes(0);
    start_pes(0);
    int me = _my_pe(), n = _num_pes();
    CHECK(me == shmem_my_pe() && n == shmem_n_pes());
    WEFT_SHMEM_OLD_AMO_TYPES(OLD, )
    WEFT_SHMEM_OLD_AMO_EXTENDED_TYPES(OLD_EXTENDED, )
    WEFT_SHMEM_OLD_WAIT_TYPES(OLD_WAIT, )

#ifndef NO_SELECTION
    /* The C11 selections of version 1.3. */
    static int i;
    static double d;
    shmem_set(&i, 5, me);
    shmem_quiet();
    CHECK(shmem_fetch(&i, me) == 5 && shmem_swap(&i, 6, me) == 5 && shmem_finc(&i, me) == 6);
    CHECK(shmem_fadd(&i, 2, me) == 7 && shmem_cswap(&i, 9, 10, me) == 9);
    shmem_inc(&i, me);
    shmem_add(&i, 1, me);
    shmem_set(&d, 2.5, me);
    shmem_quiet();
    CHECK(i == 12 && shmem_fetch(&d, me) == 2.5);
#endif

    shmem_barrier_all();
    shmem_long_p(&flag, 7, (me + 1) % n);
    shmem_wait(&flag, 0);
    (shmem_wait_until)(&flag, _SHMEM_CMP_EQ, 7);
    CHECK((shmem_swap)(&flag, 9, me) == 7 && flag == 9);
    shmem_barrier(0, 0, n, psync);

    shmem_set_cache_inv();
    shmem_set_cache_line_inv(&flag);
    shmem_clear_cache_inv();
    shmem_clear_cache_line_inv(&flag);
    shmem_udcflush();
    shmem_udcflush_line(&flag);
    CHECK(_SHMEM_MAJOR_VERSION == 1 && _SHMEM_SYNC_VALUE == SHMEM_SYNC_VALUE);
    return 0; /* start_pes() registers the finalization at exit */
}
