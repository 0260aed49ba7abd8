/* SPDX-License-Identifier: Apache-2.0 */
/* The types of <weft.h> that device code uses too, and the types of C. <weft.h> and
 * <weft_device.h> include it. Under NVRTC, which compiles with no header of the system, it defines
 * the types of C itself. */
#ifndef WEFT_TYPES_H
#define WEFT_TYPES_H

#ifdef __CUDACC_RTC__
/* The same types as libcu++ has under NVRTC, so that a program may include both. NVRTC knows
 * size_t and ptrdiff_t. */
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned uint32_t;
typedef unsigned long long uint64_t;
typedef int64_t intptr_t;
typedef uint64_t uintptr_t;
#ifndef NULL
#define NULL 0
#endif
#else
#include <stddef.h>
#include <stdint.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------- types of host and device code */

/* X(name, value, meaning). The value says what the fault ends: the call (-1 ... -99), the
 * connection to a PE (-100 ... -199), or the job (-200 ...). */
#define WEFT_STATUS_LIST(X)                                                                        \
    X(WEFT_OK, 0, "success")                                                                       \
    X(WEFT_ERR_ARGUMENT, -1, "an argument is null or out of its range")                            \
    X(WEFT_ERR_PE, -2, "no such PE in this job, team or context")                                  \
    X(WEFT_ERR_ADDRESS, -3, "the address is not in a symmetric segment")                           \
    X(WEFT_ERR_RANGE, -4, "the transfer runs past the end of its segment")                         \
    X(WEFT_ERR_TYPE, -5, "the type is unknown or not valid for this operation")                    \
    X(WEFT_ERR_OP, -6, "the operation or comparison is unknown")                                   \
    X(WEFT_ERR_CONFIG, -7, "a configuration variable is unknown or has a bad value")               \
    X(WEFT_ERR_NO_MEMORY, -8, "the symmetric heap or the system has no memory of that size left")  \
    X(WEFT_ERR_SYSTEM, -9, "the operating system refused a call")                                  \
    X(WEFT_ERR_MISMATCH, -10, "the PEs called a collective function with different arguments")     \
    X(WEFT_ERR_UNSUPPORTED, -11, "not supported here")                                             \
    X(WEFT_ERR_FREE, -12, "not the start of an allocated block")                                   \
    X(WEFT_ERR_NOT_MEMBER, -13, "this PE is not a member of the team")                             \
    X(WEFT_ERR_ALIGNMENT, -14, "the address is not aligned for its type")                          \
    X(WEFT_ERR_KERNEL, -15, "a kernel could not be started, or was ended for a fault in it")       \
    X(WEFT_ERR_INTERRUPTED, -16, "the program's check ended the wait")                             \
    X(WEFT_ERR_PEER_DEAD, -100, "a PE of the job has ended")                                       \
    X(WEFT_ERR_TIMEOUT, -101, "the wait limit passed without progress")                            \
    X(WEFT_ERR_NO_PATH, -102, "there is no usable path to that PE")                                \
    X(WEFT_ERR_PATH, -103, "the path to that PE failed")                                           \
    X(WEFT_ERR_FINALIZED, -200, "the job has been finalized")                                      \
    X(WEFT_ERR_BOOT, -201, "the PEs of the job could not find each other")                         \
    X(WEFT_ERR_JOB, -202, "the job has failed")                                                    \
    X(WEFT_ERR_VERSION, -203, "the PEs run different versions of Weft")

typedef enum weft_status {
#define WEFT_STATUS_ENUM(name, value, text) name = value,
    WEFT_STATUS_LIST(WEFT_STATUS_ENUM)
#undef WEFT_STATUS_ENUM
} weft_status;

/* X(name, size in bytes, C type): element types for arithmetic and comparison. */
#define WEFT_TYPE_LIST(X)                                                                          \
    X(WEFT_INT8, 1, int8_t)                                                                        \
    X(WEFT_INT16, 2, int16_t)                                                                      \
    X(WEFT_INT32, 4, int32_t)                                                                      \
    X(WEFT_INT64, 8, int64_t)                                                                      \
    X(WEFT_UINT8, 1, uint8_t)                                                                      \
    X(WEFT_UINT16, 2, uint16_t)                                                                    \
    X(WEFT_UINT32, 4, uint32_t)                                                                    \
    X(WEFT_UINT64, 8, uint64_t)                                                                    \
    X(WEFT_FLOAT, 4, float)                                                                        \
    X(WEFT_DOUBLE, 8, double)                                                                      \
    X(WEFT_LONG_DOUBLE, 16, long double)                                                           \
    X(WEFT_COMPLEX_FLOAT, 8, float _Complex)                                                       \
    X(WEFT_COMPLEX_DOUBLE, 16, double _Complex)

typedef enum weft_type {
#define WEFT_TYPE_ENUM(name, size, ctype) name,
    WEFT_TYPE_LIST(WEFT_TYPE_ENUM)
#undef WEFT_TYPE_ENUM
        WEFT_TYPE_COUNT,
    /* Element types of reductions, of 16 and 8 bits, that C has no name for: IEEE binary16;
     * bfloat16 (the upper half of a binary32); the two FP8 types of OCP (E4M3 has no infinity).
     * Weft combines them in binary32 and rounds once, to nearest even. In FP8, too large a result
     * and infinity become the largest finite number (448, 57344), and NaN becomes 0x7f. */
    WEFT_HALF = 100,
    WEFT_BFLOAT16 = 101,
    WEFT_FP8_E4M3 = 102,
    WEFT_FP8_E5M2 = 103,
    /* Flag of scaled and weighted sums, added to a type of 16 or 8 bits: the factor has this type;
     * without the flag it is a float. */
    WEFT_NARROW_FACTOR = 256
} weft_type;

typedef enum weft_op {
    WEFT_AND, /* AND, OR, XOR: integer types */
    WEFT_OR,
    WEFT_XOR,
    WEFT_MIN, /* MIN, MAX: integer and real types */
    WEFT_MAX,
    WEFT_SUM, /* SUM, PROD: every type; integers wrap */
    WEFT_PROD,
    WEFT_AVG, /* every type: the sum, divided once by the number of members; of integers the sum
                 that has wrapped, divided towards zero */
    WEFT_OP_COUNT
} weft_op;

/* Comparison of a wait or test; the values follow the order of OpenSHMEM's SHMEM_CMP_*. */
typedef enum weft_cmp {
    WEFT_EQ,
    WEFT_NE,
    WEFT_GT,
    WEFT_LE,
    WEFT_LT,
    WEFT_GE,
    WEFT_CMP_COUNT
} weft_cmp;

typedef enum weft_signal_op { WEFT_SIGNAL_SET, WEFT_SIGNAL_ADD } weft_signal_op;

typedef enum weft_kind {
    WEFT_HOST, /* memory of the host */
    WEFT_GPU,  /* memory of this PE's GPU */
} weft_kind;

/* The largest size_t: waits and tests over several variables return it for "no such element". */
#define WEFT_NONE ((size_t)-1)

#ifdef __cplusplus
}
#endif

#endif
