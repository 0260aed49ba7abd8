/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSHMEM: constants, handles and the type lists. Each list is defined only here; the routines,
 * the C11 selections, the symbols of the library, the tests and the reference page are all made
 * from it. Knows nothing of any routine. */
#ifndef WEFT_SHMEM_TYPES_H
#define WEFT_SHMEM_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include <weft.h>

#define SHMEM_MAJOR_VERSION 1
#define SHMEM_MINOR_VERSION 5
#define SHMEM_MAX_NAME_LEN  64
#define SHMEM_VENDOR_STRING "Weft 0.1"

/* Handles are opaque and compare with ==. The library resolves the small numbers, so that static
 * variables can be initialised with the constants. */
typedef struct weft_ctx *shmem_ctx_t;
typedef struct weft_shmem_team *shmem_team_t;

#define SHMEM_CTX_INVALID  ((shmem_ctx_t)0)
#define SHMEM_CTX_DEFAULT  ((shmem_ctx_t)1)
#define SHMEM_TEAM_INVALID ((shmem_team_t)0)
#define SHMEM_TEAM_WORLD   ((shmem_team_t)1)
#define SHMEM_TEAM_SHARED  ((shmem_team_t)2)

typedef struct shmem_team_config {
    int num_contexts; /* number of contexts that the program wants to make on the team */
} shmem_team_config_t;

#define SHMEM_TEAM_NUM_CONTEXTS     1L

#define SHMEM_THREAD_SINGLE         0
#define SHMEM_THREAD_FUNNELED       1
#define SHMEM_THREAD_SERIALIZED     2
#define SHMEM_THREAD_MULTIPLE       3

#define SHMEM_CTX_SERIALIZED        1L
#define SHMEM_CTX_PRIVATE           2L
#define SHMEM_CTX_NOSTORE           4L

#define SHMEM_MALLOC_ATOMICS_REMOTE 1L
#define SHMEM_MALLOC_SIGNAL_REMOTE  2L

#define SHMEM_SIGNAL_SET            0
#define SHMEM_SIGNAL_ADD            1

enum shmem_cmp {
    SHMEM_CMP_EQ,
    SHMEM_CMP_NE,
    SHMEM_CMP_GT,
    SHMEM_CMP_LE,
    SHMEM_CMP_LT,
    SHMEM_CMP_GE
};

/* pSync arrays of the active-set collectives, in elements of type long. The words are semaphores
 * that are zero between calls; src/shmem/active_set.c says what each is used for. */
#define SHMEM_SYNC_VALUE              0L
#define SHMEM_SYNC_SIZE               72
#define SHMEM_BARRIER_SYNC_SIZE       SHMEM_SYNC_SIZE
#define SHMEM_BCAST_SYNC_SIZE         SHMEM_SYNC_SIZE
#define SHMEM_REDUCE_SYNC_SIZE        SHMEM_SYNC_SIZE
#define SHMEM_COLLECT_SYNC_SIZE       SHMEM_SYNC_SIZE
#define SHMEM_ALLTOALL_SYNC_SIZE      SHMEM_SYNC_SIZE
#define SHMEM_ALLTOALLS_SYNC_SIZE     SHMEM_SYNC_SIZE
#define SHMEM_REDUCE_MIN_WRKDATA_SIZE 1

/* Type lists. X(arg, name, C type, bits): `arg` is passed on from the user of the list. The _BASE
 * lists have each C type once, as a _Generic selection needs it; the types in the second half of a
 * list are other names of the same types. */

/* Standard RMA types: 9.6. */
#define WEFT_SHMEM_RMA_BASE(X, arg)                                                                \
    X(arg, float, float, 32)                                                                       \
    X(arg, double, double, 64)                                                                     \
    X(arg, longdouble, long double, 128)                                                           \
    X(arg, char, char, 8)                                                                          \
    X(arg, schar, signed char, 8)                                                                  \
    X(arg, short, short, 16)                                                                       \
    X(arg, int, int, 32)                                                                           \
    X(arg, long, long, 64)                                                                         \
    X(arg, longlong, long long, 64)                                                                \
    X(arg, uchar, unsigned char, 8)                                                                \
    X(arg, ushort, unsigned short, 16)                                                             \
    X(arg, uint, unsigned int, 32)                                                                 \
    X(arg, ulong, unsigned long, 64)                                                               \
    X(arg, ulonglong, unsigned long long, 64)
