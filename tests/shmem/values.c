/* SPDX-License-Identifier: Apache-2.0 */
/* Puts, gets, single values and atomics of every type with the values at which types differ, each
 * between neighbours that must not change. */
#include "check.h"

#include "extremes.h"

static int me, n, next, before;

#define QUIET (shmem_quiet(), shmem_barrier_all())

/* The value is the middle one of three at the next PE; compared bit by bit, because -0.0 == 0.0. */
#define RMA(arg, NAME, TYPE, bits)                                                                 \
    static void rma_##NAME(const TYPE *values, int count)                                          \
    {                                                                                              \
        TYPE *at = symmetric(3 * sizeof *at), guard, row[3] = {0};                                 \
        memset(&guard, 0x5a, sizeof guard);                                                        \
        for (int i = 0; i < count; i++) {                                                          \
            TYPE mine = values[(i + me) % count], theirs = values[(i + before) % count];           \
            for (int form = 0; form < 4; form++) {                                                 \
                memcpy(&at[0], &guard, sizeof guard);                                              \
                memset(&at[1], 0, sizeof at[1]);                                                   \
                memcpy(&at[2], &guard, sizeof guard);                                              \
                QUIET;                                                                             \
                if (form == 0)                                                                     \
                    shmem_##NAME##_p(&at[1], mine, next);                                          \
                else if (form == 1)                                                                \
                    shmem_##NAME##_put(&at[1], &mine, 1, next);                                    \
                else if (form == 2)                                                                \
                    shmem_##NAME##_put_nbi(&at[1], &mine, 1, next);                                \
                else                                                                               \
                    shmem_##NAME##_iput(&at[1], &mine, 2, 2, 1, next);                             \
                QUIET;                                                                             \
                CHECK(memcmp(&at[0], &guard, sizeof guard) == 0);                                  \
                CHECK(memcmp(&at[2], &guard, sizeof guard) == 0);                                  \
                CHECK(SAME(TYPE, at[1], theirs));                                                  \
                TYPE got = shmem_##NAME##_g(&at[1], next);                                         \
                CHECK(SAME(TYPE, got, mine));                                                      \
                shmem_##NAME##_get(&row[1], &at[1], 1, next);                                      \
                CHECK(SAME(TYPE, row[1], mine) && row[0] == 0 && row[2] == 0);                     \
                shmem_##NAME##_iget(&row[1], &at[1], 2, 2, 1, next);                               \
                CHECK(SAME(TYPE, row[1], mine) && row[0] == 0 && row[2] == 0);                     \
                QUIET;                                                                             \
            }                                                                                      \
        }                                                                                          \
        shmem_free(at);                                                                            \
    }
/* The bytes of the value; a long double uses 10 of its 16. */
#define SAME(TYPE, a, b) (memcmp(&(a), &(b), sizeof(TYPE) == 16 ? 10 : sizeof(TYPE)) == 0)
WEFT_SHMEM_RMA_TYPES(RMA, )

#define VALUES_OF_INTEGER(NAME, TYPE)                                                              \
    {                                                                                              \
        TYPE values[EXTREMES];                                                                     \
        for (int i = 0; i < EXTREMES; i++)                                                         \
            values[i] = EXTREME(TYPE, i);                                                          \
        rma_##NAME(values, EXTREMES);                                                              \
    }
#define VALUES_OF_REAL(NAME, TYPE)                                                                 \
    {                                                                                              \
        TYPE values[EXTREMES + 4] = {(TYPE)-0.0, (TYPE)__builtin_inf(), (TYPE)-__builtin_inf(),    \
                                     (TYPE)__builtin_nan("0x1234")};                               \
        for (int i = 0; i < EXTREMES; i++)                                                         \
            values[4 + i] = (TYPE)real_extremes[i];                                                \
        rma_##NAME(values, EXTREMES + 4);                                                          \
    }

