/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of model.h, one source for GPUs and for CPU threads. A thread computes whole sums from
 * the first element to the last, without atomics, so no order depends on timing. */
#include <weft_device.h>

#include "model.h"
#include "share.h"

#include <math.h>

/* Samples that a thread processes at once: each weight that it loads is used for all of them. */
enum { TILE = 4 };

typedef struct adam {
    float rate, beta1, beta2, epsilon;
    float correct1, correct2; /* 1 - beta^step */
} adam;

/* Source: splitmix64 (G. L. Steele et al., OOPSLA 2014). */
WEFT_DEVICE uint64_t spread(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Returns a number from -1 to 1 that depends on (seed, index). */
WEFT_DEVICE float uniform(uint64_t seed, uint64_t index)
{
    uint32_t bits = (uint32_t)(spread(spread(seed) ^ index) >> 40); /* 24 bits */
    return (float)bits * (2.0f / 16777216.0f) - 1.0f;
}

/* Initialises parameters from `first` on, the first `each` floats of the block, and their
 * moments. */
WEFT_KERNEL(init_kernel, (float *, block), (uint32_t, width), (size_t, first), (size_t, each),
            (uint64_t, seed), (float, scale))
{
    for (size_t i = weft_dev_grid_rank(); i < MODEL_PARTS * each; i += weft_dev_grid_threads())
        block[i] =
            i < each && first + i < (size_t)width * width ? scale * uniform(seed, first + i) : 0.0f;
}

WEFT_KERNEL(sample_kernel, (float *, x), (size_t, n), (uint64_t, seed), (uint64_t, first))
{
    for (size_t i = weft_dev_grid_rank(); i < n; i += weft_dev_grid_threads())
        x[i] = uniform(seed, first + i);
}

/* y = x + relu(x W + b). */
WEFT_KERNEL(forward_kernel, (const float *, weights), (const float *, x), (float *, y),
            (uint32_t, width), (uint32_t, batch))
{
    size_t tiles = (batch + TILE - 1) / TILE, n = tiles * width;
    for (size_t i = weft_dev_grid_rank(); i < n; i += weft_dev_grid_threads()) {
        uint32_t column = (uint32_t)(i % width), first = (uint32_t)(i / width) * TILE;
        uint32_t count = batch - first < TILE ? batch - first : TILE;
        const float *sample = x + (size_t)first * width;
        float sum[TILE];
        for (uint32_t s = 0; s < TILE; s++)
            sum[s] = weights[(size_t)width * width + column];
        for (uint32_t row = 0; row < width; row++) {
            float weight = weights[(size_t)row * width + column];
            for (uint32_t s = 0; s < count; s++)
                sum[s] += sample[(size_t)s * width + row] * weight;
        }
        for (uint32_t s = 0; s < count; s++) {
            size_t at = (size_t)(first + s) * width + column;
            y[at] = x[at] + (sum[s] > 0.0f ? sum[s] : 0.0f);
        }
    }
}

WEFT_DEVICE float wanted(const float *sample, uint32_t column, uint32_t width)
{
    float a = sample[(7 * column + 3) % width], b = sample[(3 * column + 1) % width];
    return (a > 0.0f ? a : -a) - 0.5f * b;
}

/* Gradient of the mean square error over `all` numbers, of which these are a part. */
WEFT_KERNEL(compare_kernel, (const float *, input), (const float *, output), (float *, gradient),
            (uint32_t, width), (uint32_t, batch), (size_t, all))
{
    size_t n = (size_t)width * batch;
    for (size_t i = weft_dev_grid_rank(); i < n; i += weft_dev_grid_threads()) {
        uint32_t column = (uint32_t)(i % width);
        gradient[i] =
            (output[i] - wanted(input + (i - column), column, width)) * (2.0f / (float)all);
    }
}

/* Error of each sample, by one thread each. */
WEFT_KERNEL(error_kernel, (const float *, input), (const float *, output), (float *, errors),
            (uint32_t, width), (uint32_t, batch))
{
    for (size_t s = weft_dev_grid_rank(); s < batch; s += weft_dev_grid_threads()) {
        float error = 0.0f;
        for (uint32_t j = 0; j < width; j++) {
            float difference = output[s * width + j] - wanted(input + s * width, j, width);
            error += difference * difference;
        }
        errors[s] = error / (float)width;
    }
}

/* Gradient through relu. relu passes it where the output is greater than the input; where the added
 * value is too small for a float, the gradient is 0. */
WEFT_KERNEL(open_kernel, (const float *, x), (const float *, y), (const float *, gradient),
            (float *, through), (size_t, n))
{
    for (size_t i = weft_dev_grid_rank(); i < n; i += weft_dev_grid_threads())
        through[i] = y[i] > x[i] ? gradient[i] : 0.0f;
}

/* Gradient for the layer below: gradient + through W^T, in place. */
WEFT_KERNEL(below_kernel, (const float *, weights), (const float *, through), (float *, gradient),
            (uint32_t, width), (uint32_t, batch))
{
    size_t tiles = (batch + TILE - 1) / TILE, n = tiles * width;
    for (size_t i = weft_dev_grid_rank(); i < n; i += weft_dev_grid_threads()) {
        uint32_t row = (uint32_t)(i % width), first = (uint32_t)(i / width) * TILE;
        uint32_t count = batch - first < TILE ? batch - first : TILE;
        float sum[TILE] = {0.0f};
        for (uint32_t column = 0; column < width; column++) {
            float weight = weights[(size_t)row * width + column];
            for (uint32_t s = 0; s < count; s++)
                sum[s] += through[(size_t)(first + s) * width + column] * weight;
        }
        for (uint32_t s = 0; s < count; s++)
            gradient[(size_t)(first + s) * width + row] += sum[s];
    }
}

/* Returns the gradient of parameter i for these samples. */
WEFT_DEVICE float gradient_of(size_t i, const float *x, const float *through, uint32_t width,
                              uint32_t batch)
{
    uint32_t row = (uint32_t)(i / width), column = (uint32_t)(i % width);
    float gradient = 0.0f;
    for (uint32_t s = 0; s < batch; s++) {
        float in = row < width ? x[(size_t)s * width + row] : 1.0f;
        gradient += in * through[(size_t)s * width + column];
    }
    return gradient;
}

/* Source: D. P. Kingma, J. Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015, algorithm
 * 1. */
WEFT_DEVICE void adam_step(float *value, float *first, float *second, float gradient, adam a)
{
    *first = a.beta1 * *first + (1.0f - a.beta1) * gradient;
    *second = a.beta2 * *second + (1.0f - a.beta2) * gradient * gradient;
    *value -= a.rate * (*first / a.correct1) / (sqrtf(*second / a.correct2) + a.epsilon);
}

/* Computes the gradient of each parameter and applies Adam's step. */
WEFT_KERNEL(update_kernel, (float *, block), (const float *, x), (const float *, through),
            (uint32_t, width), (uint32_t, batch), (adam, a))
{
    size_t part = ((size_t)width + 1) * width;
    for (size_t i = weft_dev_grid_rank(); i < part; i += weft_dev_grid_threads())
        adam_step(&block[i], &block[part + i], &block[2 * part + i],
                  gradient_of(i, x, through, width, batch), a);
}

WEFT_KERNEL(gradient_kernel, (float *, gradients), (const float *, x), (const float *, through),
            (uint32_t, width), (uint32_t, batch))
{
    size_t part = ((size_t)width + 1) * width;
    for (size_t i = weft_dev_grid_rank(); i < part; i += weft_dev_grid_threads())
        gradients[i] = gradient_of(i, x, through, width, batch);
}

/* Applies Adam's step to `count` parameters with the sum of all PEs' gradients, `each` floats
 * apart. */
WEFT_KERNEL(update_share_kernel, (float *, block), (const float *, inbox), (size_t, each),
            (size_t, count), (uint32_t, pes), (adam, a))
{
    for (size_t i = weft_dev_grid_rank(); i < count; i += weft_dev_grid_threads()) {
        float gradient = 0.0f;
        for (uint32_t pe = 0; pe < pes; pe++)
            gradient += inbox[pe * each + i];
        adam_step(&block[i], &block[each + i], &block[2 * each + i], gradient, a);
    }
}

#if WEFT_HOST_CODE

#include <stdlib.h>

struct model_work {
    weft_job *job;
    struct model_shape shape;
    /* input of every layer, and output of the last: layers + 1 times batch x width */
    float *inputs;
    float *gradient;     /* batch x width */
    float *through;      /* batch x width */
    float *errors;       /* batch, in host memory, written by the GPU */
    struct share *share; /* NULL: one PE */
};

size_t model_part_bytes(const struct model_shape *shape)
{
    return ((size_t)shape->width + 1) * shape->width * sizeof(float);
}

static size_t part_floats(const struct model_shape *shape)
{
    return model_part_bytes(shape) / sizeof(float);
}

/* Rounded up to whole pages, which suits files. */
size_t model_shard_bytes(const struct model_shape *shape)
{
    enum { PAGE = 4096 };
    size_t bytes = model_part_bytes(shape);
    return shape->pes <= 1 ? bytes : (bytes + shape->pes * PAGE - 1) / (shape->pes * PAGE) * PAGE;
}

size_t model_shard_first(const struct model_shape *shape, uint32_t pe)
{
    size_t first = pe * (model_shard_bytes(shape) / sizeof(float)), all = part_floats(shape);
    return first < all ? first : all;
}

size_t model_shard_count(const struct model_shape *shape, uint32_t pe)
{
    return model_shard_first(shape, pe + 1) - model_shard_first(shape, pe);
}

static size_t samples_bytes(const struct model_shape *shape)
{
    return (size_t)shape->batch * shape->width * sizeof(float);
}

size_t model_work_bytes(const struct model_shape *shape)
{
    return (shape->layers + 3) * samples_bytes(shape) + share_bytes(shape);
}

static weft_status get(struct model_work *work, weft_kind kind, size_t bytes, float **memory)
{
    void *block = NULL;
    weft_status status = weft_alloc(work->job, kind, bytes, 0, 0, &block);
    *memory = block;
    return status;
}

weft_status model_work_create(weft_job *job, const struct model_shape *shape,
                              struct model_work **work)
{
    struct model_work *w = calloc(1, sizeof *w);
    *work = w;
    if (!w)
        return WEFT_ERR_NO_MEMORY;
    w->job = job;
    w->shape = *shape;
    weft_kind kind = weft_device_kind(job);
    size_t samples = samples_bytes(shape);
    weft_status status = get(w, kind, (shape->layers + 1) * samples, &w->inputs);
    if (!status)
        status = get(w, kind, samples, &w->gradient);
    if (!status)
        status = get(w, kind, samples, &w->through);
    if (!status)
        status = get(w, WEFT_HOST, shape->batch * sizeof(float), &w->errors);
    return status ? status : share_create(job, shape, &w->share);
}

weft_status model_work_destroy(struct model_work *work)
{
    weft_status status = share_destroy(work->share);
    if (!status)
        status = weft_free(work->job, work->errors);
    if (!status)
        status = weft_free(work->job, work->through);
    if (!status)
        status = weft_free(work->job, work->gradient);
    if (!status)
        status = weft_free(work->job, work->inputs);
    free(work);
    return status;
}

/* Returns the blocks for n results, independent of the memory for layers. */
static unsigned blocks_for(size_t n)
{
    if (weft_target_get() != WEFT_CUDA)
        return n < 8 * 32 ? 1 : 8;
    return n < 1024 * 128 ? (unsigned)((n + 127) / 128) : 1024;
}

static unsigned threads(void)
{
    return weft_target_get() == WEFT_CUDA ? 128 : 32;
}

static float *input_of(const struct model_work *work, uint32_t layer)
{
    return work->inputs + (size_t)layer * work->shape.batch * work->shape.width;
}

weft_status model_init_layer(const struct model_shape *shape, uint32_t layer, float *block)
{
    size_t each = model_shard_bytes(shape) / sizeof(float), n = MODEL_PARTS * each;
    float scale = sqrtf(0.5f / (float)shape->width);
    return WEFT_LAUNCH(init_kernel, blocks_for(n), threads(), 0, NULL, block, shape->width,
                       model_shard_first(shape, shape->me), each,
                       shape->seed + ((uint64_t)layer + 1) * 0x100000001u, scale);
}

static size_t pes_of(const struct model_shape *shape)
{
    return shape->pes ? shape->pes : 1;
}

weft_status model_begin(struct model_work *work, uint64_t step)
{
    size_t n = (size_t)work->shape.batch * work->shape.width;
    return WEFT_LAUNCH(sample_kernel, blocks_for(n), threads(), 0, NULL, work->inputs, n,
                       work->shape.seed, (step * pes_of(&work->shape) + work->shape.me) * n);
}

weft_status model_forward(struct model_work *work, uint32_t layer, const float *block)
{
    const struct model_shape *s = &work->shape;
    size_t n = (size_t)(s->batch + TILE - 1) / TILE * s->width;
    weft_status status = work->share ? share_gather(work->share, block) : WEFT_OK;
    if (status)
        return status;
    if (work->share)
        block = share_whole(work->share);
    return WEFT_LAUNCH(forward_kernel, blocks_for(n), threads(), 0, NULL, block,
                       input_of(work, layer), input_of(work, layer + 1), s->width, s->batch);
}

weft_status model_compare(struct model_work *work)
{
    const struct model_shape *s = &work->shape;
    const float *output = input_of(work, s->layers);
    weft_status status = WEFT_LAUNCH(compare_kernel, blocks_for((size_t)s->batch * s->width),
                                     threads(), 0, NULL, work->inputs, output, work->gradient,
                                     s->width, s->batch, (size_t)s->batch * s->width * pes_of(s));
    return status ? status
                  : WEFT_LAUNCH(error_kernel, blocks_for(s->batch), threads(), 0, NULL,
                                work->inputs, output, work->errors, s->width, s->batch);
}

double model_loss(const struct model_work *work)
{
    double sum = 0;
    for (uint32_t i = 0; i < work->shape.batch; i++)
        sum += (double)work->errors[i];
    return sum / work->shape.batch;
}

/* Updates the layer: alone, or this PE's share with the gradients of all PEs. */
static weft_status update(struct model_work *work, uint32_t layer, float *block, adam a)
{
    const struct model_shape *s = &work->shape;
    const float *x = input_of(work, layer);
    unsigned blocks = blocks_for(part_floats(s));
    if (!work->share)
        return WEFT_LAUNCH(update_kernel, blocks, threads(), 0, NULL, block, x, work->through,
                           s->width, s->batch, a);
    float *gradients = share_whole(work->share);
    size_t each = model_shard_bytes(s) / sizeof(float), count = model_shard_count(s, s->me);
    weft_status status = WEFT_LAUNCH(gradient_kernel, blocks, threads(), 0, NULL, gradients, x,
                                     work->through, s->width, s->batch);
    if (!status)
        status = share_scatter(work->share);
    return status ? status
                  : WEFT_LAUNCH(update_share_kernel, blocks_for(each), threads(), 0, NULL, block,
                                share_inbox(work->share), each, count, s->pes, a);
}

weft_status model_backward(struct model_work *work, uint32_t layer, float *block, uint64_t step)
{
    const struct model_shape *s = &work->shape;
    const float *x = input_of(work, layer), *y = input_of(work, layer + 1), *weights = block;
    size_t samples = (size_t)s->batch * s->width;
    adam a = {.rate = 1e-3f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f};
    a.correct1 = (float)(1 - pow(0.9, (double)step));
    a.correct2 = (float)(1 - pow(0.999, (double)step));
    weft_status status = WEFT_LAUNCH(open_kernel, blocks_for(samples), threads(), 0, NULL, x, y,
                                     work->gradient, work->through, samples);
    if (!status && layer && work->share) {
        status = share_gather(work->share, block);
        weights = share_whole(work->share);
    }
    if (!status && layer)
        status = WEFT_LAUNCH(below_kernel, blocks_for(samples / TILE + 1), threads(), 0, NULL,
                             weights, work->through, work->gradient, s->width, s->batch);
    return status ? status : update(work, layer, block, a);
}
#endif
