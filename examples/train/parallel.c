/* SPDX-License-Identifier: Apache-2.0 */
/* See parallel.h. The compute stream runs the model's kernels; the talk stream runs exchanges and
 * updates. A bucket goes to the talk stream when its gradients are computed (`filled`). Kernels
 * that next read its parameters or write its gradients wait until the talk stream has finished with
 * it (`done`). */
#include "parallel.h"
#include "spans.h"

#include <stdlib.h>
#include <time.h>

#include <weft/stream.h>
#include <weft_device.h>

#define TRY(call)                                                                                  \
    do {                                                                                           \
        weft_status status_ = (call);                                                              \
        if (status_)                                                                               \
            return status_;                                                                        \
    } while (0)

struct parallel {
    weft_job *job;
    weft_team *team;
    model_shape shape;
    struct parallel_settings settings;
    struct model *model;
    weft_stream compute, talk;
    uint32_t pes, me, rounds, buckets;
    size_t floats, each; /* parameters; floats of a bucket, a multiple of the number of PEs */

    float *values, *gradients;
    float *sums[2]; /* Sums of one round and of the next: one is read while the other is written. */
    float *first, *second,
        /* with shares: moments and sums of the own share of every bucket, one after the other */
        *own;
    double *losses; /* losses of each micro-batch: own ones, then all */

    weft_event *filled, *done; /* events of each bucket */
    weft_event ended[2];       /* end of odd and even steps */
    struct spans waits;        /* waits of the compute stream for the talk stream */
    struct spans exchanges;    /* exchanges on the talk stream */

    uint64_t step;
    /* round that is being enqueued, and how many of its buckets have been */
    uint32_t round, closed;
    unsigned turn; /* index in sums[] of this round */
};

static size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* Returns the floats of a bucket: shares of whole cache lines for all PEs. */
static size_t bucket_floats(const model_shape *shape, const struct parallel_settings *settings,
                            size_t pes)
{
    size_t floats = (settings->bucket_bytes + 3) / sizeof(float), all = model_floats(shape);
    return round_up(floats < all ? floats : all, 16 * pes);
}

static size_t padded_floats(const model_shape *shape, const struct parallel_settings *settings,
                            size_t pes)
{
    return round_up(model_floats(shape), bucket_floats(shape, settings, pes));
}

/* The last bucket may be smaller; each PE's share of it has at most one unused line. */
size_t parallel_bytes(const model_shape *shape, const struct parallel_settings *settings)
{
    enum { PES = 4096 };
    size_t n = model_floats(shape) + bucket_floats(shape, settings, PES);
    return 7 * n * sizeof(float) + 2 * shape->micro * sizeof(double) + 9 * 4096;
}

/* --------------------------------------------------------------------------------------- memory */

static weft_status get(struct parallel *p, weft_kind kind, size_t bytes, void *memory)
{
    return weft_alloc(p->job, kind, bytes, 256, WEFT_ALLOC_ZERO, memory);
}

static weft_status allocate(struct parallel *p)
{
    weft_kind kind = weft_device_kind(p->job);
    size_t bytes = padded_floats(&p->shape, &p->settings, p->pes) * sizeof(float);
    size_t own = p->settings.shard ? bytes / p->pes : bytes;
    void *memory[8];
    size_t sizes[] = {bytes, bytes, bytes, bytes, own, own, p->settings.shard ? own : 0};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        TRY(get(p, kind, sizes[i], &memory[i]));
    TRY(get(p, WEFT_HOST, 2 * p->shape.micro * sizeof(double), &memory[7]));
    p->values = memory[0];
    p->gradients = memory[1];
    p->sums[0] = memory[2];
    p->sums[1] = memory[3];
    p->first = memory[4];
    p->second = memory[5];
    p->own = memory[6];
    p->losses = memory[7];
    return WEFT_OK;
}

static weft_status make_events(weft_event **events, uint32_t n)
{
    *events = calloc(n, sizeof **events);
    if (!*events)
        return WEFT_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++)
        TRY(weft_event_create(&(*events)[i]));
    return WEFT_OK;
}

static weft_status end_events(weft_event *events, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        TRY(weft_event_destroy(events[i]));
    free(events);
    return WEFT_OK;
}

static weft_status make_all_events(struct parallel *p)
{
    for (int i = 0; i < 2; i++)
        TRY(weft_event_create(&p->ended[i]));
    TRY(make_events(&p->filled, p->buckets));
    return make_events(&p->done, p->buckets);
}

