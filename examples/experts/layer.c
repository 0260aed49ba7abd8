/* SPDX-License-Identifier: Apache-2.0 */
/* See layer.h. */
#include "layer.h"

#include <stdlib.h>
#include <string.h>

#include <weft/stream.h>
#include <weft_device.h>

#define TRY(call)                                                                                  \
    do {                                                                                           \
        weft_status status_ = (call);                                                              \
        if (status_)                                                                               \
            return status_;                                                                        \
    } while (0)

enum { PIECES = 18 }; /* buffers in the memory */

struct layer {
    weft_job *job;
    shape s;
    weft_stream stream,
        sum_stream; /* stream; and a second one that adds results while more arrive */
    unsigned blocks, threads, many_threads;
    buffers b;
    void *memory[PIECES];
    weft_event begun[PHASES], ended[PHASES], came[PARTS_MOST], summed;
};

/* --------------------------------------------------------------------------------------- memory */

static uint32_t most_experts(const shape *s)
{
    return (s->experts + s->pes - 1) / s->pes;
}

/* Computes the bytes of each buffer, the same at all PEs. */
static void compute_sizes(const shape *s, size_t *bytes)
{
    size_t numbers = (size_t)s->tokens * s->hidden * sizeof(uint16_t);
    size_t choices = (size_t)s->tokens * s->top, experts = most_experts(s);
    size_t blocks = s->pes * block_bytes(s), counts = s->pes * PARTS_MOST * sizeof(uint32_t);
    size_t all[PIECES] = {numbers,
                          numbers,
                          numbers,
                          numbers,
                          s->tokens * row_head(s),
                          choices * sizeof(int32_t),
                          choices * sizeof(float),
                          (size_t)s->tokens * s->pes * sizeof(int32_t),
                          counts,
                          counts,
                          experts * s->hidden * sizeof(uint16_t),
                          experts * s->hidden * sizeof(float),
                          experts * s->pes * s->capacity * sizeof(uint32_t),
                          experts * sizeof(uint32_t),
                          blocks,
                          blocks,
                          blocks,
                          blocks};
    memcpy(bytes, all, sizeof all);
}

static void name_pieces(struct layer *l)
{
    void **m = l->memory;
    l->b = (buffers){.x = m[0],
                     .dy = m[1],
                     .y = m[2],
                     .dx = m[3],
                     .entries = m[4],
                     .owner = m[5],
                     .dweight = m[6],
                     .place = m[7],
                     .sent = m[8],
                     .come = m[9],
                     .factors = m[10],
                     .dfactors = m[11],
                     .list = m[12],
                     .listed = m[13],
                     .out = m[14],
                     .in = m[15],
                     .in_dy = m[16],
                     .back = m[17]};
}

/* On CPUs few lanes do the work of many on a GPU. */
weft_status layer_create(weft_job *job, const shape *s, weft_stream stream, struct layer **made)
{
    bool simt = weft_target_get() == WEFT_SIMT;
    size_t bytes[PIECES];
    struct layer *l = calloc(1, sizeof *l);
    *made = l;
    if (!l)
        return WEFT_ERR_NO_MEMORY;
    l->job = job;
    l->s = *s;
    l->stream = stream;
    l->blocks = simt ? 2 : 264;
    l->threads = simt ? 32 : 256;
    l->many_threads = simt ? 32 : 1024;
    compute_sizes(s, bytes);
    for (int i = 0; i < PIECES; i++)
        TRY(weft_alloc(job, weft_device_kind(job), bytes[i] ? bytes[i] : 8, 256, WEFT_ALLOC_ZERO,
                       &l->memory[i]));
    name_pieces(l);
    for (int i = 0; i < PHASES; i++) {
        TRY(weft_event_create(&l->begun[i]));
        TRY(weft_event_create(&l->ended[i]));
    }
    for (int i = 0; i < PARTS_MOST; i++)
        TRY(weft_event_create(&l->came[i]));
    TRY(weft_event_create(&l->summed));
    return weft_stream_create(&l->sum_stream);
}

weft_status layer_destroy(struct layer *l)
{
    TRY(weft_stream_destroy(l->sum_stream));
    TRY(weft_event_destroy(l->summed));
    for (int i = 0; i < PARTS_MOST; i++)
        TRY(weft_event_destroy(l->came[i]));
    for (int i = 0; i < PHASES; i++) {
        TRY(weft_event_destroy(l->begun[i]));
        TRY(weft_event_destroy(l->ended[i]));
    }
    for (int i = PIECES - 1; i >= 0; i--)
        TRY(weft_free(l->job, l->memory[i]));
    free(l);
    return WEFT_OK;
}

const buffers *layer_buffers(const struct layer *l)
{
    return &l->b;
}

/* ------------------------------------------------------------------------------- the passes */

#define RUN_ON(stream, blocks, threads, kernel, ...)                                               \
    TRY(WEFT_LAUNCH(kernel, blocks, threads, 0, stream, __VA_ARGS__))
#define RUN(kernel, ...) RUN_ON(l->stream, l->blocks, l->threads, kernel, __VA_ARGS__)

static weft_status record_begin(struct layer *l, enum phase phase, bool timed)
{
    return timed ? weft_event_record(l->begun[phase], l->stream) : WEFT_OK;
}

static weft_status record_end(struct layer *l, enum phase phase, bool timed)
{
    return timed ? weft_event_record(l->ended[phase], l->stream) : WEFT_OK;
}

