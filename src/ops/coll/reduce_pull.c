/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions over any memory and any path: each member gets the elements that it combines from all
 * members, chunk by chunk, and puts the result into all destinations or its own. For cases that the
 * faster algorithms (reduce.c, the kernels of kernel.c, nodes_fold.c) cannot serve, and vectors
 * that are too long for a buffer: one side in host memory, GPUs of a node that do not access each
 * other, types of 16 and 8 bits and scaled sums in host memory, and reducescatter there. */
#include "ops/coll/kernel.h"
#include "ops/coll/nodes_gpu.h"

#include <weft/device/arithmetic.h>

#include <stdlib.h>

enum { CHUNK_BYTES = 4 << 20 };

static inline struct weft_dev_vec16 element(const char *at, size_t bytes)
{
    struct weft_dev_vec16 v = {0, 0};
    memcpy(&v, at, bytes);
    return v;
}

/* Converts elements of 16 or 8 bits to binary32 and combines them there, as device code does. */
static void widen_and_combine(float *acc, const char *in, size_t n, const struct combiner *c,
                              bool begin)
{
    const struct weft_dev_how h = {c->type, c->op, 1, 1, 0, (double)c->factor};
    for (size_t i = 0; i < n; i++) {
        float x = weft_dev_wide_load(h, element(in + i * c->element, c->element), 0, 1);
        acc[i] = begin ? x : weft_dev_combine_f32(weft_dev_pair_op(c->op), acc[i], x);
    }
}

static void narrow_all(char *result, const float *acc, size_t n, const struct combiner *c,
                       int members)
{
    for (size_t i = 0; i < n; i++) {
        /* NOLINTNEXTLINE(clang-analyzer-core*): `begin` has set it */
        float x = c->op == WEFT_AVG ? weft_dev_mean_f32(acc[i], members) : acc[i];
        uint16_t bits = weft_dev_narrow_f32(c->type, x);
        memcpy(result + i * c->element, &bits, c->element);
    }
}

/* in: receives a member's chunk, and holds the narrowed result at the end. acc: partial result. */
struct buffers {
    char *in, *acc;
};

/* factors: of a weighted sum, one for each member; else NULL. */
static weft_status combine_pulled(struct weft_team *team, const char *src, size_t n,
                                  const struct combiner *combiner, const long double *factors,
                                  struct buffers buffers, char **result)
{
    weft_status status = WEFT_OK;
    struct combiner here = *combiner;
    const struct combiner *c = &here;
    bool wide = !c->combine;
    for (int i = 0; i < team->n && !status; i++) {
        if (factors)
            here.factor = factors[i];
        char *to = i || wide ? buffers.in : buffers.acc;
        status = weft_get(team->job->system_ctx, to, src, n * c->element, team->pes[i]);
        if (!status && wide)
            widen_and_combine((float *)(void *)buffers.acc, buffers.in, n, c, i == 0);
        else if (!status)
            reduce_scale(c, to, n);
        if (!status && !wide && i)
            c->combine(buffers.acc, buffers.in, n);
    }
    *result = wide ? buffers.in : buffers.acc;
    if (wide && !status)
        narrow_all(buffers.in, (const float *)(void *)buffers.acc, n, c, team->n);
    else if (!status)
        reduce_end(c, buffers.acc, n, team->n);
    return status;
}

weft_status coll_exchange_factors(struct weft_team *team, enum box_operation operation,
                                  const struct combiner *c, long double **factors)
{
    *factors = NULL;
    if (!c->weighted)
        return WEFT_OK;
    *factors = malloc((size_t)team->n * sizeof **factors);
    if (!*factors)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %d factors", team->n);
    return coll_exchange(team, operation, &c->factor, *factors, sizeof **factors);
}

