/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSHMEM 1.5: remote memory access (9.6) and signalling (9.8). Sizes are in elements. */

/* The two forms of a routine: on the default context and on a given one. */
#define WEFT_SHMEM_PUT_PAIR(form, TYPE, call, bytes)                                               \
    WEFT_SHMEM_INLINE_VOID(                                                                        \
        shmem_##form, (TYPE * dest, const TYPE *source, size_t nelems, int pe),                    \
        (dest, source, nelems, pe),                                                                \
        WEFT_SHMEM_CHECK(call(WEFT_SHMEM_JOB.ctx, dest, source, nelems *(bytes), pe));)            \
    WEFT_SHMEM_INLINE_VOID(                                                                        \
        shmem_ctx_##form,                                                                          \
        (shmem_ctx_t ctx, TYPE * dest, const TYPE *source, size_t nelems, int pe),                 \
        (ctx, dest, source, nelems, pe),                                                           \
        WEFT_SHMEM_CHECK(call(weft_shmem_ctx(ctx), dest, source, nelems *(bytes), pe));)

#define WEFT_SHMEM_STRIDED_PAIR(form, TYPE, call, bytes)                                           \
    WEFT_SHMEM_INLINE_VOID(                                                                        \
        shmem_##form,                                                                              \
        (TYPE * dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe),    \
        (dest, source, dst, sst, nelems, pe),                                                      \
        WEFT_SHMEM_CHECK(call(WEFT_SHMEM_JOB.ctx, dest, source, dst, sst, (bytes), nelems, pe));)  \
    WEFT_SHMEM_INLINE_VOID(                                                                        \
        shmem_ctx_##form,                                                                          \
        (shmem_ctx_t ctx, TYPE * dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst,           \
         size_t nelems, int pe),                                                                   \
        (ctx, dest, source, dst, sst, nelems, pe),                                                 \
        WEFT_SHMEM_CHECK(call(weft_shmem_ctx(ctx), dest, source, dst, sst, (bytes), nelems, pe));)

#define WEFT_SHMEM_PUT_SIGNAL_PAIR(form, TYPE, call, bytes)                                        \
    WEFT_SHMEM_INLINE_VOID(                                                                        \
        shmem_##form,                                                                              \
        (TYPE * dest, const TYPE *source, size_t nelems, uint64_t *sig_addr, uint64_t signal,      \
         int sig_op, int pe),                                                                      \
        (dest, source, nelems, sig_addr, signal, sig_op, pe),                                      \
        WEFT_SHMEM_CHECK(call(WEFT_SHMEM_JOB.ctx, dest, source, nelems *(bytes), sig_addr, signal, \
                              (weft_signal_op)sig_op, pe));)                                       \
    WEFT_SHMEM_INLINE_VOID(                                                                        \
        shmem_ctx_##form,                                                                          \
        (shmem_ctx_t ctx, TYPE * dest, const TYPE *source, size_t nelems, uint64_t *sig_addr,      \
         uint64_t signal, int sig_op, int pe),                                                     \
        (ctx, dest, source, nelems, sig_addr, signal, sig_op, pe),                                 \
        WEFT_SHMEM_CHECK(call(weft_shmem_ctx(ctx), dest, source, nelems *(bytes), sig_addr,        \
                              signal, (weft_signal_op)sig_op, pe));)

