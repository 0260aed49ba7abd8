/* SPDX-License-Identifier: Apache-2.0 */
/* See layer.h. */
#include "layer.h"

#include <stdlib.h>
#include <string.h>

#include <weft_device.h>
#include <weft_experts.h>

#define TRY(call)                                                                                  \
    do {                                                                                           \
        weft_status status_ = (call);                                                              \
        if (status_)                                                                               \
            return status_;                                                                        \
    } while (0)

struct layer {
    weft_job *job;
    shape s;
    weft_stream stream;
    unsigned blocks, threads, many_threads;
    bool split; /* a dispatch or combine is two calls */
    /* The rows of the forward pass stay in the memory of the first object until the backward pass
     * has used them; the second one receives their gradients. */
    weft_experts *forward, *backward;
    void *memory, *layout;
    buffers b;
    weft_event begun[PHASES], ended[PHASES];
};

/* --------------------------------------------------------------------------------------- memory */

/* Returns the next piece of the memory at `base`, which is NULL to count bytes alone. */
static void *piece(char *base, size_t *used, size_t n, size_t bytes)
{
    char *at = base ? base + *used : NULL;
    *used += (n * bytes + 255) / 256 * 256;
    return at;
}

/* Returns the bytes of all buffers, the same at all PEs. */
static size_t place_buffers(struct layer *l, size_t layout_bytes, char *base)
{
    const shape *s = &l->s;
    buffers *b = &l->b;
    size_t used = 0, numbers = (size_t)s->tokens * s->hidden, choices = (size_t)s->tokens * s->top;
    size_t rows = s->rows, experts = (s->experts + s->pes - 1) / s->pes;
    uint16_t **of_tokens[] = {&b->x, &b->dy, &b->y, &b->dx};
    for (size_t i = 0; i < sizeof of_tokens / sizeof *of_tokens; i++)
        *of_tokens[i] = piece(base, &used, numbers, sizeof(uint16_t));
    b->expert = piece(base, &used, choices, sizeof *b->expert);
    b->weight = piece(base, &used, choices, sizeof *b->weight);
    b->dweight = piece(base, &used, choices, sizeof *b->dweight);
    b->factors = piece(base, &used, experts * s->hidden, sizeof *b->factors);
    b->dfactors = piece(base, &used, experts * s->hidden, sizeof *b->dfactors);
    b->n_rows = piece(base, &used, 1, sizeof *b->n_rows);
    b->row_expert = piece(base, &used, rows * s->top, sizeof *b->row_expert);
    b->row_weight = piece(base, &used, rows * s->top, sizeof *b->row_weight);
    b->row_dweight = piece(base, &used, rows * s->top, sizeof *b->row_dweight);
    b->row_out = piece(base, &used, rows * s->hidden, sizeof *b->row_out);
    b->list = piece(base, &used, experts * rows, sizeof *b->list);
    b->listed = piece(base, &used, experts, sizeof *b->listed);
    l->layout = piece(base, &used, layout_bytes, 1);
    return used;
}

static weft_status make_experts(struct layer *l, const weft_experts_attr *attr)
{
    float *scales;
    void *x, *dy;
    TRY(weft_experts_create(weft_team_world(l->job), attr, &l->forward));
    TRY(weft_experts_create(weft_team_world(l->job), attr, &l->backward));
    TRY(weft_experts_received(l->forward, &x, &scales));
    TRY(weft_experts_received(l->backward, &dy, &scales));
    l->b.row_x = x;
    l->b.row_dy = dy;
    return WEFT_OK;
}

/* On CPUs few lanes do the work of many on a GPU. */
weft_status layer_create(weft_job *job, const shape *s, weft_stream stream, struct layer **made)
{
    bool simt = weft_target_get() == WEFT_SIMT;
    struct layer *l = calloc(1, sizeof *l);
    *made = l;
    if (!l)
        return WEFT_ERR_NO_MEMORY;
    l->job = job;
    l->s = *s;
    if (!l->s.rows)
        l->s.rows = s->pes * s->tokens;
    l->stream = stream;
    l->blocks = simt ? 2 : 264;
    l->threads = simt ? 32 : 256;
    l->many_threads = simt ? 32 : 1024;
    const weft_experts_attr attr = {.size = sizeof attr,
                                    .tokens = s->tokens,
                                    .hidden = s->hidden,
                                    .experts = s->experts,
                                    .top = s->top,
                                    .rows = s->rows,
                                    .type = WEFT_BFLOAT16,
                                    .result_type = WEFT_BFLOAT16};
    weft_experts_size size;
    TRY(weft_experts_sizes((int)s->pes, &attr, &size));
    TRY(weft_alloc(job, weft_device_kind(job), place_buffers(l, size.layout, NULL), 256,
                   WEFT_ALLOC_ZERO, &l->memory));
    place_buffers(l, size.layout, l->memory);
    TRY(make_experts(l, &attr));
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
    TRY(weft_experts_destroy(l->backward));
    TRY(weft_experts_destroy(l->forward));
    TRY(weft_free(l->job, l->memory));
    free(l);
    return WEFT_OK;
}