weft_status coll_pull_reduce(struct weft_team *team, const struct coll_any_reduction *what)
{
    struct weft_ctx *ctx = team->job->system_ctx;
    const enum box_operation operation = what->operation;
    const struct combiner *c = what->c;
    const size_t n = what->n;
    const int root = what->root;
    bool everywhere = root == COLL_EVERYWHERE;
    size_t members = (size_t)team->n, me = (size_t)team->me;
    size_t per_chunk = CHUNK_BYTES / c->element, to_me = root == COLL_EACH ? n * me : 0;
    size_t first = everywhere ? n * me / members : 0;
    size_t last = everywhere ? n * (me + 1) / members : n;
    if (root >= 0 && team->me != root)
        last = first;
    /* binary32 takes up to four times as many bytes */
    struct buffers buffers = {malloc(5 * CHUNK_BYTES), NULL};
    weft_status status =
        buffers.in ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a reduction");
    if (!status)
        buffers.acc = buffers.in + CHUNK_BYTES;
    long double *factors = NULL;
    if (!status)
        status = coll_exchange_factors(team, operation, c, &factors);
    /* After the sync all sources are ready. Each element is read by one member only, and before it
     * is overwritten. */
    if (!status)
        status = coll_sync(team, operation);
    for (size_t at = first; at < last && !status; at += per_chunk) {
        size_t now = last - at < per_chunk ? last - at : per_chunk;
        char *result, *to = (char *)what->dst + at * c->element;
        status = combine_pulled(team, (const char *)what->src + (to_me + at) * c->element, now, c,
                                factors, buffers, &result);
        for (size_t i = 0; i < (everywhere ? members : 1) && !status; i++)
            status = weft_put_nbi(ctx, to, result, now * c->element,
                                  team->pes[everywhere ? (me + i) % members : me]);
        status = status ? status : weft_quiet(ctx);
    }
    free(factors);
    free(buffers.in);
    return coll_finish_puts(team, operation, status);
}

weft_status coll_reduce_any(struct weft_team *team, const struct coll_any_reduction *what)
{
    if (coll_reduce_is_buffered(team, what))
        return coll_buffered_reduce(team, what);
    return coll_gpu_nodes_reduces(team, what) ? coll_gpu_nodes_reduce(team, what)
                                              : coll_pull_reduce(team, what);
}

weft_status coll_scaled(const char *function, struct weft_team *team, weft_type type,
                        const void *factor, struct combiner *c)
{
    _Alignas(16) char bytes[sizeof(long double)];
    weft_status status = reduce_scaled_combiner(function, type, factor, c);
    struct gpu *gpu = team ? team->job->gpu : NULL;
    if (status)
        return status;
    if (gpu && gpu_place_of(gpu, factor) == GPU_PLACE_DEVICE)
        status = gpu_copy(gpu, 0, bytes, factor, reduce_factor_bytes(c), GPU_DONE);
    else
        memcpy(bytes, factor, reduce_factor_bytes(c));
    c->factor = status ? 0 : reduce_factor_of(c, bytes);
    c->factor_at = NULL;
    return status;
}

static weft_status reducescatter(const char *name, struct weft_team *team, void *dst,
                                 const void *src, size_t n, const struct combiner *c)
{
    size_t bytes, all = 0;
    if (__builtin_mul_overflow(n, c->element, &bytes) ||
        (team && __builtin_mul_overflow(bytes, (size_t)team->n, &all)))
        return base_fail(WEFT_ERR_RANGE, "%s: %zu elements are too many", name, n);
    uint64_t phase;
    weft_status status =
        coll_begin(name, team, BOX_OP_REDUCESCATTER, -1, bytes, reduce_detail(c), &phase);
    struct symmetric_range to, from;
    if (status || n == 0)
        return status;
    status = coll_find_range(name, "dst", team, dst, bytes, &to);
    if (!status)
        status = coll_find_range(name, "src", team, src, all, &from);
    if (status)
        return status;
    const char *d = dst, *s = src;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): coll_begin() refuses NULL */
    if (d != s + (size_t)team->me * bytes && d < s + all && s < d + bytes)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "%s: dst %p (%zu bytes) and src %p (%zu bytes) overlap; dst must be this "
                         "member's block of src, or disjoint",
                         name, dst, bytes, src, all);
    bool kernel = false;
    if (c->type != WEFT_LONG_DOUBLE)
        status = coll_choose_kernel(team, dst, src, bytes, &kernel);
    if (status || kernel)
        return status ? status : coll_kernel_reduction(name, team, false, dst, src, bytes, c);
    return coll_reduce_any(
        team, &(struct coll_any_reduction){BOX_OP_REDUCESCATTER, dst, src, n, c, COLL_EACH, phase});
}

