/* SPDX-License-Identifier: Apache-2.0 */
/* Waits and tests on own symmetric variables: one, all, any or some of several, against one value
 * or a vector of values. A test is a wait that checks once. */
#include "base/compare.h"
#include "base/cpus.h"
#include "job/waiter.h"
#include "ops/access.h"

/* The arguments that all forms share. */
struct wait_query {
    const char *function;
    weft_ctx *ctx;
    weft_type type;
    weft_cmp cmp;
    const char *ivars;
    size_t n;
    const int *status;  /* NULL: all variables are included */
    uint64_t value;     /* used when values is NULL; XORed with flip */
    const char *values; /* vector forms only */
    size_t width;
    uint64_t flip;
    enum segment_id segment;
    size_t offset;
};

/* Checks the context of a call with n = 0, which has no address for access.h to check. */
static weft_status check_wait_ctx(const struct wait_query *query)
{
    if (!query->ctx)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: ctx is null", query->function);
    if (atomic_load(&query->ctx->job->state) != JOB_RUNNING)
        return job_finalized(query->function);
    return job_failed(query->ctx->job) ? job_check_failed(query->ctx->job) : WEFT_OK;
}

static weft_status check_variables(struct wait_query *query)
{
    query->width = compare_width(query->type);
    if (!query->width)
        return base_fail(WEFT_ERR_TYPE,
                         "%s: type %d is not supported; wait for integers of 16, 32 or 64 bits",
                         query->function, (int)query->type);
    if ((unsigned)query->cmp >= WEFT_CMP_COUNT)
        return base_fail(WEFT_ERR_OP, "%s: comparison %d is not a weft_cmp", query->function,
                         (int)query->cmp);
    query->flip = compare_flip(query->type);
    query->value ^= query->flip;
    if (query->n == 0)
        return check_wait_ctx(query);
    if (query->n > SIZE_MAX / query->width)
        return base_fail(WEFT_ERR_RANGE, "%s: %zu variables are too many", query->function,
                         query->n);
    weft_status status = access_find_own(query->function, query->ctx, query->ivars,
                                         query->n * query->width, &query->segment, &query->offset);
    if (!status && (uintptr_t)query->ivars % query->width)
        status = base_fail(WEFT_ERR_ALIGNMENT, "%s: %p is not a multiple of %zu", query->function,
                           (const void *)query->ivars, query->width);
    return status;
}

static inline bool is_included(const struct wait_query *query, size_t i)
{
    return !query->status || !query->status[i];
}

/* Reads a variable in GPU memory, by the GPU where the CPU cannot. A failed read fails the job. */
static __attribute__((noinline, cold)) uint64_t load_device(const struct wait_query *query,
                                                            size_t i)
{
    uint64_t bits = 0;
    CUdeviceptr at = (uintptr_t)(query->ivars + i * query->width);
    weft_status status = WEFT_OK;
    if (!gpu_peek(query->ctx->gpu, at, query->width, &bits))
        status = gpu_access(query->ctx->gpu, 0, at, GPU_ACCESS_LOAD, query->width, 0, 0, &bits);
    if (status)
        job_fail(query->ctx->job, status, weft_last_error());
    return compare_load(query->type, &bits);
}

/* Status of a check: a value that could not be read counts for nothing. */
static weft_status query_status(const struct wait_query *query)
{
    return unlikely(query->segment == SEG_GPU) ? job_check_failed(query->ctx->job) : WEFT_OK;
}

static inline uint64_t load_variable(const struct wait_query *query, size_t i)
{
    if (unlikely(query->segment == SEG_GPU))
        return load_device(query, i) ^ query->flip;
    uint64_t bits = compare_load(query->type, query->ivars + i * query->width);
    cpu_order_device_loads();
    return bits ^ query->flip;
}

static inline uint64_t expected_bits(const struct wait_query *query, size_t i)
{
    if (!query->values)
        return query->value;
    return compare_load(query->type, query->values + i * query->width) ^ query->flip;
}

