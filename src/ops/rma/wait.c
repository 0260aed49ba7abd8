/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for, and testing, own symmetric variables: one, all, any, some of several, against one
 * value or a vector of them. A test is a wait that looks once. */
#include "base/compare.h"
#include "job/waiter.h"
#include "ops/access.h"

/* What the forms have in common. */
struct look {
    const char *function;
    weft_ctx *ctx;
    weft_type type;
    weft_cmp cmp;
    const char *ivars;
    size_t n;
    const int *status;  /* NULL: all take part */
    uint64_t value;     /* flipped, when values is NULL */
    const char *values; /* vector forms */
    size_t width;
    uint64_t flip;
    enum segment_id segment;
    size_t offset;
};

/* The check of a context, for calls with n = 0: no variable's address brings them to access.h. */
static weft_status check_wait_ctx(const struct look *look)
{
    if (!look->ctx)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: ctx is null", look->function);
    if (atomic_load(&look->ctx->job->state) != JOB_RUNNING)
        return job_finalized(look->function);
    return job_failed(look->ctx->job) ? job_check_failed(look->ctx->job) : WEFT_OK;
}

static weft_status check_variables(struct look *look)
{
    look->width = compare_width(look->type);
    if (!look->width)
        return base_fail(WEFT_ERR_TYPE,
                         "%s: type %d; integers of 16, 32 and 64 bits can be waited for",
                         look->function, (int)look->type);
    if ((unsigned)look->cmp >= WEFT_CMP_COUNT)
        return base_fail(WEFT_ERR_OP, "%s: comparison %d is not a weft_cmp", look->function,
                         (int)look->cmp);
    look->flip = compare_flip(look->type);
    look->value ^= look->flip;
    if (look->n == 0)
        return check_wait_ctx(look);
    if (look->n > SIZE_MAX / look->width)
        return base_fail(WEFT_ERR_RANGE, "%s: %zu variables are too many", look->function, look->n);
    weft_status status = access_find_own(look->function, look->ctx, look->ivars,
                                         look->n * look->width, &look->segment, &look->offset);
    if (!status && (uintptr_t)look->ivars % look->width)
        status = base_fail(WEFT_ERR_ALIGNMENT, "%s: %p is not a multiple of %zu", look->function,
                           (const void *)look->ivars, look->width);
    return status;
}

static inline bool takes_part(const struct look *look, size_t i)
{
    return !look->status || !look->status[i];
}

/* A variable in GPU memory is read by the GPU where the CPU cannot. When that fails the job has
 * failed. */
static __attribute__((noinline, cold)) uint64_t load_device(const struct look *look, size_t i)
{
    uint64_t bits = 0;
    CUdeviceptr at = (uintptr_t)(look->ivars + i * look->width);
    weft_status status = WEFT_OK;
    if (!gpu_peek(look->ctx->gpu, at, look->width, &bits))
        status = gpu_access(look->ctx->gpu, 0, at, GPU_ACCESS_LOAD, look->width, 0, 0, &bits);
    if (status)
        job_fail(look->ctx->job, status, weft_last_error());
    return compare_load(look->type, &bits);
}

/* The status of a look: a value that could not be read counts for nothing. */
static weft_status looked(const struct look *look)
{
    return unlikely(look->segment == SEG_GPU) ? job_check_failed(look->ctx->job) : WEFT_OK;
}

static inline uint64_t load_variable(const struct look *look, size_t i)
{
    if (unlikely(look->segment == SEG_GPU))
        return load_device(look, i) ^ look->flip;
    return compare_load(look->type, look->ivars + i * look->width) ^ look->flip;
}

static inline uint64_t wanted(const struct look *look, size_t i)
{
    if (!look->values)
        return look->value;
    return compare_load(look->type, look->values + i * look->width) ^ look->flip;
}

static inline bool holds(const struct look *look, size_t i)
{
    return compare_holds(load_variable(look, i), look->cmp, wanted(look, i));
}