weft_status parallel_create(weft_job *job, const model_shape *shape,
                            const struct parallel_settings *settings, struct model *model,
                            weft_stream compute, struct parallel **result)
{
    struct parallel *p = calloc(1, sizeof *p);
    *result = p;
    if (!p)
        return WEFT_ERR_NO_MEMORY;
    *p = (struct parallel){.job = job,
                           .team = weft_team_world(job),
                           .shape = *shape,
                           .settings = *settings,
                           .model = model,
                           .compute = compute,
                           .pes = (uint32_t)weft_n_pes(job),
                           .me = (uint32_t)weft_my_pe(job),
                           .floats = model_floats(shape)};
    p->rounds = (shape->micro + p->pes - 1) / p->pes;
    p->each = bucket_floats(shape, settings, p->pes);
    p->buckets = (uint32_t)(padded_floats(shape, settings, p->pes) / p->each);
    TRY(weft_stream_create(&p->talk));
    TRY(make_all_events(p));
    return allocate(p);
}

weft_status parallel_destroy(struct parallel *p)
{
    void *memory[] = {p->losses,  p->own,     p->second,    p->first,
                      p->sums[1], p->sums[0], p->gradients, p->values};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        TRY(weft_free(p->job, memory[i]));
    TRY(end_events(p->done, p->buckets));
    TRY(end_events(p->filled, p->buckets));
    TRY(spans_destroy(&p->waits));
    TRY(spans_destroy(&p->exchanges));
    for (int i = 0; i < 2; i++)
        TRY(weft_event_destroy(p->ended[i]));
    TRY(weft_stream_destroy(p->talk));
    free(p);
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------- waits */

/* Makes the compute stream wait for the talk stream's work on the buckets from `begin` to before
 * `end`. */
static weft_status wait_for(struct parallel *p, uint32_t begin, uint32_t end)
{
    TRY(spans_begin(&p->waits, p->compute));
    for (uint32_t b = begin; b < end; b++)
        TRY(weft_event_wait(p->compute, p->done[b]));
    return spans_end(&p->waits, p->compute);
}

/* In a step's first round the kernels must wait for the last step's updates; later rounds need
 * not. */
static weft_status wanted(void *with, size_t first, size_t end)
{
    struct parallel *p = with;
    return p->round ? WEFT_OK
                    : wait_for(p, (uint32_t)(first / p->each),
                               (uint32_t)((end + p->each - 1) / p->each));
}

/* ------------------------------------------------------------------------------- buckets */

static bool last_round(const struct parallel *p)
{
    return p->round + 1 == p->rounds;
}

static weft_status put_sum(struct parallel *p, uint32_t bucket)
{
    size_t at = bucket * p->each;
    float *sum = p->sums[p->turn] + at, *from = p->gradients + at;
    if (p->settings.shard && last_round(p))
        return weft_reducescatter_on_stream(p->team, sum, from, p->each / p->pes, WEFT_FLOAT,
                                            WEFT_SUM, p->talk);
    return weft_allreduce_on_stream(p->team, sum, from, p->each, WEFT_FLOAT, WEFT_SUM, p->talk);
}

static weft_status add_up(struct parallel *p, uint32_t bucket)
{
    TRY(spans_begin(&p->exchanges, p->talk));
    TRY(put_sum(p, bucket));
    return spans_end(&p->exchanges, p->talk);
}

static weft_status send_share(struct parallel *p, uint32_t bucket)
{
    size_t at = bucket * p->each, share = p->each / p->pes;
    TRY(spans_begin(&p->exchanges, p->talk));
    TRY(weft_allgather_on_stream(p->team, p->values + at, p->own + bucket * share,
                                 share * sizeof(float), p->talk));
    return spans_end(&p->exchanges, p->talk);
}

static weft_status update(struct parallel *p, uint32_t bucket)
{
    size_t at = bucket * p->each, n = p->settings.shard ? p->each / p->pes : p->each,
           own = bucket * n;
    float *values = p->settings.shard ? p->own : p->values;
    TRY(model_update(p->model, values + own, p->first + own, p->second + own, p->sums[p->turn] + at,
                     n, p->step, p->settings.rate, p->talk));
    return p->settings.shard ? send_share(p, bucket) : WEFT_OK;
}

/* The gradients of a bucket are computed: passes the bucket to the talk stream. */
static weft_status close_bucket(struct parallel *p, uint32_t bucket)
{
    size_t at = bucket * p->each;
    if (p->round && p->me == 0)
        TRY(model_add(p->model, p->gradients + at, p->sums[1 - p->turn] + at, p->gradients + at,
                      p->each, p->compute));
    TRY(weft_event_record(p->filled[bucket], p->compute));
    TRY(weft_event_wait(p->talk, p->filled[bucket]));
    TRY(add_up(p, bucket));
    if (last_round(p))
        TRY(update(p, bucket));
    return weft_event_record(p->done[bucket], p->talk);
}

static weft_status filled(void *with, size_t end)
{
    struct parallel *p = with;
    uint32_t whole = end == p->floats ? p->buckets : (uint32_t)(end / p->each);
    for (; p->closed < whole; p->closed++)
        TRY(close_bucket(p, p->closed));
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------- a step */

static weft_status run_round(struct parallel *p)
{
    struct model_hooks hooks = {wanted, filled, p};
    uint32_t micro = p->round * p->pes + p->me;
    p->closed = 0;
    p->turn = 1 - p->turn;
    if (micro >= p->shape.micro) {
        TRY(wait_for(p, 0, p->buckets));
        TRY(model_nothing(p->model, p->gradients, p->floats, p->compute));
        return filled(p, p->floats);
    }
    TRY(model_forward(p->model, p->values, p->step, micro, &p->losses[micro], &hooks));
    if (p->round) /* the previous round's gradients are still being added up */
        TRY(wait_for(p, 0, p->buckets));
    return model_backward(p->model, p->values, p->gradients, &hooks);
}

weft_status parallel_step(struct parallel *p, uint64_t step)
{
    p->step = step;
    TRY(weft_event_synchronize(p->ended[step % 2]));
    for (p->round = 0; p->round < p->rounds; p->round++)
        TRY(run_round(p));
    return weft_event_record(p->ended[step % 2], p->talk);
}

weft_status parallel_finish(struct parallel *p)
{
    TRY(weft_stream_synchronize(p->compute));
    TRY(weft_stream_synchronize(p->talk));
    TRY(spans_add_up(&p->waits));
    TRY(spans_add_up(&p->exchanges));
    return weft_device_check(p->job);
}

weft_status parallel_loss(struct parallel *p, double *loss)
{
    uint32_t n = p->shape.micro;
    double *all = p->losses + n;
    TRY(weft_allreduce(p->team, all, p->losses, n, WEFT_DOUBLE, WEFT_SUM));
    *loss = 0;
    for (uint32_t i = 0; i < n; i++)
        *loss += all[i] / n;
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------- the state */

struct parallel_state parallel_place(struct parallel *p)
{
    struct parallel_state whole = {p->values, p->first, p->second};
    struct parallel_state apart = {p->values, p->sums[0], p->sums[1]};
    return p->settings.shard ? apart : whole;
}

weft_status parallel_state(struct parallel *p, struct parallel_state *state)
{
    size_t share = p->each / p->pes;
    *state = parallel_place(p);
    for (uint32_t b = 0; b < p->buckets && p->settings.shard; b++) {
        TRY(weft_allgather(p->team, state->first + b * p->each, p->first + b * share,
                           share * sizeof(float)));
        TRY(weft_allgather(p->team, state->second + b * p->each, p->second + b * share,
                           share * sizeof(float)));
    }
    return WEFT_OK;
}

static weft_status copy_own_share(struct parallel *p, float *to, const float *from)
{
    size_t share = p->each / p->pes;
    for (uint32_t b = 0; b < p->buckets; b++)
        TRY(model_add(p->model, to + b * share, NULL, from + b * p->each + p->me * share, share,
                      p->compute));
    return WEFT_OK;
}

weft_status parallel_load_state(struct parallel *p)
{
    struct parallel_state from = parallel_place(p);
    if (p->settings.shard) {
        TRY(copy_own_share(p, p->own, from.values));
        TRY(copy_own_share(p, p->first, from.first));
        TRY(copy_own_share(p, p->second, from.second));
    }
    TRY(weft_stream_synchronize(p->compute));
    return weft_barrier(p->team);
}

/* ------------------------------------------------------------------------------- figures */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Measures the second time, when all memory has been accessed. The data of the exchange are not
 * used. */
weft_status parallel_alone(struct parallel *p, uint64_t *ns)
{
    for (int time = 0; time < 2; time++) {
        TRY(weft_barrier(p->team));
        uint64_t start = now_ns();
        for (p->round = 0; p->round < p->rounds; p->round++)
            for (uint32_t b = 0; b < p->buckets; b++) {
                TRY(add_up(p, b));
                if (p->settings.shard && last_round(p))
                    TRY(send_share(p, b));
            }
        TRY(weft_stream_synchronize(p->talk));
        *ns = now_ns() - start;
        TRY(spans_add_up(&p->exchanges));
    }
    p->exchanges.ns = 0;
    return weft_barrier(p->team);
}

void parallel_figures(const struct parallel *p, uint64_t *exchanged_ns, uint64_t *waited_ns)
{
    *exchanged_ns = p->exchanges.ns;
    *waited_ns = p->waits.ns;
}

uint32_t parallel_buckets(const struct parallel *p)
{
    return p->buckets;
}