/* Kernels put rows directly to their destination, and a barrier ends the exchange. No other
 * synchronisation is needed: a PE that puts into a block has passed the barrier of the opposite
 * exchange after the owner last read the block. */
static weft_status exchange_barrier(struct layer *l)
{
    return weft_barrier_on_stream(weft_team_world(l->job), l->stream);
}

/* Returns results part by part, so that one part is added up while the next one arrives. */
static weft_status return_results(struct layer *l, uint16_t *to)
{
    for (uint32_t part = 0; part < l->s.parts; part++) {
        bool last = part + 1 == l->s.parts;
        RUN(return_kernel, l->b, part, l->s);
        TRY(exchange_barrier(l));
        if (!last) {
            TRY(weft_event_record(l->came[part], l->stream));
            TRY(weft_event_wait(l->sum_stream, l->came[part]));
        }
        RUN_ON(last ? l->stream : l->sum_stream, l->blocks, l->threads, sum_kernel, l->b, to, part,
               l->s);
    }
    if (l->s.parts == 1)
        return WEFT_OK;
    TRY(weft_event_record(l->summed, l->sum_stream));
    return weft_event_wait(l->stream, l->summed);
}

weft_status layer_route(struct layer *l)
{
    RUN(make_kernel, l->b, l->s);
    RUN(route_kernel, l->b, l->s);
    return WEFT_OK;
}

weft_status layer_dispatch(struct layer *l, bool timed)
{
    TRY(record_begin(l, DISPATCH, timed));
    RUN_ON(l->stream, l->s.pes, l->many_threads, place_kernel, l->b, l->s);
    RUN(send_kernel, l->b, l->b.x, l->b.in, l->s);
    TRY(exchange_barrier(l));
    return record_end(l, DISPATCH, timed);
}

weft_status layer_compute(struct layer *l)
{
    RUN(expert_kernel, l->b, l->s);
    return WEFT_OK;
}

weft_status layer_combine(struct layer *l, bool timed)
{
    TRY(record_begin(l, COMBINE, timed));
    TRY(return_results(l, l->b.y));
    return record_end(l, COMBINE, timed);
}

/* Called after a forward pass, whose tokens are still in the received blocks. */
weft_status layer_backward(struct layer *l, bool timed)
{
    TRY(record_begin(l, BACK_DISPATCH, timed));
    RUN(send_kernel, l->b, l->b.dy, l->b.in_dy, l->s);
    TRY(exchange_barrier(l));
    TRY(record_end(l, BACK_DISPATCH, timed));
    RUN(expert_back_kernel, l->b, l->s);
    RUN_ON(l->stream, l->blocks, l->many_threads, list_kernel, l->b, l->s);
    RUN(factors_kernel, l->b, l->s);
    TRY(record_begin(l, BACK_COMBINE, timed));
    TRY(return_results(l, l->b.dx));
    RUN(weights_kernel, l->b, l->s);
    return record_end(l, BACK_COMBINE, timed);
}

/* ------------------------------------------------------------------------------- figures */

weft_status layer_tokens_of_experts(struct layer *l, uint32_t *tokens, uint32_t *own)
{
    *own = first_expert(&l->s, l->s.me + 1) - first_expert(&l->s, l->s.me);
    return *own ? weft_get(weft_default_ctx(l->job), tokens, l->b.listed, *own * sizeof *tokens,
                           (int)l->s.me)
                : WEFT_OK;
}

weft_status layer_phase_ns(struct layer *l, enum phase phase, uint64_t *ns)
{
    return weft_event_elapsed(l->begun[phase], l->ended[phase], ns);
}

/* Copies `counts` to host memory that the caller frees. */
static weft_status fetch_counts(struct layer *l, const uint32_t *counts, uint32_t **fetched)
{
    size_t bytes = l->s.pes * PARTS_MOST * sizeof **fetched;
    *fetched = malloc(bytes);
    return *fetched ? weft_get(weft_default_ctx(l->job), *fetched, counts, bytes, (int)l->s.me)
                    : WEFT_ERR_NO_MEMORY;
}

weft_status layer_traffic(struct layer *l, struct layer_traffic *traffic)
{
    uint32_t *counts;
    *traffic = (struct layer_traffic){.rows = 0};
    for (int back = 0; back < 2; back++) {
        weft_status status = fetch_counts(l, back ? l->b.come : l->b.sent, &counts);
        for (uint32_t pe = 0; pe < l->s.pes && !status; pe++) {
            double rows = counts[pe * PARTS_MOST + l->s.parts - 1];
            double remote_rows = pe != l->s.me ? rows : 0;
            traffic->rows += back ? 0 : rows;
            traffic->remote_rows += back ? 0 : remote_rows;
            *(back ? &traffic->bytes_back : &traffic->bytes_out) +=
                remote_rows * (double)row_bytes(&l->s);
        }
        free(counts);
        TRY(status);
    }
    return WEFT_OK;
}

weft_status layer_check(struct layer *l, uint32_t *pe, uint32_t *rows)
{
    uint32_t *counts;
    weft_status status = fetch_counts(l, l->b.sent, &counts);
    for (uint32_t i = 0; i < l->s.pes && !status; i++) {
        *pe = i;
        *rows = counts[i * PARTS_MOST + l->s.parts - 1];
        status = *rows > l->s.capacity ? WEFT_ERR_RANGE : WEFT_OK;
    }
    free(counts);
    return status;
}
