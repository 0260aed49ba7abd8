/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of a mixture of experts, one source for GPUs and for CPU threads. The number of rows from
 * each PE arrives with the rows; no host learns it. Row positions and sums do not depend on the
 * order of arrival. */
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

/* Adds weight * number * factor for eight numbers; factors NULL: weight * number. */
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
    return blocks + block * block_bytes(s) + row * row_bytes(s);
}

/* Returns the rows of the parts before `part` that PE `block` has sent, at most the capacity. */
WEFT_DEVICE size_t rows_before(const buffers *b, const shape *s, size_t block, uint32_t part)
{
    uint32_t rows = part ? b->come[block * PARTS_MOST + part - 1] : 0;
    return rows < s->capacity ? rows : s->capacity;
}

WEFT_DEVICE size_t rows_in(const buffers *b, const shape *s, size_t block)
{
    return rows_before(b, s, block, s->parts);
}

WEFT_DEVICE const entry *entries_of(const buffers *b, const shape *s, size_t t)
{
    return (const entry *)(const void *)(b->entries + t * row_head(s));
}

/* The experts of this PE. */
struct own {
    uint32_t first, n;
};

WEFT_DEVICE struct own own_experts(const shape *s)
{
    uint32_t first = first_expert(s, s->me);
    struct own own = {first, first_expert(s, s->me + 1) - first};
    return own;
}

/* Returns the index of the expert among them; own.n or more: it is another PE's. */
WEFT_DEVICE uint32_t among(struct own own, int32_t expert)
{
    return (uint32_t)expert - own.first;
}

/* Called after the last put of a kernel. The barrier that follows on the stream completes stores,
 * but puts by other paths must be completed here. */
WEFT_DEVICE void finish_puts(const buffers *b, const shape *s)
{
    int far = 0;
    weft_dev_sync_block();
    if (weft_dev_thread_x() > 0)
        return;
    for (uint32_t pe = 0; pe < s->pes; pe++)
        far |= !weft_dev_ptr(b->in, (int)pe);
    if (far)
        weft_thread_quiet();
}

/* ----------------------------------------------------------------------------------- input data */

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

