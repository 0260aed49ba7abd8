/* SPDX-License-Identifier: Apache-2.0 */
/* Names of NVSHMEM that Weft does not have: using one stops the compilation with a sentence. The list
 * is weft-nvshmem(7)'s. */
#ifndef WEFT_NVSHMEM_LEFT_OUT_H
#define WEFT_NVSHMEM_LEFT_OUT_H

#ifdef __cplusplus
#define WEFT_NV_LEFT_OUT(text) ({ static_assert(false, text); 0; })
#else
#define WEFT_NV_LEFT_OUT(text) ({ _Static_assert(0, text); 0; })
#endif

#define WEFT_NV_MULTICAST "Weft has no multicast: see weft-nvshmem(7)"
#define nvshmemx_mc_ptr(...) WEFT_NV_LEFT_OUT(WEFT_NV_MULTICAST)

#define WEFT_NV_QUEUES                                                                             \
    "Weft chooses queues itself; use the functions without qp_: see weft-nvshmem(7)"
#define nvshmemx_qp_create(...)    WEFT_NV_LEFT_OUT(WEFT_NV_QUEUES)
#define nvshmemx_qp_quiet(...)     WEFT_NV_LEFT_OUT(WEFT_NV_QUEUES)
#define nvshmemx_qp_fence(...)     WEFT_NV_LEFT_OUT(WEFT_NV_QUEUES)
#define nvshmemx_qp_signal_op(...) WEFT_NV_LEFT_OUT(WEFT_NV_QUEUES)

#define WEFT_NV_REGIONS                                                                            \
    "Weft has no regions; nbi puts are batched by fence and quiet alone: see weft-nvshmem(7)"
#define nvshmemx_region_start(...)     WEFT_NV_LEFT_OUT(WEFT_NV_REGIONS)
#define nvshmemx_region_stop(...)      WEFT_NV_LEFT_OUT(WEFT_NV_REGIONS)
#define nvshmemx_region_is_active(...) WEFT_NV_LEFT_OUT(WEFT_NV_REGIONS)

#define WEFT_NV_SMEM "Weft's puts need no shared memory of the kernel: see weft-nvshmem(7)"
#define nvshmemx_ask_smem(...)     WEFT_NV_LEFT_OUT(WEFT_NV_SMEM)
#define nvshmemx_give_smem(...)    WEFT_NV_LEFT_OUT(WEFT_NV_SMEM)
#define nvshmemx_release_smem(...) WEFT_NV_LEFT_OUT(WEFT_NV_SMEM)

#define WEFT_NV_SYMMETRIC                                                                          \
    "memory of another allocator cannot become symmetric; allocate it with nvshmem_malloc(): "    \
    "see weft-nvshmem(7)"
#define nvshmemx_buffer_register_symmetric(...)   WEFT_NV_LEFT_OUT(WEFT_NV_SYMMETRIC)
#define nvshmemx_buffer_unregister_symmetric(...) WEFT_NV_LEFT_OUT(WEFT_NV_SYMMETRIC)

#define WEFT_NV_TEAM_ID                                                                            \
    "teams are made by nvshmem_team_split_strided() and _2d() alone: see weft-nvshmem(7)"
#define nvshmemx_team_get_uniqueid(...) WEFT_NV_LEFT_OUT(WEFT_NV_TEAM_ID)
#define nvshmemx_team_init(...)         WEFT_NV_LEFT_OUT(WEFT_NV_TEAM_ID)

#define WEFT_NV_LIBRARY                                                                            \
    "load the library's module and call nvshmemx_cumodule_init(): see weft-nvshmem(7)"
#define nvshmemx_culibrary_init(...)     WEFT_NV_LEFT_OUT(WEFT_NV_LIBRARY)
#define nvshmemx_culibrary_finalize(...) WEFT_NV_LEFT_OUT(WEFT_NV_LIBRARY)

#define nvshmemx_double2_maxloc_reduce_block(...)                                                  \
    WEFT_NV_LEFT_OUT("Weft has no maxloc reduction: see weft-nvshmem(7)")
#define nvshmemx_barrier_warpgroup(...)                                                            \
    WEFT_NV_LEFT_OUT("Weft has the scopes thread, warp and block: see weft-nvshmem(7)")
#define nvshmem_realloc(...)                                                                       \
    WEFT_NV_LEFT_OUT("allocate anew with nvshmem_malloc(): see weft-nvshmem(7)")

#endif
