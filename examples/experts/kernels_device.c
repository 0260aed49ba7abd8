/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of a mixture of experts, one source for GPUs and for CPU threads. How many rows come from whom is read from
 * the heads of the blocks: no host learns of it. Places and sums have an order of their own, whoever comes first. */
#include <weft_device.h>

#include "kernels.h"

#define FOR_ALL(i, n)     for (size_t i = weft_dev_grid_rank(); i < (n); i += weft_dev_grid_threads())
#define FOR_BLOCKS(i, n)  for (size_t i = weft_dev_block_x(); i < (n); i += weft_dev_grid_dim_x())
#define FOR_THREADS(i, n) for (size_t i = weft_dev_thread_x(); i < (n); i += weft_dev_block_dim_x())

/* 16 bytes as they are. */
typedef struct quad {
    uint64_t lo, hi;
} quad;

enum { IN_QUAD = sizeof(quad) / sizeof(uint16_t) };

/* Adds what `weight` makes of eight numbers and as many factors; factors NULL: of the numbers as they are. */
WEFT_DEVICE void add_quad(float *sums, quad numbers, const quad *factors, float weight)
{
    quad by = {0, 0};
    if (factors)
        by = *factors;
    WEFT_UNROLL
    for (int i = 0; i < IN_QUAD; i++) {
        int shift = 16 * (i % 4);
        float number = from_bf16((uint16_t)((i < 4 ? numbers.lo : numbers.hi) >> shift));
        if (factors)
            sums[i] = fmaf(weight, from_bf16((uint16_t)((i < 4 ? by.lo : by.hi) >> shift)) * number,
                           sums[i]);
        else
            sums[i] += number;
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

WEFT_DEVICE char *row_of(char *blocks, const shape *s, size_t block, size_t row)
{
    return blocks + block * block_bytes(s) + BLOCK_HEAD + row * row_bytes(s);
}

/* Rows that PE `block` has sent; never more than there is room for. */
WEFT_DEVICE size_t rows_in(const char *blocks, const shape *s, size_t block)
{
    uint64_t rows = *(const uint64_t *)(const void *)(blocks + block * block_bytes(s));
    return rows < s->capacity ? (size_t)rows : s->capacity;
}

/* ------------------------------------------------------------------------------- what is given */

WEFT_KERNEL(make_kernel, (buffers, b), (shape, s))
{
    size_t n = (size_t)s.tokens * s.hidden;
    uint32_t first = first_expert(&s, s.me), own = first_expert(&s, s.me + 1) - first;
    FOR_ALL(i, n)
    {
        uint64_t token = (uint64_t)s.me * s.tokens + i / s.hidden;
        b.x[i] = number(&s, TOKEN, token, (uint32_t)(i % s.hidden));
        b.dy[i] = number(&s, GRADIENT, token, (uint32_t)(i % s.hidden));
    }
    FOR_ALL(i, (size_t)own * s.hidden)
    b.factors[i] = number(&s, EXPERT, first + i / s.hidden, (uint32_t)(i % s.hidden));
}

/* A stand-in of the gate, whose choice a model would learn. */
WEFT_KERNEL(route_kernel, (buffers, b), (shape, s))
{
    FOR_ALL(t, s.tokens)
    {
        uint64_t token = (uint64_t)s.me * s.tokens + t;
        float sum = 0.0f;
        uint32_t expert = 0;
        for (uint32_t k = 0; k < s.top; k++) {
            expert = next_expert(&s, token, k, expert);
            b.choice[t * s.top + k] = (int32_t)expert;
            b.owner[t * s.top + k] = (int32_t)owner_of(&s, expert);
            sum += raw_weight(&s, token, k);
        }
        for (uint32_t k = 0; k < s.top; k++)
            b.weight[t * s.top + k] = raw_weight(&s, token, k) / sum;
    }
}

/* ------------------------------------------------------------------------------------ dispatch */

WEFT_DEVICE int goes_to(const buffers *b, const shape *s, size_t t, uint32_t pe)
{
    for (uint32_t k = 0; k < s->top; k++)
        if (b->owner[t * s->top + k] == (int32_t)pe)
            return 1;
    return 0;
}

/* A block for each PE: its tokens get rows in their order, however many threads count them. */
WEFT_KERNEL(place_kernel, (buffers, b), (shape, s))
{
    WEFT_SHARED(uint32_t, counted, [1024]);
    uint32_t threads = weft_dev_block_dim_x(), me = weft_dev_thread_x();
    size_t share = (s.tokens + threads - 1) / threads, from = me * share, to = from + share;
    to = to < s.tokens ? to : s.tokens;
    FOR_BLOCKS(pe, s.pes)
    {
        uint32_t mine = 0;
        for (size_t t = from; t < to; t++)
            mine += (uint32_t)goes_to(&b, &s, t, (uint32_t)pe);
        counted[me] = mine;
        weft_dev_sync_block();
        for (uint32_t step = 1; step < threads;
             step *= 2) { /* then it is those up to this thread's */
            uint32_t before = me >= step ? counted[me - step] : 0;
            weft_dev_sync_block();
            counted[me] += before;
            weft_dev_sync_block();
        }
        uint32_t row = counted[me] - mine, all = counted[threads - 1];
        for (size_t t = from; t < to; t++)
            b.place[t * s.pes + pe] = goes_to(&b, &s, t, (uint32_t)pe) ? (int32_t)row++ : -1;
        if (me == 0) {
            *(uint64_t *)(void *)(b.out + pe * block_bytes(&s)) = all;
            b.send_bytes[pe] = BLOCK_HEAD + all * row_bytes(&s);
            b.at[pe] = pe * block_bytes(&s);
            b.room[pe] = block_bytes(&s);
        }
        weft_dev_sync_block();
    }
}

WEFT_DEVICE void put_entries(const buffers *b, const shape *s, size_t t, uint32_t pe, char *row)
{
    entry *entries = (entry *)(void *)row;
    FOR_THREADS(k, s->top)
    {
        uint32_t expert = (uint32_t)b->choice[t * s->top + k];
        int its = b->owner[t * s->top + k] == (int32_t)pe;
        entries[k].expert = its ? (int32_t)(expert - first_expert(s, pe)) : -1;
        entries[k].weight = b->weight[t * s->top + k];
    }
}

/* Rows of `from`, into the blocks of the PEs that have an expert of the token: one for each PE. What has no place is not
 * put anywhere; the exchange says so. */
WEFT_KERNEL(pack_kernel, (buffers, b), (const uint16_t *, from), (shape, s))
{
    size_t quads = s.hidden * sizeof(uint16_t) / sizeof(quad);
    FOR_BLOCKS(i, (size_t)s.tokens * s.pes)
    {
        size_t t = i / s.pes, pe = i % s.pes;
        int32_t place = b.place[i];
        if (place < 0 || (uint32_t)place >= s.capacity)
            continue;
        char *row = row_of(b.out, &s, pe, (size_t)place);
        quad *to = (quad *)(void *)(row + row_head(&s));
        const quad *numbers = (const quad *)(const void *)(from + t * s.hidden);
        put_entries(&b, &s, t, (uint32_t)pe, row);
        FOR_THREADS(q, quads)
        to[q] = numbers[q];
    }
}

/* ------------------------------------------------------------------------------------- experts */

/* What a PE's experts make of the numbers of a row, in the order of the token's choice, to where it goes back from. */
WEFT_DEVICE void apply(const buffers *b, const shape *s, const entry *entries, const char *numbers,
                       char *to)
{
    size_t quads = s->hidden / IN_QUAD;
    FOR_THREADS(q, quads)
    {
        float sums[IN_QUAD] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
        quad its = ((const quad *)(const void *)numbers)[q];
        for (uint32_t k = 0; k < s->top; k++)
            if (entries[k].expert >= 0) {
                const uint16_t *factors = b->factors + (size_t)entries[k].expert * s->hidden;
                add_quad(sums, its, (const quad *)(const void *)factors + q, entries[k].weight);
            }
        ((quad *)(void *)to)[q] = rounded(sums);
    }
}

/* Of each row that has come. */
WEFT_KERNEL(expert_kernel, (buffers, b), (shape, s))
{
    FOR_BLOCKS(i, (size_t)s.pes * s.capacity)
    {
        size_t pe = i / s.capacity, row = i % s.capacity, rows = rows_in(b.in, &s, pe);
        if (row == 0 && weft_dev_thread_x() == 0) {
            *(uint64_t *)(void *)(b.out + pe * block_bytes(&s)) = rows;
            b.return_bytes[pe] = BLOCK_HEAD + rows * row_bytes(&s);
        }
        if (row >= rows)
            continue;
        const char *from = row_of(b.in, &s, pe, row);
        apply(&b, &s, (const entry *)(const void *)from, from + row_head(&s),
              row_of(b.out, &s, pe, row) + row_head(&s));
    }
}

/* ------------------------------------------------------------------------------------- combine */

/* What has come back for each token, added in the order of the PEs. */
WEFT_KERNEL(sum_kernel, (buffers, b), (uint16_t *, to), (shape, s))
{
    size_t quads = s.hidden / IN_QUAD;
    FOR_BLOCKS(t, s.tokens)
    FOR_THREADS(q, quads)
    {
        float sums[IN_QUAD] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
        for (size_t pe = 0; pe < s.pes; pe++) {
            int32_t place = b.place[t * s.pes + pe];
            if (place < 0 || (uint32_t)place >= s.capacity)
                continue;
            const char *row = row_of(b.back, &s, pe, (size_t)place) + row_head(&s);
            add_quad(sums, ((const quad *)(const void *)row)[q], NULL, 0.0f);
        }
        ((quad *)(void *)(to + t * s.hidden))[q] = rounded(sums);
    }
}

/* ------------------------------------------------------------------------------------ backward */

/* The gradient of a weight: what the expert makes of the token, times the gradient of the result, by LANES lanes. */
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

/* Of each row: the gradient of the token as far as this PE's experts make it, and of its weights. */
WEFT_KERNEL(expert_back_kernel, (buffers, b), (shape, s))
{
    WEFT_SHARED(float, lanes, [LANES]);
    FOR_BLOCKS(i, (size_t)s.pes * s.capacity)
    {
        size_t pe = i / s.capacity, row = i % s.capacity;
        if (row >= rows_in(b.in, &s, pe))
            continue;
        const char *from = row_of(b.in, &s, pe, row);
        const entry *entries = (const entry *)(const void *)from;
        const uint16_t *x = (const uint16_t *)(const void *)(from + row_head(&s));
        const uint16_t *dy =
            (const uint16_t *)(const void *)(row_of(b.in_dy, &s, pe, row) + row_head(&s));
        char *to = row_of(b.out, &s, pe, row);
        apply(&b, &s, entries, (const char *)dy, to + row_head(&s));
        for (uint32_t k = 0; k < s.top; k++) {
            if (entries[k].expert < 0) /* the same for all threads */
                continue;
            dot(x, dy, b.factors + (size_t)entries[k].expert * s.hidden, s.hidden, lanes);
            weft_dev_sync_block();
            if (weft_dev_thread_x() == 0) {
                float sum = 0.0f;
                for (int lane = 0; lane < LANES; lane++)
                    sum += lanes[lane];
                ((entry *)(void *)to)[k].weight = sum;
            }
            weft_dev_sync_block();
        }
    }
}

/* The gradients of the weights, each from the PE that has its expert. */
WEFT_KERNEL(weights_kernel, (buffers, b), (shape, s))
{
    FOR_ALL(i, (size_t)s.tokens * s.top)
    {
        size_t pe = (size_t)b.owner[i];
        int32_t place = b.place[i / s.top * s.pes + pe];
        if ((uint32_t)place >= s.capacity)
            continue;
        b.dweight[i] =
            ((const entry *)(const void *)row_of(b.back, &s, pe, (size_t)place))[i % s.top].weight;
    }
}

/* Which rows have an expert, a thread for each of them: in the order of the PEs, and of their tokens. */
WEFT_KERNEL(list_kernel, (buffers, b), (shape, s))
{
    uint32_t own = first_expert(&s, s.me + 1) - first_expert(&s, s.me);
    FOR_ALL(e, own)
    {
        uint32_t *list = b.list + e * s.pes * s.capacity, n = 0;
        for (size_t pe = 0; pe < s.pes; pe++)
            for (size_t row = 0; row < rows_in(b.in, &s, pe); row++) {
                const entry *entries = (const entry *)(const void *)row_of(b.in, &s, pe, row);
                for (uint32_t k = 0; k < s.top; k++)
                    if (entries[k].expert == (int32_t)e) {
                        list[n++] = (uint32_t)(pe * s.capacity + row);
                        break;
                    }
            }
        b.listed[e] = n;
    }
}

/* The gradients of the own experts, over all rows that have them. */
WEFT_KERNEL(factors_kernel, (buffers, b), (shape, s))
{
    uint32_t own = first_expert(&s, s.me + 1) - first_expert(&s, s.me);
    FOR_ALL(i, (size_t)own * s.hidden)
    {
        size_t e = i / s.hidden, h = i % s.hidden;
        const uint32_t *list = b.list + e * s.pes * s.capacity;
        float sum = 0.0f;
        for (uint32_t n = 0; n < b.listed[e]; n++) {
            size_t pe = list[n] / s.capacity, row = list[n] % s.capacity;
            const char *from = row_of(b.in, &s, pe, row);
            const entry *entries = (const entry *)(const void *)from;
            const char *dy = row_of(b.in_dy, &s, pe, row) + row_head(&s);
            uint32_t k = 0;
            while (entries[k].expert != (int32_t)e)
                k++;
            float gradient = entries[k].weight * from_bf16(((const uint16_t *)(const void *)dy)[h]);
            sum = fmaf(gradient,
                       from_bf16(((const uint16_t *)(const void *)(from + row_head(&s)))[h]), sum);
        }
        b.dfactors[i] = sum;
    }
}
