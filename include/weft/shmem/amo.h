/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSHMEM 1.5: atomic memory operations (9.7), blocking and non-blocking. */

/* Each macro describes the two forms of a routine: on the default context and on a given one. The
 * last argument is the operand in the form of the host API. */
#define WEFT_SHMEM_AMO_SET(NAME, TYPE, form, call, ...)                                            \
    WEFT_SHMEM_INLINE_VOID(shmem_##NAME##_atomic_##form, (TYPE * dest, TYPE value, int pe),        \
                           (dest, value, pe),                                                      \
                           WEFT_SHMEM_CHECK(call(WEFT_SHMEM_JOB.ctx, dest, __VA_ARGS__, pe));)     \
    WEFT_SHMEM_INLINE_VOID(shmem_ctx_##NAME##_atomic_##form,                                       \
                           (shmem_ctx_t ctx, TYPE * dest, TYPE value, int pe),                     \
                           (ctx, dest, value, pe),                                                 \
                           WEFT_SHMEM_CHECK(call(weft_shmem_ctx(ctx), dest, __VA_ARGS__, pe));)

#define WEFT_SHMEM_AMO_FETCH_SET(NAME, TYPE, bits, form, call, ...)                                \
    WEFT_SHMEM_INLINE(TYPE, shmem_##NAME##_atomic_##form, (TYPE * dest, TYPE value, int pe),       \
                      (dest, value, pe), uint##bits##_t word = 0;                                  \
                      TYPE fetched;                                                                \
                      WEFT_SHMEM_CHECK(call(WEFT_SHMEM_JOB.ctx, dest, __VA_ARGS__, &word, pe));    \
                      __builtin_memcpy(&fetched, &word, sizeof fetched); return fetched;)          \
    WEFT_SHMEM_INLINE(TYPE, shmem_ctx_##NAME##_atomic_##form,                                      \
                      (shmem_ctx_t ctx, TYPE * dest, TYPE value, int pe), (ctx, dest, value, pe),  \
                      uint##bits##_t word = 0;                                                     \
                      TYPE fetched;                                                                \
                      WEFT_SHMEM_CHECK(call(weft_shmem_ctx(ctx), dest, __VA_ARGS__, &word, pe));   \
                      __builtin_memcpy(&fetched, &word, sizeof fetched); return fetched;)

#define WEFT_SHMEM_AMO_NBI(NAME, TYPE, form, amo, ...)                                             \
    WEFT_SHMEM_INLINE_VOID(shmem_##NAME##_atomic_##form,                                           \
                           (TYPE * fetch, TYPE * dest, TYPE value, int pe),                        \
                           (fetch, dest, value, pe),                                               \
                           WEFT_SHMEM_CHECK(weft_atomic_nbi(WEFT_SHMEM_JOB.ctx, amo, sizeof(TYPE), \
                                                            dest, 0, __VA_ARGS__, fetch, pe));)    \
    WEFT_SHMEM_INLINE_VOID(                                                                        \
        shmem_ctx_##NAME##_atomic_##form,                                                          \
        (shmem_ctx_t ctx, TYPE * fetch, TYPE * dest, TYPE value, int pe),                          \
        (ctx, fetch, dest, value, pe),                                                             \
        WEFT_SHMEM_CHECK(weft_atomic_nbi(weft_shmem_ctx(ctx), amo, sizeof(TYPE), dest, 0,          \
                                         __VA_ARGS__, fetch, pe));)

