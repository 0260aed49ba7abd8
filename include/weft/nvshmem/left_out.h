/* SPDX-License-Identifier: Apache-2.0 */
/* Names of NVSHMEM that Weft does not have: using one stops the compilation with a sentence that
 * names it. weft-nvshmem(7) has the same list; a test compares the two. */
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

#define WEFT_NV_NO_PREFERENCE                                                                      \
    "Weft chooses the symmetric address; use nvshmemx_buffer_register_symmetric()"
#define nvshmemx_buffer_register_symmetric_at_preferred_address(...)                               \
    WEFT_NV_LEFT_OUT("nvshmemx_buffer_register_symmetric_at_preferred_address",                    \
                     WEFT_NV_NO_PREFERENCE)

#define WEFT_NV_NO_HALF               "Weft has no atomics on half; use nvshmemx_float_atomic_add()"
#define nvshmemx_half_atomic_add(...) WEFT_NV_LEFT_OUT("nvshmemx_half_atomic_add", WEFT_NV_NO_HALF)
#define nvshmemx_half_atomic_fetch_add(...)                                                        \
    WEFT_NV_LEFT_OUT("nvshmemx_half_atomic_fetch_add", WEFT_NV_NO_HALF)

#define WEFT_NV_NO_HALF_ACCESS                                                                     \
    "Weft has no atomics on half; use nvshmem_float_atomic_set(), _fetch() and _swap()"
#define nvshmem_half_atomic_fetch(...)                                                             \
    WEFT_NV_LEFT_OUT("nvshmem_half_atomic_fetch", WEFT_NV_NO_HALF_ACCESS)
#define nvshmem_half_atomic_set(...)                                                               \
    WEFT_NV_LEFT_OUT("nvshmem_half_atomic_set", WEFT_NV_NO_HALF_ACCESS)
#define nvshmem_half_atomic_swap(...)                                                              \
    WEFT_NV_LEFT_OUT("nvshmem_half_atomic_swap", WEFT_NV_NO_HALF_ACCESS)

/* In NVSHMEM tiles are templates of a namespace, and so are these. */
#ifdef __cplusplus
#ifdef __CUDACC__
#define WEFT_NV_TILE_FN static __host__ __device__
#else
#define WEFT_NV_TILE_FN static
#endif
namespace nvshmemx
{
/* Each name exists for a thread, and with a suffix for a warp, a warpgroup and a block. */
#define WEFT_NV_TILE(name)                                                                         \
    WEFT_NV_TILE_OF(name)                                                                          \
    WEFT_NV_TILE_OF(name##_warp)                                                                   \
    WEFT_NV_TILE_OF(name##_warpgroup)                                                              \
    WEFT_NV_TILE_OF(name##_block)
#define WEFT_NV_TILE_OF(name)                                                                      \
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
WEFT_NV_TILE(tile_sum_allreduce)
WEFT_NV_TILE(tile_max_allreduce)
WEFT_NV_TILE(tile_min_allreduce)
WEFT_NV_TILE(tile_allgather)
WEFT_NV_TILE(tile_broadcast)
WEFT_NV_TILE(tile_put)
WEFT_NV_TILE(tile_get)
WEFT_NV_TILE(tile_collective_wait)
#undef WEFT_NV_TILE_OF
#undef WEFT_NV_TILE
} // namespace nvshmemx
#endif

#endif