static struct waiter waiter_of(const struct look *look, size_t i)
{
    struct waiter waiter = WAITER(look->ctx->job, BOX_OP_WAIT, -1);
    waiter.segment = look->segment;
    waiter.offset = look->offset + i * look->width;
    waiter.expected = wanted(look, i) ^ look->flip;
    waiter.compare = look->cmp;
    waiter.is_signed = compare_signed(look->type);
    return waiter;
}

static weft_status wait_one(const struct look *look, size_t i)
{
    struct waiter waiter = waiter_of(look, i);
    weft_status status = WEFT_OK;
    if (unlikely(look->segment == SEG_GPU))
        return access_wait_device(look->ctx, &waiter, look->ivars + i * look->width, look->width,
                                  compare_signed(look->type), NULL);
    for (;;) {
        uint64_t seen = load_variable(look, i);
        if (compare_holds(seen, look->cmp, wanted(look, i)))
            break;
        status = waiter_step(&waiter, seen ^ look->flip);
        if (status)
            break;
    }
    waiter_end(&waiter);
    return status;
}

WEFT_EXPORT weft_status weft_wait_until(weft_ctx *ctx, weft_type type, const void *ivar,
                                        weft_cmp cmp, uint64_t value)
{
    struct look look = {"weft_wait_until", ctx, type, cmp, ivar, 1, NULL, value, NULL, 0, 0, 0, 0};
    weft_status status = check_variables(&look);
    return status ? status : wait_one(&look, 0);
}

static weft_status wait_all(struct look *look)
{
    weft_status status = check_variables(look);
    for (size_t i = 0; i < look->n && !status; i++)
        if (takes_part(look, i))
            status = wait_one(look, i);
    return status;
}

/* Where the next search starts: so that one busy variable does not starve the others. */
static _Thread_local size_t next_start;

/* What a search over several variables has seen of those that take part. */
struct found {
    size_t first;        /* the first of them; WEFT_NONE: none takes part, waiting is of no use */
    uint64_t first_bits; /* its value */
    uint64_t sum;        /* a hash of their indices and values: changes when a value does */
};

static inline bool note(struct found *found, const struct look *look, size_t i)
{
    uint64_t bits = load_variable(look, i);
    if (found->first == WEFT_NONE || i < found->first) {
        found->first = i;
        found->first_bits = bits;
    }
    found->sum += (bits ^ i) * 0x9e3779b97f4a7c15u;
    return compare_holds(bits, look->cmp, wanted(look, i));
}

/* Index of one whose comparison holds, or WEFT_NONE. */
static size_t find_any(const struct look *look, struct found *found)
{
    *found = (struct found){.first = WEFT_NONE};
    size_t start = look->n ? next_start % look->n : 0;
    for (size_t k = 0; k < look->n; k++) {
        size_t i = start + k < look->n ? start + k : start + k - look->n;
        if (takes_part(look, i) && note(found, look, i)) {
            next_start = i + 1;
            return i;
        }
    }
    return WEFT_NONE;
}

static size_t find_some(const struct look *look, size_t *indices, struct found *found)
{
    size_t count = 0;
    *found = (struct found){.first = WEFT_NONE};
    for (size_t i = 0; i < look->n; i++)
        if (takes_part(look, i) && note(found, look, i))
            indices[count++] = i;
    return count;
}

static weft_status step(struct waiter *waiter, const struct look *look, const struct found *found)
{
    waiter->others = found->sum;
    if (unlikely(look->segment == SEG_GPU)) /* looking took long enough already */
        return waiter_slow(waiter, found->first_bits ^ look->flip);
    return waiter_step(waiter, found->first_bits ^ look->flip);
}

