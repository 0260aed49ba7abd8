/* SPDX-License-Identifier: Apache-2.0 */
/* Names of NCCL's device API that Weft does not have: using one stops the compilation with a
 * sentence that names it. */
#ifndef NCCL_DEVICE_LEFT_OUT_H_
#define NCCL_DEVICE_LEFT_OUT_H_

#include "core.h"

#define WEFT_NCCL_NO_MULTIMEM                                                                      \
    " is left out: Weft's windows have no multicast addresses; use ncclGetLsaPointer()"
#define WEFT_NCCL_NO_CFT    " is left out: Weft has no CFT; use ncclGin"
#define WEFT_NCCL_NO_LL_A2A " is left out: Weft has no LL all-to-all; use ncclGin::put()"
#define WEFT_NCCL_NO_IR     " is left out: Weft has the C++ form alone; use the members of ncclGin"
#define WEFT_NCCL_NO_COPIES                                                                        \
    " is left out: Weft has no loops of reductions; use ncclGetLsaPointer(), or ncclAllReduce()"

/* X(name, why): functions of the host. */
#define WEFT_NCCL_HOST_LEFT_OUT(X)                                                                 \
    X(ncclTeamCft, WEFT_NCCL_NO_CFT)                                                               \
    X(ncclTeamCftMultimem, WEFT_NCCL_NO_CFT)                                                       \
    X(ncclGetMultimemDeviceLeInfo, WEFT_NCCL_NO_CFT)                                               \
    X(ncclGetCftDeviceLeInfo, WEFT_NCCL_NO_CFT)                                                    \
    X(ncclGetPeerDeviceLeInfo, WEFT_NCCL_NO_CFT)                                                   \
    X(ncclCftBarrierCreateRequirement, WEFT_NCCL_NO_CFT)                                           \
    X(ncclLLA2ACalcSlots, WEFT_NCCL_NO_LL_A2A)                                                     \
    X(ncclLLA2ACreateRequirement, WEFT_NCCL_NO_LL_A2A)