static inline bool holds(const struct wait_query *query, size_t i)
{
    return compare_holds(load_variable(query, i), query->cmp, expected_bits(query, i));
}

static struct waiter waiter_of(const struct wait_query *query, size_t i)
{
    struct waiter waiter = WAITER(query->ctx->job, BOX_OP_WAIT, -1);
    waiter.segment = query->segment;
    waiter.offset = query->offset + i * query->width;
    waiter.expected = expected_bits(query, i) ^ query->flip;
    waiter.compare = query->cmp;
    waiter.is_signed = compare_signed(query->type);
    return waiter;
}

static weft_status wait_one(const struct wait_query *query, size_t i)
{
    struct waiter waiter = waiter_of(query, i);
    weft_status status = WEFT_OK;
    if (unlikely(query->segment == SEG_GPU))
        return access_wait_device(query->ctx, &waiter, query->ivars + i * query->width,
                                  query->width, compare_signed(query->type), NULL);
    for (;;) {
        uint64_t seen = load_variable(query, i);
        if (compare_holds(seen, query->cmp, expected_bits(query, i)))
            break;
        status = waiter_step(&waiter, seen ^ query->flip);
        if (status)
            break;
    }
    waiter_end(&waiter);
    return status;
}

WEFT_EXPORT weft_status weft_wait_until(weft_ctx *ctx, weft_type type, const void *ivar,
                                        weft_cmp cmp, uint64_t value)
{
    struct wait_query query = {
        "weft_wait_until", ctx, type, cmp, ivar, 1, NULL, value, NULL, 0, 0, 0, 0};
    weft_status status = check_variables(&query);
    return status ? status : wait_one(&query, 0);
}

static weft_status wait_all(struct wait_query *query)
{
    weft_status status = check_variables(query);
    for (size_t i = 0; i < query->n && !status; i++)
        if (is_included(query, i))
            status = wait_one(query, i);
    return status;
}

/* Where the next search starts, so that one busy variable does not starve the others. */
static _Thread_local size_t next_start;

/* What a search over several variables has found. */
struct found {
    /* first included variable; WEFT_NONE: none is included, so waiting is pointless */
    size_t first;
    uint64_t first_bits; /* value of `first` */
    uint64_t sum;        /* hash of the indices and values: changes when a value does */
};

static inline bool check_variable(struct found *found, const struct wait_query *query, size_t i)
{
    uint64_t bits = load_variable(query, i);
    if (found->first == WEFT_NONE || i < found->first) {
        found->first = i;
        found->first_bits = bits;
    }
    found->sum += (bits ^ i) * 0x9e3779b97f4a7c15u;
    return compare_holds(bits, query->cmp, expected_bits(query, i));
}

/* Returns the index of a variable whose comparison holds, or WEFT_NONE. */
static size_t find_any(const struct wait_query *query, struct found *found)
{
    *found = (struct found){.first = WEFT_NONE};
    size_t start = query->n ? next_start % query->n : 0;
    for (size_t k = 0; k < query->n; k++) {
        size_t i = start + k < query->n ? start + k : start + k - query->n;
        if (is_included(query, i) && check_variable(found, query, i)) {
            next_start = i + 1;
            return i;
        }
    }
    return WEFT_NONE;
}

static size_t find_some(const struct wait_query *query, size_t *indices, struct found *found)
{
    size_t count = 0;
    *found = (struct found){.first = WEFT_NONE};
    for (size_t i = 0; i < query->n; i++)
        if (is_included(query, i) && check_variable(found, query, i))
            indices[count++] = i;
    return count;
}

static weft_status step_wait(struct waiter *waiter, const struct wait_query *query,
                             const struct found *found)
{
    waiter->others = found->sum;
    if (unlikely(query->segment == SEG_GPU)) /* reading GPU memory took long enough already */
        return waiter_slow(waiter, found->first_bits ^ query->flip);
    return waiter_step(waiter, found->first_bits ^ query->flip);
}

