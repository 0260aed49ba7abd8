/* SPDX-License-Identifier: Apache-2.0 */
/* <nvshmem.h>: versions and enumerations. The values are those of NVSHMEM's interface, so that
 * numbers that a program stores, prints or passes between languages keep their meaning. */
#ifndef WEFT_NVSHMEM_CONSTANTS_H
#define WEFT_NVSHMEM_CONSTANTS_H

#include <stdint.h>

#include <weft.h>

/* Version of the OpenSHMEM standard that the names follow. */
#define NVSHMEM_MAJOR_VERSION 1
#define NVSHMEM_MINOR_VERSION 3

/* Version of the interface that this header offers; programs test it for features. The string
 * begins as NVSHMEM's does, so that programs that parse three numbers from it find them. */
#define NVSHMEM_VENDOR_MAJOR_VERSION   3
#define NVSHMEM_VENDOR_MINOR_VERSION   5
#define NVSHMEM_VENDOR_PATCH_VERSION   0
#define NVSHMEM_VENDOR_PACKAGE_VERSION 0
#define NVSHMEM_VENDOR_VERSION                                                                     \
    (NVSHMEM_VENDOR_MAJOR_VERSION * 10000 + NVSHMEM_VENDOR_MINOR_VERSION * 100 +                   \
     NVSHMEM_VENDOR_PATCH_VERSION)
#define NVSHMEM_VENDOR_STRING "NVSHMEM v3.5.0 (Weft)"
#define NVSHMEM_MAX_NAME_LEN  256

/* Last value of enumerations whose range is part of the interface. */
#define WEFT_NV_SENTINEL 32767

typedef enum nvshmemx_status {
    NVSHMEMX_SUCCESS = 0,
    NVSHMEMX_ERROR_INVALID_VALUE,
    NVSHMEMX_ERROR_OUT_OF_MEMORY,
    NVSHMEMX_ERROR_NOT_SUPPORTED,
    NVSHMEMX_ERROR_SYMMETRY,
    NVSHMEMX_ERROR_GPU_NOT_SELECTED,
    NVSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED,
    NVSHMEMX_ERROR_INTERNAL,
    NVSHMEMX_ERROR_SENTINEL = WEFT_NV_SENTINEL
} nvshmemx_status;

typedef enum nvshmemx_thread_support {
    NVSHMEM_THREAD_SINGLE = 0,
    NVSHMEM_THREAD_FUNNELED,
    NVSHMEM_THREAD_SERIALIZED,
    NVSHMEM_THREAD_MULTIPLE,
    NVSHMEM_THREAD_TYPE_SENTINEL = WEFT_NV_SENTINEL
} nvshmemx_thread_support_t;

typedef enum nvshmemx_init_status {
    NVSHMEM_STATUS_NOT_INITIALIZED = 0,
    NVSHMEM_STATUS_IS_BOOTSTRAPPED,
    NVSHMEM_STATUS_IS_INITIALIZED,
    NVSHMEM_STATUS_LIMITED_MPG,
    NVSHMEM_STATUS_FULL_MPG,
    NVSHMEM_STATUS_INVALID = WEFT_NV_SENTINEL
} nvshmemx_init_status_t;

/* Flags of nvshmemx_init_attr(). */
enum nvshmemx_init_flags {
    NVSHMEMX_INIT_THREAD_PES = 1,
    NVSHMEMX_INIT_WITH_MPI_COMM = 1 << 1,
    NVSHMEMX_INIT_WITH_SHMEM = 1 << 2,
    NVSHMEMX_INIT_WITH_UNIQUEID = 1 << 3,
    NVSHMEMX_INIT_MAX = -2147483647 - 1
};

typedef enum nvshmemx_cmp_type {
    NVSHMEM_CMP_EQ = WEFT_EQ,
    NVSHMEM_CMP_NE = WEFT_NE,
    NVSHMEM_CMP_GT = WEFT_GT,
    NVSHMEM_CMP_LE = WEFT_LE,
    NVSHMEM_CMP_LT = WEFT_LT,
    NVSHMEM_CMP_GE = WEFT_GE,
    NVSHMEM_CMP_SENTINEL = WEFT_NV_SENTINEL
} nvshmemx_cmp_type_t;

typedef enum nvshmemx_signal_op {
    NVSHMEM_SIGNAL_SET = 9,
    NVSHMEM_SIGNAL_ADD = 10
} nvshmemx_signal_op_t;

/* Teams by number: the predefined teams come first, those of the program after them. Weft has no
 * teams for the indices from SAME_GPU on; the names exist for programs that mention them. */
typedef int32_t nvshmem_team_t;
typedef nvshmem_team_t nvshmemx_team_t;
typedef enum nvshmem_team_id {
    NVSHMEM_TEAM_INVALID = -1,
    NVSHMEM_TEAM_WORLD = 0,
    NVSHMEM_TEAM_WORLD_INDEX = 0,
    NVSHMEM_TEAM_SHARED = 1,
    NVSHMEM_TEAM_SHARED_INDEX = 1,
    NVSHMEMX_TEAM_NODE = 2,
    NVSHMEM_TEAM_NODE_INDEX = 2,
    NVSHMEMX_TEAM_SAME_MYPE_NODE = 3,
    NVSHMEM_TEAM_SAME_MYPE_NODE_INDEX = 3,
    NVSHMEM_TEAM_SAME_GPU_INDEX = 4,
    NVSHMEM_TEAM_GPU_LEADERS_INDEX = 5,
    NVSHMEM_TEAMS_MIN = 6,
    NVSHMEM_TEAM_INDEX_MAX = WEFT_NV_SENTINEL
} nvshmem_team_id_t;

typedef enum nvshmem_pe_index {
    NVSHMEM_PE_INVALID = -1,
    NVSHMEMX_PE_ANY = 1 << 15,
    NVSHMEMX_PE_ALL = 1 << 15
} nvshmem_pe_index_t;

/* Queue pairs: handles are numbers, and Weft selects queues itself (qp.h). */
typedef int nvshmemx_qp_handle_t;
typedef enum nvshmemx_qp_handle_index {
    NVSHMEMX_QP_HOST = 0,
    NVSHMEMX_QP_DEFAULT = 1,
    NVSHMEMX_QP_ANY = WEFT_NV_SENTINEL,
    NVSHMEMX_QP_ALL = WEFT_NV_SENTINEL
} nvshmemx_qp_handle_index_t;

/* For benchmark programs: prints a line on stderr. */
#define NVSHMEMI_ERROR_PRINT(...)                                                                  \
    do {                                                                                           \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                            \
        fprintf(stderr, __VA_ARGS__);                                                              \
        fputc('\n', stderr);                                                                       \
    } while (0)
#define NVSHMEMI_ERROR_EXIT(...)                                                                   \
    do {                                                                                           \
        NVSHMEMI_ERROR_PRINT(__VA_ARGS__);                                                         \
        exit(-1);                                                                                  \
    } while (0)

#endif
