/* SPDX-License-Identifier: Apache-2.0 */
/* Names of version 0.1 that have changed since: the compiler stops at each with the new name. */
#ifndef WEFT_RENAMED_H
#define WEFT_RENAMED_H

#define WEFT_RENAMED(name) weft_error_this_name_of_version_0_1_is_now_##name

/* Collectives have the names of NCCL and MPI. */
#define weft_fcollect(...)                     WEFT_RENAMED(weft_allgather)
#define weft_fcollect_on_stream(...)           WEFT_RENAMED(weft_allgather_on_stream)
#define weft_reduce_to(...)                    WEFT_RENAMED(weft_reduce)
#define weft_reduce_to_on_stream(...)          WEFT_RENAMED(weft_reduce_on_stream)
#define weft_reduce_to_scaled(...)             WEFT_RENAMED(weft_reduce_scaled)
#define weft_reduce_to_scaled_on_stream(...)   WEFT_RENAMED(weft_reduce_scaled_on_stream)
#define weft_reduce_to_weighted(...)           WEFT_RENAMED(weft_reduce_weighted)
#define weft_reduce_to_weighted_on_stream(...) WEFT_RENAMED(weft_reduce_weighted_on_stream)

/* Device functions. */
#define weft_thread_fcollect(...)           WEFT_RENAMED(weft_thread_allgather)
#define weft_thread_reduce_to(...)          WEFT_RENAMED(weft_thread_reduce)
#define weft_thread_reduce_to_scaled(...)   WEFT_RENAMED(weft_thread_reduce_scaled)
#define weft_thread_reduce_to_weighted(...) WEFT_RENAMED(weft_thread_reduce_weighted)
#define weft_warp_fcollect(...)             WEFT_RENAMED(weft_warp_allgather)
#define weft_warp_reduce_to(...)            WEFT_RENAMED(weft_warp_reduce)
#define weft_warp_reduce_to_scaled(...)     WEFT_RENAMED(weft_warp_reduce_scaled)
#define weft_warp_reduce_to_weighted(...)   WEFT_RENAMED(weft_warp_reduce_weighted)
#define weft_block_fcollect(...)            WEFT_RENAMED(weft_block_allgather)
#define weft_block_reduce_to(...)           WEFT_RENAMED(weft_block_reduce)
#define weft_block_reduce_to_scaled(...)    WEFT_RENAMED(weft_block_reduce_scaled)
#define weft_block_reduce_to_weighted(...)  WEFT_RENAMED(weft_block_reduce_weighted)
#define weft_grid_fcollect(...)             WEFT_RENAMED(weft_grid_allgather)
#define weft_grid_reduce_to(...)            WEFT_RENAMED(weft_grid_reduce)
#define weft_grid_reduce_to_scaled(...)     WEFT_RENAMED(weft_grid_reduce_scaled)
#define weft_grid_reduce_to_weighted(...)   WEFT_RENAMED(weft_grid_reduce_weighted)
#define weft_blocks_fcollect(...)           WEFT_RENAMED(weft_blocks_allgather)
#define weft_blocks_reduce_to(...)          WEFT_RENAMED(weft_blocks_reduce)
#define weft_blocks_reduce_to_scaled(...)   WEFT_RENAMED(weft_blocks_reduce_scaled)
#define weft_blocks_reduce_to_weighted(...) WEFT_RENAMED(weft_blocks_reduce_weighted)

/* Hints had no effect. */
#define WEFT_ALLOC_ATOMICS weft_error_this_hint_of_version_0_1_is_gone
#define WEFT_ALLOC_SIGNALS weft_error_this_hint_of_version_0_1_is_gone

#endif
