/* SPDX-License-Identifier: Apache-2.0 */
/* Dispatch and combine in stream order.
 *
 * When may a member write to another one's memory? A dispatch first synchronises the members, by
 * the exchange of counts or, with a known layout, by a barrier; so its puts arrive after the
 * owner's stream has ended the previous combine, which reads received rows. The puts of a combine
 * arrive after the barrier of the dispatch before it; without one in between, a barrier comes
 * first. The short form needs none of these: see short.h.
 *
 * Relays (nodes.h) put rows on between the barrier of a dispatch and a barrier of the node, and
 * sums between a barrier of the node and that of a combine. So the memory of relays is that of a
 * dispatch until the barrier of its nodes, and of combines from there until members synchronise for
 * the next dispatch. Each part of a combine uses it again: a barrier of all members ends the part.
 */
#include "ops/experts/experts.h"

#include "base/status.h"
#include "ops/stream/events.h"
#include "ops/stream/stream.h"

static weft_status check_call(const char *function, const weft_experts *e, const void *layout,
                              weft_stream stream)
{
    if (!e || !layout)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: %s is null", function, e ? "layout" : "experts");
    if (atomic_load(&e->team->job->state) != JOB_RUNNING)
        return job_finalized(function);
    weft_status status = job_check_failed(e->team->job);
    return status ? status : stream_check(function, e->team->job, stream);
}

static weft_status check_step(const char *function, const weft_experts *e, enum experts_step wanted)
{
    static const char *const in_flight[] = {[EXPERTS_IDLE] = "no transfer is",
                                            [EXPERTS_DISPATCHING] = "a dispatch is",
                                            [EXPERTS_DISPATCHED] = "no transfer is",
                                            [EXPERTS_COMBINING] = "a combine is"};
    bool idle = e->step == EXPERTS_IDLE || e->step == EXPERTS_DISPATCHED;
    if (wanted == EXPERTS_IDLE ? idle : e->step == wanted)
        return WEFT_OK;
    return base_fail(WEFT_ERR_ARGUMENT, "%s: send and receive alternate; %s in flight", function,
                     in_flight[e->step]);
}

/* A team of one needs no barrier: the stream orders its kernels. */
static weft_status meet(const weft_experts *e, weft_stream stream)
{
    return e->call.members > 1 ? weft_barrier_on_stream(e->team, stream) : WEFT_OK;
}

/* After members have put rows, or results, to relays: runs the kernel of a relay. */
static weft_status relay(weft_experts *e, enum experts_kernel kernel, const struct experts_call *c,
                         weft_stream stream)
{
    if (e->call.nodes.sources == 0)
        return WEFT_OK;
    unsigned blocks = kernel == EXPERTS_relay_sums ? e->part_blocks : e->blocks;
    return experts_launch(e, kernel, blocks, e->threads, c, stream);
}

/* Waits for the members of the own node, between which the kernels of relays move rows. */
static weft_status meet_node(const weft_experts *e, weft_stream stream)
{
    return e->node && e->node->n > 1 ? weft_barrier_on_stream(e->node, stream) : WEFT_OK;
}

static weft_status check_aligned(const char *function, const char *what, const void *address)
{
    if ((uintptr_t)address % 16 == 0)
        return WEFT_OK;
    return base_fail(WEFT_ERR_ARGUMENT, "%s: %s is %p; a multiple of 16 bytes is needed", function,
                     what, address);
}

static bool is_capturing(const weft_experts *e, weft_stream stream)
{
    return stream_on_cuda(e->team->job) && stream_capturing(e->team->job->gpu, stream);
}

/* The argument of kernels that read a complete layout. */
static struct experts_call call_with(const weft_experts *e, const void *layout)
{
    struct experts_call c = e->call;
    c.layout = (uint32_t *)(uintptr_t)layout;
    c.known_counts = c.layout + EXPERTS_LAYOUT_HEAD;
    return c;
}

/* ------------------------------------------------------------------------------- dispatch */