/* Every pair of values, by atomics on at[1] of the next PE. */
#define AMO(arg, NAME, TYPE, bits)                                                                 \
    static void amo_##NAME(void)                                                                   \
    {                                                                                              \
        TYPE *at = symmetric(3 * sizeof *at), fetched;                                             \
        at[0] = at[2] = (TYPE)UINT64_C(0xa5a5a5a5a5a5a5a5);                                        \
        QUIET;                                                                                     \
        for (int i = 0; i < EXTREMES * EXTREMES; i++) {                                            \
            TYPE a = EXTREME(TYPE, i), b = EXTREME(TYPE, i / EXTREMES);                            \
            TYPE near = (TYPE)((uint64_t)a ^ SIGN_BIT(TYPE));                                      \
            TYPE sum = (TYPE)((uint64_t)a + (uint64_t)b);                                          \
            shmem_##NAME##_atomic_set(&at[1], a, next);                                            \
            shmem_quiet();                                                                         \
            CHECK(shmem_##NAME##_atomic_fetch(&at[1], next) == a);                                 \
            CHECK(shmem_##NAME##_atomic_compare_swap(&at[1], near, b, next) == a);                 \
            CHECK(shmem_##NAME##_atomic_compare_swap(&at[1], a, b, next) == a);                    \
            CHECK(shmem_##NAME##_atomic_swap(&at[1], a, next) == b);                               \
            CHECK(shmem_##NAME##_atomic_fetch_add(&at[1], b, next) == a);                          \
            CHECK(shmem_##NAME##_atomic_fetch_inc(&at[1], next) == sum);                           \
            shmem_##NAME##_atomic_inc(&at[1], next);                                               \
            shmem_##NAME##_atomic_add(&at[1], b, next);                                            \
            shmem_quiet();                                                                         \
            sum = (TYPE)((uint64_t)sum + 2 + (uint64_t)b);                                         \
            shmem_##NAME##_atomic_fetch_add_nbi(&fetched, &at[1], a, next);                        \
            shmem_quiet();                                                                         \
            CHECK(fetched == sum);                                                                 \
            sum = (TYPE)((uint64_t)sum + (uint64_t)a);                                             \
            shmem_##NAME##_atomic_compare_swap_nbi(&fetched, &at[1], sum, b, next);                \
            shmem_quiet();                                                                         \
            CHECK(fetched == sum && shmem_##NAME##_atomic_fetch(&at[1], next) == b);               \
        }                                                                                          \
        QUIET;                                                                                     \
        CHECK(at[0] == (TYPE)UINT64_C(0xa5a5a5a5a5a5a5a5) && at[2] == at[0]);                      \
        QUIET;                                                                                     \
        shmem_free(at);                                                                            \
    }
WEFT_SHMEM_AMO_TYPES(AMO, )

#define BITWISE(arg, NAME, TYPE, bits)                                                             \
    static void bits_##NAME(void)                                                                  \
    {                                                                                              \
        TYPE *at = symmetric(3 * sizeof *at), got;                                                 \
        at[0] = at[2] = (TYPE)UINT64_C(0xa5a5a5a5a5a5a5a5);                                        \
        QUIET;                                                                                     \
        for (int i = 0; i < EXTREMES * EXTREMES; i++) {                                            \
            TYPE a = EXTREME(TYPE, i), b = EXTREME(TYPE, i / EXTREMES);                            \
            shmem_##NAME##_atomic_set(&at[1], a, next);                                            \
            shmem_quiet();                                                                         \
            CHECK(shmem_##NAME##_atomic_fetch_xor(&at[1], b, next) == a);                          \
            CHECK(shmem_##NAME##_atomic_fetch_and(&at[1], b, next) == (TYPE)(a ^ b));              \
            CHECK(shmem_##NAME##_atomic_fetch_or(&at[1], a, next) == (TYPE)((a ^ b) & b));         \
            TYPE now = (TYPE)(((a ^ b) & b) | a);                                                  \
            shmem_##NAME##_atomic_xor(&at[1], b, next);                                            \
            shmem_quiet();                                                                         \
            shmem_##NAME##_atomic_or(&at[1], (TYPE)1, next);                                       \
            shmem_quiet();                                                                         \
            shmem_##NAME##_atomic_and(&at[1], a, next);                                            \
            shmem_quiet();                                                                         \
            now = (TYPE)(((now ^ b) | 1) & a);                                                     \
            shmem_##NAME##_atomic_fetch_xor_nbi(&got, &at[1], a, next);                            \
            shmem_quiet();                                                                         \
            CHECK(got == now);                                                                     \
            CHECK(shmem_##NAME##_atomic_fetch(&at[1], next) == (TYPE)(now ^ a));                   \
        }                                                                                          \
        QUIET;                                                                                     \
        CHECK(at[0] == (TYPE)UINT64_C(0xa5a5a5a5a5a5a5a5) && at[2] == at[0]);                      \
        QUIET;                                                                                     \
        shmem_free(at);                                                                            \
    }
WEFT_SHMEM_AMO_BITWISE_TYPES(BITWISE, )

/* Real numbers are swapped without conversion: no value changes when it is moved as bits. */
#define REAL_AMO(arg, NAME, TYPE, bits)                                                            \
    static void real_amo_##NAME(void)                                                              \
    {                                                                                              \
        TYPE *at = symmetric(sizeof *at), fetched;                                                 \
        for (int i = 0; i < EXTREMES; i++) {                                                       \
            TYPE a = (TYPE)real_extremes[i], b = i % 2 ? (TYPE)-0.0 : (TYPE)__builtin_nan("0x77"); \
            shmem_##NAME##_atomic_set(at, a, next);                                                \
            shmem_quiet();                                                                         \
            fetched = shmem_##NAME##_atomic_fetch(at, next);                                       \
            CHECK(memcmp(&fetched, &a, sizeof a) == 0);                                            \
            fetched = shmem_##NAME##_atomic_swap(at, b, next);                                     \
            CHECK(memcmp(&fetched, &a, sizeof a) == 0);                                            \
            shmem_##NAME##_atomic_swap_nbi(&fetched, at, a, next);                                 \
            shmem_quiet();                                                                         \
            CHECK(memcmp(&fetched, &b, sizeof b) == 0);                                            \
        }                                                                                          \
        QUIET;                                                                                     \
        shmem_free(at);                                                                            \
    }
WEFT_SHMEM_AMO_REAL(REAL_AMO, )

int main(void)
{
    shmem_init();
    me = shmem_my_pe();
    n = shmem_n_pes();
    next = (me + 1) % n;
    before = (me + n - 1) % n;
    VALUES_OF_REAL(float, float)
    VALUES_OF_REAL(double, double)
    VALUES_OF_REAL(longdouble, long double)
    VALUES_OF_INTEGER(char, char)
    VALUES_OF_INTEGER(schar, signed char)
    VALUES_OF_INTEGER(short, short)
    VALUES_OF_INTEGER(int, int)
    VALUES_OF_INTEGER(long, long)
    VALUES_OF_INTEGER(longlong, long long)
    VALUES_OF_INTEGER(uchar, unsigned char)
    VALUES_OF_INTEGER(ushort, unsigned short)
    VALUES_OF_INTEGER(uint, unsigned int)
    VALUES_OF_INTEGER(ulong, unsigned long)
    VALUES_OF_INTEGER(ulonglong, unsigned long long)
    VALUES_OF_INTEGER(int8, int8_t)
    VALUES_OF_INTEGER(int16, int16_t)
    VALUES_OF_INTEGER(int32, int32_t)
    VALUES_OF_INTEGER(int64, int64_t)
    VALUES_OF_INTEGER(uint8, uint8_t)
    VALUES_OF_INTEGER(uint16, uint16_t)
    VALUES_OF_INTEGER(uint32, uint32_t)
    VALUES_OF_INTEGER(uint64, uint64_t)
    VALUES_OF_INTEGER(size, size_t)
    VALUES_OF_INTEGER(ptrdiff, ptrdiff_t)
#define RUN_AMO(arg, NAME, TYPE, bits)  amo_##NAME();
#define RUN_BITS(arg, NAME, TYPE, bits) bits_##NAME();
#define RUN_REAL(arg, NAME, TYPE, bits) real_amo_##NAME();
    WEFT_SHMEM_AMO_TYPES(RUN_AMO, )
    WEFT_SHMEM_AMO_BITWISE_TYPES(RUN_BITS, )
    WEFT_SHMEM_AMO_REAL(RUN_REAL, )
    shmem_finalize();
    return 0;
}
