/* SPDX-License-Identifier: Apache-2.0 */
/* The C11 selections pick the right routine for every type, with and without a context. */
#include "check.h"

#define N 4

static int me, next, before;
static shmem_ctx_t ctx;
static uint64_t signals[2];

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#define TEST(NAME)  JOIN(test_, NAME)
#define EACH_REAL
#define EACH_LONG_DOUBLE
#define EACH_CHAR
#define EACH_SHORT
#define EACH_SIGNED
#define EACH_UNSIGNED
#define TEMPLATE "rma_generic.h"
#include "each_type.h"

int main(void)
{
    shmem_init();
    int n = shmem_n_pes(), types = 0;
    me = shmem_my_pe();
    next = (me + 1) % n;
    before = (me + n - 1) % n;
    CHECK(shmem_ctx_create(SHMEM_CTX_PRIVATE, &ctx) == 0);
#define CALL(arg, NAME, TYPE, bits)                                                                \
    test_##NAME();                                                                                 \
    types++;
    WEFT_SHMEM_RMA_BASE(CALL, )
    CHECK(types == 14);
    CHECK(signals[0] == 2u * (unsigned)types && signals[1] == 2u * (unsigned)types);
    shmem_ctx_destroy(ctx);
    shmem_finalize();
    return 0;
}