WEFT_SHMEM_GROUP("9.7", "shmem_atomic_fetch")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_INLINE(TYPE, shmem_##NAME##_atomic_fetch, (const TYPE *source, int pe),             \
                      (source, pe), uint##bits##_t word = 0;                                       \
                      TYPE fetched; WEFT_SHMEM_CHECK(                                              \
                          weft_atomic_fetch##bits(WEFT_SHMEM_JOB.ctx, source, &word, pe));         \
                      __builtin_memcpy(&fetched, &word, sizeof fetched); return fetched;)          \
    WEFT_SHMEM_INLINE(                                                                             \
        TYPE, shmem_ctx_##NAME##_atomic_fetch, (shmem_ctx_t ctx, const TYPE *source, int pe),      \
        (ctx, source, pe), uint##bits##_t word = 0;                                                \
        TYPE fetched;                                                                              \
        WEFT_SHMEM_CHECK(weft_atomic_fetch##bits(weft_shmem_ctx(ctx), source, &word, pe));         \
        __builtin_memcpy(&fetched, &word, sizeof fetched); return fetched;)
WEFT_SHMEM_AMO_EXTENDED_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

WEFT_SHMEM_GROUP("9.7", "shmem_atomic_set")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_AMO_SET(NAME, TYPE, set, weft_atomic_set##bits, weft_shmem_bits##bits(&value))
WEFT_SHMEM_AMO_EXTENDED_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

WEFT_SHMEM_GROUP("9.7", "shmem_atomic_compare_swap")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_INLINE(                                                                             \
        TYPE, shmem_##NAME##_atomic_compare_swap, (TYPE * dest, TYPE cond, TYPE value, int pe),    \
        (dest, cond, value, pe), uint##bits##_t word = 0;                                          \
        WEFT_SHMEM_CHECK(weft_atomic_cswap##bits(WEFT_SHMEM_JOB.ctx, dest, (uint##bits##_t)cond,   \
                                                 (uint##bits##_t)value, &word, pe));               \
        return (TYPE)word;)                                                                        \
    WEFT_SHMEM_INLINE(                                                                             \
        TYPE, shmem_ctx_##NAME##_atomic_compare_swap,                                              \
        (shmem_ctx_t ctx, TYPE * dest, TYPE cond, TYPE value, int pe),                             \
        (ctx, dest, cond, value, pe), uint##bits##_t word = 0;                                     \
        WEFT_SHMEM_CHECK(weft_atomic_cswap##bits(weft_shmem_ctx(ctx), dest, (uint##bits##_t)cond,  \
                                                 (uint##bits##_t)value, &word, pe));               \
        return (TYPE)word;)
WEFT_SHMEM_AMO_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

WEFT_SHMEM_GROUP("9.7", "shmem_atomic_swap")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_AMO_FETCH_SET(NAME, TYPE, bits, swap, weft_atomic_swap##bits,                       \
                             weft_shmem_bits##bits(&value))
WEFT_SHMEM_AMO_EXTENDED_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

WEFT_SHMEM_GROUP("9.7", "shmem_atomic_fetch_inc")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_INLINE(                                                                             \
        TYPE, shmem_##NAME##_atomic_fetch_inc, (TYPE * dest, int pe), (dest, pe),                  \
        uint##bits##_t word = 0;                                                                   \
        WEFT_SHMEM_CHECK(weft_atomic_fetch_add##bits(WEFT_SHMEM_JOB.ctx, dest, 1, &word, pe));     \
        return (TYPE)word;)                                                                        \
    WEFT_SHMEM_INLINE(                                                                             \
        TYPE, shmem_ctx_##NAME##_atomic_fetch_inc, (shmem_ctx_t ctx, TYPE * dest, int pe),         \
        (ctx, dest, pe), uint##bits##_t word = 0;                                                  \
        WEFT_SHMEM_CHECK(weft_atomic_fetch_add##bits(weft_shmem_ctx(ctx), dest, 1, &word, pe));    \
        return (TYPE)word;)
WEFT_SHMEM_AMO_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

WEFT_SHMEM_GROUP("9.7", "shmem_atomic_inc")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_INLINE_VOID(                                                                        \
        shmem_##NAME##_atomic_inc, (TYPE * dest, int pe), (dest, pe),                              \
        WEFT_SHMEM_CHECK(weft_atomic_add##bits(WEFT_SHMEM_JOB.ctx, dest, 1, pe));)                 \
    WEFT_SHMEM_INLINE_VOID(                                                                        \
        shmem_ctx_##NAME##_atomic_inc, (shmem_ctx_t ctx, TYPE * dest, int pe), (ctx, dest, pe),    \
        WEFT_SHMEM_CHECK(weft_atomic_add##bits(weft_shmem_ctx(ctx), dest, 1, pe));)
WEFT_SHMEM_AMO_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

WEFT_SHMEM_GROUP("9.7", "shmem_atomic_fetch_add")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_AMO_FETCH_SET(NAME, TYPE, bits, fetch_add, weft_atomic_fetch_add##bits,             \
                             (uint##bits##_t)value)
WEFT_SHMEM_AMO_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

WEFT_SHMEM_GROUP("9.7", "shmem_atomic_add")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_AMO_SET(NAME, TYPE, add, weft_atomic_add##bits, (uint##bits##_t)value)
WEFT_SHMEM_AMO_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

#define WEFT_SHMEM_TYPED_FETCH(op, NAME, TYPE, bits)                                               \
    WEFT_SHMEM_AMO_FETCH_SET(NAME, TYPE, bits, fetch_##op, weft_atomic_fetch_##op##bits,           \
                             (uint##bits##_t)value)
#define WEFT_SHMEM_TYPED(op, NAME, TYPE, bits)                                                     \
    WEFT_SHMEM_AMO_SET(NAME, TYPE, op, weft_atomic_##op##bits, (uint##bits##_t)value)
WEFT_SHMEM_GROUP("9.7", "shmem_atomic_fetch_and")
WEFT_SHMEM_AMO_BITWISE_TYPES(WEFT_SHMEM_TYPED_FETCH, and)
WEFT_SHMEM_GROUP("9.7", "shmem_atomic_and")
WEFT_SHMEM_AMO_BITWISE_TYPES(WEFT_SHMEM_TYPED, and)
WEFT_SHMEM_GROUP("9.7", "shmem_atomic_fetch_or")
WEFT_SHMEM_AMO_BITWISE_TYPES(WEFT_SHMEM_TYPED_FETCH, or)
WEFT_SHMEM_GROUP("9.7", "shmem_atomic_or")
WEFT_SHMEM_AMO_BITWISE_TYPES(WEFT_SHMEM_TYPED, or)
WEFT_SHMEM_GROUP("9.7", "shmem_atomic_fetch_xor")
WEFT_SHMEM_AMO_BITWISE_TYPES(WEFT_SHMEM_TYPED_FETCH, xor)
WEFT_SHMEM_GROUP("9.7", "shmem_atomic_xor")
WEFT_SHMEM_AMO_BITWISE_TYPES(WEFT_SHMEM_TYPED, xor)
#undef WEFT_SHMEM_TYPED
#undef WEFT_SHMEM_TYPED_FETCH

WEFT_SHMEM_GROUP("9.7", "shmem_atomic_fetch_nbi")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_INLINE_VOID(                                                                        \
        shmem_##NAME##_atomic_fetch_nbi, (TYPE * fetch, const TYPE *source, int pe),               \
        (fetch, source, pe),                                                                       \
        WEFT_SHMEM_CHECK(weft_atomic_nbi(WEFT_SHMEM_JOB.ctx, WEFT_AMO_FETCH, sizeof(TYPE),         \
                                         (TYPE *)source, 0, 0, fetch, pe));)                       \
    WEFT_SHMEM_INLINE_VOID(                                                                        \
        shmem_ctx_##NAME##_atomic_fetch_nbi,                                                       \
        (shmem_ctx_t ctx, TYPE * fetch, const TYPE *source, int pe), (ctx, fetch, source, pe),     \
        WEFT_SHMEM_CHECK(weft_atomic_nbi(weft_shmem_ctx(ctx), WEFT_AMO_FETCH, sizeof(TYPE),        \
                                         (TYPE *)source, 0, 0, fetch, pe));)
WEFT_SHMEM_AMO_EXTENDED_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

WEFT_SHMEM_GROUP("9.7", "shmem_atomic_compare_swap_nbi")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_INLINE_VOID(                                                                        \
        shmem_##NAME##_atomic_compare_swap_nbi,                                                    \
        (TYPE * fetch, TYPE * dest, TYPE cond, TYPE value, int pe),                                \
        (fetch, dest, cond, value, pe),                                                            \
        WEFT_SHMEM_CHECK(weft_atomic_nbi(WEFT_SHMEM_JOB.ctx, WEFT_AMO_CSWAP, sizeof(TYPE), dest,   \
                                         (uint64_t)cond, (uint64_t)value, fetch, pe));)            \
    WEFT_SHMEM_INLINE_VOID(                                                                        \
        shmem_ctx_##NAME##_atomic_compare_swap_nbi,                                                \
        (shmem_ctx_t ctx, TYPE * fetch, TYPE * dest, TYPE cond, TYPE value, int pe),               \
        (ctx, fetch, dest, cond, value, pe),                                                       \
        WEFT_SHMEM_CHECK(weft_atomic_nbi(weft_shmem_ctx(ctx), WEFT_AMO_CSWAP, sizeof(TYPE), dest,  \
                                         (uint64_t)cond, (uint64_t)value, fetch, pe));)
WEFT_SHMEM_AMO_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

WEFT_SHMEM_GROUP("9.7", "shmem_atomic_swap_nbi")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_AMO_NBI(NAME, TYPE, swap_nbi, WEFT_AMO_SWAP, weft_shmem_bits##bits(&value))
WEFT_SHMEM_AMO_EXTENDED_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

WEFT_SHMEM_GROUP("9.7", "shmem_atomic_fetch_inc_nbi")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_INLINE_VOID(                                                                        \
        shmem_##NAME##_atomic_fetch_inc_nbi, (TYPE * fetch, TYPE * dest, int pe),                  \
        (fetch, dest, pe),                                                                         \
        WEFT_SHMEM_CHECK(weft_atomic_nbi(WEFT_SHMEM_JOB.ctx, WEFT_AMO_FETCH_ADD, sizeof(TYPE),     \
                                         dest, 0, 1, fetch, pe));)                                 \
    WEFT_SHMEM_INLINE_VOID(                                                                        \
        shmem_ctx_##NAME##_atomic_fetch_inc_nbi,                                                   \
        (shmem_ctx_t ctx, TYPE * fetch, TYPE * dest, int pe), (ctx, fetch, dest, pe),              \
        WEFT_SHMEM_CHECK(weft_atomic_nbi(weft_shmem_ctx(ctx), WEFT_AMO_FETCH_ADD, sizeof(TYPE),    \
                                         dest, 0, 1, fetch, pe));)
WEFT_SHMEM_AMO_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

WEFT_SHMEM_GROUP("9.7", "shmem_atomic_fetch_add_nbi")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_AMO_NBI(NAME, TYPE, fetch_add_nbi, WEFT_AMO_FETCH_ADD, (uint64_t)value)
WEFT_SHMEM_AMO_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

WEFT_SHMEM_GROUP("9.7", "shmem_atomic_fetch_and_nbi")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_AMO_NBI(NAME, TYPE, fetch_and_nbi, WEFT_AMO_FETCH_AND, (uint64_t)value)
WEFT_SHMEM_AMO_BITWISE_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

WEFT_SHMEM_GROUP("9.7", "shmem_atomic_fetch_or_nbi")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_AMO_NBI(NAME, TYPE, fetch_or_nbi, WEFT_AMO_FETCH_OR, (uint64_t)value)
WEFT_SHMEM_AMO_BITWISE_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

WEFT_SHMEM_GROUP("9.7", "shmem_atomic_fetch_xor_nbi")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_AMO_NBI(NAME, TYPE, fetch_xor_nbi, WEFT_AMO_FETCH_XOR, (uint64_t)value)
WEFT_SHMEM_AMO_BITWISE_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

#undef WEFT_SHMEM_AMO_SET
#undef WEFT_SHMEM_AMO_FETCH_SET
#undef WEFT_SHMEM_AMO_NBI
