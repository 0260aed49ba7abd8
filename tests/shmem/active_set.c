/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives over active sets: every set (start, stride, size) of the job that contains this PE,
 * every routine and size. pSync is zero again after each. */
#include "check.h"

enum { N = 5, MOST = 7 };

static long pSync[3][SHMEM_SYNC_SIZE];
static int me, start, log_stride, size, ordinal;
static int turn; /* the pSync arrays are used in turn */

#define SET start, log_stride, size, pSync[turn++ % 3]

static void clean(void)
{
    static long barrier_sync[SHMEM_BARRIER_SYNC_SIZE];
    shmem_barrier(start, log_stride, size, barrier_sync);
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < SHMEM_SYNC_SIZE; i++)
            CHECK(pSync[k][i] == SHMEM_SYNC_VALUE);
    shmem_barrier(start, log_stride, size, barrier_sync);
    shmem_sync(start, log_stride, size, barrier_sync);
}

#define MOVES(bits)                                                                                \
    static uint##bits##_t source##bits[2 * N * MOST], dest##bits[3 * N * MOST];                    \
    static void moves_##bits(void)                                                                 \
    {                                                                                              \
        uint##bits##_t *source = source##bits, *dest = dest##bits;                                 \
        for (int i = 0; i < 2 * N * MOST; i++)                                                     \
            source[i] = (uint##bits##_t)value_of(ordinal, i);                                      \
        for (int root = 0; root < size; root++) {                                                  \
            memset(dest, 0, sizeof dest##bits);                                                    \
            clean();                                                                               \
            shmem_broadcast##bits(dest, source, N, root, SET);                                     \
            for (int i = 0; i < N; i++)                                                            \
                CHECK(dest[i] == (ordinal == root ? 0 : (uint##bits##_t)value_of(root, i)));       \
        }                                                                                          \
        clean();                                                                                   \
        shmem_fcollect##bits(dest, source, N, SET);                                                \
        for (int i = 0; i < N * size; i++)                                                         \
            CHECK(dest[i] == (uint##bits##_t)value_of(i / N, i % N));                              \
        clean();                                                                                   \
        shmem_collect##bits(dest, source, (size_t)((ordinal + 1) % 3), SET);                       \
        for (int k = 0, at = 0; k < size; k++)                                                     \
            for (int i = 0; i < (k + 1) % 3; i++, at++)                                            \
                CHECK(dest[at] == (uint##bits##_t)value_of(k, i));                                 \
        clean();                                                                                   \
        shmem_alltoall##bits(dest, source, N, SET);                                                \
        for (int i = 0; i < N * size; i++)                                                         \
            CHECK(dest[i] == (uint##bits##_t)value_of(i / N, ordinal * N + i % N));                \
        memset(dest, 0, sizeof dest##bits);                                                        \
        clean();                                                                                   \
        shmem_alltoalls##bits(dest, source, 3, 2, N, SET);                                         \
        for (int i = 0; i < N * size; i++)                                                         \
            CHECK(dest[3 * i] == (uint##bits##_t)value_of(i / N, 2 * (ordinal * N + i % N)) &&     \
                  dest[3 * i + 1] == 0);                                                           \
        clean();                                                                                   \
        shmem_broadcast##bits(dest, source, 0, 0, SET);                                            \
        shmem_collect##bits(dest, source, 0, SET);                                                 \
        clean();                                                                                   \
    }
MOVES(32)
MOVES(64)

#define OP_and(a, b)  ((a) & (b))
#define OP_or(a, b)   ((a) | (b))
#define OP_xor(a, b)  ((a) ^ (b))
#define OP_max(a, b)  ((a) > (b) ? (a) : (b))
#define OP_min(a, b)  ((a) < (b) ? (a) : (b))
#define OP_sum(a, b)  ((a) + (b))
#define OP_prod(a, b) ((a) * (b))

enum { LONG = 2500 };

#define TO_ALL(op, NAME, TYPE, code)                                                               \
    static TYPE op##NAME##_dest[LONG], op##NAME##_source[LONG];                                    \
    static TYPE op##NAME##_work[LONG / 2 + 1 + SHMEM_REDUCE_MIN_WRKDATA_SIZE];                     \
    static void op##_##NAME(int count)                                                             \
    {                                                                                              \
        TYPE *dest = op##NAME##_dest, *source = op##NAME##_source;                                 \
        for (int i = 0; i < count; i++)                                                            \
            source[i] = (TYPE)((ordinal + i) % 2 + 1);                                             \
        shmem_##NAME##_##op##_to_all(dest, source, count, start, log_stride, size,                 \
                                     op##NAME##_work, pSync[0]);                                   \
        shmem_##NAME##_##op##_to_all(source, source, count, start, log_stride, size,               \
                                     op##NAME##_work, pSync[1]);                                   \
        for (int i = 0; i < count; i++) {                                                          \
            TYPE wanted = (TYPE)(i % 2 + 1);                                                       \
            for (int k = 1; k < size; k++)                                                         \
                wanted = (TYPE)OP_##op(wanted, (TYPE)((k + i) % 2 + 1));                           \
            CHECK(dest[i] == wanted && source[i] == wanted);                                       \
        }                                                                                          \
    }
WEFT_SHMEM_TO_ALL_BITWISE_TYPES(TO_ALL, and)
WEFT_SHMEM_TO_ALL_BITWISE_TYPES(TO_ALL, or)
WEFT_SHMEM_TO_ALL_BITWISE_TYPES(TO_ALL, xor)
WEFT_SHMEM_TO_ALL_ORDERED_TYPES(TO_ALL, max)
WEFT_SHMEM_TO_ALL_ORDERED_TYPES(TO_ALL, min)
WEFT_SHMEM_TO_ALL_ARITHMETIC_TYPES(TO_ALL, sum)
WEFT_SHMEM_TO_ALL_ARITHMETIC_TYPES(TO_ALL, prod)

#define CALL(op, NAME, TYPE, code)                                                                 \
    op##_##NAME(count);                                                                            \
    clean();

static void reductions(int count)
{
    WEFT_SHMEM_TO_ALL_BITWISE_TYPES(CALL, and)
    WEFT_SHMEM_TO_ALL_BITWISE_TYPES(CALL, or)
    WEFT_SHMEM_TO_ALL_BITWISE_TYPES(CALL, xor)
    WEFT_SHMEM_TO_ALL_ORDERED_TYPES(CALL, max)
    WEFT_SHMEM_TO_ALL_ORDERED_TYPES(CALL, min)
    WEFT_SHMEM_TO_ALL_ARITHMETIC_TYPES(CALL, sum)
    WEFT_SHMEM_TO_ALL_ARITHMETIC_TYPES(CALL, prod)
}

int main(void)
{
    shmem_init();
    int n = shmem_n_pes();
    me = shmem_my_pe();
    /* All sets in turn; only the members of a set call. */
    for (start = 0; start < n; start++) {
        for (log_stride = 0; 1 << log_stride < n || log_stride == 0; log_stride++) {
            for (size = 1; start + ((size - 1) << log_stride) < n; size++) {
                ordinal = (me - start) >> log_stride;
                turn = 0;
                if (me >= start && (me - start) % (1 << log_stride) == 0 && ordinal < size) {
                    moves_32();
                    moves_64();
                    if (size > 1 || start == 0)
                        reductions(size == n ? LONG : size == 2 ? 1 : 100);
                }
                shmem_barrier_all();
            }
        }
    }

    /* A barrier completes puts. The same pSync is reused, and two sets run at the same time. */
    static long cell, both_sync[SHMEM_BARRIER_SYNC_SIZE];
    start = me % 2;
    log_stride = n > 1;
    size = n > 1 ? (n + 1 - start) / 2 : 1;
    ordinal = me / 2;
    int next = n > 1 ? (ordinal + 1) % size * 2 + start : 0;
    for (long round = 1; round <= 200; round++) {
        shmem_long_put_nbi(&cell, &round, 1, next);
        shmem_barrier(start, log_stride, size, both_sync);
        CHECK(cell == round);
        shmem_sync(start, log_stride, size, both_sync);
    }
    shmem_finalize();
    return 0;
}