/* Searches once, or until something is found. */
static weft_status search_any(struct look *look, bool wait, size_t *index)
{
    weft_status status = check_variables(look);
    if (!status && !index)
        status = base_fail(WEFT_ERR_ARGUMENT, "%s: index is null", look->function);
    if (status)
        return status;
    struct found found;
    *index = find_any(look, &found);
    if (!wait)
        box_moved(look->ctx->job->box);
    if (*index != WEFT_NONE || found.first == WEFT_NONE)
        return looked(look);
    if (!wait) {
        job_progress(look->ctx->job);
        return looked(look);
    }
    struct waiter waiter = waiter_of(look, found.first);
    while (*index == WEFT_NONE && !status) {
        status = step(&waiter, look, &found);
        *index = find_any(look, &found);
    }
    waiter_end(&waiter);
    return status ? status : looked(look);
}

static weft_status search_some(struct look *look, bool wait, size_t *indices, size_t *count)
{
    weft_status status = check_variables(look);
    if (!status && (!count || (!indices && look->n)))
        status = base_fail(WEFT_ERR_ARGUMENT, "%s: %s is null", look->function,
                           count ? "indices" : "count");
    if (status)
        return status;
    struct found found;
    *count = find_some(look, indices, &found);
    if (!wait)
        box_moved(look->ctx->job->box);
    if (*count || found.first == WEFT_NONE)
        return looked(look);
    if (!wait) {
        job_progress(look->ctx->job);
        return looked(look);
    }
    struct waiter waiter = waiter_of(look, found.first);
    while (!*count && !status) {
        status = step(&waiter, look, &found);
        *count = find_some(look, indices, &found);
    }
    waiter_end(&waiter);
    return status ? status : looked(look);
}

static weft_status test_all(struct look *look, int *result)
{
    weft_status status = check_variables(look);
    if (!status && !result)
        status = base_fail(WEFT_ERR_ARGUMENT, "%s: result is null", look->function);
    if (status)
        return status;
    *result = 1;
    for (size_t i = 0; i < look->n && *result; i++)
        if (takes_part(look, i) && !holds(look, i))
            *result = 0;
    box_moved(look->ctx->job->box);
    if (!*result)
        job_progress(look->ctx->job);
    return looked(look);
}

/* A vector form needs its vector: NULL would mean the other form. */
static weft_status check_values(const char *function, const void *values, size_t n)
{
    return values || !n ? WEFT_OK : base_fail(WEFT_ERR_ARGUMENT, "%s: values is null", function);
}

WEFT_EXPORT weft_status weft_wait_until_all(weft_ctx *ctx, weft_type type, const void *ivars,
                                            size_t n, const int *status, weft_cmp cmp,
                                            uint64_t value)
{
    struct look look = {__func__, ctx, type, cmp, ivars, n, status, value, NULL, 0, 0, 0, 0};
    return wait_all(&look);
}

WEFT_EXPORT weft_status weft_wait_until_all_vector(weft_ctx *ctx, weft_type type, const void *ivars,
                                                   size_t n, const int *status, weft_cmp cmp,
                                                   const void *values)
{
    struct look look = {__func__, ctx, type, cmp, ivars, n, status, 0, values, 0, 0, 0, 0};
    weft_status bad = check_values(__func__, values, n);
    return bad ? bad : wait_all(&look);
}

WEFT_EXPORT weft_status weft_wait_until_any(weft_ctx *ctx, weft_type type, const void *ivars,
                                            size_t n, const int *status, weft_cmp cmp,
                                            uint64_t value, size_t *index)
{
    struct look look = {__func__, ctx, type, cmp, ivars, n, status, value, NULL, 0, 0, 0, 0};
    return search_any(&look, true, index);
}

WEFT_EXPORT weft_status weft_wait_until_any_vector(weft_ctx *ctx, weft_type type, const void *ivars,
                                                   size_t n, const int *status, weft_cmp cmp,
                                                   const void *values, size_t *index)
{
    struct look look = {__func__, ctx, type, cmp, ivars, n, status, 0, values, 0, 0, 0, 0};
    weft_status bad = check_values(__func__, values, n);
    return bad ? bad : search_any(&look, true, index);
}

