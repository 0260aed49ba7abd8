/* SPDX-License-Identifier: Apache-2.0 */
/* A C++ program: typed routines, long double, complex numbers of C and of C++, contexts, teams,
 * global objects. */
#include <complex>
#include <vector>

#include "check.h"

#include <pshmem.h>
#include <shmemx.h>

struct Counter {
    long value = 5;
    Counter()
    {
        value = 6;
    }
};

static Counter counter; // constructed before main, and symmetric
static std::complex<double> z[2], z_work[2];
static std::complex<float> w;
static double _Complex plain;
static long double wide;
static long psync[SHMEM_REDUCE_SYNC_SIZE];
static shmem_ctx_t ctx = SHMEM_CTX_DEFAULT;

int main()
{
    shmem_init();
    const int me = shmem_my_pe(), n = shmem_n_pes(), next = (me + 1) % n, before = (me + n - 1) % n;
    CHECK(counter.value == 6);
    shmem_barrier_all();
    shmem_ctx_long_p(ctx, &counter.value, 10 + me, next);
    const long double mine = 0.5L + me;
    shmem_longdouble_put(&wide, &mine, 1, next);
    shmem_barrier_all();
    CHECK(counter.value == 10 + before && wide == 0.5L + before);
    CHECK(shmem_longdouble_g(&wide, next) == mine);

    z[0] = {1.0 * me, 1.0};
    z[1] = {1.0, 0.0};
    CHECK(shmem_complexd_sum_reduce(SHMEM_TEAM_WORLD, z, z, 2) == 0);
    CHECK(z[0] == std::complex<double>(n * (n - 1) / 2, n) && z[1].real() == n);
    w = {0.0f, 1.0f};
    CHECK(shmem_complexf_prod_reduce(SHMEM_TEAM_WORLD, &w, &w, 1) == 0);
    CHECK(std::abs(w) == 1.0f);
    z[0] = {1.0, 2.0};
    shmem_complexd_sum_to_all(z, z, 1, 0, 0, n, z_work, psync);
    CHECK(z[0] == std::complex<double>(n, 2 * n));
    __real__ plain = 2.0;
    CHECK(shmem_complexd_sum_reduce(SHMEM_TEAM_WORLD, &plain, &plain, 1) == 0);
    CHECK(__real__ plain == 2.0 * n);

    static unsigned bits;
    bits = ~0u << me;
    CHECK(shmem_uint_and_reduce(SHMEM_TEAM_WORLD, &bits, &bits, 1) == 0);
    CHECK(bits == ~0u << (n - 1));
    static uint64_t flags;
    shmem_uint64_atomic_or(&flags, 1ull << me, 0);
    shmem_barrier_all();
    CHECK(shmem_uint64_atomic_fetch(&flags, 0) == (1ull << n) - 1);

    static int seen[4];
    std::vector<int> values = {1, 2, 3, 4};
    shmem_int_put(seen, values.data(), values.size(), next);
    pshmem_fence();
    shmem_int_wait_until_all(seen, 4, nullptr, SHMEM_CMP_GT, 0);
    shmem_team_t team = SHMEM_TEAM_INVALID;
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, n, nullptr, 0, &team) == 0);
    CHECK(shmem_team_sync(team) == 0 && shmemx_team(team) != nullptr);
    shmem_team_destroy(team);
    auto *put = &shmem_long_put; // address of a library function
    long one = 1;
    put(&counter.value, &one, 1, me);
    shmem_finalize();
    return 0;
}
