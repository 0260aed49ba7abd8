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

enum { PARTS = 19 }; /* of the memory */

struct layer {
    weft_job *job;
    shape s;
    weft_stream stream;
    unsigned blocks, threads;
    buffers b;
    void *memory[PARTS];
    weft_event begun[PHASES], ended[PHASES];
};

/* ------------------------------------------------------------------------------- what it has */

static uint32_t most_experts(const shape *s)
{
    return (s->experts + s->pes - 1) / s->pes;
}

/* Bytes of each part, the same at all PEs. */
static void sizes(const shape *s, size_t *bytes)
{
    size_t numbers = (size_t)s->tokens * s->hidden * sizeof(uint16_t);
    size_t choices = (size_t)s->tokens * s->top, experts = most_experts(s);
    size_t blocks = s->pes * block_bytes(s), words = s->pes * sizeof(uint64_t);
    size_t all[PARTS] = {numbers,
                         numbers,
                         numbers,
                         numbers,
                         choices * sizeof(int32_t),
                         choices * sizeof(float),
                         choices * sizeof(float),
                         (size_t)s->tokens * s->pes * sizeof(int32_t),
                         experts * s->hidden * sizeof(uint16_t),
                         experts * s->hidden * sizeof(float),
                         experts * s->pes * s->capacity * sizeof(uint32_t),
                         experts * sizeof(uint32_t),
                         blocks,
                         blocks,
                         blocks,
                         blocks,
                         2 * words,
                         2 * words,
                         choices * sizeof(int32_t)};
    memcpy(bytes, all, sizeof all);
}

static void name_parts(struct layer *l)
{
    void **m = l->memory;
    uint64_t *counts = m[16], *places = m[17];
    l->b = (buffers){.x = m[0],
                     .dy = m[1],
                     .y = m[2],
                     .dx = m[3],
                     .choice = m[4],
                     .weight = m[5],
                     .dweight = m[6],
                     .place = m[7],
                     .factors = m[8],
                     .dfactors = m[9],
                     .list = m[10],
                     .listed = m[11],
                     .out = m[12],
                     .in = m[13],
                     .in_dy = m[14],
                     .back = m[15],
                     .send_bytes = counts,
                     .return_bytes = counts + l->s.pes,
                     .at = places,
                     .room = places + l->s.pes,
                     .owner = m[18]};
}

/* On CPUs a few lanes do what many do on a GPU. */
weft_status layer_create(weft_job *job, const shape *s, weft_stream stream, struct layer **made)
{
    bool simt = weft_target_get() == WEFT_SIMT;
    size_t bytes[PARTS];
    struct layer *l = calloc(1, sizeof *l);
    *made = l;
    if (!l)
        return WEFT_ERR_NO_MEMORY;
    l->job = job;
    l->s = *s;
    l->stream = stream;
    l->blocks = simt ? 2 : 264;
    l->threads = simt ? 32 : 256;
    sizes(s, bytes);
    for (int i = 0; i < PARTS; i++)
        TRY(weft_alloc(job, weft_device_kind(job), bytes[i] ? bytes[i] : 8, 256, WEFT_ALLOC_ZERO,
                       &l->memory[i]));
    name_parts(l);
    for (int i = 0; i < PHASES; i++) {
        TRY(weft_event_create(&l->begun[i]));
        TRY(weft_event_create(&l->ended[i]));
    }
    return WEFT_OK;
}

weft_status layer_destroy(struct layer *l)
{
    for (int i = 0; i < PHASES; i++) {
        TRY(weft_event_destroy(l->begun[i]));
        TRY(weft_event_destroy(l->ended[i]));
    }
    for (int i = PARTS - 1; i >= 0; i--)
        TRY(weft_free(l->job, l->memory[i]));
    free(l);
    return WEFT_OK;
}

const buffers *layer_buffers(const struct layer *l)
{
    return &l->b;
}

/* ------------------------------------------------------------------------------- the passes */

#define RUN(kernel, ...) TRY(WEFT_LAUNCH(kernel, l->blocks, l->threads, 0, l->stream, __VA_ARGS__))

static weft_status begin(struct layer *l, enum phase phase, bool timed)
{
    return timed ? weft_event_record(l->begun[phase], l->stream) : WEFT_OK;
}

static weft_status end(struct layer *l, enum phase phase, bool timed)
{
    return timed ? weft_event_record(l->ended[phase], l->stream) : WEFT_OK;
}

/* Block i of `out` to PE i, so many bytes of it. */
static weft_status exchange(struct layer *l, char *to, const uint64_t *bytes)
{
    size_t room = l->s.pes * block_bytes(&l->s);
    return weft_alltoallv_on_stream(weft_team_world(l->job), to, room, l->b.room, l->b.at, l->b.out,
                                    bytes, l->b.at, l->stream);
}

weft_status layer_route(struct layer *l)
{
    RUN(make_kernel, l->b, l->s);
    RUN(route_kernel, l->b, l->s);
    return WEFT_OK;
}

weft_status layer_forward(struct layer *l, bool timed)
{
    TRY(begin(l, DISPATCH, timed));
    RUN(place_kernel, l->b, l->s);
    RUN(pack_kernel, l->b, l->b.x, l->s);
    TRY(exchange(l, l->b.in, l->b.send_bytes));
    TRY(end(l, DISPATCH, timed));
    RUN(expert_kernel, l->b, l->s);
    TRY(begin(l, COMBINE, timed));
    TRY(exchange(l, l->b.back, l->b.return_bytes));
    RUN(sum_kernel, l->b, l->b.y, l->s);
    return end(l, COMBINE, timed);
}

/* Behind a forward pass, whose tokens are still where they came to. */
weft_status layer_backward(struct layer *l, bool timed)
{
    TRY(begin(l, BACK_DISPATCH, timed));
    RUN(pack_kernel, l->b, l->b.dy, l->s);
    TRY(exchange(l, l->b.in_dy, l->b.send_bytes));
    TRY(end(l, BACK_DISPATCH, timed));
    RUN(expert_back_kernel, l->b, l->s);
    RUN(list_kernel, l->b, l->s);
    RUN(factors_kernel, l->b, l->s);
    TRY(begin(l, BACK_COMBINE, timed));
    TRY(exchange(l, l->b.back, l->b.return_bytes));
    RUN(sum_kernel, l->b, l->b.dx, l->s);
    RUN(weights_kernel, l->b, l->s);
    return end(l, BACK_COMBINE, timed);
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

weft_status layer_traffic(struct layer *l, struct layer_traffic *traffic)
{
    size_t n = l->s.pes;
    uint64_t *words = malloc(2 * n * sizeof *words);
    *traffic = (struct layer_traffic){.rows = 0};
    if (!words)
        return WEFT_ERR_NO_MEMORY;
    weft_status status = weft_get(weft_default_ctx(l->job), words, l->b.send_bytes,
                                  2 * n * sizeof *words, (int)l->s.me);
    for (size_t pe = 0; pe < n && !status; pe++) {
        double rows = (double)(words[pe] - BLOCK_HEAD) / (double)row_bytes(&l->s);
        bool far = pe != l->s.me;
        traffic->rows += rows;
        traffic->far_rows += far ? rows : 0;
        traffic->bytes_out += far ? (double)words[pe] : 0;
        traffic->bytes_back += far ? (double)words[n + pe] : 0;
    }
    free(words);
    return status;
}
