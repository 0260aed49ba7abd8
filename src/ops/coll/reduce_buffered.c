/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions through a buffer of the team in host memory: each member copies its elements there,
 * the members reduce the buffers as they do symmetric host memory, by node where they can, and each
 * copies what it gets to its destination. So elements may lie anywhere, and have types that only a
 * wider one can combine. For vectors so small that copies and messages take less time than to start
 * kernels from node to node, or to get elements from all members. */
#include "base/config.h"
#include "ops/coll/coll.h"

#include <weft/device/arithmetic.h>

/* A call on its way through the buffer. */
struct buffered {
    struct weft_team *team;
    const struct coll_any_reduction *what;
    struct reduce_buffer *buffer; /* this member's */
    struct combiner c;            /* of the elements in the buffer */
    size_t n;                     /* of the elements there */
};

/* Types of 16 and 8 bits are combined in binary32. */
static bool is_widened(const struct combiner *c)
{
    return !c->combine;
}

static size_t elements_of(const struct weft_team *team, const struct coll_any_reduction *what)
{
    return what->root == COLL_EACH ? what->n * (size_t)team->n : what->n;
}

size_t coll_buffer_bytes(void)
{
    const uint64_t limit = config_size(CONFIG_TEST_COLL_BUFFER);
    return limit < REDUCE_BUFFER_BYTES ? (size_t)limit : REDUCE_BUFFER_BYTES;
}

bool coll_reduce_is_buffered(const struct weft_team *team, const struct coll_any_reduction *what)
{
    const weft_type type = is_widened(what->c) ? WEFT_FLOAT : what->c->type;
    const size_t element = is_widened(what->c) ? sizeof(float) : what->c->element;
    return team->slot < REDUCE_BUFFERS && team->n > 1 &&
           elements_of(team, what) <= coll_buffer_bytes() / element &&
           (coll_nodes_keep_order(team, type) || coll_on_gpu(team, what->dst, what->src));
}

/* Members combine sums where they scale their elements before. */
static weft_status describe_buffered(struct buffered *b)
{
    const struct combiner *c = b->what->c;
    const size_t at = reduce_buffers_offset(b->team->job->npes);
    b->buffer = (struct reduce_buffer *)(void *)(b->team->job->segments[SEG_SYSTEM].base + at) +
                b->team->slot;
    b->n = elements_of(b->team, b->what);
    b->c = *c;
    if (is_widened(c) || c->op == WEFT_DEV_SCALED)
        return reduce_combiner(box_operation_name(b->what->operation),
                               is_widened(c) ? WEFT_FLOAT : c->type, weft_dev_pair_op(c->op),
                               &b->c);
    return WEFT_OK;
}

/* Copies this member's elements into its buffer. */
static weft_status fill_buffer(const struct buffered *b)
{
    struct weft_team *team = b->team;
    const struct combiner *c = b->what->c;
    char *raw = is_widened(c) ? b->buffer->to : b->buffer->from;
    weft_status status =
        weft_get(team->job->system_ctx, raw, b->what->src, b->n * c->element, team->pes[team->me]);
    if (status)
        return status;
    const struct weft_dev_how how = {c->type, c->op, 1, 1, 0, (double)c->factor};
    float *wide = (float *)(void *)b->buffer->from;
    if (!is_widened(c))
        reduce_scale(c, raw, b->n);
    for (size_t i = 0; is_widened(c) && i < b->n; i++) {
        struct weft_dev_vec16 v = {0, 0};
        memcpy(&v, raw + i * c->element, c->element);
        wide[i] = weft_dev_wide_load(how, v, 0, 1);
    }
    return WEFT_OK;
}

/* Copies what this member gets of the result to its destination. */
static weft_status empty_buffer(const struct buffered *b)
{
    struct weft_team *team = b->team;
    struct weft_ctx *ctx = team->job->system_ctx;
    const struct combiner *c = b->what->c;
    const bool each = b->what->root == COLL_EACH;
    const size_t first = each ? (size_t)team->me * b->what->n : 0;
    const char *result = b->buffer->to + first * b->c.element;
    if (b->what->root >= 0 && b->what->root != team->me)
        return WEFT_OK;
    for (size_t i = 0; is_widened(c) && i < b->what->n; i++) {
        float x;
        memcpy(&x, result + i * sizeof x, sizeof x);
        const uint16_t bits =
            weft_dev_narrow_f32(c->type, c->op == WEFT_AVG ? weft_dev_mean_f32(x, team->n) : x);
        memcpy(b->buffer->from + i * c->element, &bits, c->element);
    }
    weft_status status = weft_put(ctx, b->what->dst, is_widened(c) ? b->buffer->from : result,
                                  b->what->n * c->element, team->pes[team->me]);
    return status ? status : weft_quiet(ctx);
}

/* No member waits for the others at the end: only this one writes to its destination, and none
 * begins another reduction in this one's buffer before this one has filled it for that. */
weft_status coll_buffered_reduce(struct weft_team *team, const struct coll_any_reduction *what)
{
    struct buffered b = {.team = team, .what = what};
    weft_status status = describe_buffered(&b);
    if (!status)
        status = fill_buffer(&b);
    if (!status) {
        const size_t at = (size_t)((char *)b.buffer - team->job->segments[SEG_SYSTEM].base);
        const struct coll_range_reduction ranges = {
            what->operation,
            &b.c,
            {SEG_SYSTEM, at + offsetof(struct reduce_buffer, from)},
            {SEG_SYSTEM, at + offsetof(struct reduce_buffer, to)}};
        status = coll_reduce_ranges(team, &ranges, b.n, what->phase);
    }
    if (!status)
        status = empty_buffer(&b);
    return status ? coll_finish_puts(team, what->operation, status) : WEFT_OK;
}
