/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSHMEM 1.5: the C11 type-generic routines. A macro selects the typed routine by the type of an
 * argument, and the form with a context when the first argument is a shmem_ctx_t. Qualifiers of the
 * object that a pointer points to do not affect the selection. */
#ifndef WEFT_SHMEM_GENERIC_H
#define WEFT_SHMEM_GENERIC_H

/* Selected for a type that the routine does not support; the call then fails to compile. */
struct weft_shmem_type_is_not_supported_by_this_routine {
    int none;
};
void weft_shmem_unsupported(struct weft_shmem_type_is_not_supported_by_this_routine);

#define WEFT_SHMEM_ARG1(a, ...)     a
#define WEFT_SHMEM_ARG2_(a, b, ...) b
#define WEFT_SHMEM_ARG2(...)        WEFT_SHMEM_ARG2_(__VA_ARGS__, 0)

/* One association of a selection: from a pointer to the type, with any qualifiers, to the
 * routine. */
#define WEFT_SHMEM_TO(form, NAME, TYPE, x)                                                         \
    TYPE * : shmem_##NAME##_##form,                                                                \
             const TYPE * : shmem_##NAME##_##form,                                                 \
                            volatile TYPE * : shmem_##NAME##_##form,                               \
                                              const volatile TYPE * : shmem_##NAME##_##form,
#define WEFT_SHMEM_TO_CTX(form, NAME, TYPE, x)                                                     \
    TYPE * : shmem_ctx_##NAME##_##form,                                                            \
             const TYPE * : shmem_ctx_##NAME##_##form,                                             \
                            volatile TYPE * : shmem_ctx_##NAME##_##form,                           \
                                              const volatile TYPE * : shmem_ctx_##NAME##_##form,

/* Selection by the type of: one argument; the first argument or, after a context, the second; the
 * argument after a team. */
#define WEFT_SHMEM_BY(LIST, form, pointer)                                                         \
    _Generic((pointer), LIST(WEFT_SHMEM_TO, form) default : weft_shmem_unsupported)
#define WEFT_SHMEM_BY_CTX(LIST, form, ...)                                                         \
    _Generic((WEFT_SHMEM_ARG1(__VA_ARGS__, 0)), LIST(WEFT_SHMEM_TO, form) shmem_ctx_t              \
             : _Generic((WEFT_SHMEM_ARG2(__VA_ARGS__, 0)), LIST(WEFT_SHMEM_TO_CTX, form) default   \
                        : weft_shmem_unsupported),                                                 \
               default                                                                             \
             : weft_shmem_unsupported)(__VA_ARGS__)
#define WEFT_SHMEM_BY_FIRST(LIST, form, ...)                                                       \
    WEFT_SHMEM_BY(LIST, form, WEFT_SHMEM_ARG1(__VA_ARGS__, 0))(__VA_ARGS__)
#define WEFT_SHMEM_BY_SECOND(LIST, form, ...)                                                      \
    WEFT_SHMEM_BY(LIST, form, WEFT_SHMEM_ARG2(__VA_ARGS__, 0))(__VA_ARGS__)

/* 9.6 */
#define shmem_put(...)     WEFT_SHMEM_BY_CTX(WEFT_SHMEM_RMA_BASE, put, __VA_ARGS__)
#define shmem_p(...)       WEFT_SHMEM_BY_CTX(WEFT_SHMEM_RMA_BASE, p, __VA_ARGS__)
#define shmem_iput(...)    WEFT_SHMEM_BY_CTX(WEFT_SHMEM_RMA_BASE, iput, __VA_ARGS__)
#define shmem_get(...)     WEFT_SHMEM_BY_CTX(WEFT_SHMEM_RMA_BASE, get, __VA_ARGS__)
#define shmem_g(...)       WEFT_SHMEM_BY_CTX(WEFT_SHMEM_RMA_BASE, g, __VA_ARGS__)
#define shmem_iget(...)    WEFT_SHMEM_BY_CTX(WEFT_SHMEM_RMA_BASE, iget, __VA_ARGS__)
#define shmem_put_nbi(...) WEFT_SHMEM_BY_CTX(WEFT_SHMEM_RMA_BASE, put_nbi, __VA_ARGS__)
#define shmem_get_nbi(...) WEFT_SHMEM_BY_CTX(WEFT_SHMEM_RMA_BASE, get_nbi, __VA_ARGS__)

