/* SPDX-License-Identifier: Apache-2.0 */
/* What host and kernels share of NCCL's device API: structures, functions of the host, teams. The
 * host's half is C. */
#ifndef NCCL_DEVICE_CORE_H_
#define NCCL_DEVICE_CORE_H_

#include "../nccl.h"

#if defined __CUDACC__ || defined __CUDA__
#define WEFT_NCCL_KERNELS 1
#elif !defined WEFT_NCCL_KERNELS /* Weft's tests run kernels on CPU threads (simt) */
#define WEFT_NCCL_KERNELS 0
#endif
#if WEFT_NCCL_KERNELS
#ifndef WEFT_STATE_BY_POINTER
#ifdef WEFT_DEVICE_H
#error "include <nccl_device.h> before <weft_device.h>, or define WEFT_STATE_BY_POINTER before both"
#endif
#define WEFT_STATE_BY_POINTER
#define WEFT_DEVICE_NO_LAUNCH /* so that a program links NCCL's library alone */
#endif
#include <weft_device.h>
#else
#include <weft/device/state.h>
#endif

#if WEFT_TARGET_CUDA
#define NCCL_DEVICE_INLINE      __device__ __forceinline__
#define NCCL_HOST_DEVICE_INLINE __host__ __device__ __forceinline__
#define WEFT_NCCL_BOTH          __host__ __device__ __forceinline__ /* a member or a template */
#else
#define NCCL_DEVICE_INLINE      inline
#define NCCL_HOST_DEVICE_INLINE static inline
#define WEFT_NCCL_BOTH          inline
#endif

