/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of a mixture of experts, one source for GPUs and for CPU threads: the tokens, the gate
 * and the experts. <weft_experts.h> moves the tokens. The number of received rows stays on the
 * device; no host learns it. */
#include <weft_device.h>

#include "kernels.h"

/* clang-format off */
#define FOR_ALL(i, n) for (size_t i = weft_dev_grid_rank(); i < (n); i += weft_dev_grid_threads())
/* clang-format on */
#define FOR_BLOCKS(i, n)  for (size_t i = weft_dev_block_x(); i < (n); i += weft_dev_grid_dim_x())
#define FOR_THREADS(i, n) for (size_t i = weft_dev_thread_x(); i < (n); i += weft_dev_block_dim_x())

/* 16 bytes. */
typedef struct quad {
    uint64_t lo, hi;
} quad;

enum { IN_QUAD = sizeof(quad) / sizeof(uint16_t) };

/* Adds weight * number * factor for eight numbers. */
WEFT_DEVICE void add_quad(float *sums, quad numbers, quad factors, float weight)
{
    WEFT_UNROLL
    for (int i = 0; i < IN_QUAD; i++) {
        int shift = 16 * (i % 4);
        float number = from_bf16((uint16_t)((i < 4 ? numbers.lo : numbers.hi) >> shift));
        float factor = from_bf16((uint16_t)((i < 4 ? factors.lo : factors.hi) >> shift));
        sums[i] = fmaf(weight, factor * number, sums[i]);
    }
}

WEFT_DEVICE quad rounded(const float *sums)
{
    quad q = {0, 0};
    WEFT_UNROLL
    for (int i = 0; i < IN_QUAD; i++) {
        uint64_t bits = (uint64_t)to_bf16(sums[i]) << 16 * (i % 4);
        if (i < 4)
            q.lo |= bits;
        else
            q.hi |= bits;
    }
    return q;
}

WEFT_DEVICE uint32_t own_experts(const shape *s)
{
    return first_expert(s, s->me + 1) - first_expert(s, s->me);
}

/* ----------------------------------------------------------------------------------- input data */

WEFT_KERNEL(make_kernel, (buffers, b), (shape, s))
{
    size_t n = (size_t)s.tokens * s.hidden;
    uint32_t first = first_expert(&s, s.me);
    FOR_ALL(i, n)
    {
        uint64_t token = (uint64_t)s.me * s.tokens + i / s.hidden;
        b.x[i] = number(&s, TOKEN, token, (uint32_t)(i % s.hidden));
        b.dy[i] = number(&s, GRADIENT, token, (uint32_t)(i % s.hidden));
    }
    FOR_ALL(i, (size_t)own_experts(&s) * s.hidden)
    b.factors[i] = number(&s, EXPERT, first + i / s.hidden, (uint32_t)(i % s.hidden));
}

/* Replaces the gate, whose choice a model would learn. */
WEFT_KERNEL(route_kernel, (buffers, b), (shape, s))
{
    FOR_ALL(t, s.tokens)
    {
        uint64_t token = (uint64_t)s.me * s.tokens + t;
        float sum = 0.0f;
        uint32_t expert = 0;
        for (uint32_t k = 0; k < s.top; k++) {
            expert = next_expert(&s, token, k, expert);
            b.expert[t * s.top + k] = (int64_t)expert;
            sum += raw_weight(&s, token, k);
        }
        for (uint32_t k = 0; k < s.top; k++)
            b.weight[t * s.top + k] = raw_weight(&s, token, k) / sum;
    }
}

/* ------------------------------------------------------------------------------------- experts */

/* Applies this PE's experts to the values of a row, in the order of the token's choice. */
WEFT_DEVICE void apply(const buffers *b, const shape *s, size_t row, const uint16_t *numbers)
{
    const quad *from = (const quad *)(const void *)(numbers + row * s->hidden);
    quad *to = (quad *)(void *)(b->row_out + row * s->hidden);
    FOR_THREADS(q, s->hidden / IN_QUAD)
    {
        float sums[IN_QUAD] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
        for (uint32_t k = 0; k < s->top; k++) {
            int64_t expert = b->row_expert[row * s->top + k];
            if (expert >= 0) {
                const uint16_t *factors = b->factors + (size_t)expert * s->hidden;
                add_quad(sums, from[q], ((const quad *)(const void *)factors)[q],
                         b->row_weight[row * s->top + k]);
            }
        }
        to[q] = rounded(sums);
    }
}

/* Processes each received row. */
WEFT_KERNEL(expert_kernel, (buffers, b), (shape, s))
{
    FOR_BLOCKS(row, *b.n_rows)
    apply(&b, &s, row, b.row_x);
}