/* 9.7 */
#define shmem_atomic_fetch(...)                                                                    \
    WEFT_SHMEM_BY_CTX(WEFT_SHMEM_AMO_EXTENDED_BASE, atomic_fetch, __VA_ARGS__)
#define shmem_atomic_set(...)                                                                      \
    WEFT_SHMEM_BY_CTX(WEFT_SHMEM_AMO_EXTENDED_BASE, atomic_set, __VA_ARGS__)
#define shmem_atomic_compare_swap(...)                                                             \
    WEFT_SHMEM_BY_CTX(WEFT_SHMEM_AMO_BASE, atomic_compare_swap, __VA_ARGS__)
#define shmem_atomic_swap(...)                                                                     \
    WEFT_SHMEM_BY_CTX(WEFT_SHMEM_AMO_EXTENDED_BASE, atomic_swap, __VA_ARGS__)
#define shmem_atomic_fetch_inc(...)                                                                \
    WEFT_SHMEM_BY_CTX(WEFT_SHMEM_AMO_BASE, atomic_fetch_inc, __VA_ARGS__)
#define shmem_atomic_inc(...) WEFT_SHMEM_BY_CTX(WEFT_SHMEM_AMO_BASE, atomic_inc, __VA_ARGS__)
#define shmem_atomic_fetch_add(...)                                                                \
    WEFT_SHMEM_BY_CTX(WEFT_SHMEM_AMO_BASE, atomic_fetch_add, __VA_ARGS__)
#define shmem_atomic_add(...) WEFT_SHMEM_BY_CTX(WEFT_SHMEM_AMO_BASE, atomic_add, __VA_ARGS__)
#define shmem_atomic_fetch_and(...)                                                                \
    WEFT_SHMEM_BY_CTX(WEFT_SHMEM_AMO_BITWISE_BASE, atomic_fetch_and, __VA_ARGS__)
#define shmem_atomic_and(...)                                                                      \
    WEFT_SHMEM_BY_CTX(WEFT_SHMEM_AMO_BITWISE_BASE, atomic_and, __VA_ARGS__)
#define shmem_atomic_fetch_or(...)                                                                 \
    WEFT_SHMEM_BY_CTX(WEFT_SHMEM_AMO_BITWISE_BASE, atomic_fetch_or, __VA_ARGS__)
#define shmem_atomic_or(...) WEFT_SHMEM_BY_CTX(WEFT_SHMEM_AMO_BITWISE_BASE, atomic_or, __VA_ARGS__)
#define shmem_atomic_fetch_xor(...)                                                                \
    WEFT_SHMEM_BY_CTX(WEFT_SHMEM_AMO_BITWISE_BASE, atomic_fetch_xor, __VA_ARGS__)
#define shmem_atomic_xor(...)                                                                      \
    WEFT_SHMEM_BY_CTX(WEFT_SHMEM_AMO_BITWISE_BASE, atomic_xor, __VA_ARGS__)
#define shmem_atomic_fetch_nbi(...)                                                                \
    WEFT_SHMEM_BY_CTX(WEFT_SHMEM_AMO_EXTENDED_BASE, atomic_fetch_nbi, __VA_ARGS__)
#define shmem_atomic_compare_swap_nbi(...)                                                         \
    WEFT_SHMEM_BY_CTX(WEFT_SHMEM_AMO_BASE, atomic_compare_swap_nbi, __VA_ARGS__)
