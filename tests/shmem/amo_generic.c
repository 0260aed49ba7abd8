/* SPDX-License-Identifier: Apache-2.0 */
/* The C11 selections of the atomics, every type, with and without a context. */
#include "check.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)

static int me;
static shmem_ctx_t ctx;

#define QUIET (shmem_quiet(), shmem_ctx_quiet(ctx))

#define BITWISE_OP(op, TYPE, start, value, wanted)                                                 \
    *at = (TYPE)(start);                                                                           \
    CHECK(shmem_atomic_fetch_##op(at, (TYPE)(value), me) == (TYPE)(start));                        \
    CHECK(*at == (TYPE)(wanted));                                                                  \
    *at = (TYPE)(start);                                                                           \
    CHECK(shmem_atomic_fetch_##op(ctx, at, (TYPE)(value), me) == (TYPE)(start));                   \
    *at = (TYPE)(start);                                                                           \
    shmem_atomic_##op(at, (TYPE)(value), me);                                                      \
    QUIET;                                                                                         \
    CHECK(*at == (TYPE)(wanted));                                                                  \
    *at = (TYPE)(start);                                                                           \
    shmem_atomic_##op(ctx, at, (TYPE)(value), me);                                                 \
    QUIET;                                                                                         \
    CHECK(*at == (TYPE)(wanted));                                                                  \
    shmem_atomic_fetch_##op##_nbi(&got, at, (TYPE)(value), me);                                    \
    QUIET;                                                                                         \
    CHECK(got == (TYPE)(wanted));                                                                  \
    shmem_atomic_fetch_##op##_nbi(ctx, &got, at, (TYPE)(value), me);                               \
    QUIET;

#define TEMPLATE "amo_generic.h"
#define EACH_SIGNED
#define EACH_UNSIGNED
#define STANDARD
#include "each_type.h"
#undef STANDARD
#define EACH_REAL
#define EXTENDED
#include "each_type.h"
#undef EXTENDED
#undef EACH_REAL
#undef EACH_SIGNED
#define BITWISE
#include "each_type.h"
#undef EACH_UNSIGNED
#define NAME int32
#define TYPE int32_t
#include TEMPLATE
#undef NAME
#undef TYPE
#define NAME int64
#define TYPE int64_t
#include TEMPLATE

int main(void)
{
    shmem_init();
    me = shmem_my_pe();
    CHECK(shmem_ctx_create(SHMEM_CTX_SERIALIZED, &ctx) == 0);
#define CALL(kind, NAME, TYPE, bits) kind##_##NAME();
    WEFT_SHMEM_AMO_EXTENDED_BASE(CALL, extended)
    WEFT_SHMEM_AMO_BASE(CALL, standard)
    WEFT_SHMEM_AMO_BITWISE_BASE(CALL, bitwise)
    shmem_ctx_destroy(ctx);
    shmem_finalize();
    return 0;
}
