/* SPDX-License-Identifier: Apache-2.0 */
/* The profiling interface: this program replaces two routines and calls the library's by their
 * pshmem names. The library's internal calls do not go through the replacements. */
#define SHMEM_NO_INLINE
#include "check.h"

#include <pshmem.h>

static int puts_seen, barriers_seen, control;

void shmem_long_put(long *dest, const long *source, size_t nelems, int pe)
{
    puts_seen++;
    pshmem_long_put(dest, source, nelems, pe);
}

void shmem_barrier_all(void)
{
    barriers_seen++;
    pshmem_barrier_all();
}

void shmem_pcontrol(int level, ...)
{
    control = level;
}

static long cell;

int main(void)
{
    pshmem_init();
    int me = shmem_my_pe(), n = pshmem_n_pes();
    long value = me + 1;
    shmem_long_put(&cell, &value, 1, (me + 1) % n);
    shmem_put(&cell, &value, 1, (me + 1) % n); /* selects the typed routine */
    void (*put)(long *, const long *, size_t, int) = shmem_long_put;
    put(&cell, &value, 1, (me + 1) % n);
    shmem_barrier_all();
    CHECK(cell == (me + n - 1) % n + 1);
    CHECK(puts_seen == 3 && barriers_seen == 1);
    shmem_pcontrol(2);
    CHECK(control == 2);
    pshmem_pcontrol(3);
    void *block = shmem_malloc(8); /* contains a barrier that does not go through the replacement */
    shmem_free(block);
    CHECK(barriers_seen == 1);
    pshmem_finalize();
    return 0;
}