static weft_status check_tokens(const char *function, const weft_experts *e,
                                const weft_experts_tokens *t)
{
    if (!t || t->size != sizeof *t)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: tokens%s", function,
                         t ? "->size is not this library's sizeof(weft_experts_tokens)"
                           : " is null");
    if (t->tokens > e->attr.tokens)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: %u tokens, and the object was created for %u",
                         function, t->tokens, e->attr.tokens);
    const char *missing = NULL;
    if (t->tokens && !t->known && !t->topk_idx)
        missing = "topk_idx";
    if (t->tokens && e->attr.scales && !t->scales)
        missing = "scales";
    if (t->tokens && !t->x)
        missing = "x";
    if (missing)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: tokens->%s is null", function, missing);
    weft_status status = check_aligned(function, "x", t->x);
    return status ? status : check_aligned(function, "scales", t->scales);
}

static struct experts_call dispatch_call(const weft_experts *e, void *layout,
                                         const weft_experts_tokens *t)
{
    struct experts_call c = e->call;
    c.layout = layout;
    c.tokens = t->tokens;
    c.x = t->x;
    c.scales = (const char *)t->scales;
    c.topk_idx = t->topk_idx;
    c.topk_weights = t->topk_weights;
    c.known = t->known != 0;
    c.known_counts = !c.known && c.members > 1 ? c.counts : c.layout + EXPERTS_LAYOUT_HEAD;
    return c;
}

/* Assigns rows to tokens, and exchanges the counts. */
static weft_status compute_layout(weft_experts *e, struct experts_call *c, weft_stream stream)
{
    unsigned copiers = (e->blocks + 1) / 2;
    if (c->members == 1)
        c->own_counts = c->layout + EXPERTS_LAYOUT_HEAD;
    weft_status status = experts_launch(e, EXPERTS_place, c->members + c->nodes.n + copiers,
                                        e->many_threads, c, stream);
    if (status || c->members == 1)
        return status;
    size_t bytes = EXPERTS_COUNT_WORDS((size_t)c->members, c->experts) * sizeof *c->counts;
    return weft_allgather_on_stream(e->team, c->counts, c->own_counts, bytes, stream);
}

static weft_status check_rows(const char *function, const weft_experts_rows *rows, bool known)
{
    if (!rows || rows->size != sizeof *rows)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: rows%s", function,
                         rows ? "->size is not this library's sizeof(weft_experts_rows)"
                              : " is null");
    if (known && (rows->topk_idx || rows->topk_weights))
        return base_fail(WEFT_ERR_ARGUMENT,
                         "%s: %s is not sent with a known layout; keep that of the first dispatch",
                         function, rows->topk_idx ? "topk_idx" : "topk_weights");
    weft_status status = check_aligned(function, "x", rows->x);
    return status ? status : check_aligned(function, "scales", rows->scales);
}

static void set_rows(struct experts_call *c, const weft_experts_rows *rows)
{
    c->to_x = rows->x;
    c->to_scales = (char *)rows->scales;
    c->to_idx = rows->topk_idx;
    c->to_weights = rows->topk_weights;
    c->to_n_rows = rows->n_rows;
    c->to_n_tokens = rows->n_tokens;
}

static weft_status send_tokens(weft_experts *e, void *layout, const weft_experts_tokens *tokens,
                               weft_stream stream)
{
    struct experts_call c = dispatch_call(e, layout, tokens);
    weft_status status;
    e->known = c.known;
    if (c.slots) {
        status = experts_launch(e, EXPERTS_short_send, e->short_blocks, e->threads, &c, stream);
    } else {
        status = e->known ? meet(e, stream) : compute_layout(e, &c, stream);
        if (!status)
            status = experts_launch(e, EXPERTS_send, e->blocks, e->threads, &c, stream);
    }
    if (!status)
        e->step = EXPERTS_DISPATCHING;
    return status;
}

static weft_status dispatch_ended(weft_experts *e, weft_stream stream, weft_status status)
{
    if (!status) {
        e->step = EXPERTS_DISPATCHED;
        e->captured = is_capturing(e, stream);
    }
    return status;
}

static weft_status receive_tokens(weft_experts *e, const weft_experts_rows *rows, void *layout,
                                  weft_stream stream)
{
    struct experts_call c = call_with(e, layout);
    weft_status status;
    c.known = e->known;
    set_rows(&c, rows);
    if (c.slots) {
        status = experts_launch(e, EXPERTS_short_receive, e->blocks, e->threads, &c, stream);
    } else {
        status = meet(e, stream);
        if (!status)
            status = relay(e, EXPERTS_relay_rows, &c, stream);
        if (!status)
            status = meet_node(e, stream);
        if (!status)
            status = experts_launch(e, EXPERTS_receive, e->blocks, e->threads, &c, stream);
    }
    return dispatch_ended(e, stream, status);
}