#ifdef __cplusplus
extern "C" {
#else
#include <stdbool.h>
#endif

/* Requirements and properties that were compiled with this header begin with this number, those of
 * NVIDIA's with NCCL_API_MAGIC. The version is that of the structures that kernels read. */
#define WEFT_NCCL_DEVICE_MAGIC   0x57464e43u
#define WEFT_NCCL_DEVICE_VERSION (100u * WEFT_DEV_VERSION + 1)

/* Ranks that are `stride` apart in the communicator; `rank` is the caller's place among them. */
typedef struct ncclTeam {
    int nRanks, rank, stride;
} ncclTeam_t;

/* A part of the resources of an ncclDevComm, at 128 times this number in bytes. */
typedef uint32_t ncclDevResourceHandle;
typedef ncclDevResourceHandle ncclDevResourceHandle_t;

typedef uint32_t ncclGinSignal_t;
typedef uint32_t ncclGinCounter_t;

typedef struct {
    uint64_t opaque[2];
} ncclGinRequest_t;

typedef struct ncclLsaBarrierHandle {
    ncclDevResourceHandle_t bufHandle;
    int nBarriers;
} ncclLsaBarrierHandle_t;

typedef struct ncclGinBarrierHandle {
    ncclDevResourceHandle_t bufHandle;
    int nBarriers;
} ncclGinBarrierHandle_t;

/* Always empty: Weft's windows have no multicast addresses. */
typedef struct ncclMultimemHandle {
    void *mcBasePtr;
} ncclMultimemHandle_t;

typedef enum {
    NCCL_GIN_CONNECTION_NONE,
    NCCL_GIN_CONNECTION_FULL,
    NCCL_GIN_CONNECTION_RAIL,
    NCCL_GIN_CONNECTION_CUSTOM_STRIDE
} ncclGinConnectionType_t;

typedef enum {
    NCCL_GIN_TYPE_NONE = 0, /* in requirements: any */
    NCCL_GIN_TYPE_PROXY = 2,
    NCCL_GIN_TYPE_GDAKI = 3,
    NCCL_GIN_TYPE_GPI = 4,
    NCCL_GIN_TYPE_EFA_GDA = 5,
    NCCL_GIN_MAX_TYPES = 6
} ncclGinType_t;

typedef enum { NCCL_CFT_NONE = 0, NCCL_CFT = 1, NCCL_CFT_MULTIMEM = 2 } ncclCftCap_t;

/* Memory, signals and counters in addition to those of ncclDevCommRequirements. */
typedef struct ncclDevResourceRequirements {
    struct ncclDevResourceRequirements *next;
    size_t bufferSize, bufferAlign;           /* bytes; alignments up to 128 */
    ncclDevResourceHandle_t *outBufferHandle; /* set by ncclDevCommCreate(), if not null */
    int ginSignalCount, ginCounterCount;
    ncclGinSignal_t *outGinSignalStart; /* the same */
    ncclGinCounter_t *outGinCounterStart;
} ncclDevResourceRequirements_t;

typedef struct ncclTeamRequirements {
    struct ncclTeamRequirements *next;
    ncclTeam_t team;
    bool multimem; /* refused */
    ncclMultimemHandle_t *outMultimemHandle;
} ncclTeamRequirements_t;

/* What kernels need. All ranks pass the same. Begin with NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER. */
typedef struct ncclDevCommRequirements {
    size_t size;
    unsigned magic, version;
    ncclDevResourceRequirements_t *resourceRequirementsList;
    ncclTeamRequirements_t *teamRequirementsList;
    bool lsaMultimem;        /* refused: leave it false */
    int barrierCount;        /* for ncclBarrierSession; the others are at least as many */
    int lsaBarrierCount;     /* for ncclLsaBarrierSession with ncclTeamTagLsa */
    int railGinBarrierCount; /* for ncclGinBarrierSession with ncclTeamTagRail */
    int lsaLLA2ABlockCount, lsaLLA2ASlotCount; /* refused: leave them 0 */
    bool ginForceEnable;                       /* no effect: GIN is always there */
    int ginContextCount; /* contexts, each with its own signals and counters */
    int ginSignalCount;  /* of a context, from 0 on */
    int ginCounterCount; /* the same */
    ncclGinConnectionType_t ginConnectionType; /* no effect: all ranks are connected */
    bool ginExclusiveContexts;                 /* no effect, as the next two */
    int ginQueueDepth, ginTrafficClass;
    int worldGinBarrierCount; /* for ncclGinBarrierSession with ncclTeamTagWorld */
    bool ginStrongSignalsRequired, ginVaSignalsRequired; /* no effect: both are there */
    int ginCustomStride;                                 /* no effect */
    ncclGinType_t ginType;                               /* NCCL_GIN_TYPE_NONE or _PROXY */
    bool useRuntimeVersion;                              /* refused: leave it false */
    int cftCaps, cftBarrierCount;                        /* refused: leave them 0 */
} ncclDevCommRequirements_t;

#define NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER                                                     \
    {                                                                                              \
        sizeof(ncclDevCommRequirements_t), WEFT_NCCL_DEVICE_MAGIC, WEFT_NCCL_DEVICE_VERSION, NULL, \
            NULL, false, 0, 0, 0, 0, 0, false, 4, 0, 0, NCCL_GIN_CONNECTION_NONE, false, 0,        \
            NCCL_CONFIG_UNDEF_INT, 0, true, true, 1, NCCL_GIN_TYPE_NONE, false, NCCL_CFT_NONE, 0   \
    }

/* Begin with NCCL_COMM_PROPERTIES_INITIALIZER. */
typedef struct ncclCommProperties {
    size_t size;
    unsigned magic, version;
    int rank, nRanks;
    int cudaDev, nvmlDev;  /* nvmlDev: -1 if NVML does not say */
    bool deviceApiSupport; /* false for programs compiled with NVIDIA's nccl_device.h */
    bool multimemSupport;  /* false */
    ncclGinType_t ginType; /* NCCL_GIN_TYPE_PROXY */
    int nLsaTeams;
    bool hostRmaSupport; /* true: ncclPutSignal() */
    ncclGinType_t railedGinType;
    uint64_t commHash; /* the same at all ranks, another one for each communicator */
    int ginMinStride;
    ncclGinConnectionType_t ginConnectionType;
    bool ginSupport[64];
    size_t devCommRuntimeVersionSize;                        /* bytes */
    bool cftSupport, cftMulticastSupport, cftCountedSupport; /* false */
} ncclCommProperties_t;

#define NCCL_COMM_PROPERTIES_INITIALIZER                                                           \
    {                                                                                              \
        sizeof(ncclCommProperties_t), WEFT_NCCL_DEVICE_MAGIC, WEFT_NCCL_DEVICE_VERSION, 0, 0, 0,   \
            0, false, false, NCCL_GIN_TYPE_NONE, 0, false, NCCL_GIN_TYPE_NONE, 0, 0,               \
            NCCL_GIN_CONNECTION_NONE, {false}, 0, false, false, false                              \
    }

/* A window, in GPU memory: an ncclWindow_t is its address there. */
struct ncclWindow_vidmem {
    char *own;       /* the memory at this rank, as peers name it; as the program does: no peer can
                        reach it */
    char *first;     /* that of rank 0 of the LSA team, as kernels of this rank reach it; or NULL */
    uint64_t stride; /* bytes from one rank of the LSA team to the next */
    uint64_t bytes;
    int32_t rank, lsa_rank, lsa_size; /* rank: of the communicator */
    int32_t reserved;
};
typedef struct ncclWindow_vidmem ncclWindow_vidmem_t;

/* What kernels get, as an argument. Programs may read rank, nRanks, lsaRank, lsaSize, the gin...
 * counts, resourceWindow, lsaMultimem and the handles of barriers. */
typedef struct ncclDevComm {
    unsigned magic, version;
    int rank, nRanks, lsaRank, lsaSize;
    int ginContextCount, ginSignalCount, ginCounterCount;
    ncclDevResourceHandle_t gin_signals, gin_counters, gin_shadows; /* [context][number] */
    ncclLsaBarrierHandle_t lsaBarrier, hybridLsaBarrier;
    ncclGinBarrierHandle_t railGinBarrier, hybridRailGinBarrier, worldGinBarrier;
    ncclMultimemHandle_t lsaMultimem;
    ncclWindow_t resourceWindow;
    struct ncclWindow_vidmem resources; /* of resourceWindow */
    const struct weft_dev *weft;        /* in GPU memory */
} ncclDevComm_t;

/* X(result, name, parameters): NCCL's functions of the device API for the host.
 *
 * ncclCommQueryProperties    what the communicator can do.
 * ncclDevCommCreate          collective: makes what kernels need. Requirements that Weft cannot
 *                            fulfil are ncclInvalidUsage, with a sentence.
 * ncclDevCommDestroy         collective; no kernel uses it any more.
 * ncclGetLsaDevicePointer    the address by which kernels reach a window at a rank of the LSA team.
 * ncclGetPeerDevicePointer   the same for a rank of the communicator; NULL: not in the LSA team.
 * ncclGetLsaMultimemDevicePointer, ncclGetMultimemDevicePointer    ncclInvalidUsage: no multicast.
 * ncclTeamWorld, ncclTeamLsa, ncclTeamRail    all ranks; those around the caller that all reach
 *                            each other by load and store; those with the caller's place in their
 *                            LSA team. {0, 0, 0} for no communicator.
 * ncclTeamRankToWorld, ncclTeamRankToLsa      the rank of a team's member there.
 * ncclLsaBarrierCreateRequirement, ncclGinBarrierCreateRequirement    fill *requirement, which the
 *                            program puts on resourceRequirementsList, for n barriers of a team;
 *                            *handle is set by ncclDevCommCreate().
 *
 * Errors: ncclInvalidArgument (null, out of range), ncclInvalidUsage, those of communicators. */
#define WEFT_NCCL_DEVICE_FUNCTIONS(X)                                                              \
    X(ncclResult_t, CommQueryProperties, (ncclComm_t comm, ncclCommProperties_t * properties))     \
    X(ncclResult_t, DevCommCreate,                                                                 \
      (ncclComm_t comm, const ncclDevCommRequirements_t *requirements, ncclDevComm_t *made))       \
    X(ncclResult_t, DevCommDestroy, (ncclComm_t comm, const ncclDevComm_t *made))                  \
    X(ncclResult_t, GetLsaDevicePointer,                                                           \
      (ncclWindow_t window, size_t offset, int lsa_rank, void **address))                          \
    X(ncclResult_t, GetPeerDevicePointer,                                                          \
      (ncclWindow_t window, size_t offset, int peer, void **address))                              \
    X(ncclResult_t, GetLsaMultimemDevicePointer,                                                   \
      (ncclWindow_t window, size_t offset, void **address))                                        \
    X(ncclResult_t, GetMultimemDevicePointer,                                                      \
      (ncclWindow_t window, size_t offset, ncclMultimemHandle_t multimem, void **address))         \
    X(ncclTeam_t, TeamWorld, (ncclComm_t comm))                                                    \
    X(ncclTeam_t, TeamLsa, (ncclComm_t comm))                                                      \
    X(ncclTeam_t, TeamRail, (ncclComm_t comm))                                                     \
    X(int, TeamRankToWorld, (ncclComm_t comm, ncclTeam_t team, int rank))                          \
    X(int, TeamRankToLsa, (ncclComm_t comm, ncclTeam_t team, int rank))                            \
    X(ncclResult_t, LsaBarrierCreateRequirement,                                                   \
      (ncclTeam_t team, int n, ncclLsaBarrierHandle_t *handle,                                     \
       ncclDevResourceRequirements_t *requirement))                                                \
    X(ncclResult_t, GinBarrierCreateRequirement,                                                   \
      (ncclComm_t comm, ncclTeam_t team, int n, ncclGinBarrierHandle_t *handle,                    \
       ncclDevResourceRequirements_t *requirement))

#ifndef __CUDACC_RTC__
#define WEFT_NCCL_DECLARE(result, name, parameters)                                                \
    result nccl##name parameters;                                                                  \
    result pnccl##name parameters;
WEFT_NCCL_DEVICE_FUNCTIONS(WEFT_NCCL_DECLARE)
#undef WEFT_NCCL_DECLARE
#endif

/* ------------------------------------------------------------------------ teams, in both halves */

/* Bytes of n barriers of a team of `ranks` ranks: of each, the epoch, and what each rank stored. */
NCCL_HOST_DEVICE_INLINE size_t weft_nccl_barrier_bytes(int n, int ranks)
{
    return (size_t)n * (1 + (size_t)ranks) * sizeof(uint64_t);
}

/* The offset of a resource in resourceWindow, in bytes. */
NCCL_HOST_DEVICE_INLINE size_t ncclGetResourceBufferOffset(ncclDevResourceHandle_t handle)
{
    return (size_t)handle * 128;
}

/* Whether member `rank` of team b is one of team a. */
NCCL_HOST_DEVICE_INLINE bool ncclTeamRankIsMember(ncclTeam_t a, ncclTeam_t b, int rank)
{
    int distance = (rank - b.rank) * b.stride, at = a.rank + distance / a.stride;
    return distance % a.stride == 0 && at >= 0 && at < a.nRanks;
}

/* The place in team a of member `rank` of team b, which is one of both. */
NCCL_HOST_DEVICE_INLINE int ncclTeamRankToTeam(ncclTeam_t a, ncclTeam_t b, int rank)
{
    return a.rank + (rank - b.rank) * b.stride / a.stride;
}

/* The caller's team when `parent` is divided into teams of `size` ranks that follow each other, and
 * that of the ranks with the same place in these. */
NCCL_HOST_DEVICE_INLINE ncclTeam_t ncclTeamInnerFactor(ncclTeam_t parent, int size)
{
    ncclTeam_t team = {size, parent.rank % size, parent.stride};
    return team;
}

NCCL_HOST_DEVICE_INLINE ncclTeam_t ncclTeamOuterFactor(ncclTeam_t parent, int size)
{
    ncclTeam_t team = {parent.nRanks / size, parent.rank / size, parent.stride * size};
    return team;
}

/* Member number `index`, from 0, of those of `parent` that are not in `subset`. */
NCCL_HOST_DEVICE_INLINE int ncclTeamRankInDifference(ncclTeam_t parent, ncclTeam_t subset,
                                                     int index)
{
    for (int rank = 0; rank < parent.nRanks; rank++)
        if (!ncclTeamRankIsMember(subset, parent, rank) && index-- == 0)
            return rank;
    return -1;
}

#ifdef __cplusplus
}
#endif