WEFT_EXPORT weft_status weft_wait_until_some(weft_ctx *ctx, weft_type type, const void *ivars,
                                             size_t n, size_t *indices, const int *status,
                                             weft_cmp cmp, uint64_t value, size_t *count)
{
    struct look look = {__func__, ctx, type, cmp, ivars, n, status, value, NULL, 0, 0, 0, 0};
    return search_some(&look, true, indices, count);
}

WEFT_EXPORT weft_status weft_wait_until_some_vector(weft_ctx *ctx, weft_type type,
                                                    const void *ivars, size_t n, size_t *indices,
                                                    const int *status, weft_cmp cmp,
                                                    const void *values, size_t *count)
{
    struct look look = {__func__, ctx, type, cmp, ivars, n, status, 0, values, 0, 0, 0, 0};
    weft_status bad = check_values(__func__, values, n);
    return bad ? bad : search_some(&look, true, indices, count);
}

WEFT_EXPORT weft_status weft_test(weft_ctx *ctx, weft_type type, const void *ivar, weft_cmp cmp,
                                  uint64_t value, int *result)
{
    struct look look = {__func__, ctx, type, cmp, ivar, 1, NULL, value, NULL, 0, 0, 0, 0};
    return test_all(&look, result);
}

WEFT_EXPORT weft_status weft_test_all(weft_ctx *ctx, weft_type type, const void *ivars, size_t n,
                                      const int *status, weft_cmp cmp, uint64_t value, int *result)
{
    struct look look = {__func__, ctx, type, cmp, ivars, n, status, value, NULL, 0, 0, 0, 0};
    return test_all(&look, result);
}

WEFT_EXPORT weft_status weft_test_all_vector(weft_ctx *ctx, weft_type type, const void *ivars,
                                             size_t n, const int *status, weft_cmp cmp,
                                             const void *values, int *result)
{
    struct look look = {__func__, ctx, type, cmp, ivars, n, status, 0, values, 0, 0, 0, 0};
    weft_status bad = check_values(__func__, values, n);
    return bad ? bad : test_all(&look, result);
}

WEFT_EXPORT weft_status weft_test_any(weft_ctx *ctx, weft_type type, const void *ivars, size_t n,
                                      const int *status, weft_cmp cmp, uint64_t value,
                                      size_t *index)
{
    struct look look = {__func__, ctx, type, cmp, ivars, n, status, value, NULL, 0, 0, 0, 0};
    return search_any(&look, false, index);
}

WEFT_EXPORT weft_status weft_test_any_vector(weft_ctx *ctx, weft_type type, const void *ivars,
                                             size_t n, const int *status, weft_cmp cmp,
                                             const void *values, size_t *index)
{
    struct look look = {__func__, ctx, type, cmp, ivars, n, status, 0, values, 0, 0, 0, 0};
    weft_status bad = check_values(__func__, values, n);
    return bad ? bad : search_any(&look, false, index);
}

WEFT_EXPORT weft_status weft_test_some(weft_ctx *ctx, weft_type type, const void *ivars, size_t n,
                                       size_t *indices, const int *status, weft_cmp cmp,
                                       uint64_t value, size_t *count)
{
    struct look look = {__func__, ctx, type, cmp, ivars, n, status, value, NULL, 0, 0, 0, 0};
    return search_some(&look, false, indices, count);
}

WEFT_EXPORT weft_status weft_test_some_vector(weft_ctx *ctx, weft_type type, const void *ivars,
                                              size_t n, size_t *indices, const int *status,
                                              weft_cmp cmp, const void *values, size_t *count)
{
    struct look look = {__func__, ctx, type, cmp, ivars, n, status, 0, values, 0, 0, 0, 0};
    weft_status bad = check_values(__func__, values, n);
    return bad ? bad : search_some(&look, false, indices, count);
}
