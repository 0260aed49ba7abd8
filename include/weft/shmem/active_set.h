/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSHMEM 1.5: collective routines over an active set (9.9), deprecated in favour of teams. An
 * active set is PE_size PEs: PE_start, PE_start + 2^logPE_stride, ... */

#define WEFT_SHMEM_ACTIVE_SET int PE_start, int logPE_stride, int PE_size

WEFT_SHMEM_GROUP("9.9", "shmem_barrier")
WEFT_SHMEM_EXTERN(void, shmem_barrier, (WEFT_SHMEM_ACTIVE_SET, long *pSync))
WEFT_SHMEM_GROUP("9.9", "shmem_sync (active set)")
WEFT_SHMEM_EXTERN(void, shmem_sync, (WEFT_SHMEM_ACTIVE_SET, long *pSync))

#define WEFT_SHMEM_SIZED(arg, bits)                                                                \
    WEFT_SHMEM_EXTERN(                                                                             \
        void, shmem_alltoall##bits,                                                                \
        (void *dest, const void *source, size_t nelems, WEFT_SHMEM_ACTIVE_SET, long *pSync))       \
    WEFT_SHMEM_EXTERN(void, shmem_alltoalls##bits,                                                 \
                      (void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst,               \
                       size_t nelems, WEFT_SHMEM_ACTIVE_SET, long *pSync))
WEFT_SHMEM_GROUP("9.9", "shmem_alltoall (active set)")
WEFT_SHMEM_SIZED(, 32)
WEFT_SHMEM_SIZED(, 64)
#undef WEFT_SHMEM_SIZED

#define WEFT_SHMEM_SIZED(arg, bits)                                                                \
    WEFT_SHMEM_EXTERN(void, shmem_broadcast##bits,                                                 \
                      (void *dest, const void *source, size_t nelems, int PE_root,                 \
                       WEFT_SHMEM_ACTIVE_SET, long *pSync))
WEFT_SHMEM_GROUP("9.9", "shmem_broadcast (active set)")
WEFT_SHMEM_SIZED(, 32)
WEFT_SHMEM_SIZED(, 64)
#undef WEFT_SHMEM_SIZED

#define WEFT_SHMEM_SIZED(arg, bits)                                                                \
    WEFT_SHMEM_EXTERN(                                                                             \
        void, shmem_collect##bits,                                                                 \
        (void *dest, const void *source, size_t nelems, WEFT_SHMEM_ACTIVE_SET, long *pSync))       \
    WEFT_SHMEM_EXTERN(                                                                             \
        void, shmem_fcollect##bits,                                                                \
        (void *dest, const void *source, size_t nelems, WEFT_SHMEM_ACTIVE_SET, long *pSync))
WEFT_SHMEM_GROUP("9.9", "shmem_collect (active set)")
WEFT_SHMEM_SIZED(, 32)
WEFT_SHMEM_SIZED(, 64)
#undef WEFT_SHMEM_SIZED

#define WEFT_SHMEM_TYPED(op, NAME, TYPE, code)                                                     \
    WEFT_SHMEM_EXTERN(void, shmem_##NAME##_##op##_to_all,                                          \
                      (TYPE * dest, const TYPE *source, int nreduce, WEFT_SHMEM_ACTIVE_SET,        \
                       TYPE *pWrk, long *pSync))
WEFT_SHMEM_GROUP("9.9", "shmem_to_all (active set)")
WEFT_SHMEM_TO_ALL_BITWISE_TYPES(WEFT_SHMEM_TYPED, and)
WEFT_SHMEM_TO_ALL_BITWISE_TYPES(WEFT_SHMEM_TYPED, or)
WEFT_SHMEM_TO_ALL_BITWISE_TYPES(WEFT_SHMEM_TYPED, xor)
WEFT_SHMEM_TO_ALL_ORDERED_TYPES(WEFT_SHMEM_TYPED, max)
WEFT_SHMEM_TO_ALL_ORDERED_TYPES(WEFT_SHMEM_TYPED, min)
WEFT_SHMEM_TO_ALL_ARITHMETIC_TYPES(WEFT_SHMEM_TYPED, sum)
WEFT_SHMEM_TO_ALL_ARITHMETIC_TYPES(WEFT_SHMEM_TYPED, prod)
#undef WEFT_SHMEM_TYPED