#define WEFT_SHMEM_RMA_TYPES(X, arg)                                                               \
    WEFT_SHMEM_RMA_BASE(X, arg)                                                                    \
    X(arg, int8, int8_t, 8)                                                                        \
    X(arg, int16, int16_t, 16)                                                                     \
    X(arg, int32, int32_t, 32)                                                                     \
    X(arg, int64, int64_t, 64)                                                                     \
    X(arg, uint8, uint8_t, 8)                                                                      \
    X(arg, uint16, uint16_t, 16)                                                                   \
    X(arg, uint32, uint32_t, 32)                                                                   \
    X(arg, uint64, uint64_t, 64)                                                                   \
    X(arg, size, size_t, 64)                                                                       \
    X(arg, ptrdiff, ptrdiff_t, 64)

/* Sized forms: elements of this many bits. X(arg, bits). */
#define WEFT_SHMEM_SIZES(X, arg) X(arg, 8) X(arg, 16) X(arg, 32) X(arg, 64) X(arg, 128)

/* Standard AMO types: 9.7. */
#define WEFT_SHMEM_AMO_BASE(X, arg)                                                                \
    X(arg, int, int, 32)                                                                           \
    X(arg, long, long, 64)                                                                         \
    X(arg, longlong, long long, 64)                                                                \
    X(arg, uint, unsigned int, 32)                                                                 \
    X(arg, ulong, unsigned long, 64)                                                               \
    X(arg, ulonglong, unsigned long long, 64)
#define WEFT_SHMEM_AMO_TYPES(X, arg)                                                               \
    WEFT_SHMEM_AMO_BASE(X, arg)                                                                    \
    X(arg, int32, int32_t, 32)                                                                     \
    X(arg, int64, int64_t, 64)                                                                     \
    X(arg, uint32, uint32_t, 32)                                                                   \
    X(arg, uint64, uint64_t, 64)                                                                   \
    X(arg, size, size_t, 64)                                                                       \
    X(arg, ptrdiff, ptrdiff_t, 64)

/* Extended AMO types: 9.7. */
#define WEFT_SHMEM_AMO_REAL(X, arg) X(arg, float, float, 32) X(arg, double, double, 64)
#define WEFT_SHMEM_AMO_EXTENDED_BASE(X, arg)                                                       \
    WEFT_SHMEM_AMO_REAL(X, arg)                                                                    \
    WEFT_SHMEM_AMO_BASE(X, arg)
#define WEFT_SHMEM_AMO_EXTENDED_TYPES(X, arg)                                                      \
    WEFT_SHMEM_AMO_REAL(X, arg)                                                                    \
    WEFT_SHMEM_AMO_TYPES(X, arg)

/* Bitwise AMO types: 9.7. A selection uses int and long for int32_t and int64_t. */
#define WEFT_SHMEM_AMO_BITWISE_BASE(X, arg)                                                        \
    X(arg, uint, unsigned int, 32)                                                                 \
    X(arg, ulong, unsigned long, 64)                                                               \
    X(arg, ulonglong, unsigned long long, 64)                                                      \
    X(arg, int32, int32_t, 32)                                                                     \
    X(arg, int64, int64_t, 64)
#define WEFT_SHMEM_AMO_BITWISE_TYPES(X, arg)                                                       \
    WEFT_SHMEM_AMO_BITWISE_BASE(X, arg)                                                            \
    X(arg, uint32, uint32_t, 32)                                                                   \
    X(arg, uint64, uint64_t, 64)

