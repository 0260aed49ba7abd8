/* SPDX-License-Identifier: Apache-2.0 */
/* The C11 selections of the collectives. */
#include "check.h"

#include <complex.h>

static shmem_team_t world = SHMEM_TEAM_WORLD;
static int me, n;

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)

#define TEMPLATE    "collectives_generic.h"
#define EACH_UNSIGNED
#define BITWISE
#include "each_type.h"
#undef BITWISE
#define EACH_REAL
#define EACH_LONG_DOUBLE
#define EACH_CHAR
#define EACH_SHORT
#define EACH_SIGNED
#define MOVES
#include "each_type.h"

static long pSync[SHMEM_BARRIER_SYNC_SIZE];

int main(void)
{
    shmem_init();
    me = shmem_my_pe();
    n = shmem_n_pes();
#define CALL(kind, NAME, TYPE, bits) kind##_##NAME();
    WEFT_SHMEM_RMA_BASE(CALL, moves)
    bitwise_uint();
    bitwise_ulong();
    bitwise_ulonglong();

    static int8_t small;
    static int32_t whole;
    static unsigned char byte = 0xf0;
    static unsigned short word;
    small = (int8_t)(1 << me % 7);
    whole = 1 << me;
    word = (unsigned short)(1 << me);
    CHECK(shmem_or_reduce(world, &small, &small, 1) == 0 && small == (n < 7 ? (1 << n) - 1 : 127));
    CHECK(shmem_xor_reduce(world, &whole, &whole, 1) == 0 && whole == (1 << n) - 1);
    CHECK(shmem_and_reduce(world, &byte, &byte, 1) == 0 && byte == 0xf0);
    CHECK(shmem_or_reduce(world, &word, &word, 1) == 0 && word == (1 << n) - 1);

    static double complex z;
    static float complex w;
    z = me + 1 + 2 * I;
    w = me == 0 ? I : 1;
    CHECK(shmem_sum_reduce(world, &z, &z, 1) == 0);
    CHECK(creal(z) == n * (n + 1) / 2 && cimag(z) == 2 * n);
    CHECK(shmem_prod_reduce(world, &w, &w, 1) == 0 && w == I);

    shmem_sync(world);
    shmem_sync(SHMEM_TEAM_SHARED);
    shmem_sync(0, 0, n, pSync);
    shmem_finalize();
    return 0;
}