WEFT_EXPORT weft_status weft_experts_dispatch_send_on_stream(weft_experts *e, void *layout,
                                                             const weft_experts_tokens *tokens,
                                                             weft_stream stream)
{
    static const char name[] = "weft_experts_dispatch_send_on_stream";
    weft_status status = check_call(name, e, layout, stream);
    if (!status)
        status = check_tokens(name, e, tokens);
    if (!status)
        status = check_step(name, e, EXPERTS_IDLE);
    return status ? status : send_tokens(e, layout, tokens, stream);
}

WEFT_EXPORT weft_status weft_experts_dispatch_receive_on_stream(weft_experts *e,
                                                                const weft_experts_rows *rows,
                                                                void *layout, weft_stream stream)
{
    static const char name[] = "weft_experts_dispatch_receive_on_stream";
    weft_status status = check_call(name, e, layout, stream);
    if (!status)
        status = check_step(name, e, EXPERTS_DISPATCHING);
    if (!status)
        status = check_rows(name, rows, e->known);
    return status ? status : receive_tokens(e, rows, layout, stream);
}

WEFT_EXPORT weft_status weft_experts_dispatch_on_stream(weft_experts *e,
                                                        const weft_experts_rows *rows, void *layout,
                                                        const weft_experts_tokens *tokens,
                                                        weft_stream stream)
{
    static const char name[] = "weft_experts_dispatch_on_stream";
    weft_status status = check_call(name, e, layout, stream);
    if (!status)
        status = check_tokens(name, e, tokens);
    if (!status)
        status = check_rows(name, rows, tokens->known);
    if (!status)
        status = check_step(name, e, EXPERTS_IDLE);
    if (status)
        return status;
    if (!e->call.slots) {
        status = send_tokens(e, layout, tokens, stream);
        return status ? status : receive_tokens(e, rows, layout, stream);
    }
    struct experts_call c = dispatch_call(e, layout, tokens);
    c.known_counts = c.layout + EXPERTS_LAYOUT_HEAD;
    set_rows(&c, rows);
    status = experts_launch(e, EXPERTS_short_dispatch, e->one_blocks, e->threads, &c, stream);
    return dispatch_ended(e, stream, status);
}

/* -------------------------------------------------------------------------------- combine */

/* Returns results part by part, to relays and from there. */
static weft_status return_parts(weft_experts *e, struct experts_call *c, weft_stream stream)
{
    weft_status status = WEFT_OK;
    for (c->part = 0; c->part < c->parts && !status; c->part++) {
        status = experts_launch(e, EXPERTS_return, e->part_blocks, e->threads, c, stream);
        if (!status)
            status = meet_node(e, stream);
        if (!status)
            status = relay(e, EXPERTS_relay_sums, c, stream);
        if (status || c->part + 1 == c->parts)
            continue;
        status = weft_barrier_on_stream(e->team, stream);
        if (!status)
            status = events_record(e->team->job, e->came[c->part], stream);
    }
    return status;
}

static weft_status check_results(const char *function, const weft_experts *e, const void *results)
{
    if (!results && e->call.result_bytes != e->call.token_bytes)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "%s: results is null, and a result has %u bytes where a row has %u",
                         function, e->call.result_bytes, e->call.token_bytes);
    return check_aligned(function, "results", results);
}

static struct experts_call combine_call(const weft_experts *e, const void *results,
                                        const float *weights, const void *layout)
{
    struct experts_call c = call_with(e, layout);
    c.results = results ? results : c.rows_in;
    c.result_weights = weights;
    return c;
}

static weft_status send_results(weft_experts *e, struct experts_call *c, weft_stream stream)
{
    weft_status status = WEFT_OK;
    if (c->slots) {
        status = experts_launch(e, EXPERTS_short_return, e->short_blocks, e->threads, c, stream);
    } else {
        if (e->step != EXPERTS_DISPATCHED || e->captured != is_capturing(e, stream))
            status = meet(e, stream);
        if (!status && c->members > 1)
            status = return_parts(e, c, stream);
    }
    if (status)
        return status;
    e->combine = *c;
    e->step = EXPERTS_COMBINING;
    return WEFT_OK;
}

