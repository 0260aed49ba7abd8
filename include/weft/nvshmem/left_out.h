/* SPDX-License-Identifier: Apache-2.0 */
/* Names of NVSHMEM that Weft does not have: using one stops the compilation with a sentence that names
 * it. The list is weft-nvshmem(7)'s too; the tests compare. */
#ifndef WEFT_NVSHMEM_LEFT_OUT_H
#define WEFT_NVSHMEM_LEFT_OUT_H

#ifdef __cplusplus
#define WEFT_NV_ASSERT static_assert
#else
#define WEFT_NV_ASSERT _Static_assert
#endif
#define WEFT_NV_LEFT_OUT(name, text)                                                               \
    ({                                                                                             \
        WEFT_NV_ASSERT(0, name " is left out: " text "; see man 7 weft-nvshmem");                  \
        0;                                                                                         \
    })

#define WEFT_NV_NO_MULTICAST        "Weft has no multicast"
#define nvshmemx_mc_ptr(...)        WEFT_NV_LEFT_OUT("nvshmemx_mc_ptr", WEFT_NV_NO_MULTICAST)

#define WEFT_NV_NO_QUEUES           "Weft chooses queues itself; use the function without qp_"
#define nvshmemx_qp_create(...)     WEFT_NV_LEFT_OUT("nvshmemx_qp_create", WEFT_NV_NO_QUEUES)
#define nvshmemx_qp_quiet(...)      WEFT_NV_LEFT_OUT("nvshmemx_qp_quiet", WEFT_NV_NO_QUEUES)
#define nvshmemx_qp_fence(...)      WEFT_NV_LEFT_OUT("nvshmemx_qp_fence", WEFT_NV_NO_QUEUES)
#define nvshmemx_qp_signal_op(...)  WEFT_NV_LEFT_OUT("nvshmemx_qp_signal_op", WEFT_NV_NO_QUEUES)
#define nvshmemx_qp_putmem(...)     WEFT_NV_LEFT_OUT("nvshmemx_qp_putmem", WEFT_NV_NO_QUEUES)
#define nvshmemx_qp_getmem(...)     WEFT_NV_LEFT_OUT("nvshmemx_qp_getmem", WEFT_NV_NO_QUEUES)
#define nvshmemx_qp_putmem_nbi(...) WEFT_NV_LEFT_OUT("nvshmemx_qp_putmem_nbi", WEFT_NV_NO_QUEUES)
#define nvshmemx_qp_getmem_nbi(...) WEFT_NV_LEFT_OUT("nvshmemx_qp_getmem_nbi", WEFT_NV_NO_QUEUES)
#define nvshmemx_qp_putmem_signal(...)                                                             \
    WEFT_NV_LEFT_OUT("nvshmemx_qp_putmem_signal", WEFT_NV_NO_QUEUES)
#define nvshmemx_qp_putmem_signal_nbi(...)                                                         \
    WEFT_NV_LEFT_OUT("nvshmemx_qp_putmem_signal_nbi", WEFT_NV_NO_QUEUES)

#define WEFT_NV_NO_REGIONS                                                                         \
    "Weft has no regions; nbi operations are batched by fence and quiet alone"
#define nvshmemx_region_start(...) WEFT_NV_LEFT_OUT("nvshmemx_region_start", WEFT_NV_NO_REGIONS)
#define nvshmemx_region_stop(...)  WEFT_NV_LEFT_OUT("nvshmemx_region_stop", WEFT_NV_NO_REGIONS)
#define nvshmemx_region_start_block(...)                                                           \
    WEFT_NV_LEFT_OUT("nvshmemx_region_start_block", WEFT_NV_NO_REGIONS)
#define nvshmemx_region_stop_block(...)                                                            \
    WEFT_NV_LEFT_OUT("nvshmemx_region_stop_block", WEFT_NV_NO_REGIONS)
#define nvshmemx_region_is_active(...)                                                             \
    WEFT_NV_LEFT_OUT("nvshmemx_region_is_active", WEFT_NV_NO_REGIONS)

#define WEFT_NV_NO_SMEM            "Weft's puts need no shared memory of the kernel"
#define nvshmemx_ask_smem(...)     WEFT_NV_LEFT_OUT("nvshmemx_ask_smem", WEFT_NV_NO_SMEM)
#define nvshmemx_give_smem(...)    WEFT_NV_LEFT_OUT("nvshmemx_give_smem", WEFT_NV_NO_SMEM)
#define nvshmemx_release_smem(...) WEFT_NV_LEFT_OUT("nvshmemx_release_smem", WEFT_NV_NO_SMEM)

#define WEFT_NV_NO_SYMMETRIC                                                                       \
    "memory of another allocator cannot become symmetric; use nvshmem_malloc()"
#define nvshmemx_buffer_register_symmetric(...)                                                    \
    WEFT_NV_LEFT_OUT("nvshmemx_buffer_register_symmetric", WEFT_NV_NO_SYMMETRIC)
#define nvshmemx_buffer_unregister_symmetric(...)                                                  \
    WEFT_NV_LEFT_OUT("nvshmemx_buffer_unregister_symmetric", WEFT_NV_NO_SYMMETRIC)
#define nvshmemx_buffer_register_symmetric_at_preferred_address(...)                               \
    WEFT_NV_LEFT_OUT("nvshmemx_buffer_register_symmetric_at_preferred_address",                    \
                     WEFT_NV_NO_SYMMETRIC)

