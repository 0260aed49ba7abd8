/* SPDX-License-Identifier: Apache-2.0 */
/* Host side of the model: memory, and the order of launches. */
#include "model.h"
#include "kernels.h"

#include <math.h>
#include <stdlib.h>

#include <weft_device.h>

/* Offsets of the parameters of a layer, and of those before and after all layers, in the array. */
struct layer_place {
    size_t second, first, gain2, join, qkv, gain1, end;
};
struct places {
    size_t head, gain, layers, positions, characters, end;
};

/* Activations of one layer that the backward pass needs. All have batch * context rows. */
struct kept {
    float *in, *norm1, *scales1, *qkv, *shares, *attended; /* of attention */
    float *middle, *norm2, *scales2, *hidden;              /* of the part after attention */
};

struct model {
    weft_job *job;
    model_shape shape;
    const uint8_t *text;
    uint64_t length;
    unsigned blocks;
    weft_stream stream;
    float *memory, *free; /* the whole memory, and its unused rest */
    struct kept *kept;
    float *out, *normed, *scales, *logits, *losses; /* after the last layer */
    float *dx, *dnormed, *dqkv, *dhidden, *dattended, *dshares;
    float *gain_parts;
    double *loss_parts;
    uint32_t *ids;
};

static size_t layer_floats(const model_shape *s)
{
    return 12 * (size_t)s->width * s->width + 2 * (size_t)s->width;
}

static struct places places_of(const model_shape *s)
{
    struct places p = {.head = 0};
    p.gain = (size_t)s->width * s->vocabulary;
    p.layers = p.gain + s->width;
    p.positions = p.layers + s->layers * layer_floats(s);
    p.characters = p.positions + (size_t)s->context * s->width;
    p.end = p.characters + (size_t)s->vocabulary * s->width;
    return p;
}

static struct layer_place place_of_layer(const model_shape *s, uint32_t layer)
{
    size_t square = (size_t)s->width * s->width;
    struct layer_place p;
    p.second = places_of(s).layers + (s->layers - 1 - layer) * layer_floats(s);
    p.first = p.second + 4 * square;
    p.gain2 = p.first + 4 * square;
    p.join = p.gain2 + s->width;
    p.qkv = p.join + square;
    p.gain1 = p.qkv + 3 * square;
    p.end = p.gain1 + s->width;
    return p;
}

size_t model_floats(const model_shape *shape)
{
    return places_of(shape).end;
}

/* ------------------------------------------------------------------------------- memory */

static size_t rows_of(const model_shape *s)
{
    return (size_t)s->batch * s->context;
}

static size_t shares_of(const model_shape *s)
{
    return rows_of(s) * s->heads * s->context;
}

enum { UNIT = 64 }; /* floats: arrays do not share a cache line */

static size_t whole_units(size_t floats)
{
    return (floats + UNIT - 1) / UNIT * UNIT;
}

/* Takes `floats` floats of the memory; without memory it only counts them. */
static float *take_floats(struct model *m, size_t floats, size_t *count)
{
    float *taken = m->free;
    *count += whole_units(floats);
    if (taken)
        m->free += whole_units(floats);
    return taken;
}

static void take_layer(struct model *m, struct kept *k, size_t *count)
{
    size_t rows = rows_of(&m->shape), wide = rows * m->shape.width;
    k->in = take_floats(m, wide, count);
    k->norm1 = take_floats(m, wide, count);
    k->scales1 = take_floats(m, rows, count);
    k->qkv = take_floats(m, 3 * wide, count);
    k->shares = take_floats(m, shares_of(&m->shape), count);
    k->attended = take_floats(m, wide, count);
    k->middle = take_floats(m, wide, count);
    k->norm2 = take_floats(m, wide, count);
    k->scales2 = take_floats(m, rows, count);
    k->hidden = take_floats(m, 4 * wide, count);
}

/* Takes all arrays from the memory; without memory it only counts them. Returns their floats. */
static size_t allocate_all(struct model *m)
{
    size_t count = 0, rows = rows_of(&m->shape), wide = rows * m->shape.width;
    struct kept unused;
    for (uint32_t layer = 0; layer < m->shape.layers; layer++)
        take_layer(m, m->kept ? &m->kept[layer] : &unused, &count);
    m->out = take_floats(m, wide, &count);
    m->normed = take_floats(m, wide, &count);
    m->scales = take_floats(m, rows, &count);
    m->logits = take_floats(m, rows * m->shape.vocabulary, &count);
    m->losses = take_floats(m, rows, &count);
    m->dx = take_floats(m, wide, &count);
    m->dnormed = take_floats(m, wide, &count);
    m->dqkv = take_floats(m, 3 * wide, &count);
    m->dhidden = take_floats(m, 4 * wide, &count);
    m->dattended = take_floats(m, wide, &count);
    m->dshares = take_floats(m, shares_of(&m->shape), &count);
    m->gain_parts = take_floats(m, parts_of(rows) * m->shape.width, &count);
    m->loss_parts = (double *)(void *)take_floats(m, 2 * parts_of(rows), &count);
    m->ids = (uint32_t *)(void *)take_floats(m, 2 * rows, &count);
    return count;
}