/* Adds up the parts but the last one on the internal stream, each as soon as it is there. */
static weft_status sum_parts(weft_experts *e, struct experts_call *c, weft_stream stream)
{
    weft_status status = WEFT_OK;
    for (c->part = 0; c->part + 1 < c->parts && !status; c->part++) {
        status = events_wait(e->team->job, e->sum_stream, e->came[c->part]);
        if (!status)
            status = experts_launch(e, EXPERTS_sum, e->part_blocks, e->threads, c, e->sum_stream);
    }
    return status;
}

/* weights: those that are returned. */
static weft_status check_sums(const char *function, const void *dst, const float *weights_dst,
                              const float *weights)
{
    if (!dst)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: dst is null", function);
    if (weights_dst && !weights)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: weights_dst is given, and no weights are returned",
                         function);
    return check_aligned(function, "dst", dst);
}

static weft_status receive_sums(weft_experts *e, void *dst, float *weights_dst, weft_stream stream)
{
    struct experts_call c = e->combine;
    weft_status status;
    c.to = dst;
    c.to_sums = weights_dst;
    if (c.slots) {
        status = experts_launch(e, EXPERTS_short_sum, e->blocks, e->threads, &c, stream);
    } else {
        status = sum_parts(e, &c, stream);
        if (!status)
            status = meet(e, stream);
        if (!status)
            status = experts_launch(e, EXPERTS_sum, e->blocks, e->threads, &c, stream);
        if (!status && c.parts > 1)
            status = events_record(e->team->job, e->summed, e->sum_stream);
        if (!status && c.parts > 1)
            status = events_wait(e->team->job, stream, e->summed);
    }
    if (!status)
        e->step = EXPERTS_IDLE;
    return status;
}

WEFT_EXPORT weft_status weft_experts_combine_send_on_stream(weft_experts *e, const void *results,
                                                            const float *weights,
                                                            const void *layout, weft_stream stream)
{
    static const char name[] = "weft_experts_combine_send_on_stream";
    weft_status status = check_call(name, e, layout, stream);
    if (!status)
        status = check_step(name, e, EXPERTS_IDLE);
    if (!status)
        status = check_results(name, e, results);
    if (status)
        return status;
    struct experts_call c = combine_call(e, results, weights, layout);
    return send_results(e, &c, stream);
}

WEFT_EXPORT weft_status weft_experts_combine_receive_on_stream(weft_experts *e, void *dst,
                                                               float *weights_dst,
                                                               const void *layout,
                                                               weft_stream stream)
{
    static const char name[] = "weft_experts_combine_receive_on_stream";
    weft_status status = check_call(name, e, layout, stream);
    if (!status)
        status = check_step(name, e, EXPERTS_COMBINING);
    if (!status && e->combine.layout != layout)
        status = base_fail(WEFT_ERR_ARGUMENT, "%s: layout is %p, and that of the send was %p", name,
                           layout, (void *)e->combine.layout);
    if (!status)
        status = check_sums(name, dst, weights_dst, e->combine.result_weights);
    return status ? status : receive_sums(e, dst, weights_dst, stream);
}

WEFT_EXPORT weft_status weft_experts_combine_on_stream(weft_experts *e, void *dst,
                                                       float *weights_dst, const void *results,
                                                       const float *weights, const void *layout,
                                                       weft_stream stream)
{
    static const char name[] = "weft_experts_combine_on_stream";
    weft_status status = check_call(name, e, layout, stream);
    if (!status)
        status = check_step(name, e, EXPERTS_IDLE);
    if (!status)
        status = check_results(name, e, results);
    if (!status)
        status = check_sums(name, dst, weights_dst, weights);
    if (status)
        return status;
    struct experts_call c = combine_call(e, results, weights, layout);
    if (!c.slots) {
        status = send_results(e, &c, stream);
        return status ? status : receive_sums(e, dst, weights_dst, stream);
    }
    c.to = dst;
    c.to_sums = weights_dst;
    status = experts_launch(e, EXPERTS_short_combine, e->one_blocks, e->threads, &c, stream);
    if (!status)
        e->step = EXPERTS_IDLE;
    return status;
}
