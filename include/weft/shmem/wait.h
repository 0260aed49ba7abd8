/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSHMEM 1.5: point-to-point synchronisation (9.10). The value of a signed type is sign-extended
 * to 64 bits, as the host API requires. */

WEFT_SHMEM_GROUP("9.10", "shmem_wait_until")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, code)                                                    \
    WEFT_SHMEM_INLINE_VOID(shmem_##NAME##_wait_until, (TYPE * ivar, int cmp, TYPE cmp_value),      \
                           (ivar, cmp, cmp_value),                                                 \
                           WEFT_SHMEM_CHECK(weft_wait_until(WEFT_SHMEM_JOB.ctx, code, ivar,        \
                                                            (weft_cmp)cmp, (uint64_t)cmp_value));)
WEFT_SHMEM_WAIT_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

WEFT_SHMEM_GROUP("9.10", "shmem_wait_until_all")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, code)                                                    \
    WEFT_SHMEM_INLINE_VOID(                                                                        \
        shmem_##NAME##_wait_until_all,                                                             \
        (TYPE * ivars, size_t nelems, const int *status, int cmp, TYPE cmp_value),                 \
        (ivars, nelems, status, cmp, cmp_value),                                                   \
        WEFT_SHMEM_CHECK(weft_wait_until_all(WEFT_SHMEM_JOB.ctx, code, ivars, nelems, status,      \
                                             (weft_cmp)cmp, (uint64_t)cmp_value));)
WEFT_SHMEM_WAIT_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

WEFT_SHMEM_GROUP("9.10", "shmem_wait_until_any")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, code)                                                    \
    WEFT_SHMEM_INLINE(                                                                             \
        size_t, shmem_##NAME##_wait_until_any,                                                     \
        (TYPE * ivars, size_t nelems, const int *status, int cmp, TYPE cmp_value),                 \
        (ivars, nelems, status, cmp, cmp_value), size_t index = WEFT_NONE;                         \
        WEFT_SHMEM_CHECK(weft_wait_until_any(WEFT_SHMEM_JOB.ctx, code, ivars, nelems, status,      \
                                             (weft_cmp)cmp, (uint64_t)cmp_value, &index));         \
        return index;)
WEFT_SHMEM_WAIT_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

WEFT_SHMEM_GROUP("9.10", "shmem_wait_until_some")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, code)                                                    \
    WEFT_SHMEM_INLINE(size_t, shmem_##NAME##_wait_until_some,                                      \
                      (TYPE * ivars, size_t nelems, size_t * indices, const int *status, int cmp,  \
                       TYPE cmp_value),                                                            \
                      (ivars, nelems, indices, status, cmp, cmp_value), size_t count = 0;          \
                      WEFT_SHMEM_CHECK(weft_wait_until_some(                                       \
                          WEFT_SHMEM_JOB.ctx, code, ivars, nelems, indices, status, (weft_cmp)cmp, \
                          (uint64_t)cmp_value, &count));                                           \
                      return count;)
WEFT_SHMEM_WAIT_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

WEFT_SHMEM_GROUP("9.10", "shmem_wait_until_all_vector")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, code)                                                    \
    WEFT_SHMEM_INLINE_VOID(                                                                        \
        shmem_##NAME##_wait_until_all_vector,                                                      \
        (TYPE * ivars, size_t nelems, const int *status, int cmp, TYPE *cmp_values),               \
        (ivars, nelems, status, cmp, cmp_values),                                                  \
        WEFT_SHMEM_CHECK(weft_wait_until_all_vector(WEFT_SHMEM_JOB.ctx, code, ivars, nelems,       \
                                                    status, (weft_cmp)cmp, cmp_values));)
WEFT_SHMEM_WAIT_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

WEFT_SHMEM_GROUP("9.10", "shmem_wait_until_any_vector")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, code)                                                    \
    WEFT_SHMEM_INLINE(                                                                             \
        size_t, shmem_##NAME##_wait_until_any_vector,                                              \
        (TYPE * ivars, size_t nelems, const int *status, int cmp, TYPE *cmp_values),               \
        (ivars, nelems, status, cmp, cmp_values), size_t index = WEFT_NONE;                        \
        WEFT_SHMEM_CHECK(weft_wait_until_any_vector(WEFT_SHMEM_JOB.ctx, code, ivars, nelems,       \
                                                    status, (weft_cmp)cmp, cmp_values, &index));   \
        return index;)
WEFT_SHMEM_WAIT_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

WEFT_SHMEM_GROUP("9.10", "shmem_wait_until_some_vector")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, code)                                                    \
    WEFT_SHMEM_INLINE(size_t, shmem_##NAME##_wait_until_some_vector,                               \
                      (TYPE * ivars, size_t nelems, size_t * indices, const int *status, int cmp,  \
                       TYPE *cmp_values),                                                          \
                      (ivars, nelems, indices, status, cmp, cmp_values), size_t count = 0;         \
                      WEFT_SHMEM_CHECK(weft_wait_until_some_vector(                                \
                          WEFT_SHMEM_JOB.ctx, code, ivars, nelems, indices, status, (weft_cmp)cmp, \
                          cmp_values, &count));                                                    \
                      return count;)
WEFT_SHMEM_WAIT_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

