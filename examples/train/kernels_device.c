/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the model, one source for GPUs and for CPU threads. A thread computes whole sums from
 * the first element to the last, without atomics, so no order depends on timing or on the number of
 * threads. */
#include <weft_device.h>

#include "kernels.h"

#include <math.h>

/* Rows and columns of a product that a thread computes at once: each loaded value is used for all
 * of them. */
enum { TILE = 4 };

#define FOR_ALL(i, n) for (size_t i = weft_dev_grid_rank(); i < (n); i += weft_dev_grid_threads())

/* Source: splitmix64 (G. L. Steele et al., OOPSLA 2014). */
WEFT_DEVICE uint64_t spread(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

WEFT_KERNEL(init_kernel, (float *, values), (size_t, n), (uint64_t, seed), (size_t, first),
            (float, scale))
{
    FOR_ALL(i, n)
    {
        uint32_t bits = (uint32_t)(spread(spread(seed) ^ (first + i)) >> 40); /* 24 bits */
        values[i] = scale * ((float)bits * (2.0f / 16777216.0f) - 1.0f);
    }
}

/* Selects a sequence of the text for each of the batch, at a position given by (seed, step,
 * micro-batch, sequence). ids receives its characters, and after all of them the characters that
 * follow each. */
WEFT_KERNEL(sample_kernel, (tokens, from), (uint32_t *, ids), (model_shape, s))
{
    uint32_t rows = s.batch * s.context;
    FOR_ALL(i, rows)
    {
        uint64_t sequence = (from.step * s.micro + from.micro) * s.batch + i / s.context;
        uint64_t start = spread(spread(~s.seed) ^ sequence) % (from.length - s.context);
        ids[i] = from.text[start + i % s.context];
        ids[rows + i] = from.text[start + i % s.context + 1];
    }
}

/* Sets up one sequence from its first characters. */
WEFT_KERNEL(given_kernel, (const uint8_t *, characters), (uint32_t, count), (uint32_t *, ids),
            (model_shape, s))
{
    FOR_ALL(i, s.context)
    ids[i] = i < count ? characters[i] : 0;
}

WEFT_KERNEL(embed_kernel, (const uint32_t *, ids), (const float *, characters),
            (const float *, positions), (float *, x), (model_shape, s))
{
    FOR_ALL(i, (size_t)s.batch * s.context * s.width)
    {
        size_t row = i / s.width, column = i % s.width;
        x[i] =
            characters[ids[row] * s.width + column] + positions[row % s.context * s.width + column];
    }
}

/* y = x (1 + gain) / root mean square of the row; scales: 1 / root mean square. */
WEFT_KERNEL(norm_kernel, (const float *, x), (const float *, gain), (float *, y), (float *, scales),
            (uint32_t, rows), (uint32_t, width))
{
    FOR_ALL(row, rows)
    {
        const float *from = x + row * width;
        float squares = 0.0f;
        for (uint32_t i = 0; i < width; i++)
            squares += from[i] * from[i];
        float scale = 1.0f / sqrtf(squares / (float)width + 1e-5f);
        scales[row] = scale;
        for (uint32_t i = 0; i < width; i++)
            y[row * width + i] = from[i] * scale * (1.0f + gain[i]);
    }
}

/* A tile of a product: sum[r][c] = sum over k of a(row + r, k) b(k, column + c), where a(i, k) is
 * a[i * ai + k * ak] and b(k, j) is b[k * bk + j * bj]. Beyond the last row and column it uses the
 * last one. */
WEFT_DEVICE void tile_of(float sum[TILE][TILE], const float *a, size_t ai, size_t ak,
                         const float *b, size_t bk, size_t bj, uint32_t rows, uint32_t columns,
                         uint32_t inner)
{
    const float *of_row[TILE], *of_column[TILE];
    for (uint32_t i = 0; i < TILE; i++) {
        of_row[i] = a + (i < rows ? i : rows - 1) * ai;
        of_column[i] = b + (i < columns ? i : columns - 1) * bj;
        for (uint32_t j = 0; j < TILE; j++)
            sum[i][j] = 0.0f;
    }
    for (size_t k = 0; k < inner; k++)
        for (uint32_t i = 0; i < TILE; i++)
            for (uint32_t j = 0; j < TILE; j++)
                sum[i][j] += of_row[i][k * ak] * of_column[j][k * bk];
}

/* Tile `i` of a matrix: its first row and column, and its size. */
struct place {
    uint32_t row, column, rows, columns;
};

WEFT_DEVICE struct place place_of(size_t i, uint32_t rows, uint32_t columns)
{
    uint32_t wide = (columns + TILE - 1) / TILE;
    struct place p;
    p.row = (uint32_t)(i / wide) * TILE;
    p.column = (uint32_t)(i % wide) * TILE;
    p.rows = rows - p.row < TILE ? rows - p.row : TILE;
    p.columns = columns - p.column < TILE ? columns - p.column : TILE;
    return p;
}

WEFT_DEVICE size_t tiles_of(uint32_t rows, uint32_t columns)
{
    return (size_t)((rows + TILE - 1) / TILE) * ((columns + TILE - 1) / TILE);
}

/* out = add + a b, with negative values set to 0 by relu; add may be NULL. */
WEFT_KERNEL(product_kernel, (const float *, a), (const float *, b), (const float *, add),
            (float *, out), (uint32_t, rows), (uint32_t, inner), (uint32_t, columns), (int, relu))
{
    FOR_ALL(tile, tiles_of(rows, columns))
    {
        struct place p = place_of(tile, rows, columns);
        float sum[TILE][TILE];
        tile_of(sum, a + (size_t)p.row * inner, inner, 1, b + p.column, columns, 1, p.rows,
                p.columns, inner);
        for (uint32_t i = 0; i < p.rows; i++)
            for (uint32_t j = 0; j < p.columns; j++) {
                size_t at = (size_t)(p.row + i) * columns + p.column + j;
                float value = (add ? add[at] : 0.0f) + sum[i][j];
                out[at] = relu && value < 0.0f ? 0.0f : value;
            }
    }
}

/* Gradient of the weights of y = x w, from that of y. */
WEFT_KERNEL(weights_kernel, (const float *, x), (const float *, dy), (float *, dw),
            (uint32_t, rows), (uint32_t, inner), (uint32_t, columns))
{
    FOR_ALL(tile, tiles_of(inner, columns))
    {
        struct place p = place_of(tile, inner, columns);
        float sum[TILE][TILE];
        tile_of(sum, x + p.row, 1, inner, dy + p.column, columns, 1, p.rows, p.columns, rows);
        for (uint32_t i = 0; i < p.rows; i++)
            for (uint32_t j = 0; j < p.columns; j++)
                dw[(size_t)(p.row + i) * columns + p.column + j] = sum[i][j];
    }
}

/* Gradient of x in y = x w, from that of y; if relu made x, `open` is x. */
WEFT_KERNEL(below_kernel, (const float *, dy), (const float *, w), (const float *, open),
            (float *, dx), (uint32_t, rows), (uint32_t, inner), (uint32_t, columns))
{
    FOR_ALL(tile, tiles_of(rows, inner))
    {
        struct place p = place_of(tile, rows, inner);
        float sum[TILE][TILE];
        tile_of(sum, dy + (size_t)p.row * columns, columns, 1, w + (size_t)p.column * columns, 1,
                columns, p.rows, p.columns, columns);
        for (uint32_t i = 0; i < p.rows; i++)
            for (uint32_t j = 0; j < p.columns; j++) {
                size_t at = (size_t)(p.row + i) * inner + p.column + j;
                dx[at] = !open || open[at] > 0.0f ? sum[i][j] : 0.0f;
            }
    }
}

/* Attention of one position and head: `shares` are the softmax weights of the positions up to it,
 * and the output is the weighted sum of their values. A row of qkv has the queries of all heads,
 * then the keys, then the values. */
WEFT_KERNEL(attend_kernel, (const float *, qkv), (float *, shares), (float *, out),
            (model_shape, s))
{
    size_t each = s.width / s.heads, row_floats = 3 * (size_t)s.width;
    float scale = 1.0f / sqrtf((float)each);
    FOR_ALL(i, (size_t)s.batch * s.heads * s.context)
    {
        size_t t = i % s.context, head = i / s.context % s.heads, b = i / s.context / s.heads;
        const float *query = qkv + (b * s.context + t) * row_floats + head * each;
        const float *keys = qkv + b * s.context * row_floats + s.width + head * each;
        const float *values = keys + s.width;
        float *share = shares + i * s.context, most = -INFINITY, all = 0.0f;
        for (size_t u = 0; u <= t; u++) {
            float sum = 0.0f;
            for (size_t d = 0; d < each; d++)
                sum += query[d] * keys[u * row_floats + d];
            share[u] = sum * scale;
            most = share[u] > most ? share[u] : most;
        }
        for (size_t u = 0; u <= t; u++) {
            share[u] = expf(share[u] - most);
            all += share[u];
        }
        for (size_t u = 0; u <= t; u++)
            share[u] /= all;
        for (size_t d = 0; d < each; d++) {
            float sum = 0.0f;
            for (size_t u = 0; u <= t; u++)
                sum += share[u] * values[u * row_floats + d];
            out[(b * s.context + t) * s.width + head * each + d] = sum;
        }
    }
}

/* Gradient of the softmax inputs. */
WEFT_KERNEL(shares_below_kernel, (const float *, qkv), (const float *, shares),
            (const float *, dout), (float *, dshares), (model_shape, s))
{
    size_t each = s.width / s.heads, row_floats = 3 * (size_t)s.width;
    float scale = 1.0f / sqrtf((float)each);
    FOR_ALL(i, (size_t)s.batch * s.heads * s.context)
    {
        size_t t = i % s.context, head = i / s.context % s.heads, b = i / s.context / s.heads;
        const float *values = qkv + b * s.context * row_floats + 2 * (size_t)s.width + head * each;
        const float *from = dout + (b * s.context + t) * s.width + head * each;
        const float *share = shares + i * s.context;
        float *to = dshares + i * s.context, mean = 0.0f;
        for (size_t u = 0; u <= t; u++) {
            float sum = 0.0f;
            for (size_t d = 0; d < each; d++)
                sum += from[d] * values[u * row_floats + d];
            to[u] = sum;
            mean += share[u] * sum;
        }
        for (size_t u = 0; u <= t; u++)
            to[u] = share[u] * (to[u] - mean) * scale;
    }
}

/* Gradients of query, key and value element d of a head at one position. */
WEFT_KERNEL(attend_below_kernel, (const float *, qkv), (const float *, shares),
            (const float *, dout), (const float *, dshares), (float *, dqkv), (model_shape, s))
{
    size_t each = s.width / s.heads, row_floats = 3 * (size_t)s.width, width = s.width;
    FOR_ALL(i, (size_t)s.batch * s.context * s.width)
    {
        size_t column = i % width, row = i / width, t = row % s.context, b = row / s.context;
        size_t first = (b * s.heads + column / each) * s.context; /* rows of shares of the head */
        const float *rows = qkv + b * s.context * row_floats + column;
        float query = 0.0f, key = 0.0f, value = 0.0f;
        for (size_t u = 0; u <= t; u++)
            query += dshares[(first + t) * s.context + u] * rows[u * row_floats + width];
        for (size_t later = row; later < (b + 1) * s.context; later++) {
            size_t u = later - b * s.context, at = (first + u) * s.context + t;
            key += dshares[at] * rows[u * row_floats];
            value += shares[at] * dout[later * width + column];
        }
        float *to = dqkv + (b * s.context + t) * row_floats + column;
        to[0] = query;
        to[width] = key;
        to[2 * width] = value;
    }
}

/* Computes the loss of each row; logits are replaced by their gradients of the mean over all tokens
 * of a step. */
WEFT_KERNEL(loss_kernel, (float *, logits), (const uint32_t *, ids), (float *, losses),
            (model_shape, s))
{
    uint32_t rows = s.batch * s.context;
    float part = 1.0f / ((float)rows * (float)s.micro);
    FOR_ALL(row, rows)
    {
        float *of = logits + row * s.vocabulary, most = -INFINITY, all = 0.0f;
        uint32_t next = ids[rows + row];
        for (uint32_t c = 0; c < s.vocabulary; c++)
            most = of[c] > most ? of[c] : most;
        losses[row] = most - of[next];
        for (uint32_t c = 0; c < s.vocabulary; c++) {
            of[c] = expf(of[c] - most);
            all += of[c];
        }
        losses[row] += all > 1.0f ? logf(all) : 0.0f; /* the largest logit contributes 1 */
        for (uint32_t c = 0; c < s.vocabulary; c++)
            of[c] = (of[c] / all - (c == next ? 1.0f : 0.0f)) * part;
    }
}

/* Sums over all rows are computed in parts, and then over the parts: many threads have work, and
 * the result does not depend on their number. */
WEFT_DEVICE uint32_t end_of(size_t part, uint32_t rows)
{
    return part + 1 < parts_of(rows) ? (uint32_t)(part + 1) * PART_ROWS : rows;
}

WEFT_KERNEL(mean_parts_kernel, (const float *, losses), (double *, parts), (uint32_t, rows))
{
    FOR_ALL(part, parts_of(rows))
    {
        double sum = 0;
        for (uint32_t row = (uint32_t)part * PART_ROWS; row < end_of(part, rows); row++)
            sum += (double)losses[row];
        parts[part] = sum;
    }
}

WEFT_KERNEL(mean_kernel, (const double *, parts), (double *, mean), (uint32_t, rows))
{
    if (weft_dev_grid_rank() != 0)
        return;
    double sum = 0;
    for (uint32_t part = 0; part < parts_of(rows); part++)
        sum += parts[part];
    *mean = sum / rows;
}

WEFT_KERNEL(gain_parts_kernel, (const float *, x), (const float *, scales), (const float *, dy),
            (float *, parts), (uint32_t, rows), (uint32_t, width))
{
    FOR_ALL(i, (size_t)parts_of(rows) * width)
    {
        size_t part = i / width, column = i % width;
        float sum = 0.0f;
        for (size_t row = part * PART_ROWS; row < end_of(part, rows); row++)
            sum += dy[row * width + column] * x[row * width + column] * scales[row];
        parts[i] = sum;
    }
}

WEFT_KERNEL(gain_kernel, (const float *, parts), (float *, dgain), (uint32_t, rows),
            (uint32_t, width))
{
    FOR_ALL(i, width)
    {
        float sum = 0.0f;
        for (size_t part = 0; part < parts_of(rows); part++)
            sum += parts[part * width + i];
        dgain[i] = sum;
    }
}

/* Adds the gradient through the norm to dx, which may or may not have a gradient already. */
WEFT_KERNEL(norm_below_kernel, (const float *, x), (const float *, scales), (const float *, gain),
            (const float *, dy), (float *, dx), (uint32_t, rows), (uint32_t, width), (int, first))
{
    FOR_ALL(row, rows)
    {
        const float *in = x + row * width, *from = dy + row * width;
        float *to = dx + row * width, scale = scales[row], along = 0.0f;
        for (uint32_t i = 0; i < width; i++)
            along += from[i] * (1.0f + gain[i]) * in[i];
        along *= scale * scale / (float)width;
        for (uint32_t i = 0; i < width; i++) {
            float value = (from[i] * (1.0f + gain[i]) - in[i] * along) * scale;
            to[i] = first ? value : to[i] + value;
        }
    }
}

WEFT_KERNEL(positions_kernel, (const float *, dx), (float *, dpositions), (model_shape, s))
{
    size_t n = (size_t)s.context * s.width;
    FOR_ALL(i, n)
    {
        float sum = 0.0f;
        for (size_t b = 0; b < s.batch; b++)
            sum += dx[b * n + i];
        dpositions[i] = sum;
    }
}

WEFT_KERNEL(characters_kernel, (const uint32_t *, ids), (const float *, dx), (float *, dcharacters),
            (model_shape, s))
{
    uint32_t rows = s.batch * s.context;
    FOR_ALL(i, (size_t)s.vocabulary * s.width)
    {
        float sum = 0.0f;
        for (size_t row = 0; row < rows; row++)
            if (ids[row] == i / s.width)
                sum += dx[row * s.width + i % s.width];
        dcharacters[i] = sum;
    }
}

WEFT_KERNEL(add_kernel, (float *, to), (const float *, a), (const float *, b), (size_t, n))
{
    FOR_ALL(i, n)
    to[i] = a ? a[i] + b[i] : b[i];
}

WEFT_KERNEL(nothing_kernel, (float *, to), (size_t, n))
{
    FOR_ALL(i, n)
    to[i] = -0.0f;
}

WEFT_KERNEL(update_kernel, (float *, values), (float *, first), (float *, second),
            (const float *, gradients), (size_t, n), (adamw, a))
{
    FOR_ALL(i, n)
    {
        float gradient = gradients[i];
        float m = a.beta1 * first[i] + (1.0f - a.beta1) * gradient;
        float v = a.beta2 * second[i] + (1.0f - a.beta2) * gradient * gradient;
        first[i] = m;
        second[i] = v;
        values[i] -=
            a.rate * (m / a.correct1 / (sqrtf(v / a.correct2) + a.epsilon) + a.decay * values[i]);
    }
}