/* Searches once, or, with wait, until a variable is found. */
static weft_status search_any(struct wait_query *query, bool wait, size_t *index)
{
    weft_status status = check_variables(query);
    if (!status && !index)
        status = base_fail(WEFT_ERR_ARGUMENT, "%s: index is null", query->function);
    if (status)
        return status;
    struct found found;
    *index = find_any(query, &found);
    if (!wait)
        box_count_step(query->ctx->job->box);
    if (*index != WEFT_NONE || found.first == WEFT_NONE)
        return query_status(query);
    if (!wait) {
        job_progress(query->ctx->job);
        return query_status(query);
    }
    struct waiter waiter = waiter_of(query, found.first);
    while (*index == WEFT_NONE && !status) {
        status = step_wait(&waiter, query, &found);
        *index = find_any(query, &found);
    }
    waiter_end(&waiter);
    return status ? status : query_status(query);
}

static weft_status search_some(struct wait_query *query, bool wait, size_t *indices, size_t *count)
{
    weft_status status = check_variables(query);
    if (!status && (!count || (!indices && query->n)))
        status = base_fail(WEFT_ERR_ARGUMENT, "%s: %s is null", query->function,
                           count ? "indices" : "count");
    if (status)
        return status;
    struct found found;
    *count = find_some(query, indices, &found);
    if (!wait)
        box_count_step(query->ctx->job->box);
    if (*count || found.first == WEFT_NONE)
        return query_status(query);
    if (!wait) {
        job_progress(query->ctx->job);
        return query_status(query);
    }
    struct waiter waiter = waiter_of(query, found.first);
    while (!*count && !status) {
        status = step_wait(&waiter, query, &found);
        *count = find_some(query, indices, &found);
    }
    waiter_end(&waiter);
    return status ? status : query_status(query);
}

static weft_status test_all(struct wait_query *query, int *result)
{
    weft_status status = check_variables(query);
    if (!status && !result)
        status = base_fail(WEFT_ERR_ARGUMENT, "%s: result is null", query->function);
    if (status)
        return status;
    *result = 1;
    for (size_t i = 0; i < query->n && *result; i++)
        if (is_included(query, i) && !holds(query, i))
            *result = 0;
    box_count_step(query->ctx->job->box);
    if (!*result)
        job_progress(query->ctx->job);
    return query_status(query);
}

/* A vector form needs its vector: NULL would select the scalar form. */
static weft_status check_values(const char *function, const void *values, size_t n)
{
    return values || !n ? WEFT_OK : base_fail(WEFT_ERR_ARGUMENT, "%s: values is null", function);
}

WEFT_EXPORT weft_status weft_wait_until_all(weft_ctx *ctx, weft_type type, const void *ivars,
                                            size_t n, const int *status, weft_cmp cmp,
                                            uint64_t value)
{
    struct wait_query query = {__func__, ctx, type, cmp, ivars, n, status, value, NULL, 0, 0, 0, 0};
    return wait_all(&query);
}

WEFT_EXPORT weft_status weft_wait_until_all_vector(weft_ctx *ctx, weft_type type, const void *ivars,
                                                   size_t n, const int *status, weft_cmp cmp,
                                                   const void *values)
{
    struct wait_query query = {__func__, ctx, type, cmp, ivars, n, status, 0, values, 0, 0, 0, 0};
    weft_status bad = check_values(__func__, values, n);
    return bad ? bad : wait_all(&query);
}

WEFT_EXPORT weft_status weft_wait_until_any(weft_ctx *ctx, weft_type type, const void *ivars,
                                            size_t n, const int *status, weft_cmp cmp,
                                            uint64_t value, size_t *index)
{
    struct wait_query query = {__func__, ctx, type, cmp, ivars, n, status, value, NULL, 0, 0, 0, 0};
    return search_any(&query, true, index);
}

WEFT_EXPORT weft_status weft_wait_until_any_vector(weft_ctx *ctx, weft_type type, const void *ivars,
                                                   size_t n, const int *status, weft_cmp cmp,
                                                   const void *values, size_t *index)
{
    struct wait_query query = {__func__, ctx, type, cmp, ivars, n, status, 0, values, 0, 0, 0, 0};
    weft_status bad = check_values(__func__, values, n);
    return bad ? bad : search_any(&query, true, index);
}