/* ------------------------------------------------------------------------------------ backward */

/* Gradient of a weight: dot product of the expert's result and the gradient of the result, by LANES
 * lanes. */
WEFT_DEVICE void dot(const uint16_t *x, const uint16_t *dy, const uint16_t *factors,
                     uint32_t hidden, float *lanes)
{
    FOR_THREADS(lane, LANES)
    {
        float sum = 0.0f;
        for (size_t h = lane; h < hidden; h += LANES)
            sum = fmaf(from_bf16(factors[h]) * from_bf16(x[h]), from_bf16(dy[h]), sum);
        lanes[lane] = sum;
    }
}

/* For each row: the part of the token's gradient that this PE's experts contribute, and the
 * gradients of its weights. */
WEFT_KERNEL(expert_back_kernel, (buffers, b), (shape, s))
{
    WEFT_SHARED(float, lanes, [LANES]);
    FOR_BLOCKS(row, *b.n_rows)
    {
        apply(&b, &s, row, b.row_dy);
        for (uint32_t k = 0; k < s.top; k++) {
            int64_t expert = b.row_expert[row * s.top + k]; /* the same for all threads */
            if (expert >= 0)
                dot(b.row_x + row * s.hidden, b.row_dy + row * s.hidden,
                    b.factors + (size_t)expert * s.hidden, s.hidden, lanes);
            weft_dev_sync_block();
            if (weft_dev_thread_x() == 0) {
                float sum = 0.0f;
                for (int lane = 0; lane < LANES && expert >= 0; lane++)
                    sum += lanes[lane];
                b.row_dweight[row * s.top + k] = sum;
            }
            weft_dev_sync_block();
        }
    }
}

/* Returns the place of the expert among the experts of the row, or top. */
WEFT_DEVICE uint32_t choice_of(const buffers *b, const shape *s, size_t row, size_t expert)
{
    uint32_t k = 0;
    while (k < s->top && b->row_expert[row * s->top + k] != (int64_t)expert)
        k++;
    return k;
}

enum { THREADS_MOST = 1024 };

/* Prefix sum over the block: returns the sum of the counts of the threads before this one, whose
 * count is `mine`. */
WEFT_DEVICE uint32_t counted_before(uint32_t *counted, uint32_t mine)
{
    uint32_t threads = weft_dev_block_dim_x(), me = weft_dev_thread_x();
    counted[me] = mine;
    weft_dev_sync_block();
    /* After the loop counted[me] includes this thread's count. */
    for (uint32_t step = 1; step < threads; step *= 2) {
        uint32_t before = me >= step ? counted[me - step] : 0;
        weft_dev_sync_block();
        counted[me] += before;
        weft_dev_sync_block();
    }
    return counted[me] - mine;
}

/* Lists the rows of each expert in their order, one block per expert. */
WEFT_KERNEL(list_kernel, (buffers, b), (shape, s))
{
    WEFT_SHARED(uint32_t, counted, [THREADS_MOST]);
    uint32_t threads = weft_dev_block_dim_x(), me = weft_dev_thread_x();
    size_t rows = *b.n_rows, share = (rows + threads - 1) / threads;
    size_t from = me * share, to = from + share < rows ? from + share : rows;
    FOR_BLOCKS(e, own_experts(&s))
    {
        uint32_t mine = 0;
        for (size_t row = from; row < to; row++)
            mine += choice_of(&b, &s, row, e) < s.top;
        uint32_t *list = b.list + e * s.rows, n = counted_before(counted, mine);
        for (size_t row = from; row < to; row++)
            if (choice_of(&b, &s, row, e) < s.top)
                list[n++] = (uint32_t)row;
        if (me == threads - 1)
            b.listed[e] = n;
        weft_dev_sync_block();
    }
}

/* Computes the gradients of the own experts over all their rows. */
WEFT_KERNEL(factors_kernel, (buffers, b), (shape, s))
{
    FOR_ALL(i, (size_t)own_experts(&s) * s.hidden)
    {
        size_t e = i / s.hidden, h = i % s.hidden;
        const uint32_t *list = b.list + e * s.rows;
        float sum = 0.0f;
        for (uint32_t n = 0; n < b.listed[e]; n++) {
            size_t row = list[n];
            float weight = b.row_weight[row * s.top + choice_of(&b, &s, row, e)];
            float gradient = weight * from_bf16(b.row_dy[row * s.hidden + h]);
            sum = fmaf(gradient, from_bf16(b.row_x[row * s.hidden + h]), sum);
        }
        b.dfactors[i] = sum;
    }
}