/* Point-to-point synchronisation types: 9.10. X(arg, name, C type, weft_type). */
#define WEFT_SHMEM_WAIT_BASE(X, arg)                                                               \
    X(arg, short, short, WEFT_INT16)                                                               \
    X(arg, int, int, WEFT_INT32)                                                                   \
    X(arg, long, long, WEFT_INT64)                                                                 \
    X(arg, longlong, long long, WEFT_INT64)                                                        \
    X(arg, ushort, unsigned short, WEFT_UINT16)                                                    \
    X(arg, uint, unsigned int, WEFT_UINT32)                                                        \
    X(arg, ulong, unsigned long, WEFT_UINT64)                                                      \
    X(arg, ulonglong, unsigned long long, WEFT_UINT64)
#define WEFT_SHMEM_WAIT_TYPES(X, arg)                                                              \
    WEFT_SHMEM_WAIT_BASE(X, arg)                                                                   \
    X(arg, int32, int32_t, WEFT_INT32)                                                             \
    X(arg, int64, int64_t, WEFT_INT64)                                                             \
    X(arg, uint32, uint32_t, WEFT_UINT32)                                                          \
    X(arg, uint64, uint64_t, WEFT_UINT64)                                                          \
    X(arg, size, size_t, WEFT_UINT64)                                                              \
    X(arg, ptrdiff, ptrdiff_t, WEFT_INT64)

/* Team reductions: 9.9.9. X(arg, name, C type, weft_type). The bitwise operations take the unsigned
 * and the exact-width types; min and max also the signed and the real types; sum and prod also the
 * complex types. */
#define WEFT_SHMEM_REDUCE_UNSIGNED(X, arg)                                                         \
    X(arg, uchar, unsigned char, WEFT_UINT8)                                                       \
    X(arg, ushort, unsigned short, WEFT_UINT16)                                                    \
    X(arg, uint, unsigned int, WEFT_UINT32)                                                        \
    X(arg, ulong, unsigned long, WEFT_UINT64)                                                      \
    X(arg, ulonglong, unsigned long long, WEFT_UINT64)
#define WEFT_SHMEM_REDUCE_EXACT_SIGNED(X, arg)                                                     \
    X(arg, int8, int8_t, WEFT_INT8)                                                                \
    X(arg, int16, int16_t, WEFT_INT16)                                                             \
    X(arg, int32, int32_t, WEFT_INT32)                                                             \
    X(arg, int64, int64_t, WEFT_INT64)
#define WEFT_SHMEM_REDUCE_SIGNED(X, arg)                                                           \
    X(arg, char, char, WEFT_SHMEM_CHAR)                                                            \
    X(arg, schar, signed char, WEFT_INT8)                                                          \
    X(arg, short, short, WEFT_INT16)                                                               \
    X(arg, int, int, WEFT_INT32)                                                                   \
    X(arg, long, long, WEFT_INT64)                                                                 \
    X(arg, longlong, long long, WEFT_INT64)
#define WEFT_SHMEM_REDUCE_REAL(X, arg)                                                             \
    X(arg, float, float, WEFT_FLOAT)                                                               \
    X(arg, double, double, WEFT_DOUBLE)                                                            \
    X(arg, longdouble, long double, WEFT_LONG_DOUBLE)
#define WEFT_SHMEM_REDUCE_COMPLEX(X, arg)                                                          \
    X(arg, complexf, float _Complex, WEFT_COMPLEX_FLOAT)                                           \
    X(arg, complexd, double _Complex, WEFT_COMPLEX_DOUBLE)

#define WEFT_SHMEM_REDUCE_BITWISE_BASE(X, arg)                                                     \
    WEFT_SHMEM_REDUCE_UNSIGNED(X, arg)                                                             \
    WEFT_SHMEM_REDUCE_EXACT_SIGNED(X, arg)
#define WEFT_SHMEM_REDUCE_BITWISE_TYPES(X, arg)                                                    \
    WEFT_SHMEM_REDUCE_BITWISE_BASE(X, arg)                                                         \
    X(arg, uint8, uint8_t, WEFT_UINT8)                                                             \
    X(arg, uint16, uint16_t, WEFT_UINT16)                                                          \
    X(arg, uint32, uint32_t, WEFT_UINT32)                                                          \
    X(arg, uint64, uint64_t, WEFT_UINT64)                                                          \
    X(arg, size, size_t, WEFT_UINT64)
