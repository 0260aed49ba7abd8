/* SPDX-License-Identifier: Apache-2.0 */
#include "alone.h"
#include "../check.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include <weft_device.h>

struct alone {
    weft_job *job;
    struct model *model;
    weft_stream stream;
    size_t n;
    float rate;
    float *values, *first, *second, *gradients, *sum;
    double *loss; /* not used */
};

size_t alone_bytes(const model_shape *shape)
{
    return 5 * (model_floats(shape) * sizeof(float) + 4096) + 4096;
}

static float *get(struct alone *a)
{
    void *memory;
    CHECK(a->job, weft_alloc(a->job, weft_device_kind(a->job), a->n * sizeof(float), 0,
                             WEFT_ALLOC_ZERO, &memory));
    return memory;
}

static void get_all(struct alone *a)
{
    void *memory;
    a->values = get(a);
    a->first = get(a);
    a->second = get(a);
    a->gradients = get(a);
    a->sum = get(a);
    CHECK(a->job, weft_alloc(a->job, WEFT_HOST, sizeof(double), 0, 0, &memory));
    a->loss = memory;
}

static void free_all(struct alone *a)
{
    CHECK(a->job, weft_free(a->job, a->loss));
    CHECK(a->job, weft_free(a->job, a->sum));
    CHECK(a->job, weft_free(a->job, a->gradients));
    CHECK(a->job, weft_free(a->job, a->second));
    CHECK(a->job, weft_free(a->job, a->first));
    CHECK(a->job, weft_free(a->job, a->values));
}

static void take_step(struct alone *a, uint32_t micros, uint64_t step)
{
    for (uint32_t micro = 0; micro < micros; micro++) {
        CHECK(a->job, model_forward(a->model, a->values, step, micro, a->loss, NULL));
        CHECK(a->job, model_backward(a->model, a->values, a->gradients, NULL));
        CHECK(a->job,
              model_add(a->model, a->sum, micro ? a->sum : NULL, a->gradients, a->n, a->stream));
    }
    CHECK(a->job, model_update(a->model, a->values, a->first, a->second, a->sum, a->n, step,
                               a->rate, a->stream));
    CHECK(a->job, weft_stream_synchronize(a->stream));
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint32_t *fetch(struct alone *a, const float *from)
{
    uint32_t *bits = malloc(a->n * sizeof *bits);
    if (!bits) {
        fprintf(stderr, "train: no memory for %zu bytes\n", a->n * sizeof *bits);
        weft_abort(a->job, 1);
    }
    CHECK(a->job,
          weft_get(weft_default_ctx(a->job), bits, from, a->n * sizeof *bits, weft_my_pe(a->job)));
    return bits;
}

static bool compare(struct alone *a, const char *what, const float *mine, const float *theirs)
{
    uint32_t *expected = fetch(a, mine), *seen = fetch(a, theirs);
    size_t i = 0;
    while (i < a->n && expected[i] == seen[i])
        i++;
    if (i < a->n)
        fprintf(stderr, "train: %s %zu is %08" PRIx32 ", but %08" PRIx32 " of one PE alone\n", what,
                i, seen[i], expected[i]);
    free(expected);
    free(seen);
    return i == a->n;
}

bool alone_same(weft_job *job, const model_shape *shape, float rate, struct model *model,
                weft_stream stream, struct parallel *parallel, uint64_t steps, double *seconds)
{
    struct alone a = {
        .job = job, .model = model, .stream = stream, .n = model_floats(shape), .rate = rate};
    struct parallel_state state;
    bool same = true;
    get_all(&a);
    CHECK(job, parallel_state(parallel, &state));
    if (weft_my_pe(job) == 0) {
        CHECK(job, model_init(model, a.values));
        CHECK(job, weft_stream_synchronize(stream));
        double start = now();
        for (uint64_t step = 1; step <= steps; step++)
            take_step(&a, shape->micro, step);
        *seconds = now() - start;
        same = compare(&a, "parameter", a.values, state.values);
        same = compare(&a, "first moment", a.first, state.first) && same;
        same = compare(&a, "second moment", a.second, state.second) && same;
        if (same)
            printf("check: identical in every bit to one PE alone from step 1 to %" PRIu64 "\n",
                   steps);
    }
    CHECK(job, weft_barrier(weft_team_world(job)));
    free_all(&a);
    return same;
}