size_t model_work_bytes(const model_shape *shape)
{
    struct model nothing = {.shape = *shape};
    return allocate_all(&nothing) * sizeof(float);
}

weft_status model_create(weft_job *job, const model_shape *shape, const uint8_t *text,
                         uint64_t length, unsigned blocks, weft_stream stream,
                         struct model **result)
{
    void *memory = NULL;
    struct model *m = calloc(1, sizeof *m);
    *result = m;
    if (!m)
        return WEFT_ERR_NO_MEMORY;
    *m = (struct model){.job = job,
                        .shape = *shape,
                        .text = text,
                        .length = length,
                        .blocks = blocks,
                        .stream = stream};
    m->kept = calloc(shape->layers, sizeof *m->kept);
    if (!m->kept)
        return WEFT_ERR_NO_MEMORY;
    weft_status status =
        weft_alloc(job, weft_device_kind(job), model_work_bytes(shape), 256, 0, &memory);
    m->memory = memory;
    m->free = memory;
    if (!status)
        allocate_all(m);
    return status;
}

weft_status model_destroy(struct model *m)
{
    weft_status status = weft_free(m->job, m->memory);
    free(m->kept);
    free(m);
    return status;
}

/* ------------------------------------------------------------------------------- launches */

/* Returns the default number of blocks: as many as n results need. No result depends on it. */
static unsigned blocks_for(const struct model *m, size_t n)
{
    if (m->blocks)
        return m->blocks;
    if (weft_target_get() != WEFT_CUDA)
        return n < 128 ? 1 : 4;
    return n < 2048 * 128 ? (unsigned)((n + 127) / 128) : 2048;
}

static unsigned threads(void)
{
    return weft_target_get() == WEFT_CUDA ? 128 : 32;
}

#define LAUNCH_ON(queue, m, kernel, n, ...)                                                        \
    WEFT_LAUNCH(kernel, blocks_for(m, n), threads(), 0, queue, __VA_ARGS__)
#define LAUNCH(m, kernel, n, ...) LAUNCH_ON((m)->stream, m, kernel, n, __VA_ARGS__)
#define TRY(call)                                                                                  \
    do {                                                                                           \
        weft_status status_ = (call);                                                              \
        if (status_)                                                                               \
            return status_;                                                                        \
    } while (0)

static size_t tiles(size_t rows, size_t columns)
{
    return (rows + 3) / 4 * ((columns + 3) / 4);
}

static weft_status product(struct model *m, const float *a, const float *b, const float *add,
                           float *out, uint32_t inner, uint32_t columns, int relu)
{
    size_t rows = rows_of(&m->shape);
    return LAUNCH(m, product_kernel, tiles(rows, columns), a, b, add, out, (uint32_t)rows, inner,
                  columns, relu);
}

static weft_status norm(struct model *m, const float *x, const float *gain, float *y, float *scales)
{
    size_t rows = rows_of(&m->shape);
    return LAUNCH(m, norm_kernel, rows, x, gain, y, scales, (uint32_t)rows, m->shape.width);
}

/* Backward pass of y = x w. */
static weft_status product_back(struct model *m, const float *x, const float *w, const float *dy,
                                const float *open, float *dx, float *dw, uint32_t inner,
                                uint32_t columns)
{
    size_t rows = rows_of(&m->shape);
    TRY(LAUNCH(m, weights_kernel, tiles(inner, columns), x, dy, dw, (uint32_t)rows, inner,
               columns));
    return LAUNCH(m, below_kernel, tiles(rows, inner), dy, w, open, dx, (uint32_t)rows, inner,
                  columns);
}

static weft_status norm_back(struct model *m, const float *x, const float *scales,
                             const float *gain, float *dgain, int first)
{
    size_t rows = rows_of(&m->shape);
    uint32_t width = m->shape.width;
    TRY(LAUNCH(m, gain_parts_kernel, parts_of(rows) * width, x, scales, m->dnormed, m->gain_parts,
               (uint32_t)rows, width));
    TRY(LAUNCH(m, gain_kernel, width, m->gain_parts, dgain, (uint32_t)rows, width));
    return LAUNCH(m, norm_below_kernel, rows, x, scales, gain, m->dnormed, m->dx, (uint32_t)rows,
                  width, first);
}