WEFT_SHMEM_GROUP("9.6", "shmem_put")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_PUT_PAIR(NAME##_put, TYPE, weft_put, sizeof(TYPE))
#define WEFT_SHMEM_SIZED(arg, bits) WEFT_SHMEM_PUT_PAIR(put##bits, void, weft_put, (bits) / 8)
WEFT_SHMEM_RMA_TYPES(WEFT_SHMEM_TYPED, )
WEFT_SHMEM_SIZES(WEFT_SHMEM_SIZED, )
WEFT_SHMEM_PUT_PAIR(putmem, void, weft_put, 1)
#undef WEFT_SHMEM_TYPED
#undef WEFT_SHMEM_SIZED

WEFT_SHMEM_GROUP("9.6", "shmem_p")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_INLINE_VOID(                                                                        \
        shmem_##NAME##_p, (TYPE * dest, TYPE value, int pe), (dest, value, pe),                    \
        WEFT_SHMEM_CHECK(weft_shmem_p##bits(WEFT_SHMEM_JOB.ctx, dest, &value, pe));)               \
    WEFT_SHMEM_INLINE_VOID(                                                                        \
        shmem_ctx_##NAME##_p, (shmem_ctx_t ctx, TYPE * dest, TYPE value, int pe),                  \
        (ctx, dest, value, pe),                                                                    \
        WEFT_SHMEM_CHECK(weft_shmem_p##bits(weft_shmem_ctx(ctx), dest, &value, pe));)
WEFT_SHMEM_RMA_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

WEFT_SHMEM_GROUP("9.6", "shmem_iput")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_STRIDED_PAIR(NAME##_iput, TYPE, weft_iput, sizeof(TYPE))
#define WEFT_SHMEM_SIZED(arg, bits) WEFT_SHMEM_STRIDED_PAIR(iput##bits, void, weft_iput, (bits) / 8)
WEFT_SHMEM_RMA_TYPES(WEFT_SHMEM_TYPED, )
WEFT_SHMEM_SIZES(WEFT_SHMEM_SIZED, )
#undef WEFT_SHMEM_TYPED
#undef WEFT_SHMEM_SIZED

WEFT_SHMEM_GROUP("9.6", "shmem_get")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_PUT_PAIR(NAME##_get, TYPE, weft_get, sizeof(TYPE))
#define WEFT_SHMEM_SIZED(arg, bits) WEFT_SHMEM_PUT_PAIR(get##bits, void, weft_get, (bits) / 8)
WEFT_SHMEM_RMA_TYPES(WEFT_SHMEM_TYPED, )
WEFT_SHMEM_SIZES(WEFT_SHMEM_SIZED, )
WEFT_SHMEM_PUT_PAIR(getmem, void, weft_get, 1)
#undef WEFT_SHMEM_TYPED
#undef WEFT_SHMEM_SIZED

WEFT_SHMEM_GROUP("9.6", "shmem_g")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_INLINE(                                                                             \
        TYPE, shmem_##NAME##_g, (const TYPE *source, int pe), (source, pe), TYPE value;            \
        WEFT_SHMEM_CHECK(weft_shmem_g##bits(WEFT_SHMEM_JOB.ctx, source, &value, pe));              \
        return value;)                                                                             \
    WEFT_SHMEM_INLINE(                                                                             \
        TYPE, shmem_ctx_##NAME##_g, (shmem_ctx_t ctx, const TYPE *source, int pe),                 \
        (ctx, source, pe), TYPE value;                                                             \
        WEFT_SHMEM_CHECK(weft_shmem_g##bits(weft_shmem_ctx(ctx), source, &value, pe));             \
        return value;)
WEFT_SHMEM_RMA_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

WEFT_SHMEM_GROUP("9.6", "shmem_iget")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_STRIDED_PAIR(NAME##_iget, TYPE, weft_iget, sizeof(TYPE))
#define WEFT_SHMEM_SIZED(arg, bits) WEFT_SHMEM_STRIDED_PAIR(iget##bits, void, weft_iget, (bits) / 8)
WEFT_SHMEM_RMA_TYPES(WEFT_SHMEM_TYPED, )
WEFT_SHMEM_SIZES(WEFT_SHMEM_SIZED, )
#undef WEFT_SHMEM_TYPED
#undef WEFT_SHMEM_SIZED

WEFT_SHMEM_GROUP("9.6", "shmem_put_nbi")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_PUT_PAIR(NAME##_put_nbi, TYPE, weft_put_nbi, sizeof(TYPE))
#define WEFT_SHMEM_SIZED(arg, bits)                                                                \
    WEFT_SHMEM_PUT_PAIR(put##bits##_nbi, void, weft_put_nbi, (bits) / 8)
WEFT_SHMEM_RMA_TYPES(WEFT_SHMEM_TYPED, )
WEFT_SHMEM_SIZES(WEFT_SHMEM_SIZED, )
WEFT_SHMEM_PUT_PAIR(putmem_nbi, void, weft_put_nbi, 1)
#undef WEFT_SHMEM_TYPED
#undef WEFT_SHMEM_SIZED

WEFT_SHMEM_GROUP("9.6", "shmem_get_nbi")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_PUT_PAIR(NAME##_get_nbi, TYPE, weft_get_nbi, sizeof(TYPE))
#define WEFT_SHMEM_SIZED(arg, bits)                                                                \
    WEFT_SHMEM_PUT_PAIR(get##bits##_nbi, void, weft_get_nbi, (bits) / 8)
WEFT_SHMEM_RMA_TYPES(WEFT_SHMEM_TYPED, )
WEFT_SHMEM_SIZES(WEFT_SHMEM_SIZED, )
WEFT_SHMEM_PUT_PAIR(getmem_nbi, void, weft_get_nbi, 1)
#undef WEFT_SHMEM_TYPED
#undef WEFT_SHMEM_SIZED

WEFT_SHMEM_GROUP("9.8", "shmem_put_signal")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_PUT_SIGNAL_PAIR(NAME##_put_signal, TYPE, weft_put_signal, sizeof(TYPE))
#define WEFT_SHMEM_SIZED(arg, bits)                                                                \
    WEFT_SHMEM_PUT_SIGNAL_PAIR(put##bits##_signal, void, weft_put_signal, (bits) / 8)
WEFT_SHMEM_RMA_TYPES(WEFT_SHMEM_TYPED, )
WEFT_SHMEM_SIZES(WEFT_SHMEM_SIZED, )
WEFT_SHMEM_PUT_SIGNAL_PAIR(putmem_signal, void, weft_put_signal, 1)
#undef WEFT_SHMEM_TYPED
#undef WEFT_SHMEM_SIZED

WEFT_SHMEM_GROUP("9.8", "shmem_put_signal_nbi")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, bits)                                                    \
    WEFT_SHMEM_PUT_SIGNAL_PAIR(NAME##_put_signal_nbi, TYPE, weft_put_signal_nbi, sizeof(TYPE))
#define WEFT_SHMEM_SIZED(arg, bits)                                                                \
    WEFT_SHMEM_PUT_SIGNAL_PAIR(put##bits##_signal_nbi, void, weft_put_signal_nbi, (bits) / 8)
WEFT_SHMEM_RMA_TYPES(WEFT_SHMEM_TYPED, )
WEFT_SHMEM_SIZES(WEFT_SHMEM_SIZED, )
WEFT_SHMEM_PUT_SIGNAL_PAIR(putmem_signal_nbi, void, weft_put_signal_nbi, 1)
#undef WEFT_SHMEM_TYPED
#undef WEFT_SHMEM_SIZED

WEFT_SHMEM_GROUP("9.8", "shmem_signal_fetch")
WEFT_SHMEM_INLINE(uint64_t, shmem_signal_fetch, (const uint64_t *sig_addr), (sig_addr),
                  uint64_t value = 0;
                  WEFT_SHMEM_CHECK(weft_signal_fetch(WEFT_SHMEM_JOB.ctx, sig_addr, &value));
                  return value;)

#undef WEFT_SHMEM_PUT_PAIR
#undef WEFT_SHMEM_STRIDED_PAIR
#undef WEFT_SHMEM_PUT_SIGNAL_PAIR