#define WEFT_NV_NO_TEAM_ID "teams are made by nvshmem_team_split_strided() and _2d() alone"
#define nvshmemx_team_get_uniqueid(...)                                                            \
    WEFT_NV_LEFT_OUT("nvshmemx_team_get_uniqueid", WEFT_NV_NO_TEAM_ID)
#define nvshmemx_team_init(...)      WEFT_NV_LEFT_OUT("nvshmemx_team_init", WEFT_NV_NO_TEAM_ID)

#define WEFT_NV_NO_LIBRARY           "load the library's module and call nvshmemx_cumodule_init()"
#define nvshmemx_culibrary_init(...) WEFT_NV_LEFT_OUT("nvshmemx_culibrary_init", WEFT_NV_NO_LIBRARY)
#define nvshmemx_culibrary_finalize(...)                                                           \
    WEFT_NV_LEFT_OUT("nvshmemx_culibrary_finalize", WEFT_NV_NO_LIBRARY)

#define WEFT_NV_NO_COUNTED "Weft has no counted signals; use NVSHMEM_SIGNAL_ADD"
#define nvshmemx_putmem_signal_counted(...)                                                        \
    WEFT_NV_LEFT_OUT("nvshmemx_putmem_signal_counted", WEFT_NV_NO_COUNTED)
#define nvshmemx_signal_counted_reset(...)                                                         \
    WEFT_NV_LEFT_OUT("nvshmemx_signal_counted_reset", WEFT_NV_NO_COUNTED)

#define WEFT_NV_NO_FLUSH              "use nvshmem_quiet()"
#define nvshmemx_flush(...)           WEFT_NV_LEFT_OUT("nvshmemx_flush", WEFT_NV_NO_FLUSH)
#define nvshmemx_flush_on_stream(...) WEFT_NV_LEFT_OUT("nvshmemx_flush_on_stream", WEFT_NV_NO_FLUSH)
#define nvshmemx_flush_warp(...)      WEFT_NV_LEFT_OUT("nvshmemx_flush_warp", WEFT_NV_NO_FLUSH)
#define nvshmemx_flush_block(...)     WEFT_NV_LEFT_OUT("nvshmemx_flush_block", WEFT_NV_NO_FLUSH)

#define WEFT_NV_NO_HALF               "Weft has no atomics on half"
#define nvshmemx_half_atomic_add(...) WEFT_NV_LEFT_OUT("nvshmemx_half_atomic_add", WEFT_NV_NO_HALF)
#define nvshmemx_half_atomic_fetch_add(...)                                                        \
    WEFT_NV_LEFT_OUT("nvshmemx_half_atomic_fetch_add", WEFT_NV_NO_HALF)

#define WEFT_NV_NO_WARPGROUP "Weft has the scopes thread, warp and block"
#define nvshmemx_barrier_warpgroup(...)                                                            \
    WEFT_NV_LEFT_OUT("nvshmemx_barrier_warpgroup", WEFT_NV_NO_WARPGROUP)
#define nvshmemx_barrier_all_warpgroup(...)                                                        \
    WEFT_NV_LEFT_OUT("nvshmemx_barrier_all_warpgroup", WEFT_NV_NO_WARPGROUP)
#define nvshmemx_team_sync_warpgroup(...)                                                          \
    WEFT_NV_LEFT_OUT("nvshmemx_team_sync_warpgroup", WEFT_NV_NO_WARPGROUP)
#define nvshmemx_sync_all_warpgroup(...)                                                           \
    WEFT_NV_LEFT_OUT("nvshmemx_sync_all_warpgroup", WEFT_NV_NO_WARPGROUP)

#define WEFT_NV_NO_REALLOC   "allocate anew with nvshmem_malloc()"
#define nvshmem_realloc(...) WEFT_NV_LEFT_OUT("nvshmem_realloc", WEFT_NV_NO_REALLOC)

/* Tiles are templates of a namespace, so they are that here. */
#ifdef __cplusplus
#ifdef __CUDACC__
#define WEFT_NV_TILE_FN static __host__ __device__
#else
#define WEFT_NV_TILE_FN static
#endif
namespace nvshmemx
{
#define WEFT_NV_TILE(name)                                                                         \
    template <typename... weft_nv_any> WEFT_NV_TILE_FN int name(weft_nv_any...)                    \
    {                                                                                              \
        static_assert(sizeof...(weft_nv_any) > 1000,                                               \
                      "nvshmemx::" #name                                                           \
                      " is left out: Weft has no tiles; see man 7 weft-nvshmem");                  \
        return 0;                                                                                  \
    }
WEFT_NV_TILE(tile_sum_reduce)
WEFT_NV_TILE(tile_max_reduce)
WEFT_NV_TILE(tile_min_reduce)
WEFT_NV_TILE(tile_sum_rooted_reduce)
WEFT_NV_TILE(tile_max_rooted_reduce)
WEFT_NV_TILE(tile_min_rooted_reduce)
WEFT_NV_TILE(tile_allgather)
WEFT_NV_TILE(tile_broadcast)
WEFT_NV_TILE(tile_put)
WEFT_NV_TILE(tile_get)
WEFT_NV_TILE(tile_collective_wait)
#undef WEFT_NV_TILE
} // namespace nvshmemx
#endif

#endif