/* ------------------------------------------------------------------------------- passes */

weft_status model_init(struct model *m, float *values)
{
    const model_shape *s = &m->shape;
    struct places p = places_of(s);
    float wide = sqrtf(3.0f / (float)s->width), joins = wide / sqrtf(2.0f * (float)s->layers);
    struct part {
        size_t first, end;
        float scale;
    } parts[4];
    parts[0] = (struct part){p.head, p.gain, wide};
    parts[1] = (struct part){p.gain, p.layers, 0.0f};
    parts[2] = (struct part){p.positions, p.end, 0.1f};
    for (int i = 0; i < 3; i++)
        TRY(LAUNCH(m, init_kernel, p.end, values + parts[i].first, parts[i].end - parts[i].first,
                   s->seed, parts[i].first, parts[i].scale));
    for (uint32_t layer = 0; layer < s->layers; layer++) {
        struct layer_place l = place_of_layer(s, layer);
        struct part of_layer[] = {{l.second, l.first, 0.5f * joins},
                                  {l.first, l.gain2, wide},
                                  {l.gain2, l.join, 0.0f},
                                  {l.join, l.qkv, joins},
                                  {l.qkv, l.gain1, wide},
                                  {l.gain1, l.end, 0.0f}};
        for (size_t i = 0; i < sizeof of_layer / sizeof *of_layer; i++) {
            const struct part *part = &of_layer[i];
            TRY(LAUNCH(m, init_kernel, part->end - part->first, values + part->first,
                       part->end - part->first, s->seed, part->first, part->scale));
        }
    }
    return WEFT_OK;
}

static weft_status wanted(const struct model_hooks *hooks, size_t first, size_t end)
{
    return hooks && hooks->wanted ? hooks->wanted(hooks->with, first, end) : WEFT_OK;
}

static weft_status filled(const struct model_hooks *hooks, size_t end)
{
    return hooks && hooks->filled ? hooks->filled(hooks->with, end) : WEFT_OK;
}

static float *out_of(struct model *m, uint32_t layer)
{
    return layer + 1 < m->shape.layers ? m->kept[layer + 1].in : m->out;
}

static weft_status layer_forward(struct model *m, const float *values, uint32_t layer)
{
    const model_shape *s = &m->shape;
    struct kept *k = &m->kept[layer];
    struct layer_place l = place_of_layer(s, layer);
    uint32_t width = s->width;
    TRY(norm(m, k->in, values + l.gain1, k->norm1, k->scales1));
    TRY(product(m, k->norm1, values + l.qkv, NULL, k->qkv, width, 3 * width, 0));
    TRY(LAUNCH(m, attend_kernel, rows_of(s) * s->heads, k->qkv, k->shares, k->attended, *s));
    TRY(product(m, k->attended, values + l.join, k->in, k->middle, width, width, 0));
    TRY(norm(m, k->middle, values + l.gain2, k->norm2, k->scales2));
    TRY(product(m, k->norm2, values + l.first, NULL, k->hidden, width, 4 * width, 1));
    return product(m, k->hidden, values + l.second, k->middle, out_of(m, layer), 4 * width, width,
                   0);
}

/* Forward pass from ids to logits. */
static weft_status all_layers(struct model *m, const float *values, const struct model_hooks *hooks)
{
    const model_shape *s = &m->shape;
    struct places p = places_of(s);
    TRY(wanted(hooks, p.positions, p.end));
    TRY(LAUNCH(m, embed_kernel, rows_of(s) * s->width, m->ids, values + p.characters,
               values + p.positions, m->kept[0].in, *s));
    for (uint32_t layer = 0; layer < s->layers; layer++) {
        struct layer_place l = place_of_layer(s, layer);
        TRY(wanted(hooks, l.second, l.end));
        TRY(layer_forward(m, values, layer));
    }
    TRY(wanted(hooks, p.head, p.layers));
    TRY(norm(m, m->out, values + p.gain, m->normed, m->scales));
    return product(m, m->normed, values + p.head, NULL, m->logits, s->width, s->vocabulary, 0);
}