/* Functions of kernels. */
#define WEFT_NCCL_KERNELS_LEFT_OUT(X)                                                              \
    X(ncclGetMultimemPointer, WEFT_NCCL_NO_MULTIMEM)                                               \
    X(ncclGetLsaMultimemPointer, WEFT_NCCL_NO_MULTIMEM)                                            \
    X(ncclGetResourceBufferMultimemPointer, WEFT_NCCL_NO_MULTIMEM)                                 \
    X(ncclGetResourceBufferLsaMultimemPointer, WEFT_NCCL_NO_MULTIMEM)                              \
    X(ncclMultimemReduceSum, WEFT_NCCL_NO_MULTIMEM)                                                \
    X(ncclMultimemCopy, WEFT_NCCL_NO_MULTIMEM)                                                     \
    X(ncclMultimemReduceSumCopy, WEFT_NCCL_NO_MULTIMEM)                                            \
    X(ncclMultimemReduceSumLsaCopy, WEFT_NCCL_NO_MULTIMEM)                                         \
    X(ncclMultimemReduceSumMultimemCopy, WEFT_NCCL_NO_MULTIMEM)                                    \
    X(ncclLsaReduceMultimemCopy, WEFT_NCCL_NO_MULTIMEM)                                            \
    X(ncclLsaReduceSumMultimemCopy, WEFT_NCCL_NO_MULTIMEM)                                         \
    X(ncclLsaReduceLsaCopy, WEFT_NCCL_NO_COPIES)                                                   \
    X(ncclLsaReduceSum, WEFT_NCCL_NO_COPIES)                                                       \
    X(ncclLsaReduceSumLsaCopy, WEFT_NCCL_NO_COPIES)                                                \
    X(ncclLsaReduceSumCopy, WEFT_NCCL_NO_COPIES)                                                   \
    X(ncclLsaCopy, WEFT_NCCL_NO_COPIES)                                                            \
    X(ncclLocalReduceSum, WEFT_NCCL_NO_COPIES)                                                     \
    X(ncclLocalReduceSumCopy, WEFT_NCCL_NO_COPIES)                                                 \
    X(ncclLocalCopy, WEFT_NCCL_NO_COPIES)                                                          \
    X(ncclFindWindow, " is left out: pass the ncclWindow_t to the kernel")                         \
    X(ncclGetCftLeInfo, WEFT_NCCL_NO_CFT)                                                          \
    X(ncclGetPeerLeInfo, WEFT_NCCL_NO_CFT)                                                         \
    X(ncclGetMultimemLeInfo, WEFT_NCCL_NO_CFT)                                                     \
    X(ncclGetResourceBufferCftLeInfo, WEFT_NCCL_NO_CFT)                                            \
    X(ncclGetResourceBufferPeerLeInfo, WEFT_NCCL_NO_CFT)                                           \
    X(ncclGetResourceBufferMultimemLeInfo, WEFT_NCCL_NO_CFT)                                       \
    X(ncclGin_C_init, WEFT_NCCL_NO_IR)                                                             \
    X(ncclGin_C_initWithResourceSharingMode, WEFT_NCCL_NO_IR)                                      \
    X(ncclGinPut, WEFT_NCCL_NO_IR)                                                                 \
    X(ncclGinPut_v2, WEFT_NCCL_NO_IR)                                                              \
    X(ncclGinGet, WEFT_NCCL_NO_IR)                                                                 \
    X(ncclGinSignal, WEFT_NCCL_NO_IR)                                                              \
    X(ncclGinSignal_v2, WEFT_NCCL_NO_IR)                                                           \
    X(ncclGinFlush, WEFT_NCCL_NO_IR)                                                               \
    X(ncclGinReadCounter, WEFT_NCCL_NO_IR)                                                         \
    X(ncclGinWaitCounter, WEFT_NCCL_NO_IR)                                                         \
    X(ncclGinReadSignal, WEFT_NCCL_NO_IR)                                                          \
    X(ncclGinWaitSignal, WEFT_NCCL_NO_IR)                                                          \
    X(ncclGinResetCounter, WEFT_NCCL_NO_IR)                                                        \
    X(ncclGinResetSignal, WEFT_NCCL_NO_IR)                                                         \
    X(ncclGinPutValue, WEFT_NCCL_NO_IR)                                                            \
    X(ncclGinPutValue_v2, WEFT_NCCL_NO_IR)                                                         \
    X(ncclGinGetSignalShadowPtr, WEFT_NCCL_NO_IR)

/* Sessions, as ncclLLA2ASession<ncclCoopCta>. */
#define WEFT_NCCL_SESSIONS_LEFT_OUT(X)                                                             \
    X(ncclLLA2ASession, WEFT_NCCL_NO_LL_A2A)                                                       \
    X(ncclCftBarrierSession, WEFT_NCCL_NO_CFT)                                                     \
    X(ncclCft, WEFT_NCCL_NO_CFT)

#ifdef __cplusplus

#define WEFT_NCCL_STOP(name, why)                                                                  \
    template <typename... Any> WEFT_NCCL_BOTH int name(Any &&...)                                  \
    {                                                                                              \
        static_assert(sizeof...(Any) > 1000, #name why);                                           \
        return 0;                                                                                  \
    }
WEFT_NCCL_HOST_LEFT_OUT(WEFT_NCCL_STOP)
#if WEFT_NCCL_KERNELS
WEFT_NCCL_KERNELS_LEFT_OUT(WEFT_NCCL_STOP)

#define WEFT_NCCL_STOP_SESSION(name, why)                                                          \
    template <typename... Any> struct name {                                                       \
        static_assert(sizeof...(Any) > 1000, #name why);                                           \
    };
WEFT_NCCL_SESSIONS_LEFT_OUT(WEFT_NCCL_STOP_SESSION)
#undef WEFT_NCCL_STOP_SESSION
#endif
#undef WEFT_NCCL_STOP

#else

#define WEFT_NCCL_STOP(name, why) int name(int, ...) __attribute__((error(#name why)));
WEFT_NCCL_HOST_LEFT_OUT(WEFT_NCCL_STOP)
#undef WEFT_NCCL_STOP

#endif

#endif
