/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSHMEM: names that the standard deprecated in 1.1 to 1.4 (annex F of 1.5, all still required),
 * and a few older names that programs for SGI SHMEM use. */

WEFT_SHMEM_GROUP("9.1", "start_pes")
WEFT_SHMEM_EXTERN(void, start_pes, (int npes))

WEFT_SHMEM_GROUP("annex F", "_my_pe")
WEFT_SHMEM_EXTERN(int, _my_pe, (void))
WEFT_SHMEM_EXTERN(int, _num_pes, (void))
WEFT_SHMEM_EXTERN(void *, shmalloc, (size_t size))
WEFT_SHMEM_EXTERN(void, shfree, (void *ptr))
WEFT_SHMEM_EXTERN(void *, shrealloc, (void *ptr, size_t size))
WEFT_SHMEM_EXTERN(void *, shmemalign, (size_t alignment, size_t size))

/* Names from before OpenSHMEM 1.0. */
WEFT_SHMEM_GROUP("annex F", "my_pe")
WEFT_SHMEM_EXTERN(int, my_pe, (void))
WEFT_SHMEM_EXTERN(int, num_pes, (void))

WEFT_SHMEM_GROUP("9.10", "shmem_wait")
WEFT_SHMEM_INLINE_VOID(shmem_wait, (long *ivar, long cmp_value), (ivar, cmp_value),
                       WEFT_SHMEM_CHECK(weft_wait_until(WEFT_SHMEM_JOB.ctx, WEFT_INT64, ivar,
                                                        WEFT_NE, (uint64_t)cmp_value));)
WEFT_SHMEM_INLINE_VOID(shmem_wait_until, (long *ivar, int cmp, long cmp_value),
                       (ivar, cmp, cmp_value),
                       WEFT_SHMEM_CHECK(weft_wait_until(WEFT_SHMEM_JOB.ctx, WEFT_INT64, ivar,
                                                        (weft_cmp)cmp, (uint64_t)cmp_value));)
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, code)                                                    \
    WEFT_SHMEM_INLINE_VOID(shmem_##NAME##_wait, (TYPE * ivar, TYPE cmp_value), (ivar, cmp_value),  \
                           WEFT_SHMEM_CHECK(weft_wait_until(WEFT_SHMEM_JOB.ctx, code, ivar,        \
                                                            WEFT_NE, (uint64_t)cmp_value));)
WEFT_SHMEM_OLD_WAIT_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

WEFT_SHMEM_GROUP("9.7", "shmem_finc")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_INLINE(                                                                             \
        TYPE, shmem_##NAME##_finc, (TYPE * dest, int pe), (dest, pe), uint##bits##_t word = 0;     \
        WEFT_SHMEM_CHECK(weft_atomic_fetch_add##bits(WEFT_SHMEM_JOB.ctx, dest, 1, &word, pe));     \
        return (TYPE)word;)                                                                        \
    WEFT_SHMEM_INLINE(TYPE, shmem_##NAME##_fadd, (TYPE * dest, TYPE value, int pe),                \
                      (dest, value, pe), uint##bits##_t word = 0;                                  \
                      WEFT_SHMEM_CHECK(weft_atomic_fetch_add##bits(                                \
                          WEFT_SHMEM_JOB.ctx, dest, (uint##bits##_t)value, &word, pe));            \
                      return (TYPE)word;)                                                          \
    WEFT_SHMEM_INLINE_VOID(                                                                        \
        shmem_##NAME##_inc, (TYPE * dest, int pe), (dest, pe),                                     \
        WEFT_SHMEM_CHECK(weft_atomic_add##bits(WEFT_SHMEM_JOB.ctx, dest, 1, pe));)                 \
    WEFT_SHMEM_INLINE_VOID(shmem_##NAME##_add, (TYPE * dest, TYPE value, int pe),                  \
                           (dest, value, pe),                                                      \
                           WEFT_SHMEM_CHECK(weft_atomic_add##bits(WEFT_SHMEM_JOB.ctx, dest,        \
                                                                  (uint##bits##_t)value, pe));)    \
    WEFT_SHMEM_INLINE(                                                                             \
        TYPE, shmem_##NAME##_cswap, (TYPE * dest, TYPE cond, TYPE value, int pe),                  \
        (dest, cond, value, pe), uint##bits##_t word = 0;                                          \
        WEFT_SHMEM_CHECK(weft_atomic_cswap##bits(WEFT_SHMEM_JOB.ctx, dest, (uint##bits##_t)cond,   \
                                                 (uint##bits##_t)value, &word, pe));               \
        return (TYPE)word;)
WEFT_SHMEM_OLD_AMO_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

WEFT_SHMEM_GROUP("9.7", "shmem_swap")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_INLINE(TYPE, shmem_##NAME##_fetch, (const TYPE *source, int pe), (source, pe),      \
                      uint##bits##_t word = 0;                                                     \
                      TYPE fetched; WEFT_SHMEM_CHECK(                                              \
                          weft_atomic_fetch##bits(WEFT_SHMEM_JOB.ctx, source, &word, pe));         \
                      __builtin_memcpy(&fetched, &word, sizeof fetched); return fetched;)          \
    WEFT_SHMEM_INLINE_VOID(shmem_##NAME##_set, (TYPE * dest, TYPE value, int pe),                  \
                           (dest, value, pe),                                                      \
                           WEFT_SHMEM_CHECK(weft_atomic_set##bits(                                 \
                               WEFT_SHMEM_JOB.ctx, dest, weft_shmem_bits##bits(&value), pe));)     \
    WEFT_SHMEM_INLINE(TYPE, shmem_##NAME##_swap, (TYPE * dest, TYPE value, int pe),                \
                      (dest, value, pe), uint##bits##_t word = 0;                                  \
                      TYPE fetched; WEFT_SHMEM_CHECK(weft_atomic_swap##bits(                       \
                          WEFT_SHMEM_JOB.ctx, dest, weft_shmem_bits##bits(&value), &word, pe));    \
                      __builtin_memcpy(&fetched, &word, sizeof fetched); return fetched;)
WEFT_SHMEM_OLD_AMO_EXTENDED_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED
WEFT_SHMEM_INLINE(long, shmem_swap, (long *dest, long value, int pe), (dest, value, pe),
                  uint64_t word = 0;
                  WEFT_SHMEM_CHECK(weft_atomic_swap64(WEFT_SHMEM_JOB.ctx, dest, (uint64_t)value,
                                                      &word, pe));
                  return (long)word;)

WEFT_SHMEM_GROUP("9.13", "shmem_udcflush")
WEFT_SHMEM_EXTERN(void, shmem_set_cache_inv, (void))
WEFT_SHMEM_EXTERN(void, shmem_set_cache_line_inv, (void *dest))
WEFT_SHMEM_EXTERN(void, shmem_clear_cache_inv, (void))
WEFT_SHMEM_EXTERN(void, shmem_clear_cache_line_inv, (void *dest))
WEFT_SHMEM_EXTERN(void, shmem_udcflush, (void))
WEFT_SHMEM_EXTERN(void, shmem_udcflush_line, (void *dest))