weft_status model_forward(struct model *m, const float *values, uint64_t step, uint32_t micro,
                          double *loss, const struct model_hooks *hooks)
{
    const model_shape *s = &m->shape;
    tokens from = {m->text, m->length, step, micro};
    size_t rows = rows_of(s);
    TRY(LAUNCH(m, sample_kernel, rows, from, m->ids, *s));
    TRY(all_layers(m, values, hooks));
    TRY(LAUNCH(m, loss_kernel, rows, m->logits, m->ids, m->losses, *s));
    TRY(LAUNCH(m, mean_parts_kernel, parts_of(rows), m->losses, m->loss_parts, (uint32_t)rows));
    return LAUNCH(m, mean_kernel, 1, m->loss_parts, loss, (uint32_t)rows);
}

weft_status model_next(struct model *m, const float *values, const uint8_t *characters,
                       uint32_t count, float *logits)
{
    struct model one = *m; /* one sequence; the memory is large enough for more */
    uint32_t n = m->shape.vocabulary;
    one.shape.batch = 1;
    TRY(LAUNCH(m, given_kernel, m->shape.context, characters, count, m->ids, one.shape));
    TRY(all_layers(&one, values, NULL));
    return model_add(m, logits, NULL, m->logits + (size_t)(count - 1) * n, n, m->stream);
}

static weft_status layer_backward(struct model *m, const float *values, float *gradients,
                                  uint32_t layer, const struct model_hooks *hooks)
{
    const model_shape *s = &m->shape;
    struct kept *k = &m->kept[layer];
    struct layer_place l = place_of_layer(s, layer);
    uint32_t width = s->width;
    TRY(product_back(m, k->hidden, values + l.second, m->dx, k->hidden, m->dhidden,
                     gradients + l.second, 4 * width, width));
    TRY(filled(hooks, l.first));
    TRY(product_back(m, k->norm2, values + l.first, m->dhidden, NULL, m->dnormed,
                     gradients + l.first, width, 4 * width));
    TRY(norm_back(m, k->middle, k->scales2, values + l.gain2, gradients + l.gain2, 0));
    TRY(filled(hooks, l.join));
    TRY(product_back(m, k->attended, values + l.join, m->dx, NULL, m->dattended, gradients + l.join,
                     width, width));
    TRY(LAUNCH(m, shares_below_kernel, rows_of(s) * s->heads, k->qkv, k->shares, m->dattended,
               m->dshares, *s));
    TRY(LAUNCH(m, attend_below_kernel, rows_of(s) * width, k->qkv, k->shares, m->dattended,
               m->dshares, m->dqkv, *s));
    TRY(product_back(m, k->norm1, values + l.qkv, m->dqkv, NULL, m->dnormed, gradients + l.qkv,
                     width, 3 * width));
    TRY(norm_back(m, k->in, k->scales1, values + l.gain1, gradients + l.gain1, 0));
    return filled(hooks, l.end);
}

weft_status model_backward(struct model *m, const float *values, float *gradients,
                           const struct model_hooks *hooks)
{
    const model_shape *s = &m->shape;
    struct places p = places_of(s);
    TRY(product_back(m, m->normed, values + p.head, m->logits, NULL, m->dnormed, gradients + p.head,
                     s->width, s->vocabulary));
    TRY(norm_back(m, m->out, m->scales, values + p.gain, gradients + p.gain, 1));
    TRY(filled(hooks, p.layers));
    for (uint32_t layer = s->layers; layer-- > 0;)
        TRY(layer_backward(m, values, gradients, layer, hooks));
    TRY(LAUNCH(m, positions_kernel, (size_t)s->context * s->width, m->dx, gradients + p.positions,
               *s));
    TRY(LAUNCH(m, characters_kernel, (size_t)s->vocabulary * s->width, m->ids, m->dx,
               gradients + p.characters, *s));
    return filled(hooks, p.end);
}

/* --------------------------------------------------------------------- operations on any stream */

weft_status model_add(struct model *m, float *to, const float *a, const float *b, size_t n,
                      weft_stream stream)
{
    return LAUNCH_ON(stream, m, add_kernel, n, to, a, b, n);
}

weft_status model_nothing(struct model *m, float *to, size_t n, weft_stream stream)
{
    return LAUNCH_ON(stream, m, nothing_kernel, n, to, n);
}

weft_status model_update(struct model *m, float *values, float *first, float *second,
                         const float *gradients, size_t n, uint64_t step, float rate,
                         weft_stream stream)
{
    adamw a = {.beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-8f, .decay = 0.01f};
    a.rate = step < MODEL_WARMUP ? rate * (float)step / MODEL_WARMUP : rate;
    a.correct1 = (float)(1 - pow(0.9, (double)step));
    a.correct2 = (float)(1 - pow(0.99, (double)step));
    return LAUNCH_ON(stream, m, update_kernel, n, values, first, second, gradients, n, a);
}
