/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSHMEM 1.5, section 9.9: typed collective routines over a team, made from the lists of the
 * headers. Each is a call of the host API with sizes in bytes. */
#include "shmem/routine.h"

static weft_status no_team(void)
{
    return base_fail(WEFT_ERR_ARGUMENT, "the team is SHMEM_TEAM_INVALID");
}

/* Defines one routine; `members` is the team in the call of the host API. */
#define DEFINE(name, params, call)                                                                 \
    SHMEM_ROUTINE(int, name, params)                                                               \
    {                                                                                              \
        weft_team *members = shmem_team_of(team);                                                  \
        return shmem_result(__func__, likely(members != NULL) ? (call) : no_team());               \
    }

#define ALLTOALL(name, TYPE, bytes)                                                                \
    DEFINE(name, (shmem_team_t team, TYPE * dest, const TYPE *source, size_t nelems),              \
           weft_alltoall(members, dest, source, nelems *(bytes)))
#define ALLTOALLS(name, TYPE, bytes)                                                               \
    DEFINE(name,                                                                                   \
           (shmem_team_t team, TYPE * dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst,      \
            size_t nelems),                                                                        \
           weft_alltoalls(members, dest, source, dst, sst, (bytes), nelems))
#define BROADCAST(name, TYPE, bytes)                                                               \
    DEFINE(name, (shmem_team_t team, TYPE * dest, const TYPE *source, size_t nelems, int PE_root), \
           weft_broadcast(members, dest, source, nelems *(bytes), PE_root))
#define COLLECT(name, TYPE, bytes)                                                                 \
    DEFINE(name, (shmem_team_t team, TYPE * dest, const TYPE *source, size_t nelems),              \
           weft_collect(members, dest, source, nelems *(bytes)))
#define FCOLLECT(name, TYPE, bytes)                                                                \
    DEFINE(name, (shmem_team_t team, TYPE * dest, const TYPE *source, size_t nelems),              \
           weft_allgather(members, dest, source, nelems *(bytes)))

#define TYPED(arg, NAME, TYPE, bits)                                                               \
    ALLTOALL(shmem_##NAME##_alltoall, TYPE, sizeof(TYPE))                                          \
    ALLTOALLS(shmem_##NAME##_alltoalls, TYPE, sizeof(TYPE))                                        \
    BROADCAST(shmem_##NAME##_broadcast, TYPE, sizeof(TYPE))                                        \
    COLLECT(shmem_##NAME##_collect, TYPE, sizeof(TYPE))                                            \
    FCOLLECT(shmem_##NAME##_fcollect, TYPE, sizeof(TYPE))
WEFT_SHMEM_RMA_TYPES(TYPED, )

ALLTOALL(shmem_alltoallmem, void, 1)
ALLTOALLS(shmem_alltoallsmem, void, 1)
BROADCAST(shmem_broadcastmem, void, 1)
COLLECT(shmem_collectmem, void, 1)
FCOLLECT(shmem_fcollectmem, void, 1)

#define REDUCE_and  WEFT_AND
#define REDUCE_or   WEFT_OR
#define REDUCE_xor  WEFT_XOR
#define REDUCE_max  WEFT_MAX
#define REDUCE_min  WEFT_MIN
#define REDUCE_sum  WEFT_SUM
#define REDUCE_prod WEFT_PROD

#define REDUCE(op, NAME, TYPE, code)                                                               \
    DEFINE(shmem_##NAME##_##op##_reduce,                                                           \
           (shmem_team_t team, TYPE * dest, const TYPE *source, size_t nreduce),                   \
           weft_allreduce(members, dest, source, nreduce, code, REDUCE_##op))
WEFT_SHMEM_REDUCE_BITWISE_TYPES(REDUCE, and)
WEFT_SHMEM_REDUCE_BITWISE_TYPES(REDUCE, or)
WEFT_SHMEM_REDUCE_BITWISE_TYPES(REDUCE, xor)
WEFT_SHMEM_REDUCE_ORDERED_TYPES(REDUCE, max)
WEFT_SHMEM_REDUCE_ORDERED_TYPES(REDUCE, min)
WEFT_SHMEM_REDUCE_ARITHMETIC_TYPES(REDUCE, sum)
WEFT_SHMEM_REDUCE_ARITHMETIC_TYPES(REDUCE, prod)