#define shmem_atomic_swap_nbi(...)                                                                 \
    WEFT_SHMEM_BY_CTX(WEFT_SHMEM_AMO_EXTENDED_BASE, atomic_swap_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_inc_nbi(...)                                                            \
    WEFT_SHMEM_BY_CTX(WEFT_SHMEM_AMO_BASE, atomic_fetch_inc_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_add_nbi(...)                                                            \
    WEFT_SHMEM_BY_CTX(WEFT_SHMEM_AMO_BASE, atomic_fetch_add_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_and_nbi(...)                                                            \
    WEFT_SHMEM_BY_CTX(WEFT_SHMEM_AMO_BITWISE_BASE, atomic_fetch_and_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_or_nbi(...)                                                             \
    WEFT_SHMEM_BY_CTX(WEFT_SHMEM_AMO_BITWISE_BASE, atomic_fetch_or_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_xor_nbi(...)                                                            \
    WEFT_SHMEM_BY_CTX(WEFT_SHMEM_AMO_BITWISE_BASE, atomic_fetch_xor_nbi, __VA_ARGS__)

/* 9.8 */
#define shmem_put_signal(...) WEFT_SHMEM_BY_CTX(WEFT_SHMEM_RMA_BASE, put_signal, __VA_ARGS__)
#define shmem_put_signal_nbi(...)                                                                  \
    WEFT_SHMEM_BY_CTX(WEFT_SHMEM_RMA_BASE, put_signal_nbi, __VA_ARGS__)

/* 9.9; shmem_sync() takes a team, or an active set as before 1.5. */
#define shmem_sync(...)                                                                            \
    _Generic((WEFT_SHMEM_ARG1(__VA_ARGS__, 0)), shmem_team_t                                       \
             : shmem_team_sync, default                                                            \
             : shmem_sync)(__VA_ARGS__)
#define shmem_alltoall(...)  WEFT_SHMEM_BY_SECOND(WEFT_SHMEM_RMA_BASE, alltoall, __VA_ARGS__)
#define shmem_alltoalls(...) WEFT_SHMEM_BY_SECOND(WEFT_SHMEM_RMA_BASE, alltoalls, __VA_ARGS__)
#define shmem_broadcast(...) WEFT_SHMEM_BY_SECOND(WEFT_SHMEM_RMA_BASE, broadcast, __VA_ARGS__)
#define shmem_collect(...)   WEFT_SHMEM_BY_SECOND(WEFT_SHMEM_RMA_BASE, collect, __VA_ARGS__)
#define shmem_fcollect(...)  WEFT_SHMEM_BY_SECOND(WEFT_SHMEM_RMA_BASE, fcollect, __VA_ARGS__)
#define shmem_and_reduce(...)                                                                      \
    WEFT_SHMEM_BY_SECOND(WEFT_SHMEM_REDUCE_BITWISE_BASE, and_reduce, __VA_ARGS__)
#define shmem_or_reduce(...)                                                                       \
    WEFT_SHMEM_BY_SECOND(WEFT_SHMEM_REDUCE_BITWISE_BASE, or_reduce, __VA_ARGS__)
#define shmem_xor_reduce(...)                                                                      \
    WEFT_SHMEM_BY_SECOND(WEFT_SHMEM_REDUCE_BITWISE_BASE, xor_reduce, __VA_ARGS__)
#define shmem_max_reduce(...)                                                                      \
    WEFT_SHMEM_BY_SECOND(WEFT_SHMEM_REDUCE_ORDERED_BASE, max_reduce, __VA_ARGS__)
#define shmem_min_reduce(...)                                                                      \
    WEFT_SHMEM_BY_SECOND(WEFT_SHMEM_REDUCE_ORDERED_BASE, min_reduce, __VA_ARGS__)
#define shmem_sum_reduce(...)                                                                      \
    WEFT_SHMEM_BY_SECOND(WEFT_SHMEM_REDUCE_ARITHMETIC_BASE, sum_reduce, __VA_ARGS__)
#define shmem_prod_reduce(...)                                                                     \
    WEFT_SHMEM_BY_SECOND(WEFT_SHMEM_REDUCE_ARITHMETIC_BASE, prod_reduce, __VA_ARGS__)

/* 9.10 */
#define shmem_wait_until(...) WEFT_SHMEM_BY_FIRST(WEFT_SHMEM_WAIT_BASE, wait_until, __VA_ARGS__)
#define shmem_wait_until_all(...)                                                                  \
    WEFT_SHMEM_BY_FIRST(WEFT_SHMEM_WAIT_BASE, wait_until_all, __VA_ARGS__)
#define shmem_wait_until_any(...)                                                                  \
    WEFT_SHMEM_BY_FIRST(WEFT_SHMEM_WAIT_BASE, wait_until_any, __VA_ARGS__)
#define shmem_wait_until_some(...)                                                                 \
    WEFT_SHMEM_BY_FIRST(WEFT_SHMEM_WAIT_BASE, wait_until_some, __VA_ARGS__)
#define shmem_wait_until_all_vector(...)                                                           \
    WEFT_SHMEM_BY_FIRST(WEFT_SHMEM_WAIT_BASE, wait_until_all_vector, __VA_ARGS__)
#define shmem_wait_until_any_vector(...)                                                           \
    WEFT_SHMEM_BY_FIRST(WEFT_SHMEM_WAIT_BASE, wait_until_any_vector, __VA_ARGS__)
#define shmem_wait_until_some_vector(...)                                                          \
    WEFT_SHMEM_BY_FIRST(WEFT_SHMEM_WAIT_BASE, wait_until_some_vector, __VA_ARGS__)
#define shmem_test(...)      WEFT_SHMEM_BY_FIRST(WEFT_SHMEM_WAIT_BASE, test, __VA_ARGS__)
#define shmem_test_all(...)  WEFT_SHMEM_BY_FIRST(WEFT_SHMEM_WAIT_BASE, test_all, __VA_ARGS__)
#define shmem_test_any(...)  WEFT_SHMEM_BY_FIRST(WEFT_SHMEM_WAIT_BASE, test_any, __VA_ARGS__)
#define shmem_test_some(...) WEFT_SHMEM_BY_FIRST(WEFT_SHMEM_WAIT_BASE, test_some, __VA_ARGS__)
#define shmem_test_all_vector(...)                                                                 \
    WEFT_SHMEM_BY_FIRST(WEFT_SHMEM_WAIT_BASE, test_all_vector, __VA_ARGS__)
#define shmem_test_any_vector(...)                                                                 \
    WEFT_SHMEM_BY_FIRST(WEFT_SHMEM_WAIT_BASE, test_any_vector, __VA_ARGS__)
#define shmem_test_some_vector(...)                                                                \
    WEFT_SHMEM_BY_FIRST(WEFT_SHMEM_WAIT_BASE, test_some_vector, __VA_ARGS__)

/* Annex F: the atomics of 1.3. */
#ifndef SHMEM_NO_DEPRECATED
#define shmem_fetch(...) WEFT_SHMEM_BY_FIRST(WEFT_SHMEM_OLD_AMO_EXTENDED_TYPES, fetch, __VA_ARGS__)
#define shmem_set(...)   WEFT_SHMEM_BY_FIRST(WEFT_SHMEM_OLD_AMO_EXTENDED_TYPES, set, __VA_ARGS__)
#define shmem_swap(...)  WEFT_SHMEM_BY_FIRST(WEFT_SHMEM_OLD_AMO_EXTENDED_TYPES, swap, __VA_ARGS__)
#define shmem_cswap(...) WEFT_SHMEM_BY_FIRST(WEFT_SHMEM_OLD_AMO_TYPES, cswap, __VA_ARGS__)
#define shmem_finc(...)  WEFT_SHMEM_BY_FIRST(WEFT_SHMEM_OLD_AMO_TYPES, finc, __VA_ARGS__)
#define shmem_inc(...)   WEFT_SHMEM_BY_FIRST(WEFT_SHMEM_OLD_AMO_TYPES, inc, __VA_ARGS__)
#define shmem_fadd(...)  WEFT_SHMEM_BY_FIRST(WEFT_SHMEM_OLD_AMO_TYPES, fadd, __VA_ARGS__)
#define shmem_add(...)   WEFT_SHMEM_BY_FIRST(WEFT_SHMEM_OLD_AMO_TYPES, add, __VA_ARGS__)
#endif

#endif
