/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's functions, as libweft-nccl has them: names, types and values are those of NCCL 2.32, so a
 * program compiled with either header runs with either library. A program compiled with this one
 * needs no CUDA header.
 *
 * What differs from NCCL: several ranks may share a GPU, sums have the same bits at every rank and
 * for every algorithm, a wait ends when a rank dies or after WEFT_WAIT_LIMIT, and
 * ncclGetLastError() says what was wrong. docs/nccl.md has what is not supported. */
#ifndef NCCL_H_
#define NCCL_H_

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#define NCCL_MAJOR               2
#define NCCL_MINOR               32
#define NCCL_PATCH               3
#define NCCL_SUFFIX              ""
#define NCCL_VERSION(X, Y, Z)    ((X)*10000 + (Y)*100 + (Z))
#define NCCL_VERSION_CODE        NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH)
#define NCCL_UNIQUE_ID_BYTES     128
#define NCCL_COMM_NULL           NULL
#define NCCL_CONFIG_UNDEF_INT    INT_MIN
#define NCCL_CONFIG_UNDEF_PTR    NULL
#define NCCL_UNDEF_FLOAT         -1.0f
#define NCCL_SPLIT_NOCOLOR       -1
#define NCCL_WIN_DEFAULT         0x00
#define NCCL_WIN_COLL_SYMMETRIC  0x01
#define NCCL_WIN_STRICT_ORDERING 0x02
#define NCCL_WIN_GIN_ONLY        0x04
#define NCCL_WIN_CFT_COUNTED     0x08
#define NCCL_SHRINK_DEFAULT      0x00
#define NCCL_SHRINK_ABORT        0x01
#define NCCL_SUSPEND_MEM         0x01
#define NCCL_API_MAGIC           0xcafebeef