WEFT_SHMEM_GROUP("9.10", "shmem_test")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, code)                                                    \
    WEFT_SHMEM_INLINE(int, shmem_##NAME##_test, (TYPE * ivar, int cmp, TYPE cmp_value),            \
                      (ivar, cmp, cmp_value), int result = 0;                                      \
                      WEFT_SHMEM_CHECK(weft_test(WEFT_SHMEM_JOB.ctx, code, ivar, (weft_cmp)cmp,    \
                                                 (uint64_t)cmp_value, &result));                   \
                      return result;)
WEFT_SHMEM_WAIT_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

WEFT_SHMEM_GROUP("9.10", "shmem_test_all")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, code)                                                    \
    WEFT_SHMEM_INLINE(                                                                             \
        int, shmem_##NAME##_test_all,                                                              \
        (TYPE * ivars, size_t nelems, const int *status, int cmp, TYPE cmp_value),                 \
        (ivars, nelems, status, cmp, cmp_value), int result = 0;                                   \
        WEFT_SHMEM_CHECK(weft_test_all(WEFT_SHMEM_JOB.ctx, code, ivars, nelems, status,            \
                                       (weft_cmp)cmp, (uint64_t)cmp_value, &result));              \
        return result;)
WEFT_SHMEM_WAIT_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

WEFT_SHMEM_GROUP("9.10", "shmem_test_any")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, code)                                                    \
    WEFT_SHMEM_INLINE(                                                                             \
        size_t, shmem_##NAME##_test_any,                                                           \
        (TYPE * ivars, size_t nelems, const int *status, int cmp, TYPE cmp_value),                 \
        (ivars, nelems, status, cmp, cmp_value), size_t index = WEFT_NONE;                         \
        WEFT_SHMEM_CHECK(weft_test_any(WEFT_SHMEM_JOB.ctx, code, ivars, nelems, status,            \
                                       (weft_cmp)cmp, (uint64_t)cmp_value, &index));               \
        return index;)
WEFT_SHMEM_WAIT_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

WEFT_SHMEM_GROUP("9.10", "shmem_test_some")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, code)                                                    \
    WEFT_SHMEM_INLINE(                                                                             \
        size_t, shmem_##NAME##_test_some,                                                          \
        (TYPE * ivars, size_t nelems, size_t * indices, const int *status, int cmp,                \
         TYPE cmp_value),                                                                          \
        (ivars, nelems, indices, status, cmp, cmp_value), size_t count = 0;                        \
        WEFT_SHMEM_CHECK(weft_test_some(WEFT_SHMEM_JOB.ctx, code, ivars, nelems, indices, status,  \
                                        (weft_cmp)cmp, (uint64_t)cmp_value, &count));              \
        return count;)
WEFT_SHMEM_WAIT_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

WEFT_SHMEM_GROUP("9.10", "shmem_test_all_vector")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, code)                                                    \
    WEFT_SHMEM_INLINE(                                                                             \
        int, shmem_##NAME##_test_all_vector,                                                       \
        (TYPE * ivars, size_t nelems, const int *status, int cmp, TYPE *cmp_values),               \
        (ivars, nelems, status, cmp, cmp_values), int result = 0;                                  \
        WEFT_SHMEM_CHECK(weft_test_all_vector(WEFT_SHMEM_JOB.ctx, code, ivars, nelems, status,     \
                                              (weft_cmp)cmp, cmp_values, &result));                \
        return result;)
WEFT_SHMEM_WAIT_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

WEFT_SHMEM_GROUP("9.10", "shmem_test_any_vector")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, code)                                                    \
    WEFT_SHMEM_INLINE(                                                                             \
        size_t, shmem_##NAME##_test_any_vector,                                                    \
        (TYPE * ivars, size_t nelems, const int *status, int cmp, TYPE *cmp_values),               \
        (ivars, nelems, status, cmp, cmp_values), size_t index = WEFT_NONE;                        \
        WEFT_SHMEM_CHECK(weft_test_any_vector(WEFT_SHMEM_JOB.ctx, code, ivars, nelems, status,     \
                                              (weft_cmp)cmp, cmp_values, &index));                 \
        return index;)
WEFT_SHMEM_WAIT_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

WEFT_SHMEM_GROUP("9.10", "shmem_test_some_vector")
#define WEFT_SHMEM_TYPED(arg, NAME, TYPE, code)                                                    \
    WEFT_SHMEM_INLINE(                                                                             \
        size_t, shmem_##NAME##_test_some_vector,                                                   \
        (TYPE * ivars, size_t nelems, size_t * indices, const int *status, int cmp,                \
         TYPE *cmp_values),                                                                        \
        (ivars, nelems, indices, status, cmp, cmp_values), size_t count = 0;                       \
        WEFT_SHMEM_CHECK(weft_test_some_vector(WEFT_SHMEM_JOB.ctx, code, ivars, nelems, indices,   \
                                               status, (weft_cmp)cmp, cmp_values, &count));        \
        return count;)
WEFT_SHMEM_WAIT_TYPES(WEFT_SHMEM_TYPED, )
#undef WEFT_SHMEM_TYPED

WEFT_SHMEM_GROUP("9.10", "shmem_signal_wait_until")
WEFT_SHMEM_INLINE(uint64_t, shmem_signal_wait_until,
                  (uint64_t * sig_addr, int cmp, uint64_t cmp_value), (sig_addr, cmp, cmp_value),
                  uint64_t seen = 0;
                  WEFT_SHMEM_CHECK(weft_signal_wait(WEFT_SHMEM_JOB.ctx, sig_addr, (weft_cmp)cmp,
                                                    cmp_value, &seen));
                  return seen;)