#if defined __cplusplus && WEFT_NCCL_KERNELS

#if defined __CUDACC__ && defined __has_include
#if __has_include(<cuda/atomic>)
#define WEFT_NCCL_LIBCUXX 1
#include <cuda/atomic>
#endif
#endif
#ifndef WEFT_NCCL_LIBCUXX /* clang without a toolkit: these names of libcu++ */
namespace cuda
{
enum memory_order {
    memory_order_relaxed,
    memory_order_consume,
    memory_order_acquire,
    memory_order_release,
    memory_order_acq_rel,
    memory_order_seq_cst
};
enum thread_scope {
    thread_scope_system,
    thread_scope_device,
    thread_scope_block,
    thread_scope_thread = 10
};
} // namespace cuda
#endif

struct ncclTeamTagWorld {
};
struct ncclTeamTagLsa {
};
struct ncclTeamTagRail {
};

NCCL_DEVICE_INLINE ncclTeam ncclTeamWorld(ncclDevComm const &comm)
{
    return {comm.nRanks, comm.rank, 1};
}

NCCL_DEVICE_INLINE ncclTeam ncclTeamLsa(ncclDevComm const &comm)
{
    return {comm.lsaSize, comm.lsaRank, 1};
}

NCCL_DEVICE_INLINE ncclTeam ncclTeamRail(ncclDevComm const &comm)
{
    return {comm.nRanks / comm.lsaSize, comm.rank / comm.lsaSize, comm.lsaSize};
}