#define WEFT_SHMEM_REDUCE_ORDERED_BASE(X, arg)                                                     \
    WEFT_SHMEM_REDUCE_UNSIGNED(X, arg)                                                             \
    WEFT_SHMEM_REDUCE_SIGNED(X, arg)                                                               \
    WEFT_SHMEM_REDUCE_REAL(X, arg)
#define WEFT_SHMEM_REDUCE_ORDERED_TYPES(X, arg)                                                    \
    WEFT_SHMEM_REDUCE_BITWISE_TYPES(X, arg)                                                        \
    WEFT_SHMEM_REDUCE_SIGNED(X, arg)                                                               \
    X(arg, ptrdiff, ptrdiff_t, WEFT_INT64)                                                         \
    WEFT_SHMEM_REDUCE_REAL(X, arg)
#define WEFT_SHMEM_REDUCE_ARITHMETIC_BASE(X, arg)                                                  \
    WEFT_SHMEM_REDUCE_ORDERED_BASE(X, arg)                                                         \
    WEFT_SHMEM_REDUCE_COMPLEX(X, arg)
#define WEFT_SHMEM_REDUCE_ARITHMETIC_TYPES(X, arg)                                                 \
    WEFT_SHMEM_REDUCE_ORDERED_TYPES(X, arg)                                                        \
    WEFT_SHMEM_REDUCE_COMPLEX(X, arg)

/* Active-set reductions: 9.9.9. */
#define WEFT_SHMEM_TO_ALL_BITWISE_TYPES(X, arg)                                                    \
    X(arg, short, short, WEFT_INT16)                                                               \
    X(arg, int, int, WEFT_INT32)                                                                   \
    X(arg, long, long, WEFT_INT64)                                                                 \
    X(arg, longlong, long long, WEFT_INT64)
#define WEFT_SHMEM_TO_ALL_ORDERED_TYPES(X, arg)                                                    \
    WEFT_SHMEM_TO_ALL_BITWISE_TYPES(X, arg)                                                        \
    WEFT_SHMEM_REDUCE_REAL(X, arg)
#define WEFT_SHMEM_TO_ALL_ARITHMETIC_TYPES(X, arg)                                                 \
    WEFT_SHMEM_TO_ALL_ORDERED_TYPES(X, arg)                                                        \
    WEFT_SHMEM_REDUCE_COMPLEX(X, arg)

/* Reductions: X(list of types, op, weft_op). */
#define WEFT_SHMEM_REDUCTIONS(X)                                                                   \
    X(BITWISE, and, WEFT_AND)                                                                      \
    X(BITWISE, or, WEFT_OR)                                                                        \
    X(BITWISE, xor, WEFT_XOR)                                                                      \
    X(ORDERED, max, WEFT_MAX)                                                                      \
    X(ORDERED, min, WEFT_MIN)                                                                      \
    X(ARITHMETIC, sum, WEFT_SUM)                                                                   \
    X(ARITHMETIC, prod, WEFT_PROD)

/* Deprecated atomics (shmem_int_finc ...). X(arg, name, C type, bits). */
#define WEFT_SHMEM_OLD_AMO_TYPES(X, arg)                                                           \
    X(arg, int, int, 32)                                                                           \
    X(arg, long, long, 64)                                                                         \
    X(arg, longlong, long long, 64)
#define WEFT_SHMEM_OLD_AMO_EXTENDED_TYPES(X, arg)                                                  \
    WEFT_SHMEM_AMO_REAL(X, arg)                                                                    \
    WEFT_SHMEM_OLD_AMO_TYPES(X, arg)

/* Deprecated waits (shmem_short_wait ...). X(arg, name, C type, weft_type). */
#define WEFT_SHMEM_OLD_WAIT_TYPES(X, arg)                                                          \
    X(arg, short, short, WEFT_INT16)                                                               \
    X(arg, int, int, WEFT_INT32)                                                                   \
    X(arg, long, long, WEFT_INT64)                                                                 \
    X(arg, longlong, long long, WEFT_INT64)

#ifdef __CHAR_UNSIGNED__
#define WEFT_SHMEM_CHAR WEFT_UINT8
#else
#define WEFT_SHMEM_CHAR WEFT_INT8
#endif

#endif