WEFT_EXPORT weft_status weft_reducescatter(weft_team *team, void *dst, const void *src, size_t n,
                                           weft_type type, weft_op op)
{
    struct combiner c;
    weft_status status = reduce_combiner("weft_reducescatter", type, op, &c);
    return status ? status : reducescatter("weft_reducescatter", team, dst, src, n, &c);
}

WEFT_EXPORT weft_status weft_reducescatter_scaled(weft_team *team, void *dst, const void *src,
                                                  size_t n, weft_type type, const void *factor)
{
    struct combiner c;
    weft_status status = coll_scaled("weft_reducescatter_scaled", team, type, factor, &c);
    return status ? status : reducescatter("weft_reducescatter_scaled", team, dst, src, n, &c);
}

WEFT_EXPORT weft_status weft_reducescatter_weighted(weft_team *team, void *dst, const void *src,
                                                    size_t n, weft_type type, const void *factor)
{
    struct combiner c;
    weft_status status = coll_scaled("weft_reducescatter_weighted", team, type, factor, &c);
    c.weighted = true;
    return status ? status : reducescatter("weft_reducescatter_weighted", team, dst, src, n, &c);
}

static weft_status reduce(const char *name, struct weft_team *team, void *dst, const void *src,
                          size_t n, const struct combiner *c, int root)
{
    struct symmetric_range to, from;
    size_t bytes;
    uint64_t phase;
    if (__builtin_mul_overflow(n, c->element, &bytes))
        return base_fail(WEFT_ERR_RANGE, "%s: %zu elements are too many", name, n);
    weft_status status =
        coll_begin(name, team, BOX_OP_REDUCE, root, bytes, reduce_detail(c), &phase);
    if (!status)
        status = coll_check_root(name, team, root);
    if (status || n == 0)
        return status;
    status = coll_find_range(name, "dst", team, dst, bytes, &to);
    if (!status)
        status = coll_find_range(name, "src", team, src, bytes, &from);
    const char *d = dst, *s = src;
    if (!status && d != s && d < s + bytes && s < d + bytes)
        status = base_fail(WEFT_ERR_ARGUMENT,
                           "%s: dst %p and src %p overlap; they must be equal or disjoint", name,
                           dst, src);
    if (status)
        return status;
    struct coll_request request = {.function = name,
                                   .what = COLL_REDUCE,
                                   .dst = dst,
                                   .src = src,
                                   .bytes = bytes,
                                   .root = root,
                                   .reduction = *c};
    bool kernel = false;
    if (c->type != WEFT_LONG_DOUBLE)
        status = coll_choose_kernel(team, dst, src, bytes, &kernel);
    if (status || kernel)
        return status ? status : coll_kernel_run(team, &request);
    return coll_reduce_any(
        team, &(struct coll_any_reduction){BOX_OP_REDUCE, dst, src, n, c, root, phase});
}

WEFT_EXPORT weft_status weft_reduce(weft_team *team, void *dst, const void *src, size_t n,
                                    weft_type type, weft_op op, int root)
{
    struct combiner c;
    weft_status status = reduce_combiner("weft_reduce", type, op, &c);
    return status ? status : reduce("weft_reduce", team, dst, src, n, &c, root);
}

WEFT_EXPORT weft_status weft_reduce_scaled(weft_team *team, void *dst, const void *src, size_t n,
                                           weft_type type, const void *factor, int root)
{
    struct combiner c;
    weft_status status = coll_scaled("weft_reduce_scaled", team, type, factor, &c);
    return status ? status : reduce("weft_reduce_scaled", team, dst, src, n, &c, root);
}

WEFT_EXPORT weft_status weft_reduce_weighted(weft_team *team, void *dst, const void *src, size_t n,
                                             weft_type type, const void *factor, int root)
{
    struct combiner c;
    weft_status status = coll_scaled("weft_reduce_weighted", team, type, factor, &c);
    c.weighted = true;
    return status ? status : reduce("weft_reduce_weighted", team, dst, src, n, &c, root);
}