/* Replaces the gate, whose choice a model would learn. */
WEFT_KERNEL(route_kernel, (buffers, b), (shape, s))
{
    FOR_ALL(t, s.tokens)
    {
        uint64_t token = (uint64_t)s.me * s.tokens + t;
        entry *entries = (entry *)(void *)(b.entries + t * row_head(&s));
        float sum = 0.0f;
        uint32_t expert = 0;
        for (uint32_t k = 0; k < s.top; k++) {
            expert = next_expert(&s, token, k, expert);
            entries[k].expert = (int32_t)expert;
            b.owner[t * s.top + k] = (int32_t)owner_of(&s, expert);
            sum += raw_weight(&s, token, k);
        }
        for (uint32_t k = 0; k < s.top; k++)
            entries[k].weight = raw_weight(&s, token, k) / sum;
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

/* Token t is the last one of some parts: records the rows sent to the PE so far. */
WEFT_DEVICE void note_parts(const buffers *b, const shape *s, size_t t, size_t pe, uint32_t rows)
{
    for (uint32_t part = 0; part < s->parts; part++)
        if (first_token(s, part + 1) == t + 1)
            b->sent[pe * PARTS_MOST + part] = rows;
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

/* Assigns rows at each PE to tokens in order, whatever the number of threads. */
WEFT_KERNEL(place_kernel, (buffers, b), (shape, s))
{
    WEFT_SHARED(uint32_t, counted, [THREADS_MOST]);
    uint32_t threads = weft_dev_block_dim_x(), me = weft_dev_thread_x();
    size_t share = (s.tokens + threads - 1) / threads, from = me * share, to = from + share;
    to = to < s.tokens ? to : s.tokens;
    FOR_BLOCKS(pe, s.pes)
    {
        uint32_t mine = 0;
        for (size_t t = from; t < to; t++)
            mine += (uint32_t)goes_to(&b, &s, t, (uint32_t)pe);
        uint32_t row = counted_before(counted, mine);
        for (size_t t = from; t < to; t++) {
            b.place[t * s.pes + pe] = goes_to(&b, &s, t, (uint32_t)pe) ? (int32_t)row++ : -1;
            note_parts(&b, &s, t, pe, row);
        }
        weft_dev_sync_block();
        if (me == 0) /* parts before the first token */
            for (uint32_t part = 0; part < s.parts && first_token(&s, part + 1) == 0; part++)
                b.sent[pe * PARTS_MOST + part] = 0;
    }
}

/* Puts each token, or gradient, once to each PE that has an expert of the token, and the number of
 * rows. Tokens beyond the capacity are not sent; layer_check() reports them. */
WEFT_KERNEL(send_kernel, (buffers, b), (const uint16_t *, from), (char *, to), (shape, s))
{
    size_t head = row_head(&s), bytes = s.hidden * sizeof(uint16_t);
    FOR_BLOCKS(pe, s.pes)
    weft_block_put_nbi(b.come + s.me * PARTS_MOST, b.sent + pe * PARTS_MOST,
                       PARTS_MOST * sizeof *b.sent, (int)pe);
    FOR_BLOCKS(i, (size_t)s.tokens * s.pes)
    {
        size_t t = i / s.pes, pe = i % s.pes;
        int32_t place = b.place[i];
        if (place < 0 || (uint32_t)place >= s.capacity)
            continue;
        char *row = row_of(to, &s, s.me, (size_t)place);
        weft_block_put_nbi(row, entries_of(&b, &s, t), head, (int)pe);
        weft_block_put_nbi(row + head, from + t * s.hidden, bytes, (int)pe);
    }
    finish_puts(&b, &s);
}

/* ------------------------------------------------------------------------------------- experts */

/* Applies this PE's experts to the values of a row, in the order of the token's choice, and writes
 * the result to the block to be returned. */
WEFT_DEVICE void apply(const buffers *b, const shape *s, const entry *entries, const char *numbers,
                       char *to)
{
    size_t quads = s->hidden / IN_QUAD;
    struct own own = own_experts(s);
    FOR_THREADS(q, quads)
    {
        float sums[IN_QUAD] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
        quad its = ((const quad *)(const void *)numbers)[q];
        for (uint32_t k = 0; k < s->top; k++) {
            uint32_t expert = among(own, entries[k].expert);
            if (expert < own.n) {
                const uint16_t *factors = b->factors + (size_t)expert * s->hidden;
                add_quad(sums, its, (const quad *)(const void *)factors + q, entries[k].weight);
            }
        }
        ((quad *)(void *)to)[q] = rounded(sums);
    }
}

/* Processes each received row. */
WEFT_KERNEL(expert_kernel, (buffers, b), (shape, s))
{
    FOR_BLOCKS(i, (size_t)s.pes * s.capacity)
    {
        size_t pe = i / s.capacity, row = i % s.capacity;
        if (row >= rows_in(&b, &s, pe))
            continue;
        const char *from = row_of(b.in, &s, pe, row);
        apply(&b, &s, (const entry *)(const void *)from, from + row_head(&s),
              row_of(b.out, &s, pe, row) + row_head(&s));
    }
}

/* ------------------------------------------------------------------------------------- combine */

/* Returns the results of a part to the tokens' PEs. Each PE starts with another PE. */
WEFT_KERNEL(return_kernel, (buffers, b), (uint32_t, part), (shape, s))
{
    size_t most = first_token(&s, part + 1) - first_token(&s, part);
    FOR_BLOCKS(i, s.pes * most)
    {
        size_t pe = (i + s.me) % s.pes, row = rows_before(&b, &s, pe, part) + i / s.pes;
        if (row < rows_before(&b, &s, pe, part + 1))
            weft_block_put_nbi(row_of(b.back, &s, s.me, row), row_of(b.out, &s, pe, row),
                               row_bytes(&s), (int)pe);
    }
    finish_puts(&b, &s);
}

/* Adds the returned results of each token of a part in the order of the PEs. */
WEFT_KERNEL(sum_kernel, (buffers, b), (uint16_t *, to), (uint32_t, part), (shape, s))
{
    size_t quads = s.hidden / IN_QUAD, first = first_token(&s, part);
    FOR_BLOCKS(i, first_token(&s, part + 1) - first)
    FOR_THREADS(q, quads)
    {
        size_t t = first + i;
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
    struct own own = own_experts(&s);
    FOR_BLOCKS(i, (size_t)s.pes * s.capacity)
    {
        size_t pe = i / s.capacity, row = i % s.capacity;
        if (row >= rows_in(&b, &s, pe))
            continue;
        const char *from = row_of(b.in, &s, pe, row);
        const entry *entries = (const entry *)(const void *)from;
        const uint16_t *x = (const uint16_t *)(const void *)(from + row_head(&s));
        const uint16_t *dy =
            (const uint16_t *)(const void *)(row_of(b.in_dy, &s, pe, row) + row_head(&s));
        char *to = row_of(b.out, &s, pe, row);
        apply(&b, &s, entries, (const char *)dy, to + row_head(&s));
        for (uint32_t k = 0; k < s.top; k++) {
            uint32_t expert = among(own, entries[k].expert);
            if (expert >= own.n) /* the same for all threads */
                continue;
            dot(x, dy, b.factors + (size_t)expert * s.hidden, s.hidden, lanes);
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

/* Collects the gradients of the weights, each from the PE that has the expert. */
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

/* Returns true if row i was received and uses this PE's expert e. */
WEFT_DEVICE int row_has(const buffers *b, const shape *s, size_t i, struct own own, uint32_t e)
{
    size_t pe = i / s->capacity, row = i % s->capacity;
    const entry *entries = (const entry *)(const void *)row_of(b->in, s, pe, row);
    if (row >= rows_in(b, s, pe))
        return 0;
    for (uint32_t k = 0; k < s->top; k++)
        if (among(own, entries[k].expert) == e)
            return 1;
    return 0;
}

/* Lists the rows of each expert, one block per expert: in the order of PEs, and of their tokens. */
WEFT_KERNEL(list_kernel, (buffers, b), (shape, s))
{
    WEFT_SHARED(uint32_t, counted, [THREADS_MOST]);
    struct own own = own_experts(&s);
    uint32_t threads = weft_dev_block_dim_x(), me = weft_dev_thread_x();
    size_t rows = (size_t)s.pes * s.capacity, share = (rows + threads - 1) / threads;
    size_t from = me * share, to = from + share < rows ? from + share : rows;
    FOR_BLOCKS(e, own.n)
    {
        uint32_t mine = 0;
        for (size_t i = from; i < to; i++)
            mine += (uint32_t)row_has(&b, &s, i, own, (uint32_t)e);
        uint32_t *list = b.list + e * rows, n = counted_before(counted, mine);
        for (size_t i = from; i < to; i++)
            if (row_has(&b, &s, i, own, (uint32_t)e))
                list[n++] = (uint32_t)i;
        if (me == threads - 1)
            b.listed[e] = n;
        weft_dev_sync_block();
    }
}

/* Computes the gradients of the own experts over all their rows. */
WEFT_KERNEL(factors_kernel, (buffers, b), (shape, s))
{
    struct own own = own_experts(&s);
    FOR_ALL(i, (size_t)own.n * s.hidden)
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
            while (among(own, entries[k].expert) != e)
                k++;
            float gradient = entries[k].weight * from_bf16(((const uint16_t *)(const void *)dy)[h]);
            sum = fmaf(gradient,
                       from_bf16(((const uint16_t *)(const void *)(from + row_head(&s)))[h]), sum);
        }
        b.dfactors[i] = sum;
    }
}