WEFT_EXPORT weft_status weft_wait_until_some(weft_ctx *ctx, weft_type type, const void *ivars,
                                             size_t n, size_t *indices, const int *status,
                                             weft_cmp cmp, uint64_t value, size_t *count)
{
    struct wait_query query = {__func__, ctx, type, cmp, ivars, n, status, value, NULL, 0, 0, 0, 0};
    return search_some(&query, true, indices, count);
}

WEFT_EXPORT weft_status weft_wait_until_some_vector(weft_ctx *ctx, weft_type type,
                                                    const void *ivars, size_t n, size_t *indices,
                                                    const int *status, weft_cmp cmp,
                                                    const void *values, size_t *count)
{
    struct wait_query query = {__func__, ctx, type, cmp, ivars, n, status, 0, values, 0, 0, 0, 0};
    weft_status bad = check_values(__func__, values, n);
    return bad ? bad : search_some(&query, true, indices, count);
}

WEFT_EXPORT weft_status weft_test(weft_ctx *ctx, weft_type type, const void *ivar, weft_cmp cmp,
                                  uint64_t value, int *result)
{
    struct wait_query query = {__func__, ctx, type, cmp, ivar, 1, NULL, value, NULL, 0, 0, 0, 0};
    return test_all(&query, result);
}

WEFT_EXPORT weft_status weft_test_all(weft_ctx *ctx, weft_type type, const void *ivars, size_t n,
                                      const int *status, weft_cmp cmp, uint64_t value, int *result)
{
    struct wait_query query = {__func__, ctx, type, cmp, ivars, n, status, value, NULL, 0, 0, 0, 0};
    return test_all(&query, result);
}

WEFT_EXPORT weft_status weft_test_all_vector(weft_ctx *ctx, weft_type type, const void *ivars,
                                             size_t n, const int *status, weft_cmp cmp,
                                             const void *values, int *result)
{
    struct wait_query query = {__func__, ctx, type, cmp, ivars, n, status, 0, values, 0, 0, 0, 0};
    weft_status bad = check_values(__func__, values, n);
    return bad ? bad : test_all(&query, result);
}

WEFT_EXPORT weft_status weft_test_any(weft_ctx *ctx, weft_type type, const void *ivars, size_t n,
                                      const int *status, weft_cmp cmp, uint64_t value,
                                      size_t *index)
{
    struct wait_query query = {__func__, ctx, type, cmp, ivars, n, status, value, NULL, 0, 0, 0, 0};
    return search_any(&query, false, index);
}

WEFT_EXPORT weft_status weft_test_any_vector(weft_ctx *ctx, weft_type type, const void *ivars,
                                             size_t n, const int *status, weft_cmp cmp,
                                             const void *values, size_t *index)
{
    struct wait_query query = {__func__, ctx, type, cmp, ivars, n, status, 0, values, 0, 0, 0, 0};
    weft_status bad = check_values(__func__, values, n);
    return bad ? bad : search_any(&query, false, index);
}

WEFT_EXPORT weft_status weft_test_some(weft_ctx *ctx, weft_type type, const void *ivars, size_t n,
                                       size_t *indices, const int *status, weft_cmp cmp,
                                       uint64_t value, size_t *count)
{
    struct wait_query query = {__func__, ctx, type, cmp, ivars, n, status, value, NULL, 0, 0, 0, 0};
    return search_some(&query, false, indices, count);
}

WEFT_EXPORT weft_status weft_test_some_vector(weft_ctx *ctx, weft_type type, const void *ivars,
                                              size_t n, size_t *indices, const int *status,
                                              weft_cmp cmp, const void *values, size_t *count)
{
    struct wait_query query = {__func__, ctx, type, cmp, ivars, n, status, 0, values, 0, 0, 0, 0};
    weft_status bad = check_values(__func__, values, n);
    return bad ? bad : search_some(&query, false, indices, count);
}
