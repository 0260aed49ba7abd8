/* SPDX-License-Identifier: Apache-2.0 */
/* Put with signal in every type and size; the signal comes after the data. */
#include "check.h"

#include <shmemx.h>

#define N 5

static int me, n, next, before;
static uint64_t *signals;
static shmem_ctx_t ctx;

#define FORMS(put_signal, TYPE, wanted)                                                            \
    shmem_##put_signal(at, mine, N, &signals[0], round, SHMEM_SIGNAL_SET, next);                   \
    CHECK(shmem_signal_wait_until(&signals[0], SHMEM_CMP_EQ, round) == round);                     \
    for (int i = 0; i < N; i++)                                                                    \
        CHECK(at[i] == (TYPE)(wanted));                                                            \
    shmem_ctx_##put_signal(ctx, at + N, mine, N, &signals[1], 1, SHMEM_SIGNAL_ADD, next);          \
    shmem_signal_wait_until(&signals[1], SHMEM_CMP_GE, round);                                     \
    for (int i = 0; i < N; i++)                                                                    \
        CHECK(at[N + i] == (TYPE)(wanted));                                                        \
    CHECK(shmem_signal_fetch(&signals[1]) == round);                                               \
    shmem_ctx_quiet(ctx);                                                                          \
    shmem_barrier_all();                                                                           \
    round++;

#define TYPED(arg, NAME, TYPE, bits)                                                               \
    {                                                                                              \
        TYPE *at = symmetric(2 * N * sizeof *at), mine[N];                                         \
        for (int i = 0; i < N; i++)                                                                \
            mine[i] = (TYPE)value_of(me, i);                                                       \
        FORMS(NAME##_put_signal, TYPE, value_of(before, i))                                        \
        memset(at, 0, 2 * N * sizeof *at);                                                         \
        shmem_barrier_all();                                                                       \
        FORMS(NAME##_put_signal_nbi, TYPE, value_of(before, i))                                    \
        shmem_free(at);                                                                            \
    }
#define BYTES(put_signal, bytes)                                                                   \
    {                                                                                              \
        unsigned char *at = symmetric(2 * N * (bytes)), mine[N * (bytes)];                         \
        memset(mine, me + 1, sizeof mine);                                                         \
        shmem_barrier_all();                                                                       \
        FORMS(put_signal, unsigned char, before + 1)                                               \
        CHECK(at[(bytes)*N - 1] == before + 1);                                                    \
        shmem_free(at);                                                                            \
    }
#define SIZED(arg, bits)                                                                           \
    BYTES(put##bits##_signal, (bits) / 8)                                                          \
    BYTES(put##bits##_signal_nbi, (bits) / 8)

int main(void)
{
    shmem_init();
    me = shmem_my_pe();
    n = shmem_n_pes();
    next = (me + 1) % n;
    before = (me + n - 1) % n;
    signals = symmetric(3 * sizeof *signals);
    CHECK(shmem_ctx_create(0, &ctx) == 0);
    uint64_t round = 1;
    WEFT_SHMEM_RMA_TYPES(TYPED, )
    WEFT_SHMEM_SIZES(SIZED, )
    BYTES(putmem_signal, 1)
    BYTES(putmem_signal_nbi, 1)

    /* A signal with size 0, and a signal without a put. */
    shmem_putmem_signal(NULL, NULL, 0, &signals[2], 9, SHMEM_SIGNAL_SET, next);
    shmem_signal_wait_until(&signals[2], SHMEM_CMP_EQ, 9);
    shmem_barrier_all();
    shmemx_signal_set(&signals[2], 20, next);
    shmem_signal_wait_until(&signals[2], SHMEM_CMP_EQ, 20);
    shmem_barrier_all();
    shmemx_ctx_signal_add(ctx, &signals[2], 5, next);
    shmem_ctx_quiet(ctx);
    shmemx_signal_add(&signals[2], 5, next);
    shmem_signal_wait_until(&signals[2], SHMEM_CMP_EQ, 30);
    shmem_barrier_all();
    shmemx_ctx_signal_set(ctx, &signals[2], 1, next);
    shmem_ctx_quiet(ctx);
    shmem_signal_wait_until(&signals[2], SHMEM_CMP_LT, 2);
    shmem_ctx_destroy(ctx);
    shmem_finalize();
    return 0;
}
