/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSHMEM 1.5: collective routines over a team (9.9). Sizes are in elements. Routines that move
 * data are not inline: compared with their work, a call costs nothing. */

WEFT_SHMEM_GROUP("9.9", "shmem_barrier_all")
WEFT_SHMEM_INLINE_VOID(shmem_barrier_all, (void), (),
                       WEFT_SHMEM_CHECK(weft_barrier(WEFT_SHMEM_JOB.world));)
WEFT_SHMEM_GROUP("9.9", "shmem_sync")
WEFT_SHMEM_EXTERN(int, shmem_team_sync, (shmem_team_t team))
WEFT_SHMEM_GROUP("9.9", "shmem_sync_all")
WEFT_SHMEM_INLINE_VOID(shmem_sync_all, (void), (),
                       WEFT_SHMEM_CHECK(weft_sync(WEFT_SHMEM_JOB.world));)

WEFT_SHMEM_GROUP("9.9", "shmem_alltoall")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_EXTERN(int, shmem_##NAME##_alltoall,                                                \
                      (shmem_team_t team, TYPE * dest, const TYPE *source, size_t nelems))
WEFT_SHMEM_RMA_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED
WEFT_SHMEM_EXTERN(int, shmem_alltoallmem,
                  (shmem_team_t team, void *dest, const void *source, size_t nelems))

WEFT_SHMEM_GROUP("9.9", "shmem_alltoalls")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_EXTERN(int, shmem_##NAME##_alltoalls,                                               \
                      (shmem_team_t team, TYPE * dest, const TYPE *source, ptrdiff_t dst,          \
                       ptrdiff_t sst, size_t nelems))
WEFT_SHMEM_RMA_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED
WEFT_SHMEM_EXTERN(int, shmem_alltoallsmem,
                  (shmem_team_t team, void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst,
                   size_t nelems))

WEFT_SHMEM_GROUP("9.9", "shmem_broadcast")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_EXTERN(                                                                             \
        int, shmem_##NAME##_broadcast,                                                             \
        (shmem_team_t team, TYPE * dest, const TYPE *source, size_t nelems, int PE_root))
WEFT_SHMEM_RMA_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED
WEFT_SHMEM_EXTERN(int, shmem_broadcastmem,
                  (shmem_team_t team, void *dest, const void *source, size_t nelems, int PE_root))

WEFT_SHMEM_GROUP("9.9", "shmem_collect")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_EXTERN(int, shmem_##NAME##_collect,                                                 \
                      (shmem_team_t team, TYPE * dest, const TYPE *source, size_t nelems))
WEFT_SHMEM_RMA_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED
WEFT_SHMEM_EXTERN(int, shmem_collectmem,
                  (shmem_team_t team, void *dest, const void *source, size_t nelems))
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_EXTERN(int, shmem_##NAME##_fcollect,                                                \
                      (shmem_team_t team, TYPE * dest, const TYPE *source, size_t nelems))
WEFT_SHMEM_GROUP("9.9", "shmem_fcollect")
WEFT_SHMEM_RMA_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED
WEFT_SHMEM_EXTERN(int, shmem_fcollectmem,
                  (shmem_team_t team, void *dest, const void *source, size_t nelems))

#define WEFT_SHMEM_TYPED(op, NAME, TYPE, code)                                                     \
    WEFT_SHMEM_EXTERN(int, shmem_##NAME##_##op##_reduce,                                           \
                      (shmem_team_t team, TYPE * dest, const TYPE *source, size_t nreduce))
WEFT_SHMEM_GROUP("9.9", "shmem_and_reduce")
WEFT_SHMEM_REDUCE_BITWISE_TYPES(WEFT_SHMEM_TYPED, and)
WEFT_SHMEM_GROUP("9.9", "shmem_or_reduce")
WEFT_SHMEM_REDUCE_BITWISE_TYPES(WEFT_SHMEM_TYPED, or)
WEFT_SHMEM_GROUP("9.9", "shmem_xor_reduce")
WEFT_SHMEM_REDUCE_BITWISE_TYPES(WEFT_SHMEM_TYPED, xor)
WEFT_SHMEM_GROUP("9.9", "shmem_max_reduce")
WEFT_SHMEM_REDUCE_ORDERED_TYPES(WEFT_SHMEM_TYPED, max)
WEFT_SHMEM_GROUP("9.9", "shmem_min_reduce")
WEFT_SHMEM_REDUCE_ORDERED_TYPES(WEFT_SHMEM_TYPED, min)
WEFT_SHMEM_GROUP("9.9", "shmem_sum_reduce")
WEFT_SHMEM_REDUCE_ARITHMETIC_TYPES(WEFT_SHMEM_TYPED, sum)
WEFT_SHMEM_GROUP("9.9", "shmem_prod_reduce")
WEFT_SHMEM_REDUCE_ARITHMETIC_TYPES(WEFT_SHMEM_TYPED, prod)
#undef WEFT_SHMEM_TYPED
