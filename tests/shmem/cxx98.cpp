// SPDX-License-Identifier: Apache-2.0
// A C++98 program: the headers of OpenSHMEM compile in that language version.
#include <complex>

#include "check.h"

#include <pshmem.h>
#include <shmemx.h>

namespace
{
std::complex<double> z[2], z_work[SHMEM_REDUCE_MIN_WRKDATA_SIZE];
long psync[SHMEM_REDUCE_SYNC_SIZE];
long long cell, sums[3];
unsigned long flags;
} // namespace

int main()
{
    shmem_init();
    const int me = shmem_my_pe(), n = shmem_n_pes(), next = (me + 1) % n, before = (me + n - 1) % n;
    for (int i = 0; i < SHMEM_REDUCE_SYNC_SIZE; i++)
        psync[i] = SHMEM_SYNC_VALUE;
    shmem_barrier_all();
    shmem_longlong_p(&cell, -1000000000000LL - me, next);
    shmem_ulong_atomic_add(&flags, 1ul << me, 0);
    shmem_barrier_all();
    CHECK(cell == -1000000000000LL - before);
    CHECK(shmem_longlong_g(&cell, me) == cell);
    CHECK(shmem_ulong_atomic_fetch(&flags, 0) == (1ul << n) - 1);
    const long long mine[3] = {-5 - me, me, 1LL << 40};
    static long long source[3];
    for (int i = 0; i < 3; i++)
        source[i] = mine[i];
    CHECK(shmem_longlong_min_reduce(SHMEM_TEAM_WORLD, sums, source, 3) == 0);
    CHECK(sums[0] == -5 - (n - 1) && sums[1] == 0 && sums[2] == 1LL << 40);
    z[0] = std::complex<double>(1.0, -2.0);
    shmem_barrier_all();
    shmem_complexd_sum_to_all(z, z, 1, 0, 0, n, z_work, psync);
    CHECK(z[0] == std::complex<double>(n, -2.0 * n));
    pshmem_quiet();
    shmem_finalize();
    return 0;
}