#ifdef __cplusplus
extern "C" {
#endif

typedef struct CUstream_st *cudaStream_t; /* as in CUDA's headers */
typedef struct CUevent_st *cudaEvent_t;
typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;

typedef struct {
    char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
    ncclSuccess,
    ncclUnhandledCudaError,
    ncclSystemError,
    ncclInternalError,
    ncclInvalidArgument,
    ncclInvalidUsage,
    ncclRemoteError,
    ncclInProgress,
    ncclTimeout,
    ncclNumResults
} ncclResult_t;

typedef enum {
    ncclInt8,
    ncclUint8,
    ncclInt32,
    ncclUint32,
    ncclInt64,
    ncclUint64,
    ncclFloat16,
    ncclFloat32,
    ncclFloat64,
    ncclBfloat16,
    ncclFloat8e4m3,
    ncclFloat8e5m2,
    ncclNumTypes,
    ncclChar = ncclInt8,
    ncclInt = ncclInt32,
    ncclHalf = ncclFloat16,
    ncclFloat = ncclFloat32,
    ncclDouble = ncclFloat64
} ncclDataType_t;

/* Values from ncclNumOps on are those of ncclRedOpCreatePreMulSum(). */
typedef enum {
    ncclSum,
    ncclProd,
    ncclMax,
    ncclMin,
    ncclAvg,
    ncclNumOps,
    ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

typedef enum { ncclScalarDevice, ncclScalarHostImmediate } ncclScalarResidence_t;

/* Older programs have shorter structures, and say so in `size`. */
typedef struct {
    size_t size;
    unsigned magic, version;
    int blocking; /* 0: calls that set up or end a communicator return before they are done */
    int cgaClusterSize, minCTAs;
    int maxCTAs; /* SMs of a collective at most */
    const char *netName;
    int splitShare, trafficClass;
    const char *commName;
    int collnetEnable, CTAPolicy, shrinkShare, nvlsCTAs, nChannelsPerNetPeer, nvlinkCentricSched;
    int graphUsageMode, numRmaCtx, maxP2pPeers, graphStreamOrdering, launchOrderImplicit;
    int numRmaSig; /* signals from each rank, 1 ... 64 */
    int rmaEagerInit, hostCftMode, nvlsHostMode;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                                    \
    {                                                                                              \
        sizeof(ncclConfig_t), 0xcafebeef, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_INT,                \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                   \
            NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                   \
            NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                   \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                   \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                   \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                   \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                   \
            NCCL_CONFIG_UNDEF_INT                                                                  \
    }

/* Of nvlsHostMode, which has no effect here. */
typedef enum {
    ncclNvlsHostModeDefault = NCCL_CONFIG_UNDEF_INT,
    ncclNvlsHostModeEnable = 0,
    ncclNvlsHostModeDisableTransport = 1,
    ncclNvlsHostModeDisableSymmetricMultimem = 2,
    ncclNvlsHostModeDisable = INT_MAX
} ncclNvlsHostMode_t;

/* Of one collective, the same at every rank. maxCTAs, CTAPolicy, userProfilerTag and
 * launchCompletionEvent have an effect. */
typedef struct {
    size_t size;
    unsigned magic, version;
    void *ext;
    int minCTAs, maxCTAs, nvlsCTAs, cgaClusterSize;
    const char *algSelection;
    int forceAlgSelection, CTAPolicy;
    uint64_t userProfilerTag;
    cudaEvent_t launchCompletionEvent; /* recorded when what the stream had before has ended */
} ncclCollConfig_t;

#define NCCL_COLLCONFIG_INITIALIZER                                                                \
    {                                                                                              \
        sizeof(ncclCollConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_PTR,        \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                   \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, 1, NCCL_CONFIG_UNDEF_INT, 0,             \
            NCCL_CONFIG_UNDEF_PTR                                                                  \
    }

/* opCnt signals from rank `peer`. */
typedef struct {
    int opCnt, peer, sigIdx, ctx;
} ncclWaitSignalDesc_t;

/* Bytes of GPU memory of a communicator. ncclStatGpuMemSuspended: 1 while it is suspended, else 0.
 */
typedef enum {
    ncclStatGpuMemSuspend,
    ncclStatGpuMemSuspended,
    ncclStatGpuMemPersist,
    ncclStatGpuMemTotal
} ncclCommMemStat_t;

/* Of the TCP connections of all communicators that are made after ncclSetEncryption(). */
typedef enum { NCCL_ENCRYPTION_MODE_NONE, NCCL_ENCRYPTION_MODE_PSK } ncclEncryptionMode_t;

typedef struct {
    size_t size;
    unsigned magic, version;
    int mode;
    const char *psk;
} ncclEncryptionConfig_t;

#define NCCL_ENCRYPTION_CONFIG_INITIALIZER                                                         \
    {                                                                                              \
        sizeof(ncclEncryptionConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE,                         \
            NCCL_ENCRYPTION_MODE_NONE, NCCL_CONFIG_UNDEF_PTR                                       \
    }

typedef struct ncclParamHandle *ncclParamHandle_t;

typedef struct {
    size_t size;
    unsigned magic, version;
    float estimatedTime; /* microseconds */
} ncclSimInfo_t;

#define NCCL_SIM_INFO_INITIALIZER                                                                  \
    {                                                                                              \
        sizeof(ncclSimInfo_t), 0x74685283, NCCL_VERSION_CODE, NCCL_UNDEF_FLOAT                     \
    }

/* X(result, name, (parameters)): every function, also as pncclNAME. */
#define WEFT_NCCL_FUNCTIONS(X)                                                                     \
    X(ncclResult_t, GetVersion, (int *version))                                                    \
    X(ncclResult_t, GetUniqueId, (ncclUniqueId * id))                                              \
    X(const char *, GetErrorString, (ncclResult_t result))                                         \
    X(const char *, GetLastError, (ncclComm_t comm))                                               \
    X(void, ResetDebugInit, (void))                                                                \
    X(ncclResult_t, CommInitRank, (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank))       \
    X(ncclResult_t, CommInitRankConfig,                                                            \
      (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config))             \
    X(ncclResult_t, CommInitRankScalable,                                                          \
      (ncclComm_t * comm, int ranks, int rank, int n_ids, ncclUniqueId *ids,                       \
       ncclConfig_t *config))                                                                      \
    X(ncclResult_t, CommInitAll, (ncclComm_t * comms, int devices, const int *device_list))        \
    X(ncclResult_t, CommFinalize, (ncclComm_t comm))                                               \
    X(ncclResult_t, CommDestroy, (ncclComm_t comm))                                                \
    X(ncclResult_t, CommAbort, (ncclComm_t comm))                                                  \
    X(ncclResult_t, CommRevoke, (ncclComm_t comm, int flags))                                      \
    X(ncclResult_t, CommSplit,                                                                     \
      (ncclComm_t comm, int color, int key, ncclComm_t *made, ncclConfig_t *config))               \
    X(ncclResult_t, CommShrink,                                                                    \
      (ncclComm_t comm, int *excluded, int n_excluded, ncclComm_t *made, ncclConfig_t *config,     \
       int flags))                                                                                 \
    X(ncclResult_t, CommGetUniqueId, (ncclComm_t comm, ncclUniqueId * id))                         \
    X(ncclResult_t, CommGrow,                                                                      \
      (ncclComm_t comm, int ranks, const ncclUniqueId *id, int rank, ncclComm_t *made,             \
       ncclConfig_t *config))                                                                      \
    X(ncclResult_t, CommSuspend, (ncclComm_t comm, int flags))                                     \
    X(ncclResult_t, CommResume, (ncclComm_t comm))                                                 \
    X(ncclResult_t, CommMemStats, (ncclComm_t comm, ncclCommMemStat_t stat, uint64_t * bytes))     \
    X(ncclResult_t, CommGetAsyncError, (ncclComm_t comm, ncclResult_t * error))                    \
    X(ncclResult_t, CommCount, (ncclComm_t comm, int *count))                                      \
    X(ncclResult_t, CommCuDevice, (ncclComm_t comm, int *device))                                  \
    X(ncclResult_t, CommUserRank, (ncclComm_t comm, int *rank))                                    \
    X(ncclResult_t, MemAlloc, (void **address, size_t bytes))                                      \
    X(ncclResult_t, MemFree, (void *address))                                                      \
    X(ncclResult_t, CommRegister, (ncclComm_t comm, void *address, size_t bytes, void **handle))   \
    X(ncclResult_t, CommDeregister, (ncclComm_t comm, void *handle))                               \
    X(ncclResult_t, CommWindowRegister,                                                            \
      (ncclComm_t comm, void *address, size_t bytes, ncclWindow_t *window, int flags))             \
    X(ncclResult_t, CommWindowDeregister, (ncclComm_t comm, ncclWindow_t window))                  \
    X(ncclResult_t, WinGetUserPtr, (ncclComm_t comm, ncclWindow_t window, void **address))         \
    X(ncclResult_t, RedOpCreatePreMulSum,                                                          \
      (ncclRedOp_t * op, void *factor, ncclDataType_t type, ncclScalarResidence_t where,           \
       ncclComm_t comm))                                                                           \
    X(ncclResult_t, RedOpDestroy, (ncclRedOp_t op, ncclComm_t comm))                               \
    X(ncclResult_t, AllReduce,                                                                     \
      (const void *src, void *dst, size_t n, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, \
       cudaStream_t stream))                                                                       \
    X(ncclResult_t, Reduce,                                                                        \
      (const void *src, void *dst, size_t n, ncclDataType_t type, ncclRedOp_t op, int root,        \
       ncclComm_t comm, cudaStream_t stream))                                                      \
    X(ncclResult_t, ReduceScatter,                                                                 \
      (const void *src, void *dst, size_t n, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, \
       cudaStream_t stream))                                                                       \
    X(ncclResult_t, Broadcast,                                                                     \
      (const void *src, void *dst, size_t n, ncclDataType_t type, int root, ncclComm_t comm,       \
       cudaStream_t stream))                                                                       \
    X(ncclResult_t, Bcast,                                                                         \
      (void *buffer, size_t n, ncclDataType_t type, int root, ncclComm_t comm,                     \
       cudaStream_t stream))                                                                       \
    X(ncclResult_t, AllGather,                                                                     \
      (const void *src, void *dst, size_t n, ncclDataType_t type, ncclComm_t comm,                 \
       cudaStream_t stream))                                                                       \
    X(ncclResult_t, AlltoAll,                                                                      \
      (const void *src, void *dst, size_t n, ncclDataType_t type, ncclComm_t comm,                 \
       cudaStream_t stream))                                                                       \
    X(ncclResult_t, Gather,                                                                        \
      (const void *src, void *dst, size_t n, ncclDataType_t type, int root, ncclComm_t comm,       \
       cudaStream_t stream))                                                                       \
    X(ncclResult_t, Scatter,                                                                       \
      (const void *src, void *dst, size_t n, ncclDataType_t type, int root, ncclComm_t comm,       \
       cudaStream_t stream))                                                                       \
    X(ncclResult_t, Send,                                                                          \
      (const void *src, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,                  \
       cudaStream_t stream))                                                                       \
    X(ncclResult_t, Recv,                                                                          \
      (void *dst, size_t n, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream))  \
    X(ncclResult_t, AllReduceConfig,                                                               \
      (const void *src, void *dst, size_t n, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, \
       cudaStream_t stream, const ncclCollConfig_t *config))                                       \
    X(ncclResult_t, ReduceConfig,                                                                  \
      (const void *src, void *dst, size_t n, ncclDataType_t type, ncclRedOp_t op, int root,        \
       ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config))                      \
    X(ncclResult_t, ReduceScatterConfig,                                                           \
      (const void *src, void *dst, size_t n, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, \
       cudaStream_t stream, const ncclCollConfig_t *config))                                       \
    X(ncclResult_t, BroadcastConfig,                                                               \
      (const void *src, void *dst, size_t n, ncclDataType_t type, int root, ncclComm_t comm,       \
       cudaStream_t stream, const ncclCollConfig_t *config))                                       \
    X(ncclResult_t, AllGatherConfig,                                                               \
      (const void *src, void *dst, size_t n, ncclDataType_t type, ncclComm_t comm,                 \
       cudaStream_t stream, const ncclCollConfig_t *config))                                       \
    X(ncclResult_t, AlltoAllConfig,                                                                \
      (const void *src, void *dst, size_t n, ncclDataType_t type, ncclComm_t comm,                 \
       cudaStream_t stream, const ncclCollConfig_t *config))                                       \
    X(ncclResult_t, GatherConfig,                                                                  \
      (const void *src, void *dst, size_t n, ncclDataType_t type, int root, ncclComm_t comm,       \
       cudaStream_t stream, const ncclCollConfig_t *config))                                       \
    X(ncclResult_t, ScatterConfig,                                                                 \
      (const void *src, void *dst, size_t n, ncclDataType_t type, int root, ncclComm_t comm,       \
       cudaStream_t stream, const ncclCollConfig_t *config))                                       \
    X(ncclResult_t, PutSignal,                                                                     \
      (const void *src, size_t n, ncclDataType_t type, int peer, ncclWindow_t window,              \
       size_t offset, int signal, int context, unsigned flags, ncclComm_t comm,                    \
       cudaStream_t stream))                                                                       \
    X(ncclResult_t, Signal,                                                                        \
      (int peer, int signal, int context, unsigned flags, ncclComm_t comm, cudaStream_t stream))   \
    X(ncclResult_t, WaitSignal,                                                                    \
      (int n, ncclWaitSignalDesc_t *waits, ncclComm_t comm, cudaStream_t stream))                  \
    X(ncclResult_t, ParamBind, (ncclParamHandle_t * handle, const char *key))                      \
    X(ncclResult_t, ParamGetI8, (ncclParamHandle_t handle, int8_t * value))                        \
    X(ncclResult_t, ParamGetI16, (ncclParamHandle_t handle, int16_t * value))                      \
    X(ncclResult_t, ParamGetI32, (ncclParamHandle_t handle, int32_t * value))                      \
    X(ncclResult_t, ParamGetI64, (ncclParamHandle_t handle, int64_t * value))                      \
    X(ncclResult_t, ParamGetU8, (ncclParamHandle_t handle, uint8_t * value))                       \
    X(ncclResult_t, ParamGetU16, (ncclParamHandle_t handle, uint16_t * value))                     \
    X(ncclResult_t, ParamGetU32, (ncclParamHandle_t handle, uint32_t * value))                     \
    X(ncclResult_t, ParamGetU64, (ncclParamHandle_t handle, uint64_t * value))                     \
    X(ncclResult_t, ParamGetStr, (ncclParamHandle_t handle, const char **value))                   \
    X(ncclResult_t, ParamGet, (ncclParamHandle_t handle, void *value, int room, int *bytes))       \
    X(ncclResult_t, ParamGetParameter, (const char *key, const char **value, int *bytes))          \
    X(ncclResult_t, ParamGetAllParameterKeys, (const char ***keys, int *n))                        \
    X(void, ParamDumpAll, (void))                                                                  \
    X(ncclResult_t, SetEncryption, (const ncclEncryptionConfig_t *config))                         \
    X(ncclResult_t, GroupStart, (void))                                                            \
    X(ncclResult_t, GroupEnd, (void))                                                              \
    X(ncclResult_t, GroupSimulateEnd, (ncclSimInfo_t * info))

#define WEFT_NCCL_DECLARE(result, name, parameters)                                                \
    result nccl##name parameters;                                                                  \
    result pnccl##name parameters;
WEFT_NCCL_FUNCTIONS(WEFT_NCCL_DECLARE)
#undef WEFT_NCCL_DECLARE

#ifdef __cplusplus
}
#endif
#endif