weft_status layer_adds_by_nodes(const struct layer *l, bool *adds)
{
    weft_experts_size size;
    TRY(weft_experts_query(l->forward, &size));
    *adds = size.relays != 0;
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

void layer_split_calls(struct layer *l, bool split)
{
    l->split = split;
}

static weft_status dispatch(const struct layer *l, weft_experts *experts,
                            const weft_experts_rows *rows, const weft_experts_tokens *tokens)
{
    if (!l->split)
        return weft_experts_dispatch_on_stream(experts, rows, l->layout, tokens, l->stream);
    TRY(weft_experts_dispatch_send_on_stream(experts, l->layout, tokens, l->stream));
    return weft_experts_dispatch_receive_on_stream(experts, rows, l->layout, l->stream);
}

/* Adds the results in row_out, and with `weights` those of the rows. */
static weft_status combine(const struct layer *l, weft_experts *experts, uint16_t *sums,
                           float *sums_of_weights, const float *weights)
{
    if (!l->split)
        return weft_experts_combine_on_stream(experts, sums, sums_of_weights, l->b.row_out, weights,
                                              l->layout, l->stream);
    TRY(weft_experts_combine_send_on_stream(experts, l->b.row_out, weights, l->layout, l->stream));
    return weft_experts_combine_receive_on_stream(experts, sums, sums_of_weights, l->layout,
                                                  l->stream);
}

weft_status layer_route(struct layer *l)
{
    RUN(make_kernel, l->b, l->s);
    RUN(route_kernel, l->b, l->s);
    return WEFT_OK;
}

weft_status layer_dispatch(struct layer *l, bool timed)
{
    const weft_experts_tokens tokens = {.size = sizeof tokens,
                                        .tokens = l->s.tokens,
                                        .x = l->b.x,
                                        .topk_idx = l->b.expert,
                                        .topk_weights = l->b.weight};
    const weft_experts_rows rows = {.size = sizeof rows,
                                    .topk_idx = l->b.row_expert,
                                    .topk_weights = l->b.row_weight,
                                    .n_rows = l->b.n_rows};
    TRY(record_begin(l, DISPATCH, timed));
    TRY(dispatch(l, l->forward, &rows, &tokens));
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
    TRY(combine(l, l->forward, l->b.y, NULL, NULL));
    return record_end(l, COMBINE, timed);
}

/* Called after a forward pass, whose rows and layout it uses. */
weft_status layer_backward(struct layer *l, bool timed)
{
    const weft_experts_tokens gradients = {
        .size = sizeof gradients, .tokens = l->s.tokens, .known = 1, .x = l->b.dy};
    const weft_experts_rows rows = {.size = sizeof rows};
    TRY(record_begin(l, BACK_DISPATCH, timed));
    TRY(dispatch(l, l->backward, &rows, &gradients));
    TRY(record_end(l, BACK_DISPATCH, timed));
    RUN(expert_back_kernel, l->b, l->s);
    RUN_ON(l->stream, l->blocks, l->many_threads, list_kernel, l->b, l->s);
    RUN(factors_kernel, l->b, l->s);
    TRY(record_begin(l, BACK_COMBINE, timed));
    TRY(combine(l, l->backward, l->b.dx, l->b.dweight, l->b.row_dweight));
    return record_end(l, BACK_COMBINE, timed);
}

/* ------------------------------------------------------------------------------- figures */

/* Copies memory of this PE's device to host memory. */
static weft_status fetch(struct layer *l, void *to, const void *from, size_t bytes)
{
    return bytes ? weft_get(weft_default_ctx(l->job), to, from, bytes, (int)l->s.me) : WEFT_OK;
}

weft_status layer_tokens_of_experts(struct layer *l, uint32_t *tokens, uint32_t *own)
{
    *own = first_expert(&l->s, l->s.me + 1) - first_expert(&l->s, l->s.me);
    return fetch(l, tokens, l->b.listed, *own * sizeof *tokens);
}

weft_status layer_phase_ns(struct layer *l, enum phase phase, uint64_t *ns)
{
    return weft_event_elapsed(l->begun[phase], l->ended[phase], ns);
}

/* Counts the PEs to which a token with these experts goes, and whether this PE is one of them. */
static void count_pes(const struct layer *l, const int64_t *experts, double *pes, double *own)
{
    for (uint32_t k = 0; k < l->s.top; k++) {
        uint32_t pe = owner_of(&l->s, (uint32_t)experts[k]), before = 0;
        while (before < k && owner_of(&l->s, (uint32_t)experts[before]) != pe)
            before++;
        *pes += before == k;
        *own += before == k && pe == l->s.me;
    }
}

weft_status layer_traffic(struct layer *l, struct layer_traffic *traffic)
{
    size_t choices = (size_t)l->s.tokens * l->s.top, bytes = l->s.hidden * sizeof(uint16_t);
    int64_t *experts = malloc(choices * sizeof *experts);
    uint32_t received;
    double own = 0;
    *traffic = (struct layer_traffic){.rows = 0};
    weft_status status =
        experts ? fetch(l, experts, l->b.expert, choices * sizeof *experts) : WEFT_ERR_NO_MEMORY;
    for (size_t t = 0; t < l->s.tokens && !status; t++)
        count_pes(l, experts + t * l->s.top, &traffic->rows, &own);
    free(experts);
    TRY(status);
    TRY(fetch(l, &received, l->b.n_rows, sizeof received));
    traffic->remote_rows = traffic->rows - own;
    traffic->bytes_out = traffic->remote_rows * (double)(bytes + 8 * (size_t)l->s.top);
    traffic->bytes_back = (received - own) * (double)bytes;
    return WEFT_OK;
}

weft_status layer_check(struct layer *l)
{
    TRY(weft_experts_check(l->forward));
    return weft_experts_check(l->backward);
}