NCCL_DEVICE_INLINE int ncclTeamRankToWorld(ncclDevComm const &comm, ncclTeam team, int rank)
{
    return comm.rank + (rank - team.rank) * team.stride;
}

NCCL_DEVICE_INLINE int ncclTeamRankToLsa(ncclDevComm const &comm, ncclTeam team, int rank)
{
    return comm.lsaRank + (rank - team.rank) * team.stride;
}

/* ------------------------------------------------------------- what the sessions are made of */

NCCL_DEVICE_INLINE bool weft_nccl_releases(cuda::memory_order order)
{
    return order == cuda::memory_order_release || order == cuda::memory_order_acq_rel ||
           order == cuda::memory_order_seq_cst;
}

NCCL_DEVICE_INLINE bool weft_nccl_acquires(cuda::memory_order order)
{
    return order != cuda::memory_order_relaxed && order != cuda::memory_order_release;
}

NCCL_DEVICE_INLINE uint64_t weft_nccl_load(const uint64_t *at, cuda::memory_order order)
{
    return weft_nccl_acquires(order) ? weft_dev_load_u64(at, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS)
                                     : weft_dev_load_u64(at, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
}

/* The lowest `bits` bits. */
NCCL_DEVICE_INLINE uint64_t weft_nccl_mask(int bits)
{
    return ~(uint64_t)0 >> (64 - bits);
}

#define WEFT_NCCL_NO_TIMEOUT (~(uint64_t)0)

/* Waits until the word is at least `least`, both as numbers of `bits` bits that wrap. `cycles`: of
 * the GPU's clock, after which the result is ncclTimeout, or WEFT_NCCL_NO_TIMEOUT. When the job has
 * failed, or after WEFT_WAIT_LIMIT, the job fails and the result is ncclRemoteError. `peer`: for
 * the sentence about that; -1: any. */
NCCL_DEVICE_INLINE ncclResult_t weft_nccl_wait(ncclDevComm const &comm, const uint64_t *at,
                                               uint64_t least, int bits, cuda::memory_order order,
                                               int peer, uint64_t cycles)
{
    struct weft_device weft = {*comm.weft};
    struct weft_device::weft_dev_patience patience;
    struct weft_device::weft_dev_awaited what =
        weft.weft_dev_awaited_of(WEFT_DEV_OP_SIGNAL_WAIT, peer, -1, at, WEFT_GE, least);
    uint64_t mask = weft_nccl_mask(bits),
             begin = cycles != WEFT_NCCL_NO_TIMEOUT ? weft_dev_clock_cycles() : 0;
    uint32_t polls = 0;
    ncclResult_t result = ncclSuccess;
    for (;;) {
        uint64_t seen = weft_nccl_load(at, order);
        if (((seen - least) & mask) <= mask >> 1)
            break;
        if (cycles != WEFT_NCCL_NO_TIMEOUT && weft_dev_clock_cycles() - begin >= cycles) {
            result = ncclTimeout;
            break;
        }
        int status = weft.weft_dev_patience_step(&patience, what, &polls, seen);
        if (status) {
            weft.weft_dev_fail(status);
            result = ncclRemoteError;
            break;
        }
    }
    weft.weft_dev_patience_end(&patience, polls);
    return result;
}

#endif

#endif
